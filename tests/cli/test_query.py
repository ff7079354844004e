"""`tidelog query`: strategies, explanations, limits."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.cli.conftest import Tidelog, Write


@pytest.mark.parametrize("strategy", ["auto", "magic", "tabling", "full"])
def test_strategies_answer_alike(strategy: str, tidelog: Tidelog) -> None:
    done = tidelog(
        "query", "family.rls", "ancestor(alice, ?x), ~parent(alice, ?x)", "--strategy", strategy, "-f", "csv"
    )
    assert (done.code, done.output) == (0, "x\ncarol\n")


def test_stated_facts_are_looked_up(tidelog: Tidelog) -> None:
    done = tidelog("query", "family.rls", "parent(?x, carol)", "--strategy", "lookup", "-f", "csv")
    assert (done.code, done.output) == (0, "x\nbob\n")


def test_what_is_not_derived_cannot_be_looked_up(tidelog: Tidelog) -> None:
    done = tidelog("query", "family.rls", "ancestor(alice, ?x)", "--strategy", "lookup")
    assert done.code == 1
    assert "error[E651]: `ancestor` is not derived yet, so it cannot be looked up" in done.error


def test_the_explanation_is_on_standard_error(tidelog: Tidelog) -> None:
    done = tidelog(
        *("query", "family.rls", "ancestor(alice, ?x)", "--strategy", "magic", "--explain-strategy"),
        *("--format", "csv"),
    )
    assert done.output == "x\nbob\ncarol\n"
    assert done.error == "magic: as requested\nmagic: derives ancestor bf by 3 rules\n"


def test_a_limit_cuts_the_answers(tidelog: Tidelog) -> None:
    done = tidelog("query", "family.rls", "ancestor(?x, ?y)", "--limit", "2", "--format", "jsonl")
    assert len(done.output.splitlines()) == 2
    assert tidelog("query", "family.rls", "ancestor(?x, ?y)", "--limit", "0", "-f", "csv").output == "x,y\n"


def test_an_unknown_strategy_is_wrong_usage(tidelog: Tidelog) -> None:
    done = tidelog("query", "family.rls", "ancestor(alice, ?x)", "--strategy", "magik")
    assert done.code == 2
    assert "unknown strategy `magik`" in done.error
    assert "did you mean `magic`?" in done.error


def test_statistics_show_the_rewritten_rules(tidelog: Tidelog) -> None:
    done = tidelog("query", "family.rls", "ancestor(alice, ?x)", "--strategy", "magic", "--stats")
    assert "magic_ancestor_bf(?x)" in done.error
    assert "3 rules" in done.error


def test_statistics_tell_what_there_is_in_tables(tidelog: Tidelog) -> None:
    done = tidelog("query", "family.rls", "ancestor(alice, ?x)", "--strategy", "tabling", "--stats")
    assert "tables: patterns 1, subgoals asked 1, evaluated 1, answers" in done.error
    assert "duplicates" not in done.error  # no rule was run over all facts
    written = tidelog(
        "query", "family.rls", "ancestor(alice, ?x)", "--strategy", "tabling", "--stats", "s.json"
    )
    assert written.code == 0
    assert json.loads(Path("s.json").read_text())["tables"]["asked"] == 1


def test_only_what_is_asked_for_is_derived(tidelog: Tidelog, write: Write) -> None:
    endless = "n(0) . n(?x + 1) :- n(?x) . p(?x, ?y) :- e(?x, ?y) . e(1, 2) ."
    program = str(write("endless.rls", endless))
    assert tidelog("query", program, "p(1, ?y)", "--format", "csv").output == "y\n2\n"
