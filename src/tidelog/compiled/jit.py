"""The same names as in `tidelog.compiled`, compiled by Numba: for the processes that build the shared object.

Kernels reach tables through integers: arrays of addresses and sizes, so that one compiled function serves
tables of any number and arity. An address knows no length; in debug mode every view carries its length and
every access is checked, at a third of the speed. The test suite runs in both modes.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, NamedTuple

import numpy as np
from llvmlite import ir
from numba import carray, njit, types
from numba.core import cgutils
from numba.cpython.unsafe.numbers import trailing_zeros as trailing_zeros
from numba.extending import intrinsic

from tidelog.compiled import DEBUG


class Declared(NamedTuple):
    """A kernel as Numba has it, and its declared signature."""

    function: Any
    signature: str


KERNELS: dict[str, Declared] = {}  # by module and name, as modules are imported


def kernel(signature: str) -> Callable[[Callable[..., Any]], Callable[..., Any]]:
    """Compile a function for calls from Python."""

    def declare(function: Callable[..., Any]) -> Callable[..., Any]:
        compiled = subroutine(function)
        KERNELS[f"{function.__module__}.{function.__name__}"] = Declared(compiled, signature)
        return compiled

    return declare


def subroutine(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function that only kernels call."""
    without = {"no_cpython_wrapper": True, "no_cfunc_wrapper": True}
    return njit(nogil=True, boundscheck=DEBUG, **without)(function)  # type: ignore[no-any-return]


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """Compile a function into each kernel that calls it."""
    return njit(boundscheck=DEBUG, inline="always")(function)  # type: ignore[no-any-return]


def _pointer(element: Any) -> Callable[..., Any]:
    """An intrinsic that turns an address into a pointer to elements of this type."""

    @intrinsic  # type: ignore[untyped-decorator]
    def to_pointer(_context: Any, _address: Any) -> Any:
        signature = types.CPointer(element)(types.int64)

        def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
            return builder.inttoptr(arguments[0], context.get_value_type(signature.return_type))

        return signature, generate

    return to_pointer  # type: ignore[no-any-return]


_bytes = _pointer(types.uint8)
_int32s = _pointer(types.int32)
_int64s = _pointer(types.int64)
_doubles = _pointer(types.float64)

if DEBUG:

    @njit(boundscheck=True)  # type: ignore[untyped-decorator]
    def bytes_at(address: int, length: int) -> Any:
        """The `length` bytes at an address."""
        return carray(_bytes(address), (length,))

    @njit(boundscheck=True)  # type: ignore[untyped-decorator]
    def int32_at(address: int, length: int) -> Any:
        """The `length` 32-bit integers at an address."""
        return carray(_int32s(address), (length,))

    @njit(boundscheck=True)  # type: ignore[untyped-decorator]
    def int64_at(address: int, length: int) -> Any:
        """The `length` 64-bit integers at an address."""
        return carray(_int64s(address), (length,))

    @njit(boundscheck=True)  # type: ignore[untyped-decorator]
    def doubles_at(address: int, length: int) -> Any:
        """The `length` doubles at an address."""
        return carray(_doubles(address), (length,))

else:

    @njit(inline="always")  # type: ignore[untyped-decorator]
    def bytes_at(address: int, length: int) -> Any:
        """The bytes at an address."""
        return _bytes(address)

    @njit(inline="always")  # type: ignore[untyped-decorator]
    def int32_at(address: int, length: int) -> Any:
        """The 32-bit integers at an address."""
        return _int32s(address)

    @njit(inline="always")  # type: ignore[untyped-decorator]
    def int64_at(address: int, length: int) -> Any:
        """The 64-bit integers at an address."""
        return _int64s(address)

    @njit(inline="always")  # type: ignore[untyped-decorator]
    def doubles_at(address: int, length: int) -> Any:
        """The doubles at an address."""
        return _doubles(address)


