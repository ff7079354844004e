"""Programs as functions of frames: they derive what a reasoner derives, typed before anything runs."""

from __future__ import annotations

import datetime
import io
import subprocess
import sys
from contextlib import redirect_stdout
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest
from pyspark import cloudpickle

import tidelog as tl
from tidelog import spark as ts
from tidelog.logic.intervals import read_interval
from tidelog.spark.shipping import Shipped, error_of
from tidelog.temporal.temporal import TimeSettings

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FLIGHTS = """
reach(?x, ?y) :- flight(?x, ?y, _) .
reach(?x, ?z) :- reach(?x, ?y), flight(?y, ?z, _) .
hops(?x, #count(?y), #sum(?km)) :- flight(?x, ?y, ?km) .
far() :- hops(_, _, ?km), ?km > 6 .
kind("jet", 1.5) .
"""


@pytest.fixture
def flights(session: SparkSession) -> DataFrame:
    rows = [("a", "b", 5), ("b", "c", 7), ("c", "d", 1)]
    return session.createDataFrame(rows, "src string, dst string, km int")


def rows_of(frame: DataFrame) -> set[tuple[Any, ...]]:
    return {tuple(row) for row in frame.collect()}


def test_frames_go_in_and_out(flights: DataFrame) -> None:
    derived = ts.derive(FLIGHTS, {"flight": flights}, outputs=["reach", "hops", "far", "kind"])
    assert list(derived) == ["reach", "hops", "far", "kind"]
    assert derived["reach"].schema.simpleString() == "struct<x:string,y:string>"
    assert derived["kind"].schema.simpleString() == "struct<c1:string,c2:decimal(38,18)>"
    assert rows_of(derived["hops"]) == {("a", 1, 5), ("b", 1, 7), ("c", 1, 1)}
    assert rows_of(derived["far"]) == {(True,)}
    assert rows_of(derived["kind"]) == {("jet", Decimal("1.5"))}
    assert derived.observation.get == {
        "reach": 6, "hops": 3, "far": 1, "kind": 1, "rejects": 0, "violations": 0
    }  # fmt: skip
    assert derived.facts.columns == [
        "predicate", "string_1", "string_2", "bigint_1", "bigint_2", "boolean_1", "decimal_1"
    ]  # fmt: skip
    facts = derived.facts.where("predicate = 'hops'").select(*derived.layout["hops"].values())
    assert rows_of(facts) == rows_of(derived["hops"])


def test_one_query_over_two_outputs_evaluates_the_program_once(flights: DataFrame, tmp_path: Path) -> None:
    from pyspark.sql import functions as F  # noqa: N812

    seen = tmp_path / "seen"
    looked = F.udf(lambda km: (seen.open("a").write("."), km)[1], "int")
    counted = flights.select("src", "dst", looked("km").alias("km"))
    derived = ts.derive(FLIGHTS, {"flight": counted}, outputs=["reach", "hops"])
    both = derived["reach"].join(derived["hops"], "x")
    assert both.count() == 6
    assert len(seen.read_text()) == 3
    with derived.persist() as kept:
        assert kept["reach"].count() == 6 and kept["hops"].count() == 3
    assert len(seen.read_text()) == 6


def test_a_transformation_and_a_check(flights: DataFrame) -> None:
    assert rows_of(flights.transform(ts.rules(FLIGHTS, "far"))) == {(True,)}
    schemas = ts.check(FLIGHTS, {"flight": flights.schema}, outputs=["hops"])
    assert schemas["hops"].simpleString() == "struct<x:string,count_y:bigint,sum_km:bigint>"


def test_columns_are_taken_by_name_and_converted_as_declared(session: SparkSession) -> None:
    frame = session.createDataFrame([(7, "x", "2.50"), (8, "y", "1")], "id long, who string, price string")
    program = "@declare sale(who: iri, price: decimal) . p(?w, ?d) :- sale(?w, ?d) ."
    derived = ts.derive(program, {"sale": frame})
    assert derived["p"].schema.simpleString() == "struct<w:string,d:decimal(38,18)>"
    assert rows_of(derived["p"]) == {("x", Decimal("2.5")), ("y", Decimal(1))}


