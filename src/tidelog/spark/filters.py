"""Filters of sources: literals of the rule language that the values of a row must satisfy.

Comparisons of a column with a constant of its type become a condition of SQL, which Spark pushes into the
scan where it can. If a filter has anything else, tasks evaluate it whole, as a rule.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import date, timedelta
from operator import eq, ge, gt, le, lt, ne
from typing import Any, Final

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, DataFrame
from pyspark.sql import functions as F  # noqa: N812 - as everybody who uses Spark calls them
from pyspark.sql import types as spark_types

from tidelog.errors import DataError, ProgramError, Severity
from tidelog.io.nulls import Nulls
from tidelog.io.row_readers import Kept
from tidelog.logic.program import Comparison, Constant, Expression, Program, Rule, Variable, free_name
from tidelog.logic.resolve import program_of
from tidelog.logic.types import Type
from tidelog.logic.values import ColumnType, Kind, Value, exact_number
from tidelog.reasoner.reasoner import Reasoner
from tidelog.spark import codes
from tidelog.spark.derived import quoted
from tidelog.spark.rows import Filtering, Reading
from tidelog.spark.schemas import Input
from tidelog.spark.shipping import Shipped
from tidelog.spark.task import Reading as Rows

_ROW: Final = "row"
_KEPT: Final = "kept"
_OPERATORS: Final[Mapping[str, Callable[[Any, Any], Any]]] = {
    "=": eq,
    "!=": ne,
    "<": lt,
    "<=": le,
    ">": gt,
    ">=": ge,
}
_MIRRORED: Final = {"=": "=", "!=": "!=", "<": ">", "<=": ">=", ">": "<", ">=": "<="}
_EPOCH: Final = date(1970, 1, 1)
# Columns whose values SQL compares as tidelog does with constants of the same kind.
_COMPARED: Final = {
    (Kind.INTEGER, Type.INTEGER): spark_types.LongType,
    (Kind.DOUBLE, Type.DOUBLE): spark_types.DoubleType,
    (Kind.DECIMAL, Type.DECIMAL): spark_types.DecimalType,
    (Kind.DATE, Type.DATE): spark_types.DateType,
    (Kind.STRING, Type.STRING): spark_types.StringType,
}


def filtered(reading: Reading) -> Reading:
    """Return the rows of a source without those that its filter excludes; raise what is wrong with it."""
    source = reading.source
    if source.filter is None:
        return reading
    rule = _rule(reading)
    condition = _condition(rule, reading.input)
    if condition is not None:
        return replace(reading, filtering=Filtering(condition, is_pushed=reading.has_values))
    number = free_name("n", reading.input.columns)
    task = Shipped(_Keeping(rule, reading.input.reading(), number))

    def keep(facts: DataFrame) -> DataFrame:
        return facts.mapInArrow(task, facts.schema)

    return replace(reading, filtering=Filtering(keep=keep))


def _rule(reading: Reading) -> Program:
    """Return the program whose rule has the filter as its body; rows have numbers, since they may repeat."""
    source, predicate = reading.source, reading.input.predicate
    number = free_name("n", predicate.names)
    variables = ", ".join(f"?{name}" for name in predicate.names)
    row = ", ".join(filter(None, (f"?{number}", variables)))
    try:
        return program_of(f"{_KEPT}(?{number}) :- {_ROW}({row}), {source.filter} .")
    except ProgramError as error:
        wrong = [item.message for item in error.diagnostics if item.severity is Severity.ERROR]
        message = f"the filter `{source.filter}` is not well formed: {'; '.join(wrong)}"
        raise _wrong(reading, message, f"it has literals over {variables}") from None


def _wrong(reading: Reading, message: str, help: str) -> DataError:
    return reading.source.wrong(codes.FILTER, message, help)


# ---- in SQL


def _condition(program: Program, given: Input) -> Column | None:
    """Return the condition that the rule's body is, if SQL has all of it."""
    if len(program.rules) != 1 or Nulls.VALUE in given.nulls:
        return None
    (rule,) = program.rules
    found = [_comparison(literal, rule, given) for literal in rule.body[1:]]
    if not rule.body or rule.body[0] is not next(iter(rule.positive), None) or not found:
        return None
    made = F.lit(True)
    for one in found:
        if one is None:
            return None
        made = made & one
    return made


def _comparison(literal: object, rule: Rule, given: Input) -> Column | None:
    if not isinstance(literal, Comparison):
        return None
    operator, left, right = literal.operator, literal.left, literal.right
    if isinstance(left, Constant):
        operator, left, right = _MIRRORED[operator], right, left
    if not isinstance(left, Variable) or not isinstance(right, Constant):
        return None
    place = _place(left, rule)
    value = right.value
    types = given.types[place]
    if len(types) != 1:
        return None
    (own,) = types
    wanted = _COMPARED.get((value.kind, own))
    of = given.spark[place]
    if wanted is None or not isinstance(of, wanted):
        return None
    column = F.col(quoted(given.columns[place]))
    found: Column = _OPERATORS[operator](column, _literal(value, of))
    return found


def _place(variable: Expression, rule: Rule) -> int:
    """Return the place of a variable among the predicate's columns: the row's number is before them."""
    return rule.positive[0].terms.index(variable) - 1


def _literal(value: Value, of: spark_types.DataType) -> Column:
    match value.kind:
        case Kind.DATE:
            try:
                return F.lit(_EPOCH + timedelta(days=int(value.content)))
            except OverflowError:
                return F.date_from_unix_date(F.lit(int(value.content)))
        case Kind.DECIMAL:
            return F.lit(exact_number(value))
        case Kind.INTEGER:
            return F.lit(value.content).cast(of)
    return F.lit(value.content)


# ---- in tasks


@dataclass(frozen=True)
class _Keeping:
    """Keeps the facts that satisfy a rule's body. Knows no Spark."""

    program: Program
    reading: Rows
    number: str

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the rows that are kept."""
        arity = len(self.reading.types)
        names = self.reading.names[:arity]
        numbered = replace(
            self.reading,
            types=(ColumnType.INTEGER, *self.reading.types),
            names=(self.number, *names),
            times=(),
            nulls=(Nulls.REJECT, *self.reading.nulls) if self.reading.nulls else (),
        )
        for batch in batches:
            numbers = pa.array(np.arange(batch.num_rows))
            table = pa.table([numbers, *batch.columns[:arity]], names=[self.number, *names])
            reasoner = Reasoner(self.program, threads=1, allow_read=(), allow_write=())
            reasoner.load(_ROW, list(numbered.batches(table, _ROW, Kept())))
            (ids,), _, dictionary = reasoner[_KEPT].coded
            places = np.sort(dictionary.payload[ids])
            yield batch if len(places) == batch.num_rows else batch.take(pa.array(places))
