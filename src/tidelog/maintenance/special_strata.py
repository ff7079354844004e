"""Strata that no general algorithm maintains: aggregates, group by group, and closures, by structures."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise

from tidelog.engine.flags import Effect, Flag, Where
from tidelog.engine.protocol import Aggregated, EngineParts, Facts
from tidelog.logic.program import Atom, Rule, Term, Variable
from tidelog.logic.strata import strata
from tidelog.maintenance.step_plans import MaintenanceStep, PlanSource, Sources
from tidelog.maintenance.task import Task
from tidelog.plan.change_plans import as_test
from tidelog.plan.compile import collected_variables
from tidelog.rewrite.auxiliary_relations import ClosureModule, recognise, rewrite, split_rule

# ---- aggregates
#
# After Gupta, Mumick, Subrahmanian: Maintaining Views Incrementally, SIGMOD 1993.
#
# An auxiliary relation of `rewrite.auxiliary_relations` has one rule and is a separate stratum. Each of its
# aggregations folds the distinct rows of group and arguments that instances of the body give. Instances that
# were lost or gained name the rows that may have changed; a row has changed if an instance gave it before and
# none does now, or the other way round. The engine exchanges these rows in the groups that it knows. For the
# others all rows are collected from what is true now. Rows and groups are in temporary relations, which are
# cleared at the end; there the flags BEFORE and ALIVE say whether a row was given before, and is now.
#
# Invariant: a group that no changed row belongs to keeps its fact.

SEEN = Effect(Where(Flag.ALIVE, Flag.NONE), Flag.ALIVE, create=True)  # in temporary relations, once
SEEN_BEFORE = Effect(Where(Flag.BEFORE, Flag.NONE), Flag.BEFORE, create=True)
FORMER = Effect(Where(Flag.PENDING, Flag.NONE))
NOT_NOW = Where(Flag.ALIVE, Flag.NONE)
NOT_BEFORE = Where(Flag.BEFORE, Flag.NONE)


def aggregate_sources(aggregated: Aggregated, number: int) -> Sources:
    """Return the rules that maintain the single rule of an auxiliary relation."""
    rule, touched = aggregated.rule, aggregated.touched
    driven = frozenset({touched.predicate})
    collected = replace(rule, head=aggregated.collected, group=(), aggregations=())
    body = (touched, *(as_test(literal, rule.group) for literal in rule.body))
    former = Rule(rule.head, (touched, rule.head))
    rows = tuple(
        PlanSource(replace(collected, head=atom), number, frozenset())
        for atom in dict.fromkeys(aggregated.changed)
    )
    shared = tuple(each for each in rows if not _is_of_one_instance(each.rule))
    return {
        MaintenanceStep.LOST: rows,
        MaintenanceStep.LOST_UNDER_NEGATION: rows,
        MaintenanceStep.GAINED: rows,
        MaintenanceStep.GAINED_UNDER_NEGATION: rows,
        MaintenanceStep.REDERIVE: shared,
        MaintenanceStep.HELD: shared,
        MaintenanceStep.FORMER: (PlanSource(former, number, driven),),
        MaintenanceStep.INSERT: (PlanSource(replace(collected, body=body), number, driven),),
        MaintenanceStep.RULES_ADDED: (PlanSource(collected, number, frozenset()),),
    }


def _is_of_one_instance(rule: Rule) -> bool:
    """Return whether no two instances of a rule have the same head: it has all variables of the atoms."""
    return {term for atom in rule.positive for term in atom.terms if isinstance(term, Variable)}.issubset(
        rule.head.terms
    )


def aggregated_by(rule: Rule) -> Aggregated:
    """Return a rule that aggregates, with its temporary relations."""
    name = rule.head.predicate
    changed: dict[frozenset[Term], Atom] = {}  # aggregations of the same arguments share their rows
    atoms = []
    for aggregation in rule.aggregations:
        arguments = (term for term in aggregation.arguments if isinstance(term, Variable))
        terms = tuple(dict.fromkeys((*rule.group, *arguments)))
        atoms.append(changed.setdefault(frozenset(terms), Atom(f"{name} changed {len(changed)}", terms)))
    collected = Atom(f"{name} collected", collected_variables(rule))
    return Aggregated(rule, Atom(f"{name} touched", rule.group), collected, tuple(atoms))


def temporary_relations(aggregated: Aggregated) -> Collection[Atom]:
    """Return the atoms of a rule's temporary relations."""
    return dict.fromkeys((aggregated.touched, aggregated.collected, *aggregated.changed))


