"""Column types: their names, and whether what stands in a column can be of its declared type."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.errors import Span, suggest
from tidelog.logic import codes, values
from tidelog.logic.program import Constant, Predicate, Term, Variable
from tidelog.logic.report import UNRESOLVED, Report, label
from tidelog.logic.terms import exact
from tidelog.logic.values import MOST_DIGITS, ColumnType, Kind

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
        known = ", ".join(dict.fromkeys(column_type.value for column_type in TYPES.values()))
        help = suggest(name, TYPES) or f"the types are {known}"
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
    """The declared type of a column in which something stands, and where."""

    type: ColumnType
    column: str
    span: Span | None


class Columns:
    """The columns in which the terms of one clause stand. Mutable: it notes the types of the variables."""

    def __init__(self, report: Report) -> None:
        self.report = report
        self.types: dict[Variable, Typed] = {}

    def term(self, term: Term, predicate: Predicate, column: int, span: Span | None) -> Term:
        """The term as the column holds it; what cannot be of the column's type is reported."""
        if isinstance(term, Constant):
            return self.constant(term, predicate, column, span)
        found = _typed(predicate, column, span)
        if found is None:
            return term
        earlier = self.types.setdefault(term, found)
        if not share_values(earlier.type, found.type):
            message = (
                f"variable `?{term.name}` is {_a(found.type)} in {found.column}, "
                f"but {_a(earlier.type)} in {earlier.column}"
            )
            labels = label(earlier.span, f"{_a(earlier.type)} here")
            self.report.error(codes.VARIABLE_OF_TWO_TYPES, message, span, labels=labels)
        return term

    def constant(self, constant: Constant, predicate: Predicate, column: int, span: Span | None) -> Constant:
        """The constant as the column holds it; one that cannot be of the column's type is reported."""
        found = _typed(predicate, column, span)
        if found is None or constant is UNRESOLVED or constant.value.extra == values.NULL_DATATYPE:
            return constant
        value = values.conform(constant.value, found.type)
        if value is not None:
            return Constant(value)
        message = f"`{exact(constant.value)}` is not {_a(found.type)}, as {found.column} is declared to be"
        labels = label(predicate.span if predicate.declared else None, "declared here")
        is_name = found.type is ColumnType.STRING and constant.value.kind is Kind.IRI
        help = f'write `"{constant.value.content}"` if text is meant' if is_name else None
        self.report.error(codes.CONSTANT_OF_OTHER_TYPE, message, span, help, labels)
        return constant


def _typed(predicate: Predicate, column: int, span: Span | None) -> Typed | None:
    """What is declared of a column of the predicate, if it has such a column."""
    if column >= len(predicate.types) or predicate.types[column] is ColumnType.ANY:
        return None
    name = predicate.columns[column]
    shown = f"`{name}`" if name is not None else f"{column + 1}"
    return Typed(predicate.types[column], f"column {shown} of `{predicate.written}`", span)


def _a(column_type: ColumnType) -> str:
    """The type with its article."""
    article = "an" if column_type.value[0] in "aio" else "a"
    return f"{article} {column_type.value}"
