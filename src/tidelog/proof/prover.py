"""Why facts hold: from what a search has found to the proofs of what a query asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from tidelog.data.rows import Ids, distinct
from tidelog.data.rows import Rows as IdRows
from tidelog.errors import Diagnostic, ProgramError
from tidelog.logic.program import (
    EQUAL,
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
from tidelog.logic.program import Fact as Statement
from tidelog.logic.strata import strata
from tidelog.logic.values import Value
from tidelog.plan.compile import collected_variables
from tidelog.plan.join_order import expected_growth
from tidelog.plan.rule_text import Writing
from tidelog.proof import explanation as proofs
from tidelog.proof.explanation import Binding, Explanation, Kind, Node, ground_atom, grounded
from tidelog.proof.member_search import (
    STATED,
    Direct,
    Ending,
    Equal,
    EqualSearch,
    Key,
    Members,
    Row,
    Step,
    Treated,
    equal,
)
from tidelog.proof.member_search import Fact as MemberFact
from tidelog.proof.member_search import Node as SearchNode
from tidelog.proof.proof_search import HOLDS, SCRATCH, Found, Instances, Rows, Search
from tidelog.query.magic import ANSWERS, ONCE, batch, relations
from tidelog.query.strategy import Answers, Place
from tidelog.rewrite.magic_sets import Options, Rewritten, rewrite
from tidelog.rewrite.renaming import Kind as AdornedKind

# ---- The facts that a query asks for, by magic sets, in the relations of the program itself.
#
# Proofs are found from a fact back through all instances of rules that derive it. So a relation has to hold
# every fact of every such instance, and what is negated or aggregated has to be complete for them. Magic sets
# ask for exactly that if they keep the rules as they are: each literal of a body is asked for with the
# bindings that the head and the literals before it give, and so for every instance of a fact that is asked
# for.


@contextmanager
def demanded(query: Query, place: Place) -> Iterator[None]:
    """In the block, the derived relations hold what the query asks for; afterwards their explicit facts only.

    Nothing else is derived yet.
    """
    engine: Any = place.engine
    options = Options(place.stated, expected_growth(engine), refined=False)
    asked = replace(query.rule, head=Atom(ANSWERS, query.rule.head.terms))
    made = rewrite(place.program.rules, [asked], options).apart(ONCE)
    with relations(made, engine):
        for seed in made.seeds:
            engine.load(seed.predicate, batch([seed]))
        numbers = {id(rule): number for number, rule in enumerate(made.rules)}
        engine.derive(strata(made.rules), numbers, place.listen, place.check, place.modules)
        found = _derived(made, engine)
    try:
        engine.restore(found)
        yield
    finally:
        engine.forget_derived(found.keys())


def _derived(made: Rewritten, engine: Any) -> dict[str, Answers]:
    """Return the facts of each predicate that were derived in some pattern, without explicit ones."""
    parts: dict[str, list[Answers]] = {}
    for name, relation in made.relations.items():
        if relation.kind is AdornedKind.ADORNED:
            parts.setdefault(relation.predicate, []).append(engine.rows(name))
    return {name: _new(name, several, engine) for name, several in parts.items()}


def _new(relation: str, parts: list[Answers], engine: Any) -> Answers:
    """Return the rows that no relation has, each once."""
    arity, count = engine.table(relation).arity, sum(rows for _, rows in parts)
    if not arity:
        is_new = any(rows for _, rows in parts) and not engine.size(relation)
        return (), int(is_new)
    columns = [np.concatenate([each[place] for each, _ in parts]) for place in range(arity)]
    is_new = engine.standing(relation, columns, count) == 0
    unique = np.unique(np.column_stack([column[is_new] for column in columns]), axis=0)
    return tuple(np.ascontiguousarray(unique[:, place]) for place in range(arity)), len(unique)


# ---- From what a search has found to proofs: the lowest instance of each fact, from the leaves up.

Origin = Callable[
    [Fact], object | None
]  # where an explicit fact comes from, as something that can be written

MOST_ROWS = 20  # of a group that a proof holds


class Trees:
    """Makes nodes of what one search has found."""

    def __init__(self, search: Search, origin: Origin, most_rows: int | None = MOST_ROWS) -> None:
        self._search = search
        self._graph = search.graph
        self._origin = origin
        self._most_rows = most_rows
        self._lowest = search.graph.lowest()
        self._made: dict[int, Node] = {}
        self._stated: dict[Atom, Node] = {}

    def explicit(self) -> Node:
        """The goal as a fact that is stated."""
        return self._explicit(fact_atom(self._fact(self._search.goal)))

    def ending_with(self, instance: int) -> Node:
        """The lowest proof of the goal whose last step is an instance."""
        needed = self._needed(self._kept(self._graph.body(instance)))
        graph = self._graph
        # Rows are as high as the facts in them, so they come after these.
        for node in sorted(needed, key=lambda node: (graph.heights[node], not graph.steps[node])):
            if node not in self._made:
                self._made[node] = self._node(node)
        return self._derived(self._fact(self._search.goal), instance)

    def _needed(self, body: Sequence[int]) -> set[int]:
        """The nodes that a body needs, directly or not."""
        needed: set[int] = set()
        waiting = list(body)
        while waiting:
            node = waiting.pop()
            if node != HOLDS and node not in needed:
                needed.add(node)
                waiting += self._kept(self._graph.body(self._lowest[node]))
        return needed

    def _kept(self, body: Sequence[int]) -> Sequence[int]:
        """The nodes of a body, but for the rows of a group that are too many."""
        rows = [node for node in body if node != HOLDS and node not in self._search.facts]
        return body if not rows else rows[: self._most_rows]

    # ---- nodes

    def _node(self, node: int) -> Node:
        if node not in self._search.facts:
            return self._row(node)
        return self._derived(self._fact(node), self._lowest[node])

    def _explicit(self, atom: Atom) -> Node:
        if atom not in self._stated:
            values = tuple(term.value for term in atom.terms if isinstance(term, Constant))
            origin = self._origin(Fact(atom.predicate, values))
            self._stated[atom] = Node(Kind.EXPLICIT, atom, origin=origin)
        return self._stated[atom]

    def _derived(self, fact: Fact, instance: int) -> Node:
        found, place = self._graph.found_with(instance)
        body = self._graph.body(instance)
        if found.rule.aggregations:
            children: tuple[Node, ...] = (self._aggregate(found, fact, body),)
        else:
            children = self._literals(found, place, body)
        kind = Kind.RULE if found.number >= 0 else Kind.QUERY
        height = 1 + int(self._graph.worst[instance])
        return Node(kind, fact_atom(fact), children, height, found.rule, found.number)

    def _aggregate(self, found: Found, fact: Fact, body: Sequence[int]) -> Node:
        rows = [node for node in body if node != HOLDS]
        shown = tuple(self._made[node] for node in rows[: self._most_rows])
        height = max(int(self._graph.heights[node]) for node in rows)
        return Node(
            Kind.AGGREGATE,
            None,
            shown,
            height,
            found.rule,
            found.number,
            results(found.rule, fact),
            elided=len(rows) - len(shown),
        )

    def _row(self, node: int) -> Node:
        instance = self._lowest[node]
        found, place = self._graph.found_with(instance)
        binding = self._binding(found, place)
        distinct = tuple((variable, binding[variable]) for variable in collected_variables(found.rule))
        children = self._literals(found, place, self._graph.body(instance))
        return Node(
            Kind.ROW, None, children, int(self._graph.heights[node]), found.rule, found.number, distinct
        )

    def _literals(self, found: Found, place: int, body: Sequence[int]) -> tuple[Node, ...]:
        """The literals of an instance's body, in the rule's order."""
        binding = self._binding(found, place)
        facts = iter(body[1:])
        return tuple(
            self._used(next(facts), item, binding) if isinstance(item, Atom) else held(item, binding)
            for item in found.rule.body
        )

    def _used(self, node: int, atom: Atom, binding: Binding) -> Node:
        return self._explicit(ground_atom(atom, binding)) if node == HOLDS else self._made[node]

    # ---- values

    def _binding(self, found: Found, place: int) -> dict[Variable, Value]:
        decode = self._search.engine.dictionary.decode
        return {name: decode(int(column[place])) for name, column in found.columns.items()}

    def _fact(self, node: int) -> Fact:
        relation, row = self._search.facts[node]
        engine = self._search.engine
        table = engine.table(relation)
        values = (engine.dictionary.decode(int(column[row])) for column in table.columns)
        return Fact(relation, tuple(values))


def fact_atom(fact: Fact) -> Atom:
    return Atom(fact.predicate, tuple(map(Constant, fact.values)))


def held(literal: Literal, binding: Binding) -> Node:
    """A literal of a body that is no atom, under the binding that makes it hold."""
    if isinstance(literal, Negation):
        return Node(Kind.NEGATION, grounded(literal, binding))
    if isinstance(literal, Assignment):
        computed = ((literal.variable, binding[literal.variable]),)
        return Node(Kind.COMPUTED, grounded(literal, binding), binding=computed)
    return Node(Kind.TEST, grounded(literal, binding))


def results(rule: Rule, fact: Fact) -> tuple[tuple[Variable, Value], ...]:
    """What the aggregates of a rule are in a fact, where it has them as arguments."""
    computed = {item.variable for item in rule.aggregations} | {item.variable for item in rule.after}
    pairs = zip(rule.head.terms, fact.values, strict=True)
    return tuple((term, value) for term, value in pairs if isinstance(term, Variable) and term in computed)


# ---- From what a search over members has found to proofs: the lowest step to each fact, from the leaves up.


class EqualTrees:
    """Makes nodes of what one search over members has found."""

    def __init__(self, search: EqualSearch, origin: Origin, most_rows: int | None = MOST_ROWS) -> None:
        self._search = search
        self._origin = origin
        self._most_rows = most_rows
        self._made: dict[object, proofs.Node] = {}

    def ending_with(self, ending: Ending) -> proofs.Node:
        """The lowest proof of the goal that ends so."""
        self._make([*ending.step.body, *ending.equalities])
        last = self._direct(ending.direct, ending.step)
        goal = self._search.goal
        assert isinstance(goal, MemberFact | Direct)
        return self._replaced(goal.predicate, goal.key, ending.direct.key, last)

    def equal(self, left: int, right: int) -> proofs.Node:
        """Why two constants are one."""
        self._make(self._search.chain(equal(left, right)))
        return self._equal(left, right)

    # ---- from the leaves up

    def _make(self, nodes: Sequence[SearchNode]) -> None:
        """Make all nodes that these need, each after what it stands on."""
        waiting: list[tuple[SearchNode, bool]] = [(node, False) for node in nodes]
        while waiting:
            node, is_ready = waiting.pop()
            if is_ready:
                self._made[node] = self._node(node)
            elif node not in self._made:
                waiting.append((node, True))
                waiting += [(each, False) for each in self._below(node)]

    def _below(self, node: SearchNode) -> Sequence[SearchNode]:
        """What a node stands on."""
        if isinstance(node, Equal):
            return self._search.chain(node)
        step = self._search.lowest(node)
        return step.body[: self._most_rows] if _is_group(step) else step.body

    def _node(self, node: SearchNode) -> proofs.Node:
        match node:
            case Equal(left, right):
                return self._equal(left, right)
            case MemberFact(predicate, key):
                direct, *_ = self._search.lowest(node).body
                assert isinstance(direct, Direct)
                return self._replaced(predicate, key, direct.key, self._made[direct])
            case Direct():
                return self._direct(node, self._search.lowest(node))
            case Row():
                return self._row(node)

    # ---- facts

    def _direct(self, node: Direct, step: Step) -> proofs.Node:
        fact = Statement(node.predicate, self._values(node.key))
        if step is STATED:
            return proofs.Node(Kind.EXPLICIT, _atom(fact), origin=self._origin(fact))
        assert step.found is not None
        rule, number = step.found.rule, step.found.number
        children = (self._aggregate(step, fact),) if _is_group(step) else self._literals(step)
        kind = Kind.RULE if number >= 0 else Kind.QUERY
        return proofs.Node(kind, _atom(fact), children, self._search.height(step), rule, number)

    def _literals(self, step: Step) -> tuple[proofs.Node, ...]:
        """The literals of an instance's body, in the rule's order."""
        assert step.found is not None
        binding = self._binding(step)
        facts = iter(step.body)
        return tuple(
            self._made[next(facts)] if isinstance(item, Atom) else held(item, binding)
            for item in step.found.rule.body
        )

    def _binding(self, step: Step) -> Binding:
        assert step.found is not None
        columns = step.found.columns.items()
        return {name: self._search.members.decode(int(ids[step.place])) for name, ids in columns}

    def _aggregate(self, step: Step, fact: Statement) -> proofs.Node:
        assert step.found is not None
        rule, number = step.found.rule, step.found.number
        shown = tuple(self._made[row] for row in step.body[: self._most_rows])
        height = max(self._search.heights[row] for row in step.body)
        more = len(step.body) - len(shown)
        return proofs.Node(
            Kind.AGGREGATE, None, shown, height, rule, number, results(rule, fact), elided=more
        )

    def _row(self, node: Row) -> proofs.Node:
        step = self._search.lowest(node)
        assert step.found is not None
        rule, number = step.found.rule, step.found.number
        binding = self._binding(step)
        distinct = tuple((name, binding[name]) for name in collected_variables(rule))
        height = self._search.heights[node]
        return proofs.Node(Kind.ROW, None, self._literals(step), height, rule, number, distinct)

    # ---- equality

    def _replaced(self, predicate: str, key: Key, source: Key, last: proofs.Node) -> proofs.Node:
        """A fact by one that differs by equal constants; that itself, if it does not differ."""
        if key == source:
            return last
        pairs = dict.fromkeys(pair for pair in zip(source, key, strict=True) if pair[0] != pair[1])
        children = (last, *(self._equal(*pair) for pair in pairs))
        atom = _atom(Statement(predicate, self._values(key)))
        return proofs.Node(Kind.REPLACED, atom, children, max(child.height for child in children))

    def _equal(self, left: int, right: int) -> proofs.Node:
        """Why two constants are one: the equality itself if there is one, else a chain from left to right."""
        if (left, right) not in self._made:
            self._made[left, right] = self._chained(left, right)
        return self._made[left, right]

    def _chained(self, left: int, right: int) -> proofs.Node:
        node = equal(left, right)
        chain = self._search.chain(node)
        steps = tuple(self._made[each] for each in (chain if node.left == left else chain[::-1]))
        if len(chain) == 1 and chain[0].key == (left, right):
            return steps[0]
        atom = _atom(Statement(EQUAL, self._values((left, right))))
        return proofs.Node(Kind.EQUAL, atom, steps, max(step.height for step in steps))

    def _values(self, key: Key) -> tuple[Value, ...]:
        return tuple(map(self._search.members.decode, key))


def _atom(fact: Statement) -> Atom:
    return Atom(fact.predicate, tuple(map(Constant, fact.values)))


def _is_group(step: Step) -> bool:
    return step.found is not None and step.place < 0


# ---- Why facts hold: the proofs of what a query asks for.

DOES_NOT_HOLD = "E655"
ASKED = f"{SCRATCH} asked"  # the relation of the answers that are explained


class Prover:
    """Finds proofs in what is derived. Keeps the plans of rules for the next time."""

    def __init__(self, engine: Any, origin: Origin) -> None:
        self._engine = engine
        self._instances = Instances(engine)
        self._origin = origin

    def explain(
        self,
        query: Query,
        program: Program,
        wanted: int = 1,
        limit: int = 10,
        most_rows: int | None = MOST_ROWS,
        check: Callable[[], None] = lambda: None,
    ) -> Explanation:
        """So many proofs of each of the first answers to a query; everything is derived."""
        self.instances(program)
        columns, count = self._answers(query.rule)
        if not count:
            raise does_not_hold(query)
        answers = [column[:limit] for column in columns]
        proofs: list[Node] = []
        with self._goals(query.rule, answers, min(count, limit)) as (relation, rows):
            for row in rows.tolist():
                proofs += self._prove(Search(self._instances, relation, row, check), wanted, most_rows)
        return Explanation(query.text.strip(), tuple(proofs), Writing.of(program), max(0, count - limit))

    def instances(self, program: Program) -> Instances:
        """What finds instances of the program's rules."""
        self._instances.use(program)
        return self._instances

    def _answers(self, rule: Rule) -> tuple[Sequence[Ids], int]:
        """The answers to a query; a fact is looked up, since a plan would look at all of its predicate."""
        atom = the_atom(rule)
        if atom is not None and not rule.head.terms:
            ids = [self._engine.identity(term.value) for term in atom.terms if isinstance(term, Constant)]
            columns = [np.array([identity], np.int32) for identity in ids]
            return (), int(self._engine.standing(atom.predicate, columns, 1)[0] != 0)
        answers: tuple[Sequence[Ids], int] = self._engine.answer(rule)
        return answers

    @contextmanager
    def _goals(self, rule: Rule, answers: Sequence[Ids], count: int) -> Iterator[tuple[str, Rows]]:
        """The relation and rows of what is to be proved: facts, if the query is an atom, else answers."""
        atom = the_atom(rule)
        if atom is not None:
            variables = (term for term in rule.head.terms if isinstance(term, Variable))
            found = Found(rule, -1, dict(zip(variables, answers, strict=True)), count)
            yield atom.predicate, self._instances.rows(atom, found)
            return
        relation = f"{ASKED} {len(answers)}"
        self._engine.scratch(relation, len(answers))
        try:
            self._engine.add(relation, answers, count)
            self._instances.ask(replace(rule, head=Atom(relation, rule.head.terms)))
            yield relation, np.arange(count)
        finally:
            self._engine.clear(relation)

    def _prove(self, search: Search, wanted: int, most_rows: int | None) -> list[Node]:
        """The lowest proofs of a goal; that it is explicit is the lowest of all."""
        is_stated = search.is_explicit and not search.relation.startswith(ASKED)
        ends = search.run(wanted - is_stated) if wanted > is_stated else []
        trees = Trees(search, self._origin, most_rows)
        proofs = [trees.explicit()] if is_stated else []
        return proofs + [trees.ending_with(instance) for instance in ends]


