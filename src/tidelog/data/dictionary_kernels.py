"""Kernels over the dictionary: from values to dense ids; the ends of plainly written terms."""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.compiled import (
    bytes_at,
    inlined,
    int32_at,
    int64_at,
    kernel,
    load64,
    mix,
    prefetch,
    store64,
    subroutine,
)
from tidelog.data.text_kernels import GREATER, IN_IRI, IN_TEXT, IN_VIEW, LESS, QUOTE, write_view

# ---- Plainly written terms without their ends: `<https://example.org/a>` is an IRI, `"a"` a string.

NOT_PLAIN, PLAIN_IRI, PLAIN_STRING = 0, 1, 2
UNDERSCORE = ord("_")


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


# ---- Kernels over the dictionary: from values to dense ids. Mutates what it is given.

(
    D_COUNT,
    D_CAPACITY,
    D_KIND,  # addresses of the columns
    D_PAYLOAD,
    D_EXTENT,
    D_EXTRA,
    D_SLOTS,
    D_SLOT_COUNT,
    D_SHIFT,
    D_LIMIT,
    D_HEAP,
    D_HEAP_CAPACITY,
    D_HEAP_TOP,
    D_WORDS,
) = range(14)

BLOCK = 32  # texts that are hashed ahead
UNKNOWN, REPEATED = -1, -2  # what is known of a text before the dictionary is asked
UPPER = np.int64(-4294967296)
LOWER = np.int64(0xFFFFFFFF)
INTEGER, STRING, IRI = 2, 8, 11
FULL = -3  # the dictionary must grow first


@inlined
def number_hash(kind: Any, payload: Any, extra: Any) -> Any:
    """The upper 32 bits of the hash of a value that is held in its payload."""
    return mix(mix(payload) ^ np.uint64(kind) ^ (np.uint64(extra) << np.uint64(8))) >> np.uint64(32)


@inlined
def text_hash(address: Any, length: Any, kind: Any, extra: Any) -> Any:
    """The upper 32 bits of the hash of the bytes at an address."""
    hashed = (
        np.uint64(length) * np.uint64(0x9E3779B97F4A7C15)
        ^ np.uint64(kind)
        ^ (np.uint64(extra) << np.uint64(8))
    )
    offset = np.int64(0)
    while offset + 16 < length:
        turned = load64(address + offset + 8) * np.uint64(0x9E3779B97F4A7C15)
        turned = (turned << np.uint64(32)) | (turned >> np.uint64(32))
        hashed = (hashed ^ load64(address + offset) ^ turned) * np.uint64(0xFF51AFD7ED558CCD)
        hashed ^= hashed >> np.uint64(31)
        offset += 16
    if offset + 8 < length:
        hashed = (hashed ^ load64(address + offset)) * np.uint64(0xFF51AFD7ED558CCD)
        hashed ^= hashed >> np.uint64(31)
    hashed = (hashed ^ last_bytes(address, length)) * np.uint64(0xFF51AFD7ED558CCD)
    return mix(hashed) >> np.uint64(32)


@inlined
def last_bytes(address: Any, length: Any) -> Any:
    """The last eight bytes of a text, or all of a shorter one."""
    if length >= 8:
        return load64(address + length - 8)
    word = np.uint64(0)
    text = bytes_at(address, length)
    for offset in range(length):
        word = (word << np.uint64(8)) | np.uint64(text[offset])
    return word


@inlined
def same_bytes(left: Any, right: Any, length: Any) -> Any:
    """Whether the bytes at two addresses agree; the last ones first, where names differ that begin alike."""
    if last_bytes(left, length) != last_bytes(right, length):
        return False
    offset = np.int64(0)
    while offset + 8 < length:
        if load64(left + offset) != load64(right + offset):
            return False
        offset += 8
    return True


@inlined
def copy_bytes(origin: Any, target: Any, length: Any) -> None:
    """Copy a text eight bytes at a time; the last eight overlap those before them."""
    offset = np.int64(0)
    while offset + 8 <= length:
        store64(target + offset, load64(origin + offset))
        offset += 8
    if length >= 8:
        store64(target + length - 8, load64(origin + length - 8))
    else:
        to = bytes_at(target, length)
        text = bytes_at(origin, length)
        for place in range(length):
            to[place] = text[place]


