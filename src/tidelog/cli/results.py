"""Results and the changes of commits, on standard output and in files, in every format."""

from __future__ import annotations

import io
import json
import os
import re
import shutil
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import IO, Any, Final

import pyarrow as pa

from tidelog.cli.options import UsageError
from tidelog.cli.output import data_output, is_coloured, show
from tidelog.data.arrow import pc
from tidelog.data.relation import Relation
from tidelog.errors import DataError, Diagnostic, SourceText, codes, counted, text_width, visible
from tidelog.io.data_file import RDF, canonical_format, file_name
from tidelog.io.write import WriteOptions, file_table, write
from tidelog.logic.program import Program
from tidelog.logic.values import ColumnType
from tidelog.reasoner.delta import ADDED, REMOVED, Delta, counts
from tidelog.records import dataclass
from tidelog.syntax.parser import parse_literals
from tidelog.syntax.printer import print_node
from tidelog.temporal.timed_relation import TimedRelation

# ---- relations as aligned tables

_BOLD, _DIM, _NORMAL = "\x1b[1m", "\x1b[2m", "\x1b[0m"


def table_lines(
    name: str, relation: Relation, *, most: int | None = None, terms: str = "plain", coloured: bool = False
) -> Iterator[str]:
    """The lines of a table: its name and size, its columns, its rows, and how many more there are."""
    bold, dim, normal = (_BOLD, _DIM, _NORMAL) if coloured else ("", "", "")
    count = len(relation)
    yield f"{bold}{visible(name)}{normal}  {dim}{counted(count, 'row')}{normal}"
    head = relation if most is None else relation.head(most)
    table = head.to_texts(terms).table
    numbers = {field.name for field in head.to_arrow().schema if _is_number(field.type)}
    right = [name in numbers for name in table.column_names]
    cells = [[visible(text) for text in column.to_pylist()] for column in table.columns]
    names = [visible(name) for name in table.column_names]
    widths = [max(map(text_width, (name, *column))) for name, column in zip(names, cells, strict=True)]
    if count:
        yield f"  {bold}{_line(names, widths, right)}{normal}"
        yield f"  {dim}{'  '.join('─' * width for width in widths)}{normal}"
        for row in zip(*cells, strict=True):
            yield f"  {_line(row, widths, right)}"
    if count > len(head):
        yield f"  {dim}… {count - len(head):,} more; `--rows 0` shows all{normal}"


def _line(cells: Sequence[str], widths: Sequence[int], right: Sequence[bool]) -> str:
    padded = (
        " " * (width - text_width(cell)) + cell if to_right else cell + " " * (width - text_width(cell))
        for cell, width, to_right in zip(cells, widths, right, strict=True)
    )
    return "  ".join(padded).rstrip()


def _is_number(kind: pa.DataType) -> bool:
    return bool(pa.types.is_integer(kind) or pa.types.is_floating(kind) or pa.types.is_decimal(kind))


# ---- results on standard output and in files

ROWS_ON_TERMINAL: Final = 100
_ONE_TABLE: Final = frozenset({"csv", "tsv", "parquet", "arrow"})  # formats that hold one table
TRIPLE: Final = "triple"  # the predicate that rule sets for RDF are about
_BINARY: Final = frozenset({"parquet", "arrow"})


@dataclass(frozen=True, slots=True)
class Form:
    """How results are written: the format, how terms are, with a header, how many rows of a table."""

    format: str
    terms: str | None = None  # plain, exact, or None: as the format is read again
    header: bool = True
    rows: int | None = None  # None: all, but on a terminal the first ones
    escape_formulas: bool = False
    mixed: str = "text"  # what columns of several types are, in Parquet and Arrow

    @property
    def options(self) -> WriteOptions:
        """How files are written."""
        return WriteOptions(header=self.header, escape_formulas=self.escape_formulas)

    @staticmethod
    def of(options: Namespace, otherwise: str) -> Form:
        """The output form of the options."""
        header, escaped = not options.no_header, options.escape_formulas
        if options.mixed == "struct" and options.terms:
            raise UsageError("--mixed struct cannot be combined with --terms, which writes texts")
        chosen = options.format or otherwise
        return Form(chosen, options.terms, header, options.rows, escaped, options.mixed)

    def check_mixed(self, exports: Iterable[str] = ()) -> None:
        """Raise a usage error if structs are requested, and neither results nor exports can have them."""
        if self.mixed == "struct" and not _BINARY & {self.format, *exports}:
            help = "choose --format parquet or arrow"
            raise UsageError("--mixed struct requires an output in Parquet or Arrow", help)


