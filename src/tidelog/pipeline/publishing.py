"""Facts of a reasoner as tables of a published folder."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pyarrow as pa

from tidelog.data.relation import misfit_error
from tidelog.data.typed_columns import Misfit, arrow_type, to_typed, with_mixed
from tidelog.engine.columnar.storage.catalog import ColumnarEngine
from tidelog.errors import DataError, Diagnostic
from tidelog.logic.program import Predicate, Program
from tidelog.logic.types import Contents, Type, Types, types_of_column
from tidelog.logic.values import ColumnType
from tidelog.maintenance.row_sets import Rows, joined
from tidelog.pipeline import codes
from tidelog.pipeline.drops import public_name, tables_of
from tidelog.pipeline.facts import Changed, nothing
from tidelog.pipeline.holding import EXACTLY, Changes, Holding
from tidelog.pipeline.manifest import Manifest, Origin
from tidelog.pipeline.timed_holding import Begun
from tidelog.pipeline.times import Layout, ids_in, times_in
from tidelog.pipeline.version import encoded
from tidelog.publish import Publication, Published, files
from tidelog.publish.schemas import is_same, normal, normal_type
from tidelog.reasoner.delta import Delta
from tidelog.reasoner.reasoner import Reasoner
from tidelog.reasoner.transaction import Change
from tidelog.temporal.changing import Times


def publish_facts(
    publication: Publication,
    published: Published,
    before: Manifest | None,
    program: Program,
    holding: Holding,
    changes: Changes,
    origin: Origin,
) -> Origin:
    """Write the tables that change, and return what the version says of itself with what is known of all.

    Of a predicate without a table, or one whose columns are others or mean something else, all facts are
    written, whatever has changed.
    """
    predicates = tables_of(program)
    known = dict(before.tables) if before else {}
    for name, predicate in predicates.items():
        schema, table = holding.schema(predicate), known.pop(name, None)
        if table is None or before is None or not _is_kept(name, predicate, schema, before, holding):
            if table is not None and holding.has_forgotten(predicate.name):
                raise _has_forgotten(name)
            rows = holding.rows(predicate.name)
            publication.write(name, schema, holding.tables(predicate, rows))
        elif (is_other := before.origin.names.get(name, name) != predicate.name) or predicate.name in changes:
            changed = None if is_other else changes[predicate.name]
            if changed is None and holding.has_forgotten(predicate.name):
                open_rows = rows_open_in(published, before, name, holding.reasoner)
                changed = holding.since(predicate.name, open_rows)
                _change(publication, name, holding, predicate, changed)
            elif changed is None:
                rows = holding.rows(predicate.name)
                change_to(publication, published, name, holding.table(predicate, rows))
            else:
                _change(publication, name, holding, predicate, changed)
    for name in known:
        publication.drop(name)
    layouts = {name: holding.layout(predicate) for name, predicate in predicates.items()}
    return replace(
        origin,
        types={name: holding.types(predicate) for name, predicate in predicates.items()},
        times={name: layout.times for name, layout in layouts.items() if layout.times},
        given=given_types(holding.reasoner),
        names={name: each.name for name, each in predicates.items() if each.name != name},
        is_calendar=any(layout.is_calendar for layout in layouts.values()),
    )


def check_values(reasoner: Reasoner, change: Change, delta: Delta) -> None:
    """Raise `DataError` if a table cannot hold what a transaction brings, which is not committed yet.

    Once the state has it, it must be published: nothing may fail then because of a value.
    """
    data, known = reasoner.schemas.data, reasoner.predicates()
    before = reasoner.schemas
    then = {name: before.of(each) for name, each in known.items()}
    for name, rows in (*change.stated.added.items(), *change.times.added):
        data.note_rows(name, rows.columns)
    now = data.now(change.program, before.facts)
    added, dictionary = delta.net.added, reasoner.engine.dictionary
    for name, predicate in change.program.predicates.items():
        contents = now.of(predicate)
        columns = added[name].columns if name in added else ()
        if name in then and then[name] != contents and name not in change.program.timed:
            columns = reasoner.engine.rows(name)[0]  # all rows are written anew
        for ids, each, column in zip(columns, with_mixed(contents, EXACTLY), predicate.names, strict=False):
            try:
                to_typed(dictionary, ids, each)
            except Misfit as misfit:
                raise misfit_error(misfit, column, predicate.written, each) from None


def given_types(reasoner: Reasoner) -> dict[str, list[list[str]]]:
    """Return the types of what a reasoner was given, which its store does not keep."""
    noted = reasoner.schemas.data.noted()
    return {name: [sorted(each.value for each in types) for types in some] for name, some in noted.items()}


def restore_types(reasoner: Reasoner, before: Manifest, unpublished: bool) -> None:
    """Tell a reasoner that was opened the types of what it was given, so that tables keep their columns.

    A version may not say the types, if tasks derived it: what its tables hold does instead. What the reasoner
    was given after the version, if there is anything `unpublished`, is looked at.
    """
    data, given = reasoner.schemas.data, before.origin.given
    data.restore({name: tuple(frozenset(map(Type, each)) for each in some) for name, some in given.items()})
    for name, predicate in reasoner.program.predicates.items():
        if (name in given and not unpublished) or not reasoner.engine.explicit(name)[1]:
            continue
        if name not in given and predicate.written in before.tables:
            data.restore({name: _published_types(predicate.written, before)})
        data.note(name)


def _published_types(table: str, before: Manifest) -> tuple[Types, ...]:
    """Return the types that the arguments of a table hold, as far as its columns tell."""
    found = []
    for kind, field in zip(before.origin.types[table], before.tables[table].schema, strict=False):
        types = types_of_column(ColumnType(kind))
        is_told = normal_type(arrow_type(Contents(types))) == field.type
        found.append(types if is_told else frozenset())
    return tuple(found)


def _is_kept(name: str, predicate: Predicate, schema: Any, before: Manifest, holding: Holding) -> bool:
    """Return whether rows that a table has are still written as they were."""
    origin, layout = before.origin, holding.layout(predicate)
    return (
        is_same(before.tables[name].schema, normal(schema))
        and origin.types[name] == holding.types(predicate)  # text may become exact terms, say
        and public_name(origin.names.get(name, name)) == public_name(predicate.name)
        and (not layout.times or origin.is_calendar == layout.is_calendar)
    )


def _change(
    publication: Publication, name: str, holding: Holding, predicate: Predicate, changed: Changed
) -> None:
    inserted, deleted = (holding.table(predicate, rows) for rows in (changed.added, changed.removed))
    publication.change(name, inserted, deleted)


def _has_forgotten(name: str) -> DataError:
    message = (
        f"the columns of `{name}` would be others, and time has advanced: rows of the past are forgotten"
    )
    help = "declare the types of its columns, and publish everything anew with --full"
    return DataError(Diagnostic(codes.DRIFT, message, help=help))


def begun_in(published: Published, before: Manifest, reasoner: Reasoner) -> Begun:
    """Return when the intervals of published rows began that the reasoner has forgotten in part."""
    begun = Begun(reasoner.time)
    if reasoner.time.past.time is not None:
        for name, predicate in reasoner.program.predicates.items():
            if predicate.written in before.origin.times and name in reasoner.program.timed:
                begun.add(name, *rows_open_in(published, before, predicate.written, reasoner))
    return begun


def rows_open_in(
    published: Published, before: Manifest, name: str, reasoner: Reasoner
) -> tuple[list[Any], Times]:
    """Return the rows of a table that reach up to the time that was advanced to, or beyond, and their times.

    The table is read some rows at a time, and constants of other rows do not come into the reasoner.
    """
    origin, time = before.origin, reasoner.time
    layout = Layout(tuple(before.tables[name].schema.names), origin.times[name], origin.is_calendar)
    parts = []
    for batch in published.dataset(name, before.published).to_batches():
        table = pa.Table.from_batches([batch])
        scratch = ColumnarEngine(1)
        ids = tuple(
            ids_in(column, ColumnType.BOOLEAN if place > 1 else ColumnType.STRING, scratch.dictionary)
            for place, column in enumerate(table.columns[layout.arguments :])
        )
        rows = Rows((ids[0],) * layout.arguments + ids, table.num_rows)  # only times are looked at
        times, _ = times_in(rows, layout, scratch.dictionary, origin.is_integer_time)
        time.store.adopt(times.timeline)
        _, right = times.on(time.store.timeline)
        table = table.filter(pa.array(right >= time.past.first(time.store.timeline) - 1))
        if table.num_rows:
            parts.append(encoded(name, table, before, reasoner.engine))
    if not parts:
        timeline = time.store.timeline
        none = np.zeros(0, np.int64)
        return list(nothing(layout.arguments).columns), Times(timeline, none, none)
    rows = joined(parts)
    times, _ = times_in(rows, layout, reasoner.engine.dictionary, origin.is_integer_time)
    return list(rows.columns[: layout.arguments]), times


def change_to(publication: Publication, published: Published, name: str, now: Any) -> None:
    """Change a table to the rows that it has now, found by comparing all of them."""
    then = published.read(name, publication.base)
    change_between(publication, name, then, now)


def change_between(publication: Publication, name: str, then: Any, now: Any) -> None:
    """Change a table by the rows that differ, of some that it has now and of others in their place."""
    now = files.fitted(now, then.schema)
    is_old, is_kept = files.found_in(now, then)
    inserted, deleted = now.filter(pa.array(~is_old)), then.filter(pa.array(~is_kept))
    if inserted.num_rows or deleted.num_rows:
        publication.change(name, inserted, deleted)
