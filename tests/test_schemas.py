"""Schemas follow declared and inferred types, never the rows; what does not fit is an error."""

from __future__ import annotations

import json
from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidelog as tl
from tests.corpus import cases as corpus
from tests.strategies import EVERYTHING, Case, cases
from tidelog.__main__ import main
from tidelog.data.typed_columns import arrow_type
from tidelog.errors import ProgramWarning, SourceText
from tidelog.logic.type_inference import infer
from tidelog.reasoner.reasoner import Reasoner
from tidelog.syntax.parser import parse
from tidelog.syntax.printer import print_document

CONSTANTS = ("0", "2", "2.5", "1e3", "a", '"a"', '"chat"@fr', "true", '"2024-05-01"^^xsd:date', '"x"^^<t>')
PREFIX = "@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .\n"


def undeclared(case: Case, constants: list[str]) -> str:
    """The program with other constants in its facts, and without declarations."""
    named = dict(zip(EVERYTHING.constants, constants, strict=True))
    facts = (
        f"{name}({', '.join(named[one] for one in row)}) ."
        for name, rows in case.facts.items()
        for row in rows
    )
    return PREFIX + "\n".join((*facts, *case.rules))


@given(cases(EVERYTHING), st.lists(st.sampled_from(CONSTANTS), min_size=7, max_size=7))
def test_embedded_schemas_are_those_of_spark(case: Case, constants: list[str]) -> None:
    """Rows are those of the relation, in columns of the inferred types, which Spark's frames have too."""
    schemas = pytest.importorskip("tidelog.spark.schemas")
    program = tl.parse(undeclared(case, constants))
    reasoner, inferred = Reasoner(program, threads=1), infer(program)
    for name, output in schemas.outputs_of(list(program.predicates.values()), inferred).items():
        table, relation = reasoner[name].to_arrow(), reasoner[name]
        found = [(field.name, field.type) for field in table.schema]
        texts = {pa.large_string(): pa.string()}
        assert [(column, texts.get(kind, kind)) for column, kind in found] == [
            (column, schemas.arrow_of(kind)) for column, kind in output.fields
        ]
        assert table.schema == relation.head(0).to_arrow().schema
        plain = relation.to_texts().rows()
        for place, (_, kind) in enumerate(found if relation.columns else ()):
            values, written = table.column(place).to_pylist(), [row[place] for row in plain]
            if kind == pa.large_string():
                assert values == written
            elif pa.types.is_decimal(kind) or pa.types.is_integer(kind) or pa.types.is_floating(kind):
                assert list(map(Decimal, values)) == list(map(Decimal, written))
            else:
                assert [str(value).lower() for value in values] == written


def test_the_corpus_has_the_same_schemas_on_spark() -> None:
    """Names and types of all columns of all outputs, those that say when among them, also without rows."""
    schemas = pytest.importorskip("tidelog.spark.schemas")
    from tidelog import spark as ts

    compared = 0
    for case in corpus():
        program = None if case.error or case.path.with_suffix(".data").exists() else case.program()
        if program is None or program.imports or program.exports:
            continue
        reasoner = Reasoner(program, threads=1)
        for name, schema in ts.check(program).items():
            fields = [(field.name, schemas.arrow_of(field.dataType)) for field in schema]
            texts = {pa.large_string(): pa.string()}
            empty = reasoner[name].head(0).to_arrow().schema
            assert [(field.name, texts.get(field.type, field.type)) for field in empty] == fields, case.name
            found = program.find(name)
            assert found is not None
            assert not any(field.nullable for field in schema.fields[: found.arity])
            compared += 1
    assert compared > 400


