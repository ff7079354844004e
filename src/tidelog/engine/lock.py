"""The lock of a reasoner: one thread at a time works in an engine, and Ctrl-C waits until it is done.

Whatever enters an engine holds it: answering a query gives ids to constants, makes a relation for the answers
and perhaps an index, so that it changes the engine as a transaction does. What has been handed out, relations
and deltas, needs no lock: rows and values are only ever added behind those that are there, or copied to
other memory, and the arrays that a result refers to stay alive with it.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from threading import RLock
from typing import Concatenate, ParamSpec, Protocol, TypeVar

from tidelog.engine.interrupts import INTERRUPTS, PATIENCE

P = ParamSpec("P")
R = TypeVar("R")


class Lock:
    """Held around whatever enters the engine; a thread that holds it may take it again.

    When a thread lets go of it for good and `is_due` says so, `deliver` is called without the lock: it may
    call functions of others, which may wait for other threads.
    """

    def __init__(self, is_due: Callable[[], bool], deliver: Callable[[], None]) -> None:
        self._is_due = is_due
        self._deliver = deliver
        self.reading = RLock()  # enough for what changes nothing at all, which Ctrl-C may interrupt
        self._depth = 0  # how many blocks the thread that holds it is in

    def __enter__(self) -> None:
        if not (self._depth and self.reading._is_owned()):  # type: ignore[attr-defined]
            INTERRUPTS.hold()
            if not self.reading.acquire(False):
                self._wait()
        self._depth += 1

    def _wait(self) -> None:
        """Take the lock when the other thread is done, unless Ctrl-C is pressed before."""
        try:
            while not self.reading.acquire(timeout=PATIENCE):
                INTERRUPTS.act()
        except BaseException:
            INTERRUPTS.release()
            raise

    def __exit__(self, *_: object) -> None:
        self._depth -= 1
        if self._depth:
            return
        try:
            try:
                is_due = self._is_due()
            finally:
                self.reading.release()
            if is_due:
                self._deliver()
        finally:
            INTERRUPTS.release()


class Locked(Protocol):
    """What has a lock."""

    @property
    def _lock(self) -> Lock:
        """The lock of its reasoner."""


S = TypeVar("S", bound=Locked)


def locked(method: Callable[Concatenate[S, P], R]) -> Callable[Concatenate[S, P], R]:
    """The method, which holds the lock from beginning to end."""

    @wraps(method)
    def hold(self: S, /, *arguments: P.args, **named: P.kwargs) -> R:
        with self._lock:
            return method(self, *arguments, **named)

    return hold
