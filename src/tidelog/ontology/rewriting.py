"""`owl:sameAs` as the equality of programs, in place of the rows that replace one thing by another.

Motik, Nenov, Piro, Horrocks: Handling owl:sameAs via Rewriting, AAAI 2015. A row such as prp-fp makes two
things the same. As a rule of equality it merges them, and facts are kept over representatives:

    ?y = ?z :- triple(?x, ex:mother, ?y), triple(?x, ex:mother, ?z), rl:alike(?y, ?y), rl:alike(?z, ?z) .

`rl:alike` holds each thing that such a row may merge beside itself; as equals are interchangeable, a pair of
two different things in it are two of one class. So the triples of `owl:sameAs` are what the tables say,
without a rule instance for each two things of a class and each value that they have in common.

Literals are never merged, neither with each other nor with things: what is the same as a literal is replaced
by it row by row. So `1` and `1.0` may both be the same as a thing, which the rows dt-eq and dt-diff decide.

Invariant: the program has the triples of the tables, and is inconsistent if they are.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final

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
    Variable,
)
from tidelog.logic.values import ColumnType, Value
from tidelog.ontology.owl2rl import DATATYPE
from tidelog.ontology.schema import Closure
from tidelog.ontology.vocabulary import TABLES, TRIPLE, TYPE, owl, rdfs
from tidelog.rewrite.equal_groups import group_of

SAME: Final = Constant(owl("sameAs"))
ALIKE: Final = TABLES + "alike"
BESIDE_LITERAL: Final = TABLES + "beside_literal"
X, Y, Z, P = map(Variable, "xyzp")
OF_LITERALS: Final = "dt-eq"  # the row that makes literals the same
# What equality itself does.
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

# What follows from no row: that two names are the same is inconsistent, where names are unique.
UNIQUE_NAMES: Final = Rule(
    Atom(BOTTOM, ()),
    (_ARE_SAME, Comparison("!=", X, Y), *(Condition(Apply("ISIRI", (each,))) for each in (X, Y))),
    name="unique names",
)


def by_rewriting(program: Program, data_properties: Collection[Value]) -> Program:
    """The program with rules of equality in place of the rows that replace.

    Of data properties, whose values are literals, the rows stay: they would merge nothing.
    """
    kept = without_replacing(program).rules
    rules = [made for rule in kept for made in _merging(rule, data_properties)]
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
    """The properties whose values are literals, as far as an ontology says so."""
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
    """The rule, or rules of equality if it makes two things the same."""
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
    """The rule that merges the things which a row makes the same, and those that say what they are."""
    body = tuple(literal for literal in rule.body if not _tells_apart(literal, left, right))
    merging = replace(rule, head=Atom(EQUAL, (left, right)), body=body)
    group = group_of(merging)
    halves = {left: body, right: body} if group is None else {group.constant: group.body}
    for each, half in halves.items():
        yield Rule(_is_thing(each), (*half, _is_literal(each, negated=True)), span=rule.span)
    yield replace(merging, body=(*body, _is_thing(left), _is_thing(right)))


def _is_value(variable: Variable, atom: Atom, data_properties: Collection[Value]) -> bool:
    """Whether a variable is the value of a data property in an atom."""
    match atom:
        case Atom(predicate, (_, Constant(property_), object_)):
            return predicate == TRIPLE and object_ == variable and property_ in data_properties
    return False


def _tells_apart(literal: object, left: Variable, right: Variable) -> bool:
    """Whether a literal only says that two things are not one."""
    match literal:
        case Comparison("!=", first, second):
            return {first, second} == {left, right}
    return False
