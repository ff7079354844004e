"""Live queries: their answers are kept right while facts and rules change."""

from __future__ import annotations

from collections.abc import Callable
from types import TracebackType

from tidelog.data.relation import Relation
from tidelog.engine.lock import Lock, locked
from tidelog.logic.program import Query
from tidelog.logic.type_inference import LazySchema
from tidelog.query.keeping import Keeper
from tidelog.query.kept_queries import Asked
from tidelog.subscription import Callback, Deltas, Subscription, Subscriptions


class LiveQuery:
    """A query whose answers are kept right, until it is cancelled.

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
        asked: Asked,
        keeping: Keeper,
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
        dictionary, schema = self._keeping.engine.dictionary, self._schema(query)
        return Relation(query.text.strip(), query.variables, columns, count, dictionary, schema)

    @locked
    def subscribe(self, callback: Callback) -> Subscription:
        """Let a function be called with what changed in the answers, after each commit that changed them."""
        self._keeping.check(self._asked)
        subscription = self._subscriptions.add(self._asked.name, callback)
        self._subscribed.append(subscription)
        return subscription

    def deltas(self) -> Deltas:
        """What changes in the answers from now on: `async for delta in live.deltas()`."""
        return Deltas(self.subscribe)

    @locked
    def cancel(self) -> None:
        """Keep the answers no longer, nor what was derived for them alone; does nothing the second time."""
        for subscription in self._subscribed:
            subscription.cancel()
        self._keeping.forget(self._asked)

    def __enter__(self) -> LiveQuery:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.cancel()
