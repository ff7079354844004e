"""Strata with ways of their own: aggregates, group by group, and closures kept by structures."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from itertools import pairwise

from tidelog.engine.flags import Effect, Flag, Where
from tidelog.engine.protocol import EngineParts, Facts
from tidelog.logic.program import Atom, Rule
from tidelog.logic.strata import strata
from tidelog.maintenance.step_plans import MaintenanceStep, PlanSource, Sources
from tidelog.maintenance.task import Task
from tidelog.plan.algebra import Aggregate, Part, Scan
from tidelog.plan.change_plans import as_test
from tidelog.plan.compile import collected_variables
from tidelog.rewrite.auxiliary_relations import ClosureModule, recognise, rewrite, split_rule

# ---- aggregates
#
# After Gupta, Mumick, Subrahmanian: Maintaining Views Incrementally, SIGMOD 1993.
#
# An auxiliary relation of `rewrite.auxiliary_relations` has one rule and is a stratum of its own. Instances
# of its body that were lost or gained name the groups that are touched; for these the rows to aggregate are
# collected from what is true now. Both sets are relations that are dropped at the end.
#
# Invariant: a group that no changed instance belongs to keeps its fact.

SEEN = Effect(Where(Flag.ALIVE, Flag.NONE), Flag.ALIVE, create=True)  # in temporary relations, once
FORMER = Effect(Where(Flag.PENDING, Flag.NONE))


def aggregate_sources(source: PlanSource) -> Sources:
    """The rules by which the one rule of an auxiliary relation is maintained."""
    rule, number = source.rule, source.number
    touched = replace(rule, head=touched_groups(rule), group=(), aggregations=())
    driven = frozenset({touched.head.predicate})
    collected = replace(touched, head=collected_rows(rule))
    body = (touched.head, *(as_test(literal, rule.group) for literal in rule.body))
    former = Rule(rule.head, (touched.head, rule.head))
    groups = (PlanSource(touched, number, frozenset()),)
    return {
        MaintenanceStep.LOST: groups,
        MaintenanceStep.LOST_UNDER_NEGATION: groups,
        MaintenanceStep.GAINED: groups,
        MaintenanceStep.GAINED_UNDER_NEGATION: groups,
        MaintenanceStep.FORMER: (PlanSource(former, number, driven),),
        MaintenanceStep.INSERT: (PlanSource(replace(collected, body=body), number, driven),),
        MaintenanceStep.RULES_ADDED: (PlanSource(collected, number, frozenset()),),
    }


def temporary_relations(rule: Rule) -> tuple[Atom, Atom]:
    """The temporary relations of a rule."""
    return touched_groups(rule), collected_rows(rule)


def touched_groups(rule: Rule) -> Atom:
    """The atom of the temporary relation that holds the groups which a change touches."""
    return Atom(f"{rule.head.predicate} touched", rule.group)


def collected_rows(rule: Rule) -> Atom:
    """The atom of the temporary relation that holds the rows to aggregate."""
    return Atom(f"{rule.head.predicate} collected", collected_variables(rule))


def maintain_aggregates(task: Task) -> None:
    """Update an auxiliary relation to the groups of its rule's body now."""
    engine = task.engine
    (rule,) = (*task.section.before, *task.section.added)
    if task.section.removed:
        engine.changes.mark(engine.changes.every(rule.head.predicate), clear=Flag.ALIVE)
    elif task.section.added:
        with _temporary(task, rule):
            task.run_all(MaintenanceStep.RULES_ADDED, SEEN)
            engine.changes.mark(_aggregated(task, rule), set=Flag.ALIVE)
    else:
        with _temporary(task, rule):
            _exchange(task, rule)


def _exchange(task: Task, rule: Rule) -> None:
    """Replace the facts of the affected groups."""
    touched = task.changed(SEEN)
    former = task.run(MaintenanceStep.FORMER, touched, FORMER)
    task.run(MaintenanceStep.INSERT, touched, SEEN)
    task.changes.mark(former, clear=Flag.ALIVE | Flag.PENDING)
    task.changes.mark(_aggregated(task, rule), set=Flag.ALIVE)


def _aggregated(task: Task, rule: Rule) -> Facts:
    """One fact for each group of the collected rows."""
    rows = collected_rows(rule)
    scan = Scan(rows.predicate, Part.NOW, rows.terms)
    root = Aggregate(scan, rule.group, rule.aggregations, (), rule.head.terms)
    return task.engine.change_plans.aggregate(root, rule.head.predicate)


@contextmanager
def _temporary(task: Task, rule: Rule) -> Iterator[None]:
    """Clear the temporary relations in the end."""
    try:
        yield
    finally:
        for atom in temporary_relations(rule):
            task.engine.storage.clear(atom.predicate)


