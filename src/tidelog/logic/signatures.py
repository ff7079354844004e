"""Signatures: how many columns each predicate has, their names and types; the names of column types."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import replace

from tidelog.errors import Span, codes, counted, suggest
from tidelog.logic import values
from tidelog.logic.conversions import exact
from tidelog.logic.program import BOTTOM, Constant, Predicate, Term, Variable
from tidelog.logic.scopes import UNRESOLVED, Report, ending, label
from tidelog.logic.values import MOST_DIGITS, ColumnType, Kind
from tidelog.records import dataclass
from tidelog.syntax import ast

# ---- column types

TYPES = {
    "any": ColumnType.ANY,
    "string": ColumnType.STRING,
    "iri": ColumnType.IRI,
    "int": ColumnType.INTEGER,
    "integer": ColumnType.INTEGER,
    "long": ColumnType.INTEGER,
    "decimal": ColumnType.DECIMAL,
    "double": ColumnType.DOUBLE,
    "float": ColumnType.DOUBLE,
    "boolean": ColumnType.BOOLEAN,
    "bool": ColumnType.BOOLEAN,
    "date": ColumnType.DATE,
    "dateTime": ColumnType.DATETIME,
    "datetime": ColumnType.DATETIME,
    "localDateTime": ColumnType.LOCAL_DATETIME,
    "rdf": ColumnType.TERM,
    "term": ColumnType.TERM,
    "language": ColumnType.TERM,
}

SIZED = "decimal("  # how a decimal with a size begins

_UNTYPED = frozenset({ColumnType.ANY, ColumnType.TERM, ColumnType.SKIP})
_NUMERIC = frozenset({ColumnType.INTEGER, ColumnType.DECIMAL, ColumnType.DOUBLE})


def read_type(name: str, span: Span | None, report: Report, *, skip: bool = False) -> ColumnType:
    """The column type of this name; ANY, with the fault reported, if there is none."""
    if skip and name == "skip":
        return ColumnType.SKIP
    if name.startswith(SIZED):
        return _read_size(name, span, report)
    if name not in TYPES:
        names = ", ".join(dict.fromkeys(column_type.value for column_type in TYPES.values()))
        help = suggest(name, TYPES) or f"the types are {names}"
        report.error(codes.UNKNOWN_COLUMN_TYPE, f"unknown column type `{name}`", span, help)
    return TYPES.get(name, ColumnType.ANY)


def _read_size(name: str, span: Span | None, report: Report) -> ColumnType:
    try:
        return ColumnType(name)
    except ValueError:
        message = f"`{name}` is not a type: decimals have 1 to {MOST_DIGITS} digits"
        help = "write how many digits there are, and how many of them behind the point: `decimal(12, 2)`"
        report.error(codes.UNKNOWN_COLUMN_TYPE, message, span, help)
        return ColumnType.DECIMAL


def share_values(left: ColumnType, right: ColumnType) -> bool:
    """Whether columns of these types can be meant to hold the same values."""
    bases = {left.base, right.base}
    return len(bases) == 1 or bool(bases & _UNTYPED) or bases <= _NUMERIC


@dataclass(frozen=True, slots=True)
class Typed:
    """The declared type of the column in which a term occurs, with its description and span."""

    type: ColumnType
    column: str
    span: Span | None


class Columns:
    """Checks the terms of one clause against column types. Mutable: it records the types of variables."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.types: dict[Variable, Typed] = {}

    def term(self, term: Term, predicate: Predicate, column: int, span: Span | None) -> Term:
        """The term converted to the column's type; report one that cannot have it."""
        if isinstance(term, Constant):
            return self.constant(term, predicate, column, span)
        typed = _typed(predicate, column, span)
        if typed is None:
            return term
        earlier = self.types.setdefault(term, typed)
        if not share_values(earlier.type, typed.type):
            message = (
                f"variable `?{term.name}` is {_a(typed.type)} in {typed.column}, "
                f"but {_a(earlier.type)} in {earlier.column}"
            )
            labels = label(earlier.span, f"{_a(earlier.type)} here")
            self.report.error(codes.VARIABLE_OF_TWO_TYPES, message, span, labels=labels)
        return term

    def constant(self, constant: Constant, predicate: Predicate, column: int, span: Span | None) -> Constant:
        """The constant converted to the column's type; report one that cannot have it."""
        typed = _typed(predicate, column, span)
        if typed is None or constant is UNRESOLVED or constant.value.extra == values.NULL_DATATYPE:
            return constant
        value = values.conform(constant.value, typed.type)
        if value is not None:
            return Constant(value)
        message = f"`{exact(constant.value)}` is not {_a(typed.type)}, as {typed.column} is declared to be"
        labels = label(predicate.span if predicate.declared else None, "declared here")
        is_name = typed.type is ColumnType.STRING and constant.value.kind is Kind.IRI
        help = f'write `"{constant.value.content}"` if text is meant' if is_name else None
        self.report.error(codes.CONSTANT_OF_OTHER_TYPE, message, span, help, labels)
        return constant


