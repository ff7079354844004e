"""Published versions as Python reads them: relations, and what changed between two versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow.compute as pc

from tidelog.data.dictionary import Dictionary
from tidelog.data.relation import Relation
from tidelog.engine.columnar.storage.catalog import ColumnarEngine
from tidelog.errors import DataError, Diagnostic
from tidelog.io.python_data import from_python
from tidelog.io.rejects import Faults, OnError
from tidelog.logic.program import Predicate
from tidelog.logic.types import Contents, types_of_column
from tidelog.logic.values import ColumnType
from tidelog.maintenance.maintainer import NetChange
from tidelog.maintenance.row_sets import Rows
from tidelog.pipeline import codes
from tidelog.pipeline.drops import public_name
from tidelog.pipeline.facts import Changed, nothing
from tidelog.pipeline.manifest import Manifest
from tidelog.pipeline.store import Store
from tidelog.pipeline.times import Layout, ids_in, times_in
from tidelog.publish.schemas import CHANGE_TYPE, NUMBER
from tidelog.publish.tables import DELETE, INSERT
from tidelog.reasoner.delta import Delta, PredicateDelta, find_predicate
from tidelog.temporal.periodic_relation import PeriodicRelation
from tidelog.temporal.relation import INTERVAL, TimedRelation

PIECE: Final = 1 << 15  # rows of a piece


class Version:
    """A published version: a mapping from predicates to their facts."""

    def __init__(self, store: Store, manifest: Manifest) -> None:
        self.store = store
        self.manifest = manifest
        self._engine = ColumnarEngine(1)

    @property
    def number(self) -> int:
        """Its number."""
        return self.manifest.version

    @cached_property
    def predicates(self) -> dict[str, Predicate]:
        """Its predicates, by their full names; `written` is the name of the table."""
        return predicates_of(self.manifest)

    def __iter__(self) -> Iterator[str]:
        return iter(self.manifest.tables)

    def __getitem__(self, name: str) -> Relation:
        """Return all facts of a predicate."""
        table = self._table(name)
        rows = encoded(table, self.to_arrow(table), self.manifest, self._engine)
        return relation_of(table, rows, self.manifest, self._engine.dictionary)

    def pieces(self, name: str) -> Iterator[Relation]:
        """Yield all facts of a predicate, some at a time, so that they need not fit in memory."""
        table = self._table(name)
        for rows in self.store.published.pieces(table, PIECE, self.manifest.published):
            engine = ColumnarEngine(1)
            known = encoded(table, rows.cast(self.manifest.tables[table].schema), self.manifest, engine)
            yield relation_of(table, known, self.manifest, engine.dictionary)

    def to_arrow(self, name: str) -> Any:
        """Return all facts of a predicate as an Arrow table."""
        return self.store.read(self._table(name), self.manifest.published)

    def files(self, name: str) -> list[str]:
        """Return the Parquet files that hold the facts of a predicate."""
        return list(self.store.published.files(self._table(name), self.manifest.published))

    def _table(self, name: str) -> str:
        return find_predicate(name, self.predicates).written

    def _earlier(self) -> Manifest | None:
        """Return the version that came before this one."""
        before = self.manifest.parent
        if before is not None and before not in self.store.numbers():
            message = f"version {before} is no longer published, so what came after it is not known"
            raise DataError(Diagnostic(codes.NO_VERSION, message, place=self.store.shown))
        return None if before is None else self.store.manifest(before)

    def changed_pieces(self, name: str) -> Iterator[tuple[str, Relation]] | None:
        """Return what `changes` does, some rows at a time: whether they came or went, and the rows.

        None if no change feed says it: rows of the two versions have to be compared.
        """
        table, earlier = find_predicate(name, self.predicates).written, self._earlier()
        if earlier and table in earlier.tables and not _is_alike(self.store, table, earlier, self.manifest):
            return None
        after = earlier.version if earlier else 0
        pieces = self.store.published.change_pieces(table, PIECE, after, self.number)
        return self._by_kind(table, pieces)

    def _by_kind(self, table: str, pieces: Iterator[Any]) -> Iterator[tuple[str, Relation]]:
        for piece in pieces:
            engine = ColumnarEngine(1)
            for kind, rows in zip((INSERT, DELETE), by_kind(piece), strict=True):
                if rows.num_rows:
                    known = encoded(table, rows, self.manifest, engine)
                    yield kind, relation_of(table, known, self.manifest, engine.dictionary)

    def changes(self, name: str) -> PredicateDelta:
        """Return what the version changed in a predicate, which it may have dropped."""
        earlier = self._earlier()
        known = {**(predicates_of(earlier) if earlier else {}), **self.predicates}
        table = find_predicate(name, known).written
        changed, of = _changed(self.store, table, earlier, self.manifest, self._engine)
        dictionary = self._engine.dictionary
        both = (relation_of(table, rows, of, dictionary) for rows in (changed.added, changed.removed))
        return PredicateDelta(table, *both)


def predicates_of(manifest: Manifest) -> dict[str, Predicate]:
    """Return the predicates of a version, by their full names."""
    found = (predicate_of(table, manifest) for table in manifest.tables)
    return {predicate.name: predicate for predicate in found}


def predicate_of(table: str, manifest: Manifest) -> Predicate:
    """Return the predicate of a table."""
    schema, types = manifest.tables[table].schema, manifest.origin.types[table]
    found = tuple(map(ColumnType, types))
    name = public_name(manifest.origin.names.get(table, table))
    return Predicate(name, len(found), tuple(schema.names[: len(found)]), found, table)


def relation_of(name: str, rows: Rows, manifest: Manifest, dictionary: Dictionary) -> Relation:
    """Return rows of a version's table as a relation."""
    predicate, origin = predicate_of(name, manifest), manifest.origin
    schema = tuple(Contents(types_of_column(of)) for of in predicate.types)
    names = tuple(each or "" for each in predicate.columns)
    if not origin.times.get(name):
        return Relation(name, names, rows.columns, rows.count, dictionary, lambda: schema)
    named = manifest.tables[name].schema.names
    layout = Layout(tuple(named), origin.times[name], origin.is_calendar)
    times, every = times_in(rows, layout, dictionary, origin.is_integer_time)
    columns = rows.columns[: layout.arguments]
    ends = times.left, times.right
    parts = name, names, columns, *ends, dictionary, times.timeline, INTERVAL, lambda: schema
    if every is None or not every.any():
        return TimedRelation(*parts)
    return PeriodicRelation(*parts, every=every)


