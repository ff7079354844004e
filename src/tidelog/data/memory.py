"""Allocation that fails before the machine does: big arrays are refused when memory is short."""

from __future__ import annotations

import ctypes
import sys
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import numpy as np
import numpy.typing as npt

CHECKED_FROM = 64 << 20  # smaller arrays are allocated without checking the machine's memory
KEPT_FREE = 128 << 20


def _read_number(path: str) -> int | None:
    try:
        text = Path(path).read_text().strip()
    except OSError:
        return None
    return int(text) if text.isdigit() else None


def available_bytes() -> int | None:
    """The memory that this process may still take, or None where the system does not say."""
    try:
        lines = Path("/proc/meminfo").read_text().splitlines()
    except OSError:
        return None
    free = next((int(line.split()[1]) * 1024 for line in lines if line.startswith("MemAvailable")), None)
    limit = _read_number("/sys/fs/cgroup/memory.max")
    used = _read_number("/sys/fs/cgroup/memory.current")
    if limit is not None and used is not None:
        free = min(free, limit - used) if free is not None else limit - used
    return free


def _check(size: int, dtype: Any) -> None:
    wanted = size * np.dtype(dtype).itemsize
    if wanted < CHECKED_FROM:
        return
    free = available_bytes()
    if free is not None and wanted > free - KEPT_FREE:
        raise MemoryError(f"{wanted >> 20} MB wanted, {free >> 20} MB available")


def _nothing() -> None:
    """Do nothing: there is no limit but the machine's."""


class Refusal:
    """What is done before a refused allocation is tried again. Mutable, one for the process."""

    def __init__(self) -> None:
        self.answer: Callable[[], None] = _nothing


REFUSAL = Refusal()


def _allocated(make: Callable[[int, Any], npt.NDArray[Any]], size: int, dtype: Any) -> npt.NDArray[Any]:
    """Return an array that takes memory when it is written to: tables reserve much more than they first use.

    So a limit on mapped memory may refuse it though little is used: `REFUSAL` may raise that limit once.
    """
    _check(size, dtype)
    try:
        return make(size, dtype)
    except MemoryError:
        REFUSAL.answer()
        return make(size, dtype)


def empty(size: int, dtype: Any) -> npt.NDArray[Any]:
    """An array whose content is not set."""
    return _allocated(np.empty, size, dtype)


def zeros(size: int, dtype: Any) -> npt.NDArray[Any]:
    """An array of zeros, mapped lazily."""
    return _allocated(np.zeros, size, dtype)


def grown(array: npt.NDArray[Any], used: int, size: int) -> npt.NDArray[Any]:
    """A larger array that begins with the `used` elements of `array`."""
    larger = empty(size, array.dtype)
    larger[:used] = array[:used]
    return larger


def give_back() -> None:
    """Give memory that is free back to the system: Arrow's, and the C library's where it can."""
    if "pyarrow" in sys.modules:  # who has not imported it has none of its memory
        sys.modules["pyarrow"].default_memory_pool().release_unused()
    with suppress(AttributeError, OSError):  # others than glibc do so by themselves, or cannot
        ctypes.CDLL(None).malloc_trim(0)
