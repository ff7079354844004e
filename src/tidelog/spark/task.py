"""What runs in a Spark task: rows of all inputs come in, and those of all outputs go out. Knows no Spark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.engine.columnar.typed import Misfit, to_typed
from tidelog.errors import Inconsistent
from tidelog.io.arrow_data import read_arrow_data, wanted_columns
from tidelog.io.faults import BadRow, Faults, OnError
from tidelog.logic.inference import Schema
from tidelog.logic.program import Program
from tidelog.logic.values import ColumnType
from tidelog.reasoner import Reasoner
from tidelog.relation import column_names, misfit_error

TAG = "predicate"
REJECTS, VIOLATIONS = "rejects", "violations"  # outputs that are no predicates
ROWS = 1 << 16  # of a batch that goes out


@dataclass(frozen=True)
class Reading:
    """Where the arguments of a predicate lie in the rows that come in, and how they are read."""

    predicate: str
    slots: tuple[str, ...]
    types: tuple[ColumnType, ...]
    names: tuple[str, ...]


@dataclass(frozen=True)
class Writing:
    """Where the columns of an output lie in the rows that go out, and what they hold."""

    name: str
    predicate: str
    slots: tuple[str, ...]
    types: Schema


@dataclass(frozen=True)
class Task:
    """A program and how its facts come in and go out; sent to the workers as it is."""

    program: Program
    inputs: tuple[Reading, ...]
    outputs: tuple[Writing, ...]
    schema: Mapping[str, Any]  # of what goes out: Arrow's types by slot, the tag aside
    special: Mapping[str, tuple[str, ...]]  # the slots of rejects and violations
    on_error: OnError = OnError.FAIL
    keeps_violations: bool = False
    settings: Mapping[str, Any] = field(default_factory=dict)

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the rows of all outputs."""
        faults = Collected(self.on_error)
        reasoner = Reasoner(self.program, **self.settings)
        self._load(reasoner, batches, faults)
        yield from self._rows(REJECTS, [list(map(str, each)) for each in zip(*faults.collected, strict=True)])
        try:
            reasoner.materialise()
        except Inconsistent as found:
            if not self.keeps_violations:
                raise
            texts = [[item.code for item in found.diagnostics], [item.message for item in found.diagnostics]]
            yield from self._rows(VIOLATIONS, texts)
        for output in self.outputs:
            yield from self._output(reasoner, output)

    # ---- in

    def _load(self, reasoner: Reasoner, batches: Iterable[Any], faults: Collected) -> None:
        """Insert the rows, all of a predicate at once: a row's tag is the number of its input."""
        parts: dict[int, list[Any]] = {number: [] for number in range(len(self.inputs))}
        for batch in batches:
            tags = batch.column(TAG)
            for tag in pc.unique(tags).to_pylist():
                if tag is not None and tag >= 0:
                    slots = list(self.inputs[tag].slots)
                    some = batch.select(slots) if slots else batch.select([TAG])
                    parts[tag].append(some.filter(pc.equal(tags, tag)))
        for number, reading in enumerate(self.inputs):
            if parts[number]:
                self._insert(reasoner, reading, parts.pop(number), faults)
        faults.check()

    def _insert(self, reasoner: Reasoner, reading: Reading, parts: list[Any], faults: Collected) -> None:
        if not reading.slots:
            reasoner.insert(reading.predicate, [()])
            return
        table = pa.Table.from_batches(parts).rename_columns(list(reading.names))
        wanted = wanted_columns(table.schema, reading.types, (), f"`{reading.predicate}`")
        reasoner.load(reading.predicate, read_arrow_data([table], wanted, faults))

    # ---- out

    def _output(self, reasoner: Reasoner, output: Writing) -> Iterator[Any]:
        relation = reasoner[output.predicate]
        coded = relation.coded
        if not coded.columns:
            yield from self._batches(
                output.name, {output.slots[0]: pa.array([True] * coded.rows)}, coded.rows
            )
            return
        names = column_names(reasoner.predicates()[output.predicate])
        columns = {}
        for slot, ids, types, name in zip(output.slots, coded.columns, output.types, names, strict=True):
            try:
                columns[slot] = to_typed(coded.dictionary, ids, types)
            except Misfit as misfit:
                raise misfit_error(misfit, name, output.name, types) from None
        yield from self._batches(output.name, columns, coded.rows)

    def _rows(self, name: str, columns: list[list[str]]) -> Iterator[Any]:
        """Yield rows of texts that are no facts."""
        if columns and name in self.special:
            texts = {
                slot: pa.array(texts, pa.string())
                for slot, texts in zip(self.special[name], columns, strict=True)
            }
            yield from self._batches(name, texts, len(columns[0]))

    def _batches(self, name: str, columns: Mapping[str, Any], rows: int) -> Iterator[Any]:
        """Yield the rows in batches of the schema that goes out."""
        for start in range(0, rows, ROWS):
            count = min(ROWS, rows - start)
            arrays = [pa.repeat(pa.scalar(name, pa.string()), count)]
            for slot, wanted in self.schema.items():
                held = columns.get(slot)
                part = pa.nulls(count, wanted) if held is None else held.slice(start, count).cast(wanted)
                arrays.append(part)
            yield pa.RecordBatch.from_arrays(arrays, names=[TAG, *self.schema])


class Collected(Faults):
    """Rows that cannot be read, kept in memory: place, code, reason and the row."""

    def __init__(self, on_error: OnError) -> None:
        super().__init__(on_error)
        self.collected: list[tuple[str, str, str, str]] = []

    def _write(self, row: BadRow) -> None:
        fault = row.diagnostic
        self.collected.append((fault.place or "", fault.code, fault.message, row.text))
