"""Facts with times as data: every format says the same, whatever the bounds are."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidelog as tl
from tidelog.__main__ import main

FACTS = 'p(a)@[0, 3) . p("say \\"b\\"")@(-inf, 1/3] . p(c)@[1/2, inf) . p(d)@(-inf, inf) .'


def written(folder: Path, text: str, form: str) -> Path:
    (folder / "facts.rls").write_text(f"{text}\nq(?x) :- p(?x) .")
    output = folder / "out"
    assert main(["run", str(folder / "facts.rls"), "-q", "--output", str(output), "--format", form]) == 0
    return output / f"q.{form}"


@pytest.mark.parametrize("form", ["json", "jsonl"])
def test_bounds_without_end_are_null(tmp_path: Path, form: str) -> None:
    text = written(tmp_path, FACTS, form).read_text()
    rows = json.loads(text) if form == "json" else [json.loads(line) for line in text.splitlines()]
    assert sorted(rows, key=lambda row: str(row["x"])) == [
        {"x": "a", "start": "0", "end": "3", "start_open": False, "end_open": True},
        {"x": "c", "start": "0.5", "end": None, "start_open": False, "end_open": True},
        {"x": "d", "start": None, "end": None, "start_open": True, "end_open": True},
        {"x": {"@value": 'say "b"'}, "start": None, "end": "1/3", "start_open": True, "end_open": False},
    ]


def test_both_bounds_have_one_type(tmp_path: Path) -> None:
    whole = pq.read_table(written(tmp_path, "p(a)@[0, 3) . p(b)@[1, inf) .", "parquet")).schema
    assert whole.field("start").type == whole.field("end").type == pa.int64()
    mixed = pq.read_table(written(tmp_path, FACTS, "parquet")).schema
    assert mixed.field("start").type == mixed.field("end").type == pa.string()


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ('p(a)@["2024-01-01", inf) . p(b)@"1970-01-01T00:00:00.5Z" .', pa.timestamp("us", "UTC")),
        ('p(a)@["2024-01-01", inf) . p(b)@[0, 1/3] .', pa.string()),
    ],
)
def test_date_times_are_one_type(text: str, kind: pa.DataType) -> None:
    table = tl.Reasoner(tl.parse(text))["p"].to_arrow()
    assert table.schema.field("start").type == table.schema.field("end").type == kind


def test_an_integer_timeline_has_closed_bounds() -> None:
    table = tl.Reasoner(tl.parse("@timeline integer . p(a)@(0, 4) ."))["p"].to_arrow().to_pylist()
    assert table == [{"c1": "a", "start": 1, "end": 3, "start_open": False, "end_open": False}]


@pytest.mark.parametrize(
    ("time", "holds"),
    [
        ("at 2", True),
        ("at 1", False),
        ("during [0, 1]", False),
        ("during [0, 1)", False),
        ("during (1, 2)", True),
        ("during [3, 5]", False),
        ("during (2, inf)", True),
        ("during [-1, 9]", True),
        ("ever", True),
    ],
)
def test_what_holds_at_some_time(time: str, holds: bool) -> None:
    reasoner = tl.Reasoner(tl.parse("p(a)@(1, 3) . q(b)@0 ."))
    assert len(reasoner.query(f"p(?x) {time}")) == holds
    assert len(reasoner.query(f"q(?x) {time}, p(?x)")) == 0


def test_an_atom_without_facts_leaves_no_answers() -> None:
    reasoner = tl.Reasoner(tl.parse("p(a)@[0, 2] . q(?x) :- diamondminus[0, 1] p(?x), r(?x) . r(b)@1 ."))
    assert len(reasoner.query("q(?x), p(?y)")) == 0
    assert len(reasoner.query("q(?x), diamondminus[0, 1] p(?y), ~r(?y)")) == 0


@pytest.mark.parametrize("form", ["parquet", "arrow", "json", "jsonl"])
@pytest.mark.parametrize(
    "text", [FACTS, "p(a)@[0, 3) . p(b)@(-inf, 4] .", 'p(a)@["2024-05-01T08:00:00.25Z", inf) .']
)
def test_bounds_without_end_come_back(tmp_path: Path, form: str, text: str) -> None:
    path = written(tmp_path, text, form)
    option = "time = (start, end, start_open, end_open)"
    again = f'@declare q(x: any) . @import q :- {form}{{ resource = "{path}", {option} }} .'
    stated, read = (tl.Reasoner(tl.parse(each)) for each in (text, again))
    assert [tuple(map(str, row)) for row in read["q"].sorted()] == [
        tuple(map(str, row)) for row in stated["p"].sorted()
    ]
