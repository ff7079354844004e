"""Tasks that exchange facts derive together what one process derives alone."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.engine.meshes import facts, meshes, run
from tests.engine.test_fed import PROGRAMS
from tests.strategies import EVERYTHING, Case, cases

import tidelog as tl
from tidelog.engine import reference
from tidelog.engine.exchange import Collision, ExchangeTask, Lost, Mesh
from tidelog.engine.exchange.ids import HEAD
from tidelog.engine.exchange.sockets import Frame
from tidelog.engine.exchange.tasks import DERIVED
from tidelog.errors import EvaluationError, ProgramError, Stopped, TidelogError
from tidelog.logic.program import Fact, Program
from tidelog.logic.values import (
    Value,
    blank,
    boolean,
    date,
    date_time,
    decimal_of_text,
    double,
    integer,
    iri,
    language_string,
    literal,
    string,
)
from tidelog.rewrite.localise import Sizes

MOST = 4000  # facts of a random program
MANY = Sizes({"edge": 1_000_000})  # so that nothing is copied to all


def check(program: Program, count: int, **settings: Any) -> list[ExchangeTask]:
    """The tasks, which hold what the reference derives, each fact at one of them."""
    expected = reference.evaluate(program, max_facts=MOST)
    tasks: list[ExchangeTask] = run(program, count, **settings)
    for task in tasks:
        if isinstance(task, BaseException):
            raise task
    for name in program.predicates:
        found = facts(tasks, name)
        assert len(found) == len(set(found)), name
        assert set(found) == set(expected[name]), name
    return tasks


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_over_a_graph(name: str, count: int) -> None:
    edges = " ".join(f"edge({number}, {(number * 7 + 3) % 12}) ." for number in range(12))
    program = tl.parse(edges + PROGRAMS[name])
    check(program, count)
    check(program, count, sizes=MANY)


@given(cases(EVERYTHING), st.integers(1, 3), st.sampled_from([None, 1, 100, 1_000_000]))
def test_random_programs_give_the_facts_of_the_reference(case: Case, count: int, rows: int | None) -> None:
    program = tl.parse(case.text)
    sizes = None if rows is None else Sizes({name: rows for name in case.arities if name[0] == "e"})
    try:
        check(program, count, sizes=sizes)
    except Stopped:  # too many facts
        pass
    except EvaluationError:  # a value that is too large; in another order an atom may exclude the row before
        found = run(program, count, sizes=sizes, max_facts=10 * MOST)
        assert len({isinstance(each, TidelogError) for each in found}) == 1


# ---- values

NUMBERS = [integer(0), integer(-1), integer(2**63 - 1), integer(-(2**63)), integer(2**64), integer(10**40)]
NUMBERS += [decimal_of_text(text) for text in ("0.0", "2.50", "-0.001", "1" * 30 + ".5")]
NUMBERS += [value for number in (0.0, -0.0, 1.5, 1e300, float("inf")) if (value := double(number))]
TEXTS = [
    string(""),
    string("a"),
    string("ab" * 500),
    string("\u00e4\x00\U0001f600"),
    iri("a"),
    iri("http://x/" + "y" * 90),
]
TEXTS += [blank("a"), blank("b1"), language_string("a", "en"), language_string("a", "de-ch")]
TEXTS += [language_string("", "en"), literal("a", "http://t"), literal("a", "http://u")]
TIMES = [date(0), date(-800_000), *(date_time(10**15 + 7, zone) for zone in (None, 0, 60, -840))]
VALUES = [*NUMBERS, *TEXTS, *TIMES, boolean(True), boolean(False)]


def texts() -> st.SearchStrategy[str]:
    return st.text(max_size=20)


RANDOM = st.one_of(
    st.sampled_from(VALUES),
    st.integers(-(2**80), 2**80).map(integer),
    st.floats(allow_nan=False).map(lambda number: double(number) or integer(0)),
    texts().map(string),
    st.builds(language_string, texts(), st.sampled_from(["en", "de", "fr-ca"])),
    st.builds(literal, texts(), st.sampled_from(["http://t", "http://u"])),
    st.integers(-(10**17), 10**17).map(lambda moment: date_time(moment, None)),
)


def with_facts(rules: str, predicate: str, rows: Sequence[Sequence[Value]]) -> Program:
    """The program, which states these facts."""
    program = tl.parse(rules)
    return replace(program, facts=tuple(Fact(predicate, tuple(row)) for row in rows))


PAIRED = (
    "@declare edge(x: any, y: any) . path(?x, ?z) :- edge(?x, ?y), edge(?y, ?z) . "
    "back(?y, ?x) :- edge(?x, ?y) . lone(?x) :- edge(?x, _), ~back(?x, ?x) . "
    "degree(?x, #count(?y)) :- edge(?x, ?y) ."
)


@pytest.mark.parametrize("count", [2, 3])
def test_values_of_all_kinds(count: int) -> None:
    rows = [*pairwise(VALUES), *zip(VALUES, VALUES, strict=True)]
    check(with_facts(PAIRED, "edge", rows), count, sizes=MANY)


@given(st.lists(st.tuples(RANDOM, RANDOM), max_size=20), st.integers(2, 3), st.integers(0, 9))
def test_random_values(rows: list[tuple[Value, Value]], count: int, seed: int) -> None:
    check(with_facts(PAIRED, "edge", rows), count, sizes=MANY, seed=seed)


# ---- hashes


@pytest.mark.parametrize("bits", [1, 4, 8, 10])
@pytest.mark.parametrize("count", [1, 2, 3])
def test_a_collision_is_noticed_by_all_and_never_gives_a_wrong_answer(bits: int, count: int) -> None:
    rows = [(integer(number), integer(number * 7 % 30)) for number in range(30)]
    program = with_facts(PAIRED, "edge", rows)
    outcomes = set()
    for seed in range(12):
        found = run(program, count, sizes=MANY, seed=seed, bits=bits)
        if any(isinstance(each, BaseException) for each in found):
            assert all(isinstance(each, Collision) for each in found), found
            outcomes.add("collision")
        else:
            check(program, count, sizes=MANY, seed=seed, bits=bits)
            outcomes.add("right")
    assert outcomes == {"collision"} if bits <= 4 else "collision" in outcomes
    if bits == 10:
        assert "right" in outcomes  # another seed helps


def test_seeds_change_owners() -> None:
    program = with_facts(PAIRED, "edge", [(integer(number), integer(0)) for number in range(50)])
    parts = [
        tuple(len(task.relation("back")) for task in check(program, 2, sizes=MANY, seed=seed))
        for seed in range(8)
    ]
    assert len(set(parts)) > 1
    assert all(sum(part) == 50 for part in parts)


# ---- faults


def test_an_error_of_one_task_is_raised_by_all() -> None:
    text = f"edge(1, 2) . edge(2, {2**62}) . p(?x, ?z) :- edge(?x, ?y), ?z = ?y * ?y ."
    found = run(tl.parse(text), 3, sizes=MANY)
    assert all(isinstance(each, EvaluationError) for each in found)
    assert {str(each) for each in found} == {str(found[0])}
    assert "?z = ?y * ?y" in str(found[0])  # with the place


def test_a_limit_on_facts_is_one_for_all_tasks() -> None:
    edges = " ".join(f"edge({number}, {number + 1}) ." for number in range(25))
    program = tl.parse(edges + PROGRAMS["closure"])
    total = 25 + 25 * 26 // 2
    check(program, 3, sizes=MANY, max_facts=total)
    found = run(program, 3, sizes=MANY, max_facts=total - 1)
    assert [each.diagnostics[0].code for each in found] == ["E611"] * 3


def test_a_timeout_ends_all_tasks() -> None:
    text = "n(0) . n(?y) :- n(?x), ?y = ?x + 1, ?x < 1000000000 ."
    found = run(tl.parse(text), 2, timeout=0.3)
    assert all(isinstance(each, Stopped) for each in found)


def test_a_program_that_cannot_be_divided_is_an_error_with_the_rule() -> None:
    program = tl.parse("p(a) . q(b) . a = b . ?x = ?y :- p(?x), q(?y) .")
    found = run(program, 2)
    assert all(isinstance(each, ProgramError) for each in found)
    assert "?x = ?y :- p(?x), q(?y)" in str(found[0])


class Dying(Mesh):
    """A mesh whose task 1 dies in a round. Mutable."""

    last = 0

    def swap(self, frames: Any) -> Any:
        if self.number == 1:
            self.last -= 1
            if self.last < 0:
                self.close()
                raise SystemExit("killed")
        return super().swap(frames)

    def fail(self, frame: Any) -> None:
        if self.number != 1 or self.last >= 0:
            super().fail(frame)


def test_a_task_that_dies_in_any_round_is_an_error_at_all_others() -> None:
    edges = " ".join(f"edge({number}, {number + 1}) ." for number in range(9))
    program = tl.parse(edges + PROGRAMS["negation and aggregates"])
    swaps = 0
    while True:
        made = meshes(3, Dying)
        made[1].last = swaps  # type: ignore[attr-defined]
        found = run(program, 3, made, sizes=MANY)
        if not any(isinstance(each, BaseException) for each in found):
            break
        assert isinstance(found[1], SystemExit)
        assert isinstance(found[0], Lost), found
        assert isinstance(found[2], Lost), found
        swaps += 1
    assert swaps > 10  # it has died in as many of them


# ---- skew


def test_frequent_values_are_found_and_their_rows_are_divided() -> None:
    rows, others = 12_000, 24_000
    likes = [(integer(number), iri("star" if number % 10 else f"s{number}")) for number in range(rows)]
    made = [(iri(f"s{number}"), integer(number)) for number in range(others)]
    program = tl.parse(
        "@declare likes(x: int, y: iri) . @declare made(x: iri, y: int) . "
        "made(star, 1) . liked(?x, ?z) :- likes(?x, ?y), made(?y, ?z) ."
    )
    stated = [Fact("likes", row) for row in likes] + [Fact("made", row) for row in made]
    program = replace(program, facts=(*program.facts, *stated))
    stars = {(integer(number), integer(1)) for number in range(rows) if number % 10}
    tasks = run(program, 4)
    assert set(facts(tasks, "liked")) == stars | {(integer(n), integer(n)) for n in range(0, rows, 10)}
    assert tasks[0].plan.heavy  # the plan knows of them
    held = [task.counts()["rows"] for task in tasks]
    assert max(held) < 2 * min(held)  # else one task would hold nearly all rows


def test_heavy_values_leave_rows_and_work_balanced() -> None:
    """Nine rows of ten have one value; so have nearly all derived ones, by which they are grouped."""
    rows = 12_000
    program = tl.parse(
        "@declare likes(x: int, y: iri) . @declare made(x: iri, y: int) . made(star, 1) . made(star, 2) . "
        "liked(?x, ?z) :- likes(?x, ?y), made(?y, ?z) . count(?x, #count(?z)) :- liked(?x, ?z) . "
        "of(?z, #count(?x), #max(?x), #sum(?x), #min(?x)) :- liked(?x, ?z) ."
    )
    likes = [(integer(number), iri("star" if number % 10 else f"s{number}")) for number in range(rows)]
    made = [(iri(f"s{number}"), integer(number)) for number in range(3, 2 * rows)]
    stated = [Fact("likes", row) for row in likes] + [Fact("made", row) for row in made]
    program = replace(program, facts=(*program.facts, *stated))
    alone, *others = run(program, 1), *(run(program, count) for count in (2, 4))
    for tasks in others:
        for name in ("liked", "count", "of"):
            assert sorted(map(repr, facts(tasks, name))) == sorted(map(repr, facts(alone, name)))
        held = [task.counts()["rows"] for task in tasks]
        derived = [len(task.relation("liked")) for task in tasks]
        assert max(held) < 1.6 * sum(held) / len(held)
        assert max(derived) < 1.6 * sum(derived) / len(derived)


@pytest.mark.parametrize("count", [2, 3])
def test_sums_of_parts_may_leave_64_bits_where_that_of_the_group_does_not(count: int) -> None:
    text = """@declare p(x: int, y: int) . g(1) .
        all(#sum(?y, ?x)) :- p(?x, ?y) . by(?g, #sum(?y, ?x)) :- p(?x, ?y), g(?g) ."""
    large = [(1 - 2 * (number % 2)) * (9 * 10**18 + number) for number in range(400)]
    rows = [Fact("p", (integer(number), integer(each))) for number, each in enumerate(large)]
    program = tl.parse(text)
    tasks = run(replace(program, facts=(*program.facts, *rows)), count)
    assert any("sum of parts" in str(rule.aggregations) for rule in tasks[0].plan.program.rules)
    assert facts(tasks, "all") == [(integer(-200),)] and facts(tasks, "by") == [(integer(1), integer(-200))]
    beyond = [Fact("p", (integer(number), integer(9 * 10**18))) for number in range(2)]
    with pytest.raises(tl.EvaluationError, match=r"E603.*`#sum` overflows 64 bits"):
        answers = run(replace(program, facts=(*program.facts, *beyond)), count)
        raise next(each for each in answers if isinstance(each, tl.EvaluationError))


# ---- what is sent


def sent_rows(
    monkeypatch: pytest.MonkeyPatch, program: Program, count: int, **settings: Any
) -> tuple[list[ExchangeTask], int]:
    """The tasks that have run, and the rows that they have sent one another once given facts were placed."""
    swap, sent = ExchangeTask._swap, []

    def counted(task: ExchangeTask, stage: int, frames: Mapping[int, Frame]) -> dict[int, Frame]:
        for frame in frames.values() if stage == DERIVED else ():
            if len(frame.parts) > 1:
                sent.append(int(np.asarray(frame.parts[1]).reshape(-1, HEAD)[:, 2].sum()))
        return swap(task, stage, frames)

    monkeypatch.setattr(ExchangeTask, "_swap", counted)
    tasks = run(program, count, **settings)
    return tasks, sum(sent)


KEPT = {
    "left-linear": "reach(?x, ?y) :- edge(?x, ?y) . reach(?x, ?z) :- reach(?x, ?y), edge(?y, ?z) .",
    "right-linear": "reach(?x, ?y) :- edge(?x, ?y) . reach(?x, ?z) :- edge(?x, ?y), reach(?y, ?z) .",
    "mutual": "even(?x, ?x) :- edge(?x, _) . even(?x, ?z) :- odd(?z, ?y, ?x), edge(?y, ?z) . "
    "odd(?z, ?y, ?x) :- even(?x, ?y), edge(?y, ?z) .",
}


@pytest.mark.parametrize("count", [2, 3, 4])
@pytest.mark.parametrize("name", KEPT)
def test_nothing_is_sent_where_recursion_keeps_an_argument(
    monkeypatch: pytest.MonkeyPatch, name: str, count: int
) -> None:
    edges = [Fact("edge", (integer(number), integer(number + 1))) for number in range(16)]
    program = replace(tl.parse(f"@declare edge(x: int, y: int) . {KEPT[name]}"), facts=tuple(edges))
    tasks, sent = sent_rows(monkeypatch, program, count)
    expected = reference.evaluate(program)
    for predicate in program.predicates:
        assert set(facts(tasks, predicate)) == set(expected[predicate])
    assert sent == 0
    assert sum(len(task.relation("edge")) > 0 for task in tasks) > 0


def test_rows_are_sent_where_recursion_keeps_none(monkeypatch: pytest.MonkeyPatch) -> None:
    edges = [Fact("edge", (integer(number), integer(number + 1))) for number in range(16)]
    program = replace(tl.parse(f"@declare edge(x: int, y: int) . {PROGRAMS['closure']}"), facts=tuple(edges))
    _, sent = sent_rows(monkeypatch, program, 2, sizes=MANY)
    assert sent > 0


@pytest.mark.parametrize("count", [2, 4])
def test_joins_for_triangles_are_no_larger_than_copies(count: int) -> None:
    """A star has as many paths of two edges as the square of its rays, and few triangles."""
    rays = 400
    pairs = [(0, ray) for ray in range(1, rays)] + [(ray, 0) for ray in range(1, rays)]
    pairs += [(ray, ray + 1) for ray in range(1, rays - 1, 3)]
    text = "triangle(?x, ?y, ?z) :- edge(?x, ?y), edge(?y, ?z), edge(?z, ?x) ."
    edges = tuple(Fact("edge", (integer(one), integer(other))) for one, other in pairs)
    program = replace(tl.parse(f"@declare edge(x: int, y: int) . {text}"), facts=edges)
    tasks = run(program, count)
    lookup = set(pairs)
    found = {(x, y, z) for x, y in pairs for z in (0, y + 1, x - 1, x, y) if {(y, z), (z, x)} <= lookup}
    assert {tuple(value.content for value in row) for row in facts(tasks, "triangle")} == found
    held = sum(task.counts()["rows"] for task in tasks) - len(found)
    assert held <= (count + 1) * len(pairs)
