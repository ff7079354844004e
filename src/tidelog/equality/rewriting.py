"""Equality by rewriting: a maintainer that wraps a maintainer. Mutable.

Motik, Nenov, Piro, Horrocks: Combining Rewriting and Incremental Materialisation Maintenance for Datalog
Programs with Equality, IJCAI 2015, for r-materialisation and its parts; here any maintainer maintains the
stored facts, for which a change of classes is a change of the relation of aliases like any other.

Insertion: equalities that are derived between representatives merge classes, until there are none. Deletion:
suspect classes are split into their members first, and merge again as far as that is still derived
(`split_and_merge`); with the maintainer `backward-forward`, the paper's search finds the parts
(`class_search`).

Invariant: between transactions no equality between two representatives is stored, and every class is the
least one that the facts give.

The treatments of equality by name are at the end.
"""

from __future__ import annotations

import weakref
from collections.abc import Callable, Mapping
from dataclasses import field, replace

import numpy as np

from tidelog.data.rows import Ids, Rows
from tidelog.engine.events import MaintainerChosen
from tidelog.equality import conflicts, listing
from tidelog.equality.class_search import ClassSearch, EqualityRules
from tidelog.equality.classes import (
    NOTHING,
    Classes,
    MovedConstants,
    Pairs,
    PendingMerges,
    all_unmerged,
    unique_ids,
)
from tidelog.equality.listing import LazyDelta, Listing, composed, since, stored_of
from tidelog.equality.split_and_merge import OneStepEqualities, SuspectClasses
from tidelog.equality.treatment import (
    Axiomatised,
    Derive,
    EffectiveProgramCache,
    MaintenanceRuntime,
    SwitchedOff,
    constants_of,
)
from tidelog.equality.work_relations import LastValueCache
from tidelog.logic.equality_axioms import has_equality, unknown_treatment
from tidelog.logic.program import BOTTOM, Program, Query, Rule, rule_changes
from tidelog.maintenance.maintainer import Maintainer, NetChange, Update
from tidelog.plan.inconsistency import Conflict
from tidelog.query.registry import not_over_representatives
from tidelog.query.strategy import Answers
from tidelog.records import dataclass
from tidelog.rewrite.representatives import ALIAS, bearing_on_equality, is_between, stored

BACKWARD_FORWARD = "backward-forward"  # the maintainer with which B/F≈ divides classes
BY_SEARCH = MaintainerChosen("backward-forward with rewriting", "to find what is no longer equal")
BY_SPLITTING = MaintainerChosen("split-and-merge", "to find what is no longer equal")
# Predicates that equality depends on are derived again in the first ROUNDS rounds, and in later ones that
# merge more than one pair for MANY facts: otherwise a long chain of merges would cost all of it for each
# link.
ROUNDS, MANY = 12, 64


@dataclass
class AppliedSteps:
    """The steps of a transaction that were applied, so that they can be undone."""

    steps: list[tuple[Update, Program, Program]] = field(default_factory=list)
    moved: list[MovedConstants] = field(default_factory=list)
    nets: list[NetChange] = field(default_factory=list)


