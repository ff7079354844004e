"""Limits on the work: time, facts, memory, patience. What stops says how far it got."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from importlib import import_module
from time import monotonic
from types import FrameType

from tidelog.engine.events import Tally
from tidelog.errors import Diagnostic, Stopped, counted

# What `signal` stands on, without the enumerations that it makes of handlers: 15 µs in each transaction.
_signal = import_module("_signal")
INTERRUPT = int(signal.SIGINT)


class Limits:
    """Checked after every plan and, inside long ones, every tenth of a second.

    The timeout counts from `started`, a monotonic time, by default from now.
    """

    def __init__(
        self,
        tally: Tally,
        timeout: float | None = None,
        max_facts: int | None = None,
        started: float | None = None,
    ) -> None:
        self.tally = tally
        self.timeout = timeout
        self.max_facts = max_facts
        begun = monotonic() if started is None else started
        self.deadline = None if timeout is None else begun + timeout
        self.interrupted = False

    def check(self) -> None:
        """Raise `Stopped` if a limit has been reached, KeyboardInterrupt if Ctrl-C has been pressed."""
        if self.interrupted:
            raise KeyboardInterrupt
        if self.deadline is not None and monotonic() > self.deadline:
            raise self._stopped("E610", f"stopped after the timeout of {self.timeout:g} s", "raise --timeout")
        known = self.tally.loaded + self.tally.derived
        if self.max_facts is not None and known > self.max_facts:
            raise self._stopped(
                "E611",
                f"stopped: more than {counted(self.max_facts, 'fact')}",
                "raise --max-facts, or look for a rule that derives more than it should with --stats",
            )

    @contextmanager
    def guarding(self) -> Iterator[None]:
        """Turn Ctrl-C and a lack of memory into `Stopped`."""
        try:
            with self._holding_interrupts():
                yield
        except KeyboardInterrupt:
            raise self._stopped("E612", "interrupted", None) from None
        except MemoryError as error:
            detail = f": {error}" if str(error) else ""
            raise self._stopped(
                "E613", f"out of memory{detail}", "use less data, or a larger machine"
            ) from None

    @contextmanager
    def _holding_interrupts(self) -> Iterator[None]:
        """Let Ctrl-C wait for the next check, when tables and indexes are whole; a second one does not wait.

        Kernels reach arrays by address: an interrupt between growing an array and telling its new address
        would let them write into memory that is no longer there.
        """
        before = _signal.getsignal(INTERRUPT)
        if threading.current_thread() is not threading.main_thread() or not callable(before):
            yield
            return
        handle = before

        def note(number: int, frame: FrameType | None) -> None:
            if self.interrupted:
                handle(number, frame)
            self.interrupted = True

        _signal.signal(INTERRUPT, note)
        try:
            yield
        finally:
            _signal.signal(INTERRUPT, before)
        if self.interrupted:
            handle(INTERRUPT, None)

    def _stopped(self, code: str, reason: str, help_line: str | None) -> Stopped:
        return Stopped(Diagnostic(code, f"{reason}; {self._progress()}; nothing was written", help=help_line))

    def _progress(self) -> str:
        tally = self.tally
        if tally.stratum is None:
            return f"it had loaded {counted(tally.loaded, 'fact')}"
        stratum = tally.stratum
        return (
            f"it got to stratum {stratum.number + 1} of {stratum.count} ({', '.join(stratum.predicates)}), "
            f"round {tally.round + 1}, with {counted(tally.loaded, 'fact')} loaded, "
            f"{tally.derived:,} derived"
        )
