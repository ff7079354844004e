"""The groups of an aggregate rule that give given facts, and the rows in them."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidelog.data.dictionary import Dictionary
from tidelog.logic import builtins
from tidelog.logic.evaluate import evaluate
from tidelog.logic.program import Constant, Rule, Term, Variable
from tidelog.logic.values import Value
from tidelog.plan.compile import collected_variables
from tidelog.proof.instances import Found

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Group:
    """A group that gives a fact: the instances that are its members, and the row that each one is."""

    head: Numbers  # the node of the fact, alone
    members: Numbers  # places among the instances that were found
    row_of: Numbers  # of each member
    rows: int  # how many distinct ones there are


def groups_of(found: Found, heads: Numbers, dictionary: Dictionary) -> Iterator[Group]:
    """The groups whose values are those of the heads that they were found for."""
    rule = found.rule
    collected = collected_variables(rule)
    for members in _alike(found, heads, rule.group):
        rows, row_of = _numbered([found.columns[variable][members] for variable in collected], len(members))
        columns = {variable: found.columns[variable][members][rows] for variable in collected}
        values = {name: [dictionary.decode(i) for i in column.tolist()] for name, column in columns.items()}
        first = {name: dictionary.decode(int(column[members[0]])) for name, column in found.columns.items()}
        if aggregated(rule, values, len(rows)) == [_value(term, first) for term in rule.head.terms]:
            yield Group(heads[members[:1]], members, row_of, len(rows))


def heads_of(rule: Rule, found: Found, dictionary: Dictionary) -> Iterator[list[Value]]:
    """The heads that the groups among instances give, whatever they were found for."""
    collected = collected_variables(rule)
    for members in _alike(found, np.zeros(found.count, np.int64), rule.group):
        columns = [found.columns[variable][members] for variable in collected]
        rows, _ = _numbered(columns, len(members))
        values = {
            variable: dictionary.decode_all(column[rows].tolist())
            for variable, column in zip(collected, columns, strict=True)
        }
        head = aggregated(rule, values, len(rows))
        if head is not None:
            yield head


def aggregated(rule: Rule, values: dict[Variable, list[Value]], rows: int) -> list[Value] | None:
    """The head that a group of distinct rows gives, None if something in it has no value."""
    binding = {variable: values[variable][0] for variable in rule.group}
    for aggregation in rule.aggregations:
        columns = [_repeated(argument, values, rows) for argument in aggregation.arguments]
        distinct = list(dict.fromkeys(zip(*columns, strict=True)))
        value = builtins.AGGREGATES[aggregation.function](distinct)
        if value is None:
            return None
        binding[aggregation.variable] = value
    for assignment in rule.after:
        value = evaluate(assignment.expression, binding)
        if value is None:
            return None
        binding[assignment.variable] = value
    return [_value(term, binding) for term in rule.head.terms]


def _alike(found: Found, heads: Numbers, group: Sequence[Variable]) -> Iterator[Numbers]:
    """The places of instances with the same head and the same values of the group's variables."""
    _, group_of = _numbered([heads, *(found.columns[variable] for variable in group)], found.count)
    order = np.argsort(group_of, kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(group_of[order])) + 1)


def _numbered(columns: Sequence[npt.NDArray[np.integer]], count: int) -> tuple[Numbers, Numbers]:
    """The place of one row of each kind, and the number of the kind of each row."""
    if not columns:
        return np.zeros(1, np.int64), np.zeros(count, np.int64)
    _, first, numbers = np.unique(np.column_stack(columns), axis=0, return_index=True, return_inverse=True)
    return first, numbers.ravel()


def _repeated(term: Term, values: dict[Variable, list[Value]], rows: int) -> list[Value]:
    return [term.value] * rows if isinstance(term, Constant) else values[term]


def _value(term: Term, binding: dict[Variable, Value]) -> Value:
    return term.value if isinstance(term, Constant) else binding[term]
