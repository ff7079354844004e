"""Rules' plans, prepared and run over whole relations; many queries with constants become joins. Mutable."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from tidelog.data.dictionary import Dictionary
from tidelog.data.rows import Ids, Rows
from tidelog.engine.columnar.interpreter.assemble import PlanCatalog, assemble
from tidelog.engine.columnar.interpreter.plan_runner import RoundRunner, Runner, Workers
from tidelog.engine.columnar.storage.catalog import Catalog
from tidelog.engine.columnar.storage.rounds import ColumnarRounds, TableGroup
from tidelog.engine.columnar.storage.storage import ColumnarStorage
from tidelog.engine.columnar.storage.table import Table
from tidelog.engine.events import PlanOutcome
from tidelog.engine.protocol import Runnable
from tidelog.logic.functions.builtins import AGGREGATES, evaluate
from tidelog.logic.program import Aggregation, Assignment, Atom, Constant, Rule, Term, Variable
from tidelog.logic.values import Kind, Value
from tidelog.plan.algebra import ANSWERS, CONSTANTS, Aggregate, Project, RulePlan
from tidelog.plan.compile import best_pivot, full_plan
from tidelog.plan.join_order import Statistics


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
            root, head = plan.root, self.catalog.table(plan.relation)
            return lambda: self._aggregate(root, head)
        return self._runner(plan, self.catalog)

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
        return Runner(assembled, self.catalog, self.workers, head)

    def _aggregate(self, root: Aggregate, head: Table) -> PlanOutcome:
        """Group the collected rows and insert one fact per group that has all its values."""
        facts, missing = group_facts(root, self.storage.rows(root.input.relation), self.catalog.dictionary)
        new = head.insert(facts.columns, facts.count, 0, len(self.catalog.dictionary))
        return PlanOutcome(facts.count, new, missing)

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
            self.prepare(full_plan(rule, -1, self.storage, ANSWERS))()
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


# ---- aggregation over columns of ids

Places = npt.NDArray[np.int64]
SAFE_SUM = 2.0**62


def group_facts(root: Aggregate, parameters: Rows, dictionary: Dictionary) -> tuple[Rows, int]:
    """Return the facts derived from groups of the given rows, and how many groups lack a value."""
    variables = [term for term in root.input.terms if isinstance(term, Variable)]
    columns = dict(zip(variables, parameters.columns, strict=True))
    groups = aggregate(columns, parameters.count, root.group, root.aggregations, dictionary)
    rows = len(next(iter(groups.values())))
    for assignment in root.after:
        groups[assignment.variable] = _computed(assignment, groups, rows, dictionary)
    has_values = np.ones(rows, bool)
    for column in groups.values():
        has_values &= column >= 0
    ids = [
        np.full(rows, dictionary.encode(term.value), np.int32) if isinstance(term, Constant) else groups[term]
        for term in root.terms
    ]
    count = int(has_values.sum())
    return Rows(tuple(column[has_values] for column in ids), count), rows - count


def _computed(assignment: Assignment, groups: dict[Variable, Ids], rows: int, dictionary: Dictionary) -> Ids:
    """Return the ids of an expression over the groups' columns; -1 where it, or a column, has no value."""
    out = np.full(rows, -1, np.int32)
    names = tuple(groups)
    for position, key in enumerate(zip(*(column.tolist() for column in groups.values()), strict=True)):
        if min(key) < 0:
            continue
        binding = dict(zip(names, map(dictionary.decode, key), strict=True))
        value = evaluate(assignment.expression, binding)
        if value is not None:
            out[position] = dictionary.encode(value)
    return out


def distinct_rows(columns: Sequence[Ids], rows: int) -> Places:
    """Return the positions of the distinct rows, in the order of their ids, first column first."""
    if not columns:
        return np.arange(min(rows, 1))
    order = np.lexsort(columns[::-1])
    return order[_starts_of_runs([column[order] for column in columns])]


def _starts_of_runs(columns: Sequence[Ids]) -> npt.NDArray[np.bool_]:
    """Return True where a row of sorted columns differs from the one before."""
    starts = np.zeros(len(columns[0]), bool)
    starts[:1] = True
    for column in columns:
        starts[1:] |= column[1:] != column[:-1]
    return starts


def aggregate(
    columns: dict[Variable, Ids],
    rows: int,
    group: Sequence[Variable],
    aggregations: Sequence[Aggregation],
    dictionary: Dictionary,
) -> dict[Variable, Ids]:
    """Return one row per group: the group's columns and each aggregation's, -1 where it has no value.

    The given rows are distinct.
    """
    keys = [columns[variable] for variable in group]
    groups = distinct_rows(keys, rows)
    result = {variable: columns[variable][groups] for variable in group}
    for aggregation in aggregations:
        values, bounds = _aggregated_rows(columns, rows, keys, aggregation, dictionary)
        result[aggregation.variable] = _compute(aggregation.function, values, bounds, dictionary)
    return result


def _aggregated_rows(
    columns: dict[Variable, Ids],
    rows: int,
    keys: Sequence[Ids],
    aggregation: Aggregation,
    dictionary: Dictionary,
) -> tuple[list[Ids], Places]:
    """Return the distinct (group, arguments) rows in the order of groups, and where each group begins."""
    arguments = [
        columns[term]
        if isinstance(term, Variable)
        else np.full(rows, dictionary.encode(term.value), np.int32)
        for term in aggregation.arguments
        if isinstance(term, Variable | Constant)
    ]
    rows_of_groups = distinct_rows([*keys, *arguments], rows)
    values = [argument[rows_of_groups] for argument in arguments]
    if not keys:
        return values, np.zeros(min(len(rows_of_groups), 1), np.int64)
    return values, np.flatnonzero(_starts_of_runs([key[rows_of_groups] for key in keys]))


def _compute(function: str, values: list[Ids], bounds: Places, dictionary: Dictionary) -> Ids:
    rows = len(values[0])
    if not len(bounds):
        return np.zeros(0, np.int32)
    if function == "count":
        return dictionary.encode_numbers(Kind.INTEGER, np.diff(bounds, append=rows))
    first = values[0]
    if function != "avg" and (dictionary.kind[first] == Kind.INTEGER).all():
        numbers = _integers(function, dictionary.payload[first], bounds)
        if numbers is not None:
            return dictionary.encode_numbers(Kind.INTEGER, numbers)
    return _by_definition(function, values, bounds, dictionary)


def _integers(function: str, numbers: npt.NDArray[np.int64], bounds: Places) -> npt.NDArray[np.int64] | None:
    """Return the aggregate of integers per group; None where a sum may leave 64 bits."""
    if function == "min":
        return np.minimum.reduceat(numbers, bounds)
    if function == "max":
        return np.maximum.reduceat(numbers, bounds)
    if np.abs(np.add.reduceat(np.abs(numbers.astype(np.float64)), bounds)).max() > SAFE_SUM:
        return None
    return np.add.reduceat(numbers, bounds)


def _by_definition(function: str, values: list[Ids], bounds: Places, dictionary: Dictionary) -> Ids:
    decoded = [dictionary.decode_all(column.tolist()) for column in values]
    rows = list(zip(*decoded, strict=True))
    ends = [*bounds[1:].tolist(), len(rows)]
    ids = np.empty(len(bounds), np.int32)
    for position, (start, end) in enumerate(zip(bounds.tolist(), ends, strict=True)):
        value = AGGREGATES[function](rows[start:end])
        ids[position] = -1 if value is None else dictionary.encode(value)
    return ids
