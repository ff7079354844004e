"""Structures for closures, which derive and maintain a predicate's facts. Mutable.

A closed relation has no counters. Its structure has the external pairs and returns the inserted and deleted
facts; it is created when it is first needed, and participates in transactions. See `engine.protocol.Closures`
for the contracts of the methods.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from dataclasses import field
from typing import Any

import numpy as np

from tidelog.engine.columnar import layout
from tidelog.engine.columnar.closures import closure_kernels
from tidelog.engine.columnar.closures.closure_structures import (
    NO_PAIRS,
    PART,
    EquivalenceClosure,
    Pairs,
    TransitiveClosure,
)
from tidelog.engine.columnar.storage.catalog import Catalog, CatalogObserver
from tidelog.engine.columnar.storage.storage import ColumnarStorage
from tidelog.engine.columnar.storage.table import Table
from tidelog.engine.columnar.transactions.row_sets import RowSet
from tidelog.engine.columnar.transactions.transactions import Participant, Transactions
from tidelog.engine.flags import Flag
from tidelog.engine.interrupts import ActiveLimits
from tidelog.engine.protocol import StructureTooLarge
from tidelog.records import dataclass
from tidelog.rewrite.auxiliary_relations import ClosureKind, ClosureModule, is_auxiliary

Structure = TransitiveClosure | EquivalenceClosure
MIN_PAIRS = 128  # external pairs from which a structure is worth the code that must be loaded for it
STRUCTURES: dict[ClosureKind, type[Structure]] = {
    ClosureKind.TRANSITIVE: TransitiveClosure,
    ClosureKind.EQUIVALENCE: EquivalenceClosure,
}


@dataclass(slots=True, eq=False)
class ClosedRelation:
    """A closed relation's module, and its structure, if that has been made."""

    module: ClosureModule
    structure: Structure | None = None


@dataclass(slots=True)
class UsedStructures:
    """The structures that a transaction uses: those that existed, and the relations whose it has made."""

    existing: list[Structure] = field(default_factory=list)
    created: list[ClosedRelation] = field(default_factory=list)


