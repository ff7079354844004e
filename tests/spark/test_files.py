"""Files that a program imports on Spark: those of the same form are read in one scan, with the same rows."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterable
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidelog as tl
from tidelog.io.rejects import OnError
from tidelog.logic.resolve import program_of
from tidelog.pipeline import Job
from tidelog.spark.reading.folders import read_program
from tidelog.spark.shipping import translated_errors
from tidelog.spark.stages import needed_for, parse_query

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

PROGRAM = """
@import a :- tsv{ resource = "a.tsv", format = (string, int) } .
@import b :- tsv{ resource = "b.tsv", format = (string, int), nulls = "drop-row" } .
@import again :- tsv{ resource = "a.tsv", format = (string, string) } .
@import elsewhere :- tsv{ resource = "more/a.tsv", format = (string, int) } .
@import a :- tsv{ resource = "more/c.tsv", format = (string, int) } .
@import spaced :- tsv{ resource = "with [space].tsv", format = (string, int) } .
@import skipping :- tsv{ resource = "d.tsv", format = (skip, int) } .
@import few :- tsv{ resource = "e.tsv", format = (string, int), limit = 1 } .
@import headed :- tsv{ resource = "f.tsv", format = (string, int), ignore_headers = true } .
@import topped :- tsv{ resource = "g.tsv", format = (string, int), ignore_headers = true } .
@import city :- parquet{ resource = "city.parquet" } .
@import town :- parquet{ resource = "town.parquet" } .
@declare city(name: string, size: int) .
@declare town(name: string, size: int) .
every(a, ?x, ?y) :- a(?x, ?y) .
every(b, ?x, ?y) :- b(?x, ?y) .
every(again, ?x, ?y) :- again(?x, ?y) .
every(elsewhere, ?x, ?y) :- elsewhere(?x, ?y) .
every(spaced, ?x, ?y) :- spaced(?x, ?y) .
every(skipping, "", ?y) :- skipping(?y) .
every(few, ?x, ?y) :- few(?x, ?y) .
every(headed, ?x, ?y) :- headed(?x, ?y) .
every(topped, ?x, ?y) :- topped(?x, ?y) .
every(city, ?x, ?y) :- city(?x, ?y) .
every(town, ?x, ?y) :- town(?x, ?y) .
@output every .
"""


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    (tmp_path / "more").mkdir()
    for number, name in enumerate(("a", "b", "d", "e", "more/a", "more/c", "with [space]")):
        (tmp_path / f"{name}.tsv").write_text(f"x\t{number}\n\u00fc\t{number + 10}\n")
    (tmp_path / "b.tsv").write_text("x\t7\ny\t\n")
    for name in ("f", "g"):
        (tmp_path / f"{name}.tsv").write_text(f"one\ttwo\n{name}\t5\n")
    for name in ("city", "town"):
        pq.write_table(pa.table({"name": [name], "size": [3]}), tmp_path / f"{name}.parquet")
    (tmp_path / "program.rls").write_text(PROGRAM)
    return tmp_path


def scans(frame: Any) -> int:
    """Return how many scans of files there are in the plan of a frame."""
    with redirect_stdout(io.StringIO()) as printed:
        frame.explain()
    return printed.getvalue().count("FileScan")


def test_files_of_one_form_are_read_in_one_scan(folder: Path, session: SparkSession) -> None:
    path = folder / "program.rls"
    read = read_program(program_of(path), session, [], None, {})
    bound, frames = read.bound, read.frames
    groups = [[Path(name).name for name in names] for names, _ in frames.groups]
    assert groups == [
        ["a.tsv", "a.tsv", "c.tsv", "with%20%5Bspace%5D.tsv"],
        ["f.tsv", "g.tsv"],
        ["city.parquet", "town.parquet"],
    ]
    derived = bound.derive(frames, None, "collect", "fail", bound.choose(frames, None, None))
    # Three of several files; `b`, `again` and `skipping` alone. A task reads the first row of `few`.
    assert scans(derived["every"]) == 3 + 3
    rows = {tuple(row) for row in derived["every"].collect()}
    assert rows == {tuple(map(str, row)) for row in tl.Reasoner(path)["every"]}
    assert ("a", "x", "5") in rows and ("again", "x", "0") in rows  # of two files, and one file again
    assert list(read.left_out()) == [("b.tsv", "c2", 1)]


def test_a_query_reads_only_the_files_that_it_needs(folder: Path, spark: SparkSession) -> None:
    text = """
        @import a :- tsv{ resource = "a.tsv", format = (string, int) } .
        @import c :- tsv{ resource = "more/c.tsv", format = (string, int) } .
        p(?x) :- a(?x, _) .
        q(?x) :- c(?x, _) .
    """
    (folder / "two.rls").write_text(text)
    (folder / "more" / "c.tsv").write_text("x\tno number\n")
    program = program_of(folder / "two.rls")
    needed = needed_for(parse_query("p(?x)", program), program)
    read = read_program(program, spark, [], None, {}, needed=needed)
    answers = read.bound.query(read.frames, "p(?x)", "fail")["answers"]
    assert {row.x for row in answers.collect()} == {"x", "\u00fc"}


def test_rows_that_cannot_be_read_are_told_by_file_and_line(folder: Path, spark: SparkSession) -> None:
    (folder / "b.tsv").write_text("x\t1\nx\tno number\n")
    text = """
        @import a :- tsv{ resource = "a.tsv", format = (string, int) } .
        @import b :- tsv{ resource = "b.tsv", format = (string, int) } .
        p(?x) :- a(?x, _), ~b(?x, ?x) .
    """
    (folder / "two.rls").write_text(text)
    read = read_program(program_of(folder / "two.rls"), spark, [], None, {}, OnError.COLLECT)
    assert len(read.frames.groups) == 1
    derived = read.bound.derive(read.frames, None, "collect", "fail")
    with derived.persist():
        assert {row.x for row in derived["p"].collect()} == {"x", "\u00fc"}
        told = [(row.diagnostic.place, row.diagnostic.code, row.text) for row in read.rejects()]
    assert told == [("b.tsv:2:2", "E504", "x\tno number")]
    read = read_program(program_of(folder / "two.rls"), spark, [], None, {})
    with pytest.raises(tl.DataError, match=r"E504.*no number") as raised, read.rejecting():
        read.bound.derive(read.frames, None, "fail", "fail")["p"].collect()
    assert [each.place for each in raised.value.diagnostics] == ["b.tsv:2:2"]


def test_what_no_rule_reads_stays_outside_of_tasks(folder: Path, spark: SparkSession) -> None:
    text = """
        @import city :- parquet{ resource = "city.parquet" } .
        @import town :- parquet{ resource = "town.parquet" } .
        @declare city(name: string, size: int) .
        @declare town(name: string, size: int) .
        @output city, town .
    """
    (folder / "two.rls").write_text(text)
    read = read_program(program_of(folder / "two.rls"), spark, [], None, {})
    assert not read.frames.groups
    derived = read.bound.derive(read.frames, None, "fail", "fail")
    with redirect_stdout(io.StringIO()) as printed:
        derived["town"].explain()
    assert "mapInArrow" not in printed.getvalue() and "MapInArrow" not in printed.getvalue()
    assert [tuple(row) for row in derived["town"].collect()] == [("town", 3)]


# How files may be imported: what their lines are, what is declared, and the options of the import.
LINES = {
    "plain": "x,1,2020-01-01\ny,2,2021-01-01\n",
    "headed": "name,size,day\nx,1,2020-01-01\ny,2,2021-01-01\n",
    "turned": "size,day,name\n1,2020-01-01,x\n2,2021-01-01,y\n",
    "odd": '"a" ,1,2020-01-01\n"b"c,2,2021-01-01\n  ,3,2022-01-01\n"d\ne",4,2023-01-01\n',
    "blank": "x,,2020-01-01\n,2,2021-01-01\ny,2,\n",
}
DECLARED = "@declare p(name: string, size: int, day: date) ."
UNDECLARED = "q(?x, ?y, ?z) :- p(?x, ?y, ?z) ."
TEXTS = "@declare p(name: string, size: string, day: string) ."
IMPORTS = [
    ("headed", DECLARED, "header = true"),
    ("turned", "@declare p(name: int, size: date, day: string) .", "ignore_headers = true"),
    ("odd", DECLARED, ""),
    ("blank", DECLARED, "nulls = (value, drop_row, value)"),
]
MORE_IMPORTS = [
    ("plain", DECLARED, ""),
    ("plain", UNDECLARED, ""),
    ("plain", UNDECLARED, "format = (string, int, date)"),
    ("plain", "@declare p(name: string, size: int) .", "format = (string, int, skip)"),
    ("plain", DECLARED, "limit = 1"),
    ("headed", DECLARED, "ignore_headers = true"),
    ("headed", UNDECLARED, "ignore_headers = true"),
    ("turned", DECLARED, "header = true"),
    ("turned", "@declare p(size: int, day: date, name: string) .", "header = true"),
    ("odd", TEXTS, "quoting = false"),
    ("odd", UNDECLARED, ""),
    ("blank", TEXTS, ""),
    ("blank", DECLARED, 'nulls = "drop-row"'),
    ("blank", DECLARED, "nulls = value"),
]


def outcome(reasoner: Callable[[], Any]) -> Any:
    """Return facts, or what is wrong with the data and where."""
    try:
        return reasoner()
    except tl.TidelogError as error:
        return [(each.code, each.place) for each in error.diagnostics]


@pytest.mark.parametrize(
    ("lines", "declared", "options"),
    [*IMPORTS, *(pytest.param(*each, marks=pytest.mark.slow) for each in MORE_IMPORTS)],
)
def test_imports_are_read_as_without_spark(
    folder: Path, spark: SparkSession, lines: str, declared: str, options: str
) -> None:
    """Facts are the same, on the command line and in a job, and so is what is wrong with rows, and where."""
    (folder / "p.csv").write_text(LINES[lines])
    path = folder / "import.rls"
    options = f", {options}" if options else ""
    path.write_text(f'{declared} @import p :- csv{{ resource = "p.csv"{options} }} . @output p .')

    def embedded() -> Any:
        return texts(tl.Reasoner(path)["p"].to_arrow().to_pylist())

    def on_spark() -> Any:
        read = read_program(program_of(path), spark, [], None, {})
        with translated_errors(), read.rejecting():
            frame = read.bound.derive(read.frames, None, "fail", "fail")["p"]
            return texts(row.asDict() for row in frame.collect())

    def in_a_job(engine: str) -> Any:
        session = spark if engine == "spark" else None
        publish = str(folder / engine)
        job = Job(program_of(path), publish=publish, folder=folder, engine=engine, session=session)
        return texts(job.store.read("p", job.run().version.version).to_pylist())

    expected = outcome(embedded)
    assert outcome(on_spark) == expected
    if isinstance(expected, set):
        assert in_a_job("spark") == in_a_job("columnar")


def texts(rows: Iterable[dict[str, Any]]) -> set[tuple[tuple[str, str], ...]]:
    return {tuple((name, str(value)) for name, value in row.items()) for row in rows}
