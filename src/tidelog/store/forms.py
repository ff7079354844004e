"""Values between the parts of a store, forms of JSON, arrays as bytes, and errors about damaged files."""

from __future__ import annotations

import json
import os
import re
import sys
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import field
from pathlib import Path
from typing import Any, NamedTuple
from zlib import crc32

import numpy as np
import numpy.typing as npt

from tidelog.durable import FileLock, HeldError
from tidelog.engine.columnar.storage.engine_state import EngineState
from tidelog.errors import DataError, Diagnostic, codes
from tidelog.errors.codes import BACKWARDS
from tidelog.logic.program import Program
from tidelog.query.kept_queries import KeptQuery
from tidelog.records import dataclass
from tidelog.temporal.temporal import TimeState

# ---- contents of a store


class BatchId(NamedTuple):
    """The identity of a transaction for its sender: the application, and an increasing number.

    `stream` distinguishes the streams of an application, whose numbers begin again; empty if unknown.
    """

    app: str
    number: int
    stream: str = ""

    def repeats(self, applied: Mapping[str, BatchId]) -> bool:
        """Return whether this was the last of its application; raise `DataError` if it is not the next."""
        last = applied.get(self.app)
        if last is None:
            return False
        is_other = bool(last.stream and self.stream and last.stream != self.stream)
        if is_other or self.number < last.number:
            help = (
                "the numbers of an application only grow; a stream that restarts with a new checkpoint, or "
                "runs next to another, needs its own `app_id`"
            )
            where = " of another stream" if is_other else ""
            raise self.refused(f"comes after batch {last.number}{where} was applied", help)
        return self.number == last.number

    def refused(self, reason: str, help: str) -> DataError:
        """Return the error that the batch cannot be applied."""
        return DataError(Diagnostic(BACKWARDS, f"batch {self.number} of `{self.app}` {reason}", help=help))


@dataclass(frozen=True, slots=True, eq=False)
class StoredState:
    """A reasoner between two transactions, everything derived.

    Classes of equal constants are the engine's relation of aliases.
    """

    program: Program
    asked: tuple[KeptQuery, ...]  # live and prepared queries
    engine: EngineState
    sequence: int  # of the last record that it includes
    commits: int = 0
    loaded: int = 0  # explicit facts
    derived: int = 0
    settings: Mapping[str, Any] = field(default_factory=dict)  # that facts depend on: how equality is treated
    time: TimeState | None = None  # the facts with times, if there are any
    batches: Mapping[str, BatchId] = field(default_factory=dict)  # the last of each application


# ---- checks of JSON that is read
#
# A shape is a function that is given a form and where it stands, and raises `FormError` if the form is
# another.

Shape = Callable[[Any, str], None]
SURROGATE = re.compile(r"\\u[dD]")  # what may be half a character


class FormError(ValueError):
    """Raised for an invalid form: its place, and what is wrong."""


def wrong(form: Any, at: str, expected: str) -> FormError:
    """Return the error that a form is not what is expected."""
    shown = repr(form)
    return FormError(f"{at or 'it'} is {shown[:60]}{'…' if len(shown) > 60 else ''}, not {expected}")


def integer(form: Any, at: str) -> None:
    """A whole number of 64 bits."""
    if type(form) is not int or not -(2**63) <= form < 2**63:
        raise wrong(form, at, "a whole number of 64 bits")


def natural(form: Any, at: str) -> None:
    """A number of things."""
    if type(form) is not int or not 0 <= form < 2**63:
        raise wrong(form, at, "a number of 0 or more")


def text(form: Any, at: str) -> None:
    """A text."""
    if type(form) is not str:
        raise wrong(form, at, "a text")
    if not form.isascii():
        try:
            form.encode()
        except UnicodeEncodeError:
            raise wrong(form, at, "a text of Unicode") from None


def truth(form: Any, at: str) -> None:
    """True or false."""
    if type(form) is not bool:
        raise wrong(form, at, "true or false")


def anything(form: Any, at: str) -> None:
    """Any form: another function checks it."""


def one_of(*choices: Any) -> Shape:
    """One of these."""

    def check(form: Any, at: str) -> None:
        if isinstance(form, list | dict) or form not in choices or type(form) is bool:
            raise wrong(form, at, f"one of {', '.join(map(str, choices))}")

    return check


def optional(shape: Shape) -> Shape:
    """Null, or this."""
    return lambda form, at: None if form is None else shape(form, at)


def many(shape: Shape) -> Shape:
    """A list of these."""

    def check(form: Any, at: str) -> None:
        if type(form) is not list:
            raise wrong(form, at, "a list")
        for position, element in enumerate(form):
            shape(element, f"{at}[{position}]")

    return check


def row(*shapes: Shape) -> Shape:
    """A list of these, in this order."""

    def check(form: Any, at: str) -> None:
        if type(form) is not list or len(form) != len(shapes):
            raise wrong(form, at, f"a list of {len(shapes)}")
        for position, (shape, element) in enumerate(zip(shapes, form, strict=True)):
            shape(element, f"{at}[{position}]")

    return check


def named(shape: Shape) -> Shape:
    """An object of these under any names."""

    def check(form: Any, at: str) -> None:
        if type(form) is not dict:
            raise wrong(form, at, "an object")
        for name, element in form.items():
            text(name, f"a name in {at}")
            shape(element, f"{at}.{name}")

    return check


