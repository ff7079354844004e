"""Which explicit facts a stored fact stands for, found without expanding all its arguments.

The members of one argument's class lead to explicit facts that mention them there; those that have the right
representatives in the other places are it. Of all arguments the one is taken by which the fewest explicit
facts are expected; a constant that stands for itself is the only member of its class.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping

import numpy as np

from tidelog.equality.representatives import NONE, Classes
from tidelog.equality.scratch import CHECKED, GIVEN, Scratch, Sought
from tidelog.logic.program import Atom, Variable
from tidelog.maintenance.maintainer import Check
from tidelog.maintenance.row_sets import Rows, distinct, taken, without

CONSTANTS = "= constants"  # stands for a relation of one column


class Origins:
    """The explicit facts by what stands for them; `said` are the predicates by their stored relations."""

    def __init__(self, said: Mapping[str, str], scratch: Scratch, check: Check) -> None:
        self._said = said
        self._scratch = scratch
        self._engine = scratch.engine
        self._check = check
        scratch.define(GIVEN, CONSTANTS, 1)
        self._sought: dict[tuple[str, int], Sought] = {}

    def explicit(self, name: str, rows: Rows, classes: Classes, removed: Mapping[str, Rows]) -> Rows:
        """The explicit facts, not to be removed, that checked rows of a stored relation stand for."""
        predicate = self._said.get(name)
        if predicate is None or not self._engine.size(predicate):
            return Rows((NONE,) * len(rows.columns), 0)
        found = distinct([self._themselves(predicate, rows), *self._of_classes(name, rows, classes)])
        gone = removed.get(predicate)
        return found if gone is None else without(found, gone)

    def _themselves(self, predicate: str, rows: Rows) -> Rows:
        """Those of the rows that are explicit as they are."""
        return taken(rows, self._engine.standing(predicate, rows.columns, rows.count) != 0)

    def _of_classes(self, name: str, rows: Rows, classes: Classes) -> Iterator[Rows]:
        """The explicit facts that rows with classes of several members stand for."""
        sizes = np.array([classes.sizes(column) for column in rows.columns], np.int64)
        several = (sizes > 1).any(axis=0) if len(sizes) else np.zeros(rows.count, np.bool_)
        if not several.any():
            return
        predicate = self._said[name]
        total = self._engine.size(predicate)
        mentions = [total / self._engine.distinct(predicate, place) for place in range(len(sizes))]
        chosen = (sizes * np.array(mentions)[:, None]).argmin(axis=0)
        for place in np.unique(chosen[several]).tolist():
            owners = rows.columns[place][several & (chosen == place)]
            members = classes.members_of(owners)
            self._scratch.give(GIVEN, CONSTANTS, Rows((members,), len(members)))
            found = self._mentioning(predicate, place, len(sizes)).rows(self._check)
            yield taken(found, self._scratch.has(CHECKED, name, classes.normalise(found)))

    def _mentioning(self, predicate: str, place: int, arity: int) -> Sought:
        """The explicit facts that have one of the given constants in a place."""
        known = self._sought.get((predicate, place))
        if known is None:
            terms = tuple(Variable(f"x{number}") for number in range(arity))
            given = self._scratch.atom(GIVEN, Atom(CONSTANTS, (terms[place],)))
            known = Sought(terms, (given, Atom(predicate, terms)), self._scratch)
            self._sought[predicate, place] = known
        return known
