"""SPARQL 1.1 over triples, through pyoxigraph, the extra `rdf`."""

from __future__ import annotations

import io
from collections.abc import Iterable, Iterator
from typing import IO, Any, Final

import pyarrow as pa
import pyarrow.compute as pc

from tidelog.errors import ProgramError
from tidelog.io.arrays import Array, joined
from tidelog.io.lines import ChangedLines
from tidelog.io.rdf import load_pyoxigraph
from tidelog.io.sparql_text import check_size, syntax_error, with_named_columns
from tidelog.io.write_rdf import write_statements

# Names are relative IRIs here. The store wants them resolved, so they are, and back.
BASE: Final = "tidelog-relative:///"
_ABSOLUTE: Final = r"^<[A-Za-z][A-Za-z0-9+.-]*:"


class Store:
    """Statements that SPARQL queries are asked of, all put in at once: a label means one blank node then."""

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
    return pc.if_else(is_name, joined(f"<{BASE}", inside), column)
