"""The order in which a transaction is worked in: component by component, bodies driven by their atoms.

A component is a set of predicates that depend on each other. What it loses is put back, as far as it still
follows, before anybody else hears of it; and a change is passed on when what it depends on has gathered, so
that few passes are made.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

from tidelog.logic.strata import Graph, components, dependency_graph
from tidelog.temporal.nodes import Body, Leaf, ReadyRule


@dataclass(frozen=True, slots=True, eq=False)
class Drive:
    """A body that is driven by one of its atoms."""

    ready: ReadyRule
    body: Body
    leaf: Leaf


Drives = Mapping[str, Sequence[Drive]]  # by the predicate of the atom


@dataclass(frozen=True, slots=True, eq=False)
class Component:
    """Predicates that depend on each other, in the order in which changes are passed on, and their rules."""

    heads: tuple[str, ...]
    before: Drives
    after: Drives
    rules: Mapping[str, Sequence[ReadyRule]]  # those afterwards, by head
    gone: Sequence[ReadyRule] = ()
    new: Sequence[ReadyRule] = ()

    @property
    def read(self) -> list[str]:
        """The predicates of other components that rules read."""
        return [name for name in dict.fromkeys((*self.before, *self.after)) if name not in self.heads]


@dataclass(frozen=True, slots=True, eq=False)
class Schedule:
    """The components, each after those that it depends on."""

    before: Sequence[ReadyRule]
    after: Sequence[ReadyRule]
    components: tuple[Component, ...]
    heads: frozenset[str]


def make_schedule(before: Sequence[ReadyRule], after: Sequence[ReadyRule]) -> Schedule:
    """The schedule of a transaction, by the rules before and after it, made ready for the same timeline."""
    old, new = {ready.rule for ready in before}, {ready.rule for ready in after}
    graph = dependency_graph(ready.rule for ready in (*before, *after))
    old_rules, new_rules = _by_head(before), _by_head(after)
    parts = []
    for names in components(graph):
        earlier = [ready for name in names for ready in old_rules.get(name, ())]
        later = [ready for name in names for ready in new_rules.get(name, ())]
        parts.append(
            Component(
                _sources_first(names, graph),
                _drives(earlier),
                _drives(later),
                {name: new_rules.get(name, ()) for name in names},
                [ready for ready in earlier if ready.rule not in new],
                [ready for ready in later if ready.rule not in old],
            )
        )
    return Schedule(before, after, tuple(parts), frozenset(graph))


def _by_head(rules: Iterable[ReadyRule]) -> dict[str, list[ReadyRule]]:
    found: dict[str, list[ReadyRule]] = {}
    for ready in rules:
        found.setdefault(ready.head, []).append(ready)
    return found


def _drives(rules: Iterable[ReadyRule]) -> Drives:
    found: dict[str, list[Drive]] = {}
    for ready in rules:
        for body in ready.bodies:
            for leaf in body.homes:
                found.setdefault(leaf.predicate, []).append(Drive(ready, body, leaf))
    return found


def _sources_first(names: Sequence[str], graph: Graph) -> tuple[str, ...]:
    """The predicates of a component, each after those it depends on, as far as cycles allow."""
    waiting, found = set(names), []
    for root in names:
        path = [(root, iter(graph[root]))] if root in waiting else []
        waiting.discard(root)
        while path:
            name, sources = path[-1]
            source = next((one for one in sources if one in waiting), None)
            if source is None:
                path.pop()
                found.append(name)
            else:
                waiting.discard(source)
                path.append((source, iter(graph[source])))
    return tuple(found)
