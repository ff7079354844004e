"""Explanations as JSON that is read back: node by node, for a proof may be higher than Python's stack.

What the program says is not repeated: rules are given by their numbers, and whoever reads the form has the
same program.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from tidelog.logic.program import Program, Rule, Variable
from tidelog.logic.terms import exact, read_exact
from tidelog.plan.rule_text import Writing
from tidelog.proof.explanation import Explanation
from tidelog.proof.node import Kind, Node, walk
from tidelog.store.program_form import (
    interval_of,
    interval_to_json,
    literal_of,
    literal_to_json,
    rule_of,
    rule_to_json,
)

Json = Any


def explanation_to_json(explanation: Explanation, program: Program) -> dict[str, Json]:
    """Return an explanation as plain JSON values; a node stands behind those that it follows from."""
    nodes = list(walk(explanation.proofs))
    order = _below_first(nodes)
    numbers = {id(node): number for number, node in enumerate(order)}
    return {
        "query": explanation.query,
        "omitted": explanation.omitted,
        "nodes": [_node_to_json(node, numbers, program.rules) for node in order],
        "proofs": [numbers[id(proof)] for proof in explanation.proofs],
    }


def explanation_of(form: Mapping[str, Json], program: Program) -> Explanation:
    """Return the explanation of a form that was made of the same program."""
    nodes: list[Node] = []
    for each in form["nodes"]:
        nodes.append(_node_of(each, nodes, program.rules))
    proofs = tuple(nodes[number] for number in form["proofs"])
    return Explanation(form["query"], proofs, Writing.of(program), form["omitted"])


def _below_first(nodes: Sequence[Node]) -> list[Node]:
    """Return the nodes of proofs, each behind all of its children."""
    parents = {id(node): 0 for node in nodes}
    for node in nodes:
        for child in node.children:
            parents[id(child)] += 1
    waiting = [node for node in nodes if not parents[id(node)]]
    order: list[Node] = []
    while waiting:
        node = waiting.pop()
        order.append(node)
        for child in node.children:
            parents[id(child)] -= 1
            if not parents[id(child)]:
                waiting.append(child)
    return order[::-1]


def _node_to_json(node: Node, numbers: Mapping[int, int], rules: Sequence[Rule]) -> dict[str, Json]:
    """Return a node; what it does not have is left out."""
    is_known = 0 <= node.number < len(rules) and node.rule == rules[node.number]
    form = {
        "literal": None if node.literal is None else literal_to_json(node.literal),
        "children": [numbers[id(child)] for child in node.children],
        "height": node.height,
        "rule": None if node.rule is None or is_known else rule_to_json(node.rule),
        "binding": [[variable.name, exact(value)] for variable, value in node.binding],
        "origin": None if node.origin is None else str(node.origin),
        "elided": node.elided,
        "time": None if node.time is None else interval_to_json(node.time),
    }
    return {"kind": node.kind.value, "number": node.number} | {
        key: part for key, part in form.items() if part
    }


def _node_of(form: Mapping[str, Json], nodes: Sequence[Node], rules: Sequence[Rule]) -> Node:
    number, rule = form["number"], form.get("rule")
    known = rules[number] if number >= 0 else None
    return Node(
        Kind(form["kind"]),
        literal_of(form["literal"]) if "literal" in form else None,
        tuple(nodes[child] for child in form.get("children", ())),
        form.get("height", 0),
        known if rule is None else rule_of(rule),
        number,
        tuple((Variable(name), read_exact(text)) for name, text in form.get("binding", ())),
        form.get("origin"),
        form.get("elided", 0),
        interval_of(form["time"]) if "time" in form else None,
    )
