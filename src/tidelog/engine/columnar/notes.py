"""What plans hand on so that something can be noted of the heads they find."""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.engine.columnar.assemble import Noted
from tidelog.engine.columnar.steps import HIGHEST_MARK, LINKED_ROW
from tidelog.engine.maintaining import Notes, Noting
from tidelog.plan.algebra import ChangePlan, Join, Node, Part, Project, Scan, Support, chain

NOTHING = Noting()


def noted_by(plan: ChangePlan, noting: Noting) -> Noted | None:
    """What a plan hands on, None if it has nothing that could be noted."""
    if plan.relation not in noting.heads or isinstance(plan.root, Support):
        return None
    if noting.notes is Notes.LINKS:
        leant_on = first_source(plan, noting)
        return None if leant_on is None else Noted(LINKED_ROW, (leant_on,))
    passing = tuple(_passing_marks(plan, plan.root, noting))
    if not passing:
        return None
    # A negation that broke, or may break, is not known to hold next time.
    returns = bool(noting.staying) and not plan.rule.negated
    return Noted(HIGHEST_MARK, passing, noting.staying, returns)


def first_source(plan: ChangePlan, noting: Noting) -> Scan | None:
    """The scan of the first atom in the rule's body whose facts are leant on."""
    atom = next((atom for atom in plan.rule.positive if atom.predicate in noting.sources), None)
    if atom is None:
        return None
    matched = matched_in(plan.root.input)
    return next(scan for scan in matched if scan.relation == atom.predicate and scan.terms == atom.terms)


def _passing_marks(plan: ChangePlan, root: Project, noting: Noting) -> Iterator[Scan]:
    """The scans of body facts whose marks are passed on: not that of given heads."""
    for scan in matched_in(root.input):
        is_head = scan.part is Part.GIVEN and scan.relation == plan.relation and not scan.own
        if scan.relation in noting.sources and not is_head:
            yield scan


def matched_in(node: Node) -> Iterator[Scan]:
    """The scans below a node that match facts, rather than look for their absence."""
    for item in reversed(chain(node)):
        if isinstance(item, Scan | Join):
            yield item if isinstance(item, Scan) else item.scan
