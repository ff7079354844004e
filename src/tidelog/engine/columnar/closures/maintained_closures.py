"""The columnar engine with structures for closures: they derive a predicate's facts, and keep them right.

A closed relation has no counters. Its structure knows the external pairs and tells which facts come and go;
it is made when it is first needed, and takes part in the engine's transactions. Mutates itself.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np
import numpy.typing as npt

from tidelog.engine.columnar import layout
from tidelog.engine.columnar.closures import closure_kernels
from tidelog.engine.columnar.closures.closure_structures import (
    NO_PAIRS,
    PART,
    EquivalenceClosure,
    Pairs,
    TransitiveClosure,
)
from tidelog.engine.columnar.interpreter.executor import GIVEN, LookUps
from tidelog.engine.columnar.interpreter.plan_runner import ANSWERS
from tidelog.engine.columnar.transactions.change_runner import RowSet
from tidelog.engine.columnar.transactions.counters import MaintainedEngine
from tidelog.engine.events import Listener
from tidelog.engine.fixpoint import materialise
from tidelog.engine.protocol import Counters, Flag, Outgrown
from tidelog.logic.program import Rule
from tidelog.logic.strata import Stratum
from tidelog.plan.compile import full_plan
from tidelog.rewrite.auxiliary_relations import ClosureKind, ClosureModule, is_auxiliary

Ids = npt.NDArray[np.int32]
Structure = TransitiveClosure | EquivalenceClosure
FEWEST = 128  # external pairs from which a structure is worth the code that must be loaded for it
STRUCTURES: dict[ClosureKind, type[Structure]] = {
    ClosureKind.TRANSITIVE: TransitiveClosure,
    ClosureKind.EQUIVALENCE: EquivalenceClosure,
}


@dataclass(slots=True, eq=False)
class Closed:
    """A closed relation's module, and its structure, if that has been made."""

    module: ClosureModule
    structure: Structure | None = None


@dataclass(slots=True)
class Transaction:
    """The structures that a transaction uses: those that were there, and those that it has made."""

    known: list[Structure] = field(default_factory=list)
    made: list[Closed] = field(default_factory=list)


