"""The reasoner: a program, its facts, and everything that follows. Mutates itself."""

from __future__ import annotations

from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

from tidelog.asking import Asking
from tidelog.changes import Delta, find_predicate
from tidelog.engine import registry as engines
from tidelog.engine.columnar import warm
from tidelog.engine.events import Audience, FactsLoaded, Listener, Notice, Tally
from tidelog.engine.limits import Limits
from tidelog.engine.registry import EngineSettings
from tidelog.errors import Diagnostic, Inconsistent, ProgramError, Source
from tidelog.io.columns import Batch, column_of_values
from tidelog.io.faults import Faults, OnError
from tidelog.io.formats import data_files
from tidelog.io.objects import from_python
from tidelog.io.source import data_file, predicate_of
from tidelog.io.tables import read, read_import
from tidelog.logic.program import BOTTOM, Fact, Predicate, Program, Rule
from tidelog.logic.resolve import EMPTY, extend
from tidelog.logic.strata import Stratum, strata
from tidelog.logic.values import ColumnType
from tidelog.maintenance import registry
from tidelog.maintenance.maintainer import NetChange, Rows, Update
from tidelog.plan.join_order import Statistics
from tidelog.query import registry as strategies
from tidelog.query.demands import Asked, Demands, Step
from tidelog.query.keeping import Keeping
from tidelog.query.strategy import TABLE_MEMORY, Place
from tidelog.relation import Relation, column_names
from tidelog.streaming import Changes, Stream, stream_async
from tidelog.subscription import Callback, Deltas, Subscription, Subscriptions
from tidelog.syntax.parser import parse
from tidelog.transaction import EXPLICIT, Change, with_arity

PROGRAM_CHANGED = "E634"


