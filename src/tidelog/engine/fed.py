"""A fixpoint that is fed from outside: rows arrive, and what they lead to is derived. Mutable.

All relations count as one recursive stratum, so that rows which arrive are NEW rows of the next round,
whichever rules derive them. A rule that negates or aggregates reads a gate, a relation without columns: its
fact arrives when all else that the rule reads is complete.

Invariant: after `close`, everything is derived that follows from the rows that have arrived.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidelog.engine.events import Event
from tidelog.engine.fixpoint import DeltaStep, Step, first_step, materialise, run_plan
from tidelog.engine.occurrence import Occurrences
from tidelog.engine.protocol import Engine
from tidelog.logic.program import Rule
from tidelog.logic.strata import strata
from tidelog.plan.compile import delta_pivots


class Fed:
    """The rules of a program over an engine whose relations are defined, and hold what is given."""

    def __init__(
        self, rules: Sequence[Rule], relations: Sequence[str], engine: Engine, check: Callable[[], None]
    ) -> None:
        self._engine = engine
        self._check = check
        self._relations = tuple(relations)
        self._rules = [(rule, number) for number, rule in enumerate(rules) if not rule.aggregations]
        self._aggregates = [(rule, number) for number, rule in enumerate(rules) if rule.aggregations]
        self._occurrences = Occurrences(engine)
        known = frozenset(relations)
        self._steps: dict[str, list[DeltaStep]] = {}  # by the relation whose new rows drive them
        for rule, number in self._rules:
            for place in delta_pivots(rule, known):
                step = DeltaStep(rule, number, known, place, engine)
                self._steps.setdefault(step.pivot.predicate, []).append(step)
        self._seen = dict.fromkeys(self._relations, 0)  # the rows of each relation that rules have read

    def begin(self) -> None:
        """Derive all that follows from what is given, stratum by stratum, as if nothing were to arrive.

        Rules that read a gate match nothing yet.
        """
        numbered = [*self._rules, *self._aggregates]
        numbers = {id(rule): number for rule, number in numbered}
        layers = strata([rule for rule, _ in numbered])
        self._engine.begin(self._relations)
        materialise(layers, numbers, self._engine, _overhear, self._check)
        self._engine.begin(self._relations)
        self._seen = self._sizes()

    def close(self) -> None:
        """Derive all that follows from the rows that were added to relations since the last time."""
        while True:
            sizes = self._sizes()
            grown = [name for name, size in sizes.items() if size > self._seen[name]]
            if not grown:
                return
            self._engine.advance(self._relations)
            self._occurrences.advance()
            self._seen = sizes
            for rule, number in self._aggregates:
                if any(atom.predicate in grown for atom in rule.positive if not atom.terms):
                    self._run(first_step(rule, number, self._engine))
            for step in (step for name in grown for step in self._steps.get(name, ())):
                if step.has_work(self._occurrences):
                    self._run(step.ready(sizes))

    def _run(self, step: Step) -> None:
        rule, _, runnable = step
        run_plan(rule, runnable)
        self._check()

    def _sizes(self) -> dict[str, int]:
        return {name: self._engine.size(name) for name in self._relations}


def _overhear(_: Event) -> None:
    """Tell nobody what is derived."""
