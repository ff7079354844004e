"""Bodies of rules over time, evaluated: groups of variables with the intervals at which all literals hold;
heads; violations.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol

import numpy as np

from tidelog.errors import Diagnostic, EvaluationError
from tidelog.logic.functions.builtins import Overflow
from tidelog.logic.program import (
    BOTTOM,
    Assignment,
    Atom,
    Comparison,
    Constant,
    Program,
    Rule,
    Variable,
    literal_variables,
    variables_of,
)
from tidelog.plan.algebra import Extend, Filter, Part, Project, RulePlan, Scan, Unit
from tidelog.plan.algebra import Node as PlanNode
from tidelog.plan.rule_text import Writing
from tidelog.temporal.interval_table import (
    IdColumns,
    Integers,
    IntervalBindings,
    IntervalLists,
    NumberedRows,
    RowIndex,
    TimedTable,
    always,
    distinct_rows,
    joined_rows,
    nothing,
    pairs,
    picked,
)
from tidelog.temporal.metric_rules import (
    Always,
    AtInterval,
    Body,
    CompiledMetricRule,
    Leaf,
    Node,
    Shifted,
    Since,
    Test,
    chain,
    leaves,
    since_intervals,
    with_alone,
)
from tidelog.temporal.timed_store import TimedStore

# ---- Tests and functions over groups, computed by the engine: they mean what they mean everywhere.

GIVEN, FOUND = "rows to test", "rows that pass"  # no predicate has such a name


class ExpressionEvaluator:
    """Computes with the engine whose dictionary the ids are of. Mutates it, and leaves nothing behind."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self.missing = 0  # rows that were dropped for want of a value

    def __call__(self, tests: Sequence[Test], groups: IntervalBindings) -> IntervalBindings:
        """The groups that pass the tests, with a column for each variable that is assigned."""
        bound = [test.variable.name for test in tests if isinstance(test, Assignment)]
        new = [name for name in dict.fromkeys(bound) if name not in groups.names]
        used = dict.fromkeys(variable.name for test in tests for variable in literal_variables(test))
        names = [name for name in used if name in groups.names]
        rows = distinct_rows(np.ascontiguousarray(groups.columns[groups.places(names)]))
        found = self._found(tests, names, new, rows)
        if not names:
            numbers = np.arange(len(groups)) if found.shape[1] else np.zeros(0, np.int64)
            places = np.zeros(len(numbers), np.int64)
        else:
            index = RowIndex(range(len(names)))
            index.follow(found, found.shape[1])
            numbers, places = index.matches(found, groups.columns, groups.places(names))
        kept = groups.taken(numbers)
        for place, name in enumerate(new, len(names)):
            kept = kept.extended(name, found[place, places])
        return kept

    def _found(self, tests: Sequence[Test], names: Sequence[str], new: Sequence[str], rows: Any) -> Any:
        """The rows of ids that pass, with the columns that are computed."""
        engine = self.engine
        given = tuple(Variable(name) for name in names)
        terms = tuple(Variable(name) for name in (*names, *new))
        known = set(names)
        node: PlanNode = Scan(GIVEN, Part.ALL, given) if given else Unit()
        pivot = node
        for test in tests:
            if not isinstance(test, Assignment):
                node = Filter(node, test)
            elif test.variable.name not in known:
                node = Extend(node, test.variable, test.expression)
                known.add(test.variable.name)
            else:
                check = Variable(f"{test.variable.name} again")
                node = Extend(node, check, test.expression)
                node = Filter(node, Comparison("=", test.variable, check))
        engine.define(GIVEN, len(given))
        engine.define(FOUND, len(terms))
        try:
            engine.add(GIVEN, list(rows), rows.shape[1] if given else 1)
            engine.begin([GIVEN, FOUND])
            assert isinstance(pivot, Scan | Unit)
            plan = RulePlan(FOUND, Project(node, terms), Rule(Atom(FOUND, terms), ()), 0, pivot)
            self.missing += engine.prepare(plan)().no_value
            columns, count = engine.rows(FOUND)
            return np.array(columns, np.int32).reshape(len(terms), count)
        except Overflow as overflow:
            raise EvaluationError(Diagnostic(overflow.code, str(overflow))) from None
        finally:
            engine.drop(GIVEN)
            engine.drop(FOUND)


