"""A reasoner that several threads use: every answer is one of a committed state, and nothing is torn."""

from __future__ import annotations

import threading
from collections.abc import Callable
from typing import Any

import pytest

import tidelog as tl
from tidelog.engine.interrupts import made_once
from tidelog.reasoner.delta import Delta, PredicateDelta

PROGRAM = """
    linked(?x, ?y) :- edge(?x, ?y) .
    linked(?x, ?z) :- linked(?x, ?y), edge(?y, ?z) .
    degree(?x, #count(?y)) :- edge(?x, ?y) .
    last(?x) :- node(?x), ~edge(?x, _) .
    node(?x) :- edge(?x, _) . node(?y) :- edge(_, ?y) .
"""
COMMITS = 60
READERS = 3


class Crew:
    """Threads that do something again and again until the main work is done; what they raise is kept."""

    def __init__(self, *work: Callable[[], object]) -> None:
        self.is_over = threading.Event()
        self.faults: list[BaseException] = []
        self.rounds = [0] * len(work)
        self.threads = [
            threading.Thread(target=self._repeat, args=(place, each)) for place, each in enumerate(work)
        ]

    def _repeat(self, place: int, work: Callable[[], object]) -> None:
        try:
            while not self.is_over.is_set() or not self.rounds[place]:
                work()
                self.rounds[place] += 1
        except BaseException as fault:  # noqa: BLE001 - raised in the thread of the test
            self.faults.append(fault)

    def __enter__(self) -> Crew:
        for thread in self.threads:
            thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self.is_over.set()
        for thread in self.threads:
            thread.join()
        if self.faults:
            raise self.faults[0]
        assert all(self.rounds)


def chain(length: int) -> list[tuple[str, str]]:
    return [(f"n{number}", f"n{number + 1}") for number in range(length)]


def check_chain(rows: Any) -> None:
    """The answers for a chain of some length, all of them and no others."""
    found = set(rows)
    length = max((int(y[1:]) for _, y in found), default=0)
    assert found == {(f"n{x}", f"n{y}") for x in range(length) for y in range(x + 1, length + 1)}


READING: dict[str, Callable[[tl.Reasoner], object]] = {
    "relation": lambda reasoner: check_chain(reasoner["linked"]),
    "arrow": lambda reasoner: check_chain(
        zip(*(column.to_pylist() for column in reasoner["linked"].to_arrow().columns), strict=True)
    ),
    "texts": lambda reasoner: check_chain(reasoner["linked"].sorted().to_texts().rows()),
    "query": lambda reasoner: check_chain(reasoner.query("linked(?x, ?y)")),
    "lookup": lambda reasoner: [row in reasoner["edge"] for row in chain(3)],
    "new constants": lambda reasoner: reasoner.query(f'linked(n0, "never seen {id(object())}")'),
    "magic": lambda reasoner: reasoner.query("linked(n0, ?y)", "magic"),
    "tabling": lambda reasoner: list(reasoner.answers("linked(n0, ?y)")),
    "aggregate": lambda reasoner: {count for _, count in reasoner["degree"]} <= {1} or 1 / 0,
    "negation": lambda reasoner: len(reasoner["last"]) == 1 or 1 / 0,
    "explain": lambda reasoner: reasoner.explain("linked(n0, n1)"),
    "what if": lambda reasoner: reasoner.what_if("+ edge(x, y) ."),
    "program": lambda reasoner: (reasoner.program, repr(reasoner), reasoner.strata),
}


@pytest.mark.parametrize("names", [[name] for name in READING] + [["relation", "query", "magic", "arrow"]])
def test_readers_see_committed_states_only(names: list[str]) -> None:
    reasoner = tl.Reasoner(tl.parse(PROGRAM))
    reasoner.insert("edge", chain(5))
    reasoner.materialise()
    work = [READING[name] for name in names] * (READERS if len(names) == 1 else 1)
    with Crew(*((lambda each=each: each(reasoner)) for each in work)):
        for length in range(5, 5 + COMMITS):
            reasoner.insert("edge", [(f"n{length}", f"n{length + 1}")])
            if length % 3 == 0:
                with reasoner.change() as change:
                    change.delete("edge", [(f"n{length}", f"n{length + 1}")])
                with reasoner.change() as change:
                    change.insert("edge", [(f"n{length}", f"n{length + 1}")])
    check_chain(reasoner["linked"])


def test_what_was_handed_out_does_not_change() -> None:
    """Results hold on to what they were made of, however tables and the dictionary grow and shrink."""
    reasoner = tl.Reasoner(tl.parse("p(?x) :- e(?x) ."))
    reasoner.insert("e", [(f"a{number}",) for number in range(100)])
    expected = {(f"a{number}",) for number in range(100)}
    held = reasoner["p"], reasoner.query("p(?x)"), reasoner.watch("p(?x)").answers
    delta = reasoner.what_if(" ".join(f"+ e(w{number}) ." for number in range(50)))
    for start in range(0, 20000, 4000):
        reasoner.insert("e", [(f"b{number}",) for number in range(start, start + 4000)])
    with reasoner.change() as change:
        change.delete("e", [(f"b{number}",) for number in range(20000)])
    reasoner.insert("e", [(f"c{number}",) for number in range(20000)])
    for relation in held:
        assert set(relation) == expected
        assert set(zip(*(c.to_pylist() for c in relation.to_arrow().columns), strict=True)) == expected
    assert {row for _, _, row in delta} == {(f"w{number}",) for number in range(50)}


