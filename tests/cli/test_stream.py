"""`tidelog stream`: updates from files, folders and standard input; what is said, printed and written."""

from __future__ import annotations

import gzip
import io
import json
import os
import re
from collections.abc import Iterator
from pathlib import Path
from threading import Thread

import pytest

from tests.cli.conftest import Done, Tidelog, Write
from tidelog.cli.updates import ScriptFolder, ThreadedScripts, Updates, split_scripts
from tidelog.errors import SourceText

CHANGES = """\
+ parent(carol, dave) .
@commit .
% nothing
@commit .
- parent(alice, bob) .
- ancestor(?old, ?young) :- parent(?old, ?young) .
@commit .
+ ancestor(?x, ?y) :- parent(?x, ?y) .
"""


def said(done: Done) -> list[str]:
    """What was said of the commits, without times."""
    return [re.sub(r"  [\d.]+ m?s$", "", line) for line in done.error.splitlines()]


def test_each_commit_is_reported(tidelog: Tidelog, write: Write) -> None:
    write("some.changes.rls", CHANGES)
    done = tidelog("stream", "family.rls", "some.changes.rls")
    assert (done.code, done.output) == (0, "")
    assert said(done) == [
        "2 facts loaded, 3 derived",
        "commit 1: +4 −0",
        "commit 2: no change",
        "commit 3: +0 −7",
        "commit 4: +3 −0",
        "4 commits: +7 −7",
    ]
    assert tidelog("stream", "family.rls", "some.changes.rls", "--quiet").error == ""


def test_deltas_and_the_final_state_are_written(tidelog: Tidelog, write: Write, folder: Path) -> None:
    write("some.changes.rls", CHANGES)
    done = tidelog("stream", "family.rls", "some.changes.rls", "--deltas", "deltas", "--output", "final")
    assert done.code == 0
    files = {str(path.relative_to("deltas")): path.read_text() for path in Path("deltas").rglob("*.csv")}
    assert files.pop("1/ancestor.added.csv") == "x,y\nalice,dave\nbob,dave\ncarol,dave\n"
    assert files.pop("1/parent.added.csv") == "c1,c2\ncarol,dave\n"
    assert files.pop("3/parent.removed.csv") == "c1,c2\nalice,bob\n"
    assert set(files) == {"3/ancestor.removed.csv", "4/ancestor.added.csv"}
    assert sorted(path.name for path in Path("deltas").iterdir()) == ["1", "2", "3", "4"]
    assert Path("final/ancestor.csv").read_text() == "x,y\nbob,carol\nbob,dave\ncarol,dave\n"
    again = tidelog("stream", "family.rls", "some.changes.rls", "--deltas", "deltas")
    assert again.code == 2
    assert "holds deltas already" in again.error


def test_predicates_with_odd_names_and_without_columns(tidelog: Tidelog, write: Write) -> None:
    write(
        "odd.rls", "@prefix ex: <https://example.org/> . ex:wet() :- ex:rain(?x) . @declare ex:rain(x: any) ."
    )
    write("odd.changes.rls", "+ ex:rain(ex:today) .")
    done = tidelog(
        "stream", "odd.rls", "odd.changes.rls", "--deltas", "d", "--format", "jsonl", "--terms", "exact"
    )
    assert done.code == 0
    found = {path.name: json.loads(path.read_text()) for path in Path("d/1").iterdir()}
    assert found == {
        "ex%3Arain.added.jsonl": {"x": "<https://example.org/today>"},
        "ex%3Awet.added.jsonl": {"holds": "true"},
    }


def test_lines_of_json_go_to_standard_output(tidelog: Tidelog, write: Write) -> None:
    write("some.changes.rls", "+ parent(carol, 7) .\n@commit .\n- parent(carol, 7) .\n")
    done = tidelog("stream", "family.rls", "some.changes.rls", "--format", "jsonl")
    lines = [json.loads(line) for line in done.output.splitlines()]
    assert lines[0] == {"commit": 1, "change": "+", "predicate": "parent", "c1": "carol", "c2": 7}
    assert lines[-1] == {"commit": 2, "change": "-", "predicate": "ancestor", "x": "carol", "y": 7}
    assert len(lines) == 8


