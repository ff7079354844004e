"""CSV and TSV in: types, headers, quotes, lines, limits; the kernels and the careful reading agree."""

from __future__ import annotations

import gzip
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

from tidelog.data.columns import Batch
from tidelog.errors import DataError
from tidelog.io import delimited
from tidelog.io.data_file import Header, InputFile
from tidelog.io.delimited import (
    Block,
    DelimitedLayout,
    _arrow_records,
    count_lines,
    ends_open,
    read_block,
    records,
)
from tidelog.io.reader import read
from tidelog.io.rejects import OnError, RejectedRows
from tidelog.logic.values import ColumnType as T

ReadRows = Callable[..., list[tuple[str, ...]]]
PAIR = (T.ANY, T.ANY)


# ---- types


def test_any_reads_each_text_as_the_term_it_looks_like(read_rows: ReadRows) -> None:
    assert read_rows('alice,12\nAlice Smith,2.50\n,"a ""b"""\n', PAIR) == [
        ("alice", "12"),
        ('"Alice Smith"', "2.5"),
        ('""', r'"a \"b\""'),
    ]


def test_strings_are_taken_as_they_are(read_rows: ReadRows) -> None:
    text = 'NULL,NA\n"",nan\n 1 ,true\n'
    assert read_rows(text, (T.STRING, T.STRING)) == [
        ('"NULL"', '"NA"'),
        ('""', '"nan"'),
        ('" 1 "', '"true"'),
    ]


@pytest.mark.parametrize(
    ("column_type", "texts", "expected"),
    [
        (T.INTEGER, "1 -2 +3 007 9223372036854775808", "1 -2 3 7 9223372036854775808"),
        (
            T.DOUBLE,
            "1 2.5 -0.0 1e3 INF",
            '1.0E0 2.5E0 0.0E0 1.0E3 "INF"^^<http://www.w3.org/2001/XMLSchema#double>',
        ),
        (T.DECIMAL, "1 2.50 .5 123456789012345678901.5", "1.0 2.5 0.5 123456789012345678901.5"),
        (T.BOOLEAN, "true false 1 0 True", "true false true false true"),
        (
            T.IRI,
            "alice https://e.org/x <https://e.org/y> _:b",
            "alice <https://e.org/x> <https://e.org/y> <_:b>",
        ),
        (T.TERM, 'alice <x:y> "s"@en 5 _:b', 'alice <x:y> "s"@en 5 <_:b>'),
    ],
)
def test_types_read_every_way_of_writing(
    read_rows: ReadRows, column_type: T, texts: str, expected: str
) -> None:
    content = "".join(f"{text}\n" for text in texts.split())
    rows = read_rows(content, (column_type,), quoting=False)
    assert rows == [(text,) for text in expected.split()]
    one_by_one = [row for text in texts.split() for row in read_rows(text, (column_type,), quoting=False)]
    assert one_by_one == rows


@pytest.mark.parametrize(
    "texts",
    [
        ("2020-01-31T12:00:00", "2020-01-31T12:00:00.5"),
        ("2020-01-31T12:00:00Z", "1969-12-31T23:59:59.999999Z"),
        ("2020-01-31T12:00:00Z", "2020-01-31T12:00:00", "2020-01-31T12:00:00+02:00"),
    ],
)
def test_date_times_keep_their_zones(read_rows: ReadRows, texts: tuple[str, ...]) -> None:
    datatype = "^^<http://www.w3.org/2001/XMLSchema#dateTime>"
    assert read_rows("\n".join(texts), (T.DATETIME,)) == [(f'"{text}"{datatype}',) for text in texts]


def test_dates(read_rows: ReadRows) -> None:
    datatype = "^^<http://www.w3.org/2001/XMLSchema#date>"
    texts = ("2020-02-29", "-0044-03-15", "12020-01-01")
    assert read_rows("\n".join(texts), (T.DATE,)) == [(f'"{text}"{datatype}',) for text in texts]
    assert read_rows(texts[0], (T.DATE,)) == [(f'"{texts[0]}"{datatype}',)]


