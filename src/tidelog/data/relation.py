"""Relations: facts and answers as users see them, iterable and ready for Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import cached_property, lru_cache
from typing import Any, NamedTuple, TypeVar

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.data import decode
from tidelog.data.dictionary import Dictionary
from tidelog.data.rows import Ids
from tidelog.data.typed_columns import TEXT, Misfit, to_typed, types_of, with_mixed
from tidelog.errors import DataError, Diagnostic, codes, counted, suggest, visible
from tidelog.errors.codes import MISFIT
from tidelog.logic.conversions import exact
from tidelog.logic.program import Predicate
from tidelog.logic.type_inference import LazySchema, Schema
from tidelog.logic.types import ANY, MOMENT, Contents, Type
from tidelog.logic.values import Kind, Value

T = TypeVar("T")
SHOWN = 20  # rows of a representation


class Coded(NamedTuple):
    """Columns of ids, how many rows they have, and the dictionary that gives the ids their values."""

    columns: tuple[Ids, ...]
    rows: int
    dictionary: Dictionary


class Relation:
    """A set of rows with named columns; `sorted()` has an order that is the same in every run.

    >>> import tidelog as tl
    >>> reasoner = tl.Reasoner(tl.parse("parent(alice, bob). parent(bob, carol)."))
    >>> reasoner["parent"]
    parent: 2 rows
      c1     c2
      alice  bob
      bob    carol
    >>> sorted(reasoner["parent"])
    [('alice', 'bob'), ('bob', 'carol')]
    """

    def __init__(
        self,
        name: str,
        names: Sequence[str],
        columns: tuple[Ids, ...],
        rows: int,
        dictionary: Dictionary,
        schema: LazySchema | None = None,
    ) -> None:
        self.name = name
        self._infer = schema  # None of published rows, which say themselves what they are
        self.columns = tuple(names)
        self._columns = columns
        self._rows = rows
        self._dictionary = dictionary

    @property
    def coded(self) -> Coded:
        """The rows as ids, in no particular order, and the dictionary that decodes them."""
        return Coded(self._columns, self._rows, self._dictionary)

    @staticmethod
    def empty(
        name: str, names: Sequence[str], dictionary: Dictionary, schema: LazySchema | None = None
    ) -> Relation:
        """A relation without rows."""
        return Relation(name, names, tuple(np.zeros(0, np.int32) for _ in names), 0, dictionary, schema)

    @cached_property
    def contents(self) -> Schema:
        """What the columns hold, whatever rows there are: as declared, else as inferred."""
        if self._infer is not None:
            return self._infer()
        return tuple(Contents(types_of(self._dictionary, ids) or ANY) for ids in self._columns)

    @cached_property
    def _ids(self) -> tuple[Ids, ...]:
        """The rows in the order of their ids: of several threads, new values may get theirs in any order."""
        if not self._columns:
            return ()
        positions = np.lexsort(self._columns[::-1])
        return tuple(column[positions] for column in self._columns)

    def __len__(self) -> int:
        return self._rows

    def __bool__(self) -> bool:
        return self._rows > 0

    def __iter__(self) -> Iterator[tuple[Any, ...]]:
        """The rows as tuples of Python values."""
        return map(row_class(self.columns), self._values())

    def _values(self) -> Iterator[tuple[Any, ...]]:
        if not self._ids:
            return iter([()] * self._rows)
        return zip(*(decode.to_objects(self._dictionary, ids) for ids in self._ids), strict=True)

    def __getitem__(self, name: str) -> list[Any]:
        """The values of a column, in the order of the rows.

        >>> import tidelog as tl
        >>> tl.Reasoner("old(?who) :- age(?who, ?n), ?n > 70 . age(ann, 80) .")["old"]["who"]
        ['ann']
        """
        if name not in self.columns:
            help = suggest(str(name), self.columns) or f"its columns are {', '.join(self.columns) or 'none'}"
            message = f"`{self.name}` has no column `{name}`"
            raise DataError(Diagnostic(codes.NO_SUCH_COLUMN, message, help=help))
        place = self.columns.index(name)
        return [row[place] for row in self._values()]

    def __contains__(self, row: object) -> bool:
        """Whether a row of Python values is in the relation."""
        if not isinstance(row, tuple) or len(row) != len(self._columns):
            return False
        with self._dictionary.lock:
            ids = self._dictionary.encode_objects(row)
        found = np.ones(self._rows, bool)
        for column, identity in zip(self._columns, ids, strict=True):
            found &= column == identity
        return bool(found.any())

    def __eq__(self, other: object) -> bool:
        """Whether two relations hold the same rows."""
        if not isinstance(other, Relation):
            return NotImplemented
        return set(self.to_texts("exact").rows()) == set(other.to_texts("exact").rows())

    __hash__ = None  # type: ignore[assignment]

    # ---- ordered, as data

    def sorted(self) -> Relation:
        """The same rows in the total order of values, first column first."""
        places = decode.order(self._dictionary, self._ids, self._rows)
        return self._taken(places)

    def head(self, rows: int) -> Relation:
        """The first rows."""
        return self._taken(np.arange(min(rows, self._rows)))

    def _taken(self, places: npt.NDArray[np.int64]) -> Relation:
        """The rows at these places, in their order."""
        ids = tuple(column[places] for column in self._ids)
        taken = Relation(self.name, self.columns, ids, len(places), self._dictionary, lambda: self.contents)
        taken.__dict__["_ids"] = ids
        return taken

    def to_arrow(self, mixed: str = "text") -> pa.Table:
        """The rows as an Arrow table, whose columns have the types that are declared, else those inferred.

        A column of several types is text, with `mixed="exact"` text that shows the types, or with
        `mixed="struct"` a struct with a field for each type, of which one has a value. A value that its type
        cannot hold is an error.
        """
        return self.table_of(self.typed(to_typed, with_mixed(self.contents, mixed)))

    def typed(
        self, write: Callable[[Dictionary, Ids, Contents], T], schema: Sequence[Contents] | None = None
    ) -> list[T]:
        """Return what becomes of each column by what it holds; raise DataError if a value does not fit."""
        found = []
        for name, ids, contents in zip(self.columns, self._ids, schema or self.contents, strict=False):
            try:
                found.append(write(self._dictionary, ids, contents))
            except Misfit as misfit:
                raise misfit_error(misfit, name, self.name, contents) from None
        return found

    def each(self, write: Callable[[int, Dictionary, Ids], T]) -> list[T]:
        """Return what becomes of each column of values, given by its place and its ids."""
        return [write(position, self._dictionary, ids) for position, ids in enumerate(self._ids)]

    def table_of(self, columns: Sequence[pa.Array]) -> pa.Table:
        """The columns of values as a table, with any further columns of the rows."""
        if not self._ids:
            return _nullary_table(pa.array([True] * self._rows, pa.bool_()))
        return pa.Table.from_arrays(list(columns), names=list(self.columns))

    def to_texts(self, form: str = "plain") -> TextTable:
        """The rows as texts: `plain`, `field` (as in CSV), `exact` (terms of rules), `ntriples` or `json`."""
        if not self._ids:
            texts = pa.array(["true"] * self._rows, pa.large_string())
            return TextTable(_nullary_table(texts))
        arrays = [decode.to_texts(self._dictionary, ids, form) for ids in self._ids]
        return TextTable(pa.Table.from_arrays(arrays, names=list(self.columns)))

    def __arrow_c_stream__(self, requested_schema: object = None) -> object:
        return self.to_arrow().__arrow_c_stream__(requested_schema)

    def to_polars(self) -> Any:
        """The rows as a polars data frame."""
        import polars

        return polars.DataFrame(self.to_arrow())

    def to_pandas(self) -> Any:
        """The rows as a pandas data frame."""
        return self.to_arrow().to_pandas()

    # ---- shown

    def __repr__(self) -> str:
        lines = [f"{self.name}: {counted(self._rows, 'row')}"]
        if self.columns and self._rows:
            texts = [self.columns, *self.sorted().head(SHOWN).to_texts().rows()]
            rows = [tuple(map(visible, row)) for row in texts]
            widths = [max(len(row[position]) for row in rows) for position in range(len(self.columns))]
            for row in rows:
                cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
                lines.append("  " + "  ".join(cells).rstrip())
        if self._rows > SHOWN:
            lines.append(f"  … {self._rows - SHOWN:,} more")
        return "\n".join(lines)

    def _repr_html_(self) -> str:
        from html import escape

        rows = self.sorted().head(SHOWN).to_texts().rows()
        head = "".join(f"<th>{escape(name)}</th>" for name in self.columns)
        body = "".join("<tr>" + "".join(f"<td>{escape(cell)}</td>" for cell in row) + "</tr>" for row in rows)
        more = f", {SHOWN} shown" if self._rows > SHOWN else ""
        caption = f"<caption>{escape(self.name)}: {counted(self._rows, 'row')}{more}</caption>"
        return f"<table>{caption}<thead><tr>{head}</tr></thead><tbody>{body}</tbody></table>"


@lru_cache(maxsize=128)
def row_class(names: tuple[str, ...]) -> type[tuple[Any, ...]]:
    """Return the class of rows with these columns: tuples whose names pandas reads.

    pandas takes the names of columns from `_fields` of the first row, as named tuples have it.
    """
    return type("Row", (_Row,), {"__slots__": (), "_fields": names})


class _Row(tuple[Any, ...]):
    """A row: a tuple in all respects."""

    __slots__ = ()

    def __reduce__(self) -> tuple[Any, ...]:
        return tuple, (tuple(self),)


class TextTable:
    """Rows of texts."""

    def __init__(self, table: pa.Table) -> None:
        self.table = table

    def rows(self) -> list[tuple[str, ...]]:
        """The rows as tuples of texts."""
        columns = [column.to_pylist() for column in self.table.columns]
        return list(zip(*columns, strict=True))


def column_names(predicate: Predicate) -> tuple[str, ...]:
    """The names of a predicate's columns; `c1`, `c2`… where the program gives none."""
    return predicate.names


