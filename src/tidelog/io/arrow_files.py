"""Arrow data as columns: Parquet and Arrow files, and anything in Python that offers Arrow's interface.

Every required column is validated in full before a kernel reads it: offsets that point past the values, or
text that is not UTF-8, would crash the process. A row with a missing value or NaN is bad, since neither is a
value. A struct with a field for each type holds values of several types. Numbers become doubles and decimals
where those are declared; else a column of another type than the declared one is an error, not a conversion.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from tidelog.data.arrow import MARKS, MISSING, SEVERAL, ZERO, Array, chosen_fields, fields_of, mask_of, pc
from tidelog.data.columns import (
    NULL,
    Batch,
    Column,
    column_of_values,
    policy,
    read_texts,
    type_of,
    with_bounds,
)
from tidelog.errors import DataError, Diagnostic, codes, counted
from tidelog.io.data_file import InputFile
from tidelog.io.rejects import BadRow, RejectedRows
from tidelog.logic import conversions
from tidelog.logic.import_options import Nulls
from tidelog.logic.types import Type, column_of, types_of_column
from tidelog.logic.values import ColumnType, Value, conform
from tidelog.records import dataclass

_INT32_OFFSETS = 2**31 - 1
_ACCEPTED = {
    ColumnType.DOUBLE: {ColumnType.INTEGER, ColumnType.DECIMAL, ColumnType.DOUBLE},
    ColumnType.DECIMAL: {ColumnType.INTEGER, ColumnType.DECIMAL},
}


@dataclass(frozen=True)
class ColumnRequest:
    """The required columns of Arrow data, in the predicate's order; messages call the data `shown`."""

    places: tuple[int, ...]
    types: tuple[ColumnType, ...]
    names: tuple[str, ...]
    shown: str
    marks: tuple[ColumnType | None, ...]  # how texts are meant, where the data says so
    times: int = 0  # columns at the end that say when
    nulls: tuple[Nulls, ...] = ()


def wanted_columns(
    schema: Any, types: tuple[ColumnType, ...] | None, names: tuple[str | None, ...], shown: str
) -> ColumnRequest:
    """The columns of the predicate's names if the data has them all, else its columns in order."""
    try:
        found = tuple(schema.names)
    except UnicodeDecodeError:
        raise _malformed("the name of a column is not UTF-8", shown) from None
    if types is None:
        types, names = (ColumnType.ANY,) * len(found), ()
    if names and len(names) == len(types) and all(name in found for name in names):
        places = tuple(found.index(name) for name in names)
        return ColumnRequest(places, types, tuple(map(str, names)), shown, _marks(schema, places))
    if len(found) != len(types):
        message = f"the data has {counted(len(found), 'column')} instead of {len(types)}"
        help_line = "its columns are " + ", ".join(f"`{name}`" for name in found)
        raise DataError(Diagnostic(codes.WRONG_WIDTH, message, place=shown, help=help_line))
    places = tuple(index for index, column_type in enumerate(types) if column_type is not ColumnType.SKIP)
    wanted_types, wanted_names = tuple(types[i] for i in places), tuple(found[i] for i in places)
    return ColumnRequest(places, wanted_types, wanted_names, shown, _marks(schema, places))


def _marks(schema: Any, places: Sequence[int]) -> tuple[ColumnType | None, ...]:
    return tuple(type_of(schema.field(place)) for place in places)


def read_arrow_data(tables: Iterable[Any], wanted: ColumnRequest, faults: RejectedRows) -> Iterator[Batch]:
    """The required columns of record batches or tables that follow each other."""
    first_row = 1
    for table in tables:
        places = zip(wanted.places, wanted.names, strict=True)
        columns = [validated(table.column(index), name, wanted.shown) for index, name in places]
        rows = np.arange(first_row, first_row + table.num_rows)
        try:
            arrays = with_bounds([_plain_array(column) for column in columns], wanted.times)
            batches = [_read_part(part, wanted, faults) for part in _parts(arrays, rows, wanted, faults)]
        except pa.ArrowMemoryError:  # says nothing about the data
            raise
        except pa.ArrowException as fault:
            message = f"the data cannot be read: {fault}"
            raise DataError(Diagnostic(codes.NO_SUCH_VALUES, message, place=wanted.shown)) from fault
        first_row += table.num_rows
        yield from (batch for batch in batches if batch.rows and not faults.failed)


