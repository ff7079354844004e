"""Tasks that run a localised program, simulated in one process over Python sets."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import product
from zlib import crc32

from tidelog.engine import reference
from tidelog.logic.program import Program
from tidelog.logic.values import Value, integer
from tidelog.rewrite.localise import EVERYWHERE, NUMBER, Copy, Localised, Place, Route

Row = tuple[Value, ...]
Facts = Mapping[str, Iterable[Row]]


def owner(value: Value, tasks: int) -> int:
    """The task that owns a value: the same in every process."""
    return crc32(repr(value).encode()) % tasks


def places(row: Row, place: Place, tasks: int) -> Iterable[int]:
    """The tasks at which a fact lies."""
    if place is EVERYWHERE:
        return range(tasks)
    return (owner(row[place], tasks),) if isinstance(place, int) else (0,)


@dataclass
class Tasks:
    """Tasks and what each of them holds. Mutable."""

    localised: Localised
    count: int
    max_facts: int | None = None
    stores: list[dict[str, set[Row]]] = field(default_factory=list)
    routed: list[set[tuple[str, Row]]] = field(default_factory=list)  # what each has told already
    delivered: list[int] = field(default_factory=list)  # facts to other tasks, by round

    def load(self, facts: Facts, heavy: Collection[Value] = ()) -> None:
        """Put given facts into all copies; they follow no route."""
        self.stores = [{} for _ in range(self.count)]
        self.routed = [set() for _ in range(self.count)]
        for name, rows in facts.items():
            self._put(self.localised.copies[name], rows)
        if self.localised.is_numbered:
            for task, store in enumerate(self.stores):
                store[NUMBER] = {(integer(task),)}
        for copies in self.localised.heavy.values():
            self._put(copies, {(value,) for value in heavy})

    def _put(self, copies: Iterable[Copy], rows: Iterable[Row]) -> None:
        for copy, row in product(copies, rows):
            for task in places(row, copy.place, self.count):
                self.stores[task].setdefault(copy.relation, set()).add(row)
                self.routed[task].add((copy.relation, row))

    def run(self) -> None:
        """Derive and exchange until nothing is delivered, then open the next gate."""
        gates = iter(self.localised.gates)
        while True:
            for task in range(self.count):
                self.stores[task] = self._derive(task)
            if not self._exchange():
                gate = next(gates, None)
                if gate is None:
                    return
                for store in self.stores:
                    store.setdefault(gate, set()).add(())

    def _derive(self, task: int) -> dict[str, set[Row]]:
        found = reference.evaluate(self.localised.program, self.stores[task], max_facts=self.max_facts)
        return {name: set(rows) for name, rows in found.items()}

    def _exchange(self) -> bool:
        """Deliver what is new, forget the outboxes, and say whether there was something new."""
        waiting = [message for task in range(self.count) for message in self._messages(task)]
        for store in self.stores:
            for outbox in self.localised.outboxes:
                del store[outbox]
        for _, target, relation, row in waiting:
            self.stores[target].setdefault(relation, set()).add(row)
        self.delivered.append(sum(sender != target for sender, target, *_ in waiting))
        return bool(waiting)

    def _messages(self, task: int) -> Iterator[tuple[int, int, str, Row]]:
        for source, routes in self.localised.routes.items():
            for row in self.stores[task].get(source, ()):
                if (source, row) not in self.routed[task]:
                    self.routed[task].add((source, row))
                    for route in routes:
                        for target in self._targets(task, route, row):
                            yield task, target, route.target, row

    def _targets(self, task: int, route: Route, row: Row) -> Iterator[int]:
        for target in places(row, route.place, self.count):
            if target == task or not route.replicated:
                yield target

    def check(self, expected: Facts) -> None:
        """Compare each copy at each task with what it should hold."""
        for name, copies in self.localised.copies.items():
            rows = set(expected[name])
            held = [self.stores[task].get(copies[0].relation, set()) for task in range(self.count)]
            assert set().union(*held) == rows, name
            for copy in copies:
                for task in range(self.count):
                    own = {row for row in rows if task in places(row, copy.place, self.count)}
                    assert self.stores[task].get(copy.relation, set()) == own, (copy.relation, task)


def stated(program: Program) -> dict[str, set[Row]]:
    """The facts that a program states."""
    facts: dict[str, set[Row]] = {}
    for fact in program.facts:
        facts.setdefault(fact.predicate, set()).add(fact.values)
    return facts


def run(
    program: Program,
    localised: Localised,
    tasks: int,
    max_facts: int | None = None,
    heavy: Collection[Value] = (),
) -> Tasks:
    """Run a localised program over the facts that the original one states."""
    simulated = Tasks(localised, tasks, max_facts)
    simulated.load(stated(program), heavy)
    simulated.run()
    return simulated
