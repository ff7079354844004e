"""Unbounded derivation until facts repeat; advancing time, so that streams need bounded memory.

Wałęga, Zawidzki, Wang, Cuenca Grau: Materialisation-Based Reasoning in DatalogMTL with Bounded Intervals,
AAAI 2023, with windows of twice the reach of the rules: facts are derived within a horizon that grows, until
they repeat beyond it.

Correctness: let all facts between two ends be derived, and let two windows behind all ends of explicit facts,
a period apart, hold the same facts. Then every window of the rules' reach in the unfolding is, shifted by
periods, one in which the rules derive nothing new: the unfolding is a model. Facts derived from the first
window are derived a period later from the second: the model is the least one.

Invariant: the tables hold the least model of the rules within the horizon, explicit facts beyond it included.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from fractions import Fraction
from functools import partial

import numpy as np

from tidelog.data.rows import Rows
from tidelog.engine.events import Listener
from tidelog.errors import Diagnostic, ProgramError
from tidelog.errors.codes import ENDLESS_QUERY, FORGOTTEN, NOT_ADVANCED
from tidelog.logic.intervals import Interval, write_point
from tidelog.logic.program import Assignment, Program, Query, Rule, Throughout
from tidelog.maintenance.maintainer import NetChange
from tidelog.plan.algebra import Part
from tidelog.records import dataclass
from tidelog.temporal.horizon import (
    Folding,
    Horizon,
    Periods,
    Repeat,
    TimedOutcome,
    differences,
    mirrored,
    shifted,
)
from tidelog.temporal.interval_fixpoint import Derivation, ignore_events
from tidelog.temporal.interval_kernels import INFINITY
from tidelog.temporal.interval_table import Integers, IntervalLists, TimedTable, Timeline, single
from tidelog.temporal.metric_rules import (
    BACKWARD,
    FORWARD,
    CompiledMetricRule,
    Edge,
    Leaf,
    Shift,
    direction,
    edges,
    levels,
)
from tidelog.temporal.timed_changes import DeriveMore, RowTimes, TimedRows, TimedTransaction, TimedUpdate
from tidelog.temporal.timed_store import IntervalJournal, TimedStore

FIRST = 4  # windows on each side of the data, to begin with
TRIED = (
    Fraction(1),
    Fraction(3, 4),
    Fraction(1, 2),
)  # parts of a side, behind which more may follow


@dataclass(frozen=True, slots=True, eq=False)
class Repetition:
    """All facts repeat from a left end on, by a number of units; if constant, no fact changes there."""

    first: int
    period: int
    is_constant: bool


@dataclass(frozen=True, slots=True, eq=False)
class RepetitionSearch:
    """The search on the right side: all facts, the last end of the data, the windows, the smallest period.

    `since` is the first left end from which on facts may repeat.
    """

    parts: Sequence[IntervalLists]
    behind: int
    since: int
    window: int
    unit: int

    def find(self, last: int) -> Repetition | None:
        """How facts repeat if the last window ends here; None if they do not."""
        is_constant = not any(True for part in self.parts for _ in self._ends(part, last - self.window, last))
        for period in [self.unit] if is_constant else self._candidates(last):
            if last - self.window - period > self.behind and self._is_repeated(last, period):
                return Repetition(self._first(last, period), period, is_constant)
        return None

    def _ends(self, part: IntervalLists, low: int, high: int) -> Iterator[Integers]:
        """The intervals that begin or end within a window."""
        owners, left, right = part.within(low, high).rows()
        inside = (left > low) | (right < high)
        if bool(inside.any()):
            yield owners[inside]

    def _candidates(self, last: int) -> Iterable[int]:
        """The distances at which a fact that changes in the last window has changed likewise before."""
        rarest: Integers | None = None
        for part in self.parts:
            owners, left, right = part.within(self.behind, last).rows()
            for ends, high in (
                (left, last),
                (right, last - 1),
            ):  # intervals that end with the window may continue
                is_inside = (ends > self.behind) & (ends <= high)
                counts = np.bincount(owners[is_inside], minlength=1)
                candidates = np.unique(owners[is_inside & (ends > last - self.window)])
                if len(candidates):
                    owner = candidates[np.argmin(counts[candidates])]
                    if rarest is None or counts[owner] < len(rarest):
                        rarest = ends[is_inside & (owners == owner)]
        if rarest is None:
            return []
        return [int(period) for period in rarest[-1] - rarest[-2::-1] if period % self.unit == 0]

    def _is_repeated(self, last: int, period: int) -> bool:
        """Whether the last window and the one a period before hold the same facts."""
        low = last - self.window
        return all(
            _is_same(part.within(low, last), shifted(part.within(low - period, last - period), period))
            for part in self.parts
        )

    def _first(self, last: int, period: int) -> int:
        """The left end from which on everything repeats."""
        high = self.since - 1
        for part in self.parts:
            earlier = part.within(self.since, last - period)
            later = shifted(part.within(self.since + period, last), -period)
            every = part.numbers
            for difference in (earlier.without(later, every, every), later.without(earlier, every, every)):
                if difference.size:
                    high = max(high, difference.bounds[1])
        return high + 1


def _is_same(first: IntervalLists, second: IntervalLists) -> bool:
    return all(np.array_equal(left, right) for left, right in zip(first.rows(), second.rows(), strict=True))


def finite_ends(parts: Iterable[IntervalLists]) -> tuple[int, int] | None:
    """The least and the greatest finite end; None if there is none."""
    finite: list[Integers] = []
    for part in parts:
        _, left, right = part.rows()
        finite += [left[left > -INFINITY], right[right < INFINITY]]
    ends = np.concatenate(finite) if finite else np.zeros(0, np.int64)
    return (int(ends.min()), int(ends.max())) if len(ends) else None


def reason_against(program: Program) -> str | None:
    """Why a program's facts cannot be found to repeat; None if they can."""
    rules = program.timed_rules
    for edge in edges(rules):
        if edge.source in program.timed and (edge.shift.low is None or edge.shift.high is None):
            return "a rule looks back or ahead without end"
    if any(isinstance(literal, Assignment) for rule in rules for literal in rule.body):
        return "a rule computes values, so new ones may be derived for ever"
    if direction(rules) is None and len(levels(rules)) > 1:
        return "rules look back and ahead, and some negate what others derive"
    return None


