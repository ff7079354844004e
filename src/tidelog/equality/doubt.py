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

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import Any

import numpy as np

from tidelog.equality.representatives import NONE, Classes, Ids
from tidelog.equality.scratch import Scratch
from tidelog.equality.together import Together
from tidelog.logic.program import EQUAL, Atom, Constant, Program, Rule, Variable
from tidelog.maintenance.maintainer import Check, Update
from tidelog.maintenance.row_sets import Rows
from tidelog.query.driving import run_once
from tidelog.rewrite.over_representatives import ALIAS, MARK, stored

DOUBTFUL = "doubted"
IN_DOUBT = "= classes"
CLASS, ANY = Variable("class"), Variable("_any")


class Doubts:
    """The classes that updates put in doubt, by the rules of a program over representatives."""

    def __init__(self, program: Program, engine: Any, check: Check) -> None:
        self._engine = engine
        self._check = check
        self._bearing = frozenset(bearing_on_equality(program.rules))
        atoms = [atom for rule in self._bearing for atom in (rule.head, *stored_atoms(rule))]
        self._arities = {atom.predicate: len(atom.terms) for atom in atoms}
        self._scratch = Scratch("to doubt", engine, {IN_DOUBT: 1, **self._arities})
        own = {self._scratch.relation(DOUBTFUL, name) for name in self._scratch.arities}
        self._together = Together((*self._passing(), *self._of_classes()), own, engine)

    def classes(self, update: Update, classes: Classes) -> Ids:
        """The representatives of the classes that an update puts in doubt; it is not carried out yet."""
        lost = tuple(
            replace(rule, head=self._doubted(rule.head))
            for rule in update.rules_removed
            if rule in self._bearing
        )
        seeds = self._seeds(update.removed, classes)
        if not seeds and not lost:
            return NONE
        try:
            self._scratch.fill({self._scratch.relation(DOUBTFUL, name): rows for name, rows in seeds.items()})
            for rule in lost:
                run_once(rule, self._engine)
            self._together.close(self._check)
            (found,), _ = self._engine.rows(self._scratch.relation(DOUBTFUL, IN_DOUBT))
            return np.sort(found)
        finally:
            self._scratch.empty()

    def drop(self) -> None:
        """Forget what is kept from one update to the next."""
        self._scratch.drop()

    def _seeds(self, removed: Mapping[str, Rows], classes: Classes) -> dict[str, Rows]:
        """The stored facts that explicit facts to be removed stand for; they may repeat."""
        known = ((stored(name), rows) for name, rows in removed.items())
        return {name: classes.normalise(rows) for name, rows in known if name in self._arities}

    # ---- rules

    def _doubted(self, atom: Atom) -> Atom:
        return self._scratch.atom(DOUBTFUL, atom)

    def _passing(self) -> Iterator[Rule]:
        """The rules by which doubt passes from a body to a head."""
        for rule in self._bearing:
            for atom in stored_atoms(rule):
                body = tuple(self._doubted(each) if each is atom else each for each in rule.body)
                yield replace(rule, head=self._doubted(rule.head), body=body)

    def _of_classes(self) -> Iterator[Rule]:
        """The rules by which doubt passes from equalities to classes, and on to what mentions them."""
        in_doubt = self._doubted(Atom(IN_DOUBT, (CLASS,)))
        equal = self._doubted(Atom(stored(EQUAL), (CLASS, CLASS)))
        yield Rule(in_doubt, (equal, Atom(ALIAS, (ANY, CLASS))))
        for name, arity in self._arities.items():
            for place in range(arity) if name != stored(EQUAL) else ():
                terms = tuple(CLASS if number == place else Variable(f"x{number}") for number in range(arity))
                atom = Atom(name, terms)
                yield Rule(self._doubted(atom), (in_doubt, atom))


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