def test_updates_come_from_standard_input(tidelog: Tidelog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(CHANGES))
    assert said(tidelog("stream", "family.rls"))[-1] == "4 commits: +7 −7"


def test_updates_come_from_folders_and_compressed_files(tidelog: Tidelog, write: Write, folder: Path) -> None:
    write("updates/1.rls", "+ parent(a, b) .")
    write("updates/.3.rls", "+ parent(still, written) .")
    write("updates/notes.txt", "no script")
    (folder / "updates" / "2.changes.rls.gz").write_bytes(gzip.compress(b"- parent(a, b) .\n@commit .\n"))
    write("last.rls", "+ parent(x, y) .")
    done = tidelog("stream", "family.rls", "updates", "last.rls")
    assert said(done)[1:4] == ["commit 1: +2 −0", "commit 2: +0 −2", "commit 3: +2 −0"]


def test_data_and_statistics(tidelog: Tidelog, write: Write) -> None:
    write("parent.csv", "carol,dave\n")
    write("some.changes.rls", "- parent(carol, dave) .")
    arguments = ("stream", "family.rls", "some.changes.rls", "--data", "parent.csv")
    done = tidelog(*arguments, "--stats", "stats.json", "--maintainer", "recompute")
    assert done.code == 0
    found = json.loads(Path("stats.json").read_text())
    assert found["maintainer"] == "recompute"
    assert found["facts"] == {"loaded": 2, "derived": 3, "total": 5}
    assert found["commits"]["count"] == 1
    assert found["commits"]["removed"] == 4
    done = tidelog(*arguments, "--stats")
    assert "2 rules" in done.error
    assert "in the median" in done.error


def test_statistics_tell_of_strata(tidelog: Tidelog, write: Write) -> None:
    write("some.changes.rls", "+ parent(carol, dave) .\n@commit .\n- parent(carol, dave) .")
    arguments = ("stream", "family.rls", "some.changes.rls", "--no-modules")
    [line] = [line for line in tidelog(*arguments, "--stats").error.splitlines() if "ancestor  " in line]
    assert line.split()[:-1] == ["ancestor", "rank-counting", "2", "3", "0", "3", "3", "6"]
    tidelog(*arguments, "--stats", "stats.json")
    [found] = json.loads(Path("stats.json").read_text())["commits"]["strata"]
    assert found["predicates"] == ["ancestor"]
    assert (found["maintainer"], found["times"]) == ("rank-counting", 2)
    assert (found["taken_away"], found["put_back"], found["went"], found["came"]) == (3, 0, 3, 3)
    tidelog(*arguments, "--stats", "stats.json", "--maintainer", "recompute")
    [found] = json.loads(Path("stats.json").read_text())["commits"]["strata"]
    assert (found["maintainer"], found["times"], found["went"], found["came"]) == ("recompute", 2, 3, 3)
    assert found["taken_away"] - found["put_back"] == 3


def test_statistics_follow_rules_that_come_and_go(tidelog: Tidelog, write: Write) -> None:
    write(
        "some.changes.rls", "- ancestor(?x, ?y) :- parent(?x, ?y) .\n@commit .\n+ c(?y) :- parent(_, ?y) .\n"
    )
    tidelog("stream", "family.rls", "some.changes.rls", "--stats", "stats.json", "--maintainer", "recompute")
    rules = json.loads(Path("stats.json").read_text())["rules"]
    assert [(rule["text"].partition("(")[0], rule["new"]) for rule in rules] == [("ancestor", 1), ("c", 2)]


