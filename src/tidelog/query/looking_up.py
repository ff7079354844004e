"""Queries that stay, where facts are kept over representatives of equal constants. Mutates itself.

Their answers are looked up, as those of any query there. A live query keeps the answers that it had; after a
transaction that may have changed them they are looked up anew, and the difference is what changed: that costs
as much as asking again. A prepared query is looked up with its values in the place of parameters.

Invariant: between transactions the answers of live queries are those that asking gives.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import replace
from typing import Any

from tidelog.logic.program import Atom, Constant, Query, Variable
from tidelog.logic.values import ColumnType
from tidelog.maintenance.row_sets import Rows, without
from tidelog.query.keeping import Row, no_longer_kept
from tidelog.query.kept_queries import Asked
from tidelog.query.strategy import Answers
from tidelog.rewrite.renaming import renamed_body

Find = Callable[[Query, bool], Answers]


class LookingUp:
    """All queries that stay; `find` looks answers up, as they are usually shown or with all members.

    `recover` mends what a fault may have left, answers included.
    """

    def __init__(self, engine: Any, find: Find, recover: Callable[[], object]) -> None:
        self.engine = engine
        self._find = find
        self._recover = recover
        self._asked: dict[str, Asked] = {}
        self._known: dict[str, Rows] = {}  # the answers of live queries

    @property
    def watched(self) -> Mapping[str, Asked]:
        """The live queries, by the names of their answers."""
        return {name: self._asked[name] for name in self._known}

    def keep(self, query: Query, parameters: tuple[Variable, ...] = ()) -> Asked:
        """Let a query stay."""
        number = 1
        while (name := f"?- looked up {number}") in self._asked:
            number += 1
        asked = Asked(name, query, parameters)
        if not parameters:
            self._known[name] = Rows(*self._find(query, True))
        self._asked[name] = asked
        return asked

    def forget(self, asked: Asked) -> None:
        """Let a query go; nothing the second time."""
        if self._asked.get(asked.name) is asked:
            del self._asked[asked.name]
            self._known.pop(asked.name, None)

    def check(self, asked: Asked) -> None:
        """Nothing, if the query is still there; else raises ProgramError."""
        if self._asked.get(asked.name) is not asked:
            raise no_longer_kept()

    def rows(self, asked: Asked) -> Answers:
        """The answers of a live query."""
        self._recover()
        known = self._known[asked.name]
        return known.columns, known.count

    def encode(self, values: Sequence[object]) -> Row:
        """The ids of the values of parameters."""
        encode = self.engine.dictionary.encode_python
        return tuple(encode(value, ColumnType.ANY) for value in values)

    def answer(self, asked: Asked, row: Row) -> Answers:
        """The answers for a binding."""
        self.check(asked)
        decode = self.engine.dictionary.decode
        values = {
            name: Constant(decode(identity)) for name, identity in zip(asked.parameters, row, strict=True)
        }
        rule = asked.query.rule
        made = replace(
            rule, head=Atom(rule.head.predicate, asked.variables), body=renamed_body(rule.body, values)
        )
        return self._find(replace(asked.query, rule=made), False)

    def changes(self, changed: frozenset[str]) -> tuple[dict[str, Rows], dict[str, Rows]]:
        """What came and went in the answers of live queries, by name, given the predicates that changed."""
        came: dict[str, Rows] = {}
        went: dict[str, Rows] = {}
        for name, known in self._known.items():
            rule = self._asked[name].query.rule
            if changed.isdisjoint(atom.predicate for atom in (*rule.positive, *rule.negated)):
                continue
            now = Rows(*self._find(self._asked[name].query, True))
            came[name], went[name] = without(now, known), without(known, now)
            self._known[name] = now
        return _present(came), _present(went)

    def look_up_anew(self) -> None:
        """Ask live queries again, and replace their answers."""
        for name in self._known:
            self._known[name] = Rows(*self._find(self._asked[name].query, True))


def _present(rows: Mapping[str, Rows]) -> dict[str, Rows]:
    return {name: some for name, some in rows.items() if some.count}
