"""Small programs over time that each ask one thing, with what must follow: `cases/`, as the corpus has them.

They are run through the command line, and by all three procedures. `python -m tests.temporal.test_cases`
writes what must follow anew; read the difference before you commit it.
"""

from __future__ import annotations

import csv
import io
from pathlib import Path

import pytest

import tidelog as tl
from tests.corpus import Case, delta_texts
from tidelog.__main__ import main
from tidelog.errors import TidelogError
from tidelog.temporal.interval_fixpoint import PROCEDURES

FOLDER = Path(__file__).parent / "cases"
CASES = [Case(path) for path in sorted(FOLDER.glob("*.rls"))]
GOOD = [case for case in CASES if case.error is None]
CHANGING = [case for case in GOOD if case.changes.exists()]


def outputs(case: Case, folder: Path) -> dict[str, str]:
    """What a program puts out, file by file."""
    assert (
        main(
            ["run", str(case.path), "--output", str(folder), "--format", "csv", "--terms", "plain", "--quiet"]
        )
        == 0
    )
    return {path.name: path.read_text(encoding="utf-8") for path in sorted(folder.iterdir())}


def answers(case: Case) -> dict[str, str]:
    """The answers to a program's queries, as CSV."""
    program = case.program()
    reasoner = tl.Reasoner(program)
    found = {}
    for number, query in enumerate(program.queries, 1):
        relation = reasoner.query(query.text.strip().removeprefix("?-").removesuffix("."))
        text = io.StringIO()
        csv.writer(text, lineterminator="\n").writerows(
            [relation.columns, *relation.sorted().to_texts().rows()]
        )
        found[f"{number}.csv"] = text.getvalue()
    return found


def deltas(case: Case, folder: Path) -> dict[str, str]:
    """What the transactions of a change script change."""
    assert main(["stream", str(case.path), str(case.changes), "--deltas", str(folder), "--quiet"]) == 0
    return delta_texts(folder)


@pytest.mark.parametrize("case", GOOD, ids=lambda case: case.path.stem)
def test_case(case: Case, tmp_path: Path) -> None:
    assert outputs(case, tmp_path) == case.expected
    assert answers(case) == case.answers


@pytest.mark.parametrize("case", GOOD, ids=lambda case: case.path.stem)
def test_procedures(case: Case) -> None:
    program = case.program()
    reasoners = [tl.Reasoner(program, time=tl.TimeSettings(procedure)) for procedure in PROCEDURES]
    for name in sorted(program.timed):
        first, *others = [reasoner[name].sorted().to_texts().rows() for reasoner in reasoners]
        assert all(rows == first for rows in others)


@pytest.mark.parametrize("case", CHANGING, ids=lambda case: case.path.stem)
def test_changes(case: Case, tmp_path: Path) -> None:
    assert deltas(case, tmp_path / "deltas") == case.deltas


@pytest.mark.parametrize("case", [case for case in CASES if case.error], ids=lambda case: case.path.stem)
def test_error(case: Case) -> None:
    with pytest.raises(TidelogError) as caught:
        tl.Reasoner(case.program()).materialise()
    assert caught.value.diagnostics[0].code == case.error


def _write() -> None:
    for case in GOOD:
        folder = case.path.with_suffix("")
        folder.mkdir(exist_ok=True)
        outputs(case, folder)
        for name, text in answers(case).items():
            case.path.with_suffix(".answers").mkdir(exist_ok=True)
            (case.path.with_suffix(".answers") / name).write_text(text, encoding="utf-8")
        if case.changes.exists():
            deltas(case, case.path.with_suffix(".deltas"))


if __name__ == "__main__":
    _write()