def test_several_threads_commit_one_after_the_other() -> None:
    reasoner = tl.Reasoner(tl.parse("p(?x) :- e(?x, ?y) . n(#count(?x)) :- p(?x) ."))
    reasoner.materialise()

    def commit(name: str) -> Callable[[], None]:
        def work() -> None:
            for number in range(40):
                reasoner.insert("e", [(f"{name}{number}", number)])
                if number % 4 == 3:
                    reasoner.apply(f"- e({name}{number}, {number}) .")

        return work

    threads = [threading.Thread(target=commit(name)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert len(reasoner["e"]) == len(reasoner["p"]) == 3 * 30
    assert list(reasoner["n"]) == [(90,)]
    assert reasoner.commits == 3 * 50


def test_rules_and_facts_come_from_different_threads() -> None:
    """A transaction that one call makes is never refused because another thread has changed the rules."""
    reasoner = tl.Reasoner(tl.parse("p(?x) :- e(?x) ."))
    reasoner.materialise()
    numbers = iter(range(10**6))

    def add_rule() -> None:
        reasoner.add(f"q{next(numbers) % 5}(?x) :- p(?x) .")

    with Crew(add_rule):
        for number in range(30):
            reasoner.insert("e", [(number,)])
    assert all(len(reasoner[name]) == 30 for name in reasoner)


@pytest.mark.parametrize("equality", ["axiomatise", "rewrite"])
def test_equality_and_time_are_read_while_they_change(equality: str) -> None:
    program = tl.parse("r(?x, ?y) :- s(?x, ?y) . s(a, b) . ?x = ?y :- same(?x, ?y) .")
    equal = tl.Reasoner(program, equality=equality)
    timed = tl.Reasoner(tl.parse("q() :- diamondminus[0, 2] p() . p()@[0, 1] ."))
    equal.materialise()
    timed.materialise()

    def read() -> None:
        names = {name for (name,) in equal.query("r(?x, b)")}
        assert names in ({"a"}, {"a", "c"}, {"a", "c", "d"})
        assert len(list(timed["q"])) >= 1
        assert len(timed.query("q()@1")) == 1

    deltas: list[Delta] = []
    with Crew(read, lambda: [list(delta) for delta in deltas]):
        for number in range(10):
            deltas.append(equal.apply("+ same(a, c) ."))
            deltas.append(equal.apply("+ same(c, d) ."))
            deltas.append(equal.apply("- same(a, c) . - same(c, d) ."))
            timed.apply(f"+ p()@[{10 * number + 10}, {10 * number + 11}] .")


# ---- callbacks


def test_a_callback_may_ask_and_change_in_its_own_thread() -> None:
    reasoner = tl.Reasoner(tl.parse("p(?x) :- e(?x) ."))
    seen: list[int] = []

    def told(delta: PredicateDelta) -> None:
        seen.append(len(reasoner.query("p(?x)")))
        if len(seen) == 1:
            reasoner.insert("e", [("again",)])

    reasoner.subscribe("p", told)
    reasoner.insert("e", [("first",)])
    assert seen == [1, 2]


def test_a_callback_may_wait_for_another_thread_that_asks() -> None:
    """The lock is free while callbacks run: else this would wait for ever."""
    reasoner = tl.Reasoner(tl.parse("p(?x) :- e(?x) ."))
    found: list[int] = []

    def told(delta: PredicateDelta) -> None:
        thread = threading.Thread(target=lambda: found.append(len(reasoner["p"])))
        thread.start()
        thread.join(60)
        assert not thread.is_alive()

    reasoner.subscribe("p", told)
    reasoner.insert("e", [(1,)])
    assert found == [1]


def test_callbacks_see_the_commits_of_all_threads_in_order_and_one_at_a_time() -> None:
    reasoner = tl.Reasoner(tl.parse("total(#count(?x)) :- e(?x, _) ."))
    totals: list[int] = []
    inside = threading.Lock()

    def told(delta: PredicateDelta) -> None:
        assert inside.acquire(blocking=False), "two callbacks at the same time"
        totals.extend(count for (count,) in delta.added)
        inside.release()

    reasoner.subscribe("total", told)

    def commit(name: str) -> None:
        for number in range(40):
            reasoner.insert("e", [(f"{name}{number}", number)])

    threads = [threading.Thread(target=commit, args=(name,)) for name in "abc"]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert totals == list(range(1, 121))


def test_an_error_of_a_reader_leaves_the_lock_free() -> None:
    reasoner = tl.Reasoner(tl.parse("p(?x) :- e(?x) ."))
    for text in ("nonsense(", "missing(?x)"):
        with pytest.raises(tl.TidelogError):
            reasoner.query(text)
    with pytest.raises(tl.TidelogError):
        reasoner["missing"]
    thread = threading.Thread(target=lambda: reasoner.insert("e", [(1,)]))
    thread.start()
    thread.join(60)
    assert not thread.is_alive()


def test_what_is_made_when_it_is_first_used_is_the_same_for_all_threads() -> None:
    class Holder:
        both = threading.Barrier(2)

        @made_once
        def made(self) -> object:
            self.both.wait(10)  # both threads are making it
            return object()

    holder = Holder()
    found: list[object] = []
    threads = [threading.Thread(target=lambda: found.append(holder.made)) for _ in range(2)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert found == [holder.made] * 2
