"""The facts that a query asks for, by magic sets, in the relations of the program itself.

Proofs are found from a fact back through all instances of rules that derive it. So a relation has to hold
every fact of every such instance, and what is negated or aggregated has to be complete for them. Magic sets
ask for exactly that if they keep the rules as they are: each literal of a body is asked for with the bindings
that the head and the literals before it give, and so for every instance of a fact that is asked for.
"""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import Any

import numpy as np

from tidelog.logic.program import Atom, Query
from tidelog.logic.strata import strata
from tidelog.plan.join_order import expected_growth
from tidelog.query.magic import ANSWERS, ONCE, batch, relations
from tidelog.query.strategy import Answers, Place
from tidelog.rewrite.adornment import Kind
from tidelog.rewrite.magic_sets import Options, Rewritten, rewrite


@contextmanager
def demanded(query: Query, place: Place) -> Iterator[None]:
    """In the block, the derived relations hold what the query asks for; afterwards their explicit facts only.

    Nothing else is derived yet.
    """
    engine: Any = place.engine
    options = Options(place.stated, expected_growth(engine), refined=False)
    asked = replace(query.rule, head=Atom(ANSWERS, query.rule.head.terms))
    made = rewrite(place.program.rules, [asked], options).apart(ONCE)
    with relations(made, engine):
        for seed in made.seeds:
            engine.load(seed.predicate, batch([seed]))
        numbers = {id(rule): number for number, rule in enumerate(made.rules)}
        engine.derive(strata(made.rules), numbers, place.listen, place.check, place.modules)
        found = _derived(made, engine)
    try:
        engine.restore(found)
        yield
    finally:
        engine.forget_derived(found.keys())


def _derived(made: Rewritten, engine: Any) -> dict[str, Answers]:
    """Return the facts of each predicate that were derived in some pattern, without explicit ones."""
    parts: dict[str, list[Answers]] = {}
    for name, relation in made.relations.items():
        if relation.kind is Kind.ADORNED:
            parts.setdefault(relation.predicate, []).append(engine.rows(name))
    return {name: _new(name, several, engine) for name, several in parts.items()}


def _new(relation: str, parts: list[Answers], engine: Any) -> Answers:
    """Return the rows that no relation has, each once."""
    arity, count = engine.table(relation).arity, sum(rows for _, rows in parts)
    if not arity:
        is_new = any(rows for _, rows in parts) and not engine.size(relation)
        return (), int(is_new)
    columns = [np.concatenate([each[place] for each, _ in parts]) for place in range(arity)]
    is_new = engine.standing(relation, columns, count) == 0
    unique = np.unique(np.column_stack([column[is_new] for column in columns]), axis=0)
    return tuple(np.ascontiguousarray(unique[:, place]) for place in range(arity)), len(unique)
