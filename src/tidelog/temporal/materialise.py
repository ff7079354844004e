"""Materialisation over time: naive, semi-naive, and semi-naive with rules left out as soon as they are done.

Wang, Wałęga, Cuenca Grau: Seminaïve Materialisation in DatalogMTL, RuleML+RR 2022, Procedures 1 to 3, with
the corrections of docs/algorithms/temporal.md.

Invariant: after k rounds the tables hold T^k, k applications of all rules to the facts given; each round
reads what the rounds before have found, and nothing of its own.

What is new in a round are points, not coalesced facts: a metric atom is evaluated where its facts have
changed, and the points that it has now and did not have before are joined with the other literals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from time import perf_counter

from tidelog.engine.events import (
    Event,
    IntervalsGained,
    Listener,
    RoundEnded,
    RuleRan,
    StratumEnded,
    StratumStarted,
)
from tidelog.errors import Diagnostic, EvaluationError
from tidelog.logic.program import Rule
from tidelog.temporal.analysis import time_strata
from tidelog.temporal.compute import Computer
from tidelog.temporal.evaluate import Driver, Evaluation
from tidelog.temporal.heads import Derived, head_facts
from tidelog.temporal.horizon import Horizon
from tidelog.temporal.interval_dred import Journal
from tidelog.temporal.nodes import Body, ReadyRule
from tidelog.temporal.optimise import Pruning, Unit
from tidelog.temporal.outcome import Outcome
from tidelog.temporal.rows import Groups
from tidelog.temporal.store import Store
from tidelog.temporal.table import Part

PROCEDURES = ("optimised", "seminaive", "naive")
NOT_FINISHED = "E615"


@dataclass(slots=True)
class Derivation:
    """A materialisation under way, and what it needs. Mutates the store."""

    store: Store
    ready: Sequence[ReadyRule]
    listen: Listener
    check: Callable[[], None]
    procedure: str = PROCEDURES[0]
    rounds: int | None = None
    horizon: Horizon | None = None
    strata_before: int = 0  # those of rules without time
    journal: Journal | None = None  # of a transaction that this is a part of
    dropped: dict[int, int] = field(default_factory=dict)  # rules left out, and after which round

    def run(self) -> Outcome:
        """Derive everything, level by level."""
        by_rule = {id(ready.rule): ready for ready in self.ready}
        strata = time_strata([ready.rule for ready in self.ready])
        most = 0
        is_complete = True
        for number, stratum in enumerate(strata, self.strata_before):
            count = self.strata_before + len(strata)
            self.listen(StratumStarted(number, count, stratum.predicates, stratum.recursive))
            start = perf_counter()
            if not is_complete:
                raise not_finished(self.rounds, stratum.rules)
            done, is_complete = self._level(number, [by_rule[id(rule)] for rule in stratum.rules])
            most = max(most, done)
            self.listen(StratumEnded(number, done, perf_counter() - start))
        self._settle()
        return Outcome(most, is_complete, self.horizon)

    def _settle(self) -> None:
        """Nothing is new any more."""
        for table in self.store.tables.values():
            table.forget_change()

    def _level(self, number: int, ready: Sequence[ReadyRule]) -> tuple[int, bool]:
        """How many rounds were made, and whether nothing more follows."""
        computer = Computer(self.store.engine)
        evaluation = Evaluation(self.store, computer)
        units = [Unit(rule, body) for rule in ready for body in rule.bodies]
        pruning = Pruning(units, evaluation) if self.procedure == "optimised" else None
        done = 0
        while self.rounds is None or done < self.rounds:
            done += 1
            derived = Derived()
            active = units if pruning is None or done == 1 else pruning.driven(self.store)
            for unit in active:
                start, missing = perf_counter(), computer.missing
                matches = 0
                for groups in self._found(evaluation, unit, done):
                    matches += len(groups)
                    derived.add(unit.ready.head, *head_facts(unit.ready, groups, self.store))
                if matches and pruning is not None:
                    pruning.note(unit)
                seconds = perf_counter() - start
                self.listen(
                    RuleRan(number, done, unit.ready.number, matches, 0, computer.missing - missing, seconds)
                )
                self.check()
            new = self._take(number, done, derived)
            if not new:
                return done - 1, True
            if pruning is not None:
                for rule in pruning.prune(self.store):
                    self.dropped[rule] = done
        return done, False

    def _found(self, evaluation: Evaluation, unit: Unit, done: int) -> Iterator[Groups]:
        """What one body finds: all in the first round and in each naive one, else what is new."""
        if done == 1 or self.procedure == "naive":
            yield evaluation.whole(unit.body)
            return
        yield from new_groups(evaluation, unit.body, self.store)

    def _take(self, number: int, done: int, derived: Derived) -> int:
        """End a round: add what was derived; returns how many intervals hold new points."""
        new = 0
        grown = 0
        for name, table in self.store.tables.items():
            numbers, lists = derived.of(name)
            if self.horizon is not None:
                lists = self.horizon.clip(lists)
            if not len(numbers):
                table.forget_change()
                continue
            if self.journal is not None:
                self.journal.note(table, numbers)
            before = len(table)
            numbers, change = table.gain(numbers, lists)
            grown += len(table) - before
            table.note(numbers, change, is_gain=True)
            new += change.size
        self.listen(RoundEnded(number, done, new))
        self.listen(IntervalsGained(grown))
        return new


def not_finished(rounds: int | None, rules: Sequence[Rule]) -> EvaluationError:
    """Return the error where a level is not finished that these rules negate.

    What is not found yet would count as false.
    """
    message = f"after {rounds} rounds a predicate is not complete that a rule negates"
    help = "allow more rounds, or give a horizon"
    span = next((rule.span for rule in rules if rule.negated), rules[0].span)
    return EvaluationError(Diagnostic(NOT_FINISHED, message, span, help=help))


def unheard(event: Event) -> None:
    """What listens to a derivation that nobody is told of."""


def new_groups(evaluation: Evaluation, body: Body, store: Store) -> Iterator[Groups]:
    """What a body gains by what its atoms gained in the last round."""
    for leaf in body.homes:
        if not leaf.is_negated and len(store.tables[leaf.predicate].changed):
            yield evaluation.driven(body, Driver(leaf, Part.BEFORE, Part.NOW))
