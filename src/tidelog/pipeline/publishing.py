"""Facts of a reasoner as tables of a published folder; states rebuilt, versions rolled back or converted.

`publish_facts` writes the tables that change. `ResidentReasoner` keeps the reasoner of the published version
open. `rebuild` makes a state from tables, `roll_back` publishes what an earlier version held, `convert`
reads the folders of versions that jobs published before there were tables.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidelog.data.columns import Batch
from tidelog.data.relation import Relation, misfit_error
from tidelog.data.rows import Rows, concatenate, distinct, without
from tidelog.data.typed_columns import Misfit, arrow_type, to_typed, with_mixed
from tidelog.engine.columnar.engine import make
from tidelog.errors import DataError, Diagnostic, codes, counted
from tidelog.io.python_data import from_python
from tidelog.io.rejects import OnError, RejectedRows
from tidelog.logic.equality_axioms import has_equality
from tidelog.logic.intervals import point_at
from tidelog.logic.program import Predicate, Program
from tidelog.logic.types import MOMENT, Contents, Type, Types, types_of_column
from tidelog.logic.values import ColumnType
from tidelog.pipeline.contents import (
    EXACTLY,
    PIECE,
    ChangedRows,
    IntervalStarts,
    PublishedContents,
    TableChanges,
    TableLayout,
    ids_in,
    no_rows,
    schema_of,
    slice_of,
    times_in,
    typed_table,
)
from tidelog.pipeline.version_folder import (
    REJECTS,
    InputRecord,
    Manifest,
    StateStore,
    Store,
    VersionOrigin,
    is_former,
)
from tidelog.pipeline.versions import encoded, encoded_columns, predicate_of
from tidelog.publish import Publication, Published, table_files
from tidelog.publish.published_schemas import is_same, normal, normal_type
from tidelog.publish.table_files import found_in
from tidelog.reasoner.delta import Delta
from tidelog.reasoner.reasoner import Reasoner
from tidelog.reasoner.storing import StoredReasoner
from tidelog.reasoner.transaction import Change
from tidelog.rewrite.dropped_rows import aside_table, public_name, tables_of
from tidelog.temporal.timed_changes import RowTimes


def publish_facts(
    publication: Publication,
    published: Published,
    before: Manifest | None,
    program: Program,
    holding: PublishedContents,
    changes: TableChanges,
    origin: VersionOrigin,
) -> VersionOrigin:
    """Write the tables that change, and return the origin of the version with what is known of all tables.

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
    """Raise `DataError` if a table cannot hold the rows of a transaction, which is not committed yet.

    Once the state has it, it must be published: no value may make that fail.
    """
    data, known = reasoner.schemas.data, reasoner.predicates()
    before = reasoner.schemas
    then = {name: before.of(each) for name, each in known.items()}
    for name, rows in (*change.update.added.items(), *change.times.added):
        data.note_rows(name, rows.columns)
    now = data.now(change.program, before.facts)
    added, dictionary = delta.net.added, reasoner.engine.storage.dictionary
    for name, predicate in change.program.predicates.items():
        contents = now.of(predicate)
        columns = added[name].columns if name in added else ()
        if name in then and then[name] != contents and name not in change.program.timed:
            columns = reasoner.engine.storage.rows(name)[0]  # all rows are written again
        for ids, each, column in zip(columns, with_mixed(contents, EXACTLY), predicate.names, strict=False):
            try:
                to_typed(dictionary, ids, each)
            except Misfit as misfit:
                raise misfit_error(misfit, column, predicate.written, each) from None


def given_types(reasoner: Reasoner) -> dict[str, list[list[str]]]:
    """Return the types of a reasoner's explicit facts, which its store does not keep."""
    noted = reasoner.schemas.data.noted()
    return {name: [sorted(each.value for each in types) for types in some] for name, some in noted.items()}


def restore_types(reasoner: Reasoner, before: Manifest, unpublished: bool) -> None:
    """Give a reasoner that was opened the types of its explicit facts, so that tables keep their columns.

    A version that tasks derived may lack the types: those of its tables are used instead. Facts that came
    after the version, if some are `unpublished`, are read.
    """
    data, given = reasoner.schemas.data, before.origin.given
    data.restore({name: tuple(frozenset(map(Type, each)) for each in some) for name, some in given.items()})
    for name, predicate in reasoner.program.predicates.items():
        if (name in given and not unpublished) or not reasoner.engine.storage.explicit(name)[1]:
            continue
        if name not in given and predicate.written in before.tables:
            data.restore({name: _published_types(predicate.written, before)})
        data.note(name)


