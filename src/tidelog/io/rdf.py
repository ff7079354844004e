"""RDF: N-Triples and N-Quads here, all other formats through pyoxigraph; checks of RDF/XML before that."""

from __future__ import annotations

import io
import re
from collections.abc import Iterator, Sequence
from functools import cached_property
from itertools import islice
from typing import IO, Any, NoReturn
from xml.parsers import expat

import numpy as np
import pyarrow as pa

from tidelog.data.arrow import Array, all_match, mask_of, numbers_of, pc, places, text_array, text_scalar
from tidelog.data.columns import Batch, Column, column_of_values
from tidelog.data.text_kernels import IRI, NODE, OBJECT, survey, term_views
from tidelog.errors import DataError, Diagnostic, codes
from tidelog.io.data_file import InputFile
from tidelog.io.json_files import JSON_STRINGS, Elements, first_too_deep
from tidelog.io.rejects import BadRow, OnError, RejectedRows
from tidelog.logic import conversions as terms
from tidelog.logic.values import ColumnType, Value, conform
from tidelog.records import dataclass

# ---- N-Triples and N-Quads
#
# Blocks of plain triples are split by `data.text_kernels`, other statements in the usual form, one space
# between terms, by Arrow's kernels, and every distinct term is checked; only blocks with other lines are read
# line by line. No package is needed for any of these.

DEFAULT_GRAPH = "<tag:tidelog:default-graph>"
_LINES_BLOCK = 1 << 22
_END = " .\n"
_ANY_IRI = re.compile(r"<[^<>\"{}|^`\x00-\x20]*>")
_ANY_BLANK = re.compile(r"_:[^\x00-\x20<>\"{}|^`\\.]+(?:\.+[^\x00-\x20<>\"{}|^`\\.]+)*")
_ANY_LITERAL = re.compile(r'"(?:[^"\\\n\r]|\\.)*"(?:@[A-Za-z0-9-]+|\^\^<[^<>\x00-\x20]*>)?')
_SPACE = re.compile(r"[ \t]*")
_REST = re.compile(r"[ \t]*\.[ \t]*(?:#.*)?")
_EMPTY = re.compile(r"[ \t]*(?:#.*)?")


@dataclass(frozen=True)
class RdfStatements:
    """Statements as columns of terms, subject, predicate, object and perhaps graph, with their lines."""

    terms: tuple[Array, ...]
    lines: Sequence[int]


def read_statements(file: InputFile, faults: RejectedRows) -> Iterator[RdfStatements]:
    """The statements of an N-Triples or N-Quads file."""
    line = 1
    with file.open() as stream:
        while text := stream.read(_LINES_BLOCK):
            text += stream.readline()
            if not text.endswith(b"\n"):
                text += b"\n"
            if b"\r" in text:
                text = text.replace(b"\r\n", b"\n")
            found = survey(text)
            usual = None if file.format == "nquads" else term_views(text, found)
            usual = usual or split_statements(text, file.format == "nquads")
            if usual is None:
                yield _read_lines(text, line, file, faults)
            else:
                yield RdfStatements(usual, range(line, line + found.line_feeds))
            line += found.line_feeds


def split_statements(text: bytes, graphs: bool) -> tuple[Array, ...] | None:
    """The columns of lines that all have the usual form, None if some line has another."""
    ends = np.flatnonzero(np.frombuffer(text, np.uint8) == ord("\n"))
    offsets = np.zeros(len(ends) + 1, np.int32)
    offsets[1:] = ends + 1
    lines = pa.StringArray.from_buffers(len(ends), pa.py_buffer(offsets), pa.py_buffer(text))
    try:
        lines.validate(full=True)  # UTF-8
    except pa.ArrowInvalid:
        return None
    parts = pc.split_pattern(lines, " ", max_splits=2)
    if len(parts.values) != 3 * len(lines) or not pc.all(pc.ends_with(lines, _END)).as_py():
        return None
    subject, predicate, rest = (parts.values.take(places(np.arange(i, 3 * len(lines), 3))) for i in range(3))
    rest = pc.binary_slice(rest.cast(pa.binary()), 0, -len(_END)).cast(pa.string())
    columns = (subject, predicate, *(_split_graph(rest) if graphs else (rest,)))
    forms = (NODE, IRI, OBJECT, NODE)
    fine = all(
        all_match(pc.unique(column), f"^{form}$") for column, form in zip(columns, forms, strict=False)
    )
    return columns if fine else None


