"""Publish the facts of a reasoner as tables; rebuild states, roll back and convert versions.

`publish_facts` writes the changed tables. `ResidentReasoner` keeps the reasoner of the current version open.
`rebuild` creates a state from tables, `roll_back` publishes the contents of an earlier version, `convert`
reads folders of versions in the former format, without tables.
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
    contents: PublishedContents,
    changes: TableChanges,
    origin: VersionOrigin,
) -> VersionOrigin:
    """Write the changed tables, and return the origin of the version with the layouts of all tables.

    All facts are written of a predicate without a table, or whose columns have changed.
    """
    predicates = tables_of(program)
    previous_tables = dict(before.tables) if before else {}
    for name, predicate in predicates.items():
        schema, table = contents.schema(predicate), previous_tables.pop(name, None)
        if table is None or before is None or not _is_kept(name, predicate, schema, before, contents):
            if table is not None and contents.has_forgotten(predicate.name):
                raise _has_forgotten(name)
            rows = contents.rows(predicate.name)
            publication.write(name, schema, contents.tables(predicate, rows))
        elif (is_other := before.origin.names.get(name, name) != predicate.name) or predicate.name in changes:
            changed = None if is_other else changes[predicate.name]
            if changed is None and contents.has_forgotten(predicate.name):
                open_rows = rows_open_in(published, before, name, contents.reasoner)
                changed = contents.since(predicate.name, open_rows)
                _change(publication, name, contents, predicate, changed)
            elif changed is None:
                rows = contents.rows(predicate.name)
                change_to(publication, published, name, contents.table(predicate, rows))
            else:
                _change(publication, name, contents, predicate, changed)
    for name in previous_tables:
        publication.drop(name)
    layouts = {name: contents.layout(predicate) for name, predicate in predicates.items()}
    return replace(
        origin,
        types={name: contents.types(predicate) for name, predicate in predicates.items()},
        times={name: layout.times for name, layout in layouts.items() if layout.times},
        given=given_types(contents.reasoner),
        names={name: each.name for name, each in predicates.items() if each.name != name},
        is_calendar=any(layout.is_calendar for layout in layouts.values()),
    )


def check_values(reasoner: Reasoner, change: Change, delta: Delta) -> None:
    """Raise `DataError` if a table cannot hold the rows of a transaction, which is not committed yet.

    After it is committed to the state, it must be published: no value may prevent that.
    """
    data, predicates = reasoner.schemas.data, reasoner.predicates()
    before = reasoner.schemas
    then = {name: before.of(predicate) for name, predicate in predicates.items()}
    for name, rows in (*change.update.added.items(), *change.times.added):
        data.note_rows(name, rows.columns)
    now = data.now(change.program, before.facts)
    added, dictionary = delta.net.added, reasoner.engine.storage.dictionary
    for name, predicate in change.program.predicates.items():
        contents = now.of(predicate)
        columns = added[name].columns if name in added else ()
        if name in then and then[name] != contents and name not in change.program.timed:
            columns = reasoner.engine.storage.rows(name)[0]  # all rows are written again
        for ids, column_contents, column in zip(
            columns, with_mixed(contents, EXACTLY), predicate.names, strict=False
        ):
            try:
                to_typed(dictionary, ids, column_contents)
            except Misfit as misfit:
                raise misfit_error(misfit, column, predicate.written, column_contents) from None


def given_types(reasoner: Reasoner) -> dict[str, list[list[str]]]:
    """Return the types of a reasoner's explicit facts, which its store does not have."""
    noted = reasoner.schemas.data.noted()
    return {
        name: [sorted(kind.value for kind in types) for types in columns] for name, columns in noted.items()
    }


def restore_types(reasoner: Reasoner, before: Manifest, unpublished: bool) -> None:
    """Restore the types of explicit facts in an opened reasoner, so that tables keep their columns.

    A version that tasks derived may lack the types: those of its tables are used instead. With `unpublished`,
    the types of facts after the version are read from the facts.
    """
    data, explicit_types = reasoner.schemas.data, before.origin.given
    types = {
        name: tuple(frozenset(map(Type, each)) for each in some) for name, some in explicit_types.items()
    }
    data.restore(types)
    for name, predicate in reasoner.program.predicates.items():
        if (name in explicit_types and not unpublished) or not reasoner.engine.storage.explicit(name)[1]:
            continue
        if name not in explicit_types and predicate.written in before.tables:
            data.restore({name: _published_types(predicate.written, before)})
        data.note(name)


