"""Classes that lie with the engine, too many for this process: those that somebody asks for are fetched.
Mutates itself.

Invariant: a constant that is known here has its whole class here, as the relation of aliases has it.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np

from tidelog.equality.representatives import Classes, Ids
from tidelog.logic.program import Atom, Rule, Term, Variable
from tidelog.maintenance.maintainer import Rows
from tidelog.rewrite.over_representatives import ALIAS

ASKED = "= asked"
ANSWER = "?- aliases"
MEMBER, REPRESENTATIVE = Variable("member"), Variable("representative")


class ClassesElsewhere(Classes):
    """The classes of an engine's relation of aliases."""

    are_elsewhere = True

    def __init__(self, engine: Any) -> None:
        super().__init__()
        self._engine = engine
        self._is_known = np.zeros(0, np.bool_)

    def __bool__(self) -> bool:
        return True

    def representatives(self, ids: Ids) -> Ids:
        """The representative of each constant."""
        self.fetch(ids)
        return super().representatives(ids)

    def class_of(self, representative: int) -> Ids:
        """The members of a class."""
        self.fetch(np.array([representative], np.int32))
        return super().class_of(representative)

    def expand(self, rows: Rows, columns: Iterable[int] | None = None) -> Rows:
        """The rows with every constant of some columns replaced by all members of its class."""
        places = list(range(len(rows.columns)) if columns is None else columns)
        if places:
            self.fetch(np.concatenate([rows.columns[place] for place in places]))
        return super().expand(rows, places)

    def fetch(self, ids: Ids) -> None:
        """Let constants be known, with their classes."""
        self._make_known(np.zeros(0, np.int32), int(np.max(ids, initial=-1)))
        unknown = np.unique(ids[~self._is_known[ids]])
        if not len(unknown):
            return
        aliased, standing = self._aliases(unknown, MEMBER)
        others = unknown[~np.isin(unknown, aliased)]
        representatives = np.unique(np.concatenate((standing, others)))
        members, owners = self._aliases(representatives, REPRESENTATIVE)
        found = np.concatenate((representatives, members))
        self._make_known(found, int(np.max(found)))
        self.assign(members, owners)
        self.begin()  # nothing has moved

    def _make_known(self, ids: Ids, greatest: int) -> None:
        if greatest >= len(self._is_known):
            more = np.zeros(max(greatest + 1, 2 * len(self._is_known)), np.bool_)
            more[: len(self._is_known)] = self._is_known
            self._is_known = more
        self._is_known[ids] = True

    def _aliases(self, ids: Ids, asked: Term) -> tuple[Ids, Ids]:
        """The members and representatives of aliases that have one of the constants on one side."""
        engine = self._engine
        engine.define(ASKED, 1)
        try:
            engine.add(ASKED, (ids,), len(ids))
            engine.begin([ASKED])
            row = (MEMBER, REPRESENTATIVE)
            found, _ = engine.answer(Rule(Atom(ANSWER, row), (Atom(ASKED, (asked,)), Atom(ALIAS, row))))
            members, representatives = found
            return members, representatives
        finally:
            engine.drop(ASKED)

    def at_home(self) -> Classes:
        """All classes, in this process; raises TidelogError if they are too many."""
        (members, representatives), _ = self._engine.resident_rows(ALIAS)
        classes = Classes()
        classes.assign(members, representatives)
        classes.begin()
        return classes
