"""What `import tidelog` pulls in: nothing optional, and nothing slow before it is used."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

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
FIVE_FACTS = """
parent(ann, bob) . parent(bob, cid) . parent(cid, dot) . parent(dot, eve) . parent(eve, fay) .
ancestor(?x, ?y) :- parent(?x, ?y) .
ancestor(?x, ?z) :- ancestor(?x, ?y), parent(?y, ?z) .
"""
# What programs without equality, changes, proofs, … do without.
SUBSYSTEMS = (
    "equality.rewriting",
    "equality.treatment",
    "maintenance.driver",
    "maintenance.registry",
    "ontology.ontology",
    "proof.prover",
    "proof.proof_search",
    "query.tabling",
    "show",
    "io.rdf",
)
STORES = ("reasoner.storing", "store.snapshot", "store.store")
# Modules of tidelog that are imported, which may only fall.
BY_IMPORT, BY_RUN, BY_QUERY = 3, 166, 179


def loaded_by(*arguments: str) -> set[str]:
    """The modules that a command imports."""
    statements = f"from tidelog.__main__ import main; main({list(arguments)!r})"
    done = subprocess.run(
        [sys.executable, "-c", f"{statements}\nimport sys; print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    return set(done.stdout.splitlines()[-1].split())


def own(modules: set[str]) -> set[str]:
    return {name.removeprefix("tidelog.") for name in modules if name.startswith("tidelog.")}


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


def test_running_a_plain_program_imports_what_it_needs(tmp_path: Path) -> None:
    program = tmp_path / "five.rls"
    program.write_text(FIVE_FACTS)
    loaded = loaded_by("run", str(program))
    assert own(loaded).isdisjoint({*SUBSYSTEMS, *STORES})
    assert loaded.isdisjoint({*OPTIONAL, "pyarrow.compute", "pyarrow.parquet", "hashlib", "html"})
    assert len(own(loaded)) <= BY_RUN


def test_a_query_of_a_store_imports_what_it_needs(tmp_path: Path) -> None:
    program, store = tmp_path / "five.rls", str(tmp_path / "store")
    program.write_text(FIVE_FACTS)
    loaded_by("run", str(program), "--store", store)
    loaded = loaded_by("query", "--store", store, "--read-only", "ancestor(ann, ?x)")
    assert own(loaded) >= set(STORES)
    assert loaded.isdisjoint({*OPTIONAL, "pyarrow.compute", "pyarrow.parquet"})
    assert len(own(loaded)) <= BY_QUERY


def test_importing_tidelog_imports_its_errors_only() -> None:
    done = subprocess.run(
        [sys.executable, "-c", "import tidelog, sys; dir(tidelog); print(*sys.modules)"],
        capture_output=True,
        text=True,
        check=True,
    )
    assert len(own(set(done.stdout.split()))) <= BY_IMPORT


def test_all_public_names_can_be_imported_at_once() -> None:
    names = "import tidelog; space = {}; exec('from tidelog import *', space)"
    check = (
        f"{names}; assert set(tidelog.__all__) <= set(space) and set(tidelog.__all__) <= set(dir(tidelog))"
    )
    subprocess.run([sys.executable, "-c", check], check=True)
