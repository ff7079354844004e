"""Rules over time, naively and point by point over a few constants: what every procedure must agree with."""

from __future__ import annotations

from collections import defaultdict
from itertools import product

from tests.temporal.oracle import CELLS, Points, cells_of, operated
from tidelog.logic.functions.builtins import evaluate
from tidelog.logic.program import (
    TOP,
    Assignment,
    Atom,
    Comparison,
    Constant,
    Metric,
    MetricNegation,
    MetricRule,
    Negation,
    Program,
    Rule,
    TimedFact,
    Variable,
    literal_variables,
)
from tidelog.logic.values import Value

Ground = tuple[str, tuple[Value, ...]]
Model = dict[Ground, Points]
ALL: Points = frozenset(CELLS)
HEAD = {"boxplus": "diamondminus", "boxminus": "diamondplus"}


class Reference:
    """A program's facts, round by round."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.every: Points = frozenset(CELLS[::2]) if program.is_integer_time else ALL
        self.model: Model = defaultdict(frozenset)
        self.constants: set[Value] = set()
        for fact in program.facts:
            self.constants.update(fact.values)
            points = cells_of([fact.interval]) if isinstance(fact, TimedFact) else ALL
            self.model[fact.predicate, fact.values] |= points & self.every

    def run(self, levels: tuple[tuple[Rule, ...], ...], rounds: int | None) -> Model:
        """The facts after so many rounds of each level, or until nothing is new."""
        for rules in levels:
            done = 0
            while rounds is None or done < rounds:
                done += 1
                new = [item for rule in rules for item in self.apply(rule)]
                before = dict(self.model)
                for ground, points in new:
                    self.model[ground] |= points
                if dict(self.model) == before:
                    break
        return {ground: points for ground, points in self.model.items() if points}

    def apply(self, rule: Rule) -> list[tuple[Ground, Points]]:
        """What a rule derives from the model as it is."""
        names = sorted({item for literal in rule.body for item in literal_variables(literal)}, key=repr)
        names += [item for item in rule.head.terms if isinstance(item, Variable) and item not in names]
        local = {
            item
            for literal in rule.body
            if isinstance(literal, Negation | MetricNegation)
            for item in literal_variables(literal)
            if not any(item in set(literal_variables(other)) for other in rule.body if other is not literal)
            and item not in rule.head.terms
        }
        bound = [name for name in names if name not in local]
        found: list[tuple[Ground, Points]] = []
        for values in product(sorted(self.constants, key=repr), repeat=len(bound)):
            binding = dict(zip(bound, values, strict=True))
            points = self.every
            for literal in rule.body:
                points &= self._literal(literal, binding, local)
            for operator, interval in rule.moves if isinstance(rule, MetricRule) else ():
                points = operated(HEAD[operator], interval, (points,), self.program.is_integer_time)
            if points:
                found.append((self._ground(rule.head, binding), points))
        return found

    def _literal(self, literal: object, binding: dict[Variable, Value], local: set[Variable]) -> Points:
        match literal:
            case Atom() | Metric():
                return self._metric(literal, binding)
            case Negation() | MetricNegation():
                inner = literal.atom if isinstance(literal, Negation) else literal.metric
                free = sorted({item for item in literal_variables(literal) if item in local}, key=repr)
                held: Points = frozenset()
                for values in product(sorted(self.constants, key=repr), repeat=len(free)):
                    held |= self._metric(inner, binding | dict(zip(free, values, strict=True)))
                return self.every - held
            case Comparison(operator, left, right):
                one, other = evaluate(left, binding), evaluate(right, binding)
                assert operator in ("=", "!=")
                return self.every if (one == other) == (operator == "=") else frozenset()
            case Assignment(variable, expression):
                is_same = binding.get(variable) == evaluate(expression, binding)
                return self.every if is_same else frozenset()
        raise AssertionError(literal)

    def _metric(self, metric: Atom | Metric, binding: dict[Variable, Value]) -> Points:
        if isinstance(metric, Atom):
            return ALL & self.every if metric.predicate == TOP else self.model[self._ground(metric, binding)]
        operands = tuple(self._metric(operand, binding) for operand in metric.operands)
        return operated(metric.operator, metric.interval, operands, self.program.is_integer_time)

    def _ground(self, atom: Atom, binding: dict[Variable, Value]) -> Ground:
        values = (term.value if isinstance(term, Constant) else binding[term] for term in atom.terms)
        return atom.predicate, tuple(values)