VALUES: dict[str, list[Any]] = {
    "boolean": [True, False],
    "tinyint": [1, -128],
    "smallint": [1, -32768],
    "int": [1, -(2**31)],
    "bigint": [1, 2**63 - 1],
    "decimal(20,4)": [Decimal("1.5000"), Decimal("-1234567890123456.7891")],
    "double": [1.5, -1e300],
    "float": [1.5, -2.25],
    "date": [datetime.date(2024, 2, 29), datetime.date(1, 1, 1)],
    "timestamp": [datetime.datetime(2024, 2, 29, 1, 2, 3, 456789)],
    "timestamp_ntz": [datetime.datetime(2024, 2, 29, 1, 2, 3, 456789)],
    "string": ["", "5", "alice", "_:b", 'say "hi"', "ü€😀", "true"],
}
OUT = {"tinyint": "bigint", "smallint": "bigint", "int": "bigint", "float": "double"}


def test_values_pass_through_unchanged(session: SparkSession) -> None:
    frames = {
        f"p{number}": session.createDataFrame([(value,) for value in values], f"x {of}")
        for number, (of, values) in enumerate(VALUES.items())
    }
    program = "".join(f"q{number}(?x) :- p{number}(?x) ." for number in range(len(VALUES)))
    derived = ts.derive(program, frames)
    with derived.persist():
        for number, (of, values) in enumerate(VALUES.items()):
            frame = derived[f"q{number}"]
            wanted = "decimal(38,18)" if of.startswith("decimal") else OUT.get(of, of)
            assert frame.schema.simpleString() == f"struct<x:{wanted}>"
            assert rows_of(frame) == {(value,) for value in values}
    empty = ts.derive(program, {name: frame.limit(0) for name, frame in frames.items()})
    assert [frame.schema for frame in empty.values()] == [frame.schema for frame in derived.values()]
    assert not empty.facts.collect()


def test_what_is_wrong_with_inputs_is_told_at_once(session: SparkSession, flights: DataFrame) -> None:
    nested = session.createDataFrame([(1, [2], b"x")], "a int, b array<int>, c binary")
    program = "p(?a) :- q(?a, ?b, ?c), flight(?a, _) ."
    with pytest.raises(tl.ProgramError) as error:
        ts.derive(program, {"q": nested, "flight": flights, "nothing": flights})
    codes = [item.code for item in error.value.diagnostics]
    assert codes == ["E862", "E862", "E861", "E860"]
    for text, code in (("q(?x) :- .", "E107"),):
        with pytest.raises(tl.ProgramError, match=code):
            ts.derive(text, {})
    with pytest.raises(tl.ProgramError, match="E860"):
        ts.derive(FLIGHTS, {"flight": flights}, outputs=["raech"])
    stream = session.readStream.format("rate").load()
    with pytest.raises(tl.ProgramError, match="E863"):
        ts.derive("p(?a, ?b) :- s(?a, ?b) .", {"s": stream})


def test_rows_that_cannot_be_read_are_an_error_or_rejected(session: SparkSession) -> None:
    frame = session.createDataFrame([("5",), ("x",), (None,)], "n string")
    program = "@declare p(n: int) . q(?n + 1) :- p(?n) ."
    derived = ts.derive(program, {"p": frame}, on_error="collect")
    assert rows_of(derived["q"]) == {(6,)}
    assert {row.code for row in derived.rejects.collect()} == {"E504"}
    for action in ("collect", "count", "toArrow"):
        with pytest.raises(Exception, match=r"DataError: error\[E504\]") as raised:
            getattr(ts.derive(program, {"p": frame})["q"], action)()
        assert "Traceback" not in str(raised.value)
        with pytest.raises(tl.DataError) as told:
            raise error_of(raised.value)
        assert {item.message.split(": ")[-1] for item in told.value.diagnostics} == {'["x"]', "[null]"}
        assert {item.place for item in told.value.diagnostics} == {"p"}
    skipped = ts.derive(program, {"p": frame}, on_error="skip")
    assert rows_of(skipped["q"]) == {(6,)} and not skipped.rejects.collect()


def test_numbers_that_are_none_are_rejected(session: SparkSession) -> None:
    frame = session.createDataFrame([(1.5,), (float("nan"),), (-0.0,)], "n double")
    derived = ts.derive("q(?n) :- p(?n) .", {"p": frame}, on_error="collect")
    assert {str(row.n) for row in derived["q"].collect()} == {"1.5", "0.0"}
    assert [(row.place, row.row) for row in derived.rejects.collect()] == [("p", "[NaN]")]


