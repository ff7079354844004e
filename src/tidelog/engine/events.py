"""Events: reports of all running work, the only source of progress, statistics and profiles."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import field
from typing import ClassVar, TypeVar

import numpy as np
import numpy.typing as npt

from tidelog.errors import Span
from tidelog.logic.conversions import PythonValue, to_python
from tidelog.logic.program import Rule
from tidelog.logic.values import Value
from tidelog.plan.algebra import ChangePlan
from tidelog.records import dataclass


@dataclass(frozen=True, slots=True)
class PlanOutcome:
    """The outcome of one run of a plan: matched instances, new facts, instances dropped without a value."""

    matches: int
    new: int
    no_value: int = 0


NOTHING = PlanOutcome(0, 0)


@dataclass(frozen=True, slots=True)
class Notice:
    """A message for the user, such as that kernels are being compiled."""

    text: str


@dataclass(frozen=True, slots=True)
class MissingValues:
    """Rows of a rule's body that derive nothing because a function has no value for them.

    A row is a combination of facts that match the body. Of an aggregate, such as `#sum`, they are groups.
    """

    rule: Rule
    function: str  # such as `INT`, `/` or `#sum`; empty if it is not known
    rows: int
    values: tuple[tuple[str, Value], ...] = ()  # in the first row: variables that the function depends on
    place: Span | None = None  # in the program
    is_complete: bool = True  # whether all such rows were counted

    @property
    def first(self) -> dict[str, PythonValue]:
        """The variables that the function depends on, with their values in the first row."""
        return {name: to_python(value) for name, value in self.values}


@dataclass(frozen=True, slots=True)
class ValuesMissing:
    """A load, a transaction or a query has dropped rows because functions had no value for them."""

    missing: tuple[MissingValues, ...]


@dataclass(frozen=True, slots=True)
class FactsLoaded:
    """Facts were read into a relation."""

    relation: str
    rows: int
    new: int
    seconds: float


@dataclass(frozen=True, slots=True)
class FactsRemoved:
    """Facts were deleted, permanently or to be derived again."""

    relation: str
    count: int


@dataclass(frozen=True, slots=True)
class StratumStarted:
    """A stratum's rules begin to run."""

    number: int
    count: int
    predicates: tuple[str, ...]
    recursive: bool


@dataclass(frozen=True, slots=True)
class RuleRan:
    """One plan of a rule ran once."""

    stratum: int
    round: int
    rule: int
    matches: int
    new: int
    no_value: int
    seconds: float


@dataclass(frozen=True, slots=True)
class RoundEnded:
    """A round ended; `new` facts drive the next."""

    stratum: int
    round: int
    new: int


@dataclass(frozen=True, slots=True, eq=False)
class RoundsRan:
    """Rounds ran in one call; a listener that does not `hear_rounds` hears of each plan and of each round."""

    stratum: int
    runs: npt.NDArray[np.int64]  # rows: the round, the rule, matches, new, no_value
    seconds: npt.NDArray[np.float64]  # of each run
    first: int  # the first of the rounds that ended
    new: npt.NDArray[np.int64]  # facts that go into the next round, by round

    def events(self) -> Iterator[RuleRan | RoundEnded]:
        """Return the same as single events."""
        ends = enumerate(self.new.tolist(), self.first)
        ended = next(ends, None)
        for (number, *counts), seconds in zip(self.runs.tolist(), self.seconds.tolist(), strict=True):
            while ended is not None and ended[0] < number:
                yield RoundEnded(self.stratum, *ended)
                ended = next(ends, None)
            rule, matches, new, no_value = counts
            yield RuleRan(self.stratum, number, rule, matches, new, no_value, seconds)
        while ended is not None:
            yield RoundEnded(self.stratum, *ended)
            ended = next(ends, None)


@dataclass(frozen=True, slots=True)
class StratumClosed:
    """A structure closes a stratum's predicate in place of rules."""

    number: int
    kind: str  # transitive, symmetric and transitive


@dataclass(frozen=True, slots=True)
class StratumEnded:
    """A stratum is complete."""

    number: int
    rounds: int
    seconds: float


@dataclass(frozen=True, slots=True)
class MaintainerChosen:
    """A maintainer was chosen for a transaction, for this reason."""

    maintainer: str
    reason: str


