"""The messages of tasks: rows, counts of the given facts, and errors.

A task has dense ids for values. On the wire rows have hashes, and a value that the other task may not know
is described once. A parcel is what one task sends another in a round: rows of several relations. It lists the
distinct values of its rows once, by hash; the rows are numbers into that list (`Values.pack`, `unpack`).

Invariant: within a task each hash belongs to one value. A task that meets a second value with the hash of
another, among its own or those that it receives, raises `Collision`: the run must begin again with another
seed.
"""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping, Sequence
from math import log
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tidelog import errors
from tidelog.data import memory
from tidelog.data.dictionary import TEXT_KINDS, Dictionary
from tidelog.data.dictionary_kernels import gather_texts
from tidelog.engine.exchange import owner_kernels
from tidelog.engine.exchange.sockets import Lost
from tidelog.errors import Diagnostic, Severity, SourceText, Span, TidelogError, codes
from tidelog.logic.program import Program
from tidelog.logic.type_inference import Columns
from tidelog.logic.types import types_of_kinds
from tidelog.logic.values import Kind, Value
from tidelog.records import dataclass
from tidelog.rewrite.localise import Sizes
from tidelog.rewrite.localise_plans import constants_of
from tidelog.rewrite.localise_rules import has_sums

Ids = npt.NDArray[np.int32]
IdRows = tuple[Sequence[Ids], int]  # columns and rows
PredicateColumn = tuple[str, int]

FIRST_CAPACITY: Final = 1024
LOAD: Final = 0.5  # the part of the slots that may be taken
NO_ROWS: Final = np.zeros(0, np.int32)
IS_TEXT: Final = np.isin(np.arange(256), [int(kind) for kind in TEXT_KINDS])
IS_QUALIFIED: Final = np.isin(np.arange(256), [int(Kind.LANGUAGE_STRING), int(Kind.LITERAL)])
HEAD: Final = 3  # words for each relation of a parcel: its number, columns, rows
PARTS: Final = 8  # of a parcel
HEADS, NUMBERS, HASHES, PLACES, KINDS, EXTRAS, WORDS, TEXTS = range(PARTS)
SAMPLE: Final = 2048  # rows of a column
FEWEST: Final = 16  # rows of the sample that have a value which may be frequent
SKEWED_FROM: Final = 10_000  # rows of a relation for which skew matters
MOST_HEAVY: Final = 10  # values of a column


class Collision(TidelogError):  # noqa: N818 - what was met
    """Two values have the same hash: the run must begin again with another seed."""

    exit_code = 5


ERRORS: Final = {
    each.__name__: each
    for each in (
        errors.ProgramError,
        errors.DataError,
        errors.EvaluationError,
        errors.Inconsistent,
        errors.Stopped,
        errors.Interrupted,
        Collision,
        Lost,
    )
}  # by the names under which they are sent


@dataclass(frozen=True, slots=True)
class ParcelRows:
    """Rows of a relation, given by its number; of the columns' rows those that are `chosen`, None for all."""

    relation: int
    columns: Sequence[Ids]
    count: int
    chosen: Ids | None = None


