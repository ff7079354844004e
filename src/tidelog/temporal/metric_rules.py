"""Rules over time, compiled for a timeline: bodies as trees of metric operators, whose bounds are integers;
strata, direction and termination of such rules.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from fractions import Fraction
from itertools import count

import numpy as np

from tidelog.logic.intervals import Interval
from tidelog.logic.program import (
    TOP,
    Assignment,
    Atom,
    Comparison,
    Condition,
    Constant,
    Literal,
    Metric,
    MetricNegation,
    MetricRule,
    Negation,
    Rule,
    Sometime,
    Throughout,
    Variable,
    literal_variables,
)
from tidelog.logic.strata import Stratum, components, dependency_graph
from tidelog.logic.values import Value
from tidelog.records import dataclass
from tidelog.temporal.interval_table import Integers, IntervalLists, Timeline, empty_lists

# Metric operators over lists of intervals, as Table 1 of Wang, Wałęga, Cuenca Grau (Seminaïve Materialisation
# in DatalogMTL, RuleML+RR 2022) defines them.
#
# `M since ρ N` holds where N does if 0 is in ρ. Otherwise M must hold, without a gap, from right behind a
# point of N to right before the present one: a maximal interval of M with its ends closed, cut with N, moved
# on by what remains of ρ, cut with the closed interval again. On the integer timeline nothing lies between a
# point and the next, so what was 1 ago needs no M either. `until` is the mirror image.

DIAMOND_OF = {"since": "diamondminus", "until": "diamondplus"}
_ZERO, _ONE = Fraction(0), Fraction(1)


@dataclass(frozen=True, slots=True)
class SinceParts:
    """A `since` or `until` in parts.

    `by` shifts points of the right operand while the left one holds, None if the interval is only 0; `alone`
    has the shifts under which points of the right operand count without the left one.
    """

    by: Integers | None
    alone: tuple[Integers | None, ...]  # None: they stay where they are
    is_integer: bool


def split_since(operator: str, interval: Interval, timeline: Timeline) -> SinceParts:
    """Split a `since` or `until` into parts."""
    diamond = DIAMOND_OF[operator]
    alone: list[Integers | None] = []
    remaining: Interval | None = interval
    if _ZERO in interval:
        alone.append(None)
        is_zero = interval.end == _ZERO
        remaining = None if is_zero else replace(interval, start=_ZERO, start_open=True)
    if timeline.is_integer and _ONE in interval:
        alone.append(timeline.operator(diamond, Interval(_ONE, _ONE)))
    if remaining is not None and timeline.is_integer:
        left, right = timeline.ends(remaining)
        remaining = remaining if left <= right else None
    by = None if remaining is None else timeline.operator(diamond, remaining)
    return SinceParts(by, tuple(alone), timeline.is_integer)


def since_intervals(
    parts: SinceParts, first: IntervalLists, second: IntervalLists, numbers: Integers, others: Integers
) -> IntervalLists:
    """`first since second`, pair by pair; the number -1 is the empty list."""
    if parts.by is None:
        lists = empty_lists(len(numbers))
    else:
        lists = first.since(second, numbers, others, parts.by, parts.is_integer)
    for by in parts.alone:
        points, point_numbers = second, others
        if by is not None:
            points = second.take(others).shifted(by)
            point_numbers = points.numbers
        lists = lists.united(points, lists.numbers, point_numbers)
    return lists


def evaluate_metric(
    operator: str, interval: Interval, operands: Sequence[IntervalLists], timeline: Timeline
) -> IntervalLists:
    """Return the lists of a metric operator over lists, or over pairs of lists; no lists mean empty ones."""
    if len(operands) == 1:
        return operands[0].shifted(timeline.operator(operator, interval))
    first, second = operands
    count = max(len(first), len(second))
    numbers = first.numbers if len(first) else np.full(count, -1)
    others = second.numbers if len(second) else np.full(count, -1)
    parts = split_since(operator, interval, timeline)
    return since_intervals(parts if len(second) else replace(parts, alone=()), first, second, numbers, others)


PAST = frozenset({"boxminus", "diamondminus", "since"})
HEAD_MOVES = {"boxplus": "diamondminus", "boxminus": "diamondplus"}  # from times of a body to the head's
BACK = {"diamondminus": "diamondplus", "diamondplus": "diamondminus"}

Identity = Callable[[Value], int]


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """An atom: `number` counts the atoms of a body, `terms` are names of variables or ids."""

    number: int
    predicate: str
    terms: tuple[str | int, ...]
    is_negated: bool
    names: tuple[str, ...] = field(init=False)  # the variables, each once

    def __post_init__(self) -> None:
        names = dict.fromkeys(term for term in self.terms if isinstance(term, str))
        object.__setattr__(self, "names", tuple(names))

    @property
    def is_plain(self) -> bool:
        """Whether all terms are variables, none of them twice: every fact fits."""
        return len(self.names) == len(self.terms)

    def bound_positions(self, names: Sequence[str]) -> list[int]:
        """The positions of constants, and of variables of these names."""
        return [
            position for position, term in enumerate(self.terms) if isinstance(term, int) or term in names
        ]


@dataclass(frozen=True, slots=True, eq=False)
class Always:
    """`top()`."""

    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Shifted:
    """A unary operator; `spread` leads from a point of the operand to all times at which it counts."""

    by: Integers
    operand: Node
    spread: Integers

    @property
    def names(self) -> tuple[str, ...]:
        """The variables, each once."""
        return self.operand.names


@dataclass(frozen=True, slots=True, eq=False)
class Since:
    """`since` or `until`; if the right operand may count alone, it has all variables of the left one."""

    parts: SinceParts
    left: Node
    right: Node
    spreads: tuple[Integers, Integers]  # to all times at which a point of the left, or right, operand counts

    @property
    def names(self) -> tuple[str, ...]:
        """The variables, each once."""
        return tuple(dict.fromkeys((*self.right.names, *self.left.names)))


@dataclass(frozen=True, slots=True, eq=False)
class AtInterval:
    """The facts that hold throughout an interval, or at some time of it: only queries have it."""

    ends: tuple[int, int]
    operand: Leaf
    is_throughout: bool

    @property
    def names(self) -> tuple[str, ...]:
        """The variables, each once."""
        return self.operand.names


Node = Leaf | Always | Shifted | Since | AtInterval
Test = Comparison | Assignment | Condition


@dataclass(frozen=True, slots=True, eq=False)
class Body:
    """A rule's body: metric atoms that hold, those that do not, and tests."""

    positive: tuple[Node, ...]
    negative: tuple[Node, ...]
    tests: tuple[Test, ...]
    atoms_by_leaf: Mapping[Leaf, Node]  # in the order of numbers: the metric atom that an atom is part of
    outer: Mapping[Node, frozenset[str]]  # variables of negated metric atoms that other literals have too