@given(cases(EVERYTHING), st.lists(st.sampled_from(CONSTANTS), min_size=7, max_size=7))
def test_structs_of_several_types_are_read_as_the_same_values(case: Case, constants: list[str]) -> None:
    """Their schema is that of Spark's frames, with rows and without."""
    schemas = pytest.importorskip("tidelog.spark.schemas")
    program = tl.parse(undeclared(case, constants))
    reasoner, inferred = Reasoner(program, threads=1), infer(program)
    for name, output in schemas.outputs_of(list(program.predicates.values()), inferred, "struct").items():
        relation = reasoner[name]
        table = relation.to_arrow(mixed="struct")
        assert table.schema == relation.head(0).to_arrow(mixed="struct").schema
        wanted = pa.schema([(column, schemas.arrow_of(kind)) for column, kind in output.fields])
        assert table.cast(wanted).cast(table.schema) == table
        structs = [place for place, kind in enumerate(table.schema.types) if pa.types.is_struct(kind)]
        for place in structs:
            assert all(
                sum(value is not None for value in held.values()) == 1
                for held in table.column(place).to_pylist()
            )
            again = Reasoner()
            again.insert("again", table.select([place]), define=True)
            exact = {row[place] for row in relation.to_texts("exact").rows()}
            assert {text for (text,) in again["again"].to_texts("exact").rows()} == exact


