"""One writer at a time: a lock that goes when the process ends, however it ends."""

from __future__ import annotations

import fcntl
import os
import sys
from pathlib import Path

from tidelog.errors import DataError, Diagnostic
from tidelog.store import codes, files


class WriterLock:
    """The right to write to a folder, until it is released."""

    def __init__(self, path: Path) -> None:
        """Take the lock; raises `DataError` at once if another process, or this one, has it."""
        with files.writing_to(path):
            self._descriptor = os.open(path, os.O_RDWR | os.O_CREAT, 0o666)
        try:
            fcntl.flock(self._descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except BlockingIOError:
            holder = os.read(self._descriptor, 1000).decode(errors="replace").strip()
            os.close(self._descriptor)
            who = holder or "another process"
            message = f"`{path.parent}` is being written to by {who}"
            help = "wait until it is done, or open the store for reading: `read_only=True`, `--read-only`"
            raise DataError(Diagnostic(codes.LOCKED, message, place=str(path), help=help)) from None
        self._sign()

    def _sign(self) -> None:
        """Let others know who has the lock; a full disk does not matter to that."""
        command = " ".join([Path(sys.argv[0]).name, *sys.argv[1:]])[:200]
        try:
            os.ftruncate(self._descriptor, 0)
            os.pwrite(self._descriptor, f"process {os.getpid()} ({command})\n".encode(), 0)
        except OSError:
            pass

    def release(self) -> None:
        """Let others write."""
        os.close(self._descriptor)