def _split_graph(rest: Array) -> tuple[Array, Array]:
    """Objects and graphs: only a graph can be a node after the last space, for a literal ends otherwise."""
    parts = pc.split_pattern(rest, " ", max_splits=1, reverse=True)
    offsets = numbers_of(parts.offsets, "int32")
    last = parts.values.take(places(offsets[1:] - 1))
    has_graph = pc.and_(mask_of(np.diff(offsets) == 2), pc.match_substring_regex(last, f"^{NODE}$"))
    first = parts.values.take(places(offsets[:-1]))
    return pc.if_else(has_graph, first, rest), pc.if_else(has_graph, last, text_scalar(DEFAULT_GRAPH))


def _read_lines(text: bytes, first: int, file: InputFile, faults: RejectedRows) -> RdfStatements:
    """The statements of a block read line by line; lines that are none are given to `faults`."""
    found: list[tuple[str, ...]] = []
    lines: list[int] = []
    for number, raw in enumerate(text.removesuffix(b"\n").split(b"\n"), first):
        try:
            statement = _read_line(raw, file.format == "nquads")
        except _Fault as fault:
            diagnostic = Diagnostic(fault.code, fault.message, place=file.place(number, fault.column))
            faults.add(BadRow(diagnostic, raw.decode("utf-8", "surrogateescape")))
            continue
        if statement is not None:
            found.append(statement)
            lines.append(number)
    columns = zip(*found, strict=True) if found else ((), (), (), ())
    return RdfStatements(tuple(text_array(column) for column in columns), lines)


class _Fault(Exception):  # noqa: N818 - never leaves this module
    """What is wrong with a line, and the column where it begins to be wrong, counted from 1."""

    def __init__(self, code: str, message: str, column: int) -> None:
        self.code, self.message, self.column = code, message, column


_LINES_ROLES = (
    ("the subject", (_ANY_IRI, _ANY_BLANK)),
    ("the predicate", (_ANY_IRI,)),
    ("the object", (_ANY_IRI, _ANY_BLANK, _ANY_LITERAL)),
)


def _read_line(raw: bytes, graphs: bool) -> tuple[str, str, str, str] | None:
    """Subject, predicate, object and graph of a line, None if it is empty or a comment; raises `_Fault`."""
    try:
        line = raw.decode()
    except UnicodeDecodeError as fault:
        raise _Fault(codes.NOT_UTF_8, "the text is not UTF-8", fault.start + 1) from None
    if _EMPTY.fullmatch(line):
        return None
    found: list[str] = []
    position = 0
    for role, patterns in _LINES_ROLES:
        term, position = _read_term(line, position, role, patterns)
        found.append(term)
    graph = DEFAULT_GRAPH
    if graphs and line[_after_space(line, position) :][:1] in ("<", "_"):
        graph, position = _read_term(line, position, "the graph", (_ANY_IRI, _ANY_BLANK))
    if not _REST.fullmatch(line, position):
        raise _Fault(codes.NOT_RDF, "the statement does not end with a dot", _after_space(line, position) + 1)
    return found[0], found[1], found[2], graph


def _after_space(line: str, position: int) -> int:
    space = _SPACE.match(line, position)
    return space.end() if space else position


def _read_term(line: str, position: int, role: str, patterns: Sequence[re.Pattern[str]]) -> tuple[str, int]:
    """The term that one of the patterns finds after the space at `position`, and where it ends."""
    start = _after_space(line, position)
    for pattern in patterns:
        match = pattern.match(line, start)
        if match:
            try:
                terms.read_exact(match[0])
            except ValueError as fault:
                raise _Fault(codes.NOT_RDF, f"{role} is malformed: {fault}", start + 1) from None
            return match[0], match.end()
    raise _Fault(codes.NOT_RDF, f"{role} is missing or malformed", start + 1)


# ---- checks of RDF/XML before it is parsed
#
# Only a file that declares a document type, or that may be nested too deeply, is read by the parser of XML
# too.

MOST_ENTITIES = 1_000
LONGEST_ENTITY = 2_000  # characters of its replacement: entities abbreviate IRIs
DEEPEST = 10_000  # elements within one another
_BLOCK = 1 << 20
_DOCTYPE = re.compile(rb"<!doctype", re.IGNORECASE)
_REFERENCE = re.compile(r"&([^#;&][^;&]*);")
_PREDEFINED = frozenset({"lt", "gt", "amp", "apos", "quot"})


def check_xml(stream: IO[bytes], file: InputFile) -> None:
    """Raise `DataError` for entities and depths of RDF/XML that must not reach the parser of RDF."""
    elements = Elements()
    end = b""
    while block := stream.read(_BLOCK):
        if elements.deepest(block) > DEEPEST or _DOCTYPE.search(end + block):
            stream.seek(0)
            _Checker(file).check(stream)
            return
        end = (end + block)[-len(b"<!doctype") :]


