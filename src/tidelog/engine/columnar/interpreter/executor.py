"""Rules' plans, prepared and run over whole relations, one or many in a call; queries as joins. Mutable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Sequence
from dataclasses import replace
from functools import partial
from itertools import accumulate
from time import perf_counter_ns
from typing import cast

import numpy as np

from tidelog.data import memory
from tidelog.data.rows import Rows
from tidelog.engine.columnar import layout
from tidelog.engine.columnar.interpreter import plan_runner
from tidelog.engine.columnar.interpreter.aggregation import grouped_variables, groups_with_values, heads
from tidelog.engine.columnar.interpreter.assemble import PlanCatalog, assemble
from tidelog.engine.columnar.interpreter.plan_runner import Runner, Words, Workers, Workspace
from tidelog.engine.columnar.interpreter.round_kernels import (
    E_TABLE,
    E_WORDS,
    L_ENDED,
    L_IS_BEGUN,
    L_MANY,
    L_RAN,
    L_ROOM,
    L_ROUND,
    L_SERVED,
    L_WORDS,
    L_WORK,
    R_ENTRY,
    R_MATCHES,
    R_NEW,
    R_ROUND,
    R_SERVED,
    R_WORDS,
    R_WORK,
    W_WORDS,
    run_round,
    run_rounds,
)
from tidelog.engine.columnar.storage.catalog import Catalog
from tidelog.engine.columnar.storage.rounds import ColumnarRounds, TableGroup
from tidelog.engine.columnar.storage.storage import ColumnarStorage
from tidelog.engine.events import PlanOutcome, RoundsRan
from tidelog.engine.protocol import ManyRounds, Runnable
from tidelog.errors import Diagnostic, EvaluationError
from tidelog.logic.functions.builtins import Overflow
from tidelog.logic.program import Atom, Constant, Rule, Term, Variable
from tidelog.logic.values import Value
from tidelog.plan.algebra import (
    ANSWERS,
    CONSTANTS,
    Aggregate,
    Extend,
    Node,
    Part,
    Project,
    RulePlan,
    Scan,
)
from tidelog.plan.compile import best_pivot, finds_each_once, full_plan
from tidelog.plan.join_order import Statistics
from tidelog.records import dataclass


class AssumeTombstones:
    """A catalogue for the assembler, in which any row of any relation may be a deleted fact."""

    def __init__(self, catalog: Catalog) -> None:
        self.table_number = catalog.table_number
        self.index_number = catalog.index_number
        self.identity = catalog.identity

    def has_tombstones(self, relation: str) -> bool:
        """Return True."""
        return True


class Executor:
    """Plans over whole relations. See `engine.protocol.Plans` for what the methods promise."""

    def __init__(
        self, catalog: Catalog, storage: ColumnarStorage, rounds: ColumnarRounds, workers: Workers
    ) -> None:
        self.catalog = catalog
        self.storage = storage
        self.rounds = rounds
        self.workers = workers
        self._round_runner = RoundRunner(catalog, workers)
        self._point_lookups = PointLookups()

    @property
    def catalog_version(self) -> int:
        """A number that changes when cached plans must be prepared again."""
        return self.catalog.version

    def pin(self, relations: Collection[str]) -> None:
        """Record that cached plans read the relations: `catalog_version` changes when one is dropped."""
        for relation in relations:
            self.catalog.table(relation).is_pinned = True

    def prepare(self, plan: RulePlan) -> Runnable:
        """Return the plan ready to run, any number of times."""
        if isinstance(plan.root, Aggregate):
            return partial(self._aggregate, plan, plan.root)
        runner = self._runner(plan, self.catalog)
        if plan.is_only:
            runner.finds_each_once = partial(self._finds_each_once, plan)
        return runner

    def _finds_each_once(self, plan: RulePlan) -> bool:
        return plan.may_repeat or finds_each_once(plan, self.storage.is_key)

    def prepare_with_tombstones(self, plan: RulePlan) -> Runner:
        """Return the plan ready to run, whether or not its relations have tombstones by then."""
        return self._runner(plan, AssumeTombstones(self.catalog))

    def _runner(self, plan: RulePlan, catalog: PlanCatalog) -> Runner:
        if not isinstance(plan.root, Project):
            raise TypeError(plan.root)
        check = self.workers.limits.check
        check()
        head = self.catalog.table(plan.relation)
        assembled = assemble(plan.relation, plan.root, catalog, span=plan.rule.span)
        for number in (*assembled.looked_up, head.number):
            self.catalog.tables[number].complete(check)
        return Runner(assembled, self.catalog, self.workers, head, plan.rule.span)

    def _aggregate(self, plan: RulePlan, root: Aggregate) -> PlanOutcome:
        """Group the collected rows and insert one fact per group that has all its values."""
        dictionary = self.catalog.dictionary
        groups, missing = groups_with_values(root, self.storage.rows(root.input.relation), dictionary)
        self.workers.add_dropped(missing)
        if root.after:
            outcome = self._compute_after(plan, root, groups)
            return replace(outcome, no_value=outcome.no_value + missing)
        facts = heads(root, groups, dictionary)
        new = self.catalog.table(plan.relation).insert(facts.columns, facts.count, 0, len(dictionary))
        return PlanOutcome(facts.count, new, missing)

    def _compute_after(self, plan: RulePlan, root: Aggregate, groups: Rows) -> PlanOutcome:
        """Run what a rule computes of its groups as a plan over them."""
        relation = f"{root.input.relation} grouped"
        terms = grouped_variables(root)
        self.storage.define(relation, len(terms))
        try:
            self.storage.add(relation, groups.columns, groups.count)
            self.rounds.begin([relation])
            node: Node = Scan(relation, Part.ALL, terms)
            for assignment in root.after:
                node = Extend(node, assignment.variable, assignment.expression)
            return self._runner(replace(plan, root=Project(node, root.terms)), self.catalog)()
        finally:
            self.storage.drop(relation)

    def forget_plans(self) -> None:
        """Clear the caches of plans and lookups: all relations were dropped."""
        self._round_runner.forget()
        self._point_lookups = PointLookups()

    # ---- several plans in one call

    def run_together(self, prepared: Sequence[Runnable]) -> list[int]:
        """Run prepared plans in turn; return how many new facts each has found."""
        return self._round_runner.run(prepared)

    def close_group(self, group: TableGroup, prepared: Sequence[Runnable]) -> bool:
        """Run prepared plans, round after round, until nothing is new of the group's relations.

        The facts found are not NEW yet. Return whether that is possible; if not, nothing is done.
        """
        return self._round_runner.run_to_end(prepared, group.numbers)

    def run_rounds(
        self, group: TableGroup, rounds: ManyRounds, first: int, report: Callable[[RoundsRan], None]
    ) -> int | None:
        """Run rounds, the first with this number, until nothing is new or one is to be run plan by plan.

        Return how many have ended; None if it cannot, with nothing done.
        """
        return self._round_runner.run_rounds(group.numbers, rounds, first, report)

    # ---- queries

    def answer(self, rule: Rule) -> Rows:
        """Return the heads of a rule's instances."""
        joined = self._point_lookups.joined(rule, self.storage)
        if joined is None:
            return self._heads(rule)
        identity = self.catalog.identity
        self.storage.define(CONSTANTS, len(joined.constants))
        try:
            self.storage.add(
                CONSTANTS, [np.array([identity(each)], np.int32) for each in joined.constants], 1
            )
            self.rounds.begin([CONSTANTS])
            return self._heads(joined.rule)
        finally:
            self.storage.drop(CONSTANTS)

    def _heads(self, rule: Rule) -> Rows:
        """Return the heads of a rule's instances, by its best plan."""
        self.storage.define(ANSWERS, len(rule.head.terms))
        try:
            self.prepare(replace(full_plan(rule, -1, self.storage, ANSWERS), is_only=True))()
            return self.storage.rows(ANSWERS)
        finally:
            self.storage.drop(ANSWERS)


