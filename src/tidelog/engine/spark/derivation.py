"""All strata of a program on Spark, each by its strategy. Mutates the engine."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from time import perf_counter
from typing import TYPE_CHECKING

from pyspark.sql import DataFrame
from pyspark.sql import functions as sql

from tidelog.engine import fixpoint
from tidelog.engine.events import (
    Listener,
    RoundEnded,
    RuleRan,
    StratumEnded,
    StratumStarted,
    StratumStrategy,
)
from tidelog.engine.spark import settings
from tidelog.engine.spark.frames import Heads, Source, Translation
from tidelog.engine.spark.jobs import observed
from tidelog.engine.spark.strategies import Choice, Sizes, choose
from tidelog.engine.spark.tagging import RULE, STATED, Tagging, new_terms
from tidelog.logic.program import Rule
from tidelog.logic.strata import Stratum
from tidelog.plan.algebra import Aggregate, Part
from tidelog.plan.compile import aggregate_plans, full_plan

if TYPE_CHECKING:
    from tidelog.engine.spark.engine import SparkEngine

COLLECTED = "?- collected"  # a name with a space is no predicate's


@dataclass(slots=True)
class Awaited:
    """A stratum whose frames are known and have not been computed."""

    place: int
    stratum: Stratum
    frame: DataFrame
    tagging: Tagging
    heads: list[tuple[int, Heads]]


@dataclass(slots=True)
class Derivation:
    """The strata of a program while they are derived."""

    engine: SparkEngine
    strata: Sequence[Stratum]
    numbers: dict[int, int]
    listen: Listener
    check: Callable[[], None]
    modules: bool
    awaited: list[Awaited] = field(default_factory=list)

    def run(self) -> None:
        """Derive all that follows."""
        engine = self.engine
        try:
            for place, stratum in enumerate(self.strata):
                self._derive(place, stratum)
            self._compute_awaited()
            if engine.has_session:
                engine.store.settle_terms()
        finally:
            self.awaited.clear()

    def _derive(self, place: int, stratum: Stratum) -> None:
        choice = self._choose(stratum)
        if choice.strategy != settings.LAZY and self.awaited:
            self._compute_awaited()
            choice = self._choose(stratum)  # sizes are known now
        self.listen(StratumStrategy(place, choice.strategy, choice.reason))
        match choice.strategy:
            case settings.DRIVER_CLOSURE:
                self._close_on_driver(place, stratum)
            case settings.LAZY:
                self._await(place, stratum)
            case settings.EXECUTOR_FIXPOINT:
                from tidelog.engine.spark.partitioned import close_in_executors

                self._timed(
                    place, stratum, lambda: close_in_executors(self, place, stratum, choice.kept or {})
                )
            case _:
                from tidelog.engine.spark.rounds import Rounds

                self._timed(place, stratum, lambda: Rounds(self, place, stratum).close())

    def _choose(self, stratum: Stratum) -> Choice:
        engine = self.engine
        terms = engine.store.terms if engine.has_session else 0
        return choose(stratum, Sizes(engine.size, terms, engine.settings))

    def _timed(self, place: int, stratum: Stratum, close: Callable[[], int]) -> None:
        self.listen(StratumStarted(place, len(self.strata), stratum.predicates, stratum.recursive))
        self.engine.store.jobs.rules = {self.numbers[id(rule)]: rule for rule in stratum.rules}
        start = perf_counter()
        rounds = close()
        self.listen(StratumEnded(place, rounds, perf_counter() - start))

    def _close_on_driver(self, place: int, stratum: Stratum) -> None:
        engine = self.engine
        engine.bring_home({name for rule in stratum.rules for name in _read(rule)} | set(stratum.predicates))
        fixpoint.derive_stratum(
            place,
            len(self.strata),
            stratum,
            self.numbers,
            engine,
            self.listen,
            self.check,
            engine if self.modules else None,
        )
        for name in stratum.predicates:
            if engine.size(name) > engine.settings.driver_facts:
                engine.move_to_spark(name)

    # ---- rules as frames

    def heads_of(self, rule: Rule) -> Heads:
        """The heads of a rule over all facts."""
        number = self.numbers[id(rule)]
        translation = self.translation(number, self.engine.source)
        if not rule.aggregations:
            return translation.heads(full_plan(rule, number, self.engine))
        collect, group = aggregate_plans(rule, number, COLLECTED, self.engine)
        assert isinstance(group.root, Aggregate)
        return translation.groups(translation.heads(collect), group.root)

    def translation(self, number: int, sources: Callable[[str, Part], Source]) -> Translation:
        """What makes frames of a rule's plans."""
        store = self.engine.store
        missing = store.session.sparkContext.accumulator(0)
        return Translation(store, sources, number, missing)

    def tell(
        self, place: int, count: int, number: int, heads: Sequence[Heads], new: int, seconds: float
    ) -> None:
        """Say what a rule's frames did in a round."""
        matches = sum(observed(head.matches, ["matches"])[0] for head in heads)
        missing = sum(int(head.missing.value) for head in heads)
        if matches or new or missing:
            self.listen(RuleRan(place, count, number, max(matches, new), new, missing, seconds))

    # ---- lazily

    def _await(self, place: int, stratum: Stratum) -> None:
        """Make the frames of a stratum's predicate, to be computed with others."""
        engine = self.engine
        [name] = stratum.predicates
        self.engine.store.jobs.rules = {
            **engine.store.jobs.rules,
            **{self.numbers[id(r)]: r for r in stratum.rules},
        }
        live = [rule for rule in stratum.rules if not engine.is_idle(rule)]
        tagging = Tagging((name,), (engine.arity(name),))
        heads = [(self.numbers[id(rule)], self.heads_of(rule)) for rule in live]
        texts = tagging.texts(head for _, head in heads)
        stated = engine.stated(name)
        frames = [tagging.tagged(name, head.frame, number, texts) for number, head in heads]
        if stated is not None:
            frames.append(tagging.tagged(name, stated.frame, STATED, texts))
        if not heads:
            self._tell_awaited(place, stratum, [], {}, 0.0)
            return
        frame = tagging.merged(frames, texts).persist()
        if texts:
            engine.store.add_terms(new_terms(frame, texts), 0)
        about = sum(engine.about(name) for rule in live for name in _read(rule)) + engine.about(name)
        engine.keep(name, tagging.only(frame, name), about, stated, False, frame)
        self.awaited.append(Awaited(place, stratum, frame, tagging, heads))

    def _compute_awaited(self) -> None:
        """Compute all frames that are waited for, in one job."""
        if not self.awaited:
            return
        start = perf_counter()
        awaited, self.awaited = self.awaited, []
        store = self.engine.store
        counted = [each.frame.select(sql.lit(each.place).alias("place"), sql.col(RULE)) for each in awaited]
        frame = counted[0]
        for other in counted[1:]:
            frame = frame.unionAll(other)
        description = f"strata {', '.join(str(each.place + 1) for each in awaited)}: " + ", ".join(
            name for each in awaited for name in each.stratum.predicates
        )
        store.session.conf.set("spark.sql.adaptive.enabled", "true")
        rows = store.jobs.run(description, lambda: frame.groupBy("place", RULE).count().collect())
        seconds = (perf_counter() - start) / len(awaited)
        for each in awaited:
            counts = {row[RULE]: row["count"] for row in rows if row["place"] == each.place}
            [name] = each.stratum.predicates
            self.engine.settle_size(name, sum(counts.values()))
            self._tell_awaited(each.place, each.stratum, each.heads, counts, seconds)
        self.check()

    def _tell_awaited(
        self,
        place: int,
        stratum: Stratum,
        heads: list[tuple[int, Heads]],
        counts: dict[int, int],
        seconds: float,
    ) -> None:
        self.listen(StratumStarted(place, len(self.strata), stratum.predicates, stratum.recursive))
        for number, head in heads:
            self.tell(place, 1, number, [head], counts.get(number, 0), seconds / len(heads))
        self.listen(RoundEnded(place, 1, sum(new for number, new in counts.items() if number != STATED)))
        self.listen(StratumEnded(place, 1, seconds))


def _read(rule: Rule) -> set[str]:
    return {atom.predicate for atom in (*rule.positive, *rule.negated)}
