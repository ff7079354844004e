"""The ways to carry a scenario out; each raises AssertionError where something is not as it must be."""

from __future__ import annotations

import os
import select
import signal
import tempfile
import time
import warnings
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass
from pathlib import Path
from random import Random
from typing import Any
from unittest.mock import patch

import tidelog as tl
from tests.temporal.test_changes import HORIZON
from tests.torture.expected import Facts, Moment, Row, answers, difference, held, moments, rows
from tests.torture.scenarios import Question, Scenario
from tidelog.engine.columnar.closures import maintained_closures
from tidelog.errors import TidelogError
from tidelog.maintenance.registry import MAINTAINERS, MARKED_NAMES, MARKINGS
from tidelog.reasoner.delta import PredicateDelta
from tidelog.reasoner.storing import StoredReasoner
from tidelog.rewrite import auxiliary_relations
from tidelog.store import store

LOOKED_OVER = 0.2  # the share of transactions after which all facts are compared, besides what changed
STRATEGIES = ("auto", "magic", "tabling", "full")
PATIENCE = 60.0  # seconds after which a process that was to be killed is said to hang


@dataclass(frozen=True)
class Hand:
    """A way to carry a scenario out, and its settings."""

    way: str
    options: tuple[tuple[str, Any], ...]
    seed: int
    is_thorough: bool = False  # compares all there is each time: what fails does so whatever is dropped

    def __str__(self) -> str:
        said = (f"{name}={value!r}" for name, value in self.options)
        return f"{self.way} with {', '.join(said) or 'what is usual'}"


def hands(scenario: Scenario, number: int) -> list[Hand]:
    """The hands that the scenario of a seed is played with."""
    chance = Random(f"hands of {number}")

    def hand(way: str, **options: Any) -> Hand:
        if scenario.family == "equality":
            options["equality"] = chance.choice(("rewrite", "rewrite", "axiomatise"))
        if scenario.closes and chance.random() < 0.2:
            options["modules"] = False
        return Hand(way, tuple(options.items()), chance.getrandbits(32))

    if scenario.is_timed:
        made = [hand("transactions"), hand("stream")]
    else:
        named = [*(name for name in MAINTAINERS if name != "auto"), f"{DEPTHS}:{chance.randint(0, 3)}"]
        made = [hand("transactions"), *(hand("transactions", maintainer=m) for m in chance.sample(named, 4))]
        made.append(hand("stream", maintainer=chance.choice(MARKED_NAMES), marking=chance.choice(MARKINGS)))
        made.append(hand("queries", maintainer=chance.choice(("auto", *named))))
    if chance.random() < 0.3:
        made.append(hand("restarts"))
    if chance.random() < 0.05:
        made.append(hand("kills"))
    return made


DEPTHS = "forward-backward-forward"


def play(scenario: Scenario, hand: Hand) -> int:
    """Carry a scenario out; how many transactions were carried out, all of them rightly."""
    found = moments(scenario)
    return play_moments(scenario, hand, found) if found else 0


def play_moments(scenario: Scenario, hand: Hand, found: list[Moment]) -> int:
    """The same where it is known already what must hold."""
    closes = patch.object(
        maintained_closures, "MIN_PAIRS", 0 if scenario.closes else maintained_closures.MIN_PAIRS
    )
    splits = patch.multiple(auxiliary_relations, LONGEST=2, PIECE=1) if scenario.splits else nullcontext()
    with closes, splits:
        WAYS[hand.way](Play(scenario, hand, found))
    return len(found) - 1


class Play:
    """A scenario while it is carried out. Mutates its chance."""

    def __init__(self, scenario: Scenario, hand: Hand, found: list[Moment]) -> None:
        self.scenario = scenario
        self.options: dict[str, Any] = {"threads": 1, **dict(hand.options)}
        if scenario.is_timed:
            self.options["time"] = HORIZON
        self.missing = "ignore" if scenario.is_timed else "error"
        self.moments = found
        self.chance = Random(hand.seed)
        self.is_thorough = hand.is_thorough

    @property
    def program(self) -> tl.Program:
        """The program at first."""
        return tl.parse(self.scenario.program(self.moments[0].state))

    def looks(self, share: float) -> bool:
        """Whether to look at something that need not be looked at each time."""
        return self.chance.random() < share or self.is_thorough

    def reasoner(self) -> tl.Reasoner:
        """A reasoner for the program at first."""
        return tl.Reasoner(self.program, **self.options)

    def carry_out(self, reasoner: tl.Reasoner, number: int, act: Callable[[], tl.Delta]) -> None:
        """A transaction either fails as it must, or changes what it must."""
        before, after = self.moments[number - 1 : number + 1]
        try:
            delta = act()
        except TidelogError as error:
            if not after.refused:
                raise AssertionError(f"transaction {number} was refused: {error}") from error
        else:
            assert not after.refused, f"transaction {number} must be refused with {after.refused}"
            self._compare_delta(number, delta, before.facts, after.facts)
        is_last = number == len(self.moments) - 1
        if is_last or after.refused or self.looks(LOOKED_OVER):
            self.compare(reasoner, number)

    def compare(self, reasoner: tl.Reasoner, number: int) -> None:
        """All facts are as from scratch."""
        _same(held(self.scenario, reasoner), self.moments[number].facts, f"after transaction {number}")

    def _compare_delta(self, number: int, delta: tl.Delta, before: Facts, after: Facts) -> None:
        if self.scenario.is_timed:  # how intervals are cut is not told: whether anything changed is
            for name in delta.predicates:
                assert before.get(name) != after.get(name), f"transaction {number} says that {name} changed"
            return
        came, went = (
            {name: rows(self.scenario, side(delta[name])) for name in delta.predicates} for side in SIDES
        )
        _same(_some(came), difference(after, before), f"said to come with transaction {number}")
        _same(_some(went), difference(before, after), f"said to go with transaction {number}")

    def answer(self, question: Question, number: int) -> frozenset[Row]:
        """What the answers to a question must be."""
        return answers(question, self.moments[number].facts)


