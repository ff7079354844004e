"""Facts, queries and changes over representatives as members see them: every member of each class, or one
row for each.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from functools import partial
from typing import Any

import numpy as np

from tidelog.data.rows import Ids, LazyRows, NetRows, Rows, concatenate, distinct, select, without
from tidelog.equality.classes import NONE, Classes, Grouped, Grouping, expanded, spread
from tidelog.errors import Diagnostic, EvaluationError
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
from tidelog.rewrite.representatives import MARK, Constants, Reading, stored, subsets

# ---- Answers over representatives: facts and queries as members see them, or one row for each class.

EXPAND, REPRESENTATIVE = "expand", "representative"
SHOWN = (EXPAND, REPRESENTATIVE)


def facts(engine: Any, classes: Classes, predicate: str, shown: str) -> Rows:
    """All facts of a predicate."""
    rows = Rows(*engine.rows(stored(predicate)))
    if predicate == BOTTOM:
        return rows
    return classes.expand(rows) if shown == EXPAND else smallest(engine, classes, rows)


def answers(engine: Any, classes: Classes, query: Query, constants: Constants, shown: str) -> Rows:
    """The rows of a query's head; the constants of its atoms are given by their representatives."""
    rule = query.rule
    asked = tuple(term for term in rule.head.terms if isinstance(term, Variable))
    tests = [literal for literal in rule.body if not isinstance(literal, Atom | Negation)]
    tested = {variable for literal in tests for variable in literal_variables(literal)}
    reading = Reading(rule.body, constants, [variable for variable in asked if variable in tested])
    parts = []
    for others in subsets(reading.seen):
        row = tuple(reading.member(variable, others) for variable in asked)
        for body in reading.bodies(others):
            made = Rule(Atom(rule.head.predicate, row), order(body, row).body, span=rule.span)
            parts.append(Rows(*engine.answer(made)))
    if shown == REPRESENTATIVE:
        return smallest(engine, classes, distinct([classes.normalise(part) for part in parts]))
    unseen = [place for place, variable in enumerate(asked) if _is_class(variable, reading)]
    return distinct([classes.expand(part, unseen) for part in parts])


def _is_class(variable: Variable, reading: Reading) -> bool:
    """Whether a variable stands for a whole class, not for the member that some test has seen."""
    return variable in reading.matched and variable not in reading.seen


def smallest(engine: Any, classes: Classes, rows: Rows) -> Rows:
    """The rows over representatives with the smallest member of each class for it."""
    decode = engine.dictionary.decode

    def shown(column: Ids) -> Ids:
        return classes.smallest(column, lambda identity: order_key(decode(identity)))

    return Rows(tuple(map(shown, rows.columns)), rows.count)


# ---- What a transaction changed among members, from what it changed among representatives.

CHANGED = "= changed"
ANSWER = "?- changed"
LOST = "E648"

# Facts in parts, over representatives, as they are listed with these members of classes.
Listed = Callable[[Iterable[Rows | None], Grouping], Rows | None]


class Late:
    """What a transaction changed among members, found when somebody asks, or before the next one begins."""

    def __init__(
        self, engine: Any, classes: Classes, net: NetChange, predicates: Mapping[str, Predicate]
    ) -> None:
        self._known: tuple[Any, Classes, NetChange, Mapping[str, Predicate]] | None
        self._known = (engine, classes, net, predicates)
        self._found: NetChange | None = None

    def find(self) -> NetChange:
        """The net change among members."""
        if self._found is None:
            if self._known is None:
                message = "a fault came before it was found what this transaction has changed"
                raise EvaluationError(Diagnostic(LOST, message, help="compare the facts themselves"))
            self._found = expanded_change(*self._known)
        return self._found

    def lose(self) -> None:
        """What is not found yet cannot be found any more."""
        self._known = None

    def change(self, net: NetChange) -> NetChange:
        """The net change, to be found late; `net` is what was changed among representatives."""
        return NetChange(
            LazyRows(net.added, _stored_facts(net.added), lambda: self.find().added),
            LazyRows(net.removed, _stored_facts(net.removed), lambda: self.find().removed),
        )


def _stored_facts(rows: Mapping[str, Rows]) -> int:
    """How many facts over representatives there are among rows."""
    if type(rows) is NetRows:
        return sum(count for name, count in rows.counts.items() if name.endswith(MARK))
    return sum(some.count for name, some in rows.items() if name.endswith(MARK))


def composed(nets: Sequence[NetChange]) -> NetChange:
    """The net change of several, one after the other."""
    if len(nets) == 1:
        return nets[0]
    added: dict[str, Rows] = {}
    removed: dict[str, Rows] = {}
    for net in nets:
        for name in net.added.keys() | net.removed.keys():
            came, went = net.added.get(name), net.removed.get(name)
            was_added, was_removed = added.pop(name, None), removed.pop(name, None)
            _put(added, name, [_minus(was_added, went), _minus(came, was_removed)])
            _put(removed, name, [_minus(was_removed, came), _minus(went, was_added)])
    return NetChange(added, removed)


