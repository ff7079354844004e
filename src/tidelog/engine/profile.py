"""Where the time goes: what each rule did in each phase, from what everything that runs says of itself.

A listener of events, and of the plans that transactions run. What plans do belongs to the step that is told
when they have run. Mutates itself.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field

from tidelog.engine.events import ChangePassed, Event, RuleRan, StratumMaintained
from tidelog.engine.protocol import Outcome
from tidelog.logic.program import Rule
from tidelog.plan.algebra import ChangePlan

# Is told of each run of a plan in a transaction: over how many given facts, what it did, in how many seconds.
PlanListener = Callable[[ChangePlan, int, Outcome, float], None]

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
        """Matches that gave nothing new."""
        return self.matches - self.new

    def add(self, given: int, outcome: Outcome, seconds: float) -> None:
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
    _waiting: list[tuple[Rule, int, Outcome, float]] = field(default_factory=list)

    wants_strata = True  # of transactions too

    def __call__(self, event: Event) -> None:
        match event:
            case RuleRan():
                outcome = Outcome(event.matches, event.new, event.no_value)
                self._add(MATERIALISE, self.rules[event.rule], 0, outcome, event.seconds)
            case ChangePassed():
                self._flush(STEPS.get(event.step, "other"))
            case StratumMaintained():
                self._flush("other")  # plans that no step was told of, such as those that count
                self.strata += event.seconds

    def plan_ran(self, plan: ChangePlan, given: int, outcome: Outcome, seconds: float) -> None:
        """Note what a plan did, until it is known which step it belongs to."""
        self._waiting.append((plan.rule, given, outcome, seconds))

    def _flush(self, phase: str) -> None:
        for rule, given, outcome, seconds in self._waiting:
            self._add(phase, rule, given, outcome, seconds)
        self._waiting = []

    def _add(self, phase: str, rule: Rule, given: int, outcome: Outcome, seconds: float) -> None:
        self.done.setdefault((phase, rule), Done()).add(given, outcome, seconds)
