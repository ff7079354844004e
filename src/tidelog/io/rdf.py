"""RDF: N-Triples and N-Quads by `ntriples`, all other formats through pyoxigraph, the extra `rdf`.

pyoxigraph parses, and writes N-Quads again, which are taken apart as a file of them would be: no term becomes
a Python object. Labels of blank nodes stay as they are written, so that a file of changes means the nodes of
the file it changes; blank nodes without a label are numbered, within the name of their file.
"""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import IO, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.errors import DataError, Diagnostic
from tidelog.io import codes
from tidelog.io.arrays import Array, integers_of, mask, text_array, text_scalar
from tidelog.io.columns import Batch, Column, column_of_values
from tidelog.io.nesting import JSON_STRINGS, first_too_deep
from tidelog.io.ntriples import DEFAULT_GRAPH, Statements, read_statements, split_statements
from tidelog.io.rejects import BadRow, Faults, OnError
from tidelog.io.source import DataFile
from tidelog.io.xml_checks import check_xml
from tidelog.io.xml_errors import xml_error
from tidelog.logic import terms
from tidelog.logic.values import ColumnType, Value, conform

_CHUNK = 1 << 16
_DEEPEST_JSON = 200  # objects and arrays of JSON-LD within one another
_ROLES = ("subject", "predicate", "object", "graph")
_GRAPH_FIRST = (3, 0, 1, 2)  # the roles of the four columns
# Relative IRIs are names here. The parser wants them resolved, so they are, and back.
_BASE = "tidelog-relative:///"
_ANONYMOUS = re.compile(r"_:[a-f][0-9a-f]{20,31}")
_NOT_IN_XML = re.compile("[\x00-\x08\x0b\x0c\x0e-\x1f\ufffe\uffff]")
_LABEL = re.compile(rb"[a-f][0-9a-f]{20,31}(?![0-9a-f])")
PYOXIGRAPH_FORMATS = {
    "turtle": "TURTLE",
    "trig": "TRIG",
    "rdfxml": "RDF_XML",
    "jsonld": "JSON_LD",
}


def read_rdf(file: DataFile, faults: Faults, threads: int) -> Iterator[Batch]:
    """The statements of an RDF file: subject, predicate, object; with four columns the graph stands first."""
    del threads
    types = file.types if file.types is not None else (ColumnType.ANY,) * 3
    if len(types) not in (3, 4):
        message = f"RDF has 3 columns, or 4 with the graph, instead of {len(types)}"
        raise DataError(Diagnostic(codes.WRONG_WIDTH, message, place=file.shown))
    is_plain = file.format in ("ntriples", "nquads")
    for statements in read_statements(file, faults) if is_plain else _parsed(file, faults):
        batch = _batch(statements, types, file, faults)
        if batch.rows and not faults.failed:
            yield batch


def _parsed(file: DataFile, faults: Faults) -> Iterator[Statements]:
    """The statements of a file as pyoxigraph parses it."""
    pyoxigraph = load_pyoxigraph(f"reading {file.format}", file.shown)
    rename = _Renaming(file)
    with file.open() as opened:
        stream = opened if opened.seekable() else io.BytesIO(opened.read())
        _check(stream, file)
        parser = pyoxigraph.parse(
            stream,
            getattr(pyoxigraph.RdfFormat, PYOXIGRAPH_FORMATS[file.format]),
            base_iri=file.base or _BASE,
        )
        for text in _n_quads(pyoxigraph, parser, file, faults):
            columns = split_statements(text, graphs=True)
            if columns is None:
                raise _not_supported(text, file)
            if _BASE.encode() in text:
                columns = tuple(map(_relative, columns))
            yield Statements(tuple(rename(column) for column in columns), ())


def _relative(column: Array) -> Array:
    """The terms with names and datatypes that were relative IRIs as such again."""
    return pc.replace_substring_regex(column, rf'^((?s:".*"\^\^)?<){_BASE}', r"\1")


def unreadable(terms_of_role: Array, role: int, name: str) -> str | None:
    """The first of some distinct terms that would not be read again from a file of this format, if any."""
    texts: list[str] = terms_of_role.to_pylist()
    if _read_back(texts, role, name) == set(map(_exact, texts)):
        return None
    return next((text for text in texts if _read_back([text], role, name) != {_exact(text)}), texts[0])


