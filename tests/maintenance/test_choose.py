"""What `auto` chooses, and why."""

from __future__ import annotations

from collections.abc import Iterable

import pytest

import tidelog as tl
from tidelog.engine.events import Event, MaintainerChosen, MarkingDecided
from tidelog.maintenance import registry

PROGRAM = """
    reach(?x, ?y) :- edge(?x, ?y) .
    reach(?x, ?z) :- reach(?x, ?y), edge(?y, ?z) .
"""
NODES = 60


def edges(nodes: int) -> list[tuple[str, str]]:
    """Three edges from each node."""
    return [(f"n{node}", f"n{(node * step + 1) % nodes}") for node in range(nodes) for step in (1, 2, 3)]


EDGES = edges(NODES)


class Watched:
    """A reasoner over a graph, and what its maintainer chose."""

    def __init__(self, modules: bool = False, nodes: int = NODES) -> None:
        self.chosen: list[MaintainerChosen] = []
        self.reasoner = tl.Reasoner(tl.parse(PROGRAM), listeners=[self._note], modules=modules)
        self.reasoner.insert("edge", sorted(set(edges(nodes))))
        self.reasoner.materialise()

    def _note(self, event: Event) -> None:
        if isinstance(event, MaintainerChosen):
            self.chosen.append(event)

    def delete(self, count: int) -> MaintainerChosen:
        """What is chosen to take so many edges away."""
        with self.reasoner.change() as change:
            change.delete("edge", sorted(self.reasoner["edge"])[:count])
        return self.chosen[-1]


def test_a_few_facts_are_counted() -> None:
    assert Watched().delete(3) == MaintainerChosen("rank-counting", "16 facts or fewer change")


def test_most_facts_are_derived_anew_even_before_anything_was_counted() -> None:
    chosen = Watched().delete(100)
    assert chosen.maintainer == "recompute"
    assert chosen.reason.startswith("nothing is counted yet, and ")


def test_what_is_expected_to_touch_much_is_rederived() -> None:
    watched = Watched()
    watched.delete(1)
    chosen = watched.delete(100)
    assert chosen.maintainer == "recompute"
    assert chosen.reason.endswith("of the instances concerned are touched, most of reach")
    assert watched.delete(2).maintainer == "rank-counting"
    left = set(watched.reasoner["edge"])
    again = tl.Reasoner(tl.parse(PROGRAM))
    again.insert("edge", sorted(left))
    assert set(again["reach"]) == set(watched.reasoner["reach"])


def test_what_a_structure_keeps_is_weighed_by_its_pairs() -> None:
    watched = Watched(modules=True, nodes=600)
    watched.delete(1)
    reasoner = watched.reasoner
    assert "reach" in reasoner.engine.closures.closed
    few = watched.delete(100)
    assert few.maintainer == "rank-counting"
    assert few.reason.endswith("most of reach")
    assert not few.reason.startswith("about 0.0%")
    before, edges_before = set(reasoner["reach"]), sorted(reasoner["edge"])
    assert watched.delete(len(edges_before)).maintainer == "recompute"
    assert len(reasoner["reach"]) == 0
    with reasoner.change() as change:
        change.insert("edge", edges_before)
    assert watched.chosen[-1].maintainer == "recompute"  # although there is nothing to weigh
    assert set(reasoner["reach"]) == before


def test_only_what_an_update_may_change_is_weighed() -> None:
    program = """
        reach(?x, ?y) :- edge(?x, ?y) .
        reach(?x, ?z) :- reach(?x, ?y), edge(?y, ?z) .
        named(?x, ?y) :- name(?x, ?y) .
    """
    chosen: list[MaintainerChosen] = []
    reasoner = tl.Reasoner(
        tl.parse(program),
        modules=False,
        listeners=[lambda event: chosen.append(event) if isinstance(event, MaintainerChosen) else None],
    )
    reasoner.insert("edge", sorted(set(EDGES)))
    names = [(f"n{node}", f"name{node}") for node in range(NODES)]
    reasoner.insert("name", names)
    reasoner.materialise()
    with reasoner.change() as change:
        change.delete("name", names[:1])
    with reasoner.change() as change:
        change.delete("name", names[1:])
    assert chosen[-1].maintainer == "recompute"  # all of `named`, though few of all instances
    assert chosen[-1].reason.startswith("about 100.0% of the instances concerned")


def test_auxiliary_relations_that_are_not_there_are_weighed_too() -> None:
    """After a recomputation those of aggregates are made only when a maintainer needs them."""
    rules = "least(#min(?x)) :- edge(?x, ?y), ?x > 1000 . copy(?x, ?y) :- edge(?x, ?y) ."
    reasoner = tl.Reasoner(tl.parse(f"@declare edge(x: any, y: any) . {rules}"))
    edges = [(x, y) for x in range(20) for y in range(5)]
    reasoner.insert("edge", edges)
    reasoner.materialise()
    chosen = []
    for first, last in ((0, 1), (1, 90), (20, 90), (10, 90)):
        with reasoner.change() as change:
            for edge in edges[first:last]:
                (change.delete if edge in reasoner["edge"] else change.insert)("edge", [edge])
        chosen += [choice.maintainer for choice in reasoner.statistics.choices]
    assert chosen[0] == "rank-counting" and "recompute" in chosen[1:3]
    assert set(reasoner["copy"]) == set(reasoner["edge"]) and not reasoner["least"]


