"""OWL 2 RL rules specialised to one ontology: the tables, partially evaluated.

Grosof, Horrocks, Volz, Decker: Description Logic Programs, WWW 2003; the *lower bound* programs of Motik,
Nenov, Piro, Horrocks: Combining Rewriting and Incremental Materialisation Maintenance for Datalog Programs
with Equality, IJCAI 2015, section 5.

A rule of `owl2rl.rls` has literals about the ontology (`?class owl:onProperty ?p`) and literals about the
data (`?x ?p ?y`). `specialise` matches the former, once, against the ontology closed under the tables; what
is left is one rule for each match, over the latter alone: `?x ub:headOf ?y, ?y rdf:type ub:Department`.
`simplified` then removes the intermediate predicates.

Invariant: over data without axioms, the rules derive the triples that the tables derive, apart from triples
about the ontology itself, memberships of `owl:Thing` and of classes without a name.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Final

from tidelog.logic.program import (
    Atom,
    Comparison,
    Constant,
    Fact,
    Literal,
    Program,
    Rule,
    Term,
    Variable,
    literal_variables,
)
from tidelog.logic.values import Kind, Value
from tidelog.ontology.schema_closure import (
    AXIOMATIC,
    LISTS,
    METACLASSES,
    TABLES,
    TRIPLE,
    TYPE,
    Closure,
    FactIndex,
    Row,
    owl,
    rdfs,
)
from tidelog.records import dataclass
from tidelog.rewrite.renaming import renamed_rule

# ---- rules without intermediate predicates
#
# A class without a name, such as a restriction, is defined by some rules and read by others. Predicates that
# no rule reads are not derived, those that no rule derives are not read, and where a class is not defined by
# itself its definitions take its place in the rules that read it.

WALKS: Final = frozenset(TABLES + name for name in ("leads", "within", "agree"))  # along a list, by its nodes
ASKED: Final = frozenset(TABLES + name for name in ("term", "asked", "of"))  # of datatypes, by their names
MOST: Final = 32  # rules that one rule may become in place of reading a definition

NAMES: Final = "xyzuvw"  # of variables, the first ones

Handle = tuple[str, Value | None]
Key = tuple[Atom, frozenset[Literal]]


@dataclass(frozen=True)
class Hidden:
    """The parts that results do not contain: datatypes, and classes and properties without a name.

    Classes that have explicit members are visible.
    """

    datatypes: frozenset[Value]
    classes_of_things: frozenset[Value]

    def handle(self, atom: Atom) -> Handle | None:
        """Return the hidden part that an atom reads, if any: predicate, and class, node or datatype."""
        if atom.predicate in WALKS or atom.predicate in ASKED:
            term = atom.terms[1]
            return atom.predicate, term.value if isinstance(term, Constant) else None
        if atom.predicate != TRIPLE:
            return None
        _, predicate, object_ = atom.terms
        named = object_ if predicate == Constant(TYPE) else predicate
        if not isinstance(named, Constant) or not self._is_hidden(named.value):
            return None
        return TRIPLE, named.value

    def _is_hidden(self, value: Value) -> bool:
        is_unnamed = value.kind is Kind.BLANK or value in self.datatypes
        return is_unnamed and value not in self.classes_of_things


def simplified(rules: Iterable[Rule], hidden: Hidden) -> list[Rule]:
    """Return rules that derive the same facts, without hidden ones."""
    unfolding = _Unfolding(hidden)
    for rule in _living(list(rules), hidden):
        unfolding.add(rule)
    unfolding.run()
    return _living(list(unfolding.rules.values()), hidden)


def _canonical(rule: Rule) -> Rule:
    """The rule with variables named in their order, each literal once."""
    body = tuple(dict.fromkeys(rule.body))
    counted = Counter(item for literal in (rule.head, *body) for item in literal_variables(literal))
    names: dict[Variable, Term] = {}
    for variable, count in counted.items():
        number = len(names)
        name = NAMES[number] if number < len(NAMES) else f"x{number}"
        names[variable] = Variable(name if count > 1 else f"_{number}")
    return renamed_rule(replace(rule, body=body), names)


# ---- predicates derived and read


def _living(rules: Sequence[Rule], hidden: Hidden) -> list[Rule]:
    """The rules that can derive facts which are read or visible."""
    living = _derivable(rules, hidden)
    while True:
        read = {handle for rule in living for handle in _read(rule, hidden)}
        kept = [rule for rule in living if _is_seen(rule, read, hidden)]
        if len(kept) == len(living):
            return kept
        living = kept


def _derivable(rules: Sequence[Rule], hidden: Hidden) -> list[Rule]:
    """The rules whose bodies can hold, since other rules derive the hidden facts that they need."""
    derived: set[Handle] = set()
    pending = [(rule, tuple(_needed(rule, hidden))) for rule in rules]
    left: list[Rule] = []
    while True:
        waiting = []
        for rule, needed in pending:
            if all(_is_met(handle, derived) for handle in needed):
                left.append(rule)
                derived |= {handle for handle in [hidden.handle(rule.head)] if handle is not None}
            else:
                waiting.append((rule, needed))
        if len(waiting) == len(pending):
            return left
        pending = waiting


def _is_met(handle: Handle, derived: set[Handle]) -> bool:
    predicate, value = handle
    if value is None:
        return any(known == predicate for known, _ in derived)
    return handle in derived or (predicate, None) in derived


def _needed(rule: Rule, hidden: Hidden) -> Iterator[Handle]:
    """The hidden facts that must hold for the rule to derive a fact."""
    return (handle for atom in rule.positive if (handle := hidden.handle(atom)) is not None)


def _read(rule: Rule, hidden: Hidden) -> Iterator[Handle]:
    """The hidden facts that the rule reads, negated or not."""
    return (handle for atom in rule.body_atoms if (handle := hidden.handle(atom)) is not None)


def _is_seen(rule: Rule, read: set[Handle], hidden: Hidden) -> bool:
    handle = hidden.handle(rule.head)
    return handle is None or _is_met(handle, read)


# ---- unfolding


class _Unfolding:
    """Replaces hidden predicates by their definitions, one after the other. Mutable.

    Rules are indexed by meaning, so that there are no duplicates; trivial rules, which are often the only
    reason why a definition is recursive, are left out.
    """

    def __init__(self, hidden: Hidden) -> None:
        self.rules: dict[Key, Rule] = {}
        self._hidden = hidden
        self._defining: dict[Handle, dict[Key, None]] = defaultdict(dict)
        self._reading: dict[Handle, dict[Key, None]] = defaultdict(dict)

    def add(self, rule: Rule) -> None:
        """Add a rule, unless it is trivial or a duplicate."""
        plain = _canonical(rule)
        key = plain.head, frozenset(plain.body)
        says_nothing = plain.head in plain.body or not set(plain.positive).isdisjoint(plain.negated)
        if says_nothing or key in self.rules:
            return
        self.rules[key] = plain
        for handles, index in self._places(plain):
            for handle in handles:
                index[handle][key] = None

    def _remove(self, key: Key) -> Rule:
        rule = self.rules.pop(key)
        for handles, index in self._places(rule):
            for handle in handles:
                index[handle].pop(key, None)
        return rule

    def _places(self, rule: Rule) -> Iterator[tuple[list[Handle], dict[Handle, dict[Key, None]]]]:
        """The hidden parts that a rule defines and reads, each with its index."""
        handle = self._hidden.handle(rule.head)
        yield [handle] if handle is not None else [], self._defining
        yield list(_read(rule, self._hidden)), self._reading

    def run(self) -> None:
        """Unfold all definitions that can be unfolded."""
        remaining = [handle for handle in self._defining if handle[0] not in ASKED and handle[1] is not None]
        while True:
            waiting = [handle for handle in remaining if not self._unfold(handle)]
            if len(waiting) == len(remaining):
                return
            remaining = waiting

    def _unfold(self, handle: Handle) -> bool:
        """Replace a hidden part by its definitions; return False if these are recursive or too many."""
        definitions = [self.rules[key] for key in self._defining[handle]]
        readers = [self.rules[key] for key in self._reading[handle]]
        is_recursive = any(handle in _read(rule, self._hidden) for rule in definitions)
        if is_recursive or any(self._grown(rule, handle, len(definitions)) > MOST for rule in readers):
            return False
        for key in list(self._defining[handle]):
            self._remove(key)
        for key in list(self._reading[handle]):
            for unfolded in self._replaced(self._remove(key), handle, definitions):
                self.add(unfolded)
        return True

    def _grown(self, rule: Rule, handle: Handle, definitions: int) -> int:
        """The number of rules that replace a rule; too many if it negates the hidden part."""
        if any(self._hidden.handle(atom) == handle for atom in rule.negated):
            return MOST + 1
        uses = sum(needed == handle for needed in _needed(rule, self._hidden))
        return int(definitions**uses)

    def _replaced(
        self, rule: Rule, handle: Handle, definitions: Sequence[Rule], depth: int = 0
    ) -> Iterator[Rule]:
        """The rules that replace one rule, with a definition for each atom that reads the hidden part."""
        atom = next((atom for atom in rule.positive if self._hidden.handle(atom) == handle), None)
        if atom is None:
            body = decide(rule.body)
            if body is not None:
                yield replace(rule, body=body)
            return
        for definition in definitions:
            resolved = _resolved(rule, atom, definition, f"{depth}_")
            if resolved is not None:
                yield from self._replaced(resolved, handle, definitions, depth + 1)


def _resolved(rule: Rule, atom: Atom, definition: Rule, mark: str) -> Rule | None:
    """The rule with the body of a definition in place of an atom; None if the two do not unify."""
    variables = (item for each in (definition.head, *definition.body) for item in literal_variables(each))
    renamed = renamed_rule(definition, {item: Variable(mark + item.name) for item in variables})
    names = _unifier(atom.terms, renamed.head.terms)
    if names is None:
        return None
    place = rule.body.index(atom)
    body = (*rule.body[:place], *renamed.body, *rule.body[place + 1 :])
    return renamed_rule(replace(rule, body=body), names)


def _unifier(left: Sequence[Term], right: Sequence[Term]) -> dict[Variable, Term] | None:
    """The most general unifier of two lists of terms; None if there is none."""
    names: dict[Variable, Term] = {}

    def final(term: Term) -> Term:
        while isinstance(term, Variable) and term in names:
            term = names[term]
        return term

    for left_term, right_term in zip(left, right, strict=True):
        first, second = final(left_term), final(right_term)
        if first == second:
            continue
        if isinstance(second, Variable):
            names[second] = first
        elif isinstance(first, Variable):
            names[first] = second
        else:
            return None
    return {variable: final(variable) for variable in names}


def decide(body: tuple[Literal, ...]) -> tuple[Literal, ...] | None:
    """Return the body without comparisons of two constants; None if one of them fails."""
    left: list[Literal] = []
    for literal in body:
        if isinstance(literal, Comparison) and literal.operator in ("=", "!="):
            first, second = literal.left, literal.right
            if isinstance(first, Constant) and isinstance(second, Constant):
                if (first == second) != (literal.operator == "="):
                    return None
                continue
            if first == second and literal.operator == "!=":
                return None
        left.append(literal)
    return tuple(left)


# ---- specialising the tables

DATATYPE: Final = TABLES + "datatype"
PART: Final = TABLES + "part"
# Rows about single things, which data may also contain: they stay as they are.
ABOUT_THINGS: Final = ("eq-", "prp-npa")
# Rows without premises.
AXIOMS: Final = frozenset({"prp-ap", "cls-thing", "cls-nothing1", "dt-type1"})
# Rows for inclusions of restrictions. For other subclasses, another row derives their members.
BETWEEN_RESTRICTIONS: Final = frozenset({"scm-hv", "scm-svf1", "scm-svf2", "scm-avf1", "scm-avf2"})
# Relations of which the explicit triples are enough: the rules pass from one to the next.
PASSED_ON: Final = frozenset(
    [
        *map(rdfs, ("subClassOf", "subPropertyOf", "domain", "range")),
        *map(owl, ("equivalentClass", "equivalentProperty")),
    ]
)
LISTS_OF_THINGS: Final = frozenset(map(owl, ("members", "distinctMembers")))


def specialise(tables: Program, closure: Closure) -> Program:
    """Return the tables as rules for the ontology of this closure."""
    index = FactIndex(_given(tables, closure))
    specialised = [
        rule_of_ontology for rule in tables.rules for rule_of_ontology in _specialised(rule, index)
    ]
    hidden = Hidden(frozenset(row[0] for row in closure.facts[DATATYPE]), _classes_of_things(closure))
    rules = tuple(simplified(specialised, hidden))
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
    """The facts about the ontology with which rules are specialised."""
    complete = FactIndex(closure.facts)
    inclusions = {
        tuple(term.value for term in instance.head.terms if isinstance(term, Constant))
        for rule in tables.rules
        if rule.name in BETWEEN_RESTRICTIONS
        for instance in _instances(rule, complete)
    }
    triples = {row for row in closure.facts[TRIPLE] if row[1] not in PASSED_ON}
    explicit = {row for row in closure.explicit if row[1] in PASSED_ON}
    return {**closure.facts, TRIPLE: triples | explicit | inclusions}


def _specialised(rule: Rule, index: FactIndex) -> Iterator[Rule]:
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


def _instances(rule: Rule, index: FactIndex) -> Iterator[Rule]:
    """The instances of a rule for all matches of its literals about the ontology, without these literals."""
    schema_atoms = [atom for atom in rule.positive if is_about_ontology(atom)]
    rest = tuple(item for item in rule.body if not (isinstance(item, Atom) and is_about_ontology(item)))
    for binding in index.solutions(schema_atoms):
        instance = renamed_rule(replace(rule, body=rest), binding)
        body = decide(instance.body)
        if body is not None:
            yield replace(instance, body=body)


def _classes_of_things(closure: Closure) -> frozenset[Value]:
    """The classes of which the ontology states members."""
    return frozenset(row[2] for row in closure.explicit if row[1] == TYPE)


def _used(tables: Program, rules: Iterable[Rule]) -> Iterator[Fact]:
    """The facts of the tables that rules read."""
    read = {name for rule in rules for name in rule.read}
    return (fact for fact in tables.facts if fact.predicate in read)
