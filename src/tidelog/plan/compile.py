"""From a rule to its plans: one over all facts, and one per recursive atom over the last round's new facts.

For the i-th recursive atom as pivot, recursive atoms before it read the old facts and those after it all:
so each instance of a rule is considered exactly once.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable
from dataclasses import replace
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
    variables_of,
)
from tidelog.plan.algebra import (
    EXTREMES,
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
    chain,
)
from tidelog.plan.join_order import Statistics, growth, order

TRIED_PIVOTS = 8  # of a long body, the atoms with the fewest matches are tried only


def full_plan(rule: Rule, number: int, statistics: Statistics, relation: str | None = None) -> RulePlan:
    """The plan that matches the body of a rule without aggregates over all facts.

    Derived facts are inserted into `relation`, by default the head's.
    """
    pivot = best_pivot(rule.body, statistics)
    parts = {position: Part.ALL for position, literal in enumerate(rule.body) if isinstance(literal, Atom)}
    target = relation or rule.head.predicate
    return _plan(rule, number, target, rule.head.terms, pivot, parts, statistics)


def delta_plans(
    rule: Rule, number: int, recursive: Collection[str], statistics: Statistics
) -> tuple[RulePlan, ...]:
    """Return one plan per body atom of a recursive predicate, driven by its new facts."""
    pivots = delta_pivots(rule, recursive)
    return tuple(delta_plan(rule, number, recursive, pivot, statistics) for pivot in pivots)


def delta_pivots(rule: Rule, recursive: Collection[str]) -> tuple[int, ...]:
    """Return the positions of the body atoms of recursive predicates."""
    atoms = ((position, literal) for position, literal in enumerate(rule.body) if isinstance(literal, Atom))
    return tuple(position for position, atom in atoms if atom.predicate in recursive)


def delta_plan(
    rule: Rule, number: int, recursive: Collection[str], pivot: int, statistics: Statistics
) -> RulePlan:
    """Return the plan driven by the new facts of the recursive atom at a position."""
    positions = [position for position, literal in enumerate(rule.body) if isinstance(literal, Atom)]
    own = delta_pivots(rule, recursive)
    parts = {
        position: Part.OLD if position in own and position < pivot else Part.ALL for position in positions
    }
    parts[pivot] = Part.NEW
    return _plan(rule, number, rule.head.predicate, rule.head.terms, pivot, parts, statistics)


def aggregate_plans(
    rule: Rule, number: int, collected: str, statistics: Statistics
) -> tuple[RulePlan, RulePlan]:
    """Return two plans: one inserts the rows to aggregate into the relation `collected`, one groups them."""
    variables = collected_variables(rule)
    pivot = best_pivot(rule.body, statistics)
    parts = {position: Part.ALL for position, literal in enumerate(rule.body) if isinstance(literal, Atom)}
    # Repeated rows of one atom are no more than its facts; those of a join may be any number.
    may_repeat = len(parts) == 1 and all(each.function in EXTREMES for each in rule.aggregations)
    collect = replace(
        _plan(rule, number, collected, variables, pivot, parts, statistics),
        is_only=True,
        may_repeat=may_repeat,
    )
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
    """Return the position of the atom that a full plan scans first; None for a body without atoms.

    Each atom is tried as the first; the order with the fewest expected rows over all steps wins.
    """
    positions = [position for position, literal in enumerate(body) if isinstance(literal, Atom)]
    if len(positions) <= 1:
        return positions[0] if positions else None
    if len(positions) > TRIED_PIVOTS:
        positions = nsmallest(
            TRIED_PIVOTS, positions, lambda position: growth(_atom(body[position]), set(), statistics)
        )
    return min(positions, key=lambda position: (_expected_rows(body, position, statistics), position))


def _expected_rows(body: tuple[Literal, ...], pivot: int, statistics: Statistics) -> float:
    """Estimate the rows that a plan beginning with this atom reads, summed over its steps."""
    rows, total = 1.0, 0.0
    bound: set[Variable] = set()
    for position in order(body, pivot, statistics):
        literal = body[position]
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
    """Return the plan of a body, beginning at the pivot, its atoms reading these parts."""
    node: Node = Unit()
    driver: Scan | Unit = Unit()
    for position in order(rule.body, pivot, statistics):
        node = _extended(node, rule.body[position], parts.get(position, Part.ALL))
        if isinstance(node, Scan):
            driver = node
    return RulePlan(relation, Project(node, terms), rule, number, driver)


def _extended(node: Node, literal: Literal, part: Part) -> Node:
    """Extend a plan by one literal."""
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


# ---- facts that are found only once


def finds_each_once(plan: RulePlan, is_key: Callable[[str, int], bool]) -> bool:
    """Return whether no two matches of a plan's body have the same head.

    That is so if the head determines each fact of the body: it has all of the fact's values, or one that no
    other fact of the relation has in its place. `is_key` tells whether a column has no value twice.
    """
    nodes = chain(plan.root)
    known = _variables(plan.root.terms)
    open_scans = [scan for node in nodes if (scan := _matched(node)) is not None]
    assignments = [node for node in nodes if isinstance(node, Extend)]
    while open_scans:
        known.update(each.variable for each in assignments if known.issuperset(variables_of(each.expression)))
        determined = next((scan for scan in open_scans if _is_determined(scan, known, is_key)), None)
        if determined is None:
            return False
        open_scans.remove(determined)
        known |= _variables(determined.terms)
    return True


def _matched(node: Node) -> Scan | None:
    """Return the scan whose facts extend a node's rows, None if it has none."""
    match node:
        case Scan():
            return node
        case Join(_, scan):
            return scan
    return None


def _variables(terms: Iterable[Term]) -> set[Variable]:
    return {term for term in terms if isinstance(term, Variable)}


def _is_determined(scan: Scan, known: set[Variable], is_key: Callable[[str, int], bool]) -> bool:
    """Return whether at most one fact matches when these variables have values."""
    if _variables(scan.terms) <= known:
        return True
    return any(
        is_key(scan.relation, column)
        for column, term in enumerate(scan.terms)
        if not isinstance(term, Variable) or term in known
    )
