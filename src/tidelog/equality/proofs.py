"""What is left of classes in doubt: members that explicit facts still make equal, at one step.

Before a class in doubt is divided, the rules of equality are asked what they find in the explicit facts
alone. Constants that hang together by that stay together, so that a large class loses what has gone, and is
not taken apart. Keys may be equal by classes that are not in doubt; whatever else a proof may need is not
looked at.

Invariant: the constants of each part are equal by explicit facts that stay, and by classes without doubt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain, count
from typing import Any

import numpy as np

from tidelog.equality.representatives import NONE, Classes, Ids
from tidelog.equality.scratch import GIVEN, Scratch, Sought
from tidelog.equality.together import Together
from tidelog.equality.unmerged import Pairs, neighbours
from tidelog.logic.program import EQUAL, Atom, Literal, Negation, Program, Rule, Term, Variable
from tidelog.maintenance.row_sets import Rows
from tidelog.rewrite.equal_groups import group_of

MEMBERS = "= members"
GONE = "gone"
LEFT, RIGHT = Variable("x"), Variable("y")
STATED = Rule(Atom(EQUAL, (LEFT, RIGHT)), (Atom(EQUAL, (LEFT, RIGHT)),))


class Proofs:
    """What explicit facts make equal at one step, by the rules of a program as it is said."""

    def __init__(self, program: Program, engine: Any) -> None:
        self._engine = engine
        self._numbers = count()
        rules = [STATED, *(rule for rule in program.rules if rule.head.predicate == EQUAL)]
        atoms = chain.from_iterable(rule.positive for rule in rules)
        self._scratch = Scratch(
            "to part", engine, {MEMBERS: 1, **{each.predicate: len(each.terms) for each in atoms}}
        )
        found = (self._looking(rule) for rule in rules)
        self._steps = [step for step in found if step is not None]
        given = [self._scratch.relation(GIVEN, MEMBERS)]
        self._together = Together([sought.rule for sought, _ in self._steps], given, engine)

    def parts(self, doubted: Ids, removed: Mapping[str, Rows], classes: Classes) -> tuple[Ids, Ids]:
        """The members of classes in doubt, and the representatives that they have in what is left of them.

        `removed` are the explicit facts that go, which have not gone yet.
        """
        members = np.sort(classes.members_of(doubted))
        given = self._scratch.relation(GIVEN, MEMBERS)
        gone = {
            self._scratch.relation(GONE, name): removed[name]
            for name in removed
            if name in self._scratch.arities
        }
        try:
            self._scratch.fill({given: Rows((members,), len(members)), **gone})
            self._engine.show(gone)
            self._together.run()
            found = [self._pairs(sought, is_group, classes, doubted) for sought, is_group in self._steps]
            return members, classes.parts(members, *_joined(found))
        finally:
            self._scratch.empty()

    def drop(self) -> None:
        """Forget what is kept from one update to the next."""
        self._scratch.drop()

    def _looking(self, rule: Rule) -> tuple[Sought, bool] | None:
        """How pairs are looked for that a rule makes equal, or groups; one of a pair is a member."""
        group = group_of(rule)
        if group is not None:
            return self._among_members((*group.key, group.constant), group.constant, group.body), True
        variable = next((term for term in rule.head.terms if isinstance(term, Variable)), None)
        if variable is None:
            return None
        return self._among_members(rule.head.terms, variable, rule.body), False

    def _among_members(self, row: Sequence[Term], constant: Variable, body: Sequence[Literal]) -> Sought:
        """The rows whose constant is a member, without facts that go."""
        members = self._scratch.atom(GIVEN, Atom(MEMBERS, (constant,)))
        atoms = (literal for literal in body if isinstance(literal, Atom))
        staying = (Negation(self._scratch.atom(GONE, atom)) for atom in atoms)
        apart = f" {next(self._numbers)}"
        return Sought(row, (members, *body, *staying), self._scratch, apart)

    def _pairs(self, sought: Sought, is_group: bool, classes: Classes, doubted: Ids) -> Pairs:
        """The pairs that are equal; keys may be equal by classes that are not in doubt."""
        rows = sought.found()
        if not is_group:
            left, right = rows.columns
            return left, right
        if rows.count < 2:
            return NONE, NONE
        keys = (_without_doubt(column, classes, doubted) for column in rows.columns[:-1])
        return neighbours(Rows((*keys, rows.columns[-1]), rows.count))


def _without_doubt(column: Ids, classes: Classes, doubted: Ids) -> Ids:
    """Constants by their representatives, unless their class is in doubt; these are in order."""
    own = classes.representatives(column)
    places = np.minimum(np.searchsorted(doubted, own), len(doubted) - 1)
    return np.where(doubted[places] == own, column, own)


def _joined(found: Sequence[Pairs]) -> Pairs:
    """All pairs."""
    some = [pairs for pairs in found if len(pairs[0])]
    if len(some) == 1:
        return some[0]
    left, right = (np.concatenate((NONE, *(pairs[side] for pairs in some))) for side in (0, 1))
    return left, right
