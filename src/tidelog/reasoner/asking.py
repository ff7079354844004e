"""Queries: asked once, prepared to be asked again, or watched while facts change."""

from __future__ import annotations

from collections.abc import Callable, Generator, Iterator, Sequence
from contextlib import closing
from dataclasses import replace
from functools import partial
from typing import TYPE_CHECKING, Any

from tidelog.data.relation import Relation
from tidelog.engine.events import MissingValues, StrategyChosen, ValuesMissing
from tidelog.errors import Diagnostic, EvaluationError, Inconsistent, SourceText
from tidelog.logic.functions.builtins import Overflow
from tidelog.logic.program import Predicate, Program, Query
from tidelog.logic.resolve import resolve_query, warn
from tidelog.logic.type_inference import LazySchema
from tidelog.query import registry as strategies
from tidelog.query.magic import DERIVED
from tidelog.query.query_keepers import MaintainedQueries, PreparedQuery, RequeriedQueries, resolve_prepared
from tidelog.query.registry import QueryStrategyChoice
from tidelog.query.strategy import Answers, QueryContext, parts_of, together
from tidelog.reasoner.commit import check_kept
from tidelog.reasoner.delta import find_predicate
from tidelog.reasoner.deriving import Deriver
from tidelog.reasoner.loading import Loader, SchemasOf
from tidelog.reasoner.runtime import SharedParts
from tidelog.reasoner.subscriptions import LiveQuery
from tidelog.rewrite.magic_sets import Rewritten, readable
from tidelog.syntax.parser import parse_literals
from tidelog.temporal.temporal import is_timed

if TYPE_CHECKING:
    from tidelog.query.tabling import TableCounts


