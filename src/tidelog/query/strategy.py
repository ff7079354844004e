"""The contract of strategies: how a query is answered, and what a strategy is given for that.

A strategy is one file with a class that has a `name`, by which it is chosen, and

- `answer(query, context)`, which returns the rows of the query's head, and leaves the engine's relations as
  they were, unless it is its way to derive everything;
- `explain(query, context)`, which says in one line what it would do, and derives nothing.

A reasoner makes one strategy of each kind, so that it may cache what it has found between queries; then it
must notice by itself when `QueryContext.program`, or what is in the engine, has changed. It is registered by
one line in `registry.py`. It reads the program, its explicit facts and their sizes from `QueryContext`, and
works over sets of facts: the relations that it makes for itself have a space in their names, and are dropped
in the end, also if it is stopped, unless they are kept for queries to come. Read `magic.py` first.

Invariant: every strategy gives the answers that the whole program gives.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterable, Sequence
from contextlib import closing
from dataclasses import field
from typing import TYPE_CHECKING, Any, Protocol, cast

from tidelog.data.rows import Ids, Rows, concatenate, rows_of
from tidelog.engine.events import Listener
from tidelog.logic.program import BOTTOM, Program, Query
from tidelog.records import dataclass

if TYPE_CHECKING:
    from tidelog.engine.columnar.engine import ColumnarEngine

Answers = tuple[tuple[Ids, ...], int]  # columns of ids, and how many rows
Guarded = Callable[[Callable[[], Any]], Any]  # runs a function within limits


TABLE_MEMORY = 1 << 30  # bytes of tables that are kept between queries


@dataclass(frozen=True, slots=True)
class QueryContext:
    """The context of a query: a program, an engine with its explicit facts, and what is derived so far.

    While `is_materialised` is false, a derived predicate's relation holds its explicit facts only.
    """

    program: Program
    engine: ColumnarEngine
    is_materialised: bool
    materialise: Callable[[], None]  # derives everything; raises Inconsistent
    listen: Listener
    check: Callable[[], None]  # raises when a limit is reached
    modules: bool = True  # whether structures may close predicates
    is_checked: bool = True  # whether an inconsistency must be detected: it has not been reported yet
    is_tabled: bool = False  # whether there are tables
    table_memory: int = TABLE_MEMORY
    # How answers are looked up where derived facts are stored in another form than the program's.
    look_up: Callable[[Query], Answers] | None = None
    notes: dict[Any, Any] = field(default_factory=dict)  # what strategies cache for this context

    @property
    def explicit(self) -> frozenset[str]:
        """The derived predicates that have explicit facts too, as long as not everything is derived."""
        return frozenset(name for name in self.program.derived if self.engine.storage.size(name))

    def derived_in(self, query: Query) -> list[str]:
        """The derived predicates that a query mentions."""
        derived = self.program.derived
        atoms = (*query.rule.positive, *query.rule.negated)
        return [atom.predicate for atom in atoms if atom.predicate in derived]

    def answer(self, query: Query) -> Answers:
        """The rows of a query's head, all that it asks for being derived."""
        return self.engine.plans.answer(query.rule) if self.look_up is None else self.look_up(query)

    @property
    def is_constrained(self) -> bool:
        """Whether an inconsistency has to be detected together with the answers."""
        return self.is_checked and BOTTOM in self.program.predicates


class Strategy(Protocol):
    """A way to answer queries."""

    @property
    def name(self) -> str:
        """The name it is chosen by."""

    def answer(self, query: Query, context: QueryContext) -> Answers:
        """The rows of the query's head for which its body holds."""

    def explain(self, query: Query, context: QueryContext) -> str:
        """What it would do, in one line."""


class Streaming(Strategy, Protocol):
    """A strategy that gives answers as it finds them."""

    def stream(self, query: Query, context: QueryContext) -> Generator[Answers]:
        """The rows of the query's head, in parts; to close it early saves what is left to do."""

    @property
    def is_following(self) -> bool:
        """Whether it keeps tables that must see which facts are inserted and deleted."""

    def settle(self) -> None:
        """Compute the remaining answers of open streams before facts or rules change."""


def as_streaming(strategy: Strategy) -> Streaming | None:
    """The strategy, if it gives answers as it finds them."""
    return cast("Streaming", strategy) if hasattr(strategy, "stream") else None


def parts_of(strategy: Strategy, query: Query, context: QueryContext, guarded: Guarded) -> Generator[Answers]:
    """The answers to a query in parts, as they are found; each is computed inside `guarded`."""
    streaming = as_streaming(strategy)
    if streaming is None:
        yield guarded(lambda: strategy.answer(query, context))
        return
    with closing(streaming.stream(query, context)) as stream:
        while (part := guarded(lambda: next(stream, None))) is not None:
            yield part


def together(parts: Sequence[Answers], arity: int) -> Answers:
    """Answers that were found in parts."""
    if len(parts) == 1:
        return parts[0]
    rows = concatenate([Rows(*part) for part in parts]) if parts else rows_of([], arity)
    return rows.columns, rows.count


MOST_PATTERNS = 6  # that an explanation names


def shown_patterns(patterns: Iterable[tuple[str, str]], program: Program) -> str:
    """The first patterns of the program's own predicates, as they are written."""
    known = program.predicates
    shown = [f"{known[name].written} {adornment or '()'}" for name, adornment in patterns if name in known]
    return ", ".join(shown[:MOST_PATTERNS]) + (", …" if len(shown) > MOST_PATTERNS else "")
