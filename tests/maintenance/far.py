"""The bench of the Spark engine while it fetches what changes touch: without Spark, frames are sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.maintenance.columnar import ColumnarBench, Facts
from tests.maintenance.sets import Row
from tidelog.engine.columnar import layout
from tidelog.engine.columnar.change_runner import COUNTERS, RowSet
from tidelog.engine.columnar.closing import ClosingEngine
from tidelog.engine.columnar.table import Table
from tidelog.engine.maintaining import Counters, Effect
from tidelog.engine.spark.counted import Counted
from tidelog.engine.spark.fetching import TRUE
from tidelog.engine.spark.frames import Source
from tidelog.engine.spark.maintained import FetchingRunner, MaintainedOnSpark
from tidelog.engine.spark.overlay import Changed
from tidelog.engine.spark.places import Placed
from tidelog.engine.spark.requests import Answer, Request
from tidelog.engine.spark.settings import SparkSettings
from tidelog.logic.program import Program
from tidelog.logic.strata import Stratum
from tidelog.rewrite.splitting import is_auxiliary

NEVER_HOME = SparkSettings(resident_facts=-1)


class FarEngine(MaintainedOnSpark):
    """Frames are frozen sets of rows of ids. Mutates itself."""

    def __init__(self, threads: int | None = None) -> None:
        super().__init__(NEVER_HOME, threads)
        self.requests: list[Request] = []

    def place(self, relation: str) -> None:
        """Let a relation lie elsewhere."""
        facts, stated = (_rows(*found) for found in (self.rows(relation), self.explicit(relation)))
        self.empty_table(relation)
        frame: Any = facts
        source = Source(frame if stated == facts else stated, len(stated)) if stated else None  # type: ignore[arg-type]
        self._placed[relation] = Placed(frame, len(facts), source)

    def answers(self, requests: Sequence[Request]) -> Sequence[Answer]:
        """The facts that requests are answered by."""
        self.requests += requests
        return [self._answer(request) for request in requests]

    def _answer(self, request: Request) -> Answer:
        keys = _rows(request.keys, len(request.rows))
        placed = self._placed[request.relation]
        frame: Any = placed.frame
        stated: Any = placed.stated.frame if placed.stated else frozenset()
        rows = sorted(row for row in frame if tuple(row[place] for place in request.columns) in keys)
        columns = tuple(
            np.array([row[place] for row in rows], np.int32) for place in range(self.arity(request.relation))
        )
        flags = [TRUE | (layout.EXPLICIT if row in stated else 0) for row in rows]
        counted: Any = self._counted_frames.get(request.relation)
        known = [counted.frame[row] if counted else (int(row in stated), 0, 0) for row in rows]
        counters = tuple(np.array([each[place] for each in known], np.int32) for place in range(3))
        return Answer(columns, np.array(flags, np.uint8), counters)

    def changed_frame(self, relation: str, frame: Any, changed: Changed) -> Any:
        """A frame without the rows that went, and with those that came."""
        columns = [column.tolist() for column in self.table(relation).columns]
        went, came = (
            {tuple(column[row] for column in columns) for row in rows}
            for rows in (changed.went, changed.came)
        )
        return ((frame or frozenset()) - went) | came

    def rows(self, relation: str) -> Any:
        """The columns of a relation as they are now, and its number of rows."""
        if not self.is_placed(relation):
            return ClosingEngine.rows(self, relation)
        rows: Any = sorted(self.placed_facts(relation).frame)  # type: ignore[call-overload]
        return tuple(np.array(column, np.int32) for column in zip(*rows, strict=True)), len(rows)

    def stated_rows(self, relation: str) -> Any:
        """The explicit facts of a relation."""
        if not self.is_placed(relation):
            return _rows(*ClosingEngine.explicit(self, relation))
        stated = self.placed_stated(relation)
        return frozenset() if stated is None else stated.frame

    def run_whole(self, runner: FetchingRunner, effect: Effect) -> RowSet:
        """The heads that the effect selects, of all instances of a plan: all that it reads is fetched."""
        return self._run_here(runner, effect)

    def move_to_spark(self, relation: str) -> None:
        """Let a relation of the driver lie elsewhere."""
        self.place(relation)

    def counted_frames(self, counters: Counters, strata: Sequence[Stratum]) -> Any:
        """The counters of all facts of strata, as another engine counts them, and the highest rank."""
        whole = self.whole()
        whole.recount(counters, strata)
        found = {}
        for stratum in strata:
            for relation in stratum.predicates:
                frame: Any = counters_of(whole.table(relation))
                found[relation] = Counted(frame, is_recursive(stratum))
        return found, int(whole.workspaces[0].state[layout.Z_CLOCK])

    def whole(self) -> ClosingEngine:
        """An engine that has all facts."""
        whole = ClosingEngine(threads=1)
        whole.dictionary = self.dictionary
        for relation in self.relations():
            whole.define(relation, self.arity(relation))
            stated = sorted(self.stated_rows(relation))
            if stated:
                columns = [np.array(column, np.int32) for column in zip(*stated, strict=True)]
                whole.add(relation, columns, len(stated))
            rows, count = self.rows(relation)
            if count:
                whole.table(relation).insert(rows, count, 0, len(self.dictionary))
        whole.begin(whole.relations())
        return whole

    def counters_known(self, relation: str) -> dict[tuple[int, ...], tuple[int, ...]]:
        """The counters of facts: what the table says, else what lies elsewhere says."""
        counted: Any = self._counted_frames.get(relation)
        return {**(counted.frame if counted else {}), **counters_of(self.table(relation))}


class FarBench(ColumnarBench):
    """The bench of facts that lie elsewhere, all of them or those of every other relation."""

    engine: FarEngine

    def __init__(self, program: Program, explicit: Facts, every: int = 1) -> None:
        super().__init__(program, explicit, make=FarEngine)
        for relation in sorted(self.engine.relations())[::every]:
            self.engine.place(relation)

    def state(self) -> object:
        """All facts, and those that are explicit; auxiliary relations included."""
        return {
            name: (_rows(*self.engine.rows(name)), self.engine.stated_rows(name)) for name in self._names()
        }

    def explicit(self) -> dict[str, frozenset[Row]]:
        """All explicit facts, of predicates that have some."""
        value = self.engine.dictionary.decode
        found = {name: self.engine.stated_rows(name) for name in self._names() if not is_auxiliary(name)}
        return {
            name: frozenset(tuple(map(value, row)) for row in rows) for name, rows in found.items() if rows
        }

    def check(self, program: Program) -> None:
        """Fails unless flags are clean, and counters those of counting everything with the same ranks."""
        engine = self.engine
        counters, engine._counters = engine.counters, Counters.NONE
        super().check(program)
        engine._counters = counters
        if counters is Counters.NONE:
            return
        whole = engine.whole()
        whole._counters = counters
        for stratum in self._strata(program):
            if not any(rule.aggregations for rule in stratum.rules):
                self._compare(whole, stratum, counters)

    def _compare(self, whole: ClosingEngine, stratum: Stratum, counters: Counters) -> None:
        known = {name: self.engine.counters_known(name) for name in stratum.predicates}
        for name in stratum.predicates:
            table = whole.table(name)
            table.count_explicit()
            table.count_too(COUNTERS[counters] if is_recursive(stratum) else ())
            for row, place in zip(rows_of(table), range(len(table)), strict=True):
                if layout.RANK in table.counters:
                    table.counters[layout.RANK][place] = known[name][row][2]
        unfounded = whole.count_stratum(stratum)
        assert counters is Counters.CLASS or not len(unfounded)
        for name in stratum.predicates:
            for row, counted in counters_of(whole.table(name)).items():
                assert known[name][row][:2] == counted[:2], (name, row)

    def _names(self) -> list[str]:
        return [name for name in self.engine.relations() if not self._is_scratch(name)]


def half(program: Program, explicit: Facts) -> FarBench:
    """A bench of which every other relation lies elsewhere."""
    return FarBench(program, explicit, every=2)


def is_recursive(stratum: Stratum) -> bool:
    """Whether the rules of a stratum read it."""
    read = {atom.predicate for rule in stratum.rules for atom in rule.positive}
    return not read.isdisjoint(stratum.predicates)


def rows_of(table: Table) -> list[tuple[int, ...]]:
    """The rows of a table."""
    if not table.arity:
        return [()] * len(table)
    return list(zip(*(table.column(place).tolist() for place in range(table.arity)), strict=True))


def counters_of(table: Table) -> dict[tuple[int, ...], tuple[int, ...]]:
    """The counters of each row: founded, hidden and rank."""
    none = np.zeros(len(table), np.int32)
    places = (layout.FOUNDED, layout.HIDDEN, layout.RANK)
    counters = [table.counters.get(place, none)[: len(table)].tolist() for place in places]
    return dict(zip(rows_of(table), zip(*counters, strict=True), strict=True))


def _rows(columns: Any, count: int) -> frozenset[tuple[int, ...]]:
    if not len(columns):
        return frozenset([()] * min(count, 1))
    return frozenset(zip(*(column.tolist() for column in columns), strict=True))
