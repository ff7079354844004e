"""Kernels over the dictionary: from values to dense ids."""

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
from tidelog.data.text_kernels import (
    COLON,
    DECIMAL,
    DIGITS,
    IN_IRI,
    LESS,
    MINUS,
    NINE,
    PLUS,
    POINT,
    QUOTE,
    SPACE,
    UNDERSCORE,
    ZERO,
    parse_number,
    text_at,
)

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
    D_USED,  # slots in use
    D_WINDOW,  # address of the ids, plus 1, of small numbers, which have no slots
    D_WORDS,
) = range(16)

# Numbers below WINDOW are places in the window: integers in its first part, in the others the digits of
# decimals that have one and two digits behind the point.
WINDOW = 1 << 22
WINDOWS = 3
MOST_WINDOW_SCALE = WINDOWS - 1

BLOCK = 32  # values that are hashed ahead
FEW_SLOTS = 1 << 14
PAGE = 4096  # bytes of which all or none can be read
UNKNOWN, REPEATED = -1, -2  # what is known of a text before the dictionary is asked
UPPER = np.int64(-4294967296)
LOWER = np.int64(0xFFFFFFFF)
INTEGER, DATETIME, STRING, LANGUAGE_STRING, LITERAL, IRI = 2, 7, 8, 9, 10, 11
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
    """The last eight bytes of a text, or all of a shorter one, the first of them highest."""
    if length >= 8:
        return load64(address + length - 8)
    word = np.uint64(0)
    if length > 0 and address & (PAGE - 1) <= PAGE - 8:  # what stands behind a text on its page can be read
        word = byteswapped(load64(address)) >> np.uint64(64 - 8 * length)
    else:
        text = bytes_at(address, length)
        for offset in range(length):
            word = (word << np.uint64(8)) | np.uint64(text[offset])
    return word


@inlined
def byteswapped(word: Any) -> Any:
    """The bytes of a word in the opposite order."""
    word = ((word & np.uint64(0x00FF00FF00FF00FF)) << np.uint64(8)) | (
        (word >> np.uint64(8)) & np.uint64(0x00FF00FF00FF00FF)
    )
    word = ((word & np.uint64(0x0000FFFF0000FFFF)) << np.uint64(16)) | (
        (word >> np.uint64(16)) & np.uint64(0x0000FFFF0000FFFF)
    )
    return (word << np.uint64(32)) | (word >> np.uint64(32))


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


@inlined
def window_place(kind: Any, payload: Any, extra: Any) -> Any:
    """The place of a number in the window, -1 if it has none."""
    if np.uint64(payload) >= np.uint64(WINDOW):
        return np.int64(-1)
    if kind == INTEGER:
        return payload
    if kind == DECIMAL and extra > 0 and extra <= MOST_WINDOW_SCALE:
        return np.int64(extra) * WINDOW + payload
    return np.int64(-1)


@inlined
def append_number(D: Any, kind: Any, payload: Any, extra: Any) -> Any:
    """The id of a new value held in its payload; there is room for it."""
    capacity = D[D_CAPACITY]
    count = D[D_COUNT]
    bytes_at(D[D_KIND], capacity)[count] = kind
    int64_at(D[D_PAYLOAD], capacity)[count] = payload
    int32_at(D[D_EXTRA], capacity)[count] = extra
    int32_at(D[D_EXTENT], capacity)[count] = 0
    D[D_COUNT] = count + 1
    return count


@inlined
def intern_in_window(D: Any, place: Any, kind: Any, payload: Any, extra: Any) -> Any:
    """The id of a number that has a place in the window, or FULL."""
    window = int32_at(D[D_WINDOW], WINDOW * WINDOWS)
    found = np.int64(window[place]) - 1
    if found < 0:
        if D[D_COUNT] >= D[D_CAPACITY]:
            return np.int64(FULL)
        found = append_number(D, kind, payload, extra)
        window[place] = found + 1
    return found


@inlined
def is_number(D: Any, entry: Any, kind: Any, payload: Any, extra: Any) -> Any:
    """Whether an entry of the dictionary is the value held in this payload; most kinds have no extra."""
    capacity = D[D_CAPACITY]
    return (
        int64_at(D[D_PAYLOAD], capacity)[entry] == payload
        and bytes_at(D[D_KIND], capacity)[entry] == kind
        and ((kind != DECIMAL and kind != DATETIME) or int32_at(D[D_EXTRA], capacity)[entry] == extra)
    )


