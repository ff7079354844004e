"""Selections: atoms with constants, or that only ask whether there is a fact, get predicates of their own.

`triple(?p, rdfs:domain, ?c)` becomes `triple [?0, rdfs:domain, ?1](?p, ?c)`, and `~edge(_, _)` becomes
`~edge [?_0, ?_1]()`: relations that are small enough to lie at every task where the whole would not be.

Invariant: the program has the same facts as before in every predicate that it had.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection
from dataclasses import dataclass, field, replace

from tidelog.logic.program import (
    Atom,
    Constant,
    Literal,
    Negation,
    Predicate,
    Program,
    Rule,
    Term,
    Variable,
    literal_variables,
)
from tidelog.logic.values import ColumnType


def select(program: Program, *, constants: bool, without: Collection[str] = ()) -> Program:
    """Return the program in which atoms that share no variable have predicates of their own.

    With `constants` so have those with constants, except for the selections of these names. The only positive
    atom of a rule stays as it is: it can be read wherever its facts lie.
    """
    selecting = _Selecting(program, constants, frozenset(without))
    rules = tuple(map(selecting.rule, program.rules))
    if not selecting.rules:
        return program
    return replace(
        program,
        rules=(*selecting.rules.values(), *rules),
        predicates={**program.predicates, **selecting.predicates},
    )


@dataclass
class _Selecting:
    """The predicates made so far. Mutable: it gathers them from rule to rule."""

    program: Program
    constants: bool
    without: frozenset[str]
    rules: dict[Atom, Rule] = field(
        default_factory=dict
    )  # by the atom that is selected, its variables numbered
    predicates: dict[str, Predicate] = field(default_factory=dict)

    def rule(self, rule: Rule) -> Rule:
        """Return the rule over selections."""
        if len(rule.positive) == 1 and not rule.negated:
            return rule
        shared = _shared_variables(rule)
        is_only = len(rule.positive) == 1
        return replace(rule, body=tuple(self._literal(literal, shared, is_only) for literal in rule.body))

    def _literal(self, literal: Literal, shared: set[Variable], is_only: bool) -> Literal:
        match literal:
            case Negation(atom):
                return Negation(self._selected(atom, shared))
            case Atom() if not is_only:
                return self._selected(literal, shared)
            case _:
                return literal

    def _is_selected(self, atom: Atom, shared: set[Variable]) -> bool:
        if not shared.intersection(literal_variables(atom)):
            return bool(atom.terms)
        return self.constants and any(isinstance(term, Constant) for term in atom.terms)

    def _selected(self, atom: Atom, shared: set[Variable]) -> Atom:
        """Return the atom of a selection, defined by a rule of its own if it is new, or the atom itself."""
        if not self._is_selected(atom, shared):
            return atom
        kept = tuple(dict.fromkeys(each for each in literal_variables(atom) if each in shared))
        numbered = {variable: Variable(str(place)) for place, variable in enumerate(kept)}
        others = dict.fromkeys(each for each in literal_variables(atom) if each not in shared)
        numbered.update({variable: Variable(f"_{place}") for place, variable in enumerate(others)})
        pattern = Atom(atom.predicate, tuple(_renamed(term, numbered) for term in atom.terms))
        if pattern not in self.rules:
            name = self._name(pattern)
            if kept and name in self.without:
                return atom
            arity = len(kept)
            self.rules[pattern] = Rule(Atom(name, tuple(numbered[each] for each in kept)), (pattern,))
            self.predicates[name] = Predicate(name, arity, (None,) * arity, (ColumnType.ANY,) * arity, name)
        return Atom(self.rules[pattern].head.predicate, kept)

    def _name(self, pattern: Atom) -> str:
        """Return a readable name that no other predicate has; with a space, no program has it."""
        terms = (
            str(term.value.content) if isinstance(term, Constant) else f"?{term.name}"
            for term in pattern.terms
        )
        name = f"{pattern.predicate} [{', '.join(terms)}]"
        return name if name not in self.predicates else f"{name} {len(self.predicates)}"


def _renamed(term: Term, names: dict[Variable, Variable]) -> Term:
    return names[term] if isinstance(term, Variable) else term


def _shared_variables(rule: Rule) -> set[Variable]:
    """Return the variables that stand in more than one literal, the head and aggregates included."""
    literals = Counter(variable for literal in rule.body for variable in set(literal_variables(literal)))
    arguments = {term for each in rule.aggregations for term in each.arguments if isinstance(term, Variable)}
    asked = arguments.union(rule.group) if rule.aggregations else set(literal_variables(rule.head))
    return asked | {variable for variable, count in literals.items() if count > 1}
