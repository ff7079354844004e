"""Equality among tasks that derive together: equalities are derived first, and sent to all tasks. Mutable.

Motik, Nenov, Piro, Horrocks: Handling owl:sameAs via Rewriting, AAAI 2015, for rules over representatives;
here facts are partitioned among tasks, and each task has all classes.

The rules that equality depends on are run first. The pairs that they make equal are sent to all tasks, each
of which merges the same classes, writes its given facts over their representatives, and derives again, up to
the fixpoint. The other rules are then run over representatives, like any program, to which the relation of
representatives is given.

Invariant: all tasks have the same classes. A class is represented by the member with the smallest hash, which
each task computes by itself.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import replace
from time import monotonic
from typing import Any

import numpy as np

from tidelog.data.columns import Batch
from tidelog.data.dictionary import Dictionary
from tidelog.data.relation import Relation, column_names
from tidelog.data.rows import Ids, Rows
from tidelog.engine.events import MissingValues
from tidelog.engine.exchange import ExchangeTask, Mesh
from tidelog.equality import conflicts, rewriting
from tidelog.equality.classes import Classes, components, neighbours
from tidelog.equality.listing import EXPAND
from tidelog.equality.rewriting import Rewriting
from tidelog.equality.treatment import EffectiveProgramCache
from tidelog.errors import Diagnostic
from tidelog.logic.equality_axioms import has_equality
from tidelog.logic.program import BOTTOM, DIFFERENT, EQUAL, Program, Rule, Variable
from tidelog.logic.values import order_key
from tidelog.plan.inconsistency import Conflict, describe_conflict_among_tasks
from tidelog.rewrite.localise import FIRST, Localised
from tidelog.rewrite.representatives import (
    ALIAS,
    bearing_on_equality,
    copies,
    groups_of,
    over_representatives,
    stored,
)

Part = tuple[Sequence[Ids], int]  # columns and rows
Pairs = tuple[Ids, Ids]


class EqualityTask:
    """A task of a mesh whose program has equality, used like `ExchangeTask`.

    `shown` is whether facts name every member of a class, or the smallest one.
    """

    def __init__(
        self,
        program: Program,
        mesh: Mesh,
        *,
        owners: int | None = None,
        timeout: float | None = None,
        max_facts: int | None = None,
        dictionary: Dictionary | None = None,
        unique_names: bool = False,
        shown: str = EXPAND,
        **settings: Any,
    ) -> None:
        self.program = program
        self.classes = Classes()  # over the ids of the given facts
        self.rounds = 0  # in which classes were merged
        self._mesh = mesh
        self._ends = None if timeout is None else monotonic() + timeout
        self._settings = {**settings, "owners": owners, "max_facts": max_facts, "dictionary": dictionary}
        self._unique_names = unique_names
        self._shown = shown
        self._loading = ExchangeTask(program, mesh, timeout=timeout, **self._settings)
        self._meanings = EffectiveProgramCache()
        self._shared: Classes | None = None  # the classes over the ids of what is derived

    def load(self, predicate: str, batches: Iterable[Batch]) -> None:
        """Take batches of given facts, any part of them."""
        self._loading.load(predicate, batches)

    def add(self, predicate: str, columns: Sequence[Ids], rows: int) -> None:
        """Take given facts as ids of the dictionary."""
        self._loading.add(predicate, columns, rows)

    # ---- a run

    def run(self) -> None:
        """Derive all facts from those given to all tasks."""
        self._reader, self._given = self._loading.take_given()
        self._meanings.attach(self._reader.storage.dictionary)
        self._values = self._loading.values_of(self._reader.storage.dictionary)
        is_found = False
        while not is_found:
            effective = self._effective()
            bearing = tuple(bearing_on_equality(effective.rules))
            is_all = len(bearing) == len(effective.rules)
            task = self._derived(effective if is_all else _reduced(effective, bearing))
            is_merged = self._merge(task, effective)
            is_found = not is_merged or _are_flat(bearing, effective)
            if is_merged or not is_all:
                del task  # before the next one holds facts
        self._task = task if not is_merged and is_all else self._derived(self._effective())

    def _effective(self) -> Program:
        """Return the program over representatives, without the rules that store given facts."""
        constants = self._meanings.constants(self.program, self.classes)
        complete = over_representatives(replace(self.program, facts=()), constants)
        source = [each for each in complete.predicates.values() if each.name in self.program.predicates]
        storing = {
            rule
            for predicate in (*source, complete.predicates[EQUAL])
            for rule in copies(predicate.name, predicate.arity)
        }
        rules = tuple(rule for rule in complete.rules if rule not in storing)
        kept = {stored(each.name) for each in source} | {stored(EQUAL), ALIAS, BOTTOM} | _mentioned(rules)
        predicates = {name: predicate for name, predicate in complete.predicates.items() if name in kept}
        return replace(complete, rules=rules, predicates=predicates)

    def _derived(self, effective: Program) -> ExchangeTask:
        """Return a task that has run a program over representatives."""
        seconds_left = None if self._ends is None else max(self._ends - monotonic(), 0.001)
        reader = None if self._settings["dictionary"] is not None else self._reader
        task = ExchangeTask(effective, self._mesh, timeout=seconds_left, reader=reader, **self._settings)
        for name, parts in self._given.items():
            if stored(name) in effective.predicates:
                for columns, rows in parts:
                    task.add(stored(name), [self.classes.representatives(column) for column in columns], rows)
        if self._mesh.number == 0 and self.classes:
            members = self.classes.aliased
            task.add(ALIAS, (members, self.classes.of[members]), len(members))
        task.run()
        return task

    # ---- classes

    def _merge(self, task: ExchangeTask, effective: Program) -> bool:
        """Merge on all tasks the pairs that any of them has derived; return whether there were any."""
        derived = [task.columns(stored(EQUAL))]
        for is_keyed in (True, False):
            names = [
                name for name in groups_of(effective) if (effective.predicates[name].arity > 1) is is_keyed
            ]
            if names:
                parts = task.shuffle([task.columns(name) for name in names], 0 if is_keyed else FIRST)
                derived += [_neighbouring(part) for part in parts if part]
        pairs = [(left[left != right], right[left != right]) for (left, right), _ in derived]
        left, right = (np.concatenate(column) for column in zip(*pairs, strict=True))
        received = task.broadcast(((left, right), len(left)), self._values)
        if not received:
            return False
        self._values.know()
        members = self.classes.aliased
        all_pairs = [(members, self.classes.of[members]), *((left, right) for (left, right), _ in received)]
        self.classes = self._classes_of([np.concatenate(column) for column in zip(*all_pairs, strict=True)])
        self.rounds += 1
        return True

    def _classes_of(self, pairs: Sequence[Ids]) -> Classes:
        """Return the classes of equal pairs, represented by the members with the smallest hashes."""
        nodes, positions = np.unique(np.concatenate(pairs), return_inverse=True)
        labels = components(len(nodes), positions[: len(pairs[0])], positions[len(pairs[0]) :])
        order = np.lexsort((self._values.hashes[nodes], labels))
        among, first = np.unique(labels[order], return_index=True)
        representatives = np.zeros(len(nodes), np.int32)
        representatives[among] = nodes[order][first]
        classes = Classes()
        classes.assign(nodes.astype(np.int32), representatives[labels])
        return classes

    # ---- results

    @property
    def plan(self) -> Localised:
        """How the program over representatives is divided."""
        return self._task.plan

    def columns(self, predicate: str) -> tuple[tuple[Ids, ...], int]:
        """Return this task's part of a predicate's facts as ids, and how many they are."""
        columns, count = self._task.columns(stored(predicate))
        if not count or not columns:
            return columns, count
        classes, rows = self._known_classes(), Rows(tuple(columns), count)
        if self._shown == EXPAND:
            rows = classes.expand(rows)
        else:
            decode = self._task.dictionary.decode
            smallest = [
                classes.smallest(column, lambda identity: order_key(decode(identity))) for column in columns
            ]
            rows = Rows(tuple(smallest), count)
        return tuple(rows.columns), rows.count

    def _known_classes(self) -> Classes:
        """Return the classes over the ids of what is derived here."""
        if self._shared is None:
            self._shared = self.classes
            if self._task.dictionary is not self._reader.storage.dictionary:
                self._shared = Classes()
                members = self.classes.aliased
                columns, count = self._task.translated(
                    ((members, self.classes.of[members]), len(members)), self._values
                )
                if count:
                    self._shared.assign(*columns)
        return self._shared

    def relation(self, predicate: str) -> Relation:
        """Return this task's part of a predicate's facts; the parts of all tasks are disjoint."""
        columns, count = self.columns(predicate)
        names = column_names(self.program.predicates[predicate])
        return Relation(predicate, names, columns, count, self._task.dictionary)

    @property
    def dropped(self) -> int:
        """How many rows all tasks have dropped for want of a value, once facts are collected."""
        return self._task.dropped

    def missing(self) -> tuple[MissingValues, ...]:
        """Return how often functions had no value at this task: it does not find out which."""
        dropped = self._task.engine.dropped
        return (MissingValues(self.program.rules[0], "", dropped),) if dropped else ()

    def collect(self, predicates: Sequence[str]) -> dict[str, list[Part]]:
        """Send all stored facts to the task after the owners, and return them there, with the aliases."""
        names = [stored(name) for name in sorted(self.program.predicates) if name != BOTTOM]
        built_in = [stored(EQUAL), BOTTOM]
        members = self.classes.aliased
        collected: dict[str, list[Part]] = {ALIAS: [((members, self.classes.of[members]), len(members))]}
        return collected | self._task.collect(list(dict.fromkeys((*names, *built_in))))

    def violations(self) -> list[Diagnostic]:
        """Describe the constants that are equal although they must not be."""
        return [describe_conflict_among_tasks(each, self.program) for each in self.conflicts()]

    def conflicts(self) -> list[Conflict]:
        """Find constants that are equal although they must not be; one task reports what all tasks know."""
        results: list[Conflict] = []
        if self._mesh.number == 0:
            dictionary, classes = self._reader.storage.dictionary, self.classes
            several, kinds = classes.merged, dictionary.kind
            conflicting = conflicts.conflicting_classes(classes, several, kinds, self._unique_names)
            for representative in conflicting[:1]:
                members = dictionary.decode_all(classes.class_of(representative).tolist())
                results.append(conflicts.conflict_among(members))
        if DIFFERENT in self.program.predicates:
            (left, right), _ = self._task.columns(stored(DIFFERENT))
            rows_of_equals = np.flatnonzero(left == right)[:1].tolist()
            dictionary, known = self._task.dictionary, self._known_classes()
            for row in rows_of_equals:
                members = dictionary.decode_all(known.class_of(int(left[row])).tolist())
                results.append(conflicts.not_different_among(members))
        return results


def task_of(
    program: Program,
    mesh: Mesh,
    equality: str = Rewriting.name,
    unique_names: bool = False,
    equal: str = EXPAND,
    **settings: Any,
) -> ExchangeTask | EqualityTask:
    """Return a task that derives a program, with equality treated as that of a reasoner is."""
    if equality == Rewriting.name and has_equality(program.predicates):
        return EqualityTask(program, mesh, unique_names=unique_names, shown=equal, **settings)
    return ExchangeTask(program, mesh, **settings)


def by_rules(program: Program, equality: str = Rewriting.name, unique_names: bool = False) -> Program:
    """Return the effective program of tasks: with the axioms as rules if that treatment is chosen."""
    treatment = rewriting.make(equality, unique_names)
    return program if equality == Rewriting.name else treatment.meaning(program)


def _neighbouring(parts: Sequence[Part]) -> tuple[Pairs, int]:
    """Return pairs that connect all constants of a group."""
    columns = tuple(np.concatenate(column) for column in zip(*(part for part, _ in parts), strict=True))
    left, right = neighbours(Rows(columns, len(columns[-1])))
    return (left, right), len(left)


def _mentioned(rules: Iterable[Rule]) -> set[str]:
    return {name for rule in rules for name in (rule.head.predicate, *rule.read)}


def _reduced(program: Program, rules: tuple[Rule, ...]) -> Program:
    """Return the program of these rules, with equality and the predicates that they mention."""
    kept = _mentioned(rules) | {stored(EQUAL), ALIAS}
    predicates = {name: each for name, each in program.predicates.items() if name in kept}
    return replace(program, rules=rules, predicates=predicates)


def _are_flat(rules: Sequence[Rule], program: Program) -> bool:
    """Whether merging gives the rules no new instances, since each reads one given fact without tests."""
    derived = program.derived
    return all(
        len(rule.body) == 1
        and len(rule.positive) == 1
        and rule.positive[0].predicate not in derived
        and all(isinstance(term, Variable) for term in (*rule.positive[0].terms, *rule.head.terms))
        and len(set(rule.positive[0].terms)) == len(rule.positive[0].terms)
        for rule in rules
    )
