"""Why facts hold at times: the stages at which they are first proved, the parts of intervals, and proofs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from itertools import islice
from typing import Any

import numpy as np

from tidelog.data.relation import Relation
from tidelog.errors import Diagnostic, ProgramError
from tidelog.errors.codes import NOT_EXPLAINED
from tidelog.logic.intervals import Interval
from tidelog.logic.program import (
    TOP,
    Atom,
    Constant,
    Fact,
    Literal,
    Metric,
    MetricNegation,
    Negation,
    Program,
    Query,
    Term,
    Throughout,
    Variable,
    literal_atoms,
    literal_variables,
)
from tidelog.logic.program import TimedFact as Statement
from tidelog.plan.rule_text import Writing
from tidelog.proof import MOST_ROWS
from tidelog.proof.explanation import Binding, Explanation, NodeKind, ProofNode, ground_atom
from tidelog.proof.prover import Origin, does_not_hold, held
from tidelog.records import dataclass
from tidelog.temporal.body_evaluation import BodyEvaluation, ExpressionEvaluator
from tidelog.temporal.interval_bindings import IntervalBindings
from tidelog.temporal.interval_table import (
    Integers,
    IntervalLists,
    all_time,
    empty_lists,
    single,
)
from tidelog.temporal.metric_rules import CompiledMetricRule, evaluate_metric
from tidelog.temporal.temporal import Temporal
from tidelog.temporal.timed_relation import TimedRelation
from tidelog.temporal.timed_store import TimedStore

# ---- the stage at which facts over time are first proved
#
# Backward from the goal, all instances of rules are found that derive a fact at some time, and the facts in
# their bodies are the next level. Forward over these instances, stage k of a fact is the set of points at
# which it has a proof of at most k rule instances: stage 0 has the explicit facts.
#
# Invariant: after `levels` levels were searched, stages up to that number are exact for the goal. Negated
# atoms are read as they are in the end: they lie below, in the sense of stratification.

FIRST: Integers = np.zeros(1, np.int64)  # the number of the only list there is
StageBinding = Mapping[str, int]
Ends = tuple[int, int]


@dataclass(frozen=True, slots=True)
class FactKey:
    """A fact, whenever it holds."""

    predicate: str
    key: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class TimedInstance:
    """A rule without variables, and the times at which all of its body holds in the end."""

    ready: CompiledMetricRule
    binding: StageBinding
    head: FactKey
    times: IntervalLists


class FactTimes:
    """When a fact holds, and which points each stage is the first to prove. Mutable."""

    def __init__(self, whole: IntervalLists, given: IntervalLists) -> None:
        self.whole = whole
        self.given = given
        self.instances: Sequence[TimedInstance] = ()
        self.proved = empty_lists(1)  # the points proved by the last stage
        self._gained: list[tuple[int, IntervalLists]] = []
        self._parts: tuple[Integers, Integers, Integers] | None = None  # the stage and the ends of each part

    def begin(self) -> None:
        """Reset to stage 0."""
        self.proved, self._gained = empty_lists(1), []
        self.gain(0, meet(self.given, self.whole))

    def gain(self, stage: int, lists: IntervalLists) -> None:
        """Record the points that a stage is the first to prove."""
        self.proved = join(self.proved, lists)
        self._gained.append((stage, lists))
        self._parts = None

    @property
    def parts(self) -> tuple[Integers, Integers, Integers]:
        """The stage of each part, and the ends of the parts."""
        if self._parts is None:
            rows = [lists.rows() for _, lists in self._gained]
            stages = [np.full(lists.size, stage) for stage, lists in self._gained]
            ends = (np.concatenate([row[place] for row in rows]) for place in (1, 2))
            self._parts = np.concatenate(stages), *ends  # type: ignore[assignment]
        assert self._parts is not None
        return self._parts

    def at(self, stage: int) -> IntervalLists:
        """The points proved by a stage."""
        stages, left, right = self.parts
        is_proved = stages <= stage
        _, lists = single(left[is_proved], right[is_proved]).grouped(
            np.zeros(np.count_nonzero(is_proved), np.int64)
        )
        return lists if len(lists) else empty_lists(1)

    def stages_of(self, ends: Ends) -> list[int]:
        """The stages by which the points of a stretch are first proved, in order."""
        stages, left, right = self.parts
        proving: list[int] = np.unique(stages[(left <= ends[1]) & (right >= ends[0])]).tolist()
        return proving


class Stages:
    """The facts that proofs of goals may use, and their stages."""

    def __init__(self, store: TimedStore, program: Program, check: Callable[[], None]) -> None:
        self.store = store
        self.program = program
        self.times_of: dict[FactKey, FactTimes] = {}
        self._check = check
        self._evaluation = BodyEvaluation(store, ExpressionEvaluator(store.engine))
        self._rules: dict[str, list[CompiledMetricRule]] = {}
        for ready in store.compiled_rules(program):
            self._rules.setdefault(ready.head, []).append(ready)
        self._users: dict[FactKey, list[TimedInstance]] = {}
        self._waiting: list[FactKey] = []

    # ---- backward

    def prepare(self, goals: Sequence[tuple[FactKey, Ends]]) -> None:
        """Compute the stages that show when each goal can first be proved."""
        for fact, _ in goals:
            self._meet(fact)
        levels, target = 0, 1
        while True:
            while levels < target and self._waiting:
                self._expand_level()
                levels += 1
            self._run(levels if self._waiting else None)
            if not self._waiting or all(covers(self.times_of[fact].proved, ends) for fact, ends in goals):
                return
            target = 2 * levels

    def _meet(self, fact: FactKey) -> None:
        """Register a fact; how it is derived is found with the next level."""
        if fact in self.times_of:
            return
        table = self.store.tables.get(fact.predicate)
        columns = np.array(fact.key, np.int32).reshape(len(fact.key), 1)
        number = np.array([-1]) if table is None else table.facts.find(columns, 1)
        if table is None or number[0] < 0:
            self.times_of[fact] = FactTimes(empty_lists(1), empty_lists(1))
            return
        self.times_of[fact] = FactTimes(table.lists.take(number), self.store.explicit_lists(table, number))
        if fact.predicate in self.program.timed:
            self._waiting.append(fact)

    def _expand_level(self) -> None:
        level, self._waiting = self._waiting, []
        for fact in level:
            self._check()
            found = [
                each for ready in self._rules.get(fact.predicate, ()) for each in self._found(ready, fact)
            ]
            self.times_of[fact].instances = found
            for instance in found:
                for used in dict.fromkeys(self.facts_of(instance)):
                    self._meet(used)
                    self._users.setdefault(used, []).append(instance)

    def _found(self, ready: CompiledMetricRule, fact: FactKey) -> list[TimedInstance]:
        """All instances of a rule that derive a fact at some time."""
        start = _started(ready, fact)
        if start is None:
            return []
        times: dict[tuple[tuple[str, int], ...], IntervalLists] = {}
        for body in ready.bodies:
            groups = self._evaluation.whole(body, start)
            for position in range(len(groups)):
                names = zip(groups.names, groups.columns[:, position].tolist(), strict=True)
                key = tuple(sorted(names))
                lists = groups.lists.take(np.array([position]))
                times[key] = join(times[key], lists) if key in times else lists
        return [TimedInstance(ready, dict(key), fact, lists) for key, lists in times.items()]

    def facts_of(self, instance: TimedInstance) -> list[FactKey]:
        """The facts in the body of an instance that are not negated."""
        atoms = (
            atom
            for literal in instance.ready.rule.body
            if isinstance(literal, Atom | Metric)
            for atom in literal_atoms(literal)
        )
        facts = (self.ground(atom, instance.binding) for atom in atoms)
        return [fact for fact in facts if fact is not None]

    def ground(self, atom: Atom, binding: StageBinding) -> FactKey | None:
        """The fact that an atom is; None if a variable has no value."""
        key = [self._identity(term, binding) for term in atom.terms]
        return None if None in key else FactKey(atom.predicate, tuple(key))  # type: ignore[arg-type]

    def _identity(self, term: Term, binding: StageBinding) -> int | None:
        if isinstance(term, Variable):
            return binding.get(term.name)
        return int(self.store.engine.storage.dictionary.encode(term.value))

    # ---- forward

    def _run(self, stages: int | None) -> None:
        """Run `stages` stages of all facts, or all stages if that is None."""
        for times in self.times_of.values():
            times.begin()
        changed: Sequence[FactKey] = list(self.times_of)
        stage = 0
        while changed and (stages is None or stage < stages):
            stage += 1
            self._check()
            affected = dict.fromkeys(each for fact in changed for each in self._users.get(fact, ()))
            if stage == 1:  # also those without facts in their bodies
                affected |= dict.fromkeys(
                    each for times in self.times_of.values() for each in times.instances
                )
            gained: dict[FactKey, IntervalLists] = {}
            for instance in affected:
                new = self._gained(instance)
                if new.size:
                    head = instance.head
                    gained[head] = join(gained[head], new) if head in gained else new
            for fact, lists in gained.items():
                self.times_of[fact].gain(stage, lists)
            changed = list(gained)

    def _gained(self, instance: TimedInstance) -> IntervalLists:
        """The points that an instance proves and no instance has proved before."""
        times = self.times_of[instance.head]
        lists = self.body_times(instance, lambda fact: self.times_of[fact].proved)
        lists = lists.shifted(*instance.ready.moves)
        return minus(meet(lists, times.whole), times.proved)

    def body_times(self, instance: TimedInstance, read: Callable[[FactKey], IntervalLists]) -> IntervalLists:
        """The times at which the body of an instance holds, given the times of its facts."""
        lists = instance.times
        for literal in instance.ready.rule.body:
            if isinstance(literal, Atom | Metric):
                lists = meet(lists, self.metric_times(literal, instance.binding, read))
        return lists

    def metric_times(
        self, metric: Atom | Metric, binding: StageBinding, read: Callable[[FactKey], IntervalLists]
    ) -> IntervalLists:
        """The times at which a metric atom holds, given the times of its facts."""
        if isinstance(metric, Atom):
            if metric.predicate == TOP:
                return all_time(1)
            fact = self.ground(metric, binding)
            return empty_lists(1) if fact is None else read(fact)
        operands = [self.metric_times(operand, binding, read) for operand in metric.operands]
        return evaluate_metric(metric.operator, metric.interval, operands, self.store.timeline)


def _started(ready: CompiledMetricRule, fact: FactKey) -> IntervalBindings | None:
    """The variables of a head as a fact has them; None if it does not fit."""
    bound: dict[str, int] = {}
    for term, identity in zip(ready.terms, fact.key, strict=True):
        if (identity != term) if isinstance(term, int) else bound.setdefault(term, identity) != identity:
            return None
    columns: Any = np.array(list(bound.values()), np.int32).reshape(len(bound), 1)
    return IntervalBindings(tuple(bound), columns, all_time(1))


# ---- sets of points, as one list


def stretch(ends: Ends) -> IntervalLists:
    """The points of one stretch."""
    return single(np.array([ends[0]]), np.array([ends[1]]))


def meet(left: IntervalLists, right: IntervalLists) -> IntervalLists:
    """The points in both."""
    return left.intersected(right, FIRST, FIRST)


def join(left: IntervalLists, right: IntervalLists) -> IntervalLists:
    """The points in either."""
    return left.united(right, FIRST, FIRST)


def minus(left: IntervalLists, right: IntervalLists) -> IntervalLists:
    """The points in `left` that are not in `right`."""
    return left.without(right, FIRST, FIRST)


def stretches(lists: IntervalLists) -> list[Ends]:
    """The stretches of a set, in order."""
    _, left, right = lists.rows()
    return list(zip(left.tolist(), right.tolist(), strict=True))


def covers(lists: IntervalLists, ends: Ends) -> bool:
    """Whether a set has all points of a stretch."""
    return not minus(stretch(ends), lists).size


# ---- how the points of a fact are proved
#
# A stretch of a fact consists of pieces: explicit ones, then those that rule instances add stage by stage. A
# piece of an instance needs its literals at one stretch of time, and operators say at which times their atoms
# are needed for that: throughout a window, or somewhere in it.

LOOKING_BACK = {"boxminus": "diamondplus", "boxplus": "diamondminus"}
DIAMONDS = {"diamondminus": "diamondplus", "diamondplus": "diamondminus"}
OPPOSITE = {**LOOKING_BACK, **DIAMONDS, "since": "diamondplus", "until": "diamondminus"}


@dataclass(frozen=True, slots=True)
class Goal:
    """A fact throughout a stretch of time."""

    fact: FactKey
    ends: Ends


@dataclass(frozen=True, slots=True, eq=False)
class Needed:
    """A literal at a stretch of time, and the goals and metric atoms below operators that it needs."""

    literal: Literal
    ends: Ends | None  # None: it has no time
    below: tuple[Goal | Needed, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class StretchPart:
    """A part of a stretch: explicit, or derived by an instance that needs its literals at some time."""

    ends: Ends
    instance: TimedInstance | None = None
    needed: tuple[Needed, ...] = ()


class Planner:
    """Finds the pieces of goals in the stages of their facts."""

    def __init__(self, stages: Stages) -> None:
        self._stages = stages
        self._timeline = stages.store.timeline

    def pieces(self, goal: Goal) -> list[StretchPart]:
        """The pieces of a goal, ordered by time."""
        times = self._stages.times_of[goal.fact]
        remaining = stretch(goal.ends)
        explicit = meet(times.given, remaining)
        parts = [StretchPart(ends) for ends in stretches(explicit)]
        remaining = minus(remaining, explicit)
        for stage in times.stages_of(goal.ends):
            for instance in times.instances if stage else ():
                if remaining.size:
                    added, remaining = self._pieces_by(instance, stage, remaining)
                    parts += added
        return sorted(parts, key=lambda piece: piece.ends)

    def _pieces_by(
        self, instance: TimedInstance, stage: int, remaining: IntervalLists
    ) -> tuple[list[StretchPart], IntervalLists]:
        """The pieces of `remaining` that an instance proves by facts of earlier stages, and the rest."""
        parts: list[StretchPart] = []
        whole = self._stages.times_of[instance.head].whole
        holding = self._stages.body_times(instance, lambda fact: self._before(fact, stage))
        for body in stretches(meet(holding, _back(instance, remaining))):
            times = stretch(body)
            times = times.shifted(*instance.ready.moves)
            for ends in stretches(meet(meet(times, remaining), whole)):
                (leading,) = stretches(meet(_back(instance, stretch(ends)), stretch(body)))
                needed = self.literals(instance, leading, stage)
                parts.append(StretchPart(ends, instance, needed))
            remaining = minus(remaining, meet(times, whole))
        return parts, remaining

    def _before(self, fact: FactKey, stage: int) -> IntervalLists:
        return self._stages.times_of[fact].at(stage - 1)

    # ---- literals

    def literals(self, instance: TimedInstance, ends: Ends, stage: int) -> tuple[Needed, ...]:
        """The literals of an instance at a stretch of time, in the order of the rule."""
        body = instance.ready.rule.body
        return tuple(self._literal(literal, instance.binding, ends, stage) for literal in body)

    def _literal(self, literal: Literal, binding: StageBinding, ends: Ends, stage: int) -> Needed:
        match literal:
            case Atom() | Metric():
                return self._metric(literal, binding, ends, stage)
            case Throughout(atom, interval):
                fact = self._stages.ground(atom, binding)
                assert fact is not None, "answers have values"
                requested = self._timeline.ends(interval)
                return Needed(atom, requested, (Goal(fact, requested),))
            case Negation() | MetricNegation():
                return Needed(literal, ends)
        return Needed(literal, None)

    def _metric(self, metric: Atom | Metric, binding: StageBinding, ends: Ends, stage: int) -> Needed:
        """A metric atom at a stretch of time, with the goals that it needs of earlier stages."""
        if isinstance(metric, Atom):
            fact = None if metric.predicate == TOP else self._stages.ground(metric, binding)
            return Needed(metric, ends, () if fact is None else (Goal(fact, ends),))
        if metric.operator in LOOKING_BACK:
            (operand,) = metric.operands
            window = self._moved(OPPOSITE[metric.operator], metric.interval, stretch(ends))
            below = (self._metric(operand, binding, each, stage) for each in stretches(window))
            return Needed(metric, ends, tuple(below))
        return Needed(metric, ends, tuple(self._witnesses(metric, binding, ends, stage)))

    def _moved(self, operator: str, interval: Interval, lists: IntervalLists) -> IntervalLists:
        return lists.shifted(self._timeline.operator(operator, interval))

    def _times(self, operand: Atom | Metric, binding: StageBinding, stage: int) -> IntervalLists:
        return self._stages.metric_times(operand, binding, lambda fact: self._before(fact, stage))

    def _witnesses(self, metric: Metric, binding: StageBinding, ends: Ends, stage: int) -> Iterator[Needed]:
        """Where the last operand holds, and the first till then, for an atom to hold throughout a stretch."""
        *first, last = metric.operands
        remaining = stretch(ends)
        window = self._moved(OPPOSITE[metric.operator], metric.interval, remaining)
        for witness in stretches(meet(self._times(last, binding, stage), window)):
            for lasting in self._lasting(first, binding, stage):
                operands = [*([] if not first else [_set(lasting)]), stretch(witness)]
                proved = evaluate_metric(metric.operator, metric.interval, operands, self._timeline)
                gain = meet(proved, remaining)
                if gain.size:
                    yield self._metric(last, binding, self._narrowed(metric, gain, witness, lasting), stage)
                    between = None if lasting is None else self._between(gain, witness, lasting)
                    if between is not None:
                        yield self._metric(first[0], binding, between, stage)
                    remaining = minus(remaining, gain)
            if not remaining.size:
                return

    def _lasting(self, first: list[Atom | Metric], binding: StageBinding, stage: int) -> list[Ends | None]:
        """The stretches at which the first operand of `since` holds; None first, for where it need not."""
        if not first:
            return [None]
        return [None, *stretches(self._times(first[0], binding, stage))]

    def _narrowed(self, metric: Metric, gain: IntervalLists, witness: Ends, lasting: Ends | None) -> Ends:
        """The part of a witness that may lead to the gained points."""
        window = meet(self._moved(OPPOSITE[metric.operator], metric.interval, gain), stretch(witness))
        if lasting is not None:
            window = meet(window, stretch(self._closed(lasting)))
        low, high = window.bounds
        return low, high

    def _closed(self, ends: Ends) -> Ends:
        """A stretch with its ends, since the first operand need not hold at a witness itself."""
        left, right = ends
        if self._timeline.is_integer:
            return left - 1, right + 1
        return left - (left & 1), right + (right & 1)

    def _between(self, gain: IntervalLists, witness: Ends, lasting: Ends) -> Ends:
        """The part of the first operand's stretch between a witness and the gained points."""
        low, high = gain.bounds
        (part,) = stretches(meet(stretch((min(low, witness[0]), max(high, witness[1]))), stretch(lasting)))
        return part


