"""Results on standard output and in files, in every format."""

from __future__ import annotations

import io
import json
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import IO, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.cli.messages import is_coloured
from tidelog.cli.tables import table_lines
from tidelog.cli.terminal import data_output
from tidelog.cli.usage import UsageError
from tidelog.data.relation import Relation
from tidelog.errors import Source
from tidelog.io.formats import RDF, canonical_format
from tidelog.io.write import WriteOptions, write
from tidelog.logic.values import ColumnType
from tidelog.syntax.parser import parse_literals
from tidelog.syntax.printer import print_node
from tidelog.written import file_table

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
        """The form that the options ask for."""
        header, escaped = not options.no_header, options.escape_formulas
        if options.mixed == "struct" and options.terms:
            raise UsageError("--mixed struct does not go with --terms, which writes texts")
        chosen = options.format or otherwise
        return Form(chosen, options.terms, header, options.rows, escaped, options.mixed)

    def check_mixed(self, exports: Iterable[str] = ()) -> None:
        """Raise a usage error if structs are asked for, and neither results nor exports can have them."""
        if self.mixed == "struct" and not _BINARY & {self.format, *exports}:
            help = "choose --format parquet or arrow"
            raise UsageError("--mixed struct goes with Parquet and Arrow, and nothing is written so", help)


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
    literals = parse_literals(Source("<query>", text))
    return f"?- {', '.join(map(print_node, literals))} ."


def check_statements(arities: Mapping[str, int], form: Form) -> None:
    """Nothing, if all results can be written in this format; RDF takes statements only."""
    if canonical_format(form.format) not in RDF:
        return
    for name, arity in arities.items():
        if arity not in (3, 4):
            raise UsageError(
                f"{form.format} takes statements of 3 columns, or 4 with the graph: `{name}` has {arity}",
                "name the predicates to put out with @output, or choose another --format",
            )


def check_printable(count: int, form: Form) -> None:
    """Nothing, if so many tables can go to standard output in this format; else a usage error."""
    if form.format in _ONE_TABLE and count > 1:
        raise UsageError(
            f"{count} tables cannot go to standard output as {form.format}",
            "write them to files with --output DIR, ask for one with `tidelog query`, "
            "or choose --format table, json or jsonl",
        )
    if form.format in _BINARY and sys.stdout.isatty():
        raise UsageError(
            f"{form.format} is not for terminals", "write it to a file with --output DIR, or pipe it on"
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
    for place, result in enumerate(results):
        lines = table_lines(
            result.name,
            result.relation,
            most=most or None,
            terms=form.terms or "plain",
            coloured=is_coloured(sys.stdout),
        )
        if place:
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