class ClosingEngine(MaintainedEngine):
    """All facts in this process, what follows from their changes, and structures for closures."""

    def __init__(self, threads: int | None = None, relations: int = 8) -> None:
        super().__init__(threads, relations)
        self.fewest = FEWEST
        self.has_incomplete = False  # tables were put in whose sets are not made yet
        self._closed: dict[str, Closed] = {}
        self._transaction = Transaction()
        self._look_ups = LookUps()

    def renew(self) -> None:
        """Forget all relations, and whatever was made for them, in whatever state; values keep their ids."""
        made = ClosingEngine(self.threads)
        kept = ("dictionary", "pool", "check", "dense_bytes", "fewest")
        state = {**vars(made), **{name: getattr(self, name) for name in (*kept, "plan_listener")}}
        state.update(epoch=self.epoch + 1, generation=self.generation + 1, _instances=self._instances)
        self.dictionary.publish()
        self.__dict__ = state  # all or none

    @property
    def closing(self) -> ClosingEngine:
        """The engine itself."""
        return self

    @property
    def closed(self) -> Collection[str]:
        """The relations that structures keep."""
        return self._closed.keys()

    def module_of(self, relation: str) -> ClosureModule | None:
        """The module by which a relation is closed, None if it is not."""
        closed = self._closed.get(relation)
        return None if closed is None else closed.module

    # ---- what reasoners ask for

    def derive(
        self,
        strata: Sequence[Stratum],
        numbers: dict[int, int],
        listen: Listener,
        check: Callable[[], None],
        modules: bool,
    ) -> None:
        """Derive all that follows from the facts that are there, closures by structures if `modules`.

        `numbers` gives the place of each rule (by identity) in the program; `check` raises to stop.
        """
        self.begin(self.relations())
        materialise(strata, numbers, self, listen, check, self if modules else None)

    def answer(self, rule: Rule) -> tuple[tuple[Ids, ...], int]:
        """The heads of a rule's instances, in columns of ids, and how many they are."""
        joined = self._look_ups.joined(rule, self)
        if joined is None:
            return self._heads(rule)
        self.define(GIVEN, len(joined.constants))
        try:
            self.add(GIVEN, tuple(np.array([self.identity(each)], np.int32) for each in joined.constants), 1)
            self.begin([GIVEN])
            return self._heads(joined.rule)
        finally:
            self.drop(GIVEN)

    def _heads(self, rule: Rule) -> tuple[tuple[Ids, ...], int]:
        """The heads of a rule's instances, by its best plan."""
        self.define(ANSWERS, len(rule.head.terms))
        try:
            self.prepare(full_plan(rule, -1, self, ANSWERS))()
            return self.rows(ANSWERS)
        finally:
            self.drop(ANSWERS)

    # ---- relations that are closed, and no longer

    def close(self, module: ClosureModule, given: str) -> int | None:
        """Close a predicate whose external facts are its own and those of `given`; how many are new."""
        left, right = self.rows(given)[0]
        if not self._fits(module.kind, (left, right)):
            return None
        table = self.table(module.predicate)
        structure = STRUCTURES[module.kind]()
        self._watch(structure, len(table))
        pairs = structure.add(left, right)
        self._watch(structure, 0)
        if len(table):
            is_new = np.concatenate([table.find(part, len(part[0])) < 0 for part in self._parts(pairs)])
            pairs = pairs[0][is_new], pairs[1][is_new]
        table.append(pairs, len(pairs[0]), len(self.dictionary))
        table.rounds_of = -1, frozenset()  # its rows are not in the order of rounds
        self._closed[module.predicate] = Closed(module, structure)
        return len(pairs[0])

    def close_later(self, module: ClosureModule) -> bool:
        """Whether a structure keeps the relation from now on; it and its source are as they should be."""
        if module.is_linear and self.explicit(module.predicate)[1]:
            return False
        pairs = self._externals(module, layout.ALIVE)
        if not self._fits(module.kind, pairs):
            return False
        self.table(module.predicate).drop_counters()
        self._closed[module.predicate] = Closed(module)
        return True

    def open(self, relation: str) -> None:
        """Drop the closure structure of the relation."""
        self.table(relation).complete()
        source = self._closed.pop(relation).module.source
        if is_auxiliary(source) and source in self._numbers:
            self.table(source).drop_counters()  # nobody reads it any more: it may go, and others stay counted

    def _fits(self, kind: ClosureKind, pairs: Pairs) -> bool:
        """Whether a structure is for a graph of this size."""
        fits = STRUCTURES[kind].fits
        edges = len(pairs[0])
        if edges < self.fewest:
            return False
        return fits(min(2 * edges, len(self.dictionary)), edges) or fits(self._count_nodes(pairs), edges)

    def _count_nodes(self, pairs: Pairs) -> int:
        """How many ids there are in pairs."""
        is_node = np.zeros(len(self.dictionary), np.bool_)
        for column in pairs:
            is_node[column] = True
        return int(np.count_nonzero(is_node))

    def _externals(self, module: ClosureModule, flag: int) -> Pairs:
        """The external pairs: facts of the source that have a flag, and explicit facts of the predicate."""
        source, own = self.table(module.source), self.table(module.predicate)
        derived = (source.flags[: len(source)] & flag) != 0
        stated = (own.flags[: len(own)] & layout.EXPLICIT) != 0
        left, right = (
            np.concatenate((source.column(place)[derived], own.column(place)[stated])) for place in range(2)
        )
        return left, right

    def drop(self, relation: str) -> None:
        """Forget a relation, its memory and its structure."""
        super().drop(relation)
        self._closed.pop(relation, None)

    def rename(self, relation: str, name: str) -> None:
        """Give a relation another name."""
        super().rename(relation, name)
        if relation in self._closed:
            self._closed[name] = self._closed.pop(relation)

    # ---- changes

    def maintain_closure(self, relation: str, removed: Any, added: Any, went: Any, came: Any) -> None:
        """Update the facts of a closed relation to the closure of its changed external pairs.

        `removed` and `added` are its facts that are no longer, or newly, explicit; `went` and `came` are the
        facts deleted and inserted below. Raises Outgrown if the structure would become too large.
        """
        module = self._closed[relation].module
        structure = self._structure(relation)
        self.mark(removed, clear=Flag.EXPLICIT)
        self.mark(added, set=Flag.EXPLICIT)
        lost = _joined(self._lost_below(module, went), self._lost_here(module, removed))
        gained = _joined(self._pairs(module.source, came), self._pairs(relation, added))
        self._check_size(module, structure, gained)
        if len(lost[0]):
            self._mark_pairs(relation, structure.delete(*lost), set=Flag.NONE, clear=Flag.ALIVE)
        if len(gained[0]):
            self._mark_pairs(relation, structure.add(*gained), set=Flag.ALIVE, clear=Flag.NONE)

    def _pairs(self, relation: str, facts: RowSet) -> Pairs:
        """The ids of the facts of one relation."""
        rows = facts.rows.get(relation)
        if rows is None:
            return NO_PAIRS
        left, right = self.table(relation).columns
        return left[rows], right[rows]

    def _lost_below(self, module: ClosureModule, went: RowSet) -> Pairs:
        """The pairs that no rule derives any more and that are not explicit."""
        pairs = self._pairs(module.source, went)
        if not len(pairs[0]):
            return pairs
        table = self.table(module.predicate)
        found = table.find(pairs, len(pairs[0]))
        lost = (table.flags[found] & layout.EXPLICIT) == 0  # found they are: they were in the closure
        return pairs[0][lost], pairs[1][lost]

    def _lost_here(self, module: ClosureModule, removed: RowSet) -> Pairs:
        """The pairs that are no longer explicit and that no rule derives."""
        pairs = self._pairs(module.predicate, removed)
        if not len(pairs[0]):
            return pairs
        lost = (self.standing(module.source, pairs, len(pairs[0])) & layout.ALIVE) == 0
        return pairs[0][lost], pairs[1][lost]

    def _mark_pairs(self, relation: str, pairs: Pairs, set: Flag, clear: Flag) -> None:
        for part in self._parts(pairs):
            self.mark(self.facts(relation, part, len(part[0]), create=True), set, clear)

    def _parts(self, pairs: Pairs) -> Iterator[Pairs]:
        """The pairs, so many at a time that limits hold."""
        for start in range(0, len(pairs[0]), PART):
            self.check()
            yield pairs[0][start : start + PART], pairs[1][start : start + PART]

    def _check_size(self, module: ClosureModule, structure: Structure, gained: Pairs) -> None:
        count = len(gained[0])
        edges = structure.edges + count
        if not count or structure.fits(structure.nodes + 2 * count, edges):
            return
        known = structure.vectors[closure_kernels.IDS, : structure.nodes]
        more = len(np.setdiff1d(np.concatenate(gained), known))
        if more and not structure.fits(structure.nodes + more, edges):
            raise Outgrown(module.predicate)

    # ---- transactions

    def _watch(self, structure: Structure, known: int) -> None:
        """Check the limits inside a structure; `known` of the pairs that it adds are facts already."""
        structure.check = lambda count: self.check(max(0, count - known))

    def _structure(self, relation: str) -> Structure:
        """The structure of a relation, as it was before the transaction unless the transaction changed it."""
        closed = self._closed[relation]
        transaction = self._transaction
        if closed.structure is None:
            structure = STRUCTURES[closed.module.kind]()
            self._watch(structure, 0)
            structure.fill(*self._externals(closed.module, layout.BEFORE))
            closed.structure = structure
            transaction.made.append(closed)
        elif closed.structure.journal is None and closed not in transaction.made:
            closed.structure.checkpoint()
            transaction.known.append(closed.structure)
        return closed.structure

    def _complete_sets(self) -> None:
        """Build the missing sets of relations whose rows were appended without one."""
        for relation in self._numbers if self.has_incomplete else self._closed:
            self.table(relation).complete(self.check)
        self.has_incomplete = False

    def begin_transaction(self) -> None:
        """Begin a journal."""
        self._complete_sets()
        self._transaction = Transaction()
        super().begin_transaction()

    def commit(self) -> tuple[RowSet, RowSet]:
        """End the transaction: what went and what came, in all relations; BEFORE is ALIVE again."""
        changed = super().commit()
        for structure in self._transaction.known:
            structure.commit()
        return changed

    def roll_back(self) -> None:
        """Put flags, counters and structures back as they were when the transaction began."""
        super().roll_back()
        for structure in self._transaction.known:
            structure.roll_back()
        for closed in self._transaction.made:
            closed.structure = None  # made between two acts it would not be what was before

    def recount(self, counters: Counters, strata: Any) -> RowSet:
        """Count all instances of the strata's rules anew; returns the facts that are true and unfounded."""
        self._complete_sets()
        return super().recount(counters, strata)


def _proceed() -> None:
    """Nothing needs to be prepared."""


def _joined(first: Pairs, second: Pairs) -> Pairs:
    """The pairs of both."""
    if not len(second[0]):
        return first
    if not len(first[0]):
        return second
    return np.concatenate((first[0], second[0])), np.concatenate((first[1], second[1]))
