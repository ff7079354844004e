"""Codes of the faults of tasks that exchange facts."""

from __future__ import annotations

from typing import Final

LOST: Final = "E690"
FAILED: Final = "E691"
COLLISION: Final = "E692"
NOT_DIVISIBLE: Final = "E693"
DIFFERENT: Final = "E694"

MEANINGS: Final = {
    LOST: "a task is gone, is not heard any more, or was never there",
    FAILED: "a task failed for a reason that is not the program's or the data's",
    COLLISION: "two values have the same hash; the run begins again with another seed",
    NOT_DIVISIBLE: "a program that cannot be divided among tasks",
    DIFFERENT: "tasks that run different programs, or versions of tidelog",
}
