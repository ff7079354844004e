"""Proofs of the answers to a query, built from the results of a search."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

import numpy as np

from tidelog.data.dictionary import Dictionary
from tidelog.data.rows import Ids, Rows, concatenate, distinct
from tidelog.data.rows import keys_of as keys_of_rows
from tidelog.engine.fixpoint import derive
from tidelog.errors import Diagnostic, ProgramError
from tidelog.errors.codes import DOES_NOT_HOLD
from tidelog.logic.program import (
    Assignment,
    Atom,
    Comparison,
    Constant,
    Fact,
    Literal,
    Negation,
    Program,
    Query,
    Rule,
    Variable,
)
from tidelog.logic.strata import strata
from tidelog.logic.values import Value
from tidelog.plan.algebra import EXPLAINED, EXPLAINED_MEMBERS, MAGIC_ANSWERS
from tidelog.plan.compile import collected_variables
from tidelog.plan.join_order import expected_growth
from tidelog.plan.rule_text import Writing
from tidelog.proof import MOST_ROWS
from tidelog.proof.explanation import Binding, Explanation, NodeKind, ProofNode, grounded
from tidelog.proof.member_search import (
    Direct,
    Equal,
    EqualityView,
    MemberFact,
    MemberNode,
    Members,
    MemberSearch,
    keys_of,
)
from tidelog.proof.proof_search import (
    EXPLICIT_STEP,
    Ending,
    FactSearch,
    InstanceFinder,
    N,
    ProofStep,
    RuleInstances,
    StepSource,
)
from tidelog.query.magic import ONCE, add_facts, relations
from tidelog.query.strategy import QueryContext
from tidelog.rewrite.magic_sets import MagicOptions, Rewritten, rewrite
from tidelog.rewrite.renaming import AdornedKind as AdornedKind

if TYPE_CHECKING:
    from tidelog.engine.columnar.engine import ColumnarEngine

# ---- facts relevant to a query, by magic sets
#
# Proofs are found from a fact back through all instances of rules that derive it. So a relation has to hold
# every fact of every such instance, and what is negated or aggregated has to be complete for them. Magic sets
# request exactly that if they keep the rules as they are: each literal of a body is requested with the
# bindings that the head and the literals before it give, and so for every instance of a requested fact.


@contextmanager
def demanded(query: Query, context: QueryContext) -> Iterator[None]:
    """Within the block, derived relations hold the facts that the query requests.

    No facts are derived yet; afterwards the relations hold only explicit facts again.
    """
    engine = context.engine
    options = MagicOptions(context.explicit, expected_growth(engine.storage), refined=False)
    requested = replace(query.rule, head=Atom(MAGIC_ANSWERS, query.rule.head.terms))
    rewritten = rewrite(context.program.rules, [requested], options).apart(ONCE)
    with relations(rewritten, engine):
        add_facts(rewritten.seeds, engine)
        numbers = {id(rule): number for number, rule in enumerate(rewritten.rules)}
        derive(engine, strata(rewritten.rules), numbers, context.listen, context.check, context.modules)
        derived = _derived(rewritten, engine)
    try:
        engine.replacement.restore(derived)
        yield
    finally:
        engine.replacement.forget_derived(derived.keys())


def _derived(rewritten: Rewritten, engine: ColumnarEngine) -> dict[str, Answers]:
    """Return the facts of each predicate that were derived in some pattern, without explicit ones."""
    parts: dict[str, list[Rows]] = {}
    for name, relation in rewritten.relations.items():
        if relation.kind is AdornedKind.ADORNED:
            parts.setdefault(relation.predicate, []).append(Rows(*engine.storage.rows(name)))
    return {name: _new(name, several, engine) for name, several in parts.items()}


def _new(relation: str, parts: list[Rows], engine: ColumnarEngine) -> Answers:
    """Return the rows that the relation does not have, each once."""
    rows = concatenate(parts)
    if not rows.columns:
        return (), int(rows.count > 0 and not engine.storage.size(relation))
    is_new = engine.storage.row_flags(relation, rows.columns, rows.count) == 0
    unique = np.unique(np.column_stack([column[is_new] for column in rows.columns]), axis=0)
    return tuple(np.ascontiguousarray(column) for column in unique.T), len(unique)


# ---- from search results to proofs

# Returns the origin of an explicit fact, which is shown by `str`.
Origin = Callable[[Fact], object | None]


class ProofTrees(Generic[N]):
    """Builds proofs from one search."""

    def __init__(
        self, search: StepSource[N], dictionary: Dictionary, origin: Origin, most_rows: int | None = MOST_ROWS
    ) -> None:
        self._search = search
        self._dictionary = dictionary
        self._origin = origin
        self._most_rows = most_rows
        self._nodes: dict[N, ProofNode] = {}

    def ending_with(self, ending: Ending[N]) -> ProofNode:
        """The lowest proof of the goal with this ending."""
        self._build([*self._shown_body(ending.step), *ending.equalities])
        if ending.step is EXPLICIT_STEP:  # all uses of the fact share the node
            self._build([ending.node])
            last = self._nodes[ending.node]
        else:
            last = self._node(ending.node, ending.step)
        return self._replaced(
            NodeKind.REPLACED, ending.goal, (last, *map(self._nodes.__getitem__, ending.equalities))
        )

    def _build(self, nodes: Sequence[N]) -> None:
        """Build all nodes that these need, each after its children."""
        waiting: list[tuple[N, ProofStep[N] | None]] = [(node, None) for node in nodes]
        while waiting:
            node, step = waiting.pop()
            if node in self._nodes:
                continue
            if step is None:
                step = self._search.lowest(node)
                waiting.append((node, step))
                waiting += [(each, None) for each in self._shown_body(step)]
            else:
                self._nodes[node] = self._node(node, step)

    def _shown_body(self, step: ProofStep[N]) -> Sequence[N]:
        """The body of a step; of a group at most `most_rows` rows."""
        return step.body[: self._most_rows] if step.kind is NodeKind.AGGREGATE else step.body

    # ---- nodes

    def _node(self, node: N, step: ProofStep[N]) -> ProofNode:
        match step.kind:
            case NodeKind.EXPLICIT:
                return self._explicit(self._search.fact(node))
            case NodeKind.ROW:
                return self._row(step)
            case NodeKind.RULE | NodeKind.AGGREGATE:
                return self._derived(self._search.fact(node), step)
            case _:
                return self._replaced(step.kind, node, tuple(self._nodes[each] for each in step.body))

    def _explicit(self, atom: Atom) -> ProofNode:
        values = tuple(term.value for term in atom.terms if isinstance(term, Constant))
        return ProofNode(NodeKind.EXPLICIT, atom, origin=self._origin(Fact(atom.predicate, values)))

    def _derived(self, atom: Atom, step: ProofStep[N]) -> ProofNode:
        assert step.instances is not None
        rule, number = step.instances.rule, step.instances.number
        is_group = step.kind is NodeKind.AGGREGATE
        children = (self._aggregate(step, atom),) if is_group else self._literals(step)
        kind = NodeKind.RULE if number >= 0 else NodeKind.QUERY
        return ProofNode(kind, atom, children, 1 + self._height(step), rule, number)

    def _aggregate(self, step: ProofStep[N], atom: Atom) -> ProofNode:
        assert step.instances is not None
        rule, number = step.instances.rule, step.instances.number
        rows = tuple(self._nodes[row] for row in self._shown_body(step))
        elided = len(step.body) - len(rows)
        return ProofNode(
            NodeKind.AGGREGATE,
            None,
            rows,
            self._height(step),
            rule,
            number,
            results(rule, atom),
            elided=elided,
        )

    def _row(self, step: ProofStep[N]) -> ProofNode:
        assert step.instances is not None
        rule, number = step.instances.rule, step.instances.number
        binding = step.instances.binding(step.position, self._dictionary)
        distinct = tuple((variable, binding[variable]) for variable in collected_variables(rule))
        return ProofNode(NodeKind.ROW, None, self._literals(step), self._height(step), rule, number, distinct)

    def _replaced(self, kind: NodeKind, node: N, children: tuple[ProofNode, ...]) -> ProofNode:
        """A fact by others that make it, or the only one of them if it is the same fact."""
        atom = self._search.fact(node)
        if len(children) == 1 and children[0].literal == atom:
            return children[0]
        return ProofNode(kind, atom, children, max(child.height for child in children))

    def _literals(self, step: ProofStep[N]) -> tuple[ProofNode, ...]:
        """The literals of an instance's body, in the rule's order."""
        assert step.instances is not None
        binding = step.instances.binding(step.position, self._dictionary)
        facts = iter(step.body)
        return tuple(
            self._nodes[next(facts)] if isinstance(item, Atom) else held(item, binding)
            for item in step.instances.rule.body
        )

    def _height(self, step: ProofStep[N]) -> int:
        """The height of the highest node in the body of a step."""
        return max(map(self._search.height, step.body), default=0)


def held(literal: Literal, binding: Binding) -> ProofNode:
    """The node of a literal that is not an atom, with the binding under which it holds."""
    if isinstance(literal, Negation):
        return ProofNode(NodeKind.NEGATION, grounded(literal, binding))
    if isinstance(literal, Assignment):
        computed = ((literal.variable, binding[literal.variable]),)
        return ProofNode(NodeKind.COMPUTED, grounded(literal, binding), binding=computed)
    return ProofNode(NodeKind.TEST, grounded(literal, binding))


def results(rule: Rule, atom: Atom) -> tuple[tuple[Variable, Value], ...]:
    """The results of a rule's aggregates that are arguments of a fact."""
    computed = {item.variable for item in rule.aggregations} | {item.variable for item in rule.after}
    pairs = zip(rule.head.terms, atom.terms, strict=True)
    return tuple(
        (term, constant.value)
        for term, constant in pairs
        if isinstance(term, Variable) and isinstance(constant, Constant) and term in computed
    )


