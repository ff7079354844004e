"""Signatures: how many columns each predicate has, their names and types, and where that was first said.

Mutable while a program is resolved; `predicates` is what remains of it.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from tidelog.errors import Span, counted, suggest
from tidelog.logic import codes
from tidelog.logic.column_types import read_type
from tidelog.logic.program import BOTTOM, Predicate
from tidelog.logic.report import Report, ending, label
from tidelog.logic.values import ColumnType
from tidelog.syntax import ast


@dataclass(frozen=True, slots=True)
class Use:
    """A place where a predicate occurs: its full name, and how and where it is written."""

    name: str
    written: str
    span: Span | None


class Signatures:
    """The predicates met so far."""

    def __init__(self, report: Report, known: Mapping[str, Predicate]) -> None:
        self.report = report
        self.predicates: dict[str, Predicate] = dict(known)
        self.filled: set[str] = set(known)  # may hold facts: stated, imported, derived or declared
        self.refused: set[str] = set()  # built-in predicates that were used with arguments

    def refuse_arguments(self, use: Use) -> Use:
        """Report a built-in predicate with arguments, once; what stands for it from then on has them."""
        if use.name not in self.refused:
            message = f"`{use.name}` is built in, and has no arguments"
            help = f"give the predicate another name, such as `{use.name}_of`"
            self.report.error(codes.RESERVED_PREDICATE, message, use.span, help)
        stand_in = f"{use.name} with arguments"
        self.refused |= {use.name, stand_in}
        self.fill(stand_in)
        return replace(use, name=stand_in)

    def declare(self, use: Use, columns: Sequence[ast.Column]) -> None:
        """Take a predicate's columns from its declaration."""
        names = tuple(column.name for column in columns)
        types = tuple(read_type(column.type, _place_of_type(column), self.report) for column in columns)
        self._check_names(use, columns)
        earlier = self.predicates.get(use.name)
        if earlier is not None and earlier.declared:
            if (earlier.columns, earlier.types) != (names, types):
                message = f"`{use.written}` is declared twice, with different columns"
                labels = label(earlier.span, "declared here first")
                self.report.error(codes.PREDICATE_DECLARED_TWICE, message, use.span, labels=labels)
            return
        if earlier is not None and not self._same_arity(earlier, use, len(columns)):
            return
        span = use.span if earlier is None else earlier.span
        self.predicates[use.name] = Predicate(
            use.name, len(columns), names, types, use.written, declared=True, span=span
        )
        self.filled.add(use.name)

    def use(self, use: Use, arity: int) -> Predicate:
        """The predicate used with this arity, as known so far."""
        earlier = self.predicates.get(use.name)
        if earlier is None:
            earlier = Predicate(
                use.name, arity, (None,) * arity, (ColumnType.ANY,) * arity, use.written, span=use.span
            )
            self.predicates[use.name] = earlier
        else:
            self._same_arity(earlier, use, arity)
        return earlier

    def holds_any(self, name: str, arity: int) -> bool:
        """Whether the predicate is known to hold facts of this arity, whatever their values."""
        predicate = self.predicates.get(name) if name in self.filled else None
        if predicate is None or predicate.arity != arity:
            return False
        return all(column_type is ColumnType.ANY for column_type in predicate.types)

    def fill(self, name: str) -> None:
        """Note that the predicate may hold facts."""
        self.filled.add(name)

    def name_columns(self, name: str, columns: Sequence[str | None]) -> None:
        """Name the predicate's columns after a rule's head, if nothing else names them."""
        predicate = self.predicates[name]
        if predicate.declared or any(predicate.columns) or len(columns) != predicate.arity:
            return
        first = {column: place for place, column in reversed(list(enumerate(columns)))}
        once = [column if first[column] == place else None for place, column in enumerate(columns)]
        self.predicates[name] = replace(predicate, columns=tuple(once))

    def warn_of_empty(self) -> None:
        """Warn of each predicate that can hold no facts."""
        for name, predicate in self.predicates.items():
            if name in self.filled or name == BOTTOM:
                continue
            message = f"`{predicate.written}` has neither facts, imports nor rules: it is empty"
            others = (self.predicates[other].written for other in sorted(self.filled & set(self.predicates)))
            help = suggest(predicate.written, others) or "declare it if its facts come from elsewhere"
            self.report.warn(codes.EMPTY_PREDICATE, message, predicate.span, help)

    def _check_names(self, use: Use, columns: Sequence[ast.Column]) -> None:
        seen: dict[str, ast.Column] = {}
        for column in columns:
            if column.name is not None and column.name in seen:
                message = f"`{use.written}` has two columns named `{column.name}`"
                labels = label(seen[column.name].span, "the first one")
                self.report.error(codes.COLUMN_NAMED_TWICE, message, column.span, labels=labels)
            elif column.name is not None:
                seen[column.name] = column

    def _same_arity(self, earlier: Predicate, use: Use, arity: int) -> bool:
        """Whether the predicate has this arity; if not, that is reported."""
        if earlier.arity == arity:
            return True
        message = f"`{use.written}` has {counted(arity, 'argument')} here, but {earlier.arity} elsewhere"
        place = "declared" if earlier.declared else "first used"
        labels = label(earlier.span, f"{place} with {counted(earlier.arity, 'argument')}")
        self.report.error(codes.ARITY_MISMATCH, message, use.span, labels=labels)
        return False


def _place_of_type(column: ast.Column) -> Span | None:
    """Where the type of a column is written: behind the colon."""
    return column.span and ending(column.span, column.span.text.partition(":")[2].lstrip())
