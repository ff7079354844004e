"""`owl:sameAs` as the equality of programs, in place of the rows that replace one thing by another.

Motik, Nenov, Piro, Horrocks: Handling owl:sameAs via Rewriting, AAAI 2015. A row such as prp-fp makes two
things the same. As a rule of equality it merges them, and facts are kept over representatives:

    ?y = ?z :- triple(?x, ex:mother, ?y), triple(?x, ex:mother, ?z) .

Which things are the same is then asked of a relation `rl:alike`. It holds each thing that such a row may
merge beside itself; as equals are interchangeable, a pair of two different things in it are two of one class.
So the triples of `owl:sameAs` are what the tables say, without a rule instance for each two things of a class
and each value that they have in common.

Literals are never merged. Those that are written differently and have one value stay what the rows dt-eq and
dt-diff make of them, which takes it that values of data properties are literals, and other values are not.

Invariant: the program has the triples of the tables, if properties are declared for what they are and no
thing is said to be the same as a literal.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import replace
from typing import Final

from tidelog.logic.program import (
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
X, Y, Z, P = map(Variable, "xyzp")
OF_LITERALS: Final = "dt-eq"  # the row that makes literals the same
# What equality itself does.
REPLACED: Final = frozenset({"eq-ref", "eq-sym", "eq-trans", "eq-rep-s", "eq-rep-p", "eq-rep-o"})


def _is_literal(term: Variable, *, negated: bool = False) -> Condition:
    return Condition(Apply("ISLITERAL", (term,)), negated)


_ARE_SAME: Final = Atom(TRIPLE, (X, SAME, Y))
IS_EQUALITY: Final = Rule(
    Atom(EQUAL, (X, Y)),
    (_ARE_SAME, _is_literal(X, negated=True), _is_literal(Y, negated=True)),
    name="eq-rep",
)
IS_SAME: Final = Rule(_ARE_SAME, (Atom(ALIKE, (X, Y)), Comparison("!=", X, Y)), name="eq-trans")
# Of literals, which are not merged.
LITERALS_REPLACED: Final = Rule(
    Atom(TRIPLE, (Z, P, Y)),
    (_ARE_SAME, _is_literal(X), _is_literal(Y), Atom(TRIPLE, (Z, P, X))),
    name="eq-rep-o",
)


def by_rewriting(program: Program, data_properties: Collection[Value]) -> Program:
    """The program with rules of equality in place of the rows that replace."""
    kept = without_replacing(program).rules
    rules = [made for rule in kept for made in _merging(rule, data_properties)]
    predicates = {EQUAL: _predicate(EQUAL, EQUAL)}
    if any(rule.head.predicate == ALIKE for rule in rules):
        rules.append(IS_SAME)
        predicates[ALIKE] = _predicate(ALIKE, "rl:alike")
    rules += (IS_EQUALITY, LITERALS_REPLACED)
    return replace(program, predicates={**program.predicates, **predicates}, rules=tuple(rules))


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
            body = tuple(literal for literal in rule.body if not _tells_apart(literal, left, right))
            merging = replace(rule, head=Atom(EQUAL, (left, right)), body=body)
            group = group_of(merging)
            half = merging.body if group is None else group.body
            yield merging
            yield Rule(Atom(ALIKE, (left, left)), half, span=rule.span)
        case _:
            yield rule


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
