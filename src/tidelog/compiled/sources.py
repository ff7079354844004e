"""What kernels are made from: a digest that changes when a kernel does, and with nothing else.

It covers the functions that are compiled, the constants that they read, in whichever modules those are, and
the build itself. Docstrings, comments and layout do not count, nor does other code of the same files.
"""

from __future__ import annotations

import ast
import hashlib
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import TypeVar

PACKAGE = Path(__file__).parent.parent
BUILD = ("compiled/jit.py", "compiled/build.py", "compiled/lowering.py", "compiled/caller.c")
Node = TypeVar("Node", bound=ast.AST)

DECORATORS = {"kernel", "subroutine", "inlined"}


@dataclass(frozen=True, slots=True)
class Sources:
    """The modules that define kernels, the files they depend on, relative to the package, and a digest."""

    modules: tuple[str, ...]
    files: tuple[str, ...]
    digest: str


def find_sources() -> Sources:
    """Read the sources of all kernels."""
    modules = dict(_modules_with_kernels())
    known = {name: _Module(tree) for name, tree in modules.items()}
    waiting = [(name, function) for name, module in known.items() for function in module.compiled]
    met: dict[tuple[str, str], str] = {}
    while waiting:
        place = waiting.pop()
        if place in met:
            continue
        owner, name = place
        if owner not in known:
            known[owner] = _Module(ast.parse(_path(owner).read_bytes()))
        node = known[owner].defined.get(name)
        met[place] = "" if node is None else ast.dump(node)
        for used in _names(node):
            if used in known[owner].defined:
                waiting.append((owner, used))
            elif used in known[owner].imported:
                waiting.append(known[owner].imported[used])
    digest = hashlib.sha256()
    for place, text in sorted(met.items()):
        digest.update(f"{place} {text}\n".encode())
    for name in BUILD:
        content = (PACKAGE / name).read_bytes()
        is_python = name.endswith(".py")
        digest.update(ast.dump(_without_docstrings(ast.parse(content))).encode() if is_python else content)
    files = {*BUILD, *(str(_path(name).relative_to(PACKAGE)) for name in known)}
    return Sources(tuple(sorted(modules)), tuple(sorted(files)), digest.hexdigest()[:32])


def _modules_with_kernels() -> Iterator[tuple[str, ast.Module]]:
    for path in sorted(PACKAGE.rglob("*.py")):
        text = path.read_bytes()
        if b"from tidelog.compiled import" in text and path.parent != PACKAGE / "compiled":
            tree = ast.parse(text)
            if _Module(tree).compiled:
                yield ".".join(("tidelog", *path.relative_to(PACKAGE).with_suffix("").parts)), tree


def _path(module: str) -> Path:
    path = PACKAGE.joinpath(*module.split(".")[1:])
    return path / "__init__.py" if path.is_dir() else path.with_suffix(".py")


class _Module:
    """What a module defines at its top, without docstrings, and what it imports from the package."""

    def __init__(self, tree: ast.Module) -> None:
        self.defined: dict[str, ast.stmt] = {}
        self.imported: dict[str, tuple[str, str]] = {}
        self.compiled: list[str] = []
        for node in tree.body:
            if isinstance(node, ast.ImportFrom) and (node.module or "").startswith("tidelog."):
                if node.module != "tidelog.compiled":
                    for one in node.names:
                        self.imported[one.asname or one.name] = (node.module or "", one.name)
            elif isinstance(node, ast.FunctionDef | ast.ClassDef):
                self.defined[node.name] = _without_docstrings(node)
                if isinstance(node, ast.FunctionDef) and DECORATORS & {
                    _decorator(one) for one in node.decorator_list
                }:
                    self.compiled.append(node.name)
            else:
                for target in ast.walk(node):
                    if isinstance(target, ast.Name) and isinstance(target.ctx, ast.Store):
                        self.defined[target.id] = node


def _decorator(node: ast.expr) -> str:
    called = node.func if isinstance(node, ast.Call) else node
    return called.id if isinstance(called, ast.Name) else ""


def _without_docstrings(node: Node) -> Node:
    for one in ast.walk(node):
        if isinstance(one, ast.Module | ast.FunctionDef | ast.ClassDef) and ast.get_docstring(one):
            one.body = one.body[1:]
    return node


def _names(node: ast.stmt | None) -> set[str]:
    """The names that a definition reads; those of annotations do not matter, but do no harm either."""
    if node is None:
        return set()
    return {one.id for one in ast.walk(node) if isinstance(one, ast.Name) and isinstance(one.ctx, ast.Load)}
