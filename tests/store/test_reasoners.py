"""Reasoners in stores: large changes, closures, kept queries, snapshots under way, older formats."""

from __future__ import annotations

import random
import shutil
import tempfile
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidelog as tl
from tests.logic.conftest import all_values
from tests.store.imprint import imprint
from tests.store.test_files import CHANGES, EQUAL, EQUALITIES, PROGRAM, TIMED, TIMES
from tests.store.test_laws import crash
from tidelog.logic.values import Value
from tidelog.store import store

FORMATS = Path(__file__).parent / "formats"
GRAPH = tl.parse("""
    @declare edge(x: int, y: int) .
    reach(?x, ?y) :- edge(?x, ?y) .
    reach(?x, ?z) :- reach(?x, ?y), edge(?y, ?z) .
    far(?x, ?y) :- reach(?x, ?y), ~edge(?x, ?y), ?x < 3 .
    degree(?x, #count(?y)) :- reach(?x, ?y) .
""")


def drawn(chance: random.Random, count: int) -> list[tuple[int, int]]:
    return sorted({(chance.randrange(60), chance.randrange(60)) for _ in range(count)})


@pytest.mark.parametrize("closing", [False, True])
def test_closures_and_large_changes_survive(tmp_path: Path, closing: bool) -> None:
    chance = random.Random(3)
    lasting = tl.Reasoner(GRAPH, threads=1)
    lasting.materialise()
    stored = tl.open(tmp_path / "store", GRAPH, threads=1)
    for count in (400, 1, 90, 30):  # more pairs than structures for closures want
        edges = drawn(chance, count)
        for reasoner in (lasting, stored):
            with reasoner.change(missing="ignore") as change:
                change.delete("edge", edges[::3])
                change.insert("edge", edges[1::2])
        assert imprint(stored) == imprint(lasting)
        if closing:
            stored.close()
        else:
            crash(stored)
        stored = tl.open(tmp_path / "store", threads=1)
        assert imprint(stored) == imprint(lasting)
    assert len(stored["reach"]) > 128
    stored.close()


@given(rows=st.lists(st.tuples(all_values(), all_values()), min_size=1, max_size=60))
def test_values_of_every_kind_survive(rows: list[tuple[Value, Value]]) -> None:
    with tempfile.TemporaryDirectory() as folder:
        path = Path(folder) / "store"
        with tl.open(path, tl.parse("q(?x) :- p(?x, ?y), p(?y, ?x) .")) as reasoner:
            reasoner.insert("p", rows)
            known = imprint(reasoner)
            crash(reasoner)
        with tl.open(path) as reasoner:  # by the journal
            assert imprint(reasoner) == known
        with tl.open(path) as reasoner:  # by the snapshot
            assert imprint(reasoner) == known
            assert reasoner.insert("p", rows) == 0  # every value is found again


def test_live_and_prepared_queries_are_taken_up_again(tmp_path: Path) -> None:
    path = tmp_path / "store"
    reasoner = tl.open(path, PROGRAM)
    reasoner.watch("reach(a, ?to)")
    reasoner.prepare("reach($from, ?to)")
    gone = reasoner.watch("edge(?x, ?y)")
    gone.cancel()
    for _ in range(2):  # by the journal, then by the snapshot
        crash(reasoner)
        reasoner = tl.open(path)
        live = reasoner.watch("reach(a, ?to)")
        assert len(reasoner._demands.asked) == 2
        told: list[object] = []
        live.subscribe(lambda delta: told.append(list(delta)))  # noqa: B023 - called before the next turn
        reasoner.apply("+ edge(b, z) .")
        assert told == [[("+", ("z",))]]
        assert reasoner.prepare("reach($from, ?to)")("a").to_texts().rows() == [("b",), ("z",)]
        assert len(reasoner._demands.asked) == 2
        reasoner.apply("- edge(b, z) .")
        reasoner.compact()
    live.cancel()
    reasoner.close()
    assert len(tl.open(path, read_only=True)._demands.asked) == 1


