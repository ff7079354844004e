"""Equality over Python sets: equals replaced by equals, the plain way. Changes the store it is given.

It knows nothing of axioms or representatives: the classes are found by joining sets of values, and each row
gives a row for each combination of members.
"""

from __future__ import annotations

from itertools import combinations, product

from tidelog.errors import Diagnostic, Inconsistent
from tidelog.logic.program import DIFFERENT, EQUAL
from tidelog.logic.terms import exact
from tidelog.logic.values import Kind, Value

Row = tuple[Value, ...]
Classes = dict[Value, frozenset[Value]]
UNEQUAL = "E605"


def replaced(store: dict[str, set[Row]], unique_names: bool) -> None:
    """Close a store under equality, or raise Inconsistent."""
    classes = _classes(store.setdefault(EQUAL, set()))
    _check(classes, store.get(DIFFERENT, set()), unique_names)
    for name, rows in store.items():
        store[name] = {made for row in rows for made in product(*(_members(classes, value) for value in row))}
    store[EQUAL] |= {pair for members in classes.values() for pair in product(members, members)}


def _members(classes: Classes, value: Value) -> frozenset[Value]:
    return classes.get(value, frozenset([value]))


def _classes(pairs: set[Row]) -> Classes:
    """The class of each constant that equals something."""
    classes: Classes = {}
    for left, right in pairs:
        together = _members(classes, left) | _members(classes, right)
        classes.update(dict.fromkeys(together, together))
    return classes


def _check(classes: Classes, different: set[Row], unique_names: bool) -> None:
    """Nothing, unless constants are equal that must not be."""
    pairs = [pair for pair in different if pair[1] in _members(classes, pair[0])]
    for members in set(classes.values()):
        pairs += combinations([each for each in members if each.kind not in (Kind.IRI, Kind.BLANK)], 2)
        if unique_names:
            pairs += combinations([each for each in members if each.kind is Kind.IRI], 2)
    if pairs:
        left, right = (exact(value) for value in pairs[0])
        raise Inconsistent(Diagnostic(UNEQUAL, f"inconsistent: {left} = {right}"))
