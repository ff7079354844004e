"""An engine at work: its limits, its kernels, and those who are told what it does. Mutates itself."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any

from tidelog.engine.events import Audience, Listener, Tally
from tidelog.engine.limits import Limits


class Runtime:
    """An engine at work.

    The timeout counts from `started`, a monotonic time, else from the beginning of each call.
    """

    def __init__(
        self, engine: Any, listeners: Iterable[Listener], timeout: float | None, max_facts: int | None
    ) -> None:
        self.engine = engine
        self.statistics = Tally()
        self.tell = Audience([self.statistics, *listeners])
        self.timeout = timeout
        self.max_facts = max_facts
        self.started: float | None = None
        self._check: Callable[[], None] = _proceed

    def limits(self) -> Limits:
        """The limits of what begins now, which the engine checks from now on."""
        limits = Limits(self.statistics, self.timeout, self.max_facts, self.started)
        self.engine.check = self._check = limits.check
        self.engine.budget = limits.budget
        return limits

    def no_limits(self) -> Limits:
        """The same for what nothing may stop."""
        limits = Limits(self.statistics, may_stop=False)
        self.engine.check = self._check = _proceed
        self.engine.budget = limits.budget
        return limits

    def check(self) -> None:
        """Raise what the limits of the moment say."""
        self._check()


def _proceed(found: int = 0, are_answers: bool = False) -> None:
    """The check that never stops anything."""
