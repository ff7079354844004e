"""Sources on Spark: facts and rejected rows are those of tidelog's own readers, whatever files hold."""

from __future__ import annotations

import gzip
import json
import os
import random
import subprocess
import sys
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidelog
from tidelog.data.columns import Batch
from tidelog.data.decode import exact_array
from tidelog.errors import DataError
from tidelog.io.data_file import InputFile, data_file
from tidelog.io.reader import read
from tidelog.io.rejects import BadRow, OnError, RejectedRows
from tidelog.logic.program import Program
from tidelog.spark.session import find_java

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from tidelog.spark.reading.source_rows import SourceRows

PROGRAM = """
@declare line(id: int, who: string, price: decimal(12, 2), day: date, what: iri, ratio: double, note: any) .
@declare pair(x: any, y: any) .
@declare triple(s: any, p: any, o: any) .
@declare quad(g: any, s: any, p: any, o: any) .
@declare event(at: dateTime, local: localDateTime, ok: boolean) .
"""


class Kept(RejectedRows):
    """Faults in memory."""

    def __init__(self) -> None:
        super().__init__(OnError.COLLECT)
        self.found: list[BadRow] = []

    def add(self, row: BadRow) -> None:
        self.found.append(row)


def program() -> Program:
    return tidelog.parse(PROGRAM)


def own(files: list[InputFile]) -> tuple[list[Any], list[Any]]:
    """Return facts and rejected rows as tidelog's own readers have them."""
    facts, kept = [], Kept()
    for file in files:
        for batch in read(file, kept):
            facts += rows_of(batch)
    return sorted(facts), sorted(map(reject_of, kept.found))


def rows_of(batch: Batch) -> list[Any]:
    return list(zip(*(exact_array(column).to_pylist() for column in batch.columns), strict=True))


def reject_of(row: BadRow) -> Any:
    text = row.text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return row.diagnostic.place, row.diagnostic.code, row.diagnostic.message, text


def on_spark(reading: SourceRows) -> tuple[list[Any], list[Any]]:
    """Return the same as Spark has them."""
    table = reading.frame.toArrow()
    names = [f"slot {place}" for place in range(table.num_columns)]
    task, kept, facts = reading.input.reading(tuple(names)), Kept(), []
    for batch in task.batches(table, "frame", kept):
        facts += rows_of(batch)
    assert not kept.found, "all rows of the frame are facts"
    rejects = [
        tuple(row[name] for name in ("place", "code", "reason", "row")) for row in reading.rejects.collect()
    ]
    counts = reading.counts.get
    assert (counts["read"], counts["rejected"]) == (len(facts) + len(rejects), len(rejects))
    some = reading.rejects_of(counts["files"])
    assert some.count() == len(rejects)
    return sorted(facts), sorted(rejects)


def check(session: SparkSession, predicate: str, files: list[Path], **more: Any) -> SourceRows:
    """Check that both read the same, and return what Spark reads."""
    from tidelog.io.data_file import FactSource
    from tidelog.spark.reading.source_frames import read_source

    known = program()
    found = known.predicates[predicate]
    own_files = [data_file(path, found, more.get("header")) for path in files]
    delimiter = {"delimiter": more["delimiter"]} if "delimiter" in more else {}
    own_files = [replace(each, quoting=more.get("quoting", True), **delimiter) for each in own_files]
    source = FactSource(predicate, tuple(map(str, files)), **more)
    reading = read_source(session, source, known)
    assert on_spark(reading) == own(own_files)
    return reading


# ---- delimited text

CELLS = {
    "id": ["1", "2", " 3", "x", "", "1.5", "-7", "+8", "007", "٣"],
    "who": ["a", "", " b ", 'q"', "é", "\ufffd", "a b", "'", "\\", "\x00"],
    "price": ["1", "1.25", "1.250", "1.255", "x", "", "-0.5", ".5", "9999999999.99", "99999999999"],
    "day": ["2020-02-29", "2021-02-29", "", "2020-1-1", " 2020-01-01 ", "today"],
    "what": ["alice", "<b>", "a b", "", "http://e.org/x", "_:b", "_:"],
    "ratio": ["1", "1e3", "INF", "NaN", "0x1p3", "1d", "", ".5", "-0"],
    "note": ["1", "x", "", '"q"', "1.5", "<i>", "a b"],
}


