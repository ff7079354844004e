"""The dictionary: every value has a dense integer id, given when it is first seen. Mutable.

Values are only ever appended, and columns that grow are copied, not moved: the
value of an id can be read without a lock while another thread gives ids to new values.
"""

from __future__ import annotations

import struct
from collections import defaultdict
from collections.abc import Iterable, Sequence
from contextlib import AbstractContextManager, nullcontext
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.compiled import bytes_at, int64_at, kernel
from tidelog.data import dictionary_kernels as kernels
from tidelog.data import memory
from tidelog.data.arrow import array_of, is_text, mask_of, numbers_of, pc, taken, text_addresses, truths_of
from tidelog.data.columns import NULL, read_plain_texts
from tidelog.data.rows import Ids
from tidelog.data.text_kernels import (
    GREATER,
    IN_IRI,
    IN_TEXT,
    IN_VIEW,
    LESS,
    NO_TIME_ZONE,
    QUOTE,
    UNDERSCORE,
    USES,
    write_view,
)
from tidelog.logic.conversions import from_python, read_any, read_exact, read_typed
from tidelog.logic.values import ColumnType, Kind, Value, decimal

if TYPE_CHECKING:
    from tidelog.data.columns import Column


FIRST_CAPACITY = 1024
LOAD = 0.75
TEXT_KINDS = frozenset({Kind.BIG, Kind.STRING, Kind.LANGUAGE_STRING, Kind.LITERAL, Kind.IRI, Kind.BLANK})
FEW = 6  # texts for which an Arrow array is not worth making
MOST_MET = 1 << 16  # texts from Python whose ids are cached
# Terms whose text lies between their ends. An IRI that begins with `_` may be a blank node.
_PLAIN_TERMS = (
    (r"""^<[^_\x00-\x20<>"{}|^`\\][^\x00-\x20<>"{}|^`\\]*>$""", Kind.IRI),
    (r"""^"[^"\\\n\r]*"$""", Kind.STRING),
)
KIND_OF_NUMBERS = {
    ColumnType.INTEGER: Kind.INTEGER,
    ColumnType.DECIMAL: Kind.DECIMAL,
    ColumnType.DOUBLE: Kind.DOUBLE,
    ColumnType.BOOLEAN: Kind.BOOLEAN,
    ColumnType.DATE: Kind.DATE,
    ColumnType.DATETIME: Kind.DATETIME,
}
NO_EXTRAS = np.zeros(0, np.int32)
NOT_PLAIN, PLAIN_IRI, PLAIN_STRING = 0, 1, 2  # forms of terms


