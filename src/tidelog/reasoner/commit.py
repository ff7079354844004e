"""Commits: the stages that a transaction goes through, each with what undoes it. Mutates everything.

`Committer._stages` has the tuple. A stage that a program does not need is not in its tuple.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import partial, reduce
from time import perf_counter
from typing import TYPE_CHECKING, Any, NamedTuple, Protocol

import numpy as np

from tidelog.data.rows import Rows, distinct, select, without
from tidelog.engine.events import MissingValues, Notice, ValuesMissing
from tidelog.engine.flags import Flag
from tidelog.engine.interrupts import INTERRUPTS
from tidelog.errors import Diagnostic, ProgramError, Severity
from tidelog.errors.codes import NOT_A_FACT, NOT_EXPLICIT, PROGRAM_CHANGED, TIME_NOT_CHANGED
from tidelog.logic.program import BOTTOM, Fact, Predicate, Program, Query
from tidelog.logic.resolve import EMPTY, giving_times
from tidelog.logic.scopes import by_position
from tidelog.logic.type_inference import Schema
from tidelog.logic.values import ColumnType
from tidelog.maintenance.maintainer import NO_UPDATE, NetChange, Update
from tidelog.plan.rule_text import Writing
from tidelog.query.kept_queries import KeptProgram, KeptQuery, QueryStep
from tidelog.reasoner.constraints import check_consistency
from tidelog.reasoner.delta import Delta
from tidelog.reasoner.loading import LoadedData, SchemasOf
from tidelog.reasoner.program_state import History
from tidelog.reasoner.runtime import (
    Applier,
    OpenTransaction,
    PendingUpdate,
    SharedParts,
    missing_after,
    run,
    within_limits,
)
from tidelog.reasoner.transaction import Change, StagedRows
from tidelog.records import dataclass
from tidelog.temporal.temporal import is_timed
from tidelog.temporal.timed_changes import given_before

if TYPE_CHECKING:
    from tidelog.engine.columnar.engine import ColumnarEngine
    from tidelog.temporal.temporal import Temporal

ALIVE, EXPLICIT = int(Flag.ALIVE), int(Flag.EXPLICIT)
SHOWN = 5  # facts named in a diagnostic about many


NONE_WATCHED: Mapping[str, Predicate] = {}
NO_STEP = QueryStep(NO_UPDATE, EMPTY, EMPTY, KeptProgram())


class Needs(NamedTuple):
    """What a transaction needs stages for."""

    times: bool = False
    equality: bool = False
    constraints: bool = False
    other_program: bool = False
    kept_queries: bool = False
    open_streams: bool = False
    publication: bool = False
    store: bool = False
    dry_run: bool = False


@dataclass(slots=True, eq=False, kw_only=True)
class PendingCommit(PendingUpdate):
    """A transaction on its way through the stages."""

    change: Change
    needs: Needs
    start: float
    notices: tuple[Diagnostic, ...] = ()
    dropped: int = 0  # rows that plans had dropped before it
    delta: Delta = field(init=False)


Stage = Callable[[PendingCommit], None]


class TransactionLog(Protocol):
    """Where transactions are written before they are acknowledged."""

    def begin(self) -> None:
        """Note where the log ends; raise `DataError` if it cannot be written."""

    def append(self, change: Change) -> None:
        """Write a transaction that has been applied."""

    def withdraw(self) -> None:
        """Delete the record of a transaction that was not committed, if there is one."""

    def confirm(self) -> None:
        """Acknowledge what was written last."""


class Committer:
    """Commits transactions, and tries them out."""

    def __init__(
        self, shared: SharedParts, applier: Applier, data: LoadedData, complete: Callable[[], None]
    ) -> None:
        self.history = History()
        self.log: TransactionLog | None = None  # of reasoners that are stored
        self._runtime = shared.runtime
        self._engine = shared.runtime.engine
        self._program = shared.program
        self._derived = shared.derived
        self._applier = applier
        self._recovery = shared.recovery
        self._demands = shared.demands
        self._requeried = shared.requeried
        self._strategies = shared.strategies
        self._time = shared.time
        self._data = data
        self._subscriptions = shared.subscriptions
        self._complete = complete
        self._traits: tuple[Program | None, Needs] = None, Needs()  # of the present program
        self._tuples: dict[Needs, tuple[Stage, ...]] = {}

    def commit(self, change: Change) -> Delta:
        """Commit a transaction: all of it, or none of it and an error."""
        return self._run(change, self._needs(change))

    def try_out(self, change: Change) -> Delta:
        """Return what a transaction would change: it goes through the same stages, and is rolled back."""
        return self._run(change, self._needs(change)._replace(dry_run=True, publication=False, store=False))

    def _run(self, change: Change, needs: Needs) -> Delta:
        stages = self._tuples.get(needs)
        if stages is None:
            stages = self._tuples[needs] = self._stages(needs)
        commit = PendingCommit(NO_STEP, change=change, needs=needs, start=perf_counter())
        run(commit, stages)
        return commit.delta

    def _needs(self, change: Change) -> Needs:
        """Return what a transaction needs stages for."""
        current = self._program.current
        if self._traits[0] is not current:
            self._traits = current, _traits(current)
        needs = self._traits[1]
        has_times = change.has_times
        is_other = change.program is not current or has_times
        if is_other:
            own = _traits(change.program)
            needs = Needs(
                times=needs.times or own.times or has_times,
                equality=needs.equality or own.equality,
                constraints=needs.constraints or own.constraints,
            )
        kept = is_other or not self._derived.is_materialised or bool(self._demands.kept.arities)
        used = bool(self._strategies.by_name)
        stored, shown = self.log is not None, change.publish is not None
        if not (kept or used or shown or stored):
            return needs
        return Needs(
            needs.times, needs.equality, needs.constraints, is_other, kept, used, shown, stored, False
        )

    def _stages(self, needs: Needs) -> tuple[Stage, ...]:
        """Return the stages of a transaction, in order; brackets are stages that run others.

        From `maintain` to `append_to_store` limits hold. Where facts hold at times, `advance_time` undoes
        itself if one of the stages after it raises.
        """
        accepting = _needed(
            (self._check_constraints, needs.constraints),
            (self._show_delta, needs.publication),
            (self._append_to_store, needs.store),
        )
        applying = (
            (self._applier.maintain, self._report_missing, self._advance_time(accepting))
            if needs.times and not needs.dry_run
            else (self._applier.maintain, self._report_missing, *accepting)
        )
        changing = _needed(
            (self._drain_streams, needs.open_streams),
            (within_limits(self._runtime, (self._normalise,)), True),  # it may build sets of rows
            (self._normalise_times, needs.times),
            (self._expand_equality, needs.equality),
            (self._leave_out_times, needs.times),
            (self._refuse_times, needs.times and needs.dry_run),
            (self._reset_counts, True),
            (self._define_relations, needs.other_program),
            (self._extend_kept_queries, needs.kept_queries),
            (within_limits(self._runtime, applying), True),
            (self._install, not needs.dry_run),
            (self._requery, needs.equality and not needs.dry_run),
            (self._make_delta, True),
            (self._roll_back, needs.dry_run),
        )
        return _needed(
            (self._check_base, True),
            (self._all_or_nothing(changing), True),
            (self._publish, not needs.dry_run),
        )

    def _check_base(self, commit: PendingCommit) -> None:
        """Raise if a transaction cannot be committed on what there is now, or not to the store."""
        change = commit.change
        if self.log is not None and commit.needs.store:
            self.log.begin()
            commit.undo.append(self.log.withdraw)
        self._recovery.recover()
        if change.batch is not None and change.batch.repeats(self.history.batches):
            raise change.batch.refused("has been applied already", "ask `has_applied` before")
        if change.before is not self._program.current:
            message = "the program was changed while this transaction was prepared"
            raise ProgramError(Diagnostic(PROGRAM_CHANGED, message, help="begin the transaction again"))

    def _all_or_nothing(self, stages: tuple[Stage, ...]) -> Stage:
        """Return a stage that runs others; after a fault everything is derived from explicit facts again."""

        def all_or_nothing(commit: PendingCommit) -> None:
            def act(opened: OpenTransaction) -> None:
                commit.opened = opened
                outer, commit.undo = commit.undo, []
                try:
                    run(commit, stages)
                finally:
                    commit.undo = outer

            change = commit.change
            is_advancing = commit.needs.times and change.has_times and change.times.advance is not None
            self._recovery.whole(act, is_advancing=is_advancing)

        return all_or_nothing

    def _drain_streams(self, commit: PendingCommit) -> None:
        self._strategies.drain()

    def _normalise(self, commit: PendingCommit) -> None:
        """Compare the staged facts with those that exist."""
        change = commit.change
        update, notices = normalise(change, self._engine, self._time)
        for item in notices:
            self._runtime.tell(Notice(f"{item.location + ': ' if item.location else ''}{item.message}"))
        commit.notices = notices
        commit.opened.explicit_changes = update
        before, after = self._program.current.static, change.program.static
        commit.step = QueryStep(update, before, after, self._demands.kept)

    def _refuse_times(self, commit: PendingCommit) -> None:
        self._time.refuse_rehearsal(commit.change.program)

    def _normalise_times(self, commit: PendingCommit) -> None:
        """Note the given facts as they are, and derive everything if predicates begin to have times."""
        change, current = commit.change, self._program.current
        if not change.program.timed <= current.timed:
            for asked in (*self._demands.asked, *self._requeried.watched.values()):
                check_kept(asked.query, change.program)
            self._complete()
        commit.opened.times = given_before(self._time.store, change.times)

    def _expand_equality(self, commit: PendingCommit) -> None:
        """Replace the programs by what they mean with equality, and the rules of the update accordingly."""
        equality, after, before = self._program.equality, commit.change.program, self._program.current
        equality.check(after)
        first, last = equality.meaning(before.static), equality.meaning(after.static)
        update = equality.update(commit.step.update, before.static, after.static)
        commit.step = replace(commit.step, update=update, before=first, after=last)

    def _leave_out_times(self, commit: PendingCommit) -> None:
        """Leave the rules over time to `advance_time`."""
        step, timed = commit.step, commit.change.program.timed
        update = step.update.without(timed).removing(step.before.rules, timed)
        commit.step = replace(step, update=update)

    def _reset_counts(self, commit: PendingCommit) -> None:
        """Count what this transaction does, and nothing that was done before."""
        tally = self._runtime.statistics
        loaded, derived = tally.loaded, tally.derived

        def restore() -> None:
            tally.loaded, tally.derived = loaded, derived

        tally.clear()
        tally.derived = derived
        commit.dropped = self._engine.dropped
        commit.undo.append(restore)

    def _define_relations(self, commit: PendingCommit) -> None:
        """Define the relations of predicates that are new."""
        before, after = commit.step.before.predicates, commit.step.after.predicates
        for name, predicate in after.items():
            if name not in before:
                commit.undo.append(partial(self._engine.storage.drop, name))
                self._engine.storage.define(name, predicate.arity)

    def _extend_kept_queries(self, commit: PendingCommit) -> None:
        """Add what the update means for kept queries."""
        step = commit.step
        commit.step = self._demands.step(step.update, step.before, step.after)

    def _report_missing(self, commit: PendingCommit) -> None:
        """Report which rows the change has brought that rules drop because a function has no value."""
        if self._engine.dropped == commit.dropped:
            return
        self._tell_missing(commit, missing_after(commit.step, commit.net, self._runtime))

    def _report_missing_over_time(self, commit: PendingCommit) -> None:
        """Report which rows rules over time drop, of those that drop more than before."""
        if self._engine.dropped == commit.dropped:
            return
        from tidelog.temporal.body_evaluation import find_missing_over_time

        missing = find_missing_over_time(commit.change.program.timed_rules, self._time.store)
        self._tell_missing(commit, self._runtime.grown(missing))

    def _tell_missing(self, commit: PendingCommit, missing: tuple[MissingValues, ...]) -> None:
        from tidelog.engine.missing_values import describe_missing

        commit.dropped = self._engine.dropped
        if missing:
            self._runtime.tell(ValuesMissing(missing))
            commit.notices += tuple(describe_missing(missing, Writing.of(commit.change.program)))

    def _advance_time(self, accepting: tuple[Stage, ...]) -> Stage:
        """Return the stage for facts that hold at times; it is undone if one of the others raises."""

        def advance_time(commit: PendingCommit) -> None:
            change, tell, check = commit.change, self._runtime.tell, self._runtime.check
            programs = self._program.current, change.program

            def accept() -> None:
                self._report_missing_over_time(commit)
                for stage in accepting:
                    stage(commit)

            commit.net = self._time.change(change.times, commit.net, programs, tell, check, accept)

        return advance_time

    def _check_constraints(self, commit: PendingCommit) -> None:
        """Raise `Inconsistent` if equality or a constraint is violated."""
        check_consistency(commit.change.program.static, self._program, self._demands, self._engine)

    def _show_delta(self, commit: PendingCommit) -> None:
        """Call the caller's function with the delta, without times, while all can be rolled back."""
        change = commit.change
        if change.publish is not None:
            with INTERRUPTS.let_through():
                change.publish(self._delta(commit, ahead=1))

    def _append_to_store(self, commit: PendingCommit) -> None:
        if self.log is not None:
            self.log.append(commit.change)

    def _install(self, commit: PendingCommit) -> None:
        """Make the transaction's outcome the present state."""
        change, opened, history, state = commit.change, commit.opened, self.history, self._program
        if commit.step.kept is not self._demands.kept:
            self._demands.adopt(commit.step)
        inserted, unread = self._data.inserted, self._data.types.unread
        for name, rows in commit.step.update.added.items():
            if not (name in inserted and name in unread):  # else its rows are read when types are asked for
                self._data.note_rows(name, rows.columns)
        if commit.needs.times and change.has_times:
            for name, timed in change.times.added:
                self._data.types.note_rows(name, timed.columns)
        # From here on a fault leads to the state after the transaction: nothing is called in between.
        opened.program, opened.explicit_changes, opened.times = change.program, NO_UPDATE, {}
        opened.is_committed = commit.is_installed = True
        state.current, state.with_facts, self._derived.inconsistency = change.program, None, None
        if change.batch is not None:
            history.batches[change.batch.app] = change.batch
        history.commits += 1

    def _requery(self, commit: PendingCommit) -> None:
        """Ask live queries again whose answers are looked up, and add what has changed in these."""
        if self._requeried.watched:
            net = commit.net
            with self._runtime.no_limits().guarding():
                added, deleted = self._requeried.changes(frozenset((*net.added, *net.removed)))
            commit.net = NetChange({**net.added, **added}, {**net.removed, **deleted})

    def _make_delta(self, commit: PendingCommit) -> None:
        commit.delta = self._delta(commit)

    def _roll_back(self, commit: PendingCommit) -> None:
        """Undo a dry run; if that fails, everything is derived again, whatever has failed."""
        commit.opened.is_rolling_back = True
        commit.roll_back()
        commit.opened.is_rolling_back = False

    def _publish(self, commit: PendingCommit) -> None:
        """Acknowledge the transaction to the store, and queue its delta for subscribers."""
        if self.log is not None:
            self.log.confirm()
        if self._subscriptions.all:
            self._subscriptions.announce(commit.delta)

    def _delta(self, commit: PendingCommit, ahead: int = 0) -> Delta:
        """Return what a transaction changes; it is the next one after `ahead` others."""
        change, net = commit.change, commit.net
        live: dict[str, KeptQuery] = {}
        if self._demands.kept.arities:
            live |= self._demands.watched
        if commit.needs.equality:
            live |= self._requeried.watched
        watched = {name: _described(asked) for name, asked in live.items()} if live else NONE_WATCHED
        schema = self._schema_of_change(change, live)
        number, seconds = self.history.commits + ahead, perf_counter() - commit.start
        known, dictionary = change.program.predicates, self._engine.storage.dictionary
        return Delta(net, known, dictionary, number, seconds, commit.notices, watched, schema)

    def _schema_of_change(
        self, change: Change, live: Mapping[str, KeptQuery]
    ) -> Callable[[Predicate], Schema]:
        """Return the types of the changed rows: those that were deleted followed from the rules before."""
        facts, types, programs = self._program.facts.stated, self._data.types, (change.before, change.program)
        found: list[SchemasOf] = []

        def schema(predicate: Predicate) -> Schema:
            if not found:
                found.extend(types.now(program, facts) for program in programs)
            before, after = found
            if predicate.name in live:
                return after.of_answers(live[predicate.name].query)
            if before is after or predicate.name not in change.before.predicates:
                return after.of(predicate)
            pairs = zip(before.of(predicate), after.of(predicate), strict=True)
            return tuple(replace(new, types=old.types | new.types) for old, new in pairs)

        return schema


