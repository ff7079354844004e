"""What can be asked of a reasoner: queries, once, again and again, or as long as things change."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from functools import partial
from typing import Any

from tidelog.data.relation import Relation
from tidelog.engine.events import StrategyChosen
from tidelog.engine.interrupts import Lock, locked
from tidelog.errors import Diagnostic, EvaluationError, Inconsistent, ProgramError, SourceText
from tidelog.logic.functions.builtins import Overflow
from tidelog.logic.program import Program, Query
from tidelog.logic.resolve import resolve_query, warn
from tidelog.logic.type_inference import LazySchema
from tidelog.query import registry as strategies
from tidelog.query.magic import DERIVED
from tidelog.query.query_keepers import Keeping, LookingUp, Prepared, resolve_prepared
from tidelog.query.registry import Choice
from tidelog.query.strategy import Answers, Place, Strategy, parts_of, together
from tidelog.query.tabling import Tabling, Tally
from tidelog.reasoner.commit import Runtime
from tidelog.reasoner.relation_types import SchemasOf
from tidelog.reasoner.subscriptions import Callback, LiveQuery, Subscriptions
from tidelog.rewrite.magic_sets import Rewritten, readable
from tidelog.syntax.parser import parse_literals
from tidelog.temporal.temporal import NOT_CHANGED, is_timed


class Asking(ABC):
    """The part of a reasoner that answers queries; the other part says where they are asked."""

    _program: Program
    _subscriptions: Subscriptions
    _is_told: bool  # whether somebody knows of an inconsistency
    runtime: Runtime
    _lock: Lock

    def __init__(self, keeping: Keeping, looking_up: LookingUp) -> None:
        self._keeping = keeping
        self._looking_up = looking_up
        self._strategies: dict[str, Strategy] = {}
        self._derived: tuple[Program, Rewritten] | None = None  # what the last query was answered by
        self._are_tables_wanted = False  # somebody has asked for them, rather than `auto`
        self.warn: Callable[[Sequence[Diagnostic]], None] = warn  # what becomes of doubts about queries

    @abstractmethod
    def _place(self) -> Place:
        """Where queries are asked: all explicit facts are loaded."""

    @abstractmethod
    def _place_by_axioms(self) -> Place:
        """The same with the axioms of equality as rules, whatever is derived over representatives."""

    @property
    @abstractmethod
    def schemas(self) -> SchemasOf:
        """What the columns of relations hold, whatever rows there are."""

    @abstractmethod
    def _timed_answer(self, query: Query) -> Relation | None:
        """The answers to a query for what holds at times; None if it is for something else."""

    # ---- once

    @locked
    def query(self, text: str, strategy: str = strategies.AUTO, *, limit: int | None = None) -> Relation:
        """The answers to a query such as `ancestor(alice, ?x)`: one column per variable.

        Unless everything is derived already, `auto` derives what the query asks for only, if something in it
        is bound or not all rules are needed; `lookup`, `magic`, `tabling` and `full` say how it is done. With
        a limit, no more answers than that: `tabling` then stops when it has found them.
        """
        query = self._asked(text)
        timed = self._timed_answer(query)
        if timed is not None:
            return timed if limit is None else timed.sorted().head(limit)
        found: list[Answers] = []
        with closing(self._found(query, strategy)) as parts:
            for part in parts:
                found.append(part)
                if limit is not None and sum(rows for _, rows in found) >= limit:
                    break
        answers = self._related(query, together(found, len(query.rule.head.terms)))
        return answers if limit is None else answers.head(limit)

    def answers(self, text: str, strategy: str = strategies.STREAMED) -> Iterator[Relation]:
        """The answers to a query in parts, as they are found; no row is in two of them.

        `tabling` gives its first answers early; others give all of them at once. To stop early saves what is
        left to do. Facts that change in the meantime do not matter to these answers any more.
        """
        with self._lock:
            query = self._asked(text)
            parts = self._found(query, strategy)
        try:
            while True:
                with self._lock:
                    part = next(parts, None)
                if part is None:
                    return
                yield self._related(query, part)
        finally:
            with self._lock:
                parts.close()

    def _found(self, query: Query, strategy: str) -> Generator[Answers]:
        """The answers in parts, as the strategy finds them."""
        place, choice = self._chosen(strategy, query)
        self._are_tables_wanted |= strategy == strategies.STREAMED
        self.runtime.tell(StrategyChosen(choice.strategy, choice.reason))
        chosen = self._strategy(choice.strategy)
        try:
            yield from parts_of(chosen, query, place, lambda find: self._guarded(query, find))
        finally:
            made = place.notes.get(DERIVED)
            self._derived = None if made is None else (self._program, made)

    def _guarded(self, query: Query, find: Callable[[], Any]) -> Any:
        """What is found within the limits."""
        try:
            with self.runtime.limits().guarding():
                return find()
        except Overflow as overflow:
            help = f"in the query {query.text}"
            raise EvaluationError(Diagnostic(overflow.code, str(overflow), help=help)) from None
        except Inconsistent:
            self._is_told = True
            raise

    def _related(self, query: Query, answers: Answers) -> Relation:
        dictionary, schema = self._keeping.engine.dictionary, self._schema_of(query)
        return Relation(query.text.strip(), query.variables, *answers, dictionary, schema)

    def _schema_of(self, query: Query, variables: tuple[str, ...] | None = None) -> LazySchema:
        """What the answers to a query hold, or those for some of its variables."""
        return partial(self.schemas.of_answers, query, variables)

    @property
    def tables(self) -> Tally | None:
        """What there is in tables; None where no query was answered by some."""
        kept = self._strategies.get(strategies.STREAMED)
        return kept.kept.tally if isinstance(kept, Tabling) and kept.kept is not None else None

    @property
    @locked
    def rewritten(self) -> Program | None:
        """The program that the last query was answered by, if it was rewritten."""
        return None if self._derived is None else readable(*self._derived)

    @locked
    def explain_strategy(self, text: str, strategy: str = strategies.AUTO) -> str:
        """How a query would be answered, and why; derives nothing."""
        query = self._resolved(text)
        place, choice = self._chosen(strategy, query)
        done = self._strategy(choice.strategy).explain(query, place)
        return f"{choice.strategy}: {choice.reason}\n{choice.strategy}: {done}"

    def _chosen(self, strategy: str, query: Query) -> tuple[Place, Choice]:
        """How a query is answered, and where."""
        place = self._place()
        choice = strategies.chosen(strategy, query, place)
        if place.look_up is not None and choice.strategy not in strategies.WHOLE:
            return self._place_by_axioms(), choice
        return place, choice

    def _resolved(self, text: str) -> Query:
        return resolve_query(parse_literals(SourceText("<query>", text)), self._program, text)

    def _asked(self, text: str) -> Query:
        """The query that somebody asks, who is told of what can never match in it."""
        query = self._resolved(text)
        self.warn(self.schemas.warnings(query))
        return query

    def _strategy(self, name: str) -> Strategy:
        if name not in self._strategies:
            self._strategies[name] = strategies.STRATEGIES[name]()
        return self._strategies[name]

    # ---- again and again

    def _keeper(self) -> Keeping | LookingUp:
        """What keeps queries: relations of their own, or looking up where facts are over representatives."""
        return self._keeping if self._place().look_up is None else self._looking_up

    @locked
    def prepare(self, text: str) -> Prepared:
        """A query with parameters, `reach($start, ?to)`, to be asked with other values each time.

        Unless everything is derived already, what is derived for one binding is kept for the next, and kept
        right when facts and rules change.
        """
        query, parameters = resolve_prepared(text, self._program)
        self._check_kept(query, self._program)
        keeping = self._keeper()
        return Prepared(keeping.keep(query, parameters), keeping, self._lock, self._schema_of)

    def _check_kept(self, query: Query, program: Program) -> None:
        """Raise ProgramError if the answers to a query cannot be maintained by a program."""
        if is_timed(query, program):
            message = "the answers to queries about what holds at times cannot be kept yet"
            help = "ask anew after each change, or subscribe to the predicate"
            raise ProgramError(Diagnostic(NOT_CHANGED, message, help=help))

    @locked
    def watch(self, text: str, callback: Callback | None = None) -> LiveQuery:
        """A query whose answers are kept right from now on; the callback is told what changes in them.

        Unless everything is derived already, only what the query asks for is derived, and kept right.
        """
        query = self._asked(text)
        self._check_kept(query, self._program)
        keeping = self._keeper()
        live = LiveQuery(keeping.keep(query), keeping, self._subscriptions, self._lock, self._schema_of)
        if callback is not None:
            live.subscribe(callback)
        return live