def encoded(name: str, table: Any, manifest: Manifest, engine: ColumnarEngine) -> Rows:
    """Return rows of a version's table as ids."""
    predicate = predicate_of(name, manifest)
    if not predicate.arity and not manifest.origin.times.get(name):
        return Rows((), table.num_rows)
    parts: list[list[Any]] = [[] for _ in range(predicate.arity)]
    arguments = table.select(range(predicate.arity))
    for batch in from_python(arguments, predicate.types, predicate.columns, Faults(OnError.FAIL)):
        for place, column in enumerate(batch.columns):
            parts[place].append(engine.encode_column(column))
    columns = [np.concatenate(some) if some else np.zeros(0, np.int32) for some in parts]
    for column in table.columns[predicate.arity :]:
        columns.append(ids_in(column, _TIMES[str(column.type)], engine.dictionary))
    return Rows(tuple(columns), table.num_rows)


_TIMES = {
    "int64": ColumnType.INTEGER,
    "bool": ColumnType.BOOLEAN,
    "string": ColumnType.STRING,
    "timestamp[us, tz=UTC]": ColumnType.DATETIME,
}


def read(
    path: Path | str, version: int | str | None = None, storage: Mapping[str, str] | None = None
) -> Version:
    """Return a version of a published folder, by default the current one.

    `failed` is the one that the last run has set aside, as a guard or an expectation does not hold. The path
    may be an address, `s3://bucket/folder`; `storage` has what `[storage]` of job files has.
    """
    store = Store(path, storage=storage)
    return Version(store, store.looked_at(version))


