"""Every example in the documentation does what it says."""

from __future__ import annotations

import doctest
import gzip
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import tidelog as tl
from tests.docs.blocks import PAGES, ROOT, Block, blocks, commands, links, matches, matches_timed
from tidelog.errors import SourceText
from tidelog.syntax.parser import parse
from tidelog.syntax.printer import print_document

SLOW_PAGES = [page for page in PAGES if any(block.is_slow for block in blocks(page))]
EXAMPLES = sorted((ROOT / "examples").rglob("*.rls"))


@pytest.fixture
def workplace(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A folder with the examples, in which commands run and scripts write."""
    shutil.copytree(ROOT / "examples", tmp_path / "examples")
    monkeypatch.chdir(tmp_path)
    binaries = str(Path(sys.executable).parent)
    monkeypatch.setenv("PATH", f"{binaries}{os.pathsep}{os.environ['PATH']}")
    monkeypatch.setenv("COLUMNS", "100")
    monkeypatch.setenv("NO_COLOR", "1")
    return tmp_path


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_page(page: Path, workplace: Path) -> None:
    check([block for block in blocks(page) if not block.is_slow])


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize("page", SLOW_PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_slow_page(page: Path, workplace: Path) -> None:
    check(blocks(page))


def check(page: list[Block]) -> None:
    """All blocks of a page do what they say."""
    names: dict[str, Any] = {"__name__": "__main__"}
    program = ""
    faults: list[str] = []
    for block in page:
        program = block.text if block.kind == "rls" else program
        faults += _faults(block, names, program)
    assert not faults, "\n\n".join(faults)


def _faults(block: Block, names: dict[str, Any], program: str) -> Iterator[str]:
    """What is wrong with a block; `names` are those of the page, `program` the last one before it."""
    match block.kind:
        case "python":
            yield from _python_faults(block, names)
        case "console":
            yield from _console_faults(block)
        case "rls":
            yield from _program_faults(block)
        case "facts":
            yield from _fact_faults(block, program)
        case "changes":
            yield from _change_faults(block, program)


def _python_faults(block: Block, names: dict[str, Any]) -> Iterator[str]:
    if ">>>" not in block.text:
        exec(compile(block.text, block.place, "exec"), names)
        return
    test = doctest.DocTestParser().get_doctest(block.text, names, block.place, block.place, 0)
    report: list[str] = []
    doctest.DocTestRunner(optionflags=doctest.REPORT_NDIFF).run(test, out=report.append, clear_globs=False)
    names.update(test.globs)
    if report:
        yield "".join(report)


def _console_faults(block: Block) -> Iterator[str]:
    for command, expected in commands(block.text):
        done = subprocess.run(
            ["bash", "-c", command],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=300,
            check=False,
        )
        output = "\n".join(line.rstrip() for line in done.stdout.splitlines())
        compare = matches_timed if block.argument == "timed" else matches
        if not compare(expected, output):
            yield f"{block.place}: $ {command}\n--- expected\n{expected}--- printed\n{output}"


def _program_faults(block: Block) -> Iterator[str]:
    try:
        program = tl.parse(block.text, name=block.place)
    except tl.ProgramError as error:
        codes = {diagnostic.code for diagnostic in error.diagnostics}
        if codes != {block.argument}:
            yield f"{block.place}: expected {block.argument or 'no error'}\n{error}"
    else:
        if block.argument and block.argument not in {item.code for item in program.warnings}:
            yield f"{block.place}: expected {block.argument}, found no such fault"


def _fact_faults(block: Block, program: str) -> Iterator[str]:
    expected = tl.Reasoner(tl.parse(block.text))
    reasoner = tl.Reasoner(tl.parse(program))
    for name in sorted({fact.predicate for fact in expected.program.facts}):
        if reasoner[name] != expected[name]:
            yield f"{block.place}: expected {expected[name]!r}\nderived {reasoner[name]!r}"


def _change_faults(block: Block, program: str) -> Iterator[str]:
    try:
        deltas = list(tl.Reasoner(tl.parse(program)).stream([block.text]))
    except tl.TidelogError as error:
        yield f"{block.place}: {error}"
    else:
        if not all(deltas):
            yield f"{block.place}: a transaction that changes nothing"


# ---- the programs in examples/


@pytest.mark.parametrize("path", EXAMPLES, ids=lambda path: path.name)
def test_example_program(path: Path) -> None:
    program = tl.load(path)
    assert not program.warnings
    text = path.read_text(encoding="utf-8")
    assert print_document(parse(SourceText(path.name, text))) == text
    reasoner = tl.Reasoner(program)
    assert all(reasoner[program.predicates[name].written] for name in program.outputs)


def test_flights_are_generated(workplace: Path) -> None:
    flights = workplace / "examples" / "graph" / "flights.csv"
    expected = flights.read_bytes()
    flights.unlink()
    subprocess.run([sys.executable, str(flights.with_name("generate.py"))], check=True)
    assert flights.read_bytes() == expected


def test_company_is_generated(workplace: Path) -> None:
    folder = workplace / "examples" / "company"
    expected = {path.name: gzip.decompress(path.read_bytes()) for path in folder.glob("*.csv.gz")}
    for name in expected:
        (folder / name).unlink()
    subprocess.run([sys.executable, str(folder / "make_company.py")], check=True)
    assert {path.name: gzip.decompress(path.read_bytes()) for path in folder.glob("*.csv.gz")} == expected


def test_demo(workplace: Path) -> None:
    done = subprocess.run(
        ["sh", "examples/demo.sh"], capture_output=True, text=True, timeout=300, check=False
    )
    assert done.returncode == 0, done.stderr
    for words in (
        r"derived +239,964 facts",
        r"joins Sales Oslo 3 +\+31 −5 +[\d.]+ m?s +[\d.]+ m?s\n",
        r"→ alarm: contractor Anouk Leroy, 5 confidential folders\n",
        r"superiors see all: deleted +\+0 −4,480 ",
        r"superiors see all: added again +\+4,480 −0 ",
        r" 2 answers in ",
        r"\nAnouk Leroy,Legal/Oslo/Contracts/2026\n",
    ):
        assert re.search(words, done.stdout), f"{words}\n{done.stdout}"
    assert "commit 10: +4,480 −0" in done.stderr
    assert (workplace / "output" / "plan.html").exists()


@pytest.mark.slow
def test_demo_on_spark(workplace: Path) -> None:
    done = subprocess.run(
        ["sh", "examples/spark/demo.sh"],
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=600,
        check=False,
    )
    assert done.returncode == 0, done.stdout
    for words in (
        r"\nSpark 4\.[\d.]+ on local\[\*\]\nread orders: 3 rows, 2 rejected\nderived 2 facts\npublished ",
        r"\norders/country=DE/monday\.csv:4:1,.*'three' is not an integer",
        r"\n0 +ann +1\.75\n1 +bob +7\.00\n",
        r"\nmaintained \+2 −1\npublished version 2: .* \(order \+1 −0, total \+1 −1\)",
        r'\n\+ order\(5, "bob", 0\.75, "FR"\) \.\n',
    ):
        assert re.search(words, done.stdout), f"{words}\n{done.stdout}"


# ---- what is generated, and what must be complete


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    missing = [link for link in links(page) if not (page.parent / link).exists()]
    assert not missing


def test_generated_parts_are_fresh() -> None:
    subprocess.run([sys.executable, str(ROOT / "docs" / "renew.py"), "--check"], check=True)


def test_readme_begins_with_two_commands() -> None:
    first = next(block for block in blocks(ROOT / "README.md") if block.kind == "sh")
    assert first.text == "make demo\nmake test\n"


@pytest.mark.parametrize(
    ("kind", "right", "wrong"),
    [
        ("python", ">>> 1 + 1\n2\n", ">>> 1 + 1\n3\n"),
        ("console", "$ echo a\na\n", "$ echo a\nb\n"),
        ("console", "$ seq 5\n1\n…\n5\n", "$ seq 5\n…\n4\n"),
        ("console timed", "$ seq 2; echo 1.5\n2.5\n2\n1\n", "$ seq 2; echo 1.5\n2.5\n2\n2\n"),
        ("rls", "p(a) .", "p(?x) ."),
        ("rls E302", "p(?x) .", "p(a) ."),
        ("facts", "q(a) .", "q(a) . q(b) ."),
        ("facts", "q(a) . p(a) . p(b) .", "p(a) ."),
        ("changes", "- p(a) .\n@commit .\n+ p(a) .", "- p(c) ."),
    ],
)
def test_faults_are_found(kind: str, right: str, wrong: str) -> None:
    program = "p(a) . p(b) . q(a) ."
    kind, _, argument = kind.partition(" ")
    assert not list(_faults(Block("here", kind, argument, right), {}, program))
    assert list(_faults(Block("here", kind, argument, wrong), {}, program))