def window_of(program: Program) -> Fraction:
    """The length for which two windows must agree: twice the distance that rules look back or ahead."""
    return 2 * max(_reach(program.timed_rules, program))


def _reach(rules: Iterable[Rule], program: Program) -> tuple[Fraction, Fraction]:
    """How far rules look back and ahead at temporal facts; both must be bounded."""
    shifts = [edge.shift for edge in edges(rules) if edge.source in program.timed]
    past = max((shift.high or Fraction(0) for shift in shifts), default=Fraction(0))
    future = max((-(shift.low or Fraction(0)) for shift in shifts), default=Fraction(0))
    return max(past, Fraction(0)), max(future, Fraction(0))


@dataclass(slots=True)
class Periodic:
    """A program whose facts repeat: the horizon so far, and the periods beyond it. Mutable: both change."""

    program: Program
    store: TimedStore
    settings: str  # the procedure
    horizon: Interval | None = None
    periods: Periods | None = None

    def derive(
        self,
        compiled: Sequence[CompiledMetricRule],
        listen: Listener,
        check: Callable[[], None],
        strata_before: int,
    ) -> tuple[TimedOutcome, dict[int, int]]:
        """Derive until facts repeat; return the outcome, and which rules were done before the end."""
        self.horizon = self._around_data()
        rounds = 0
        dropped: dict[int, int] = {}
        while True:
            horizon = self.cutting()
            derivation = Derivation(
                self.store, compiled, listen, check, self.settings, None, horizon, strata_before
            )
            rounds += derivation.run().rounds
            dropped = dropped or derivation.dropped
            if not horizon.is_cut:
                self.periods = Periods()
                return TimedOutcome(rounds, True), dropped
            if self._find():
                return TimedOutcome(rounds, True, horizon, self.periods), dropped
            self.horizon = self._widened()

    def change(
        self,
        update: TimedUpdate,
        static: NetChange,
        programs: tuple[Program, Program],
        check: Callable[[], None],
        accept: Callable[[], None],
    ) -> tuple[NetChange, int]:
        """Apply a transaction and find new periods; return the net change and the number of new intervals."""
        before, after = programs
        self._cover(update, before, check)
        previous = self.program, self.horizon, self.periods
        self.program = after

        def settle(compiled: Sequence[CompiledMetricRule], journal: IntervalJournal) -> bool:
            is_grown = False
            while not self._find():
                self.horizon, is_grown = self._widened(), True
                self._continue(compiled, check, journal)
            return is_grown

        former = self._folding()
        transaction = TimedTransaction(self.store, self.cutting(), check, settle, partial(self._net, former))
        try:
            net = transaction.execute(update, static, before, after, accept)
            return net, transaction.journal.grown(self.store.tables.values())
        except BaseException:
            self.program, self.horizon, self.periods = previous
            raise

    def _folding(self) -> Folding:
        """How facts repeat; on a side where no points were cut off, no fact changes beyond the horizon."""
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

    def _net(self, former: Folding, journal: IntervalJournal) -> NetChange:
        """The net change of all facts, with unbounded repetition; `former` is how they repeated."""
        current = self._folding()
        removed: dict[str, Rows] = {}
        added: dict[str, Rows] = {}
        for name in sorted(self.program.timed):
            table = self.store.tables[name]
            recorded = journal.before(table)
            numbers = recorded.numbers if former == current else np.arange(table.facts.rows)
            after, positions = table.lists.take(numbers), recorded.positions(numbers)
            unchanged = IntervalLists(
                after.first, np.where(positions < 0, after.count, 0), after.left, after.right
            )
            before = unchanged.united(recorded.lists, unchanged.numbers, positions)
            changes = differences((before, former), (after, current))
            is_periodic = any(every.any() for *_, every in changes)
            for (owners, left, right, every), side in zip(changes, (removed, added), strict=True):
                if len(owners):
                    columns = tuple(table.facts.columns[:, numbers[owners]])
                    times = RowTimes(self.store.timeline, left, right)
                    side[name] = TimedRows(columns, len(left), times, every if is_periodic else None)
        return NetChange(added, removed)

    def _cover(self, update: TimedUpdate, program: Program, check: Callable[[], None]) -> None:
        """Extend the horizon beyond facts that are about to change."""
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
            self._continue(self.store.compiled_rules(program), check, None)

    def _reaches(self, first: Fraction, last: Fraction) -> bool:
        assert self.horizon is not None
        return first in self.horizon and last in self.horizon

    def _continue(
        self,
        compiled: Sequence[CompiledMetricRule],
        check: Callable[[], None],
        journal: IntervalJournal | None,
    ) -> int:
        derivation = Derivation(
            self.store, compiled, ignore_events, check, self.settings, horizon=self.cutting(), journal=journal
        )
        return derivation.run().rounds

    def outcome(self, before: TimedOutcome) -> TimedOutcome:
        """The outcome after a change."""
        return replace(before, horizon=self.cutting(), periods=self.periods)

    def cutting(self) -> Horizon:
        """The horizon on the present timeline; no points are cut off on the side that truth comes from."""
        assert self.horizon is not None
        self.store.refine([self.horizon])
        return Horizon(self.horizon, self._way, self.store.timeline)

    @property
    def _way(self) -> str | None:
        return direction(self.program.timed_rules)

    def _data(self) -> tuple[Fraction, Fraction]:
        """The times between which the ends of explicit facts lie."""
        ends = finite_ends(table.lists for table in self.store.explicit.values())
        if ends is None:
            return Fraction(0), Fraction(0)
        return self.store.timeline.around(*ends)

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

    def _find(self) -> bool:
        """Whether facts repeat on all sides that were cut off; the periods are updated if so."""
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
        search = RepetitionSearch(parts, last + 1, first, timeline.span(window_of(self.program)), self._unit)
        for part in TRIED[: 1 if self._way else None]:
            end = last + int((high - last) * part) // 2 * 2
            repetition = search.find(end)
            if repetition is not None:
                return self._repeat(repetition, is_left)
        return None

    @property
    def _unit(self) -> int:
        """The smallest period."""
        return 1 if self.store.timeline.is_integer else 2

    def _repeat(self, repetition: Repetition, is_left: bool) -> Repeat:
        timeline = self.store.timeline
        ends = (-INFINITY, -repetition.first) if is_left else (repetition.first, INFINITY)
        return Repeat(timeline.decode(*ends), timeline.duration(repetition.period), repetition.is_constant)