def random_cell(rng: random.Random, name: str, delimiter: str, quoting: bool) -> bytes:
    text = rng.choice(CELLS[name] if rng.random() < 0.3 else CELLS[name][:1])
    raw = text.encode()
    if quoting and (rng.random() < 0.1 or (delimiter in text)):
        raw = b'"' + raw.replace(b'"', b'""') + b'"'
        if rng.random() < 0.1:
            raw += rng.choice([b" ", b"z", b'z"', b"\t"])
    elif delimiter in text:
        raw = b"z"
    return raw + (b"\xff" if rng.random() < 0.01 else b"")


def random_text(rng: random.Random, delimiter: str, quoting: bool, goes_on: bool) -> bytes:
    """Return rows of which many have something wrong with them."""
    names = list(CELLS)
    if rng.random() < 0.5:
        rng.shuffle(names)
    end = rng.choice([b"\n", b"\n", b"\r\n", b"\r"])
    lines = [delimiter.join(names).encode()]
    for _ in range(rng.choice([0, 5, 60])):
        cells = [random_cell(rng, name, delimiter, quoting) for name in names]
        match rng.randrange(25):
            case 0:
                cells.pop()
            case 1:
                cells.append(b"")
            case 2:
                cells = [rng.choice([b"", b" ", b"\t", b"\t\t", b"   "])]
            case 3 if goes_on:
                cells[names.index("who")] = rng.choice([b'"a\nb"', b'"a\r\n""b"', b'"a\r\rb"'])
            case 4 if goes_on and rng.random() < 0.1:
                cells[names.index("who")] = b'"open'
        lines.append(delimiter.encode().join(cells))
    text = end.join(lines) + rng.choice([b"", end, end + end])
    return rng.choice([b"", b"\xef\xbb\xbf"]) + text