# ---- Heads: from groups of variables to facts by number, and what a round derives of each predicate.


def head_rows(ready: CompiledMetricRule, groups: IntervalBindings) -> IdColumns:
    """The facts that groups lead to, as rows of ids."""
    count = len(groups)
    columns = [
        np.full(count, term, np.int32) if isinstance(term, int) else groups.column(term)
        for term in ready.terms
    ]
    return np.array(columns, np.int32).reshape(len(columns), count)


def head_facts(
    ready: CompiledMetricRule, groups: IntervalBindings, store: TimedStore
) -> tuple[Integers, IntervalLists]:
    """The facts that groups lead to, by number, perhaps repeated, and when they hold."""
    if not len(groups):  # evaluation has ended before all variables were bound
        return np.zeros(0, np.int64), nothing()
    lists = groups.lists
    for by in ready.moves:
        lists = lists.moved(by)
    return store.tables[ready.head].number(head_rows(ready, groups), len(groups)), lists


class IntervalBuffer:
    """What was derived, predicate by predicate. Mutable: it grows."""

    def __init__(self) -> None:
        self._parts: dict[str, list[tuple[Integers, IntervalLists]]] = {}

    def add(self, name: str, numbers: Integers, lists: IntervalLists) -> None:
        """Add facts of a predicate, with when they hold."""
        if len(numbers):
            self._parts.setdefault(name, []).append((numbers, lists))

    def __bool__(self) -> bool:
        return bool(self._parts)

    def take(self, name: str) -> tuple[Integers, IntervalLists]:
        """What `of` gives, which is no longer here afterwards."""
        found = self.of(name)
        self._parts.pop(name, None)
        return found

    def of(self, name: str) -> tuple[Integers, IntervalLists]:
        """The distinct facts of a predicate, in order, and when they hold."""
        parts = self._parts.get(name, [])
        if not parts:
            return np.zeros(0, np.int64), nothing()
        if len(parts) == 1:
            numbers, lists = parts[0]
            return lists.grouped(numbers)
        numbers = np.concatenate([numbers for numbers, _ in parts])
        return together([lists for _, lists in parts]).grouped(numbers)

    @property
    def names(self) -> tuple[str, ...]:
        """The predicates of which something was derived."""
        return tuple(self._parts)


def together(parts: Sequence[IntervalLists]) -> IntervalLists:
    """The lists of all parts, numbered on."""
    compact = [lists.rows() for lists in parts]
    count = np.concatenate([lists.count for lists in parts])
    left = np.concatenate([left for _, left, _ in compact])
    right = np.concatenate([right for _, _, right in compact])
    return IntervalLists(np.cumsum(count) - count, count, left, right)


# ---- Bodies of rules over time, evaluated: groups of variables with the intervals at which all literals
# hold.
#
# A body is driven by one of its atoms, the facts of which have just changed: what the metric atom around it
# gained, or lost, is joined with the other literals. Atoms before the driving one are read in the state
# `early`, those behind it in the state `late`, so that every instance is met once.

Compute = Callable[
    [Sequence[Test], IntervalBindings], IntervalBindings
]  # the groups that pass tests, with computed columns


class IntervalSource(Protocol):
    """Where atoms read facts."""

    def table(self, leaf: Leaf) -> TimedTable:
        """The facts of an atom's predicate."""

    def read(self, leaf: Leaf, numbers: Integers, part: Part) -> IntervalLists:
        """When facts hold, in a state."""

    def changed(self, leaf: Leaf) -> tuple[Integers, IntervalLists]:
        """The facts that just changed, and by what."""


@dataclass(frozen=True, slots=True)
class DrivingAtom:
    """The atom that drives a body, and the states in which the atoms before and behind it are read."""

    leaf: Leaf
    early: Part
    late: Part
    is_doubted: bool = False  # whatever what was lost had a part in is lost, even if it holds in other ways


