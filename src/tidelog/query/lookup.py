"""Answers from relations that are whole: `lookup` takes what is there, `full` derives everything first."""

from __future__ import annotations

from tidelog.errors import Diagnostic, ProgramError, counted
from tidelog.logic.program import Query
from tidelog.query.strategy import Answers, Place

NOT_DERIVED = "E651"


class Lookup:
    """Matches the query against the facts that are there; derives nothing."""

    name = "lookup"

    def answer(self, query: Query, place: Place) -> Answers:
        """The rows of the query's head; raises ProgramError if something it asks for is not derived yet."""
        missing = place.derived_in(query) if place.look_up is None else list(place.program.predicates)
        if missing and not place.is_materialised:
            written = place.program.predicates[missing[0]].written
            message = f"`{written}` is not derived yet, so it cannot be looked up"
            help = "use another strategy, or derive everything first"
            raise ProgramError(Diagnostic(NOT_DERIVED, message, help=help))
        if not place.is_materialised:
            place.engine.begin({atom.predicate for atom in (*query.rule.positive, *query.rule.negated)})
        return place.answer(query)

    def explain(self, query: Query, place: Place) -> str:
        """What it would do."""
        return "matches the query against the facts that are there"


class Full:
    """Derives everything, once, and looks the answers up."""

    name = "full"

    def answer(self, query: Query, place: Place) -> Answers:
        """The rows of the query's head."""
        place.materialise()
        return place.answer(query)

    def explain(self, query: Query, place: Place) -> str:
        """What it would do."""
        count = len(place.program.rules)
        return f"derives everything by {counted(count, 'rule')}, and looks the answers up"
