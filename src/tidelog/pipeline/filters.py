"""Filters of sources: literals of the rule language that a row's values must satisfy."""

from __future__ import annotations

from dataclasses import dataclass

from tidelog.errors import DataError, Diagnostic, ProgramError, Span
from tidelog.io.columns import Batch
from tidelog.logic.program import Predicate, Program
from tidelog.maintenance.maintainer import Rows
from tidelog.pipeline import codes
from tidelog.pipeline.stored import to_batch
from tidelog.reasoner import Reasoner
from tidelog.relation import column_names

ROW, KEPT = "row", "kept"


@dataclass(frozen=True)
class Filter:
    """The rows that satisfy the literals, by the rule `kept(…) :- row(…), literals .`"""

    program: Program

    @staticmethod
    def of(literals: str | None, predicate: Predicate, span: Span | None) -> Filter | None:
        """The filter of literals in which the predicate's columns are variables; raises what is wrong."""
        if literals is None:
            return None
        import tidelog

        names = ", ".join(f"?{name}" for name in column_names(predicate))
        try:
            program = tidelog.parse(f"{KEPT}({names}) :- {ROW}({names}), {literals} .", name="<filter>")
        except ProgramError as error:
            reasons = "; ".join(item.message for item in error.diagnostics)
            message = f"the filter `{literals}` is not well formed: {reasons}"
            help = f"it holds literals over {names}"
            raise DataError(Diagnostic(codes.BAD_VALUE, message, span, help)) from None
        return Filter(program)

    def keep(self, batch: Batch) -> Batch:
        """The rows of a batch that the filter lets through."""
        reasoner = Reasoner(self.program, threads=1)
        reasoner.load(ROW, [batch])
        columns, count, dictionary = reasoner[KEPT].coded
        return to_batch(Rows(columns, count), dictionary)
