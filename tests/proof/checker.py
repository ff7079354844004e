"""A checker of proofs, and the smallest heights by brute force; both know the reference engine only.

Of a proof every step is looked at by itself: rules are matched against the statements below them, tests are
computed anew, and what is absent is looked for among all facts.
"""

from __future__ import annotations

from collections.abc import Mapping
from itertools import product

from tidelog.engine import reference
from tidelog.engine.reference import Binding, Facts, Row
from tidelog.logic.functions.builtins import evaluate, holds
from tidelog.logic.program import (
    EQUAL,
    Assignment,
    Atom,
    Comparison,
    Condition,
    Constant,
    Literal,
    Negation,
    Program,
    Rule,
    Term,
)
from tidelog.logic.values import Value
from tidelog.plan.compile import collected_variables
from tidelog.proof.explanation import NodeKind, ProofNode, walk

Stated = Mapping[str, frozenset[Row]]
INFINITE = 1 << 60


def check(proof: ProofNode, program: Program, explicit: Facts, model: Stated) -> None:
    """Nothing, if the proof is one: from these explicit facts, by the program's rules, in its model."""
    ancestors(proof)
    for node in walk([proof]):
        if node.kind is NodeKind.EXPLICIT:
            assert row_of(node) in explicit.get(atom_of(node).predicate, set()), f"{node} is not explicit"
            assert node.height == 0 and not node.children
        elif node.kind is NodeKind.RULE:
            assert node.rule == program.rules[node.number]
            _check_rule(node, model)
        elif node.kind is NodeKind.REPLACED:
            _check_replaced(node)
        elif node.kind is NodeKind.EQUAL:
            _check_chain(node)
        if not node.kind.is_step:
            assert node.height == max((child.height for child in node.children), default=0)


def ancestors(proof: ProofNode) -> None:
    """Nothing, if no node stands below itself."""
    for node in walk([proof]):
        for child in node.children:
            assert child.height < node.height or not node.kind.is_step, "not well-founded"
            if child.kind.is_step:
                assert child.literal != proof.literal, "the goal proves itself"


def _check_rule(node: ProofNode, model: Stated) -> None:
    rule = node.rule
    assert rule is not None
    assert node.height == 1 + max((child.height for child in node.children), default=0)
    if rule.aggregations:
        _check_aggregate(node, rule, model)
        return
    binding = _check_body(node, rule, model)
    assert tuple(_value(term, binding) for term in rule.head.terms) == row_of(node)


def _check_replaced(node: ProofNode) -> None:
    """The fact differs from another by constants, and just these are equal."""
    source, *equalities = node.children
    assert (
        source.kind in (NodeKind.EXPLICIT, NodeKind.RULE)
        and atom_of(source).predicate == atom_of(node).predicate
    )
    pairs = [pair for pair in zip(row_of(source), row_of(node), strict=True) if pair[0] != pair[1]]
    assert pairs and list(dict.fromkeys(pairs)) == [row_of(each) for each in equalities]
    assert all(atom_of(each).predicate == EQUAL for each in equalities)


def _check_chain(node: ProofNode) -> None:
    """Equalities lead from one constant to the other, each in one direction or the other."""
    place, end = row_of(node)
    for step in node.children:
        assert step.kind in (NodeKind.EXPLICIT, NodeKind.RULE) and atom_of(step).predicate == EQUAL
        left, right = row_of(step)
        assert place in (left, right)
        place = right if place == left else left
    assert place == end


def _check_body(node: ProofNode, rule: Rule, model: Stated) -> Binding:
    """The binding under which the children of a node are the rule's body, each of them true."""
    assert len(node.children) == len(rule.body)
    binding: Binding = {}
    for literal, child in zip(rule.body, node.children, strict=True):
        if isinstance(literal, Atom):
            assert row_of(child) in model[literal.predicate]
            assert atom_of(child).predicate == literal.predicate
            unified = reference._unify(literal.terms, row_of(child), binding)
            assert unified is not None, f"{child} does not match {literal}"
            binding = unified
        elif isinstance(literal, Assignment):
            assert child.kind is NodeKind.COMPUTED
            binding[literal.variable] = child.binding[0][1]
    for literal, child in zip(rule.body, node.children, strict=True):
        _check_literal(literal, child, binding, model)
    return binding


def _check_literal(literal: Literal, child: ProofNode, binding: Binding, model: Stated) -> None:
    match literal:
        case Negation(atom):
            assert child.kind is NodeKind.NEGATION
            store = {name: set(rows) for name, rows in model.items() if name == atom.predicate}
            assert not list(reference._match_atom(atom, binding, store)), f"{child} is there"
        case Comparison() | Condition():
            assert child.kind is NodeKind.TEST and holds(literal, binding)
        case Assignment(variable, expression):
            assert evaluate(expression, binding) == binding[variable]
        case Atom():
            assert child.kind in (NodeKind.EXPLICIT, NodeKind.RULE, NodeKind.REPLACED)


