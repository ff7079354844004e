"""Renews the parts of the documentation that repeat what the code knows.

A generated part stands between `<!-- generated: name -->` and `<!-- end -->`. With `--check` nothing is
written: a part that is not fresh, or a code that no page names, is an error.
"""

from __future__ import annotations

import re
import sys
from collections.abc import Callable, Iterable, Mapping
from functools import partial
from pathlib import Path
from types import ModuleType

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
}


def renewed(text: str) -> str:
    """The text of a page with its generated parts as they should be."""
    return PART.sub(lambda part: part[1] + PARTS[part[2]]() + part[4], text)


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
    faults = []
    for page in pages:
        text = page.read_text(encoding="utf-8")
        fresh = renewed(text)
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
