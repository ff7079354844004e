"""Facts and rules that are loaded before anything is derived: Python objects, files, texts, batches.
Mutates the engine.

Once something is derived that must be maintained, all that is inserted is a transaction.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from dataclasses import dataclass
from pathlib import Path
from time import perf_counter

from tidelog.data.columns import Batch
from tidelog.engine.events import FactsLoaded
from tidelog.engine.interrupts import arriving, waited_for
from tidelog.errors import SourceText
from tidelog.io.data_file import InputFile, data_file, data_files, predicate_of
from tidelog.io.python_data import from_python
from tidelog.io.reader import read
from tidelog.io.rejects import RejectedRows
from tidelog.logic.program import Predicate, Program
from tidelog.logic.resolve import extend, giving_times, warned
from tidelog.reasoner.loaded_data import LoadedData
from tidelog.reasoner.program_state import ProgramState
from tidelog.reasoner.runtime import Runtime, UsedStrategies
from tidelog.reasoner.transaction import find_to_insert, is_plain, with_arity
from tidelog.syntax.parser import parse
from tidelog.temporal.temporal import Temporal
from tidelog.temporal.time_columns import split_rows
from tidelog.temporal.timed_changes import RowTimes


@dataclass(frozen=True, slots=True)
class Loader:
    """Loads facts and rules where nothing is derived."""

    runtime: Runtime
    program: ProgramState
    time: Temporal
    data: LoadedData
    strategies: UsedStrategies
    rejects: RejectedRows

    def insert(self, predicate: str, data: object, define: bool) -> int:
        """Insert explicit facts that are Python objects, and return how many are new."""
        known = find_to_insert(predicate, self.program.current, define)
        if not is_plain(data, known):
            arity = None if known is None else known.arity
            timed = split_rows(data, arity, self.program.current.is_integer_time)
            if timed is not None:
                return self._insert_timed(predicate, *timed)
        if known is None:
            data, arity = with_arity(data)
            if arity is None:
                return 0
            known = self.define(predicate, arity)
        # All rows are read before the first is inserted: a bad one leaves everything as it was.
        types = self.program.current.types_of(known)
        batches = list(waited_for(from_python(data, types, known.columns, self.rejects)))
        self.data.note(known.name)
        return self._load(known.name, batches)

    def _insert_timed(self, predicate: str, data: object, times: RowTimes) -> int:
        """Insert facts with times."""
        known = self.program.current.find(predicate)
        if known is None:
            data, arity = with_arity(data)
            known = self.define(predicate, arity or 0)
        self.program.become(giving_times(self.program.current, [known.name]))
        types = self.program.current.types_of(known)
        batches = list(waited_for(from_python(data, types, known.columns, self.rejects)))
        columns = [
            tuple(map(self.runtime.engine.storage.dictionary.encode_column, batch.columns))
            for batch in batches
        ]
        self.data.types.note(known.name)
        return self.time.give(known.name, columns, times)

    def read(self, paths: Iterable[Path | str], header: bool | None) -> int:
        """Load the facts of files, and return how many are new."""
        return sum(self._load(*each) for each in self.files(paths, lambda: self.program.current, header))

    def files(
        self, paths: Iterable[Path | str], program: Callable[[], Program], header: bool | None
    ) -> Iterator[tuple[str, Iterator[Batch]]]:
        """Yield the predicate whose facts each file has, and the facts; folders stand for their files."""
        for path in data_files([Path(path) for path in paths]):
            predicates = program().predicates
            name = predicate_of(path, predicates)
            file = data_file(path, predicates.get(name), header)
            self.data.note(name, file)
            yield name, self.arriving(read(file, self.rejects, self.runtime.engine.threads), file)

    def arriving(self, batches: Iterable[Batch], file: InputFile) -> Iterator[Batch]:
        """Yield the batches of a file; limits hold while another process still writes one."""
        return arriving(batches, self.runtime.limits().check) if file.may_wait else iter(batches)

    def load(self, predicate: str, batches: Iterable[Batch]) -> int:
        """Load batches of explicit facts, and return how many are new."""
        self.data.note(predicate)
        return self._load(predicate, batches)

    def load_timed(self, predicate: str, parts: Iterable[tuple[Batch, RowTimes]]) -> int:
        """Load facts with times, and return how many intervals are new."""
        self.data.note(predicate)
        return self.time.load_parts(predicate, parts, self.runtime.tell)

    def _load(self, name: str, batches: Iterable[Batch]) -> int:
        """Load batches of explicit facts, some of which may have to be waited for."""
        self.strategies.drain()
        new = 0
        runtime = self.runtime
        limits = runtime.limits()
        with limits.guarding():
            start = perf_counter()
            for batch in waited_for(batches):
                if name not in self.program.current.predicates:
                    self.define(name, len(batch.columns))
                added = runtime.engine.storage.load(name, batch)
                new += added
                end = perf_counter()
                runtime.tell(FactsLoaded(name, batch.rows, added, end - start))
                start = end
                limits.check()
        return new

    def add(self, text: str, name: str, folder: Path | None) -> None:
        """Add the statements of a text to the program."""
        self.strategies.drain()
        self.program.extend(
            warned(extend(parse(SourceText(name, text)), self.program.current, folder=folder))
        )
        self.define_all()

    def define(self, name: str, arity: int) -> Predicate:
        """Define a predicate that the program does not mention."""
        predicate = self.program.define(name, arity)
        self.define_all()
        return predicate

    def define_all(self) -> None:
        """Define the relations of all predicates."""
        for predicate in self.program.effective.predicates.values():
            self.runtime.engine.storage.define(predicate.name, predicate.arity)

    def load_program(self) -> None:
        """Load the facts that the program states and imports, those that were not loaded before."""
        tell, facts = self.runtime.tell, self.program.facts
        self.time.state(facts.pending_times(), tell)
        threads = self.runtime.engine.threads
        for name, batches, file, time in facts.pending(self.program.current, self.rejects, threads):
            if file is not None:
                batches = self.arriving(batches, file)
            if time:
                self.time.load(name, batches, time, tell)
            else:
                self._load(name, batches)
            if file is not None:
                self.data.note(name, file)
