"""Changes that come as tables, in numbered batches, on a store: what streams of Spark do, without Spark."""

from __future__ import annotations

import contextlib
import shutil
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn

import tidelog as tl
from tests.changes.oracle import Row, State, changed, difference, held
from tests.strategies import EVERYTHING, Case, cases, distinct
from tidelog.data.typed_columns import EXACT
from tidelog.io.rejects import OnError, RejectedRows
from tidelog.logic.types import Type
from tidelog.logic.values import ColumnType
from tidelog.spark import table_changes as tables
from tidelog.spark.table_changes import OPERATIONS, ChangeColumns
from tidelog.store.forms import BatchId

Said = tuple[str, Row, str, int]  # predicate, row, operation, order
NOTHING, CRASH, CLOSE, REPEAT, REFUSE = "nothing", "crash", "close", "repeat", "refuse"


@dataclass(frozen=True)
class Batches:
    """A program, the rows of each batch, and what happens around it."""

    case: Case
    batches: tuple[tuple[tuple[Said, ...], frozenset[str]], ...]


@st.composite
def streams(draw: DrawFn) -> Batches:
    """A program, and batches that say anything of facts: twice, in contradiction, or of facts not there."""
    case = distinct(draw(cases(EVERYTHING)))
    constant = st.sampled_from(EVERYTHING.constants)
    names = st.sampled_from(sorted(case.arities))
    fact = names.flatmap(lambda name: st.tuples(st.just(name), st.tuples(*[constant] * case.arities[name])))
    stated = [(name, row) for name, rows in case.facts.items() for row in rows]
    known = st.sampled_from(stated) if stated else fact
    few = draw(st.lists(st.one_of(fact, known, known), min_size=2, max_size=4))  # so that they meet
    operation = st.sampled_from(sorted(OPERATIONS))
    said = st.tuples(st.sampled_from(few), operation, st.integers(0, 2)).map(
        lambda each: (*each[0], *each[1:])
    )
    events = st.frozensets(st.sampled_from([CRASH, CLOSE, REPEAT, REFUSE]), max_size=2)
    batches = st.lists(st.tuples(st.lists(said, max_size=6).map(tuple), events), min_size=1, max_size=4)
    return Batches(case, tuple(draw(batches)))


def expected(facts: set[tuple[str, Row]], batch: tuple[Said, ...]) -> None:
    """Let the facts be what they should be after a batch."""
    last: dict[tuple[str, Row], tuple[int, bool]] = {}
    for name, row, operation, order in batch:
        word = order, OPERATIONS[operation]
        last[name, row] = max(last.get((name, row), word), word)
    for fact, (_, comes) in last.items():
        (facts.add if comes else facts.discard)(fact)


def sources(case: Case, batch: tuple[Said, ...]) -> list[tuple[ChangeColumns, list[pa.Table]]]:
    """The batch as tables of exact terms, one for each predicate, in pieces."""
    found = []
    for name, arity in case.arities.items():
        rows = [(*row, operation, order) for other, row, operation, order in batch if other == name]
        columns = [*(f"c{place}" for place in range(arity)), "op", "order"]
        types = [*[pa.string()] * (arity + 1), pa.int64()]
        schema = pa.schema(list(zip(columns, types, strict=True)))
        pieces = [[rows[0]], rows[1:]] if rows else []
        made = [
            pa.Table.from_arrays(list(map(pa.array, zip(*piece, strict=True), types)), schema=schema)
            for piece in pieces
            if piece
        ]
        found.append(
            (ChangeColumns(name, (ColumnType.TERM,) * arity, f"`{name}`", None, has_order=True), made)
        )
    return found


