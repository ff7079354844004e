"""Reasoners whose state is durable: every transaction is in a store before it is acknowledged.

Everything is derived when a store is made, and maintained from then on; opening reads the last snapshot, and
applies the transactions of the journal since. Mutates itself, and the store.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from tidelog.data.memory import available_bytes
from tidelog.data.rows import Rows, total
from tidelog.engine.columnar.storage.engine_state import capture, refill, reinstate
from tidelog.engine.events import Notice
from tidelog.engine.interrupts import locked
from tidelog.errors import (
    DataError,
    Diagnostic,
    EvaluationError,
    Inconsistent,
    ProgramError,
    Stopped,
    codes,
    counted,
)
from tidelog.errors.codes import OUT_OF_MEMORY
from tidelog.io.data_file import import_file
from tidelog.logic.equality_axioms import has_equality
from tidelog.logic.program import Program, Query, Sandbox, Variable
from tidelog.logic.resolve import program_of
from tidelog.maintenance.special_strata import ClosureChoice
from tidelog.query.kept_queries import KeptQueries, KeptQuery, QueryStep
from tidelog.query.query_keepers import MaintainedQueries
from tidelog.reasoner.program_state import History
from tidelog.reasoner.reasoner import Reasoner
from tidelog.reasoner.runtime import Runtime
from tidelog.reasoner.transaction import Change
from tidelog.rewrite.auxiliary_relations import ClosureModule, is_auxiliary
from tidelog.store import forms
from tidelog.store import journal as records
from tidelog.store.forms import FileSection, StoredState, reading
from tidelog.store.journal import JournalRecord
from tidelog.store.json_forms import not_storable, surroundings_to_json
from tidelog.store.state_checks import arities_of, check_arities, check_asked
from tidelog.store.store import DURABILITY, FactStore, OpenedStore, StoreFolder, read_found
from tidelog.temporal import temporal
from tidelog.temporal.temporal import TimeSettings

if TYPE_CHECKING:
    from tidelog.engine.columnar.engine import ColumnarEngine

SETTINGS = ("equality", "unique_names")  # what derived facts depend on in addition to the program
# Bytes of memory that a state takes in a process that changes it: measured, see docs/store.md.
PER_FACT: Final = 64
PER_COLUMN: Final = 40
SHARE: Final = 0.8  # of what the machine, or the container, has left: the default limit of a state


def open_store(
    path: Path | str,
    program: Program | Path | str | None = None,
    *,
    durability: str = "full",
    read_only: bool = False,
    later: bool = False,
    **settings: Any,
) -> StoredReasoner:
    """Return the reasoner in a folder: a new one if there is none, and a program is given.

    Where there is one, its rules become those of the given program, in a transaction. Facts and
    imports of a program are read only when the store is made. `settings` are those of `Reasoner`.

    With `later`, a store that is new is made by `begin()`, so that facts can be read before.
    """
    if durability not in DURABILITY:
        raise ValueError(f"durability is {durability!r}: it must be one of {', '.join(DURABILITY)}")
    sandbox = Sandbox.of(settings.get("allow_read"), settings.get("allow_write"))
    program = None if program is None else program_of(program, sandbox)
    folder = StoreFolder(Path(path))
    if read_only:
        reasoner = _reopened(read_found(folder.find()), None, settings)
        if program is not None:
            reasoner.check_rules(program)
        return reasoner
    if folder.is_store or program is None:
        store, opened = FactStore.open(folder.path, durability)
        try:
            reasoner = _reopened(opened, store, settings)
            if program is not None:
                reasoner.become(program)
        except BaseException:
            store.abandon()
            raise
        return reasoner
    reasoner = StoredReasoner(program, **settings)
    reasoner.create = lambda state: FactStore.create(folder.path, state, durability)
    if not later:
        reasoner.begin()
    return reasoner


def memory_for(tables: Iterable[tuple[int, int]]) -> int:
    """Return about how many bytes a state takes that changes, from the rows and columns of its relations.

    >>> memory_for([(1_000_000, 2)])
    144000000
    """
    return sum(rows * (PER_FACT + PER_COLUMN * columns) for rows, columns in tables)


def stored_sizes(path: Path) -> list[tuple[int, int]]:
    """Return the rows and columns of a store's relations, as its last snapshot says; none without one."""
    folder = StoreFolder(path)
    if not folder.is_store:
        return []
    snapshot = folder.find().snapshot
    try:
        tables = snapshot.index["tables"]
        return [(FileSection(*each["flags"]).count, len(each["columns"])) for each in tables]
    finally:
        snapshot.close()


