"""An ontology: its files, the rules specialised to it, and the axioms that the rules do not cover.

Begin with `load_ontology`. Two parts come before it: prefixes for the names of an ontology, and `owl:sameAs`
as the equality of programs.
"""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Final

from tidelog.errors import Diagnostic, ProgramError, Severity, counted
from tidelog.errors.codes import EMPTY_PREDICATE, NOT_TRIPLES, OUTSIDE_RL
from tidelog.io.data_file import format_of
from tidelog.logic.equality_axioms import unknown_treatment
from tidelog.logic.program import (
    BOTTOM,
    EQUAL,
    Apply,
    Atom,
    Comparison,
    Condition,
    Constant,
    Predicate,
    Program,
    Rule,
    Transfer,
    Variable,
)
from tidelog.logic.resolve import load
from tidelog.logic.scopes import bundled_rules
from tidelog.logic.values import ColumnType, Kind, Value
from tidelog.ontology.owl2rl import DATATYPE, specialise
from tidelog.ontology.rl_coverage import Gap, OntologyGraph, axioms, gaps
from tidelog.ontology.schema_closure import TABLES, TRIPLE, TYPE, Closure, close, owl, rdfs, read_triples
from tidelog.plan.rule_text import Writing
from tidelog.records import dataclass
from tidelog.rewrite.representatives import group_of

# ---- short prefixes for the names of an ontology

_NAME: Final = re.compile(r"(.*[/#])[A-Za-z0-9_][A-Za-z0-9_-]*")
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]*")
FEWEST: Final = 2  # names that are worth a prefix


def prefixes_of(values: Iterable[Value], known: Mapping[str, str]) -> dict[str, str]:
    """The known prefixes, and others for the namespaces in which several of the values lie.

    >>> from tidelog.logic.values import iri
    >>> prefixes_of([iri("https://example.org/zoo#Cat"), iri("https://example.org/zoo#Dog")], {})
    {'zoo': 'https://example.org/zoo#'}
    """
    matches = (_NAME.fullmatch(str(value.content)) for value in values if value.kind is Kind.IRI)
    counted = Counter(match[1] for match in matches if match is not None)
    prefixes = dict(known)
    for namespace, count in sorted(counted.items(), key=lambda item: (-item[1], item[0])):
        if count >= FEWEST and namespace not in prefixes.values():
            prefixes[_free(_word(namespace), prefixes)] = namespace
    return prefixes


def _word(namespace: str) -> str:
    """The last word of a namespace that can be a prefix; the ending of a file is none."""
    last = namespace.rstrip("/#").rpartition("/")[2]
    words = _WORD.findall(last.rpartition(".")[0] or last)
    return str(words[-1]).lower() if words else "ns"


def _free(word: str, used: Mapping[str, str]) -> str:
    number, free = 1, word
    while free in used:
        number += 1
        free = f"{word}{number}"
    return free


# ---- `owl:sameAs` as the equality of programs
#
# Motik, Nenov, Piro, Horrocks: Handling owl:sameAs via Rewriting, AAAI 2015. A row such as prp-fp makes two
# things equal. As a rule of equality it merges them, and facts are stored over representatives:
#
#     ?y = ?z :- triple(?x, ex:mother, ?y), triple(?x, ex:mother, ?z), rl:alike(?y, ?y), rl:alike(?z, ?z) .
#
# `rl:alike` holds each thing that such a row may merge, paired with itself; as equals are interchangeable, a
# pair of two different things in it are two of one class. So the triples of `owl:sameAs` are what the tables
# say, without a rule instance for each two things of a class and each value that they have in common.
#
# Literals are never merged, neither with each other nor with things: what is the same as a literal is
# replaced by it row by row. So `1` and `1.0` may both be the same as a thing, which the rows dt-eq and
# dt-diff decide.
#
# Invariant: the program has the triples of the tables, and is inconsistent if they are.

SAME: Final = Constant(owl("sameAs"))
ALIKE: Final = TABLES + "alike"
BESIDE_LITERAL: Final = TABLES + "beside_literal"
X, Y, Z, P = map(Variable, "xyzp")
OF_LITERALS: Final = "dt-eq"  # the row that makes literals the same
# The rows of equality itself.
REPLACED: Final = frozenset({"eq-ref", "eq-sym", "eq-trans", "eq-rep-s", "eq-rep-p", "eq-rep-o"})


