"""What undoes a transaction that a fault has left half done, whatever state the fault has left behind.

Errors of tidelog's own (`TidelogError`) come at points where the maintainers can take a transaction back,
step by step. Anything else, such as a lack of memory or an exception of a listener, may come anywhere:
between two arrays that belong together, or in the taking back itself. Then nothing that was derived is
trusted any more. The reasoner begins anew with its explicit facts. How to get those from before the
transaction is noted when it begins; that can be done any number of times, also after another fault.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any

from tidelog.engine.interrupts import INTERRUPTS
from tidelog.errors import Diagnostic, EvaluationError, TidelogError
from tidelog.logic.program import Program
from tidelog.maintenance.maintainer import Update
from tidelog.maintenance.recompute import former
from tidelog.maintenance.row_sets import Rows, joined, without
from tidelog.temporal.given import GivenBefore

NOT_RECOVERED = "E647"
NOTHING = Update({}, {})


@dataclass(slots=True)
class Begun:
    """A transaction that has begun and not ended: the program to go on with if a fault ends it, and how to
    get the facts that belong to it. Mutable: facts are collected, and the transaction is committed.
    """

    program: Program
    was_materialised: bool
    was_told: bool
    can_derive: bool  # all facts follow from those that are explicit
    stated: Update = NOTHING  # facts that it deletes and adds
    times: Mapping[str, GivenBefore] = field(default_factory=dict)  # those with times, as they were
    is_committed: bool = False
    has_failed: bool = False
    is_recovering: bool = False
    explicit: dict[str, Rows] | None = None  # those of the program and of kept queries, once collected

    def collect(self, engine: Any, others: Collection[str]) -> dict[str, Rows]:
        """The explicit facts of the program, and those of other relations, whatever the fault has left."""
        if self.explicit is None:
            names = (*self.program.predicates, *others)
            self.explicit = {name: rows for name in names if (rows := self._explicit(engine, name)).count}
        return self.explicit

    def _explicit(self, engine: Any, name: str) -> Rows:
        """The explicit facts of a relation: undoing what the transaction does holds at any point of it."""
        known = engine.relations()
        source = former(name) if former(name) in known else name
        rows = Rows(*engine.explicit(source)) if source in known else Rows((), 0)
        for changed in (self.stated.added.get(name), self.stated.removed.get(name)):
            if changed is not None and rows.count:
                rows = without(rows, changed)
        removed = self.stated.removed.get(name)
        if removed is None:
            return rows
        return joined([rows, removed]) if rows.count else removed


def is_orderly(error: BaseException | None) -> bool:
    """Whether an exception, and those that led to it, came where a transaction can be taken back.

    Ctrl-C did, if it has waited for a point at which everything is whole.
    """
    while error is not None:
        is_waited_for = isinstance(error, KeyboardInterrupt) and INTERRUPTS.has_acted
        if not (isinstance(error, TidelogError) or is_waited_for):
            return False
        error = error.__context__
    return True


def not_recovered() -> EvaluationError:
    """That a reasoner cannot go on after a fault."""
    message = "a fault has left a transaction half done, and what was forgotten as time advanced is lost"
    help = "open the store again, or make a new reasoner; what was committed before the fault is as it was"
    return EvaluationError(Diagnostic(NOT_RECOVERED, message, help=help))
