"""Materialisation over time: naive, semi-naive, and semi-naive with rules dropped as soon as they are done.

Wang, Wałęga, Cuenca Grau: Seminaïve Materialisation in DatalogMTL, RuleML+RR 2022, Procedures 1 to 3, with
the corrections of docs/algorithms/temporal.md.

Invariant: after k rounds the tables hold T^k, k applications of all rules to the explicit facts; each round
reads what the rounds before have derived, and nothing of its own.

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
from tidelog.errors.codes import NOT_FINISHED
from tidelog.logic.program import Rule
from tidelog.plan.algebra import Part
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
    """The bodies that may still derive something: Procedure 3, lines 7 to 15, and more. Mutable: it shrinks.

    A rule whose non-recursive body atoms hold at no time, or held last at a time up to which everything is
    known, derives nothing new. Line 11 examines the rules that are left, and line 15 compares what holds up
    to that time: the projections of both datasets, not the facts that end before it. The mirror image
    serves rules that propagate backwards.

    The test is cheap: a body that was matched has no atom that holds at no time, and times are compared only
    once all rules that are left propagate one way.
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
        self._direction: str | None = None  # of all rules that are left, once others are complete

    def driven(self, store: TimedStore) -> list[RuleBody]:
        """The bodies that read something which was new in the last round: others find nothing in this one."""
        new = {name for name, table in store.tables.items() if len(table.changed)}
        return [each for each in self.bodies if not new.isdisjoint(self._read[each])]

    def record_match(self, body: RuleBody) -> None:
        """Record that a body was matched: each of its atoms holds at some time."""
        self._matched.add(body)

    def prune(self, store: TimedStore) -> Iterator[int]:
        """Drop what is done after a round; yield the numbers of the rules of which no body is left."""
        before = self.bodies
        if not self._are_others_complete and not any(len(store.tables[one].changed) for one in self._others):
            self._are_others_complete = True
            self._retain([each for each in self.bodies if self._may_match(each)])
        if self._direction is not None:
            self._drop_known(store)
        if self.bodies is not before:
            numbers = {each.rule.number for each in before} - {each.rule.number for each in self.bodies}
            yield from sorted(numbers)

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
        """Drop what can only derive known facts, all rules that are left propagating one way."""
        bounds = [table.change.bounds for table in store.tables.values() if len(table.changed)]
        first = min((low for low, _ in bounds), default=INFINITY)
        last = max((high for _, high in bounds), default=-INFINITY)
        is_dense = not store.timeline.is_integer
        left: list[RuleBody] = []
        for each in self.bodies:
            limit = self._limit(each)
            assert limit is not None, "those without one were dropped"
            # Both projections end with the time itself, even if the atom does not hold there any more.
            low, high = (limit[0] - (limit[0] & is_dense), limit[1] + (limit[1] & is_dense))
            is_done = high < first if self._direction == FORWARD else low > last
            if not is_done or INFINITY in (high, -low):
                left.append(each)
        self._retain(left)


@dataclass(slots=True)
class Derivation:
    """A materialisation, and what it needs. Mutates the store."""

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
        """Derive everything, level by level; return how it ended."""
        by_rule = {id(compiled.rule): compiled for compiled in self.rules}
        strata = time_strata([compiled.rule for compiled in self.rules])
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
        for table in self.store.tables.values():
            table.forget_change()
        return TimedOutcome(most, is_complete, self.horizon)

    def _level(self, number: int, rules: Sequence[CompiledMetricRule]) -> tuple[int, bool]:
        """Derive a level; return how many rounds that took, and whether a fixpoint was reached."""
        evaluator = ExpressionEvaluator(self.store.engine)
        evaluation = BodyEvaluation(self.store, evaluator)
        bodies = [RuleBody(rule, body) for rule in rules for body in rule.bodies]
        pruning = Pruning(bodies, evaluation) if self.procedure == "optimised" else None
        done = 0
        while self.rounds is None or done < self.rounds:
            done += 1
            derived = IntervalBuffer()
            active = bodies if pruning is None or done == 1 else pruning.driven(self.store)
            for each in active:
                start, missing = perf_counter(), evaluator.missing
                matches = 0
                for bindings in self._bindings(evaluation, each, done):
                    matches += len(bindings)
                    derived.add(each.rule.head, *head_facts(each.rule, bindings, self.store))
                if matches and pruning is not None:
                    pruning.record_match(each)
                seconds = perf_counter() - start
                no_value = evaluator.missing - missing
                self.listen(RuleRan(number, done, each.rule.number, matches, 0, no_value, seconds))
                self.check()
            new = self._end_round(number, done, derived)
            if not new:
                return done - 1, True
            if pruning is not None:
                for rule in pruning.prune(self.store):
                    self.dropped[rule] = done
        return done, False

    def _bindings(self, evaluation: BodyEvaluation, each: RuleBody, done: int) -> Iterator[IntervalBindings]:
        """The bindings of one body: all in the first round and in each naive one, else those that are new."""
        if done == 1 or self.procedure == "naive":
            yield evaluation.whole(each.body)
            return
        yield from new_bindings(evaluation, each.body, self.store)

    def _end_round(self, number: int, done: int, derived: IntervalBuffer) -> int:
        """End a round: add what was derived; return how many intervals hold new points."""
        new = 0
        grown = 0
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
            before = len(table)
            numbers, change = table.gain(numbers, lists)
            grown += len(table) - before
            table.note(numbers, change, is_gain=True)
            new += change.size
        self.listen(RoundEnded(number, done, new))
        self.listen(IntervalsGained(grown))
        return new


def not_finished(rounds: int | None, rules: Sequence[Rule]) -> EvaluationError:
    """The error where a level is not finished that these rules negate: missing facts would count as false."""
    message = f"a negated predicate is not complete after {rounds} rounds"
    help = "allow more rounds, or give a horizon"
    span = next((rule.span for rule in rules if rule.negated), rules[0].span)
    return EvaluationError(Diagnostic(NOT_FINISHED, message, span, help=help))


def ignore_events(event: Event) -> None:
    """A listener of a derivation that reports nothing."""


def new_bindings(evaluation: BodyEvaluation, body: Body, store: TimedStore) -> Iterator[IntervalBindings]:
    """The bindings that a body gains by what its atoms gained in the last round."""
    for leaf in body.atoms_by_leaf:
        if not leaf.is_negated and len(store.tables[leaf.predicate].changed):
            yield evaluation.driven(body, DrivingAtom(leaf, Part.BEFORE, Part.NOW))
