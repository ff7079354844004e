"""Progress: one line on the terminal that tells how far the work is, once it takes longer than a second."""

from __future__ import annotations

import shutil
import sys
from threading import Event, Thread
from time import monotonic
from types import TracebackType
from typing import Final

from tidelog.engine.events import Tally
from tidelog.errors import counted
from tidelog.shown import visible

WAIT: Final = 1.0  # seconds before the line appears
_PERIOD: Final = 0.1
_CLEAR: Final = "\r\x1b[2K"


class Progress:
    """While it is entered, a thread keeps the line up to date; on leaving, the line is gone."""

    def __init__(self, tally: Tally, quiet: bool = False) -> None:
        self._tally = tally
        self._is_shown = not quiet and sys.stderr.isatty()
        self._ended = Event()
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

    def _show(self) -> None:
        is_begun = False
        wait = WAIT
        while not self._ended.wait(wait):
            width = shutil.get_terminal_size().columns
            line = progress_line(self._tally, monotonic() - self._start)
            sys.stderr.write(f"{_CLEAR}{visible(line)[: width - 1]}")
            sys.stderr.flush()
            is_begun, wait = True, _PERIOD
        if is_begun:
            sys.stderr.write(_CLEAR)
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
