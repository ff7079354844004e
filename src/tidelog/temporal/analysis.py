"""What rules over time do to time: levels of negation, recursion, ways of propagation, and termination.

Wałęga, Zawidzki, Cuenca Grau: Finitely Materialisable Datalog Programs with Metric Temporal Operators,
KR 2021: label the edge from each body atom to the head with the interval by which truth can move along it; if
no cycle moves truth, a fixpoint is reached (MTL-acyclic). Boxes, since and until count as diamonds do.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction

from tidelog.logic.intervals import Interval
from tidelog.logic.program import TOP, Atom, Metric, MetricNegation, MetricRule, Negation, Rule
from tidelog.logic.strata import Stratum, components, dependency_graph
from tidelog.temporal.nodes import PAST

FORWARD, BACKWARD = "forward", "backward"


@dataclass(frozen=True, slots=True)
class Shift:
    """By how much truth may move: from `low` to `high`, None being without end."""

    low: Fraction | None = Fraction(0)
    high: Fraction | None = Fraction(0)

    def __add__(self, other: Shift) -> Shift:
        low = None if self.low is None or other.low is None else self.low + other.low
        high = None if self.high is None or other.high is None else self.high + other.high
        return Shift(low, high)

    @property
    def is_punctual(self) -> bool:
        """Whether it is by one amount only."""
        return self.low is not None and self.low == self.high


@dataclass(frozen=True, slots=True)
class Edge:
    """The head of a rule follows from an atom of its body, later by a shift."""

    rule: Rule
    source: str
    target: str
    shift: Shift


def levels(rules: Sequence[Rule]) -> tuple[tuple[Rule, ...], ...]:
    """The rules in as few parts as it takes for what is negated to be complete before it is read."""
    level = {rule.head.predicate: 0 for rule in rules}
    is_settled = False
    while not is_settled:
        is_settled = True
        for rule in rules:
            least = max(
                (level.get(atom.predicate, -1) + is_negated for atom, is_negated in _atoms(rule)), default=0
            )
            if least > level[rule.head.predicate]:
                level[rule.head.predicate] = least
                is_settled = False
    most = max(level.values(), default=-1)
    return tuple(
        tuple(rule for rule in rules if level[rule.head.predicate] == number) for number in range(most + 1)
    )


def time_strata(rules: Sequence[Rule]) -> tuple[Stratum, ...]:
    """The levels, as they are shown beside the strata of rules without time."""
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
    """The predicates that a path of dependencies with a cycle leads to (paper 002, Definition 5)."""
    graph = dependency_graph(rules)
    found: set[str] = set()
    for component in components(graph):  # each after those it depends on
        is_cycle = len(component) > 1 or component[0] in graph[component[0]]
        if is_cycle or any(source in found for name in component for source in graph[name]):
            found.update(component)
    return frozenset(found)


# ---- ways of propagation


def direction(rules: Iterable[Rule]) -> str | None:
    """`forward` if nothing later bears on what holds earlier, `backward` for the reverse, else None."""
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


# ---- termination


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
    """Edges of a recursion that moves truth, so that there may be no fixpoint; none if there is one.

    In a component every edge is on a cycle. All cycles move truth by 0 iff every edge moves it by one amount,
    and places can be given to the predicates so that each edge leads from place to place by that amount.
    """
    graph = dependency_graph(rules)
    home = {name: number for number, names in enumerate(components(graph)) for name in names}
    inner: dict[int, list[Edge]] = {}
    for edge in edges(rules):
        if home.get(edge.source) == home[edge.target]:
            inner.setdefault(home[edge.target], []).append(edge)
    for found in inner.values():
        wide = [edge for edge in found if not edge.shift.is_punctual]
        if wide:
            return (wide[0],)
        moved = _misplaced(found)
        if moved is not None:
            return (moved,)
    return ()


def _misplaced(found: Sequence[Edge]) -> Edge | None:
    """An edge that no places fit, or None."""
    places: dict[str, Fraction] = {found[0].target: Fraction(0)}
    is_settled = False
    while not is_settled:
        is_settled = True
        for edge in found:
            assert edge.shift.low is not None
            if edge.source in places and edge.target in places:
                if places[edge.source] + edge.shift.low != places[edge.target]:
                    return edge
            elif edge.source in places:
                places[edge.target] = places[edge.source] + edge.shift.low
                is_settled = False
            elif edge.target in places:
                places[edge.source] = places[edge.target] - edge.shift.low
                is_settled = False
    return None


def reach(rules: Iterable[Rule]) -> Mapping[str, Fraction | None]:
    """How far rules look back and ahead at most: `past` and `future`, None being without end."""
    past: Fraction | None = Fraction(0)
    future: Fraction | None = Fraction(0)
    for edge in edges(rules):
        past = None if past is None or edge.shift.high is None else max(past, edge.shift.high)
        future = None if future is None or edge.shift.low is None else max(future, -edge.shift.low)
    return {"past": past, "future": future}
