"""Rules over time made ready: metric atoms as trees of operators, moves as integers, constants as ids."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import count

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
from tidelog.logic.values import Value
from tidelog.temporal.lists import Integers, Timeline
from tidelog.temporal.metric import DIAMOND_OF, Lasting, take_apart

PAST = frozenset({"boxminus", "diamondminus", "since"})
HEAD_MOVES = {"boxplus": "diamondminus", "boxminus": "diamondplus"}  # what they do to the times of a body
BACK = {"diamondminus": "diamondplus", "diamondplus": "diamondminus"}

Identity = Callable[[Value], int]


@dataclass(frozen=True, slots=True, eq=False)
class Leaf:
    """An atom: `number` counts the atoms of a body, `terms` are names of variables or ids."""

    number: int
    predicate: str
    terms: tuple[str | int, ...]
    is_negated: bool

    @property
    def names(self) -> tuple[str, ...]:
        """The variables, each once."""
        return tuple(dict.fromkeys(term for term in self.terms if isinstance(term, str)))

    @property
    def is_plain(self) -> bool:
        """Whether all terms are variables, none of them twice: every fact fits."""
        return len(self.names) == len(self.terms)


@dataclass(frozen=True, slots=True, eq=False)
class Always:
    """`top()`."""

    names: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Moved:
    """A unary operator; `spread` leads to all times at which a point of the operand counts."""

    by: Integers
    operand: Node
    spread: Integers

    @property
    def names(self) -> tuple[str, ...]:
        """The variables, each once."""
        return self.operand.names


@dataclass(frozen=True, slots=True, eq=False)
class Since:
    """`since` or `until`, whose right operand may also count alone: then it has all variables of the left."""

    parts: Lasting
    left: Node
    right: Node
    spreads: tuple[Integers, Integers]  # to all times at which a point of the left, or right, operand counts

    @property
    def names(self) -> tuple[str, ...]:
        """The variables, each once."""
        return tuple(dict.fromkeys((*self.right.names, *self.left.names)))


@dataclass(frozen=True, slots=True, eq=False)
class Within:
    """The facts that hold throughout an interval, or at some time of it, as a query asks for them."""

    ends: tuple[int, int]
    operand: Leaf
    is_throughout: bool

    @property
    def names(self) -> tuple[str, ...]:
        """The variables, each once."""
        return self.operand.names


Node = Leaf | Always | Moved | Since | Within
Test = Comparison | Assignment | Condition


@dataclass(frozen=True, slots=True, eq=False)
class Body:
    """A rule's body: metric atoms that hold, those that do not, and tests."""

    positive: tuple[Node, ...]
    negative: tuple[Node, ...]
    tests: tuple[Test, ...]
    homes: Mapping[Leaf, Node]  # each atom, by number, and the metric atom that it stands in
    outer: Mapping[Node, frozenset[str]]  # variables of negated metric atoms that other literals have too


@dataclass(frozen=True, slots=True, eq=False)
class ReadyRule:
    """A rule made ready: it holds where one of the bodies does; `moves` then tell when the head holds."""

    rule: Rule
    number: int  # in the program
    head: str
    terms: tuple[str | int, ...]
    bodies: tuple[Body, ...]
    moves: tuple[Integers, ...]
    back: tuple[Integers, ...]  # from times of the head to all times of the body that lead there
    is_alone: bool  # no atom stands in the body: it holds at all times, or never


def make_ready(rule: Rule, number: int, timeline: Timeline, identity: Identity) -> ReadyRule:
    """A rule made ready for a timeline."""
    compiler = _Compiler(timeline, identity)
    moves = rule.moves if isinstance(rule, MetricRule) else ()
    names = [HEAD_MOVES[operator] for operator, _ in moves]
    bodies = tuple(compiler.bodies(rule.body))
    return ReadyRule(
        rule,
        number,
        rule.head.predicate,
        compiler.terms(rule.head),
        bodies,
        tuple(timeline.operator(name, one) for name, (_, one) in zip(names, moves, strict=True)),
        tuple(timeline.operator(BACK[name], one) for name, (_, one) in zip(names, moves, strict=True))[::-1],
        not any(body.homes for body in bodies),
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
        """The body, more than once where the right operand of a `since` counts without the left one."""
        for chosen in _alternatives(literals, self.timeline):
            numbers = count()
            positive = [
                self.node(literal, numbers, False)
                for literal in chosen
                if isinstance(literal, Atom | Metric | Throughout)
            ]
            outer = {
                self.node(metric, numbers, True): _outer_names(literal, chosen)
                for literal in chosen
                if isinstance(literal, Negation | MetricNegation)
                for metric in self.negated(literal)
            }
            tests = [
                literal for literal in chosen if isinstance(literal, Comparison | Assignment | Condition)
            ]
            homes = {leaf: node for node in (*positive, *outer) for leaf in leaves(node)}
            yield Body(tuple(positive), tuple(outer), tuple(tests), homes, outer)

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
                return Within(self.timeline.ends(interval), leaf, not isinstance(metric, Sometime))
            case Metric(operator, interval, (operand,)):
                return Moved(
                    self.timeline.operator(operator, interval),
                    self.node(operand, numbers, is_negated),
                    self.spread(operator, interval),
                )
            case Metric(operator, interval, (left, right)):
                nodes = self.node(left, numbers, is_negated), self.node(right, numbers, is_negated)
                parts = take_apart(operator, interval, self.timeline)
                if not set(nodes[0].names) <= set(nodes[1].names):
                    parts = replace(parts, alone=())
                lasting = replace(interval, start=Fraction(0), start_open=False)
                return Since(parts, *nodes, (self.spread(operator, lasting), self.spread(operator, interval)))
        raise AssertionError(metric)

    def spread(self, operator: str, interval: Interval) -> Integers:
        """The diamond that looks where an operator does."""
        diamond = "diamondminus" if operator in PAST else "diamondplus"
        return self.timeline.operator(diamond, interval)


def _alternatives(literals: Sequence[Literal], timeline: Timeline) -> Iterator[tuple[Literal, ...]]:
    """The literals, and with the right operand alone each `since` whose left one has variables of its own."""
    for place, literal in enumerate(literals):
        for alone in _alone(literal, timeline):
            for rest in _alternatives(literals[place + 1 :], timeline):
                yield (*literals[:place], alone, *rest)
    yield tuple(literals)


def _alone(metric: Literal, timeline: Timeline) -> Iterator[Atom | Metric]:
    """Return what counts alone of a `since` whose left operand has variables of its own: the right one."""
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
    """The variables of a literal that others of a body have too."""
    others = {variable for other in body if other is not literal for variable in literal_variables(other)}
    return frozenset(variable.name for variable in literal_variables(literal) if variable in others)


def chain(node: Node) -> tuple[Leaf, tuple[Integers, ...]] | None:
    """The atom under unary operators, and what these do, inner ones first; None if there is more to it."""
    moves: tuple[Integers, ...] = ()
    while isinstance(node, Moved):
        moves = (node.by, *moves)
        node = node.operand
    return (node, moves) if isinstance(node, Leaf) else None


def leaves(node: Node) -> Iterator[Leaf]:
    """The atoms, in the order of their numbers."""
    match node:
        case Leaf():
            yield node
        case Moved(operand=operand) | Within(operand=operand):
            yield from leaves(operand)
        case Since(left=left, right=right):
            yield from leaves(left)
            yield from leaves(right)
