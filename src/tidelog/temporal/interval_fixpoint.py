"""Materialisation over time: naive, semi-naive, and semi-naive with rules dropped when they are complete.

Wang, Wałęga, Cuenca Grau: Seminaïve Materialisation in DatalogMTL, RuleML+RR 2022, Procedures 1 to 3, with
the corrections of docs/algorithms/temporal.md.

Invariant: after k rounds the tables hold T^k, k applications of all rules to the explicit facts; each round
reads only points derived in earlier rounds.

The delta of a round has points, not coalesced facts: a metric atom is evaluated where its facts have
changed, and the points that it has now and did not have before are joined with the other literals.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import field
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
from tidelog.errors.codes import NOT_FINISHED
from tidelog.logic.program import Rule
from tidelog.plan.algebra import Part
from tidelog.records import dataclass
from tidelog.temporal.body_evaluation import (
    BodyEvaluation,
    DrivingAtom,
    ExpressionEvaluator,
    head_facts,
)
from tidelog.temporal.horizon import Horizon, TimedOutcome
from tidelog.temporal.interval_bindings import IntervalBindings
from tidelog.temporal.interval_kernels import INFINITY
from tidelog.temporal.interval_table import IntervalLists
from tidelog.temporal.metric_rules import (
    FORWARD,
    Body,
    CompiledMetricRule,
    Leaf,
    Node,
    Shifted,
    direction,
    leaves,
    recursive_predicates,
    time_strata,
)
from tidelog.temporal.timed_store import IntervalBuffer, IntervalJournal, TimedStore

PROCEDURES = ("optimised", "seminaive", "naive")


@dataclass(frozen=True, slots=True, eq=False)
class RuleBody:
    """One body of a rule, which is run or skipped as a whole."""

    rule: CompiledMetricRule
    body: Body


class Pruning:
    """The bodies that may still derive facts: Procedure 3, lines 7 to 15, and more. Mutable: it shrinks.

    A rule whose non-recursive body atoms hold at no time, or held last at a time up to which derivation is
    complete, derives nothing new. Line 11 examines the remaining rules, and line 15 compares the facts up to
    that time: the projections of both datasets, not the facts that end before it. For rules that propagate
    backwards the test is mirrored.

    The test is cheap: each atom of a body that was matched holds at some time, and times are compared only
    once all remaining rules propagate in one direction.
    """

    def __init__(self, bodies: Sequence[RuleBody], evaluation: BodyEvaluation) -> None:
        self.bodies = list(bodies)
        self._evaluation = evaluation
        self._recursive = recursive_predicates([each.rule.rule for each in bodies])
        self._others = {each.rule.head for each in bodies} - self._recursive
        self._are_others_complete = False
        self._read = {each: {leaf.predicate for leaf in each.body.atoms_by_leaf} for each in bodies}
        self._matched: set[RuleBody] = set()
        self._limits: dict[RuleBody, tuple[int, int] | None] = {}
        self._direction: str | None = None  # of all remaining rules, once the others are complete

    def driven(self, store: TimedStore) -> list[RuleBody]:
        """The bodies that read new points of the last round: the others derive nothing in this one."""
        new = {name for name, table in store.tables.items() if len(table.changed)}
        return [each for each in self.bodies if not new.isdisjoint(self._read[each])]

    def record_match(self, body: RuleBody) -> None:
        """Record that a body was matched: each of its atoms holds at some time."""
        self._matched.add(body)

    def prune(self, store: TimedStore) -> Iterator[int]:
        """Drop complete bodies after a round; yield the numbers of rules without remaining bodies."""
        bodies_before = self.bodies
        if not self._are_others_complete and not any(
            len(store.tables[name].changed) for name in self._others
        ):
            self._are_others_complete = True
            self._retain([each for each in self.bodies if self._may_match(each)])
        if self._direction is not None:
            self._drop_known(store)
        if self.bodies is not bodies_before:
            numbers = [{each.rule.number for each in bodies} for bodies in (bodies_before, self.bodies)]
            yield from sorted(numbers[0] - numbers[1])

    def _retain(self, bodies: list[RuleBody]) -> None:
        if len(bodies) < len(self.bodies) or self._direction is None:
            self.bodies = bodies
            self._direction = direction(each.rule.rule for each in bodies)

    def _may_match(self, body: RuleBody) -> bool:
        if body.rule.head not in self._recursive:
            return False
        return body in self._matched or self._limit(body) is not None

    def _limit(self, body: RuleBody) -> tuple[int, int] | None:
        """The latest begin and the earliest end of the non-recursive atoms; None if one holds at no time."""
        if body not in self._limits:
            self._limits[body] = self._find_limit(body)
        return self._limits[body]

    def _find_limit(self, body: RuleBody) -> tuple[int, int] | None:
        first, last = -INFINITY, INFINITY
        for node in body.body.positive:
            if self._is_settled(node):
                low, high = self._lists(node).bounds
                if low > high:
                    return None
                first, last = max(first, low), min(last, high)
        return first, last

    def _is_settled(self, node: Node) -> bool:
        atoms = list(leaves(node))
        return bool(atoms) and all(leaf.predicate not in self._recursive for leaf in atoms)

    def _lists(self, node: Node) -> IntervalLists:
        """The intervals of a metric atom, for all values of its variables."""
        match node:
            case Leaf() if node.is_plain:
                return self._evaluation.source.table(node).lists
            case Shifted(by=by, operand=operand):
                return self._lists(operand).shifted(by)
            case _:
                return self._evaluation.node(node, None, None, Part.NOW).lists

    def _drop_known(self, store: TimedStore) -> None:
        """Drop bodies that can only derive known facts, if all remaining rules propagate in one direction."""
        bounds = [table.change.bounds for table in store.tables.values() if len(table.changed)]
        first = min((low for low, _ in bounds), default=INFINITY)
        last = max((high for _, high in bounds), default=-INFINITY)
        is_dense = not store.timeline.is_integer
        remaining: list[RuleBody] = []
        for each in self.bodies:
            limit = self._limit(each)
            assert limit is not None, "those without one were dropped"
            # Both projections end with the time itself, even if the atom no longer holds there.
            low, high = (limit[0] - (limit[0] & is_dense), limit[1] + (limit[1] & is_dense))
            is_done = high < first if self._direction == FORWARD else low > last
            if not is_done or INFINITY in (high, -low):
                remaining.append(each)
        self._retain(remaining)


@dataclass(slots=True)
class Derivation:
    """A materialisation and its settings. Mutates the store."""

    store: TimedStore
    rules: Sequence[CompiledMetricRule]
    listen: Listener
    check: Callable[[], None]
    procedure: str = PROCEDURES[0]
    rounds: int | None = None
    horizon: Horizon | None = None
    strata_before: int = 0  # those of rules without time
    journal: IntervalJournal | None = None  # of a transaction that this is a part of
    dropped: dict[int, int] = field(default_factory=dict)  # numbers of rules, and after which round

    def run(self) -> TimedOutcome:
        """Derive everything, level by level; return the outcome."""
        by_rule = {id(compiled.rule): compiled for compiled in self.rules}
        strata = time_strata([compiled.rule for compiled in self.rules])
        most_rounds = 0
        is_complete = True
        for number, stratum in enumerate(strata, self.strata_before):
            count = self.strata_before + len(strata)
            self.listen(StratumStarted(number, count, stratum.predicates, stratum.recursive))
            start = perf_counter()
            if not is_complete:
                raise not_finished(self.rounds, stratum.rules)
            rounds, is_complete = self._level(number, [by_rule[id(rule)] for rule in stratum.rules])
            most_rounds = max(most_rounds, rounds)
            self.listen(StratumEnded(number, rounds, perf_counter() - start))
        for table in self.store.tables.values():
            table.forget_change()
        return TimedOutcome(most_rounds, is_complete, self.horizon)

    def _level(self, number: int, rules: Sequence[CompiledMetricRule]) -> tuple[int, bool]:
        """Derive a level; return the number of rounds, and whether a fixpoint was reached."""
        evaluator = ExpressionEvaluator(self.store.engine)
        evaluation = BodyEvaluation(self.store, evaluator)
        bodies = [RuleBody(rule, body) for rule in rules for body in rule.bodies]
        pruning = Pruning(bodies, evaluation) if self.procedure == "optimised" else None
        round_number = 0
        while self.rounds is None or round_number < self.rounds:
            round_number += 1
            derived = IntervalBuffer()
            active = bodies if pruning is None or round_number == 1 else pruning.driven(self.store)
            for body in active:
                start, missing = perf_counter(), evaluator.missing
                matches = 0
                for bindings in self._bindings(evaluation, body, round_number):
                    matches += len(bindings)
                    derived.add(body.rule.head, *head_facts(body.rule, bindings, self.store))
                if matches and pruning is not None:
                    pruning.record_match(body)
                seconds = perf_counter() - start
                no_value = evaluator.missing - missing
                self.listen(RuleRan(number, round_number, body.rule.number, matches, 0, no_value, seconds))
                self.check()
            new = self._end_round(number, round_number, derived)
            if not new:
                return round_number - 1, True
            if pruning is not None:
                for rule in pruning.prune(self.store):
                    self.dropped[rule] = round_number
        return round_number, False

    def _bindings(
        self, evaluation: BodyEvaluation, body: RuleBody, round_number: int
    ) -> Iterator[IntervalBindings]:
        """The bindings of one body: all in the first round and in each naive one, else those that are new."""
        if round_number == 1 or self.procedure == "naive":
            yield evaluation.whole(body.body)
            return
        yield from new_bindings(evaluation, body.body, self.store)

    def _end_round(self, number: int, round_number: int, derived: IntervalBuffer) -> int:
        """End a round: add derived points; return the number of intervals of new points."""
        new = 0
        new_intervals = 0
        for name, table in self.store.tables.items():
            points = derived.of(name)
            numbers, lists = points.numbers, points.lists
            if self.horizon is not None:
                lists = self.horizon.clip(lists)
            if not len(numbers):
                table.forget_change()
                continue
            if self.journal is not None:
                self.journal.note(table, numbers)
            size_before = len(table)
            numbers, change = table.gain(numbers, lists)
            new_intervals += len(table) - size_before
            table.note(numbers, change, is_gain=True)
            new += change.size
        self.listen(RoundEnded(number, round_number, new))
        self.listen(IntervalsGained(new_intervals))
        return new


def not_finished(rounds: int | None, rules: Sequence[Rule]) -> EvaluationError:
    """The error where a level is not finished that these rules negate: missing facts would count as false."""
    message = f"a negated predicate is not complete after {rounds} rounds"
    help = "allow more rounds, or give a horizon"
    span = next((rule.span for rule in rules if rule.negated), rules[0].span)
    return EvaluationError(Diagnostic(NOT_FINISHED, message, span, help=help))


def ignore_events(event: Event) -> None:
    """A listener that ignores all events."""


def new_bindings(evaluation: BodyEvaluation, body: Body, store: TimedStore) -> Iterator[IntervalBindings]:
    """The new bindings of a body, from the points that its atoms gained in the last round."""
    for leaf in body.atoms_by_leaf:
        if not leaf.is_negated and len(store.tables[leaf.predicate].changed):
            yield evaluation.driven(body, DrivingAtom(leaf, Part.BEFORE, Part.NOW))