class VersionDelta(Delta):
    """What differs between two versions."""

    def __init__(
        self,
        changes: Mapping[str, tuple[Changed, Manifest]],
        known: Mapping[str, Predicate],
        engine: ColumnarEngine,
        number: int,
    ) -> None:
        net = NetChange(
            {name: changed.added for name, (changed, _) in changes.items() if changed.added.count},
            {name: changed.removed for name, (changed, _) in changes.items() if changed.removed.count},
        )
        self._manifests = {name: manifest for name, (_, manifest) in changes.items()}
        super().__init__(net, known, engine.dictionary, number)

    def _relation(self, predicate: Predicate, change: Mapping[str, Rows]) -> Relation:
        rows, manifest = change.get(predicate.name), self._manifests[predicate.name]
        if rows is None:
            rows = nothing(_width(predicate.written, manifest))
        return relation_of(predicate.written, rows, manifest, self._dictionary)


def difference(store: Store, first: int | str, second: int | str) -> Delta:
    """Return what changed between two versions, whichever is the later one; each may be `failed`."""
    one, other = store.looked_at(first), store.looked_at(second)
    low, high = (one, other) if one.version <= other.version else (other, one)
    engine = ColumnarEngine(1)
    known = {**predicates_of(low), **predicates_of(high)}
    changes = {}
    for name, predicate in known.items():
        changed, of = _changed(store, predicate.written, low, high, engine)
        changes[name] = (changed if low is one else changed.inverse, of)
    return VersionDelta(changes, known, engine, other.version)


def _changed(
    store: Store, table: str, low: Manifest | None, high: Manifest, engine: ColumnarEngine
) -> tuple[Changed, Manifest]:
    """Return what changed in a table after a version, None if there was none, and whose columns it has.

    The change feed of the table says it, or comparing all rows if that does not.
    """
    old, new = low.tables.get(table) if low else None, high.tables.get(table)
    of = high if new is not None or low is None else low
    none = nothing(_width(table, of))
    if old is not None and new is not None and old.changed_in == new.changed_in:
        return Changed(none, none), of
    if low is None or old is None:
        return Changed(none, _rows(store, table, high, engine)), of
    if new is None:
        return Changed(_rows(store, table, low, engine), none), of
    if table not in high.published.uncommitted and _is_alike(store, table, low, high):
        feed = store.changes(table, low.version, high.version)
        changed = Changed(none, none)
        for number in sorted(set(feed.column(NUMBER).to_pylist())):
            inserted, deleted = by_kind(feed.filter(pc.equal(feed.column(NUMBER), number)))
            changed = changed.then(
                Changed(*(encoded(table, each, of, engine) for each in (deleted, inserted)))
            )
        return changed, of
    before, after = (_rows(store, table, each, engine) for each in (low, high))
    if len(before.columns) != len(after.columns):  # another predicate of the same name
        return Changed(none, after), of
    return Changed.between(before, after), of


def _is_alike(store: Store, table: str, low: Manifest, high: Manifest) -> bool:
    """Return whether a table has the same columns, read in the same way, in all versions from one to another.

    Text may be a string, an IRI or an exact term: that is not in the schema of the table.
    """
    numbers = [each for each in store.numbers() if low.version <= each < high.version]
    if len(numbers) != high.version - low.version:
        return False
    wanted = _reading(table, high)
    return all(_reading(table, store.manifest(number)) == wanted for number in numbers)


def _reading(table: str, manifest: Manifest) -> object:
    origin = manifest.origin
    found = manifest.tables.get(table)
    times = origin.times.get(table, 0)
    clock = (origin.is_integer_time, origin.is_calendar) if times else None
    return None if found is None else (found.schema, origin.types[table], times, clock)


def _width(table: str, manifest: Manifest) -> int:
    """Return how many columns the rows of a table have as ids."""
    return len(manifest.origin.types[table]) + manifest.origin.times.get(table, 0)


def _rows(store: Store, table: str, manifest: Manifest, engine: ColumnarEngine) -> Rows:
    return encoded(table, store.read(table, manifest.published), manifest, engine)


def by_kind(changed: Any) -> tuple[Any, Any]:
    """Return the rows of a change feed that were inserted, and those that were deleted."""
    kinds = changed.column(CHANGE_TYPE)
    columns = changed.drop_columns([CHANGE_TYPE, NUMBER])
    return columns.filter(pc.equal(kinds, INSERT)), columns.filter(pc.equal(kinds, DELETE))
