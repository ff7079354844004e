"""Rules over time among tasks that derive together: they hold what one process derives, each fact once."""

from __future__ import annotations

from collections.abc import Sequence
from functools import partial
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidelog as tl
from tests.engine import meshes
from tests.engine.meshes import at_once
from tests.temporal.test_procedures import programs, windows
from tidelog.data.columns import Batch, column_of_values
from tidelog.errors import EvaluationError, ProgramError, Stopped
from tidelog.logic.program import Program
from tidelog.rewrite.localise import EVERYWHERE, NotLocalisable
from tidelog.temporal.distributed import TimedTask
from tidelog.temporal.partitioning import check_divisible, divide
from tidelog.temporal.temporal import USUAL, TimeSettings
from tidelog.temporal.timed_changes import times_of

Held = dict[str, list[str]]


run = partial(meshes.run, make=TimedTask)


def found(tasks: Sequence[Any], program: Program) -> Held:
    """The rows of all tasks together: equal to those of one process only if each fact lies at one task."""
    for task in tasks:
        if isinstance(task, BaseException):
            raise task
    return {
        name: sorted(str(row) for task in tasks for row in task.relation(name)) for name in program.predicates
    }


def held(reasoner: tl.Reasoner) -> Held:
    return {name: sorted(map(str, reasoner[name])) for name in reasoner.program.predicates}


def is_divisible(program: Program, time: TimeSettings) -> bool:
    try:
        check_divisible(program, time)
    except NotLocalisable:
        return False
    return True


def check(program: Program, count: int, time: TimeSettings = USUAL) -> list[Any]:
    """Compare tasks with one process; returns them, none if the program cannot be divided."""
    tasks = run(program, count, time=time)
    if not is_divisible(program, time):
        assert all(isinstance(task, ProgramError) and "E693" in str(task) for task in tasks)
        return []
    alone = tl.Reasoner(program, time=time)
    try:
        alone.materialise()
    except EvaluationError as error:
        assert {str(task) for task in tasks} == {str(error)}
        return []
    assert found(tasks, program) == held(alone)
    assert alone.time.outcome is not None
    for task in tasks:
        outcome, expected = task.outcome, alone.time.outcome
        assert (outcome.kind, outcome.is_complete) == (expected.kind, expected.is_complete)
    return tasks


@given(programs(), st.integers(1, 3), st.one_of(st.integers(1, 4), st.none()))
def test_random_programs_hold_what_one_process_holds(text: str, count: int, rounds: int | None) -> None:
    horizon = None if rounds is not None else tl.read_interval("[-4, 9]")
    check(tl.parse(text), count, TimeSettings(rounds=rounds, horizon=horizon))


# ---- programs whose rules mostly share a key: `?k` is the first argument of some, the last of others

LOW, HIGH = ("p", "q", "e", "m"), ("a", "b", "c")
KEYS = {"p": 0, "q": 0, "e": 0, "m": 1, "n": 0, "s": 0, "d": 1, "z": None, "a": 0, "b": 0, "c": 1, "y": None}
ARITIES = {"p": 1, "q": 1, "e": 2, "m": 2, "n": 1, "s": 1, "d": 2, "z": 0, "a": 1, "b": 2, "c": 2, "y": 0}
GIVEN = ("p", "q", "e", "m", "n", "z", "a", "b")
DECLARED = " ".join(
    f"@declare {name}({', '.join('_: any' for _ in range(n))}) ." for name, n in ARITIES.items()
)


@st.composite
def keyed_atoms(draw: st.DrawFn, names: Sequence[str]) -> str:
    name = draw(st.sampled_from(names))
    others = ["?k", "?x", "?y", '"1"']
    is_keyed = draw(st.integers(0, 15)) > 0
    terms = [
        "?k" if is_keyed and place == KEYS[name] else draw(st.sampled_from(others))
        for place in range(ARITIES[name])
    ]
    return f"{name}({', '.join(terms)})"


@st.composite
def keyed_metrics(draw: st.DrawFn, names: Sequence[str], is_integer: bool) -> str:
    operator = draw(
        st.sampled_from(("", "", "boxminus", "boxplus", "diamondminus", "diamondplus", "since", "until"))
    )
    if not operator:
        return draw(keyed_atoms(names))
    window = draw(windows(is_integer))
    if operator in ("since", "until"):
        left = draw(keyed_atoms(("p", "e", "n")))
        return f"{left} {operator}{window} {draw(keyed_atoms(names))}"
    return f"{operator}{window} {draw(keyed_atoms(names))}"