def reach_of(query: Query, program: Program) -> tuple[Fraction, Fraction]:
    """How far a query looks back and ahead; both must be bounded."""
    return _reach([query.rule], program)


def folded(query: Query, periods: Periods, program: Program) -> Query:
    """A query about times near the data with the same answers; raises ProgramError if it is unbounded."""
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
class UnfoldedSource:
    """Reads facts with more periods than are stored, `copies` of them, for queries."""

    store: TimedStore
    folding: Folding
    copies: int

    def table(self, leaf: Leaf) -> TimedTable:
        """The facts of an atom's predicate."""
        return self.store.table(leaf)

    def read(self, leaf: Leaf, numbers: Integers, part: Part) -> IntervalLists:
        """The intervals of facts."""
        return self.folding.unfold(self.store.read(leaf, numbers, part), self.copies)

    def changed(self, leaf: Leaf) -> tuple[Integers, IntervalLists]:
        """The facts that just changed; queries change none."""
        return self.store.changed(leaf)


# Advancing time. When it advances to T, all facts before T are final: facts are inserted and deleted at T
# or later only. If no rule looks ahead, facts at T or later follow from points at T or later, and from final
# ones that rules look back at. Derived facts are stored as explicit ones are, so that a predicate is needed
# only as far back as a rule that reads it looks in one step.
#
# Invariant: every table holds, from T less the distance that rules look back at its predicate, the facts that
# it would hold if none had been forgotten.

