"""Records of streams against a model: one record after the other, in a set."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidelog as tl
from tidelog.io.faults import Faults, OnError
from tidelog.maintenance.maintainer import Rows
from tidelog.pipeline.records import Records, Shape
from tidelog.pipeline.settings import Stream
from tidelog.relation import Relation

pytestmark = pytest.mark.usefixtures("kernels")

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
    shape = Shape.of(stream, reasoner.program.predicates["p"], reasoner.program)
    held = {("a", 0)}
    highest: str | None = None
    for batch in batches:
        faults = Faults(OnError.SKIP)
        records = Records(shape, reasoner.engine, faults, highest)
        records.take_frame(table(batch, has_order))
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
    return set(Relation("p", ("x", "n"), some.columns, some.count, reasoner.engine.dictionary))
