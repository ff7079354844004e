"""What is known of loaded data: the files it came from, and the types of its columns. Mutates itself.

The types of a column are those of its declaration; else they are inferred from the facts and imports of the
program, and from loaded data: the types of a data frame's columns, and those of values in rows of Python,
never those of derived rows.
Invariant: the types of data only grow, so that what is inferred later holds for earlier rows too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tidelog.data.typed_columns import types_of
from tidelog.errors import Diagnostic
from tidelog.io.data_file import InputFile
from tidelog.logic.program import Fact, Predicate, Program, Query, Transfer
from tidelog.logic.type_inference import (
    Columns,
    Inferred,
    Schema,
    infer_answers,
    infer_columns,
    types_of_facts,
    united,
)
from tidelog.logic.types import ANY, NEVER, Contents, Type

if TYPE_CHECKING:
    from tidelog.engine.columnar.engine import ColumnarEngine

_LITERAL = frozenset({Type.LITERAL})
WITH_SCHEMAS = ("parquet", "arrow")  # formats of files that say what their columns hold


class LoadedData:
    """The files that the facts of each predicate came from, and the types of their columns."""

    def __init__(self, engine: ColumnarEngine, rows: Callable[[str], Sequence[Any]]) -> None:
        self.types = Schemas(engine, rows)
        self.inserted: set[str] = set()  # predicates of which some facts came from no file
        self._files: dict[str, dict[InputFile, None]] = {}

    def note(self, name: str, file: InputFile | None = None) -> None:
        """Note that facts of a predicate were loaded, from a file or otherwise."""
        self.note_origin(name, file)
        self.types.note(name, file)

    def note_rows(self, name: str, columns: Sequence[Any]) -> None:
        """Note that these facts of a predicate were inserted, as columns of ids."""
        self.note_origin(name, None)
        self.types.note_rows(name, columns)

    def note_origin(self, name: str, file: InputFile | None) -> None:
        """Note that facts of a predicate came from a file, None if they came otherwise."""
        if file is None:
            self.inserted.add(name)
        else:
            self._files.setdefault(name, {})[file] = None

    def files(self, name: str) -> tuple[InputFile, ...]:
        """Return the files that facts of a predicate came from."""
        return tuple(self._files.get(name, ()))


class Schemas:
    """The types of data that was loaded, by predicate."""

    def __init__(self, engine: ColumnarEngine, rows: Callable[[str], Sequence[Any]]) -> None:
        self._engine = engine
        self._rows = rows  # the columns of explicit facts
        self._types: dict[str, Columns] = {}
        self.unread: set[str] = set()  # predicates whose facts were not read since they were loaded
        self._facts: tuple[tuple[Fact, ...], Mapping[str, Columns]] = (), {}
        self._last: SchemasOf | None = None

    def note(self, name: str, file: InputFile | None = None) -> None:
        """Note that facts of a predicate were loaded, from a file or otherwise."""
        self._last = None
        if file is None or file.format in WITH_SCHEMAS:
            self.unread.add(name)
        elif file.types is None or not file.names:
            self._types[name] = ()  # text without declared types: anything

    def note_rows(self, name: str, columns: Sequence[Any]) -> None:
        """Note facts of a predicate by their ids."""
        if name in self.unread:
            return
        found = tuple(types_of(self._engine.storage.dictionary, ids) for ids in columns)
        before = self._types.get(name)
        if before is None or (before and united(before, found) != before):
            self._types[name] = found if before is None else united(before, found)
            self._last = None

    def noted(self) -> dict[str, Columns]:
        """Return the types of all loaded data, by predicate; no types where it may be anything."""
        self._read_all()
        return dict(self._types)

    def restore(self, types: Mapping[str, Columns]) -> None:
        """Note the types of data that another reasoner has loaded, whose facts this one has."""
        for name, columns in types.items():
            before = self._types.get(name)
            self._types[name] = columns if before is None else united(before, columns) if before else before
        self._last = None

    def now(self, program: Program, facts: tuple[Fact, ...]) -> SchemasOf:
        """Return the schemas for a program that states these facts."""
        last = self._last
        if last is None or last.program is not program or last.facts is not facts:
            last = self._last = SchemasOf(program, facts, self)
        return last

    def given(self, program: Program, facts: tuple[Fact, ...]) -> dict[str, Columns]:
        """Return the types of the program's facts and of loaded data."""
        self._read_all()
        if self._facts[0] is not facts:
            self._facts = facts, types_of_facts(facts)
        found = dict(self._facts[1])
        for name, columns in self._types.items():
            arity = program.predicates[name].arity if name in program.predicates else len(columns)
            columns = columns if len(columns) == arity else (ANY,) * arity
            found[name] = united(found.get(name, columns), columns)
        return found

    def _read_all(self) -> None:
        with self._engine.storage.dictionary.lock:
            for name in list(self.unread):
                self.unread.discard(name)
                self.note_rows(name, self._rows(name))


@dataclass(frozen=True)
class SchemasOf:
    """What the columns of relations hold that a program derives, inferred on first use."""

    program: Program
    facts: tuple[Fact, ...]
    data: Schemas

    @cached_property
    def inferred(self) -> Inferred:
        """The types of all columns."""
        given = self.data.given(self.program, self.facts)
        known = self.program.predicates
        imports = tuple(
            each
            for each in self.program.imports
            if known[each.predicate].declared or not _has_schema(each, given)
        )
        # Literals of a type that no declaration names are missing values that are kept.
        nulls = {
            name: tuple(NEVER if each == ANY else each & _LITERAL for each in columns)
            for name, columns in given.items()
        }
        return infer_columns(replace(self.program, imports=imports), given, nulls)

    def of(self, predicate: Predicate) -> Schema:
        """Return what the columns of a predicate hold."""
        return self.inferred.schema(predicate)

    def of_answers(self, query: Query, variables: Sequence[str] | None = None) -> Schema:
        """Return what the columns of the answers to a query hold."""
        columns, _ = infer_answers(query.rule, self.inferred, self.program)
        found = dict(zip(query.variables, columns, strict=True))
        return tuple(Contents(found.get(name, ANY)) for name in variables or query.variables)

    def warnings(self, query: Query) -> tuple[Diagnostic, ...]:
        """Return what can never match in a query."""
        return infer_answers(query.rule, self.inferred, self.program)[1]


def _has_schema(transfer: Transfer, given: Mapping[str, Columns]) -> bool:
    """Whether the data of an import has been loaded, and says what its columns hold."""
    return transfer.types is None and transfer.format in WITH_SCHEMAS and transfer.predicate in given
