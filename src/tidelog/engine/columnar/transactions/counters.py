"""What is recorded of facts beside their flags, stored by row. Mutable.

The number of rule instances that derive each fact, and its rank; for streams, marks, or links to the facts
that support it. See `engine.protocol.Counters` and `Marks` for the contracts of the methods.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable
from dataclasses import field
from typing import Any

import numpy as np

from tidelog.data.rows import Ids
from tidelog.engine.columnar import layout
from tidelog.engine.columnar.storage.catalog import Catalog, CatalogObserver
from tidelog.engine.columnar.storage.table import Table
from tidelog.engine.columnar.transactions import change_kernels as kernels
from tidelog.engine.columnar.transactions.change_runner import COUNTERS, Bookkeeping, ChangeExecutor
from tidelog.engine.columnar.transactions.row_sets import EMPTY, RowSet
from tidelog.engine.columnar.transactions.transactions import Participant, Transactions
from tidelog.engine.flags import UNMARKED, CounterKind, Effect, Flag, MarkConfig, MarkKind, Where
from tidelog.logic.program import Rule
from tidelog.logic.strata import Stratum
from tidelog.plan.algebra import Part
from tidelog.plan.change_plans import ChangePlanMaker
from tidelog.records import dataclass

NEVER = Where(Flag.NONE, Flag.ALIVE)
RECORDED = Flag.PENDING | Flag.PROVED | Flag.CHECKED | Flag.DELTA  # of facts while they are ranked
LAST_RANK = 1 << 30  # of 2³¹ that a counter can hold: no transaction has as many rounds as are left then

FIRST_GATHERED = 256  # supported facts for which there is room at first
# The arrays of marks and links, by their position in T.
MARKS = {layout.NOTES: np.uint8}
SUPPORTED = {layout.NOTES: np.uint8, layout.LINK: np.int64, layout.NEXT: np.int64, layout.PREVIOUS: np.int64}
SUPPORTING = {layout.FIRST: np.int64}
UNRECORDED = (-1, -1)


# ---- counters and ranks


@dataclass(frozen=True, slots=True)
class CounterSnapshot:
    """The counters before a recount in a transaction, which had touched `touched` facts by then."""

    touched: int
    kind: CounterKind
    counters: dict[int, dict[int, Ids]]


class InstanceCounters(Participant, CatalogObserver):
    """The counters of all tables."""

    def __init__(
        self, catalog: Catalog, transactions: Transactions, plans: ChangeExecutor, bookkeeping: Bookkeeping
    ) -> None:
        self.catalog = catalog
        self.transactions = transactions
        self.plans = plans
        self.bookkeeping = bookkeeping
        self.counts = 0
        self.state = transactions.buffers.state
        self.state[layout.Z_CLOCK] = 1  # above the ranks of facts that were never ranked
        self._snapshots: list[CounterSnapshot] = []
        self.counted: dict[Rule, int] = {}  # the instances of each rule when they were last counted
        self.rounds: dict[str, int] = {}  # the rounds that each relation was derived in

    @property
    def kind(self) -> CounterKind:
        """The current kind of counters."""
        return self.bookkeeping.counters

    def instances_of(self, rule: Rule) -> int:
        """Return how many instances of a rule were counted last; 0 if that is not known."""
        return self.counted.get(rule, 0)

    def rounds_of(self, predicates: Collection[str]) -> int:
        """Return the number of rounds in which these predicates were derived; 1 if it is unknown."""
        existing = [name for name in predicates if name in self.catalog]
        rounds = (self.rounds.get(name) or len(self.catalog.table(name).rounds) - 1 for name in existing)
        return max((1, *rounds))

    def forget(self) -> None:
        """Stop counting: facts have changed and were not counted."""
        for table in self.catalog.tables:
            if table.counters:
                table.drop_counters()
        self.become(CounterKind.NONE)

    def become(self, kind: CounterKind) -> None:
        """Set the kind of counters; dropped relations matter only if there are counters."""
        self.bookkeeping.counters = kind
        if kind is CounterKind.NONE:
            self.catalog.ignore(self)
        else:
            self.catalog.observe(self)

    # ---- while facts change

    def on_drop(self, relation: str, table: Table) -> None:
        """Stop counting if a relation with counters is dropped."""
        if table.counters:
            self.forget()

    def on_begin(self) -> None:
        """Make sure that enough ranks remain for a transaction."""
        if self.state[layout.Z_CLOCK] > LAST_RANK:
            self._renumber_ranks()
        self._snapshots = []

    def before_roll_back(self) -> None:
        """Restore the counters as they were before instances were counted again, last snapshot first."""
        for snapshot in reversed(self._snapshots):
            kernels.undo_journal(self.catalog.descriptors, self.state, snapshot.touched)
            self.become(snapshot.kind)
            for number, counters in snapshot.counters.items():
                self.catalog.tables[number].restore_counters(counters)
        self._snapshots = []

    def _renumber_ranks(self) -> None:
        """Renumber ranks from 0 in the same order: founded instances stay founded."""
        ranks = [
            table.counters[layout.RANK][: len(table)]
            for table in self.catalog.tables
            if layout.RANK in table.counters
        ]
        distinct = np.unique(np.concatenate([np.zeros(1, np.int32), *map(np.unique, ranks)]))
        for table_ranks in ranks:
            table_ranks[:] = np.searchsorted(distinct, table_ranks)
        self.state[layout.Z_CLOCK] = len(distinct)

    # ---- facts by their counters

    def count(self, facts: Any, founded: int) -> None:
        """Add to `founded` of each fact, if its relation has counters."""
        for table, rows in self.transactions.touching(facts):
            kernels.add_founded(self.catalog.descriptors, table.number, rows, founded, self.state)

    def select_unfounded(self, facts: Any) -> RowSet:
        """Return those whose `founded` is 0."""
        return self._select(facts, with_hidden=False, is_positive=False)

    def select_supported(self, facts: Any) -> RowSet:
        """Return those whose `founded` or `hidden` is above 0."""
        return self._select(facts, with_hidden=True, is_positive=True)

    def _select(self, facts: Any, with_hidden: bool, is_positive: bool) -> RowSet:
        descriptors = self.catalog.descriptors
        return self.transactions.selected(
            facts,
            lambda table, rows, out: kernels.select_counted(
                descriptors, table, rows, with_hidden, is_positive, out
            ),
        )

    def assign_next_rank(self, facts: Any) -> None:
        """Give the facts the highest rank: hidden instances become founded, and the clock advances."""
        for table, rows in self.transactions.touching(facts):
            kernels.raise_rows(self.catalog.descriptors, table.number, rows, self.state)
        self.state[layout.Z_CLOCK] += 1

    # ---- counting again

    def rebuild(self, kind: CounterKind, strata: Iterable[Stratum]) -> RowSet:
        """Count all instances of the strata's rules again; return true facts that are unfounded."""
        self.catalog.complete_sets(self.plans.workers.limits.check)
        strata = [stratum for stratum in strata if not any(rule.aggregations for rule in stratum.rules)]
        buffers, tables = self.transactions.buffers, self.catalog.tables
        if buffers.is_open:
            journal_size = int(self.state[layout.Z_JOURNAL_COUNT])
            # The counters of other tables change in place: the journal restores them.
            changed = {name for stratum in strata for name in stratum.predicates}
            former_counters = {
                table.number: table.counters
                for table in tables
                if kind is not self.kind or table.name in changed
            }
            self._snapshots.append(CounterSnapshot(journal_size, self.kind, former_counters))
        if kind is not self.kind:
            self.forget()
            self.become(kind)
        if kind is CounterKind.NONE:
            return EMPTY
        self.counts += 1
        was_open = buffers.is_open
        if was_open:
            buffers.pause()
        else:
            buffers.close()
        unfounded = EMPTY
        try:
            for stratum in strata:
                unfounded |= self._count_silently(stratum)
        except BaseException:
            if not was_open:  # else the transaction is rolled back
                self.forget()
            raise
        if was_open:
            buffers.resume()
        return unfounded

    def _count_silently(self, stratum: Stratum) -> RowSet:
        """Count a stratum's instances again, without reporting the plans, which change no facts."""
        listener, self.plans.plan_listener = self.plans.plan_listener, None
        try:
            return self._recount(stratum)
        finally:
            self.plans.plan_listener = listener

    def _recount(self, stratum: Stratum) -> RowSet:
        own = frozenset(stratum.predicates)
        is_recursive = any(atom.predicate in own for rule in stratum.rules for atom in rule.positive)
        for relation in own:
            table = self.catalog.table(relation)
            table.drop_counters()
            table.count_explicit()
            table.count_too(COUNTERS[self.kind] if is_recursive else ())
        if is_recursive and self.kind is CounterKind.RANK:
            rounds = not self._snapshots and all(
                self.catalog.table(name).rounds_of == (self.catalog.epoch, own) for name in own
            )
            if rounds:
                self._rank_by_rounds(own)
            else:
                try:
                    self._recompute_ranks(stratum)
                except BaseException:
                    changes = self.transactions
                    for relation in own:
                        changes.mark(changes.every(relation), clear=RECORDED)
                    raise
        return self.count_stratum(stratum)

    def count_stratum(self, stratum: Stratum) -> RowSet:
        """Count a stratum's instances with the present ranks; return true facts that are unfounded."""
        for relation in stratum.predicates:
            self.catalog.table(relation).begin_counting()
        for rule in stratum.rules:
            before = self.bookkeeping.instances
            self._run_all([rule], stratum, Effect(NEVER, count=1))
            self.counted[rule] = self.bookkeeping.instances - before
        unfounded = {}
        for relation in stratum.predicates:
            table = self.catalog.table(relation)
            alive = (table.flags[: len(table)] & layout.ALIVE) != 0
            rows = np.flatnonzero(alive & (table.counters[layout.FOUNDED][: len(table)] == 0))
            if len(rows):
                unfounded[relation] = rows
        return RowSet(unfounded)

    def _run_all(self, rules: Iterable[Rule], stratum: Stratum, effect: Effect) -> RowSet:
        """Return the heads that the effect selects, of all instances of rules."""
        plans = [
            self.plans.prepare(
                ChangePlanMaker(rule, 0, stratum.predicates, self.plans.storage).every(Part.NOW)
            )
            for rule in rules
            if all(len(self.catalog.table(atom.predicate)) for atom in rule.positive)
        ]
        return self.plans.run(plans, EMPTY, effect)

    def _rank_by_rounds(self, relations: Iterable[str]) -> None:
        """Set each fact's rank to the round in which materialisation found it; rows are in that order."""
        state = self.state
        for relation in relations:
            table = self.catalog.table(relation)
            rank = table.counters[layout.RANK]
            for number, end in enumerate(table.rounds[1:], 1):
                rank[table.rounds[number - 1] : end] = number
            self.rounds[relation] = max(1, len(table.rounds) - 1)
            state[layout.Z_CLOCK] = max(int(state[layout.Z_CLOCK]), len(table.rounds) + 1)

    def _recompute_ranks(self, stratum: Stratum) -> None:
        """Set each fact's rank to the round in which an evaluation of the stratum would derive it."""
        changes, own = self.transactions, frozenset(stratum.predicates)
        # Facts of a round must not drive the same round: they would rank like the facts that they support.
        effect = Effect(Where(Flag.ALIVE | Flag.PROVED | Flag.PENDING, Flag.ALIVE))
        explicit = Where(Flag.EXPLICIT | Flag.ALIVE, Flag.EXPLICIT | Flag.ALIVE)
        round_facts = EMPTY
        for relation in own:
            round_facts |= changes.select(changes.every(relation), explicit)
        changes.mark(round_facts, set=Flag.PENDING)
        rules = [rule for rule in stratum.rules if not any(atom.predicate in own for atom in rule.positive)]
        round_facts |= self._run_all(rules, stratum, effect)
        plans = [
            self.plans.prepare(plan)
            for rule in stratum.rules
            for plan in ChangePlanMaker(rule, 0, own, self.plans.storage).rank()
        ]
        ranked = EMPTY
        while len(round_facts):
            ranked |= round_facts
            self.assign_next_rank(round_facts)
            changes.mark(round_facts, set=Flag.PROVED | Flag.CHECKED | Flag.DELTA, clear=Flag.PENDING)
            derived = self.plans.run(plans, round_facts, effect)
            changes.mark(round_facts, clear=Flag.DELTA)
            round_facts = derived
        changes.mark(ranked, clear=Flag.PROVED | Flag.CHECKED)


