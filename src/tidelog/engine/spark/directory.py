"""The driver's ids of terms by Spark's, in two sorted lists: few new ones do not move all. Mutates itself.

Invariant: every id of Spark's is in one of the lists, once; the recent list is the shorter one.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

Identities = npt.NDArray[np.int64]
Ids = npt.NDArray[np.int32]

LEAST = 1 << 14  # terms that the recent list may have in any case
SHARE = 8  # … or this part of the other one


class _Sorted:
    """Ids of Spark's in ascending order, and the driver's."""

    __slots__ = ("narrow", "wide")

    def __init__(self) -> None:
        self.wide: Identities = np.zeros(0, np.int64)
        self.narrow: Ids = np.zeros(0, np.int32)

    def merge(self, wide: Identities, narrow: Ids) -> None:
        """Take ids in, which are in ascending order and none of them there."""
        places = np.searchsorted(self.wide, wide)
        self.wide = np.insert(self.wide, places, wide)
        self.narrow = np.insert(self.narrow, places, narrow)

    def find(self, wide: Identities, found: Ids) -> None:
        """Write down the driver's ids of those that are there."""
        if not len(self.wide):
            return
        places = np.minimum(np.searchsorted(self.wide, wide), len(self.wide) - 1)
        is_there = self.wide[places] == wide
        found[is_there] = self.narrow[places[is_there]]


class Directory:
    """Which of the driver's ids is which of Spark's."""

    def __init__(self) -> None:
        self._all = _Sorted()
        self._recent = _Sorted()

    def add(self, wide: Identities, narrow: Ids) -> None:
        """Take ids in; those that are there already are passed over."""
        wide, first = np.unique(wide, return_index=True)
        is_new = self.find(wide) < 0
        self._recent.merge(wide[is_new], narrow[first][is_new])
        if len(self._recent.wide) > max(LEAST, len(self._all.wide) // SHARE):
            self._all.merge(self._recent.wide, self._recent.narrow)
            self._recent = _Sorted()

    def find(self, wide: Identities) -> Ids:
        """The driver's ids, −1 where Spark's is not known."""
        found = np.full(len(wide), -1, np.int32)
        self._all.find(wide, found)
        self._recent.find(wide, found)
        return found
