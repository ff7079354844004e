"""Equality by rewriting: facts are kept over representatives, and classes are maintained; the treatments
by name.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

import numpy as np

from tidelog.data.rows import Rows
from tidelog.engine.events import MaintainerChosen
from tidelog.equality import conflicts
from tidelog.equality import listing as answers
from tidelog.equality.class_search import BackwardForward, Doubts, Proofs, Relevant, bearing_on_equality
from tidelog.equality.classes import NOTHING, Classes, Ids, Moved, Pairs, Unmerged, all_unmerged, each_once
from tidelog.equality.listing import Late, Listing, composed, since, stored_of
from tidelog.equality.treatment import Axiomatised, Derive, Meanings, SwitchedOff, constants_of
from tidelog.equality.work_relations import Latest
from tidelog.errors import Diagnostic
from tidelog.logic.equality_axioms import has_equality, unknown_treatment
from tidelog.logic.program import BOTTOM, Program, Query, Rule
from tidelog.maintenance.maintainer import Maintainer, NetChange, Update
from tidelog.query.registry import not_over_representatives
from tidelog.query.strategy import Answers
from tidelog.rewrite.representatives import ALIAS, is_between, stored

# ---- Equality by rewriting: facts are kept over representatives, and classes are kept right under change.
# Mutates itself.
#
# Motik, Nenov, Piro, Horrocks: Combining Rewriting and Incremental Materialisation Maintenance for Datalog
# Programs with Equality, IJCAI 2015, for r-materialisation and its parts; here any maintainer keeps the
# stored facts, to which a change of classes is a change of the relation of aliases like any other.
#
# Insertion: equalities that are derived between representatives merge classes, until there are none.
# Deletion: classes that are in doubt are divided into their members first, and merge again as far as that is
# still derived (`split-and-merge`); with the maintainer `backward-forward` the paper's search finds out what
# they are divided into (`backward_forward.py`).
#
# Invariant: between transactions no equality between two representatives is stored, and every class is the
# least one that the facts give.

BACKWARD_FORWARD = "backward-forward"  # the maintainer with which classes are divided by B/F≈
BY_SEARCH = MaintainerChosen("backward-forward with rewriting", "to find what is no longer equal")
BY_DOUBT = MaintainerChosen("split-and-merge", "to find what is no longer equal")
# What equality depends on is derived anew in the first rounds, and in later ones if they merge more than one
# pair for so many facts: else a long chain of mergers would cost all of it for each link.
ROUNDS, MANY = 12, 64


@dataclass
class Work:
    """The steps of a transaction that were carried out, for them to be undone."""

    steps: list[tuple[Update, Program, Program]] = field(default_factory=list)
    moved: list[Moved] = field(default_factory=list)
    nets: list[NetChange] = field(default_factory=list)


class Rewriting(Axiomatised):
    """Programs with equality mean rules over representatives; the classes belong to it.

    It is a maintainer too: it works updates in by another one, and merges and divides classes.
    """

    name = "rewrite"

    def __init__(self, unique_names: bool = False) -> None:
        super().__init__(unique_names)
        self.classes = Classes()
        self.rounds = 0  # in which classes were merged, in the last transaction or derivation
        self.derivations = 0  # facts that B/F≈ looked at in the last transaction, each as often as it did
        self._meanings = Meanings()
        self._conflicts: list[int] = []  # classes that have members which must not be equal
        self._doubts: Latest[Doubts] = Latest()
        self._equalities: Latest[Unmerged] = Latest()
        self._proofs: Latest[Proofs] = Latest()
        self._searches: Latest[BackwardForward] = Latest()
        self._late: weakref.ref[Late] | None = None  # what the last transaction changed

    def attach(self, runtime: Any, maintainer: Maintainer) -> Maintainer:
        """The maintainer that keeps classes right too."""
        self._runtime, self._engine, self._inner = runtime, runtime.engine, maintainer
        self._meanings.attach(runtime.engine)
        return Maintaining(self)

    # ---- programs

    def meaning(self, program: Program) -> Program:
        """The program over representatives, the same object as long as program and representatives are."""
        return self._meanings.of(program, self.classes)

    def _said(self, meant: Program) -> Program:
        """The program that has this meaning; there is one."""
        said = self._meanings.said(meant)
        assert said is not None
        return said

    # ---- asking

    def rows(self, program: Program, predicate: str, shown: str) -> Rows:
        """All facts of a predicate, with every member of each class, or the smallest one."""
        if not has_equality(program.predicates):
            return super().rows(program, predicate, shown)
        return answers.facts(self._engine, self.classes, predicate, shown)

    def look_up(self, program: Program, shown: str) -> Callable[[Query], Answers] | None:
        """How answers are looked up, if not in the predicates' own relations."""
        return (lambda query: self._answers(query, shown)) if has_equality(program.predicates) else None

    def _answers(self, query: Query, shown: str) -> Answers:
        constants = self._meanings.renamed(constants_of((query.rule,)), self.classes)
        found = answers.answers(self._engine, self.classes, query, constants, shown)
        return found.columns, found.count

    def listing(self, program: Program, shown: str) -> Listing | None:
        """How facts are listed: by the classes as they are now."""
        if not has_equality(program.predicates):
            return None
        return Listing(self._engine, self.classes, shown)

    def relation(self, predicate: str) -> str:
        """The relation that holds all facts of a predicate, over representatives."""
        return stored(predicate)

    def known_classes(self) -> Classes:
        """The classes of equal constants, as they are now."""
        return self.classes

    def violation(self, program: Program) -> Diagnostic | None:
        """Two constants that are equal and must not be, if there are such."""
        if not has_equality(program.predicates):
            return None
        classes, dictionary = self.classes, self._engine.dictionary
        found = self._conflicting()
        # If the transaction is taken back, those from before are there again.
        self._conflicts = [*found, *self._conflicts] if found else []
        if found:
            members = dictionary.decode_all(classes.class_of(found[0]).tolist())
            return conflicts.conflict(members, program, self._engine, classes)
        is_open = bool(self._engine.size(BOTTOM))
        return conflicts.not_different(program, self._engine, classes) if is_open else None

    def _conflicting(self) -> list[int]:
        """The classes that have members which must not be equal, of those that have changed.

        Where there was no such class, one that was only divided cannot be one.
        """
        classes = self.classes
        touched = [moved.ids for moved in (classes.journal if self._conflicts else classes.grown)]
        if not touched and not self._conflicts:
            return []
        touched.append(np.array(self._conflicts, np.int32))
        some = each_once(classes.representatives(np.concatenate(touched)))
        return conflicts.conflicting(classes, some, self._engine.dictionary.kind, self.unique_names)

    # ---- deriving everything

    def complete(self, program: Program, derive: Derive) -> None:
        """Derive everything: first what equality depends on, until nothing is merged any more; then the rest.

        So each instance of the other rules is found once. If few constants are left to be merged, the rest is
        derived with what they are, and the maintainer moves them.
        """
        self.classes, self.rounds = Classes(), 0
        if not has_equality(program.predicates):
            derive(False)
            return
        self._restate()
        derive(False, self._bearing(program))
        pairs = self._merge_many(program, derive)
        bearing = frozenset(self._bearing(program))
        derive(False, tuple(rule for rule in self.meaning(program).rules if rule not in bearing))
        while pairs is not None:
            self.rounds += 1
            before = self.meaning(program)
            moved = self.classes.merge(*pairs)
            now = self.meaning(program)
            net = self._carry_out(Update({}, {}), moved, before, now, Work())
            pairs = self._unmerged(now, net)

    def _bearing(self, program: Program) -> tuple[Rule, ...]:
        """The rules over representatives that equality depends on."""
        return tuple(bearing_on_equality(self.meaning(program).rules))

    def _are_many(self, pairs: Pairs) -> bool:
        """Whether deriving anew costs less than to move what is merged, which needs all facts counted."""
        facts: int = sum(map(self._engine.size, self._engine.relations()))
        return self.rounds < ROUNDS or len(pairs[0]) * MANY > facts

    def resume(self) -> None:
        """Restore the classes from the relation of aliases."""
        self.classes, self.rounds = Classes(), 0
        if ALIAS in self._engine.relations() and self._engine.size(ALIAS):
            (members, representatives), _ = self._engine.rows(ALIAS)
            self.classes.assign(members, representatives)
            self._conflicts = self.classes.standing.tolist()  # each is looked at, once

    def restored(
        self, program: Program, explicit: Mapping[str, Rows], facts: Mapping[str, Rows]
    ) -> tuple[dict[str, Rows], dict[str, Rows]]:
        """What the engine holds if these are the facts, listed in either way."""
        if not has_equality(program.predicates):
            return super().restored(program, explicit, facts)
        aliases, found = stored_of(facts)
        known = {**explicit, ALIAS: aliases} if aliases.count else dict(explicit)
        return known, {name: rows for name, rows in found.items() if rows.count}

    def resume_restored(self, program: Program, derive: Derive) -> None:
        """Restore the classes from the aliases, and derive what lies between rules: no list contains it."""
        if has_equality(program.predicates):
            self.resume()
            rules = self.meaning(program).rules
            derive(False, tuple(rule for rule in rules if is_between(rule.head.predicate)))

    def _merge_many(self, program: Program, derive: Derive) -> Pairs | None:
        """Merge what is equal as long as it is much; the pairs that are left, None if there are none."""
        while (pairs := all_unmerged(self._engine, self.meaning(program))) is not None:
            if not self._are_many(pairs):
                break
            self.rounds += 1
            self.classes.merge(*pairs)
            self._restate()
            derive(True, self._bearing(program))
        return pairs

    def _restate(self) -> None:
        """Rewrite the relation of aliases from the classes."""
        engine = self._engine
        engine.drop(ALIAS)
        engine.define(ALIAS, 2)
        if self.classes:
            ids = self.classes.aliased
            rows = Moved(ids, ids, self.classes.of[ids]).added
            engine.add(ALIAS, rows.columns, rows.count)

    # ---- transactions

    def apply(self, update: Update, before: Program, after: Program) -> NetChange:
        """Carry out an update between programs over representatives; the net change is that of members.

        Representatives may have changed since the programs were made, if this is to undo another update.
        """
        said, said_before = self._said(after), self._said(before)
        before = self.meaning(said_before)
        gone, come = _differing(before, self.meaning(said))
        update = replace(update, rules_removed=gone, rules_added=come)
        return self._transact(said, lambda work: self._work_in(update, before, (said_before, said), work))

    def begin(self, update: Update, before: Program, after: Program) -> NetChange:
        """Carry out an update to the first program with equality: all facts become stored ones.

        That costs what deriving everything does, as all rules become others.
        """
        said = self._meanings.said(after)
        if said is None:  # rules of live queries come in between
            help = "close these queries (`query.close()`), add the rule, and keep them anew"
            raise not_over_representatives("a first equality while queries are kept", help)
        self.classes = Classes()
        held = {name: Rows(*self._engine.rows(name)) for name in before.predicates if name != BOTTOM}

        def work_in(work: Work) -> None:
            net = self._carry_out(update, NOTHING, before, after, work)
            work.nets[:] = [since(held, net)]
            self._merge_all(net, after, said, work)

        return self._transact(said, work_in)

    def take_back(self, update: Update, before: Program, after: Program) -> None:
        """Undo an update to the first program with equality: everything is as it was without classes."""
        meant = self.meaning(self._said(before))
        ids = self.classes.members_of(self.classes.standing)
        self._carry_out(update, self.classes.assign(ids, ids), meant, after, Work())

    def _transact(self, said: Program, act: Callable[[Work], None]) -> NetChange:
        """What a transaction changes among members, after which the program is the one that is said."""
        self._settle()
        self.classes.begin()
        self.rounds = 0
        work = Work()
        try:
            act(work)
        except BaseException:
            self._undo(work)
            raise
        net = composed(work.nets)
        late = Late(self._engine, self.classes, net, said.predicates)
        self._late = weakref.ref(late)
        return late.change(net)

    def _settle(self) -> None:
        """Compute the delta of the last transaction now if somebody may still read it."""
        late = None if self._late is None else self._late()
        if late is not None:
            late.find()

    def lose_late(self) -> None:
        """Drop the delta of the last transaction if it is not computed yet."""
        late = None if self._late is None else self._late()
        if late is not None:
            late.lose()

    def _work_in(self, update: Update, before: Program, said: tuple[Program, Program], work: Work) -> None:
        """Divide what is no longer equal, carry the update out, and merge what is equal."""
        moved = self._divided(update, before, said)
        work.moved.append(moved)
        now = self.meaning(said[1])
        self._merge_all(self._carry_out(update, moved, before, now, work), now, said[1], work)

    def _merge_all(self, net: NetChange, now: Program, said: Program, work: Work) -> None:
        """Merge what is equal by what came, until there is nothing more; the program means `now` by then."""
        while (pairs := self._unmerged(now, net)) is not None:
            self.rounds += 1
            earlier, moved = now, self.classes.merge(*pairs)
            work.moved.append(moved)
            now = self.meaning(said)
            net = self._carry_out(Update({}, {}), moved, earlier, now, work)

    def _unmerged(self, program: Program, net: NetChange) -> Pairs | None:
        """Pairs of representatives that are equal by what came."""
        made = self._equalities.get(program.rules, lambda: Unmerged(program, self._engine))
        return made.pairs(net.added)

    def _divided(self, update: Update, before: Program, said: tuple[Program, Program]) -> Moved:
        """Split the classes that an update may split: by B/F≈, or by doubt and explicit facts."""
        if not self.classes or not (update.removed or update.rules_removed):
            return NOTHING
        if self._inner.name == BACKWARD_FORWARD:
            self._runtime.tell(BY_SEARCH)
            return self.classes.assign(*self._still_proved(update, said))
        engine, check = self._engine, self._runtime.check
        doubts = self._doubts.get(before.rules, lambda: Doubts(before, engine, check))
        doubted = doubts.classes(update, self.classes)
        if not len(doubted):
            return NOTHING
        self._runtime.tell(BY_DOUBT)
        proofs = self._proofs.get(said[1].rules, lambda: Proofs(said[1], engine))
        return self.classes.assign(*proofs.parts(doubted, update.removed, self.classes))

    def _still_proved(self, update: Update, said: tuple[Program, Program]) -> tuple[Ids, Ids]:
        """The members of classes that B/F≈ checked, and their representatives."""
        before, after = said
        kept = frozenset(after.rules) if before.rules is not after.rules else None
        lost = () if kept is None else tuple(rule for rule in before.rules if rule not in kept)
        constants = self._meanings.constants(before, self.classes)
        search = self._searches.get(
            (before.rules, constants),
            lambda: BackwardForward(
                Relevant(before, constants), self._engine, self._meanings.renamed, self._runtime.check
            ),
        )
        known = search.derivations
        found = search.parts(update, lost, self.classes)
        self.derivations = search.derivations - known
        return found

    def _carry_out(
        self, update: Update, moved: Moved, before: Program, after: Program, work: Work
    ) -> NetChange:
        """The net change of an update, and of constants that have moved, over representatives."""
        removed, added = moved.removed, moved.added
        whole = Update(
            {**update.removed, ALIAS: removed} if removed.count else update.removed,
            {**update.added, ALIAS: added} if added.count else update.added,
            *_differing(before, after),
        )
        if not whole:
            return NetChange()
        net = self._inner.apply(whole, before, after)
        work.steps.append((whole, before, after))
        work.nets.append(net)
        return net

    def _undo(self, work: Work) -> None:
        """Take back what was carried out. Nothing stops this."""
        with self._runtime.no_limits().guarding():
            for update, before, after in reversed(work.steps):
                self._inner.apply(update.inverse, after, before)
        for moved in reversed(work.moved):
            self.classes.assign(moved.ids, moved.before)


