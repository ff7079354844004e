"""RDF in: every format says the same, places of errors, blank nodes, graphs, types."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tidelog.errors import DataError
from tidelog.io import rdf
from tidelog.io.rejects import OnError, RejectedRows
from tidelog.logic.values import ColumnType as T

pyoxigraph = pytest.importorskip("pyoxigraph")

ReadRows = Callable[..., list[tuple[str, ...]]]
QUAD = (T.ANY,) * 4
DEFAULT = "<tag:tidelog:default-graph>"
EXPECTED = [
    ("<http://e.org/a>", "<http://e.org/name>", '"Ann \\"A\\""@en'),
    ("<http://e.org/a>", "<http://e.org/age>", "42"),
    ("<http://e.org/a>", "<http://e.org/knows>", "<_:b>"),
]
SAMPLES = {
    "ntriples": """<http://e.org/a> <http://e.org/name> "Ann \\"A\\""@en .
<http://e.org/a> <http://e.org/age> "42"^^<http://www.w3.org/2001/XMLSchema#integer> .
<http://e.org/a> <http://e.org/knows> _:b .
""",
    "turtle": """@prefix e: <http://e.org/> .
e:a e:name 'Ann "A"'@en ; e:age 42 ; e:knows _:b .
""",
    "trig": """@prefix e: <http://e.org/> .
e:g { e:a e:name 'Ann "A"'@en ; e:age 42 } e:a e:knows _:b .
""",
    "nquads": """<http://e.org/a> <http://e.org/name> "Ann \\"A\\""@en <http://e.org/g> .
<http://e.org/a> <http://e.org/age> "42"^^<http://www.w3.org/2001/XMLSchema#integer> <http://e.org/g> .
<http://e.org/a> <http://e.org/knows> _:b .
""",
    "rdfxml": """<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://e.org/">
