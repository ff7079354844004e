"""What has changed in a relation on Spark since its frame was made, by rows of its table. Mutates itself.

Invariant: the relation is its frame without what went and with what came; no row is in both.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

Rows = npt.NDArray[np.int64]


@dataclass(slots=True)
class Changed:
    """The rows that went, and those that came."""

    went: set[int] = field(default_factory=set)
    came: set[int] = field(default_factory=set)

    def __len__(self) -> int:
        return len(self.went) + len(self.came)

    def note(self, went: Iterable[int], came: Iterable[int]) -> None:
        """Let these rows go and come: what comes back has never gone."""
        for rows, mine, others in ((went, self.went, self.came), (came, self.came, self.went)):
            for row in rows:
                if row in others:
                    others.remove(row)
                else:
                    mine.add(row)


@dataclass(slots=True)
class Overlay:
    """What has changed in the facts of a relation, and in those of them that are explicit."""

    facts: Changed = field(default_factory=Changed)
    stated: Changed = field(default_factory=Changed)

    def __len__(self) -> int:
        return max(len(self.facts), len(self.stated))

    @property
    def rows(self) -> set[int]:
        """All rows of which something has changed."""
        return self.facts.went | self.facts.came | self.stated.went | self.stated.came


def row_numbers(rows: Iterable[int]) -> Rows:
    """The numbers of rows, in order."""
    return np.array(sorted(rows), np.int64)
