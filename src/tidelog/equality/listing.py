"""Facts over representatives as they are listed for others: with every member of each class, or with the
smallest one only; and what a transaction changed in such a list.

Equality itself is listed as classes, each member with the smallest one: n rows for a class instead of the n²
pairs that are equal. Whoever has these has the classes, and with them all that is stored.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from tidelog.equality.answers import EXPAND
from tidelog.equality.deltas import Listed, expanded_change, together
from tidelog.equality.representatives import Classes, Grouping, Ids, expanded
from tidelog.logic.program import EQUAL, Predicate
from tidelog.logic.values import order_key
from tidelog.maintenance.maintainer import NetChange
from tidelog.maintenance.row_sets import LateRows, Rows, taken
from tidelog.rewrite.over_representatives import stored


@dataclass(frozen=True)
class Listing:
    """The facts of an engine that keeps them over representatives."""

    engine: Any
    classes: Classes
    shown: str  # expand or representative
    _known: dict[bytes, int] = field(default_factory=dict, repr=False)  # the smallest of members

    def rows(self, predicate: str) -> Rows:
        """All facts of a predicate."""
        found = Rows(*self.engine.rows(stored(predicate)))
        return self._listed(predicate, [found], self.classes.grouped) or found

    def changes(self, net: NetChange, predicates: Mapping[str, Predicate]) -> NetChange:
        """What the last transaction changed in these lists; `net` is its net change, to be found late."""
        if not isinstance(net.added, LateRows) or not isinstance(net.removed, LateRows):
            return net  # it changed nothing
        kept = NetChange(net.added.kept, net.removed.kept)
        return expanded_change(self.engine, self.classes, kept, predicates, self._listed_apart)

    def _listed_apart(self, predicate: str) -> Listed | None:
        """How a predicate's facts are listed, if not with every member in every column."""
        is_apart = predicate == EQUAL or self.shown != EXPAND
        return partial(self._listed, predicate) if is_apart else None

    def _listed(self, predicate: str, parts: Iterable[Rows | None], grouped: Grouping) -> Rows | None:
        """Facts of a predicate, given over representatives of classes with these members."""
        rows = together(parts)
        if rows is None:
            return None
        whole = self._whole(predicate, len(rows.columns))
        columns = (
            column if place in whole else self._smallest(column, grouped)
            for place, column in enumerate(rows.columns)
        )
        return expanded(Rows(tuple(columns), rows.count), grouped, whole)

    def _whole(self, predicate: str, arity: int) -> range:
        """The columns that name every member; the others name the smallest one."""
        if predicate == EQUAL:
            return range(1)
        return range(arity if self.shown == EXPAND else 0)

    def _smallest(self, representatives: Ids, grouped: Grouping) -> Ids:
        """The smallest member of each representative's class."""
        decode = self.engine.dictionary.decode
        found, places = np.unique(representatives, return_inverse=True)
        members, sizes = grouped(found)
        ends = np.cumsum(sizes)
        for place in np.flatnonzero(sizes > 1).tolist():
            some = members[ends[place] - sizes[place] : ends[place]]
            key = some.tobytes()
            if key not in self._known:
                self._known[key] = min(some.tolist(), key=lambda one: order_key(decode(one)))
            found[place] = self._known[key]
        return found[places]


def stored_of(listed: Mapping[str, Rows]) -> tuple[Rows, dict[str, Rows]]:
    """The aliases, and the stored relations, of facts that are listed in either way.

    A class is represented by its smallest member, so that stored facts are those of such constants only.
    """
    aliases, classes = aliases_of(listed.get(EQUAL)), Classes()
    if aliases.count:
        classes.assign(*aliases.columns)
    return aliases, {stored(name): _standing(rows, classes) for name, rows in listed.items()}


def aliases_of(equal: Rows | None) -> Rows:
    """The members that do not stand for themselves, with their representatives, as `=` is listed."""
    if equal is None:
        return Rows((), 0)
    member, representative = equal.columns
    return taken(equal, member != representative)


def _standing(rows: Rows, classes: Classes) -> Rows:
    """The rows of which every constant stands for itself."""
    kept = np.ones(rows.count, bool)
    for column in rows.columns:
        kept &= classes.representatives(column) == column
    return taken(rows, kept)