@subroutine
def intern_hashed_number(D: Any, kind: Any, payload: Any, extra: Any, hashed: Any) -> Any:
    """The id of a value held in its payload whose hash is known, or FULL."""
    place = window_place(kind, payload, extra)
    if place >= 0:
        return intern_in_window(D, place, kind, payload, extra)
    slot_count = D[D_SLOT_COUNT]
    slots = int64_at(D[D_SLOTS], slot_count)
    tag = np.int64(hashed << np.uint64(32))
    position = np.int64(hashed >> np.uint64(D[D_SHIFT]))
    while True:
        slot = slots[position]
        if slot == 0:
            break
        if (slot & UPPER) == tag:
            found = (slot & LOWER) - 1
            if is_number(D, found, kind, payload, extra):
                return found
        position = (position + 1) & (slot_count - 1)
    if D[D_USED] >= D[D_LIMIT] or D[D_COUNT] >= D[D_CAPACITY]:
        return np.int64(FULL)
    slots[position] = tag | (D[D_COUNT] + 1)
    D[D_USED] += 1
    return append_number(D, kind, payload, extra)


@kernel("i64[:], i64, i64, i64 -> i64")
def intern_number(D: Any, kind: Any, payload: Any, extra: Any) -> Any:
    """The id of a value held in its payload, or FULL."""
    return intern_hashed_number(D, kind, payload, extra, number_hash(kind, payload, extra))


@kernel("i64[:], i64, i64, const i32[:], const i64[:], i64, i32[:] -> i64")
def intern_numbers(D: Any, kind: Any, extra: Any, extras: Any, values: Any, done: Any, out: Any) -> Any:
    """Write the id of each value into `out`; returns how far it came before the dictionary was full.

    Each has its own extra, or all have the same. As with texts, rows are taken in blocks: what the next look
    at the dictionary needs is fetched while others are looked at.
    """
    if kind in (INTEGER, DECIMAL):
        done = intern_small_numbers(D, kind, extra, extras, values, done, out)
    hashes = np.empty(BLOCK, np.uint64)
    known = np.empty(BLOCK, np.int64)
    rows = len(values)
    has_extras = len(extras) > 0
    found = np.int64(-1)
    begin = done
    if D[D_SLOT_COUNT] <= FEW_SLOTS:  # which lie in the cache, so that there is nothing to fetch
        for row in range(done, rows):
            own = np.int64(extras[row]) if has_extras else extra
            if row == done or values[row] != values[row - 1] or (has_extras and extras[row - 1] != own):
                found = intern_number(D, kind, values[row], own)
                if found == FULL:
                    return row
            out[row] = found
        return rows
    while begin < rows:
        end = min(begin + BLOCK, rows)
        guess_numbers(D, kind, extra, extras, values, begin, end, found + 1, hashes, known)
        for row in range(begin, end):
            if known[row - begin] >= 0:
                found = known[row - begin]
            elif known[row - begin] == UNKNOWN:
                own = np.int64(extras[row]) if has_extras else extra
                found = intern_hashed_number(D, kind, values[row], own, hashes[row - begin])
                if found == FULL:
                    return row
            out[row] = found
        begin = end
    return rows


@subroutine
def intern_small_numbers(D: Any, kind: Any, extra: Any, extras: Any, values: Any, done: Any, out: Any) -> Any:
    """The same of numbers that have a place in the window, up to the first that has none."""
    has_extras = len(extras) > 0
    places = np.empty(BLOCK, np.int64)
    begin = done
    while begin < len(values):
        end = begin
        while end < min(begin + BLOCK, len(values)):
            place = window_place(kind, values[end], np.int64(extras[end]) if has_extras else extra)
            if place < 0:
                break
            places[end - begin] = place
            prefetch(D[D_WINDOW] + 4 * place)
            end += 1
        for row in range(begin, end):
            own = np.int64(extras[row]) if has_extras else extra
            found = intern_in_window(D, places[row - begin], kind, values[row], own)
            if found == FULL:
                return row
            out[row] = found
        if end < min(begin + BLOCK, len(values)):
            return end
        begin = end
    return begin


