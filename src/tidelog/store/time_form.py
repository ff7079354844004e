"""What holds at times, in a snapshot: sections of numbers, and JSON that says where they stand."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

from tidelog.store.arrays import Array
from tidelog.store.program_form import interval_of, interval_to_json
from tidelog.temporal.lists import Timeline
from tidelog.temporal.reasoning import TimeSettings
from tidelog.temporal.state import TimedTableState, TimeState

Json = Any
Write = Callable[[Array], list[Json]]  # writes an array, and says where it stands
Read = Callable[[list[Json], str], Array]  # reads it, given what it is called
LISTS = ("count", "left", "right")
GIVEN, ALL = "given", "tables"


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
    }


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
