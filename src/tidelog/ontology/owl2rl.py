"""OWL 2 RL rules specialised to one ontology: the tables, partially evaluated.

Grosof, Horrocks, Volz, Decker: Description Logic Programs, WWW 2003; the *lower bound* programs of Motik,
Nenov, Piro, Horrocks: Combining Rewriting and Incremental Materialisation Maintenance for Datalog Programs
with Equality, IJCAI 2015, section 5.

A rule of `owl2rl.rls` has literals about the ontology (`?class owl:onProperty ?p`) and literals about the
data (`?x ?p ?y`). The former are matched here, once, against the ontology closed under the tables; what is
left is one rule for each match, over the latter alone: `?x ub:headOf ?y, ?y rdf:type ub:Department`.
`unfolding` then does away with what stands between them.

Invariant: over data without axioms, the rules derive the triples that the tables derive, apart from triples
about the ontology itself, memberships of `owl:Thing` and of classes without a name.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Final

from tidelog.logic.program import Atom, Constant, Fact, Program, Rule
from tidelog.logic.values import Value
from tidelog.ontology.schema import Closure, Index, Row
from tidelog.ontology.unfolding import Hidden, decide, simplified
from tidelog.ontology.vocabulary import AXIOMATIC, LISTS, METACLASSES, TABLES, TRIPLE, TYPE, owl, rdfs
from tidelog.rewrite.renaming import renamed_rule

DATATYPE: Final = TABLES + "datatype"
PART: Final = TABLES + "part"
# Rows about single things, which data may state too: they stay as they are.
ABOUT_THINGS: Final = ("eq-", "prp-npa")
# Rows that follow from nothing.
AXIOMS: Final = frozenset({"prp-ap", "cls-thing", "cls-nothing1", "dt-type1"})
# Rows by which restrictions contain one another. What else is a subclass, another row says of its members.
BETWEEN_RESTRICTIONS: Final = frozenset({"scm-hv", "scm-svf1", "scm-svf2", "scm-avf1", "scm-avf2"})
# Relations of which the stated triples are enough: the rules pass from one to the next.
PASSED_ON: Final = frozenset(
    [
        *map(rdfs, ("subClassOf", "subPropertyOf", "domain", "range")),
        *map(owl, ("equivalentClass", "equivalentProperty")),
    ]
)
LISTS_OF_THINGS: Final = frozenset(map(owl, ("members", "distinctMembers")))


def specialise(tables: Program, closure: Closure) -> Program:
    """The tables as rules for one ontology, of which this is what they conclude."""
    index = Index(_given(tables, closure))
    found = [made for rule in tables.rules for made in _specialised(rule, index)]
    hidden = Hidden(frozenset(row[0] for row in closure.facts[DATATYPE]), _classes_of_things(closure))
    rules = tuple(simplified(found, hidden))
    return replace(tables, rules=rules, facts=tuple(_used(tables, rules)), imports=(), outputs=(TRIPLE,))


def is_about_ontology(atom: Atom) -> bool:
    """Whether an atom speaks of the ontology, so that data has no part in it."""
    if atom.predicate != TRIPLE:
        return atom.predicate.startswith(LISTS) or atom.predicate in (DATATYPE, PART)
    _, predicate, object_ = atom.terms
    if predicate == Constant(TYPE):
        return isinstance(object_, Constant) and object_.value in METACLASSES
    return isinstance(predicate, Constant) and predicate.value in AXIOMATIC


def _given(tables: Program, closure: Closure) -> Mapping[str, Iterable[Row]]:
    """The facts about the ontology that rules are made of."""
    complete = Index(closure.facts)
    between = {
        tuple(term.value for term in made.head.terms if isinstance(term, Constant))
        for rule in tables.rules
        if rule.name in BETWEEN_RESTRICTIONS
        for made in _instances(rule, complete)
    }
    triples = {row for row in closure.facts[TRIPLE] if row[1] not in PASSED_ON}
    stated = {row for row in closure.stated if row[1] in PASSED_ON}
    return {**closure.facts, TRIPLE: triples | stated | between}


def _specialised(rule: Rule, index: Index) -> Iterator[Rule]:
    """The rules that a rule of the tables becomes."""
    name = rule.name or ""
    if name.startswith(ABOUT_THINGS) or _lists_things(rule):
        yield rule
    elif name not in AXIOMS and not name.startswith("scm-") and not is_about_ontology(rule.head):
        yield from _instances(rule, index)


def _lists_things(rule: Rule) -> bool:
    """Whether a rule finds the members of lists of things, such as those that are all different."""
    if not rule.head.predicate.startswith(LISTS):
        return False
    properties = [atom.terms[1] for atom in rule.positive if atom.predicate == TRIPLE]
    is_list = rule.head.predicate == LISTS + "list"
    return not is_list or any(Constant(name) in properties for name in LISTS_OF_THINGS)


def _instances(rule: Rule, index: Index) -> Iterator[Rule]:
    """The rule, once for each way in which its literals about the ontology hold, without them."""
    about = [atom for atom in rule.positive if is_about_ontology(atom)]
    rest = tuple(item for item in rule.body if not (isinstance(item, Atom) and is_about_ontology(item)))
    for binding in index.solutions(about):
        made = renamed_rule(replace(rule, body=rest), binding)
        body = decide(made.body)
        if body is not None:
            yield replace(made, body=body)


def _classes_of_things(closure: Closure) -> frozenset[Value]:
    """The classes to which the ontology says that something belongs."""
    return frozenset(row[2] for row in closure.stated if row[1] == TYPE)


def _used(tables: Program, rules: Iterable[Rule]) -> Iterator[Fact]:
    """The facts of the tables that rules read."""
    read = {atom.predicate for rule in rules for atom in (*rule.positive, *rule.negated)}
    return (fact for fact in tables.facts if fact.predicate in read)
