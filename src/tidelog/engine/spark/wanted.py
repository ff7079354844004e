"""What a plan that passes on changes looks up, and by which columns: so that it can be fetched beforehand.

A plan that is driven by given facts looks each further relation up by the columns that are bound by then, and
its heads by all of them. For each look-up there is a plan that finds the keys: the part of the plan before
it, with the bound terms for a head. Once the facts of all keys are there, the plan finds in them what it
would find in the whole relation.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import dataclass, replace
from functools import lru_cache

from tidelog.logic.program import Constant, Term, Variable
from tidelog.plan.algebra import (
    AntiJoin,
    ChangePlan,
    Extend,
    Filter,
    Join,
    Node,
    Part,
    Project,
    Scan,
    Support,
    Unit,
    Witness,
)

# While a plan looks for supports, facts become checked: all that may be, are looked at.
UNDECIDED = {Part.CHECKED: Part.NOW, Part.UNCHECKED: Part.NOW}


@dataclass(frozen=True, slots=True)
class Wanted:
    """The facts of a relation whose values in some columns are among the keys that a node's rows give."""

    relation: str
    columns: tuple[int, ...]
    node: Node
    terms: tuple[Term, ...]

    def keys(self, plan: ChangePlan, relation: str) -> ChangePlan:
        """The plan that enters the keys into a relation."""
        return replace(plan, relation=relation, root=Project(self.node, self.terms))


@lru_cache(maxsize=4096)
def wanted(plan: ChangePlan) -> tuple[Wanted, ...]:
    """What a plan looks up, in the order in which the keys can be known; it is driven by given facts."""
    root = plan.root
    node = _undecided(root.input) if isinstance(root, Support) else root.input
    found = list(_below(node))
    if isinstance(root, Project) and not _is_given(plan.relation, root):
        columns = tuple(range(len(root.terms)))
        found.append(Wanted(plan.relation, columns, node, root.terms))
    return tuple(found)


def _below(node: Node) -> Iterator[Wanted]:
    """What is looked up below a node and by itself."""
    match node:
        case Scan() | Unit():
            return
        case Witness(scan, _, bound):
            yield Wanted(scan.relation, bound, scan, tuple(scan.terms[place] for place in bound))
        case Join(source, scan) | AntiJoin(source, scan):
            yield from _below(source)
            yield _looked_up(source, scan)
        case Filter(source) | Extend(source):
            yield from _below(source)
        case _:
            raise TypeError(node)


def _looked_up(source: Node, scan: Scan) -> Wanted:
    known = set(_variables(source))
    columns = tuple(
        place for place, term in enumerate(scan.terms) if isinstance(term, Constant) or term in known
    )
    return Wanted(scan.relation, columns, source, tuple(scan.terms[place] for place in columns))


def _variables(node: Node) -> Iterator[Variable]:
    """The variables that a node's rows have."""
    match node:
        case Unit():
            return
        case Scan(terms=terms):
            yield from _only_variables(terms)
        case Witness(scan, _, bound):
            yield from _only_variables([scan.terms[place] for place in bound])
        case Join(source, scan):
            yield from _variables(source)
            yield from _only_variables(scan.terms)
        case Extend(source, variable):
            yield from _variables(source)
            yield variable
        case AntiJoin(source) | Filter(source):
            yield from _variables(source)
        case _:
            raise TypeError(node)


def _only_variables(terms: Collection[Term]) -> Iterator[Variable]:
    return (term for term in terms if isinstance(term, Variable))


def _undecided(node: Node) -> Node:
    """The node with parts that do not change while the plan runs."""
    match node:
        case Join(source, scan):
            return Join(_undecided(source), replace(scan, part=UNDECIDED.get(scan.part, scan.part)))
        case AntiJoin() | Filter() | Extend():
            return replace(node, input=_undecided(node.input))
        case _:
            return node


def _is_given(relation: str, root: Project) -> bool:
    """Whether the heads are the given facts themselves."""
    node: Node = root.input
    while isinstance(node, Join | AntiJoin | Filter | Extend):
        node = node.input
    return isinstance(node, Scan) and node.relation == relation and node.terms == root.terms
