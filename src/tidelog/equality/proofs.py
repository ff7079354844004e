"""What is left of classes in doubt: members that explicit facts still make equal, at one step.

Before a class in doubt is divided, the rules of equality are asked what they find in the explicit facts
alone. Constants that hang together by that stay together, so that a large class loses what has gone, and is
not taken apart. Keys may be equal by classes that are not in doubt; whatever else a proof may need is not
looked at.

Invariant: the constants of each part are equal by explicit facts that stay, and by classes without doubt.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from itertools import chain
from typing import Any

import numpy as np

from tidelog.equality.representatives import Classes, Ids, components
from tidelog.equality.scratch import GIVEN, Scratch, Sought
from tidelog.equality.unmerged import Pairs, neighbours
from tidelog.logic.program import EQUAL, Atom, Literal, Negation, Program, Rule, Term, Variable
from tidelog.maintenance.maintainer import Check, Rows
from tidelog.rewrite.equal_groups import group_of

MEMBERS = "= members"
GONE = "gone"
LEFT, RIGHT = Variable("x"), Variable("y")
STATED = Rule(Atom(EQUAL, (LEFT, RIGHT)), (Atom(EQUAL, (LEFT, RIGHT)),))


class Proofs:
    """What explicit facts make equal at one step, by the rules of a program as it is said."""

    def __init__(self, program: Program, engine: Any, check: Check) -> None:
        self._check = check
        rules = [STATED, *(rule for rule in program.rules if rule.head.predicate == EQUAL)]
        atoms = chain.from_iterable(rule.positive for rule in rules)
        self._scratch = Scratch(
            "to part", engine, {MEMBERS: 1, **{each.predicate: len(each.terms) for each in atoms}}
        )
        found = (self._looking(rule) for rule in rules)
        self._steps = [step for step in found if step is not None]

    def parts(self, doubted: Ids, removed: Mapping[str, Rows], classes: Classes) -> tuple[Ids, Ids]:
        """The members of classes in doubt, and the representatives that they have in what is left of them.

        `removed` are the explicit facts that go, which have not gone yet.
        """
        members = np.sort(classes.members_of(doubted))
        try:
            self._scratch.give(GIVEN, MEMBERS, Rows((members,), len(members)))
            self._scratch.add(
                GONE, {name: removed[name] for name in removed if name in self._scratch.arities}
            )
            found = [self._pairs(sought, is_group, classes, doubted) for sought, is_group in self._steps]
        finally:
            self._scratch.empty()
        return members, _representatives(members, found, classes)

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
        return Sought(row, (members, *body, *staying), self._scratch)

    def _pairs(self, sought: Sought, is_group: bool, classes: Classes, doubted: Ids) -> Pairs:
        """The pairs that are equal; keys may be equal by classes that are not in doubt."""
        rows = sought.rows(self._check)
        if not is_group:
            left, right = rows.columns
            return left, right
        keys = (_without_doubt(column, classes, doubted) for column in rows.columns[:-1])
        return neighbours(Rows((*keys, rows.columns[-1]), rows.count))


def _without_doubt(column: Ids, classes: Classes, doubted: Ids) -> Ids:
    """Constants by their representatives, unless their class is in doubt."""
    own = classes.representatives(column)
    return np.where(np.isin(own, doubted), column, own)


def _representatives(members: Ids, found: Sequence[Pairs], classes: Classes) -> Ids:
    """The representative of the part that each member belongs to: the one it had, if that is in it."""
    left = np.concatenate([np.zeros(0, np.int32), *(pair[0] for pair in found)])
    right = np.concatenate([np.zeros(0, np.int32), *(pair[1] for pair in found)])
    known = np.isin(left, members) & np.isin(right, members)
    places = (np.searchsorted(members, side[known]) for side in (left, right))
    labels = components(len(members), *places)
    standing = np.arange(len(members))  # the place of the representative of the part with this label
    is_own = classes.representatives(members) == members
    standing[labels[is_own]] = np.flatnonzero(is_own)
    return members[standing[labels]]
