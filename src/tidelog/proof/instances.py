"""Instances of rules, found from their heads by plans that given facts bind. Mutates the engine's scratch.

An instance is a binding of the rule's variables under which the body is true now. What plans find goes into a
relation of scratch paper, one for each number of variables, which is empty again afterwards.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tidelog.engine.columnar.transactions.change_runner import RowSet
from tidelog.engine.maintaining import Effect, Flag, Where
from tidelog.logic.program import Atom, Constant, Program, Rule, Variable, literal_variables
from tidelog.plan.change_plans import Changes
from tidelog.plan.join_order import negated_only_variables

Ids = npt.NDArray[np.int32]
Rows = npt.NDArray[np.int64]

NOT_EXPLAINED = "E656"
SCRATCH = "why"  # the names of scratch relations begin so; with a space in them they are no predicates'
FOUND = Effect(Where(Flag.ALIVE, Flag.NONE), Flag.ALIVE, create=True)


@dataclass(frozen=True, slots=True)
class Found:
    """Instances of one rule: a column of ids for each variable."""

    rule: Rule
    number: int
    columns: Mapping[Variable, Ids]
    count: int


class Instances:
    """Finds the instances of rules; plans are kept for as long as the rules are."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self._rules: dict[str, list[tuple[Rule, int]]] = {}
        self._of: Sequence[Rule] = ()
        self._plans: dict[Rule, Any] = {}

    def use(self, program: Program) -> None:
        """Let the rules be those of a program by which what holds always is derived."""
        if program.rules is self._of:
            return
        self._of = program.rules
        self._plans = {}
        self._rules = {}
        for number, rule in enumerate(program.rules):
            if rule.head.predicate not in program.timed:
                self._rules.setdefault(rule.head.predicate, []).append((rule, number))

    def ask(self, query: Rule) -> None:
        """Let a query be the rule that derives its head, which is no predicate of the program."""
        former = self._rules.get(query.head.predicate, [])
        for rule, _ in former:
            self._plans.pop(rule, None)
        self._rules[query.head.predicate] = [(query, -1)]

    def rules_of(self, predicate: str) -> Sequence[tuple[Rule, int]]:
        """The rules that derive a predicate, and their numbers."""
        return self._rules.get(predicate, ())

    def find(self, rule: Rule, number: int, rows: Rows) -> Found:
        """All instances of a rule whose heads are the given rows of the head's relation."""
        engine = self.engine
        variables = variables_of_rule(rule)
        scratch = f"{SCRATCH} {len(variables)}"
        for relation in {atom.predicate for atom in (rule.head, *rule.positive, *rule.negated)}:
            engine.table(relation).complete()
        engine.scratch(scratch, len(variables))
        plan = self._plans.get(rule)
        if plan is None:
            plan = engine.prepare_change(Changes(rule, number, (), engine).instances(scratch, variables))
            self._plans[rule] = plan
        try:
            engine.run([plan], RowSet({rule.head.predicate: rows}), FOUND)
            columns, count = engine.rows(scratch)
            copied = {name: column.copy() for name, column in zip(variables, columns, strict=True)}
        finally:
            engine.clear(scratch)
        return Found(rule, number, copied, count)

    def rows(self, atom: Atom, found: Found) -> Rows:
        """The rows of the facts that an atom is in each instance."""
        columns = [self._column(term, found) for term in atom.terms]
        rows: Rows = self.engine.table(atom.predicate).find(columns, found.count)
        return rows

    def _column(self, term: Variable | Constant, found: Found) -> Ids:
        if isinstance(term, Variable):
            return found.columns[term]
        return np.full(found.count, self.engine.identity(term.value), np.int32)


def variables_of_rule(rule: Rule) -> tuple[Variable, ...]:
    """The variables that an instance of a rule binds: the head's, then the body's."""
    wild = negated_only_variables(rule.body)
    body = (variable for literal in rule.body for variable in literal_variables(literal))
    head = (term for term in rule.head.terms if isinstance(term, Variable))
    return tuple(variable for variable in dict.fromkeys((*head, *body)) if variable not in wild)