@dataclass(frozen=True, slots=True)
class BodyEvaluation:
    """Evaluates bodies over facts; `compute` does tests and functions."""

    reading: IntervalSource
    compute: Compute

    # ---- rules

    def whole(
        self, body: Body, start: IntervalBindings | None = None, part: Part = Part.NOW
    ) -> IntervalBindings:
        """What follows from all facts; only what agrees with groups to begin with, if there are some."""
        return self._all_of(_start() if start is None else start, body, None, part)

    def driven(self, body: Body, driver: DrivingAtom) -> IntervalBindings:
        """What follows from the change of one atom's facts."""
        home = body.homes[driver.leaf]
        gained = self._change(home, driver)
        if home in body.positive:
            return self._all_of(gained.holding(), body, driver, Part.NOW, done=home)
        # A negation gains what its atom loses: where that is, others are asked for the variables besides.
        bound = tuple(name for name in home.names if name in body.outer[home])
        columns = gained.columns[gained.places(bound)] if bound else gained.columns[:0]
        return self._all_of(
            IntervalBindings(bound, np.ascontiguousarray(columns), gained.lists).holding(),
            body,
            driver,
            Part.NOW,
        )

    def _all_of(
        self,
        groups: IntervalBindings,
        body: Body,
        driver: DrivingAtom | None,
        part: Part,
        done: Node | None = None,
    ) -> IntervalBindings:
        """The groups for which all literals hold that are not done."""
        positive = [node for node in body.positive if node is not done]
        negative, tests = list(body.negative), list(body.tests)
        while len(groups) and (positive or negative or tests):
            bound = set(groups.names)
            ready = [test for test in tests if needed(test) <= bound]
            if ready:
                tests = [test for test in tests if test not in ready]
                groups = self.compute(ready, groups)
                continue
            node = next((node for node in negative if body.outer[node] <= bound), None)
            if node is not None:
                negative.remove(node)
                if driver is not None and body.homes[driver.leaf] is node:
                    # One fact of the atom has changed; the negation has, where no other holds.
                    groups = self._without(groups, node, None, driver.late)
                else:
                    groups = self._without(groups, node, driver, part)
                continue
            node = positive[0]
            if len(positive) > 1:
                node = min(positive, key=lambda node: self._cost(node, bound))
            positive.remove(node)
            groups = self._joined(groups, node, driver, part)
        return groups

    def _cost(self, node: Node, bound: set[str]) -> tuple[bool, int, int]:
        """What is matched first has variables that are bound, few others, and few facts."""
        names = set(node.names)
        size = sum(self.reading.table(leaf).facts.rows for leaf in leaves(node))
        return not (names & bound) and bool(bound), len(names - bound) if bound else 0, size

    def _joined(
        self, groups: IntervalBindings, node: Node, driver: DrivingAtom | None, part: Part
    ) -> IntervalBindings:
        """The groups with those of a metric atom that agree with them, while both hold."""
        link = chain(node)
        if link is not None and not set(groups.names).isdisjoint(node.names):
            return self._looked_up(groups, *link, driver, part)
        found = self.node(node, groups, driver, part)
        numbers, others = pairs(groups, found)
        lists = groups.lists.intersected(found.lists, numbers, others)
        return joined_rows(groups, found, numbers, others, lists).holding()

    def _looked_up(
        self,
        groups: IntervalBindings,
        leaf: Leaf,
        moves: Iterable[Integers],
        driver: DrivingAtom | None,
        part: Part,
    ) -> IntervalBindings:
        """The same for an atom under unary operators: its facts are looked up group by group."""
        facts = self.reading.table(leaf).facts
        keys = _bound_places(leaf, groups.names)
        numbers, rows = facts.matches(keys, _keys(leaf, keys, groups))
        if not leaf.is_plain:
            fitting = _fitting(facts.columns, rows, leaf)
            numbers, rows = numbers[fitting], rows[fitting]
        lists = self.reading.read(leaf, rows, _state(leaf, driver, part))
        for by in moves:
            lists = lists.moved(by)
        lists = groups.lists.intersected(lists, numbers, lists.numbers)
        kept = np.flatnonzero(lists.count > 0)
        names = [name for name in leaf.names if name not in groups.names]
        found = picked(facts.columns, [leaf.terms.index(name) for name in names], rows[kept])
        columns = np.vstack([groups.columns[:, numbers[kept]], found])
        return IntervalBindings((*groups.names, *names), columns, lists.taken(kept))

    def _without(
        self, groups: IntervalBindings, node: Node, driver: DrivingAtom | None, part: Part
    ) -> IntervalBindings:
        """The groups at the times at which a metric atom holds for no values of its own variables."""
        found = self.node(node, groups, driver, part).holding()
        numbers, others = pairs(groups, found)
        keys, lists = found.lists.taken(others).grouped(numbers)
        places = np.full(len(groups), -1)
        places[keys] = np.arange(len(keys))
        return groups.with_lists(groups.lists.without(lists, groups.lists.numbers, places)).holding()

    # ---- what changed

    def _change(self, node: Node, driver: DrivingAtom) -> IntervalBindings:
        """The points that a metric atom gained or lost by the change of the driving atom."""
        if node is driver.leaf:
            return self._leaf(driver.leaf, None, driver, Part.NOW, is_change=True)
        if driver.is_doubted:
            return self._doubted(node, driver)
        is_gain = driver.early is Part.BEFORE
        now = self.node(node, None, driver, Part.NOW)
        before = self.node(node, None, driver, Part.BEFORE)
        more, less = (now, before) if is_gain != driver.leaf.is_negated else (before, now)
        numbers = more.lists.numbers
        return more.with_lists(more.lists.without(less.lists, numbers, numbers))

    def _doubted(self, node: Node, driver: DrivingAtom) -> IntervalBindings:
        """The points at which a metric atom held that a point lost by the driving atom had a part in.

        What is left of a recursion may hold itself up: that a metric atom still holds proves nothing there.
        """
        lost = self._leaf(driver.leaf, None, driver, Part.NOW, is_change=True)
        lists = lost.lists
        for spread in _spreads(node, driver.leaf):
            lists = lists.moved(spread)
        before = self.node(node, None, driver, Part.BEFORE)
        numbers, others = pairs(before, lost)
        return before.taken(numbers).with_lists(before.lists.intersected(lists, numbers, others))

    # ---- metric atoms

    def node(
        self, node: Node, demand: IntervalBindings | None, driver: DrivingAtom | None, part: Part
    ) -> IntervalBindings:
        """The groups of a metric atom that agree with the demand, if there is one; some may hold never.

        `part` is the state of the driving atom, and of all atoms if there is none.
        """
        match node:
            case Leaf():
                return self._leaf(node, demand, driver, part)
            case Always():
                return _start()
            case Shifted(by=by, operand=operand):
                groups = self.node(operand, demand, driver, part)
                return groups.with_lists(groups.lists.moved(by))
            case AtInterval((left, right), operand, is_throughout):
                groups = self._leaf(operand, demand, driver, part)
                owners, lefts, rights = groups.lists.rows()
                ends = (left, right) if is_throughout else (right, left)
                kept = np.unique(owners[(lefts <= ends[0]) & (rights >= ends[1])])
                return groups.taken(kept).with_lists(always(len(kept)))
            case Since():
                return self._since(node, demand, driver, part)

    def _since(
        self, node: Since, demand: IntervalBindings | None, driver: DrivingAtom | None, part: Part
    ) -> IntervalBindings:
        if driver is not None and driver.leaf in set(leaves(node.left)):
            left = self.node(node.left, None, driver, part)
            right = self.node(node.right, left, driver, part)
        else:
            right = self.node(node.right, demand, driver, part)
            asked = right if set(right.names) & set(node.left.names) else demand
            left = self.node(node.left, asked, driver, part)
        numbers, others = pairs(left, right)
        if not node.parts.alone:
            lists = since_intervals(node.parts, left.lists, right.lists, numbers, others)
            return joined_rows(right, left, others, numbers, lists)
        partners = np.full(len(right), -1)
        partners[others] = numbers
        every = right.lists.numbers
        lists = since_intervals(node.parts, left.lists, right.lists, partners, every)
        return right.with_lists(with_alone(node.parts, lists, right.lists, every))

    def _leaf(
        self,
        leaf: Leaf,
        demand: IntervalBindings | None,
        driver: DrivingAtom | None,
        part: Part,
        *,
        is_change: bool = False,
    ) -> IntervalBindings:
        facts = self.reading.table(leaf).facts
        if driver is not None and driver.leaf is leaf:
            numbers, change = self.reading.changed(leaf)
            if not leaf.is_plain:
                kept = _fitting(facts.columns, numbers, leaf)
                numbers, change = numbers[kept], change.taken(kept)
            lists = change if is_change else self.reading.read(leaf, numbers, part)
        else:
            numbers = _numbers(leaf, facts, demand)
            lists = self.reading.read(leaf, numbers, _state(leaf, driver, part))
        places = [leaf.terms.index(name) for name in leaf.names]
        return IntervalBindings(leaf.names, picked(facts.columns, places, numbers), lists)


