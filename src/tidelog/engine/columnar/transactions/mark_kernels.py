"""Kernels over what is noted of facts for the sake of the next update: marks and links. Mutates arguments.

A link is the code of a fact plus one, so that 0 is free to say that nothing is known. The facts that lean on
one stated fact are a chain through NEXT and PREVIOUS, which begins in FIRST of the stated fact: leaning
elsewhere takes no search.
"""

from __future__ import annotations

from typing import Any

import numpy as np

from tidelog.compiled import bytes_at, inlined, int64_at, kernel, subroutine
from tidelog.engine.columnar.layout import (
    ALIVE,
    CAPACITY,
    FIRST,
    FLAGS,
    GOES,
    LINK,
    MARKED,
    NEXT,
    NOTE_MARKS,
    NOTES,
    PREVIOUS,
    RETURNS,
    SOLE,
    Z_NOTING,
    Z_ROLE,
)
from tidelog.engine.columnar.storage.table_kernels import LOWER
from tidelog.engine.flags import Role

ORIGIN, LOSS = int(Role.ORIGIN), int(Role.LOSS)


@inlined
def links_of(T: Any, which: Any, link: Any) -> Any:
    """The array of a kind of link that has an entry for a linked fact, and the place of the entry."""
    table = (link - 1) >> 32
    return int64_at(T[table, which], T[table, CAPACITY]), (link - 1) & LOWER


@subroutine
def relink(T: Any, table: Any, row: Any, link: Any) -> None:
    """Link a derived fact to another explicit fact, or to none."""
    links = int64_at(T[table, LINK], T[table, CAPACITY])
    before = links[row]
    if before == link:
        return
    nexts = int64_at(T[table, NEXT], T[table, CAPACITY])
    previous = int64_at(T[table, PREVIOUS], T[table, CAPACITY])
    if before > 0:
        if previous[row] > 0:
            array, place = links_of(T, NEXT, previous[row])
        else:
            array, place = links_of(T, FIRST, before)
        array[place] = nexts[row]
        if nexts[row] > 0:
            array, place = links_of(T, PREVIOUS, nexts[row])
            array[place] = previous[row]
    links[row] = link
    nexts[row] = 0
    previous[row] = 0
    if link > 0:
        itself = ((table << 32) | row) + 1
        first, place = links_of(T, FIRST, link)
        nexts[row] = first[place]
        if first[place] > 0:
            array, other = links_of(T, PREVIOUS, first[place])
            array[other] = itself
        first[place] = itself


@inlined
def marks_of(T: Any, table: Any, row: Any, is_stated: Any) -> Any:
    """What is noted of a fact in a body: whether it is marked, and whether it goes for good, or may do so."""
    if T[table, NOTES] == 0:
        return np.int32(GOES)
    notes = np.int32(bytes_at(T[table, NOTES], T[table, CAPACITY])[row])
    marked = notes & MARKED
    if notes & RETURNS:
        return marked
    is_true = bytes_at(T[table, FLAGS], T[table, CAPACITY])[row] & ALIVE
    return marked if is_stated and is_true and not marked else marked | np.int32(GOES)


@inlined
def leans_elsewhere(T: Any, table: Any, row: Any, link: Any, Z: Any) -> Any:
    """Whether a fact that loses an instance leans on another one."""
    if Z[Z_ROLE] != LOSS:
        return False
    known = int64_at(T[table, LINK], T[table, CAPACITY])[row]
    return known != 0 and known != link


@subroutine
def note_head(T: Any, table: Any, row: Any, note: Any, is_selected: Any, Z: Any) -> None:
    """Note of the head what its instance means for it; `note` is of marks or a link, -1 if there is none."""
    notes = bytes_at(T[table, NOTES], T[table, CAPACITY])
    if Z[Z_NOTING] == NOTE_MARKS:
        if is_selected and note >= 0:
            if Z[Z_ROLE] != LOSS:
                notes[row] |= np.uint8(note & MARKED)
            elif not note & GOES:
                notes[row] |= RETURNS
        return
    if Z[Z_ROLE] == LOSS:
        return
    if is_selected:
        relink(T, table, row, note)
    if Z[Z_ROLE] == ORIGIN:
        if is_selected:
            notes[row] |= SOLE
        else:
            notes[row] &= np.uint8(0xFF ^ SOLE)


@kernel("i64[:,:], i64, i64[:], bool[:], i64, i64, i64[:] -> i64")
def gather_linked(T: Any, table: Any, rows: Any, wanted: Any, mask: Any, want: Any, gathered: Any) -> Any:
    """Write the codes of facts of wanted tables that lean on the given rows and have the flags wanted.

    Returns how many there are; where that is more than there is room for, some are not written.
    """
    count = 0
    first = int64_at(T[table, FIRST], T[table, CAPACITY])
    for given in rows:
        link = first[given]
        while link > 0:
            other, row = (link - 1) >> 32, (link - 1) & LOWER
            flags = bytes_at(T[other, FLAGS], T[other, CAPACITY])
            if wanted[other] and (np.int64(flags[row]) & mask) == want:
                if count < len(gathered):
                    gathered[count] = link - 1
                count += 1
            link = int64_at(T[other, NEXT], T[other, CAPACITY])[row]
    return count


@kernel("i64[:,:], i64, i64[:], i64[:] -> i64")
def divide_sole(T: Any, table: Any, rows: Any, out: Any) -> Any:
    """Write the sole rows at the beginning of `out`, the others at its end; returns how many are sole."""
    notes = bytes_at(T[table, NOTES], T[table, CAPACITY])
    sole, end = 0, len(rows)
    for row in rows:
        if notes[row] & SOLE:
            out[sole] = row
            sole += 1
        else:
            end -= 1
            out[end] = row
    return sole
