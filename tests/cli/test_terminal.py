"""Text from data, programs and file names never acts on a terminal; into pipes data goes as it is."""

from __future__ import annotations

import io
import re
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.__main__ import main
from tidelog.errors import Diagnostic, Label, SourceText, Span, render, visible, visible_lines

BAD = "\x1b]0;title\x07\x1b[31m\x9b1m\u202eevil\u2066\x7f"
OWN = re.compile(r"\x1b\[[0-9;]*m|\r\x1b\[2K")  # colours, and the line of progress
ACTS = re.compile(
    "[\x00-\x08\x0b-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069\ud800-\udfff\ufeff]"
)


class Terminal(io.TextIOWrapper):
    """A stream that says that it is a terminal."""

    def __init__(self) -> None:
        super().__init__(io.BytesIO(), encoding="utf-8", write_through=True)

    def isatty(self) -> bool:
        return True

    @property
    def text(self) -> str:
        self.flush()
        assert isinstance(self.buffer, io.BytesIO)
        return self.buffer.getvalue().decode()


@pytest.fixture
def work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.chdir(tmp_path)
    Path("a.csv").write_text(f"x{BAD},1\ny,2\n", encoding="utf-8")
    Path("bad.csv").write_text(f"x,{BAD}\n", encoding="utf-8")
    Path(f"n{BAD.replace('/', '')}.rls").write_text("p(", encoding="utf-8")
    Path("p.rls").write_text(
        '@import e :- csv { resource = "a.csv" } . #[name("' + BAD + '")] q(?x, ?y) :- e(?x, ?y) .\n'
        f'p("{BAD}") . @output q . @output p . ?- q(?x, ?y) .\n',
        encoding="utf-8",
    )
    Path("broken.rls").write_text(f'p("{BAD}" "{BAD}") . %{BAD}\n q{BAD}(a) .', encoding="utf-8")
    Path("typed.rls").write_text(
        '@declare e(x: any, y: int) . @import e :- csv { resource = "bad.csv" } . q(?x) :- e(?x, _) .',
        encoding="utf-8",
    )
    Path("c.changes").write_text(f'+ p("{BAD}") .\n- p("{BAD}{BAD}") .\n', encoding="utf-8")
    return tmp_path


COMMANDS = [
    ["run", "p.rls"],
    ["run", "p.rls", "--stats"],
    ["run", "p.rls", "--format", "json"],
    ["run", "p.rls", "--format", "jsonl"],
    ["run", "p.rls", "--output", f"out{BAD}"],
    ["run", "broken.rls"],
    ["run", "typed.rls"],
    ["run", f"missing{BAD}.rls"],
    ["run", f"n{BAD}.rls"],
    ["run", "p.rls", f"--{BAD}"],
    ["run", "p.rls", "--format", BAD],
    ["check", "p.rls"],
    ["check", "broken.rls"],
    ["format", "p.rls", "--diff"],
    ["query", "p.rls", "q(?x, ?y)"],
    ["query", "p.rls", "q(?x, ?y)", "--format", "csv"],
    ["query", "p.rls", f"nothing(?x, {BAD})"],
    ["explain", "p.rls", "q(?x, 1)"],
    ["explain", "p.rls", f'q("{BAD}", 1)'],
    ["plan", "p.rls"],
    ["profile", "p.rls"],
    ["stream", "p.rls", "c.changes"],
    [BAD],
]


@pytest.mark.parametrize("arguments", COMMANDS, ids=lambda arguments: visible(" ".join(arguments)))
def test_nothing_acts_on_a_terminal(
    arguments: list[str], work: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    output, errors = Terminal(), Terminal()
    monkeypatch.setattr(sys, "stdout", output)
    monkeypatch.setattr(sys, "stderr", errors)
    monkeypatch.setenv("TERM", "xterm")
    main(arguments)
    for stream in (output, errors):
        assert ACTS.findall(OWN.sub("", stream.text)) == []
    assert output.text + errors.text


def test_data_in_pipes_is_exact(work: Path, capfdbinary: pytest.CaptureFixture[bytes]) -> None:
    assert main(["query", "p.rls", "q(?x, 1)", "--format", "csv"]) == 0
    assert BAD.encode() in capfdbinary.readouterr().out


@given(st.text(), st.text(), st.text(), st.integers(0, 40), st.integers(0, 40))
def test_diagnostics_never_act(message: str, text: str, name: str, start: int, length: int) -> None:
    start = min(start, len(text))
    span = Span(SourceText(name, text), start, min(start + length, len(text)))
    fault = Diagnostic("E101", message, span, message, (Label(span, message),), place=name)
    assert ACTS.findall(render(fault)) == []
    render(fault).encode()
    assert ACTS.findall(render(Diagnostic("E101", message, place=name))) == []


@given(st.text(st.characters(exclude_categories=["Cc", "Cf", "Cs", "Zl", "Zp", "Cn"])))
def test_text_that_does_not_act_is_as_it_is(text: str) -> None:
    assert visible(text) == visible_lines(text) == text


def test_marks_stand_under_what_is_shown() -> None:
    text = "a\x1bb?\tX"
    shown = render(Diagnostic("E101", "m", Span(SourceText("s", text), 3, 4))).splitlines()
    assert shown[-2:] == ["1 | a\\x1bb?\tX", "  |       ^"]
