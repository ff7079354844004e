"""Settings of a reasoner, as far as they make sense where it runs in a task of Spark or follows a store.

What is wrong with them is raised by the call, on the driver: in a worker it would be a failed task.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Any, Final

from tidelog.errors import suggest
from tidelog.io.rejects import OnError
from tidelog.reasoner.reasoner import Reasoner
from tidelog.temporal.reasoning import TimeSettings

DERIVING: Final = frozenset(
    {"equality", "unique_names", "equal", "modules", "timeout", "max_facts", "time", "table_memory"}
)
MAINTAINING: Final = frozenset(
    {
        "equality",
        "unique_names",
        "equal",
        "modules",
        "timeout",
        "max_facts",
        "table_memory",
        "maintainer",
        "threads",
        "durability",
        "max_memory",
    }
)
SHOWN: Final = ("expand", "representative")
# Settings of reasoners and stores that make no sense on Spark, and what to do instead.
REFUSED: Final = {
    "engine": "the embedded engine runs in the tasks; `tidelog.strategy` of the session says how",
    "processes": "`partitions` says how many tasks derive",
    "threads": "a task has one thread; `partitions` says how many tasks derive",
    "maintainer": "what is derived does not change; `maintain` follows changes",
    "marking": "no update is known before it comes",
    "durability": "nothing is stored; `maintain` has a store",
    "time": "facts that hold at times are not maintained by frames",
    "listeners": "events happen in another process; `derived.observation` counts facts",
    "on_error": "a row that cannot be read is an error here",
    "rejects": 'rejected rows are a frame: `on_error="collect"`',
    "allow_read": "a program reads no files there: its sandbox is always closed",
    "allow_write": "a program writes no files there: its sandbox is always closed",
    "read_only": "`maintained.reasoner` reads",
    "later": "the store is made by the first change",
}


def check_settings(settings: Mapping[str, Any], allowed: Collection[str] = DERIVING) -> None:
    """Raise what is wrong with settings: names as `TypeError`, values as they are where a reasoner is made.

    >>> check_settings({"rejects": "rejects.csv"})
    Traceback (most recent call last):
    TypeError: `rejects` makes no sense on Spark: rejected rows are a frame: `on_error="collect"`
    """
    for name in settings:
        if name in allowed:
            continue
        if name in REFUSED:
            raise TypeError(f"`{name}` makes no sense on Spark: {REFUSED[name]}")
        near = suggest(name, sorted(allowed)) or f"there are {', '.join(sorted(allowed))}"
        raise TypeError(f"there is no setting `{name}`: {near}")
    if settings.get("equal", SHOWN[0]) not in SHOWN:
        raise ValueError(f"`equal` is {' or '.join(map(repr, SHOWN))}, not {settings['equal']!r}")
    time = settings.get("time")
    if time is not None and not isinstance(time, TimeSettings):
        raise TypeError(f"`time` is a TimeSettings, not {type(time).__name__}")
    Reasoner(**{name: value for name, value in settings.items() if name not in ("durability", "max_memory")})


def on_error_of(said: str) -> OnError:
    """Return what becomes of rows that cannot be read."""
    try:
        return OnError(said)
    except ValueError:
        known = ", ".join(f"`{each.value}`" for each in OnError)
        raise ValueError(f"on_error is one of {known}, not {said!r}") from None
