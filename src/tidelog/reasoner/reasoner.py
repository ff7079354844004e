"""The reasoner: a program, its facts, and everything derived from them. Mutates itself.

`Reasoner` is a façade: each of its parts is given what it needs, and nothing inherits from another.
"""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tidelog import equality as treatments
from tidelog import maintenance
from tidelog.data.columns import Batch
from tidelog.data.relation import Relation
from tidelog.data.rows import Rows
from tidelog.engine.columnar.engine import EngineSettings, settings_of
from tidelog.engine.events import Listener
from tidelog.engine.interrupts import Lock, locked, made_once
from tidelog.errors import Diagnostic, counted
from tidelog.io.rejects import OnError, RejectedRows
from tidelog.logic.intervals import Point
from tidelog.logic.program import Folders, Predicate, Program, Query, Rule, Sandbox
from tidelog.logic.resolve import program_of
from tidelog.logic.strata import Stratum
from tidelog.maintenance.maintainer import Update
from tidelog.plan.join_order import Statistics
from tidelog.proof import MOST_ROWS
from tidelog.query import registry as strategies
from tidelog.query.kept_queries import KeptQueries
from tidelog.query.query_keepers import MaintainedQueries, PreparedQuery, RequeriedQueries
from tidelog.query.strategy import TABLE_MEMORY, Answers
from tidelog.reasoner.asking import Asker
from tidelog.reasoner.commit import Committer
from tidelog.reasoner.delta import Delta, find_predicate
from tidelog.reasoner.deriving import Deriver
from tidelog.reasoner.explaining import FULL, MOST_ANSWERS, MOST_REPAIRS, Explainer, FactSources
from tidelog.reasoner.loading import LoadedData, Loader, SchemasOf
from tidelog.reasoner.program_state import DerivedState, EqualitySettings, ProgramState
from tidelog.reasoner.runtime import (
    Applier,
    MaintenanceSettings,
    Recovery,
    Runtime,
    SharedParts,
    UsedStrategies,
)
from tidelog.reasoner.streaming import Changes, TransactionStream, stream_async
from tidelog.reasoner.subscriptions import Callback, Deltas, LiveQuery, Subscription, Subscriptions
from tidelog.reasoner.transaction import Change
from tidelog.temporal.periodic import RetentionWindow
from tidelog.temporal.temporal import USUAL, Temporal

if TYPE_CHECKING:
    from tidelog.engine.columnar.engine import ColumnarEngine
    from tidelog.equality.listing import Listing
    from tidelog.proof.explanation import Explanation
    from tidelog.proof.why_not import WhyNot
    from tidelog.query.tabling import TableCounts
    from tidelog.store.forms import BatchId
    from tidelog.temporal.temporal import Restored, TimeSettings
    from tidelog.temporal.timed_changes import RowTimes


