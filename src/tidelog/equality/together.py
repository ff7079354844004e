"""Rules that run together, all in one call of the engine. Mutates itself.

What one transaction asks of equality is little, many times: a call from Python for every rule and round would
cost far more than what the rules find. Plans are kept from one time to the next.

Invariant: a plan is kept as long as the relations that it reads are not much larger than they were when it
was made, and have dead rows just if they had.
"""

from __future__ import annotations

from collections.abc import Collection, Sequence
from typing import Any

import numpy as np

from tidelog.engine.protocol import Runnable
from tidelog.logic.program import Rule
from tidelog.maintenance.maintainer import Check
from tidelog.query.driving import GROWN, LOOKED_OVER, SMALL, drives


class Together:
    """Rules driven by what is new of relations of one's own."""

    def __init__(self, rules: Sequence[Rule], own: Collection[str], engine: Any) -> None:
        self._engine = engine
        self._own = engine.group(own)
        self._drives = [drive for rule in rules for drive in drives(rule, own, engine)]
        self._names = dict.fromkeys(
            atom.predicate for rule in rules for atom in (*rule.positive, *rule.negated)
        )
        self._plans: tuple[Runnable, ...] = ()
        self._generation = -1
        self._asked = 0

    def run(self) -> None:
        """Find what follows from what has come to one's own relations, at one step."""
        self._engine.advance_group(self._own)
        self._engine.run_together(self._ready())

    def close(self, check: Check) -> None:
        """Find all that follows from what has come to one's own relations."""
        if self._engine.close_group(self._own, self._ready()):
            return
        while fresh := self._engine.advance_group(self._own):
            for drive in self._drives:
                if drive.relation in fresh:
                    drive.run(check)

    def _ready(self) -> tuple[Runnable, ...]:
        """The plans, made anew if those that are known may be wrong, or slow."""
        if not self._are_good():
            for drive in self._drives:
                drive.forget_plan()
            self._plans = tuple(drive.made() for drive in self._drives)
            self._generation = self._engine.generation
            self._read = self._engine.group(self._names)
            self._is_lossy = self._engine.are_lossy(self._read)
            self._limits = np.maximum(GROWN * self._engine.sizes(self._read), SMALL)
        return self._plans

    def _are_good(self) -> bool:
        if self._generation != self._engine.generation:
            return False
        if self._engine.are_lossy(self._read) != self._is_lossy:
            return False
        self._asked += 1
        return self._asked % LOOKED_OVER > 0 or bool((self._engine.sizes(self._read) <= self._limits).all())
