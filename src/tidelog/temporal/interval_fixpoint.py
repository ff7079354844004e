"""Materialisation over time: naive, semi-naive, and with rules left out as soon as they are done."""

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

# ---- Rules that are done, or have nothing to do in a round: Procedure 3 of paper 002, lines 7 to 15, and
# more.
#
# A rule whose non-recursive body atoms hold at no time, or held last at a time up to which everything is
# known, derives nothing new. Line 11 looks at the rules that are left, and line 15 compares what holds up to
# that time: the projections of both datasets, not the facts that end before it. The mirror image serves rules
# that propagate backwards.


@dataclass(frozen=True, slots=True, eq=False)
class RuleBody:
    """One body of a rule: what is run, and left out, as a whole."""

    compiled: CompiledMetricRule
    body: Body


class Pruning:
    """The units that may derive something still. Mutable: they become fewer.

    Looking is cheap: a body that was matched has no atom that holds at no time, and times are looked up only
    once all rules that are left look one way.
    """

    def __init__(self, units: Sequence[RuleBody], evaluation: BodyEvaluation) -> None:
        self.units = list(units)
        self._evaluation = evaluation
        self._recursive = recursive_predicates([unit.compiled.rule for unit in units])
        self._others = {unit.compiled.head for unit in units} - self._recursive
        self._are_others_complete = False
        self._read = {unit: {leaf.predicate for leaf in unit.body.atoms_by_leaf} for unit in units}
        self._matched: set[RuleBody] = set()
        self._limits: dict[RuleBody, tuple[int, int] | None] = {}
        self._way: str | None = None  # in which all rules that are left look, once others are complete

    def driven(self, store: TimedStore) -> list[RuleBody]:
        """The units that read something which was new in the last round: others find nothing in this one."""
        new = {name for name, table in store.tables.items() if len(table.changed)}
        return [unit for unit in self.units if not new.isdisjoint(self._read[unit])]

    def note(self, unit: RuleBody) -> None:
        """That a body was matched: each of its atoms holds at some time."""
        self._matched.add(unit)

    def prune(self, store: TimedStore) -> Iterator[int]:
        """Leave out what is done after a round; gives the numbers of the rules that nothing is left of."""
        before = self.units
        if not self._are_others_complete and not any(len(store.tables[one].changed) for one in self._others):
            self._are_others_complete = True
            self._keep([unit for unit in self.units if self._may_match(unit)])
        if self._way is not None:
            self._leave_out(store)
        if self.units is not before:
            numbers = {unit.compiled.number for unit in before} - {
                unit.compiled.number for unit in self.units
            }
            yield from sorted(numbers)

    def _keep(self, units: list[RuleBody]) -> None:
        if len(units) < len(self.units) or self._way is None:
            self.units = units
            self._way = direction(unit.compiled.rule for unit in units)

    def _may_match(self, unit: RuleBody) -> bool:
        if unit.compiled.head not in self._recursive:
            return False
        return unit in self._matched or self._limit(unit) is not None

    def _limit(self, unit: RuleBody) -> tuple[int, int] | None:
        """The last first and the first last time of the non-recursive atoms; None if one holds at no time."""
        if unit not in self._limits:
            self._limits[unit] = self._find_limit(unit)
        return self._limits[unit]

    def _find_limit(self, unit: RuleBody) -> tuple[int, int] | None:
        first, last = -INFINITY, INFINITY
        for node in unit.body.positive:
            if self._is_settled(node):
                low, high = self._lists(node).bounds
                if low > high:
                    return None
                first, last = max(first, low), min(last, high)
        return first, last

    def _is_settled(self, node: Node) -> bool:
        found = list(leaves(node))
        return bool(found) and all(leaf.predicate not in self._recursive for leaf in found)

    def _lists(self, node: Node) -> IntervalLists:
        """When a metric atom holds, whatever its variables are."""
        match node:
            case Leaf() if node.is_plain:
                return self._evaluation.source.table(node).lists
            case Shifted(by=by, operand=operand):
                return self._lists(operand).shifted(by)
            case _:
                return self._evaluation.node(node, None, None, Part.NOW).lists

    def _leave_out(self, store: TimedStore) -> None:
        """Leave out what can only find again what is known, all rules that are left looking one way."""
        bounds = [table.change.bounds for table in store.tables.values() if len(table.changed)]
        first = min((low for low, _ in bounds), default=INFINITY)
        last = max((high for _, high in bounds), default=-INFINITY)
        is_dense = not store.timeline.is_integer
        kept: list[RuleBody] = []
        for unit in self.units:
            limit = self._limit(unit)
            assert limit is not None, "those without one are left out"
            # Both projections end with the time itself, even if the atom does not hold there any more.
            low, high = (limit[0] - (limit[0] & is_dense), limit[1] + (limit[1] & is_dense))
            is_done = high < first if self._way == FORWARD else low > last
            if not is_done or INFINITY in (high, -low):
                kept.append(unit)
        self._keep(kept)


