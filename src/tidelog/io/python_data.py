"""Python objects as columns: Arrow data, data frames, dictionaries of columns, NumPy arrays, rows."""

from __future__ import annotations

import datetime
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import pyarrow as pa

from tidelog.data.arrow import ZERO, number_array, pc, text_array
from tidelog.data.columns import ARROW_TYPES, NULL, Batch, Column, column_of_values, policy, read_texts
from tidelog.errors import DataError, Diagnostic, codes, counted
from tidelog.io.arrow_files import read_arrow_data, wanted_columns
from tidelog.io.rejects import BadRow, RejectedRows
from tidelog.logic.conversions import from_python as value_of
from tidelog.logic.conversions import shown
from tidelog.logic.import_options import Nulls
from tidelog.logic.values import ColumnType, Value
from tidelog.records import dataclass

SHOWN = "<data>"
_ROWS = 1 << 16
_EPOCH = datetime.date(1970, 1, 1).toordinal()
_TYPE_OF_CLASS: dict[type, ColumnType] = {
    int: ColumnType.INTEGER,
    float: ColumnType.DOUBLE,
    bool: ColumnType.BOOLEAN,
    datetime.date: ColumnType.DATE,
}


@dataclass(frozen=True)
class PythonRows:
    """Rows of objects with their numbers in the data `shown`, and how they stand there if that is text."""

    values: Sequence[Sequence[object]]
    numbers: Sequence[int]
    shown: str
    names: tuple[str, ...] = ()
    texts: Sequence[str] = ()
    nulls: tuple[Nulls, ...] = ()

    def name(self, place: int) -> str:
        """The name of a column."""
        return self.names[place] if self.names else f"c{place + 1}"

    def without(self, left_out: Container[int]) -> PythonRows:
        """The rows but for those in these places."""
        kept = [index for index in range(len(self.values)) if index not in left_out]
        return replace(
            self,
            values=[self.values[index] for index in kept],
            numbers=[self.numbers[index] for index in kept],
            texts=[self.texts[index] for index in kept] if self.texts else (),
        )


def from_python(
    data: object,
    types: tuple[ColumnType, ...],
    names: tuple[str | None, ...] = (),
    faults: RejectedRows | None = None,
) -> Iterator[Batch]:
    """The rows of a Python object for a predicate with columns of these types, and of these names if known.

    Columns with names are found by name where the data has them all, else by position. Text in a column of
    any type is a name if it has the form of one, else a string; it is not searched for numbers.
    """
    faults = RejectedRows() if faults is None else faults
    for batch in _batches(data, types, names, faults):
        faults.rows += batch.rows
        yield batch
    faults.check()


def _batches(
    data: object, types: tuple[ColumnType, ...], names: tuple[str | None, ...], faults: RejectedRows
) -> Iterator[Batch]:
    table = _arrow_table(data)
    if table is not None:
        wanted = wanted_columns(table.schema, types, names, SHOWN)
        return read_arrow_data([table], wanted, faults)
    if isinstance(data, Mapping):
        return _rows(_rows_of_mapping(data, types, names), types, faults)
    if isinstance(data, np.ndarray):
        return _rows(_rows_of_numpy(data), types, faults)
    if hasattr(data, "itertuples"):  # a data frame whose columns mix types
        return _rows(data.itertuples(index=False, name=None), types, faults)
    if isinstance(data, Iterable) and not isinstance(data, str | bytes):
        return _rows(data, types, faults)
    message = f"an object of type {type(data).__name__} holds no rows"
    raise DataError(
        Diagnostic(codes.NOT_ROWS, message, help="give Arrow data, a data frame or an iterable of tuples")
    )


def _arrow_table(data: Any) -> Any | None:
    """The object as an Arrow table, if it offers Arrow's interface and Arrow can hold all of it."""
    if isinstance(data, pa.Table):
        return data
    try:
        if hasattr(data, "__arrow_c_stream__"):
            table = _as_table(pa.chunked_array(data))
            # pandas adds its index after the columns.
            return table.select(range(len(data.columns))) if hasattr(data, "itertuples") else table
        if hasattr(data, "__arrow_c_array__"):
            return _as_table(pa.chunked_array([pa.array(data)]))
    except (pa.ArrowInvalid, pa.ArrowTypeError):  # pandas, a column of objects of several types
        return None
    return None


def _as_table(array: Any) -> Any:
    if pa.types.is_struct(array.type):
        return pa.Table.from_struct_array(array)
    return pa.table({"value": array})


def _rows_of_mapping(
    data: Mapping[Any, Any], types: tuple[ColumnType, ...], names: tuple[str | None, ...]
) -> Iterator[tuple[object, ...]]:
    by_name = len(names) == len(types) and all(name in data for name in names)
    columns = [data[name] for name in names] if by_name else list(data.values())
    try:
        yield from zip(*columns, strict=True)
    except ValueError:
        raise DataError(Diagnostic(codes.NOT_ROWS, "the columns are not all of one length")) from None


def _rows_of_numpy(data: Any) -> Iterator[Any]:
    if data.dtype.names or data.ndim == 1:
        return iter(data.tolist())
    return map(tuple, data.tolist())


