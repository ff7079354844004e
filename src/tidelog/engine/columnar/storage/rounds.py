"""The columnar engine for those who follow what comes and goes, and keep relations. Mutates itself."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from tidelog.engine.columnar import layout
from tidelog.engine.columnar.interpreter.plan_runner import RoundRunner, Runner
from tidelog.engine.columnar.interpreter.round_kernels import clear_tables
from tidelog.engine.columnar.storage.catalog import ColumnarEngine, Ids
from tidelog.engine.columnar.storage.table import Log
from tidelog.engine.protocol import Runnable
from tidelog.plan.algebra import RulePlan

Rows = tuple[tuple[Ids, ...], int]  # columns, and how many rows
NOTHING_CAME: tuple[Rows, Rows] = ((), 0), ((), 0)


@dataclass(frozen=True, slots=True)
class Group:
    """Relations by their names and by their rows of T."""

    names: tuple[str, ...]
    numbers: npt.NDArray[np.int64]


class Lossy:
    """An engine as the assembler sees it, if any row of any relation may be none of its facts."""

    def __init__(self, engine: ColumnarEngine) -> None:
        self.table_number = engine.table_number
        self.index_number = engine.index_number
        self.identity = engine.identity

    def has_dead(self, relation: str) -> bool:
        """Whether some rows of a relation are no facts."""
        return True


class FollowedEngine(ColumnarEngine):
    """All facts in this process, and what has come and gone since somebody last looked."""

    _round_runner: RoundRunner | None = None

    # ---- what comes and goes

    def follow(self, relation: str) -> tuple[Rows, Rows] | None:
        """What has gone from a relation, and what has come to it, since this was last asked.

        None where that is not known, as at first. Facts that came and went, or went and came, may be there.
        """
        table, size = self.table(relation), self.size(relation)
        log = table.log
        if log is not None and log.size == size and not log.rows:
            return NOTHING_CAME
        self.is_followed = True
        table.log = Log(size)
        if log is None or log.size != size:
            return None
        went, came = (_joined(noted, table.arity) for noted in (log.went, log.came))
        gone, there = (self.standing(relation, *some) & layout.ALIVE != 0 for some in (went, came))
        return _chosen(went, ~gone), _chosen(came, there)

    def appended(self, relation: str, first: int) -> tuple[tuple[Ids, ...], int]:
        """The facts of a relation from a row on."""
        table = self.table(relation)
        living = np.flatnonzero(table.flags[first : len(table)] & layout.ALIVE) + first
        return tuple(table.column(place)[living] for place in range(table.arity)), len(living)

    # ---- relations of one's own

    def remove(self, relation: str, columns: Sequence[Ids], rows: int) -> None:
        """Delete the facts given as rows of ids; the remaining rows are renumbered."""
        table = self.table(relation)
        found = table.find(columns, rows)
        found = found[found >= 0]
        table.flags[found] = 0
        table.words[layout.DEAD] += len(found)
        self.compact(table)

    def group(self, relations: Collection[str]) -> Group:
        """Relations whose rounds end together."""
        names = tuple(relations)
        return Group(names, np.array([self._numbers[name] for name in names], np.int64))

    def advance_group(self, group: Group) -> list[str]:
        """End a round of each relation: what came is NEW; gives those of which something is."""
        words, numbers = self.descriptors, group.numbers
        rows = words[numbers, layout.ROWS]
        (moved,) = np.nonzero(rows != words[numbers, layout.OLD_END])
        if not len(moved):
            return []
        numbers, rows = numbers[moved], rows[moved]
        current = words[numbers, layout.CURRENT_END]
        words[numbers, layout.OLD_END] = current
        words[numbers, layout.CURRENT_END] = rows
        return [group.names[place] for place in moved[rows > current].tolist()]

    def sizes(self, group: Group) -> npt.NDArray[np.int64]:
        """How many facts each of a group's relations has."""
        words = self.descriptors[group.numbers]
        return words[:, layout.ROWS] - words[:, layout.DEAD]

    def prepare_for_all_times(self, plan: RulePlan) -> Runner:
        """The plan ready to run, whether rows of the relations that it reads are facts or not."""
        return self._runner(plan, Lossy(self))

    def run_together(self, prepared: Sequence[Runnable]) -> list[int]:
        """Run what is ready to run, in turn; how many new facts each has found."""
        return self._running.run(prepared)

    def close_group(self, group: Group, prepared: Sequence[Runnable]) -> bool:
        """Run what is ready to run, round after round, until nothing is new of the group's relations.

        All their facts are found so, which are not NEW yet. Whether it can, else nothing is done.
        """
        return self._running.run_to_end(prepared, group.numbers)

    def clear_group(self, group: Group) -> None:
        """Forget all facts of a group's relations, which serve as scratch paper."""
        filled = group.numbers[self.descriptors[group.numbers, layout.ROWS] > 0]
        clear_tables(self.descriptors, filled)
        for number in filled.tolist():
            self.tables[number].rounds = []
            for index in self._indexes_of.get(number, ()):
                index.rebuild(len(self.dictionary))

    @property
    def _running(self) -> RoundRunner:
        """What runs plans together."""
        if self._round_runner is None:
            self._round_runner = RoundRunner(self)
        return self._round_runner

    def reveal(self, relation: str) -> None:
        """Make facts inserted in this round NEW too, besides those that already are."""
        words = self.descriptors[self._numbers[relation]]
        words[layout.CURRENT_END] = words[layout.ROWS]

    def new_rows(self, relation: str) -> Rows:
        """The columns of what is NEW of a relation, and how many rows these are."""
        table = self.table(relation)
        words = table.words
        first, last = int(words[layout.OLD_END]), int(words[layout.CURRENT_END])
        return tuple(column[first:last] for column in table.columns), last - first

    def show(self, relations: Collection[str]) -> None:
        """Make all facts of the relations visible, none of them as NEW, without restarting their rounds."""
        for relation in relations:
            words = self.descriptors[self._numbers[relation]]
            words[layout.OLD_END] = words[layout.CURRENT_END] = words[layout.ROWS]

    def plan_to_keep(self, relations: Collection[str]) -> None:
        """Mark the relations as used by cached plans: `generation` changes when one is dropped."""
        for relation in relations:
            self.table(relation).is_planned = True

    def bytes_of(self, relation: str) -> int:
        """The memory that a relation and its indexes hold, as far as it has been touched."""
        table = self.table(relation)
        return table.touched_bytes + sum(index.bytes for index in self._indexes_of.get(table.number, ()))


def _joined(noted: Sequence[tuple[Sequence[Ids], int]], arity: int) -> Rows:
    """Rows that were noted one after the other."""
    columns = ([some[place] for some, _ in noted] for place in range(arity))
    none = np.zeros(0, np.int32)
    return tuple(np.concatenate([none, *column]) for column in columns), sum(count for _, count in noted)


def _chosen(rows: Rows, chosen: npt.NDArray[np.bool_]) -> Rows:
    columns, _ = rows
    return tuple(column[chosen] for column in columns), int(np.count_nonzero(chosen))
