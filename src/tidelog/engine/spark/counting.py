"""The instances of each fact counted on Spark: what algorithms that count know of it, beside its columns.

See `engine.maintaining.Counters`. The rank of a fact is the round in which iterated joins find it, so that
each derived fact has an instance whose own facts rank below it. For each rule the instances are joined, with
the highest rank among the own facts; an instance is founded if that is below the rank of its head.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import TYPE_CHECKING

from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as sql

from tidelog.engine.events import Event
from tidelog.engine.maintaining import Counters
from tidelog.engine.spark.counted import FOUNDED, HIDDEN, RANK, Counted
from tidelog.engine.spark.derivation import Derivation
from tidelog.engine.spark.frames import Heads
from tidelog.engine.spark.rounds import Rounds
from tidelog.engine.spark.store import columns_of, union
from tidelog.engine.spark.tagging import TAG
from tidelog.logic.program import Atom, Literal, Rule, Variable
from tidelog.logic.strata import Stratum
from tidelog.plan.compile import full_plan

if TYPE_CHECKING:
    from tidelog.engine.spark.engine import SparkEngine

HIGHEST = "highest"
COUNTED = "?- counted"  # names with a space are no predicate's
RANKED = " ranked"


class RankedRounds(Rounds):
    """The rounds in which a stratum that is derived already would be."""

    notes = (RANK,)

    def _first(self, rule: Rule) -> Heads:
        number = self.derivation.numbers[id(rule)]
        plan = full_plan(rule, number, self.engine)
        return self.derivation.translation(number, self._source).heads(plan)

    def _noted(self, frame: DataFrame) -> DataFrame:
        return frame.withColumn(RANK, sql.lit(self.count + 1).cast("long"))

    def ranked(self, name: str) -> DataFrame:
        """The facts of a predicate with their ranks."""
        tag = self.tagging.relations.index(name)
        columns = columns_of(self.tagging.arities[tag])
        pieces = [*self.old, *([self.new] if self.new is not None else [])]
        frames = [piece.frame.where(sql.col(TAG) == tag).select(*columns, RANK) for piece in pieces]
        return union(frames) if frames else self.engine.store.empty(len(columns)).withColumn(RANK, _whole(0))


class StratumCount:
    """The instances of one stratum's rules while they are counted. Mutates the engine, and puts it back."""

    def __init__(
        self, engine: SparkEngine, stratum: Stratum, kind: Counters, check: Callable[[], None]
    ) -> None:
        self.engine = engine
        self.stratum = stratum
        self.own = frozenset(stratum.predicates)
        read = {atom.predicate for rule in stratum.rules for atom in rule.positive}
        self.is_recursive = not read.isdisjoint(self.own)
        self.is_ranked = kind is Counters.RANK and self.is_recursive
        self._check = check
        self.rounds = 0

    def count(self) -> dict[str, Counted]:
        """The facts of all predicates with their counters."""
        ranked = self._ranked()
        try:
            if self.is_ranked:
                self._define(ranked)
            found = {name: self._counted(name, facts) for name, facts in ranked.items()}
        finally:
            for name in self.own:
                if name + RANKED in self.engine.relations():
                    self.engine.drop(name + RANKED)
        return {name: Counted(frame, self.is_recursive) for name, frame in found.items()}

    def _ranked(self) -> dict[str, DataFrame]:
        """The facts with their ranks: 1 where all rank alike."""
        if not self.is_ranked:
            return {name: self.engine.source(name).frame.withColumn(RANK, _whole(1)) for name in self.own}
        rounds = RankedRounds(self._derivation(self.stratum.rules), 0, self.stratum)
        rounds.run()
        self.rounds = rounds.count
        return {name: rounds.ranked(name) for name in self.own}

    def _derivation(self, rules: tuple[Rule, ...]) -> Derivation:
        numbers = {id(rule): number for number, rule in enumerate(rules)}
        return Derivation(self.engine, (), numbers, _ignore, self._check, False)

    def _define(self, ranked: Mapping[str, DataFrame]) -> None:
        """Let there be relations with the ranks in a last column."""
        for name, facts in ranked.items():
            arity, rows = self.engine.arity(name), self.engine.size(name)
            columns = [*columns_of(arity)[:arity], RANK]
            self.engine.define(name + RANKED, arity + 1)
            frame = facts.select(*columns).toDF(*columns_of(arity + 1))
            self.engine.keep(name + RANKED, frame, rows, None)

    def _counted(self, name: str, facts: DataFrame) -> DataFrame:
        """The facts of a predicate with their counters, kept."""
        engine = self.engine
        columns = columns_of(engine.arity(name))
        stated = engine.stated(name)
        parts = [
            self._instances(rule)
            for rule in self.stratum.rules
            if rule.head.predicate == name and not engine.is_idle(rule)
        ]
        if stated is not None:
            parts.append(stated.frame.select(*columns, _whole(0).alias(HIGHEST)))
        none = facts.select(*columns, sql.lit(None).cast("long").alias(HIGHEST))
        is_founded = sql.col(HIGHEST) < sql.col(RANK)
        counted = (
            facts.join(union([none, *parts]), columns)
            .groupBy(*columns, RANK)
            .agg(_number(is_founded).alias(FOUNDED), _number(~is_founded).alias(HIDDEN))
        )
        return engine.store.jobs.run(f"counting the instances of {name}", counted.localCheckpoint)

    def _instances(self, rule: Rule) -> DataFrame:
        """The head of each instance of a rule, and the highest rank among its own facts."""
        arity = len(rule.head.terms)
        places = [place for place, atom in enumerate(rule.body) if self._is_own(atom)]
        shown = rule if not self.is_ranked else self._showing_ranks(rule, places)
        heads = self._derivation((shown,)).heads_of(shown).frame
        ranks = [sql.col(f"c{arity + number}") for number in range(len(places))]
        if not places:
            highest = _whole(0)
        elif not self.is_ranked:
            highest = _whole(1)  # of counters by class: hidden
        else:
            highest = ranks[0] if len(ranks) == 1 else sql.greatest(*ranks)
        return heads.select(*columns_of(arity), highest.alias(HIGHEST))

    def _is_own(self, literal: Literal) -> bool:
        return isinstance(literal, Atom) and literal.predicate in self.own

    def _showing_ranks(self, rule: Rule, places: list[int]) -> Rule:
        """The rule with the ranks of its own atoms in its head."""
        body, ranks = list(rule.body), [Variable(f"rank {place}") for place in places]
        for place, rank in zip(places, ranks, strict=True):
            atom = body[place]
            assert isinstance(atom, Atom)
            body[place] = Atom(atom.predicate + RANKED, (*atom.terms, rank))
        return replace(rule, head=Atom(COUNTED, (*rule.head.terms, *ranks)), body=tuple(body))


def _whole(number: int) -> Column:
    return sql.lit(number).cast("long")


def _number(condition: Column) -> Column:
    """How many rows fulfil a condition."""
    return sql.count(sql.when(condition, 1))


def _ignore(event: Event) -> None:
    """What is counted is not told."""
