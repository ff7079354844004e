"""Faults injected into a commit: at one of its steps, an exception comes out of nowhere."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from inspect import CO_GENERATOR
from pathlib import Path
from types import FrameType
from typing import Any

import tidelog as tl
from tests.changes.oracle import Facts, changed, difference, held

SOURCE = str(Path(tl.__file__).parent)
STEPS = ("call", "return", "c_call")
HOLDING = ("engine/interrupts.py", "engine/interrupts.py")  # take no memory, and nothing interrupts them


class Fault(Exception):  # noqa: N818 - it is what is injected
    """An exception that is none of tidelog's."""


FAULTS: tuple[type[BaseException], ...] = (MemoryError, KeyboardInterrupt, Fault)


Site = tuple[str, str, int]  # a kind of step, a file and a line of tidelog's


def _site(frame: FrameType, event: str, argument: Any) -> Site | None:
    code = frame.f_code
    if event == "c_call" and argument.__name__ == "__exit__":
        return None  # of a lock: nothing can come between the end of a block and that
    if event not in STEPS or not code.co_filename.startswith(SOURCE) or code.co_filename.endswith(HOLDING):
        return None
    if event != "c_call" and code.co_flags & CO_GENERATOR:
        return None  # where it yields or is closed: what is raised there passes by its `finally`, or is lost
    line = code.co_firstlineno if event == "call" else frame.f_lineno
    return event, code.co_filename.removeprefix(SOURCE), line


class Injection:
    """Raises an exception where a site is first reached; and, if that is asked for, once more so many calls
    later. Without a site it raises nothing, and notes all that are reached. Mutable: it counts.
    """

    def __init__(self, fault: type[BaseException] = Fault, site: Site | None = None, later: int = 0) -> None:
        self.fault = fault
        self.site, self.later = site, later
        self.seen: dict[Site, None] = {}
        self.raised = 0

    def _look(self, frame: FrameType, event: str, argument: Any) -> None:
        site = _site(frame, event, argument)
        if site is None:
            return
        if self.site is None:
            self.seen[site] = None
        elif site == self.site:
            self.raised += 1
            raise self.fault("injected")  # which ends this profile function

    def _count(self, frame: FrameType, event: str, argument: Any) -> None:
        if self.raised and _site(frame, event, argument) is not None:
            self.later -= 1
            if not self.later:
                self.raised += 1
                raise self.fault("injected")  # which ends this trace function

    @contextmanager
    def at_work(self) -> Iterator[None]:
        """Raise inside the block."""
        sys.settrace(self._count if self.later else None)
        sys.setprofile(self._look)
        try:
            yield
        finally:
            sys.setprofile(None)
            sys.settrace(None)


@dataclass(frozen=True)
class Scene:
    """A program, and transactions that lead back to it, each of statements that come and go."""

    text: str
    transactions: tuple[str, ...]
    settings: dict[str, Any] = field(default_factory=dict)
    watched: str | None = None
    prepared: str | None = None  # with one parameter, asked for `a`
    is_derived: bool = True  # all of it, before queries are kept

    @property
    def states(self) -> list[str]:
        """The program before each transaction."""
        statements = [line.strip() for line in self.text.strip().splitlines()]
        found = []
        for script in self.transactions:
            found.append("\n".join(statements))
            for line in script.strip().splitlines():
                sign, statement = line.strip()[0], line.strip()[1:].strip()
                if sign == "+":
                    statements.append(statement)
                else:
                    statements.remove(statement)
        assert sorted(statements) == sorted(found[0].splitlines()), "the last one leads back"
        return found


