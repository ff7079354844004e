"""Heads: the terms of a rule's head, with what they group, aggregate and assign.

The terms without an aggregate form the group, by value. A term that holds aggregates is computed from them
per group; the variables that stand in it outside the aggregates belong to the group too.
"""

from __future__ import annotations

from tidelog.logic.expressions import Expressions, Place
from tidelog.logic.program import Aggregation, Apply, Assignment, Expression, Term, Variable, variables_of
from tidelog.syntax import ast


class Head:
    """The terms of one head, and what they need: mutable while the arguments are added."""

    def __init__(self, expressions: Expressions) -> None:
        self.expressions = expressions
        self.aggregations: list[Aggregation] = []
        self.assigned: list[Assignment] = []
        expressions.aggregations, expressions.assigned = self.aggregations, self.assigned
        self.terms: list[Term] = []
        self.group: list[Variable] = []
        self.after: list[Assignment] = []

    def add(self, argument: ast.Expression) -> None:
        """Add the next argument."""
        earlier = len(self.aggregations)
        expression = self.expressions.expression(argument, Place.HEAD)
        if len(self.aggregations) > earlier:
            self._add_aggregated(expression)
            return
        if isinstance(expression, Apply):
            variable = self.expressions.fresh()
            self.assigned.append(Assignment(variable, expression))
            expression = variable
        self.terms.append(expression)
        self.group.extend(variables_of(expression))

    def _add_aggregated(self, expression: Expression) -> None:
        """Add a term that holds aggregates: its other variables belong to the group."""
        aggregated = {aggregation.variable for aggregation in self.aggregations}
        self.group.extend(variable for variable in variables_of(expression) if variable not in aggregated)
        if isinstance(expression, Apply):
            variable = self.expressions.fresh()
            self.after.append(Assignment(variable, expression))
            expression = variable
        self.terms.append(expression)

    @property
    def needed(self) -> tuple[Variable, ...]:
        """The variables that the body must bind."""
        arguments = (term for aggregation in self.aggregations for term in aggregation.arguments)
        return tuple(
            dict.fromkeys((*self.group, *(term for term in arguments if isinstance(term, Variable))))
        )
