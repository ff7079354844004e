"""How kernels are compiled: the cache they are kept in, debug mode, and memory reached by address.

Kernels reach tables through integers: arrays of addresses and sizes, so that one compiled function serves
tables of any number and arity. An address knows no length; with `TIDELOG_DEBUG=1` every view carries
its length and every access is checked, at a third of the speed. The test suite runs in both modes.
"""

from __future__ import annotations

import hashlib
import os
from collections.abc import Callable
from pathlib import Path
from typing import Any

import numba
import numpy as np
from llvmlite import ir
from numba import carray, njit, types
from numba.core import cgutils
from numba.cpython.unsafe.numbers import trailing_zeros
from numba.extending import intrinsic

__all__ = [
    "CACHE_FOLDER",
    "DEBUG",
    "bytes_at",
    "count_ones",
    "doubles_at",
    "high_bytes",
    "inlined",
    "int32_at",
    "int64_at",
    "is_warm",
    "kernel",
    "load64",
    "mark_warm",
    "matching_bytes",
    "mix",
    "prefetch",
    "store64",
    "trailing_zeros",
]

DEBUG = os.environ.get("TIDELOG_DEBUG", "") not in ("", "0")

# Numba's cache does not notice changes in kernels called from another file: the folder is therefore named
# after a hash of all of them.
KERNEL_FILES = (
    "compiled.py",
    "io/fields.py",
    "io/plain_triples.py",
    "engine/columnar/layout.py",
    "engine/columnar/dictionary_kernels.py",
    "engine/columnar/term_kernels.py",
    "engine/columnar/table_kernels.py",
    "engine/columnar/closure_kernels.py",
    "engine/columnar/reach_kernels.py",
    "engine/columnar/row_kernels.py",
    "engine/columnar/component_kernels.py",
    "engine/columnar/expressions.py",
    "engine/columnar/heads.py",
    "engine/maintaining.py",
    "engine/columnar/note_kernels.py",
    "engine/columnar/change_kernels.py",
    "engine/columnar/batch_kernels.py",
    "engine/columnar/matching.py",
    "engine/columnar/interpreter.py",
    "engine/columnar/rank_loop.py",
    "engine/columnar/round_kernels.py",
    "engine/spark/hash_kernels.py",
)
# Kernels that call none of those above, and are called by none: folders of their own spare both.
TEMPORAL_FILES = (
    "compiled.py",
    "temporal/list_kernels.py",
    "temporal/row_kernels.py",
)
EQUALITY_FILES = (
    "compiled.py",
    "equality/class_kernels.py",
)


def _cache_folder(files: tuple[str, ...]) -> Path:
    digest = hashlib.sha256(f"{numba.__version__} {np.__version__} {DEBUG}".encode())
    for name in files:
        digest.update((Path(__file__).parent / name).read_bytes())
    root = os.environ.get("XDG_CACHE_HOME") or Path.home() / ".cache"
    return Path(root) / "tidelog" / f"kernels-{digest.hexdigest()[:16]}"


CACHE_FOLDER = _cache_folder(KERNEL_FILES)
FOLDERS = {"temporal": _cache_folder(TEMPORAL_FILES), "equality": _cache_folder(EQUALITY_FILES)}
LOCATOR = "tidelog.compiled.KernelLocator"


def _folder_of(group: str) -> Path:
    return FOLDERS.get(group, CACHE_FOLDER)


def is_warm(group: str) -> bool:
    """Whether an earlier run on this machine has compiled a group of kernels and left them in the cache."""
    return (_folder_of(group) / f"compiled-{group}").exists()


def mark_warm(group: str) -> None:
    """Note that a group of kernels is in the cache now."""
    _folder_of(group).mkdir(parents=True, exist_ok=True)
    (_folder_of(group) / f"compiled-{group}").touch()


class KernelLocator:
    """Where Numba keeps a kernel: in our folder, whose name says what all kernels read like.

    Numba's own locators name a folder after the place of the source: each clone and each new environment
    would compile the same kernels again.
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        self._line = function.__code__.co_firstlineno
        self._folder = _folder_of(function.__module__.removeprefix("tidelog.").partition(".")[0])

    @classmethod
    def from_function(cls, function: Callable[..., Any], _file: str) -> KernelLocator:
        """The locator of a function."""
        return cls(function)

    def ensure_cache_path(self) -> None:
        """Let the folder be there."""
        self._folder.mkdir(parents=True, exist_ok=True)

    def get_cache_path(self) -> str:
        """The folder."""
        return str(self._folder)

    def get_source_stamp(self) -> str:
        """What a kernel in the folder must have been compiled from."""
        return self._folder.name

    def get_disambiguator(self) -> str:
        """What tells functions of one name apart."""
        return str(self._line)


def kernel(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function compiled without the interpreter lock, kept in the cache folder."""
    before = numba.config.CACHE_LOCATOR_CLASSES
    numba.config.CACHE_LOCATOR_CLASSES = LOCATOR  # read when a function is decorated
    try:
        return njit(cache=True, nogil=True, boundscheck=DEBUG)(function)  # type: ignore[no-any-return]
    finally:
        numba.config.CACHE_LOCATOR_CLASSES = before


def inlined(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function compiled into each kernel that calls it."""
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
