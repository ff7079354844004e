"""The printer: what it prints reads back as the same tree, and printing again changes nothing."""

from __future__ import annotations

from hypothesis import given, settings

from tests.syntax import trees
from tidelog.syntax.ast import Document
from tidelog.syntax.parser import parse_text
from tidelog.syntax.printer import print_document


@settings(max_examples=300)
@given(trees.DOCUMENTS)
def test_printed_trees_read_back(document: Document) -> None:
    text = print_document(document)
    assert parse_text(text) == document
    assert print_document(parse_text(text)) == text
