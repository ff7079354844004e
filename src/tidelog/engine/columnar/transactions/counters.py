"""The columnar engine as maintenance algorithms see it: plans run, instances are counted. Mutates itself.

How many instances a fact has, and its rank, stand beside its row. See `engine.protocol.Maintainable` for
what the methods promise.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass
from time import perf_counter
from typing import Any

import numpy as np

from tidelog.engine.columnar import layout
from tidelog.engine.columnar.transactions import change_kernels as kernels
from tidelog.engine.columnar.transactions.change_runner import COUNTERS, EMPTY, ChangeRunner, RowSet
from tidelog.engine.columnar.transactions.marks import NotedEngine
from tidelog.engine.columnar.transactions.rank_loop import RankedUpdate
from tidelog.engine.columnar.transactions.transactions import Ids
from tidelog.engine.events import PlanListener
from tidelog.engine.protocol import Counters, Effect, Flag, LoopSection, MaintainedClosures, Where
from tidelog.logic.program import Rule
from tidelog.logic.strata import Stratum
from tidelog.plan.algebra import Aggregate, ChangePlan, Part
from tidelog.plan.change_plans import Changes

NEVER = Where(Flag.NONE, Flag.ALIVE)
NOTED = Flag.PENDING | Flag.PROVED | Flag.CHECKED | Flag.DELTA  # of facts while they are ranked
LAST_RANK = 1 << 30  # of 2³¹ that a counter can hold: no transaction has as many rounds as are left then


@dataclass(frozen=True, slots=True)
class Former:
    """What was counted before instances were counted anew in a transaction that had touched so many facts."""

    touched: int
    kind: Counters
    counters: dict[int, dict[int, Ids]]


class MaintainedEngine(NotedEngine):
    """All facts in this process, and what follows from their changes."""

    def __init__(self, threads: int | None = None, relations: int = 8) -> None:
        super().__init__(threads, relations)
        self.workspaces[0].state[layout.Z_CLOCK] = 1  # ranks above those of facts that were never ranked
        self.plan_listener: PlanListener | None = None
        self._counters = Counters.NONE
        self._recounts: list[Former] = []
        self._instances = 0
        self.counts = 0
        self._counted: dict[Rule, int] = {}  # the instances of each rule when they were last counted
        self._rounds: dict[str, int] = {}  # the rounds that each relation was derived in

    @property
    def counters(self) -> Counters:
        """What is counted at present."""
        return self._counters

    @property
    def instances(self) -> int:
        """How many instances of rules plans have found so far; it only grows."""
        return self._instances

    def instances_of(self, rule: Rule) -> int:
        """How many instances of a rule there were when they were last counted; 0 if that is not known."""
        return self._counted.get(rule, 0)

    def rounds_of(self, predicates: Collection[str]) -> int:
        """How many rounds it took to derive these predicates; 1 if that is not known."""
        there = [name for name in predicates if name in self._numbers]
        known = (self._rounds.get(name) or len(self.table(name).rounds) - 1 for name in there)
        return max((1, *known))

    def add_instances(self, number: int) -> None:
        """Note that plans have found so many instances."""
        self._instances += number

    def forget_counters(self) -> None:
        """Count nothing any more: facts have changed and were not counted."""
        for table in self.tables:
            if table.counters:
                table.drop_counters()
        self._counters = Counters.NONE

    def drop(self, relation: str) -> None:
        """Forget a relation and its memory; if it was counted, nothing is any more."""
        if self.table(relation).counters:
            self.forget_counters()
        super().drop(relation)

    # ---- counters

    def begin_transaction(self) -> None:
        """Begin a journal, with ranks enough for what comes."""
        if self.workspaces[0].state[layout.Z_CLOCK] > LAST_RANK:
            self._renumber_ranks()
        super().begin_transaction()
        self._recounts = []

    def _renumber_ranks(self) -> None:
        """Renumber ranks by small numbers in the same order: what is founded by them stays so."""
        ranks = [
            table.counters[layout.RANK][: len(table)]
            for table in self.tables
            if layout.RANK in table.counters
        ]
        known = np.unique(np.concatenate([np.zeros(1, np.int32), *map(np.unique, ranks)]))
        for some in ranks:
            some[:] = np.searchsorted(known, some)
        self.workspaces[0].state[layout.Z_CLOCK] = len(known)

    def roll_back(self) -> None:
        """Put flags and counters back as they were when the transaction began."""
        state = self.workspaces[0].state
        for former in reversed(self._recounts):
            kernels.undo_journal(self.descriptors, state, former.touched)
            self._counters = former.kind
            for number, counters in former.counters.items():
                self.tables[number].restore_counters(counters)
        self._recounts = []
        super().roll_back()

    def count(self, facts: Any, founded: int) -> None:
        """Add to `founded` of each fact, if its relation has counters."""
        for table, rows in self._touching(facts):
            kernels.add_founded(self.descriptors, table.number, rows, founded, self.workspaces[0].state)

    def select_unfounded(self, facts: Any) -> RowSet:
        """Those whose `founded` is 0."""
        return self._selected(
            facts,
            lambda table, rows, out: kernels.select_counted(self.descriptors, table, rows, False, False, out),
        )

    def select_supported(self, facts: Any) -> RowSet:
        """Those whose `founded` or `hidden` is above 0."""
        return self._selected(
            facts,
            lambda table, rows, out: kernels.select_counted(self.descriptors, table, rows, True, True, out),
        )

    def raise_ranks(self, facts: Any) -> None:
        """Give the facts the highest rank: hidden instances become founded, and the clock advances."""
        state = self.workspaces[0].state
        for table, rows in self._touching(facts):
            kernels.raise_rows(self.descriptors, table.number, rows, state)
        state[layout.Z_CLOCK] += 1

    def recount(self, counters: Counters, strata: Iterable[Stratum]) -> RowSet:
        """Count all instances of the strata's rules anew; returns the facts that are true and unfounded."""
        strata = [stratum for stratum in strata if not any(rule.aggregations for rule in stratum.rules)]
        if self.lists.is_open:
            touched = int(self.workspaces[0].state[layout.Z_JOURNAL_COUNT])
            # Those of other tables go on changing in place: the journal puts them back.
            changed = {name for stratum in strata for name in stratum.predicates}
            counted = {
                table.number: table.counters
                for table in self.tables
                if counters is not self._counters or table.name in changed
            }
            self._recounts.append(Former(touched, self._counters, counted))
        if counters is not self._counters:
            self.forget_counters()
            self._counters = counters
        if counters is Counters.NONE:
            return EMPTY
        self.counts += 1
        was_open = self.lists.is_open
        if was_open:
            self.lists.pause()
        else:
            self.lists.close()
        unfounded = EMPTY
        try:
            for stratum in strata:
                unfounded |= self._recount_stratum(stratum)
        except BaseException:
            if not was_open:  # else the transaction is rolled back
                self.forget_counters()
            raise
        if was_open:
            self.lists.resume()
        return unfounded

    def _recount_stratum(self, stratum: Stratum) -> RowSet:
        """Count a stratum's instances anew; nobody is told of these plans, which are no step of a change."""
        listener, self.plan_listener = self.plan_listener, None
        try:
            return self._recounted(stratum)
        finally:
            self.plan_listener = listener

    def _recounted(self, stratum: Stratum) -> RowSet:
        own = frozenset(stratum.predicates)
        is_recursive = any(atom.predicate in own for rule in stratum.rules for atom in rule.positive)
        for relation in own:
            table = self.table(relation)
            table.drop_counters()
            table.count_explicit()
            table.count_too(COUNTERS[self._counters] if is_recursive else ())
        if is_recursive and self._counters is Counters.RANK:
            rounds = not self._recounts and all(
                self.table(name).rounds_of == (self.epoch, own) for name in own
            )
            if rounds:
                self._rank_by_rounds(own)
            else:
                try:
                    self._rank_anew(stratum)
                except BaseException:
                    for relation in own:
                        self.mark(self.every(relation), clear=NOTED)
                    raise
        return self.count_stratum(stratum)

    def count_stratum(self, stratum: Stratum) -> RowSet:
        """Count the instances of a stratum's rules, ranks being as they are; what is true and unfounded."""
        for relation in stratum.predicates:
            self.table(relation).begin_counting()
        for rule in stratum.rules:
            before = self._instances
            self._run_all([rule], stratum, Effect(NEVER, count=1))
            self._counted[rule] = self._instances - before
        unfounded = {}
        for relation in stratum.predicates:
            table = self.table(relation)
            alive = (table.flags[: len(table)] & layout.ALIVE) != 0
            rows = np.flatnonzero(alive & (table.counters[layout.FOUNDED][: len(table)] == 0))
            if len(rows):
                unfounded[relation] = rows
        return RowSet(unfounded)

    def _run_all(self, rules: Iterable[Rule], stratum: Stratum, effect: Effect) -> RowSet:
        """The heads that the effect selects, of all instances of rules."""
        plans = [
            ChangeRunner(Changes(rule, 0, stratum.predicates, self).every(Part.NOW), self)
            for rule in rules
            if all(len(self.table(atom.predicate)) for atom in rule.positive)
        ]
        return self.run(plans, EMPTY, effect)

    def _rank_by_rounds(self, relations: Iterable[str]) -> None:
        """Set each fact's rank to the round in which materialisation found it; rows are in that order."""
        state = self.workspaces[0].state
        for relation in relations:
            table = self.table(relation)
            rank = table.counters[layout.RANK]
            for number, end in enumerate(table.rounds[1:], 1):
                rank[table.rounds[number - 1] : end] = number
            self._rounds[relation] = max(1, len(table.rounds) - 1)
            state[layout.Z_CLOCK] = max(int(state[layout.Z_CLOCK]), len(table.rounds) + 1)

    def _rank_anew(self, stratum: Stratum) -> None:
        """Set each fact's rank to the round that would derive it, if the stratum were evaluated now."""
        own = frozenset(stratum.predicates)
        # What a round finds must not drive the same round: its rank would be that of what it supports.
        effect = Effect(Where(Flag.ALIVE | Flag.PROVED | Flag.PENDING, Flag.ALIVE))
        explicit = Where(Flag.EXPLICIT | Flag.ALIVE, Flag.EXPLICIT | Flag.ALIVE)
        round_facts = EMPTY
        for relation in own:
            round_facts |= self.select(self.every(relation), explicit)
        self.mark(round_facts, set=Flag.PENDING)
        rules = [rule for rule in stratum.rules if not any(atom.predicate in own for atom in rule.positive)]
        round_facts |= self._run_all(rules, stratum, effect)
        plans = [
            self.prepare_change(plan) for rule in stratum.rules for plan in Changes(rule, 0, own, self).rank()
        ]
        ranked = EMPTY
        while len(round_facts):
            ranked |= round_facts
            self.raise_ranks(round_facts)
            self.mark(round_facts, set=Flag.PROVED | Flag.CHECKED | Flag.DELTA, clear=Flag.PENDING)
            found = self.run(plans, round_facts, effect)
            self.mark(round_facts, clear=Flag.DELTA)
            round_facts = found
        self.mark(ranked, clear=Flag.PROVED | Flag.CHECKED)

    # ---- plans

    def prepare_change(self, plan: ChangePlan) -> ChangeRunner:
        """The plan ready to run, any number of times."""
        self.check()
        return ChangeRunner(plan, self)

    def run(self, plans: Iterable[ChangeRunner], given: Any, effect: Effect) -> RowSet:
        """The heads that the effect selects, of each plan's instances over the given facts."""
        for plan in plans:
            rows = None
            if plan.given is not None:
                rows = given.rows.get(plan.given)
                if rows is None:
                    continue
            self._run_plan(plan, rows, effect)
        return self.row_set(self.lists.take())

    def _run_plan(self, plan: ChangeRunner, rows: Any, effect: Effect | None) -> None:
        """Run a plan over given rows, or all, and tell what it did, if somebody wants to know."""
        start = perf_counter()
        outcome = plan.run(rows, effect)
        self._instances += outcome.matches
        if self.plan_listener is not None:
            given = 0 if rows is None else len(rows)
            self.plan_listener(plan.plan, given, outcome, perf_counter() - start)

    def run_support(self, plans: Iterable[ChangeRunner], given: Any) -> tuple[RowSet, RowSet]:
        """For each given head the first instance that a plan finds: its unchecked facts, and the heads."""
        pending = Where(Flag.PENDING, Flag.PENDING)
        waiting = given
        for plan in plans:
            rows = waiting.rows.get(plan.given or "")
            if rows is not None and len(rows):
                self._run_plan(plan, rows, None)
                waiting = self.select(waiting, Where(Flag.PENDING, Flag.NONE))
        found = self.row_set(self.lists.take())
        heads = self.select(given, pending)
        self.mark(heads, clear=Flag.PENDING)
        return found, heads

    @property
    def has_compiled_ranks(self) -> bool:
        """Whether the engine has a compiled loop of rank counting: it has, but that knows no single plans."""
        return self.plan_listener is None

    @property
    def closing(self) -> MaintainedClosures | None:
        """None: this engine has no structures for closures."""
        return None

    def compile_ranks(self, sections: Sequence[LoopSection]) -> RankedUpdate:
        """The compiled loop of rank counting over these sections."""
        return RankedUpdate(sections, self)

    # ---- aggregates

    def aggregate(self, root: Aggregate, relation: str) -> RowSet:
        """One fact of the relation per group of the rows that are true in the root's input."""
        columns, count, _ = self.groups(root)
        return self.facts(relation, columns, count, create=True) if count else EMPTY

    def scratch(self, relation: str, arity: int) -> None:
        """Make an empty relation of whose facts no journal is kept, unless it is there."""
        is_new = relation not in self._numbers
        self.define(relation, arity)
        if is_new:
            self.table(relation).words[layout.SCRATCH] = 1

    def clear(self, relation: str) -> None:
        """Forget all facts of a relation that serves as scratch paper."""
        table = self.table(relation)
        table.clear()
        for index in self._indexes_of.get(table.number, ()):
            index.rebuild(len(self.dictionary))
