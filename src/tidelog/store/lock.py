"""One writer at a time."""

from __future__ import annotations

import os
import sys
from pathlib import Path

from tidelog.durable import HeldError, Lock
from tidelog.errors import DataError, Diagnostic
from tidelog.store import codes, files


def writer_lock(path: Path) -> Lock:
    """Take the right to write to a folder; raises `DataError` at once if somebody has it."""
    command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])[:200]
    try:
        with files.writing_to(path):
            return Lock(path, f"process {os.getpid()} ({command})")
    except HeldError as held:
        message = f"`{path.parent}` is being written to by {held.holder or 'another process'}"
        help = "wait until it is done, or open the store for reading: `read_only=True`, `--read-only`"
        raise DataError(Diagnostic(codes.LOCKED, message, place=str(path), help=help)) from None
