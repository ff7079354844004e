"""Bindings with intervals, and the algebra for evaluating bodies of temporal rules.

A binding gives each variable an id and has a list of intervals: the time points at which it holds. There are
ten operations, each defined at a time point t by what holds at t or, for metric operators, at other times;
`BodyEvaluation` evaluates bodies by these alone. They follow Table 1 of Wang, Wałęga, Cuenca Grau: Seminaïve
Materialisation in DatalogMTL, RuleML+RR 2022.

Two bindings agree if they have equal ids for all variables that both have.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

import numpy as np

from tidelog.data.rows import Ids
from tidelog.logic.program import Assignment, literal_variables
from tidelog.records import dataclass
from tidelog.temporal.interval_table import (
    IdColumns,
    Integers,
    IntervalLists,
    NumberedRows,
    RowIndex,
    all_time,
    concatenate,
    distinct_rows,
    empty_lists,
    select,
)
from tidelog.temporal.metric_rules import CompiledMetricRule, Leaf, SinceParts, Test, since_intervals

# From tests, names of the variables that are bound, names of those that are assigned, and rows of ids of the
# bound ones to the rows that pass, with a column for each assigned variable.
Evaluate = Callable[[Sequence[Test], Sequence[str], Sequence[str], IdColumns], IdColumns]


@dataclass(frozen=True, slots=True, eq=False)
class IntervalBindings:
    """Rows of ids, a column for each variable, and for each row the list of intervals at which it holds.

    The operations are `always`, `leaf`, `shifted`, `at_interval`, `since`, `union`, `minus`, `join`, `test`
    and `head`; `join_leaf` is `join` by an index. Metric operators retain bindings that hold at no time.
    """

    names: tuple[str, ...]
    columns: IdColumns
    lists: IntervalLists

    def __len__(self) -> int:
        return self.columns.shape[1] if self.names else len(self.lists)

    def column(self, name: str) -> Ids:
        """The column of a variable."""
        column: Ids = self.columns[self.names.index(name)]
        return column

    def positions(self, names: Iterable[str]) -> Integers:
        """The positions of the columns of these variables."""
        return np.array([self.names.index(name) for name in names], np.int64)

    def take(self, numbers: Integers) -> IntervalBindings:
        """The bindings of these numbers."""
        return IntervalBindings(self.names, self.columns[:, numbers], self.lists.take(numbers))

    def holding(self) -> IntervalBindings:
        """The bindings that hold at some time."""
        nonempty = self.lists.nonempty
        return self if len(nonempty) == len(self.lists) else self.take(nonempty)

    def project(self, names: Sequence[str]) -> IntervalBindings:
        """The same bindings of these variables only; some may be equal."""
        columns = np.ascontiguousarray(self.columns[self.positions(names)])
        return IntervalBindings(tuple(names), columns, self.lists)

    def with_lists(self, lists: IntervalLists) -> IntervalBindings:
        """The same rows with other lists."""
        return IntervalBindings(self.names, self.columns, lists)

    @staticmethod
    def always() -> IntervalBindings:
        """`top()`: the binding without variables holds at every t."""
        return IntervalBindings((), np.zeros((0, 1), np.int32), all_time(1))

    @staticmethod
    def leaf(leaf: Leaf, facts: NumberedRows, numbers: Integers, lists: IntervalLists) -> IntervalBindings:
        """An atom: the binding that makes it the fact of number `numbers[i]` holds at t in `lists[i]`."""
        positions = [leaf.terms.index(name) for name in leaf.names]
        return IntervalBindings(leaf.names, select(facts.columns, positions, numbers), lists)

    def shifted(self, *moves: Integers) -> IntervalBindings:
        """A unary operator: a binding holds at t if it does at some (diamond), or all (box) of the times at
        which the operator looks from t.

        `moves` are operators as `Timeline.operator` encodes them, the innermost first.
        """
        return self.with_lists(self.lists.shifted(*moves))

    def at_interval(self, ends: tuple[int, int], *, is_throughout: bool) -> IntervalBindings:
        """A query at an interval: a binding holds at every t if it does throughout, or somewhere in it."""
        left, right = ends if is_throughout else ends[::-1]
        owners, lefts, rights = self.lists.rows()
        numbers = np.unique(owners[(lefts <= left) & (rights >= right)])
        return self.take(numbers).with_lists(all_time(len(numbers)))

    def since(self, right: IntervalBindings, parts: SinceParts) -> IntervalBindings:
        """`since`: agreeing bindings hold at t if the right one holds at a time s, t - s being in the
        operator's interval, and the left one, `self`, at all times between s and t.

        `until` is the mirror image. If the right operand may count alone, all variables of the left one are
        also in the right one, so that a binding on the right agrees with at most one on the left.
        """
        numbers, others = self._agreeing(right)
        if not parts.alone:
            lists = since_intervals(parts, self.lists, right.lists, numbers, others)
            return right._extended(self.names, self.columns, others, numbers, lists)
        partners = np.full(len(right), -1)
        partners[others] = numbers
        return right.with_lists(
            since_intervals(parts, self.lists, right.lists, partners, right.lists.numbers)
        )

    @staticmethod
    def union(parts: Sequence[IntervalBindings]) -> IntervalBindings:
        """A disjunction of bindings of the same variables: one holds at t if it does in some part.

        Equal bindings become one.
        """
        rows = NumberedRows(len(parts[0].names))
        numbers_of_parts = [rows.find_or_add(part.columns, len(part)) for part in parts]
        numbers, lists = concatenate([part.lists for part in parts]).grouped(np.concatenate(numbers_of_parts))
        return IntervalBindings(parts[0].names, rows.columns[:, numbers], lists)

    def minus(self, other: IntervalBindings, *, are_same_rows: bool = False) -> IntervalBindings:
        """A negation: a binding holds at t if it does here, and no other that agrees with it does at t.

        `are_same_rows`: both have the same rows in the same order, and each agrees only with itself.
        """
        every = self.lists.numbers
        if are_same_rows:
            return self.with_lists(self.lists.without(other.lists, every, every))
        other = other.holding()
        numbers, others = self._agreeing(other)
        keys, lists = other.lists.take(others).grouped(numbers)
        positions = np.full(len(self), -1)
        positions[keys] = np.arange(len(keys))
        return self.with_lists(self.lists.without(lists, every, positions)).holding()

    def join(self, other: IntervalBindings) -> IntervalBindings:
        """A conjunction: each pair of agreeing bindings is one that holds at t if both do."""
        numbers, others = self._agreeing(other)
        lists = self.lists.intersected(other.lists, numbers, others)
        return self._extended(other.names, other.columns, numbers, others, lists).holding()

    def join_leaf(
        self, leaf: Leaf, facts: NumberedRows, read: Callable[[Integers], IntervalLists]
    ) -> IntervalBindings:
        """`join` with an atom whose facts an index looks up by each binding; `read` gives their intervals."""
        positions = leaf.bound_positions(self.names)
        numbers, rows = facts.matches(positions, keys_of(leaf, positions, self))
        if not leaf.is_plain:
            is_match = matching(leaf, facts.columns, rows)
            numbers, rows = numbers[is_match], rows[is_match]
        times = read(rows)
        lists = self.lists.intersected(times, numbers, times.numbers)
        nonempty = lists.nonempty
        names = [name for name in leaf.names if name not in self.names]
        if len(nonempty) < len(numbers):
            numbers, rows, lists = numbers[nonempty], rows[nonempty], lists.take(nonempty)
        columns = self.columns[:, numbers]
        if names:
            new_positions = [leaf.terms.index(name) for name in names]
            columns = np.concatenate([columns, select(facts.columns, new_positions, rows)])
        return IntervalBindings((*self.names, *names), columns, lists)

    def test(self, tests: Sequence[Test], evaluate: Evaluate) -> IntervalBindings:
        """Comparisons and assignments: a binding holds at t if it does here and passes all tests.

        Assigned variables are added; each distinct row of the variables that tests use is evaluated once.
        """
        assigned = [test.variable.name for test in tests if isinstance(test, Assignment)]
        new = [name for name in dict.fromkeys(assigned) if name not in self.names]
        used = dict.fromkeys(variable.name for test in tests for variable in literal_variables(test))
        names = [name for name in used if name in self.names]
        rows = distinct_rows(self.project(names).columns)
        passing = evaluate(tests, names, new, rows)
        if names:
            index = RowIndex(range(len(names)))
            index.extend(passing, passing.shape[1])
            numbers, sources = index.matches(passing, self.columns, self.positions(names))
        else:
            numbers = np.arange(len(self)) if passing.shape[1] else np.zeros(0, np.int64)
            sources = np.zeros(len(numbers), np.int64)
        columns = np.vstack([self.columns[:, numbers], passing[len(names) :, sources]])
        return IntervalBindings((*self.names, *new), columns, self.lists.take(numbers))

    def head(self, rule: CompiledMetricRule) -> IntervalBindings:
        """A head: the fact that a binding makes of it holds at t if the head's operators look from a time at
        which the binding holds to t.

        The columns are those of the fact, named by their positions; some facts may be equal.
        """
        names = tuple(map(str, range(len(rule.terms))))
        if not len(self):  # evaluation has ended before all variables were bound
            return IntervalBindings(names, np.zeros((len(names), 0), np.int32), empty_lists())
        columns = np.empty((len(names), len(self)), np.int32)
        for place, term in enumerate(rule.terms):
            columns[place] = term if isinstance(term, int) else self.column(term)
        return IntervalBindings(names, columns, self.lists.shifted(*rule.moves))

    def _agreeing(self, other: IntervalBindings) -> tuple[Integers, Integers]:
        """The numbers of the pairs that agree."""
        shared = [name for name in self.names if name in other.names]
        count, other_count = len(self), len(other)
        if not shared:
            return np.repeat(np.arange(count), other_count), np.tile(np.arange(other_count), count)
        if count < other_count:
            others, numbers = other._agreeing(self)
            return numbers, others
        index = RowIndex(other.positions(shared))
        index.extend(other.columns, other_count)
        return index.matches(other.columns, self.columns, self.positions(shared))

    def _extended(
        self,
        names: Sequence[str],
        source: IdColumns,
        numbers: Integers,
        rows: Integers,
        lists: IntervalLists,
    ) -> IntervalBindings:
        """The bindings with these numbers, extended by variables that rows of other columns have."""
        columns = self.columns[:, numbers]
        new_positions = [position for position, name in enumerate(names) if name not in self.names]
        if not new_positions:
            return IntervalBindings(self.names, columns, lists)
        columns = np.vstack([columns, select(source, new_positions, rows)])
        return IntervalBindings(
            (*self.names, *(names[position] for position in new_positions)), columns, lists
        )


def numbers_of(leaf: Leaf, facts: NumberedRows, demand: IntervalBindings | None) -> Integers:
    """The numbers of an atom's facts, only of those that agree with the demand if there is one."""
    positions = leaf.bound_positions(() if demand is None else demand.names)
    if not positions:
        numbers = np.arange(facts.rows)
    else:
        numbers = facts.matches(positions, distinct_rows(keys_of(leaf, positions, demand)))[1]
    return numbers if leaf.is_plain else numbers[matching(leaf, facts.columns, numbers)]


def keys_of(leaf: Leaf, positions: Sequence[int], demand: IntervalBindings | None) -> IdColumns:
    """The keys to look up at these positions of an atom, one for each binding of the demand."""
    keys = np.empty((len(positions), 1 if demand is None else len(demand)), np.int32)
    for place, position in enumerate(positions):
        term = leaf.terms[position]
        keys[place] = term if isinstance(term, int) or demand is None else demand.column(term)
    return keys


def matching(leaf: Leaf, columns: IdColumns, numbers: Integers) -> Integers:
    """Where among `numbers` are facts with an atom's constants, and equal ids where it repeats a variable."""
    is_match = np.ones(len(numbers), bool)
    for position, term in enumerate(leaf.terms):
        first = leaf.terms.index(term)
        if isinstance(term, int):
            is_match &= columns[position, numbers] == term
        elif first < position:
            is_match &= columns[position, numbers] == columns[first, numbers]
    return np.flatnonzero(is_match)
