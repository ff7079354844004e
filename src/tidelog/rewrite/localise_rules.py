"""Rules rewritten before they are localised: selections, partial aggregates, heavy keys."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Mapping
from dataclasses import field, replace
from typing import Final

from tidelog.logic.functions.builtins import PART_OF_SUM, SUM_OF_PARTS
from tidelog.logic.program import (
    Aggregation,
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
from tidelog.logic.type_inference import Columns, Inferred, infer_columns
from tidelog.logic.types import ANY, Type, type_of
from tidelog.logic.values import ColumnType
from tidelog.records import dataclass
from tidelog.rewrite.localise_plans import Sizes

# ---- selections
#
# `triple(?p, rdfs:domain, ?c)` becomes `triple [?0, rdfs:domain, ?1](?p, ?c)`, and `~edge(_, _)` becomes
# `~edge [?_0, ?_1]()`: relations that are small enough to lie at every task where the whole would not be.
#
# Invariant: the program has the same facts as before in every predicate that it had.


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
        """Return the atom of a selection, after defining the selection if it is new, or the atom itself."""
        if not self._is_selected(atom, shared):
            return atom
        kept = tuple(dict.fromkeys(each for each in literal_variables(atom) if each in shared))
        numbered = {variable: Variable(str(position)) for position, variable in enumerate(kept)}
        unshared = dict.fromkeys(each for each in literal_variables(atom) if each not in shared)
        numbered.update({variable: Variable(f"_{position}") for position, variable in enumerate(unshared)})
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
    """Return the variables that occur in more than one literal; the head and aggregates count as literals."""
    literals = Counter(variable for literal in rule.body for variable in set(literal_variables(literal)))
    needed = {*rule.group, *rule.aggregated} if rule.aggregations else set(literal_variables(rule.head))
    return needed | {variable for variable, count in literals.items() if count > 1}


# ---- partial aggregates
#
# Gray, Chaudhuri, Bosworth, Layman, Reichart, Venkatrao, Pellow, Pirahesh: Data Cube, Data Mining and
# Knowledge Discovery 1997, section 5, for the aggregates that can be computed so ("distributive").
#
#     number(?x, #count(?y)) :- path(?y, ?x) .
#
# becomes, with `task number` a relation of one fact, which is another one at each task,
#
#     part(?x, ?task, #count(?y)) :- path(?y, ?x), task number(?task) .
#     number(?x, #sum(?n, ?task)) :- part(?x, ?task, ?n) .
#
# However many rows a group has, one for each task is sent, and no task has to hold all of them. A row may
# count at one task only: the rule runs at the owner of a variable that divides rows, here `?y`.
#
# Invariant: the group's results are those of all its rows.

NUMBER: Final = "task number"  # a relation of each task: no name of a predicate has a space
# The partial aggregate of each part, and the aggregate that merges partial results.
_DIVIDED: Final[Mapping[str, tuple[str, str]]] = {
    "count": ("count", "sum"),
    "sum": (PART_OF_SUM, SUM_OF_PARTS),
    "min": ("min", "min"),
    "max": ("max", "max"),
}
REPEATABLE: Final = frozenset({"min", "max"})  # a row may be aggregated at several tasks
TASK: Final = Variable(" task")  # no variable of a program has a space


@dataclass(frozen=True, slots=True)
class Partial:
    """How the rows that a task has are aggregated, and how the results of tasks are."""

    terms: tuple[Term, ...]  # of the relation of partial results: the group, the task, and each result
    group: tuple[Variable, ...]
    aggregations: tuple[Aggregation, ...]
    merging: tuple[Aggregation, ...]

    @staticmethod
    def of(rule: Rule) -> Partial:
        """Divide the aggregations of a rule."""
        partial, merging = [], []
        for number, aggregation in enumerate(rule.aggregations):
            result = Variable(f" result {number}")
            of_part, merged = _DIVIDED[aggregation.function]
            partial.append(Aggregation(result, of_part, aggregation.arguments))
            distinguishing = () if aggregation.function in REPEATABLE else (TASK,)
            merging.append(Aggregation(aggregation.variable, merged, (result, *distinguishing)))
        terms = (*rule.group, TASK, *(aggregation.variable for aggregation in partial))
        return Partial(terms, (*rule.group, TASK), tuple(partial), tuple(merging))


def is_mergeable(rule: Rule, inferred: Inferred) -> bool:
    """Whether an aggregate can be computed by merging results over parts of a group.

    Sums of integers can. Those of other numbers are rounded once, at the end, so that merging rounded sums
    would differ; and where not all values are numbers, a part may have no sum.
    """
    return bool(rule.aggregations) and all(
        aggregation.function in _DIVIDED
        and (aggregation.function != "sum" or _is_integer(rule, aggregation.arguments[0], inferred))
        for aggregation in rule.aggregations
    )


def types_in(program: Program, given: Mapping[str, Columns]) -> Inferred:
    """Return what columns hold, if aggregates depend on it.

    `given` has the types of the given facts of all predicates that rules read, or of none if they are
    unknown.
    """
    if given and has_sums(program):
        return infer_columns(program, given)
    return Inferred({name: (ANY,) * each.arity for name, each in program.predicates.items()})


def has_sums(program: Program) -> bool:
    """Whether it depends on types which aggregates can be merged."""
    return any(aggregation.function == "sum" for rule in program.rules for aggregation in rule.aggregations)


def _is_integer(rule: Rule, term: Term, inferred: Inferred) -> bool:
    """Whether a term of a rule is always an integer."""
    if isinstance(term, Constant):
        return type_of(term.value) is Type.INTEGER
    return any(
        types <= {Type.INTEGER}
        for atom in rule.positive
        for column_term, types in zip(atom.terms, inferred.columns[atom.predicate], strict=True)
        if column_term == term
    )


def is_divided_by(rule: Rule, key: Term | None) -> bool:
    """Whether each row that is aggregated has one value of this term only, if it may be aggregated once."""
    return isinstance(key, Variable) and all(
        aggregation.function in REPEATABLE or key in aggregation.arguments
        for aggregation in rule.aggregations
    )


def dividing_variables(rule: Rule) -> tuple[Variable, ...]:
    """Return the variables by any of which the rows that are aggregated can be divided."""
    return tuple(term for term in dict.fromkeys(rule.aggregated) if is_divided_by(rule, term))


# ---- heavy keys
#
# DeWitt, Naughton, Schneider, Seshadri: Practical Skew Handling in Parallel Joins, VLDB 1992.
#
# Where 90 % of the rows of `likes(?x, ?y)` have one `?y`, one task would own nearly all of them. With `heavy`
# the values that are so frequent,
#
#     liked(?x, ?z) :- likes(?x, ?y), made(?y, ?z) .
#
# becomes
#
#     light(?x, ?y) :- likes(?x, ?y), ~heavy(?y) .
#     liked(?x, ?z) :- light(?x, ?y), made(?y, ?z) .
#     few(?y, ?z)   :- made(?y, ?z), heavy(?y) .
#     liked(?x, ?z) :- likes(?x, ?y), heavy(?y), few(?y, ?z) .
#
# The last rule runs where `likes` lies by another argument, and `few` is small enough to lie at every task.
# The heavy values are given facts, sampled when the facts are loaded; any set of values is right, and few are
# of use.
#
# Invariant: the program has the same facts as before in every predicate that it had, whatever is heavy.

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
    rules = tuple(split for rule in program.rules for split in splitting.rule(rule))
    predicates = {**program.predicates, **splitting.predicates}
    split_program = replace(program, rules=(*splitting.rules.values(), *rules), predicates=predicates)
    rows = {**sizes.rows, **dict.fromkeys(splitting.heavy, ASSUMED)}
    return Split(split_program, splitting.heavy, replace(sizes, rows=rows))


@dataclass
class _Splitting:
    """The predicates made so far. Mutable: it gathers them from rule to rule."""

    program: Program
    sizes: Sizes
    rules: dict[str, Rule] = field(default_factory=dict)
    predicates: dict[str, Predicate] = field(default_factory=dict)
    heavy: dict[str, Column] = field(default_factory=dict)

    def rule(self, rule: Rule) -> Iterable[Rule]:
        """Return the rules that together replace a rule."""
        rules = [rule]
        for atom, column, variable in self._skewed_joins(rule)[:MOST_SPLIT]:
            rules = [split for each in rules for split in self._parts(each, atom, column, variable)]
        return rules

    def _skewed_joins(self, rule: Rule) -> list[tuple[Atom, int, Variable]]:
        """Return the atoms that are joined on a skewed column, those with the most heavy rows first.

        A rule that aggregates is not split: its groups would be.
        """
        if rule.aggregations:
            return []
        joins: dict[Variable, tuple[Atom, int, Variable]] = {}
        skewed = [
            (atom, position, term)
            for atom in dict.fromkeys(rule.positive)
            for position, term in enumerate(atom.terms)
            if self.sizes.heavy.get((atom.predicate, position)) and isinstance(term, Variable)
        ]
        skewed.sort(key=lambda join: -self.sizes.heavy[join[0].predicate, join[1]])
        for atom, position, term in skewed:
            if any(term in each.terms for each in rule.positive if each != atom):
                joins.setdefault(term, (atom, position, term))
        return list(joins.values())

    def _parts(self, rule: Rule, atom: Atom, column: int, variable: Variable) -> tuple[Rule, ...]:
        """Return the rule for the light values of a variable, and that for the heavy ones."""
        if atom not in rule.body:  # it is already filtered
            return (rule,)
        heavy = self._heavy(atom.predicate, column)
        is_light = Negation(Atom(heavy, (_column(column),)))
        light = self._filtered(f"{heavy} light", atom.predicate, is_light)
        lighter = tuple(Atom(light, atom.terms) if each == atom else each for each in rule.body)
        heavier: list[Literal] = [Atom(heavy, (variable,))]
        for each in rule.body:
            if isinstance(each, Atom) and each != atom and variable in each.terms:
                position = each.terms.index(variable)
                name = f"{each.predicate} {position + 1} of {heavy}"
                matching = self._filtered(name, each.predicate, Atom(heavy, (_column(position),)))
                heavier.append(Atom(matching, each.terms))
            else:
                heavier.append(each)
        return replace(rule, body=lighter), replace(rule, body=_atoms_first(heavier))

    def _heavy(self, predicate: str, column: int) -> str:
        """Return the predicate of the heavy values of a column."""
        name = f"{predicate} {column + 1} heavy"
        self._define(name, 1)
        self.heavy[name] = (predicate, column)
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


def _column(column: int) -> Variable:
    return Variable(f"c{column}")


def _atoms_first(body: Iterable[Literal]) -> tuple[Literal, ...]:
    """Return the literals in an order in which atoms bind variables before others use them."""
    return tuple(sorted(body, key=lambda literal: not isinstance(literal, Atom)))