class Values:
    """The values of a dictionary by their hashes, and the tasks that know each."""

    def __init__(self, dictionary: Dictionary, tasks: int, seed: int, bits: int = 64) -> None:
        self.dictionary = dictionary
        self.seed = seed
        self.told = 0  # values described, in all parcels
        self._mask = -1 if bits == 64 else (1 << bits) - 1
        self._hashed = 0  # entries of the dictionary whose hashes are known
        self._width = (tasks + 7) // 8
        self.hashes: npt.NDArray[np.int64] = memory.empty(FIRST_CAPACITY, np.int64)
        self._numbers: Ids = memory.zeros(FIRST_CAPACITY, np.int32)  # 1 + number in the current parcel
        self._is_sent = memory.zeros(FIRST_CAPACITY * self._width, np.uint8)  # a bit for each task
        self._slots: Ids = memory.zeros(2 * FIRST_CAPACITY, np.int32)

    def know(self, more: int = 0) -> None:
        """Hash new values of the dictionary, with room for about `more` more; raise Collision."""
        count = len(self.dictionary)
        if count > self._hashed:
            self._grow(count)
            words = self.dictionary.words
            owner_kernels.hash_entries(words, self._hashed, count, self.seed, self._mask, self.hashes)
            self._enter(count, more)

    def _grow(self, count: int) -> None:
        """Make room for values."""
        if count > len(self.hashes):
            size = 2 * count
            sent = memory.zeros(size * self._width, np.uint8)
            sent[: len(self._is_sent)] = self._is_sent
            self.hashes, self._is_sent = memory.grown(self.hashes, self._hashed, size), sent
            self._numbers = memory.zeros(size, np.int32)  # there is no current parcel

    def _enter(self, count: int, more: int = 0) -> None:
        """Index the first `count` values by hash, with about `more` to follow; raise Collision."""
        first = self._hashed
        if count > LOAD * len(self._slots):
            self._slots = memory.zeros(1 << (2 * (count + more)).bit_length(), np.int32)
            first = 0
        slots = self._slots
        collision = int(
            owner_kernels.enter(self.hashes, slots.ctypes.data, len(slots), self._shift, first, count)
        )
        if collision >= 0:
            raise self._collision(collision)
        self._hashed = count

    @property
    def _shift(self) -> int:
        return owner_kernels.BITS - (len(self._slots).bit_length() - 1)

    def _collision(self, identity: int) -> Collision:
        message = f"{self.dictionary.decode(identity).content!r} has the hash of another value"
        return Collision(Diagnostic(codes.COLLISION, message, help="run it again: the seed will be another"))

    def by_owner(self, column: Ids, tasks: int) -> list[Ids]:
        """Return for each task the numbers of the rows whose value it owns."""
        rows = np.empty(len(column), np.int32)
        starts = np.zeros(tasks + 1, np.int64)
        owner_kernels.by_owner(column, self.hashes, tasks, rows, starts)
        return [rows[starts[task] : starts[task + 1]] for task in range(tasks)]

    def pack(self, groups: Sequence[ParcelRows], task: int | None) -> tuple[Any, ...]:
        """Return the parcel for a task, which then knows the values in it; one for all describes every value.

        The hashes of all values are known.
        """
        total = sum(rows.count * len(rows.columns) for rows in groups)
        numbers = np.empty(total, np.int32)
        listed = np.empty(min(total, self._hashed), np.int32)
        heads = np.empty(HEAD * len(groups), np.int64)
        count = place = 0
        for number, rows in enumerate(groups):
            heads[HEAD * number : HEAD * (number + 1)] = rows.relation, len(rows.columns), rows.count
            chosen = NO_ROWS if rows.chosen is None else rows.chosen
            for column in rows.columns:
                out = numbers[place : place + rows.count]
                count = int(owner_kernels.number_values(column, chosen, self._numbers, listed, count, out))
                place += rows.count
        listed = self._with_qualifiers(listed[:count], task)
        new = self._new(listed, task)
        parcel = heads, numbers, self.hashes[listed], *self._describe(listed, new)
        self._numbers[listed] = 0
        if task is not None:
            self._mark(listed[new], task)
        return parcel

    def _new(self, listed: Ids, task: int | None) -> npt.NDArray[np.int64]:
        """Return the places of values that a task does not know, those with a qualifier last."""
        if task is None:
            new = np.arange(len(listed))
        else:
            at, bit = task >> 3, 1 << (task & 7)
            new = np.flatnonzero((self._is_sent[listed.astype(np.int64) * self._width + at] & bit) == 0)
        qualified = IS_QUALIFIED[self.dictionary.kind[listed[new]]]
        return np.concatenate((new[~qualified], new[qualified])) if qualified.any() else new

    def _with_qualifiers(self, listed: Ids, task: int | None) -> Ids:
        """Return the values and the qualifiers that are sent with them, all numbered."""
        if not IS_QUALIFIED[self.dictionary.kind[listed]].any():
            return listed
        new = listed[self._new(listed, task)]
        qualifiers = np.unique(self.dictionary.extra[new[IS_QUALIFIED[self.dictionary.kind[new]]]])
        missing = qualifiers[self._numbers[qualifiers] == 0]
        self._numbers[missing] = 1 + np.arange(len(listed), len(listed) + len(missing), dtype=np.int32)
        return np.concatenate((listed, missing))

    def _describe(self, listed: Ids, new: npt.NDArray[np.int64]) -> tuple[Any, ...]:
        """Return the descriptions of the values at these places of the list."""
        words, ids = self.dictionary.words, listed[new]
        kinds, extras = np.empty(len(ids), np.uint8), np.empty(len(ids), np.int32)
        sent, offsets = np.empty(len(ids), np.int64), np.empty(len(ids) + 1, np.int64)
        owner_kernels.describe(words, ids, kinds, extras, sent, offsets)
        qualified = IS_QUALIFIED[kinds]
        if qualified.any():
            extras[qualified] = self._numbers[extras[qualified]] - 1
        texts = np.empty(int(offsets[-1]), np.uint8)
        gather_texts(words, ids, offsets, texts.ctypes.data)
        self.told += len(ids)
        return new.astype(np.int32), kinds, extras, sent, texts

    def _mark(self, ids: Ids, task: int) -> None:
        """Record that a task knows these values."""
        self._is_sent[ids.astype(np.int64) * self._width + (task >> 3)] |= 1 << (task & 7)

    def unpack(self, parcel: Sequence[Any], task: int | None) -> Iterator[ParcelRows]:
        """Yield the rows of a parcel, as ids of the dictionary; a task that sent values knows them, if named.

        Raises Collision.
        """
        self.know()
        hashes = np.frombuffer(parcel[HASHES], np.int64)
        ids = np.empty(len(hashes), np.int32)
        slots = self._slots
        owner_kernels.look_up(hashes, self.hashes, slots.ctypes.data, len(slots), self._shift, ids)
        places = np.frombuffer(parcel[PLACES], np.int32)
        if len(places):
            self._learn(parcel, places, hashes, ids)
            if task is not None:
                self._mark(ids[places], task)
        if len(ids) and ids.min() < 0:
            raise AssertionError("a value was not sent")
        values = ids[np.frombuffer(parcel[NUMBERS], np.int32)]
        place = 0
        for relation, width, count in np.frombuffer(parcel[HEADS], np.int64).reshape(-1, HEAD).tolist():
            columns = [values[place + at * count : place + (at + 1) * count] for at in range(width)]
            place += width * count
            yield ParcelRows(relation, columns, count)

    def _learn(self, parcel: Sequence[Any], places: Ids, hashes: Any, ids: Ids) -> None:
        """Give ids to the values that a parcel describes."""
        kinds = np.frombuffer(parcel[KINDS], np.uint8)
        extras = np.frombuffer(parcel[EXTRAS], np.int32)
        words = np.frombuffer(parcel[WORDS], np.int64)
        texts = parcel[TEXTS]
        ends = np.cumsum(np.where(IS_TEXT[kinds], words, 0))
        offsets = np.concatenate((np.zeros(1, np.int64), ends[:-1]))
        dictionary, new = self.dictionary, ids[places] < 0
        dictionary.grow(int(np.count_nonzero(new)), int(words[new & IS_TEXT[kinds]].sum()))
        at = texts.ctypes.data
        learned = int(
            owner_kernels.learn(dictionary.words, kinds, extras, words, offsets, at, places, 0, ids)
        )
        if learned < 0:
            raise self._collision(int(ids[places[-1 - learned]]))
        count = len(dictionary)
        self._grow(count)
        self.hashes[ids[places]] = hashes[places]
        self._enter(count)


