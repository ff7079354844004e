"""Where maintainers are tried: a program that changes, kept right by a driver, beside the same from scratch.

An engine takes part by a `Bench` of its own, named in `BENCHES`.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Protocol
from unittest.mock import patch

from tests.maintenance.columnar import ColumnarBench
from tests.maintenance.sets import Row, SetEngine
from tidelog.data.rows import Rows
from tidelog.engine.columnar.closures import maintained_closures as columnar_closing
from tidelog.engine.events import Event
from tidelog.engine.flags import CounterKind, Flag
from tidelog.engine.protocol import EngineParts
from tidelog.engine.reference import evaluate
from tidelog.logic.program import Program, Rule
from tidelog.logic.strata import strata
from tidelog.maintenance.driver import Driver
from tidelog.maintenance.maintainer import Update
from tidelog.maintenance.task import Algorithm
from tidelog.rewrite.auxiliary_relations import is_auxiliary, split

Facts = Mapping[str, frozenset[Row]]
NO_FACTS: Facts = {}
MOST = 5_000  # facts, of a program that is worth the time


class Bench(Protocol):
    """An engine that holds the materialisation of a program, and what tests ask of it."""

    @property
    def engine(self) -> EngineParts:
        """The engine."""

    def encode(self, facts: Facts) -> dict[str, Rows]:
        """Facts as the engine names them."""

    def decode(self, rows: Mapping[str, Rows]) -> dict[str, frozenset[Row]]:
        """The facts that the engine names so."""

    def facts(self) -> dict[str, frozenset[Row]]:
        """All facts that are true, of predicates that have some."""

    def check(self, program: Program) -> None:
        """Fails unless flags are clean, and counters those of counting anew."""

    def state(self) -> object:
        """Something that is equal if nothing has changed."""


class SetBench:
    """The bench of Python sets."""

    def __init__(self, program: Program, explicit: Facts, is_split: bool = True) -> None:
        self.sets = SetEngine()
        self.engine = self.sets.engine
        program = split(program) if is_split else program
        for predicate in program.predicates.values():
            self.sets.define(predicate.name, predicate.arity)
        for name, rows in explicit.items():
            self.sets.load(name, rows)
        for name, rows in evaluate(program, explicit, max_facts=MOST).items():
            self.sets.add_derived(name, rows)

    def encode(self, facts: Facts) -> dict[str, Rows]:
        """Facts as columns of ids."""
        return {name: Rows(self.sets.encode(sorted(rows)), len(rows)) for name, rows in facts.items() if rows}

    def decode(self, rows: Mapping[str, Rows]) -> dict[str, frozenset[Row]]:
        """The facts of columns of ids."""
        return {name: self.sets.decode(some.columns, some.count) for name, some in rows.items()}

    def facts(self) -> dict[str, frozenset[Row]]:
        """All facts that are true, of predicates that have some."""
        found = {name: self.sets.every(name).members for name in self.sets.relations()}
        return {
            name: frozenset(row for _, row in some)
            for name, some in found.items()
            if some and not is_auxiliary(name)
        }

    def check(self, program: Program) -> None:
        """Fails unless flags are clean, and counters those of counting anew with the same ranks."""
        engine = self.sets
        for rows in engine.state.flags.values():
            for flags in rows.values():
                assert flags & ~Flag.EXPLICIT in (Flag.NONE, Flag.ALIVE | Flag.BEFORE)
        if engine.kind is not CounterKind.NONE:
            derived = split(program).derived
            counted = engine.state.copy()
            engine.count_again(strata(split(program).rules))
            for kept, anew in (
                (counted.founded, engine.state.founded),
                (counted.hidden, engine.state.hidden),
            ):
                assert _of(kept, derived) == _of(anew, derived)
        if engine.kind is CounterKind.RANK:
            assert not engine.select_unfounded(
                engine.true_in(name for name in derived if not is_auxiliary(name))
            )

    def state(self) -> object:
        """Flags that are set, counters and ranks."""
        state = self.sets.state
        flags = {
            (name, row): flag for name, rows in state.flags.items() for row, flag in rows.items() if flag
        }
        return flags, dict(state.founded), dict(state.hidden), dict(state.ranks), state.counters


def unsplit(program: Program, explicit: Facts) -> Bench:
    """A bench whose engine has materialised the program without auxiliary relations."""
    return SetBench(program, explicit, is_split=False)


def closing(program: Program, explicit: Facts) -> Bench:
    """A bench whose engine closes predicates by structures."""
    with patch.object(columnar_closing, "MIN_PAIRS", 0):
        return ColumnarBench(program, explicit, modules=True)


def _of(counts: Mapping[tuple[str, Row], int], relations: Iterable[str]) -> dict[tuple[str, Row], int]:
    wanted = frozenset(relations)
    return {fact: count for fact, count in counts.items() if fact[0] in wanted}


BENCHES: dict[str, Callable[[Program, Facts], Bench]] = {"columnar": ColumnarBench, "sets": SetBench}


# ---- a program that changes


@dataclass(frozen=True)
class Change:
    """The explicit facts and the rules after a transaction."""

    explicit: Facts
    rules: tuple[Rule, ...]


class Laboratory:
    """A program whose facts and rules change, one transaction after the other. Mutates itself."""

    def __init__(
        self,
        make: Callable[[Program, Facts], Bench],
        program: Program,
        start: Change,
        modules: bool = False,
        followed: bool = False,
    ) -> None:
        self.program = replace(program, facts=(), rules=start.rules)
        self.explicit = start.explicit
        self.bench = make(self.program, start.explicit)
        self.events: list[Event] = []
        self.on_event: Callable[[Event], None] = self.events.append
        self.modules = modules
        self.wants_strata = followed  # of compiled loops too
        self._drivers: dict[tuple[str, bool, bool], Driver] = {}

    def __call__(self, event: Event) -> None:
        self.on_event(event)

    def driver(self, algorithm: Algorithm) -> Driver:
        """The driver of an algorithm, one for all transactions."""
        key = algorithm.name, algorithm.is_compiled, self.modules
        if key not in self._drivers:
            self._drivers[key] = Driver(
                algorithm,
                self.bench.engine,
                self,
                lambda: None,
                modules=self.modules,
            )
        return self._drivers[key]

    def apply(self, algorithm: Algorithm, change: Change) -> None:
        """Carry out a transaction, and compare everything with what follows from scratch."""
        before, after = self.program, self._after(change)
        was = self.bench.facts()
        net = self.driver(algorithm).apply(self.update(change), before, after)
        self.program, self.explicit = after, change.explicit
        self.compare()
        now = self.bench.facts()
        assert self.bench.decode(net.added) == difference(now, was)
        assert self.bench.decode(net.removed) == difference(was, now)

    def compare(self) -> None:
        """Fails unless everything is as from scratch."""
        assert self.bench.facts() == from_scratch(self.program, self.explicit)
        self.bench.check(self.program)

    def interrupt(self, algorithm: Algorithm, change: Change, at: int) -> bool:
        """Whether the transaction has so many events; then nothing has changed by stopping it there."""
        left = at

        def stop(event: Event) -> None:
            nonlocal left
            left -= 1
            if left == 0:
                raise KeyboardInterrupt

        driver = self.driver(algorithm)
        driver._prepare(self.program)
        state = self.bench.state()
        self.on_event = stop
        try:
            driver.apply(self.update(change), self.program, self._after(change))
        except KeyboardInterrupt:
            assert self.bench.state() == state
            return True
        finally:
            self.on_event = self.events.append
        self.program, self.explicit = self._after(change), change.explicit
        return False

    def update(self, change: Change) -> Update:
        """What a change asks for, normalised."""
        rules = self.program.rules
        return Update(
            self.bench.encode(difference(self.explicit, change.explicit)),
            self.bench.encode(difference(change.explicit, self.explicit)),
            tuple(rule for rule in rules if rule not in change.rules),
            tuple(rule for rule in change.rules if rule not in rules),
        )

    def _after(self, change: Change) -> Program:
        if change.rules == self.program.rules:
            return self.program
        return replace(self.program, rules=change.rules)


def from_scratch(program: Program, explicit: Facts) -> dict[str, frozenset[Row]]:
    """All facts, of predicates that have some."""
    found = evaluate(program, explicit, max_facts=MOST)
    return {name: rows for name, rows in found.items() if rows}


def difference(left: Facts, right: Facts) -> dict[str, frozenset[Row]]:
    """What is on the left only, of predicates that have some."""
    apart = {name: rows - right.get(name, frozenset()) for name, rows in left.items()}
    return {name: rows for name, rows in apart.items() if rows}
