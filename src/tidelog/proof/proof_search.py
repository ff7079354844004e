"""Instances of rules, found from their heads, and the search for proofs of smallest height over them.
Mutates itself.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import numpy.typing as npt

from tidelog.data.dictionary import Dictionary
from tidelog.engine.columnar.transactions.row_sets import RowSet
from tidelog.engine.flags import Effect, Flag, Where
from tidelog.logic.functions import builtins
from tidelog.logic.functions.builtins import evaluate
from tidelog.logic.program import Atom, Constant, Program, Rule, Term, Variable, literal_variables
from tidelog.logic.values import Value
from tidelog.plan.change_plans import Changes
from tidelog.plan.compile import collected_variables
from tidelog.plan.join_order import negated_only_variables

# ---- Instances of rules, found from their heads by plans that given facts bind. Mutates the engine's
# scratch.
#
# An instance is a binding of the rule's variables under which the body is true now. What plans find goes into
# a relation of scratch paper, one for each number of variables, which is empty again afterwards.

Ids = npt.NDArray[np.int32]
Rows = npt.NDArray[np.int64]

NOT_EXPLAINED = "E656"
SCRATCH = "why"  # the names of scratch relations begin so; with a space in them they are no predicates'
FOUND = Effect(Where(Flag.ALIVE, Flag.NONE), Flag.ALIVE, create=True)


@dataclass(frozen=True, slots=True)
class Found:
    """Instances of one rule: a column of ids for each variable."""

    rule: Rule
    number: int
    columns: Mapping[Variable, Ids]
    count: int


class Instances:
    """Finds the instances of rules; plans are kept for as long as the rules are."""

    def __init__(self, engine: Any) -> None:
        self.engine = engine
        self._rules: dict[str, list[tuple[Rule, int]]] = {}
        self._of: Sequence[Rule] = ()
        self._plans: dict[Rule, Any] = {}

    def use(self, program: Program) -> None:
        """Use those rules of a program that derive facts without times."""
        if program.rules is self._of:
            return
        self._of = program.rules
        self._plans = {}
        self._rules = {}
        for number, rule in enumerate(program.rules):
            if rule.head.predicate not in program.timed:
                self._rules.setdefault(rule.head.predicate, []).append((rule, number))

    def ask(self, query: Rule) -> None:
        """Make a query the rule that derives its head, which is no predicate of the program."""
        former = self._rules.get(query.head.predicate, [])
        for rule, _ in former:
            self._plans.pop(rule, None)
        self._rules[query.head.predicate] = [(query, -1)]

    def rules_of(self, predicate: str) -> Sequence[tuple[Rule, int]]:
        """The rules that derive a predicate, and their numbers."""
        return self._rules.get(predicate, ())

    def find(self, rule: Rule, number: int, rows: Rows) -> Found:
        """All instances of a rule whose heads are the given rows of the head's relation."""
        engine = self.engine
        variables = variables_of_rule(rule)
        scratch = f"{SCRATCH} {len(variables)}"
        for relation in {atom.predicate for atom in (rule.head, *rule.positive, *rule.negated)}:
            engine.table(relation).complete()
        engine.scratch(scratch, len(variables))
        plan = self._plans.get(rule)
        if plan is None:
            plan = engine.prepare_change(Changes(rule, number, (), engine).instances(scratch, variables))
            self._plans[rule] = plan
        try:
            engine.run([plan], RowSet({rule.head.predicate: rows}), FOUND)
            columns, count = engine.rows(scratch)
            copied = {name: column.copy() for name, column in zip(variables, columns, strict=True)}
        finally:
            engine.clear(scratch)
        return Found(rule, number, copied, count)

    def rows(self, atom: Atom, found: Found) -> Rows:
        """The rows of the facts that an atom is in each instance."""
        columns = [self._column(term, found) for term in atom.terms]
        rows: Rows = self.engine.table(atom.predicate).find(columns, found.count)
        return rows

    def _column(self, term: Variable | Constant, found: Found) -> Ids:
        if isinstance(term, Variable):
            return found.columns[term]
        return np.full(found.count, self.engine.identity(term.value), np.int32)


