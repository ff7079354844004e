"""Time: intervals with exact rational bounds, as facts and operators have them.

Time points are rational numbers; a dateTime is its seconds since 1970 in UTC, a duration its seconds.
"""

from __future__ import annotations

import re
from datetime import datetime
from decimal import Decimal
from fractions import Fraction

from tidelog.errors import Diagnostic, EvaluationError, codes
from tidelog.logic import lexical_forms
from tidelog.logic.values import Kind, Value
from tidelog.records import dataclass

SECONDS = {
    "ms": Fraction(1, 1000),
    "s": Fraction(1),
    "m": Fraction(60),
    "h": Fraction(3600),
    "d": Fraction(86400),
    "w": Fraction(604800),
}
_MICROSECONDS = 1_000_000
_INTERVAL = re.compile(r"\s*([\[(])\s*([^,\s]+)\s*,\s*([^,\s]+)\s*([\])])\s*")
_FRACTION = re.compile(r"[+-]?[0-9]+(?:/[0-9]+|(?:\.[0-9]+)?(?:[eE][+-]?[0-9]+)?)", re.ASCII)
_DURATION = re.compile(r"(-?[0-9]+(?:\.[0-9]+)?)(ms|s|m|h|d|w)", re.ASCII)
_LONGEST_EXPONENT = 400  # of a number as a bound: more is no time


