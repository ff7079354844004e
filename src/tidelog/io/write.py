"""Writing: tables of text or typed columns as files of any format, so that every value can be read again."""

from __future__ import annotations

import io
import json
import re
from collections.abc import Callable, Iterable, Iterator, Sequence
from decimal import Decimal
from pathlib import Path
from typing import IO, Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.ipc

from tidelog.data import decode
from tidelog.data.arrow import Array, flags_of, join_texts, mask_of, pc, text_array, text_scalar
from tidelog.data.columns import JSON as JSON_TEXT
from tidelog.data.columns import is_json, marked
from tidelog.data.dictionary import Dictionary
from tidelog.data.relation import Relation
from tidelog.data.rows import Ids
from tidelog.data.text_kernels import BLANK, NAME, USUAL, USUAL_PREDICATE
from tidelog.data.typed_columns import check, to_readable, to_typed, with_mixed
from tidelog.durable import compressing, replacing_text
from tidelog.errors import DataError, Diagnostic, codes
from tidelog.io.data_file import (
    DELIMITED,
    JSON,
    RDF,
    TransferOptions,
    canonical_format,
    file_name,
    is_compressed,
    transfer_path,
)
from tidelog.logic.program import Predicate, Transfer
from tidelog.logic.type_inference import Schema
from tidelog.logic.types import Contents, Type, types_of_column
from tidelog.logic.values import ColumnType
from tidelog.records import dataclass

# ---- CSV, TSV and JSON, column by column

_FORMULA = r"^[=+\-@\t\r]"
_NUMBER = r"^[+-]?[0-9]+(\.[0-9]+)?([eE][+-]?[0-9]+)?$"
_IN_JSON_ESCAPED = r'["\\\x00-\x1f]'


def write_delimited(
    stream: IO[bytes], header: Sequence[str] | None, batches: Iterator[Any], delimiter: str, quoting: bool
) -> None:
    """The rows as delimited text, each on a line; only fields that need quotes have them."""
    if header is not None:
        names = [text_array([name]) for name in header]
        write_texts(stream, _delimited_rows(names, delimiter, quoting))
    for batch in batches:
        columns = [as_text(column) for column in batch.columns]
        write_texts(stream, _delimited_rows(columns, delimiter, quoting))


def without_formulas(batch: Any) -> Any:
    """Return the rows as texts, those that a spreadsheet would take for formulas behind a `'`."""
    columns = [as_text(column) for column in batch.columns]
    escaped = []
    for column in columns:
        is_number = pc.match_substring_regex(column, _NUMBER)
        is_formula = pc.and_(pc.match_substring_regex(column, _FORMULA), pc.invert(is_number))
        escaped.append(pc.if_else(is_formula, join_texts("'", column), column))
    return pa.RecordBatch.from_arrays(escaped, names=batch.schema.names)


def _delimited_rows(columns: Sequence[Array], delimiter: str, quoting: bool) -> Array:
    special = f"[{re.escape(delimiter)}\r\n\ufeff" + ('"]' if quoting else "]")
    # A line with nothing on it is no row.
    pattern = special + "|^$" if len(columns) == 1 else special
    fields = [_quoted(column, pattern, quoting) for column in columns]
    rows = join_texts(*fields, separator=delimiter)
    return join_texts(rows, "\n")


def _quoted(column: Array, pattern: str, quoting: bool) -> Array:
    needed = pc.match_substring_regex(column, pattern)
    if not pc.any(needed, min_count=0).as_py():
        return column
    if not quoting:
        text = column.filter(needed)[0].as_py()
        message = f"{text!r} cannot be written without quotes"
        raise DataError(
            Diagnostic(codes.NEEDS_QUOTES, message, help="write with quoting, or choose another delimiter")
        )
    doubled = pc.replace_substring(column, '"', '""')
    return pc.if_else(needed, join_texts('"', doubled, '"'), column)