@dataclass(frozen=True, slots=True, eq=False)
class SingleAtom:
    """The body of a rule that is one atom, all whose arguments are variables, under one operator at most."""

    leaf: Leaf
    sources: tuple[int, ...]  # where in the atom the head's arguments are, all of which are variables
    positions: tuple[int, ...]  # the same in order, to be looked up by an index
    places: Integers  # where in the head the variables at these positions are
    by: Integers  # how the head's points lie to those of the atom, as for `interval_kernels.move`, or empty


@dataclass(frozen=True, slots=True, eq=False)
class CompiledMetricRule:
    """A compiled rule: the head holds at the times of one of the bodies, shifted by `moves`."""

    rule: Rule
    number: int  # in the program
    head: str
    terms: tuple[str | int, ...]
    bodies: tuple[Body, ...]
    moves: tuple[Integers, ...]
    back: tuple[Integers, ...]  # from times of the head to all times of the body that lead there
    single: SingleAtom | None = field(init=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "single", _single_atom(self))


def _single_atom(rule: CompiledMetricRule) -> SingleAtom | None:
    """A rule's single atom; None if its body is more than that."""
    body = rule.bodies[0]
    if len(rule.bodies) > 1 or body.negative or body.tests or len(body.positive) != 1:
        return None
    link = chain(body.positive[0])
    names = [term for term in rule.terms if isinstance(term, str)]
    if link is None or not names or len(set(names)) < len(rule.terms):
        return None
    leaf, moves = link[0], (*link[1], *rule.moves)
    if len(moves) > 1 or not leaf.is_plain:
        return None
    by = moves[0] if moves else np.zeros(0, np.int64)
    sources = tuple(leaf.terms.index(name) for name in names)
    return SingleAtom(leaf, sources, tuple(sorted(sources)), np.argsort(sources), by)


