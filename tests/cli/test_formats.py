"""Every format of results, on standard output and in files."""

from __future__ import annotations

import io
import json
from pathlib import Path

import pyarrow.ipc
import pyarrow.parquet
import pytest

from tests.cli.conftest import Tidelog, Write

MIXED = """\
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
@declare item(name: string, price: decimal, since: date, fresh: boolean) .
item("apple pie, warm", 2.50, "2024-02-29"^^xsd:date, true) .
item("say \\"hi\\"", 10.25, "2023-01-01"^^xsd:date, false) .
sold(?name, ?price, ?since, ?fresh) :- item(?name, ?price, ?since, ?fresh) .
"""
CSV = '''\
name,price,since,fresh
"apple pie, warm",2.5,2024-02-29,true
"say ""hi""",10.25,2023-01-01,false
'''
TSV = '''\
name\tprice\tsince\tfresh
apple pie, warm\t2.5\t2024-02-29\ttrue
"say ""hi"""\t10.25\t2023-01-01\tfalse
'''
ROWS = [
    {"name": "apple pie, warm", "price": 2.5, "since": "2024-02-29", "fresh": True},
    {"name": 'say "hi"', "price": 10.25, "since": "2023-01-01", "fresh": False},
]
TRIPLES = """\
@prefix ex: <http://e.org/> .
[ex:a, ex:p, "x"@en] . [ex:a, ex:p, 3] . [ex:b, ex:p, ex:a] .
known(?s, ?p, ?o) :- [?s, ?p, ?o] .
"""
N_TRIPLES = """\
<http://e.org/a> <http://e.org/p> "3"^^<http://www.w3.org/2001/XMLSchema#integer> .
<http://e.org/a> <http://e.org/p> "x"@en .
<http://e.org/b> <http://e.org/p> <http://e.org/a> .
"""


@pytest.fixture(autouse=True)
def programs(write: Write) -> None:
    """Programs with values of many kinds."""
    write("mixed.rls", MIXED)
    write("triples.rls", TRIPLES)
    write("two.rls", "p(1) . q(?x) :- p(?x) . r(?x, ?x) :- p(?x) .")
    write("nullary.rls", "p(1) . yes() :- p(1) . no() :- p(2) . @output yes, no .")


@pytest.mark.parametrize(
    ("form", "expected"),
    [
        (["csv", "--terms", "plain"], CSV),
        (["csv", "--terms", "plain", "--no-header"], CSV.partition("\n")[2]),
        (["tsv", "--terms", "plain"], TSV),
        (
            ["csv", "--no-header"],
            '"""apple pie, warm""",2.5,"""2024-02-29""^^<http://www.w3.org/2001/XMLSchema#date>",'
            '"""true""^^<http://www.w3.org/2001/XMLSchema#boolean>"\n'
            '"""say ""hi""""",10.25,"""2023-01-01""^^<http://www.w3.org/2001/XMLSchema#date>",'
            '"""false""^^<http://www.w3.org/2001/XMLSchema#boolean>"\n',
        ),
        (
            ["csv", "--terms", "exact", "--no-header"],
            '"""apple pie, warm""",2.5,"""2024-02-29""^^<http://www.w3.org/2001/XMLSchema#date>",true\n'
            '"""say \\""hi\\""""",10.25,"""2023-01-01""^^<http://www.w3.org/2001/XMLSchema#date>",false\n',
        ),
    ],
)
def test_delimited_text(form: list[str], expected: str, tidelog: Tidelog) -> None:
    done = tidelog("run", "mixed.rls", "--format", *form)
    assert done.code == 0
    assert done.output == expected
    tidelog("run", "mixed.rls", "--output", "out", "--format", *form)
    assert Path(f"out/sold.{form[0]}").read_text() == expected


def test_exact_terms_read_back(tidelog: Tidelog) -> None:
    tidelog("run", "triples.rls", "--output", "out", "--terms", "exact", "--no-header")
    Path("back.rls").write_text("@declare known(s: rdf, p: rdf, o: rdf) . @output known .")
    done = tidelog("run", "back.rls", "--data", "out/known.csv", "--format", "nt", "--input-header", "no")
    assert done.output == N_TRIPLES


def test_json_is_one_object_by_predicate(tidelog: Tidelog) -> None:
    assert tidelog("run", "mixed.rls", "--format", "json", "--terms", "plain").json == {"sold": ROWS}
    rows = tidelog("run", "mixed.rls", "--format", "json").json["sold"]
    assert rows[0]["name"] == {"@value": "apple pie, warm"} and rows[0]["price"] == 2.5
    two = tidelog("run", "two.rls", "--format", "json").json
    assert two == {"q": [{"x": 1}], "r": [{"x": 1, "c2": 1}]}