def _published_types(table: str, before: Manifest) -> tuple[Types, ...]:
    """Return the types of the arguments of a table, as far as its columns determine them."""
    found = []
    for kind, field in zip(before.origin.types[table], before.tables[table].schema, strict=False):
        types = types_of_column(ColumnType(kind))
        is_known = normal_type(arrow_type(Contents(types))) == field.type
        found.append(types if is_known else frozenset())
    return tuple(found)


def _is_kept(
    name: str, predicate: Predicate, schema: Any, before: Manifest, holding: PublishedContents
) -> bool:
    """Return whether rows that a table has are still written as they were."""
    origin, layout = before.origin, holding.layout(predicate)
    return (
        is_same(before.tables[name].schema, normal(schema))
        and origin.types[name] == holding.types(predicate)  # text may become exact terms, say
        and public_name(origin.names.get(name, name)) == public_name(predicate.name)
        and (not layout.times or origin.is_calendar == layout.is_calendar)
    )


def _change(
    publication: Publication,
    name: str,
    holding: PublishedContents,
    predicate: Predicate,
    changed: ChangedRows,
) -> None:
    inserted, deleted = (holding.table(predicate, rows) for rows in (changed.added, changed.removed))
    publication.change(name, inserted, deleted)


def _has_forgotten(name: str) -> DataError:
    message = f"the columns of `{name}` would change, but time has advanced and past rows are forgotten"
    help = "declare the types of its columns, and recompute everything with --full"
    return DataError(Diagnostic(codes.DRIFT, message, help=help))


class ResidentReasoner:
    """The reasoner of the published version, which may stay open from one run to the next. Mutable."""

    def __init__(
        self, store: Store, state: Callable[[], StateStore], reached: Callable[[str, str], None]
    ) -> None:
        self.reasoner: StoredReasoner | None = None
        self._store = store
        self._state = state
        self._reached = reached
        self._starts: tuple[StoredReasoner, IntervalStarts] | None = None

    def open(self, before: Manifest) -> StoredReasoner | None:
        """Return the reasoner of a version, which is opened unless it is open; None if there is no state."""
        resident = self.reasoner
        if resident is not None and StateStore.number_of(resident) == before.version and resident.is_in_place:
            return resident
        self.close()
        self.reasoner = self._state().open(before.version)
        if self.reasoner is not None:
            restore_types(self.reasoner, before, unpublished=False)
            self._reached("restored", f"{counted(before.rows, 'fact')} of version {before.version}")
        return self.reasoner

    def close(self) -> None:
        """Close the reasoner, so that others can change the state of the published version."""
        self._starts = None
        if self.reasoner is not None:
            self.reasoner.close()
            self.reasoner = None

    def discard(self) -> None:
        """Abandon the reasoner, which may be ahead of what is published."""
        self._starts = None
        if self.reasoner is not None:
            self.reasoner.abandon()
            self.reasoner = None

    def contents(self, reasoner: StoredReasoner) -> PublishedContents:
        """Return what a reasoner holds, as it is published."""
        is_advanced = reasoner.time.past.time is not None
        current = self._store.current() if is_advanced else None
        return PublishedContents(reasoner, starts=self._interval_starts(reasoner, current))

    def advance(self, reasoner: StoredReasoner, before: Manifest, to: str) -> None:
        """Advance time by a transaction that changes no fact: the state is still that of the version.

        Rows that are dropped from memory stay in tables.
        """
        point, past = point_at(to), reasoner.time.past.time
        if point.start is None or (past is not None and past >= point.start):
            return
        self._interval_starts(reasoner, before).advance(point, reasoner.program.timed)
        try:
            reasoner.advance(to)
        except BaseException:
            self.discard()
            raise
        self._reached("time advanced", to)

    def _interval_starts(self, reasoner: StoredReasoner, before: Manifest | None) -> IntervalStarts:
        """Return when the intervals began that a reasoner has forgotten in part."""
        if self._starts is None or self._starts[0] is not reasoner:
            self._starts = reasoner, IntervalStarts(reasoner.time)
            if before is not None:
                self._starts = reasoner, _starts_in(self._store.published, before, reasoner)
        return self._starts[1]


