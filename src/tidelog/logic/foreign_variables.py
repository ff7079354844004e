"""Variables as Prolog writes them: `p(X) :- q(X) .` is a rule about one constant, which is rarely meant."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import fields
from functools import cache
from typing import Any

from tidelog.logic import codes
from tidelog.logic.report import Report
from tidelog.syntax import ast


def warn_of_foreign_variables(clause: ast.Clause, report: Report) -> None:
    """Warn of a rule without variables that uses names such as `X` or `_x` as Prolog uses variables.

    They are so used if they stand in the head and in the body, or in two conditions.
    """
    if any(isinstance(node, ast.Variable) for node in nodes(clause)):
        return
    parts = [_foreign_names(clause.heads), *map(_foreign_names, clause.body)]
    shared = [name for name in dict.fromkeys(name for part in parts for name in part) if _shared(name, parts)]
    if not shared:
        return
    first = next(part[shared[0]] for part in parts if shared[0] in part)
    said = ", ".join(f"`{name}`" for name in shared)
    verb = "is a constant" if len(shared) == 1 else "are constants"
    message = f"{said} {verb} in this rule: it has no variables"
    name = shared[0]
    help = f"a variable is written `?{name.lstrip('_') or name}`; write `<{name}>` if the constant is meant"
    report.warn(codes.FOREIGN_VARIABLES, message, first.span, help)


def _shared(name: str, parts: list[dict[str, ast.Name]]) -> bool:
    return sum(name in part for part in parts) > 1


def _foreign_names(tree: object) -> dict[str, ast.Name]:
    """The constants that begin with a capital letter or an underscore, each where it stands first."""
    found: dict[str, ast.Name] = {}
    for node in nodes(tree):
        if isinstance(node, ast.Name) and (node.text[0].isupper() or node.text[0] == "_"):
            found.setdefault(node.text, node)
    return found


def nodes(tree: object) -> Iterator[ast.Node]:
    """The nodes of a tree, without the names of predicates and functions."""
    if isinstance(tree, tuple):
        for item in tree:
            yield from nodes(item)
    elif isinstance(tree, ast.Call):
        yield from nodes(tree.arguments)
    elif isinstance(tree, ast.Node):
        yield tree
        kind: Any = type(tree)
        for part in _parts(kind):
            yield from nodes(getattr(tree, part))


@cache
def _parts(kind: Any) -> tuple[str, ...]:
    """The attributes of a kind of node in which there may be nodes."""
    return tuple(part.name for part in fields(kind) if part.name not in ("span", "attributes"))
