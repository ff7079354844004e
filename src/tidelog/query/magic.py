"""Answers by magic sets: the program is rewritten for the query, and only requested facts are derived.

The derived facts are dropped with the answers; `query.kept_queries` maintains them for kept queries.

Invariant: the relations of the program are not touched.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from typing import TYPE_CHECKING

from tidelog.data.dictionary import Dictionary
from tidelog.data.rows import Rows
from tidelog.engine.events import Audience, Tally, ValuesMissing
from tidelog.engine.fixpoint import derive
from tidelog.errors import Inconsistent, counted
from tidelog.logic.program import BOTTOM, Atom, Fact, Query, Rule
from tidelog.logic.strata import strata
from tidelog.logic.values import Value
from tidelog.plan.algebra import MAGIC_ANSWERS, MAGIC_BOTTOM
from tidelog.plan.inconsistency import describe_bottom
from tidelog.plan.join_order import expected_growth
from tidelog.query.strategy import Answers, QueryContext, shown_patterns
from tidelog.rewrite.magic_sets import MagicOptions, Rewritten, rewrite
from tidelog.rewrite.renaming import AdornedKind

if TYPE_CHECKING:
    from tidelog.engine.columnar.engine import ColumnarEngine

ONCE = "once"  # distinguishes the relations of a single query from those of kept queries
DERIVED = "derived"  # the key of the rewritten program in the notes of a context


class Magic:
    """Derives the facts that the query requests with a rewritten program."""

    name = "magic"

    def answer(self, query: Query, context: QueryContext) -> Answers:
        """The rows of the query's head."""
        program = rewritten(query, context)
        engine = context.engine
        with relations(program, engine):
            add_facts(program.seeds, engine)
            context.notes[DERIVED] = program
            numbers = {id(rule): number for number, rule in enumerate(program.rules)}
            tally, dropped = Tally(), engine.dropped
            listen = Audience([context.listen, tally])
            derive(engine, strata(program.rules), numbers, listen, context.check, context.modules)
            if engine.dropped != dropped:
                _report_missing(program, tally, context)
            if context.is_constrained and engine.storage.size(MAGIC_BOTTOM):
                raise Inconsistent(describe_bottom(context.program))
            return engine.storage.rows(MAGIC_ANSWERS)

    def explain(self, query: Query, context: QueryContext) -> str:
        """The patterns that the query requests, and the predicates that are derived in full."""
        return described(rewritten(query, context), context)


def _report_missing(program: Rewritten, tally: Tally, context: QueryContext) -> None:
    """Report which rows the rules have dropped because a function had no value."""
    from tidelog.engine.missing_values import find_missing

    failing = [program.rules[number] for number in sorted(tally.rules) if tally.rules[number].no_value]
    missing = find_missing(failing, context.engine)
    if missing:
        context.listen(ValuesMissing(missing))


def rewritten(query: Query, context: QueryContext) -> Rewritten:
    """The program that answers the query, and shows whether the original one is inconsistent."""
    cached = context.notes.get(query.rule)
    if cached is None:
        cached = context.notes[query.rule] = _rewrite(query, context)
    assert isinstance(cached, Rewritten)
    return cached


def _rewrite(query: Query, context: QueryContext) -> Rewritten:
    rules = [replace(query.rule, head=Atom(MAGIC_ANSWERS, query.rule.head.terms))]
    if context.is_constrained:
        rules.append(Rule(Atom(MAGIC_BOTTOM, ()), (Atom(BOTTOM, ()),)))
    options = MagicOptions(context.explicit, expected_growth(context.engine.storage))
    return rewrite(context.program.rules, rules, options).apart(ONCE)


def described(program: Rewritten, context: QueryContext) -> str:
    """A short description of a rewritten program."""
    predicates = context.program.predicates
    adorned = (each for each in program.relations.values() if each.kind is AdornedKind.ADORNED)
    patterns = shown_patterns(((each.predicate, each.adornment) for each in adorned), context.program)
    in_full = [predicates[name].written for name in program.in_full if name in predicates]
    suffix = f"; in full, for the sake of negation or aggregates: {', '.join(in_full)}" if in_full else ""
    return f"derives {patterns or 'the answers alone'} by {counted(len(program.rules), 'rule')}{suffix}"


@contextmanager
def relations(program: Rewritten, engine: ColumnarEngine) -> Iterator[None]:
    """Define the relations of a rewritten program inside the block, and drop them afterwards."""
    arities = arities_of(program)
    for name, arity in arities.items():
        engine.storage.define(name, arity)
    try:
        yield
    finally:
        for name in arities:
            engine.storage.drop(name)


def arities_of(program: Rewritten) -> dict[str, int]:
    """The relations that a rewritten program derives or begins with, and how many columns each has."""
    atoms = (atom for rule in program.rules for atom in (rule.head, *rule.body_atoms))
    added = {rule.head.predicate for rule in program.rules} | program.relations.keys()
    arities = {atom.predicate: len(atom.terms) for atom in atoms if atom.predicate in added}
    return {**arities, **{seed.predicate: len(seed.values) for seed in program.seeds}}


def add_facts(facts: Iterable[Fact], engine: ColumnarEngine) -> None:
    """Add facts to their relations, as explicit ones."""
    for relation, rows in rows_by_relation(facts, engine.storage.dictionary).items():
        engine.storage.add(relation, rows.columns, rows.count)


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
