"""Plans that are prepared once and run many times, until relations have changed too much. Mutable.

Invariant: a cached plan is used as long as the relations that it reads have about the size for which its
order of joins was chosen. A plan made for empty relations would join everything with everything later on.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Hashable, Iterable, Mapping
from typing import Generic, TypeVar

from tidelog.records import dataclass

Key = TypeVar("Key", bound=Hashable)
Plan = TypeVar("Plan")


@dataclass(frozen=True, slots=True)
class Freshness:
    """How much relations may change in size before their plans are made again."""

    grown: int = 4  # they may grow by this factor,
    small: int = 1000  # and up to this size in any case,
    from_empty: bool = True  # those that had no rows too
    shrinks: bool = False  # whether they may not shrink by more than the factor either
    every: int = 1  # sizes are compared once in this many uses

    def limit(self, size: int) -> int:
        """The size up to which a plan fits that was made for this size."""
        return max(self.grown * size, self.small if size or self.from_empty else 0)

    def is_stale(self, planned: int, size: int) -> bool:
        """Whether a plan that was made for one size does not fit another."""
        return size > self.limit(planned) or (self.shrinks and planned > self.limit(size))


class PlannedSizes:
    """The sizes of relations for which plans were made; `size` returns the present one. Mutable."""

    def __init__(self, freshness: Freshness) -> None:
        self._freshness = freshness
        self._sizes: dict[str, int] = {}
        self._uses = 0
        self.are_known = False

    @property
    def relations(self) -> Collection[str]:
        """The relations that the plans read."""
        return self._sizes.keys()

    def note(self, relations: Iterable[str], size: Callable[[str], int]) -> None:
        """Record that plans were made for the relations as they are now."""
        self._sizes = {name: size(name) for name in relations}
        self.are_known = True

    @property
    def limits(self) -> Mapping[str, int]:
        """The size of each relation up to which the plans fit."""
        return {name: self._freshness.limit(size) for name, size in self._sizes.items()}

    def stale(self, size: Callable[[str], int]) -> list[str]:
        """Return the relations whose sizes no longer fit the plans."""
        is_stale = self._freshness.is_stale
        return [
            name
            for name, planned in self._sizes.items()
            if (size_now := size(name)) != planned and is_stale(planned, size_now)
        ]

    def is_due(self) -> bool:
        """Count a use; return whether sizes are to be compared this time."""
        self._uses += 1
        return self._uses % self._freshness.every == 0


class PlanCache(Generic[Key, Plan]):
    """Plans by key, each made again when it does not fit the sizes of its relations."""

    def __init__(self, freshness: Freshness) -> None:
        self._freshness = freshness
        self._plans: dict[Key, tuple[PlannedSizes, Plan]] = {}

    def __contains__(self, key: Key) -> bool:
        return key in self._plans

    def get(
        self, key: Key, relations: Iterable[str], size: Callable[[str], int], make: Callable[[], Plan]
    ) -> Plan:
        """Return the plan of a key, which reads the relations; make it now unless there is one that fits."""
        cached = self._plans.get(key)
        if cached is None or cached[0].stale(size):
            sizes = PlannedSizes(self._freshness)
            sizes.note(relations, size)
            cached = self._plans[key] = sizes, make()
        return cached[1]

    def keep(self, is_kept: Callable[[Key], bool]) -> None:
        """Drop the plans of all other keys."""
        self._plans = {key: cached for key, cached in self._plans.items() if is_kept(key)}
