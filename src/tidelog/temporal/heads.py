"""Heads: from groups of variables to facts by number, and what a round derives of each predicate."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np

from tidelog.temporal.lists import Integers, Lists, nothing
from tidelog.temporal.nodes import ReadyRule
from tidelog.temporal.rows import Groups, Table
from tidelog.temporal.store import Store


def head_rows(ready: ReadyRule, groups: Groups) -> Table:
    """The facts that groups lead to, as rows of ids."""
    count = len(groups)
    columns = [
        np.full(count, term, np.int32) if isinstance(term, int) else groups.column(term)
        for term in ready.terms
    ]
    return np.array(columns, np.int32).reshape(len(columns), count)


def head_facts(ready: ReadyRule, groups: Groups, store: Store) -> tuple[Integers, Lists]:
    """The facts that groups lead to, by number, perhaps repeated, and when they hold."""
    if not len(groups):  # evaluation has ended before all variables were bound
        return np.zeros(0, np.int64), nothing()
    lists = groups.lists
    for by in ready.moves:
        lists = lists.moved(by)
    return store.tables[ready.head].number(head_rows(ready, groups), len(groups)), lists


class Derived:
    """What was derived, predicate by predicate. Mutable: it grows."""

    def __init__(self) -> None:
        self._parts: dict[str, list[tuple[Integers, Lists]]] = {}

    def add(self, name: str, numbers: Integers, lists: Lists) -> None:
        """Add facts of a predicate, with when they hold."""
        if len(numbers):
            self._parts.setdefault(name, []).append((numbers, lists))

    def __bool__(self) -> bool:
        return bool(self._parts)

    def take(self, name: str) -> tuple[Integers, Lists]:
        """What `of` gives, which is no longer here afterwards."""
        found = self.of(name)
        self._parts.pop(name, None)
        return found

    def of(self, name: str) -> tuple[Integers, Lists]:
        """The distinct facts of a predicate, in order, and when they hold."""
        parts = self._parts.get(name, [])
        if not parts:
            return np.zeros(0, np.int64), nothing()
        if len(parts) == 1:
            numbers, lists = parts[0]
            return lists.grouped(numbers)
        numbers = np.concatenate([numbers for numbers, _ in parts])
        return together([lists for _, lists in parts]).grouped(numbers)

    @property
    def names(self) -> tuple[str, ...]:
        """The predicates of which something was derived."""
        return tuple(self._parts)


def together(parts: Sequence[Lists]) -> Lists:
    """The lists of all parts, numbered on."""
    compact = [lists.rows() for lists in parts]
    count = np.concatenate([lists.count for lists in parts])
    left = np.concatenate([left for _, left, _ in compact])
    right = np.concatenate([right for _, _, right in compact])
    return Lists(np.cumsum(count) - count, count, left, right)
