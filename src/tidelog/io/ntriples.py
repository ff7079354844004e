"""N-Triples and N-Quads.

Blocks of plain triples are taken apart by `plain_triples`, other statements in the usual form, one space
between terms, by Arrow's kernels, and every distinct term is checked; only blocks with other lines are read
line by line. No package is needed for any of these.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.errors import Diagnostic
from tidelog.io import codes
from tidelog.io.arrays import Array, integers_of, mask, places, text_array, text_scalar
from tidelog.io.columns import all_match
from tidelog.io.fields import survey
from tidelog.io.patterns import IRI, NODE, OBJECT
from tidelog.io.plain_triples import term_views
from tidelog.io.rejects import BadRow, Faults
from tidelog.io.source import DataFile
from tidelog.logic import terms

DEFAULT_GRAPH = "<tag:tidelog:default-graph>"
_BLOCK = 1 << 22
_END = " .\n"
_ANY_IRI = re.compile(r"<[^<>\"{}|^`\x00-\x20]*>")
_ANY_BLANK = re.compile(r"_:[^\x00-\x20<>\"{}|^`\\.]+(?:\.+[^\x00-\x20<>\"{}|^`\\.]+)*")
_ANY_LITERAL = re.compile(r'"(?:[^"\\\n\r]|\\.)*"(?:@[A-Za-z0-9-]+|\^\^<[^<>\x00-\x20]*>)?')
_SPACE = re.compile(r"[ \t]*")
_REST = re.compile(r"[ \t]*\.[ \t]*(?:#.*)?")
_EMPTY = re.compile(r"[ \t]*(?:#.*)?")


@dataclass(frozen=True)
class Statements:
    """Statements as columns of terms, subject, predicate, object and perhaps graph, with their lines."""

    terms: tuple[Array, ...]
    lines: Sequence[int]


def read_statements(file: DataFile, faults: Faults) -> Iterator[Statements]:
    """The statements of an N-Triples or N-Quads file."""
    line = 1
    with file.open() as stream:
        while text := stream.read(_BLOCK):
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
                yield Statements(usual, range(line, line + found.line_feeds))
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
    offsets = integers_of(parts.offsets)
    last = parts.values.take(places(offsets[1:] - 1))
    has_graph = pc.and_(mask(np.diff(offsets) == 2), pc.match_substring_regex(last, f"^{NODE}$"))
    first = parts.values.take(places(offsets[:-1]))
    return pc.if_else(has_graph, first, rest), pc.if_else(has_graph, last, text_scalar(DEFAULT_GRAPH))


def _read_lines(text: bytes, first: int, file: DataFile, faults: Faults) -> Statements:
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
    return Statements(tuple(text_array(column) for column in columns), lines)


class _Fault(Exception):  # noqa: N818 - never leaves this module
    """What is wrong with a line, and the column where it begins to be wrong, counted from 1."""

    def __init__(self, code: str, message: str, column: int) -> None:
        self.code, self.message, self.column = code, message, column


_ROLES = (
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
    for role, patterns in _ROLES:
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
                raise _Fault(codes.NOT_RDF, f"{role} is not well written: {fault}", start + 1) from None
            return match[0], match.end()
    raise _Fault(codes.NOT_RDF, f"{role} is missing or not well written", start + 1)
