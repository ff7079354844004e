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


@pytest.mark.parametrize(
    ("apply", "partitions"),
    [
        (None, None),
        (True, 2),
        *(
            pytest.param(apply, tasks, marks=pytest.mark.slow)
            for apply, tasks in [(True, 1), (False, 1), (False, 2)]
        ),
    ],
)
def test_a_change_is_like_deriving_anew(
    spark: SparkSession, apply: bool | None, partitions: int | None
) -> None:
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
        apply=apply,
        partitions=partitions,
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
    both = {"p": frame.select(frame.x.cast("string").alias("x")), "q": frame.select("x")}
    text = "p(<a:b>) . q(?x) :- e(?x) . p(?x) :- q(?x) ."
    with pytest.raises(tl.ProgramError, match=r"E881[\s\S]*column `x` of `p`"):
        ts.derive(text, {}, previous=both, inserted={"e": frame.select("x")}, apply=True)
    said = ts.check(text, {}, previous=both, inserted={"e": frame.select("x")})
    assert said.reason.startswith("everything is derived again: values of column `x` of `p` are texts")
    with pytest.raises(ValueError, match="previous"):
        ts.derive(PROGRAM, {"edge": frame}, inserted={"edge": frame})


TWO = """
@declare edge(x: int, y: int) . @declare note(x: int, y: int) .
hop(?x, ?z) :- edge(?x, ?y), edge(?y, ?z) .
back(?y, ?x) :- note(?x, ?y) .
"""


def test_check_says_whether_a_change_is_applied_and_why(spark: SparkSession) -> None:
    """What no rule reads costs nothing when a change is applied: large beside what the change reaches."""

    def steps(first: int, end: int, step: int) -> DataFrame:
        return spark.range(first, end).selectExpr("int(id) x", f"int(id) + {step} y")

    small, large = steps(1, 3, 1), steps(0, 100_000, 1)
    inputs, previous = {"edge": small, "note": large}, {"hop": steps(1, 2, 2), "back": large}
    one = {"inserted": {"edge": steps(3, 4, 1)}}

    def reason(program: str, **more: Any) -> str:
        return str(ts.check(program, inputs, previous=previous, **more).reason)

    assert reason(TWO, **one).startswith("the change is applied: applying is estimated at ")
    assert reason(TWO, **one, apply=False).startswith("everything is derived again: `apply=False`; one task")
    unknown = {"inserted": {"edge": edges(spark, {(3, 4)})}}
    assert "set `sizes`" in reason(TWO, **unknown)
    assert reason(TWO, **unknown, sizes={"edge inserted": 1}).startswith("the change is applied: ")
    said = reason(TWO, inserted={"note": large})
    assert said.startswith("everything is derived again: applying is estimated at ")
    recursive = TWO + "hop(?x, ?z) :- hop(?x, ?y), edge(?y, ?z) ."
    said = reason(recursive, deleted={"edge": small.limit(1)}, partitions=2)
    assert "`hop` is recursive and may lose facts" in said and "2 tasks" in said
    found = ts.derive(TWO, inputs, previous=previous, **one)
    assert rows_of(found["hop"]) == {(1, 3), (2, 4)}
    assert rows_of(found["hop gained"]) == {(2, 4)}
