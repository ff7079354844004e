"""Facts with times in and out: Python, Arrow, CSV, Parquet and JSON, and what is said of bad ones."""

from __future__ import annotations

from pathlib import Path

import pyarrow as pa
import pyarrow.parquet
import pytest

import tidelog as tl
from tidelog.errors import DataError, EvaluationError

RULE = "alarm(?s) :- boxminus[0, 5] hot(?s) ."


def rows(relation: tl.Relation) -> list[str]:
    return [" ".join(map(str, row)) for row in relation.sorted()]


def test_rows_with_intervals_are_inserted_before_and_after_deriving() -> None:
    reasoner = tl.Reasoner(tl.parse(RULE + " @declare hot(s: any) ."))
    assert reasoner.insert("hot", [("s1", "[0, 10)"), ("s2", tl.read_interval("[1/3, 6]"))]) == 2
    assert reasoner.program.timed == {"hot", "alarm"}
    assert rows(reasoner["alarm"]) == ["s1 [5, 10)", "s2 [16/3, 6]"]
    reasoner.insert("hot", [("s1", "[10, 20]")])
    assert rows(reasoner["alarm"]) == ["s1 [5, 20]", "s2 [16/3, 6]"]
    with reasoner.change() as change:
        change.delete("hot", [("s1", "[10, 20]")])
    assert rows(change.delta["alarm"].removed) == ["s1 [10, 20]"]


def test_arrow_tables_go_in_and_come_out() -> None:
    reasoner = tl.Reasoner(tl.parse(RULE))
    table = pa.table(
        {
            "s": ["a", "b"],
            "start": [0, 3],
            "end": [10, 4],
            "end_open": [True, False],
            "start_open": [False, False],
        }
    )
    reasoner.insert("hot", table)
    assert rows(reasoner["hot"]) == ["a [0, 10)", "b [3, 4]"]
    out = reasoner["hot"].sorted().to_arrow()
    assert out.column_names == ["c1", "start", "end", "start_open", "end_open"]
    again = tl.Reasoner(tl.parse(RULE))
    again.insert("hot", out)
    assert again["hot"] == reasoner["hot"]


def test_date_times_are_seconds_on_one_line() -> None:
    text = 'hot(a)@["2024-05-01T08:00:00Z", "2024-05-01T08:30:00Z"] . late(?s) :- boxminus[0, 20m] hot(?s) .'
    reasoner = tl.Reasoner(tl.parse(text))
    assert rows(reasoner["late"]) == ["a [2024-05-01T08:20:00Z, 2024-05-01T08:30:00Z]"]
    assert pa.types.is_timestamp(reasoner["late"].to_arrow().schema.field("start").type)


@pytest.mark.parametrize(
    ("name", "option", "content"),
    [
        ("hot.csv", "interval", 'a,"[0, 10)"\nb,"(1.5, inf)"\n'),
        ("hot.csv", "(start, end, start_open, end_open)", "a,0,10,false,true\nb,1.5,inf,true,true\n"),
    ],
)
def test_imports(tmp_path: Path, name: str, option: str, content: str) -> None:
    (tmp_path / name).write_text(content)
    text = f'@declare hot(s: any) . @import hot :- csv{{ resource = "{name}", time = {option} }} . {RULE}'
    reasoner = tl.Reasoner(tl.parse(text, folder=tmp_path))
    assert rows(reasoner["hot"]) == ["a [0, 10)", "b (1.5, inf)"]
    assert rows(reasoner["alarm"]) == ["a [5, 10)", "b (6.5, inf)"]


def test_parquet_is_imported(tmp_path: Path) -> None:
    table = pa.table({"s": ["a"], "start": [0], "end": [10]})
    pyarrow.parquet.write_table(table, tmp_path / "hot.parquet")
    text = '@declare hot(s: any) . @import hot :- parquet{ resource = "hot.parquet", time = (start, end) } .'
    reasoner = tl.Reasoner(tl.parse(text, folder=tmp_path))
    assert rows(reasoner["hot"]) == ["a [0, 10]"]


def test_a_bad_time_is_said(tmp_path: Path) -> None:
    (tmp_path / "hot.csv").write_text("a,soon\n")
    text = '@declare hot(s: any) . @import hot :- csv{ resource = "hot.csv", time = interval } .'
    with pytest.raises(DataError, match="soon"):
        tl.Reasoner(tl.parse(text, folder=tmp_path)).materialise()
    reasoner = tl.Reasoner(tl.parse(RULE))
    with pytest.raises(DataError, match="no time point"):
        reasoner.insert("hot", pa.table({"s": ["a"], "start": [3], "end": [1]}))