def since(held: Mapping[str, Rows], net: NetChange) -> NetChange:
    """The net change that stored all facts, as if those that predicates held before had been stored then."""
    added: dict[str, Rows] = {}
    removed: dict[str, Rows] = {}
    for name, came in net.added.items():
        if name.endswith(MARK):
            _put(added, name, [_minus(came, held.get(name.removesuffix(MARK)))])
    for name, rows in held.items():
        _put(removed, stored(name), [_minus(rows, net.added.get(stored(name)))])
    return NetChange(added, removed)


def _minus(rows: Rows | None, others: Rows | None) -> Rows | None:
    return rows if rows is None or others is None else without(rows, others)


def _put(side: dict[str, Rows], name: str, parts: Iterable[Rows | None]) -> None:
    present = [part for part in parts if part is not None and part.count]
    if present:
        side[name] = concatenate(present)


def expanded_change(
    engine: Any,
    classes: Classes,
    net: NetChange,
    predicates: Mapping[str, Predicate],
    listed: Callable[[str], Listed | None] = lambda predicate: None,
) -> NetChange:
    """The net change among members, or as facts of a predicate are listed.

    `classes.former` tells which classes were others before.
    """
    added: dict[str, Rows] = {}
    removed: dict[str, Rows] = {}
    former = classes.former
    changed = _changed(classes, former)
    now, before = classes.grouped, partial(_before, classes, former)
    growth = Growth.of(classes, former, changed)
    for predicate in predicates.values():
        name = stored(predicate.name)
        came, went = net.added.get(name), net.removed.get(name)
        if predicate.name == BOTTOM:
            new, old = came, went
        else:
            staying = _minus(_mentioning(engine, name, predicate.arity, changed), came)
            as_listed = listed(predicate.name)
            if as_listed is not None:
                new, old = as_listed([came, staying], now), as_listed([went, staying], before)
            else:
                new = together([_expanded(came, now), *_differing(staying, now, growth.gained, growth.kept)])
                old = together(
                    [_expanded(went, before), *_differing(staying, before, growth.lost, growth.kept)]
                )
        if former and new is not None and old is not None:
            new, old = without(new, old), without(old, new)
        _put(added, predicate.name, [new])
        _put(removed, predicate.name, [old])
    return NetChange(added, removed)


def _changed(classes: Classes, former: Mapping[int, Ids]) -> Ids:
    """The representatives that were representatives before, of classes that have other members now."""
    found = [
        each
        for each, members in former.items()
        if classes.of[each] == each and not np.array_equal(np.sort(members), np.sort(classes.class_of(each)))
    ]
    return np.array(found, np.int32)


def _mentioning(engine: Any, relation: str, arity: int, constants: Ids) -> Rows | None:
    """The facts of a relation that mention one of the constants."""
    if not len(constants) or not arity or not engine.size(relation):
        return None
    terms = tuple(Variable(f"x{place}") for place in range(arity))
    engine.define(CHANGED, 1)
    try:
        engine.add(CHANGED, (constants,), len(constants))
        engine.begin([CHANGED])
        parts = []
        for term in terms:
            rule = Rule(Atom(ANSWER, terms), (Atom(CHANGED, (term,)), Atom(relation, terms)))
            parts.append(Rows(*engine.answer(rule)))
    finally:
        engine.drop(CHANGED)
    return distinct(parts)


def _before(classes: Classes, former: Mapping[int, Ids], representatives: Ids) -> Grouped:
    """The members that classes had before."""
    members, sizes = classes.grouped(representatives)
    if former:
        parts = np.split(members, np.cumsum(sizes)[:-1])
        known = [former.get(each, part) for each, part in zip(representatives.tolist(), parts, strict=True)]
        members, sizes = np.concatenate(known), np.array([len(part) for part in known], np.int32)
    return members, sizes


@dataclass(frozen=True)
class Growth:
    """Of classes that have other members than before: the new ones, those that left, and the others."""

    gained: Mapping[int, Ids]
    lost: Mapping[int, Ids]
    kept: Grouping  # of any class

    @staticmethod
    def of(classes: Classes, former: Mapping[int, Ids], changed: Ids) -> Growth:
        """What has become of classes that are represented as before."""
        pairs = {each: (former[each], classes.class_of(each)) for each in changed.tolist()}
        kept = {each: np.intersect1d(then, now) for each, (then, now) in pairs.items()}
        return Growth(
            {each: np.setdiff1d(now, then) for each, (then, now) in pairs.items()},
            {each: np.setdiff1d(then, now) for each, (then, now) in pairs.items()},
            partial(_before, classes, kept),
        )