@dataclass(frozen=True, slots=True)
class Result:
    """The facts of a predicate, or the answers to a query, and a name for them."""

    name: str
    arity: int
    make: Callable[[], Relation]
    label: str = "predicate"  # or `query`
    types: tuple[ColumnType, ...] = ()  # of the predicate's columns, where it declares them

    @property
    def relation(self) -> Relation:
        """The rows, in the total order of values."""
        return self.make().sorted()


def query_name(text: str) -> str:
    """A query on one line, without comments, to stand above its answers.

    >>> query_name("ancestor(alice,?x)")
    '?- ancestor(alice, ?x) .'
    """
    literals = parse_literals(SourceText("<query>", text))
    return f"?- {', '.join(map(print_node, literals))} ."


def check_statements(arities: Mapping[str, int], form: Form) -> None:
    """Raise UsageError if the format cannot hold all results; RDF needs 3 or 4 columns."""
    if canonical_format(form.format) not in RDF:
        return
    for name, arity in arities.items():
        if arity not in (3, 4):
            raise UsageError(
                f"{form.format} takes statements of 3 columns, or 4 with the graph: `{name}` has {arity}",
                "name the predicates to write with @output, or choose another --format",
            )


def check_printable(count: int, form: Form) -> None:
    """Raise UsageError if `count` tables cannot be written to standard output in this format."""
    if form.format in _ONE_TABLE and count > 1:
        raise UsageError(
            f"{count} tables cannot go to standard output as {form.format}",
            "write them to files with --output DIR, ask for one with `tidelog query`, "
            "or choose --format table, json or jsonl",
        )
    if form.format in _BINARY and sys.stdout.isatty():
        raise UsageError(
            f"{form.format} cannot be written to a terminal", "write a file with --output DIR, or use a pipe"
        )


def print_results(results: Sequence[Result], form: Form) -> None:
    """The results are on standard output. Rows of JSON are labelled with what they belong to."""
    sys.stdout.flush()
    stream = data_output()
    match form.format:
        case "table":
            _print_tables(sys.stdout.buffer, results, form)
        case "json":
            _print_json(stream, results, form)
        case "jsonl":
            for result in results:
                _write(stream, _labelled(result, form), form)
        case _:
            for result in results:
                _write(stream, data(result.relation, form, result.types), form)
    stream.flush()


def print_result(result: Result, form: Form) -> None:
    """One result is on standard output, without a label on its rows."""
    sys.stdout.flush()
    stream = data_output()
    if form.format == "table":
        _print_tables(sys.stdout.buffer, [result], form)
    else:
        _write(stream, data(result.relation, form, result.types), form)
    stream.flush()


def data(relation: Relation, form: Form, types: Sequence[ColumnType] = ()) -> pa.Table:
    """The rows as the format wants them: typed, as texts, or as terms of RDF."""
    table = file_table(relation, form.format, form.terms, types, form.mixed)
    is_filtered = relation.name == TRIPLE and canonical_format(form.format) in RDF
    return _statements(table) if is_filtered else table


def _statements(table: pa.Table) -> pa.Table:
    """The triples that RDF can hold: rules may say something about literals, statements may not."""
    subject, predicate = table.column(0), table.column(1)
    return table.filter(pc.and_(pc.invert(pc.starts_with(subject, '"')), pc.starts_with(predicate, "<")))


def _write(stream: IO[bytes], table: pa.Table, form: Form) -> None:
    target = io.BytesIO() if form.format in _BINARY else stream
    write(target, form.format, table.column_names, [table], form.options)
    if isinstance(target, io.BytesIO) and target is not stream:
        stream.write(target.getbuffer())


