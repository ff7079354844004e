"""What a reasoner says of itself: why a fact holds, why another does not, where facts come from, what a
change would change.
"""

from __future__ import annotations

import io
import mmap
from abc import abstractmethod
from collections.abc import Callable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import dataclass, fields
from functools import cached_property
from typing import IO, Any

import numpy as np

from tidelog.data.columns import Batch
from tidelog.engine.interrupts import locked
from tidelog.equality.treatment import Axiomatised
from tidelog.errors import Diagnostic, ProgramError, TidelogError
from tidelog.io.data_file import Header, InputFile
from tidelog.io.reader import read
from tidelog.logic.equality_axioms import has_equality
from tidelog.logic.program import Atom, Constant, Fact, Program, Query, Rule, TimedFact
from tidelog.logic.values import Kind, Value
from tidelog.plan.rule_text import Writing
from tidelog.proof.explanation import Explanation, Node, place_of
from tidelog.proof.member_search import Treated
from tidelog.proof.proof_search import NOT_EXPLAINED
from tidelog.proof.prover import ASKED, MOST_ROWS, EqualProver, Prover, demanded
from tidelog.proof.timed_prover import TimedProver
from tidelog.proof.why_not import Doubter, WhyNot
from tidelog.query.query_keepers import Keeping, LookingUp
from tidelog.query.registry import UNKNOWN_STRATEGY
from tidelog.reasoner.asking import Asking
from tidelog.reasoner.delta import Delta
from tidelog.reasoner.staged_facts import ProgramFacts
from tidelog.reasoner.transaction import Change
from tidelog.temporal.temporal import Temporal, is_timed

# ---- On which line of a file a row stands, found by looking when somebody asks: nothing is kept while
# loading.
#
# Lines that have the texts of the row's values in them are read by the reader of the file's format, each as a
# file of its own, until one of them is the row. A row that is written over several lines, or with numbers
# that are not written as usual, is not found.

BY_LINES = frozenset({"csv", "tsv", "dsv", "jsonl", "ntriples", "nquads"})
LARGEST = 256 << 20  # bytes of a file that is searched
MOST_READ = 100  # lines that are read before the search is given up
TEXTS = (Kind.IRI, Kind.STRING)
IsRow = Callable[[Batch], bool]


@dataclass(frozen=True)
class OneLine(InputFile):
    """A file of which only some lines are read."""

    text: bytes = b""

    def open(self) -> IO[bytes]:
        """The lines."""
        return io.BytesIO(self.text)


def line_of(file: InputFile, values: Sequence[Value], is_row: IsRow) -> int | None:
    """The line on which a file has a row, if it is found; `is_row` knows the row when it is read."""
    if file.path is None or file.compressed or file.format not in BY_LINES:
        return None
    needles = sorted((each for each in map(_written, values) if each), key=len, reverse=True)
    try:
        if not needles or not 0 < file.path.stat().st_size <= LARGEST:
            return None
        with file.path.open("rb") as stream, mmap.mmap(stream.fileno(), 0, access=mmap.ACCESS_READ) as data:
            return _search(file, data, needles, is_row)
    except OSError:  # it is no longer there, or no longer ours to read
        return None


def _written(value: Value) -> bytes | None:
    """How a value is written in a file, if there is but one usual way."""
    if value.kind is Kind.INTEGER:
        return str(value.content).encode()
    if value.kind in TEXTS and isinstance(value.content, str) and value.content.isascii():
        return (
            value.content.encode()
            if value.content.isprintable() and not set('"\\') & set(value.content)
            else None
        )
    return None


def _search(file: InputFile, data: mmap.mmap, needles: Sequence[bytes], is_row: IsRow) -> int | None:
    """The line of the row, in a file that has all needles on it."""
    first = data[: max(data.find(b"\n"), 0) + 1] if file.header is not Header.NONE else b""
    known = {field.name: getattr(file, field.name) for field in fields(InputFile)}
    for tried, (start, end) in enumerate(_lines_with(data, needles)):
        if tried == MOST_READ:
            return None
        before = b"" if start < len(first) else first
        if _is_there(OneLine(**known, text=before + data[start:end]), is_row):
            return 1 + int(np.count_nonzero(np.frombuffer(data[:start], np.uint8) == ord("\n")))
    return None