@subroutine
def guess_numbers(
    D: Any,
    kind: Any,
    extra: Any,
    extras: Any,
    values: Any,
    begin: Any,
    end: Any,
    guess: Any,
    hashes: Any,
    known: Any,
) -> None:
    """Note which values of a block repeat the one before or go on in the dictionary's order; hash the others.

    Their slots are fetched, and then the entries that these lead to.
    """
    slots = int64_at(D[D_SLOTS], D[D_SLOT_COUNT])
    shift = np.uint64(D[D_SHIFT])
    count = D[D_COUNT]
    has_extras = len(extras) > 0
    for row in range(begin, end):
        value = values[row]
        own = np.int64(extras[row]) if has_extras else extra
        if row > begin and value == values[row - 1] and (not has_extras or extras[row - 1] == own):
            known[row - begin] = REPEATED
        elif guess < count and is_number(D, guess, kind, value, own):
            known[row - begin] = guess
            guess += 1
        else:
            known[row - begin] = UNKNOWN
            hashed = number_hash(kind, value, own)
            hashes[row - begin] = hashed
            prefetch(D[D_SLOTS] + 8 * np.int64(hashed >> shift))
    for place in range(end - begin):
        if known[place] == UNKNOWN:
            slot = slots[np.int64(hashes[place] >> shift)]
            if slot != 0:
                entry = (slot & LOWER) - 1
                prefetch(D[D_PAYLOAD] + 8 * entry)
                prefetch(D[D_KIND] + entry)


@kernel("i64[:], const u8[:], const i64[:], const i32[:], i64, i32[:] -> i64")
def intern_mixed_numbers(D: Any, kinds: Any, values: Any, extras: Any, done: Any, out: Any) -> Any:
    """The same of values of several kinds and scales; of kind 0 there is no value, and the id is -1."""
    shift = np.uint64(D[D_SHIFT])
    for begin in range(done, len(values), BLOCK):
        end = min(begin + BLOCK, len(values))
        for index in range(begin, end):
            hashed = number_hash(kinds[index], values[index], extras[index])
            prefetch(D[D_SLOTS] + 8 * np.int64(hashed >> shift))
        for index in range(begin, end):
            out[index] = -1
            if kinds[index] != 0:
                interned = intern_number(D, np.int64(kinds[index]), values[index], np.int64(extras[index]))
                if interned == FULL:
                    return index
                out[index] = interned
    return len(values)


