"""Data files of published tables: footers, rows written and deleted; the protocol of table formats.

A file is never changed. Rows are deleted by writing the other rows of their file into a new one; which files
hold them is decided by statistics first, then by reading one file at a time.
"""

from __future__ import annotations

import dataclasses
import datetime as dt
import json
import uuid
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from decimal import Decimal
from typing import Any, Final, Protocol, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.parquet as pq

from tidelog.errors import DataError, Diagnostic, codes, counted
from tidelog.publish.object_storage import StorageFolder
from tidelog.publish.published_schemas import CHANGE_TYPE, PublishedVersion, TableVersion, normal_type
from tidelog.records import dataclass

ROWS: Final = 1 << 18  # of a file that is written here, so that deleting a row rewrites no more
BUFFER: Final = 1 << 20  # bytes that are read at once of a file that is read in pieces
SMALL: Final = ROWS // 8  # rows of a file that is merged with others
MANY: Final = 32  # small files of a table, from which on they are merged
_TEXT: Final = 64  # characters of text that statistics keep
_EXACT: Final = 15  # digits of decimals in statistics: some readers take them for doubles

Value: TypeAlias = int | str | Decimal | dt.date | dt.datetime


@dataclass(frozen=True)
class Range:
    """What is known of a column of a file: no value is below `low` or above `high`; None is not known."""

    low: Value | None
    high: Value | None
    nulls: int | None


@dataclass(frozen=True)
class TableFile:
    """A Parquet file of a table, by its path below the table's folder."""

    path: str
    rows: int
    size: int
    columns: Mapping[str, Range]
    partition: Mapping[str, str] = dataclasses.field(default_factory=dict)  # in a table of changes


def described(folder: StorageFolder, path: str, schema: pa.Schema) -> TableFile:
    """Return what a file's footer says of it; raise a diagnostic if it does not fit the schema."""
    place = folder.location(path)
    try:
        with folder.filesystem.open_input_file(folder.path(path)) as stream:
            size = stream.size()
            metadata = pq.read_metadata(stream)
    except (OSError, pa.ArrowException) as error:
        message = f"`{place}` cannot be read as Parquet: {error}"
        raise DataError(Diagnostic(codes.WRONG_FILE, message, place=place)) from error
    _check_columns(metadata, schema, place)
    columns = {name: _range(metadata, column) for column, name in _flat_columns(metadata)}
    for field in schema:
        nulls = columns[field.name].nulls if field.name in columns else None
        if not field.nullable and nulls:
            message = f"column `{field.name}` has {counted(nulls, 'missing value')}: its table allows none"
            raise DataError(Diagnostic(codes.WRONG_FILE, message, place=place))
    return TableFile(path, metadata.num_rows, size, columns)


def _check_columns(metadata: Any, schema: pa.Schema, position: str) -> None:
    physical = {metadata.schema.column(position).physical_type for position in range(metadata.num_columns)}
    if "INT96" in physical:
        message = "timestamps are stored as INT96, an old type of Parquet without statistics"
        setting = "spark.sql.parquet.outputTimestampType=TIMESTAMP_MICROS"
        raise DataError(
            Diagnostic(codes.WRONG_FILE, message, help=f"let Spark write with {setting}", place=position)
        )
    found = {field.name: normal_type(field.type) for field in metadata.schema.to_arrow_schema()}
    wanted = {field.name: field.type for field in schema}
    if found == wanted:
        return
    wrong = sorted(name for name in found.keys() | wanted if found.get(name) != wanted.get(name))
    shown = ", ".join(
        f"`{name}` is {found.get(name) or 'not there'} instead of {wanted.get(name) or 'not there'}"
        for name in wrong
    )
    raise DataError(
        Diagnostic(codes.WRONG_FILE, f"the file has other columns than its table: {shown}", place=position)
    )


def _flat_columns(metadata: Any) -> Iterator[tuple[int, str]]:
    for position in range(metadata.num_columns):
        column = metadata.schema.column(position)
        if column.path == column.name and column.max_repetition_level == 0:
            yield position, column.name