class _Checker:
    """Reads XML to its end, and stops at a declaration or an element that is refused."""

    def __init__(self, file: InputFile) -> None:
        self._file = file
        self._parser = expat.ParserCreate()
        self._parser.EntityDeclHandler = self._declare
        self._parser.StartElementHandler = self._open
        self._parser.EndElementHandler = self._close
        self._lengths: dict[str, int] = dict.fromkeys(_PREDEFINED, 1)
        self._depth = 0

    def check(self, stream: IO[bytes]) -> None:
        """Raise `DataError` for the first thing that is refused."""
        try:
            self._parser.ParseFile(stream)
        except expat.ExpatError as error:
            message = f"not well-formed XML: {expat.ErrorString(error.code)}"
            place = self._file.place(error.lineno, error.offset + 1)
            raise DataError(Diagnostic(codes.NOT_RDF, message, place=place)) from None

    def _open(self, _name: str, _attributes: object) -> None:
        self._depth += 1
        if self._depth > DEEPEST:
            self._refuse(codes.TOO_DEEP, f"the elements are nested more than {DEEPEST:,} deep")

    def _close(self, _name: str) -> None:
        self._depth -= 1

    def _declare(
        self, name: str, is_parameter: bool, value: str | None, _base: object, *_external: object
    ) -> None:
        if is_parameter or value is None:
            kind = "a parameter entity" if is_parameter else "an external entity"
            self._refuse(codes.ENTITIES, f"`{name}` is {kind}")
        length = len(value) + sum(self._length(found) for found in _REFERENCE.findall(value))
        if length > LONGEST_ENTITY:
            limit = f"{LONGEST_ENTITY:,} characters"
            self._refuse(codes.ENTITIES, f"the entity `{name}` expands to more than {limit}")
        self._lengths.setdefault(name, length)
        if len(self._lengths) > MOST_ENTITIES + len(_PREDEFINED):
            self._refuse(codes.ENTITIES, f"the file declares more than {MOST_ENTITIES:,} entities")

    def _length(self, name: str) -> int:
        """Return the length of an entity that another one refers to; it must be declared before."""
        if name not in self._lengths:
            self._refuse(codes.ENTITIES, f"the entity `{name}` is used before it is declared")
        return self._lengths[name]

    def _refuse(self, code: str, reason: str) -> NoReturn:
        place = self._file.place(self._parser.CurrentLineNumber, self._parser.CurrentColumnNumber + 1)
        help_line = "write the file without it: entities may only abbreviate IRIs and texts"
        help_line = "save the file as Turtle" if code == codes.TOO_DEEP else help_line
        raise DataError(Diagnostic(code, f"RDF/XML is refused: {reason}", place=place, help=help_line))


# ---- what is wrong with files that should be RDF/XML

_BEGINNING = 1 << 12  # bytes in which the language of a file is found
_NOT_RDF_XML = (
    (re.compile(r"^\s*(?:#.*\n\s*)*(?:Prefix|Ontology)\s*\("), "OWL's functional syntax"),
    (re.compile(r"^\s*(?:#.*\n\s*)*(?:Prefix|Ontology):"), "OWL's Manchester syntax"),
    (re.compile(r"<Ontology\s[^>]*xmlns=\"http://www\.w3\.org/2002/07/owl#\""), "OWL/XML"),
    (re.compile(r"^\s*(?:#.*\n\s*)*@?(?:prefix|base)\s", re.IGNORECASE), "Turtle"),
)
_SAVE = "save the ontology as RDF/XML or Turtle, for instance with Protégé or ROBOT"
_HELP = {"Turtle": "let its name end with `.ttl`"}


def xml_error(reason: str, file: InputFile) -> Diagnostic:
    """What is wrong with a file of RDF/XML, and where: the parser of RDF does not say, that of XML does."""
    with file.open() as stream:
        beginning = stream.read(_BEGINNING).decode("utf-8", "replace")
    for pattern, language in _NOT_RDF_XML:
        if pattern.search(beginning):
            message = f"the file is {language}, not RDF/XML"
            return Diagnostic(codes.NOT_RDF, message, place=file.shown, help=_HELP.get(language, _SAVE))
    with file.open() as stream:
        try:
            expat.ParserCreate(namespace_separator=" ").ParseFile(stream)
        except expat.ExpatError as error:
            return Diagnostic(codes.NOT_RDF, reason, place=file.place(error.lineno, error.offset + 1))
    return Diagnostic(codes.NOT_RDF, reason, place=_place_of_name(reason, file))


def _place_of_name(reason: str, file: InputFile) -> str:
    """Where well-formed XML first has the name that a reason begins with, if it does."""
    local = re.match(r"\S*[#/](\w+) ", reason)
    with file.open() as stream:
        for number, line in enumerate(stream, 1):
            column = line.find(f":{local[1]}".encode()) if local else -1
            if column >= 0:
                return file.place(number, column + 2)
    return file.shown


