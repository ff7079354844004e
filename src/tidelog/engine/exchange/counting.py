"""What tasks tell one another of the given facts, so that all of them plan alike.

Flajolet, Fusy, Gandouet, Meunier: HyperLogLog, AofA 2007, for distinct values of a column whose rows lie at
several tasks: sketches are merged by the larger of each two registers.

Frequent values are guessed from a sample of each column. Any values are right, see `rewrite.heavy_keys`.
"""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from math import log
from typing import Any, Final

import numpy as np
import numpy.typing as npt

from tidelog.engine.exchange import owner_kernels
from tidelog.engine.exchange.values import Rows, Values
from tidelog.logic.program import Program
from tidelog.logic.type_inference import Columns
from tidelog.logic.types import types_of_kinds
from tidelog.logic.values import Kind, Value
from tidelog.rewrite.localise import Sizes
from tidelog.rewrite.localise_sizes import constants_of
from tidelog.rewrite.partial_aggregates import has_sums

Ids = npt.NDArray[np.int32]
Part = tuple[Sequence[Ids], int]  # columns and rows
Column = tuple[str, int]

SAMPLE: Final = 2048  # rows of a column
FEWEST: Final = 16  # rows of the sample that have a value which may be frequent
SKEWED_FROM: Final = 10_000  # rows of a relation for which skew matters
MOST_HEAVY: Final = 10  # values of a column


@dataclass(frozen=True)
class Counts:
    """What a task has counted of its part, and how it is sent: for each predicate, column and constant."""

    rows: npt.NDArray[np.int64]
    sketches: npt.NDArray[np.uint8]
    matching: npt.NDArray[np.int64]
    weights: npt.NDArray[np.int64]  # of the values that may be frequent: about how many rows have each
    kinds: npt.NDArray[np.int64]  # of the values of each column, a bit for each; none unless that matters
    frequent: tuple[Any, ...]  # a parcel with these values; relations are numbers of columns


class Counting:
    """What is counted of a program's given facts; the same at all tasks."""

    def __init__(self, program: Program) -> None:
        self.names = sorted(program.predicates)
        read = {atom.predicate for rule in program.rules for atom in (*rule.positive, *rule.negated)}
        self.columns: list[Column] = [
            (name, place)
            for name in self.names
            if name in read
            for place in range(program.predicates[name].arity)
        ]
        self.needs_kinds = has_sums(program)
        self.constants = sorted(constants_of(program), key=lambda each: (each[0], each[1], repr(each[2])))

    def count(self, given: Mapping[str, Sequence[Part]], values: Values, tasks: int) -> Counts:
        """Count a task's part of the given facts."""
        rows = np.array([sum(count for _, count in given.get(name, ())) for name in self.names], np.int64)
        sketches = np.zeros((len(self.columns), owner_kernels.SKETCH), np.uint8)
        kinds = np.zeros(len(self.columns), np.int64)
        weights: list[int] = []
        frequent: list[Rows] = []
        for number, (name, place) in enumerate(self.columns):
            parts = [columns[place] for columns, count in given.get(name, ()) if count]
            for part in parts:
                owner_kernels.sketch(part, values.hashes, sketches[number])
                if self.needs_kinds:
                    found = np.flatnonzero(np.bincount(values.dictionary.kind[part]))
                    kinds[number] |= sum(1 << kind for kind in found.tolist())
            if tasks > 1 and parts:
                ids, about = _frequent(parts, tasks)
                weights += about
                frequent.append(Rows(number, (ids,), len(ids)))
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
        self, given: Mapping[str, Sequence[Part]], values: Values, name: str, place: int, value: Value
    ) -> int:
        identity = values.dictionary.find(value) if name in given else None
        if identity is None:
            return 0
        return sum(int(np.count_nonzero(columns[place] == identity)) for columns, _ in given[name])

    def sizes(self, counts: Sequence[Counts], values: Values, tasks: int) -> tuple[Sizes, dict[Column, Ids]]:
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
        known = {each: count for each, count in zip(self.constants, matching, strict=True) if rows[each[0]]}
        return Sizes(rows, distinct, known, weights, self._types(counts)), heavy

    def _types(self, counts: Sequence[Counts]) -> dict[str, Columns]:
        """Return the types of given facts, of the predicates that are read, where these matter."""
        found: dict[str, Columns] = {}
        masks = np.bitwise_or.reduce([each.kinds for each in counts]).tolist() if self.needs_kinds else ()
        for (name, _), mask in zip(self.columns, masks, strict=False):
            types = types_of_kinds(kind for kind in Kind if mask >> kind & 1)
            found[name] = (*found.get(name, ()), types)
        return found

    def _heavy(
        self, counts: Sequence[Counts], values: Values, rows: Mapping[str, int], tasks: int
    ) -> tuple[dict[Column, Ids], dict[Column, int]]:
        """Return values that more rows of a column have than half a task's share, and how many have them."""
        found: dict[int, dict[int, int]] = defaultdict(lambda: defaultdict(int))
        for each in counts:
            place = 0
            for part in values.unpack(each.frequent, None):
                for identity in part.columns[0].tolist():
                    found[part.relation][identity] += int(each.weights[place])
                    place += 1
        heavy: dict[Column, Ids] = {}
        weights: dict[Column, int] = {}
        for number, about in found.items():
            column = self.columns[number]
            least = rows[column[0]] / (2 * tasks)
            hashes = {identity: int(values.hashes[identity]) for identity in about}
            often = sorted(
                (identity for identity in about if about[identity] > least),
                key=lambda identity: (-about[identity], hashes[identity]),
            )[:MOST_HEAVY]
            if often and rows[column[0]] >= SKEWED_FROM:
                heavy[column] = np.array(often, np.int32)
                weights[column] = sum(about[identity] for identity in often)
        return heavy, weights


def _frequent(parts: Iterable[Ids], tasks: int) -> tuple[Ids, list[int]]:
    """Return the values that seem frequent in a column, and about how many rows have each."""
    column = np.concatenate([part[:: max(1, len(part) // SAMPLE)] for part in parts])
    size = sum(map(len, parts))
    ids, counts = np.unique(column, return_counts=True)
    often = counts >= max(FEWEST, len(column) // (4 * tasks))
    return ids[often], (counts[often] * (size / max(1, len(column)))).astype(np.int64).tolist()


def _estimate(registers: npt.NDArray[np.uint8]) -> float:
    """Return about how many distinct values a sketch has seen."""
    size = len(registers)
    empty = int(np.count_nonzero(registers == 0))
    estimate = 0.7213 / (1 + 1.079 / size) * size**2 / float(np.sum(np.exp2(-registers.astype(np.float64))))
    return size * log(size / empty) if empty and estimate <= 2.5 * size else estimate
