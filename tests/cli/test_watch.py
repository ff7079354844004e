"""`tidelog run --watch`: edits become transactions."""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.cli.conftest import Done, Tidelog, Write

Edit = Callable[[], object]
RULES = """\
ancestor(?x, ?y) :- parent(?x, ?y) .
ancestor(?x, ?z) :- ancestor(?x, ?y), parent(?y, ?z) .
"""


@pytest.fixture
def watch(tidelog: Tidelog, monkeypatch: pytest.MonkeyPatch) -> Callable[..., Done]:
    """`tidelog run --watch`, while edits are made, each when the one before has been looked at."""

    def run(edits: list[Edit], *arguments: str) -> Done:
        waits = [0]

        def wait(seconds: float) -> None:
            turn, waits[0] = waits[0], waits[0] + 1
            if turn % 3 == 0:
                if turn // 3 == len(edits):
                    raise KeyboardInterrupt
                edits[turn // 3]()
                for path in filter(Path.is_file, Path.cwd().rglob("*")):
                    stamp(path, turn)

        seen: dict[Path, bytes] = {}

        def stamp(path: Path, turn: int) -> None:
            # Edits in a test follow each other faster than some clocks tick.
            if seen.get(path) != path.read_bytes():
                seen[path] = path.read_bytes()
                os.utime(path, ns=(10**18 + turn, 10**18 + turn))

        monkeypatch.setattr("tidelog.cli.commands.watch.ProgramWatch.run.__defaults__", (wait,))
        return tidelog("run", *arguments, "--watch")

    return run


def said(done: Done) -> list[str]:
    """What was said, without times."""
    return [re.sub(r"  [\d.]+ m?s$", "", line) for line in done.error.splitlines()]


def test_rules_and_facts_are_edited(watch: Callable[..., Done], write: Write) -> None:
    program = "parent(alice, bob) .\nparent(bob, carol) .\n" + RULES
    edited = program.replace("bob, carol", "bob, dora")
    edits: list[Edit] = [
        lambda: write("family.rls", edited),
        lambda: write("family.rls", edited.replace("?z", "?w") + "% other names, and a note\n"),
        lambda: write("family.rls", program.partition("ancestor(?x, ?z)")[0]),
    ]
    done = watch(edits, "family.rls", "--format", "jsonl")
    assert done.code == 0
    assert said(done) == [
        "watching 1 file; Ctrl-C ends",
        "+3 −3  (parent +1 −1, ancestor +2 −2)",
        "no change",
        "+2 −3  (parent +1 −1, ancestor +1 −2)",
        "stopped watching",
    ]
    script = done.output.splitlines()[3:]
    assert script[:4] == [
        "- ancestor(alice, carol) .",
        "- ancestor(bob, carol) .",
        "+ ancestor(alice, dora) .",
        "+ ancestor(bob, dora) .",
    ]


def test_statistics_of_each_edit(watch: Callable[..., Done], write: Write) -> None:
    program = "parent(alice, bob) .\n" + RULES
    write("family.rls", program)
    edit: Edit = lambda: write("family.rls", program + "parent(bob, carol) .\n")  # noqa: E731
    done = watch([edit], "family.rls", "--stats")
    assert "auto chose rank-counting: 16 facts or fewer change" in done.error
    write("family.rls", program)
    watch([edit], "family.rls", "--stats", "stats.json")
    found = json.loads(Path("stats.json").read_text())
    assert found["facts"]["loaded"] == 2
    assert found["choices"][0]["maintainer"] == "rank-counting"


def test_a_broken_edit_keeps_the_last_good_state(watch: Callable[..., Done], write: Write) -> None:
    program = "parent(alice, bob) .\n" + RULES
    write("family.rls", program)
    edits: list[Edit] = [
        lambda: write("family.rls", program + "p(?x) :- parent(?y, _) .\n"),
        lambda: write("family.rls", program + "p( .\n"),
        lambda: write("family.rls", program + "bottom() :- parent(_, bob) .\n"),
        lambda: write("family.rls", program + "parent(bob, carol) .\n"),
    ]
    done = watch(edits, "family.rls", "--output", "results")
    assert done.code == 0
    assert done.error.count("the edit has errors: nothing has changed") == 3
    assert "error[E301]" in done.error
    assert "error[E601]" in done.error
    assert "+3 −0  (parent +1 −0, ancestor +2 −0)" in done.error
    assert Path("results/ancestor.csv").read_text() == "x,y\nalice,bob\nalice,carol\nbob,carol\n"


def test_data_files_are_edited_come_and_go(watch: Callable[..., Done], write: Write) -> None:
    write("rules.rls", "@declare parent(x: any, y: any) .\nparent(root, alice) .\n" + RULES)
    write("data/parent.csv", "alice,bob\n")
    edits: list[Edit] = [
        lambda: write("data/parent.csv", "alice,bob\nbob,carol\nroot,alice\n"),
        lambda: write("data/parent.csv", "bob,carol\n"),  # `root, alice` is stated by the program still
        lambda: write("data/age.csv", "alice,7\n"),  # not of the program
        lambda: write("rules.rls", "@declare parent(x: any, y: any) .\nold(?x) :- age(?x, _) .\n" + RULES),
        lambda: Path("data/parent.csv").unlink(),
        lambda: write("data/parent.csv", "bob,carol,dora\n"),
    ]
    done = watch(edits, "rules.rls", "--data", "data")
    lines = said(done)
    assert lines[1] == "+4 −0  (parent +1 −0, ancestor +3 −0)"
    assert lines[2] == "+0 −5  (parent +0 −1, ancestor +0 −4)"
    assert "so `data/age.csv` is not read" in lines[3]
    assert lines[5:8] == [
        "no change",
        "+2 −2  (parent +0 −1, ancestor +0 −1, age +1 −0, old +1 −0)",
        "+0 −2  (parent +0 −1, ancestor +0 −1)",
    ]
    assert "error[E503]" in lines[8]
    assert lines[-2] == "the edit has errors: nothing has changed"


def test_imports_and_includes_are_edited(watch: Callable[..., Done], write: Write) -> None:
    write("more.rls", RULES)
    write("p.csv", "alice,bob\n")
    write("q.csv", "x,y\n")
    main = '@declare parent(x: any, y: any) .\n@include "more.rls" .\n'
    main += '@import parent :- csv{ resource = "p.csv" } .\n'
    write("main.rls", main)
    edits: list[Edit] = [
        lambda: write("p.csv", "alice,carol\n"),
        lambda: write("more.rls", RULES + "child(?y) :- parent(_, ?y) .\n"),
        lambda: write("main.rls", main.replace("p.csv", "q.csv")),
        lambda: write("q.csv", "x,z\n"),
    ]
    lines = said(watch(edits, "main.rls"))
    assert lines[1:5] == [
        "+2 −2  (parent +1 −1, ancestor +1 −1)",
        "+1 −0  (child +1 −0)",
        "+3 −3  (parent +1 −1, ancestor +1 −1, child +1 −1)",
        "+3 −3  (parent +1 −1, ancestor +1 −1, child +1 −1)",
    ]


def test_changed_columns_begin_anew(watch: Callable[..., Done], write: Write) -> None:
    write("p.rls", "p(1) .\nq(?x) :- p(?x) .\n")
    edits: list[Edit] = [
        lambda: write("p.rls", "p(1, 2) .\nq(?x) :- p(?x, _) .\n"),
        lambda: write("p.rls", "p(1, 2) .\np(3, 4) .\nq(?x) :- p(?x, _) .\n"),
    ]
    lines = said(watch(edits, "p.rls"))
    assert lines[1] == "columns have changed, so everything was recomputed: +1 −1"
    assert lines[2] == "+2 −0  (p +1 −0, q +1 −0)"


def test_what_is_put_out_may_lose_its_last_rule(watch: Callable[..., Done], write: Write) -> None:
    program = "@output q .\np(1) .\n"
    write("p.rls", program + "q(?x) :- p(?x) .\n")
    edits: list[Edit] = [
        lambda: write("p.rls", program),
        lambda: write("p.rls", program + "q(?x) :- p(?x), ?x > 0 .\n"),
        lambda: write("p.rls", program + "@output other .\n"),
    ]
    lines = said(watch(edits, "p.rls"))
    assert "warning[W102]: `q` has neither facts, imports nor rules any more: it is empty" in lines
    assert "+0 −1  (q +0 −1)" in lines
    assert "+1 −0  (q +1 −0)" in lines
    assert "error[E214]: unknown predicate `other`" in lines, "this was never there"


def test_what_cannot_be_watched(tidelog: Tidelog) -> None:
    assert tidelog("run", "-", "--watch").code == 2
    assert tidelog("run", "family.rls", "--watch", "--on-error", "collect").code == 2