class Rewriting(Axiomatised):
    """Programs with equality become rules over representatives; their classes are held here.

    Updates are applied by the wrapped maintainer, between which classes are split and merged.
    """

    name = "rewrite"

    def __init__(self, unique_names: bool = False) -> None:
        super().__init__(unique_names)
        self.classes = Classes()
        self.rounds = 0  # in which classes were merged, in the last transaction or derivation
        self.derivations = 0  # of facts by B/F≈ in the last transaction
        self._meanings = EffectiveProgramCache()
        self._conflicts: list[int] = []  # representatives of classes whose members conflict
        self._suspects: LastValueCache[SuspectClasses] = LastValueCache()
        self._equalities: LastValueCache[PendingMerges] = LastValueCache()
        self._remaining: LastValueCache[OneStepEqualities] = LastValueCache()
        self._searches: LastValueCache[ClassSearch] = LastValueCache()
        self._last_delta: weakref.ref[LazyDelta] | None = None  # the changes of the last transaction

    def attach(self, runtime: MaintenanceRuntime, maintainer: Maintainer) -> None:
        """Set the engine, and the maintainer that is wrapped."""
        self._runtime, self._engine, self._inner = runtime, runtime.engine, maintainer
        self._meanings.attach(runtime.engine.storage.dictionary)
        self.maintainer = EqualityMaintainer(self, maintainer)

    # ---- programs

    def meaning(self, program: Program) -> Program:
        """Return the program over representatives, the same object for the same representatives."""
        return self._meanings.of(program, self.classes)

    def _source(self, effective: Program) -> Program:
        """The source program of an effective program."""
        source = self._meanings.source(effective)
        assert source is not None
        return source

    # ---- asking

    def rows(self, program: Program, predicate: str, shown: str) -> Rows:
        """Return all facts of a predicate, with every member of each class or with the smallest one."""
        if not has_equality(program.predicates):
            return super().rows(program, predicate, shown)
        rows = Rows(*self._engine.storage.rows(stored(predicate)))
        if predicate == BOTTOM:
            return rows
        return listing.facts(rows, self.classes, self._engine.storage.dictionary, shown)

    def look_up(self, program: Program, shown: str) -> Callable[[Query], Answers] | None:
        """Return a function that looks up answers, None if they are in the predicates' own relations."""
        return (lambda query: self._answers(query, shown)) if has_equality(program.predicates) else None

    def _answers(self, query: Query, shown: str) -> Answers:
        constants = self._meanings.renamed(constants_of((query.rule,)), self.classes)
        rows = listing.answers(self._engine, self.classes, query, constants, shown)
        return rows.columns, rows.count

    def listing(self, program: Program, shown: str) -> Listing | None:
        """Return the listing of facts by the current classes."""
        if not has_equality(program.predicates):
            return None
        return Listing(self._engine, self.classes, shown)

    def relation(self, predicate: str) -> str:
        """Return the relation that holds all facts of a predicate, over representatives."""
        return stored(predicate)

    def known_classes(self) -> Classes:
        """Return the current classes of equal constants."""
        return self.classes

    def conflict(self, program: Program) -> Conflict | None:
        """Find two constants that are equal although they must not be."""
        if not has_equality(program.predicates):
            return None
        classes, dictionary = self.classes, self._engine.storage.dictionary
        conflicting = self._conflicting()
        # A rollback restores the earlier conflicts.
        self._conflicts = [*conflicting, *self._conflicts] if conflicting else []
        if conflicting:
            members = dictionary.decode_all(classes.class_of(conflicting[0]).tolist())
            conflict: Conflict | None = conflicts.conflict_among(members)
        else:
            has_bottom = bool(self._engine.storage.size(BOTTOM))
            conflict = conflicts.find_not_different(program, self._engine, classes) if has_bottom else None
        return None if conflict is None else conflicts.traced(conflict, program, self._engine, classes)

    def _conflicting(self) -> list[int]:
        """The changed classes with members that must not be equal.

        If there was no such class before, dividing a class cannot create one.
        """
        classes = self.classes
        touched = [moved.ids for moved in (classes.journal if self._conflicts else classes.grown)]
        if not touched and not self._conflicts:
            return []
        touched.append(np.array(self._conflicts, np.int32))
        representatives = unique_ids(classes.representatives(np.concatenate(touched)))
        return conflicts.conflicting_classes(
            classes, representatives, self._engine.storage.dictionary.kind, self.unique_names
        )

    # ---- deriving everything

    def complete(self, program: Program, derive: Derive) -> None:
        """Derive everything: first what equality depends on, until no class is merged; then the rest.

        So each instance of the other rules is found once. If few constants remain to merge, the rest is
        derived with the present classes, and the maintainer merges them.
        """
        self.classes, self.rounds = Classes(), 0
        if not has_equality(program.predicates):
            derive(False)
            return
        self._rewrite_aliases()
        derive(False, self._bearing(program))
        pairs = self._merge_many(program, derive)
        bearing = frozenset(self._bearing(program))
        derive(False, tuple(rule for rule in self.meaning(program).rules if rule not in bearing))
        while pairs is not None:
            self.rounds += 1
            before = self.meaning(program)
            moved = self.classes.merge(*pairs)
            effective = self.meaning(program)
            net = self._execute(Update({}, {}), moved, before, effective, AppliedSteps())
            pairs = self._unmerged(effective, net)

    def _bearing(self, program: Program) -> tuple[Rule, ...]:
        """The rules over representatives that equality depends on."""
        return tuple(bearing_on_equality(self.meaning(program).rules))

    def _are_many(self, pairs: Pairs) -> bool:
        """Whether deriving again costs less than maintaining merged facts, which counts all facts."""
        facts: int = sum(map(self._engine.storage.size, self._engine.storage.relations()))
        return self.rounds < ROUNDS or len(pairs[0]) * MANY > facts

    def resume(self) -> None:
        """Restore the classes from the relation of aliases."""
        self.classes, self.rounds = Classes(), 0
        if ALIAS in self._engine.storage.relations() and self._engine.storage.size(ALIAS):
            (members, representatives), _ = self._engine.storage.rows(ALIAS)
            self.classes.assign(members, representatives)
            self._conflicts = self.classes.merged.tolist()  # each is examined once

    def restored(
        self, program: Program, explicit: Mapping[str, Rows], facts: Mapping[str, Rows]
    ) -> tuple[dict[str, Rows], dict[str, Rows]]:
        """Return the explicit and the derived facts of an engine with these facts, listed in either form."""
        if not has_equality(program.predicates):
            return super().restored(program, explicit, facts)
        aliases, stored_relations = stored_of(facts)
        explicit_relations = {**explicit, ALIAS: aliases} if aliases.count else dict(explicit)
        return explicit_relations, {name: rows for name, rows in stored_relations.items() if rows.count}

    def resume_restored(self, program: Program, derive: Derive) -> None:
        """Restore the classes from the aliases, and derive auxiliary relations, which no list contains."""
        if has_equality(program.predicates):
            self.resume()
            rules = self.meaning(program).rules
            derive(False, tuple(rule for rule in rules if is_between(rule.head.predicate)))

    def _merge_many(self, program: Program, derive: Derive) -> Pairs | None:
        """Merge equal pairs as long as there are many; return the remaining ones, None if there are none."""
        while (pairs := all_unmerged(self._engine, self.meaning(program))) is not None:
            if not self._are_many(pairs):
                break
            self.rounds += 1
            self.classes.merge(*pairs)
            self._rewrite_aliases()
            derive(True, self._bearing(program))
        return pairs

    def _rewrite_aliases(self) -> None:
        """Write the relation of aliases from the classes."""
        engine = self._engine
        engine.storage.drop(ALIAS)
        engine.storage.define(ALIAS, 2)
        if self.classes:
            ids = self.classes.aliased
            rows = MovedConstants(ids, ids, self.classes.of[ids]).added
            engine.storage.add(ALIAS, rows.columns, rows.count)

    # ---- transactions

    def apply(self, update: Update, before: Program, after: Program) -> NetChange:
        """Apply an update between programs over representatives; return the net change of members.

        Representatives may have changed since the programs were made, if this undoes another update.
        """
        source, source_before = self._source(after), self._source(before)
        before = self.meaning(source_before)
        removed_rules, added_rules = rule_changes(before.rules, self.meaning(source).rules)
        update = replace(update, rules_removed=removed_rules, rules_added=added_rules)
        return self._transact(
            source, lambda applied: self._propagate(update, before, (source_before, source), applied)
        )

    def begin(self, update: Update, before: Program, after: Program) -> NetChange:
        """Apply an update to the first program with equality: all facts become stored ones.

        This costs as much as deriving everything, since every rule changes.
        """
        source = self._meanings.source(after)
        if source is None:  # a program extended by the rules of kept queries
            help = "close these queries (`query.close()`), add the rule, and prepare them again"
            raise not_over_representatives("a first equality while queries are kept", help)
        self.classes = Classes()
        rows = self._engine.storage.rows
        facts_before = {name: Rows(*rows(name)) for name in before.predicates if name != BOTTOM}

        def propagate(applied: AppliedSteps) -> None:
            net = self._execute(update, NOTHING, before, after, applied)
            applied.nets[:] = [since(facts_before, net)]
            self._merge_all(net, after, source, applied)

        return self._transact(source, propagate)

    def withdraw(self, update: Update, before: Program, after: Program) -> None:
        """Undo an update to the first program with equality: afterwards there are no classes."""
        effective = self.meaning(self._source(before))
        ids = self.classes.members_of(self.classes.merged)
        self._execute(update, self.classes.assign(ids, ids), effective, after, AppliedSteps())

    def _transact(self, source: Program, act: Callable[[AppliedSteps], None]) -> NetChange:
        """Run a transaction that ends with program `source`; return its changes among members."""
        self._compute_last_delta()
        self.classes.begin()
        self.rounds = 0
        applied = AppliedSteps()
        try:
            act(applied)
        except BaseException:
            self._undo(applied)
            raise
        net = composed(applied.nets)
        delta = LazyDelta(self._engine, self.classes, net, source.predicates)
        self._last_delta = weakref.ref(delta)
        return delta.change(net)

    def _compute_last_delta(self) -> None:
        """Compute the delta of the last transaction if it may still be read."""
        delta = None if self._last_delta is None else self._last_delta()
        if delta is not None:
            delta.find()

    def lose_late(self) -> None:
        """Drop the delta of the last transaction unless it is computed."""
        delta = None if self._last_delta is None else self._last_delta()
        if delta is not None:
            delta.lose()

    def _propagate(
        self, update: Update, before: Program, source: tuple[Program, Program], applied: AppliedSteps
    ) -> None:
        """Split classes that may no longer be equal, apply the update, and merge equal classes."""
        moved = self._split(update, before, source)
        applied.moved.append(moved)
        effective = self.meaning(source[1])
        net = self._execute(update, moved, before, effective, applied)
        self._merge_all(net, effective, source[1], applied)

    def _merge_all(self, net: NetChange, effective: Program, source: Program, applied: AppliedSteps) -> None:
        """Merge the classes that inserted facts make equal, up to the fixpoint, starting from `effective`."""
        while (pairs := self._unmerged(effective, net)) is not None:
            self.rounds += 1
            previous, moved = effective, self.classes.merge(*pairs)
            applied.moved.append(moved)
            effective = self.meaning(source)
            net = self._execute(Update({}, {}), moved, previous, effective, applied)

    def _unmerged(self, program: Program, net: NetChange) -> Pairs | None:
        """The pairs of representatives that inserted facts make equal."""
        merges = self._equalities.get(program.rules, lambda: PendingMerges(program, self._engine))
        return merges.pairs(net.added)

    def _split(self, update: Update, before: Program, source: tuple[Program, Program]) -> MovedConstants:
        """Split the classes that an update may split: by B/F≈, or by split and merge."""
        if not self.classes or not (update.removed or update.rules_removed):
            return NOTHING
        if self._inner.name == BACKWARD_FORWARD:
            self._runtime.tell(BY_SEARCH)
            return self.classes.assign(*self._checked_classes(update, source))
        engine, check = self._engine, self._runtime.check
        suspects = self._suspects.get(before.rules, lambda: SuspectClasses(before, engine, check))
        suspect = suspects.classes(update, self.classes)
        if not len(suspect):
            return NOTHING
        self._runtime.tell(BY_SPLITTING)
        remaining = self._remaining.get(source[1].rules, lambda: OneStepEqualities(source[1], engine))
        return self.classes.assign(*remaining.parts(suspect, update.removed, self.classes))

    def _checked_classes(self, update: Update, source: tuple[Program, Program]) -> tuple[Ids, Ids]:
        """The members of the classes that B/F≈ checked, and their representatives."""
        before, after = source
        kept = frozenset(after.rules) if before.rules is not after.rules else None
        lost = () if kept is None else tuple(rule for rule in before.rules if rule not in kept)
        constants = self._meanings.constants(before, self.classes)
        search = self._searches.get(
            (before.rules, constants),
            lambda: ClassSearch(
                EqualityRules(before, constants), self._engine, self._meanings.renamed, self._runtime.check
            ),
        )
        derivations_before = search.derivations
        parts = search.parts(update, lost, self.classes)
        self.derivations = search.derivations - derivations_before
        return parts

    def _execute(
        self, update: Update, moved: MovedConstants, before: Program, after: Program, applied: AppliedSteps
    ) -> NetChange:
        """Apply an update and a change of classes; return the net change over representatives."""
        removed, added = moved.removed, moved.added
        with_aliases = Update(
            {**update.removed, ALIAS: removed} if removed.count else update.removed,
            {**update.added, ALIAS: added} if added.count else update.added,
            *rule_changes(before.rules, after.rules),
        )
        if not with_aliases:
            return NetChange()
        net = self._inner.apply(with_aliases, before, after)
        applied.steps.append((with_aliases, before, after))
        applied.nets.append(net)
        return net

    def _undo(self, applied: AppliedSteps) -> None:
        """Undo the applied steps, without limits."""
        with self._runtime.no_limits().guarding():
            for update, before, after in reversed(applied.steps):
                self._inner.apply(update.inverse, after, before)
        for moved in reversed(applied.moved):
            self.classes.assign(moved.ids, moved.before)


