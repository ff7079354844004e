"""RDF, written from columns of N-Triples terms: perhaps graph, then subject, predicate, object."""

from __future__ import annotations

import io
from collections.abc import Iterator
from typing import IO, Any

import numpy as np
import pyarrow.compute as pc

from tidelog.errors import DataError, Diagnostic
from tidelog.io import codes
from tidelog.io.arrays import Array, flags_of, joined, mask, text_scalar
from tidelog.io.ntriples import DEFAULT_GRAPH
from tidelog.io.patterns import BLANK, NAME, USUAL, USUAL_PREDICATE
from tidelog.io.rdf import PYOXIGRAPH_FORMATS, load_pyoxigraph, unreadable
from tidelog.io.write_text import as_text, write_texts

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
    for place, column in enumerate(columns):
        if place == 2:
            continue
        wrong = pc.starts_with(column, '"')
        if place == 1:
            wrong = pc.or_(wrong, pc.starts_with(column, "_:"))
        if pc.any(wrong, min_count=0).as_py():
            message = f"{column.filter(wrong)[0].as_py()} cannot be the {_ROLES[place]} of a statement"
            raise DataError(
                Diagnostic(
                    codes.NOT_A_STATEMENT, message, help="choose csv, json or another format for tables"
                )
            )
    for place, column in enumerate(columns):
        _check_form(column, place, "trig" if name == "turtle" and len(columns) == 4 else name)
    return columns


def _check_form(column: Array, place: int, name: str) -> None:
    """Raise `DataError` for a term that would not be read again as what it is."""
    nodes = pc.unique(column.filter(pc.starts_with(column, "_:")))
    refused = nodes.filter(pc.invert(pc.match_substring_regex(nodes, f"^{BLANK}$")))
    term: str | None = refused[0].as_py() if len(refused) else None
    if term is None and name in PYOXIGRAPH_FORMATS:
        distinct = pc.unique(column)
        odd = distinct.filter(pc.invert(pc.match_substring_regex(distinct, _usual(place, name))))
        term = unreadable(odd, place, name) if len(odd) else None
    if term is not None:
        message = f"{term} would not be read again from {name}"
        help_line = "choose ntriples or nquads, or csv, json or another format for tables"
        raise DataError(Diagnostic(codes.NOT_A_STATEMENT, message, help=help_line))


def _usual(place: int, name: str) -> str:
    """What terms are known to be read again from a format."""
    if name in ("turtle", "trig"):
        return f"{USUAL}|^<{NAME}>$"
    return USUAL_PREDICATE if place == 1 else USUAL


def _lines(columns: list[Array]) -> Array:
    """The statements as N-Triples, or N-Quads where a graph is given."""
    statements = joined(*columns[:3], separator=" ")
    if len(columns) == 4:
        in_default = pc.equal(columns[3], text_scalar(DEFAULT_GRAPH))
        in_graph = joined(statements, " ", columns[3])
        statements = pc.if_else(in_default, statements, in_graph)
    return joined(statements, " .\n")


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
    begun = joined(" .\n", subject, " ")
    lead = pc.if_else(mask(repeated), text_scalar(" ;\n    "), begun)
    texts = joined(lead, predicate, " ", object_)
    return texts, str(subject[len(subject) - 1])


def _graph_lines(columns: list[Array]) -> Array:
    statements = joined(*columns[:3], separator=" ")
    in_graph = joined(columns[3], " { ", statements, " . }\n")
    in_default = joined(statements, " .\n")
    return pc.if_else(pc.equal(columns[3], text_scalar(DEFAULT_GRAPH)), in_default, in_graph)


def _write_through_pyoxigraph(stream: IO[bytes], name: str, batches: Iterator[list[Array]]) -> None:
    """The statements as RDF/XML or JSON-LD, all of them at once."""
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
