"""The plans by which a rule propagates changes, which maintenance algorithms run.

A body literal is *own* if its predicate belongs to the maintained stratum, else *lower*: lower strata are up
to date, their facts true before, now, or both. For a set of changed literals each
instance that they made or broke is found exactly once: for the i-th changed literal as pivot, literals before
it must have been untouched, those after it need only be true.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator

from tidelog.logic.program import (
    Assignment,
    Atom,
    Comparison,
    Condition,
    Literal,
    Negation,
    Rule,
    Variable,
)
from tidelog.plan.algebra import (
    AntiJoin,
    ChangePlan,
    Extend,
    Filter,
    Join,
    Node,
    Part,
    Project,
    Scan,
    Support,
    Unit,
    Witness,
)
from tidelog.plan.compile import best_pivot
from tidelog.plan.join_order import Statistics, negated_only_variables, order

ABSENT = {Part.KEPT: Part.EITHER}  # a negation survives if no fact matches before or now


class ChangePlanMaker:
    """The plans of one rule of a stratum whose predicates are `own`.

    They are made on demand: a rule of a thousand atoms has as many of each kind.
    """

    def __init__(self, rule: Rule, number: int, own: Collection[str], statistics: Statistics) -> None:
        self.rule = rule
        self.number = number
        self.statistics = statistics
        self.atoms = [position for position, literal in enumerate(rule.body) if isinstance(literal, Atom)]
        # An ordered set, since a body may have thousands of literals.
        self.own = dict.fromkeys(
            position for position in self.atoms if predicate_of(rule.body[position]) in own
        )
        self._orders: dict[int, tuple[int, ...]] = {}  # by pivot: steps differ in parts, not in orders

    @property
    def is_recursive(self) -> bool:
        """Whether the body reads the stratum itself."""
        return bool(self.own)

    # ---- changes in lower strata

    def lost(self, negated: bool = False) -> Iterator[ChangePlan]:
        """The instances that broke, driven by deleted lower facts, or by inserted ones under negation."""
        return self._from_lower(Part.BEFORE, negated)

    def gained(self, negated: bool = False) -> Iterator[ChangePlan]:
        """The instances that are new, driven by inserted lower facts, or by deleted ones under negation."""
        return self._from_lower(Part.NOW, negated)

    def _from_lower(self, state: Part, negated: bool) -> Iterator[ChangePlan]:
        body = self.rule.body
        lower = [
            position
            for position, literal in enumerate(body)
            if isinstance(literal, Negation) or (isinstance(literal, Atom) and position not in self.own)
        ]
        for pivot in lower:
            if isinstance(body[pivot], Negation) != negated:
                continue
            parts = {position: Part.KEPT if position < pivot else state for position in lower}
            parts.update(dict.fromkeys(self.own, state))
            yield self._driven(pivot, parts, state)

    # ---- changes inside the stratum

    def overdelete(self) -> Iterator[ChangePlan]:
        """The instances among facts true now in which the given own facts take part; lower ones survive."""
        return self._from_own(Part.SETTLED, Part.NOW, Part.KEPT)

    def insert(self) -> Iterator[ChangePlan]:
        """The instances among facts true now, lower ones too, in which the given own facts take part."""
        return self._from_own(Part.SETTLED, Part.NOW, Part.NOW)

    def dependents(self) -> Iterator[ChangePlan]:
        """The instances among facts true before in which the given own facts take part."""
        return self._from_own(Part.BEFORE, Part.BEFORE, Part.BEFORE)

    def prove(self) -> Iterator[ChangePlan]:
        """The instances among proved own and surviving lower facts in which the given own facts take part."""
        return self._from_own(Part.PROVED_SETTLED, Part.PROVED, Part.KEPT)

    def rank(self) -> Iterator[ChangePlan]:
        """The instances among proved own facts and lower ones true now that the given own facts drive."""
        return self._from_own(Part.PROVED_SETTLED, Part.PROVED, Part.NOW)

    def _from_own(self, earlier: Part, later: Part, lower: Part) -> Iterator[ChangePlan]:
        for pivot in self.own:
            parts = self._all(lower)
            parts.update({position: earlier if position < pivot else later for position in self.own})
            yield self._driven(pivot, parts, Part.NOW)

    # ---- from heads to bodies

    def rederive(self, lower: Part = Part.NOW) -> ChangePlan:
        """The instances whose head is given, over own facts true now and lower facts of this part."""
        return self._backward({**self._all(lower), **dict.fromkeys(self.own, Part.NOW)})

    def support(self) -> Iterator[ChangePlan]:
        """One instance for each given head, over own facts, not all checked, and surviving lower ones."""
        for pivot in self.own:
            parts = self._all(Part.KEPT)
            for position in self.own:
                parts[position] = Part.CHECKED if position < pivot else Part.NOW
            parts[pivot] = Part.UNCHECKED
            yield self._backward(parts, supporting=True)

    def instances(self, relation: str, terms: tuple[Variable, ...]) -> ChangePlan:
        """All instances whose head is given, over facts true now: values of the terms, into `relation`."""
        node, _ = self._bound(self._all(Part.NOW))
        return ChangePlan(relation, Project(node, terms), self.rule, self.number, self.rule.head.predicate)

    # ---- whole rules, added or removed

    def every(self, state: Part) -> ChangePlan:
        """All instances over the facts of this part."""
        parts = self._all(state)
        node: Node = Unit()
        pivot = best_pivot(self.rule.body, self.statistics)
        for position in order(self.rule.body, pivot, self.statistics):
            node = self._extended(node, self.rule.body[position], position, parts)
        return self._plan(Project(node, self.rule.head.terms), None)

    # ---- making plans

    def _all(self, part: Part) -> dict[int, Part]:
        """Return the same part for every literal that reads facts."""
        readers = (p for p, literal in enumerate(self.rule.body) if isinstance(literal, Atom | Negation))
        return dict.fromkeys(readers, part)

    def _plan(self, root: Project | Support, given: str | None) -> ChangePlan:
        return ChangePlan(self.rule.head.predicate, root, self.rule, self.number, given)

    def _driven(self, pivot: int, parts: dict[int, Part], state: Part) -> ChangePlan:
        """Return the plan driven by the given facts of one literal."""
        body = self.rule.body
        literal = body[pivot]
        node: Node
        if isinstance(literal, Negation):
            node = self._witness(literal, state)
            wild = negated_only_variables(body)
            bound = [term for term in literal.atom.terms if isinstance(term, Variable) and term not in wild]
            body = tuple(as_test(other, bound) for other in body)
            ordered_positions = self._order_after(body, pivot, bound)
        else:
            atom = atom_of(literal)
            node = Scan(atom.predicate, Part.GIVEN, atom.terms, pivot in self.own)
            if pivot not in self._orders:
                self._orders[pivot] = order(body, pivot, self.statistics)[1:]
            ordered_positions = self._orders[pivot]
        for position in ordered_positions:
            node = self._extended(node, body[position], position, parts)
        return self._plan(Project(node, self.rule.head.terms), predicate_of(literal))

    def _order_after(
        self, body: tuple[Literal, ...], pivot: int, bound: Collection[Variable]
    ) -> tuple[int, ...]:
        """Return the positions of the other literals in the order in which they are matched."""
        others = [position for position in range(len(body)) if position != pivot]
        ordered = order([body[position] for position in others], None, self.statistics, bound)
        return tuple(others[position] for position in ordered)

    def _witness(self, literal: Negation, state: Part) -> Node:
        """Return the scan of given facts under a negation: inserted ones break it, deleted ones make it."""
        atom = literal.atom
        scan = Scan(atom.predicate, Part.GIVEN, atom.terms)
        wild = negated_only_variables(self.rule.body)
        bound = tuple(column for column, term in enumerate(atom.terms) if term not in wild)
        return scan if len(bound) == len(atom.terms) else Witness(scan, state, bound)

    def _backward(self, parts: dict[int, Part], supporting: bool = False) -> ChangePlan:
        """Return the plan driven by given heads."""
        head = self.rule.head
        node, body = self._bound(parts)
        if not supporting:
            return self._plan(Project(node, head.terms), head.predicate)
        atoms = tuple(
            Scan(atom.predicate, parts[position], atom.terms, True)
            for position in self.own
            for atom in (atom_of(body[position]),)
        )
        return self._plan(Support(node, atoms), head.predicate)

    def _bound(self, parts: dict[int, Part]) -> tuple[Node, tuple[Literal, ...]]:
        """Return the plan that matches the body from given heads, and the literals in their matched form."""
        head = self.rule.head
        bound = dict.fromkeys(term for term in head.terms if isinstance(term, Variable))
        body = tuple(as_test(literal, bound) for literal in self.rule.body)
        node: Node = Scan(head.predicate, Part.GIVEN, head.terms)
        for position in order(body, None, self.statistics, tuple(bound)):
            node = self._extended(node, body[position], position, parts)
        return node, body

    def _extended(self, node: Node, literal: Literal, position: int, parts: dict[int, Part]) -> Node:
        """Return the node with one more literal matched."""
        match literal:
            case Atom(predicate, terms):
                scan = Scan(predicate, parts[position], terms, position in self.own)
                return scan if isinstance(node, Unit) else Join(node, scan)
            case Negation(Atom(predicate, terms)):
                return AntiJoin(node, Scan(predicate, ABSENT.get(parts[position], parts[position]), terms))
            case Assignment(variable, expression):
                return Extend(node, variable, expression)
            case Comparison() | Condition():
                return Filter(node, literal)
            case _:
                raise TypeError(literal)  # rules over time have no plans


def as_test(literal: Literal, bound: Collection[Variable]) -> Literal:
    """Return the literal, with a computation turned into a test if its variable is bound."""
    if isinstance(literal, Assignment) and literal.variable in bound:
        return Comparison("=", literal.variable, literal.expression)
    return literal


def atom_of(literal: Literal) -> Atom:
    """Return the atom that a literal asserts or negates."""
    if isinstance(literal, Negation):
        return literal.atom
    if not isinstance(literal, Atom):
        raise TypeError(literal)
    return literal


def predicate_of(literal: Literal) -> str:
    """Return the predicate that a literal reads."""
    return atom_of(literal).predicate