# ---- many scans with constants, batched into joins
#
# A scan reads every row of its relation for a constant. An index costs some scans to build, is maintained
# when facts change, and then answers in one lookup: so a query is answered by scans as long as these have
# cost less. A fact without open columns is looked up in the set of rows, which exists anyhow.

LARGE = 10_000  # rows from which a scan costs more than the rest of a query
PATIENCE = 16  # scans that building an index costs


@dataclass(frozen=True, slots=True)
class JoinedQuery:
    """A rule that joins constants with the relation that it would have scanned for them."""

    rule: Rule
    constants: tuple[Value, ...]


class PointLookups:
    """Counts scans, by relation and the columns of constants. Mutable."""

    def __init__(self) -> None:
        self._scans: Counter[tuple[str, tuple[int, ...]]] = Counter()

    def joined(self, rule: Rule, statistics: Statistics) -> JoinedQuery | None:
        """Return the rule by which a query is answered, None if by scanning."""
        pivot = best_pivot(rule.body, statistics)
        atom = None if pivot is None else rule.body[pivot]
        if pivot is None or not isinstance(atom, Atom) or statistics.size(atom.predicate) < LARGE:
            return None
        columns = tuple(position for position, term in enumerate(atom.terms) if isinstance(term, Constant))
        if not columns:
            return None
        if len(columns) < len(atom.terms):
            self._scans[atom.predicate, columns] += 1
            if self._scans[atom.predicate, columns] <= PATIENCE:
                return None
        return _with_given(rule, pivot, atom)


