"""The reasoner: a program, its facts, and everything that follows. Mutates itself."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager, suppress
from dataclasses import replace
from functools import partial
from pathlib import Path
from time import perf_counter
from typing import Any, TypeVar

import numpy as np

from tidelog.data.relation import Relation
from tidelog.engine import registry as engines
from tidelog.engine.events import FactsRemoved, Listener, Notice
from tidelog.engine.interrupts import INTERRUPTS, Lock, locked
from tidelog.engine.registry import EngineSettings
from tidelog.equality import rewriting as treatments
from tidelog.equality.listing import EXPAND
from tidelog.equality.rewriting import Rewriting
from tidelog.errors import Diagnostic, Inconsistent, ProgramError, counted
from tidelog.io.rejects import Faults, OnError
from tidelog.logic.equality_axioms import has_equality
from tidelog.logic.intervals import Point
from tidelog.logic.program import BOTTOM, Folders, Predicate, Program, Query, Rule, Sandbox
from tidelog.logic.resolve import program_of
from tidelog.logic.strata import Stratum, strata
from tidelog.logic.type_inference import LazySchema, Schema
from tidelog.logic.values import ColumnType
from tidelog.maintenance import registry
from tidelog.maintenance.maintainer import Maintainer, NetChange, Update
from tidelog.plan.join_order import Statistics
from tidelog.query import registry as strategies
from tidelog.query.kept_queries import Asked, Demands, Step
from tidelog.query.query_keepers import Keeping, LookingUp
from tidelog.query.strategy import TABLE_MEMORY, Answers, Place, inconsistency
from tidelog.reasoner.commit import NOTHING, Begun, Committing, Runtime, is_orderly, not_recovered
from tidelog.reasoner.constraints import violations
from tidelog.reasoner.delta import Delta, find_predicate
from tidelog.reasoner.loading import Loading
from tidelog.reasoner.relation_types import Schemas, SchemasOf
from tidelog.reasoner.staged_facts import ProgramFacts
from tidelog.reasoner.streaming import Changes, Stream, stream_async
from tidelog.reasoner.subscriptions import Callback, Deltas, Subscription, Subscriptions
from tidelog.reasoner.transaction import Change
from tidelog.rewrite.representatives import ALIAS
from tidelog.store.forms import BatchId
from tidelog.temporal.temporal import USUAL, Temporal, TimeSettings, is_timed
from tidelog.temporal.timed_changes import given_before, restore_given

PROGRAM_CHANGED = "E634"
T = TypeVar("T")


class Reasoner(Loading):
    """Facts, rules, and all that follows from them.

    The program is a `Program`, its text, or the `Path` of its file.

    >>> import tidelog as tl
    >>> reasoner = tl.Reasoner('''
    ...     ancestor(?x, ?y) :- parent(?x, ?y) .
    ...     ancestor(?x, ?z) :- ancestor(?x, ?y), parent(?y, ?z) .
    ... ''')
    >>> reasoner.insert("parent", [("alice", "bob"), ("bob", "carol")])
    2
    >>> reasoner.materialise()
    >>> reasoner.query("ancestor(alice, ?who)")
    ancestor(alice, ?who): 2 rows
      who
      bob
      carol
    >>> with reasoner.change() as change:
    ...     change.delete("parent", [("alice", "bob")])
    >>> print(change.delta)
    +0 −3
    """

    def __init__(
        self,
        program: Program | Path | str | None = None,
        *,
        engine: str | EngineSettings = "columnar",
        maintainer: str = registry.DEFAULT,
        marking: str = registry.DEFAULT_MARKING,
        modules: bool = True,
        equality: str = treatments.DEFAULT,
        unique_names: bool = False,
        equal: str = "expand",
        threads: int | None = None,
        processes: int | None = None,
        timeout: float | None = None,
        max_facts: int | None = None,
        table_memory: int = TABLE_MEMORY,
        on_error: OnError | str = OnError.FAIL,
        rejects: Path | str = "rejects.csv",
        listeners: Iterable[Listener] = (),
        time: TimeSettings = USUAL,
        allow_read: Folders = None,
        allow_write: Folders = None,
    ) -> None:
        program = program_of(program, Sandbox.of(allow_read, allow_write))
        self.faults = Faults(OnError(on_error), Path(rejects))
        self.table_memory = table_memory  # bytes of tables that are kept between queries
        self.equal = equal  # how equal constants are shown: expand or representative
        self.commits = 0  # transactions carried out
        self.batches: dict[str, BatchId] = {}  # the last of each application that counts its transactions
        self._equality = treatments.make(equality, unique_names)
        self._program = replace(program, facts=())
        self._own = ProgramFacts(program.facts)
        self._shown: Program | None = program  # the program as it is, facts included, if that is known
        binary = sum(predicate.arity == 2 for predicate in program.predicates.values())
        self._subscriptions = Subscriptions()
        self._lock = Lock(self._subscriptions.claim, self._subscriptions.deliver)
        self._engine = engines.settings_of(engine).make(threads, binary)
        self._engine.dictionary.lock = self._lock
        self.runtime = runtime = Runtime(self._engine, listeners, timeout, max_facts)
        self.statistics = runtime.statistics
        self._processes = processes  # that derive, instead of this one
        self._modules = modules and registry.keeps_closures(maintainer, marking)
        self._make_maintainer: Callable[[], Maintainer] = lambda: registry.make(
            maintainer, marking, self._engine, runtime.tell, runtime.check, self._modules
        )
        self.time = Temporal(self._engine, program, time)
        self._demands = Demands(self._engine)
        self._attach()
        super().__init__(
            Keeping(self._engine, self._demands, self._keep, self._known_meaning),
            LookingUp(self._engine, self._looked_up, self._recover),
        )
        self._begun: Begun | None = None  # a transaction that is not at its end
        self._is_materialised = False
        self._was_materialised = False
        self._inconsistency: tuple[Diagnostic, ...] | None = None
        self._is_told = False  # the inconsistency has been raised since everything was derived
        self._strata: tuple[tuple[object, ...], tuple[Stratum, ...]] | None = None
        self._schemas = Schemas(self._engine, self._explicit_columns)
        self._define_all()

    def _attach(self) -> None:
        """Make a new maintainer, which knows nothing yet."""
        self._maintainer = self._make_maintainer()
        keeping_equal = self._equality.attach(self.runtime, self._maintainer)
        self._committing = Committing(self.runtime, keeping_equal, self._demands)

    @property
    @locked
    def program(self) -> Program:
        """The program as it is now.

        Its facts are those that it stated and that were not taken away since; facts that came as data, or
        in transactions, are not among them.
        """
        self._recover()
        if self._shown is None:
            self._shown = replace(
                self._program, facts=tuple(self._own.remaining(self._engine, self.time.is_given))
            )
        return self._shown

    # ---- changes

    def change(self, *, missing: str = "error", batch: BatchId | tuple[str, int] | None = None) -> Change:
        """A transaction, to be used in a `with` block: it is carried out when the block ends well.

        Everything is derived before the first one, unless queries are watched or prepared, or there are
        tables: then these are kept right, and nothing else is derived.
        Taking away what is not there is an error; with `missing="ignore"` it is passed over, with a notice.

        `batch` is the application that sends the transaction, and its number there: a store keeps the last
        one together with the transaction, so that `has_applied` tells after any end of a process whether it
        must be sent again.
        """
        if not self._is_materialised:
            with self._lock:
                self._settle()
        change = self._begin(None, missing)
        change.batch = None if batch is None else BatchId(*batch)
        return change

    def has_applied(self, batch: BatchId | tuple[str, int]) -> bool:
        """Return whether a batch was the last one that its application sent.

        Raise `DataError` if a later one was applied, or one of another stream: then it is not known.
        """
        return BatchId(*batch).repeats(self.batches)

    @contextmanager
    def looking_ahead(self, peek: Callable[[], Update | None] | None) -> Iterator[None]:
        """In the block, let a maintainer that marks ask `peek` for what the next transaction may change."""
        lookahead = self._maintainer.lookahead
        if peek is None or lookahead is None:
            yield
            return
        former, lookahead.peek = lookahead.peek, peek
        try:
            yield
        finally:
            lookahead.peek = former

    def _begin(self, program: Program | None, missing: str) -> Change:
        """A transaction on top of a program, by default the present one."""
        self._recover()
        announce = self._subscriptions.announce
        return Change(
            program or self._program,
            self._engine,
            self.faults,
            self._lock,
            self._commit,
            announce,
            self._arriving,
            missing,
        )

    @locked
    def _begin_rehearsal(self, missing: str) -> Change:
        """A transaction that is taken back when it has been carried out, and that nobody is told of."""
        self._settle()
        program = self._program
        return Change(
            program,
            self._engine,
            self.faults,
            self._lock,
            self._rehearse,
            lambda delta: None,
            self._arriving,
            missing,
        )

    @locked
    def apply(self, script: str, *, missing: str = "error", name: str = "<changes>") -> Delta:
        """Carry out one transaction, written as a change script: `+ fact .`, `- rule .`"""
        with self.change(missing=missing) as change:
            change.apply(script, name=name)
        return change.delta

    @locked
    def advance(self, to: Point) -> Delta:
        """Advance time in a transaction: the past is final, and what can no longer matter is dropped.

        No rule may look ahead, or back without bound. Answers are right from this time on; a horizon moves
        along, and the delta contains what is derived in it.
        """
        with self.change() as change:
            change.advance(to)
        return change.delta

    @locked
    def stream(self, updates: Iterable[Changes], *, missing: str = "error", final: bool = False) -> Stream:
        """The deltas of transactions, carried out one by one as they come.

        An update is a change script, of one transaction or more, or an iterable of (sign, predicate, row),
        such as a `Delta`. A stream that is `final` is the last to change anything: `auto` then prepares for
        nothing that comes after it.
        """
        self._settle()
        return Stream(
            updates, lambda program: self._begin(program, missing), self._maintainer, self._lock, final
        )

    def stream_async(
        self, updates: AsyncIterable[Changes] | Iterable[Changes], *, missing: str = "error"
    ) -> AsyncIterator[Delta]:
        """The same for updates that come asynchronously: `async for delta in reasoner.stream_async(…)`."""
        return stream_async(updates, lambda arrivals: self.stream(arrivals, missing=missing))

    @locked
    def subscribe(self, predicate: str, callback: Callback) -> Subscription:
        """Call a function with the changes of a predicate after each commit that changed it.

        `cancel()` on the result ends that, and so does the end of a `with` block around it.
        """
        self.materialise()
        return self._subscriptions.add(find_predicate(predicate, self._program.predicates).name, callback)

    def deltas(self, predicate: str) -> Deltas:
        """What changes in a predicate from now on: `async for delta in reasoner.deltas("alarm")`."""
        return Deltas(lambda callback: self.subscribe(predicate, callback))

    def _commit(self, change: Change) -> Delta:
        """Carry a transaction out: all of it, or none of it and an error."""
        return self._whole(lambda begun: self._carry_out(change, begun), change)

    def _carry_out(self, change: Change, begun: Begun) -> Delta:
        start = perf_counter()
        if change.batch is not None and change.batch.repeats(self.batches):
            raise change.batch.refused("has been applied already", "ask `has_applied` before")
        update, before, after, notices = self._normalised(change)
        begun.stated, begun.times = change.stated, given_before(self.time.store, change.times)
        timed: list[NetChange] = []

        def check(static: NetChange) -> None:
            programs = self._program, change.program
            tell, stop = self.runtime.tell, self.runtime.check

            def accept() -> None:
                self._seal(change, lambda: self._delta(static, change, notices, perf_counter() - start, 1))

            timed.append(self.time.change(change.times, static, programs, tell, stop, accept))

        self._committing.carry_out(update, before, after, check)
        for name, rows in update.added.items():
            self._origins.note(name, None)
            self._schemas.note_rows(name, rows.columns)
        for name, rows in change.times.added:
            self._schemas.note_rows(name, rows.columns)
        # From here on a fault leads to the state after the transaction: nothing is called in between.
        begun.program, begun.stated, begun.times, begun.is_committed = change.program, NOTHING, {}, True
        self._program, self._shown, self._inconsistency = change.program, None, None
        if change.batch is not None:
            self.batches[change.batch.app] = change.batch
        self.commits += 1
        return self._delta(self._with_live_answers(timed[0]), change, notices, perf_counter() - start)

    def _rehearse(self, change: Change) -> Delta:
        """What a transaction would change: it is carried out and taken back."""
        return self._whole(lambda begun: self._take_back(change, begun), change)

    def _take_back(self, change: Change, begun: Begun) -> Delta:
        start = perf_counter()
        update, before, after, notices = self._normalised(change)
        begun.stated = change.stated
        static = change.program.static
        self.time.refuse_rehearsal(change.program)
        net = self._committing.rehearse(update, before, after, lambda _: self._check_consistency(static))
        return self._delta(net, change, notices, perf_counter() - start)

    # ---- after faults

    def _whole(self, act: Callable[[Begun], T], change: Change | None = None) -> T:
        """The result of a transaction, or of another change of what is derived: all of it or none.

        If a fault ends it that can come anywhere, everything is begun anew with the explicit facts.
        """
        if self._begun is not None:  # a part of another, or of beginning anew
            return act(self._begun)
        is_advanced = self.time.past.time is not None or (change is not None and bool(change.times.advance))
        begun = Begun(self._program, self._is_materialised, self._is_told, not is_advanced)
        self._begun = begun
        try:
            result = act(begun)
        except BaseException as error:
            begun.has_failed = True
            if is_orderly(error) and not begun.is_committed:
                self._begun = None
            else:
                with suppress(BaseException):  # it is done when the reasoner is next used
                    self._recover()
            raise
        self._begun = None
        return result

    def _recover(self) -> None:
        """Begin anew with the explicit facts, if a fault has ended a transaction somewhere within it."""
        if self._begun is None or not self._begun.has_failed:
            return
        with self._lock:
            begun = self._begun
            if begun is None or begun.is_recovering:  # another thread has done it, or this is a part of it
                return
            if not begun.can_derive:
                raise not_recovered()
            begun.is_recovering = True
            try:
                self._derive_anew(begun)
            finally:
                begun.is_recovering = False
            self._begun = None

    def _derive_anew(self, begun: Begun) -> None:
        """Derive everything from the explicit facts, as if nothing had been derived before."""
        bindings = {asked.bindings for asked in self._demands.asked if asked.parameters}
        explicit = begun.collect(self._engine, bindings)
        self._begin_anew(begun)
        for name, rows in explicit.items():
            if name not in bindings:
                self._engine.add(name, rows.columns, rows.count)
        if begun.was_materialised:
            self._complete()
        elif self._demands.asked:
            step = self._demands.asking_anew(
                self._meaning, {name: rows for name, rows in explicit.items() if name in bindings}
            )
            self._keep(step)
            self._demands.adopt(step)
        self._is_told = begun.was_told
        self._looking_up.look_up_anew()

    def _begin_anew(self, begun: Begun) -> None:
        """Empty all relations, and drop everything that was made to derive their facts."""
        self._engine.renew()
        self._equality.lose_late()
        self._equality = treatments.make(self._equality.name, self._equality.unique_names)
        self._attach()
        self._demands.begin_again()
        self._strategies.clear()
        restore_given(self.time.store, begun.times)
        self.time.begin_again()
        self._program, self._shown, self._strata = begun.program, None, None
        self._is_materialised = self._was_materialised = False
        self._define_all()

    def _normalised(self, change: Change) -> tuple[Update, Program, Program, tuple[Diagnostic, ...]]:
        """What a transaction asks for, what is meant before and after it, and what is doubtful about it."""
        strategies.settle(self._strategies.values())
        if change.before is not self._program:
            message = "the program was changed while this transaction was put together"
            raise ProgramError(Diagnostic(PROGRAM_CHANGED, message, help="begin the transaction anew"))
        update, notices = change.update(self.time.stating)
        for item in notices:
            self.runtime.tell(Notice(f"{item.location + ': ' if item.location else ''}{item.message}"))
        if not change.program.timed <= self._program.timed:
            self._begin_times(change.program)
        self._equality.check(change.program)
        before, after = self._meaning, self._equality.meaning(change.program.static)
        update = self._equality.update(update, self._program.static, change.program.static)
        update = update.without(change.program.timed).removing(before.rules, change.program.timed)
        return update, before, after, notices

    def _begin_times(self, after: Program) -> None:
        """Make ready for predicates that begin to have times: derive everything, keep no query about them."""
        for asked in (*self._demands.asked, *self._looking_up.watched.values()):
            self._check_kept(asked.query, after)
        self._complete()

    def _delta(
        self,
        net: NetChange,
        change: Change,
        notices: tuple[Diagnostic, ...],
        seconds: float,
        ahead: int = 0,
    ) -> Delta:
        known = change.program.predicates
        live = {**self._demands.watched, **self._looking_up.watched}
        watched = {name: _described(asked) for name, asked in live.items()}
        number = self.commits + ahead
        schema = self._schema_of_change(change, {name: asked.query for name, asked in live.items()})
        return Delta(net, known, self._engine.dictionary, number, seconds, notices, watched, schema)

    def _schema_of_change(
        self, change: Change, queries: Mapping[str, Query]
    ) -> Callable[[Predicate], Schema]:
        """What the rows hold that a transaction changed: those that went followed from the rules before."""
        facts = self._own.stated
        before, after = self._schemas.now(change.before, facts), self._schemas.now(change.program, facts)

        def schema(predicate: Predicate) -> Schema:
            if predicate.name in queries:
                return after.of_answers(queries[predicate.name])
            if before is after or predicate.name not in change.before.predicates:
                return after.of(predicate)
            pairs = zip(before.of(predicate), after.of(predicate), strict=True)
            return tuple(replace(new, types=old.types | new.types) for old, new in pairs)

        return schema

    def _seal(self, change: Change, delta: Callable[[], Delta]) -> None:
        """Check and publish a transaction that was applied; if this raises, it is rolled back."""
        self._check_consistency(change.program.static)
        if change.publish is not None:
            with INTERRUPTS.let_through():
                change.publish(delta())

    # ---- deriving

    @locked
    def materialise(self) -> None:
        """Derive everything that follows; does nothing if nothing has changed since the last time.

        Raises `Inconsistent` if `bottom()` holds; the facts that led to it can be asked for all the same.
        """
        self._complete()
        if self._inconsistency is not None:
            self._is_told = True
            raise Inconsistent(self._inconsistency)

    def _derive_to_ask(self) -> None:
        """Derive everything, for facts to be looked at: an inconsistency is raised if nobody knows of it."""
        self._recover()
        with self._lock.reading:
            is_known = self._is_materialised and (self._is_told or self._inconsistency is None)
        if not is_known:
            self.materialise()

    def _complete(self) -> None:
        """Derive everything that follows, an inconsistency included, if that has not been done."""
        self._recover()
        if self._is_materialised:
            return
        self._whole(lambda begun: self._derive_all())
        self._is_materialised = True
        self._is_told = False
        try:
            self._check_consistency(self._program.static)
            self.time.check_consistency(self._program)
        except Inconsistent as inconsistency:
            self._inconsistency = inconsistency.diagnostics  # a transaction may put it right

    def _derive_all(self) -> None:
        """Derive everything that follows, and let kept queries be answered by that."""
        strategies.settle(self._strategies.values())
        self.statistics.clear()
        limits = self.runtime.limits()
        with limits.guarding():
            if self._demands.are_there:
                self._demands.withdraw()
            self._engine.forget_counters()
            self._forget_derived(self._was_materialised)
            self._load_program()
            self._engine.check = limits.check  # loading has had limits of its own
            self._was_materialised = True
            self._equality.check(self._program)
            if self._processes is not None and self._program.timed:
                self._derive_times_in_processes(self._processes)
            elif self._processes is not None and self._has_classes:
                self._derive_classes_in_processes(self._processes)
            else:
                self._equality.complete(self._program.static, self._derive)
                if self._program.timed:
                    self.time.derive(self._program, len(self.strata), self.runtime.tell, limits.check)
        self._keep_by_rules()

    def _forget_derived(self, is_needed: bool) -> None:
        """Keep explicit facts only, if that is needed: derived ones must be gone, and dead ones too."""
        derived = self._meaning.derived
        if is_needed or any(map(self._engine.has_dead, derived)):
            self._engine.forget_derived(derived)

    def _derive(self, is_anew: bool, rules: Sequence[Rule] | None = None) -> None:
        """Derive everything by the rules as they are now, or by some of them."""
        if is_anew:
            self.runtime.tell(FactsRemoved("", self.statistics.derived))
            self._forget_derived(True)
        if self._processes is not None:
            self._derive_in_processes(self._processes)
        else:
            self._derive_here(False, rules)

    def _derive_here(self, is_anew: bool, rules: Sequence[Rule] | None = None) -> None:
        """Derive in this process, beside what is derived already."""
        numbers = {id(rule): place for place, rule in enumerate(self.rules)}
        layers = self.strata if rules is None else strata(rules, self._meaning.predicates)
        self._engine.derive(layers, numbers, self.runtime.tell, self.runtime.check, self._modules)

    def _derive_in_processes(self, count: int) -> None:
        """Derive everything in other processes, and hold here what they have derived."""
        from tidelog.engine.exchange.tasks import Task

        found, _ = self._found_in_processes(self.meaning, count, Task)
        self._hold_derived(found)

    @property
    def _has_classes(self) -> bool:
        """Whether facts are kept over representatives of what is equal."""
        return isinstance(self._equality, Rewriting) and has_equality(self._program.predicates)

    def _derive_classes_in_processes(self, count: int) -> None:
        """Derive everything in other processes, and hold here the classes and the facts that they have."""
        from tidelog.equality.distributed import Divided

        found, _ = self._found_in_processes(self._program, count, Divided)
        (aliases,) = found.pop(ALIAS)
        self._engine.drop(ALIAS)
        self._engine.define(ALIAS, 2)
        if aliases[1]:
            self._engine.add(ALIAS, *aliases)
        self._hold_derived(found)
        self._equality.resume_restored(self._program.static, self._derive_here)

    def _derive_times_in_processes(self, count: int) -> None:
        """Derive everything in other processes, and hold here what they have derived, at times and always."""
        from tidelog.temporal.distributed import Divided

        program, time = self._program, self.time
        time.check_end(program)
        make = partial(Divided, time=time.settings)
        found, task = self._found_in_processes(program, count, make, time.given())
        timed = {name: found.pop(name) for name in program.derived & program.timed}
        self._hold_derived(found)
        time.hold(program, timed, task.timeline, task.outcome, self.runtime.tell)

    def _found_in_processes(
        self, program: Program, count: int, make: Any, more: Iterable[tuple[Any, ...]] = ()
    ) -> tuple[dict[str, Any], Any]:
        from tidelog.engine.exchange.processes import derive

        engine, runtime = self._engine, self.runtime
        return derive(
            program,
            [*((name, *engine.rows(name)) for name in program.predicates), *more],
            engine.dictionary,
            count,
            timeout=runtime.limits().left,
            max_facts=runtime.max_facts,
            make=make,
        )

    def _hold_derived(self, found: Mapping[str, Any]) -> None:
        """Hold facts that were derived elsewhere, those aside that are explicit here."""
        engine = self._engine
        derived: dict[str, Any] = {}
        for name, parts in found.items():
            if not parts:
                continue
            columns = [np.concatenate(column) for column in zip(*(part for part, _ in parts), strict=True)]
            rows = sum(each for _, each in parts)
            new = engine.standing(name, columns, rows) == 0
            derived[name] = tuple(column[new] for column in columns), int(new.sum())
        engine.restore(derived)
        self.statistics.derived = sum(rows for _, rows in derived.values())

    @property
    def _is_maintained(self) -> bool:
        """Whether facts come and go in transactions: something was derived that must be kept right."""
        self._recover()
        return self._is_materialised or self._demands.are_there

    def _settle(self) -> None:
        """Ensure that there is something to maintain: kept queries, tables, or else all derived facts."""
        self._recover()
        if not self._demands.are_there and not self._has_tables:
            self._complete()

    @property
    def _has_tables(self) -> bool:
        """Whether somebody has asked for tables; where all must be consistent, all must be derived."""
        if BOTTOM in self._meaning.predicates or not self._are_tables_wanted:
            return False
        return strategies.are_following(self._strategies.values())

    def _keep(self, step: Step) -> None:
        """Carry out what kept queries want."""
        self._whole(
            lambda begun: self._committing.maintain(
                step, lambda _: self._demands.check_consistency(self._meaning)
            )
        )

    def _known_meaning(self) -> Program:
        """The program that kept queries are asked of."""
        self._recover()
        return self._meaning

    def _keep_by_rules(self) -> None:
        """Maintain the answers of kept queries from derived facts, now that all are derived."""
        step = self._demands.begin_anew(self._meaning)
        try:
            if step.update:
                self._keep(step)
        except BaseException:
            self._demands.withdraw()
            raise
        self._demands.adopt(step)

    @property
    def _meaning(self) -> Program:
        """The program with all rules by which facts without times follow: those of equality too."""
        return self._equality.meaning(self._program.static)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules, as they are now, those that say what equality means included."""
        return self.meaning.rules

    @property
    def meaning(self) -> Program:
        """The program that `rules` are those of."""
        return self._program if self._program.timed else self._meaning

    @property
    def strata(self) -> tuple[Stratum, ...]:
        """The program's strata, in the order in which they are derived."""
        rules = self._meaning.rules
        if self._strata is None or self._strata[0] is not rules:
            self._strata = rules, strata(rules, self._meaning.predicates)
        return self._strata[1]

    @property
    def sizes(self) -> Statistics:
        """What join orders are decided on: the sizes of relations and of their columns."""
        self._recover()
        sizes: Statistics = self._engine
        return sizes

    def _check_consistency(self, said: Program) -> None:
        unequal = self._equality.violation(said)
        if unequal is not None:
            raise Inconsistent(unequal)
        program = self._equality.meaning(said)
        self._demands.check_consistency(program)
        if BOTTOM not in program.predicates or not self._engine.size(BOTTOM):
            return
        found = violations(program, self._engine)
        raise Inconsistent(found) if found else inconsistency(program)

    # ---- asking

    def __getitem__(self, name: str) -> Relation:
        """All facts of a predicate, derived ones included."""
        predicate = find_predicate(name, self._program.predicates)
        self._derive_to_ask()
        schema = partial(self.schemas.of, predicate)
        if self._program.timed or has_equality(self._program.predicates):
            return self._listed(predicate, schema)
        with self._lock.reading:
            columns, count = self._engine.rows(predicate.name)
        return Relation(predicate.written, predicate.names, columns, count, self._engine.dictionary, schema)

    @locked
    def _listed(self, predicate: Predicate, schema: LazySchema) -> Relation:
        """All facts of a predicate, with their times, or as equality has them listed."""
        if predicate.name in self._program.timed:
            return self.time.relation(predicate, schema)
        rows = self._equality.rows(self._program.static, predicate.name, self.equal)
        parts = predicate.written, predicate.names, rows.columns, rows.count, self._engine.dictionary
        return Relation(*parts, schema)

    @property
    def schemas(self) -> SchemasOf:
        """What the columns of relations hold, whatever rows there are: as declared, else as inferred."""
        return self._schemas.now(self._program, self._own.stated)

    def _explicit_columns(self, name: str) -> Sequence[Any]:
        """The columns of a predicate's explicit facts; of all, where they hold at times and are derived."""
        if name in self._program.timed:
            store = self.time.store
            table = store.tables[name] if name in store.tables else store.given[name]
            numbers, _ = table.holding()
            return tuple(table.facts.columns[:, numbers])
        columns: Sequence[Any] = self._engine.explicit(name)[0]
        return columns

    def _place(self) -> Place:
        """Where queries are asked: all explicit facts are loaded."""
        self._recover()
        strategies.settle(self._strategies.values())
        if self._is_materialised:
            self._derive_to_ask()
        else:
            self.statistics.clear()
            with self.runtime.limits().guarding():
                self._load_program()
        return Place(
            self._meaning,
            self._engine,
            self._is_materialised,
            self.materialise,
            self.runtime.tell,
            self.runtime.check,
            self._modules,
            is_checked=not self._is_told,
            is_tabled=strategies.are_following(self._strategies.values()),
            table_memory=self.table_memory,
            look_up=self._equality.look_up(self._program.static, self.equal),
        )

    def _place_by_axioms(self) -> Place:
        """The same with the axioms of equality as rules, whatever is derived over representatives."""
        place = self._place()
        program = self._equality.by_axioms(self._program.static)
        return replace(place, program=program, is_materialised=False, look_up=None)

    def _looked_up(self, query: Query, is_whole: bool) -> Answers:
        """Answers from facts over representatives, everything being derived; or those of all members."""
        self._derive_to_ask()
        find = self._equality.look_up(self._program.static, EXPAND if is_whole else self.equal)
        assert find is not None, "facts are kept over representatives"
        return find(query)

    def _with_live_answers(self, net: NetChange) -> NetChange:
        """The net change, and that of live queries whose answers are looked up."""
        if not self._looking_up.watched:
            return net
        with self.runtime.no_limits().guarding():
            came, went = self._looking_up.changes(frozenset((*net.added, *net.removed)))
        return NetChange({**net.added, **came}, {**net.removed, **went})

    def _timed_answer(self, query: Query) -> Relation | None:
        """The answers to a query for what holds at times; None if it is for something else."""
        if not is_timed(query, self._program):
            return None
        self._derive_to_ask()
        return self.time.answer(query, self._program, self._schema_of(query))

    def predicates(self) -> Mapping[str, Predicate]:
        """The predicates by their full names."""
        return self._program.predicates

    def __iter__(self) -> Iterator[str]:
        """The names of the predicates."""
        return (predicate.written for predicate in self._program.predicates.values())

    def __repr__(self) -> str:
        state = "materialised" if self._is_materialised else "not materialised yet"
        program = self._program
        sizes = f"{counted(len(program.rules), 'rule')}, {counted(len(program.predicates), 'predicate')}"
        return f"<Reasoner: {sizes}, {state}>"


def _described(asked: Asked) -> Predicate:
    """The answers of a live query as a predicate, for those who are told of its changes."""
    names = asked.query.variables
    return Predicate(asked.name, len(names), names, (ColumnType.ANY,) * len(names), asked.query.text.strip())