def _read_back(texts: Sequence[str], role: int, name: str) -> set[str] | None:
    """The terms that are read from statements with these in a role; None if that fails."""
    if name == "rdfxml" and any(_NOT_IN_XML.search(str(terms.read_exact(text).content)) for text in texts):
        return None
    pyoxigraph = load_pyoxigraph(f"writing {texts[0]} as {name}")
    form = getattr(pyoxigraph.RdfFormat, PYOXIGRAPH_FORMATS[name])
    others = [f"<http://e.org/{letter}>" for letter in ("spog" if role == 3 else "spo")]
    lines = [" ".join([*others[:role], text, *others[role + 1 :]]) + " .\n" for text in texts]
    try:
        if name in ("turtle", "trig"):
            named = [f"{text} {{ {' '.join(others[:3])} . }}\n" for text in texts]
            written = "".join(named if role == 3 else lines).encode()
        else:
            quads = pyoxigraph.parse("".join(lines).encode(), pyoxigraph.RdfFormat.N_QUADS)
            written = pyoxigraph.serialize(quads, format=form)
        parsed = pyoxigraph.parse(written, form, base_iri=_BASE)
        read = pyoxigraph.serialize(parsed, format=pyoxigraph.RdfFormat.N_QUADS)
    except (SyntaxError, ValueError):
        return None
    columns = split_statements(read, graphs=True)
    return None if columns is None else set(map(_exact, _relative(columns[role]).to_pylist()))


def _exact(term: str) -> str:
    return terms.ntriples(terms.read_exact(term))


def _check(stream: IO[bytes], file: DataFile) -> None:
    """Raise `DataError` for what would crash the parser, or never end in it; rewind the stream."""
    if file.format == "rdfxml":
        check_xml(stream, file)
    elif file.format == "jsonld":
        text = stream.read()
        place = first_too_deep(text, _DEEPEST_JSON, JSON_STRINGS)
        if place is not None:
            line, column = text.count(b"\n", 0, place) + 1, place - text.rfind(b"\n", 0, place)
            message = f"the values are nested more than {_DEEPEST_JSON:,} deep"
            raise DataError(Diagnostic(codes.TOO_DEEP, message, place=file.place(line, column)))
    stream.seek(0)


def _n_quads(pyoxigraph: Any, parser: Any, file: DataFile, faults: Faults) -> Iterator[bytes]:
    """What the parser reads, as N-Quads, many statements at a time."""
    # An error loses the statements before it that are being written, which matters only if reading goes on.
    quads = parser if faults.on_error is OnError.FAIL else _recovering(parser, file, faults)
    try:
        while text := pyoxigraph.serialize(islice(quads, _CHUNK), format=pyoxigraph.RdfFormat.N_QUADS):
            yield text
    except SyntaxError as error:
        raise DataError(_syntax_error(error, file)) from None


def load_pyoxigraph(purpose: str, place: str | None = None) -> Any:
    """The package pyoxigraph; raises `DataError` if it is not installed."""
    try:
        import pyoxigraph
    except ImportError:
        message = f"{purpose} needs the package pyoxigraph"
        raise DataError(
            Diagnostic(codes.PACKAGE_MISSING, message, place=place, help="pip install tidelog[rdf]")
        ) from None
    return pyoxigraph


def _recovering(parser: Any, file: DataFile, faults: Faults) -> Iterator[Any]:
    """The parser's quads; after an error it goes on with the next statement it finds, if any."""
    while True:
        try:
            yield from parser
            return
        except SyntaxError as error:
            faults.add(BadRow(_syntax_error(error, file), _source_line(file, error.lineno)))


def _syntax_error(error: SyntaxError, file: DataFile) -> Diagnostic:
    reason = re.sub(r"^Parser error .*?: ", "", error.msg or str(error))
    if file.format == "rdfxml" and file.path is not None:
        return xml_error(reason, file)
    place = file.shown if error.lineno is None else file.place(error.lineno, error.offset)
    return Diagnostic(codes.NOT_RDF, reason, place=place)


def _source_line(file: DataFile, number: int | None) -> str:
    if number is None or file.path is None:
        return ""
    with file.open() as stream:
        line = next(islice(stream, number - 1, None), b"")
    return line.decode("utf-8", "surrogateescape").rstrip("\r\n")


