"""Nemo through its Python binding: the same program, with absolute paths, and totals counted by a rule."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.peers.outcome import Outcome
from benchmarks.program import Program, read_program
from benchmarks.workloads import Prepared


def ready_nemo(prepared: Prepared, variant: str, threads: int) -> Callable[[], Outcome]:
    """Nemo has one thread and one way."""
    import nmo_python

    nmo_python.NemoEngine(nmo_python.load_string("p(1) . q(?x) :- p(?x) .")).reason()
    program = read_program(prepared.workload)
    text = prepared.program.read_text(encoding="utf-8")
    rules = [line for line in text.splitlines() if not line.startswith("@output")]
    text = "\n".join([*rules, *counting_rules(program)])
    text = text.replace('resource = "', f'resource = "{prepared.folder}/')

    def materialise() -> Outcome:
        engine = nmo_python.NemoEngine(nmo_python.load_string(text))
        engine.reason()
        totals = [row[0] for predicate in program.outputs for row in engine.result(f"total_{predicate}")]
        return Outcome(sum(totals))

    return materialise


def counting_rules(program: Program) -> Iterator[str]:
    """A predicate `total_p` for every output predicate `p`, with the number of its facts."""
    for predicate in program.outputs:
        variables = ", ".join(f"?c{column}" for column in range(len(program.columns[predicate])))
        yield f"total_{predicate}(#count({variables})) :- {predicate}({variables}) ."
        yield f"@output total_{predicate} ."
