"""Facts over representatives, expanded: facts, answers and changes with every member of each class, or with
the smallest one.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field
from functools import partial
from typing import TYPE_CHECKING

import numpy as np

from tidelog.data.dictionary import Dictionary
from tidelog.data.rows import Ids, LazyRows, NetRows, Rows, concatenate, distinct, select, without
from tidelog.equality.classes import NONE, Classes, Grouped, Grouping, expanded, spread
from tidelog.errors import Diagnostic, EvaluationError
from tidelog.errors.codes import DELTA_LOST
from tidelog.logic.program import (
    BOTTOM,
    EQUAL,
    Atom,
    Negation,
    Predicate,
    Query,
    Rule,
    Variable,
    literal_variables,
)
from tidelog.logic.strata import order
from tidelog.logic.values import order_key
from tidelog.maintenance.maintainer import NetChange
from tidelog.plan.algebra import LISTED
from tidelog.records import dataclass
from tidelog.rewrite.representatives import MARK, Constants, StoredBody, stored, subsets

if TYPE_CHECKING:
    from tidelog.engine.columnar.engine import ColumnarEngine

EXPAND, REPRESENTATIVE = "expand", "representative"
SHOWN = (EXPAND, REPRESENTATIVE)


def facts(rows: Rows, classes: Classes, dictionary: Dictionary, shown: str) -> Rows:
    """Return the facts that stored rows represent."""
    return classes.expand(rows) if shown == EXPAND else smallest(rows, classes, dictionary)


def answers(engine: ColumnarEngine, classes: Classes, query: Query, constants: Constants, shown: str) -> Rows:
    """Return the rows of a query's head; `constants` are the representatives of those in its atoms."""
    rule = query.rule
    requested = tuple(term for term in rule.head.terms if isinstance(term, Variable))
    tests = [literal for literal in rule.body if not isinstance(literal, Atom | Negation)]
    tested = {variable for literal in tests for variable in literal_variables(literal)}
    reading = StoredBody(rule.body, constants, [variable for variable in requested if variable in tested])
    parts = []
    for others in subsets(reading.seen):
        row = tuple(reading.member(variable, others) for variable in requested)
        for body in reading.bodies(others):
            rule_of_choice = Rule(Atom(rule.head.predicate, row), order(body, row).body, span=rule.span)
            parts.append(Rows(*engine.plans.answer(rule_of_choice)))
    if shown == REPRESENTATIVE:
        rows = distinct([classes.normalise(part) for part in parts])
        return smallest(rows, classes, engine.storage.dictionary)
    unseen = [position for position, variable in enumerate(requested) if _is_class(variable, reading)]
    return distinct([classes.expand(part, unseen) for part in parts])


def _is_class(variable: Variable, reading: StoredBody) -> bool:
    """Whether a variable represents a whole class, and not the member that a test has seen."""
    return variable in reading.matched and variable not in reading.seen


def smallest(rows: Rows, classes: Classes, dictionary: Dictionary) -> Rows:
    """Return rows over representatives with the smallest member of each class in its place."""
    decode = dictionary.decode

    def shown(column: Ids) -> Ids:
        return classes.smallest(column, lambda identity: order_key(decode(identity)))

    return Rows(tuple(map(shown, rows.columns)), rows.count)


# ---- net changes among members

CHANGED = "= changed"

# Facts in parts, over representatives, as they are listed with these members of classes.
ListRows = Callable[[Iterable[Rows | None], Grouping], Rows | None]


