"""Data from outside that would crash a kernel or a parser is refused before they see it, with its place."""

from __future__ import annotations

from collections.abc import Callable
from itertools import pairwise
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidelog as tl
from tidelog.errors import DataError, ProgramError
from tidelog.io import rdf, sparql
from tidelog.io.json_files import JSON_STRINGS, Elements, first_too_deep
from tidelog.logic.values import ColumnType as T

ReadRows = Callable[..., list[tuple[str, ...]]]
TEXTS = (T.ANY,)


def far_offsets() -> Any:
    """Strings one of whose offsets lies past the values."""
    offsets = pa.py_buffer(np.array([0, 1_000_000, 2], np.int32).tobytes())
    return pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"ab")])


def not_utf_8() -> Any:
    offsets = pa.py_buffer(np.array([0, 1, 2], np.int32).tobytes())
    return pa.Array.from_buffers(pa.string(), 2, [None, offsets, pa.py_buffer(b"a\xff")])


def large_not_utf_8() -> Any:
    offsets = pa.py_buffer(np.array([0, 1, 2], np.int64).tobytes())
    return pa.Array.from_buffers(pa.large_string(), 2, [None, offsets, pa.py_buffer(b"a\xff")])


def far_index() -> Any:
    """A dictionary of one text, and an index that it does not have."""
    return pa.DictionaryArray.from_arrays(pa.array([0, 9], pa.int32()), pa.array(["a"]), safe=False)


def bad_dictionary() -> Any:
    return pa.DictionaryArray.from_arrays(pa.array([0, 1], pa.int32()), not_utf_8())


def bad_view() -> Any:
    """A view of a text that its buffer does not have."""
    view = np.array([20, 0x61616161, 0, 1_000_000], np.int32).tobytes()
    buffers = [None, pa.py_buffer(view), pa.py_buffer(b"a" * 20)]
    return pa.Array.from_buffers(pa.string_view(), 1, buffers)


def bad_extension() -> Any:
    return pa.ExtensionArray.from_storage(pa.opaque(pa.string(), "name", "vendor"), far_offsets())


DAMAGED = [far_offsets, not_utf_8, large_not_utf_8, far_index, bad_dictionary, bad_view, bad_extension]


@pytest.mark.parametrize("make", DAMAGED)
def test_damaged_arrow_data_of_python_is_refused(make: Callable[[], Any]) -> None:
    reasoner = tl.Reasoner(tl.parse("q(?x) :- e(?x) ."), threads=1)
    with pytest.raises(DataError) as error:
        reasoner.insert("e", pa.table([make()], names=["x"]))
    assert error.value.diagnostics[0].code == "E519"
    assert "column `x` is damaged" in str(error.value)
    assert len(reasoner["e"]) == 0


def test_damaged_times_of_python_are_refused() -> None:
    reasoner = tl.Reasoner(tl.parse("p(a)@0 ."), threads=1)
    table = pa.table([pa.array(["a", "b"]), far_offsets()], names=["x", "interval"])
    with pytest.raises(DataError, match="E519"):
        reasoner.insert("p", table)


@pytest.mark.parametrize("make", [far_offsets, not_utf_8, bad_view, bad_dictionary])
@pytest.mark.parametrize("new", [pyarrow.ipc.new_file, pyarrow.ipc.new_stream])
def test_damaged_files_of_arrow_are_refused(
    read_rows: ReadRows, make: Callable[[], Any], new: Callable[..., Any]
) -> None:
    batch = pa.record_batch([make()], names=["x"])
    sink = pa.BufferOutputStream()
    with new(sink, batch.schema) as writer:
        writer.write_batch(batch)
    with pytest.raises(DataError) as error:
        read_rows(sink.getvalue().to_pybytes(), TEXTS, name="e.arrow")
    assert error.value.diagnostics[0].code in ("E519", "E502")
    assert "e.arrow" in str(error.value)


def test_names_of_columns_that_are_not_utf_8(read_rows: ReadRows) -> None:
    sink = pa.BufferOutputStream()
    batch = pa.record_batch([pa.array(["a"])], names=["QQQQ"])
    with pyarrow.ipc.new_stream(sink, batch.schema) as writer:
        writer.write_batch(batch)
    data = sink.getvalue().to_pybytes().replace(b"QQQQ", b"Q\xff\xfeQ")
    with pytest.raises(DataError, match="not UTF-8"):
        read_rows(data, TEXTS, name="e.arrow")


# ---- RDF/XML

RDF = 'xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://e.org/"'
BODY = f'<rdf:RDF {RDF}>\n<rdf:Description rdf:about="&a;x"><e:p>&a;</e:p></rdf:Description></rdf:RDF>'
TRIPLE = (T.ANY,) * 3


def with_entities(*declarations: str) -> str:
    return "<!DOCTYPE rdf:RDF [\n" + "\n".join(declarations) + "\n]>\n" + BODY


def refused(read_rows: ReadRows, text: str) -> list[str]:
    pytest.importorskip("pyoxigraph")
    with pytest.raises(DataError) as error:
        read_rows(text, TRIPLE, name="x.rdf", file_format="rdfxml")
    return [f"{found.code} {found.place} {found.message}" for found in error.value.diagnostics]


def test_entities_that_abbreviate_are_read(read_rows: ReadRows) -> None:
    pytest.importorskip("pyoxigraph")
    text = with_entities('<!ENTITY b "http://e.org/">', '<!ENTITY a "&b;n#">')
    expected = [("<http://e.org/n#x>", "<http://e.org/p>", '"http://e.org/n#"')]
    assert read_rows(text, TRIPLE, name="x.rdf", file_format="rdfxml") == expected


