"""The tables of one component: how rounds fill them, and how deleted facts are retracted. Mutable."""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from itertools import combinations, groupby
from typing import TYPE_CHECKING

import numpy as np

from tidelog.logic.program import Atom, Literal, Negation, Rule
from tidelog.plan.algebra import (
    CALLED,
    COLLECTED,
    CONTEXT,
    INSERTED,
    JOINED,
    RETRACTED,
    Aggregate,
    Part,
    RulePlan,
    Scan,
)
from tidelog.plan.compile import collected_variables
from tidelog.query.strategy import Answers
from tidelog.query.table_rules import (
    CallPattern,
    Dispatch,
    DrivenRule,
    Grouping,
    Variant,
    accepting,
    answers_of,
    drives,
    relations_of,
    relations_read,
    resting,
    run_once,
    run_together,
)
from tidelog.records import dataclass

if TYPE_CHECKING:
    from tidelog.engine.columnar.engine import ColumnarEngine
    from tidelog.engine.columnar.storage.rounds import TableGroup

# ---- tables of one component, filled in rounds
#
# A component holds the predicates that depend on each other, the patterns in which they are requested, and
# the rules of these. A round calls requested subgoals, completes lower components for what these request, and
# runs the rules that read new rows.
#
# Invariant: between runs, the tables hold the answers to all subgoals that were requested.


@dataclass
class SubgoalTable:
    """A pattern in use: the rules that answer it, and the one that turns requests into calls."""

    pattern: CallPattern
    variant: Variant | None = None  # written when there is a call
    accept: DrivenRule | None = None  # None after patterns that subsume it have come into use
    demands: list[Rule] = field(default_factory=list)
    steps: list[Rule] = field(default_factory=list)
    # Demands and steps, driven by new rows of the component:
    driven: tuple[list[DrivenRule], list[DrivenRule]] = ([], [])
    # Rules driven by inserted facts, atom by atom:
    following: dict[tuple[Rule, int], DrivenRule] = field(default_factory=dict)


OWNED = (JOINED, CONTEXT, COLLECTED)  # prefixes of the relations of one component
FEW_DENSE_BYTES = 1 << 20


