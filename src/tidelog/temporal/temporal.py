"""The part of a reasoner that knows of time: facts with intervals, derivation, answers, state as arrays.
Mutates itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from time import perf_counter
from typing import Any

import numpy as np

from tidelog.data.columns import Batch
from tidelog.data.relation import Relation, column_names
from tidelog.data.rows import Ids, Rows
from tidelog.engine.events import FactsLoaded, IntervalsGained, Listener
from tidelog.errors import Diagnostic, Inconsistent, ProgramError, suggest
from tidelog.logic.expressions import intervals_of
from tidelog.logic.intervals import Interval
from tidelog.logic.program import BOTTOM, Predicate, Program, Query, Throughout, TimedFact, literal_atoms
from tidelog.logic.strata import entangled
from tidelog.logic.type_inference import LazySchema
from tidelog.maintenance.maintainer import NetChange
from tidelog.temporal.body_evaluation import Computer, Evaluation, Reading, head_rows, together, violations
from tidelog.temporal.horizon import Horizon, Outcome, Periods
from tidelog.temporal.interval_fixpoint import PROCEDURES, Derivation
from tidelog.temporal.interval_table import Integers, Lists, RowSet, Table, TimedTable, Timeline, single
from tidelog.temporal.metric_rules import FORWARD, direction, make_ready, time_cycle
from tidelog.temporal.periodic import (
    NOT_ADVANCED,
    Past,
    Periodic,
    Unfolding,
    derive_on,
    folded,
    reach_of,
    reason_against,
)
from tidelog.temporal.time_columns import split_batch
from tidelog.temporal.timed_changes import Changing, Stating, TimedUpdate, Times
from tidelog.temporal.timed_relation import INTERVAL, PeriodicRelation, TimedRelation
from tidelog.temporal.timed_store import Store

# ---- The part of a reasoner that knows of time: facts with intervals, derivation, answers. Mutates itself.

UNKNOWN_PROCEDURE = "E618"
ENDLESS = "E616"
NOT_CHANGED = "E617"
WINDOW = "give a horizon, which moves along"
ANEW = "make a new reasoner with the facts and rules as they are to be"


@dataclass(frozen=True, slots=True)
class TimeSettings:
    """How what holds at times is derived: by which procedure, for how many rounds, within which horizon."""

    procedure: str = PROCEDURES[0]
    rounds: int | None = None
    horizon: Interval | None = None

    def __post_init__(self) -> None:
        if self.procedure not in PROCEDURES:
            message = f"there is no procedure `{self.procedure}` for rules over time"
            help = suggest(self.procedure, PROCEDURES) or f"there are {', '.join(PROCEDURES)}"
            raise ProgramError(Diagnostic(UNKNOWN_PROCEDURE, message, help=help))


USUAL = TimeSettings()


class Temporal:
    """Facts over time and what follows from them, beside an engine that holds what is without time."""

    def __init__(self, engine: Any, program: Program, settings: TimeSettings) -> None:
        self.engine = engine
        self.settings = settings
        self.store = Store(engine, Timeline(is_integer=program.is_integer_time))
        self.outcome: Outcome | None = None  # of the last derivation
        self.dropped: Mapping[int, int] = {}  # rules that were done before its end, and after which round
        self.past = Past(settings.horizon)
        self.periodic: Periodic | None = None  # where what follows has no end
        self.is_cut = False  # something would follow beyond the horizon

    # ---- facts in

    def state(self, facts: Sequence[TimedFact], listen: Listener) -> None:
        """Add facts that a program states."""
        self.store.refine(fact.interval for fact in facts)
        for name, some in _by_predicate(facts).items():
            start = perf_counter()
            columns = self.columns([fact.values for fact in some])
            left, right = self.store.timeline.encode([fact.interval for fact in some])
            new = self.store.give(name, columns, len(some), left, right)
            listen(FactsLoaded(name, len(some), new, perf_counter() - start))

    def load(self, name: str, batches: Iterable[Batch], names: tuple[str, ...], listen: Listener) -> None:
        """Add facts of a file, whose last columns say when they hold."""
        is_integer = self.store.timeline.is_integer
        self.load_parts(name, (split_batch(batch, names, is_integer) for batch in batches), listen)

    def load_parts(self, name: str, parts: Iterable[tuple[Batch, Times]], listen: Listener) -> int:
        """Add facts of a file, apart from when they hold; returns how many intervals are new."""
        start, all_new = perf_counter(), 0
        for batch, times in parts:
            new = self.give(name, [tuple(map(self.engine.encode_column, batch.columns))], times)
            end = perf_counter()
            listen(FactsLoaded(name, batch.rows, new, end - start))
            start, all_new = end, all_new + new
        return all_new

    def give(self, name: str, parts: Sequence[tuple[Ids, ...]], times: Times) -> int:
        """Add facts, as columns of ids in parts, with their times; returns how many intervals are new."""
        self.store.adopt(times.timeline)
        left, right = times.on(self.store.timeline)
        count = len(left)
        if not count:
            return 0
        columns = np.array([np.concatenate(column) for column in zip(*parts, strict=True)], np.int32)
        return self.store.give(name, columns.reshape(len(columns), count), count, left, right)

    def begin_again(self) -> None:
        """Forget what was derived; what is given stays."""
        self.store.tables = {}
        self.outcome, self.dropped, self.periodic, self.is_cut = None, {}, None, False

    def is_given(self, fact: TimedFact) -> bool:
        """Whether a fact is given for all of its interval."""
        table = self.store.given.get(fact.predicate)
        if table is None:
            return False
        number = table.facts.find(self.columns([fact.values]), 1)
        left, right = self.store.timeline.encode([fact.interval])
        lists = single(left, right)
        return not lists.without(table.lists, lists.numbers, number).size

    def columns(self, rows: Sequence[Sequence[Any]]) -> Table:
        """Rows of values as ids."""
        encode = self.engine.dictionary.encode_values
        arity = len(rows[0])
        ids = [encode([row[place] for row in rows]) for place in range(arity)]
        return np.array(ids, np.int32).reshape(arity, len(rows))

    # ---- deriving

    def derive(
        self, program: Program, strata_before: int, listen: Listener, check: Callable[[], None]
    ) -> None:
        """Derive everything that rules over time lead to; what is without time has been derived."""
        self.check_end(program)
        self.store.tables = {}
        self.store.refine_for(program)
        horizon = self.horizon(program)
        self.store.begin(program)
        ready = self.store.ready(program)
        settings = self.settings
        if self._has_no_end(program):
            self.periodic = Periodic(program, self.store, settings.procedure)
            self.outcome, self.dropped = self.periodic.derive(ready, listen, check, strata_before)
            return
        derivation = Derivation(
            self.store, ready, listen, check, settings.procedure, settings.rounds, horizon, strata_before
        )
        self.outcome = derivation.run()
        self.is_cut = horizon is not None and horizon.is_cut
        self.dropped = derivation.dropped

    def given(self) -> Iterator[tuple[str, Sequence[Ids], int, Times]]:
        """Yield the facts that are given with times: columns of ids, how many rows, and when each holds."""
        for name, table in self.store.given.items():
            columns, left, right = table.rows()
            yield (
                name,
                list(map(np.ascontiguousarray, columns)),
                len(left),
                Times(self.store.timeline, left, right),
            )

    def hold(
        self,
        program: Program,
        found: Mapping[str, Sequence[tuple[Sequence[Ids], Sequence[Integers], int]]],
        timeline: Timeline,
        outcome: Outcome,
        listen: Listener,
    ) -> None:
        """Hold facts that were derived elsewhere: of each derived predicate all, with their times."""
        self.store.tables = {}
        self.store.adopt(timeline)
        self.store.begin(program)
        tables, before = self.store.tables, len(self.store)
        for name, parts in found.items():
            table = tables[name]
            for columns, (left, right), rows in parts:
                facts = table.number(np.array(columns, np.int32).reshape(len(columns), rows), rows)
                table.gain(*single(left.copy(), right.copy()).grouped(facts))
        listen(IntervalsGained(len(self.store) - before))
        self.outcome, self.dropped, self.periodic = outcome, {}, None
        self.is_cut = outcome.horizon is not None and outcome.horizon.is_cut

    def horizon(self, program: Program, past: Past | None = None) -> Horizon | None:
        """The part of the timeline to which derivation is limited, if it is, noting nothing yet."""
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
        """Raise ProgramError if what follows may have no end, nor repeat, and nothing was said about one."""
        reason = reason_against(program) if self._has_no_end(program) else None
        if reason is None:
            return
        for edge in time_cycle(program.timed_rules):
            names = [program.predicates[name].written for name in (edge.source, edge.target)]
            message = (
                f"what follows may have no end: `{names[1]}` follows from `{names[0]}` at another time, "
                f"and that from it; and {reason}"
            )
            help = "say how far: --rounds N (rounds=N) or --horizon FROM,TO (horizon=(FROM, TO))"
            raise ProgramError(Diagnostic(ENDLESS, message, edge.rule.span, help))

    def _has_no_end(self, program: Program) -> bool:
        """Whether rules lead on for ever, and nothing was said about an end."""
        return leads_on(program, self.settings)

    # ---- changing

    def change(
        self,
        update: TimedUpdate,
        static: NetChange,
        programs: tuple[Program, Program],
        listen: Listener,
        check: Callable[[], None],
        accept: Callable[[], None],
    ) -> NetChange:
        """The net change of a transaction; what is without time has changed already, by `static`.

        `accept` is called last, and raises if all of it must not be.
        """
        before, after = programs
        if not (before.timed or after.timed):
            accept()
            return static
        if update.advance is not None and self.periodic is not None:
            raise ProgramError(Diagnostic(NOT_ADVANCED, "time cannot advance where all repeats", help=WINDOW))
        reason = self._reason_to_derive_anew(before, after)
        if reason is not None:
            raise ProgramError(Diagnostic(NOT_CHANGED, reason, help=ANEW))
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
        """The net change where what follows has an end, and how many intervals there are more."""
        before, after = programs
        past = self.past if update.advance is None else self.past.advanced(update.advance, after)
        later = None if past is self.past else self.horizon(after, past)
        horizon = self.horizon(after)
        changing = Changing(self.store, horizon, check, derive_on(horizon, later, self.store, check))
        net = changing.carry_out(update, static, before, after, accept)
        self.is_cut = any(one is not None and one.is_cut for one in (horizon, later))
        self.outcome = self.outcome or Outcome(0, True, horizon)  # the first facts with times
        grown = changing.journal.grown(self.store.tables.values())
        if later is not None:
            self._advance(past, later)
        return net, grown

    @property
    def stating(self) -> Stating:
        """The facts that are given, for what a transaction says about them."""
        return Stating(self.store, self._first)

    def _refine(self, update: TimedUpdate, after: Program) -> None:
        """Refine the units as far as a transaction needs, before anything is written in them."""
        for timeline in update.timelines:
            self.store.adopt(timeline)
        self.store.refine(interval for rule in after.timed_rules for interval in intervals_of(rule))

    def _advance(self, past: Past, horizon: Horizon) -> None:
        """Set the new past and horizon, and drop facts that can no longer matter."""
        past.forget(self.store)
        self.past = past
        if self.outcome is not None:
            self.outcome = replace(self.outcome, horizon=horizon)

    def refuse_rehearsal(self, program: Program) -> None:
        """Raise ProgramError where facts hold at times: what would change in them cannot be told."""
        if program.timed:
            message = "what a transaction would change cannot be told yet where facts hold at times"
            raise ProgramError(Diagnostic(NOT_CHANGED, message, help="carry it out, and see its delta"))

    def _reason_to_derive_anew(self, before: Program, after: Program) -> str | None:
        """Why what follows cannot be kept right step by step; None if it can."""
        if self.outcome is not None and not self.outcome.is_fixpoint:
            return "what follows is partial, after so many rounds, so that it cannot be kept right"
        if self.past.time is not None and before.timed_rules != after.timed_rules:
            return "time has advanced, and what other rules would look back at may be forgotten"
        if before.timed != after.timed and not before.timed <= after.timed:
            return "a predicate that held at times would hold always"
        if before is not after and entangled((*before.timed_rules, *after.timed_rules)):
            return "rules that come and rules that go negate each other in a cycle"
        self.check_end(after)
        if self.periodic is None:
            return "what follows would have no end" if self._has_no_end(after) else None
        if direction(before.timed_rules) != direction(after.timed_rules):
            return "rules would look another way than those by which all repeats"
        return reason_against(after)

    def check_consistency(self, program: Program) -> None:
        """Raise Inconsistent if `bottom()` holds at some time."""
        if BOTTOM not in program.timed or BOTTOM not in self.store.tables:
            return
        times = self.store.tables[BOTTOM].rows()[2]
        if len(times) and times.max() >= self._first:
            raise Inconsistent(violations(program, self.store, self._first))

    # ---- asking

    @property
    def _first(self) -> int:
        """The left end of what may be asked for: what was before is forgotten."""
        return self.past.first(self.store.timeline)

    def _recent(self, numbers: Integers, lists: Lists) -> tuple[Integers, Lists]:
        """Those of distinct answers that hold at a time that may be asked for, and when."""
        if self.past.time is None:
            return numbers, lists
        lists = lists.later(self._first)
        kept = np.flatnonzero(lists.count > 0)
        return numbers[kept], lists.taken(kept)

    @property
    def _periods(self) -> Periods | None:
        return None if self.periodic is None else self.periodic.periods

    def _reading(self, query: Query, program: Program) -> Reading:
        """Where the atoms of a query read: as far beyond what is there as it looks, where all repeats."""
        if self._periods is None:
            return self.store
        copies = self._periods.copies(2 * max(reach_of(query, program)))
        return Unfolding(self.store, self._periods.on(self.store.timeline), copies)

    def relation(self, predicate: Predicate, schema: LazySchema | None = None) -> TimedRelation:
        """All facts of a predicate, and when they hold."""
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
        columns: Table,
        lists: Lists,
        periods: Periods | None,
        time: str = INTERVAL,
        schema: LazySchema | None = None,
    ) -> TimedRelation:
        """Rows with lists as a relation."""
        timeline, dictionary = self.store.timeline, self.engine.dictionary
        if periods is None:
            owners, left, right = lists.rows()
            every = np.zeros(0, np.int64)
        else:
            owners, left, right, every = periods.on(timeline).rows(lists)
        parts = name, names, tuple(columns[:, owners]), left, right, dictionary, timeline, time, schema
        return PeriodicRelation(*parts, every=every) if every.any() else TimedRelation(*parts)

    def answer(self, query: Query, program: Program, schema: LazySchema | None = None) -> Relation:
        """The answers to a query, with the time at which each holds if the query does not say when."""
        self.past.check(query, program)
        if self._periods is not None:
            query = folded(query, self._periods, program)
        self.store.refine(intervals_of(query.rule))
        ready = make_ready(query.rule, 0, self.store.timeline, self.engine.dictionary.encode)
        for name in {atom.predicate for atom in (*query.rule.positive, *query.rule.negated)}:
            if name not in self.store.tables and name in program.predicates:
                self.store.tables[name] = self.store.beginning(name, program.predicates[name].arity)
        evaluation = Evaluation(self._reading(query, program), Computer(self.engine))
        answers = RowSet(len(ready.terms))
        found: list[tuple[Integers, Any]] = []
        for body in ready.bodies:
            groups = evaluation.whole(body)
            found.append((answers.find_or_add(head_rows(ready, groups), len(groups)), groups.lists))
        return self._answers(query, program, answers, found, schema)

    def _answers(
        self,
        query: Query,
        program: Program,
        answers: RowSet,
        found: Sequence[tuple[Integers, Any]],
        schema: LazySchema | None,
    ) -> Relation:
        numbers = np.concatenate([numbers for numbers, _ in found])
        numbers, lists = together([lists for _, lists in found]).grouped(numbers)
        numbers, lists = self._recent(numbers, lists)
        name, dictionary = query.text.strip(), self.engine.dictionary
        columns = answers.columns[:, numbers]
        if not asks_when(query, program):
            return Relation(name, query.variables, tuple(columns), len(numbers), dictionary, schema)
        periods = None if self._periods is None else self._periods.later(*reach_of(query, program))
        return self._timed(name, query.variables, columns, lists, periods, query.time or INTERVAL, schema)


def leads_on(program: Program, settings: TimeSettings) -> bool:
    """Whether rules lead on for ever, and the settings say nothing about an end."""
    is_limited = settings.rounds is not None or settings.horizon is not None
    return not is_limited and bool(time_cycle(program.timed_rules))


def asks_when(query: Query, program: Program) -> bool:
    """Whether the answers to a query hold at times: something in it does, for which it names no time."""
    timed = program.timed
    return any(
        atom.predicate in timed
        for literal in query.rule.body
        if not isinstance(literal, Throughout)
        for atom in literal_atoms(literal)
    )


def is_timed(query: Query, program: Program) -> bool:
    """Whether a query asks for something that holds at times."""
    atoms = (*query.rule.positive, *query.rule.negated)
    return query.rule.is_metric or any(atom.predicate in program.timed for atom in atoms)


def _without(rows: Mapping[str, Rows], names: frozenset[str]) -> dict[str, Rows]:
    return {name: some for name, some in rows.items() if name not in names}


def _by_predicate(facts: Iterable[TimedFact]) -> dict[str, list[TimedFact]]:
    found: dict[str, list[TimedFact]] = {}
    for fact in facts:
        found.setdefault(fact.predicate, []).append(fact)
    return found


# ---- What holds when, as arrays: taken out of one reasoner, and put into another that is empty.
#
# Between transactions only. The facts of a table keep their numbers, those that hold at no time included; how
# lists lie in their pool is left out.
#
# Invariant: a reasoner with a reinstated state and the one it was taken from hold the same facts, under the
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
    """All that holds at times, and how it was derived."""

    settings: TimeSettings
    timeline: Timeline
    given: tuple[TimedTableState, ...]
    tables: tuple[TimedTableState, ...]
    outcome: tuple[int, bool, bool] | None  # rounds, whether nothing more followed, whether all repeats
    dropped: Mapping[int, int]
    is_cut: bool = False  # something would follow beyond the horizon
    past: Past = field(default_factory=Past)  # what is final, if time has advanced
    periodic: tuple[Interval | None, Periods | None] | None = None  # where what follows has no end


def capture(time: Temporal) -> TimeState:
    """The state between two transactions; nothing in it changes when the reasoner goes on."""
    given, tables = (tuple(map(_captured, some.values())) for some in (time.store.given, time.store.tables))
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
    """Restore a state in a reasoner without facts that hold at times."""
    given = {each.name: _reinstated(each) for each in state.given}
    resume(time, state, program, given, {each.name: _reinstated(each) for each in state.tables})


def resume(
    time: Temporal,
    state: TimeState,
    program: Program,
    given: Mapping[str, TimedTable],
    tables: Mapping[str, TimedTable],
) -> None:
    """The same of a state without its facts, and these: what is given, and all that holds."""
    time.store.timeline = state.timeline
    time.store.given, time.store.tables = dict(given), dict(tables)
    time.dropped, time.is_cut, time.past = dict(state.dropped), state.is_cut, replace(state.past)
    if state.outcome is None:
        return
    rounds, is_fixpoint, is_repeating = state.outcome
    outcome = Outcome(rounds, is_fixpoint)
    if state.periodic is None:
        time.outcome = replace(outcome, horizon=time.horizon(program))
        return
    time.periodic = Periodic(program, time.store, time.settings.procedure, *state.periodic)
    time.outcome = time.periodic.outcome(outcome) if is_repeating else outcome


def _reinstated(state: TimedTableState) -> TimedTable:
    table = TimedTable(state.name, len(state.columns))
    rows = len(state.count)
    columns: Any = np.array(state.columns, np.int32).reshape(len(state.columns), rows)
    if rows:
        numbers = table.number(columns, rows)
        if table.facts.rows != rows:
            raise ValueError(f"`{state.name}` has a fact at times twice")
        lists = Lists(np.cumsum(state.count) - state.count, state.count, state.left, state.right)
        table.replace(numbers, lists)
    return table


@dataclass(frozen=True, slots=True, eq=False)
class Restored:
    """A state without its facts, and these: what is given with times, and all that holds at times."""

    state: TimeState
    given: Mapping[str, TimedTable]
    tables: Mapping[str, TimedTable]


def restore_times(time: Temporal, restored: Restored, program: Program) -> bool:
    """Restore what a reasoner holds at times; return whether the derived facts are left to be derived.

    Where all is periodic, the tables state periods, and do not contain the working data.
    """
    state = restored.state
    if state.periodic is not None:
        time.store.timeline, time.store.given = state.timeline, dict(restored.given)
        return True
    resume(time, state, program, restored.given, restored.tables)
    for name in time.store.predicates(program):
        if name not in time.store.tables:
            time.store.tables[name] = time.store.beginning(name, program.predicates[name].arity)
    return False
