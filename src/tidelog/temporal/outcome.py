"""What a derivation came to: complete, complete within a horizon, or partial; it always says."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.errors import counted
from tidelog.temporal.horizon import Horizon
from tidelog.temporal.periods import Periods


@dataclass(frozen=True, slots=True)
class Outcome:
    """After so many rounds nothing more followed, or there may be more."""

    rounds: int
    is_fixpoint: bool
    horizon: Horizon | None = None
    periods: Periods | None = None  # by which what was found goes on beyond the horizon

    @property
    def is_complete(self) -> bool:
        """Whether everything that follows is there."""
        if self.periods is not None:
            return self.is_fixpoint
        return self.is_fixpoint and (self.horizon is None or not self.horizon.leaves_out)

    @property
    def kind(self) -> str:
        """`complete`, `periodic`, which is complete too, `horizon` or `partial`."""
        if self.periods is not None and str(self.periods):
            return "periodic"
        if self.is_complete:
            return "complete"
        is_exact = self.is_fixpoint and self.horizon is not None and self.horizon.is_exact
        return "horizon" if is_exact else "partial"

    def __str__(self) -> str:
        rounds = counted(self.rounds, "round")
        match self.kind:
            case "complete":
                return f"complete after {rounds}"
            case "periodic":
                return f"complete after {rounds}: {self.periods}"
            case "horizon":
                assert self.horizon is not None
                return f"complete within {self.horizon.interval}, after {rounds}"
        if self.is_fixpoint and self.horizon is not None:
            return (
                f"partial: rules look both ways, so more may hold within {self.horizon.interval} than was "
                f"found in {rounds}"
            )
        return f"partial after {rounds}: more may follow"