def _is_literal(term: Variable, *, negated: bool = False) -> Condition:
    return Condition(Apply("ISLITERAL", (term,)), negated)


def _is_thing(term: Variable) -> Atom:
    return Atom(ALIKE, (term, term))


_ARE_SAME: Final = Atom(TRIPLE, (X, SAME, Y))
_HAVE_LITERAL: Final = Atom(BESIDE_LITERAL, (X, Y))
# Of things, which are merged.
MERGED: Final = (
    *(Rule(_is_thing(each), (_ARE_SAME, _is_literal(each, negated=True))) for each in (X, Y)),
    Rule(Atom(EQUAL, (X, Y)), (_ARE_SAME, _is_thing(X), _is_thing(Y)), name="eq-rep"),
    Rule(_ARE_SAME, (Atom(ALIKE, (X, Y)), Comparison("!=", X, Y)), name="eq-trans"),
)
# Of literals, and of things that are the same as a literal.
REPLACED_BY_ROWS: Final = (
    *(Rule(_HAVE_LITERAL, (_ARE_SAME, _is_literal(each))) for each in (X, Y)),
    Rule(Atom(TRIPLE, (Y, SAME, X)), (_HAVE_LITERAL,), name="eq-sym"),
    Rule(Atom(TRIPLE, (Y, P, Z)), (_HAVE_LITERAL, Atom(TRIPLE, (X, P, Z))), name="eq-rep-s"),
    Rule(Atom(TRIPLE, (Z, Y, P)), (_HAVE_LITERAL, Atom(TRIPLE, (Z, X, P))), name="eq-rep-p"),
    Rule(Atom(TRIPLE, (Z, P, Y)), (_HAVE_LITERAL, Atom(TRIPLE, (Z, P, X))), name="eq-rep-o"),
)

# Additional to the rows: if names are unique, two names for the same thing are inconsistent.
UNIQUE_NAMES: Final = Rule(
    Atom(BOTTOM, ()),
    (_ARE_SAME, Comparison("!=", X, Y), *(Condition(Apply("ISIRI", (each,))) for each in (X, Y))),
    name="unique names",
)


def by_rewriting(program: Program, data_properties: Collection[Value]) -> Program:
    """The program with rules of equality in place of the rows that replace.

    Rows about data properties, whose values are literals, stay, since they merge no things.
    """
    kept = without_replacing(program).rules
    rules = [rewritten for rule in kept for rewritten in _merging(rule, data_properties)]
    written = {EQUAL: EQUAL, ALIKE: "rl:alike", BESIDE_LITERAL: "rl:beside_literal"}
    predicates = {name: _predicate(name, text) for name, text in written.items()}
    return replace(
        program,
        predicates={**program.predicates, **predicates},
        rules=(*rules, *MERGED, *REPLACED_BY_ROWS),
    )


def without_replacing(program: Program) -> Program:
    """The program without the rows that replace: `owl:sameAs` is a property like others."""
    return replace(program, rules=tuple(rule for rule in program.rules if rule.name not in REPLACED))


def data_properties(closure: Closure) -> frozenset[Value]:
    """The properties that an ontology declares to have literals as values."""
    datatypes = {row[0] for row in closure.facts[DATATYPE]}
    triples = closure.facts[TRIPLE]
    return frozenset(
        subject
        for subject, predicate, object_ in triples
        if (predicate == TYPE and object_ == owl("DatatypeProperty"))
        or (predicate == rdfs("range") and object_ in datatypes)
    )


def _predicate(name: str, written: str) -> Predicate:
    return Predicate(name, 2, (None, None), (ColumnType.ANY, ColumnType.ANY), written)


def _merging(rule: Rule, data_properties: Collection[Value]) -> Iterator[Rule]:
    """The rule, or rules of equality if it makes two things equal."""
    match rule.head:
        case Atom(predicate, (Variable() as left, middle, Variable() as right)) if (
            predicate == TRIPLE
            and middle == SAME
            and left != right
            and rule.name != OF_LITERALS
            and not any(_is_value(left, atom, data_properties) for atom in rule.positive)
        ):
            yield from _merging_things(rule, left, right)
            for each in (left, right):
                yield replace(rule, body=(*rule.body, _is_literal(each)))
        case _:
            yield rule