@inlined
def is_entry(D: Any, entry: Any, address: Any, length: Any, kind: Any, extra: Any) -> Any:
    """Whether an entry of the dictionary is the text at an address; few kinds have an extra."""
    capacity = D[D_CAPACITY]
    return (
        int32_at(D[D_EXTENT], capacity)[entry] == length
        and bytes_at(D[D_KIND], capacity)[entry] == kind
        and ((kind != LANGUAGE_STRING and kind != LITERAL) or int32_at(D[D_EXTRA], capacity)[entry] == extra)
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
    if D[D_USED] >= D[D_LIMIT] or count >= capacity or top + length > D[D_HEAP_CAPACITY]:
        return np.int64(FULL)
    slots[position] = tag | (count + 1)
    D[D_USED] += 1
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
                prefetch(D[D_KIND] + entry)
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


NAME_TEXT, IRI_TEXT, INTEGER_TEXT, DECIMAL_TEXT, STRING_TEXT, OTHER_TEXT = range(6)


@inlined
def is_name_byte(byte: Any) -> Any:
    """Whether a name may go on with this byte."""
    return (65 <= byte <= 90) or (97 <= byte <= 122) or (48 <= byte <= 57) or byte == 95 or byte == 45


@inlined
def may_be_space(byte: Any) -> Any:
    """Whether a byte may be of white space or a control character, other than a space within a text.

    White space beyond ASCII begins with one of four bytes.
    """
    return byte < 32 or byte == 127 or byte == 0xC2 or 0xE1 <= byte <= 0xE3


@kernel("i64, i64, i64, i64, u8[:], u8[:], i64[:], i32[:]")
def classify_texts(
    texts: Any, form: Any, data: Any, rows: Any, uses: Any, classes: Any, numbers: Any, scales: Any
) -> None:
    """Say what each text plainly is: a name, an IRI, a number (its digits in `numbers`), a string, or other.

    Those of the last four are read so by `logic.conversions.read_any`.
    """
    for row in range(rows):
        address, length = text_at(texts, form, data, row, rows)
        text = bytes_at(address, length)
        classes[row] = OTHER_TEXT
        if length == 0 or text[0] == QUOTE or text[0] == LESS:
            continue
        if text[0] == UNDERSCORE and length > 1 and text[1] == COLON:
            continue
        is_numeric = text[0] == PLUS or text[0] == MINUS or ZERO <= text[0] <= NINE
        if is_numeric:
            is_read, number, scale, has_point = parse_number(address, length, DIGITS, DIGITS)
            if is_read:
                classes[row] = DECIMAL_TEXT if has_point else INTEGER_TEXT
                numbers[row] = number
                scales[row] = scale
                continue
        is_name, is_iri, is_clear = not is_numeric, True, text[0] != SPACE and text[length - 1] != SPACE
        for place in range(length):
            byte = text[place]
            is_name &= is_name_byte(byte)
            is_iri &= uses[byte] & IN_IRI != 0
            is_clear &= not may_be_space(byte)
            if place > 0 and byte != POINT and not ZERO <= byte <= NINE:
                is_numeric = False
        if is_name:
            classes[row] = NAME_TEXT
        elif is_clear and not is_numeric:
            classes[row] = IRI_TEXT if is_iri else STRING_TEXT


@kernel("i64[:], const i32[:], i64[:], i64")
def gather_texts(D: Any, ids: Any, offsets: Any, data: Any) -> None:
    """Copy the texts of `ids` one after the other to the address `data`, as `offsets` has laid them out."""
    capacity = D[D_CAPACITY]
    payloads = int64_at(D[D_PAYLOAD], capacity)
    extents = int32_at(D[D_EXTENT], capacity)
    for index in range(len(ids)):
        length = np.int64(extents[ids[index]])
        copy_bytes(D[D_HEAP] + payloads[ids[index]], data + offsets[index], length)


@kernel("const i64[:], i64, i64[:], i32[:], i64[:] -> i64")
def shorten_decimals(words: Any, scale: Any, numbers: Any, scales: Any, listed: Any) -> Any:
    """Write decimals of 128 bits without zeros at their end; returns how many are listed, beyond 64 bits."""
    count = np.int64(0)
    for row in range(len(numbers)):
        number, own = words[2 * row], scale
        if words[2 * row + 1] != number >> 63 or scale < 0:
            listed[count] = row
            count += 1
        while own > 0 and number % 10 == 0:
            number //= 10
            own -= 1
            if number == 0:
                own = np.int64(0)
        numbers[row] = number
        scales[row] = own
    return count


# ---- Parts of texts: where they stand, and copies of them.
#
# A column of texts is the address of its 64-bit offsets and that of its bytes; with a step of 0 its first
# text stands for all rows.

ANYWHERE, AT_START, AT_END = range(3)  # where a part is looked for


@inlined
def starts_with(address: Any, part: Any, length: Any) -> Any:
    """Whether the bytes at an address are those of a part."""
    return length == 0 or same_bytes(address, part, length)


@kernel("i64, i64, i64, i64, i64, i64, i64, i64[:]")
def find_parts(
    texts: Any, data: Any, step: Any, parts: Any, parts_data: Any, parts_step: Any, place: Any, out: Any
) -> None:
    """Write where each part first stands in its text, as a place among all the bytes; -1 if it does not."""
    rows = len(out)
    text_offsets = int64_at(texts, step * rows + 2)
    part_offsets = int64_at(parts, parts_step * rows + 2)
    for row in range(rows):
        start = text_offsets[step * row]
        length = text_offsets[step * row + 1] - start
        part = parts_data + part_offsets[parts_step * row]
        size = part_offsets[parts_step * row + 1] - part_offsets[parts_step * row]
        out[row] = -1
        last = length - size
        if last < 0:
            continue
        if size == 0 and place != AT_END:
            out[row] = start
        elif place == AT_END:
            if starts_with(data + start + last, part, size):
                out[row] = start + last
        elif place == AT_START:
            if starts_with(data + start, part, size):
                out[row] = start
        else:
            first = bytes_at(part, size)[0]
            text = bytes_at(data + start, length)
            for offset in range(last + 1):
                if text[offset] == first and starts_with(data + start + offset, part, size):
                    out[row] = start + offset
                    break


@kernel("i64, i64, i64, i64[:], i64[:]")
def find_characters(texts: Any, data: Any, step: Any, starts: Any, ends: Any) -> None:
    """Replace numbers of characters in each text, in ascending order, by places among all the bytes."""
    rows = len(starts)
    offsets = int64_at(texts, step * rows + 2)
    for row in range(rows):
        begin = offsets[step * row]
        length = offsets[step * row + 1] - begin
        text = bytes_at(data + begin, length)
        start, end = starts[row], ends[row]
        starts[row] = begin + length
        ends[row] = begin + length
        character = np.int64(0)
        for offset in range(length):
            if text[offset] & 0xC0 == 0x80:
                continue  # the character goes on
            if character == start:
                starts[row] = begin + offset
            if character >= end:
                ends[row] = begin + offset
                break
            character += 1
        ends[row] = max(ends[row], starts[row])


@kernel("i64, const i64[:], const i64[:], i64")
def copy_parts(data: Any, starts: Any, offsets: Any, target: Any) -> None:
    """Copy parts of texts one after the other to an address, as `offsets` has laid them out."""
    for row in range(len(starts)):
        copy_bytes(data + starts[row], target + offsets[row], offsets[row + 1] - offsets[row])
