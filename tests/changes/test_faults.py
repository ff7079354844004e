"""A fault at every site of a commit: the state is that before or after it, and later commits are right."""

from __future__ import annotations

import os
from contextlib import suppress
from dataclasses import replace
from pathlib import Path

import pytest

import tidelog as tl
from tests.changes.injection import FAULTS, Fault, Injection, Scene, Stage
from tidelog.engine.columnar.closing import ClosingEngine
from tidelog.engine.limits import Limits
from tidelog.errors import Diagnostic, EvaluationError
from tidelog.maintenance.registry import MAINTAINERS
from tidelog.opening import StoredReasoner

FEW = 8  # sites of a scene that the quick tests try
# The slow ones try one site of so many, other ones in each scene; FAULTS_EVERY=1 tries all, for hours.
EVERY = int(os.environ.get("FAULTS_EVERY", "6"))
LATER = 3001  # calls after a fault, within which a second one may come

PLAIN = Scene(
    """
    p(a, 1) .
    p(b, 2) .
    p(b, 3) .
    e(a, b) .
    e(b, c) .
    e(c, a) .
    r(c) .
    total(?x, #sum(?n)) :- p(?x, ?n) .
    most(#max(?n, ?x)) :- total(?x, ?n), ~r(?x) .
    count(#count(?x, ?y)) :- reach(?x, ?y) .
    reach(?x, ?y) :- e(?x, ?y) .
    reach(?x, ?z) :- reach(?x, ?y), e(?y, ?z) .
    lone(?x) :- p(?x, _), ~reach(?x, ?x) .
    """,
    (
        """
        + p(a, 7) .
        - p(b, 3) .
        - e(c, a) .
        + r(b) .
        """,
        """
        + e(c, d) .
        - lone(?x) :- p(?x, _), ~reach(?x, ?x) .
        + lone(?x) :- total(?x, ?n), ?n > 3 .
        """,
        """
        - p(a, 7) .
        + p(b, 3) .
        + e(c, a) .
        - r(b) .
        - e(c, d) .
        + lone(?x) :- p(?x, _), ~reach(?x, ?x) .
        - lone(?x) :- total(?x, ?n), ?n > 3 .
        """,
    ),
)
RULES = replace(
    PLAIN,
    transactions=(
        """
        + lone(?x) :- total(?x, ?n), ?n > 3 .
        - total(?x, #sum(?n)) :- p(?x, ?n) .
        + total(?x, #max(?n)) :- p(?x, ?n) .
        + new(?x) :- e(?x, _) .
        - reach(?x, ?z) :- reach(?x, ?y), e(?y, ?z) .
        - p(a, 1) .
        """,
        """
        + e(c, d) .
        - p(b, 2) .
        """,
        """
        - lone(?x) :- total(?x, ?n), ?n > 3 .
        + total(?x, #sum(?n)) :- p(?x, ?n) .
        - total(?x, #max(?n)) :- p(?x, ?n) .
        - new(?x) :- e(?x, _) .
        + reach(?x, ?z) :- reach(?x, ?y), e(?y, ?z) .
        - e(c, d) .
        + p(b, 2) .
        + p(a, 1) .
        """,
    ),
)
EQUAL = Scene(
    """
    passport(ann, 7) .
    passport(anna, 7) .
    passport(an, 8) .
    knows(bob, ann) .
    knows(an, bob) .
    ?x = ?y :- passport(?x, ?n), passport(?y, ?n) .
    knows(?y, ?x) :- knows(?x, ?y) .
    ann = an .
    n(?x, #count(?y)) :- knows(?x, ?y) .
    """,
    (
        """
        - ann = an .
        + passport(bob, 9) .
        + passport(bo, 9) .
        - passport(anna, 7) .
        """,
        """
        + knows(bo, an) .
        + bo = an .
        """,
        """
        + ann = an .
        - passport(bob, 9) .
        - passport(bo, 9) .
        + passport(anna, 7) .
        - bo = an .
        - knows(bo, an) .
        """,
    ),
    watched="knows(?x, bob)",
)
TIMED = Scene(
    """
    on(a)@[0, 5] .
    on(b)@[2, 9] .
    kind(a) .
    kind(b) .
    busy(?x) :- diamondminus[0, 2] on(?x), kind(?x) .
    quiet(?x) :- kind(?x), ~busy(?x) .
    late(?x) :- boxminus[1, 1] busy(?x) .
    n(#count(?x)) :- kind(?x) .
    """,
    (
        """
        - on(a)@[0, 5] .
        + on(a)@(3, 4.5] .
        + on(c)@(11, 12.5) .
        + kind(c) .
        - kind(b) .
        """,
        """
        - late(?x) :- boxminus[1, 1] busy(?x) .
        + late(?x) :- boxminus[1/3, 2] busy(?x) .
        + on(a)@[1, 1.5] .
        """,
        """
        + late(?x) :- boxminus[1, 1] busy(?x) .
        - late(?x) :- boxminus[1/3, 2] busy(?x) .
        - on(a)@[1, 1.5] .
        - on(a)@(3, 4.5] .
        + on(a)@[0, 5] .
        - on(c)@(11, 12.5) .
        - kind(c) .
        + kind(b) .
        """,
    ),
)
REPEATING = Scene(
    """
    on(a)@0 .
    on(?x) :- diamondminus[3, 3] on(?x), kind(?x) .
    off(?x) :- kind(?x), ~on(?x) .
    kind(a) .
    kind(b) .
    """,
    (
        "+ on(b)@1 .\n- on(a)@0 .",
        "- kind(b) .\n+ on(a)@2 .",
        "+ kind(b) .\n- on(b)@1 .\n- on(a)@2 .\n+ on(a)@0 .",
    ),
)
SCENES = {
    **{name: replace(PLAIN, settings={"maintainer": name}) for name in MAINTAINERS},
    **{
        f"marking {name}": replace(PLAIN, settings={"maintainer": "dred", "marking": name})
        for name in ("linked",)
    },
    "rules": RULES,
    "rules by fp-update": replace(RULES, settings={"maintainer": "fp-update"}),
    "equality": EQUAL,
    "equality by search": replace(EQUAL, settings={"maintainer": "backward-forward"}),
    "equality by axioms": replace(EQUAL, settings={"equality": "axiomatise"}),
    "time": TIMED,
    "time that repeats": REPEATING,
    "queries kept": replace(PLAIN, watched="reach(a, ?y)", prepared="reach($x, ?y)"),
    "only queries kept": replace(
        PLAIN, watched="reach(?x, b)", prepared="lone($x), reach($x, ?y)", is_derived=False
    ),
}


