"""Instances of rules where constants may be equal: over every member of each class.

Facts are kept over representatives, or over all members; either way the instances over representatives are
found by a plan that the fact binds, and each is one instance for every choice of members. Comparisons,
functions and aggregates then see members, as the meaning of equality has it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from tidelog.engine.maintaining import Flag
from tidelog.equality.representatives import Classes, expanded
from tidelog.errors import Diagnostic, ProgramError
from tidelog.logic.evaluate import evaluate, holds
from tidelog.logic.program import (
    Assignment,
    Atom,
    Comparison,
    Condition,
    Constant,
    Literal,
    Negation,
    Rule,
    Term,
    Variable,
    literal_variables,
)
from tidelog.logic.values import Value
from tidelog.maintenance.row_sets import Rows
from tidelog.proof.instances import NOT_EXPLAINED, Found, Ids, Instances

MOST_CHOICES = 200_000  # of members, for the instances of one rule that derive one fact
ANSWER = "?- absent"
Key = tuple[int, ...]  # the ids of a fact's arguments


@dataclass(frozen=True, slots=True)
class Treated:
    """How equality is treated: the classes, and the relation that holds all facts of a predicate."""

    classes: Classes
    relation: Callable[[str], str]


class Members:
    """What rules derive, and what is stated, of all members of the classes of a fact."""

    def __init__(self, instances: Instances, treated: Treated) -> None:
        self._instances = instances
        self._engine = instances.engine
        self._classes = treated.classes
        self._relation = treated.relation

    # ---- constants

    def representatives(self, key: Key) -> Key:
        """The representatives of a fact's arguments."""
        ids: list[int] = self._classes.representatives(np.array(key, np.int32)).tolist()
        return tuple(ids)

    def decode(self, identity: int) -> Value:
        """The value of an id."""
        value: Value = self._engine.dictionary.decode(identity)
        return value

    def identity(self, term: Term, row: Mapping[Variable, int]) -> int:
        """The id of a term in an instance."""
        if isinstance(term, Variable):
            return row[term]
        return int(self._engine.identity(term.value))

    def key(self, values: Sequence[Value]) -> Key:
        """The ids of values."""
        return tuple(int(self._engine.identity(value)) for value in values)

    # ---- what is stated

    def stated(self, predicate: str, key: Key) -> list[Key]:
        """The explicit facts that a fact over representatives stands for."""
        if predicate not in self._engine.relations():
            return []
        rows = self._classes.expand(Rows(tuple(np.array([each], np.int32) for each in key), 1))
        standing = self._engine.standing(predicate, rows.columns, rows.count)
        columns = [column[(standing & int(Flag.EXPLICIT)) != 0].tolist() for column in rows.columns]
        if not columns:
            return [()] if standing[0] & int(Flag.EXPLICIT) else []
        return list(zip(*columns, strict=True))

    # ---- what rules derive

    def found(self, rule: Rule, number: int, key: Key) -> Found:
        """The instances of a rule, over members, whose heads a fact over representatives stands for."""
        bound = self._over_representatives(rule)
        table = self._engine.table(bound.head.predicate)
        table.complete()
        rows = table.find([np.array([each], np.int32) for each in key], 1)
        found = self._instances.find(bound, number, rows[rows >= 0])
        columns = {name: ids for name, ids in found.columns.items() if name in _matched(rule)}
        return self._tested(rule, number, self._chosen(columns, found.count, rule))

    def _over_representatives(self, rule: Rule) -> Rule:
        """The atoms of a rule, and what they are not, with representatives as constants."""
        matched = _matched(rule)
        head = tuple(
            term if isinstance(term, Constant) or term in matched else Variable(f"{term.name} head")
            for term in rule.head.terms
        )
        absent = (Negation(self._atom(atom)) for atom in rule.negated if _is_decided(atom, rule))
        body: tuple[Literal, ...] = (*map(self._atom, rule.positive), *absent)
        return Rule(self._atom(Atom(rule.head.predicate, head)), body)

    def _atom(self, atom: Atom) -> Atom:
        return Atom(self._relation(atom.predicate), tuple(map(self._term, atom.terms)))

    def _term(self, term: Term) -> Term:
        if isinstance(term, Variable):
            return term
        (representative,) = self.representatives((int(self._engine.identity(term.value)),))
        return Constant(self.decode(representative))

    def _chosen(
        self, columns: Mapping[Variable, Ids], count: int, rule: Rule
    ) -> tuple[dict[Variable, Ids], int]:
        """Every choice of members, of the instances over representatives alone, in order."""
        kept = np.ones(count, bool)
        for ids in columns.values():
            kept &= self._classes.representatives(ids) == ids
        rows = Rows(tuple(ids[kept] for ids in columns.values()), int(np.count_nonzero(kept)))
        choices = np.ones(rows.count)
        for ids in rows.columns:
            choices *= [len(self._classes.class_of(each)) for each in ids.tolist()]
        if choices.sum() > MOST_CHOICES:
            raise too_many(int(choices.sum()))
        made = expanded(rows, self._classes.grouped, range(len(rows.columns)))
        order = np.lexsort(made.columns[::-1]) if made.columns else slice(None)
        return {name: ids[order] for name, ids in zip(columns, made.columns, strict=True)}, made.count

    # ---- tests and computations

    def _tested(self, rule: Rule, number: int, chosen: tuple[dict[Variable, Ids], int]) -> Found:
        """The instances in which all that is computed and tested is as the rule wants it."""
        columns, count = chosen
        others = [item for item in rule.body if not isinstance(item, Atom)]
        if not others:
            return Found(rule, number, columns, count)
        rows = [
            row for row in self._rows(columns, count) if all(self._holds(item, row, rule) for item in others)
        ]
        names = rows[0].keys() if rows else columns.keys()
        made = {name: np.array([row[name] for row in rows], np.int32) for name in names}
        return Found(rule, number, made, len(rows))

    def _rows(self, columns: Mapping[Variable, Ids], count: int) -> Iterator[dict[Variable, int]]:
        lists = [ids.tolist() for ids in columns.values()]
        for place in range(count):
            yield {name: ids[place] for name, ids in zip(columns, lists, strict=True)}

    def _holds(self, literal: Literal, row: dict[Variable, int], rule: Rule) -> bool:
        """Whether a literal holds of members; what it computes is added to the row."""
        if isinstance(literal, Negation):
            return _is_decided(literal.atom, rule) or self._is_absent(literal.atom, row)
        binding = {name: self.decode(identity) for name, identity in row.items()}
        if isinstance(literal, Assignment):
            value = evaluate(literal.expression, binding)
            if value is None:
                return False
            identity = int(self._engine.identity(value))
            return row.setdefault(literal.variable, identity) == identity
        assert isinstance(literal, Comparison | Condition)
        return bool(holds(literal, binding))

    def _is_absent(self, atom: Atom, row: Mapping[Variable, int]) -> bool:
        """Whether no fact matches, something in it being computed."""
        known = [
            term
            if isinstance(term, Variable) and term not in row
            else Constant(self.decode(self.identity(term, row)))
            for term in atom.terms
        ]
        _, count = self._engine.answer(
            Rule(Atom(ANSWER, ()), (self._atom(Atom(atom.predicate, tuple(known))),))
        )
        return not count


def _matched(rule: Rule) -> frozenset[Variable]:
    """The variables that atoms of the body bind."""
    return frozenset(variable for atom in rule.positive for variable in literal_variables(atom))


def _is_decided(negated: Atom, rule: Rule) -> bool:
    """Whether an atom under negation is about nothing that is computed."""
    computed = {item.variable for item in rule.body if isinstance(item, Assignment)} - _matched(rule)
    return computed.isdisjoint(literal_variables(negated))


def too_many(choices: int) -> ProgramError:
    """That classes are too large for all choices of members to be looked at."""
    message = f"one step has {choices:,} instances over the members of its classes, too many to look at"
    help = f"up to {MOST_CHOICES:,} are looked at"
    return ProgramError(Diagnostic(NOT_EXPLAINED, message, help=help))


def keys_of(atom: Atom, found: Found, members: Members) -> Sequence[Key]:
    """The facts that an atom is in each instance."""
    if not found.count:
        return []  # what would be computed has no column
    columns = [
        found.columns[term].tolist()
        if isinstance(term, Variable)
        else [members.identity(term, {})] * found.count
        for term in atom.terms
    ]
    return list(zip(*columns, strict=True)) if columns else [()] * found.count