def _rows(rows: Iterable[Any], types: tuple[ColumnType, ...], faults: RejectedRows) -> Iterator[Batch]:
    """The rows in batches, each turned into columns."""
    remaining = iter(rows)
    first = 1
    while chunk := list(islice(remaining, _ROWS)):
        numbers = range(first, first + len(chunk))
        first += len(chunk)
        are_rows = all(issubclass(kind, tuple | list) for kind in set(map(type, chunk)))
        if are_rows and set(map(len, chunk)) == {len(types)}:
            found = PythonRows(chunk, numbers, SHOWN)
        else:
            found = _rows_of_width(chunk, numbers, len(types), faults)
        batch = read_rows(found, types, faults)
        if batch.rows and not faults.failed:
            yield batch


def _rows_of_width(
    rows: Sequence[Any], numbers: Sequence[int], width: int, faults: RejectedRows
) -> PythonRows:
    """The rows of as many values as there are columns."""
    kept: list[Sequence[object]] = []
    kept_numbers: list[int] = []
    for row, number in zip(rows, numbers, strict=True):
        values = values_of(row)
        if len(values) == width:
            kept.append(values)
            kept_numbers.append(number)
        else:
            message = f"the row has {counted(len(values), 'column')} instead of {width}"
            faults.add(BadRow(Diagnostic(codes.WRONG_WIDTH, message, place=f"{SHOWN}:{number}"), repr(row)))
    return PythonRows(kept, kept_numbers, SHOWN)


def values_of(row: object) -> tuple[object, ...]:
    """Return the values of a row; a lone value is a row of one."""
    is_lone = isinstance(row, str | bytes | Value) or not isinstance(row, Iterable)
    return (row,) if is_lone else tuple(row)  # type: ignore[arg-type]


def read_rows(rows: PythonRows, types: tuple[ColumnType, ...], faults: RejectedRows) -> Batch:
    """The batch of the rows whose values are of the types; the others are given to `faults`."""
    columns: list[Column] = []
    bad: dict[int, tuple[Diagnostic, int, bool]] = {}  # why, in which column, and if it is only left out
    for position, column_type in enumerate(types):
        what = policy(rows.nulls, position)
        column, reasons = _column([row[position] for row in rows.values], column_type, what)
        columns.append(column)
        for index, reason in reasons.items():
            where = f"{rows.shown}:{rows.numbers[index]}:{position + 1}"
            name = f" (column `{rows.names[position]}`)" if rows.names else ""
            is_left_out = what is Nulls.DROP_ROW and rows.values[index][position] is None
            if index not in bad or (bad[index][2] and not is_left_out):
                bad[index] = Diagnostic(codes.NOT_OF_TYPE, reason + name, place=where), position, is_left_out
    if not bad:
        _count_nulls(rows, faults)
        return Batch(tuple(columns), len(rows.values))
    for index, (fault, position, is_left_out) in sorted(bad.items()):
        if rows.values[index][position] is None and not is_left_out:
            faults.nulls[rows.shown, rows.name(position), Nulls.REJECT.value] += 1
        text = rows.texts[index] if rows.texts else shown(rows.values[index])
        faults.add(BadRow(fault, text, rows.name(position) if is_left_out else None))
    return read_rows(rows.without(bad), types, faults)


def _count_nulls(rows: PythonRows, faults: RejectedRows) -> None:
    """Count the missing values that are values."""
    for position, what in enumerate(rows.nulls):
        missing = sum(row[position] is None for row in rows.values) if what is Nulls.VALUE else 0
        if missing:
            faults.nulls[rows.shown, rows.name(position), what.value] += missing


def _column(
    objects: Sequence[Any], column_type: ColumnType, nulls: Nulls = Nulls.REJECT
) -> tuple[Column, dict[int, str]]:
    """The objects as a column, and by their places the reasons why some are not of the type."""
    classes = set(map(type, objects))
    if len(classes) == 1:
        try:
            column = _uniform_column(classes.pop(), objects, column_type)
        except (OverflowError, UnicodeEncodeError):
            column = None
        if column is not None:
            return column, {}
    values: list[Value] = []
    reasons: dict[int, str] = {}
    for index, item in enumerate(objects):
        if item is None and nulls is Nulls.VALUE:
            values.append(NULL)
            continue
        if item is None:
            reasons[index] = "the value is missing"
            continue
        try:
            values.append(value_of(item, column_type))
        except DataError as fault:
            reasons[index] = fault.diagnostics[0].message
    return column_of_values(values), reasons


def _uniform_column(kind: type, objects: Sequence[Any], column_type: ColumnType) -> Column | None:
    """The objects, all of one class, as a column made at once, or None if that takes more care."""
    if kind is str:
        texts = text_array(objects)
        if column_type is ColumnType.ANY:
            return Column(ColumnType.ANY, texts, parse_numbers=False)
        read = read_texts(texts, column_type)
        return None if read.reasons else read.column
    natural = _TYPE_OF_CLASS.get(kind)
    if natural is None or column_type not in (ColumnType.ANY, ColumnType.TERM, natural):
        return None
    numbers = [item.toordinal() - _EPOCH for item in objects] if kind is datetime.date else objects
    array = number_array(numbers, ARROW_TYPES[natural])
    if natural is ColumnType.DOUBLE:
        return None if pc.any(pc.is_nan(array)).as_py() else Column(natural, pc.add(array, ZERO))
    return Column(natural, array)