def maintain_aggregates(task: Task, aggregated: Aggregated) -> None:
    """Update an auxiliary relation so that it holds one fact per group of its rule's body."""
    engine, relation = task.engine, aggregated.rule.head.predicate
    if task.section.removed or task.section.added:
        engine.aggregates.forget(relation)
    if task.section.removed:
        engine.changes.mark(engine.changes.every(relation), clear=Flag.ALIVE)
        return
    with _temporary(task, aggregated):
        if task.section.added:
            task.run_all(MaintenanceStep.RULES_ADDED, SEEN)
            engine.changes.mark(engine.aggregates.fold(aggregated, keep=False), set=Flag.ALIVE)
        else:
            _exchange(task, aggregated)


def _exchange(task: Task, aggregated: Aggregated) -> None:
    """Replace the facts of groups whose rows have changed."""
    aggregates, changes = task.engine.aggregates, task.changes
    former, present, unknown = aggregates.exchange(aggregated, *_changed_rows(task))
    if len(unknown):
        former |= task.run(MaintenanceStep.FORMER, unknown, FORMER)
        task.run(MaintenanceStep.INSERT, unknown, SEEN)
        present |= aggregates.fold(aggregated, keep=True)
    changes.mark(former, clear=Flag.ALIVE | Flag.PENDING)
    changes.mark(present, set=Flag.ALIVE)


def _changed_rows(task: Task) -> tuple[Facts, Facts]:
    """Return the rows that instances gave before and none does now, and those the other way round."""
    select = task.changes.select
    lost = task.run(MaintenanceStep.LOST, task.deleted, SEEN_BEFORE) | task.run(
        MaintenanceStep.LOST_UNDER_NEGATION, task.inserted, SEEN_BEFORE
    )
    gained = task.run(MaintenanceStep.GAINED, task.inserted, SEEN) | task.run(
        MaintenanceStep.GAINED_UNDER_NEGATION, task.deleted, SEEN
    )
    if len(lost) and len(gained):
        lost, gained = select(lost, NOT_NOW), select(gained, NOT_BEFORE)
    if task.section.plans[MaintenanceStep.REDERIVE]:
        if len(task.run(MaintenanceStep.REDERIVE, lost, SEEN)):
            lost = select(lost, NOT_NOW)
        if len(task.run(MaintenanceStep.HELD, gained, SEEN_BEFORE)):
            gained = select(gained, NOT_BEFORE)
    return lost, gained


@contextmanager
def _temporary(task: Task, aggregated: Aggregated) -> Iterator[None]:
    """Clear the temporary relations after the block."""
    try:
        yield
    finally:
        for atom in temporary_relations(aggregated):
            task.engine.storage.clear(atom.predicate)


# ---- closures
#
# See `rewrite.auxiliary_relations` for what a module is. The relation of its external pairs is maintained as
# any other, by the algorithm that was chosen; what changes in it, and in the explicit facts, goes to the
# structure.
#
# Invariant: between transactions the engine's structures maintain the chosen predicates, and no others.

Rules = tuple[Rule, ...]
Names = frozenset[str]

NONE: Names = frozenset()
GROWN = 4  # a predicate that rules maintain is reconsidered when it has grown by this factor
SMALL = 64  # … and is no longer this small


