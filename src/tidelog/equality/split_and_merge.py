"""Split and merge: the classes that a deletion makes suspect, and their parts that explicit facts connect.

Motik, Nenov, Piro, Horrocks: Combining Rewriting and Incremental Materialisation Maintenance for Datalog
Programs with Equality, IJCAI 2015, section 3.1, for suspect facts; here they are derived by rules that the
engine runs, without proofs backwards. Suspect classes are split, and merge again as far as their equalities
are still derived.

A fact is suspect if a removed explicit fact is among those that it represents, if a rule derives it from a
suspect fact, or if it mentions a suspect class. A class is suspect if a suspect fact makes its members equal.
Only rules that equality depends on take part, and no class of one constant.

Before a suspect class is split, the rules of equality are matched against the explicit facts only. Constants
that these connect stay together, so that a large class loses a few members rather than being rebuilt. Keys
may be equal by classes that are not suspect; other premises of proofs are not considered.

Invariants: the members of a class that is not suspect are equal by proofs without a suspect fact. The
constants of each part are equal by explicit facts that stay, and by classes that are not suspect.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count
from typing import TYPE_CHECKING

import numpy as np

from tidelog.data.rows import Ids, Rows
from tidelog.equality.classes import NONE, Classes, Pairs, neighbours
from tidelog.equality.work_relations import (
    GIVEN,
    BatchedRules,
    BoundQuery,
    WorkRelations,
)
from tidelog.logic.program import (
    EQUAL,
    Atom,
    Literal,
    Negation,
    Program,
    Rule,
    Term,
    Variable,
)
from tidelog.maintenance.maintainer import Check, Update
from tidelog.query.table_rules import run_once
from tidelog.rewrite.representatives import (
    ALIAS,
    bearing_on_equality,
    group_of,
    stored,
    stored_atoms,
)

if TYPE_CHECKING:
    from tidelog.engine.columnar.engine import ColumnarEngine

SUSPECT = "doubted"
SUSPECT_CLASSES = "= classes"
CLASS, ANY = Variable("class"), Variable("_any")


class SuspectClasses:
    """The classes that updates make suspect, by the rules of a program over representatives."""

    def __init__(self, program: Program, engine: ColumnarEngine, check: Check) -> None:
        self._engine = engine
        self._check = check
        self._bearing = frozenset(bearing_on_equality(program.rules))
        atoms = [atom for rule in self._bearing for atom in (rule.head, *stored_atoms(rule))]
        self._arities = {atom.predicate: len(atom.terms) for atom in atoms}
        self.relations = WorkRelations("to doubt", engine, {SUSPECT_CLASSES: 1, **self._arities})
        own = {self.relations.relation(SUSPECT, name) for name in self.relations.arities}
        self._batch = BatchedRules((*self._from_bodies(), *self._from_classes()), own, engine)

    def classes(self, update: Update, classes: Classes) -> Ids:
        """Return the representatives of the classes that an update, not applied yet, makes suspect."""
        lost = tuple(
            replace(rule, head=self._suspect(rule.head))
            for rule in update.rules_removed
            if rule in self._bearing
        )
        seeds = self._seeds(update.removed, classes)
        if not seeds and not lost:
            return NONE
        try:
            self.relations.fill(
                {self.relations.relation(SUSPECT, name): rows for name, rows in seeds.items()}
            )
            for rule in lost:
                run_once(rule, self._engine)
            self._batch.close(self._check)
            (suspect,), _ = self._engine.storage.rows(self.relations.relation(SUSPECT, SUSPECT_CLASSES))
            return np.sort(suspect)
        finally:
            self.relations.empty()

    def _seeds(self, removed: Mapping[str, Rows], classes: Classes) -> dict[str, Rows]:
        """The stored facts that represent explicit facts to be removed; they may repeat."""
        stored_rows = ((stored(name), rows) for name, rows in removed.items())
        return {name: classes.normalise(rows) for name, rows in stored_rows if name in self._arities}

    # ---- rules

    def _suspect(self, atom: Atom) -> Atom:
        return self.relations.atom(SUSPECT, atom)

    def _from_bodies(self) -> Iterator[Rule]:
        """The rules by which a suspect fact of the body makes the head suspect."""
        for rule in self._bearing:
            for atom in stored_atoms(rule):
                body = tuple(self._suspect(each) if each is atom else each for each in rule.body)
                yield replace(rule, head=self._suspect(rule.head), body=body)

    def _from_classes(self) -> Iterator[Rule]:
        """The rules from suspect equalities to classes, and from these to the facts that mention them."""
        suspect_class = self._suspect(Atom(SUSPECT_CLASSES, (CLASS,)))
        equal = self._suspect(Atom(stored(EQUAL), (CLASS, CLASS)))
        yield Rule(suspect_class, (equal, Atom(ALIAS, (ANY, CLASS))))
        for name, arity in self._arities.items():
            for position in range(arity) if name != stored(EQUAL) else ():
                terms = tuple(
                    CLASS if number == position else Variable(f"x{number}") for number in range(arity)
                )
                atom = Atom(name, terms)
                yield Rule(self._suspect(atom), (suspect_class, atom))


MEMBERS = "= members"
DELETED = "gone"
LEFT, RIGHT = Variable("x"), Variable("y")
EXPLICIT = Rule(Atom(EQUAL, (LEFT, RIGHT)), (Atom(EQUAL, (LEFT, RIGHT)),))


class OneStepEqualities:
    """The pairs that explicit facts make equal in one step, by the source rules of a program."""

    def __init__(self, program: Program, engine: ColumnarEngine) -> None:
        self._engine = engine
        self._numbers = count()
        rules = [EXPLICIT, *(rule for rule in program.rules if rule.head.predicate == EQUAL)]
        atoms = chain.from_iterable(rule.positive for rule in rules)
        self.relations = WorkRelations(
            "to part", engine, {MEMBERS: 1, **{each.predicate: len(each.terms) for each in atoms}}
        )
        steps = (self._query(rule) for rule in rules)
        self._steps = [step for step in steps if step is not None]
        driving = [self.relations.relation(GIVEN, MEMBERS)]
        self._batch = BatchedRules([query.rule for query, _ in self._steps], driving, engine)

    def parts(self, suspect: Ids, removed: Mapping[str, Rows], classes: Classes) -> tuple[Ids, Ids]:
        """Return the members of suspect classes, and the representatives of the parts that remain connected.

        `removed` are the explicit facts to be deleted, which are still stored.
        """
        members = np.sort(classes.members_of(suspect))
        given = self.relations.relation(GIVEN, MEMBERS)
        deleted = {
            self.relations.relation(DELETED, name): removed[name]
            for name in removed
            if name in self.relations.arities
        }
        try:
            self.relations.fill({given: Rows((members,), len(members)), **deleted})
            self._engine.rounds.mark_all_old(deleted)
            self._batch.run()
            pairs = [self._pairs(query, is_group, classes, suspect) for query, is_group in self._steps]
            return members, classes.parts(members, *_concatenated(pairs))
        finally:
            self.relations.empty()

    def _query(self, rule: Rule) -> tuple[BoundQuery, bool] | None:
        """The query for the pairs that a rule makes equal, or for its groups (True), with one member."""
        group = group_of(rule)
        if group is not None:
            return self._among_members((*group.key, group.constant), group.constant, group.body), True
        variable = next((term for term in rule.head.terms if isinstance(term, Variable)), None)
        if variable is None:
            return None
        return self._among_members(rule.head.terms, variable, rule.body), False

    def _among_members(self, row: Sequence[Term], constant: Variable, body: Sequence[Literal]) -> BoundQuery:
        """The query for the rows whose constant is a member, without facts to be deleted."""
        members = self.relations.atom(GIVEN, Atom(MEMBERS, (constant,)))
        atoms = (literal for literal in body if isinstance(literal, Atom))
        surviving = (Negation(self.relations.atom(DELETED, atom)) for atom in atoms)
        suffix = f" {next(self._numbers)}"
        return BoundQuery(row, (members, *body, *surviving), self.relations, suffix)

    def _pairs(self, query: BoundQuery, is_group: bool, classes: Classes, suspect: Ids) -> Pairs:
        """The equal pairs that a query has found; keys may be equal by classes that are not suspect."""
        rows = query.results()
        if not is_group:
            left, right = rows.columns
            return left, right
        if rows.count < 2:
            return NONE, NONE
        keys = (_unless_suspect(column, classes, suspect) for column in rows.columns[:-1])
        return neighbours(Rows((*keys, rows.columns[-1]), rows.count))


def _unless_suspect(column: Ids, classes: Classes, suspect: Ids) -> Ids:
    """Constants by their representatives, unless their class is among the suspect ones, which are sorted."""
    representatives = classes.representatives(column)
    positions = np.minimum(np.searchsorted(suspect, representatives), len(suspect) - 1)
    return np.where(suspect[positions] == representatives, column, representatives)


def _concatenated(parts: Sequence[Pairs]) -> Pairs:
    """Concatenate pairs."""
    nonempty = [pairs for pairs in parts if len(pairs[0])]
    if len(nonempty) == 1:
        return nonempty[0]
    left, right = (np.concatenate((NONE, *(pairs[side] for pairs in nonempty))) for side in (0, 1))
    return left, right
