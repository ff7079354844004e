"""What is said of rows that rules drop because a function has no value."""

from __future__ import annotations

import json
from pathlib import Path

from tests.cli.conftest import Tidelog, Write
from tests.cli.test_watch import Edit, watch  # noqa: F401 - a fixture

HELP = "  help: exclude such rows by a test, or give them a value with COALESCE\n"
PROGRAM = """\
given(a, "12") . given(b, "x") . given(c, "3.5") . given(d, "7") .
number(?i, ?n) :- given(?i, ?s), ?n = INT(?s) .
share(?i, 100 / (?n - 7)) :- number(?i, ?n) .
@output share .
"""
NOTES = f"""\
warning[W601]: `INT` has no value for 2 rows, which derive nothing; the first: ?s = "x"
  --> some.rls:2:34
  |
2 | number(?i, ?n) :- given(?i, ?s), ?n = INT(?s) .
  |                                  ^^^^^^^^^^^^
{HELP}
warning[W601]: `/` has no value for 1 row, which derives nothing: ?n = 7
  --> some.rls:3:1
  |
3 | share(?i, 100 / (?n - 7)) :- number(?i, ?n) .
  | ^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^^
{HELP}"""


def test_a_run_says_which_function_had_no_value(tidelog: Tidelog, write: Write) -> None:
    write("some.rls", PROGRAM)
    done = tidelog("run", "some.rls")
    assert (done.code, done.error) == (0, NOTES)
    assert tidelog("run", "some.rls", "--quiet").error == ""
    assert tidelog("run", "some.rls", "--processes", "2").error == NOTES


def test_a_row_that_a_test_excludes_is_not_counted(tidelog: Tidelog, write: Write) -> None:
    program = PROGRAM.replace("INT(?s) .", 'INT(?s), ~CONTAINS(?s, "x"), ?s != "3.5" .')
    write("some.rls", program.replace("number(?i, ?n) .", "number(?i, ?n), ?n != 7 ."))
    assert tidelog("run", "some.rls").error == ""


def test_comparisons_and_aggregates(tidelog: Tidelog, write: Write) -> None:
    write(
        "some.rls",
        'm(1, 2) . m(1, "x") . m(2, "y") . m(3, "z") .\n'
        "low(?x) :- m(?x, ?v), ?v < 5 .\n"
        "total(?x, #sum(?v)) :- m(?x, ?v) .\n"
        "mean(#avg(?v)) :- m(_, ?v), ?v != 2 .\n",
    )
    assert tidelog("run", "some.rls").error.count("\n\n") == 2
    lines = tidelog("run", "some.rls").error.splitlines()
    assert [line for line in lines if line.startswith("warning")] == [
        'warning[W601]: `<` has no value for 3 rows, which derive nothing; the first: ?v = "x"',
        "warning[W601]: `#sum` has no value for 2 groups, which derive nothing; the first: ?x = 2",
        "warning[W601]: `#avg` has no value for 1 group, which derives nothing",
    ]


def test_more_functions_are_summed_up(tidelog: Tidelog, write: Write) -> None:
    rules = "".join(f"p{number}(INT(?s)) :- t(?s), ?s != {number} .\n" for number in range(8))
    write("some.rls", f't("x") . t("y") . t(1) .\n{rules}')
    error = tidelog("run", "some.rls").error
    assert error.count("`INT` has no value for 2 rows") == 5
    assert error.endswith(
        "warning[W601]: 3 more functions had no value, for 6 rows, from which nothing is derived\n"
    )


def test_a_stream_says_what_each_commit_brings(tidelog: Tidelog, write: Write) -> None:
    write("some.rls", PROGRAM)
    write(
        "some.changes.rls",
        '+ given(e, "eleven") .\n+ given(f, "7") .\n@commit .\n- given(e, "eleven") .\n@commit .\n',
    )
    said = [
        line
        for line in tidelog("stream", "some.rls", "some.changes.rls").error.splitlines()
        if line.startswith(("warning", "commit"))
    ]
    assert [line.partition("  ")[0] for line in said] == [
        'warning[W601]: `INT` has no value for 2 rows, which derive nothing; the first: ?s = "x"',
        "warning[W601]: `/` has no value for 1 row, which derives nothing: ?n = 7",
        'warning[W601]: `INT` has no value for 1 row, which derives nothing: ?s = "eleven"',
        "warning[W601]: `/` has no value for 1 row, which derives nothing: ?n = 7",
        "commit 1: +3 −0",
        "commit 2: +0 −1",
    ]


def test_queries(tidelog: Tidelog, write: Write) -> None:
    write("some.rls", PROGRAM)
    for strategy in ("full", "magic"):
        error = tidelog("query", "some.rls", "share(d, ?x)", "--strategy", strategy).error
        assert "`/` has no value for 1 row, which derives nothing: ?n = 7" in error
    # Magic sets look at the rows that the query needs.
    assert "INT" not in tidelog("query", "some.rls", "share(d, ?x)", "--strategy", "magic").error
    assert tidelog("query", "some.rls", "number(?x, ?y)", "--strategy", "tabling").error == (
        f"warning[W601]: functions had no value 2 times, and nothing is derived from those rows\n{HELP}"
    )
    error = tidelog("query", "some.rls", "given(?x, ?s), INT(?s) > 8").error
    assert error.startswith("warning[W601]: `INT` has no value for 2 rows, which derive nothing; the first")


def test_rules_over_time(tidelog: Tidelog, write: Write) -> None:
    write(
        "some.rls",
        "@declare seen(x: any, v: any) .\n"
        'seen(a, "12")@[0, 10] . seen(b, "x")@[2, 3] . seen(b, "x")@[8, 9] . seen(c, "7")@[1, 4] .\n'
        "hot(?x, ?n) :- diamondminus[0, 2] seen(?x, ?v), ?n = 100 / (INT(?v) - 7) .\n",
    )
    lines = tidelog("run", "some.rls").error.splitlines()
    assert [line for line in lines if line.startswith("warning")] == [
        'warning[W601]: `INT` has no value for 1 row, which derives nothing: ?v = "x"',
        'warning[W601]: `/` has no value for 1 row, which derives nothing: ?v = "7"',
    ]


def test_a_store_says_it_when_facts_are_derived(tidelog: Tidelog, write: Write, folder: Path) -> None:
    write("some.rls", PROGRAM)
    assert "`INT` has no value for 2 rows" in tidelog("run", "some.rls", "--store", "kept").error
    write("more.rls", '+ given(e, "z") .\n')
    assert "`INT`" not in tidelog("query", "--store", "kept", "share(?x, ?y)").error
    applied = tidelog("stream", "--store", "kept", "more.rls").error
    assert '`INT` has no value for 1 row, which derives nothing: ?s = "z"' in applied


def test_watching(watch: object, write: Write) -> None:  # noqa: F811
    write("some.rls", PROGRAM)
    edits: list[Edit] = [lambda: write("some.rls", PROGRAM + 'given(g, "seven") .\n')]
    error = watch(edits, "some.rls").error  # type: ignore[operator]
    assert error.count("`INT` has no value for 2 rows") == 1
    assert error.count('`INT` has no value for 1 row, which derives nothing: ?s = "seven"') == 1


def test_statistics_count_the_rows_too(tidelog: Tidelog, write: Write) -> None:
    write("some.rls", PROGRAM)
    tidelog("run", "some.rls", "--stats", "stats.json")
    assert sum(rule["no_value"] for rule in json.loads(Path("stats.json").read_text())["rules"]) == 3
