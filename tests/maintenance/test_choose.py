"""What `auto` chooses, and why."""

from __future__ import annotations

import pytest

import tidelog as tl
from tidelog.engine.events import Event, MaintainerChosen

PROGRAM = """
    reach(?x, ?y) :- edge(?x, ?y) .
    reach(?x, ?z) :- reach(?x, ?y), edge(?y, ?z) .
"""
NODES = 60


def edges(nodes: int) -> list[tuple[str, str]]:
    """Three edges from each node."""
    return [(f"n{node}", f"n{(node * step + 1) % nodes}") for node in range(nodes) for step in (1, 2, 3)]


EDGES = edges(NODES)

pytestmark = pytest.mark.usefixtures("kernels")


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


def test_what_is_expected_to_touch_much_is_derived_anew() -> None:
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
    assert reasoner._engine.closing is not None and "reach" in reasoner._engine.closing.closed
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