class Maintaining:
    """The maintainer of a reasoner whose programs may have equality."""

    lookahead = None

    def __init__(self, rewriting: Rewriting) -> None:
        self._rewriting = rewriting

    @property
    def name(self) -> str:
        """The name that the maintainer of stored facts is chosen by."""
        return self._rewriting._inner.name

    def apply(self, update: Update, before: Program, after: Program) -> NetChange:
        """Carry out an update; on any exception the engine is as before."""
        if ALIAS in after.predicates:
            work_in = self._rewriting.apply if ALIAS in before.predicates else self._rewriting.begin
            return work_in(update, before, after)
        if ALIAS in before.predicates:
            self._rewriting.take_back(update, before, after)
            return NetChange()  # predicates stay, so that this undoes: nobody looks at what it changes
        return self._rewriting._inner.apply(update, before, after)


def _differing(before: Program, after: Program) -> tuple[tuple[Any, ...], tuple[Any, ...]]:
    """The rules that go and those that come."""
    if before.rules is after.rules:
        return (), ()
    old, new = frozenset(before.rules), frozenset(after.rules)
    return (
        tuple(rule for rule in before.rules if rule not in new),
        tuple(rule for rule in after.rules if rule not in old),
    )


# ---- The treatments of equality by name.

TREATMENTS = {treatment.name: treatment for treatment in (Rewriting, Axiomatised, SwitchedOff)}
DEFAULT = Rewriting.name


def make(name: str, unique_names: bool) -> Axiomatised:
    """The treatment of this name; raises ProgramError if there is none."""
    if name not in TREATMENTS:
        raise unknown_treatment(name, TREATMENTS)
    return TREATMENTS[name](unique_names)