# Facts are forgotten when there are GROWTH times as many as remained the last time, and SWEPT_FROM more.
GROWTH, SWEPT_FROM = 2, 4096


def looked_back(program: Program) -> Mapping[str, Fraction | None]:
    """Return how far back rules read each predicate; None if unbounded, which only untimed predicates allow.

    Raise ProgramError if a rule looks ahead, or back without bound at temporal facts.
    """
    distances: dict[str, Fraction | None] = {}
    faults: list[Diagnostic] = []
    for edge in edges(program.timed_rules):
        fault = _fault(edge, program)
        if fault is not None:
            faults.append(fault)
        distance = distances.get(edge.source, Fraction(0))
        high = edge.shift.high
        distances[edge.source] = None if distance is None or high is None else max(distance, high)
    if faults:
        raise ProgramError(faults)
    return distances


def _fault(edge: Edge, program: Program) -> Diagnostic | None:
    """Why time cannot advance with a rule; None if it can."""
    name = program.predicates[edge.source].written
    if edge.shift.low is None or edge.shift.low < 0:
        message = f"time cannot advance: this rule looks ahead at `{name}`, so that nothing is ever final"
        help = "use boxminus, diamondminus and since, and boxplus in heads"
        return Diagnostic(NOT_ADVANCED, message, edge.rule.span, help)
    if edge.shift.high is None and edge.source in program.timed:
        message = f"time cannot advance: this rule looks back at `{name}` without end"
        help = "give the operator an end, such as [0, 1d]"
        return Diagnostic(NOT_ADVANCED, message, edge.rule.span, help)
    return None


