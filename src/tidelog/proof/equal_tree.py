"""From what a search over members has found to proofs: the lowest step to each fact, from the leaves up."""

from __future__ import annotations

from collections.abc import Sequence

from tidelog.logic.program import EQUAL, Atom, Constant
from tidelog.logic.program import Fact as Statement
from tidelog.logic.values import Value
from tidelog.plan.compile import collected_variables
from tidelog.proof import node as proofs
from tidelog.proof.equal_search import (
    STATED,
    Direct,
    Ending,
    Equal,
    EqualSearch,
    Fact,
    Node,
    Row,
    Step,
    equal,
)
from tidelog.proof.members import Key
from tidelog.proof.node import Binding, Kind
from tidelog.proof.tree import MOST_ROWS, Origin, held, results


class EqualTrees:
    """Makes nodes of what one search over members has found."""

    def __init__(self, search: EqualSearch, origin: Origin, most_rows: int | None = MOST_ROWS) -> None:
        self._search = search
        self._origin = origin
        self._most_rows = most_rows
        self._made: dict[object, proofs.Node] = {}

    def ending_with(self, ending: Ending) -> proofs.Node:
        """The lowest proof of the goal that ends so."""
        self._make([*ending.step.body, *ending.equalities])
        last = self._direct(ending.direct, ending.step)
        goal = self._search.goal
        assert isinstance(goal, Fact | Direct)
        return self._replaced(goal.predicate, goal.key, ending.direct.key, last)

    def equal(self, left: int, right: int) -> proofs.Node:
        """Why two constants are one."""
        self._make(self._search.chain(equal(left, right)))
        return self._equal(left, right)

    # ---- from the leaves up

    def _make(self, nodes: Sequence[Node]) -> None:
        """Make all nodes that these need, each after what it stands on."""
        waiting: list[tuple[Node, bool]] = [(node, False) for node in nodes]
        while waiting:
            node, is_ready = waiting.pop()
            if is_ready:
                self._made[node] = self._node(node)
            elif node not in self._made:
                waiting.append((node, True))
                waiting += [(each, False) for each in self._below(node)]

    def _below(self, node: Node) -> Sequence[Node]:
        """What a node stands on."""
        if isinstance(node, Equal):
            return self._search.chain(node)
        step = self._search.lowest(node)
        return step.body[: self._most_rows] if _is_group(step) else step.body

    def _node(self, node: Node) -> proofs.Node:
        match node:
            case Equal(left, right):
                return self._equal(left, right)
            case Fact(predicate, key):
                direct, *_ = self._search.lowest(node).body
                assert isinstance(direct, Direct)
                return self._replaced(predicate, key, direct.key, self._made[direct])
            case Direct():
                return self._direct(node, self._search.lowest(node))
            case Row():
                return self._row(node)

    # ---- facts

    def _direct(self, node: Direct, step: Step) -> proofs.Node:
        fact = Statement(node.predicate, self._values(node.key))
        if step is STATED:
            return proofs.Node(Kind.EXPLICIT, _atom(fact), origin=self._origin(fact))
        assert step.found is not None
        rule, number = step.found.rule, step.found.number
        children = (self._aggregate(step, fact),) if _is_group(step) else self._literals(step)
        kind = Kind.RULE if number >= 0 else Kind.QUERY
        return proofs.Node(kind, _atom(fact), children, self._search.height(step), rule, number)

    def _literals(self, step: Step) -> tuple[proofs.Node, ...]:
        """The literals of an instance's body, in the rule's order."""
        assert step.found is not None
        binding = self._binding(step)
        facts = iter(step.body)
        return tuple(
            self._made[next(facts)] if isinstance(item, Atom) else held(item, binding)
            for item in step.found.rule.body
        )

    def _binding(self, step: Step) -> Binding:
        assert step.found is not None
        columns = step.found.columns.items()
        return {name: self._search.members.decode(int(ids[step.place])) for name, ids in columns}

    def _aggregate(self, step: Step, fact: Statement) -> proofs.Node:
        assert step.found is not None
        rule, number = step.found.rule, step.found.number
        shown = tuple(self._made[row] for row in step.body[: self._most_rows])
        height = max(self._search.heights[row] for row in step.body)
        more = len(step.body) - len(shown)
        return proofs.Node(
            Kind.AGGREGATE, None, shown, height, rule, number, results(rule, fact), elided=more
        )

    def _row(self, node: Row) -> proofs.Node:
        step = self._search.lowest(node)
        assert step.found is not None
        rule, number = step.found.rule, step.found.number
        binding = self._binding(step)
        distinct = tuple((name, binding[name]) for name in collected_variables(rule))
        height = self._search.heights[node]
        return proofs.Node(Kind.ROW, None, self._literals(step), height, rule, number, distinct)

    # ---- equality

    def _replaced(self, predicate: str, key: Key, source: Key, last: proofs.Node) -> proofs.Node:
        """A fact by one that differs by equal constants; that itself, if it does not differ."""
        if key == source:
            return last
        pairs = dict.fromkeys(pair for pair in zip(source, key, strict=True) if pair[0] != pair[1])
        children = (last, *(self._equal(*pair) for pair in pairs))
        atom = _atom(Statement(predicate, self._values(key)))
        return proofs.Node(Kind.REPLACED, atom, children, max(child.height for child in children))

    def _equal(self, left: int, right: int) -> proofs.Node:
        """Why two constants are one: the equality itself if there is one, else a chain from left to right."""
        if (left, right) not in self._made:
            self._made[left, right] = self._chained(left, right)
        return self._made[left, right]

    def _chained(self, left: int, right: int) -> proofs.Node:
        node = equal(left, right)
        chain = self._search.chain(node)
        steps = tuple(self._made[each] for each in (chain if node.left == left else chain[::-1]))
        if len(chain) == 1 and chain[0].key == (left, right):
            return steps[0]
        atom = _atom(Statement(EQUAL, self._values((left, right))))
        return proofs.Node(Kind.EQUAL, atom, steps, max(step.height for step in steps))

    def _values(self, key: Key) -> tuple[Value, ...]:
        return tuple(map(self._search.members.decode, key))


def _atom(fact: Statement) -> Atom:
    return Atom(fact.predicate, tuple(map(Constant, fact.values)))


def _is_group(step: Step) -> bool:
    return step.found is not None and step.place < 0
