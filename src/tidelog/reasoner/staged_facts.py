"""Facts as a transaction stages them, and those that a program brings along. Mutates itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any

import numpy as np

from tidelog.data.columns import Batch, column_of_values
from tidelog.data.dictionary import Dictionary
from tidelog.data.rows import Ids, Rows, distinct
from tidelog.engine.flags import Flag
from tidelog.errors import Span
from tidelog.io.data_file import DataFile, import_file
from tidelog.io.reader import read
from tidelog.io.rejects import Faults
from tidelog.logic.program import Fact, Program, TimedFact
from tidelog.logic.values import ColumnType

# ---- The facts that a program brings along, stated or imported: what is loaded of them. Mutates itself.

EXPLICIT = int(Flag.EXPLICIT)


class ProgramFacts:
    """What a program states; once that is loaded, the engine knows better what is left of it."""

    def __init__(self, stated: tuple[Fact, ...]) -> None:
        self.stated = stated
        self._loaded = 0  # facts of `stated`
        self._located = 0  # facts of `stated` that are among …
        self._spans: dict[Fact, Span | None] = {}  # … those whose places are known
        self._imported = 0  # imports of the program

    def pending(
        self, program: Program, faults: Faults, threads: int
    ) -> Iterator[tuple[str, Iterable[Batch], DataFile | None, tuple[str, ...]]]:
        """What was not loaded before, predicate by predicate; it counts as loaded when more is asked for.

        Each with the file that it is imported from, None of what the program states, and the columns that say
        when facts hold, which are the last ones of the batches.
        """
        for name, _, batch in _batches(self.stated[self._loaded :]):
            yield name, [batch], None, ()
        self._loaded = len(self.stated)
        for transfer in program.imports[self._imported :]:
            predicate = program.predicates[transfer.predicate]
            file = import_file(transfer, predicate)
            time = transfer.options.get("time", ())
            assert isinstance(time, tuple), "the resolver has seen to that"
            yield predicate.name, read(file, faults, threads), file, time
            self._imported += 1

    def pending_times(self) -> tuple[TimedFact, ...]:
        """The facts with times that were not loaded before."""
        return tuple(fact for fact in self.stated[self._loaded :] if isinstance(fact, TimedFact))

    def skip(self, program: Program) -> None:
        """Mark everything as loaded."""
        self._loaded, self._imported = len(self.stated), len(program.imports)

    def span_of(self, fact: Fact) -> Span | None:
        """Where the program states a fact, if it does."""
        for stated in self.stated[self._located :]:
            self._spans.setdefault(stated, stated.span)
        self._located = len(self.stated)
        return self._spans.get(fact)

    def spans_within(self, fact: TimedFact) -> list[Span]:
        """Where the program states a fact for some of an interval."""
        stated = (each for each in self.stated if isinstance(each, TimedFact) and each.span is not None)
        same = (each for each in stated if (each.predicate, each.values) == (fact.predicate, fact.values))
        return [each.span for each in same if each.span and each.interval.meets(fact.interval)]

    def remaining(self, engine: Any, holds: Callable[[TimedFact], bool]) -> Iterator[Fact]:
        """The facts that the program stated and that are explicit still; `holds` knows about times."""
        for fact in self.stated[: self._loaded]:
            if isinstance(fact, TimedFact) and holds(fact):
                yield fact
        for name, facts, batch in _batches(self.stated[: self._loaded]):
            columns = [engine.encode_column(column) for column in batch.columns]
            standing = engine.standing(name, columns, len(facts))
            yield from (
                fact for fact, flags in zip(facts, standing.tolist(), strict=True) if flags & EXPLICIT
            )
        yield from self.stated[self._loaded :]


def _batches(facts: Iterable[Fact]) -> Iterator[tuple[str, list[Fact], Batch]]:
    """Facts, predicate by predicate."""
    by_predicate: dict[str, list[Fact]] = {}
    for fact in facts:
        if isinstance(fact, TimedFact):
            continue
        by_predicate.setdefault(fact.predicate, []).append(fact)
    for name, stated in by_predicate.items():
        columns = tuple(map(column_of_values, zip(*(fact.values for fact in stated), strict=True)))
        yield name, stated, Batch(columns, len(stated))


# ---- Facts as a transaction states them: rows of ids, some of them texts that wait for theirs. Mutates
# itself.
#
# Texts are looked up when the transaction is carried out, those of all predicates at once: it takes as long
# to look one up as to look up a hundred.

MOST_WAITING = 1 << 12  # rows of texts in one call that are kept as they are; more come as Arrow data anyway
OF_TEXTS = (ColumnType.ANY, ColumnType.STRING)  # columns in which any text has a value
NO_ROWS = Rows((), 0)
NO_IDS: Ids = np.zeros(0, np.int32)


@dataclass(slots=True, eq=False)
class Stated:
    """Rows of one predicate as one call gave them, and where each was written if it was."""

    rows: Rows
    spans: tuple[Span | None, ...] = ()
    is_distinct: bool = False  # known to have each row once


class Waiting:
    """Rows that wait for their ids: their texts, column by column."""

    __slots__ = ("columns", "count", "ids", "stated", "types")

    def __init__(
        self, stated: Stated, columns: Sequence[tuple[str, ...]], types: Sequence[ColumnType], count: int
    ) -> None:
        self.stated = stated
        self.columns = columns
        self.types = types
        self.count = count
        self.ids: list[Ids] = [NO_IDS] * len(types)

    def end(self) -> None:
        """Set the stated rows to the ids found."""
        self.stated.rows = Rows(tuple(self.ids), self.count)


class Statements:
    """What a transaction states of each predicate on one side: what it takes away, or what it adds."""

    def __init__(self, dictionary: Dictionary) -> None:
        self._dictionary = dictionary
        self._stated: dict[str, list[Stated]] = {}
        self._waiting: list[Waiting] = []
        self._known: dict[str, tuple[int, Rows]] = {}  # distinct rows, and how many statements they are of

    def note(self, name: str, rows: Rows, spans: tuple[Span | None, ...] = ()) -> None:
        """State rows of a predicate."""
        if rows.count:
            self._stated.setdefault(name, []).append(Stated(rows, spans))

    def note_texts(self, name: str, data: Sequence[object], types: tuple[ColumnType, ...]) -> bool:
        """State rows of texts; whether that is what they are, else nothing is stated."""
        columns = columns_of_texts(data, types)
        if columns is None:
            return False
        stated = Stated(NO_ROWS, is_distinct=len(set(data)) == len(data))
        self._stated.setdefault(name, []).append(stated)
        self._waiting.append(Waiting(stated, columns, types, len(data)))
        return True

    def items(self) -> Mapping[str, list[Stated]]:
        """All that is stated, by predicate."""
        self._encode()
        return self._stated

    def rows(self) -> dict[str, Rows]:
        """The rows of each predicate, each once: the very same as before, if somebody has looked ahead."""
        return {name: self._each_once(name, stated) for name, stated in self.items().items()}

    def _each_once(self, name: str, stated: list[Stated]) -> Rows:
        if len(stated) == 1 and stated[0].is_distinct:
            return stated[0].rows
        known = self._known.get(name)
        if known is None or known[0] != len(stated):
            known = self._known[name] = len(stated), distinct([item.rows for item in stated])
        return known[1]

    def _encode(self) -> None:
        """Encode all waiting texts."""
        if self._waiting:
            for column in OF_TEXTS:
                self._encode_columns(column)
            for waiting in self._waiting:
                waiting.end()
            self._waiting = []

    def _encode_columns(self, column: ColumnType) -> None:
        """Find the ids in all waiting columns of one type."""
        places = [
            (waiting, place)
            for waiting in self._waiting
            for place, kind in enumerate(waiting.types)
            if kind is column
        ]
        if not places:
            return
        texts = chain.from_iterable(waiting.columns[place] for waiting, place in places)
        ids = self._dictionary.encode_python_texts(list(texts), column)
        end = 0
        for waiting, place in places:
            first, end = end, end + waiting.count
            waiting.ids[place] = ids[first:end]


def columns_of_texts(data: Sequence[object], types: Sequence[ColumnType]) -> list[tuple[str, ...]] | None:
    """The columns of rows that are tuples of texts, where any text has a value; None if they are not."""
    if not types or len(data) > MOST_WAITING or any(kind not in OF_TEXTS for kind in types):
        return None
    if not data or not all(issubclass(kind, tuple) for kind in set(map(type, data))):
        return None
    try:
        columns = list(zip(*data, strict=True))
        is_plain = "".join(chain.from_iterable(columns)).isascii()
    except (TypeError, ValueError):  # something is no text, or rows differ in length
        return None
    # Texts that are not plain may have no bytes, which must be said at once.
    return columns if is_plain and len(columns) == len(types) else None