def test_statistics_say_what_was_chosen_and_why(tidelog: Tidelog, write: Write) -> None:
    many = "".join(f"+ parent(p{number}, p{number + 1}) .\n" for number in range(60))
    write("some.changes.rls", f"- parent(alice, bob) .\n@commit .\n{many}@commit .\n+ parent(a, b) .\n")
    arguments = ("stream", "family.rls", "some.changes.rls", "--stats")
    lines = [line for line in tidelog(*arguments).error.splitlines() if line.startswith("auto chose ")]
    assert "auto chose rank-counting 2 of 3 times: 16 facts or fewer change" in lines
    assert any(line.startswith("auto chose recompute 1 of 3 times: about ") for line in lines)
    tidelog(*arguments, "stats.json")
    choices = json.loads(Path("stats.json").read_text())["choices"]
    assert choices[0] == {"maintainer": "rank-counting", "reason": "16 facts or fewer change", "times": 2}
    assert "auto chose" not in tidelog(*arguments, "--maintainer", "dred").error


# ---- what goes wrong


def test_a_failing_transaction_ends_the_stream(tidelog: Tidelog, write: Write) -> None:
    write("bad.rls", "+ parent(carol, dave) .\n@commit .\n- parent(x, y) .\n@commit .\n+ parent(y, z) .\n")
    done = tidelog("stream", "family.rls", "bad.rls", "--output", "final")
    assert done.code == 1
    assert "stopped after 1 commit: the next one failed" in done.error
    assert (
        "error[E630]: `parent(x, y) .` does not exist, so it cannot be deleted\n  --> bad.rls:3:1"
        in done.error
    )
    assert not Path("final").exists()
    done = tidelog("stream", "family.rls", "bad.rls", "--output", "final", "--keep-going")
    assert done.code == 1
    assert said(done)[-1] == "2 commits: +6 −0"
    assert Path("final/ancestor.csv").exists()
    done = tidelog("stream", "family.rls", "bad.rls", "--missing", "ignore")
    assert done.code == 0
    assert "bad.rls:3:1: `parent(x, y) .` does not exist, so it cannot be deleted" in done.error
    assert said(done)[-1] == "3 commits: +6 −0"


def test_syntax_errors_have_their_lines(tidelog: Tidelog, write: Write) -> None:
    write("bad.rls", "+ parent(a, b) .\n@commit .\n\n+ parent(a,\n@commit .\n")
    done = tidelog("stream", "family.rls", "bad.rls")
    assert done.code == 1
    assert "--> bad.rls:" in done.error
    assert "4 | + parent(a," in done.error or "5 | @commit ." in done.error


def test_an_inconsistency_has_its_exit_code(tidelog: Tidelog, write: Write) -> None:
    write("bad.rls", "+ parent(a, a) . + bottom() :- parent(?x, ?x) .")
    assert tidelog("stream", "family.rls", "bad.rls").code == 3


@pytest.mark.parametrize(
    ("arguments", "message"),
    [
        (
            ("--maintainer", "recompte"),
            "unknown maintainer `recompte`\n  help: did you mean `recompute`?",
        ),
        (
            ("--marking", "linked", "--maintainer", "recompute"),
            "the maintainer `recompute` does not support marking",
        ),
        (("--format", "csv"), "cannot be written to standard output as csv"),
        (("--format", "nt", "--deltas", "d"), "deltas cannot be written as nt"),
        (("--follow",), "--follow requires a folder"),
        (("-", "-"), "standard input can be read only once"),
        (("--deltas", "family.rls"), "--deltas family.rls is not a folder"),
    ],
)
def test_wrong_usage(arguments: tuple[str, ...], message: str, tidelog: Tidelog, write: Write) -> None:
    write("some.rls", CHANGES)
    done = tidelog("stream", "family.rls", "some.rls", *arguments)
    assert done.code == 2
    assert message in done.error


def test_program_and_updates_do_not_share_standard_input(tidelog: Tidelog) -> None:
    assert tidelog("stream", "-").code == 2


