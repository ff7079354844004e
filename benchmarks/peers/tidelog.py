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

    tidelog.prepare()  # loading compiled code is start-up, as it is for the others
    if variant:
        raise ValueError(f"tidelog has no variant {variant!r} in this suite")
    outputs = read_program(prepared.workload).outputs

    def materialise() -> Outcome:
        reasoner, load, _ = timed(lambda: tidelog.Reasoner(tidelog.load(prepared.program), threads=threads))
        _, reason, _ = timed(reasoner.materialise)
        return Outcome(sum(len(reasoner[predicate]) for predicate in outputs), load, reason)

    return materialise