def _spreads(node: Node, leaf: Leaf) -> Iterator[Integers]:
    """How points of an atom count further and further out, from the atom on."""
    match node:
        case Shifted(operand=operand, spread=spread):
            yield from _spreads(operand, leaf)
            yield spread
        case Since(left=left, right=right, spreads=spreads):
            is_left = any(one is leaf for one in leaves(left))
            yield from _spreads(left if is_left else right, leaf)
            yield spreads[0 if is_left else 1]


def _state(leaf: Leaf, driver: DrivingAtom | None, part: Part) -> Part:
    """The state in which an atom is read that does not drive its body."""
    if driver is None:
        return part
    return driver.early if leaf.number < driver.leaf.number else driver.late


def _numbers(leaf: Leaf, facts: NumberedRows, demand: IntervalBindings | None) -> Integers:
    """The numbers of an atom's facts that agree with the demand."""
    keys = _bound_places(leaf, () if demand is None else demand.names)
    if not keys:
        numbers = np.arange(facts.rows)
    else:
        numbers = facts.matches(keys, distinct_rows(_keys(leaf, keys, demand)))[1]
    return numbers if leaf.is_plain else numbers[_fitting(facts.columns, numbers, leaf)]


def _bound_places(leaf: Leaf, names: Sequence[str]) -> list[int]:
    """Where an atom has constants, or variables of these names."""
    return [place for place, term in enumerate(leaf.terms) if isinstance(term, int) or term in names]


