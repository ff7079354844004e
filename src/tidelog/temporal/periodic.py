"""Derivation without end: within a horizon that grows, until what holds repeats beyond it. Mutates the store.

Wałęga, Zawidzki, Wang, Cuenca Grau: Materialisation-Based Reasoning in DatalogMTL with Bounded Intervals,
AAAI 2023. See `repetition` for when to stop, and why that is right.

Invariant: the tables hold the least model of the rules within the horizon, given facts beyond it included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from functools import partial

import numpy as np

from tidelog.engine.events import Listener
from tidelog.errors import Diagnostic, ProgramError
from tidelog.logic.intervals import Interval
from tidelog.logic.program import Assignment, Program, Query, Rule, Throughout
from tidelog.maintenance.maintainer import NetChange
from tidelog.maintenance.row_sets import Rows
from tidelog.temporal.analysis import BACKWARD, FORWARD, direction, edges, levels
from tidelog.temporal.changing import Changing, TimedRows, TimedUpdate, Times
from tidelog.temporal.horizon import Horizon
from tidelog.temporal.interval_dred import Journal
from tidelog.temporal.list_kernels import INFINITY
from tidelog.temporal.lists import Integers, Lists, single
from tidelog.temporal.materialise import Derivation, unheard
from tidelog.temporal.nodes import Leaf, ReadyRule
from tidelog.temporal.outcome import Outcome
from tidelog.temporal.periods import Folding, Periods, Repeat, differences, mirrored
from tidelog.temporal.repetition import Found, Search, finite_ends
from tidelog.temporal.store import Store
from tidelog.temporal.table import Part, TimedTable

ENDLESS_QUERY = "E646"
FIRST = 4  # windows on each side of the data, to begin with
TRIED = (Fraction(1), Fraction(3, 4), Fraction(1, 2))  # parts of a side behind which more may follow still


def reason_against(program: Program) -> str | None:
    """Why it cannot be found where a program's facts repeat; None if it can."""
    rules = program.timed_rules
    for edge in edges(rules):
        if edge.source in program.timed and (edge.shift.low is None or edge.shift.high is None):
            return "a rule looks back or ahead without end"
    if any(isinstance(literal, Assignment) for rule in rules for literal in rule.body):
        return "a rule computes values, so that new ones may come for ever"
    if direction(rules) is None and len(levels(rules)) > 1:
        return "rules look back and ahead, and some negate what others derive"
    return None


def window_of(program: Program) -> Fraction:
    """How long two windows must agree: twice as long as rules look back or ahead."""
    return 2 * max(_reach(program.timed_rules, program))


def _reach(rules: Iterable[Rule], program: Program) -> tuple[Fraction, Fraction]:
    """How far rules look back and ahead at what holds at times; it is known that both have an end."""
    shifts = [edge.shift for edge in edges(rules) if edge.source in program.timed]
    past = max((shift.high or Fraction(0) for shift in shifts), default=Fraction(0))
    future = max((-(shift.low or Fraction(0)) for shift in shifts), default=Fraction(0))
    return max(past, Fraction(0)), max(future, Fraction(0))


