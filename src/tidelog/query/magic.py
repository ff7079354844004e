"""Answers by magic sets: the query rewrites the program, and only what it asks for is derived.

What was derived is forgotten with the answers; `query.kept_queries` keeps it for queries that stay.

Invariant: the relations of the program are not touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace

from tidelog.data.columns import Batch, column_of_values
from tidelog.errors import counted
from tidelog.logic.program import BOTTOM, Atom, Fact, Query, Rule
from tidelog.logic.strata import strata
from tidelog.plan.join_order import expected_growth
from tidelog.query.strategy import Answers, Place, QueryEngine, inconsistency
from tidelog.rewrite.magic_sets import Options, Rewritten, rewrite
from tidelog.rewrite.renaming import Kind

ANSWERS = "?- magic"  # names with a space are no predicates'
ONCE = "once"  # what tells the relations of a query that is asked once from those of queries that are kept
DERIVED = "derived"  # where the rewritten program is noted
INCONSISTENT = "?- bottom"


class Magic:
    """Derives what the query asks for, by a program of its own."""

    name = "magic"

    def answer(self, query: Query, place: Place) -> Answers:
        """The rows of the query's head."""
        made = rewritten(query, place)
        engine = place.engine
        with relations(made, engine):
            for seed in made.seeds:
                engine.load(seed.predicate, batch([seed]))
            place.notes[DERIVED] = made
            numbers = {id(rule): number for number, rule in enumerate(made.rules)}
            engine.derive(strata(made.rules), numbers, place.listen, place.check, place.modules)
            if place.is_constrained and engine.size(INCONSISTENT):
                raise inconsistency(place.program)
            return engine.rows(ANSWERS)

    def explain(self, query: Query, place: Place) -> str:
        """What is asked for in which pattern, and what has to be derived in full."""
        return described(rewritten(query, place), place)


def rewritten(query: Query, place: Place) -> Rewritten:
    """The program that answers the query, and finds out whether the program is inconsistent."""
    known = place.notes.get(query.rule)
    if known is None:
        known = place.notes[query.rule] = _rewrite(query, place)
    assert isinstance(known, Rewritten)
    return known


def _rewrite(query: Query, place: Place) -> Rewritten:
    asked = [replace(query.rule, head=Atom(ANSWERS, query.rule.head.terms))]
    if place.is_constrained:
        asked.append(Rule(Atom(INCONSISTENT, ()), (Atom(BOTTOM, ()),)))
    options = Options(place.stated, expected_growth(place.engine.storage))
    return rewrite(place.program.rules, asked, options).apart(ONCE)


def described(made: Rewritten, place: Place) -> str:
    """A rewritten program in a few words."""
    known = place.program.predicates
    patterns = [
        f"{known[each.predicate].written} {each.adornment or '()'}"
        for each in made.relations.values()
        if each.kind is Kind.ADORNED and each.predicate in known
    ]
    shown = ", ".join(patterns[:MOST_PATTERNS]) + (", …" if len(patterns) > MOST_PATTERNS else "")
    whole = [known[name].written for name in made.in_full if name in known]
    full = f"; in full, for the sake of negation or aggregates: {', '.join(whole)}" if whole else ""
    return f"derives {shown or 'the answers alone'} by {counted(len(made.rules), 'rule')}{full}"


MOST_PATTERNS = 6  # named in an explanation


@contextmanager
def relations(made: Rewritten, engine: QueryEngine) -> Iterator[None]:
    """The relations of a rewritten program are there in the block, and gone afterwards."""
    arities = arities_of(made)
    for name, arity in arities.items():
        engine.define(name, arity)
    try:
        yield
    finally:
        for name in arities:
            engine.drop(name)


def arities_of(made: Rewritten) -> dict[str, int]:
    """The relations that a rewritten program derives or begins with, and how many columns each has."""
    atoms = (atom for rule in made.rules for atom in (rule.head, *rule.positive, *rule.negated))
    added = {rule.head.predicate for rule in made.rules} | made.relations.keys()
    arities = {atom.predicate: len(atom.terms) for atom in atoms if atom.predicate in added}
    return {**arities, **{seed.predicate: len(seed.values) for seed in made.seeds}}


def batch(facts: Iterable[Fact]) -> Batch:
    """Facts of one relation as data."""
    rows = [fact.values for fact in facts]
    return Batch(tuple(map(column_of_values, zip(*rows, strict=True))), len(rows))
