"""The examples of the papers, and what the notes say of the algorithms, as far as they can be told apart."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from itertools import permutations

import tidelog as tl
from tests.maintenance.laboratory import Bench, Change, Facts, Laboratory
from tests.maintenance.sets import Row
from tests.maintenance.test_laws import ALGORITHMS, algorithms
from tidelog.data.rows import Rows
from tidelog.engine import protocol
from tidelog.engine.events import ChangePassed, StratumMaintained
from tidelog.logic.conversions import exact, read_exact
from tidelog.logic.program import Program
from tidelog.maintenance.dred import FixpointUpdate, dependents, first_step
from tidelog.maintenance.task import Task, insert

Make = Callable[[Program, Facts], Bench]


def explicit(text: str) -> dict[str, frozenset[Row]]:
    """Facts written one after the other, such as `p1(c) edge(a,b)`."""
    facts: dict[str, frozenset[Row]] = {}
    for fact in text.split():
        name, _, terms = fact.rstrip(")").partition("(")
        row = tuple(read_exact(term) for term in terms.split(",") if term)
        facts[name] = facts.get(name, frozenset()) | {row}
    return facts


def written(facts: Facts) -> set[str]:
    """The facts, each as in `explicit`."""
    return {f"{name}({','.join(map(exact, row))})" for name, rows in facts.items() for row in rows}


class Example:
    """A program and its facts, changed by hand."""

    def __init__(self, bench: Make, rules: str, facts: str) -> None:
        program = tl.parse(rules)
        self.laboratory = Laboratory(bench, program, Change(explicit(facts), program.rules))

    def state(self, facts: str, by: str) -> set[str]:
        """All that follows once these are the explicit facts."""
        laboratory = self.laboratory
        laboratory.events.clear()
        laboratory.apply(ALGORITHMS[by], Change(explicit(facts), laboratory.program.rules))
        return written(laboratory.bench.facts())

    @property
    def maintained(self) -> dict[tuple[str, ...], StratumMaintained]:
        """What was said of each stratum that was touched."""
        events = self.laboratory.events
        return {event.predicates: event for event in events if isinstance(event, StratumMaintained)}


# ---- Kotowski, Bry, Brodt: section 9

# Figure 3 is lost; in this graph U, K, O and what is deleted are as Figure 4 and Table 1 have them.
EDGES = "edge(a,b) edge(a,c) edge(b,e) edge(c,f) edge(d,g) edge(e,d) edge(f,g) edge(f,h)"
REACH = """
    @declare edge(x: any, y: any) .
    reach(?S, ?D) :- edge(?S, ?D) .
    reach(?S, ?D) :- reach(?S, ?I), edge(?I, ?D) .
"""


class Watched(FixpointUpdate):
    """FP-update that writes down its sets."""

    def __init__(self, decode: Callable[[protocol.Facts], set[str]]) -> None:
        self.decode = decode

    def maintain(self, task: Task) -> None:
        """Find U, and go on from K."""
        unsure = dependents(task)
        self.unsure = self.decode(unsure)
        first = first_step(task, unsure)
        self.kept = self.decode(task.engine.changes.every("reach"))
        self.first = self.decode(first)
        insert(task, first)


def reach(pairs: str) -> set[str]:
    return {f"reach({pair[0]},{pair[1]})" for pair in pairs.split()}


def test_the_sets_of_fp_update_are_those_of_table_1(bench: Make) -> None:
    example = Example(bench, REACH, EDGES + " edge(e,f)")
    laboratory = example.laboratory

    def decode(facts: protocol.Facts) -> set[str]:
        ids = laboratory.bench.engine.changes.ids(facts)
        return written(laboratory.bench.decode({name: Rows(*some) for name, some in ids.items()}))

    before = {fact for fact in written(laboratory.bench.facts()) if fact.startswith("reach")}
    algorithm = Watched(decode)
    laboratory.apply(algorithm, Change(explicit(EDGES), laboratory.program.rules))
    after = {fact for fact in written(laboratory.bench.facts()) if fact.startswith("reach")}

    assert algorithm.unsure == reach("ef bf af eg eh bg bh ag ah")
    assert algorithm.kept == before - algorithm.unsure
    assert algorithm.first == reach("af bg eg ag")
    assert after - algorithm.kept == reach("af bg eg ag ah")  # O
    assert before - after == reach("ef eh bf bh")


def test_dependents_come_in_fewer_rounds_than_they_were_derived_in(bench: Make) -> None:
    """Example 1: c depends on a directly, though it was derived in the second round."""
    example = Example(bench, "@declare a() . b() :- a() . c() :- a(), b() . b() :- c() .", "a()")
    assert example.state("", by="fp-update") == set()
    rounds = [event for event in example.laboratory.events if isinstance(event, ChangePassed)]
    assert [(event.step, event.found) for event in rounds][:2] == [("lost", 2), ("dependents", 0)]


# ---- Illich, Glimm: sections 3 and 4, without marks

PAPER_0 = """
    @declare p1(x: any) . @declare p2(x: any) . @declare p3(x: any) . @declare p4(x: any) .
    q(?x) :- p1(?x), p2(?x) .
