"""Facts and rules that are loaded before anything is derived, and what is known of loaded data. Mutable.

Facts come as Python objects, files, texts or batches. Once something is derived that must be maintained, all
that is inserted is a transaction.

The types of a column are those of its declaration; else they are inferred from the facts and imports of the
program, and from loaded data: the types of a data frame's columns, and those of values in rows of Python,
never those of derived rows.

Invariant: the types of data only grow, so that what is inferred later holds for earlier rows too.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from functools import cached_property
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from tidelog.data.columns import Batch
from tidelog.data.typed_columns import types_of
from tidelog.engine.events import FactsLoaded
from tidelog.engine.interrupts import arriving, waited_for
from tidelog.errors import Diagnostic, SourceText
from tidelog.io.data_file import InputFile, data_file, data_files, predicate_of
from tidelog.io.python_data import from_python
from tidelog.io.reader import read
from tidelog.io.rejects import RejectedRows
from tidelog.logic.program import Fact, Predicate, Program, Query, Transfer
from tidelog.logic.resolve import extend, giving_times, warned
from tidelog.logic.type_inference import (
    Columns,
    Inferred,
    Schema,
    infer_answers,
    infer_columns,
    types_of_facts,
    united,
)
from tidelog.logic.types import ANY, NEVER, Contents, Type
from tidelog.logic.values import Kind
from tidelog.reasoner.program_state import ProgramState
from tidelog.reasoner.runtime import Runtime, UsedStrategies
from tidelog.reasoner.transaction import find_to_insert, is_plain, with_arity
from tidelog.records import dataclass
from tidelog.syntax.parser import parse
from tidelog.temporal.time_columns import split_rows

if TYPE_CHECKING:
    from tidelog.engine.columnar.engine import ColumnarEngine
    from tidelog.temporal.temporal import Temporal
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
        if times := facts.pending_times():
            self.time.state(times, tell)
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


_LITERAL = frozenset({Type.LITERAL})
FEW = 64  # rows whose kinds are compared one by one
AMBIGUOUS = frozenset({int(Kind.DATETIME)})  # kinds whose values have one of several types
WITH_SCHEMAS = ("parquet", "arrow")  # formats of files that say what their columns hold


class LoadedData:
    """The files that the facts of each predicate came from, and the types of their columns."""

    def __init__(self, engine: ColumnarEngine, rows: Callable[[str], Sequence[Any]]) -> None:
        self.types = Schemas(engine, rows)
        self.inserted: set[str] = set()  # predicates of which some facts came from no file
        self._files: dict[str, dict[InputFile, None]] = {}

    def note(self, name: str, file: InputFile | None = None) -> None:
        """Note that facts of a predicate were loaded, from a file or otherwise."""
        self.note_origin(name, file)
        self.types.note(name, file)

    def note_rows(self, name: str, columns: Sequence[Any]) -> None:
        """Note that these facts of a predicate were inserted, as columns of ids."""
        self.note_origin(name, None)
        self.types.note_rows(name, columns)

    def note_origin(self, name: str, file: InputFile | None) -> None:
        """Note that facts of a predicate came from a file, None if they came otherwise."""
        if file is None:
            self.inserted.add(name)
        else:
            self._files.setdefault(name, {})[file] = None

    def files(self, name: str) -> tuple[InputFile, ...]:
        """Return the files that facts of a predicate came from."""
        return tuple(self._files.get(name, ()))


class Schemas:
    """The types of data that was loaded, by predicate."""

    def __init__(self, engine: ColumnarEngine, rows: Callable[[str], Sequence[Any]]) -> None:
        self._engine = engine
        self._rows = rows  # the columns of explicit facts
        self._types: dict[str, Columns] = {}
        # The kinds of values in each column, by predicate and arity, of facts that came a few at a time.
        self._kinds: dict[tuple[str, int], list[set[int]]] = {}
        self.unread: set[str] = set()  # predicates whose facts were not read since they were loaded
        self._facts: tuple[tuple[Fact, ...], Mapping[str, Columns]] = (), {}
        self._last: SchemasOf | None = None

    def note(self, name: str, file: InputFile | None = None) -> None:
        """Note that facts of a predicate were loaded, from a file or otherwise."""
        self._last = None
        if file is None or file.format in WITH_SCHEMAS:
            self.unread.add(name)
        elif file.types is None or not file.names:
            self._types[name] = ()  # text without declared types: anything

    def note_rows(self, name: str, columns: Sequence[Any]) -> None:
        """Note facts of a predicate by their ids."""
        if name in self.unread:
            return
        dictionary = self._engine.storage.dictionary
        few = columns if columns and len(columns[0]) <= FEW else ()
        kinds = [set(dictionary.kind[ids].tolist()) for ids in few]
        noted = self._kinds.get((name, len(columns)))
        if kinds and noted is not None and all(map(set.issuperset, noted, kinds)):
            return
        found = tuple(types_of(dictionary, ids) for ids in columns)
        before = self._types.get(name)
        if before is None or (before and united(before, found) != before):
            self._types[name] = found if before is None else united(before, found)
            self._last = None
        if kinds:
            known = noted or [set()] * len(kinds)
            self._kinds[name, len(columns)] = [
                all_kinds | some - AMBIGUOUS for all_kinds, some in zip(known, kinds, strict=True)
            ]

    def noted(self) -> dict[str, Columns]:
        """Return the types of all loaded data, by predicate; no types where it may be anything."""
        self._read_all()
        return dict(self._types)

    def restore(self, types: Mapping[str, Columns]) -> None:
        """Note the types of data that another reasoner has loaded, whose facts this one has."""
        for name, columns in types.items():
            before = self._types.get(name)
            self._types[name] = columns if before is None else united(before, columns) if before else before
        self._last = None

    def now(self, program: Program, facts: tuple[Fact, ...]) -> SchemasOf:
        """Return the schemas for a program that states these facts."""
        last = self._last
        if last is None or last.program is not program or last.facts is not facts:
            last = self._last = SchemasOf(program, facts, self)
        return last

    def given(self, program: Program, facts: tuple[Fact, ...]) -> dict[str, Columns]:
        """Return the types of the program's facts and of loaded data."""
        self._read_all()
        if self._facts[0] is not facts:
            self._facts = facts, types_of_facts(facts)
        found = dict(self._facts[1])
        for name, columns in self._types.items():
            arity = program.predicates[name].arity if name in program.predicates else len(columns)
            columns = columns if len(columns) == arity else (ANY,) * arity
            found[name] = united(found.get(name, columns), columns)
        return found

    def _read_all(self) -> None:
        with self._engine.storage.dictionary.lock:
            for name in list(self.unread):
                self.unread.discard(name)
                self.note_rows(name, self._rows(name))


