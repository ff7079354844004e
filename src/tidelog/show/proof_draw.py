"""Proofs as text with lines, JSON, HTML and DOT. None of them is recursive: proofs can be thousands high."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from html import escape
from pathlib import Path
from typing import Final

from tidelog.proof.explanation import NodeKind, ProofNode, Words, omission, origin_of, walk
from tidelog.show.picture_formats import code

_STYLE: Final = Path(__file__).with_name("proof.css")
_OPEN: Final = 3  # levels of a page that are open from the beginning


# ---- text


def text_lines(proofs: Sequence[ProofNode], words: Words, depth: int | None = None) -> Iterator[str]:
    """The lines of proofs, an empty one between two; a step that was shown before is not shown again."""
    for position, proof in enumerate(proofs):
        if position:
            yield ""
        yield from _tree_lines(proof, words, depth)


def _tree_lines(proof: ProofNode, words: Words, depth: int | None) -> Iterator[str]:
    visited: set[int] = set()
    waiting: list[tuple[ProofNode | str, str, str, int]] = [(proof, "", "", 0)]
    while waiting:
        node, first, others, level = waiting.pop()
        if isinstance(node, str):
            yield first + node
            continue
        again = id(node) in visited and bool(node.children)
        visited.add(id(node))
        yield first + _line(node, words, again)
        below = [] if again else _below(node, depth, level)
        for place, child in reversed(list(enumerate(below))):
            is_last = place == len(below) - 1
            branch, indent = ("└─ ", "   ") if is_last else ("├─ ", "│  ")
            waiting.append((child, others + branch, others + indent, level + 1))


def _line(node: ProofNode, words: Words, again: bool) -> str:
    reason = "as above" if again else words.reason(node)
    return f"{words.statement(node)}  {reason}".rstrip()


def _below(node: ProofNode, depth: int | None, level: int) -> list[ProofNode | str]:
    """What stands below a node: its children, and what is left out."""
    if depth is not None and level >= depth and node.children:
        return [f"… {node.height} deep" if node.height > 1 else "…"]
    more = [omission(node)] if node.elided else []
    return [*node.children, *more]


# ---- JSON


def records(proofs: Sequence[ProofNode], words: Words) -> dict[str, object]:
    """The nodes as a list, in which proofs and children are places."""
    nodes = list(walk(proofs))
    positions = {id(node): position for position, node in enumerate(nodes)}
    return {
        "proofs": [positions[id(proof)] for proof in proofs],
        "nodes": [
            _record(node, words) | {"children": [positions[id(child)] for child in node.children]}
            for node in nodes
        ],
    }


def _record(node: ProofNode, words: Words) -> dict[str, object]:
    record: dict[str, object] = {
        "kind": node.kind.value,
        "statement": words.statement(node),
        "reason": words.reason(node),
        "height": node.height,
    }
    if node.rule is not None and node.kind is NodeKind.RULE:
        record |= {"rule": node.number + 1, "name": node.rule.name}
    if origin_of(node):
        record["origin"] = origin_of(node)
    if node.elided:
        record["elided"] = node.elided
    if node.time is not None:
        record["time"] = str(node.time)
    return record


# ---- HTML


def folding_lists(proofs: Sequence[ProofNode], words: Words, depth: int | None = None) -> str:
    """Return proofs as trees that fold, a section for each, with the style that they need.

    The style takes its colours from the page around it, and has its own in a notebook.
    """
    style = f"<style>\n{_STYLE.read_text(encoding='utf-8')}</style>\n"
    opened = _OPEN if depth is None else depth
    sections = (
        f'<section class="tidelog-proof">\n{"".join(_list(proof, words, opened))}</section>\n'
        for proof in proofs
    )
    return style + "".join(sections)


def _list(proof: ProofNode, words: Words, opened: int) -> Iterator[str]:
    visited: set[int] = set()
    waiting: list[tuple[ProofNode | str, int]] = [(proof, 0)]
    while waiting:
        node, level = waiting.pop()
        if isinstance(node, str):
            yield node
            continue
        again = id(node) in visited and bool(node.children)
        visited.add(id(node))
        line = _html_line(node, words, again)
        if again or not node.children:
            yield f'<div class="step {node.kind.value}">{line}</div>\n'
            continue
        more = f'<div class="step">{omission(node)}</div>\n' if node.elided else ""
        is_open = " open" if level < opened else ""
        yield f'<details class="step {node.kind.value}"{is_open}><summary>{line}</summary>\n'
        waiting.append((f"{more}</details>\n", 0))
        waiting.extend((child, level + 1) for child in reversed(node.children))


def _html_line(node: ProofNode, words: Words, again: bool) -> str:
    reason = "as above" if again else words.reason(node)
    return f"<code>{code(words.statement(node))}</code> <small>{escape(reason)}</small>"


# ---- DOT


def dot_text(proofs: Sequence[ProofNode], words: Words, depth: int | None = None) -> str:
    """The nodes down to a depth as a graph for Graphviz."""
    lines = ["digraph proof {", "  rankdir=TB;", '  node [shape=box, style=rounded, fontname="monospace"];']
    names: dict[int, str] = {}
    level = list(proofs)
    reached = 0
    while level and (depth is None or reached <= depth):
        below: list[ProofNode] = []
        for node in level:
            if id(node) in names:
                continue
            names[id(node)] = f"n{len(names)}"
            label = f"{words.statement(node)}\n{words.reason(node)}".strip()
            dashed = "" if node.kind is not NodeKind.EXPLICIT else ", style=bold"
            lines.append(f"  {names[id(node)]} [label={_quoted(label)}{dashed}];")
            below.extend(node.children)
        level, reached = below, reached + 1
    for node in walk(proofs):
        for child in node.children:
            if id(node) in names and id(child) in names:
                lines.append(f"  {names[id(node)]} -> {names[id(child)]};")
    return "\n".join([*lines, "}", ""])


def _quoted(text: str) -> str:
    escaped = text.replace("\\", "\\\\").replace('"', '\\"').replace("\n", "\\n")
    return f'"{escaped}"'