def _starts_in(published: Published, before: Manifest, reasoner: Reasoner) -> IntervalStarts:
    """Return when the intervals of published rows began that the reasoner has forgotten in part."""
    starts = IntervalStarts(reasoner.time)
    if reasoner.time.past.time is not None:
        for name, predicate in reasoner.program.predicates.items():
            if predicate.written in before.origin.times and name in reasoner.program.timed:
                starts.add(name, *rows_open_in(published, before, predicate.written, reasoner))
    return starts


def rows_open_in(
    published: Published, before: Manifest, name: str, reasoner: Reasoner
) -> tuple[list[Any], RowTimes]:
    """Return the rows of a table that reach up to the time that was advanced to, or beyond, and their times.

    The table is read some rows at a time, and constants of other rows are not added to the reasoner.
    """
    origin, time = before.origin, reasoner.time
    layout = TableLayout(tuple(before.tables[name].schema.names), origin.times[name], origin.is_calendar)
    parts = []
    for batch in published.dataset(name, before.published).to_batches():
        table = pa.Table.from_batches([batch])
        scratch = make(1)
        ids = tuple(
            ids_in(column, ColumnType.BOOLEAN if place > 1 else ColumnType.STRING, scratch.storage.dictionary)
            for place, column in enumerate(table.columns[layout.arguments :])
        )
        rows = Rows((ids[0],) * layout.arguments + ids, table.num_rows)  # only times are compared
        times, _ = times_in(rows, layout, scratch.storage.dictionary, origin.is_integer_time)
        time.store.refine_to(times.timeline)
        _, right = times.on(time.store.timeline)
        table = table.filter(pa.array(right >= time.past.first(time.store.timeline) - 1))
        if table.num_rows:
            parts.append(encoded(name, table, before, reasoner.engine))
    if not parts:
        timeline = time.store.timeline
        none = np.zeros(0, np.int64)
        return list(no_rows(layout.arguments).columns), RowTimes(timeline, none, none)
    rows = concatenate(parts)
    times, _ = times_in(rows, layout, reasoner.engine.storage.dictionary, origin.is_integer_time)
    return list(rows.columns[: layout.arguments]), times


def change_to(publication: Publication, published: Published, name: str, now: Any) -> None:
    """Change a table to the rows that it has now, found by comparing all of them."""
    then = published.read(name, publication.base)
    change_between(publication, name, then, now)


def change_between(publication: Publication, name: str, then: Any, now: Any) -> None:
    """Change a table by the rows that differ, of some that it has now and of others in their place."""
    now = table_files.fitted(now, then.schema)
    is_old, is_kept = table_files.found_in(now, then)
    inserted, deleted = now.filter(pa.array(~is_old)), then.filter(pa.array(~is_kept))
    if inserted.num_rows or deleted.num_rows:
        publication.change(name, inserted, deleted)


# ---- The state of a version, or some predicates of it, derived again.


def rebuild(state: StateStore, store: Store, before: Manifest, program: Program) -> bool:
    """Make the state of a version from the tables of explicit facts; return whether that can be done.

    It cannot where a predicate is explicit and derived, where facts hold at times or terms are equal, or
    where columns do not have all of a value: the tables do not determine the explicit facts then. It is not
    done either if other facts follow than were published.
    """
    given = {name for name in program.predicates if name in before.origin.given}
    if not _has_known_change(before, program, given):
        return False
    reasoner = state.begin(before.version, program)
    restore_types(reasoner, before, unpublished=False)
    for name in given:
        table = program.predicates[name].written
        reasoner.load(name, _batches(table, store, before))
        aside = aside_table(table, before.origin.names)
        if aside is not None:  # rows that are left out were explicit, too
            reasoner.load(name, _batches(aside, store, before, without=1))
    reasoner.materialise()
    names = {each.name: table for table, each in tables_of(program).items()}
    counts = {table: reasoner.engine.storage.rows(name)[1] for name, table in names.items()}
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
                read = rule.read - found
                found |= read
                waiting += read
    return found


