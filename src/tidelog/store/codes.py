"""Codes of the faults of stores, each with what it means."""

from __future__ import annotations

from typing import Final

LOCKED: Final = "E830"
NO_STORE: Final = "E831"
NEWER: Final = "E832"
DAMAGED: Final = "E833"
NOT_WRITTEN: Final = "E834"
NOT_STORABLE: Final = "E835"
CLOSED: Final = "E836"
READ_ONLY: Final = "E837"
FORKED: Final = "E838"
BACKWARDS: Final = "E839"

MEANINGS: Final = {
    LOCKED: "a store that another process is writing to",
    NO_STORE: "a folder that holds no store, and no program to make one of",
    NEWER: "a store of a format that this version does not read yet",
    DAMAGED: "a store in which something is missing or is not what it should be",
    NOT_WRITTEN: "a store that cannot be written to: the disk is full, say; nothing was changed",
    NOT_STORABLE: "a program or a setting whose state a store cannot hold yet",
    CLOSED: "a change to a store that is closed, or that takes no more changes after a fault",
    READ_ONLY: "a change to a store that was opened for reading",
    FORKED: "a change to a store in a process that was forked from the one that opened it",
    BACKWARDS: "a batch whose number runs backwards, or that has been applied already",
}
