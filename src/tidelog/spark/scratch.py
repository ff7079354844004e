"""A folder for the files of this process on Spark's side: gone at its end, or else when the next one begins.

A process that is killed removes nothing. It holds a lock on a file in its folder, which ends with it,
whatever ends it; so whoever finds the lock free finds a folder that nobody needs.
"""

from __future__ import annotations

import atexit
import fcntl
import os
import shutil
import tempfile
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Final

PREFIX: Final = "tidelog-spark-"
LOCK: Final = "in-use"


@cache
def scratch_folder() -> Path:
    """The folder, made when it is first needed."""
    sweep(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    unlocked = folder / "unlocked"
    fcntl.flock(os.open(unlocked, os.O_CREAT | os.O_RDWR), fcntl.LOCK_EX)  # till the process ends
    unlocked.rename(folder / LOCK)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def sweep(parent: Path) -> None:
    """Remove the folders of processes that have ended without removing them."""
    for lock in parent.glob(f"{PREFIX}*/{LOCK}"):
        with suppress(OSError):  # it is another user's, or in use, or somebody else removes it
            descriptor = os.open(lock, os.O_RDWR)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
            finally:
                os.close(descriptor)
