"""Naive evaluation over Python sets, with equality the plain way: the oracle for every other engine."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from itertools import combinations, product

from tidelog.errors import Diagnostic, EvaluationError, Inconsistent, Stopped, counted
from tidelog.logic.equality_axioms import axioms, has_equality
from tidelog.logic.functions import builtins
from tidelog.logic.functions.builtins import evaluate as value_of
from tidelog.logic.program import (
    BOTTOM,
    DIFFERENT,
    EQUAL,
    Aggregation,
    Apply,
    Assignment,
    Atom,
    Comparison,
    Condition,
    Constant,
    Literal,
    Negation,
    Predicate,
    Program,
    Query,
    Rule,
    Term,
    Variable,
)
from tidelog.logic.strata import Stratum, strata
from tidelog.logic.values import FALSE, TRUE, ColumnType, Kind, Value
from tidelog.plan.inconsistency import describe_derived_bottom, describe_equal, describe_explicit_bottom

# ---- equality over Python sets
#
# It uses neither axioms nor representatives: the classes are found by joining sets of values, and each row
# gives a row for each combination of members.

Row = tuple[Value, ...]
Classes = dict[Value, frozenset[Value]]


def replaced(store: dict[str, set[Row]], unique_names: bool) -> None:
    """Close a store under equality, or raise Inconsistent."""
    classes = _classes(store.setdefault(EQUAL, set()))
    _check(classes, store.get(DIFFERENT, set()), unique_names)
    for name, rows in store.items():
        store[name] = {
            replaced_row
            for row in rows
            for replaced_row in product(*(_members(classes, value) for value in row))
        }
    store[EQUAL] |= {pair for members in classes.values() for pair in product(members, members)}


def _members(classes: Classes, value: Value) -> frozenset[Value]:
    return classes.get(value, frozenset([value]))


def _classes(pairs: set[Row]) -> Classes:
    """The class of each constant that equals something."""
    classes: Classes = {}
    for left, right in pairs:
        merged = _members(classes, left) | _members(classes, right)
        classes.update(dict.fromkeys(merged, merged))
    return classes


def _check(classes: Classes, different: set[Row], unique_names: bool) -> None:
    """Raise if constants are equal that must not be."""
    pairs = [pair for pair in different if pair[1] in _members(classes, pair[0])]
    for members in set(classes.values()):
        pairs += combinations([each for each in members if each.kind not in (Kind.IRI, Kind.BLANK)], 2)
        if unique_names:
            pairs += combinations([each for each in members if each.kind is Kind.IRI], 2)
    if pairs:
        raise Inconsistent(describe_equal(pairs[0]))


# ---- naive evaluation over Python sets
#
# Each stratum applies all its rules to all facts until nothing new is derived. A rule's body is matched
# literal by literal, from left to right, with one binding of variables to values at a time.

Facts = dict[str, set[Row]]
Binding = dict[Variable, Value]


def evaluate(
    program: Program,
    facts: Mapping[str, Iterable[Row]] | None = None,
    *,
    max_facts: int | None = None,
    unique_names: bool = False,
) -> dict[str, frozenset[Row]]:
    """All facts that follow from the program and the given facts, by predicate."""
    store: Facts = {name: set() for name in program.predicates}
    for name, rows in (facts or {}).items():
        store.setdefault(name, set()).update(rows)
    for fact in program.facts:
        store.setdefault(fact.predicate, set()).add(fact.values)
        if fact.predicate == BOTTOM:
            raise Inconsistent(describe_explicit_bottom(fact.span))
    if has_equality(program.predicates):
        _close_with_equality(program, store, max_facts, unique_names)
    else:
        for stratum in strata(program.rules, program.predicates):
            _close(stratum, store, max_facts)
    return {name: frozenset(rows) for name, rows in store.items()}


def answer(query: Query, facts: Mapping[str, Iterable[Row]]) -> frozenset[Row]:
    """The rows of the query's variables for which its body holds in the facts."""
    store = {name: set(rows) for name, rows in facts.items()}
    return frozenset(_applied(query.rule, store))


def _close(stratum: Stratum, store: Facts, max_facts: int | None) -> None:
    """Add to the store all that the stratum's rules derive from it."""
    grows = True
    while grows:
        grows = False
        for rule in stratum.rules:
            known = store.setdefault(rule.head.predicate, set())
            new = _applied(rule, store) - known
            known |= new
            grows = grows or bool(new)
            if new and rule.head.predicate == BOTTOM:
                raise Inconsistent(describe_derived_bottom(rule))
            _check_limit(store, max_facts)


