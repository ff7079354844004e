"""SPARQL 1.1 over triples, through pyoxigraph: the text of queries, and their answers."""

from __future__ import annotations

import io
import re
from collections.abc import Iterable, Iterator, Sequence
from itertools import islice, pairwise
from typing import IO, Any, Final

import pyarrow as pa

from tidelog.data.arrow import Array, join_texts, pc
from tidelog.errors import Diagnostic, ProgramError, SourceText, Span, codes, suggest
from tidelog.io.delimited import ChangedLines
from tidelog.io.rdf import load_pyoxigraph
from tidelog.io.write import write_statements

# ---- text of SPARQL queries
#
# The parser reports where it stopped and a long list of words that it expected there. The actual mistake is
# mostly found in the tokens alone.

FORMS: Final = ("SELECT", "ASK", "CONSTRUCT", "DESCRIBE")
UPDATES: Final = ("INSERT", "DELETE", "LOAD", "CLEAR", "CREATE", "DROP", "COPY", "MOVE", "ADD", "WITH")
_CLOSING: Final = {"(": ")", "{": "}", "[": "]"}
_OPERATORS: Final = frozenset({"=", "!=", "<", ">", "<=", ">=", "&&", "||"})
# The parser recurses over brackets, and over the parts of a group or an expression: too many end the process.
DEEPEST: Final = 100
MOST_PARTS: Final = 500
_PARTS: Final = frozenset(
    {"FILTER", "BIND", "OPTIONAL", "UNION", "MINUS", "GRAPH", "||", "&&", *"{.;,+*/!-"},
)
_TOKEN: Final = re.compile(
    r"""
      (?P<space> \s+ | \#[^\n]* )
    | (?P<iri> <[^<>"{}|^`\\\s]*> )
    | (?P<string> \"{3}(?:[^"\\]|\\.|"(?!""))*+\"{3} | '{3}(?:[^'\\]|\\.|'(?!''))*+'{3}
        | "(?:[^"\\\n]|\\.)*+" | '(?:[^'\\\n]|\\.)*+' )
    | (?P<variable> [?$]\w+ )
    | (?P<blank> _:[\w.-]*\w )
    | (?P<prefixed> (?:[^\W\d_][\w.-]*+)?:(?:[\w:%-](?:[\w.:%-]*[\w:%-])?)? )
    | (?P<word> @?[^\W\d][\w-]* )
    | (?P<number> \d+(?:\.\d+)?(?:[eE][+-]?\d+)? )
    | (?P<symbol> && | \|\| | [!<>]= | \^\^ | . )
    """,
    re.VERBOSE | re.DOTALL,
)
_START: Final = re.compile(r"[\"']")
_PLACE: Final = re.compile(r"at (\d+):(\d+)")

Token = tuple[str, str, int]  # kind, text, place


def tokens(text: str) -> Iterator[Token]:
    """Yield the tokens of a query, without blanks and comments."""
    for found in _TOKEN.finditer(text):
        if found.lastgroup != "space":
            yield str(found.lastgroup), found[0], found.start()


def check_size(text: str) -> None:
    """Raise `ProgramError` if the query is no text, is nested too deeply, or has too many parts."""
    source = SourceText("<query>", text)
    surrogate = re.search("[\ud800-\udfff]", text)
    if surrogate is not None:
        span = Span(source, surrogate.start(), surrogate.end())
        raise ProgramError(Diagnostic(codes.NOT_SPARQL, "the query is not SPARQL: it is not UTF-8", span))
    message = f"the query is nested more than {DEEPEST} deep"
    place = _first_too_deep(text)
    if place is None:
        message = f"the query has more than {MOST_PARTS} patterns and operators"
        place = next(islice(_parts(text), MOST_PARTS, None), None)
    if place is not None:
        help_line = "give terms by VALUES or IN, or ask several queries"
        raise ProgramError(Diagnostic(codes.TOO_DEEP, message, Span(source, place, place + 1), help_line))


def _first_too_deep(text: str) -> int | None:
    depth = 0
    for _, token, place in tokens(text):
        depth += (token in _CLOSING) - (token in _CLOSING.values())
        if depth > DEEPEST:
            return place
    return None


