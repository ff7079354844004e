"""The groups of rules that aggregate, kept from one transaction to the next. Mutable.

A group is known once its rows have been folded. From then on rows that it loses and gains are taken out of
its accumulators and put in. See `engine.protocol.Aggregates` for the contracts of the methods.

Invariant: between transactions a known group's accumulators have exactly its rows, and its results are its
fact. What changes facts otherwise makes all groups unknown that depend on them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tidelog.compiled import kernel
from tidelog.data.rows import Ids
from tidelog.engine.columnar import layout
from tidelog.engine.columnar.interpreter.aggregation import SUM_MET, collect, fold
from tidelog.engine.columnar.storage.catalog import Catalog, CatalogObserver
from tidelog.engine.columnar.storage.storage import ColumnarStorage
from tidelog.engine.columnar.storage.table import Table
from tidelog.engine.columnar.storage.table_kernels import find_or_enter
from tidelog.engine.columnar.transactions.row_sets import EMPTY, NO_ROWS, RowNumbers, RowSet
from tidelog.engine.columnar.transactions.transactions import Participant, Transactions
from tidelog.engine.protocol import Aggregated
from tidelog.logic.program import Atom, Constant, Term
from tidelog.records import dataclass

Marks = npt.NDArray[np.bool_]

FIRST_GROUPS = 64
VACUUM_FROM = 4096


class RowExchange(NamedTuple):
    """Changed rows: the numbers of their groups, how many were gained (the others were lost), and columns."""

    groups: RowNumbers
    gained: int
    columns: Mapping[Term, Ids]


class KnownGroups:
    """The groups of one rule: a table of their keys, whether each is known, and its accumulators."""

    def __init__(self, aggregated: Aggregated) -> None:
        # Loaded when the first group changes: a program that is only run does without.
        from tidelog.engine.columnar.transactions.accumulators import Accumulators

        rule = aggregated.rule
        self.aggregated = aggregated
        self.read = rule.read | {rule.head.predicate}
        self.is_exchanged = False  # in the present transaction
        self.accumulators = tuple(map(Accumulators, rule.aggregations))
        self.is_known: Marks = np.zeros(FIRST_GROUPS, np.bool_)
        self._is_listed: Marks = np.zeros(FIRST_GROUPS, np.bool_)
        self.vacuum_at = VACUUM_FROM  # the number of groups from which those without rows are removed
        self.table = self._empty_table()

    def _empty_table(self) -> Table:
        arity = len(self.aggregated.rule.group)
        descriptors = np.zeros((1, layout.COLUMNS + arity), np.int64)
        # A direct set of the one row without columns, which cannot be hashed; hash slots of all others.
        return Table(descriptors, 0, self.aggregated.rule.head.predicate, arity, 0, 4)

    def find(self, keys: Sequence[Ids], count: int) -> RowNumbers:
        """Return the numbers of the groups with these keys; new ones are not known."""
        numbers = np.empty(count, np.int64)
        source = np.concatenate(keys) if keys else np.zeros(0, np.int32)
        groups = np.array((0, count), np.int64)  # all in the first table of a T of their own: codes are rows
        done = 0
        while True:
            done, _ = find_or_enter(self.table.descriptors, groups, source, done, True, numbers)
            if done == count:
                break
            self.table.reserve(count - done, 0)
        self._fit(len(self.table))
        return numbers

    def _fit(self, groups: int) -> None:
        size = len(self.is_known)
        if groups > size:
            larger = np.zeros(max(2 * size, groups), np.bool_)
            larger[:size] = self.is_known
            self._is_listed = np.zeros(len(larger), np.bool_)
            self.is_known = larger
        for accumulators in self.accumulators:
            accumulators.fit(groups)

    def distinct(self, parts: Sequence[RowNumbers]) -> RowNumbers:
        """Return the numbers of groups, each once."""
        groups = np.concatenate(parts) if len(parts) > 1 else parts[0]
        listed = np.empty(len(groups), np.int64)
        count = int(list_groups(groups, self._is_listed, listed))
        return listed[:count]

    def keys(self, groups: RowNumbers) -> list[Ids]:
        """Return the columns of the keys of groups."""
        return [column[groups] for column in self.table.columns]

    def results(self, groups: RowNumbers) -> list[Ids]:
        """Return the columns of the results of groups."""
        return [accumulators.results[groups] for accumulators in self.accumulators]

    def saved(self, groups: RowNumbers) -> tuple[Any, ...]:
        """Return what `restore` needs to take back changes of these groups."""
        return groups, self.is_known[groups], [each.saved(groups) for each in self.accumulators]

    def restore(self, saved: tuple[Any, ...]) -> None:
        """Take back all changes since `saved`."""
        groups, was_known, accumulated = saved
        self.is_known[groups] = was_known
        for accumulators, each in zip(self.accumulators, accumulated, strict=True):
            accumulators.restore(each)

    def with_rows(self) -> KnownGroups:
        """Return the known groups that have rows, if there may be many others; else all."""
        count = len(self.table)
        if count < self.vacuum_at:
            return self
        rows = self.accumulators[0].rows[:count]
        groups = np.flatnonzero(self.is_known[:count] & (rows > 0))
        kept = KnownGroups(self.aggregated)
        kept.accumulators = tuple(accumulators.only(groups) for accumulators in self.accumulators)
        kept.find(self.keys(groups), len(groups))  # in this order
        kept.is_known[: len(groups)] = True
        kept.vacuum_at = max(VACUUM_FROM, 2 * len(groups))
        return kept


@dataclass(slots=True, eq=False)
class ColumnarAggregates(Participant, CatalogObserver):
    """The groups of all rules that have been changed: notified of changes while there are any."""

    catalog: Catalog
    storage: ColumnarStorage
    transactions: Transactions
    exchanged: int = 0  # groups whose accumulators gave their results, and …
    folded: int = 0  # … groups whose rows were read
    _known: dict[str, KnownGroups] = field(default_factory=dict)  # by the relation of their facts
    _saved: list[tuple[KnownGroups, tuple[Any, ...]]] = field(default_factory=list)
    # The tables that known groups depend on, by name, and how they were when the last transaction ended.
    _tables: dict[str, Table] = field(default_factory=dict)
    _numbers: RowNumbers = field(default_factory=lambda: NO_ROWS)
    _seen: tuple[list[int], list[int]] = field(default_factory=lambda: ([], []))

    # ---- exchanging rows

    def exchange(self, aggregated: Aggregated, lost: Any, gained: Any) -> tuple[RowSet, RowSet, RowSet]:
        """Take lost rows out of their groups, and put gained ones in.

        Return the facts of known groups that are no longer right, those that are right instead, and the
        groups that must be folded, as facts of `touched`.
        """
        known = self._groups_of(aggregated)
        known.is_exchanged = True
        changes = {
            atom: self._changes(known, atom, lost, gained)
            for atom in dict.fromkeys(aggregated.changed)
            if atom.predicate in lost.rows or atom.predicate in gained.rows
        }
        if not changes:
            return EMPTY, EMPTY, EMPTY
        groups = known.distinct([each.groups for each in changes.values()])
        self._saved.append((known, known.saved(groups)))
        former = known.results(groups)
        is_asked = ~known.is_known[groups]
        for accumulators, atom in zip(known.accumulators, aggregated.changed, strict=True):
            if (change := changes.get(atom)) is not None:
                ids = self._column(accumulators.argument, change.columns, len(change.groups))
                accumulators.change(
                    self.catalog.dictionary, change.groups, change.gained, ids, known.is_known
                )
        for accumulators in known.accumulators:
            accumulators.finish(self.catalog.dictionary, groups, is_asked)
        known.is_known[groups] = ~is_asked
        self.exchanged += len(groups) - int(np.count_nonzero(is_asked))
        relation = aggregated.rule.head.predicate
        results = known.results(groups)
        self._count_without_value(results, ~is_asked & (known.accumulators[0].rows[groups] > 0))
        is_changed = ~is_asked & _differ(former, results)
        keys = known.keys(groups)
        return (
            self._facts(relation, keys, former, is_changed, create=False),
            self._facts(relation, keys, results, is_changed, create=True),
            self._facts(aggregated.touched.predicate, keys, [], is_asked, create=True),
        )

    def _changes(self, known: KnownGroups, atom: Atom, lost: RowSet, gained: RowSet) -> RowExchange:
        """Return the gained rows of a relation of changed rows, then the lost ones."""
        gained_rows, lost_rows = (facts.rows.get(atom.predicate, NO_ROWS) for facts in (gained, lost))
        rows = np.concatenate((gained_rows, lost_rows)) if len(lost_rows) else gained_rows
        table = self.catalog.table(atom.predicate)
        columns = {term: column[rows] for term, column in zip(atom.terms, table.columns, strict=True)}
        keys = [columns[variable] for variable in known.aggregated.rule.group]
        return RowExchange(known.find(keys, len(rows)), len(gained_rows), columns)

    def _column(self, term: Term, columns: Mapping[Term, Ids], rows: int) -> Ids:
        if isinstance(term, Constant):
            return np.full(rows, self.catalog.dictionary.encode(term.value), np.int32)
        return columns[term]

    def _facts(
        self, relation: str, keys: Sequence[Ids], results: Sequence[Ids], is_asked: Marks, create: bool
    ) -> RowSet:
        """Return the facts of the requested groups that have all results."""
        for column in results:
            is_asked = is_asked & (column >= 0)
        count = int(np.count_nonzero(is_asked))
        if not count:
            return EMPTY
        columns = [*keys, *results]
        if count < len(is_asked):
            columns = [column[is_asked] for column in columns]
        facts = self.transactions.facts(relation, columns, count, create)
        if len(facts) < count:
            raise AssertionError(f"a known group of `{relation}` does not have its fact")
        return facts

    def _count_without_value(self, results: Sequence[Ids], is_asked: Marks) -> None:
        """Count the requested groups that derive nothing because an aggregate has no value."""
        has_all = np.logical_and.reduce([column >= 0 for column in results])
        self.transactions.workers.add_dropped(int(np.count_nonzero(is_asked & ~has_all)))

    # ---- folding rows

    def fold(self, aggregated: Aggregated, keep: bool) -> RowSet:
        """Return one fact for each group of the collected rows; `keep` says that it is known from now on."""
        rule, dictionary = aggregated.rule, self.catalog.dictionary
        collected = self.storage.rows(aggregated.collected.predicate)
        columns: dict[Any, Ids] = dict(zip(aggregated.collected.terms, collected.columns, strict=True))
        rows = columns, collected.count
        groups, arguments = collect(*rows, rule.group, rule.aggregations, dictionary, are_counted=keep)
        count = len(groups.firsts)
        keys = [columns[variable][groups.firsts] for variable in rule.group]
        results = [
            fold(aggregation.function, *rows, count, dictionary)
            for aggregation, rows in zip(rule.aggregations, arguments, strict=True)
        ]
        self.folded += count
        if keep and count:
            self._keep(self._groups_of(aggregated), keys, count, arguments, results)
        every = np.ones(count, np.bool_)
        self._count_without_value(results, every)
        return self._facts(rule.head.predicate, keys, results, every, create=True)

    def _keep(
        self,
        known: KnownGroups,
        keys: Sequence[Ids],
        count: int,
        arguments: Sequence[tuple[Ids, Ids]],
        results: Sequence[Ids],
    ) -> None:
        """Know groups from now on, by all their rows and their results."""
        groups = known.find(keys, count)
        known.is_known[groups] = True
        is_whole = np.ones(count, np.bool_)
        for accumulators, (numbers, ids), result in zip(known.accumulators, arguments, results, strict=True):
            accumulators.reset(groups)
            accumulators.results[groups] = result
            accumulators.change(self.catalog.dictionary, groups[numbers], len(ids), ids, known.is_known)
            is_whole &= accumulators.words[groups, SUM_MET] == 0
        known.is_known[groups] = is_whole

    # ---- what is known

    def _groups_of(self, aggregated: Aggregated) -> KnownGroups:
        """Return the groups of a rule."""
        relation = aggregated.rule.head.predicate
        known = self._known.get(relation)
        if known is None:
            known = self._known[relation] = KnownGroups(aggregated)
            self._watch()
            self.catalog.observe(self)
            self.transactions.join(self)
        return known

    def forget(self, relation: str) -> None:
        """Forget the groups whose facts a relation has."""
        if self._known.pop(relation, None) is not None:
            self._watch()

    def _forget_where(self, read: Collection[str]) -> None:
        """Forget the groups that depend on one of these relations."""
        self._known = {name: each for name, each in self._known.items() if each.read.isdisjoint(read)}
        self._watch()

    def _watch(self) -> None:
        """Watch the tables that known groups depend on; of those that were watched, what was seen remains."""
        was_seen = dict(zip(self._tables, zip(*self._seen, strict=True), strict=True))
        names = dict.fromkeys(name for known in self._known.values() for name in sorted(known.read))
        self._tables = {name: self.catalog.table(name) for name in names}
        self._numbers = np.array([table.number for table in self._tables.values()], np.int64)
        seen = zip(self._tables, zip(*self._look(), strict=True), strict=True)
        remaining = [was_seen.get(name, now) for name, now in seen]
        self._seen = [size for size, _ in remaining], [edits for _, edits in remaining]

    def _look(self) -> tuple[list[int], list[int]]:
        """Return what changes whenever facts of the tables do, other than in transactions."""
        words = self.catalog.descriptors
        sizes = words[self._numbers, layout.ROWS] - words[self._numbers, layout.DEAD]
        return sizes.tolist(), [table.edits for table in self._tables.values()]

    # ---- transactions

    def on_begin(self) -> None:
        """Forget groups whose facts were changed since the last transaction."""
        found = self._look()
        if found != self._seen:
            now, then = zip(*found, strict=True), zip(*self._seen, strict=True)
            states = zip(self._tables, now, then, strict=True)
            self._forget_where({name for name, found, seen in states if found != seen})

    def on_commit(self, changed: Collection[str]) -> None:
        """Keep the changes; forget groups that facts were changed of, but whose rows were not exchanged."""
        for relation, known in [*self._known.items()]:
            if not known.is_exchanged and not known.read.isdisjoint(changed):
                self.forget(relation)
            elif known.is_exchanged:
                self._known[relation] = known.with_rows()
        self._end_transaction()

    def on_roll_back(self) -> None:
        """Restore the groups as they were when the transaction began."""
        for known, saved in reversed(self._saved):
            known.restore(saved)
        self._end_transaction()

    def _end_transaction(self) -> None:
        self._saved = []
        for known in self._known.values():
            known.is_exchanged = False
        if self._known:
            self._seen = self._look()
        else:
            self.catalog.ignore(self)
            self.transactions.leave(self)

    def on_drop(self, relation: str, table: Table) -> None:
        """Forget the groups that depend on a relation."""
        self._forget_table(table)

    def on_rename(self, relation: str, name: str) -> None:
        """Forget the groups that depend on a relation that has another name now."""
        self._forget_table(self.catalog.table(name))

    def _forget_table(self, table: Table) -> None:
        names = {name for name, each in self._tables.items() if each is table}
        if names:
            self._forget_where(names)


def _differ(former: Sequence[Ids], present: Sequence[Ids]) -> Marks:
    """Return where one of the columns has another id than before."""
    is_changed: Marks = former[0] != present[0]
    for before, after in zip(former[1:], present[1:], strict=True):
        is_changed = is_changed | (before != after)
    return is_changed


@kernel("const i64[:], bool[:], i64[:] -> i64")
def list_groups(groups: Any, is_listed: Any, listed: Any) -> Any:
    """Write the numbers of groups, each once; return how many they are. None `is_listed` before or after."""
    count = np.int64(0)
    for group in groups:
        if not is_listed[group]:
            is_listed[group] = True
            listed[count] = group
            count += 1
    for place in range(count):
        is_listed[listed[place]] = False
    return count
