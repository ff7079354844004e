"""The files of tables: rows of ids written as Parquet, and read back as ids of any engine.

Invariant: of the changes of a table, those that went were there, and those that came were not; so that the
changes of several versions can be put together without looking at the base.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidelog.durable import sync_file, sync_folder
from tidelog.engine.columnar.evaluate import ColumnarEngine
from tidelog.errors import DataError, Diagnostic, counted
from tidelog.io.formats import file_name
from tidelog.logic.values import ColumnType
from tidelog.maintenance.maintainer import Rows
from tidelog.maintenance.row_sets import joined, without
from tidelog.pipeline import codes
from tidelog.pipeline.manifest import ADDED, BASE, REMOVED, Part, Parts
from tidelog.pipeline.stored import from_table, kinds_fit, to_table, types_of
from tidelog.pipeline.times import Layout, ids_in, time_arrays, time_types

FACTS: Final = "facts"  # all of them
STATED: Final = "stated"  # those that are explicit
MOST_CHANGES = 32  # files of changes, from which they are put together
MANY_CHANGED = 4096  # changed rows, from which a base may be written anew
MANY_ROWS = 1 << 16  # of a file that several threads read
SHARE_CHANGED = 0.25  # … if they are more than this share of it


@dataclass(frozen=True, slots=True)
class Changed:
    """The rows of a table that went and that came."""

    removed: Rows
    added: Rows

    @property
    def count(self) -> int:
        """How many rows changed."""
        return self.removed.count + self.added.count

    def then(self, later: Changed) -> Changed:
        """Both changes, one after the other."""
        if not self.count:
            return later
        if not later.count:
            return self
        both = joined([without(self.removed, later.added), without(later.removed, self.added)])
        return Changed(both, joined([without(self.added, later.removed), without(later.added, self.removed)]))

    @property
    def inverse(self) -> Changed:
        """The change that undoes this one."""
        return Changed(self.added, self.removed)


Changes = Mapping[str, Changed]  # by predicate


def nothing(arity: int) -> Rows:
    """No rows, of so many columns."""
    return Rows(tuple(np.zeros(0, np.int32) for _ in range(arity)), 0)


def no_change(arity: int) -> Changed:
    """No change of a table of so many columns."""
    return Changed(nothing(arity), nothing(arity))


class TableReader:
    """Reads files of a published folder as rows of ids of an engine."""

    def __init__(self, path: Path, engine: ColumnarEngine) -> None:
        self._path = path
        self._engine = engine

    def rows(self, parts: Parts, arity: int) -> Rows:
        """The rows that the files of a table say."""
        bases = [self.part(part) for part in parts if part.role == BASE]
        rows = joined(bases) if bases else nothing(arity)
        changed = self.changes(parts, arity)
        if changed.removed.count:
            rows = without(rows, changed.removed)
        return joined([rows, changed.added]) if changed.added.count else rows

    def changes(self, parts: Parts, arity: int) -> Changed:
        """The changes among the files of a table, put together."""
        changed = no_change(arity)
        for part in parts:
            if part.role == REMOVED:
                changed = changed.then(Changed(self.part(part), nothing(arity)))
            elif part.role == ADDED:
                changed = changed.then(Changed(nothing(arity), self.part(part)))
        return changed

    def part(self, part: Part) -> Rows:
        """The rows of a file."""
        table = read_part(self._path, part)
        if not part.times:
            return from_table(table, part.types, self._engine)
        first = len(part.types) - part.times
        arguments = from_table(table.select(range(first)), part.types[:first], self._engine)
        pairs = zip(table.columns[first:], part.types[first:], strict=True)
        times = (ids_in(column, kind, self._engine.dictionary) for column, kind in pairs)
        return Rows((*arguments.columns, *times), table.num_rows)


def read_part(path: Path, part: Part) -> pa.Table:
    """The rows of a file, texts with their dictionary; raises `DataError` if it is not what it should be."""
    file = path / part.path
    try:
        with pq.ParquetFile(file) as parquet:
            table = parquet.read(use_threads=part.rows > MANY_ROWS)
    except (OSError, pa.ArrowException) as error:
        raise DataError(_damaged(file, str(error).splitlines()[0])) from None
    if table.num_rows != part.rows:
        raise DataError(_damaged(file, f"it has {counted(table.num_rows, 'row')} instead of {part.rows:,}"))
    return table


def _damaged(file: Path, reason: str) -> Diagnostic:
    help = "publish anew with --full, or go back to a version that is whole"
    return Diagnostic(codes.DAMAGED, f"`{file}` is damaged: {reason}", place=str(file), help=help)


class TableWriter:
    """Writes the files of one version. Mutates the disk."""

    def __init__(self, path: Path, folder: Path, engine: ColumnarEngine) -> None:
        self._path = path  # of all versions
        self._folder = folder  # of this version
        self._engine = engine
        self._made: set[Path] = set()

    def base(self, kind: str, name: str, rows: Rows, layout: Layout) -> Parts:
        """The files of all rows of a table."""
        return (self._write(kind, name, BASE, rows, layout, None),) if rows.count else ()

    def changed(self, name: str, changed: Changed, layout: Layout, parts: Parts, kind: str) -> Parts:
        """The files of what changes in a table whose files were these."""
        types = types_in(parts)
        return tuple(
            self._write(kind, name, role, rows, layout, types)
            for role, rows in ((REMOVED, changed.removed), (ADDED, changed.added))
            if rows.count
        )

    def extended(self, kind: str, name: str, parts: Parts, more: Parts, layout: Layout) -> Parts:
        """The files of a table with changes; many small ones are put together."""
        changes = [part for part in (*parts, *more) if part.role != BASE]
        if len(changes) <= MOST_CHANGES:
            return (*parts, *more)
        reader = TableReader(self._path, self._engine)
        net = reader.changes(tuple(changes), len(layout.names))
        bases = tuple(part for part in parts if part.role == BASE)
        return (*bases, *self.changed(f"{name}.net", net, layout, bases, kind))

    def _write(
        self,
        kind: str,
        name: str,
        role: str,
        rows: Rows,
        layout: Layout,
        wanted: tuple[ColumnType, ...] | None,
    ) -> Part:
        """The file of some rows, of the wanted types if the arguments fit these."""
        file = self._folder / kind / file_name(f"{name}.{role}", "parquet")
        if file.parent not in self._made:
            file.parent.mkdir(parents=True, exist_ok=True)
            self._made.add(file.parent)
        table, types = self._table(rows, layout, wanted)
        pq.write_table(table, file, compression="zstd")
        sync_file(file)
        return Part(str(file.relative_to(self._path)), role, rows.count, types, layout.times)

    def _table(
        self, rows: Rows, layout: Layout, wanted: tuple[ColumnType, ...] | None
    ) -> tuple[pa.Table, tuple[ColumnType, ...]]:
        """The rows as Arrow data, and the types by which they are stored."""
        dictionary, count = self._engine.dictionary, layout.arguments
        arguments = Rows(rows.columns[:count], rows.count)
        types = types_of(arguments, dictionary)
        if wanted is not None and kinds_fit(arguments, wanted[:count], dictionary):
            types = wanted[:count]
        if not layout.times:
            return to_table(arguments, dictionary, layout.names, types), types
        times = time_types(rows, layout, dictionary)
        arrays = to_table(arguments, dictionary, layout.names[:count], types).columns if count else []
        arrays = [*arrays, *time_arrays(rows, layout, times, dictionary)]
        return pa.Table.from_arrays(arrays, names=list(layout.names)), (*types, *times)

    def sync(self) -> None:
        """The names of all files are on the disk."""
        for folder in (*self._made, self._folder):
            sync_folder(folder)


def is_worn(parts: Parts, more: int = 0) -> bool:
    """Whether so much of a table has changed, and more changes now, that it is better written anew."""
    changed = more + sum(part.rows for part in parts if part.role != BASE)
    base = sum(part.rows for part in parts if part.role == BASE)
    return changed > max(MANY_CHANGED, SHARE_CHANGED * base)


def count_rows(parts: Parts) -> int:
    """How many rows a table of these files has."""
    return sum(-part.rows if part.role == REMOVED else part.rows for part in parts)


def types_in(parts: Iterable[Part]) -> tuple[ColumnType, ...] | None:
    """The types by which rows of files are stored, terms where they differ; None if there are no files."""
    types: tuple[ColumnType, ...] | None = None
    for part in parts:
        if types is None:
            types = part.types
        elif types != part.types:
            pairs = zip(types, part.types, strict=True)
            types = tuple(one if one is other else ColumnType.TERM for one, other in pairs)
    return types
