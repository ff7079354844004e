"""Transactions: facts and rules that are inserted and deleted together, all of them or none. Mutates itself.

All deletions come before all insertions, in whatever order they are staged: a fact that is both deleted and
inserted exists afterwards.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import chain
from pathlib import Path
from types import TracebackType
from typing import TYPE_CHECKING

import numpy as np

from tidelog.data.columns import Batch
from tidelog.data.dictionary import Dictionary
from tidelog.data.rows import Keys, Rows, concatenate, distinct, rows_of, select, without
from tidelog.engine.flags import Flag
from tidelog.engine.interrupts import INTERRUPTS, Lock, locked, waited_for
from tidelog.errors import DataError, Diagnostic, ProgramError, SourceText, Span, TidelogError, suggest
from tidelog.errors.codes import ALREADY_COMMITTED, NOT_A_FACT, NOT_COMMITTED
from tidelog.io.data_file import InputFile, import_file
from tidelog.io.python_data import from_python, values_of
from tidelog.io.reader import read
from tidelog.io.rejects import RejectedRows
from tidelog.logic.change_scripts import RuleChanges, RuleOutcome, resolve_changes
from tidelog.logic.intervals import Point, point_at
from tidelog.logic.program import OPEN, Fact, Predicate, Program, TimedFact, facts_by_predicate
from tidelog.logic.values import ColumnType
from tidelog.maintenance.maintainer import NO_UPDATE, Update
from tidelog.reasoner.delta import Delta, find_predicate
from tidelog.records import dataclass
from tidelog.syntax import ast
from tidelog.syntax.parser import parse
from tidelog.temporal.time_columns import split_rows
from tidelog.temporal.timed_changes import TimedRows, TimedUpdate, times_of

if TYPE_CHECKING:
    from tidelog.engine.columnar.engine import ColumnarEngine
    from tidelog.store.forms import BatchId
    from tidelog.temporal.timed_changes import RowTimes

ONE_BY_ONE = 16  # rows that are encoded so: more are faster as columns

ON_MISSING = ("error", "ignore")
MOST_WAITING = 1 << 12  # rows of texts in one call that are kept as they are; more come as Arrow data anyway
OF_TEXTS = (ColumnType.ANY, ColumnType.STRING)  # columns in which any text has a value
NO_ROWS = Rows((), 0)


@dataclass(slots=True, eq=False)
class StagedRows:
    """Rows of one predicate that one call staged, and where each is written in a text, if it is."""

    rows: Rows
    spans: tuple[Span | None, ...] = ()
    is_distinct: bool = False  # known to have each row once


@dataclass(slots=True, eq=False)
class _Waiting:
    """Rows that wait for their ids, and where the texts of each column begin among all of its type."""

    staged: StagedRows
    starts: list[tuple[ColumnType, int]]
    count: int


class StagedFacts:
    """The rows that a transaction deletes, or those that it inserts, by predicate. Mutates itself.

    Texts are looked up when the transaction is committed, those of all predicates in one call: looking up one
    takes as long as looking up a hundred.
    """

    def __init__(self, dictionary: Dictionary) -> None:
        self._dictionary = dictionary
        self._staged: dict[str, list[StagedRows]] = {}
        self._waiting: list[_Waiting] = []
        self._texts: dict[ColumnType, list[str]] = {}  # of all that waits
        self._known: dict[str, tuple[int, Rows]] = {}  # distinct rows, and of how many calls

    def note(self, name: str, rows: Rows, spans: tuple[Span | None, ...] = ()) -> None:
        """Stage rows of a predicate."""
        if rows.count:
            self._staged.setdefault(name, []).append(StagedRows(rows, spans))

    def note_texts(self, name: str, data: Sequence[object], types: tuple[ColumnType, ...]) -> bool:
        """Stage rows of texts; returns False, and stages nothing, if they are something else."""
        columns = columns_of_texts(data, types)
        if columns is None:
            return False
        starts = []
        for column, kind in zip(columns, types, strict=True):
            texts = self._texts.setdefault(kind, [])
            starts.append((kind, len(texts)))
            texts += column
        count = len(data)
        staged = StagedRows(NO_ROWS, is_distinct=count == 1 or len(set(data)) == count)
        self._waiting.append(_Waiting(staged, starts, count))
        # Last: if Ctrl-C comes before, some texts get ids, and no row is staged.
        self._staged.setdefault(name, []).append(staged)
        return True

    def items(self) -> Mapping[str, list[StagedRows]]:
        """Return what each call staged, by predicate."""
        self._encode()
        return self._staged

    def rows(self) -> dict[str, Rows]:
        """Return the distinct rows of each predicate: the same object each time, unless more was staged."""
        if not self._staged:
            return {}
        self._encode()
        return {name: self._each_once(name, staged) for name, staged in self._staged.items()}

    def _each_once(self, name: str, staged: list[StagedRows]) -> Rows:
        if len(staged) == 1 and staged[0].is_distinct:
            return staged[0].rows
        known = self._known.get(name)
        if known is None or known[0] != len(staged):
            known = self._known[name] = len(staged), distinct([item.rows for item in staged])
        return known[1]

    def _encode(self) -> None:
        """Encode all waiting texts, those of columns of one type in one call."""
        if not self._waiting:
            return
        encode = self._dictionary.encode_python_texts
        ids = {kind: encode(texts, kind) for kind, texts in self._texts.items()}
        for waiting in self._waiting:
            count = waiting.count
            columns = tuple([ids[kind][start : start + count] for kind, start in waiting.starts])
            waiting.staged.rows = Rows(columns, count)
        self._waiting, self._texts = [], {}


def columns_of_texts(data: Sequence[object], types: Sequence[ColumnType]) -> list[tuple[str, ...]] | None:
    """Return the columns of rows that are tuples of texts, where any text is a value; else None."""
    if not data or not types or len(data) > MOST_WAITING:
        return None
    for kind in types:
        if kind not in OF_TEXTS:
            return None
    for kind_of_row in set(map(type, data)):
        if not issubclass(kind_of_row, tuple):
            return None
    try:
        columns = list(zip(*data, strict=True))
        is_plain = "".join(chain.from_iterable(columns)).isascii()
    except (TypeError, ValueError):  # something is no text, or rows differ in length
        return None
    # Texts beyond ASCII may have lone surrogates, which must be reported by the call itself.
    return columns if is_plain and len(columns) == len(types) else None


class Change:
    """A transaction being put together: it is committed when its block ends well, and else not at all.

    >>> import tidelog as tl
    >>> reasoner = tl.Reasoner(tl.parse("big(?x) :- size(?x, ?n), ?n > 10 . size(ant, 1) ."))
    >>> with reasoner.change() as change:
    ...     change.delete("size", [("ant", 1)])
    ...     change.insert("size", [("elephant", 300), ("mouse", 7)])
    ...     change.remove("big(?x) :- size(?x, ?n), ?n > 10 .")
    ...     change.add("big(?x) :- size(?x, ?n), ?n > 5 .")
    >>> print(change.delta)
    +4 −1
    """

    def __init__(
        self,
        program: Program,
        engine: ColumnarEngine,
        faults: RejectedRows,
        lock: Lock,
        commit: Callable[[Change], Delta],
        arriving: Callable[[Iterable[Batch], InputFile], Iterator[Batch]],
        missing: str = "error",
    ) -> None:
        if missing not in ON_MISSING:
            raise ValueError(f"missing is {missing!r}: it must be one of {', '.join(ON_MISSING)}")
        self.before = program
        self.program = program  # as it will be, without facts
        self.inserted = 0  # explicit facts that are new, known once it is committed
        self.update = NO_UPDATE  # what it changes explicitly, normalised, known once it is committed
        self._engine = engine
        self._faults = faults
        self._lock = lock
        self._commit = commit
        self._arriving = arriving  # limits hold while a file's batches are waited for
        self.missing = missing  # what happens if a fact to delete does not exist: error or ignore
        dictionary = engine.storage.dictionary
        self.deletions, self.insertions = StagedFacts(dictionary), StagedFacts(dictionary)
        self.errors: list[Diagnostic] = []  # facts to delete that do not exist
        self.rule_outcome: RuleOutcome | None = None  # None if it says nothing about rules
        self._rules: RuleChanges | None = None
        self._times: TimedUpdate | None = None  # None until it is asked for
        self._delta: Delta | None = None
        self.batch: BatchId | None = None  # of an application that counts its transactions
        # Called with the delta before the transaction is committed: if it raises, nothing is. Without times.
        self.publish: Callable[[Delta], None] | None = None

    @property
    def engine(self) -> ColumnarEngine:
        """The engine whose facts it changes, for comparing others with them; read only."""
        return self._engine

    @property
    def times(self) -> TimedUpdate:
        """The facts with times that it deletes and inserts."""
        if self._times is None:
            self._times = TimedUpdate(is_strict=self.missing == "error")
        return self._times

    @property
    def has_times(self) -> bool:
        """Whether it says anything about times."""
        return self._times is not None and bool(self._times)

    # ---- facts

    def insert(self, predicate: str, data: object, *, define: bool = False) -> None:
        """Add explicit facts: Arrow data, a data frame, or an iterable of tuples.

        With `define` the predicate may be one that the program does not mention.
        """
        known = find_to_insert(predicate, self.program, define)
        if known is None or not self._stage_texts(self.insertions, known, data):
            self._insert(predicate, known, data)

    @locked
    def _insert(self, predicate: str, known: Predicate | None, data: object) -> None:
        """Stage facts to insert, of a predicate that may be new."""
        if not is_plain(data, known) and self._stage_times(predicate, data, is_deletion=False):
            return
        if known is None:
            data, arity = with_arity(data)
            if arity is None:
                return
            known = self._define(predicate, arity)
        self._stage(self.insertions, known, data)

    def _stage_times(self, predicate: str, data: object, *, is_deletion: bool) -> bool:
        """Stage data that has times; returns False if it has none."""
        known = self.program.find(predicate)
        arity = None if known is None else known.arity
        split = split_rows(data, arity, self.program.is_integer_time)
        if split is None:
            return False
        rest, times = split
        if known is None:
            rest, found = with_arity(rest)
            known = self._define(predicate, found or 0)
        rows = self._encode(known, rest)
        staged = self.times.removed if is_deletion else self.times.added
        staged.append((known.name, TimedRows(rows.columns, rows.count, times)))
        return True

    def delete(self, predicate: str, data: object) -> None:
        """Delete explicit facts."""
        known = self.program.find(predicate)
        if known is None:
            self.errors.append(self._no_predicate(predicate))
        elif not self._stage_texts(self.deletions, known, data):
            self._delete(known, data)

    @locked
    def _delete(self, known: Predicate, data: object) -> None:
        """Stage facts to delete."""
        if is_plain(data, known) or not self._stage_times(known.name, data, is_deletion=True):
            self._stage(self.deletions, known, data)

    @locked
    def load(self, predicate: str, batches: Iterable[Batch]) -> None:
        """Add explicit facts that were read from a file."""
        for batch in waited_for(batches):
            known = self.program.find(predicate) or self._define(predicate, len(batch.columns))
            self.insertions.note(known.name, self.encode_batch(batch))

    @locked
    def insert_timed(self, predicate: str, batch: Batch, times: RowTimes) -> None:
        """Add explicit facts that were read from a file, apart from when they hold."""
        rows = self.encode_batch(batch)
        self.times.added.append((predicate, TimedRows(rows.columns, rows.count, times)))

    def insert_rows(self, predicate: str, rows: Rows) -> None:
        """Add explicit facts that are ids of the reasoner's dictionary."""
        self.insertions.note(predicate, rows)

    def delete_rows(self, predicate: str, rows: Rows) -> None:
        """Delete explicit facts that are ids of the reasoner's dictionary."""
        self.deletions.note(predicate, rows)

    @locked
    def replace(self, predicate: str, data: object) -> None:
        """Replace the explicit facts of a predicate: delete those not in `data`, and insert missing ones.

        Other deletions and insertions of the transaction are applied in addition.
        """
        known = find_predicate(predicate, self.program.predicates)
        self.replace_rows(known.name, [self._encode(known, data)])

    @locked
    def replace_batches(self, predicate: str, batches: Iterable[Batch]) -> None:
        """The same for facts that were read from files."""
        self.replace_rows(predicate, [self.encode_batch(batch) for batch in waited_for(batches)])

    @locked
    def replace_rows(self, name: str, parts: Sequence[Rows]) -> None:
        """The same for rows of ids."""
        held = Rows(*self._engine.storage.explicit(name)) if name in self.before.predicates else None
        wanted = distinct([rows for rows in parts if rows.count])
        if held is None or not held.count:
            self.insertions.note(name, wanted)
            return
        self.deletions.note(name, without(held, wanted) if wanted.count else held)
        self.insertions.note(name, without(wanted, held) if wanted.count else wanted)

    @locked
    def correct_rows(self, name: str, present: Rows | None, absent: Rows | None) -> None:
        """Insert rows of ids that are not explicit facts yet, and delete others that are."""
        for rows, where, is_wanted in ((present, self.insertions, True), (absent, self.deletions, False)):
            if rows is not None and rows.count:
                standing = self._engine.storage.row_flags(name, rows.columns, rows.count)
                is_explicit = (standing & int(Flag.EXPLICIT)) != 0
                where.note(name, select(rows, is_explicit != is_wanted))

    def become(self, program: Program) -> None:
        """Change the program to this one, resolved as a whole; rules that mean the same are kept.

        Its facts and imports are ignored.
        """
        if self.before.sandbox != OPEN:
            program = program.confined(self.before.sandbox)
        self._rules = RuleChanges(self.before.rules, self.before.rules, program.rules)
        outcome = self.rule_outcome = self._rules.outcome()
        predicates = {**self.before.predicates, **program.predicates}
        timed = program.given_times | (self.before.timed - program.predicates.keys())  # they stay as they are
        self.program = replace(
            program, facts=(), rules=outcome.rules, predicates=predicates, given_times=timed
        )

    def advance(self, to: Point) -> None:
        """Advance time at the end of the transaction: what was before is final, and is forgotten."""
        self.times.advance = point_at(to)

    # ---- text

    def add(self, text: str, *, name: str = "<text>", folder: Path | None = None) -> None:
        """Add the statements of a text: rules, facts, declarations, imports."""
        with gc_disabled():
            self.take(parse(SourceText(name, text)), unsigned="+", folder=folder)

    def remove(self, text: str, *, name: str = "<text>", folder: Path | None = None) -> None:
        """Delete the rules and facts of a text. Rules are found by what they mean."""
        with gc_disabled():
            self.take(parse(SourceText(name, text)), unsigned="-", folder=folder)

    def apply(self, text: str, *, name: str = "<changes>") -> None:
        """Insert and delete what a change script says, one transaction; it may end with `@commit .`"""
        with gc_disabled():
            self.take(_without_last_commit(parse(SourceText(name, text))))

    @locked
    def take(
        self, document: ast.DocumentNode, *, unsigned: str | None = None, folder: Path | None = None
    ) -> None:
        """Insert and delete what the statements of a document say."""
        imports = len(self.program.imports)
        rules = self._rules or RuleChanges(self.before.rules)
        changes = resolve_changes(document, self.program, rules, unsigned=unsigned, folder=folder)
        for name, facts in facts_by_predicate(changes.removed).items():
            self._remove_facts(name, facts)
        self.program, self._rules = changes.program, changes.rules
        former = self.before.rules if self.rule_outcome is None else self.rule_outcome.rules
        if changes.outcome.rules is not former or changes.outcome.missing:
            self.rule_outcome = changes.outcome
        for name, facts in facts_by_predicate(changes.added).items():
            plain = self._stage_timed_facts(name, facts, is_deletion=False)
            if plain:
                self.insertions.note(name, self._encode_facts(plain))
        if changes.advance is not None:
            self.times.advance = changes.advance
        for transfer in self.program.imports[imports:]:
            predicate = self.program.predicates[transfer.predicate]
            file = import_file(transfer, predicate)
            batches = read(file, self._faults, self._engine.threads)
            self.load(predicate.name, self._arriving(batches, file))

    def _stage_timed_facts(self, name: str, facts: Sequence[Fact], *, is_deletion: bool) -> Sequence[Fact]:
        """Stage those facts that have times, and return the others."""
        timed = [fact for fact in facts if isinstance(fact, TimedFact)]
        if not timed:
            return facts
        rows = self._encode_facts(timed)
        times = times_of([fact.interval for fact in timed], self.program.is_integer_time)
        staged = self.times.removed if is_deletion else self.times.added
        staged.append((name, TimedRows(rows.columns, rows.count, times)))
        return [fact for fact in facts if not isinstance(fact, TimedFact)]

    def _remove_facts(self, name: str, facts: Sequence[Fact]) -> None:
        if name not in self.program.predicates:
            self.errors += [self._no_predicate(name, fact.span) for fact in facts]
            return
        plain = self._stage_timed_facts(name, facts, is_deletion=True)
        if plain:
            self.deletions.note(name, self._encode_facts(plain), tuple(fact.span for fact in plain))

    # ---- committing

    def __enter__(self) -> Change:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.commit()

    @locked
    def commit(self) -> Delta:
        """Commit the transaction now, as the end of the block does."""
        if self._delta is not None:
            message = "the transaction has been committed already"
            raise TidelogError(
                Diagnostic(ALREADY_COMMITTED, message, help="begin another one with `change()`")
            )
        self._delta = self._commit(self)
        return self._delta

    @property
    def delta(self) -> Delta:
        """What the transaction changed, once it is committed."""
        if self._delta is None:
            message = "the transaction has not been committed, so there is no delta"
            raise TidelogError(Diagnostic(NOT_COMMITTED, message, help="ask after the end of its block"))
        return self._delta

    def raw(self) -> Update | None:
        """Return the staged facts, not compared with those that exist; None if rules change."""
        if any(self.rule_counts):
            return None
        return Update(self.deletions.rows(), self.insertions.rows())

    @property
    def added(self) -> Mapping[str, Rows]:
        """The facts that it inserts, without times."""
        return self.insertions.rows()

    @property
    def deleted(self) -> Mapping[str, Rows]:
        """The facts that it deletes, without times."""
        return self.deletions.rows()

    @property
    def changes_program(self) -> bool:
        """Whether rules or predicates, or anything else but facts, change."""
        return self.program is not self.before

    @property
    def rule_counts(self) -> tuple[int, int]:
        """How many rules are deleted, and how many are added."""
        outcome = self.rule_outcome
        return (0, 0) if outcome is None else (len(outcome.removed), len(outcome.added))

    # ---- encoding

    def _define(self, name: str, arity: int) -> Predicate:
        """Define a predicate that the program does not mention."""
        self.program = self.program.defining(name, arity)
        return self.program.predicates[name]

    def _no_predicate(self, name: str, span: Span | None = None) -> Diagnostic:
        help = suggest(name, [known.written for known in self.program.predicates.values()])
        message = f"nothing can be deleted: unknown predicate `{name}`"
        return Diagnostic(NOT_A_FACT, message, span, help)

    def _stage_texts(self, where: StagedFacts, predicate: Predicate, data: object) -> bool:
        """Stage rows of texts; returns False, and stages nothing, if they are something else.

        Nothing is looked up yet: no engine is entered, so that Ctrl-C need not wait.
        """
        if type(data) is not list and type(data) is not tuple:
            return False
        types = self.program.types_of(predicate)
        with self._lock.reading:
            if not where.note_texts(predicate.name, data, types):
                return False
            self._faults.rows += len(data)
            return True

    def _stage(self, where: StagedFacts, predicate: Predicate, data: object) -> None:
        """Stage the rows of a Python object."""
        where.note(predicate.name, self._encode(predicate, data))

    def _encode(self, predicate: Predicate, data: object) -> Rows:
        """Return the rows of a Python object as ids."""
        if isinstance(data, list | tuple) and len(data) <= ONE_BY_ONE:
            keys = self._encode_few(data, self.program.types_of(predicate))
            if keys is not None:
                self._faults.rows += len(keys)
                return rows_of(keys, predicate.arity)
        # All rows are read before the first is noted: a bad one leaves everything as it was.
        types = self.program.types_of(predicate)
        batches = list(waited_for(from_python(data, types, predicate.columns, self._faults)))
        none = Rows(tuple(np.zeros(0, np.int32) for _ in predicate.types), 0)
        return concatenate([self.encode_batch(batch) for batch in batches]) if batches else none

    def _encode_few(self, data: Sequence[object], types: Sequence[ColumnType]) -> Keys | None:
        """Return the ids of a few rows; None if they must be converted one column at a time."""
        encode = self._engine.storage.dictionary.encode_python
        keys: Keys = []
        try:
            for row in data:
                if not isinstance(row, tuple) or len(row) != len(types):
                    return None
                keys.append(tuple(map(encode, row, types)))
        except (DataError, UnicodeEncodeError):
            return None
        return keys

    def encode_batch(self, batch: Batch) -> Rows:
        return Rows(
            tuple(self._engine.storage.dictionary.encode_column(column) for column in batch.columns),
            batch.rows,
        )

    def _encode_facts(self, facts: Sequence[Fact]) -> Rows:
        encode = self._engine.storage.dictionary.encode_values
        places = range(len(facts[0].values))
        columns = ([fact.values[place] for fact in facts] for place in places)
        return Rows(tuple(encode(column) for column in columns), len(facts))


