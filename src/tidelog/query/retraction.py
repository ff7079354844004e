"""Facts that go, worked into the tables of a component. Mutates the engine.

Gupta, Mumick, Subrahmanian: Maintaining Views Incrementally, SIGMOD 1993, for deletion and rederivation. All
rows of tables that an instance with a fact that went has given are taken away, and those that another
instance gives are put back. What is asked and called stays: to know more answers than needed does no harm.

A subgoal without variables rests once it is true, and may not have looked at all its instances: if its answer
is taken away, it is called anew.

Invariant: once the component is completed again, the answers to all that is asked are there, and no others.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import combinations

import numpy as np

from tidelog.logic.program import Atom, Literal, Negation, Rule
from tidelog.query.driving import Dispatch, Drive, run_once
from tidelog.query.rounds import Component
from tidelog.query.strategy import Answers
from tidelog.query.subgoals import answers_of
from tidelog.query.tabled_engine import TabledEngine

MOST_CHANGED = (
    3  # atoms of a rule from whose relations something goes: of more there are too many combinations
)


class Retraction:
    """What goes from a component's tables because facts went from relations that it reads.

    `gone` names for each of these the relation that holds what went; it is no longer in the relation itself.
    """

    def __init__(self, component: Component, gone: dict[str, str], check: Callable[[], None]) -> None:
        self.component = component
        self.engine: TabledEngine = component.engine
        self.gone = gone
        self.check = check
        self.taken: dict[str, str] = {}  # relations of what was taken away, by those it was taken from

    @property
    def is_feasible(self) -> bool:
        """Whether no rule reads too many relations from which something went."""
        return all(len(self._changed(rule)) <= MOST_CHANGED for rule in self._written())

    def take(self) -> None:
        """Take all rows away that an instance with something that went has given."""
        rules = [self._noting(rule) for rule in self._written()]
        for rule in rules:
            self.engine.define(rule.head.predicate, len(rule.head.terms))
            self.engine.clear(rule.head.predicate)
        for rule in rules:
            for places in _choices(self._changed(rule)):
                run_once(_reading(rule, places, self.gone), self.engine)
                self.check()
        names = {rule.head.predicate for rule in rules}
        driven = (step for rule in rules for step in self._driven(rule) if step.relation in names)
        steps = Dispatch(driven, self.engine)
        group = self.engine.group(names)
        while fresh := self.engine.advance_group(group):
            for step in steps.due(fresh):
                step.run(self.check)
        self.taken = {name.removeprefix(TAKEN): name for name in names if self.engine.size(name)}
        for relation, taken in self.taken.items():
            self.engine.remove(relation, *self.engine.rows(taken))

    def put_back(self) -> None:
        """Put those back that another instance gives."""
        for table in self.component.tables.values():
            for rule in table.steps:
                taken = self.taken.get(rule.head.predicate)
                if taken is not None:
                    run_once(replace(rule, body=(Atom(taken, rule.head.terms), *rule.body)), self.engine)
                    self.check()

    def answers(self) -> Iterator[tuple[str, Answers]]:
        """The answers that went, by relation, once the component is completed."""
        for relation in map(answers_of, self.component.predicates):
            if relation in self.taken:
                columns, count = self.engine.rows(self.taken[relation])
                went = self.engine.standing(relation, columns, count) == 0
                if went.any():
                    yield relation, (tuple(column[went] for column in columns), int(np.count_nonzero(went)))

    # ---- rules

    def _written(self) -> Iterator[Rule]:
        """The rules of the component that fill tables, as they were written."""
        for table in self.component.tables.values():
            for rule in table.variant.steps if table.variant is not None else ():
                if self.component.owns(rule.head.predicate):
                    yield rule

    def _noting(self, rule: Rule) -> Rule:
        """A rule that notes which rows of tables its instances have given, those at rest included."""
        body = (literal for literal in rule.body if not self._lets_rest(literal))
        return Rule(Atom(TAKEN + rule.head.predicate, rule.head.terms), (rule.head, *body))

    def _lets_rest(self, literal: Literal) -> bool:
        return isinstance(literal, Negation) and (
            literal.atom.predicate.startswith("call ") or self.component.owns(literal.atom.predicate)
        )

    def _changed(self, rule: Rule) -> list[int]:
        """The places of the atoms from whose relations something went."""
        return [
            place
            for place, literal in enumerate(rule.body)
            if isinstance(literal, Atom) and literal.predicate in self.gone
        ]

    def _driven(self, rule: Rule) -> Iterator[Drive]:
        """A rule driven by what is taken from the component's own tables, whatever went elsewhere."""
        for place, literal in enumerate(rule.body[1:], 1):
            if isinstance(literal, Atom) and self.component.owns(literal.predicate):
                name = TAKEN + literal.predicate
                driven = _reading(rule, (place,), {literal.predicate: name})
                for places in ((), *_choices(self._changed(rule))):
                    yield Drive(_reading(driven, places, self.gone), place, (name,), self.engine)


TAKEN = "taken "


def _choices(places: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Each choice of at least one place."""
    for count in range(1, len(places) + 1):
        yield from combinations(places, count)


def _reading(rule: Rule, places: Sequence[int], names: Mapping[str, str]) -> Rule:
    """The rule with the atoms at these places read from other relations."""
    body = list(rule.body)
    for place in places:
        atom = body[place]
        assert isinstance(atom, Atom)
        body[place] = Atom(names[atom.predicate], atom.terms)
    return replace(rule, body=tuple(body))
