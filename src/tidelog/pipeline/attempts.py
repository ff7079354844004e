"""How a run ends for whoever scheduled it: exit codes, and which errors are worth another attempt."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable
from dataclasses import dataclass
from datetime import timedelta
from typing import Final, TypeVar

from tidelog.engine.exchange import codes as exchange_codes
from tidelog.errors import Stopped, TidelogError
from tidelog.pipeline import codes
from tidelog.pipeline.document import Table
from tidelog.pipeline.guards import read_duration
from tidelog.spark import codes as spark_codes

T = TypeVar("T")

DONE: Final = 0
ERROR: Final = 1
USAGE: Final = 2
NOT_PUBLISHED: Final = 3  # inconsistent facts, or a guard or expectation that does not hold
LIMIT: Final = 4
TEMPORARY: Final = 75  # EX_TEMPFAIL of sysexits.h
UNCHANGED: Final = 99  # only if asked for; Airflow takes it for "skipped"
INTERRUPTED: Final = 130

EXIT_CODES: Final = {
    DONE: "done: a version was published, or nothing has changed",
    ERROR: "the job, the program or the data has errors, or a file cannot be read or written",
    USAGE: "the command line makes no sense",
    NOT_PUBLISHED: "nothing was published: inconsistent facts, or a guard or expectation that does not hold",
    LIMIT: "stopped by a limit: `timeout`, `max-facts`, memory",
    TEMPORARY: "a temporary failure, after all attempts: another process is publishing, Spark lost tasks, a "
    "connection failed",
    UNCHANGED: "nothing has changed, with `--exit-unchanged`; otherwise that is 0",
    INTERRUPTED: "stopped by Ctrl-C",
}

# Errors of the program and of the data keep their own codes on Spark, so that these are none of them.
TEMPORARY_CODES: Final = frozenset(
    {codes.LOCKED, spark_codes.FAILED, exchange_codes.LOST, exchange_codes.FAILED}
)
_TEMPORARY_NUMBERS: Final = frozenset(
    {
        errno.EAGAIN,
        errno.EBUSY,
        errno.ECONNABORTED,
        errno.ECONNREFUSED,
        errno.ECONNRESET,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.EIO,
        errno.ENETDOWN,
        errno.ENETUNREACH,
        errno.EPIPE,
        errno.ESTALE,
        errno.ETIMEDOUT,
    }
)


def is_temporary(error: BaseException) -> bool:
    """Return whether the same run may succeed if it is tried again.

    An error of tidelog that was raised because of a temporary one of the system is temporary, too.
    """
    if isinstance(error, Stopped):
        return False
    if isinstance(error, TidelogError):
        if error.diagnostics and all(one.code in TEMPORARY_CODES for one in error.diagnostics):
            return True
        return isinstance(error.__cause__, OSError) and is_temporary(error.__cause__)
    if isinstance(error, TimeoutError | ConnectionError):
        return True
    return isinstance(error, OSError) and error.errno in _TEMPORARY_NUMBERS


def exit_code(error: BaseException) -> int:
    """Return the exit code of a run that ended with an error."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if is_temporary(error):
        return TEMPORARY
    return error.exit_code if isinstance(error, TidelogError) else ERROR


@dataclass(frozen=True, slots=True)
class Retry:
    """How often a run is tried, and how long to wait before each further attempt: twice as long each time."""

    attempts: int = 1
    wait: timedelta = timedelta(seconds=10)
    longest_wait: timedelta = timedelta(minutes=10)

    def delay(self, attempt: int) -> float | None:
        """Return the seconds to wait after a failed attempt, the first being 1; None if it was the last.

        >>> retry = Retry(4, timedelta(seconds=10), timedelta(seconds=30))
        >>> [retry.delay(attempt) for attempt in (1, 2, 3, 4)]
        [10.0, 20.0, 30.0, None]
        """
        if attempt >= self.attempts:
            return None
        longest = self.longest_wait.total_seconds()
        return min(self.wait.total_seconds() * 2.0 ** min(attempt - 1, 64), longest)


def read_retry(table: Table | None) -> Retry:
    """Return the `[retry]` of a job file; faults are noted in its document."""
    if table is None:
        return Retry()
    attempts = table.count("attempts", least=1)
    wait, longest = _wait(table, "wait"), _wait(table, "longest-wait")
    table.close()
    default = Retry()
    return Retry(attempts or 1, wait or default.wait, longest or default.longest_wait)


def _wait(table: Table, key: str) -> timedelta | None:
    text = table.text(key)
    try:
        return None if text is None else read_duration(text)
    except ValueError:
        table.wrong(key, f"is not a duration: `{text}`", 'write "10 s" or "5 min"')
        return None


def attempt(
    run: Callable[[int], T],
    retry: Retry,
    tell: Callable[[int, float, Exception], None],
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """Return what a run returns; try again after temporary errors, as often as the policy allows.

    `run` is given the number of the attempt, the first being 1. Before it waits, `tell` is told the number of
    the attempt that failed, the seconds to wait, and the error. The last error is raised.
    """
    number = 1
    while True:
        try:
            return run(number)
        except Exception as error:
            delay = retry.delay(number) if is_temporary(error) else None
            if delay is None:
                raise
            tell(number, delay, error)
        sleep(delay)
        number += 1
