"""JSON in: arrays and lines of objects and arrays, numbers as the language reads them."""

from __future__ import annotations

import json
from collections.abc import Callable

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidelog.errors import DataError
from tidelog.io import json_files
from tidelog.io.rejects import OnError, RejectedRows
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
    assert rows == [("1",), ("1.0",), ("1.5",), ("1.0E0",), ("123456789012345678901234567890",), ("true",)]


def test_text_is_not_searched_for_numbers(read_rows: ReadRows) -> None:
    assert read_rows('["1", "a", "a b"]', (T.ANY,), name="x.json") == [('"1"',), ("a",), ('"a b"',)]


def test_declared_types(read_rows: ReadRows) -> None:
    rows = read_rows('[[1, "2", 3], [1.5, "4", 5]]', (T.DOUBLE, T.INTEGER, T.SKIP), name="x.json")
    assert rows == [("1.0E0", "2"), ("1.5E0", "4")]


def test_empty(read_rows: ReadRows) -> None:
    assert read_rows(" [ ] ", PAIR, name="x.json") == []
    assert read_rows("", PAIR, name="x.jsonl") == []


def test_bad_lines_are_skipped(read_rows: ReadRows) -> None:
    faults = RejectedRows(OnError.SKIP)
    rows = read_rows("[1, 2]\n[1]\nno\n[3, null]\n[5, 6]\n", PAIR, name="x.jsonl", faults=faults)
    assert rows == [("1", "2"), ("5", "6")]
    assert faults.skipped == 3


VALUES = st.one_of(
    st.text(max_size=4),
    st.integers(-(2**65), 2**65),
    st.booleans(),
    st.none(),
    st.floats(allow_nan=False),
    st.lists(st.integers(), max_size=1),
)
KINDS = (T.ANY, T.STRING, T.INTEGER, T.DOUBLE, T.BOOLEAN, T.DECIMAL)
SAME = st.sampled_from([st.text(max_size=4), st.integers(-9, 9), st.booleans(), VALUES])
OBJECTS = SAME.flatmap(lambda values: st.lists(st.fixed_dictionaries({"a": values, "b": values}), max_size=6))
WHOLE = st.integers(-(10**19), 10**19).map(str)
POINTED = st.builds(
    "{}.{}".format, st.integers(-(10**9), 10**9), st.text("0123456789", min_size=1, max_size=19)
)
RAISED = st.builds(
    "{}{}{}".format, st.one_of(WHOLE, POINTED), st.sampled_from(["e", "E+", "e-"]), st.integers(0, 320)
)
STRANGE = st.sampled_from(
    [
        '"1.5"',
        '" 1.50 "',
        '"1e3"',
        '"x"',
        "null",
        "true",
        '"a\\": 1.5,"',
        '{"a": 1.5}',
        "[1.5]",
        '{"@id": "x"}',
        "-0.0",
    ]
)
WRITTEN = st.sampled_from(
    [POINTED, RAISED, WHOLE, st.one_of(POINTED, WHOLE), st.one_of(POINTED, RAISED, STRANGE), STRANGE]
)
LINES = WRITTEN.flatmap(
    lambda values: st.lists(
        st.builds(
            "{{{}: {}, {}:{} }}".format,
            st.sampled_from(['"a"', '"a"', '"a"', '"\\u0061"', '"x\\"a"']),
            values,
            st.sampled_from(['"b"', '"b"', '"b"', '"a"']),
            values,
        ),
        max_size=6,
    )
)


@settings(
    max_examples=3 * settings().max_examples, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(LINES, st.sampled_from([T.ANY, T.DECIMAL, T("decimal(9, 2)"), T.DOUBLE]))
def test_numbers_are_read_as_they_are_written(read_rows: ReadRows, lines: list[str], kind: T) -> None:
    fast, slow = RejectedRows(OnError.SKIP), RejectedRows(OnError.SKIP)
    text, names = "\n".join(lines), ("a", "b")
    rows = read_rows(text, (kind, kind), name="x.jsonl", faults=fast, names=names)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(json_files, "parse_objects", lambda *_: None)
        assert rows == read_rows(text, (kind, kind), name="x.jsonl", faults=slow, names=names)
    assert fast.skipped == slow.skipped


def test_plain_numbers_are_not_left_to_python(read_rows: ReadRows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_files, "_line_items", None)
    text = '{"a": 1.50, "b": 1.5e3}\n{"b": 2E0, "a": 0.25}\n'
    for kinds in ((T.ANY, T.ANY), (T.DECIMAL, T.DOUBLE), (T("decimal(4, 2)"), T.ANY)):
        assert read_rows(text, kinds, name="x.jsonl", names=("a", "b")) == [
            ("1.5", "1.5E3"),
            ("0.25", "2.0E0"),
        ]


@settings(max_examples=80, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(
    OBJECTS, st.sampled_from([T.ANY, T.STRING, T.INTEGER, T.DOUBLE, T.BOOLEAN, T.DECIMAL]), st.integers(1, 2)
)
def test_lines_parsed_by_arrow_are_those_read_one_by_one(
    read_rows: ReadRows, objects: list[dict[str, object]], kind: T, threads: int
) -> None:
    lines = [json.dumps(item) for item in objects]
    text, array = "\n".join(lines), "[" + ",".join(lines) + "]"
    fast, slow = RejectedRows(OnError.SKIP), RejectedRows(OnError.SKIP)
    rows = read_rows(text, (kind, kind), name="x.jsonl", faults=fast, threads=threads)
    assert rows == read_rows(array, (kind, kind), name="x.json", faults=slow)
    assert fast.skipped == slow.skipped


@pytest.mark.parametrize(
    "text",
    ['{"a": 1, "b": 2} {"a": 3, "b": 4}', '{"a": 1,\n"b": 2}', '{"a": 1, "b": 2} x'],
)
def test_each_line_holds_one_value(read_rows: ReadRows, text: str) -> None:
    with pytest.raises(DataError, match="E506"):
        read_rows('{"a": 1, "b": 2}\n' + text, PAIR, name="x.jsonl")


def test_lines_are_right_over_blocks(read_rows: ReadRows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(json_files, "_BLOCK", 40)
    lines = [f'{{"a": {number}, "b": "x"}}\n' for number in range(30)]
    lines[20] = "\n{}\n"
    with pytest.raises(DataError, match=r"x.jsonl:22"):
        read_rows("".join(lines), PAIR, name="x.jsonl")
    faults = RejectedRows(OnError.SKIP)
    assert len(read_rows("".join(lines), PAIR, name="x.jsonl", faults=faults)) == 29
