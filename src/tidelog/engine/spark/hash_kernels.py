"""XXH64 over columns of texts, the same as Spark's `xxhash64`, and whole numbers among the texts.

Collet: xxHash fast digest algorithm, version 0.1.1, section XXH64. Spark hashes with the seed 42.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.compiled import bytes_at, inlined, kernel, load64, subroutine

FIRST = np.uint64(0x9E3779B185EBCA87)
SECOND = np.uint64(0xC2B2AE3D27D4EB4F)
THIRD = np.uint64(0x165667B19E3779F9)
FOURTH = np.uint64(0x85EBCA77C2B2AE63)
FIFTH = np.uint64(0x27D4EB2F165667C5)
MOST_DIGITS = 18  # of a whole number that is its own id
SIGN = np.int64(-(2**63))


@inlined
def rotate(word: Any, bits: Any) -> Any:
    """The word turned left."""
    return (word << np.uint64(bits)) | (word >> np.uint64(64 - bits))


@inlined
def spread(sum: Any, word: Any) -> Any:
    """A lane's sum with one more word in it."""
    return rotate(sum + word * SECOND, 31) * FIRST


@inlined
def merge(hashed: Any, sum: Any) -> Any:
    """The hash with a lane's sum in it."""
    return (hashed ^ spread(np.uint64(0), sum)) * FIRST + FOURTH


@inlined
def finish(hashed: Any) -> Any:
    """The hash with every bit dependent on every other."""
    hashed ^= hashed >> np.uint64(33)
    hashed *= SECOND
    hashed ^= hashed >> np.uint64(29)
    hashed *= THIRD
    return hashed ^ (hashed >> np.uint64(32))


@subroutine
def hash_bytes(address: Any, length: Any, seed: Any) -> Any:
    """XXH64 of the bytes at an address."""
    place = address
    end = address + length
    if length >= 32:
        one, two, three, four = seed + FIRST + SECOND, seed + SECOND, seed, seed - FIRST
        while place + 32 <= end:
            one = spread(one, load64(place))
            two = spread(two, load64(place + 8))
            three = spread(three, load64(place + 16))
            four = spread(four, load64(place + 24))
            place += 32
        hashed = rotate(one, 1) + rotate(two, 7) + rotate(three, 12) + rotate(four, 18)
        hashed = merge(merge(merge(merge(hashed, one), two), three), four)
    else:
        hashed = seed + FIFTH
    hashed += np.uint64(length)
    while place + 8 <= end:
        hashed = rotate(hashed ^ spread(np.uint64(0), load64(place)), 27) * FIRST + FOURTH
        place += 8
    return finish(hash_rest(hashed, place, end))


@inlined
def hash_rest(hashed: Any, place: Any, end: Any) -> Any:
    """The hash with the last bytes in it, fewer than eight."""
    rest = end - place
    text = bytes_at(place, rest)
    done = 0
    if rest >= 4:
        word = np.uint64(text[0]) | (np.uint64(text[1]) << np.uint64(8))
        word |= (np.uint64(text[2]) << np.uint64(16)) | (np.uint64(text[3]) << np.uint64(24))
        hashed = rotate(hashed ^ (word * FIRST), 23) * SECOND + THIRD
        done = 4
    for step in range(done, rest):
        hashed = rotate(hashed ^ (np.uint64(text[step]) * FIFTH), 11) * FIRST
    return hashed


@inlined
def whole_number(address: Any, length: Any) -> Any:
    """The id of a text that writes a whole number as tidelog does, 0 of any other text."""
    if length < 1 or length > MOST_DIGITS + 1:
        return np.int64(0)
    text = bytes_at(address, length)
    negative = text[0] == 45
    start = 1 if negative else 0
    digits = length - start
    if digits < 1 or digits > MOST_DIGITS or (text[start] == 48 and length > 1):
        return np.int64(0)
    number = np.int64(0)
    for step in range(start, length):
        if text[step] < 48 or text[step] > 57:
            return np.int64(0)
        number = number * 10 + np.int64(text[step] - 48)
    return (-number if negative else number) | SIGN


@kernel("i64, const i64[:], u64, u64, i64[:]")
def identify(address: Any, offsets: Any, seed: Any, mask: Any, ids: Any) -> None:
    """Write the id of each text; text number n lies between offsets n and n + 1 after the address."""
    for row in range(len(ids)):
        start = address + offsets[row]
        length = offsets[row + 1] - offsets[row]
        number = whole_number(start, length)
        ids[row] = number if number else np.int64(hash_bytes(start, length, seed) & mask)


@kernel("i64, u64 -> u64")
def hash_long(number: Any, seed: Any) -> Any:
    """XXH64 of the eight bytes of a number."""
    hashed = seed + FIFTH + np.uint64(8)
    return finish(rotate(hashed ^ spread(np.uint64(0), np.uint64(number)), 27) * FIRST + FOURTH)
