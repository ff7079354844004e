"""Publishing: what holds now, and what changed since the last version, as a new version."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from tidelog.logic.program import Predicate, Program
from tidelog.maintenance.maintainer import Rows
from tidelog.maintenance.row_sets import without
from tidelog.pipeline.holding import Holding
from tidelog.pipeline.manifest import Batch, Feed, Input, Manifest, Parts, Table
from tidelog.pipeline.programs import described
from tidelog.pipeline.store import Reached, Store
from tidelog.pipeline.tables import (
    FACTS,
    STATED,
    Changed,
    Changes,
    TableReader,
    TableWriter,
    count_rows,
    is_worn,
    no_change,
    types_in,
)
from tidelog.pipeline.times import Layout


@dataclass(frozen=True)
class Origin:
    """Why a version is published, and where its facts came from."""

    reason: str
    job: str  # a hash of what the job's program means
    inputs: Mapping[str, Input]
    batch: Batch | None = None
    treatment: str | None = None  # of equality


class Publication:
    """A version that is being written, of facts that a reasoner holds. Mutates the disk."""

    def __init__(self, store: Store, number: int, program: Program, holding: Holding) -> None:
        self._store = store
        self._number = number
        self._program = program
        self._holding = holding
        self._previous = store.current()
        self._writer = TableWriter(store.path, store.folder(number), holding.engine)
        self._apart = holding.stated_apart(program)
        self._elsewhere: dict[tuple[str, str], Parts] = {}  # files that executors have written

    def publish(self, changes: Changes, stated: Changes, origin: Origin, reached: Reached) -> Manifest:
        """The version in which these facts, and these explicit facts, have changed, published.

        Of a predicate that the previous version does not have, all facts are taken, whatever has changed.
        """
        known = dict(self._previous.tables) if self._previous else {}
        self._write_elsewhere(changes, stated)
        tables: dict[str, Table] = {}
        feed: dict[str, Feed] = {}
        for name, predicate in self._program.predicates.items():
            known.pop(name, None)
            before = self._before(predicate)
            changed = changes.get(name, no_change(len(self._layout(predicate).names)))
            tables[name], told = self._table(predicate, before, changed, stated.get(name))
            if told is not None:
                feed[name] = told
        for name, gone in known.items():  # the program no longer has them
            changed = changes.get(name, no_change(len(gone.columns)))
            if changed.count:
                layout = self._previous.layout(name) if self._previous else Layout(gone.columns)
                parts = self._writer.changed(name, changed, layout, gone.facts, "changes")
                feed[name] = Feed(changed.added.count, changed.removed.count, parts)
        self._writer.sync()
        manifest = Manifest(
            self._number,
            self._previous.version if self._previous else None,
            datetime.now(UTC).isoformat(timespec="milliseconds"),
            origin.reason,
            origin.job,
            *described(self._program),
            tables,
            feed,
            origin.inputs,
            origin.batch,
            self._holding.engine.name,
            origin.treatment,
            self._holding.time_form,
        )
        self._store.publish(manifest, reached)
        return manifest

    def _table(
        self, predicate: Predicate, before: Table | None, changed: Changed, stated: Changed | None
    ) -> tuple[Table, Feed | None]:
        """The table of a predicate, and what changed in it."""
        name, layout = predicate.name, self._layout(predicate)
        facts = before.facts if before else ()
        told: Feed | None = None
        if before is None or (changed.count and not before.rows):
            facts = self._base(FACTS, predicate)
            told = Feed(count_rows(facts), 0, facts) if facts else None
        elif changed.count:
            parts = self._writer.changed(name, changed, layout, facts, "changes")
            told = Feed(changed.added.count, changed.removed.count, parts)
            facts = self._grown(FACTS, predicate, facts, parts)
        explicit = self._explicit(predicate, before, stated) if name in self._apart else None
        types, rows = types_in(facts) or (), count_rows(facts)
        return Table(predicate.written, layout.names, types, rows, facts, explicit, layout.times), told

    def _layout(self, predicate: Predicate) -> Layout:
        return self._holding.layout(predicate)

    def _explicit(self, predicate: Predicate, before: Table | None, stated: Changed | None) -> Parts:
        """The files of the explicit facts of a derived predicate."""
        if before is None:
            return self._base(STATED, predicate)
        if stated is None or not stated.count:
            return before.explicit
        layout = self._layout(predicate)
        parts = self._writer.changed(predicate.name, stated, layout, before.explicit, STATED)
        return self._grown(STATED, predicate, before.explicit, parts)

    def _grown(self, kind: str, predicate: Predicate, before: Parts, more: Parts) -> Parts:
        """The files of a table that has changed; written anew if that is better, from all its rows."""
        if not count_rows((*before, *more)):
            return ()
        if is_worn((*before, *more)):
            return self._base(kind, predicate)
        return self._writer.extended(kind, predicate.name, before, more, self._layout(predicate))

    def _base(self, kind: str, predicate: Predicate) -> Parts:
        """The files of all rows of a table, or of those that are explicit."""
        name = predicate.name
        if (kind, name) in self._elsewhere:
            return self._elsewhere[kind, name]
        return self._writer.base(kind, name, self._holding.rows(kind, name), self._layout(predicate))

    def _before(self, predicate: Predicate) -> Table | None:
        """The table that a predicate had; with other columns it is another predicate."""
        table = self._previous.tables.get(predicate.name) if self._previous else None
        return table if table is not None and is_like(table, self._layout(predicate)) else None

    # ---- what lies on Spark

    def _write_elsewhere(self, changes: Changes, stated: Changes) -> None:
        """Let executors write what lies there and is written anew, all of it by one job."""
        elsewhere = self._holding.elsewhere
        if elsewhere is None:
            return
        from tidelog.pipeline.spark_tables import wanted_tables, write_tables

        wanted = wanted_tables(elsewhere, self._anew(changes, stated))
        if wanted:
            parts = write_tables(elsewhere.engine, self._store.path, self._store.folder(self._number), wanted)
            self._elsewhere = {(each.kind, each.name): some for each, some in zip(wanted, parts, strict=True)}

    def _anew(self, changes: Changes, stated: Changes) -> Iterator[tuple[str, Predicate]]:
        """The tables of which all rows are written, of facts and of explicit ones."""
        for name, predicate in self._program.predicates.items():
            before = self._before(predicate)
            if before is None or _is_anew(before.facts, changes.get(name)):
                yield FACTS, predicate
            if name in self._apart and (before is None or _is_anew(before.explicit, stated.get(name))):
                yield STATED, predicate


def _is_anew(parts: Parts, changed: Changed | None) -> bool:
    """Whether a table with these files, in which this changes, is written anew."""
    if changed is None or not changed.count:
        return False
    return not count_rows(parts) or is_worn(parts, changed.count)


def differences(
    store: Store, before: Manifest | None, program: Program, holding: Holding
) -> tuple[Changes, Changes]:
    """What a reasoner's facts, and its explicit facts, differ in from a published version."""
    if before is None:
        return {}, {}
    reader = TableReader(store.path, holding.engine)
    apart = holding.stated_apart(program)
    known = {
        name: table
        for name, table in before.tables.items()
        if name not in program.predicates or is_like(table, holding.layout(program.predicates[name]))
    }
    changes, stated = _differences_elsewhere(store, known, apart, holding)
    for name, table in known.items():
        arity = len(table.columns)
        is_known = name in program.predicates
        if name not in changes:
            now = holding.rows(FACTS, name) if is_known else no_change(arity).added
            changes[name] = _difference(reader.rows(table.facts, arity), now)
        if is_known and name in apart and name not in stated:
            explicit = reader.rows(table.explicit, arity)
            stated[name] = _difference(explicit, holding.rows(STATED, name))
    return changes, stated


def is_like(table: Table, layout: Layout) -> bool:
    """Whether a table has as many columns as a layout, of arguments and of times."""
    return len(table.columns) == len(layout.names) and table.times == layout.times


def _differences_elsewhere(
    store: Store, tables: Mapping[str, Table], apart: Collection[str], holding: Holding
) -> tuple[dict[str, Changed], dict[str, Changed]]:
    """The same of facts that lie on Spark."""
    elsewhere = holding.elsewhere
    if elsewhere is None:
        return {}, {}
    from tidelog.pipeline.spark_tables import differences_of

    facts = [(name, table) for name, table in tables.items() if elsewhere.has(FACTS, name)]
    stated = [
        (name, table) for name, table in tables.items() if name in apart and elsewhere.has(STATED, name)
    ]
    return (
        differences_of(elsewhere, store.path, facts, FACTS),
        differences_of(elsewhere, store.path, stated, STATED),
    )


def _difference(then: Rows, now: Rows) -> Changed:
    return Changed(without(then, now), without(now, then))