@given(stream=streams())
def test_batches_are_like_starting_anew_whatever_happens_between(stream: Batches) -> None:
    state = State(
        stream.case.arities,
        {(name, row) for name, rows in stream.case.facts.items() for row in rows},
        set(stream.case.rules),
    )
    names = list(state.arities)
    program = tl.parse(state.text)
    with tempfile.TemporaryDirectory() as folder, contextlib.ExitStack() as ending:
        path = Path(folder) / "store"
        ending.callback(lambda: tables.close(path))
        before = state.expected()
        for number, (batch, events) in enumerate(stream.batches):
            expected(state.facts, batch)
            after = state.expected()
            if REFUSE in events:
                with pytest.raises(ZeroDivisionError):
                    send(path, program, stream.case, batch, number, refuse)
                assert held(tables.open_or_reuse(path, program, {}).reasoner, names) == before
            published: list[tl.Delta] = []
            delta = send(path, program, stream.case, batch, number, published.append)
            assert delta is not None
            assert changed(delta, names) == difference(before, after)
            assert [changed(each, names) for each in published] == [difference(before, after)]
            if CRASH in events:
                tables.discard(path)
            if CLOSE in events:
                tables.close(path)
            if REPEAT in events:
                assert send(path, program, stream.case, batch, number, refuse) is None
            assert held(tables.open_or_reuse(path, program, {}).reasoner, names) == after
            before = after
        for number in range(len(stream.batches) - 1):
            with pytest.raises(tl.DataError, match="E839"):
                send(path, program, stream.case, (), number, refuse)


def send(
    path: Path, program: tl.Program, case: Case, batch: tuple[Said, ...], number: int, publish: tables.Publish
) -> tl.Delta | None:
    """Apply a batch to the store in a folder."""
    reasoner = tables.open_or_reuse(path, program, {"threads": 1}).reasoner
    named = BatchId("app", number)
    faults = RejectedRows(OnError.FAIL)
    return tables.apply_changes(reasoner, sources(case, batch), named, "ignore", faults, publish)


def refuse(delta: tl.Delta) -> None:
    """Fail to publish."""
    raise ZeroDivisionError


# ---- single cases

FLIGHTS = """
@declare flight(src: string, dst: string, km: int) .
reach(?x, ?y) :- flight(?x, ?y, _) .
reach(?x, ?z) :- reach(?x, ?y), flight(?y, ?z, _) .
"""
FLIGHT = ChangeColumns("flight", (ColumnType.STRING, ColumnType.STRING, ColumnType.INTEGER), "`flight`")


@pytest.fixture
def path(tmp_path: Path) -> Iterator[Path]:
    """The folder of a store that is closed after the test."""
    yield tmp_path / "store"
    tables.close(tmp_path / "store")


def flights(*rows: tuple[object, ...]) -> pa.Table:
    """A table of flights, each with an operation."""
    names = ["src", "dst", "km", "op"]
    columns = [pa.array(each, pa.string()) for each in zip(*rows, strict=True)]
    return pa.Table.from_arrays(columns, names=names)


def apply(
    path: Path, *rows: tuple[object, ...], on_error: str = "fail", text: str = FLIGHTS
) -> tables.RejectedChanges:
    """Apply flights to a store; the faults."""
    faults = tables.RejectedChanges(OnError(on_error))
    reasoner = tables.open_or_reuse(path, tl.parse(text), {"threads": 1}).reasoner
    tables.apply_changes(reasoner, [(FLIGHT, [flights(*rows)])], None, "ignore", faults)
    return faults


def test_rows_that_cannot_be_read_are_rejected_and_others_keep_their_operation(path: Path) -> None:
    apply(path, ("a", "b", "1", "+"), ("b", "c", "2", " INSERT "))
    faults = apply(
        path,
        ("a", "b", "x", "-"),  # no number
        ("a", "b", "1", None),
        ("a", "b", "1", "upsert"),
        ("c", None, "3", "+"),
        ("b", "c", "2", "-"),
        ("c", "d", "3", "+"),
        on_error="collect",
    )
    assert [(place, code, row) for place, code, _, row in faults.collected] == [
        ("`flight`", "E877", '["a", "b", "1", null]'),
        ("`flight`", "E877", '["a", "b", "1", "upsert"]'),
        ("`flight`", "E504", '["c", null, "3"]'),
        ("`flight`", "E504", '["a", "b", "x"]'),
    ]
    reasoner = tables.open_or_reuse(path, tl.parse(FLIGHTS), {}).reasoner
    assert set(reasoner["flight"]) == {("a", "b", 1), ("c", "d", 3)}
    with pytest.raises(tl.DataError, match="E877"):
        apply(path, ("a", "b", "1", "-"), ("a", "b", "1", "upsert"))
    assert len(reasoner["flight"]) == 2