def _published_types(table: str, before: Manifest) -> tuple[Types, ...]:
    """Return the types of the arguments of a table, empty where its columns do not determine them."""
    table_types = []
    for kind, field in zip(before.origin.types[table], before.tables[table].schema, strict=False):
        types = types_of_column(ColumnType(kind))
        is_known = normal_type(arrow_type(Contents(types))) == field.type
        table_types.append(types if is_known else frozenset())
    return tuple(table_types)


def _is_kept(
    name: str, predicate: Predicate, schema: Any, before: Manifest, contents: PublishedContents
) -> bool:
    """Return whether the existing rows of a table keep their form."""
    origin, layout = before.origin, contents.layout(predicate)
    return (
        is_same(before.tables[name].schema, normal(schema))
        and origin.types[name] == contents.types(predicate)  # text may become exact terms, say
        and public_name(origin.names.get(name, name)) == public_name(predicate.name)
        and (not layout.times or origin.is_calendar == layout.is_calendar)
    )


def _change(
    publication: Publication,
    name: str,
    contents: PublishedContents,
    predicate: Predicate,
    changed: ChangedRows,
) -> None:
    inserted, deleted = (contents.table(predicate, rows) for rows in (changed.added, changed.removed))
    publication.change(name, inserted, deleted)


def _has_forgotten(name: str) -> DataError:
    message = f"the columns of `{name}` would change, but time has advanced and past rows are forgotten"
    help = "declare the types of its columns, and recompute everything with --full"
    return DataError(Diagnostic(codes.DRIFT, message, help=help))