def write_json(stream: IO[bytes], names: Sequence[str], batches: Iterator[Any], lines: bool) -> None:
    """The rows as JSON objects, one on each line, in an array unless they are JSON lines."""
    first = True
    for batch in batches:
        rows = _json_rows(names, batch)
        if lines:
            write_texts(stream, join_texts(rows, "\n"))
        else:
            texts = join_texts(",\n", rows)
            write_texts(stream, texts, skip=2 if first else 0, before=b"[\n" if first else b"")
        first = False
    if not lines:
        stream.write(b"[]\n" if first else b"\n]\n")


def _json_rows(names: Sequence[str], batch: Any) -> Array:
    parts: list[Any] = []
    for index, (name, field, column) in enumerate(zip(names, batch.schema, batch.columns, strict=True)):
        texts = as_text(column) if is_json(field) else _json_values(column)
        values = pc.fill_null(texts, text_scalar("null"))
        parts += [f"{', ' if index else '{'}{json.dumps(name, ensure_ascii=False)}: ", values]
    return join_texts(*parts, "}")


def _json_values(column: Array) -> Array:
    """The values as JSON: numbers and Booleans as such, infinite numbers and all else as text."""
    text = as_text(column)
    if pa.types.is_integer(column.type) or pa.types.is_boolean(column.type):
        return text
    if pa.types.is_decimal(column.type):  # with a point, by which a decimal is known
        return pc.if_else(pc.match_substring(text, "."), text, join_texts(text, ".0"))
    if pa.types.is_floating(column.type):
        return pc.if_else(pc.is_finite(column), text, join_texts('"', text, '"'))
    special = pc.and_kleene(pc.match_substring_regex(text, _IN_JSON_ESCAPED), pc.is_valid(text))
    if pc.any(special, min_count=0).as_py():
        escaped = [json.dumps(item, ensure_ascii=False)[1:-1] for item in text.filter(special).to_pylist()]
        text = pc.replace_with_mask(text, special, text_array(escaped))
    return join_texts('"', text, '"')


def as_text(column: Array) -> Array:
    """The column as text: itself if it is, else the plain writing of its values."""
    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    if pa.types.is_timestamp(column.type):
        written = pc.strftime(column, "%Y-%m-%dT%H:%M:%SZ" if column.type.tz else "%Y-%m-%dT%H:%M:%S")
        return pc.replace_substring_regex(written, r"(\.[0-9]*[1-9])0*(Z?)$|\.0+(Z?)$", r"\1\2\3")
    if pa.types.is_floating(column.type):
        return pc.replace_substring(column.cast(pa.string()), "inf", "INF")
    if pa.types.is_decimal(column.type):
        return _decimals_as_text(column)
    return column if column.type == pa.string() else column.cast(pa.string())


def _decimals_as_text(column: Array) -> Array:
    """The decimals without needless zeros, and without the exponents that Arrow gives to small ones."""
    text = column.cast(pa.string())
    small = pc.match_substring(text, "E")
    if pc.any(small, min_count=0).as_py():
        digits = [format(Decimal(item), "f") for item in text.filter(small).to_pylist()]
        text = pc.replace_with_mask(text, small, text_array(digits))
    return pc.replace_substring_regex(text, r"(\.[0-9]*[1-9])0+$|\.0+$", r"\1")


def write_texts(stream: IO[bytes], texts: Array, skip: int = 0, before: bytes = b"") -> None:
    """The texts one after the other: they lie so in Arrow's buffer. `skip` bytes of it are left out."""
    if len(texts) == 0:
        return
    stream.write(before)
    offsets = pa.Array.from_buffers(
        pa.int32(), len(texts) + 1, [None, texts.buffers()[1]], offset=texts.offset
    )
    start, end = offsets[0].as_py() + skip, offsets[len(texts)].as_py()
    stream.write(texts.buffers()[2].slice(start, end - start))


# ---- RDF, from columns of N-Triples terms

_ROLES = ("subject", "predicate", "object", "graph")


