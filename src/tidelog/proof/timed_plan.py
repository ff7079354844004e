"""Which stretch of time comes from where: how the points of a fact are proved, each as early as can be.

A stretch of a fact is made of pieces: what is given, then what instances of rules add stage by stage. A piece
of an instance needs its literals at one stretch of time, and operators say at which times their atoms are
needed for that: throughout a window, or somewhere in it.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from tidelog.logic.intervals import Interval
from tidelog.logic.program import TOP, Atom, Literal, Metric, MetricNegation, Negation, Throughout
from tidelog.proof.timed_stages import (
    Binding,
    Ends,
    Instance,
    Stages,
    TimedFact,
    meet,
    minus,
    stretch,
    stretches,
)
from tidelog.temporal.lists import Lists, nothing
from tidelog.temporal.metric import evaluate_metric

LOOKING_BACK = {"boxminus": "diamondplus", "boxplus": "diamondminus"}
DIAMONDS = {"diamondminus": "diamondplus", "diamondplus": "diamondminus"}
OPPOSITE = {**LOOKING_BACK, **DIAMONDS, "since": "diamondplus", "until": "diamondminus"}


@dataclass(frozen=True, slots=True)
class Goal:
    """A fact throughout a stretch of time."""

    fact: TimedFact
    ends: Ends


@dataclass(frozen=True, slots=True, eq=False)
class Needed:
    """A literal at a stretch of time, and what it stands on: goals, and metric atoms below operators."""

    literal: Literal
    ends: Ends | None  # None: it has no time
    below: tuple[Goal | Needed, ...] = ()


@dataclass(frozen=True, slots=True, eq=False)
class Piece:
    """A part of a stretch, given, or by an instance of a rule whose literals are needed at some time."""

    ends: Ends
    instance: Instance | None = None
    needed: tuple[Needed, ...] = ()


class Planner:
    """Finds the pieces of goals in the stages of their facts."""

    def __init__(self, stages: Stages) -> None:
        self._stages = stages
        self._timeline = stages.store.timeline

    def pieces(self, goal: Goal) -> list[Piece]:
        """The pieces of a goal, in the order of time."""
        known = self._stages.known[goal.fact]
        rest = stretch(goal.ends)
        given = meet(known.given, rest)
        found = [Piece(ends) for ends in stretches(given)]
        rest = minus(rest, given)
        for stage in known.stages_of(goal.ends):
            for instance in known.instances if stage else ():
                if rest.size:
                    made, rest = self._pieces_by(instance, stage, rest)
                    found += made
        return sorted(found, key=lambda piece: piece.ends)

    def _pieces_by(self, instance: Instance, stage: int, rest: Lists) -> tuple[list[Piece], Lists]:
        """What an instance proves of what is left, by the facts of the stage before, and what is left."""
        found: list[Piece] = []
        whole = self._stages.known[instance.head].whole
        holding = self._stages.body_times(instance, lambda fact: self._before(fact, stage))
        for body in stretches(meet(holding, _back(instance, rest))):
            times = stretch(body)
            for by in instance.ready.moves:
                times = times.moved(by)
            for ends in stretches(meet(meet(times, rest), whole)):
                (leading,) = stretches(meet(_back(instance, stretch(ends)), stretch(body)))
                needed = self.literals(instance, leading, stage)
                found.append(Piece(ends, instance, needed))
            rest = minus(rest, meet(times, whole))
        return found, rest

    def _before(self, fact: TimedFact, stage: int) -> Lists:
        return self._stages.known[fact].at(stage - 1)

    # ---- literals

    def literals(self, instance: Instance, ends: Ends, stage: int) -> tuple[Needed, ...]:
        """The literals of an instance at a stretch of time, in the order of the rule."""
        body = instance.ready.rule.body
        return tuple(self._literal(literal, instance.binding, ends, stage) for literal in body)

    def _literal(self, literal: Literal, binding: Binding, ends: Ends, stage: int) -> Needed:
        match literal:
            case Atom() | Metric():
                return self._metric(literal, binding, ends, stage)
            case Throughout(atom, interval):
                fact = self._stages.ground(atom, binding)
                assert fact is not None, "answers have values"
                asked = self._timeline.ends(interval)
                return Needed(atom, asked, (Goal(fact, asked),))
            case Negation() | MetricNegation():
                return Needed(literal, ends)
        return Needed(literal, None)

    def _metric(self, metric: Atom | Metric, binding: Binding, ends: Ends, stage: int) -> Needed:
        """A metric atom at a stretch of time, with what it stands on by the facts of the stage before."""
        if isinstance(metric, Atom):
            fact = None if metric.predicate == TOP else self._stages.ground(metric, binding)
            return Needed(metric, ends, () if fact is None else (Goal(fact, ends),))
        if metric.operator in LOOKING_BACK:
            (operand,) = metric.operands
            window = self._moved(OPPOSITE[metric.operator], metric.interval, stretch(ends))
            below = (self._metric(operand, binding, each, stage) for each in stretches(window))
            return Needed(metric, ends, tuple(below))
        return Needed(metric, ends, tuple(self._witnesses(metric, binding, ends, stage)))

    def _moved(self, operator: str, interval: Interval, lists: Lists) -> Lists:
        return lists.moved(self._timeline.operator(operator, interval))

    def _times(self, operand: Atom | Metric, binding: Binding, stage: int) -> Lists:
        return self._stages.metric_times(operand, binding, lambda fact: self._before(fact, stage))

    def _witnesses(self, metric: Metric, binding: Binding, ends: Ends, stage: int) -> Iterator[Needed]:
        """Where the last operand holds, and the first till then, for an atom to hold throughout a stretch."""
        *first, last = metric.operands
        rest = stretch(ends)
        window = self._moved(OPPOSITE[metric.operator], metric.interval, rest)
        for witness in stretches(meet(self._times(last, binding, stage), window)):
            for lasting in self._lasting(first, binding, stage):
                operands = [*([] if not first else [_set(lasting)]), stretch(witness)]
                made = evaluate_metric(metric.operator, metric.interval, operands, self._timeline)
                gain = meet(made, rest)
                if gain.size:
                    yield self._metric(last, binding, self._narrowed(metric, gain, witness, lasting), stage)
                    between = None if lasting is None else self._between(gain, witness, lasting)
                    if between is not None:
                        yield self._metric(first[0], binding, between, stage)
                    rest = minus(rest, gain)
            if not rest.size:
                return

    def _lasting(self, first: list[Atom | Metric], binding: Binding, stage: int) -> list[Ends | None]:
        """The stretches at which the first operand of `since` holds; None first, for where it need not."""
        if not first:
            return [None]
        return [None, *stretches(self._times(first[0], binding, stage))]

    def _narrowed(self, metric: Metric, gain: Lists, witness: Ends, lasting: Ends | None) -> Ends:
        """The part of a witness that may lead to what is gained."""
        window = meet(self._moved(OPPOSITE[metric.operator], metric.interval, gain), stretch(witness))
        if lasting is not None:
            window = meet(window, stretch(self._closed(lasting)))
        low, high = window.bounds
        return low, high

    def _closed(self, ends: Ends) -> Ends:
        """A stretch with its ends: nothing need hold at a witness itself."""
        left, right = ends
        if self._timeline.is_integer:
            return left - 1, right + 1
        return left - (left & 1), right + (right & 1)

    def _between(self, gain: Lists, witness: Ends, lasting: Ends) -> Ends:
        """The part of the first operand's stretch between a witness and what is gained."""
        low, high = gain.bounds
        (part,) = stretches(meet(stretch((min(low, witness[0]), max(high, witness[1]))), stretch(lasting)))
        return part


def _back(instance: Instance, lists: Lists) -> Lists:
    """The times of the body that lead to times of the head."""
    for by in instance.ready.back:
        lists = lists.moved(by)
    return lists


def _set(ends: Ends | None) -> Lists:
    return nothing(1) if ends is None else stretch(ends)
