"""Programs as JSON read back as the very same, all of the corpus and random ones."""

from __future__ import annotations

import json
from dataclasses import replace
from pathlib import Path

import pytest
from hypothesis import given

import tidelog as tl
from tests.strategies import EVERYTHING, programs
from tidelog.logic.program import Program, Transfer
from tidelog.store.json_forms import PROGRAM, program_of, program_to_json
from tidelog.store.state_checks import check_program

CASES = sorted((Path(__file__).parent.parent / "cases").rglob("*.rls"))


def read_back(program: Program) -> Program:
    """The program that is read, and could be one."""
    form = json.loads(json.dumps(program_to_json(program)))
    PROGRAM(form, "")
    found = program_of(form)
    check_program(found)
    return found


def as_stored(program: Program) -> Program:
    """The program without its facts, and with folders that do not depend on where one is."""
    return replace(
        program,
        facts=(),
        imports=tuple(map(_absolute, program.imports)),
        exports=tuple(map(_absolute, program.exports)),
    )


def _absolute(transfer: Transfer) -> Transfer:
    return replace(transfer, folder=None if transfer.folder is None else transfer.folder.absolute())


def test_programs_of_the_corpus_read_back() -> None:
    count = 0
    for path in CASES:
        try:
            program = tl.load(path)
        except tl.TidelogError:
            continue  # has errors, or wants parameters
        assert read_back(program) == as_stored(program), path
        count += 1
    assert count > 200


@given(text=programs(EVERYTHING))
def test_random_programs_read_back(text: str) -> None:
    program = tl.parse(text)
    assert read_back(program) == as_stored(program)


@pytest.mark.parametrize(
    "text",
    [
        '#[name("the rule")] p(?x, #count(?y), ?n) :- q(?x, ?y), ~r(?x, _), ?n = ?x * 2 + 1, ?n != 7 .',
        'p(?x) :- q(?x), STRSTARTS(STR(?x), "a"), ~CONTAINS(STR(?x), "?b") . q("?x") .',
        "@base <https://a.org/> . @prefix e: <https://e.org/> . e:p(?x, <y>) :- e:q(?x, 1.50, -0.0e0) .",
        "p(?x) :- q(?x) . ?- p(?x), ?x > 1 . @output p . @declare q(n: int) .",
        "boxplus[0, 1/3) p(?x) :- q(?x) since(1, inf) r(?x), ~diamondminus[0, 2] s(?x) . q(a)@[1, 2) .",
        "p(?x) :- diamondminus[0, 2] boxplus[1, 3] q(?x), top() until[0, 1] q(?x) . q(a)@1 .",
        'p(?x) :- q(?x) . q(a)@["2024-01-01T00:00:00Z", "2024-02-01") . ?- p(?x)@[1, 2] .',
        "p(?x) :- q(?x) . q(a)@[0, 5] . ?- p(?x) during [1, 2] . ?- p(?x) at 3 . ?- p(?x) ever .",
    ],
)
def test_programs_with_everything_read_back(text: str) -> None:
    program = tl.parse(text)
    assert read_back(program) == as_stored(program)
