"""Columns of texts get the ids that a Python dictionary would give, however they repeat and go on."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given
from hypothesis import strategies as st

from tidelog.data.dictionary import Dictionary
from tidelog.logic.values import Kind, string

# Alike at the beginning or at the end, of every length around the words that kernels read.
TEXTS = st.builds(
    lambda length, number, is_first: f"{number}{'x' * length}" if is_first else f"{'x' * length}{number}",
    st.integers(0, 34),
    st.integers(0, 3),
    st.booleans(),
)
RUNS = st.lists(st.tuples(st.lists(TEXTS, min_size=1, max_size=6), st.integers(1, 12)), max_size=8)
TYPES = st.sampled_from([pa.string(), pa.large_string(), pa.string_view()])


@given(st.lists(st.tuples(RUNS, TYPES), max_size=3))
def test_ids_are_given_in_the_order_of_first_sight(
    columns: list[tuple[list[tuple[list[str], int]], object]],
) -> None:
    dictionary = Dictionary()
    expected: dict[str, int] = {}
    for runs, arrow_type in columns:
        texts = [text for run, times in runs for text in run * times]
        ids = dictionary.encode_texts(Kind.STRING, pa.array(texts, arrow_type))
        assert ids.tolist() == [expected.setdefault(text, len(expected)) for text in texts]
    assert [dictionary.decode(number) for number in range(len(dictionary))] == list(map(string, expected))


def test_texts_of_other_kinds_are_not_guessed() -> None:
    dictionary = Dictionary()
    texts = pa.array([f"text {number}" for number in range(99)])
    strings = dictionary.encode_texts(Kind.STRING, texts)
    names = dictionary.encode_texts(Kind.IRI, texts)
    assert strings.tolist() == list(range(99))
    assert names.tolist() == list(range(99, 198))
    assert dictionary.encode_texts(Kind.STRING, texts).tolist() == strings.tolist()