def check_memory(tables: Collection[tuple[int, int]], what: str, limit: int | None, help: str) -> None:
    """Raise `Stopped` if a state would take more memory than it may; by default most of what there is."""
    needed, told = memory_for(tables), "as was set"
    if limit is None:
        free = available_bytes()
        if free is None:
            return
        limit, told = int(SHARE * free), f"{SHARE:.0%} of what this machine has left"
    if needed > limit:
        facts = sum(rows for rows, _ in tables)
        message = (
            f"{what} has {counted(facts, 'fact')}, and takes about {needed / 1e6:,.0f} MB in this process, "
            f"which may take {limit / 1e6:,.0f} MB ({told})"
        )
        raise Stopped(Diagnostic(OUT_OF_MEMORY, message, help=help))


def _reopened(opened: OpenedStore, store: FactStore | None, settings: dict[str, Any]) -> StoredReasoner:
    """Return the reasoner of a store, with all transactions of the journal."""
    state = opened.state
    kept = settings_of(state)
    _check_settings(state, kept, {name: settings[name] for name in kept if name in settings})
    reasoner = StoredReasoner(state.program, **{**kept, **settings})
    reasoner.resume(opened, store)
    return reasoner


def _check_settings(state: StoredState, kept: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
    """Raise `DataError` if with these settings other facts would be derived than are stored."""
    relevant = [name for name in asked if name == "time" or has_equality(state.program.predicates)]
    made, wanted = (dict(_plain({name: some[name] for name in relevant})) for some in (kept, asked))
    other = [name for name in wanted if wanted[name] != made[name]]
    if other:
        this, that = (", ".join(f"{name}={some[name]}" for name in other) for some in (made, wanted))
        message = f"the store was made with {this}, but {that} was requested"
        help = "omit the setting; other settings need a separate store, created from the same sources"
        raise not_storable(message, help)


def _plain(settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """Yield the settings one by one, each as text."""
    for name, value in settings.items():
        if isinstance(value, TimeSettings):
            known = {"temporal": value.procedure, "rounds": value.rounds, "horizon": value.horizon}
            yield from ((each, str(part).lower()) for each, part in known.items())
        else:
            yield name, str(value).lower()


def settings_of(state: StoredState) -> dict[str, Any]:
    """Return the settings that the facts of a state depend on."""
    known = {name: state.settings[name] for name in SETTINGS}
    return known if state.time is None else {**known, "time": state.time.settings}


class StoreKeeper:
    """Writes transactions, and which queries are kept, to a store; without one, changes are refused."""

    def __init__(
        self, store: FactStore | None, history: History, state: Callable[[int], StoredState], runtime: Runtime
    ) -> None:
        self.store = store
        self._history = history
        self._state = state
        self._runtime = runtime
        self._unfinished: tuple[Any, int] | None = None  # the journal's end before a transaction, and commits

    def check_writable(self) -> FactStore:
        """Return the store; raise `DataError` if it was opened for reading, or cannot be written."""
        if self.store is None:
            message = "the store was opened for reading"
            raise DataError(Diagnostic(codes.READ_ONLY, message, help="open it without `read_only`"))
        self.store.check()
        return self.store

    def begin(self) -> None:
        """Note where the journal ends, before a transaction."""
        store = self.check_writable()
        self.withdraw()
        self._unfinished = store.mark, self._history.commits

    def append(self, change: Change) -> None:
        """Write a transaction that has been applied and may stay; one that changes nothing is not written."""
        has_times, is_other = change.has_times, change.changes_program
        if self.store is not None and (change.update or has_times or is_other or change.batch is not None):
            programs, number = (change.before, change.program), self._history.commits + 1
            dictionary = self._runtime.engine.storage.dictionary
            record = records.change_record(
                change.update, change.times, *programs, dictionary, number, change.batch
            )
            self.store.append(record)

    def withdraw(self) -> None:
        """Delete the record of a transaction that was not committed, if a fault has left one."""
        if self.store is not None and self._unfinished is not None:
            mark, commits = self._unfinished
            if self._history.commits == commits:
                self.store.withdraw(mark)
        self._unfinished = None

    def confirm(self) -> None:
        """Acknowledge a transaction, and begin a snapshot if one is due."""
        self._unfinished = None
        self._confirm()
        self.write_if_due()

    def note(self, record: bytes) -> None:
        """Write that a query is kept, or no longer."""
        if self.store is not None:
            self.store.append(record)
            self._confirm()

    def _confirm(self) -> None:
        """Confirm in the superblock what is acknowledged; if that fails, what was committed stays."""
        if self.store is not None:
            try:
                self.store.confirm()
            except DataError as error:
                message = f"the last commit is in the store, but its loss could go unnoticed: {error}"
                self._runtime.tell(Notice(message))

    def write_if_due(self) -> None:
        """Begin a snapshot, if the journal is long enough; errors do not concern what was committed."""
        store = self.store
        if store is None or not store.is_due:
            return
        self._report(store.wait())
        try:
            store.begin_snapshot(self._present_state)
        except DataError as error:
            self._report(error)

    def compact(self) -> None:
        """Write a snapshot, and wait for it; raise what is wrong with that."""
        store = self.check_writable()
        store.begin_snapshot(self._present_state)
        error = store.wait()
        if error is not None:
            raise error

    def close(self) -> None:
        """Write the rest, and release the store to others."""
        if self.store is not None:
            self._report(self.store.close(self._present_state))

    def _present_state(self) -> StoredState:
        """Return the state after the last record."""
        return self._state(self.store.next - 1 if self.store is not None else 0)

    def _report(self, error: BaseException | None) -> None:
        if error is not None:
            message = f"no snapshot could be written, the journal holds everything: {error}"
            self._runtime.tell(Notice(message))


class StoredReasoner(Reasoner):
    """A reasoner whose transactions are durable; `close()`, or the end of a `with` block, ends that."""

    def __init__(self, program: Program, **settings: Any) -> None:
        super().__init__(program, **settings)
        # Makes the store when everything is derived.
        self.create: Callable[[StoredState], FactStore] | None = None
        self._keeper: StoreKeeper | None = None  # None until there is a store
        self._keeping = StoredKeeping(
            self._engine, self._demands, self._applier.keep, self._effective, self._note
        )
        self._asker.keeping = self._keeping

    # ---- beginning and ending

    @locked
    def begin(self) -> None:
        """Derive everything, and write it to a new store; does nothing if there is one."""
        if self.create is not None:
            self._deriver.complete()
            self._attach(self.create(self.state(0)))
            self.create = None

    def resume(self, opened: OpenedStore, store: FactStore | None) -> None:
        """Restore the state of an opened store; without `store` to write to, the reasoner is read-only."""
        with forms.understood(opened.path), reading("the state"):
            self._reinstate(opened.state)
        self.replay(opened.records, opened.path.parent)
        for notice in opened.notices:
            self.runtime.tell(Notice(notice))
        self._keeping.waiting = list(self._demands.asked)
        self._attach(store).write_if_due()

    def _attach(self, store: FactStore | None) -> StoreKeeper:
        """Write all transactions from now on to a store; refuse them if there is none."""
        self._keeper = StoreKeeper(store, self._committer.history, self.state, self.runtime)
        self._committer.log = self._keeper
        return self._keeper

    @locked
    def become(self, program: Program) -> None:
        """Change the rules to those of a program, in a transaction if they differ."""
        change = self.change()
        change.become(program)
        removed, added = change.rule_counts
        is_other = surroundings_to_json(change.program) != surroundings_to_json(self._program.current)
        if removed or added or is_other:
            change.commit()
            self.runtime.tell(Notice(f"the program of the store has changed: +{added} −{removed} rules"))

    def check_rules(self, program: Program) -> None:
        """Raise `DataError` if the rules are not those of a program."""
        change = self.change()
        change.become(program)
        removed, added = change.rule_counts
        if removed or added:
            changes = f"the program would change its rules: +{added} −{removed}"
            message = f"the store is opened for reading, and {changes}"
            help = "leave the program out, or open the store without `read_only`, `--read-only`"
            raise DataError(Diagnostic(codes.READ_ONLY, message, help=help))

    @property
    def _store(self) -> FactStore | None:
        return None if self._keeper is None else self._keeper.store

    @property
    def is_stored(self) -> bool:
        """Whether there is a store: one that is new is made by `begin`."""
        return self._store is not None

    @property
    def is_in_place(self) -> bool:
        """Whether changes can be committed here, to the store that its folder holds."""
        if self._store is None:
            return self._keeper is None
        try:
            self._store.check()
        except DataError:
            return False
        return self._store.is_in_place

    def abandon(self) -> None:
        """Release the store to others without writing anything more; all that was committed is in it."""
        if self._store is not None:
            self._store.abandon()

    def close(self) -> None:
        """Write the rest, and release the store to other writers; queries can still be asked.

        Does nothing in a process that was forked from the one that opened the store.
        """
        # In a forked process, a thread that does not exist there may seem to hold the lock.
        if self._store is not None and self._store.is_mine:
            self._close()

    @locked
    def _close(self) -> None:
        if self._keeper is not None:
            self._keeper.close()

    def __enter__(self) -> StoredReasoner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    @locked
    def compact(self) -> None:
        """Write a snapshot now; raises what is wrong with that."""
        if self._keeper is not None:
            self._keeper.compact()

    def _note(self, record: bytes) -> None:
        if self._keeper is not None:
            self._keeper.note(record)

    # ---- the state

    def state(self, sequence: int) -> StoredState:
        """Return the whole state, as it is after the record of this number."""
        self._recovery.recover()
        program = self._program
        known = program.effective.predicates.keys() | self._demands.kept.arities.keys()
        relations = [name for name in self._engine.storage.relations() if name in known or is_auxiliary(name)]
        return StoredState(
            program.current,
            self._demands.asked,
            capture(self._engine, relations),
            sequence,
            self.commits,
            self.statistics.loaded,
            self.statistics.derived,
            {"equality": program.settings.treatment, "unique_names": program.settings.unique_names},
            temporal.capture(self.time) if program.current.timed else None,
            dict(self.batches),
        )

    def _reinstate(self, state: StoredState) -> None:
        """Restore a state in a reasoner without facts: none is derived again."""
        program = self._program
        check_arities(state.engine, arities_of(program.effective, state.asked))
        reinstate(self._engine, state.engine, lambda: self._resumed(state))
        self._restore_surroundings(state)
        self._note_imports()
        self.statistics.loaded, self.statistics.derived = state.loaded, state.derived
        self._derived.complete()
        self._deriver.check_consistency()

    def _restore_surroundings(self, state: StoredState) -> None:
        """Restore what a state has in addition to the engine."""
        if state.time is not None:
            temporal.reinstate(self.time, state.time, self._program.current)
        self._program.facts.skip(self._program.current)
        history = self._committer.history
        history.commits, history.batches = state.commits, dict(state.batches)

    def _note_imports(self) -> None:
        """Record imported files, and None for other sources, as origins of facts for explanations."""
        program = self._program.current
        for transfer in program.imports:
            predicate = program.predicates[transfer.predicate]
            with suppress(DataError):  # a file that may not be read is not searched
                self._data.note_origin(predicate.name, import_file(transfer, predicate))
            self._data.note_origin(predicate.name, None)

    def _resumed(self, state: StoredState) -> Mapping[str, ClosureModule]:
        """Restore equality and kept queries from a state; return the closures that structures keep."""
        if self._program.has_equality:
            self._program.equality.resume()
        effective = self._program.effective
        self._demands.resume(state.asked, effective)
        rules = self._demands.whole(effective, self._demands.kept).rules
        return ClosureChoice(self._engine, True).modules(rules)

    @property
    def arities(self) -> dict[str, int]:
        """The columns of the relations that the program needs."""
        return arities_of(self._program.effective, self._demands.asked)

    def salvage(self, state: StoredState, explicit: Mapping[str, Rows]) -> None:
        """Load explicit facts over the dictionary of a state, and derive everything again."""
        refill(self._engine.storage.dictionary, state.engine.dictionary)
        for name, rows in explicit.items():
            self._engine.storage.add(name, rows.columns, rows.count)
        self._restore_surroundings(state)
        self._deriver.complete()
        self.statistics.loaded = total(explicit)

    def replay(self, records: Iterable[JournalRecord], path: Path) -> None:
        """Commit the transactions of records again; raise `DataError` if one of them is impossible."""
        for record in records:
            what = f"record {record.number} of the journal"
            try:
                with forms.understood(path, what), reading("it"):
                    self._replay(record)
            except (ProgramError, EvaluationError, Inconsistent) as error:
                message = f"{what} cannot be replayed: {error.diagnostics[0].message}"
                raise forms.damaged(path, message) from error

    def _replay(self, record: JournalRecord) -> None:
        """Commit the transaction of a record again, or keep or forget its query."""
        said = records.RecordContent(record)
        match said.kind:
            case records.KEEP:
                check_asked(said.asked, self._program.current)
                self._keeping.keep(said.asked.query, said.asked.parameters)
            case records.FORGET:
                asked = self._demands.find(said.name)
                if asked is not None:
                    self._keeping.forget(asked)
            case _:
                self._replay_change(said)

    def _replay_change(self, said: records.RecordContent) -> None:
        change = self._begin(None, "ignore")
        program = said.program(self._program.current)
        if program is not self._program.current:
            change.become(program)
        known = self._engine.storage.dictionary, program
        for name, rows in said.facts("-", *known).items():
            change.delete_rows(name, rows)
        for name, rows in said.facts("+", *known).items():
            change.insert_rows(name, rows)
        if said.has_times:
            change.times.removed += said.times("-", *known)
            change.times.added += said.times("+", *known)
            change.times.advance = said.advance
        change.batch = said.batch
        self._committer.history.commits = said.commit - 1
        change.commit()


class StoredKeeping(MaintainedQueries):
    """Kept queries that are in the store too; those of earlier processes go on when they are asked again."""

    def __init__(
        self,
        engine: ColumnarEngine,
        demands: KeptQueries,
        apply: Callable[[QueryStep], None],
        program: Callable[[], Program],
        note: Callable[[bytes], None],
    ) -> None:
        super().__init__(engine, demands, apply, program)
        self.waiting: list[KeptQuery] = []  # kept since an earlier process, not asked in this one
        self._note = note

    def keep(self, query: Query, parameters: tuple[Variable, ...] = ()) -> KeptQuery:
        """Maintain the answers to a query from now on."""
        for place, known in enumerate(self.waiting):
            if known.query == query and known.parameters == parameters:
                return self.waiting.pop(place)
        asked = super().keep(query, parameters)
        try:
            self._note(records.keep_record(asked))
        except BaseException:
            super().forget(asked)
            raise
        return asked

    def forget(self, asked: KeptQuery) -> None:
        """Stop maintaining the answers to a query, and what only it needed; has no effect the second time."""
        if self.demands.find(asked.name) is asked:
            super().forget(asked)
            self._note(records.forget_record(asked))
