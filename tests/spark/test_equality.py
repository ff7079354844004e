"""Equality on Spark: the facts of the columnar engine, wherever classes and facts lie, and after changes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidelog as tl
from tests.equality.laboratory import held, reference, run
from tests.equality.scripts import Change, Script, scripts
from tidelog.engine.spark.jobs import Jobs
from tidelog.engine.spark.settings import SparkSettings
from tidelog.engine.spark.stars import edges_of, stars
from tidelog.equality.classes_elsewhere import ClassesElsewhere
from tidelog.equality.representatives import components
from tidelog.errors import Inconsistent, TidelogError

pytestmark = pytest.mark.slow  # of the engine that only pipelines use, which have tests of their own

JOINS = "lazy,iterated-joins"
FEW = settings(max_examples=2)  # an example takes half a minute
# What is equal by a pair, by a key, by a rule; below negation and aggregates; a change that parts a class.
SCRIPT = Script(
    (
        "?x = ?y :- r(?k, ?x), r(?k, ?y) .",
        "?x = c :- u(?x) .",
        "s(?x, ?z) :- s(?x, ?y), s(?y, ?z) .",
        "s(?x, ?y) :- r(?y, ?x) .",
        "n(?x, #count(?y)) :- s(?x, ?y) .",
        "lone(?x) :- u(?x), ~s(?x, _) .",
    ),
    ("r(a, b) .", "r(a, d) .", "u(e) .", "equal(b, f) .", "s(g, d) ."),
    (
        Change(("r(a, d) .",), ("u(d) .",)),
        Change(("u(e) .", "?x = c :- u(?x) ."), ("equal(e, a) .",)),
    ),
)
SMALL = "?x = ?y :- same(?x, ?y) . same(a, b) . same(b, c) . same(e, d) . likes(b, e) . likes(g, 1) ."


@given(edges=st.lists(st.tuples(st.integers(0, 12), st.integers(0, 12)), min_size=1, max_size=16))
@settings(max_examples=max(2, settings().max_examples // 25))
def test_stars_are_the_components(edges: list[tuple[int, int]], spark: Any) -> None:
    frame = spark.createDataFrame(edges, "c0 long, c1 long")
    found, _ = stars(edges_of(frame, frame.c0, frame.c1), Jobs(spark, lambda: None), lambda: None)
    left, right = np.array(edges).T
    least = components(13, left, right).tolist()
    assert {(row.c0, row.c1) for row in found.collect()} == {
        (node, other) for node, other in enumerate(least) if node != other
    }


def test_classes_that_lie_on_spark(spark: Any) -> None:
    """They are found there, and what is shown of them is fetched, or stays there."""
    program = tl.parse(SMALL)
    reasoner = tl.Reasoner(program, engine=SparkSettings(spark, driver_facts=0, strategy="driver-closure"))
    assert held(reasoner) == held(tl.Reasoner(program))
    assert isinstance(reasoner._equality.classes, ClassesElsewhere)  # type: ignore[attr-defined]
    assert {tuple(row) for row in reasoner.frame("likes").collect()} == held(reasoner)["likes"]
    assert sorted(reasoner.query("likes(?x, e)")) == [("a",), ("b",), ("c",)]
    reasoner.equal = "representative"
    assert sorted(reasoner["likes"]) == [("a", "d"), ("g", 1)]
    assert {tuple(row) for row in reasoner.frame("likes").collect()} == {("a", "d"), ("g", "1")}


@pytest.mark.slow
def test_what_must_not_be_equal_is_found_on_spark(spark: Any) -> None:
    engine = SparkSettings(spark, driver_facts=0, strategy="driver-closure")
    with pytest.raises(Inconsistent, match="1 = 2, which are different literals"):
        tl.Reasoner(tl.parse(SMALL + "same(g, 2) . same(g, 1) ."), engine=engine).materialise()
    with pytest.raises(Inconsistent, match="a = b, which are different names"):
        tl.Reasoner(tl.parse(SMALL), engine=engine, unique_names=True).materialise()
    with pytest.raises(Inconsistent, match="d = e, which must differ"):
        tl.Reasoner(tl.parse(SMALL + "d != e ."), engine=engine).materialise()


@pytest.mark.slow
def test_classes_come_to_the_driver_with_the_first_change(spark: Any) -> None:
    engine = SparkSettings(spark, driver_facts=0, strategy="driver-closure")
    reasoner = tl.Reasoner(tl.parse(SMALL), engine=engine)
    reasoner.materialise()
    reasoner.apply("- same(b, c) .\n+ likes(c, c) .")
    after = SMALL.replace("same(b, c) .", "likes(c, c) .")
    assert held(reasoner) == held(tl.Reasoner(tl.parse(after)))
    far = tl.Reasoner(tl.parse(SMALL), engine=SparkSettings(spark, driver_facts=0, resident_facts=1))
    far.materialise()
    with pytest.raises(TidelogError, match="E684"):
        far.apply("- same(b, c) .")


FAR = [
    pytest.param({"strategy": JOINS}, id="driver"),
    pytest.param({"strategy": JOINS, "resident_facts": -1}, id="fetched"),
    pytest.param({"strategy": "driver-closure", "driver_facts": 0}, id="classes"),
]


@pytest.mark.slow
@pytest.mark.parametrize("far", FAR)
def test_a_script(far: dict[str, Any], spark: Any) -> None:
    run(SCRIPT, equality="rewrite", engine=SparkSettings(spark, **far))


@pytest.mark.slow
def test_backward_forward_with_rewriting_is_for_facts_on_the_driver(spark: Any) -> None:
    by = {"equality": "rewrite", "maintainer": "backward-forward"}
    run(SCRIPT, engine=SparkSettings(spark, strategy=JOINS), **by)
    with pytest.raises(TidelogError, match="E684"):
        run(SCRIPT, engine=SparkSettings(spark, strategy=JOINS, resident_facts=-1), **by)


@pytest.mark.slow
@pytest.mark.parametrize("far", FAR)
def test_random_scripts(far: dict[str, Any], spark: Any) -> None:
    @FEW
    @given(script=scripts(rules_change=True, most=6))
    def check(script: Script) -> None:
        run(script, equality="rewrite", engine=SparkSettings(spark, **far))

    check()


@pytest.mark.slow
def test_everything_is_derived_on_spark(spark: Any) -> None:
    @FEW
    @given(script=scripts(most=6))
    def check(script: Script) -> None:
        engine = SparkSettings(spark, driver_facts=0)
        reasoner = tl.Reasoner(tl.parse(script.text), equality="rewrite", engine=engine)
        try:
            assert held(reasoner) == reference(script.rules, script.facts)
        except Inconsistent:
            assert reference(script.rules, script.facts) is None

    check()