@intrinsic  # type: ignore[untyped-decorator]
def load64(_context: Any, _address: Any) -> Any:
    """The eight bytes at an address that need not be aligned, as an unsigned integer."""
    signature = types.uint64(types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], context.get_value_type(types.CPointer(types.uint64)))
        loaded = builder.load(pointer)
        loaded.align = 1
        return loaded

    return signature, generate


@intrinsic  # type: ignore[untyped-decorator]
def store64(_context: Any, _address: Any, _word: Any) -> Any:
    """Write an unsigned integer into the eight bytes at an address that need not be aligned."""
    signature = types.void(types.int64, types.uint64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer = builder.inttoptr(arguments[0], context.get_value_type(types.CPointer(types.uint64)))
        builder.store(arguments[1], pointer).align = 1
        return context.get_dummy_value()

    return signature, generate


def _load_bytes(builder: Any, address: Any) -> Any:
    """The 64 bytes at an address as one vector, which LLVM divides into what the machine has."""
    vector = builder.inttoptr(address, ir.VectorType(ir.IntType(8), 64).as_pointer())
    return builder.load(vector, align=1)


@intrinsic  # type: ignore[untyped-decorator]
def matching_bytes(_context: Any, _address: Any, _byte: Any) -> Any:
    """A bit for each of the 64 bytes at an address, set where it is this byte, the first one lowest."""
    signature = types.uint64(types.int64, types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        loaded = _load_bytes(builder, arguments[0])
        first = builder.insert_element(
            ir.Constant(loaded.type, ir.Undefined),
            builder.trunc(arguments[1], ir.IntType(8)),
            ir.IntType(32)(0),
        )
        everywhere = ir.Constant(ir.VectorType(ir.IntType(32), 64), [0] * 64)
        wanted = builder.shuffle_vector(first, first, everywhere)
        return builder.bitcast(builder.icmp_unsigned("==", loaded, wanted), ir.IntType(64))

    return signature, generate


@intrinsic  # type: ignore[untyped-decorator]
def high_bytes(_context: Any, _address: Any) -> Any:
    """A bit for each of the 64 bytes at an address, set where it is 128 or more, the first one lowest."""
    signature = types.uint64(types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        loaded = _load_bytes(builder, arguments[0])
        zero = ir.Constant(loaded.type, [0] * 64)
        return builder.bitcast(builder.icmp_signed("<", loaded, zero), ir.IntType(64))

    return signature, generate


@intrinsic  # type: ignore[untyped-decorator]
def prefetch(_context: Any, _address: Any) -> Any:
    """Ask for the cache line at an address, to be read soon."""
    signature = types.void(types.int64)

    def generate(context: Any, builder: Any, signature: Any, arguments: Any) -> Any:
        pointer_type = ir.IntType(8).as_pointer()
        word = ir.IntType(32)
        function = cgutils.get_or_insert_function(
            builder.module,
            ir.FunctionType(ir.VoidType(), [pointer_type, word, word, word]),
            "llvm.prefetch.p0",
        )
        pointer = builder.inttoptr(arguments[0], pointer_type)
        builder.call(function, [pointer, word(0), word(3), word(1)])
        return context.get_dummy_value()

    return signature, generate


@intrinsic  # type: ignore[untyped-decorator]
def count_ones(_context: Any, _word: Any) -> Any:
    """How many bits of an unsigned integer are set."""

    def generate(_context: Any, builder: Any, _signature: Any, arguments: Any) -> Any:
        return builder.ctpop(arguments[0])

    return types.uint64(types.uint64), generate


@inlined
def mix(key: Any) -> Any:
    """The key's bits spread over all 64, the top ones best."""
    x = np.uint64(key)
    x ^= x >> np.uint64(32)
    x *= np.uint64(0xFF51AFD7ED558CCD)
    x ^= x >> np.uint64(29)
    x *= np.uint64(0x9E3779B97F4A7C15)
    return x
