"""Facts and the instances that derive them, and the smallest heights of proofs among these. Mutates itself.

A node is a derived fact, or a row of a group of an aggregate; one stands for all explicit facts. An instance
has a head, which is a node, and a body of nodes; a node is proved if all of some instance's body is. A fact
is one higher than what it follows from, a row is not: it is no step of its own.

Invariant: after `relax`, `heights` are those of the lowest proofs among the instances that do not use the
goal, UNKNOWN where there are none.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt

from tidelog.proof.instances import Found

Numbers = npt.NDArray[np.int64]

UNKNOWN = 1 << 40  # the height of what has no proof yet
HOLDS = 0  # the node of all explicit facts; it stands in every body, so that none is empty


class Graph:
    """Nodes and instances, numbered as they are added."""

    def __init__(self) -> None:
        self.heights: Numbers = np.zeros(1, np.int64)
        self.steps: Numbers = np.zeros(1, np.int64)  # by how much a node is higher than what it follows from
        self.heads: Numbers = np.zeros(0, np.int64)  # of each instance
        self.worst: Numbers = np.zeros(0, np.int64)  # of each instance: the greatest height in its body
        self.bodies: Numbers = np.zeros(0, np.int64)  # the nodes of all bodies, one after the other
        self.starts: Numbers = np.zeros(0, np.int64)  # where each body begins
        self.places: Numbers = np.zeros(0, np.int64)  # of each instance, among those that were found with it
        self.found: list[Found] = []
        self._ends: list[int] = []  # how many instances there are with each of `found`
        self._steps: list[Numbers] = []  # of nodes that wait to be put together with the others
        self._instances: list[tuple[Numbers, Numbers, Numbers]] = []
        self._counted = 1
        self._instanced = 0

    def add_nodes(self, count: int, step: int) -> Numbers:
        """New nodes, not proved yet, each by so much higher than what it follows from."""
        self._steps.append(np.full(count, step))
        first, self._counted = self._counted, self._counted + count
        return np.arange(first, self._counted)

    def add_instances(self, found: Found, heads: Numbers, bodies: Numbers, places: Numbers) -> None:
        """New instances: their heads, and for each a row of the nodes in its body, HOLDS among them."""
        self.found.append(found)
        self._instances.append((heads, bodies, places))
        self._instanced += len(heads)
        self._ends.append(self._instanced)

    def found_with(self, instance: int) -> tuple[Found, int]:
        """Where an instance was found, and its place there."""
        return self.found[int(np.searchsorted(self._ends, instance, "right"))], int(self.places[instance])

    def body(self, instance: int) -> list[int]:
        """The nodes in the body of an instance."""
        end = self.starts[instance + 1] if instance + 1 < len(self.starts) else len(self.bodies)
        body: list[int] = self.bodies[self.starts[instance] : end].tolist()
        return body

    def relax(self, goal: int) -> None:
        """Let heights be right for all that was added; nothing is proved by way of the goal."""
        self._put_together()
        if not len(self.heads):
            return
        steps = np.where(self.heads == goal, UNKNOWN, self.steps[self.heads])
        while True:
            before = self.heights
            self.worst = np.maximum.reduceat(before[self.bodies], self.starts)
            self.heights = before.copy()
            np.minimum.at(self.heights, self.heads, np.minimum(self.worst + steps, UNKNOWN))
            if np.array_equal(before, self.heights):
                return

    def lowest(self) -> dict[int, int]:
        """For each node that is proved the first instance with the lowest body."""
        order = np.argsort(self.worst, kind="stable")
        nodes, first = np.unique(self.heads[order], return_index=True)
        return dict(zip(nodes.tolist(), order[first].tolist(), strict=True))

    def _put_together(self) -> None:
        """Let the arrays hold all that was added."""
        self.steps = np.concatenate([self.steps, *self._steps])
        unknown = np.full(len(self.steps) - len(self.heights), UNKNOWN)
        self.heights = np.concatenate([self.heights, unknown])
        if self._instances:
            heads, bodies, places = zip(*self._instances, strict=True)
            sizes = np.concatenate([np.full(len(body), body.shape[1]) for body in bodies])
            starts = len(self.bodies) + np.cumsum(sizes) - sizes
            self.heads = np.concatenate([self.heads, *heads])
            self.places = np.concatenate([self.places, *places])
            self.starts = np.concatenate([self.starts, starts])
            self.bodies = np.concatenate([self.bodies, *(body.ravel() for body in bodies)])
        self._steps, self._instances = [], []
