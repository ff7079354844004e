"""Choosing how to answer: from what is derived already, what is bound, the program's shape and its size.

Invariant: either way the answers are the same; only the time differs.
"""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass

from tidelog.logic.program import BOTTOM, Atom, Query, Variable
from tidelog.logic.strata import dependency_graph
from tidelog.query.magic import rewritten
from tidelog.query.strategy import Place
from tidelog.query.whole import derived_in
from tidelog.rewrite.adornment import Kind
from tidelog.rewrite.magic_sets import Rewritten

FEW = 200  # facts: deriving everything from so few takes less time than rewriting the program
PLANNED = 50  # facts from which one can derive in the time that a pair of rewritten rules takes to be planned


@dataclass(frozen=True, slots=True)
class Choice:
    """The strategy to be used, and why."""

    strategy: str
    reason: str


def choose(query: Query, place: Place) -> Choice:
    """The strategy that is expected to be fastest.

    Everything is derived only where the query needs every rule: what it does not ask for may not end.
    """
    if place.is_materialised:
        return Choice("lookup", "everything is derived already")
    if place.look_up is not None:
        return Choice("full", "facts are kept over representatives of equal constants")
    asked = derived_in(query, place)
    if not asked and not place.is_constrained:
        return Choice("lookup", "only stated facts are asked for")
    needed = _needed(asked, place)
    is_all = len(needed) == len(place.program.rules)
    if is_all and _facts(needed, place) <= FEW:
        return Choice("full", f"every rule is needed, and there are no more than {FEW} facts")
    if is_all and _is_free(query):
        return Choice("full", "nothing is bound, and every rule is needed")
    made = rewritten(query, place)
    bound = _bound(made)
    if not bound and is_all:
        return Choice("full", "nothing is bound, and every rule is needed")
    if is_all and _facts(needed, place) < PLANNED * len(made.rules) ** 2:
        reason = (
            f"rewriting would make {len(made.rules):,} rules of {len(needed):,}: too many for so few facts"
        )
        return Choice("full", reason)
    count = f"{len(needed):,} of {len(place.program.rules):,} rules"
    if not bound:
        return Choice("magic", f"nothing is bound, but {count} are enough")
    names = [place.program.predicates[name].written for name in bound if name in place.program.predicates]
    return Choice(
        "magic", f"arguments of {', '.join(names[:3]) or 'a closure'} are bound; {count} are needed"
    )


def _is_free(query: Query) -> bool:
    """Whether a query asks for all facts of one predicate."""
    match query.rule.body:
        case (Atom(_, terms),):
            return len(set(terms)) == len(terms) and all(isinstance(term, Variable) for term in terms)
    return False


def _needed(predicates: Collection[str], place: Place) -> list[int]:
    """The numbers of the rules that these predicates depend on."""
    rules = place.program.rules
    graph = dependency_graph(rules)
    found, waiting = set(predicates), list(predicates)
    if place.is_constrained:
        found.add(BOTTOM)
        waiting.append(BOTTOM)
    while waiting:
        for name in graph.get(waiting.pop(), ()):
            if name not in found:
                found.add(name)
                waiting.append(name)
    return [number for number, rule in enumerate(rules) if rule.head.predicate in found]


def _facts(needed: Collection[int], place: Place) -> int:
    """How many explicit facts the rules read."""
    rules = place.program.rules
    read = {atom.predicate for number in needed for atom in (*rules[number].positive, *rules[number].negated)}
    return sum(place.engine.size(name) for name in read)


def _bound(made: Rewritten) -> list[str]:
    """The predicates that are asked for with some argument bound."""
    found = {
        each.predicate: None
        for each in made.relations.values()
        if each.kind is Kind.ADORNED and "b" in each.adornment
    }
    return list(found)
