"""Which classes a deletion puts in doubt: whatever a lost fact takes part in, step by step.

Motik, Nenov, Piro, Horrocks: Combining Rewriting and Incremental Materialisation Maintenance for Datalog
Programs with Equality, IJCAI 2015, section 3.1, for the doubtful facts; here as rules of their own, which
the engine runs.

A fact is doubtful if an explicit fact that it stands for is removed, if a rule derives it from a doubtful
fact, or if it mentions a class that is in doubt. A class is in doubt if a doubtful fact makes its members
equal. Only rules that equality depends on are looked at, and classes of one constant never.

Invariant: the members of a class that is not in doubt are equal by proofs without a doubtful fact.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tidelog.equality.representatives import Classes
from tidelog.logic.program import EQUAL, Atom, Constant, Program, Rule, Variable
from tidelog.logic.strata import strata
from tidelog.maintenance.maintainer import Check, Rows, Update
from tidelog.maintenance.row_sets import distinct
from tidelog.rewrite.over_representatives import ALIAS, MARK, stored

IN_DOUBT = "= doubt"
CLASS, ANY = Variable("class"), Variable("_any")


def doubtful(relation: str) -> str:
    """The relation of the doubtful facts of a stored one."""
    return f"{relation} ?"


class Doubts:
    """The classes that updates put in doubt, by the rules of a program over representatives."""

    def __init__(self, program: Program) -> None:
        relevant = tuple(bearing_on_equality(program.rules))
        atoms = [atom for rule in relevant for atom in (rule.head, *stored_atoms(rule))]
        self.arities = {atom.predicate: len(atom.terms) for atom in atoms}
        self.relevant = frozenset(relevant)
        self.rules = (*_passing(relevant), *_of_classes(self.arities))

    def classes(self, update: Update, engine: Any, classes: Classes, check: Check) -> list[int]:
        """The representatives of the classes that an update puts in doubt; it is not carried out yet."""
        seeds = self._seeds(update.removed, classes)
        lost = tuple(rule for rule in update.rules_removed if rule in self.relevant)
        if not classes.members or not (seeds or lost):
            return []
        rules = (*self.rules, *(replace(rule, head=_doubted(rule.head)) for rule in lost))
        names = {IN_DOUBT: 1, **{doubtful(name): arity for name, arity in self.arities.items()}}
        try:
            for name, arity in names.items():
                engine.define(name, arity)
            for name, rows in seeds.items():
                engine.add(doubtful(name), rows.columns, rows.count)
            numbers = {id(rule): place for place, rule in enumerate(rules)}
            engine.derive(strata(rules), numbers, _nobody, check, False)
            columns, _ = engine.rows(IN_DOUBT)
            found: list[int] = columns[0].tolist()
        finally:
            for name in names:
                engine.drop(name)
        return found

    def _seeds(self, removed: Mapping[str, Rows], classes: Classes) -> dict[str, Rows]:
        """The stored facts that explicit facts to be removed stand for."""
        known = ((stored(name), rows) for name, rows in removed.items())
        return {name: distinct([classes.normalise(rows)]) for name, rows in known if name in self.arities}


def _nobody(event: object) -> None:
    """Tells nobody."""


def bearing_on_equality(rules: Sequence[Rule]) -> Iterator[Rule]:
    """The rules that equality depends on."""
    waiting = [Atom(stored(EQUAL), (Variable("x"), Variable("y")))]
    left = list(rules)
    while waiting:
        atom = waiting.pop()
        found = [rule for rule in left if may_match(rule.head, atom)]
        left = [rule for rule in left if not may_match(rule.head, atom)]
        for rule in found:
            waiting.extend(stored_atoms(rule))
            yield rule


def may_match(head: Atom, atom: Atom) -> bool:
    """Whether a head may derive what an atom reads."""
    if head.predicate != atom.predicate:
        return False
    pairs = zip(head.terms, atom.terms, strict=True)
    return all(a == b for a, b in pairs if isinstance(a, Constant) and isinstance(b, Constant))


def stored_atoms(rule: Rule) -> Iterable[Atom]:
    return (atom for atom in rule.positive if MARK in atom.predicate)


def _doubted(atom: Atom) -> Atom:
    return Atom(doubtful(atom.predicate), atom.terms)


def _passing(rules: Collection[Rule]) -> Iterator[Rule]:
    """The rules by which doubt passes from a body to a head."""
    for rule in rules:
        for atom in stored_atoms(rule):
            body = tuple(_doubted(each) if each is atom else each for each in rule.body)
            yield replace(rule, head=_doubted(rule.head), body=body)


def _of_classes(arities: Mapping[str, int]) -> Iterator[Rule]:
    """The rules by which doubt passes from equalities to classes, and from these to what mentions them."""
    equal = Atom(doubtful(stored(EQUAL)), (CLASS, CLASS))
    yield Rule(Atom(IN_DOUBT, (CLASS,)), (equal, Atom(ALIAS, (ANY, CLASS))))
    for name, arity in arities.items():
        for place in range(arity):
            terms = tuple(CLASS if number == place else Variable(f"x{number}") for number in range(arity))
            yield Rule(Atom(doubtful(name), terms), (Atom(IN_DOUBT, (CLASS,)), Atom(name, terms)))
