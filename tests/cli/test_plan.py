"""`tidelog plan`: the text of every stage to the letter, and pictures that hold together.

`python -m tests.cli.test_plan` writes the texts anew; read the difference before you commit it.
"""

from __future__ import annotations

import re
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tests.cli.conftest import Tidelog, Write
from tidelog.__main__ import main

FOLDER = Path(__file__).parent / "plans"
STAGES = ("parsed", "resolved", "strata", "rewritten", "plan")
QUERY = "reach(?x, 3), ?x > 1"
GOLDEN = [(stage, "txt") for stage in STAGES] + [("strata", "dot"), ("plan", "dot"), ("strata", "mermaid")]
FORMATS = {"txt": "text", "dot": "dot", "mermaid": "mermaid"}


def arguments(stage: str, suffix: str) -> list[str]:
    """The command whose output is kept in a golden file."""
    query = ["--query", QUERY] if stage in ("resolved", "rewritten", "plan") else []
    return ["plan", "graph.rls", "--stage", stage, "--format", FORMATS[suffix], *query]


@pytest.fixture
def golden(monkeypatch: pytest.MonkeyPatch) -> Path:
    """The folder of golden files, as the working folder; tests run side by side, so none writes here."""
    monkeypatch.chdir(FOLDER)
    return FOLDER


@pytest.mark.parametrize(("stage", "suffix"), GOLDEN)
def test_stages_are_as_written(stage: str, suffix: str, golden: Path, tidelog: Tidelog) -> None:
    done = tidelog(*arguments(stage, suffix))
    assert done.code == 0
    assert done.output == (golden / f"{stage}.{suffix}").read_text(encoding="utf-8")
    assert done.error == ""


def test_resolved_programs_read_back(golden: Path, tidelog: Tidelog, write: Write) -> None:
    again = write("again.rls", tidelog("plan", "graph.rls", "--stage", "resolved").output)
    facts = [tidelog("run", str(name), "--format", "json").json for name in ("graph.rls", again)]
    first, second = ([rows for _, rows in sorted(item.items()) if rows] for item in facts)
    assert [len(rows) for rows in first] == [len(rows) for rows in second]


def test_rewritten_programs_read_back_and_answer(golden: Path, tidelog: Tidelog, write: Write) -> None:
    again = write("again.rls", tidelog(*arguments("rewritten", "txt")).output)
    derived = tidelog("run", str(again), "--format", "json").json
    answers = tidelog("query", "graph.rls", QUERY, "--format", "json").json
    assert [row["x"] for row in derived["answer_1"]] == [row["x"] for row in answers]


def test_without_a_query_nothing_is_rewritten(golden: Path, tidelog: Tidelog) -> None:
    done = tidelog("plan", "graph.rls", "--stage", "rewritten")
    assert done.error == "rewriting requires a query: give a --query\n"
    assert "reach(?x, ?z) :- reach(?x, ?y), reach(?y, ?z) ." in done.output


def test_what_is_derived_in_full_is_said(write: Write, tidelog: Tidelog) -> None:
    program = write(
        "program.rls",
        "bad(?x) :- broken(?x) . ok(?x, ?y) :- e(?x, ?y), ~bad(?y) ."
        "ok(?x, ?z) :- ok(?x, ?y), e(?y, ?z), ~bad(?z) . e(1, 2) . broken(3) . ?- ok(1, ?y) .",
    )
    done = tidelog("plan", str(program), "--stage", "rewritten")
    assert "`bad` is derived in full: what is asked of it depends on ok, which negates it" in done.error


