"""Facts and rules that come to a reasoner: Python objects, files, texts, batches. Mutates itself.

Once something is derived that must be kept right, whatever comes is a transaction.
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from typing import Any

from tidelog.data.columns import Batch
from tidelog.data.rows import Rows, total
from tidelog.engine.events import FactsLoaded, Tally
from tidelog.engine.interrupts import arriving, locked, waited_for
from tidelog.equality.listing import Listing
from tidelog.equality.treatment import Axiomatised
from tidelog.errors import SourceText
from tidelog.io.data_file import InputFile, data_file, data_files, predicate_of
from tidelog.io.python_data import from_python
from tidelog.io.reader import read
from tidelog.io.rejects import RejectedRows
from tidelog.logic.program import Predicate, Program, Rule
from tidelog.logic.resolve import extend, giving_times, warned
from tidelog.logic.strata import Stratum
from tidelog.query import registry as strategies
from tidelog.reasoner.explaining import Explaining
from tidelog.reasoner.relation_types import Schemas
from tidelog.reasoner.staged_facts import ProgramFacts
from tidelog.reasoner.transaction import Change, find_to_insert, with_arity
from tidelog.syntax.parser import parse
from tidelog.temporal.temporal import Restored, Temporal, restore_times
from tidelog.temporal.time_columns import split_rows
from tidelog.temporal.timed_changes import Times


class Loading(Explaining):
    """The part of a reasoner that facts and rules come in by; the other part derives and changes."""

    faults: RejectedRows
    time: Temporal
    statistics: Tally
    _engine: Any
    _equality: Axiomatised
    equal: str
    _own: ProgramFacts
    _shown: Program | None
    _was_materialised: bool
    _schemas: Schemas
    _is_materialised: bool

    @property
    @abstractmethod
    def program(self) -> Program:
        """The program as it is now."""

    @property
    @abstractmethod
    def _meaning(self) -> Program:
        """The program with all rules by which facts without times follow."""

    @property
    @abstractmethod
    def _is_maintained(self) -> bool:
        """Whether facts come and go in transactions."""

    @abstractmethod
    def change(self, *, missing: str = "error") -> Change:
        """A transaction."""

    @abstractmethod
    def materialise(self) -> None:
        """Derive everything that follows."""

    @abstractmethod
    def _recover(self) -> None:
        """Begin anew with the explicit facts, if a fault has ended a transaction somewhere within it."""

    @abstractmethod
    def _derive(self, is_anew: bool, rules: Sequence[Rule] | None = None) -> None:
        """Derive everything by the rules as they are now, or by some of them."""

    @property
    @abstractmethod
    def strata(self) -> tuple[Stratum, ...]:
        """The program's strata, in the order in which they are derived."""

    @abstractmethod
    def _keep_by_rules(self) -> None:
        """Maintain the answers of kept queries from derived facts."""

    # ---- facts and rules in

    @locked
    def insert(self, predicate: str, data: object, *, define: bool = False) -> int:
        """Add explicit facts to a predicate; returns how many were new.

        The program mentions the predicate, or else `define` makes it.

        `data` is Arrow data, a polars or pandas data frame, or an iterable of tuples. Once everything has
        been derived this is a transaction of its own: `change()` puts several together.
        """
        known = find_to_insert(predicate, self._program, define)
        if self._is_maintained:
            with self.change() as change:
                change.insert(predicate, data, define=define)
            return change.inserted
        timed = split_rows(data, None if known is None else known.arity, self._program.is_integer_time)
        if timed is not None:
            return self._insert_timed(predicate, *timed)
        if known is None:
            data, arity = with_arity(data)
            if arity is None:
                return 0
            known = self._define(predicate, arity)
        # All rows are read before the first is added: a bad one leaves everything as it was.
        types = self.program.types_of(known)
        batches = list(waited_for(from_python(data, types, known.columns, self.faults)))
        self._origins.note(known.name, None)
        self._schemas.note(known.name)
        return self._load(known.name, batches)

    def _insert_timed(self, predicate: str, data: object, times: Times) -> int:
        """Add facts with times."""
        known = self._program.find(predicate)
        if known is None:
            data, arity = with_arity(data)
            known = self._define(predicate, arity or 0)
        self._program = giving_times(self._program, [known.name])
        self._shown = None
        types = self.program.types_of(known)
        batches = list(waited_for(from_python(data, types, known.columns, self.faults)))
        columns = [tuple(map(self._engine.encode_column, batch.columns)) for batch in batches]
        self._schemas.note(known.name)
        return self.time.give(known.name, columns, times)

    @locked
    def read(self, *paths: Path | str, header: bool | None = None) -> int:
        """Add the facts in files, each named after its predicate; a folder stands for its files."""
        files = data_files([Path(path) for path in paths])
        if self._is_maintained:
            with self.change() as change:
                for path in files:
                    change.load(*self._read(path, change.program, header))
            return change.inserted
        return sum(self._load(*self._read(path, self._program, header)) for path in files)

    def _read(self, path: Path, program: Program, header: bool | None) -> tuple[str, Iterator[Batch]]:
        """The predicate whose facts a file holds, and the facts."""
        name = predicate_of(path, program.predicates)
        file = data_file(path, program.predicates.get(name), header)
        self._origins.note(name, file)
        self._schemas.note(name, file)
        return name, self._arriving(read(file, self.faults, self._engine.threads), file)

    def _arriving(self, batches: Iterable[Batch], file: InputFile) -> Iterator[Batch]:
        """The batches of a file; limits hold while one is waited for that somebody else writes."""
        return arriving(batches, self.runtime.limits().check) if file.may_wait else iter(batches)

    @locked
    def add(self, text: str, *, name: str = "<text>", folder: Path | None = None) -> None:
        """Add the statements of a text to the program: rules, facts, declarations, imports."""
        if self._is_maintained:
            with self.change() as change:
                change.add(text, name=name, folder=folder)
            return
        strategies.settle(self._strategies.values())
        program = warned(extend(parse(SourceText(name, text)), self._program, folder=folder))
        self._own.stated += program.facts
        self._program = replace(program, facts=())
        self._shown = replace(program, facts=self._own.stated)
        self._define_all()

    @locked
    def load_timed(self, predicate: str, parts: Iterable[tuple[Batch, Times]]) -> int:
        """Add facts with times, before anything is derived; returns how many intervals were new."""
        self._recover()
        self._origins.note(predicate, None)
        self._schemas.note(predicate)
        return self.time.load_parts(predicate, parts, self.runtime.tell)

    @locked
    def load(self, predicate: str, batches: Iterable[Batch]) -> int:
        """Add explicit facts that come as batches of columns; returns how many were new."""
        if self._is_maintained:
            with self.change() as change:
                change.load(predicate, batches)
            return change.inserted
        self._origins.note(predicate, None)
        self._schemas.note(predicate)
        return self._load(predicate, batches)

    def _load(self, name: str, batches: Iterable[Batch]) -> int:
        """Load batches of explicit facts, some of which may have to be waited for."""
        strategies.settle(self._strategies.values())
        new = 0
        limits = self.runtime.limits()
        with limits.guarding():
            start = perf_counter()
            for batch in waited_for(batches):
                if name not in self._program.predicates:
                    self._define(name, len(batch.columns))
                added = self._engine.load(name, batch)
                new += added
                end = perf_counter()
                self.runtime.tell(FactsLoaded(name, batch.rows, added, end - start))
                start = end
                limits.check()
        return new

    @property
    def engine(self) -> Any:
        """The engine that holds the facts, for whoever writes them elsewhere; not to be changed."""
        self._recover()
        return self._engine

    @locked
    def listing(self) -> Listing | None:
        """How all facts are listed, for whoever writes them elsewhere, if not as the engine holds them."""
        self._recover()
        return self._equality.listing(self._program.static, self.equal)

    @locked
    def restore(
        self, explicit: Mapping[str, Rows], facts: Mapping[str, Rows], times: Restored | None = None
    ) -> None:
        """Restore a complete set of facts in a reasoner without any: none is derived again.

        `facts` are those of predicates of which not all are explicit, listed as `listing` does. The rows are
        ids of the reasoner's own dictionary. `times` has the facts that hold at times; if they are periodic,
        they are derived again from the given ones. Facts and imports of the program are ignored.
        """
        static = self._program.static
        held, derived = self._equality.restored(static, explicit, facts)
        for name, rows in held.items():
            self._engine.add(name, rows.columns, rows.count)
        for name in explicit:
            self._origins.note(name, None)
            self._schemas.note(name)
        self._engine.restore({name: (rows.columns, rows.count) for name, rows in derived.items()})
        with self.runtime.limits().guarding():
            self._equality.resume_restored(static, self._derive)
            if times is not None and restore_times(self.time, times, self._program):
                self.time.derive(self._program, len(self.strata), self.runtime.tell, self.runtime.check)
        self._own.skip(self._program)
        self.statistics.loaded, self.statistics.derived = total(explicit), total(derived)
        self._was_materialised = True
        self._keep_by_rules()
        self._is_materialised = True
        self._is_told = False

    def _define(self, name: str, arity: int) -> Predicate:
        """Make known a predicate that the program does not mention."""
        self._program = self._program.defining(name, arity)
        self._shown = None
        self._define_all()
        return self._program.predicates[name]

    def _define_all(self) -> None:
        for predicate in self._meaning.predicates.values():
            self._engine.define(predicate.name, predicate.arity)

    def _load_program(self) -> None:
        """Load the facts that the program states and imports, those that were not loaded before."""
        self.time.state(self._own.pending_times(), self.runtime.tell)
        for name, batches, file, time in self._own.pending(self._program, self.faults, self._engine.threads):
            if file is not None:
                batches = self._arriving(batches, file)
            if time:
                self.time.load(name, batches, time, self.runtime.tell)
            else:
                self._load(name, batches)
            if file is not None:
                self._origins.note(name, file)
                self._schemas.note(name, file)
