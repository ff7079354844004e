"""Texts of typed columns: kernels read them, and refuse them, as the definition does one by one."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.logic.conftest import all_values

import tidelog as tl
from tidelog.data.columns import NULL, Column, read_plain_texts, read_texts
from tidelog.data.dictionary import Dictionary, packed
from tidelog.io.data_file import InputFile
from tidelog.io.delimited import Block, DelimitedLayout, _any_records, _batch, _plain_records
from tidelog.io.rejects import OnError, RejectedRows
from tidelog.logic.conversions import exact, plain, read_any, read_typed
from tidelog.logic.import_options import Nulls
from tidelog.logic.values import ColumnType as T
from tidelog.logic.values import Kind, Value, decimal_of_text

NUMBERS = (T.INTEGER, T.DECIMAL, T("decimal(6, 2)"), T("decimal(38, 20)"), T("decimal(3, 3)"), T.DOUBLE)
TIMES = (T.DATE, T.DATETIME, T.LOCAL_DATETIME)
TYPES = (*NUMBERS, *TIMES, T.BOOLEAN, T.IRI, T.TERM)
SIGNS = st.sampled_from(["", "-", "+"])
DIGITS = st.text("0123456789", max_size=21)
WRITTEN = st.one_of(
    st.builds(lambda sign, whole: sign + whole, SIGNS, DIGITS),
    st.builds(lambda sign, whole, part: f"{sign}{whole}.{part}", SIGNS, DIGITS, DIGITS),
    st.builds(
        lambda sign, whole, part, mark, up, power: f"{sign}{whole}.{part}{mark}{up}{power}",
        SIGNS,
        DIGITS,
        st.text("0123456789", max_size=9),
        st.sampled_from("eE"),
        SIGNS,
        st.one_of(st.integers(0, 400).map(str), st.sampled_from(["", "00", "022", "1000"])),
    ),
    st.floats().map(repr),
    st.integers(-(2**65), 2**65).map(str),
)
MOMENTS = st.builds(
    "".join,
    st.tuples(
        st.sampled_from(["", "-", "1"]),
        st.sampled_from(["0000", "0004", "1600", "1900", "1970", "2000", "2023", "2024", "9999", "99"]),
        st.just("-"),
        st.integers(0, 13).map("{:02}".format),
        st.just("-"),
        st.integers(0, 32).map("{:02}".format),
        st.one_of(
            st.just(""),
            st.builds(
                "T{:02}:{:02}:{:02}{}{}".format,
                st.integers(0, 25),
                st.integers(0, 60),
                st.integers(0, 60),
                st.sampled_from(["", ".", ".5", ".123456", ".1234560", ".1234567", ".000001"]),
                st.sampled_from(["", "Z", "+00:00", "-00:30", "+14:00", "+14:01", "-05:60", "z", "+5:00"]),
            ),
        ),
    ),
)
OTHERS = st.one_of(
    st.sampled_from(
        [
            "",
            " ",
            "true",
            "FALSE",
            "tRuE",
            "1",
            "0",
            "yes",
            "abc",
            "_:b",
            "<a>",
            "a b",
            "é",
            "a\x00",
            "_:",
            "_",
        ]
    ),
    all_values().map(plain),
    all_values().map(exact),
    st.text('0159.-+eETZ:_x <>"\t\u00a0é', max_size=12),
)
SPACED = st.builds(
    lambda before, text, after: before + text + after,
    st.sampled_from(["", "", "", " ", "\t", "\u2003"]),
    st.one_of(WRITTEN, MOMENTS, OTHERS),
    st.sampled_from(["", "", "", " ", "  ", "\r"]),
)
TEXTS = st.lists(SPACED, max_size=12)
FORMS = st.sampled_from([pa.string(), pa.large_string(), pa.string_view()])


def _read_one(text: str, column: T) -> Value | str:
    try:
        return read_typed(text, column)
    except ValueError as reason:
        return str(reason)


@settings(max_examples=5 * settings().max_examples)
@given(TEXTS, st.sampled_from(TYPES), FORMS, st.integers(0, 2))
def test_texts_are_read_as_one_by_one(texts: list[str], column: T, form: pa.DataType, cut: int) -> None:
    """Reasons and values, also of part of an array, and the ids that a dictionary gives to them."""
    array = pa.array(texts, pa.string()).cast(form).slice(cut)
    read = read_texts(array, column)
    expected = [_read_one(text, column) for text in texts[cut:]]
    assert read.reasons == {at: one for at, one in enumerate(expected) if isinstance(one, str)}
    assert read.empty == {at for at, text in enumerate(texts[cut:]) if _is_empty(text, column)}
    assert _values(read.column, [at for at in range(len(expected)) if at not in read.reasons]) == [
        one for one in expected if isinstance(one, Value)
    ]


def _is_empty(text: str, column: T) -> bool:
    return not text.strip(" \t\n\r\f\v" if column is T.IRI else None)  # IRIs may hold other white space


def _values(column: Column, rows: list[int]) -> list[Value]:
    values = column.values.cast(pa.string()) if column.values.type == pa.string_view() else column.values
    chosen = replace(column, values=values.take(pa.array(rows, pa.int64())))
    dictionary = Dictionary()
    ids = dictionary.encode_column(chosen)
    return [dictionary.decode(identity) for identity in ids.tolist()]


@given(TEXTS, st.sampled_from(TYPES))
def test_an_empty_text_may_be_a_value(texts: list[str], column: T) -> None:
    read = read_texts(pa.array(texts, pa.string()), column, keeps_nulls=True)
    expected = [NULL if _is_empty(text, column) else _read_one(text, column) for text in texts]
    assert read.reasons == {at: one for at, one in enumerate(expected) if isinstance(one, str)}
    assert _values(read.column, [at for at in range(len(texts)) if at not in read.reasons]) == [
        one for one in expected if isinstance(one, Value)
    ]


@given(st.lists(st.decimals(allow_nan=False, allow_infinity=False, places=4).map("{:f}".format), max_size=9))
def test_plain_decimals_are_not_left_to_python(texts: list[str]) -> None:
    read = read_plain_texts(pa.array(texts, pa.string()), T.DECIMAL)
    values = [packed(decimal_of_text(text)) if len(text) < 19 else None for text in texts]
    assert set(read.listed.tolist()) <= {at for at, value in enumerate(values) if value is None}
    pairs = list(zip(read.values.tolist(), read.extras.tolist(), strict=True))
    assert all(value in (None, pair) for value, pair in zip(values, pairs, strict=True))


@given(
    st.lists(st.floats(allow_nan=False, allow_infinity=False, allow_subnormal=False).map(repr), max_size=9)
)
def test_usual_doubles_are_not_left_to_python(texts: list[str]) -> None:
    read = read_plain_texts(pa.array(texts, pa.string()), T.DOUBLE)
    assert all(not 1e-200 < abs(float(texts[at])) < 1e200 for at in read.listed.tolist())
    read_ones = np.setdiff1d(np.arange(len(texts)), read.listed)
    assert read.values.view(np.float64)[read_ones].tolist() == [float(texts[at]) for at in read_ones.tolist()]


FIELDS = st.one_of(
    SPACED,
    st.text(max_size=6),
    st.sampled_from(
        ["2020-01-01", "1.2.3", "+", "-a", "5.", ".5", "1-2", "a b", "é", "a é", "\x1fa", "\u2003a"]
    ),
)


@settings(max_examples=3 * settings().max_examples)
@given(st.lists(FIELDS, max_size=12), st.booleans())
def test_fields_are_read_as_one_by_one(fields: list[str], is_view: bool) -> None:
    dictionary = Dictionary()
    array = pa.array(fields, pa.string_view() if is_view else pa.string())
    ids = dictionary.encode_any(array, parse_numbers=True)
    assert [dictionary.decode(identity) for identity in ids.tolist()] == list(map(read_any, fields))


# ---- decimals of Arrow


@given(st.data())
def test_decimals_of_arrow_are_their_shortest_form(data: st.DataObject) -> None:
    scale = data.draw(st.integers(0, 38))
    make = pa.decimal128 if data.draw(st.booleans()) else pa.decimal256
    bound = 10 ** data.draw(st.sampled_from([0, 3, 18, 19, 38])) - 1
    numbers = data.draw(st.lists(st.integers(-bound, bound), max_size=9))
    texts = [_with_point(number, scale) for number in numbers]
    array = pc.cast(pa.array(texts, pa.string()), make(38, scale))
    assert _values(Column(T.DECIMAL, array), list(range(len(texts)))) == list(map(decimal_of_text, texts))


def _with_point(number: int, scale: int) -> str:
    digits = str(abs(number)).rjust(scale + 1, "0")
    whole, part = digits[: len(digits) - scale], digits[len(digits) - scale :]
    return f"{'-' if number < 0 else ''}{whole}.{part}"


# ---- numbers in blocks

KINDS = st.sampled_from([Kind.INTEGER, Kind.DECIMAL, Kind.DATETIME, Kind.DATE])


@given(st.lists(st.tuples(KINDS, st.lists(st.integers(-3, 90), max_size=99), st.booleans()), max_size=6))
def test_numbers_have_one_id_each(drawn: list[tuple[Kind, list[int], bool]]) -> None:
    """Repeated, sorted and mixed numbers of several kinds, with one extra or one each."""
    dictionary, seen = Dictionary(), dict[tuple[Kind, int, int], int]()
    for kind, numbers, is_sorted in drawn:
        payloads = np.array(sorted(numbers) if is_sorted else numbers, np.int64)
        has_extras = kind in (Kind.DECIMAL, Kind.DATETIME)
        extras = (payloads % 3).astype(np.int32) if has_extras else np.zeros(len(payloads), np.int32)
        ids = dictionary.encode_numbers(kind, payloads, extras if has_extras else 0)
        for payload, extra, identity in zip(payloads.tolist(), extras.tolist(), ids.tolist(), strict=True):
            assert seen.setdefault((kind, payload, extra), identity) == identity
            assert (dictionary.kind[identity], dictionary.payload[identity]) == (kind, payload)
            assert dictionary.extra[identity] == extra
    assert len(dictionary) == len(seen) == len(set(seen.values()))


# ---- bad rows

CELLS = st.one_of(
    st.sampled_from(
        ["7", "-12", "2020-01-31", "2020-02-30", "1.50", "1e3", "x", "", " ", "a b", "12345678901234567890"]
    ),
    SPACED.filter(lambda text: not set(text) & set('",\r\n')),
)
LAYOUT = (T.INTEGER, T.DATE, T.STRING, T("decimal(6, 2)"), T.DOUBLE)


@given(
    st.lists(st.lists(CELLS, min_size=4, max_size=6), max_size=9),
    st.sampled_from(["\n", "\r\n"]),
    st.lists(st.sampled_from(list(Nulls)), min_size=5, max_size=5),
    st.sampled_from([(0, 1, 2, 3, 4), (4, 0), (2, 1, 3)]),
)
def test_bad_rows_are_those_of_records_read_one_by_one(
    rows: list[list[str]], end: str, nulls: list[Nulls], wanted: tuple[int, ...]
) -> None:
    block = Block("".join(",".join(row) + end for row in rows).encode(), 4)
    layout = DelimitedLayout(LAYOUT, wanted, ("a", None, "c", "d", "e"), first=4)
    file = InputFile(
        Path("t.csv"), "csv", layout.types, names=("a", "b", "c"), nulls=tuple(nulls[: len(wanted)])
    )
    found = []
    for divide in (_plain_records, _any_records):
        faults = _Kept()
        records = divide(block, layout, file)
        assert records is not None
        batch = _batch(records, layout, file, faults)
        assert batch is not None
        values = [_values(column, list(range(batch.rows))) for column in batch.columns]
        found.append((batch.rows, values, faults.kept, faults.nulls))
    assert found[0] == found[1]
    _assert_explained(found[0][2], rows, layout)


class _Kept(RejectedRows):
    """Keeps what is rejected."""

    def __init__(self) -> None:
        super().__init__(OnError.COLLECT)
        self.kept: list[object] = []

    def add(self, row: object) -> None:
        """Keep a row."""
        self.kept.append(row)


def _assert_explained(kept: list[object], rows: list[list[str]], layout: DelimitedLayout) -> None:
    """Each bad row has its line, its text, and the reason of the definition for the cell that is named."""
    lines = [place for place, row in enumerate(rows, 4) if row]
    for bad in kept:
        _, line, *cell = bad.diagnostic.place.split(":")  # type: ignore[attr-defined]
        row = rows[int(line) - 4]
        assert int(line) in lines
        assert bad.text == ",".join(row)  # type: ignore[attr-defined]
        message = bad.diagnostic.message  # type: ignore[attr-defined]
        if not cell:
            assert f"instead of {len(layout.types)}" in message
            continue
        number = int(cell[0]) - 1
        reason, name = _read_one(row[number], layout.types[number]), layout.names[number]
        assert message == f"{reason} (column `{name}`)" if name else message == reason


@pytest.mark.parametrize("quoted", [False, True])
def test_a_file_with_bad_rows_end_to_end(
    quoted: bool, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.chdir(tmp_path)
    rows = [(str(row), f"2026-0{row % 9 + 1}-01", f"{row}.50") for row in range(5_000)]
    rows[40] = ("40", "2026-13-01", "1.5")
    rows[4_000] = ("x", "2026-12-01", "1.5")
    rows[4_001] = ("12345678901234567890", "12026-12-01", "0.0000000000000000000000000001")
    mark = '"' if quoted else ""
    Path("order.csv").write_text(
        "".join(",".join(f"{mark}{cell}{mark}" for cell in row) + "\n" for row in rows)
    )
    reasoner = tl.Reasoner(
        """
        @declare order(id: int, day: date, price: decimal) .
        whole(?i, ?d, ?p) :- order(?i, ?d, ?p), ?i > 4998 .
        """,
        on_error="collect",
        rejects="rejects.csv",
    )
    reasoner.read("order.csv")
    assert len(reasoner["order"]) == 4_998
    assert sorted(map(tuple, reasoner["whole"].to_texts("plain").rows())) == [
        ("12345678901234567890", "12026-12-01", "0.0000000000000000000000000001"),
        ("4999", "2026-05-01", "4999.5"),
    ]
    reasoner.faults.close()
    places = [line.split(",")[0] for line in Path("rejects.csv").read_text().splitlines()[1:]]
    assert places == ["order.csv:41:2", "order.csv:4001:1"]