def write_statements(stream: IO[bytes], name: str, arity: int, batches: Iterator[Any]) -> None:
    """The rows as statements; with four columns, graph first, N-Triples are N-Quads, Turtle is TriG."""
    if arity not in (3, 4):
        message = f"statements of RDF have 3 columns, or 4 with the graph, instead of {arity}"
        raise DataError(
            Diagnostic(codes.NOT_A_STATEMENT, message, help="choose csv, json or another format for tables")
        )
    checked = (
        _checked(_graph_last([as_text(column) for column in batch.columns]), name) for batch in batches
    )
    if name in ("turtle", "trig"):
        _write_turtle(stream, checked)
    elif name in ("ntriples", "nquads"):
        for columns in checked:
            write_texts(stream, _lines(columns))
    else:
        _write_through_pyoxigraph(stream, name, checked)


def _graph_last(columns: list[Array]) -> list[Array]:
    return [*columns[-3:], *columns[:-3]]


def _checked(columns: list[Array], name: str) -> list[Array]:
    """The columns, if they can stand in statements: only objects may be literals, predicates are IRIs.

    What would not be read again as what it is, is refused: labels that are not in the grammar, and for the
    parser of Turtle and other formats IRIs, languages and characters that it does not read, or changes.
    """
    for position, column in enumerate(columns):
        if position == 2:
            continue
        wrong = pc.starts_with(column, '"')
        if position == 1:
            wrong = pc.or_(wrong, pc.starts_with(column, "_:"))
        if pc.any(wrong, min_count=0).as_py():
            message = f"{column.filter(wrong)[0].as_py()} cannot be the {_ROLES[position]} of a statement"
            raise DataError(
                Diagnostic(
                    codes.NOT_A_STATEMENT, message, help="choose csv, json or another format for tables"
                )
            )
    for position, column in enumerate(columns):
        _check_form(column, position, "trig" if name == "turtle" and len(columns) == 4 else name)
    return columns


def _check_form(column: Array, place: int, name: str) -> None:
    """Raise `DataError` for a term that would not be read again as what it is."""
    from tidelog.io.rdf import PYOXIGRAPH_FORMATS, unreadable

    nodes = pc.unique(column.filter(pc.starts_with(column, "_:")))
    refused = nodes.filter(pc.invert(pc.match_substring_regex(nodes, f"^{BLANK}$")))
    term: str | None = refused[0].as_py() if len(refused) else None
    if term is None and name in PYOXIGRAPH_FORMATS:
        distinct = pc.unique(column)
        odd = distinct.filter(pc.invert(pc.match_substring_regex(distinct, _usual(place, name))))
        term = unreadable(odd, place, name) if len(odd) else None
    if term is not None:
        message = f"{term} cannot be read back from {name}"
        help_line = "choose ntriples or nquads, or csv, json or another format for tables"
        raise DataError(Diagnostic(codes.NOT_A_STATEMENT, message, help=help_line))


def _usual(place: int, name: str) -> str:
    """What terms are known to be read again from a format."""
    if name in ("turtle", "trig"):
        return f"{USUAL}|^<{NAME}>$"
    return USUAL_PREDICATE if place == 1 else USUAL


def _lines(columns: list[Array]) -> Array:
    """The statements as N-Triples, or N-Quads where a graph is given."""
    from tidelog.io.rdf import DEFAULT_GRAPH

    statements = join_texts(*columns[:3], separator=" ")
    if len(columns) == 4:
        in_default = pc.equal(columns[3], text_scalar(DEFAULT_GRAPH))
        in_graph = join_texts(statements, " ", columns[3])
        statements = pc.if_else(in_default, statements, in_graph)
    return join_texts(statements, " .\n")


def _write_turtle(stream: IO[bytes], batches: Iterator[list[Array]]) -> None:
    """The statements as Turtle, subjects that follow each other written once; with graphs, as TriG."""
    last: str | None = None
    for columns in batches:
        if len(columns) == 4:
            write_texts(stream, _graph_lines(columns))
            continue
        texts, following = _grouped(columns, last)
        write_texts(stream, texts, skip=len(" .\n") if last is None else 0)
        last = following
    if last is not None:
        stream.write(b" .\n")


