"""Arrays of whole numbers as bytes: as many bytes a number as the range needs, none if all are equal.

Ids, flags, counters and ranks are small numbers in wide arrays.
"""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any
from zlib import crc32

import numpy as np
import numpy.typing as npt

from tidelog.store.shapes import FormError, integer, natural, one_of, row

Array = npt.NDArray[Any]

WIDTHS = {1: np.uint8, 2: np.uint16, 4: np.uint32}
PLAIN = 8  # the width of numbers that are written as they are


DTYPES = {np.dtype(each).str: np.dtype(each) for each in (np.uint8, np.int32, np.int64)}
MOST_EQUAL = 1 << 31  # numbers that are all equal, and take no bytes
SECTION = row(*(natural,) * 4, one_of(0, *WIDTHS, PLAIN), integer, one_of(*DTYPES))


@dataclass(frozen=True, slots=True)
class Section:
    """Where the numbers of an array stand in a file: as `width` bytes each, above `base`."""

    offset: int
    size: int  # in bytes
    checksum: int
    count: int
    width: int
    base: int
    dtype: str

    def to_json(self) -> list[Any]:
        """As a list."""
        return [self.offset, self.size, self.checksum, self.count, self.width, self.base, self.dtype]

    def check(self, end: int) -> None:
        """Raise `FormError` if this cannot be an array that stands before an offset."""
        dtype = DTYPES[self.dtype]
        is_there = self.offset + self.size <= end and self.size == self.count * self.width
        range_of = np.iinfo(dtype.str)
        fits = range_of.min <= self.base <= range_of.max and self.width <= dtype.itemsize
        is_plain = self.width != dtype.itemsize or self.base == 0
        if not (is_there and fits and is_plain and (self.width or self.count <= MOST_EQUAL)):
            raise FormError(f"{self.to_json()} is no place of numbers")


def packed(array: Array, offset: int) -> tuple[Section, memoryview]:
    """An array as bytes that will stand at an offset of a file.

    >>> section, data = packed(np.array([7, 9, 8], np.int32), 0)
    >>> section.width, section.base, bytes(data)
    (1, 7, b'\\x00\\x02\\x01')
    >>> unpacked(section, data)
    array([7, 9, 8], dtype=int32)
    """
    width, base = _fitting(array)
    if width == 0:
        data = memoryview(b"")
    elif width == array.dtype.itemsize and base == 0:
        data = np.ascontiguousarray(array).data.cast("B")
    else:
        data = (array - array.dtype.type(base)).astype(WIDTHS[width]).data.cast("B")
    section = Section(offset, len(data), crc32(data), len(array), width, base, array.dtype.str)
    return section, data


def _fitting(array: Array) -> tuple[int, int]:
    """How many bytes a number of the array needs, above which base."""
    size = int(array.dtype.itemsize)
    if not len(array):
        return 0, 0
    low, high = int(array.min()), int(array.max())
    if low == high:
        return 0, low
    width = next((width for width in WIDTHS if high - low < 1 << 8 * width), PLAIN)
    return (size, 0) if width >= size else (width, low)


def unpacked(section: Section, data: bytes | memoryview) -> Array:
    """The array of a section's bytes, one's own."""
    dtype = np.dtype(section.dtype)
    if section.width == 0:
        return np.full(section.count, section.base, dtype)
    if section.width == dtype.itemsize and section.base == 0:
        return np.frombuffer(data, dtype).copy()
    numbers: Array = np.frombuffer(data, WIDTHS[section.width]).astype(dtype)
    numbers += dtype.type(section.base)
    return numbers
