"""Changes to inputs: of bytes for all, of tokens for texts."""

from __future__ import annotations

import re
import struct
from collections.abc import Callable, Sequence
from random import Random

LARGEST = 64_000  # bytes of an input
_TOKEN = re.compile(rb"\s+|\w+|\"(?:[^\"\\]|\\.)*\"|[^\w\s]")
_NUMBERS = (0, 1, -1, 0x7F, 0xFF, 0x7FFF, 0xFFFF, 2**31 - 1, -(2**31), 2**32 - 1, 2**63 - 1)
_ODD = (
    b"9" * 5000, b"-0", b"1e999", b"NaN", b"INF", b"0x", b"\xff", b"\xed\xa0\x80", b"\x00", b"\x1b[31m", "\u202e".encode(),
    b"(" * 300, b"[" * 3000, b"{" * 3000, b'"', b"'", b"<", b">", b"&x;", b"_:", b"?x", b"@", b"\\u", b"\\ud800", b"\r\n",
    b"\n", b"\t", b"true", b"null", b"=1+1", b".", b",", b":-", b"~", b"#sum", b"inf", b"since[0, 1]", b"1/0",
    b'"2020-13-45T99:99:99Z"', b'"1"^^<http://www.w3.org/2001/XMLSchema#integer>', b"diamondminus[0, inf)",
)  # fmt: skip

Mutation = Callable[[Random, bytes, Sequence[bytes]], bytes]


def mutated(random: Random, seeds: Sequence[bytes], is_text: bool) -> bytes:
    """Return one of the seeds with some changes."""
    data = random.choice(seeds)
    changes = _OF_BYTES + _OF_TOKENS * 2 if is_text else _OF_BYTES
    for _ in range(random.choice((1, 1, 2, 3, 6))):
        data = random.choice(changes)(random, data, seeds)[:LARGEST]
    return data


def _place(random: Random, data: bytes) -> tuple[int, int]:
    start = random.randint(0, len(data))
    return start, min(len(data), start + random.choice((0, 1, 2, 4, 8, 30, 200)))


def _flip(random: Random, data: bytes, seeds: Sequence[bytes]) -> bytes:
    changed = bytearray(data or b"\0")
    changed[random.randrange(len(changed))] ^= 1 << random.randrange(8)
    return bytes(changed)


def _overwrite(random: Random, data: bytes, seeds: Sequence[bytes]) -> bytes:
    start, end = _place(random, data)
    return data[:start] + random.randbytes(end - start) + data[end:]


def _number(random: Random, data: bytes, seeds: Sequence[bytes]) -> bytes:
    code = random.choice(("<i", "<q", ">i", ">q"))
    number = random.choice(_NUMBERS) + random.randint(-2, 2)
    bits = 8 * struct.calcsize(code)
    packed = struct.pack(code, (number + (1 << (bits - 1))) % (1 << bits) - (1 << (bits - 1)))
    start = random.randint(0, len(data))
    return data[:start] + packed + data[start + len(packed) :]


def _delete(random: Random, data: bytes, seeds: Sequence[bytes]) -> bytes:
    start, end = _place(random, data)
    return data[:start] + data[end:]


def _cut(random: Random, data: bytes, seeds: Sequence[bytes]) -> bytes:
    return data[: random.randint(0, len(data))]


def _repeat(random: Random, data: bytes, seeds: Sequence[bytes]) -> bytes:
    start, end = _place(random, data)
    return data[:start] + data[start:end] * random.choice((2, 3, 50, 1000)) + data[end:]


def _splice(random: Random, data: bytes, seeds: Sequence[bytes]) -> bytes:
    other = random.choice(seeds)
    return data[: random.randint(0, len(data))] + other[random.randint(0, len(other)) :]


def _odd(random: Random, data: bytes, seeds: Sequence[bytes]) -> bytes:
    start, end = _place(random, data)
    return data[:start] + random.choice(_ODD) + data[end:]


def _tokens(random: Random, data: bytes, seeds: Sequence[bytes]) -> bytes:
    """Return the text with a token deleted, repeated, exchanged, or replaced by one of another text."""
    tokens = _TOKEN.findall(data)
    if not tokens:
        return data
    place, other = random.randrange(len(tokens)), random.randrange(len(tokens))
    match random.randrange(5):
        case 0:
            del tokens[place]
        case 1:
            tokens[place] *= random.choice((2, 100))
        case 2:
            tokens[place], tokens[other] = tokens[other], tokens[place]
        case 3:
            tokens[place] = random.choice(_TOKEN.findall(random.choice(seeds)) or [b""])
        case _:
            tokens[place] = random.choice(_ODD)
    return b"".join(tokens)


_OF_BYTES: tuple[Mutation, ...] = (_flip, _overwrite, _number, _delete, _cut, _repeat, _splice, _odd)
_OF_TOKENS: tuple[Mutation, ...] = (_tokens, _tokens, _tokens, _odd)
