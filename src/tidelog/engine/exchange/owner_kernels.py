"""Kernels of the exchange: hashes of values, rows by owner, values by number. Mutates what it is given.

A value's hash depends on nothing but the value and the seed. It is computed from the seed by one invertible
step for each word of the value: texts of one length that differ in one word never collide, and whether others
do depends on the seed.
"""

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
    prefetch,
    subroutine,
    trailing_zeros,
)
from tidelog.data.dictionary_kernels import (
    D_CAPACITY,
    D_COUNT,
    D_EXTENT,
    D_EXTRA,
    D_HEAP,
    D_HEAP_CAPACITY,
    D_HEAP_TOP,
    D_KIND,
    D_LIMIT,
    D_PAYLOAD,
    D_SHIFT,
    D_SLOT_COUNT,
    D_SLOTS,
    D_USED,
    FULL,
    copy_bytes,
    intern_in_window,
    is_entry,
    last_bytes,
    number_hash,
    text_hash,
    window_place,
)

FIRST = np.uint64(0x9E3779B97F4A7C15)
SECOND = np.uint64(0xC2B2AE3D27D4EB4F)
BLOCK = 64  # hashes whose slots are fetched ahead
AHEAD = 8  # values that are fetched ahead
BITS = 32
# Which kinds are texts, and which of these have a qualifier: `logic.values.Kind`.
BIG, STRING, LANGUAGE_STRING, LITERAL, BLANK = 5, 8, 9, 10, 12
SKETCH = 256  # registers of a sketch


@inlined
def is_text(kind: Any) -> Any:
    """Whether values of a kind are texts."""
    return kind == BIG or (STRING <= kind <= BLANK)


@inlined
def is_qualified(kind: Any) -> Any:
    """Whether texts of a kind have a qualifier, another value."""
    return kind == LANGUAGE_STRING or kind == LITERAL


@inlined
def stirred(hashed: Any, word: Any) -> Any:
    """The hash with one more word in it."""
    hashed = (hashed ^ word) * FIRST
    return hashed ^ (hashed >> np.uint64(32))


@inlined
def spread(hashed: Any) -> Any:
    """The upper half of a word that depends on all bits of a hash."""
    return (np.uint64(hashed) * SECOND) >> np.uint64(BITS)


@inlined
def slot_of(hashed: Any, shift: Any) -> Any:
    """The slot where a hash is looked for first; by other bits than its owner, which many here share."""
    return np.int64(((np.uint64(hashed) * FIRST) >> np.uint64(BITS)) >> np.uint64(shift))


@inlined
def owner_of(hashed: Any, tasks: Any) -> Any:
    """The task that owns the value with this hash."""
    return np.int64((spread(hashed) * np.uint64(tasks)) >> np.uint64(BITS))


@kernel("i64[:], i64, i64, i64, i64, i64[:]")
def hash_entries(D: Any, first: Any, last: Any, seed: Any, mask: Any, hashes: Any) -> None:
    """Write the hash of each entry of a dictionary; an entry's qualifier lies before it."""
    capacity = D[D_CAPACITY]
    kinds = bytes_at(D[D_KIND], capacity)
    payloads = int64_at(D[D_PAYLOAD], capacity)
    extents = int32_at(D[D_EXTENT], capacity)
    extras = int32_at(D[D_EXTRA], capacity)
    for entry in range(first, last):
        kind = np.int64(kinds[entry])
        hashed = stirred(np.uint64(seed), np.uint64(kind) + np.uint64(1))
        if is_text(kind):
            length = np.int64(extents[entry])
            address = D[D_HEAP] + payloads[entry]
            hashed = stirred(hashed, np.uint64(length))
            if is_qualified(kind):
                hashed = stirred(hashed, np.uint64(hashes[extras[entry]]))
            offset = np.int64(0)
            while offset + 8 < length:
                hashed = stirred(hashed, load64(address + offset))
                offset += 8
            hashed = stirred(hashed, last_bytes(address, length))
        else:
            hashed = stirred(hashed, np.uint64(payloads[entry]))
            hashed = stirred(hashed, np.uint64(extras[entry]))
        hashed = (hashed ^ (hashed >> np.uint64(29))) * SECOND
        hashes[entry] = np.int64((hashed ^ (hashed >> np.uint64(32))) & np.uint64(mask))


# ---- from hashes to ids


