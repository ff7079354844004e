"""Whether tasks can run all at once is looked at before anything runs; the error names the setting."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

import tidelog as tl
from tidelog.spark.strategies import STRATEGY, TASK_MEMORY, StrategyChoice, choose

DYNAMIC = {"spark.dynamicAllocation.enabled": "true"}
PATHS = "path(?x, ?y) :- edge(?x, ?y) . path(?x, ?z) :- path(?x, ?y), path(?y, ?z) ."
EQUAL = "?x = ?y :- edge(?x, ?y) ."


def session(slots: int, **settings: str) -> Any:
    """What `choose` asks a classic session for."""
    known = {
        "spark.master": "spark://here:7077",
        **{key.replace("__", "."): each for key, each in settings.items()},
    }
    return SimpleNamespace(
        conf=SimpleNamespace(get=lambda key, otherwise: known.get(key, otherwise)),
        sparkContext=SimpleNamespace(defaultParallelism=slots),
    )


def chosen(found: Any, text: str = PATHS, partitions: int | None = None, rows: int = 10) -> StrategyChoice:
    return choose(tl.parse(text), found, (), partitions, {"edge": rows}, {"edge": 2})


@pytest.mark.parametrize(
    ("found", "partitions"),
    [(session(8, **DYNAMIC), 2), (session(8, **DYNAMIC, **{STRATEGY: "exchange"}), None)],
)
def test_dynamic_allocation_is_an_error_that_names_the_setting(found: Any, partitions: int | None) -> None:
    with pytest.raises(tl.ProgramError, match=r"E873(.|\n)*spark\.dynamicAllocation\.enabled=false"):
        chosen(found, partitions=partitions)


def test_more_tasks_than_slots_are_an_error_that_names_the_settings() -> None:
    assert chosen(session(4), partitions=4).tasks == 4
    with pytest.raises(tl.ProgramError, match=r"E873(.|\n)*4 slots(.|\n)*spark\.cores\.max"):
        chosen(session(4), partitions=5)


def test_the_number_of_slots_is_taken_where_none_is_asked_for() -> None:
    assert chosen(session(4, **{STRATEGY: "exchange"})).tasks == 4
    local = session(99, **{STRATEGY: "exchange", "spark.master": "local[3]"})
    assert chosen(local).tasks == 3


@pytest.mark.parametrize(("slots", "settings"), [(2, {}), (8, DYNAMIC)])
def test_what_is_chosen_by_size_runs_otherwise(slots: int, settings: dict[str, str]) -> None:
    found = session(slots, **settings, **{TASK_MEMORY: "20k"})
    assert chosen(found, rows=10).strategy == "task"
    large = chosen(found, rows=100)
    assert large.strategy == "joins"
    assert ("dynamic allocation" if settings else "there are 2 slots") in large.reason
    merged = chosen(found, EQUAL, rows=100)
    assert merged.strategy == "task" and "joins know no equality" in merged.reason


def test_one_task_needs_no_slots() -> None:
    assert chosen(session(1, **DYNAMIC), partitions=1).strategy == "task"
    assert chosen(session(8, **{TASK_MEMORY: "20k"}), rows=100).strategy == "exchange"
