"""Estimated sizes of derived relations, from sizes and distinct counts of those that are given.

Selinger, Astrahan, Chamberlin, Lorie, Price: Access Path Selection in a Relational Database Management
System, SIGMOD 1979, section 4: a join on a variable keeps one row of each pair in so many as the variable has
values.

A recursive relation is estimated by some rounds of its rules. What a rule derives from one recursive atom
alone, such as an inverse, is taken to be known mostly: else a pair of inverses would grow with each round.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass, field, replace
from math import prod
from typing import Final

from tidelog.logic.program import (
    Atom,
    Comparison,
    Constant,
    Literal,
    Program,
    Rule,
    Variable,
)
from tidelog.logic.strata import Stratum
from tidelog.logic.type_inference import Columns
from tidelog.logic.values import Value

REPEATED: Final = 10  # facts for each value of a column whose distinct values were not counted
ROUNDS: Final = 12  # rounds of a recursion that are estimated; real ones may take thousands
SMALL: Final = 1000  # rows that are copied to every task without a thought
MOST: Final = 1e15  # rows beyond which an estimate says nothing
# The share of rows that pass a test.
PASSING: Final = {"=": 0.1, "!=": 1.0, "<": 1 / 3, "<=": 1 / 3, ">": 1 / 3, ">=": 1 / 3}


@dataclass(frozen=True)
class Sizes:
    """What is known of given relations; one that is not named has the facts that the program states."""

    rows: Mapping[str, int] = field(default_factory=dict)
    distinct: Mapping[tuple[str, int], int] = field(default_factory=dict)  # values of a predicate's column
    matching: Mapping[tuple[str, int, Value], int] = field(default_factory=dict)  # rows with a value there
    heavy: Mapping[tuple[str, int], int] = field(default_factory=dict)  # rows with the most frequent values
    types: Mapping[str, Columns] = field(default_factory=dict)  # of what is given, as far as that is known

    @staticmethod
    def of(
        facts: Mapping[str, Collection[Sequence[Value]]],
        constants: Iterable[tuple[str, int, Value]] = (),
    ) -> Sizes:
        """Count rows and distinct values of facts, and the rows that have these constants.

        >>> from tidelog.logic.values import integer
        >>> Sizes.of({"edge": [(integer(1), integer(2)), (integer(1), integer(3))]}).distinct
        {('edge', 0): 1, ('edge', 1): 2}
        """
        return Sizes(
            {name: len(rows) for name, rows in facts.items()},
            {
                (name, place): len(set(column))
                for name, rows in facts.items()
                for place, column in enumerate(zip(*rows, strict=True))
            },
            {
                (name, place, value): sum(row[place] == value for row in facts[name])
                for name, place, value in constants
                if name in facts
            },
        )


def constants_of(program: Program) -> frozenset[tuple[str, int, Value]]:
    """Return the constants in bodies, each with its column: what `Sizes.matching` is asked for."""
    return frozenset(
        (atom.predicate, place, term.value)
        for rule in program.rules
        for atom in (*rule.positive, *rule.negated)
        for place, term in enumerate(atom.terms)
        if isinstance(term, Constant)
    )


@dataclass(frozen=True, slots=True)
class Relation:
    """Estimated rows of a relation, and distinct values of each of its columns."""

    rows: float
    distinct: tuple[float, ...]


@dataclass(frozen=True, slots=True)
class Matches:
    """Estimated matches of some literals, and distinct values of each of their variables."""

    rows: float
    distinct: Mapping[Variable, float]

    def projected(self, variables: Iterable[Variable]) -> float:
        """Return how many distinct rows the matches have in these variables."""
        most = 1.0
        for variable in variables:
            most *= self.distinct.get(variable, self.rows)
            if most >= self.rows:
                return self.rows
        return most


@dataclass(frozen=True)
class Estimates:
    """What is known, or guessed, of all relations of a program."""

    relations: Mapping[str, Relation]
    sizes: Sizes
    given: Mapping[str, Relation]

    def rows(self, predicate: str) -> float:
        """Return the estimated rows of a relation."""
        return self.relations[predicate].rows

    def matches(self, literals: Iterable[Literal]) -> Matches:
        """Estimate the join of the atoms among the literals, and what passes their comparisons."""
        rows = 1.0
        values: dict[Variable, float] = {}
        for literal in literals:
            if isinstance(literal, Comparison):
                rows *= PASSING[literal.operator]
            elif isinstance(literal, Atom):
                selected = self._selected(literal)
                rows *= selected
                for term, column in zip(
                    literal.terms, self.relations[literal.predicate].distinct, strict=True
                ):
                    if isinstance(term, Constant):
                        continue
                    known = min(column, selected)
                    if term in values:
                        rows /= max(values[term], known, 1.0)
                    values[term] = min(values.get(term, known), known)
        rows = min(rows, MOST)
        return Matches(rows, {variable: min(known, rows) for variable, known in values.items()})

    def _selected(self, atom: Atom) -> float:
        """Return how many rows of a relation have the constants of an atom."""
        rows = self.relations[atom.predicate].rows
        for place, term in enumerate(atom.terms):
            if isinstance(term, Constant):
                rows *= self._share(atom.predicate, place, term.value)
        return rows

    def _share(self, predicate: str, place: int, value: Value) -> float:
        """Return the share of a relation's rows that have this value, as among its given rows."""
        given = self.given.get(predicate)
        if given is None or not given.rows:
            return 1 / max(self.relations[predicate].distinct[place], 1.0)
        counted = self.sizes.matching.get((predicate, place, value))
        return 1 / max(given.distinct[place], 1.0) if counted is None else counted / given.rows