def variables_of_rule(rule: Rule) -> tuple[Variable, ...]:
    """The variables that an instance of a rule binds: the head's, then the body's."""
    wild = negated_only_variables(rule.body)
    body = (variable for literal in rule.body for variable in literal_variables(literal))
    head = (term for term in rule.head.terms if isinstance(term, Variable))
    return tuple(variable for variable in dict.fromkeys((*head, *body)) if variable not in wild)


# ---- The groups of an aggregate rule that give given facts, and the rows in them.

Numbers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True)
class Group:
    """A group that gives a fact: the instances that are its members, and the row that each one is."""

    head: Numbers  # the node of the fact, alone
    members: Numbers  # places among the instances that were found
    row_of: Numbers  # of each member
    rows: int  # how many distinct ones there are


def groups_of(found: Found, heads: Numbers, dictionary: Dictionary) -> Iterator[Group]:
    """The groups whose values are those of the heads that they were found for."""
    rule = found.rule
    collected = collected_variables(rule)
    for members in _alike(found, heads, rule.group):
        rows, row_of = _numbered([found.columns[variable][members] for variable in collected], len(members))
        columns = {variable: found.columns[variable][members][rows] for variable in collected}
        values = {name: [dictionary.decode(i) for i in column.tolist()] for name, column in columns.items()}
        first = {name: dictionary.decode(int(column[members[0]])) for name, column in found.columns.items()}
        if aggregated(rule, values, len(rows)) == [_value(term, first) for term in rule.head.terms]:
            yield Group(heads[members[:1]], members, row_of, len(rows))


def heads_of(rule: Rule, found: Found, dictionary: Dictionary) -> Iterator[list[Value]]:
    """The heads that the groups among instances give, whatever they were found for."""
    collected = collected_variables(rule)
    for members in _alike(found, np.zeros(found.count, np.int64), rule.group):
        columns = [found.columns[variable][members] for variable in collected]
        rows, _ = _numbered(columns, len(members))
        values = {
            variable: dictionary.decode_all(column[rows].tolist())
            for variable, column in zip(collected, columns, strict=True)
        }
        head = aggregated(rule, values, len(rows))
        if head is not None:
            yield head


def aggregated(rule: Rule, values: dict[Variable, list[Value]], rows: int) -> list[Value] | None:
    """The head that a group of distinct rows gives, None if something in it has no value."""
    binding = {variable: values[variable][0] for variable in rule.group}
    for aggregation in rule.aggregations:
        columns = [_repeated(argument, values, rows) for argument in aggregation.arguments]
        distinct = list(dict.fromkeys(zip(*columns, strict=True)))
        value = builtins.AGGREGATES[aggregation.function](distinct)
        if value is None:
            return None
        binding[aggregation.variable] = value
    for assignment in rule.after:
        value = evaluate(assignment.expression, binding)
        if value is None:
            return None
        binding[assignment.variable] = value
    return [_value(term, binding) for term in rule.head.terms]


def _alike(found: Found, heads: Numbers, group: Sequence[Variable]) -> Iterator[Numbers]:
    """The places of instances with the same head and the same values of the group's variables."""
    _, group_of = _numbered([heads, *(found.columns[variable] for variable in group)], found.count)
    order = np.argsort(group_of, kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(group_of[order])) + 1)


def _numbered(columns: Sequence[npt.NDArray[np.integer]], count: int) -> tuple[Numbers, Numbers]:
    """The place of one row of each kind, and the number of the kind of each row."""
    if not columns:
        return np.zeros(1, np.int64), np.zeros(count, np.int64)
    _, first, numbers = np.unique(np.column_stack(columns), axis=0, return_index=True, return_inverse=True)
    return first, numbers.ravel()


def _repeated(term: Term, values: dict[Variable, list[Value]], rows: int) -> list[Value]:
    return [term.value] * rows if isinstance(term, Constant) else values[term]


def _value(term: Term, binding: dict[Variable, Value]) -> Value:
    return term.value if isinstance(term, Constant) else binding[term]


# ---- Facts and the instances that derive them, and the smallest heights of proofs among these. Mutates
# itself.
#
# A node is a derived fact, or a row of a group of an aggregate; one stands for all explicit facts. An
# instance has a head, which is a node, and a body of nodes; a node is proved if all of some instance's body
# is. A fact is one higher than what it follows from, a row is not: it is no step of its own.
#
# Invariant: after `relax`, `heights` are those of the lowest proofs among the instances that do not use the
# goal, UNKNOWN where there are none.