class Stage:
    """A scene at play: a reasoner whose commits are disturbed, and what must hold all the same. Mutable."""

    def __init__(self, scene: Scene, make: Callable[..., tl.Reasoner] = tl.Reasoner) -> None:
        self.scene = scene
        self._make = make
        self.names = sorted({name for text in scene.states for name in tl.Reasoner(tl.parse(text))})
        self.expected = [self._from_scratch(text) for text in scene.states]
        self.begin()

    def begin(self) -> None:
        """Make a reasoner that has carried out nothing: plans, counters and structures are yet to be made."""
        self.reasoner = self._make(tl.parse(self.scene.states[0]), threads=1, **self.scene.settings)
        if self.scene.is_derived:
            self.reasoner.materialise()
        self.keep_queries()
        self.place = 0  # of the state

    def keep_queries(self) -> None:
        """Keep the queries of the scene, of the reasoner as it is now."""
        self._live = self.reasoner.watch(self.scene.watched) if self.scene.watched else None
        self._prepared = self.reasoner.prepare(self.scene.prepared) if self.scene.prepared else None

    def _from_scratch(self, text: str) -> Facts:
        settings = {name: value for name, value in self.scene.settings.items() if name == "equality"}
        fresh = tl.Reasoner(tl.parse(text), threads=1, **settings)
        found = self._held(fresh)
        for asked in filter(None, (self.scene.watched, self.scene.prepared)):
            answers = fresh.query(asked.replace("$x", "a"), "full")
            found[asked] = frozenset(answers.to_texts("exact").rows())
        return found

    def _held(self, reasoner: tl.Reasoner) -> Facts:
        return {
            **dict.fromkeys(self.names, frozenset()),
            **held(reasoner, set(self.names).intersection(reasoner)),
        }

    def observed(self) -> Facts:
        """All that the reasoner answers; kept queries first, as they must not derive everything."""
        found: Facts = {}
        if self._live is not None and self.scene.watched:
            found[self.scene.watched] = frozenset(self._live.answers.to_texts("exact").rows())
        if self._prepared is not None and self.scene.prepared:
            found[self.scene.prepared] = frozenset(self._prepared(x="a").to_texts("exact").rows())
        return {**found, **self._held(self.reasoner)} if self.scene.is_derived else found

    def check(self, place: int) -> None:
        """Compare everything with what was derived from nothing."""
        observed = self.observed()
        assert observed == {name: self.expected[place][name] for name in observed}

    def commit(self) -> None:
        """Carry out the next transaction, and look at its delta and at the state that it leads to."""
        script, after = self.scene.transactions[self.place], (self.place + 1) % len(self.expected)
        delta = self.reasoner.apply(script)
        if self.scene.is_derived and not self.reasoner.program.timed:
            facts = [
                {name: self.expected[place][name] for name in self.names} for place in (self.place, after)
            ]
            assert changed(delta, self.names) == difference(facts[0], facts[1])
        self.place = after
        self.check(after)

    def sites(self) -> list[Site]:
        """All sites that a commit reaches once plans are made."""
        found = Injection()
        for _ in self.expected:
            self.commit()
        change = self.reasoner.change()
        change.apply(self.scene.transactions[0])
        with found.at_work():
            change.commit()
        self.place = 1
        while self.place:
            self.commit()
        return list(found.seen)

    def disturb(self, injection: Injection) -> bool:
        """Carry out a transaction with a fault in it, and three without; whether it came to the fault.

        The state afterwards is the one before the transaction, or the one after it.
        """
        commits = self.reasoner.commits
        change = self.reasoner.change()
        change.apply(self.scene.transactions[0])
        try:
            with injection.at_work():
                change.commit()
        except BaseException as error:
            if not injection.raised or not isinstance(error, (injection.fault, tl.TidelogError)):
                raise
        self.place = self.reasoner.commits - commits
        self.recover()
        self.check(self.place)
        self.go_on()
        return bool(injection.raised)

    def go_on(self) -> None:
        """Carry out three transactions or more, until the state is that of the beginning."""
        done = 0
        while done < 3 or self.place:
            self.commit()
            done += 1

    def recover(self) -> None:
        """What must be done after a fault: nothing, unless there is a store."""
