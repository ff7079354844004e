"""The search for proofs of smallest height: instances of rules, found from their heads, and proof steps.
Mutable.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from tidelog.data.dictionary import Dictionary
from tidelog.data.rows import Ids
from tidelog.engine.columnar.transactions.row_sets import RowSet
from tidelog.engine.flags import Effect, Flag, Where
from tidelog.logic.functions import builtins
from tidelog.logic.functions.builtins import evaluate
from tidelog.logic.program import Atom, Constant, Program, Rule, Term, Variable, literal_variables
from tidelog.logic.values import Value
from tidelog.plan.algebra import EXPLAINED, INSTANCES
from tidelog.plan.change_plans import ChangePlanMaker
from tidelog.plan.compile import collected_variables
from tidelog.plan.join_order import negated_only_variables
from tidelog.proof.explanation import NodeKind, ground_atom
from tidelog.records import dataclass

if TYPE_CHECKING:
    from tidelog.engine.columnar.engine import ColumnarEngine

# ---- instances of rules
#
# An instance is a binding of the rule's variables under which the body is true now. What plans find goes into
# a temporary relation, one for each number of variables, which is empty again afterwards.

Positions = npt.NDArray[np.int64]
Numbers = npt.NDArray[np.int64]

FOUND = Effect(Where(Flag.ALIVE, Flag.NONE), Flag.ALIVE, create=True)


@dataclass(frozen=True, slots=True)
class RuleInstances:
    """Instances of one rule: a column of ids for each variable."""

    rule: Rule
    number: int
    columns: Mapping[Variable, Ids]
    count: int

    def binding(self, position: int, dictionary: Dictionary) -> dict[Variable, Value]:
        """The values of the variables in one of the instances."""
        return {name: dictionary.decode(int(ids[position])) for name, ids in self.columns.items()}


class InstanceFinder:
    """Finds the instances of rules; plans are cached for as long as the rules are used."""

    def __init__(self, engine: ColumnarEngine) -> None:
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

    def find(self, rule: Rule, number: int, rows: Positions) -> RuleInstances:
        """All instances of a rule whose heads are the given rows of the head's relation."""
        engine = self.engine
        variables = variables_of_rule(rule)
        temporary = f"{INSTANCES} {len(variables)}"
        for relation in {atom.predicate for atom in (rule.head, *rule.positive, *rule.negated)}:
            engine.catalog.table(relation).complete()
        engine.storage.define_temporary(temporary, len(variables))
        plan = self._plans.get(rule)
        if plan is None:
            plan = engine.change_plans.prepare(
                ChangePlanMaker(rule, number, (), engine.storage).instances(temporary, variables)
            )
            self._plans[rule] = plan
        try:
            engine.change_plans.run([plan], RowSet({rule.head.predicate: rows}), FOUND)
            columns, count = engine.storage.rows(temporary)
            copied = {name: column.copy() for name, column in zip(variables, columns, strict=True)}
        finally:
            engine.storage.clear(temporary)
        return RuleInstances(rule, number, copied, count)

    def rows(self, atom: Atom, instances: RuleInstances) -> Positions:
        """The row of the fact that matches an atom in each instance."""
        columns = [self._column(term, instances) for term in atom.terms]
        rows: Positions = self.engine.catalog.table(atom.predicate).find(columns, instances.count)
        return rows

    def _column(self, term: Variable | Constant, instances: RuleInstances) -> Ids:
        if isinstance(term, Variable):
            return instances.columns[term]
        return np.full(instances.count, self.engine.storage.dictionary.encode(term.value), np.int32)


def variables_of_rule(rule: Rule) -> tuple[Variable, ...]:
    """The variables that an instance of a rule binds: the head's, then the body's."""
    wild = negated_only_variables(rule.body)
    body = (variable for literal in rule.body for variable in literal_variables(literal))
    head = (term for term in rule.head.terms if isinstance(term, Variable))
    return tuple(variable for variable in dict.fromkeys((*head, *body)) if variable not in wild)


# ---- groups of an aggregate rule


