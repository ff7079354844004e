"""What a reasoner holds, as it is published: all facts of each predicate, those that are explicit, and what a
transaction changed in both.

Where equality is treated by rewriting, facts are listed with every member of each class, or with the smallest
one; the table of `=` has the classes.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cached_property
from typing import TYPE_CHECKING, Any

from tidelog.logic.equality import has_equality
from tidelog.logic.program import Predicate, Program
from tidelog.maintenance.maintainer import NetChange, Rows
from tidelog.maintenance.row_sets import without
from tidelog.pipeline.tables import FACTS, STATED, Changed, Changes, nothing
from tidelog.pipeline.timed_holding import TimedHolding, Touched
from tidelog.pipeline.times import Layout
from tidelog.reasoner import Reasoner
from tidelog.relation import Relation, column_names
from tidelog.store.time_form import time_to_json
from tidelog.temporal.changing import TimedRows
from tidelog.temporal.state import summary
from tidelog.transaction import Change

if TYPE_CHECKING:
    from tidelog.pipeline.elsewhere import Elsewhere

Before = Callable[[str], Rows | None]  # all facts of a predicate, as the last version has them if it does


class Holding:
    """The facts of a reasoner, of which everything has been derived."""

    def __init__(self, reasoner: Reasoner) -> None:
        self.engine = reasoner.engine
        self._reasoner = reasoner
        self._listing = reasoner.listing()
        self._timed = TimedHolding(reasoner)

    def has(self, name: str) -> bool:
        """Whether there is a predicate of this name."""
        return name in self._reasoner.predicates()

    def stated_apart(self, program: Program) -> frozenset[str]:
        """The predicates of a program of which some facts may not be explicit."""
        if has_equality(program.predicates):
            return frozenset(program.predicates)
        return program.derived | self._timed.names  # of facts at times, what is said is not how it is put out

    def layout(self, predicate: Predicate) -> Layout:
        """The columns of a predicate's table."""
        return self._timed.layout(predicate)

    @property
    def time_form(self) -> Mapping[str, Any] | None:
        """How what holds at times was derived; None if nothing does."""
        if not self._timed.names:
            return None
        return time_to_json(summary(self._reasoner.time), lambda array: [])

    def rows(self, kind: str, name: str) -> Rows:
        """All facts of a predicate, or those that are explicit."""
        if name in self._timed.names:
            return self._timed.stated(name) if kind == STATED else self._timed.facts(name)
        if kind == STATED:
            return Rows(*self.engine.explicit(name))
        return Rows(*self.engine.rows(name)) if self._listing is None else self._listing.rows(name)

    def relation(self, name: str) -> Relation:
        """All facts of a predicate, as they are put out."""
        predicate = self._reasoner.predicates()[name]
        if name in self._timed.names:
            return self._reasoner.time.relation(predicate)
        rows, names = self.rows(FACTS, name), column_names(predicate)
        return Relation(predicate.written, names, rows.columns, rows.count, self.engine.dictionary)

    def changes(self, change: Change, before: Before) -> Changes:
        """What a transaction changed; it must have been the last one. `before` has what was published."""
        known, net = self._reasoner.predicates(), change.delta.net
        if self._listing is not None:
            net = self._listing.changes(net, known)
        timed = self._timed.names
        names = [name for name in {**net.removed, **net.added} if name in known and name in timed]
        changes = {name: self._timed_change(name, net, before) for name in names}
        changes |= _changes(net.removed, net.added, {name: known[name] for name in known.keys() - timed})
        return {name: changed for name, changed in changes.items() if changed.count}

    def _timed_change(self, name: str, net: NetChange, before: Before) -> Changed:
        """What changed in a predicate that holds at times; where all repeats, by comparing all of it."""
        if self._reasoner.time.periodic is None:
            return self._timed.changed(name, _timed(net.removed, name), _timed(net.added, name))
        now = self._timed.facts(name)
        then = before(name) or nothing(len(now.columns))
        return Changed(without(then, now), without(now, then))

    def touched(self, change: Change) -> Touched:
        """Of which facts at times a transaction says something, before it is carried out."""
        return self._timed.touched(change)

    def stated_changes(self, change: Change, touched: Touched) -> Changes:
        """What a transaction changed in the explicit facts."""
        known, timed = self._reasoner.predicates(), self._timed.names
        plain = {name: known[name] for name in known.keys() - timed}
        return {
            **_changes(change.stated.removed, change.stated.added, plain),
            **self._timed.stated_changes(change, touched),
        }

    @cached_property
    def elsewhere(self) -> Elsewhere | None:
        """The facts that lie on Spark, if some may."""
        if self.engine.name != "spark" or not self.engine.has_session:
            return None
        from tidelog.pipeline.elsewhere import Elsewhere

        return Elsewhere(self.engine, self._listing)


def _timed(rows: Mapping[str, Rows], name: str) -> TimedRows | None:
    found = rows.get(name)
    assert found is None or isinstance(found, TimedRows), "it holds at times"
    return found


def _changes(removed: Any, added: Any, known: Any) -> dict[str, Changed]:
    """What went and what came, by predicate."""
    return {
        name: Changed(
            removed.get(name, nothing(known[name].arity)), added.get(name, nothing(known[name].arity))
        )
        for name in {**removed, **added}
        if name in known
    }