@pytest.mark.parametrize("form", ["parquet", "arrow"])
def test_files_of_structs(tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    program = tmp_path / "p.rls"
    program.write_text('p(1, "a") . p("b", "c") . p(alice, "d") . @output p .')
    command = ["run", str(program), "--format", form, "--output", str(tmp_path / "out"), "--mixed", "struct"]
    assert main(command) == 0
    reasoner = Reasoner("q(?x, ?y) :- p(?x, ?y) .")
    reasoner.read(tmp_path / "out" / f"p.{form}")
    assert set(reasoner["q"].to_texts("exact").rows()) == {("1", '"a"'), ('"b"', '"c"'), ("alice", '"d"')}
    assert pa.types.is_struct(reasoner["q"].to_arrow(mixed="struct").schema.field(0).type)
    capsys.readouterr()
    assert main(["run", str(program), "--format", "csv", "--mixed", "struct"]) == 2
    assert "--mixed struct requires" in capsys.readouterr().err
    exported = tmp_path / "e.rls"
    exported.write_text(f'p(1) . p("b") . @export p :- {form}{{ resource = "e.{form}" }} .')
    assert main(["run", str(exported), "--output", str(tmp_path / "there"), "--mixed", "struct"]) == 0
    reasoner = Reasoner("q(?x) :- e(?x) .")
    reasoner.read(tmp_path / "there" / f"e.{form}")
    assert set(reasoner["q"].to_texts("exact").rows()) == {("1",), ('"b"',)}


def test_a_relation_without_rows_has_its_schema() -> None:
    text = """
    @declare flight(src: string, dst: iri, km: int, cost: decimal(9, 2), at: dateTime, off: localDateTime) .
    far(?a, ?km, ?d, #sum(?cost), #count(?b)) :- flight(?a, ?b, ?km, ?cost, ?at, _), ?d = ?km * 1.5 .
    """
    empty, filled = Reasoner(tl.parse(text)), Reasoner(tl.parse(text))
    rows = [("a", "b", 5, Decimal("1.25"), "2024-05-01T00:00:00Z", "2024-05-01T00:00:00")]
    filled.insert("flight", rows)
    for name in ("flight", "far"):
        assert empty[name].to_arrow().schema == filled[name].to_arrow().schema
        assert len(filled[name]) == 1
    assert empty["flight"].to_arrow().schema.field("cost").type == pa.decimal128(9, 2)
    assert empty["far"].columns == ("a", "km", "d", "sum_cost", "count_b")
    assert [str(kind) for kind in empty["far"].to_arrow().schema.types] == [
        "large_string", "int64", "decimal128(38, 18)", "decimal128(38, 18)", "int64",
    ]  # fmt: skip
    assert empty["far"].to_polars().schema == filled["far"].to_polars().schema
    assert empty.query("far(?a, ?km, _, _, _)").to_arrow().schema.field("km").type == pa.int64()


def test_scales_do_not_follow_the_rows() -> None:
    schemas = set()
    for amount in ("1", "2.5", "0.123456789"):
        reasoner = Reasoner("@declare p(x: decimal) .")
        reasoner.insert("p", [(Decimal(amount),)])
        table = reasoner["p"].to_arrow()
        assert table.to_pylist() == [{"x": Decimal(amount)}]
        schemas.add(str(table.schema))
    assert len(schemas) == 1


def test_data_from_python_has_its_types() -> None:
    """The columns of a data frame, and the values of rows; later ones are added to what is known."""
    reasoner = Reasoner("q(?y, ?x) :- p(?x, ?y) .")
    reasoner.insert("p", pa.table({"a": [1], "b": [2.5]}))
    assert reasoner["q"].to_arrow().schema.types == [pa.float64(), pa.int64()]
    before = reasoner["q"]
    with reasoner.change() as change:
        change.insert("p", [("a", 2)])
    assert change.delta["q"].added.to_arrow().to_pylist() == [{"y": "2", "x": "a"}]
    assert reasoner["q"].to_arrow().schema.types == [pa.large_string()] * 2
    assert before.to_arrow().num_rows == 1


def test_rules_that_go_leave_typed_changes() -> None:
    reasoner = Reasoner('p(1) . q(?x) :- p(?x) . q("a") :- r(?x) . r(2) .')
    delta = reasoner.apply("- q(?x) :- p(?x) .")
    assert delta["q"].removed.to_arrow().to_pylist() == [{"x": "1"}]
    assert reasoner["q"].to_arrow().to_pylist() == [{"x": "a"}]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ('@declare p(x: int) . p(?x) :- q(?x) . q("a") . q(1) .', '"a"'),
        ("@declare p(x: decimal(4, 2)) . p(?y) :- q(?x), ?y = ?x * 1.5 . q(0.25) .", "0.375"),
        ("@declare p(x: decimal(4, 2)) . p(?y) :- q(?x), ?y = ?x * 1.5 . q(100.0) .", "150.0"),
        ("@declare p(x: int) . p(9223372036854775808) .", "9223372036854775808"),
        ("p(0.0000000000000000001) .", "0.0000000000000000001"),
        ("p(123456789012345678901.5) .", "123456789012345678901.5"),
    ],
)
@pytest.mark.filterwarnings("ignore:warning.W105")
def test_what_does_not_fit_is_an_error(text: str, shown: str) -> None:
    with pytest.raises(tl.DataError) as error:
        Reasoner(text)["p"].to_arrow()
    (found,) = error.value.diagnostics
    assert found.code == "E866" and f"`{shown}`" in found.message and found.help


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "arrow"])
def test_files_refuse_what_does_not_fit(tmp_path: Path, form: str) -> None:
    (tmp_path / "p.rls").write_text('@declare p(x: int) . p(?x) :- q(?x) . q("a") . q(1) . @output p .')
    assert main(["run", str(tmp_path / "p.rls"), "--format", form, "--output", str(tmp_path / "out")]) == 1
    assert not list(tmp_path.glob("out/*"))


def test_files_have_schemas_without_rows(tmp_path: Path) -> None:
    (tmp_path / "p.rls").write_text(
        "@declare p(a: int, b: double) . q(?b, #count(?a)) :- p(?a, ?b) . @output p, q ."
    )
    assert main(["run", str(tmp_path / "p.rls"), "-f", "parquet", "-o", str(tmp_path / "out"), "-q"]) == 0
    assert pq.read_schema(tmp_path / "out" / "p.parquet").types == [pa.int64(), pa.float64()]
    found = pq.read_schema(tmp_path / "out" / "q.parquet")
    assert (found.names, found.types) == (["b", "count_a"], [pa.float64(), pa.int64()])


