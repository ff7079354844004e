"""Fixtures: a working folder of one's own, and the command line run in this process."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tidelog.__main__ import main

FAMILY = """\
parent(alice, bob) .
parent(bob, carol) .
ancestor(?x, ?y) :- parent(?x, ?y) .
ancestor(?x, ?z) :- ancestor(?x, ?y), parent(?y, ?z) .
"""


@dataclass(frozen=True)
class Done:
    """What a command did: its exit code, and what it said where."""

    code: int
    raw: bytes
    error: str

    @property
    def output(self) -> str:
        """Standard output as text."""
        return self.raw.decode()

    @property
    def json(self) -> Any:
        """Standard output as JSON."""
        return json.loads(self.raw)


Tidelog = Callable[..., Done]
Write = Callable[[str, str], Path]


@pytest.fixture(autouse=True)
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Path]:
    """The working folder of the test, with a program in it, so that messages show short paths."""
    monkeypatch.chdir(tmp_path)
    (tmp_path / "family.rls").write_text(FAMILY)
    yield tmp_path


@pytest.fixture
def tidelog(capfdbinary: pytest.CaptureFixture[bytes]) -> Tidelog:
    """The command line, run in this process."""

    def run(*arguments: str) -> Done:
        code = main(arguments)
        captured = capfdbinary.readouterr()
        return Done(code, captured.out, captured.err.decode())

    return run


@pytest.fixture
def write(folder: Path) -> Write:
    """A file written into the working folder."""

    def written(name: str, text: str) -> Path:
        path = folder / name
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(text)
        return path

    return written