def test_scaling_that_leaves_64_bits_is_an_error() -> None:
    reasoner = tl.Reasoner(tl.parse(f"p(a)@[0, {2**55}] . p(b)@[0, 1/1000003] . q(?x) :- p(?x) ."))
    with pytest.raises(EvaluationError, match="64 bits"):
        reasoner.materialise()


@pytest.mark.parametrize(
    ("query", "expected"),
    [
        ("alarm(?s)", ["a [5, 10)", "b [7, 9]"]),
        ("alarm(?s)@?t", ["a [5, 10)", "b [7, 9]"]),
        ("alarm(?s)@[6, 8]", ["a"]),
        ("alarm(?s)@7", ["a", "b"]),
        ("alarm(?s)@[7, 9], hot(?s)@9.5", ["a"]),
        ("hot(?s), ~alarm(?s)", ["a [0, 5)", "b [2, 7)"]),
        ("diamondplus[0, 1] alarm(?s), hot(?s)@2", ["a [4, 10)", "b [6, 9]"]),
        ("hot(?s), ?s != a", ["b [2, 9]"]),
    ],
)
def test_queries(query: str, expected: list[str]) -> None:
    reasoner = tl.Reasoner(tl.parse(f"hot(a)@[0, 10) . hot(b)@[2, 9] . {RULE}"))
    answers = reasoner.query(query)
    assert rows(answers) == expected
    time = ("t",) if "?t" in query else ("interval",) if " " in expected[0] else ()
    assert answers.columns == ("s", *time)


def test_mixed_programs_hold_pointwise() -> None:
    text = """
        room(s1, kitchen) . room(s2, attic) . wing(kitchen, north) .
        in(?s, ?w) :- room(?s, ?r), wing(?r, ?w) .
        hot(s1)@[0, 10) . hot(s2)@[0, 3] .
        warm(?w) :- in(?s, ?w), hot(?s) .
        total(#count(?s)) :- room(?s, _) .
    """
    reasoner = tl.Reasoner(tl.parse(text))
    assert rows(reasoner["warm"]) == ["north [0, 10)"]
    assert rows(reasoner["in"]) == ["s1 north"]
    assert rows(reasoner["total"]) == ["2"]


def test_functions_and_comparisons_are_computed() -> None:
    text = """
        temp(a, 20)@[0, 3] . temp(a, 35)@(3, 5] . temp(b, 31)@[1, 2] .
        fahrenheit(?s, ?f) :- temp(?s, ?c), ?c > 30, ?f = ?c * 9 / 5 + 32 .
    """
    assert rows(tl.Reasoner(tl.parse(text))["fahrenheit"]) == ["a 95 (3, 5]", "b 87 [1, 2]"]


# ---- events with a duration, and bounds without end


@pytest.mark.parametrize(
    ("option", "content", "expected"),
    [
        ("(start, duration)", "a,0,5m\nb,1/3,1.5\n", ["a [0, 300]", "b [1/3, 11/6]"]),
        ("(start, duration, start_open, end_open)", "a,0,10,false,true\n", ["a [0, 10)"]),
        ("(start, duration)", "a,3,inf\nb,3,0\n", ["a [3, inf)", "b [3, 3]"]),
        ("start", "a,7\n", ["a [7, 7]"]),
        (
            "(start, duration)",
            "a,2024-05-01T08:00:00Z,30m\n",
            ["a [2024-05-01T08:00:00Z, 2024-05-01T08:30:00Z]"],
        ),
    ],
)
def test_events_last_for_a_time(tmp_path: Path, option: str, content: str, expected: list[str]) -> None:
    (tmp_path / "hot.csv").write_text(content)
    text = f'@declare hot(s: any) . @import hot :- csv{{ resource = "hot.csv", time = {option} }} .'
    assert rows(tl.Reasoner(tl.parse(text, folder=tmp_path))["hot"]) == expected


def test_what_lasts_less_than_no_time_is_an_error() -> None:
    reasoner = tl.Reasoner(tl.parse(RULE))
    with pytest.raises(DataError, match="no time point"):
        reasoner.insert("hot", pa.table({"s": ["a"], "start": [3], "duration": [-1]}))
    with pytest.raises(DataError, match="64 bits"):
        reasoner.insert("hot", pa.table({"s": ["a"], "start": [2**59], "duration": [2**60]}))


def test_arrow_has_durations_and_nulls() -> None:
    reasoner = tl.Reasoner(tl.parse(RULE))
    lengths = pa.array([1500, None], pa.duration("ms"))
    reasoner.insert("hot", pa.table({"s": ["a", "b"], "start": [1, 2], "duration": lengths}))
    reasoner.insert("hot", pa.table({"s": ["c", "d"], "start": [None, 4], "end": [3, None]}))
    assert rows(reasoner["hot"]) == ["a [1, 2.5]", "b [2, inf)", "c (-inf, 3]", "d [4, inf)"]
