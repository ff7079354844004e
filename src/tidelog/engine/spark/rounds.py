"""A stratum closed in rounds of joins: semi-naive, one job for all rules of a round. Mutates itself.

What a round finds is kept by localCheckpoint, so that plans do not grow, and counted by an observation in the
same job. Adaptive execution is off meanwhile: it would look at every shuffle, and rounds are many and small.
"""

from __future__ import annotations

from dataclasses import dataclass
from time import perf_counter
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame, Observation
from pyspark.sql import functions as sql

from tidelog.engine.events import RoundEnded
from tidelog.engine.spark.frames import Heads, Source
from tidelog.engine.spark.jobs import observed
from tidelog.engine.spark.store import union
from tidelog.engine.spark.tagging import STATED, Tagging, count_by_relation, count_by_rule, new_terms
from tidelog.logic.program import Rule
from tidelog.logic.strata import Stratum
from tidelog.plan.algebra import Part
from tidelog.plan.compile import delta_plans

if TYPE_CHECKING:
    from tidelog.engine.spark.derivation import Derivation

MOST_PIECES = 10  # frames that the facts known so far may lie in
SMALL_ROUND = 100_000  # facts that drive a round for which generating code takes longer than it saves
FEWER = 10  # what is known changes in each round: fewer facts than usual are worth sending to all executors


@dataclass(frozen=True, slots=True)
class Piece:
    """Facts that one round found, and how many of each relation."""

    frame: DataFrame
    rows: tuple[int, ...]