def _grouped(columns: list[Array], last: str | None) -> tuple[Array, str | None]:
    """The statements without the end of the last one, and its subject."""
    subject, predicate, object_ = columns
    if len(subject) == 0:
        return subject, last
    repeated = np.empty(len(subject), bool)
    repeated[0] = subject[0].as_py() == last
    repeated[1:] = flags_of(pc.equal(subject.slice(1), subject.slice(0, len(subject) - 1)))
    begun = join_texts(" .\n", subject, " ")
    lead = pc.if_else(mask_of(repeated), text_scalar(" ;\n    "), begun)
    texts = join_texts(lead, predicate, " ", object_)
    return texts, str(subject[len(subject) - 1])


def _graph_lines(columns: list[Array]) -> Array:
    from tidelog.io.rdf import DEFAULT_GRAPH

    statements = join_texts(*columns[:3], separator=" ")
    in_graph = join_texts(columns[3], " { ", statements, " . }\n")
    in_default = join_texts(statements, " .\n")
    return pc.if_else(pc.equal(columns[3], text_scalar(DEFAULT_GRAPH)), in_default, in_graph)


def _write_through_pyoxigraph(stream: IO[bytes], name: str, batches: Iterator[list[Array]]) -> None:
    """The statements as RDF/XML or JSON-LD, all of them at once."""
    from tidelog.io.rdf import PYOXIGRAPH_FORMATS, load_pyoxigraph

    pyoxigraph = load_pyoxigraph(f"writing {name}")
    lines = io.BytesIO()
    for columns in batches:
        write_texts(lines, _lines(columns))
    try:
        quads = pyoxigraph.parse(lines.getvalue(), pyoxigraph.RdfFormat.N_QUADS)
        pyoxigraph.serialize(quads, stream, format=getattr(pyoxigraph.RdfFormat, PYOXIGRAPH_FORMATS[name]))
    except (SyntaxError, ValueError) as error:
        message = f"the statements cannot be written as {name}: {error}"
        raise DataError(Diagnostic(codes.NOT_A_STATEMENT, message)) from None


# ---- writing

_SLICE = 1 << 16


@dataclass(frozen=True)
class WriteOptions:
    """How to write. `compressed` is None to follow the extension `.gz`; `limit` is the most rows to write.

    With `escape_formulas`, fields that a spreadsheet would take for formulas are written behind a `'`.
    """

    header: bool = True
    delimiter: str | None = None
    quoting: bool = True
    compressed: bool | None = None
    limit: int | None = None
    escape_formulas: bool = False


def write(
    target: Path | IO[bytes],
    format_name: str,
    names: Sequence[str],
    tables: Iterable[Any],
    options: WriteOptions | None = None,
) -> int:
    """The number of rows written, those of record batches or tables whose columns have these names, in order.

    Text is written as it stands; for the RDF formats it must be terms of N-Triples. A file is complete or
    absent, its folder is made. A nullary predicate comes as one column `holds`, as `Relation` gives it.
    """
    options = options or WriteOptions()
    counter = _Counter(options.limit)
    name = canonical_format(format_name, target if isinstance(target, Path) else None)
    writer = _writer(name, options)
    batches = counter.batches(tables)
    if name not in _TYPED:
        batches = (batch for batch in batches if batch.num_rows)
    if isinstance(target, Path):
        by_name = is_compressed(target) if options.compressed is None else options.compressed
        with replacing_text(target, by_name) as stream:
            writer(stream, tuple(names), batches)
    else:
        with compressing(target, bool(options.compressed)) as stream:
            writer(stream, tuple(names), batches)
    return counter.rows


Writer = Callable[[IO[bytes], tuple[str, ...], Iterator[Any]], None]


def _writer(name: str, options: WriteOptions) -> Writer:
    if name in DELIMITED:
        delimiter = options.delimiter or ("\t" if name == "tsv" else ",")

        def delimited(stream: IO[bytes], names: tuple[str, ...], batches: Iterator[Any]) -> None:
            rows = map(without_formulas, batches) if options.escape_formulas else batches
            write_delimited(stream, names if options.header else None, rows, delimiter, options.quoting)

        return delimited
    if name in _WRITERS:
        return _WRITERS[name]

    def statements(stream: IO[bytes], names: tuple[str, ...], batches: Iterator[Any]) -> None:
        write_statements(stream, name, len(names), batches)

    return statements


