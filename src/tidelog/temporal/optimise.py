"""Rules that are done: Procedure 3 of paper 002, lines 7 to 15.

A rule whose non-recursive body atoms hold at no time, or held last at a time up to which everything is
known, derives nothing new. Line 11 looks at the rules that are left, and line 15 compares what holds up to
that time: the projections of both datasets, not the facts that end before it. The mirror image serves rules
that propagate backwards.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tidelog.temporal.analysis import FORWARD, direction, recursive_predicates
from tidelog.temporal.evaluate import Evaluation
from tidelog.temporal.list_kernels import INFINITY
from tidelog.temporal.nodes import Body, Node, ReadyRule, leaves
from tidelog.temporal.store import Store
from tidelog.temporal.table import Part


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """One body of a rule: what is run, and left out, as a whole."""

    ready: ReadyRule
    body: Body


class Pruning:
    """The units that may derive something still. Mutable: they become fewer."""

    def __init__(self, units: Sequence[Unit], evaluation: Evaluation) -> None:
        self.units = list(units)
        self._evaluation = evaluation
        self._recursive = recursive_predicates([unit.ready.rule for unit in units])
        self._heads = {unit.ready.head for unit in units}
        self._limits: dict[Unit, tuple[int, int] | None] | None = None  # once all others are complete

    def prune(self, store: Store) -> Iterator[int]:
        """Leave out what is done after a round; gives the numbers of the rules that nothing is left of."""
        before = {unit.ready.number for unit in self.units}
        if self._limits is None and self._are_others_complete(store):
            kept = [unit for unit in self.units if unit.ready.head in self._recursive]
            self._limits = {unit: self._limit(unit) for unit in kept}
            self.units = [unit for unit in kept if self._limits[unit] is not None]
        if self._limits is not None:
            self._leave_out(store)
        yield from sorted(before - {unit.ready.number for unit in self.units})

    def _are_others_complete(self, store: Store) -> bool:
        """Whether nothing new was found of predicates without recursion."""
        others = self._heads - self._recursive
        return not any(len(store.tables[name].changed) for name in others)

    def _limit(self, unit: Unit) -> tuple[int, int] | None:
        """The last first and the first last time of the non-recursive atoms; None if one holds at no time."""
        first, last = -INFINITY, INFINITY
        for node in unit.body.positive:
            if self._is_settled(node):
                low, high = self._evaluation.node(node, None, None, Part.NOW).lists.bounds
                if low > high:
                    return None
                first, last = max(first, low), min(last, high)
        return first, last

    def _is_settled(self, node: Node) -> bool:
        found = list(leaves(node))
        return bool(found) and all(leaf.predicate not in self._recursive for leaf in found)

    def _leave_out(self, store: Store) -> None:
        """Leave out what can only find again what is known, if all rules that are left look one way."""
        way = direction(unit.ready.rule for unit in self.units)
        if way is None or self._limits is None:
            return
        bounds = [table.change.bounds for table in store.tables.values() if len(table.changed)]
        first = min((low for low, _ in bounds), default=INFINITY)
        last = max((high for _, high in bounds), default=-INFINITY)
        is_dense = not store.timeline.is_integer
        kept: list[Unit] = []
        for unit in self.units:
            limit = self._limits[unit]
            assert limit is not None, "those without one are left out"
            # Both projections end with the time itself, even if the atom does not hold there any more.
            low, high = (limit[0] - (limit[0] & is_dense), limit[1] + (limit[1] & is_dense))
            is_done = high < first if way == FORWARD else low > last
            if not is_done or INFINITY in (high, -low):
                kept.append(unit)
        self.units = kept