@st.composite
def keyed_rules(draw: st.DrawFn, is_integer: bool, *, is_high: bool) -> str:
    """A rule of one of two levels, the higher of which may negate what the lower one derives."""
    head = draw(keyed_atoms((*HIGH, "y") if is_high else LOW)).replace('"1"', "?k")
    read = (*LOW, "s", "d", "z", *(HIGH if is_high else ()))
    body = [draw(keyed_metrics(read, is_integer)) for _ in range(draw(st.integers(1, 3)))]
    bound = [f"s({name})" for name in ("?k", "?x", "?y") if name in head and draw(st.integers(0, 3)) == 0]
    if is_high and draw(st.booleans()):
        negated = draw(
            st.sampled_from(("p(?k)", "e(?k, ?own)", "m(?own, ?k)", "z()", "n(?k)", "d(?own, ?k)"))
        )
        moved = draw(st.sampled_from(("", f"diamondminus{draw(windows(is_integer))} ")))
        bound += ["s(?k)", f"~{moved}{negated}"]
    sure = " ".join(
        part.split("since")[-1].split("until")[-1] for part in body
    )  # a left operand binds nothing
    missing = [f"s({name})" for name in ("?k", "?x", "?y") if name in head and name not in sure]
    moves = draw(st.sampled_from(("", "", f"boxplus{draw(windows(is_integer))} ")))
    return f"{moves}{head} :- {', '.join(dict.fromkeys([*body, *bound, *missing]))} ."


@st.composite
def keyed_programs(draw: st.DrawFn) -> str:
    is_integer = draw(st.booleans())
    constants = st.sampled_from(["1", "2", "3", "4", "five", "six"])
    stated = ['p("2")@[0, 1] .']
    for _ in range(draw(st.integers(4, 16))):
        name = draw(st.sampled_from(GIVEN))
        terms = ", ".join(f'"{draw(constants)}"' for _ in range(ARITIES[name]))
        low = draw(st.integers(0, 4))
        when = draw(st.sampled_from(("", f"@[{low}, {low + 1}]", f"@[{low}, {low + 3})", f"@{low}")))
        stated.append(f"{name}({terms}){when} .")
    stated += [f's("{draw(constants)}") . d("{draw(constants)}", "{draw(constants)}") .' for _ in range(3)]
    lines = [draw(keyed_rules(is_integer, is_high=False)) for _ in range(draw(st.integers(1, 3)))]
    lines += [draw(keyed_rules(is_integer, is_high=True)) for _ in range(draw(st.integers(0, 4)))]
    lines.append('s(?x) :- d(?x, ?y), ~base(?x) . base(?x) :- s0(?x) . s0("2") .')
    return "\n".join([*(["@timeline integer ."] if is_integer else []), DECLARED, *stated, *lines])


HORIZON = TimeSettings(horizon=tl.read_interval("[-3, 9]"))
LONGER = tl.read_interval("(-9, 12]")
BOUNDED = [HORIZON, TimeSettings("seminaive", horizon=LONGER), TimeSettings("naive", horizon=LONGER)]
COUNTED = [TimeSettings(rounds=2), TimeSettings("seminaive", 30), TimeSettings("naive", 3)]
TIMES = [*BOUNDED, *COUNTED]


@given(keyed_programs(), st.integers(1, 3), st.sampled_from(TIMES))
def test_programs_that_share_a_key_hold_what_one_process_holds(
    text: str, count: int, time: TimeSettings
) -> None:
    check(tl.parse(text), count, time)


@pytest.mark.parametrize(("time", "least"), [(BOUNDED[0], 0.6), (COUNTED[0], 0.3)])
def test_many_programs_that_share_a_key_are_divided(time: TimeSettings, least: float) -> None:
    drawn, divided = 0, 0

    @given(keyed_programs())
    @settings(max_examples=100, database=None, derandomize=True)
    def draw(text: str) -> None:
        nonlocal drawn, divided
        drawn += 1
        divided += is_divisible(tl.parse(text), time)

    draw()
    assert divided > least * drawn, (divided, drawn)


# ---- how programs are divided

SENSORS = """
@declare reading(sensor: string, level: int) .
hot(?s) :- boxminus[0, 2] reading(?s, ?l), ?l > 50 .
alarm(?s, ?k) :- hot(?s), kind(?s, ?k), ~diamondminus[0, 1] muted(?s), diamondminus[0, 9] power() .
long(?s) :- alarm(?s, ?k) . long(?s) :- long(?s), boxminus[0, 1] hot(?s) .
reading("a", 60)@[0, 9] . reading("b", 70)@[2, 9) . reading("c", 10)@[0, 9] . reading("d", 51)@[1/3, 8] .
kind("a", 1) . kind("b", 2) . kind("d", 2) . muted("a")@[3, 4] . power()@[0, 5] .
"""


