"""Where relations lie: in the driver's tables, or in frames of ids on Spark. Mutates itself.

What is small lies on the driver, and needs no session; what is large, or came as a data frame, lies on Spark.
Whoever asks for rows gets them in the driver's ids.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from tidelog.engine.columnar import layout
from tidelog.engine.columnar.arrow import numbers_of
from tidelog.engine.columnar.closing import ClosingEngine
from tidelog.engine.events import Event, Listener, Notice
from tidelog.engine.spark.frames import Source
from tidelog.engine.spark.settings import SparkSettings
from tidelog.engine.spark.store import Store, columns_of, difference
from tidelog.engine.spark.tagging import numbered
from tidelog.engine.spark.terms import Identities, with_text
from tidelog.logic.program import Rule
from tidelog.logic.values import Value
from tidelog.plan.algebra import Part

Ids = npt.NDArray[np.int32]


@dataclass(frozen=True, slots=True)
class Placed:
    """A relation on Spark: its facts, and those of them that are explicit."""

    frame: DataFrame
    rows: int
    stated: Source | None
    is_known: bool = True  # else `rows` is a guess
    held: DataFrame | None = None  # what is kept in memory for it
    layers: int = 0  # changes that lie above what is kept


class Places(ClosingEngine):
    """Relations on the driver and on Spark."""

    can_renew = False  # facts may lie on Spark: transactions are taken back step by step

    name = "spark"

    def __init__(self, settings: SparkSettings, threads: int | None = None, relations: int = 8) -> None:
        super().__init__(threads, relations)
        self.settings = settings
        self.tell: Listener = _ignore  # who learns where the Spark UI is
        self._store: Store | None = None
        self.is_fetching = False  # the tables of relations on Spark hold a part of what lies there
        self._placed: dict[str, Placed] = {}
        self._lifted: dict[str, tuple[tuple[int, int, int], Source]] = {}

    @property
    def has_session(self) -> bool:
        """Whether Spark has been needed."""
        return self._store is not None

    @property
    def store(self) -> Store:
        """The border to Spark; the session starts when it is first crossed."""
        if self._store is None:
            session = self.settings.start()
            if session.sparkContext.uiWebUrl:
                self.tell(Notice(f"the Spark UI is at {session.sparkContext.uiWebUrl}"))
            self._store = Store(self.settings, session, self.dictionary, lambda: self.check())
        return self._store

    # ---- places

    def is_placed(self, relation: str) -> bool:
        """Whether a relation lies on Spark."""
        return relation in self._placed

    def arity(self, relation: str) -> int:
        """The number of a relation's columns."""
        return self.table(relation).arity

    def keep(
        self,
        relation: str,
        frame: DataFrame,
        rows: int,
        stated: Source | None,
        is_known: bool = True,
        held: DataFrame | None = None,
    ) -> None:
        """Let a relation lie on Spark: these are its facts, and those that are explicit."""
        self.empty_table(relation)
        before = self._placed.get(relation)
        if before is not None and before.held is not None and before.held is not _frame(stated):
            before.held.unpersist()
        self._placed[relation] = Placed(frame, rows, stated, is_known, held)

    def empty_table(self, relation: str) -> None:
        """Let nothing of a relation lie on the driver."""
        arity = self.arity(relation)
        super().drop(relation)
        super().define(relation, arity)
        self._lifted.pop(relation, None)

    def release(self, relation: str, stated: Source | None) -> DataFrame | None:
        """What is kept in memory for the explicit facts of a relation, which no longer goes with it."""
        placed = self._placed[relation]
        if placed.layers == 0 and placed.held is not _frame(stated):
            return None
        self._placed[relation] = replace(placed, held=None)
        return placed.held

    def settle_size(self, relation: str, rows: int) -> None:
        """Let it be known how many facts a relation on Spark has."""
        self._placed[relation] = replace(self._placed[relation], rows=rows, is_known=True)

    def extra(self, relation: str) -> int:
        """How many facts of a relation lie on the driver that may not lie on Spark."""
        return 0 if self.is_fetching and relation in self._placed else super().size(relation)

    def source(self, relation: str, _part: Part = Part.ALL) -> Source:
        """All facts of a relation, as a frame."""
        if relation not in self._placed:
            return self._lift(relation)
        placed, here = self.placed_facts(relation), self.extra(relation)
        if not here:
            return placed
        lifted = self._lift(relation)
        rows = self._placed[relation].rows + here
        return Source(placed.frame.unionAll(lifted.frame).distinct(), rows)

    def placed_facts(self, relation: str) -> Source:
        """The facts of a relation that lie on Spark."""
        placed = self._placed[relation]
        return Source(placed.frame, placed.rows if placed.is_known else float("inf"))

    def stated(self, relation: str) -> Source | None:
        """The explicit facts of a relation, as a frame; None if there are none."""
        placed = self.placed_stated(relation) if relation in self._placed else None
        if self.is_fetching and relation in self._placed:
            return placed
        columns, rows = super().explicit(relation)
        lifted = Source(self.store.lifted(columns, rows), rows) if rows else None
        if placed is None or lifted is None:
            return placed or lifted
        return Source(placed.frame.unionAll(lifted.frame).distinct(), placed.rows + rows)

    def placed_stated(self, relation: str) -> Source | None:
        """The explicit facts of a relation that lie on Spark; None if there are none."""
        return self._placed[relation].stated

    def _lift(self, relation: str) -> Source:
        """A relation of the driver as a frame, which is kept while the relation stays as it is."""
        table = self.table(relation)
        key = (len(table), table.dead, self.epoch)
        known = self._lifted.get(relation)
        if known is None or known[0] != key:
            columns, rows = super().rows(relation)
            known = key, Source(self.store.lifted(columns, rows), rows)
            self._lifted[relation] = known
        return known[1]

    def wide_rows(self, relation: str) -> tuple[tuple[Identities, ...], int]:
        """The rows of a relation in Spark's ids."""
        if relation not in self._placed:
            columns, rows = super().rows(relation)
            return tuple(self.store.widened(column) for column in columns), rows
        frame = self.source(relation, Part.ALL).frame
        arity = self.arity(relation)
        table = self.store.jobs.run(f"fetching {relation}", frame.toArrow)
        columns64 = [
            numbers_of(column.combine_chunks(), "int64") if column.num_chunks else np.zeros(0, np.int64)
            for column in table.columns[:arity]
        ]
        return tuple(columns64), table.num_rows if arity else min(table.num_rows, 1)

    def with_texts(self, frame: DataFrame, columns: Sequence[str], texts: Sequence[str]) -> DataFrame:
        """A frame with the exact texts of some columns' ids, null if there are no terms but numbers."""
        lexicon, terms = self.store.lexicon, self.store.terms
        for column, text in zip(columns, texts, strict=True):
            if lexicon is None:
                frame = frame.withColumn(text, sql.lit(None).cast("string"))
            else:
                frame = with_text(frame, column, text, lexicon, terms)
        return frame

    def bring_home(self, relations: Iterable[str]) -> None:
        """Let relations lie on the driver, all their facts visible to plans: one job fetches them."""
        names = sorted(set(relations) & self._placed.keys())
        frames: list[tuple[DataFrame, int]] = []
        marked: list[tuple[str, int]] = []  # of each frame, the relation and the flags of its facts
        for name in names:
            placed, stated = self._placed[name], self.stated(name)
            is_all = placed.stated is not None and placed.stated.frame is placed.frame
            if stated is not None and not is_all:
                frames.append((stated.frame, self.arity(name)))
                marked.append((name, layout.EXPLICIT))
            frames.append((self.source(name, Part.ALL).frame, self.arity(name)))
            marked.append((name, layout.EXPLICIT if is_all else 0))
        if not frames:
            return
        arities = [arity for _, arity in frames]
        found = self.store.fetched_apart(numbered(frames), arities, f"fetching {', '.join(names)}")
        for name in names:
            del self._placed[name]
            self._lifted.pop(name, None)
        for (name, flags), (columns, rows) in zip(marked, found, strict=True):
            self.table(name).insert(columns, rows, flags, len(self.dictionary))
        self.begin(names)

    def move_to_spark(self, relation: str) -> None:
        """Let a relation of the driver lie on Spark."""
        source = self._lift(relation)
        self.keep(relation, source.frame, int(source.rows), self.stated(relation))

    # ---- facts

    def rows(self, relation: str) -> tuple[tuple[Ids, ...], int]:
        """The columns of a relation as they are now, and its number of rows."""
        if relation not in self._placed:
            return super().rows(relation)
        frame = self.source(relation, Part.ALL).frame
        return self.store.fetched(frame, self.arity(relation), f"fetching {relation}")

    def explicit(
        self, relation: str, without: Sequence[Ids] = (), rows: int = 0
    ) -> tuple[tuple[Ids, ...], int]:
        """The explicit facts of a relation but for the given rows: their columns, and how many they are."""
        if relation not in self._placed:
            return super().explicit(relation, without, rows)
        stated = self.stated(relation)
        arity = self.arity(relation)
        if stated is None:
            return tuple(np.zeros(0, np.int32) for _ in range(arity)), 0
        frame = stated.frame
        if rows:
            frame = difference(frame, self.store.lifted(without, rows), columns_of(arity), True)
        return self.store.fetched(frame, arity, f"fetching what is explicit in {relation}")

    def forget_derived(self, relations: Collection[str]) -> None:
        """Keep only the explicit facts of these relations."""
        super().forget_derived([relation for relation in relations if relation not in self._placed])
        for relation in relations:
            placed = self._placed.get(relation)
            if placed is None:
                continue
            if placed.stated is None:
                self.drop_frame(relation)
            else:
                stated = placed.stated
                self._placed[relation] = replace(placed, frame=stated.frame, rows=int(stated.rows))

    def drop(self, relation: str) -> None:
        """Forget a relation."""
        super().drop(relation)
        self._lifted.pop(relation, None)
        self.drop_frame(relation)

    def drop_frame(self, relation: str) -> None:
        """Forget what lies on Spark of a relation."""
        placed = self._placed.pop(relation, None)
        if placed is not None and placed.held is not None:
            placed.held.unpersist()

    def rename(self, relation: str, name: str) -> None:
        """Give a relation another name."""
        super().rename(relation, name)
        self._lifted.pop(relation, None)
        if relation in self._placed:
            self._placed[name] = self._placed.pop(relation)

    # ---- statistics

    def size(self, relation: str) -> int:
        """How many facts a relation has; of what is not computed yet, a guess."""
        placed = self._placed.get(relation)
        return self.extra(relation) + (0 if placed is None else placed.rows)

    def about(self, relation: str) -> int:
        """About how many facts a relation has, at least 1."""
        return max(1, self.size(relation))

    def is_idle(self, rule: Rule) -> bool:
        """Whether a rule reads a relation that is known to be empty."""
        return any(
            not self.size(atom.predicate)
            and (atom.predicate not in self._placed or self._placed[atom.predicate].is_known)
            for atom in rule.positive
        )

    def distinct(self, relation: str, column: int) -> float:
        """About how many distinct values a column has."""
        placed = self._placed.get(relation)
        if placed is None:
            return super().distinct(relation, column)
        return float(max(1.0, placed.rows**0.75))  # no job is run to know better

    def matching(self, relation: str, column: int, value: Value) -> int:
        """About how many facts have this value in a column."""
        placed = self._placed.get(relation)
        if placed is None:
            return super().matching(relation, column, value)
        return max(1, int(placed.rows**0.5))


def _frame(source: Source | None) -> DataFrame | None:
    return None if source is None else source.frame


def _ignore(event: Event) -> None:
    """Nobody listens yet."""