class StoredStage(Stage):
    """A scene at play in a store: it may take no more changes after a fault, until it is opened again."""

    reasoner: StoredReasoner

    def __init__(self, scene: Scene, path: Path) -> None:
        self._path = path
        super().__init__(scene, lambda program, **settings: tl.open(path, program, **settings))

    def recover(self) -> None:
        """Compare what the store holds with what the reasoner does; open it again if it is broken."""
        with tl.open(self._path, read_only=True) as found:
            place = self.place if self._held(found) == self._held(self.reasoner) else 1 - self.place
            assert self._held(found) == {name: self.expected[place][name] for name in self.names}
        try:
            self.reasoner._check_writable()
            assert place == self.place
        except tl.TidelogError:
            self.reasoner.close()
            self.reasoner = tl.open(self._path)
            self.keep_queries()
            self.place = place


def play(stage: Stage, chosen: slice, *, twice: bool = False) -> None:
    """Disturb commits at some of the sites that they reach, by one kind of fault after the other."""
    reached, sites = 0, stage.sites()
    for number, site in enumerate(sites[chosen]):
        fault = FAULTS[number % len(FAULTS)]
        reached += stage.disturb(Injection(fault, site, 1 + number * 331 % LATER if twice else 0))
    assert reached > len(sites[chosen]) // 2


