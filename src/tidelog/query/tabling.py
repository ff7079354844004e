"""Answers by subsumptive tabling: what is asked from the top down is tabled, and kept for what is asked next.

Kasesalu: Revisiting Query Magic, Tartu 2025, sections 2.6.4 and 3.1.2. Tekle, Liu: More Efficient Datalog
Queries: Subsumptive Tabling Beats Magic Sets, SIGMOD 2011. `query.subgoals` makes the rules of tables,
`query.rounds` runs them, `query.tables` completes and keeps them.

Invariant: the relations of the program are not touched.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import cast

from tidelog.errors import counted
from tidelog.logic.program import BOTTOM, Atom, Query, Rule
from tidelog.query.strategy import Answers, Place, inconsistency, together
from tidelog.query.tabled_engine import TabledEngine
from tidelog.query.tables import Tables

INCONSISTENT = Rule(Atom("?", ()), (Atom(BOTTOM, ()),))


class Tabling:
    """Answers from tables, which it fills as far as they are asked for."""

    name = "tabling"

    def __init__(self) -> None:
        self.kept: Tables | None = None
        self._consistent = -1  # the version of the tables that were seen to be

    def tables(self, place: Place) -> Tables:
        """The tables of a place, as its program is now."""
        rules = place.program.rules
        known = self.kept
        if known is None:
            known = self.kept = Tables(cast("TabledEngine", place.engine), rules)
        known.redefine(rules)
        known.memory = place.table_memory
        known.check, known.listen = place.check, place.listen
        return known

    def answer(self, query: Query, place: Place) -> Answers:
        """The rows of the query's head."""
        return together(list(self.stream(query, place)), len(query.rule.head.terms))

    def stream(self, query: Query, place: Place) -> Generator[Answers]:
        """The same, those of each round as soon as they are found."""
        tables = self.tables(place)
        if place.is_constrained:
            self._check(tables, place)
        yield from tables.answers(query.rule)

    def _check(self, tables: Tables, place: Place) -> None:
        """Nothing, if the program is consistent as facts and rules are now; else raises Inconsistent."""
        tables.catch_up()
        if self._consistent != tables.version:
            if any(rows for _, rows in tables.answers(INCONSISTENT)):
                raise inconsistency(place.program)
            self._consistent = tables.version

    @property
    def is_following(self) -> bool:
        """Whether there are tables, which follow the facts as they come and go."""
        return self.kept is not None

    def settle(self) -> None:
        """Let a stream that is not at its end find all answers: facts or rules are about to change."""
        if self.kept is not None:
            self.kept.settle()

    def explain(self, query: Query, place: Place) -> str:
        """What would be asked in which pattern, and what tables there are."""
        tables = self.tables(place)
        written = place.program.predicates
        asked = [
            f"{written[each.predicate].written} {each.adornment or '()'}"
            for each in tables.patterns(query.rule)
            if each.predicate in written
        ]
        shown = ", ".join(asked[:MOST_PATTERNS]) + (", …" if len(asked) > MOST_PATTERNS else "")
        tally = tables.tally
        kept = (
            f"{counted(tally.answers, 'answer')} to {counted(tally.asked, 'subgoal')}"
            if tally.tables
            else "nothing"
        )
        return f"asks for {shown or 'stated facts only'}; {kept} in tables so far"


MOST_PATTERNS = 6  # named in an explanation
