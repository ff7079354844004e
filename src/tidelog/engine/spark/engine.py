"""The Spark engine: the columnar engine on the driver, relations on Spark, strategies. Mutates itself."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

import numpy as np
import numpy.typing as npt
from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from tidelog.engine.events import Event, Listener
from tidelog.engine.spark.arrivals import changes_to, distinct_arrivals, schema_of, take_in
from tidelog.engine.spark.derivation import Derivation
from tidelog.engine.spark.encode import Decoding, Encoding
from tidelog.engine.spark.equality_classes import EqualityOnSpark
from tidelog.engine.spark.fetching import MOST_LAYERS
from tidelog.engine.spark.frames import Source
from tidelog.engine.spark.places import Placed
from tidelog.engine.spark.settings import INTERVAL_ROUNDS
from tidelog.engine.spark.store import Fetched, columns_of, difference, union
from tidelog.engine.spark.strategies import choose_over_time
from tidelog.engine.spark.timed_rounds import TimedFrames
from tidelog.logic.program import Rule
from tidelog.logic.strata import Stratum
from tidelog.logic.values import ColumnType
from tidelog.plan.algebra import Part

Ids = npt.NDArray[np.int32]

# What plain texts of columns with these types become in users' frames.
TYPES = {
    ColumnType.INTEGER: "bigint",
    ColumnType.DOUBLE: "double",
    ColumnType.BOOLEAN: "boolean",
    ColumnType.DATE: "date",
}


class SparkEngine(EqualityOnSpark):
    """Facts on the driver and on Spark, and what follows from them."""

    # ---- what reasoners ask for

    def derive(
        self,
        strata: Sequence[Stratum],
        numbers: dict[int, int],
        listen: Listener,
        check: Callable[[], None],
        modules: bool,
    ) -> None:
        """Derive all that follows from the facts that are there, each stratum by its strategy."""
        self.end_fetching()
        self.tell = listen
        self.begin(self.relations())
        Derivation(self, strata, numbers, listen, check, modules).run()

    def answer(self, rule: Rule) -> tuple[tuple[Ids, ...], int]:
        """The heads of a rule's instances, in columns of ids, and how many they are."""
        read = {atom.predicate for atom in (*rule.positive, *rule.negated)}
        if not read & self._placed.keys():
            return super().answer(rule)
        arity = len(rule.head.terms)
        if self.is_idle(rule):
            return tuple(np.zeros(0, np.int32) for _ in range(arity)), 0
        derivation = Derivation(self, (), {id(rule): -1}, _ignore, self.check, False)
        heads = derivation.heads_of(rule)
        self.store.jobs.rules = {}
        return self.fetch_heads(heads, arity, "answering a query")

    def timed_frames(self, facts: int, tell: Callable[[str, str], None]) -> TimedFrames | None:
        """Where what holds at times is derived if that is on Spark; how, and why, is told."""
        choice = choose_over_time(facts, self.settings)
        tell(choice.strategy, choice.reason)
        return TimedFrames(self) if choice.strategy == INTERVAL_ROUNDS else None

    # ---- facts in and out

    def takes(self, data: object) -> bool:
        """Whether data is a frame of Spark."""
        return isinstance(data, DataFrame)

    def load_frame(
        self, relation: str, data: Any, types: tuple[ColumnType, ...], names: tuple[str | None, ...]
    ) -> int:
        """Add the rows of a frame as explicit facts; returns how many were new."""
        store = self.store
        before = self.stated(relation)
        was = store.jobs.run(f"reading {relation}", before.frame.count) if before else 0
        encoded = data.mapInArrow(Encoding(types, names, store.hashing), schema_of(len(types))).persist()
        arrived = distinct_arrivals(self, store.adopted(encoded), [relation], {relation: before})
        self.keep(relation, *arrived.facts(relation), held=arrived.frame)
        encoded.unpersist()
        return arrived.rows[relation] - was

    def take_in(self, frame: DataFrame, relations: Sequence[str]) -> dict[str, int]:
        """Let relations have the facts of arrivals as explicit ones; returns how many each has then."""
        return take_in(self, frame, relations)

    def changes_to(
        self, frame: DataFrame, relations: Sequence[str], also: Mapping[str, tuple[Sequence[Ids], int]]
    ) -> dict[str, tuple[Fetched, Fetched]]:
        """What goes and what comes if the explicit facts of relations become arrivals and other rows."""
        lifted = {name: Source(self.store.lifted(*rows), rows[1]) for name, rows in also.items() if rows[1]}
        return changes_to(self, frame, relations, lifted)

    def frame(
        self,
        relation: str,
        names: Sequence[str],
        types: Sequence[ColumnType],
        form: str = "exact",
        alias: str | None = None,
        renamed: Sequence[Ids] | None = None,
    ) -> DataFrame:
        """The facts of a relation as a frame of texts; plain ones of a column with a type are typed.

        With a relation of aliases the facts are those of all members of classes; with pairs, constants that
        are the first of one are replaced by the other.
        """
        found = self.source(relation, Part.ALL).frame
        if alias is not None:
            found = self.with_members(found, len(names), alias)
        if renamed is not None:
            found = self.with_renamed(found, len(names), renamed)
        columns = [f"c{place}" for place in range(len(names))]
        found = self.with_texts(found, columns, [f"t{place}" for place in range(len(names))])
        places = [f"`{name}` string" for name in names]
        decoded = found.mapInArrow(Decoding(tuple(names), form), ", ".join(places))
        if form != "plain":
            return decoded
        return decoded.select(
            *(
                sql.col(f"`{name}`").try_cast(TYPES[kind]).alias(name)
                if kind in TYPES
                else sql.col(f"`{name}`")
                for name, kind in zip(names, types, strict=True)
            )
        )

    # ---- changes, made anew

    def restate(
        self,
        relation: str,
        aside: str,
        removed: tuple[Sequence[Ids], int],
        added: tuple[Sequence[Ids], int],
    ) -> None:
        """Set a relation aside by another name, and let a new one hold its explicit facts, changed."""
        self.end_fetching()
        if relation not in self._placed:
            super().restate(relation, aside, removed, added)
            return
        arity, stated, layers = self.arity(relation), self.stated(relation), self._placed[relation].layers + 1
        columns = columns_of(arity)
        rows = int(stated.rows if stated else 0) - removed[1] + added[1]
        frames = []
        if stated is not None:
            gone = self.store.lifted(*removed) if removed[1] else None
            is_few = removed[1] <= self.settings.broadcast_rows
            frames = [stated.frame if gone is None else difference(stated.frame, gone, columns, is_few)]
        if added[1]:
            frames.append(self.store.lifted(*added))
        held = self.release(relation, stated)
        self.rename(relation, aside)
        self.define(relation, arity)
        if frames:
            frame = union(frames)
            if layers > MOST_LAYERS:
                frame, layers = self.store.jobs.run("putting changes together", frame.localCheckpoint), 0
            self._placed[relation] = Placed(frame, rows, Source(frame, rows), held=held, layers=layers)

    def absent(self, relation: str, other: str) -> tuple[tuple[Ids, ...], int]:
        """The facts of a relation that another does not have."""
        if relation not in self._placed and other not in self._placed:
            return super().absent(relation, other)
        mine, others = self.source(relation, Part.ALL), self.source(other, Part.ALL)
        arity = self.arity(relation)
        is_few = others.rows <= self.settings.broadcast_rows
        frame = difference(mine.frame, others.frame, columns_of(arity), is_few)
        return self.store.fetched(frame, arity, f"what has changed in {relation}")


def _ignore(event: Event) -> None:
    """What a query does is not told."""
