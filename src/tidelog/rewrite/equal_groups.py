"""Rules that make everything equal that shares a key, such as those of functional properties.

`?x = ?y :- passport(?x, ?n), passport(?y, ?n)` finds n² equalities among n holders of one passport; n - 1
would do. Its body consists of two halves that differ in names only, and of what they share. One half gives
a relation of *groups*, of keys and constants: all constants with one key are equal, which whoever merges
classes sees without a pair for every two of them.

Invariant: the rule derives an equality between two constants just if they are in a group with one key.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from tidelog.logic.program import EQUAL, Atom, Constant, Rule, Term, Variable


@dataclass(frozen=True, slots=True)
class Group:
    """The key and the constant of a rule's groups, and the body that gives them."""

    key: tuple[Variable, ...]
    constant: Variable
    body: tuple[Atom, ...]


def group_of(rule: Rule) -> Group | None:
    """The group of a rule that equates what shares a key, else None.

    >>> from tidelog.logic.resolve import resolve
    >>> from tidelog.syntax.parser import parse_text
    >>> [rule] = resolve(parse_text("?x = ?y :- owner(?c, ?x), owner(?c, ?y), car(?c) .")).rules
    >>> group = group_of(rule)
    >>> [variable.name for variable in group.key], group.constant.name, len(group.body)
    (['c'], 'x', 2)
    """
    if rule.head.predicate != EQUAL or len(rule.positive) < len(rule.body):
        return None
    match rule.head.terms:
        case (Variable() as first, Variable() as second) if first != second:
            return _group(first, second, rule.positive)
    return None


def _group(first: Variable, second: Variable, atoms: tuple[Atom, ...]) -> Group | None:
    """The group of a body, if it has two halves, of the first variable and of the second one."""
    names: dict[Term, Term] = {first: second}
    left = list(atoms)
    half: list[Atom] = []
    while (
        atom := next((each for each in left if not names.keys().isdisjoint(each.terms)), None)
    ) is not None:
        left.remove(atom)
        other = next((each for each in left if _renamed(atom, each, names) is not None), None)
        if other is None:
            return None
        names = _renamed(atom, other, names) or names
        left.remove(other)
        half.append(atom)
    body = (*half, *left)
    private = names.keys() | set(names.values())
    shared = [term for term in _variables(body) if term not in private]
    is_apart = names.keys().isdisjoint(names.values()) and private.isdisjoint(_variables(left))
    if not half or not is_apart or len(set(names.values())) < len(names):
        return None
    return Group(tuple(dict.fromkeys(shared)), first, body)


def _variables(atoms: Iterable[Atom]) -> list[Variable]:
    return [term for atom in atoms for term in atom.terms if isinstance(term, Variable)]


def _renamed(atom: Atom, other: Atom, names: dict[Term, Term]) -> dict[Term, Term] | None:
    """The names by which an atom becomes the other one, added to those given; None if there are none."""
    if atom.predicate != other.predicate or len(atom.terms) != len(other.terms):
        return None
    found = dict(names)
    for term, wanted in zip(atom.terms, other.terms, strict=True):
        if term in found or (term != wanted and isinstance(term, Variable)):
            if found.setdefault(term, wanted) != wanted or isinstance(wanted, Constant):
                return None
        elif term != wanted:
            return None
    return found