def _parts(text: str) -> Iterator[int]:
    """Yield where the patterns and operators of a query stand; a comma in parentheses is one of a list."""
    depth = 0
    for _, token, place in tokens(text):
        depth += (token == "(") - (token == ")")
        if token.upper() in _PARTS and not (token == "," and depth):
            yield place


def with_named_columns(text: str, names: Sequence[str]) -> str:
    """Return a valid query with the star of its `SELECT *` replaced by its columns, in the order of the text.

    >>> with_named_columns("SELECT * WHERE { ?s ?p ?o }", ["o", "p", "s"])
    'SELECT ?s ?p ?o WHERE { ?s ?p ?o }'
    """
    listed = list(tokens(text))
    words = [token.upper() for _, token, _ in listed]
    if "SELECT" not in words:
        return text
    star = words.index("SELECT") + 1
    star += words[star] in ("DISTINCT", "REDUCED")
    if words[star] != "*":
        return text
    place = listed[star][2]
    order = dict.fromkeys(token[1:] for kind, token, _ in listed if kind == "variable" and token[1:] in names)
    return f"{text[:place]}{' '.join(f'?{name}' for name in order)}{text[place + 1 :]}" if order else text


def syntax_error(text: str, message: str) -> Diagnostic:
    """Return what is wrong with a query that the parser refused with a message."""
    source = SourceText("<query>", text)
    listed = list(tokens(text))
    found = _wrong_form(listed) or _open_string(listed) or _undeclared(listed) or _unbalanced(listed)
    found = found or _missing_operand(listed) or _stopped(source, listed, message)
    reason, help, place, length = found
    return Diagnostic(
        codes.NOT_SPARQL, f"the query is not SPARQL: {reason}", Span(source, place, place + length), help=help
    )


_Fault = tuple[str, str | None, int, int]  # reason, help, place, length


def _wrong_form(listed: list[Token]) -> _Fault | None:
    """Return the fault of a query that does not begin as one, after its prefixes."""
    rest = iter(listed)
    for _, text, place in rest:
        match text.upper():
            case "PREFIX":
                next(rest, None)
                next(rest, None)
            case "BASE":
                next(rest, None)
            case word if word in FORMS:
                return None
            case word if word in UPDATES:
                help = "facts are changed by change scripts: `tidelog stream` applies them"
                return f"`{text}` is an update, and only queries are answered", help, place, len(text)
            case word:
                expected = "a query begins with SELECT, ASK, CONSTRUCT or DESCRIBE"
                return f"`{text}` does not begin a query", suggest(word, FORMS) or expected, place, len(text)
    return "it is empty", "a query begins with SELECT, ASK, CONSTRUCT or DESCRIBE", 0, 0


def _open_string(listed: list[Token]) -> _Fault | None:
    for kind, text, place in listed:
        if kind == "symbol" and _START.match(text):
            return "a string is not closed", None, place, 1
    return None


def _undeclared(listed: list[Token]) -> _Fault | None:
    declared: set[str] = set()
    before = ""
    for kind, text, place in listed:
        if kind == "prefixed":
            prefix = text.partition(":")[0]
            if before.upper() == "PREFIX":
                declared.add(prefix)
            elif prefix not in declared:
                help = f"begin the query with `PREFIX {prefix}: <…>`"
                return f"the prefix `{prefix}:` is not declared", help, place, len(text)
        before = text
    return None


def _unbalanced(listed: list[Token]) -> _Fault | None:
    waiting: list[tuple[str, int]] = []
    for kind, text, place in listed:
        if kind != "symbol":
            continue
        if text in _CLOSING:
            waiting.append((text, place))
        elif text in _CLOSING.values():
            if not waiting or _CLOSING[waiting[-1][0]] != text:
                return f"`{text}` has no opening bracket", None, place, 1
            waiting.pop()
    if not waiting:
        return None
    text, place = waiting[-1]
    return f"`{text}` is not closed", f"a `{_CLOSING[text]}` is missing", place, 1


def _missing_operand(listed: list[Token]) -> _Fault | None:
    for (_, text, place), (_, after, _) in pairwise(listed):
        if text in _OPERATORS and after in (")", "}", "]", ",", *_OPERATORS):
            return f"a value is missing after `{text}`", None, place, len(text)
    return None


