"""What stops an engine: Ctrl-C, handled at the next safe point, and limits on time, facts and memory.

The error that stops work reports its progress. The lock of a reasoner is here, too.
"""

from __future__ import annotations

import os
import signal
import threading
from _thread import get_ident
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from functools import wraps
from importlib import import_module
from queue import Empty, SimpleQueue
from threading import RLock
from time import monotonic
from types import FrameType, TracebackType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast, overload

from tidelog.engine.events import Tally
from tidelog.errors import Diagnostic, Interrupted, Stopped, counted
from tidelog.errors.codes import OUT_OF_MEMORY

# ---- Ctrl-C while an engine works: recorded immediately, handled at the next safe point. One state per
# process.
#
# Kernels reach arrays by address, and a roll-back must not be left half done: an exception between two
# arbitrary steps of Python could let a kernel write into freed memory. So the main thread holds SIGINT
# back while it works in an engine. However often Ctrl-C is pressed, the handler that was there before,
# usually the one that raises KeyboardInterrupt, is called once: by the next `act`, or when the work is done.
#
# Other threads never receive signals and are not affected.

# What `signal` stands on, without the enumerations that it makes of handlers: 15 µs in each transaction.
_signal = import_module("_signal")
INTERRUPT = int(signal.SIGINT)

PATIENCE = 0.1  # seconds between two checks of the limits while waiting
T = TypeVar("T")
Handler = Callable[[int, FrameType | None], object]


class Interrupts:
    """The state of pending interrupts. Mutable."""

    def __init__(self) -> None:
        self._handler: Handler | None = None  # that was there before, if it is held back
        self._begin()

    def _begin(self) -> None:
        self._main = threading.main_thread().ident
        self.is_pending = False  # Ctrl-C was pressed and is not handled yet
        self._depth = 0  # how many blocks of work the main thread is in
        self._open_at = -1  # the depth at which interrupts are not held back
        self.has_acted = False  # the handler has ended the work, since the outermost block began

    @property
    def is_holding(self) -> bool:
        """Whether the main thread is in a block that holds Ctrl-C back."""
        return self._depth > 0

    def hold(self) -> None:
        """Hold Ctrl-C back until `release`; blocks may be nested."""
        if get_ident() != self._main:
            return
        if not self._depth:
            before = _signal.getsignal(INTERRUPT)
            if before is not None and type(before) is not int:  # ignored, or not Python's affair
                self._handler = before
                _signal.signal(INTERRUPT, self._note)  # interrupts are held back from here on
        self._depth += 1

    def release(self) -> None:
        """End a block; at the end of the outermost one, handle a pending interrupt."""
        if get_ident() != self._main or not self._depth:
            return
        if self._depth > 1:
            self._depth -= 1
            return
        handler, is_due = self._handler, self.is_pending and not self.has_acted
        self.is_pending = self.has_acted = False
        self._depth, self._handler = 0, None
        if handler is not None:
            if _signal.getsignal(INTERRUPT) == self._note:  # else somebody has put another one in its place
                _signal.signal(INTERRUPT, handler)
            if is_due:
                handler(INTERRUPT, None)

    def act(self) -> None:
        """Handle Ctrl-C if it was pressed, at a safe point. Usually raises KeyboardInterrupt."""
        if self.is_pending and get_ident() == self._main:
            self._call()

    @contextmanager
    def let_through(self) -> Iterator[None]:
        """Do not hold interrupts back in the block, which waits for others and does not access an engine."""
        if get_ident() != self._main:
            yield
            return
        former, self._open_at = self._open_at, self._depth
        try:
            yield
        finally:
            self._open_at = former

    def _note(self, _number: int, _frame: FrameType | None) -> None:
        self.is_pending = True
        if self._open_at == self._depth:
            self._call()

    def _call(self) -> None:
        self.is_pending = False
        if self._handler is not None:
            self.has_acted = True  # if it raises, the work ends; further interrupts change nothing
            self._handler(INTERRUPT, None)
            self.has_acted = False

    def forget(self) -> None:
        """Reset the state in a forked process, whose work is not that of its parent."""
        if self._handler is not None:
            _signal.signal(INTERRUPT, self._handler)
        self._handler = None
        self._begin()


INTERRUPTS = Interrupts()


def arriving(items: Iterable[T], check: Callable[[], None]) -> Iterator[T]:
    """The items, which another thread waits for; meanwhile `check` is called, and may raise."""
    queue: SimpleQueue[tuple[T | None, BaseException | None]] = SimpleQueue()

    def receive() -> None:
        try:
            for item in items:
                queue.put((item, None))
            queue.put((None, StopIteration()))
        except BaseException as fault:  # noqa: BLE001 - raised where the items are taken
            queue.put((None, fault))

    threading.Thread(target=receive, daemon=True).start()
    while True:
        try:
            item, fault = queue.get(timeout=PATIENCE)
        except Empty:
            check()
            continue
        if isinstance(fault, StopIteration):
            return
        if fault is not None:
            raise fault
        yield cast("T", item)


