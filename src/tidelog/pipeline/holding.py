"""What a reasoner holds, as it is published: all facts of each predicate, those that are explicit, and what a
transaction changed in both.

Where equality is treated by rewriting, facts are listed with every member of each class, or with the smallest
one; the table of `=` has the classes.
"""

from __future__ import annotations

from functools import cached_property
from typing import TYPE_CHECKING, Any

from tidelog.logic.equality import has_equality
from tidelog.logic.program import Program
from tidelog.maintenance.maintainer import Rows
from tidelog.pipeline.tables import FACTS, STATED, Changed, Changes, nothing
from tidelog.reasoner import Reasoner
from tidelog.relation import Relation, column_names
from tidelog.transaction import Change

if TYPE_CHECKING:
    from tidelog.pipeline.elsewhere import Elsewhere


class Holding:
    """The facts of a reasoner, of which everything has been derived."""

    def __init__(self, reasoner: Reasoner) -> None:
        self.engine = reasoner.engine
        self._reasoner = reasoner
        self._listing = reasoner.listing()

    def has(self, name: str) -> bool:
        """Whether there is a predicate of this name."""
        return name in self._reasoner.predicates()

    def stated_apart(self, program: Program) -> frozenset[str]:
        """The predicates of a program of which some facts may not be explicit."""
        return frozenset(program.predicates) if has_equality(program.predicates) else program.derived

    def rows(self, kind: str, name: str) -> Rows:
        """All facts of a predicate, or those that are explicit."""
        if kind == STATED:
            return Rows(*self.engine.explicit(name))
        return Rows(*self.engine.rows(name)) if self._listing is None else self._listing.rows(name)

    def relation(self, name: str) -> Relation:
        """All facts of a predicate, as they are put out."""
        predicate, rows = self._reasoner.predicates()[name], self.rows(FACTS, name)
        names = column_names(predicate)
        return Relation(predicate.written, names, rows.columns, rows.count, self.engine.dictionary)

    def changes(self, change: Change) -> Changes:
        """What a transaction changed; it must have been the last one."""
        known, net = self._reasoner.predicates(), change.delta.net
        if self._listing is not None:
            net = self._listing.changes(net, known)
        return _changes(net.removed, net.added, known)

    def stated_changes(self, change: Change) -> Changes:
        """What a transaction changed in the explicit facts."""
        return _changes(change.stated.removed, change.stated.added, self._reasoner.predicates())

    @cached_property
    def elsewhere(self) -> Elsewhere | None:
        """The facts that lie on Spark, if some may."""
        if self.engine.name != "spark" or not self.engine.has_session:
            return None
        from tidelog.pipeline.elsewhere import Elsewhere

        return Elsewhere(self.engine, self._listing)


def _changes(removed: Any, added: Any, known: Any) -> Changes:
    """What went and what came, by predicate."""
    return {
        name: Changed(
            removed.get(name, nothing(known[name].arity)), added.get(name, nothing(known[name].arity))
        )
        for name in {**removed, **added}
        if name in known
    }
