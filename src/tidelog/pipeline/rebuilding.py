"""The state of a version that has none, after going back say, derived again from its own tables."""

from __future__ import annotations

from collections.abc import Iterator

from tidelog.io.columns import Batch
from tidelog.io.faults import Faults, OnError
from tidelog.io.objects import from_python
from tidelog.logic.equality import has_equality
from tidelog.logic.program import Program
from tidelog.logic.types import MOMENT, types_of_column
from tidelog.logic.values import ColumnType
from tidelog.pipeline.drops import aside_table, tables_of
from tidelog.pipeline.manifest import Manifest
from tidelog.pipeline.publishing import restore_types
from tidelog.pipeline.state import State
from tidelog.pipeline.store import Store
from tidelog.pipeline.version import predicate_of


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
