"""OWL 2 RL over university data, by tidelog and by reasoners of PyPI.

All read the same files, and all answers are compared: the triples of the ontology's own classes and
properties. Triples about the ontology, and of `owl:Thing`, are not counted: reasoners differ in these.

The clock runs from the files to all triples, given and derived, in the hands of Python: as Arrow columns of
N-Triples terms (tidelog), as a list of terms of rdflib (reasonable), as a graph of rdflib (owlrl). It counts
for all of them the ontology and what is made of it, the data, reasoning, and handing over; it does not count
the start of Python, imports, and loading what is compiled (tidelog's kernels, reasonable's library).
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks import workloads
from benchmarks.clock import cpu_seconds, peak_megabytes, timed
from benchmarks.record import Counts, Measurement, Task

ONTOLOGY = Path(__file__).parent / "programs" / "university.ttl"
UB = "https://example.org/university#"
Work = Callable[[], "Done"]
TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"


@dataclass(frozen=True)
class Done:
    """CPU seconds of reading the data, of reasoning, of handing all triples over; and what counts these.

    `rules_s` is the part of reasoning that is spent on making rules, whatever the size of the data.
    """

    load_s: float
    reason_s: float
    results_s: float
    count: Callable[[], int]
    rules_s: float = 0.0


def data_path(size: int) -> Path:
    """Where the file of so many triples is, or will be."""
    return workloads.RESULTS / "data" / f"university-{size}-{workloads.digest()}.ttl"


def data_file(size: int) -> Path:
    """The file of so many triples, N-Triples that are read as Turtle too; it is made if it is not there.

    Whoever is stopped while making it leaves no part of it behind.
    """
    path = data_path(size)
    if not path.exists():
        from benchmarks.university import university_facts

        path.parent.mkdir(parents=True, exist_ok=True)
        begun = path.with_suffix(f".{os.getpid()}")
        with begun.open("w", encoding="utf-8") as sink:
            for name, table in university_facts(size).items():
                sink.writelines(_lines(name, table))
        begun.replace(path)
    nt = path.with_suffix(".nt")
    if not nt.exists():
        nt.hardlink_to(path)
    return path


def _lines(predicate: str, table: pa.Table) -> list[str]:
    """The facts of a class or property as lines of N-Triples."""
    if not table.num_rows:
        return []
    subjects = _iris(table.column("subject").combine_chunks())
    if "object" not in table.column_names:
        return [f"{subject} <{TYPE}> <{UB}{predicate}> .\n" for subject in subjects]
    objects = table.column("object").combine_chunks()
    are_names = objects[0].as_py().startswith("http")
    terms = _iris(objects) if are_names else pc.binary_join_element_wise('"', objects, '"', "").to_pylist()
    return [f"{s} <{UB}{predicate}> {o} .\n" for s, o in zip(subjects, terms, strict=True)]


def _iris(texts: pa.Array) -> list[str]:
    found: list[str] = pc.binary_join_element_wise("<", texts, ">", "").to_pylist()
    return found


def reason(task: Task) -> Measurement:
    """What one reasoner takes to read the files, to derive everything and to hand it over, imports apart."""
    work = READY[task.engine](task, data_file(task.size))
    done, cpu, wall = timed(work)
    peak = peak_megabytes()
    parts: Counts = {"results_s": round(done.results_s, 4), "rules_s": round(done.rules_s, 4)}
    return Measurement(
        cpu, wall, done.count(), peak, load_s=done.load_s, reason_s=done.reason_s, counts=parts
    )


def ready_tidelog(task: Task, data: Path) -> Work:
    """tidelog by the tables, or by rules that are specialised to the ontology: that is part of reasoning."""
    import tidelog as tl
    import tidelog.reasoner.reasoner  # here, so that no measurement has it
    from tidelog.logic.scopes import bundled_rules
    from tidelog.ontology.ontology import load_ontology

    def work() -> Done:
        begun = cpu_seconds()
        if task.variant == "specialised":
            reasoner = tl.Reasoner(load_ontology(ONTOLOGY).program, threads=task.threads)
        else:
            reasoner = tl.Reasoner(tl.load(bundled_rules() / "owl2rl.rls"), threads=task.threads)
            reasoner.read(ONTOLOGY)
        made = cpu_seconds()
        reasoner.read(data.with_suffix(".nt"))
        loaded = cpu_seconds()
        reasoner.materialise()
        derived = cpu_seconds()
        found = reasoner["triple"].to_texts("ntriples").table
        given = cpu_seconds()
        rules = made - begun
        return Done(loaded - made, rules + derived - loaded, given - derived, lambda: _counted(found), rules)

    return work


def _counted(table: pa.Table) -> int:
    """The triples of the ontology's own classes and properties."""
    _, predicate, object_ = table.columns
    is_own = pc.starts_with(predicate, f"<{UB}")
    is_typed = pc.and_(pc.equal(predicate, f"<{TYPE}>"), pc.starts_with(object_, f"<{UB}"))
    return int(pc.sum(pc.or_(is_own, is_typed)).as_py())


def ready_reasonable(task: Task, data: Path) -> Work:
    """reasonable reads files itself, and hands its triples over as it reasons."""
    import reasonable

    def work() -> Done:
        begun = cpu_seconds()
        reasoner = reasonable.PyReasoner()
        reasoner.load_file(str(ONTOLOGY))
        reasoner.load_file(str(data))
        loaded = cpu_seconds()
        found = reasoner.reason()
        reasoned = cpu_seconds()
        return Done(loaded - begun, reasoned - loaded, 0.0, lambda: _counted_terms(found))

    return work


def ready_owlrl(task: Task, data: Path) -> Work:
    """owlrl closes a graph of rdflib."""
    import owlrl
    import rdflib

    def work() -> Done:
        begun = cpu_seconds()
        graph = rdflib.Graph()
        graph.parse(ONTOLOGY, format="turtle")
        graph.parse(data.with_suffix(".nt"), format="nt")
        loaded = cpu_seconds()
        owlrl.DeductiveClosure(owlrl.OWLRL_Semantics).expand(graph)
        reasoned = cpu_seconds()
        return Done(loaded - begun, reasoned - loaded, 0.0, lambda: _counted_terms(graph))

    return work


def _counted_terms(triples: Iterable[tuple[Any, Any, Any]]) -> int:
    """The same of triples of rdflib."""
    return sum(
        str(predicate).startswith(UB) or (str(predicate) == TYPE and str(object_).startswith(UB))
        for _, predicate, object_ in triples
    )


READY = {"tidelog": ready_tidelog, "reasonable": ready_reasonable, "owlrl": ready_owlrl}
