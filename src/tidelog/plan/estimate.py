"""Statistics for plans made without running anything: from the facts that a program states."""

from __future__ import annotations

from collections import Counter
from typing import Final

from tidelog.logic.program import Program
from tidelog.logic.values import Value

ASSUMED: Final = 1000  # facts of a relation that is derived, imported or given
REPEATED: Final = 10  # facts that such a relation has for each value of a column


class StatedFacts:
    """Counts what the program states; other relations are taken to have `ASSUMED` facts."""

    def __init__(self, program: Program) -> None:
        unknown = program.derived | {transfer.predicate for transfer in program.imports}
        self._columns: dict[str, list[Counter[Value]]] = {}
        self._sizes: Counter[str] = Counter()
        for fact in program.facts:
            if fact.predicate not in unknown:
                self._sizes[fact.predicate] += 1
                columns = self._columns.setdefault(fact.predicate, [Counter() for _ in fact.values])
                for column, value in zip(columns, fact.values, strict=True):
                    column[value] += 1

    def is_known(self, relation: str) -> bool:
        """Whether the relation's size is counted, not assumed."""
        return relation in self._sizes

    def size(self, relation: str) -> int:
        """How many facts a relation has."""
        return self._sizes.get(relation, ASSUMED)

    def distinct(self, relation: str, column: int) -> float:
        """How many distinct values a column has."""
        known = self._columns.get(relation)
        return ASSUMED / REPEATED if known is None else max(1.0, len(known[column]))

    def matching(self, relation: str, column: int, value: Value) -> int:
        """How many facts have this value in a column."""
        known = self._columns.get(relation)
        return REPEATED if known is None else known[column][value]
