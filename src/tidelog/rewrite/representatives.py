"""Rules over representatives: a program in which one constant stands for each class of equal ones.

Motik, Nenov, Piro, Horrocks: Handling owl:sameAs via Rewriting, AAAI 2015, for predicates of any arity, and
with negation, aggregates, comparisons and functions.

One constant of each class of equal ones is the representative. The relation `ALIAS` has the representative of
each of the others. Next to a predicate, which holds its explicit facts unchanged, there is its *stored*
relation: all facts, over representatives only. A rule reads and derives stored facts, its own constants being
representatives too.

Comparisons, functions and aggregates see members: a variable that they read is the representative, or one of
the others of its class. What they compute is replaced by its representative as soon as an atom reads it. Each
of these choices makes two rules of one.

Invariant: if no two representatives are equal, the stored facts of a predicate, with every constant replaced
by all members of its class, are the facts that the axioms of equality give it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cache
from itertools import chain, combinations

from tidelog.logic.equality_axioms import VIOLATED, X
from tidelog.logic.program import (
    BOTTOM,
    DIFFERENT,
    EQUAL,
    Assignment,
    Atom,
    Comparison,
    Constant,
    Literal,
    Negation,
    Predicate,
    Program,
    Rule,
    Term,
    Variable,
    literal_variables,
    variables_of,
)
from tidelog.logic.strata import order
from tidelog.logic.values import ColumnType, Value
from tidelog.records import dataclass
from tidelog.rewrite.auxiliary_relations import DIGEST_BYTES
from tidelog.rewrite.renaming import assigned_or_tested, renamed_body

# ---- rules that equate constants with the same key
#
# `?x = ?y :- passport(?x, ?n), passport(?y, ?n)` finds n² equalities among n holders of one passport; n - 1
# would do. Its body consists of two halves that differ in names only, and of what they share. One half gives
# a relation of *groups*, of keys and constants: all constants with one key are equal, and are merged without
# a pair for every two of them.
#
# Invariant: the rule derives an equality between two constants just if they are in a group with one key.


@dataclass(frozen=True, slots=True)
class KeyGroup:
    """The key and the constant of a rule's groups, and the body that gives them."""

    key: tuple[Variable, ...]
    constant: Variable
    body: tuple[Atom, ...]


def group_of(rule: Rule) -> KeyGroup | None:
    """The group of a rule that equates constants with the same key, else None.

    >>> from tidelog.logic.resolve import resolve
    >>> from tidelog.syntax.parser import parse_text
    >>> [rule] = resolve(parse_text("?x = ?y :- owner(?c, ?x), owner(?c, ?y), car(?c) .")).rules
    >>> group = group_of(rule)
    >>> [variable.name for variable in group.key], group.constant.name, len(group.body)
    (['c'], 'x', 2)
    """
    if rule.head.predicate != EQUAL or len(rule.positive) < len(rule.body):
        return None
    match rule.head.terms:
        case (Variable() as first, Variable() as second) if first != second:
            return _group(first, second, rule.positive)
    return None


def _group(first: Variable, second: Variable, atoms: tuple[Atom, ...]) -> KeyGroup | None:
    """The group of a body that consists of a half for each of the two variables, else None."""
    names: dict[Term, Term] = {first: second}
    unmatched = list(atoms)
    half: list[Atom] = []
    while (atom := next((atom for atom in unmatched if names.keys() & set(atom.terms)), None)) is not None:
        unmatched.remove(atom)
        counterparts = (other for other in unmatched if _renamed(atom, other, names) is not None)
        counterpart = next(counterparts, None)
        if counterpart is None:
            return None
        names = _renamed(atom, counterpart, names) or names
        unmatched.remove(counterpart)
        half.append(atom)
    body = (*half, *unmatched)
    private = names.keys() | set(names.values())
    shared = [term for term in _variables(body) if term not in private]
    is_apart = names.keys().isdisjoint(names.values()) and private.isdisjoint(_variables(unmatched))
    if not half or not is_apart or len(set(names.values())) < len(names):
        return None
    return KeyGroup(tuple(dict.fromkeys(shared)), first, body)


def _variables(atoms: Iterable[Atom]) -> list[Variable]:
    return [term for atom in atoms for term in atom.terms if isinstance(term, Variable)]


def _renamed(atom: Atom, other: Atom, names: dict[Term, Term]) -> dict[Term, Term] | None:
    """Extend the renaming so that it maps `atom` to `other`; return None if that is impossible."""
    if atom.predicate != other.predicate or len(atom.terms) != len(other.terms):
        return None
    renaming = dict(names)
    for term, target in zip(atom.terms, other.terms, strict=True):
        if term in renaming or (term != target and isinstance(term, Variable)):
            if renaming.setdefault(term, target) != target or isinstance(target, Constant):
                return None
        elif term != target:
            return None
    return renaming


