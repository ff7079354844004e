"""JSON: an array of rows, or one row a line; how deeply text from outside may be nested."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Sequence
from contextlib import suppress
from decimal import Decimal
from itertools import islice
from typing import Any, Final, NamedTuple

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.data.arrow import Array, text_array
from tidelog.data.columns import ARROW_TYPES, Batch, Column, bound_texts, finite, read_texts
from tidelog.errors import DataError, Diagnostic, codes, counted
from tidelog.io.data_file import InputFile
from tidelog.io.delimited import count_lines
from tidelog.io.python_data import PythonRows, read_rows
from tidelog.io.rejects import BadRow, RejectedRows
from tidelog.logic.conversions import read_object
from tidelog.logic.values import ColumnType, Value, number_of_text
from tidelog.records import dataclass

# ---- depth of nested text

JSON_STRINGS: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_OPENING, _CLOSING = b"([{", b")]}"
_ALL_BUT_BRACKETS = bytes(byte for byte in range(256) if byte not in _OPENING + _CLOSING)


def first_too_deep(text: bytes, most: int, skipped: re.Pattern[bytes]) -> int | None:
    """Return where a bracket opens within `most` others, or None; brackets in what is `skipped` do not count.

    >>> first_too_deep(b'[["[[["]]', 1, JSON_STRINGS)
    1
    """
    brackets = skipped.sub(b"", text).translate(None, _ALL_BUT_BRACKETS)
    if not len(brackets) or _highest(np.isin(np.frombuffer(brackets, np.uint8), list(_OPENING))) <= most:
        return None
    depth = 0
    for found in re.finditer(skipped.pattern + rb"|[()\[\]{}]", text, skipped.flags):
        if len(found[0]) == 1:
            depth += 1 if found[0] in _OPENING else -1
            if depth > most:
                return found.start()
    return None


def _highest(opens: npt.NDArray[np.bool_]) -> int:
    return int(np.cumsum(np.where(opens, 1, -1)).max())


class Elements:
    """The depth of XML, seen block by block; tags in comments count too, so that it may be too large."""

    def __init__(self) -> None:
        self._depth = 0
        self._left = b""  # the end of the last block, where a tag may begin

    def deepest(self, block: bytes) -> int:
        """Return how deep the elements of the next block lie."""
        data = np.frombuffer(self._left + block, np.uint8)
        self._left = bytes(data[-1:])
        here, following = data[:-1], data[1:]
        steps = np.zeros(len(here) + 1, np.int32)
        steps[0] = self._depth
        opening = np.flatnonzero(here == ord("<"))
        kind = following[opening]
        steps[opening + 1] = np.select(
            [kind == ord("/"), (kind == ord("!")) | (kind == ord("?"))], [-1, 0], 1
        )
        steps[np.flatnonzero((here == ord("/")) & (following == ord(">"))) + 1] -= 1
        depths = np.cumsum(steps)
        self._depth = int(depths[-1])
        return int(depths.max())


# ---- lines of JSON objects
#
# Arrow gets the type of every key, so it guesses nothing and refuses what is not of that type. It makes
# doubles of all numbers: where it matters how they are written, that is looked up in the text. Blocks that
# Arrow refuses, or in which a value is missing, are read by `json_files`.

_TYPE_OF_CLASS = {
    str: ColumnType.ANY,
    int: ColumnType.INTEGER,
    bool: ColumnType.BOOLEAN,
    Decimal: ColumnType.DECIMAL,
    float: ColumnType.DOUBLE,
}
_NUMBERS = frozenset({ColumnType.INTEGER, ColumnType.DOUBLE, ColumnType.BOOLEAN})
_SIMPLE_KEY = re.compile(r"\w+", re.ASCII)
_ESCAPED_LETTER = re.compile(rb"\\u00[2-7]")  # by which keys could be written in other ways
_DECIMAL, _WITH_POINT = rb"-?[0-9]+(?:\.[0-9]+)?", rb"-?[0-9]+\.[0-9]+"
_WITH_EXPONENT = rb"-?[0-9]+(?:\.[0-9]+)?[eE][+-]?[0-9]+"


def parse_objects(
    text: bytes, fields: dict[str, ColumnType] | None, first: Any, threads: int
) -> Batch | None:
    """The objects on the lines of the text, or None if not all are plainly of these fields.

    A field of any type has the type of its value in `first`, the first object of the file.
    """
    if not fields or not isinstance(first, dict):
        return None
    types = [_column_type(first.get(key), column_type) for key, column_type in fields.items()]
    forms = {
        key: form
        for (key, declared), column_type in zip(fields.items(), types, strict=True)
        if (form := _form(column_type, declared, first.get(key))) is not None
    }
    arrow_types = [
        None if kind is None else pa.float64() if key in forms else _arrow_type(kind)
        for key, kind in zip(fields, types, strict=True)
    ]
    if None in arrow_types:
        return None
    table = _table(text, pa.schema(list(zip(fields, arrow_types, strict=True))), threads)
    if table is None:
        return None
    columns = []
    for key, values, column_type in zip(fields, table.columns, types, strict=True):
        if key in forms:
            written = _written(text, key, forms[key], table.num_rows)
            if written is None:
                return None
            values = values if column_type is ColumnType.DOUBLE else written
        columns.append(_column(values, column_type))
    found = tuple(column for column in columns if column is not None)
    return Batch(found, table.num_rows) if len(found) == len(columns) else None


def _column_type(value: object, declared: ColumnType) -> ColumnType | None:
    return _TYPE_OF_CLASS.get(type(value)) if declared is ColumnType.ANY else declared


def _arrow_type(column_type: ColumnType) -> Any:
    return ARROW_TYPES[column_type] if column_type in _NUMBERS else pa.string()


def _form(column_type: ColumnType | None, declared: ColumnType, first: object) -> bytes | None:
    """How the numbers of a column are written, if only that makes them values of its type."""
    if column_type is ColumnType.DOUBLE and declared is ColumnType.ANY:
        return _WITH_EXPONENT
    if column_type is None or column_type.base is not ColumnType.DECIMAL or isinstance(first, str):
        return None
    return _WITH_POINT if declared is ColumnType.ANY else _DECIMAL


def _written(text: bytes, key: str, form: bytes, rows: int) -> Array | None:
    """The texts of the numbers behind a key, or None if they are not all plainly of this form."""
    if not _SIMPLE_KEY.fullmatch(key) or _ESCAPED_LETTER.search(text) or text.count(b"{") != rows:
        return None
    name = b'"%s"' % key.encode()
    found = re.findall(rb"%s(?<!\\%s)[ \t\r]*:[ \t\r]*(%s)[ \t\r]*[,}]" % (name, name, form), text)
    return text_array(b" ".join(found).decode().split(" ")) if len(found) == rows else None


def _table(text: bytes, schema: Any, threads: int) -> Any | None:
    """The objects as a table, one for each line, or None."""
    import pyarrow.json

    options = pyarrow.json.ParseOptions(explicit_schema=schema, unexpected_field_behavior="ignore")
    reading = pyarrow.json.ReadOptions(use_threads=threads > 1, block_size=len(text) // threads + 1)
    try:
        table = pyarrow.json.read_json(pa.BufferReader(text), reading, options)
        table.validate(full=True)  # UTF-8
    except pa.ArrowInvalid:
        return None
    is_whole = table.num_rows == text.count(b"\n") + (not text.endswith(b"\n"))
    return table if is_whole and table.column_names == schema.names else None


def _column(values: Any, column_type: ColumnType | None) -> Column | None:
    """The parsed values as a column, or None if some are missing or need care."""
    if values.null_count or column_type is None:
        return None
    if column_type is ColumnType.ANY:
        return Column(column_type, values, parse_numbers=False)
    if column_type is ColumnType.DOUBLE:
        doubles = finite(values)
        return None if doubles is None else Column(column_type, doubles)
    if column_type in _NUMBERS:
        return Column(column_type, values)
    read = read_texts(values, column_type)
    return None if read.reasons else read.column


# ---- JSON
#
# Objects are matched by the names of the predicate's columns if they are known, else by the keys of the first
# object, in its order. Text in a column of any type is a name if it has the form of one, else a string;
# numbers are read as the rule language reads them: with an exponent a double, with a point a decimal, else an
# integer. Objects of JSON-LD with `@id` or `@value` are IRIs and literals, as `logic.conversions`
# writes them.

_ROWS = 1 << 14
_BLOCK = 1 << 22
_LONG = 1000  # digits
_DEEPEST = 100  # arrays and objects within one another: a row has one, and none in it is a value
_TOO_DEEP = f"the values are nested more than {_DEEPEST} deep"
_SPACE = re.compile(r"[ \t\n\r]*")


def _number(text: str) -> float | Decimal:
    return float(text) if "e" in text or "E" in text else Decimal(text)


def _integer(text: str) -> int | Value:
    """Return the number, as a value where it has more digits than Python reads."""
    return int(text) if len(text) < _LONG else number_of_text(text)


_DECODER = json.JSONDecoder(parse_float=_number, parse_int=_integer)


class _Item(NamedTuple):
    """A row as JSON has it, the line it begins on, and its text."""

    value: Any
    line: int
    text: str


def read_json(file: InputFile, faults: RejectedRows, threads: int) -> Iterator[Batch]:
    """The rows of a JSON file that holds one array."""
    del threads
    return _read(_array_items(file), file, faults)


def read_json_lines(file: InputFile, faults: RejectedRows, threads: int) -> Iterator[Batch]:
    """The rows of a file with a JSON value on each line."""
    first: Any = None
    line = 1
    with file.open() as stream:
        while text := stream.read(_BLOCK * threads):
            text += stream.readline()
            first = _first_value(text) if first is None else first
            shape = None if first is None else _Shape.of(file, first)
            batch = None if shape is None else parse_objects(text, shape.fields, first, threads)
            if batch is None:
                yield from _read(_line_items(text, line, file, faults), file, faults, shape)
            elif batch.rows and not faults.failed:
                yield batch
            line += count_lines(text)


def _first_value(text: bytes) -> Any:
    """The value on the first line that holds one, or None."""
    for raw in text.splitlines():
        with suppress(
            ValueError, RecursionError
        ):  # also for what is not UTF-8; it is reported when it is read
            return _DECODER.decode(raw.decode())
    return None


def _array_items(file: InputFile) -> Iterator[_Item]:
    """The elements of the file's array. An error in it ends the reading: the rest cannot be read."""
    with file.open() as stream:
        text = _decode(stream.read(), file)
    position = _after_space(text, 0)
    if text[position : position + 1] != "[":
        raise _fault(file, text, position, "the file does not hold an array of rows")
    position = _after_space(text, position + 1)
    line, counted_to = 1, 0
    while text[position : position + 1] != "]":
        line, counted_to = line + text.count("\n", counted_to, position), position
        try:
            value, end = _DECODER.raw_decode(text, position)
        except json.JSONDecodeError as error:
            raise _fault(file, text, error.pos, _reason(error)) from None
        except RecursionError:
            too_deep = position + _first_too_deep(text[position:])
            raise _fault(file, text, too_deep, _TOO_DEEP, codes.TOO_DEEP) from None
        yield _Item(value, line, text[position:end])
        position = _after_space(text, end)
        if text[position : position + 1] == ",":
            position = _after_space(text, position + 1)
        elif text[position : position + 1] != "]":
            raise _fault(file, text, position, "expecting `,` or `]` after a row")


