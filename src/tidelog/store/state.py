"""What a store holds, as values between its parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidelog.engine.columnar.state import EngineState
from tidelog.logic.program import Program
from tidelog.query.demands import Asked
from tidelog.temporal.state import TimeState


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """A reasoner between two transactions, everything derived.

    Classes of equal constants are the engine's relation of aliases.
    """

    program: Program
    asked: tuple[Asked, ...]  # live and prepared queries
    engine: EngineState
    sequence: int  # of the last record that it includes
    commits: int = 0
    loaded: int = 0  # explicit facts
    derived: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)  # that facts depend on: how equality is treated
    time: TimeState | None = None  # what holds at times, if anything does
