"""Answers by magic sets: the query rewrites the program, and only what it asks for is derived.

What was derived is forgotten with the answers; `query.kept_queries` keeps it for queries that stay.

Invariant: the relations of the program are not touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from tidelog.data.dictionary import Dictionary
from tidelog.data.rows import Rows
from tidelog.errors import counted
from tidelog.logic.program import BOTTOM, Atom, Fact, Query, Rule
from tidelog.logic.strata import strata
from tidelog.logic.values import Value
from tidelog.plan.join_order import expected_growth
from tidelog.plan.reserved_relations import MAGIC_ANSWERS, MAGIC_BOTTOM
from tidelog.query.strategy import Answers, QueryContext, inconsistency
from tidelog.rewrite.magic_sets import Options, Rewritten, rewrite
from tidelog.rewrite.renaming import Kind

if TYPE_CHECKING:
    from tidelog.engine.columnar.closures.maintained_closures import ClosingEngine

ONCE = "once"  # what tells the relations of a query that is asked once from those of queries that are kept
DERIVED = "derived"  # where the rewritten program is noted


class Magic:
    """Derives what the query asks for, by a program of its own."""

    name = "magic"

    def answer(self, query: Query, place: QueryContext) -> Answers:
        """The rows of the query's head."""
        made = rewritten(query, place)
        engine = place.engine
        with relations(made, engine):
            add_facts(made.seeds, engine)
            place.notes[DERIVED] = made
            numbers = {id(rule): number for number, rule in enumerate(made.rules)}
            engine.derive(strata(made.rules), numbers, place.listen, place.check, place.modules)
            if place.is_constrained and engine.size(MAGIC_BOTTOM):
                raise inconsistency(place.program)
            return engine.rows(MAGIC_ANSWERS)

    def explain(self, query: Query, place: QueryContext) -> str:
        """What is asked for in which pattern, and what has to be derived in full."""
        return described(rewritten(query, place), place)


def rewritten(query: Query, place: QueryContext) -> Rewritten:
    """The program that answers the query, and finds out whether the program is inconsistent."""
    known = place.notes.get(query.rule)
    if known is None:
        known = place.notes[query.rule] = _rewrite(query, place)
    assert isinstance(known, Rewritten)
    return known


def _rewrite(query: Query, place: QueryContext) -> Rewritten:
    asked = [replace(query.rule, head=Atom(MAGIC_ANSWERS, query.rule.head.terms))]
    if place.is_constrained:
        asked.append(Rule(Atom(MAGIC_BOTTOM, ()), (Atom(BOTTOM, ()),)))
    options = Options(place.stated, expected_growth(place.engine))
    return rewrite(place.program.rules, asked, options).apart(ONCE)


def described(made: Rewritten, place: QueryContext) -> str:
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
def relations(made: Rewritten, engine: ClosingEngine) -> Iterator[None]:
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


def add_facts(facts: Iterable[Fact], engine: ClosingEngine) -> None:
    """Add facts to their relations, as explicit ones."""
    for relation, rows in rows_by_relation(facts, engine.dictionary).items():
        engine.add(relation, rows.columns, rows.count)


def rows_by_relation(facts: Iterable[Fact], dictionary: Dictionary) -> dict[str, Rows]:
    """Facts as rows of ids."""
    by_relation: dict[str, list[tuple[Value, ...]]] = {}
    for fact in facts:
        by_relation.setdefault(fact.predicate, []).append(fact.values)
    return {
        name: Rows(
            tuple(dictionary.encode_values(column) for column in zip(*values, strict=True)), len(values)
        )
        for name, values in by_relation.items()
    }