def _line_items(block: bytes, line: int, file: InputFile, faults: RejectedRows) -> Iterator[_Item]:
    """The values on the lines of a block that begins on line `line`."""
    for number, raw in enumerate(block.splitlines(), line):
        try:
            text = raw.decode().strip()
            if text:
                yield _Item(_DECODER.decode(text), number, text)
        except UnicodeDecodeError:
            fault = Diagnostic(codes.NOT_UTF_8, "the text is not UTF-8", place=file.place(number))
            faults.add(BadRow(fault, raw.decode("utf-8", "surrogateescape")))
        except json.JSONDecodeError as error:
            fault = Diagnostic(codes.NOT_JSON, _reason(error), place=file.place(number, error.colno))
            faults.add(BadRow(fault, text))
        except RecursionError:
            place = file.place(number, _first_too_deep(text) + 1)
            faults.add(BadRow(Diagnostic(codes.TOO_DEEP, _TOO_DEEP, place=place), text))


def _first_too_deep(text: str) -> int:
    """Return where the text is nested too deeply, counted in characters."""
    raw = text.encode()
    return len(raw[: first_too_deep(raw, _DEEPEST, JSON_STRINGS) or 0].decode())


def _decode(raw: bytes, file: InputFile) -> str:
    try:
        return raw.decode("utf-8-sig")
    except UnicodeDecodeError as error:
        line = raw.count(b"\n", 0, error.start) + 1
        raise DataError(
            Diagnostic(codes.NOT_UTF_8, "the text is not UTF-8", place=file.place(line))
        ) from None