def _described(asked: KeptQuery) -> Predicate:
    """Return the answers of a live query as a predicate, for those who are told of its changes."""
    names = asked.query.variables
    return Predicate(asked.name, len(names), names, (ColumnType.ANY,) * len(names), asked.query.text.strip())


def _needed(*stages: tuple[Stage, bool]) -> tuple[Stage, ...]:
    return tuple(stage for stage, is_needed in stages if is_needed)


def _traits(program: Program) -> Needs:
    """Return what each transaction on a program needs stages for."""
    equality = program.has_equality
    return Needs(bool(program.timed), equality, equality or BOTTOM in program.predicates)


def check_kept(query: Query, program: Program) -> None:
    """Raise ProgramError if the answers to a query cannot be maintained by a program."""
    if is_timed(query, program):
        message = "answers to queries over temporal facts cannot be kept yet"
        help = "query again after each change, or subscribe to the predicate"
        raise ProgramError(Diagnostic(TIME_NOT_CHANGED, message, help=help))


def normalise(
    change: Change, engine: ColumnarEngine, time: Temporal
) -> tuple[Update, tuple[Diagnostic, ...]]:
    """Return the update of a transaction, and notices of what does not exist; raise if that is an error.

    A fact without times, of a predicate that has some, is given always.
    """
    return _Normalising(change, engine, time).result()