class LazyDelta:
    """The net change among members, computed when it is read, or before the next transaction begins."""

    def __init__(
        self, engine: ColumnarEngine, classes: Classes, net: NetChange, predicates: Mapping[str, Predicate]
    ) -> None:
        self._known: tuple[ColumnarEngine, Classes, NetChange, Mapping[str, Predicate]] | None
        self._known = (engine, classes, net, predicates)
        self._found: NetChange | None = None

    def find(self) -> NetChange:
        """Return the net change among members."""
        if self._found is None:
            if self._known is None:
                message = "a fault interrupted this transaction before its changes were known"
                raise EvaluationError(Diagnostic(DELTA_LOST, message, help="compare the facts themselves"))
            self._found = expanded_change(*self._known)
        return self._found

    def lose(self) -> None:
        """Mark the net change as lost, unless it is computed."""
        self._known = None

    def change(self, net: NetChange) -> NetChange:
        """Return the net change, computed when it is read; `net` is that among representatives."""
        return NetChange(
            LazyRows(net.added, _stored_facts(net.added), lambda: self.find().added),
            LazyRows(net.removed, _stored_facts(net.removed), lambda: self.find().removed),
        )


def _stored_facts(rows: Mapping[str, Rows]) -> int:
    """The number of facts over representatives among rows."""
    if type(rows) is NetRows:
        return sum(count for name, count in rows.counts.items() if name.endswith(MARK))
    return sum(facts.count for name, facts in rows.items() if name.endswith(MARK))


def composed(nets: Sequence[NetChange]) -> NetChange:
    """Return the net change of several, one after the other."""
    if len(nets) == 1:
        return nets[0]
    added: dict[str, Rows] = {}
    removed: dict[str, Rows] = {}
    for net in nets:
        for name in net.added.keys() | net.removed.keys():
            inserted, deleted = net.added.get(name), net.removed.get(name)
            was_added, was_removed = added.pop(name, None), removed.pop(name, None)
            _put(added, name, [_minus(was_added, deleted), _minus(inserted, was_removed)])
            _put(removed, name, [_minus(was_removed, inserted), _minus(deleted, was_added)])
    return NetChange(added, removed)


def since(before: Mapping[str, Rows], net: NetChange) -> NetChange:
    """Return the net change as if the facts that predicates held before had been stored facts."""
    added: dict[str, Rows] = {}
    removed: dict[str, Rows] = {}
    for name, inserted in net.added.items():
        if name.endswith(MARK):
            _put(added, name, [_minus(inserted, before.get(name.removesuffix(MARK)))])
    for name, rows in before.items():
        _put(removed, stored(name), [_minus(rows, net.added.get(stored(name)))])
    return NetChange(added, removed)


def _minus(rows: Rows | None, others: Rows | None) -> Rows | None:
    return rows if rows is None or others is None else without(rows, others)


def _put(side: dict[str, Rows], name: str, parts: Iterable[Rows | None]) -> None:
    rows = concatenated(parts)
    if rows is not None:
        side[name] = rows


def expanded_change(
    engine: ColumnarEngine,
    classes: Classes,
    net: NetChange,
    predicates: Mapping[str, Predicate],
    listed: Callable[[str], ListRows | None] = lambda predicate: None,
) -> NetChange:
    """Return the net change among members, or in the form in which a predicate's facts are listed.

    `classes.former` has the former members of changed classes.
    """
    added: dict[str, Rows] = {}
    removed: dict[str, Rows] = {}
    former = classes.former
    changed = _changed(classes, former)
    current, previous = classes.grouped, partial(_before, classes, former)
    growth = ClassGrowth.of(classes, former, changed)
    for predicate in predicates.values():
        name = stored(predicate.name)
        inserted, deleted = net.added.get(name), net.removed.get(name)
        if predicate.name == BOTTOM:
            new, old = inserted, deleted
        else:
            unchanged = _minus(_mentioning(engine, name, predicate.arity, changed), inserted)
            as_listed = listed(predicate.name)
            if as_listed is not None:
                new = as_listed([inserted, unchanged], current)
                old = as_listed([deleted, unchanged], previous)
            else:
                new = concatenated(
                    [
                        _expanded(inserted, current),
                        *_differing(unchanged, current, growth.gained, growth.kept),
                    ]
                )
                old = concatenated(
                    [_expanded(deleted, previous), *_differing(unchanged, previous, growth.lost, growth.kept)]
                )
        if former and new is not None and old is not None:
            new, old = without(new, old), without(old, new)
        _put(added, predicate.name, [new])
        _put(removed, predicate.name, [old])
    return NetChange(added, removed)


