"""Facts that hold at times: every stretch has a proof, the proof is valid, and none is lower."""

from __future__ import annotations

import re

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidelog as tl
from tests.proof.timed_checker import TimedChecker
from tests.temporal.oracle import REACH
from tests.temporal.test_procedures import programs
from tidelog.errors import EvaluationError
from tidelog.logic.intervals import Interval
from tidelog.proof.explanation import NodeKind, walk
from tidelog.temporal.metric_rules import levels
from tidelog.temporal.temporal import TimeSettings

MOST = 6  # answers of a predicate that are proved


def is_near(interval: Interval) -> bool:
    """Whether the oracle sees all of an interval."""
    bounds = (interval.start, interval.end)
    return all(bound is not None and abs(bound) <= REACH - 6 for bound in bounds)


@settings(max_examples=settings().max_examples * 3 // 10)
@given(text=programs(), rounds=st.integers(1, 3))
def test_every_stretch_has_a_valid_proof_of_smallest_height(text: str, rounds: int) -> None:
    program = tl.parse(text)
    checker = TimedChecker(program, levels(program.timed_rules), rounds)
    reasoner = tl.Reasoner(program, time=TimeSettings(rounds=rounds), threads=1)
    try:
        reasoner.materialise()
    except EvaluationError as error:
        assert "E615" in str(error)
        return
    for name in sorted(program.timed):
        if not len(reasoner[name]):
            continue
        variables = ", ".join(f"?v{place}" for place in range(program.predicates[name].arity))
        for proof in reasoner.explain(f"{name}({variables})", limit=MOST, rows=None).proofs:
            if not all(node.time is None or is_near(node.time) for node in walk([proof])):
                continue
            checker.check(proof)
            assert proof.height == checker.height(proof)


SENSORS = """
    #[name("hot")] overheated(?s) :- boxminus[0, 5] hot(?s), sensor(?s) .
    #[name("alarm")] boxplus[0, 2] alarm(?s) :- overheated(?s), ~off(?s) .
    #[name("lately")] lately(?s) :- diamondminus[0, 10] alarm(?s) .
    #[name("calm")] calm(?s) :- off(?s) since[1, 3] hot(?s) .
    sensor(?s) :- made(?s, _) .
    made(s1, 2024) .
    hot(s1)@[0, 12] . hot(s1)@[12, 20) .
    off(s1)@[7, 8] . off(s1)@[19, 25] .
"""


def explained(text: str) -> list[str]:
    return str(tl.Reasoner(tl.parse(SENSORS, name="s.rls")).explain(text)).splitlines()


def test_a_point() -> None:
    assert explained("overheated(s1)@15") == [
        "overheated(s1)@[15, 15]  rule “hot”, s.rls:2",
        "├─ boxminus[0, 5] hot(s1) at [15, 15]",
        "│  └─ hot(s1)@[10, 15]  explicit, s.rls:8",
        "└─ sensor(s1)  rule 5, s.rls:6",
        "   └─ made(s1, 2024)  explicit, s.rls:7",
    ]


def test_a_stretch_may_have_parts() -> None:
    lines = explained("alarm(s1)@[5, 20]")
    assert lines[0] == "alarm(s1)@[5, 20]  in 2 parts"
    assert lines[1] == "├─ alarm(s1)@[5, 9)  rule “alarm”, s.rls:3"
    assert "│  └─ ~off(s1)@[5, 7)  no such fact" in lines
    assert "└─ alarm(s1)@[9, 20]  rule “alarm”, s.rls:3" in lines


def test_since_shows_both_operands() -> None:
    assert explained("calm(s1)@21.5") == [
        "calm(s1)@[21.5, 21.5]  rule “calm”, s.rls:5",
        "└─ off(s1) since[1, 3] hot(s1) at [21.5, 21.5]",
        "   ├─ hot(s1)@[19, 20)  explicit, s.rls:8",
        "   └─ off(s1)@[19, 21.5]  explicit, s.rls:9",
    ]


def test_a_query_without_a_time_explains_all_times() -> None:
    found = tl.Reasoner(tl.parse(SENSORS)).explain("lately(?s)")
    (proof,) = found.proofs
    assert str(proof.time) == "[5, 31)" and proof.height == 4
    assert found.to_json()["nodes"][0]["time"] == "[5, 31)"  # type: ignore[index]
    assert "at [5, 31)" in found.to_dot()
    assert "at [5, 31)" in re.sub("<[^>]+>", "", found.to_html())


def test_long_recursion_is_explained() -> None:
    time = TimeSettings(horizon=tl.read_interval("[0, 1200]"))
    program = tl.parse("boxplus[1, 1] p(?x) :- p(?x) . p(a)@0 .")
    (proof,) = tl.Reasoner(program, time=time).explain("p(a)@1200").proofs
    assert proof.height == 1200


def test_what_holds_always_beside_times_is_explained() -> None:
    (proof,) = tl.Reasoner(tl.parse(SENSORS)).explain("sensor(s1)").proofs
    assert proof.kind is NodeKind.RULE and proof.number == 4


@pytest.mark.parametrize(
    ("text", "code"),
    [("lately(s1)@40", "E655"), ("hot(s1), off(s1)", "E656"), ("boxminus[0, 1] hot(s1)", "E656")],
)
def test_what_cannot_be_explained(text: str, code: str) -> None:
    with pytest.raises(tl.ProgramError) as error:
        tl.Reasoner(tl.parse(SENSORS)).explain(text)
    assert error.value.diagnostics[0].code == code
    with pytest.raises(tl.ProgramError, match="E656"):
        tl.Reasoner(tl.parse(SENSORS)).why_not("lately(s1)@40")


def test_what_repeats_is_explained_near_the_data() -> None:
    reasoner = tl.Reasoner(tl.parse("tick(a)@1 . tick(?x) :- diamondminus[2, 2] tick(?x) ."))
    (proof,) = reasoner.explain("tick(a)@5").proofs
    assert proof.height == 2
    with pytest.raises(tl.ProgramError) as error:
        reasoner.explain("tick(a)@100001")
    assert error.value.diagnostics[0].code == "E656"