<rdf:Description rdf:about="http://e.org/a">
<e:name xml:lang="en">Ann "A"</e:name>
<e:age rdf:datatype="http://www.w3.org/2001/XMLSchema#integer">42</e:age>
<e:knows rdf:nodeID="b"/>
</rdf:Description></rdf:RDF>
""",
    "jsonld": """{"@context": {"@vocab": "http://e.org/"}, "@id": "http://e.org/a",
"name": {"@value": "Ann \\"A\\"", "@language": "en"}, "age": 42, "knows": {"@id": "_:b"}}
""",
}


@pytest.mark.parametrize("file_format", SAMPLES)
def test_all_formats_say_the_same(read_rows: ReadRows, file_format: str) -> None:
    rows = read_rows(SAMPLES[file_format], (T.ANY,) * 3, name="x.rdf", file_format=file_format)
    assert sorted(rows) == sorted(EXPECTED)


@pytest.mark.parametrize("file_format", ["nquads", "trig"])
def test_four_columns_have_the_graph_first_as_in_nemo(read_rows: ReadRows, file_format: str) -> None:
    rows = read_rows(SAMPLES[file_format], QUAD, name="x.rdf", file_format=file_format)
    assert [row[0] for row in rows] == ["<http://e.org/g>", "<http://e.org/g>", DEFAULT]
    assert [row[1:] for row in rows] == EXPECTED


def test_triples_are_in_the_default_graph(read_rows: ReadRows) -> None:
    rows = read_rows("<a> <b> <c> .\n", QUAD, name="x.nt", file_format="ntriples")
    assert rows == [(DEFAULT, "a", "b", "c")]


def test_other_numbers_of_columns(read_rows: ReadRows) -> None:
    with pytest.raises(DataError, match=r"E503.*RDF has 3 columns, or 4 with the graph, instead of 2"):
        read_rows("", (T.ANY, T.ANY), name="x.nt", file_format="ntriples")


@pytest.mark.parametrize("file_format", ["ntriples", "turtle"])
def test_relative_iris_are_names(read_rows: ReadRows, file_format: str) -> None:
    rows = read_rows("<alice> <#knows> <> .\n", name="x.ttl", file_format=file_format)
    assert rows == [("alice", "<#knows>", "<>")]


def test_base(read_rows: ReadRows) -> None:
    rows = read_rows("<a> <b> <c> .\n", name="x.ttl", file_format="turtle", base="http://e.org/")
    assert rows == [("<http://e.org/a>", "<http://e.org/b>", "<http://e.org/c>")]


def test_blank_nodes_without_label_are_numbered_in_the_name_of_the_file(read_rows: ReadRows) -> None:
    text = "@prefix e: <http://e.org/> . [ e:p [] , _:own ] e:q [] ."
    rows = read_rows(text, (T.ANY, T.SKIP, T.ANY), name="x.ttl", file_format="turtle")
    assert {term for row in rows for term in row} == {"<_:x_ttl-1>", "<_:x_ttl-2>", "<_:x_ttl-3>", "<_:own>"}
    assert rows == read_rows(text, (T.ANY, T.SKIP, T.ANY), name="x.ttl", file_format="turtle")


def test_declared_types(read_rows: ReadRows) -> None:
    text = '<a> <p> "1"^^<http://www.w3.org/2001/XMLSchema#int> .\n<a> <p> "2.5" .\n_:b <p> 3 .\n'
    faults = RejectedRows(OnError.SKIP)
    rows = read_rows(text, (T.IRI, T.SKIP, T.DOUBLE), name="x.nt", file_format="ntriples", faults=faults)
    assert rows == [("a", "1.0E0")]
    with pytest.raises(DataError) as caught:
        read_rows(text, (T.IRI, T.SKIP, T.DOUBLE), name="x.nt", file_format="ntriples")
    assert {(fault.place, fault.message) for fault in caught.value.diagnostics} == {
        ("x.nt:2", 'the object "2.5" is not of type double'),
        ("x.nt:3:9", "the object is missing or malformed"),
    }


@pytest.mark.parametrize(
    ("line", "fault"),
    [
        ("<a> <b <c> .", "x.nt:2:5: the predicate is missing or malformed"),
        ("<a> <b> <c>", "x.nt:2:12: the statement does not end with a dot"),
        ("<a> <b> <c> <d> .", "x.nt:2:13: the statement does not end with a dot"),
        ('"a" <b> <c> .', "x.nt:2:1: the subject is missing or malformed"),
        ("<a> _:b <c> .", "x.nt:2:5: the predicate is missing or malformed"),
        ('<a> <b> "c .', "x.nt:2:9: the object is missing or malformed"),
        (
            '<a> <b> "\\q" .',
            "x.nt:2:9: the object is malformed: '\\\\q' has an invalid escape",
        ),
    ],
)
def test_places_in_ntriples(read_rows: ReadRows, line: str, fault: str) -> None:
    with pytest.raises(DataError) as caught:
        read_rows(f"<a> <b> <c> .\n{line}\n<a> <b> <c> .\n", name="x.nt", file_format="ntriples")
    assert [f"{found.place}: {found.message}" for found in caught.value.diagnostics] == [fault]
    assert {found.code for found in caught.value.diagnostics} == {"E507"}


RDF_XML = '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:a="https://a.org/">'


@pytest.mark.parametrize(
    ("file_format", "text", "place", "message"),
    [
        ("turtle", "<a> <b> <c> .\n<a> x:b <c> .", "x:2:5", "The prefix x: has not been declared"),
        ("jsonld", '{"@id":', "x:1:8", "Unexpected end of file, a value was expected"),
        ("rdfxml", "<x>", "x:1:4", "XML namespaces are required in RDF/XML"),
        ("rdfxml", RDF_XML + "\n<a:b>\n</rdf:RDF>", "x:3:3", "ill-formed document"),
        ("rdfxml", RDF_XML + "\n <a:b rdf:aboutEach='c'/></rdf:RDF>", "x:2:11", "http://www.w3.org/1999"),
        ("rdfxml", "# o\nPrefix(:=<a>)\nOntology(<b>)", "x", "the file is OWL's functional syntax"),
        ("rdfxml", "Prefix: a: <b>\nOntology: <b>", "x", "the file is OWL's Manchester syntax"),
        (
            "rdfxml",
            '<Ontology xmlns="http://www.w3.org/2002/07/owl#" ontologyIRI="b"/>',
            "x",
            "the file is OWL/XML",
        ),
        ("rdfxml", "@prefix a: <b> .", "x", "the file is Turtle"),
        ("turtle", "<a> <b> <<( <c> <d> <e> )>> .", "x", "the statement has a term that is not supported"),
    ],
)
def test_places_in_other_formats(
    read_rows: ReadRows, file_format: str, text: str, place: str, message: str
) -> None:
    with pytest.raises(DataError) as caught:
        read_rows(text, name="x", file_format=file_format)
    (fault,) = caught.value.diagnostics
    assert (fault.code, fault.place) == ("E507", place)
    assert fault.message.startswith(message)


def test_turtle_goes_on_after_an_error(read_rows: ReadRows, folder: Path) -> None:
    text = "<a> <b> <c> .\n<a> x:b <c> .\n<d> <e> <f> .\n"
    with RejectedRows(OnError.COLLECT, Path("rejects.csv")) as faults:
        rows = read_rows(text, name="x.ttl", file_format="turtle", faults=faults)
    assert rows == [("a", "b", "c"), ("d", "e", "f")]
    assert Path("rejects.csv").read_text().splitlines()[1] == (
        "x.ttl:2:5,E507,The prefix x: has not been declared,<a> x:b <c> ."
    )


def test_comments_and_spaces_and_many_blocks(read_rows: ReadRows, monkeypatch: pytest.MonkeyPatch) -> None:
    lines = [f'<a{number}> <p> "x y" .' for number in range(60)]
    plain = read_rows("\n".join(lines), name="x.nt", file_format="ntriples")
    lines[30] = '  # comment\r\n\r\n<a30>\t<p>  "x y"  .  # comment\r'
    monkeypatch.setattr(rdf, "_LINES_BLOCK", 64)
    assert read_rows("\n".join(lines), name="x.nt", file_format="ntriples") == plain


TEXTS = st.text(max_size=12)
IRIS = st.text("abc:/é", min_size=1, max_size=8).map(lambda text: f"<http://e.org/{text}>")
OBJECTS = st.one_of(
    IRIS,
    st.sampled_from(["_:b", "_:x1.2-a"]),
    TEXTS.map(lambda text: str(pyoxigraph.Literal(text))),
    TEXTS.map(lambda text: str(pyoxigraph.Literal(text, language="en-GB"))),
    TEXTS.map(lambda text: str(pyoxigraph.Literal(text, datatype=pyoxigraph.NamedNode("http://e.org/t")))),
)
QUADS = st.lists(st.tuples(IRIS, IRIS, OBJECTS, st.none() | IRIS), max_size=8)


@settings(max_examples=60, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture])
@given(QUADS)
def test_nquads_are_those_of_pyoxigraph(
    read_rows: ReadRows, quads: list[tuple[str, str, str, str | None]]
) -> None:
    """The kernels, the reading line by line, and pyoxigraph agree."""
    text = "".join(" ".join(filter(None, quad)) + " .\n" for quad in quads)
    fast = read_rows(text, QUAD, name="x.nq", file_format="nquads")
    careful = read_rows("# not usual\n" + text, QUAD, name="x.nq", file_format="nquads")
    oracle = read_rows(text, QUAD, name="x.trig", file_format="trig") if not _has_graphs(quads) else fast
    assert fast == careful == oracle
    assert len(fast) == len(quads)


def _has_graphs(quads: list[tuple[str, str, str, str | None]]) -> bool:
    return any(graph for *_, graph in quads)