def differing(reasoner: Reasoner, names: Iterable[str], settings: Mapping[str, Any]) -> list[str]:
    """Derive predicates again from explicit facts; return those of which a reasoner holds other facts.

    The reasoner has no facts at times, and no equality.
    """
    program = reasoner.program
    needed = depended_on(program, names)
    rules = tuple(rule for rule in program.rules if rule.head.predicate in needed)
    again = Reasoner(replace(program, rules=rules, facts=(), imports=(), exports=(), queries=()), **settings)
    for name in needed & program.predicates.keys():
        columns, count = reasoner.engine.storage.explicit(name)
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
    columns, count = reasoner.engine.storage.rows(predicate.name)
    return _relation(predicate, columns, count, reasoner).to_texts("exact").table


def _relation(predicate: Predicate, columns: Any, count: int, reasoner: Reasoner) -> Relation:
    names = tuple(f"c{place}" for place in range(predicate.arity))
    return Relation(predicate.written, names, columns, count, reasoner.engine.storage.dictionary)


def _exactly(predicate: Predicate, columns: Any, count: int, reasoner: Reasoner) -> Iterator[Batch]:
    """Yield rows of a reasoner's as exact terms, for another reasoner."""
    if not predicate.arity:
        yield Batch((), count)
        return
    for start in range(0, count, PIECE):
        some = tuple(column[start : start + PIECE] for column in columns)
        table = _relation(predicate, some, len(some[0]), reasoner).to_texts("exact").table
        types = (ColumnType.TERM,) * predicate.arity
        yield from from_python(table, types, tuple(table.column_names), RejectedRows(OnError.FAIL))


def _has_known_change(before: Manifest, program: Program, given: set[str]) -> bool:
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
    """Yield the rows of a table, without some of the last columns."""
    predicate = predicate_of(table, before)
    rows, arity = store.read(table, before.version), predicate.arity - without
    if not arity:
        yield Batch((), rows.num_rows)
        return
    arguments = rows.select(range(arity))
    types, names = predicate.types[:arity], predicate.columns[:arity]
    yield from from_python(arguments, types, names, RejectedRows(OnError.FAIL))


# ---- Rollback: a new version that holds what an earlier one held.
#
# Numbers only grow, so that readers of changes see this one like any other.


def roll_back(
    store: Store, version: int | None = None, reached: Callable[[str], None] = lambda _: None
) -> Manifest:
    """Publish what a version held, by default the one before the current one."""
    current = store.manifest()
    wanted = current.parent if version is None else version
    if wanted is None:
        message = f"version {current.version} is the first one in `{store.shown}`"
        raise DataError(Diagnostic(codes.JOB_NO_VERSION, message, place=store.shown))
    target = store.manifest(wanted)
    published = store.published
    with published.writing(on_step=reached) as publication:
        for name, table in target.tables.items():
            here = current.tables.get(name)
            if here is not None and here.changed_in == table.changed_in:
                continue
            if here is None or not is_same(here.schema, table.schema):
                batches = published.dataset(name, wanted).to_batches()
                publication.write(name, table.schema, (pa.Table.from_batches([each]) for each in batches))
            else:
                then, now = published.differing(name, current.version, wanted)
                change_between(publication, name, then, now)
        for name in current.tables.keys() - target.tables.keys():
            publication.drop(name)
        # The state is of another version. It goes first: a process that ends here must not leave one that
        # says it is of the version to come.
        # Of tables at an address only the job knows the state, and finds out by itself that it is outdated.
        if store.beside is not None:
            state = StateStore(store.beside, {})
            state.discard()
            state.remove_unpublished(None)
            state.settle()
        # A stream does not send its batches again.
        origin = replace(target.origin, reason="rollback", batch=current.batch)
        return Manifest.of(publication.commit(origin.to_json(), reason=origin.reason))


# ---- Conversion of folders of versions as jobs published them before there were tables.
#
#     CURRENT                      the number of the current version
#     versions/7/manifest.json     what version 7 consists of: for each predicate, the files of its rows
#     versions/7/facts/…           a base, and with the versions after it the rows that came and went
#     versions/7/rejects/…         rows that were rejected
#
# Each version becomes one of the new folder, with its origin; what changed between two is found by comparing
# them. A conversion that was stopped continues where it was.

