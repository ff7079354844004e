"""Any text at all gives a tree or a `ProgramError` with diagnostics that can be shown."""

from __future__ import annotations

from pathlib import Path

import hypothesis.strategies as st
from hypothesis import example, given, settings
from hypothesis.strategies import DrawFn

from tidelog.errors import ProgramError, SourceText
from tidelog.syntax.parser import parse, parse_literals
from tidelog.syntax.printer import print_document

FOLDER = Path(__file__).parent
FILES = (FOLDER / "examples.rls", *sorted((FOLDER.parent / "errors").glob("E1*.rls")))
TEXTS = [path.read_text(encoding="utf-8") for path in FILES if "E118" not in path.name]
CHARACTERS = st.sampled_from("\"'\\{}[]()<>.,:;?!@#$%^&*-+=/~_| \n\tab0f1e\r\x00é≤😀") | st.characters()


@st.composite
def changed_texts(draw: DrawFn) -> str:
    """A part of an example with a few characters put in or taken out."""
    text = draw(st.sampled_from(TEXTS))
    start = draw(st.integers(0, len(text)))
    text = text[start : start + draw(st.integers(1, 150))]
    for _ in range(draw(st.integers(0, 4))):
        place = draw(st.integers(0, len(text)))
        text = text[:place] + draw(st.text(CHARACTERS, max_size=3)) + text[place + draw(st.integers(0, 3)) :]
    return text


def check(text: str) -> None:
    source = SourceText("<text>", text)
    try:
        document = parse(source)
    except ProgramError as error:
        check_diagnostics(error, text)
    else:
        printed = print_document(document)
        again = parse(SourceText("<printed>", printed))
        assert again == document
        assert print_document(again) == printed
    try:
        parse_literals(source)
    except ProgramError as error:
        check_diagnostics(error, text)


def check_diagnostics(error: ProgramError, text: str) -> None:
    assert error.diagnostics
    assert str(error)
    for fault in error.diagnostics:
        assert fault.code.startswith("E1")
        assert fault.span is not None
        assert 0 <= fault.span.start <= fault.span.end <= len(text) + 1
        assert fault.to_json()


@settings(max_examples=400, deadline=None)
@given(st.text(CHARACTERS, max_size=40))
@example("1., 2) .")
@example("p(a) :- ")
@example('f"{')
@example("-")
@example("@")
@example("p(a)\n")
def test_random_texts(text: str) -> None:
    check(text)


@settings(max_examples=400, deadline=None)
@given(changed_texts())
def test_changed_examples(text: str) -> None:
    check(text)