def _with_given(rule: Rule, pivot: int, atom: Atom) -> JoinedQuery:
    terms: list[Term] = []
    parameters: list[Term] = []
    constants: list[Value] = []
    for position, term in enumerate(atom.terms):
        if isinstance(term, Constant):
            constants.append(term.value)
            term = Variable(f"given {position}")
            parameters.append(term)
        terms.append(term)
    scanned = Atom(atom.predicate, tuple(terms))
    body = (Atom(CONSTANTS, tuple(parameters)), *rule.body[:pivot], scanned, *rule.body[pivot + 1 :])
    return JoinedQuery(replace(rule, body=body), tuple(constants))


# ---- many small plans in one call of a kernel

FIRST_WORDS = 1 << 12
MOST_WORDS, MOST_BATCHES = 1 << 20, 1 << 10  # in the cache, which may have plans that no longer exist


@dataclass(frozen=True, slots=True)
class PlanBatch:
    """What the kernel must know of plans that run together."""

    entries: Words
    indexes: Words  # the numbers of their indexes, plan after plan
    pivots: Words  # the tables that drive them


def batch_of(
    prepared: Sequence[Runnable], workspace: Workspace, start: Callable[[Runner], int]
) -> PlanBatch | None:
    """Return what the kernel must know of plans; None if it cannot run one. `start` adds a plan's code."""
    entries: list[tuple[int, ...]] = []
    indexes: list[int] = []
    for runner in prepared:
        if not isinstance(runner, Runner) or runner.plan.part is not Part.NEW:
            return None
        plan = runner.plan
        assert plan.pivot is not None
        workspace.make_room(plan.steps, plan.width)
        entries.append((start(runner), plan.pivot, plan.width, len(indexes), len(plan.indexes)))
        indexes += plan.indexes
    pivots = {entry[E_TABLE] for entry in entries}
    table = np.array(entries, np.int64).reshape(-1, E_WORDS)
    return PlanBatch(table, np.array(indexes, np.int64), np.array(list(pivots), np.int64))


