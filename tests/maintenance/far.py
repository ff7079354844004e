"""The bench of the Spark engine while it fetches what changes touch: without Spark, frames are sets."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import numpy as np

from tests.maintenance.columnar import ColumnarBench, Facts
from tests.maintenance.sets import Row
from tidelog.engine.columnar import layout
from tidelog.engine.columnar.change_runner import EMPTY, RowSet
from tidelog.engine.columnar.closing import ClosingEngine
from tidelog.engine.maintaining import Effect
from tidelog.engine.spark.fetching import TRUE, Answer, Request
from tidelog.engine.spark.frames import Source
from tidelog.engine.spark.maintained import MaintainedOnSpark
from tidelog.engine.spark.overlay import Changed
from tidelog.engine.spark.places import Placed
from tidelog.engine.spark.settings import SparkSettings
from tidelog.logic.program import Program
from tidelog.plan.algebra import ChangePlan, scans
from tidelog.rewrite.aggregates import is_auxiliary

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
        return Answer(columns, np.array(flags, np.uint8))

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

    def run_whole(self, plan: ChangePlan, effect: Effect) -> RowSet:
        """The heads that the effect selects, of all instances of a plan: all that it reads is fetched."""
        for scan in scans(plan.root.input):
            self.every(scan.relation)
        runner = self.prepare_change(plan)
        self._fetch_for([runner], EMPTY)  # type: ignore[list-item]
        return ClosingEngine.run(self, [runner], EMPTY, effect)


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

    def _names(self) -> list[str]:
        return [name for name in self.engine.relations() if not self._is_scratch(name)]


def half(program: Program, explicit: Facts) -> FarBench:
    """A bench of which every other relation lies elsewhere."""
    return FarBench(program, explicit, every=2)


def _rows(columns: Any, count: int) -> frozenset[tuple[int, ...]]:
    if not len(columns):
        return frozenset([()] * min(count, 1))
    return frozenset(zip(*(column.tolist() for column in columns), strict=True))
