"""Syntax errors to the letter, as `tests/errors/E1*.txt` has them."""

from __future__ import annotations

from pathlib import Path

import pytest

from tidelog.errors import ProgramError, SourceText, codes
from tidelog.syntax.parser import parse

FILES = sorted((Path(__file__).parent.parent / "errors").glob("E1*.rls"))


def rendered(path: Path) -> str:
    with pytest.raises(ProgramError) as raised:
        parse(SourceText(path.name, path.read_text(encoding="utf-8")))
    return f"{raised.value}\n"


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_syntax_errors_are_as_written(path: Path) -> None:
    assert rendered(path) == path.with_suffix(".txt").read_text(encoding="utf-8")


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_each_file_shows_its_own_code_only(path: Path) -> None:
    with pytest.raises(ProgramError) as raised:
        parse(SourceText(path.name, path.read_text(encoding="utf-8")))
    assert {fault.code for fault in raised.value.diagnostics} == {path.stem.partition("_")[0]}


def test_every_code_has_a_meaning_and_an_example() -> None:
    assert set(codes.SYNTAX_MEANINGS) == {path.stem.partition("_")[0] for path in FILES}