def _range(metadata: Any, column: int) -> Range:
    groups = [metadata.row_group(position).column(column) for position in range(metadata.num_row_groups)]
    found = [group.statistics for group in groups]
    if any(each is None for each in found):
        return Range(None, None, None)
    nulls = sum(each.null_count for each in found) if all(each.has_null_count for each in found) else None
    valued = [each for each in found if each.has_min_max]
    # A group without bounds has either no values, or values that its writer did not compare.
    if not valued or any(each.num_values and not each.has_min_max for each in found):
        return Range(None, None, nulls)
    try:
        low, high = min(each.min for each in valued), max(each.max for each in valued)
    except (OverflowError, TypeError, ValueError):  # a date that Python does not have
        return Range(None, None, nulls)
    return Range(*_bounds(low, high), nulls)


def _bounds(low: Any, high: Any) -> tuple[Value | None, Value | None]:
    """Return bounds as they are kept: none of floating-point columns, as footers do not count NaN."""
    if isinstance(low, str):
        top = high if len(high) <= _TEXT else high[:_TEXT] + "\U0010ffff"
        return low[:_TEXT], top
    if isinstance(low, Decimal):
        is_exact = all(len(each.as_tuple().digits) <= _EXACT for each in (low, high))
        return (low, high) if is_exact else (None, None)
    if isinstance(low, dt.datetime):
        return _at_millisecond(low), _at_millisecond(high, is_up=True)
    if isinstance(low, dt.date) or (isinstance(low, int) and not isinstance(low, bool)):
        return low, high
    return None, None


def _at_millisecond(time: dt.datetime, is_up: bool = False) -> dt.datetime | None:
    """Return the millisecond before a time, or after it: logs of Delta have no more digits."""
    rest = time.microsecond % 1000
    try:
        return time + dt.timedelta(microseconds=(1000 - rest) if is_up and rest else -rest)
    except OverflowError:
        return None


def statistics_json(file: TableFile) -> str:
    """Return what is known of a file as Delta's log has it."""
    low = {name: _literal(each.low) for name, each in file.columns.items() if each.low is not None}
    high = {name: _literal(each.high) for name, each in file.columns.items() if each.high is not None}
    nulls = {name: str(each.nulls) for name, each in file.columns.items() if each.nulls is not None}
    parts = {
        "numRecords": str(file.rows),
        "minValues": _object(low),
        "maxValues": _object(high),
        "nullCount": _object(nulls),
    }
    return _object(parts)


def _object(members: Mapping[str, str]) -> str:
    return "{" + ",".join(f"{json.dumps(name)}:{text}" for name, text in members.items()) + "}"


def _literal(value: Value | None) -> str:
    """Return a value as JSON; a decimal is a number with all of its digits, which `json` does not write."""
    if isinstance(value, Decimal):
        return f"{value:f}"
    if isinstance(value, dt.datetime):
        zone = "Z" if value.tzinfo else ""
        return json.dumps(value.replace(tzinfo=None).isoformat(timespec="milliseconds") + zone)
    if isinstance(value, dt.date):
        return json.dumps(value.isoformat())
    return json.dumps(value)


def file_of_json(path: str, size: int, text: str, schema: pa.Schema) -> TableFile:
    """Return the file that `statistics_json` describes."""
    record = json.loads(text, parse_float=Decimal)
    columns = {}
    for field in schema:
        low, high = (_value(record[key].get(field.name), field.type) for key in ("minValues", "maxValues"))
        nulls = record["nullCount"].get(field.name)
        if nulls is not None or low is not None:
            columns[field.name] = Range(low, high, nulls)
    return TableFile(path, record["numRecords"], size, columns)


def _value(found: Any, type_: pa.DataType) -> Value | None:
    if found is None:
        return None
    if pa.types.is_decimal(type_):
        return Decimal(found)
    if pa.types.is_timestamp(type_):
        return dt.datetime.fromisoformat(found)
    if pa.types.is_date(type_):
        return dt.date.fromisoformat(found)
    value: Value = found
    return value


# ---- writing