def test_nested_entities_are_refused(read_rows: ReadRows) -> None:
    names = ["z", *(f"e{number}" for number in range(30)), "a"]
    nested = [f'<!ENTITY {name} "{f"&{before};" * 10}">' for before, name in pairwise(names)]
    (told,) = refused(read_rows, with_entities('<!ENTITY z "lol">', *nested))
    assert told.startswith("E520 x.rdf:5:")
    assert "`e2` expands to more than 2,000 characters" in told


@pytest.mark.parametrize(
    ("declaration", "reason"),
    [
        ('<!ENTITY a "&a;x">', "`a` is used before it is declared"),
        ('<!ENTITY a "&later;"><!ENTITY later "&a;">', "`later` is used before it is declared"),
        ('<!ENTITY a SYSTEM "file:///etc/passwd">', "`a` is an external entity"),
        ('<!ENTITY % a "x">', "`a` is a parameter entity"),
        (f'<!ENTITY a "{"x" * 3000}">', "`a` expands to more than 2,000 characters"),
        ("".join(f'<!ENTITY a{n} "x">' for n in range(1001)), "declares more than 1,000 entities"),
    ],
)
def test_entities_that_are_refused(read_rows: ReadRows, declaration: str, reason: str) -> None:
    (told,) = refused(read_rows, with_entities(declaration))
    assert told.startswith("E520 x.rdf:2:")
    assert reason in told


def test_document_types_within_the_document_are_refused(read_rows: ReadRows) -> None:
    late = BODY.replace("\n", '\n<!doctype x [<!ENTITY a "b">]>', 1)
    (told,) = refused(read_rows, late)
    assert told.startswith("E507 x.rdf:2:")


def test_the_document_type_is_found_across_blocks(
    read_rows: ReadRows, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(rdf, "_BLOCK", 3)
    (told,) = refused(read_rows, with_entities('<!ENTITY % a "x">'))
    assert told.startswith("E520 x.rdf:2:")


def test_elements_that_are_nested_too_deeply(read_rows: ReadRows) -> None:
    depth = rdf.DEEPEST
    text = f"<rdf:RDF {RDF}>\n" + "<rdf:Description><e:p>" * depth
    (told,) = refused(read_rows, text)
    assert told.startswith("E521 x.rdf:2:")


@settings(max_examples=100)
@given(
    st.lists(st.sampled_from(["<a>", "</a>", "<a/>", "<?x?>", "text", '<b c="d">']), max_size=20), st.data()
)
def test_the_depth_of_elements_in_blocks(parts: list[str], data: st.DataObject) -> None:
    text = "".join(parts).encode()
    size = data.draw(st.integers(1, 12))
    elements = Elements()
    found = max((elements.deepest(text[at : at + size]) for at in range(0, len(text), size)), default=0)
    depth, deepest = 0, 0
    for part in parts:
        depth += part in ("<a>", '<b c="d">', "<a/>")
        deepest = max(depth, deepest)
        depth -= part in ("</a>", "<a/>")
    assert found == deepest


# ---- JSON-LD, SPARQL


@given(st.lists(st.sampled_from(['"', "\\", "[", "]", "{", "}", "a"]), max_size=30), st.integers(0, 4))
def test_the_first_bracket_that_is_too_deep(parts: list[str], most: int) -> None:
    text = "".join(parts).encode()
    place = first_too_deep(text, most, JSON_STRINGS)
    outside = JSON_STRINGS.sub(lambda found: b"-" * len(found[0]), text).decode()
    depth = 0
    expected = None
    for at, character in enumerate(outside):
        depth += (character in "[{") - (character in "]}")
        if depth > most:
            expected = at
            break
    assert place == expected


def test_json_ld_that_is_nested_too_deeply(read_rows: ReadRows) -> None:
    pytest.importorskip("pyoxigraph")
    text = '{"http://p":\n' * 5000 + "1" + "}" * 5000
    with pytest.raises(DataError) as error:
        read_rows(text, TRIPLE, name="x.jsonld")
    assert (error.value.diagnostics[0].code, error.value.diagnostics[0].place) == ("E521", "x.jsonld:201:1")


@pytest.mark.parametrize(
    ("before", "part", "after"),
    [
        ("SELECT * WHERE { FILTER(", "(", "1"),
        ("SELECT * WHERE ", "{", ""),
        ("SELECT * WHERE { FILTER(1", "+1", ") }"),
        ("SELECT * WHERE { FILTER(", "!", "1) }"),
        ("SELECT * WHERE { ", "?s ?p ?o . ", "}"),
        ("SELECT * WHERE { ?s ?p ?o", ", ?o", "}"),
        ("SELECT * WHERE { ", "filter(1) ", "}"),
    ],
)
def test_queries_that_are_too_large_for_the_parser(before: str, part: str, after: str) -> None:
    pytest.importorskip("pyoxigraph")
    with pytest.raises(ProgramError) as error:
        sparql.SparqlStore([]).query(before + part * 20_000 + after)
    (fault,) = error.value.diagnostics
    assert fault.code == "E521"
    assert fault.span is not None


def test_long_lists_in_queries_are_answered(tmp_path: Path) -> None:
    pytest.importorskip("pyoxigraph")
    rows = " ".join(f'("{number}.,;+" <http://e.org/{number}>)' for number in range(5_000))
    numbers = ", ".join(map(str, range(5_000)))
    query = f"SELECT ?x WHERE {{ VALUES (?x ?y) {{ {rows} }} FILTER(1 IN ({numbers})) }}"
    assert len(list(sparql.SparqlStore([]).query(query))) == 5_000
