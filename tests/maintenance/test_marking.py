"""Marking: what is known of the next update changes nothing but the work, and that as the paper says."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Sequence
from random import Random

import pytest
from hypothesis import given, settings

import tidelog as tl
from tests.maintenance.laboratory import Bench, Change, Facts, Laboratory, closing, difference
from tests.maintenance.scripts import (
    SEEDS,
    Script,
    closure_scripts,
    graph_scripts,
    program_scripts,
    tangled_scripts,
)
from tests.maintenance.test_papers import PAPER_0, explicit, written
from tidelog.engine.events import ChangePassed, Event, MarkingDecided, MarksUsed
from tidelog.logic.program import Program
from tidelog.maintenance.driver import Driver
from tidelog.maintenance.maintainer import Update
from tidelog.maintenance.marking import MARKED, MARKINGS, Marking
from tidelog.maintenance.registry import ALGORITHMS, SEARCHING, StratumAdvisor

Make = Callable[[Program, Facts], Bench]
BY_STRATUM = "by stratum"
DRIVERS = (*MARKED, BY_STRATUM)
maintainers = pytest.mark.parametrize("name", MARKED)
drivers = pytest.mark.parametrize("name", DRIVERS)
markings = pytest.mark.parametrize("marking", MARKINGS)
fewer = settings(max_examples=settings().max_examples * 2 // 5)


class Watch:
    """A laboratory in which a maintainer marks."""

    def __init__(
        self, bench: Make, program: Program, start: Change, name: str, marking: str, modules: bool = False
    ) -> None:
        self.laboratory = Laboratory(bench, program, start, modules)
        engine = self.laboratory.bench.engine
        self.algorithm = ALGORITHMS.get(name, SEARCHING)
        advisor = StratumAdvisor(engine) if name == BY_STRATUM else None
        tactics = Marking(self.algorithm, engine, self._listen, advisor)
        self.driver = Driver(self.algorithm, engine, self._listen, lambda: None, modules, tactics)
        self.lookahead = tactics.lookahead
        self.lookahead.marking = marking
        self.lookahead.decides = False
        self.laboratory._drivers[self.algorithm.name, False, modules] = self.driver

    def _listen(self, event: Event) -> None:
        self.laboratory.on_event(event)

    def apply(self, change: Change, following: Change | None = None, stop: int | None = None) -> None:
        """Carry out a transaction while another can be seen, perhaps after it was stopped at some event."""
        laboratory = self.laboratory
        shown = None if following is None else self._shown(change, following)
        self.lookahead.peek = lambda: shown
        if stop is not None and not laboratory.interrupt(self.algorithm, change, stop):
            laboratory.compare()
            return
        laboratory.apply(self.algorithm, change)

    def _shown(self, change: Change, following: Change) -> Update | None:
        """The next transaction as a stream shows it: not, if rules change."""
        if following.rules != change.rules:
            return None
        encode = self.laboratory.bench.encode
        removed, added = difference(change.explicit, following.explicit), following.explicit
        return Update(encode(removed), encode(added))


def run(bench: Make, script: Script, name: str, marking: str, seed: int, modules: bool = False) -> None:
    """Carry out a script; often the next change is seen, at times another one, and some are stopped first."""
    chance = Random(seed)
    watch = Watch(bench, script.program, script.start, name, marking, modules)
    for number, change in enumerate(script.changes):
        later = script.changes[number + 1 :]
        seen = later[0] if later and chance.random() < 0.8 else None
        if later and chance.random() < 0.1:
            seen = chance.choice(later)
        stop = chance.randint(1, 12) if chance.random() < 0.3 else None
        watch.lookahead.decides = chance.random() < 0.2
        watch.apply(change, seen, stop)


@drivers
@markings
@given(script=graph_scripts(), seed=SEEDS)
def test_over_a_graph_all_is_as_from_scratch(
    bench: Make, name: str, marking: str, script: Script, seed: int
) -> None:
    run(bench, script, name, marking, seed)


@drivers
@markings
@fewer
@given(script=program_scripts(), seed=SEEDS)
def test_over_random_programs_all_is_as_from_scratch(
    bench: Make, name: str, marking: str, script: Script, seed: int
) -> None:
    run(bench, script, name, marking, seed)


@drivers
@markings
@fewer
@given(script=tangled_scripts(), seed=SEEDS)
def test_rules_that_are_not_stratified_together_are_exchanged(
    bench: Make, name: str, marking: str, script: Script, seed: int
) -> None:
    run(bench, script, name, marking, seed)


@drivers
@markings
@fewer
@given(script=closure_scripts(), seed=SEEDS)
def test_beside_closures_by_structures_all_is_as_from_scratch(
    name: str, marking: str, script: Script, seed: int
) -> None:
    run(closing, script, name, marking, seed, modules=True)


# ---- recursion over a graph that changes for long: what facts lean on is replaced again and again

PATHS = {
    "linear": "path(?x, ?y) :- edge(?x, ?y) . path(?x, ?z) :- edge(?x, ?y), path(?y, ?z) .",
    "nonlinear": "path(?x, ?y) :- edge(?x, ?y) . path(?x, ?z) :- path(?x, ?y), path(?y, ?z) .",
    "two edges": """
        path(?x, ?z) :- edge(?x, ?y), edge(?y, ?z) . path(?x, ?z) :- path(?x, ?y), edge(?y, ?z) .
        path(?x, ?y) :- edge(?x, ?y), ~far(?x) . path(?y, ?x) :- path(?x, ?y), far(?y) .
    """,
    "mutual": """
        path(?x, ?y) :- edge(?x, ?y) . even(?x, ?z) :- path(?x, ?y), edge(?y, ?z) .
        path(?x, ?z) :- even(?x, ?y), edge(?y, ?z) . last(?x) :- even(?x, ?x), ~edge(?x, ?x) .
    """,
}


@drivers
@markings
@pytest.mark.parametrize("rules", PATHS)
@fewer
@given(seed=SEEDS)
def test_over_long_streams_all_is_as_from_scratch(
    bench: Make, name: str, marking: str, rules: str, seed: int
) -> None:
    chance = Random(seed)
    program = tl.parse(f"@declare edge(x: any, y: any) . @declare far(x: any) . {PATHS[rules]}")
    nodes = chance.randint(3, 6)
    known = frozenset(_some_facts(chance, nodes, chance.randint(0, 12)))
    changes = [Change(explicit(" ".join(known)), program.rules)]
    for _ in range(12):
        known ^= {*_some_facts(chance, nodes, chance.randint(1, 4))}
        changes.append(Change(explicit(" ".join(known)), program.rules))
    watch = Watch(bench, program, changes[0], name, marking)
    for change, following in zip(changes[1:], [*changes[2:], None], strict=True):
        watch.lookahead.decides = chance.random() < 0.2
        watch.apply(change, following)


def _some_facts(chance: Random, nodes: int, count: int) -> Iterable[str]:
    for _ in range(count):
        first, second = chance.randrange(nodes), chance.randrange(nodes)
        kind = chance.random()
        if kind < 0.85:
            yield f"edge({first},{second})"
        else:
            yield f"far({first})" if kind < 0.93 else f"path({first},{second})"


# ---- the paper's examples


def used(watch: Watch, facts: str, following: str | None) -> tuple[int, int, int]:
    """Marks that an update began with, explicit and implicit, and facts that it had to look for."""
    laboratory = watch.laboratory
    laboratory.events.clear()
    rules = laboratory.program.rules
    after = None if following is None else Change(explicit(following), rules)
    watch.apply(Change(explicit(facts), rules), after)
    marks = [event for event in laboratory.events if isinstance(event, MarksUsed)]
    lost = (e.found for e in laboratory.events if isinstance(e, ChangePassed) and e.step == "lost")
    return sum(mark.explicit for mark in marks), sum(mark.implicit for mark in marks), sum(lost)


def example(bench: Make, rules: str, facts: str, name: str, marking: str) -> Watch:
    program = tl.parse(rules)
    return Watch(bench, program, Change(explicit(facts), program.rules), name, marking)


@maintainers
@markings
def test_example_1(bench: Make, name: str, marking: str) -> None:
    watch = example(bench, PAPER_0, "p1(c)", name, marking)
    assert used(watch, "p1(c) p2(c)", following="p2(c)") == (0, 0, 0)
    assert used(watch, "p2(c)", following=None) == (1, 1, 0), (
        "q(c) is known to be affected, no rule is applied"
    )
    assert written(watch.laboratory.bench.facts()) == {"p2(c)"}


@maintainers
@markings
def test_example_2_has_no_next_update(bench: Make, name: str, marking: str) -> None:
    rules = PAPER_0 + "q(?x) :- p3(?x) . r(?x) :- q(?x) ."
    watch = example(bench, rules, "p1(c) p2(c) p3(c)", name, marking)
    assert used(watch, "p2(c) p3(c)", following=None) == (0, 0, 1)
    assert written(watch.laboratory.bench.facts()) == {"p2(c)", "p3(c)", "q(c)", "r(c)"}


@maintainers
@markings
def test_example_3(bench: Make, name: str, marking: str) -> None:
    rules = PAPER_0 + "q(?x) :- p3(?x) . r(?x) :- q(?x) . s(?x) :- q(?x), p4(?x) ."
    watch = example(bench, rules, "p1(c) p2(c) p3(c)", name, marking)
    assert used(watch, "p2(c) p3(c) p4(c)", following="p2(c) p3(c)")[:2] == (0, 0)
    assert used(watch, "p2(c) p3(c)", following=None) == (1, 1, 0), "W = {s(c)}, D = {p4(c)}"
    assert written(watch.laboratory.bench.facts()) == {"p2(c)", "p3(c)", "q(c)", "r(c)"}


@markings
def test_marks_of_an_update_that_does_not_come_are_not_used(bench: Make, marking: str) -> None:
    watch = example(bench, PAPER_0, "p1(c)", "backward-forward", marking)
    used(watch, "p1(c) p2(c)", following="p2(c)")
    assert used(watch, "p1(c)", following=None) == (0, 0, 1)
    assert written(watch.laboratory.bench.facts()) == {"p1(c)"}


# ---- positive marks


def returned(watch: Watch, facts: str, following: str | None) -> tuple[int, int]:
    """How many facts an update knew to come back, and how many its rules had to find."""
    used(watch, facts, following)
    events = watch.laboratory.events
    found = [e.found for e in events if isinstance(e, ChangePassed) and e.step in ("gained", "insert")]
    return sum(e.positive for e in events if isinstance(e, MarksUsed)), sum(found)


CHAIN = "q(?x) :- p1(?x), p2(?x) . r(?x) :- q(?x) . s(?x) :- r(?x), p3(?x) ."


def test_what_goes_and_comes_back_is_known_to_do_so(bench: Make) -> None:
    watch = example(bench, CHAIN, "p1(c) p2(c) p3(c)", "dred", "literal")
    returned(watch, "p2(c) p3(c)", following="p1(c) p2(c) p3(c)")
    assert returned(watch, "p1(c) p2(c) p3(c)", following=None) == (3, 0)


def test_what_does_not_all_come_back_is_not_known_to(bench: Make) -> None:
    watch = example(bench, CHAIN, "p1(c) p2(c) p3(c)", "dred", "literal")
    returned(watch, "p2(c) p3(c)", following="p1(c) p2(c)")
    assert returned(watch, "p1(c) p2(c)", following=None) == (2, 0), "p3(c) goes, so s(c) stays away"


# ---- whether to mark


def test_who_decides_says_why() -> None:
    decided: list[MarkingDecided] = []

    def listen(event: Event) -> None:
        if isinstance(event, MarkingDecided):
            decided.append(event)

    for rules, maintainer in ((P_SEQ, "backward-forward"), (P_TRANS, "dred"), (P_TRANS, "backward-forward")):
        reasoner = tl.Reasoner(tl.parse(rules), maintainer=maintainer, marking="linked", listeners=[listen])
        list(reasoner.stream(random_stream(5, nodes=20, seed=1)[:3]))
    marked, small, longer = decided[:3], decided[3:6], decided[6:]
    assert all(event.is_marked for event in marked)
    assert all(
        not event.is_marked and "no recursive stratum has 1,024 facts" in event.reason for event in small
    )
    assert all(not event.is_marked and "no fewer rounds" in event.reason for event in longer)


def test_large_recursive_strata_are_linked() -> None:
    decided: list[bool] = []

    def listen(event: Event) -> None:
        if isinstance(event, MarkingDecided):
            decided.append(event.is_marked)

    reasoner = tl.Reasoner(tl.parse(P_TRANS), maintainer="dred", marking="linked", listeners=[listen])
    chain = [("+", "edge", (n, n + 1)) for n in range(60)]
    updates: list[list[Row]] = [
        chain,
        [("-", "edge", (59, 60))],
        [("-", "edge", (n, n + 1)) for n in range(40)],
    ]
    list(reasoner.stream(updates[:1]))
    list(reasoner.stream([updates[1], [("+", "edge", (59, 60))], updates[2]]))
    assert decided == [False, True, False, False], "small at first; later too much goes at once"


# ---- the paper's tables

P_SEQ = "@declare edge(x: any, y: any) . edge1(?x, ?y) :- edge(?x, ?y) . " + "".join(
    f"edge{n + 1}(?x, ?y) :- edge{n}(?x, ?y) . " for n in range(1, 4)
)
P_TRANS = f"@declare edge(x: any, y: any) . {PATHS['linear']}"
INSERTIONS = ("gained", "insert")
DELETIONS = ("lost", "overdelete")
Row = tuple[str, str, tuple[int, int]]


def random_stream(size: int, nodes: int, seed: int) -> list[list[Row]]:
    """50 updates: the first adds 100 edges, each later one adds and deletes `size` of them."""
    chance = Random(seed)
    pairs = [(first, second) for first in range(nodes) for second in range(nodes)]
    known = chance.sample(pairs, 100)
    updates: list[list[Row]] = [[("+", "edge", pair) for pair in known]]
    for _ in range(49):
        removed = chance.sample(known, size)
        added = chance.sample(sorted({*pairs} - {*known}), size)
        known = [pair for pair in known if pair not in {*removed}] + added
        signed = (("-", removed), ("+", added))
        updates.append([(sign, "edge", pair) for sign, some in signed for pair in some])
    return updates


def counted(rules: str, updates: Sequence[Sequence[Row]], name: str, marking: str) -> Counter[str]:
    """Rule applications and marks over a stream."""
    counts: Counter[str] = Counter()

    def listen(event: Event) -> None:
        if isinstance(event, MarksUsed):
            counts.update(explicit=event.explicit, implicit=event.implicit)
        elif isinstance(event, ChangePassed):
            counts[event.step] += event.found

    reasoner = tl.Reasoner(tl.parse(rules), maintainer=name, marking=marking, listeners=[listen])
    lookahead = reasoner._applier.maintainer.lookahead
    assert lookahead is not None
    lookahead.decides = False
    for _ in reasoner.stream(updates):
        pass
    counts["insertions"] = sum(counts[step] for step in INSERTIONS)
    counts["deletions"] = sum(counts[step] for step in DELETIONS)
    counts["facts"] = sum(len(reasoner[predicate]) for predicate in reasoner)
    return counts


@maintainers
@pytest.mark.parametrize("size", [10, 20])
def test_table_2(name: str, size: int) -> None:
    """P_seq: 49 updates of 4 rules; the first load and the update after it are not looked ahead at."""
    updates = random_stream(size, nodes=100, seed=size)
    plain, linked = (counted(P_SEQ, updates, name, marking) for marking in ("none", "linked"))
    assert plain["deletions"] == 49 * size * 4
    assert plain["insertions"] == linked["insertions"] == 100 * 4 + 49 * size * 4
    assert linked["explicit"] == linked["implicit"] == 48 * size
    assert linked["deletions"] == 49 * size * 4 - 48 * size
    assert not linked["ground"] + linked["support"] + linked["prove"] + linked["rederive"]
    assert plain["facts"] == linked["facts"]


@pytest.mark.parametrize("size", [10, 20])
def test_table_2_as_the_algorithm_is_printed(size: int) -> None:
    """A fact is marked if it is added while its deletion can be seen: about one in ten, for size 10."""
    updates = random_stream(size, nodes=100, seed=size)
    added = [{pair for sign, _, pair in update if sign == "+"} for update in updates]
    removed = [{pair for sign, _, pair in update if sign == "-"} for update in updates]
    # What the first load adds is not seen to go.
    short_lived = sum(len(came & went) for came, went in zip(added[1:], removed[2:], strict=False))
    literal = counted(P_SEQ, updates, "backward-forward", "literal")
    assert (literal["explicit"], literal["implicit"]) == (48 * size, short_lived)
    assert literal["deletions"] == 49 * size * 4 - short_lived


@maintainers
@pytest.mark.parametrize("size", [10, 80])
def test_table_1(name: str, size: int) -> None:
    """P_trans: results are the same, and marks save applications of rules."""
    updates = random_stream(size, nodes=20, seed=size)
    plain, literal, linked = (counted(P_TRANS, updates, name, m) for m in ("none", "literal", "linked"))
    assert plain["facts"] == literal["facts"] == linked["facts"]
    assert literal["explicit"] == linked["explicit"] == 48 * size
    assert literal["implicit"] and linked["implicit"]
    assert literal["deletions"] < plain["deletions"]
    assert linked["lost"] < literal["lost"] < plain["lost"]
