"""Transactions: facts and rules to be added and taken away together, all of them or none. Mutates itself.

All that is taken away goes before what is added comes, in whatever order it is said: a fact that is both is
there afterwards.
"""

from __future__ import annotations

import gc
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from types import TracebackType
from typing import Any

import numpy as np

from tidelog.data.columns import Batch
from tidelog.data.rows import Keys, Rows, distinct, joined, rows_of, taken, without
from tidelog.engine.columnar.engine import ColumnarEngine
from tidelog.engine.flags import Flag
from tidelog.engine.interrupts import INTERRUPTS, Lock, locked, waited_for
from tidelog.errors import DataError, Diagnostic, ProgramError, Severity, Source, Span, TidelogError, suggest
from tidelog.io.data_file import DataFile, import_file
from tidelog.io.python_data import from_python, values_of
from tidelog.io.reader import read
from tidelog.io.rejects import Faults
from tidelog.logic.change_scripts import RuleChanges, RuleOutcome, resolve_changes
from tidelog.logic.intervals import Point, point_at
from tidelog.logic.program import OPEN, Fact, Predicate, Program, TimedFact
from tidelog.logic.resolve import giving_times
from tidelog.logic.scopes import by_place
from tidelog.logic.values import ColumnType
from tidelog.maintenance.maintainer import Update
from tidelog.plan.rule_text import Writing
from tidelog.reasoner.delta import Delta, find_predicate
from tidelog.reasoner.staged_facts import Stated, Statements
from tidelog.store.forms import BatchId
from tidelog.syntax import ast
from tidelog.syntax.parser import parse
from tidelog.temporal.time_columns import split_rows
from tidelog.temporal.timed_changes import Stating, TimedRows, TimedUpdate, Times, times_of

ALIVE, EXPLICIT = int(Flag.ALIVE), int(Flag.EXPLICIT)
ONE_BY_ONE = 16  # rows that are encoded so: more are faster as columns
SHOWN = 5  # facts named in a diagnostic about many

NOT_A_FACT = "E630"
NOT_EXPLICIT = "E631"
NOT_COMMITTED = "E633"
COMMITTED = "E635"
ON_MISSING = ("error", "ignore")


