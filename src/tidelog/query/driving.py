"""Rules of tables, each driven by what is new of one of its atoms. Mutates itself.

A rule whose atom has constants is of no use to rows without them. Rules are therefore found by these
constants, as Prolog finds clauses by their arguments: a round costs what its rows can drive, however many
rules there are.

Invariant: each instance with something new is found exactly once, whichever rules are passed over.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any

import numpy as np

from tidelog.engine.protocol import Runnable
from tidelog.logic.program import Atom, Constant, Rule
from tidelog.logic.values import Value
from tidelog.plan.compile import delta_pivots, delta_plan, full_plan
from tidelog.plan.join_order import Statistics
from tidelog.query.tabled_engine import TabledEngine

GROWN = 4  # plans are made anew when a relation has grown by this factor
SMALL = 1000  # … and is no longer this small
LOOKED_OVER = 8  # rounds after which plans are looked over
MANY = 1000  # new rows whose constants are not looked at: plans do so faster
EXPECTED_SIZE, EXPECTED_DISTINCT, EXPECTED_MATCHING = 1000, 100.0, 10  # of what is still growing


class Growing:
    """Statistics of relations of which some are still growing: of these there will be more than there are."""

    def __init__(self, known: Statistics, growing: Collection[str]) -> None:
        self._known = known
        self._growing = growing

    def size(self, relation: str) -> int:
        """How many facts a relation has, or will have."""
        size = self._known.size(relation)
        return max(size, EXPECTED_SIZE) if relation in self._growing else size

    def distinct(self, relation: str, column: int) -> float:
        """How many distinct values a column has, or will have."""
        distinct = self._known.distinct(relation, column)
        return max(distinct, EXPECTED_DISTINCT) if relation in self._growing else distinct

    def matching(self, relation: str, column: int, value: Value) -> int:
        """How many facts have this value in a column, or will have."""
        matching = self._known.matching(relation, column, value)
        return max(matching, EXPECTED_MATCHING) if relation in self._growing else matching


class Drive:
    """A rule of tables, driven by what is new of the atom at a place in its body."""

    def __init__(self, rule: Rule, place: int, own: Collection[str], engine: TabledEngine) -> None:
        atom = rule.body[place]
        assert isinstance(atom, Atom)
        self.rule = rule
        self.relation = atom.predicate
        self._place = place
        self._own = own
        self._engine = engine
        self._read = tuple(dict.fromkeys(atom.predicate for atom in rule.positive))
        self.growing = frozenset(self._read).intersection(own)
        self._ready: Runnable | None = None
        self._generation = -1
        self.matches = 0  # instances of the rule that were found by `run`
        asked = ((column, term) for column, term in enumerate(atom.terms) if isinstance(term, Constant))
        self._constants = {column: engine.identity(term.value) for column, term in asked}

    @property
    def columns(self) -> tuple[int, ...]:
        """Where the driving atom has constants."""
        return tuple(self._constants)

    @property
    def key(self) -> tuple[int, ...]:
        """The ids of these constants."""
        return tuple(self._constants.values())

    @property
    def is_idle(self) -> bool:
        """Whether no new row has the constants of the driving atom."""
        columns, count = self._engine.new_rows(self.relation)
        passed = np.ones(count, bool)
        for column, identity in self._constants.items():
            passed &= columns[column] == identity
        return not passed.any()

    def run(self, check: Callable[[], None]) -> int:
        """Find what follows from what is new; returns how many facts that are new."""
        if self._generation != self._engine.generation:
            self.forget_plan()
        ready = self.ready()
        if ready is None:
            return 0
        outcome = ready()
        self.matches += outcome.matches
        check()
        return outcome.new

    def ready(self) -> Runnable | None:
        """What finds it; None while that cannot be anything."""
        if self._ready is None:
            self._ready = self._prepared()
        return self._ready

    def _prepared(self) -> Runnable | None:
        """A plan ready to run; none while indexes for it would be in vain."""
        engine, rule = self._engine, self.rule
        if not all(map(engine.size, self._read)):
            return None
        plan = delta_plan(rule, 0, self._own, self._place, Growing(engine, self._own))
        self._generation = engine.generation
        ready = engine.prepare(plan)
        engine.plan_to_keep((*self._read, *(atom.predicate for atom in rule.negated), rule.head.predicate))
        return ready

    def forget_plan(self) -> None:
        """Let the plan be made anew: relations have changed so much that it may be wrong, or slow."""
        self._ready = None


def drives(rule: Rule, own: Collection[str], engine: TabledEngine) -> list[Drive]:
    """A rule driven by each of its atoms in turn, of those whose relations are given."""
    return [Drive(rule, place, own, engine) for place in delta_pivots(rule, own)]


class Prepared:
    """A rule driven by each of its atoms in turn, of those whose relations are given."""

    def __init__(self, rule: Rule, own: Collection[str], engine: TabledEngine) -> None:
        self.rule = rule
        self._engine = engine
        self._drives = drives(rule, own, engine)
        self._read = tuple(dict.fromkeys(atom.predicate for atom in (*rule.positive, *rule.negated)))
        self._growing = {name for drive in self._drives for name in drive.growing}
        self._lossy: list[str] = []
        self._limits: dict[str, int] = {}

    @property
    def matches(self) -> int:
        """How many instances of the rule were found so far."""
        return sum(drive.matches for drive in self._drives)

    def run(self, fresh: Collection[str], check: Callable[[], None]) -> int:
        """Find what follows from what is new in the fresh relations; returns how many facts that are new."""
        due = (drive for drive in self._drives if drive.relation in fresh and not drive.is_idle)
        return sum(drive.run(check) for drive in due)

    def look_over(self) -> None:
        """Let plans be made anew if relations have grown much since, or have lost facts."""
        size = self._engine.size
        lossy = list(filter(self._engine.has_dead, self._read))
        if lossy != self._lossy or any(size(name) > limit for name, limit in self._limits.items()):
            for drive in self._drives:
                drive.forget_plan()
            self._lossy, self._limits = lossy, {}
        self._limits = self._limits or limits(self._growing, self._engine)


def limits(relations: Iterable[str], engine: TabledEngine) -> dict[str, int]:
    """The sizes of relations up to which plans that are made now are good ones."""
    return {name: max(GROWN * engine.size(name), SMALL) for name in relations}


class Dispatch:
    """Rules by what drives them: a relation, and the constants that they ask of its rows."""

    def __init__(self, found: Iterable[Drive], engine: TabledEngine) -> None:
        self._engine = engine
        self._drives = tuple(found)
        self._by_key: dict[str, dict[tuple[int, ...], dict[tuple[int, ...], list[Drive]]]] = {}
        for drive in self._drives:
            by_columns = self._by_key.setdefault(drive.relation, {})
            by_columns.setdefault(drive.columns, {}).setdefault(drive.key, []).append(drive)
        self._generation = engine.generation
        self._limits: dict[str, int] = {}  # the sizes up to which plans are good ones
        self._asked = 0

    def due(self, fresh: Iterable[str]) -> Iterator[Drive]:
        """The rules that can find something in what is new of these relations."""
        self._look_over()
        for relation in fresh:
            by_columns = self._by_key.get(relation)
            if by_columns:
                columns, count = self._engine.new_rows(relation)
                for places, by_key in by_columns.items():
                    if places and count <= MANY:
                        for key in _keys(columns, places):
                            yield from by_key.get(key, ())
                    else:
                        for some in by_key.values():
                            yield from some

    def _look_over(self) -> None:
        """Let plans be made anew that read relations that were dropped, or have grown much."""
        size = self._engine.size
        self._asked += 1
        if self._generation != self._engine.generation:
            self._generation = self._engine.generation
            grown = set(self._limits)
        elif self._asked % LOOKED_OVER == 0:
            grown = {name for name, limit in self._limits.items() if size(name) > limit}
        else:
            grown = set()
        if grown or not self._limits:
            for drive in self._drives:
                if not drive.growing.isdisjoint(grown):
                    drive.forget_plan()
            self._limits = limits({name for drive in self._drives for name in drive.growing}, self._engine)


def _keys(columns: tuple[Any, ...], places: tuple[int, ...]) -> set[tuple[int, ...]]:
    """What rows have in some columns."""
    return set(zip(*(columns[place].tolist() for place in places), strict=True))


def run_together(
    found: Iterable[Drive], engine: TabledEngine, check: Callable[[], None]
) -> list[tuple[Drive, int]]:
    """Run rules in turn; those that could find something, and how many new facts they have found."""
    prepared = [(drive, ready) for drive in found if (ready := drive.ready()) is not None]
    if not prepared:
        return []
    news = engine.run_together([ready for _, ready in prepared])
    check()
    return [(drive, new) for (drive, _), new in zip(prepared, news, strict=True)]


def run_once(rule: Rule, engine: TabledEngine) -> int:
    """Find all that a rule gives; returns how many facts are new."""
    if not all(engine.size(atom.predicate) for atom in rule.positive):
        return 0
    return engine.prepare(full_plan(rule, 0, engine))().new
