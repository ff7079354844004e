"""What commits change: as lines for people, as JSON lines, as files."""

from __future__ import annotations

import os
import re
import shutil
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pyarrow as pa

from tidelog.cli.results import Form, data
from tidelog.cli.terminal import data_output, show
from tidelog.cli.usage import UsageError
from tidelog.data.relation import Relation
from tidelog.errors import DataError, Diagnostic
from tidelog.io.formats import RDF, canonical_format, file_name
from tidelog.io.write import WriteOptions, write
from tidelog.logic.program import Program
from tidelog.reasoner.delta import ADDED, REMOVED, Delta, counts
from tidelog.temporal.relation import TimedRelation

_MOMENT = re.compile(r"-?\d{4,}-\d\d-\d\dT[^,\])]+")  # a dateTime in an interval: programs write it in quotes


def duration(seconds: float) -> str:
    """A time as people read it.

    >>> duration(0.00004), duration(0.0123), duration(3.456)
    ('0.04 ms', '12.3 ms', '3.46 s')
    """
    if seconds >= 1:
        return f"{seconds:.2f} s"
    milliseconds = seconds * 1000
    return f"{milliseconds:.2f} ms" if milliseconds < 1 else f"{milliseconds:.1f} ms"


def by_predicate(delta: Delta) -> str:
    """How many facts came and went, predicate by predicate."""
    return ", ".join(
        f"{name} {counts(len(delta[name].added), len(delta[name].removed))}" for name in delta.predicates
    )


def print_lines(
    delta: Delta, form: Form, names: tuple[str, ...] | None = None, batch: int | None = None
) -> None:
    """The changes, by default of all predicates, are on standard output, a JSON object a line."""
    label = {"commit": delta.number} if batch is None else {"batch": batch}
    sys.stdout.flush()
    output = data_output()
    for name, sign, relation in _parts(delta):
        if names is not None and name not in names:
            continue
        table = _labelled(data(relation, form), **label, change=sign, predicate=name)
        write(output, "jsonl", table.column_names, [table], WriteOptions())
    output.flush()


def print_script(delta: Delta, names: tuple[str, ...], most: int | None) -> None:
    """The changes of some predicates are on standard output, as a change script; at most so many of each."""
    for line in script_lines(delta, names, most):
        show(line)
    sys.stdout.flush()


def script_lines(
    delta: Delta, names: tuple[str, ...] | None = None, most: int | None = None
) -> Iterator[str]:
    """The changes, by default of all predicates, as a change script; at most so many of each."""
    for name, sign, relation in _parts(delta):
        if names is not None and name not in names:
            continue
        shown = relation if most is None else relation.head(most)
        rows = shown.to_texts("exact").rows() if relation.columns else [()] * len(relation)
        for row in rows:
            terms, time = _apart(row, relation)
            yield f"{sign} {name}({', '.join(terms)}){time}"
        if len(relation) > len(rows):
            yield f"% … {len(relation) - len(rows):,} more"


def _apart(row: tuple[str, ...], relation: Relation) -> tuple[tuple[str, ...], str]:
    """The terms of a row, and what stands behind them in a script: when they hold, and the end."""
    if not isinstance(relation, TimedRelation):
        return row, " ."
    count = len(relation.arguments)
    repeats = f"  % and every {row[count + 1]}" if len(row) > count + 1 and row[count + 1] else ""
    interval = _MOMENT.sub(r'"\g<0>"', row[count])
    return row[:count], f"@{interval} .{repeats}"


def _parts(delta: Delta) -> Iterator[tuple[str, str, Relation]]:
    """The rows that went and that came, in the total order of values, predicate by predicate."""
    for name in delta.predicates:
        one = delta[name]
        for sign, relation in ((REMOVED, one.removed), (ADDED, one.added)):
            if relation:
                yield name, sign, relation.sorted()


def _labelled(table: Any, **labels: object) -> Any:
    """The table with first columns that say what its rows belong to."""
    taken = set(table.column_names)
    for place, (name, value) in enumerate(labels.items()):
        while name in taken:
            name += "_"
        table = table.add_column(place, name, pa.repeat(pa.scalar(value), table.num_rows))
    return table


class DeltaFolder:
    """A folder with a folder for each commit; each of these appears when it is complete.

    One that is `continued` may hold commits already, and those that come again replace them.
    """

    def __init__(self, path: Path, form: Form, *, continued: bool = False) -> None:
        if path.exists() and not path.is_dir():
            raise UsageError(f"--deltas {path} is not a folder")
        if not continued and path.is_dir() and any(child.name.isdecimal() for child in path.iterdir()):
            raise UsageError(f"--deltas {path} holds deltas already", "remove them, or choose another folder")
        if canonical_format(form.format) in RDF:
            raise UsageError(f"deltas cannot be written as {form.format}", "choose csv, jsonl or parquet")
        self._path = path
        self._form = form

    def write(self, delta: Delta, program: Program, number: int | None = None) -> None:
        """Write the changes of a commit to files; columns have the types that the program declares."""
        with _whole(self._path / str(delta.number if number is None else number)) as folder:
            for name, sign, relation in _parts(delta):
                plain = Path(file_name(name, self._form.format, len(relation.columns)))
                kind = "added" if sign == ADDED else "removed"
                predicate = program.find(name)
                table = data(relation, self._form, () if predicate is None else program.types_of(predicate))
                options = WriteOptions(header=self._form.header, compressed=False)
                file = folder / f"{plain.stem}.{kind}{plain.suffix}"
                write(file, self._form.format, table.column_names, [table], options)


@contextmanager
def _whole(path: Path) -> Iterator[Path]:
    """A folder to fill, which has its name when the block ends well, and is gone otherwise."""
    staged = path.with_name(f".{path.name}.{os.getpid()}.staged")
    try:
        staged.mkdir(parents=True)
        yield staged
        if path.exists():  # written before, by a process that ended before its commit
            shutil.rmtree(path)
        staged.rename(path)
    except OSError as error:
        message = f"`{path}` cannot be written: {error.strerror or error}"
        raise DataError(Diagnostic("E515", message, place=str(path))) from error
    finally:
        if staged.exists():
            shutil.rmtree(staged, ignore_errors=True)
