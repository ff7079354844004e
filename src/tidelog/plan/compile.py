"""From a rule to its plans: one over all facts, and one per recursive atom over the last round's new facts.

For the i-th recursive atom as pivot, recursive atoms before it read the old facts and those after it all:
so each instance of a rule is considered exactly once.
"""

from __future__ import annotations

from collections.abc import Collection
from heapq import nsmallest

from tidelog.logic.program import (
    Assignment,
    Atom,
    Comparison,
    Condition,
    Literal,
    Negation,
    Rule,
    Term,
    Variable,
)
from tidelog.plan.algebra import (
    Aggregate,
    AntiJoin,
    Extend,
    Filter,
    Join,
    Node,
    Part,
    Project,
    RulePlan,
    Scan,
    Unit,
)
from tidelog.plan.join_order import Statistics, growth, order

TRIED_PIVOTS = 8  # of a long body, the atoms with the fewest matches are tried only


def full_plan(rule: Rule, number: int, statistics: Statistics, relation: str | None = None) -> RulePlan:
    """The plan that matches the body of a rule without aggregates over all facts.

    What it derives goes into `relation`, by default the head's.
    """
    pivot = best_pivot(rule.body, statistics)
    parts = {place: Part.ALL for place, literal in enumerate(rule.body) if isinstance(literal, Atom)}
    target = relation or rule.head.predicate
    return _plan(rule, number, target, rule.head.terms, pivot, parts, statistics)


def delta_plans(
    rule: Rule, number: int, recursive: Collection[str], statistics: Statistics
) -> tuple[RulePlan, ...]:
    """One plan per body atom of a recursive predicate, driven by what is new of it."""
    pivots = delta_pivots(rule, recursive)
    return tuple(delta_plan(rule, number, recursive, pivot, statistics) for pivot in pivots)


def delta_pivots(rule: Rule, recursive: Collection[str]) -> tuple[int, ...]:
    """The places of the body atoms of recursive predicates."""
    atoms = ((place, literal) for place, literal in enumerate(rule.body) if isinstance(literal, Atom))
    return tuple(place for place, atom in atoms if atom.predicate in recursive)


def delta_plan(
    rule: Rule, number: int, recursive: Collection[str], pivot: int, statistics: Statistics
) -> RulePlan:
    """The plan driven by what is new of the recursive atom at a place."""
    places = [place for place, literal in enumerate(rule.body) if isinstance(literal, Atom)]
    own = delta_pivots(rule, recursive)
    parts = {place: Part.OLD if place in own and place < pivot else Part.ALL for place in places}
    parts[pivot] = Part.NEW
    return _plan(rule, number, rule.head.predicate, rule.head.terms, pivot, parts, statistics)


def aggregate_plans(
    rule: Rule, number: int, collected: str, statistics: Statistics
) -> tuple[RulePlan, RulePlan]:
    """Two plans: the rows to aggregate go into the relation `collected`, then the groups are made."""
    variables = collected_variables(rule)
    pivot = best_pivot(rule.body, statistics)
    parts = {place: Part.ALL for place, literal in enumerate(rule.body) if isinstance(literal, Atom)}
    collect = _plan(rule, number, collected, variables, pivot, parts, statistics)
    scan = Scan(collected, Part.ALL, variables)
    root = Aggregate(scan, rule.group, rule.aggregations, rule.after, rule.head.terms)
    return collect, RulePlan(rule.head.predicate, root, rule, number, scan)


def collected_variables(rule: Rule) -> tuple[Variable, ...]:
    """The variables whose combinations an aggregate rule groups: the group's, then the arguments'."""
    arguments = (
        term
        for aggregation in rule.aggregations
        for term in aggregation.arguments
        if isinstance(term, Variable)
    )
    return tuple(dict.fromkeys((*rule.group, *arguments)))


def best_pivot(body: tuple[Literal, ...], statistics: Statistics) -> int | None:
    """The place of the atom that a full plan scans first, or None for a body without atoms.

    Each atom is tried as the first; the order with the fewest expected rows over all steps wins.
    """
    places = [place for place, literal in enumerate(body) if isinstance(literal, Atom)]
    if len(places) <= 1:
        return places[0] if places else None
    if len(places) > TRIED_PIVOTS:
        places = nsmallest(TRIED_PIVOTS, places, lambda place: growth(_atom(body[place]), set(), statistics))
    return min(places, key=lambda place: (_expected_rows(body, place, statistics), place))


def _expected_rows(body: tuple[Literal, ...], pivot: int, statistics: Statistics) -> float:
    """The rows that a plan beginning with this atom is expected to look at, summed over its steps."""
    rows, total = 1.0, 0.0
    bound: set[Variable] = set()
    for place in order(body, pivot, statistics):
        literal = body[place]
        if not isinstance(literal, Atom):
            if isinstance(literal, Assignment):
                bound.add(literal.variable)
            continue
        factor, size = growth(literal, bound, statistics)
        if not bound and total == 0.0:
            total += size  # the scan itself; constants are checked row by row
        rows *= factor
        total += rows
        bound.update(term for term in literal.terms if isinstance(term, Variable))
    return total


def _plan(
    rule: Rule,
    number: int,
    relation: str,
    terms: tuple[Term, ...],
    pivot: int | None,
    parts: dict[int, Part],
    statistics: Statistics,
) -> RulePlan:
    """The plan of a body, begun at the pivot, its atoms reading the given parts."""
    node: Node = Unit()
    driver: Scan | Unit = Unit()
    for place in order(rule.body, pivot, statistics):
        node = _extended(node, rule.body[place], parts.get(place, Part.ALL))
        if isinstance(node, Scan):
            driver = node
    return RulePlan(relation, Project(node, terms), rule, number, driver)


def _extended(node: Node, literal: Literal, part: Part) -> Node:
    """The node with one more literal matched."""
    match literal:
        case Atom(predicate, terms):
            scan = Scan(predicate, part, terms)
            return scan if isinstance(node, Unit) else Join(node, scan)
        case Negation(Atom(predicate, terms)):
            return AntiJoin(node, Scan(predicate, Part.ALL, terms))
        case Comparison() | Condition():
            return Filter(node, literal)
        case Assignment(variable, expression):
            return Extend(node, variable, expression)
        case _:
            raise TypeError(literal)  # rules over time have no plans


def _atom(literal: Literal) -> Atom:
    assert isinstance(literal, Atom)
    return literal
