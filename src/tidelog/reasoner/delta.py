"""Deltas: what a transaction changed, as users see it, iterable and ready for Arrow."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from functools import cached_property, partial
from typing import Any

import pyarrow as pa

from tidelog.data.dictionary import Dictionary
from tidelog.data.relation import Relation, column_names
from tidelog.data.rows import Rows
from tidelog.errors import Diagnostic, ProgramError, suggest
from tidelog.errors.codes import UNKNOWN_RELATION
from tidelog.logic.program import Predicate
from tidelog.logic.type_inference import Schema
from tidelog.maintenance.maintainer import NetChange
from tidelog.temporal.timed_changes import TimedRows, timed_relation

ADDED, REMOVED = "+", "-"
MINUS = "−"  # the sign in texts for people


class PredicateDelta:
    """What a transaction changed in one predicate: the rows `added` and the rows `removed`."""

    def __init__(self, predicate: str, added: Relation, removed: Relation) -> None:
        self.predicate = predicate
        self.added = added
        self.removed = removed

    def __bool__(self) -> bool:
        return bool(self.added) or bool(self.removed)

    def __iter__(self) -> Iterator[tuple[str, tuple[Any, ...]]]:
        """The changes as (sign, row): first what was removed."""
        for row in self.removed:
            yield REMOVED, row
        for row in self.added:
            yield ADDED, row

    def to_arrow(self) -> pa.Table:
        """The rows as an Arrow table with a first column that holds the sign."""
        name = "change"
        while name in self.added.columns:
            name += "_"
        parts = [
            table.add_column(0, name, pa.repeat(pa.scalar(sign), table.num_rows))
            for sign, table in ((REMOVED, self.removed.to_arrow()), (ADDED, self.added.to_arrow()))
            if table.num_rows
        ]
        if len(parts) == 2 and parts[0].schema != parts[1].schema:
            # A column is typed by its values: where the two disagree, both are texts.
            return self._of_texts(name)
        return pa.concat_tables(parts) if parts else self._of_texts(name)

    def _of_texts(self, name: str) -> pa.Table:
        both = (REMOVED, self.removed.to_texts().table), (ADDED, self.added.to_texts().table)
        return pa.concat_tables(
            table.add_column(0, name, pa.repeat(pa.scalar(sign), table.num_rows)) for sign, table in both
        )

    def __str__(self) -> str:
        return counts(len(self.added), len(self.removed))

    def __repr__(self) -> str:
        return f"<{self.predicate}: {self}>"


class Delta:
    """What a transaction changed, derived facts included: exactly the difference of before and after.

    >>> import tidelog as tl
    >>> reasoner = tl.Reasoner(tl.parse("likes(?x, ?y) :- knows(?x, ?y) . knows(ann, bob) ."))
    >>> delta = reasoner.apply("+ knows(bob, cem) . - knows(ann, bob) .")
    >>> print(delta)
    +2 −2
    >>> sorted(delta)[:2]
    [('+', 'knows', ('bob', 'cem')), ('+', 'likes', ('bob', 'cem'))]
    >>> delta["likes"].removed
    likes: 1 row
      x    y
      ann  bob
    """

    def __init__(
        self,
        change: NetChange,
        predicates: Mapping[str, Predicate],
        dictionary: Dictionary,
        number: int = 0,
        seconds: float = 0.0,
        notices: tuple[Diagnostic, ...] = (),
        watched: Mapping[str, Predicate] | None = None,
        schema: Callable[[Predicate], Schema] | None = None,
    ) -> None:
        self.number = number  # of the transaction, counted from 1
        self.seconds = seconds  # that it took
        self.notices = notices  # facts to delete that did not exist, if no error; rows without a value
        self._watched = watched or {}  # live queries, by the relations of their answers
        self._schema = schema
        self._net = change
        self._known = predicates
        self._dictionary = dictionary

    @cached_property
    def _change(self) -> NetChange:
        with self._dictionary.lock:  # under equality, rows are computed on first use
            return _of(self._net, self._known)

    @cached_property
    def _answers(self) -> NetChange:
        with self._dictionary.lock:
            return _of(self._net, self._watched) if self._watched else NetChange()

    @property
    def net(self) -> NetChange:
        """The change as ids, relation by relation; under equality it may be computed later."""
        return self._net

    @property
    def added(self) -> int:
        """How many facts were inserted."""
        return sum(rows.count for rows in self._change.added.values())

    @property
    def removed(self) -> int:
        """How many facts were deleted."""
        return sum(rows.count for rows in self._change.removed.values())

    @property
    def predicates(self) -> tuple[str, ...]:
        """The predicates that changed, as the program writes them, in the order of the program."""
        changed = self._change.added.keys() | self._change.removed.keys()
        return tuple(known.written for name, known in self._known.items() if name in changed)

    def __bool__(self) -> bool:
        return bool(self._change.added or self._change.removed)

    @property
    def is_noticed(self) -> bool:
        """Whether facts or the answers of live queries have changed."""
        return bool(self) or bool(self._answers.added or self._answers.removed)

    def __len__(self) -> int:
        return self.added + self.removed

    def __getitem__(self, name: str) -> PredicateDelta:
        """What changed in one predicate, perhaps nothing."""
        if name in self._watched:
            return self._delta(self._watched[name], self._answers)
        return self._delta(find_predicate(name, self._known), self._change)

    def _delta(self, predicate: Predicate, change: NetChange) -> PredicateDelta:
        return PredicateDelta(
            predicate.written,
            self._relation(predicate, change.added),
            self._relation(predicate, change.removed),
        )

    def _relation(self, predicate: Predicate, change: Mapping[str, Rows]) -> Relation:
        rows = change.get(predicate.name)
        names = column_names(predicate)
        schema = None if self._schema is None else partial(self._schema, predicate)
        if rows is None:
            return Relation.empty(predicate.written, names, self._dictionary, schema)
        if isinstance(rows, TimedRows):
            return timed_relation(predicate.written, names, rows, self._dictionary, schema)
        return Relation(predicate.written, names, rows.columns, rows.count, self._dictionary, schema)

    def __iter__(self) -> Iterator[tuple[str, str, tuple[Any, ...]]]:
        """The changes as (sign, predicate, row), predicate by predicate; `stream` accepts them."""
        for name in self.predicates:
            for sign, row in self[name]:
                yield sign, name, row

    def to_arrow(self) -> pa.Table:
        """All changes as one Arrow table: sign, predicate, and the row as exact terms.

        `delta[predicate].to_arrow()` has typed columns.
        """
        signs: list[str] = []
        names: list[str] = []
        terms: list[tuple[str, ...]] = []
        for name in self.predicates:
            one = self[name]
            for sign, relation in ((REMOVED, one.removed), (ADDED, one.added)):
                rows = relation.to_texts("exact").rows() if relation.columns else [()] * len(relation)
                signs += [sign] * len(rows)
                names += [name] * len(rows)
                terms += rows
        columns = {"change": pa.array(signs, pa.string()), "predicate": pa.array(names, pa.string())}
        return pa.table(columns | {"row": pa.array(terms, pa.list_(pa.string()))})

    def __str__(self) -> str:
        return counts(self.added, self.removed)

    def __repr__(self) -> str:
        changed = ", ".join(f"{name} {self[name]}" for name in self.predicates)
        return f"<Delta {self.number}: {changed or 'no change'}>"


def _of(change: NetChange, predicates: Mapping[str, Predicate]) -> NetChange:
    """What changed in these predicates."""
    if all(name in predicates for side in (change.added, change.removed) for name in side):
        return change
    return NetChange(
        {name: rows for name, rows in change.added.items() if name in predicates},
        {name: rows for name, rows in change.removed.items() if name in predicates},
    )


def counts(added: int, removed: int) -> str:
    """Return how many facts were inserted and deleted, as text.

    >>> counts(12, 3), counts(0, 3), counts(0, 0)
    ('+12 −3', '+0 −3', 'no change')
    """
    return f"+{added:,} {MINUS}{removed:,}" if added or removed else "no change"


def find_predicate(name: str, predicates: Mapping[str, Predicate]) -> Predicate:
    """Return the predicate of this name, in full or as the program writes it; raise ProgramError if there is
    none.
    """
    predicate = predicates.get(name)
    if predicate is None:
        predicate = next((known for known in predicates.values() if known.written == name), None)
    if predicate is None:
        help = suggest(name, [known.written for known in predicates.values()])
        raise ProgramError(Diagnostic(UNKNOWN_RELATION, f"unknown predicate `{name}`", help=help))
    return predicate
