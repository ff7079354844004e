"""egglog through its Python binding: relations, rules run to saturation, sizes printed."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from benchmarks.peers.outcome import Outcome
from benchmarks.program import Atom, Program, Variable, read_program
from benchmarks.workloads import Prepared

TYPES = {"int": "i64", "string": "String"}


def ready_egglog(prepared: Prepared, variant: str, threads: int) -> Callable[[], Outcome]:
    """egglog reads the files by itself; it has one thread and one way."""
    from egglog.bindings import EGraph, PrintFunctionSize

    EGraph()
    program = read_program(prepared.workload)
    text = "\n".join(egglog_program(program, str(prepared.folder)))

    def materialise() -> Outcome:
        graph = EGraph()
        replies = graph.run_program(*graph.parse_program(text))
        return Outcome(sum(reply.size for reply in replies if isinstance(reply, PrintFunctionSize)))

    return materialise


def egglog_program(program: Program, folder: str) -> Iterator[str]:
    """The program in egglog's language, which replies with the sizes of the output predicates."""
    for predicate, types in program.columns.items():
        yield f"(relation {predicate} ({' '.join(TYPES[kind] for kind in types)}))"
    for each in program.imports:
        yield f'(input {each.predicate} "{folder}/{each.resource}")'
    for rule in program.rules:
        yield f"(rule ({' '.join(map(egglog_atom, rule.body))}) ({egglog_atom(rule.head)}))"
    yield "(run-schedule (saturate (run)))"
    for predicate in program.outputs:
        yield f"(print-size {predicate})"


def egglog_atom(atom: Atom) -> str:
    terms = (term.name if isinstance(term, Variable) else f'"{term}"' for term in atom.terms)
    return f"({atom.predicate} {' '.join(terms)})"