@kernel("i64[:], i64, i64, i64 -> i64")
def intern_number(D: Any, kind: Any, payload: Any, extra: Any) -> Any:
    """The id of a value held in its payload, or FULL."""
    capacity = D[D_CAPACITY]
    kinds = bytes_at(D[D_KIND], capacity)
    payloads = int64_at(D[D_PAYLOAD], capacity)
    extras = int32_at(D[D_EXTRA], capacity)
    slot_count = D[D_SLOT_COUNT]
    slots = int64_at(D[D_SLOTS], slot_count)
    hashed = number_hash(kind, payload, extra)
    tag = np.int64(hashed << np.uint64(32))
    position = np.int64(hashed >> np.uint64(D[D_SHIFT]))
    while True:
        slot = slots[position]
        if slot == 0:
            break
        if (slot & UPPER) == tag:
            found = (slot & LOWER) - 1
            if payloads[found] == payload and kinds[found] == kind and extras[found] == extra:
                return found
        position = (position + 1) & (slot_count - 1)
    count = D[D_COUNT]
    if count >= D[D_LIMIT] or count >= capacity:
        return np.int64(FULL)
    slots[position] = tag | (count + 1)
    kinds[count] = kind
    payloads[count] = payload
    extras[count] = extra
    int32_at(D[D_EXTENT], capacity)[count] = 0
    D[D_COUNT] = count + 1
    return count


@kernel("i64[:], i64, i64, const i64[:], i64, i32[:] -> i64")
def intern_numbers(D: Any, kind: Any, extra: Any, values: Any, done: Any, out: Any) -> Any:
    """Write the id of each value into `out`; returns how far it came before the dictionary was full."""
    before = np.int64(0)
    before_id = np.int64(-1)
    for index in range(done, len(values)):
        value = values[index]
        if before_id < 0 or value != before:
            found = intern_number(D, kind, value, extra)
            if found == FULL:
                return index
            before = value
            before_id = found
        out[index] = before_id
    return len(values)


@inlined
def is_entry(D: Any, entry: Any, address: Any, length: Any, kind: Any, extra: Any) -> Any:
    """Whether an entry of the dictionary is the text at an address."""
    capacity = D[D_CAPACITY]
    return (
        int32_at(D[D_EXTENT], capacity)[entry] == length
        and bytes_at(D[D_KIND], capacity)[entry] == kind
        and int32_at(D[D_EXTRA], capacity)[entry] == extra
        and same_bytes(D[D_HEAP] + int64_at(D[D_PAYLOAD], capacity)[entry], address, length)
    )


@subroutine
def intern_hashed(D: Any, address: Any, length: Any, kind: Any, extra: Any, hashed: Any) -> Any:
    """The id of the text at an address whose hash is known, or FULL."""
    capacity = D[D_CAPACITY]
    kinds = bytes_at(D[D_KIND], capacity)
    payloads = int64_at(D[D_PAYLOAD], capacity)
    extents = int32_at(D[D_EXTENT], capacity)
    extras = int32_at(D[D_EXTRA], capacity)
    slot_count = D[D_SLOT_COUNT]
    slots = int64_at(D[D_SLOTS], slot_count)
    heap = D[D_HEAP]
    tag = np.int64(hashed << np.uint64(32))
    position = np.int64(hashed >> np.uint64(D[D_SHIFT]))
    while True:
        slot = slots[position]
        if slot == 0:
            break
        if (slot & UPPER) == tag:
            found = (slot & LOWER) - 1
            if is_entry(D, found, address, length, kind, extra):
                return found
        position = (position + 1) & (slot_count - 1)
    count = D[D_COUNT]
    top = D[D_HEAP_TOP]
    if count >= D[D_LIMIT] or count >= capacity or top + length > D[D_HEAP_CAPACITY]:
        return np.int64(FULL)
    slots[position] = tag | (count + 1)
    kinds[count] = kind
    payloads[count] = top
    extents[count] = length
    extras[count] = extra
    copy_bytes(address, heap + top, length)
    D[D_HEAP_TOP] = top + length
    D[D_COUNT] = count + 1
    return count


