"""An engine at work: its limits and listeners, its maintainer, and how it begins again after a fault.
Mutates itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from contextlib import ExitStack, suppress
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING, TypeVar

from tidelog import maintenance
from tidelog.data.rows import Rows, concatenate, total, without
from tidelog.engine.events import Audience, Listener, MissingValues, Tally, ValuesMissing
from tidelog.engine.interrupts import INTERRUPTS, Limits, Lock, made_once
from tidelog.errors import Diagnostic, EvaluationError, TidelogError
from tidelog.errors.codes import NOT_RECOVERED
from tidelog.logic.program import Program
from tidelog.maintenance.maintainer import NO_CHANGE, NO_UPDATE, Maintainer, NetChange, Update
from tidelog.maintenance.recompute import former
from tidelog.query import registry as strategies
from tidelog.query.kept_queries import KeptQueries, QueryStep
from tidelog.query.query_keepers import RequeriedQueries
from tidelog.query.strategy import Strategy
from tidelog.reasoner.program_state import DerivedState, ProgramState
from tidelog.reasoner.subscriptions import Subscriptions
from tidelog.records import dataclass
from tidelog.rewrite.representatives import ALIAS

if TYPE_CHECKING:
    from tidelog.engine.columnar.engine import ColumnarEngine
    from tidelog.equality.treatment import Axiomatised
    from tidelog.temporal.temporal import Temporal
    from tidelog.temporal.timed_changes import GivenBefore

T = TypeVar("T")


class Runtime:
    """An engine at work.

    The timeout counts from `started`, a monotonic time, else from the beginning of each call.
    """

    def __init__(
        self,
        engine: ColumnarEngine,
        listeners: Iterable[Listener],
        timeout: float | None,
        max_facts: int | None,
    ) -> None:
        self.engine = engine
        self.statistics = Tally()
        self.tell = Audience([self.statistics, *listeners])
        self.timeout = timeout
        self.max_facts = max_facts
        self.started: float | None = None
        self._check: Callable[[], None] = _proceed
        self._missing: dict[tuple[object, str], int] = {}  # rows without a value, when they were last counted

    def grown(self, missing: Sequence[MissingValues]) -> tuple[MissingValues, ...]:
        """Return those with more rows than when all rows were last counted, and remember these counts."""
        before = self._missing
        self._missing = {(each.place, each.function): each.rows for each in missing}
        return tuple(each for each in missing if each.rows > before.get((each.place, each.function), 0))

    def limits(self) -> Limits:
        """Return the limits of what begins now, which the engine checks from now on."""
        limits = Limits(self.statistics, self.timeout, self.max_facts, self.started)
        active = self.engine.limits
        active.check = self._check = limits.check
        active.budget, active.room = limits.budget, limits.room
        return limits

    def no_limits(self) -> Limits:
        """Return the same for what nothing may stop."""
        limits = Limits(self.statistics, may_stop=False)
        self.engine.limits.check = self._check = _proceed
        self.engine.limits.budget, self.engine.limits.room = limits.budget, limits.room
        return limits

    def check(self) -> None:
        """Raise what the present limits say."""
        self._check()


def _proceed(found: int = 0, are_answers: bool = False) -> None:
    """The check that never stops anything."""


@dataclass(slots=True)
class UsedStrategies:
    """The strategies that queries were answered by. Mutable: each is made when it is first used."""

    by_name: dict[str, Strategy] = field(default_factory=dict)
    are_tables_wanted: bool = False  # a caller has asked for tables, rather than `auto`

    def get(self, name: str) -> Strategy:
        """Return the strategy of this name, with what it has kept since it was first used."""
        if name not in self.by_name:
            self.by_name[name] = strategies.STRATEGIES[name]()
        return self.by_name[name]

    def drain(self) -> None:
        """Compute the remaining answers of all open streams before facts or rules change."""
        if self.by_name:
            strategies.settle(self.by_name.values())

    @property
    def are_tabled(self) -> bool:
        """Whether there are tables, which follow the facts."""
        return strategies.are_following(self.by_name.values())


# Errors of tidelog's own (`TidelogError`) come at points where the maintainers can roll a transaction back,
# step by step. Anything else, such as a lack of memory or an exception of a listener, may come anywhere:
# between two arrays that belong together, or in the rollback itself. Then no derived fact is trusted any
# more. The reasoner begins again with its explicit facts. How to get those from before the transaction is
# noted when it begins; that can be done any number of times, also after another fault.


@dataclass(slots=True)
class OpenTransaction:
    """A transaction that has begun and not ended: the program to go on with if a fault ends it, and how to
    get the facts that belong to it. Mutable: facts are collected, and the transaction is committed.
    """

    program: Program
    was_materialised: bool
    was_reported: bool
    can_derive: bool  # all facts follow from explicit ones
    explicit_changes: Update = NO_UPDATE  # facts that it deletes and adds
    times: Mapping[str, GivenBefore] = field(default_factory=dict)  # those with times, as they were
    is_committed: bool = False
    is_rolling_back: bool = False  # a dry run is being undone
    has_failed: bool = False
    is_recovering: bool = False
    explicit: dict[str, Rows] | None = None  # those of the program and of kept queries, once collected

    def collect(self, engine: ColumnarEngine, others: Collection[str]) -> dict[str, Rows]:
        """Return the explicit facts of the program and of other relations, whatever the fault has left."""
        if self.explicit is None:
            names = (*self.program.predicates, *others)
            self.explicit = {name: rows for name in names if (rows := self._explicit(engine, name)).count}
        return self.explicit

    def _explicit(self, engine: ColumnarEngine, name: str) -> Rows:
        """Return the explicit facts of a relation: undoing the transaction's own is right at any point."""
        known = engine.storage.relations()
        source = former(name) if former(name) in known else name
        rows = Rows(*engine.storage.explicit(source)) if source in known else Rows((), 0)
        deleted = self.explicit_changes.removed.get(name)
        for changed in (self.explicit_changes.added.get(name), deleted):
            if changed is not None and rows.count:
                rows = without(rows, changed)
        if deleted is None:
            return rows
        return concatenate([rows, deleted]) if rows.count else deleted