@dataclass(frozen=True)
class _Part:
    """Rows with their numbers, and the places in which they lack a value that is one."""

    arrays: Sequence[Array]
    rows: Any
    wanted: ColumnRequest
    lacking: Sequence[int] = ()


def _read_part(part: _Part, wanted: ColumnRequest, faults: RejectedRows) -> Batch:
    """The batch of the rows that can be read; missing values that are values are counted."""
    batch = _read_rows(part.arrays, part.rows, part.wanted, faults)
    for place in part.lacking:
        if batch.rows:
            faults.nulls[wanted.shown, wanted.names[place], Nulls.VALUE.value] += batch.rows
    return batch


def _parts(
    arrays: Sequence[Array], rows: Any, wanted: ColumnRequest, faults: RejectedRows
) -> Iterator[_Part]:
    """Yield the rows apart that lack the same values, where a missing value is one.

    Rows whose structs hold values of different types are apart, too.
    """
    structs = {position: fields for position, array in enumerate(arrays) if (fields := fields_of(array.type))}
    codes_of = {position: chosen_fields(arrays[position]) for position in structs}
    for position, array in enumerate(arrays):
        if array.null_count and position not in structs and policy(wanted.nulls, position) is Nulls.VALUE:
            is_null = pc.is_null(array).to_numpy(zero_copy_only=False)
            codes_of[position] = np.where(is_null, MISSING, 0)
    if not codes_of or not len(rows):
        empty = pa.array([], pa.string())
        plain = [empty if position in structs else array for position, array in enumerate(arrays)]
        yield _Part(plain, rows, wanted)
        return
    every = np.stack(list(codes_of.values()))
    for pattern in np.unique(every, axis=1).T:
        chosen = (every == pattern[:, None]).all(axis=0)
        some = dict(zip(codes_of, pattern.tolist(), strict=True))
        part = [array.filter(mask_of(chosen)) for array in arrays]
        faulty = _faulty(some, structs, wanted)
        if faulty is not None:
            bad = dict.fromkeys(range(int(chosen.sum())), faulty)
            _reject(bad, part, rows[chosen], wanted, faults)
            continue
        yield _of_pattern(part, rows[chosen], wanted, some, structs)


def _faulty(
    pattern: Mapping[int, int], structs: Mapping[int, Sequence[Type]], wanted: ColumnRequest
) -> tuple[int, str] | None:
    """Return the column with bad structs of these fields, and the reason."""
    for place, number in pattern.items():
        if number == SEVERAL:
            return place, "a struct of several types has exactly one value"
        if number != MISSING and place in structs:
            held, declared = structs[place][number], wanted.types[place]
            accepted = _ACCEPTED.get(declared.base, ())
            if held not in types_of_column(declared) and column_of(frozenset({held})) not in accepted:
                return place, f"the value is of type {held.value}, not {declared.value}"
    return None


def _of_pattern(
    part: list[Array],
    rows: Any,
    wanted: ColumnRequest,
    pattern: Mapping[int, int],
    structs: Mapping[int, Sequence[Type]],
) -> _Part:
    """Return rows in which columns lack their values, or have structs with a value in the same field."""
    types, marks, lacking = list(wanted.types), list(wanted.marks), []
    for place, number in pattern.items():
        if number == MISSING and policy(wanted.nulls, place) is Nulls.VALUE:
            lacking.append(place)
            part[place] = pa.array([conversions.exact(NULL)] * len(rows), pa.string())
            types[place], marks[place] = ColumnType.TERM, ColumnType.TERM
        elif number == MISSING:
            part[place] = pa.nulls(len(rows), pa.string())
        elif place in structs:
            part[place] = _plain_array(part[place].flatten()[number])
            marks[place] = MARKS.get(structs[place][number])
    return _Part(part, rows, replace(wanted, types=tuple(types), marks=tuple(marks)), lacking)


