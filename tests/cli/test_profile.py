"""`tidelog profile`."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.cli.conftest import Tidelog, Write

CHANGES = "- parent(alice, bob) .\n@commit .\n+ parent(alice, bob) .\n"


def rows(record: dict[str, Any], phase: str) -> dict[int, dict[str, Any]]:
    """What rules did in a phase, by their numbers."""
    (found,) = [item for item in record["phases"] if item["phase"] == phase]
    return {row["rule"]: row for row in found["rules"]}


def test_materialisation_is_counted_rule_by_rule(tidelog: Tidelog) -> None:
    record = tidelog("profile", "family.rls", "-f", "json", "--no-modules").json
    done = rows(record, "materialise")
    assert (done[1]["matches"], done[1]["new"], done[1]["duplicates"]) == (2, 2, 0)
    assert (done[2]["matches"], done[2]["new"]) == (1, 1)
    assert done[2]["attempts"] >= 1 and done[2]["seconds"] > 0
    assert {item["rule"] for item in record["join_orders"]} == {1, 2}
    assert all(item["bytes"] > 0 for item in record["indexes"]) and record["indexes"]


@pytest.mark.parametrize(
    ("maintainer", "phases"),
    [
        ("dred", {"overdelete", "rederive", "insert"}),
        ("backward-forward", {"overdelete", "check", "insert"}),
        ("rank-counting", {"overdelete", "insert"}),
    ],
)
def test_changes_are_counted_by_phase(
    maintainer: str, phases: set[str], tidelog: Tidelog, write: Write
) -> None:
    write("monday.rls", CHANGES)
    arguments = ("--changes", "monday.rls", "--maintainer", maintainer, "--no-modules", "-f", "json")
    record = tidelog("profile", "family.rls", *arguments).json
    assert record["commits"] == 2
    assert phases <= {item["phase"] for item in record["phases"]}
    deleted, inserted = rows(record, "overdelete"), rows(record, "insert")
    assert deleted[1]["matches"] == inserted[1]["matches"] == 1
    assert deleted[2]["matches"] == inserted[2]["matches"] == 1


def test_text_and_page(tidelog: Tidelog, folder: Path) -> None:
    text = tidelog("profile", "family.rls").output
    assert text.startswith("materialise ") and " ⋈ " in text
    done = tidelog("profile", "family.rls", "-f", "html", "-o", "profile.html")
    assert (done.code, done.output) == (0, "")
    page = (folder / "profile.html").read_text()
    assert page.count("<meter") >= 2 and '<span class="predicate">ancestor</span>' in page
    assert "<script" not in page and "http" not in page and "<pre" not in page