def some_of(shapes: dict[str, Shape]) -> Shape:
    """An object with some of these, and nothing else."""

    def check(form: Any, at: str) -> None:
        named(anything)(form, at)
        for name, element in form.items():
            if name not in shapes:
                raise FormError(f"{at} has `{name}`, which is unknown")
            shapes[name](element, f"{at}.{name}")

    return check


def fields(required: dict[str, Shape], others: dict[str, Shape] | None = None) -> Shape:
    """An object with these, and perhaps with others; more than both does not matter."""

    def check(form: Any, at: str) -> None:
        if type(form) is not dict:
            raise wrong(form, at, "an object")
        for name in required.keys() - form.keys():
            raise FormError(f"{at or 'it'} has no `{name}`")
        for name, shape in {**required, **(others or {})}.items():
            if name in form:
                shape(form[name], f"{at}.{name}" if at else name)

    return check


@contextmanager
def reading(subject: str) -> Iterator[None]:
    """Turn any error in the block, which reads a form, into a `FormError`."""
    try:
        yield
    except FormError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        raise FormError(f"{subject} cannot be read: {type(error).__name__}: {str(error)[:100]}") from error


def loaded(data: bytes, shape: Shape) -> Any:
    """Return the form that JSON says, of this shape."""
    with reading("the JSON"):
        decoded = data.decode()
        form = json.loads(decoded)
        if SURROGATE.search(decoded):
            json.dumps(form, ensure_ascii=False).encode()  # half a character is no text
        shape(form, "")
    return form


# ---- arrays of whole numbers as bytes
#
# Ids, flags, counters and ranks are small numbers in wide arrays.

Array = npt.NDArray[Any]

WIDTHS = {1: np.uint8, 2: np.uint16, 4: np.uint32}
PLAIN = 8  # the width of numbers that are written as they are


DTYPES = {np.dtype(each).str: np.dtype(each) for each in (np.uint8, np.int32, np.int64)}
MOST_EQUAL = 1 << 31  # numbers that are all equal, and need no bytes
SECTION = row(*(natural,) * 4, one_of(0, *WIDTHS, PLAIN), integer, one_of(*DTYPES))


@dataclass(frozen=True, slots=True)
class FileSection:
    """The section of an array in a file: numbers of `width` bytes each, relative to `base`."""

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


def packed(array: Array, offset: int) -> tuple[FileSection, memoryview]:
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
    section = FileSection(offset, len(data), crc32(data), len(array), width, base, array.dtype.str)
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


def unpacked(section: FileSection, data: bytes | memoryview) -> Array:
    """Return a new array from the bytes of a section."""
    dtype = np.dtype(section.dtype)
    if section.width == 0:
        return np.full(section.count, section.base, dtype)
    if section.width == dtype.itemsize and section.base == 0:
        return np.frombuffer(data, dtype).copy()
    numbers: Array = np.frombuffer(data, WIDTHS[section.width]).astype(dtype)
    numbers += dtype.type(section.base)
    return numbers


# ---- errors about files of a store that cannot be written


@contextmanager
def writing_to(path: Path) -> Iterator[None]:
    """Turn errors of the operating system in the block into `DataError`s with the file."""
    try:
        yield
    except OSError as error:
        reason = (error.strerror or str(error)).lower()
        message = f"the store cannot be written to: {reason}"
        help = "nothing was changed; free disk space, or check the permissions of the folder"
        raise DataError(Diagnostic(codes.NOT_WRITTEN, message, place=str(path), help=help)) from error


def damaged(path: Path, message: str, help: str | None = None) -> DataError:
    """Return the error that a file is damaged."""
    advice = help or f"`tidelog store check {path.parent}` says what can be recovered"
    return DataError(Diagnostic(codes.STORE_DAMAGED, message, place=str(path), help=advice))


def check_version(path: Path, version: int, newest: int) -> None:
    """Raise `DataError` if this version of tidelog does not read a format yet."""
    if version > newest:
        message = f"the store has format {version}, and this tidelog reads up to {newest}"
        help = "open it with a newer tidelog, or let that write its facts: `tidelog store export DIR`"
        raise DataError(Diagnostic(codes.NEWER, message, place=str(path), help=help))


@contextmanager
def understood(path: Path, subject: str = "the snapshot") -> Iterator[None]:
    """Turn errors in a form that is read in the block into `DataError`s with the file."""
    try:
        yield
    except FormError as error:
        raise damaged(path, f"{subject} is invalid: {error}") from error


def is_newer(error: DataError) -> bool:
    """Return whether the error is that a store has a newer format, and is not damaged."""
    return error.diagnostics[0].code == codes.NEWER


# ---- one writer at a time


def writer_lock(path: Path) -> FileLock:
    """Lock a folder for writing; raise `DataError` without waiting if another process has locked it."""
    command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])[:200]
    try:
        with writing_to(path):
            return FileLock(path, f"process {os.getpid()} ({command})")
    except HeldError as error:
        message = f"`{path.parent}` is being written to by {error.holder or 'another process'}"
        help = "wait until it is done, or open the store for reading: `read_only=True`, `--read-only`"
        raise DataError(Diagnostic(codes.STORE_LOCKED, message, place=str(path), help=help)) from None