@dataclass(slots=True)
class Periodic:
    """A program whose facts repeat: the horizon so far, and the periods beyond it. Mutable: both change."""

    program: Program
    store: Store
    settings: str  # the procedure
    horizon: Interval | None = None
    periods: Periods | None = None

    # ---- deriving

    def derive(
        self, ready: Sequence[ReadyRule], listen: Listener, check: Callable[[], None], strata_before: int
    ) -> tuple[Outcome, dict[int, int]]:
        """Derive until all repeats; what came of it, and which rules were done before the end."""
        self.horizon = self._around_data()
        rounds = 0
        dropped: dict[int, int] = {}
        while True:
            horizon = self.cutting()
            derivation = Derivation(
                self.store, ready, listen, check, self.settings, None, horizon, strata_before
            )
            rounds += derivation.run().rounds
            dropped = dropped or derivation.dropped
            if not horizon.is_cut:
                self.periods = Periods()
                return Outcome(rounds, True), dropped
            if self._find():
                return Outcome(rounds, True, horizon, self.periods), dropped
            self.horizon = self._widened()

    # ---- changing

    def change(
        self,
        update: TimedUpdate,
        static: NetChange,
        programs: tuple[Program, Program],
        check: Callable[[], None],
        accept: Callable[[], None],
    ) -> tuple[NetChange, int]:
        """What a transaction changes, and how many intervals there are more. The periods are found again."""
        before, after = programs
        self._cover(update, before, check)
        known = self.program, self.horizon, self.periods
        self.program = after

        def settle(ready: Sequence[ReadyRule], journal: Journal) -> bool:
            is_grown = False
            while not self._find():
                self.horizon, is_grown = self._widened(), True
                self._derive_on(ready, check, journal)
            return is_grown

        former = self._folding()
        changing = Changing(self.store, self.cutting(), check, settle, partial(self._net, former))
        try:
            net = changing.carry_out(update, static, before, after, accept)
            return net, changing.journal.grown(self.store.tables.values())
        except BaseException:
            self.program, self.horizon, self.periods = known
            raise

    def _folding(self) -> Folding:
        """How what is there repeats; where nothing was cut off, nothing changes beyond the horizon."""
        assert self.periods is not None and self.horizon is not None
        timeline, way = self.store.timeline, self._way
        left, right = self.periods.left, self.periods.right
        if left is None and way != FORWARD:
            at = Interval(None, self.horizon.start, end_open=True)
            left = Repeat(at, timeline.duration(self._unit), is_constant=True)
        if right is None and way != BACKWARD:
            at = Interval(self.horizon.end, None, start_open=True)
            right = Repeat(at, timeline.duration(self._unit), is_constant=True)
        return Periods(left, right).on(timeline)

    def _net(self, former: Folding, journal: Journal) -> NetChange:
        """What all facts have lost and gained, without end; `former` is how they repeated."""
        now = self._folding()
        removed: dict[str, Rows] = {}
        added: dict[str, Rows] = {}
        for name in sorted(self.program.timed):
            table = self.store.tables[name]
            noted = journal.before(table)
            numbers = noted.numbers if former == now else np.arange(table.facts.rows)
            after, places = table.lists.taken(numbers), noted.places(numbers)
            others = Lists(after.first, np.where(places < 0, after.count, 0), after.left, after.right)
            before = others.united(noted.lists, others.numbers, places)
            found = differences((before, former), (after, now))
            is_periodic = any(every.any() for *_, every in found)
            for (owners, left, right, every), side in zip(found, (removed, added), strict=True):
                if len(owners):
                    columns = tuple(table.facts.columns[:, numbers[owners]])
                    times = Times(self.store.timeline, left, right)
                    side[name] = TimedRows(columns, len(left), times, every if is_periodic else None)
        return NetChange(added, removed)

    def _cover(self, update: TimedUpdate, program: Program, check: Callable[[], None]) -> None:
        """Let the horizon reach beyond facts that are going to change."""
        ends = finite_ends(
            single(*rows.times.on(self.store.timeline))
            for _, rows in (*update.removed, *update.added)
            if rows.times is not None
        )
        if ends is None:
            return
        first, last = self.store.timeline.around(*ends)
        is_grown = False
        while not self._reaches(first, last):
            self.horizon, is_grown = self._widened(), True
        if is_grown:
            self._derive_on(self.store.ready(program), check, None)

    def _reaches(self, first: Fraction, last: Fraction) -> bool:
        assert self.horizon is not None
        return first in self.horizon and last in self.horizon

    def _derive_on(
        self, ready: Sequence[ReadyRule], check: Callable[[], None], journal: Journal | None
    ) -> int:
        derivation = Derivation(
            self.store, ready, unheard, check, self.settings, horizon=self.cutting(), journal=journal
        )
        return derivation.run().rounds

    def outcome(self, before: Outcome) -> Outcome:
        """What is there after a change."""
        return replace(before, horizon=self.cutting(), periods=self.periods)

    # ---- the horizon

    def cutting(self) -> Horizon:
        """The horizon on the present timeline: on the side that truth comes from nothing is cut off."""
        assert self.horizon is not None
        self.store.refine([self.horizon])
        return Horizon(self.horizon, self._way, self.store.timeline)

    @property
    def _way(self) -> str | None:
        return direction(self.program.timed_rules)

    def _data(self) -> tuple[Fraction, Fraction]:
        """Between which times the ends of given facts lie."""
        found = finite_ends(table.lists for table in self.store.given.values())
        if found is None:
            return Fraction(0), Fraction(0)
        return self.store.timeline.around(*found)

    def _around_data(self) -> Interval:
        first, last = self._data()
        side = FIRST * window_of(self.program)
        return Interval(first - side, last + side)

    def _widened(self) -> Interval:
        """The horizon twice as far from the data."""
        assert self.horizon is not None and self.horizon.start is not None and self.horizon.end is not None
        first, last = self._data()
        side = 2 * max(first - self.horizon.start, self.horizon.end - last, window_of(self.program))
        return Interval(first - side, last + side)

    # ---- finding periods

    def _find(self) -> bool:
        """Whether what is there repeats on all sides that were cut off."""
        way = self._way
        right = self._side(is_left=False) if way != BACKWARD else None
        left = self._side(is_left=True, right=right) if way != FORWARD else None
        if (right is None and way != BACKWARD) or (left is None and way != FORWARD):
            return False
        self.periods = Periods(left, right)
        return True

    def _side(self, *, is_left: bool, right: Repeat | None = None) -> Repeat | None:
        """How one side repeats; the left one ends before the right one begins."""
        timeline, horizon = self.store.timeline, self.horizon
        assert horizon is not None
        first, last = map(timeline.span, self._data())
        low, high = timeline.ends(horizon)
        parts = [self.store.tables[name].lists for name in sorted(self.program.timed)]
        if is_left:
            parts = [mirrored(part) for part in parts]
            first, last, high = -last, -first, -low
        if right is not None:
            first = max(first, 1 - timeline.ends(right.at)[0])
        search = Search(parts, last + 1, first, timeline.span(window_of(self.program)), self._unit)
        for part in TRIED[: 1 if self._way else None]:
            end = last + int((high - last) * part) // 2 * 2
            found = search.find(end)
            if found is not None:
                return self._repeat(found, is_left)
        return None

    @property
    def _unit(self) -> int:
        """The smallest period."""
        return 1 if self.store.timeline.is_integer else 2

    def _repeat(self, found: Found, is_left: bool) -> Repeat:
        timeline = self.store.timeline
        ends = (-INFINITY, -found.first) if is_left else (found.first, INFINITY)
        return Repeat(timeline.decode(*ends), timeline.duration(found.period), found.is_constant)