LAYOUT: Final = 1  # of manifests that are read here
CONVERTED: Final = "converted"  # the key, in the details of a version, of the number it had
_TIMES: Final = (
    ColumnType.STRING,
    ColumnType.STRING,
    ColumnType.BOOLEAN,
    ColumnType.BOOLEAN,
    ColumnType.STRING,
)


def convert(
    folder: Path, target: Path, form: str | None, reached: Callable[[int, int], None] = lambda *_: None
) -> Published:
    """Convert a folder of versions into tables in another one; `reached` is called with both numbers."""
    if not is_former(folder):
        message = f"`{folder}` has no versions in the old format"
        help = "nothing has to be converted" if (folder / "_tidelog.json").is_file() else None
        raise DataError(Diagnostic(codes.JOB_NO_VERSION, message, place=str(folder), help=help))
    published = Published(target, form)
    current = int((folder / "CURRENT").read_text(encoding="utf-8"))
    found = (int(each.name) for each in (folder / "versions").iterdir() if each.name.isdecimal())
    numbers = [each for each in sorted(found) if each <= current and _path(folder, each).is_file()]
    made = None if published.is_empty else published.current().details.get(CONVERTED)
    if made is None and not published.is_empty:
        message = f"`{target}` has versions of its own"
        raise DataError(Diagnostic(codes.BAD_VALUE, message, place=str(target), help="name another folder"))
    last = made["version"] if made else 0
    conversion = _Conversion(folder, published)
    before = None
    for number in numbers:
        manifest = _manifest(folder, number)
        if number > last:
            reached(number, conversion.publish(manifest, before))
        before = manifest
    return published


def delete_former(folder: Path) -> None:
    """Delete the versions of a folder that has been converted; other files in it stay."""
    (folder / "CURRENT").unlink()
    shutil.rmtree(folder / "versions")
    for name in (".lock", ".sinks"):
        (folder / name).unlink(missing_ok=True)
    if not any(folder.iterdir()):
        folder.rmdir()


def _path(folder: Path, number: int) -> Path:
    return folder / "versions" / str(number) / "manifest.json"


def _manifest(folder: Path, number: int) -> Any:
    path = _path(folder, number)
    try:
        found = json.loads(path.read_text(encoding="utf-8"))
        if found["layout"] != LAYOUT:
            raise ValueError("it was written by another version of tidelog")
        return found
    except (OSError, ValueError, KeyError) as error:
        message = f"`{path}` is not the manifest of a version: {error}"
        raise DataError(Diagnostic(codes.JOB_DAMAGED, message, place=str(path))) from None