@dataclass(slots=True)
class RetentionWindow:
    """The times that are final, and how far back facts are retained. Mutable: it grows.

    `window` is the horizon, which moves along as time advances.
    """

    window: Interval | None = None
    time: Fraction | None = None  # facts before it are final; None if time has not advanced
    is_calendar: bool = False  # the time was given as a dateTime
    kept: Mapping[str, Fraction | None] = field(default_factory=dict)
    weight: int = 0  # of all tables when facts were forgotten last

    def advanced(self, point: Interval, program: Program) -> RetentionWindow:
        """Return the window after time has advanced to a point; raise ProgramError if it cannot."""
        to, is_calendar = point.start, point.is_calendar
        assert to is not None, "a point is finite"
        if self.time is not None and to < self.time:
            message = f"time has advanced to {self}, and cannot go back to {write_point(to, is_calendar)}"
            raise ProgramError(Diagnostic(NOT_ADVANCED, message))
        kept = looked_back(program)
        return RetentionWindow(self._moved(to, is_calendar), to, is_calendar, kept, self.weight)

    def __str__(self) -> str:
        return "the beginning" if self.time is None else write_point(self.time, self.is_calendar)

    def _moved(self, to: Fraction, is_calendar: bool) -> Interval | None:
        """The horizon from this time on: its end moves as far as its beginning."""
        window = self.window
        if window is None:
            return None
        distance = Fraction(0) if window.start is None else max(to - window.start, Fraction(0))
        end = None if window.end is None else window.end + distance
        if end is not None and end < to:
            message = (
                f"the horizon has no beginning, and ends at {write_point(end, is_calendar)}: that is before"
            )
            raise ProgramError(Diagnostic(NOT_ADVANCED, message, help="give a horizon that begins"))
        return Interval(to, end, False, window.end_open and end != to, is_calendar)

    @property
    def interval(self) -> Interval | None:
        """The times at which answers are right: the horizon, or all from the time that was advanced to."""
        if self.window is None and self.time is not None:
            return Interval(self.time, None, is_calendar=self.is_calendar)
        return self.window

    def first(self, timeline: Timeline) -> int:
        """The left end from which on times are not final."""
        return -INFINITY if self.time is None else timeline.ends(Interval(self.time, None))[0]

    def forget(self, store: TimedStore) -> None:
        """Drop facts that can no longer matter, unless few have been added since the last time."""
        tables = (*store.explicit.values(), *store.tables.values())
        if sum(table.weight for table in tables) < GROWTH * self.weight + SWEPT_FROM:
            return
        for table in tables:
            table.forget(self._retained_from(table.name, store.timeline))
        self.weight = sum(table.weight for table in tables)

    def _retained_from(self, name: str, timeline: Timeline) -> int:
        """The left end from which the facts of a predicate are retained."""
        back = self.kept.get(name, Fraction(0))
        if back is None or self.time is None:
            return -INFINITY
        return timeline.ends(Interval(self.time - back, None))[0]

    def check(self, query: Query, program: Program) -> None:
        """Raise ProgramError if a query reads facts that were forgotten."""
        if self.time is None:
            return
        for what, at in _requested_times(query.rule):
            if at is None or at < self.time:
                message = f"{what} was forgotten: time has advanced to {self}"
                raise ProgramError(Diagnostic(FORGOTTEN, message, query.rule.span))
        for edge in edges([query.rule]):
            kept = self.kept.get(edge.source, Fraction(0))
            if edge.source in program.timed and kept is not None and _is_beyond(edge.shift, kept):
                name = program.predicates[edge.source].written
                message = (
                    f"the query looks further back at `{name}` than its facts are kept, as time advanced"
                )
                help = f"rules look back at it by {write_point(kept)}; advance less far"
                raise ProgramError(Diagnostic(FORGOTTEN, message, query.rule.span, help))


def derive_on(
    horizon: Horizon | None, later: Horizon | None, store: TimedStore, check: Callable[[], None]
) -> DeriveMore:
    """Return the function that derives the facts that the former horizon cut off, once time has advanced."""

    def derive_more(rules: Sequence[CompiledMetricRule], journal: IntervalJournal) -> bool:
        if horizon is None or later is None or not horizon.is_cut:
            return False
        later.left = horizon.left
        Derivation(store, rules, ignore_events, check, "seminaive", horizon=later, journal=journal).run()
        return True

    return derive_more


def _requested_times(rule: Rule) -> Iterator[tuple[str, Fraction | None]]:
    """The intervals that a query names, as text, and where each begins."""
    for literal in rule.body:
        if isinstance(literal, Throughout):
            yield f"what held at {literal.interval}", literal.interval.start


def _is_beyond(shift: Shift, kept: Fraction) -> bool:
    return shift.high is None or shift.high > kept
