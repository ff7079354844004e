"""Rules that are done, or have nothing to do in a round: Procedure 3 of paper 002, lines 7 to 15, and more.

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
from tidelog.temporal.lists import Lists
from tidelog.temporal.nodes import Body, Leaf, Moved, Node, ReadyRule, leaves
from tidelog.temporal.store import Store
from tidelog.temporal.table import Part


@dataclass(frozen=True, slots=True, eq=False)
class Unit:
    """One body of a rule: what is run, and left out, as a whole."""

    ready: ReadyRule
    body: Body


class Pruning:
    """The units that may derive something still. Mutable: they become fewer.

    Looking is cheap: a body that was matched has no atom that holds at no time, and times are looked up only
    once all rules that are left look one way.
    """

    def __init__(self, units: Sequence[Unit], evaluation: Evaluation) -> None:
        self.units = list(units)
        self._evaluation = evaluation
        self._recursive = recursive_predicates([unit.ready.rule for unit in units])
        self._others = {unit.ready.head for unit in units} - self._recursive
        self._are_others_complete = False
        self._read = {unit: {leaf.predicate for leaf in unit.body.homes} for unit in units}
        self._matched: set[Unit] = set()
        self._limits: dict[Unit, tuple[int, int] | None] = {}
        self._way: str | None = None  # in which all rules that are left look, once others are complete

    def driven(self, store: Store) -> list[Unit]:
        """The units that read something which was new in the last round: others find nothing in this one."""
        new = {name for name, table in store.tables.items() if len(table.changed)}
        return [unit for unit in self.units if not new.isdisjoint(self._read[unit])]

    def note(self, unit: Unit) -> None:
        """That a body was matched: each of its atoms holds at some time."""
        self._matched.add(unit)

    def prune(self, store: Store) -> Iterator[int]:
        """Leave out what is done after a round; gives the numbers of the rules that nothing is left of."""
        before = self.units
        if not self._are_others_complete and not any(len(store.tables[one].changed) for one in self._others):
            self._are_others_complete = True
            self._keep([unit for unit in self.units if self._may_match(unit)])
        if self._way is not None:
            self._leave_out(store)
        if self.units is not before:
            numbers = {unit.ready.number for unit in before} - {unit.ready.number for unit in self.units}
            yield from sorted(numbers)

    def _keep(self, units: list[Unit]) -> None:
        if len(units) < len(self.units) or self._way is None:
            self.units = units
            self._way = direction(unit.ready.rule for unit in units)

    def _may_match(self, unit: Unit) -> bool:
        if unit.ready.head not in self._recursive:
            return False
        return unit in self._matched or self._limit(unit) is not None

    def _limit(self, unit: Unit) -> tuple[int, int] | None:
        """The last first and the first last time of the non-recursive atoms; None if one holds at no time."""
        if unit not in self._limits:
            self._limits[unit] = self._find_limit(unit)
        return self._limits[unit]

    def _find_limit(self, unit: Unit) -> tuple[int, int] | None:
        first, last = -INFINITY, INFINITY
        for node in unit.body.positive:
            if self._is_settled(node):
                low, high = self._lists(node).bounds
                if low > high:
                    return None
                first, last = max(first, low), min(last, high)
        return first, last

    def _is_settled(self, node: Node) -> bool:
        found = list(leaves(node))
        return bool(found) and all(leaf.predicate not in self._recursive for leaf in found)

    def _lists(self, node: Node) -> Lists:
        """When a metric atom holds, whatever its variables are."""
        match node:
            case Leaf() if node.is_plain:
                return self._evaluation.reading.table(node).lists
            case Moved(by=by, operand=operand):
                return self._lists(operand).moved(by)
            case _:
                return self._evaluation.node(node, None, None, Part.NOW).lists

    def _leave_out(self, store: Store) -> None:
        """Leave out what can only find again what is known, all rules that are left looking one way."""
        bounds = [table.change.bounds for table in store.tables.values() if len(table.changed)]
        first = min((low for low, _ in bounds), default=INFINITY)
        last = max((high for _, high in bounds), default=-INFINITY)
        is_dense = not store.timeline.is_integer
        kept: list[Unit] = []
        for unit in self.units:
            limit = self._limit(unit)
            assert limit is not None, "those without one are left out"
            # Both projections end with the time itself, even if the atom does not hold there any more.
            low, high = (limit[0] - (limit[0] & is_dense), limit[1] + (limit[1] & is_dense))
            is_done = high < first if self._way == FORWARD else low > last
            if not is_done or INFINITY in (high, -low):
                kept.append(unit)
        self._keep(kept)
