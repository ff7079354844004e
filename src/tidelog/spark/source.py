"""Sources: where the facts of a predicate come from. Imports no Spark: jobs without it have some, too."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from tidelog.errors import DataError, Diagnostic, Span
from tidelog.io.nulls import Nulls
from tidelog.io.source import Header
from tidelog.logic.values import ColumnType

ON_SPARK: Final = ("jdbc", "table", "frame")  # sources, and sinks, that only Spark has
VERSIONED: Final = ("delta", "iceberg")  # tables of others, with versions of their own


@dataclass(frozen=True)
class Source:
    """Where the facts of a predicate come from: files, a table, a query, or a DataFrame.

    `path` is a file, a folder, a pattern, or several of them, with or without a scheme. `columns` names the
    columns of the data that hold the predicate's, in its order, or by the names of its columns; None stands
    for columns that are found by their order. `filter`
    has literals of the rule language over the predicate's columns as variables. `options` are passed to
    Spark's reader.
    """

    predicate: str
    path: str | tuple[str, ...] = ()
    format: str | None = None
    columns: tuple[str | None, ...] | Mapping[str, str] | None = None
    types: tuple[ColumnType | str, ...] | None = None
    filter: str | None = None
    header: bool | Header | None = None
    delimiter: str | None = None
    quoting: bool = True
    base: str | None = None
    table: str | None = None
    query: str | None = None
    url: str | None = None
    driver: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    frame: Any = None  # a DataFrame
    time: str | tuple[str, ...] = ()
    nulls: str | tuple[str, ...] = ()
    limit: int | None = None
    version: int | None = None  # of a Delta table, or the snapshot of an Iceberg table
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)  # of an object store
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def times(self) -> tuple[str, ...]:
        """What the columns behind the arguments say of when a fact holds: `interval`, `start`, `end`…"""
        return (self.time,) if isinstance(self.time, str) else tuple(self.time)

    @property
    def first_row(self) -> Header:
        """What the first row of delimited files is; columns that are named are those of a header."""
        if isinstance(self.header, Header):
            return self.header
        given = self.header if self.header is not None else (True if self.columns else None)
        return {None: Header.DETECTED, True: Header.NAMES, False: Header.NONE}[given]

    def missing(self, arity: int) -> tuple[Nulls, ...]:
        """What is done about missing values, by column."""
        return tuple(map(Nulls, (self.nulls,) * arity if isinstance(self.nulls, str) else self.nulls))

    @property
    def paths(self) -> tuple[str, ...]:
        """The paths, as they are written."""
        return (self.path,) if isinstance(self.path, str) else tuple(self.path)

    @property
    def kind(self) -> str:
        """`file`, `versioned`, `jdbc`, `table` or `frame`."""
        if self.frame is not None:
            return "frame"
        if self.format in VERSIONED:
            return "versioned"
        return self.format if self.format in ON_SPARK else "file"

    @property
    def shown(self) -> str:
        """What messages call it."""
        return self.paths[0] if self.paths else self.table or self.url or "<DataFrame>"

    def wrong(self, code: str, message: str, help: str | None = None) -> DataError:
        """Return the error for a source that cannot be read."""
        return DataError(Diagnostic(code, message, self.span, help, place=self.shown))
