"""Limits on the work: time, facts, memory, patience. An error that stops it says how far it got."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from time import monotonic

from tidelog.engine.events import Tally
from tidelog.engine.interrupts import INTERRUPTS
from tidelog.errors import Diagnostic, Interrupted, Stopped, counted
from tidelog.errors.codes import OUT_OF_MEMORY

MATCHES = 1 << 24  # the most that a kernel may read between two checks: a tenth of a second
FEWEST = 1 << 12  # … and the fewest that are worth a call of it
SHARE = 16  # the part of a limit on facts by which it may be exceeded


def proceed(found: int = 0, are_answers: bool = False) -> None:
    """Stop nothing: the check where there is no limit."""


def unlimited(found: int = 0, are_answers: bool = False) -> int:
    """Return the budget where there is no limit."""
    return MATCHES


class ActiveLimits:
    """The limits on the current work, as an engine reads them. What begins the work replaces them."""

    __slots__ = ("budget", "check")

    def __init__(self) -> None:
        self.check: Callable[..., None] = proceed  # raises to stop
        self.budget: Callable[..., int] = (
            unlimited  # how many matches a kernel may read before the next check
        )


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
        may_stop: bool = True,
    ) -> None:
        self.tally = tally
        self.timeout = timeout
        self.max_facts = max_facts
        self.may_stop = may_stop  # at the end of a block; else Ctrl-C waits for the work after it
        begun = monotonic() if started is None else started
        self.deadline = None if timeout is None else begun + timeout

    @property
    def left(self) -> float | None:
        """The seconds until the timeout."""
        return None if self.deadline is None else max(0.0, self.deadline - monotonic())

    def check(self, found: int = 0, are_answers: bool = False) -> None:
        """Raise `Stopped` if a limit has been reached, KeyboardInterrupt if Ctrl-C has been pressed.

        `found` is how many facts the current work has found that the tally does not count yet. Answers to a
        query are no facts: there may be as many of them as of facts.
        """
        INTERRUPTS.act()
        if self.deadline is not None and monotonic() > self.deadline:
            reason = f"stopped after the timeout of {self.timeout:g} s"
            raise self._stopped("E610", reason, "raise --timeout", found)
        if self.max_facts is not None and self._known(found, are_answers) > self.max_facts:
            what = "answer" if are_answers else "fact"
            raise self._stopped(
                "E611",
                f"stopped: more than {counted(self.max_facts, what)}",
                "raise --max-facts, or look for a rule that derives more than it should with --stats",
                found,
            )

    def budget(self, found: int = 0, are_answers: bool = False) -> int:
        """Return how many matches a kernel may read before the next check, to keep the limit on facts."""
        if self.max_facts is None:
            return MATCHES
        remaining = self.max_facts - self._known(found, are_answers)
        return min(MATCHES, max(remaining, self.max_facts // SHARE, FEWEST))

    def _known(self, found: int, are_answers: bool) -> int:
        return found if are_answers else self.tally.loaded + self.tally.derived + found

    @contextmanager
    def guarding(self) -> Iterator[None]:
        """Turn Ctrl-C and a lack of memory into `Stopped`; the end of the block is the last safe point."""
        INTERRUPTS.hold()
        try:
            yield
            if self.may_stop:
                INTERRUPTS.act()
        except KeyboardInterrupt:
            raise Interrupted(self._diagnostic("E612", "interrupted", None)) from None
        except MemoryError as error:
            detail = f": {error}" if str(error) else ""
            raise self._stopped(
                OUT_OF_MEMORY, f"out of memory{detail}", "use less data, or a larger machine"
            ) from None
        finally:
            INTERRUPTS.release()

    def _stopped(self, code: str, reason: str, help_line: str | None, found: int = 0) -> Stopped:
        return Stopped(self._diagnostic(code, reason, help_line, found))

    def _diagnostic(self, code: str, reason: str, help_line: str | None, found: int = 0) -> Diagnostic:
        return Diagnostic(code, f"{reason}; {self._progress(found)}; nothing was written", help=help_line)

    def _progress(self, found: int) -> str:
        tally = self.tally
        if tally.stratum is None:
            return f"it had loaded {counted(tally.loaded, 'fact')}"
        stratum = tally.stratum
        return (
            f"it reached stratum {stratum.number + 1} of {stratum.count} ({', '.join(stratum.predicates)}), "
            f"round {tally.round + 1}, with {counted(tally.loaded, 'fact')} loaded, "
            f"{tally.derived + found:,} derived"
        )
