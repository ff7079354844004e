"""Horizons: the part of the timeline to which a derivation is limited. Mutable: it notes what it cut off."""

from __future__ import annotations

from tidelog.logic.intervals import Interval
from tidelog.temporal.analysis import BACKWARD, FORWARD
from tidelog.temporal.list_kernels import INFINITY
from tidelog.temporal.lists import Lists, Timeline


class Horizon:
    """What is derived beyond the interval is cut off; on the side that truth comes from, nothing is.

    With rules that propagate forward, what lies before the horizon leads to what lies in it, and what lies
    behind it does not: so only that is cut off, and what is found in the horizon is all there is.

    Where time has advanced, everything before the horizon is `final`: it stays as it was.
    """

    def __init__(
        self, interval: Interval, direction: str | None, timeline: Timeline, *, is_final: bool = False
    ) -> None:
        self.interval = interval
        self.direction = direction
        left, right = timeline.ends(interval)
        self.left = -INFINITY if direction == FORWARD and not is_final else left
        self.right = INFINITY if direction == BACKWARD else right
        self.is_final = is_final
        self.final = left if is_final else -INFINITY  # where that begins which may change
        self.is_cut = False

    @property
    def leaves_out(self) -> bool:
        """Whether something that follows was cut off, or may be forgotten."""
        return self.is_cut or self.is_final

    @property
    def is_exact(self) -> bool:
        """Whether nothing in the horizon depends on what is cut off."""
        return self.direction is not None

    def clip(self, lists: Lists) -> Lists:
        """The lists without what lies beyond."""
        if not len(lists):
            return lists
        low, high = lists.bounds
        if low >= self.left and high <= self.right:
            return lists
        self.is_cut |= high > self.right or (low < self.left and not self.is_final)
        return lists.within(self.left, self.right)
