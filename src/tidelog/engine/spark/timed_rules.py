"""Rules over time as frames: rows of variables, each with an interval at which the literals so far hold."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
from pyspark.sql import Column, Observation
from pyspark.sql import functions as sql

from tidelog.engine.spark import intervals
from tidelog.engine.spark.frames import UNBOUNDED, UNIT, Bindings, Heads, Source, Translation
from tidelog.engine.spark.intervals import INFINITY, LEFT, RIGHT
from tidelog.engine.spark.store import columns_of
from tidelog.logic.program import Assignment, Comparison, Condition, Variable
from tidelog.plan.algebra import Extend, Filter, Node, Unit

Test = Comparison | Assignment | Condition


@dataclass(frozen=True, slots=True)
class Given(Unit):
    """Rows that are there already."""

    bound: Bindings


@dataclass(slots=True)
class TimedTranslation(Translation):
    """The frames of one rule over time. Variables are given by their names, constants by the driver's ids."""

    def bind(self, node: Node) -> Bindings:
        """The rows of a node."""
        return node.bound if isinstance(node, Given) else Translation.bind(self, node)

    # ---- metric atoms

    def always(self) -> Bindings:
        """The row without variables that holds always."""
        ends = sql.lit(-INFINITY).alias(LEFT), sql.lit(INFINITY).alias(RIGHT)
        unit = sql.lit(0).cast("long").alias(UNIT)
        return Bindings(self.store.session.range(1).select(unit, *ends), (), 1)

    def leaf(self, source: Source, terms: Sequence[str | int]) -> Bindings:
        """The facts that match the terms, a column for each variable."""
        frame = source.frame
        places: dict[Variable, str] = {}
        for term, column in zip(terms, columns_of(len(terms)), strict=bool(terms)):
            variable = Variable(str(term))
            if isinstance(term, int):
                frame = frame.where(sql.col(column) == self._constant(term))
            elif variable in places:
                frame = frame.where(sql.col(column) == sql.col(places[variable]))
            else:
                places[variable] = column
        selected = [sql.col(column).alias(self._name(variable)) for variable, column in places.items()]
        unit = [] if selected else [sql.lit(0).cast("long").alias(UNIT)]
        return Bindings(frame.select(*selected, *unit, LEFT, RIGHT), tuple(places), source.rows)

    def _constant(self, identity: int) -> Column:
        return sql.lit(int(self.store.widened(np.array([identity], np.int32))[0])).cast("long")

    def moved(self, bound: Bindings, by: Sequence[int]) -> Bindings:
        """What a unary operator makes of coalesced rows, coalesced."""
        frame = intervals.moved(bound.frame, [int(step) for step in by])
        return self.coalesced(self._kept(bound, frame))

    def throughout(self, bound: Bindings, ends: tuple[int, int]) -> Bindings:
        """Those of coalesced rows that hold throughout an interval, as if they held always."""
        kept = bound.frame.where((sql.col(LEFT) <= ends[0]) & (sql.col(RIGHT) >= ends[1]))
        always = {LEFT: sql.lit(-INFINITY), RIGHT: sql.lit(INFINITY)}
        return self._kept(bound, kept.withColumns(always))

    def lasting(
        self, left: Bindings, right: Bindings, by: Sequence[int] | None, is_integer: bool
    ) -> Bindings:
        """Where coalesced rows last from points of others that agree with them, coalesced."""
        joined = self._beside(left, right)
        if by is None:
            return self._kept(joined, intervals.common(joined.frame).where(sql.lit(False)))
        made = intervals.lasting(joined.frame, [int(step) for step in by], is_integer)
        return self.coalesced(self._kept(joined, made))

    def united(self, bound: Bindings, other: Bindings) -> Bindings:
        """The points that one of them has, coalesced; both have the same variables."""
        columns = [*self._columns(bound.variables), LEFT, RIGHT]
        frame = bound.frame.select(*columns).unionAll(other.frame.select(*columns))
        return self.coalesced(Bindings(frame, bound.variables, bound.rows + other.rows))

    def coalesced(self, bound: Bindings) -> Bindings:
        """The same points in as few rows as there can be."""
        return self._kept(bound, intervals.coalesced(bound.frame, self._columns(bound.variables)))

    def without(self, bound: Bindings, other: Bindings) -> Bindings:
        """The points at which the other holds for no values of the variables that only it has."""
        shared = [variable for variable in other.variables if variable in bound.variables]
        keys = [self._name(variable) for variable in shared]
        found = intervals.coalesced(other.frame.select(*keys, LEFT, RIGHT), keys)
        is_small = other.rows <= self.store.settings.broadcast_rows
        return self._kept(bound, intervals.without(bound.frame, found, keys, is_small))

    # ---- bodies

    def joined(self, bound: Bindings, other: Bindings) -> Bindings:
        """The points that rows which agree have in common."""
        both = self._beside(bound, other)
        return self._kept(both, intervals.common(both.frame))

    def _beside(self, left: Bindings, right: Bindings) -> Bindings:
        """The rows of two that agree, the ends of the second under other names."""
        shared = [variable for variable in right.variables if variable in left.variables]
        new = tuple(variable for variable in right.variables if variable not in left.variables)
        renamed = replace(right, frame=intervals.renamed(right.frame.drop(UNIT)))
        frame = self._matched(left, renamed, shared, "inner")
        return Bindings(frame, (*left.variables, *new), UNBOUNDED, left.texts)

    def tested(self, bound: Bindings, tests: Sequence[Test]) -> Bindings:
        """The rows that pass the tests, with a column for each variable that is assigned."""
        node: Node = Given(bound)
        known = set(bound.variables)
        for test in tests:
            if not isinstance(test, Assignment):
                node = Filter(node, test)
            elif test.variable not in known:
                node = Extend(node, test.variable, test.expression)
                known.add(test.variable)
            else:
                check = Variable(f"{test.variable.name} again")
                node = Filter(Extend(node, check, test.expression), Comparison("=", test.variable, check))
        return self.bind(node)

    def head(self, bound: Bindings, terms: Sequence[str | int], moves: Sequence[Sequence[int]]) -> Heads:
        """The facts that rows lead to, and when they hold."""
        matches = Observation()
        frame = bound.frame.observe(matches, sql.count(sql.lit(1)).alias("matches"))
        for by in moves:
            frame = intervals.moved(frame, [int(step) for step in by])
        columns = [
            (self._constant(term) if isinstance(term, int) else sql.col(self._name(Variable(term)))).alias(
                name
            )
            for term, name in zip(terms, columns_of(len(terms)), strict=bool(terms))
        ] or [sql.lit(0).cast("long").alias("c0")]
        fresh = tuple(
            place
            for place, term in enumerate(terms)
            if isinstance(term, str) and Variable(term) in bound.texts
        )
        texts = [sql.col(self._text_name(Variable(str(terms[place])))).alias(f"t{place}") for place in fresh]
        return Heads(frame.select(*columns, LEFT, RIGHT, *texts), fresh, matches, self.missing)

    def _columns(self, variables: Sequence[Variable]) -> list[str]:
        return [self._name(variable) for variable in variables]
