"""What `import tidelog` pulls in: nothing optional, and nothing slow before it is used."""

from __future__ import annotations

import subprocess
import sys

import pytest

OPTIONAL = (
    "numba",
    "llvmlite",
    "pyoxigraph",
    "pyspark",
    "py4j",
    "polars",
    "pandas",
    "prompt_toolkit",
    "rich",
    "starlette",
    "uvicorn",
)
SLOW = ("numpy", "pyarrow")


def modules_after(statements: str) -> set[str]:
    """The top-level modules that a fresh interpreter has imported after the statements."""
    show = "import sys; print(' '.join({name.partition('.')[0] for name in sys.modules}))"
    done = subprocess.run(
        [sys.executable, "-c", f"{statements}\n{show}"], capture_output=True, text=True, check=True
    )
    return set(done.stdout.splitlines()[-1].split())


def test_importing_tidelog_imports_nothing_slow() -> None:
    assert modules_after("import tidelog; tidelog.__version__").isdisjoint({*OPTIONAL, *SLOW})


def test_parsing_a_program_needs_no_engine() -> None:
    loaded = modules_after("import tidelog; tidelog.parse('p(1) . q(?x) :- p(?x) .')")
    assert loaded.isdisjoint({*OPTIONAL, "pyarrow"})


@pytest.mark.parametrize("name", ["Reasoner", "Relation", "Program"])
def test_names_that_are_imported_when_used_are_there(name: str) -> None:
    assert "tidelog" in modules_after(f"from tidelog import {name}; import tidelog; tidelog.{name}")


def test_reasoning_needs_nothing_optional() -> None:
    loaded = modules_after(
        "import tidelog as tl\n"
        "r = tl.Reasoner(tl.parse('p(1, a) . q(?x) :- p(?x, _), ?x < 5 .'))\n"
        "r.insert('p', [(2, 'b')])\n"
        "list(r['q'].sorted()); r['q'].to_arrow(); r.query('q(?x)')"
    )
    assert loaded.isdisjoint(OPTIONAL)


def test_an_unknown_name_is_an_attribute_error() -> None:
    import tidelog

    with pytest.raises(AttributeError, match="Reazoner"):
        _ = getattr(tidelog, "Reazoner")  # noqa: B009 - mypy knows
