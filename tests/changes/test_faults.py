"""A fault at every site of a commit: the state is that before or after it, and later commits are right."""

from __future__ import annotations

import os
from dataclasses import replace
from pathlib import Path

import pytest

import tidelog as tl
from tests.changes.injection import FAULTS, Fault, Injection, Scene, Stage
from tidelog.engine.columnar.engine import ColumnarEngine
from tidelog.engine.interrupts import Limits
from tidelog.errors import Diagnostic, EvaluationError
from tidelog.maintenance.registry import MAINTAINERS
from tidelog.reasoner.storing import StoredReasoner

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
            assert self.reasoner._keeper is not None
            self.reasoner._keeper.check_writable()
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


class Looks:
    """Stops the work when limits are looked at for the so-manieth time. Mutable: it counts."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.left = 0
        self.renewed = 0  # how often everything was begun anew
        whole = Limits.check

        def check(limits: Limits, found: int = 0, are_answers: bool = False) -> None:
            self.left -= 1
            if not self.left:
                raise tl.Stopped(Diagnostic("E610", "stopped"))
            whole(limits, found, are_answers)

        def renew(engine: ColumnarEngine) -> None:
            self.renewed += 1

        monkeypatch.setattr(Limits, "check", check)
        monkeypatch.setattr(ColumnarEngine, "renew", renew)

    def stop(self, stage: Stage, look: int) -> bool:
        """Whether the next transaction is stopped at this look; later ones are right either way."""
        self.left = look
        try:
            stage.reasoner.apply(stage.scene.transactions[stage.place])
            stage.place = (stage.place + 1) % len(stage.expected)
        except tl.Stopped:
            pass
        is_stopped, self.left = self.left <= 0, 0
        stage.check(stage.place)
        stage.go_on()
        assert not self.renewed
        return is_stopped


@pytest.mark.parametrize("name", SCENES)
def test_a_limit_in_a_commit(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """When limits are looked at: the transaction is taken back, and nothing is begun anew."""
    stage, looks = Stage(SCENES[name]), Looks(monkeypatch)
    assert looks.stop(stage, 1)
    for look in (2, 3, 5, 8, 13, 21, 34, 55, 89):
        if not looks.stop(stage, look):
            break


def first_looks(stage: Stage, looks: Looks, transaction: int) -> int:
    """How often limits are looked at in a transaction when those before it are the first ones ever."""
    stage.begin()
    for _ in range(transaction):
        stage.commit()
    looks.left = 1 << 30
    stage.reasoner.apply(stage.scene.transactions[transaction])
    return (1 << 30) - looks.left


def stop_at_first(stage: Stage, looks: Looks, transaction: int, look: int) -> None:
    """Stop a transaction, those before it being the first ones ever."""
    stage.begin()
    for _ in range(transaction):
        stage.commit()
    assert looks.stop(stage, look)


@pytest.mark.parametrize("name", SCENES)
def test_a_limit_in_the_first_commits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """While plans are made, instances are counted and structures are filled for the first time."""
    stage, looks = Stage(SCENES[name]), Looks(monkeypatch)
    most = first_looks(stage, looks, 0)
    for look in range(most, 0, -max(1, most // FEW)):
        stop_at_first(stage, looks, 0, look)


@pytest.mark.slow
@pytest.mark.parametrize("name", SCENES)
def test_limits_in_the_first_commits(name: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same at every look, or at some forty where there are more."""
    stage, looks = Stage(SCENES[name]), Looks(monkeypatch)
    for transaction in range(3):
        most = first_looks(stage, looks, transaction)
        for look in range(most, 0, -max(1, most // 40)):
            stop_at_first(stage, looks, transaction, look)


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
        patch.setattr(reasoner.time, "change", broken)
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
        patch.setattr("tidelog.reasoner.commit.normalise", broken)
        with pytest.raises(Fault):
            reasoner.apply("- passport(ann, 7) .")
    assert len(seen)
    with pytest.raises(EvaluationError, match="E648"):
        unseen.to_arrow()
    assert len(reasoner.apply("- passport(ann, 7) ."))


def broken(*arguments: object) -> None:
    """Fail for a reason that is none of tidelog's."""
    raise Fault("injected")