def _stopped(source: SourceText, listed: list[Token], message: str) -> _Fault:
    """Return the token before which the parser stopped, as far as it says so."""
    found = _PLACE.search(message)
    if found is None:
        return message, None, 0, len(source.text)
    starts = source.line_starts
    stop = starts[min(int(found[1]), len(starts)) - 1] + int(found[2]) - 1
    before = [token for token in listed if token[2] <= stop]
    _, text, place = before[-1]
    return f"syntax error near `{text}`", None, place, len(text)


# ---- SPARQL 1.1 over triples

# Names are relative IRIs here. The store wants them resolved, so they are, and back.
BASE: Final = "tidelog-relative:///"
_ABSOLUTE: Final = r"^<[A-Za-z][A-Za-z0-9+.-]*:"


class SparqlStore:
    """Statements that SPARQL queries read, all inserted at once: a label then means one blank node."""

    def __init__(self, tables: Iterable[pa.Table]) -> None:
        """Put in tables of N-Triples terms, of three columns, or four with the graph."""
        self._pyoxigraph = load_pyoxigraph("SPARQL")
        self._store = self._pyoxigraph.Store()
        lines = io.BytesIO()
        for table in tables:
            write_statements(lines, "nquads", table.num_columns, map(_absolute, table.to_batches()))
        lines.seek(0)
        self._store.bulk_load(lines, self._pyoxigraph.RdfFormat.N_QUADS)

    def query(self, text: str) -> Answer:
        """Return the answer; raise `ProgramError` with the place if the query is not well written.

        The columns of `SELECT *` are in the order in which the query names them.
        """
        check_size(text)
        try:
            found = self._store.query(text, base_iri=BASE)
            if isinstance(found, self._pyoxigraph.QuerySolutions):
                named = with_named_columns(text, [variable.value for variable in found.variables])
                found = self._store.query(named, base_iri=BASE) if named != text else found
        except SyntaxError as error:
            raise ProgramError(syntax_error(text, str(error.msg or error))) from None
        return Answer(self._pyoxigraph, found)


class Answer:
    """The answer to a query: rows, a truth value or triples. It can be read once."""

    def __init__(self, pyoxigraph: Any, found: Any) -> None:
        self._pyoxigraph = pyoxigraph
        self._found = found

    @property
    def is_truth(self) -> bool:
        """Whether the query was ASK."""
        return isinstance(self._found, self._pyoxigraph.QueryBoolean)

    @property
    def is_graph(self) -> bool:
        """Whether the query was CONSTRUCT or DESCRIBE."""
        return isinstance(self._found, self._pyoxigraph.QueryTriples)

    def __bool__(self) -> bool:
        return bool(self._found)

    @property
    def columns(self) -> tuple[str, ...]:
        """The names of the variables."""
        return tuple(variable.value for variable in self._found.variables)

    def __iter__(self) -> Iterator[tuple[str, ...]]:
        """The rows as plain texts, empty where a variable has no value."""
        for row in self._found:
            yield tuple("" if term is None else str(term.value).removeprefix(BASE) for term in row)

    def write(self, stream: IO[bytes], format_name: str) -> None:
        """Write the answer as it is found: rows as `csv`, `tsv` or `json`, triples as `nt` or `ttl`."""
        kind = self._pyoxigraph.RdfFormat if self.is_graph else self._pyoxigraph.QueryResultsFormat
        name = {"nt": "N_TRIPLES", "ttl": "TURTLE"}.get(format_name, format_name.upper())
        lines = ChangedLines(stream, lambda text: text.replace(BASE.encode(), b""))
        self._found.serialize(lines, format=getattr(kind, name))


def _absolute(batch: pa.RecordBatch) -> pa.RecordBatch:
    """The batch with names made absolute."""
    return pa.RecordBatch.from_arrays([_resolved(column) for column in batch.columns], batch.schema.names)


def _resolved(column: Array) -> Array:
    is_name = pc.and_(pc.starts_with(column, "<"), pc.invert(pc.match_substring_regex(column, _ABSOLUTE)))
    if not pc.any(is_name, min_count=0).as_py():
        return column
    column = column.cast(pa.string())
    inside = pc.binary_slice(column.cast(pa.binary()), 1).cast(pa.string())
    return pc.if_else(is_name, join_texts(f"<{BASE}", inside), column)
