"""What a run takes in, if it reasons on Spark: rows go from executors to frames, not through the driver.

The driver learns what was rejected, and counts. All inputs are read by one job.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from typing import Any

import pyarrow.compute as pc
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from tidelog.engine.spark.engine import SparkEngine
from tidelog.engine.spark.store import union
from tidelog.engine.spark.tagging import TAG
from tidelog.maintenance.maintainer import Rows
from tidelog.maintenance.row_sets import distinct
from tidelog.pipeline.inputs import Feeding, Taken
from tidelog.pipeline.intake import Intake
from tidelog.pipeline.manifest import Manifest
from tidelog.pipeline.pieces import FilePiece, cut_all
from tidelog.pipeline.spark_reading import INPUT, LEAST_WIDTH, REJECTED, Intended, ReadRows, told_schema
from tidelog.pipeline.spark_sources import counts_in, give_rejects, pieces_frame
from tidelog.reasoner import Reasoner
from tidelog.transaction import Change


class SparkIntake(Intake):
    """The inputs of one run, of which the rows stay on Spark. Mutates itself."""

    def feed(self, reasoner: Reasoner, number: int, before: Manifest | None, full: bool) -> None:
        """Let a reasoner without facts have all that the inputs give."""
        here, there = _apart(self.items)
        self.load(reasoner, self.read(number, before, full, here))
        if there:
            relations = list(dict.fromkeys(item.predicate for item in there))
            taken = list(self.taken(number, there, before, full))

            def arrive(engine: SparkEngine) -> dict[str, int]:
                with self._read(engine, taken, relations) as frame:
                    return engine.take_in(frame, relations)

            reasoner.load_arrivals(arrive)

    def replace(self, change: Change, number: int, before: Manifest, predicates: Sequence[str]) -> None:
        """Let the explicit facts of predicates become, in a transaction, what their inputs give.

        Where all facts come to the driver to be maintained, so do these.
        """
        engine: SparkEngine = change.engine
        here, there = _apart(self.of(predicates))
        if engine.is_resident or not there:
            super().replace(change, number, before, predicates)
            return
        stated: dict[str, list[Rows]] = {}
        for one in self.read(number, before, False, [item for item in here if not item.time]):
            stated.setdefault(one.item.predicate, []).extend(map(change.encode_batch, one.batches()))
        also = {name: distinct(rows) for name, rows in stated.items()}
        for name in predicates:
            engine.define(name, change.program.predicates[name].arity)
        taken = list(self.taken(number, there, before, False))
        with self._read(engine, taken, predicates) as frame:
            rows = {name: (rows.columns, rows.count) for name, rows in also.items()}
            found = engine.changes_to(frame, predicates, rows)
        for name, (gone, come) in found.items():
            change.delete_rows(name, Rows(*gone))
            change.insert_rows(name, Rows(*come))
        self.replace_times(change, number, before, predicates)

    @contextmanager
    def _read(
        self, engine: SparkEngine, taken: Sequence[Taken], relations: Sequence[str]
    ) -> Iterator[DataFrame]:
        """In the block, the rows of inputs as arrivals; what was rejected has been written aside."""
        frame, pieces = self._frame(engine, taken, relations)
        told_of = frame.where(sql.col(TAG) <= REJECTED)
        try:
            told = engine.store.jobs.run(f"reading {len(taken)} inputs", told_of.toArrow)
            for number, one in enumerate(taken):
                own = told.filter(pc.equal(told.column(INPUT), number))
                one.tell(partial(give_rejects, own, pieces), *counts_in(own))
                self.note(one)
            yield frame
        finally:
            frame.unpersist()

    def _frame(
        self, engine: SparkEngine, taken: Sequence[Taken], relations: Sequence[str]
    ) -> tuple[DataFrame, list[FilePiece]]:
        """What executors read of inputs, kept, and the pieces of files among them."""
        session = engine.store.session
        cuts = cut_all([one.item.data for one in taken], session.sparkContext.defaultParallelism)
        pieces = [piece for some in cuts for piece in some]
        intended = [
            Intended(number, relations.index(one.item.predicate), one.item.filter)
            for number, one in enumerate(taken)
        ]
        width = max(LEAST_WIDTH, *(map(engine.arity, relations)))
        frames = []
        if pieces:
            each = [intended[number] for number, some in enumerate(cuts) for _ in some]
            frames.append(pieces_frame(session, pieces, each, width, engine.store.hashing))
        for one, of in zip(taken, intended, strict=True):
            if one.item.table is not None:
                frames.append(self._table(engine, one.item, of, width))
        return union(frames).persist(), pieces

    def _table(self, engine: SparkEngine, item: Feeding, intended: Intended, width: int) -> DataFrame:
        """What executors read of a table of Spark."""
        assert item.table is not None
        table = item.table
        read = ReadRows(intended, table.types, table.names, item.shown, width, engine.store.hashing)
        found: Any = table.load().mapInArrow(read, told_schema(width))
        return engine.store.adopted(found)


def _apart(items: Iterable[Feeding]) -> tuple[list[Feeding], list[Feeding]]:
    """The inputs that are at hand, what the program states and what has times; those that executors read."""
    here: list[Feeding] = []
    there: list[Feeding] = []
    for item in items:
        is_there = (item.data or item.table is not None) and not item.time
        (there if is_there else here).append(item)
    return here, there
