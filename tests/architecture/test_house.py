"""The shape of the code in figures, which may only fall."""

from __future__ import annotations

import ast
import re
from collections import Counter, defaultdict
from collections.abc import Iterator
from functools import cache
from pathlib import Path

import pytest

SOURCES = Path(__file__).parents[2] / "src"
ROOT = SOURCES / "tidelog"
EXCEPTIONS = {"BaseException", "Exception", "RuntimeError", "ValueError", "ArithmeticError", "Warning"}
FILES = 300
FILES_AROUND_SPARK = 45
MODULES_OF_A_PACKAGE = 18
LINES = 700
ENGINES_OF_ANY_TYPE = 0
SHARED_CLASS_NAMES = 0
ODD_DOCSTRINGS = 0
DEPTH = 2
DEPTH_OF_ENGINES = 1
DEPTH_OF_REASONERS = 1
METHODS_OF_A_PROTOCOL = 15
SAME_ROLE = {"__init__.py", "registry.py", "distributed.py"}  # files of one name, in parallel packages


@cache
def modules() -> dict[Path, ast.Module]:
    """All modules of the package, as trees."""
    paths = sorted(ROOT.rglob("*.py"))
    return {path.relative_to(ROOT): ast.parse(path.read_text(encoding="utf-8")) for path in paths}


def classes() -> Iterator[tuple[Path, ast.ClassDef]]:
    for path, tree in modules().items():
        for node in ast.walk(tree):
            if isinstance(node, ast.ClassDef):
                yield path, node


def bases_of(node: ast.ClassDef) -> list[str]:
    """The names of the classes that a class is made of, without parameters."""
    found = []
    for base in node.bases:
        each = base.value if isinstance(base, ast.Subscript) else base
        found.append(each.attr if isinstance(each, ast.Attribute) else ast.unparse(each))
    return found


def is_protocol(node: ast.ClassDef) -> bool:
    return "Protocol" in bases_of(node)


def depth(name: str, bases: dict[str, list[str]], seen: tuple[str, ...] = ()) -> int:
    """How many classes stand above one, exceptions of Python and protocols apart."""
    if name not in bases or name in seen:
        return 0
    return max((1 + depth(each, bases, (*seen, name)) for each in bases[name] if each in bases), default=0)


def towers() -> dict[str, int]:
    """How deep each class is, by `path:name`; protocols and exceptions are left out."""
    nodes = {node.name: node for _, node in classes()}
    bases = {name: bases_of(node) for name, node in nodes.items() if not is_protocol(node)}

    def is_exception(name: str, seen: tuple[str, ...] = ()) -> bool:
        above = bases.get(name, [])
        return name not in seen and any(
            each in EXCEPTIONS or is_exception(each, (*seen, name)) for each in above
        )

    return {
        f"{path}:{node.name}": depth(node.name, bases)
        for path, node in classes()
        if not is_protocol(node) and not is_exception(node.name)
    }


def test_there_are_few_files() -> None:
    assert len([*SOURCES.rglob("*.py")]) <= FILES
    around = [
        path for path in modules() if path.parts[0] in ("spark", "pipeline") or "exchange" in path.parts
    ]
    assert len(around) <= FILES_AROUND_SPARK


def test_packages_are_looked_through_at_once() -> None:
    sizes = Counter(path.parent for path in modules())
    assert {str(package): size for package, size in sizes.items() if size > MODULES_OF_A_PACKAGE} == {}


def test_modules_are_of_a_size_to_read() -> None:
    lines = {str(path): (ROOT / path).read_text(encoding="utf-8").count("\n") for path in modules()}
    assert {path: count for path, count in lines.items() if count > LINES} == {}


def test_every_package_says_what_lives_there() -> None:
    packages = [tree for path, tree in modules().items() if path.name == "__init__.py"]
    assert [tree for tree in packages if not ast.get_docstring(tree)] == []


def test_a_file_has_a_name_of_its_own() -> None:
    named = Counter(path.name for path in modules())
    assert {name for name, count in named.items() if count > 1} <= SAME_ROLE


def test_a_public_class_has_a_name_of_its_own() -> None:
    found = defaultdict(set)
    for path, node in classes():
        if not node.name.startswith("_"):
            found[node.name].add(path)
    assert len([name for name, paths in found.items() if len(paths) > 1]) <= SHARED_CLASS_NAMES


@pytest.mark.parametrize(
    ("below", "limit"),
    [("", DEPTH), ("engine/", DEPTH_OF_ENGINES), ("reasoner/", DEPTH_OF_REASONERS)],
)
def test_classes_are_put_together_rather_than_stacked(below: str, limit: int) -> None:
    found = {name: each for name, each in towers().items() if name.startswith(below)}
    assert found
    assert {name: each for name, each in found.items() if each > limit} == {}


def test_protocols_are_small() -> None:
    sizes = {
        node.name: sum(isinstance(each, ast.FunctionDef) for each in node.body)
        for _, node in classes()
        if is_protocol(node)
    }
    assert {name: size for name, size in sizes.items() if size > METHODS_OF_A_PROTOCOL} == {}


def test_engines_have_types() -> None:
    arguments = [
        node
        for tree in modules().values()
        for node in ast.walk(tree)
        if isinstance(node, ast.arg)
        and node.arg.endswith("engine")
        and isinstance(node.annotation, ast.Name)
        and node.annotation.id == "Any"
    ]
    assert len(arguments) <= ENGINES_OF_ANY_TYPE


def test_docstrings_say_what_is_returned_or_done() -> None:
    documented = (ast.Module, ast.ClassDef, ast.FunctionDef)
    texts = [
        ast.get_docstring(node) or ""
        for tree in modules().values()
        for node in ast.walk(tree)
        if isinstance(node, documented)
    ]
    assert len([text for text in texts if re.match("Let |Nothing, if|Nobody ", text)]) <= ODD_DOCSTRINGS