@dataclass(frozen=True, slots=True)
class AggregateGroup:
    """A group that gives a fact: the instances that are its members, and the row that each one is."""

    head: Numbers  # the node of the fact, alone
    members: Numbers  # positions among the instances that were found
    row_of: Numbers  # of each member
    rows: int  # how many distinct ones there are


def groups_of(instances: RuleInstances, heads: Numbers, dictionary: Dictionary) -> Iterator[AggregateGroup]:
    """The groups whose results are the heads for which the instances were searched."""
    rule = instances.rule
    collected = collected_variables(rule)
    for members in _alike(instances, heads, rule.group):
        rows, row_of = _numbered(
            [instances.columns[variable][members] for variable in collected], len(members)
        )
        columns = {variable: instances.columns[variable][members][rows] for variable in collected}
        values = {name: [dictionary.decode(i) for i in column.tolist()] for name, column in columns.items()}
        first = instances.binding(members[0], dictionary)
        if aggregated(rule, values, len(rows)) == [_value(term, first) for term in rule.head.terms]:
            yield AggregateGroup(heads[members[:1]], members, row_of, len(rows))


def heads_of(rule: Rule, instances: RuleInstances, dictionary: Dictionary) -> Iterator[list[Value]]:
    """The heads of all groups among the instances."""
    collected = collected_variables(rule)
    for members in _alike(instances, np.zeros(instances.count, np.int64), rule.group):
        columns = [instances.columns[variable][members] for variable in collected]
        rows, _ = _numbered(columns, len(members))
        values = {
            variable: dictionary.decode_all(column[rows].tolist())
            for variable, column in zip(collected, columns, strict=True)
        }
        head = aggregated(rule, values, len(rows))
        if head is not None:
            yield head


def aggregated(rule: Rule, values: dict[Variable, list[Value]], rows: int) -> list[Value] | None:
    """The head of a group of distinct rows; None if a term of it has no value."""
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


def _alike(instances: RuleInstances, heads: Numbers, group: Sequence[Variable]) -> Iterator[Numbers]:
    """Return the positions of instances with the same head and the same values of the group's variables."""
    _, group_of = _numbered([heads, *(instances.columns[variable] for variable in group)], instances.count)
    order = np.argsort(group_of, kind="stable")
    yield from np.split(order, np.flatnonzero(np.diff(group_of[order])) + 1)


def _numbered(columns: Sequence[npt.NDArray[np.integer]], count: int) -> tuple[Numbers, Numbers]:
    """Return the position of one row of each kind, and the number of the kind of each row."""
    if not columns:
        return np.zeros(1, np.int64), np.zeros(count, np.int64)
    _, first, numbers = np.unique(np.column_stack(columns), axis=0, return_index=True, return_inverse=True)
    return first, numbers.ravel()


def _repeated(term: Term, values: dict[Variable, list[Value]], rows: int) -> list[Value]:
    return [term.value] * rows if isinstance(term, Constant) else values[term]


def _value(term: Term, binding: dict[Variable, Value]) -> Value:
    return term.value if isinstance(term, Constant) else binding[term]


# ---- facts, the instances that derive them, and heights
#
# A node is a derived fact, or a row of a group of an aggregate; one represents all explicit facts. An
# instance has a head, which is a node, and a body of nodes; a node is proved if all of some instance's body
# is. A fact is one higher than its body; a row of a group is not, since it is no separate step.
#
# Invariant: after `relax`, `heights` are those of the lowest proofs among the instances that do not use the
# goal, UNKNOWN where there are none.

UNKNOWN = 1 << 40  # the height of nodes without a proof
HOLDS = 0  # the node of all explicit facts; every body contains it, so that none is empty