def test_where_all_rules_share_a_key_nothing_is_sent_once_facts_are_dealt() -> None:
    program = tl.parse(SENSORS)
    division = divide(program, USUAL, {}, 3)
    assert not division.copied
    assert not any(phase.sent or phase.kept for phase in division.phases)
    assert {name for name, place in division.homes.items() if place is EVERYWHERE} == {"power"}
    assert "hot: at the owner of the first argument." in division.describe()
    tasks = check(program, 3)
    assert sum(bool(task.columns("alarm")[1]) for task in tasks) > 1, "it is not divided"


def test_heads_with_another_key_are_sent_and_other_atoms_are_copied() -> None:
    text = (
        SENSORS
        + """
        kinds(?k) :- alarm(?s, ?k) .
        both(?k, ?j) :- kinds(?k), diamondminus[0, 1] kinds(?j), ?k != ?j .
        few(?k) :- kinds(?k), ~both(?k, ?k), ~boxminus[0, 1] both(?j, ?k) .
    """
    )
    program = tl.parse(text)
    division = divide(program, USUAL, {"reading": 1000, "kind": 1000}, 2)
    assert next(phase.sent for phase in division.phases if phase.sent) == ("kinds",)
    for count in (1, 2, 3):
        check(program, count)


def test_larger_relations_are_divided_and_smaller_ones_copied() -> None:
    program = tl.parse("p(1)@1 . q(1)@1 . r(?x, ?y) :- diamondminus[0, 1] p(?x), q(?y) .")
    for large, small in (("p", "q"), ("q", "p")):
        homes = divide(program, USUAL, {large: 1000, small: 10}, 4).homes
        assert (homes[large], homes[small]) == (0, EVERYWHERE)


LEVEL = "p(a, b)@1 . q(?x, ?y) :- p(?x, ?y) . r(?x) :- q(?x, ?y), boxminus[0, 1] q(?y, ?x) ."
NO_KEY = "p(?x, ?z) :- p(?x, ?y), boxminus[0, 1] p(?y, ?z) ."


@pytest.mark.parametrize(
    ("text", "time", "rule", "message"),
    [
        (
            f"p(a, b)@1 . q(?x) :- p(?x, ?y) . {NO_KEY}",
            HORIZON,
            NO_KEY,
            "their heads and atoms share no argument",
        ),
        (
            "p(a)@1 . p(?x) :- diamondminus[1, 1] p(?x) .",
            USUAL,
            "p(?x) :- diamondminus[1, 1] p(?x) .",
            "for ever",
        ),
        (
            LEVEL,
            TimeSettings(rounds=5),
            "r(?x) :- q(?x, ?y), boxminus[0, 1] q(?y, ?x) .",
            "share no argument",
        ),
        ("p(a)@1 . a = b .", USUAL, None, "both equality and temporal facts"),
    ],
)
def test_what_cannot_be_divided_is_an_error_with_the_rule(
    text: str, time: TimeSettings, rule: str | None, message: str
) -> None:
    program = tl.parse(text)
    with pytest.raises(NotLocalisable, match=message) as raised:
        check_divisible(program, time)
    assert rule is None if raised.value.rule is None else str(raised.value.rule.span.text) == rule  # type: ignore[union-attr]
    for task in run(program, 2, time=time):
        assert isinstance(task, ProgramError) and "E693" in str(task) and message in str(task)


def test_a_round_that_finds_what_another_task_has_found_is_not_new() -> None:
    """By `e`, divided by `?k`, a task would derive first in the second round what others had in the first."""
    text = """
        p("1") . p("2")@[0, 1] . p("six")@3 . s("five") . s("1") . s("2") . z()@[3, 4] .
        p(?k) :- boxminus[2, 2] s(?k) .
        e(?x, ?y) :- p(?k), z(), s(?x), s(?y) .
        y(?k) :- s(?k), ~e(?k, ?own) .
    """
    time = TimeSettings(rounds=2)
    tl.Reasoner(text, time=time).materialise()
    with pytest.raises(NotLocalisable, match="rounds are counted together"):
        check_divisible(tl.parse(text), time)


def test_where_rounds_are_counted_a_level_needs_one_key() -> None:
    program = tl.parse(LEVEL)
    assert is_divisible(program, USUAL) and not is_divisible(program, TimeSettings(rounds=5))


# ---- what tasks have to agree on