def _check_aggregate(node: ProofNode, rule: Rule, model: Stated) -> None:
    """The rows are all the distinct rows of one group, and their aggregate is the head."""
    (aggregate,) = node.children
    assert aggregate.kind is NodeKind.AGGREGATE and not aggregate.elided
    collected = collected_variables(rule)
    shown = []
    for row in aggregate.children:
        binding = _check_body(row, rule, model)
        assert dict(row.binding) == {variable: binding[variable] for variable in collected}
        shown.append(binding)
    key = tuple(shown[0][variable] for variable in rule.group)
    store = {name: set(rows) for name, rows in model.items()}
    members = [
        binding
        for binding in reference._matches(rule.body, {}, store)
        if tuple(binding[variable] for variable in rule.group) == key
    ]
    rows = [tuple(binding[variable] for variable in collected) for binding in shown]
    assert len(rows) == len(set(rows))
    assert set(rows) == {tuple(binding[variable] for variable in collected) for binding in members}
    (group,) = reference._aggregate(rule, members)
    assert tuple(_value(term, group) for term in rule.head.terms) == row_of(node)


# ---- brute force


def smallest_equal_heights(program: Program, explicit: Facts, model: Stated) -> dict[tuple[str, Row], int]:
    """The same where constants may be equal: to replace one by another takes no step."""
    store = {name: set(rows) for name, rows in model.items()}
    matched = [(rule, list(reference._matches(rule.body, {}, store))) for rule in program.rules]
    heights = {(name, row): INFINITE for name, rows in model.items() for row in rows}
    direct = {(name, row): 0 for name, rows in explicit.items() for row in rows}
    while True:
        before = dict(heights)
        for rule, bindings in matched:
            for fact, height in _derived(rule, bindings, heights):
                direct[fact] = min(direct.get(fact, INFINITE), height)
        equal = _equal_heights({row: height for (name, row), height in direct.items() if name == EQUAL})
        for (name, source), height in direct.items():
            for row in product(*(equal.get(value, {value: 0}) for value in source)):
                needed = (equal.get(a, {a: 0})[b] for a, b in zip(source, row, strict=True))
                whole = max(height, *needed, 0)
                heights[name, row] = min(heights[name, row], whole)
        if heights == before:
            return heights


def _equal_heights(edges: Mapping[Row, int]) -> dict[Value, dict[Value, int]]:
    """From each constant to each that it equals, the height of the lowest chain."""
    found: dict[Value, dict[Value, int]] = {}
    for (left, right), height in edges.items():
        for one, other in ((left, right), (right, left)):
            known = found.setdefault(one, {one: 0})
            known[other] = min(known.get(other, INFINITE), height)
    for between, first, last in product(found, repeat=3):
        if between in found[first] and last in found[between]:
            way = max(found[first][between], found[between][last])
            found[first][last] = min(found[first].get(last, INFINITE), way)
    return found


# ---- without equality


def smallest_heights(program: Program, explicit: Facts, model: Stated) -> dict[tuple[str, Row], int]:
    """The smallest height of a proof of each fact, by lowering heights until none can be lowered."""
    heights = {(name, row): INFINITE for name, rows in model.items() for row in rows}
    heights.update({(name, row): 0 for name, rows in explicit.items() for row in rows})
    store = {name: set(rows) for name, rows in model.items()}
    matched = [(rule, list(reference._matches(rule.body, {}, store))) for rule in program.rules]
    is_lower = True
    while is_lower:
        is_lower = False
        for rule, bindings in matched:
            for fact, height in _derived(rule, bindings, heights):
                if height < heights[fact]:
                    heights[fact], is_lower = height, True
    return heights


def _derived(
    rule: Rule, bindings: list[Binding], heights: dict[tuple[str, Row], int]
) -> list[tuple[tuple[str, Row], int]]:
    """The facts that a rule's instances derive, each with one more than the greatest height in the body."""

    def below(binding: Binding) -> int:
        facts = ((atom.predicate, tuple(_value(t, binding) for t in atom.terms)) for atom in rule.positive)
        return max((heights[fact] for fact in facts), default=0)

    def head(binding: Binding) -> tuple[str, Row]:
        return rule.head.predicate, tuple(_value(term, binding) for term in rule.head.terms)

    if not rule.aggregations:
        return [(head(binding), below(binding) + 1) for binding in bindings]
    groups: dict[Row, list[Binding]] = {}
    for binding in bindings:
        groups.setdefault(tuple(binding[name] for name in rule.group), []).append(binding)
    derived = []
    for members in groups.values():
        rows: dict[Row, int] = {}
        for member in members:
            row = tuple(member[name] for name in collected_variables(rule))
            rows[row] = min(rows.get(row, INFINITE), below(member))
        derived += [(head(group), max(rows.values()) + 1) for group in reference._aggregate(rule, members)]
    return derived


def atom_of(node: ProofNode) -> Atom:
    """The fact that a node states."""
    assert isinstance(node.literal, Atom)
    return node.literal


def row_of(node: ProofNode) -> Row:
    """The values of the fact that a node states."""
    terms = atom_of(node).terms
    return tuple(term.value for term in terms if isinstance(term, Constant))


def _value(term: Term, binding: Binding) -> Value:
    return term.value if isinstance(term, Constant) else binding[term]