@dataclass(frozen=True, slots=True)
class StrategyChosen:
    """A query is answered by this strategy, for this reason."""

    strategy: str
    reason: str


@dataclass(frozen=True, slots=True)
class TablesGrew:
    """A round of tabling has ended; `new` rows were added to tables."""

    new: int


@dataclass(frozen=True, slots=True)
class IntervalsGained:
    """Temporal facts have `count` more intervals than before; fewer if intervals were merged."""

    count: int


@dataclass(frozen=True, slots=True)
class MaintenanceStarted:
    """A transaction begins to be applied, with these numbers of explicit facts and rules."""

    maintainer: str
    removed: int
    added: int
    rules_removed: int
    rules_added: int


@dataclass(frozen=True, slots=True)
class ChangePassed:
    """Plans of a stratum passed a change on: driven by `given` facts they found `found` others."""

    stratum: int
    step: str  # lost, overdelete, rederive, insert, …
    given: int
    found: int


@dataclass(frozen=True, slots=True)
class MarksUsed:
    """Facts were known to be affected, since the update was read ahead."""

    explicit: int  # facts that it deletes
    implicit: int  # facts derived from them
    positive: int = 0  # facts that were deleted and return


@dataclass(frozen=True, slots=True)
class MarkingDecided:
    """Whether an update is marked, for this reason."""

    is_marked: bool
    reason: str


@dataclass(frozen=True, slots=True)
class StratumMaintained:
    """A stratum is up to date again."""

    number: int
    predicates: tuple[str, ...]
    maintainer: str
    overdeleted: int  # facts deleted, of which
    rederived: int  # … these were inserted again, since they have other support
    went: int  # facts deleted in the end
    came: int  # facts inserted
    instances: int  # instances of rules that were found
    seconds: float


@dataclass(frozen=True, slots=True)
class MaintenanceEnded:
    """A transaction is applied, or rolled back: then no facts were deleted (`went`) or inserted (`came`)."""

    maintainer: str
    went: int
    came: int
    seconds: float
    kept: bool = True


Event = (
    Notice
    | ValuesMissing
    | FactsLoaded
    | FactsRemoved
    | StratumStarted
    | RuleRan
    | RoundEnded
    | RoundsRan
    | StratumClosed
    | StratumEnded
    | MaintainerChosen
    | StrategyChosen
    | TablesGrew
    | IntervalsGained
    | MaintenanceStarted
    | ChangePassed
    | MarksUsed
    | MarkingDecided
    | StratumMaintained
    | MaintenanceEnded
)
Listener = Callable[[Event], None]
Heard = TypeVar("Heard", bound=Callable[..., None])


def hear_rounds(listener: Heard) -> Heard:
    """Mark a listener as one that is told of many rounds at once."""
    listener.hears_rounds = True  # type: ignore[attr-defined]
    return listener


def tell(listener: Listener, event: Event) -> None:
    """Pass an event to a listener; many rounds one by one, unless it hears of them at once."""
    if not isinstance(event, RoundsRan) or getattr(listener, "hears_rounds", False):
        listener(event)
        return
    for each in event.events():
        listener(each)


@hear_rounds
def ignore(event: Event) -> None:
    """Ignore an event."""


def wants_strata(listener: Listener) -> bool:
    """Whether a listener has an attribute of this name that is true.

    Then every maintainer reports every stratum to it. Without such a listener they need not: a compiled loop
    would have to pause at each.
    """
    return bool(getattr(listener, "wants_strata", False))


class Audience:
    """Several listeners as one, which requests the events that any of them requests."""

    hears_rounds = True

    def __init__(self, listeners: Iterable[Listener]) -> None:
        self.listeners = list(listeners)
        self.wants_strata = any(map(wants_strata, self.listeners))

    def __call__(self, event: Event) -> None:
        if type(event) is RoundsRan:
            for listener in self.listeners:
                tell(listener, event)
        else:
            for listener in self.listeners:
                listener(event)


@dataclass(slots=True)
class RuleStatistics:
    """The statistics of one rule."""

    rounds: int = 0
    matches: int = 0
    new: int = 0
    no_value: int = 0
    seconds: float = 0.0

    @property
    def duplicates(self) -> int:
        """Matches whose fact existed already."""
        return self.matches - self.new