def _after_space(text: str, position: int) -> int:
    found = _SPACE.match(text, position)
    return found.end() if found else position


def _reason(error: json.JSONDecodeError) -> str:
    return f"not JSON: {error.msg[:1].lower()}{error.msg[1:]}"


def _fault(file: InputFile, text: str, position: int, reason: str, code: str = codes.NOT_JSON) -> DataError:
    line = text.count("\n", 0, position) + 1
    column = position - (text.rfind("\n", 0, position) + 1) + 1
    return DataError(Diagnostic(code, reason, place=file.place(line, column)))


def _read(
    items: Iterator[_Item], file: InputFile, faults: RejectedRows, shape: _Shape | None = None
) -> Iterator[Batch]:
    """The items in batches of rows."""
    while chunk := list(islice(items, _ROWS)):
        shape = shape or _Shape.of(file, chunk[0].value)
        batch = read_rows(_rows(chunk, shape, file, faults), shape.wanted_types, faults)
        if batch.rows and not faults.failed:
            yield batch


@dataclass(frozen=True)
class _Shape:
    """The types of a row's values, and the keys by which objects name them."""

    types: tuple[ColumnType, ...]
    keys: tuple[str, ...]

    @staticmethod
    def of(file: InputFile, first: Any) -> _Shape:
        """The shape of the file's rows, given the first of them."""
        keys = tuple(first) if isinstance(first, dict) else ()
        width = len(first) if isinstance(first, dict | list) else 1
        types = file.types if file.types is not None else (ColumnType.ANY,) * width
        named = tuple(name for name in file.names if name is not None)
        if len(named) == len(types) and (not keys or set(named) & set(keys)):
            keys = named
        return _Shape(types, keys)

    @property
    def fields(self) -> dict[str, ColumnType] | None:
        """The types of the required keys of an object, if keys are known."""
        if len(self.keys) != len(self.types):
            return None
        return {self.keys[index]: self.types[index] for index in self.wanted}

    @property
    def wanted(self) -> tuple[int, ...]:
        """The positions of the values that are not skipped."""
        return tuple(index for index, kind in enumerate(self.types) if kind is not ColumnType.SKIP)

    @property
    def wanted_types(self) -> tuple[ColumnType, ...]:
        """The types of the values that are not skipped."""
        return tuple(self.types[index] for index in self.wanted)