UNKNOWN = 1 << 40  # the height of what has no proof yet
HOLDS = 0  # the node of all explicit facts; it stands in every body, so that none is empty


class Graph:
    """Nodes and instances, numbered as they are added."""

    def __init__(self) -> None:
        self.heights: Numbers = np.zeros(1, np.int64)
        self.steps: Numbers = np.zeros(1, np.int64)  # by how much a node is higher than what it follows from
        self.heads: Numbers = np.zeros(0, np.int64)  # of each instance
        self.worst: Numbers = np.zeros(0, np.int64)  # of each instance: the greatest height in its body
        self.bodies: Numbers = np.zeros(0, np.int64)  # the nodes of all bodies, one after the other
        self.starts: Numbers = np.zeros(0, np.int64)  # where each body begins
        self.places: Numbers = np.zeros(0, np.int64)  # of each instance, among those that were found with it
        self.found: list[Found] = []
        self._ends: list[int] = []  # how many instances there are with each of `found`
        self._steps: list[Numbers] = []  # of nodes that wait to be put together with the others
        self._instances: list[tuple[Numbers, Numbers, Numbers]] = []
        self._counted = 1
        self._instanced = 0

    def add_nodes(self, count: int, step: int) -> Numbers:
        """New nodes, not proved yet, each by so much higher than what it follows from."""
        self._steps.append(np.full(count, step))
        first, self._counted = self._counted, self._counted + count
        return np.arange(first, self._counted)

    def add_instances(self, found: Found, heads: Numbers, bodies: Numbers, places: Numbers) -> None:
        """New instances: their heads, and for each a row of the nodes in its body, HOLDS among them."""
        self.found.append(found)
        self._instances.append((heads, bodies, places))
        self._instanced += len(heads)
        self._ends.append(self._instanced)

    def found_with(self, instance: int) -> tuple[Found, int]:
        """Where an instance was found, and its place there."""
        return self.found[int(np.searchsorted(self._ends, instance, "right"))], int(self.places[instance])

    def body(self, instance: int) -> list[int]:
        """The nodes in the body of an instance."""
        end = self.starts[instance + 1] if instance + 1 < len(self.starts) else len(self.bodies)
        body: list[int] = self.bodies[self.starts[instance] : end].tolist()
        return body

    def relax(self, goal: int) -> None:
        """Compute the heights of all that was added; no proof may use the goal."""
        self._put_together()
        if not len(self.heads):
            return
        steps = np.where(self.heads == goal, UNKNOWN, self.steps[self.heads])
        while True:
            before = self.heights
            self.worst = np.maximum.reduceat(before[self.bodies], self.starts)
            self.heights = before.copy()
            np.minimum.at(self.heights, self.heads, np.minimum(self.worst + steps, UNKNOWN))
            if np.array_equal(before, self.heights):
                return

    def lowest(self) -> dict[int, int]:
        """For each node that is proved the first instance with the lowest body."""
        order = np.argsort(self.worst, kind="stable")
        nodes, first = np.unique(self.heads[order], return_index=True)
        return dict(zip(nodes.tolist(), order[first].tolist(), strict=True))

    def _put_together(self) -> None:
        """Append all that was added to the arrays."""
        self.steps = np.concatenate([self.steps, *self._steps])
        unknown = np.full(len(self.steps) - len(self.heights), UNKNOWN)
        self.heights = np.concatenate([self.heights, unknown])
        if self._instances:
            heads, bodies, places = zip(*self._instances, strict=True)
            sizes = np.concatenate([np.full(len(body), body.shape[1]) for body in bodies])
            starts = len(self.bodies) + np.cumsum(sizes) - sizes
            self.heads = np.concatenate([self.heads, *heads])
            self.places = np.concatenate([self.places, *places])
            self.starts = np.concatenate([self.starts, starts])
            self.bodies = np.concatenate([self.bodies, *(body.ravel() for body in bodies)])
        self._steps, self._instances = [], []


# ---- The search for proofs of smallest height, backward from the fact that is to be proved. Mutates itself.
#
# Level by level, all instances that derive the facts of a level are found at once, and the facts in their
# bodies are the next level. A proof of height h uses facts at most h steps away from the goal: once levels 0
# to d have been searched, every proof of height d + 1 or less lies in what was found, and the lowest of these
# is the lowest of all. So the search ends as soon as it sees a proof that is no higher than it has looked.

