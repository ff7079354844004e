"""Renews the parts of the documentation that repeat what the code knows.

A generated part stands between `<!-- generated: name -->` and `<!-- end -->`. With `--check` nothing is
written: a part that is not fresh, or a code that no page names, is an error. The walks on Spark are renewed
with `--spark`, which starts a session.
"""

from __future__ import annotations

import ast
import re
import sys
import tempfile
import tomllib
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType

import walks

from tidelog.errors import codes
from tidelog.logic.functions import builtins
from tidelog.logic.functions.function import ALIASES, Function

DOCS = Path(__file__).parent
SOURCES = DOCS.parent / "src" / "tidelog"
PART = re.compile(r"(<!-- generated: (.+?) -->\n)(.*?)(<!-- end -->)", re.DOTALL)
CODE = re.compile(r'"([EW]\d{3})"')


def _area(module: ModuleType) -> str:
    return module.__name__.rpartition(".")[2]


def functions(module: ModuleType) -> str:
    """The table of the functions that one module of `logic.functions` defines."""
    lines = ["| call | also | value |", "|---|---|---|"]
    for name, function in builtins.FUNCTIONS.items():
        if function.implementation.__module__ == module.__name__:
            lines.append(_row(name, function))
    return "\n".join(lines) + "\n"


def _row(name: str, function: Function) -> str:
    mark = " †" if function.boolean else ""
    aliases = ", ".join(f"`{alias}`" for alias, meant in ALIASES.items() if meant == name)
    return f"| `{function.signature}`{mark} | {aliases} | {function.summary} |"


def code_table(meanings: Mapping[str, str]) -> str:
    """The table of some codes."""
    rows = (f"| {code} | {meaning} |" for code, meaning in sorted(meanings.items()))
    return "\n".join(["| code | means |", "|---|---|", *rows]) + "\n"


def packages() -> str:
    """The table of the packages, from their docstrings, the highest layer first."""
    settings = tomllib.loads((DOCS.parent / "pyproject.toml").read_text(encoding="utf-8"))
    layers = settings["tool"]["importlinter"]["contracts"][0]["layers"]
    names = [name for layer in layers for name in re.findall(r"\w+", layer.replace("(web)", ""))]
    lines = ["| package | what lives there |", "|---|---|"]
    for name in names:
        for source in sorted((SOURCES / name).rglob("__init__.py")) or [SOURCES / f"{name}.py"]:
            path = source.parent if source.name == "__init__.py" else source
            folder = path.relative_to(SOURCES).as_posix()
            said = ast.get_docstring(ast.parse(source.read_text(encoding="utf-8"))) or ""
            first = " ".join(said.split("\n\n")[0].split())
            lines.append(f"| [{folder}](../src/tidelog/{folder}) | {first} |")
    return "\n".join(lines) + "\n"


def walk(make: Callable[[Path], walks.Walk]) -> str:
    """The numbered list of the files that a walk enters, each with the first functions called in it."""
    with tempfile.TemporaryDirectory() as folder:
        return listed(make(Path(folder)))


def listed(walk: walks.Walk) -> str:
    lines = []
    for number, (file, functions) in enumerate(walk.items(), 1):
        shown = ", ".join(f"`{name}`" for name in functions[: walks.SHOWN])
        more = ", …" if len(functions) > walks.SHOWN else ""
        lines.append(f"{number}. [{file}](../src/tidelog/{file}): {shown}{more}")
    return "\n".join(lines) + "\n"


PARTS: dict[str, Callable[[], str]] = {
    **{f"functions of {_area(module)}": partial(functions, module) for module in builtins.AREAS},
    "syntax errors": partial(code_table, codes.SYNTAX_MEANINGS),
    "program errors": partial(code_table, codes.LOGIC_MEANINGS),
    "data errors": partial(code_table, codes.DATA_MEANINGS),
    "pipeline errors": partial(code_table, codes.PIPELINE_MEANINGS),
    "publishing errors": partial(code_table, codes.PUBLISH_MEANINGS),
    "store errors": partial(code_table, codes.STORE_MEANINGS),
    "frame errors": partial(code_table, codes.SPARK_MEANINGS),
    "exchange errors": partial(code_table, codes.EXCHANGE_MEANINGS),
    "packages": packages,
    **{f"walk {name}": partial(walk, make) for name, make in walks.WALKS.items()},
}


def renewed(text: str, parts: Mapping[str, Callable[[], str]] = PARTS) -> str:
    """The text of a page with its generated parts as they should be; those not among `parts` stay."""

    def renew(part: re.Match[str]) -> str:
        name = part[2]
        if name not in parts and name.removeprefix("walk ") in walks.SPARK_WALKS:
            return part[0]
        return part[1] + parts[name]() + part[4]

    return PART.sub(renew, text)


def with_spark() -> dict[str, Callable[[], str]]:
    """All parts, those that need a session of Spark included."""
    from tidelog.spark.session import SessionSettings

    spark = SessionSettings(master="local[2]").start()
    on_spark = {name: listed(make(spark)) for name, make in walks.SPARK_WALKS.items()}
    return {**PARTS, **{f"walk {name}": partial(str, text) for name, text in on_spark.items()}}


def unnamed_codes(pages: Iterable[Path]) -> set[str]:
    """The codes that the sources use and no page names, and those that only pages name."""
    used = {code for path in SOURCES.rglob("*.py") for code in CODE.findall(path.read_text(encoding="utf-8"))}
    named = {
        code
        for path in pages
        for code in re.findall(r"^\| ([EW]\d{3}) \|", path.read_text(encoding="utf-8"), re.MULTILINE)
    }
    return used ^ named


def main() -> int:
    """Renew all pages, or check them; returns how many faults there are."""
    pages = sorted(DOCS.rglob("*.md"))
    parts = with_spark() if "--spark" in sys.argv else PARTS
    faults = []
    for page in pages:
        text = page.read_text(encoding="utf-8")
        fresh = renewed(text, parts)
        if fresh == text:
            continue
        if "--check" in sys.argv:
            faults.append(f"{page}: generated parts are stale: run `make docs`")
        else:
            page.write_text(fresh, encoding="utf-8")
            print(f"renewed {page}")
    missing = unnamed_codes(pages)
    if missing:
        faults.append(f"codes that only the code or only the documentation has: {', '.join(sorted(missing))}")
    print("\n".join(faults), file=sys.stderr, end="\n" if faults else "")
    return len(faults)


if __name__ == "__main__":
    sys.exit(main())
