"""Rules that run together, all in one call of the engine. Mutates itself.

What one transaction asks of equality is little, many times: a call from Python for every rule and round would
cost far more than what the rules find. Plans are kept from one time to the next.

Invariant: plans are kept as long as the relations that they read are not much larger than they were when the
plans were made.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from tidelog.engine.protocol import Runnable
from tidelog.logic.program import Rule
from tidelog.maintenance.maintainer import Check
from tidelog.plan.compile import delta_pivots, delta_plan
from tidelog.query.driving import GROWN, LOOKED_OVER, SMALL, Growing


class Together:
    """Rules driven by what is new of relations of one's own."""

    def __init__(self, rules: Sequence[Rule], own: Collection[str], engine: Any) -> None:
        self._rules = rules
        self._own = own
        self._engine = engine
        self._group = engine.group(own)
        atoms = (atom for rule in rules for atom in (*rule.positive, *rule.negated))
        self._read = tuple(dict.fromkeys(atom.predicate for atom in atoms))
        self._plans: tuple[Runnable, ...] = ()
        self._generation = -1
        self._asked = 0

    def run(self) -> None:
        """Find what follows from what has come to one's own relations, at one step."""
        self._engine.advance_group(self._group)
        self._engine.run_together(self._ready())

    def close(self, check: Check) -> None:
        """Find all that follows from what has come to one's own relations."""
        plans = self._ready()
        if not self._engine.close_group(self._group, plans):
            while self._engine.advance_group(self._group):
                for plan in plans:
                    plan()
                    check()

    def _ready(self) -> tuple[Runnable, ...]:
        """The plans, made anew if those that are known may be wrong, or slow."""
        if not self._are_good():
            self._plans = tuple(self._plan(rule, place) for rule, place in self._driven())
            self._engine.plan_to_keep((*self._read, *(rule.head.predicate for rule in self._rules)))
            self._generation = self._engine.generation
            self._counted = self._engine.group(self._read)
            self._limits = np.maximum(GROWN * self._engine.sizes(self._counted), SMALL)
        return self._plans

    def _are_good(self) -> bool:
        if self._generation != self._engine.generation:
            return False
        self._asked += 1
        return self._asked % LOOKED_OVER > 0 or bool(
            (self._engine.sizes(self._counted) <= self._limits).all()
        )

    def _driven(self) -> list[tuple[Rule, int]]:
        """The rules with the places of the atoms that drive them."""
        return [(rule, place) for rule in self._rules for place in delta_pivots(rule, self._own)]

    def _plan(self, rule: Rule, place: int) -> Runnable:
        """What finds the consequences of what is new of one atom."""
        plan = delta_plan(rule, 0, self._own, place, Growing(self._engine, self._own))
        ready: Runnable = self._engine.prepare_for_all_times(plan)
        return ready