class _Conversion:
    """One folder being converted. Mutates itself and the new folder."""

    def __init__(self, folder: Path, published: Published) -> None:
        self._folder = folder
        self._published = published
        self._engine = make(1)

    def publish(self, manifest: Any, before: Any) -> int:
        """Publish a version; return its number in the new folder."""
        origin = self._origin(manifest)
        with self._published.writing() as publication:
            known = set(publication.base.tables) if publication.base else set()
            for name, table in manifest["tables"].items():
                then: Any = before["tables"].get(name) if before else None
                is_there = table["written"] in known and then is not None
                known.discard(table["written"])
                if is_there and then["facts"] == table["facts"] and then["types"] == table["types"]:
                    continue
                self._table(publication, manifest, table, then if is_there else None)
            for name in known:
                publication.drop(name)
            origin = replace(origin, inputs=self._with_rejects(origin.inputs, publication.number))
            details = {**origin.to_json(), CONVERTED: {"version": manifest["version"]}}
            time = datetime.fromisoformat(manifest["created"])
            return publication.commit(details, reason=origin.reason, time=time).number

    def _table(self, publication: Publication, manifest: Any, table: Any, then: Any) -> None:
        layout, schema = _layout(manifest, table), _schema(table)
        now, name = self._rows(table), table["written"]
        base = publication.base.tables.get(name) if publication.base else None
        is_alike = then is not None and then["types"] == table["types"]
        if base is None or not is_alike or not is_same(base.schema, normal(schema)):
            parts = (slice_of(now, start) for start in range(0, now.count, PIECE))
            publication.write(name, schema, (self._arrow(each, table, layout, schema) for each in parts))
            return
        old = self._rows(then)
        inserted, deleted = without(now, old), without(old, now)
        if inserted.count or deleted.count:
            both = (self._arrow(each, table, layout, schema) for each in (inserted, deleted))
            publication.change(name, *both)

    # ---- rows

    def _rows(self, table: Any) -> Rows:
        """Return the rows of the files of a table."""
        rows = no_rows(len(table["types"]))
        for part in table["facts"]:
            some = self._part(part, table)
            rows = without(rows, some) if part["role"] == "removed" else concatenate([rows, some])
        return distinct([rows])

    def _part(self, part: Any, table: Any) -> Rows:
        path = self._folder / part["path"]
        try:
            found = pq.read_table(path)
        except (OSError, pa.ArrowException) as error:
            message = f"`{path}` is damaged: {str(error).splitlines()[0]}"
            raise DataError(Diagnostic(codes.JOB_DAMAGED, message, place=str(path))) from error
        if found.num_rows != part["rows"]:
            message = f"`{path}` is damaged: it has {found.num_rows} rows instead of {part['rows']}"
            raise DataError(Diagnostic(codes.JOB_DAMAGED, message, place=str(path)))
        types = tuple(map(ColumnType, part["types"]))
        if not types:
            return Rows((), found.num_rows)
        count = len(types) - part["times"]
        arguments, names = found.select(range(count)), tuple(table["columns"][:count])
        columns = encoded_columns(arguments, types[:count], names, self._engine)
        for column, kind in zip(found.columns[count:], types[count:], strict=True):
            plain = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
            columns.append(ids_in(plain, kind, self._engine.storage.dictionary))
        return Rows(tuple(columns), found.num_rows)

    def _arrow(self, rows: Rows, table: Any, layout: TableLayout, schema: Any) -> Any:
        times = _TIMES[: layout.times]
        contents, dictionary = _contents(table), self._engine.storage.dictionary
        return typed_table(rows, table["written"], layout, contents, times, schema, dictionary)

    # ---- origins

    def _origin(self, manifest: Any) -> VersionOrigin:
        tables, time = manifest["tables"], manifest.get("time")
        known = {
            **{key: manifest[key] for key in ("reason", "job", "program", "rules", "inputs", "batch")},
            "engine": manifest.get("engine", "columnar"),
            "treatment": manifest.get("treatment"),
            "types": {each["written"]: each["types"][: _arguments(each)] for each in tables.values()},
            "times": {each["written"]: each["times"] for each in tables.values() if each.get("times")},
            "names": {each["written"]: name for name, each in tables.items() if each["written"] != name},
            "is_integer_time": bool(time and time["timeline"][1]),
            "is_calendar": bool(time and time["timeline"][2]),
        }
        return VersionOrigin.from_json(known)

    def _with_rejects(self, inputs: Mapping[str, InputRecord], number: int) -> Mapping[str, InputRecord]:
        """Return inputs whose files of rejected rows are copied next to the new tables."""
        found = {}
        for key, each in inputs.items():
            if each.rejects is not None:
                name = f"{REJECTS}/{number}/{Path(each.rejects).name}"
                source, copy = self._folder / each.rejects, self._published.folder.local / name
                if source.is_file():
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(source, copy)
                each = replace(each, rejects=name if source.is_file() else None)
            found[key] = each
        return found


def _arguments(table: Any) -> int:
    return len(table["types"]) - (table.get("times") or 0)


def _layout(manifest: Any, table: Any) -> TableLayout:
    time = manifest.get("time")
    return TableLayout(tuple(table["columns"]), table.get("times") or 0, bool(time and time["timeline"][2]))


def _contents(table: Any) -> tuple[Contents, ...]:
    kinds = map(ColumnType, table["types"][: _arguments(table)])
    return with_mixed((Contents(types_of_column(each)) for each in kinds), EXACTLY)


def _schema(table: Any) -> Any:
    """Return the columns of the new table: as jobs publish them today."""
    arrow = {ColumnType.STRING: pa.string(), ColumnType.BOOLEAN: pa.bool_()}
    return schema_of(table["columns"], _contents(table), [arrow[kind] for kind in _TIMES])
