"""Sinks: facts of a version, or what it changed, for those who do not read published folders.

Sinks are written after the pointer has moved. A file names the version whose sinks are written, so that a run
that was stopped in between is made up for. Facts replace what the sink held; changes get a file, or rows, of
their own for each version, so that nothing is written twice.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from itertools import chain
from pathlib import Path
from typing import Any

import pyarrow as pa

from tidelog.data.relation import Relation
from tidelog.durable import write_text
from tidelog.errors import DataError, Diagnostic
from tidelog.io.formats import EXTENSIONS, RDF
from tidelog.io.write import WriteOptions, write
from tidelog.logic.program import Predicate, Program
from tidelog.logic.values import ColumnType
from tidelog.pipeline import codes
from tidelog.pipeline.manifest import Manifest
from tidelog.pipeline.settings import CHANGES, Settings, Sink
from tidelog.pipeline.source_files import find_named
from tidelog.pipeline.store import Store
from tidelog.pipeline.version import Version
from tidelog.publish.tables import DELETE, INSERT
from tidelog.reasoner.delta import ADDED as PLUS
from tidelog.reasoner.delta import REMOVED as MINUS
from tidelog.reasoner.delta import find_predicate
from tidelog.written import file_table

WRITTEN = ".sinks"  # the version whose sinks are written
_SIGNS = {INSERT: PLUS, DELETE: MINUS}
MOST_SORTED = 250_000  # rows of a file; larger ones are in the order of their table, never whole in memory


def check_sinks(settings: Settings, program: Program) -> None:
    """Nothing, if all sinks can be written to; else raises all that is wrong."""
    inputs = {settings.resolve(path).resolve() for source in settings.sources for path in source.paths}
    faults: list[Diagnostic] = []
    for sink in settings.sinks:
        try:
            predicate = find_named(sink.predicate, program, sink.span)
        except DataError as error:
            faults += error.diagnostics
            continue
        if sink.format in RDF and predicate.arity not in (3, 4):
            message = (
                f"statements of RDF have 3 columns, or 4, and `{predicate.written}` has {predicate.arity}"
            )
            faults.append(Diagnostic(codes.BAD_SINK, message, sink.span, "choose csv, jsonl or parquet"))
        if sink.format in RDF and predicate.name in program.timed:
            message = f"statements of RDF have no times, and `{predicate.written}` holds at times"
            faults.append(Diagnostic(codes.BAD_SINK, message, sink.span, "choose csv, jsonl or parquet"))
        if sink.path and settings.resolve(sink.path).resolve() in inputs:
            message = f"`{sink.path}` is a source of the job as well"
            faults.append(Diagnostic(codes.BAD_SINK, message, sink.span))
    if faults:
        raise DataError(faults)


class Sinks:
    """The sinks of a job."""

    def __init__(self, settings: Settings, store: Store, session: Callable[[], Any] | None = None) -> None:
        self._settings = settings
        self._store = store
        self._session = session

    @property
    def written(self) -> int:
        """The last version whose sinks are written; the current one if there are no sinks."""
        if not self._settings.sinks:
            return self._store.number or 0
        try:
            return int((self._store.path / WRITTEN).read_text(encoding="utf-8"))
        except (FileNotFoundError, ValueError):
            return 0

    def write(self, manifest: Manifest) -> None:
        """Write a version to the sinks."""
        version = Version(self._store, manifest)
        for sink in self._settings.sinks:
            if sink.what == CHANGES:
                self._write_changes(sink, version)
            else:
                self._write_facts(sink, version)
        write_text(self._store.path / WRITTEN, f"{manifest.version}\n")

    def _write_facts(self, sink: Sink, version: Version) -> None:
        """Write all facts of a predicate to a sink."""
        predicate = find_predicate(sink.predicate, version.predicates)
        if sink.kind != "file" and sink.terms != "exact":
            from tidelog.pipeline.spark_sinks import write_frame

            assert self._session is not None
            write_frame(self._session().read.parquet(*version.files(predicate.written)), sink, "overwrite")
            return
        if version.manifest.tables[predicate.written].rows > MOST_SORTED:
            parts = version.pieces(predicate.written)
        else:
            parts = iter([version[predicate.written].sorted()])
        tables = (_table(sink, part, _types(predicate)) for part in parts)
        if sink.kind == "file":
            assert sink.path is not None
            self._write_file(self._settings.resolve(sink.path), sink, tables)
        else:
            self._write_on_spark(sink, tables, "overwrite")

    def _write_changes(self, sink: Sink, version: Version) -> None:
        """Write what a version changed: columns `version` and `change`, then those of the predicate."""
        tables = self._changed(sink, version)
        if sink.kind != "file":
            self._write_on_spark(sink, tables, "append")
            return
        assert sink.path is not None and sink.format is not None
        extension = EXTENSIONS[sink.format][0]
        path = self._settings.resolve(sink.path) / f"{version.number}{extension}"
        self._write_file(path, sink, tables)

    def _changed(self, sink: Sink, version: Version) -> Iterator[pa.Table]:
        """Yield what a version changed, sorted if it is not much."""
        predicate = find_predicate(sink.predicate, version.predicates)
        types, published = _types(predicate), version.manifest.tables[predicate.written]
        if published.inserted + published.deleted > MOST_SORTED:
            pieces = version.changed_pieces(sink.predicate)
            if pieces is not None:
                for kind, rows in pieces:
                    yield _labelled(_table(sink, rows, types), version.number, _SIGNS[kind])
                return
        change = version.changes(sink.predicate)
        if not change.removed and not change.added:
            yield _labelled(_table(sink, change.added, types), 0, PLUS)
        for sign, rows in ((MINUS, change.removed), (PLUS, change.added)):
            if rows:
                yield _labelled(_table(sink, rows.sorted(), types), version.number, sign)

    def _write_file(self, path: Path, sink: Sink, tables: Iterator[pa.Table]) -> None:
        assert sink.format is not None
        first = next(tables)
        write(path, sink.format, first.column_names, chain([first], tables), WriteOptions(header=sink.header))

    def _write_on_spark(self, sink: Sink, tables: Iterator[pa.Table], mode: str) -> None:
        from tidelog.pipeline.spark_sinks import write_tables

        assert self._session is not None
        write_tables(self._session(), sink, tables, mode)


def _table(sink: Sink, relation: Relation, types: Sequence[ColumnType]) -> pa.Table:
    """The rows of a relation as a sink wants them; tables and databases hold text alone by default."""
    if sink.kind == "file":
        assert sink.format is not None
        return file_table(relation, sink.format, sink.terms, types)
    return relation.to_texts("exact").table if sink.terms == "exact" else relation.to_arrow()


def _types(predicate: Predicate) -> tuple[ColumnType, ...]:
    """Return the types by which columns are written; exact terms are of any."""
    return tuple(ColumnType.ANY if of is ColumnType.TERM else of for of in predicate.types)


def _labelled(table: pa.Table, version: int, sign: str) -> pa.Table:
    """The table with first columns that tell the version and the sign of its rows."""
    for label, value in (("change", sign), ("version", version)):
        name = label
        while name in table.column_names:
            name += "_"
        table = table.add_column(0, name, pa.repeat(pa.scalar(value), table.num_rows))
    return table
