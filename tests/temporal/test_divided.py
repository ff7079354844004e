"""Rules over time among tasks that derive together: they hold what one process derives, each fact once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

from hypothesis import given, settings
from hypothesis import strategies as st

import tidelog as tl
from tests.engine.meshes import at_once, meshes
from tests.temporal.test_procedures import programs, windows
from tidelog.errors import EvaluationError, ProgramError
from tidelog.logic.program import Program
from tidelog.rewrite.localise import NotLocalisable
from tidelog.temporal.divided import Divided
from tidelog.temporal.division import check_divisible
from tidelog.temporal.reasoning import USUAL, TimeSettings

Held = dict[str, list[str]]


def run(program: Program, count: int, **settings: Any) -> list[Any]:
    """The tasks that have run a program, or the errors that they have raised."""
    made = meshes(count)
    tasks = [Divided(program, mesh, **settings) for mesh in made]

    def act(task: Divided) -> Divided:
        task.run()
        return task

    try:
        return at_once([lambda task=task: act(task) for task in tasks])  # type: ignore[misc]
    finally:
        for mesh in made:
            mesh.close()


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
TIMES = [HORIZON, TimeSettings(rounds=2), TimeSettings("seminaive", 30), TimeSettings("naive", 3)]


@given(keyed_programs(), st.integers(1, 3), st.sampled_from(TIMES))
def test_programs_that_share_a_key_hold_what_one_process_holds(
    text: str, count: int, time: TimeSettings
) -> None:
    check(tl.parse(text), count, time)


def test_most_programs_that_share_a_key_are_divided() -> None:
    drawn, divided = 0, 0

    @given(keyed_programs(), st.sampled_from(TIMES))
    @settings(max_examples=100, database=None, derandomize=True)
    def draw(text: str, time: TimeSettings) -> None:
        nonlocal drawn, divided
        drawn += 1
        divided += is_divisible(tl.parse(text), time)

    draw()
    assert divided > 0.6 * drawn, (divided, drawn)