class Rounds:
    """A recursive stratum while it is closed."""

    notes: tuple[str, ...] = ()  # columns beside those of facts

    def __init__(self, derivation: Derivation, place: int, stratum: Stratum) -> None:
        self.derivation = derivation
        self.engine = derivation.engine
        self.store = derivation.engine.store
        self.place = place
        self.stratum = stratum
        self.tagging = Tagging(stratum.predicates, tuple(map(self.engine.arity, stratum.predicates)))
        self.old: list[Piece] = []  # known before the last round
        self.new: Piece | None = None  # found by the last round
        self.count = 0  # rounds

    def close(self) -> int:
        """Derive all of the stratum; returns the number of rounds."""
        stated = self.run()
        for name in self.stratum.predicates:
            found = self._source(name, Part.ALL)
            self.engine.keep(name, found.frame, int(found.rows), stated[name])
        return self.count

    def run(self) -> dict[str, Source | None]:
        """Let all pieces of the stratum be there; returns its explicit facts."""
        session = self.store.session
        session.conf.set("spark.sql.adaptive.enabled", "false")
        session.conf.set("spark.sql.shuffle.partitions", self.store.partitions)
        stated = {name: self.engine.stated(name) for name in self.stratum.predicates}
        for name, source in stated.items():
            if source is not None:
                rows = tuple(int(source.rows) if other == name else 0 for other in self.stratum.predicates)
                tagged = self.tagging.tagged(name, source.frame, STATED, ())
                self.old.append(Piece(self._noted(tagged), rows))
        live = [rule for rule in self.stratum.rules if not self.engine.is_idle(rule)]
        self._round(
            [(rule.head.predicate, self.derivation.numbers[id(rule)], self._first(rule)) for rule in live]
        )
        while self.new is not None:
            self._round(self._deltas())
        session.conf.set("spark.sql.adaptive.enabled", "true")
        session.conf.set("spark.sql.codegen.wholeStage", "true")
        return stated

    def _first(self, rule: Rule) -> Heads:
        """The heads of a rule in the first round: of its stratum there are explicit facts only."""
        return self.derivation.heads_of(rule)

    def _noted(self, frame: DataFrame) -> DataFrame:
        """The facts of a round, with what is noted of them."""
        return frame

    def _deltas(self) -> list[tuple[str, int, Heads]]:
        """The heads of all rules over what the last round found."""
        assert self.new is not None
        heads = []
        for rule in self.stratum.rules:
            number = self.derivation.numbers[id(rule)]
            for plan in delta_plans(rule, number, self.stratum.predicates, self.engine):
                pivot = plan.pivot
                if self._source(getattr(pivot, "relation", ""), Part.NEW).rows:
                    translation = self.derivation.translation(number, self._source)
                    heads.append((rule.head.predicate, number, translation.heads(plan)))
        return heads

    def _source(self, relation: str, part: Part) -> Source:
        """A part of a relation as it is in this round."""
        if relation not in self.stratum.predicates:
            return self.engine.source(relation, part)
        newest = [self.new] if self.new is not None else []
        pieces = {Part.NEW: newest, Part.OLD: self.old, Part.ALL: [*self.old, *newest]}[part]
        tag = self.tagging.relations.index(relation)
        pieces = [piece for piece in pieces if piece.rows[tag]]
        if not pieces:
            return Source(self.store.empty(self.tagging.arities[tag]), 0)
        frame = union(self.tagging.only(piece.frame, relation) for piece in pieces)
        return Source(frame, sum(piece.rows[tag] for piece in pieces))

    def _round(self, heads: list[tuple[str, int, Heads]]) -> None:
        """Find what follows in one more step, and let it be what is new."""
        start = perf_counter()
        self.count += 1
        self._set_compiling()
        if self.new is not None:
            self.old.append(self.new)
            self.new = None
        if not heads:
            self.derivation.listen(RoundEnded(self.place, self.count, 0))
            return
        tagging = self.tagging
        texts = tagging.texts(head for _, _, head in heads)
        frames = [tagging.tagged(name, head.frame, number, texts) for name, number, head in heads]
        found = tagging.merged(frames, texts)
        if self.old:
            self._compact()
            rows = sum(sum(piece.rows) for piece in self.old)
            known = union(piece.frame.select("tag", *tagging.columns) for piece in self.old)
            found = tagging.without(found, known, rows <= self.store.settings.broadcast_rows // FEWER)
        found = self._noted(found)
        counted = Observation()
        rules = sorted({number for _, number, _ in heads})
        terms = [sql.count(text).alias(text) for text in texts]
        found = found.observe(counted, *count_by_relation(tagging), *count_by_rule(rules), *terms)
        frame = self.store.jobs.run(self._description(rules), found.localCheckpoint)
        names = [f"p{number}" for number in range(len(tagging.relations))]
        rows_found = observed(counted, names)
        new = observed(counted, [f"r{rule}" for rule in rules])
        if texts and sum(observed(counted, texts)):
            self.store.add_terms(new_terms(frame, texts), sum(observed(counted, texts)))
        seconds = (perf_counter() - start) / len(rules)
        for rule, count in zip(rules, new, strict=True):
            own = [head for _, number, head in heads if number == rule]
            self.derivation.tell(self.place, self.count, rule, own, count, seconds)
        self.derivation.listen(RoundEnded(self.place, self.count, sum(rows_found)))
        if sum(rows_found):
            self.new = Piece(frame, rows_found)
        self.derivation.check()

    def _set_compiling(self) -> None:
        """Let Spark generate code for large rounds only: each has a plan of its own."""
        is_small = self.new is not None and sum(self.new.rows) <= SMALL_ROUND
        self.store.session.conf.set("spark.sql.codegen.wholeStage", str(not is_small).lower())

    def _description(self, rules: list[int]) -> str:
        shown = ", ".join(str(rule + 1) for rule in rules)
        names = ", ".join(self.stratum.predicates)
        return f"stratum {self.place + 1} ({names}), round {self.count}: rules {shown}"

    def _compact(self) -> None:
        """Let the facts known so far lie in few frames: all but the largest become one."""
        if len(self.old) <= MOST_PIECES:
            return
        pieces = sorted(self.old, key=lambda piece: sum(piece.rows))
        small, largest = pieces[:-1], pieces[-1]
        columns = ("tag", "rule", *self.tagging.columns, *self.notes)
        frame = union(piece.frame.select(*columns) for piece in small)
        coalesced = frame.coalesce(self.store.partitions)
        description = f"stratum {self.place + 1}, round {self.count}: putting facts together"
        kept = self.store.jobs.run(description, coalesced.localCheckpoint)
        rows = tuple(map(sum, zip(*(piece.rows for piece in small), strict=True)))
        self.old = [largest, Piece(kept, rows)]