# ---- decimals of a size


def test_sizes_are_printed_and_described() -> None:
    text = "@declare price(item: string, amount: decimal(12, 2)) .\n"
    assert print_document(parse(SourceText("p", text))) == text
    program = tl.parse(text + '@import q :- csv{ resource = "q.csv", format = (int, decimal(4,1)) } .')
    assert arrow_type(infer(program).schema(program.predicates["price"])[1]) == pa.decimal128(12, 2)
    assert [kind.value for kind in program.imports[0].types or ()] == ["int", "decimal(4, 1)"]


@pytest.mark.parametrize(
    "wrong", ["decimal(39, 2)", "decimal(2, 3)", "decimal(0, 0)", "decimal(4)", "int(3)"]
)
def test_sizes_that_cannot_be(wrong: str) -> None:
    with pytest.raises(tl.ProgramError, match="E212"):
        tl.parse(f"@declare p(x: {wrong}) .")


DECIMALS = st.decimals(-1000, 1000, places=3, allow_nan=False, allow_infinity=False)


@given(st.lists(DECIMALS, min_size=1, max_size=8))
def test_rows_beyond_a_size_are_rejected(numbers: list[Decimal]) -> None:
    """By every way in alike: texts, Python's numbers, Arrow's decimals, CSV."""
    fits = {number for number in numbers if abs(number) < 100 and number == round(number, 2)}
    found = []
    table = pa.table({"x": pa.array(numbers, pa.decimal128(10, 3))})
    text = "".join(f"{number:f}\n" for number in numbers)
    for data in ([(f"{number:f}",) for number in numbers], [(number,) for number in numbers], table):
        reasoner = Reasoner("@declare p(x: decimal(4, 2)) .", on_error="skip")
        reasoner.insert("p", data)
        found.append((set(reasoner["p"]["x"]), reasoner.faults.skipped))
    import tempfile

    with tempfile.NamedTemporaryFile("w", suffix=".csv") as file:
        file.write(text)
        file.flush()
        program = f'@declare p(x: decimal(4, 2)) . @import p :- csv{{ resource = "{file.name}" }} .'
        reasoner = Reasoner(tl.parse(program), on_error="skip")
        found.append((set(reasoner["p"]["x"]), reasoner.faults.skipped))
    assert all(rows == fits for rows, _ in found)
    assert {skipped for _, skipped in found} == {sum(number not in fits for number in numbers)}


# ---- names


def test_columns_are_named_by_what_they_hold() -> None:
    program = tl.parse(
        "t(?s, #sum(?a, ?o), #count(?o), ?s, 3, ?a + 1, #sum(?a)) :- sale(?s, ?o, ?a) . u(?c2, 1) :- v(?c2) ."
    )
    assert program.predicates["t"].names == ("s", "sum_a", "count_o", "c4", "c5", "c6", "c7")
    assert program.predicates["u"].names == ("c2", "c2_")


# ---- missing values

NULLS = {"csv": "a,1\nb,\nc,3\n", "jsonl": '["a", 1]\n["b", null]\n["c", 3]\n'}