class Recovery:
    """Runs transactions, all of one or nothing of it: after a fault that can come anywhere, `rebuild` derives
    everything from the explicit facts again.
    """

    def __init__(
        self,
        program: ProgramState,
        derived: DerivedState,
        time: Temporal,
        lock: Lock,
        rebuild: Callable[[OpenTransaction], None],
    ) -> None:
        self._program = program
        self._derived = derived
        self._time = time
        self._lock = lock
        self._rebuild = rebuild
        self._open: OpenTransaction | None = None  # a transaction that is not at its end

    def whole(self, act: Callable[[OpenTransaction], T], *, is_advancing: bool = False) -> T:
        """Return the result of a transaction, or of another change of derived facts: all of it or nothing.

        What is forgotten as time advances cannot be derived again.
        """
        if self._open is not None:  # a part of another, or of beginning again
            return act(self._open)
        derived = self._derived
        can_derive = self._time.past.time is None and not is_advancing
        opened = OpenTransaction(
            self._program.current, derived.is_materialised, derived.is_reported, can_derive
        )
        self._open = opened
        try:
            result = act(opened)
        except BaseException as error:
            opened.has_failed = True
            if is_orderly(error) and not (opened.is_committed or opened.is_rolling_back):
                self._open = None
            else:
                with suppress(BaseException):  # it is done when the reasoner is next used
                    self.recover()
            raise
        self._open = None
        return result

    def recover(self) -> None:
        """Begin again with the explicit facts, if a fault has ended a transaction somewhere within it."""
        if self._open is None or not self._open.has_failed:
            return
        with self._lock:
            opened = self._open
            if opened is None or opened.is_recovering:  # another thread has done it, or this is a part of it
                return
            if not opened.can_derive:
                raise not_recovered()
            opened.is_recovering = True
            try:
                self._rebuild(opened)
            finally:
                opened.is_recovering = False
            self._open = None


def is_orderly(error: BaseException | None) -> bool:
    """Whether an exception, and those that led to it, came where a transaction can be rolled back.

    Ctrl-C did, if it has waited for a point at which everything is whole.
    """
    while error is not None:
        is_waited_for = isinstance(error, KeyboardInterrupt) and INTERRUPTS.has_acted
        if not (isinstance(error, TidelogError) or is_waited_for):
            return False
        error = error.__context__
    return True


def not_recovered() -> EvaluationError:
    """Return the error that says that a reasoner cannot go on after a fault."""
    message = "a fault left a transaction incomplete, and facts forgotten as time advanced are lost"
    help = "open the store again, or create a new reasoner; what was committed before the fault is unchanged"
    return EvaluationError(Diagnostic(NOT_RECOVERED, message, help=help))


@dataclass(slots=True, eq=False)
class PendingUpdate:
    """An update that is being applied, and what undoes it. Mutable: each stage adds what it has found out."""

    step: QueryStep
    net: NetChange = NO_CHANGE
    opened: OpenTransaction = field(init=False)  # once it is open
    is_installed: bool = False  # it is not rolled back any more
    undo: list[Callable[[], object]] = field(default_factory=list)  # what a rollback calls, the last first

    def roll_back(self) -> None:
        """Undo what the stages have done; if a function raises, the others are called all the same."""
        undone, self.undo = self.undo, []
        with ExitStack() as stack:
            for undo in undone:
                stack.callback(undo)


P = TypeVar("P", bound=PendingUpdate)


def run(pending: P, stages: Iterable[Callable[[P], None]]) -> None:
    """Run stages one after the other; if one of them raises, roll back what they have done."""
    try:
        for stage in stages:
            stage(pending)
    except BaseException:
        if not pending.is_installed:
            pending.roll_back()
        raise