def waited_for(items: Iterable[T]) -> Iterator[T]:
    """The items, each of which may block: Ctrl-C ends the waiting immediately."""
    iterator = iter(items)
    while True:
        INTERRUPTS.act()
        with INTERRUPTS.let_through():
            try:
                item = next(iterator)
            except StopIteration:
                return
        yield item


os.register_at_fork(after_in_child=INTERRUPTS.forget)


# ---- The lock of a reasoner: one thread at a time works in an engine, and Ctrl-C waits until it is done.
#
# Whatever enters an engine holds it: answering a query gives ids to constants, makes a relation for the
# answers and perhaps an index, so that it changes the engine as a transaction does. What has been handed out,
# relations and deltas, needs no lock: rows and values are only ever added behind those that are there, or
# copied to other memory, and the arrays that a result refers to stay alive with it.

P = ParamSpec("P")
R = TypeVar("R")


class Delivery(Protocol):
    """Work to do when a lock is free."""

    def claim(self) -> bool:
        """Return whether the caller must deliver."""

    def deliver(self) -> None:
        """Do it."""


class Lock:
    """A reentrant lock, held during every access to the engine.

    When a thread releases it completely and the `delivery` is due, the delivery runs without the lock: it may
    call functions of users, which may wait for other threads.
    """

    def __init__(self) -> None:
        self.delivery: Delivery | None = None
        self.reading = RLock()  # sufficient for reads, which Ctrl-C may interrupt
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
            delivery = self.delivery
            try:
                is_due = delivery is not None and delivery.claim()
            finally:
                self.reading.release()
            if is_due and delivery is not None:
                delivery.deliver()
        finally:
            INTERRUPTS.release()


class Locked(Protocol):
    """An object with a lock."""

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


class made_once(Generic[R]):  # noqa: N801 - used like `property`
    """A property that is made when it is first used, and kept; deleting it from `vars` lets it be made again.

    Threads that use it first at the same time get the same object.
    """

    def __init__(self, make: Callable[[Any], R]) -> None:
        self._make = make
        self._name = make.__name__
        self.__doc__ = make.__doc__

    @overload
    def __get__(self, instance: None, owner: type) -> made_once[R]: ...

    @overload
    def __get__(self, instance: object, owner: type) -> R: ...

    def __get__(self, instance: object | None, owner: type) -> made_once[R] | R:
        if instance is None:
            return self
        value: R = vars(instance).setdefault(self._name, self._make(instance))
        return value


# ---- limits

MATCHES = 1 << 24  # the most that a kernel may read between two checks: a tenth of a second
FEWEST = 1 << 12  # … and the fewest that are worth a call of it
SHARE = 16  # the part of a limit on facts by which it may be exceeded


def proceed(found: int = 0, are_answers: bool = False) -> None:
    """The check without a limit."""


def unlimited(found: int = 0, are_answers: bool = False) -> int:
    """Return the budget without a limit."""
    return MATCHES


def boundless() -> int:
    """Return how many facts may be found where there is no limit."""
    return 1 << 60


class ActiveLimits:
    """The limits on the current work, read by an engine and replaced when work begins."""

    __slots__ = ("budget", "check", "room")

    def __init__(self) -> None:
        self.check: Callable[..., None] = proceed  # raises to stop
        self.budget: Callable[..., int] = (
            unlimited  # how many matches a kernel may read before the next check
        )
        self.room: Callable[[], int] = boundless  # how many facts may be found before it raises


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
        self.may_stop = may_stop  # at the end of a block; otherwise Ctrl-C waits for the work after it
        start = monotonic() if started is None else started
        self.deadline = None if timeout is None else start + timeout

    @property
    def left(self) -> float | None:
        """The seconds until the timeout."""
        return None if self.deadline is None else max(0.0, self.deadline - monotonic())

    def check(self, found: int = 0, are_answers: bool = False) -> None:
        """Raise `Stopped` if a limit has been reached, KeyboardInterrupt if Ctrl-C has been pressed.

        `found` is the number of facts of the current work that the tally does not count yet. Answers to a
        query are not facts: there may be as many answers as facts.
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

    def room(self) -> int:
        """Return how many facts may be found before the limit on them is exceeded."""
        return boundless() if self.max_facts is None else max(0, self.max_facts - self._known(0, False))

    def _known(self, found: int, are_answers: bool) -> int:
        return found if are_answers else self.tally.loaded + self.tally.derived + found

    def guarding(self) -> Limits:
        """Turn Ctrl-C and a lack of memory into `Stopped`; the end of the block is the last safe point."""
        return self

    def __enter__(self) -> None:
        INTERRUPTS.hold()

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        try:
            if error is None:
                if self.may_stop:
                    INTERRUPTS.act()
            elif isinstance(error, KeyboardInterrupt | MemoryError):
                raise error
        except KeyboardInterrupt:
            raise Interrupted(self._diagnostic("E612", "interrupted", None)) from None
        except MemoryError:
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
