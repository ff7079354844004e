"""What a strategy is: the contract between those who ask and the ways to answer.

A strategy is one file with a class that has a `name`, by which it is chosen, and

- `answer(query, place)`, which gives the rows of the query's head, and leaves the engine's relations as they
  were, unless it is its way to derive everything;
- `explain(query, place)`, which says in one line what it would do, and derives nothing.

A reasoner makes one strategy of each kind, so that it may keep what it has found out between queries; then
it must notice by itself when `Place.program`, or what is in the engine, has changed. It is registered by
one line in `registry.py`. It reads the program, its explicit facts and their sizes through `Place`, and
works over sets of facts: whatever relations it needs for itself have a space in their names, and are
dropped in the end, also if it is stopped, unless they are kept for queries to come. `magic.py` is the one to
read first.

Invariant: whatever strategy answers, the answers are those that the whole program gives.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import dataclass, field
from typing import Any, Protocol, cast

import numpy as np

from tidelog.data.rows import Ids
from tidelog.engine.events import Listener
from tidelog.errors import Diagnostic, Inconsistent
from tidelog.logic.program import BOTTOM, Program, Query, Rule
from tidelog.logic.strata import Stratum
from tidelog.plan.join_order import Statistics

Answers = tuple[tuple[Ids, ...], int]  # columns of ids, and how many rows
Guarded = Callable[[Callable[[], Any]], Any]  # does something within limits


TABLE_MEMORY = 1 << 30  # bytes of tables that are kept between queries


class QueryEngine(Statistics, Protocol):
    """What strategies need of an engine."""

    def define(self, relation: str, arity: int) -> None:
        """Make an empty relation, unless it is there."""

    def drop(self, relation: str) -> None:
        """Forget a relation."""

    def load(self, relation: str, batch: Any) -> int:
        """Add a batch of explicit facts; returns how many were new."""

    def begin(self, relations: Collection[str]) -> None:
        """Make all facts of the relations visible."""

    def rows(self, relation: str) -> Answers:
        """All facts of a relation."""

    def relations(self) -> Collection[str]:
        """The relations that are there."""

    def derive(
        self,
        strata: Sequence[Stratum],
        numbers: dict[int, int],
        listen: Listener,
        check: Callable[[], None],
        modules: bool,
    ) -> None:
        """Derive all that follows by the strata."""

    def answer(self, rule: Rule) -> Answers:
        """The heads of a rule's instances."""


@dataclass(frozen=True, slots=True)
class Place:
    """Where a query is asked: a program, an engine that holds its explicit facts, and what is derived so far.

    While `is_materialised` is false, a derived predicate's relation holds its explicit facts only.
    """

    program: Program
    engine: QueryEngine
    is_materialised: bool
    materialise: Callable[[], None]  # derives everything; raises Inconsistent
    listen: Listener
    check: Callable[[], None]  # raises when a limit is reached
    modules: bool = True  # whether structures may close predicates
    is_checked: bool = True  # whether an inconsistency must be noticed: nobody knows of it yet
    is_tabled: bool = False  # whether there are tables
    table_memory: int = TABLE_MEMORY
    # How answers are looked up in what is derived, where that is kept in another form than the program's.
    look_up: Callable[[Query], Answers] | None = None
    notes: dict[Any, Any] = field(default_factory=dict)  # what was found out here, to be used again

    @property
    def stated(self) -> frozenset[str]:
        """The derived predicates that have explicit facts too, as long as not everything is derived."""
        return frozenset(name for name in self.program.derived if self.engine.size(name))

    def answer(self, query: Query) -> Answers:
        """The rows of a query's head, all that it asks for being derived."""
        return self.engine.answer(query.rule) if self.look_up is None else self.look_up(query)

    @property
    def is_constrained(self) -> bool:
        """Whether the program can be inconsistent: what is asked for is then asked together with that."""
        return self.is_checked and BOTTOM in self.program.predicates


class Strategy(Protocol):
    """A way to answer queries."""

    @property
    def name(self) -> str:
        """The name it is chosen by."""

    def answer(self, query: Query, place: Place) -> Answers:
        """The rows of the query's head for which its body holds."""

    def explain(self, query: Query, place: Place) -> str:
        """What it would do, in one line."""


class Streaming(Strategy, Protocol):
    """A strategy that gives answers as it finds them."""

    def stream(self, query: Query, place: Place) -> Generator[Answers]:
        """The rows of the query's head, in parts; to close it early saves what is left to do."""

    @property
    def is_following(self) -> bool:
        """Whether it keeps something that follows the facts as they come and go."""

    def settle(self) -> None:
        """Compute the remaining answers of open streams before facts or rules change."""


def as_streaming(strategy: Strategy) -> Streaming | None:
    """The strategy, if it gives answers as it finds them."""
    return cast("Streaming", strategy) if hasattr(strategy, "stream") else None


def parts_of(strategy: Strategy, query: Query, place: Place, guarded: Guarded) -> Generator[Answers]:
    """The answers to a query in parts, as they are found; each is looked for by `guarded`."""
    streaming = as_streaming(strategy)
    if streaming is None:
        yield guarded(lambda: strategy.answer(query, place))
        return
    with closing(streaming.stream(query, place)) as stream:
        while (part := guarded(lambda: next(stream, None))) is not None:
            yield part


def together(parts: Sequence[Answers], arity: int) -> Answers:
    """Answers that were found in parts."""
    if len(parts) == 1:
        return parts[0]
    none = np.zeros(0, np.int32)
    columns = (np.concatenate([none, *(part[0][place] for part in parts)]) for place in range(arity))
    return tuple(columns), sum(rows for _, rows in parts)


def inconsistency(program: Program, matched: Iterable[Rule] = ()) -> Inconsistent:
    """What is raised where `bottom()` holds: by a rule that matched, if that is known, else one that can."""
    known = next((rule for rule in matched if rule.head.predicate == BOTTOM), None)
    rule = known or next((rule for rule in program.rules if rule.head.predicate == BOTTOM), None)
    if rule is None:
        return Inconsistent(Diagnostic("E601", "inconsistent: the program states bottom()"))
    name = f" by the rule {known.name!r}" if known and known.name else ""
    return Inconsistent(Diagnostic("E601", f"inconsistent: bottom() derived{name}", rule.span))
