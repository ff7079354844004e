"""Blocks of whole lines: nothing is lost between them, and none changes while somebody looks at it."""

from __future__ import annotations

import io

from hypothesis import given
from hypothesis import strategies as st

from tidelog.data.text_kernels import fields_of_lines, survey
from tidelog.io import delimited
from tidelog.io.delimited import LineReader

TEXTS = st.lists(st.text("ab\n", max_size=9), max_size=30).map(lambda parts: "".join(parts).encode())


def _blocks(text: bytes, size: int) -> list[memoryview]:
    reader = LineReader(io.BytesIO(text))
    return list(iter(lambda: reader.read(size), b""))


@given(TEXTS, st.integers(1, 64))
def test_blocks_are_the_text_cut_at_ends_of_lines(text: bytes, size: int) -> None:
    blocks = _blocks(text, size)  # all of them are looked at until the end
    assert b"".join(blocks) == text
    assert all(bytes(block).endswith(b"\n") for block in blocks[:-1])


@given(TEXTS, st.integers(1, 64))
def test_a_block_goes_on_after_what_is_given(text: bytes, size: int) -> None:
    reader = LineReader(io.BytesIO(text))
    first = bytes(reader.read(size))
    longer = bytes(reader.read(size, first))
    assert text.startswith(longer)
    assert len(longer) > len(first) or longer == text


def test_memory_is_used_again_once_nobody_looks_at_it() -> None:
    delimited._kept.clear()
    reader = LineReader(io.BytesIO(b"0123456\n" * 9))
    for _ in range(9):
        assert bytes(reader.read(8)) == b"0123456\n"
    assert len(delimited._kept) == 1
    blocks = [LineReader(io.BytesIO(b"kept\n")).read(5) for _ in range(9)]
    assert blocks == [b"kept\n"] * 9
    assert len(delimited._kept) == delimited.MOST_KEPT


@given(st.binary(max_size=9), st.integers(0, 70))
def test_a_survey_tells_what_is_there(text: bytes, before: int) -> None:
    text = b"x" * before + text
    found = survey(text)
    assert found == (text.count(b"\n"), b'"' in text, b"\r" in text, text.isascii())


ROWS = st.lists(st.tuples(*[st.text("aé7", max_size=20)] * 3), min_size=1, max_size=12)


@given(ROWS, st.sampled_from([(0, 1, 2), (2, 0), (1,)]), st.booleans())
def test_fields_of_any_length_at_any_place(
    rows: list[tuple[str, str, str]], wanted: tuple[int, ...], is_ended: bool
) -> None:
    text = "\n".join("\t".join(row) for row in rows) + "\n" * is_ended
    block = text.encode()
    found = fields_of_lines(block, survey(block), "\t", 3, wanted)
    assert found is not None
    for column in found.columns:
        column.validate(full=True)
    assert [column.to_pylist() for column in found.columns] == [
        [row[place] for row in rows] for place in wanted
    ]


LINES = st.lists(
    st.tuples(st.text("aé\t", max_size=9), st.sampled_from(["\n", "\r\n"])), min_size=1, max_size=90
)


@given(LINES, st.booleans(), st.integers(1, 3))
def test_lines_are_rows_or_empty_or_of_another_width(
    drawn: list[tuple[str, str]], is_ended: bool, width: int
) -> None:
    block = "".join(text + end for text, end in drawn).encode()
    block = block if is_ended else block.removesuffix(b"\n").removesuffix(b"\r")
    found = fields_of_lines(block, survey(block), "\t", width, range(width))
    assert found is not None
    texts = [text for text, _ in drawn]
    rows = [place for place, text in enumerate(texts) if text and text.count("\t") == width - 1]
    assert found.kept.tolist() == rows
    assert found.wrong.tolist() == [at for at, text in enumerate(texts) if text and at not in rows]
    columns = [column.to_pylist() for column in found.columns]
    assert columns == [[texts[row].split("\t")[place] for row in rows] for place in range(width)]
    starts = found.starts.tolist()
    assert [block[starts[row] : starts[row + 1]].decode().rstrip("\r\n") for row in rows] == [
        texts[row] for row in rows
    ]


@given(st.text("a\t\r\n", max_size=90))
def test_a_lone_return_is_not_plain(text: str) -> None:
    block = text.encode()
    is_plain = "\r" not in text.replace("\r\n", "")
    assert (fields_of_lines(block, survey(block), "\t", 2, (0,)) is not None) == is_plain