class _Normalising:
    """A transaction whose facts are compared with the explicit ones of an engine."""

    def __init__(self, change: Change, engine: ColumnarEngine, time: Temporal) -> None:
        self._change = change
        self._engine = engine
        self._time = time

    def result(self) -> tuple[Update, tuple[Diagnostic, ...]]:
        """Return the update, and the notices."""
        change = self._change
        staged, added = change.deletions.rows(), change.insertions.rows()
        removed = staged
        if removed and not self._are_explicit(removed):
            for name, items in change.deletions.items().items():
                self._check_explicit(name, items)
            removed = {name: self._explicit(name, rows) for name, rows in removed.items()}
        if change.has_times or not change.program.timed.isdisjoint(staged):
            for name, rows in self._settle_times(staged).items():
                removed[name] = distinct([*([removed[name]] if name in removed else ()), rows])
        outcome = change.rule_outcome
        notices = self._report_missing() if change.errors or outcome is not None else ()
        if not removed.keys().isdisjoint(added):
            for name in removed.keys() & added.keys():
                removed[name] = without(removed[name], added[name])
        new = self._new(added) if added else added
        rules = () if outcome is None else (outcome.removed, outcome.added)
        change.update = Update(_present(removed), _present(new), *rules)
        change.inserted = change.update.additions
        return change.update, notices

    def _settle_times(self, removed: Mapping[str, Rows]) -> dict[str, Rows]:
        """Settle what is said about times; return the facts without times to delete on account of it."""
        change, given = self._change, self._time.normaliser
        timed = change.program.timed.union(name for name, _ in change.times.removed)
        always = {
            name: select(rows, given.are_explicit(name, rows) | ((self._flags(name, rows) & EXPLICIT) != 0))
            for name, rows in removed.items()
            if name in timed
        }
        deleted, errors = given.normalise(change.times, _present(always))
        change.errors += errors
        names = {name for name, _ in (*change.times.removed, *change.times.added)}
        if not names <= change.program.given_times:
            change.program = giving_times(change.program, names)
        return deleted

    def _report_missing(self) -> tuple[Diagnostic, ...]:
        outcome = self._change.rule_outcome
        missing = (*self._change.errors, *(outcome.missing if outcome is not None else ()))
        if missing and self._change.missing == "error":
            raise ProgramError(by_position(missing))
        return tuple(replace(item, severity=Severity.WARNING) for item in missing)

    def _are_explicit(self, rows: Mapping[str, Rows]) -> bool:
        """Whether all rows are explicit facts."""
        if not rows.keys() <= self._change.before.predicates.keys():
            return False
        return bool(self._engine.storage.standing(rows)[0] & EXPLICIT)

    def _new(self, rows: Mapping[str, Rows]) -> Mapping[str, Rows]:
        """Return those that are not explicit."""
        predicates = self._change.before.predicates
        known = rows
        if not rows.keys() <= predicates.keys():
            known = {name: some for name, some in rows.items() if name in predicates}
        if not self._engine.storage.standing(known)[1] & EXPLICIT:
            return rows
        return {name: select(some, (self._flags(name, some) & EXPLICIT) == 0) for name, some in rows.items()}

    def _explicit(self, name: str, rows: Rows) -> Rows:
        return select(rows, (self._flags(name, rows) & EXPLICIT) != 0)

    def _flags(self, name: str, rows: Rows) -> Any:
        if name not in self._change.before.predicates:
            return np.zeros(rows.count, np.uint8)
        return self._engine.storage.row_flags(name, rows.columns, rows.count)

    def _check_explicit(self, name: str, staged: Sequence[StagedRows]) -> None:
        """Note every fact to delete that is not explicit, nor given at some time."""
        for item in staged:
            flags = self._flags(name, item.rows)
            if name in self._change.program.timed:
                flags = flags | np.where(self._time.normaliser.are_explicit(name, item.rows), EXPLICIT, 0)
            if bool((flags & EXPLICIT).all()):
                continue
            derived = np.flatnonzero(flags == ALIVE)
            missing = np.flatnonzero(flags == 0)
            self._change.errors += self._described(name, item, missing, NOT_A_FACT)
            self._change.errors += self._described(name, item, derived, NOT_EXPLICIT)

    def _described(self, name: str, staged: StagedRows, positions: Any, code: str) -> Iterator[Diagnostic]:
        """Yield a diagnostic for each fact that a text has, one in all for others."""
        if not len(positions):
            return
        reason, help = _REASONS[code]
        if staged.spans:
            for position in positions.tolist():
                text = self._texts(name, staged.rows, [position])[0]
                yield Diagnostic(code, f"`{text}` {reason}", staged.spans[position], help)
            return
        texts = [f"`{text}`" for text in self._texts(name, staged.rows, positions[:SHOWN].tolist())]
        more = f" and {len(positions) - SHOWN:,} more" if len(positions) > SHOWN else ""
        words = (("is ", "are "), ("does ", "do "), ("so it ", "so they ")) if len(positions) > 1 else ()
        verb = reduce(lambda text, pair: text.replace(*pair, 1), words, reason)
        yield Diagnostic(code, f"{', '.join(texts)}{more} {verb}", help=help)

    def _texts(self, name: str, rows: Rows, positions: Sequence[int]) -> list[str]:
        """Return facts as the program would write them."""
        writing = Writing.of(self._change.program)
        decode = self._engine.storage.dictionary.decode
        return [
            writing.fact(Fact(name, tuple(decode(int(column[position])) for column in rows.columns)))
            for position in positions
        ]


_REASONS: Mapping[str, tuple[str, str]] = {
    NOT_A_FACT: (
        "does not exist, so it cannot be deleted",
        'remove the deletion, or skip missing facts: missing="ignore", `--missing ignore`',
    ),
    NOT_EXPLICIT: (
        "is derived, not explicit, so it cannot be deleted",
        "delete what it is derived from, or a rule that derives it",
    ),
}


def _present(rows: Mapping[str, Rows]) -> dict[str, Rows]:
    """Return the relations that have rows."""
    return {name: some for name, some in rows.items() if some.count}
