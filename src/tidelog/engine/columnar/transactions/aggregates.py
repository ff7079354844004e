"""Accumulators of aggregates: what each group came to, kept from one transaction to the next. Mutable.

A group is known once its rows have been folded. From then on rows that it loses and gains are taken out of
its accumulators and put in: the result is that of folding all its rows, bit by bit. A sum is an integer of
128 bits at a scale that only grows, beside it, if there are doubles, their exact sum as digits. The group is
folded again when accumulators cannot tell: its greatest row is gone, a sum has left its bits, a number is
infinite or beyond 64 bits, or one of few rows is a double, whose digits would take more than the rows.

Invariant: between transactions a known group has in its accumulators what a fold of its rows would put there,
and its results are its fact. What changes facts otherwise makes all groups unknown that depend on them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import field
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from tidelog.compiled import bytes_at, int32_at, int64_at, kernel, subroutine
from tidelog.data import memory
from tidelog.data.dictionary import Dictionary
from tidelog.data.dictionary_kernels import D_CAPACITY, D_EXTRA, D_KIND, D_PAYLOAD
from tidelog.data.rows import Ids
from tidelog.engine.columnar import layout
from tidelog.engine.columnar.interpreter.aggregation import (
    ASKED,
    DIGITS,
    EXTREMES,
    FRACTION,
    HIDDEN_BIT,
    INFINITE,
    INFINITY,
    LEAST_BIT,
    MET_MORE,
    MOST_ADDED,
    NOTHING,
    SIGN,
    SPARE,
    SUM_COUNT,
    SUM_HIGH,
    SUM_LOW,
    SUM_MET,
    SUM_SCALE,
    SUM_WORDS,
    UNIT_BIT,
    add_scaled,
    add_to_digits,
    collect,
    finished,
    finished_digits,
    fold,
    raise_scale,
)
from tidelog.engine.columnar.interpreter.number_kernels import (
    BIG,
    DECIMAL,
    DOUBLE,
    INTEGER,
    LEAST,
    UNCERTAIN,
    ZERO,
    compare,
)
from tidelog.engine.columnar.storage.catalog import Catalog, CatalogObserver
from tidelog.engine.columnar.storage.storage import ColumnarStorage
from tidelog.engine.columnar.storage.table import Table
from tidelog.engine.columnar.transactions.change_kernels import find_or_enter
from tidelog.engine.columnar.transactions.row_sets import EMPTY, NO_ROWS, RowNumbers, RowSet
from tidelog.engine.columnar.transactions.transactions import Participant, Transactions
from tidelog.engine.protocol import Aggregated
from tidelog.logic.program import Aggregation, Atom, Constant, Term
from tidelog.logic.values import Kind
from tidelog.records import dataclass

Words = npt.NDArray[np.int64]
Marks = npt.NDArray[np.bool_]

SUMS = ("sum", "avg")
FIRST_GROUPS = 64
VACUUM_FROM = 4096  # groups from which those without rows are removed
FEW_ROWS = 64  # of a group whose doubles have no digits: it is folded again
ONLY_TABLE = np.zeros(1, np.int64)  # the groups of a rule are the one table of a T of their own

# The words of a group in an aggregation; the first are those of a sum.
(A_ROWS, A_DECIMALS, A_DOUBLES, A_DIGITS, A_ADDED, A_WORDS) = range(SUM_WORDS, SUM_WORDS + 6)
# A_DIGITS is the place of its digits plus one, 0 if it has none; A_ADDED counts the doubles ever added.
HIGHEST_DIGIT = DIGITS - 4  # above the greatest double, with room for carries


class Changes(NamedTuple):
    """Changed rows: the numbers of their groups, how many were gained (the others were lost), and columns."""

    groups: RowNumbers
    gained: int
    columns: Mapping[Term, Ids]


class Accumulators:
    """The accumulators of one aggregation, by the number of the group."""

    def __init__(self, aggregation: Aggregation) -> None:
        self.function = aggregation.function
        self.argument = aggregation.arguments[0]
        self.words: Words = memory.zeros(FIRST_GROUPS * A_WORDS, np.int64).reshape(FIRST_GROUPS, A_WORDS)
        self.results: Ids = np.full(FIRST_GROUPS, -1, np.int32)
        self.digits: Words = np.zeros((1, DIGITS), np.int64)
        self.digits_used: Words = np.zeros(1, np.int64)

    def fit(self, groups: int) -> None:
        """Make room for this many groups."""
        used = len(self.results)
        if groups > used:
            size = max(2 * used, groups)
            self.words = _taller(self.words, size)
            self.results = memory.grown(self.results, used, size)
            self.results[used:] = -1

    def reset(self, groups: RowNumbers) -> None:
        """Begin with groups without rows."""
        places = self.words[groups, A_DIGITS]
        self.words[groups] = 0
        self.words[groups, A_DIGITS] = places
        self.digits[places[places > 0] - 1] = 0

    def change(
        self, dictionary: Dictionary, groups: RowNumbers, gained: int, ids: Ids, is_known: Marks
    ) -> None:
        """Put the first `gained` rows into their groups, and take the others out, if groups are known."""
        count_rows(groups, gained, is_known, self.words)
        if self.function in EXTREMES:
            sign = EXTREMES[self.function]
            move_extremes(dictionary.words, groups, gained, is_known, ids, sign, self.words, self.results)
        elif self.function in SUMS:
            self._add(dictionary, groups, gained, ids, is_known)

    def _add(
        self, dictionary: Dictionary, groups: RowNumbers, gained: int, ids: Ids, is_known: Marks
    ) -> None:
        rows = groups, gained, is_known, ids
        done = 0
        while True:
            sums = self.words, self.digits, self.digits_used
            done = int(add_rows(dictionary.words, *rows, done, *sums))
            if done == len(ids):
                return
            self.digits = _taller(self.digits, 2 * len(self.digits))

    def finish(self, dictionary: Dictionary, groups: RowNumbers, is_asked: Marks) -> None:
        """Renew the results of groups, except those that are asked for; ask for what must be folded again."""
        if self.function in EXTREMES:
            finish_extremes(groups, self.words, self.results, is_asked)
            return
        kinds, payloads = np.zeros(len(groups), np.uint8), np.zeros(len(groups), np.int64)
        scales = np.zeros(len(groups), np.int32)
        if self.function in SUMS:
            is_mean = self.function == "avg"
            finish_numbers(groups, is_mean, self.words, self.digits, kinds, payloads, scales, is_asked)
        else:
            payloads[:] = self.words[groups, A_ROWS]
            kinds[payloads > 0] = Kind.INTEGER
        self.results[groups] = dictionary.encode_mixed_numbers(kinds, payloads, scales)

    def saved(self, groups: RowNumbers) -> tuple[Any, ...]:
        """Return what `restore` needs to take back changes of these groups."""
        words = self.words[groups]
        places = words[words[:, A_DIGITS] > 0, A_DIGITS] - 1
        return groups, words, self.results[groups], places, self.digits[places], int(self.digits_used[0])

    def restore(self, saved: tuple[Any, ...]) -> None:
        """Take back all changes since `saved`; digits that were begun since are free again."""
        groups, words, results, places, digits, used = saved
        self.words[groups] = words
        self.results[groups] = results
        self.digits[places] = digits
        self.digits_used[0] = used

    def keep_only(self, groups: RowNumbers) -> None:
        """Number these groups from 0, and drop all others."""
        size = max(2 * len(groups), FIRST_GROUPS)
        words, results = self.words[groups], self.results[groups]
        places = words[:, A_DIGITS].copy()
        kept = np.flatnonzero(places)
        words[kept, A_DIGITS] = np.arange(1, len(kept) + 1)
        self.digits = _taller(self.digits[places[kept] - 1], max(2 * len(kept), 1))
        self.digits_used[0] = len(kept)
        self.words = _taller(words, size)
        self.results = np.full(size, -1, np.int32)
        self.results[: len(groups)] = results


class KnownGroups:
    """The groups of one rule: a table of their keys, whether each is known, and its accumulators."""

    def __init__(self, aggregated: Aggregated) -> None:
        rule = aggregated.rule
        self.aggregated = aggregated
        self.read = rule.read | {rule.head.predicate}
        self.is_exchanged = False  # in the present transaction
        self.accumulators = tuple(map(Accumulators, rule.aggregations))
        self.is_known: Marks = np.zeros(FIRST_GROUPS, np.bool_)
        self._is_listed: Marks = np.zeros(FIRST_GROUPS, np.bool_)
        self._vacuum_at = VACUUM_FROM
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
        counts = np.array((count,), np.int64)
        done = 0
        while True:
            done = int(find_or_enter(self.table.descriptors, ONLY_TABLE, counts, source, done, True, numbers))
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

    def vacuum(self) -> None:
        """Remove groups without rows if there may be many."""
        count = len(self.table)
        if count < self._vacuum_at:
            return
        rows = self.accumulators[0].words[:count, A_ROWS]
        kept = np.flatnonzero(self.is_known[:count] & (rows > 0))
        keys = self.keys(kept)
        self.table = self._empty_table()
        self.is_known = np.zeros(max(2 * len(kept), FIRST_GROUPS), np.bool_)
        self._is_listed = np.zeros(len(self.is_known), np.bool_)
        for accumulators in self.accumulators:
            accumulators.keep_only(kept)
        self.find(keys, len(kept))  # in this order
        self.is_known[: len(kept)] = True
        self._vacuum_at = max(VACUUM_FROM, 2 * len(kept))


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
        is_changed = ~is_asked & _differ(former, known.results(groups))
        keys = known.keys(groups)
        return (
            self._facts(relation, keys, former, is_changed, create=False),
            self._facts(relation, keys, known.results(groups), is_changed, create=True),
            self._facts(aggregated.touched.predicate, keys, [], is_asked, create=True),
        )

    def _changes(self, known: KnownGroups, atom: Atom, lost: RowSet, gained: RowSet) -> Changes:
        """Return the gained rows of a relation of changed rows, then the lost ones."""
        gained_rows, lost_rows = (facts.rows.get(atom.predicate, NO_ROWS) for facts in (gained, lost))
        rows = np.concatenate((gained_rows, lost_rows)) if len(lost_rows) else gained_rows
        table = self.catalog.table(atom.predicate)
        columns = {term: column[rows] for term, column in zip(atom.terms, table.columns, strict=True)}
        keys = [columns[variable] for variable in known.aggregated.rule.group]
        return Changes(known.find(keys, len(rows)), len(gained_rows), columns)

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
        return self.transactions.facts(relation, columns, count, create)

    # ---- folding rows

    def fold(self, aggregated: Aggregated, keep: bool) -> RowSet:
        """Return one fact for each group of the collected rows; `keep` says that it is known from now on."""
        rule, dictionary = aggregated.rule, self.catalog.dictionary
        collected = self.storage.rows(aggregated.collected.predicate)
        columns: dict[Any, Ids] = dict(zip(aggregated.collected.terms, collected.columns, strict=True))
        groups, arguments = collect(columns, collected.count, rule.group, rule.aggregations, dictionary)
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
                known.vacuum()
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


def _taller(array: Words, rows: int) -> Words:
    """Return a copy with more rows, of zeros."""
    used, width = array.shape
    larger: Words = memory.zeros(rows * width, np.int64).reshape(rows, width)
    larger[:used] = array
    return larger


def _differ(former: Sequence[Ids], present: Sequence[Ids]) -> Marks:
    """Return where one of the columns has another id than before."""
    is_changed: Marks = former[0] != present[0]
    for before, after in zip(former[1:], present[1:], strict=True):
        is_changed = is_changed | (before != after)
    return is_changed


# ---- kernels: groups


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


@kernel("const i64[:], i64, const bool[:], i64[:,:]")
def count_rows(groups: Any, gained: Any, is_known: Any, words: Any) -> None:
    """Count the first `gained` rows in known groups, and the others no longer."""
    for row in range(len(groups)):
        if is_known[groups[row]]:
            words[groups[row], A_ROWS] += 1 if row < gained else -1


# ---- kernels: sums


@kernel("i64[:], const i64[:], i64, const bool[:], const i32[:], i64, i64[:,:], i64[:,:], i64[:] -> i64")
def add_rows(
    D: Any,
    groups: Any,
    gained: Any,
    is_known: Any,
    ids: Any,
    done: Any,
    words: Any,
    digits: Any,
    digits_used: Any,
) -> Any:
    """Add the numbers of the first `gained` rows to the sums of known groups, subtract those of the others.

    Begins with the row `done`; returns the first one that there are no digits for, or the number of rows.
    """
    capacity = D[D_CAPACITY]
    kinds = bytes_at(D[D_KIND], capacity)
    payloads = int64_at(D[D_PAYLOAD], capacity)
    extras = int32_at(D[D_EXTRA], capacity)
    for row in range(done, len(groups)):
        group, entry = groups[row], ids[row]
        kind, payload = kinds[entry], payloads[entry]
        if not is_known[group] or kind < INTEGER or kind > BIG:
            continue
        is_lost = row >= gained
        step = np.int64(-1 if is_lost else 1)
        if kind == DOUBLE:
            if digits_used[0] == len(digits) and words[group, A_DIGITS] == 0:
                return row
            add_double(words, group, payload, step, digits, digits_used)
        elif kind == BIG or (is_lost and payload == LEAST):
            words[group, SUM_MET] |= MET_MORE
        else:
            scale = np.int64(extras[entry])
            if kind == DECIMAL:
                words[group, A_DECIMALS] += step
            if scale > words[group, SUM_SCALE]:
                raise_scale(words, group, scale)
            add_scaled(words, group, payload * step, words[group, SUM_SCALE] - scale)
        words[group, SUM_COUNT] += step
    return np.int64(len(groups))


@subroutine
def add_double(words: Any, group: Any, payload: Any, step: Any, digits: Any, digits_used: Any) -> None:
    """Add a double to the digits of its group, or subtract it."""
    exponent = (payload >> 52) & INFINITE
    words[group, A_DOUBLES] += step
    words[group, A_ADDED] += 1
    if exponent == INFINITE or words[group, A_ADDED] > MOST_ADDED >> 1:
        words[group, SUM_MET] |= MET_MORE
        return
    if words[group, A_DIGITS] == 0:
        if words[group, A_ROWS] <= FEW_ROWS:
            words[group, SUM_MET] |= MET_MORE
            return
        digits[digits_used[0], :] = 0
        digits_used[0] += 1
        words[group, A_DIGITS] = digits_used[0]
    magnitude = np.uint64(payload & FRACTION | (HIDDEN_BIT if exponent else 0))
    position = LEAST_BIT + max(exponent, 1) - 1
    add_to_digits(digits[words[group, A_DIGITS] - 1], magnitude, position, (payload < 0) != (step < 0))


@kernel("const i64[:], bool, i64[:,:], i64[:,:], u8[:], i64[:], i32[:], bool[:]")
def finish_numbers(
    groups: Any,
    is_mean: Any,
    words: Any,
    digits: Any,
    kinds: Any,
    payloads: Any,
    scales: Any,
    is_asked: Any,
) -> None:
    """Write the sum or mean of each group that is not asked for, or ask for it; kinds are zeros before."""
    summed = np.zeros(DIGITS, np.int64)
    for place in range(len(groups)):
        group = groups[place]
        if is_asked[place]:
            continue
        if words[group, A_ROWS] == 0:
            begin_again(words, group, digits)
            continue
        if words[group, SUM_MET] != 0:
            is_asked[place] = True
            continue
        count = words[group, SUM_COUNT]
        if count == 0:
            continue
        low, high, scale = np.uint64(words[group, SUM_LOW]), words[group, SUM_HIGH], words[group, SUM_SCALE]
        if words[group, A_DOUBLES] == 0:
            kind, payload, scale = finished(low, high, scale, count, words[group, A_DECIMALS] > 0, is_mean)
        elif scale > 0:
            kind, payload = np.int64(ASKED), np.int64(0)
        else:
            payload = add_whole(
                digits[words[group, A_DIGITS] - 1], low, high, summed, count if is_mean else np.int64(0)
            )
            kind, scale = np.int64(NOTHING if (payload & ~SIGN) == INFINITY else DOUBLE), np.int64(0)
        if kind == ASKED:
            is_asked[place] = True
        else:
            kinds[place], payloads[place], scales[place] = kind, payload, scale


@subroutine
def begin_again(words: Any, group: Any, digits: Any) -> None:
    """Make a group that has no rows as if it had never had any."""
    used = words[group, A_DIGITS]
    words[group, :] = 0
    words[group, A_DIGITS] = used
    if used > 0:
        digits[used - 1, :] = 0


@subroutine
def add_whole(digits: Any, low: Any, high: Any, summed: Any, divisor: Any) -> Any:
    """The bits of the sum of digits and an integer of 128 bits, or of the mean if the divisor is not 0."""
    for place in range(DIGITS):
        summed[place] = digits[place]
    is_negative = high < 0
    above = np.uint64(high)
    if is_negative:
        above = ~above + np.uint64(low == ZERO)
        low = ~low + np.uint64(1)
    add_to_digits(summed, low, np.int64(UNIT_BIT), is_negative)
    add_to_digits(summed, above, np.int64(UNIT_BIT + 64), is_negative)
    return finished_digits(summed, np.int64(SPARE), np.int64(HIGHEST_DIGIT), divisor)


# ---- kernels: the least and the greatest


@kernel("i64[:], const i64[:], i64, const bool[:], const i32[:], i64, i64[:,:], i32[:]")
def move_extremes(
    D: Any, groups: Any, gained: Any, is_known: Any, ids: Any, sign: Any, words: Any, results: Any
) -> None:
    """Keep the least (sign -1) or greatest id of known groups; note those whose own is among the lost."""
    for row in range(len(groups)):
        group, entry = groups[row], ids[row]
        kept = results[group]
        if not is_known[group]:
            continue
        if row >= gained:
            if entry == kept:
                words[group, SUM_MET] |= MET_MORE
        elif kept < 0:
            results[group] = entry
        elif entry != kept:
            outcome = compare(D, entry, kept)
            if outcome == UNCERTAIN:
                words[group, SUM_MET] |= MET_MORE
            elif outcome == sign:
                results[group] = entry


@kernel("const i64[:], i64[:,:], i32[:], bool[:]")
def finish_extremes(groups: Any, words: Any, results: Any, is_asked: Any) -> None:
    """Ask for the groups that have rows, but have lost their extreme one."""
    for place in range(len(groups)):
        group = groups[place]
        if is_asked[place]:
            continue
        if words[group, A_ROWS] == 0:
            results[group] = -1
            words[group, SUM_MET] = 0
        elif words[group, SUM_MET] != 0:
            is_asked[place] = True
