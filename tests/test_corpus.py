"""Every case of the corpus on every engine, with any number of threads."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path

import pytest

from tests.corpus import Case, Outcome, cases, delta_texts, run_columnar, run_reference
from tidelog.__main__ import main
from tidelog.engine.columnar.closures import maintained_closures
from tidelog.engine.columnar.interpreter import plan_runner
from tidelog.errors import TidelogError
from tidelog.logic.program import Program
from tidelog.maintenance.registry import MAINTAINERS

CASES = cases()
GOOD = [case for case in CASES if case.error is None]
BAD = [case for case in CASES if case.error is not None]
CHANGING = [case for case in GOOD if case.changes.exists()]

RUNS: dict[str, Callable[[Program], Outcome]] = {
    "reference": run_reference,
    "columnar": lambda program: run_columnar(program, threads=1),
    "columnar-by-rules": lambda program: run_columnar(program, threads=1, modules=False),
    "columnar-2-threads": lambda program: run_columnar(program, threads=2),
}

by_name = pytest.mark.parametrize("case", GOOD, ids=lambda case: case.name)
by_engine = pytest.mark.parametrize("engine", RUNS)


@cache
def program_of(case: Case) -> Program:
    return case.program()


@cache
def reference_outcome(case: Case) -> Outcome:
    return run_reference(program_of(case))


@pytest.fixture(autouse=True)
def small_runs_in_parallel(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let several threads share what one would do faster alone, and structures close what rules would."""
    monkeypatch.setattr(plan_runner, "PARALLEL_FROM", 1)
    monkeypatch.setattr(plan_runner, "EMITTED_ROWS", plan_runner.BATCH)
    monkeypatch.setattr(maintained_closures, "MIN_PAIRS", 0)


@by_engine
@by_name
def test_case(case: Case, engine: str) -> None:
    program = program_of(case)
    outcome = reference_outcome(case) if engine == "reference" else RUNS[engine](program)
    assert outcome.output == case.expected
    assert outcome.answers == case.answers
    assert outcome.facts == reference_outcome(case).facts


@by_engine
@pytest.mark.parametrize("case", BAD, ids=lambda case: case.name)
def test_case_with_an_error(case: Case, engine: str) -> None:
    with pytest.raises(TidelogError) as caught:
        RUNS[engine](case.program())
    assert caught.value.diagnostics[0].code == case.error


@by_name
def test_case_through_the_command_line(case: Case, tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    """The files are what is expected byte by byte, and the answers to queries are printed."""
    given = [part for name, value in case.parameters.items() for part in ("--param", f"{name}={value}")]
    code = main(
        ["run", str(case.path), "--output", str(tmp_path), "--format", "csv", "--terms", "plain", *given]
    )
    printed = capfd.readouterr()
    assert code == 0, printed.err
    written = {path.name: path.read_bytes().decode() for path in tmp_path.iterdir()}
    assert written == case.expected
    assert printed.out.count("?- ") == len(case.answers)


@pytest.mark.parametrize("more", [(), ("--no-modules",)], ids=["closures", "rules"])
@pytest.mark.parametrize("maintainer", MAINTAINERS)
@pytest.mark.parametrize("case", CHANGING, ids=lambda case: case.name)
def test_changes(
    case: Case, maintainer: str, more: tuple[str, ...], tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Every transaction changes what it should, and nothing else, whatever algorithm works it in."""
    folder = tmp_path / "deltas"
    files = str(case.path), str(case.changes)
    code = main(
        ["stream", *files, "--deltas", str(folder), "--terms", "plain", "--maintainer", maintainer, *more]
    )
    assert code == 0, capfd.readouterr().err
    assert delta_texts(folder) == case.deltas
    assert len(list(folder.iterdir())) == case.changes.read_text().count("@commit") + 1


@pytest.mark.parametrize("case", BAD, ids=lambda case: case.name)
def test_case_with_an_error_through_the_command_line(
    case: Case, tmp_path: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    code = main(["run", str(case.path), "--output", str(tmp_path / "out"), "--terms", "plain"])
    assert code == (3 if case.error in ("E601", "E605") else 1)
    assert f"error[{case.error}]" in capfd.readouterr().err
    assert not (tmp_path / "out").exists() or not list((tmp_path / "out").iterdir())


def test_the_corpus_is_large_and_every_case_asks_something() -> None:
    assert len(CASES) >= 160
    assert [case.name for case in GOOD if not case.expected and not case.answers] == []


WARNED = {"atoms/empty-predicate": ["W102"], "conditions/COALESCE": ["W105"], "kinds/ISFLOAT": ["W105"]}


@by_name
def test_case_is_free_of_warnings_unless_it_is_about_them(case: Case) -> None:
    assert [warning.code for warning in program_of(case).warnings] == WARNED.get(case.name, [])