class ResidentReasoner:
    """The reasoner of the published version, which may stay open between runs. Mutable."""

    def __init__(
        self, store: Store, state: Callable[[], StateStore], reached: Callable[[str, str], None]
    ) -> None:
        self.reasoner: StoredReasoner | None = None
        self._store = store
        self._state = state
        self._reached = reached
        self._starts: tuple[StoredReasoner, IntervalStarts] | None = None

    def open(self, before: Manifest) -> StoredReasoner | None:
        """Return the reasoner of a version, opened if necessary; None if there is no state."""
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
        """Abandon the reasoner, which may be ahead of the published version."""
        self._starts = None
        if self.reasoner is not None:
            self.reasoner.abandon()
            self.reasoner = None

    def contents(self, reasoner: StoredReasoner) -> PublishedContents:
        """Return the facts of a reasoner in their published form."""
        is_advanced = reasoner.time.past.time is not None
        current = self._store.current() if is_advanced else None
        return PublishedContents(reasoner, starts=self._interval_starts(reasoner, current))

    def advance(self, reasoner: StoredReasoner, before: Manifest, to: str) -> None:
        """Advance time by a transaction that changes no fact: the state stays at the version.

        Rows that are dropped from memory remain in tables.
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
        """Return the beginnings of intervals that a reasoner has forgotten in part."""
        if self._starts is None or self._starts[0] is not reasoner:
            self._starts = reasoner, IntervalStarts(reasoner.time)
            if before is not None:
                self._starts = reasoner, _starts_in(self._store.published, before, reasoner)
        return self._starts[1]


def _starts_in(published: Published, before: Manifest, reasoner: Reasoner) -> IntervalStarts:
    """Return the beginnings of published intervals that the reasoner has forgotten in part."""
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

    The table is read in batches, and constants of other rows are not added to the reasoner.
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
        nothing = np.zeros(0, np.int64)
        return list(no_rows(layout.arguments).columns), RowTimes(timeline, nothing, nothing)
    rows = concatenate(parts)
    times, _ = times_in(rows, layout, reasoner.engine.storage.dictionary, origin.is_integer_time)
    return list(rows.columns[: layout.arguments]), times


def change_to(publication: Publication, published: Published, name: str, now: Any) -> None:
    """Change a table to its new rows, by a comparison with all old ones."""
    then = published.read(name, publication.base)
    change_between(publication, name, then, now)


def change_between(publication: Publication, name: str, then: Any, now: Any) -> None:
    """Change a table by the difference of some old rows and the new rows in their place."""
    now = table_files.fitted(now, then.schema)
    is_old, is_kept = table_files.found_in(now, then)
    inserted, deleted = now.filter(pa.array(~is_old)), then.filter(pa.array(~is_kept))
    if inserted.num_rows or deleted.num_rows:
        publication.change(name, inserted, deleted)


# ---- Deriving the state of a version, or some of its predicates, again.


def rebuild(state: StateStore, store: Store, before: Manifest, program: Program) -> bool:
    """Rebuild the state of a version from tables of explicit facts; return whether it is possible.

    It is impossible if a predicate is both explicit and derived, with temporal facts or equality, or if
    columns have only a part of values: then tables do not determine the explicit facts. It also fails if
    other facts are derived than were published.
    """
    explicit = {name for name in program.predicates if name in before.origin.given}
    if not _determines_explicit_facts(before, program, explicit):
        return False
    reasoner = state.begin(before.version, program)
    restore_types(reasoner, before, unpublished=False)
    for name in explicit:
        table = program.predicates[name].written
        reasoner.load(name, _batches(table, store, before))
        aside = aside_table(table, before.origin.names)
        if aside is not None:  # dropped rows were also explicit
            reasoner.load(name, _batches(aside, store, before, without=1))
    reasoner.materialise()
    names = {predicate.name: table for table, predicate in tables_of(program).items()}
    counts = {table: reasoner.engine.storage.rows(name)[1] for name, table in names.items()}
    if counts != {name: table.rows for name, table in before.tables.items()}:
        state.remove_unpublished(None)
        return False
    reasoner.begin()
    reasoner.close()
    return state.adopt(before.version)


def depended_on(program: Program, names: Iterable[str]) -> set[str]:
    """Return the predicates, and all predicates that they depend on."""
    reached, waiting = set(names), list(names)
    while waiting:
        name = waiting.pop()
        for rule in program.rules:
            if rule.head.predicate == name:
                unvisited = rule.read - reached
                reached |= unvisited
                waiting += unvisited
    return reached


def differing(reasoner: Reasoner, names: Iterable[str], settings: Mapping[str, Any]) -> list[str]:
    """Derive predicates again from explicit facts; return those with other facts than in the reasoner.

    The reasoner has no temporal facts, and no equality.
    """
    program = reasoner.program
    needed = depended_on(program, names)
    rules = tuple(rule for rule in program.rules if rule.head.predicate in needed)
    program_again = replace(program, rules=rules, facts=(), imports=(), exports=(), queries=())
    rederived = Reasoner(program_again, **settings)
    for name in needed & program.predicates.keys():
        columns, count = reasoner.engine.storage.explicit(name)
        if count:
            rederived.load(name, _exactly(program.predicates[name], columns, count, reasoner))
    rederived.materialise()
    different = []
    for name in sorted(needed & {rule.head.predicate for rule in rules}):
        current, derived = (_texts(program.predicates[name], each) for each in (reasoner, rederived))
        if current.num_rows != derived.num_rows or not all(each.all() for each in found_in(current, derived)):
            different.append(name)
    return different


def _texts(predicate: Predicate, reasoner: Reasoner) -> Any:
    columns, count = reasoner.engine.storage.rows(predicate.name)
    return _relation(predicate, columns, count, reasoner).to_texts("exact").table


def _relation(predicate: Predicate, columns: Any, count: int, reasoner: Reasoner) -> Relation:
    names = tuple(f"c{place}" for place in range(predicate.arity))
    return Relation(predicate.written, names, columns, count, reasoner.engine.storage.dictionary)


def _exactly(predicate: Predicate, columns: Any, count: int, reasoner: Reasoner) -> Iterator[Batch]:
    """Yield rows of a reasoner as exact terms, for another reasoner."""
    if not predicate.arity:
        yield Batch((), count)
        return
    for start in range(0, count, PIECE):
        part = tuple(column[start : start + PIECE] for column in columns)
        table = _relation(predicate, part, len(part[0]), reasoner).to_texts("exact").table
        types = (ColumnType.TERM,) * predicate.arity
        yield from from_python(table, types, tuple(table.column_names), RejectedRows(OnError.FAIL))


def _determines_explicit_facts(before: Manifest, program: Program, explicit: set[str]) -> bool:
    heads = {rule.head.predicate for rule in program.rules}
    if program.timed or has_equality(program.predicates) or explicit & heads or not before.origin.given:
        return False
    for name in explicit:
        table = program.predicates[name].written
        for kind, types in zip(before.origin.types[table], before.origin.given[name], strict=False):
            is_exact = ColumnType(kind) is ColumnType.TERM
            if not is_exact and (types_of_column(ColumnType(kind)) & MOMENT or len(types) > 1):
                return False
    return True


def _batches(table: str, store: Store, before: Manifest, without: int = 0) -> Iterator[Batch]:
    """Yield the rows of a table, `without` a number of the last columns."""
    predicate = predicate_of(table, before)
    rows, arity = store.read(table, before.version), predicate.arity - without
    if not arity:
        yield Batch((), rows.num_rows)
        return
    arguments = rows.select(range(arity))
    types, names = predicate.types[:arity], predicate.columns[:arity]
    yield from from_python(arguments, types, names, RejectedRows(OnError.FAIL))


# ---- Rollback: a new version with the contents of an earlier one.
#
# Numbers only increase, so that readers of changes treat it as any other version.


def roll_back(
    store: Store, version: int | None = None, reached: Callable[[str], None] = lambda _: None
) -> Manifest:
    """Publish the contents of a version, by default the one before the current one."""
    current = store.manifest()
    target_number = current.parent if version is None else version
    if target_number is None:
        message = f"version {current.version} is the first one in `{store.shown}`"
        raise DataError(Diagnostic(codes.JOB_NO_VERSION, message, place=store.shown))
    target = store.manifest(target_number)
    published = store.published
    with published.writing(on_step=reached) as publication:
        for name, table in target.tables.items():
            existing = current.tables.get(name)
            if existing is not None and existing.changed_in == table.changed_in:
                continue
            if existing is None or not is_same(existing.schema, table.schema):
                batches = published.dataset(name, target_number).to_batches()
                publication.write(name, table.schema, (pa.Table.from_batches([each]) for each in batches))
            else:
                then, now = published.differing(name, current.version, target_number)
                change_between(publication, name, then, now)
        for name in current.tables.keys() - target.tables.keys():
            publication.drop(name)
        # The state is of another version. It is discarded first: a process that ends here must not leave a
        # state with the number of the new version. Only the job knows the state of tables at an address, and
        # detects that it is outdated.
        if store.local is not None:
            state = StateStore(store.local, {})
            state.discard()
            state.remove_unpublished(None)
            state.settle()
        # A stream does not repeat its batches.
        origin = replace(target.origin, reason="rollback", batch=current.batch)
        return Manifest.of(publication.commit(origin.to_json(), reason=origin.reason))


# ---- Conversion of folders of versions in the former format, without tables.
#
#     CURRENT                      the number of the current version
#     versions/7/manifest.json     the manifest of version 7: for each predicate, the files of its rows
#     versions/7/facts/…           a base, or the rows inserted and deleted after it
#     versions/7/rejects/…         rejected rows
#
# Each version becomes one of the new folder, with its origin; changes between two are found by a comparison.
# A conversion that was interrupted can be continued.

LAYOUT: Final = 1  # of manifests that are read here
CONVERTED: Final = "converted"  # the key of the former number, in the details of a version
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
    existing = (int(each.name) for each in (folder / "versions").iterdir() if each.name.isdecimal())
    numbers = [each for each in sorted(existing) if each <= current and _path(folder, each).is_file()]
    converted = None if published.is_empty else published.current().details.get(CONVERTED)
    if converted is None and not published.is_empty:
        message = f"`{target}` has versions of its own"
        raise DataError(Diagnostic(codes.BAD_VALUE, message, place=str(target), help="name another folder"))
    last = converted["version"] if converted else 0
    conversion = _Conversion(folder, published)
    before = None
    for number in numbers:
        manifest = _manifest(folder, number)
        if number > last:
            reached(number, conversion.publish(manifest, before))
        before = manifest
    return published


def delete_former(folder: Path) -> None:
    """Delete the versions of a converted folder; other files in it are kept."""
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
        manifest = json.loads(path.read_text(encoding="utf-8"))
        if manifest["layout"] != LAYOUT:
            raise ValueError("it was written by another version of tidelog")
        return manifest
    except (OSError, ValueError, KeyError) as error:
        message = f"`{path}` is not the manifest of a version: {error}"
        raise DataError(Diagnostic(codes.JOB_DAMAGED, message, place=str(path))) from None


class _Conversion:
    """The conversion of one folder. Mutates itself and the new folder."""

    def __init__(self, folder: Path, published: Published) -> None:
        self._folder = folder
        self._published = published
        self._engine = make(1)

    def publish(self, manifest: Any, before: Any) -> int:
        """Publish a version; return its number in the new folder."""
        origin = self._origin(manifest)
        with self._published.writing() as publication:
            remaining = set(publication.base.tables) if publication.base else set()
            for name, table in manifest["tables"].items():
                then: Any = before["tables"].get(name) if before else None
                has_table = table["written"] in remaining and then is not None
                remaining.discard(table["written"])
                if has_table and then["facts"] == table["facts"] and then["types"] == table["types"]:
                    continue
                self._table(publication, manifest, table, then if has_table else None)
            for name in remaining:
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
        old_rows = self._rows(then)
        inserted, deleted = without(now, old_rows), without(old_rows, now)
        if inserted.count or deleted.count:
            tables = (self._arrow(each, table, layout, schema) for each in (inserted, deleted))
            publication.change(name, *tables)

    # ---- rows

    def _rows(self, table: Any) -> Rows:
        """Return the rows of the files of a table."""
        rows = no_rows(len(table["types"]))
        for part in table["facts"]:
            part_rows = self._part(part, table)
            rows = without(rows, part_rows) if part["role"] == "removed" else concatenate([rows, part_rows])
        return distinct([rows])

    def _part(self, part: Any, table: Any) -> Rows:
        path = self._folder / part["path"]
        try:
            rows_read = pq.read_table(path)
        except (OSError, pa.ArrowException) as error:
            message = f"`{path}` is damaged: {str(error).splitlines()[0]}"
            raise DataError(Diagnostic(codes.JOB_DAMAGED, message, place=str(path))) from error
        if rows_read.num_rows != part["rows"]:
            message = f"`{path}` is damaged: it has {rows_read.num_rows} rows instead of {part['rows']}"
            raise DataError(Diagnostic(codes.JOB_DAMAGED, message, place=str(path)))
        types = tuple(map(ColumnType, part["types"]))
        if not types:
            return Rows((), rows_read.num_rows)
        count = len(types) - part["times"]
        arguments, names = rows_read.select(range(count)), tuple(table["columns"][:count])
        columns = encoded_columns(arguments, types[:count], names, self._engine)
        for column, kind in zip(rows_read.columns[count:], types[count:], strict=True):
            plain = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
            columns.append(ids_in(plain, kind, self._engine.storage.dictionary))
        return Rows(tuple(columns), rows_read.num_rows)

    def _arrow(self, rows: Rows, table: Any, layout: TableLayout, schema: Any) -> Any:
        times = _TIMES[: layout.times]
        contents, dictionary = _contents(table), self._engine.storage.dictionary
        return typed_table(rows, table["written"], layout, contents, times, schema, dictionary)

    # ---- origins

    def _origin(self, manifest: Any) -> VersionOrigin:
        tables, time = manifest["tables"], manifest.get("time")
        values = {
            **{key: manifest[key] for key in ("reason", "job", "program", "rules", "inputs", "batch")},
            "engine": manifest.get("engine", "columnar"),
            "treatment": manifest.get("treatment"),
            "types": {table["written"]: table["types"][: _arguments(table)] for table in tables.values()},
            "times": {table["written"]: table["times"] for table in tables.values() if table.get("times")},
            "names": {table["written"]: name for name, table in tables.items() if table["written"] != name},
            "is_integer_time": bool(time and time["timeline"][1]),
            "is_calendar": bool(time and time["timeline"][2]),
        }
        return VersionOrigin.from_json(values)

    def _with_rejects(self, inputs: Mapping[str, InputRecord], number: int) -> Mapping[str, InputRecord]:
        """Copy the files of rejected rows next to the new tables, and return inputs with the new paths."""
        moved = {}
        for key, record in inputs.items():
            if record.rejects is not None:
                name = f"{REJECTS}/{number}/{Path(record.rejects).name}"
                source, copy = self._folder / record.rejects, self._published.folder.local / name
                if source.is_file():
                    copy.parent.mkdir(parents=True, exist_ok=True)
                    shutil.copyfile(source, copy)
                record = replace(record, rejects=name if source.is_file() else None)
            moved[key] = record
        return moved


def _arguments(table: Any) -> int:
    return len(table["types"]) - (table.get("times") or 0)


def _layout(manifest: Any, table: Any) -> TableLayout:
    time = manifest.get("time")
    return TableLayout(tuple(table["columns"]), table.get("times") or 0, bool(time and time["timeline"][2]))


def _contents(table: Any) -> tuple[Contents, ...]:
    kinds = map(ColumnType, table["types"][: _arguments(table)])
    return with_mixed((Contents(types_of_column(kind)) for kind in kinds), EXACTLY)


def _schema(table: Any) -> Any:
    """Return the columns of the new table, as jobs publish them now."""
    arrow = {ColumnType.STRING: pa.string(), ColumnType.BOOLEAN: pa.bool_()}
    return schema_of(table["columns"], _contents(table), [arrow[kind] for kind in _TIMES])