@kernel("i64[:], i64, i64, i64, i64 -> i64")
def intern_text(D: Any, address: Any, length: Any, kind: Any, extra: Any) -> Any:
    """The id of the text at an address, or FULL."""
    return intern_hashed(D, address, length, kind, extra, text_hash(address, length, kind, extra))


OFFSETS, WIDE_OFFSETS, VIEWS = range(3)  # how an Arrow column lays out its texts


@inlined
def text_at(texts: Any, form: Any, data: Any, row: Any, rows: Any) -> Any:
    """The address and length of a text in an Arrow column, given by its offsets or its views."""
    if form == VIEWS:
        view = int32_at(texts, 4 * rows)
        length = np.int64(view[4 * row])
        # A short text stands in its view, a longer one in the data.
        if length <= 12:
            return texts + 16 * row + 4, length
        return data + np.int64(view[4 * row + 3]), length
    if form == WIDE_OFFSETS:
        long = int64_at(texts, rows + 1)
        return data + long[row], long[row + 1] - long[row]
    short = int32_at(texts, rows + 1)
    return data + np.int64(short[row]), np.int64(short[row + 1]) - np.int64(short[row])


@kernel("i64[:], i64, i64, i64, i64, i64, i64, i64, i32[:] -> i64")
def intern_texts(
    D: Any, texts: Any, form: Any, data: Any, rows: Any, kind: Any, extra: Any, done: Any, out: Any
) -> Any:
    """Write the id of each text of an Arrow column into `out`; returns how far it came before it was full.

    `texts` is the address of the column's offsets or views, `form` says which. Rows are taken in blocks, and
    what the next look at the dictionary needs (slot, entry, text) is fetched while others are looked at.
    """
    hashes = np.empty(BLOCK, np.uint64)
    known = np.empty(BLOCK, np.int64)
    found = D[D_COUNT]
    begin = done
    while begin < rows:
        end = min(begin + BLOCK, rows)
        guess_block(D, texts, form, data, rows, kind, extra, begin, end, found + 1, hashes, known)
        fetch_block(D, hashes, known, end - begin)
        for row in range(begin, end):
            if known[row - begin] >= 0:
                found = known[row - begin]
            elif known[row - begin] == UNKNOWN:
                address, length = text_at(texts, form, data, row, rows)
                found = intern_hashed(D, address, length, kind, extra, hashes[row - begin])
                if found == FULL:
                    return row
            out[row] = found
        begin = end
    return rows


@subroutine
def guess_block(
    D: Any,
    texts: Any,
    form: Any,
    data: Any,
    rows: Any,
    kind: Any,
    extra: Any,
    begin: Any,
    end: Any,
    guess: Any,
    hashes: Any,
    known: Any,
) -> None:
    """Note which texts of a block repeat the one before or go on in the dictionary's order; hash the others.

    Columns are often sorted, or list what an earlier one has listed in the same order: `guess` is the entry
    to expect. Neither kind costs more than to compare texts that lie one after the other.
    """
    slots = D[D_SLOTS]
    shift = np.uint64(D[D_SHIFT])
    count = D[D_COUNT]
    before = np.int64(0)
    before_length = np.int64(-1)
    for row in range(begin, end):
        address, length = text_at(texts, form, data, row, rows)
        if length == before_length and same_bytes(before, address, length):
            known[row - begin] = REPEATED
            continue
        before = address
        before_length = length
        if guess < count and is_entry(D, guess, address, length, kind, extra):
            known[row - begin] = guess
            guess += 1
        else:
            known[row - begin] = UNKNOWN
            hashed = text_hash(address, length, kind, extra)
            hashes[row - begin] = hashed
            prefetch(slots + 8 * np.int64(hashed >> shift))


