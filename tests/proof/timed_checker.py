"""A checker of proofs over time, and the smallest heights by brute force; both know the oracle of cells only.

Every node is looked at by itself: what it says holds in the cells of its interval by what stands below it.
"""

from __future__ import annotations

from tests.temporal.oracle import Points, cells_of, operated
from tests.temporal.reference import HEAD, Ground, Model, Reference
from tidelog.logic.program import (
    TOP,
    Atom,
    Constant,
    Literal,
    Metric,
    MetricNegation,
    MetricRule,
    Negation,
    Program,
    Rule,
    Variable,
    literal_variables,
)
from tidelog.logic.values import Value
from tidelog.proof.explanation import NodeKind, ProofNode, walk

Binding = dict[Variable, Value]


class TimedChecker:
    """The model of a program, and when each point of it can first be proved."""

    def __init__(self, program: Program, parts: tuple[tuple[Rule, ...], ...], rounds: int | None) -> None:
        self.program = program
        self.given = dict(Reference(program).model)
        self.final = Reference(program)
        self.model = self.final.run(parts, rounds)
        self.stages = self._stages()

    def _stages(self) -> list[Model]:
        """The points that have a proof of at most so many rule instances."""
        staged = Staged(self.program, self.final)
        stages = [dict(staged.model)]
        while True:
            for ground, points in [item for rule in self.program.rules for item in staged.apply(rule)]:
                staged.model[ground] |= points & self.model.get(ground, frozenset())
            if dict(staged.model) == stages[-1]:
                return stages
            stages.append(dict(staged.model))

    def cells(self, node: ProofNode) -> Points:
        """The cells of a node's interval."""
        assert node.time is not None
        return cells_of([node.time]) & self.final.every

    def height(self, node: ProofNode) -> int:
        """The smallest height of a proof of a fact throughout its interval."""
        ground, cells = ground_of(node), self.cells(node)
        return next(at for at, stage in enumerate(self.stages) if cells <= stage.get(ground, frozenset()))

    def check(self, proof: ProofNode) -> None:
        """Nothing, if the proof is one."""
        for node in walk([proof]):
            assert node.time is None or node.kind is NodeKind.NEGATION or self._is_so(node), node
            if node.kind.is_step:
                assert node.height == 1 + max((child.height for child in node.children), default=0)
            else:
                assert node.height == max((child.height for child in node.children), default=0)

    def _is_so(self, node: ProofNode) -> bool:
        cells = self.cells(node)
        match node.kind:
            case NodeKind.EXPLICIT:
                return cells <= self.given.get(ground_of(node), frozenset())
            case NodeKind.STRETCHES:
                assert all(child.literal == node.literal for child in node.children) and not node.elided
                return cells <= frozenset().union(*map(self.cells, node.children))
            case NodeKind.METRIC:
                assert isinstance(node.literal, Metric)
                return cells <= self._metric(node.literal, node.children)
            case NodeKind.RULE:
                return cells <= self._derived(node)
        return False

    def _metric(self, metric: Metric, children: tuple[ProofNode, ...]) -> Points:
        """Where a metric atom holds, if its operands hold where nodes say so."""
        operands = []
        for operand in metric.operands:
            is_top = isinstance(operand, Atom) and operand.predicate == TOP
            held = [self.cells(child) for child in children if child.literal == operand]
            operands.append(self.final.every if is_top else frozenset().union(*held))
        return operated(metric.operator, metric.interval, tuple(operands), self.program.is_integer_time)

    def _derived(self, node: ProofNode) -> Points:
        """Where a rule derives its head, if its literals hold where nodes say so."""
        rule = node.rule
        assert rule is not None and rule == self.program.rules[node.number]
        binding = binding_of(rule, node)
        points = self.final.every
        for literal, child in zip(rule.body, node.children, strict=True):
            if isinstance(literal, Negation | MetricNegation):
                local = set(literal_variables(literal)) - binding.keys()
                assert self.cells(child) <= self.final._literal(literal, binding, local)
            if child.time is not None:
                points &= self.cells(child)
        for operator, interval in rule.moves if isinstance(rule, MetricRule) else ():
            points = operated(HEAD[operator], interval, (points,), self.program.is_integer_time)
        return points


class Staged(Reference):
    """One stage after the other; what is negated is read as it is in the end."""

    def __init__(self, program: Program, final: Reference) -> None:
        super().__init__(program)
        self.constants = final.constants
        self.final = final

    def _literal(self, literal: object, binding: dict[Variable, Value], local: set[Variable]) -> Points:
        if isinstance(literal, Negation | MetricNegation):
            return self.final._literal(literal, binding, local)
        return super()._literal(literal, binding, local)


def ground_of(node: ProofNode) -> Ground:
    """The fact that a node states."""
    assert isinstance(node.literal, Atom)
    return node.literal.predicate, tuple(t.value for t in node.literal.terms if isinstance(t, Constant))


def binding_of(rule: Rule, node: ProofNode) -> Binding:
    """The values of variables under which the children of a node are the rule's body, and it is the head."""
    binding: Binding = {}
    assert len(rule.body) == len(node.children)
    for literal, child in zip(rule.body, node.children, strict=True):
        if not isinstance(literal, Negation | MetricNegation):
            assert child.literal is not None
            _unify(literal, child.literal, binding)
    _unify(rule.head, _stated(node), binding)
    return binding


def _stated(node: ProofNode) -> Literal:
    assert node.literal is not None
    return node.literal


def _unify(general: Literal, ground: Literal, binding: Binding) -> None:
    match general, ground:
        case Atom(name, terms), Atom(other, values):
            assert name == other
            for term, value in zip(terms, values, strict=True):
                if isinstance(term, Constant):
                    assert term == value
                elif isinstance(value, Constant):
                    assert binding.setdefault(term, value.value) == value.value
        case Metric(name, interval, operands), Metric(other, window, atoms):
            assert (name, interval) == (other, window)
            for operand, atom in zip(operands, atoms, strict=True):
                _unify(operand, atom, binding)
        case _:
            raise AssertionError((general, ground))