def validated(values: Array, name: str, shown: str) -> Array:
    """Return the column; raise `DataError` if its buffers do not fit together, or its text is not UTF-8."""
    try:
        values.validate(full=True)
    except (pa.ArrowInvalid, pa.ArrowIndexError) as fault:
        raise _malformed(f"column `{name}` is damaged: {fault}", shown) from None
    return values


def _malformed(message: str, shown: str) -> DataError:
    return DataError(Diagnostic(codes.MALFORMED, message, place=shown, help="write the data again"))


def _read_rows(arrays: Sequence[Array], rows: Any, wanted: ColumnRequest, faults: RejectedRows) -> Batch:
    """The batch of the rows that can be read; `rows` are their numbers in the data."""
    bad: dict[int, tuple[int, str]] = {}
    # A row that is to be left out for one column, and rejected for another, is rejected.
    lacking = [
        (_is_left_out(array, index, wanted, position), position, index)
        for position, array in enumerate(arrays)
        for index in _missing(array)
    ]
    for _, position, index in sorted(lacking):
        bad.setdefault(index, (position, "the value is missing"))
    if bad:
        return _without(bad, arrays, rows, wanted, faults)
    columns: list[Column] = []
    for position, (array, column_type) in enumerate(zip(arrays, wanted.types, strict=True)):
        column, reasons = _column(array, column_type, wanted, position)
        columns.append(column)
        for index, reason in reasons.items():
            bad.setdefault(index, (position, reason))
    return _without(bad, arrays, rows, wanted, faults) if bad else Batch(tuple(columns), len(rows))


def _without(
    bad: dict[int, tuple[int, str]],
    arrays: Sequence[Array],
    rows: Any,
    wanted: ColumnRequest,
    faults: RejectedRows,
) -> Batch:
    """The batch without the bad rows, which are given to `faults`."""
    _reject(bad, arrays, rows, wanted, faults)
    keep = np.ones(len(rows), bool)
    keep[list(bad)] = False
    return _read_rows([array.filter(mask_of(keep)) for array in arrays], rows[keep], wanted, faults)


def _reject(
    bad: dict[int, tuple[int, str]],
    arrays: Sequence[Array],
    rows: Any,
    wanted: ColumnRequest,
    faults: RejectedRows,
) -> None:
    """Give the bad rows to `faults`: each has the place of its column, and the reason."""
    for index, (place, reason) in sorted(bad.items()):
        where = f"{wanted.shown}:{rows[index]}:{wanted.places[place] + 1}"
        fault = Diagnostic(codes.NOT_OF_TYPE, f"{reason} (column `{wanted.names[place]}`)", place=where)
        is_left_out = _is_left_out(arrays[place], index, wanted, place)
        if not is_left_out and not arrays[place][index].is_valid:
            faults.nulls[wanted.shown, wanted.names[place], Nulls.REJECT.value] += 1
        text = "" if is_left_out else json.dumps([_object(array[index]) for array in arrays], default=str)
        faults.add(BadRow(fault, text, wanted.names[place] if is_left_out else None))


def _is_left_out(array: Array, index: int, wanted: ColumnRequest, place: int) -> bool:
    """Whether a row is left out for a value that its column lacks; NaN is rejected all the same."""
    return policy(wanted.nulls, place) is Nulls.DROP_ROW and not array[index].is_valid


def _object(scalar: Any) -> object:
    """Return a value as Python has it, as text where Python has no such date or number."""
    try:
        return scalar.as_py()
    except (ValueError, OverflowError):
        return str(scalar.cast(pa.string()))