def test_what_no_rule_reads_goes_around_the_task(session: SparkSession) -> None:
    rows = [(1, 1.5, "a"), (1, 1.5, "a"), (2, -0.0, "b"), (3, float("nan"), "c"), (None, 2.0, "d")]
    frame = session.createDataFrame(rows, "n int, x float, s string")
    program = "@output kept . @output q . q(?n) :- p(?n) . @declare kept(n: int, x: double, s: string) ."
    one = session.createDataFrame([(7,)], "n int")
    inputs = {"kept": frame, "p": one}
    derived = ts.derive(program, inputs, on_error="collect")
    assert "MapInArrow" not in plan_of(derived["kept"]) and "MapInArrow" in plan_of(derived["q"])
    assert derived["kept"].schema.simpleString() == "struct<n:bigint,x:double,s:string>"
    assert rows_of(derived["kept"]) == {(1, 1.5, "a"), (2, 0.0, "b")}
    assert {(row.place, row.row) for row in derived.rejects.collect()} == {
        ("kept", '["3","NaN","c"]'),
        ("kept", '[null,"2.0","d"]'),
    }
    assert rows_of(derived.facts.select("predicate", "bigint_1", "double_1", "string_1")) == {
        ("kept", 1, 1.5, "a"), ("kept", 2, 0.0, "b"), ("q", 7, None, None)
    }  # fmt: skip
    with pytest.raises(Exception, match=r"E504\]: the value is missing \(column `[nx]`\)"):
        ts.derive(program, inputs)["kept"].collect()
    texts = session.createDataFrame([("5",)], "n string")  # converted as declared: not by Spark
    converted = ts.derive("@declare kept(n: int) . @output kept .", {"kept": texts})["kept"]
    assert rows_of(converted) == {(5,)}


def plan_of(frame: DataFrame) -> str:
    """The plan of a frame, as `explain` prints it."""
    with redirect_stdout(io.StringIO()) as printed:
        frame.explain()
    return printed.getvalue()


def test_derived_values_that_do_not_fit_are_an_error(session: SparkSession) -> None:
    frame = session.createDataFrame([(1,)], "n int")
    program = "@declare q(n: string) . q(?n) :- p(?n) ."
    with pytest.raises(Exception, match="E866"):
        ts.derive(program, {"p": frame})["q"].collect()
    decimals = "q(?n / 3.0 / 10000000000.0 / 10000000000.0) :- p(?n) ."
    with pytest.raises(Exception, match="E866"):
        ts.derive(decimals, {"p": frame})["q"].collect()


def test_constraints_fail_or_are_kept(session: SparkSession) -> None:
    frame = session.createDataFrame([(1,), (-1,)], "n int")
    program = "q(?n) :- p(?n) . bottom() :- p(?n), ?n < 0 ."
    with pytest.raises(Exception, match="E601"):
        ts.derive(program, {"p": frame})["q"].collect()
    derived = ts.derive(program, {"p": frame}, on_violation="keep")
    assert rows_of(derived["q"]) == {(1,), (-1,)}
    assert [row.code for row in derived.violations.collect()] == ["E601"]


def test_a_query_derives_what_it_asks_for(session: SparkSession, flights: DataFrame) -> None:
    unread = session.createDataFrame([(1,)], "n int").selectExpr("cast(raise_error('read') as int) as n")
    program = FLIGHTS + "other(?n) :- unread(?n) ."
    inputs = {"flight": flights, "unread": unread}
    answers = ts.query(program, 'reach("b", ?to)', inputs)
    assert answers.schema.simpleString() == "struct<to:string>"
    assert rows_of(answers) == {("c",), ("d",)}
    assert rows_of(ts.query(program, 'hops("b", ?n, ?km), ?km > 1', inputs)) == {(1, 7)}
    assert rows_of(ts.query(program, 'reach("a", "d")', inputs)) == {(True,)}
    assert not rows_of(ts.query(program, 'reach("d", "a")', inputs))
    with pytest.raises(tl.ProgramError, match="raech"):
        ts.query(program, 'raech("b", ?to)', inputs)


def test_an_explanation_is_that_of_a_reasoner(session: SparkSession, flights: DataFrame) -> None:
    program = FLIGHTS + "@declare flight(src: string, dst: string, km: int) ."
    found = ts.explain(program, 'reach("a", "d")', {"flight": flights})
    reasoner = tl.Reasoner(program)
    reasoner.insert("flight", flights.toArrow())
    assert str(found) == str(reasoner.explain('reach("a", "d")'))
    with pytest.raises(tl.ProgramError, match="E655"):
        ts.explain(program, 'reach("d", "a")', {"flight": flights})