def compile_metric_rule(
    rule: Rule, number: int, timeline: Timeline, identity: Identity
) -> CompiledMetricRule:
    """Compile a rule for a timeline."""
    compiler = _Compiler(timeline, identity)
    moves = rule.moves if isinstance(rule, MetricRule) else ()
    names = [HEAD_MOVES[operator] for operator, _ in moves]
    bodies = tuple(compiler.bodies(rule.body))
    return CompiledMetricRule(
        rule,
        number,
        rule.head.predicate,
        compiler.terms(rule.head),
        bodies,
        tuple(timeline.operator(name, interval) for name, (_, interval) in zip(names, moves, strict=True)),
        tuple(
            timeline.operator(BACK[name], interval) for name, (_, interval) in zip(names, moves, strict=True)
        )[::-1],
    )


class _Compiler:
    def __init__(self, timeline: Timeline, identity: Identity) -> None:
        self.timeline = timeline
        self.identity = identity

    def terms(self, atom: Atom) -> tuple[str | int, ...]:
        return tuple(
            self.identity(term.value) if isinstance(term, Constant) else term.name for term in atom.terms
        )

    def bodies(self, literals: Sequence[Literal]) -> Iterator[Body]:
        """The alternatives of the body: more than one if the right operand of a `since` counts alone."""
        for alternative in _alternatives(literals, self.timeline):
            numbers = count()
            positive = [
                self.node(literal, numbers, False)
                for literal in alternative
                if isinstance(literal, Atom | Metric | Throughout)
            ]
            outer = {
                self.node(metric, numbers, True): _outer_names(literal, alternative)
                for literal in alternative
                if isinstance(literal, Negation | MetricNegation)
                for metric in self.negated(literal)
            }
            tests = [
                literal for literal in alternative if isinstance(literal, Comparison | Assignment | Condition)
            ]
            atoms_by_leaf = {leaf: node for node in (*positive, *outer) for leaf in leaves(node)}
            yield Body(tuple(positive), tuple(outer), tuple(tests), atoms_by_leaf, outer)

    def negated(self, literal: Negation | MetricNegation) -> Iterator[Atom | Metric]:
        """The metric atoms none of which holds where a negation does."""
        metric = literal.atom if isinstance(literal, Negation) else literal.metric
        yield metric
        yield from _alone(metric, self.timeline)

    def node(self, metric: Atom | Metric | Throughout, numbers: Iterator[int], is_negated: bool) -> Node:
        match metric:
            case Atom(predicate):
                if predicate == TOP:
                    return Always()
                return Leaf(next(numbers), predicate, self.terms(metric), is_negated)
            case Throughout(atom, interval):
                leaf = Leaf(next(numbers), atom.predicate, self.terms(atom), is_negated)
                return AtInterval(self.timeline.ends(interval), leaf, not isinstance(metric, Sometime))
            case Metric(operator, interval, (operand,)):
                return Shifted(
                    self.timeline.operator(operator, interval),
                    self.node(operand, numbers, is_negated),
                    self.spread(operator, interval),
                )
            case Metric(operator, interval, (left, right)):
                nodes = self.node(left, numbers, is_negated), self.node(right, numbers, is_negated)
                parts = split_since(operator, interval, self.timeline)
                if not set(nodes[0].names) <= set(nodes[1].names):
                    parts = replace(parts, alone=())
                throughout = replace(interval, start=Fraction(0), start_open=False)
                return Since(
                    parts, *nodes, (self.spread(operator, throughout), self.spread(operator, interval))
                )
        raise AssertionError(metric)

    def spread(self, operator: str, interval: Interval) -> Integers:
        """The diamond that refers to the same times as an operator."""
        diamond = "diamondminus" if operator in PAST else "diamondplus"
        return self.timeline.operator(diamond, interval)


def _alternatives(literals: Sequence[Literal], timeline: Timeline) -> Iterator[tuple[Literal, ...]]:
    """The literals, and alternatives in which the right operand of a `since` stands alone."""
    for position, literal in enumerate(literals):
        for alone in _alone(literal, timeline):
            for following in _alternatives(literals[position + 1 :], timeline):
                yield (*literals[:position], alone, *following)
    yield tuple(literals)


