"""What must hold after a transaction, by the reference engine."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field

import tidelog as tl
from tidelog.engine import reference
from tidelog.logic.conversions import exact

Row = tuple[str, ...]
Facts = dict[str, frozenset[Row]]


@dataclass
class State:
    """The explicit facts and the rules as they should be. Mutable: transactions change it."""

    arities: Mapping[str, int]
    facts: set[tuple[str, Row]] = field(default_factory=set)
    rules: set[str] = field(default_factory=set)

    @property
    def text(self) -> str:
        """The whole program."""
        declared = (
            f"@declare {name}({', '.join(f'c{column}: any' for column in range(arity))}) ."
            for name, arity in self.arities.items()
        )
        stated = (fact_text(*fact) for fact in sorted(self.facts))
        return "\n".join((*declared, *stated, *sorted(self.rules))) + "\n"

    def expected(self) -> Facts:
        """All facts, derived from nothing by the slow engine."""
        found = reference.evaluate(tl.parse(self.text))
        return {name: frozenset(tuple(map(exact, row)) for row in rows) for name, rows in found.items()}


def fact_text(name: str, row: Row) -> str:
    """A fact as it is written."""
    return f"{name}({', '.join(row)}) ."


def held(reasoner: tl.Reasoner, names: Iterable[str]) -> Facts:
    """All facts that a reasoner has."""
    found = {}
    for name in names:
        relation = reasoner[name]
        nullary = [()] * len(relation)
        found[name] = frozenset(relation.to_texts("exact").rows() if relation.columns else nullary)
    return found


def changed(delta: tl.Delta, names: Iterable[str]) -> tuple[Facts, Facts]:
    """What a delta says was removed and was added."""
    removed: Facts = dict.fromkeys(names, frozenset())
    added = dict(removed)
    table = delta.to_arrow().to_pylist()
    assert len(table) == len(delta) == len(list(delta))
    for record in table:
        where = added if record["change"] == "+" else removed
        where[record["predicate"]] |= {tuple(record["row"])}
    return removed, added


def difference(before: Facts, after: Facts) -> tuple[Facts, Facts]:
    """What went and what came."""
    removed = {name: rows - after[name] for name, rows in before.items()}
    return removed, {name: rows - before[name] for name, rows in after.items()}
