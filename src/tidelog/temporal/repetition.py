"""Where what holds repeats: the test that stops a derivation without end.

Wałęga, Zawidzki, Wang, Cuenca Grau, AAAI 2023, with windows of twice the reach of the rules.

Let all that follows between two ends be there, and two windows behind all ends of given facts hold the
same, a period apart. Every window of the rules' reach in the unfolding then is, moved by periods, one in
which the rules derive nothing new: the unfolding is a model. And what is derived from the first window is, a
period later, derived from the second: the model is the least one.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from tidelog.temporal.list_kernels import INFINITY
from tidelog.temporal.lists import Integers, Lists
from tidelog.temporal.periods import moved


@dataclass(frozen=True, slots=True, eq=False)
class Found:
    """From a left end on all repeats, by a number of units; nothing changes there if it is constant."""

    first: int
    period: int
    is_constant: bool


@dataclass(frozen=True, slots=True, eq=False)
class Search:
    """A search on the right side: all facts, the last end of the data, the windows, the smallest period.

    `since` is the left end from which on it may be said that all repeats.
    """

    parts: Sequence[Lists]
    behind: int
    since: int
    window: int
    unit: int

    def find(self, last: int) -> Found | None:
        """What repeats, if the last window ends here."""
        is_constant = not any(True for part in self.parts for _ in self._ends(part, last - self.window, last))
        for period in [self.unit] if is_constant else self._candidates(last):
            if last - self.window - period > self.behind and self._is_repeated(last, period):
                return Found(self._first(last, period), period, is_constant)
        return None

    def _ends(self, part: Lists, low: int, high: int) -> Iterator[Integers]:
        """The intervals that begin or end within a window."""
        owners, left, right = part.within(low, high).rows()
        inside = (left > low) | (right < high)
        if bool(inside.any()):
            yield owners[inside]

    def _candidates(self, last: int) -> Iterable[int]:
        """The distances at which a fact that changes in the last window has changed alike before."""
        rarest: Integers | None = None
        for part in self.parts:
            owners, left, right = part.within(self.behind, last).rows()
            for ends, high in ((left, last), (right, last - 1)):  # what ends with the window may go on
                is_seen = (ends > self.behind) & (ends <= high)
                counts = np.bincount(owners[is_seen], minlength=1)
                chosen = np.unique(owners[is_seen & (ends > last - self.window)])
                if len(chosen):
                    owner = chosen[np.argmin(counts[chosen])]
                    if rarest is None or counts[owner] < len(rarest):
                        rarest = ends[is_seen & (owners == owner)]
        if rarest is None:
            return []
        return [int(period) for period in rarest[-1] - rarest[-2::-1] if period % self.unit == 0]

    def _is_repeated(self, last: int, period: int) -> bool:
        """Whether the last window and the one a period before hold the same."""
        low = last - self.window
        return all(
            _is_same(part.within(low, last), moved(part.within(low - period, last - period), period))
            for part in self.parts
        )

    def _first(self, last: int, period: int) -> int:
        """The left end from which on everything repeats."""
        high = self.since - 1
        for part in self.parts:
            now = part.within(self.since, last - period)
            then = moved(part.within(self.since + period, last), -period)
            every = part.numbers
            for odd in (now.without(then, every, every), then.without(now, every, every)):
                if odd.size:
                    high = max(high, odd.bounds[1])
        return high + 1


def _is_same(first: Lists, second: Lists) -> bool:
    return all(np.array_equal(one, other) for one, other in zip(first.rows(), second.rows(), strict=True))


def finite_ends(parts: Iterable[Lists]) -> tuple[int, int] | None:
    """The least and the greatest finite end; None if there is none."""
    found: list[Integers] = []
    for part in parts:
        _, left, right = part.rows()
        found += [left[left > -INFINITY], right[right < INFINITY]]
    ends = np.concatenate(found) if found else np.zeros(0, np.int64)
    return (int(ends.min()), int(ends.max())) if len(ends) else None
