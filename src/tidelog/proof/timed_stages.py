"""When facts over time can first be proved: stage by stage, for the facts that a goal may stand on. Mutates
itself.

Backward from the goal, all instances of rules are found that derive a fact at some time, and the facts in
their bodies are the next level. Forward over what was found, stage k of a fact is the set of points at which
it has a proof of at most k rule instances: stage 0 is what is given.

Invariant: after `levels` levels were searched, stages up to that number are exact for the goal. Negated atoms
are read as they are in the end: they lie below, in the sense of stratification.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from tidelog.logic.program import TOP, Atom, Metric, Program, Term, Variable, literal_atoms
from tidelog.temporal.compute import Computer
from tidelog.temporal.evaluate import Evaluation
from tidelog.temporal.lists import Integers, Lists, always, nothing, single
from tidelog.temporal.metric import evaluate_metric
from tidelog.temporal.nodes import ReadyRule
from tidelog.temporal.rows import Groups
from tidelog.temporal.store import Store

FIRST: Integers = np.zeros(1, np.int64)  # the number of the only list there is
Binding = Mapping[str, int]
Ends = tuple[int, int]


@dataclass(frozen=True, slots=True)
class TimedFact:
    """A fact, whenever it holds."""

    predicate: str
    key: tuple[int, ...]


@dataclass(frozen=True, slots=True, eq=False)
class Instance:
    """A rule without variables, and the times at which all of its body holds in the end."""

    ready: ReadyRule
    binding: Binding
    head: TimedFact
    times: Lists


class Known:
    """What is known of a fact: when it holds, and which points each stage proves first. Mutates itself."""

    def __init__(self, whole: Lists, given: Lists) -> None:
        self.whole = whole
        self.given = given
        self.instances: Sequence[Instance] = ()
        self.now = nothing(1)  # the points proved by the last stage
        self._gained: list[tuple[int, Lists]] = []
        self._parts: tuple[Integers, Integers, Integers] | None = None  # the stage and the ends of each part

    def begin(self) -> None:
        """Let there be stage 0 alone."""
        self.now, self._gained = nothing(1), []
        self.gain(0, meet(self.given, self.whole))

    def gain(self, stage: int, lists: Lists) -> None:
        """Let a stage prove points that none before has proved."""
        self.now = join(self.now, lists)
        self._gained.append((stage, lists))
        self._parts = None

    @property
    def parts(self) -> tuple[Integers, Integers, Integers]:
        """The stage that each part comes with, and the ends of the parts."""
        if self._parts is None:
            rows = [lists.rows() for _, lists in self._gained]
            stages = [np.full(lists.size, stage) for stage, lists in self._gained]
            ends = (np.concatenate([row[place] for row in rows]) for place in (1, 2))
            self._parts = np.concatenate(stages), *ends  # type: ignore[assignment]
        assert self._parts is not None
        return self._parts

    def at(self, stage: int) -> Lists:
        """The points proved by a stage."""
        stages, left, right = self.parts
        kept = stages <= stage
        _, lists = single(left[kept], right[kept]).grouped(np.zeros(np.count_nonzero(kept), np.int64))
        return lists if len(lists) else nothing(1)

    def stages_of(self, ends: Ends) -> list[int]:
        """The stages by which the points of a stretch are first proved, in order."""
        stages, left, right = self.parts
        found: list[int] = np.unique(stages[(left <= ends[1]) & (right >= ends[0])]).tolist()
        return found


class Stages:
    """The facts that goals may stand on, and their stages."""

    def __init__(self, store: Store, program: Program, check: Callable[[], None]) -> None:
        self.store = store
        self.program = program
        self.known: dict[TimedFact, Known] = {}
        self._check = check
        self._evaluation = Evaluation(store, Computer(store.engine))
        self._rules: dict[str, list[ReadyRule]] = {}
        for ready in store.ready(program):
            self._rules.setdefault(ready.head, []).append(ready)
        self._users: dict[TimedFact, list[Instance]] = {}
        self._waiting: list[TimedFact] = []

    # ---- backward

    def prepare(self, goals: Sequence[tuple[TimedFact, Ends]]) -> None:
        """Let the stages be there that show when each goal can first be proved."""
        for fact, _ in goals:
            self._meet(fact)
        levels, deep = 0, 1
        while True:
            while levels < deep and self._waiting:
                self._expand_level()
                levels += 1
            self._run(levels if self._waiting else None)
            if not self._waiting or all(covers(self.known[fact].now, ends) for fact, ends in goals):
                return
            deep = 2 * levels

    def _meet(self, fact: TimedFact) -> None:
        """Let a fact be known; how it is derived is found with the next level."""
        if fact in self.known:
            return
        table = self.store.tables.get(fact.predicate)
        columns = np.array(fact.key, np.int32).reshape(len(fact.key), 1)
        number = np.array([-1]) if table is None else table.facts.find(columns, 1)
        if table is None or number[0] < 0:
            self.known[fact] = Known(nothing(1), nothing(1))
            return
        self.known[fact] = Known(table.lists.taken(number), self.store.given_lists(table, number))
        if fact.predicate in self.program.timed:
            self._waiting.append(fact)

    def _expand_level(self) -> None:
        level, self._waiting = self._waiting, []
        for fact in level:
            self._check()
            found = [
                each for ready in self._rules.get(fact.predicate, ()) for each in self._found(ready, fact)
            ]
            self.known[fact].instances = found
            for instance in found:
                for used in dict.fromkeys(self.facts_of(instance)):
                    self._meet(used)
                    self._users.setdefault(used, []).append(instance)

    def _found(self, ready: ReadyRule, fact: TimedFact) -> list[Instance]:
        """All instances of a rule that derive a fact at some time."""
        start = _started(ready, fact)
        if start is None:
            return []
        times: dict[tuple[tuple[str, int], ...], Lists] = {}
        for body in ready.bodies:
            groups = self._evaluation.whole(body, start)
            for place in range(len(groups)):
                names = zip(groups.names, groups.columns[:, place].tolist(), strict=True)
                key = tuple(sorted(names))
                lists = groups.lists.taken(np.array([place]))
                times[key] = join(times[key], lists) if key in times else lists
        return [Instance(ready, dict(key), fact, lists) for key, lists in times.items()]

    def facts_of(self, instance: Instance) -> list[TimedFact]:
        """The facts in the body of an instance that are not negated."""
        atoms = (
            atom
            for literal in instance.ready.rule.body
            if isinstance(literal, Atom | Metric)
            for atom in literal_atoms(literal)
        )
        facts = (self.ground(atom, instance.binding) for atom in atoms)
        return [fact for fact in facts if fact is not None]

    def ground(self, atom: Atom, binding: Binding) -> TimedFact | None:
        """The fact that an atom is; None if a variable has no value."""
        key = [self._identity(term, binding) for term in atom.terms]
        return None if None in key else TimedFact(atom.predicate, tuple(key))  # type: ignore[arg-type]

    def _identity(self, term: Term, binding: Binding) -> int | None:
        if isinstance(term, Variable):
            return binding.get(term.name)
        return int(self.store.engine.identity(term.value))

    # ---- forward

    def _run(self, stages: int | None) -> None:
        """So many stages, or as many as there are, of all facts that are known."""
        for known in self.known.values():
            known.begin()
        changed: Sequence[TimedFact] = list(self.known)
        stage = 0
        while changed and (stages is None or stage < stages):
            stage += 1
            self._check()
            touched = dict.fromkeys(each for fact in changed for each in self._users.get(fact, ()))
            if stage == 1:  # those without facts in their bodies too
                touched |= dict.fromkeys(each for known in self.known.values() for each in known.instances)
            gained: dict[TimedFact, Lists] = {}
            for instance in touched:
                new = self._gained(instance)
                if new.size:
                    head = instance.head
                    gained[head] = join(gained[head], new) if head in gained else new
            for fact, lists in gained.items():
                self.known[fact].gain(stage, lists)
            changed = list(gained)

    def _gained(self, instance: Instance) -> Lists:
        """The points that an instance proves now, and nothing has proved before."""
        known = self.known[instance.head]
        lists = self.body_times(instance, lambda fact: self.known[fact].now)
        for by in instance.ready.moves:
            lists = lists.moved(by)
        return minus(meet(lists, known.whole), known.now)

    def body_times(self, instance: Instance, read: Callable[[TimedFact], Lists]) -> Lists:
        """The times at which the body of an instance holds, if its facts hold at these."""
        lists = instance.times
        for literal in instance.ready.rule.body:
            if isinstance(literal, Atom | Metric):
                lists = meet(lists, self.metric_times(literal, instance.binding, read))
        return lists

    def metric_times(
        self, metric: Atom | Metric, binding: Binding, read: Callable[[TimedFact], Lists]
    ) -> Lists:
        """The times at which a metric atom holds, if its facts hold at these."""
        if isinstance(metric, Atom):
            if metric.predicate == TOP:
                return always(1)
            fact = self.ground(metric, binding)
            return nothing(1) if fact is None else read(fact)
        operands = [self.metric_times(operand, binding, read) for operand in metric.operands]
        return evaluate_metric(metric.operator, metric.interval, operands, self.store.timeline)


def _started(ready: ReadyRule, fact: TimedFact) -> Groups | None:
    """The variables of a head as a fact has them; None if it does not fit."""
    bound: dict[str, int] = {}
    for term, identity in zip(ready.terms, fact.key, strict=True):
        if (identity != term) if isinstance(term, int) else bound.setdefault(term, identity) != identity:
            return None
    columns: Any = np.array(list(bound.values()), np.int32).reshape(len(bound), 1)
    return Groups(tuple(bound), columns, always(1))


# ---- sets of points, as one list


def stretch(ends: Ends) -> Lists:
    """The points of one stretch."""
    return single(np.array([ends[0]]), np.array([ends[1]]))


def meet(one: Lists, other: Lists) -> Lists:
    """The points of both."""
    return one.intersected(other, FIRST, FIRST)


def join(one: Lists, other: Lists) -> Lists:
    """The points of either."""
    return one.united(other, FIRST, FIRST)


def minus(one: Lists, other: Lists) -> Lists:
    """The points of the first alone."""
    return one.without(other, FIRST, FIRST)


def stretches(lists: Lists) -> list[Ends]:
    """The stretches of a set, in order."""
    _, left, right = lists.rows()
    return list(zip(left.tolist(), right.tolist(), strict=True))


def covers(lists: Lists, ends: Ends) -> bool:
    """Whether a set has all points of a stretch."""
    return not minus(stretch(ends), lists).size
