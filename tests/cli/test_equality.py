"""Equality on the command line."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.equality.conftest import treatment as treatment
from tests.equality.test_axiomatise import PASSPORTS
from tidelog.__main__ import main


@pytest.fixture
def program(tmp_path: Path) -> str:
    """A file with a program in which two constants are equal."""
    path = tmp_path / "passports.rls"
    path.write_text(PASSPORTS + "known(?x) :- knows(_, ?x) .")
    return str(path)


def test_what_is_known_of_one_is_known_of_the_other(
    program: str, capsys: pytest.CaptureFixture[str], treatment: str
) -> None:
    assert main(["query", program, "knows(cem, ?who)", "--format", "csv", "--equality", treatment]) == 0
    assert capsys.readouterr().out == "who\nann\nbob\n"
    assert main(["run", program, "--format", "jsonl", "--equality", treatment]) == 0
    assert capsys.readouterr().out.count("\n") == 2


def test_an_inconsistency_ends_with_exit_code_3(
    program: str, capsys: pytest.CaptureFixture[str], treatment: str
) -> None:
    assert main(["run", program, "--unique-names", "--equality", treatment]) == 3
    assert "error[E605]: inconsistent: ann = bob" in capsys.readouterr().err


def test_equality_can_be_switched_off(program: str, capsys: pytest.CaptureFixture[str]) -> None:
    assert main(["run", program, "--equality", "off"]) == 1
    assert "error[E606]" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("maintainer", "said"),
    [("auto", "split-and-merge"), ("backward-forward", "backward-forward with rewriting")],
)
def test_statistics_say_how_classes_are_divided(
    program: str, tmp_path: Path, capsys: pytest.CaptureFixture[str], maintainer: str, said: str
) -> None:
    changes = tmp_path / "script.changes"
    changes.write_text("- passport(ann, 7) .")
    arguments = ["stream", program, str(changes), "--stats", "--maintainer", maintainer]
    assert main(arguments) == 0
    told = capsys.readouterr().err
    assert f"chose {said}" in told
    assert "passport ≈" in told
