"""Backward/Forward with rewriting (B/F≈): which classes a deletion puts in doubt and divides, and into
what.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import chain, count
from typing import Any, TypeVar

import numpy as np

from tidelog.data.rows import Ids, Rows, distinct, select, without
from tidelog.equality.classes import NONE, Classes, Pairs, neighbours
from tidelog.equality.saturation import EQUALITIES, Renaming, Saturation
from tidelog.equality.work_relations import CHECKED, GIVEN, Facts, Scratch, Sought, Together, united
from tidelog.logic.program import (
    EQUAL,
    Assignment,
    Atom,
    Comparison,
    Constant,
    Literal,
    Negation,
    Program,
    Rule,
    Term,
    Variable,
    literal_variables,
)
from tidelog.maintenance.maintainer import Check, Update
from tidelog.query.table_rules import run_once
from tidelog.rewrite.representatives import ALIAS, MARK, Constants, group_of, positive_rules, stored

# ---- Which classes a deletion puts in doubt: whatever a lost fact takes part in, step by step.
#
# Motik, Nenov, Piro, Horrocks: Combining Rewriting and Incremental Materialisation Maintenance for Datalog
# Programs with Equality, IJCAI 2015, section 3.1, for the doubtful facts; here as rules of their own, which
# the engine runs.
#
# A fact is doubtful if an explicit fact that it stands for is removed, if a rule derives it from a doubtful
# fact, or if it mentions a class that is in doubt. A class is in doubt if a doubtful fact makes its members
# equal. Only rules that equality depends on are looked at, and classes of one constant never.
#
# Invariant: the members of a class that is not in doubt are equal by proofs without a doubtful fact.

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


# ---- What is left of classes in doubt: members that explicit facts still make equal, at one step.
#
# Before a class in doubt is divided, the rules of equality are asked what they find in the explicit facts
# alone. Constants that hang together by that stay together, so that a large class loses what has gone, and is
# not taken apart. Keys may be equal by classes that are not in doubt; whatever else a proof may need is not
# looked at.
#
# Invariant: the constants of each part are equal by explicit facts that stay, and by classes without doubt.

MEMBERS = "= members"
GONE = "gone"
LEFT, RIGHT = Variable("x"), Variable("y")
STATED = Rule(Atom(EQUAL, (LEFT, RIGHT)), (Atom(EQUAL, (LEFT, RIGHT)),))


class Proofs:
    """What explicit facts make equal at one step, by the rules of a program as it is said."""

    def __init__(self, program: Program, engine: Any) -> None:
        self._engine = engine
        self._numbers = count()
        rules = [STATED, *(rule for rule in program.rules if rule.head.predicate == EQUAL)]
        atoms = chain.from_iterable(rule.positive for rule in rules)
        self._scratch = Scratch(
            "to part", engine, {MEMBERS: 1, **{each.predicate: len(each.terms) for each in atoms}}
        )
        found = (self._looking(rule) for rule in rules)
        self._steps = [step for step in found if step is not None]
        given = [self._scratch.relation(GIVEN, MEMBERS)]
        self._together = Together([sought.rule for sought, _ in self._steps], given, engine)

    def parts(self, doubted: Ids, removed: Mapping[str, Rows], classes: Classes) -> tuple[Ids, Ids]:
        """The members of classes in doubt, and the representatives that they have in what is left of them.

        `removed` are the explicit facts that go, which have not gone yet.
        """
        members = np.sort(classes.members_of(doubted))
        given = self._scratch.relation(GIVEN, MEMBERS)
        gone = {
            self._scratch.relation(GONE, name): removed[name]
            for name in removed
            if name in self._scratch.arities
        }
        try:
            self._scratch.fill({given: Rows((members,), len(members)), **gone})
            self._engine.show(gone)
            self._together.run()
            found = [self._pairs(sought, is_group, classes, doubted) for sought, is_group in self._steps]
            return members, classes.parts(members, *_joined(found))
        finally:
            self._scratch.empty()

    def drop(self) -> None:
        """Forget what is kept from one update to the next."""
        self._scratch.drop()

    def _looking(self, rule: Rule) -> tuple[Sought, bool] | None:
        """How pairs are looked for that a rule makes equal, or groups; one of a pair is a member."""
        group = group_of(rule)
        if group is not None:
            return self._among_members((*group.key, group.constant), group.constant, group.body), True
        variable = next((term for term in rule.head.terms if isinstance(term, Variable)), None)
        if variable is None:
            return None
        return self._among_members(rule.head.terms, variable, rule.body), False

    def _among_members(self, row: Sequence[Term], constant: Variable, body: Sequence[Literal]) -> Sought:
        """The rows whose constant is a member, without facts that go."""
        members = self._scratch.atom(GIVEN, Atom(MEMBERS, (constant,)))
        atoms = (literal for literal in body if isinstance(literal, Atom))
        staying = (Negation(self._scratch.atom(GONE, atom)) for atom in atoms)
        apart = f" {next(self._numbers)}"
        return Sought(row, (members, *body, *staying), self._scratch, apart)

    def _pairs(self, sought: Sought, is_group: bool, classes: Classes, doubted: Ids) -> Pairs:
        """The pairs that are equal; keys may be equal by classes that are not in doubt."""
        rows = sought.found()
        if not is_group:
            left, right = rows.columns
            return left, right
        if rows.count < 2:
            return NONE, NONE
        keys = (_without_doubt(column, classes, doubted) for column in rows.columns[:-1])
        return neighbours(Rows((*keys, rows.columns[-1]), rows.count))


def _without_doubt(column: Ids, classes: Classes, doubted: Ids) -> Ids:
    """Constants by their representatives, unless their class is in doubt; these are in order."""
    own = classes.representatives(column)
    places = np.minimum(np.searchsorted(doubted, own), len(doubted) - 1)
    return np.where(doubted[places] == own, column, own)


def _joined(found: Sequence[Pairs]) -> Pairs:
    """All pairs."""
    some = [pairs for pairs in found if len(pairs[0])]
    if len(some) == 1:
        return some[0]
    left, right = (np.concatenate((NONE, *(pairs[side] for pairs in some))) for side in (0, 1))
    return left, right


# ---- Which explicit facts a stored fact stands for, found without expanding all its arguments.
#
# The members of one argument's class lead to explicit facts that mention them there; those that have the
# right representatives in the other places are it. Of all arguments the one is taken by which the fewest
# explicit facts are expected; a constant that stands for itself is the only member of its class.

CONSTANTS = "= constants"  # stands for a relation of one column


class Origins:
    """The explicit facts by what stands for them; `said` are the predicates by their stored relations."""

    def __init__(self, said: Mapping[str, str], scratch: Scratch, check: Check) -> None:
        self._said = said
        self._scratch = scratch
        self._engine = scratch.engine
        self._check = check
        scratch.define(GIVEN, CONSTANTS, 1)
        self._sought: dict[tuple[str, int], Sought] = {}

    def explicit(self, name: str, rows: Rows, classes: Classes, removed: Mapping[str, Rows]) -> Rows:
        """The explicit facts, not to be removed, that checked rows of a stored relation stand for."""
        predicate = self._said.get(name)
        if predicate is None or not self._engine.size(predicate):
            return Rows((NONE,) * len(rows.columns), 0)
        found = distinct([self._themselves(predicate, rows), *self._of_classes(name, rows, classes)])
        gone = removed.get(predicate)
        return found if gone is None else without(found, gone)

    def _themselves(self, predicate: str, rows: Rows) -> Rows:
        """Those of the rows that are explicit as they are."""
        return select(rows, self._engine.standing(predicate, rows.columns, rows.count) != 0)

    def _of_classes(self, name: str, rows: Rows, classes: Classes) -> Iterator[Rows]:
        """The explicit facts that rows with classes of several members stand for."""
        sizes = np.array([classes.sizes(column) for column in rows.columns], np.int64)
        several = (sizes > 1).any(axis=0) if len(sizes) else np.zeros(rows.count, np.bool_)
        if not several.any():
            return
        predicate = self._said[name]
        total = self._engine.size(predicate)
        mentions = [total / self._engine.distinct(predicate, place) for place in range(len(sizes))]
        chosen = (sizes * np.array(mentions)[:, None]).argmin(axis=0)
        for place in np.unique(chosen[several]).tolist():
            owners = rows.columns[place][several & (chosen == place)]
            members = classes.members_of(owners)
            self._scratch.give(GIVEN, CONSTANTS, Rows((members,), len(members)))
            found = self._mentioning(predicate, place, len(sizes)).rows(self._check)
            yield select(found, self._scratch.has(CHECKED, name, classes.normalise(found)))

    def _mentioning(self, predicate: str, place: int, arity: int) -> Sought:
        """The explicit facts that have one of the given constants in a place."""
        known = self._sought.get((predicate, place))
        if known is None:
            terms = tuple(Variable(f"x{number}") for number in range(arity))
            given = self._scratch.atom(GIVEN, Atom(CONSTANTS, (terms[place],)))
            known = Sought(terms, (given, Atom(predicate, terms)), self._scratch)
            self._sought[predicate, place] = known
        return known


# ---- Backward/Forward with rewriting (B/F≈): which classes a deletion divides, and into what.
#
# Motik, Nenov, Piro, Horrocks: Combining Rewriting and Incremental Materialisation Maintenance for Datalog
# Programs with Equality, IJCAI 2015, Algorithms 1, 3 and 4, for sets of facts; Algorithms 5 to 7 are
# `Saturation`. In the paper's letters: a lost fact makes others doubtful (D), those that were processed are
# O. Each doubtful fact is checked (C): proofs are looked for backwards, among the facts of its instances, and
# made forwards. What turns out to have no proof at all is disproved (S), and is not looked at again.
#
# Only facts that equality depends on take part. Which classes there are is all that is decided here: what
# follows from that, Algorithm 2, is the maintainer's work, to which a change of classes is a change of the
# relation of aliases. Of the paper's optimisations, reflexivity needs nothing, as no rule makes constants
# equal to themselves; redundant derivations, disproved facts and singletons are as in the paper.
#
# Invariant: a checked fact has its proof if it has one at all, or waits, or each of its instances among facts
# that are not disproved has only facts that were checked.

DOUBTFUL_MEMBERS, PROCESSED, DISPROVED, LOST = "doubtful", "processed", "disproved", "lost"
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
        doubtful = self._scratch.add(DOUBTFUL_MEMBERS, doubtful)
        while doubtful:
            self._prove(doubtful)
            lost = _nonempty((name, self._unproved(name, rows)) for name, rows in doubtful.items())
            found = united(chain(self._mentioning(lost), self._following(lost)))
            self._scratch.add(PROCESSED, doubtful)
            doubtful = self._scratch.add(DOUBTFUL_MEMBERS, found)
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
        return select(rows, proved != combinations)

    def _step(self, name: str, place: int, rows: Rows) -> Found:
        """The facts that take part in proofs of one kind: by equals that are replaced, or by one rule."""
        if place:
            yield from self._steps[name][place - 1].facts(rows)
            return
        owners = self._classes.several(np.concatenate([NONE, *rows.columns]))
        pairs = Rows((owners, owners), len(owners))
        yield EQUALITIES, select(pairs, ~self._scratch.has(DISPROVED, EQUALITIES, pairs))

    def _disprove(self, checked: Facts) -> None:
        """Mark the facts of which nothing is proved as disproved."""
        found = (
            (name, select(rows, self._saturation.proved(name, rows)[1] == 0))
            for name, rows in checked.items()
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
