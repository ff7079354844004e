"""The search for proofs of smallest height where constants may be equal. Mutable."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import field

import numpy as np

from tidelog.data.rows import Ids, Rows
from tidelog.engine.flags import Flag
from tidelog.equality.classes import Classes, expanded
from tidelog.errors import Diagnostic, ProgramError
from tidelog.errors.codes import NOT_EXPLAINED
from tidelog.logic.functions.builtins import evaluate, holds
from tidelog.logic.program import (
    EQUAL,
    Assignment,
    Atom,
    Comparison,
    Condition,
    Constant,
    Literal,
    Negation,
    Query,
    Rule,
    Term,
    Variable,
    literal_variables,
)
from tidelog.logic.values import Value
from tidelog.plan.algebra import ABSENT
from tidelog.plan.compile import collected_variables
from tidelog.proof.explanation import NodeKind
from tidelog.proof.proof_search import (
    EXPLICIT_STEP,
    UNKNOWN,
    Ending,
    InstanceFinder,
    ProofStep,
    RuleInstances,
    aggregated,
)
from tidelog.records import dataclass

# ---- instances of rules over every member of each class
#
# Facts are kept over representatives, or over all members; either way the instances over representatives are
# found by a plan that the fact binds, and each is one instance for every choice of members. Comparisons,
# functions and aggregates then see members, as the meaning of equality has it.

MOST_CHOICES = 200_000  # of members, for the instances of one rule that derive one fact
Answers = tuple[Sequence[Ids], int]
Key = tuple[int, ...]  # the ids of a fact's arguments


@dataclass(frozen=True, slots=True)
class EqualityView:
    """How a program sees equality: classes, the relation with all facts of a predicate, and queries."""

    classes: Classes
    relation: Callable[[str], str]
    answer: Callable[[Query], Answers]


class Members:
    """The facts that are explicit or derived by rules, over all members of the classes of a fact."""

    def __init__(self, instances: InstanceFinder, view: EqualityView) -> None:
        self._instances = instances
        self._engine = instances.engine
        self._classes = view.classes
        self._relation = view.relation

    # ---- constants

    def representatives(self, key: Key) -> Key:
        """The representatives of a fact's arguments."""
        ids: list[int] = self._classes.representatives(np.array(key, np.int32)).tolist()
        return tuple(ids)

    def decode(self, identity: int) -> Value:
        """The value of an id."""
        value: Value = self._engine.storage.dictionary.decode(identity)
        return value

    def identity(self, term: Term, row: Mapping[Variable, int]) -> int:
        """The id of a term in an instance."""
        if isinstance(term, Variable):
            return row[term]
        return int(self._engine.storage.dictionary.encode(term.value))

    def key(self, values: Sequence[Value]) -> Key:
        """The ids of values."""
        return tuple(int(self._engine.storage.dictionary.encode(value)) for value in values)

    # ---- explicit facts

    def explicit(self, predicate: str, key: Key) -> list[Key]:
        """The explicit facts that a fact over representatives represents."""
        if predicate not in self._engine.storage.relations():
            return []
        rows = self._classes.expand(Rows(tuple(np.array([each], np.int32) for each in key), 1))
        flags = self._engine.storage.row_flags(predicate, rows.columns, rows.count)
        columns = [column[(flags & int(Flag.EXPLICIT)) != 0].tolist() for column in rows.columns]
        if not columns:
            return [()] if flags[0] & int(Flag.EXPLICIT) else []
        return list(zip(*columns, strict=True))

    # ---- derived facts

    def find(self, rule: Rule, number: int, key: Key) -> RuleInstances:
        """The instances of a rule, over members, whose heads a fact over representatives represents."""
        renamed = self._over_representatives(rule)
        table = self._engine.catalog.table(renamed.head.predicate)
        table.complete()
        rows = table.find([np.array([each], np.int32) for each in key], 1)
        instances = self._instances.find(renamed, number, rows[rows >= 0])
        columns = {name: ids for name, ids in instances.columns.items() if name in _matched(rule)}
        return self._tested(rule, number, self._choices(columns, instances.count, rule))

    def _over_representatives(self, rule: Rule) -> Rule:
        """The positive and negated atoms of a rule, with representatives as constants."""
        matched = _matched(rule)
        head = tuple(
            term if isinstance(term, Constant) or term in matched else Variable(f"{term.name} head")
            for term in rule.head.terms
        )
        absent = (Negation(self._atom(atom)) for atom in rule.negated if _is_decided(atom, rule))
        body: tuple[Literal, ...] = (*map(self._atom, rule.positive), *absent)
        return Rule(self._atom(Atom(rule.head.predicate, head)), body)

    def _atom(self, atom: Atom) -> Atom:
        return Atom(self._relation(atom.predicate), tuple(map(self._term, atom.terms)))

    def _term(self, term: Term) -> Term:
        if isinstance(term, Variable):
            return term
        (representative,) = self.representatives((int(self._engine.storage.dictionary.encode(term.value)),))
        return Constant(self.decode(representative))

    def _choices(
        self, columns: Mapping[Variable, Ids], count: int, rule: Rule
    ) -> tuple[dict[Variable, Ids], int]:
        """Every choice of members of the instances over representatives, in order."""
        represented = np.ones(count, bool)
        for ids in columns.values():
            represented &= self._classes.representatives(ids) == ids
        rows = Rows(tuple(ids[represented] for ids in columns.values()), int(np.count_nonzero(represented)))
        counts = np.ones(rows.count)
        for ids in rows.columns:
            counts *= [len(self._classes.class_of(each)) for each in ids.tolist()]
        if counts.sum() > MOST_CHOICES:
            raise too_many(int(counts.sum()))
        choices = expanded(rows, self._classes.grouped, range(len(rows.columns)))
        order = np.lexsort(choices.columns[::-1]) if choices.columns else slice(None)
        ids_of = {name: ids[order] for name, ids in zip(columns, choices.columns, strict=True)}
        return ids_of, choices.count

    # ---- tests and computations

    def _tested(self, rule: Rule, number: int, choices: tuple[dict[Variable, Ids], int]) -> RuleInstances:
        """The instances that pass the rule's tests, with the values that it computes."""
        columns, count = choices
        literals = [item for item in rule.body if not isinstance(item, Atom)]
        if not literals:
            return RuleInstances(rule, number, columns, count)
        rows = [
            row
            for row in self._rows(columns, count)
            if all(self._holds(item, row, rule) for item in literals)
        ]
        names = rows[0].keys() if rows else columns.keys()
        ids_of = {name: np.array([row[name] for row in rows], np.int32) for name in names}
        return RuleInstances(rule, number, ids_of, len(rows))

    def _rows(self, columns: Mapping[Variable, Ids], count: int) -> Iterator[dict[Variable, int]]:
        lists = [ids.tolist() for ids in columns.values()]
        for position in range(count):
            yield {name: ids[position] for name, ids in zip(columns, lists, strict=True)}

    def _holds(self, literal: Literal, row: dict[Variable, int], rule: Rule) -> bool:
        """Whether a literal holds of members; add values that it computes to the row."""
        if isinstance(literal, Negation):
            return _is_decided(literal.atom, rule) or self._is_absent(literal.atom, row)
        binding = {name: self.decode(identity) for name, identity in row.items()}
        if isinstance(literal, Assignment):
            value = evaluate(literal.expression, binding)
            if value is None:
                return False
            identity = int(self._engine.storage.dictionary.encode(value))
            return row.setdefault(literal.variable, identity) == identity
        assert isinstance(literal, Comparison | Condition)
        return bool(holds(literal, binding))

    def _is_absent(self, atom: Atom, row: Mapping[Variable, int]) -> bool:
        """Whether no fact matches an atom that has computed variables."""
        terms = [
            term
            if isinstance(term, Variable) and term not in row
            else Constant(self.decode(self.identity(term, row)))
            for term in atom.terms
        ]
        _, count = self._engine.plans.answer(
            Rule(Atom(ABSENT, ()), (self._atom(Atom(atom.predicate, tuple(terms))),))
        )
        return not count


