"""Why facts hold: the proofs of what a query asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from tidelog.errors import Diagnostic, ProgramError
from tidelog.logic.program import (
    Atom,
    Constant,
    Program,
    Query,
    Rule,
    Variable,
)
from tidelog.plan.rule_text import Writing
from tidelog.proof.explanation import Explanation
from tidelog.proof.instances import SCRATCH, Found, Ids, Instances, Rows
from tidelog.proof.node import Node
from tidelog.proof.search import Search
from tidelog.proof.tree import MOST_ROWS, Origin, Trees

DOES_NOT_HOLD = "E655"
ASKED = f"{SCRATCH} asked"  # the relation of the answers that are explained


class Prover:
    """Finds proofs in what is derived. Keeps the plans of rules for the next time."""

    def __init__(self, engine: Any, origin: Origin) -> None:
        self._engine = engine
        self._instances = Instances(engine)
        self._origin = origin

    def explain(
        self,
        query: Query,
        program: Program,
        wanted: int = 1,
        limit: int = 10,
        most_rows: int | None = MOST_ROWS,
        check: Callable[[], None] = lambda: None,
    ) -> Explanation:
        """So many proofs of each of the first answers to a query; everything is derived."""
        self.instances(program)
        columns, count = self._answers(query.rule)
        if not count:
            raise does_not_hold(query)
        answers = [column[:limit] for column in columns]
        proofs: list[Node] = []
        with self._goals(query.rule, answers, min(count, limit)) as (relation, rows):
            for row in rows.tolist():
                proofs += self._prove(Search(self._instances, relation, row, check), wanted, most_rows)
        return Explanation(query.text.strip(), tuple(proofs), Writing.of(program), max(0, count - limit))

    def instances(self, program: Program) -> Instances:
        """What finds instances of the program's rules."""
        self._instances.use(program)
        return self._instances

    def _answers(self, rule: Rule) -> tuple[Sequence[Ids], int]:
        """The answers to a query; a fact is looked up, since a plan would look at all of its predicate."""
        atom = the_atom(rule)
        if atom is not None and not rule.head.terms:
            ids = [self._engine.identity(term.value) for term in atom.terms if isinstance(term, Constant)]
            columns = [np.array([identity], np.int32) for identity in ids]
            return (), int(self._engine.standing(atom.predicate, columns, 1)[0] != 0)
        answers: tuple[Sequence[Ids], int] = self._engine.answer(rule)
        return answers

    @contextmanager
    def _goals(self, rule: Rule, answers: Sequence[Ids], count: int) -> Iterator[tuple[str, Rows]]:
        """The relation and rows of what is to be proved: facts, if the query is an atom, else answers."""
        atom = the_atom(rule)
        if atom is not None:
            variables = (term for term in rule.head.terms if isinstance(term, Variable))
            found = Found(rule, -1, dict(zip(variables, answers, strict=True)), count)
            yield atom.predicate, self._instances.rows(atom, found)
            return
        relation = f"{ASKED} {len(answers)}"
        self._engine.scratch(relation, len(answers))
        try:
            self._engine.add(relation, answers, count)
            self._instances.ask(replace(rule, head=Atom(relation, rule.head.terms)))
            yield relation, np.arange(count)
        finally:
            self._engine.clear(relation)

    def _prove(self, search: Search, wanted: int, most_rows: int | None) -> list[Node]:
        """The lowest proofs of a goal; that it is explicit is the lowest of all."""
        is_stated = search.is_explicit and not search.relation.startswith(ASKED)
        ends = search.run(wanted - is_stated) if wanted > is_stated else []
        trees = Trees(search, self._origin, most_rows)
        proofs = [trees.explicit()] if is_stated else []
        return proofs + [trees.ending_with(instance) for instance in ends]


def the_atom(query: Rule) -> Atom | None:
    """The atom that a query is, if it is one whose facts are told apart by the answers."""
    atom = query.body[0]
    if len(query.body) > 1 or not isinstance(atom, Atom):
        return None
    return (
        atom if all(isinstance(term, Constant) or term in query.head.terms for term in atom.terms) else None
    )


def does_not_hold(query: Query, can_say_why_not: bool = True) -> ProgramError:
    """The error of explaining what is not so."""
    text = query.text.strip()
    what = "does not hold" if not query.variables else "has no answers"
    message = f"`{text}` {what}, so there is nothing to explain"
    help = f"`tidelog explain PROGRAM --why-not '{text}'`, or `reasoner.why_not(…)`, says what is missing"
    return ProgramError(
        Diagnostic(DOES_NOT_HOLD, message, help=help if can_say_why_not and not query.variables else None)
    )