def the_atom(query: Rule) -> Atom | None:
    """The atom that a query is, if it is one whose facts are told apart by the answers."""
    atom = query.body[0]
    if len(query.body) > 1 or not isinstance(atom, Atom):
        return None
    return (
        atom if all(isinstance(term, Constant) or term in query.head.terms for term in atom.terms) else None
    )


def does_not_hold(query: Query, can_say_why_not: bool = True) -> ProgramError:
    """The error of explaining what is not so."""
    text = query.text.strip()
    what = "does not hold" if not query.variables else "has no answers"
    message = f"`{text}` {what}, so there is nothing to explain"
    help = f"`tidelog explain PROGRAM --why-not '{text}'`, or `reasoner.why_not(…)`, says what is missing"
    return ProgramError(
        Diagnostic(DOES_NOT_HOLD, message, help=help if can_say_why_not and not query.variables else None)
    )


# ---- Why facts hold where constants may be equal: the proofs of what a query asks for.

ASKED_MEMBERS = f"{SCRATCH} equal"  # the relation of the answers that are explained, over representatives
MemberAnswers = tuple[Sequence[Ids], int]


class EqualProver:
    """Finds proofs in what is derived, over members of classes."""

    def __init__(
        self, instances: Instances, treated: Treated, origin: Origin, check: Callable[[], None]
    ) -> None:
        self._instances = instances
        self._treated = treated
        self._members = Members(instances, replace(treated, relation=self._relation))
        self._origin = origin
        self._check = check

    def _relation(self, predicate: str) -> str:
        return predicate if predicate.startswith(ASKED_MEMBERS) else self._treated.relation(predicate)

    def explain(
        self,
        query: Query,
        program: Program,
        answer: Callable[[Query], MemberAnswers],
        wanted: int,
        limit: int,
        most_rows: int | None,
    ) -> Explanation:
        """So many proofs of each of the first answers to a query; everything is derived."""
        text, writing = query.text.strip(), Writing.of(program)
        pair = asked_equality(query.rule, lambda constant: self._members.identity(constant, {}))
        if pair is not None:
            return Explanation(text, (self._equality(query, pair, most_rows),), writing)
        columns, count = answer(query)
        if not count:
            raise does_not_hold(query)
        answers = [column[:limit] for column in columns]
        proofs: list[Node] = []
        with self._goals(query.rule, answers, min(count, limit)) as goals:
            for goal in goals:
                search = EqualSearch(self._members, self._instances, goal, self._check)
                endings = search.run(wanted)
                trees = EqualTrees(search, self._origin, most_rows)
                proofs += [trees.ending_with(ending) for ending in endings]
        return Explanation(text, tuple(proofs), writing, max(0, count - limit))

    def _equality(self, query: Query, pair: Key, most_rows: int | None) -> Node:
        """Why two constants are one."""
        one, other = self._members.representatives(pair)
        if one != other or pair[0] == pair[1]:
            raise does_not_hold(query)
        search = EqualSearch(self._members, self._instances, equal(*pair), self._check)
        search.run(1)
        return EqualTrees(search, self._origin, most_rows).equal(*pair)

    @contextmanager
    def _goals(self, rule: Rule, answers: Sequence[Ids], count: int) -> Iterator[list[MemberFact | Direct]]:
        """What is to be proved: facts, if the query is an atom, else answers."""
        keys: list[Key] = list(zip(*(column.tolist() for column in answers), strict=True)) or [()] * count
        atom = the_atom(rule)
        if atom is not None:
            names = [term for term in rule.head.terms if isinstance(term, Variable)]
            rows = (dict(zip(names, key, strict=True)) for key in keys)
            identity = self._members.identity
            yield [
                MemberFact(atom.predicate, tuple(identity(term, row) for term in atom.terms)) for row in rows
            ]
            return
        relation, engine = f"{ASKED_MEMBERS} {len(answers)}", self._instances.engine
        engine.scratch(relation, len(answers))
        try:
            own = distinct([self._treated.classes.normalise(IdRows(tuple(answers), count))])
            engine.add(relation, own.columns, own.count)
            self._instances.ask(replace(rule, head=Atom(relation, rule.head.terms)))
            yield [Direct(relation, key) for key in keys]
        finally:
            engine.clear(relation)


def asked_equality(rule: Rule, identity: Callable[[Constant], int]) -> Key | None:
    """The two constants of which a query asks whether they are one, if it does."""
    match rule.body:
        case (Comparison("=", Constant() as left, Constant() as right),):
            return identity(left), identity(right)
    return None
