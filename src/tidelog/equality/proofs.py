"""What is left of classes in doubt: members that explicit facts still make equal, at one step.

Before a class in doubt is divided, the rules of equality are asked what they find in the explicit facts
alone. Constants that hang together by that stay together, so that a large class loses what has gone, and is
not taken apart. Keys may be equal by classes that are not in doubt; whatever else a proof may need is not
looked at.

Invariant: the constants of each part are equal by explicit facts that stay, and by classes without doubt.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np

from tidelog.equality.representatives import Classes, Ids, components
from tidelog.equality.unmerged import Pairs, neighbours
from tidelog.logic.program import EQUAL, Atom, Literal, Negation, Program, Rule, Variable
from tidelog.logic.safety import order
from tidelog.maintenance.maintainer import Rows
from tidelog.rewrite.equal_groups import group_of

MEMBERS = "= members"
ANSWER = "?- equal"
LEFT, RIGHT = Variable("x"), Variable("y")


def parts(
    doubted: Sequence[int], program: Program, removed: Mapping[str, Rows], engine: Any, classes: Classes
) -> tuple[Ids, Ids]:
    """The members of classes in doubt, and the representatives that they have in what is left of them.

    `program` is the program as it is said, after the update; `removed` are the explicit facts that go.
    """
    members = np.unique(np.concatenate([classes.class_of(each) for each in doubted]))
    names = {MEMBERS: Rows((members,), len(members)), **{_gone(name): rows for name, rows in removed.items()}}
    try:
        for name, rows in names.items():
            engine.define(name, len(rows.columns))
            engine.add(name, rows.columns, rows.count)
        engine.begin(list(names))
        found = list(_proved(program, removed, engine, classes, np.array(sorted(doubted), np.int32)))
    finally:
        for name in names:
            engine.drop(name)
    return members, _representatives(members, found, classes)


def _gone(relation: str) -> str:
    return f"{relation} gone"


def _proved(
    program: Program, removed: Mapping[str, Rows], engine: Any, classes: Classes, doubted: Ids
) -> Iterator[Pairs]:
    """Pairs of constants that a rule makes equal, one of them a member of a class in doubt."""
    stated = Rule(Atom(EQUAL, (LEFT, RIGHT)), (Atom(EQUAL, (LEFT, RIGHT)),))
    for rule in (stated, *(each for each in program.rules if each.head.predicate == EQUAL)):
        if not all(engine.size(atom.predicate) for atom in rule.positive):
            continue
        group = group_of(rule)
        if group is None:
            yield from _pairs(rule, removed, engine)
            continue
        row = (*group.key, group.constant)
        columns, count = engine.answer(_among_members(row, group.constant, group.body, removed))
        keys = tuple(_without_doubt(column, classes, doubted) for column in columns[:-1])
        yield neighbours(Rows((*keys, columns[-1]), count))


def _pairs(rule: Rule, removed: Mapping[str, Rows], engine: Any) -> Iterator[Pairs]:
    """The heads of a rule's instances over explicit facts."""
    variable = next((term for term in rule.head.terms if isinstance(term, Variable)), None)
    if variable is not None:
        (left, right), _ = engine.answer(_among_members(rule.head.terms, variable, rule.body, removed))
        yield left, right


def _among_members(
    row: Sequence[Any], constant: Variable, body: Sequence[Literal], removed: Mapping[str, Rows]
) -> Rule:
    """The rule that finds rows whose constant is a member, without facts that go."""
    atoms = [literal for literal in body if isinstance(literal, Atom) and literal.predicate in removed]
    gone = (Negation(Atom(_gone(atom.predicate), atom.terms)) for atom in atoms)
    literals = (Atom(MEMBERS, (constant,)), *body, *gone)
    return Rule(
        Atom(ANSWER, tuple(row)), order(literals, [each for each in row if isinstance(each, Variable)]).body
    )


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
