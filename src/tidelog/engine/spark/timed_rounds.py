"""Facts over time on Spark while they are derived, and after: frames of ids and ends. Mutates itself.

The predicates of a level share frames, with a column that says whose fact a row is, so that one job finds
what is new in a round, and another puts it together with what was known. Frames of earlier rounds stay as
they were: what was known before is read in them.

Invariant: each frame is coalesced by fact.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as sql

from tidelog.engine.columnar.arrow import array_of, numbers_of
from tidelog.engine.maintaining import OutOfReach
from tidelog.engine.spark import intervals
from tidelog.engine.spark.fetching import NOT_RESIDENT
from tidelog.engine.spark.frames import Heads, Source
from tidelog.engine.spark.intervals import INFINITY, LEFT, RIGHT
from tidelog.engine.spark.jobs import observed
from tidelog.engine.spark.rounds import SMALL_ROUND
from tidelog.engine.spark.store import columns_of, union
from tidelog.engine.spark.tagging import TAG, Tagging, count_by_relation, new_terms
from tidelog.engine.spark.timed_rules import TimedTranslation
from tidelog.errors import Diagnostic
from tidelog.plan.algebra import Part

if TYPE_CHECKING:
    from tidelog.engine.spark.engine import SparkEngine

Integers = npt.NDArray[np.int64]
EARLY, LATE = "early", "late"


@dataclass(frozen=True, slots=True)
class Given:
    """Facts of a predicate, as columns of the driver's ids, and the ends of their intervals."""

    columns: Sequence[Any]
    left: Integers
    right: Integers


@dataclass(frozen=True, slots=True)
class Piece:
    """Facts of the predicates of a level, and how many intervals each predicate has."""

    frame: DataFrame
    rows: tuple[int, ...]


@dataclass(frozen=True, slots=True)
class Taken:
    """What a round came to: how many intervals hold new points, how many there are more, and how many were
    cut off, at the beginning and at the end."""

    new: int
    grown: int
    early: int
    late: int