def _merging_things(rule: Rule, left: Variable, right: Variable) -> Iterator[Rule]:
    """The rule that merges the things that a row makes equal, and the rules that find these things."""
    body = tuple(literal for literal in rule.body if not _are_different(literal, left, right))
    merging = replace(rule, head=Atom(EQUAL, (left, right)), body=body)
    group = group_of(merging)
    halves = {left: body, right: body} if group is None else {group.constant: group.body}
    for constant, half in halves.items():
        yield Rule(_is_thing(constant), (*half, _is_literal(constant, negated=True)), span=rule.span)
    yield replace(merging, body=(*body, _is_thing(left), _is_thing(right)))


def _is_value(variable: Variable, atom: Atom, data_properties: Collection[Value]) -> bool:
    """Whether a variable is the value of a data property in an atom."""
    match atom:
        case Atom(predicate, (_, Constant(property_), object_)):
            return predicate == TRIPLE and object_ == variable and property_ in data_properties
    return False


def _are_different(literal: object, left: Variable, right: Variable) -> bool:
    """Return whether a literal only states that two things are different."""
    match literal:
        case Comparison("!=", first, second):
            return {first, second} == {left, right}
    return False


# ---- an ontology

RULE_SET: Final = "owl2rl.rls"


@dataclass(frozen=True)
class Ontology:
    """An ontology as rules: `program` has them, and imports the files, whose triples are facts too."""

    paths: tuple[Path, ...]
    program: Program
    graph: OntologyGraph

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules that are specialised to the ontology."""
        return self.program.rules

    @property
    def axioms(self) -> Counter[str]:
        """The number of axioms of each kind."""
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
        message = f"{len(self.gaps):,} axioms are outside OWL 2 RL, wholly or in part: that part is ignored"
        return (self._warning(message, f"`tidelog ontology {' '.join(map(str, self.paths))}` lists them"),)

    def _warning(self, message: str, help: str) -> Diagnostic:
        place = ", ".join(map(str, self.paths))
        return Diagnostic(OUTSIDE_RL, message, help=help, severity=Severity.WARNING, place=place)

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
        ontology = self.program
        triple = program.predicates.get(TRIPLE)
        if triple is not None and triple.arity != 3:
            message = f"`triple` has {counted(triple.arity, 'argument')} here, but 3 in an ontology"
            raise ProgramError(Diagnostic(NOT_TRIPLES, message, triple.span))
        is_empty = not program.rules and not program.outputs and not program.exports
        return replace(
            program,
            predicates={**ontology.predicates, **program.predicates},
            rules=(*program.rules, *ontology.rules),
            facts=(*program.facts, *ontology.facts),
            imports=(*ontology.imports, *program.imports),
            outputs=ontology.outputs if is_empty else program.outputs,
            prefixes={**ontology.prefixes, **program.prefixes},
            warnings=tuple(item for item in program.warnings if not _is_about_triples(item, program)),
        )


def _is_about_triples(warning: Diagnostic, program: Program) -> bool:
    """Whether a warning is about missing triples, which the ontology has."""
    triple = program.predicates.get(TRIPLE)
    return warning.code == EMPTY_PREDICATE and triple is not None and warning.span == triple.span


def load_ontology(
    *paths: Path | str,
    equality: str = "axiomatise",
    unique_names: bool = False,
) -> Ontology:
    """Return the ontology in some files; raise `DataError` if one cannot be read.

    With `equality="rewrite"` things that are `owl:sameAs` each other are merged, by rules with `?x = ?y` in
    their heads; with `"axiomatise"` the rows of the tables replace each by the other; with `"off"` neither.
    Then `unique_names` adds a rule by which it is inconsistent that two IRIs are the same.
    """
    files = tuple(Path(path) for path in paths)
    tables = load(bundled_rules() / RULE_SET)
    closure = close(tables, read_triples(files, tables.predicates[TRIPLE]))
    program = _with_equality(specialise(tables, closure), closure, equality)
    if unique_names:
        program = replace(program, rules=(*program.rules, UNIQUE_NAMES))
    names = (value for row in closure.explicit for value in row)
    prefixes = prefixes_of(names, program.prefixes)
    program = replace(program, prefixes=prefixes, imports=tuple(map(_import, files)))
    return Ontology(files, program, OntologyGraph(closure.explicit, Writing(prefixes=prefixes).value))


def _with_equality(program: Program, closure: Closure, equality: str) -> Program:
    """The program with this treatment of `owl:sameAs`; raise `ProgramError` if there is none such."""
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
