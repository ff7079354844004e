"""Work relations: temporary sets of facts next to the stored ones, and rules that run over them in one call.
Mutates the engine.

Work relations are emptied after each search and kept for the next one, and so are the plans that read them.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from tidelog.data.rows import Rows, distinct, select
from tidelog.engine.protocol import Runnable
from tidelog.logic.program import Atom, Literal, Rule, Term, Variable
from tidelog.logic.strata import order
from tidelog.maintenance.maintainer import Check
from tidelog.plan.compile import delta_pivots, delta_plan
from tidelog.query.table_rules import FRESHNESS, GrowingStatistics, PreparedRule

if TYPE_CHECKING:
    from tidelog.engine.columnar.engine import ColumnarEngine
    from tidelog.engine.columnar.storage.rounds import TableGroup

Facts = dict[str, Rows]  # by stored relation; no relation is without rows
Mask = npt.NDArray[np.bool_]
CHECKED = "checked"  # the kind of facts for which proofs are searched
GIVEN = "given"  # the kind of facts that drive queries
DENSE_BYTES = 1 << 20  # that the set of a relation may take for speed


class WorkRelations:
    """Sets of facts of relations, by kind; `arities` are those of the relations.

    The purpose is part of the relations' names, so each object needs its own.
    """

    def __init__(self, purpose: str, engine: ColumnarEngine, arities: Mapping[str, int]) -> None:
        self.purpose = purpose
        self.engine = engine
        self.arities = arities
        self._names: dict[tuple[str, str], str] = {}
        self._widths: dict[str, int] = {}
        self._group: TableGroup | None = None  # all relations that were created

    def relation(self, kind: str, name: str) -> str:
        """Return the relation that holds the facts of a kind, created if need be."""
        created = self._names.get((kind, name))
        return self.define(kind, name, self.arities[name]) if created is None else created

    def define(self, kind: str, name: str, arity: int) -> str:
        """Create a relation with `arity` columns for facts of a kind; return its name."""
        created = self._names[kind, name] = f"{name} {kind} {self.purpose}"
        self._widths[created] = arity
        self._group = None
        self.engine.storage.define(created, arity, DENSE_BYTES)
        return created

    def atom(self, kind: str, atom: Atom) -> Atom:
        """Return the atom that reads the facts of a kind."""
        return Atom(self.relation(kind, atom.predicate), atom.terms)

    def contains(self, kind: str, name: str, rows: Rows) -> Mask:
        """Return a mask of the rows that are facts of this kind."""
        mask: Mask = self.engine.storage.row_flags(self.relation(kind, name), rows.columns, rows.count) != 0
        return mask

    def enter(self, kind: str, name: str, rows: Rows) -> Rows:
        """Add rows to the facts of a kind, visible when the next round begins; return those that are new."""
        new = select(rows, ~self.contains(kind, name, rows))
        if new.count:
            self.engine.storage.add(self.relation(kind, name), new.columns, new.count)
        return new

    def add(self, kind: str, facts: Mapping[str, Rows]) -> Facts:
        """Add facts to those of a kind; return those that are new."""
        new = {name: self.enter(kind, name, rows) for name, rows in facts.items()}
        self.engine.rounds.mark_all_old([self.relation(kind, name) for name in facts])
        return {name: rows for name, rows in new.items() if rows.count}

    def replace_all(self, kind: str, name: str, rows: Rows) -> None:
        """Replace all facts of a kind in a relation; all of them are NEW."""
        relation = self.relation(kind, name)
        self.engine.storage.clear(relation)
        self.engine.storage.add(relation, rows.columns, rows.count)
        self.engine.rounds.advance([relation])

    def fill(self, facts: Mapping[str, Rows]) -> None:
        """Fill empty relations with facts, which may contain duplicates; none of them is NEW yet."""
        self.engine.rounds.fill({relation: (rows.columns, rows.count) for relation, rows in facts.items()})

    def empty(self) -> None:
        """Delete all facts."""
        self._group = self._group or self.engine.rounds.group(self._widths)
        self.engine.rounds.clear_group(self._group)

    def drop(self) -> None:
        """Drop all relations."""
        for relation in self._widths:
            self.engine.storage.drop(relation)
        self._names, self._widths, self._group = {}, {}, None


class BoundQuery:
    """The rows of terms for which a body holds, driven by the given facts that its first atom reads.

    `apart` distinguishes its relation of rows from those of other queries that run at the same time.
    """

    def __init__(
        self, terms: Sequence[Term], body: Iterable[Literal], relations: WorkRelations, suffix: str = ""
    ) -> None:
        self._relations = relations
        self._answers = relations.define(f"answers{suffix}", f"= {len(terms)}", len(terms))
        literals = tuple(body)
        ordered = order(literals, [term for term in terms if isinstance(term, Variable)]).body
        driving = literals[0]
        assert isinstance(driving, Atom)
        self.rule = Rule(Atom(self._answers, tuple(terms)), ordered)
        self._prepared = PreparedRule(self.rule, (driving.predicate,), relations.engine)
        self._given = driving.predicate

    def rows(self, check: Callable[[], None]) -> Rows:
        """Return the rows, each once."""
        engine = self._relations.engine
        self._prepared.refresh_plans()
        if not self._prepared.run((self._given,), check):
            return Rows(*engine.storage.rows(self._answers))
        columns, count = engine.storage.rows(self._answers)
        rows = Rows(tuple(column.copy() for column in columns), count)
        engine.storage.clear(self._answers)
        return rows

    def results(self) -> Rows:
        """Return the rows that its rule has found, valid until the work relations are emptied."""
        return Rows(*self._relations.engine.storage.rows(self._answers))


class HasWorkRelations(Protocol):
    """An object with work relations that are dropped with it."""

    relations: WorkRelations


Cached = TypeVar("Cached", bound=HasWorkRelations)


class LastValueCache(Generic[Cached]):
    """The object built last, kept as long as the same key is requested."""

    def __init__(self) -> None:
        self._entry: tuple[object, Cached] | None = None

    def get(self, key: object, build: Callable[[], Cached]) -> Cached:
        """The object for a key; the relations of an object for another key are dropped."""
        if self._entry is not None and self._entry[0] == key:
            return self._entry[1]
        if self._entry is not None:
            self._entry[1].relations.drop()
            self._entry = None
        value = build()
        self._entry = key, value
        return value


def united(parts: Iterable[tuple[str, Rows]]) -> Facts:
    """Return the union of facts, by relation."""
    groups: dict[str, list[Rows]] = {}
    for name, rows in parts:
        if rows.count:
            groups.setdefault(name, []).append(rows)
    return {name: distinct(rows_of_name) for name, rows_of_name in groups.items()}


# ---- rules that run together
#
# A transaction runs many small queries about equality: a call from Python for every rule and round would cost
# far more than the queries. Plans are cached between calls.
#
# Invariant: a plan is cached as long as the relations that it reads are not much larger than they were when
# it was built.


class BatchedRules:
    """Rules driven by the NEW facts of given relations."""

    def __init__(self, rules: Sequence[Rule], driving: Collection[str], engine: ColumnarEngine) -> None:
        self._rules = rules
        self._driving = driving
        self._engine = engine
        self._group = engine.rounds.group(driving)
        self._read = tuple({name for rule in rules for name in rule.read})
        self._plans: tuple[Runnable, ...] = ()
        self._catalog_version = -1
        self._calls = 0

    def run(self) -> None:
        """Derive from facts added to the driving relations, in one step."""
        self._engine.rounds.advance_group(self._group)
        self._engine.plans.run_together(self._current_plans())

    def close(self, check: Check) -> None:
        """Derive from facts added to the driving relations, up to the fixpoint."""
        plans = self._current_plans()
        if not self._engine.plans.close_group(self._group, plans):
            while self._engine.rounds.advance_group(self._group):
                for plan in plans:
                    plan()
                    check()

    def _current_plans(self) -> tuple[Runnable, ...]:
        """The plans, rebuilt if the cached ones may be invalid or slow."""
        if not self._are_valid():
            self._plans = tuple(self._plan(rule, position) for rule, position in self._driving_atoms())
            self._engine.plans.pin((*self._read, *(rule.head.predicate for rule in self._rules)))
            self._catalog_version = self._engine.plans.catalog_version
            self._counted = self._engine.rounds.group(self._read)
            self._limits = np.maximum(
                FRESHNESS.grown * self._engine.rounds.sizes(self._counted), FRESHNESS.small
            )
        return self._plans

    def _are_valid(self) -> bool:
        if self._catalog_version != self._engine.plans.catalog_version:
            return False
        self._calls += 1
        return self._calls % FRESHNESS.every > 0 or bool(
            (self._engine.rounds.sizes(self._counted) <= self._limits).all()
        )

    def _driving_atoms(self) -> list[tuple[Rule, int]]:
        """Yield the rules with the positions of the atoms that drive them."""
        return [(rule, position) for rule in self._rules for position in delta_pivots(rule, self._driving)]

    def _plan(self, rule: Rule, position: int) -> Runnable:
        """The plan that derives from the NEW facts of one atom."""
        plan = delta_plan(
            rule, 0, self._driving, position, GrowingStatistics(self._engine.storage, self._driving)
        )
        runnable: Runnable = self._engine.plans.prepare_with_tombstones(plan)
        return runnable