def _rows(chunk: list[_Item], shape: _Shape, file: InputFile, faults: RejectedRows) -> PythonRows:
    """The items as rows of the required values; those of another shape are given to `faults`."""
    wanted = shape.wanted
    values: list[Sequence[object]] = []
    kept: list[_Item] = []
    for item in chunk:
        row = _fields(item.value, shape)
        if isinstance(row, str):
            faults.add(BadRow(Diagnostic(codes.WRONG_WIDTH, row, place=file.place(item.line)), item.text))
        else:
            row = bound_texts(row, file.times) if file.times else row
            try:
                values.append([_term(row[index]) for index in wanted])
            except ValueError as fault:
                faults.add(
                    BadRow(Diagnostic(codes.NOT_OF_TYPE, str(fault), place=file.place(item.line)), item.text)
                )
            else:
                kept.append(item)
    names = tuple(shape.keys[index] for index in wanted) if len(shape.keys) == len(shape.types) else ()
    numbers, texts = [item.line for item in kept], [item.text for item in kept]
    return PythonRows(values, numbers, file.shown, names, texts, file.nulls)


def _term(item: object) -> object:
    """The value of an object of JSON-LD; anything else as it is."""
    if not isinstance(item, dict):
        return item
    value = read_object(item)
    return item if value is None else value


def _fields(value: Any, shape: _Shape) -> list[object] | str:
    """The values of a row in the order of the columns, or what is wrong with its shape."""
    if isinstance(value, dict):
        try:
            fields = [value[key] for key in shape.keys]
        except KeyError as missing:
            return f"the object has no `{missing.args[0]}`"
    else:
        fields = value if isinstance(value, list) else [value]
    if len(fields) != len(shape.types):
        return f"the row has {counted(len(fields), 'column')} instead of {len(shape.types)}"
    return fields