def _missing(array: Array) -> list[int]:
    """The places of the values that are missing or NaN."""
    if array.null_count == 0 and not pa.types.is_floating(array.type):
        return []
    places: list[int] = pc.indices_nonzero(pc.is_null(array, nan_is_null=True)).to_pylist()
    return places


def _plain_array(values: Array) -> Array:
    """The values as one array without dictionary, run lengths, views or extension."""
    array = values.combine_chunks() if isinstance(values, pa.ChunkedArray) else values
    if isinstance(array, pa.ChunkedArray):  # more text than one array holds
        return array
    while True:  # one may hold another: a dictionary of an extension type
        if isinstance(array.type, pa.BaseExtensionType):
            array = array.storage
        elif pa.types.is_dictionary(array.type):
            array = array.dictionary_decode()
        elif pa.types.is_run_end_encoded(array.type):
            array = pc.run_end_decode(array)
        else:
            break
    if pa.types.is_string_view(array.type) or (
        pa.types.is_large_string(array.type) and array.nbytes < _INT32_OFFSETS
    ):
        array = array.cast(pa.string())
    return array


def _column(
    array: Array, column_type: ColumnType, wanted: ColumnRequest, place: int
) -> tuple[Column, dict[int, str]]:
    """The array as a column of the type, and by their places the reasons why some texts are not of it."""
    natural = _natural_column(array)
    if natural is None:
        message = f"column `{wanted.names[place]}` is of Arrow's type {array.type}, which is not supported"
        raise DataError(Diagnostic(codes.NO_SUCH_VALUES, message, place=wanted.shown))
    mark = wanted.marks[place] if natural.type is ColumnType.ANY else None
    if mark is not None and column_type in (ColumnType.ANY, ColumnType.TERM):
        return column_with_faults(array, mark)
    # Integers beyond 63 bits are a column of terms.
    type_of_data = ColumnType.INTEGER if pa.types.is_integer(array.type) else natural.type
    if pa.types.is_timestamp(array.type) and array.type.tz is None and column_type.base is type_of_data:
        return natural, {}
    if column_type in (ColumnType.ANY, type_of_data):
        return natural, {}
    if natural.type is ColumnType.ANY:
        read = _column_of_terms if mark is ColumnType.TERM else column_with_faults
        return read(array, column_type)
    if column_type is ColumnType.TERM:
        return natural, {}
    if type_of_data not in _ACCEPTED.get(column_type.base, ()):
        message = f"column `{wanted.names[place]}` is of type {type_of_data.value}, not {column_type.value}"
        raise DataError(Diagnostic(codes.NOT_OF_TYPE, message, place=wanted.shown))
    if column_type is ColumnType.DOUBLE:
        return Column(column_type, pc.cast(natural.values, pa.float64(), safe=False)), {}
    if column_type.size is not None:
        return _column_of_size(natural.values, column_type)
    return Column(column_type, pc.cast(natural.values, pa.string())), {}


def _column_of_size(numbers: Array, column_type: ColumnType) -> tuple[Column, dict[int, str]]:
    """The numbers as a column of decimals of a size, and by their places the reasons why some do not fit."""
    assert column_type.size is not None
    try:
        return Column(ColumnType.DECIMAL, pc.cast(numbers, pa.decimal128(*column_type.size))), {}
    except pa.ArrowInvalid:  # one does not fit, or it is not certain that all integers do
        return column_with_faults(pc.cast(numbers, pa.string()), column_type)


def column_with_faults(texts: Array, column_type: ColumnType) -> tuple[Column, dict[int, str]]:
    """The texts as a column of the type, and by their places the reasons why some are not of it."""
    read = read_texts(texts, column_type)
    return read.column, read.reasons


