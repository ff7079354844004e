"""Plain N-Triples by compiled kernels: the terms that Arrow's kernels and patterns find, or none."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import example, given
from hypothesis import strategies as st

from tidelog.data.dictionary import Dictionary
from tidelog.data.text_kernels import survey, term_views
from tidelog.io.rdf import split_statements

TERMS = (
    *("<a>", "<>", "<_:a>", "<https://example.org/a-long-name>", "<é>", "<a b>", "<a\\u0041>", "<a"),
    *("_:a", "_:a.b", "_:", "_:é", "a", ""),
    *('""', '"a"', '"a b . c"', '"twelve bytes"', '"é"', '"a\\"b"', '"a\\x"', '"a"b"', '"a'),
    *('"a"@en', '"a"@', '"1"^^<b>', '"1"^^<b c>', '"a\\n"@en-GB', '"a" .'),
)
terms = st.sampled_from(TERMS)
spaces = st.sampled_from((*[" "] * 20, "  ", "\t", ""))
ends = st.sampled_from((*[" ."] * 20, " . ", ".", " .\r", " . # c", " <g> ."))
lines = st.builds("".join, st.tuples(terms, spaces, terms, spaces, terms, ends))
NODES = TERMS[:5] + TERMS[8:10]
OBJECTS = NODES + TERMS[14:20] + ('"a"@en', '"1"^^<b>')
usual = st.builds("{} {} {} .".format, *map(st.sampled_from, (NODES, TERMS[:5], OBJECTS)))


@given(st.one_of(st.lists(lines, min_size=1, max_size=4), st.lists(usual, min_size=1, max_size=9)))
@example(["<a> <b> <c> .", "", "<a> <b> <c> ."])
@example(["# a comment", "<a> <b> <c> ."])
@example(['<a> <b> "a" . <c> .'])
def test_terms_are_those_of_the_patterns(statements: list[str]) -> None:
    text = "".join(f"{line}\n" for line in statements).encode()
    expected = split_statements(text, graphs=False)
    found = term_views(text, survey(text))
    assert (found is None) == (expected is None)
    if found is not None and expected is not None:
        assert [column.to_pylist() for column in found] == [column.to_pylist() for column in expected]


def test_what_is_no_text_is_left_to_others() -> None:
    text = b'<a> <b> "\xff" .\n'
    assert term_views(text, survey(text)) is None


@given(st.lists(st.sampled_from(OBJECTS), min_size=1))
def test_views_of_terms_have_the_ids_of_terms(texts: list[str]) -> None:
    exact = pa.array(texts, pa.string())
    dictionary = Dictionary()
    expected = dictionary.encode_terms(exact)
    views = exact.cast(pa.string_view())
    assert dictionary.encode_terms(views).tolist() == expected.tolist()
    assert dictionary.encode_terms(views.slice(1)).tolist() == expected[1:].tolist()