def _changed(classes: Classes, former: Mapping[int, Ids]) -> Ids:
    """The constants that were and still are representatives of classes whose members have changed."""
    representatives = [
        representative
        for representative, members in former.items()
        if classes.of[representative] == representative
        and not np.array_equal(np.sort(members), np.sort(classes.class_of(representative)))
    ]
    return np.array(representatives, np.int32)


def _mentioning(engine: ColumnarEngine, relation: str, arity: int, constants: Ids) -> Rows | None:
    """The facts of a relation that mention one of these constants."""
    if not len(constants) or not arity or not engine.storage.size(relation):
        return None
    terms = tuple(Variable(f"x{position}") for position in range(arity))
    engine.storage.define(CHANGED, 1)
    try:
        engine.storage.add(CHANGED, (constants,), len(constants))
        engine.rounds.begin([CHANGED])
        parts = []
        for term in terms:
            rule = Rule(Atom(LISTED, terms), (Atom(CHANGED, (term,)), Atom(relation, terms)))
            parts.append(Rows(*engine.plans.answer(rule)))
    finally:
        engine.storage.drop(CHANGED)
    return distinct(parts)


def _before(classes: Classes, former: Mapping[int, Ids], representatives: Ids) -> Grouped:
    """The former members of classes."""
    members, sizes = classes.grouped(representatives)
    if former:
        parts = np.split(members, np.cumsum(sizes)[:-1])
        former_members = [
            former.get(each, part) for each, part in zip(representatives.tolist(), parts, strict=True)
        ]
        members = np.concatenate(former_members)
        sizes = np.array([len(part) for part in former_members], np.int32)
    return members, sizes


@dataclass(frozen=True)
class ClassGrowth:
    """Of classes whose members have changed: the members that are new, those that left, and the others."""

    gained: Mapping[int, Ids]
    lost: Mapping[int, Ids]
    kept: Grouping  # of any class

    @staticmethod
    def of(classes: Classes, former: Mapping[int, Ids], changed: Ids) -> ClassGrowth:
        """Return how changed classes differ from their former members."""
        pairs = {each: (former[each], classes.class_of(each)) for each in changed.tolist()}
        kept = {each: np.intersect1d(old, new) for each, (old, new) in pairs.items()}
        return ClassGrowth(
            {each: np.setdiff1d(new, old) for each, (old, new) in pairs.items()},
            {each: np.setdiff1d(old, new) for each, (old, new) in pairs.items()},
            partial(_before, classes, kept),
        )


def _differing(
    rows: Rows | None, grouped: Grouping, members_of: Mapping[int, Ids], kept: Grouping
) -> Iterator[Rows]:
    """Yield the rows expanded by members of the classes, at least one of which is among `members_of`.

    The first such member is in each column in turn, so that exactly these rows are built, each once.
    """
    for position, column in enumerate(() if rows is None else rows.columns):
        assert rows is not None
        representatives, groups = np.unique(column, return_inverse=True)
        parts = [members_of.get(each, NONE) for each in representatives.tolist()]
        sizes = np.array([len(part) for part in parts], np.int32)
        if sizes.any():
            with_member = spread(rows, position, groups, (np.concatenate(parts), sizes))
            with_member = expanded(with_member, kept, range(position))
            yield expanded(with_member, grouped, range(position + 1, len(rows.columns)))


def _expanded(rows: Rows | None, grouped: Grouping) -> Rows | None:
    """The rows with every constant replaced by all members of its class."""
    return None if rows is None else expanded(rows, grouped, range(len(rows.columns)))


def concatenated(parts: Iterable[Rows | None]) -> Rows | None:
    """Concatenate rows; None if there are none."""
    present = [part for part in parts if part is not None and part.count]
    return concatenate(present) if present else None


