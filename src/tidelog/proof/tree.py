"""From what a search has found to proofs: the lowest instance of each fact, from the leaves up."""

from __future__ import annotations

from collections.abc import Callable, Sequence

from tidelog.logic.program import Assignment, Atom, Constant, Fact, Literal, Negation, Rule, Variable
from tidelog.logic.values import Value
from tidelog.plan.compile import collected_variables
from tidelog.proof.graph import HOLDS
from tidelog.proof.instances import Found
from tidelog.proof.node import Binding, Kind, Node, ground_atom, grounded
from tidelog.proof.search import Search

Origin = Callable[
    [Fact], object | None
]  # where an explicit fact comes from, as something that can be written

MOST_ROWS = 20  # of a group that a proof holds


class Trees:
    """Makes nodes of what one search has found."""

    def __init__(self, search: Search, origin: Origin, most_rows: int | None = MOST_ROWS) -> None:
        self._search = search
        self._graph = search.graph
        self._origin = origin
        self._most_rows = most_rows
        self._lowest = search.graph.lowest()
        self._made: dict[int, Node] = {}
        self._stated: dict[Atom, Node] = {}

    def explicit(self) -> Node:
        """The goal as a fact that is stated."""
        return self._explicit(fact_atom(self._fact(self._search.goal)))

    def ending_with(self, instance: int) -> Node:
        """The lowest proof of the goal whose last step is an instance."""
        needed = self._needed(self._kept(self._graph.body(instance)))
        graph = self._graph
        # Rows are as high as the facts in them, so they come after these.
        for node in sorted(needed, key=lambda node: (graph.heights[node], not graph.steps[node])):
            if node not in self._made:
                self._made[node] = self._node(node)
        return self._derived(self._fact(self._search.goal), instance)

    def _needed(self, body: Sequence[int]) -> set[int]:
        """The nodes that a body needs, directly or not."""
        needed: set[int] = set()
        waiting = list(body)
        while waiting:
            node = waiting.pop()
            if node != HOLDS and node not in needed:
                needed.add(node)
                waiting += self._kept(self._graph.body(self._lowest[node]))
        return needed

    def _kept(self, body: Sequence[int]) -> Sequence[int]:
        """The nodes of a body, but for the rows of a group that are too many."""
        rows = [node for node in body if node != HOLDS and node not in self._search.facts]
        return body if not rows else rows[: self._most_rows]

    # ---- nodes

    def _node(self, node: int) -> Node:
        if node not in self._search.facts:
            return self._row(node)
        return self._derived(self._fact(node), self._lowest[node])

    def _explicit(self, atom: Atom) -> Node:
        if atom not in self._stated:
            values = tuple(term.value for term in atom.terms if isinstance(term, Constant))
            origin = self._origin(Fact(atom.predicate, values))
            self._stated[atom] = Node(Kind.EXPLICIT, atom, origin=origin)
        return self._stated[atom]

    def _derived(self, fact: Fact, instance: int) -> Node:
        found, place = self._graph.found_with(instance)
        body = self._graph.body(instance)
        if found.rule.aggregations:
            children: tuple[Node, ...] = (self._aggregate(found, fact, body),)
        else:
            children = self._literals(found, place, body)
        kind = Kind.RULE if found.number >= 0 else Kind.QUERY
        height = 1 + int(self._graph.worst[instance])
        return Node(kind, fact_atom(fact), children, height, found.rule, found.number)

    def _aggregate(self, found: Found, fact: Fact, body: Sequence[int]) -> Node:
        rows = [node for node in body if node != HOLDS]
        shown = tuple(self._made[node] for node in rows[: self._most_rows])
        height = max(int(self._graph.heights[node]) for node in rows)
        return Node(
            Kind.AGGREGATE,
            None,
            shown,
            height,
            found.rule,
            found.number,
            results(found.rule, fact),
            elided=len(rows) - len(shown),
        )

    def _row(self, node: int) -> Node:
        instance = self._lowest[node]
        found, place = self._graph.found_with(instance)
        binding = self._binding(found, place)
        distinct = tuple((variable, binding[variable]) for variable in collected_variables(found.rule))
        children = self._literals(found, place, self._graph.body(instance))
        return Node(
            Kind.ROW, None, children, int(self._graph.heights[node]), found.rule, found.number, distinct
        )

    def _literals(self, found: Found, place: int, body: Sequence[int]) -> tuple[Node, ...]:
        """The literals of an instance's body, in the rule's order."""
        binding = self._binding(found, place)
        facts = iter(body[1:])
        return tuple(
            self._used(next(facts), item, binding) if isinstance(item, Atom) else held(item, binding)
            for item in found.rule.body
        )

    def _used(self, node: int, atom: Atom, binding: Binding) -> Node:
        return self._explicit(ground_atom(atom, binding)) if node == HOLDS else self._made[node]

    # ---- values

    def _binding(self, found: Found, place: int) -> dict[Variable, Value]:
        decode = self._search.engine.dictionary.decode
        return {name: decode(int(column[place])) for name, column in found.columns.items()}

    def _fact(self, node: int) -> Fact:
        relation, row = self._search.facts[node]
        engine = self._search.engine
        table = engine.table(relation)
        values = (engine.dictionary.decode(int(column[row])) for column in table.columns)
        return Fact(relation, tuple(values))


def fact_atom(fact: Fact) -> Atom:
    return Atom(fact.predicate, tuple(map(Constant, fact.values)))


def held(literal: Literal, binding: Binding) -> Node:
    """A literal of a body that is no atom, under the binding that makes it hold."""
    if isinstance(literal, Negation):
        return Node(Kind.NEGATION, grounded(literal, binding))
    if isinstance(literal, Assignment):
        computed = ((literal.variable, binding[literal.variable]),)
        return Node(Kind.COMPUTED, grounded(literal, binding), binding=computed)
    return Node(Kind.TEST, grounded(literal, binding))


def results(rule: Rule, fact: Fact) -> tuple[tuple[Variable, Value], ...]:
    """What the aggregates of a rule are in a fact, where it has them as arguments."""
    computed = {item.variable for item in rule.aggregations} | {item.variable for item in rule.after}
    pairs = zip(rule.head.terms, fact.values, strict=True)
    return tuple((term, value) for term, value in pairs if isinstance(term, Variable) and term in computed)