@dataclass(frozen=True)
class Counts:
    """The counts of a task's part of the given facts: for each predicate, column and constant."""

    rows: npt.NDArray[np.int64]
    sketches: npt.NDArray[np.uint8]
    matching: npt.NDArray[np.int64]
    weights: npt.NDArray[np.int64]  # of the values that may be frequent: about how many rows have each
    kinds: npt.NDArray[np.int64]  # of the values of each column, a bit for each; none unless that matters
    frequent: tuple[Any, ...]  # a parcel with these values; relations are numbers of columns

    @property
    def parts(self) -> tuple[Any, ...]:
        """The counts as they are sent."""
        return self.rows, self.sketches, self.matching, self.weights, self.kinds, *self.frequent

    def like(self, parts: Sequence[Any]) -> Counts:
        """Return the counts that another task has sent: it counts the same."""
        rows, sketches, matching, weights, kinds, *frequent = parts
        return Counts(
            np.frombuffer(rows, np.int64),
            np.frombuffer(sketches, np.uint8).reshape(self.sketches.shape),
            np.frombuffer(matching, np.int64),
            np.frombuffer(weights, np.int64),
            np.frombuffer(kinds, np.int64),
            tuple(frequent),
        )


class Counting:
    """The statistics of a program's given facts, from which all tasks make the same plan.

    Flajolet, Fusy, Gandouet, Meunier: HyperLogLog, AofA 2007, for distinct values of a column whose rows lie
    at several tasks: sketches are merged by the larger of each two registers.

    Frequent values are guessed from a sample of each column. Any values are right: see
    `rewrite.localise_rules`.
    """

    def __init__(self, program: Program) -> None:
        self.names = sorted(program.predicates)
        read = {atom.predicate for rule in program.rules for atom in (*rule.positive, *rule.negated)}
        self.columns: list[PredicateColumn] = [
            (name, position)
            for name in self.names
            if name in read
            for position in range(program.predicates[name].arity)
        ]
        self.needs_kinds = has_sums(program)
        self.constants = sorted(constants_of(program), key=lambda each: (each[0], each[1], repr(each[2])))

    def count(self, given: Mapping[str, Sequence[IdRows]], values: Values, tasks: int) -> Counts:
        """Count a task's part of the given facts."""
        rows = np.array([sum(count for _, count in given.get(name, ())) for name in self.names], np.int64)
        sketches = np.zeros((len(self.columns), owner_kernels.SKETCH), np.uint8)
        kinds = np.zeros(len(self.columns), np.int64)
        weights: list[int] = []
        frequent: list[ParcelRows] = []
        for number, (name, place) in enumerate(self.columns):
            parts = [columns[place] for columns, count in given.get(name, ()) if count]
            for part in parts:
                owner_kernels.sketch(part, values.hashes, sketches[number])
                if self.needs_kinds:
                    kinds_present = np.flatnonzero(np.bincount(values.dictionary.kind[part]))
                    kinds[number] |= sum(1 << kind for kind in kinds_present.tolist())
            if tasks > 1 and parts:
                ids, estimates = _frequent(parts, tasks)
                weights += estimates
                frequent.append(ParcelRows(number, (ids,), len(ids)))
        matching = [self._matching(given, values, *each) for each in self.constants]
        return Counts(
            rows,
            sketches,
            np.array(matching, np.int64),
            np.array(weights, np.int64),
            kinds,
            values.pack(frequent, None),
        )

    def _matching(
        self, given: Mapping[str, Sequence[IdRows]], values: Values, name: str, place: int, value: Value
    ) -> int:
        identity = values.dictionary.find(value) if name in given else None
        if identity is None:
            return 0
        return sum(int(np.count_nonzero(columns[place] == identity)) for columns, _ in given[name])

    def sizes(
        self, counts: Sequence[Counts], values: Values, tasks: int
    ) -> tuple[Sizes, dict[PredicateColumn, Ids]]:
        """Return the sizes of all tasks' parts together, and the frequent values of columns."""
        rows = dict(zip(self.names, np.sum([each.rows for each in counts], axis=0).tolist(), strict=True))
        sketches = np.maximum.reduce([each.sketches for each in counts])
        matching = np.sum([each.matching for each in counts], axis=0).tolist()
        distinct = {
            column: max(1, min(rows[column[0]], round(_estimate(registers))))
            for column, registers in zip(self.columns, sketches, strict=True)
            if rows[column[0]]
        }
        heavy, weights = self._heavy(counts, values, rows, tasks)
        counts_of_constants = {
            each: count for each, count in zip(self.constants, matching, strict=True) if rows[each[0]]
        }
        return Sizes(rows, distinct, counts_of_constants, weights, self._types(counts)), heavy

    def _types(self, counts: Sequence[Counts]) -> dict[str, Columns]:
        """Return the types of given facts, of the predicates that are read, where these matter."""
        types_of: dict[str, Columns] = {}
        masks = np.bitwise_or.reduce([each.kinds for each in counts]).tolist() if self.needs_kinds else ()
        for (name, _), mask in zip(self.columns, masks, strict=False):
            types = types_of_kinds(kind for kind in Kind if mask >> kind & 1)
            types_of[name] = (*types_of.get(name, ()), types)
        return types_of

    def _heavy(
        self, counts: Sequence[Counts], values: Values, rows: Mapping[str, int], tasks: int
    ) -> tuple[dict[PredicateColumn, Ids], dict[PredicateColumn, int]]:
        """Return values that occur in more rows of a column than half a task's share, and in how many."""
        counts_of_values: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        for each in counts:
            place = 0
            for part in values.unpack(each.frequent, None):
                for identity in part.columns[0].tolist():
                    counts_of_values[part.relation][identity] += int(each.weights[place])
                    place += 1
        heavy: dict[PredicateColumn, Ids] = {}
        weights: dict[PredicateColumn, int] = {}
        for number, value_counts in counts_of_values.items():
            column = self.columns[number]
            least = rows[column[0]] / (2 * tasks)
            hashes = {identity: int(values.hashes[identity]) for identity in value_counts}
            frequent = sorted(
                (identity for identity in value_counts if value_counts[identity] > least),
                key=lambda identity: (-value_counts[identity], hashes[identity]),
            )[:MOST_HEAVY]
            if frequent and rows[column[0]] >= SKEWED_FROM:
                heavy[column] = np.array(frequent, np.int32)
                weights[column] = sum(value_counts[identity] for identity in frequent)
        return heavy, weights


