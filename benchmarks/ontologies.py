"""OWL 2 RL over university data, by tidelog and by reasoners of PyPI.

All read the same files, and all answers are compared: the triples of the ontology's own classes and
properties. Triples about the ontology, and of `owl:Thing`, are not counted: reasoners differ in these.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from benchmarks import workloads
from benchmarks.clock import cpu_seconds, peak_megabytes, timed
from benchmarks.record import Measurement, Task

ONTOLOGY = Path(__file__).parent / "programs" / "university.ttl"
UB = "https://example.org/university#"
Done = tuple[float, float, Callable[[], int]]  # CPU seconds of loading and reasoning, what counts triples
Work = Callable[[], Done]
TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"


def data_file(size: int) -> Path:
    """The file of so many triples, N-Triples that are read as Turtle too; it is made if it is not there."""
    path = workloads.RESULTS / "data" / f"university-{size}-{workloads.digest()}.ttl"
    if not path.exists():
        from benchmarks.university import university_facts

        path.parent.mkdir(parents=True, exist_ok=True)
        lines = [line for name, table in university_facts(size).items() for line in _lines(name, table)]
        path.write_text("".join(lines), encoding="utf-8")
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
    """What one reasoner takes to read the files and to derive everything, imports apart."""
    work = READY[task.engine](task, data_file(task.size))
    (loading, reasoning, count), cpu, wall = timed(work)
    peak = peak_megabytes()
    return Measurement(cpu, wall, count(), peak, load_s=loading, reason_s=reasoning)


def ready_tidelog(task: Task, data: Path) -> Work:
    """tidelog by the tables, or by rules that are specialised to the ontology: that is part of reasoning."""
    import tidelog as tl
    from tidelog.logic.include import bundled_rules
    from tidelog.ontology.ontology import load_ontology

    tl.prepare()

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
        found = reasoner["triple"]
        return (
            loaded - made,
            made - begun + derived - loaded,
            lambda: _counted(found.to_texts("ntriples").table),
        )

    return work


def _counted(table: pa.Table) -> int:
    """The triples of the ontology's own classes and properties."""
    _, predicate, object_ = table.columns
    is_own = pc.starts_with(predicate, f"<{UB}")
    is_typed = pc.and_(pc.equal(predicate, f"<{TYPE}>"), pc.starts_with(object_, f"<{UB}"))
    return int(pc.sum(pc.or_(is_own, is_typed)).as_py())


def ready_reasonable(task: Task, data: Path) -> Work:
    """reasonable reads files itself, and gives its triples to Python."""
    import reasonable

    def work() -> Done:
        begun = cpu_seconds()
        reasoner = reasonable.PyReasoner()
        reasoner.load_file(str(ONTOLOGY))
        reasoner.load_file(str(data))
        loaded = cpu_seconds()
        found = reasoner.reason()
        reasoned = cpu_seconds()
        return loaded - begun, reasoned - loaded, lambda: _counted_terms(found)

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
        return loaded - begun, reasoned - loaded, lambda: _counted_terms(graph)

    return work


def _counted_terms(triples: Iterable[tuple[Any, Any, Any]]) -> int:
    """The same of triples of rdflib."""
    return sum(
        str(predicate).startswith(UB) or (str(predicate) == TYPE and str(object_).startswith(UB))
        for _, predicate, object_ in triples
    )


READY = {"tidelog": ready_tidelog, "reasonable": ready_reasonable, "owlrl": ready_owlrl}