class RoundRunner:
    """Runs plans together: a cache of their code, with where each begins. Mutable."""

    def __init__(self, catalog: Catalog, workers: Workers) -> None:
        self._catalog = catalog
        self._workers = workers
        self._words: Words = memory.zeros(FIRST_WORDS, np.int64)
        self._used = 0
        self._starts: dict[Runner, int] = {}
        self._batches: dict[tuple[Runnable, ...], PlanBatch | None] = {}

    def run(self, prepared: Sequence[Runnable]) -> list[int]:
        """Run plans in turn; return how many new facts each has found."""
        batch = self._known(tuple(prepared))
        if batch is None or self._is_worth_threads(batch):
            return [ready().new for ready in prepared]
        news = np.zeros(len(prepared), np.int64)
        calls = KernelCalls(self._catalog, self._workers, cast("Sequence[Runner]", prepared))
        calls.state[layout.Z_NUMBER] = 0
        while (
            request := run_round(*calls.arrays, self._words, batch.entries, batch.indexes, news, calls.state)
        ) != layout.DONE:
            calls.serve(int(request))
        counts: list[int] = news.tolist()
        return counts

    def run_to_end(self, prepared: Sequence[Runnable], tables: Words) -> bool:
        """Run rounds until nothing is new of the tables; return False, with nothing done, if it cannot."""
        batch = self._known(tuple(prepared))
        if batch is None:
            return False
        calls = KernelCalls(self._catalog, self._workers, cast("Sequence[Runner]", prepared))
        calls.state[layout.Z_NUMBER] = len(prepared)  # the first round is over
        progress = np.zeros(L_WORDS, np.int64)
        progress[L_IS_BEGUN], progress[L_MANY], progress[L_ROOM] = 1, ENDLESS, ENDLESS
        listed = np.stack([tables, np.full(len(tables), ENDLESS)], axis=1)
        rest = listed, NO_WATCHES, NO_RUNS, NO_ENDS, progress, calls.state
        while (
            request := run_rounds(*calls.arrays, self._words, batch.entries, batch.indexes, *rest)
        ) != layout.DONE:
            calls.serve(int(request))
        return True

    def run_rounds(
        self, tables: Words, rounds: ManyRounds, first: int, report: Callable[[RoundsRan], None]
    ) -> int | None:
        """Run rounds, the first with this number, until nothing is new or Python must run one.

        Return how many have ended; None if it cannot, with nothing done.
        """
        code: list[Words] = []
        starts = accumulate(
            (len(runner.words) for runner in rounds.plans if isinstance(runner, Runner)), initial=0
        )

        def start(runner: Runner) -> int:
            code.append(runner.words)
            return next(starts)

        batch = batch_of(rounds.plans, self._workers.workspaces[0], start)
        if batch is None or not code:
            return None
        run = RecordedRounds(self._catalog, self._workers, tables, rounds, first, report)
        return run.run(np.concatenate(code), batch)

    def forget(self) -> None:
        """Clear the cache of plans, some of which no longer exist."""
        self._starts, self._batches, self._used = {}, {}, 0

    def _known(self, key: tuple[Runnable, ...]) -> PlanBatch | None:
        """Return what the kernel must know of plans, from the cache; None if it cannot run one of them."""
        if key not in self._batches:
            if len(self._batches) >= MOST_BATCHES or self._used > MOST_WORDS:
                self.forget()
            self._batches[key] = batch_of(key, self._workers.workspaces[0], self._start)
        return self._batches[key]

    def _is_worth_threads(self, batch: PlanBatch) -> bool:
        """Return whether there are several threads, and rows enough for them."""
        words, pivots = self._catalog.descriptors, batch.pivots
        new = words[pivots, layout.CURRENT_END] - words[pivots, layout.OLD_END]
        return self._workers.threads > 1 and bool(new.max() >= plan_runner.PARALLEL_FROM)

    def _start(self, runner: Runner) -> int:
        """Return where the code of a plan begins, adding it if it is missing."""
        cached = self._starts.get(runner)
        if cached is not None:
            return cached
        words, begin = runner.words, self._used
        if begin + len(words) > len(self._words):
            self._words = memory.grown(self._words, begin, 2 * (begin + len(words)))
        self._words[begin : begin + len(words)] = words
        self._used += len(words)
        self._starts[runner] = begin
        return begin


class KernelCalls:
    """The calls of a kernel that runs several plans, and what it requests in between. Mutable."""

    def __init__(self, catalog: Catalog, workers: Workers, runners: Sequence[Runner]) -> None:
        self.catalog = catalog
        self.limits = workers.limits
        self.runners = runners
        self.workspace = workers.workspaces[0]
        self.state = self.workspace.state
        self.state[layout.Z_RUNNING] = 0
        self.state[layout.Z_BATCH] = self.workspace.batch
        self.state[layout.Z_BUDGET] = self.limits.budget()
        self.heads = np.array(list({runner.head.number for runner in runners}))
        if catalog.incomplete:
            for runner in runners:
                runner.complete_sets()
        self.counted = self._rows()

    @property
    def arrays(self) -> tuple[Words, Words, Words]:
        """What there is at present: tables, indexes, the dictionary."""
        return self.catalog.descriptors, self.catalog.indexes, self.catalog.dictionary.words

    @property
    def runner(self) -> Runner:
        """The plan at work."""
        return self.runners[int(self.state[layout.Z_NUMBER])]

    def serve(self, request: int) -> None:
        """Do what the kernel requests."""
        if request == layout.GROW_INDEX:
            index = self.catalog.index(int(self.state[layout.Z_WISH]))
            index.update(len(self.catalog.dictionary))
        else:
            self.runner.serve(request, self.workspace, self.unreported)

    @property
    def unreported(self) -> int:
        """How many facts have been found that are not reported yet."""
        return self._rows() - self.counted

    def _rows(self) -> int:
        """Return how many rows the tables have that plans insert into."""
        return int(self.catalog.descriptors[self.heads, layout.ROWS].sum())