def test_snapshots_are_written_while_others_work(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(store, "SNAPSHOT_FROM", 1)
    monkeypatch.setattr(store, "SNAPSHOT_SHARE", 1 << 30)
    path = tmp_path / "store"
    lasting = tl.Reasoner(GRAPH, threads=1)
    lasting.materialise()
    stored = tl.open(path, GRAPH, threads=1)
    for number in range(60):
        for reasoner in (lasting, stored):
            reasoner.insert("edge", [(number % 7, number), (number, number % 5)])
        reader = tl.open(path, read_only=True, threads=1)
        assert reader.commits == number + 1
    assert stored._store is not None and stored._store.number > 3
    crash(stored)
    assert len(list(path.glob("snapshot*"))) == 1
    with tl.open(path, threads=1) as again:
        assert imprint(again) == imprint(lasting)


def test_rules_that_change_many_times_survive(tmp_path: Path) -> None:
    reasoner = tl.open(tmp_path / "store", PROGRAM, threads=1)
    for sign in "+-+":
        reasoner.apply(f"{sign} reach(?y, ?x) :- reach(?x, ?y) .")
        reasoner.apply(f"{sign} many(?x, #count(?y)) :- reach(?x, ?y), ?x != b .")
    known, program = imprint(reasoner), reasoner.program
    crash(reasoner)
    with tl.open(tmp_path / "store", threads=1) as again:
        assert imprint(again) == known
        assert again.program.rules == program.rules


@pytest.mark.parametrize("version", ["1"])
def test_formats_of_the_past_open(version: str, tmp_path: Path) -> None:
    shutil.copytree(FORMATS / version, tmp_path / "store")
    anew = tl.Reasoner(PROGRAM, threads=1)
    anew.add("""
        value(1.50, true) . value(2.0e0, "x"@en) . value("<b>"^^<https://example.org/t>, name) .
        n(?x, #count(?y)) :- edge(?x, ?y) .
    """)
    for change in CHANGES:
        anew.apply(change)
    with tl.open(tmp_path / "store", threads=1) as reasoner:
        for name in ("edge", "reach", "even", "value", "n"):
            assert set(reasoner[name].to_texts("exact").rows()) == set(anew[name].to_texts("exact").rows())
        live = reasoner.watch("reach(b, ?x)")
        assert len(reasoner._demands.asked) == 1
        assert set(live.answers) == set(anew.query("reach(b, ?x)"))
        assert reasoner.commits == 4


@pytest.mark.parametrize(("kind", "text", "changes"), [("equal", EQUAL, EQUALITIES), ("timed", TIMED, TIMES)])
def test_equality_and_times_in_formats_of_the_past_open(
    kind: str, text: str, changes: tuple[str, ...], tmp_path: Path
) -> None:
    shutil.copytree(FORMATS / f"2-{kind}", tmp_path / "store")
    anew = tl.Reasoner(tl.parse(text), threads=1)
    for change in changes:
        anew.apply(change)
    with tl.open(tmp_path / "store", threads=1) as reasoner:
        assert imprint(reasoner) == imprint(anew)
        assert reasoner.commits == 3


ADVANCING = """
    late(?x) :- diamondminus[0, 2] hot(?x) . very(?x) :- boxminus[0, 1] late(?x) . hot(a)@[0, 1] .
"""
REPEATING = "tick(a)@1 . tick(?x) :- diamondminus[2, 2] tick(?x) . tock(?x) :- diamondminus[1, 1] tick(?x) ."


@pytest.mark.parametrize("closing", [False, True])
@pytest.mark.parametrize("text", [ADVANCING, REPEATING], ids=["advancing", "repeating"])
def test_time_that_advances_or_repeats_survives(text: str, closing: bool, tmp_path: Path) -> None:
    def step(reasoner: tl.Reasoner, number: int) -> object:
        if text is ADVANCING:
            reasoner.apply(f"+ hot(b)@[{3 * number}, {3 * number + 1}] .")
            reasoner.advance(3 * number)
        else:
            reasoner.apply(f"+ tick(b)@{number}.5 .")
        return str(reasoner.time.outcome), str(reasoner.time.past)

    lasting = tl.Reasoner(tl.parse(text), threads=1)
    lasting.materialise()
    stored = tl.open(tmp_path / "store", tl.parse(text), threads=1)
    for number in range(1, 5):
        stored.close() if closing else crash(stored)
        stored = tl.open(tmp_path / "store", threads=1)
        assert imprint(stored) == imprint(lasting)
        assert step(stored, number) == step(lasting, number)
        assert imprint(stored) == imprint(lasting)
        for name in lasting:
            if text is REPEATING:
                assert list(stored[name]) == list(lasting[name])
    stored.close()


@pytest.mark.parametrize("is_closed", [False, True])
def test_facts_that_differ_in_their_times_alone_are_kept(tmp_path: Path, is_closed: bool) -> None:
    path = tmp_path / "store"
    reasoner = tl.open(path, tl.parse("on()@[0, 1] . off() :- ~on() . on()@[5, 6] ."))
    reasoner.apply("+ on()@[10, 11] . + on()@[20, 21] . - on()@[0, 1/2] .")
    reasoner.apply("- on()@[10, 11] . - on()@(20, 21] .")
    before = {name: sorted(map(str, reasoner[name])) for name in ("on", "off")}
    if is_closed:
        reasoner.close()
    else:
        crash(reasoner)
    with tl.open(path) as again:
        assert {name: sorted(map(str, again[name])) for name in ("on", "off")} == before
