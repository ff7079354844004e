"""Why facts hold where constants may be equal: the proofs of what a query asks for."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace

from tidelog.logic.program import Atom, Comparison, Constant, Program, Query, Rule, Variable
from tidelog.maintenance.row_sets import Rows, distinct
from tidelog.plan.rule_text import Writing
from tidelog.proof.equal_search import Direct, EqualSearch, Fact, equal
from tidelog.proof.equal_tree import EqualTrees
from tidelog.proof.explanation import Explanation
from tidelog.proof.instances import SCRATCH, Ids, Instances
from tidelog.proof.members import Key, Members, Treated
from tidelog.proof.node import Node
from tidelog.proof.tree import Origin
from tidelog.proof.why import does_not_hold, the_atom

ASKED = f"{SCRATCH} equal"  # the relation of the answers that are explained, over representatives
Answers = tuple[Sequence[Ids], int]


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
        return predicate if predicate.startswith(ASKED) else self._treated.relation(predicate)

    def explain(
        self,
        query: Query,
        program: Program,
        answer: Callable[[Query], Answers],
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
    def _goals(self, rule: Rule, answers: Sequence[Ids], count: int) -> Iterator[list[Fact | Direct]]:
        """What is to be proved: facts, if the query is an atom, else answers."""
        keys: list[Key] = list(zip(*(column.tolist() for column in answers), strict=True)) or [()] * count
        atom = the_atom(rule)
        if atom is not None:
            names = [term for term in rule.head.terms if isinstance(term, Variable)]
            rows = (dict(zip(names, key, strict=True)) for key in keys)
            identity = self._members.identity
            yield [Fact(atom.predicate, tuple(identity(term, row) for term in atom.terms)) for row in rows]
            return
        relation, engine = f"{ASKED} {len(answers)}", self._instances.engine
        engine.scratch(relation, len(answers))
        try:
            own = distinct([self._treated.classes.normalise(Rows(tuple(answers), count))])
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
