"""Given facts are sets of points: one without times is given always, and any part of it can be deleted."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import tidelog as tl
from tests.temporal.oracle import CELLS, Points, cells_of
from tidelog.errors import Inconsistent, ProgramError
from tidelog.logic.intervals import Interval

ALL: Points = frozenset(CELLS)
NEAR = frozenset(cell for cell in CELLS if abs(cell) <= 20)
State = dict[tuple[str, str], Points]
RULES = (
    "q(?x) :- p(?x), ~s(?x) .",
    "q(?x) :- s(?x), d(?x) .",
    "r(?x) :- q(?x) .",
    "r(?x) :- d(?x), ~q(?x) .",
    "v(?x) :- s(?x) .",
    "v(?x) :- v(?x), d(?x) .",
    "w(?x) :- boxminus[0, 1] q(?x) .",
    "w(?x) :- p(?x) since[0, 2] s(?x) .",
    "p(?x) :- t(?x) .",
)
GIVEN = ("p", "s", "d", "t")
DECLARED = " ".join(f"@declare {name}(_: any) ." for name in (*GIVEN, "q", "r", "v", "w"))


@st.composite
def statements(draw: st.DrawFn) -> tuple[str, str, str | None]:
    """A predicate, a constant, and when; None for a fact without times."""
    name, constant = draw(st.sampled_from(GIVEN)), draw(st.sampled_from("ab"))
    if draw(st.integers(0, 2)) == 0:
        return name, constant, None
    low = draw(st.sampled_from(("-inf", "0", "1", "2", "3")))
    high = draw(st.sampled_from(("inf", "4", "5") if low != "2" else ("2", "4", "inf")))
    left = draw(st.sampled_from("[(")) if high != low else "["
    right = draw(st.sampled_from("])")) if high != low else "]"
    return name, constant, f"{'(' if low == '-inf' else left}{low}, {high}{')' if high == 'inf' else right}"


def written(statement: tuple[str, str, str | None]) -> str:
    name, constant, time = statement
    return f"{name}({constant}){'' if time is None else '@' + time} ."


def points_of(some: list[tuple[str, str, str | None]]) -> State:
    """The points of each fact."""
    state: State = {}
    for name, constant, time in some:
        cells = ALL if time is None else cells_of([tl.read_interval(time)])
        state[name, constant] = state.get((name, constant), frozenset()) | cells
    return state


def as_facts(state: State) -> list[str]:
    """Facts with times that say the same: an interval for each run of cells."""
    lines = []
    for (name, constant), cells in state.items():
        starts = [cell for cell in sorted(cells) if cell - 1 not in cells]
        ends = [cell for cell in sorted(cells) if cell + 1 not in cells]
        for low, high in zip(starts, ends, strict=True):
            left = "(-inf" if low == CELLS[0] else f"{'(' if low % 2 else '['}{low // 2}"
            right = "inf)" if high == CELLS[-1] else f"{-(-high // 2)}{')' if high % 2 else ']'}"
            lines.append(f"{name}({constant})@{left}, {right} .")
    return lines


def held(reasoner: tl.Reasoner) -> dict[tuple[str, tuple[Any, ...]], Points]:
    """All facts, and when they hold."""
    return cells_by_fact({name: reasoner[name] for name in reasoner if name in "pqrsvwdt"})


def cells_by_fact(relations: dict[str, tl.Relation]) -> dict[tuple[str, tuple[Any, ...]], Points]:
    found: dict[tuple[str, tuple[Any, ...]], Points] = {}
    for name, relation in relations.items():
        for row in relation:
            is_timed = isinstance(row[-1], Interval)
            key = name, row[:-1] if is_timed else row
            cells = cells_of([row[-1]]) if is_timed else ALL
            found[key] = found.get(key, frozenset()) | cells & NEAR
    return {key: cells & NEAR for key, cells in found.items() if cells & NEAR}


Script = tuple[
    list[tuple[str, str, str | None]], list[str], list[list[tuple[bool, tuple[str, str, str | None]]]]
]


@st.composite
def scripts(draw: st.DrawFn) -> Script:
    """Facts, most of them without times, rules, and transactions."""
    facts = draw(st.lists(statements(), min_size=1, max_size=5))
    facts = [
        (name, constant, time if draw(st.integers(0, 3)) == 0 else None) for name, constant, time in facts
    ]
    rules = sorted(draw(st.sets(st.sampled_from(RULES), min_size=1, max_size=5)))
    transaction = st.lists(st.tuples(st.booleans(), statements()), min_size=1, max_size=3)
    return facts, rules, draw(st.lists(transaction, min_size=1, max_size=4))


def check_script(script: Script, reasoner: tl.Reasoner, *, is_strict: bool) -> None:
    """Carry transactions out; the facts are those of a program that gives the same points."""
    facts, rules, transactions = script
    state = points_of(facts)
    assert held(reasoner) == held(anew(state, rules))
    for signed in transactions:
        removed = points_of([statement for is_removal, statement in signed if is_removal])
        added = points_of([statement for is_removal, statement in signed if not is_removal])
        text = "\n".join(f"{'-' if is_removal else '+'} {written(one)}" for is_removal, one in signed)
        before = held(reasoner)
        is_there = all(cells <= state.get(key, frozenset()) for key, cells in removed.items())
        if is_strict and not is_there:
            with pytest.raises(ProgramError) as caught:
                reasoner.apply(text)
            # Of a predicate without times, a fact that is derived cannot be deleted either.
            assert {fault.code for fault in caught.value.diagnostics} <= {"E630", "E631"}
            assert held(reasoner) == before
            continue
        delta = reasoner.apply(text, missing="error" if is_strict else "ignore")
        for key, cells in removed.items():
            state[key] = state.get(key, frozenset()) - cells
        for key, cells in added.items():
            state[key] = state.get(key, frozenset()) | cells
        after = held(reasoner)
        assert after == held(anew(state, rules))
        for sign in ("added", "removed"):
            names = [name for name in delta.predicates if name in "pqrsvwdt"]
            told = cells_by_fact({name: getattr(delta[name], sign) for name in names})
            one, other = (after, before) if sign == "added" else (before, after)
            different = {key: cells - other.get(key, frozenset()) for key, cells in one.items()}
            assert told == {key: cells for key, cells in different.items() if cells}


def anew(state: State, rules: list[str]) -> tl.Reasoner:
    return tl.Reasoner(tl.parse("\n".join([DECLARED, *as_facts(state), *rules])))


@example(
    ([("p", "b", None)], ["q(?x) :- p(?x) ."], [[(True, ("p", "b", None)), (True, ("p", "b", "(-inf, 4]"))]]),
    True,
    "auto",
)
@given(scripts(), st.booleans(), st.sampled_from(("auto", "dred", "recompute", "backward-forward")))
@settings(max_examples=2 * settings().max_examples)
def test_given_facts_are_sets_of_points(script: Script, is_strict: bool, maintainer: str) -> None:
    program = tl.parse("\n".join([DECLARED, *map(written, script[0]), *script[1]]))
    reasoner = tl.Reasoner(program, maintainer=maintainer)
    reasoner.materialise()
    check_script(script, reasoner, is_strict=is_strict)


@given(scripts(), st.booleans())
@settings(max_examples=settings().max_examples // 4)
def test_a_store_keeps_sets_of_points(tmp_path_factory: Any, script: Script, is_strict: bool) -> None:
    facts, rules, _ = script
    path = tmp_path_factory.mktemp("stores") / "store"
    with tl.open(path, tl.parse("\n".join([DECLARED, *map(written, facts), *rules]))) as stored:
        check_script(script, stored, is_strict=is_strict)
        expected = held(stored)
    with tl.open(path) as stored:
        assert held(stored) == expected


def rows(relation: tl.Relation) -> list[str]:
    return [" ".join(map(str, row)) for row in relation.sorted()]


def test_a_part_of_what_holds_always_is_deleted() -> None:
    reasoner = tl.Reasoner(tl.parse("p(a) . p(b)@0 . q(?x) :- p(?x) ."))
    reasoner.apply("- p(a)@(0, 2) .")
    assert rows(reasoner["q"]) == ["a (-inf, 0]", "a [2, inf)", "b [0, 0]"]
    with pytest.raises(ProgramError, match=r"E630.*p\(a\)@\(0, 2\)"):
        reasoner.apply("- p(a) .")
    reasoner.apply("+ p(a) .")
    assert rows(reasoner["q"]) == ["a (-inf, inf)", "b [0, 0]"]
    reasoner.apply("- p(a) .")
    assert rows(reasoner["p"]) == ["b [0, 0]"]


def test_what_is_given_for_all_time_is_given_always() -> None:
    reasoner = tl.Reasoner(tl.parse("p(a)@(-inf, inf) ."))
    delta = reasoner.apply("- p(a) .")
    assert rows(delta["p"].removed) == ["a (-inf, inf)"] and not reasoner["p"]


@pytest.mark.parametrize("deleted", ["text", "rows"])
def test_a_predicate_begins_to_have_times(deleted: str) -> None:
    text = "p(a) . p(b) . s(b) . q(?x) :- p(?x) . q(?x) :- s(?x) . r(?x) :- q(?x) . v(?x) :- s(?x) ."
    reasoner = tl.Reasoner(tl.parse(text))
    reasoner.materialise()
    with reasoner.change() as change:
        if deleted == "text":
            change.remove("p(a)@[0, 1] . p(b)@[0, 1] .")
        else:
            change.delete("p", [("a", "[0, 1]"), ("b", "[0, 1]")])
    assert rows(change.delta["r"].removed) == ["a [0, 1]"]  # b follows in another way
    assert rows(reasoner["r"]) == ["a (-inf, 0)", "a (1, inf)", "b (-inf, inf)"]
    assert rows(reasoner["v"]) == ["b"] and not change.delta["v"]
    assert str(reasoner.time.outcome) == "complete after 0 rounds"


def test_what_is_not_there_gives_no_times_to_a_predicate() -> None:
    reasoner = tl.Reasoner(tl.parse("p(a) . q(?x) :- p(?x) ."))
    delta = reasoner.apply("- p(b)@[0, 1] .", missing="ignore")
    assert not delta and "p(b)@[0, 1]" in delta.notices[0].message and not reasoner.program.timed


@pytest.mark.parametrize("script", ["- p(a)@0 .", "+ p(b)@0 ."])
def test_aggregates_are_not_about_times(script: str) -> None:
    reasoner = tl.Reasoner(tl.parse("p(a) . n(#count(?x)) :- p(?x) ."))
    with pytest.raises(ProgramError, match="E353"):
        reasoner.insert("p", [("b", "[0, 0]")])  # nothing is derived yet
    with pytest.raises(ProgramError, match="E353"):
        reasoner.apply(script)
    with pytest.raises(ProgramError, match="E353"):
        reasoner.insert("p", [("b", "[0, 0]")])
    assert rows(reasoner["n"]) == ["1"]
    reasoner.apply("+ p(b) .")
    assert rows(reasoner["n"]) == ["2"]


def test_kept_queries_are_not_about_times() -> None:
    reasoner = tl.Reasoner(tl.parse("p(a) . q(?x) :- p(?x) . s(a) . v(?x) :- s(?x) ."))
    live = reasoner.watch("q(?x)")
    with reasoner.watch("v(?x)") as other:
        with pytest.raises(ProgramError, match="E617"):
            reasoner.apply("- p(a)@0 .")
        assert rows(live.answers) == ["a"]
        live.cancel()
        reasoner.apply("- p(a)@0 .")
        reasoner.apply("+ s(b) .")
        assert rows(reasoner["q"]) == ["a (-inf, 0)", "a (0, inf)"] and rows(other.answers) == ["a", "b"]


@pytest.mark.parametrize("maintainer", ["auto", "dred"])
def test_an_inconsistency_takes_it_all_back(maintainer: str) -> None:
    text = "p(a) . s(a) . q(?x) :- p(?x) . bottom() :- s(?x), ~q(?x) ."
    reasoner = tl.Reasoner(tl.parse(text), maintainer=maintainer)
    reasoner.materialise()
    for _ in range(2):
        with pytest.raises(Inconsistent):
            reasoner.apply("- p(a)@0 .")
        assert rows(reasoner["q"]) == ["a"] and not reasoner.program.timed
        reasoner.apply("+ p(b) .")
        assert rows(reasoner["q"]) == ["a", "b"]
        reasoner.apply("- p(b) .")
    reasoner.apply("- s(a) .\n- p(a)@0 .")
    assert rows(reasoner["q"]) == ["a (-inf, 0)", "a (0, inf)"]


@pytest.mark.parametrize("first", ["", "@advance 5 ."])
@pytest.mark.parametrize("second", ["- p(a)@[10, 12] .", "- p(a) ."])
def test_time_has_advanced(first: str, second: str) -> None:
    text = "p(a) . p(b)@[0, 20] . q(?x) :- diamondminus[0, 1] p(?x) . p(a)@[11, 15] ."
    reasoner = tl.Reasoner(tl.parse(text))
    if first:
        reasoner.apply(first)
    reasoner.apply(second)
    begin = "[5" if first else "(-inf"
    whole = "a (-inf, inf)"
    assert whole not in rows(reasoner["p"])
    expected = {f"a {begin}, 10)", "a (12, inf)"} if "@" in second else set()
    assert {row for row in rows(reasoner["p"]) if row.startswith("a")} == expected
    if first:
        with pytest.raises(ProgramError, match="E643"):
            reasoner.apply("- p(b)@[3, 6] .")
