"""The part of the timeline to which a derivation is limited, how facts repeat beyond it, and how a derivation
ended.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import replace
from fractions import Fraction
from math import lcm
from operator import add

import numpy as np

from tidelog.errors import counted
from tidelog.logic.intervals import Interval, beyond_range, write_point
from tidelog.records import dataclass
from tidelog.temporal.interval_kernels import INFINITY, LIMIT
from tidelog.temporal.interval_table import Integers, IntervalLists, Timeline, single
from tidelog.temporal.metric_rules import BACKWARD, FORWARD


class Horizon:
    """The part of the timeline to which derivation is limited. Mutable: it records that it cut points off.

    Points beyond the interval are cut off, except on the side that truth comes from. With rules that
    propagate forward, points before the horizon lead to points in it, and points behind it do not: so only
    these are cut off, and the points derived in the horizon are complete.

    Where time has advanced, everything before the horizon is `final`: it stays as it was.
    """

    def __init__(
        self, interval: Interval, direction: str | None, timeline: Timeline, *, is_final: bool = False
    ) -> None:
        self.interval = interval
        self.direction = direction
        left, right = timeline.ends(interval)
        self.left = -INFINITY if direction == FORWARD and not is_final else left
        self.right = INFINITY if direction == BACKWARD else right
        self.is_final = is_final
        self.final = left if is_final else -INFINITY  # from there on points may change
        self.is_cut = False

    @property
    def leaves_out(self) -> bool:
        """Whether derived points were cut off, or may be forgotten."""
        return self.is_cut or self.is_final

    @property
    def is_exact(self) -> bool:
        """Whether no point in the horizon depends on those that are cut off."""
        return self.direction is not None

    def clip(self, lists: IntervalLists) -> IntervalLists:
        """The lists without points beyond the horizon."""
        if not len(lists):
            return lists
        low, high = lists.bounds
        if low >= self.left and high <= self.right:
            return lists
        self.is_cut |= high > self.right or (low < self.left and not self.is_final)
        return lists.within(self.left, self.right)


# Facts that repeat without end: finitely many intervals, and a period on each side.
#
# Wałęga, Zawidzki, Wang, Cuenca Grau: Materialisation-Based Reasoning in DatalogMTL with Bounded Intervals,
# AAAI 2023: the model of a bounded program is, away from the data, periodic on both sides.
#
# In `right.at`, a fact holds at t if and only if it does at t + period; in `left.at`, likewise at t - period.
# Functions work on the right side; the left one is its mirror image.


@dataclass(frozen=True, slots=True)
class Repeat:
    """A half line on which all facts repeat by a period; `constant` if no fact changes there."""

    at: Interval
    period: Fraction
    is_constant: bool = False

    def shifted(self, duration: Fraction) -> Repeat:
        """The same, shifted by a duration."""
        start = None if self.at.start is None else self.at.start + duration
        end = None if self.at.end is None else self.at.end + duration
        return replace(self, at=replace(self.at, start=start, end=end))

    def __str__(self) -> str:
        at, is_right = self.at, self.at.end is None
        since = "after" if at.start_open else "from"
        until = "before" if at.end_open else "up to"
        where = f"{since} {at.write(at.start, '')} on" if is_right else f"{until} {at.write(at.end, '')}"
        return f"{where} all repeats every {write_point(self.period)}"


@dataclass(frozen=True, slots=True)
class Periods:
    """How facts repeat to the left and to the right; None on a side where no points were cut off."""

    left: Repeat | None = None
    right: Repeat | None = None

    def __str__(self) -> str:
        sides = (side for side in (self.left, self.right) if side is not None and not side.is_constant)
        return "; ".join(map(str, sides))

    def later(self, past: Fraction, future: Fraction) -> Periods:
        """The periods seen by operators that look back and ahead this far."""
        left = None if self.left is None else self.left.shifted(-future)
        return Periods(left, None if self.right is None else self.right.shifted(past))

    def copies(self, reach: Fraction) -> int:
        """The number of further periods that cover this reach, plus two; one is enough if no fact changes."""
        lengths = [side.period for _, side in sides(self)]
        return 3 + int(reach / min(lengths)) if lengths else 0

    def on(self, timeline: Timeline) -> Folding:
        """The same on a timeline."""
        left = (
            None if self.left is None else (-timeline.ends(self.left.at)[1], timeline.span(self.left.period))
        )
        right = None
        if self.right is not None:
            right = timeline.ends(self.right.at)[0], timeline.span(self.right.period)
        return Folding(left, right)

    def fold(self, interval: Interval) -> Interval:
        """An interval near the data throughout which the same facts hold."""
        if self.right is not None:
            interval = _folded(interval, self.right)
        if self.left is not None:
            interval = _mirrored(_folded(_mirrored(interval), replace(self.left, at=_mirrored(self.left.at))))
        return interval


def _folded(interval: Interval, repeat: Repeat) -> Interval:
    """`fold` for the right side: what lies further than a period is shifted back, longer than one is cut."""
    first, period = repeat.at.start, repeat.period
    assert first is not None, "the right side begins somewhere"
    start, end = interval.start, interval.end
    if start is not None and start >= first + period:
        times = (start - first) // period
        if start - times * period == first and repeat.at.start_open and not interval.start_open:
            times -= 1  # facts at `first` itself do not repeat
        shift = times * period
        start, end = start - shift, None if end is None else end - shift
    last = (first if start is None else max(start, first)) + period
    if end is None or end > last:
        return Interval(start, last, interval.start_open, False, interval.is_calendar)
    return Interval(start, end, interval.start_open, interval.end_open, interval.is_calendar)


def _mirrored(interval: Interval) -> Interval:
    start = None if interval.end is None else -interval.end
    end = None if interval.start is None else -interval.start
    return Interval(start, end, interval.end_open, interval.start_open, interval.is_calendar)


FoldedRows = tuple[Integers, Integers, Integers, Integers]  # what `Folding.rows` returns
_Side = tuple[int, int]  # the left end from which on facts repeat, and the period


@dataclass(frozen=True, slots=True)
class Folding:
    """Periods on a timeline; the left one is mirrored."""

    left: _Side | None
    right: _Side | None

    def unfold(self, lists: IntervalLists, copies: int) -> IntervalLists:
        """The lists with more periods, `copies` of them; unbounded where a fact holds throughout a period."""
        if self.right is not None:
            lists = _unfolded(lists, *self.right, copies)
        if self.left is not None:
            lists = mirrored(_unfolded(mirrored(lists), *self.left, copies))
        return lists

    def unfold_to(self, lists: IntervalLists, reach: Folding) -> IntervalLists:
        """The lists up to the end of the first period of another folding."""
        if self.right is not None and reach.right is not None:
            lists = _unfolded_to(lists, self.right, sum(reach.right) - 1)
        if self.left is not None and reach.left is not None:
            lists = mirrored(_unfolded_to(mirrored(lists), self.left, sum(reach.left) - 1))
        return lists

    def combined(self, other: Folding, periods: Callable[[int, int], int]) -> Folding:
        """Where both repeat, with a period that is computed from both."""
        return Folding(_combined(self.left, other.left, periods), _combined(self.right, other.right, periods))

    def rows(self, lists: IntervalLists) -> FoldedRows:
        """All intervals, with the number of the list, both ends, and the period.

        The period is 0 for intervals that do not repeat, and negative for those that repeat to the left. The
        lists must be correct for one period on each side.
        """
        owners, left, right = self.unfold(lists, 2).rows()
        every = np.zeros(len(left), np.int64)
        is_listed = np.ones(len(left), bool)
        for side, ends, sign in ((self.right, left, 1), (self.left, -right, -1)):
            if side is not None:
                first, period = side
                is_repeated = (ends >= first) & (right < INFINITY) & (left > -INFINITY)
                # An interval that begins where the repetition begins may be part of a longer one a period
                # later, and one that begins a period later may have been part of a longer one before.
                at_first, at_second = (owners[ends == end] for end in (first, first + period))
                is_repeated &= (ends != first) | np.isin(owners, at_second)
                every[is_repeated] = sign * period
                is_first = (ends < first + period) | ((ends == first + period) & ~np.isin(owners, at_first))
                is_listed &= ~is_repeated | is_first
        return owners[is_listed], left[is_listed], right[is_listed], every[is_listed]


def _combined(left: _Side | None, right: _Side | None, periods: Callable[[int, int], int]) -> _Side | None:
    if left is None or right is None:
        assert left is right, "both repeat on a side, or neither does"
        return None
    return max(left[0], right[0]), periods(left[1], right[1])


def _unfolded_to(lists: IntervalLists, side: _Side, last: int) -> IntervalLists:
    first, period = side
    return _unfolded(lists, first, period, (last - first) // period).within(-INFINITY, last)


def _unfolded(lists: IntervalLists, first: int, period: int, copies: int) -> IntervalLists:
    every = lists.numbers
    last = first + period - 1
    unfolded = lists.within(-INFINITY, last)
    one_period = unfolded.within(first, last)
    starts, ends = (one_period.left, one_period.right) if one_period.size else (np.zeros(1, np.int64),) * 2
    positions = np.where(one_period.count == 1, one_period.first, 0)
    is_whole = (one_period.count == 1) & (starts[positions] == first) & (ends[positions] == last)
    without_end = single(np.array([first]), np.array([INFINITY]))
    unfolded = unfolded.united(without_end, every, np.where(is_whole, 0, -1))
    repeated = np.flatnonzero((one_period.count > 0) & ~is_whole)
    if not len(repeated) or copies <= 0:
        return unfolded
    if last + copies * period > LIMIT:
        raise beyond_range()
    owners, left, right = one_period.take(repeated).rows()
    offsets = period * np.arange(1, copies + 1)
    later = single((left[:, None] + offsets).ravel(), (right[:, None] + offsets).ravel())
    keys, later = later.grouped(np.repeat(repeated[owners], copies))
    positions = np.full(len(lists), -1)
    positions[keys] = np.arange(len(keys))
    return unfolded.united(later, every, positions)


def shifted(lists: IntervalLists, by: int) -> IntervalLists:
    """Lists without infinite ends, shifted by a number of units."""
    return IntervalLists(lists.first, lists.count, lists.left + by, lists.right + by)


def mirrored(lists: IntervalLists) -> IntervalLists:
    """The lists with time running backwards."""
    _, left, right = lists.rows()
    behind = np.cumsum(lists.count)
    return IntervalLists(len(left) - behind, lists.count, -right[::-1], -left[::-1])


Repeating = tuple[IntervalLists, Folding]


def differences(before: Repeating, after: Repeating) -> tuple[FoldedRows, FoldedRows]:
    """The points that only the lists before have, and those that only the lists after have, list by list."""
    former, current = before[1], after[1]
    # Two sequences with periods m and n that agree for m + n terms are equal (Fine and Wilf, 1965): only
    # lists that differ by then are unfolded as far as the common period reaches, which may be long.
    sufficient, common = former.combined(current, add), former.combined(current, lcm)
    changed = np.flatnonzero(sum(part.count for part in _apart(before, after, before[0].numbers, sufficient)))
    lost, gained = map(common.rows, _apart(before, after, changed, common))
    return (changed[lost[0]], *lost[1:]), (changed[gained[0]], *gained[1:])


def _apart(
    before: Repeating, after: Repeating, numbers: Integers, reach: Folding
) -> tuple[IntervalLists, IntervalLists]:
    old_lists, new_lists = (
        folding.unfold_to(lists.take(numbers), reach) for lists, folding in (before, after)
    )
    every = old_lists.numbers
    return old_lists.without(new_lists, every, every), new_lists.without(old_lists, every, every)


def sides(periods: Periods) -> Iterator[tuple[str, Repeat]]:
    """The sides on which facts change without end, by name."""
    for name, side in (("left", periods.left), ("right", periods.right)):
        if side is not None and not side.is_constant:
            yield name, side


@dataclass(frozen=True, slots=True)
class TimedOutcome:
    """How a derivation ended: after how many rounds, and whether there may be more to derive."""

    rounds: int
    is_fixpoint: bool
    horizon: Horizon | None = None
    periods: Periods | None = None  # by which facts repeat beyond the horizon

    @property
    def is_complete(self) -> bool:
        """Whether everything has been derived."""
        if self.periods is not None:
            return self.is_fixpoint
        return self.is_fixpoint and (self.horizon is None or not self.horizon.leaves_out)

    @property
    def kind(self) -> str:
        """`complete`, `periodic`, which is complete too, `horizon` or `partial`."""
        if self.periods is not None and str(self.periods):
            return "periodic"
        if self.is_complete:
            return "complete"
        is_exact = self.is_fixpoint and self.horizon is not None and self.horizon.is_exact
        return "horizon" if is_exact else "partial"

    def __str__(self) -> str:
        rounds = counted(self.rounds, "round")
        match self.kind:
            case "complete":
                return f"complete after {rounds}"
            case "periodic":
                return f"complete after {rounds}: {self.periods}"
            case "horizon":
                assert self.horizon is not None
                return f"complete within {self.horizon.interval}, after {rounds}"
        if self.is_fixpoint and self.horizon is not None:
            return (
                f"partial: rules look both ways, so more may hold within {self.horizon.interval} than was "
                f"found in {rounds}"
            )
        return f"partial after {rounds}: more facts may be derived"
