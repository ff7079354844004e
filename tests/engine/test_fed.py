"""Tasks that run a localised program on the columnar engine, each fed with what the others send it."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from dataclasses import dataclass, field

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st
from tests.rewrite.tasks import Row, places, stated
from tests.strategies import EVERYTHING, Case, cases

import tidelog as tl
from tidelog.engine import reference
from tidelog.engine.columnar.engine import ColumnarEngine, make
from tidelog.engine.fixpoint import Fed
from tidelog.errors import EvaluationError
from tidelog.logic.program import Program
from tidelog.logic.values import integer
from tidelog.rewrite.localise import NUMBER, Localised, Sizes, localise

MOST = 4000  # facts of a random program


@dataclass
class Task:
    """One task: an engine, its fixpoint, and how much of each relation it has sent. Mutable."""

    localised: Localised
    engine: ColumnarEngine = field(default_factory=lambda: make(1))
    sent: dict[str, int] = field(default_factory=dict)

    def __post_init__(self) -> None:
        for predicate in self.localised.program.predicates.values():
            self.engine.storage.define(predicate.name, predicate.arity)
        read = [name for name in self.localised.program.predicates if name not in self.localised.outboxes]
        self.fed = Fed(self.localised.program.rules, read, self.engine, lambda: None)

    def add(self, relation: str, row: Row) -> None:
        """Add a row that arrives."""
        ids = [self.engine.storage.dictionary.encode(value) for value in row]
        self.engine.storage.add(relation, [np.array([identity], np.int32) for identity in ids], 1)

    def rows(self, relation: str, first: int = 0) -> list[Row]:
        """The rows of a relation, from a number on."""
        columns, count = self.engine.storage.rows(relation)
        if not columns:
            return [()] * (count - first)
        decoded = [self.engine.storage.dictionary.decode_all(column[first:].tolist()) for column in columns]
        return list(zip(*decoded, strict=True))

    def new(self) -> Iterator[tuple[str, Row]]:
        """What was derived in relations that have routes, each row once; outboxes are emptied."""
        for source in self.localised.routes:
            first = self.sent.get(source, 0)
            yield from ((source, row) for row in self.rows(source, first))
            if source in self.localised.outboxes:
                self.engine.storage.clear(source)
            else:
                self.sent[source] = self.engine.storage.size(source)


def run(program: Program, localised: Localised, count: int) -> list[Task]:
    """Derive and exchange until nothing is delivered, then open the next gate."""
    tasks = [Task(localised) for _ in range(count)]
    for name, rows in stated(program).items():
        for copy in localised.copies[name]:
            for row in rows:
                for number in places(row, copy.place, count):
                    tasks[number].add(copy.relation, row)
    for number, task in enumerate(tasks if localised.is_numbered else ()):
        task.add(NUMBER, (integer(number),))
    for task in tasks:
        task.sent = {source: task.engine.storage.size(source) for source in localised.routes}
        task.fed.begin()
    gates = iter(localised.gates)
    while True:
        waiting = [
            (target, route.target, row)
            for number, task in enumerate(tasks)
            for source, row in list(task.new())
            for route in localised.routes[source]
            for target in places(row, route.place, count)
            if target == number or not route.replicated
        ]
        if not waiting:
            gate = next(gates, None)
            if gate is None:
                return tasks
            waiting = [(number, gate, ()) for number in range(count)]
        for target, relation, row in waiting:
            tasks[target].add(relation, row)
        for task in tasks:
            task.fed.close()


def check(program: Program, count: int, sizes: Sizes | None = None) -> None:
    expected = reference.evaluate(program, max_facts=MOST)
    localised = localise(program, sizes or Sizes(), count)
    tasks = run(program, localised, count)
    for name, copies in localised.copies.items():
        for copy in copies:
            for number, task in enumerate(tasks):
                own = {row for row in expected[name] if number in places(row, copy.place, count)}
                assert set(task.rows(copy.relation)) == own, (copy.relation, number)


PROGRAMS = {
    "closure": "path(?x, ?y) :- edge(?x, ?y) . path(?x, ?z) :- path(?x, ?y), path(?y, ?z) .",
    "same generation": "sg(?x, ?y) :- edge(?p, ?x), edge(?p, ?y) . "
    "sg(?x, ?y) :- edge(?p, ?x), sg(?p, ?q), edge(?q, ?y) .",
    "negation and aggregates": """
        node(?x) :- edge(?x, _) . node(?y) :- edge(_, ?y) .
        path(?x, ?y) :- edge(?x, ?y) . path(?x, ?z) :- path(?x, ?y), edge(?y, ?z) .
        unreached(?x, ?y) :- node(?x), node(?y), ~path(?x, ?y) .
        lost(?x, #count(?y)) :- unreached(?x, ?y) .
        total(#sum(?n, ?x)) :- lost(?x, ?n) .
        most(?x) :- lost(?x, ?n), ~more(?n) . more(?n) :- lost(_, ?n), lost(_, ?m), ?n < ?m .
        first(?y, #min(?x), #max(?x), #sum(?x), #count(?x)) :- path(?x, ?y) .
    """,
}


@pytest.mark.parametrize("count", [1, 2, 3])
@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_over_a_graph(name: str, count: int) -> None:
    edges = " ".join(f"edge({number}, {(number * 7 + 3) % 12}) ." for number in range(12))
    program = tl.parse(edges + PROGRAMS[name])
    check(program, count)
    check(program, count, Sizes({"edge": 1_000_000}))


@given(cases(EVERYTHING), st.integers(1, 3), st.sampled_from([1, 100, 1_000_000]))
def test_random_programs_give_the_facts_of_the_reference(case: Case, count: int, rows: int) -> None:
    program = tl.parse(case.text)
    with suppress(EvaluationError):  # too many facts
        check(program, count, Sizes({name: rows for name in case.arities if name[0] == "e"}))