# ---- facts as listed in tables and snapshots
#
# Equality itself is listed as classes, each member with the smallest one: n rows for a class instead of n²
# equal pairs. They contain the classes, so that the stored facts can be restored from the list.


@dataclass(frozen=True)
class Listing:
    """The lists of the facts of an engine that stores them over representatives."""

    engine: ColumnarEngine
    classes: Classes
    shown: str  # expand or representative
    _known: dict[bytes, int] = field(default_factory=dict, repr=False)  # the smallest of members

    def rows(self, predicate: str) -> Rows:
        """Return all facts of a predicate."""
        stored_rows = Rows(*self.engine.storage.rows(stored(predicate)))
        return self._listed(predicate, [stored_rows], self.classes.grouped) or stored_rows

    def changes(self, net: NetChange, predicates: Mapping[str, Predicate]) -> NetChange:
        """Return the changes of these lists by the last transaction, given its net change `net`."""
        if not isinstance(net.added, LazyRows) or not isinstance(net.removed, LazyRows):
            return net  # no changes
        kept = NetChange(net.added.kept, net.removed.kept)
        return expanded_change(self.engine, self.classes, kept, predicates, self._listed_apart)

    def _listed_apart(self, predicate: str) -> ListRows | None:
        """How the facts of a predicate are listed, None if with every member in every column."""
        is_apart = predicate == EQUAL or self.shown != EXPAND
        return partial(self._listed, predicate) if is_apart else None

    def _listed(self, predicate: str, parts: Iterable[Rows | None], grouped: Grouping) -> Rows | None:
        """List facts of a predicate, given over representatives of classes with these members."""
        rows = concatenated(parts)
        if rows is None:
            return None
        expanded_columns = self._whole(predicate, len(rows.columns))
        columns = (
            column if position in expanded_columns else self._smallest(column, grouped)
            for position, column in enumerate(rows.columns)
        )
        return expanded(Rows(tuple(columns), rows.count), grouped, expanded_columns)

    def _whole(self, predicate: str, arity: int) -> range:
        """The columns in which every member is listed; in the others only the smallest one."""
        if predicate == EQUAL:
            return range(1)
        return range(arity if self.shown == EXPAND else 0)

    def _smallest(self, representatives: Ids, grouped: Grouping) -> Ids:
        """The smallest member of each representative's class."""
        decode = self.engine.storage.dictionary.decode
        smallest, positions = np.unique(representatives, return_inverse=True)
        members, sizes = grouped(smallest)
        ends = np.cumsum(sizes)
        for position in np.flatnonzero(sizes > 1).tolist():
            class_members = members[ends[position] - sizes[position] : ends[position]]
            key = class_members.tobytes()
            if key not in self._known:
                self._known[key] = min(class_members.tolist(), key=lambda each: order_key(decode(each)))
            smallest[position] = self._known[key]
        return smallest[positions]


def stored_of(listed: Mapping[str, Rows]) -> tuple[Rows, dict[str, Rows]]:
    """Return the aliases and the stored relations of facts that are listed in either form.

    A class is represented by its smallest member, so that stored facts mention no other member.
    """
    aliases, classes = aliases_of(listed.get(EQUAL)), Classes()
    if aliases.count:
        classes.assign(*aliases.columns)
    return aliases, {stored(name): _own_representatives(rows, classes) for name, rows in listed.items()}


def aliases_of(equal: Rows | None) -> Rows:
    """Return the members that do not represent themselves, with their representatives; `equal` lists `=`."""
    if equal is None:
        return Rows((), 0)
    member, representative = equal.columns
    return select(equal, member != representative)


def _own_representatives(rows: Rows, classes: Classes) -> Rows:
    """The rows of which every constant represents itself."""
    kept = np.ones(rows.count, bool)
    for column in rows.columns:
        kept &= classes.representatives(column) == column
    return select(rows, kept)
