"""What the columns of a reasoner's relations hold, whatever rows there are. Mutable: data is noted.

Declarations say it first, then inference from what the program states and imports, and from data that came:
the types of a data frame's columns, and those of values in rows of Python, never those of derived rows.
Invariant: the types of data only grow, so that what is inferred later holds for earlier rows too.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from functools import cached_property
from typing import Any

from tidelog.data.typed_columns import types_of
from tidelog.errors import Diagnostic
from tidelog.io.data_file import InputFile
from tidelog.logic.program import Fact, Predicate, Program, Query, Transfer
from tidelog.logic.type_inference import (
    Columns,
    Inferred,
    Schema,
    infer_answers,
    infer_columns,
    types_of_facts,
    united,
)
from tidelog.logic.types import ANY, NEVER, Contents, Type

_LITERAL = frozenset({Type.LITERAL})
WITH_SCHEMAS = ("parquet", "arrow")  # formats of files that say what their columns hold


class Schemas:
    """The types of data that came from outside, by predicate."""

    def __init__(self, engine: Any, rows: Callable[[str], Sequence[Any]]) -> None:
        self._engine = engine
        self._rows = rows  # the columns of explicit facts
        self._types: dict[str, Columns] = {}
        self._unread: set[str] = set()  # predicates whose facts were not looked at since they came
        self._facts: tuple[tuple[Fact, ...], Mapping[str, Columns]] = (), {}
        self._last: SchemasOf | None = None

    def note(self, name: str, file: InputFile | None = None) -> None:
        """Note that facts of a predicate came, perhaps from a file."""
        self._last = None
        if file is None or file.format in WITH_SCHEMAS:
            self._unread.add(name)
        elif file.types is None or not file.names:
            self._types[name] = ()  # text without declared types: anything

    def note_rows(self, name: str, columns: Sequence[Any]) -> None:
        """Note facts of a predicate by their ids."""
        if name in self._unread:
            return
        found = tuple(types_of(self._engine.dictionary, ids) for ids in columns)
        before = self._types.get(name)
        if before is None or (before and united(before, found) != before):
            self._types[name] = found if before is None else united(before, found)
            self._last = None

    def noted(self) -> dict[str, Columns]:
        """Return the types of all data that came, by predicate; no types where it may be anything."""
        self._read_all()
        return dict(self._types)

    def restore(self, types: Mapping[str, Columns]) -> None:
        """Note types of data that came to another reasoner, whose facts this one has."""
        for name, columns in types.items():
            before = self._types.get(name)
            self._types[name] = columns if before is None else united(before, columns) if before else before
        self._last = None

    def now(self, program: Program, facts: tuple[Fact, ...]) -> SchemasOf:
        """Return the schemas for a program that states these facts."""
        last = self._last
        if last is None or last.program is not program or last.facts is not facts:
            last = self._last = SchemasOf(program, facts, self)
        return last

    def given(self, program: Program, facts: tuple[Fact, ...]) -> dict[str, Columns]:
        """Return the types of what is stated and of data that came."""
        self._read_all()
        if self._facts[0] is not facts:
            self._facts = facts, types_of_facts(facts)
        found = dict(self._facts[1])
        for name, columns in self._types.items():
            arity = program.predicates[name].arity if name in program.predicates else len(columns)
            columns = columns if len(columns) == arity else (ANY,) * arity
            found[name] = united(found.get(name, columns), columns)
        return found

    def _read_all(self) -> None:
        with self._engine.dictionary.lock:
            for name in list(self._unread):
                self._unread.discard(name)
                self.note_rows(name, self._rows(name))


@dataclass(frozen=True)
class SchemasOf:
    """What the columns of relations hold that a program derives. It is inferred when somebody asks."""

    program: Program
    facts: tuple[Fact, ...]
    data: Schemas

    @cached_property
    def inferred(self) -> Inferred:
        """The types of all columns."""
        given = self.data.given(self.program, self.facts)
        known = self.program.predicates
        imports = tuple(
            each
            for each in self.program.imports
            if known[each.predicate].declared or not _has_schema(each, given)
        )
        # Literals of a type that no declaration names are missing values that are kept.
        nulls = {
            name: tuple(NEVER if each == ANY else each & _LITERAL for each in columns)
            for name, columns in given.items()
        }
        return infer_columns(replace(self.program, imports=imports), given, nulls)

    def of(self, predicate: Predicate) -> Schema:
        """Return what the columns of a predicate hold."""
        return self.inferred.schema(predicate)

    def of_answers(self, query: Query, variables: Sequence[str] | None = None) -> Schema:
        """Return what the columns of the answers to a query hold."""
        columns, _ = infer_answers(query.rule, self.inferred, self.program)
        found = dict(zip(query.variables, columns, strict=True))
        return tuple(Contents(found.get(name, ANY)) for name in variables or query.variables)

    def warnings(self, query: Query) -> tuple[Diagnostic, ...]:
        """Return what can never match in a query."""
        return infer_answers(query.rule, self.inferred, self.program)[1]


def _has_schema(transfer: Transfer, given: Mapping[str, Columns]) -> bool:
    """Whether the data of an import has come, and says what its columns hold."""
    return transfer.types is None and transfer.format in WITH_SCHEMAS and transfer.predicate in given
