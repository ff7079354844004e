"""Published versions as users read them: relations, what changed, and the difference of two."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from typing import Any

from tidelog.changes import Delta, PredicateDelta, find_predicate
from tidelog.engine.columnar.dictionary import Dictionary
from tidelog.engine.columnar.evaluate import ColumnarEngine
from tidelog.logic.program import Predicate, Program
from tidelog.logic.resolve import EMPTY
from tidelog.logic.values import ColumnType
from tidelog.maintenance.maintainer import NetChange, Rows
from tidelog.maintenance.row_sets import joined, without
from tidelog.pipeline.manifest import BASE, Feed, Manifest, Table
from tidelog.pipeline.store import Store
from tidelog.pipeline.tables import Changed, Changes, TableReader, no_change, nothing
from tidelog.pipeline.times import times_in
from tidelog.relation import Relation
from tidelog.temporal.periodic_relation import PeriodicRelation
from tidelog.temporal.relation import TimedRelation


class Version:
    """A published version; its facts are read when they are asked for.

    `version["reach"]` is a `Relation`, as of a reasoner.
    """

    def __init__(self, store: Store, manifest: Manifest, engine: ColumnarEngine | None = None) -> None:
        self.manifest = manifest
        self._store = store
        self._engine = engine or ColumnarEngine(1)
        self._reader = TableReader(store.path, self._engine)

    @property
    def number(self) -> int:
        """Its number."""
        return self.manifest.version

    @cached_property
    def program(self) -> Program:
        """A program without rules that has the version's predicates."""
        tables = {name: _predicate(name, table) for name, table in self.manifest.tables.items()}
        return replace(EMPTY, predicates=tables)

    def __iter__(self) -> Iterator[str]:
        return iter(self.manifest.tables)

    def __getitem__(self, name: str) -> Relation:
        """All facts of a predicate."""
        predicate = find_predicate(name, self.program.predicates)
        return self._relation(predicate, self.rows(predicate.name))

    def explicit(self, name: str) -> Relation:
        """The explicit facts of a predicate."""
        predicate = find_predicate(name, self.program.predicates)
        table = self.manifest.tables[predicate.name]
        return self._relation(predicate, self._reader.rows(table.explicit, len(table.columns)))

    def changes(self, name: str) -> PredicateDelta:
        """What the version changed in a predicate."""
        predicate = find_predicate(name, self.program.predicates)
        changed = self.changed(predicate.name)
        added, removed = (self._relation(predicate, rows) for rows in (changed.added, changed.removed))
        return PredicateDelta(predicate.written, added, removed)

    # ---- as ids

    def rows(self, name: str) -> Rows:
        """All facts of a predicate as ids."""
        table = self.manifest.tables[name]
        return self._reader.rows(table.facts, len(table.columns))

    def changed(self, name: str) -> Changed:
        """What the version changed in a predicate, as ids."""
        feed = self.manifest.feed.get(name)
        arity = self._arity(name, feed)
        if feed is None:
            return no_change(arity)
        bases = [self._reader.part(part) for part in feed.parts if part.role == BASE]
        if bases:
            return Changed(nothing(arity), joined(bases))
        return self._reader.changes(feed.parts, arity)

    def _arity(self, name: str, feed: Feed | None) -> int:
        table = self.manifest.tables.get(name)
        if table is not None:
            return len(table.columns)
        return len(feed.parts[0].types) if feed is not None and feed.parts else 0

    def _relation(self, predicate: Predicate, rows: Rows) -> Relation:
        return relation_of(predicate, rows, self.manifest, self._engine.dictionary)


def relation_of(predicate: Predicate, rows: Rows, manifest: Manifest, dictionary: Dictionary) -> Relation:
    """Rows of a version's table as a relation."""
    names = tuple(name or "" for name in predicate.columns)
    table = manifest.tables.get(predicate.name)
    if table is None or not table.times:
        return Relation(predicate.written, names, rows.columns, rows.count, dictionary)
    layout = manifest.layout(predicate.name)
    times, every = times_in(rows, layout, dictionary, manifest.is_integer_time)
    columns = rows.columns[: layout.arguments]
    parts = predicate.written, names, columns, times.left, times.right, dictionary, times.timeline
    if every is None or not every.any():
        return TimedRelation(*parts)
    return PeriodicRelation(*parts, every=every)