def test_an_explanation_derives_what_the_fact_asks_for(session: SparkSession) -> None:
    edges = session.range(3000).where("id % 10 != 9").selectExpr("id as x", "id + 1 as y")
    rules = "reach(?x, ?y) :- edge(?x, ?y) . reach(?x, ?z) :- reach(?x, ?y), reach(?y, ?z) ."
    assert ts.explain(rules, "reach(10, 19)", {"edge": edges}, max_facts=4000).heights == (5,)
    with pytest.raises(Exception, match="Stopped: error"):  # all that can be reached is more
        ts.query(rules, "reach(?x, ?y)", {"edge": edges}, max_facts=4000).collect()


HOT = """
alarm(?s) :- boxminus[0, 5] hot(?s) .
tick(?s) :- start(?s) .
tick(?s) :- diamondminus[2, 2] tick(?s) .
start(a)@1 .
"""


def test_rules_over_time(session: SparkSession) -> None:
    hot = session.createDataFrame(
        [("x", 0, 10, True), ("y", 0, 3, False)], "s string, start long, end long, end_open boolean"
    )
    hot = hot.selectExpr("s", "start", "end", "false as start_open", "end_open")
    derived = ts.derive(HOT, {"hot": hot})
    ends = "start:bigint,end:bigint,start_open:boolean,end_open:boolean"
    assert derived["alarm"].schema.simpleString() == f"struct<s:string,{ends},every:bigint>"
    assert rows_of(derived["alarm"]) == {("x", 5, 10, False, True, None)}
    reasoner = tl.Reasoner(HOT)
    reasoner.insert("hot", hot.toArrow())
    embedded = reasoner["tick"].to_arrow()
    assert derived["tick"].columns == embedded.column_names
    assert rows_of(derived["tick"]) == {tuple(row.values()) for row in embedded.to_pylist()}
    ending = ts.derive(HOT, {"hot": hot}, time=TimeSettings(horizon=read_interval("[0, 4]")))
    assert ending["tick"].columns == ["s", "start", "end", "start_open", "end_open"]
    assert rows_of(ending["tick"]) == {("a", 1, 1, False, False), ("a", 3, 3, False, False)}
    assert rows_of(ts.query(HOT, "alarm(?s)@7", {"hot": hot})) == {("x",)}
    assert rows_of(ts.query(HOT, "alarm(?s)", {"hot": hot})) == {("x", 5, 10, False, True, None)}


def test_moments_and_other_bounds(session: SparkSession) -> None:
    program = "alarm(?s) :- diamondminus[0, 5s] hot(?s) ."
    when = [("x", datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 1, 0, 0, 1)), ("y", None, None)]
    moments = session.createDataFrame(when, "s string, start timestamp, end timestamp")
    derived = ts.derive(program, {"hot": moments})["alarm"]
    assert [of.simpleString() for of in (field.dataType for field in derived.schema)][1:3] == [
        "timestamp"
    ] * 2
    assert rows_of(derived) == {
        ("x", datetime.datetime(2024, 1, 1), datetime.datetime(2024, 1, 1, 0, 0, 6), False, False),
        ("y", None, None, True, True),
    }
    texts = session.createDataFrame([("x", "[0, 1/3)"), ("y", "bad")], "s string, interval string")
    good = ts.derive(program, {"hot": texts.limit(1)})["alarm"]
    assert rows_of(good) == {("x", "0", "16/3", False, True)}
    with pytest.raises(Exception, match=r"DataError: error\[E619\]"):
        ts.derive(program, {"hot": texts})["alarm"].collect()


def test_equality_and_settings(session: SparkSession) -> None:
    program = (
        "?x = ?y :- same(?x, ?y) . q(?x) :- p(?x) . @declare p(x: iri) . @declare same(x: iri, y: iri) ."
    )
    inputs = {
        "same": session.createDataFrame([("a", "b")], "x string, y string"),
        "p": session.createDataFrame([("b",)], "x string"),
    }
    assert rows_of(ts.derive(program, inputs)["q"]) == {("a",), ("b",)}
    assert rows_of(ts.derive(program, inputs, equality="axiomatise")["q"]) == {("a",), ("b",)}
    assert len(rows_of(ts.derive(program, inputs, equal="representative")["q"])) == 1
    with pytest.raises(Exception, match=r"Stopped: error"):
        ts.derive("n(0) . n(?x + 1) :- n(?x) .", {}, max_facts=1000)["n"].collect()


