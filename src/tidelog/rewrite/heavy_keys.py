"""Heavy keys: a rule that joins on a skewed column becomes two, one for the few values that most rows have.

DeWitt, Naughton, Schneider, Seshadri: Practical Skew Handling in Parallel Joins, VLDB 1992.

Where 90 % of the rows of `likes(?x, ?y)` have one `?y`, one task would own nearly all of them. With `heavy`
the values that are so frequent,

    liked(?x, ?z) :- likes(?x, ?y), made(?y, ?z) .

becomes

    light(?x, ?y) :- likes(?x, ?y), ~heavy(?y) .
    liked(?x, ?z) :- light(?x, ?y), made(?y, ?z) .
    few(?y, ?z)   :- made(?y, ?z), heavy(?y) .
    liked(?x, ?z) :- likes(?x, ?y), heavy(?y), few(?y, ?z) .

The last rule runs where `likes` lies by another argument, and `few` is small enough to lie at every task.
The heavy values are given facts, sampled when the facts are loaded; any set of values is right, and few are
of use.

Invariant: the program has the same facts as before in every predicate that it had, whatever is heavy.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field, replace
from typing import Final

from tidelog.logic.program import Atom, Literal, Negation, Predicate, Program, Rule, Variable
from tidelog.logic.values import ColumnType
from tidelog.rewrite.localise_sizes import Sizes

ASSUMED: Final = 10  # heavy values of a column
MOST_SPLIT: Final = 2  # joins of one rule that are split: each makes two rules of one

Column = tuple[str, int]


@dataclass(frozen=True)
class Split:
    """A program whose skewed joins are split, and the predicates that hold the heavy values of columns."""

    program: Program
    heavy: Mapping[str, Column]
    sizes: Sizes  # with those of the heavy values


def split_heavy(program: Program, sizes: Sizes) -> Split:
    """Split all joins on columns with heavy values."""
    splitting = _Splitting(program, sizes)
    rules = tuple(made for rule in program.rules for made in splitting.rule(rule))
    predicates = {**program.predicates, **splitting.predicates}
    whole = replace(program, rules=(*splitting.rules.values(), *rules), predicates=predicates)
    rows = {**sizes.rows, **dict.fromkeys(splitting.heavy, ASSUMED)}
    return Split(whole, splitting.heavy, replace(sizes, rows=rows))


@dataclass
class _Splitting:
    """The predicates made so far. Mutable: it gathers them from rule to rule."""

    program: Program
    sizes: Sizes
    rules: dict[str, Rule] = field(default_factory=dict)
    predicates: dict[str, Predicate] = field(default_factory=dict)
    heavy: dict[str, Column] = field(default_factory=dict)

    def rule(self, rule: Rule) -> Iterable[Rule]:
        """Return the rules that do together what the rule does."""
        found = [rule]
        for atom, place, variable in self._skewed_joins(rule)[:MOST_SPLIT]:
            found = [part for each in found for part in self._parts(each, atom, place, variable)]
        return found

    def _skewed_joins(self, rule: Rule) -> list[tuple[Atom, int, Variable]]:
        """Return the atoms that are joined on a skewed column, those with the most heavy rows first.

        A rule that aggregates is not split: its groups would be.
        """
        if rule.aggregations:
            return []
        found: dict[Variable, tuple[Atom, int, Variable]] = {}
        skewed = [
            (atom, place, term)
            for atom in dict.fromkeys(rule.positive)
            for place, term in enumerate(atom.terms)
            if self.sizes.heavy.get((atom.predicate, place)) and isinstance(term, Variable)
        ]
        skewed.sort(key=lambda join: -self.sizes.heavy[join[0].predicate, join[1]])
        for atom, place, term in skewed:
            if any(term in each.terms for each in rule.positive if each != atom):
                found.setdefault(term, (atom, place, term))
        return list(found.values())

    def _parts(self, rule: Rule, atom: Atom, place: int, variable: Variable) -> tuple[Rule, ...]:
        """Return the rule for the light values of a variable, and that for the heavy ones."""
        if atom not in rule.body:  # it is filtered already
            return (rule,)
        heavy = self._heavy(atom.predicate, place)
        is_light = Negation(Atom(heavy, (_column(place),)))
        light = self._filtered(f"{heavy} light", atom.predicate, is_light)
        lighter = tuple(Atom(light, atom.terms) if each == atom else each for each in rule.body)
        heavier: list[Literal] = [Atom(heavy, (variable,))]
        for each in rule.body:
            if isinstance(each, Atom) and each != atom and variable in each.terms:
                at = each.terms.index(variable)
                name = f"{each.predicate} {at + 1} of {heavy}"
                few = self._filtered(name, each.predicate, Atom(heavy, (_column(at),)))
                heavier.append(Atom(few, each.terms))
            else:
                heavier.append(each)
        return replace(rule, body=lighter), replace(rule, body=_atoms_first(heavier))

    def _heavy(self, predicate: str, place: int) -> str:
        """Return the predicate of the heavy values of a column."""
        name = f"{predicate} {place + 1} heavy"
        self._define(name, 1)
        self.heavy[name] = (predicate, place)
        return name

    def _filtered(self, name: str, predicate: str, test: Atom | Negation) -> str:
        """Return a predicate with the facts of another that pass a test of one column."""
        arity = self._arity(predicate)
        if name not in self.rules:
            terms = tuple(map(_column, range(arity)))
            self._define(name, arity)
            self.rules[name] = Rule(Atom(name, terms), (Atom(predicate, terms), test))
        return name

    def _arity(self, predicate: str) -> int:
        return {**self.program.predicates, **self.predicates}[predicate].arity

    def _define(self, name: str, arity: int) -> None:
        types = (ColumnType.ANY,) * arity
        self.predicates.setdefault(name, Predicate(name, arity, (None,) * arity, types, name))


def _column(place: int) -> Variable:
    return Variable(f"c{place}")


def _atoms_first(body: Iterable[Literal]) -> tuple[Literal, ...]:
    """Return the literals in an order in which atoms bind variables before others use them."""
    return tuple(sorted(body, key=lambda literal: not isinstance(literal, Atom)))
