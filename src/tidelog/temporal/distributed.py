"""One of the tasks that derive a program with rules over time together.

Facts without times are derived first, by `exchange.Task`. Rules over time then run in the phases of a
`Division`: each task derives, on its part of the facts, what one process would derive from them, and sends
what belongs to others.

All tasks use the same timeline, horizon and number of rounds. They exchange whether a level of negation is
complete, and which constraints are violated.

Invariant: when `run` ends, the homes at all tasks together hold the facts of the program, each with all its
intervals at one task, or at all of them.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import asdict, replace
from math import lcm
from typing import Any

import numpy as np

from tidelog.data.columns import Batch, column_of_values
from tidelog.data.relation import Relation, column_names
from tidelog.data.rows import Ids
from tidelog.engine.events import MissingValues
from tidelog.engine.exchange import ExchangeTask, Mesh
from tidelog.engine.exchange.tasks import TO_LAST, Extended, refused
from tidelog.errors import Diagnostic
from tidelog.logic.expressions import intervals_of
from tidelog.logic.program import BOTTOM, Program, TimedFact
from tidelog.plan.inconsistency import TimedViolation, describe_timed_violations
from tidelog.rewrite.localise import EVERYWHERE, NotLocalisable
from tidelog.temporal.body_evaluation import (
    BodyEvaluation,
    ExpressionEvaluator,
    find_violation,
    merge_violations,
)
from tidelog.temporal.horizon import Horizon, TimedOutcome
from tidelog.temporal.interval_fixpoint import Derivation, ignore_events, not_finished
from tidelog.temporal.interval_kernels import INFINITY
from tidelog.temporal.interval_table import Integers, TimedTable, Timeline, single
from tidelog.temporal.metric_rules import CompiledMetricRule, compile_metric_rule, direction
from tidelog.temporal.partitioning import (
    Division,
    DivisionPhase,
    Source,
    copy_name,
    divide,
    outbox,
    own_outbox,
)
from tidelog.temporal.temporal import USUAL, TimeSettings
from tidelog.temporal.timed_changes import RowTimes, times_of
from tidelog.temporal.timed_relation import INTERVAL, TimedRelation
from tidelog.temporal.timed_store import TimedStore

Given = tuple[
    Sequence[Ids], int, RowTimes | None
]  # columns of ids, rows, and when they hold, None for always


class TimedTask:
    """A task of a mesh whose program has temporal facts; it is used as `exchange.Task` is. Mutable."""

    def __init__(self, program: Program, mesh: Mesh, *, time: TimeSettings = USUAL, **settings: Any) -> None:
        self.program = program
        self.outcome: TimedOutcome | None = None  # known once all is derived
        self._time = time
        self._mesh = mesh
        self._is_counted = settings.get("max_facts") is not None
        self._task = ExchangeTask(_untimed(program), mesh, **settings)
        self._given: dict[str, list[Given]] = {}
        self._rows: dict[str, int] = {}  # given here, by predicate
        self._violations: dict[int, TimedViolation] = {}  # by the number of the rule
        self._division: Division | None = None

    @property
    def division(self) -> Division:
        """How rules over time are divided; known once `run` has begun."""
        assert self._division is not None
        return self._division

    @property
    def timeline(self) -> Timeline:
        """What the ends of intervals mean, at all tasks; known once `run` has begun."""
        return self._store.timeline

    def load(self, predicate: str, batches: Iterable[Batch]) -> None:
        """Add batches of explicit facts without times, any part of them."""
        if predicate not in self.program.timed:
            self._task.load(predicate, self._counted(predicate, batches))
            return
        self.load_timed(predicate, ((batch, None) for batch in batches))

    def load_timed(self, predicate: str, parts: Iterable[tuple[Batch, RowTimes | None]]) -> None:
        """Add batches of explicit facts, any part of them, with their times apart."""
        with self._task.guarded():
            for batch, times in parts:
                self.add(predicate, self._task.encode(batch), batch.rows, times)

    def add(self, predicate: str, columns: Sequence[Ids], rows: int, times: RowTimes | None = None) -> None:
        """Add explicit facts as ids of the dictionary, with their times if they have some."""
        self._rows[predicate] = self._rows.get(predicate, 0) + rows
        if predicate not in self.program.timed:
            self._task.add(predicate, columns, rows)
        elif rows:
            self._given.setdefault(predicate, []).append((columns, rows, times))

    def _counted(self, predicate: str, batches: Iterable[Batch]) -> Iterator[Batch]:
        for batch in batches:
            self._rows[predicate] = self._rows.get(predicate, 0) + batch.rows
            yield batch

    def _add_own_facts(self) -> None:
        """Add the temporal facts of the program itself, at one task."""
        own: dict[tuple[str, bool], list[Any]] = {}
        for fact in self.program.facts if self._mesh.number == 0 else ():
            if fact.predicate in self.program.timed:
                own.setdefault((fact.predicate, isinstance(fact, TimedFact)), []).append(fact)
        for (name, has_times), facts in own.items():
            columns = tuple(map(column_of_values, zip(*(fact.values for fact in facts), strict=True)))
            is_integer = self.program.is_integer_time
            times = times_of([fact.interval for fact in facts], is_integer) if has_times else None
            self.add(name, self._task.encode(Batch(columns, len(facts))), len(facts), times)

    def run(self) -> None:
        """Derive all facts from those that all tasks were given."""
        with self._task.guarded():
            self._add_own_facts()
            sizes = self._agree()
            try:
                self._division = divide(self.program, self._time, sizes, self._task.owners)
            except NotLocalisable as reason:
                raise refused(reason) from None
            self._task.check_same(repr(self._division))
            for name in sorted(self.program.timed & self.division.homes.keys()):
                self._tables[name] = self._dealt(name)
            self._given = {}
        self._task.run()
        with self._task.guarded():
            for name in sorted(self.division.homes.keys() - self.program.timed):
                columns, count = self._task.columns(name)
                self._tables[name] = self._sent(
                    (name, self.division.homes[name]), *_at_all_times(columns, count)
                )
            self._derive()

    def _agree(self) -> dict[str, int]:
        """Agree on one timeline with all tasks; return how many rows they were given, by predicate."""
        horizon = self._time.horizon
        intervals = [each for rule in self.program.timed_rules for each in intervals_of(rule)]
        intervals += [] if horizon is None else [horizon]
        timeline = Timeline(is_integer=self.program.is_integer_time).refined(intervals)
        mine = [each.timeline for parts in self._given.values() for _, _, each in parts if each is not None]
        own = {
            "scale": lcm(timeline.scale, *(each.scale for each in mine)),
            "is_calendar": timeline.is_calendar or any(each.is_calendar for each in mine),
            "rows": self._rows,
        }
        answers = [json.loads(each) for each in self._task.all_gather(json.dumps(own).encode())]
        scale, is_calendar = (
            lcm(*(each["scale"] for each in answers)),
            any(each["is_calendar"] for each in answers),
        )
        self._store = TimedStore(self._task.engine, replace(timeline, scale=scale, is_calendar=is_calendar))
        self._tables: dict[str, TimedTable] = {}
        sizes: dict[str, int] = {}
        for each in answers:
            for name, rows in each["rows"].items():
                sizes[name] = sizes.get(name, 0) + rows
        return sizes

    def _dealt(self, name: str) -> TimedTable:
        """Send explicit facts of a predicate to its home; return those that belong here."""
        parts = self._given.pop(name, [])
        count = sum(rows for _, rows, _ in parts)
        columns = [
            np.concatenate(column) for column in zip(*(columns for columns, _, _ in parts), strict=True)
        ]
        ends = [_ends(times, rows, self.timeline) for _, rows, times in parts]
        left, right = (np.concatenate(each) for each in zip(*ends, strict=True)) if ends else _no_ends()
        return self._sent((name, self.division.homes[name]), columns, left, right, count)

    def _sent(
        self, source: Source, columns: Sequence[Ids], left: Integers, right: Integers, count: int
    ) -> TimedTable:
        """Send facts of a predicate to a place, with their times; return those that belong here."""
        name, place = source
        arity = self.program.predicates[name].arity
        (parts,) = self._task.shuffle_with_integers([(columns, (left, right), count)], place)
        table = TimedTable(copy_name(source, self.division.homes), arity)
        for ids, ends, rows in parts:
            _gain(table, np.array(ids, np.int32).reshape(arity, rows), *ends)
        return table

    def _derive(self) -> None:
        self._store.tables = self._tables
        self._horizon = self._cutting()
        rounds, is_complete = 0, True
        for phase in self.division.phases:
            if not is_complete:
                raise not_finished(self._time.rounds, [each.original for each in phase.rules])
            for source in phase.copies:
                copy = self._sent(source, *self._rows_of(source[0]))
                self._tables[copy.name] = copy
            outcome = self._run(phase)
            for name in phase.sent:
                self._send_home(name)
            for name in phase.kept:
                self._keep_own(name)
            for name in phase.dropped:
                del self._tables[name]
            rounds, is_complete = max(rounds, outcome.rounds), outcome.is_fixpoint
            if self._time.rounds is not None or self._is_counted:
                is_complete = self._synchronise(is_complete)
        self._end(rounds, is_complete)

    def _cutting(self) -> Horizon | None:
        horizon = self._time.horizon
        if horizon is None:
            return None
        return Horizon(horizon, direction(self.program.timed_rules), self.timeline)

    def _run(self, phase: DivisionPhase) -> TimedOutcome:
        """Derive all facts from those of this task, by the rules of a phase."""
        for name, named in (
            *((each, outbox) for each in phase.sent),
            *((each, own_outbox) for each in phase.kept),
        ):
            self._tables[named(name)] = TimedTable(named(name), self.program.predicates[name].arity)
        if not self._task.is_owner:
            return TimedOutcome(0, True)
        identity = self._task.dictionary.encode
        compiled = [
            compile_metric_rule(each.rule, each.number, self.timeline, identity) for each in phase.rules
        ]
        outcome = Derivation(
            self._store,
            compiled,
            ignore_events,
            self._check,
            self._time.procedure,
            self._time.rounds,
            self._horizon,
        ).run()
        self._note_violations(phase, compiled)
        return outcome

    def _send_home(self, name: str) -> None:
        """Send facts that were derived for other tasks to their home."""
        home = self.division.homes[name]
        arrived = self._sent((name, home), *self._rows_of(outbox(name)))
        del self._tables[outbox(name)]
        _gain(self._tables[name], *arrived.rows())

    def _keep_own(self, name: str) -> None:
        """Of facts that all tasks have derived, keep those that belong here."""
        home = self.division.homes[name]
        columns, left, right = self._tables.pop(own_outbox(name)).rows()
        if len(left) and isinstance(home, int):
            own = self._task.owned_rows(np.ascontiguousarray(columns[home]))
            _gain(self._tables[name], columns[:, own], left[own], right[own])

    def _rows_of(self, name: str) -> tuple[Sequence[Ids], Integers, Integers, int]:
        columns, left, right = self._tables[name].rows()
        return [np.ascontiguousarray(column) for column in columns], left, right, len(left)

    def _check(self) -> None:
        """Raise if a limit has been reached, or another task has failed."""
        self._task.count_extra_facts(self._held if self._is_counted else 0)

    @property
    def _held(self) -> int:
        """How many intervals the facts of this task have."""
        if not self._task.is_owner:
            return 0
        homes = self.division.homes
        return sum(
            len(self._tables[name])
            for name in self.program.timed & homes.keys()
            if homes[name] is not EVERYWHERE or self._mesh.number == 0
        )

    def _synchronise(self, is_complete: bool) -> bool:
        """Exchange the number of facts between all tasks; return whether all have derived everything."""
        self._check()
        own = json.dumps([self._task.facts, is_complete]).encode()
        answers = [json.loads(each) for each in self._task.all_gather(own)]
        self._task.count_extra_facts(self._held, sum(facts for facts, _ in answers) - self._task.facts)
        return all(complete for _, complete in answers)

    def _note_violations(self, phase: DivisionPhase, compiled: Sequence[CompiledMetricRule]) -> None:
        """Note an instance of each constraint that is violated here."""
        evaluation = BodyEvaluation(self._store, ExpressionEvaluator(self._task.engine))
        for each, made in zip(phase.rules, compiled, strict=True):
            if each.original.head.predicate == BOTTOM and (not each.is_replicated or self._mesh.number == 0):
                found = find_violation(made, each.original, self.program, evaluation, self._store, -INFINITY)
                if found is not None:
                    self._violations[each.number] = found

    def _end(self, rounds: int, is_complete: bool) -> None:
        """Exchange the outcome between all tasks; until then, an error of one is raised by all."""
        is_cut = self._horizon is not None and self._horizon.is_cut
        violations = [asdict(each) for each in self._violations.values()]
        own = json.dumps([rounds, is_complete, is_cut, violations]).encode()
        answers = [json.loads(each) for each in self._task.all_gather(own)]
        if self._horizon is not None:
            self._horizon.is_cut = any(each[2] for each in answers)
        self.outcome = TimedOutcome(
            max(each[0] for each in answers), all(each[1] for each in answers), self._horizon
        )
        several: dict[int, list[TimedViolation]] = {}
        for *_, found in answers:
            for each in (TimedViolation(**fields) for fields in found):
                several.setdefault(each.rule, []).append(each)
        self._violations = {number: merge_violations(each) for number, each in sorted(several.items())}

    def violations(self) -> list[Diagnostic]:
        """Return which constraints are violated at some time; all tasks know, and the first one reports."""
        if BOTTOM not in self.program.timed or self._mesh.number:
            return []
        if not self._violations and not len(self._tables[BOTTOM]):
            return []
        return describe_timed_violations(self._violations.values(), self.program)

    def columns(self, predicate: str) -> tuple[Sequence[Ids], int]:
        """Return this task's part of a predicate's facts as ids, a row for each interval, and how many."""
        if predicate not in self.program.timed:
            return self._task.columns(predicate)
        columns, _, _, count = self._part(predicate)
        return columns, count

    def _part(self, predicate: str) -> tuple[Sequence[Ids], Integers, Integers, int]:
        """Return this task's part of temporal facts."""
        if self.division.homes[predicate] is EVERYWHERE and self._mesh.number:
            arity = self.program.predicates[predicate].arity
            return tuple(np.zeros(0, np.int32) for _ in range(arity)), *_no_ends(), 0
        return self._rows_of(predicate)

    def relation(self, predicate: str) -> Relation:
        """Return this task's part of a predicate's facts; the parts of all tasks are disjoint."""
        if predicate not in self.program.timed:
            return self._task.relation(predicate)
        columns, left, right, _ = self._part(predicate)
        names = column_names(self.program.predicates[predicate])
        dictionary = self._task.dictionary
        return TimedRelation(
            predicate, names, tuple(columns), left, right, dictionary, self.timeline, INTERVAL
        )

    @property
    def dropped(self) -> int:
        """How many rows all tasks have dropped for want of a value, once facts are collected."""
        return self._task.dropped

    def missing(self) -> tuple[MissingValues, ...]:
        """Return how often functions had no value at this task: it does not find out which."""
        dropped = self._task.engine.dropped
        return (MissingValues(self.program.rules[0], "", dropped),) if dropped else ()

    def collect(self, predicates: Sequence[str]) -> dict[str, list[Any]]:
        """Send all facts of predicates to the task behind the owners; return them there, as ids.

        Temporal facts are `Extended`, with the ends of intervals.
        """
        timed = self.program.timed
        found: dict[str, list[Any]] = dict(
            self._task.collect([name for name in predicates if name not in timed])
        )
        with self._task.guarded():
            for name in predicates:
                if name in timed:
                    columns, left, right, count = self._part(name)
                    part: Extended = (columns, (left, right), count if self._task.is_owner else 0)
                    (found[name],) = self._task.shuffle_with_integers([part], TO_LAST)
        return found


def _untimed(program: Program) -> Program:
    """Return the part of a program without times."""
    timed = program.timed
    return replace(
        program.static,
        predicates={name: each for name, each in program.predicates.items() if name not in timed},
        facts=tuple(fact for fact in program.facts if fact.predicate not in timed),
        given_times=frozenset(),
    )


def _at_all_times(columns: Sequence[Ids], count: int) -> tuple[Sequence[Ids], Integers, Integers, int]:
    return columns, np.full(count, -INFINITY), np.full(count, INFINITY), count


def _ends(times: RowTimes | None, rows: int, timeline: Timeline) -> tuple[Integers, Integers]:
    """Return the ends of intervals on a timeline."""
    if times is None:
        return np.full(rows, -INFINITY), np.full(rows, INFINITY)
    return times.on(timeline)


def _no_ends() -> tuple[Integers, Integers]:
    return np.zeros(0, np.int64), np.zeros(0, np.int64)


def _gain(table: TimedTable, columns: Any, left: Integers, right: Integers) -> None:
    """Add facts to a table, row by row with their ends."""
    if len(left):
        numbers = table.number(np.ascontiguousarray(columns), len(left))
        table.gain(*single(left.copy(), right.copy()).grouped(numbers))
