"""The written forms of XSD numbers and dates, both ways, as plain Python numbers.

A reader gives None for text that is not of its form; it never guesses. Dates follow the Gregorian calendar
in both directions without end, as XSD 1.1 does: the year 0000 is the year before 0001.
"""

from __future__ import annotations

import math
import re
from typing import NamedTuple

INTEGER = re.compile(r"[+-]?[0-9]+", re.ASCII)
DECIMAL = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)", re.ASCII)
DOUBLE = re.compile(r"[+-]?(?:[0-9]+(?:\.[0-9]*)?|\.[0-9]+)(?:[eE][+-]?[0-9]+)?", re.ASCII)
_DATE = r"(-?(?:[1-9][0-9]{4,}|[0-9]{4}))-([0-9]{2})-([0-9]{2})"
_TIME = r"([0-9]{2}):([0-9]{2}):([0-9]{2})(?:\.([0-9]+))?"
_ZONE = r"(Z|[+-][0-9]{2}:[0-9]{2})?"
_DATE_FORM = re.compile(_DATE, re.ASCII)
_DATE_TIME_FORM = re.compile(f"{_DATE}T{_TIME}{_ZONE}", re.ASCII)

_DAYS_BEFORE_MONTH = (0, 31, 59, 90, 120, 151, 181, 212, 243, 273, 304, 334, 365)
_SMALLEST, _LARGEST = -(2**63), 2**63 - 1
_SECOND = 1_000_000
_DAY = 86_400 * _SECOND
_EPOCH = 719_162  # days from 0001-01-01 to 1970-01-01
_FOUR_CENTURIES = 146_097  # days in 400 years


class Moment(NamedTuple):
    """A dateTime: microseconds since 1970 in UTC, and minutes east of UTC if a timezone is known."""

    microseconds: int
    offset: int | None


class Clock(NamedTuple):
    """The fields of a dateTime as a calendar and a clock in its own timezone show them."""

    year: int
    month: int
    day: int
    hour: int
    minute: int
    microsecond: int  # of the minute, so that it holds the seconds too


# ---- doubles


def read_double(text: str) -> float | None:
    """The double nearest to the number in the text, never NaN; only `INF` and `-INF` are infinite."""
    if DOUBLE.fullmatch(text):
        number = float(text)
        return None if math.isinf(number) else number
    return {"INF": math.inf, "+INF": math.inf, "-INF": -math.inf}.get(text)


def write_double(number: float) -> str:
    """The shortest text with an exponent that reads back as the same double.

    >>> write_double(1500.0), write_double(-0.1), write_double(float("inf"))
    ('1.5E3', '-1.0E-1', 'INF')
    """
    if math.isinf(number):
        return "INF" if number > 0 else "-INF"
    sign, digits, exponent = _shortest(number)
    return f"{sign}{digits[0]}.{digits[1:] or '0'}E{exponent}"


def write_double_plainly(number: float) -> str:
    """The shortest text that reads back as the same double, without an exponent where that is short.

    >>> write_double_plainly(1500.0), write_double_plainly(-0.1), write_double_plainly(1e300)
    ('1500', '-0.1', '1E300')
    """
    if math.isinf(number):
        return "INF" if number > 0 else "-INF"
    sign, digits, exponent = _shortest(number)
    if not -7 <= exponent < 21:
        return f"{sign}{digits[0]}{'.' if digits[1:] else ''}{digits[1:]}E{exponent}"
    if exponent < 0:
        return f"{sign}0.{'0' * (-exponent - 1)}{digits}"
    whole, fraction = digits[: exponent + 1].ljust(exponent + 1, "0"), digits[exponent + 1 :]
    return f"{sign}{whole}{'.' if fraction else ''}{fraction}"


def _shortest(number: float) -> tuple[str, str, int]:
    """Sign, digits d1 d2 … and exponent e with number = ±d1.d2… × 10**e, in the fewest digits."""
    mantissa, _, power = repr(abs(number)).partition("e")
    whole, _, fraction = mantissa.partition(".")
    digits = (whole + fraction).lstrip("0")
    if not digits:
        return "", "0", 0
    leading_zeros = len(whole + fraction) - len(digits)
    exponent = len(whole) - 1 - leading_zeros + int(power or 0)
    return "-" if number < 0 else "", digits.rstrip("0"), exponent


# ---- dates


def read_date(text: str) -> int | None:
    """The days from 1970-01-01 to the date that the text writes without a timezone."""
    match = _DATE_FORM.fullmatch(text)
    return _checked_days(match) if match else None


def write_date(days: int) -> str:
    """The date that lies this many days after 1970-01-01.

    >>> write_date(0), write_date(-719_529)
    ('1970-01-01', '-0001-12-31')
    """
    year, month, day = civil(days)
    return f"{'-' if year < 0 else ''}{abs(year):04}-{month:02}-{day:02}"