SIDES: tuple[Callable[[PredicateDelta], tl.Relation], ...] = (
    lambda delta: delta.added,
    lambda delta: delta.removed,
)


def _some(facts: Mapping[str, frozenset[Row]]) -> Facts:
    return {name: found for name, found in facts.items() if found}


def _same(found: Facts, expected: Facts, what: str) -> None:
    if found != expected:
        missing, wrong = difference(expected, found), difference(found, expected)
        raise AssertionError(f"{what}: missing {_listed(missing)}; wrong {_listed(wrong)}")


def _listed(facts: Facts) -> str:
    texts = sorted(f"{name}({', '.join(row)})" for name, some in facts.items() for row in some)
    return f"{', '.join(texts[:5])}{f' and {len(texts) - 5} more' if len(texts) > 5 else ''}" or "nothing"


# ---- the ways


def by_transactions(play: Play) -> None:
    """One transaction after the other."""
    reasoner = play.reasoner()
    play.compare(reasoner, 0)
    for number, moment in enumerate(play.moments[1:], 1):
        play.carry_out(reasoner, number, lambda: reasoner.apply(moment.script, missing=play.missing))  # noqa: B023


def by_stream(play: Play) -> None:
    """A stream that shows the next transaction, with marks where the maintainer marks."""
    reasoner = play.reasoner()
    lookahead = reasoner._applier.maintainer.lookahead
    if lookahead is not None and play.chance.random() < 0.7:
        lookahead.decides = False  # mark, even where it does not pay
    numbers = [number for number, moment in enumerate(play.moments) if moment.script]
    stream = reasoner.stream([play.moments[number].script for number in numbers], missing=play.missing)
    for number in numbers:
        play.carry_out(reasoner, number, lambda: next(stream))


def by_queries(play: Play) -> None:
    """Live and prepared queries, and some that are asked once; all is derived, or only what they need."""
    reasoner = play.reasoner()
    if is_full := play.chance.random() < 0.5:
        reasoner.materialise()
    told: dict[Question, list[PredicateDelta]] = {each: [] for each in play.scenario.questions}
    live = {each: reasoner.watch(each.text, told[each].append) for each in told}
    prepared = {each: reasoner.prepare(_parameterised(each)) for each in told if _values(each)}
    for number, moment in enumerate(play.moments):
        for deltas in told.values():
            deltas.clear()
        if number and is_full:
            play.carry_out(reasoner, number, lambda: reasoner.apply(moment.script))  # noqa: B023
        elif number:
            _try(reasoner, moment)
        for question in told:
            expected = play.answer(question, number)
            what = f"to {question.text} after transaction {number}"
            _same_answers(rows(play.scenario, live[question].answers), expected, f"live answers {what}")
            if question in prepared:
                found = rows(play.scenario, prepared[question](*_values(question)))
                _same_answers(found, expected, f"prepared answers {what}")
            for strategy in STRATEGIES if play.looks(0.05) else ():
                found = rows(play.scenario, reasoner.query(question.text, strategy))
                _same_answers(found, expected, f"answers by {strategy} {what}")
            former = play.answer(question, number - 1) if number else expected
            came = {row for delta in told[question] for row in rows(play.scenario, delta.added)}
            went = {row for delta in told[question] for row in rows(play.scenario, delta.removed)}
            _same_answers(frozenset(came), expected - former, f"new answers {what}")
            _same_answers(frozenset(went), former - expected, f"answers that went {what}")


def _try(reasoner: tl.Reasoner, moment: Moment) -> None:
    try:
        reasoner.apply(moment.script)
    except TidelogError as error:
        assert moment.refused, f"refused: {error}"
    else:
        assert not moment.refused, f"must be refused with {moment.refused}: {moment.script}"