def test_files_that_are_not_there(tidelog: Tidelog, write: Write) -> None:
    write("some.changes.rls", CHANGES)
    done = tidelog("stream", "family.rls", "some.change.rls")
    assert done.code == 1
    assert "did you mean `some.changes.rls`?" in done.error
    Path("broken.rls.gz").write_bytes(b"no gzip")
    assert "cannot read the changes" in tidelog("stream", "family.rls", "broken.rls.gz").error
    Path("latin.rls").write_bytes(b"+ p(\xe9) .")
    assert "not UTF-8" in tidelog("stream", "family.rls", "latin.rls").error


def test_a_program_with_changes_is_refused(tidelog: Tidelog, write: Write) -> None:
    write("some.rls", CHANGES)
    done = tidelog("run", "some.rls")
    assert done.code == 1
    assert "for `tidelog stream`" in done.error


# ---- where updates come from


def test_commits_in_strings_and_comments_are_none() -> None:
    lines = ['+ p("""\n', "@commit .\n", '""") .\n', "/*\n", "@commit .\n", "*/ @commit .\n", "+ q(1) .\n"]
    parts = list(split_scripts(lines, "x"))
    assert [part.first_line for part in parts] == [1, 7]


def test_a_folder_that_is_being_filled(folder: Path, write: Write) -> None:
    write("updates/b.rls", "+ p(1) .")
    waits: list[float] = []

    def wait(seconds: float) -> None:
        waits.append(seconds)
        if len(waits) == 1:
            write("updates/a.rls", "+ p(")
        elif len(waits) == 2:
            write("updates/a.rls", "+ p(2) .")  # grown: it is still being written
        elif len(waits) == 5:
            raise KeyboardInterrupt

    source = ScriptFolder(folder / "updates", follow=True, wait=wait)
    assert source.ready()
    assert next(source).text == "+ p(1) ."
    assert not source.ready()
    assert next(source).text == "+ p(2) ."
    assert len(waits) == 3
    assert not source.has_ended
    with pytest.raises(KeyboardInterrupt):
        next(source)


def test_what_arrives_is_ready_when_it_has_come() -> None:
    steps: list[str] = []
    lines = iter(lambda: steps.pop(0) if steps else "", "never")

    def arriving() -> Iterator[SourceText]:
        for line in lines:
            if line == "end":
                return
            if line:
                yield SourceText("x", line)

    source = ThreadedScripts(arriving())
    assert not source.ready()
    steps.append("+ p(1) .")
    assert next(source).text == "+ p(1) ."
    steps.append("end")
    with pytest.raises(StopIteration):
        next(source)
    assert source.has_ended
    assert not source.ready()


def test_a_pipe_is_read_as_it_is_filled(folder: Path) -> None:
    pipe = folder / "pipe.rls"
    os.mkfifo(pipe)
    writer = Thread(target=lambda: pipe.write_text("+ p(1) .\n@commit .\n+ p(2) .\n"))
    writer.start()
    assert [source.first_line for source in Updates([str(pipe)])] == [1, 3]
    writer.join()


@pytest.mark.parametrize(
    ("arguments", "told"),
    [
        (("family.rls", "more.rls"), "--engine spark needs --store DIR"),
        (
            ("--store", "family", "more", "--data", "x.csv"),
            "--data cannot be used with stream",
        ),
        (("--store", "family", "more", "--output", "x"), "`tidelog run --store family --output DIR`"),
        (("--store", "family", "more", "--marking", "linked"), "--marking cannot be used"),
        (("--store", "family"), "Spark does not read changes from standard input"),
        (("--store", "family", "more", "--follow"), "--follow requires a folder"),
    ],
)
def test_what_streams_on_spark_do_not_take(tidelog: Tidelog, arguments: tuple[str, ...], told: str) -> None:
    refused = tidelog("stream", *arguments, "--engine", "spark")
    assert refused.code == 2 and told in refused.error
