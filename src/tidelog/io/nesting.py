"""How deeply text from outside is nested: parsers that recurse would end the process, or never end."""

from __future__ import annotations

import re
from typing import Final

import numpy as np
import numpy.typing as npt

JSON_STRINGS: Final = re.compile(rb'"[^"\\]*(?:\\.[^"\\]*)*"', re.DOTALL)
_OPENING, _CLOSING = b"([{", b")]}"
_ALL_BUT_BRACKETS = bytes(byte for byte in range(256) if byte not in _OPENING + _CLOSING)


def first_too_deep(text: bytes, most: int, skipped: re.Pattern[bytes]) -> int | None:
    """Return where a bracket opens within `most` others, or None; brackets in what is `skipped` do not count.

    >>> first_too_deep(b'[["[[["]]', 1, JSON_STRINGS)
    1
    """
    brackets = skipped.sub(b"", text).translate(None, _ALL_BUT_BRACKETS)
    if not len(brackets) or _highest(np.isin(np.frombuffer(brackets, np.uint8), list(_OPENING))) <= most:
        return None
    depth = 0
    for found in re.finditer(skipped.pattern + rb"|[()\[\]{}]", text, skipped.flags):
        if len(found[0]) == 1:
            depth += 1 if found[0] in _OPENING else -1
            if depth > most:
                return found.start()
    return None


def _highest(opens: npt.NDArray[np.bool_]) -> int:
    return int(np.cumsum(np.where(opens, 1, -1)).max())


class Elements:
    """The depth of XML, seen block by block; tags in comments count too, so that it may be too large."""

    def __init__(self) -> None:
        self._depth = 0
        self._left = b""  # the end of the last block, where a tag may begin

    def deepest(self, block: bytes) -> int:
        """Return how deep the elements of the next block lie."""
        data = np.frombuffer(self._left + block, np.uint8)
        self._left = bytes(data[-1:])
        here, following = data[:-1], data[1:]
        steps = np.zeros(len(here) + 1, np.int32)
        steps[0] = self._depth
        opening = np.flatnonzero(here == ord("<"))
        kind = following[opening]
        steps[opening + 1] = np.select(
            [kind == ord("/"), (kind == ord("!")) | (kind == ord("?"))], [-1, 0], 1
        )
        steps[np.flatnonzero((here == ord("/")) & (following == ord(">"))) + 1] -= 1
        depths = np.cumsum(steps)
        self._depth = int(depths[-1])
        return int(depths.max())
