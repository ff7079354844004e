"""What holds at times, in a snapshot: sections of numbers, and JSON that says where they stand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from fractions import Fraction
from typing import Any

from tidelog.logic.intervals import Interval
from tidelog.store.arrays import SECTION, Array
from tidelog.store.program_form import INTERVAL, interval_of, interval_to_json
from tidelog.store.shapes import fields, many, named, natural, one_of, optional, row, text, truth
from tidelog.temporal.advancing import Past
from tidelog.temporal.lists import Timeline
from tidelog.temporal.materialise import PROCEDURES
from tidelog.temporal.periods import Periods, Repeat
from tidelog.temporal.reasoning import TimeSettings
from tidelog.temporal.state import TimedTableState, TimeState

Json = Any
Write = Callable[[Array], list[Json]]  # writes an array, and says where it stands
Read = Callable[[list[Json], str], Array]  # reads it, given what it is called
LISTS = ("count", "left", "right")
GIVEN, ALL = "given", "tables"
REPEAT = row(INTERVAL, text, truth)
PAST = {
    "window": optional(INTERVAL),
    "time": optional(text),
    "calendar": truth,
    "kept": named(optional(text)),
    "weight": natural,
}
TABLES = many(fields({"name": text, "columns": many(SECTION), **dict.fromkeys(LISTS, SECTION)}))
TIME = fields(
    {
        "settings": row(one_of(*PROCEDURES), optional(natural), optional(INTERVAL)),
        "timeline": row(natural, truth, truth),
        GIVEN: TABLES,
        ALL: TABLES,
        "outcome": optional(row(natural, truth, truth)),
        "dropped": many(row(natural, natural)),
        "cut": truth,
        "past": fields(PAST),
        "periodic": optional(row(optional(INTERVAL), optional(row(optional(REPEAT), optional(REPEAT))))),
    }
)


def time_to_json(state: TimeState, write: Write) -> dict[str, Json]:
    """All of a state; its numbers are written."""
    settings, timeline = state.settings, state.timeline
    horizon = None if settings.horizon is None else interval_to_json(settings.horizon)
    return {
        "settings": [settings.procedure, settings.rounds, horizon],
        "timeline": [timeline.scale, timeline.is_integer, timeline.is_calendar],
        GIVEN: [_table_to_json(table, write) for table in state.given],
        ALL: [_table_to_json(table, write) for table in state.tables],
        "outcome": None if state.outcome is None else list(state.outcome),
        "dropped": [list(pair) for pair in state.dropped.items()],
        "cut": state.is_cut,
        "past": _past_to_json(state.past),
        "periodic": None if state.periodic is None else _periodic_to_json(*state.periodic),
    }


def _past_to_json(past: Past) -> dict[str, Json]:
    """What is final, and how much of it is kept."""
    return {
        "window": _optional(past.window, interval_to_json),
        "time": _optional(past.time, str),
        "calendar": past.is_calendar,
        "kept": {name: _optional(back, str) for name, back in past.kept.items()},
        "weight": past.weight,
    }


def _past_of(form: Mapping[str, Json]) -> Past:
    kept = {name: _optional(back, Fraction) for name, back in form["kept"].items()}
    window, time = _optional(form["window"], interval_of), _optional(form["time"], Fraction)
    return Past(window, time, form["calendar"], kept, form["weight"])


def _periodic_to_json(horizon: Interval | None, periods: Periods | None) -> list[Json]:
    """The horizon of what has no end, and how both sides repeat."""
    sides = (
        None
        if periods is None
        else [_optional(side, _repeat_to_json) for side in (periods.left, periods.right)]
    )
    return [_optional(horizon, interval_to_json), sides]


def _periodic_of(form: list[Json]) -> tuple[Interval | None, Periods | None]:
    horizon, sides = form
    periods = None if sides is None else Periods(*(_optional(side, _repeat_of) for side in sides))
    return _optional(horizon, interval_of), periods


def _repeat_to_json(repeat: Repeat) -> list[Json]:
    return [interval_to_json(repeat.at), str(repeat.period), repeat.is_constant]


def _repeat_of(form: list[Json]) -> Repeat:
    at, period, is_constant = form
    return Repeat(interval_of(at), Fraction(period), is_constant)


def _optional(value: Any, convert: Callable[[Any], Any]) -> Any:
    """None as it is, anything else converted."""
    return None if value is None else convert(value)


def _table_to_json(table: TimedTableState, write: Write) -> dict[str, Json]:
    lists = {name: write(getattr(table, name)) for name in LISTS}
    return {"name": table.name, "columns": [write(column) for column in table.columns], **lists}


def time_of(form: Mapping[str, Json], read: Read) -> TimeState:
    """The state of a form."""
    procedure, rounds, horizon = form["settings"]
    outcome = form["outcome"]
    return TimeState(
        TimeSettings(procedure, rounds, None if horizon is None else interval_of(horizon)),
        Timeline(*form["timeline"]),
        tuple(_table_of(table, GIVEN, read) for table in form[GIVEN]),
        tuple(_table_of(table, ALL, read) for table in form[ALL]),
        None if outcome is None else tuple(outcome),
        dict(form["dropped"]),
        form["cut"],
        _past_of(form["past"]),
        None if form["periodic"] is None else _periodic_of(form["periodic"]),
    )


def _table_of(form: Mapping[str, Json], which: str, read: Read) -> TimedTableState:
    called = _called(form, which)
    sections = {name: read(section, f"{name} of `{called}`") for name, section in _sections(form)}
    lists = [sections.pop(name) for name in LISTS]
    return TimedTableState(form["name"], tuple(sections.values()), *lists)


def _sections(form: Mapping[str, Json]) -> Iterator[tuple[str, list[Json]]]:
    """The sections of a table, and what they are called."""
    for place, section in enumerate(form["columns"], 1):
        yield f"column {place}", section
    for name in LISTS:
        yield name, form[name]


def _called(form: Mapping[str, Json], which: str) -> str:
    return f"{form['name']} at times" + (", as given" if which == GIVEN else "")


def time_sections(form: Mapping[str, Json] | None) -> Iterator[tuple[str, str, list[Json], bool]]:
    """The relation, the name and the place of each section, and whether it can be derived anew."""
    if form is not None:
        for which in (GIVEN, ALL):
            for table in form[which]:
                for name, section in _sections(table):
                    yield _called(table, which), name, section, which == ALL


def given_only(form: Mapping[str, Json], is_right: Callable[[list[Json]], bool]) -> dict[str, Json]:
    """A form without what can be derived anew, and without tables of which a section is not right."""
    whole = [table for table in form[GIVEN] if all(is_right(section) for _, section in _sections(table))]
    return {**form, GIVEN: whole, ALL: [], "outcome": None, "dropped": []}
