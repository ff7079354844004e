"""Ctrl-C while an engine works: noted at once, acted on at the next safe point; the lock of a reasoner."""

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
from types import FrameType
from typing import Any, Concatenate, Generic, ParamSpec, Protocol, TypeVar, cast, overload

# ---- Ctrl-C while an engine works: noted at once, acted on at the next safe point. One state per process.
#
# Kernels reach arrays by address, and a roll-back must not be left half done: an exception between two
# arbitrary steps of Python could let a kernel write into memory that is gone. So the main thread holds SIGINT
# back while it works in an engine. However often Ctrl-C is pressed, the handler that was there before,
# usually the one that raises KeyboardInterrupt, is called once: by the next `act`, or when the work is done.
#
# Other threads never receive signals, so nothing here concerns them.

# What `signal` stands on, without the enumerations that it makes of handlers: 15 µs in each transaction.
_signal = import_module("_signal")
INTERRUPT = int(signal.SIGINT)

PATIENCE = 0.1  # seconds between two looks at the limits while something is waited for
T = TypeVar("T")
Handler = Callable[[int, FrameType | None], object]


class Interrupts:
    """What is held back, and since when. Mutable."""

    def __init__(self) -> None:
        self._handler: Handler | None = None  # that was there before, if it is held back
        self._begin()

    def _begin(self) -> None:
        self._main = threading.main_thread().ident
        self.is_pending = False  # Ctrl-C was pressed, and nobody has acted on it
        self._depth = 0  # how many blocks of work the main thread is in
        self._open_at = -1  # the depth at which nothing is held back
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
                _signal.signal(INTERRUPT, self._note)  # from here on nothing is raised
        self._depth += 1

    def release(self) -> None:
        """End a block; at the end of the outermost one, act on what was held back and not acted on."""
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
        """Act on Ctrl-C, if it was pressed: everything is whole here. Usually raises KeyboardInterrupt."""
        if self.is_pending and get_ident() == self._main:
            self._call()

    @contextmanager
    def let_through(self) -> Iterator[None]:
        """Hold nothing back in the block, which waits for others and touches nothing of an engine."""
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
            self.has_acted = True  # if it raises, the work ends; more of the same changes nothing
            self._handler(INTERRUPT, None)
            self.has_acted = False

    def forget(self) -> None:
        """Hold nothing back in a process that has just been forked: its work is not that of the other."""
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
    """The items, each of which may have to be waited for: Ctrl-C ends that at once."""
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
    """What is to be done when a lock is free."""

    def claim(self) -> bool:
        """Return whether the caller must deliver."""

    def deliver(self) -> None:
        """Do it."""


class Lock:
    """Held around whatever enters the engine; a thread that holds it may take it again.

    When a thread lets go of it for good and the `delivery` says that it is due, that is made without the
    lock: it may call functions of others, which may wait for other threads.
    """

    def __init__(self) -> None:
        self.delivery: Delivery | None = None
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
        made: R = vars(instance).setdefault(self._name, self._make(instance))
        return made
