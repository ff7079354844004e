"""The axis of a chart: the window of time that is shown, and ticks at points that people like to read."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from fractions import Fraction
from itertools import count, pairwise

from tidelog.logic.intervals import write_point
from tidelog.logic.lexical_forms import civil, read_date, write_date

_DAY = 86_400
_MINUTES = (1, 2, 5, 10, 15, 30)
_CLOCK_STEPS = (
    *_MINUTES,
    *(60 * step for step in _MINUTES),
    *(3_600 * step for step in (1, 2, 3, 6, 12)),
)
_DAY_STEPS = (1, 2, 7, 14)
_MONDAY = 4  # days after 1970-01-01: weeks begin there
_MONTH_STEPS = (1, 3, 6)
_GAP = 2  # characters between two labels
_DATE = len("2024-05-01")
_FINEST = -7  # powers of ten of a second that clocks show


@dataclass(frozen=True, slots=True)
class Tick:
    """A point with its label; `date` is the day that begins there, or that the axis begins with."""

    point: Fraction
    text: str
    date: str = ""


@dataclass(frozen=True, slots=True)
class Axis:
    """A window of time, how its points are written, and whether they are the integers only."""

    start: Fraction
    end: Fraction
    is_calendar: bool = False
    is_integer: bool = False

    @property
    def length(self) -> Fraction:
        """How long the window is; never 0."""
        return self.end - self.start

    def place(self, point: Fraction) -> float:
        """Where a point lies: 0 at the start of the window, 1 at its end."""
        return float((point - self.start) / self.length)

    def ticks(self, characters: int) -> list[Tick]:
        """The ticks of an axis that has room for so many characters: as many as can be read.

        >>> [tick.text for tick in Axis(Fraction(0), Fraction(30)).ticks(60)]
        ['0', '2', '4', '6', '8', '10', '12', '14', '16', '18', '20', '22', '24', '26', '28', '30']
        >>> [tick.text for tick in Axis(Fraction(0), Fraction(1, 3)).ticks(30)]
        ['0', '0.1', '0.2', '0.3']
        """
        steps = self._calendar_steps() if self.is_calendar else self._number_steps(characters)
        for ticks in steps:
            if _has_room(ticks, self, characters):
                return _with_apart_dates(ticks, self, characters)
        raise AssertionError("steps grow without end, so that one of them has room")

    # ---- numbers

    def _number_steps(self, characters: int) -> Iterator[list[Tick]]:
        """The ticks at multiples of 1, 2, 5, 10…, finer ones first."""
        for step in _decimal_steps(self.length / max(characters, 1)):
            if not self.is_integer or step.denominator == 1:
                yield [Tick(point, write_point(point)) for point in self._multiples(step)]

    def _multiples(self, step: Fraction, origin: int = 0) -> Iterator[Fraction]:
        """The points of the window that lie whole steps away from the origin."""
        first = -((origin - self.start) // step)
        for number in count(first):
            point = origin + number * step
            if point > self.end:
                return
            yield point

    # ---- dateTimes

    def _calendar_steps(self) -> Iterator[list[Tick]]:
        """The ticks at round clocks, days, months and years, finer ones first."""
        rough = self.length / 200  # nobody draws more ticks than that
        for step in _clock_steps():
            if step >= rough:
                yield self._clocks(step)
        for days in _DAY_STEPS:
            if days * _DAY >= rough:
                points = self._multiples(Fraction(days * _DAY), _MONDAY * _DAY)
                yield [Tick(point, write_date(int(point) // _DAY)) for point in points]
        for months in _month_steps():
            if months * 30 * _DAY >= rough:
                yield self._months(months)

    def _clocks(self, step: Fraction) -> list[Tick]:
        """The ticks within days: the clock, and the date where it is another one."""
        ticks: list[Tick] = []
        date = ""
        for point in self._multiples(step):
            today = write_date(int(point // _DAY))
            ticks.append(Tick(point, _clock(point % _DAY, step), today if today != date else ""))
            date = today
        return ticks

    def _months(self, step: int) -> list[Tick]:
        """The ticks at the first days of every so many months; of years, if these are whole ones."""
        first, last = (_month(point) for point in (self.start, self.end))
        ticks = []
        for month in range(first - first % step, last + 1, step):
            year = month // 12
            written = f"{'-' if year < 0 else ''}{abs(year):04}-{month % 12 + 1:02}"
            days = read_date(f"{written}-01")
            if days is not None and self.start <= days * _DAY <= self.end:
                ticks.append(Tick(Fraction(days * _DAY), written[:-3] if step % 12 == 0 else written))
        return ticks


def _decimal_steps(least: Fraction) -> Iterator[Fraction]:
    """1, 2 and 5 times the powers of ten, from about the least one that is wanted on."""
    power = len(str(int(least))) - 1 if least >= 1 else -len(str(int(1 / least)))
    for exponent in count(power):
        for digit in (1, 2, 5):
            yield digit * Fraction(10) ** exponent


def _clock_steps() -> Iterator[Fraction]:
    for exponent in range(_FINEST, 0):
        for digit in (1, 2, 5):
            yield digit * Fraction(10) ** exponent
    yield from map(Fraction, _CLOCK_STEPS)


def _month_steps() -> Iterator[int]:
    yield from _MONTH_STEPS
    for step in _decimal_steps(Fraction(1)):
        yield 12 * int(step)


def _month(point: Fraction) -> int:
    """The number of the month that a point lies in, from the year 0 on."""
    year, month, _ = civil(int(point // _DAY))
    return 12 * year + month - 1


def _clock(seconds: Fraction, step: Fraction) -> str:
    """Hours and minutes, and seconds if steps are shorter than minutes.

    >>> _clock(Fraction(3_661), Fraction(60)), _clock(Fraction(1, 2), Fraction(1, 10))
    ('01:01', '00:00:00.5')
    """
    minutes, rest = divmod(seconds, 60)
    text = f"{int(minutes) // 60:02}:{int(minutes) % 60:02}"
    if step >= 60:
        return text
    whole, part = divmod(rest, 1)
    decimals = write_point(Fraction(part))[1:] if part else ""
    return f"{text}:{int(whole):02}{decimals}"


# ---- room


def _has_room(ticks: Sequence[Tick], axis: Axis, characters: int) -> bool:
    """Whether no label reaches into the next one."""
    places = [axis.place(tick.point) * characters for tick in ticks]
    return all(
        (len(before.text) + len(after.text)) / 2 + _GAP <= right - left
        for (left, before), (right, after) in pairwise(zip(places, ticks, strict=True))
    )


def _with_apart_dates(ticks: Sequence[Tick], axis: Axis, characters: int) -> list[Tick]:
    """The ticks without dates that would reach into the date behind them."""
    kept: list[Tick] = []
    following = float("inf")
    for tick in reversed(ticks):
        place = axis.place(tick.point) * characters
        if tick.date and following - place < _DATE + _GAP:
            tick = replace(tick, date="")
        if tick.date:
            following = place
        kept.append(tick)
    return kept[::-1]
