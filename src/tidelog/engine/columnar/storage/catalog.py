"""The columnar engine: relations as tables of ids, plans run by the compiled interpreter. Mutates itself."""

from __future__ import annotations

import os
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from typing import Any

import numpy as np
import numpy.typing as npt

from tidelog.data.columns import Batch, Column
from tidelog.data.dictionary import Dictionary, encode_column
from tidelog.engine.columnar import layout
from tidelog.engine.columnar.interpreter.assemble import Store as AssemblerStore
from tidelog.engine.columnar.interpreter.assemble import assemble
from tidelog.engine.columnar.interpreter.executor import aggregate
from tidelog.engine.columnar.interpreter.plan_runner import Runner, Workspace
from tidelog.engine.columnar.storage.table import Index, IndexKey, Table
from tidelog.engine.limits import MATCHES
from tidelog.engine.protocol import Outcome, Runnable
from tidelog.logic.functions.builtins import evaluate
from tidelog.logic.program import Assignment, Constant, Variable
from tidelog.logic.values import Value
from tidelog.plan.algebra import Aggregate, Part, Project, RulePlan

Ids = npt.NDArray[np.int32]
NO_ROWS = np.zeros(0, np.int64)

DENSE_BYTES = 64 << 20  # a set of rows is a direct array up to this size
DENSE_BYTES_ALL = 512 << 20  # … and all of them together stay below this
SAMPLE = 2048
STANDING = np.uint8(layout.ALIVE | layout.EXPLICIT)
MOST_EXPECTED = 1 << 20  # rows that a table makes room for before they are read: they may be duplicates


def _proceed(found: int = 0, are_answers: bool = False) -> None:
    """The check that never stops anything."""


def _plenty(found: int = 0, are_answers: bool = False) -> int:
    """The budget where there is no limit."""
    return MATCHES


