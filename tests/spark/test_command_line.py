"""`tidelog run` and `query` with `--engine spark`: what is read and written without it."""

from __future__ import annotations

import csv
import io
import re
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

from tidelog.__main__ import main

PROGRAM = """
@declare sale(who: string, price: decimal, day: date) .
@import sale :- csv{ resource = "sale.csv", header = true } .
@import code :- tsv{ resource = "code.tsv", format = (any, skip, int), ignore_headers = true } .
@import city :- parquet{ resource = "city.parquet" } .
@import visit :- jsonl{ resource = "visit.jsonl" } .
@declare city(name: string, size: int) .
@declare visit(who: string, city: string) .
@declare spent(who: string, total: decimal) .
@declare seen(who: string, size: int) .
spent(?who, #sum(?price, ?day)) :- sale(?who, ?price, ?day) .
seen(?who, ?size) :- visit(?who, ?city), city(?city, ?size) .
coded(?x, ?n) :- code(?x, ?n), ?n > 1 .
@export seen :- csv{ resource = "seen" } .
@output spent, coded .
?- seen(?who, 7) .
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "program.rls").write_text(PROGRAM)
    sales = 'who,day,price\n"a, b",2024-01-01,1.50\n"say ""hi""",2024-01-02,2\n"",2024-01-02,3\n'
    (tmp_path / "sale.csv").write_text(sales)  # its columns are found by their names
    (tmp_path / "code.tsv").write_text('x\tleft out\tn\nalice\t?\t2\n12\t?\t3\n"q"\t?\t1\n')
    pq.write_table(pa.table({"size": [7, 9], "name": ["x", "y"]}), tmp_path / "city.parquet")
    (tmp_path / "visit.jsonl").write_text('{"who": "a", "city": "x"}\n{"who": "b", "city": "y"}\n')
    return tmp_path


def rows_in(folder: Path) -> tuple[list[str], set[tuple[str, ...]]]:
    """The header and the rows of all files of a folder, or of one file."""
    files = sorted(folder.glob("*.csv")) if folder.is_dir() else [folder]
    header: list[str] = []
    rows: set[tuple[str, ...]] = set()
    for file in files:
        header, *found = csv.reader(io.StringIO(file.read_text()))
        rows |= {tuple(map(plain, row)) for row in found}
    return header, rows


def plain(text: str) -> str:
    """A decimal without its zeros, of which Spark writes as many as the type has places."""
    return text.rstrip("0").rstrip(".") if re.fullmatch(r"\d+\.\d+", text) else text


@pytest.mark.usefixtures("spark")
def test_files_are_those_that_are_written_without_spark(
    folder: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    program, formatted = str(folder / "program.rls"), ("--format", "csv", "--quiet")
    assert main(["run", program, "--output", str(folder / "here"), *formatted]) == 0
    here = capfd.readouterr().out
    assert main(["run", program, "--output", str(folder / "there"), "--engine", "spark", *formatted]) == 0
    assert capfd.readouterr().out == here
    assert rows_in(folder / "there" / "spent") == rows_in(folder / "here" / "spent.csv")
    assert rows_in(folder / "there" / "coded") == rows_in(folder / "here" / "coded.csv")
    assert rows_in(folder / "there" / "seen") == rows_in(folder / "here" / "seen")
    assert main(["query", program, "coded(?x, 3)", "--engine", "spark", *formatted]) == 0
    assert capfd.readouterr().out == "x\n12\n"


@pytest.mark.usefixtures("spark")
def test_what_spark_does_not_do_is_told(folder: Path, capfd: pytest.CaptureFixture[str]) -> None:
    program = folder / "other.rls"
    program.write_text(
        '@declare p(x: int) . q(?x, ?x, ?x) :- p(?x) . @export q :- turtle{ resource = "q.ttl" } .'
    )
    for arguments, told in (
        (["run", str(program), "--engine", "spark"], "`turtle` is not a format that Spark writes"),
        (["run", str(program), "--engine", "spark", "--conf", "tidelog.x=1"], "unknown setting `tidelog.x`"),
        (["run", str(program), "--engine", "spark", "--watch"], "--watch cannot be used"),
        (["repl", str(program), "--engine", "spark"], "runs in this process"),
    ):
        assert main(arguments) != 0
        assert told in capfd.readouterr().err
    (folder / "dirty.rls").write_text(
        '@import p :- csv{ resource = "p.csv", format = (int) } . q(?x) :- p(?x) .'
    )
    (folder / "p.csv").write_text("1\nx\n")
    given: list[Any] = ["query", str(folder / "dirty.rls"), "q(?x)", "--engine", "spark"]
    assert main(given) == 1
    assert "error[E504]: 'x' is not an integer" in capfd.readouterr().err
    assert main([*given, "--on-error", "skip", "--format", "csv"]) == 0
    said = capfd.readouterr()
    assert (said.out, said.err) == ("x\n1\n", "skipped 1 row that could not be read\n")
    kept = folder / "kept.csv"
    assert main(["run", *given[1:2], *given[3:], "--rejects", str(kept), "--format", "csv"]) == 0
    assert f"skipped 1 row that could not be read; see {kept}" in capfd.readouterr().err
    assert "/p.csv:2:1,E504,'x' is not an integer,x\n" in kept.read_text()
