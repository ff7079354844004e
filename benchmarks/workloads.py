"""The workloads, and the folders with their facts and programs.

A folder is made once and kept in benchmarks/results/data; its name ends in a digest of the code that
makes facts, so that facts never outlive it.
"""

from __future__ import annotations

import hashlib
import shutil
from dataclasses import dataclass
from functools import cache
from pathlib import Path

from benchmarks.program import FOLDER, program_path

HERE = Path(__file__).parent
RESULTS = HERE / "results"
OWL = "ontology"  # the program that an ontology is translated to
MAKERS = ("generators.py", "university.py", "business.py", "facts.py")
SOURCES = (*(HERE / name for name in MAKERS), FOLDER / "ontology.tsv")


@dataclass(frozen=True)
class Workload:
    """A program, and about how many facts it is given."""

    name: str
    title: str
    size: int
    quick_size: int
    program: str = ""  # that of another workload


WORKLOADS: dict[str, Workload] = {
    workload.name: workload
    for workload in (
        Workload("W1", "linear closure of a power-law graph", 10_000, 3_000),
        Workload("W2", "nonlinear closure of a uniform graph", 10_000, 1_000),
        Workload("W3", "closure of a chain", 2_000, 500),
        Workload("W4", "same generation in a tree", 3_279, 1_092),
        Workload("W5", "university, 63 rules, a predicate per name", 1_000_000, 50_000),
        Workload("W6", "the same as triples, RDFS", 1_000_000, 50_000),
    )
}
CHANGING: dict[str, Workload] = WORKLOADS | {
    workload.name: workload
    for workload in (
        Workload("cliques", "symmetric and transitive, groups of 10 to 40", 120_000, 4_000),
        Workload("cut", "a clique of 300 cut in the middle", 299, 99, program="cliques"),
    )
}
ASKED: dict[str, Workload] = {
    workload.name: workload
    for workload in (
        Workload("W7L", "what one node reaches, left-linear rules", 88_234, 4_000),
        Workload("W7R", "what one node reaches, right-linear rules", 88_234, 4_000),
        Workload("facebook", "closure of the Facebook graph, right-linear rules", 88_234, 4_000, "W7R"),
        Workload("facebook-left", "the same, left-linear rules", 88_234, 4_000, "W7L"),
        Workload("friends", "the same, edges both ways, right-linear rules", 88_234, 4_000, "W7R"),
        Workload("friends-left", "the same, edges both ways, left-linear rules", 88_234, 4_000, "W7L"),
        Workload("rand1k", "closure of a sparse graph, nonlinear rules", 1_000, 200, "W7N"),
        Workload("rand1k-linear", "closure of a sparse graph, right-linear rules", 1_000, 200, "W7R"),
        Workload("rmat1k", "closure of a power-law graph, right-linear rules", 11_000, 1_100, "W7R"),
        Workload("rmat1k-nonlinear", "the same, nonlinear rules", 11_000, 1_100, "W7N"),
        Workload("lubm-rdfs", "university as triples, RDFS", 4_000_000, 20_000, "W6"),
        Workload("lubm-owl", "university as triples, OWL 2 RL of its ontology", 4_000_000, 20_000, OWL),
    )
}
VALUED: dict[str, Workload] = {
    workload.name: workload
    for workload in (
        Workload("W9", "order lines, prices are decimals", 1_000_000, 20_000),
        Workload("W9-doubles", "order lines, prices are doubles", 1_000_000, 20_000),
        Workload("W10", "log lines: texts, dateTimes, durations", 1_000_000, 10_000),
        Workload("W11-interest", "compound interest of so many accounts", 100_000, 500),
        Workload("W11-parts", "bills of materials of so many products", 5_000, 20),
        Workload("W12", "amicable numbers, all pairs tried", 3_000, 200),
        Workload("W13", "so many rounds of adding 1", 1_000_000, 10_000),
    )
}


@dataclass(frozen=True)
class Prepared:
    """A workload of one size whose files are there."""

    workload: str
    facts: int
    folder: Path

    @property
    def program(self) -> Path:
        return self.folder / f"{self.workload}.rls"


def prepare(workload: Workload, size: int) -> Prepared:
    """The workload with its facts and its program in one folder."""
    folder = RESULTS / "data" / f"{workload.name}-{size}-{digest()}"
    if not folder.exists():
        # Here, because a process that only reads the facts must not hold the generators' libraries.
        from benchmarks.facts import write_facts

        write_facts(workload.name, size, folder)
    program = folder / f"{workload.name}.rls"
    if workload.program == OWL:
        program.write_text(ontology_program(), encoding="utf-8")
    else:
        shutil.copyfile(program_path(workload.program or workload.name), program)
    return Prepared(workload.name, int((folder / "facts").read_text()), folder)


def ontology_program() -> str:
    """The university's ontology as rules over triples, which are imported."""
    from tidelog.ontology.ontology import load_ontology

    lines = load_ontology(FOLDER / "university.ttl").text().splitlines()
    kept = "\n".join(line for line in lines if not line.startswith("@declare triple"))
    return f'@import triple :- tsv{{resource = "triple.tsv", format = (any, any, any)}} .\n{kept}\n'


@cache
def digest() -> str:
    """A short name for the code and the ontology that facts are made from."""
    return hashlib.sha256(b"".join(path.read_bytes() for path in SOURCES)).hexdigest()[:8]