def _typed(predicate: Predicate, column: int, span: Span | None) -> Typed | None:
    """The declared type of a column of the predicate; None if the column is undeclared or missing."""
    if column >= len(predicate.types) or predicate.types[column] is ColumnType.ANY:
        return None
    name = predicate.columns[column]
    column_name = f"`{name}`" if name is not None else f"{column + 1}"
    return Typed(predicate.types[column], f"column {column_name} of `{predicate.written}`", span)


def _a(column_type: ColumnType) -> str:
    """The type with its article."""
    article = "an" if column_type.value[0] in "aio" else "a"
    return f"{article} {column_type.value}"


# ---- signatures
#
# Mutable while a program is resolved; the program keeps `predicates`.


@dataclass(frozen=True, slots=True)
class Use:
    """A place where a predicate occurs: its full name, and how and where it is written."""

    name: str
    written: str
    span: Span | None


class Signatures:
    """The predicates declared or used so far."""

    def __init__(self, report: Report, predicates: Mapping[str, Predicate]) -> None:
        self.report = report
        self.predicates: dict[str, Predicate] = dict(predicates)
        self.filled: set[str] = set(predicates)  # may hold facts: explicit, imported, derived or declared
        self.refused: set[str] = set()  # built-in predicates that were used with arguments

    def refuse_arguments(self, use: Use) -> Use:
        """Report a built-in predicate with arguments, once; its replacement accepts them."""
        if use.name not in self.refused:
            message = f"`{use.name}` is built in, and has no arguments"
            help = f"give the predicate another name, such as `{use.name}_of`"
            self.report.error(codes.RESERVED_PREDICATE, message, use.span, help)
        stand_in = f"{use.name} with arguments"
        self.refused |= {use.name, stand_in}
        self.fill(stand_in)
        return replace(use, name=stand_in)

    def declare(self, use: Use, columns: Sequence[ast.ColumnNode]) -> None:
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
        """Record a use with this arity, and return the predicate as known so far."""
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
        """Name the predicate's columns after a rule's head, if they have no names yet."""
        predicate = self.predicates[name]
        if predicate.declared or any(predicate.columns) or len(columns) != predicate.arity:
            return
        first = {column: position for position, column in reversed(list(enumerate(columns)))}
        once = [column if first[column] == position else None for position, column in enumerate(columns)]
        self.predicates[name] = replace(predicate, columns=tuple(once))

    def warn_of_empty(self) -> None:
        """Warn of each predicate that can hold no facts."""
        for name, predicate in self.predicates.items():
            if name in self.filled or name == BOTTOM:
                continue
            message = f"`{predicate.written}` has neither facts, imports nor rules: it is empty"
            others = (self.predicates[other].written for other in sorted(self.filled & set(self.predicates)))
            help = suggest(predicate.written, others) or "declare it if its facts come from other sources"
            self.report.warn(codes.EMPTY_PREDICATE, message, predicate.span, help)

    def _check_names(self, use: Use, columns: Sequence[ast.ColumnNode]) -> None:
        seen: dict[str, ast.ColumnNode] = {}
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


def _place_of_type(column: ast.ColumnNode) -> Span | None:
    """Where the type of a column is written: behind the colon."""
    return column.span and ending(column.span, column.span.text.partition(":")[2].lstrip())
