"""Every diagnostic of change scripts, to the letter: `errors/<code>_<what>.rls` with its text beside it.

`python -m tests.changes.test_errors` writes the texts anew; read the difference before you commit it.
"""

from __future__ import annotations

from pathlib import Path

import pytest

import tidelog as tl

FAMILY = """
    parent(ada, bruno) .
    parent(bruno, dora) .
    ancestor(?x, ?y) :- parent(?x, ?y) .
    ancestor(?x, ?z) :- ancestor(?x, ?y), parent(?y, ?z) .
"""
FILES = sorted((Path(__file__).parent / "errors").glob("*.rls"))


def rendered(path: Path) -> str:
    """All that is said of the script in a file."""
    reasoner = tl.Reasoner(tl.parse(FAMILY))
    before = {name: set(reasoner[name]) for name in reasoner}
    try:
        reasoner.apply(path.read_text(encoding="utf-8"), name=path.name)
    except tl.TidelogError as error:
        assert {name: set(reasoner[name]) for name in reasoner} == before
        return f"{error}\n"
    return ""


@pytest.mark.parametrize("path", FILES, ids=[path.stem for path in FILES])
def test_diagnostics_are_as_written(path: Path) -> None:
    text = rendered(path)
    assert text == path.with_suffix(".txt").read_text(encoding="utf-8")
    assert f"[{path.stem.partition('_')[0]}]" in text


if __name__ == "__main__":
    for file in FILES:
        file.with_suffix(".txt").write_text(rendered(file), encoding="utf-8")