@dataclass(frozen=True)
class SchemasOf:
    """What the columns of relations hold that a program derives, inferred on first use."""

    program: Program
    facts: tuple[Fact, ...]
    data: Schemas

    @cached_property
    def inferred(self) -> Inferred:
        """The types of all columns."""
        given = self.data.given(self.program, self.facts)
        known = self.program.predicates
        imports = tuple(
            each
            for each in self.program.imports
            if known[each.predicate].declared or not _has_schema(each, given)
        )
        # Literals of a type that no declaration names are missing values that are kept.
        nulls = {
            name: tuple(NEVER if each == ANY else each & _LITERAL for each in columns)
            for name, columns in given.items()
        }
        return infer_columns(replace(self.program, imports=imports), given, nulls)

    def of(self, predicate: Predicate) -> Schema:
        """Return what the columns of a predicate hold."""
        return self.inferred.schema(predicate)

    def of_answers(self, query: Query, variables: Sequence[str] | None = None) -> Schema:
        """Return what the columns of the answers to a query hold."""
        columns, _ = infer_answers(query.rule, self.inferred, self.program)
        found = dict(zip(query.variables, columns, strict=True))
        return tuple(Contents(found.get(name, ANY)) for name in variables or query.variables)

    def warnings(self, query: Query) -> tuple[Diagnostic, ...]:
        """Return what can never match in a query."""
        return infer_answers(query.rule, self.inferred, self.program)[1]


def _has_schema(transfer: Transfer, given: Mapping[str, Columns]) -> bool:
    """Whether the data of an import has been loaded, and says what its columns hold."""
    return transfer.types is None and transfer.format in WITH_SCHEMAS and transfer.predicate in given
