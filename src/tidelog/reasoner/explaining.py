"""Explanations: why a fact holds, why another does not, and where facts come from."""

from __future__ import annotations

import io
import mmap
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import nullcontext
from dataclasses import fields
from functools import cached_property
from typing import IO, TYPE_CHECKING

import numpy as np

from tidelog.data.columns import Batch
from tidelog.errors import Diagnostic, ProgramError, TidelogError
from tidelog.errors.codes import NOT_EXPLAINED, UNKNOWN_STRATEGY
from tidelog.io.data_file import Header, InputFile
from tidelog.io.reader import read
from tidelog.logic.program import Atom, Constant, Fact, Program, Query, Rule, TimedFact
from tidelog.logic.values import Kind, Value
from tidelog.plan.algebra import EXPLAINED
from tidelog.plan.rule_text import Writing
from tidelog.reasoner.asking import Asker
from tidelog.reasoner.deriving import Deriver
from tidelog.reasoner.loading import LoadedData
from tidelog.reasoner.program_state import ProgramState
from tidelog.reasoner.runtime import Runtime
from tidelog.records import dataclass
from tidelog.temporal.temporal import is_timed

if TYPE_CHECKING:
    from tidelog.engine.columnar.engine import ColumnarEngine
    from tidelog.proof.explanation import Explanation, ProofNode
    from tidelog.proof.why_not import WhyNot
    from tidelog.temporal.temporal import Temporal

# ---- The line of a file that has a row, searched for on request: nothing is stored while loading.
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
    """Return the line on which a file has a row, if it is found; `is_row` recognises the row once read."""
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


# ---- Where the facts of predicates come from, as far as that is known.


@dataclass(frozen=True)
class FactOrigin:
    """Where a fact was read: the file and the line, searched for on first use; may be empty."""

    find: Callable[[], str | None]
    otherwise: str

    @cached_property
    def text(self) -> str:
        """The file and the line, or what is known otherwise."""
        return self.find() or self.otherwise

    def __str__(self) -> str:
        return self.text


@dataclass(frozen=True, slots=True)
class FactSources:
    """Finds the lines of programs and data files that facts come from."""

    engine: ColumnarEngine
    program: ProgramState
    data: LoadedData

    def of(self, fact: Fact) -> str | FactOrigin | None:
        """Return where an explicit fact comes from: the line that states it, else the file it is from."""
        from tidelog.proof.explanation import place_of

        if isinstance(fact, TimedFact):
            places = dict.fromkeys(map(place_of, self.program.facts.spans_within(fact)))
            return ", ".join(filter(None, places)) or self._files_of(fact.predicate)
        span = self.program.facts.span_of(fact)
        return place_of(span) if span is not None else self._file_of(fact)

    def _file_of(self, fact: Fact) -> FactOrigin | None:
        """Return where a fact was loaded from; None if nothing is known of that."""
        files = self.data.files(fact.predicate)
        if not files:
            return None
        return FactOrigin(lambda: self._find(fact, files), self._files_of(fact.predicate) or "")

    def _files_of(self, predicate: str) -> str | None:
        """Return the files that all facts of a predicate come from; None if some came otherwise."""
        files = self.data.files(predicate)
        if not files or predicate in self.data.inserted:
            return None
        return " or ".join(dict.fromkeys(file.shown for file in files))

    def _find(self, fact: Fact, files: Iterable[InputFile]) -> str | None:
        wanted = [self.engine.storage.dictionary.encode(value) for value in fact.values]

        def is_row(batch: Batch) -> bool:
            columns = [
                self.engine.storage.dictionary.encode_column(column)
                for column in batch.columns[: len(wanted)]
            ]
            rows = zip(*(column.tolist() for column in columns), strict=True)
            return any(list(row) == wanted for row in rows)

        for file in files:
            line = line_of(file, fact.values, is_row)
            if line is not None:
                return file.place(line)
        return None


# ---- Why a fact holds, and why another does not.

FULL, MAGIC = "full", "magic"  # strategies of explanations
MOST_ANSWERS = 10  # to a query that are explained, unless more are asked for
MOST_REPAIRS = 5  # by each rule and literal


