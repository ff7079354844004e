"""Sources with versions of their own: Delta and Iceberg tables of others, read whole or by what changed.

What a table's change feed tells is not yet what changes in facts: rows may repeat, columns that are not read
may tell them apart, and texts that differ may be the same value. A row that came is a fact now, unless it
went again. Of those that went, the ones still there are looked for among the rows that the table has.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field, replace
from functools import cached_property
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.errors import DataError
from tidelog.io.arrow_data import Wanted, read_arrow_data, wanted_columns
from tidelog.io.columns import Batch
from tidelog.io.rejects import Faults, OnError
from tidelog.io.source import time_types_of
from tidelog.logic.equality import has_equality
from tidelog.logic.program import Program
from tidelog.logic.values import ColumnType
from tidelog.maintenance.row_sets import Rows, codes_of, distinct, joined, taken, without
from tidelog.pipeline.filters import Filter
from tidelog.pipeline.manifest import Input, Manifest
from tidelog.pipeline.settings import Settings, Source
from tidelog.pipeline.source_files import columns_and_types, find_predicate_of, placed, table_of
from tidelog.publish.foreign_tables import ForeignTable, SourceTable
from tidelog.publish.schemas import CHANGE_TYPE, NUMBER
from tidelog.publish.tables import DELETE
from tidelog.reasoner.transaction import Change

MOST_LOOKED_UP: Final = 1_000  # values of a column by which files are passed over


@dataclass(frozen=True)
class Versioned:
    """The table of a source, looked up once in a run: all of the run reads the same version."""

    source: Source
    settings: Settings
    program: Program

    @cached_property
    def found(self) -> ForeignTable:
        """The version that the run reads."""
        return table_of(self.source, self.settings)

    @property
    def columns(self) -> tuple[str, ...]:
        """What the table calls its columns, with their types."""
        return tuple(sorted(f"{each.name}: {each.type}" for each in self.found.schema))

    def noted(self, found: Input) -> Input:
        """Return an input with the version that is read."""
        return replace(found, version=self.found.version, identity=self.found.identity)

    def is_same(self, before: Input) -> bool:
        """Whether an input has the version that a run would read."""
        return (self.found.version, self.found.identity) == (before.version, before.identity)

    # ---- rows

    @cached_property
    def _reading(self) -> tuple[Wanted, tuple[str, ...]]:
        source, names = self.source, self.found.schema.names
        predicate = find_predicate_of(source, self.program)
        types, called = columns_and_types(source, self.program, predicate)
        types = (*types, *time_types_of(source.times, "parquet"))
        with placed(source):
            called = () if ColumnType.SKIP in types else called
            found = wanted_columns(self.found.schema, types, called, source.shown)
        places = tuple(dict.fromkeys(found.places))
        wanted = replace(found, places=tuple(map(places.index, found.places)), times=len(source.times))
        return wanted, tuple(names[place] for place in places)

    @property
    def wanted(self) -> Wanted:
        """What is read of `read_columns`."""
        return self._reading[0]

    @property
    def read_columns(self) -> tuple[str, ...]:
        """The names of the columns that are read."""
        return self._reading[1]

    def read(self, faults: Faults) -> Iterator[Batch]:
        """Yield all rows."""
        wanted, table = self.wanted, self._table
        yield from _counted(read_arrow_data(table.batches(self.read_columns), wanted, faults), faults)

    @property
    def _table(self) -> SourceTable:
        with placed(self.source):
            return self.found.table

    def still(self, change: Change, rows: Rows, among: Mapping[str, pa.Array], filter: Filter | None) -> Rows:
        """Return those of some facts that rows of the table are; only rows with some values are read."""
        faults = Faults(OnError.SKIP)
        is_here = np.zeros(rows.count, dtype=bool)
        batches = self._table.batches(self.read_columns, among)
        for batch in read_arrow_data(batches, self.wanted, faults):
            kept = batch if filter is None else filter.keep(batch)
            codes = codes_of(joined([rows, change.encode_batch(kept)]))
            is_here |= np.isin(codes[: rows.count], codes[rows.count :])
        return taken(rows, is_here)

    # ---- changes

    def feed(self, before: Input, filter: Filter | None) -> Feed:
        """Return what changed since an input was read; raise `NoFeedError` if all rows must be compared."""
        if before.identity != self.found.identity:
            raise NoFeedError("it is another table than it was")
        if before.version is None or before.is_edited:
            raise NoFeedError("its facts have been changed otherwise since it was read")
        try:
            changes = self.found.changes(before.version)
        except DataError as error:
            raise NoFeedError(error.diagnostics[0].message) from error
        is_deleted = pc.equal(changes.column(CHANGE_TYPE), DELETE)
        rows = changes.drop_columns([CHANGE_TYPE, NUMBER])
        came, went = rows.filter(pc.invert(is_deleted)), rows.filter(is_deleted)
        parts = [self._facts(each.select(list(self.read_columns)), filter) for each in (came, went)]
        (inserted, more), (deleted, less) = parts
        tally = replace(
            before,
            rows=before.rows + came.num_rows - went.num_rows,
            filtered=before.filtered + more - less,
        )
        return Feed(self, filter, tuple(inserted), tuple(deleted), went, came.num_rows, self.noted(tally))

    def _facts(self, rows: Any, filter: Filter | None) -> tuple[list[Batch], int]:
        """Return rows as facts, and how many the filter leaves out."""
        faults = Faults(OnError.SKIP)
        found = list(read_arrow_data([rows], self.wanted, faults))
        if faults.skipped or sum(batch.rows for batch in found) != rows.num_rows:
            raise NoFeedError("rows that came or went cannot be read")
        kept = found if filter is None else [filter.keep(batch) for batch in found]
        return kept, rows.num_rows - sum(batch.rows for batch in kept)


class NoFeedError(Exception):
    """Why what changed in a table is not known, or does not tell what changes in facts."""


@dataclass(frozen=True)
class Feed:
    """What changed in the table of a source since it was last read."""

    table: Versioned
    filter: Filter | None
    inserted: tuple[Batch, ...]
    deleted: tuple[Batch, ...]
    went: Any = field(repr=False)  # the rows that were deleted
    came: int
    input: Input  # what the manifest says of the source now

    @property
    def shown(self) -> str:
        """What is said of it."""
        found = self.input
        return f"{found.shown}: +{self.came:,} −{self.went.num_rows:,} to version {found.version}"

    def apply(self, change: Change, name: str, still: Callable[[Rows], Rows] | None = None) -> None:
        """Change facts of a predicate accordingly; `still` gives those of deleted rows that are there yet."""
        inserted, deleted = (
            distinct([change.encode_batch(each) for each in some]) if some else None
            for some in (self.inserted, self.deleted)
        )
        if deleted is None or not deleted.count:
            if inserted is not None:
                change.correct_rows(name, inserted, None)
            return
        here = still(deleted) if still else self.table.still(change, deleted, self._lookup(), self.filter)
        gone = without(deleted, here)
        present = here if inserted is None else distinct([without(inserted, gone), here])
        change.correct_rows(name, present, gone)

    def _lookup(self) -> Mapping[str, pa.Array]:
        """Return values that rows of the same facts have, in columns where no other value means the same."""
        found = {}
        for name in self.table.read_columns:
            values = pc.unique(self.went.column(name))
            is_plain = pa.types.is_integer(values.type) or pa.types.is_date(values.type)
            if is_plain and not values.null_count and len(values) <= MOST_LOOKED_UP:
                found[name] = values
        return found


def feed_of(
    name: str,
    inputs: Mapping[str, Versioned | None],
    filter: Callable[[], Filter | None],
    program: Program,
    before: Manifest,
    marks: str,
    reached: Callable[[str, str], None],
) -> Feed | None:
    """Return what changed in the only input of a predicate, None if its rows must be compared.

    `inputs` are the inputs of the predicate, each with its table if it has one. The listeners are told why
    rows are compared.
    """
    tables = [(key, table) for key, table in inputs.items() if table is not None]
    if not tables:
        return None
    key, table = tables[0]
    then = [key for key, each in before.inputs.items() if each.predicate == name]
    try:
        if len(inputs) > 1 or then != [key]:
            raise NoFeedError("its predicate has other sources, or had some")
        if table.source.times:
            raise NoFeedError("its facts hold at times")
        if has_equality(program.predicates):
            raise NoFeedError("the program has equality")
        if before.inputs[key].marks != marks:
            raise NoFeedError("it is read in another way")
        return table.feed(before.inputs[key], filter())
    except NoFeedError as reason:
        reached("compared", f"all rows of {table.source.shown}: {reason}")
        return None


def _counted(batches: Iterator[Batch], faults: Faults) -> Iterator[Batch]:
    for batch in batches:
        faults.rows += batch.rows
        yield batch
