"""Evaluation of bodies of rules over time, by the algebra of `interval_bindings`; inconsistencies over time.

A body is evaluated over all facts, or driven by one of its atoms, the facts of which have just changed: the
points that the metric atom around it gained or lost are joined with the other literals. Atoms before the
driving one are read in the state `early`, those behind it in the state `late`, so that every instance is
found once.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING, Protocol

import numpy as np

from tidelog.data.rows import Rows, distinct
from tidelog.engine.events import MissingValues
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
from tidelog.plan.inconsistency import MOST, TimedViolation, intervals_text, timed_fact_text
from tidelog.plan.rule_text import Writing
from tidelog.records import dataclass
from tidelog.temporal.interval_bindings import IntervalBindings, matching, numbers_of
from tidelog.temporal.interval_table import IdColumns, Integers, IntervalLists, TimedTable
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
    compile_metric_rule,
    leaves,
)
from tidelog.temporal.timed_store import NO_FACTS, TimedStore

if TYPE_CHECKING:
    from tidelog.engine.columnar.engine import ColumnarEngine

INPUT, PASSED = "rows to test", "rows that pass"  # no predicate has such a name


class ExpressionEvaluator:
    """Evaluates tests and functions in the engine whose dictionary the ids are of, so that they mean the same
    with and without time. Mutates the engine, and drops all that it added.
    """

    def __init__(self, engine: ColumnarEngine) -> None:
        self.engine = engine
        self.missing = 0  # rows that were dropped for want of a value

    def __call__(
        self, tests: Sequence[Test], names: Sequence[str], new: Sequence[str], rows: IdColumns
    ) -> IdColumns:
        """The rows of variables that pass the tests, with a column for each new one, which they assign."""
        engine = self.engine
        bound = tuple(Variable(name) for name in names)
        terms = tuple(Variable(name) for name in (*names, *new))
        known = set(names)
        node: PlanNode = Scan(INPUT, Part.ALL, bound) if bound else Unit()
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
        engine.storage.define(INPUT, len(bound))
        engine.storage.define(PASSED, len(terms))
        try:
            engine.storage.add(INPUT, list(rows), rows.shape[1] if bound else 1)
            engine.rounds.begin([INPUT, PASSED])
            assert isinstance(pivot, Scan | Unit)
            plan = RulePlan(PASSED, Project(node, terms), Rule(Atom(PASSED, terms), ()), 0, pivot)
            self.missing += engine.plans.prepare(plan)().no_value
            columns, count = engine.storage.rows(PASSED)
            return np.array(columns, np.int32).reshape(len(terms), count)
        except Overflow as overflow:
            raise EvaluationError(Diagnostic(overflow.code, str(overflow))) from None
        finally:
            engine.storage.drop(INPUT)
            engine.storage.drop(PASSED)


class IntervalSource(Protocol):
    """Where atoms read facts."""

    def table(self, leaf: Leaf) -> TimedTable:
        """The facts of an atom's predicate."""

    def read(self, leaf: Leaf, numbers: Integers, part: Part) -> IntervalLists:
        """The intervals of facts, `Part.NOW` or `Part.BEFORE` the last change."""

    def changed(self, leaf: Leaf) -> tuple[Integers, IntervalLists]:
        """The facts that just changed, and the points that they gained or lost."""


@dataclass(frozen=True, slots=True)
class DrivingAtom:
    """The atom that drives a body, and the states in which the atoms before and behind it are read."""

    leaf: Leaf
    early: Part
    late: Part
    is_overdeletion: bool = False  # all that a lost point had a part in is lost, even if it holds otherwise

    @property
    def is_gain(self) -> bool:
        """Whether the metric atom around it gains points by the change."""
        return (self.early is Part.BEFORE) != self.leaf.is_negated