def read_date_time(text: str) -> Moment | None:
    """The moment that the text writes; None if it lies beyond 64 bits of microseconds or is finer."""
    match = _DATE_TIME_FORM.fullmatch(text)
    if match is None:
        return None
    days = _checked_days(match)
    clock = _checked_clock(*match.group(4, 5, 6, 7))
    offset = _offset(match[8])
    if days is None or clock is None or offset is INVALID:
        return None
    microseconds = days * _DAY + clock - (offset or 0) * 60 * _SECOND
    return Moment(microseconds, offset) if _SMALLEST <= microseconds <= _LARGEST else None


def write_date_time(moment: Moment) -> str:
    """The moment in its own timezone, seconds with as many decimals as they need.

    >>> write_date_time(Moment(500_000, 60))
    '1970-01-01T01:00:00.5+01:00'
    """
    clock = show_clock(moment)
    seconds, fraction = divmod(clock.microsecond, _SECOND)
    decimals = f".{fraction:06}".rstrip("0") if fraction else ""
    date = write_date(_days(clock.year, clock.month, clock.day))
    return f"{date}T{clock.hour:02}:{clock.minute:02}:{seconds:02}{decimals}{write_offset(moment.offset)}"


def write_offset(offset: int | None) -> str:
    """The timezone suffix of a dateTime: `Z`, `+05:30`, or the empty text."""
    if not offset:
        return "" if offset is None else "Z"
    hours, minutes = divmod(abs(offset), 60)
    return f"{'-' if offset < 0 else '+'}{hours:02}:{minutes:02}"


def show_clock(moment: Moment) -> Clock:
    """The calendar date and clock time of a moment, in its own timezone."""
    days, rest = divmod(moment.microseconds + (moment.offset or 0) * 60 * _SECOND, _DAY)
    hour, rest = divmod(rest, 3_600 * _SECOND)
    minute, microsecond = divmod(rest, 60 * _SECOND)
    return Clock(*civil(days), hour, minute, microsecond)


def civil(days: int) -> tuple[int, int, int]:
    """Year, month and day that lie this many days after 1970-01-01."""
    cycle, rest = divmod(days + _EPOCH, _FOUR_CENTURIES)
    century = min(rest // 36_524, 3)  # the last century of a cycle is one day longer
    rest -= century * 36_524
    four_years, rest = divmod(rest, 1_461)
    year_of_four = min(rest // 365, 3)
    rest -= year_of_four * 365
    year = cycle * 400 + century * 100 + four_years * 4 + year_of_four + 1
    month = max(month for month in range(1, 13) if _days_before(year, month) <= rest)
    return year, month, rest - _days_before(year, month) + 1


def _days(year: int, month: int, day: int) -> int:
    """The days from 1970-01-01 to a date that exists."""
    before = year - 1
    leaps = before // 4 - before // 100 + before // 400
    return before * 365 + leaps + _days_before(year, month) + day - 1 - _EPOCH


def _days_before(year: int, month: int) -> int:
    return _DAYS_BEFORE_MONTH[month - 1] + (month > 2 and _is_leap(year))


def _is_leap(year: int) -> bool:
    return year % 4 == 0 and (year % 100 != 0 or year % 400 == 0)


def _checked_days(match: re.Match[str]) -> int | None:
    if len(match[1]) > 16:  # such years are beyond 64 bits, and Python's int() has a limit of digits
        return None
    year, month, day = int(match[1]), int(match[2]), int(match[3])
    if not 1 <= month <= 12 or day < 1 or match[1] == "-0000":
        return None
    length = _DAYS_BEFORE_MONTH[month] - _DAYS_BEFORE_MONTH[month - 1] + (month == 2 and _is_leap(year))
    return _days(year, month, day) if day <= length else None


def _checked_clock(hour: str, minute: str, second: str, fraction: str | None) -> int | None:
    """The microseconds since midnight; `24:00:00` is the next midnight."""
    decimals = (fraction or "").rstrip("0")
    if len(decimals) > 6:
        return None
    hours, minutes, seconds = int(hour), int(minute), int(second)
    microseconds = ((hours * 60 + minutes) * 60 + seconds) * _SECOND + int(decimals.ljust(6, "0"))
    is_time = hours < 24 and minutes < 60 and seconds < 60
    return microseconds if is_time or (hours == 24 and microseconds == _DAY) else None


INVALID = -10_000  # minutes that no timezone has


def _offset(zone: str | None) -> int | None:
    """The minutes east of UTC, None without a timezone, `INVALID` if there is no such timezone."""
    if zone is None:
        return None
    if zone == "Z":
        return 0
    hours, minutes = int(zone[1:3]), int(zone[4:6])
    if minutes > 59 or hours * 60 + minutes > 14 * 60:
        return INVALID
    return (hours * 60 + minutes) * (-1 if zone[0] == "-" else 1)
