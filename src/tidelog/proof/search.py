"""The search for proofs of smallest height, backward from the fact that is to be proved. Mutates itself.

Level by level, all instances that derive the facts of a level are found at once, and the facts in their
bodies are the next level. A proof of height h uses facts at most h steps away from the goal: once levels 0 to
d have been searched, every proof of height d + 1 or less lies in what was found, and the lowest of these is
the lowest of all. So the search ends as soon as it sees a proof that is no higher than it has looked.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np

from tidelog.engine.maintaining import Flag
from tidelog.proof.graph import HOLDS, UNKNOWN, Graph, Numbers
from tidelog.proof.groups import groups_of
from tidelog.proof.instances import Found, Instances, Rows

EXPLICIT = int(Flag.EXPLICIT)


class Search:
    """What was found on the way back from one goal."""

    def __init__(self, instances: Instances, relation: str, row: int, check: Callable[[], None]) -> None:
        self.instances = instances
        self.engine: Any = instances.engine
        self.check = check
        self.relation = relation
        self.graph = Graph()
        self.facts: dict[int, tuple[str, int]] = {}  # of each node that is a fact: its relation and row
        self._known: dict[str, dict[int, int]] = {}  # the nodes of facts, by relation and row
        self._waiting: dict[str, list[int]] = {}
        self._levels = 0  # that have been searched
        self.goal = int(self.graph.add_nodes(1, step=1)[0])
        self.is_explicit = bool(self.engine.table(relation).flags[row] & EXPLICIT)
        self.facts[self.goal] = relation, row
        self._known[relation] = {row: self.goal}
        self._waiting = {relation: [row]}

    def run(self, wanted: int) -> list[int]:
        """The instances by which proofs of the goal end, lowest first: as many as are wanted, or all.

        Each is the end of a proof that does not use the goal itself.
        """
        graph = self.graph
        while True:
            waiting, self._waiting = self._waiting, {}
            for relation, rows in waiting.items():
                self._expand(relation, np.array(rows))
                self.check()
            self._levels += 1
            graph.relax(self.goal)
            ending = np.flatnonzero((graph.heads == self.goal) & (graph.worst < UNKNOWN))
            ending = ending[np.argsort(graph.worst[ending], kind="stable")]
            certain = int(np.count_nonzero(graph.worst[ending] < self._levels))
            if certain >= wanted or not self._waiting:
                lowest: list[int] = ending[:wanted].tolist()
                return lowest

    def _expand(self, relation: str, rows: Rows) -> None:
        """Find all instances that derive these facts."""
        for rule, number in self.instances.rules_of(relation):
            found = self.instances.find(rule, number, rows)
            if not found.count:
                continue
            heads = self._heads(relation, self.instances.rows(rule.head, found))
            bodies = self._bodies(found)
            if rule.aggregations:
                self._add_groups(found, heads, bodies)
            else:
                self.graph.add_instances(found, heads, bodies, np.arange(found.count))

    def _bodies(self, found: Found) -> Numbers:
        """The nodes of each instance's facts, one row per instance."""
        columns = [np.full(found.count, HOLDS)]
        for atom in found.rule.positive:
            if self.instances.rules_of(atom.predicate):
                columns.append(self._nodes(atom.predicate, self.instances.rows(atom, found)))
            else:
                columns.append(columns[0])  # all of them are explicit
        return np.column_stack(columns)

    def _add_groups(self, found: Found, heads: Numbers, bodies: Numbers) -> None:
        """Instances of an aggregate rule need all rows of a group, and each row one instance of the body."""
        for group in groups_of(found, heads, self.engine.dictionary):
            rows = self.graph.add_nodes(group.rows, step=0)
            needed = np.concatenate(([HOLDS], rows))[None, :]
            self.graph.add_instances(found, rows[group.row_of], bodies[group.members], group.members)
            self.graph.add_instances(found, group.head, needed, group.members[:1])

    def _heads(self, relation: str, rows: Rows) -> Numbers:
        """The nodes of facts that have waited for this level."""
        known = self._known[relation]
        return np.array([known[row] for row in rows.tolist()])

    def _nodes(self, relation: str, rows: Rows) -> Numbers:
        """The nodes of facts: HOLDS where explicit; others that are new wait for the next level."""
        nodes = np.full(len(rows), HOLDS)
        derived = np.flatnonzero((self.engine.table(relation).flags[rows] & EXPLICIT) == 0)
        if not len(derived):
            return nodes
        unique, inverse = np.unique(rows[derived], return_inverse=True)
        known = self._known.setdefault(relation, {})
        new = [row for row in unique.tolist() if row not in known]
        if new:
            added = self.graph.add_nodes(len(new), step=1)
            known.update(zip(new, added.tolist(), strict=True))
            self.facts.update(zip(added.tolist(), ((relation, row) for row in new), strict=True))
            self._waiting.setdefault(relation, []).extend(new)
        nodes[derived] = np.array([known[row] for row in unique.tolist()])[inverse]
        return nodes
