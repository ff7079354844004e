"""`tidelog timeline`."""

from __future__ import annotations

from pathlib import Path
from xml.etree import ElementTree

import pytest

from tests.cli.conftest import Tidelog, Write

BOILER = """\
temp(boiler, 92)@[0, 10) . temp(boiler, 95)@[12, 30] .
sensor(boiler) .
hot(?s) :- temp(?s, ?v), ?v > 90 .
overheated(?s) :- boxminus[0, 5] hot(?s) .
"""


@pytest.fixture(autouse=True)
def program(write: Write) -> Path:
    return write("boiler.rls", BOILER)


def test_lanes_in_the_terminal(tidelog: Tidelog) -> None:
    done = tidelog("timeline", "boiler.rls", "overheated(?s)", "--from", "5", "--to", "20")
    assert (done.code, done.error) == (0, "complete after 2 rounds\n")
    title, labels, _, lane = done.output.splitlines()
    assert title == "overheated(?s)  1 fact, 2 intervals, complete after 2 rounds"
    assert labels.split()[0] == "5"
    assert lane.startswith("boiler [━━━")
    assert lane.count(")") == 1
    assert lane.endswith("━›")


@pytest.mark.parametrize("name", ["boiler.svg", "boiler.html"])
def test_pictures(tidelog: Tidelog, folder: Path, name: str) -> None:
    done = tidelog("timeline", "boiler.rls", "hot(?s)", "overheated(?s)", "-o", name)
    assert (done.code, done.output) == (0, "")
    assert done.error.endswith(f"wrote {name}\n")
    text = (folder / name).read_text(encoding="utf-8")
    assert "overheated(?s)" in text
    if name.endswith(".svg"):
        ElementTree.fromstring(text)


def test_inconsistent_at_times(tidelog: Tidelog, write: Write) -> None:
    write("wrong.rls", f"{BOILER} bottom() :- boxminus[0, 12] hot(_) .")
    for command in (["run", "wrong.rls"], ["timeline", "wrong.rls", "hot(?s)"]):
        done = tidelog(*command)
        assert (done.code, done.output) == (3, "")
        assert "error[E601]: inconsistent: bottom() derived at [24, 30]" in done.error


def test_lanes_are_as_many_as_wanted(tidelog: Tidelog) -> None:
    done = tidelog("timeline", "boiler.rls", "temp(?s, ?v)", "--lanes", "1")
    assert done.output.endswith("… 1 more\n")


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (["hot(?s)", "-o", "hot.png"], 2, "does not tell the format"),
        (["hot(?s)", "--from", "9", "--to", "3"], 2, "--from is not before --to"),
        (["hot(?s)", "--from", "soon"], 2, "'soon' is not a time"),
        (["hot(?s)", "--to", "inf"], 2, "a picture cannot extend to inf"),
        (["hot(?s)@3"], 1, "E629"),
        (["sensor(?s)"], 1, "E629"),
        (["warm(?s)"], 1, "E214"),
        (["hot(?s"], 1, "E1"),
    ],
)
def test_what_cannot_be_drawn(
    tidelog: Tidelog, folder: Path, arguments: list[str], code: int, error: str
) -> None:
    done = tidelog("timeline", "boiler.rls", *arguments)
    assert done.code == code
    assert error in done.error
    assert done.output == ""