def _frequent(parts: Iterable[Ids], tasks: int) -> tuple[Ids, list[int]]:
    """Return the values that seem frequent in a column, with the estimated number of rows of each."""
    column = np.concatenate([part[:: max(1, len(part) // SAMPLE)] for part in parts])
    size = sum(map(len, parts))
    ids, counts = np.unique(column, return_counts=True)
    is_frequent = counts >= max(FEWEST, len(column) // (4 * tasks))
    return ids[is_frequent], (counts[is_frequent] * (size / max(1, len(column)))).astype(np.int64).tolist()


def _estimate(registers: npt.NDArray[np.uint8]) -> float:
    """Return about how many distinct values a sketch has seen."""
    size = len(registers)
    empty = int(np.count_nonzero(registers == 0))
    estimate = 0.7213 / (1 + 1.079 / size) * size**2 / float(np.sum(np.exp2(-registers.astype(np.float64))))
    return size * log(size / empty) if empty and estimate <= 2.5 * size else estimate


def error_record(error: TidelogError) -> bytes:
    """Return an error as it is sent to other tasks."""
    diagnostics = [
        {
            "code": item.code,
            "message": item.message,
            "help": item.help,
            "severity": item.severity.value,
            "place": item.location,
            "span": None if item.span is None else [item.span.source.name, item.span.start, item.span.end],
        }
        for item in error.diagnostics
    ]
    return json.dumps({"error": type(error).__name__, "diagnostics": diagnostics}).encode()


def error_of(sent: Any, spans: Sequence[Span | None]) -> TidelogError:
    """Return the error that another task has sent; `spans` are those of the program, for its sources."""
    record = json.loads(bytes(sent))
    sources = {span.source.name: span.source for span in spans if span is not None}
    diagnostics = [
        Diagnostic(
            item["code"],
            item["message"],
            _span_of(item["span"], sources),
            item["help"],
            severity=Severity(item["severity"]),
            place=item["place"],
        )
        for item in record["diagnostics"]
    ]
    return ERRORS.get(record["error"], TidelogError)(diagnostics)


def _span_of(record: Sequence[Any] | None, sources: Mapping[str, SourceText]) -> Span | None:
    if record is None or record[0] not in sources:
        return None
    return Span(sources[record[0]], record[1], record[2])
