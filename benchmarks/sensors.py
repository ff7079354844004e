"""Sensors in rooms, as facts over time.

Readings, resets and visits are given with intervals; rooms and doors hold always. Recursion passes locks on
from room to room, and ends with the horizon.
"""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pyarrow as pa

PROGRAM = Path(__file__).parent / "programs" / "sensors.rls"
SPAN = 1000  # in which all facts begin
HORIZON = f"[0, {2 * SPAN}]"
PER_SENSOR = 20  # readings
SEED = 7


def tables(facts: int) -> dict[str, pa.Table]:
    """About so many facts with times, and the rooms and doors that they are about."""
    random = np.random.default_rng(SEED)
    sensors = max(2, facts // PER_SENSOR)
    rooms = max(2, sensors // 4)
    readings, events = facts * 8 // 10, facts // 10

    def named(letter: str, numbers: object) -> list[str]:
        return [f"{letter}{number}" for number in np.asarray(numbers).tolist()]

    def at(count: int, longest: int) -> dict[str, object]:
        start = random.integers(0, SPAN, count)
        return {"start": start, "end": start + random.integers(0, longest, count)}

    return {
        "reading": pa.table(
            {
                "s": named("s", random.integers(0, sensors, readings)),
                "v": random.integers(0, 40, readings),
                **at(readings, 20),
            }
        ),
        "reset": pa.table({"s": named("s", random.integers(0, sensors, events)), **at(events, 2)}),
        "visited": pa.table({"r": named("r", random.integers(0, rooms, events)), **at(events, 5)}),
        "room": pa.table({"s": named("s", range(sensors)), "r": named("r", np.arange(sensors) // 4)}),
        "door": pa.table(
            {"r": named("r", range(rooms)), "q": named("r", (np.arange(rooms) * 7 + 1) % rooms)}
        ),
    }


def program() -> str:
    """The rules."""
    return PROGRAM.read_text(encoding="utf-8")