def _alone(metric: Literal, timeline: Timeline) -> Iterator[Atom | Metric]:
    """The right operand, if it counts alone, of a `since` with variables that only the left one has."""
    match metric:
        case Metric(operator, interval, (left, right)) if not set(_names(left)) <= set(_names(right)):
            if 0 in interval:
                yield right
            if timeline.is_integer and 1 in interval:
                yield Metric(DIAMOND_OF[operator], Interval(Fraction(1), Fraction(1)), (right,))


def _names(metric: Atom | Metric) -> Iterator[Variable]:
    if not (isinstance(metric, Atom) and metric.predicate == TOP):
        yield from literal_variables(metric)


def _outer_names(literal: Literal, body: Sequence[Literal]) -> frozenset[str]:
    """The variables that a literal shares with others of a body."""
    others = {variable for other in body if other is not literal for variable in literal_variables(other)}
    return frozenset(variable.name for variable in literal_variables(literal) if variable in others)


def chain(node: Node) -> tuple[Leaf, tuple[Integers, ...]] | None:
    """The atom under unary operators, and their shifts, innermost first; None for any other metric atom."""
    moves: tuple[Integers, ...] = ()
    while isinstance(node, Shifted):
        moves = (node.by, *moves)
        node = node.operand
    return (node, moves) if isinstance(node, Leaf) else None


def leaves(node: Node) -> Iterator[Leaf]:
    """The atoms, in the order of their numbers."""
    match node:
        case Leaf():
            yield node
        case Shifted(operand=operand) | AtInterval(operand=operand):
            yield from leaves(operand)
        case Since(left=left, right=right):
            yield from leaves(left)
            yield from leaves(right)


# How rules move truth through time: levels of negation, recursion, direction and termination.
#
# Wałęga, Zawidzki, Cuenca Grau: Finitely Materialisable Datalog Programs with Metric Temporal Operators, KR
# 2021: label the edge from each body atom to the head with the interval by which truth can move along it; if
# no cycle moves truth, a fixpoint is reached (MTL-acyclic). Boxes, since and until count as diamonds do.

FORWARD, BACKWARD = "forward", "backward"


@dataclass(frozen=True, slots=True)
class Shift:
    """By how much truth may move: from `low` to `high`, None if that is unbounded."""

    low: Fraction | None = Fraction(0)
    high: Fraction | None = Fraction(0)

    def __add__(self, other: Shift) -> Shift:
        low = None if self.low is None or other.low is None else self.low + other.low
        high = None if self.high is None or other.high is None else self.high + other.high
        return Shift(low, high)

    @property
    def is_punctual(self) -> bool:
        """Whether there is one amount only."""
        return self.low is not None and self.low == self.high


@dataclass(frozen=True, slots=True)
class Edge:
    """The head of a rule follows from an atom of its body, later by a shift."""

    rule: Rule
    source: str
    target: str
    shift: Shift


def levels(rules: Sequence[Rule]) -> tuple[tuple[Rule, ...], ...]:
    """The rules in the fewest levels such that negated predicates are complete before they are read."""
    level = {rule.head.predicate: 0 for rule in rules}
    is_settled = False
    while not is_settled:
        is_settled = True
        for rule in rules:
            lowest = max(
                (level.get(atom.predicate, -1) + is_negated for atom, is_negated in _atoms(rule)), default=0
            )
            if lowest > level[rule.head.predicate]:
                level[rule.head.predicate] = lowest
                is_settled = False
    highest = max(level.values(), default=-1)
    return tuple(
        tuple(rule for rule in rules if level[rule.head.predicate] == number) for number in range(highest + 1)
    )


def time_strata(rules: Sequence[Rule]) -> tuple[Stratum, ...]:
    """The levels as strata, to be shown after those of rules without time."""
    return tuple(
        Stratum(
            tuple(dict.fromkeys(rule.head.predicate for rule in level)),
            level,
            bool(recursive_predicates(level)),
        )
        for level in levels(rules)
    )


def _atoms(rule: Rule) -> Iterator[tuple[Atom, bool]]:
    for atom in rule.positive:
        yield atom, False
    for atom in rule.negated:
        yield atom, True


def recursive_predicates(rules: Sequence[Rule]) -> frozenset[str]:
    """The predicates that depend on a cycle, as in Definition 5 of Wang, Wałęga, Cuenca Grau (2022)."""
    graph = dependency_graph(rules)
    recursive: set[str] = set()
    for component in components(graph):  # each after those it depends on
        is_cycle = len(component) > 1 or component[0] in graph[component[0]]
        if is_cycle or any(source in recursive for name in component for source in graph[name]):
            recursive.update(component)
    return frozenset(recursive)