class Dictionary:
    """Values as ids 0, 1, 2…, kept in columns that kernels read through `words`."""

    def __init__(self) -> None:
        # Held while results, outside of a reasoner, assign ids or read from an engine.
        self.lock: AbstractContextManager[None] = nullcontext()
        self.words = np.zeros(kernels.D_WORDS, np.int64)
        self.kind = memory.zeros(FIRST_CAPACITY, np.uint8)
        self.payload = memory.zeros(FIRST_CAPACITY, np.int64)
        self.extent = memory.zeros(FIRST_CAPACITY, np.int32)
        self.extra = memory.zeros(FIRST_CAPACITY, np.int32)
        self.heap = memory.empty(16 * FIRST_CAPACITY, np.uint8)
        self.slots = memory.zeros(2 * FIRST_CAPACITY, np.int64)
        self.window = memory.zeros(kernels.WINDOW * kernels.WINDOWS, np.int32)
        self._make_text_buffer(FIRST_CAPACITY)
        self._met: defaultdict[ColumnType, dict[str | Value, int]] = defaultdict(dict)
        self.publish()

    def __len__(self) -> int:
        return int(self.words[kernels.D_COUNT])

    # ---- growing

    def publish(self) -> None:
        """Write the addresses of the columns for kernels."""
        words = self.words
        words[kernels.D_CAPACITY] = len(self.kind)
        words[kernels.D_KIND] = self.kind.ctypes.data
        words[kernels.D_PAYLOAD] = self.payload.ctypes.data
        words[kernels.D_EXTENT] = self.extent.ctypes.data
        words[kernels.D_EXTRA] = self.extra.ctypes.data
        words[kernels.D_HEAP] = self.heap.ctypes.data
        words[kernels.D_HEAP_CAPACITY] = len(self.heap)
        words[kernels.D_SLOTS] = self.slots.ctypes.data
        words[kernels.D_SLOT_COUNT] = len(self.slots)
        words[kernels.D_SHIFT] = 32 - (len(self.slots).bit_length() - 1)
        words[kernels.D_LIMIT] = int(len(self.slots) * LOAD)
        words[kernels.D_WINDOW] = self.window.ctypes.data

    def grow(self, rows: int = 1, text: int = 0) -> None:
        """Make room for this many more values and bytes, and for many more than that."""
        count = len(self)
        # The old arrays stay alive until the kernels know the new ones.
        held = self.kind, self.payload, self.extent, self.extra, self.heap, self.slots
        if count + rows > len(self.kind):
            size = max(2 * (count + rows), _larger(self.kind))
            columns = (self.kind, self.payload, self.extent, self.extra)
            # All or none, and published at once: after a lack of memory the dictionary is as it was.
            self.kind, self.payload, self.extent, self.extra = (
                memory.grown(column, count, size) for column in columns
            )
            self.publish()
        top = int(self.words[kernels.D_HEAP_TOP])
        if top + text > len(self.heap):
            self.heap = memory.grown(self.heap, top, max(top + text, _larger(self.heap)))
            self.publish()
        used = int(self.words[kernels.D_USED])
        needed = used + max(1, rows * used // max(count, 1))  # small numbers have no slots
        if needed > self.words[kernels.D_LIMIT]:
            self._grow_slots(needed)
            self.publish()
        del held

    def _grow_slots(self, rows: int) -> None:
        size = len(self.slots)
        while size * LOAD < rows:
            size *= 2
        slots = memory.zeros(size, np.int64)
        kernels.rebuild_slots(self.words, self.slots, slots, 32 - (size.bit_length() - 1))
        self.slots = slots

    # ---- one value at a time

    def encode(self, value: Value) -> int:
        """The id of a value, given now if it is new."""
        if value.kind in TEXT_KINDS:
            return self._encode_text(value)
        payload, extra = packed(value)
        while True:
            found = int(kernels.intern_number(self.words, int(value.kind), payload, extra))
            if found >= 0:
                return found
            self.grow()

    def parts(self, value: Value) -> tuple[int, int]:
        """The payload and extra of a value; of one that is a text only its extra, which gets an id."""
        match value.kind:
            case Kind.LANGUAGE_STRING:
                return 0, self.encode(Value(Kind.STRING, str(value.extra)))
            case Kind.LITERAL:
                return 0, self.encode(Value(Kind.IRI, str(value.extra)))
        return (0, 0) if value.kind in TEXT_KINDS else packed(value)

    def _encode_text(self, value: Value) -> int:
        _, extra = self.parts(value)
        text = str(value.content).encode()
        size, kind = len(text), int(value.kind)
        if size > len(self._text):
            self._make_text_buffer(2 * size)
        self._text[:size] = text
        while True:
            found = int(kernels.intern_text(self.words, self._text_address, size, kind, extra))
            if found >= 0:
                return found
            self.grow(1, size)

    def _make_text_buffer(self, size: int) -> None:
        """Have a place of this size where kernels read the text of one value."""
        place = np.zeros(size, np.uint8)
        self._text, self._text_address = place.data, place.ctypes.data

    def encode_python(self, item: object, column: ColumnType) -> int:
        """The id of a Python object in a column of this type; raises DataError if it has no value there."""
        if type(item) is not str and type(item) is not Value:  # 1, 1.0 and True are equal in Python
            return self.encode(from_python(item, column))
        met = self._met[column]
        known = met.get(item)
        if known is None:
            if len(met) >= MOST_MET:
                met.clear()
            known = met[item] = self.encode(from_python(item, column))
        return known

    def encode_python_texts(self, texts: Sequence[str], column: ColumnType) -> Ids:
        """The ids of texts from Python in a column of any type, or of strings; see `encode_python`."""
        if len(texts) <= FEW:
            met = self._met[column]
            known: list[int | None] = [met.get(text) for text in texts]
            if None in known:
                known = [self.encode_python(text, column) for text in texts]
            return np.array(known, np.int32)
        array = pa.array(texts, pa.string())
        if column is ColumnType.STRING:
            return self.encode_texts(Kind.STRING, array)
        return self.encode_any(array, parse_numbers=False)

    def find(self, value: Value) -> int | None:
        """The id of a value if it has one."""
        before = len(self)
        # Encoding is cheap and idempotent; a value that is new is simply in no table.
        found = self.encode(value)
        return found if found < before else None

    def decode(self, identity: int) -> Value:
        """The value of an id."""
        kind = Kind(int(self.kind[identity]))
        payload = int(self.payload[identity])
        extra = int(self.extra[identity])
        if kind in TEXT_KINDS:
            text = bytes(self.heap[payload : payload + int(self.extent[identity])]).decode()
            qualified = kind in (Kind.LANGUAGE_STRING, Kind.LITERAL)
            return Value(kind, text, str(self.decode(extra).content) if qualified else None)
        if kind is Kind.DOUBLE:
            return Value(kind, struct.unpack("<d", struct.pack("<q", payload))[0])
        if kind is Kind.DECIMAL:
            return Value(kind, payload, extra)
        if kind is Kind.DATETIME:
            return Value(kind, payload, None if extra == NO_TIME_ZONE else extra)
        return Value(kind, payload)

    def decode_all(self, ids: Iterable[int]) -> list[Value]:
        """The values of ids, each distinct one decoded once."""
        known: dict[int, Value] = {}
        values = []
        for identity in ids:
            value = known.get(identity)
            if value is None:
                value = known[identity] = self.decode(identity)
            values.append(value)
        return values

    # ---- columns

    def encode_values(self, values: Sequence[Value]) -> Ids:
        """The ids of Python values."""
        known: dict[Value, int] = {}
        ids = np.empty(len(values), np.int32)
        for position, value in enumerate(values):
            identity = known.get(value)
            if identity is None:
                identity = known[value] = self.encode(value)
            ids[position] = identity
        return ids

    def encode_numbers(
        self, kind: Kind, numbers: npt.NDArray[np.int64], extra: int | npt.NDArray[np.int32] = 0
    ) -> Ids:
        """The ids of values of one kind that are held in their payload, with one extra or one each."""
        numbers = np.ascontiguousarray(numbers, np.int64)
        shared, extras = (extra, NO_EXTRAS) if isinstance(extra, int) else (0, np.ascontiguousarray(extra))
        ids = np.empty(len(numbers), np.int32)
        before, done = len(self), 0
        while done < len(numbers):
            done = int(kernels.intern_numbers(self.words, int(kind), shared, extras, numbers, done, ids))
            if done < len(numbers):
                self.grow(self._expected(before, done, len(numbers)))
        return ids

    def encode_mixed_numbers(
        self, kinds: npt.NDArray[np.uint8], numbers: npt.NDArray[np.int64], extras: npt.NDArray[np.int32]
    ) -> Ids:
        """Return the ids of values that are held in their payload, -1 where the kind is 0."""
        ids = np.empty(len(numbers), np.int32)
        before, done = len(self), 0
        while done < len(numbers):
            done = int(kernels.intern_mixed_numbers(self.words, kinds, numbers, extras, done, ids))
            if done < len(numbers):
                self.grow(self._expected(before, done, len(numbers)))
        return ids

    def place_in_window(self, kind: Kind, extra: int, ids: Ids) -> None:
        """Enter numbers of one kind and scale that are in the columns already."""
        if kind is not Kind.INTEGER and (kind is not Kind.DECIMAL or not 0 < extra < kernels.WINDOWS):
            return
        numbers = self.payload[ids]
        is_small = (numbers >= 0) & (numbers < kernels.WINDOW)
        self.window[extra * kernels.WINDOW + numbers[is_small]] = ids[is_small] + 1

    def _expected(self, before: int, done: int, rows: int) -> int:
        """How many values to make room for, when some rows of a column have filled the dictionary.

        As many are new among the others as among these, but not many times of what there is already.
        """
        count = len(self)
        left = rows - done
        new = left * (count - before) // max(done, 1)
        return min(left, max(1024, count // 2, min(new, 16 * count)))

    def encode_texts(self, kind: Kind, texts: pa.Array, extra: int = 0) -> Ids:
        """The ids of an Arrow text column, all of one kind and with one qualifier, by default none."""
        rows = len(texts)
        ids = np.empty(rows, np.int32)
        address, form, data, _keep = text_addresses(texts)
        before, done = len(self), 0
        while done < rows:
            done = kernels.intern_texts(self.words, address, form, data, rows, int(kind), extra, done, ids)
            if done < rows:
                text = max(1 << 16, int(self.words[kernels.D_HEAP_TOP]) // 2, len(texts[done].as_buffer()))
                self.grow(self._expected(before, done, rows), text)
        return ids

    def encode_any(self, texts: pa.Array, parse_numbers: bool) -> Ids:
        """The ids of an Arrow text column in which each text is read as the term it looks like."""
        rows = len(texts)
        classes, scales = np.empty(rows, np.uint8), np.empty(rows, np.int32)
        numbers = np.empty(rows, np.int64)
        address, form, data, _keep = text_addresses(texts)
        kernels.classify_texts(address, form, data, rows, USES, classes, numbers, scales)
        if not parse_numbers:
            classes[classes != kernels.NAME_TEXT] = kernels.STRING_TEXT
        classes[classes == kernels.NAME_TEXT] = kernels.IRI_TEXT
        ids = np.empty(rows, np.int32)
        for found in np.flatnonzero(np.bincount(classes)).tolist():
            places = np.flatnonzero(classes == found)
            part = texts if len(places) == rows else taken(texts, places)
            if found == kernels.IRI_TEXT:
                ids[places] = self.encode_texts(Kind.IRI, part)
            elif found == kernels.STRING_TEXT:
                ids[places] = self.encode_texts(Kind.STRING, part)
            elif found == kernels.INTEGER_TEXT:
                ids[places] = self.encode_numbers(Kind.INTEGER, numbers[places])
            elif found == kernels.DECIMAL_TEXT:
                ids[places] = self.encode_numbers(Kind.DECIMAL, numbers[places], scales[places])
            else:
                ids[places] = self.encode_distinct(part, read_any)
        return ids

    def encode_terms(self, texts: pa.Array) -> Ids:
        """The ids of an Arrow text column of terms written exactly.

        IRIs and strings that are plainly written, most of what RDF is made of, never become Python values.
        """
        if pa.types.is_string_view(texts.type):
            if len(texts.buffers()) == 3:  # one block of texts
                return self._encode_term_views(texts)
            texts = texts.cast(pa.string())
        encoded = texts.dictionary_encode()
        distinct = encoded.dictionary
        ids = np.empty(len(distinct), np.int32)
        others = np.ones(len(distinct), bool)
        for pattern, kind in _PLAIN_TERMS if len(distinct) > FEW else ():
            plain = pc.match_substring_regex(distinct, pattern)
            found = truths_of(plain).astype(bool)
            ids[found] = self.encode_texts(kind, _without_ends(distinct.filter(plain)))
            others &= ~found
        left = distinct.filter(mask_of(others)).to_pylist()
        ids[others] = self.encode_values([read_exact(text) for text in left])
        taken: Ids = ids[numbers_of(encoded.indices, "int32")]
        return taken

    def _encode_term_views(self, texts: pa.Array) -> Ids:
        """The same of views into one block, of which plain terms are not even copied."""
        rows = len(texts)
        _, listed, data = texts.buffers()
        inner, forms = np.zeros(2 * rows, np.int64), np.empty(rows, np.uint8)
        address = listed.address + 16 * texts.offset
        take_off_ends(address, rows, data.address, data.size, USES, inner, forms)
        ids = np.empty(rows, np.int32)
        for form, kind in ((PLAIN_IRI, Kind.IRI), (PLAIN_STRING, Kind.STRING)):
            found = np.flatnonzero(forms == form)
            if len(found):
                views = inner if len(found) == rows else inner.reshape(-1, 2)[found].ravel()
                plain = pa.Array.from_buffers(pa.string_view(), len(found), [None, pa.py_buffer(views), data])
                ids[found] = self.encode_texts(kind, plain)
        others = np.flatnonzero(forms == NOT_PLAIN)
        if len(others):
            left = texts.cast(pa.string()).take(array_of(others))
            ids[others] = self.encode_distinct(left, read_exact)
        return ids

    def encode_distinct(self, texts: pa.Array, read: Any) -> Ids:
        """The ids of texts, each distinct one read once by `read`."""
        encoded = texts.dictionary_encode()
        values = [read(text) for text in encoded.dictionary.to_pylist()]
        ids = self.encode_values(values)
        taken: Ids = ids[numbers_of(encoded.indices, "int32")]
        return taken

    def encode_objects(self, objects: Iterable[object]) -> Ids:
        """The ids of Python objects."""
        return self.encode_values([from_python(item) for item in objects])

    @property
    def bytes(self) -> int:
        """The memory that the dictionary holds."""
        arrays = (self.kind, self.payload, self.extent, self.extra, self.heap, self.slots)
        small_numbers = len(self) - int(self.words[kernels.D_USED])
        return sum(array.nbytes for array in arrays) + self.window.itemsize * small_numbers

    def texts(self, ids: Ids) -> pa.Array:
        """The texts of ids of text kinds, as one Arrow column."""
        payload, extent, heap = self.payload, self.extent, self.heap  # alive until the kernel has read them
        words = np.zeros(kernels.D_WORDS, np.int64)
        words[kernels.D_CAPACITY] = min(len(payload), len(extent))
        words[kernels.D_PAYLOAD] = payload.ctypes.data
        words[kernels.D_EXTENT] = extent.ctypes.data
        words[kernels.D_HEAP] = heap.ctypes.data
        lengths = extent[ids].astype(np.int64)
        offsets = np.zeros(len(ids) + 1, np.int64)
        np.cumsum(lengths, out=offsets[1:])
        data = np.empty(int(offsets[-1]), np.uint8)
        kernels.gather_texts(words, np.ascontiguousarray(ids), offsets, data.ctypes.data)
        return pa.LargeStringArray.from_buffers(len(ids), pa.py_buffer(offsets), pa.py_buffer(data))

    def encode_column(self, column: Column) -> Ids:
        """Return the ids of a column's values, new ones given as needed."""
        values = column.values
        if isinstance(values, pa.ChunkedArray):
            parts = [_encode_array(self, column, chunk) for chunk in values.chunks]
            return np.concatenate(parts) if parts else np.zeros(0, np.int32)
        return _encode_array(self, column, values)


def _encode_array(dictionary: Dictionary, column: Column, values: pa.Array) -> Ids:
    kind = KIND_OF_NUMBERS.get(column.type)
    if kind is not None and is_text(values.type):
        return _encode_typed_texts(dictionary, values, column.type, kind)
    match column.type:
        case ColumnType.STRING:
            return dictionary.encode_texts(Kind.STRING, values)
        case ColumnType.IRI:
            return dictionary.encode_texts(Kind.IRI, values)
        case ColumnType.ANY:
            return dictionary.encode_any(values, column.parse_numbers)
        case ColumnType.TERM:
            return dictionary.encode_terms(values)
        case ColumnType.INTEGER:
            return dictionary.encode_numbers(Kind.INTEGER, numbers_of(values, "int64"))
        case ColumnType.DOUBLE:
            return dictionary.encode_numbers(Kind.DOUBLE, numbers_of(values, "int64"))
        case ColumnType.BOOLEAN:
            return dictionary.encode_numbers(Kind.BOOLEAN, truths_of(values))
        case ColumnType.DATE:
            return dictionary.encode_numbers(Kind.DATE, numbers_of(values, "int32").astype(np.int64))
        case ColumnType.DATETIME:
            zone = 0 if values.type.tz else NO_TIME_ZONE
            return dictionary.encode_numbers(Kind.DATETIME, numbers_of(values, "int64"), zone)
        case _:
            return _encode_decimals(dictionary, values)


def _encode_typed_texts(dictionary: Dictionary, texts: pa.Array, column: ColumnType, kind: Kind) -> Ids:
    """The ids of texts of a type of numbers or times; an empty text is the value for missing ones."""
    read = read_plain_texts(texts, column)
    if not len(read.listed):
        return dictionary.encode_numbers(kind, read.values, read.extras)
    is_read = np.ones(len(texts), bool)
    is_read[read.listed] = False
    ids = np.empty(len(texts), np.int32)
    ids[is_read] = dictionary.encode_numbers(kind, read.values[is_read], read.extras[is_read])
    ids[read.listed] = dictionary.encode_distinct(
        taken(texts, read.listed).cast(pa.string()),
        lambda text: read_typed(text, column) if text.strip() else NULL,
    )
    return ids


def _encode_decimals(dictionary: Dictionary, values: pa.Array) -> Ids:
    if not pa.types.is_decimal128(values.type):  # of 256 bits, which may have more digits
        texts = pc.cast(values, pa.string())  # Arrow writes 0.00000001 as 1E-8
        return dictionary.encode_distinct(texts, lambda text: decimal(Decimal(text)))
    rows, scale = len(values), values.type.scale
    if not rows:
        return np.zeros(0, np.int32)
    words = np.frombuffer(values.buffers()[1], np.int64)[2 * values.offset :][: 2 * rows]
    numbers, scales, listed = np.empty(rows, np.int64), np.empty(rows, np.int32), np.empty(rows, np.int64)
    count = kernels.shorten_decimals(words, scale, numbers, scales, listed)
    if not count:
        return dictionary.encode_numbers(Kind.DECIMAL, numbers, scales)
    listed, is_read = listed[:count], np.ones(rows, bool)
    is_read[listed] = False
    ids = np.empty(rows, np.int32)
    ids[is_read] = dictionary.encode_numbers(Kind.DECIMAL, numbers[is_read], scales[is_read])
    texts = pc.cast(values.take(array_of(listed)), pa.string())
    ids[listed] = dictionary.encode_distinct(texts, lambda text: decimal(Decimal(text)))
    return ids


def _without_ends(texts: pa.Array) -> pa.Array:
    """The texts without their first and last character, which take a byte each."""
    return pc.binary_slice(texts.cast(pa.binary()), 1, -1).cast(pa.string())


def _larger(array: npt.NDArray[Any]) -> int:
    """How long an array is to become: memory that is not written to costs nothing, but copying does."""
    return len(array) * (16 if array.nbytes < 8 << 20 else 4)


def packed(value: Value) -> tuple[int, int]:
    """Payload and extra of a value that is not a text."""
    if value.kind is Kind.DOUBLE:
        return struct.unpack("<q", struct.pack("<d", float(value.content)))[0], 0
    if value.kind is Kind.DATETIME:
        return int(value.content), NO_TIME_ZONE if value.extra is None else int(value.extra)
    return int(value.content), int(value.extra or 0)


# ---- plainly written terms without their ends: `<https://example.org/a>` is an IRI, `"a"` a string


@kernel("i64, i64, i64, i64, u8[:], i64[:], u8[:]")
def take_off_ends(address: Any, rows: Any, data: Any, length: Any, uses: Any, inner: Any, forms: Any) -> None:
    """Write the form of each term, and a view of what stands between the ends of one that is plain.

    The terms are views, at an address, into data of this length. What may be a blank node, `<_:a>`, is not
    plain.
    """
    views = int64_at(address, 2 * rows)
    for row in range(rows):
        size = views[2 * row] & np.int64(0xFFFFFFFF)
        is_short = size <= IN_VIEW  # and stands in the view itself, behind its size
        start = np.int64(0) if is_short else np.int64(np.uint64(views[2 * row + 1]) >> np.uint64(32))
        base = address + 16 * row + 4 if is_short else data
        text = bytes_at(base, length if not is_short else size)
        end = start + size - 1
        form, use = NOT_PLAIN, 0
        if size > 2 and text[start] == LESS and text[end] == GREATER and text[start + 1] != UNDERSCORE:
            form, use = PLAIN_IRI, IN_IRI
        elif size > 1 and text[start] == QUOTE and text[end] == QUOTE:
            form, use = PLAIN_STRING, IN_TEXT
        place = start + 1
        while form != NOT_PLAIN and place < end:
            if not uses[text[place]] & use:
                form = NOT_PLAIN
            place += 1
        forms[row] = form
        if form != NOT_PLAIN:
            write_view(inner, row, base, start + 1, end, size if is_short else length)