# ---- closures
#
# See `rewrite.auxiliary_relations` for what a module is. The relation of its external pairs is maintained as
# any other, by the algorithm that was chosen; what changes in it, and in the explicit facts, goes to the
# structure.
#
# Invariant: between transactions the engine's structures keep the chosen predicates, and no others.

Rules = tuple[Rule, ...]
Names = frozenset[str]

NONE: Names = frozenset()
GROWN = 4  # a predicate that rules keep is looked at again when it has grown by this factor
SMALL = 64  # … and is no longer this small


class ClosureChoice:
    """The predicates that structures keep, and the rules of programs seen so."""

    def __init__(self, engine: EngineParts, is_enabled: bool) -> None:
        self.structures = engine.closures
        self.is_enabled = is_enabled and self.structures is not None
        self.engine = engine
        self.chosen = NONE
        self._refused: dict[str, int] = {}  # predicates that rules keep for now, and how large they were
        self._recognised: dict[int, tuple[Rules, dict[str, ClosureModule]]] = {}

    @property
    def are_current(self) -> bool:
        """Whether structures keep what was chosen, and nothing else has grown enough to be looked at again.

        Others may have used the engine meanwhile.
        """
        if self.structures is None or self.structures.closed != self.chosen:
            return self.structures is None
        return not any(self.engine.storage.size(name) > GROWN * size for name, size in self._refused.items())

    def modules(self, rules: Rules) -> dict[str, ClosureModule]:
        """The modules of a program's rules, by predicate."""
        if not self.is_enabled:
            return {}
        known = self._recognised.get(id(rules))
        if known is None or known[0] is not rules:
            found = map(recognise, strata(tuple(numbered(rules))))
            known = rules, {module.predicate: module for module in found if module is not None}
            if len(self._recognised) > 3:  # before, between and after
                self._recognised.clear()
            self._recognised[id(rules)] = known
        return known[1]

    def rewritten(self, rules: Rules, names: Collection[str]) -> dict[Rule, int]:
        """The rules as they are maintained, with the numbers of those they were made of."""
        made = numbered(rules)
        if not names:
            return made
        modules = self.modules(rules)
        return rewrite(made, [modules[name] for name in names])

    # ---- choosing

    def choose(self, rules: Rules) -> Names:
        """Assign structures to the predicates they can keep; return those no longer kept, to be counted.

        The facts of all predicates and sources must be correct.
        """
        structures = self.structures
        if structures is None:
            return NONE
        modules = self.modules(rules)
        kept = {name for name in structures.closed if self._is_kept(name, modules)}
        opened = frozenset(structures.closed) - kept
        for name in opened:
            structures.release(name)
        new = {name for name, module in modules.items() if name not in kept and structures.adopt(module)}
        self.chosen = frozenset(kept | new)
        self._refuse(modules.keys() - self.chosen)
        return opened - new

    def _refuse(self, names: Collection[str]) -> None:
        """Leave these predicates to rules until they have grown by the factor GROWN."""
        self._refused = {name: max(self.engine.storage.size(name), SMALL) for name in names}

    def _is_kept(self, name: str, modules: Mapping[str, ClosureModule]) -> bool:
        """Whether a structure keeps a relation already, in the way that one of the modules wants it."""
        if self.structures is None or name not in modules:
            return False
        module = self.structures.module_of(name)
        return module is not None and module.is_like(modules[name])

    def keep(self, names: Names) -> None:
        """Keep structures for these predicates only."""
        if self.structures is not None:
            for name in self.chosen - names:
                self.structures.release(name)
        self.chosen = names
        self._refused = {}

    # ---- transactions

    def lasting(self, stages: Sequence[Rules], stated: Collection[str]) -> Names:
        """The predicates that structures can keep while rules change, and facts of `stated` are added.

        What is no closure all the while is maintained by its rules.
        """
        if not self.chosen:
            return NONE
        modules = self.modules(stages[0])
        names = {name for name in self.chosen if not (modules[name].is_linear and name in stated)}
        for before, after in pairwise(stages):
            names = self._closed_in_both(before, after, names)
        return frozenset(names)

    def _closed_in_both(self, before: Rules, after: Rules, names: set[str]) -> set[str]:
        """Those of the predicates that are closed alike before and after, and depend on others only."""
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
    """The rules, those that aggregate or are long in several, with the numbers of those they were made of."""
    return {part: number for number, rule in enumerate(rules) for part in split_rule(rule)}


def maintain_closure(task: Task) -> None:
    """Update the predicate of a module to the closure of its external facts now."""
    (predicate,) = task.section.predicates
    structures = task.engine.closures
    assert structures is not None
    structures.maintain(predicate, task.removed, task.added, task.deleted, task.inserted)
