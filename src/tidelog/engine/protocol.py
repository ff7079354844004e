"""What an engine is: the contract between algorithms and the places where facts live.

Algorithms are written once, over sets of facts, and import this module only, never a concrete engine.
"""

from __future__ import annotations

from collections.abc import Callable, Collection
from dataclasses import dataclass
from typing import Any, Protocol

from tidelog.logic.values import Value
from tidelog.plan.algebra import Part, RulePlan
from tidelog.plan.join_order import Statistics
from tidelog.rewrite.closures import ClosureModule


@dataclass(frozen=True, slots=True)
class Outcome:
    """What one run of a plan did: instances matched, facts new, instances dropped for want of a value."""

    matches: int
    new: int
    no_value: int = 0


NOTHING = Outcome(0, 0)
Runnable = Callable[[], Outcome]


class Engine(Statistics, Protocol):
    """A place where facts live and plans run.

    Rounds: what `run` adds becomes visible to scans when `advance` is called: as NEW until the next
    `advance`, then as OLD.
    """

    def define(self, relation: str, arity: int) -> None:
        """Make an empty relation, unless it is there."""

    def load(self, relation: str, batch: Any) -> int:
        """Add a batch of explicit facts; returns how many were new."""

    def begin(self, relations: Collection[str]) -> None:
        """Let all facts of the relations be visible, none of them as NEW."""

    def occurs(self, relation: str, column: int, value: Value, part: Part) -> bool:
        """Whether a value may occur in a column of the visible facts, or of those that are NEW."""

    def prepare(self, plan: RulePlan) -> Runnable:
        """The plan ready to run, any number of times, until relations change a lot in size."""

    def advance(self, relations: Collection[str]) -> int:
        """End a round: returns how many facts are now NEW."""

    def drop(self, relation: str) -> None:
        """Forget a relation."""


class Closing(Engine, Protocol):
    """An engine that has structures for closures."""

    def close(self, module: ClosureModule, given: str) -> int | None:
        """Close a predicate, its external facts being its own and those of the relation `given`.

        Returns how many facts are new; None, with nothing done, if rules serve better.
        """