@pytest.mark.parametrize("form", ["csv", "jsonl", "parquet", "arrow"])
def test_missing_values(tmp_path: Path, form: str, capsys: pytest.CaptureFixture[str]) -> None:
    path = tmp_path / f"p.{form}"
    table = pa.table({"x": ["a", "b", "c"], "n": [1, None, 3]})
    if form == "parquet":
        pq.write_table(table, path)
    elif form == "arrow":
        with pa.ipc.new_file(str(path), table.schema) as writer:
            writer.write_table(table)
    else:
        path.write_text(NULLS[form])

    def read(nulls: str) -> Reasoner:
        program = f'@declare p(x: string, n: int) . @import p :- {form}{{ resource = "{path}"{nulls} }} .'
        reasoner = Reasoner(tl.parse(program))
        reasoner.materialise()
        return reasoner

    for nulls in ("", ", nulls = reject", ", nulls = (value, reject)"):
        with pytest.raises(tl.DataError, match="E504"):
            read(nulls)
    for nulls in (', nulls = "drop-row"', ", nulls = (reject, drop_row)"):
        reasoner = read(nulls)
        assert sorted(reasoner["p"]) == [("a", 1), ("c", 3)]
        (((_, column, done), rows),) = reasoner.faults.nulls.items()
        assert (column, done, rows) == ("n", "drop-row", 1)
        assert reasoner["p"].to_arrow().schema.field("n").type == pa.int64()
    reasoner = read(", nulls = (reject, value)")
    texts = {("a", "1"), ("b", ""), ("c", "3")}
    assert set(reasoner["p"].to_texts().rows()) == texts
    assert set(reasoner.query('p(?x, ""^^<tag:tidelog:null>)')["x"]) == {"b"}
    assert [key[1:] for key in reasoner.faults.nulls] == [("n", "value")]
    assert reasoner["p"].to_arrow().schema.field("n").type == pa.large_string()
    imported = f'@import p :- {form}{{ resource = "{path}", nulls = "drop-row" }} .'
    (tmp_path / "p.rls").write_text(f"@declare p(x: string, n: int) . {imported} @output p .")
    assert main(["run", str(tmp_path / "p.rls"), "--stats", str(tmp_path / "s.json")]) == 0
    assert "without a value in column `n`" in capsys.readouterr().err
    assert json.loads((tmp_path / "s.json").read_text())["nulls"][0]["rows"] == 1


def test_what_nulls_can_be() -> None:
    for wrong in ("nulls = 5", "nulls = maybe", "nulls = (reject, perhaps)"):
        with pytest.raises(tl.ProgramError, match="`nulls` expects"):
            tl.parse(f'@import p :- csv{{ resource = "p.csv", {wrong} }} .')
    program = tl.parse(
        '@declare p(x: int) . @import p :- csv{ resource = "p.csv", nulls = (value, value) } .'
    )
    with pytest.raises(tl.DataError, match="the option `nulls` has 2 words"):
        Reasoner(program).materialise()


# ---- queries


def test_queries_warn_of_what_never_matches(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    text = '@declare given(c: string, x: int) . given("C1", 5) . revenue(?c, ?x) :- given(?c, ?x) .'
    reasoner = Reasoner(text)
    for ask in (reasoner.query, reasoner.watch, lambda query: list(reasoner.answers(query))):
        with pytest.warns(ProgramWarning, match=r"W105.*`C1` never matches(.|\n)*<query>:1:1"):
            ask("revenue(C1, ?x)")
    with pytest.warns(ProgramWarning, match="division by zero never has a value"):
        assert not reasoner.query("revenue(?c, ?x), ?y = 1/0")
    (tmp_path / "p.rls").write_text(text)
    assert main(["query", str(tmp_path / "p.rls"), "revenue(C1, ?x)"]) == 0
    assert capsys.readouterr().err.count("warning[W105]") == 1


def test_data_that_came_is_known_to_queries() -> None:
    """A predicate that rules derive may be given other values too."""
    reasoner = Reasoner("q(?x) :- p(?x) . p(1) .")
    reasoner.insert("q", [("a",)])
    assert len(reasoner.query("q(a)")) == 1


def test_facts_with_times_that_are_only_given_have_schemas() -> None:
    reasoner = tl.Reasoner("@declare hot(x: string) . alarm(?x) :- diamondminus[0, 2] hot(?x) .")
    reasoner.insert("hot", pa.table({"x": ["a", "b"], "start": [0, 5], "end": [1, 6]}))
    answers = reasoner.query("alarm(?x)")  # before anything is derived
    assert answers.to_arrow().column("x").to_pylist() == ["a", "b"]
    assert len(reasoner.query("hot(?x)").to_arrow()) == 2