def spread(rows: float, tasks: int) -> float:
    """Return what it costs to have rows at every task; for few rows that is not counted by task."""
    return rows * tasks if rows > SMALL else rows


def estimate(program: Program, parts: Iterable[Stratum], sizes: Sizes) -> Estimates:
    """Estimate all relations of a program, stratum by stratum; `parts` are its strata."""
    stated = Counter(fact.predicate for fact in program.facts)
    given: dict[str, Relation] = {}
    for name, predicate in program.predicates.items():
        rows = float(sizes.rows.get(name, stated[name]))
        rows = rows if predicate.arity else min(rows, 1.0)
        usual = rows / REPEATED if predicate.arity > 1 else rows
        columns = (sizes.distinct.get((name, place), usual) for place in range(predicate.arity))
        given[name] = Relation(rows, tuple(min(rows, max(1.0, float(column))) for column in columns))
    known = dict(given)
    estimates = Estimates(known, sizes, given)
    for stratum in parts:
        early = {name: given[name] for name in stratum.predicates if given[name].rows}
        for _ in range(ROUNDS if stratum.recursive else 1):
            made = {name: _Derived(given[name]) for name in stratum.predicates}
            for rule in stratum.rules:
                recursive = [atom for atom in rule.positive if atom.predicate in made]
                made[rule.head.predicate].add(rule, _matches(rule, recursive, estimates, early), recursive)
            found = {name: derived.relation(known[name]) for name, derived in made.items()}
            if all(known[name] == relation for name, relation in found.items()):
                break  # further rounds would find the same
            known.update(found)
            early = {name: known[name] for name in made if known[name].rows} | early
    return estimates


def _matches(
    rule: Rule, recursive: Sequence[Atom], estimates: Estimates, early: Mapping[str, Relation]
) -> Matches:
    """Estimate the matches of a body as if its recursion were linear.

    One recursive atom has the rows of now, and all others those of the first round: else the estimate would
    be squared with each round.
    """
    later = recursive[1:]
    if not later:
        return estimates.matches(rule.body)
    names = {atom.predicate: f"{atom.predicate} early" for atom in later}
    body = [
        Atom(names[each.predicate], each.terms) if isinstance(each, Atom) and each in later else each
        for each in rule.body
    ]
    known = estimates.relations
    first = {called: early.get(name, known[name]) for name, called in names.items()}
    return replace(estimates, relations={**known, **first}).matches(body)


class _Derived:
    """What the rules of one predicate derive together. Mutable while they are added."""

    def __init__(self, given: Relation) -> None:
        self.rows = given.rows
        self.distinct = list(given.distinct)
        self.most_copied = 0.0
        self.most_distinct = [0.0] * len(
            given.distinct
        )  # by recursive rules: they give the same values again

    def add(self, rule: Rule, matches: Matches, recursive: Sequence[Atom]) -> None:
        """Add the rows that a rule derives."""
        variables = dict.fromkeys(term for term in rule.head.terms if isinstance(term, Variable))
        rows = matches.projected(rule.group if rule.aggregations else variables)
        if recursive and len(rule.positive) == 1:
            self.most_copied = max(self.most_copied, rows)
        else:
            self.rows += rows
        for place, term in enumerate(rule.head.terms):
            known = 1.0 if isinstance(term, Constant) else min(rows, matches.distinct.get(term, rows))
            if recursive:
                self.most_distinct[place] = max(self.most_distinct[place], known)
            else:
                self.distinct[place] += known

    def relation(self, before: Relation) -> Relation:
        """Return the estimate: no more rows than combinations of values, no fewer than the round before."""
        columns = [max(pair) for pair in zip(self.distinct, self.most_distinct, strict=True)]
        rows = min(max(self.rows, self.most_copied), prod(columns, start=1.0))
        distinct = (max(min(pair[0], rows), pair[1]) for pair in zip(columns, before.distinct, strict=True))
        return Relation(max(rows, before.rows), tuple(distinct))
