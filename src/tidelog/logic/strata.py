"""Strata: the rules in an order in which whatever is negated or aggregated is complete before it is read.

Tarjan: Depth-First Search and Linear Graph Algorithms, SIAM Journal on Computing 1972, for the components.

Invariant: the predicates of a stratum depend on each other positively only, and on earlier strata.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from itertools import chain

from tidelog.errors import Diagnostic, Label, ProgramError
from tidelog.logic import codes
from tidelog.logic.program import EQUAL, Predicate, Rule

Graph = Mapping[str, Sequence[str]]


@dataclass(frozen=True, slots=True)
class Stratum:
    """Predicates that depend on each other, and all rules that derive them."""

    predicates: tuple[str, ...]
    rules: tuple[Rule, ...]
    recursive: bool


@dataclass(frozen=True, slots=True)
class Dependency:
    """The head of `rule` depends on `predicate`; strictly if that must be complete first."""

    rule: Rule
    predicate: str
    strict: str = ""  # `~` under negation, `#` in a rule that aggregates

    @property
    def head(self) -> str:
        """The predicate that depends."""
        return self.rule.head.predicate


def strata(rules: Sequence[Rule], predicates: Mapping[str, Predicate] | None = None) -> tuple[Stratum, ...]:
    """The strata of the rules, each after those it depends on; a ProgramError if there are none.

    `predicates` serve to write names in messages as the program does.
    """
    faults = cycles(rules, predicates or {})
    if faults:
        raise ProgramError(faults)
    graph = dependency_graph(rules)
    rules_of: dict[str, list[int]] = {}
    for number, rule in enumerate(rules):
        rules_of.setdefault(rule.head.predicate, []).append(number)
    return tuple(
        Stratum(
            predicates=component,
            rules=tuple(rules[number] for number in sorted(chain(*map(rules_of.__getitem__, component)))),
            recursive=len(component) > 1 or component[0] in graph[component[0]],
        )
        for component in components(graph)
    )


def cycles(rules: Sequence[Rule], predicates: Mapping[str, Predicate]) -> tuple[Diagnostic, ...]:
    """A diagnostic for each negation or aggregate that takes part in a cycle."""
    inner = _inner(rules)
    return tuple(_describe(_cycle(item, inner), predicates) for item in _offending(inner))


def entangled(rules: Sequence[Rule]) -> tuple[Dependency, ...]:
    """Each negation or aggregate that takes part in a cycle."""
    return _offending(_inner(rules))


def _inner(rules: Sequence[Rule]) -> list[Dependency]:
    """The dependencies within components."""
    graph = dependency_graph(rules)
    component_of = {name: number for number, names in enumerate(components(graph)) for name in names}
    return [
        dependency
        for dependency in _dependencies(rules)
        if component_of[dependency.head] == component_of.get(dependency.predicate)
    ]


def _offending(inner: Sequence[Dependency]) -> tuple[Dependency, ...]:
    """The strict dependencies, one between any two predicates."""
    offending = {(item.head, item.predicate): item for item in reversed(inner) if item.strict}
    return tuple(reversed(offending.values()))


def dependency_graph(rules: Iterable[Rule]) -> dict[str, tuple[str, ...]]:
    """The derived predicates that each derived predicate depends on, in order of appearance."""
    rules = tuple(rules)
    graph: dict[str, dict[str, None]] = {rule.head.predicate: {} for rule in rules}
    for dependency in _dependencies(rules):
        if dependency.predicate in graph:
            graph[dependency.head][dependency.predicate] = None
    return {head: tuple(body) for head, body in graph.items()}


def components(graph: Graph) -> list[tuple[str, ...]]:
    """The strongly connected components, each after those it has edges to."""
    search = _Search(graph)
    for root in graph:
        search.visit(root)
    return search.found


class _Search:
    """Tarjan's depth-first search, with a path of its own so that long chains need no recursion."""

    def __init__(self, graph: Graph) -> None:
        self.graph = graph
        self.place = {node: number for number, node in enumerate(graph)}
        self.index: dict[str, int] = {}
        self.lowest: dict[str, int] = {}  # of the nodes whose component is still open, in order of entry
        self.found: list[tuple[str, ...]] = []

    def visit(self, root: str) -> None:
        """Find the components that are reached from `root` and were not found before."""
        path = [(root, self.enter(root))] if root not in self.index else []
        while path:
            node, successors = path[-1]
            fresh = next((successor for successor in successors if successor not in self.index), None)
            if fresh is not None:
                path.append((fresh, self.enter(fresh)))
            else:
                path.pop()
                self.leave(node)

    def enter(self, node: str) -> Iterator[str]:
        """Number a node and give its successors."""
        self.index[node] = self.lowest[node] = len(self.index)
        return iter(self.graph[node])

    def leave(self, node: str) -> None:
        """Close the component of `node` if nothing in it reaches further back."""
        reached = [self.lowest[successor] for successor in self.graph[node] if successor in self.lowest]
        self.lowest[node] = min([self.lowest[node], *reached])
        if self.lowest[node] < self.index[node]:
            return
        component = [self.lowest.popitem()[0]]
        while component[-1] != node:
            component.append(self.lowest.popitem()[0])
        self.found.append(tuple(sorted(component, key=self.place.__getitem__)))


def _dependencies(rules: Iterable[Rule]) -> Iterator[Dependency]:
    """Every dependency of every rule, in order of appearance."""
    for rule in rules:
        for atom in rule.positive:
            yield Dependency(rule, atom.predicate, "#" if rule.aggregations else "")
        for atom in rule.negated:
            yield Dependency(rule, atom.predicate, "~")


def _cycle(offending: Dependency, inner: Sequence[Dependency]) -> list[Dependency]:
    """A shortest cycle of dependencies that begins with `offending`."""
    came_from: dict[str, Dependency] = {}
    waiting = deque([offending.predicate])
    while waiting and offending.head not in came_from and offending.head != offending.predicate:
        name = waiting.popleft()
        for dependency in inner:
            if dependency.head == name and dependency.predicate not in came_from:
                came_from[dependency.predicate] = dependency
                waiting.append(dependency.predicate)
    path: list[Dependency] = []
    name = offending.head
    while name != offending.predicate:
        path.append(came_from[name])
        name = came_from[name].head
    return [offending, *reversed(path)]


def _describe(cycle: Sequence[Dependency], predicates: Mapping[str, Predicate]) -> Diagnostic:
    """The diagnostic that shows a cycle, with a label for each of its further rules."""

    def written(name: str) -> str:
        return predicates[name].written if name in predicates else name

    first = cycle[0]
    steps = [written(first.head), *(step.strict + written(step.predicate) for step in cycle)]
    labels = tuple(
        Label(step.rule.span, f"`{written(step.head)}` depends on `{written(step.predicate)}`")
        for step in cycle[1:]
        if step.rule.span is not None
    )
    kind = "negation" if first.strict == "~" else "aggregation"
    return Diagnostic(
        codes.NOT_STRATIFIED,
        f"recursion through {kind}: {' -> '.join(steps)}",
        first.rule.span,
        help=_advice(kind, EQUAL in (step.predicate for step in cycle)),
        labels=labels,
    )


def _advice(kind: str, is_merging: bool) -> str:
    """How to break a cycle."""
    if is_merging:
        return f"merging constants may change every predicate, so equality cannot depend on {kind}"
    return f"a predicate must be complete before {kind} reads it: break the cycle"