@dataclass(frozen=True, slots=True)
class BodyEvaluation:
    """Evaluates bodies over facts; `evaluate` does tests and functions."""

    source: IntervalSource
    evaluate: ExpressionEvaluator

    def whole(
        self, body: Body, start: IntervalBindings | None = None, part: Part = Part.NOW
    ) -> IntervalBindings:
        """The bindings for which a body holds; only those that agree with `start`, if there is one."""
        return self._all_of(IntervalBindings.always() if start is None else start, body, None, part)

    def driven(self, body: Body, driver: DrivingAtom) -> IntervalBindings:
        """The bindings for which a body holds, or held, by the change of one atom's facts."""
        home = body.atoms_by_leaf[driver.leaf]
        change = self._change(home, driver)
        if home in body.positive:
            return self._all_of(change.holding(), body, driver, Part.NOW, done=home)
        # A negation gains what its atom loses, unless the atom holds for other values of its own variables.
        change = change.project([name for name in home.names if name in body.outer[home]])
        return self._all_of(change.holding(), body, driver, Part.NOW)

    def _all_of(
        self,
        bindings: IntervalBindings,
        body: Body,
        driver: DrivingAtom | None,
        part: Part,
        done: Node | None = None,
    ) -> IntervalBindings:
        """The bindings for which all literals hold, except for the one that is done."""
        positive = [node for node in body.positive if node is not done]
        negative, tests = list(body.negative), list(body.tests)
        while len(bindings) and (positive or negative or tests):
            bound = set(bindings.names)
            ready = [test for test in tests if needed(test) <= bound]
            if ready:
                tests = [test for test in tests if test not in ready]
                bindings = bindings.test(ready, self.evaluate)
                continue
            node = next((node for node in negative if body.outer[node] <= bound), None)
            if node is not None:
                negative.remove(node)
                if driver is not None and body.atoms_by_leaf[driver.leaf] is node:
                    # One fact of the atom has changed; the negation has, where no other holds.
                    bindings = bindings.minus(self.node(node, bindings, None, driver.late))
                else:
                    bindings = bindings.minus(self.node(node, bindings, driver, part))
                continue
            node = positive[0]
            if len(positive) > 1:
                node = min(positive, key=lambda node: self._cost(node, bound))
            positive.remove(node)
            bindings = self._joined(bindings, node, driver, part)
        return bindings

    def _cost(self, node: Node, bound: set[str]) -> tuple[bool, int, int]:
        """The order of joins: first what shares bound variables, has few others, and few facts."""
        names = set(node.names)
        size = sum(self.source.table(leaf).facts.rows for leaf in leaves(node))
        return not (names & bound) and bool(bound), len(names - bound) if bound else 0, size

    def _joined(
        self, bindings: IntervalBindings, node: Node, driver: DrivingAtom | None, part: Part
    ) -> IntervalBindings:
        """The bindings joined with a metric atom; facts of an atom under unary operators are looked up."""
        link = chain(node)
        if link is None or set(bindings.names).isdisjoint(node.names):
            return bindings.join(self.node(node, bindings, driver, part))
        leaf, moves = link
        state = _state(leaf, driver, part)
        facts = self.source.table(leaf).facts
        return bindings.join_leaf(
            leaf, facts, lambda numbers: self.source.read(leaf, numbers, state).shifted(*moves)
        )

    def _change(self, node: Node, driver: DrivingAtom) -> IntervalBindings:
        """The points that a metric atom gained or lost by the change of the driving atom."""
        changed = self._changed_leaf(driver.leaf)
        if node is driver.leaf:
            return changed
        link = chain(node)
        if link is not None:
            return changed.with_lists(self._change_under(node, link[1], changed.lists, driver))
        if driver.is_overdeletion:
            return self._suspect(node, driver, changed)
        now = self.node(node, None, driver, Part.NOW)
        before = self.node(node, None, driver, Part.BEFORE)
        if driver.is_gain:
            return now.minus(before, are_same_rows=True)
        return before.minus(now, are_same_rows=True)

    def _change_under(
        self, node: Node, moves: tuple[Integers, ...], change: IntervalLists, driver: DrivingAtom
    ) -> IntervalLists:
        """The same for the driving atom under unary operators, fact by fact."""
        leaf, every = driver.leaf, change.numbers
        numbers, _ = self._changed(leaf)
        before = self.source.read(leaf, numbers, Part.BEFORE).shifted(*moves)
        if driver.is_overdeletion:
            return before.intersected(change.shifted(*_spreads(node, leaf)), every, every)
        now = self.source.read(leaf, numbers, Part.NOW).shifted(*moves)
        return now.without(before, every, every) if driver.is_gain else before.without(now, every, every)

    def _suspect(self, node: Node, driver: DrivingAtom, changed: IntervalBindings) -> IntervalBindings:
        """The points at which a metric atom held that a point lost by the driving atom had a part in.

        What is left of a recursion may support itself: that a metric atom still holds proves nothing there.
        """
        lost = changed.shifted(*_spreads(node, driver.leaf))
        return self.node(node, None, driver, Part.BEFORE).join(lost)

    def node(
        self, node: Node, demand: IntervalBindings | None, driver: DrivingAtom | None, part: Part
    ) -> IntervalBindings:
        """The bindings of a metric atom, some of which may hold at no time.

        Those that agree with no binding of the demand may be left out, if there is one. `part` is the state
        of the driving atom, and of all atoms if there is none.
        """
        match node:
            case Leaf():
                return self._leaf(node, demand, driver, part)
            case Always():
                return IntervalBindings.always()
            case Shifted(by=by, operand=operand):
                return self.node(operand, demand, driver, part).shifted(by)
            case AtInterval(ends, operand, is_throughout):
                bindings = self._leaf(operand, demand, driver, part)
                return bindings.at_interval(ends, is_throughout=is_throughout)
            case Since():
                return self._since(node, demand, driver, part)

    def _since(
        self, node: Since, demand: IntervalBindings | None, driver: DrivingAtom | None, part: Part
    ) -> IntervalBindings:
        """The operand that was changed is evaluated first, else the right one, unless only the left one
        shares variables with the demand. The first one is the demand of the other.
        """
        names = set(() if demand is None else demand.names)
        if driver is not None and driver.leaf in set(leaves(node.left)):
            left = self.node(node.left, None, driver, part)
            right = self.node(node.right, left, driver, part)
        elif names & set(node.left.names) and not names & set(node.right.names):
            left = self.node(node.left, demand, driver, part)
            right = self.node(node.right, left, driver, part)
        else:
            right = self.node(node.right, demand, driver, part)
            is_shared = bool(set(right.names) & set(node.left.names))
            left = self.node(node.left, right if is_shared else demand, driver, part)
        return left.since(right, node.parts)

    def _leaf(
        self, leaf: Leaf, demand: IntervalBindings | None, driver: DrivingAtom | None, part: Part
    ) -> IntervalBindings:
        facts = self.source.table(leaf).facts
        if driver is not None and driver.leaf is leaf:
            numbers, _ = self._changed(leaf)
            lists = self.source.read(leaf, numbers, part)
        else:
            numbers = numbers_of(leaf, facts, demand)
            lists = self.source.read(leaf, numbers, _state(leaf, driver, part))
        return IntervalBindings.leaf(leaf, facts, numbers, lists)

    def _changed_leaf(self, leaf: Leaf) -> IntervalBindings:
        """The points that facts of an atom gained or lost."""
        return IntervalBindings.leaf(leaf, self.source.table(leaf).facts, *self._changed(leaf))

    def _changed(self, leaf: Leaf) -> tuple[Integers, IntervalLists]:
        """The facts that just changed and match an atom, and the points that they gained or lost."""
        numbers, change = self.source.changed(leaf)
        if leaf.is_plain:
            return numbers, change
        matches = matching(leaf, self.source.table(leaf).facts.columns, numbers)
        return numbers[matches], change.take(matches)


