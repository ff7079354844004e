"""What an engine's run gives back."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True)
class Outcome:
    """The number of facts counted, and the CPU seconds of loading and reasoning where known."""

    tuples: int
    load_s: float | None = None
    reason_s: float | None = None
