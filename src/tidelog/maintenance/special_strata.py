"""Strata that no general algorithm maintains: aggregates, group by group, and closures, by structures."""

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
# An auxiliary relation of `rewrite.auxiliary_relations` has one rule and is a separate stratum. Instances
# of its body that were lost or gained name the groups that are touched; for these the rows to aggregate are
# collected from what is true now. Both sets are temporary relations, which are cleared at the end.
#
# Invariant: a group that no changed instance belongs to keeps its fact.

SEEN = Effect(Where(Flag.ALIVE, Flag.NONE), Flag.ALIVE, create=True)  # in temporary relations, once
FORMER = Effect(Where(Flag.PENDING, Flag.NONE))


def aggregate_sources(source: PlanSource) -> Sources:
    """Return the rules that maintain the single rule of an auxiliary relation."""
    rule, number = source.rule, source.number
    touched_rule = replace(rule, head=touched_groups(rule), group=(), aggregations=())
    driven = frozenset({touched_rule.head.predicate})
    collected = replace(touched_rule, head=collected_rows(rule))
    body = (touched_rule.head, *(as_test(literal, rule.group) for literal in rule.body))
    former = Rule(rule.head, (touched_rule.head, rule.head))
    groups = (PlanSource(touched_rule, number, frozenset()),)
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
    """Return the atoms of a rule's temporary relations."""
    return touched_groups(rule), collected_rows(rule)


def touched_groups(rule: Rule) -> Atom:
    """Return the atom of the temporary relation that holds the groups which a change touches."""
    return Atom(f"{rule.head.predicate} touched", rule.group)


def collected_rows(rule: Rule) -> Atom:
    """Return the atom of the temporary relation that holds the rows to aggregate."""
    return Atom(f"{rule.head.predicate} collected", collected_variables(rule))


def maintain_aggregates(task: Task) -> None:
    """Update an auxiliary relation so that it holds one fact per group of its rule's body."""
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
    """Replace the facts of affected groups."""
    groups = task.changed(SEEN)
    former = task.run(MaintenanceStep.FORMER, groups, FORMER)
    task.run(MaintenanceStep.INSERT, groups, SEEN)
    task.changes.mark(former, clear=Flag.ALIVE | Flag.PENDING)
    task.changes.mark(_aggregated(task, rule), set=Flag.ALIVE)


def _aggregated(task: Task, rule: Rule) -> Facts:
    """Return one fact for each group of the collected rows."""
    rows = collected_rows(rule)
    scan = Scan(rows.predicate, Part.NOW, rows.terms)
    root = Aggregate(scan, rule.group, rule.aggregations, (), rule.head.terms)
    return task.engine.change_plans.aggregate(root, rule.head.predicate)


@contextmanager
def _temporary(task: Task, rule: Rule) -> Iterator[None]:
    """Clear the temporary relations after the block."""
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
