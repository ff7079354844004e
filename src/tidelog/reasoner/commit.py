"""Updates applied by an engine at work: everything that they mean, or nothing of it; what undoes one left
half done.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from tidelog.data.rows import Rows, concatenate, total, without
from tidelog.engine.events import Audience, Listener, Tally
from tidelog.engine.interrupts import INTERRUPTS
from tidelog.engine.limits import Limits
from tidelog.errors import Diagnostic, EvaluationError, TidelogError
from tidelog.logic.program import Program
from tidelog.maintenance.maintainer import Maintainer, NetChange, Update
from tidelog.maintenance.recompute import former
from tidelog.query.kept_queries import Demands, Step
from tidelog.temporal.timed_changes import GivenBefore

# ---- An engine at work: its limits, its kernels, and those who are told what it does. Mutates itself.


class Runtime:
    """An engine at work.

    The timeout counts from `started`, a monotonic time, else from the beginning of each call.
    """

    def __init__(
        self, engine: Any, listeners: Iterable[Listener], timeout: float | None, max_facts: int | None
    ) -> None:
        self.engine = engine
        self.statistics = Tally()
        self.tell = Audience([self.statistics, *listeners])
        self.timeout = timeout
        self.max_facts = max_facts
        self.started: float | None = None
        self._check: Callable[[], None] = _proceed

    def limits(self) -> Limits:
        """The limits of what begins now, which the engine checks from now on."""
        limits = Limits(self.statistics, self.timeout, self.max_facts, self.started)
        self.engine.check = self._check = limits.check
        self.engine.budget = limits.budget
        return limits

    def no_limits(self) -> Limits:
        """The same for what nothing may stop."""
        limits = Limits(self.statistics, may_stop=False)
        self.engine.check = self._check = _proceed
        self.engine.budget = limits.budget
        return limits

    def check(self) -> None:
        """Raise what the limits of the moment say."""
        self._check()


def _proceed(found: int = 0, are_answers: bool = False) -> None:
    """The check that never stops anything."""


# ---- What undoes a transaction that a fault has left half done, whatever state the fault has left behind.
#
# Errors of tidelog's own (`TidelogError`) come at points where the maintainers can take a transaction back,
# step by step. Anything else, such as a lack of memory or an exception of a listener, may come anywhere:
# between two arrays that belong together, or in the taking back itself. Then nothing that was derived is
# trusted any more. The reasoner begins anew with its explicit facts. How to get those from before the
# transaction is noted when it begins; that can be done any number of times, also after another fault.

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
        return concatenate([rows, removed]) if rows.count else removed


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


# ---- Updates carried out: everything that they mean, or nothing of it. Mutates the engine.

Check = Callable[[NetChange], None]  # raises if a net change must not be


class Rehearsed(Exception):  # noqa: N818 – no error: the update was never meant to stay
    """An update was worked in to see what it changes, and must be taken back."""

    def __init__(self, net: NetChange) -> None:
        super().__init__()
        self.net = net


class Committing:
    """The maintainer at work, for the program and for kept queries alike."""

    def __init__(self, runtime: Runtime, maintainer: Maintainer, demands: Demands) -> None:
        self.maintainer = maintainer
        self._runtime = runtime
        self._demands = demands

    def rehearse(self, update: Update, before: Program, after: Program, check: Check) -> NetChange:
        """The net change that an update would make: it is carried out and taken back."""
        try:
            self.carry_out(update, before, after, check, is_kept=False)
        except Rehearsed as rehearsed:
            return rehearsed.net
        raise AssertionError("a rehearsal is taken back")

    def carry_out(
        self,
        update: Update,
        before: Program,
        after: Program,
        check: Check,
        is_kept: bool = True,
    ) -> NetChange:
        """The net change of an update; on any exception, such as one of `check`, everything is as before."""
        is_same = after is before
        new = [] if is_same else [name for name in after.predicates if name not in before.predicates]
        tally, engine = self._runtime.statistics, self._runtime.engine
        loaded, derived = tally.loaded, tally.derived
        tally.clear()
        tally.derived = derived
        try:
            for name in new:
                engine.define(name, after.predicates[name].arity)
            step = self._demands.step(update, before, after)
            net = self.maintain(step, check, is_kept)
            self._demands.adopt(step)
        except BaseException:
            for name in new:
                engine.drop(name)
            tally.loaded, tally.derived = loaded, derived
            raise
        return net

    def maintain(self, step: Step, check: Check, is_kept: bool = True) -> NetChange:
        """The net change of a step, which is taken back if its outcome may not be: then `check` raises.

        One that is not to be kept is taken back in any case, and the net change raised.
        """
        update, tally = step.update, self._runtime.statistics
        loaded, derived = tally.loaded, tally.derived
        net = NetChange()
        is_done = False
        limits = self._runtime.limits()
        try:
            with limits.guarding():
                if update:
                    self._demands.define(step.kept)
                    net = self.maintainer.apply(update, step.before, step.after)
                    is_done = True
                _count(tally, loaded, derived, update, net)
                limits.check()
                check(net)
                if not is_kept:
                    raise Rehearsed(net)
        except BaseException:
            if is_done:
                self._undo(step)
            raise
        return net

    def _undo(self, step: Step) -> None:
        """Take a step back that was carried out but must not be. Nothing stops this."""
        with self._runtime.no_limits().guarding():
            self.maintainer.apply(step.update.inverse, step.after, step.before)


def _count(tally: Tally, loaded: int, derived: int, update: Update, net: NetChange) -> None:
    """Update the numbers of explicit and derived facts in the tally after an update."""
    explicit = total(update.added) - total(update.removed)
    tally.loaded = loaded + explicit
    tally.derived = derived + total(net.added) - total(net.removed) - explicit