@dataclass(slots=True)
class Tally:
    """A listener that sums events up per rule and stratum."""

    hears_rounds: ClassVar[bool] = True

    rules: dict[int, RuleStatistics] = field(default_factory=dict)
    strata: dict[int, StratumEnded] = field(default_factory=dict)
    closed: dict[int, StratumClosed] = field(default_factory=dict)
    stratum: StratumStarted | None = None
    round: int = 0
    loaded: int = 0
    derived: int = 0
    matches: int = 0
    load_seconds: float = 0.0
    choices: dict[MaintainerChosen, int] = field(default_factory=dict)  # how often each was made
    explicit_marks: int = 0  # of updates that were read ahead
    implicit_marks: int = 0
    positive_marks: int = 0
    markings: dict[MarkingDecided, int] = field(default_factory=dict)  # how often each was decided
    missing: tuple[MissingValues, ...] = ()  # why rows were dropped
    applications: dict[str, int] = field(default_factory=dict)  # facts found in transactions, by step
    _rounds: dict[int, int] = field(default_factory=dict)  # the last of each rule
    _derived_before: int = 0

    def __call__(self, event: Event) -> None:
        match event:
            case RuleRan():
                self._add(event)
            case MaintainerChosen():  # the three of every transaction are compared early
                self.choices[event] = self.choices.get(event, 0) + 1
            case MaintenanceStarted():
                self._derived_before = self.derived
            case MaintenanceEnded():
                self.derived = self._derived_before + event.came - event.went
            case RoundsRan():
                self._add_rounds(event)
            case StratumStarted():
                self.stratum, self.round = event, 0
            case RoundEnded():
                self.round = event.round
            case StratumClosed():
                self.closed[event.number] = event
            case StratumEnded():
                self.strata[event.number] = event
            case FactsLoaded():
                self.loaded += event.new
                self.load_seconds += event.seconds
            case FactsRemoved():
                self.derived -= event.count
            case TablesGrew():
                self.derived += event.new
            case IntervalsGained():
                self.derived += event.count
            case ChangePassed():
                self._pass(event)
            case MarksUsed():
                self.explicit_marks += event.explicit
                self.implicit_marks += event.implicit
                self.positive_marks += event.positive
            case MarkingDecided():
                self.markings[event] = self.markings.get(event, 0) + 1
            case ValuesMissing():
                self.missing += event.missing
            case StratumMaintained() | StrategyChosen() | Notice():
                pass

    def _pass(self, event: ChangePassed) -> None:
        self.applications[event.step] = self.applications.get(event.step, 0) + event.found
        if event.step == "insert":
            self.derived += event.found  # while it lasts, so that a limit on facts holds

    def _add(self, event: RuleRan) -> None:
        statistics = self.rules.setdefault(event.rule, RuleStatistics())
        if event.round > self._rounds.get(event.rule, -1):
            self._rounds[event.rule] = event.round
            statistics.rounds += 1
        statistics.matches += event.matches
        statistics.new += event.new
        statistics.no_value += event.no_value
        statistics.seconds += event.seconds
        self.derived += event.new
        self.matches += event.matches

    def _add_rounds(self, event: RoundsRan) -> None:
        """Add the runs of many rounds, rule by rule."""
        rules = event.runs[:, 1]
        for rule in sorted(set(rules.tolist())):
            mine = rules == rule
            numbers = event.runs[mine]
            statistics = self.rules.setdefault(rule, RuleStatistics())
            last = self._rounds.get(rule, -1)
            # They are in the order of rounds; a rule may have several plans in one.
            statistics.rounds += int((np.diff(numbers[:, 0], prepend=last) > 0).sum())
            self._rounds[rule] = max(last, int(numbers[-1, 0]))
            matches, new, no_value = numbers[:, 2:].sum(axis=0).tolist()
            statistics.matches += matches
            statistics.new += new
            statistics.no_value += no_value
            statistics.seconds += float(event.seconds[mine].sum())
            self.derived += new
            self.matches += matches
        if len(event.new):
            self.round = event.first + len(event.new) - 1

    def begin_transaction(self) -> None:
        """Count the rounds of a transaction separately from those before."""
        self._rounds.clear()

    def clear(self) -> None:
        """Reset the counts of derived facts; loaded facts stay counted."""
        self.rules.clear()
        self.strata.clear()
        self.choices.clear()
        self.closed.clear()
        self._rounds.clear()
        self.applications.clear()
        self.stratum, self.round, self.derived, self.matches = None, 0, 0, 0
        self.explicit_marks = self.implicit_marks = 0
        self.missing = ()

    @property
    def rounds(self) -> int:
        """All rounds of all strata that have ended."""
        return sum(stratum.rounds for stratum in self.strata.values())