class ProofGraph:
    """Nodes and instances, numbered as they are added."""

    def __init__(self) -> None:
        self.heights: Numbers = np.zeros(1, np.int64)
        self.steps: Numbers = np.zeros(1, np.int64)  # by how much a node is higher than its body
        self.heads: Numbers = np.zeros(0, np.int64)  # of each instance
        self.worst: Numbers = np.zeros(0, np.int64)  # of each instance: the greatest height in its body
        self.bodies: Numbers = np.zeros(0, np.int64)  # the nodes of all bodies, one after the other
        self.starts: Numbers = np.zeros(0, np.int64)  # where each body begins
        self.positions: Numbers = np.zeros(0, np.int64)  # of each instance in its batch
        self.batches: list[RuleInstances] = []
        self._ends: list[int] = []  # the number of instances up to the end of each batch
        self._steps: list[Numbers] = []  # of nodes that are not concatenated yet
        self._instances: list[tuple[Numbers, Numbers, Numbers]] = []
        self._node_count = 1
        self._instance_count = 0

    def add_nodes(self, count: int, step: int) -> Numbers:
        """Add unproved nodes, each `step` higher than its body."""
        self._steps.append(np.full(count, step))
        first, self._node_count = self._node_count, self._node_count + count
        return np.arange(first, self._node_count)

    def add_instances(
        self, batch: RuleInstances, heads: Numbers, bodies: Numbers, positions: Numbers
    ) -> None:
        """Add instances: their heads, and for each a row of the nodes in its body, HOLDS among them."""
        self.batches.append(batch)
        self._instances.append((heads, bodies, positions))
        self._instance_count += len(heads)
        self._ends.append(self._instance_count)

    def found_with(self, instance: int) -> tuple[RuleInstances, int]:
        """Return the batch of an instance, and its position in it."""
        return self.batches[int(np.searchsorted(self._ends, instance, "right"))], int(
            self.positions[instance]
        )

    def body(self, instance: int) -> list[int]:
        """The nodes in the body of an instance."""
        end = self.starts[instance + 1] if instance + 1 < len(self.starts) else len(self.bodies)
        body: list[int] = self.bodies[self.starts[instance] : end].tolist()
        return body

    def relax(self, goal: int) -> None:
        """Compute the heights of all nodes; no proof may use the goal."""
        self._concatenate()
        if not len(self.heads):
            return
        steps = np.where(self.heads == goal, UNKNOWN, self.steps[self.heads])
        while True:
            heights = self.heights
            self.worst = np.maximum.reduceat(heights[self.bodies], self.starts)
            self.heights = heights.copy()
            np.minimum.at(self.heights, self.heads, np.minimum(self.worst + steps, UNKNOWN))
            if np.array_equal(heights, self.heights):
                return

    def lowest(self) -> dict[int, int]:
        """For each node that is proved the first instance with the lowest body."""
        order = np.argsort(self.worst, kind="stable")
        nodes, first = np.unique(self.heads[order], return_index=True)
        return dict(zip(nodes.tolist(), order[first].tolist(), strict=True))

    def _concatenate(self) -> None:
        """Append all that was added to the arrays."""
        self.steps = np.concatenate([self.steps, *self._steps])
        unknown = np.full(len(self.steps) - len(self.heights), UNKNOWN)
        self.heights = np.concatenate([self.heights, unknown])
        if self._instances:
            heads, bodies, positions = zip(*self._instances, strict=True)
            sizes = np.concatenate([np.full(len(body), body.shape[1]) for body in bodies])
            starts = len(self.bodies) + np.cumsum(sizes) - sizes
            self.heads = np.concatenate([self.heads, *heads])
            self.positions = np.concatenate([self.positions, *positions])
            self.starts = np.concatenate([self.starts, starts])
            self.bodies = np.concatenate([self.bodies, *(body.ravel() for body in bodies)])
        self._steps, self._instances = [], []


# ---- steps of proofs
#
# A search chooses its nodes: numbers in a graph, or facts over ids.

N = TypeVar("N")


@dataclass(frozen=True, slots=True, eq=False)
class ProofStep(Generic[N]):
    """One derivation of a node; its kind is that of the resulting node in a proof.

    The body has the nodes that it needs: the atoms of a rule's instance in their order, the rows of a group,
    or a fact and the equalities that turn it into another.
    """

    kind: NodeKind
    body: tuple[N, ...] = ()
    instances: RuleInstances | None = None  # the batch that contains the instance
    position: int = -1  # among these; none if it is a group

    @property
    def is_instance(self) -> bool:
        """Whether it is an instance of a rule, so that its head is higher than its body."""
        return self.kind in (NodeKind.RULE, NodeKind.AGGREGATE)