class Page(HTMLParser):
    """The tags that are open, and the text outside style sheets."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.open: list[str] = []
        self.links: list[str] = []
        self.tags: list[str] = []
        self.words = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attributes if name in ("href", "src")]
        if tag not in ("meta", "path", "rect"):
            self.open.append(tag)

    def handle_endtag(self, tag: str) -> None:
        if tag not in ("path", "rect"):
            assert self.open.pop() == tag

    def handle_data(self, data: str) -> None:
        self.words += data if self.open[-1:] != ["style"] else ""


@pytest.mark.parametrize("stage", STAGES)
def test_pages_are_whole_and_need_no_network(stage: str, golden: Path, tidelog: Tidelog) -> None:
    text = tidelog("plan", "graph.rls", "--stage", stage, "--format", "html").output
    page = Page(text)
    assert page.open == []
    assert "svg" in page.tags
    assert "script" not in page.tags
    assert all(link.startswith("#") for link in page.links)
    assert "url(" not in text
    assert "prefers-color-scheme: dark" in text
    assert "nan" not in re.findall(r'd="[^"]*"', text)


@pytest.mark.parametrize("format", ["text", "dot", "mermaid", "html"])
def test_plans_are_written_to_files(format: str, golden: Path, tidelog: Tidelog, tmp_path: Path) -> None:
    path = tmp_path / "plans" / f"plan.{format}"
    done = tidelog("plan", "graph.rls", "--format", format, "--output", str(path))
    assert (done.code, done.output) == (0, "")
    assert done.error == f"wrote {path}\n"
    assert path.read_text(encoding="utf-8") == tidelog("plan", "graph.rls", "--format", format).output


def test_text_is_escaped_everywhere(tidelog: Tidelog, write: Write) -> None:
    write("p.rls", 'p("<b>&\\"#`", 1) . q(?x) :- p(?x, _), ?x != "<b>&\\"#`" .')
    page = Page(tidelog("plan", "p.rls", "--format", "html").output)
    assert "b" not in page.tags
    assert '"<b>&\\"#`"' in page.words
    assert '\\"<b>&\\\\\\"#`\\"' in tidelog("plan", "p.rls", "--format", "dot").output
    assert "#lt;b#gt;&" in tidelog("plan", "p.rls", "--format", "mermaid").output


def test_real_sizes_come_from_running(tidelog: Tidelog, write: Write) -> None:
    write("parent.csv", "carol,dave\n")
    assumed = tidelog("plan", "family.rls")
    run = tidelog("plan", "family.rls", "--run")
    fed = tidelog("plan", "family.rls", "--data", "parent.csv")
    assert "scan ancestor(?x, ?y)  · new\n" in assumed.output
    assert "scan ancestor(?x, ?y)  · new · 3 facts\n" in run.output
    assert "look up parent(?y, ?z)  · all · index on c1 · 3 facts\n" in fed.output


@pytest.mark.parametrize("stage", STAGES)
@pytest.mark.parametrize("format", ["text", "dot", "mermaid", "html"])
@pytest.mark.parametrize("text", ["", "p(1) .", "p() :- ~q() . q() :- 1 < 2 ."])
def test_programs_with_little_in_them(
    text: str, format: str, stage: str, tidelog: Tidelog, write: Write
) -> None:
    write("p.rls", text)
    done = tidelog("plan", "p.rls", "--stage", stage, "--format", format)
    assert done.code == 0
    assert done.output


def test_many_facts_are_not_all_shown(tidelog: Tidelog, write: Write) -> None:
    write("p.rls", "".join(f"p({number}) .\n" for number in range(100)))
    assert "92 more facts" in tidelog("plan", "p.rls", "--stage", "parsed").output
    assert "% … 92 more facts" in tidelog("plan", "p.rls", "--stage", "resolved").output


@pytest.mark.parametrize("stage", STAGES)
def test_faults_are_reported(stage: str, tidelog: Tidelog, write: Write) -> None:
    write("p.rls", "p(1")
    done = tidelog("plan", "p.rls", "--stage", stage)
    assert (done.code, done.output) == (1, "")
    assert "error[E121]" in done.error


def test_faulty_queries_are_reported(tidelog: Tidelog) -> None:
    done = tidelog("plan", "family.rls", "--query", "ancestr(?x, ?y)")
    assert done.code == 1
    assert "did you mean `ancestor`?" in done.error


if __name__ == "__main__":
    import contextlib
    import os

    os.chdir(FOLDER)
    for stage, suffix in GOLDEN:
        with Path(f"{stage}.{suffix}").open("w", encoding="utf-8") as file, contextlib.redirect_stdout(file):
            main(arguments(stage, suffix))
