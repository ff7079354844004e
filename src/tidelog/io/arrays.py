"""Arrow arrays of Python's and NumPy's values, by their buffers.

`pa.array`, `pa.scalar` and `to_numpy` import pandas wherever it is installed, which takes a third of a
second; buffers do not.
"""

from __future__ import annotations

from collections.abc import Sequence
from functools import cache
from typing import Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

Array = Any  # pa.Array or pa.ChunkedArray; pyarrow has no type hints
_LARGEST_OFFSET = 2**31 - 1


def text_array(texts: Sequence[str]) -> Array:
    """The texts as an Arrow array; raises `UnicodeEncodeError` for half a surrogate pair."""
    joined = "".join(texts)
    if joined.isascii():
        data, lengths = joined.encode(), map(len, texts)
    else:
        encoded = [text.encode() for text in texts]
        data, lengths = b"".join(encoded), map(len, encoded)
    is_large = len(data) > _LARGEST_OFFSET
    offsets = np.zeros(len(texts) + 1, np.int64 if is_large else np.int32)
    np.cumsum(np.fromiter(lengths, offsets.dtype, len(texts)), out=offsets[1:])
    kind = pa.LargeStringArray if is_large else pa.StringArray
    return kind.from_buffers(len(texts), pa.py_buffer(offsets), pa.py_buffer(data))


def number_array(numbers: Any, arrow_type: Any) -> Array:
    """The numbers as an Arrow array of the type; raises `OverflowError` if one does not fit."""
    if pa.types.is_boolean(arrow_type):
        return mask(np.fromiter(numbers, bool, len(numbers)))
    dtype = np.dtype(np.float64 if pa.types.is_floating(arrow_type) else f"i{arrow_type.bit_width // 8}")
    return pa.Array.from_buffers(arrow_type, len(numbers), [None, pa.py_buffer(np.array(numbers, dtype))])


def places(numbers: Any) -> Array:
    """NumPy's integers as Arrow's, to take values by."""
    return number_array(numbers, pa.int64())


def mask(flags: Any) -> Array:
    """NumPy's truth values as Arrow's, to filter by."""
    bits = np.packbits(flags, bitorder="little")
    return pa.Array.from_buffers(pa.bool_(), len(flags), [None, pa.py_buffer(bits)])


def flags_of(array: Array) -> Any:
    """Arrow's truth values, none missing, as NumPy's."""
    bits = np.unpackbits(np.frombuffer(array.buffers()[1], np.uint8), bitorder="little")
    return bits[array.offset : array.offset + len(array)].astype(bool)


def integers_of(array: Array) -> Any:
    """Arrow's 32-bit integers, none missing, as NumPy's."""
    if len(array) == 0:
        return np.zeros(0, np.int32)
    return np.frombuffer(array.buffers()[1], np.int32)[array.offset : array.offset + len(array)]


@cache
def text_scalar(text: str) -> Any:
    """The text as a scalar of Arrow."""
    return text_array([text])[0]


ZERO = number_array([0.0], pa.float64())[0]


def joined(*parts: Any, separator: str = "") -> Array:
    """The texts of the columns, row by row, with the separator between two; a text stands for all rows."""
    scalars = [text_scalar(part) if isinstance(part, str) else part for part in parts]
    return pc.binary_join_element_wise(*scalars, text_scalar(separator))
