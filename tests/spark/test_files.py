"""Files that a program imports on Spark: those of the same form are read in one scan, with the same rows."""

from __future__ import annotations

import io
from contextlib import redirect_stdout
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidelog as tl
from tidelog.logic.resolve import program_of
from tidelog.spark.files import read_program

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
    given, frames = read_program(program_of(path), session, [], None, {})
    groups = [names for names, _ in frames.groups]
    assert groups == [("a.tsv", "b.tsv", "c.tsv"), ("f.tsv", "g.tsv"), ("city.parquet", "town.parquet")]
    derived = given.derive(frames, None, "collect", "fail", given.choose(frames, None, None))
    # Three of several files; each of `again`, `elsewhere`, `spaced`, `skipping` and `few` alone.
    assert scans(derived["every"]) == 3 + 5
    rows = {tuple(row) for row in derived["every"].collect()}
    assert rows == {tuple(map(str, row)) for row in tl.Reasoner(path)["every"]}
    assert ("a", "x", "5") in rows and ("again", "x", "0") in rows  # of two files, and one file again
    assert [tuple(row) for row in derived.nulls.collect()] == [("b", "c2", "drop-row", 1)]


def test_a_query_reads_only_the_files_that_it_needs(folder: Path, spark: SparkSession) -> None:
    text = """
        @import a :- tsv{ resource = "a.tsv", format = (string, int) } .
        @import c :- tsv{ resource = "more/c.tsv", format = (string, int) } .
        p(?x) :- a(?x, _) .
        q(?x) :- c(?x, _) .
    """
    (folder / "two.rls").write_text(text)
    given, frames = read_program(program_of(folder / "two.rls"), spark, [], None, {})
    assert len(frames.groups) == 1
    (folder / "more" / "c.tsv").write_text("x\tno number\n")
    answers = given.query(frames, "p(?x)", "fail")["answers"]
    assert {row.x for row in answers.collect()} == {"x", "\u00fc"}


def test_rows_that_cannot_be_read_are_told_by_predicate(folder: Path, spark: SparkSession) -> None:
    (folder / "b.tsv").write_text("x\tno number\n")
    text = """
        @import a :- tsv{ resource = "a.tsv", format = (string, int) } .
        @import b :- tsv{ resource = "b.tsv", format = (string, int) } .
        p(?x) :- a(?x, _), ~b(?x, ?x) .
    """
    (folder / "two.rls").write_text(text)
    given, frames = read_program(program_of(folder / "two.rls"), spark, [], None, {})
    derived = given.derive(frames, None, "collect", "fail")
    assert [(row.place, row.code, row.row) for row in derived.rejects.collect()] == [
        ("b", "E504", '["x", "no number"]')
    ]
    assert {row.x for row in derived["p"].collect()} == {"x", "\u00fc"}


def test_what_no_rule_reads_stays_outside_of_tasks(folder: Path, spark: SparkSession) -> None:
    text = """
        @import city :- parquet{ resource = "city.parquet" } .
        @import town :- parquet{ resource = "town.parquet" } .
        @declare city(name: string, size: int) .
        @declare town(name: string, size: int) .
        @output city, town .
    """
    (folder / "two.rls").write_text(text)
    given, frames = read_program(program_of(folder / "two.rls"), spark, [], None, {})
    assert not frames.groups
    derived = given.derive(frames, None, "fail", "fail")
    with redirect_stdout(io.StringIO()) as printed:
        derived["town"].explain()
    assert "mapInArrow" not in printed.getvalue() and "MapInArrow" not in printed.getvalue()
    assert [tuple(row) for row in derived["town"].collect()] == [("town", 3)]