class TimedFrames:
    """The facts of predicates, and when they hold."""

    def __init__(self, engine: SparkEngine) -> None:
        self.engine = engine
        self.store = engine.store
        self._facts: dict[str, Source] = {}
        self._arities: dict[str, int] = {}
        self._level: Tagging | None = None  # the predicates that are derived at present
        self._pieces: dict[Part, Piece | None] = {}  # and their facts: ALL, those before, and what is NEW
        self._round = 0

    # ---- what there is before anything is derived

    def begin(self, name: str, arity: int, rows: tuple[Any, Integers, Integers] | None) -> None:
        """Let what holds be what is given, and always what the engine has."""
        given = None if rows is None else Given(*rows)
        self._arities[name] = arity
        parts = []
        count = 0
        if name in self.engine.relations() and self.engine.size(name):
            source = self.engine.source(name)
            ends = sql.lit(-INFINITY).alias(LEFT), sql.lit(INFINITY).alias(RIGHT)
            parts.append(source.frame.select(*columns_of(arity), *ends))
            count += self.engine.size(name)
        if given is not None and len(given.left):
            parts.append(self._lifted(given))
            count += len(given.left)
        if not parts:
            ids = ", ".join(f"{name} long" for name in (*columns_of(arity), LEFT, RIGHT))
            parts.append(self.store.session.createDataFrame([], ids))
        frame = union(parts)
        coalesced = intervals.coalesced(frame, columns_of(arity)) if len(parts) > 1 else frame
        self._facts[name] = Source(coalesced, count)

    def _lifted(self, given: Given) -> DataFrame:
        arrays = [array_of(self.store.widened(np.ascontiguousarray(column))) for column in given.columns]
        arrays = arrays or [array_of(np.zeros(len(given.left), np.int64))]
        names = [*columns_of(len(given.columns)), LEFT, RIGHT]
        return self.store.frame_of([*arrays, array_of(given.left), array_of(given.right)], names)

    # ---- levels

    def open(self, names: tuple[str, ...], rules: Mapping[int, Any]) -> None:
        """Let these predicates be derived now, by rules of these numbers."""
        session = self.store.session
        session.conf.set("spark.sql.adaptive.enabled", "false")
        session.conf.set("spark.sql.shuffle.partitions", self.store.partitions)
        self.store.jobs.rules = rules
        self._level = Tagging(names, tuple(self._arities[name] for name in names))
        self._round = 0
        known = [self._tagged(name, self._facts[name].frame, ()) for name in names]
        rows = tuple(int(self._facts[name].rows) for name in names)
        self._pieces = {Part.ALL: Piece(union(known), rows), Part.OLD: None, Part.NEW: None}

    def close(self) -> None:
        """Let the predicates of the level be as they are."""
        assert self._level is not None
        for name in self._level.relations:
            self._facts[name] = self.source(name, Part.ALL)
        self._level = None
        self._pieces = {}
        self.store.session.conf.set("spark.sql.adaptive.enabled", "true")
        self.store.session.conf.set("spark.sql.codegen.wholeStage", "true")
        self.store.settle_terms()

    # ---- reading

    def translation(self, number: int) -> TimedTranslation:
        """What makes frames of a rule's bodies."""
        missing = self.store.session.sparkContext.accumulator(0)
        return TimedTranslation(
            self.store, lambda relation, part: self.source(relation, part), number, missing
        )

    def source(self, name: str, part: Part) -> Source:
        """The facts of a predicate: all, those known before the last round, or what is new by it."""
        if self._level is None or name not in self._level.relations:
            return self._facts[name]
        piece = self._pieces[part]
        assert piece is not None
        tag = self._level.relations.index(name)
        frame = piece.frame.where(sql.col(TAG) == tag) if len(piece.rows) > 1 else piece.frame
        return Source(frame.select(*columns_of(self._arities[name]), LEFT, RIGHT), piece.rows[tag])

    def touched(self, name: str, part: Part) -> Source:
        """The facts that have points which are new by the last round, as they are or were."""
        new, known = self.source(name, Part.NEW), self.source(name, part)
        columns = columns_of(self._arities[name])
        facts = new.frame.select(*columns).distinct()
        if new.rows <= self.store.settings.broadcast_rows:
            facts = sql.broadcast(facts)
        return Source(known.frame.join(facts, columns, "left_semi"), min(new.rows, known.rows))

    def is_changed(self, name: str) -> bool:
        """Whether a predicate has points that are new by the last round."""
        if self._level is None or name not in self._level.relations:
            return False
        piece = self._pieces[Part.NEW]
        return piece is not None and piece.rows[self._level.relations.index(name)] > 0

    def size(self, name: str) -> int:
        """How many intervals a predicate has."""
        return int(self.source(name, Part.ALL).rows)

    @property
    def names(self) -> tuple[str, ...]:
        """The predicates."""
        return tuple(self._facts)

    @property
    def count(self) -> int:
        """How many intervals there are."""
        return sum(map(self.size, self._facts))

    # ---- rounds

    def take(self, number: int, heads: Sequence[tuple[str, Heads]], bounds: tuple[int, int] | None) -> Taken:
        """End a round of a stratum: let what was derived be known, within the bounds if there are some."""
        assert self._level is not None
        self._round += 1
        known = self._pieces[Part.ALL]
        assert known is not None
        self._set_compiling(known)
        self._pieces[Part.OLD], self._pieces[Part.NEW] = known, None
        if not heads:
            return Taken(0, 0, 0, 0)
        texts = self._level.texts(head for _, head in heads)
        found = union(self._tagged(name, head.frame, texts) for name, head in heads)
        cut, counted = Observation(), Observation()
        found = _clipped(found, bounds, cut)
        found = intervals.coalesced(found, self._keys, texts)
        new = self._checkpointed(
            number, "what is new", intervals.without(found, known.frame, self._keys), counted
        )
        beyond = observed(cut, [EARLY, LATE])
        if not sum(new.rows):
            return Taken(0, 0, *beyond)
        if texts:
            self.store.add_terms(new_terms(new.frame, texts), sum(new.rows))
        now = self._checkpointed(number, "all facts", self._merged(known, new), Observation())
        self._pieces[Part.NEW], self._pieces[Part.ALL] = new, now
        return Taken(sum(new.rows), sum(now.rows) - sum(known.rows), *beyond)

    def _set_compiling(self, known: Piece) -> None:
        """Let Spark generate code for many facts only: each round has a plan of its own."""
        is_small = sum(known.rows) <= SMALL_ROUND
        self.store.session.conf.set("spark.sql.codegen.wholeStage", str(not is_small).lower())

    def counted(self, heads: Heads) -> tuple[int, int]:
        """How many rows led to heads in a round that is over, and how many more lacked a value."""
        return observed(heads.matches, ["matches"])[0], int(heads.missing.value)

    def _merged(self, known: Piece, new: Piece) -> DataFrame:
        """All facts: those that are new are put together with what they touch."""
        added = new.frame.select(*self._keys, LEFT, RIGHT)
        if sum(new.rows) > self.store.settings.broadcast_rows:
            return intervals.coalesced(known.frame.unionAll(added), self._keys)
        facts = sql.broadcast(added.select(*self._keys).distinct())
        touched = known.frame.join(facts, self._keys, "left_semi").unionAll(added)
        untouched = known.frame.join(facts, self._keys, "left_anti")
        columns = [*self._keys, LEFT, RIGHT]
        merged = intervals.coalesced(touched.select(*columns), self._keys)
        return untouched.select(*columns).unionAll(merged.select(*columns))

    def _checkpointed(self, number: int, what: str, frame: DataFrame, counted: Observation) -> Piece:
        assert self._level is not None
        seen = frame.observe(counted, *count_by_relation(self._level))
        names = ", ".join(self._level.relations)
        description = f"stratum {number + 1} ({names}), round {self._round}: {what}"
        kept = self.store.jobs.run(description, seen.localCheckpoint)
        rows = observed(counted, [f"p{place}" for place in range(len(self._level.relations))])
        return Piece(kept, rows)

    @property
    def _keys(self) -> list[str]:
        assert self._level is not None
        return [TAG, *self._level.columns]

    def _tagged(self, name: str, frame: DataFrame, texts: Sequence[str]) -> DataFrame:
        """Facts of one predicate as rows of the level's frames."""
        assert self._level is not None
        own, there = columns_of(self._arities[name]), frame.columns
        tag = sql.lit(self._level.relations.index(name)).alias(TAG)
        zero, nothing = sql.lit(0).cast("long"), sql.lit(None).cast("string")
        ids = [sql.col(column) if column in own else zero.alias(column) for column in self._level.columns]
        words = [sql.col(text) if text in there else nothing.alias(text) for text in texts]
        return frame.select(tag, *ids, LEFT, RIGHT, *words)

    # ---- from Spark to the driver

    def rows(self, name: str) -> Given:
        """All facts of a predicate, in the driver's ids."""
        arity = self._arities[name]
        frame = self.source(name, Part.ALL).frame
        table = self.store.jobs.run(f"fetching {name}", frame.toArrow)
        numbers = [
            numbers_of(column.combine_chunks(), "int64") if column.num_chunks else np.zeros(0, np.int64)
            for column in table.columns
        ]
        columns = self.store.narrowed(numbers[:arity]) if arity and table.num_rows else numbers[:arity]
        return Given(columns, *numbers[-2:])

    def check_resident(self) -> None:
        """Nothing, if all facts may come to the driver; else raises OutOfReach."""
        most = self.engine.settings.resident_facts
        if self.count > most:
            message = (
                f"{self.count:,} intervals are on Spark, and at most {most:,} facts may come to the driver"
            )
            help = "raise `tidelog.residentFacts`, or ask for one predicate after the other"
            raise OutOfReach(Diagnostic(NOT_RESIDENT, message, help=help))


def _clipped(frame: DataFrame, bounds: tuple[int, int] | None, cut: Observation) -> DataFrame:
    """The points within the bounds; how many intervals reach beyond them is counted."""
    left, right = bounds or (-INFINITY, INFINITY)
    early = sql.count(sql.when(sql.col(LEFT) < left, 1)).alias(EARLY)
    late = sql.count(sql.when(sql.col(RIGHT) > right, 1)).alias(LATE)
    seen = frame.observe(cut, early, late)
    return intervals.with_ends(seen, sql.greatest(LEFT, sql.lit(left)), sql.least(RIGHT, sql.lit(right)))
