"""The value of an expression, one binding of its variables at a time."""

from __future__ import annotations

from collections.abc import Mapping

from tidelog.logic import builtins
from tidelog.logic.program import Apply, Comparison, Condition, Constant, Expression, Variable
from tidelog.logic.values import FALSE, TRUE, Value


def evaluate(expression: Expression, binding: Mapping[Variable, Value]) -> Value | None:
    """The expression's value, None if it has none; raises Overflow where arithmetic leaves 64 bits."""
    match expression:
        case Constant(value):
            return value
        case Variable():
            return binding[expression]
        case Apply(name, arguments):
            function = builtins.lookup(name)
            assert function is not None, f"{name} is built in"
            return function.call([evaluate(argument, binding) for argument in arguments])


def holds(test: Comparison | Condition, binding: Mapping[Variable, Value]) -> bool | None:
    """Whether the test holds; None if what it asks for has no value, in which case it fails."""
    match test:
        case Comparison(operator, left, right):
            value = evaluate(Apply(operator, (left, right)), binding)
            wanted = TRUE
        case Condition(expression, negated):
            value = evaluate(expression, binding)
            wanted = FALSE if negated else TRUE
    return None if value is None else value == wanted