class ColumnarClosures(Participant, CatalogObserver):
    """The closed relations and their structures: notified of changes while there are any."""

    def __init__(
        self, catalog: Catalog, storage: ColumnarStorage, transactions: Transactions, limits: ActiveLimits
    ) -> None:
        self.catalog = catalog
        self.storage = storage
        self.transactions = transactions
        self.limits = limits
        self.min_pairs = MIN_PAIRS
        self.closed: dict[str, ClosedRelation] = {}  # the relations that structures keep
        self._used = UsedStructures()

    def module_of(self, relation: str) -> ClosureModule | None:
        """Return the module by which a relation is closed, None if it is not."""
        closed = self.closed.get(relation)
        return None if closed is None else closed.module

    # ---- relations that are closed, and no longer

    def build(self, module: ClosureModule, given: str) -> int | None:
        """Close a predicate over its external facts and those of `given`; return the number of new facts."""
        left, right = self.storage.rows(given).columns
        if not self._fits(module.kind, (left, right)):
            return None
        table = self.catalog.table(module.predicate)
        structure = STRUCTURES[module.kind]()
        self._watch(structure, len(table))
        pairs = structure.add(left, right)
        self._watch(structure, 0)
        if len(table):
            is_new = np.concatenate([table.find(part, len(part[0])) < 0 for part in self._parts(pairs)])
            pairs = pairs[0][is_new], pairs[1][is_new]
        table.append(pairs, len(pairs[0]), len(self.catalog.dictionary))
        self.catalog.incomplete.append(table)
        table.rounds_of = -1, frozenset()  # its rows are not in the order of rounds
        self._close(ClosedRelation(module, structure))
        return len(pairs[0])

    def adopt(self, module: ClosureModule) -> bool:
        """Return whether a structure keeps the relation from now on; its facts and its source's are right."""
        if module.is_linear and self.storage.explicit(module.predicate).count:
            return False
        pairs = self.externals(module, layout.ALIVE)
        if not self._fits(module.kind, pairs):
            return False
        self.catalog.table(module.predicate).drop_counters()
        self.keep(module)
        return True

    def keep(self, module: ClosureModule) -> None:
        """Keep the relation by a structure, which is made when it is first needed."""
        self._close(ClosedRelation(module))

    def _close(self, closed: ClosedRelation) -> None:
        self.closed[closed.module.predicate] = closed
        self.catalog.observe(self)
        self.transactions.join(self)

    def _end_transaction(self) -> None:
        """Release the used structures, and stop participating in transactions if no relation is closed."""
        if self._used.existing or self._used.created:
            self._used = UsedStructures()
        if not self.closed:
            self.catalog.ignore(self)
            self.transactions.leave(self)

    def release(self, relation: str) -> None:
        """Drop the closure structure of the relation."""
        self.catalog.table(relation).complete()
        source = self.closed.pop(relation).module.source
        if is_auxiliary(source) and source in self.catalog:
            # No rule reads it: it may be dropped, and the counters of others stay.
            self.catalog.table(source).drop_counters()

    def _fits(self, kind: ClosureKind, pairs: Pairs) -> bool:
        """Return whether a structure is for a graph of this size."""
        fits = STRUCTURES[kind].fits
        edges = len(pairs[0])
        if edges < self.min_pairs:
            return False
        values = len(self.catalog.dictionary)
        return fits(min(2 * edges, values), edges) or fits(self._count_nodes(pairs), edges)

    def _count_nodes(self, pairs: Pairs) -> int:
        """Return the number of distinct ids in pairs."""
        is_node = np.zeros(len(self.catalog.dictionary), np.bool_)
        for column in pairs:
            is_node[column] = True
        return int(np.count_nonzero(is_node))

    def externals(self, module: ClosureModule, flag: int) -> Pairs:
        """Return the external pairs: facts of the source with a flag, and explicit facts of the predicate."""
        source, closed = self.catalog.table(module.source), self.catalog.table(module.predicate)
        derived = (source.flags[: len(source)] & flag) != 0
        explicit = (closed.flags[: len(closed)] & layout.EXPLICIT) != 0
        left, right = (
            np.concatenate((source.column(place)[derived], closed.column(place)[explicit]))
            for place in range(2)
        )
        return left, right

    def on_drop(self, relation: str, table: Table) -> None:
        """Drop the structure of a relation."""
        self.closed.pop(relation, None)

    def on_rename(self, relation: str, name: str) -> None:
        """Keep the structure under the relation's new name."""
        if relation in self.closed:
            self.closed[name] = self.closed.pop(relation)

    # ---- changes

    def maintain(self, relation: str, removed: Any, added: Any, deleted: Any, inserted: Any) -> None:
        """Update the facts of a closed relation to the closure of its changed external pairs.

        `removed` and `added` are its facts that are no longer, or newly, explicit; `deleted` and `inserted`
        are the facts deleted and inserted below. Raises StructureTooLarge.
        """
        module = self.closed[relation].module
        structure = self._structure(relation)
        self.transactions.mark(removed, clear=Flag.EXPLICIT)
        self.transactions.mark(added, set=Flag.EXPLICIT)
        lost = _concatenated(self._lost_below(module, deleted), self._lost_here(module, removed))
        gained = _concatenated(self._pairs(module.source, inserted), self._pairs(relation, added))
        self._check_size(module, structure, gained)
        if len(lost[0]):
            self._mark_pairs(relation, structure.delete(*lost), set=Flag.NONE, clear=Flag.ALIVE)
        if len(gained[0]):
            self._mark_pairs(relation, structure.add(*gained), set=Flag.ALIVE, clear=Flag.NONE)

    def _pairs(self, relation: str, facts: RowSet) -> Pairs:
        """Return the ids of the facts of one relation."""
        rows = facts.rows.get(relation)
        if rows is None:
            return NO_PAIRS
        left, right = self.catalog.table(relation).columns
        return left[rows], right[rows]

    def _lost_below(self, module: ClosureModule, deleted: RowSet) -> Pairs:
        """Return the deleted external pairs that are not explicit."""
        pairs = self._pairs(module.source, deleted)
        if not len(pairs[0]):
            return pairs
        table = self.catalog.table(module.predicate)
        rows = table.find(pairs, len(pairs[0]))
        lost = (table.flags[rows] & layout.EXPLICIT) == 0  # all rows exist: the pairs were in the closure
        return pairs[0][lost], pairs[1][lost]

    def _lost_here(self, module: ClosureModule, removed: RowSet) -> Pairs:
        """Return the pairs that are no longer explicit and that no rule derives."""
        pairs = self._pairs(module.predicate, removed)
        if not len(pairs[0]):
            return pairs
        lost = (self.storage.row_flags(module.source, pairs, len(pairs[0])) & layout.ALIVE) == 0
        return pairs[0][lost], pairs[1][lost]

    def _mark_pairs(self, relation: str, pairs: Pairs, set: Flag, clear: Flag) -> None:
        changes = self.transactions
        for part in self._parts(pairs):
            changes.mark(changes.facts(relation, part, len(part[0]), create=True), set, clear)

    def _parts(self, pairs: Pairs) -> Iterator[Pairs]:
        """Yield the pairs in parts, checking the limits before each."""
        for start in range(0, len(pairs[0]), PART):
            self.limits.check()
            yield pairs[0][start : start + PART], pairs[1][start : start + PART]

    def _check_size(self, module: ClosureModule, structure: Structure, gained: Pairs) -> None:
        """Raise StructureTooLarge if the structure does not fit with these pairs."""
        count = len(gained[0])
        edges = structure.edges + count
        if not count or structure.fits(structure.nodes + 2 * count, edges):
            return
        numbered = structure.vectors[closure_kernels.IDS, : structure.nodes]
        new_nodes = len(np.setdiff1d(np.concatenate(gained), numbered))
        if new_nodes and not structure.fits(structure.nodes + new_nodes, edges):
            raise StructureTooLarge(module.predicate)

    # ---- transactions

    def _watch(self, structure: Structure, existing: int) -> None:
        """Check the limits within a structure; `existing` of the pairs that it adds are already facts."""
        structure.check = lambda count: self.limits.check(max(0, count - existing))

    def _structure(self, relation: str) -> Structure:
        """Return the structure of a relation, created for the state before the transaction if necessary."""
        closed, used = self.closed[relation], self._used
        if closed.structure is None:
            structure = STRUCTURES[closed.module.kind]()
            self._watch(structure, 0)
            structure.fill(*self.externals(closed.module, layout.BEFORE))
            closed.structure = structure
            used.created.append(closed)
        elif closed.structure.journal is None and closed not in used.created:
            closed.structure.checkpoint()
            used.existing.append(closed.structure)
        return closed.structure

    def on_commit(self, changed: Collection[str]) -> None:
        """Keep the changes of the transaction to structures."""
        for structure in self._used.existing:
            structure.commit()
        self._end_transaction()

    def on_roll_back(self) -> None:
        """Restore the structures as they were when the transaction began."""
        for structure in self._used.existing:
            structure.roll_back()
        for closed in self._used.created:
            closed.structure = None  # created between two phases, it does not have the state before
        self._end_transaction()


def _concatenated(first: Pairs, second: Pairs) -> Pairs:
    """Return the pairs of both."""
    if not len(second[0]):
        return first
    if not len(first[0]):
        return second
    return np.concatenate((first[0], second[0])), np.concatenate((first[1], second[1]))
