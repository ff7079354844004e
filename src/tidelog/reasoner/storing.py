"""Reasoners whose state outlives them: every transaction is in a store before it is acknowledged.

Everything is derived when a store is made, and kept right from then on; opening reads what was derived, and
works in what the journal says was done since. Mutates itself, and the store.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import suppress
from pathlib import Path
from types import TracebackType
from typing import Any, Final

from tidelog.data.memory import available_bytes
from tidelog.data.rows import Rows, total
from tidelog.engine.columnar.storage.engine_state import capture, refill, reinstate
from tidelog.engine.events import Notice
from tidelog.engine.interrupts import locked
from tidelog.engine.limits import OUT_OF_MEMORY
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
from tidelog.io.data_file import import_file
from tidelog.logic.equality_axioms import has_equality
from tidelog.logic.program import Program, Query, Sandbox, Variable
from tidelog.logic.resolve import program_of
from tidelog.maintenance.special_strata import Closures
from tidelog.query.kept_queries import KeptQuery
from tidelog.query.query_keepers import MaintainedQueries
from tidelog.reasoner.delta import Delta
from tidelog.reasoner.reasoner import Reasoner
from tidelog.reasoner.transaction import Change
from tidelog.rewrite.auxiliary_relations import ClosureModule, is_auxiliary
from tidelog.store import forms
from tidelog.store import journal as records
from tidelog.store.forms import Section, State, reading
from tidelog.store.journal import Record
from tidelog.store.json_forms import not_storable, surroundings_to_json
from tidelog.store.state_checks import arities_of, check_arities, check_asked
from tidelog.store.store import DURABILITY, Folder, Opened, Store, read_found
from tidelog.temporal import temporal
from tidelog.temporal.temporal import TimeSettings

SETTINGS = ("equality", "unique_names")  # what facts depend on beside the program
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
    """The reasoner in a folder; one that is new if there is none, and a program is given.

    Where there is one, its rules become those of the program that is given: as a transaction. Facts and
    imports of a program are read only when the store is made. `settings` are those of `Reasoner`.

    With `later`, a store that is new is made by `begin()`, so that facts can be read before.
    """
    if durability not in DURABILITY:
        raise ValueError(f"durability is {durability!r}: it must be one of {', '.join(DURABILITY)}")
    sandbox = Sandbox.of(settings.get("allow_read"), settings.get("allow_write"))
    program = None if program is None else program_of(program, sandbox)
    folder = Folder(Path(path))
    if read_only:
        reasoner = _reopened(read_found(folder.find()), None, settings)
        if program is not None:
            reasoner.check_rules(program)
        return reasoner
    if folder.is_store or program is None:
        store, opened = Store.open(folder.path, durability)
        try:
            reasoner = _reopened(opened, store, settings)
            if program is not None:
                reasoner.become(program)
        except BaseException:
            store.abandon()
            raise
        return reasoner
    reasoner = StoredReasoner(program, **settings)
    reasoner.create = lambda state: Store.create(folder.path, state, durability)
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
    folder = Folder(path)
    if not folder.is_store:
        return []
    snapshot = folder.find().snapshot
    try:
        tables = snapshot.index["tables"]
        return [(Section(*each["flags"]).count, len(each["columns"])) for each in tables]
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


def _reopened(opened: Opened, store: Store | None, settings: dict[str, Any]) -> StoredReasoner:
    """The reasoner that a store holds, as far as the journal goes."""
    state = opened.state
    kept = settings_of(state)
    _check_settings(state, kept, {name: settings[name] for name in kept if name in settings})
    reasoner = StoredReasoner(state.program, **{**kept, **settings})
    reasoner.resume(opened, store)
    return reasoner


def _check_settings(state: State, kept: Mapping[str, Any], asked: Mapping[str, Any]) -> None:
    """Raise `DataError` if settings are asked for under which other facts would follow than are stored."""
    relevant = [name for name in asked if name == "time" or has_equality(state.program.predicates)]
    made, wanted = (dict(_plain({name: some[name] for name in relevant})) for some in (kept, asked))
    other = [name for name in wanted if wanted[name] != made[name]]
    if other:
        this, that = (", ".join(f"{name}={some[name]}" for name in other) for some in (made, wanted))
        message = f"the store was made with {this}, and {that} is asked for"
        help = "leave that out; other settings need a store of their own, made from the same sources"
        raise not_storable(message, help)


def _plain(settings: Mapping[str, Any]) -> Iterator[tuple[str, str]]:
    """The settings one by one, each as it can be read."""
    for name, value in settings.items():
        if isinstance(value, TimeSettings):
            known = {"temporal": value.procedure, "rounds": value.rounds, "horizon": value.horizon}
            yield from ((each, str(part).lower()) for each, part in known.items())
        else:
            yield name, str(value).lower()


def settings_of(state: State) -> dict[str, Any]:
    """The settings that the facts of a state depend on."""
    known = {name: state.settings[name] for name in SETTINGS}
    return known if state.time is None else {**known, "time": state.time.settings}


class StoredReasoner(Reasoner):
    """A reasoner whose transactions are durable; `close()`, or the end of a `with` block, ends that."""

    def __init__(self, program: Program, **settings: Any) -> None:
        super().__init__(program, **settings)
        self.create: Callable[[State], Store] | None = None  # what makes the store when everything is derived
        self._store: Store | None = None
        self._is_read_only = False
        self._unfinished: tuple[Any, int] | None = None  # where the journal ended before a transaction, and …
        self._keeping: StoredKeeping = StoredKeeping(self._keeping, self._note)
        self._settings = {"equality": self._equality.name, "unique_names": self._equality.unique_names}

    # ---- beginning and ending

    @locked
    def begin(self) -> None:
        """Derive everything, and let it be in a new store; nothing, if there is one."""
        if self.create is not None:
            self._complete()
            self._store, self.create = self.create(self.state(0)), None

    def resume(self, opened: Opened, store: Store | None) -> None:
        """Restore the state of an opened store; without `store` to write to, the reasoner is read-only."""
        with forms.understood(opened.path), reading("the state"):
            self._reinstate(opened.state)
        self.replay(opened.records, opened.path.parent)
        for notice in opened.notices:
            self.runtime.tell(Notice(notice))
        self._keeping.waiting = list(self._demands.asked)
        self._store = store
        self._is_read_only = store is None
        self._write_if_due()

    @locked
    def become(self, program: Program) -> None:
        """Change the rules to those of a program, in a transaction if they differ."""
        change = self.change()
        change.become(program)
        removed, added = change.rule_counts
        if removed or added or surroundings_to_json(change.program) != surroundings_to_json(self._program):
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
    def is_stored(self) -> bool:
        """Whether there is a store: one that is new is made by `begin`."""
        return self._store is not None

    @property
    def is_in_place(self) -> bool:
        """Whether changes can be committed here, to the store that its folder holds."""
        if self._store is None:
            return not self._is_read_only
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
        """Write what is left to be written, and let others write to the store; it can be asked still.

        Does nothing in a process that was forked from the one that opened the store.
        """
        if (
            self._store is not None and self._store.is_mine
        ):  # else a thread may seem to hold the lock for ever
            self._close(self._store)

    @locked
    def _close(self, store: Store) -> None:
        self._tell_fault(store.close(lambda: self.state(self._sequence)))

    def __enter__(self) -> StoredReasoner:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    # ---- transactions

    def _commit(self, change: Change) -> Delta:
        """Carry a transaction out and let it be in the store: all of it, or none of it and an error."""
        self._check_writable()
        self._withdraw()
        self._unfinished = None if self._store is None else (self._store.mark, self.commits)
        try:
            delta = super()._commit(change)
        except BaseException:
            self._withdraw()  # interrupted after it was written
            raise
        self._unfinished = None
        self._confirm()
        self._write_if_due()
        return delta

    def _withdraw(self) -> None:
        """Delete the record of a transaction that was not committed, if a fault has left one."""
        if self._store is not None and self._unfinished is not None:
            mark, commits = self._unfinished
            if self.commits == commits:
                self._store.withdraw(mark)
        self._unfinished = None

    def _seal(self, change: Change, delta: Callable[[], Delta]) -> None:
        """Write a transaction to the store, now that it is worked in and may stay."""
        super()._seal(change, delta)
        says = change.stated or change.times or change.changes_program or change.batch is not None
        if self._store is not None and says:
            said = change.stated, change.times, change.before, change.program
            dictionary, number = self._engine.dictionary, self.commits + 1
            self._store.append(records.change_record(*said, dictionary, number, change.batch))

    def _note(self, record: bytes) -> None:
        """Write to the store that a query is kept, or no longer."""
        if self._store is not None:
            self._store.append(record)
            self._confirm()

    def _confirm(self) -> None:
        """Confirm in the superblock what is acknowledged; if that fails, what was committed stays."""
        if self._store is not None:
            try:
                self._store.confirm()
            except DataError as fault:
                self.runtime.tell(
                    Notice(f"the last commit is in the store, but its loss could go unnoticed: {fault}")
                )

    def _check_writable(self) -> None:
        if self._is_read_only:
            message = "the store was opened for reading"
            raise DataError(Diagnostic(codes.READ_ONLY, message, help="open it without `read_only`"))
        if self._store is not None:
            self._store.check()

    def _write_if_due(self) -> None:
        """Begin a snapshot, if the journal is long enough; a fault does not concern what was committed."""
        store = self._store
        if store is None or not store.is_due:
            return
        self._tell_fault(store.wait())
        try:
            store.begin_snapshot(lambda: self.state(self._sequence))
        except DataError as fault:
            self._tell_fault(fault)

    def _tell_fault(self, fault: BaseException | None) -> None:
        if fault is not None:
            self.runtime.tell(Notice(f"no snapshot could be written, the journal holds everything: {fault}"))

    # ---- the state

    @property
    def _sequence(self) -> int:
        """The number of the last record."""
        return self._store.next - 1 if self._store is not None else 0

    def state(self, sequence: int) -> State:
        """All that there is now, after the record of this number."""
        self._recover()
        known = self._meaning.predicates.keys() | self._demands.kept.arities.keys()
        relations = [name for name in self._engine.relations() if name in known or is_auxiliary(name)]
        tally = self.statistics
        return State(
            self._program,
            self._demands.asked,
            capture(self._engine, relations),
            sequence,
            self.commits,
            tally.loaded,
            tally.derived,
            self._settings,
            temporal.capture(self.time) if self._program.timed else None,
            dict(self.batches),
        )

    def _reinstate(self, state: State) -> None:
        """Restore a state in a reasoner without facts: none is derived again."""
        check_arities(state.engine, arities_of(self._meaning, state.asked))
        reinstate(self._engine, state.engine, lambda: self._resumed(state))
        if state.time is not None:
            temporal.reinstate(self.time, state.time, self._program)
        self._own.skip(self._program)
        self._note_imports()
        self.statistics.loaded, self.statistics.derived = state.loaded, state.derived
        self.commits, self.batches = state.commits, dict(state.batches)
        self._was_materialised = self._is_materialised = True
        try:
            self._check_consistency(self._program.static)
            self.time.check_consistency(self._program)
        except Inconsistent as inconsistency:
            self._inconsistency = inconsistency.diagnostics

    def _note_imports(self) -> None:
        """Record imported files, and None for other sources, as origins of facts for explanations."""
        for transfer in self._program.imports:
            predicate = self._program.predicates[transfer.predicate]
            with suppress(DataError):  # a file that may not be read is not looked at
                self._origins.note(predicate.name, import_file(transfer, predicate))
            self._origins.note(predicate.name, None)

    def _resumed(self, state: State) -> Mapping[str, ClosureModule]:
        """Restore equality and kept queries from a state; return the closures that structures keep."""
        self._equality.resume()
        self._demands.resume(state.asked, self._meaning)
        rules = self._demands.whole(self._meaning, self._demands.kept).rules
        return Closures(self._engine, True).modules(rules)

    @property
    def arities(self) -> dict[str, int]:
        """The columns of the relations that the program needs."""
        return arities_of(self._meaning, self._demands.asked)

    def salvage(self, state: State, explicit: Mapping[str, Rows]) -> None:
        """Load explicit facts over the dictionary of a state, and derive everything anew."""
        refill(self._engine.dictionary, state.engine.dictionary)
        for name, rows in explicit.items():
            self._engine.add(name, rows.columns, rows.count)
        if state.time is not None:
            temporal.reinstate(self.time, state.time, self._program)
        self._own.skip(self._program)
        self.commits, self.batches = state.commits, dict(state.batches)
        self._complete()
        self.statistics.loaded = total(explicit)

    @locked
    def compact(self) -> None:
        """Write a snapshot now; raises what is wrong with that."""
        self._check_writable()
        if self._store is not None:
            self._store.begin_snapshot(lambda: self.state(self._sequence))
            fault = self._store.wait()
            if fault is not None:
                raise fault

    def replay(self, records: Iterable[Record], path: Path) -> None:
        """Do again what records say was done; raises `DataError` if one of them cannot have been."""
        for record in records:
            what = f"record {record.number} of the journal"
            try:
                with forms.understood(path, what), reading("it"):
                    self._replay(record)
            except (ProgramError, EvaluationError, Inconsistent) as error:
                message = f"{what} cannot be done again: {error.diagnostics[0].message}"
                raise forms.damaged(path, message) from error

    def _replay(self, record: Record) -> None:
        """Do again what a record says was done."""
        said = records.Said(record)
        match said.kind:
            case records.KEEP:
                check_asked(said.asked, self._program)
                self._keeping.keep(said.asked.query, said.asked.parameters)
            case records.FORGET:
                asked = self._demands.find(said.name)
                if asked is not None:
                    self._keeping.forget(asked)
            case _:
                self._replay_change(said)

    def _replay_change(self, said: records.Said) -> None:
        change = self._begin(None, "ignore")
        program = said.program(self._program)
        if program is not self._program:
            change.become(program)
        known = self._engine.dictionary, program
        for name, rows in said.facts("-", *known).items():
            change.delete_rows(name, rows)
        for name, rows in said.facts("+", *known).items():
            change.insert_rows(name, rows)
        change.times.removed += said.times("-", *known)
        change.times.added += said.times("+", *known)
        change.times.advance = said.advance
        change.batch = said.batch
        self.commits = said.commit - 1
        change.commit()


class StoredKeeping(MaintainedQueries):
    """Kept queries that are in the store too; those of earlier processes are taken up when asked again."""

    def __init__(self, keeping: MaintainedQueries, note: Callable[[bytes], None]) -> None:
        super().__init__(keeping.engine, keeping.demands, keeping._carry_out, keeping._program)
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