def _keys(leaf: Leaf, places: Sequence[int], demand: IntervalBindings | None) -> IdColumns:
    """The rows of ids that an atom's columns are to have at these places, one for each group asked for."""
    rows = np.empty((len(places), 1 if demand is None else len(demand)), np.int32)
    for row, place in zip(rows, places, strict=True):
        term = leaf.terms[place]
        row[:] = term if isinstance(term, int) or demand is None else demand.column(term)
    return rows


def _fitting(columns: IdColumns, numbers: Integers, leaf: Leaf) -> Integers:
    """The places of those facts that have an atom's constants, and equal ids where it repeats a variable."""
    kept = np.ones(len(numbers), bool)
    for place, term in enumerate(leaf.terms):
        first = leaf.terms.index(term)
        if isinstance(term, int):
            kept &= columns[place, numbers] == term
        elif first < place:
            kept &= columns[place, numbers] == columns[first, numbers]
    return np.flatnonzero(kept)


def _start() -> IntervalBindings:
    """The group without variables that holds always."""
    return IntervalBindings((), np.zeros((0, 1), np.int32), always(1))


def needed(test: Test) -> set[str]:
    """The variables that must be bound for a test."""
    used = variables_of(test.expression) if isinstance(test, Assignment) else literal_variables(test)
    return {variable.name for variable in used}


# ---- Which rules make the facts inconsistent over time, when, and by which facts.

INCONSISTENT = "E601"
MOST = 10  # rules that are reported
SHOWN = 3  # intervals
STATED = Diagnostic(INCONSISTENT, "inconsistent: bottom() is stated")
WHY = "`tidelog explain PROGRAM 'bottom()'`, or `reasoner.explain(…)`, says why"