@dataclass(slots=True)
class StratumStatistics:
    """The statistics of one maintainer in one stratum, over all transactions."""

    times: int = 0
    overdeleted: int = 0
    rederived: int = 0
    went: int = 0
    came: int = 0
    instances: int = 0
    seconds: float = 0.0


class StrataTally:
    """A listener that sums up the changes of transactions in each stratum."""

    wants_strata = True
    hears_rounds = True

    def __init__(self) -> None:
        self.strata: dict[tuple[tuple[str, ...], str], StratumStatistics] = {}  # by predicates and maintainer

    def __call__(self, event: Event) -> None:
        if not isinstance(event, StratumMaintained):
            return
        statistics = self.strata.setdefault((event.predicates, event.maintainer), StratumStatistics())
        statistics.times += 1
        statistics.overdeleted += event.overdeleted
        statistics.rederived += event.rederived
        statistics.went += event.went
        statistics.came += event.came
        statistics.instances += event.instances
        statistics.seconds += event.seconds


# ---- profiles: the work of each rule in each phase
#
# The runs of plans belong to the step that is reported after them.

# Called for each run of a plan in a transaction, with the number of given facts, the outcome and the seconds.
PlanListener = Callable[[ChangePlan, int, PlanOutcome, float], None]

MATERIALISE = "materialise"
PHASES = (MATERIALISE, "overdelete", "check", "prove", "rederive", "insert", "other")
# The steps of maintenance algorithms, by the phase that they belong to.
STEPS = {
    "lost": "overdelete",
    "lost under negation": "overdelete",
    "rules removed": "overdelete",
    "overdelete": "overdelete",
    "support": "check",
    "ground": "prove",
    "prove": "prove",
    "rederive": "rederive",
    "gained": "insert",
    "gained under negation": "insert",
    "rules added": "insert",
    "insert": "insert",
}


@dataclass(slots=True)
class Done:
    """The statistics of a rule in a phase. Mutable: runs are added."""

    attempts: int = 0  # runs of one of its plans
    given: int = 0  # facts that drove the runs, in transactions
    matches: int = 0
    new: int = 0
    no_value: int = 0
    seconds: float = 0.0

    @property
    def duplicates(self) -> int:
        """Matches that derived no new fact."""
        return self.matches - self.new

    def add(self, given: int, outcome: PlanOutcome, seconds: float) -> None:
        """Add one run."""
        self.attempts += 1
        self.given += given
        self.matches += outcome.matches
        self.new += outcome.new
        self.no_value += outcome.no_value
        self.seconds += seconds


@dataclass
class Profile:
    """The statistics of each rule in each phase."""

    rules: tuple[Rule, ...]
    done: dict[tuple[str, Rule], Done] = field(default_factory=dict)
    strata: float = 0.0  # seconds of strata in transactions, plans and all else
    _waiting: list[tuple[Rule, int, PlanOutcome, float]] = field(default_factory=list)

    wants_strata = True  # of transactions too

    def __call__(self, event: Event) -> None:
        match event:
            case RuleRan():
                outcome = PlanOutcome(event.matches, event.new, event.no_value)
                self._add(MATERIALISE, self.rules[event.rule], 0, outcome, event.seconds)
            case ChangePassed():
                self._flush(STEPS.get(event.step, "other"))
            case StratumMaintained():
                self._flush("other")  # plans that belong to no step, such as those that count
                self.strata += event.seconds

    def plan_ran(self, plan: ChangePlan, given: int, outcome: PlanOutcome, seconds: float) -> None:
        """Record the run of a plan until its step is reported."""
        self._waiting.append((plan.rule, given, outcome, seconds))

    def _flush(self, phase: str) -> None:
        for rule, given, outcome, seconds in self._waiting:
            self._add(phase, rule, given, outcome, seconds)
        self._waiting = []

    def _add(self, phase: str, rule: Rule, given: int, outcome: PlanOutcome, seconds: float) -> None:
        self.done.setdefault((phase, rule), Done()).add(given, outcome, seconds)
