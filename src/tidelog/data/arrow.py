"""Between Arrow, NumPy and Python by their buffers; structs for values of several types."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any, Final

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.logic.types import Type
from tidelog.logic.values import ColumnType

# Arrays are made of buffers: `pa.array`, `pa.scalar` and `to_numpy` import pandas wherever it is installed,
# which takes a third of a second.


class _Compute:
    """`pyarrow.compute`, imported when one of its functions is first used: it takes as long as NumPy."""

    def __getattr__(self, name: str) -> Any:
        import pyarrow.compute

        value = self.__dict__[name] = getattr(pyarrow.compute, name)
        return value


pc: Any = _Compute()

Array = Any  # pa.Array or pa.ChunkedArray; pyarrow has no type hints
_LARGEST_OFFSET = 2**31 - 1
_IS_TEXT: Final = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
TYPES = {
    "int32": pa.int32(),
    "int64": pa.int64(),
    "float64": pa.float64(),
}


def numbers_of(array: pa.Array, dtype: str) -> npt.NDArray[Any]:
    """A view of the numbers of an Arrow column without missing values, bit for bit of this type."""
    if not len(array):
        return np.zeros(0, dtype)
    buffer = array.buffers()[1]
    return np.frombuffer(buffer, dtype)[array.offset : array.offset + len(array)]


def truths_of(array: pa.Array) -> npt.NDArray[np.int64]:
    """The truth values of an Arrow column as 0 and 1."""
    return numbers_of(pc.cast(array, pa.int64()), "int64")


def array_of(numbers: npt.NDArray[Any]) -> pa.Array:
    """The numbers as an Arrow column that shares their memory."""
    numbers = np.ascontiguousarray(numbers)
    return pa.Array.from_buffers(TYPES[numbers.dtype.name], len(numbers), [None, pa.py_buffer(numbers)])


def mask_of(flags: npt.NDArray[np.bool_]) -> pa.Array:
    """The flags as an Arrow column of truth values."""
    bits = np.packbits(flags, bitorder="little")
    return pa.Array.from_buffers(pa.bool_(), len(flags), [None, pa.py_buffer(bits)])


def take(values: pa.Array, places: npt.NDArray[np.int64]) -> pa.Array:
    """The values at these places."""
    of = _functions()
    options = of.TakeOptions(boundscheck=False)
    return of.call_function("take", [values, array_of(places)], options, pool_for_results())


def cast(values: Array, type_: pa.DataType) -> Array:
    """The values as another type; raise `pa.ArrowInvalid` where one does not fit."""
    of = _functions()
    return of.call_function("cast", [values], of.CastOptions.safe(type_))


def sorted_places(values: pa.Array) -> npt.NDArray[np.int64]:
    """The places of the values in their order."""
    return numbers_of(_functions().call_function("sort_indices", [values]), "uint64").astype(np.int64)


@cache
def _functions() -> Any:
    """Return what calls functions of Arrow, without the wrappers of `pyarrow.compute` around all of them."""
    try:
        from pyarrow import _compute
    except ImportError:  # it is not public
        from pyarrow import compute as _compute
    return _compute


@cache
def pool_for_results() -> pa.MemoryPool:
    """Where columns lie that are made for results: large ones take half the time with jemalloc.

    Arrow's own choice, mimalloc, takes memory in such pieces that every page of it is a fault of its own.
    """
    try:
        return pa.jemalloc_memory_pool()
    except NotImplementedError:  # Arrow has it on some systems only
        return pa.default_memory_pool()


def text_array(texts: Sequence[str]) -> Array:
    """Return the texts as an Arrow array; raise `UnicodeEncodeError` for half a surrogate pair."""
    join_texts = "".join(texts)
    if join_texts.isascii():
        data, lengths = join_texts.encode(), map(len, texts)
    else:
        encoded = [text.encode() for text in texts]
        data, lengths = b"".join(encoded), map(len, encoded)
    is_large = len(data) > _LARGEST_OFFSET
    offsets = np.zeros(len(texts) + 1, np.int64 if is_large else np.int32)
    np.cumsum(np.fromiter(lengths, offsets.dtype, len(texts)), out=offsets[1:])
    kind = pa.LargeStringArray if is_large else pa.StringArray
    return kind.from_buffers(len(texts), pa.py_buffer(offsets), pa.py_buffer(data))


def number_array(numbers: Any, arrow_type: Any) -> Array:
    """Return the numbers as an Arrow array of the type; raise `OverflowError` if one does not fit."""
    if pa.types.is_boolean(arrow_type):
        return mask_of(np.fromiter(numbers, bool, len(numbers)))
    dtype = np.dtype(np.float64 if pa.types.is_floating(arrow_type) else f"i{arrow_type.bit_width // 8}")
    return pa.Array.from_buffers(arrow_type, len(numbers), [None, pa.py_buffer(np.array(numbers, dtype))])


def places(numbers: Any) -> Array:
    """NumPy's integers as Arrow's, to take values by."""
    return number_array(numbers, pa.int64())


def flags_of(array: Array) -> Any:
    """Arrow's truth values, none missing, as NumPy's."""
    bits = np.unpackbits(np.frombuffer(array.buffers()[1], np.uint8), bitorder="little")
    return bits[array.offset : array.offset + len(array)].astype(bool)


@cache
def text_scalar(text: str) -> Any:
    """The text as a scalar of Arrow."""
    return text_array([text])[0]


ZERO = number_array([0.0], pa.float64())[0]


def join_texts(*parts: Any, separator: str = "") -> Array:
    """The texts of the columns, row by row, with the separator between two; a `str` is repeated."""
    scalars = [text_scalar(part) if isinstance(part, str) else part for part in parts]
    return pc.binary_join_element_wise(*scalars, text_scalar(separator))


OFFSETS, WIDE_OFFSETS, VIEWS = range(3)  # how an Arrow column lays out its texts


def taken(texts: Array, places: npt.NDArray[np.int64]) -> pa.Array:
    """The texts at these places, or values of any other type; Arrow cannot do so with views."""
    if not pa.types.is_string_view(texts.type):
        return pc.take(texts, array_of(places))
    _, views, *data = texts.buffers()
    chosen = np.frombuffer(views, np.int64).reshape(-1, 2)[texts.offset :][places].ravel()
    return pa.Array.from_buffers(pa.string_view(), len(places), [None, pa.py_buffer(chosen), *data])


def text_addresses(texts: pa.Array) -> tuple[int, int, int, object]:
    """Where an Arrow column keeps its texts: address and form of the list, address of the bytes, owner."""
    if pa.types.is_string_view(texts.type):
        buffers = texts.buffers()
        if len(buffers) <= 3:
            data = buffers[2].address if len(buffers) == 3 else 0
            return buffers[1].address + 16 * texts.offset, VIEWS, data, texts
    if not (pa.types.is_string(texts.type) or pa.types.is_large_string(texts.type)):
        texts = texts.cast(pa.large_string())
    form = WIDE_OFFSETS if pa.types.is_large_string(texts.type) else OFFSETS
    _validity, offsets, data = texts.buffers()
    address = offsets.address + texts.offset * (8 if form == WIDE_OFFSETS else 4)
    return address, form, data.address if data is not None else 0, texts


def is_text(arrow_type: Any) -> bool:
    """Whether an Arrow type is one of texts."""
    return any(test(arrow_type) for test in _IS_TEXT)


def matching(texts: Array, pattern: str) -> Array:
    """Whether each text has a part that matches the pattern."""
    if pa.types.is_string_view(texts.type):
        texts = texts.cast(pa.string())
    return pc.match_substring_regex(texts, pattern)


def all_match(texts: Array, pattern: str) -> bool:
    """Whether every text has a part that matches the pattern."""
    return pc.all(matching(texts, pattern), min_count=0).as_py() is True


# ---- structs that hold values of several types
#
# Fields are named after types, such as `int`, `string` and `iri`, and of Arrow's type for them; those of
# `langString` and `literal` are exact terms, as text.

MISSING, SEVERAL = -1, -2  # instead of the number of a field
_FIELDS: Final = {
    Type.BOOLEAN: (pa.types.is_boolean,),
    Type.INTEGER: (pa.types.is_integer,),
    Type.DECIMAL: (pa.types.is_decimal,),
    Type.DOUBLE: (pa.types.is_floating,),
    Type.DATE: (pa.types.is_date,),
    Type.DATETIME: (lambda of: pa.types.is_timestamp(of) and of.tz is not None,),
    Type.LOCAL_DATETIME: (lambda of: pa.types.is_timestamp(of) and of.tz is None,),
    Type.STRING: _IS_TEXT,
    Type.LANGUAGE_STRING: _IS_TEXT,
    Type.LITERAL: _IS_TEXT,
    Type.IRI: _IS_TEXT,
}
_NAMES: Final = {one.value: one for one in _FIELDS}
# How the texts of fields are read.
MARKS: Final = {
    Type.STRING: ColumnType.STRING,
    Type.LANGUAGE_STRING: ColumnType.TERM,
    Type.LITERAL: ColumnType.TERM,
    Type.IRI: ColumnType.IRI,
}


def fields_of(of: Any) -> tuple[Type, ...] | None:
    """Return the types that the fields of an Arrow type hold; None if it is no such struct."""
    if not pa.types.is_struct(of) or of.num_fields < 2:
        return None
    found = []
    for field in of:
        one = _NAMES.get(field.name)
        if one is None or one in found or not any(test(field.type) for test in _FIELDS[one]):
            return None
        found.append(one)
    return tuple(found)


def chosen_fields(array: Array) -> Any:
    """Return which field of each struct has its value, `MISSING` or `SEVERAL`."""
    children = array.flatten()  # with what is missing in the structs themselves
    valid = np.stack([pc.is_valid(child).to_numpy(zero_copy_only=False) for child in children])
    counts = valid.sum(axis=0)
    chosen = np.where(counts == 1, valid.argmax(axis=0), SEVERAL)
    return np.where(counts == 0, MISSING, chosen)
