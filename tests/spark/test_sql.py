"""The table function of SQL: it derives what `derive` does, and refuses what has no right result."""

from __future__ import annotations

from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest
from pyspark.errors import AnalysisException, PySparkException
from pyspark.sql.types import LongType, StringType, StructField, StructType
from pyspark.sql.udtf import AnalyzeArgument

from tidelog import spark as ts
from tidelog.errors import TidelogError
from tidelog.spark.shipping import error_of
from tidelog.spark.sql import analyse_call
from tidelog.spark.strategies import MemoryLimit

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

REACH = "reach(?x, ?y) :- edge(?x, ?y) . reach(?x, ?z) :- reach(?x, ?y), edge(?y, ?z) ."


def told(session: SparkSession, text: str) -> TidelogError:
    """Return the error that a query ends with."""
    with pytest.raises(PySparkException) as raised:
        session.sql(text).collect()
    return error_of(raised.value)


@pytest.mark.parametrize("session", ["spark", pytest.param("connect", marks=pytest.mark.slow)], indirect=True)
def test_a_program_in_a_query(session: SparkSession) -> None:
    ts.register(session)
    rows = [(1, "no", 2), (2, "no", 3), (3, "no", 1)]
    session.createDataFrame(rows, "src int, other string, dst int").createOrReplaceTempView("edges")
    call = f"tidelog('@declare edge(src: int, dst: int) . {REACH}', 'reach', edge => TABLE(edges)"
    found = session.sql(f"SELECT * FROM {call})")
    assert found.schema.simpleString() == "struct<x:bigint,y:bigint>"
    assert {tuple(row) for row in found.collect()} == {(x, y) for x in (1, 2, 3) for y in (1, 2, 3)}
    assert session.sql("SELECT * FROM tidelog('p(1, 1.5) . p(2, 2.5) .', 'p')").collect() == [
        (1, Decimal("1.5")),
        (2, Decimal("2.5")),
    ]
    with pytest.raises(AnalysisException, match=r"(?i)partition"):
        session.sql(f"SELECT * FROM {call} PARTITION BY src)").collect()
    error = told(session, "SELECT * FROM tidelog('reach(?x) :- edge(?x, ?y', 'reach', edge => TABLE(edges))")
    assert [each.code for each in error.diagnostics] == ["E121"]


def test_what_has_no_right_result_is_refused() -> None:
    pairs = StructType([StructField("src", LongType()), StructField("dst", LongType())])
    table = AnalyzeArgument(pairs, None, isTable=True, isConstantExpression=False)

    def text(value: str | None) -> AnalyzeArgument:
        return AnalyzeArgument(StringType(), value, isTable=False, isConstantExpression=value is not None)

    def refused(program: str, *more: AnalyzeArgument, **named: AnalyzeArgument) -> list[str]:
        with pytest.raises(TidelogError) as raised:
            analyse_call(MemoryLimit(), text(program), *more, **named)
        return [each.code for each in raised.value.diagnostics]

    assert refused(REACH) == ["E890"]
    assert refused(REACH, text(None), edge=table) == ["E890"]
    assert refused(REACH, text("reach"), edge=text("edges")) == ["E890"]
    assert refused(REACH, text("reach"), edge=table, other=table) == ["E890"]
    assert refused(REACH, text("reach"), path=table) == ["E860"]
    assert refused(REACH, text("path"), edge=table) == ["E860"]
    assert refused('@include "/etc/passwd" . p(1) .', text("p")) == ["E529"]
    # Spark calls no function for an empty table, and so these would lose facts.
    assert refused("reach(1, 2) . reach(?x, ?y) :- edge(?x, ?y) .", text("reach"), table) == ["E890"]
    assert refused("none() :- ~edge(1, 1) .", text("none"), table) == ["E890"]
    analyse_call(
        MemoryLimit(), text("few(1) . reach(?x, ?y) :- edge(?x, ?y), ~few(?x) ."), text("reach"), edge=table
    )


VALUES: dict[str, Any] = {
    "boolean": True,
    "tinyint": 1,
    "decimal(12,2)": Decimal("1.25"),
    "double": 1e300,
    "date": date(2024, 2, 29),
    "timestamp": datetime(2024, 10, 27, 0, 30, 0, 456789, tzinfo=UTC),
    "timestamp_ntz": datetime(2024, 10, 27, 2, 30, 0, 456789),
    "string": 'say "hi" ü€😀',
}


@pytest.mark.slow
def test_values_are_those_of_derive(session: SparkSession) -> None:
    ts.register(session)
    for of, value in VALUES.items():
        frame = session.createDataFrame([(value,)], f"x {of}")
        frame.createOrReplaceTempView("held")
        found = session.sql("SELECT * FROM tidelog('q(?x) :- p(?x) .', 'q', p => TABLE(held))")
        wanted = ts.derive("q(?x) :- p(?x) .", {"p": frame})["q"]
        assert found.schema.simpleString() == wanted.schema.simpleString(), of
        assert found.collect() == wanted.collect(), of
    error = told(
        session, "SELECT * FROM tidelog('q(?x) :- p(?x) .', 'q', p => TABLE(SELECT CAST(NULL AS INT)))"
    )
    assert [each.code for each in error.diagnostics] == ["E504"]


@pytest.mark.slow
def test_one_table_holds_several_predicates(session: SparkSession) -> None:
    ts.register(session)
    rows = [("edge", "a", "b"), ("edge", "b", "c"), ("stop", "b", None)]
    session.createDataFrame(rows, "predicate string, c1 string, c2 string").createOrReplaceTempView("given")
    program = "reach(?x, ?y) :- edge(?x, ?y), ~stop(?y) . all(?x) :- stop(?x) ."
    found = session.sql(f"SELECT * FROM tidelog('{program}', 'reach', facts => TABLE(given))").collect()
    assert [tuple(row) for row in found] == [("b", "c")]
    found = session.sql(f"SELECT * FROM tidelog('{program}', 'all', facts => TABLE(given))").collect()
    assert [tuple(row) for row in found] == [("b",)]
    error = told(session, "SELECT * FROM tidelog('q(?x) :- edge(?x, _) .', 'q', facts => TABLE(given))")
    assert [each.code for each in error.diagnostics] == ["E860"]
