"""Published versions as users read them: relations, what changed, and the difference of two."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace
from functools import cached_property
from pathlib import Path

from tidelog.changes import Delta, PredicateDelta, find_predicate
from tidelog.engine.columnar.evaluate import ColumnarEngine
from tidelog.logic.program import Predicate, Program
from tidelog.logic.resolve import EMPTY
from tidelog.logic.values import ColumnType
from tidelog.maintenance.maintainer import NetChange, Rows
from tidelog.maintenance.row_sets import joined, without
from tidelog.pipeline.manifest import BASE, Feed, Manifest, Table
from tidelog.pipeline.store import Store
from tidelog.pipeline.tables import Changed, TableReader, no_change, nothing
from tidelog.relation import Relation


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
        return self._relation(predicate, self._reader.rows(table.explicit, predicate.arity))

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
        names = tuple(name or "" for name in predicate.columns)
        return Relation(predicate.written, names, rows.columns, rows.count, self._engine.dictionary)


def read(path: Path | str, version: int | None = None) -> Version:
    """A version in a published folder, by default the current one."""
    store = Store(path)
    return Version(store, store.manifest(version))


def difference(store: Store, first: int, second: int, engine: ColumnarEngine | None = None) -> Delta:
    """What changed between two versions, whichever is the later one."""
    engine = engine or ColumnarEngine(1)
    before, after = (Version(store, store.manifest(number), engine) for number in (first, second))
    predicates = {**before.program.predicates, **after.program.predicates}
    added: dict[str, Rows] = {}
    removed: dict[str, Rows] = {}
    between = _between(store, first, second, engine)
    for name, predicate in predicates.items():
        changed = _changed(name, predicate.arity, before, after, between)
        if changed.added.count:
            added[name] = changed.added
        if changed.removed.count:
            removed[name] = changed.removed
    return Delta(NetChange(added, removed), predicates, engine.dictionary, second)


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
    arity = len(table.columns)
    return Predicate(name, arity, table.columns, (ColumnType.ANY,) * arity, table.written)