@subroutine
def fetch_block(D: Any, hashes: Any, known: Any, count: Any) -> None:
    """Fetch the entries and texts that the hashes of a block lead to."""
    slots = int64_at(D[D_SLOTS], D[D_SLOT_COUNT])
    shift = np.uint64(D[D_SHIFT])
    payloads = int64_at(D[D_PAYLOAD], D[D_CAPACITY])
    for place in range(count):
        if known[place] == UNKNOWN:
            slot = slots[np.int64(hashes[place] >> shift)]
            if slot != 0:
                entry = (slot & LOWER) - 1
                prefetch(D[D_PAYLOAD] + 8 * entry)
                prefetch(D[D_EXTENT] + 4 * entry)
    for place in range(count):
        if known[place] == UNKNOWN:
            slot = slots[np.int64(hashes[place] >> shift)]
            if slot != 0:
                prefetch(D[D_HEAP] + payloads[(slot & LOWER) - 1])


@kernel("i64[:], i64[:], i64[:], i64")
def rebuild_slots(D: Any, old: Any, new: Any, shift: Any) -> None:
    """Fill `new` from `old`; one sequential pass, since slots lie in the order of the upper hash bits."""
    mask = len(new) - 1
    for slot in old:
        if slot != 0:
            position = np.int64((np.uint64(slot) >> np.uint64(32)) >> np.uint64(shift))
            while new[position] != 0:
                position = (position + 1) & mask
            new[position] = slot


NAME_TEXT, IRI_TEXT, INTEGER_TEXT, OTHER_TEXT = range(4)


@inlined
def is_name_byte(byte: Any) -> Any:
    """Whether a name may go on with this byte."""
    return (65 <= byte <= 90) or (97 <= byte <= 122) or (48 <= byte <= 57) or byte == 95 or byte == 45


@inlined
def is_iri_byte(byte: Any) -> Any:
    """Whether an IRI without brackets may hold this byte, as far as ASCII goes."""
    if byte <= 32 or byte >= 127:
        return False
    return not (
        byte == 34 or byte == 60 or byte == 62 or byte == 92 or byte == 94 or byte == 96 or 123 <= byte <= 125
    )


@kernel("i64, i64, i64, i64, u8[:], i64[:]")
def classify_texts(texts: Any, form: Any, data: Any, rows: Any, classes: Any, numbers: Any) -> None:
    """Say what each text plainly is: a name, an IRI, an integer (its value in `numbers`), or other."""
    for row in range(rows):
        address, length = text_at(texts, form, data, row, rows)
        text = bytes_at(address, length)
        classes[row] = OTHER_TEXT
        if length == 0:
            continue
        first = text[0]
        if (48 <= first <= 57) or first == 43 or first == 45:
            sign = 0 if 48 <= first <= 57 else 1
            if 1 <= length - sign <= 18:
                number = np.int64(0)
                classes[row] = INTEGER_TEXT
                for place in range(sign, length):
                    if text[place] < 48 or text[place] > 57:
                        classes[row] = OTHER_TEXT
                        break
                    number = number * 10 + (np.int64(text[place]) - 48)
                numbers[row] = -number if first == 45 else number
            continue
        if first == 95 and length > 1 and text[1] == 58:
            continue
        classes[row] = NAME_TEXT
        for place in range(length):
            if not is_name_byte(text[place]) or (place == 0 and text[place] == 45):
                classes[row] = IRI_TEXT
                if not is_iri_byte(text[place]):
                    classes[row] = OTHER_TEXT
                    break


@kernel("i64[:], const i32[:], i64[:], i64")
def gather_texts(D: Any, ids: Any, offsets: Any, data: Any) -> None:
    """Copy the texts of `ids` one after the other to the address `data`, as `offsets` has laid them out."""
    capacity = D[D_CAPACITY]
    payloads = int64_at(D[D_PAYLOAD], capacity)
    extents = int32_at(D[D_EXTENT], capacity)
    for index in range(len(ids)):
        length = np.int64(extents[ids[index]])
        copy_bytes(D[D_HEAP] + payloads[ids[index]], data + offsets[index], length)