# ---- stored relations

ALIAS = "= alias"  # (member, representative) of constants that do not represent themselves
MARK = " ≈"  # a name with a space is no predicate's
GROUP = " group"
AT_ONCE = 3  # columns whose constants are replaced in one step

Constants = Mapping[Value, Value]  # the representatives of constants in rules
Choice = frozenset[Variable]


def stored(predicate: str) -> str:
    """The relation of a predicate's facts over representatives."""
    return predicate if predicate == BOTTOM else predicate + MARK


def is_between(relation: str) -> bool:
    """Whether a relation is an intermediate result of a rule or of storing a wide predicate."""
    return MARK in relation and not relation.endswith(MARK)


def over_representatives(program: Program, constants: Constants) -> Program:
    """The program whose rules derive the stored relations from the predicates' explicit facts and `ALIAS`."""
    extended = program
    for name, arity in ((EQUAL, 2), (BOTTOM, 0)):
        extended = extended if name in extended.predicates else extended.defining(name, arity)
    declared = [predicate for predicate in extended.predicates.values() if predicate.name != BOTTOM]
    rules = [rule for predicate in declared for rule in copies(predicate.name, predicate.arity)]
    rules += chain.from_iterable(rule_over_representatives(rule, constants) for rule in program.rules)
    if DIFFERENT in extended.predicates:
        rules.append(Rule(Atom(BOTTOM, ()), (Atom(stored(DIFFERENT), (X, X)),), name=VIOLATED))
    stored_predicates = {stored(predicate.name): _stored_predicate(predicate) for predicate in declared}
    arities = {atom.predicate: len(atom.terms) for rule in rules for atom in (rule.head, *rule.positive)}
    predicates = {**extended.predicates, **stored_predicates}
    auxiliary = {name: arity for name, arity in arities.items() if name not in predicates}
    predicates.update({name: _predicate(name, arity) for name, arity in {ALIAS: 2, **auxiliary}.items()})
    return replace(extended, rules=tuple(dict.fromkeys(rules)), predicates=predicates)


def _stored_predicate(predicate: Predicate) -> Predicate:
    return replace(predicate, name=stored(predicate.name), written=predicate.written + MARK, declared=False)


def _predicate(name: str, arity: int) -> Predicate:
    return Predicate(name, arity, (None,) * arity, (ColumnType.ANY,) * arity, name)


# ---- rules that equality depends on


def bearing_on_equality(rules: Sequence[Rule]) -> Iterator[Rule]:
    """The rules that equality depends on."""
    waiting = [Atom(stored(EQUAL), (Variable("x"), Variable("y")))]
    remaining = list(rules)
    while waiting:
        atom = waiting.pop()
        matching = [rule for rule in remaining if may_match(rule.head, atom)]
        remaining = [rule for rule in remaining if not may_match(rule.head, atom)]
        for rule in matching:
            waiting.extend(stored_atoms(rule))
            yield rule


def may_match(head: Atom, atom: Atom) -> bool:
    """Whether a head may derive what an atom reads."""
    if head.predicate != atom.predicate:
        return False
    pairs = zip(head.terms, atom.terms, strict=True)
    return all(a == b for a, b in pairs if isinstance(a, Constant) and isinstance(b, Constant))


def stored_atoms(rule: Rule) -> Iterable[Atom]:
    return (atom for atom in rule.positive if MARK in atom.predicate)


# ---- explicit facts


@cache
def copies(predicate: str, arity: int) -> tuple[Rule, ...]:
    """The rules that store explicit facts, replacing a few columns at a time."""
    terms = tuple(Variable(f"x{number}") for number in range(1, arity + 1))
    rules: list[Rule] = []
    source = predicate
    for first in range(0, max(arity, 1), AT_ONCE):
        is_last = first + AT_ONCE >= arity
        head = stored(predicate) if is_last else f"{predicate}{MARK}{first + AT_ONCE}"
        replaced = terms[first : first + AT_ONCE]
        for aliased in subsets(replaced):
            names, literals = _normalised(replaced, aliased)
            replaced_terms = tuple(names.get(term, term) for term in terms)
            body = (Atom(source, terms), *literals)
            rules.append(Rule(Atom(head, replaced_terms), body, name=f"{predicate} stored"))
        source = head
    return tuple(rules)


def _normalised(
    variables: Sequence[Variable], aliased: Choice
) -> tuple[dict[Variable, Variable], tuple[Literal, ...]]:
    """New names for the variables, and the literals that test which are aliased."""
    names = {variable: Variable(f"{variable.name} for") for variable in variables if variable in aliased}
    literals: list[Literal] = []
    for number, variable in enumerate(variables):
        if variable in aliased:
            literals.append(Atom(ALIAS, (variable, names[variable])))
        else:
            literals.append(Negation(Atom(ALIAS, (variable, Variable(f"_any {number}")))))
    return names, tuple(literals)


