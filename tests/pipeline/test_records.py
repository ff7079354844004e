"""Records of streams against a model: one record after the other, in a set."""

from __future__ import annotations

import numpy as np
import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

import tidelog as tl
from tidelog.data.relation import Relation
from tidelog.data.rows import Rows
from tidelog.io.python_data import from_python
from tidelog.io.rejects import OnError, RejectedRows
from tidelog.pipeline.job_settings import Stream
from tidelog.pipeline.stream_records import Records, RecordShape, TimedRecords

KNOWN = ("+", "-", "insert", "Delete", "add", "remove")
RECORD = st.tuples(
    st.sampled_from([*KNOWN, "upsert", ""]), st.sampled_from("abc"), st.integers(0, 2), st.integers(0, 9)
)
RECORDS = st.lists(RECORD, max_size=9)
BATCHES = st.lists(RECORDS, max_size=4)


@given(BATCHES, st.booleans())
def test_batches_of_records(batches: list[list[tuple[str, str, int, int]]], has_order: bool) -> None:
    reasoner = tl.Reasoner(tl.parse('@declare p(x: string, n: int) . q(?x) :- p(?x, _) . p("a", 0) .'))
    reasoner.materialise()
    stream = Stream(predicate="p", order="seq" if has_order else None)
    shape = RecordShape.of(stream, reasoner.program.predicates["p"], reasoner.program)
    held = {("a", 0)}
    highest: str | None = None
    for batch in batches:
        faults = RejectedRows(OnError.SKIP)
        records = Records(shape, reasoner.engine, faults, highest)
        take(records, table(batch, has_order), shape)
        changed = records.changed()
        late, expected = model(batch, held, None if highest is None else int(highest), has_order)
        with reasoner.change() as change:
            change.delete_rows("p", changed.removed)
            change.insert_rows("p", changed.added)
        assert set(reasoner["p"]) == expected
        assert set(reasoner["q"]) == {(x,) for x, _ in expected}
        assert (
            rows(changed.added, reasoner) == expected - held
            and rows(changed.removed, reasoner) == held - expected
        )
        unknown = sum(operation not in KNOWN for operation, *_ in batch)
        tally = records.tally
        assert (tally.records, tally.late) == (len(batch), late)
        assert faults.skipped == unknown + late + tally.missing
        effective = len(expected ^ held)
        assert tally.records == effective + unknown + late + tally.missing + tally.duplicates
        held, highest = expected, tally.order


def table(batch: list[tuple[str, str, int, int]], has_order: bool) -> pa.Table:
    columns = list(zip(*batch, strict=True)) or [(), (), (), ()]
    types = (pa.string(), pa.string(), pa.int64(), pa.int64())
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    names = ["op", "x", "n", "seq"]
    return pa.table(arrays if has_order else arrays[:3], names=names if has_order else names[:3])


def model(
    batch: list[tuple[str, str, int, int]], held: set[tuple[str, int]], highest: int | None, has_order: bool
) -> tuple[int, set[tuple[str, int]]]:
    """How many records are late, and what there is after the others, one by one."""
    known = [record for record in batch if record[0] in KNOWN]
    late = [record for record in known if has_order and highest is not None and record[3] < highest]
    taken = [record for record in known if record not in late]
    found = set(held)
    for operation, x, n, _ in sorted(taken, key=lambda record: record[3]) if has_order else taken:
        if operation in ("+", "insert", "add"):
            found.add((x, n))
        else:
            found.discard((x, n))
    return len(late), found


def rows(some: Rows, reasoner: tl.Reasoner) -> set[tuple[object, ...]]:
    return set(Relation("p", ("x", "n"), some.columns, some.count, reasoner.engine.storage.dictionary))


TIMED = st.tuples(st.sampled_from("+-"), st.sampled_from("ab"), st.integers(0, 6), st.integers(0, 3))


@given(st.lists(st.lists(TIMED, max_size=7), max_size=3), st.booleans())
def test_records_with_times(batches: list[list[tuple[str, str, int, int]]], ignores_missing: bool) -> None:
    rules = "@timeline integer . p(a)@[1, 3] . q(?x) :- diamondminus[1, 1] p(?x) ."
    reasoner = tl.Reasoner(tl.parse(rules), threads=1)
    reasoner.materialise()
    stream = Stream(predicate="p", time=("start", "duration"))
    shape = RecordShape.of(stream, reasoner.program.predicates["p"], reasoner.program)
    held = {("a", time) for time in (1, 2, 3)}
    for batch in batches:
        faults = RejectedRows(OnError.SKIP)
        records = TimedRecords(reasoner.time, shape, reasoner.engine, faults, None, ignores_missing)
        take(records, timed_table(batch), shape)
        with reasoner.change(missing="ignore") as change:
            records.fill(change)
        duplicates, missing = apply_to(held, batch, ignores_missing)
        assert points(reasoner["p"]) == held
        assert points(reasoner["q"]) == {(name, time + 1) for name, time in held}
        tally = records.tally
        assert (tally.records, tally.duplicates, tally.missing) == (len(batch), duplicates, missing)
        assert faults.skipped == (0 if ignores_missing else missing)


def timed_table(batch: list[tuple[str, str, int, int]]) -> pa.Table:
    columns = list(zip(*batch, strict=True)) or [(), (), (), ()]
    types = (pa.string(), pa.string(), pa.int64(), pa.int64())
    arrays = [pa.array(column, kind) for column, kind in zip(columns, types, strict=True)]
    return pa.table(arrays, names=["op", "c1", "start", "duration"])


def take(records: Records, rows: pa.Table, shape: RecordShape) -> None:
    """Give records to what gathers them, the last one first, with the places where they stand."""
    for place in reversed(range(rows.num_rows)):
        one = rows.slice(place, 1)
        for batch in from_python(one, shape.types, shape.names, RejectedRows(OnError.FAIL)):
            records.gather(batch, np.array([[place // 4, place % 4]]))


def apply_to(
    held: set[tuple[str, int]], batch: list[tuple[str, str, int, int]], ignores_missing: bool
) -> tuple[int, int]:
    """Carry records out, one by one; how many were duplicates, and how many took away what is not there."""
    duplicates = missing = 0
    for sign, name, start, length in batch:
        said = {(name, time) for time in range(start, start + length + 1)}
        if sign == "+":
            duplicates += said <= held
            held |= said
        else:
            missing += not said <= held
            held -= said if said <= held or ignores_missing else set()
    return duplicates, missing


def points(relation: Relation) -> set[tuple[str, int]]:
    found = ((name, interval) for name, interval in relation)
    return {
        (name, time) for name, interval in found for time in range(int(interval.start), int(interval.end) + 1)
    }