def some(stage: Stage, name: str) -> slice:
    """A few sites, other ones in each scene."""
    step = max(len(stage.sites()) // FEW, 1)
    return slice(list(SCENES).index(name) * 7 % step, None, step)


@pytest.mark.parametrize("name", SCENES)
def test_a_fault_in_a_commit(name: str) -> None:
    stage = Stage(SCENES[name])
    play(stage, some(stage, name))


@pytest.mark.parametrize("name", ["auto", "rules", "equality", "time", "only queries kept"])
def test_a_second_fault_while_the_first_is_dealt_with(name: str) -> None:
    stage = Stage(SCENES[name])
    play(stage, some(stage, name), twice=True)


@pytest.mark.parametrize("name", SCENES)
def test_a_limit_in_a_commit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """When limits are looked at: the transaction is taken back, and nothing is begun anew."""
    stage = Stage(SCENES[name])
    renewed, left = [], [0]
    whole = Limits.check

    def check(limits: Limits, found: int = 0, are_answers: bool = False) -> None:
        left[0] -= 1
        if not left[0]:
            raise tl.Stopped(Diagnostic("E610", "stopped"))
        whole(limits, found, are_answers)

    monkeypatch.setattr(Limits, "check", check)
    monkeypatch.setattr(ClosingEngine, "renew", lambda engine: renewed.append(engine))
    for looks in (1, 2, 3, 5, 8, 13, 21, 34, 55, 89):
        left[0] = looks
        with suppress(tl.Stopped):
            stage.reasoner.apply(stage.scene.transactions[0])
            stage.place = 1
        is_stopped, left[0] = left[0] <= 0, 0
        stage.check(stage.place)
        stage.go_on()
        if not is_stopped:
            break
    assert looks > 1 and not renewed


@pytest.mark.parametrize("name", ["auto", "time"])
@pytest.mark.parametrize("twice", [False, True])
def test_a_fault_in_the_commit_of_a_store(name: str, twice: bool, tmp_path: Path) -> None:
    stage = StoredStage(SCENES[name], tmp_path / "store")
    play(stage, some(stage, name), twice=twice)


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENES)
def test_faults_in_a_commit(name: str) -> None:
    play(Stage(SCENES[name]), slice(list(SCENES).index(name) % EVERY, None, EVERY))


@pytest.mark.slow
@pytest.mark.parametrize("name", ["auto", "equality", "time"])
def test_faults_in_the_commit_of_a_store(name: str, tmp_path: Path) -> None:
    play(StoredStage(SCENES[name], tmp_path / "store"), slice(0, None, 4 * EVERY), twice=True)


def test_where_time_has_advanced_a_reasoner_refuses_to_go_on(monkeypatch: pytest.MonkeyPatch) -> None:
    reasoner = tl.Reasoner(tl.parse("on(a)@[0, 5] . late(?x) :- diamondminus[0, 1] on(?x) ."))
    reasoner.advance(3)
    with monkeypatch.context() as patch:
        patch.setattr(reasoner._committing, "carry_out", broken)
        with pytest.raises(Fault):
            reasoner.apply("+ on(b)@[4, 6] .")
    for ask in (lambda: reasoner["late"], lambda: reasoner.apply("+ on(b)@9 ."), lambda: reasoner.program):
        with pytest.raises(EvaluationError, match="E647"):
            ask()


def test_a_delta_that_nobody_has_looked_at_is_lost(monkeypatch: pytest.MonkeyPatch) -> None:
    """Where constants are equal it is found late, in the facts as they were then."""
    reasoner = tl.Reasoner(tl.parse(EQUAL.states[0]))
    seen, unseen = (reasoner.apply(f"{sign} passport(anne, 7) .") for sign in "+-")
    assert len(seen)
    with monkeypatch.context() as patch:
        patch.setattr(reasoner, "_normalised", broken)
        with pytest.raises(Fault):
            reasoner.apply("- passport(ann, 7) .")
    assert len(seen)
    with pytest.raises(EvaluationError, match="E648"):
        unseen.to_arrow()
    assert len(reasoner.apply("- passport(ann, 7) ."))


def broken(*arguments: object) -> None:
    """Fail for a reason that is none of tidelog's."""
    raise Fault("injected")
