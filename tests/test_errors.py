"""Every diagnostic, to the letter: `tests/errors/<code>_<what>.rls` with the text it gives beside it.

`python tests/test_errors.py` writes the texts anew; read the difference before you commit it.
"""

from __future__ import annotations

import os
import re
from collections.abc import Mapping
from pathlib import Path

import pytest

from tidelog.errors import ProgramError, codes, render_all
from tidelog.logic.resolve import load

FOLDER = Path(__file__).parent / "errors"
FILES = sorted(FOLDER.glob("*.rls"))


def rendered(name: str) -> str:
    """All that is said of the program in a file of the current folder."""
    try:
        return render_all(load(name).warnings) + "\n"
    except ProgramError as error:
        return str(error) + "\n"


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_diagnostics_are_as_written(path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(FOLDER)
    text = rendered(path.name)
    assert text == path.with_suffix(".txt").read_text(encoding="utf-8")
    assert f"[{path.stem.partition('_')[0]}]" in text


@pytest.mark.parametrize("meanings", [codes.SYNTAX_MEANINGS, codes.LOGIC_MEANINGS], ids=["syntax", "logic"])
def test_every_code_has_an_example(meanings: Mapping[str, str]) -> None:
    defined = {code for code in meanings if re.fullmatch("[EW][1-4][0-9]{2}", code)}
    assert defined
    assert defined <= {path.stem.partition("_")[0] for path in FILES}


def test_every_code_has_a_meaning() -> None:
    named = {
        value for value in vars(codes).values() if isinstance(value, str) and re.fullmatch(r"[EW]\d+", value)
    }
    assert named == set(codes.MEANINGS)


if __name__ == "__main__":
    os.chdir(FOLDER)
    for file in FILES:
        file.with_suffix(".txt").write_text(rendered(file.name), encoding="utf-8")