"""


@algorithms
def test_example_1(bench: Make, name: str) -> None:
    example = Example(bench, PAPER_0, "p1(c)")
    assert example.state("p1(c) p2(c)", by=name) == {"p1(c)", "p2(c)", "q(c)"}
    assert example.state("p2(c)", by=name) == {"p2(c)"}


@algorithms
def test_example_2(bench: Make, name: str) -> None:
    example = Example(bench, PAPER_0 + "q(?x) :- p3(?x) . r(?x) :- q(?x) .", "p1(c) p2(c) p3(c)")
    assert example.state("p2(c) p3(c)", by=name) == {"p2(c)", "p3(c)", "q(c)", "r(c)"}
    if not ALGORITHMS[name].is_compiled:  # the compiled loop is one call, and tells nothing of strata
        assert example.maintained.keys() == {("q",)}, "r(c) is not looked at, since q(c) stays"


def test_example_2_proves_without_deletion(bench: Make) -> None:
    example = Example(bench, PAPER_0 + "q(?x) :- p3(?x) . r(?x) :- q(?x) .", "p1(c) p2(c) p3(c)")
    example.state("p2(c) p3(c)", by="backward-forward")
    assert example.maintained["q",].overdeleted == 0


@algorithms
def test_example_3(bench: Make, name: str) -> None:
    rules = PAPER_0 + "q(?x) :- p3(?x) . r(?x) :- q(?x) . s(?x) :- q(?x), p4(?x) ."
    example = Example(bench, rules, "p1(c) p2(c) p3(c)")
    after = {"p2(c)", "p3(c)", "q(c)", "r(c)"}
    assert example.state("p2(c) p3(c) p4(c)", by=name) == after | {"p4(c)", "s(c)"}
    assert example.state("p2(c) p3(c)", by=name) == after


# ---- what the notes say


@algorithms
def test_facts_that_support_each_other_only_are_deleted(bench: Make, name: str) -> None:
    """Counting alone is wrong: both counts stay at 1."""
    example = Example(
        bench, "@declare e(x: any, y: any) . r(?x, ?y) :- e(?x, ?y) . r(?y, ?x) :- r(?x, ?y) .", "e(a,b)"
    )
    assert example.state("", by=name) == set()


@algorithms
def test_a_fact_that_is_explicit_and_derived_survives_the_loss_of_either(bench: Make, name: str) -> None:
    example = Example(bench, "@declare e(x: any) . p(?x) :- e(?x) .", "e(a) p(a)")
    assert example.state("e(a)", by=name) == {"e(a)", "p(a)"}
    assert example.state("p(a)", by=name) == {"p(a)"}
    assert example.state("", by=name) == set()


def dense(nodes: str) -> Iterable[str]:
    return (f"edge({first},{second})" for first, second in permutations(nodes, 2))


def instances(bench: Make, by: str) -> int:
    """How many instances are looked at to delete an edge of a dense graph."""
    rules = "@declare edge(x: any, y: any) . t(?x, ?y) :- edge(?x, ?y) . t(?x, ?z) :- t(?x, ?y), t(?y, ?z) ."
    edges = set(dense("abcdef"))
    example = Example(bench, rules, " ".join(edges))
    example.state(" ".join(edges - {"edge(a,b)"}), by)
    return example.maintained["t",].instances


def test_in_dense_graphs_searching_and_ranks_look_at_little(bench: Make) -> None:
    names = ("rank-counting as it reads", "backward-forward", "dred")
    ranks, search, everything = (instances(bench, by) for by in names)
    assert max(ranks, search) < everything / 10


# ---- strata that nothing touches


@algorithms
def test_strata_that_nothing_touches_are_not_looked_at(bench: Make, name: str) -> None:
    rules = "".join(
        f"@declare e{n}(x: any) . p{n}(?x) :- e{n}(?x) . q{n}(?x) :- p{n}(?x), ~e{n + 1}(?x) . "
        for n in range(20)
    )
    example = Example(bench, rules + "@declare e20(x: any) .", "e0(a) e5(b)")
    example.state("e0(a) e5(b) e5(c)", by=name)
    if not ALGORITHMS[name].is_compiled:
        assert example.maintained.keys() == {("p5",), ("q5",), ("q4",)}
