"""Backward/Forward with rewriting (B/F≈): which classes a deletion divides, and into what.

Motik, Nenov, Piro, Horrocks: Combining Rewriting and Incremental Materialisation Maintenance for Datalog
Programs with Equality, IJCAI 2015, Algorithms 1, 3 and 4, for sets of facts; Algorithms 5 to 7 are
`Saturation`. In the paper's letters: a lost fact makes others doubtful (D), those that were processed are O.
Each doubtful fact is checked (C): proofs are looked for backwards, among the facts of its instances, and
made forwards. What turns out to have no proof at all is disproved (S), and is not looked at again.

Only facts that equality depends on take part. Which classes there are is all that is decided here: what
follows from that, Algorithm 2, is the maintainer's work, to which a change of classes is a change of the
relation of aliases. Of the paper's optimisations, reflexivity needs nothing, as no rule makes constants
equal to themselves; redundant derivations, disproved facts and singletons are as in the paper.

Invariant: a checked fact has its proof if it has one at all, or waits, or each of its instances among facts
that are not disproved has only facts that were checked.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping
from itertools import chain
from typing import Any, TypeVar

import numpy as np

from tidelog.equality.doubt import bearing_on_equality, stored_atoms
from tidelog.equality.origins import CONSTANTS, Origins
from tidelog.equality.representatives import NONE, Classes, Ids
from tidelog.equality.saturation import EQUALITIES, Renaming, Saturation
from tidelog.equality.scratch import CHECKED, GIVEN, Facts, Scratch, Sought, united
from tidelog.logic.program import (
    Assignment,
    Atom,
    Comparison,
    Constant,
    Literal,
    Negation,
    Program,
    Rule,
    Variable,
    literal_variables,
)
from tidelog.maintenance.maintainer import Check, Update
from tidelog.maintenance.row_sets import Rows, distinct, taken
from tidelog.rewrite.over_representatives import ALIAS, Constants, positive_rules, stored

DOUBTFUL, PROCESSED, DISPROVED, LOST = "doubtful", "processed", "disproved", "lost"
Waiting = dict[tuple[str, int], Rows]  # facts by relation, and by how many kinds of proofs were looked for
Found = Iterator[tuple[str, Rows]]


class Relevant:
    """The rules of a program that equality depends on: as they are said, and over representatives."""

    def __init__(self, program: Program, constants: Constants) -> None:
        positive = [rule for rule in program.rules if not (rule.negated or rule.aggregations)]
        made = {rule: positive_rules(rule, constants) for rule in positive}
        bearing = frozenset(bearing_on_equality(tuple(chain.from_iterable(made.values()))))
        self.of = {
            rule: tuple(each for each in some if each in bearing)
            for rule, some in made.items()
            if not bearing.isdisjoint(some)
        }
        atoms = chain.from_iterable((rule.head, *rule.positive, *rule.negated) for rule in bearing)
        self.arities = {EQUALITIES: 2, **{atom.predicate: len(atom.terms) for atom in atoms}}
        said = ((stored(name), name) for name in program.predicates)
        self.said = {relation: name for relation, name in said if relation in self.arities}


class BackwardForward:
    """The search for what is left of classes, by the rules of a program; kept from one to the next."""

    def __init__(self, relevant: Relevant, engine: Any, renaming: Renaming, check: Check) -> None:
        self._relevant = relevant
        self._engine = engine
        self._check = check
        self._scratch = Scratch("to prove", engine, relevant.arities)
        self._saturation = Saturation(relevant.of, self._scratch, renaming, check)
        self._origins = Origins(relevant.said, self._scratch, check)
        self._backwards = {
            rule: [Instances(each, self._scratch, check) for each in some]
            for rule, some in relevant.of.items()
        }
        self._onwards = {
            rule: list(chain.from_iterable(_consequences(each, self._scratch) for each in some))
            for rule, some in relevant.of.items()
        }
        self._mentions = list(_mentions(relevant.arities, self._scratch))
        self._looked_at = 0  # facts that were found doubtful, or are to be checked

    @property
    def derivations(self) -> int:
        """How often so far a fact was found doubtful, checked backwards or derived forwards."""
        return self._looked_at + self._saturation.matches

    def parts(self, update: Update, lost: Collection[Rule], classes: Classes) -> tuple[Ids, Ids]:
        """The members of classes that were checked, and the representatives that they have then.

        The update is not carried out yet; `lost` are the rules that it takes away.
        """
        self._classes = classes
        self._saturation.begin(
            lost, classes, lambda name, rows: self._origins.explicit(name, rows, classes, update.removed)
        )
        kept = [rule for rule in self._relevant.of if rule not in lost]
        self._steps: dict[str, list[Instances]] = {name: [] for name in self._relevant.arities}
        for each in chain.from_iterable(self._backwards[rule] for rule in kept):
            self._steps[each.head].append(each)
        self._rules = kept
        try:
            self._search(self._doubtful(update.removed, lost))
            return self._divided()
        finally:
            self._scratch.empty()

    def drop(self) -> None:
        """Forget everything that was kept."""
        self._scratch.drop()

    def _divided(self) -> tuple[Ids, Ids]:
        """The members of checked classes; each part keeps the representative if that is in it."""
        (owners, _), _ = self._engine.rows(self._scratch.relation(CHECKED, EQUALITIES))
        members = self._classes.members_of(self._classes.several(owners))
        standing = self._saturation.classes.representatives(members)
        known, places = np.unique(standing, return_inverse=True)
        is_own = self._classes.representatives(members) == members
        known[places[is_own]] = members[is_own]
        return members, known[places]

    # ---- Algorithm 1: from what is lost to what is doubtful

    def _doubtful(self, removed: Mapping[str, Rows], lost: Collection[Rule]) -> Facts:
        """What removed facts stand for, and what removed rules derive."""
        stated = ((stored(name), self._classes.normalise(rows)) for name, rows in removed.items())
        rules = chain.from_iterable(self._relevant.of.get(rule, ()) for rule in lost)
        derived = ((rule.head.predicate, Rows(*self._engine.answer(rule))) for rule in rules)
        found = united(chain(stated, derived))
        return {name: rows for name, rows in found.items() if name in self._relevant.arities}

    def _search(self, doubtful: Facts) -> None:
        """Check whatever may be lost when these facts may be."""
        doubtful = self._scratch.add(DOUBTFUL, doubtful)
        while doubtful:
            self._prove(doubtful)
            lost = _nonempty((name, self._unproved(name, rows)) for name, rows in doubtful.items())
            found = united(chain(self._mentioning(lost), self._following(lost)))
            self._scratch.add(PROCESSED, doubtful)
            doubtful = self._scratch.add(DOUBTFUL, found)
            self._looked_at += _count(found)

    def _following(self, lost: Facts) -> Found:
        """What rules derive from what is lost, in part or as a whole."""
        for name, rows in lost.items():
            self._scratch.give(LOST, name, rows)
        for given, head, sought in chain.from_iterable(self._onwards[rule] for rule in self._rules):
            if given in lost:
                yield head, sought.rows(self._check)

    def _mentioning(self, lost: Facts) -> Found:
        """What mentions a class that is lost, in part or as a whole."""
        owners = self._classes.several(lost[EQUALITIES].columns[0]) if EQUALITIES in lost else NONE
        if len(owners):
            self._scratch.give(GIVEN, CONSTANTS, Rows((owners,), len(owners)))
            for name, sought in self._mentions:
                yield name, sought.rows(self._check)

    # ---- Algorithm 4: backwards, from facts to what proves them

    def _prove(self, facts: Facts) -> None:
        """Find out what is proved of these facts, and of all that proofs of them need."""
        fresh = self._scratch.add(CHECKED, facts)
        waiting: Waiting = {}
        checked = [fresh]
        while fresh or waiting:
            self._saturation.extend(fresh)
            waiting |= {(name, 0): rows for name, rows in fresh.items()}
            waiting = _nonempty((key, self._unproved(key[0], rows)) for key, rows in waiting.items())
            found = united(chain.from_iterable(self._step(*key, rows) for key, rows in waiting.items()))
            waiting = {
                (name, place + 1): rows
                for (name, place), rows in waiting.items()
                if place < len(self._steps[name])
            }
            self._looked_at += _count(found)
            fresh = self._scratch.add(CHECKED, found)
            checked.append(fresh)
        self._disprove(united(chain.from_iterable(each.items() for each in checked)))

    def _unproved(self, name: str, rows: Rows) -> Rows:
        """The facts of which not everything that they stand for is proved."""
        combinations, proved = self._saturation.proved(name, rows)
        return taken(rows, proved != combinations)

    def _step(self, name: str, place: int, rows: Rows) -> Found:
        """The facts that take part in proofs of one kind: by equals that are replaced, or by one rule."""
        if place:
            yield from self._steps[name][place - 1].facts(rows)
            return
        owners = self._classes.several(np.concatenate([NONE, *rows.columns]))
        pairs = Rows((owners, owners), len(owners))
        yield EQUALITIES, taken(pairs, ~self._scratch.has(DISPROVED, EQUALITIES, pairs))

    def _disprove(self, checked: Facts) -> None:
        """Let facts be disproved of which nothing is proved."""
        found = (
            (name, taken(rows, self._saturation.proved(name, rows)[1] == 0)) for name, rows in checked.items()
        )
        self._scratch.add(DISPROVED, _nonempty(found))


class Instances:
    """The instances of a rule that have given heads."""

    def __init__(self, rule: Rule, scratch: Scratch, check: Check) -> None:
        self.head = rule.head.predicate
        self._atoms = tuple(stored_atoms(rule))
        self._variables = tuple(dict.fromkeys(chain.from_iterable(map(literal_variables, self._atoms))))
        self._scratch = scratch
        self._check = check
        bound = set(literal_variables(rule.head))
        undisproved = (Negation(scratch.atom(DISPROVED, atom)) for atom in self._atoms)
        body = (scratch.atom(GIVEN, rule.head), *(_tested(each, bound) for each in rule.body), *undisproved)
        self._sought = Sought(self._variables, body, scratch)

    def facts(self, heads: Rows) -> Found:
        """The facts of the instances, without those that are disproved."""
        self._scratch.give(GIVEN, self.head, heads)
        rows = self._sought.rows(self._check)
        columns = dict(zip(self._variables, rows.columns, strict=True))
        identity = self._scratch.engine.identity
        for atom in self._atoms:
            made = (
                np.full(rows.count, identity(term.value), np.int32)
                if isinstance(term, Constant)
                else columns[term]
                for term in atom.terms
            )
            yield atom.predicate, distinct([Rows(tuple(made), rows.count)])


def _tested(literal: Literal, bound: Collection[Variable]) -> Literal:
    """A computation as a test, if the head gives its value."""
    match literal:
        case Assignment(variable, expression) if variable in bound:
            return Comparison("=", variable, expression)
    return literal


def _consequences(rule: Rule, scratch: Scratch) -> Iterator[tuple[str, str, Sought]]:
    """What a rule derives from lost facts of each of its atoms: the relation of these, and of the heads.

    The other facts are not processed yet, nor lost if their atoms are earlier: each instance is found once.
    """
    atoms = tuple(stored_atoms(rule))
    for place, atom in enumerate(atoms):
        rest = (literal for literal in rule.body if literal is not atom)
        earlier = (Negation(scratch.atom(LOST, each)) for each in atoms[:place])
        others = (each for number, each in enumerate(atoms) if number != place)
        unprocessed = (Negation(scratch.atom(PROCESSED, each)) for each in others)
        body = (scratch.atom(LOST, atom), *rest, *earlier, *unprocessed)
        yield atom.predicate, rule.head.predicate, Sought(rule.head.terms, body, scratch)


def _mentions(arities: Mapping[str, int], scratch: Scratch) -> Iterator[tuple[str, Sought]]:
    """The facts of each relation, not processed yet, that have a given constant in one of its places."""
    for name, arity in arities.items():
        terms = tuple(Variable(f"x{place}") for place in range(arity))
        atom = Atom(name, terms)
        unprocessed = Negation(scratch.atom(PROCESSED, atom))
        for term in terms if name != ALIAS else ():
            given = scratch.atom(GIVEN, Atom(CONSTANTS, (term,)))
            yield name, Sought(terms, (given, atom, unprocessed), scratch)


Key = TypeVar("Key")


def _nonempty(facts: Iterable[tuple[Key, Rows]]) -> dict[Key, Rows]:
    return {key: rows for key, rows in facts if rows.count}


def _count(facts: Facts) -> int:
    return sum(rows.count for rows in facts.values())
