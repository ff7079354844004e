"""Answers over representatives: facts and queries as members see them, or one row for each class."""

from __future__ import annotations

from typing import Any

from tidelog.equality.representatives import Classes, Ids
from tidelog.logic.program import BOTTOM, Atom, Negation, Query, Rule, Variable, literal_variables
from tidelog.logic.safety import order
from tidelog.logic.values import order_key
from tidelog.maintenance.row_sets import Rows, distinct
from tidelog.rewrite.over_representatives import Constants, Reading, stored, subsets

EXPAND, REPRESENTATIVE = "expand", "representative"
SHOWN = (EXPAND, REPRESENTATIVE)


def facts(engine: Any, classes: Classes, predicate: str, shown: str) -> Rows:
    """All facts of a predicate."""
    rows = Rows(*engine.rows(stored(predicate)))
    if predicate == BOTTOM:
        return rows
    return classes.expand(rows) if shown == EXPAND else smallest(engine, classes, rows)


def answers(engine: Any, classes: Classes, query: Query, constants: Constants, shown: str) -> Rows:
    """The rows of a query's head; the constants of its atoms are given by their representatives."""
    rule = query.rule
    asked = tuple(term for term in rule.head.terms if isinstance(term, Variable))
    tests = [literal for literal in rule.body if not isinstance(literal, Atom | Negation)]
    tested = {variable for literal in tests for variable in literal_variables(literal)}
    reading = Reading(rule.body, constants, [variable for variable in asked if variable in tested])
    parts = []
    for others in subsets(reading.seen):
        row = tuple(reading.member(variable, others) for variable in asked)
        for body in reading.bodies(others):
            made = Rule(Atom(rule.head.predicate, row), order(body, row).body, span=rule.span)
            parts.append(Rows(*engine.answer(made)))
    if shown == REPRESENTATIVE:
        return smallest(engine, classes, distinct([classes.normalise(part) for part in parts]))
    unseen = [place for place, variable in enumerate(asked) if _is_class(variable, reading)]
    return distinct([classes.expand(part, unseen) for part in parts])


def _is_class(variable: Variable, reading: Reading) -> bool:
    """Whether a variable stands for a whole class, not for the member that some test has seen."""
    return variable in reading.matched and variable not in reading.seen


def smallest(engine: Any, classes: Classes, rows: Rows) -> Rows:
    """The rows over representatives with the smallest member of each class for it."""
    decode = engine.dictionary.decode

    def shown(column: Ids) -> Ids:
        return classes.smallest(column, lambda identity: order_key(decode(identity)))

    return Rows(tuple(map(shown, rows.columns)), rows.count)