class Reasoner(Asking):
    """Facts, rules, and all that follows from them.

    >>> import tidelog as tl
    >>> reasoner = tl.Reasoner(tl.parse('''
    ...     ancestor(?x, ?y) :- parent(?x, ?y) .
    ...     ancestor(?x, ?z) :- ancestor(?x, ?y), parent(?y, ?z) .
    ... '''))
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
        program: Program = EMPTY,
        *,
        engine: str | EngineSettings = "columnar",
        maintainer: str = registry.DEFAULT,
        marking: str = "none",
        modules: bool = True,
        threads: int | None = None,
        timeout: float | None = None,
        max_facts: int | None = None,
        table_memory: int = TABLE_MEMORY,
        on_error: OnError | str = OnError.FAIL,
        rejects: Path | str = "rejects.csv",
        listeners: Iterable[Listener] = (),
    ) -> None:
        self.statistics = Tally()
        self.faults = Faults(OnError(on_error), Path(rejects))
        self.timeout = timeout
        self.max_facts = max_facts
        self.table_memory = table_memory  # bytes of tables that are kept between queries
        self.started: float | None = None  # monotonic time that the timeout counts from, else each call's own
        self.commits = 0  # transactions carried out
        self._program = replace(program, facts=())
        self._stated = program.facts  # facts that the program states; once loaded, the engine knows better
        self._shown: Program | None = program  # the program as it is, facts included, if that is known
        self._tell = Audience([self.statistics, *listeners])
        binary = sum(predicate.arity == 2 for predicate in program.predicates.values())
        self._engine = engines.settings_of(engine).make(threads, binary)
        modules = modules and marking == "none"  # marks pass along rules
        self._modules = modules  # closures are kept by structures, else by rules
        self._engine.prepare_closures = lambda: self._compile_once("closures")
        self._check: Callable[[], None] = _proceed
        self._warm: set[str] = set()
        self._maintainer = registry.make(
            maintainer, marking, self._engine, self._tell, self._check_limits, modules
        )
        self._subscriptions = Subscriptions()
        self._demands = Demands(self._engine)
        super().__init__(Keeping(self._engine, self._demands, self._keep, lambda: self._program))
        self._loaded_facts = 0
        self._loaded_imports = 0
        self._is_materialised = False
        self._was_materialised = False
        self._inconsistency: tuple[Diagnostic, ...] | None = None
        self._is_told = False  # the inconsistency has been raised since everything was derived
        self._strata: tuple[tuple[object, ...], tuple[Stratum, ...]] | None = None
        self._define_all()

    @property
    def program(self) -> Program:
        """The program as it is now.

        Its facts are those that it stated and that were not taken away since; facts that came as data, or
        in transactions, are not among them.
        """
        if self._shown is None:
            self._shown = replace(self._program, facts=tuple(self._still_stated()))
        return self._shown

    def _still_stated(self) -> Iterator[Fact]:
        """The facts that the program stated and that are explicit still."""
        for name, facts, batch in _fact_batches(self._stated[: self._loaded_facts]):
            columns = [self._engine.encode_column(column) for column in batch.columns]
            standing = self._engine.standing(name, columns, len(facts))
            yield from (
                fact for fact, flags in zip(facts, standing.tolist(), strict=True) if flags & EXPLICIT
            )
        yield from self._stated[self._loaded_facts :]

    # ---- facts and rules in

    def insert(self, predicate: str, data: object) -> int:
        """Add explicit facts to a predicate; returns how many were new.

        `data` is Arrow data, a polars or pandas data frame, or an iterable of tuples; on the Spark engine
        also a Spark data frame, whose rows stay on Spark. Once everything has been derived this is a
        transaction of its own: `change()` puts several together.
        """
        if self._engine.takes(data):
            return self._insert_frame(predicate, data)
        if self._is_maintained:
            with self.change() as change:
                change.insert(predicate, data)
            return change.inserted
        known = self._find(predicate)
        if known is None:
            data, arity = with_arity(data)
            if arity is None:
                return 0
            known = self._define(predicate, arity)
        # All rows are read before the first is added: a bad one leaves everything as it was.
        batches = list(from_python(data, self.program.types_of(known), known.columns, self.faults))
        return self._load(known.name, batches)

    def _insert_frame(self, predicate: str, data: Any) -> int:
        """Add the rows of a frame that only the engine reads."""
        if self._is_maintained:
            return self.insert(predicate, data.toArrow())
        known = self._find(predicate) or self._define(predicate, len(data.columns))
        start = perf_counter()
        with self._limits().guarding():
            new = self._engine.load_frame(known.name, data, self.program.types_of(known), known.columns)
            self._tell(FactsLoaded(known.name, new, new, perf_counter() - start))
        return new

    def frame(self, name: str, form: str = "exact") -> Any:
        """All facts of a predicate as a Spark data frame, which the Spark engine has.

        Its columns are exact terms; with `form="plain"` they are plain texts, or of the type that the program
        declares.
        """
        predicate = find_predicate(name, self._program.predicates)
        self.materialise()
        return self._engine.frame(predicate.name, column_names(predicate), predicate.types, form)

    def read(self, *paths: Path | str, header: bool | None = None) -> int:
        """Add the facts in files, each named after its predicate; a folder stands for its files."""
        files = data_files([Path(path) for path in paths])
        if self._is_maintained:
            with self.change() as change:
                for path in files:
                    name, batches = self._read(path, change.program, header)
                    change.load(name, batches)
            return change.inserted
        return sum(self._load(*self._read(path, self._program, header)) for path in files)

    def _read(self, path: Path, program: Program, header: bool | None) -> tuple[str, Iterator[Batch]]:
        """The predicate whose facts a file holds, and the facts."""
        name = predicate_of(path, program.predicates)
        file = data_file(path, program.predicates.get(name), header)
        return name, read(file, self.faults, self._engine.threads)

    def add(self, text: str, *, name: str = "<text>", folder: Path | None = None) -> None:
        """Add the statements of a text to the program: rules, facts, declarations, imports."""
        if self._is_maintained:
            with self.change() as change:
                change.add(text, name=name, folder=folder)
            return
        strategies.settle(self._strategies.values())
        program = extend(parse(Source(name, text)), self._program, folder=folder)
        self._stated += program.facts
        self._program = replace(program, facts=())
        self._shown = replace(program, facts=self._stated)
        self._define_all()

    def load(self, predicate: str, batches: Iterable[Batch]) -> int:
        """Add explicit facts that come as batches of columns; returns how many were new."""
        if self._is_maintained:
            with self.change() as change:
                change.load(predicate, batches)
            return change.inserted
        return self._load(predicate, batches)

    def _load(self, name: str, batches: Iterable[Batch]) -> int:
        """Load batches of explicit facts."""
        strategies.settle(self._strategies.values())
        new = 0
        limits = self._limits()
        with limits.guarding():
            self._compile_once()
            start = perf_counter()
            for batch in batches:
                if name not in self._program.predicates:
                    self._define(name, len(batch.columns))
                added = self._engine.load(name, batch)
                new += added
                end = perf_counter()
                self._tell(FactsLoaded(name, batch.rows, added, end - start))
                start = end
                limits.check()
        return new

    @property
    def engine(self) -> Any:
        """The engine that holds the facts, for whoever writes them elsewhere; not to be changed."""
        return self._engine

    def restore(self, explicit: Mapping[str, Rows], derived: Mapping[str, Rows]) -> None:
        """Let the facts be these, complete, in a reasoner without any: none is derived again.

        The rows are ids of the reasoner's own dictionary. Facts and imports of the program are not looked at.
        """
        self._compile_once()
        for name, rows in explicit.items():
            self._engine.add(name, rows.columns, rows.count)
        self._engine.restore({name: (rows.columns, rows.count) for name, rows in derived.items()})
        self._loaded_facts, self._loaded_imports = len(self._stated), len(self._program.imports)
        self.statistics.loaded, self.statistics.derived = _total(explicit), _total(derived)
        self._was_materialised = True
        self._keep_by_rules()
        self._is_materialised = True
        self._is_told = False

    def _define(self, name: str, arity: int) -> Predicate:
        """Make known a predicate that the program does not mention."""
        types = (ColumnType.ANY,) * arity
        predicate = Predicate(name, arity, (None,) * arity, types, name)
        self._program = replace(self._program, predicates={**self._program.predicates, name: predicate})
        self._shown = None
        self._engine.define(name, arity)
        return predicate

    def _define_all(self) -> None:
        for predicate in self._program.predicates.values():
            self._engine.define(predicate.name, predicate.arity)

    # ---- changes

    def change(self, *, missing: str = "error") -> Change:
        """A transaction, to be used in a `with` block: it is carried out when the block ends well.

        Everything is derived before the first one, unless queries are watched or prepared, or there are
        tables: then these are kept right, and nothing else is derived.
        Taking away what is not there is an error; with `missing="ignore"` it is passed over, with a notice.
        """
        self._settle()
        return self._begin(None, missing)

    @contextmanager
    def looking_ahead(self, peek: Callable[[], Update | None] | None) -> Iterator[None]:
        """In the block, let a maintainer that marks ask `peek` for what the next transaction may change."""
        if peek is None or not hasattr(self._maintainer, "peek"):
            yield
            return
        former, self._maintainer.peek = self._maintainer.peek, peek
        try:
            yield
        finally:
            self._maintainer.peek = former

    def _begin(self, program: Program | None, missing: str) -> Change:
        """A transaction on top of a program, by default the present one."""
        announce = self._subscriptions.deliver
        return Change(program or self._program, self._engine, self.faults, self._commit, announce, missing)

    def apply(self, script: str, *, missing: str = "error", name: str = "<changes>") -> Delta:
        """Carry out one transaction, written as a change script: `+ fact .`, `- rule .`"""
        with self.change(missing=missing) as change:
            change.apply(script, name=name)
        return change.delta

    def stream(self, updates: Iterable[Changes], *, missing: str = "error") -> Stream:
        """The deltas of transactions, carried out one by one as they come.

        An update is a change script, of one transaction or more, or an iterable of (sign, predicate, row),
        such as a `Delta`.
        """
        self._settle()
        return Stream(updates, lambda program: self._begin(program, missing), self._maintainer)

    def stream_async(
        self, updates: AsyncIterable[Changes] | Iterable[Changes], *, missing: str = "error"
    ) -> AsyncIterator[Delta]:
        """The same for updates that come asynchronously: `async for delta in reasoner.stream_async(…)`."""
        return stream_async(updates, lambda arrivals: self.stream(arrivals, missing=missing))

    def subscribe(self, predicate: str, callback: Callback) -> Subscription:
        """Let a function be called with what changed in a predicate, after each commit that changed it.

        `cancel()` of the result ends that, and so does the end of a `with` block around it.
        """
        self.materialise()
        return self._subscriptions.add(find_predicate(predicate, self._program.predicates).name, callback)

    def deltas(self, predicate: str) -> Deltas:
        """What changes in a predicate from now on: `async for delta in reasoner.deltas("alarm")`."""
        return Deltas(lambda callback: self.subscribe(predicate, callback))

    def _commit(self, change: Change) -> Delta:
        """Carry a transaction out: all of it, or none of it and an error."""
        start = perf_counter()
        strategies.settle(self._strategies.values())
        if change.before is not self._program:
            message = "the program was changed while this transaction was put together"
            raise ProgramError(Diagnostic(PROGRAM_CHANGED, message, help="begin the transaction anew"))
        update, notices = change.update()
        for item in notices:
            self._tell(Notice(f"{item.location + ': ' if item.location else ''}{item.message}"))
        net = self._carry_out(update, change.program)
        self._program = change.program
        self._shown = None
        self._inconsistency = None
        self.commits += 1
        seconds = perf_counter() - start
        known = self._program.predicates
        watched = {name: _described(asked) for name, asked in self._demands.watched.items()}
        return Delta(net, known, self._engine.dictionary, self.commits, seconds, notices, watched)

    def _carry_out(self, update: Update, after: Program) -> NetChange:
        """The net change of an update; on any exception everything is as before."""
        known = self._program.predicates
        new = [] if after is self._program else [name for name in after.predicates if name not in known]
        tally = self.statistics
        loaded, derived = tally.loaded, tally.derived
        tally.clear()
        tally.derived = derived
        try:
            for name in new:
                self._engine.define(name, after.predicates[name].arity)
            step = self._demands.step(update, self._program, after)
            net = self._maintain(step, lambda: self._check_consistency(after))
            self._demands.adopt(step)
        except BaseException:
            for name in new:
                self._engine.drop(name)
            tally.loaded, tally.derived = loaded, derived
            raise
        return net

    def _maintain(self, step: Step, check: Callable[[], None]) -> NetChange:
        """The net change of a step, which is taken back if its outcome may not be: then `check` raises."""
        update, tally = step.update, self.statistics
        loaded, derived = tally.loaded, tally.derived
        net = NetChange()
        is_done = False
        limits = self._limits()
        try:
            with limits.guarding():
                if update:
                    self._compile_once("changes")
                    self._demands.define(step.kept)
                    net = self._maintainer.apply(update, step.before, step.after)
                    is_done = True
                _count(tally, loaded, derived, update, net)
                limits.check()
                check()
        except BaseException:
            if is_done:
                self._undo(step)
            raise
        return net

    def _undo(self, step: Step) -> None:
        """Take a step back that was carried out but must not be. Nothing stops this."""
        self._engine.check = self._check = _proceed
        with Limits(self.statistics).guarding():
            self._maintainer.apply(step.update.inverse, step.after, step.before)

    # ---- deriving

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
        if not (self._is_materialised and self._is_told):
            self.materialise()

    def _complete(self) -> None:
        """Derive everything that follows, an inconsistency included, if that has not been done."""
        if self._is_materialised:
            return
        strategies.settle(self._strategies.values())
        self.statistics.clear()
        limits = self._limits()
        with limits.guarding():
            self._compile_once()
            if self._demands.are_there:
                self._demands.withdraw()
            self._engine.forget_counters()
            derived = self._program.derived
            if self._was_materialised or any(map(self._engine.has_dead, derived)):
                self._engine.forget_derived(derived)
            self._load_program()
            self._engine.check = limits.check  # loading has had limits of its own
            self._was_materialised = True
            numbers = {id(rule): place for place, rule in enumerate(self._program.rules)}
            self._engine.derive(self.strata, numbers, self._tell, limits.check, self._modules)
        self._keep_by_rules()
        self._is_materialised = True
        self._is_told = False
        try:
            self._check_consistency(self._program)
        except Inconsistent as inconsistency:
            self._inconsistency = inconsistency.diagnostics  # a transaction may put it right

    @property
    def _is_maintained(self) -> bool:
        """Whether facts come and go in transactions: something was derived that must be kept right."""
        return self._is_materialised or self._demands.are_there

    def _settle(self) -> None:
        """Let there be something that transactions keep right: kept queries, tables, else everything."""
        if not self._demands.are_there and not self._has_tables:
            self._complete()

    @property
    def _has_tables(self) -> bool:
        """Whether there are tables; where all must be consistent, that is seen only if all is derived."""
        return BOTTOM not in self._program.predicates and strategies.are_following(self._strategies.values())

    def _keep(self, step: Step) -> None:
        """Carry out what kept queries want."""
        self._maintain(step, lambda: self._demands.check_consistency(self._program))

    def _keep_by_rules(self) -> None:
        """Let the answers of kept queries follow from what is derived, now that everything is."""
        step = self._demands.begin_anew(self._program)
        try:
            if step.update:
                self._keep(step)
        except BaseException:
            self._demands.withdraw()
            raise
        self._demands.adopt(step)

    @property
    def rules(self) -> tuple[Rule, ...]:
        """The rules, as they are now."""
        return self._program.rules

    @property
    def strata(self) -> tuple[Stratum, ...]:
        """The program's strata, in the order in which they are derived."""
        rules = self._program.rules
        if self._strata is None or self._strata[0] is not rules:
            self._strata = rules, strata(rules, self._program.predicates)
        return self._strata[1]

    @property
    def sizes(self) -> Statistics:
        """What join orders are decided on: the sizes of relations and of their columns."""
        return self._engine

    def _limits(self) -> Limits:
        """The limits of what begins now, which the engine checks from now on."""
        limits = Limits(self.statistics, self.timeout, self.max_facts, self.started)
        self._engine.check = self._check = limits.check
        self._engine.max_facts = self.max_facts
        return limits

    def _check_limits(self) -> None:
        self._check()

    def _compile_once(self, group: str = "run") -> None:
        """Let a group of kernels be compiled, in this run or an earlier one."""
        if group not in self._warm:
            warm.ensure(group, lambda notice: self._tell(Notice(notice)))
            self._warm.add(group)

    def _load_program(self) -> None:
        """Load the facts that the program states and imports, those that were not loaded before."""
        for name, _, batch in _fact_batches(self._stated[self._loaded_facts :]):
            self._load(name, [batch])
        self._loaded_facts = len(self._stated)
        for transfer in self._program.imports[self._loaded_imports :]:
            predicate = self._program.predicates[transfer.predicate]
            self._load(predicate.name, read_import(transfer, predicate, self.faults, self._engine.threads))
            self._loaded_imports += 1

    def _check_consistency(self, program: Program) -> None:
        self._demands.check_consistency(program)
        if BOTTOM not in program.predicates or not self._engine.size(BOTTOM):
            return
        rules = {number: rule for number, rule in enumerate(program.rules) if rule.head.predicate == BOTTOM}
        if not rules:
            raise Inconsistent(Diagnostic("E601", "inconsistent: the program states bottom()"))
        # Where nothing was derived just now, it is one of those that can derive it.
        done = self.statistics.rules
        matched = [rule for number, rule in rules.items() if number in done and done[number].matches]
        rule = (matched or list(rules.values()))[0]
        name = f" by the rule {rule.name!r}" if rule.name else ""
        raise Inconsistent(Diagnostic("E601", f"inconsistent: bottom() derived{name}", rule.span))

    # ---- asking

    def __getitem__(self, name: str) -> Relation:
        """All facts of a predicate, derived ones included."""
        predicate = find_predicate(name, self._program.predicates)
        self._derive_to_ask()
        columns, rows = self._engine.rows(predicate.name)
        return Relation(predicate.written, column_names(predicate), columns, rows, self._engine.dictionary)

    def _place(self) -> Place:
        """Where queries are asked: all explicit facts are loaded."""
        strategies.settle(self._strategies.values())
        if self._is_materialised:
            self._derive_to_ask()
        else:
            self.statistics.clear()
            with self._limits().guarding():
                self._compile_once()
                self._load_program()
        return Place(
            self._program,
            self._engine,
            self._is_materialised,
            self.materialise,
            self._tell,
            self._check_limits,
            self._modules,
            is_checked=not self._is_told,
            table_memory=self.table_memory,
        )

    def predicates(self) -> Mapping[str, Predicate]:
        """The predicates by their full names."""
        return self._program.predicates

    def __iter__(self) -> Iterator[str]:
        """The names of the predicates."""
        return (predicate.written for predicate in self._program.predicates.values())

    def _find(self, name: str) -> Predicate | None:
        predicate = self._program.predicates.get(name)
        if predicate is not None:
            return predicate
        return next((known for known in self._program.predicates.values() if known.written == name), None)

    def __repr__(self) -> str:
        state = "materialised" if self._is_materialised else "not materialised yet"
        program = self._program
        return f"<Reasoner: {len(program.rules)} rules, {len(program.predicates)} predicates, {state}>"


