"""clingo, grounding only: a program without choices is solved by its grounder.

clingo reads facts as text of its own; the file is written once, before the clock starts.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

from benchmarks.peers.outcome import Outcome
from benchmarks.program import Atom, Import, Program, Variable, read_program
from benchmarks.workloads import Prepared


def ready_clingo(prepared: Prepared, variant: str, threads: int) -> Callable[[], Outcome]:
    """The grounder has one thread; every atom it knows at the end is a fact."""
    import clingo

    clingo.Control().ground([("base", [])])
    program = read_program(prepared.workload)
    facts = prepared.folder / "facts.lp"
    if not facts.exists():
        write_facts(program, prepared.folder, facts)
    rules = "\n".join(clingo_rules(program))
    uncounted = [each for each in program.imports if each.predicate not in program.outputs]

    def materialise() -> Outcome:
        control = clingo.Control(["--warn=none"])
        control.load(str(facts))
        control.add("base", [], rules)
        control.ground([("base", [])])
        inputs = sum(1 for each in uncounted for _ in atoms_of(control, each))
        return Outcome(len(control.symbolic_atoms) - inputs)

    def atoms_of(control: clingo.Control, each: Import) -> Iterator[clingo.SymbolicAtom]:
        return control.symbolic_atoms.by_signature(clingo_name(each.predicate), len(each.types))

    return materialise


def clingo_rules(program: Program) -> Iterator[str]:
    for rule in program.rules:
        yield f"{clingo_atom(rule.head)} :- {', '.join(map(clingo_atom, rule.body))}."


def clingo_atom(atom: Atom) -> str:
    terms = (f"V{term.name}" if isinstance(term, Variable) else f'"{term}"' for term in atom.terms)
    return f"{clingo_name(atom.predicate)}({', '.join(terms)})"


def clingo_name(predicate: str) -> str:
    """A name that begins with a small letter, different for different predicates."""
    return f"p_{predicate}"


def write_facts(program: Program, folder: Path, target: Path) -> None:
    """All facts of the workload as clingo's text."""
    unfinished = target.with_suffix(".unfinished")
    with unfinished.open("w", encoding="utf-8") as sink:
        for each in program.imports:
            sink.writelines(fact_lines(each, folder / each.resource))
    unfinished.rename(target)


def fact_lines(source: Import, path: Path) -> Iterator[str]:
    quote = "" if source.types[0] == "int" else '"'
    with path.open(encoding="utf-8") as lines:
        for line in lines:
            terms = ",".join(f"{quote}{value}{quote}" for value in line.rstrip("\n").split("\t"))
            yield f"{clingo_name(source.predicate)}({terms}).\n"