def test_tasks_that_are_given_other_units_have_one_timeline() -> None:
    program = tl.parse("@declare p(_: any) . p(z)@0 . q(?x) :- diamondminus[0, 1/5] p(?x) .")
    said = [("a", "[1/3, 1/2)"), ("b", "[0, 1/7]"), ("a", "[0.5, 2]"), ("c", "(1, inf)")]
    made = meshes.meshes(3)

    def act(number: int) -> TimedTask:
        task = TimedTask(program, made[number])
        mine = said[number::3]
        column = column_of_values([tl.parse(f"p({name}) .").facts[0].values[0] for name, _ in mine])
        times = times_of([tl.read_interval(when) for _, when in mine], False)
        task.load_timed("p", [(Batch((column,), len(mine)), times)])
        task.run()
        return task

    tasks = at_once([lambda number=number: act(number) for number in range(3)])  # type: ignore[misc]
    alone = tl.Reasoner(program)
    alone.insert("p", [(name, tl.read_interval(when)) for name, when in said])
    assert found(tasks, program) == held(alone)
    assert {task.timeline.scale for task in tasks} == {210}


def test_computed_values_are_told_to_others() -> None:
    text = """
        @declare p(_: any, _: int) .
        name(?n) :- p(?x, ?l), ?n = CONCAT(?x, STR(?l)) .
        next(?n, ?m) :- name(?n), ?m = STRLEN(?n) + 1, diamondminus[0, 1] name(?n) .
        size(?m) :- next(?n, ?m) .
    """ + " ".join(f'p("{"x" * n}", {n})@[{n}, {n + 2}] .' for n in range(12))
    for count in (2, 3):
        check(tl.parse(text), count)


def test_constraints_name_the_rule_and_the_first_instance() -> None:
    text = (
        SENSORS
        + """
        bottom() :- alarm(?s, ?k), ?k > 1 .
        bottom() :- boxminus[0, 1] power(), hot("a") .
        bottom() :- hot(?s), kind(?s, ?k), ~muted(?s) .
    """
    )
    program = tl.parse(text)
    with pytest.raises(tl.Inconsistent) as raised:
        tl.Reasoner(program).materialise()
    for count in (1, 2, 3):
        tasks = run(program, count)
        faults = [fault for task in tasks for fault in task.violations()]
        # Of instances that begin at the same time, any may be the one that is shown.
        assert [(item.message, item.span) for item in faults] == [
            (item.message, item.span) for item in raised.value.diagnostics
        ]
    (fault,) = [fault for task in run(tl.parse("p(a)@1 . bottom()@2 ."), 2) for fault in task.violations()]
    assert fault.message == "inconsistent: bottom() is an explicit fact"


def test_limits_and_errors_of_one_task_are_those_of_all() -> None:
    text = " ".join(f"p({n})@{n} ." for n in range(40)) + "q(?x) :- diamondminus[0, 1] p(?x) ."
    for task in run(tl.parse(text), 3, max_facts=50):
        assert isinstance(task, Stopped) and "more than 50 facts" in str(task)
    assert all(isinstance(task, TimedTask) for task in run(tl.parse(text), 3, max_facts=80))
    overflow = tl.parse(f"p({2**62})@1 . p(1)@1 . q(?y) :- diamondminus[0, 1] p(?x), ?y = ?x * ?x .")
    assert {type(task) for task in run(overflow, 3)} == {EvaluationError}


# ---- processes


def test_processes_hold_what_one_does_and_follow_changes() -> None:
    text = (
        SENSORS
        + """
        kinds(?k) :- alarm(?s, ?k) .
        wide(?k, ?j) :- kinds(?k), kinds(?j) .
        old(?s) :- kind(?s, ?k), ~muted(?s) .
    """
    )
    alone, divided = tl.Reasoner(text), tl.Reasoner(text, processes=2)
    assert held(divided) == held(alone)
    assert divided.statistics.derived == alone.statistics.derived
    query = "diamondminus[0, 1] alarm(?s, ?k)"
    assert divided.query(query) == alone.query(query)
    for change in (
        '+ reading("c", 99)@[20, 30] .\n+ kind("c", 7) .',
        '- kind("b", 2) .',
        "- power()@[1/2, 2] .",
    ):
        assert str(divided.apply(change)) == str(alone.apply(change))
        assert held(divided) == held(alone)
    assert str(divided.explain("kinds(2)")) == str(alone.explain("kinds(2)"))


@pytest.mark.parametrize("time", [TimeSettings(rounds=3), HORIZON])
def test_processes_say_how_far_they_have_derived(time: TimeSettings) -> None:
    text = SENSORS + "hot(?s) :- diamondminus[1, 1] hot(?s), kind(?s, ?k) ."
    alone, divided = tl.Reasoner(text, time=time), tl.Reasoner(text, processes=2, time=time)
    assert held(divided) == held(alone)
    assert divided.time.outcome is not None and alone.time.outcome is not None
    assert divided.time.outcome.kind == alone.time.outcome.kind