@kernel("const i64[:], i64, i64, i64, i64, i64 -> i64")
def enter(hashes: Any, address: Any, count: Any, shift: Any, first: Any, last: Any) -> Any:
    """Enter ids into so many slots at the address; returns the first whose hash another id has, or -1."""
    slots = int32_at(address, count)
    mask = count - 1
    begin = first
    while begin < last:
        end = min(begin + BLOCK, last)
        for entry in range(begin, end):
            prefetch(address + 4 * slot_of(hashes[entry], shift))
        for entry in range(begin, end):
            hashed = hashes[entry]
            position = slot_of(hashed, shift)
            while slots[position] != 0:
                if hashes[slots[position] - 1] == hashed:
                    return entry
                position = (position + 1) & mask
            slots[position] = entry + 1
        begin = end
    return np.int64(-1)


@kernel("const i64[:], const i64[:], i64, i64, i64, i32[:]")
def look_up(wanted: Any, hashes: Any, address: Any, count: Any, shift: Any, ids: Any) -> None:
    """Write the id of each hash, -1 where there is none; so many slots lie at the address."""
    slots = int32_at(address, count)
    mask = count - 1
    begin = 0
    while begin < len(wanted):
        end = min(begin + BLOCK, len(wanted))
        for place in range(begin, end):
            prefetch(address + 4 * slot_of(wanted[place], shift))
        for place in range(begin, end):
            hashed = wanted[place]
            position = slot_of(hashed, shift)
            ids[place] = -1
            while slots[position] != 0:
                if hashes[slots[position] - 1] == hashed:
                    ids[place] = slots[position] - 1
                    break
                position = (position + 1) & mask
        begin = end


# ---- rows that leave


@kernel("const i32[:], const i64[:], i64, i32[:], i64[:]")
def by_owner(column: Any, hashes: Any, tasks: Any, rows: Any, starts: Any) -> None:
    """Write the numbers of rows sorted by the owners of a column's values, and where each owner's begin."""
    starts[:] = 0
    for row in range(len(column)):
        starts[owner_of(hashes[column[row]], tasks) + 1] += 1
    for task in range(tasks):
        starts[task + 1] += starts[task]
    place = starts.copy()
    for row in range(len(column)):
        owner = owner_of(hashes[column[row]], tasks)
        rows[place[owner]] = row
        place[owner] += 1


@kernel("const i32[:], const i32[:], i32[:], i32[:], i64, i32[:] -> i64")
def number_values(column: Any, rows: Any, numbers: Any, listed: Any, count: Any, out: Any) -> Any:
    """Write for each row the number of its value in the list, to which new values are added.

    `numbers` has for each id 1 plus its number, 0 if it is not listed. Without `rows` all are meant. Returns
    how many values are listed.
    """
    is_chosen = len(rows) > 0
    for place in range(len(out)):
        entry = column[rows[place]] if is_chosen else column[place]
        number = numbers[entry]
        if number == 0:
            listed[count] = entry
            count += 1
            number = count
            numbers[entry] = number
        out[place] = number - 1
    return count


# ---- values that are told


@kernel("i64[:], const i32[:], u8[:], i32[:], i64[:], i64[:]")
def describe(D: Any, ids: Any, kinds: Any, extras: Any, words: Any, offsets: Any) -> None:
    """Write what values are: kind, extra, the payload of a number or the length of a text.

    The texts are to lie one after the other, as `offsets` says.
    """
    capacity = D[D_CAPACITY]
    kind_of = bytes_at(D[D_KIND], capacity)
    payload_of = int64_at(D[D_PAYLOAD], capacity)
    extent_of = int32_at(D[D_EXTENT], capacity)
    extra_of = int32_at(D[D_EXTRA], capacity)
    top = np.int64(0)
    for place in range(len(ids)):
        ahead = min(place + AHEAD, len(ids) - 1)
        prefetch(D[D_KIND] + np.int64(ids[ahead]))
        prefetch(D[D_PAYLOAD] + 8 * np.int64(ids[ahead]))
        prefetch(D[D_EXTENT] + 4 * np.int64(ids[ahead]))
        prefetch(D[D_EXTRA] + 4 * np.int64(ids[ahead]))
        entry = ids[place]
        kind = kind_of[entry]
        kinds[place] = kind
        extras[place] = extra_of[entry]
        offsets[place] = top
        if is_text(np.int64(kind)):
            words[place] = extent_of[entry]
            top += np.int64(extent_of[entry])
        else:
            words[place] = payload_of[entry]
    offsets[len(ids)] = top


@inlined
def hash_told(kind: Any, extra: Any, word: Any, address: Any) -> Any:
    """The hash by which the dictionary finds a value that is told."""
    if is_text(kind):
        return text_hash(address, word, kind, extra)
    return number_hash(kind, word, extra)


