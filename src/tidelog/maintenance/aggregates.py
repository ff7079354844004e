"""Aggregates: the groups that a change touches are made anew, no others.

After Gupta, Mumick, Subrahmanian: Maintaining Views Incrementally, SIGMOD 1993.

An auxiliary relation of `rewrite.splitting` has one rule and is a stratum of its own. Instances of its body
that were lost or gained name the groups that are touched; for these the rows to aggregate are collected from
what is true now. Both sets stand on scratch paper, in relations that are forgotten at the end.

Invariant: a group that no changed instance belongs to keeps its fact.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from tidelog.engine.maintaining import Effect, Facts, Flag, Where
from tidelog.logic.program import Atom, Rule
from tidelog.maintenance.step_plans import Source, Sources, Step
from tidelog.maintenance.task import Task
from tidelog.plan.algebra import Aggregate, Part, Scan
from tidelog.plan.change_plans import as_test
from tidelog.plan.compile import collected_variables

NOTED = Effect(Where(Flag.ALIVE, Flag.NONE), Flag.ALIVE, create=True)  # on scratch paper, once
FORMER = Effect(Where(Flag.PENDING, Flag.NONE))


def aggregate_sources(source: Source) -> Sources:
    """The rules by which the one rule of an auxiliary relation is maintained."""
    rule, number = source.rule, source.number
    touched = replace(rule, head=touched_groups(rule), group=(), aggregations=())
    driven = frozenset({touched.head.predicate})
    collected = replace(touched, head=collected_rows(rule))
    body = (touched.head, *(as_test(literal, rule.group) for literal in rule.body))
    former = Rule(rule.head, (touched.head, rule.head))
    groups = (Source(touched, number, frozenset()),)
    return {
        Step.LOST: groups,
        Step.LOST_UNDER_NEGATION: groups,
        Step.GAINED: groups,
        Step.GAINED_UNDER_NEGATION: groups,
        Step.FORMER: (Source(former, number, driven),),
        Step.INSERT: (Source(replace(collected, body=body), number, driven),),
        Step.RULES_ADDED: (Source(collected, number, frozenset()),),
    }


def scratch_relations(rule: Rule) -> tuple[Atom, Atom]:
    """The scratch relations of a rule."""
    return touched_groups(rule), collected_rows(rule)


def touched_groups(rule: Rule) -> Atom:
    """The atom of the scratch relation that holds the groups which a change touches."""
    return Atom(f"{rule.head.predicate} touched", rule.group)


def collected_rows(rule: Rule) -> Atom:
    """The atom of the scratch relation that holds the rows to aggregate."""
    return Atom(f"{rule.head.predicate} collected", collected_variables(rule))


def maintain(task: Task) -> None:
    """Bring an auxiliary relation to what the body of its rule says now."""
    engine = task.engine
    (rule,) = (*task.section.before, *task.section.added)
    if task.section.removed:
        engine.mark(engine.every(rule.head.predicate), clear=Flag.ALIVE)
    elif task.section.added:
        with _scratch(task, rule):
            task.run_all(Step.RULES_ADDED, NOTED)
            engine.mark(_aggregated(task, rule), set=Flag.ALIVE)
    else:
        with _scratch(task, rule):
            _exchange(task, rule)


def _exchange(task: Task, rule: Rule) -> None:
    """Take the touched groups' facts away, and put what they are now in their place."""
    touched = task.changed(NOTED)
    former = task.run(Step.FORMER, touched, FORMER)
    task.run(Step.INSERT, touched, NOTED)
    task.engine.mark(former, clear=Flag.ALIVE | Flag.PENDING)
    task.engine.mark(_aggregated(task, rule), set=Flag.ALIVE)


def _aggregated(task: Task, rule: Rule) -> Facts:
    """One fact for each group of the collected rows."""
    rows = collected_rows(rule)
    scan = Scan(rows.predicate, Part.NOW, rows.terms)
    root = Aggregate(scan, rule.group, rule.aggregations, (), rule.head.terms)
    return task.engine.aggregate(root, rule.head.predicate)


@contextmanager
def _scratch(task: Task, rule: Rule) -> Iterator[None]:
    """Scratch paper, clean in the end."""
    try:
        yield
    finally:
        for atom in scratch_relations(rule):
            task.engine.clear(atom.predicate)