def _matched(rule: Rule) -> frozenset[Variable]:
    """The variables that atoms of the body bind."""
    return frozenset(variable for atom in rule.positive for variable in literal_variables(atom))


def _is_decided(negated: Atom, rule: Rule) -> bool:
    """Whether a negated atom has no computed variables."""
    computed = {item.variable for item in rule.body if isinstance(item, Assignment)} - _matched(rule)
    return computed.isdisjoint(literal_variables(negated))


def too_many(choices: int) -> ProgramError:
    """The error where classes are too large to read all choices of members."""
    message = f"one step has {choices:,} instances over the members of its classes, too many to examine"
    help = f"at most {MOST_CHOICES:,} are examined"
    return ProgramError(Diagnostic(NOT_EXPLAINED, message, help=help))


def keys_of(atom: Atom, instances: RuleInstances, members: Members) -> Sequence[Key]:
    """The keys of the fact that matches an atom in each instance."""
    if not instances.count:
        return []  # computed variables have no columns
    columns = [
        instances.columns[term].tolist()
        if isinstance(term, Variable)
        else [members.identity(term, {})] * instances.count
        for term in atom.terms
    ]
    return list(zip(*columns, strict=True)) if columns else [()] * instances.count


# ---- the search
#
# As `FactSearch`, backward and level by level, but over members. A fact holds if one is explicit or
# derived that differs from it by equal constants only; two constants are equal by a chain of equalities that
# are explicit or derived. Neither is a step: the height of a proof is the number of rule instances on the
# longest way down, and both are as high as what they stand on.
#
# Invariant: `heights` are those of the lowest proofs within the search that do not use the goal.


