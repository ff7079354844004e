"""The interface of maintainers: the contract between transactions and maintenance algorithms.

A maintainer is created once for an engine, with a listener for its events and a check that raises when a
limit is reached; `apply` is then called once per transaction, after the first materialisation is complete.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import field, replace
from typing import Protocol

from tidelog.data.rows import Rows, total
from tidelog.engine.events import Listener
from tidelog.engine.protocol import EngineParts
from tidelog.logic.program import Program, Rule
from tidelog.records import dataclass

Check = Callable[[], None]


@dataclass(frozen=True, slots=True)
class Update:
    """The changes that a transaction requests, normalised.

    `removed` are explicit now and are not added again; `added` are not explicit now, but may be derived. No
    relation in either is without rows. A rule that is removed is the very object in the program before, a
    rule that is added the one in the program after.
    """

    removed: Mapping[str, Rows]
    added: Mapping[str, Rows]
    rules_removed: tuple[Rule, ...] = ()
    rules_added: tuple[Rule, ...] = ()
    removals: int = field(init=False, compare=False)  # how many facts are removed, counted once
    additions: int = field(init=False, compare=False)

    def __post_init__(self) -> None:
        object.__setattr__(self, "removals", total(self.removed))
        object.__setattr__(self, "additions", total(self.added))

    def __bool__(self) -> bool:
        return bool(self.removed or self.added or self.rules_removed or self.rules_added)

    def without(self, heads: Collection[str]) -> Update:
        """Return the update without rules that derive these predicates."""
        if not heads:
            return self
        return replace(
            self,
            rules_removed=tuple(rule for rule in self.rules_removed if rule.head.predicate not in heads),
            rules_added=tuple(rule for rule in self.rules_added if rule.head.predicate not in heads),
        )

    def removing(self, rules: tuple[Rule, ...], heads: Collection[str]) -> Update:
        """Return the update that also removes those of the rules that derive these predicates."""
        affected = tuple(rule for rule in rules if rule.head.predicate in heads) if heads else ()
        return replace(self, rules_removed=(*self.rules_removed, *affected)) if affected else self

    @property
    def inverse(self) -> Update:
        """The update that undoes this one."""
        return Update(self.added, self.removed, self.rules_added, self.rules_removed)


NO_UPDATE = Update({}, {})


@dataclass(frozen=True, slots=True)
class NetChange:
    """The changes of a transaction: per relation exactly the set difference of before and after.

    Explicit and derived facts count alike; no relation in either is without rows.
    """

    added: Mapping[str, Rows] = field(default_factory=dict)
    removed: Mapping[str, Rows] = field(default_factory=dict)


NO_CHANGE = NetChange()

Peek = Callable[[], Update | None]


@dataclass(frozen=True, slots=True)
class Outlook:
    """How many updates are known to follow the present one, and whether these are all."""

    known: int = 0
    is_all: bool = False


Waiting = Callable[[], Outlook]


def no_stream() -> None:
    """Return no update: the lookahead without a stream."""


def none_known() -> Outlook:
    """Return that no update is known: the outlook where there is no stream."""
    return Outlook()


@dataclass(slots=True)
class LookAhead:
    """Access to the next update of a stream, so that maintainers can mark what it will change. Mutable.

    `peek` returns the next update if it has arrived already, and never waits. Its facts are distinct, but not
    normalised: they may be explicit or not. It has no rules; an update with rules is not shown.
    """

    marking: str = "none"  # none, auto, literal or linked
    decides: bool = True  # for each update whether links are worth their cost; else all updates record them
    peek: Peek = no_stream
    waiting: Waiting = none_known


class Maintainer(Protocol):
    """An algorithm that brings an engine from one complete materialisation to the next."""

    @property
    def name(self) -> str:
        """The name it is chosen by."""

    @property
    def lookahead(self) -> LookAhead | None:
        """The next update of a stream, None if the maintainer does not use it."""

    def apply(self, update: Update, before: Program, after: Program) -> NetChange:
        """Apply an update; on any exception the engine is as before.

        The programs differ in their rules and predicates only, and are the same object where no rule
        changes. Their facts must not be read: the engine knows which are explicit.
        """


# Takes an engine, a listener, a check, and whether structures may maintain closures.
Factory = Callable[[EngineParts, Listener, Check, bool], Maintainer]