def test_json_of_nothing(tidelog: Tidelog, write: Write) -> None:
    write("p.rls", "p(1) . q(?x) :- p(?x), ?x > 1 .")
    assert tidelog("run", "p.rls", "--format", "json").json == {"q": []}


def test_json_files_are_arrays(tidelog: Tidelog) -> None:
    tidelog("run", "mixed.rls", "--output", "out", "--format", "json", "--terms", "plain")
    assert json.loads(Path("out/sold.json").read_text()) == ROWS


def test_json_lines_say_what_they_belong_to(tidelog: Tidelog) -> None:
    done = tidelog("run", "mixed.rls", "--format", "jsonl", "--terms", "plain")
    assert [json.loads(line) for line in done.output.splitlines()] == [
        {"predicate": "sold", **row} for row in ROWS
    ]
    tidelog("run", "mixed.rls", "--output", "out", "--format", "jsonl", "--terms", "plain")
    assert [json.loads(line) for line in Path("out/sold.jsonl").read_text().splitlines()] == ROWS


def test_json_lines_of_queries_and_of_columns_named_predicate(tidelog: Tidelog, write: Write) -> None:
    write("p.rls", "p(1) . q(?predicate) :- p(?predicate) . ?- p(?x) .")
    lines = [json.loads(line) for line in tidelog("run", "p.rls", "--format", "jsonl").output.splitlines()]
    assert lines == [{"predicate_": "q", "predicate": 1}, {"query": "?- p(?x) .", "x": 1}]


def test_answers_have_no_labels(tidelog: Tidelog) -> None:
    done = tidelog("query", "two.rls", "q(?x)", "--format", "jsonl")
    assert done.output == '{"x": 1}\n'
    assert tidelog("query", "two.rls", "q(?x)", "--format", "json").json == [{"x": 1}]


def test_parquet_and_arrow_on_standard_output(tidelog: Tidelog) -> None:
    parquet = pyarrow.parquet.read_table(io.BytesIO(tidelog("run", "mixed.rls", "--format", "parquet").raw))
    arrow = pyarrow.ipc.open_file(tidelog("run", "mixed.rls", "--format", "arrow").raw).read_all()
    for table in (parquet, arrow):
        assert table.column("name").to_pylist() == [row["name"] for row in ROWS]
        assert str(table.schema.field("since").type) == "date32[day]"


@pytest.mark.parametrize("format", ["parquet", "arrow"])
def test_parquet_and_arrow_files(format: str, tidelog: Tidelog) -> None:
    assert tidelog("run", "two.rls", "--output", "out", "--format", format).code == 0
    assert {path.name for path in Path("out").iterdir()} == {f"q.{format}", f"r.{format}"}


def test_n_triples_and_turtle(tidelog: Tidelog) -> None:
    assert tidelog("run", "triples.rls", "--format", "nt").output == N_TRIPLES
    turtle = tidelog("run", "triples.rls", "--format", "ttl").output
    Path("back.ttl").write_text(turtle)
    Path("back.rls").write_text("@declare triple(s: any, p: any, o: any) . @output triple .")
    assert tidelog("run", "back.rls", "--data", "back.ttl", "--format", "nt").output == N_TRIPLES
    tidelog("run", "triples.rls", "--output", "out", "--format", "nt")
    assert Path("out/known.nt").read_text() == N_TRIPLES


@pytest.mark.parametrize("format", ["csv", "tsv", "parquet", "arrow"])
def test_formats_of_one_table_need_a_folder_for_several(format: str, tidelog: Tidelog) -> None:
    done = tidelog("run", "two.rls", "--format", format)
    assert (done.code, done.output) == (2, "")
    assert "--output DIR" in done.error


def test_statements_have_three_columns(tidelog: Tidelog) -> None:
    for options in ([], ["--output", "out"]):
        done = tidelog("run", "two.rls", "--format", "nt", *options)
        assert (done.code, done.output) == (2, "")
        assert "`q` has 1" in done.error


@pytest.mark.parametrize(
    ("form", "yes", "no"),
    [
        ("csv", "holds\ntrue\n", "holds\n"),
        ("json", '[\n{"holds": true}\n]\n', "[]\n"),
        ("jsonl", '{"holds": true}\n', ""),
    ],
)
def test_predicates_without_columns(form: str, yes: str, no: str, tidelog: Tidelog) -> None:
    tidelog("run", "nullary.rls", "--output", "out", "--format", form)
    assert Path(f"out/yes.{form}").read_text() == yes
    assert Path(f"out/no.{form}").read_text() == no


def test_predicates_without_columns_as_tables(tidelog: Tidelog) -> None:
    done = tidelog("run", "nullary.rls")
    assert done.output == "yes  1 row\n  holds\n  ─────\n  true\n\nno  0 rows\n"
