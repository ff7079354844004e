"""Guards in job files, and what they mean for a program.

`source_limits` and `read_guards` read them key by key, `resolve` finds the predicates and columns that they
name.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import replace
from datetime import timedelta
from typing import Any, Final

from tidelog.errors import DataError, Diagnostic, Span, counted, suggest
from tidelog.logic.program import BOTTOM, Predicate, Program
from tidelog.pipeline import codes
from tidelog.pipeline.document import Table
from tidelog.pipeline.guards import (
    Amount,
    Drop,
    Expectation,
    Guards,
    Limits,
    Severity,
    read_amount,
    read_duration,
)

_LIMITS: Final = ("min-rows", "max-rows", "max-drop")
_AMOUNT_HELP: Final = 'write a number of rows, such as 100, or a share, such as "20 %"'

# ---- the job file


def source_limits(table: Table) -> Limits:
    """Return the guards in a `[[source]]` of a job file; faults are noted in its document."""
    limits = _limits(table)
    allow_empty = table.flag("allow-empty") is True
    if allow_empty and limits.min_rows:
        table.wrong("allow-empty", "contradicts `min-rows`", "leave one of the two out")
    return replace(
        limits,
        max_rejected=_amount(table, "max-rejected"),
        max_age=_age(table),
        allow_empty=allow_empty,
        spans=_spans(table, (*_LIMITS, "max-rejected", "max-age", "allow-empty", "predicate")),
    )


def read_guards(root: Table, sources: Mapping[str, Limits] | None = None) -> Guards:
    """Return the guards of a job file: its `[[guard]]` and `[[expect]]`, and those of its sources."""
    predicates: dict[str, Limits] = {}
    for table in root.tables("guard"):
        predicate = table.required("predicate", "name the predicate whose rows are counted")
        if predicate in predicates:
            table.wrong("predicate", f"has another [[guard]] already: `{predicate}`")
        table.refuse(("max-rejected", "max-age", "allow-empty"), "is a guard of sources")
        limits = _limits(table)
        if not limits.names and not any(key in table for key in _LIMITS):
            table.missing("min-rows", f"give a limit: {', '.join(_LIMITS)}")
        predicates[predicate] = replace(limits, spans=_spans(table, (*_LIMITS, "predicate")))
        table.close()
    expectations = tuple(_expectation(table) for table in root.tables("expect"))
    return Guards(dict(sources or {}), predicates, expectations)


def _limits(table: Table) -> Limits:
    least, most = table.count("min-rows"), table.count("max-rows")
    if least is not None and most is not None and least > most:
        table.wrong("max-rows", "is less than `min-rows`")
    severity = table.choice("on-guard", (Severity.FAIL, Severity.WARN), Severity.FAIL)
    return Limits(least, most, _amount(table, "max-drop"), severity=Severity(severity))


def _expectation(table: Table) -> Expectation:
    predicate = table.required("predicate", "name the predicate that should be empty")
    severity = Severity(table.choice("severity", tuple(Severity), Severity.FAIL))
    expectation = Expectation(
        predicate,
        severity,
        table.text("name"),
        table.text("of"),
        table.columns("columns"),
        _amount(table, "max-rows"),
        _spans(table, ("predicate", "severity", "of", "columns", "max-rows")),
    )
    if severity is Severity.DROP:
        if "of" not in table:
            table.missing("of", "name the predicate whose rows are left out")
        if predicate == BOTTOM:
            table.wrong("severity", f"cannot be `drop` for `{BOTTOM}`, which names no rows")
    else:
        table.refuse(("columns",), 'makes sense with severity = "drop" only')
        most = expectation.max_rows
        if most is not None and most.share is not None and "of" not in table:
            table.missing("of", "name the predicate of whose rows `max-rows` is a share")
    table.close()
    return expectation


def _amount(table: Table, key: str) -> Amount | None:
    if key not in table:
        table.text(key)  # so that the key is known
        return None
    is_number = isinstance(_written(table, key), int)
    value = table.count(key) if is_number else table.text(key)
    if value is None:
        return None
    try:
        return read_amount(value)
    except ValueError:
        table.wrong(key, f"is neither a number of rows nor a share: `{value}`", _AMOUNT_HELP)
        return None


def _age(table: Table) -> timedelta | None:
    text = table.text("max-age")
    try:
        return None if text is None else read_duration(text)
    except ValueError:
        table.wrong("max-age", f"is not a duration: `{text}`", 'write "90 min", "24 h" or "7 d"')
        return None


def _written(table: Table, key: str) -> object:
    """Return the value of a key, of whatever type."""
    values: Any = table.document.values
    for part in table.path:
        values = values[part]
    return values[key]


def _spans(table: Table, keys: Iterable[str]) -> dict[str, Span]:
    return {key: table.document.span((*table.path, key)) for key in keys if key in table}


# ---- the program


def resolve(guards: Guards, program: Program) -> Guards:
    """Return the guards with the full names of predicates, and with `drops`.

    Raise `DataError` with everything in them that the program does not have.
    """
    names = _Names(program)
    predicates = {
        names.find(name, limits.spans.get("predicate")).name: limits
        for name, limits in guards.predicates.items()
    }
    expectations: list[Expectation] = []
    drops: list[Drop] = []
    for one in guards.expectations:
        if one.predicate == BOTTOM:
            expectations.append(one)
            continue
        violation = names.find(one.predicate, one.spans.get("predicate"))
        of = None if one.of is None else names.find(one.of, one.spans.get("of"))
        if one.severity is Severity.DROP and of is not None:
            pairs = names.pairs(one, violation, of)
            drops.append(Drop(of.name, violation.name, pairs, one.shown, one.spans.get("severity")))
        expectations.append(replace(one, predicate=violation.name, of=None if of is None else of.name))
    if names.faults:
        raise DataError(sorted(names.faults, key=lambda item: item.span.start if item.span else 0))
    return replace(guards, predicates=predicates, expectations=tuple(expectations), drops=tuple(drops))


class _Names:
    """The names of a program, and those that were asked for and are not there. Mutable."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.faults: list[Diagnostic] = []

    def find(self, name: str, span: Span | None) -> Predicate:
        found = self.program.find(name)
        if found is not None:
            return found
        known = [predicate.written for predicate in self.program.predicates.values()]
        self._fault(f"the program has no predicate `{name}`", span, suggest(name, known))
        return Predicate(name, 0, (), (), name)

    def pairs(self, one: Expectation, violation: Predicate, of: Predicate) -> tuple[tuple[int, int], ...]:
        if not violation.arity or not of.arity:
            return ()
        span = one.spans.get("columns") or one.spans.get("of")
        named = self._named(one, violation, of)
        found = []
        for left, right in named.items():
            for name, predicate in ((left, violation), (right, of)):
                if name not in predicate.names:
                    message = f"`{predicate.written}` has no column `{name}`"
                    help = suggest(name, predicate.names) or f"its columns are {', '.join(predicate.names)}"
                    self._fault(message, span, help)
                    break
            else:
                found.append((violation.names.index(left), of.names.index(right)))
        if not named:
            message = f"no column of `{violation.written}` has the name of a column of `{of.written}`"
            help = f'say which of its columns name the rows to leave out: columns = ["{of.names[0]}"]'
            self._fault(message, span, help)
        return tuple(found)

    def _named(self, one: Expectation, violation: Predicate, of: Predicate) -> dict[str, str]:
        if one.columns is None:
            shared = (name for name in violation.columns if name is not None and name in of.columns)
            return {name: name for name in shared}
        if isinstance(one.columns, tuple):
            if len(one.columns) > violation.arity:
                shown = counted(violation.arity, "column")
                self._fault(f"`{violation.written}` has only {shown}", one.spans.get("columns"), None)
            return dict(zip(violation.names, one.columns, strict=False))
        return dict(one.columns)

    def _fault(self, message: str, span: Span | None, help: str | None) -> None:
        self.faults.append(Diagnostic(codes.NO_PREDICATE, message, span, help))