def _lines_with(data: mmap.mmap, needles: Sequence[bytes]) -> Iterator[tuple[int, int]]:
    """Where the lines begin and end that have all needles on them."""
    longest, *others = needles
    place = data.find(longest)
    while place >= 0:
        start = data.rfind(b"\n", 0, place) + 1
        found = data.find(b"\n", place)
        end = found + 1 if found >= 0 else len(data)
        line = data[start:end]
        if all(other in line for other in others):
            yield start, end
        place = data.find(longest, end)


def _is_there(file: OneLine, is_row: IsRow) -> bool:
    try:
        return any(is_row(batch) for batch in read(file))
    except TidelogError:  # a part of a record, or a header
        return False


# ---- Where the facts of predicates have come from, as far as that is known. Mutates itself.


@dataclass(frozen=True)
class Place:
    """Where a fact was read: the file and the line, if they are found when somebody asks; may be empty."""

    find: Callable[[], str | None]
    otherwise: str

    @cached_property
    def text(self) -> str:
        """The file and the line, or what is known otherwise."""
        return self.find() or self.otherwise

    def __str__(self) -> str:
        return self.text


class Origins:
    """The files that the facts of each predicate were loaded from."""

    def __init__(self, engine: Any) -> None:
        self._engine = engine
        self._files: dict[str, dict[InputFile | None, None]] = {}

    def note(self, predicate: str, file: InputFile | None) -> None:
        """Some facts of a predicate come from a file, None if they came otherwise."""
        self._files.setdefault(predicate, {})[file] = None

    def of(self, fact: Fact) -> Place | None:
        """Where a fact comes from that the program does not state; None if nothing is known of that."""
        known = [file for file in self._files.get(fact.predicate, ()) if file is not None]
        if not known:
            return None
        return Place(lambda: self._find(fact, known), self.files_of(fact.predicate) or "")

    def files_of(self, predicate: str) -> str | None:
        """The files that all facts of a predicate come from; None if some came otherwise."""
        files = self._files.get(predicate, {})
        if not files or None in files:
            return None
        return " or ".join(dict.fromkeys(file.shown for file in files if file is not None))

    def _find(self, fact: Fact, files: list[InputFile]) -> str | None:
        wanted = [self._engine.identity(value) for value in fact.values]

        def is_row(batch: Batch) -> bool:
            columns = [self._engine.encode_column(column) for column in batch.columns[: len(wanted)]]
            rows = zip(*(column.tolist() for column in columns), strict=True)
            return any(list(row) == wanted for row in rows)

        for file in files:
            line = line_of(file, fact.values, is_row)
            if line is not None:
                return file.place(line)
        return None


# ---- What a reasoner says of itself: why a fact holds, why another does not, what a change would change.

FULL, MAGIC = "full", "magic"  # strategies of explanations
MOST_ANSWERS = 10  # to a query that are explained, unless more are asked for
MOST_REPAIRS = 5  # by each rule and literal