def _spreads(node: Node, leaf: Leaf) -> Iterator[Integers]:
    """The shifts from points of an atom to all at which they count, from the atom outwards."""
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


def needed(test: Test) -> set[str]:
    """The variables that must be bound for a test."""
    used = variables_of(test.expression) if isinstance(test, Assignment) else literal_variables(test)
    return {variable.name for variable in used}


def head_facts(
    rule: CompiledMetricRule, bindings: IntervalBindings, store: TimedStore
) -> tuple[Integers, IntervalLists]:
    """The facts that bindings lead to, by number, some perhaps repeated, and their intervals."""
    facts = bindings.head(rule)
    if not len(facts):
        return NO_FACTS, facts.lists
    return store.tables[rule.head].number(facts.columns, len(facts)), facts.lists


# ---- inconsistencies over time


def find_violations(program: Program, store: TimedStore, first: int) -> list[TimedViolation]:
    """The rules by which `bottom()` holds at a left end or later, `MOST` of them at most."""
    evaluation = BodyEvaluation(store, ExpressionEvaluator(store.engine))
    violations: list[TimedViolation] = []
    for compiled in store.compiled_rules(program):
        if compiled.head == BOTTOM and len(violations) < MOST:
            violation = find_violation(compiled, compiled.rule, program, evaluation, store, first)
            if violation is not None:
                violations.append(violation)
    return violations