def _print_tables(stream: IO[bytes], results: Iterable[Result], form: Form) -> None:
    is_terminal = sys.stdout.isatty()
    most = form.rows if form.rows is not None else ROWS_ON_TERMINAL if is_terminal else 0
    for position, result in enumerate(results):
        lines = table_lines(
            result.name,
            result.relation,
            most=most or None,
            terms=form.terms or "plain",
            coloured=is_coloured(sys.stdout),
        )
        if position:
            stream.write(b"\n")
        for line in lines:
            stream.write(f"{line}\n".encode("utf-8", "backslashreplace"))


def _print_json(stream: IO[bytes], results: Iterable[Result], form: Form) -> None:
    """One object: the rows of each result under its name."""
    opening = b"{\n"
    for result in results:
        stream.write(opening + json.dumps(result.name, ensure_ascii=False).encode() + b": ")
        array = io.BytesIO()
        _write(array, data(result.relation, form, result.types), form)
        stream.write(array.getvalue().rstrip(b"\n"))
        opening = b",\n"
    stream.write(b"{}\n" if opening == b"{\n" else b"\n}\n")


def _labelled(result: Result, form: Form) -> pa.Table:
    """The rows with a first column that says what they belong to."""
    table: Any = data(result.relation, form, result.types)
    label = result.label
    while label in table.column_names:
        label += "_"
    return table.add_column(0, label, pa.repeat(pa.scalar(result.name), table.num_rows))


# ---- what commits change

_MOMENT = re.compile(r"-?\d{4,}-\d\d-\d\dT[^,\])]+")  # a dateTime in an interval: programs write it in quotes


def duration(seconds: float) -> str:
    """A time as text for display.

    >>> duration(0.00004), duration(0.0123), duration(3.456)
    ('0.04 ms', '12.3 ms', '3.46 s')
    """
    if seconds >= 1:
        return f"{seconds:.2f} s"
    milliseconds = seconds * 1000
    return f"{milliseconds:.2f} ms" if milliseconds < 1 else f"{milliseconds:.1f} ms"


def by_predicate(delta: Delta) -> str:
    """Return how many facts were inserted and deleted, by predicate."""
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
        table = _labelled_delta(data(relation, form), **label, change=sign, predicate=name)
        write(output, "jsonl", table.column_names, [table], WriteOptions())
    output.flush()


def print_script(delta: Delta, names: tuple[str, ...], most: int | None) -> None:
    """Print the changes of some predicates as a change script, at most `most` of each."""
    for line in script_lines(delta, names, most):
        show(line)
    sys.stdout.flush()


def script_lines(
    delta: Delta, names: tuple[str, ...] | None = None, most: int | None = None
) -> Iterator[str]:
    """The changes, by default of all predicates, as a change script, limited for each predicate."""
    for name, sign, relation in _parts(delta):
        if names is not None and name not in names:
            continue
        head = relation if most is None else relation.head(most)
        rows = head.to_texts("exact").rows() if relation.columns else [()] * len(relation)
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
    """Yield the deleted and inserted rows, in the total order of values, by predicate."""
    for name in delta.predicates:
        predicate_delta = delta[name]
        for sign, relation in ((REMOVED, predicate_delta.removed), (ADDED, predicate_delta.added)):
            if relation:
                yield name, sign, relation.sorted()


def _labelled_delta(table: Any, **labels: object) -> Any:
    """The table with first columns that say what its rows belong to."""
    used = set(table.column_names)
    for position, (name, value) in enumerate(labels.items()):
        while name in used:
            name += "_"
        table = table.add_column(position, name, pa.repeat(pa.scalar(value), table.num_rows))
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
    """Yield a folder to fill, renamed to `path` if the block ends without an exception, else deleted."""
    staged = path.with_name(f".{path.name}.{os.getpid()}.staged")
    try:
        staged.mkdir(parents=True)
        yield staged
        if path.exists():  # written before, by a process that ended before its commit
            shutil.rmtree(path)
        staged.rename(path)
    except OSError as error:
        message = f"`{path}` cannot be written: {error.strerror or error}"
        raise DataError(Diagnostic(codes.NOT_WRITABLE, message, place=str(path))) from error
    finally:
        if staged.exists():
            shutil.rmtree(staged, ignore_errors=True)