def _not_supported(text: bytes, file: DataFile) -> DataError:
    """The error for a statement of RDF 1.2 that has no values here."""
    lines = text.decode().splitlines(keepends=True)
    odd = next((line for line in lines if split_statements(line.encode(), graphs=True) is None), "")
    message = f"the statement has a term that is not supported: {odd.strip()}"
    return DataError(Diagnostic(codes.NOT_RDF, message, place=file.shown))


class _Renaming:
    """Gives blank nodes without a label their numbers, in the order in which they are met."""

    def __init__(self, file: DataFile) -> None:
        self._scope = re.sub(r"\W+", "_", file.shown, flags=re.ASCII).strip("_")
        self._names: dict[str, str] = {}
        self._file = file

    def __call__(self, column: Array) -> Array:
        if not pc.any(pc.starts_with(column, "_:"), min_count=0).as_py():
            return column
        encoded = column.dictionary_encode()
        renamed = text_array([self._name(term) for term in encoded.dictionary.to_pylist()])
        return renamed.take(encoded.indices)

    def _name(self, term: str) -> str:
        if not _ANONYMOUS.fullmatch(term) or term[2:].encode() in self._labels:
            return term
        return self._names.setdefault(term, f"_:{self._scope}-{len(self._names) + 1}")

    @cached_property
    def _labels(self) -> set[bytes]:
        """What stands in the file that looks like the name of a node without a label."""
        if self._file.path is None:
            return set()
        with self._file.open() as stream:
            return {label for line in stream for label in _LABEL.findall(line)}


def _batch(statements: Statements, types: tuple[ColumnType, ...], file: DataFile, faults: Faults) -> Batch:
    """The wanted columns of the statements, those of a declared type checked."""
    wanted = [index for index, column_type in enumerate(types) if column_type is not ColumnType.SKIP]
    keep = np.ones(len(statements.terms[0]), bool)
    columns: list[Column] = []
    for index in wanted:
        role = index if len(types) == 3 else _GRAPH_FIRST[index]
        column, bad = _typed(_term(statements, role), types[index])
        columns.append(column)
        for row in np.flatnonzero(bad & keep):
            faults.add(_mistyped(statements, int(row), role, types[index], file))
        keep &= ~bad
    if keep.all():
        return Batch(tuple(columns), len(keep))
    kept = Statements(tuple(_texts(term).filter(mask(keep)) for term in statements.terms), ())
    return _batch(kept, types, file, faults)


def _term(statements: Statements, index: int) -> Array:
    """A column of the statements; where no graphs are written, all are in the default graph."""
    if index < len(statements.terms):
        return statements.terms[index]
    return pa.repeat(text_scalar(DEFAULT_GRAPH), len(statements.terms[0]))


def _typed(column: Array, column_type: ColumnType) -> tuple[Column, Any]:
    """The terms as a column of the type, and which of them are not of it."""
    none_bad = np.zeros(len(column), bool)
    if column_type in (ColumnType.ANY, ColumnType.TERM):
        return Column(ColumnType.TERM, column), none_bad
    encoded = _texts(column).dictionary_encode()
    values = [conform(terms.read_exact(term), column_type) for term in encoded.dictionary.to_pylist()]
    bad_values = np.array([value is None for value in values], bool)
    indices = integers_of(encoded.indices)
    if bad_values.any():
        return Column(ColumnType.TERM, column), bad_values[indices]
    found: list[Value] = [value for value in values if value is not None]
    whole = column_of_values(found)
    return Column(whole.type, whole.values.take(encoded.indices)), none_bad


def _texts(column: Array) -> Array:
    """The column as texts of its own: views can neither be filtered nor encoded."""
    return column.cast(pa.string()) if pa.types.is_string_view(column.type) else column


def _mistyped(
    statements: Statements, row: int, index: int, column_type: ColumnType, file: DataFile
) -> BadRow:
    texts = [str(column[row]) for column in statements.terms[:3]]
    message = f"the {_ROLES[index]} {statements.terms[index][row]} is not of type {column_type.value}"
    place = file.place(statements.lines[row]) if statements.lines else file.shown
    return BadRow(Diagnostic(codes.NOT_OF_TYPE, message, place=place), " ".join(texts) + " .")
