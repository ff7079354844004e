"""Published versions as Python reads them: relations, and what changed between two versions."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from functools import cached_property
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow.compute as pc

from tidelog.changes import Delta, PredicateDelta, find_predicate
from tidelog.engine.columnar.dictionary import Dictionary
from tidelog.engine.columnar.evaluate import ColumnarEngine
from tidelog.errors import DataError
from tidelog.io.faults import Faults, OnError
from tidelog.io.objects import from_python
from tidelog.logic.program import Predicate
from tidelog.logic.types import Contents, types_of_column
from tidelog.logic.values import ColumnType
from tidelog.maintenance.maintainer import NetChange, Rows
from tidelog.pipeline.facts import Changed, nothing
from tidelog.pipeline.manifest import Manifest
from tidelog.pipeline.store import Store
from tidelog.pipeline.times import Layout, ids_in, times_in
from tidelog.publish.schemas import CHANGE_TYPE, NUMBER
from tidelog.publish.tables import DELETE, INSERT
from tidelog.relation import Relation
from tidelog.temporal.periodic_relation import PeriodicRelation
from tidelog.temporal.relation import INTERVAL, TimedRelation


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
        """Its predicates, by name."""
        return {name: predicate_of(name, self.manifest) for name in self.manifest.tables}

    def __iter__(self) -> Iterator[str]:
        return iter(self.manifest.tables)

    def __getitem__(self, name: str) -> Relation:
        """Return all facts of a predicate."""
        predicate = find_predicate(name, self.predicates)
        return self.relation(predicate.name, self.to_arrow(predicate.name))

    def to_arrow(self, name: str) -> Any:
        """Return all facts of a predicate as an Arrow table."""
        predicate = find_predicate(name, self.predicates)
        return self.store.published.read(predicate.name, self.number)

    def files(self, name: str) -> list[str]:
        """Return the Parquet files that hold the facts of a predicate."""
        return list(self.store.published.files(find_predicate(name, self.predicates).name, self.number))

    def changes(self, name: str) -> PredicateDelta:
        """Return what the version changed in a predicate."""
        known = {table: predicate_of(table, self.manifest) for table in self.manifest.published.all_tables}
        table = find_predicate(name, known).name
        here = self.manifest.published.all_tables[table]
        if here.changed_in != self.number:
            none = self.relation(table, here.schema.empty_table())
            return PredicateDelta(table, none, none)
        changed = self.store.published.changes(table, self.number - 1, self.number)
        return PredicateDelta(table, *(self.relation(table, rows) for rows in by_kind(changed)))

    def relation(self, name: str, table: Any) -> Relation:
        """Return rows of a table as a relation."""
        rows = encoded(name, table, self.manifest, self._engine)
        return relation_of(name, rows, self.manifest, self._engine.dictionary)


def predicate_of(name: str, manifest: Manifest) -> Predicate:
    """Return the predicate of a table."""
    schema, types = manifest.published.all_tables[name].schema, manifest.origin.types[name]
    found = tuple(map(ColumnType, types))
    return Predicate(name, len(found), tuple(schema.names[: len(found)]), found, name)


def relation_of(name: str, rows: Rows, manifest: Manifest, dictionary: Dictionary) -> Relation:
    """Return rows of a version's table as a relation."""
    predicate, origin = predicate_of(name, manifest), manifest.origin
    schema = tuple(Contents(types_of_column(of)) for of in predicate.types)
    names = tuple(each or "" for each in predicate.columns)
    if not origin.times.get(name):
        return Relation(name, names, rows.columns, rows.count, dictionary, lambda: schema)
    named = manifest.published.all_tables[name].schema.names
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


def read(path: Path | str, version: int | None = None) -> Version:
    """Return a version of a published folder, by default the current one."""
    store = Store(path)
    return Version(store, store.manifest(version))


class VersionDelta(Delta):
    """What differs between two versions."""

    def __init__(
        self, changes: Mapping[str, tuple[Changed, Manifest]], engine: ColumnarEngine, number: int
    ) -> None:
        net = NetChange(
            {name: changed.added for name, (changed, _) in changes.items() if changed.added.count},
            {name: changed.removed for name, (changed, _) in changes.items() if changed.removed.count},
        )
        self._manifests = {name: manifest for name, (_, manifest) in changes.items()}
        predicates = {name: predicate_of(name, manifest) for name, manifest in self._manifests.items()}
        super().__init__(net, predicates, engine.dictionary, number)

    def _relation(self, predicate: Predicate, change: Mapping[str, Rows]) -> Relation:
        name = predicate.name
        manifest = self._manifests[name]
        width = len(manifest.published.all_tables[name].schema) if predicate.arity else 0
        return relation_of(name, change.get(name, nothing(width)), manifest, self._dictionary)


def difference(store: Store, first: int, second: int) -> Delta:
    """Return what changed between two versions, whichever is the later one."""
    low, high = (store.manifest(number) for number in sorted((first, second)))
    engine = ColumnarEngine(1)
    changes = {}
    for name in {**low.tables, **high.tables}:
        changed = _changed(store, name, low, high, engine)
        if changed.count:
            of = high if name in high.tables else low
            changes[name] = (changed if first <= second else changed.inverse, of)
    return VersionDelta(changes, engine, second)


def _changed(store: Store, name: str, low: Manifest, high: Manifest, engine: ColumnarEngine) -> Changed:
    """Return what changed in a table: by its change feed, or by comparing all rows if that does not tell."""
    old, new = low.tables.get(name), high.tables.get(name)
    of = low if new is None else high
    width = len(of.tables[name].schema) if of.origin.types[name] or of.origin.times.get(name) else 0
    if old is not None and new is not None and old.changed_in == new.changed_in:
        return Changed(nothing(width), nothing(width))
    try:
        feed = store.published.changes(name, low.version, high.version)
    except DataError:  # other columns, or versions that are no longer there
        before, after = (_rows(store, name, each, width, engine) for each in (low, high))
        if len(before.columns) != len(after.columns):  # another predicate of the same name
            return Changed(nothing(width), after)
        return Changed.between(before, after)
    changed = Changed(nothing(width), nothing(width))
    for number in sorted(set(feed.column(NUMBER).to_pylist())):
        inserted, deleted = by_kind(feed.filter(pc.equal(feed.column(NUMBER), number)))
        changed = changed.then(Changed(*(encoded(name, rows, of, engine) for rows in (deleted, inserted))))
    return changed


def _rows(store: Store, name: str, manifest: Manifest, width: int, engine: ColumnarEngine) -> Rows:
    if name not in manifest.tables:
        return nothing(width)
    return encoded(name, store.published.read(name, manifest.version), manifest, engine)


def by_kind(changed: Any) -> tuple[Any, Any]:
    """Return the rows of a change feed that were inserted, and those that were deleted."""
    kinds = changed.column(CHANGE_TYPE)
    columns = changed.drop_columns([CHANGE_TYPE, NUMBER])
    return columns.filter(pc.equal(kinds, INSERT)), columns.filter(pc.equal(kinds, DELETE))
