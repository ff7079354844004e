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
EDGES = [(f"n{node}", f"n{(node * step + 1) % NODES}") for node in range(NODES) for step in (1, 2, 3)]

pytestmark = pytest.mark.usefixtures("kernels")


class Watched:
    """A reasoner over a graph, and what its maintainer chose."""

    def __init__(self) -> None:
        self.chosen: list[MaintainerChosen] = []
        self.reasoner = tl.Reasoner(tl.parse(PROGRAM), listeners=[self._note], modules=False)
        self.reasoner.insert("edge", sorted(set(EDGES)))
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
    assert chosen.reason.endswith("of all instances are touched")
    assert watched.delete(2).maintainer == "rank-counting"
    edges = set(watched.reasoner["edge"])
    again = tl.Reasoner(tl.parse(PROGRAM))
    again.insert("edge", sorted(edges))
    assert set(again["reach"]) == set(watched.reasoner["reach"])
