"""Safety: a body in an order in which every variable is bound before it is used.

Positive atoms bind their variables, and an equality binds a variable that stands alone on one side once the
other side is bound. Whatever else a variable occurs in, it must be bound by one of these.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from tidelog.logic.metrics import binding_variables
from tidelog.logic.program import (
    Assignment,
    Atom,
    Comparison,
    Condition,
    Expression,
    Literal,
    Metric,
    MetricNegation,
    Negation,
    Throughout,
    Variable,
    literal_variables,
    variables_of,
)

MATCHING = (Atom, Metric, Throughout)  # literals that give their variables values


@dataclass(frozen=True, slots=True)
class Ordered:
    """The literals in order, those last that cannot be evaluated, and the variables that nothing binds."""

    body: tuple[Literal, ...]
    unbound: tuple[Variable, ...]


def order(body: Sequence[Literal], outside: Iterable[Variable] = ()) -> Ordered:
    """The body in an order in which every variable is bound before it is used.

    `outside` are the variables used outside the body, which must be bound as well. An equality becomes an
    assignment where it binds. Literals keep their order as far as that allows.
    """
    needed = tuple(outside)
    local = local_variables(body, needed)
    matched = {
        name for literal in body if isinstance(literal, MATCHING) for name in literal_variables(literal)
    }
    waiting, ordered, bound = list(body), list[Literal](), set(local)
    while (ready := _first_ready(waiting, bound, matched)) is not None:
        position, literal = ready
        del waiting[position]
        ordered.append(literal)
        bound.update(
            binding_variables(literal) if isinstance(literal, Metric) else literal_variables(literal)
        )
    return Ordered((*ordered, *waiting), _unbound(waiting, needed, bound))


def bound_by(literal: Literal) -> Iterable[Variable]:
    """The variables that have values once a literal is matched."""
    return binding_variables(literal) if isinstance(literal, Metric) else literal_variables(literal)


def local_variables(body: Iterable[Literal], outside: Iterable[Variable]) -> frozenset[Variable]:
    """The variables that occur in one negation and nowhere else: any value will do for them."""
    homes = Counter(outside)
    negated: set[Variable] = set()
    for literal in body:
        variables = set(literal_variables(literal))
        homes.update(variables)
        if isinstance(literal, Negation | MetricNegation):
            negated |= variables
    return frozenset(variable for variable in negated if homes[variable] == 1)


def _first_ready(
    waiting: Sequence[Literal], bound: Collection[Variable], matched: Collection[Variable]
) -> tuple[int, Literal] | None:
    """The first literal that can be evaluated now, as it is then to be read, with its position."""
    for position, literal in enumerate(waiting):
        ready = _ready(literal, bound, matched)
        if ready is not None:
            return position, ready
    return None


def _ready(literal: Literal, bound: Collection[Variable], matched: Collection[Variable]) -> Literal | None:
    match literal:
        case Atom() | Metric() | Throughout():
            return literal
        case Comparison("=", Variable() as variable, expression) if _binds(
            variable, expression, bound, matched
        ):
            return Assignment(variable, expression)
        case Comparison("=", expression, Variable() as variable) if _binds(
            variable, expression, bound, matched
        ):
            return Assignment(variable, expression)
        case Assignment(_, expression):
            used = variables_of(expression)
        case Negation() | MetricNegation() | Comparison() | Condition():
            used = literal_variables(literal)
    return literal if all(variable in bound for variable in used) else None


def _binds(
    variable: Variable, expression: Expression, bound: Collection[Variable], matched: Collection[Variable]
) -> bool:
    """Whether an equality gives the variable its value; one that atoms match is compared instead."""
    if variable in bound or variable in matched:
        return False
    return all(other in bound for other in variables_of(expression))


def _unbound(
    waiting: Iterable[Literal], needed: Iterable[Variable], bound: Collection[Variable]
) -> tuple[Variable, ...]:
    """The variables that are used but never bound, without those that follow from others of them."""
    waiting = tuple(waiting)
    used = (*needed, *(variable for literal in waiting for variable in literal_variables(literal)))
    missing = dict.fromkeys(variable for variable in used if variable not in bound)
    causes = tuple(variable for variable in missing if not _follows(variable, waiting, missing))
    return causes or tuple(missing)


def _follows(variable: Variable, waiting: Iterable[Literal], missing: Collection[Variable]) -> bool:
    """Whether some equality would bind the variable if other variables were bound."""
    for literal in waiting:
        match literal:
            case Assignment(target) if target == variable:
                return True
            case Comparison("=", left, right):
                sides = (left, right) if left == variable else (right, left)
                others = set(variables_of(sides[1])) - {variable}
                if sides[0] == variable and not others.isdisjoint(missing):
                    return True
    return False
