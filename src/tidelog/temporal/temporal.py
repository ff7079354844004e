"""The temporal part of a reasoner: facts with intervals, their derivation, changes, queries and state."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np

from tidelog.data.columns import Batch
from tidelog.data.relation import Relation, column_names
from tidelog.data.rows import Ids, Rows
from tidelog.engine.events import FactsLoaded, IntervalsGained, Listener
from tidelog.engine.interrupts import made_once
from tidelog.errors import Diagnostic, Inconsistent, ProgramError, suggest
from tidelog.errors.codes import ENDLESS, NOT_ADVANCED, TIME_NOT_CHANGED, UNKNOWN_PROCEDURE
from tidelog.logic.expressions import intervals_of
from tidelog.logic.intervals import Interval
from tidelog.logic.program import (
    BOTTOM,
    Predicate,
    Program,
    Query,
    Throughout,
    TimedFact,
    facts_by_predicate,
    literal_atoms,
)
from tidelog.logic.strata import entangled
from tidelog.logic.type_inference import LazySchema
from tidelog.maintenance.maintainer import NetChange
from tidelog.plan.inconsistency import describe_timed_violations
from tidelog.records import dataclass
from tidelog.temporal.body_evaluation import (
    BodyEvaluation,
    ExpressionEvaluator,
    IntervalSource,
    find_violations,
)
from tidelog.temporal.horizon import Horizon, Periods, TimedOutcome
from tidelog.temporal.interval_bindings import IntervalBindings
from tidelog.temporal.interval_fixpoint import PROCEDURES, Derivation
from tidelog.temporal.interval_table import (
    IdColumns,
    Integers,
    IntervalLists,
    TimedTable,
    Timeline,
    single,
)
from tidelog.temporal.metric_rules import FORWARD, compile_metric_rule, direction, time_cycle
from tidelog.temporal.periodic import (
    Periodic,
    RetentionWindow,
    UnfoldedSource,
    derive_on,
    folded,
    reach_of,
    reason_against,
)
from tidelog.temporal.time_columns import split_batch
from tidelog.temporal.timed_changes import RowTimes, TimedTransaction, TimedUpdate, TimedUpdateNormaliser
from tidelog.temporal.timed_relation import INTERVAL, PeriodicRelation, TimedRelation
from tidelog.temporal.timed_store import TimedStore

if TYPE_CHECKING:
    from tidelog.engine.columnar.engine import ColumnarEngine

WINDOW = "give a horizon, which moves along"
NEW_REASONER = "create a new reasoner with the new facts and rules"


@dataclass(frozen=True, slots=True)
class TimeSettings:
    """How temporal facts are derived: by which procedure, for how many rounds, within which horizon."""

    procedure: str = PROCEDURES[0]
    rounds: int | None = None
    horizon: Interval | None = None

    def __post_init__(self) -> None:
        if self.procedure not in PROCEDURES:
            message = f"unknown procedure `{self.procedure}` for rules over time"
            help = suggest(self.procedure, PROCEDURES) or f"choose one of {', '.join(PROCEDURES)}"
            raise ProgramError(Diagnostic(UNKNOWN_PROCEDURE, message, help=help))


USUAL = TimeSettings()


@dataclass(eq=False)
class Temporal:
    """Temporal facts, explicit and derived, next to an engine that has the facts without times. Mutable."""

    engine: ColumnarEngine
    settings: TimeSettings
    past: RetentionWindow
    is_integer: bool  # whether points are integers
    outcome: TimedOutcome | None = None  # of the last derivation
    # Numbers of rules that were done before it ended, and after which round.
    dropped: Mapping[int, int] = field(default_factory=dict)
    periodic: Periodic | None = None  # if derivation has no end
    is_cut: bool = False  # something would follow beyond the horizon

    @made_once
    def store(self) -> TimedStore:
        """The facts, with their timeline; most programs have none."""
        return TimedStore(self.engine, Timeline(is_integer=self.is_integer))

    def state(self, facts: Sequence[TimedFact], listen: Listener) -> None:
        """Add explicit facts of a program."""
        self.store.refine(fact.interval for fact in facts)
        for name, some in facts_by_predicate(facts).items():
            start = perf_counter()
            columns = self.columns([fact.values for fact in some])
            left, right = self.store.timeline.encode([fact.interval for fact in some])
            new = self.store.add_explicit(name, columns, len(some), left, right)
            listen(FactsLoaded(name, len(some), new, perf_counter() - start))

    def load(self, name: str, batches: Iterable[Batch], names: tuple[str, ...], listen: Listener) -> None:
        """Add facts of a file, whose last columns say when they hold."""
        is_integer = self.store.timeline.is_integer
        self.load_parts(name, (split_batch(batch, names, is_integer) for batch in batches), listen)

    def load_parts(self, name: str, parts: Iterable[tuple[Batch, RowTimes]], listen: Listener) -> int:
        """Add facts of a file, their times apart; return how many intervals are new."""
        start, all_new = perf_counter(), 0
        for batch, times in parts:
            new = self.give(
                name, [tuple(map(self.engine.storage.dictionary.encode_column, batch.columns))], times
            )
            end = perf_counter()
            listen(FactsLoaded(name, batch.rows, new, end - start))
            start, all_new = end, all_new + new
        return all_new

    def give(self, name: str, parts: Sequence[tuple[Ids, ...]], times: RowTimes) -> int:
        """Add facts, as columns of ids in parts, with their times; return how many intervals are new."""
        self.store.refine_to(times.timeline)
        left, right = times.on(self.store.timeline)
        count = len(left)
        if not count:
            return 0
        columns = np.array([np.concatenate(column) for column in zip(*parts, strict=True)], np.int32)
        return self.store.add_explicit(name, columns.reshape(len(columns), count), count, left, right)

    def begin_again(self) -> None:
        """Drop all derived facts; explicit ones stay."""
        self.store.tables = {}
        self.outcome, self.dropped, self.periodic, self.is_cut = None, {}, None, False

    def is_given(self, fact: TimedFact) -> bool:
        """Whether a fact is explicit throughout its interval."""
        table = self.store.explicit.get(fact.predicate)
        if table is None:
            return False
        number = table.facts.find(self.columns([fact.values]), 1)
        left, right = self.store.timeline.encode([fact.interval])
        lists = single(left, right)
        return not lists.without(table.lists, lists.numbers, number).size

    def columns(self, rows: Sequence[Sequence[Any]]) -> IdColumns:
        """Rows of values as ids."""
        encode = self.engine.storage.dictionary.encode_values
        arity = len(rows[0])
        ids = [encode([row[position] for row in rows]) for position in range(arity)]
        return np.array(ids, np.int32).reshape(arity, len(rows))

    def derive(
        self, program: Program, strata_before: int, listen: Listener, check: Callable[[], None]
    ) -> None:
        """Derive all temporal facts; facts without times have been derived."""
        self.check_end(program)
        self.store.tables = {}
        self.store.refine_for_rules(program)
        horizon = self.horizon(program)
        self.store.begin(program)
        compiled = self.store.compiled_rules(program)
        settings = self.settings
        if self._has_no_end(program):
            self.periodic = Periodic(program, self.store, settings.procedure)
            self.outcome, self.dropped = self.periodic.derive(compiled, listen, check, strata_before)
            return
        derivation = Derivation(
            self.store, compiled, listen, check, settings.procedure, settings.rounds, horizon, strata_before
        )
        self.outcome = derivation.run()
        self.is_cut = horizon is not None and horizon.is_cut
        self.dropped = derivation.dropped

    def given(self) -> Iterator[tuple[str, Sequence[Ids], int, RowTimes]]:
        """Yield the explicit facts with times: columns of ids, how many rows, and their times."""
        for name, table in self.store.explicit.items():
            columns, left, right = table.rows()
            yield (
                name,
                list(map(np.ascontiguousarray, columns)),
                len(left),
                RowTimes(self.store.timeline, left, right),
            )

    def hold(
        self,
        program: Program,
        derived: Mapping[str, Sequence[tuple[Sequence[Ids], Sequence[Integers], int]]],
        timeline: Timeline,
        outcome: TimedOutcome,
        listen: Listener,
    ) -> None:
        """Install facts that other processes derived: of each derived predicate all, with their times."""
        self.store.tables = {}
        self.store.refine_to(timeline)
        self.store.begin(program)
        tables, before = self.store.tables, len(self.store)
        for name, parts in derived.items():
            table = tables[name]
            for columns, (left, right), rows in parts:
                facts = table.number(np.array(columns, np.int32).reshape(len(columns), rows), rows)
                table.gain(*single(left.copy(), right.copy()).grouped(facts))
        listen(IntervalsGained(len(self.store) - before))
        self.outcome, self.dropped, self.periodic = outcome, {}, None
        self.is_cut = outcome.horizon is not None and outcome.horizon.is_cut

    def horizon(self, program: Program, past: RetentionWindow | None = None) -> Horizon | None:
        """The horizon on the present timeline, with nothing cut off by it yet; None if there is none."""
        past = past or self.past
        if past.interval is None:
            return None
        self.store.refine([past.interval])
        is_final = past.time is not None
        way = FORWARD if is_final else direction(program.timed_rules)
        horizon = Horizon(past.interval, way, self.store.timeline, is_final=is_final)
        horizon.is_cut = self.is_cut
        return horizon

    def check_end(self, program: Program) -> None:
        """Raise ProgramError if derivation may have no end, facts may not repeat, and there is no limit."""
        reason = reason_against(program) if self._has_no_end(program) else None
        if reason is None:
            return
        for edge in time_cycle(program.timed_rules):
            names = [program.predicates[name].written for name in (edge.source, edge.target)]
            message = (
                f"derived facts may have no end: `{names[1]}` follows from `{names[0]}` at another "
                f"time, and vice versa; and {reason}"
            )
            help = "set a limit: --rounds N (rounds=N) or --horizon FROM,TO (horizon=(FROM, TO))"
            raise ProgramError(Diagnostic(ENDLESS, message, edge.rule.span, help))

    def _has_no_end(self, program: Program) -> bool:
        """Whether derivation has no end, and the settings have no limit."""
        return leads_on(program, self.settings)

    def change(
        self,
        update: TimedUpdate,
        static: NetChange,
        programs: tuple[Program, Program],
        listen: Listener,
        check: Callable[[], None],
        accept: Callable[[], None],
    ) -> NetChange:
        """Apply a transaction; return its net change. Facts without times have changed already, by `static`.

        `accept` is called last, and raises to reject all of it.
        """
        before, after = programs
        if not (before.timed or after.timed):
            accept()
            return static
        if update.advance is not None and self.periodic is not None:
            raise ProgramError(
                Diagnostic(NOT_ADVANCED, "time cannot advance over endless repetition", help=WINDOW)
            )
        reason = self._reason_to_rederive(before, after)
        if reason is not None:
            raise ProgramError(Diagnostic(TIME_NOT_CHANGED, reason, help=NEW_REASONER))
        self._refine(update, after)

        def check_all() -> None:
            self.check_consistency(after)
            accept()

        if self.periodic is not None:
            net, grown = self.periodic.change(update, static, programs, check, check_all)
            assert self.outcome is not None, "everything has been derived"
            self.outcome = self.periodic.outcome(self.outcome)
        else:
            net, grown = self._change(update, static, programs, check, check_all)
        if before.rules is not after.rules:
            self.dropped = {}  # its numbers are those of other rules
        listen(IntervalsGained(grown))
        return NetChange(
            {**_without(static.added, after.timed), **net.added},
            {**_without(static.removed, after.timed), **net.removed},
        )

    def _change(
        self,
        update: TimedUpdate,
        static: NetChange,
        programs: tuple[Program, Program],
        check: Callable[[], None],
        accept: Callable[[], None],
    ) -> tuple[NetChange, int]:
        """Apply a transaction where derivation has an end; return the net change, and how many intervals more
        there are.
        """
        before, after = programs
        past = self.past if update.advance is None else self.past.advanced(update.advance, after)
        later = None if past is self.past else self.horizon(after, past)
        horizon = self.horizon(after)
        transaction = TimedTransaction(
            self.store, horizon, check, derive_on(horizon, later, self.store, check)
        )
        net = transaction.execute(update, static, before, after, accept)
        self.is_cut = any(one is not None and one.is_cut for one in (horizon, later))
        self.outcome = self.outcome or TimedOutcome(0, True, horizon)  # the first facts with times
        grown = transaction.journal.grown(self.store.tables.values())
        if later is not None:
            self._advance(past, later)
        return net, grown

    @property
    def normaliser(self) -> TimedUpdateNormaliser:
        """What reduces an update to points that are explicit."""
        return TimedUpdateNormaliser(self.store, self._first)

    def _refine(self, update: TimedUpdate, after: Program) -> None:
        """Refine the units as far as a transaction needs, before it writes anything."""
        for timeline in update.timelines:
            self.store.refine_to(timeline)
        self.store.refine(interval for rule in after.timed_rules for interval in intervals_of(rule))

    def _advance(self, past: RetentionWindow, horizon: Horizon) -> None:
        """Set the new retention window and horizon, and drop facts that can no longer matter."""
        past.forget(self.store)
        self.past = past
        if self.outcome is not None:
            self.outcome = replace(self.outcome, horizon=horizon)

    def refuse_rehearsal(self, program: Program) -> None:
        """Raise ProgramError if there are temporal facts: a dry run cannot report their changes."""
        if program.timed:
            message = "dry runs are not supported yet for temporal facts"
            raise ProgramError(Diagnostic(TIME_NOT_CHANGED, message, help="commit it, and read its delta"))

    def _reason_to_rederive(self, before: Program, after: Program) -> str | None:
        """Why derived facts cannot be maintained, and must be derived again; None if they can."""
        if self.outcome is not None and not self.outcome.is_fixpoint:
            return "derived facts are partial after the limit of rounds, so they cannot be maintained"
        if self.past.time is not None and before.timed_rules != after.timed_rules:
            return "time has advanced, and facts that other rules look back at may be forgotten"
        if before.timed != after.timed and not before.timed <= after.timed:
            return "a temporal predicate would hold always"
        if before is not after and entangled((*before.timed_rules, *after.timed_rules)):
            return "inserted and deleted rules negate each other in a cycle"
        self.check_end(after)
        if self.periodic is None:
            return "derived facts would have no end" if self._has_no_end(after) else None
        if direction(before.timed_rules) != direction(after.timed_rules):
            return "rules would look in another direction than those that repeat"
        return reason_against(after)

    def check_consistency(self, program: Program) -> None:
        """Raise Inconsistent if `bottom()` holds at some time."""
        if BOTTOM not in program.timed or BOTTOM not in self.store.tables:
            return
        times = self.store.tables[BOTTOM].rows()[2]
        if len(times) and times.max() >= self._first:
            violations = find_violations(program, self.store, self._first)
            raise Inconsistent(describe_timed_violations(violations, program))

    @property
    def _first(self) -> int:
        """The left end of times that may be queried: what was before is forgotten."""
        return self.past.first(self.store.timeline)

    def _recent(self, numbers: Integers, lists: IntervalLists) -> tuple[Integers, IntervalLists]:
        """The facts that hold at a time that may be queried, and the points of each."""
        if self.past.time is None:
            return numbers, lists
        lists = lists.later(self._first)
        held = np.flatnonzero(lists.count > 0)
        return numbers[held], lists.take(held)

    @property
    def _periods(self) -> Periods | None:
        return None if self.periodic is None else self.periodic.periods

    def _source(self, query: Query, program: Program) -> IntervalSource:
        """Where the atoms of a query read: if facts repeat, with as many more periods as it needs."""
        if self._periods is None:
            return self.store
        copies = self._periods.copies(2 * max(reach_of(query, program)))
        return UnfoldedSource(self.store, self._periods.on(self.store.timeline), copies)

    def relation(self, predicate: Predicate, schema: LazySchema | None = None) -> TimedRelation:
        """All facts of a predicate, with their times."""
        table = self.store.tables[predicate.name]
        numbers, lists = self._recent(*table.holding())
        columns = table.facts.columns[:, numbers]
        return self._timed(
            predicate.written, column_names(predicate), columns, lists, self._periods, schema=schema
        )

    def _timed(
        self,
        name: str,
        names: Sequence[str],
        columns: IdColumns,
        lists: IntervalLists,
        periods: Periods | None,
        time: str = INTERVAL,
        schema: LazySchema | None = None,
    ) -> TimedRelation:
        """Rows with lists as a relation."""
        timeline, dictionary = self.store.timeline, self.engine.storage.dictionary
        if periods is None:
            owners, left, right = lists.rows()
            every = np.zeros(0, np.int64)
        else:
            owners, left, right, every = periods.on(timeline).rows(lists)
        parts = name, names, tuple(columns[:, owners]), left, right, dictionary, timeline, time, schema
        return PeriodicRelation(*parts, every=every) if every.any() else TimedRelation(*parts)

    def answer(self, query: Query, program: Program, schema: LazySchema | None = None) -> Relation:
        """The answers to a query, with their times if the query names none."""
        self.past.check(query, program)
        if self._periods is not None:
            query = folded(query, self._periods, program)
        self.store.refine(intervals_of(query.rule))
        compiled = compile_metric_rule(
            query.rule, 0, self.store.timeline, self.engine.storage.dictionary.encode
        )
        for name in {atom.predicate for atom in (*query.rule.positive, *query.rule.negated)}:
            if name not in self.store.tables and name in program.predicates:
                self.store.tables[name] = self.store.initial_table(name, program.predicates[name].arity)
        evaluation = BodyEvaluation(self._source(query, program), ExpressionEvaluator(self.engine))
        found = [evaluation.whole(body) for body in compiled.bodies]
        answers = IntervalBindings.union([each.head(compiled) for each in found])
        numbers, lists = self._recent(answers.lists.numbers, answers.lists)
        columns = answers.columns[:, numbers]
        name, dictionary = query.text.strip(), self.engine.storage.dictionary
        if not asks_when(query, program):
            return Relation(name, query.variables, tuple(columns), len(numbers), dictionary, schema)
        periods = None if self._periods is None else self._periods.later(*reach_of(query, program))
        return self._timed(name, query.variables, columns, lists, periods, query.time or INTERVAL, schema)


def leads_on(program: Program, settings: TimeSettings) -> bool:
    """Whether derivation has no end, and the settings have no limit."""
    is_limited = settings.rounds is not None or settings.horizon is not None
    return not is_limited and bool(time_cycle(program.timed_rules))


def asks_when(query: Query, program: Program) -> bool:
    """Whether the answers to a query have times: an atom in it has, for which it names no time."""
    timed = program.timed
    return any(
        atom.predicate in timed
        for literal in query.rule.body
        if not isinstance(literal, Throughout)
        for atom in literal_atoms(literal)
    )


def is_timed(query: Query, program: Program) -> bool:
    """Whether a query reads temporal facts or has metric operators."""
    atoms = (*query.rule.positive, *query.rule.negated)
    return query.rule.is_metric or any(atom.predicate in program.timed for atom in atoms)


def _without(rows: Mapping[str, Rows], names: frozenset[str]) -> dict[str, Rows]:
    return {name: some for name, some in rows.items() if name not in names}


def _by_predicate(facts: Iterable[TimedFact]) -> dict[str, list[TimedFact]]:
    by_predicate: dict[str, list[TimedFact]] = {}
    for fact in facts:
        by_predicate.setdefault(fact.predicate, []).append(fact)
    return by_predicate


# The temporal state as arrays, captured from one reasoner between transactions, restored in another that is
# empty. Facts keep their numbers, those that hold at no time included; how lists lie in their pool is left
# out.
#
# Invariant: a reasoner with a restored state and the one it was captured from hold the same facts, under the
# same numbers, at the same times.


@dataclass(frozen=True, slots=True, eq=False)
class TimedTableState:
    """Facts by number, and the intervals of each, one after the other."""

    name: str
    columns: tuple[Ids, ...]
    count: Integers  # of each fact: how many intervals it has
    left: Integers
    right: Integers


@dataclass(frozen=True, slots=True, eq=False)
class TimeState:
    """All temporal facts, and how they were derived."""

    settings: TimeSettings
    timeline: Timeline
    given: tuple[TimedTableState, ...]
    tables: tuple[TimedTableState, ...]
    outcome: tuple[int, bool, bool] | None  # rounds, whether it is a fixpoint, whether facts repeat
    dropped: Mapping[int, int]
    is_cut: bool = False  # something would follow beyond the horizon
    past: RetentionWindow = field(default_factory=RetentionWindow)  # what is final, if time has advanced
    periodic: tuple[Interval | None, Periods | None] | None = None  # if derivation has no end


def capture(time: Temporal) -> TimeState:
    """The state between two transactions, which later ones do not change."""
    given, tables = (
        tuple(map(_captured, some.values())) for some in (time.store.explicit, time.store.tables)
    )
    return replace(summary(time), given=given, tables=tables)


def summary(time: Temporal) -> TimeState:
    """The state without its facts."""
    outcome, periodic = time.outcome, time.periodic
    return TimeState(
        time.settings,
        time.store.timeline,
        (),
        (),
        None if outcome is None else (outcome.rounds, outcome.is_fixpoint, outcome.periods is not None),
        dict(time.dropped),
        time.is_cut,
        replace(time.past),
        None if periodic is None else (periodic.horizon, periodic.periods),
    )


def _captured(table: TimedTable) -> TimedTableState:
    rows, lists = table.facts.rows, table.lists
    _, left, right = lists.rows()
    columns = tuple(column[:rows].copy() for column in table.facts.columns)
    return TimedTableState(table.name, columns, lists.count.copy(), left, right)


def reinstate(time: Temporal, state: TimeState, program: Program) -> None:
    """Restore a state in a reasoner without temporal facts."""
    given = {each.name: _restored_table(each) for each in state.given}
    resume(time, state, program, given, {each.name: _restored_table(each) for each in state.tables})


def resume(
    time: Temporal,
    state: TimeState,
    program: Program,
    given: Mapping[str, TimedTable],
    tables: Mapping[str, TimedTable],
) -> None:
    """Restore a state without its facts, and these: explicit ones, and all that hold."""
    time.store.timeline = state.timeline
    time.store.explicit, time.store.tables = dict(given), dict(tables)
    time.dropped, time.is_cut, time.past = dict(state.dropped), state.is_cut, replace(state.past)
    if state.outcome is None:
        return
    rounds, is_fixpoint, is_repeating = state.outcome
    outcome = TimedOutcome(rounds, is_fixpoint)
    if state.periodic is None:
        time.outcome = replace(outcome, horizon=time.horizon(program))
        return
    time.periodic = Periodic(program, time.store, time.settings.procedure, *state.periodic)
    time.outcome = time.periodic.outcome(outcome) if is_repeating else outcome


def _restored_table(state: TimedTableState) -> TimedTable:
    table = TimedTable(state.name, len(state.columns))
    rows = len(state.count)
    columns: Any = np.array(state.columns, np.int32).reshape(len(state.columns), rows)
    if rows:
        numbers = table.number(columns, rows)
        if table.facts.rows != rows:
            raise ValueError(f"`{state.name}` has a fact at times twice")
        lists = IntervalLists(np.cumsum(state.count) - state.count, state.count, state.left, state.right)
        table.replace(numbers, lists)
    return table


@dataclass(frozen=True, slots=True, eq=False)
class Restored:
    """A state without its facts, and these: explicit ones with times, and all with times."""

    state: TimeState
    given: Mapping[str, TimedTable]
    tables: Mapping[str, TimedTable]


def restore_times(time: Temporal, restored: Restored, program: Program) -> bool:
    """Restore the temporal facts of a reasoner; return whether the derived ones must be derived again.

    Where facts repeat, the tables contain periods, and not the working data.
    """
    state = restored.state
    if state.periodic is not None:
        time.store.timeline, time.store.explicit = state.timeline, dict(restored.given)
        return True
    resume(time, state, program, restored.given, restored.tables)
    for name in time.store.predicates(program):
        if name not in time.store.tables:
            time.store.tables[name] = time.store.initial_table(name, program.predicates[name].arity)
    return False
