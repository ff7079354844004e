"""Facts of a reasoner as tables of a published folder."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pyarrow as pa

from tidelog.logic.program import BOTTOM, Predicate, Program
from tidelog.pipeline.facts import Changed
from tidelog.pipeline.holding import Changes, Holding
from tidelog.pipeline.manifest import Manifest, Origin
from tidelog.publish import Publication, Published, files
from tidelog.publish.schemas import is_same, normal


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

    Of a predicate without a table, or one with other columns, all facts are written, whatever has changed.
    """
    predicates = {each.written: each for each in program.predicates.values() if each.name != BOTTOM}
    known = dict(before.tables) if before else {}
    for name, predicate in predicates.items():
        schema, table = holding.schema(predicate), known.pop(name, None)
        if table is None or not is_same(table.schema, normal(schema)):
            rows = holding.rows(predicate.name)
            publication.write(name, schema, holding.tables(predicate, rows))
        elif predicate.name in changes:
            changed = changes[predicate.name]
            if changed is None:
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
        is_calendar=any(layout.is_calendar for layout in layouts.values()),
    )


def _change(
    publication: Publication, name: str, holding: Holding, predicate: Predicate, changed: Changed
) -> None:
    inserted, deleted = (holding.table(predicate, rows) for rows in (changed.added, changed.removed))
    publication.change(name, inserted, deleted)


def change_to(publication: Publication, published: Published, name: str, now: Any) -> None:
    """Change a table to the rows that it has now, found by comparing all of them."""
    then = published.read(name, publication.base)
    now = files.fitted(now, then.schema)
    is_old, is_kept = files.found_in(now, then)
    inserted, deleted = now.filter(pa.array(~is_old)), then.filter(pa.array(~is_kept))
    if inserted.num_rows or deleted.num_rows:
        publication.change(name, inserted, deleted)
