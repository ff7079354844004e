"""Rules in several, as they are maintained: those that aggregate, and those with long bodies.

`head :- body` with aggregates becomes a rule that aggregates, whose head is an auxiliary relation of group
and aggregated values, and a plain rule `head :- auxiliary, computations`. An auxiliary relation depends
strictly on all it reads, so that it is a stratum of its own. Rules that aggregate alike share one.

Maintenance has a plan for each literal that reads a relation, which matches all the others: the plans of a
rule of a thousand atoms have a million steps, those of pieces of sixteen seventeen thousand. A piece joins
the next literals to what the piece before it found; its auxiliary relation has the variables still needed.

Invariant: the program has the same facts as before in every predicate that it had.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import replace
from hashlib import blake2b

from tidelog.logic.program import (
    Atom,
    Literal,
    Negation,
    Predicate,
    Program,
    Rule,
    Variable,
    literal_variables,
)
from tidelog.logic.values import ColumnType
from tidelog.rewrite.sideways import Passing

SEPARATOR = " #"  # a name with a space is no predicate's
DIGEST_BYTES = 8
LONGEST = 128  # atoms and negations in a body that stays whole
PIECE = 16  # … and in a piece of one that does not


def split(program: Program) -> Program:
    """The program with its rules split, and predicates for the auxiliary relations."""
    rules = split_rules(program.rules)
    if rules == program.rules:
        return program
    heads = (rule.head for rule in rules if is_auxiliary(rule.head.predicate))
    auxiliary = {head.predicate: _predicate(head) for head in heads}
    return replace(program, rules=rules, predicates={**program.predicates, **auxiliary})


def split_rules(rules: Iterable[Rule]) -> tuple[Rule, ...]:
    """The rules split, and none twice: what counts instances counts them once."""
    return tuple(dict.fromkeys(part for rule in rules for part in split_rule(rule)))


def split_rule(rule: Rule) -> tuple[Rule, ...]:
    """The rules that a rule is maintained by, in the order in which they read one another."""
    if not rule.aggregations:
        return pieces(rule)
    auxiliary = Atom(auxiliary_name(rule), (*rule.group, *(made.variable for made in rule.aggregations)))
    return (
        *pieces(replace(rule, head=auxiliary, after=(), name=None)),
        replace(rule, body=(auxiliary, *rule.after), group=(), aggregations=(), after=()),
    )


def auxiliary_name(rule: Rule) -> str:
    """The name of a rule's auxiliary relation: the same for the same aggregates, wherever the rule stands."""
    return _named(rule, (rule.body, rule.group, rule.aggregations))


def is_auxiliary(relation: str) -> bool:
    """Whether a relation was made for the sake of maintenance; it is none of the program's predicates."""
    return SEPARATOR in relation


# ---- long bodies


def is_long(literals: int) -> bool:
    """Whether so many literals, each of which is driven by a plan of its own, are too many for one body."""
    return literals > LONGEST


def pieces(rule: Rule) -> tuple[Rule, ...]:
    """The rule, if its body is not too long; else its pieces, the last of which has the rule's head."""
    if rule.is_metric or not is_long(sum(map(_reads, rule.body))):
        return (rule,)
    return tuple(_pieces(rule, Passing(()).order(rule.body, ())))


def _pieces(rule: Rule, body: tuple[Literal, ...]) -> Iterator[Rule]:
    """Yield the pieces of a body that is in order."""
    last = {variable: place for place, literal in enumerate(body) for variable in literal_variables(literal)}
    last.update(dict.fromkeys(_needed(rule), len(body)))  # where each variable is used for the last time
    left = sum(map(_reads, body))
    known: dict[Variable, None] = {}
    piece: list[Literal] = []
    read = 0
    for place, literal in enumerate(body):
        piece.append(literal)
        if not isinstance(literal, Negation):
            known.update(dict.fromkeys(literal_variables(literal)))
        read, left = read + _reads(literal), left - _reads(literal)
        if read == PIECE and left:
            known = {variable: None for variable in known if last[variable] > place}
            found = Atom(_named(rule, (tuple(piece), tuple(known))), tuple(known))
            yield replace(rule, head=found, body=tuple(piece), group=(), aggregations=(), after=(), name=None)
            piece, read = [found], 0
    yield replace(rule, body=tuple(piece))


def _reads(literal: Literal) -> bool:
    return isinstance(literal, Atom | Negation)


def _needed(rule: Rule) -> Iterator[Variable]:
    """Yield the variables that a rule needs of its body."""
    yield from literal_variables(rule.head)
    yield from rule.group
    for aggregation in rule.aggregations:
        yield from (term for term in aggregation.arguments if isinstance(term, Variable))


# ---- auxiliary relations


def _named(rule: Rule, meaning: tuple[object, ...]) -> str:
    digest = blake2b(repr(meaning).encode(), digest_size=DIGEST_BYTES).hexdigest()
    return f"{rule.head.predicate}{SEPARATOR}{digest}"


def _predicate(head: Atom) -> Predicate:
    columns = tuple(term.name if isinstance(term, Variable) else None for term in head.terms)
    types = (ColumnType.ANY,) * len(columns)
    return Predicate(head.predicate, len(columns), columns, types, head.predicate)