class VersionDelta(Delta):
    """What differs between two versions, the rows of which are those of tables."""

    def __init__(
        self, change: NetChange, predicates: Mapping[str, Predicate], of: Manifest, engine: Any
    ) -> None:
        super().__init__(change, predicates, engine.dictionary, of.version)
        self._of = of

    def _relation(self, predicate: Predicate, change: Mapping[str, Rows]) -> Relation:
        rows = change.get(predicate.name)
        if rows is None:
            return super()._relation(predicate, change)
        return relation_of(predicate, rows, self._of, self._dictionary)


def read(path: Path | str, version: int | None = None) -> Version:
    """A version in a published folder, by default the current one."""
    store = Store(path)
    return Version(store, store.manifest(version))


def difference(store: Store, first: int, second: int, engine: ColumnarEngine | None = None) -> Delta:
    """What changed between two versions, whichever is the later one."""
    engine = engine or ColumnarEngine(1)
    before, after = (store.manifest(number) for number in (first, second))
    changes = changes_between(store, before, after, engine)
    return delta_of(changes, before, after, engine)


def delta_of(changes: Changes, before: Manifest, after: Manifest, engine: Any) -> Delta:
    """Changes of tables, between two versions, as people see them."""
    net = NetChange(
        {name: changed.added for name, changed in changes.items() if changed.added.count},
        {name: changed.removed for name, changed in changes.items() if changed.removed.count},
    )
    tables = {**before.tables, **after.tables}
    told = replace(after, tables=tables, time=after.time or before.time)
    predicates = {name: _predicate(name, table) for name, table in tables.items()}
    return VersionDelta(net, predicates, told, engine)


def changes_between(
    store: Store, first: Manifest, second: Manifest, engine: ColumnarEngine
) -> dict[str, Changed]:
    """What changed in each table between two versions, whichever is the later one, as ids."""
    before, after = (Version(store, manifest, engine) for manifest in (first, second))
    between = _between(store, first.version, second.version, engine)
    tables = {**first.tables, **second.tables}
    return {
        name: _changed(name, len(table.columns), before, after, between) for name, table in tables.items()
    }


def _between(store: Store, first: int, second: int, engine: ColumnarEngine) -> list[Version] | None:
    """The versions after the earlier one up to the later one, if all of them are kept."""
    low, high = sorted((first, second))
    kept = set(store.numbers())
    wanted = range(low + 1, high + 1)
    if not all(number in kept for number in wanted):
        return None
    return [Version(store, store.manifest(number), engine) for number in wanted]


def _changed(
    name: str, arity: int, before: Version, after: Version, between: list[Version] | None
) -> Changed:
    """What changed in a predicate: what the versions between tell, or else by comparing all facts."""
    tables = before.manifest.tables.get(name), after.manifest.tables.get(name)
    if tables[0] is not None and tables[1] is not None and tables[0].facts == tables[1].facts:
        return no_change(arity)
    if between is not None and all(_has_arity(version, name, arity) for version in between):
        changed = no_change(arity)
        for version in between:
            changed = changed.then(version.changed(name))
        return changed if before.number <= after.number else changed.inverse
    then = before.rows(name) if tables[0] is not None else nothing(arity)
    now = after.rows(name) if tables[1] is not None else nothing(arity)
    if len(then.columns) != len(now.columns):  # another predicate of the same name
        return Changed(nothing(arity), now) if now.count else Changed(then, now)
    return Changed(without(then, now), without(now, then))


def _has_arity(version: Version, name: str, arity: int) -> bool:
    table: Table | None = version.manifest.tables.get(name)
    return table is None or len(table.columns) == arity


def _predicate(name: str, table: Table) -> Predicate:
    columns = table.columns[: len(table.columns) - table.times]
    return Predicate(name, len(columns), columns, (ColumnType.ANY,) * len(columns), table.written)