def subsets(variables: Iterable[Variable]) -> Iterator[Choice]:
    """All subsets of the variables."""
    elements = tuple(variables)
    for size in range(len(elements) + 1):
        yield from map(frozenset, combinations(elements, size))


# ---- rules


def rule_over_representatives(rule: Rule, constants: Constants) -> tuple[Rule, ...]:
    """Rewrite one rule to rules over stored relations."""
    group = group_of(rule)
    if group is not None:
        return tuple(_grouping(rule, group, constants))
    reading = StoredBody(rule.body, constants, _read_outside(rule))
    outputs = tuple(dict.fromkeys(term for term in rule.head.terms if isinstance(term, Variable)))
    if rule.aggregations:
        return tuple(_aggregating(rule, reading, outputs))
    if reading.computed.isdisjoint((*outputs, *reading.negated)):
        return tuple(_plain(rule, reading))
    return tuple(_computing(rule, reading, outputs))


def positive_rules(rule: Rule, constants: Constants) -> tuple[Rule, ...]:
    """Return the same for a rule without negation and aggregates, without auxiliary relations of values.

    They can be read from heads to bodies, too.
    """
    group = group_of(rule)
    if group is not None:
        return tuple(_grouping(rule, group, constants))
    reading = StoredBody(rule.body, constants, ())
    computed = tuple(term for term in dict.fromkeys(rule.head.terms) if term in reading.computed)
    return tuple(_at_once(rule, reading, [term for term in computed if isinstance(term, Variable)]))


def _at_once(rule: Rule, reading: StoredBody, computed: Sequence[Variable]) -> Iterator[Rule]:
    """A rule for each choice of variables that are other members, and of computed ones that have an alias."""
    for others in subsets(reading.seen):
        for aliased in subsets(computed):
            names, literals = _normalised(computed, aliased)
            body = (
                *(assigned_or_tested(literal, aliased) for literal in reading.positive(others)),
                *literals,
            )
            head = reading.atom(rule.head, names)
            yield Rule(head, _ordered(body, head.terms), name=rule.name, span=rule.span)


def _grouping(rule: Rule, group: KeyGroup, constants: Constants) -> Iterator[Rule]:
    """Rewrite a rule that equates constants with the same key.

    Among representatives, it derives only that each constant in a group equals itself.
    """
    reading = StoredBody(group.body, constants, ())
    members = Atom(f"{_auxiliary(rule)}{GROUP}", (*group.key, group.constant))
    yield replace(rule, head=members, body=tuple(reading.atom(atom, {}) for atom in group.body))
    yield replace(rule, head=Atom(stored(EQUAL), (group.constant,) * 2), body=(members,))


def groups_of(program: Program) -> tuple[str, ...]:
    """The relations of keys, in all columns but the last, and constants that are equal for one key."""
    return tuple(name for name in program.predicates if name.endswith(GROUP))


def _read_outside(rule: Rule) -> tuple[Variable, ...]:
    """The variables that aggregates, and assignments after them, read as members."""
    after = (variable for assignment in rule.after for variable in variables_of(assignment.expression))
    return (*rule.aggregated, *after)


def _plain(rule: Rule, reading: StoredBody) -> Iterator[Rule]:
    """Rewrite a rule whose atoms read no computed variable."""
    head = reading.atom(rule.head, {})
    for others in subsets(reading.seen):
        for body in reading.bodies(others):
            yield replace(rule, head=head, body=_ordered(body, head.terms))


def _computing(rule: Rule, reading: StoredBody, outputs: Sequence[Variable]) -> Iterator[Rule]:
    """Rewrite a rule whose atoms read computed variables: one rule computes them, others derive the head.

    In a single rule, computed values would be matched with all aliases.
    """
    columns = tuple(dict.fromkeys((*outputs, *reading.negated)))
    values = Atom(f"{_auxiliary(rule)} values", columns)
    for others in subsets(reading.seen):
        body = reading.positive(others)
        yield Rule(values, _ordered(body, columns), span=rule.span)
    computed = tuple(each for each in columns if each in reading.computed)
    for aliased in subsets(computed):
        names, literals = _normalised(computed, aliased)
        negations = tuple(Negation(reading.atom(each.atom, names)) for each in reading.negations)
        head = reading.atom(rule.head, names)
        yield Rule(head, (values, *literals, *negations), name=rule.name, span=rule.span)


