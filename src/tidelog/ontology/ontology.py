"""An ontology: its files, the rules that are specialised to it, and what these do not cover."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Final

from tidelog.errors import Diagnostic, ProgramError, Severity, counted
from tidelog.io.formats import format_of
from tidelog.logic.codes import EMPTY_PREDICATE
from tidelog.logic.equality import unknown_treatment
from tidelog.logic.include import bundled_rules
from tidelog.logic.program import Program, Rule, Transfer
from tidelog.logic.resolve import load
from tidelog.ontology.owl2rl import specialise
from tidelog.ontology.prefixes import prefixes_of
from tidelog.ontology.rewriting import UNIQUE_NAMES, by_rewriting, data_properties, without_replacing
from tidelog.ontology.rl_coverage import Gap, Graph, axioms, gaps
from tidelog.ontology.schema import Closure, close, read_triples
from tidelog.ontology.vocabulary import TRIPLE
from tidelog.plan.rule_text import Writing

OUTSIDE: Final = "W710"
NOT_TRIPLES: Final = "E710"
RULE_SET: Final = "owl2rl.rls"


@dataclass(frozen=True)
class Ontology:
    """An ontology as rules: `program` has them, and imports the files, whose triples are facts too."""

    paths: tuple[Path, ...]
    program: Program
    graph: Graph

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules that are specialised to the ontology."""
        return self.program.rules

    @property
    def axioms(self) -> Counter[str]:
        """How many axioms there are of each kind."""
        return axioms(self.graph)

    @property
    def gaps(self) -> list[Gap]:
        """The axioms, or parts of axioms, that lie outside OWL 2 RL."""
        return gaps(self.graph)

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """A warning for each axiom outside the profile."""
        return tuple(self._warning(f"outside OWL 2 RL: {gap.axiom}", gap.reason) for gap in self.gaps)

    @property
    def summary(self) -> tuple[Diagnostic, ...]:
        """One warning for all axioms outside the profile, if there are any."""
        if len(self.gaps) < 2:
            return self.warnings
        message = (
            f"{len(self.gaps):,} axioms lie outside OWL 2 RL, or a part of them does: that part is not used"
        )
        return (self._warning(message, f"`tidelog ontology {' '.join(map(str, self.paths))}` lists them"),)

    def _warning(self, message: str, help: str) -> Diagnostic:
        place = ", ".join(map(str, self.paths))
        return Diagnostic(OUTSIDE, message, help=help, severity=Severity.WARNING, place=place)

    def text(self) -> str:
        """The rules as a program that can be run, over triples that it does not import."""
        return "\n".join(self._lines()) + "\n"

    def _lines(self) -> Iterator[str]:
        writing = Writing.of(self.program)
        yield from (f"@prefix {name}: <{iri}> ." for name, iri in self.program.prefixes.items())
        yield ""
        yield "@declare triple(subject: any, predicate: any, object: any) ."
        yield "@output triple ."
        yield ""
        yield from map(writing.fact, self.program.facts)
        for rule in self.rules:
            text = writing.rule(rule) if rule.body else f"{writing.head(rule)} :- top() ."
            yield f'#[name("{rule.name}")] {text}' if rule.name else text

    def joined(self, program: Program) -> Program:
        """A program with the rules and the triples of the ontology."""
        own = self.program
        known = program.predicates.get(TRIPLE)
        if known is not None and known.arity != 3:
            message = f"`triple` has {counted(known.arity, 'argument')} here, but 3 in an ontology"
            raise ProgramError(Diagnostic(NOT_TRIPLES, message, known.span))
        is_empty = not program.rules and not program.outputs and not program.exports
        return replace(
            program,
            predicates={**own.predicates, **program.predicates},
            rules=(*program.rules, *own.rules),
            facts=(*program.facts, *own.facts),
            imports=(*own.imports, *program.imports),
            outputs=own.outputs if is_empty else program.outputs,
            prefixes={**own.prefixes, **program.prefixes},
            warnings=tuple(item for item in program.warnings if not _is_about_triples(item, program)),
        )


def _is_about_triples(warning: Diagnostic, program: Program) -> bool:
    """Whether a warning says that there are no triples, which the ontology brings."""
    known = program.predicates.get(TRIPLE)
    return warning.code == EMPTY_PREDICATE and known is not None and warning.span == known.span


def load_ontology(
    *paths: Path | str,
    equality: str = "axiomatise",
    unique_names: bool = False,
    tell: Callable[[str], None] = lambda notice: None,
) -> Ontology:
    """The ontology in some files; raises `DataError` if one cannot be read.

    With `equality="rewrite"` things that are `owl:sameAs` each other are merged, by rules with `?x = ?y` in
    their heads; with `"axiomatise"` the rows of the tables replace each by the other; with `"off"` neither.
    Then `unique_names` adds a rule by which it is inconsistent that two IRIs are the same.
    """
    files = tuple(Path(path) for path in paths)
    tables = load(bundled_rules() / RULE_SET)
    closure = close(tables, read_triples(files, tables.predicates[TRIPLE]), tell)
    program = _with_equality(specialise(tables, closure), closure, equality)
    if unique_names:
        program = replace(program, rules=(*program.rules, UNIQUE_NAMES))
    names = (value for row in closure.stated for value in row)
    prefixes = prefixes_of(names, program.prefixes)
    program = replace(program, prefixes=prefixes, imports=tuple(map(_import, files)))
    return Ontology(files, program, Graph(closure.stated, Writing(prefixes=prefixes).value))


def _with_equality(program: Program, closure: Closure, equality: str) -> Program:
    """The program with `owl:sameAs` treated so; raises `ProgramError` if there is no such treatment."""
    match equality:
        case "rewrite":
            return by_rewriting(program, data_properties(closure))
        case "axiomatise":
            return program
        case "off":
            return without_replacing(program)
    raise unknown_treatment(equality, ("rewrite", "axiomatise", "off"))


def _import(path: Path) -> Transfer:
    """The import of the triples of a file."""
    return Transfer(TRIPLE, format_of(path) or "rdf", {"resource": str(path.absolute())}, None, None)