# ---- why facts hold

Answers = tuple[Sequence[Ids], int]
Goal = TypeVar("Goal")


class ProofSpace(Protocol[Goal]):
    """Where proofs are searched: among the rows of relations, or over the members of classes."""

    answers_prefix: str  # the prefix of the names of relations of answers

    def answers(self, query: Query) -> Answers:
        """The answers to a query."""

    def goals(self, rule: Rule, answers: Rows) -> Sequence[Goal] | None:
        """The facts that the answers are, if the query is one atom."""

    def add(self, relation: str, answers: Rows) -> Sequence[Goal]:
        """Answers as facts of a relation that a rule derives."""

    def search(self, goal: Goal) -> StepSource[Any]:
        """A search for proofs of a goal."""


class Prover:
    """Finds proofs of derived facts. Caches the plans of rules."""

    def __init__(self, engine: ColumnarEngine, origin: Origin) -> None:
        self._engine = engine
        self._instances = InstanceFinder(engine)
        self._origin = origin

    def explain(
        self,
        query: Query,
        program: Program,
        most_proofs: int = 1,
        limit: int = 10,
        most_rows: int | None = MOST_ROWS,
        check: Callable[[], None] = lambda: None,
        equality: EqualityView | None = None,
    ) -> Explanation:
        """At most `most_proofs` proofs of each of the first `limit` answers to a query.

        All facts must be derived. `equality` is given if constants may be equal.
        """
        instances = self.instances(program)
        if equality is None:
            return self._explain(FactSpace(instances, check), query, program, most_proofs, limit, most_rows)
        return self._explain(
            MemberSpace(instances, equality, check), query, program, most_proofs, limit, most_rows
        )

    def instances(self, program: Program) -> InstanceFinder:
        """The finder of instances of the program's rules."""
        self._instances.use(program)
        return self._instances

    def _explain(
        self,
        space: ProofSpace[Goal],
        query: Query,
        program: Program,
        most_proofs: int,
        limit: int,
        most_rows: int | None,
    ) -> Explanation:
        columns, count = space.answers(query)
        if not count:
            raise does_not_hold(query)
        proofs: list[ProofNode] = []
        answers = Rows(tuple(column[:limit] for column in columns), min(count, limit))
        with self._goals(space, query.rule, answers) as goals:
            for goal in goals:
                search = space.search(goal)
                endings = search.run(most_proofs)
                trees = ProofTrees(search, self._engine.storage.dictionary, self._origin, most_rows)
                proofs += [trees.ending_with(ending) for ending in endings]
        return Explanation(query.text.strip(), tuple(proofs), Writing.of(program), max(0, count - limit))

    @contextmanager
    def _goals(self, space: ProofSpace[Goal], rule: Rule, answers: Rows) -> Iterator[Sequence[Goal]]:
        """The goals: facts if the query is an atom, else answers, which the query derives."""
        facts = space.goals(rule, answers)
        if facts is not None:
            yield facts
            return
        relation = f"{space.answers_prefix} {len(answers.columns)}"
        self._engine.storage.define_temporary(relation, len(answers.columns))
        try:
            goals = space.add(relation, answers)
            self._instances.ask(replace(rule, head=Atom(relation, rule.head.terms)))
            yield goals
        finally:
            self._engine.storage.clear(relation)