class EqualityMaintainer:
    """The maintainer of a reasoner whose programs may have equality: it wraps another one."""

    def __init__(self, rewriting: Rewriting, inner: Maintainer) -> None:
        self._rewriting = rewriting
        self._inner = inner

    @property
    def lookahead(self) -> None:
        """None: marks of the next update are not known for representatives."""

    @property
    def name(self) -> str:
        """The name of the maintainer of stored facts."""
        return self._inner.name

    def apply(self, update: Update, before: Program, after: Program) -> NetChange:
        """Apply an update; on any exception the engine is as before."""
        if ALIAS in after.predicates:
            propagate = self._rewriting.apply if ALIAS in before.predicates else self._rewriting.begin
            return propagate(update, before, after)
        if ALIAS in before.predicates:
            self._rewriting.withdraw(update, before, after)
            return NetChange()  # this undoes an update: the net change is not read
        return self._inner.apply(update, before, after)


# ---- treatments of equality by name

TREATMENTS = {treatment.name: treatment for treatment in (Rewriting, Axiomatised, SwitchedOff)}


def make(name: str, unique_names: bool) -> Axiomatised:
    """Return the treatment of this name; raise ProgramError if there is none."""
    check_name(name)
    return TREATMENTS[name](unique_names)


def check_name(name: str) -> None:
    """Raise ProgramError unless there is a treatment of this name."""
    if name not in TREATMENTS:
        raise unknown_treatment(name, TREATMENTS)