@dataclass(frozen=True, slots=True)
class MemberFact:
    """A fact over members, whether it is explicit, derived, or differs from such a one by equal constants."""

    predicate: str
    key: Key


@dataclass(frozen=True, slots=True)
class Direct:
    """A fact that is explicit, or that a rule derives as it is."""

    predicate: str
    key: Key


@dataclass(frozen=True, slots=True)
class Equal:
    """That two constants are one, from left to right; the search itself has the smaller id on the left."""

    left: int
    right: int


@dataclass(frozen=True, slots=True)
class GroupRow:
    """A distinct row of a group that is aggregated."""

    group: int
    key: Key


MemberNode = MemberFact | Direct | Equal | GroupRow


@dataclass
class MemberSearch:
    """A backward search from one goal."""

    members: Members
    instances: InstanceFinder
    goal: MemberNode
    check: Callable[[], None]
    steps: dict[MemberNode, list[ProofStep[MemberNode]]] = field(default_factory=dict)
    heights: dict[MemberNode, int] = field(default_factory=dict)
    # Direct facts, by the fact over representatives that represents them.
    _loaded: dict[tuple[str, Key], tuple[Direct, ...]] = field(default_factory=dict)
    _waiting: list[MemberNode] = field(default_factory=list)
    _groups: int = 0

    def run(self, most_proofs: int) -> list[Ending[MemberNode]]:
        """The endings of at most `most_proofs` proofs of the goal, lowest first; of an equality only one."""
        self._waiting = [self.goal]
        levels = 0
        while True:
            self._expand_level()
            levels += 1
            self._relax()
            if isinstance(self.goal, Equal):
                if self._equal_height(self.goal) < levels or not self._waiting:
                    return [Ending(self.goal, self.goal, self.lowest(self.goal))]
                continue
            heights = [(self._ending_height(ending), ending) for ending in self._endings()]
            proved = sorted((pair for pair in heights if pair[0] < UNKNOWN), key=lambda pair: pair[0])
            certain = sum(height < levels for height, _ in proved)
            if certain >= most_proofs or not self._waiting:
                return [ending for _, ending in proved[:most_proofs]]

    def _endings(self) -> Iterator[Ending[MemberNode]]:
        """All endings of the goal, those with the fewest equalities first."""
        goal = self.goal
        if isinstance(goal, Direct):
            yield from (Ending(goal, goal, step) for step in self.steps.get(goal, ()))
        elif isinstance(goal, MemberFact):
            for whole in sorted(self.steps.get(goal, ()), key=lambda step: len(step.body)):
                direct = whole.body[0]
                assert isinstance(direct, Direct)
                equalities = equalities_between(direct, goal)
                for step in self.steps[direct]:
                    yield Ending(goal, direct, step, equalities)

    def _ending_height(self, ending: Ending[MemberNode]) -> int:
        return max(self._step_height(ending.step), *map(self.height, ending.equalities), 0)

    def _step_height(self, step: ProofStep[MemberNode]) -> int:
        """The height of a step's head."""
        below = max((self.heights.get(node, UNKNOWN) for node in step.body), default=0)
        return min(below + step.is_instance, UNKNOWN)

    # ---- results

    def lowest(self, node: MemberNode) -> ProofStep[MemberNode]:
        """The first of the lowest steps that give a node, with the fewest equalities."""
        if isinstance(node, Equal):
            return ProofStep(NodeKind.EQUAL, tuple(self._chain(node)))
        lowest = min(
            self.steps[node],
            key=lambda step: (self._step_height(step), 0 if step.instances else len(step.body)),
        )
        if isinstance(node, MemberFact):
            direct = lowest.body[0]
            assert isinstance(direct, Direct)
            return ProofStep(NodeKind.REPLACED, (direct, *equalities_between(direct, node)))
        return lowest

    def height(self, node: MemberNode) -> int:
        """The height of the lowest proof of a node, as far as one was found."""
        return self.heights.get(equal(node.left, node.right) if isinstance(node, Equal) else node, UNKNOWN)

    def fact(self, node: MemberNode) -> Atom:
        """The fact of a node."""
        assert not isinstance(node, GroupRow), "a row of a group is no fact"
        predicate, key = (
            (EQUAL, (node.left, node.right)) if isinstance(node, Equal) else (node.predicate, node.key)
        )
        return Atom(predicate, tuple(Constant(self.members.decode(each)) for each in key))

    # ---- steps

    def _expand_level(self) -> None:
        """Find all steps to the nodes that wait; the facts in bodies of rules wait for the next level."""
        level, self._waiting = self._waiting, []
        while level:
            node = level.pop()
            if node in self.steps:
                continue
            self.steps[node] = []
            self.check()
            match node:
                case MemberFact():
                    level += self._expand_fact(node)
                case Equal(left, _):
                    (representative,) = self.members.representatives((left,))
                    self._load(EQUAL, (representative, representative))
                case Direct():
                    del self.steps[node]  # an answer: its steps are found with the fact that represents it
                    self._load(node.predicate, self.members.representatives(node.key))
                case GroupRow():
                    pass  # its steps are found with the group

    def _expand_fact(self, fact: MemberFact) -> Iterator[MemberNode]:
        """Add steps from the facts that differ by equal constants; yields the equalities needed."""
        for direct in self._load(fact.predicate, self.members.representatives(fact.key)):
            pairs = equalities_between(direct, fact)
            equalities = tuple(dict.fromkeys(equal(pair.left, pair.right) for pair in pairs))
            self._add(fact, ProofStep(NodeKind.REPLACED, (direct, *equalities)))
            yield from equalities

    def _load(self, predicate: str, key: Key) -> tuple[Direct, ...]:
        """Find all direct facts that a fact over representatives represents, and the steps that give them."""
        loaded = self._loaded.get((predicate, key))
        if loaded is not None:
            return loaded
        is_goal = isinstance(self.goal, Direct) and self.goal.predicate == predicate
        explicit = [] if is_goal else self.members.explicit(predicate, key)
        direct = [Direct(predicate, each) for each in explicit]
        for node in direct:
            self._add(node, EXPLICIT_STEP)
        for rule, number in self.instances.rules_of(predicate):
            instances = self.members.find(rule, number, key)
            direct += self._add_groups(instances) if rule.aggregations else self._add_instances(instances)
        self._loaded[predicate, key] = tuple(dict.fromkeys(direct))
        return self._loaded[predicate, key]

    def _add(self, node: MemberNode, step: ProofStep[MemberNode]) -> None:
        self.steps.setdefault(node, []).append(step)

    def _add_instances(self, instances: RuleInstances) -> list[Direct]:
        """The facts that instances of a rule derive."""
        predicate = instances.rule.head.predicate
        heads = [Direct(predicate, key) for key in keys_of(instances.rule.head, instances, self.members)]
        for position, (head, body) in enumerate(zip(heads, self._bodies(instances), strict=True)):
            self._add(head, ProofStep(NodeKind.RULE, body, instances, position))
        return heads

    def _bodies(self, instances: RuleInstances) -> list[tuple[MemberNode, ...]]:
        """The facts in the bodies of instances, which wait for the next level."""
        atoms = instances.rule.positive
        columns = [
            [MemberFact(atom.predicate, key) for key in keys_of(atom, instances, self.members)]
            for atom in atoms
        ]
        for column in columns:
            self._waiting += column
        return list(zip(*columns, strict=True)) if columns else [()] * instances.count

    def _add_groups(self, instances: RuleInstances) -> Iterator[Direct]:
        """The facts of groups: each needs all its rows, and each row one instance of the body."""
        rule, decode = instances.rule, self.members.decode
        collected, bodies = collected_variables(rule), self._bodies(instances)
        groups: dict[Key, dict[GroupRow, list[int]]] = {}
        for position in range(instances.count):
            rows = groups.setdefault(_key(instances, rule.group, position), {})
            rows.setdefault(
                GroupRow(self._groups + len(groups), _key(instances, collected, position)), []
            ).append(position)
        self._groups += len(groups)
        for rows in groups.values():
            values = {name: [decode(row.key[at]) for row in rows] for at, name in enumerate(collected)}
            head = aggregated(rule, values, len(rows))
            if head is not None:
                for row, positions in rows.items():
                    for position in positions:
                        self._add(row, ProofStep(NodeKind.ROW, bodies[position], instances, position))
                direct = Direct(rule.head.predicate, self.members.key(head))
                self._add(direct, ProofStep(NodeKind.AGGREGATE, tuple(rows), instances))
                yield direct

    # ---- heights

    def _relax(self) -> None:
        """Compute the heights of all nodes of the search; no proof may use the goal."""
        goal = self.goal
        excluded = {goal, Direct(goal.predicate, goal.key)} if isinstance(goal, MemberFact) else {goal}
        is_lower = True
        while is_lower:
            is_lower = False
            for node, steps in self.steps.items():
                if node in excluded:
                    continue
                height = min(map(self._step_height, steps), default=UNKNOWN)
                if isinstance(node, Equal):
                    height = self._equal_height(node)
                if height < self.heights.get(node, UNKNOWN):
                    self.heights[node], is_lower = height, True

    def _edges(self, node: Equal) -> list[tuple[int, int, int]]:
        """The equalities in the class of two constants that are proved, each with its height."""
        (representative,) = self.members.representatives((node.left,))
        equalities = self._loaded.get((EQUAL, (representative, representative)), ())
        edges = ((*edge.key, self.heights.get(edge, UNKNOWN)) for edge in equalities)
        return [edge for edge in edges if edge[2] < UNKNOWN and edge[0] != edge[1]]  # type: ignore[misc]

    def _equal_height(self, node: Equal) -> int:
        """The smallest height below which equalities connect two constants."""
        edges = self._edges(node)
        for limit in sorted({height for *_, height in edges}):
            if self._path(node, [edge for edge in edges if edge[2] <= limit]) is not None:
                return limit
        return UNKNOWN

    def _chain(self, node: Equal) -> list[Direct]:
        """The fewest equalities that make two constants one, none higher than need be, from left to right."""
        ordered = equal(node.left, node.right)
        limit = self._equal_height(ordered)
        path = self._path(ordered, [edge for edge in self._edges(ordered) if edge[2] <= limit])
        assert path is not None, "they are in one class"
        return path if node == ordered else path[::-1]

    def _path(self, node: Equal, edges: Sequence[tuple[int, int, int]]) -> list[Direct] | None:
        """The shortest path from one constant to the other by these equalities."""
        neighbours: dict[int, list[tuple[int, Direct]]] = {}
        for left, right, _ in edges:
            neighbours.setdefault(left, []).append((right, Direct(EQUAL, (left, right))))
            neighbours.setdefault(right, []).append((left, Direct(EQUAL, (left, right))))
        paths: dict[int, list[Direct]] = {node.left: []}
        level = [node.left]
        while level and node.right not in paths:
            next_level = []
            for constant in level:
                for neighbour, edge in neighbours.get(constant, ()):
                    if neighbour not in paths:
                        paths[neighbour] = [*paths[constant], edge]
                        next_level.append(neighbour)
            level = next_level
        return paths.get(node.right)


def equalities_between(direct: Direct, fact: MemberFact) -> tuple[Equal, ...]:
    """The equalities that turn a direct fact into one that differs from it by equal constants."""
    pairs = zip(direct.key, fact.key, strict=True)
    return tuple(dict.fromkeys(Equal(left, right) for left, right in pairs if left != right))


def equal(left: int, right: int) -> Equal:
    """The equality of two constants, whatever their order."""
    return Equal(min(left, right), max(left, right))


def _key(instances: RuleInstances, names: Sequence[Variable], position: int) -> Key:
    return tuple(int(instances.columns[name][position]) for name in names)
