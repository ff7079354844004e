"""Kernels are declared as they are called: who calls what, with how many arguments, of which types."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from tidelog import compiled
from tidelog.compiled.objects import PACKAGE, find_sources, loaded
from tidelog.data.dictionary_kernels import classify_texts
from tidelog.data.text_kernels import USES
from tidelog.equality.classes import label_components, walk
from tidelog.temporal.interval_kernels import length_of, sort_by_left, total_length

Name = tuple[str, str]  # of a module, and of a function in it


def module_name(path: Path) -> str:
    return ".".join(("tidelog", *path.relative_to(PACKAGE).with_suffix("").parts))


TREES = {module_name(path): ast.parse(path.read_text()) for path in sorted(PACKAGE.rglob("*.py"))}


def decorated(module: str) -> Iterator[tuple[ast.FunctionDef, str, str]]:
    """The compiled functions of a module, with their decorator and signature."""
    for node in TREES[module].body:
        for decorator in node.decorator_list if isinstance(node, ast.FunctionDef) else ():
            assert isinstance(node, ast.FunctionDef)
            if isinstance(decorator, ast.Call) and ast.unparse(decorator.func) == "kernel":
                yield node, "kernel", ast.literal_eval(decorator.args[0])
            elif ast.unparse(decorator) in ("subroutine", "inlined"):
                yield node, ast.unparse(decorator), ""


FUNCTIONS = {
    (module, node.name): (node, decorator, signature)
    for module in find_sources().modules
    for node, decorator, signature in decorated(module)
}
KERNELS = {name: signature for name, (_, decorator, signature) in FUNCTIONS.items() if decorator == "kernel"}


def used_by_python(module: str, tree: ast.Module) -> Iterator[Name]:
    """The compiled functions that plain Python of a module names."""
    names = {name: (owner, name) for owner, name in FUNCTIONS if owner == module}
    modules: dict[str, str] = {}
    for node in ast.walk(tree):
        for one in node.names if isinstance(node, ast.ImportFrom) else ():
            assert isinstance(node, ast.ImportFrom)
            names[one.asname or one.name] = (node.module or "", one.name)
            modules[one.asname or one.name] = f"{node.module}.{one.name}"

    def visit(node: ast.AST) -> Iterator[Name]:
        for child in ast.iter_child_nodes(node):
            if (
                isinstance(child, ast.FunctionDef)
                and FUNCTIONS.get((module, child.name), (None,))[0] is child
            ):
                continue
            if isinstance(child, ast.Name):
                yield names.get(child.id, ("", ""))
            elif isinstance(child, ast.Attribute) and isinstance(child.value, ast.Name):
                yield modules.get(child.value.id, ""), child.attr
            yield from visit(child)

    return visit(tree)


USED = {name for module, tree in TREES.items() for name in used_by_python(module, tree) if name in FUNCTIONS}


def test_python_calls_kernels_and_nothing_else_that_is_compiled() -> None:
    assert len(KERNELS) > 80
    assert USED - set(KERNELS) == set()


def test_every_kernel_is_called_by_python() -> None:
    only_tests = {("tidelog.engine.columnar.interpreter.interpreter", "find_entry")}
    assert set(KERNELS) - USED == only_tests


@pytest.mark.parametrize("name", KERNELS, ids=".".join)
def test_a_signature_has_a_type_for_each_argument(name: Name) -> None:
    node, _, signature = FUNCTIONS[name]
    arguments = signature.partition(" -> ")[0].replace("[:,:]", "[:]").split(", ")
    assert len(arguments) == len(node.args.args)


def test_the_object_has_what_is_declared() -> None:
    declared = {".".join(name): signature for name, signature in KERNELS.items()}
    assert {name: signature for name, (_, signature) in loaded().entries.items()} == declared


# ---- what is refused

ONE = np.zeros(1, np.int64)


def test_calls_that_fit_are_answered() -> None:
    assert total_length(np.array([3, 4]), np.array([0, -1, 1, 1])) == 11
    assert total_length(np.zeros(0, np.int64), np.zeros(0, np.int64)) == 0


@pytest.mark.parametrize(
    ("arguments", "error", "message"),
    [
        ((ONE,), TypeError, "total_length takes 2 arguments, not 1"),
        (
            (ONE, ONE.astype(np.int32)),
            TypeError,
            r"argument 2 is an array of type i.*its signature is const i64",
        ),
        ((ONE, ONE.astype(np.float64)), TypeError, "argument 2 is an array of type d"),
        ((ONE, ONE.reshape(1, 1)), TypeError, "2 dimensions"),
        ((np.zeros(4, np.int64)[::2], ONE), ValueError, "contiguous"),
        ((ONE, [0]), TypeError, "bytes-like"),
        ((ONE, 0), TypeError, "bytes-like"),
    ],
)
def test_arguments_of_other_types_are_refused(
    arguments: tuple[object, ...], error: type[Exception], message: str
) -> None:
    with pytest.raises(error, match=message):
        total_length(*arguments)


def test_a_read_only_array_is_refused_where_a_kernel_may_write() -> None:
    frozen = np.arange(3)
    frozen.flags.writeable = False
    with pytest.raises(ValueError, match="read-only"):
        label_components(frozen, ONE, ONE)


def test_numbers_out_of_range_are_refused() -> None:
    none = USES, np.zeros(0, np.uint8), np.zeros(0, np.int64), np.zeros(0, np.int32)
    for number in (1 << 63, -(1 << 63) - 1):
        with pytest.raises(OverflowError):
            classify_texts(0, 0, 0, number, *none)
    classify_texts(0, 0, 0, np.int64(0), *none)


def test_what_only_kernels_call_is_refused() -> None:
    for function in (length_of, sort_by_left, compiled.mix):
        with pytest.raises(RuntimeError, match="part of kernels"):
            function(1, 2)


def test_a_kernel_that_is_not_in_the_object_is_refused() -> None:
    @compiled.kernel("i64 -> i64")
    def unknown(number: int) -> int:
        return number

    with pytest.raises(RuntimeError, match=r"unknown cannot be called: it is not in .*`make kernels`"):
        unknown(1)


def test_a_kernel_with_another_signature_in_the_object_is_refused() -> None:
    def changed(*_: object) -> None: ...

    changed.__module__, changed.__name__ = "tidelog.equality.classes", "walk"
    assert compiled.kernel(KERNELS["tidelog.equality.classes", "walk"])(changed) is walk
    with pytest.raises(RuntimeError, match="it has the signature 'i32"):
        compiled.kernel("i64")(changed)(1)