def misfit_error(misfit: Misfit, column: str, relation: str, contents: Contents) -> DataError:
    """The error of a value that the type of its column cannot hold."""
    shown = f"{contents}" if misfit.type == TEXT else f"{contents}, as {misfit.type}"
    message = f"column `{column}` of `{relation}` cannot hold `{exact(misfit.value)}`: it is {shown}"
    help = _help_for(misfit.value, contents)
    return DataError(Diagnostic(MISFIT, message, help=help))


def _help_for(value: Value, contents: Contents) -> str:
    """What to do about a value that its column cannot hold."""
    if value.kind is Kind.DATETIME and contents.types & MOMENT:
        if value.extra is not None and Type.DATETIME in contents.types:
            return "`--terms plain` writes the moment in UTC, `--terms exact` the time zone too, as text"
        return "declare the column `localDateTime` if its values have no time zone, or give them one"
    if contents.is_struct:
        return "without `mixed`, the column is text, which holds it; or convert the value in the rule"
    if value.kind is Kind.BIG and Type.INTEGER in contents.types:
        return "declare the column `decimal(38, 0)` and convert the value, or declare it `any`, as text"
    return "declare the column with a type that holds it, or convert the value in the rule"


def _nullary_table(values: pa.Array) -> pa.Table:
    """A predicate without arguments as data: one column `holds`, one row `true` if it holds."""
    return pa.Table.from_arrays([values], names=["holds"])