class Explaining(Asking):
    """The part of a reasoner that explains."""

    _own: ProgramFacts
    _equality: Axiomatised
    time: Temporal

    def __init__(self, keeping: Keeping, looking_up: LookingUp) -> None:
        super().__init__(keeping, looking_up)
        self._origins = Origins(keeping.engine)
        self._prover = Prover(keeping.engine, self._origin)

    @abstractmethod
    def _complete(self) -> None:
        """Derive everything that follows, an inconsistency included, if that has not been done."""

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
        other last steps, lowest first. Of a group that is aggregated, so many `rows` are explained, all of
        them if that is None. Everything is derived first, unless it is already. With the strategy `magic`
        only what the query asks for is derived, and deleted again; but everything where there is equality, or
        the query is about times.
        Raises `ProgramError` if there is nothing to explain.
        """
        query = self._resolved(text)
        if strategy not in (FULL, MAGIC):
            message, help = f"explanations have no strategy `{strategy}`", f"use `{FULL}` or `{MAGIC}`"
            raise ProgramError(Diagnostic(UNKNOWN_STRATEGY, message, help=help))
        is_whole = is_timed(query, self._program) or has_equality(self._program.predicates)
        if strategy == MAGIC and not is_whole:
            return self._explain_demanded(query, proofs, limit, rows)
        self._complete()
        with self.runtime.limits().guarding():
            check = self.runtime.check
            if is_timed(query, self._program):
                timed = TimedProver(self.time, self._origin, self._proof_of, check)
                return timed.explain(query, self._program, limit, rows)
            if has_equality(self._program.predicates):
                return self._explain_equal(query, proofs, limit, rows)
            return self._prover.explain(query, self._program, proofs, limit, rows, check)

    def _explain_demanded(self, query: Query, proofs: int, limit: int, rows: int | None) -> Explanation:
        """Return why a fact holds, by what has to be derived for it."""
        place = self._place()
        with self.runtime.limits().guarding():
            facts = nullcontext() if place.is_materialised else demanded(query, place)
            with facts:
                return self._prover.explain(query, self._program, proofs, limit, rows, self.runtime.check)

    def _proof_of(self, fact: Fact) -> Node:
        """The proof of a fact that holds always."""
        atom = Atom(fact.predicate, tuple(map(Constant, fact.values)))
        query = Query(Rule(Atom(ASKED, ()), (atom,)), (), Writing.of(self._program).atom(atom))
        return self._prover.explain(query, self._program, check=self.runtime.check).proofs[0]

    def _explain_equal(self, query: Query, proofs: int, limit: int, rows: int | None) -> Explanation:
        """Why a fact holds where constants may be equal."""
        program, equality = self._program, self._equality
        instances = self._prover.instances(program)
        answer = equality.look_up(program, "expand") or (lambda query: instances.engine.answer(query.rule))
        treated = Treated(equality.known_classes(), equality.relation)
        prover = EqualProver(instances, treated, self._origin, self.runtime.check)
        return prover.explain(query, program, answer, proofs, limit, rows)

    @locked
    def why_not(self, text: str, *, repairs: int = MOST_REPAIRS) -> WhyNot:
        """Why a fact such as `reach(a, z)` does not hold: for each rule, the instance that comes nearest.

        Its `repairs` are facts that would complete a rule, so many by each rule and literal.
        """
        query = self._resolved(text)
        self._complete()
        if is_timed(query, self._program):
            message = "why a fact does not hold cannot be said yet where facts hold at times"
            raise ProgramError(Diagnostic(NOT_EXPLAINED, message))
        program = self._program
        if has_equality(program.predicates):
            program = self._with_axioms(program)
        with self.runtime.limits().guarding():
            instances = self._prover.instances(program)
            return Doubter(instances, program, self.runtime.check).explain(query, repairs)

    def _with_axioms(self, program: Program) -> Program:
        """The program with the axioms of equality as rules, if facts are kept so; else raises."""
        if self._equality.name != Axiomatised.name:
            message = "why a fact does not hold cannot be said yet where equal constants are rewritten"
            help = f"use `--equality {Axiomatised.name}`, `equality={Axiomatised.name!r}`"
            raise ProgramError(Diagnostic(NOT_EXPLAINED, message, help=help))
        return self._equality.meaning(program)

    @locked
    def what_if(self, script: str, *, missing: str = "error", name: str = "<changes>") -> Delta:
        """What a transaction, written as a change script, would change: it is not made.

        It is worked in and taken back, and nobody is told. Raises what the transaction would raise.
        """
        with self._begin_rehearsal(missing) as change:
            change.apply(script, name=name)
        return change.delta

    @abstractmethod
    def _begin_rehearsal(self, missing: str) -> Change:
        """A transaction that is taken back when it has been carried out."""

    def _origin(self, fact: Fact) -> str | Place | None:
        """Where an explicit fact comes from: the line that states it, else the file it was read from."""
        if isinstance(fact, TimedFact):
            places = dict.fromkeys(map(place_of, self._own.spans_within(fact)))
            return ", ".join(filter(None, places)) or self._origins.files_of(fact.predicate)
        span = self._own.span_of(fact)
        return place_of(span) if span is not None else self._origins.of(fact)