@pytest.mark.parametrize("seed", [1, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(2, 30))])
def test_delimited(spark: SparkSession, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    name, delimiter = rng.choice([("csv", ","), ("tsv", "\t"), ("dsv", "|"), ("csv", ";")])
    quoting, goes_on = rng.random() < 0.8, rng.random() < 0.5
    files = []
    for number in range(6):
        path = tmp_path / f"part {number}.{name}"
        path.write_bytes(random_text(rng, delimiter, quoting, quoting and goes_on))
        files.append(path)
    (tmp_path / f"part 7.{name}").write_bytes(b"")
    packed = tmp_path / f"part 8.{name}.gz"
    packed.write_bytes(gzip.compress(random_text(rng, delimiter, quoting, False)))
    files += [tmp_path / f"part 7.{name}", packed]
    more = {} if name == "tsv" else {"delimiter": delimiter}
    check(spark, "line", files, quoting=quoting, header=True, **more)


def test_delimited_on_connect(connect: SparkSession, tmp_path: Path) -> None:
    rng = random.Random(1)
    files = [tmp_path / f"part-{number}.csv" for number in range(5)]
    for number, path in enumerate(files):
        path.write_bytes(random_text(rng, ",", True, number > 2) if number else b"")
    check(connect, "line", files, header=True)


def test_a_folder_without_a_format(spark: SparkSession, tmp_path: Path) -> None:
    from tidelog.io.data_file import FactSource
    from tidelog.spark.reading.source_frames import read_source

    (tmp_path / "_SUCCESS").write_text("")
    (tmp_path / "a.csv").write_text("x,y\n1,b\n")
    (tmp_path / "b.csv").write_text("x,y\n2,b\n")
    for path in (str(tmp_path), f"file://{tmp_path}", f"{tmp_path}/*.csv"):
        found = read_source(spark, FactSource("pair", path), program())
        assert sorted(row.x for row in found.frame.collect()) == ["1", "2"]
    found = read_source(spark, FactSource("pair", "."), program(), tmp_path)
    assert found.columns == ("x", "y")
    (tmp_path / "c.json").write_text("[]")
    with pytest.raises(DataError, match="several formats: csv, json"):
        read_source(spark, FactSource("pair", str(tmp_path)), program())
    with pytest.raises(DataError, match="no such file"):
        read_source(spark, FactSource("pair", str(tmp_path / "d")), program())


@pytest.mark.parametrize("name", ["csv", "parquet", "orc"])
def test_partitions_of_a_folder(session: SparkSession, tmp_path: Path, name: str) -> None:
    from tidelog.io.data_file import FactSource
    from tidelog.spark.reading.source_frames import read_source

    known = tidelog.parse("@declare city(name: string, country: string, code: int) .")
    folder = tmp_path / "my data"
    for country, code in (("D E", "007"), ("FR", "x"), ("IT", "3")):
        inside = folder / f"country={country}" / f"code={code}"
        inside.mkdir(parents=True)
        if name == "csv":
            (inside / "a.csv").write_text(f'name\n{country} 1\n"{country}\n2"\n')
            (inside / "b.csv").write_text(f"name\n{country} 3\n")
        else:
            session.createDataFrame(
                [(f"{country} 1",), (f"{country}\n2",), (f"{country} 3",)], "name string"
            ).coalesce(1).write.format(name).mode("overwrite").save(str(inside))
    found = read_source(session, FactSource("city", str(folder)), known)
    rows = sorted(map(tuple, found.frame.collect()))
    assert rows == [
        ("D E\n2", "D E", 7),
        ("D E 1", "D E", 7),
        ("D E 3", "D E", 7),
        ("IT\n2", "IT", 3),
        ("IT 1", "IT", 3),
        ("IT 3", "IT", 3),
    ]
    rejects = found.rejects.collect()
    assert len(rejects) == 3
    assert {row.column for row in rejects} == {"code"}
    assert found.counts.get["rejected"] == 3


def test_an_extra_column_is_told(spark: SparkSession, tmp_path: Path) -> None:
    from tidelog.io.data_file import FactSource
    from tidelog.spark.reading.source_frames import read_source

    (tmp_path / "a.csv").write_text("")
    (tmp_path / "b.csv").write_text("x,y\n1,b\n")
    (tmp_path / "c.csv").write_text("y,x,z\nb,2,b\n")
    found = read_source(spark, FactSource("pair", str(tmp_path)), program())
    assert sorted(map(tuple, found.frame.collect())) == [("1", "b"), ("2", "b")]
    assert found.columns == ("x", "y", "z")
    (warning,) = found.warnings
    assert "has `z` besides" in warning.message
    (tmp_path / "d.csv").write_text("x\n1\n")
    with pytest.raises(DataError, match="no column `y`"):
        read_source(spark, FactSource("pair", str(tmp_path), header=True), program())


# ---- JSON and RDF


def random_json(rng: random.Random) -> Any:
    number = rng.choice(
        [1, 2.5, "3", "x", None, True, 10**20, "", {"@id": "http://e.org/a"}, [1], "2020-01-01"]
    )
    row = {
        "id": rng.choice([1, 2, "3", number]),
        "who": rng.choice(["a", "b c", number]),
        "price": rng.choice([1, 2.5, "1.25", number]),
    }
    row |= {
        "day": rng.choice(["2020-02-29", number]),
        "what": rng.choice(["alice", number]),
        "ratio": rng.choice([1, 0.5, number]),
        "note": number,
    }
    if rng.random() < 0.05:
        row.pop("who")
    if rng.random() < 0.1:
        return list(row.values())
    return row


@pytest.mark.parametrize("seed", [0, *(pytest.param(seed, marks=pytest.mark.slow) for seed in range(1, 10))])
def test_json(session: SparkSession, tmp_path: Path, seed: int) -> None:
    rng = random.Random(seed)
    lines = [json.dumps(random_json(rng)) for _ in range(80)]
    lines[0] = json.dumps(
        {"id": 1, "who": "a", "price": 1, "day": "2020-01-01", "what": "b", "ratio": 1.5, "note": 1}
    )
    lines[5:7] = ["{", "[1, 2]", ""]
    path = tmp_path / "a.jsonl"
    path.write_text("\n".join(lines))
    (tmp_path / "b.jsonl").write_text("")
    check_except_misfits(session, "line", [path, tmp_path / "b.jsonl"])
    path = tmp_path / "a.json"
    path.write_text("[" + ",\n".join(line for line in lines if line and line != "{") + "]")
    check_except_misfits(session, "line", [path])


def check_except_misfits(session: SparkSession, predicate: str, files: list[Path]) -> None:
    """Check the same, but for integers beyond 64 bits, which Spark's type rejects."""
    from tidelog.io.data_file import FactSource
    from tidelog.spark.reading.source_frames import read_source

    known = program()
    reading = read_source(session, FactSource(predicate, tuple(map(str, files))), known)
    facts, rejects = on_spark(reading)
    own_facts, own_rejects = own([data_file(path, known.predicates[predicate]) for path in files])
    beyond = [row for row in own_facts if row[0] == str(10**20)]
    assert facts == [row for row in own_facts if row not in beyond]
    assert [row for row in rejects if "exceeds 64 bits" not in row[2]] == own_rejects
    assert len(rejects) == len(own_rejects) + len(beyond)


TRIPLES = """<http://e.org/a> <http://e.org/p> "x"@en .
_:b <http://e.org/p> _:c .
_:b <http://e.org/p> "1"^^<http://www.w3.org/2001/XMLSchema#integer> . # a comment

<a> <p> <b>
<http://e.org/a> <http://e.org/p> "\\u00e9\\n" .
"""
QUADS = TRIPLES + "_:b <http://e.org/p> <http://e.org/o> <http://e.org/g> .\n<a> <p> <o> _:g .\n"
TURTLE = """@prefix : <http://e.org/> . :a :p [ :q 1, 2.5, true ], "x"@de ; :r ( :b _:c ) . <rel> :p _:c ."""


@pytest.mark.parametrize(
    ("name", "predicate", "text"),
    [
        ("nt", "triple", TRIPLES),
        ("nq", "quad", QUADS),
        ("ttl", "triple", TURTLE),
        ("trig", "quad", TURTLE + ":g { :a :p [ :q :b ] }"),
        (
            "jsonld",
            "triple",
            '{"@id": "http://e.org/a", "http://e.org/p": [{"@value": 1}, {"http://e.org/q": "x"}]}',
        ),
        (
            "rdf",
            "triple",
            '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://e.org/"><rdf:Description><e:p>x</e:p></rdf:Description></rdf:RDF>',
        ),
    ],
)
def test_rdf(session: SparkSession, tmp_path: Path, name: str, predicate: str, text: str) -> None:
    files = [tmp_path / f"{part}.{name}" for part in "ab"]
    for path in files:
        path.write_text(text)
    check(session, predicate, files)


# ---- tables


def test_parquet(session: SparkSession, tmp_path: Path) -> None:
    rows = {
        "note": ["1", "x", None, "a b", "1.5", "n"],
        "id": pa.array([1, 2, 3, None, 5, 6], pa.int32()),
        "who": ["a", "b", "c", "d", "e", ""],
        "price": pa.array([1, 2, 3, 4, 5, 6], pa.int64()),
        "day": ["2020-02-29", "2021-02-29", "2020-01-01", "2020-01-01", "x", "2020-01-01"],
        "what": ["a", "b", "c", "d", "e", "a b"],
        "ratio": pa.array([1.5, 2, 3, 4, 5, float("nan")], pa.float32()),
    }
    for part in "ab":
        pq.write_table(pa.table(rows), tmp_path / f"{part}.parquet")
    found = check(session, "line", [tmp_path / "a.parquet", tmp_path / "b.parquet"])
    assert found.columns[0] == "day: string"
    assert found.frame.schema.simpleString() == (
        "struct<id:bigint,who:string,price:decimal(12,2),day:date,what:string,ratio:double,note:string>"
    )


def test_decimals_are_never_rounded(spark: SparkSession) -> None:
    from tidelog.io.data_file import FactSource
    from tidelog.spark.reading.source_frames import read_source

    known = tidelog.parse("@declare price(x: decimal(5, 2)) .")
    frame = spark.sql(
        "SELECT CAST(x AS decimal(20, 3)) AS x FROM VALUES (1.5), (1.255), (1000), (NULL) AS t(x)"
    )
    found = read_source(spark, FactSource("price", frame=frame), known)
    assert [str(row.x) for row in found.frame.collect()] == ["1.50"]
    assert found.counts.get == {"read": 4, "rejected": 3, "left_out": 0, "filtered": 0, "files": []}
    assert [row.text for row in found.rejects.orderBy("text").collect()] == [None, "1.255", "1000.000"]


def test_tables_and_what_is_wrong_with_them(spark: SparkSession) -> None:
    from tidelog.io.data_file import FactSource
    from tidelog.spark.reading.source_frames import read_source

    spark.range(3).createOrReplaceTempView("numbers")
    known = tidelog.parse("@declare number(x: int) . @declare name(x: string) .")
    found = read_source(spark, FactSource("number", format="table", table="numbers"), known)
    assert sorted(row.x for row in found.frame.collect()) == [0, 1, 2]
    for source, told in (
        (FactSource("name", format="table", table="numbers"), "is of the type bigint, not string"),
        (FactSource("number", format="table", table="nothing"), "cannot be read"),
        (FactSource("number", format="jdbc", url="jdbc:none:x", table="t"), "cannot be read"),
        (FactSource("numbre", format="table", table="numbers"), "no predicate `numbre`"),
    ):
        with pytest.raises(DataError, match=told):
            read_source(spark, source, known)


def test_avro_where_the_session_lacks_it(spark: SparkSession, tmp_path: Path) -> None:
    from tidelog.io.data_file import FactSource
    from tidelog.spark.reading.source_frames import read_source

    (tmp_path / "a.avro").write_bytes(b"")
    with pytest.raises(DataError, match="does not have Avro"):
        read_source(spark, FactSource("pair", str(tmp_path)), program())


def test_text(spark: SparkSession, tmp_path: Path) -> None:
    from tidelog.io.data_file import FactSource
    from tidelog.spark.reading.source_frames import read_source

    (tmp_path / "a.txt").write_text("one\n\ntwo words\n")
    known = tidelog.parse("@declare line(text: string) .")
    found = read_source(spark, FactSource("line", str(tmp_path)), known)
    assert sorted(row.text for row in found.frame.collect()) == ["", "one", "two words"]


# ---- filters

ROWS = [
    (1, "a", "2020-01-01", "1.5"),
    (7, "b", "2021-01-01", "2.5"),
    (9, "a", "2022-01-01", "x"),
    (5, "c", "2020-06-01", "7"),
]


@pytest.mark.parametrize(
    ("literals", "wanted", "is_sql"),
    [
        ("?id > 5", [7], True),
        ('5 < ?id, ?who != "a"', [7], True),
        ('?who = "a"', [1], True),
        ('?day >= "2020-06-01"^^<http://www.w3.org/2001/XMLSchema#date>', [5, 7], True),
        ("?price < 2.5", [1], True),
        ("?id > 2.5", [5, 7], False),  # an integer and a decimal: tasks compare them
        ("STRLEN(?who) = 1, ?id < 7", [1, 5], False),
        ("?id = 7.0", [], False),
    ],
)
@pytest.mark.parametrize("name", ["csv", pytest.param("parquet", marks=pytest.mark.slow)])
def test_filters(
    spark: SparkSession, tmp_path: Path, name: str, literals: str, wanted: list[int], is_sql: bool
) -> None:
    from tidelog.io.data_file import FactSource
    from tidelog.spark.reading.source_frames import read_source

    known = tidelog.parse("@declare sale(id: int, who: string, day: date, price: decimal(5, 2)) .")
    path = tmp_path / f"sale.{name}"
    if name == "csv":
        path.write_text("id,who,day,price\n" + "".join(",".join(map(str, row)) + "\n" for row in ROWS))
    else:
        pq.write_table(
            pa.table(dict(zip(("id", "who", "day", "price"), zip(*ROWS, strict=True), strict=True))), path
        )
    found = read_source(spark, FactSource("sale", str(path), filter=literals), known)
    assert (found.filtering.condition is not None) is is_sql
    assert sorted(row.id for row in found.frame.collect()) == wanted
    counts = found.counts.get
    assert counts["rejected"] == 1
    if is_sql and name == "csv":
        assert counts["filtered"] == 3 - len(wanted)


def test_filters_are_pushed_into_scans(spark: SparkSession, tmp_path: Path) -> None:
    from tidelog.io.data_file import FactSource
    from tidelog.spark.reading.source_frames import read_source

    known = tidelog.parse("@declare number(x: int, y: int) .")
    pq.write_table(pa.table({"x": [1, 2, 3], "y": [1, None, 3], "z": [1, 2, 3]}), tmp_path / "a.parquet")
    found = read_source(spark, FactSource("number", str(tmp_path), filter="?x > 2"), known)
    plan = found.frame._jdf.queryExecution().toString()
    assert "PushedFilters: [Or(" in plan
    assert "z#" not in plan.split("== Optimized Logical Plan ==")[1].split("ReadSchema")[1]
    assert [tuple(row) for row in found.frame.collect()] == [(3, 3)]
    assert (
        found.counts.get["rejected"] == 1
    )  # a row that cannot be read is rejected, whatever the filter says


@pytest.mark.parametrize(("literals", "told"), [("?q > 1", "binds variable"), ("?x >", "not well formed")])
def test_a_filter_that_is_wrong(spark: SparkSession, literals: str, told: str) -> None:
    from tidelog.io.data_file import FactSource
    from tidelog.spark.reading.source_frames import read_source

    frame = spark.range(1).toDF("x")
    known = tidelog.parse("@declare number(x: int) .")
    with pytest.raises(DataError, match=told):
        read_source(spark, FactSource("number", frame=frame, filter=literals), known)


# ---- several sources


def test_sources_share_scans(spark: SparkSession, tmp_path: Path) -> None:
    from tidelog.io.data_file import FactSource
    from tidelog.logic.type_inference import infer
    from tidelog.spark.reading.source_frames import combine_sources, read_source
    from tidelog.spark.stages import BoundProgram, types_in

    known = tidelog.parse("""
        @declare road(x: string, y: string) . @declare rail(a: string, b: string) .
        @declare toll(x: string, y: int) .
        way(?x, ?y) :- road(?x, ?y) . way(?x, ?y) :- rail(?x, ?y) . cost(?x, ?n) :- toll(?x, ?n) .""")
    for name in ("road", "rail", "toll"):
        (tmp_path / name).mkdir()
        for part in "ab":
            (tmp_path / name / f"{part}.csv").write_text(f"{name} {part},{len(name)}\n{name}\n")
    readings = {
        name: read_source(spark, FactSource(name, str(tmp_path / name), header=False), known)
        for name in ("road", "rail", "toll")
    }
    found = combine_sources(readings)
    assert len(found.frames.groups) == 1
    assert len(found.frames.groups[0][0]) == 4
    given = BoundProgram(known, found.inputs, infer(known, *types_in(found.inputs.values())), {})
    derived = given.derive(found.frames, None, "fail", "fail")
    assert sorted(map(tuple, derived["way"].collect())) == [
        (f"{name} {part}", "4") for name in ("rail", "road") for part in "ab"
    ]
    assert sorted(map(tuple, derived["cost"].collect())) == [("toll a", 4), ("toll b", 4)]
    for name in ("road", "rail"):
        counts = found.counts(name)
        assert (counts["read"], counts["rejected"], len(counts["files"])) == (4, 2, 2)
        assert readings[name].rejects_of(counts["files"], counts["marks"]).count() == 2


def test_other_file_systems(spark: SparkSession, tmp_path: Path) -> None:
    """Spark lists and reads files of which this process knows nothing."""
    from tidelog.io.data_file import FactSource
    from tidelog.spark.reading.source_frames import read_source

    rng = random.Random(3)
    lake = tmp_path / "lake"
    (lake / "lines").mkdir(parents=True)
    files = [lake / "lines" / f"part {number}.csv" for number in range(4)]
    for number, path in enumerate(files):
        path.write_bytes(random_text(rng, ",", True, number > 1) if number else b"")
    (lake / "triples").mkdir()
    (lake / "triples" / "a.ttl").write_text(TURTLE)
    spark.conf.set("fs.viewfs.mounttable.lake.link./in", f"file://{lake}")
    known = program()
    found = read_source(spark, FactSource("line", "viewfs://lake/in/lines", header=True), known)
    facts, rejects = on_spark(found)
    own_facts, own_rejects = own([data_file(path, known.predicates["line"], True) for path in files])
    assert facts == own_facts
    assert sorted(row[1:] for row in rejects) == sorted(row[1:] for row in own_rejects)
    found = read_source(spark, FactSource("triple", "viewfs://lake/in/triples"), known)
    assert len(on_spark(found)[0]) == len(
        own([data_file(lake / "triples" / "a.ttl", known.predicates["triple"])])[0]
    )
    with pytest.raises(DataError, match="no such file"):
        read_source(spark, FactSource("line", "viewfs://lake/in/nothing"), known)


def test_rejects_are_looked_for_in_some_files(spark: SparkSession, tmp_path: Path) -> None:
    from tidelog.io.data_file import FactSource
    from tidelog.spark.reading.source_frames import read_source

    known = tidelog.parse("@declare number(x: int) .")
    for part in "abc":
        (tmp_path / f"{part}.csv").write_text(f"x\n1\n{part if part == 'b' else 2}\n")
    found = read_source(spark, FactSource("number", str(tmp_path)), known)
    assert found.frame.count() == 5
    (file,) = found.counts.get["files"]
    (row,) = found.rejects_of([file]).collect()
    assert (row.line, row.text) == (3, "b")
    for path in (tmp_path / "a.csv", tmp_path / "c.csv"):
        path.unlink()  # what Spark does not read need not be there
    assert found.rejects_of([file]).count() == 1


@pytest.mark.slow
def test_a_session_without_a_python(tmp_path: Path) -> None:
    """Tasks of a local session run the Python of this process, if nobody says which one."""
    script = f"""
import tidelog
from pyspark.sql import SparkSession
from tidelog.spark.reading.source_frames import read_source
from tidelog.io.data_file import FactSource
spark = SparkSession.builder.master("local[1]").config("spark.ui.enabled", "false").getOrCreate()
path = {str(tmp_path / "a.jsonl")!r}
open(path, "w").write('{{"x": 1}}')
found = read_source(spark, FactSource("a", path), tidelog.parse("@declare a(x: int) ."))
print("rows:", found.frame.collect())
"""
    java = str(find_java(tmp_path))
    kept = {key: value for key, value in os.environ.items() if not key.startswith(("PYSPARK", "SPARK"))}
    environment = kept | {"PATH": "/usr/bin:/bin", "JAVA_HOME": java, "SPARK_LOCAL_IP": "127.0.0.1"}
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, timeout=300
    )
    assert "rows: [Row(x=1)]" in done.stdout, done.stderr[-2000:]