def test_a_store_that_is_deleted_or_replaced_is_noticed(path: Path, tmp_path: Path) -> None:
    apply(path, ("a", "b", "1", "+"))
    tables.close(path)
    copy = shutil.copytree(path, tmp_path / "copy")
    apply(path, ("b", "c", "1", "+"))
    shutil.rmtree(path)
    apply(path, ("x", "y", "1", "+"))
    assert set(tables.open_or_reuse(path, tl.parse(FLIGHTS), {}).reasoner["reach"]) == {("x", "y")}
    shutil.rmtree(path)
    copy.rename(path)
    apply(path, ("b", "d", "1", "+"))
    assert len(tables.open_or_reuse(path, tl.parse(FLIGHTS), {}).reasoner["reach"]) == 3


def test_another_program_changes_the_rules(path: Path) -> None:
    apply(path, ("a", "b", "1", "+"))
    apply(path, ("b", "c", "1", "+"), text=FLIGHTS + "back(?y, ?x) :- reach(?x, ?y) .")
    tables.close(path)
    with tl.open(path) as reasoner:
        assert len(reasoner["back"]) == 3


def test_a_first_batch_that_fails_leaves_no_store(path: Path) -> None:
    constraint = FLIGHTS + "bottom() :- reach(?x, ?x) ."
    with pytest.raises(tl.Inconsistent):
        apply(path, ("a", "a", "1", "+"), text=constraint)
    assert not path.exists()
    apply(path, ("a", "b", "1", "+"), text=constraint)
    assert (path / "superblock.tide").exists()


def test_stores_lie_on_disks(tmp_path: Path) -> None:
    for address in ("s3://bucket/net", "s3a://bucket/net", "hdfs://host/net", "dbfs:/net", "abfss://c@a/net"):
        with pytest.raises(tl.DataError, match="E875"):
            tables.local_path(address)
    spaced = tmp_path / "my store"
    assert tables.local_path(spaced.as_uri()) == tables.local_path(str(spaced)) == spaced


VALUES = (
    "a",
    '"a"',
    "5",
    '"5"',
    "5.0",
    "5.5",
    "5e0",
    '"x"@en',
    "true",
    '"2024-01-01"^^xsd:date',
    "<a:b>",
)
READINGS = (
    *((of, None) for of in (ColumnType.STRING, ColumnType.ANY, ColumnType.IRI, ColumnType.INTEGER)),
    (ColumnType.INTEGER, frozenset({Type.INTEGER})),
    (ColumnType.ANY, frozenset({Type.INTEGER})),
    (ColumnType.DECIMAL, frozenset({Type.DECIMAL})),
    (ColumnType.DECIMAL, EXACT),
    (ColumnType.DOUBLE, frozenset({Type.DOUBLE})),
)


@given(rows=st.sets(st.sampled_from(VALUES), max_size=8), how=st.sampled_from(READINGS))
def test_facts_as_rows_are_read_as_the_same_facts(
    rows: set[str], how: tuple[ColumnType, frozenset[Type] | None]
) -> None:
    read_as, typed = how
    prefix = "@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .\n"
    text = prefix + "".join(f"p({each}) .\n" for each in rows) + "q(?x) :- p(?x) ."
    with tempfile.TemporaryDirectory() as folder:
        reasoner = tl.open(f"{folder}/store", text, threads=1)
        shape = ChangeColumns("p", (read_as,), "`p`", inserts=False)
        table, others = tables.representable(reasoner, shape, [typed])
        assert table.num_rows + others.count == len(rows)
        # Deleting what is listed as rows, and the others, deletes all of it, and nothing is unknown.
        delta = tables.apply_changes(
            reasoner, [(shape, [table])], None, "error", RejectedRows(OnError.FAIL), None, {"p": others}
        )
        assert delta is not None and delta.removed == 2 * len(rows) and not len(reasoner["p"])
        reasoner.close()