def within_limits(runtime: Runtime, stages: tuple[Callable[[P], None], ...]) -> Callable[[P], None]:
    """Return a stage that runs others within the limits on time, facts and memory."""

    def run_within_limits(pending: P) -> None:
        with runtime.limits().guarding():
            for stage in stages:
                stage(pending)

    return run_within_limits


@dataclass(frozen=True, slots=True)
class MaintenanceSettings:
    """By which maintainer, and with which marks, derived facts are maintained."""

    maintainer: str
    marking: str
    modules: bool  # whether structures may keep closures

    @property
    def keeps_closures(self) -> bool:
        """Whether structures keep closures."""
        return self.modules and maintenance.keeps_closures(self.maintainer, self.marking)


@dataclass(frozen=True, slots=True)
class SharedParts:
    """What those parts of a reasoner work on that derive, maintain, ask and commit."""

    runtime: Runtime
    program: ProgramState
    derived: DerivedState
    time: Temporal
    strategies: UsedStrategies
    demands: KeptQueries
    requeried: RequeriedQueries
    subscriptions: Subscriptions
    recovery: Recovery
    settings: MaintenanceSettings
    lock: Lock


def missing_after(step: QueryStep, net: NetChange, runtime: Runtime) -> tuple[MissingValues, ...]:
    """Return what rules drop, for want of a value, of the rows that an update has brought."""
    from tidelog.engine.missing_values import find_missing, find_missing_in_change

    engine, update = runtime.engine, step.update
    if ALIAS in step.after.predicates:  # the net change is not of the relations that rules read
        return runtime.grown(find_missing(step.after.rules, engine))
    added = frozenset(update.rules_added)
    kept = (rule for rule in step.after.rules if rule not in added)
    in_change = find_missing_in_change(kept, net.added, net.removed, engine)
    return (*find_missing(update.rules_added, engine), *in_change)


class Applier:
    """The maintainer at work, for the program and for kept queries alike."""

    def __init__(self, shared: SharedParts) -> None:
        self._runtime = shared.runtime
        self._settings = shared.settings
        self._program = shared.program
        self._demands = shared.demands
        self._recovery = shared.recovery
        self._keep_stages = (within_limits(shared.runtime, (self._keep, self._check_kept_queries)),)

    @made_once
    def maintainer(self) -> Maintainer:
        """The maintainer, which knows nothing yet."""
        settings, runtime = self._settings, self._runtime
        from tidelog.maintenance import registry

        return registry.make(
            settings.maintainer,
            settings.marking,
            runtime.engine,
            runtime.tell,
            runtime.check,
            settings.keeps_closures,
        )

    def attach(self, treatment: Axiomatised) -> None:
        """Set a treatment of equality to work."""
        treatment.attach(self._runtime, self.maintainer)

    def begin_again(self) -> None:
        """Forget the maintainer, and what it knows: the next update makes another."""
        vars(self).pop("maintainer", None)

    def keep(self, step: QueryStep) -> None:
        """Apply what kept queries need, all of it or nothing."""
        self._recovery.whole(lambda opened: run(PendingUpdate(step), self._keep_stages))

    def _keep(self, pending: PendingUpdate) -> None:
        """Apply what kept queries need, and report the rows that it has dropped for want of a value."""
        engine = self._runtime.engine
        dropped = engine.dropped
        self.maintain(pending)
        if engine.dropped != dropped:
            missing = missing_after(pending.step, pending.net, self._runtime)
            if missing:
                self._runtime.tell(ValuesMissing(missing))

    def _check_kept_queries(self, pending: PendingUpdate) -> None:
        self._demands.check_consistency(self._program.effective)

    def maintain(self, pending: PendingUpdate) -> None:
        """Apply an update to all that is maintained, and count what it changes."""
        step, tally = pending.step, self._runtime.statistics
        update, loaded, derived = step.update, tally.loaded, tally.derived
        if update:
            if step.kept.arities:
                self._demands.define(step.kept)
            pending.net = self._apply(update, step.before, step.after)
            pending.undo.append(partial(self._undo, step))
        _count(tally, loaded, derived, update, pending.net)
        self._runtime.check()

    def _undo(self, step: QueryStep) -> None:
        """Apply the inverse of an update. Nothing stops this."""
        with self._runtime.no_limits().guarding():
            self._apply(step.update.inverse, step.after, step.before)

    def _apply(self, update: Update, before: Program, after: Program) -> NetChange:
        has_classes = ALIAS in before.predicates or ALIAS in after.predicates
        maintainer = self._program.equality.maintainer if has_classes else self.maintainer
        return maintainer.apply(update, before, after)


def _count(tally: Tally, loaded: int, derived: int, update: Update, net: NetChange) -> None:
    """Update the numbers of explicit and derived facts in the tally after an update."""
    explicit = update.additions - update.removals
    tally.loaded = loaded + explicit
    tally.derived = derived + total(net.added) - total(net.removed) - explicit
