"""Parts of dates and dateTimes, as a calendar and a clock in their own timezone show them; and casts."""

from __future__ import annotations

from collections.abc import Callable

from tidelog.logic import lexical_forms, values
from tidelog.logic.functions.function import Result, function
from tidelog.logic.functions.kinds import read_as
from tidelog.logic.functions.numbers import of_scaled
from tidelog.logic.lexical_forms import Clock, Moment
from tidelog.logic.values import XSD, Kind, Value

_MICROSECONDS_OF_DAY = 86_400_000_000
_DURATION = XSD + "dayTimeDuration"


def _moment(value: Value) -> Moment | None:
    """The moment that a dateTime is; None of all else."""
    if value.kind is not Kind.DATETIME:
        return None
    assert not isinstance(value.extra, str)
    return Moment(int(value.content), value.extra)


def _clock(value: Value) -> Clock | None:
    """What calendar and clock show at a dateTime, or at midnight of a date; None of all else."""
    if value.kind is Kind.DATE:
        return Clock(*lexical_forms.civil(int(value.content)), 0, 0, 0)
    moment = _moment(value)
    return None if moment is None else lexical_forms.show_clock(moment)


def _define_part(name: str, summary: str, part: Callable[[Clock], int], *, of_dates: bool) -> None:
    def implementation(value: Value) -> Result:
        clock = _clock(value) if of_dates or value.kind is Kind.DATETIME else None
        return None if clock is None else values.integer(part(clock))

    function(
        f"{name}({'date' if of_dates else 'dateTime'})",
        summary,
        f"{'day' if of_dates else 'dateTime'} -> int",
    )(implementation)


_define_part("YEAR", "The year of a date or dateTime.", lambda clock: clock.year, of_dates=True)
_define_part("MONTH", "The month, 1 to 12.", lambda clock: clock.month, of_dates=True)
_define_part("DAY", "The day of the month.", lambda clock: clock.day, of_dates=True)
_define_part("HOURS", "The hour of a dateTime, 0 to 23.", lambda clock: clock.hour, of_dates=False)
_define_part("MINUTES", "The minute, 0 to 59.", lambda clock: clock.minute, of_dates=False)


@function(
    "SECONDS(dateTime)", "The seconds of the minute with their fraction, a decimal.", "dateTime -> decimal"
)
def seconds(value: Value) -> Result:
    """The seconds of the minute, a decimal as in SPARQL."""
    clock = _clock(value) if value.kind is Kind.DATETIME else None
    return None if clock is None else of_scaled(clock.microsecond, 6)


@function(
    "TZ(dateTime)", 'The timezone as it is written: "Z", "+02:00", "" without one.', "dateTime -> string"
)
def timezone_text(value: Value) -> Result:
    """The timezone as it is written."""
    moment = _moment(value)
    return None if moment is None else values.string(lexical_forms.write_offset(moment.offset))


@function(
    "TIMEZONE(dateTime)",
    "The timezone as an xsd:dayTimeDuration; no value without one.",
    "dateTime -> literal",
)
def timezone(value: Value) -> Result:
    """The timezone as a duration, hours and minutes."""
    moment = _moment(value)
    if moment is None or moment.offset is None:
        return None
    hours, minutes = divmod(abs(moment.offset), 60)
    parts = f"{f'{hours}H' if hours else ''}{f'{minutes}M' if minutes else ''}" or "0S"
    return values.literal(f"{'-' if moment.offset < 0 else ''}PT{parts}", _DURATION)


@function(
    "DATE(value)", "The date of a dateTime in its own timezone, or what text writes.", "day | string -> date"
)
def to_date(value: Value) -> Result:
    """The date."""
    if value.kind is Kind.DATE:
        return value
    moment = _moment(value)
    if moment is not None:
        local = moment.microseconds + (moment.offset or 0) * 60_000_000
        return values.date(local // _MICROSECONDS_OF_DAY)
    return read_as(value, "date")


@function(
    "DATETIME(value)",
    "The first moment of a date, without a timezone, or what text writes.",
    "day | string -> dateTime",
)
def to_date_time(value: Value) -> Result:
    """The dateTime; no value for a date beyond 64 bits of microseconds."""
    if value.kind is Kind.DATETIME:
        return value
    if value.kind is Kind.DATE:
        midnight = values.integer(int(value.content) * _MICROSECONDS_OF_DAY)
        return values.date_time(int(midnight.content), None) if midnight.kind is Kind.INTEGER else None
    return read_as(value, "dateTime")
