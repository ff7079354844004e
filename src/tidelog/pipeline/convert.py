"""Folders of versions as jobs published them before there were tables that others read, made such tables.

    CURRENT                      the number of the current version
    versions/7/manifest.json     what version 7 consists of: for each predicate, the files of its rows
    versions/7/facts/…           a base, and with the versions after it the rows that came and went
    versions/7/rejects/…         rows that were rejected

Each version becomes one of the new folder, with what it said of itself; what changed between two is found by
comparing them. A conversion that was stopped goes on where it was.
"""

from __future__ import annotations

import json
import shutil
from collections.abc import Callable, Mapping
from dataclasses import replace
from datetime import datetime
from pathlib import Path
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.parquet as pq

from tidelog.data.typed_columns import arrow_type, to_typed, with_mixed
from tidelog.engine.columnar.storage.catalog import ColumnarEngine
from tidelog.errors import DataError, Diagnostic
from tidelog.io.python_data import from_python
from tidelog.io.rejects import Faults, OnError
from tidelog.logic.types import Contents, types_of_column
from tidelog.logic.values import ColumnType
from tidelog.maintenance.row_sets import Rows, distinct, joined, without
from tidelog.pipeline import codes
from tidelog.pipeline.facts import nothing
from tidelog.pipeline.holding import EXACTLY, HOLDS, PIECE
from tidelog.pipeline.manifest import Input, Origin
from tidelog.pipeline.store import REJECTS, is_former
from tidelog.pipeline.times import Layout, ids_in, time_arrays
from tidelog.publish import Publication, Published
from tidelog.publish.schemas import is_same, normal

LAYOUT: Final = 1  # of manifests that are read here
CONVERTED: Final = "converted"  # the key, in what a version says of itself, of the number it had
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
    """Convert a folder of versions into published tables in another one; `reached` is told both numbers."""
    if not is_former(folder):
        message = f"`{folder}` has no versions in the format of before"
        help = "nothing has to be converted" if (folder / "_tidelog.json").is_file() else None
        raise DataError(Diagnostic(codes.NO_VERSION, message, place=str(folder), help=help))
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
        message = f"`{path}` is no manifest of a version: {error}"
        raise DataError(Diagnostic(codes.DAMAGED, message, place=str(path))) from None


class _Conversion:
    """One folder being converted. Mutates itself and the new folder."""

    def __init__(self, folder: Path, published: Published) -> None:
        self._folder = folder
        self._published = published
        self._engine = ColumnarEngine(1)

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
            parts = (_slice(now, start) for start in range(0, now.count, PIECE))
            publication.write(name, schema, (self._arrow(each, table, layout, schema) for each in parts))
            return
        old = self._rows(then)
        come, gone = without(now, old), without(old, now)
        if come.count or gone.count:
            both = (self._arrow(each, table, layout, schema) for each in (come, gone))
            publication.change(name, *both)

    # ---- rows

    def _rows(self, table: Any) -> Rows:
        """Return the rows that the files of a table say."""
        rows = nothing(len(table["types"]))
        for part in table["facts"]:
            some = self._part(part, table)
            rows = without(rows, some) if part["role"] == "removed" else joined([rows, some])
        return distinct([rows])

    def _part(self, part: Any, table: Any) -> Rows:
        path = self._folder / part["path"]
        try:
            found = pq.read_table(path)
        except (OSError, pa.ArrowException) as error:
            message = f"`{path}` is damaged: {str(error).splitlines()[0]}"
            raise DataError(Diagnostic(codes.DAMAGED, message, place=str(path))) from error
        if found.num_rows != part["rows"]:
            message = f"`{path}` is damaged: it has {found.num_rows} rows instead of {part['rows']}"
            raise DataError(Diagnostic(codes.DAMAGED, message, place=str(path)))
        types = tuple(map(ColumnType, part["types"]))
        if not types:
            return Rows((), found.num_rows)
        count = len(types) - part["times"]
        parts: list[list[Any]] = [[] for _ in range(count)]
        arguments = found.select(range(count))
        names = tuple(table["columns"][:count])
        for batch in from_python(arguments, types[:count], names, Faults(OnError.FAIL)):
            for place, column in enumerate(batch.columns):
                parts[place].append(self._engine.encode_column(column))
        columns = [np.concatenate(some) if some else np.zeros(0, np.int32) for some in parts]
        for column, kind in zip(found.columns[count:], types[count:], strict=True):
            plain = column.cast(column.type.value_type) if pa.types.is_dictionary(column.type) else column
            columns.append(ids_in(plain, kind, self._engine.dictionary))
        return Rows(tuple(columns), found.num_rows)

    def _arrow(self, rows: Rows, table: Any, layout: Layout, schema: Any) -> Any:
        if not layout.names:
            return pa.Table.from_arrays([pa.array([True] * rows.count)], schema=schema)
        dictionary = self._engine.dictionary
        contents = _contents(table)
        arrays = [to_typed(dictionary, ids, each) for ids, each in zip(rows.columns, contents, strict=False)]
        if layout.times:
            arrays += time_arrays(rows, layout, _TIMES[: layout.times], dictionary)
        arrays = [array.cast(field.type) for array, field in zip(arrays, schema, strict=True)]
        return pa.Table.from_arrays(arrays, schema=schema)

    # ---- what a version says of itself

    def _origin(self, manifest: Any) -> Origin:
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
        return Origin.from_json(known)

    def _with_rejects(self, inputs: Mapping[str, Input], number: int) -> Mapping[str, Input]:
        """Return inputs whose files of rejected rows are copied beside the new tables."""
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


def _layout(manifest: Any, table: Any) -> Layout:
    time = manifest.get("time")
    return Layout(tuple(table["columns"]), table.get("times") or 0, bool(time and time["timeline"][2]))


def _contents(table: Any) -> tuple[Contents, ...]:
    kinds = map(ColumnType, table["types"][: _arguments(table)])
    return with_mixed((Contents(types_of_column(each)) for each in kinds), EXACTLY)


def _schema(table: Any) -> Any:
    """Return the columns of the new table: as jobs publish them today."""
    names, contents = table["columns"], _contents(table)
    if not names:
        return pa.schema([pa.field(HOLDS, pa.bool_(), nullable=False)])
    fields = [
        pa.field(name, arrow_type(each), nullable=False) for name, each in zip(names, contents, strict=False)
    ]
    kinds = {ColumnType.STRING: pa.string(), ColumnType.BOOLEAN: pa.bool_()}
    for name, kind in zip(names[len(contents) :], _TIMES, strict=False):
        fields.append(pa.field(name, kinds[kind], nullable=kind is ColumnType.STRING))
    return pa.schema(fields)


def _slice(rows: Rows, start: int) -> Rows:
    columns = tuple(column[start : start + PIECE] for column in rows.columns)
    return Rows(columns, min(PIECE, rows.count - start))
