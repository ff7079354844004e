"""Usage: what the command line takes, and what it says of what it does not take."""

from __future__ import annotations

import pytest

from tests.cli.conftest import Tidelog, Write
from tidelog import __version__, maintenance
from tidelog.cli import arguments, options
from tidelog.cli import options as time_options
from tidelog.engine.columnar.engine import ENGINES
from tidelog.io.data_file import EXTENSIONS, canonical_format
from tidelog.io.rejects import OnError
from tidelog.maintenance import registry
from tidelog.show.plan_stages import STAGES
from tidelog.temporal.interval_fixpoint import PROCEDURES


def test_version(tidelog: Tidelog) -> None:
    done = tidelog("--version")
    assert (done.code, done.output) == (0, f"tidelog {__version__}\n")


def test_no_arguments_print_help_on_standard_error(tidelog: Tidelog) -> None:
    done = tidelog()
    assert (done.code, done.output) == (2, "")
    assert "exit codes" in done.error


@pytest.mark.parametrize("command", ["run", "query", "check", "format", "plan", "repl", "ontology", "sparql"])
def test_every_command_has_help_with_an_example(command: str, tidelog: Tidelog) -> None:
    done = tidelog(command, "--help")
    assert done.code == 0
    assert f"example: tidelog {command}" in done.output


def test_choices_are_those_of_the_library() -> None:
    assert (*ENGINES, "spark") == options.ENGINES  # which is no engine of a reasoner
    assert arguments.STAGES == STAGES
    assert arguments.MARKINGS == registry.MARKINGS
    assert arguments.MARKINGS[0] == maintenance.DEFAULT_MARKING
    assert time_options.PROCEDURES == PROCEDURES
    assert set(options.ON_ERROR) == {item.value for item in OnError}
    assert all(canonical_format(name) in EXTENSIONS for name in options.FORMATS if name != "table")


@pytest.mark.parametrize(
    ("words", "message", "help"),
    [
        (["rnu"], "unknown command `rnu`", "did you mean `run`?"),
        (["querry"], "unknown command `querry`", "did you mean `query`?"),
        (["family.rls"], "unknown command `family.rls`", "did you mean `tidelog run family.rls`?"),
        (["run"], "PROGRAM is missing", "`tidelog run --help`"),
        (["run", "family.rls", "--ouput", "x"], "`--ouput` is not an argument", "did you mean `--output`?"),
        (["run", "family.rls", "extra"], "`extra` is not an argument of `tidelog run`", "--help"),
        (["run", "family.rls", "--out", "x"], "`--out` is not an argument", "`--output`"),
        (["run", "family.rls", "--format", "xml"], "--format: invalid choice: 'xml'", "--help"),
        (["run", "family.rls", "--param", "x"], "'x' is not of the form name=value", "--help"),
        (["run", "family.rls", "--timeout", "0"], "0 is not a time to wait", "--help"),
        (["run", "family.rls", "--timeout", "soon"], "'soon' is not a number of seconds", "--help"),
        (["run", "family.rls", "--threads", "0"], "0 is less than 1", "--help"),
        (["run", "family.rls", "--max-facts", "many"], "'many' is not a whole number", "--help"),
        (["run", "family.rls", "--rows", "-1"], "-1 is negative", "--help"),
        (["run", "family.rls", "--engine", "steam"], "--engine: invalid choice: 'steam'", "--help"),
        (["run", "family.rls", "--stats", "a.txt"], "a.txt is not a name that ends in .json", ""),
        (["run", "family.rls", "--output", "family.rls"], "family.rls is not a folder", ""),
        (
            ["run", "family.rls", "--output", "o", "--format", "table"],
            "tables cannot be written to files",
            "such as csv",
        ),
        (["run", "family.rls", "--rejects", "r", "--on-error", "skip"], "cannot be used with", "collect"),
        (["plan", "family.rls", "--stage", "raw"], "--stage: invalid choice: 'raw'", "--help"),
    ],
)
def test_wrong_usage_exits_with_2_and_says_why(
    words: list[str], message: str, help: str, tidelog: Tidelog
) -> None:
    done = tidelog(*words)
    assert (done.code, done.output) == (2, "")
    assert message in done.error
    assert help in done.error


def test_a_program_after_the_data_is_still_the_program(tidelog: Tidelog, write: Write) -> None:
    write("parent.csv", "carol,dave\n")
    done = tidelog("run", "--data", "parent.csv", "family.rls", "--format", "csv")
    assert "alice,dave\n" in done.output
    assert tidelog("run", "--stats", "family.rls", "--format", "csv").code == 0


def test_numbers_may_be_grouped() -> None:
    options = arguments.parse_arguments(["run", "p.rls", "--max-facts", "1_000,000", "--timeout", "2.5s"])
    assert (options.max_facts, options.timeout) == (1_000_000, 2.5)