class Reasoner:
    """Facts, rules, and everything derived from them.

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
        maintainer: str = maintenance.DEFAULT,
        marking: str = maintenance.DEFAULT_MARKING,
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
        self.faults = RejectedRows(OnError(on_error), Path(rejects))
        check_choices(engine, maintainer, marking, equality)
        self._program = state = ProgramState(
            program,
            EqualitySettings(equality, unique_names),
            lambda treatment: self._applier.attach(treatment),
        )
        self._derived = derived = DerivedState()
        self._lock = lock = Lock()
        self._subscriptions = subscriptions = Subscriptions(lock)
        binary = sum(predicate.arity == 2 for predicate in program.predicates.values())
        self._engine = held = settings_of(engine).make(threads, binary)
        held.storage.dictionary.lock = lock
        self.runtime = runtime = Runtime(held, listeners, timeout, max_facts)
        self.statistics = runtime.statistics
        self.time = Temporal(held, time, RetentionWindow(time.horizon), program.is_integer_time)
        self._data = data = LoadedData(held, self._explicit_columns)
        self._strategies = used = UsedStrategies()
        self._demands = demands = KeptQueries(held)
        self._recovery = recovery = Recovery(
            state, derived, self.time, lock, lambda opened: self._deriver.rebuild(opened)
        )
        self._shared = shared = SharedParts(
            runtime=runtime,
            program=state,
            derived=derived,
            time=self.time,
            strategies=used,
            demands=demands,
            requeried=RequeriedQueries(held, self._look_up, recovery.recover),
            subscriptions=subscriptions,
            recovery=recovery,
            settings=MaintenanceSettings(maintainer, marking, modules),
            lock=lock,
        )
        self._applier = applier = Applier(shared)
        keeping = MaintainedQueries(held, demands, applier.keep, self._effective)
        self._loader = loader = Loader(runtime, state, self.time, data, used, self.faults)
        self._deriver = deriver = Deriver(shared, loader, applier, processes)
        self._asker = Asker(shared, loader, deriver, keeping, table_memory, equal)
        loader.define_all()

    @made_once
    def _committer(self) -> Committer:
        """Commits transactions."""
        return Committer(self._shared, self._applier, self._data, self._deriver.complete)

    @made_once
    def _explainer(self) -> Explainer:
        """Explains facts."""
        sources = FactSources(self._engine, self._program, self._data)
        return Explainer(self.runtime, self._program, self._deriver, self._asker, self.time, sources)

    def _effective(self) -> Program:
        """Return the program that kept queries are asked of."""
        self._recovery.recover()
        return self._program.effective

    def _look_up(self, query: Query, is_whole: bool) -> Answers:
        return self._asker.look_up(query, is_whole)

    def _explicit_columns(self, name: str) -> Sequence[Any]:
        """Return the columns of a predicate's explicit facts; of all, where facts with times are derived."""
        if name in self._program.current.timed:
            store = self.time.store
            table = store.tables[name] if name in store.tables else store.explicit[name]
            numbers, _ = table.holding()
            return tuple(table.facts.columns[:, numbers])
        columns: Sequence[Any] = self._engine.storage.explicit(name)[0]
        return columns

    # ---- facts and rules

    @locked
    def insert(self, predicate: str, data: object, *, define: bool = False) -> int:
        """Add explicit facts to a predicate; returns how many were new.

        The program mentions the predicate, or else `define` makes it.

        `data` is Arrow data, a polars or pandas data frame, or an iterable of tuples. Once everything has
        been derived this is a transaction of its own: `change()` puts several together.
        """
        if not self._deriver.is_maintained:
            return self._loader.insert(predicate, data, define)
        with self.change() as change:
            change.insert(predicate, data, define=define)
        return change.inserted

    @locked
    def read(self, *paths: Path | str, header: bool | None = None) -> int:
        """Add the facts in files, each named after its predicate; a folder stands for its files."""
        if not self._deriver.is_maintained:
            return self._loader.read(paths, header)
        with self.change() as change:
            for name, batches in self._loader.files(paths, lambda: change.program, header):
                change.load(name, batches)
        return change.inserted

    @locked
    def load(self, predicate: str, batches: Iterable[Batch]) -> int:
        """Add explicit facts that come as batches of columns; returns how many were new."""
        if not self._deriver.is_maintained:
            return self._loader.load(predicate, batches)
        with self.change() as change:
            change.load(predicate, batches)
        return change.inserted

    @locked
    def load_timed(self, predicate: str, parts: Iterable[tuple[Batch, RowTimes]]) -> int:
        """Add facts with times, before anything is derived; returns how many intervals were new."""
        self._recovery.recover()
        return self._loader.load_timed(predicate, parts)

    @locked
    def add(self, text: str, *, name: str = "<text>", folder: Path | None = None) -> None:
        """Add the statements of a text to the program: rules, facts, declarations, imports."""
        if not self._deriver.is_maintained:
            self._loader.add(text, name, folder)
            return
        with self.change() as change:
            change.add(text, name=name, folder=folder)

    @locked
    def restore(
        self, explicit: Mapping[str, Rows], facts: Mapping[str, Rows], times: Restored | None = None
    ) -> None:
        """Restore a complete set of facts in a reasoner without any: none is derived again.

        `facts` are those of predicates of which not all are explicit, listed as `listing` does. The rows are
        ids of the reasoner's own dictionary. `times` has the facts that hold at times; if they are periodic,
        they are derived again from the given ones. Facts and imports of the program are ignored.
        """
        self._deriver.restore(explicit, facts, times)

    # ---- transactions

    def change(self, *, missing: str = "error", batch: BatchId | tuple[str, int] | None = None) -> Change:
        """Return a transaction, to be used in a `with` block: it is committed when the block ends well.

        Everything is derived before the first one, unless queries are watched or prepared, or there are
        tables: then these are maintained, and nothing else is derived.
        Deleting what does not exist is an error; with `missing="ignore"` it is skipped, with a notice.

        `batch` is the application that sends the transaction, and its number there: a store keeps the last
        one together with the transaction, so that `has_applied` tells after any end of a process whether it
        must be sent again.
        """
        if not self._derived.is_materialised:
            with self._lock:
                self._deriver.settle()
        change = self._begin(None, missing)
        if batch is not None:
            from tidelog.store.forms import BatchId

            change.batch = BatchId(*batch)
        return change

    def _begin(
        self, program: Program | None, missing: str, commit: Callable[[Change], Delta] | None = None
    ) -> Change:
        """Return a transaction on top of a program, by default the present one."""
        self._recovery.recover()
        return Change(
            program or self._program.current,
            self._engine,
            self.faults,
            self._lock,
            commit or self._committer.commit,
            self._loader.arriving,
            missing,
        )

    @locked
    def apply(self, script: str, *, missing: str = "error", name: str = "<changes>") -> Delta:
        """Commit one transaction, written as a change script: `+ fact .`, `- rule .`"""
        with self.change(missing=missing) as change:
            change.apply(script, name=name)
        return change.delta

    @locked
    def what_if(self, script: str, *, missing: str = "error", name: str = "<changes>") -> Delta:
        """Return what a transaction, written as a change script, would change; nothing changes.

        It is applied and rolled back, and no subscriber is told. Raises what the transaction would raise.
        """
        self._deriver.settle()
        with self._begin(None, missing, self._committer.try_out) as change:
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
    def stream(
        self, updates: Iterable[Changes], *, missing: str = "error", final: bool = False
    ) -> TransactionStream:
        """Return an iterator over the deltas of transactions, which are committed one by one as they come.

        An update is a change script, of one transaction or more, or an iterable of (sign, predicate, row),
        such as a `Delta`. A stream that is `final` is the last to change anything: `auto` then prepares for
        nothing that comes after it.
        """
        self._deriver.settle()
        maintainer = self._applier.maintainer
        return TransactionStream(
            updates, lambda program: self._begin(program, missing), maintainer, self._lock, final
        )

    def stream_async(
        self, updates: AsyncIterable[Changes] | Iterable[Changes], *, missing: str = "error"
    ) -> AsyncIterator[Delta]:
        """The same for updates that come asynchronously: `async for delta in reasoner.stream_async(…)`."""
        return stream_async(updates, lambda arrivals: self.stream(arrivals, missing=missing))

    @contextmanager
    def looking_ahead(self, peek: Callable[[], Update | None] | None) -> Iterator[None]:
        """In the block, let a maintainer that marks ask `peek` for what the next transaction may change."""
        lookahead = self._applier.maintainer.lookahead
        if peek is None or lookahead is None:
            yield
            return
        former, lookahead.peek = lookahead.peek, peek
        try:
            yield
        finally:
            lookahead.peek = former

    def has_applied(self, batch: BatchId | tuple[str, int]) -> bool:
        """Return whether a batch was the last one that its application sent.

        Raise `DataError` if a later one was applied, or one of another stream: then it is not known.
        """
        from tidelog.store.forms import BatchId

        return BatchId(*batch).repeats(self.batches)

    @property
    def commits(self) -> int:
        """How many transactions were committed."""
        return self._committer.history.commits

    @property
    def batches(self) -> dict[str, BatchId]:
        """The last batch of each application that counts its transactions."""
        return self._committer.history.batches

    @locked
    def subscribe(self, predicate: str, callback: Callback) -> Subscription:
        """Call a function with the changes of a predicate after each commit that changed it.

        `cancel()` on the result ends that, and so does the end of a `with` block around it.
        """
        self.materialise()
        name = find_predicate(predicate, self._program.current.predicates).name
        return self._subscriptions.add(name, callback)

    def deltas(self, predicate: str) -> Deltas:
        """What changes in a predicate from now on: `async for delta in reasoner.deltas("alarm")`."""
        return Deltas(lambda callback: self.subscribe(predicate, callback))

    # ---- derived facts

    @locked
    def materialise(self) -> None:
        """Derive everything; does nothing if nothing has changed since the last time.

        Raises `Inconsistent` if `bottom()` holds; the facts that led to it can be queried all the same.
        """
        self._deriver.materialise()

    def __getitem__(self, name: str) -> Relation:
        """All facts of a predicate, derived ones included."""
        return self._asker.facts(name)

    @locked
    def listing(self) -> Listing | None:
        """Return how all facts are listed, to be written to files, if not as the engine stores them."""
        self._recovery.recover()
        program = self._program.current.static
        return self._program.equality.listing(program, self.equal) if program.has_equality else None

    # ---- queries

    @locked
    def query(self, text: str, strategy: str = strategies.AUTO, *, limit: int | None = None) -> Relation:
        """The answers to a query such as `ancestor(alice, ?x)`: one column per variable.

        Unless everything is derived already, `auto` derives what the query asks for only, if something in it
        is bound or not all rules are needed; `lookup`, `magic`, `tabling` and `full` say how it is done. With
        a limit, no more answers than that: `tabling` then stops when it has found them.
        """
        return self._asker.query(text, strategy, limit)

    def answers(self, text: str, strategy: str = strategies.STREAMED) -> Iterator[Relation]:
        """The answers to a query in parts, as they are found; no row is in two of them.

        `tabling` gives its first answers early; others give all of them together. To stop early saves the
        rest of the work. Facts that change in the meantime do not change these answers.
        """
        return self._asker.answers(text, strategy)

    @locked
    def explain_strategy(self, text: str, strategy: str = strategies.AUTO) -> str:
        """How a query would be answered, and why; derives nothing."""
        return self._asker.explain_strategy(text, strategy)

    @locked
    def prepare(self, text: str) -> PreparedQuery:
        """A query with parameters, `reach($start, ?to)`, to be asked with other values each time.

        Unless everything is derived already, what is derived for one binding is kept for the next, and
        maintained when facts and rules change.
        """
        return self._asker.prepare(text)

    @locked
    def watch(self, text: str, callback: Callback | None = None) -> LiveQuery:
        """A query whose answers are maintained from now on; the callback is told what changes in them.

        Unless everything is derived already, only what the query asks for is derived and maintained.
        """
        live = self._asker.watch(text)
        if callback is not None:
            live.subscribe(callback)
        return live

    @property
    def tables(self) -> TableCounts | None:
        """What there is in tables; None where no query was answered by some."""
        return self._asker.tables

    @property
    @locked
    def rewritten(self) -> Program | None:
        """The program that the last query was answered by, if it was rewritten."""
        return self._asker.rewritten

    @property
    def warn(self) -> Callable[[Sequence[Diagnostic]], None]:
        """What is done with warnings about queries."""
        return self._asker.warn

    @warn.setter
    def warn(self, warn: Callable[[Sequence[Diagnostic]], None]) -> None:
        self._asker.warn = warn

    @property
    def equal(self) -> str:
        """How equal constants are shown: `expand` or `representative`."""
        return self._asker.equal

    @equal.setter
    def equal(self, equal: str) -> None:
        self._asker.equal = equal

    @property
    def table_memory(self) -> int:
        """The bytes of tables that are kept between queries."""
        return self._asker.table_memory

    @table_memory.setter
    def table_memory(self, table_memory: int) -> None:
        self._asker.table_memory = table_memory

    # ---- explanations

    @locked
    def explain(
        self,
        text: str,
        *,
        proofs: int = 1,
        limit: int = MOST_ANSWERS,
        rows: int | None = MOST_ROWS,
        strategy: str = FULL,
    ) -> Explanation:
        """Why a fact such as `ancestor(alice, carol)` holds: a proof of the smallest height there is.

        Of a query with variables, why each of the first `limit` answers is one. More `proofs` of each have
        other last steps, lowest first. Of a group that is aggregated, up to `rows` rows are explained, all of
        them if that is None. Everything is derived first, unless it is already. With the strategy `magic`
        only what the query asks for is derived, and deleted again; but everything where there is equality, or
        the query is about times.
        Raises `ProgramError` if there is nothing to explain.
        """
        return self._explainer.explain(text, proofs, limit, rows, strategy)

    @locked
    def why_not(self, text: str, *, repairs: int = MOST_REPAIRS) -> WhyNot:
        """Why a fact such as `reach(a, z)` does not hold: for each rule, the instance that comes nearest.

        Its `repairs` are facts that would complete a rule, up to that many for each rule and literal.
        """
        return self._explainer.why_not(text, repairs)

    # ---- the program and the engine

    @property
    @locked
    def program(self) -> Program:
        """The program as it is now.

        Its facts are those of its text that were not deleted since; facts that were loaded as data, or
        inserted in transactions, are not among them.
        """
        self._recovery.recover()
        return self._program.shown(self._engine, self.time.is_given)

    @property
    def meaning(self) -> Program:
        """The program that `rules` are those of."""
        return self._program.whole

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules, as they are now, those that say what equality means included."""
        return self._program.whole.rules

    @property
    def strata(self) -> tuple[Stratum, ...]:
        """The program's strata, in the order in which they are derived."""
        return self._program.strata

    @property
    def schemas(self) -> SchemasOf:
        """What the columns of relations hold, whatever rows they have: as declared, else as inferred."""
        return self._asker.schemas

    @property
    def sizes(self) -> Statistics:
        """What join orders are decided on: the sizes of relations and of their columns."""
        self._recovery.recover()
        return self._engine.storage

    @property
    def engine(self) -> ColumnarEngine:
        """The engine that stores the facts, for reading; not to be changed."""
        self._recovery.recover()
        return self._engine

    def predicates(self) -> Mapping[str, Predicate]:
        """The predicates by their full names."""
        return self._program.current.predicates

    def __iter__(self) -> Iterator[str]:
        """The names of the predicates."""
        return (predicate.written for predicate in self._program.current.predicates.values())

    def __repr__(self) -> str:
        state = "materialised" if self._derived.is_materialised else "not materialised yet"
        program = self._program.current
        sizes = f"{counted(len(program.rules), 'rule')}, {counted(len(program.predicates), 'predicate')}"
        return f"<Reasoner: {sizes}, {state}>"


def check_choices(
    engine: str | EngineSettings = "columnar",
    maintainer: str = maintenance.DEFAULT,
    marking: str = maintenance.DEFAULT_MARKING,
    equality: str = treatments.DEFAULT,
) -> None:
    """Raise `ProgramError` unless a reasoner can be made with these; does not make one."""
    treatments.check_name(equality)
    settings_of(engine)
    maintenance.check_names(maintainer, marking)
