"""Rows that cannot be read, and what becomes of them. `RejectedRows` changes as files are read.

Invariant: every row of a file is either in a batch or was given to `RejectedRows.add`, once.
"""

from __future__ import annotations

import csv
from collections import Counter
from dataclasses import field, replace
from enum import Enum
from pathlib import Path
from typing import TextIO

from tidelog.errors import DataError, Diagnostic, codes, counted
from tidelog.logic.import_options import Nulls
from tidelog.records import dataclass

MOST_REPORTED = 20
MOST_COUNTED = 10_000  # bad rows after which reading stops: the rest is hardly better
ADVICE = (
    "`--on-error skip` skips such rows, `--on-error collect` also writes them to a file; "
    'in Python `on_error="skip"`'
)


class OnError(Enum):
    """What to do about a row that cannot be read."""

    FAIL = "fail"  # stop, and report the first rows that cannot be read, and how many more there are
    SKIP = "skip"  # leave the row out, and count it
    COLLECT = "collect"  # as skip, and write the row to a file, with the reason


@dataclass(frozen=True, slots=True)
class BadRow:
    """A row as it stands in the file, where it stands, and why it cannot be read."""

    diagnostic: Diagnostic
    text: str
    missing: str | None = None  # the column without a value, if the row is only left out for that


@dataclass(frozen=True, slots=True)
class ReadReport:
    """How many rows were read, how many were left out, and where those are kept."""

    rows: int
    skipped: int
    rejects: Path | None = None


@dataclass
class RejectedRows:
    """Collects the rows that cannot be read, over all the files of one run.

    With `OnError.COLLECT` the file `rejects` is a CSV of the columns `place`, `code`, `reason` and `row`, the
    last as it stands in the data; it is made when the first row is rejected. Close it at the end.
    """

    on_error: OnError = OnError.FAIL
    rejects: Path = Path("rejects.csv")
    rows: int = 0
    skipped: int = 0
    nulls: Counter[tuple[str, str, str]] = field(default_factory=Counter)  # file, column, what was done
    advice: str = ADVICE  # how to read the rest in spite of bad rows
    _more: int = 0  # rows that cannot be read and are only counted
    _found: list[Diagnostic] = field(default_factory=list)
    _file: TextIO | None = None

    def add(self, row: BadRow) -> None:
        """Note a row that cannot be read; raise when there are too many to continue."""
        if row.missing is not None:
            self.nulls[(row.diagnostic.place or "").split(":")[0], row.missing, Nulls.DROP_ROW.value] += 1
            return
        if self.on_error is OnError.FAIL:
            if len(self._found) < MOST_REPORTED:
                self._found.append(row.diagnostic)
            else:
                self._more += 1
            if self._more + len(self._found) >= MOST_COUNTED:
                self.check(is_whole=False)
            return
        self.skipped += 1
        if self.on_error is OnError.COLLECT:
            self._write(row)

    def check(self, is_whole: bool = True) -> None:
        """Raise `DataError` if a row could not be read and none may be left out.

        `is_whole` says that all rows were read, so that it is known how many are bad.
        """
        if not self._found:
            return
        found, more = self._found, self._more
        self._found, self._more = [], 0
        if more:
            rest = "" if is_whole else ", and reading stopped there"
            message = f"{counted(more, 'more row')} cannot be read{rest}"
            found.append(Diagnostic(codes.MORE_BAD_ROWS, message, help=self.advice))
        elif found[-1].help is None:
            found[-1] = replace(found[-1], help=self.advice)
        raise DataError(found)

    @property
    def failed(self) -> bool:
        """Whether the work is bound to fail, so that reading on only serves to find further faults."""
        return bool(self._found)

    @property
    def report(self) -> ReadReport:
        """What was read and left out so far."""
        return ReadReport(self.rows, self.skipped, self.rejects if self._file else None)

    def _write(self, row: BadRow) -> None:
        if self._file is None:
            self.rejects.parent.mkdir(parents=True, exist_ok=True)
            # Surrogates represent bytes that are not UTF-8, and become those bytes again.
            self._file = self.rejects.open("w", encoding="utf-8", errors="surrogateescape", newline="")
            self._write_fields("place", "code", "reason", "row")
        fault = row.diagnostic
        self._write_fields(fault.place or "", fault.code, fault.message, row.text)

    def _write_fields(self, *fields: str) -> None:
        assert self._file is not None
        csv.writer(self._file, lineterminator="\n").writerow(fields)

    def close(self) -> None:
        """The file of rejected rows is complete."""
        if self._file is not None:
            self._file.close()

    def __enter__(self) -> RejectedRows:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()