# ---- marks and links
#
# They are correct as long as every change of facts is recorded: they are kept between transactions unless
# facts were derived in rounds, compacted or rolled back.


@dataclass(slots=True, eq=False)
class ColumnarMarks(Participant, CatalogObserver):
    """The marks or links of one configuration, maintained from `configure` until they are discarded."""

    catalog: Catalog
    transactions: Transactions
    bookkeeping: Bookkeeping
    # The configuration, and the epoch and version in which it is right.
    _kept: tuple[MarkConfig, tuple[int, int]] = field(default=(UNMARKED, UNRECORDED), init=False)

    # ---- while facts change

    def on_commit(self, changed: Collection[str]) -> None:
        """Keep the records, which are correct now. The next transaction records only after `configure`."""
        if self.bookkeeping.marks is not UNMARKED:
            self._kept = self.bookkeeping.marks, self._moment
            self.bookkeeping.marks = UNMARKED

    def on_roll_back(self) -> None:
        """Discard the records."""
        if self.bookkeeping.marks is not UNMARKED:
            self.forget()

    def on_compact(self) -> None:
        """Discard the records, since links refer to row numbers."""
        self.forget()

    def on_begin_rounds(self) -> None:
        """Discard the records, since derivation in rounds does not maintain them."""
        self.forget()

    @property
    def _moment(self) -> tuple[int, int]:
        return self.catalog.epoch, self.catalog.version

    # ---- records

    def configure(self, config: MarkConfig) -> None:
        """Record marks or links in the present transaction."""
        kept, moment = self._kept
        if kept != config or moment != self._moment:
            self.forget()
            kept = config
            self._allocate(kept)
            self._kept = kept, self._moment
        self.bookkeeping.marks = kept
        self.catalog.observe(self)
        self.transactions.join(self)

    def _allocate(self, config: MarkConfig) -> None:
        supported = MARKS if config.kind is MarkKind.MARKS else SUPPORTED
        supporting = MARKS if config.kind is MarkKind.MARKS else SUPPORTING
        for relation in self.catalog.names:
            table = self.catalog.table(relation)
            if table.words[layout.SCRATCH] == 1:
                continue
            if relation in config.sources:
                table.keep_notes(supporting)
            elif relation in config.heads:
                table.keep_notes(supported)

    def forget(self) -> None:
        """Discard the records after changes that were not recorded."""
        for table in self.catalog.tables:
            if table.notes:
                table.drop_notes()
        self.bookkeeping.marks = UNMARKED
        self._kept = UNMARKED, UNRECORDED
        self.catalog.ignore(self)
        self.transactions.leave(self)

    def is_linked(self, relations: Collection[str]) -> bool:
        """Return whether the support of every derived fact of these relations is known."""
        return all(self.catalog.table(relation).is_linked for relation in relations)

    def linked(self, facts: Any, relations: Collection[str], effect: Effect) -> RowSet:
        """Return the facts of these relations that the given facts support and that the effect selects."""
        is_requested = np.zeros(len(self.catalog.tables), np.bool_)
        for relation in relations:
            is_requested[self.catalog.table_number(relation)] = True
        mask, want = int(effect.where.mask), int(effect.where.want)
        linked = EMPTY
        for relation, rows in facts.rows.items():
            table = self.catalog.table(relation)
            if layout.FIRST in table.notes:
                room = FIRST_GATHERED
                while True:
                    out = np.empty(room, np.int64)
                    count = kernels.gather_linked(
                        self.catalog.descriptors, table.number, rows, is_requested, mask, want, out
                    )
                    if count <= room:
                        break
                    room = int(count)
                linked |= self.transactions.row_set(out[:count])
        self.transactions.mark(linked, set=effect.set)
        return linked

    def split_single_support(self, facts: Any) -> tuple[RowSet, RowSet]:
        """Return the facts with a single support, and the others."""
        single, others = {}, {}
        for relation, rows in facts.rows.items():
            out = np.empty(len(rows), np.int64)
            count = int(
                kernels.divide_sole(self.catalog.descriptors, self.catalog.table_number(relation), rows, out)
            )
            if count == len(rows) == len(facts):
                return facts, EMPTY
            if count:
                single[relation] = out[:count]
            if count < len(rows):
                others[relation] = out[count:]
        return RowSet(single), RowSet(others)

    def set_marks(self, facts: Any, marked: bool) -> None:
        """Set or clear the mark of the facts."""
        for relation, rows in facts.rows.items():
            notes = self.catalog.table(relation).notes.get(layout.NOTES)
            if notes is not None:
                notes[rows] = layout.MARKED if marked else 0

    def select_marked(self, facts: Any) -> RowSet:
        """Return those that are marked."""
        return self._select_with(facts, layout.MARKED)

    def set_returning(self, facts: Any, returning: bool) -> None:
        """Record that the facts return, or that they no longer do."""
        for relation, rows in facts.rows.items():
            notes = self.catalog.table(relation).notes.get(layout.NOTES)
            if notes is not None:
                other_notes = notes[rows] & (0xFF ^ layout.RETURNS)
                notes[rows] = other_notes | layout.RETURNS if returning else other_notes

    def select_returning(self, facts: Any) -> RowSet:
        """Return those that are recorded as returning."""
        return self._select_with(facts, layout.RETURNS)

    def _select_with(self, facts: Any, bit: int) -> RowSet:
        selected = {}
        for relation, rows in facts.rows.items():
            notes = self.catalog.table(relation).notes.get(layout.NOTES)
            matching = rows[(notes[rows] & bit) != 0] if notes is not None else rows[:0]
            if len(matching):
                selected[relation] = matching
        return RowSet(selected) if selected else EMPTY