def test_the_engine_of_reasoners_is_retired() -> None:
    for old in (lambda: tl.spark(master="local[2]"), lambda: tl.Reasoner(FLIGHTS, engine="spark")):
        with pytest.raises(tl.ProgramError, match=r"E872(.|\n)*ts\.derive"):
            old()


def test_a_worker_without_what_is_needed_says_so(tmp_path: Path) -> None:
    """What is pickled needs nothing but Python to say what else it needs."""
    shipped = tmp_path / "task"
    shipped.write_bytes(cloudpickle.dumps(Shipped(iter)))  # type: ignore[no-untyped-call]
    script = f"import pickle; print(pickle.load(open({str(shipped)!r}, 'rb')))"
    installed = next(path for path in sys.path if path.endswith("site-packages"))
    for packages, expected in (((), "no numpy and no pyarrow"), (("numpy", "pyarrow"), "no tidelog")):
        path = tmp_path / str(len(packages))
        path.mkdir()
        for package in ("pyspark", "py4j", *packages):
            (path / package).symlink_to(Path(installed, package))
        done = subprocess.run(
            [sys.executable, "-S", "-c", script],
            env={"PYTHONPATH": str(path)},
            capture_output=True,
            text=True,
            check=False,
        )
        assert f"error[E868]: a worker of Spark has {expected}" in done.stderr
    (path / "pyarrow-12.0.1.dist-info").mkdir()
    (path / "pyarrow-12.0.1.dist-info" / "METADATA").write_text("Name: pyarrow\nVersion: 12.0.1\n")
    done = subprocess.run(
        [sys.executable, "-S", "-c", script],
        env={"PYTHONPATH": str(path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert "a worker of Spark has pyarrow 12.0.1, and tidelog needs 18 or later" in done.stderr


def test_another_python_of_workers_is_told() -> None:
    text = (
        "pyspark.errors.exceptions.base.PySparkRuntimeError: [PYTHON_VERSION_MISMATCH] Python in worker has "
        "different version: 3.12 than that in driver: 3.11, PySpark cannot run with different minor versions."
    )
    (fault,) = error_of(RuntimeError(text)).diagnostics
    assert (fault.code, fault.message) == ("E868", "a worker of Spark has Python 3.12, the driver 3.11")
    assert "PYSPARK_PYTHON" in str(fault.help)


def test_one_frame_holds_several_predicates(session: SparkSession) -> None:
    program = """
    @declare flight(x: string, y: string) . @declare city(x: string) . @declare noted(x: string) .
    far(?x, ?z) :- flight(?x, ?y), flight(?y, ?z), city(?z) .
    @output far . @output noted .
    """
    rows = [
        ("flight", "a", "b"), ("flight", "b", "c"), ("city", "c", None), ("noted", "n", "ignored"),
        ("train", "a", "c"), (None, "u", "v"),
    ]  # fmt: skip
    frame = session.createDataFrame(rows, "predicate string, c1 string, c2 string")
    names = ("flight", "city", "noted")
    for partitions in (1, 2):
        derived = ts.derive(program, {names: frame}, on_error="collect", partitions=partitions)
        assert rows_of(derived["far"]) == {("a", "c")}
        assert rows_of(derived["noted"]) == {("n",)}
        reasons = sorted((row.reason, row.row) for row in derived.rejects.collect())
        assert [reason for reason, _ in reasons] == [
            "`train` is not one of its predicates (column `predicate`)",
            "there is no predicate (column `predicate`)",
        ]
        assert reasons[0][1] == '["a", "c"]'
    with pytest.raises(Exception, match=r"`train` is not one of its predicates"):
        ts.derive(program, {names: frame})["far"].collect()
    known = frame.where("predicate in ('flight', 'city', 'noted')")
    again = ts.derive(program, {("flight", "city"): known.where("predicate != 'noted'")})
    assert rows_of(again["far"]) == {("a", "c")} and not rows_of(again["noted"])
    assert ts.check(program, {names: frame.schema})["noted"].simpleString() == "struct<x:string>"
    with pytest.raises(tl.ProgramError, match="has no column `predicate`"):
        ts.derive(program, {names: frame.drop("predicate")})
    with pytest.raises(ValueError, match="several frames are given for city"):
        ts.derive(program, {names: frame, "city": frame})
