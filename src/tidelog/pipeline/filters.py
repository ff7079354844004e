"""Filters of sources: literals of the rule language that a row's values must satisfy."""

from __future__ import annotations

from dataclasses import dataclass, replace

import numpy as np
import pyarrow as pa

from tidelog.data.relation import column_names
from tidelog.errors import DataError, Diagnostic, ProgramError, Severity, Span
from tidelog.io.arrays import mask
from tidelog.io.columns import Batch, Column
from tidelog.logic.program import Predicate, Program
from tidelog.logic.values import ColumnType
from tidelog.pipeline import codes
from tidelog.reasoner.reasoner import Reasoner

ROW, KEPT = "row", "kept"


@dataclass(frozen=True)
class Filter:
    """The rows that satisfy the literals, by the rule `kept(?n) :- row(?n, …), literals .`

    Rows have numbers, so that one that comes twice is kept twice, and what is filtered out can be counted.
    """

    program: Program
    arity: int  # of the rows: columns behind these are kept along

    @staticmethod
    def of(literals: str | None, predicate: Predicate, span: Span | None) -> Filter | None:
        """The filter of literals in which the predicate's columns are variables; raises what is wrong."""
        if literals is None:
            return None
        import tidelog

        columns = column_names(predicate)
        number = "n"
        while number in columns:
            number += "_"
        names = ", ".join(f"?{name}" for name in columns)
        rule = (
            f"{KEPT}(?{number}) :- {ROW}({', '.join((f'?{number}', *filter(None, [names])))}), {literals} ."
        )
        try:
            program = tidelog.parse(rule, name="<filter>")
        except ProgramError as error:
            wrong = [item for item in error.diagnostics if item.severity is Severity.ERROR]
            reasons = "; ".join(item.message for item in wrong)
            message = f"the filter `{literals}` is not well formed: {reasons}"
            help = f"it holds literals over {names}"
            raise DataError(Diagnostic(codes.BAD_VALUE, message, span, help)) from None
        return Filter(program, predicate.arity)

    def keep(self, batch: Batch) -> Batch:
        """The rows of a batch that the filter lets through."""
        reasoner = Reasoner(self.program, threads=1)
        numbers = Column(ColumnType.INTEGER, pa.array(np.arange(batch.rows)))
        reasoner.load(ROW, [Batch((numbers, *batch.columns[: self.arity]), batch.rows)])
        (ids,), count, dictionary = reasoner[KEPT].coded
        if count == batch.rows:
            return batch
        is_kept = np.zeros(batch.rows, np.bool_)
        is_kept[dictionary.payload[ids]] = True
        return Batch(tuple(_chosen(column, mask(is_kept)) for column in batch.columns), count)


def _chosen(column: Column, rows: pa.Array) -> Column:
    values = column.values
    if pa.types.is_string_view(values.type):
        values = values.cast(pa.string())  # views cannot be filtered
    return replace(column, values=values.filter(rows))
