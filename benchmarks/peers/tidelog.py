"""tidelog through its Python interface, in this process."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.clock import cpu_seconds
from benchmarks.peers.outcome import Outcome
from benchmarks.program import read_program
from benchmarks.workloads import Prepared

SMALLEST = "e(1, 2) . p(?x, ?y) :- e(?x, ?y) . p(?x, ?z) :- p(?x, ?y), p(?y, ?z) ."


def ready_tidelog(prepared: Prepared, variant: str, threads: int) -> Callable[[], Outcome]:
    """The materialisation of the workload's own program; there is one way to do it, so no variants."""
    import tidelog
    from tidelog.engine.events import Event, FactsLoaded

    if variant:
        raise ValueError(f"tidelog has no variant {variant!r} in this suite")
    tidelog.Reasoner(SMALLEST).materialise()  # start-up, as it is for the others
    outputs = read_program(prepared.workload).outputs

    def materialise() -> Outcome:
        marks = [cpu_seconds()]

        def listen(event: Event) -> None:
            if isinstance(event, FactsLoaded):
                marks.append(cpu_seconds())

        reasoner = tidelog.Reasoner(tidelog.load(prepared.program), threads=threads, listeners=[listen])
        reasoner.materialise()
        tuples = sum(len(reasoner[predicate]) for predicate in outputs)
        # All files are read before the first rule runs: the last mark divides the two.
        return Outcome(tuples, marks[-1] - marks[0], cpu_seconds() - marks[-1])

    return materialise
