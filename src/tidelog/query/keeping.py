"""Keeping queries: they come and go, and bindings are added, in transactions of their own. Mutates the
engine.

Nobody is told of these transactions: no fact of the program changes in them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Protocol

import numpy as np

from tidelog.engine.maintaining import Flag
from tidelog.errors import Diagnostic, ProgramError
from tidelog.logic.program import Atom, Literal, Program, Query, Rule, Variable
from tidelog.logic.values import ColumnType
from tidelog.maintenance.maintainer import Update
from tidelog.maintenance.row_sets import Rows
from tidelog.query.kept_queries import Asked, Demands, Step
from tidelog.query.strategy import Answers

NOT_KEPT = "E653"
ASKED = "?- asked"  # holds the binding that is asked for now
Row = tuple[int, ...]


def no_longer_kept() -> ProgramError:
    """That a query was kept once."""
    message = "the query is no longer kept"
    return ProgramError(Diagnostic(NOT_KEPT, message, help="prepare it, or watch it, again"))


class Keeper(Protocol):
    """What keeps queries, as those see it who have asked them."""

    engine: Any

    def forget(self, asked: Asked) -> None:
        """Let a query go; nothing the second time."""

    def check(self, asked: Asked) -> None:
        """Nothing, if the query is kept; else raises ProgramError."""

    def encode(self, values: Sequence[object]) -> Row:
        """The ids of the values of parameters."""

    def answer(self, asked: Asked, row: Row) -> Answers:
        """The answers for a binding of parameters."""

    def rows(self, asked: Asked) -> Answers:
        """The answers of a live query."""


class Keeping:
    """What kept queries need of a reasoner.

    `carry_out` lets a step be maintained, all of it or none; `program` gives the program as it is now.
    """

    def __init__(
        self,
        engine: Any,
        demands: Demands,
        carry_out: Callable[[Step], None],
        program: Callable[[], Program],
    ) -> None:
        self.engine = engine
        self.demands = demands
        self._carry_out = carry_out
        self._program = program

    def keep(self, query: Query, parameters: tuple[Variable, ...] = ()) -> Asked:
        """Let the answers to a query be kept."""
        asked = Asked(self.demands.name_for(len(query.rule.head.terms)), query, parameters)
        step = self.demands.asking(asked, self._program())
        self._carry_out(step)
        self.demands.adopt(step, asked)
        return asked

    def forget(self, asked: Asked) -> None:
        """Let the answers to a query be kept no longer, nor what only it needed; nothing the second time."""
        if self.demands.find(asked.name) is not asked:
            return
        step = self.demands.forgetting(asked, self._program())
        self._carry_out(step)
        self.demands.adopt(step, asked, forgotten=True)

    def check(self, asked: Asked) -> None:
        """Nothing, if the query is kept; else raises ProgramError."""
        if self.demands.find(asked.name) is not asked:
            raise no_longer_kept()

    def rows(self, asked: Asked) -> Answers:
        """The answers of a live query."""
        self._program()  # a fault may have left something to be mended
        answers: Answers = self.engine.rows(asked.name)
        return answers

    def encode(self, values: Sequence[object]) -> Row:
        """The ids of the values of parameters."""
        encode = self.engine.dictionary.encode_python
        return tuple(encode(value, ColumnType.ANY) for value in values)

    def answer(self, asked: Asked, row: Row) -> Answers:
        """The answers for a binding, which is asked for if it was not before."""
        self.check(asked)
        self._program()
        if not asked.parameters:
            answers: Answers = self.engine.rows(asked.name)
            return answers
        rows = Rows(tuple(np.array([each], np.int32) for each in row), 1)
        body = asked.query.rule.body
        if asked.bindings in self.demands.kept.arities:
            rows = self._bound(asked, rows)
            body = (Atom(asked.name, (*asked.parameters, *asked.variables)),)
        return self._match(rows, Atom(ASKED, asked.parameters), body, asked.variables)

    def _bound(self, asked: Asked, rows: Rows) -> Rows:
        """A binding with the same answers that is asked for: by now, if it was not before."""
        if self.engine.standing(asked.bindings, rows.columns, rows.count)[0] & Flag.ALIVE:
            return rows
        if asked.backward in self.demands.kept.arities and self.engine.size(asked.backward):
            (other,), (found,) = asked.variables, asked.parameters
            body = tuple(Atom(name, (found, other)) for name in (asked.name, asked.backward))
            columns, count = self._match(rows, Atom(ASKED, (other,)), body, (found,))
            if count:
                return Rows(tuple(column[:1] for column in columns), 1)
        program = self._program()
        self._carry_out(self.demands.step(Update({}, {asked.bindings: rows}), program, program))
        return rows

    def _match(
        self, rows: Rows, given: Atom, body: tuple[Literal, ...], variables: tuple[Variable, ...]
    ) -> Answers:
        """The values of variables for which a body holds, together with a given fact."""
        self.engine.define(ASKED, len(given.terms))
        try:
            self.engine.add(ASKED, rows.columns, 1)
            self.engine.begin([ASKED])
            answers: Answers = self.engine.answer(Rule(Atom(ASKED, variables), (given, *body)))
        finally:
            self.engine.drop(ASKED)
        return answers
