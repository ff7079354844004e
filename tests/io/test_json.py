"""JSON in: arrays and lines of objects and arrays, numbers as the language reads them."""

from __future__ import annotations

from collections.abc import Callable

import pytest

from tidelog.io.faults import Faults, OnError
from tidelog.logic.values import ColumnType as T

ReadRows = Callable[..., list[tuple[str, ...]]]
PAIR = (T.ANY, T.ANY)


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("x.json", '[{"from": "a", "to": 1},\n {"to": "b c", "from": 2.50, "more": []}]'),
        ("x.json", '[["a", 1], [2.50, "b c"]]'),
        ("x.jsonl", '{"from": "a", "to": 1}\n\n{"to": "b c", "from": 2.50}\n'),
        ("x.jsonl", '["a", 1]\r\n[2.50, "b c"]'),
    ],
)
@pytest.mark.parametrize("names", [(), ("from", "to")])
def test_rows(read_rows: ReadRows, name: str, text: str, names: tuple[str, ...]) -> None:
    assert read_rows(text, PAIR, name=name, names=names) == [("a", "1"), ("2.5", '"b c"')]


def test_objects_are_matched_by_declared_names(read_rows: ReadRows) -> None:
    assert read_rows('[{"to": 1, "from": 2}]', PAIR, name="x.json", names=("from", "to")) == [("2", "1")]


def test_numbers_are_read_as_the_language_reads_them(read_rows: ReadRows) -> None:
    text = "[1, 1.0, 1.5, 1e0, 123456789012345678901234567890, true]"
    rows = read_rows(text, (T.ANY,), name="x.json")
    assert rows == [("1",), ("1",), ("1.5",), ("1.0E0",), ("123456789012345678901234567890",), ("true",)]


def test_text_is_not_searched_for_numbers(read_rows: ReadRows) -> None:
    assert read_rows('["1", "a", "a b"]', (T.ANY,), name="x.json") == [('"1"',), ("a",), ('"a b"',)]


def test_declared_types(read_rows: ReadRows) -> None:
    rows = read_rows('[[1, "2", 3], [1.5, "4", 5]]', (T.DOUBLE, T.INTEGER, T.SKIP), name="x.json")
    assert rows == [("1.0E0", "2"), ("1.5E0", "4")]


def test_empty(read_rows: ReadRows) -> None:
    assert read_rows(" [ ] ", PAIR, name="x.json") == []
    assert read_rows("", PAIR, name="x.jsonl") == []


def test_bad_lines_are_skipped(read_rows: ReadRows) -> None:
    faults = Faults(OnError.SKIP)
    rows = read_rows("[1, 2]\n[1]\nno\n[3, null]\n[5, 6]\n", PAIR, name="x.jsonl", faults=faults)
    assert rows == [("1", "2"), ("5", "6")]
    assert faults.skipped == 3