class ColumnarEngine:
    """All facts in this process. See `engine.protocol.Engine` for what the methods promise."""

    name = "columnar"

    def __init__(self, threads: int | None = None, relations: int = 8) -> None:
        self.threads = max(1, threads or os.cpu_count() or 1)
        self.dictionary = Dictionary()
        self.tables: list[Table] = []
        self.descriptors = np.zeros((8, layout.COLUMNS + 3), np.int64)
        self.indexes = np.zeros((8, layout.X_LISTS + 9), np.int64)
        self.workspaces = [Workspace() for _ in range(self.threads)]
        self.pool = ThreadPoolExecutor(max(1, self.threads - 1))  # starts no thread before it has work
        self.check: Callable[..., None] = _proceed
        self.budget: Callable[..., int] = _plenty
        self.dense_bytes = min(DENSE_BYTES, DENSE_BYTES_ALL // max(relations, 1))
        self._numbers: dict[str, int] = {}
        self._indexes: dict[IndexKey, Index] = {}
        self._indexes_of: dict[int, list[Index]] = {}
        self._free: list[int] = []
        self.epoch = 0  # the number of transactions so far
        self.is_followed = False  # somebody wants to know what comes and goes
        self.generation = 0  # changes when plans that are kept must be assembled anew
        self._distinct: dict[tuple[str, int], tuple[int, float]] = {}
        self._matching: dict[tuple[str, int, int], tuple[int, int]] = {}

    # ---- relations

    def define(
        self, relation: str, arity: int, dense_bytes: int | None = None, is_large: bool = True
    ) -> None:
        """Make an empty relation, unless it is there; its set is a direct array up to `dense_bytes`.

        It begins with room for rows over all values that there are, if it may become large.
        """
        if relation in self._numbers:
            known = self.table(relation).arity
            if known != arity:
                raise ValueError(f"`{relation}` has {known} columns, not {arity}")
            return
        number = self._free.pop() if self._free else len(self.tables)
        self._widen(number + 1, arity)
        dense_bytes = self.dense_bytes if dense_bytes is None else min(dense_bytes, self.dense_bytes)
        values = len(self.dictionary) if is_large else 0
        table = Table(self.descriptors, number, relation, arity, values, dense_bytes)
        if number == len(self.tables):
            self.tables.append(table)
        else:
            self.tables[number] = table
        self._numbers[relation] = number

    def _widen(self, rows: int, arity: int) -> None:
        """Make room in T for `rows` tables, and in T and X for columns of this arity."""
        height, width = self.descriptors.shape
        if rows > height or layout.COLUMNS + arity > width:
            larger = np.zeros((max(rows, 2 * height), max(width, layout.COLUMNS + arity)), np.int64)
            larger[:height, :width] = self.descriptors
            self.descriptors = larger
            for table in self.tables:
                table.attach(larger)
        height, width = self.indexes.shape
        lists = layout.X_LISTS + 3 * arity  # keys, and two words for each filter
        if lists > width:
            self._replace_indexes(height, lists)

    def _replace_indexes(self, rows: int, columns: int) -> None:
        larger = np.zeros((rows, columns), np.int64)
        height, width = self.indexes.shape
        larger[:height, :width] = self.indexes
        self.indexes = larger
        for index in self._indexes.values():
            index.attach(larger)

    def drop(self, relation: str) -> None:
        """Forget a relation and its memory; its place is used again."""
        number = self._numbers.pop(relation)
        self.generation += self.tables[number].is_planned
        for index in self._indexes_of.pop(number, []):
            del self._indexes[index.key]
        self.tables[number].release()
        self._free.append(number)
        self._forget_statistics(relation)

    def _forget_statistics(self, relation: str) -> None:
        for key in [key for key in self._distinct if key[0] == relation]:
            del self._distinct[key]
        for matching in [matching for matching in self._matching if matching[0] == relation]:
            del self._matching[matching]

    def forget_derived(self, relations: Collection[str]) -> None:
        """Keep only the explicit facts of these relations."""
        for relation in relations:
            table = self.table(relation)
            explicit = (table.flags[: len(table)] & layout.EXPLICIT) != 0
            columns = [table.column(place)[explicit] for place in range(table.arity)]
            # The old table goes when the new one is whole: after a lack of memory no fact is missing.
            kept, former = f"{relation} kept", f"{relation} former"
            self.define(kept, len(columns))
            self.add(kept, columns, int(explicit.sum()))
            numbers = {**self._numbers, former: self._numbers[relation]}
            numbers[relation] = numbers.pop(kept)
            self._numbers = numbers
            self.table(relation).name = relation
            self.drop(former)
            self._forget_statistics(relation)

    def compact(self, table: Table) -> None:
        """Delete a table's dead rows and rebuild its indexes; cached plans go on reading it."""
        constants = len(self.dictionary)
        table.compact(constants)
        for index in self._indexes_of.get(table.number, ()):
            index.rebuild(constants)

    def table(self, relation: str) -> Table:
        """The table of a relation."""
        return self.tables[self._numbers[relation]]

    def relations(self) -> tuple[str, ...]:
        """The relations that are there."""
        return tuple(self._numbers)

    # ---- facts in and out

    def load(self, relation: str, batch: Batch) -> int:
        """Add a batch of explicit facts; returns how many were new."""
        known = len(self.dictionary)
        columns = [self.encode_column(column) for column in batch.columns]
        following = min(batch.following, MOST_EXPECTED)
        if following:
            # Values repeat themselves: what is to come has fewer new ones than what was there.
            self.dictionary.grow((len(self.dictionary) - known) * following // (2 * batch.rows))
        self.table(relation).reserve(batch.rows + following, len(self.dictionary), given=True)
        return self.add(relation, columns, batch.rows)

    def add(self, relation: str, columns: Sequence[Ids], rows: int) -> int:
        """Add rows of ids as explicit facts; returns how many were new."""
        table = self.table(relation)
        if table.dead:
            self.compact(table)
        before = len(table)
        new = table.insert(columns, rows, layout.EXPLICIT, len(self.dictionary))
        if table.log is not None:
            table.note(NO_ROWS, np.arange(before, before + new))
        return new

    def restore(self, derived: Mapping[str, tuple[Sequence[Ids], int]]) -> None:
        """Add rows of ids, none of them there, as facts that were derived before; all facts are visible."""
        for relation, (columns, rows) in derived.items():
            self.table(relation).insert(columns, rows, 0, len(self.dictionary))
        self.begin(self.relations())
        for relation in derived:
            self.table(relation).rounds_of = -1, frozenset()  # its rows are not in the order of rounds

    def encode_column(self, column: Column) -> Ids:
        """The ids of a column's values, new ones given as needed."""
        return encode_column(self.dictionary, column)

    def rows(self, relation: str) -> tuple[tuple[Ids, ...], int]:
        """The columns of a relation as they are now, and its number of rows, in no particular order.

        They stay as they are: a table only ever adds rows behind them, or moves to other memory.
        """
        table = self.table(relation)
        columns = tuple(table.column(place) for place in range(table.arity))
        if not table.dead:
            return columns, len(table)
        living = np.flatnonzero(table.flags[: len(table)] & layout.ALIVE)
        return tuple(column[living] for column in columns), len(living)

    def has_dead(self, relation: str) -> bool:
        """Whether some rows of a relation are no facts."""
        return self.table(relation).dead > 0

    # ---- what is known of facts, for transactions

    def standing(self, relation: str, columns: Sequence[Ids], rows: int) -> npt.NDArray[np.uint8]:
        """The flags ALIVE and EXPLICIT of each given row; 0 where it is no fact."""
        table = self.table(relation)
        found = table.find(columns, rows)
        flags: npt.NDArray[np.uint8] = (table.flags[found] & STANDING) * (found >= 0)
        return flags

    def explicit(
        self, relation: str, without: Sequence[Ids] = (), rows: int = 0
    ) -> tuple[tuple[Ids, ...], int]:
        """The explicit facts of a relation but for the given rows: their columns, and how many they are."""
        table = self.table(relation)
        kept = (table.flags[: len(table)] & layout.EXPLICIT) != 0
        if rows:
            found = table.find(without, rows)
            kept[found[found >= 0]] = False
        return tuple(table.column(place)[kept] for place in range(table.arity)), int(np.count_nonzero(kept))

    def rename(self, relation: str, name: str) -> None:
        """Give a relation another name, which no relation has; plans that are prepared go on reading it."""
        numbers = {**self._numbers, name: self._numbers[relation]}
        del numbers[relation]
        self._numbers = numbers  # at no time is it there by both names, or by none
        self.table(name).name = name

    def restate(
        self,
        relation: str,
        aside: str,
        removed: tuple[Sequence[Ids], int],
        added: tuple[Sequence[Ids], int],
    ) -> None:
        """Set a relation aside by another name, and let a new one hold its explicit facts, changed."""
        columns, count = self.explicit(relation, *removed)
        self.rename(relation, aside)
        self.define(relation, len(columns))
        self.add(relation, columns, count)
        if added[1]:
            self.add(relation, *added)

    def absent(self, relation: str, other: str) -> tuple[tuple[Ids, ...], int]:
        """The facts of a relation that another does not have."""
        columns, count = self.rows(relation)
        absent = (self.standing(other, columns, count) & layout.ALIVE) == 0
        return tuple(column[absent] for column in columns), int(np.count_nonzero(absent))

    # ---- statistics

    def size(self, relation: str) -> int:
        """How many facts a relation has."""
        words = self.descriptors[self._numbers[relation]]
        return int(words[layout.ROWS] - words[layout.DEAD])

    def distinct(self, relation: str, column: int) -> float:
        """About how many distinct values a column has, from a sample."""
        size = self.size(relation)
        known = self._distinct.get((relation, column))
        if known is None or size > 2 * known[0] or not known[0]:
            known = (size, _estimate_distinct(self.table(relation).column(column)))
            self._distinct[relation, column] = known
        return known[1]

    def matching(self, relation: str, column: int, value: Value) -> int:
        """How many facts have this value in a column."""
        size = self.size(relation)
        identity = self.dictionary.encode(value)
        known = self._matching.get((relation, column, identity))
        if known is None or size > 2 * known[0] or not known[0]:
            known = (size, int(np.count_nonzero(self.table(relation).column(column) == identity)))
            self._matching[relation, column, identity] = known
        return known[1]

    def occurs(self, relation: str, column: int, value: Value, part: Part) -> bool:
        """Whether a value occurs in a column of the visible facts, or of those that are NEW."""
        table = self.table(relation)
        first = int(table.words[layout.OLD_END]) if part is Part.NEW else 0
        looked_at = table.column(column)[first : int(table.words[layout.CURRENT_END])]
        return bool((looked_at == self.dictionary.encode(value)).any())

    # ---- rounds

    def begin(self, relations: Collection[str]) -> None:
        """Make all facts of the relations visible, none of them as NEW."""
        together = frozenset(relations)
        for relation in relations:
            table = self.table(relation)
            table.words[layout.OLD_END] = len(table)
            table.words[layout.CURRENT_END] = len(table)
            table.rounds = [len(table)]
            table.rounds_of = self.epoch, together

    def advance(self, relations: Collection[str]) -> int:
        """End a round: returns how many facts are now NEW."""
        new = 0
        for relation in relations:
            table = self.tables[self._numbers[relation]]
            words = table.words
            before = int(words[layout.CURRENT_END])
            words[layout.OLD_END] = before
            words[layout.CURRENT_END] = len(table)
            table.rounds.append(len(table))
            new += len(table) - before
        return new

    # ---- plans

    def prepare(self, plan: RulePlan) -> Runnable:
        """The plan ready to run, any number of times."""
        if isinstance(plan.root, Aggregate):
            root, head = plan.root, self.table(plan.relation)
            return lambda: self._aggregate(root, head)
        return self._runner(plan, self)

    def _runner(self, plan: RulePlan, store: AssemblerStore) -> Runner:
        """The plan ready to run, as it is assembled for a store."""
        if not isinstance(plan.root, Project):
            raise TypeError(plan.root)
        self.check()
        head = self.table(plan.relation)
        assembled = assemble(plan.relation, plan.root, store, span=plan.rule.span)
        for number in (*assembled.looked_up, head.number):
            self.tables[number].complete(self.check)
        return Runner(assembled, self, head)

    def table_number(self, relation: str) -> int:
        """The row of T that describes a relation."""
        return self._numbers[relation]

    def identity(self, value: Value) -> int:
        """The id of a value."""
        return self.dictionary.encode(value)

    def index(self, number: int) -> Index:
        """The index that a row of X describes."""
        return next(index for index in self._indexes.values() if index.number == number)

    def index_number(self, key: IndexKey) -> int:
        """The row of X that describes an index, made now if it is not there."""
        index = self._indexes.get(key)
        if index is None:
            height, width = self.indexes.shape
            used = {index.number for index in self._indexes.values()}
            number = next(place for place in range(len(used) + 1) if place not in used)
            if number >= height:
                self._replace_indexes(2 * height, width)
            table = self.tables[key.table]
            index = Index(self.indexes, number, key, table, len(self.dictionary))
            self._indexes[key] = index
            self._indexes_of.setdefault(key.table, []).append(index)
        return index.number

    def index_sizes(self) -> list[tuple[str, tuple[int, ...], bool, int]]:
        """The indexes: of which relation and columns, whether of a part of it only, and their bytes."""
        return [
            (index.table.name, index.key.columns, bool(index.key.filters), int(index.bytes))
            for index in self._indexes.values()
        ]

    def _aggregate(self, root: Aggregate, head: Table) -> Outcome:
        """Group what was collected and add one fact per group that has all its values."""
        columns, count, missing = self.groups(root)
        return Outcome(count, head.insert(columns, count, 0, len(self.dictionary)), missing)

    def groups(self, root: Aggregate) -> tuple[list[Ids], int, int]:
        """The facts that follow from groups: columns, how many, and how many groups lack a value."""
        variables = [term for term in root.input.terms if isinstance(term, Variable)]
        given, collected = self.rows(root.input.relation)
        columns = dict(zip(variables, given, strict=True))
        groups = aggregate(columns, collected, root.group, root.aggregations, self.dictionary)
        rows = len(next(iter(groups.values())))
        for assignment in root.after:
            groups[assignment.variable] = self._computed(assignment, groups, rows)
        kept = np.ones(rows, bool)
        for column in groups.values():
            kept &= column >= 0
        ids = [
            np.full(rows, self.identity(term.value), np.int32) if isinstance(term, Constant) else groups[term]
            for term in root.terms
        ]
        count = int(kept.sum())
        return [column[kept] for column in ids], count, rows - count

    def _computed(self, assignment: Assignment, groups: dict[Variable, Ids], rows: int) -> Ids:
        """The ids of an expression over the groups' columns; -1 where it, or a column, has no value."""
        out = np.full(rows, -1, np.int32)
        names = tuple(groups)
        for place, key in enumerate(zip(*(column.tolist() for column in groups.values()), strict=True)):
            if min(key) < 0:
                continue
            binding = dict(zip(names, map(self.dictionary.decode, key), strict=True))
            value = evaluate(assignment.expression, binding)
            if value is not None:
                out[place] = self.dictionary.encode(value)
        return out

    @property
    def bytes(self) -> int:
        """The memory that tables, indexes and the dictionary hold."""
        held: list[Any] = [*self.tables, *self._indexes.values()]
        return int(sum(item.bytes for item in held)) + self.dictionary.bytes


def _estimate_distinct(column: Ids) -> float:
    """About how many distinct ids a column has: exact for small ones, from a sample for others.

    Charikar and others: Towards Estimation Error Guarantees for Distinct Values, PODS 2000 (GEE): values
    seen once in the sample stand for many.
    """
    size = len(column)
    if size == 0:
        return 1.0
    sample = np.sort(column if size <= SAMPLE else column[:: size // SAMPLE])
    starts = np.flatnonzero(np.diff(sample, prepend=-1))
    runs = np.diff(starts, append=len(sample))
    once = int(np.count_nonzero(runs == 1))
    return float(max(1.0, (size / len(sample)) ** 0.5 * once + (len(runs) - once)))