def test_hexadecimal_digits_never_become_a_negative_number(read_rows: ReadRows) -> None:
    with pytest.raises(DataError, match="'0xffffffffffffffff' is not an integer"):
        read_rows("1,x\n0xffffffffffffffff,y\n", (T.INTEGER, T.ANY))


def test_typed_columns_are_arrow_columns(folder: Path) -> None:
    Path("t.csv").write_text("1,2.5,true,2020-01-01,2020-01-01T00:00:00Z,a\n")
    types = (T.INTEGER, T.DOUBLE, T.BOOLEAN, T.DATE, T.DATETIME, T.STRING)
    (batch,) = read(InputFile(Path("t.csv"), "csv", types))
    arrow = [pa.int64(), pa.float64(), pa.bool_(), pa.date32(), pa.timestamp("us", "UTC"), pa.string_view()]
    assert [column.values.type for column in batch.columns] == arrow
    assert [column.type for column in batch.columns] == list(types)


# ---- form


def test_skipped_columns(read_rows: ReadRows) -> None:
    assert read_rows("1,x,a\n2,y,b\n", (T.INTEGER, T.SKIP, T.STRING)) == [("1", '"a"'), ("2", '"b"')]


def test_without_types_the_first_row_tells_the_width(read_rows: ReadRows) -> None:
    assert read_rows("a,1,2\nb,3,4\n") == [("a", "1", "2"), ("b", "3", "4")]


@pytest.mark.parametrize("end", ["\n", "\r\n", "\r"])
def test_ends_of_lines(read_rows: ReadRows, end: str) -> None:
    assert read_rows(end.join(["a,b", "", "c,d", "", ""]), PAIR) == [("a", "b"), ("c", "d")]


def test_no_rows(read_rows: ReadRows) -> None:
    assert read_rows("", PAIR) == []
    assert read_rows("\n\n", PAIR) == []
    assert read_rows("from,to\n", PAIR, header=Header.NAMES, names=("from", "to")) == []


def test_byte_order_mark(read_rows: ReadRows) -> None:
    assert read_rows(b"\xef\xbb\xbfa,b\n", PAIR) == [("a", "b")]


def test_tabs_and_other_delimiters(read_rows: ReadRows) -> None:
    assert read_rows("a,b\tc\n", PAIR, name="e.tsv", delimiter="\t") == [("<a,b>", "c")]
    assert read_rows("a|b;c\n", PAIR, delimiter="|") == [("a", "<b;c>")]


def test_quotes_hold_delimiters_and_lines(read_rows: ReadRows) -> None:
    assert read_rows('"a,b","c\nd"\n"say ""hi""",5" pipe\n', (T.STRING, T.STRING)) == [
        ('"a,b"', r'"c\nd"'),
        (r'"say \"hi\""', r'"5\" pipe"'),
    ]


def test_quotes_are_text_without_quoting(read_rows: ReadRows) -> None:
    assert read_rows('"a,b"\n', (T.STRING, T.STRING), quoting=False) == [(r'"\"a"', r'"b\""')]


def test_limit(read_rows: ReadRows) -> None:
    text = "".join(f"{number},x\n" for number in range(50))
    assert read_rows(text, PAIR, limit=2) == [("0", "x"), ("1", "x")]
    assert read_rows(text, PAIR, limit=0) == []
    assert len(read_rows(text, PAIR, limit=100)) == 50


def test_limit_counts_over_blocks(read_rows: ReadRows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited, "BLOCK", 16)
    text = "".join(f"{number},x\n" for number in range(50))
    assert len(read_rows(text, PAIR, limit=33)) == 33


def test_gzip(read_rows: ReadRows) -> None:
    assert read_rows(gzip.compress(b"a,b\n"), PAIR, compressed=True) == [("a", "b")]


def test_nullary(read_rows: ReadRows) -> None:
    assert read_rows("holds\ntrue\n", (), header=Header.DETECTED) == [()]
    assert read_rows("holds\n", (), header=Header.DETECTED) == []
    assert read_rows("true\ntrue\n", ()) == [()]


# ---- headers


@pytest.mark.parametrize("header", [Header.NAMES, Header.DETECTED])
def test_declared_columns_are_found_by_name(read_rows: ReadRows, header: Header) -> None:
    text = "to,note,from\n2,x,1\n"
    types = (T.INTEGER, T.INTEGER)
    assert read_rows(text, types, header=header, names=("from", "to")) == [("1", "2")]