def test_what_the_last_update_found_is_not_counted_with_the_next() -> None:
    """Ranks of recursion that a recomputation did not touch are made anew, from its own facts alone."""
    rules = "next(?n) :- next(?m), ?n = ?m + 1, ?n < 9 . reach(?x, ?y) :- edge(?x, ?y) ."
    reasoner = tl.Reasoner(tl.parse(f"{rules} edge(1, 4) . edge(3, 4) . edge(0, 1) . next(7) ."))
    reasoner.apply("- edge(1, 4) .")
    with reasoner.change() as change:
        change.delete("edge", [(3, 4), (0, 1)])
        change.insert("edge", [(x, y) for x in range(5) for y in range(5)])
    assert [choice.maintainer for choice in reasoner.statistics.choices] == ["recompute"]
    reasoner.apply("- edge(2, 1) . - next(7) . + next(5) .")
    assert set(reasoner["reach"]) == set(reasoner["edge"])
    assert sorted(reasoner["next"]) == [(5,), (6,), (7,), (8,)]


# ---- without counters, in streams

JOIN = "two(?x, ?z) :- edge(?x, ?y), edge(?y, ?z) . three(?x, ?z) :- two(?x, ?y), edge(?y, ?z) ."
OPEN = "walk(?x, ?y) :- edge(?x, ?y), open(?x) . walk(?x, ?z) :- edge(?x, ?y), open(?x), walk(?y, ?z) ."
DENSE = [(x, y) for x in range(40) for y in range(40) if (x * y + x) % 3]
Noted = list[MaintainerChosen | MarkingDecided]
Signed = list[tuple[str, str, tuple[int, int]]]


@pytest.fixture
def cheap(monkeypatch: pytest.MonkeyPatch) -> None:
    """Prices at which little is worth weighing."""
    for name in ("WORTH_WEIGHING", "WORTH_RENTING"):
        monkeypatch.setattr(registry, name, 500)
    monkeypatch.setattr(registry, "VISITED", 10)
    monkeypatch.setattr(registry, "MANY", 100)


def streamed(
    rules: str, updates: Iterable[Signed], marking: str = "auto", final: bool = False
) -> tuple[tl.Reasoner, Noted]:
    """The reasoner after a stream, and what was chosen and decided."""
    noted: Noted = []

    def note(event: Event) -> None:
        if isinstance(event, MaintainerChosen | MarkingDecided):
            noted.append(event)

    reasoner = tl.Reasoner(tl.parse(rules), listeners=[note], marking=marking, modules=False)
    reasoner.insert("edge", DENSE)
    if "open" in rules:
        reasoner.insert("open", [(x,) for x in range(40)])
    for _ in reasoner.stream(updates, final=final):
        pass
    anew = tl.Reasoner(tl.parse(rules))
    for name in ("edge", "open") if "open" in rules else ("edge",):
        anew.insert(name, list(reasoner[name]))
    assert all(set(anew[name]) == set(reasoner[name]) for name in anew)
    return reasoner, noted


def removals(count: int) -> list[Signed]:
    return [[("-", "edge", edge)] for edge in DENSE[:count]]


def names(noted: Noted) -> list[str]:
    return [event.maintainer for event in noted if isinstance(event, MaintainerChosen)]


def test_one_update_is_not_worth_counters(cheap: None) -> None:
    _, noted = streamed(JOIN, removals(1))
    assert names(noted) == [registry.RENTED]
    assert isinstance(noted[0], MaintainerChosen)
    assert noted[0].reason == "counting about 40,000 instances would cost more"


def test_many_updates_that_are_known_to_come_are(cheap: None) -> None:
    _, noted = streamed(JOIN, removals(30))
    assert names(noted) == ["rank-counting"] * 30


def test_rent_is_paid_until_counters_would_have_been_bought(cheap: None) -> None:
    _, noted = streamed(JOIN, (each for each in removals(30)))
    chosen = names(noted)
    assert chosen[0] == registry.RENTED
    assert chosen[-1] == "rank-counting"
    assert "rank-counting" not in chosen[: chosen.count(registry.RENTED)], (
        "once counters are there they are used"
    )


def test_recursion_is_counted_at_once_unless_nothing_follows(cheap: None) -> None:
    assert names(streamed(OPEN, removals(1))[1]) == ["rank-counting"]
    assert names(streamed(OPEN, removals(1), final=True)[1]) == [registry.RENTED]


def test_without_counters_recursion_is_linked_where_the_next_update_is_seen(
    cheap: None, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(registry, "SEARCHED", 0.1)
    _, noted = streamed(OPEN, removals(2), final=True)
    assert names(noted) == [registry.RENTED] * 2
    decided = [event for event in noted if isinstance(event, MarkingDecided)]
    assert [event.is_marked for event in decided] == [True, False]
    assert decided[1].reason == "no next update is known that links would help"


def test_what_turns_out_too_dear_is_counted(cheap: None, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(registry, "SEARCHED", 0.0)
    monkeypatch.setattr(registry, "FOUND", 1e9)
    _, noted = streamed(JOIN, removals(2))
    assert names(noted) == [registry.RENTED, "rank-counting", "rank-counting"]
    assert registry.TOO_EXPENSIVE in noted


def test_counters_that_are_there_are_used_and_who_asks_for_marks_is_told(cheap: None) -> None:
    reasoner, noted = streamed(JOIN, removals(30), marking="linked")
    noted.clear()
    list(reasoner.stream([[("+", "edge", DENSE[0])]]))
    reason = "instances are counted, and rank counting needs no marks"
    assert noted == [MarkingDecided(False, reason), registry.FEW]


def test_outside_of_streams_nothing_is_weighed(cheap: None) -> None:
    reasoner, noted = streamed(JOIN, [])
    with reasoner.change() as change:
        change.delete("edge", DENSE[:1])
    assert noted == [registry.FEW]