def prepare() -> None:
    """Load the compiled kernels now, or compile them, rather than when they are first used."""
    warm.compile_all()


def _described(asked: Asked) -> Predicate:
    """The answers of a live query as a predicate, for those who are told of its changes."""
    names = asked.query.variables
    return Predicate(asked.name, len(names), names, (ColumnType.ANY,) * len(names), asked.query.text.strip())


def _proceed() -> None:
    """The check that never stops anything."""


def _count(tally: Tally, loaded: int, derived: int, update: Update, net: NetChange) -> None:
    """Let the tally say how many facts there are, explicit and derived ones, after an update."""
    explicit = _total(update.added) - _total(update.removed)
    tally.loaded = loaded + explicit
    tally.derived = derived + _total(net.added) - _total(net.removed) - explicit


def _total(rows: Mapping[str, Rows]) -> int:
    return sum(some.count for some in rows.values())


def _fact_batches(facts: Iterable[Fact]) -> Iterator[tuple[str, list[Fact], Batch]]:
    """The stated facts, predicate by predicate."""
    by_predicate: dict[str, list[Fact]] = {}
    for fact in facts:
        by_predicate.setdefault(fact.predicate, []).append(fact)
    for name, stated in by_predicate.items():
        columns = tuple(map(column_of_values, zip(*(fact.values for fact in stated), strict=True)))
        yield name, stated, Batch(columns, len(stated))
