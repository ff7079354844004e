"""Rows of ids that come and go, between a reasoner and its published tables."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

import numpy as np

from tidelog.maintenance.row_sets import Rows, joined, without


@dataclass(frozen=True, slots=True)
class Changed:
    """The rows of a table that are deleted, and those that are inserted."""

    removed: Rows
    added: Rows

    @property
    def count(self) -> int:
        """Return how many rows changed."""
        return self.removed.count + self.added.count

    def then(self, later: Changed) -> Changed:
        """Return both changes, one after the other."""
        if not self.count:
            return later
        if not later.count:
            return self
        return Changed(
            joined([without(self.removed, later.added), without(later.removed, self.added)]),
            joined([without(self.added, later.removed), without(later.added, self.removed)]),
        )

    @property
    def inverse(self) -> Changed:
        """The change that undoes this one."""
        return Changed(self.added, self.removed)

    @staticmethod
    def between(before: Rows, after: Rows) -> Changed:
        """Return what differs between two sets of rows."""
        return Changed(without(before, after), without(after, before))


Changes = Mapping[str, Changed]  # by predicate


def nothing(arity: int) -> Rows:
    """Return no rows, of so many columns."""
    return Rows(tuple(np.zeros(0, np.int32) for _ in range(arity)), 0)
