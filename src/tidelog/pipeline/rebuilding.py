"""The state of a version derived again: from its own tables if it has none, or some predicates of it."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import replace
from typing import Any

from tidelog.data.relation import Relation
from tidelog.io.columns import Batch
from tidelog.io.python_data import from_python
from tidelog.io.rejects import Faults, OnError
from tidelog.logic.equality import has_equality
from tidelog.logic.program import Predicate, Program
from tidelog.logic.types import MOMENT, types_of_column
from tidelog.logic.values import ColumnType
from tidelog.pipeline.drops import aside_table, tables_of
from tidelog.pipeline.holding import PIECE
from tidelog.pipeline.manifest import Manifest
from tidelog.pipeline.publishing import restore_types
from tidelog.pipeline.state import State
from tidelog.pipeline.store import Store
from tidelog.pipeline.version import predicate_of
from tidelog.publish.files import found_in
from tidelog.reasoner.reasoner import Reasoner


def rebuild(state: State, store: Store, before: Manifest, program: Program) -> bool:
    """Make the state of a version from the tables of what was given; return whether that can be done.

    It cannot where a predicate is given and derived, where facts hold at times or terms are equal, or where
    columns do not tell all of a value: tables do not say then which facts were given. It is not done either
    if other facts follow than were published.
    """
    given = {name for name in program.predicates if name in before.origin.given}
    if not _is_told(before, program, given):
        return False
    reasoner = state.begin(before.version, program)
    restore_types(reasoner, before, unpublished=False)
    for name in given:
        table = program.predicates[name].written
        reasoner.load(name, _batches(table, store, before))
        aside = aside_table(table, before.origin.names)
        if aside is not None:  # what is left out was given, too
            reasoner.load(name, _batches(aside, store, before, without=1))
    reasoner.materialise()
    names = {each.name: table for table, each in tables_of(program).items()}
    counts = {table: reasoner.engine.rows(name)[1] for name, table in names.items()}
    if counts != {name: table.rows for name, table in before.tables.items()}:
        state.remove_unpublished(None)
        return False
    reasoner.begin()
    reasoner.close()
    return state.adopt(before.version)


def depended_on(program: Program, names: Iterable[str]) -> set[str]:
    """Return predicates and all that they depend on."""
    found, waiting = set(names), list(names)
    while waiting:
        name = waiting.pop()
        for rule in program.rules:
            if rule.head.predicate == name:
                read = {atom.predicate for atom in (*rule.positive, *rule.negated)} - found
                found |= read
                waiting += read
    return found


def differing(reasoner: Reasoner, names: Iterable[str], settings: Mapping[str, Any]) -> list[str]:
    """Derive predicates again, from what is given alone; return those of which a reasoner holds other facts.

    It holds nothing at times, and no equality.
    """
    program = reasoner.program
    needed = depended_on(program, names)
    rules = tuple(rule for rule in program.rules if rule.head.predicate in needed)
    again = Reasoner(replace(program, rules=rules, facts=(), imports=(), exports=(), queries=()), **settings)
    for name in needed & program.predicates.keys():
        columns, count = reasoner.engine.explicit(name)
        if count:
            again.load(name, _exactly(program.predicates[name], columns, count, reasoner))
    again.materialise()
    found = []
    for name in sorted(needed & {rule.head.predicate for rule in rules}):
        held, derived = (_texts(program.predicates[name], each) for each in (reasoner, again))
        if held.num_rows != derived.num_rows or not all(each.all() for each in found_in(held, derived)):
            found.append(name)
    return found


def _texts(predicate: Predicate, reasoner: Reasoner) -> Any:
    columns, count = reasoner.engine.rows(predicate.name)
    return _relation(predicate, columns, count, reasoner).to_texts("exact").table


def _relation(predicate: Predicate, columns: Any, count: int, reasoner: Reasoner) -> Relation:
    names = tuple(f"c{place}" for place in range(predicate.arity))
    return Relation(predicate.written, names, columns, count, reasoner.engine.dictionary)


def _exactly(predicate: Predicate, columns: Any, count: int, reasoner: Reasoner) -> Iterator[Batch]:
    """Yield rows of a reasoner's as exact terms, for another reasoner."""
    if not predicate.arity:
        yield Batch((), count)
        return
    for start in range(0, count, PIECE):
        some = tuple(column[start : start + PIECE] for column in columns)
        table = _relation(predicate, some, len(some[0]), reasoner).to_texts("exact").table
        types = (ColumnType.TERM,) * predicate.arity
        yield from from_python(table, types, tuple(table.column_names), Faults(OnError.FAIL))


def _is_told(before: Manifest, program: Program, given: set[str]) -> bool:
    heads = {rule.head.predicate for rule in program.rules}
    if program.timed or has_equality(program.predicates) or given & heads or not before.origin.given:
        return False
    for name in given:
        table = program.predicates[name].written
        for kind, types in zip(before.origin.types[table], before.origin.given[name], strict=False):
            is_exact = ColumnType(kind) is ColumnType.TERM
            if not is_exact and (types_of_column(ColumnType(kind)) & MOMENT or len(types) > 1):
                return False
    return True


def _batches(table: str, store: Store, before: Manifest, without: int = 0) -> Iterator[Batch]:
    """Yield the rows of a table, without so many of the last columns."""
    predicate = predicate_of(table, before)
    rows, arity = store.read(table, before.version), predicate.arity - without
    if not arity:
        yield Batch((), rows.num_rows)
        return
    arguments = rows.select(range(arity))
    types, names = predicate.types[:arity], predicate.columns[:arity]
    yield from from_python(arguments, types, names, Faults(OnError.FAIL))