# ---- many rounds of a stratum in one call, with a record of what each plan did in each

MOST_RUNS = 1 << 12  # recorded between two reports
MOST_ENDS = 1 << 16  # the numbers of rows after rounds
ENDLESS = 1 << 60
NO_WATCHES = np.zeros((0, W_WORDS), np.int64)
NO_RUNS = np.zeros((0, R_WORDS), np.int64)
NO_ENDS = np.zeros((0, 0), np.int64)


class RecordedRounds(KernelCalls):
    """Rounds at work, and what of them is not reported yet. Mutable."""

    def __init__(
        self,
        catalog: Catalog,
        workers: Workers,
        tables: Words,
        rounds: ManyRounds,
        first: int,
        report: Callable[[RoundsRan], None],
    ) -> None:
        super().__init__(catalog, workers, cast("Sequence[Runner]", rounds.plans))
        self.tables = tables
        self.rules = np.array(rounds.rules, np.int64)
        self.stratum = rounds.stratum
        self.tell = report
        self.listed = np.stack([tables, np.array(rounds.limits, np.int64)], axis=1)
        self.watches = np.array(
            [
                (catalog.table_number(name), column, -1 if value is None else catalog.identity(value))
                for name, column, value in rounds.watched
            ],
            np.int64,
        ).reshape(-1, W_WORDS)
        self.runs = np.zeros((MOST_RUNS, R_WORDS), np.int64)
        self.ends = np.zeros((max(MOST_ENDS // len(tables), 1), len(tables)), np.int64)
        self.progress = np.zeros(L_WORDS, np.int64)
        self.progress[L_ROUND], self.progress[L_MANY] = first, rounds.many
        self.visible = int(catalog.descriptors[tables, layout.CURRENT_END].sum())
        self.first = self.reported = first  # of the rounds, and of those not reported
        self.since = perf_counter_ns()
        self._renew()

    def run(self, words: Words, batch: PlanBatch) -> int:
        """Run rounds until nothing is new or Python must run one; return how many have ended."""
        rest = self.listed, self.watches, self.runs, self.ends, self.progress, self.state
        while True:
            request = int(run_rounds(*self.arrays, words, batch.entries, batch.indexes, *rest))
            match request:
                case layout.DONE | layout.LEAVE:
                    self.report()
                    return self.reported - self.first
                case layout.PAUSE | layout.FLUSH:
                    self.report()
                    self.limits.check(self.unreported)
                    self._renew()
                case _:
                    self.serve(request)

    def _renew(self) -> None:
        """Set how much may be done before the next check."""
        self.state[layout.Z_BUDGET] = self.limits.budget(self.unreported)
        self.progress[L_ROOM] = self.limits.room()

    def serve(self, request: int) -> None:
        """Do what the kernel requests; the time that it takes belongs to the plan at work."""
        start = perf_counter_ns()
        try:
            super().serve(request)
        except Overflow as overflow:
            raise EvaluationError(Diagnostic(overflow.code, str(overflow), self.runner.span)) from None
        except BaseException:
            self.report()  # an error says how far the work got
            raise
        self.progress[L_SERVED] += perf_counter_ns() - start

    def report(self) -> None:
        """Report what is recorded, and begin the next record."""
        progress, now = self.progress, perf_counter_ns()
        runs, ends = self.runs[: progress[L_RAN]], self.ends[: progress[L_ENDED]]
        for place, number in enumerate(self.tables.tolist()):
            self.catalog.tables[number].rounds.extend(ends[:, place].tolist())
        rows = ends.sum(axis=1)
        served = runs[:, R_SERVED]
        per_work = max(now - self.since - int(served.sum()), 0) / max(int(progress[L_WORK]), 1)
        ran = RoundsRan(
            self.stratum,
            np.stack([runs[:, R_ROUND], self.rules[runs[:, R_ENTRY]], *runs[:, R_MATCHES:R_WORK].T], axis=1),
            (served + per_work * runs[:, R_WORK]) / 1e9,
            self.reported,
            np.diff(rows, prepend=self.visible),
        )
        self.counted += int(runs[:, R_NEW].sum())
        self.reported += len(ends)
        self.visible = int(rows[-1]) if len(rows) else self.visible
        self.since = now
        progress[[L_RAN, L_ENDED, L_WORK]] = 0
        self.tell(ran)