# ---- RDF
#
# pyoxigraph parses, and writes N-Quads again, which are taken apart as a file of them would be: no term
# becomes a Python object. Labels of blank nodes stay as they are written, so that a file of changes means the
# nodes of the file it changes; blank nodes without a label are numbered, within the name of their file.

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


def read_rdf(file: InputFile, faults: RejectedRows, threads: int) -> Iterator[Batch]:
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


def _parsed(file: InputFile, faults: RejectedRows) -> Iterator[RdfStatements]:
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
            yield RdfStatements(tuple(rename(column) for column in columns), ())


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


def _check(stream: IO[bytes], file: InputFile) -> None:
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


def _n_quads(pyoxigraph: Any, parser: Any, file: InputFile, faults: RejectedRows) -> Iterator[bytes]:
    """What the parser reads, as N-Quads, many statements at a time."""
    # An error loses the statements before it that are being written, which matters only if reading continues.
    quads = parser if faults.on_error is OnError.FAIL else _recovering(parser, file, faults)
    try:
        while text := pyoxigraph.serialize(islice(quads, _CHUNK), format=pyoxigraph.RdfFormat.N_QUADS):
            yield text
    except SyntaxError as error:
        raise DataError(_syntax_error(error, file)) from None


def load_pyoxigraph(purpose: str, place: str | None = None) -> Any:
    """Return the package pyoxigraph; raise `DataError` if it is not installed."""
    try:
        import pyoxigraph
    except ImportError:
        message = f"{purpose} needs the package pyoxigraph"
        raise DataError(
            Diagnostic(codes.PACKAGE_MISSING, message, place=place, help="pip install tidelog[rdf]")
        ) from None
    return pyoxigraph


def _recovering(parser: Any, file: InputFile, faults: RejectedRows) -> Iterator[Any]:
    """The parser's quads; after an error it continues with the next statement that it finds, if any."""
    while True:
        try:
            yield from parser
            return
        except SyntaxError as error:
            faults.add(BadRow(_syntax_error(error, file), _source_line(file, error.lineno)))


def _syntax_error(error: SyntaxError, file: InputFile) -> Diagnostic:
    reason = re.sub(r"^Parser error .*?: ", "", error.msg or str(error))
    if file.format == "rdfxml" and file.path is not None:
        return xml_error(reason, file)
    place = file.shown if error.lineno is None else file.place(error.lineno, error.offset)
    return Diagnostic(codes.NOT_RDF, reason, place=place)


def _source_line(file: InputFile, number: int | None) -> str:
    if number is None or file.path is None:
        return ""
    with file.open() as stream:
        line = next(islice(stream, number - 1, None), b"")
    return line.decode("utf-8", "surrogateescape").rstrip("\r\n")


def _not_supported(text: bytes, file: InputFile) -> DataError:
    """The error for a statement of RDF 1.2 that has no values here."""
    lines = text.decode().splitlines(keepends=True)
    odd = next((line for line in lines if split_statements(line.encode(), graphs=True) is None), "")
    message = f"the statement has a term that is not supported: {odd.strip()}"
    return DataError(Diagnostic(codes.NOT_RDF, message, place=file.shown))


class _Renaming:
    """Gives blank nodes without a label their numbers, in the order in which they are met."""

    def __init__(self, file: InputFile) -> None:
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


def _batch(
    statements: RdfStatements, types: tuple[ColumnType, ...], file: InputFile, faults: RejectedRows
) -> Batch:
    """The required columns of the statements, those of a declared type checked."""
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
    kept = RdfStatements(tuple(_texts(term).filter(mask_of(keep)) for term in statements.terms), ())
    return _batch(kept, types, file, faults)


def _term(statements: RdfStatements, index: int) -> Array:
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
    indices = numbers_of(encoded.indices, "int32")
    if bad_values.any():
        return Column(ColumnType.TERM, column), bad_values[indices]
    found: list[Value] = [value for value in values if value is not None]
    whole = column_of_values(found)
    return Column(whole.type, whole.values.take(encoded.indices)), none_bad


def _texts(column: Array) -> Array:
    """The column as texts of its own: views can neither be filtered nor encoded."""
    return column.cast(pa.string()) if pa.types.is_string_view(column.type) else column


def _mistyped(
    statements: RdfStatements, row: int, index: int, column_type: ColumnType, file: InputFile
) -> BadRow:
    texts = [str(column[row]) for column in statements.terms[:3]]
    message = f"the {_ROLES[index]} {statements.terms[index][row]} is not of type {column_type.value}"
    place = file.place(statements.lines[row]) if statements.lines else file.shown
    return BadRow(Diagnostic(codes.NOT_OF_TYPE, message, place=place), " ".join(texts) + " .")