class FactSpace:
    """The rows of relations, as they are."""

    answers_prefix = EXPLAINED

    def __init__(self, instances: InstanceFinder, check: Callable[[], None]) -> None:
        self._instances = instances
        self._engine = instances.engine
        self._check = check

    def answers(self, query: Query) -> Answers:
        """Return the answers to a query; a fact is looked up, without reading all of its predicate."""
        rule = query.rule
        atom = the_atom(rule)
        if atom is not None and not rule.head.terms:
            ids = [
                self._engine.storage.dictionary.encode(term.value)
                for term in atom.terms
                if isinstance(term, Constant)
            ]
            columns = [np.array([identity], np.int32) for identity in ids]
            return (), int(self._engine.storage.row_flags(atom.predicate, columns, 1)[0] != 0)
        return self._engine.plans.answer(rule)

    def goals(self, rule: Rule, answers: Rows) -> list[tuple[str, int]] | None:
        """The facts that the answers are, if the query is one atom."""
        atom = the_atom(rule)
        if atom is None:
            return None
        rows = self._instances.rows(atom, _found(rule, answers))
        return [(atom.predicate, row) for row in rows.tolist()]

    def add(self, relation: str, answers: Rows) -> list[tuple[str, int]]:
        """Answers as facts of a relation."""
        self._engine.storage.add(relation, answers.columns, answers.count)
        return [(relation, row) for row in range(answers.count)]

    def search(self, goal: tuple[str, int]) -> FactSearch:
        """A search for proofs of a row."""
        relation, row = goal
        return FactSearch(self._instances, relation, row, self._check)