class _Counter:
    """Counts the rows of the batches that pass, and ends them at the limit."""

    def __init__(self, limit: int | None) -> None:
        self.rows = 0
        self._limit = limit

    def batches(self, tables: Iterable[Any]) -> Iterator[Any]:
        """The tables as record batches of few enough rows for one text."""
        for table in tables:
            whole = pa.Table.from_batches([table]) if isinstance(table, pa.RecordBatch) else table
            # A table without rows has a schema all the same.
            batches = whole.to_batches(max_chunksize=_SLICE) or [pa.RecordBatch.from_pylist([], whole.schema)]
            for batch in batches:
                left = batch.num_rows if self._limit is None else self._limit - self.rows
                if left <= 0 < batch.num_rows:
                    return
                part = batch.slice(0, left)
                self.rows += part.num_rows
                yield part


def _write_parquet(stream: IO[bytes], names: tuple[str, ...], batches: Iterator[Any]) -> None:
    import pyarrow.parquet  # takes a while, and few programs need it

    schema, batches = _schema(names, batches)
    with pyarrow.parquet.ParquetWriter(stream, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def _write_arrow(stream: IO[bytes], names: tuple[str, ...], batches: Iterator[Any]) -> None:
    schema, batches = _schema(names, batches)
    with pyarrow.ipc.new_file(stream, schema) as writer:
        for batch in batches:
            writer.write_batch(batch)


def _schema(names: tuple[str, ...], batches: Iterator[Any]) -> tuple[Any, Iterator[Any]]:
    """The schema of the first batch, text if there is none, and the batches with these names."""
    first = next(batches, None)
    if first is None:
        return pa.schema([(name, pa.string()) for name in names]), iter(())
    schema = pa.schema([field.with_name(name) for name, field in zip(names, first.schema, strict=True)])

    def named() -> Iterator[Any]:
        yield pa.RecordBatch.from_arrays(first.columns, schema=schema)
        for batch in batches:
            yield pa.RecordBatch.from_arrays(batch.columns, schema=schema)

    return schema, named()


def _write_json(stream: IO[bytes], names: tuple[str, ...], batches: Iterator[Any]) -> None:
    write_json(stream, names, batches, lines=False)


def _write_json_lines(stream: IO[bytes], names: tuple[str, ...], batches: Iterator[Any]) -> None:
    write_json(stream, names, batches, lines=True)


_TYPED = ("parquet", "arrow")  # a batch without rows says what the columns are
_WRITERS: dict[str, Writer] = {
    "parquet": _write_parquet,
    "arrow": _write_arrow,
    "json": _write_json,
    "jsonl": _write_json_lines,
}


# ---- exports of a program


@dataclass(frozen=True)
class Export:
    """A file to write, standard output if there is no path, and which of the predicate's columns it has."""

    path: Path | None
    format: str
    options: WriteOptions
    columns: tuple[int, ...]


def export_file(transfer: Transfer, predicate: Predicate, output: Path | None = None) -> Export:
    """The file that an export writes; a relative one lies in `output` if that is given, else by the program.

    Without a resource the file is named after the predicate; the empty resource is standard output. Nothing
    is written outside of `output`, unless that is allowed.
    """
    options = TransferOptions(transfer)
    folder = output or transfer.folder
    if "resource" in transfer.options:
        path = transfer_path(transfer, folder)
    else:
        name = file_name(predicate.written, transfer.format, predicate.arity)
        path = (folder or Path()) / (name + ".gz" if options.compressed(None) else name)
    if path is not None:
        path = transfer.sandbox.to_write(path, transfer.span, output)
    types = transfer.types or (ColumnType.ANY,) * predicate.arity
    wanted = tuple(index for index, column_type in enumerate(types) if column_type is not ColumnType.SKIP)
    return Export(path, canonical_format(transfer.format, path), _write_options(options, path), wanted)


def _write_options(options: TransferOptions, path: Path | None) -> WriteOptions:
    return WriteOptions(
        header=options.flag("header", True) and not options.flag("ignore_headers", False),
        delimiter=options.text("delimiter") and options.character("delimiter", ","),
        quoting=options.flag("quoting", True),
        compressed=options.compressed(path),
        limit=options.count("limit"),
        escape_formulas=options.flag("escape_formulas", False),
    )


# ---- relations in the columns of a format

# Types of columns whose values are JSON; those of all others are text.
_IN_JSON: Final = frozenset(
    {ColumnType.ANY, ColumnType.INTEGER, ColumnType.DECIMAL, ColumnType.DOUBLE, ColumnType.BOOLEAN}
)


def file_table(
    relation: Relation,
    format_name: str,
    terms: str | None = None,
    types: Sequence[ColumnType] = (),
    mixed: str = "text",
) -> pa.Table:
    """The rows of a relation as `io.write` takes them for a format.

    `terms` is `plain` for text alone, `exact` for terms of the rule language, or None: each value is read
    again as what it was, in a column of its type; `types` are those of the columns, by default any. With
    `mixed="struct"`, columns of several types are structs where the format has columns of types.
    """
    name = canonical_format(format_name)
    if name in RDF:
        return relation.to_texts("ntriples").table
    schema = _written_schema(relation, types)
    if name not in DELIMITED | JSON:
        schema = with_mixed(schema, mixed)
    if terms == "plain" and name not in DELIMITED:
        return relation.table_of(relation.typed(to_typed, schema))
    if terms is None and name not in DELIMITED | JSON:
        return _typed(relation, schema)
    relation.typed(check, schema)
    if terms is not None:
        return relation.to_texts(terms).table
    return _fields(relation, types) if name in DELIMITED else _json(relation, types)


def _written_schema(relation: Relation, types: Sequence[ColumnType]) -> Schema:
    """What the columns hold: values of the given types, else what is declared or inferred."""
    requested = (*types, *(ColumnType.ANY for _ in relation.contents[len(types) :]))
    found = []
    for contents, kind in zip(relation.contents, requested, strict=False):
        declared = types_of_column(kind)
        is_known = kind is ColumnType.ANY or declared == contents.types - {Type.LITERAL}
        found.append(contents if is_known else Contents(declared, kind.size))
    return tuple(found)


def _fields(relation: Relation, types: Sequence[ColumnType]) -> pa.Table:
    """The rows as texts: fields as Nemo has them, or plain where a type says the rest."""
    table = relation.to_texts("field").table
    for position, column_type in enumerate(types):
        if column_type is not ColumnType.ANY:
            column = relation.to_texts(_form(column_type)).table.column(position)
            table = table.set_column(position, table.column_names[position], column)
    return table


def _form(column_type: ColumnType) -> str:
    return "exact" if column_type is ColumnType.TERM else "plain"


def _json(relation: Relation, types: Sequence[ColumnType]) -> pa.Table:
    """The rows with their values as JSON, or as text where a type says the rest."""
    columns = relation.each(lambda place, *ids: _json_column(_type(types, place), *ids))
    return marked(relation.table_of([column for column, _ in columns]), [mark for _, mark in columns])


def _json_column(column_type: ColumnType, dictionary: Dictionary, ids: Ids) -> tuple[pa.Array, str]:
    if column_type.base in _IN_JSON:
        return decode.to_texts(dictionary, ids, "json"), JSON_TEXT
    return decode.to_texts(dictionary, ids, _form(column_type)), ""


def _typed(relation: Relation, schema: Schema) -> pa.Table:
    """The rows in columns of Arrow's types, those of text with marks that say how it is meant."""
    columns = relation.typed(to_readable, schema)
    marks = ["" if read_as is None else read_as.value for _, read_as in columns]
    return marked(relation.table_of([column for column, _ in columns]), marks)


def _type(types: Sequence[ColumnType], place: int) -> ColumnType:
    return types[place] if place < len(types) else ColumnType.ANY