EXPLICIT = int(Flag.EXPLICIT)


class Search:
    """What was found on the way back from one goal."""

    def __init__(self, instances: Instances, relation: str, row: int, check: Callable[[], None]) -> None:
        self.instances = instances
        self.engine: Any = instances.engine
        self.check = check
        self.relation = relation
        self.graph = Graph()
        self.facts: dict[int, tuple[str, int]] = {}  # of each node that is a fact: its relation and row
        self._known: dict[str, dict[int, int]] = {}  # the nodes of facts, by relation and row
        self._waiting: dict[str, list[int]] = {}
        self._levels = 0  # that have been searched
        self.goal = int(self.graph.add_nodes(1, step=1)[0])
        self.is_explicit = bool(self.engine.table(relation).flags[row] & EXPLICIT)
        self.facts[self.goal] = relation, row
        self._known[relation] = {row: self.goal}
        self._waiting = {relation: [row]}

    def run(self, wanted: int) -> list[int]:
        """The instances by which proofs of the goal end, lowest first: as many as are wanted, or all.

        Each is the end of a proof that does not use the goal itself.
        """
        graph = self.graph
        while True:
            waiting, self._waiting = self._waiting, {}
            for relation, rows in waiting.items():
                self._expand(relation, np.array(rows))
                self.check()
            self._levels += 1
            graph.relax(self.goal)
            ending = np.flatnonzero((graph.heads == self.goal) & (graph.worst < UNKNOWN))
            ending = ending[np.argsort(graph.worst[ending], kind="stable")]
            certain = int(np.count_nonzero(graph.worst[ending] < self._levels))
            if certain >= wanted or not self._waiting:
                lowest: list[int] = ending[:wanted].tolist()
                return lowest

    def _expand(self, relation: str, rows: Rows) -> None:
        """Find all instances that derive these facts."""
        for rule, number in self.instances.rules_of(relation):
            found = self.instances.find(rule, number, rows)
            if not found.count:
                continue
            heads = self._heads(relation, self.instances.rows(rule.head, found))
            bodies = self._bodies(found)
            if rule.aggregations:
                self._add_groups(found, heads, bodies)
            else:
                self.graph.add_instances(found, heads, bodies, np.arange(found.count))

    def _bodies(self, found: Found) -> Numbers:
        """The nodes of each instance's facts, one row per instance."""
        columns = [np.full(found.count, HOLDS)]
        for atom in found.rule.positive:
            if self.instances.rules_of(atom.predicate):
                columns.append(self._nodes(atom.predicate, self.instances.rows(atom, found)))
            else:
                columns.append(columns[0])  # all of them are explicit
        return np.column_stack(columns)

    def _add_groups(self, found: Found, heads: Numbers, bodies: Numbers) -> None:
        """Instances of an aggregate rule need all rows of a group, and each row one instance of the body."""
        for group in groups_of(found, heads, self.engine.dictionary):
            rows = self.graph.add_nodes(group.rows, step=0)
            needed = np.concatenate(([HOLDS], rows))[None, :]
            self.graph.add_instances(found, rows[group.row_of], bodies[group.members], group.members)
            self.graph.add_instances(found, group.head, needed, group.members[:1])

    def _heads(self, relation: str, rows: Rows) -> Numbers:
        """The nodes of facts that have waited for this level."""
        known = self._known[relation]
        return np.array([known[row] for row in rows.tolist()])

    def _nodes(self, relation: str, rows: Rows) -> Numbers:
        """The nodes of facts: HOLDS where explicit; others that are new wait for the next level."""
        nodes = np.full(len(rows), HOLDS)
        derived = np.flatnonzero((self.engine.table(relation).flags[rows] & EXPLICIT) == 0)
        if not len(derived):
            return nodes
        unique, inverse = np.unique(rows[derived], return_inverse=True)
        known = self._known.setdefault(relation, {})
        new = [row for row in unique.tolist() if row not in known]
        if new:
            added = self.graph.add_nodes(len(new), step=1)
            known.update(zip(new, added.tolist(), strict=True))
            self.facts.update(zip(added.tolist(), ((relation, row) for row in new), strict=True))
            self._waiting.setdefault(relation, []).extend(new)
        nodes[derived] = np.array([known[row] for row in unique.tolist()])[inverse]
        return nodes
