"""What a store holds, as values between its parts."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any

from tidelog.engine.columnar.state import EngineState
from tidelog.logic.program import Program
from tidelog.query.demands import Asked


@dataclass(frozen=True, slots=True, eq=False)
class State:
    """A reasoner between two transactions, everything derived.

    `beside` is the place for what later versions hold besides: classes of equality, intervals. A version that
    does not know a key of it refuses the store.
    """

    program: Program
    asked: tuple[Asked, ...]  # live and prepared queries
    engine: EngineState
    sequence: int  # of the last record that it includes
    commits: int = 0
    loaded: int = 0  # explicit facts
    derived: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)  # that facts depend on: how equality is treated
    beside: Mapping[str, Any] = field(default_factory=dict)
