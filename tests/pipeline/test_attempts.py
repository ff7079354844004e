"""Exit codes for schedulers, and further attempts after temporary errors."""

from __future__ import annotations

import errno
from datetime import timedelta

import pytest

from tidelog.engine.exchange.sockets import lost
from tidelog.errors import DataError, Diagnostic, Inconsistent, Interrupted, SourceText, Stopped, codes
from tidelog.io.toml_tables import TomlDocument
from tidelog.pipeline import job_settings
from tidelog.pipeline.guards import GuardFailed
from tidelog.pipeline.job_settings import Retry, attempt, exit_code, is_temporary, read_retry

LOCKED = DataError(Diagnostic(codes.JOB_LOCKED, "another process is writing"))
BAD_DATA = DataError(Diagnostic("E504", "not a number"))


def caused(error: DataError, cause: OSError) -> DataError:
    try:
        raise error from cause
    except DataError as raised:
        return raised


@pytest.mark.parametrize(
    ("error", "code"),
    [
        (LOCKED, 75),
        (lost("a task is gone"), 75),
        (DataError(Diagnostic("E869", "Spark failed")), 75),
        (ConnectionRefusedError(errno.ECONNREFUSED, "refused"), 75),
        (TimeoutError(), 75),
        (OSError(errno.ESTALE, "stale"), 75),
        (caused(DataError(Diagnostic("E520", "x")), OSError(errno.EIO, "io")), 75),
        (OSError(errno.ENOSPC, "no space"), 1),
        (OSError(errno.ENOENT, "no file"), 1),
        (caused(DataError(Diagnostic("E520", "x")), OSError(errno.ENOENT, "no file")), 1),
        (BAD_DATA, 1),
        (DataError([*LOCKED.diagnostics, *BAD_DATA.diagnostics]), 1),
        (DataError([]), 1),
        (Inconsistent(Diagnostic("E601", "inconsistent")), 3),
        (GuardFailed(Diagnostic(codes.GUARD, "too few")), 3),
        (Stopped(Diagnostic("E602", "time is over")), 4),
        (Interrupted(Diagnostic("E602", "Ctrl-C")), 130),
        (KeyboardInterrupt(), 130),
        (ValueError("a fault of ours"), 1),
    ],
)
def test_exit_codes(error: BaseException, code: int) -> None:
    assert exit_code(error) == code
    assert is_temporary(error) == (code == job_settings.TEMPORARY)
    assert code in job_settings.EXIT_CODES


class Run:
    """Fails with some errors, one after the other, then returns. Mutable."""

    def __init__(self, *errors: Exception) -> None:
        self.errors = list(errors)
        self.numbers: list[int] = []
        self.waits: list[float] = []

    def __call__(self, number: int) -> str:
        self.numbers.append(number)
        if self.errors:
            raise self.errors.pop(0)
        return "done"

    def attempted(self, retry: Retry) -> str:
        return attempt(self, retry, lambda *_: None, self.waits.append)


def test_temporary_errors_are_tried_again_after_growing_waits() -> None:
    run = Run(LOCKED, lost("gone"), LOCKED)
    assert run.attempted(Retry(4, timedelta(seconds=5), timedelta(seconds=15))) == "done"
    assert run.numbers == [1, 2, 3, 4] and run.waits == [5, 10, 15]


def test_the_last_error_is_raised() -> None:
    run = Run(LOCKED, LOCKED)
    with pytest.raises(DataError, match="E809"):
        run.attempted(Retry(2))
    assert run.numbers == [1, 2] and run.waits == [10]


def test_other_errors_are_not_tried_again() -> None:
    run = Run(BAD_DATA)
    with pytest.raises(DataError, match="E504"):
        run.attempted(Retry(9))
    assert run.numbers == [1] and run.waits == []


def test_the_settings_in_a_job_file() -> None:
    document = TomlDocument(
        SourceText("job.toml", '[retry]\nattempts = 3\nwait = "30 s"\nlongest-wait = "1 h"\n')
    )
    assert read_retry(document.root.table("retry")) == Retry(3, timedelta(seconds=30), timedelta(hours=1))
    assert read_retry(None) == Retry() and Retry().delay(1) is None
    wrong = TomlDocument(SourceText("job.toml", '[retry]\nattempts = 0\nwait = "soon"\nwaits = 3\n'))
    read_retry(wrong.root.table("retry"))
    assert sorted(fault.code for fault in wrong.faults) == ["E802", "E803", "E803"]


def test_a_policy_without_end_does_not_overflow() -> None:
    assert Retry(10**9).delay(10**6) == 600
