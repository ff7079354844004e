"""What kernels are written with, and the shared object that they were compiled into ahead of time.

A kernel is a function over integers and arrays that runs as machine code. Three decorators say how:

- `@kernel(signature)`: Python calls it. The signature lists its arguments, and its results behind an arrow:
  `"i64[:,:], const i32[:], bool -> i64, bool"`. Arrays are contiguous unless `strided` stands before them; a
  `const` array may be read-only.
- `@subroutine`: only kernels call it.
- `@inlined`: the same, and it becomes part of every kernel that calls it.

`compiled.build` compiles them into one object, which `compiled.objects` finds and loads. Here a kernel is
looked up in the object. What is not in it is refused: as plain Python it would be slow, and wrong where
integers overflow. In the processes of the build the same names are Numba's, from `compiled.jit`.
"""

from __future__ import annotations

import os
from collections.abc import Callable
from typing import Any

__all__ = [
    "DEBUG",
    "bytes_at",
    "count_ones",
    "doubles_at",
    "high_bytes",
    "inlined",
    "int32_at",
    "int64_at",
    "kernel",
    "load64",
    "matching_bytes",
    "mix",
    "prefetch",
    "store64",
    "subroutine",
    "trailing_zeros",
]

Function = Callable[..., Any]
MISSING: tuple[Function | None, str] = (None, "")

DEBUG: bool = os.environ.get("TIDELOG_DEBUG", "") not in ("", "0")  # kernels check every address
IS_BUILD = "TIDELOG_BUILD" in os.environ  # this is a process of the build


def _refuse(name: str, reason: str) -> Function:
    def refused(*_: Any) -> Any:
        raise RuntimeError(f"{name} cannot be called: {reason}")

    return refused


if IS_BUILD:
    from tidelog.compiled.jit import (
        bytes_at,
        count_ones,
        doubles_at,
        high_bytes,
        inlined,
        int32_at,
        int64_at,
        kernel,
        load64,
        matching_bytes,
        mix,
        prefetch,
        store64,
        subroutine,
        trailing_zeros,
    )
else:

    def kernel(signature: str) -> Callable[[Function], Function]:
        """Compile a function for calls from Python: give its machine code in the shared object."""

        def look_up(function: Function) -> Function:
            from tidelog.compiled.objects import loaded

            name = f"{function.__module__}.{function.__name__}"
            entry, declared = loaded().entries.get(name, MISSING)
            if entry is None or declared != signature:
                what = "is not in" if entry is None else f"has the signature {declared!r} in"
                return _refuse(name, f"it {what} {loaded().path}; `make kernels` builds it again")
            return entry

        return look_up

    def subroutine(function: Function) -> Function:
        """Compile a function that only kernels call."""
        return _refuse(function.__qualname__, "it is part of kernels")

    def inlined(function: Function) -> Function:
        """Compile a function into each kernel that calls it."""
        return _refuse(function.__qualname__, "it is part of kernels")

    (
        bytes_at,
        count_ones,
        doubles_at,
        high_bytes,
        int32_at,
        int64_at,
        load64,
        matching_bytes,
        mix,
        prefetch,
        store64,
        trailing_zeros,
    ) = (_refuse("this function", "it is part of kernels") for _ in range(12))
