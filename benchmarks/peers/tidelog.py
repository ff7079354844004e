"""tidelog through its Python interface, in this process."""

from __future__ import annotations

from collections.abc import Callable

from benchmarks.clock import timed
from benchmarks.peers.outcome import Outcome
from benchmarks.program import read_program
from benchmarks.workloads import Prepared


def ready_tidelog(prepared: Prepared, variant: str, threads: int) -> Callable[[], Outcome]:
    """The materialisation of the workload's own program; there is one way to do it, so no variants."""
    import tidelog
    from tidelog.engine.events import Event, FactsLoaded

    if variant:
        raise ValueError(f"tidelog has no variant {variant!r} in this suite")
    tidelog.Reasoner(tidelog.parse("p(1) . q(?x) :- p(?x) ."), threads=threads).materialise()
    outputs = read_program(prepared.workload).outputs

    def materialise() -> Outcome:
        loading: list[float] = []

        def listen(event: Event) -> None:
            if isinstance(event, FactsLoaded):
                loading.append(event.seconds)

        reasoner = tidelog.Reasoner(tidelog.load(prepared.program), threads=threads, listeners=[listen])
        _, _, wall = timed(reasoner.materialise)
        tuples = sum(len(reasoner[predicate]) for predicate in outputs)
        return Outcome(tuples, sum(loading), wall - sum(loading))

    return materialise
