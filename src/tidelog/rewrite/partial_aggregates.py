"""Partial aggregates: each task aggregates those rows of a group that it has, and the group's owner merges.

Gray, Chaudhuri, Bosworth, Layman, Reichart, Venkatrao, Pellow, Pirahesh: Data Cube, Data Mining and Knowledge
Discovery 1997, section 5, for the aggregates that can be computed so ("distributive").

    number(?x, #count(?y)) :- path(?y, ?x) .

becomes, with `task number` a relation of one fact, which is another one at each task,

    part(?x, ?task, #count(?y)) :- path(?y, ?x), task number(?task) .
    number(?x, #sum(?n, ?task)) :- part(?x, ?task, ?n) .

However many rows a group has, one for each task is sent, and no task has to hold all of them. A row may count
at one task only: the rule runs at the owner of a variable that tells rows apart, here `?y`.

Invariant: the group's results are those of all its rows.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Final

from tidelog.logic.functions.aggregates import PART_OF_SUM, SUM_OF_PARTS
from tidelog.logic.program import Aggregation, Constant, Program, Rule, Term, Variable
from tidelog.logic.type_inference import Columns, Inferred, infer_columns
from tidelog.logic.types import ANY, Type, type_of

NUMBER: Final = "task number"  # a relation of each task: no name of a predicate has a space
# What is computed of each part, and how these results are merged.
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
        made, merging = [], []
        for number, each in enumerate(rule.aggregations):
            result = Variable(f" result {number}")
            of_part, merged = _DIVIDED[each.function]
            made.append(Aggregation(result, of_part, each.arguments))
            apart = () if each.function in REPEATABLE else (TASK,)
            merging.append(Aggregation(each.variable, merged, (result, *apart)))
        terms = (*rule.group, TASK, *(each.variable for each in made))
        return Partial(terms, (*rule.group, TASK), tuple(made), tuple(merging))


def is_mergeable(rule: Rule, inferred: Inferred) -> bool:
    """Whether results over parts of a group give those over all of it.

    Sums of integers do. Those of other numbers may be rounded, once, at the end; and where not all values are
    numbers, a part may have no sum.
    """
    return bool(rule.aggregations) and all(
        each.function in _DIVIDED
        and (each.function != "sum" or _is_integer(rule, each.arguments[0], inferred))
        for each in rule.aggregations
    )


def types_in(program: Program, given: Mapping[str, Columns]) -> Inferred:
    """Return what columns hold, if aggregates depend on it.

    `given` has the types of the given facts of all predicates that rules read, or of none if nobody knows.
    """
    if given and has_sums(program):
        return infer_columns(program, given)
    return Inferred({name: (ANY,) * each.arity for name, each in program.predicates.items()})


def has_sums(program: Program) -> bool:
    """Whether it depends on types which aggregates can be merged."""
    return any(each.function == "sum" for rule in program.rules for each in rule.aggregations)


def _is_integer(rule: Rule, term: Term, inferred: Inferred) -> bool:
    """Whether a term of a rule can be nothing but an integer."""
    if isinstance(term, Constant):
        return type_of(term.value) is Type.INTEGER
    return any(
        types <= {Type.INTEGER}
        for atom in rule.positive
        for each, types in zip(atom.terms, inferred.columns[atom.predicate], strict=True)
        if each == term
    )


def tells_apart(rule: Rule, key: Term | None) -> bool:
    """Whether each row that is aggregated has one value of this term only, if it may be aggregated once."""
    return isinstance(key, Variable) and all(
        each.function in REPEATABLE or key in each.arguments for each in rule.aggregations
    )


def telling_apart(rule: Rule) -> tuple[Variable, ...]:
    """Return the variables by any of which the rows that are aggregated can be divided."""
    arguments = (term for each in rule.aggregations for term in each.arguments if isinstance(term, Variable))
    return tuple(term for term in dict.fromkeys(arguments) if tells_apart(rule, term))