def test_header_without_declared_names_is_by_position(read_rows: ReadRows) -> None:
    assert read_rows("x,y\n1,2\n", PAIR, header=Header.NAMES) == [("1", "2")]


def test_ignored_header_is_by_position(read_rows: ReadRows) -> None:
    assert read_rows("to,from\n1,2\n", PAIR, header=Header.IGNORED, names=("from", "to")) == [("1", "2")]


def test_detected_header_must_name_all_columns(read_rows: ReadRows) -> None:
    text = "from,target\n1,2\n"
    rows = read_rows(text, PAIR, header=Header.DETECTED, names=("from", "to"))
    assert rows == [("from", "target"), ("1", "2")]


def test_numbered_header_is_detected(read_rows: ReadRows) -> None:
    assert read_rows("c1,c2\n1,2\n", PAIR, header=Header.DETECTED, names=(None, None)) == [("1", "2")]
    assert read_rows("c1,c2\n1,2\n", header=Header.DETECTED) == [("1", "2")]


# ---- the careful reading


@settings(max_examples=200, deadline=None)
@given(st.text('abé",;\n\r', max_size=24), st.integers(1, 3))
@example('"x"y"z",b\n', 2)
@example('"a""', 1)
def test_records_are_those_of_arrow(text: str, width: int) -> None:
    block = text.encode()
    layout = DelimitedLayout((T.STRING,) * width, tuple(range(width)))
    file = InputFile(None, "csv", layout.types)
    fast = _arrow_records(Block(block, 1), layout, file, 1)
    faults = RejectedRows(OnError.SKIP)
    careful = read_block(Block(block, 1), layout, file, faults)
    if fast is not None and not ends_open(block, b","):
        assert [column.to_pylist() for column in fast.texts] == _texts(careful)
        assert faults.skipped == 0
    elif fast is None and block.strip(b"\r\n"):
        assert faults.skipped > 0


def _texts(batch: Batch) -> list[list[Any]]:
    return [column.values.to_pylist() for column in batch.columns]


@settings(max_examples=200, deadline=None)
@given(st.text('a",\n\r', max_size=24))
def test_open_ends_are_found_by_pairs_of_quotes_or_by_reading(text: str) -> None:
    block = text.encode()
    last = [record.closed for record in records(block, b",", True)]
    assert ends_open(block, b",") == (not all(last))


@settings(max_examples=200, deadline=None)
@given(st.text("a\n\r", max_size=24))
def test_lines_are_counted_as_python_splits_them(text: str) -> None:
    block = text.encode()
    assert count_lines(block) == len((block + b"x").splitlines()) - 1


ROWS = st.lists(
    st.tuples(st.text(max_size=8).filter(lambda t: "\x00" not in t), st.integers(-(2**70), 2**70)),
    max_size=20,
)


@settings(max_examples=50, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(ROWS, st.sampled_from([8, 64, 1 << 20]), st.integers(1, 3))
def test_any_blocks_any_threads_the_same_rows(
    read_rows: ReadRows, rows: list[tuple[str, int]], size: int, threads: int
) -> None:
    def field(text: str) -> str:
        doubled = text.replace('"', '""')
        return f'"{doubled}"'

    content = "".join(f"{field(text)},{number}\n" for text, number in rows)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(delimited, "BLOCK", size)
        found = read_rows(content, (T.STRING, T.INTEGER), threads=threads)
    assert [int(number) for _, number in found] == [number for _, number in rows]
    assert found == read_rows(content, (T.STRING, T.INTEGER))


def test_empty_lines_before_the_header(read_rows: ReadRows, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(delimited, "BLOCK", 1)
    text = "\n\n\nto,from\n1,2\n"
    assert read_rows(text, PAIR, header=Header.NAMES, names=("from", "to")) == [("2", "1")]
    with pytest.raises(DataError, match=r"the header has no column `x`\n  --> edge.csv:4"):
        read_rows(text, PAIR, header=Header.NAMES, names=("x", "to"))