def _aggregating(rule: Rule, reading: StoredBody, outputs: Sequence[Variable]) -> Iterator[Rule]:
    """Rewrite a rule that aggregates: to rules for its rows, its groups and its head."""
    name = _auxiliary(rule)
    columns = tuple(dict.fromkeys((*rule.group, *rule.aggregated)))
    for others in subsets(reading.seen):
        row = tuple(reading.member(variable, others) for variable in columns)
        for body in reading.bodies(others):
            yield Rule(Atom(f"{name} rows", row), _ordered(body, row), span=rule.span)
    groups = Atom(f"{name} groups", tuple(outputs))
    yield replace(rule, head=groups, body=(Atom(f"{name} rows", columns),))
    raw = [each for each in outputs if each in reading.seen or each not in reading.matched]
    for aliased in subsets(raw):
        names, literals = _normalised(raw, aliased)
        yield Rule(reading.atom(rule.head, names), (groups, *literals), name=rule.name, span=rule.span)


def _auxiliary(rule: Rule) -> str:
    """The beginning of the names of a rule's auxiliary relations; they depend only on the rule."""
    from hashlib import blake2b

    meaning = repr((rule.head, rule.body, rule.group, rule.aggregations, rule.after)).encode()
    return f"{rule.head.predicate}{MARK} {blake2b(meaning, digest_size=DIGEST_BYTES).hexdigest()}"


def _ordered(body: Sequence[Literal], terms: Sequence[Term]) -> tuple[Literal, ...]:
    return order(body, [term for term in terms if isinstance(term, Variable)]).body


class StoredBody:
    """How a body reads stored relations.

    `seen` are the variables of which members are seen, `computed` those that are given a value, and `negated`
    those that occur under a negation and in other literals.
    """

    def __init__(self, body: Sequence[Literal], constants: Constants, outside: Iterable[Variable]) -> None:
        self.body = tuple(body)
        self.constants = constants
        self.negations = tuple(literal for literal in body if isinstance(literal, Negation))
        atoms = [literal for literal in body if isinstance(literal, Atom)]
        tests = [literal for literal in body if not isinstance(literal, Atom | Negation)]
        self.matched = {each for literal in atoms for each in literal_variables(literal)}
        self.computed = {each.variable for each in tests if isinstance(each, Assignment)}
        bound = self.matched | self.computed
        under = (each for literal in self.negations for each in literal_variables(literal))
        self.negated = tuple(dict.fromkeys(each for each in under if each in bound))
        read = [*(each for literal in tests for each in literal_variables(literal)), *outside]
        joined = self._only_joined(tests, read)
        self.seen = tuple(dict.fromkeys(each for each in read if each in self.matched and each not in joined))

    def _only_joined(self, tests: Sequence[Literal], read: Sequence[Variable]) -> set[Variable]:
        """The variables whose only test is equality with another variable.

        Two classes with a common member are one, so that representatives may be compared.
        """
        joined: set[Variable] = set()
        for test in tests:
            match test:
                case Comparison("=", Variable() as left, Variable() as right):
                    pair = {left, right}
                    if pair <= self.matched and all(read.count(each) == 1 for each in pair):
                        joined |= pair
        return joined

    def member(self, variable: Variable, others: Choice) -> Variable:
        """The variable for the member of the class that is read."""
        return Variable(f"{variable.name} member") if variable in others else variable

    def atom(self, atom: Atom, names: Mapping[Variable, Variable]) -> Atom:
        """An atom over a stored relation; `names` maps computed variables to their representatives."""
        return Atom(stored(atom.predicate), tuple(self._term(term, names) for term in atom.terms))

    def _term(self, term: Term, names: Mapping[Variable, Variable]) -> Term:
        if isinstance(term, Constant):
            return Constant(self.constants.get(term.value, term.value))
        return names.get(term, term)

    def positive(self, others: Choice) -> tuple[Literal, ...]:
        """The body without negations, in which these variables are other members than the representative."""
        members = {each: self.member(each, others) for each in self.seen if each in others}
        aliases = (Atom(ALIAS, (member, each)) for each, member in members.items())
        literals = (literal for literal in self.body if not isinstance(literal, Negation))
        rewritten = (
            (self.atom(literal, {}),) if isinstance(literal, Atom) else renamed_body((literal,), members)
            for literal in literals
        )
        return (*chain.from_iterable(rewritten), *aliases)

    def bodies(self, others: Choice) -> Iterator[tuple[Literal, ...]]:
        """Yield the bodies with negations, one for each choice of computed variables that have an alias."""
        computed = tuple(each for each in self.negated if each in self.computed)
        for aliased in subsets(computed):
            names, literals = _normalised(computed, aliased)
            positive = tuple(assigned_or_tested(literal, aliased) for literal in self.positive(others))
            negations = tuple(Negation(self.atom(each.atom, names)) for each in self.negations)
            yield (*positive, *literals, *negations)