def _differing(
    rows: Rows | None, grouped: Grouping, some: Mapping[int, Ids], kept: Grouping
) -> Iterator[Rows]:
    """The rows with every constant replaced by members of its class, at least one of which is among some.

    The first such is in each column in turn, so that each row comes once, and no other is made.
    """
    for place, column in enumerate(() if rows is None else rows.columns):
        assert rows is not None
        found, groups = np.unique(column, return_inverse=True)
        parts = [some.get(each, NONE) for each in found.tolist()]
        sizes = np.array([len(part) for part in parts], np.int32)
        if sizes.any():
            made = spread(rows, place, groups, (np.concatenate(parts), sizes))
            made = expanded(made, kept, range(place))
            yield expanded(made, grouped, range(place + 1, len(rows.columns)))


def _expanded(rows: Rows | None, grouped: Grouping) -> Rows | None:
    """The rows with every constant replaced by all members of its class."""
    return None if rows is None else expanded(rows, grouped, range(len(rows.columns)))


def together(parts: Iterable[Rows | None]) -> Rows | None:
    """All rows, None if there are none."""
    present = [part for part in parts if part is not None and part.count]
    return concatenate(present) if present else None


# ---- Facts over representatives as they are listed for others: with every member of each class, or with the
# smallest one only; and what a transaction changed in such a list.
#
# Equality itself is listed as classes, each member with the smallest one: n rows for a class instead of the
# n² pairs that are equal. Whoever has these has the classes, and with them all that is stored.


@dataclass(frozen=True)
class Listing:
    """The facts of an engine that keeps them over representatives."""

    engine: Any
    classes: Classes
    shown: str  # expand or representative
    _known: dict[bytes, int] = field(default_factory=dict, repr=False)  # the smallest of members

    def rows(self, predicate: str) -> Rows:
        """All facts of a predicate."""
        found = Rows(*self.engine.rows(stored(predicate)))
        return self._listed(predicate, [found], self.classes.grouped) or found

    def changes(self, net: NetChange, predicates: Mapping[str, Predicate]) -> NetChange:
        """What the last transaction changed in these lists; `net` is its net change, to be found late."""
        if not isinstance(net.added, LazyRows) or not isinstance(net.removed, LazyRows):
            return net  # it changed nothing
        kept = NetChange(net.added.kept, net.removed.kept)
        return expanded_change(self.engine, self.classes, kept, predicates, self._listed_apart)

    def _listed_apart(self, predicate: str) -> Listed | None:
        """How a predicate's facts are listed, if not with every member in every column."""
        is_apart = predicate == EQUAL or self.shown != EXPAND
        return partial(self._listed, predicate) if is_apart else None

    def _listed(self, predicate: str, parts: Iterable[Rows | None], grouped: Grouping) -> Rows | None:
        """Facts of a predicate, given over representatives of classes with these members."""
        rows = together(parts)
        if rows is None:
            return None
        whole = self._whole(predicate, len(rows.columns))
        columns = (
            column if place in whole else self._smallest(column, grouped)
            for place, column in enumerate(rows.columns)
        )
        return expanded(Rows(tuple(columns), rows.count), grouped, whole)

    def _whole(self, predicate: str, arity: int) -> range:
        """The columns that name every member; the others name the smallest one."""
        if predicate == EQUAL:
            return range(1)
        return range(arity if self.shown == EXPAND else 0)

    def _smallest(self, representatives: Ids, grouped: Grouping) -> Ids:
        """The smallest member of each representative's class."""
        decode = self.engine.dictionary.decode
        found, places = np.unique(representatives, return_inverse=True)
        members, sizes = grouped(found)
        ends = np.cumsum(sizes)
        for place in np.flatnonzero(sizes > 1).tolist():
            some = members[ends[place] - sizes[place] : ends[place]]
            key = some.tobytes()
            if key not in self._known:
                self._known[key] = min(some.tolist(), key=lambda one: order_key(decode(one)))
            found[place] = self._known[key]
        return found[places]


def stored_of(listed: Mapping[str, Rows]) -> tuple[Rows, dict[str, Rows]]:
    """The aliases, and the stored relations, of facts that are listed in either way.

    A class is represented by its smallest member, so that stored facts are those of such constants only.
    """
    aliases, classes = aliases_of(listed.get(EQUAL)), Classes()
    if aliases.count:
        classes.assign(*aliases.columns)
    return aliases, {stored(name): _standing(rows, classes) for name, rows in listed.items()}


def aliases_of(equal: Rows | None) -> Rows:
    """The members that do not stand for themselves, with their representatives, as `=` is listed."""
    if equal is None:
        return Rows((), 0)
    member, representative = equal.columns
    return select(equal, member != representative)


def _standing(rows: Rows, classes: Classes) -> Rows:
    """The rows of which every constant stands for itself."""
    kept = np.ones(rows.count, bool)
    for column in rows.columns:
        kept &= classes.representatives(column) == column
    return select(rows, kept)
