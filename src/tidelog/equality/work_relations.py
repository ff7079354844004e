"""Sets of facts beside the stored ones, in relations of their own, and rules that run over them in one
call.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import Any, Generic, Protocol, TypeVar

import numpy as np
import numpy.typing as npt

from tidelog.data.rows import Rows, distinct, select
from tidelog.engine.protocol import Runnable
from tidelog.logic.program import Atom, Literal, Rule, Term, Variable
from tidelog.logic.strata import order
from tidelog.maintenance.maintainer import Check
from tidelog.plan.compile import delta_pivots, delta_plan
from tidelog.query.table_rules import GROWN, LOOKED_OVER, SMALL, Growing, Prepared

# ---- Sets of facts beside the stored ones, in relations of their own. Mutates the engine.
#
# They are emptied after each search and kept for the next one, and so are the plans that read them.

Facts = dict[str, Rows]  # by stored relation; no relation is without rows
Mask = npt.NDArray[np.bool_]
CHECKED = "checked"  # the kind of facts of which it is found out whether they are proved
GIVEN = "given"  # the kind of facts from which others are looked for
DENSE_BYTES = 1 << 20  # that the set of a relation may take for speed


class Scratch:
    """Sets of facts of relations, each of some kind; `arities` are those of the relations.

    No other has the same purpose.
    """

    def __init__(self, purpose: str, engine: Any, arities: Mapping[str, int]) -> None:
        self.purpose = purpose
        self.engine = engine
        self.arities = arities
        self._made: dict[tuple[str, str], str] = {}
        self._widths: dict[str, int] = {}
        self._group: Any = None  # all relations that were made, as the engine knows them

    def relation(self, kind: str, name: str) -> str:
        """The relation that holds the facts of a kind."""
        made = self._made.get((kind, name))
        return self.define(kind, name, self.arities[name]) if made is None else made

    def define(self, kind: str, name: str, arity: int) -> str:
        """Create a relation with `arity` columns for facts of a kind; return its name."""
        made = self._made[kind, name] = f"{name} {kind} {self.purpose}"
        self._widths[made] = arity
        self._group = None
        self.engine.define(made, arity, DENSE_BYTES)
        return made

    def atom(self, kind: str, atom: Atom) -> Atom:
        """The atom that reads the facts of a kind."""
        return Atom(self.relation(kind, atom.predicate), atom.terms)

    def has(self, kind: str, name: str, rows: Rows) -> Mask:
        """Which of the rows are among the facts of a kind."""
        found: Mask = self.engine.standing(self.relation(kind, name), rows.columns, rows.count) != 0
        return found

    def enter(self, kind: str, name: str, rows: Rows) -> Rows:
        """Those of the rows that are not among the facts of a kind, and will be when a round begins."""
        new = select(rows, ~self.has(kind, name, rows))
        if new.count:
            self.engine.add(self.relation(kind, name), new.columns, new.count)
        return new

    def add(self, kind: str, facts: Mapping[str, Rows]) -> Facts:
        """Those of the facts that are not of a kind, and now are."""
        new = {name: self.enter(kind, name, rows) for name, rows in facts.items()}
        self.engine.show([self.relation(kind, name) for name in facts])
        return {name: rows for name, rows in new.items() if rows.count}

    def give(self, kind: str, name: str, rows: Rows) -> None:
        """Replace all facts of a kind in a relation by these, all of them new."""
        relation = self.relation(kind, name)
        self.engine.clear(relation)
        self.engine.add(relation, rows.columns, rows.count)
        self.engine.advance([relation])

    def fill(self, facts: Mapping[str, Rows]) -> None:
        """Fill empty relations with facts, which may contain duplicates; none of them is NEW yet."""
        self.engine.fill({relation: (rows.columns, rows.count) for relation, rows in facts.items()})

    def empty(self) -> None:
        """Forget all facts."""
        self._group = self._group or self.engine.group(self._widths)
        self.engine.clear_group(self._group)

    def drop(self) -> None:
        """Forget all relations."""
        for relation in self._widths:
            self.engine.drop(relation)
        self._made, self._widths, self._group = {}, {}, None


class Sought:
    """The rows of terms for which a body holds, found from the given facts that its first atom reads.

    `apart` names the relation that rows are found in, where others are looked for at the same time.
    """

    def __init__(
        self, terms: Sequence[Term], body: Iterable[Literal], scratch: Scratch, apart: str = ""
    ) -> None:
        self._scratch = scratch
        self._answers = scratch.define(f"answers{apart}", f"= {len(terms)}", len(terms))
        literals = tuple(body)
        ordered = order(literals, [term for term in terms if isinstance(term, Variable)]).body
        given = literals[0]
        assert isinstance(given, Atom)
        self.rule = Rule(Atom(self._answers, tuple(terms)), ordered)
        self._prepared = Prepared(self.rule, (given.predicate,), scratch.engine)
        self._given = given.predicate

    def rows(self, check: Callable[[], None]) -> Rows:
        """The rows, each once."""
        engine = self._scratch.engine
        self._prepared.look_over()
        if not self._prepared.run((self._given,), check):
            return Rows(*engine.rows(self._answers))
        columns, count = engine.rows(self._answers)
        rows = Rows(tuple(column.copy() for column in columns), count)
        engine.clear(self._answers)
        return rows

    def found(self) -> Rows:
        """The rows that its rule has found; they are good until the scratch relations are emptied."""
        return Rows(*self._scratch.engine.rows(self._answers))


class Droppable(Protocol):
    """What keeps relations of its own."""

    def drop(self) -> None:
        """Forget them."""


Kept = TypeVar("Kept", bound=Droppable)


class Latest(Generic[Kept]):
    """What was made last, kept as long as it is asked for by the same key."""

    def __init__(self) -> None:
        self._known: tuple[object, Kept] | None = None

    def get(self, key: object, make: Callable[[], Kept]) -> Kept:
        """What was made for a key; what was made for another is dropped."""
        if self._known is not None and self._known[0] == key:
            return self._known[1]
        if self._known is not None:
            self._known[1].drop()
            self._known = None
        made = make()
        self._known = key, made
        return made


def united(parts: Iterable[tuple[str, Rows]]) -> Facts:
    """All facts, each once."""
    found: dict[str, list[Rows]] = {}
    for name, rows in parts:
        if rows.count:
            found.setdefault(name, []).append(rows)
    return {name: distinct(some) for name, some in found.items()}


# ---- Rules that run together, all in one call of the engine. Mutates itself.
#
# What one transaction asks of equality is little, many times: a call from Python for every rule and round
# would cost far more than what the rules find. Plans are kept from one time to the next.
#
# Invariant: plans are kept as long as the relations that they read are not much larger than they were when
# the plans were made.


class Together:
    """Rules driven by what is new of relations of one's own."""

    def __init__(self, rules: Sequence[Rule], own: Collection[str], engine: Any) -> None:
        self._rules = rules
        self._own = own
        self._engine = engine
        self._group = engine.group(own)
        atoms = (atom for rule in rules for atom in (*rule.positive, *rule.negated))
        self._read = tuple(dict.fromkeys(atom.predicate for atom in atoms))
        self._plans: tuple[Runnable, ...] = ()
        self._generation = -1
        self._asked = 0

    def run(self) -> None:
        """Find what follows from what has come to one's own relations, at one step."""
        self._engine.advance_group(self._group)
        self._engine.run_together(self._ready())

    def close(self, check: Check) -> None:
        """Find all that follows from what has come to one's own relations."""
        plans = self._ready()
        if not self._engine.close_group(self._group, plans):
            while self._engine.advance_group(self._group):
                for plan in plans:
                    plan()
                    check()

    def _ready(self) -> tuple[Runnable, ...]:
        """The plans, made anew if those that are known may be wrong, or slow."""
        if not self._are_good():
            self._plans = tuple(self._plan(rule, place) for rule, place in self._driven())
            self._engine.plan_to_keep((*self._read, *(rule.head.predicate for rule in self._rules)))
            self._generation = self._engine.generation
            self._counted = self._engine.group(self._read)
            self._limits = np.maximum(GROWN * self._engine.sizes(self._counted), SMALL)
        return self._plans

    def _are_good(self) -> bool:
        if self._generation != self._engine.generation:
            return False
        self._asked += 1
        return self._asked % LOOKED_OVER > 0 or bool(
            (self._engine.sizes(self._counted) <= self._limits).all()
        )

    def _driven(self) -> list[tuple[Rule, int]]:
        """The rules with the places of the atoms that drive them."""
        return [(rule, place) for rule in self._rules for place in delta_pivots(rule, self._own)]

    def _plan(self, rule: Rule, place: int) -> Runnable:
        """What finds the consequences of what is new of one atom."""
        plan = delta_plan(rule, 0, self._own, place, Growing(self._engine, self._own))
        ready: Runnable = self._engine.prepare_for_all_times(plan)
        return ready
