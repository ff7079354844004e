"""Tests and functions over groups, computed by the engine: they mean what they mean everywhere."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tidelog.errors import Diagnostic, EvaluationError
from tidelog.logic.builtins import Overflow
from tidelog.logic.program import Assignment, Atom, Comparison, Rule, Variable, literal_variables
from tidelog.plan.algebra import Extend, Filter, Node, Part, Project, RulePlan, Scan, Unit
from tidelog.temporal.nodes import Test
from tidelog.temporal.rows import Groups, Index, distinct_rows

GIVEN, FOUND = "rows to test", "rows that pass"  # no predicate has such a name


class Computer:
    """Computes with the engine whose dictionary the ids are of. Mutates it, and leaves nothing behind."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.missing = 0  # rows that were dropped for want of a value

    def __call__(self, tests: Sequence[Test], groups: Groups) -> Groups:
        """The groups that pass the tests, with a column for each variable that is assigned."""
        bound = [test.variable.name for test in tests if isinstance(test, Assignment)]
        new = [name for name in dict.fromkeys(bound) if name not in groups.names]
        used = dict.fromkeys(variable.name for test in tests for variable in literal_variables(test))
        names = [name for name in used if name in groups.names]
        rows = distinct_rows(np.ascontiguousarray(groups.columns[groups.places(names)]))
        found = self._found(tests, names, new, rows)
        if not names:
            numbers = np.arange(len(groups)) if found.shape[1] else np.zeros(0, np.int64)
            places = np.zeros(len(numbers), np.int64)
        else:
            index = Index(range(len(names)))
            index.follow(found, found.shape[1])
            numbers, places = index.matches(found, groups.columns, groups.places(names))
        kept = groups.taken(numbers)
        for place, name in enumerate(new, len(names)):
            kept = kept.extended(name, found[place, places])
        return kept

    def _found(self, tests: Sequence[Test], names: Sequence[str], new: Sequence[str], rows: Any) -> Any:
        """The rows of ids that pass, with the columns that are computed."""
        engine = self.engine
        given = tuple(Variable(name) for name in names)
        terms = tuple(Variable(name) for name in (*names, *new))
        known = set(names)
        node: Node = Scan(GIVEN, Part.ALL, given) if given else Unit()
        pivot = node
        for test in tests:
            if not isinstance(test, Assignment):
                node = Filter(node, test)
            elif test.variable.name not in known:
                node = Extend(node, test.variable, test.expression)
                known.add(test.variable.name)
            else:
                check = Variable(f"{test.variable.name} again")
                node = Extend(node, check, test.expression)
                node = Filter(node, Comparison("=", test.variable, check))
        engine.define(GIVEN, len(given))
        engine.define(FOUND, len(terms))
        try:
            engine.add(GIVEN, list(rows), rows.shape[1] if given else 1)
            engine.begin([GIVEN, FOUND])
            assert isinstance(pivot, Scan | Unit)
            plan = RulePlan(FOUND, Project(node, terms), Rule(Atom(FOUND, terms), ()), 0, pivot)
            self.missing += engine.prepare(plan)().no_value
            columns, count = engine.rows(FOUND)
            return np.array(columns, np.int32).reshape(len(terms), count)
        except Overflow as overflow:
            raise EvaluationError(Diagnostic(overflow.code, str(overflow))) from None
        finally:
            engine.drop(GIVEN)
            engine.drop(FOUND)