def _back(instance: TimedInstance, lists: IntervalLists) -> IntervalLists:
    """The times of the body that lead to times of the head."""
    return lists.shifted(*instance.ready.back)


def _set(ends: Ends | None) -> IntervalLists:
    return empty_lists(1) if ends is None else stretch(ends)


# ---- from stretches of time to proofs

Without = Callable[[FactKey], ProofNode]  # the proof of a fact that holds always


class TimedTrees:
    """Makes nodes of goals whose stages are known."""

    def __init__(
        self, stages: Stages, origin: Origin, without: Without, most: int | None = MOST_ROWS
    ) -> None:
        self._stages = stages
        self._planner = Planner(stages)
        self._origin = origin
        self._without = without
        self._most = most
        self._plans: dict[Goal, tuple[list[StretchPart], int]] = {}  # with how many pieces are left out
        self._nodes: dict[Goal, ProofNode] = {}

    def proof(self, goal: Goal) -> ProofNode:
        """The proof of a fact throughout a stretch."""
        self._build([goal])
        return self._nodes[goal]

    # ---- from the earliest stage up

    def _build(self, goals: list[Goal]) -> None:
        waiting = list(goals)
        planned: list[Goal] = []
        while waiting:
            goal = waiting.pop()
            if goal not in self._plans:
                pieces = self._planner.pieces(goal) if self._is_timed(goal) else []
                kept = pieces[: self._most]
                self._plans[goal] = kept, len(pieces) - len(kept)
                planned.append(goal)
                waiting += [each for piece in kept for needed in piece.needed for each in _goals(needed)]
        for goal in sorted(
            planned, key=lambda goal: self._stages.times_of[goal.fact].stages_of(goal.ends)[-1]
        ):
            self._nodes[goal] = self._node(goal)

    def _is_timed(self, goal: Goal) -> bool:
        return goal.fact.predicate in self._stages.program.timed

    def _node(self, goal: Goal) -> ProofNode:
        """The node of a fact throughout a stretch: that of its only piece, or one above all pieces."""
        if not self._is_timed(goal):
            return self._without(goal.fact)
        pieces, elided = self._plans[goal]
        nodes = tuple(self._piece(goal.fact, piece) for piece in pieces)
        if len(nodes) == 1 and not elided:
            return nodes[0]
        time, height = self._interval(goal.ends), max(node.height for node in nodes)
        return ProofNode(NodeKind.STRETCHES, self._atom(goal.fact), nodes, height, time=time, elided=elided)

    def _piece(self, fact: FactKey, piece: StretchPart) -> ProofNode:
        atom, time, instance = self._atom(fact), self._interval(piece.ends), piece.instance
        if instance is None:
            values = tuple(term.value for term in atom.terms if isinstance(term, Constant))
            explicit = Statement(fact.predicate, values, interval=time)
            return ProofNode(NodeKind.EXPLICIT, atom, origin=self._origin(explicit), time=time)
        children = tuple(self._needed(each, instance) for each in piece.needed)
        height = 1 + max((child.height for child in children), default=0)
        return ProofNode(
            NodeKind.RULE, atom, children, height, instance.ready.rule, instance.ready.number, time=time
        )

    # ---- literals

    def _needed(self, needed: Needed, instance: TimedInstance) -> ProofNode:
        """The node of an instance's literal, with the nodes that it needs."""
        binding = self._binding(instance)
        literal = needed.literal
        if needed.ends is None:
            return held(literal, binding)
        time = self._interval(needed.ends)
        if isinstance(literal, Negation | MetricNegation):
            return ProofNode(NodeKind.NEGATION, grounded_metric(literal, binding), time=time)
        goals = [each for each in needed.below if isinstance(each, Goal)]
        if isinstance(literal, Atom) and goals:
            return self._nodes[goals[0]]
        children = tuple(self._needed(each, instance) for each in needed.below if isinstance(each, Needed))
        height = max((child.height for child in children), default=0)
        return ProofNode(NodeKind.METRIC, grounded_metric(literal, binding), children, height, time=time)

    def _binding(self, instance: TimedInstance) -> Binding:
        decode = self._stages.store.engine.storage.dictionary.decode
        return {Variable(name): decode(identity) for name, identity in instance.binding.items()}

    def _atom(self, fact: FactKey) -> Atom:
        decode = self._stages.store.engine.storage.dictionary.decode
        return Atom(fact.predicate, tuple(Constant(decode(identity)) for identity in fact.key))

    def _interval(self, ends: Ends) -> Interval:
        return self._stages.store.timeline.decode(*ends)