def _same_answers(found: frozenset[Row], expected: frozenset[Row], what: str) -> None:
    _same({"answer": found}, {"answer": expected}, what)


def _parameterised(question: Question) -> str:
    terms = [term if term.startswith("?") else f"$p{place}" for place, term in enumerate(question.terms)]
    return f"{question.predicate}({', '.join(terms)})"


def _values(question: Question) -> list[int | str]:
    return [int(term) if term.isdigit() else term for term in question.terms if not term.startswith("?")]


def by_restarts(play: Play) -> None:
    """A store that is closed, or crashes, and is opened again."""
    with tempfile.TemporaryDirectory() as folder, _snapshots_come_often():
        path = Path(folder) / "store"
        reasoner: StoredReasoner = tl.open(path, play.program, **play.options)
        for number, moment in enumerate(play.moments[1:], 1):
            play.carry_out(reasoner, number, lambda: reasoner.apply(moment.script, missing=play.missing))  # noqa: B023
            if play.looks(0.3):
                if play.chance.random() < 0.5:
                    reasoner.close()
                else:
                    assert reasoner._store is not None
                    reasoner._store.abandon()
                reasoner = tl.open(path, **play.options)
                play.compare(reasoner, number)
        reasoner.close()


@contextmanager
def _snapshots_come_often() -> Iterator[None]:
    with patch.object(store, "SNAPSHOT_FROM", 1 << 11):
        yield


# ---- processes that are killed

STEP = "tortured_step"  # a fact that tells which transaction was the last


def by_kills(play: Play) -> None:
    """A process writes to a store and is killed: what it said was done is there, and at most one more."""
    with tempfile.TemporaryDirectory() as folder, _snapshots_come_often():
        path = Path(folder) / "store"
        text = f"@declare {STEP}(n: int) . {STEP}(0) ."
        program = tl.parse(play.scenario.program((*play.moments[0].state, text)))
        tl.open(path, program, **play.options).close()
        done, last = 0, len(play.moments) - 1
        while done < last:
            said = _write_until_killed(play, path, done)
            with tl.open(path, **play.options) as reasoner:
                done = int(next(iter(reasoner[STEP]))[0])
                assert said <= done <= said + 1, f"transaction {said} was said to be done, {done} is the last"
                found = {name: some for name, some in held(play.scenario, reasoner).items() if name != STEP}
                _same(found, play.moments[done].facts, f"after a kill in transaction {done}")
                while done < last and play.moments[done + 1].refused:
                    done += 1


def _write_until_killed(play: Play, path: Path, done: int) -> int:
    """Kill a process that executes transactions; return the last one that it said was done."""
    hearing, telling = os.pipe()
    writer = fork()
    if not writer:
        os.close(hearing)
        _write(play, path, done, telling)
    os.close(telling)
    try:
        return _killed(writer, hearing, play.chance, done)
    finally:
        os.kill(writer, signal.SIGKILL)
        os.waitpid(writer, 0)
        os.close(hearing)


def fork() -> int:
    """Fork; there are threads of Arrow, none of which holds a lock between transactions."""
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", DeprecationWarning)
        return os.fork()


def _killed(writer: int, hearing: int, chance: Random, done: int) -> int:
    """Wait for some transactions and some time, and kill the process; the last one that it said was done."""
    heard, until = b"", chance.randint(0, 12)
    while heard.count(b"\n") <= until:
        ready, _, _ = select.select([hearing], [], [], PATIENCE)
        assert ready, "the process that writes hangs"
        new = os.read(hearing, 4096)
        if not new:
            break
        heard += new
    time.sleep(chance.choice((0, 0, 0.001, 0.003, 0.01)) * chance.random())
    os.kill(writer, signal.SIGKILL)
    while new := os.read(hearing, 4096):
        heard += new
    lines = heard.split(b"\n")[:-1]
    assert not (lines and lines[-1].startswith(b"!")), lines[-1].decode()
    return int(lines[-1]) if lines else done


def _write(play: Play, path: Path, done: int, telling: int) -> None:
    """In the process that is killed: carry transactions out, and say so of each. Never returns."""
    try:
        with tl.open(path, **play.options) as reasoner:
            os.write(telling, f"{done}\n".encode())
            for number, moment in enumerate(play.moments[done + 1 :], done + 1):
                if moment.refused:
                    continue
                step = f"- {STEP}({done}) . + {STEP}({number}) ."
                reasoner.apply(f"{moment.script}\n{step}", missing="ignore")
                done = number
                os.write(telling, f"{done}\n".encode())
    except BaseException as error:  # noqa: BLE001 - told to the process that waits
        os.write(telling, f"!{type(error).__name__}: {error}".replace("\n", " ").encode() + b"\n")
    os._exit(0)


WAYS: dict[str, Callable[[Play], None]] = {
    "transactions": by_transactions,
    "stream": by_stream,
    "queries": by_queries,
    "restarts": by_restarts,
    "kills": by_kills,
}
