"""What a reasoner holds, as it is published: Arrow tables of facts, and of what changed in them.

Their schemas follow from the program and from the types of what is given, never from the rows.

Where equality is treated by rewriting, facts are listed with every member of each class, or with the smallest
one; the table of `=` has the classes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from tidelog.data.dictionary import NO_TIME_ZONE
from tidelog.data.relation import misfit_error
from tidelog.data.typed_columns import EXACT, Misfit, arrow_type, to_typed, with_mixed
from tidelog.logic.program import Predicate, Program
from tidelog.logic.type_inference import Schema
from tidelog.logic.types import MOMENT, column_of
from tidelog.logic.values import ColumnType, Kind
from tidelog.maintenance.maintainer import NetChange
from tidelog.maintenance.row_sets import Rows
from tidelog.pipeline.facts import Changed, nothing
from tidelog.pipeline.timed_holding import Begun, TimedHolding
from tidelog.pipeline.times import Layout, time_arrays
from tidelog.reasoner.reasoner import Reasoner
from tidelog.reasoner.transaction import Change
from tidelog.temporal.bounds import Bound
from tidelog.temporal.changing import TimedRows, Times

HOLDS: Final = "holds"  # the column of a predicate without arguments
EXACTLY: Final = "exact"  # how columns of several types are written
PIECE: Final = 1 << 18  # rows that are converted at once

Changes = Mapping[str, Changed | None]  # by predicate; None where only comparing all rows tells what changed

_TIMES = {
    Bound.WHOLE: (ColumnType.INTEGER, pa.int64()),
    Bound.MOMENT: (ColumnType.DATETIME, pa.timestamp("us", "UTC")),
    Bound.TEXT: (ColumnType.STRING, pa.string()),
}


class Holding:
    """The facts of a reasoner, of which everything has been derived."""

    def __init__(
        self,
        reasoner: Reasoner,
        bound: Bound = Bound.TEXT,
        mixed: str = EXACTLY,
        begun: Begun | None = None,
        program: Program | None = None,
    ) -> None:
        self.engine = reasoner.engine
        self.reasoner = reasoner
        self._program = program  # what a transaction that is open makes of the reasoner's
        self._listing = reasoner.listing()
        self._timed = TimedHolding(reasoner, begun)
        self._bound = bound
        self._mixed = mixed

    # ---- schemas

    def layout(self, predicate: Predicate) -> Layout:
        """Return the columns of a predicate's table."""
        return self._timed.layout(predicate)

    def schema(self, predicate: Predicate) -> Any:
        """Return the Arrow schema of a predicate's table."""
        layout = self.layout(predicate)
        if not layout.names:
            return pa.schema([pa.field(HOLDS, pa.bool_(), nullable=False)])
        contents = self._contents(predicate)
        fields = [
            pa.field(name, arrow_type(each), nullable=False)
            for name, each in zip(layout.names, contents, strict=False)
        ]
        times = zip(layout.names[layout.arguments :], self._time_types(layout), strict=True)
        fields += [pa.field(name, of, nullable=not pa.types.is_boolean(of)) for name, (_, of) in times]
        return pa.schema(fields)

    def types(self, predicate: Predicate) -> tuple[str, ...]:
        """Return what the arguments of a predicate's table hold, as declarations say it."""
        return tuple(
            (ColumnType.TERM if each.is_exact else column_of(each.types)).value
            for each in self._contents(predicate)
        )

    def _is_faithful(self, predicate: Predicate) -> bool:
        """Whether different facts are always different rows of the predicate's table."""
        for each in self._contents(predicate):
            if each.types == EXACT or (each.types & MOMENT and self._has_time_zones):
                return False
        return True

    @cached_property
    def _has_time_zones(self) -> bool:
        """Whether some moment is not in UTC: a column has the moment alone."""
        dictionary = self.engine.dictionary
        zones = dictionary.extra[dictionary.kind == Kind.DATETIME]
        return bool(((zones != 0) & (zones != NO_TIME_ZONE)).any())

    def _contents(self, predicate: Predicate) -> Schema:
        known = self.reasoner.schemas
        if self._program is not None:
            known = known.data.now(self._program, known.facts)
        return with_mixed(known.of(predicate), self._mixed)

    def _time_types(self, layout: Layout) -> list[tuple[ColumnType, Any]]:
        """Return the types of the columns that say when: bounds, whether they are left out, the period."""
        if not layout.times:
            return []
        bound, truth = _TIMES[self._bound], (ColumnType.BOOLEAN, pa.bool_())
        period = _TIMES[Bound.TEXT if self._bound is Bound.TEXT else Bound.WHOLE]
        return [bound, bound, truth, truth, period][: layout.times]

    # ---- all facts

    def rows(self, name: str) -> Rows:
        """Return all facts of a predicate as ids."""
        if name in self._timed.names:
            return self._timed.facts(name)
        return Rows(*self.engine.rows(name)) if self._listing is None else self._listing.rows(name)

    def tables(self, predicate: Predicate, rows: Rows) -> list[Any]:
        """Return rows of a predicate as Arrow tables of its schema, some rows each, and each row once."""
        schema = self.schema(predicate)
        if not self._is_faithful(predicate) and rows.count:
            table = self._table(predicate, schema, rows)
            return [table.group_by(table.column_names, use_threads=False).aggregate([]).cast(schema)]
        if not rows.count:
            return [schema.empty_table()]
        return [self._table(predicate, schema, _slice(rows, start)) for start in range(0, rows.count, PIECE)]

    def table(self, predicate: Predicate, rows: Rows) -> Any:
        """Return rows of a predicate as one Arrow table."""
        return pa.concat_tables(self.tables(predicate, rows))

    def _table(self, predicate: Predicate, schema: Any, rows: Rows) -> Any:
        layout, dictionary = self.layout(predicate), self.engine.dictionary
        if not layout.names:
            return pa.Table.from_arrays([pa.array([True] * rows.count)], schema=schema)
        arrays = []
        for ids, contents, name in zip(rows.columns, self._contents(predicate), layout.names, strict=False):
            try:
                arrays.append(to_typed(dictionary, ids, contents))
            except Misfit as misfit:
                raise misfit_error(misfit, name, predicate.written, contents) from None
        if layout.times:
            types = tuple(of for of, _ in self._time_types(layout))
            arrays += time_arrays(rows, layout, types, dictionary)
        arrays = [array.cast(field.type) for array, field in zip(arrays, schema, strict=True)]
        return pa.Table.from_arrays(arrays, schema=schema)

    # ---- what a transaction changed

    def changes(self, change: Change) -> Changes:
        """Return what a transaction changed in each predicate; it must have been the last one."""
        known, net = self.reasoner.predicates(), change.delta.net
        if self._listing is not None:
            net = self._listing.changes(net, known)
        timed = self._timed.names
        names = [name for name in {**net.removed, **net.added} if name in known and name in timed]
        changes: dict[str, Changed | None] = {name: self._timed_change(name, net) for name in names}
        changes |= _changes(net.removed, net.added, {name: known[name] for name in known.keys() - timed})
        found = {name: changed for name, changed in changes.items() if changed is None or changed.count}
        return {name: each if self._is_faithful(known[name]) else None for name, each in found.items()}

    def has_forgotten(self, name: str) -> bool:
        """Return whether facts of a predicate are in its table that the reasoner has forgotten."""
        return name in self._timed.names and self.reasoner.time.past.time is not None

    def since(self, name: str, rows: tuple[Sequence[Any], Times]) -> Changed:
        """Return what has changed since rows were published that reach into what is not forgotten."""
        return self._timed.since(name, *rows)

    def changes_of(self, net: NetChange) -> Changes:
        """Return what a transaction that is open would change in each predicate of its program."""
        assert self._program is not None, "that of the transaction"
        known = self._program.predicates
        if (
            self._listing is not None
            or self._timed.names
            or known.keys() != self.reasoner.predicates().keys()
        ):
            return dict.fromkeys(known)
        found = _changes(net.removed, net.added, known)
        return {name: each if self._is_faithful(known[name]) else None for name, each in found.items()}

    def _timed_change(self, name: str, net: NetChange) -> Changed | None:
        """Return what changed in a predicate that holds at times; None where all of it repeats."""
        if self.reasoner.time.periodic is not None:
            return None
        return self._timed.changed(name, _timed(net.removed, name), _timed(net.added, name))


def _slice(rows: Rows, start: int) -> Rows:
    columns = tuple(column[start : start + PIECE] for column in rows.columns)
    return Rows(columns, min(PIECE, rows.count - start))


def _timed(rows: Mapping[str, Rows], name: str) -> TimedRows | None:
    found = rows.get(name)
    assert found is None or isinstance(found, TimedRows), "it holds at times"
    return found


def _changes(
    removed: Mapping[str, Rows], added: Mapping[str, Rows], known: Mapping[str, Predicate]
) -> dict[str, Changed]:
    """Return what went and what came, by predicate."""
    return {
        name: Changed(
            removed.get(name, nothing(known[name].arity)), added.get(name, nothing(known[name].arity))
        )
        for name in {**removed, **added}
        if name in known
    }