# ---- Materialisation over time: naive, semi-naive, and semi-naive with rules left out as soon as they are
# done.
#
# Wang, Wałęga, Cuenca Grau: Seminaïve Materialisation in DatalogMTL, RuleML+RR 2022, Procedures 1 to 3, with
# the corrections of docs/algorithms/temporal.md.
#
# Invariant: after k rounds the tables hold T^k, k applications of all rules to the facts given; each round
# reads what the rounds before have found, and nothing of its own.
#
# What is new in a round are points, not coalesced facts: a metric atom is evaluated where its facts have
# changed, and the points that it has now and did not have before are joined with the other literals.

PROCEDURES = ("optimised", "seminaive", "naive")
NOT_FINISHED = "E615"


@dataclass(slots=True)
class Derivation:
    """A materialisation under way, and what it needs. Mutates the store."""

    store: TimedStore
    compiled: Sequence[CompiledMetricRule]
    listen: Listener
    check: Callable[[], None]
    procedure: str = PROCEDURES[0]
    rounds: int | None = None
    horizon: Horizon | None = None
    strata_before: int = 0  # those of rules without time
    journal: IntervalJournal | None = None  # of a transaction that this is a part of
    dropped: dict[int, int] = field(default_factory=dict)  # rules left out, and after which round

    def run(self) -> TimedOutcome:
        """Derive everything, level by level."""
        by_rule = {id(compiled.rule): compiled for compiled in self.compiled}
        strata = time_strata([compiled.rule for compiled in self.compiled])
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
        return TimedOutcome(most, is_complete, self.horizon)

    def _settle(self) -> None:
        """Nothing is new any more."""
        for table in self.store.tables.values():
            table.forget_change()

    def _level(self, number: int, compiled: Sequence[CompiledMetricRule]) -> tuple[int, bool]:
        """How many rounds were made, and whether nothing more follows."""
        computer = ExpressionEvaluator(self.store.engine)
        evaluation = BodyEvaluation(self.store, computer)
        units = [RuleBody(rule, body) for rule in compiled for body in rule.bodies]
        pruning = Pruning(units, evaluation) if self.procedure == "optimised" else None
        done = 0
        while self.rounds is None or done < self.rounds:
            done += 1
            derived = IntervalBuffer()
            active = units if pruning is None or done == 1 else pruning.driven(self.store)
            for unit in active:
                start, missing = perf_counter(), computer.missing
                matches = 0
                for groups in self._found(evaluation, unit, done):
                    matches += len(groups)
                    derived.add(unit.compiled.head, *head_facts(unit.compiled, groups, self.store))
                if matches and pruning is not None:
                    pruning.note(unit)
                seconds = perf_counter() - start
                self.listen(
                    RuleRan(
                        number, done, unit.compiled.number, matches, 0, computer.missing - missing, seconds
                    )
                )
                self.check()
            new = self._take(number, done, derived)
            if not new:
                return done - 1, True
            if pruning is not None:
                for rule in pruning.prune(self.store):
                    self.dropped[rule] = done
        return done, False

    def _found(self, evaluation: BodyEvaluation, unit: RuleBody, done: int) -> Iterator[IntervalBindings]:
        """What one body finds: all in the first round and in each naive one, else what is new."""
        if done == 1 or self.procedure == "naive":
            yield evaluation.whole(unit.body)
            return
        yield from new_groups(evaluation, unit.body, self.store)

    def _take(self, number: int, done: int, derived: IntervalBuffer) -> int:
        """End a round: add what was derived; returns how many intervals hold new points."""
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
    """Return the error where a level is not finished that these rules negate.

    What is not found yet would count as false.
    """
    message = f"after {rounds} rounds a predicate is not complete that a rule negates"
    help = "allow more rounds, or give a horizon"
    span = next((rule.span for rule in rules if rule.negated), rules[0].span)
    return EvaluationError(Diagnostic(NOT_FINISHED, message, span, help=help))


def ignore_events(event: Event) -> None:
    """What listens to a derivation that nobody is told of."""


def new_groups(evaluation: BodyEvaluation, body: Body, store: TimedStore) -> Iterator[IntervalBindings]:
    """What a body gains by what its atoms gained in the last round."""
    for leaf in body.atoms_by_leaf:
        if not leaf.is_negated and len(store.tables[leaf.predicate].changed):
            yield evaluation.driven(body, DrivingAtom(leaf, Part.BEFORE, Part.NOW))