@subroutine
def append(D: Any, kind: Any, extra: Any, word: Any, address: Any) -> Any:
    """The id of a value that the dictionary does not have, or FULL."""
    capacity = D[D_CAPACITY]
    count = D[D_COUNT]
    top = D[D_HEAP_TOP]
    length = word if is_text(kind) else np.int64(0)
    place = np.int64(-1) if is_text(kind) else window_place(kind, word, extra)
    if place >= 0:
        return intern_in_window(D, place, kind, word, extra)
    if D[D_USED] >= D[D_LIMIT] or count >= capacity or top + length > D[D_HEAP_CAPACITY]:
        return np.int64(FULL)
    hashed = hash_told(kind, extra, word, address)
    slot_count = D[D_SLOT_COUNT]
    slots = int64_at(D[D_SLOTS], slot_count)
    position = np.int64(hashed >> np.uint64(D[D_SHIFT]))
    while slots[position] != 0:
        position = (position + 1) & (slot_count - 1)
    slots[position] = np.int64(hashed << np.uint64(32)) | (count + 1)
    D[D_USED] += 1
    bytes_at(D[D_KIND], capacity)[count] = kind
    int32_at(D[D_EXTENT], capacity)[count] = length
    int32_at(D[D_EXTRA], capacity)[count] = extra
    if is_text(kind):
        int64_at(D[D_PAYLOAD], capacity)[count] = top
        copy_bytes(address, D[D_HEAP] + top, length)
        D[D_HEAP_TOP] = top + length
    else:
        int64_at(D[D_PAYLOAD], capacity)[count] = word
    D[D_COUNT] = count + 1
    return count


@inlined
def is_same(D: Any, entry: Any, kind: Any, extra: Any, word: Any, address: Any) -> Any:
    """Whether an entry of the dictionary is the value that is told."""
    if is_text(kind):
        return is_entry(D, entry, address, word, kind, extra)
    capacity = D[D_CAPACITY]
    return (
        int64_at(D[D_PAYLOAD], capacity)[entry] == word
        and bytes_at(D[D_KIND], capacity)[entry] == kind
        and int32_at(D[D_EXTRA], capacity)[entry] == extra
    )


@kernel(
    "i64[:], const u8[:], const i32[:], const i64[:], const i64[:], i64, const i32[:], i64, i32[:] -> i64"
)
def learn(
    D: Any, kinds: Any, extras: Any, words: Any, offsets: Any, texts: Any, places: Any, done: Any, ids: Any
) -> Any:
    """Add received values to the dictionary, and write their ids to their places in `ids`.

    If there is an id already, found by the hash, it must be of the same value: otherwise returns -1 - number
    of the value. Other values are not in the dictionary. A word is the payload of a number, or the length of
    a text that lies at its offset after `texts`. The qualifier of a text is given by its place in `ids`,
    which is written before. Returns the number of values done, fewer than all if the dictionary is full.
    """
    begin = done
    capacity = D[D_CAPACITY]
    while begin < len(kinds):
        end = min(begin + BLOCK, len(kinds))
        for number in range(begin, end):
            known = np.int64(ids[places[number]])
            if known >= 0:
                prefetch(D[D_KIND] + known)
                prefetch(D[D_PAYLOAD] + 8 * known)
                prefetch(D[D_EXTENT] + 4 * known)
                prefetch(D[D_EXTRA] + 4 * known)
            elif not is_qualified(np.int64(kinds[number])):
                kind, extra = np.int64(kinds[number]), np.int64(extras[number])
                hashed = hash_told(kind, extra, words[number], texts + offsets[number])
                prefetch(D[D_SLOTS] + 8 * np.int64(hashed >> np.uint64(D[D_SHIFT])))
        for number in range(begin, end):
            known = np.int64(ids[places[number]])
            if known >= 0 and is_text(np.int64(kinds[number])):
                prefetch(D[D_HEAP] + int64_at(D[D_PAYLOAD], capacity)[known])
        for number in range(begin, end):
            kind = np.int64(kinds[number])
            extra = np.int64(extras[number])
            if is_qualified(kind):
                extra = np.int64(ids[extra])
            address = texts + offsets[number]
            known = np.int64(ids[places[number]])
            if known >= 0:
                if not is_same(D, known, kind, extra, words[number], address):
                    return np.int64(-1 - number)
            else:
                known = append(D, kind, extra, words[number], address)
                if known == FULL:
                    return number
                ids[places[number]] = known
        begin = end
    return len(kinds)


# ---- what is counted beforehand


@kernel("const i32[:], const i64[:], u8[:]")
def sketch(column: Any, hashes: Any, registers: Any) -> None:
    """Raise each register to the most trailing zeros, plus one, of the hashes that belong to it."""
    for row in range(len(column)):
        hashed = np.uint64(hashes[column[row]]) * SECOND
        register = np.int64(hashed >> np.uint64(56))
        zeros = 1 + np.int64(trailing_zeros(hashed ^ (hashed >> np.uint64(32)) | np.uint64(1 << 55)))
        if zeros > registers[register]:
            registers[register] = zeros