def _close_with_equality(program: Program, store: Facts, max_facts: int | None, unique_names: bool) -> None:
    """The same for all strata, equals being replaced by equals whenever something is new.

    Equality belongs to one stratum with all that it depends on: each of them can be changed by it.
    """
    predicates = {**program.predicates, EQUAL: Predicate(EQUAL, 2, (None,) * 2, (ColumnType.ANY,) * 2, EQUAL)}
    replaced(store, unique_names)
    for stratum in strata((*program.rules, *axioms(predicates)), predicates):
        rules = tuple(rule for rule in program.rules if rule.head.predicate in stratum.predicates)
        size = -1
        while size < (size := sum(map(len, store.values()))):
            _close(replace(stratum, rules=rules), store, max_facts)
            replaced(store, unique_names)


def _check_limit(store: Facts, max_facts: int | None) -> None:
    count = sum(map(len, store.values()))
    if max_facts is not None and count > max_facts:
        raise Stopped(Diagnostic("E611", f"stopped: more than {counted(max_facts, 'fact')}"))


# ---- one rule


def _applied(rule: Rule, store: Facts) -> set[Row]:
    """All rows of the head that the rule derives from the store."""
    try:
        return set(_consequences(rule, store))
    except builtins.Overflow as overflow:
        raise EvaluationError(Diagnostic(overflow.code, str(overflow), rule.span)) from None


def _consequences(rule: Rule, store: Facts) -> Iterator[Row]:
    """The head's rows for all matches of the body."""
    bindings = _matches(rule.body, {}, store)
    if rule.aggregations:
        bindings = _aggregate(rule, bindings)
    for binding in bindings:
        yield tuple(_ground(term, binding) for term in rule.head.terms)


def _matches(body: Iterable[Literal], binding: Binding, store: Facts) -> Iterable[Binding]:
    """The extensions of the binding under which every literal holds."""
    bindings = [binding]
    for literal in body:
        bindings = [extended for each in bindings for extended in _match(literal, each, store)]
    return bindings


def _match(literal: Literal, binding: Binding, store: Facts) -> Iterator[Binding]:
    """The extensions of the binding under which one literal holds."""
    match literal:
        case Atom():
            yield from _match_atom(literal, binding, store)
        case Negation(atom):
            if next(_match_atom(atom, binding, store), None) is None:
                yield binding
        case Comparison(operator, left, right):
            if value_of(Apply(operator, (left, right)), binding) == TRUE:
                yield binding
        case Condition(expression, negated):
            if value_of(expression, binding) == (FALSE if negated else TRUE):
                yield binding
        case Assignment(variable, expression):
            value = value_of(expression, binding)
            if value is not None:
                yield {**binding, variable: value}


def _match_atom(atom: Atom, binding: Binding, store: Facts) -> Iterator[Binding]:
    """The extensions of the binding under which the atom is a fact."""
    for row in store.get(atom.predicate, ()):
        extended = _unify(atom.terms, row, binding)
        if extended is not None:
            yield extended


def _unify(terms: tuple[Term, ...], row: Row, binding: Binding) -> Binding | None:
    """The binding extended so that the terms are the row, if that can be."""
    extended = dict(binding)
    for term, value in zip(terms, row, strict=True):
        expected = term.value if isinstance(term, Constant) else extended.setdefault(term, value)
        if expected != value:
            return None
    return extended


# ---- values


def _ground(term: Term, binding: Binding) -> Value:
    return term.value if isinstance(term, Constant) else binding[term]


def _aggregate(rule: Rule, bindings: Iterable[Binding]) -> Iterator[Binding]:
    """One binding per group: its variables, the aggregated ones and those assigned after."""
    groups: dict[Row, list[Binding]] = {}
    for binding in bindings:
        groups.setdefault(tuple(binding[variable] for variable in rule.group), []).append(binding)
    for key, members in groups.items():
        grouped: Binding = dict(zip(rule.group, key, strict=True))
        for aggregation in rule.aggregations:
            value = _aggregated(aggregation, members)
            if value is None:
                break
            grouped[aggregation.variable] = value
        else:
            yield from _matches(rule.after, grouped, {})


def _aggregated(aggregation: Aggregation, members: list[Binding]) -> Value | None:
    """The aggregate's value over the first argument of the distinct rows of arguments."""
    rows = {tuple(_ground(argument, member) for argument in aggregation.arguments) for member in members}
    return builtins.AGGREGATES[aggregation.function](list(rows))