@dataclass(frozen=True, slots=True)
class TimedViolation:
    """The first instance of a rule by which `bottom()` holds: of so many, when, and by which facts."""

    body: int  # of the rule's bodies, if it has several
    ways: int
    left: int  # the end at which it begins to hold
    times: str
    facts: str

    def diagnostic(self, rule: Rule) -> Diagnostic:
        """Return it as the diagnostic of a rule."""
        named = f" by the rule {rule.name!r}" if rule.name else ""
        ways = "" if self.ways == 1 else f", in {self.ways:,} ways, first"
        message = f"inconsistent: bottom() derived{named}{ways} at {self.times}"
        help = f"from {self.facts}\n        {WHY}" if self.facts else WHY
        return Diagnostic(INCONSISTENT, message, rule.span, help)


def first_of(found: Sequence[TimedViolation]) -> TimedViolation:
    """Return what tasks have found of one rule, each among its own facts, as one."""
    body = min(each.body for each in found)
    same = [each for each in found if each.body == body]
    first = min(same, key=lambda each: each.left)
    return replace(first, ways=sum(each.ways for each in same))


def violations(program: Program, store: TimedStore, first: int) -> list[Diagnostic]:
    """A diagnostic for each rule by which `bottom()` holds at a left end or later."""
    evaluation = BodyEvaluation(store, ExpressionEvaluator(store.engine))
    found: list[Diagnostic] = []
    for ready in store.ready(program):
        if ready.head == BOTTOM and len(found) < MOST:
            violation = instance_of(ready, ready.rule, program, evaluation, store, first)
            if violation is not None:
                found.append(violation.diagnostic(ready.rule))
    return found or [STATED]


def instance_of(
    ready: CompiledMetricRule,
    rule: Rule,
    program: Program,
    evaluation: BodyEvaluation,
    store: TimedStore,
    first: int,
) -> TimedViolation | None:
    """Return the first instance of a rule, if there is one.

    It is made ready for relations of a task, perhaps; `rule` is the one that the program has.
    """
    for number, body in enumerate(ready.bodies):
        groups = evaluation.whole(body)
        lists = groups.lists
        for by in ready.moves:
            lists = lists.moved(by)
        lists = lists.later(first)
        kept = np.flatnonzero(lists.count > 0)
        if not len(kept):
            continue
        starts = lists.left[lists.first[kept]]
        chosen = kept[np.argmin(starts)]
        values = {name: int(groups.column(name)[chosen]) for name in groups.names}
        times = _times(lists.taken(np.array([chosen])), store)
        pairs = zip(rule.positive, ready.rule.positive, strict=True)
        facts = ", ".join(_facts(pairs, values, program, store))
        return TimedViolation(number, len(kept), int(starts.min()), times, facts)
    return None


def _facts(
    atoms: Iterable[tuple[Atom, Atom]], values: Mapping[str, int], program: Program, store: TimedStore
) -> Iterator[str]:
    """The facts that atoms are for some values, with when they hold; each with the atom as it is read."""
    writing = Writing.of(program)
    for atom, read in atoms:
        names = [term.name for term in atom.terms if isinstance(term, Variable)]
        if read.predicate not in store.tables or not all(name in values for name in names):
            continue
        decode, encode = store.engine.dictionary.decode, store.engine.dictionary.encode
        ids = [values[term.name] if isinstance(term, Variable) else encode(term.value) for term in atom.terms]
        table = store.tables[read.predicate]
        number = table.facts.find(np.array(ids, np.int32).reshape(len(ids), 1), 1)
        text = writing.atom(Atom(atom.predicate, tuple(Constant(decode(one)) for one in ids)))
        if number[0] >= 0 and atom.predicate in program.timed:
            text += f" at {_times(table.lists.taken(number), store)}"
        yield text


def _times(lists: IntervalLists, store: TimedStore) -> str:
    """The first intervals of a list."""
    _, left, right = lists.rows()
    ends = list(zip(left.tolist(), right.tolist(), strict=True))
    texts = [str(store.timeline.decode(*each)) for each in ends[:SHOWN]]
    more = f" and {len(ends) - SHOWN:,} more intervals" if len(ends) > SHOWN else ""
    return ", ".join(texts) + more
