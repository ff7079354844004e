"""Publishing: what holds now, and what changed since the last version, as a new version."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime

from tidelog.engine.columnar.evaluate import ColumnarEngine
from tidelog.logic.program import Predicate, Program
from tidelog.maintenance.maintainer import Rows
from tidelog.maintenance.row_sets import without
from tidelog.pipeline.manifest import Batch, Feed, Input, Manifest, Parts, Table
from tidelog.pipeline.programs import described
from tidelog.pipeline.store import Reached, Store
from tidelog.pipeline.tables import (
    Changed,
    TableReader,
    TableWriter,
    count_rows,
    is_worn,
    no_change,
    types_in,
)
from tidelog.relation import column_names

Changes = Mapping[str, Changed]


@dataclass(frozen=True)
class Origin:
    """Why a version is published, and where its facts came from."""

    reason: str
    job: str  # a hash of what the job's program means
    inputs: Mapping[str, Input]
    batch: Batch | None = None


class Publication:
    """A version that is being written, of facts that an engine holds. Mutates the disk."""

    def __init__(self, store: Store, number: int, program: Program, engine: ColumnarEngine) -> None:
        self._store = store
        self._number = number
        self._program = program
        self._engine = engine
        self._previous = store.current()
        self._writer = TableWriter(store.path, store.folder(number), engine)
        self._derived = program.derived

    def publish(self, changes: Changes, stated: Changes, origin: Origin, reached: Reached) -> Manifest:
        """The version in which these facts, and these explicit facts, have changed, published.

        Of a predicate that the previous version does not have, all facts are taken, whatever has changed.
        """
        known = dict(self._previous.tables) if self._previous else {}
        tables: dict[str, Table] = {}
        feed: dict[str, Feed] = {}
        for name, predicate in self._program.predicates.items():
            before = known.pop(name, None)
            if before is not None and len(before.columns) != predicate.arity:
                before = None  # with other columns it is another predicate
            changed = changes.get(name, no_change(predicate.arity))
            tables[name], told = self._table(predicate, before, changed, stated.get(name))
            if told is not None:
                feed[name] = told
        for name, gone in known.items():  # the program no longer has them
            changed = changes.get(name, no_change(len(gone.columns)))
            if changed.count:
                parts = self._writer.changed(name, changed, gone.columns, gone.facts, "changes")
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
            self._engine.name,
        )
        self._store.publish(manifest, reached)
        return manifest

    def _table(
        self, predicate: Predicate, before: Table | None, changed: Changed, stated: Changed | None
    ) -> tuple[Table, Feed | None]:
        """The table of a predicate, and what changed in it."""
        name, columns = predicate.name, column_names(predicate)
        facts = before.facts if before else ()
        told: Feed | None = None
        size = self._engine.size(name)
        if before is None or (changed.count and not before.rows):
            facts = self._writer.base("facts", name, self._rows(name), columns)
            told = Feed(size, 0, facts) if size else None
        elif changed.count:
            parts = self._writer.changed(name, changed, columns, facts, "changes")
            told = Feed(changed.added.count, changed.removed.count, parts)
            facts = self._grown("facts", predicate, facts, parts, lambda: self._rows(name))
        explicit = self._explicit(predicate, before, stated) if name in self._derived else None
        table = Table(predicate.written, columns, types_in(facts) or (), size, facts, explicit)
        return table, told

    def _explicit(self, predicate: Predicate, before: Table | None, stated: Changed | None) -> Parts:
        """The files of the explicit facts of a derived predicate."""
        name, columns = predicate.name, column_names(predicate)
        if before is None:
            return self._writer.base("stated", name, Rows(*self._engine.explicit(name)), columns)
        if stated is None or not stated.count:
            return before.explicit
        parts = self._writer.changed(name, stated, columns, before.explicit, "stated")
        return self._grown(
            "stated", predicate, before.explicit, parts, lambda: Rows(*self._engine.explicit(name))
        )

    def _grown(
        self, kind: str, predicate: Predicate, before: Parts, more: Parts, rows: Callable[[], Rows]
    ) -> Parts:
        """The files of a table that has changed; written anew if that is better, from all its rows."""
        columns = column_names(predicate)
        if not count_rows((*before, *more)):
            return ()
        if is_worn((*before, *more)):
            return self._writer.base(kind, predicate.name, rows(), columns)
        return self._writer.extended(kind, predicate.name, before, more, columns, predicate.arity)

    def _rows(self, name: str) -> Rows:
        return Rows(*self._engine.rows(name))


def differences(
    store: Store, before: Manifest | None, program: Program, engine: ColumnarEngine
) -> tuple[Changes, Changes]:
    """What an engine's facts, and its explicit facts, differ in from a published version."""
    if before is None:
        return {}, {}
    reader = TableReader(store.path, engine)
    changes: dict[str, Changed] = {}
    stated: dict[str, Changed] = {}
    for name, table in before.tables.items():
        arity = len(table.columns)
        is_known = name in program.predicates
        if is_known and program.predicates[name].arity != arity:
            continue
        then = reader.rows(table.facts, arity)
        now = Rows(*engine.rows(name)) if is_known else no_change(arity).added
        changes[name] = _difference(then, now)
        if is_known and name in program.derived:
            explicit = reader.rows(table.explicit, arity)
            stated[name] = _difference(explicit, Rows(*engine.explicit(name)))
    return changes, stated


def _difference(then: Rows, now: Rows) -> Changed:
    return Changed(without(then, now), without(now, then))