@dataclass(frozen=True, slots=True)
class Interval:
    """A set of time points without gaps; a bound is None where there is no end. Never empty.

    >>> print(Interval(Fraction(0), Fraction(10), end_open=True))
    [0, 10)
    >>> print(Interval(None, Fraction(1, 3)))
    (-inf, 1/3]
    """

    start: Fraction | None
    end: Fraction | None
    start_open: bool = False
    end_open: bool = False
    is_calendar: bool = False  # its bounds are dateTimes

    def __post_init__(self) -> None:
        if self.start is None or self.end is None:
            # Infinite ends are open, however they are written: equal intervals are to be equal.
            object.__setattr__(self, "start_open", self.start is None or self.start_open)
            object.__setattr__(self, "end_open", self.end is None or self.end_open)
        elif self.start > self.end or (self.start == self.end and (self.start_open or self.end_open)):
            raise ValueError(f"the interval {self} is empty")

    def __str__(self) -> str:
        left = "(" if self.start_open else "["
        right = ")" if self.end_open else "]"
        return f"{left}{self.write(self.start, '-inf')}, {self.write(self.end, 'inf')}{right}"

    def write(self, bound: Fraction | None, infinite: str) -> str:
        """One of the bounds as text."""
        return infinite if bound is None else write_point(bound, self.is_calendar)

    @property
    def has_integer(self) -> bool:
        """Whether an integer lies in it."""
        if self.start is None or self.end is None:
            return True
        first = -(-self.start // 1)
        first += self.start_open and first == self.start
        last = self.end // 1
        return first <= last - (self.end_open and last == self.end)

    def meets(self, other: Interval) -> bool:
        """Whether the intervals overlap.

        >>> Interval(Fraction(0), Fraction(1)).meets(Interval(Fraction(1), None, start_open=True))
        False
        """
        return _begins_by(self, other) and _begins_by(other, self)

    def __contains__(self, point: object) -> bool:
        if not isinstance(point, Fraction | int):
            return False
        is_after = self.start is None or self.start < point or (self.start == point and not self.start_open)
        return is_after and (
            self.end is None or point < self.end or (point == self.end and not self.end_open)
        )


def _begins_by(first: Interval, second: Interval) -> bool:
    """Whether the first interval begins before the second has ended."""
    if first.start is None or second.end is None:
        return True
    return first.start < second.end or (
        first.start == second.end and not (first.start_open or second.end_open)
    )


ALWAYS = Interval(None, None)


def write_point(point: Fraction, is_calendar: bool = False) -> str:
    """A time point: a dateTime in UTC, a decimal number if it has one, else a fraction.

    >>> [write_point(Fraction(1, 4)), write_point(Fraction(-1, 3)), write_point(Fraction(0), True)]
    ['0.25', '-1/3', '1970-01-01T00:00:00Z']
    """
    if is_calendar and _MICROSECONDS % point.denominator == 0:
        return lexical_forms.write_date_time(lexical_forms.Moment(int(point * _MICROSECONDS), 0))
    if point.denominator == 1:
        return str(point.numerator)
    digits = _decimals(point.denominator)
    if digits is None:
        return f"{point.numerator}/{point.denominator}"
    scaled = str(abs(point.numerator) * 10**digits // point.denominator).rjust(digits + 1, "0")
    return f"{'-' if point < 0 else ''}{scaled[:-digits]}.{scaled[-digits:]}"


def _decimals(denominator: int) -> int | None:
    """How many decimals a fraction with this denominator has; None if they do not end."""
    twos = fives = 0
    while denominator % 2 == 0:
        denominator, twos = denominator // 2, twos + 1
    while denominator % 5 == 0:
        denominator, fives = denominator // 5, fives + 1
    return max(twos, fives) if denominator == 1 else None


LONGEST = 1000  # characters of a time point: Python reads integers of some thousand digits only


def read_point(text: str) -> tuple[Fraction | None, bool]:
    """The time point that a text writes, None for an infinite one, and whether it is a dateTime.

    >>> read_point("1/3"), read_point("5m"), read_point("-inf"), read_point("1970-01-02T00:00:00Z")
    ((Fraction(1, 3), False), (Fraction(300, 1), False), (None, False), (Fraction(86400, 1), True))
    """
    if len(text) > LONGEST:
        raise ValueError(f"a time of more than {LONGEST} characters")
    if text.lower() in ("inf", "+inf", "-inf"):
        return None, False
    if _FRACTION.fullmatch(text) and not text.endswith("/0"):
        number = Fraction(text) if "e" not in text.lower() else _scientific(text)
        if number is not None:
            return number, False
    duration = _DURATION.fullmatch(text)
    if duration:
        return Fraction(Decimal(duration[1])) * SECONDS[duration[2]], False
    moment = lexical_forms.read_date_time(text)
    if moment is None:
        days = lexical_forms.read_date(text)
        moment = None if days is None else lexical_forms.Moment(days * 86400 * _MICROSECONDS, None)
    if moment is None:
        raise ValueError(f"{text!r} is not a time: a number, a fraction, a duration, a dateTime or inf")
    return Fraction(moment.microseconds, _MICROSECONDS), True


def _scientific(text: str) -> Fraction | None:
    number = Decimal(text)
    return Fraction(number) if abs(number.adjusted()) < _LONGEST_EXPONENT else None


def read_interval(text: str) -> Interval:
    """Parse an interval; raise ValueError with the reason.

    >>> read_interval("[0, 1.5)")
    Interval(start=Fraction(0, 1), end=Fraction(3, 2), start_open=False, end_open=True, is_calendar=False)
    """
    match = _INTERVAL.fullmatch(text)
    if match is None:
        raise ValueError(f"{text!r} is not an interval such as [0, 10)")
    (start, is_moment), (end, is_other) = read_point(match[2]), read_point(match[3])
    if start is None and match[2][0] != "-":
        raise ValueError(f"{text!r} begins at infinity")
    if end is None and match[3][0] == "-":
        raise ValueError(f"{text!r} ends before all time")
    return Interval(start, end, match[1] == "(", match[4] == ")", is_moment or is_other)


Point = int | float | Fraction | Decimal | str | datetime


def point_at(time: Point) -> Interval:
    """The interval of one time point, given as a number, a text or a dateTime, by default in UTC.

    >>> print(point_at("1970-01-01T00:01:00Z"), point_at(0.5))
    [1970-01-01T00:01:00Z, 1970-01-01T00:01:00Z] [0.5, 0.5]
    """
    text = time.isoformat() if isinstance(time, datetime) else str(time)
    point, is_moment = read_point(text)
    if point is None:
        raise ValueError(f"{text!r} is not a time point")
    return Interval(point, point, is_calendar=is_moment)


def point_of(value: Value) -> tuple[Fraction, bool] | None:
    """The time point that a value is, and whether it is a dateTime; None if it is none."""
    match value.kind:
        case Kind.INTEGER:
            return Fraction(int(value.content)), False
        case Kind.DECIMAL:
            return Fraction(int(value.content), 10 ** int(value.extra or 0)), False
        case Kind.DOUBLE:
            return Fraction(repr(float(value.content))), False
        case Kind.BIG:
            return Fraction(str(value.content)), False
        case Kind.DATETIME:
            return Fraction(int(value.content), _MICROSECONDS), True
        case Kind.DATE:
            return Fraction(int(value.content) * 86400), True
        case Kind.STRING:
            try:
                point, is_moment = read_point(str(value.content))
            except ValueError:
                return None
            return None if point is None else (point, is_moment)
    return None


def beyond_range() -> EvaluationError:
    """That a time cannot be written as integers are."""
    return EvaluationError(
        Diagnostic(
            codes.TIME_OUT_OF_RANGE,
            "a time left the range of 64 bits, in units of the finest time that occurs",
            help="limit the derivation with --rounds or --horizon, or use coarser times",
        )
    )
