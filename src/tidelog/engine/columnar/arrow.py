"""Between Arrow and NumPy by their buffers.

`pa.array` and `to_numpy` import pandas where it is installed, a third of a second; buffers do not.
"""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

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


def taken(values: pa.Array, places: npt.NDArray[np.int64]) -> pa.Array:
    """The values at these places."""
    return pc.take(values, array_of(places), boundscheck=False, memory_pool=pool_for_results())


@cache
def pool_for_results() -> pa.MemoryPool:
    """Where columns lie that are made for results: large ones take half the time with jemalloc.

    Arrow's own choice, mimalloc, takes memory in such pieces that every page of it is a fault of its own.
    """
    try:
        return pa.jemalloc_memory_pool()
    except NotImplementedError:  # Arrow has it on some systems only
        return pa.default_memory_pool()
