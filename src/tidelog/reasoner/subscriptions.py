"""Subscriptions to the changes of a predicate, and live queries. Mutates itself.

Callbacks run in the thread that commits, in the order of subscription, when the commit is complete and the
lock of the reasoner is free. A callback may commit changes of its own; their deltas are delivered after the
present ones, so that all subscribers see all commits in order, one at a time: likewise those of another
thread that commits in the meantime. An exception in a callback does not undo the commit, and other callbacks
are called all the same: it is raised afterwards.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from dataclasses import field
from threading import Lock as ThreadLock
from types import TracebackType
from typing import TYPE_CHECKING

from tidelog.data.relation import Relation
from tidelog.engine.interrupts import INTERRUPTS, Lock, locked
from tidelog.logic.program import Query
from tidelog.logic.type_inference import LazySchema
from tidelog.query.kept_queries import KeptQuery
from tidelog.query.query_keepers import QueryKeeper
from tidelog.reasoner.delta import Delta, PredicateDelta
from tidelog.records import dataclass

if TYPE_CHECKING:
    import asyncio  # takes 20 ms, only where it is needed


Callback = Callable[[PredicateDelta], object]


class Subscription:
    """One callback for one predicate, until it is cancelled."""

    def __init__(self, predicate: str, callback: Callback, cancel: Callable[[Subscription], None]) -> None:
        self.predicate = predicate
        self.callback = callback
        self._cancel = cancel

    def cancel(self) -> None:
        """Call it no more; has no effect the second time."""
        self._cancel(self)

    def __enter__(self) -> Subscription:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cancel()


@dataclass(slots=True, eq=False)
class Subscriptions:
    """All subscriptions to one reasoner, and the deltas that are still to be delivered. Mutable.

    The lock of the reasoner knows of them from the first one on.
    """

    lock: Lock
    all: list[Subscription] = field(default_factory=list)
    _waiting: deque[Delta] = field(default_factory=deque, init=False)
    _is_delivering: bool = field(default=False, init=False)
    _claiming: ThreadLock = field(default_factory=ThreadLock, init=False)

    def add(self, predicate: str, callback: Callback) -> Subscription:
        """Register a callback for each later change of a predicate."""
        subscription = Subscription(predicate, callback, self._cancel)
        self.all.append(subscription)
        self.lock.delivery = self
        return subscription

    def _cancel(self, subscription: Subscription) -> None:
        self.all = [other for other in self.all if other is not subscription]

    def announce(self, delta: Delta) -> None:
        """Queue what a commit changed; subscribers are called when the lock of the reasoner is free."""
        if delta.is_noticed:
            self._waiting.append(delta)

    def claim(self) -> bool:
        """Return whether the caller must deliver: deltas are waiting, and no other thread delivers."""
        if not self._waiting:
            return False
        with self._claiming:
            is_free, self._is_delivering = not self._is_delivering, True
        return is_free

    def deliver(self) -> None:
        """Call the subscribers, as claimed; raise what they raise once all have been called."""
        faults: list[Exception] = []
        while True:
            try:
                while self._waiting:
                    faults += self._tell(self._waiting.popleft())
            finally:
                self._is_delivering = False
            if not self.claim():  # another thread may have announced something just before that
                break
        if faults:
            raise _one(faults)

    def _tell(self, delta: Delta) -> list[Exception]:
        faults = []
        for subscription in self.all:
            change = delta[subscription.predicate]
            if not change or subscription not in self.all:  # an earlier callback may have cancelled it
                continue
            try:
                with INTERRUPTS.let_through():
                    subscription.callback(change)
            except Exception as fault:  # noqa: BLE001 - whatever it is, the others are called too
                fault.add_note(f"raised by a subscriber to `{subscription.predicate}`; the change is made")
                faults.append(fault)
        return faults


def _one(faults: list[Exception]) -> Exception:
    return faults[0] if len(faults) == 1 else ExceptionGroup("several subscribers raised", faults)


class Deltas:
    """The changes of a predicate as an asynchronous iterator, from its making until it is cancelled.

    None is lost, however slow the reader is. Commits may come from any thread.
    """

    def __init__(self, subscribe: Callable[[Callback], Subscription]) -> None:
        self._waiting: deque[PredicateDelta] = deque()
        self._reader: tuple[asyncio.AbstractEventLoop, asyncio.Event] | None = None
        self._is_cancelled = False
        self._subscription = subscribe(self._take)

    def _take(self, delta: PredicateDelta) -> None:
        self._waiting.append(delta)
        self._wake()

    def _wake(self) -> None:
        if self._reader is not None:
            loop, event = self._reader
            loop.call_soon_threadsafe(event.set)

    def cancel(self) -> None:
        """End the iteration, after what has been committed so far."""
        self._subscription.cancel()
        self._is_cancelled = True
        self._wake()

    def __aiter__(self) -> Deltas:
        return self

    async def __anext__(self) -> PredicateDelta:
        import asyncio

        event = asyncio.Event()
        self._reader = asyncio.get_running_loop(), event
        try:
            while not self._waiting:
                if self._is_cancelled:
                    raise StopAsyncIteration
                await event.wait()
                event.clear()
        finally:
            self._reader = None
        return self._waiting.popleft()

    async def aclose(self) -> None:
        """End the iteration."""
        self.cancel()


class LiveQuery:
    """A query whose answers are maintained until it is cancelled.

    >>> import tidelog as tl
    >>> reasoner = tl.Reasoner(tl.parse('''
    ...     reach(?x, ?y) :- edge(?x, ?y) .
    ...     reach(?x, ?z) :- edge(?x, ?y), reach(?y, ?z) .
    ...     edge(a, b) .
    ... '''))
    >>> live = reasoner.watch("reach(a, ?to)", lambda delta: print(list(delta)))
    >>> reasoner.insert("edge", [("b", "c"), ("d", "e")])
    [('+', ('c',))]
    2
    >>> live.answers
    reach(a, ?to): 2 rows
      to
      b
      c
    """

    def __init__(
        self,
        asked: KeptQuery,
        keeping: QueryKeeper,
        subscriptions: Subscriptions,
        lock: Lock,
        schema: Callable[[Query], LazySchema],
    ) -> None:
        self._schema = schema
        self._asked = asked
        self._lock = lock
        self._keeping = keeping
        self._subscriptions = subscriptions
        self._subscribed: list[Subscription] = []

    @property
    @locked
    def answers(self) -> Relation:
        """The answers as they are now."""
        self._keeping.check(self._asked)
        query = self._asked.query
        columns, count = self._keeping.rows(self._asked)
        dictionary, schema = self._keeping.engine.storage.dictionary, self._schema(query)
        return Relation(query.text.strip(), query.variables, columns, count, dictionary, schema)

    @locked
    def subscribe(self, callback: Callback) -> Subscription:
        """Call a function with the changes of the answers after each commit that changed them."""
        self._keeping.check(self._asked)
        subscription = self._subscriptions.add(self._asked.name, callback)
        self._subscribed.append(subscription)
        return subscription

    def deltas(self) -> Deltas:
        """What changes in the answers from now on: `async for delta in live.deltas()`."""
        return Deltas(self.subscribe)

    @locked
    def cancel(self) -> None:
        """Stop maintaining the answers and what was derived for them alone; may be called again."""
        for subscription in self._subscribed:
            subscription.cancel()
        self._keeping.forget(self._asked)

    def __enter__(self) -> LiveQuery:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cancel()