class Asker:
    """Answers queries."""

    def __init__(
        self,
        shared: SharedParts,
        loader: Loader,
        deriver: Deriver,
        keeping: MaintainedQueries,
        table_memory: int,
        equal: str,
    ) -> None:
        self.warn: Callable[[Sequence[Diagnostic]], None] = warn  # what is done with warnings about queries
        self.equal = equal  # how equal constants are shown: expand or representative
        self.table_memory = table_memory
        self.keeping = keeping
        self._runtime = shared.runtime
        self._engine = shared.runtime.engine
        self._program = shared.program
        self._derived = shared.derived
        self._data = loader.data
        self._loader = loader
        self._deriver = deriver
        self._recovery = shared.recovery
        self._strategies = shared.strategies
        self._requeried = shared.requeried
        self._subscriptions = shared.subscriptions
        self._time = shared.time
        self._lock = shared.lock
        self._modules = shared.settings.keeps_closures
        self._last: tuple[Program, Rewritten] | None = None  # what the last query was answered by

    # ---- once

    def query(self, text: str, strategy: str, limit: int | None) -> Relation:
        """Return the answers to a query."""
        query, dropped = self._requested(text), self._begin_counting()
        timed = self._timed_answer(query)
        if timed is not None:
            self._report_missing(query, dropped)
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

    def answers(self, text: str, strategy: str) -> Iterator[Relation]:
        """Yield the answers to a query in parts; the lock is held while one is computed."""
        with self._lock:
            query = self._requested(text)
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

    def _timed_answer(self, query: Query) -> Relation | None:
        """Return the answers to a query about times; None if it is about something else."""
        has_times = self._program.current.timed or query.rule.is_metric
        if not (has_times and is_timed(query, self._program.current)):
            return None
        self._deriver.derive_to_ask()
        return self._time.answer(query, self._program.current, self._schema_of(query))

    def _found(self, query: Query, strategy: str) -> Generator[Answers]:
        """Yield the answers in parts, as the strategy finds them."""
        dropped = self._begin_counting()
        place, choice = self._chosen(strategy, query)
        self._strategies.are_tables_wanted |= strategy == strategies.STREAMED
        self._runtime.tell(StrategyChosen(choice.strategy, choice.reason))
        chosen = self._strategies.get(choice.strategy)
        try:
            yield from parts_of(chosen, query, place, lambda find: self._guarded(query, find))
        finally:
            rewritten = place.notes.get(DERIVED)
            self._last = None if rewritten is None else (self._program.current, rewritten)
        self._report_missing(query, dropped, place)

    def _begin_counting(self) -> int:
        """Forget the rows that were dropped for want of a value; return how many ever were."""
        self._runtime.statistics.missing = ()
        return self._engine.dropped

    def _report_missing(self, query: Query, dropped: int, place: QueryContext | None = None) -> None:
        """Report which rows were dropped since a count of them, as far as that has not been reported."""
        now = self._engine.dropped
        if now == dropped:
            return
        missing: tuple[MissingValues, ...] = ()
        looked_up = place is not None and place.look_up is None
        if place and looked_up and (self._derived.is_materialised or not place.derived_in(query)):
            from tidelog.engine.missing_values import find_missing

            missing = find_missing([query.rule], self._engine)
        if not (missing or self._runtime.statistics.missing):  # the strategy does not say where
            missing = (MissingValues(query.rule, "", now - dropped, place=query.rule.span),)
        if missing:
            self._runtime.tell(ValuesMissing(missing))

    def _guarded(self, query: Query, find: Callable[[], Any]) -> Any:
        """Return what a function finds within the limits."""
        try:
            with self._runtime.limits().guarding():
                return find()
        except Overflow as overflow:
            help = f"in the query {query.text}"
            raise EvaluationError(Diagnostic(overflow.code, str(overflow), help=help)) from None
        except Inconsistent:
            self._derived.is_reported = True
            raise

    def _related(self, query: Query, answers: Answers) -> Relation:
        dictionary, schema = self._engine.storage.dictionary, self._schema_of(query)
        return Relation(query.text.strip(), query.variables, *answers, dictionary, schema)

    def _schema_of(self, query: Query, variables: tuple[str, ...] | None = None) -> LazySchema:
        """Return what the answers to a query hold, or those for some of its variables."""
        return partial(self.schemas.of_answers, query, variables)

    @property
    def schemas(self) -> SchemasOf:
        """What the columns of relations hold, whatever rows they have."""
        return self._data.types.now(self._program.current, self._program.facts.stated)

    @property
    def tables(self) -> TableCounts | None:
        """What there is in tables; None where no query was answered by some."""
        used = self._strategies.by_name.get(strategies.STREAMED)
        if used is None:
            return None
        from tidelog.query.tabling import Tabling

        return used.kept.tally if isinstance(used, Tabling) and used.kept is not None else None

    @property
    def rewritten(self) -> Program | None:
        """The program that the last query was answered by, if it was rewritten."""
        return None if self._last is None else readable(*self._last)

    def explain_strategy(self, text: str, strategy: str) -> str:
        """Return how a query would be answered, and why."""
        query = self.resolve(text)
        place, choice = self._chosen(strategy, query)
        plan = self._strategies.get(choice.strategy).explain(query, place)
        return f"{choice.strategy}: {choice.reason}\n{choice.strategy}: {plan}"

    def _chosen(self, strategy: str, query: Query) -> tuple[QueryContext, QueryStrategyChoice]:
        """Return how a query is answered, and where."""
        place = self.place()
        choice = strategies.chosen(strategy, query, place)
        if place.look_up is not None and choice.strategy not in strategies.WHOLE:
            # By the axioms of equality as rules, whatever is derived over representatives.
            program = self._program.equality.by_axioms(self._program.current.static)
            return replace(self.place(), program=program, is_materialised=False, look_up=None), choice
        return place, choice

    def resolve(self, text: str) -> Query:
        """Return the query that a text writes."""
        return resolve_query(parse_literals(SourceText("<query>", text)), self._program.current, text)

    def _requested(self, text: str) -> Query:
        """Return the query that a text writes, with a warning of what can never match in it."""
        query = self.resolve(text)
        self.warn(self.schemas.warnings(query))
        return query

    def place(self) -> QueryContext:
        """Return where queries are asked, once all explicit facts are loaded."""
        self._recovery.recover()
        self._strategies.drain()
        program, runtime, derived = self._program, self._runtime, self._derived
        if derived.is_materialised:
            self._deriver.derive_to_ask()
        else:
            runtime.statistics.clear()
            with runtime.limits().guarding():
                self._loader.load_program()
        return QueryContext(
            program.effective,
            self._engine,
            derived.is_materialised,
            self._deriver.materialise,
            runtime.tell,
            runtime.check,
            self._modules,
            is_checked=not derived.is_reported,
            is_tabled=self._strategies.are_tabled,
            table_memory=self.table_memory,
            look_up=program.look_up(self.equal),
        )

    # ---- all facts of a predicate

    def facts(self, name: str) -> Relation:
        """Return all facts of a predicate, derived ones included."""
        program = self._program.current
        predicate = find_predicate(name, program.predicates)
        self._deriver.derive_to_ask()
        schema = partial(self.schemas.of, predicate)
        if program.timed or self._program.has_equality:
            with self._lock:
                return self._listed(predicate, schema)
        with self._lock.reading:
            columns, count = self._engine.storage.rows(predicate.name)
        return Relation(
            predicate.written, predicate.names, columns, count, self._engine.storage.dictionary, schema
        )

    def _listed(self, predicate: Predicate, schema: LazySchema) -> Relation:
        """Return all facts of a predicate, with their times, or as equality has them listed."""
        program = self._program.current
        if predicate.name in program.timed:
            return self._time.relation(predicate, schema)
        rows = self._program.equality.rows(program.static, predicate.name, self.equal)
        parts = predicate.written, predicate.names, rows.columns, rows.count, self._engine.storage.dictionary
        return Relation(*parts, schema)

    def look_up(self, query: Query, is_whole: bool) -> Answers:
        """Return answers from derived facts over representatives, of all members if `is_whole`."""
        from tidelog.equality.listing import EXPAND

        self._deriver.derive_to_ask()
        shown = EXPAND if is_whole else self.equal
        find = self._program.look_up(shown)
        assert find is not None, "facts are kept over representatives"
        return find(query)

    # ---- again and again

    def _keeper(self) -> MaintainedQueries | RequeriedQueries:
        """Return what keeps queries: relations, or lookups where facts are over representatives."""
        return self.keeping if self.place().look_up is None else self._requeried

    def prepare(self, text: str) -> PreparedQuery:
        """Return a query with parameters, ready to be asked."""
        query, parameters = resolve_prepared(text, self._program.current)
        check_kept(query, self._program.current)
        keeper = self._keeper()
        return PreparedQuery(keeper.keep(query, parameters), keeper, self._lock, self._schema_of)

    def watch(self, text: str) -> LiveQuery:
        """Return a query whose answers are maintained."""
        query = self._requested(text)
        check_kept(query, self._program.current)
        keeper = self._keeper()
        return LiveQuery(keeper.keep(query), keeper, self._subscriptions, self._lock, self._schema_of)
