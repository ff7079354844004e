"""Aggregates in relations of their own: each rule that aggregates becomes two.

`head :- body` with aggregates becomes a rule that aggregates, whose head is an auxiliary relation of group
and aggregated values, and a plain rule `head :- auxiliary, computations`. An auxiliary relation depends
strictly on all it reads, so that it is a stratum of its own. Rules that aggregate alike share one.

Invariant: the program has the same facts as before in every predicate that it had.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace
from hashlib import blake2b

from tidelog.logic.program import Atom, Predicate, Program, Rule, Variable
from tidelog.logic.values import ColumnType

SEPARATOR = " #"  # a name with a space is no predicate's
DIGEST_BYTES = 8


def split(program: Program) -> Program:
    """The program with each rule that aggregates in two, and predicates for the auxiliary relations."""
    rules = split_rules(program.rules)
    if rules == program.rules:
        return program
    auxiliary = {rule.head.predicate: _predicate(rule.head) for rule in rules if rule.aggregations}
    return replace(program, rules=rules, predicates={**program.predicates, **auxiliary})


def split_rules(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """The rules with each that aggregates in two, and none twice: what counts instances counts them once."""
    return tuple(dict.fromkeys(part for rule in rules for part in split_rule(rule)))


def split_rule(rule: Rule) -> tuple[Rule, ...]:
    """The rule, if it does not aggregate; else the rule that does, and the plain one that reads it."""
    if not rule.aggregations:
        return (rule,)
    auxiliary = Atom(auxiliary_name(rule), (*rule.group, *(made.variable for made in rule.aggregations)))
    return (
        replace(rule, head=auxiliary, after=(), name=None),
        replace(rule, body=(auxiliary, *rule.after), group=(), aggregations=(), after=()),
    )


def auxiliary_name(rule: Rule) -> str:
    """The name of a rule's auxiliary relation: the same for the same aggregates, wherever the rule stands."""
    meaning = repr((rule.body, rule.group, rule.aggregations)).encode()
    return f"{rule.head.predicate}{SEPARATOR}{blake2b(meaning, digest_size=DIGEST_BYTES).hexdigest()}"


def is_auxiliary(relation: str) -> bool:
    """Whether a relation was made for the sake of maintenance; it is none of the program's predicates."""
    return SEPARATOR in relation


def _predicate(head: Atom) -> Predicate:
    columns = tuple(term.name if isinstance(term, Variable) else None for term in head.terms)
    types = (ColumnType.ANY,) * len(columns)
    return Predicate(head.predicate, len(columns), columns, types, head.predicate)
