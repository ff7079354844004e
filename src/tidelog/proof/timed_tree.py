"""From stretches of time and where they come from to proofs, from the earliest stage up."""

from __future__ import annotations

from collections.abc import Callable, Iterator

from tidelog.logic.intervals import Interval
from tidelog.logic.program import Atom, Constant, Literal, Metric, MetricNegation, Negation, Variable
from tidelog.logic.program import TimedFact as Statement
from tidelog.proof.node import Binding, Kind, Node, ground_atom
from tidelog.proof.timed_plan import Goal, Needed, Piece, Planner
from tidelog.proof.timed_stages import Ends, Instance, Stages, TimedFact
from tidelog.proof.tree import MOST_ROWS, Origin, held

Without = Callable[[TimedFact], Node]  # the proof of a fact that holds always


class TimedTrees:
    """Makes nodes of goals whose stages are known."""

    def __init__(
        self, stages: Stages, origin: Origin, without: Without, most: int | None = MOST_ROWS
    ) -> None:
        self._stages = stages
        self._planner = Planner(stages)
        self._origin = origin
        self._without = without
        self._most = most
        self._plans: dict[Goal, tuple[list[Piece], int]] = {}  # with how many pieces are left out
        self._made: dict[Goal, Node] = {}

    def proof(self, goal: Goal) -> Node:
        """The proof of a fact throughout a stretch."""
        self._make([goal])
        return self._made[goal]

    # ---- from the earliest stage up

    def _make(self, goals: list[Goal]) -> None:
        waiting = list(goals)
        found: list[Goal] = []
        while waiting:
            goal = waiting.pop()
            if goal not in self._plans:
                pieces = self._planner.pieces(goal) if self._is_timed(goal) else []
                kept = pieces[: self._most]
                self._plans[goal] = kept, len(pieces) - len(kept)
                found.append(goal)
                waiting += [each for piece in kept for needed in piece.needed for each in _goals(needed)]
        for goal in sorted(found, key=lambda goal: self._stages.known[goal.fact].stages_of(goal.ends)[-1]):
            self._made[goal] = self._node(goal)

    def _is_timed(self, goal: Goal) -> bool:
        return goal.fact.predicate in self._stages.program.timed

    def _node(self, goal: Goal) -> Node:
        """A fact throughout a stretch: its one piece, or all of them below it."""
        if not self._is_timed(goal):
            return self._without(goal.fact)
        pieces, elided = self._plans[goal]
        nodes = tuple(self._piece(goal.fact, piece) for piece in pieces)
        if len(nodes) == 1 and not elided:
            return nodes[0]
        time, height = self._interval(goal.ends), max(node.height for node in nodes)
        return Node(Kind.STRETCHES, self._atom(goal.fact), nodes, height, time=time, elided=elided)

    def _piece(self, fact: TimedFact, piece: Piece) -> Node:
        atom, time, instance = self._atom(fact), self._interval(piece.ends), piece.instance
        if instance is None:
            values = tuple(term.value for term in atom.terms if isinstance(term, Constant))
            stated = Statement(fact.predicate, values, interval=time)
            return Node(Kind.EXPLICIT, atom, origin=self._origin(stated), time=time)
        children = tuple(self._needed(each, instance) for each in piece.needed)
        height = 1 + max((child.height for child in children), default=0)
        return Node(Kind.RULE, atom, children, height, instance.ready.rule, instance.ready.number, time=time)

    # ---- literals

    def _needed(self, needed: Needed, instance: Instance) -> Node:
        """A literal of an instance, with what it stands on."""
        binding = self._binding(instance)
        literal = needed.literal
        if needed.ends is None:
            return held(literal, binding)
        time = self._interval(needed.ends)
        if isinstance(literal, Negation | MetricNegation):
            return Node(Kind.NEGATION, grounded_metric(literal, binding), time=time)
        goals = [each for each in needed.below if isinstance(each, Goal)]
        if isinstance(literal, Atom) and goals:
            return self._made[goals[0]]
        children = tuple(self._needed(each, instance) for each in needed.below if isinstance(each, Needed))
        height = max((child.height for child in children), default=0)
        return Node(Kind.METRIC, grounded_metric(literal, binding), children, height, time=time)

    def _binding(self, instance: Instance) -> Binding:
        decode = self._stages.store.engine.dictionary.decode
        return {Variable(name): decode(identity) for name, identity in instance.binding.items()}

    def _atom(self, fact: TimedFact) -> Atom:
        decode = self._stages.store.engine.dictionary.decode
        return Atom(fact.predicate, tuple(Constant(decode(identity)) for identity in fact.key))

    def _interval(self, ends: Ends) -> Interval:
        return self._stages.store.timeline.decode(*ends)


def _goals(needed: Needed) -> Iterator[Goal]:
    """The facts that a literal stands on, and when they are needed."""
    for each in needed.below:
        if isinstance(each, Goal):
            yield each
        else:
            yield from _goals(each)


def grounded_metric(literal: Literal, binding: Binding) -> Literal:
    """A literal with operators of time, with bound variables replaced by their values."""
    match literal:
        case Atom():
            return ground_atom(literal, binding)
        case Negation(atom):
            return Negation(ground_atom(atom, binding))
        case Metric(operator, interval, operands):
            made = tuple(grounded_metric(each, binding) for each in operands)
            return Metric(operator, interval, made)  # type: ignore[arg-type]
        case MetricNegation(metric):
            made_metric = grounded_metric(metric, binding)
            assert isinstance(made_metric, Metric)
            return MetricNegation(made_metric)
    raise TypeError(literal)
