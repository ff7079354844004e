"""Maintenance over time: what follows is kept right when facts and rules come and go.

Delete and rederive (Gupta, Mumick, Subrahmanian, SIGMOD 1993) over sets of time points, as DRed_MTL does:
level by level, first all points are taken away that had a derivation which lost something, then those are
put back that are given or still follow in one step, and what follows from these and from what is new is
inserted.

Invariant: before and after, the tables hold the least model of the rules over the facts given, within the
horizon if there is one.

A table below a level goes from OLD by way of MID = OLD ∩ NEW to NEW: while points are taken away it stands at
MID and knows what it lost; while points are inserted it stands at NEW and knows what it gained. What a rule
negates goes the other way round: OLD, OLD ∪ NEW, NEW.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from itertools import count

import numpy as np

from tidelog.logic.program import Assignment
from tidelog.temporal.analysis import levels
from tidelog.temporal.compute import Computer
from tidelog.temporal.evaluate import Driver, Evaluation
from tidelog.temporal.heads import Derived, head_facts
from tidelog.temporal.horizon import Horizon
from tidelog.temporal.lists import Integers, Lists, nothing
from tidelog.temporal.nodes import Leaf, ReadyRule
from tidelog.temporal.rows import Groups, Table
from tidelog.temporal.store import Store
from tidelog.temporal.table import Part, TimedTable

EPOCHS = count(1)  # of transactions
NONE: Integers = np.zeros(0, np.int64)
LOSING = (Part.NOW, Part.BEFORE)  # how atoms before and behind the driving one are read
GAINING = (Part.BEFORE, Part.NOW)


@dataclass(frozen=True, slots=True, eq=False)
class Difference:
    """Distinct facts of a table by number, in order, and points of each."""

    numbers: Integers = field(default_factory=lambda: NONE)
    lists: Lists = field(default_factory=nothing)

    def __bool__(self) -> bool:
        return len(self.numbers) > 0

    def places(self, numbers: Integers) -> Integers:
        """Where facts stand here; -1 where they do not."""
        if not len(self.numbers):
            return np.full(len(numbers), -1)
        places = np.minimum(np.searchsorted(self.numbers, numbers), len(self.numbers) - 1)
        return np.where(self.numbers[places] == numbers, places, -1)


class Journal:
    """The lists of facts as they were before the transaction. Mutable: it grows as facts are touched."""

    def __init__(self) -> None:
        self._parts: dict[TimedTable, list[tuple[Integers, Lists]]] = {}
        self._epoch = next(EPOCHS)

    def note(self, table: TimedTable, numbers: Integers) -> None:
        """Note facts that are about to change, unless they are noted."""
        new = table.stamp(numbers, self._epoch)
        if len(new):
            lists = table.lists.taken(new)
            _, left, right = lists.rows()
            kept = Lists(np.cumsum(lists.count) - lists.count, lists.count, left, right)
            self._parts.setdefault(table, []).append((new, kept))

    def undo(self) -> None:
        """Let all facts be as they were."""
        for table, parts in self._parts.items():
            table.forget_change()
            for numbers, lists in parts:
                table.replace(numbers, lists)

    def grown(self, tables: Iterable[TimedTable]) -> int:
        """How many intervals tables have more than before the transaction."""
        return sum(
            int(table.lists.count[numbers].sum()) - lists.size
            for table in tables
            for numbers, lists in self._parts.get(table, ())
        )

    def net(self, table: TimedTable) -> tuple[Difference, Difference]:
        """What a table lost and gained since the transaction began."""
        derived = Derived()
        for numbers, lists in self._parts.get(table, ()):
            derived.add(table.name, numbers, lists)
        numbers, before = derived.of(table.name)
        every = before.numbers
        return (
            _holding(numbers, before.without(table.lists, every, numbers)),
            _holding(numbers, table.lists.without(before, numbers, every)),
        )


@dataclass(slots=True)
class Maintenance:
    """A transaction being worked in. Mutates the store."""

    store: Store
    before: Sequence[ReadyRule]  # rules before and after, made ready for the same timeline
    after: Sequence[ReadyRule]
    check: Callable[[], None]
    horizon: Horizon | None = None
    journal: Journal = field(default_factory=Journal)
    _lost: dict[str, Difference] = field(default_factory=dict)  # by tables that are finished
    _gained: dict[str, Difference] = field(default_factory=dict)
    _is_insertion: bool = False
    _is_first: bool = False  # the round in which what changed below is looked at
    _level: frozenset[str] = frozenset()
    _doubtful: Derived = field(default_factory=Derived)

    def run(
        self, removed: Mapping[str, Difference], added: Mapping[str, Difference]
    ) -> tuple[dict[str, Difference], dict[str, Difference]]:
        """What all tables lost and gained by points that are no longer given, and newly given."""
        kept = {ready.rule for ready in self.after}
        gone = [ready for ready in self.before if ready.rule not in kept]
        old = {ready.rule for ready in self.before}
        new = [ready for ready in self.after if ready.rule not in old]
        every = {ready.rule: ready for ready in (*self.before, *self.after)}
        parts = levels(tuple(every))
        heads = {rule.head.predicate for rule in every}
        for name in (removed.keys() | added.keys()) - heads:
            self._settle(name, removed.get(name, Difference()), added.get(name, Difference()))
        for rules in parts:
            chosen = set(rules)
            self._level = frozenset(rule.head.predicate for rule in rules)
            self._overdelete(
                [ready for ready in self.before if ready.rule in chosen],
                [ready for ready in gone if ready.rule in chosen],
                removed,
            )
            staying = [ready for ready in self.after if ready.rule in chosen]
            self._insert(staying, [ready for ready in new if ready.rule in chosen], added)
            for name in self._level:
                self._finish(name)
        return self._lost, self._gained

    # ---- tables that no rule derives

    def _settle(self, name: str, removed: Difference, added: Difference) -> None:
        table = self.store.tables[name]
        self._lose(table, removed)
        self._gain(table, added)
        self._finish(name)

    def _finish(self, name: str) -> None:
        table = self.store.tables[name]
        table.forget_change()
        lost, gained = self.journal.net(table)
        if lost:
            self._lost[name] = lost
        if gained:
            self._gained[name] = gained

    def _lose(self, table: TimedTable, points: Difference) -> Difference:
        self.journal.note(table, points.numbers)
        return Difference(*table.lose(points.numbers, points.lists))

    def _gain(self, table: TimedTable, points: Difference) -> Difference:
        self.journal.note(table, points.numbers)
        return Difference(*table.gain(points.numbers, points.lists))

    # ---- taking away

    def _overdelete(
        self, rules: Sequence[ReadyRule], gone: Sequence[ReadyRule], removed: Mapping[str, Difference]
    ) -> None:
        """Take away all points of the level that had a derivation which lost something."""
        self._is_insertion, self._is_first = False, True
        for name, points in self._gained.items():
            self.store.tables[name].lose(points.numbers, points.lists)  # to MID; it comes back
        for name, points in self._lost.items():
            self.store.tables[name].note(points.numbers, points.lists, is_gain=False)
        self._doubtful = Derived()
        evaluation = self._evaluation()
        derived = Derived()
        for ready in gone:
            for body in ready.bodies:
                self._collect(derived, ready, evaluation.whole(body, part=Part.BEFORE))
        change = {name: removed[name] for name in self._level if name in removed}
        for name in derived.names:
            mine = change.get(name, Difference())
            derived.add(name, mine.numbers, mine.lists)
            change[name] = Difference(*derived.of(name))
        while True:
            self._take_away(change)
            derived = self._driven(rules, LOSING)
            self._pass_on()
            change = {name: Difference(*derived.of(name)) for name in derived.names}
            if not any(self._would_lose(name, points) for name, points in change.items()):
                break
        for name in (*self._lost, *self._level):
            self.store.tables[name].forget_change()
        for name, points in self._gained.items():
            self.store.tables[name].gain(points.numbers, points.lists)

    def _take_away(self, change: Mapping[str, Difference]) -> None:
        for name in self._level:
            table = self.store.tables[name]
            lost = self._lose(table, change[name]) if name in change else Difference()
            table.note(lost.numbers, lost.lists, is_gain=False)
            self._doubtful.add(name, lost.numbers, lost.lists)

    def _would_lose(self, name: str, points: Difference) -> bool:
        table = self.store.tables[name]
        return points.lists.intersected(table.lists, points.lists.numbers, points.numbers).size > 0

    # ---- putting back, and inserting

    def _insert(
        self, rules: Sequence[ReadyRule], new: Sequence[ReadyRule], added: Mapping[str, Difference]
    ) -> None:
        """Put back what is given or still follows, and insert what is new."""
        self._is_insertion, self._is_first = True, True
        evaluation = self._evaluation()
        derived = Derived()
        for name in self._level:
            points = Difference(*self._doubtful.of(name))
            if points:
                self._rederive(derived, name, points, rules, evaluation)
            if name in added:
                derived.add(name, added[name].numbers, added[name].lists)
        for name, points in self._gained.items():
            self.store.tables[name].note(points.numbers, points.lists, is_gain=True)
        for ready in new:
            for body in ready.bodies:
                self._collect(derived, ready, evaluation.whole(body))
        while True:
            is_new = self._put_in(derived)
            if not is_new and not self._is_first:
                break
            derived = self._driven(rules, GAINING)
            self._pass_on()
        for name in (*self._gained, *self._level):
            self.store.tables[name].forget_change()

    def _put_in(self, derived: Derived) -> bool:
        """Add what was derived to the level's tables; whether anything was new."""
        is_new = False
        for name in self._level:
            table = self.store.tables[name]
            numbers, lists = derived.of(name)
            gained = self._gain(table, Difference(numbers, lists))
            table.note(gained.numbers, gained.lists, is_gain=True)
            is_new |= bool(gained)
        return is_new

    def _rederive(
        self,
        derived: Derived,
        name: str,
        points: Difference,
        rules: Sequence[ReadyRule],
        evaluation: Evaluation,
    ) -> None:
        """Find those of the points taken away that are given, or follow in one step from what is left."""
        table = self.store.tables[name]
        given = self.store.given_lists(table, points.numbers)
        every = points.lists.numbers
        derived.add(name, points.numbers, points.lists.intersected(given, every, every))
        for ready in rules:
            if ready.head != name:
                continue
            lists = points.lists
            for by in ready.back:
                lists = lists.moved(by)
            start = _bound(ready, table.facts.columns[:, points.numbers], lists)
            for body in ready.bodies:
                groups = evaluation.whole(body, start) if start is not None else evaluation.whole(body)
                numbers, found = head_facts(ready, groups, self.store)
                places = points.places(numbers)
                derived.add(name, numbers, found.intersected(points.lists, found.numbers, places))

    # ---- rounds

    def _driven(self, rules: Sequence[ReadyRule], states: tuple[Part, Part]) -> Derived:
        """What rules lead to by what just changed."""
        evaluation = self._evaluation()
        derived = Derived()
        for ready in rules:
            for body in ready.bodies:
                for leaf in body.leaves:
                    if len(self.changed(leaf)[0]):
                        groups = evaluation.driven(body, Driver(leaf, *states))
                        self._collect(derived, ready, groups)
            self.check()
        return derived

    def _collect(self, derived: Derived, ready: ReadyRule, groups: Groups) -> None:
        numbers, lists = head_facts(ready, groups, self.store)
        derived.add(ready.head, numbers, lists if self.horizon is None else self.horizon.clip(lists))

    def _pass_on(self) -> None:
        """End the first round: what changed below has been looked at."""
        if self._is_first:
            for name in {*self._lost, *self._gained} - self._level:
                self.store.tables[name].forget_change()
        self._is_first = False

    def _evaluation(self) -> Evaluation:
        return Evaluation(self, Computer(self.store.engine))

    # ---- reading, as rules do

    def table(self, leaf: Leaf) -> TimedTable:
        """The facts of an atom's predicate."""
        return self.store.tables[leaf.predicate]

    def changed(self, leaf: Leaf) -> tuple[Integers, Lists]:
        """The facts that just changed, and by what."""
        if not leaf.is_negated:
            table = self.store.tables[leaf.predicate]
            return table.changed, table.change
        differences = self._lost if self._is_insertion else self._gained
        found = differences.get(leaf.predicate) if self._is_first else None
        return (NONE, nothing()) if found is None else (found.numbers, found.lists)

    def read(self, leaf: Leaf, numbers: Integers, part: Part) -> Lists:
        """When facts hold, in a state."""
        table = self.store.tables[leaf.predicate]
        if not leaf.is_negated or leaf.predicate in self._level:
            return table.read(numbers, part)
        lists = table.lists.taken(numbers)
        is_changing = part is Part.BEFORE and self._is_first
        if self._is_insertion:
            return self._with(lists, numbers, self._lost.get(leaf.predicate) if is_changing else None)
        lists = self._with(lists, numbers, self._lost.get(leaf.predicate))
        return self._with(lists, numbers, None if is_changing else self._gained.get(leaf.predicate))

    def _with(self, lists: Lists, numbers: Integers, points: Difference | None) -> Lists:
        if points is None:
            return lists
        return lists.united(points.lists, lists.numbers, points.places(numbers))


def _holding(numbers: Integers, lists: Lists) -> Difference:
    kept = np.flatnonzero(lists.count > 0)
    return Difference(numbers[kept], lists.taken(kept))


def _bound(ready: ReadyRule, columns: Table, lists: Lists) -> Groups | None:
    """The variables of a head, bound to facts; None if it has a variable twice or a function computes one."""
    names = [term for term in ready.terms if isinstance(term, str)]
    computed = {
        test.variable.name for body in ready.bodies for test in body.tests if isinstance(test, Assignment)
    }
    if len(set(names)) < len(names) or computed & set(names):
        return None
    fitting = np.ones(columns.shape[1], bool)
    for place, term in enumerate(ready.terms):
        if isinstance(term, int):
            fitting &= columns[place] == term
    kept = np.flatnonzero(fitting)
    places = [place for place, term in enumerate(ready.terms) if isinstance(term, str)]
    rows = np.ascontiguousarray(columns[places][:, kept])
    return Groups(tuple(names), rows, lists.taken(kept)).holding()