def direction(rules: Iterable[Rule]) -> str | None:
    """`forward` if no fact depends on later ones, `backward` if none depends on earlier ones, else None."""
    ways = {way for rule in rules for way in _ways(rule)}
    if ways <= {FORWARD}:
        return FORWARD
    return BACKWARD if ways <= {BACKWARD} else None


def _ways(rule: Rule) -> Iterator[str]:
    if not isinstance(rule, MetricRule):
        return
    for operator, interval in rule.moves:
        if interval.end != 0:
            yield FORWARD if operator == "boxplus" else BACKWARD
    for literal in rule.body:
        if isinstance(literal, Metric | MetricNegation):
            yield from _ways_of(literal.metric if isinstance(literal, MetricNegation) else literal)


def _ways_of(metric: Atom | Metric) -> Iterator[str]:
    if isinstance(metric, Metric):
        if metric.interval.end != 0:
            yield FORWARD if metric.operator in PAST else BACKWARD
        for operand in metric.operands:
            yield from _ways_of(operand)
    elif metric.predicate == TOP:
        yield from (FORWARD, BACKWARD)


def edges(rules: Iterable[Rule]) -> Iterator[Edge]:
    """How truth moves from atoms to heads, negated ones included."""
    for rule in rules:
        head = Shift()
        for operator, interval in rule.moves if isinstance(rule, MetricRule) else ():
            head += _shift(interval, is_past=operator == "boxplus")
        for literal in rule.body:
            metric = None
            if isinstance(literal, Atom | Metric):
                metric = literal
            elif isinstance(literal, Negation):
                metric = literal.atom
            elif isinstance(literal, MetricNegation):
                metric = literal.metric
            for source, shift in () if metric is None else _moves(metric, head):
                yield Edge(rule, source, rule.head.predicate, shift)


def _moves(metric: Atom | Metric, outer: Shift) -> Iterator[tuple[str, Shift]]:
    if isinstance(metric, Atom):
        if metric.predicate != TOP:
            yield metric.predicate, outer
        return
    is_past = metric.operator in PAST
    shift = _shift(metric.interval, is_past)
    yield from _moves(metric.operands[-1], outer + shift)
    if len(metric.operands) == 2:
        until = Shift(Fraction(0), shift.high) if is_past else Shift(shift.low, Fraction(0))
        yield from _moves(metric.operands[0], outer + until)


def _shift(interval: Interval, is_past: bool) -> Shift:
    if is_past:
        return Shift(interval.start, interval.end)
    low = None if interval.end is None else -interval.end
    return Shift(low, None if interval.start is None else -interval.start)


def time_cycle(rules: Sequence[Rule]) -> tuple[Edge, ...]:
    """Edges of a recursion that moves truth, so that there may be no fixpoint; none if a fixpoint is sure.

    In a component every edge is on a cycle. All cycles move truth by 0 iff every edge moves it by one amount,
    and predicates can be given offsets so that each edge leads from offset to offset by that amount.
    """
    graph = dependency_graph(rules)
    component_of = {name: number for number, names in enumerate(components(graph)) for name in names}
    inner: dict[int, list[Edge]] = {}
    for edge in edges(rules):
        if component_of.get(edge.source) == component_of[edge.target]:
            inner.setdefault(component_of[edge.target], []).append(edge)
    for component in inner.values():
        not_punctual = [edge for edge in component if not edge.shift.is_punctual]
        if not_punctual:
            return (not_punctual[0],)
        inconsistent = _inconsistent_edge(component)
        if inconsistent is not None:
            return (inconsistent,)
    return ()


def _inconsistent_edge(component: Sequence[Edge]) -> Edge | None:
    """An edge that fits no offsets of the predicates, or None."""
    offsets: dict[str, Fraction] = {component[0].target: Fraction(0)}
    is_settled = False
    while not is_settled:
        is_settled = True
        for edge in component:
            assert edge.shift.low is not None
            if edge.source in offsets and edge.target in offsets:
                if offsets[edge.source] + edge.shift.low != offsets[edge.target]:
                    return edge
            elif edge.source in offsets:
                offsets[edge.target] = offsets[edge.source] + edge.shift.low
                is_settled = False
            elif edge.target in offsets:
                offsets[edge.source] = offsets[edge.target] - edge.shift.low
                is_settled = False
    return None