def _column_of_terms(texts: Array, column_type: ColumnType) -> tuple[Column, dict[int, str]]:
    """The exact terms as a column of the type, and by their places the reasons why some are not of it."""
    distinct = pc.unique(texts)
    places = pc.index_in(texts, value_set=distinct)
    values: list[Value] = []
    faults: dict[int, str] = {}
    for index, text in enumerate(distinct.to_pylist()):
        try:
            value = conform(conversions.read_exact(text), column_type)
        except ValueError as fault:
            faults[index] = str(fault)
            continue
        if value is None:
            faults[index] = f"{text} is not of type {column_type.value}"
        else:
            values.append(value)
    if not faults:
        column = column_of_values(values)
        return replace(column, values=pc.take(column.values, places)), {}
    bad = enumerate(places.to_pylist())
    return Column(ColumnType.TERM, texts), {row: faults[place] for row, place in bad if place in faults}


def _natural_column(array: Array) -> Column | None:
    """The array as a column of the type that Arrow's type means; None if it means none."""
    kind = array.type
    if pa.types.is_null(kind):  # all values are missing, so none are left
        return Column(ColumnType.ANY, array.cast(pa.string()))
    if pa.types.is_string(kind) or pa.types.is_large_string(kind):
        return Column(ColumnType.ANY, array, parse_numbers=False)
    if pa.types.is_uint64(kind):
        return _unsigned_column(array)
    if pa.types.is_integer(kind):
        return Column(ColumnType.INTEGER, array.cast(pa.int64()))
    if pa.types.is_floating(kind):
        return Column(ColumnType.DOUBLE, pc.add(array.cast(pa.float64()), ZERO))
    if pa.types.is_boolean(kind):
        return Column(ColumnType.BOOLEAN, array)
    if pa.types.is_date(kind):
        return Column(ColumnType.DATE, array.cast(pa.date32()))
    if pa.types.is_timestamp(kind):
        # The moment stays; the name of a zone other than UTC is lost.
        return Column(ColumnType.DATETIME, array.cast(pa.timestamp("us", kind.tz and "UTC")))
    if pa.types.is_decimal(kind):
        return Column(ColumnType.DECIMAL, array)
    return None


def _unsigned_column(array: Array) -> Column:
    try:
        return Column(ColumnType.INTEGER, array.cast(pa.int64()))
    except pa.ArrowInvalid:  # a number beyond 63 bits, kept as its digits
        return Column(ColumnType.TERM, array.cast(pa.string()))


# ---- Parquet and Arrow IPC files

_BATCH_ROWS = 1 << 18
_FILE_MAGIC = b"ARROW1"


def read_parquet(file: InputFile, faults: RejectedRows, threads: int) -> Iterator[Batch]:
    """The rows of a Parquet file."""
    import pyarrow.parquet  # takes a while, and few programs need it

    with file.open() as stream, pyarrow.parquet.ParquetFile(stream) as parquet:
        wanted = _wanted(parquet.schema_arrow, file)
        batches = parquet.iter_batches(_BATCH_ROWS, use_threads=threads > 1)
        yield from read_arrow_data(batches, wanted, faults)


def read_arrow(file: InputFile, faults: RejectedRows, threads: int) -> Iterator[Batch]:
    """The rows of an Arrow IPC file or stream."""
    del threads
    with file.open() as stream, _open_ipc(stream) as reader:
        wanted = _wanted(reader.schema, file)
        yield from read_arrow_data(_batches(reader), wanted, faults)


def _wanted(schema: Any, file: InputFile) -> ColumnRequest:
    wanted = wanted_columns(schema, file.types, file.names, file.shown)
    return replace(wanted, times=file.times, nulls=file.nulls)


def _open_ipc(stream: IO[bytes]) -> Any:
    is_file = stream.read(len(_FILE_MAGIC)) == _FILE_MAGIC
    stream.seek(0)
    return pyarrow.ipc.open_file(stream) if is_file else pyarrow.ipc.open_stream(stream)


def _batches(reader: Any) -> Iterator[Any]:
    if not isinstance(reader, pa.ipc.RecordBatchFileReader):
        yield from reader
        return
    for index in range(reader.num_record_batches):
        yield reader.get_batch(index)
