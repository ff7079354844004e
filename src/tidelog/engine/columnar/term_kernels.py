"""Plainly written terms without their ends: `<https://example.org/a>` is an IRI, `"a"` a string."""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.compiled import bytes_at, int64_at, kernel
from tidelog.io.fields import IN_VIEW, QUOTE, write_view
from tidelog.io.plain_triples import GREATER, IN_IRI, IN_TEXT, LESS

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
