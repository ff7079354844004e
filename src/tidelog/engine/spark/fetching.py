"""Facts on Spark that changes touch: they are fetched, and lie on the driver meanwhile. Mutates itself.

There are too many facts to hold all, but few that an update touches. While facts are fetched, the driver's
table of a relation on Spark holds a part of it: all facts that have one of the keys which were asked for.
What changes in them stays beside the frame, which is put together with it when it is read.

Invariant: each row in such a table is right, true or not; a key that was asked for is never asked for again.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import numpy.typing as npt
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from tidelog.engine.columnar import layout
from tidelog.engine.columnar.arrow import numbers_of
from tidelog.engine.columnar.change_runner import RowSet
from tidelog.engine.columnar.transactions import ROW, Columns
from tidelog.engine.maintaining import OutOfReach
from tidelog.engine.spark.counted import FOUNDED, HIDDEN, RANK, Counted
from tidelog.engine.spark.frames import Source
from tidelog.engine.spark.overlay import Changed, Overlay, Rows, row_numbers
from tidelog.engine.spark.places import Places
from tidelog.engine.spark.requests import COUNTERS, FLAGS, REQUEST, Answer, Request, padded
from tidelog.engine.spark.store import columns_of, difference, union
from tidelog.errors import Diagnostic

Ids = npt.NDArray[np.int32]
Key = tuple[str, tuple[int, ...]]  # a relation, and some of its columns

NOT_RESIDENT = "E684"
LARGE_OVERLAY = 100_000  # changes beside a frame from which on it is made anew with them
ROWS_OF_A_JOB = 100_000  # facts that are fetched in the time that a job takes in any case
MOST_LAYERS = 8  # changes of a frame that its plan may hold, one above the other
TRUE = layout.ALIVE | layout.BEFORE


class FetchingEngine(Places):
    """Relations on Spark of which the driver's tables hold what changes have touched."""

    def __init__(self, settings: Any, threads: int | None = None, relations: int = 8) -> None:
        super().__init__(settings, threads, relations)
        self._overlays: dict[str, Overlay] = {}
        self._composed: dict[str, DataFrame] = {}  # frames with their changes, once they were read
        self._asked: dict[Key, str] = {}  # relations that hold the keys that were asked for
        self._fetched = 0  # rows
        self._jobs: dict[str, int] = {}  # jobs that have fetched from a relation
        self._counted_frames: dict[
            str, Counted
        ] = {}  # facts with their counters, of relations that have some

    def relations(self) -> tuple[str, ...]:
        """The relations that are there, but for those of keys that were asked for."""
        hidden = set(self._asked.values())
        return tuple(name for name in super().relations() if name not in hidden)

    # ---- whether facts are fetched

    def begin_fetching(self) -> None:
        """Let the tables of relations on Spark hold what is fetched of them, and no facts besides."""
        if self.is_fetching:
            return
        for relation in list(self._placed):
            if self.extra(relation):
                whole = self.source(relation)
                self.keep(relation, whole.frame, int(whole.rows), self.stated(relation))
        self.is_fetching = True

    def end_fetching(self) -> None:
        """Let relations on Spark lie there only, with all that has changed."""
        if not self.is_fetching:
            return
        for relation in list(self._placed):
            self.fold(relation)
            self.empty_table(relation)
        for name in self._asked.values():
            self.clear(name)
        self._fetched = 0
        self._jobs.clear()
        self.is_fetching = False

    def fold(self, relation: str) -> None:
        """Let the frame of a relation be what it is with its changes."""
        facts, stated = self.placed_facts(relation), self.placed_stated(relation)
        self._composed.pop(relation, None)
        overlay = self._overlays.pop(relation, None)
        if overlay is None:
            return
        placed = self._placed[relation]
        layers = placed.layers + 1
        if layers > MOST_LAYERS or len(overlay) > LARGE_OVERLAY:
            is_same = stated is not None and stated.frame is facts.frame
            facts = self._checkpoint(relation, facts)
            if stated is not None:
                stated = facts if is_same else self._checkpoint(relation, stated)
            layers = 0
        self._placed[relation] = replace(placed, frame=facts.frame, stated=stated, layers=layers)

    def _checkpoint(self, relation: str, source: Source) -> Source:
        """The same rows, in a frame without a past."""
        description = f"putting the changes of {relation} together"
        return replace(source, frame=self.store.jobs.run(description, source.frame.localCheckpoint))

    # ---- what relations are with their changes

    def placed_facts(self, relation: str) -> Source:
        """The facts of a relation on Spark."""
        known = super().placed_facts(relation)
        overlay = self._overlays.get(relation)
        if overlay is None:
            return known
        if relation not in self._composed:
            self._composed[relation] = self.changed_frame(relation, known.frame, overlay.facts)
        return replace(known, frame=self._composed[relation])

    def placed_stated(self, relation: str) -> Source | None:
        """The explicit facts of a relation on Spark; None if there are none."""
        known = super().placed_stated(relation)
        overlay = self._overlays.get(relation)
        if overlay is None:
            return known
        before = None if known is None else known.frame
        rows = 0 if known is None else known.rows
        if before is self._placed[relation].frame and overlay.facts == overlay.stated:
            return Source(self.placed_facts(relation).frame, rows)
        if before is None and not overlay.stated.came:
            return None
        return Source(self.changed_frame(relation, before, overlay.stated), rows)

    def changed_frame(self, relation: str, frame: DataFrame | None, changed: Changed) -> DataFrame:
        """A frame without the rows that went, and with those that came."""
        columns = columns_of(self.arity(relation))
        frames = []
        if frame is not None:
            went = self.lifted_rows(relation, row_numbers(changed.went)) if changed.went else None
            frames = [frame if went is None else difference(frame, went, columns, True)]
        if changed.came:
            frames.append(self.lifted_rows(relation, row_numbers(changed.came)))
        return union(frames) if frames else self.store.empty(self.arity(relation))

    def lifted_rows(self, relation: str, rows: Rows) -> DataFrame:
        """Some rows of the driver's table as a frame."""
        table = self.table(relation)
        return self.store.lifted([column[rows] for column in table.columns], len(rows))

    # ---- asking

    def asked(self, key: Key) -> str:
        """The relation that holds the keys in some columns of a relation that were asked for."""
        name = self._asked.get(key)
        if name is None:
            name = self._asked[key] = f"asked {len(self._asked)}"  # a name with a space is no predicate's
            self.scratch(name, len(key[1]))
        return name

    def fetch_facts(self, given: Mapping[str, Columns]) -> None:
        """Let the tables of relations on Spark know of the given rows whether they are true."""
        placed = {name: rows for name, rows in given.items() if self.is_placed(name) and rows[1]}
        if not placed:
            return
        self.begin_fetching()
        self.fetch([self._exactly(name, *rows) for name, rows in placed.items()])

    def _exactly(self, relation: str, columns: Sequence[Ids], count: int) -> Request:
        """The rows that were not asked for before."""
        places = tuple(range(len(columns)))
        name = self.asked((relation, places))
        found = super().all_facts({name: (columns, count)}, create=True)[name].rows[name]
        rows = np.unique(found)
        flags = self.table(name).flags
        rows = rows[(flags[rows] & layout.ALIVE) == 0]
        flags[rows] |= layout.ALIVE
        return self.request(relation, places, rows)

    def request(self, relation: str, columns: tuple[int, ...], rows: Rows) -> Request:
        """Keys by where they stand among those asked for."""
        keys = self.table(self.asked((relation, columns))).columns
        return Request(relation, columns, tuple(key[rows] for key in keys), rows)

    # ---- fetching

    def fetch(self, requests: Sequence[Request]) -> None:
        """Let the tables hold all facts that have one of the keys; or none is asked for."""
        asked = list(requests)
        try:
            missing = [self._unknown(request) for request in requests]
            asked += (larger := [self._enlarged(request) for request in missing if len(request.rows)])
            wanted = [request for request in larger if len(request.rows)]
            for request, answer in zip(wanted, self.answers(wanted) if wanted else (), strict=True):
                if len(answer.flags):
                    self._enter(request.relation, answer)
        except BaseException:
            for request in asked:
                table = self.table(self.asked((request.relation, request.columns)))
                table.flags[request.rows] &= ~np.uint8(layout.ALIVE)
            raise

    def _unknown(self, request: Request) -> Request:
        """The keys of a request whose facts are not there already, whatever was asked for to get them."""
        relation, columns = request.relation, request.columns
        is_known = np.zeros(len(request.rows), np.bool_)
        if len(columns) == self.arity(relation):
            is_known |= self.table(relation).find(request.keys, len(request.rows)) >= 0
        for (name, others), asked in self._asked.items():
            if name == relation and set(others) < set(columns):
                keys = [request.keys[columns.index(place)] for place in others]
                table = self.table(asked)
                found = table.find(keys, len(request.rows))
                is_known |= (found >= 0) & ((table.flags[found] & layout.ALIVE) != 0)
        return request.only(~is_known)

    def _enlarged(self, request: Request) -> Request:
        """The request, or one for the whole relation: if asking for parts has cost as much as that does.

        So a change that travels far, a job for each step, costs twice the best that was possible.
        """
        relation = request.relation
        self._jobs[relation] = self._jobs.get(relation, 0) + 1
        rows = self._placed[relation].rows
        is_worth = request.columns and self._jobs[relation] * ROWS_OF_A_JOB >= rows
        if not is_worth or self._fetched + rows > self.settings.fetched_facts:
            return request
        return self.whole_request(relation)

    def whole_request(self, relation: str) -> Request:
        """A request for all facts of a relation; for none, if it was made before."""
        name = self.asked((relation, ()))
        rows = super().all_facts({name: ((), 1)}, create=True)[name].rows[name]
        flags = self.table(name).flags
        rows = rows[(flags[rows] & layout.ALIVE) == 0]
        flags[rows] |= layout.ALIVE
        return self.request(relation, (), rows)

    def answers(self, requests: Sequence[Request]) -> Sequence[Answer]:
        """The facts that requests are answered by, all in one job."""
        width = max(self.arity(request.relation) for request in requests)
        frames = [frame for number, request in enumerate(requests) for frame in self._frames(number, request)]
        names = ", ".join(sorted({request.relation for request in requests}))
        whole = union(padded(frame, width) for frame in frames)
        table = self.store.jobs.run(f"fetching what changes touch of {names}", whole.toArrow)
        numbers, flags, *others = (numbers_of(column.combine_chunks(), "int64") for column in table.columns)
        counters, columns = others[: len(COUNTERS)], others[len(COUNTERS) :]
        chosen = [np.flatnonzero(numbers == number) for number in range(len(requests))]
        arities = [self.arity(request.relation) for request in requests]
        wide = [
            columns[place][rows]
            for rows, arity in zip(chosen, arities, strict=True)
            for place in range(arity)
        ]
        narrow = iter(self.store.narrowed(wide) if wide else ())
        return [
            Answer(
                tuple(islice(narrow, arity)),
                flags[rows].astype(np.uint8),
                tuple(counter[rows].astype(np.int32) for counter in counters),
            )
            for rows, arity in zip(chosen, arities, strict=True)
        ]

    def _frames(self, number: int, request: Request) -> Iterable[DataFrame]:
        """The facts of a relation that have one of the keys, and which of them are explicit."""
        placed = self._placed[request.relation]
        is_stated = placed.stated is not None and placed.stated.frame is placed.frame
        counted = self._counted_frames.get(request.relation)
        frame = placed.frame if counted is None else counted.frame
        yield self._requested(number, request, frame, TRUE | (layout.EXPLICIT if is_stated else 0))
        if placed.stated is not None and not is_stated:
            yield self._requested(number, request, placed.stated.frame, layout.EXPLICIT)

    def _requested(self, number: int, request: Request, frame: DataFrame, flags: int) -> DataFrame:
        if request.columns:
            names = [f"c{place}" for place in request.columns]
            keys = self.store.lifted(request.keys, len(request.rows)).toDF(*names)
            frame = frame.join(sql.broadcast(keys), names, "left_semi")
        columns = columns_of(self.arity(request.relation))
        noted = {REQUEST: number, FLAGS: flags}
        if FOUNDED not in frame.columns:  # what is not counted is stated, or no algorithm asks
            noted |= {FOUNDED: int(flags & layout.EXPLICIT != 0), HIDDEN: 0, RANK: 0}
        constants = {name: sql.lit(value).cast("long").alias(name) for name, value in noted.items()}
        noted_columns = [constants.get(name, sql.col(name)) for name in (REQUEST, FLAGS, *COUNTERS)]
        return frame.select(*noted_columns, *columns)

    def _enter(self, relation: str, answer: Answer) -> None:
        """Let a table hold what was fetched; rows that it has already are right."""
        table, count = self.table(relation), len(answer.flags)
        before = len(table)
        rows = super().all_facts({relation: (answer.columns, count)}, create=True)[relation].rows[relation]
        is_new = rows >= before
        np.bitwise_or.at(table.flags, rows[is_new], answer.flags[is_new])
        is_fact = is_new & (answer.flags & layout.ALIVE != 0)
        for place, counter in zip(COUNTERS.values(), answer.counters, strict=False):
            if place in table.counters:
                table.counters[place][rows[is_fact]] = counter[is_fact]
        entered = table.flags[before : len(table)]
        table.words[layout.DEAD] -= np.count_nonzero(entered & layout.ALIVE)
        self._fetched += len(entered)
        if self._fetched > self.settings.fetched_facts:
            raise self._too_many()

    def _too_many(self) -> OutOfReach:
        most = self.settings.fetched_facts
        message = f"more than {most:,} facts on Spark would have to be fetched for this update"
        help = "use the maintainer `auto` or `recompute`, or raise `tidelog.fetchedFacts`"
        return OutOfReach(Diagnostic(NOT_RESIDENT, message, help=help))

    # ---- what algorithms do with facts

    def all_facts(self, given: Mapping[str, Columns], create: bool) -> dict[str, RowSet]:
        """The facts with the given ids, relation by relation."""
        self.fetch_facts(given)
        return super().all_facts(given, create)

    def standing(self, relation: str, columns: Sequence[Ids], rows: int) -> npt.NDArray[np.uint8]:
        """The flags ALIVE and EXPLICIT of each given row; 0 where it is no fact."""
        self.fetch_facts({relation: (columns, rows)})
        return super().standing(relation, columns, rows)

    def standing_of(self, given: Mapping[str, Columns]) -> npt.NDArray[np.uint8]:
        """The same for rows of several relations, one after the other."""
        self.fetch_facts(given)
        return super().standing_of(given)

    def forget_counters(self) -> None:
        """Count nothing any more."""
        self._counted_frames = {}
        super().forget_counters()

    def every(self, relation: str) -> RowSet:
        """All facts of a relation that are true now."""
        if self.is_fetching and self.is_placed(relation):
            self.fetch([self.whole_request(relation)])
        return super().every(relation)

    # ---- transactions

    def begin_transaction(self) -> None:
        """Begin a journal."""
        for relation in [name for name, overlay in self._overlays.items() if len(overlay) > LARGE_OVERLAY]:
            self.fold(relation)
        super().begin_transaction()

    def commit(self) -> tuple[RowSet, RowSet]:
        """End the transaction: what went and what came, in all relations; frames are read with it."""
        stated = self._stated_changes() if self.is_fetching else {}
        gone, new = super().commit()
        if self.is_fetching:
            none = np.zeros(0, np.int64)
            for relation in {*gone.rows, *new.rows, *stated} & self._placed.keys():
                facts = gone.rows.get(relation, none), new.rows.get(relation, none)
                self._note(relation, facts, stated.get(relation, (none, none)))
        return gone, new

    def _note(self, relation: str, facts: tuple[Rows, Rows], stated: tuple[Rows, Rows]) -> None:
        """Let a relation on Spark have changed so."""
        overlay = self._overlays.setdefault(relation, Overlay())
        self._composed.pop(relation, None)
        overlay.facts.note(*(rows.tolist() for rows in facts))
        overlay.stated.note(*(rows.tolist() for rows in stated))
        placed = self._placed[relation]
        known = placed.stated
        if known is not None:
            known = replace(known, rows=known.rows + len(stated[1]) - len(stated[0]))
        rows = placed.rows + len(facts[1]) - len(facts[0])
        self._placed[relation] = replace(placed, rows=rows, stated=known)

    def _stated_changes(self) -> dict[str, tuple[Rows, Rows]]:
        """The rows that are no longer explicit, and those that newly are, by relation."""
        codes, before = self._journal()
        now = np.empty(len(codes), np.uint8)
        for number in np.unique(codes >> 32).tolist():
            own = (codes >> 32) == number
            now[own] = self.tables[number].flags[codes[own] & ROW]
        changed = (before ^ now) & layout.EXPLICIT != 0
        went, came = (
            self.row_set(codes[changed & (flags & layout.EXPLICIT != 0)]).rows for flags in (before, now)
        )
        none = np.zeros(0, np.int64)
        return {name: (went.get(name, none), came.get(name, none)) for name in {**went, **came}}

    def _journal(self) -> tuple[Rows, npt.NDArray[np.uint8]]:
        """The codes of the facts that the transaction has touched, and what their flags were."""
        count = int(self.workspaces[0].state[layout.Z_JOURNAL_COUNT])
        journal = self.lists.journal
        return journal[layout.Z_JOURNAL][:count], journal[layout.Z_JOURNAL_FLAGS][:count]

    def touched_rows(self, relation: str) -> Rows:
        """The rows of a relation that may differ from its frame, in a transaction."""
        codes, _ = self._journal()
        touched = codes[(codes >> 32) == self.table(relation).number] & ROW
        return row_numbers({*touched.tolist(), *self._overlays.get(relation, Overlay()).rows})

    def tidy(self, relations: Iterable[str]) -> None:
        """Let go of dead rows where they are the greater part, and of what was fetched where it is much."""
        super().tidy([relation for relation in relations if not self.is_placed(relation)])
        if self._fetched > self.settings.fetched_facts // 2:
            self.end_fetching()

    # ---- relations that come and go

    def keep(self, relation: str, *facts: Any, **known: Any) -> None:
        """Let a relation lie on Spark: these are its facts, and those that are explicit."""
        self.end_fetching()
        super().keep(relation, *facts, **known)

    def bring_home(self, relations: Iterable[str]) -> None:
        """Let relations lie on the driver."""
        relations = set(relations) & self._placed.keys()
        if relations:
            self.end_fetching()
        super().bring_home(relations)

    def add(self, relation: str, columns: Sequence[Ids], rows: int) -> int:
        """Add rows of ids as explicit facts; returns how many were new."""
        if self.is_placed(relation):
            self.end_fetching()
        return super().add(relation, columns, rows)

    def forget_derived(self, relations: Any) -> None:
        """Keep only the explicit facts of these relations."""
        self.end_fetching()
        super().forget_derived(relations)

    def rename(self, relation: str, name: str) -> None:
        """Give a relation another name."""
        if self.is_placed(relation):
            self.end_fetching()
        super().rename(relation, name)

    def drop(self, relation: str) -> None:
        """Forget a relation."""
        super().drop(relation)
        self._overlays.pop(relation, None)
        self._composed.pop(relation, None)
        for (name, _), asked in self._asked.items():
            if name == relation:
                self.clear(asked)