class TabledComponent:
    """The tables of predicates that depend on each other, or are evaluated together for other reasons."""

    def __init__(
        self,
        predicates: Sequence[str],
        engine: ColumnarEngine,
        write: Callable[[CallPattern], Variant],
        together_with: Sequence[str] = (),
    ) -> None:
        self.predicates = tuple(predicates)
        self.engine = engine
        self.tables: dict[CallPattern, SubgoalTable] = {}
        self.last_used = 0
        self.secured = 0  # the number of dropped tables when all requested patterns last had tables
        self.is_detached = False  # tables that it has read were dropped
        self._write = write
        self._answers = frozenset(map(answers_of, (*predicates, *together_with)))
        self._own_answers = frozenset(map(answers_of, predicates))
        self._bytes: int | None = None  # None, if rows were added since it was computed
        self._relations: dict[
            str, None
        ] = {}  # all that it owns, except those of requested and called subgoals
        self._tables_by_request: dict[str, SubgoalTable] = {}  # tables by the relations of requested subgoals
        self._group: TableGroup | None = None  # of all its relations
        self._dispatch: list[Dispatch | None] = [None, None]  # of demands and of steps

    # ---- relations

    def has(self, relation: str) -> bool:
        """Whether it has defined a relation."""
        return relation in self._relations

    def owns(self, relation: str) -> bool:
        """Whether a relation holds its answers, or joins on the way to them."""
        return relation in self._own_answers or relation.startswith(OWNED)

    @property
    def relations(self) -> list[str]:
        """All relations that hold its tables."""
        patterns = [name for each in self.tables for name in (each.asked, each.called)]
        return [*self._relations, *patterns]

    @property
    def bytes(self) -> int:
        """The memory that its tables hold."""
        if self._bytes is None:
            self._bytes = sum(map(self.engine.storage.bytes_of, self.relations))
        return self._bytes

    def table(self, pattern: CallPattern) -> SubgoalTable:
        """Return the table of a pattern, created now if there is none."""
        table = self.tables.get(pattern)
        if table is None:
            table = self.tables[pattern] = self._tables_by_request[pattern.asked] = SubgoalTable(pattern)
            arity = len(pattern.binding.bound)
            self.engine.storage.define(pattern.asked, arity, FEW_DENSE_BYTES)
            self.engine.storage.define(pattern.called, arity, FEW_DENSE_BYTES)
            self._define(answers_of(pattern.predicate), len(pattern.adornment))
            self._group = None
        return table

    def _define(self, relation: str, arity: int) -> None:
        if relation not in self._relations:
            dense_bytes = None if relation in self._own_answers else FEW_DENSE_BYTES
            self.engine.storage.define(relation, arity, dense_bytes)
            self._relations[relation] = None
            self._group = None

    def drop(self) -> None:
        """Drop all tables."""
        for relation in self.relations:
            self.engine.storage.drop(relation)
        self.tables, self._tables_by_request, self._relations, self._bytes = {}, {}, {}, None
        self._group, self._dispatch = None, [None, None]
        self.is_detached = False

    def clear(self) -> None:
        """Empty the tables; their prepared rules stay."""
        for relation in self.relations:
            self.engine.storage.clear(relation)

    # ---- rounds

    def advance(self) -> list[str]:
        """Begin a round: call requested subgoals, general ones first; return the relations with new rows."""
        if self._group is None:
            self._group = self.engine.rounds.group(self.relations)
        grown = self.engine.rounds.advance_group(self._group)
        if not grown:
            return []
        self._bytes = None
        tables = self._tables_by_request
        requested = sorted((tables[name] for name in grown if name in tables), key=_bound)
        relations = dict.fromkeys(name for name in grown if name not in tables)
        for _, group in groupby(requested, _bound):
            relations |= dict.fromkeys(self._accept(list(group)))
        return list(relations)

    def _accept(self, tables: Sequence[SubgoalTable]) -> list[str]:
        """Call requested subgoals unless more general calls answer them; return the relations of calls.

        None of the patterns is more general than another.
        """
        accepted = run_together(map(self._accepting, tables), self.engine, _proceed)
        accepted_calls = [drive.rule.head.predicate for drive, new in accepted if new]
        for table in tables:
            if table.pattern.called in accepted_calls:
                self._use(table)
                self.engine.rounds.extend_new(table.pattern.called)
        return accepted_calls

    def _accepting(self, table: SubgoalTable) -> DrivenRule:
        """Return the rule that turns requests into calls."""
        if table.accept is None:
            rule = accepting(table.pattern, self._general(table.pattern))
            table.accept = DrivenRule(rule, 0, (table.pattern.asked,), self.engine)
        return table.accept

    def demands(self, grown: Collection[str]) -> Iterator[DrivenRule]:
        """The rules that may request subgoals because of new rows of these relations."""
        return self._dispatched(0).due(grown)

    def steps(self, grown: Collection[str]) -> Iterator[DrivenRule]:
        """The rules that may find answers in new rows of these relations."""
        return self._dispatched(1).due(grown)

    def _dispatched(self, kind: int) -> Dispatch:
        dispatch = self._dispatch[kind]
        if dispatch is None:
            tables = self.tables.values()
            dispatch = self._dispatch[kind] = Dispatch(
                (drive for table in tables for drive in table.driven[kind]), self.engine
            )
        return dispatch

    def _use(self, table: SubgoalTable) -> None:
        """Write the rules of a table with calls; tables that it subsumes skip the calls that it answers."""
        if table.variant is None:
            table.variant = self._write(table.pattern)
            self._prepare(table)
            for special in list(self.tables.values()):
                if table.pattern.subsumes(special.pattern):
                    special.accept = None
                    if special.variant is not None:
                        self._prepare(special)

    def _general(self, pattern: CallPattern) -> tuple[CallPattern, ...]:
        """The patterns with calls that subsume a pattern."""
        return tuple(
            each.pattern
            for each in self.tables.values()
            if each.variant is not None and each.pattern.subsumes(pattern)
        )

    def _prepare(self, table: SubgoalTable) -> None:
        """Prepare the rules of a table, which skip the calls that more general ones answer."""
        variant = table.variant
        assert variant is not None
        for name, arity in relations_of((*variant.demands, *variant.steps)):
            if self.owns(name):
                self._define(name, arity)
        general = self._general(table.pattern)
        table.demands, table.steps = (
            [resting(rule, table.pattern, general) for rule in rules]
            for rules in (variant.demands, variant.steps)
        )
        table.driven = self._drives(table.demands), self._drives(table.steps)
        table.following = {}
        self._dispatch = [None, None]

    def _drives(self, rules: Iterable[Rule]) -> list[DrivenRule]:
        """Rules driven by the new rows of the component."""
        return [drive for rule in rules for drive in drives(rule, self._own(rule), self.engine)]

    def _own(self, rule: Rule) -> set[str]:
        """The relations that a rule reads and that grow while the component is completed."""
        read = {atom.predicate for atom in rule.positive}
        return {name for name in read if name in self._answers or name.startswith((*OWNED, CALLED))}

    # ---- inserted facts

    def can_follow(self, grown: Collection[str]) -> bool:
        """Whether its tables can be extended when these relations grow: they only get more answers."""
        reading = [rule for rule in self._rules() if not relations_read(rule).isdisjoint(grown)]
        return not (reading and self.is_detached) and not any(
            rule.head.predicate.startswith(COLLECTED) or any(atom.predicate in grown for atom in rule.negated)
            for rule in reading
        )

    def reads(self, relations: Collection[str]) -> bool:
        """Whether its rules read one of the relations."""
        return any(not relations_read(rule).isdisjoint(relations) for rule in self._rules())

    def _rules(self) -> Iterator[Rule]:
        for table in self.tables.values():
            if table.variant is not None:
                yield from (*table.variant.demands, *table.variant.steps)

    def follow(self, grown: Mapping[str, str], demands: bool, check: Callable[[], None]) -> Iterator[str]:
        """Derive facts from inserted ones, which are in these relations; yield the relations with new facts.

        `grown` has, by relation, the one that holds its inserted facts.
        """
        for table in self.tables.values():
            for rule in table.demands if demands else table.steps:
                for position, literal in enumerate(rule.body):
                    if isinstance(literal, Atom) and literal.predicate in grown:
                        drive = self._extending(table, rule, position, grown[literal.predicate])
                        if not drive.is_idle and drive.run(check):
                            yield rule.head.predicate

    def _extending(self, table: SubgoalTable, rule: Rule, position: int, inserted: str) -> DrivenRule:
        """A rule whose atom at a position reads the inserted facts."""
        driven = table.following.get((rule, position))
        if driven is None:
            atom = rule.body[position]
            assert isinstance(atom, Atom)
            body = (*rule.body[:position], Atom(inserted, atom.terms), *rule.body[position + 1 :])
            driven = table.following[rule, position] = DrivenRule(
                replace(rule, body=body), position, (inserted,), self.engine
            )
        return driven

    def call_again(self, retracted: Mapping[str, str]) -> dict[str, str]:
        """Call ground subgoals again whose answers were deleted.

        `retracted` are the relations of the deleted answers. Subgoals that had not been called are called
        now. For the others, return the relations of repeated calls, by the relation of all calls.
        """
        engine = self.engine
        repeated: dict[str, str] = {}
        for table in list(self.tables.values()):
            lost = retracted.get(answers_of(table.pattern.predicate))
            if lost is None or not table.pattern.is_ground:
                continue
            rule = accepting(table.pattern, self._general(table.pattern))
            called, deleted_answer = rule.head, Atom(lost, rule.head.terms)
            name = repeated[called.predicate] = f"{INSERTED}{called.predicate}"
            engine.storage.define(name, len(called.terms), FEW_DENSE_BYTES)
            engine.storage.clear(name)
            run_once(Rule(Atom(name, called.terms), (deleted_answer, called)), engine)
            engine.rounds.advance([name])
            if run_once(replace(rule, body=(deleted_answer, *rule.body)), engine):
                self._use(table)
        return repeated

    def forget_plans(self) -> None:
        """Discard all plans: relations that they read have tombstones now, or no longer."""
        for table in self.tables.values():
            table.accept = None
            for drive in (*table.driven[0], *table.driven[1], *table.following.values()):
                drive.forget_plan()

    def group(self) -> bool:
        """Aggregate the collected rows; return whether there were any."""
        has_rows = False
        for table in self.tables.values():
            for grouping in table.variant.groupings if table.variant is not None else ():
                if self.engine.storage.size(grouping.collected):
                    self.engine.plans.prepare(_grouping_plan(grouping))()
                    self.engine.storage.clear(grouping.collected)
                    has_rows = True
        return has_rows