class ClosureChoice:
    """The predicates that structures maintain, and the closure modules of the latest programs. Mutable."""

    def __init__(self, engine: EngineParts, is_enabled: bool) -> None:
        self.structures = engine.closures
        self.is_enabled = is_enabled and self.structures is not None
        self.engine = engine
        self.chosen = NONE
        self._refused: dict[str, int] = {}  # predicates that rules maintain for now, with their sizes then
        self._recognised: dict[int, tuple[Rules, dict[str, ClosureModule]]] = {}

    @property
    def are_current(self) -> bool:
        """Whether structures maintain the chosen predicates, and no other has grown enough for a new choice.

        Other maintainers may have used the engine in the meantime.
        """
        if self.structures is None or self.structures.closed.keys() != self.chosen:
            return self.structures is None
        return not any(self.engine.storage.size(name) > GROWN * size for name, size in self._refused.items())

    def modules(self, rules: Rules) -> dict[str, ClosureModule]:
        """Return the closure modules of a program's rules, by predicate."""
        if not self.is_enabled:
            return {}
        cached = self._recognised.get(id(rules))
        if cached is None or cached[0] is not rules:
            recognised = map(recognise, strata(tuple(numbered(rules))))
            cached = rules, {module.predicate: module for module in recognised if module is not None}
            if len(self._recognised) > 3:  # before, between and after
                self._recognised.clear()
            self._recognised[id(rules)] = cached
        return cached[1]

    def rewritten(self, rules: Rules, names: Collection[str]) -> dict[Rule, int]:
        """Return the rules as they are maintained, with the numbers of those they were made from."""
        parts = numbered(rules)
        if not names:
            return parts
        modules = self.modules(rules)
        return rewrite(parts, [modules[name] for name in names])

    # ---- choosing

    def choose(self, rules: Rules) -> Names:
        """Assign structures to the predicates they can maintain; return those released, to be counted.

        The facts of all predicates and sources must be correct.
        """
        structures = self.structures
        if structures is None:
            return NONE
        modules = self.modules(rules)
        unchanged = {name for name in structures.closed if self._is_closed_alike(name, modules)}
        opened = frozenset(structures.closed) - unchanged
        for name in opened:
            structures.release(name)
        new = {name for name, module in modules.items() if name not in unchanged and structures.adopt(module)}
        self.chosen = frozenset(unchanged | new)
        self._refuse(modules.keys() - self.chosen)
        return opened - new

    def _refuse(self, names: Collection[str]) -> None:
        """Leave these predicates to rules until they have grown by the factor GROWN."""
        self._refused = {name: max(self.engine.storage.size(name), SMALL) for name in names}

    def _is_closed_alike(self, name: str, modules: Mapping[str, ClosureModule]) -> bool:
        """Return whether a structure maintains a relation already, closed as one of the modules requires."""
        if self.structures is None or name not in modules:
            return False
        module = self.structures.module_of(name)
        return module is not None and module.is_like(modules[name])

    def keep(self, names: Names) -> None:
        """Release the structures of all other predicates."""
        if self.structures is not None:
            for name in self.chosen - names:
                self.structures.release(name)
        self.chosen = names
        self._refused = {}

    # ---- transactions

    def lasting(self, stages: Sequence[Rules], added: Collection[str]) -> Names:
        """Return the predicates that structures can maintain while rules change.

        Explicit facts of `added` are added. Rules maintain predicates that are not closures in all stages.
        """
        if not self.chosen or (len(stages) == 1 and self.chosen.isdisjoint(added)):
            return self.chosen
        modules = self.modules(stages[0])
        names = {name for name in self.chosen if not (modules[name].is_linear and name in added)}
        for before, after in pairwise(stages):
            names = self._closed_in_both(before, after, names)
        return frozenset(names)

    def _closed_in_both(self, before: Rules, after: Rules, names: set[str]) -> set[str]:
        """Return the predicates with the same closure before and after that are not recursive otherwise."""
        old, new = self.modules(before), self.modules(after)
        names = {name for name in names if name in new and old[name].is_like(new[name])}
        while names:
            rules = {**self.rewritten(before, names), **self.rewritten(after, names)}
            joint = strata(tuple(rules))
            entangled = {name for each in joint if each.recursive for name in each.predicates}
            if names.isdisjoint(entangled):
                break
            names = names - entangled
        return names


def numbered(rules: Rules) -> dict[Rule, int]:
    """Split long and aggregating rules; return each rule with the number of its original."""
    return {part: number for number, rule in enumerate(rules) for part in split_rule(rule)}


def maintain_closure(task: Task) -> None:
    """Update the predicate of a closure module to the closure of its external facts."""
    (predicate,) = task.section.predicates
    structures = task.engine.closures
    assert structures is not None
    structures.maintain(predicate, task.removed, task.added, task.deleted, task.inserted)
