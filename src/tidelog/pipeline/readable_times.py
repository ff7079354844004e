"""Rows with times of which some cannot be read: these are rejected one by one, and the others taken."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from tidelog.errors import Diagnostic, TidelogError
from tidelog.io.columns import Batch
from tidelog.io.rejects import BadRow, Faults
from tidelog.temporal.changing import Times
from tidelog.temporal.intake import split_batch

Timed = tuple[Batch, Times]  # rows, and when each holds


def readable(
    batch: Batch, names: tuple[str, ...], is_integer: bool, faults: Faults, place: str, begin: int = 0
) -> Iterator[tuple[int, Batch, Times]]:
    """The rows whose last columns say when, in parts, with where each begins in the batch.

    The batch is halved until the others are found.
    """
    try:
        yield begin, *split_batch(batch, names, is_integer)
    except TidelogError as error:
        if batch.rows == 1:
            faults.rows -= 1
            faults.add(_rejected(batch, error.diagnostics[0], place))
            return
        middle = batch.rows // 2
        for start, rows in ((0, middle), (middle, batch.rows - middle)):
            part = _part(batch, start, rows)
            yield from readable(part, names, is_integer, faults, place, begin + start)


def _part(batch: Batch, start: int, rows: int) -> Batch:
    columns = (replace(column, values=column.values.slice(start, rows)) for column in batch.columns)
    return Batch(tuple(columns), rows)


def _rejected(row: Batch, fault: Diagnostic, place: str) -> BadRow:
    text = ",".join(str(column.values[0].as_py()) for column in row.columns)
    reason = fault.message.removeprefix("row 1: ")
    return BadRow(Diagnostic(fault.code, reason, place=place), text)