def _bound(table: SubgoalTable) -> int:
    """How many arguments of a table's pattern are bound."""
    return table.pattern.adornment.count("b")


def _grouping_plan(grouping: Grouping) -> RulePlan:
    rule = grouping.rule
    scan = Scan(grouping.collected, Part.ALL, collected_variables(rule))
    root = Aggregate(scan, rule.group, rule.aggregations, rule.after, rule.head.terms)
    return RulePlan(rule.head.predicate, root, rule, 0, scan)


def _proceed() -> None:
    """A check that never interrupts."""


# ---- deleted facts
#
# Gupta, Mumick, Subrahmanian: Maintaining Views Incrementally, SIGMOD 1993, for deletion and rederivation.
# All rows of tables that an instance with a deleted fact derives are deleted, and those that another instance
# derives are inserted again. Requests and calls stay: answers that are not needed do no harm.
#
# A subgoal without variables is skipped once it is true, and may not have read all its instances: if its
# answer is deleted, it is called again.
#
# Invariant: once the component is completed again, the tables hold the answers to requests, and no others.

MOST_CHANGED = 3  # atoms of a rule whose relations have deleted facts: more have too many combinations


class Retraction:
    """Deletes rows from a component's tables after deletions of facts that it reads.

    `deleted` names, for each relation, the one that holds its deleted facts.
    """

    def __init__(
        self, component: TabledComponent, deleted: dict[str, str], check: Callable[[], None]
    ) -> None:
        self.component = component
        self.engine: ColumnarEngine = component.engine
        self.deleted = deleted
        self.check = check
        self.retracted: dict[str, str] = {}  # the relations of retracted rows, by the relations they were in

    @property
    def is_feasible(self) -> bool:
        """Whether no rule reads too many relations with deleted facts."""
        return all(len(self._with_deletions(rule)) <= MOST_CHANGED for rule in self._unskipped())

    def retract(self) -> None:
        """Delete all rows that an instance with a deleted fact derives."""
        rules = [self._retracting(rule) for rule in self._unskipped()]
        for rule in rules:
            self.engine.storage.define(rule.head.predicate, len(rule.head.terms))
            self.engine.storage.clear(rule.head.predicate)
        for rule in rules:
            for positions in _choices(self._with_deletions(rule)):
                run_once(_reading(rule, positions, self.deleted), self.engine)
                self.check()
        names = {rule.head.predicate for rule in rules}
        driven = (step for rule in rules for step in self._driven(rule) if step.relation in names)
        steps = Dispatch(driven, self.engine)
        group = self.engine.rounds.group(names)
        while grown := self.engine.rounds.advance_group(group):
            for step in steps.due(grown):
                step.run(self.check)
        self.retracted = {
            name.removeprefix(RETRACTED): name for name in names if self.engine.storage.size(name)
        }
        for relation, retracted in self.retracted.items():
            self.engine.storage.remove(relation, *self.engine.storage.rows(retracted))

    def restore(self) -> None:
        """Insert those rows again that another instance derives."""
        for table in self.component.tables.values():
            for rule in table.steps:
                retracted = self.retracted.get(rule.head.predicate)
                if retracted is not None:
                    run_once(replace(rule, body=(Atom(retracted, rule.head.terms), *rule.body)), self.engine)
                    self.check()

    def answers(self) -> Iterator[tuple[str, Answers]]:
        """The deleted answers, by relation, once the component is completed."""
        for relation in map(answers_of, self.component.predicates):
            if relation in self.retracted:
                columns, count = self.engine.storage.rows(self.retracted[relation])
                is_deleted = self.engine.storage.row_flags(relation, columns, count) == 0
                if is_deleted.any():
                    yield (
                        relation,
                        (tuple(column[is_deleted] for column in columns), int(np.count_nonzero(is_deleted))),
                    )

    # ---- rules

    def _unskipped(self) -> Iterator[Rule]:
        """The rules of the component that fill tables, before calls are skipped."""
        for table in self.component.tables.values():
            for rule in table.variant.steps if table.variant is not None else ():
                if self.component.owns(rule.head.predicate):
                    yield rule

    def _retracting(self, rule: Rule) -> Rule:
        """A rule that finds the rows of tables that its instances have given, for skipped calls too."""
        body = (literal for literal in rule.body if not self._skips_calls(literal))
        return Rule(Atom(RETRACTED + rule.head.predicate, rule.head.terms), (rule.head, *body))

    def _skips_calls(self, literal: Literal) -> bool:
        return isinstance(literal, Negation) and (
            literal.atom.predicate.startswith(CALLED) or self.component.owns(literal.atom.predicate)
        )

    def _with_deletions(self, rule: Rule) -> list[int]:
        """The positions of the atoms whose relations have deleted facts."""
        return [
            position
            for position, literal in enumerate(rule.body)
            if isinstance(literal, Atom) and literal.predicate in self.deleted
        ]

    def _driven(self, rule: Rule) -> Iterator[DrivenRule]:
        """A rule driven by retracted rows of its component's tables, with each choice of other deletions."""
        for position, literal in enumerate(rule.body[1:], 1):
            if isinstance(literal, Atom) and self.component.owns(literal.predicate):
                name = RETRACTED + literal.predicate
                driven = _reading(rule, (position,), {literal.predicate: name})
                for positions in ((), *_choices(self._with_deletions(rule))):
                    yield DrivenRule(
                        _reading(driven, positions, self.deleted), position, (name,), self.engine
                    )


def _choices(positions: Sequence[int]) -> Iterator[tuple[int, ...]]:
    """Each choice of at least one position."""
    for count in range(1, len(positions) + 1):
        yield from combinations(positions, count)


def _reading(rule: Rule, positions: Sequence[int], names: Mapping[str, str]) -> Rule:
    """The rule with the atoms at these positions reading other relations."""
    body = list(rule.body)
    for position in positions:
        atom = body[position]
        assert isinstance(atom, Atom)
        body[position] = Atom(names[atom.predicate], atom.terms)
    return replace(rule, body=tuple(body))