class MemberSpace:
    """All members of the classes of equal constants."""

    answers_prefix = EXPLAINED_MEMBERS

    def __init__(self, instances: InstanceFinder, equality: EqualityView, check: Callable[[], None]) -> None:
        self._instances = instances
        self._equality_view = equality
        self._members = Members(instances, replace(equality, relation=self._relation))
        self._check = check

    def _relation(self, predicate: str) -> str:
        return (
            predicate
            if predicate.startswith(self.answers_prefix)
            else self._equality_view.relation(predicate)
        )

    def answers(self, query: Query) -> Answers:
        """The answers to a query; an equality of two different constants has one answer or none."""
        pair = self._equality(query.rule)
        if pair is None:
            return self._equality_view.answer(query)
        left, right = self._members.representatives((pair.left, pair.right))
        return (), int(left == right and pair.left != pair.right)

    def goals(self, rule: Rule, answers: Rows) -> Sequence[MemberNode] | None:
        """The facts of the answers if the query is an atom, or the equality that it requests."""
        pair, atom = self._equality(rule), the_atom(rule)
        if pair is not None:
            return [pair]
        if atom is None:
            return None
        keys = keys_of(atom, _found(rule, answers), self._members)
        return [MemberFact(atom.predicate, key) for key in keys]

    def add(self, relation: str, answers: Rows) -> Sequence[MemberNode]:
        """Answers as facts of a relation, which has them over representatives."""
        normalised = distinct([self._equality_view.classes.normalise(answers)])
        self._instances.engine.storage.add(relation, normalised.columns, normalised.count)
        return [Direct(relation, key) for key in keys_of_rows(answers)]

    def search(self, goal: MemberNode) -> MemberSearch:
        """A search for proofs of a fact over members, or of an equality."""
        return MemberSearch(self._members, self._instances, goal, self._check)

    def _equality(self, rule: Rule) -> Equal | None:
        """The two constants of a query for their equality, else None."""
        match rule.body:
            case (Comparison("=", Constant() as left, Constant() as right),):
                return Equal(self._members.identity(left, {}), self._members.identity(right, {}))
        return None


def _found(rule: Rule, answers: Rows) -> RuleInstances:
    """Answers as instances of the query."""
    variables = (term for term in rule.head.terms if isinstance(term, Variable))
    return RuleInstances(rule, -1, dict(zip(variables, answers.columns, strict=True)), answers.count)


def the_atom(query: Rule) -> Atom | None:
    """The atom that a query is, if its answers distinguish the facts of the atom."""
    atom = query.body[0]
    if len(query.body) > 1 or not isinstance(atom, Atom):
        return None
    return (
        atom if all(isinstance(term, Constant) or term in query.head.terms for term in atom.terms) else None
    )


def does_not_hold(query: Query, can_say_why_not: bool = True) -> ProgramError:
    """The error for explaining a query without answers."""
    text = query.text.strip()
    what = "does not hold" if not query.variables else "has no answers"
    message = f"`{text}` {what}, so there is nothing to explain"
    help = f"`tidelog explain PROGRAM --why-not '{text}'`, or `reasoner.why_not(…)`, says what is missing"
    return ProgramError(
        Diagnostic(DOES_NOT_HOLD, message, help=help if can_say_why_not and not query.variables else None)
    )