def fitted(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Return rows in the columns and types of a schema; raise a diagnostic for what does not fit."""
    missing = [name for name in schema.names if name not in rows.column_names]
    if missing or len(schema.names) != rows.num_columns:
        message = (
            f"the rows have the columns {', '.join(rows.column_names)} instead of {', '.join(schema.names)}"
        )
        raise DataError(Diagnostic(codes.WRONG_FILE, message))
    try:
        columns = [rows.column(field.name).cast(field.type) for field in schema]
        for field, column in zip(schema, columns, strict=True):
            if not field.nullable and column.null_count:
                raise pa.ArrowInvalid(f"column `{field.name}` has missing values, and its table allows none")
    except pa.ArrowException as error:
        raise DataError(Diagnostic(codes.WRONG_FILE, f"the rows do not fit their table: {error}")) from error
    return pa.Table.from_arrays(columns, schema=schema)


def written(folder: StorageFolder, prefix: str, rows: pa.Table) -> tuple[str, ...]:
    """Write rows into as many files as they need, and return the paths of these below the folder."""
    paths = []
    for start in range(0, max(rows.num_rows, 1), ROWS):
        path = f"{prefix}-{uuid.uuid4().hex}.parquet"
        write_file(folder, path, rows.slice(start, ROWS))
        paths.append(path)
    return tuple(paths)


def write_file(folder: StorageFolder, path: str, rows: pa.Table) -> None:
    """Write rows as one Parquet file."""
    if folder.is_local:
        (folder.local / path).parent.mkdir(parents=True, exist_ok=True)
    try:
        pq.write_table(rows, folder.path(path), filesystem=folder.filesystem, compression="snappy")
    except BaseException:
        folder.remove(path)
        raise


@contextmanager
def _opened(folder: StorageFolder, path: str) -> Iterator[Any]:
    """Open a file that a table names."""
    try:
        stream = folder.filesystem.open_input_file(folder.path(path))
    except FileNotFoundError as error:
        place = folder.location(path)
        message = f"`{place}` is missing, though its table names it"
        raise DataError(Diagnostic(codes.PUBLISH_DAMAGED, message, place=place)) from error
    with stream:
        yield stream


def read_file(folder: StorageFolder, path: str, schema: pa.Schema) -> pa.Table:
    """Return the rows of a file, in the columns and types of a schema."""
    with _opened(folder, path) as stream:
        return _in_columns(pq.ParquetFile(stream).read(columns=schema.names), schema)


def read_pieces(folder: StorageFolder, path: str, schema: pa.Schema, rows: int) -> Iterator[pa.Table]:
    """Yield the rows of a file in batches, in the columns and types of a schema.

    Neither a row group nor its bytes have to fit in memory.
    """
    with _opened(folder, path) as stream:
        for batch in pq.ParquetFile(stream, buffer_size=BUFFER).iter_batches(rows, columns=schema.names):
            yield _in_columns(batch, schema)


def _in_columns(rows: pa.Table | pa.RecordBatch, schema: pa.Schema) -> pa.Table:
    columns = [rows.column(field.name).cast(field.type) for field in schema]
    return pa.Table.from_arrays(columns, schema=schema)


def change_counts(folder: StorageFolder, paths: Iterable[str]) -> tuple[int, int]:
    """Return how many rows of change files are inserted and deleted; one row group is read at a time."""
    inserted = deleted = 0
    for path in paths:
        with folder.filesystem.open_input_file(folder.path(path)) as stream:
            for batch in pq.ParquetFile(stream).iter_batches(columns=[CHANGE_TYPE]):
                kinds = batch.column(0)
                added = pc.sum(pc.equal(kinds, "insert")).as_py() or 0
                removed = pc.sum(pc.equal(kinds, "delete")).as_py() or 0
                if added + removed != batch.num_rows:
                    message = f"`{CHANGE_TYPE}` has values other than `insert` and `delete`"
                    raise DataError(Diagnostic(codes.WRONG_FILE, message, place=folder.location(path)))
                inserted, deleted = inserted + added, deleted + removed
    return inserted, deleted


# ---- deleting


def may_hold(file: TableFile, rows: pa.Table) -> Any:
    """Return a mask of the rows that a file may hold, by its statistics."""
    mask = np.ones(rows.num_rows, dtype=bool)
    for name in rows.column_names:
        known = file.columns.get(name)
        if known is None:
            continue
        column = rows.column(name)
        is_null = column.is_null().to_numpy()
        inside = np.ones(rows.num_rows, dtype=bool)
        if known.low is not None:
            low = pc.greater_equal(column, pa.scalar(known.low, column.type))
            inside &= pc.fill_null(low, False).to_numpy()
        if known.high is not None:
            high = pc.less_equal(column, pa.scalar(known.high, column.type))
            inside &= pc.fill_null(high, False).to_numpy()
        mask &= np.where(is_null, known.nulls != 0, inside)
    return mask


def found_in(rows: pa.Table, wanted: pa.Table) -> tuple[Any, Any]:
    """Return masks of the rows that are among the wanted ones, and of the wanted ones that exist.

    Missing values are equal to one another, and so are NaNs.
    """
    left = np.arange(rows.num_rows)
    for name in wanted.column_names:
        if not len(left) or pa.types.is_nested(wanted.schema.field(name).type):
            continue
        column = rows.column(name)
        column = column if len(left) == rows.num_rows else column.take(pa.array(left))
        is_wanted = pc.is_in(column, value_set=pc.unique(wanted.column(name)))
        left = left[is_wanted.to_numpy()]
    mask = np.zeros(rows.num_rows, dtype=bool)
    if not len(left):
        return mask, np.zeros(wanted.num_rows, dtype=bool)
    found = keys(pa.concat_tables([rows.take(pa.array(left)), wanted]))
    ours, theirs = found[: len(left)], found[len(left) :]
    mask[left[np.isin(ours, theirs)]] = True
    return mask, np.isin(theirs, ours)


def keys(rows: pa.Table) -> Any:
    """Return an integer for each row: the same for equal rows, and only for these."""
    found = np.zeros(rows.num_rows, dtype=np.int64)
    size = 1
    for column in _leaves(rows.columns):
        encoded = pc.dictionary_encode(column, null_encoding="encode").combine_chunks()
        if isinstance(encoded, pa.ChunkedArray):
            encoded = encoded.chunk(0)
        count = max(len(encoded.dictionary), 1)
        if size > (1 << 62) // count:
            distinct, found = np.unique(found, return_inverse=True)
            size = len(distinct)
        found = found * count + encoded.indices.to_numpy()
        size *= count
    return found


def _leaves(columns: Sequence[Any]) -> Iterator[Any]:
    """Yield columns that have no fields of their own; a list becomes text."""
    for column in columns:
        if pa.types.is_struct(column.type):
            yield column.is_null()
            yield from _leaves(column.flatten())
        elif pa.types.is_nested(column.type):
            yield pa.chunked_array([pa.array([repr(value) for value in column.to_pylist()], pa.string())])
        else:
            yield column


def shown_row(rows: pa.Table, mask: Any) -> str:
    """Return the first row of a mask as text, for a message."""
    (row,) = rows.slice(int(np.argmax(mask)), 1).to_pylist()
    return ", ".join(f"{name}: {value}" for name, value in row.items())


class Deletion:
    """Rows that are deleted from one file: found in one pass, and the rest is written in another.

    A file of ordinary size is read once; a larger one twice, a part at a time.
    """

    def __init__(self, folder: StorageFolder, file: TableFile, schema: pa.Schema, deleted: pa.Table) -> None:
        """Find the rows."""
        self._folder, self._file, self._schema = folder, file, schema
        self._parts: list[pa.Table] = []
        self._masks: list[Any] = []
        self.is_found = np.zeros(deleted.num_rows, dtype=bool)  # which of the rows to delete are in the file
        for part in self._read():
            mask, is_found = found_in(part, deleted)
            self._masks.append(mask)
            self.is_found |= is_found
            if file.rows <= ROWS:
                self._parts.append(part)
        self.count = int(sum(mask.sum() for mask in self._masks))

    def _read(self) -> Iterator[pa.Table]:
        if self._file.rows <= ROWS:
            yield read_file(self._folder, self._file.path, self._schema)
        else:
            yield from read_pieces(self._folder, self._file.path, self._schema, ROWS)

    def rest(self, prefix: str) -> list[str]:
        """Write the other rows of the file into new ones, and return their paths."""
        paths: list[str] = []
        parts = self._parts or self._read()
        for part, mask in zip(parts, self._masks, strict=True):
            rows = part.filter(pa.array(~mask))
            if rows.num_rows:
                paths += written(self._folder, prefix, rows)
        return paths


# ---- table formats

INSERT, DELETE, BOTH = "insert", "delete", "both"
CHANGES: Final = "_changes"  # the folder of change files, where the format has no place of its own


@dataclass(frozen=True)
class ChangeFile:
    """A file with rows that a version has inserted or deleted.

    `kind` is `insert` or `delete` for all rows of a data file, or `both` for a file that has a column
    `_change_type`. `location` is a path or an address.
    """

    location: str
    kind: str
    number: int  # of the published version


def files_of_difference(
    folder: StorageFolder, new: Collection[str], old: Collection[str], number: int
) -> tuple[ChangeFile, ...]:
    """Return the data files that a version has removed, and those that it has added."""
    deleted = [ChangeFile(folder.location(path), DELETE, number) for path in sorted(set(old) - set(new))]
    inserted = [ChangeFile(folder.location(path), INSERT, number) for path in sorted(set(new) - set(old))]
    return (*deleted, *inserted)


def damaged_table(folder: StorageFolder, what: str) -> DataError:
    """Return the error for a table whose files or metadata are not what they must be."""
    message = f"`{folder.address}` is damaged: {what}"
    return DataError(Diagnostic(codes.PUBLISH_DAMAGED, message, place=folder.address))


@dataclass(frozen=True)
class TablePlan:
    """What a table becomes: all files of its next version, and the exact change if the files do not show it.

    `changes` are change files, by their paths below the folder of these; None means that the rows of added
    files are inserted, and those of removed files deleted.
    """

    table: str
    schema: pa.Schema
    files: tuple[TableFile, ...]
    changes: tuple[TableFile, ...] | None = None
    is_dropped: bool = False


class TableFormat(Protocol):
    """The tables of a folder in one format, and its table of versions.

    A version of a table in its own format is a number; it stays readable until `vacuum`.
    """

    format: str
    metadata: str  # the folder below a table's own in which the format keeps its metadata
    needs_a_file: bool  # whether a table without rows has a file nevertheless, for its schema

    def changes_folder(self, table: str) -> StorageFolder:
        """Return where change files of a table are."""
        ...

    def commit(self, plan: TablePlan, base: TableVersion | None, number: int) -> int:
        """Make files the content of a table, and return the version in the format.

        Whatever was committed after `base` and is not published is replaced.
        """
        ...

    def restore(self, table: str, base: TableVersion | None, number: int) -> None:
        """Bring a table back to a version, None if it was not there, after a commit that is not published.

        `number` is that of the version that was not completed. Does nothing where nothing was committed.
        """
        ...

    def files(self, version: TableVersion) -> tuple[TableFile, ...]:
        """Return the data files of a version."""
        ...

    def changes(self, version: TableVersion, before: TableVersion | None) -> tuple[ChangeFile, ...]:
        """Return the files with what one version has changed."""
        ...

    def numbers(self) -> tuple[int, ...]:
        """Return the numbers of all published versions, in order."""
        ...

    def version(self, number: int | None) -> PublishedVersion | None:
        """Return a published version, the last one for None; None if it does not exist."""
        ...

    def versions(self, first: int, last: int) -> tuple[PublishedVersion, ...]:
        """Return the published versions from one number to another, in order."""
        ...

    def version_files(self) -> Collection[str]:
        """Return the data files of the table of versions, by their paths below its folder."""
        ...

    def publish(self, version: PublishedVersion) -> None:
        """Add a version to the table of versions: from then on it is the last one."""
        ...

    def settle(self) -> None:
        """Do what may wait until a version is published, such as checkpoints of logs."""
        ...

    def forget(self, kept: tuple[PublishedVersion, ...]) -> None:
        """Forget all versions but these, in the table of versions and in what the format keeps of tables.

        The versions follow one another, and the last one is the current one. Data files are deleted by the
        caller, afterwards.
        """
        ...