class Explainer:
    """Explains facts by rules."""

    def __init__(
        self,
        runtime: Runtime,
        program: ProgramState,
        deriver: Deriver,
        asker: Asker,
        time: Temporal,
        sources: FactSources,
    ) -> None:
        from tidelog.proof.prover import Prover

        self._runtime = runtime
        self._program = program
        self._deriver = deriver
        self._asker = asker
        self._time = time
        self._sources = sources
        self._prover = Prover(runtime.engine, sources.of)

    def explain(self, text: str, proofs: int, limit: int, rows: int | None, strategy: str) -> Explanation:
        """Return why the answers to a query are answers."""
        from tidelog.proof.timed_prover import TimedProver

        query = self._asker.resolve(text)
        if strategy not in (FULL, MAGIC):
            message, help = f"explanations have no strategy `{strategy}`", f"use `{FULL}` or `{MAGIC}`"
            raise ProgramError(Diagnostic(UNKNOWN_STRATEGY, message, help=help))
        program = self._program.current
        is_over_time, has_classes = is_timed(query, program), self._program.has_equality
        if strategy == MAGIC and not (is_over_time or has_classes):
            return self._explain_demanded(query, proofs, limit, rows)
        self._deriver.complete()
        check = self._runtime.check
        with self._runtime.limits().guarding():
            if is_over_time:
                timed = TimedProver(self._time, self._sources.of, self._proof_of, check)
                return timed.explain(query, program, limit, rows)
            if has_classes:
                return self._explain_equal(query, proofs, limit, rows)
            return self._prover.explain(query, program, proofs, limit, rows, check)

    def _explain_demanded(self, query: Query, proofs: int, limit: int, rows: int | None) -> Explanation:
        """Return why a fact holds, by what has to be derived for it."""
        from tidelog.proof.prover import demanded

        place, check = self._asker.place(), self._runtime.check
        with self._runtime.limits().guarding():
            facts = nullcontext() if place.is_materialised else demanded(query, place)
            with facts:
                return self._prover.explain(query, self._program.current, proofs, limit, rows, check)

    def _proof_of(self, fact: Fact) -> ProofNode:
        """Return the proof of a fact that holds always."""
        program = self._program.current
        atom = Atom(fact.predicate, tuple(map(Constant, fact.values)))
        query = Query(Rule(Atom(EXPLAINED, ()), (atom,)), (), Writing.of(program).atom(atom))
        return self._prover.explain(query, program, check=self._runtime.check).proofs[0]

    def _explain_equal(self, query: Query, proofs: int, limit: int, rows: int | None) -> Explanation:
        """Return why a fact holds where constants may be equal."""
        from tidelog.proof.member_search import EqualityView

        program, equality = self._program.current, self._program.equality
        instances = self._prover.instances(program)
        answer = equality.look_up(program, "expand") or (
            lambda query: instances.engine.plans.answer(query.rule)
        )
        view = EqualityView(equality.known_classes(), equality.relation, answer)
        return self._prover.explain(query, program, proofs, limit, rows, self._runtime.check, view)

    def why_not(self, text: str, repairs: int) -> WhyNot:
        """Return why a fact does not hold."""
        from tidelog.proof.why_not import WhyNotSearch

        query = self._asker.resolve(text)
        self._deriver.complete()
        program = self._program.current
        if is_timed(query, program):
            message = "why-not explanations are not supported yet for temporal facts"
            raise ProgramError(Diagnostic(NOT_EXPLAINED, message))
        if self._program.has_equality:
            program = self._with_axioms(program)
        with self._runtime.limits().guarding():
            instances = self._prover.instances(program)
            return WhyNotSearch(instances, program, self._runtime.check).explain(query, repairs)

    def _with_axioms(self, program: Program) -> Program:
        """Return the program with the axioms of equality as rules; raise unless facts are derived by them."""
        from tidelog.equality.treatment import Axiomatised

        equality = self._program.equality
        if equality.name != Axiomatised.name:
            message = "why-not explanations are not supported yet where equal constants are rewritten"
            help = f"use `--equality {Axiomatised.name}`, `equality={Axiomatised.name!r}`"
            raise ProgramError(Diagnostic(NOT_EXPLAINED, message, help=help))
        return equality.meaning(program)
