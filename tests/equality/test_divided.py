"""Equality among tasks that derive together: they hold what the reference derives, each fact once."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidelog as tl
from tests.engine import meshes
from tests.engine.meshes import facts
from tests.equality.laboratory import Facts, held, reference
from tests.equality.scripts import DECLARED, Script, scripts
from tidelog.engine.exchange import ExchangeTask
from tidelog.equality.distributed import EqualityTask
from tidelog.errors import Inconsistent, ProgramError, TidelogError
from tidelog.logic.conversions import exact
from tidelog.logic.equality_axioms import axiomatise
from tidelog.logic.program import BUILT_IN, EQUAL, Program
from tidelog.rewrite.localise import Sizes

MANY = 1_000_000  # rows, so that nothing is copied to all


def run(program: Program, count: int, make: Any = EqualityTask, **settings: Any) -> list[Any]:
    """The tasks that have run a program, or the errors that they have raised."""
    return meshes.run(program, count, make=make, **settings)


def found(tasks: Sequence[Any], program: Program) -> Facts:
    """The facts of all tasks together; no two of them have the same one."""
    for task in tasks:
        if isinstance(task, BaseException):
            raise task
    every: Facts = {}
    for name in program.predicates:
        if name not in BUILT_IN or name == EQUAL:
            rows = facts(tasks, name)
            assert len(rows) == len(set(rows)), name
            if rows:
                every[name] = frozenset(tuple(map(exact, row)) for row in rows)
    return every


@given(scripts(most=14), st.integers(1, 3), st.sampled_from([None, MANY]))
def test_random_programs_give_the_facts_of_the_reference(
    script: Script, count: int, rows: int | None
) -> None:
    program = tl.parse(script.text)
    expected = reference(script.rules, script.facts)
    sizes = None if rows is None else Sizes(dict.fromkeys(("r ≈", "s ≈", "t ≈", "u ≈", "same ≈"), rows))
    tasks = run(program, count, sizes=sizes)
    if expected is None:
        assert any(task.violations() for task in tasks)
    else:
        assert found(tasks, program) == expected
        assert not any(task.violations() for task in tasks)


@given(scripts(most=8), st.integers(2, 3))
def test_axioms_give_the_facts_of_the_reference(script: Script, count: int) -> None:
    program = tl.parse(script.text)
    expected = reference(script.rules, script.facts)
    tasks = run(axiomatise(program), count, ExchangeTask)
    if expected is not None:
        assert found(tasks, program) == expected


def test_processes_hold_what_one_does_and_follow_changes() -> None:
    text = (
        DECLARED
        + """
        ?x = ?y :- r(?x, ?k), r(?y, ?k) . ?x = ?y :- s(?x, ?z), s(?z, ?y), u(?z) .
        s(?x, ?y) :- r(?y, ?x) . n(?x, #count(?y)) :- s(?x, ?y) . lone(?x) :- u(?x), ~s(?x, _) .
        wide(?a, ?b, ?c, ?d) :- r(?a, ?b), r(?c, ?d), ?a != ?c . q(?x) :- r(a, ?x) .
        r(a, k) . r(b, k) . r(c, a) . r(d, b) . u(a) . u(e) . s(e, f) . u(k) .
    """
    )
    alone = tl.Reasoner(text)
    for count in (1, 2, 3):
        divided = tl.Reasoner(text, processes=count)
        assert held(divided) == held(alone)
    for equal in ("expand", "representative"):
        divided.equal = alone.equal = equal
        assert divided["r"] == alone["r"]
    divided.equal = alone.equal = "expand"
    by_axioms = tl.Reasoner(text, processes=2, equality="axiomatise")
    assert held(by_axioms) == held(alone)
    for change in ("- r(b, k) .", "+ r(b, k) .\n+ r(g, f) .\n+ u(f) .", "- u(a) ."):
        deltas = [reasoner.apply(change) for reasoner in (alone, divided, by_axioms)]
        assert len({str(delta) for delta in deltas}) == 1
        assert held(divided) == held(alone) == held(by_axioms)


def test_what_must_not_be_equal_is_the_error_of_one_process() -> None:
    text = "?x = ?y :- p(?x, ?n), p(?y, ?n) . p(1, a) . p(2, a) ."
    said = []
    for settings in ({}, {"processes": 2}):
        with pytest.raises(Inconsistent, match="E605") as raised:
            tl.Reasoner(text, **settings).materialise()  # type: ignore[arg-type]
        said.append(str(raised.value))
    assert said[0] == said[1]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1 = 2 .", "1 = 2, which are different literals"),
        ("a = b . b = c . a != c .", "a = c, which must differ"),
        ("a != a .", "a = a, which must differ"),
    ],
)
def test_tasks_say_what_must_not_be_equal(text: str, message: str) -> None:
    tasks = run(tl.parse(text), 2)
    (fault,) = [fault for task in tasks for fault in task.violations()]
    assert (fault.code, message in fault.message) == ("E605", True)


def test_names_may_be_unique() -> None:
    tasks = run(tl.parse("a = b ."), 2, unique_names=True)
    (fault,) = [fault for task in tasks for fault in task.violations()]
    assert "names are unique" in fault.message


def test_what_only_states_pairs_is_merged_in_one_round() -> None:
    pairs = " ".join(f"same({number}, {number + 1}) ." for number in range(40))
    text = f"?x = ?y :- same(?x, ?y) . p(7) . q(?x) :- p(?x) . {pairs}".replace("(", "(n").replace(
        ", ", ", n"
    )
    tasks = run(tl.parse(text.replace("n?", "?")), 3)
    assert [task.rounds for task in tasks] == [1, 1, 1]
    assert sum(task.columns("q")[1] for task in tasks) == 41


def test_chains_of_equalities_take_a_round_for_each_link() -> None:
    links = " ".join(f"r(k{number}, k{number + 1}) . r(j{number}, j{number + 1}) ." for number in range(6))
    program = tl.parse(f"?x = ?y :- r(?k, ?x), r(?k, ?y) . k0 = j0 . {links}")
    tasks = run(program, 2)
    assert tasks[0].rounds == 7
    assert found(tasks, program) == found(run(program, 1), program)


def test_errors_of_one_task_are_raised_by_all() -> None:
    text = "a = b . n(0) . n(?y) :- n(?x), ?y = ?x + 1 ."
    tasks = run(tl.parse(text), 2, max_facts=1000)
    assert all(isinstance(task, TidelogError) for task in tasks)


def test_the_representative_is_the_smallest_member_where_that_is_asked_for() -> None:
    tasks = run(tl.parse("b = a . b = c . p(c, d) ."), 2, shown="representative")
    assert {tuple(map(exact, row)) for row in facts(tasks, "p")} == {("a", "d")}


def test_equality_that_is_switched_off_is_refused() -> None:
    with pytest.raises(ProgramError, match="E606"):
        tl.Reasoner("a = b .", processes=2, equality="off").materialise()