EXPLICIT_STEP: ProofStep[Any] = ProofStep(NodeKind.EXPLICIT)


@dataclass(frozen=True, slots=True, eq=False)
class Ending(Generic[N]):
    """How a proof of a goal ends: a step gives a node, which equalities turn into the goal if they differ."""

    goal: N
    node: N
    step: ProofStep[N]
    equalities: tuple[N, ...] = ()


class StepSource(Protocol[N]):
    """A backward search from one goal."""

    def run(self, most_proofs: int) -> Sequence[Ending[N]]:
        """The endings of at most `most_proofs` proofs of the goal, lowest first.

        No proof uses the goal itself.
        """

    def lowest(self, node: N) -> ProofStep[N]:
        """The first of the lowest steps that give a node."""

    def height(self, node: N) -> int:
        """The number of rule instances on the longest way down from a node, by the lowest steps."""

    def fact(self, node: N) -> Atom:
        """The fact that a node is."""


# ---- the search, backward from a fact
#
# Level by level, all instances that derive the facts of a level are found at once, and the facts in their
# bodies are the next level. A proof of height h uses facts at most h steps away from the goal: once levels 0
# to d have been searched, every proof of height d + 1 or less has been found, and the lowest of these
# is the lowest of all. So the search ends as soon as it sees a proof that is no higher than it has looked.

EXPLICIT = int(Flag.EXPLICIT)
FactNode = int | Atom  # the number of a derived fact or row in the graph, or an explicit fact