@contextmanager
def gc_disabled() -> Iterator[None]:
    """Disable garbage collection inside the block: trees have no cycles, and are freed at its end."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _without_last_commit(document: ast.DocumentNode) -> ast.DocumentNode:
    if document.statements and isinstance(document.statements[-1], ast.CommitDirectiveNode):
        return replace(document, statements=document.statements[:-1])
    return document


def is_plain(data: object, predicate: Predicate | None) -> bool:
    """Whether data is a list of rows without times, as most is."""
    if type(data) is not list or not data or predicate is None:
        return False
    return isinstance(data[0], tuple) and len(data[0]) == predicate.arity


def with_arity(data: object) -> tuple[object, int | None]:
    """Return the data, and how many columns it has: None if it has no rows to tell."""
    columns = getattr(data, "columns", None)
    if columns is not None:
        return data, len(columns)
    if hasattr(data, "__arrow_c_stream__"):
        import pyarrow

        table = pyarrow.table(data)
        return table, table.num_columns
    if isinstance(data, Mapping):
        return data, len(data)
    with INTERRUPTS.let_through():
        rows = list(data) if isinstance(data, Iterable) else []
    return rows, len(values_of(rows[0])) if rows else None


def find_to_insert(name: str, program: Program, define: bool) -> Predicate | None:
    """Return the predicate that facts are added to; None if it is new, and may be.

    Raises `ProgramError` if it is new and may not: a name that is misspelt would go unnoticed.
    """
    known = program.find(name)
    if known is not None or define:
        return known
    try:
        return find_predicate(name, program.predicates)
    except ProgramError as error:
        (fault,) = error.diagnostics
        help = f"{fault.help + ' ' if fault.help else ''}`define=True` makes a predicate that is new"
        raise ProgramError(replace(fault, help=help)) from None


def _by_predicate(facts: Iterable[Fact]) -> Iterable[tuple[str, list[Fact]]]:
    found: dict[str, list[Fact]] = {}
    for fact in facts:
        found.setdefault(fact.predicate, []).append(fact)
    return found.items()