# ---- asking


def reach_of(query: Query, program: Program) -> tuple[Fraction, Fraction]:
    """How far a query looks back and ahead; it is known that both have an end."""
    return _reach([query.rule], program)


def folded(query: Query, periods: Periods, program: Program) -> Query:
    """A query with the same answers for times near the data; raises ProgramError if it looks without end."""
    for edge in edges([query.rule]):
        if edge.source in program.timed and (edge.shift.low is None or edge.shift.high is None):
            message = (
                f"the query looks without end at `{program.predicates[edge.source].written}`, which repeats"
            )
            raise ProgramError(
                Diagnostic(ENDLESS_QUERY, message, query.rule.span, "give the operator an end")
            )
    body = tuple(
        replace(literal, interval=periods.fold(literal.interval))
        if isinstance(literal, Throughout)
        else literal
        for literal in query.rule.body
    )
    return replace(query, rule=replace(query.rule, body=body))


@dataclass(frozen=True, slots=True)
class Unfolding:
    """Reads facts with so many periods more than are there, for queries."""

    store: Store
    folding: Folding
    copies: int

    def table(self, leaf: Leaf) -> TimedTable:
        """The facts of an atom's predicate."""
        return self.store.table(leaf)

    def read(self, leaf: Leaf, numbers: Integers, part: Part) -> Lists:
        """When facts hold."""
        return self.folding.unfold(self.store.read(leaf, numbers, part), self.copies)

    def changed(self, leaf: Leaf) -> tuple[Integers, Lists]:
        """The facts that just changed: queries change nothing."""
        return self.store.changed(leaf)