def find_violation(
    compiled: CompiledMetricRule,
    rule: Rule,
    program: Program,
    evaluation: BodyEvaluation,
    store: TimedStore,
    first: int,
) -> TimedViolation | None:
    """The first instance by which a rule's head holds at a left end or later; None if there is none.

    `rule` is the one of the program; what was compiled may read relations of a task in place of its own.
    """
    for number, body in enumerate(compiled.bodies):
        bindings = evaluation.whole(body)
        lists = bindings.lists.shifted(*compiled.moves).later(first)
        held = np.flatnonzero(lists.count > 0)
        if not len(held):
            continue
        starts = lists.left[lists.first[held]]
        chosen = held[np.argmin(starts)]
        values = {name: int(bindings.column(name)[chosen]) for name in bindings.names}
        times = _times(lists.take(np.array([chosen])), store)
        atoms = zip(rule.positive, compiled.rule.positive, strict=True)
        facts = ", ".join(_facts(atoms, values, program, store))
        return TimedViolation(compiled.number, number, len(held), int(starts.min()), times, facts)
    return None


def merge_violations(violations: Sequence[TimedViolation]) -> TimedViolation:
    """One violation of what tasks have found of a rule, each among its own facts."""
    body = min(each.body for each in violations)
    same = [each for each in violations if each.body == body]
    first = min(same, key=lambda each: each.left)
    return replace(first, ways=sum(each.ways for each in same))


def _facts(
    atoms: Iterable[tuple[Atom, Atom]], values: Mapping[str, int], program: Program, store: TimedStore
) -> Iterator[str]:
    """The facts that atoms are for some values, with their intervals; each with the atom that is read."""
    writing = Writing.of(program)
    dictionary = store.engine.storage.dictionary
    for atom, read in atoms:
        names = [term.name for term in atom.terms if isinstance(term, Variable)]
        if read.predicate not in store.tables or not all(name in values for name in names):
            continue
        ids = [
            values[term.name] if isinstance(term, Variable) else dictionary.encode(term.value)
            for term in atom.terms
        ]
        table = store.tables[read.predicate]
        number = table.facts.find(np.array(ids, np.int32).reshape(len(ids), 1), 1)
        fact = Atom(atom.predicate, tuple(Constant(dictionary.decode(one)) for one in ids))
        is_timed = number[0] >= 0 and atom.predicate in program.timed
        times = _times(table.lists.take(number), store) if is_timed else None
        yield timed_fact_text(fact, times, writing)


def _times(lists: IntervalLists, store: TimedStore) -> str:
    """The first intervals of a list, written."""
    _, left, right = lists.rows()
    intervals = map(store.timeline.decode, left.tolist(), right.tolist())
    return intervals_text(intervals, len(left))


# ---- rows that rules over time drop because a function has no value


def find_missing_over_time(rules: Iterable[Rule], store: TimedStore) -> tuple[MissingValues, ...]:
    """What rules over time drop at any time: a row is a combination of the values of variables."""
    from tidelog.engine.missing_values import FindingRule, RowSearch

    evaluation = BodyEvaluation(store, ExpressionEvaluator(store.engine))
    search = RowSearch(store.engine)
    for rule in rules:
        finding = FindingRule.of(rule.body)
        if finding is None:
            continue
        identity = store.engine.storage.dictionary.encode
        looking = Rule(Atom(rule.head.predicate, ()), tuple(finding.body))
        compiled = compile_metric_rule(looking, 0, store.timeline, identity)
        found = [evaluation.whole(body).holding() for body in compiled.bodies]
        known = set.intersection(*(set(part.names) for part in found))
        bound = tuple(each for each in _variables(rule) if each.name in known)
        names = (*bound, *finding.computed)
        rows = [Rows(tuple(part.column(name.name) for name in names), len(part)) for part in found]
        search.attribute(rule, finding, bound, distinct(rows))
    return search.missing()


def _variables(rule: Rule) -> tuple[Variable, ...]:
    """The variables of a rule's positive atoms."""
    return tuple(dict.fromkeys(each for atom in rule.positive for each in literal_variables(atom)))