def _goals(needed: Needed) -> Iterator[Goal]:
    """The facts that a literal needs, and when."""
    for each in needed.below:
        if isinstance(each, Goal):
            yield each
        else:
            yield from _goals(each)


def grounded_metric(literal: Literal, binding: Binding) -> Literal:
    """A literal with temporal operators, with bound variables replaced by their values."""
    match literal:
        case Atom():
            return ground_atom(literal, binding)
        case Negation(atom):
            return Negation(ground_atom(atom, binding))
        case Metric(operator, interval, operands):
            grounded = tuple(grounded_metric(each, binding) for each in operands)
            return Metric(operator, interval, grounded)  # type: ignore[arg-type]
        case MetricNegation(metric):
            grounded_atom = grounded_metric(metric, binding)
            assert isinstance(grounded_atom, Metric)
            return MetricNegation(grounded_atom)
    raise TypeError(literal)


# ---- why facts hold when they do


class TimedProver:
    """Finds proofs of temporal facts; `without` proves facts without times."""

    def __init__(
        self, time: Temporal, origin: Origin, without: Callable[[Fact], ProofNode], check: Callable[[], None]
    ) -> None:
        self._time = time
        self._origin = origin
        self._without = without
        self._check = check

    def explain(self, query: Query, program: Program, limit: int, most: int | None) -> Explanation:
        """A proof of each of the first answers to a query, for each stretch at which it is one."""
        atom, interval = _requested_fact(query)
        answers = self._time.answer(query, program)
        if not len(answers):
            raise does_not_hold(query, can_say_why_not=False)
        stages = Stages(self._time.store, program, self._check)
        requested = None if interval is None else self._time.store.timeline.ends(interval)
        goals = list(islice(self._goals(atom, requested, query, answers, stages), limit))
        stages.prepare([(goal.fact, goal.ends) for goal in goals])
        for goal in goals:
            if not covers(stages.times_of[goal.fact].proved, goal.ends):
                raise _beyond(query)
        trees = TimedTrees(stages, self._origin, self._always, most)
        proofs = tuple(trees.proof(goal) for goal in goals)
        return Explanation(query.text.strip(), proofs, Writing.of(program), len(answers) - len(goals))

    def _goals(
        self, atom: Atom, requested: Ends | None, query: Query, answers: Relation, stages: Stages
    ) -> Iterator[Goal]:
        """The goals: each answer at the requested time, or at its own."""
        columns = [column.tolist() for column in answers.coded.columns]
        for position in range(len(answers)):
            binding = {name: column[position] for name, column in zip(query.variables, columns, strict=True)}
            fact = stages.ground(atom, binding)
            assert fact is not None, "answers have values"
            if requested is None:
                assert isinstance(answers, TimedRelation)
                yield Goal(fact, (int(answers.left[position]), int(answers.right[position])))
            else:
                yield Goal(fact, requested)

    def _always(self, fact: FactKey) -> ProofNode:
        decode = self._time.engine.storage.dictionary.decode
        return self._without(Fact(fact.predicate, tuple(map(decode, fact.key))))


def _beyond(query: Query) -> ProgramError:
    """The error if the premises of a fact are no longer stored, or lie beyond the derived times."""
    message = f"`{query.text.strip()}` holds, but the facts it is derived from at this time are not kept"
    help = "ask for a time near the data, and not before the time that was advanced to"
    return ProgramError(Diagnostic(NOT_EXPLAINED, message, help=help))


def _requested_fact(query: Query) -> tuple[Atom, Interval | None]:
    """The atom and the time of a query; raise an error if it has another form."""
    match query.rule.body:
        case (Throughout(atom, interval),):
            return atom, interval
        case (Atom() as atom,) if all(
            variable.name in query.variables for variable in literal_variables(atom)
        ):
            return atom, None
    message = "with temporal facts, only single facts can be explained"
    help = "ask for one: `explain PROGRAM 'hot(s1)@15'`, `'hot(s1)@[10, 15]'` or `'hot(?x)'`"
    raise ProgramError(Diagnostic(NOT_EXPLAINED, message, help=help))
