"""`tidelog check` and `tidelog format`."""

from __future__ import annotations

import io
from pathlib import Path

import pytest

from tests.cli.conftest import FAMILY, Tidelog, Write

UNTIDY = "% who\nparent(alice,bob).   % a remark\n\n\n\nancestor(?x,?y):-parent(?x,?y)."
TIDY = "% who\nparent(alice, bob) . % a remark\n\nancestor(?x, ?y) :- parent(?x, ?y) .\n"


# ---- check


def test_a_program_without_faults(tidelog: Tidelog) -> None:
    done = tidelog("check", "family.rls")
    assert (done.code, done.output) == (0, "")
    assert done.error == "1 program: no errors, no warnings\n"


def test_all_faults_of_all_programs_are_reported(tidelog: Tidelog, write: Write) -> None:
    write("a.rls", "p(1 .\nq(?x) :- p(?y) .\n")
    write("b.rls", "p(?x) :- q(?y) .")
    done = tidelog("check", "a.rls", "b.rls", "missing.rls")
    assert (done.code, done.output) == (1, "")
    assert "a.rls:1" in done.error
    assert "b.rls:1" in done.error
    assert "error[E501]" in done.error
    assert "3 programs: " in done.error


def test_warnings_are_no_errors(tidelog: Tidelog, write: Write) -> None:
    write("a.rls", "p(?x) :- q(?x) .")
    done = tidelog("check", "a.rls")
    assert done.code == 0
    assert "warning[W102]" in done.error
    assert tidelog("check", "a.rls", "--quiet").error == ""


def test_data_fills_predicates(tidelog: Tidelog, write: Write) -> None:
    write("a.rls", "p(?x) :- q(?x) .")
    write("q.csv", "1\n")
    assert "W102" not in tidelog("check", "a.rls", "--data", "q.csv").error


def test_parameters_are_given(tidelog: Tidelog, write: Write) -> None:
    write("a.rls", "@parameter $n . p($n) .")
    assert tidelog("check", "a.rls").code == 1
    assert tidelog("check", "a.rls", "--param", "n=1").code == 0


def test_diagnostics_as_json(tidelog: Tidelog, write: Write) -> None:
    write("a.rls", "p(1) .\nq(?x, ?y) :- p(?x) .")
    done = tidelog("check", "a.rls", "--format", "json")
    assert (done.code, done.error) == (1, "")
    (fault,) = done.json
    assert fault["code"] == "E301"
    assert (fault["file"], fault["line"], fault["column"], fault["end_column"]) == ("a.rls", 2, 7, 9)
    assert fault["severity"] == "error"
    assert tidelog("check", "family.rls", "--format", "json").json == []


def test_a_folder_stands_for_its_programs(tidelog: Tidelog, write: Write) -> None:
    write("rules/deep/a.rls", "p(1) .")
    write("rules/b.rls", "p(1) .")
    assert "2 programs" in tidelog("check", "rules").error


def test_standard_input_is_checked(tidelog: Tidelog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("p(?x) ."))
    done = tidelog("check", "-", "--format", "json")
    assert done.code == 1
    assert done.json[0]["file"] == "<stdin>"


def test_text_that_is_not_utf8_is_an_error(tidelog: Tidelog) -> None:
    Path("latin.rls").write_bytes('p("é") .'.encode("latin-1"))
    done = tidelog("check", "latin.rls")
    assert done.code == 1
    assert "it is not UTF-8 (byte 4)" in done.error


# ---- format


def test_programs_are_rewritten_with_their_comments(tidelog: Tidelog, write: Write) -> None:
    path = write("a.rls", UNTIDY)
    done = tidelog("format", "a.rls", "family.rls")
    assert (done.code, done.output) == (0, "")
    assert done.error == "changed a.rls\n1 of 2 programs changed\n"
    assert path.read_text() == TIDY
    assert Path("family.rls").read_text() == FAMILY
    assert tidelog("format", "a.rls").error == "0 of 1 program changed\n"


def test_check_changes_nothing(tidelog: Tidelog, write: Write) -> None:
    path = write("a.rls", UNTIDY)
    done = tidelog("format", "--check", "a.rls", "family.rls")
    assert done.code == 1
    assert done.error == "would change a.rls\n1 of 2 programs would change\n"
    assert path.read_text() == UNTIDY
    assert tidelog("format", "--check", "family.rls").code == 0


def test_a_diff_is_printed(tidelog: Tidelog, write: Write) -> None:
    path = write("a.rls", UNTIDY)
    done = tidelog("format", "--diff", "a.rls")
    assert done.code == 0
    assert done.output.startswith("--- a.rls\n+++ a.rls\n@@ ")
    assert "-ancestor(?x,?y):-parent(?x,?y).\n\\ No newline at end of file\n" in done.output
    assert "+parent(alice, bob) . % a remark\n" in done.output
    assert path.read_text() == UNTIDY


def test_standard_input_is_a_filter(tidelog: Tidelog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO(UNTIDY))
    done = tidelog("format", "-")
    assert (done.code, done.output, done.error) == (0, TIDY, "")


def test_a_program_that_does_not_parse_is_left_alone(tidelog: Tidelog, write: Write) -> None:
    bad = write("bad.rls", "p(1")
    good = write("good.rls", UNTIDY)
    done = tidelog("format", "bad.rls", "good.rls")
    assert done.code == 1
    assert "bad.rls:1" in done.error
    assert bad.read_text() == "p(1"
    assert good.read_text() == TIDY


def test_a_text_that_would_change_its_meaning_is_refused(
    tidelog: Tidelog, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = write("a.rls", UNTIDY)
    monkeypatch.setattr("tidelog.cli.commands.programs.print_document", lambda _: "p(1) .\n")
    done = tidelog("format", "a.rls")
    assert done.code == 1
    assert "error[E702]" in done.error
    assert path.read_text() == UNTIDY
