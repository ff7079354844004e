"""Events: what everything that runs reports, the one source of progress, statistics and profiles."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from dataclasses import dataclass, field

from tidelog.logic.program import Rule
from tidelog.plan.algebra import ChangePlan


@dataclass(frozen=True, slots=True)
class PlanOutcome:
    """What one run of a plan did: instances matched, facts new, instances dropped for want of a value."""

    matches: int
    new: int
    no_value: int = 0


NOTHING = PlanOutcome(0, 0)


@dataclass(frozen=True, slots=True)
class Notice:
    """Something the user should know, such as kernels being compiled."""

    text: str


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
    """A round ended; `new` facts go into the next."""

    stratum: int
    round: int
    new: int


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
    """Facts over time have `count` intervals more than before; fewer, if some were merged."""

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
    rederived: int  # … these were inserted again, since something else supports them
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
    | FactsLoaded
    | FactsRemoved
    | StratumStarted
    | RuleRan
    | RoundEnded
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


def ignore(event: Event) -> None:
    """Ignore an event."""


def wants_strata(listener: Listener) -> bool:
    """Whether a listener has an attribute of this name that is true.

    Then every maintainer reports every stratum to it. Without such a listener they need not: a compiled loop
    would have to pause at each.
    """
    return bool(getattr(listener, "wants_strata", False))


class Audience:
    """Several listeners as one, that wants what any of them wants."""

    def __init__(self, listeners: Iterable[Listener]) -> None:
        self.listeners = list(listeners)
        self.wants_strata = any(map(wants_strata, self.listeners))

    def __call__(self, event: Event) -> None:
        for listener in self.listeners:
            listener(event)


@dataclass(slots=True)
class RuleStatistics:
    """What one rule has done so far."""

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
    applications: dict[str, int] = field(default_factory=dict)  # facts found in transactions, by step
    _rounds: set[tuple[int, int]] = field(default_factory=set)
    _derived_before: int = 0

    def __call__(self, event: Event) -> None:
        match event:
            case RuleRan():
                self._add(event)
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
            case MaintenanceStarted():
                self._derived_before = self.derived
            case ChangePassed():
                self._pass(event)
            case MaintenanceEnded():
                self.derived = self._derived_before + event.came - event.went
            case MaintainerChosen():
                self.choices[event] = self.choices.get(event, 0) + 1
            case MarksUsed():
                self.explicit_marks += event.explicit
                self.implicit_marks += event.implicit
                self.positive_marks += event.positive
            case MarkingDecided():
                self.markings[event] = self.markings.get(event, 0) + 1
            case StratumMaintained() | StrategyChosen() | Notice():
                pass

    def _pass(self, event: ChangePassed) -> None:
        self.applications[event.step] = self.applications.get(event.step, 0) + event.found
        if event.step == "insert":
            self.derived += event.found  # while it lasts, so that a limit on facts holds

    def _add(self, event: RuleRan) -> None:
        statistics = self.rules.setdefault(event.rule, RuleStatistics())
        if (event.rule, event.round) not in self._rounds:
            self._rounds.add((event.rule, event.round))
            statistics.rounds += 1
        statistics.matches += event.matches
        statistics.new += event.new
        statistics.no_value += event.no_value
        statistics.seconds += event.seconds
        self.derived += event.new
        self.matches += event.matches

    def begin_transaction(self) -> None:
        """Count the rounds of a transaction separately from those before."""
        self._rounds.clear()

    def clear(self) -> None:
        """Start again; what was loaded stays loaded."""
        self.rules.clear()
        self.strata.clear()
        self.choices.clear()
        self.closed.clear()
        self._rounds.clear()
        self.applications.clear()
        self.stratum, self.round, self.derived, self.matches = None, 0, 0, 0
        self.explicit_marks = self.implicit_marks = 0

    @property
    def rounds(self) -> int:
        """All rounds of all strata that have ended."""
        return sum(stratum.rounds for stratum in self.strata.values())


@dataclass(slots=True)
class StratumStatistics:
    """What one maintainer did in one stratum, in all transactions so far."""

    times: int = 0
    overdeleted: int = 0
    rederived: int = 0
    went: int = 0
    came: int = 0
    instances: int = 0
    seconds: float = 0.0


class StrataTally:
    """A listener that hears of every stratum, and sums up what transactions did in each."""

    wants_strata = True

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
# What plans do belongs to the step that is reported when they have run.

# Called for each run of a plan in a transaction: over how many given facts, what it did, in how many seconds.
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
    """What a rule did in a phase. Mutable: it grows."""

    attempts: int = 0  # runs of one of its plans
    given: int = 0  # facts that drove them, in transactions
    matches: int = 0
    new: int = 0
    no_value: int = 0
    seconds: float = 0.0

    @property
    def duplicates(self) -> int:
        """Matches that derived nothing new."""
        return self.matches - self.new

    def add(self, given: int, outcome: PlanOutcome, seconds: float) -> None:
        """Count one more run."""
        self.attempts += 1
        self.given += given
        self.matches += outcome.matches
        self.new += outcome.new
        self.no_value += outcome.no_value
        self.seconds += seconds


@dataclass
class Profile:
    """What each rule did in each phase."""

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
        """Note what a plan did, until it is known which step it belongs to."""
        self._waiting.append((plan.rule, given, outcome, seconds))

    def _flush(self, phase: str) -> None:
        for rule, given, outcome, seconds in self._waiting:
            self._add(phase, rule, given, outcome, seconds)
        self._waiting = []

    def _add(self, phase: str, rule: Rule, given: int, outcome: PlanOutcome, seconds: float) -> None:
        self.done.setdefault((phase, rule), Done()).add(given, outcome, seconds)
