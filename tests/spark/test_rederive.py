"""Changes worked into frames of what was derived before: the same as deriving everything anew."""

from __future__ import annotations

from random import Random
from typing import TYPE_CHECKING, Any

import pytest

import tidelog as tl
from tidelog import spark as ts

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

PROGRAM = """
@declare edge(x: int, y: int) .
reach(?x, ?y) :- edge(?x, ?y) .
reach(?x, ?z) :- reach(?x, ?y), edge(?y, ?z) .
node(?x) :- edge(?x, _) . node(?y) :- edge(_, ?y) .
apart(?x, ?y) :- node(?x), node(?y), ~reach(?x, ?y) .
degree(?x, #count(?y)) :- reach(?x, ?y) .
cyclic() :- reach(?x, ?x) .
label("a") . named(?l) :- label(?l) .
"""
OUTPUTS = ["reach", "apart", "degree", "cyclic", "named"]
Rows = set[tuple[Any, ...]]


def rows_of(frame: DataFrame) -> Rows:
    return {tuple(row) for row in frame.collect()}


def edges(session: SparkSession, rows: Rows) -> DataFrame:
    return session.createDataFrame(sorted(rows), "x int, y int")


def test_a_change_is_like_deriving_anew(spark: SparkSession) -> None:
    chance = Random(7)
    before = {(chance.randrange(9), chance.randrange(9)) for _ in range(14)}
    gone = set(chance.sample(sorted(before), 3)) | {(77, 78)}
    came = {(chance.randrange(10), chance.randrange(10)) for _ in range(3)}
    old = ts.derive(PROGRAM, {"edge": edges(spark, before)}, outputs=[*OUTPUTS, "node"])
    new = ts.derive(PROGRAM, {"edge": edges(spark, (before - gone) | came)}, outputs=OUTPUTS)
    previous = {name: spark.createDataFrame(old[name].collect(), old[name].schema) for name in old}
    found = ts.derive(
        PROGRAM,
        {"edge": edges(spark, before)},
        outputs=OUTPUTS,
        previous=previous,
        inserted={"edge": edges(spark, came)},
        deleted={"edge": edges(spark, gone)},
    )
    changed = ["reach", "apart", "degree", "cyclic"]
    assert set(found) == {*OUTPUTS, *(f"{name} {how}" for how in ("gained", "lost") for name in changed)}
    with found.persist(), new.persist():
        for name in OUTPUTS:
            was, now = rows_of(previous[name]), rows_of(new[name])
            assert found[name].schema == new[name].schema
            assert rows_of(found[name]) == now
            if name in changed:
                assert rows_of(found[f"{name} gained"]) == now - was
                assert rows_of(found[f"{name} lost"]) == was - now


def test_what_is_missing_or_could_be_read_as_other_values_is_refused(spark: SparkSession) -> None:
    frame = edges(spark, {(1, 2)})
    some = {"reach": frame, "node": frame.select("x")}
    with pytest.raises(tl.ProgramError, match=r"E881[\s\S]*`apart`, `cyclic`, `degree`"):
        ts.derive(PROGRAM, {"edge": frame}, previous=some, inserted={"edge": frame})
    text = "p(<a:b>) . q(?x) :- e(?x) . p(?x) :- q(?x) ."
    with pytest.raises(tl.ProgramError, match=r"E881[\s\S]*column `x` of `p`"):
        ts.derive(text, {}, previous={}, inserted={"e": frame.select("x")})
    with pytest.raises(tl.ProgramError, match=r"E881.*one task"):
        ts.derive(PROGRAM, {"edge": frame}, previous={}, inserted={"edge": frame}, partitions=2)
    with pytest.raises(ValueError, match="previous"):
        ts.derive(PROGRAM, {"edge": frame}, inserted={"edge": frame})
