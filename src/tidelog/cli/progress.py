"""Progress: one line that tells how far the work is, once it takes longer than a second."""

from __future__ import annotations

import shutil
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from threading import Event, Lock, Thread
from time import monotonic
from types import TracebackType
from typing import Final

from tidelog.engine.events import Tally
from tidelog.errors import counted
from tidelog.shown import visible

WAIT: Final = 1.0  # seconds before the line appears
LOGGED: Final = 300.0  # seconds between two lines of a log
_PERIOD: Final = 0.1
_CLEAR: Final = "\r\x1b[2K"


class Progress:
    """While it is entered, a thread keeps the line up to date on a terminal; on leaving, the line is gone.

    `line` returns the text, given the seconds since the block began. With `logged`, standard error that is no
    terminal gets a line every five minutes.
    """

    def __init__(self, line: Callable[[float], str], quiet: bool = False, logged: bool = False) -> None:
        self._line = line
        self._is_terminal = sys.stderr.isatty()
        self._is_shown = not quiet and (self._is_terminal or logged)
        self._ended = Event()
        self._writing = Lock()
        self._thread: Thread | None = None
        self._start = 0.0

    def __enter__(self) -> Progress:
        self._start = monotonic()
        if self._is_shown:
            self._thread = Thread(target=self._show, daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """In the block, other text can be written: the line is gone, and comes back after it."""
        with self._writing:
            if self._is_shown and self._is_terminal:
                sys.stderr.write(_CLEAR)
            yield

    def _show(self) -> None:
        first, then = (WAIT, _PERIOD) if self._is_terminal else (LOGGED, LOGGED)
        wait = first
        while not self._ended.wait(wait):
            line = visible(self._line(monotonic() - self._start))
            with self._writing:
                self._write(line)
            wait = then
        if wait == then and self._is_terminal:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()

    def _write(self, line: str) -> None:
        width = shutil.get_terminal_size().columns
        sys.stderr.write(f"{_CLEAR}{line[: width - 1]}" if self._is_terminal else f"{line}\n")
        sys.stderr.flush()


def progress_line(tally: Tally, seconds: float) -> str:
    """How far the work is, in one line.

    >>> progress_line(Tally(loaded=1200), 1.5)
    'reading · 1,200 facts · 1.5 s'
    """
    facts = f"{counted(tally.loaded + tally.derived, 'fact')} · {seconds:.1f} s"
    stratum = tally.stratum
    if stratum is None:
        return f"reading · {facts}"
    names = ", ".join(stratum.predicates)
    return f"stratum {stratum.number + 1} of {stratum.count} · round {tally.round + 1} · {facts} · {names}"