class FactSearch:
    """A backward search from one goal."""

    def __init__(self, instances: InstanceFinder, relation: str, row: int, check: Callable[[], None]) -> None:
        self._instances = instances
        self._engine = instances.engine
        self._check = check
        self._graph = ProofGraph()
        self._facts: dict[int, tuple[str, int]] = {}  # of each node that is a fact: its relation and row
        self._node_of: dict[str, dict[int, int]] = {}  # the nodes of facts, by relation and row
        self._levels = 0  # that have been searched
        self._lowest: dict[int, int] = {}  # the instance of the lowest step to each node
        self._goal = int(self._graph.add_nodes(1, step=1)[0])
        is_explicit = bool(self._engine.catalog.table(relation).flags[row] & EXPLICIT)
        self._is_explicit = is_explicit and not relation.startswith(EXPLAINED)
        self._facts[self._goal] = relation, row
        self._node_of[relation] = {row: self._goal}
        self._waiting = {relation: [row]}

    def run(self, most_proofs: int) -> list[Ending[FactNode]]:
        """The endings of proofs of the goal, lowest first; an explicit fact is the lowest."""
        endings: list[Ending[FactNode]] = []
        if self._is_explicit:
            fact = self.fact(self._goal)
            endings.append(Ending(fact, fact, EXPLICIT_STEP))
        if most_proofs > len(endings):
            lowest = self._search(most_proofs - len(endings))
            self._lowest = self._graph.lowest()
            endings += [Ending(self._goal, self._goal, self._step(instance)) for instance in lowest]
        return endings

    def _search(self, most_proofs: int) -> list[int]:
        """The last instances of proofs of the goal, lowest first."""
        graph = self._graph
        while True:
            waiting, self._waiting = self._waiting, {}
            for relation, rows in waiting.items():
                self._expand(relation, np.array(rows))
                self._check()
            self._levels += 1
            graph.relax(self._goal)
            ending = np.flatnonzero((graph.heads == self._goal) & (graph.worst < UNKNOWN))
            ending = ending[np.argsort(graph.worst[ending], kind="stable")]
            certain = int(np.count_nonzero(graph.worst[ending] < self._levels))
            if certain >= most_proofs or not self._waiting:
                lowest: list[int] = ending[:most_proofs].tolist()
                return lowest

    # ---- results

    def lowest(self, node: FactNode) -> ProofStep[FactNode]:
        """The first of the lowest steps that give a node."""
        return EXPLICIT_STEP if isinstance(node, Atom) else self._step(self._lowest[node])

    def height(self, node: FactNode) -> int:
        """The height of the lowest proof of a node."""
        return 0 if isinstance(node, Atom) else int(self._graph.heights[node])

    def fact(self, node: FactNode) -> Atom:
        """The fact that a node is."""
        if isinstance(node, Atom):
            return node
        relation, row = self._facts[node]
        decode = self._engine.storage.dictionary.decode
        columns = self._engine.catalog.table(relation).columns
        return Atom(relation, tuple(Constant(decode(int(column[row]))) for column in columns))

    def _step(self, instance: int) -> ProofStep[FactNode]:
        """An instance in the graph as a step."""
        instances, position = self._graph.found_with(instance)
        _, *body = self._graph.body(instance)
        is_fact = int(self._graph.heads[instance]) in self._facts
        if is_fact and instances.rule.aggregations:
            return ProofStep(NodeKind.AGGREGATE, tuple(body), instances)
        binding = instances.binding(position, self._engine.storage.dictionary) if HOLDS in body else {}
        atoms = zip(body, instances.rule.positive, strict=True)
        nodes = tuple(ground_atom(atom, binding) if node == HOLDS else node for node, atom in atoms)
        return ProofStep(NodeKind.RULE if is_fact else NodeKind.ROW, nodes, instances, position)

    # ---- the way back

    def _expand(self, relation: str, rows: Positions) -> None:
        """Find all instances that derive these facts."""
        for rule, number in self._instances.rules_of(relation):
            instances = self._instances.find(rule, number, rows)
            if not instances.count:
                continue
            heads = self._heads(relation, self._instances.rows(rule.head, instances))
            bodies = self._bodies(instances)
            if rule.aggregations:
                self._add_groups(instances, heads, bodies)
            else:
                self._graph.add_instances(instances, heads, bodies, np.arange(instances.count))

    def _bodies(self, instances: RuleInstances) -> Numbers:
        """The nodes of each instance's facts, one row per instance."""
        columns = [np.full(instances.count, HOLDS)]
        for atom in instances.rule.positive:
            if self._instances.rules_of(atom.predicate):
                columns.append(self._nodes(atom.predicate, self._instances.rows(atom, instances)))
            else:
                columns.append(columns[0])  # all facts are explicit
        return np.column_stack(columns)

    def _add_groups(self, instances: RuleInstances, heads: Numbers, bodies: Numbers) -> None:
        """Instances of an aggregate rule need all rows of a group, and each row one instance of the body."""
        for group in groups_of(instances, heads, self._engine.storage.dictionary):
            rows = self._graph.add_nodes(group.rows, step=0)
            needed = np.concatenate(([HOLDS], rows))[None, :]
            self._graph.add_instances(instances, rows[group.row_of], bodies[group.members], group.members)
            self._graph.add_instances(instances, group.head, needed, group.members[:1])

    def _heads(self, relation: str, rows: Positions) -> Numbers:
        """The nodes of facts of this level."""
        node_of = self._node_of[relation]
        return np.array([node_of[row] for row in rows.tolist()])

    def _nodes(self, relation: str, rows: Positions) -> Numbers:
        """The nodes of facts: HOLDS where explicit; others that are new wait for the next level."""
        nodes = np.full(len(rows), HOLDS)
        derived = np.flatnonzero((self._engine.catalog.table(relation).flags[rows] & EXPLICIT) == 0)
        if not len(derived):
            return nodes
        unique, inverse = np.unique(rows[derived], return_inverse=True)
        node_of = self._node_of.setdefault(relation, {})
        new = [row for row in unique.tolist() if row not in node_of]
        if new:
            added = self._graph.add_nodes(len(new), step=1)
            node_of.update(zip(new, added.tolist(), strict=True))
            self._facts.update(zip(added.tolist(), ((relation, row) for row in new), strict=True))
            self._waiting.setdefault(relation, []).extend(new)
        nodes[derived] = np.array([node_of[row] for row in unique.tolist()])[inverse]
        return nodes
