"""Materialisation over time where the engine keeps the facts: the rounds of `materialise`, over frames.

Invariant: as there, after k rounds what is known is T^k. A frame that a round has made stays as it is, so
that what was known before it is read in the frames of the round before.

What the engine gives must know the algebra of `engine.spark.timed_rules`: nothing here knows Spark.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

from tidelog.engine.events import IntervalsGained, RoundEnded, RuleRan
from tidelog.plan.algebra import Part
from tidelog.temporal.evaluate import needed
from tidelog.temporal.horizon import Horizon
from tidelog.temporal.materialise import Derivation
from tidelog.temporal.nodes import Always, Body, Leaf, Moved, Node, ReadyRule, Since, Within, leaves

Rows = Any  # rows of variables, each with an interval, in the engine's own form
Heads = Any  # facts that rows lead to, the same


class DerivationElsewhere(Derivation):
    """A materialisation of facts that lie in frames."""

    __slots__ = ("frames",)

    def __init__(self, frames: Any, *arguments: Any) -> None:
        super().__init__(*arguments)
        self.frames = frames

    def _settle(self) -> None:
        """What was new in a round is forgotten with its level."""

    def _level(self, number: int, ready: Sequence[ReadyRule]) -> tuple[int, bool]:
        """How many rounds were made, and whether nothing more follows."""
        names = tuple(dict.fromkeys(rule.head for rule in ready))
        self.frames.open(names, {rule.number: rule.rule for rule in ready})
        done, is_complete = self._rounds(number, ready)
        self.frames.close()
        return done, is_complete

    def _rounds(self, number: int, ready: Sequence[ReadyRule]) -> tuple[int, bool]:
        done = 0
        while self.rounds is None or done < self.rounds:
            done += 1
            start = perf_counter()
            heads = [(rule, head) for rule in ready for head in self._heads(rule, done)]
            new = self._take_frames(number, done, heads, start)
            self.check()
            if not new:
                return done - 1, True
        return done, False

    def _heads(self, rule: ReadyRule, done: int) -> Iterator[Heads]:
        """What a rule derives: from all facts in the first round and in each naive one, else what is new."""
        for body in rule.bodies:
            evaluation = FrameEvaluation(self.frames, self.frames.translation(rule.number), body)
            is_whole = done == 1 or self.procedure == "naive"
            for rows in [evaluation.whole()] if is_whole else evaluation.new():
                yield evaluation.translation.head(rows, rule.terms, rule.moves)

    def _take_frames(
        self, number: int, done: int, heads: Sequence[tuple[ReadyRule, Heads]], start: float
    ) -> int:
        """End a round: let what was derived be known; returns how many intervals hold new points."""
        horizon = self.horizon
        bounds = None if horizon is None else (horizon.left, horizon.right)
        taken = self.frames.take(number, [(rule.head, head) for rule, head in heads], bounds)
        _note_cut(horizon, taken.early, taken.late)
        seconds = perf_counter() - start
        for rule, head in heads:
            share = seconds / len(heads)
            matches, missing = self.frames.counted(head)
            self.listen(RuleRan(number, done, rule.number, matches, 0, missing, share))
        self.listen(RoundEnded(number, done, taken.new))
        self.listen(IntervalsGained(taken.grown))
        return int(taken.new)


def _note_cut(horizon: Horizon | None, early: int, late: int) -> None:
    """Let a horizon know that intervals reached beyond its beginning, or its end."""
    if horizon is not None:
        horizon.is_cut |= late > 0 or (early > 0 and not horizon.is_final)


@dataclass(frozen=True, slots=True)
class FrameEvaluation:
    """Evaluates a body over frames; `translation` has the algebra of rows with intervals."""

    frames: Any
    translation: Any
    body: Body

    def whole(self) -> Rows:
        """What follows from all facts."""
        return self._all_of(None, None, None)

    def new(self) -> Iterator[Rows]:
        """What follows from what the last round found, atom by atom."""
        for leaf, home in self.body.homes.items():
            if not leaf.is_negated and self.frames.is_changed(leaf.predicate):
                yield self._all_of(self._gained(home, leaf), leaf, home)

    def _all_of(self, rows: Rows | None, driver: Leaf | None, done: Node | None) -> Rows:
        """The rows for which all literals hold that are not done."""
        algebra, body = self.translation, self.body
        positive = [node for node in body.positive if node is not done]
        negative, tests = list(body.negative), list(body.tests)
        if rows is None:
            rows = self._first(positive, driver)
        while positive or negative or tests:
            bound = {variable.name for variable in rows.variables}
            ready = [test for test in tests if needed(test) <= bound]
            free = next((node for node in negative if body.outer[node] <= bound), None)
            if ready:
                tests = [test for test in tests if test not in ready]
                rows = algebra.tested(rows, ready)
            elif free is not None:
                negative.remove(free)
                rows = algebra.without(rows, self.node(free, None, Part.ALL))
            else:
                rows = algebra.joined(rows, self._next(positive, bound, driver))
        return rows

    def _first(self, positive: list[Node], driver: Leaf | None) -> Rows:
        """The rows of the metric atom to begin with, which is taken out of those that are left."""
        return self._next(positive, set(), driver) if positive else self.translation.always()

    def _next(self, positive: list[Node], bound: set[str], driver: Leaf | None) -> Rows:
        node = min(positive, key=lambda node: self._cost(node, bound))
        positive.remove(node)
        return self.node(node, driver, Part.ALL)

    def _cost(self, node: Node, bound: set[str]) -> tuple[bool, int, int]:
        """What is matched first has variables that are bound, few others, and few facts."""
        names = set(node.names)
        size = sum(self.frames.size(leaf.predicate) for leaf in leaves(node))
        return not (names & bound) and bool(bound), len(names - bound) if bound else 0, size

    # ---- metric atoms

    def _gained(self, home: Node, driver: Leaf) -> Rows:
        """The points that a metric atom has gained by what is new of one of its atoms."""
        if home is driver:
            return self.translation.leaf(self.frames.source(driver.predicate, Part.NEW), driver.terms)
        now = self.node(home, driver, Part.ALL)
        return self.translation.without(now, self.node(home, driver, Part.OLD))

    def node(self, node: Node, driver: Leaf | None, part: Part) -> Rows:
        """The rows of a metric atom; `part` is the state in which the driving atom is read."""
        algebra = self.translation
        match node:
            case Leaf():
                return algebra.leaf(self._source(node, driver, part), node.terms)
            case Always():
                return algebra.always()
            case Moved(by, operand):
                return algebra.moved(self.node(operand, driver, part), by)
            case Within(ends, operand):
                return algebra.throughout(self.node(operand, driver, part), ends)
            case Since():
                return self._since(node, driver, part)

    def _since(self, node: Since, driver: Leaf | None, part: Part) -> Rows:
        algebra, parts = self.translation, node.parts
        left, right = self.node(node.left, driver, part), self.node(node.right, driver, part)
        made = algebra.lasting(left, right, parts.by, parts.is_integer)
        for by in parts.alone:
            made = algebra.united(made, right if by is None else algebra.moved(right, by))
        return made

    def _source(self, leaf: Leaf, driver: Leaf | None, part: Part) -> Any:
        """The facts that an atom reads: before the driving atom those known before, behind it all."""
        if driver is None:
            return self.frames.source(leaf.predicate, Part.ALL)
        if leaf is driver:
            return self.frames.touched(leaf.predicate, part)
        is_early = leaf.number < driver.number
        return self.frames.source(leaf.predicate, Part.OLD if is_early else Part.ALL)