class Change:
    """A transaction being put together; it is carried out when its block ends well, and not at all otherwise.

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
        faults: Faults,
        lock: Lock,
        commit: Callable[[Change], Delta],
        announce: Callable[[Delta], None],
        arriving: Callable[[Iterable[Batch], DataFile], Iterator[Batch]],
        missing: str = "error",
    ) -> None:
        if missing not in ON_MISSING:
            raise ValueError(f"missing is {missing!r}: it must be one of {', '.join(ON_MISSING)}")
        self.before = program
        self.program = program  # as it will be, without facts
        self.inserted = 0  # explicit facts that are new, known once it is carried out
        self.stated = Update({}, {})  # what it says, normalised, known once it is carried out
        self._engine = engine
        self._faults = faults
        self._lock = lock
        self._commit = commit
        self._announce = announce
        self._arriving = arriving  # limits hold while a file's batches are waited for
        self._missing = missing
        self._rules = RuleChanges(program.rules)
        self._outcome = RuleOutcome(program.rules)
        self.times = TimedUpdate(is_strict=missing == "error")  # facts that hold at times
        self._removed = Statements(engine.storage.dictionary)
        self._added = Statements(engine.storage.dictionary)
        self._faulty: list[Diagnostic] = []  # what is not there to be taken away
        self._delta: Delta | None = None
        self.batch: BatchId | None = None  # of an application that counts its transactions
        # Called with the delta before the transaction is committed: if it raises, nothing is. Without times.
        self.publish: Callable[[Delta], None] | None = None

    @property
    def engine(self) -> Any:
        """The engine whose facts it changes, for whoever compares others with them there."""
        return self._engine

    # ---- facts

    @locked
    def insert(self, predicate: str, data: object, *, define: bool = False) -> None:
        """Add explicit facts: Arrow data, a data frame, or an iterable of tuples.

        With `define` the predicate may be one that the program does not mention.
        """
        known = find_to_insert(predicate, self.program, define)
        if self._take_times(predicate, data, self.times.added):
            return
        if known is None:
            data, arity = with_arity(data)
            if arity is None:
                return
            known = self._define(predicate, arity)
        self._state(self._added, known, data)

    def _take_times(self, predicate: str, data: object, where: list[tuple[str, TimedRows]]) -> bool:
        """Whether data has times; if so it is stated."""
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
        where.append((known.name, TimedRows(rows.columns, rows.count, times)))
        return True

    @locked
    def delete(self, predicate: str, data: object) -> None:
        """Take explicit facts away."""
        known = self.program.find(predicate)
        if known is None:
            self._faulty.append(self._no_predicate(predicate))
            return
        if self._take_times(predicate, data, self.times.removed):
            return
        self._state(self._removed, known, data)

    @locked
    def load(self, predicate: str, batches: Iterable[Batch]) -> None:
        """Add explicit facts that were read from a file."""
        for batch in waited_for(batches):
            known = self.program.find(predicate) or self._define(predicate, len(batch.columns))
            self._added.note(known.name, self.encode_batch(batch))

    @locked
    def insert_timed(self, predicate: str, batch: Batch, times: Times) -> None:
        """Add explicit facts that were read from a file, apart from when they hold."""
        rows = self.encode_batch(batch)
        self.times.added.append((predicate, TimedRows(rows.columns, rows.count, times)))

    def insert_rows(self, predicate: str, rows: Rows) -> None:
        """Add explicit facts that are ids of the reasoner's dictionary."""
        self._added.note(predicate, rows)

    def delete_rows(self, predicate: str, rows: Rows) -> None:
        """Take explicit facts away that are ids of the reasoner's dictionary."""
        self._removed.note(predicate, rows)

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
            self._added.note(name, wanted)
            return
        self._removed.note(name, without(held, wanted) if wanted.count else held)
        self._added.note(name, without(wanted, held) if wanted.count else wanted)

    @locked
    def correct_rows(self, name: str, present: Rows | None, absent: Rows | None) -> None:
        """Insert rows of ids that are not explicit facts yet, and delete others that are."""
        for rows, where, is_wanted in ((present, self._added, True), (absent, self._removed, False)):
            if rows is not None and rows.count:
                standing = self._engine.storage.row_flags(name, rows.columns, rows.count)
                is_explicit = (standing & int(Flag.EXPLICIT)) != 0
                where.note(name, taken(rows, is_explicit != is_wanted))

    def become(self, program: Program) -> None:
        """Change the program to this one, resolved as a whole; rules that mean the same are kept.

        Its facts and imports are ignored.
        """
        if self.before.sandbox != OPEN:
            program = program.confined(self.before.sandbox)
        self._rules = RuleChanges(self.before.rules, self.before.rules, program.rules)
        self._outcome = self._rules.outcome()
        predicates = {**self.before.predicates, **program.predicates}
        timed = program.given_times | (self.before.timed - program.predicates.keys())  # they stay as they are
        self.program = replace(
            program, facts=(), rules=self._outcome.rules, predicates=predicates, given_times=timed
        )

    def advance(self, to: Point) -> None:
        """When all of it is carried out, let time advance: what was before is final, and is forgotten."""
        self.times.advance = point_at(to)

    # ---- text

    def add(self, text: str, *, name: str = "<text>", folder: Path | None = None) -> None:
        """Add the statements of a text: rules, facts, declarations, imports."""
        with without_search_for_cycles():
            self.take(parse(Source(name, text)), unsigned="+", folder=folder)

    def remove(self, text: str, *, name: str = "<text>", folder: Path | None = None) -> None:
        """Take away the rules and facts of a text. Rules are found by what they mean."""
        with without_search_for_cycles():
            self.take(parse(Source(name, text)), unsigned="-", folder=folder)

    def apply(self, text: str, *, name: str = "<changes>") -> None:
        """Add and take away what a change script says, one transaction; a last `@commit .` may be there."""
        with without_search_for_cycles():
            self.take(_without_last_commit(parse(Source(name, text))))

    @locked
    def take(
        self, document: ast.Document, *, unsigned: str | None = None, folder: Path | None = None
    ) -> None:
        """Add and take away what the statements of a document say."""
        imports = len(self.program.imports)
        changes = resolve_changes(document, self.program, self._rules, unsigned=unsigned, folder=folder)
        for name, facts in _by_predicate(changes.removed):
            self._remove_facts(name, facts)
        self.program, self._rules = changes.program, changes.rules
        if changes.outcome.rules is not self._outcome.rules or changes.outcome.missing:
            self._outcome = changes.outcome
        for name, facts in _by_predicate(changes.added):
            plain = self._take_timed(name, facts, self.times.added)
            if plain:
                self._added.note(name, self._encode_facts(plain))
        if changes.advance is not None:
            self.times.advance = changes.advance
        for transfer in self.program.imports[imports:]:
            predicate = self.program.predicates[transfer.predicate]
            file = import_file(transfer, predicate)
            batches = read(file, self._faults, self._engine.threads)
            self.load(predicate.name, self._arriving(batches, file))

    def _take_timed(
        self, name: str, facts: Sequence[Fact], where: list[tuple[str, TimedRows]]
    ) -> Sequence[Fact]:
        """The facts without times; those that have some are stated."""
        timed = [fact for fact in facts if isinstance(fact, TimedFact)]
        if not timed:
            return facts
        rows = self._encode_facts(timed)
        times = times_of([fact.interval for fact in timed], self.program.is_integer_time)
        where.append((name, TimedRows(rows.columns, rows.count, times)))
        return [fact for fact in facts if not isinstance(fact, TimedFact)]

    def _remove_facts(self, name: str, facts: Sequence[Fact]) -> None:
        if name not in self.program.predicates:
            self._faulty += [self._no_predicate(name, fact.span) for fact in facts]
            return
        plain = self._take_timed(name, facts, self.times.removed)
        if plain:
            self._removed.note(name, self._encode_facts(plain), tuple(fact.span for fact in plain))

    # ---- carrying it out

    def __enter__(self) -> Change:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        if kind is None:
            self.commit()

    @locked
    def commit(self) -> Delta:
        """Carry the transaction out now; what the end of the block does."""
        if self._delta is not None:
            message = "the transaction has been carried out already"
            raise TidelogError(Diagnostic(COMMITTED, message, help="begin another one with `change()`"))
        self._delta = self._commit(self)
        self._announce(self._delta)
        return self._delta

    @property
    def delta(self) -> Delta:
        """What the transaction changed, once it has been carried out."""
        if self._delta is None:
            message = "the transaction has not been carried out, so there is no delta"
            raise TidelogError(Diagnostic(NOT_COMMITTED, message, help="ask after the end of its block"))
        return self._delta

    def raw(self) -> Update | None:
        """The facts as they are asked for, not compared with what is there; None if rules change."""
        if self._outcome.removed or self._outcome.added:
            return None
        return Update(self._removed.rows(), self._added.rows())

    @property
    def added(self) -> Mapping[str, Rows]:
        """The facts that it says are to be added, without times."""
        return self._added.rows()

    @property
    def deleted(self) -> Mapping[str, Rows]:
        """The facts that it says are to be deleted, without times."""
        return self._removed.rows()

    @property
    def changes_program(self) -> bool:
        """Whether rules or predicates, or anything else but facts, change."""
        return self.program is not self.before

    @property
    def rule_counts(self) -> tuple[int, int]:
        """How many rules are taken away, and how many are added."""
        return len(self._outcome.removed), len(self._outcome.added)

    def update(self, given: Stating) -> tuple[Update, tuple[Diagnostic, ...]]:
        """The update, normalised, and notices of what is not there; raises if that is an error.

        `given` knows when facts are given: one without times, of a predicate that has some, is given always.
        """
        removed, added = self._removed.rows(), self._added.rows()
        said = removed
        if removed and not self._are_explicit(removed):
            for name, stated in self._removed.items().items():
                self._check_explicit(name, stated, given)
            removed = {name: self._explicit(name, rows) for name, rows in removed.items()}
        if self.times or not self.program.timed.isdisjoint(said):
            for name, rows in self._settle_times(said, given).items():
                removed[name] = distinct([*([removed[name]] if name in removed else ()), rows])
        notices = self._report_missing()
        for name in removed.keys() & added.keys():
            removed[name] = without(removed[name], added[name])
        new = self._new(added) if added else added
        self.inserted = sum(rows.count for rows in new.values())
        self.stated = Update(_present(removed), _present(new), self._outcome.removed, self._outcome.added)
        return self.stated, notices

    def _settle_times(self, removed: Mapping[str, Rows], given: Stating) -> dict[str, Rows]:
        """Settle what is said about times; return the facts without times to delete on account of it."""
        timed = self.program.timed.union(name for name, _ in self.times.removed)
        always = {
            name: taken(rows, given.are_given(name, rows) | ((self._standing(name, rows) & EXPLICIT) != 0))
            for name, rows in removed.items()
            if name in timed
        }
        gone, faults = given.settle(self.times, _present(always))
        self._faulty += faults
        names = {name for name, _ in (*self.times.removed, *self.times.added)}
        if not names <= self.program.given_times:
            self.program = giving_times(self.program, names)
        return gone

    def _report_missing(self) -> tuple[Diagnostic, ...]:
        faulty = (*self._faulty, *self._outcome.missing)
        if faulty and self._missing == "error":
            raise ProgramError(by_place(faulty))
        return tuple(replace(item, severity=Severity.WARNING) for item in faulty)

    # ---- sets of rows

    def _are_explicit(self, rows: Mapping[str, Rows]) -> bool:
        """Whether all rows are explicit facts."""
        return rows.keys() <= self.before.predicates.keys() and bool(
            (self._standing_of(rows) & EXPLICIT).all()
        )

    def _new(self, rows: Mapping[str, Rows]) -> Mapping[str, Rows]:
        """Those that are not explicit."""
        known = {name: some for name, some in rows.items() if name in self.before.predicates}
        if not (self._standing_of(known) & EXPLICIT).any():
            return rows
        return {
            name: taken(some, (self._standing(name, some) & EXPLICIT) == 0) for name, some in rows.items()
        }

    def _explicit(self, name: str, rows: Rows) -> Rows:
        return taken(rows, (self._standing(name, rows) & EXPLICIT) != 0)

    def _standing_of(self, rows: Mapping[str, Rows]) -> Any:
        return self._engine.storage.all_row_flags(
            {name: (some.columns, some.count) for name, some in rows.items()}
        )

    def _standing(self, name: str, rows: Rows) -> Any:
        if name not in self.before.predicates:
            return np.zeros(rows.count, np.uint8)
        return self._engine.storage.row_flags(name, rows.columns, rows.count)

    # ---- what is not there

    def _check_explicit(self, name: str, stated: Sequence[Stated], given: Stating) -> None:
        """Note every fact to be taken away that is not explicit, nor given at some time."""
        for item in stated:
            standing = self._standing(name, item.rows)
            if name in self.program.timed:
                standing = standing | np.where(given.are_given(name, item.rows), EXPLICIT, 0)
            if bool((standing & EXPLICIT).all()):
                continue
            derived = np.flatnonzero(standing == ALIVE)
            absent = np.flatnonzero(standing == 0)
            self._faulty += self._describe(name, item, absent, NOT_A_FACT)
            self._faulty += self._describe(name, item, derived, NOT_EXPLICIT)

    def _no_predicate(self, name: str, span: Span | None = None) -> Diagnostic:
        help = suggest(name, [known.written for known in self.program.predicates.values()])
        message = f"nothing can be taken away: there is no predicate `{name}`"
        return Diagnostic(NOT_A_FACT, message, span, help)

    def _describe(self, name: str, stated: Stated, places: Any, code: str) -> Iterator[Diagnostic]:
        """One diagnostic for each fact that was written somewhere, one in all for others."""
        if not len(places):
            return
        reason, help = _REASONS[code]
        if stated.spans:
            for place in places.tolist():
                text = self._texts(name, stated.rows, [place])[0]
                yield Diagnostic(code, f"`{text}` {reason}", stated.spans[place], help)
            return
        texts = [f"`{text}`" for text in self._texts(name, stated.rows, places[:SHOWN].tolist())]
        more = f" and {len(places) - SHOWN:,} more" if len(places) > SHOWN else ""
        verb = reason if len(places) == 1 else reason.replace("is ", "are ", 1)
        yield Diagnostic(code, f"{', '.join(texts)}{more} {verb}", help=help)

    def _texts(self, name: str, rows: Rows, places: Sequence[int]) -> list[str]:
        """Facts as the program would write them."""
        writing = Writing.of(self.program)
        decode = self._engine.storage.dictionary.decode
        return [
            writing.fact(Fact(name, tuple(decode(int(column[place])) for column in rows.columns)))
            for place in places
        ]

    # ---- encoding

    def _define(self, name: str, arity: int) -> Predicate:
        """Make known a predicate that the program does not mention."""
        self.program = self.program.defining(name, arity)
        return self.program.predicates[name]

    def _state(self, where: Statements, predicate: Predicate, data: object) -> None:
        """State the rows of a Python object."""
        types = self.program.types_of(predicate)
        if isinstance(data, list | tuple) and where.note_texts(predicate.name, data, types):
            self._faults.rows += len(data)
        else:
            where.note(predicate.name, self._encode(predicate, data))

    def _encode(self, predicate: Predicate, data: object) -> Rows:
        """The rows of a Python object as ids."""
        if isinstance(data, list | tuple) and len(data) <= ONE_BY_ONE:
            keys = self._encode_few(data, self.program.types_of(predicate))
            if keys is not None:
                self._faults.rows += len(keys)
                return rows_of(keys, predicate.arity)
        # All rows are read before the first is noted: a bad one leaves everything as it was.
        types = self.program.types_of(predicate)
        batches = list(waited_for(from_python(data, types, predicate.columns, self._faults)))
        none = Rows(tuple(np.zeros(0, np.int32) for _ in predicate.types), 0)
        return joined([self.encode_batch(batch) for batch in batches]) if batches else none

    def _encode_few(self, data: Sequence[object], types: Sequence[ColumnType]) -> Keys | None:
        """The ids of a few rows; None if something about them takes more care."""
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


_REASONS: Mapping[str, tuple[str, str]] = {
    NOT_A_FACT: (
        "is not there to be taken away",
        'leave it out, or pass over what is not there: missing="ignore", `--missing ignore`',
    ),
    NOT_EXPLICIT: (
        "is derived, not stated, so it cannot be taken away",
        "take away what it is derived from, or a rule that derives it",
    ),
}


@contextmanager
def without_search_for_cycles() -> Iterator[None]:
    """Disable garbage collection inside the block: trees have no cycles, and are freed at its end."""
    was_enabled = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was_enabled:
            gc.enable()


def _without_last_commit(document: ast.Document) -> ast.Document:
    if document.statements and isinstance(document.statements[-1], ast.CommitDirective):
        return replace(document, statements=document.statements[:-1])
    return document


def with_arity(data: object) -> tuple[object, int | None]:
    """The data, and how many columns it has; None if it has no rows to tell."""
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


def _present(rows: Mapping[str, Rows]) -> dict[str, Rows]:
    return {name: some for name, some in rows.items() if some.count}
