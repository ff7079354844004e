"""Streams: transactions as they arrive, each committed before the next is waited for. Mutates itself.

While one is committed the next may be read, if it has arrived already; the commit never waits for it.
"""

from __future__ import annotations

from collections import deque
from collections.abc import AsyncIterable, AsyncIterator, Callable, Iterable, Iterator
from operator import length_hint
from typing import Any

from tidelog.engine.interrupts import Lock, locked
from tidelog.errors import Diagnostic, ProgramError, SourceText, TidelogError, codes
from tidelog.logic.change_scripts import transactions
from tidelog.logic.program import Program
from tidelog.maintenance.maintainer import Maintainer, Outlook, Update, no_stream, none_known
from tidelog.reasoner.delta import ADDED, REMOVED, Delta
from tidelog.reasoner.transaction import Change, gc_disabled
from tidelog.syntax.parser import parse

# A change script of one or more transactions, or one transaction as (sign, predicate, row)s.
Changes = str | SourceText | Iterable[tuple[str, str, tuple[Any, ...]]]
Fill = Callable[[Change], None]


class TransactionStream(Iterator[Delta]):
    """The deltas of transactions as they arrive.

    A transaction that fails raises its error and leaves everything as before; the next call of `next` goes
    on with the one after it.
    """

    def __init__(
        self,
        updates: Iterable[Changes],
        begin: Callable[[Program | None], Change],
        maintainer: Maintainer,
        lock: Lock,
        is_final: bool = False,
    ) -> None:
        self._lock = lock
        self._source = iter(updates)
        self._is_final = is_final  # nothing changes after it
        self._begin = begin
        self._maintainer = maintainer
        self._waiting: deque[Fill] = deque()
        self._drafted: Change | None = None  # the next one, if it has been read
        self._after: Program | None = None  # the program once the present one is committed

    def __iter__(self) -> TransactionStream:
        return self

    def __next__(self) -> Delta:
        return self._commit(self._next())

    @locked
    def _commit(self, change: Change) -> Delta:
        """Commit a transaction; meanwhile a maintainer that marks may read the next one."""
        self._after = change.program
        lookahead = self._maintainer.lookahead
        if lookahead is None:
            return change.commit()
        lookahead.peek, lookahead.waiting = self.peek, self.waiting
        try:
            return change.commit()
        finally:
            lookahead.peek, lookahead.waiting = no_stream, none_known

    def peek(self) -> Update | None:
        """Return the facts of the next transaction; None if there is none, or it has rules or errors."""
        if self._drafted is None:
            try:
                if not self._waiting and self._is_ready():
                    self._read()
                if not self._waiting:
                    return None
                draft = self._begin(self._after)
                with gc_disabled():
                    self._waiting[0](draft)
            except (StopIteration, TidelogError):
                return None  # an error is raised when its turn has come
            self._drafted = draft
        return self._drafted.raw()

    def waiting(self) -> Outlook:
        """Return how many transactions are known to follow the present one."""
        unread = length_hint(self._source, -1)
        if unread < 0:
            return Outlook(len(self._waiting) + self._is_ready())
        return Outlook(len(self._waiting) + unread, self._is_final)

    def _next(self) -> Change:
        """The next transaction, waited for if need be."""
        while not self._waiting:
            self._read()
        fill = self._waiting.popleft()
        drafted, self._drafted = self._drafted, None
        change = self._begin(None)
        if drafted is not None and drafted.before is change.before:
            return drafted
        with gc_disabled():
            fill(change)
            del fill  # and the tree with it
        return change

    def _is_ready(self) -> bool:
        """Whether the source can be read without waiting; one that cannot tell is waited for in its turn."""
        ready = getattr(self._source, "ready", None)
        return bool(ready()) if ready is not None else length_hint(self._source) > 0

    def _read(self) -> None:
        """Read the next script and queue its transactions."""
        update = next(self._source)
        try:
            with gc_disabled():
                self._waiting.extend(_fills(update))
        except TidelogError as error:
            self._waiting.append(_raising(error))


def _fills(update: Changes) -> list[Fill]:
    """The transactions of an update, each as a function that fills a change with it."""
    if isinstance(update, str):
        update = SourceText("<changes>", update)
    if isinstance(update, SourceText):
        return [_taking(document) for document in transactions(parse(update))]
    rows = list(update)
    return [lambda change: _fill(change, rows)]


def _taking(document: Any) -> Fill:
    return lambda change: change.take(document)


def _raising(error: TidelogError) -> Fill:
    def fill(change: Change) -> None:
        raise error

    return fill


def _fill(change: Change, rows: Iterable[tuple[str, str, tuple[Any, ...]]]) -> None:
    """Put signed rows into a change, those of one predicate together."""
    signed: dict[tuple[str, str], list[tuple[Any, ...]]] = {}
    for sign, predicate, row in rows:
        signed.setdefault((sign, predicate), []).append(row)
    for (sign, predicate), some in signed.items():
        match sign:
            case "+":
                change.insert(predicate, some, define=True)
            case "-" | "−":
                change.delete(predicate, some)
            case _:
                message = f"{sign!r} is not a sign of a change"
                help = f"use {ADDED!r} to add a row, {REMOVED!r} to delete it"
                raise ProgramError(Diagnostic(codes.UNSIGNED, message, help=help))


async def stream_async(
    updates: AsyncIterable[Changes] | Iterable[Changes],
    make: Callable[[Iterable[Changes]], TransactionStream],
) -> AsyncIterator[Delta]:
    """Yield the deltas of transactions as they arrive; the next is received while one is committed."""
    import asyncio  # takes 20 ms, only where it is needed

    arrivals = _Arrivals()
    stream = make(arrivals)
    receiving = asyncio.ensure_future(arrivals.receive(updates))
    try:
        while await arrivals.have_come():
            for delta in stream:
                yield delta
                await asyncio.sleep(0)  # so that the next one can arrive
    finally:
        receiving.cancel()


class _Arrivals(Iterator[Changes]):
    """Updates that have arrived from an asynchronous source and are not consumed yet: two at most."""

    MOST = 2

    def __init__(self) -> None:
        import asyncio

        self._come: deque[Changes] = deque()
        self._changed = asyncio.Event()
        self._taken = asyncio.Event()
        self._ended = False
        self._fault: BaseException | None = None

    async def receive(self, updates: AsyncIterable[Changes] | Iterable[Changes]) -> None:
        """Receive all updates, as long as they are consumed."""
        try:
            if isinstance(updates, AsyncIterable):
                async for update in updates:
                    await self._put(update)
            else:
                for update in updates:
                    await self._put(update)
        except Exception as fault:  # noqa: BLE001 - raised where the updates are consumed
            self._fault = fault
        finally:
            self._ended = True
            self._changed.set()

    async def _put(self, update: Changes) -> None:
        self._come.append(update)
        self._changed.set()
        while len(self._come) >= self.MOST:
            self._taken.clear()
            await self._taken.wait()

    async def have_come(self) -> bool:
        """Return whether there is an update, once one has arrived or the last has been consumed."""
        while not self._come and not self._ended:
            self._changed.clear()
            await self._changed.wait()
        if not self._come and self._fault is not None:
            raise self._fault
        return bool(self._come)

    def ready(self) -> bool:
        """Return whether an update has arrived."""
        return bool(self._come)

    def __next__(self) -> Changes:
        if not self._come:
            raise StopIteration
        self._taken.set()
        return self._come.popleft()
