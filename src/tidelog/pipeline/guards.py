"""Guards and expectations: conditions that a run must satisfy before its version is published.

A guard is a limit on how many rows a source or a predicate has. An expectation is a predicate that rules
derive and that should be empty: each of its rows is a violation. `check` compares the measures of a run with
the limits and with the last published version, independently of how rows are read and written.
`source_limits` and `read_guards` read guards from job files, and `resolve` finds the predicates and columns
that they name.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import field, replace
from datetime import datetime, timedelta
from enum import StrEnum
from fractions import Fraction
from typing import Any, Final

from tidelog.errors import DataError, Diagnostic, Severity, Span, TidelogError, codes, counted, suggest
from tidelog.io.toml_tables import TomlTable
from tidelog.logic.program import BOTTOM, Predicate, Program
from tidelog.records import dataclass
from tidelog.rewrite.dropped_rows import Drop

EMPTIED: Final = "allow-empty"  # the guard against a source that has become empty
EXPECT: Final = "expect"
MOST_SAMPLES: Final = 5
_SHARE = re.compile(r"(?P<number>\d+(?:\.\d+)?) ?%")
_UNIT = r"s(?:econds?)?|min(?:utes?)?|h(?:ours?)?|d(?:ays?)?"
_DURATION = re.compile(rf"(?P<number>\d+(?:\.\d+)?) ?(?P<unit>{_UNIT})")
_SECONDS: Final = {"s": 1, "min": 60, "h": 3600, "d": 86400}


class GuardSeverity(StrEnum):
    """The consequence for a run in which a guard or an expectation does not hold."""

    WARN = "warn"  # it is published, and reported
    DROP = "drop"  # it is published without the rows that violate the expectation
    FAIL = "fail"  # it is not published


# ---- settings


@dataclass(frozen=True, slots=True)
class Amount:
    """A number of rows, or a share of them."""

    text: str  # in the job file
    rows: int | None = None
    share: Fraction | None = None

    def of(self, total: int) -> Fraction:
        """Return the number of rows for a total.

        >>> read_amount("20 %").of(1000), read_amount(7).of(1000)
        (Fraction(200, 1), Fraction(7, 1))
        """
        return Fraction(self.rows) if self.rows is not None else (self.share or Fraction(0)) * total


def read_amount(value: int | str) -> Amount:
    """Parse an amount; raise `ValueError` if it is none."""
    if isinstance(value, int):
        if value < 0:
            raise ValueError(value)
        return Amount(f"{value:,}", rows=value)
    match = _SHARE.fullmatch(value.strip())
    if match is None or Fraction(match["number"]) > 100:
        raise ValueError(value)
    return Amount(value.strip(), share=Fraction(match["number"]) / 100)


def read_duration(text: str) -> timedelta:
    """Parse a duration; raise `ValueError` if it is none.

    >>> read_duration("24 hours"), read_duration("90min")
    (datetime.timedelta(days=1), datetime.timedelta(seconds=5400))
    """
    match = _DURATION.fullmatch(text.strip())
    if match is None:
        raise ValueError(text)
    try:
        unit = "min" if match["unit"].startswith("min") else match["unit"][0]
        return timedelta(seconds=float(match["number"]) * _SECONDS[unit])
    except OverflowError:
        raise ValueError(text) from None


@dataclass(frozen=True)
class GuardLimits:
    """The guards of one source or predicate."""

    min_rows: int | None = None
    max_rows: int | None = None
    max_drop: Amount | None = None  # of the rows of the last version
    max_rejected: Amount | None = None  # of the rows read
    max_age: timedelta | None = None  # of the newest file or commit
    allow_empty: bool = False
    severity: GuardSeverity = GuardSeverity.FAIL
    spans: Mapping[str, Span] = field(default_factory=dict, compare=False, repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The keys of the guards that are set."""
        limits = {
            "min-rows": self.min_rows,
            "max-rows": self.max_rows,
            "max-drop": self.max_drop,
            "max-rejected": self.max_rejected,
            "max-age": self.max_age,
        }
        return tuple(name for name, value in limits.items() if value is not None)


NO_LIMITS: Final = GuardLimits()


@dataclass(frozen=True)
class Expectation:
    """A predicate that should be empty, and the consequence for a run in which it is not.

    More violations than `max_rows` fail the run, whatever the severity; `fail` only warns up to that.
    With `drop`, rows of the predicate `of` are left out if they agree with a violation in `columns`: names of
    columns of `of` in the order of the violation's columns, or by their names, or by default equal names.
    """

    predicate: str
    severity: GuardSeverity = GuardSeverity.FAIL
    name: str | None = None
    of: str | None = None
    columns: tuple[str, ...] | Mapping[str, str] | None = None
    max_rows: Amount | None = None  # a share is one of the rows of `of`
    spans: Mapping[str, Span] = field(default_factory=dict, compare=False, repr=False)

    @property
    def shown(self) -> str:
        """Its name in messages and reports."""
        return self.name or self.predicate


@dataclass(frozen=True)
class Guards:
    """All guards and expectations of a job. `resolve` adds `drops`."""

    sources: Mapping[str, GuardLimits] = field(default_factory=dict)  # by the names in the measures
    predicates: Mapping[str, GuardLimits] = field(default_factory=dict)
    expectations: tuple[Expectation, ...] = ()
    drops: tuple[Drop, ...] = ()


# ---- measures and findings


@dataclass(frozen=True, slots=True)
class SourceMeasure:
    """The counts of rows that a run has read of one source."""

    source: str
    predicate: str
    rows: int
    rejected: int = 0
    filtered: int = 0
    newest: datetime | None = None  # time of its newest file or last commit, with a time zone

    @property
    def read(self) -> int:
        """How many rows were read."""
        return self.rows + self.rejected + self.filtered


@dataclass(frozen=True, slots=True)
class Violations:
    """The number of rows of the predicate of an expectation, and samples as text."""

    rows: int
    columns: tuple[str, ...] = ()
    samples: tuple[tuple[str, ...], ...] = ()


@dataclass(frozen=True)
class Measures:
    """The counts of what a run would publish: sources, rows of predicates, violations of expectations."""

    sources: tuple[SourceMeasure, ...] = ()
    predicates: Mapping[str, int] = field(default_factory=dict)
    violations: Mapping[str, Violations] = field(default_factory=dict)  # by the predicate of the expectation
    taken: datetime | None = None  # with a time zone; needed for `max-age`
    dropped: Mapping[str, int] = field(default_factory=dict)  # rows that are left out, by their predicate


Figure = int | float | str


@dataclass(frozen=True)
class GuardFinding:
    """A guard or expectation that does not hold."""

    severity: GuardSeverity
    guard: str  # the key of the guard, or `expect`
    subject: str  # the source, predicate or expectation
    message: str
    figures: Mapping[str, Figure] = field(default_factory=dict)
    place: str | None = None  # in the job file
    columns: tuple[str, ...] = ()
    samples: tuple[tuple[str, ...], ...] = ()
    help: str | None = None
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def is_failure(self) -> bool:
        """Whether the run must not be published."""
        return self.severity is GuardSeverity.FAIL

    def diagnostic(self) -> Diagnostic:
        """Return the finding as an error or a warning."""
        is_expectation = self.guard == EXPECT
        if self.is_failure:
            code, level = codes.EXPECTATION if is_expectation else codes.GUARD, Severity.ERROR
        else:
            code = codes.EXPECTATION_WARNING if is_expectation else codes.GUARD_WARNING
            level = Severity.WARNING
        samples = "".join(f"\n        {', '.join(sample)}" for sample in self.samples)
        message = f"{self.message}{', such as' if samples else ''}{samples}"
        return Diagnostic(code, message, self.span, self.help, severity=level, place=self.place)


class GuardFailed(TidelogError):  # noqa: N818 - a finding about the data, not a fault of the program
    """Guards or expectations do not hold: nothing is published."""

    exit_code = 3


def stop_on_failure(findings: Iterable[GuardFinding]) -> None:
    """Raise `GuardFailed` with all findings that forbid publishing, if there are any."""
    failures = [finding.diagnostic() for finding in findings if finding.is_failure]
    if failures:
        raise GuardFailed(failures)


def check(measures: Measures, previous: Measures | None, guards: Guards) -> tuple[GuardFinding, ...]:
    """Return the violated guards and expectations, failures first; `previous` is the last version."""
    findings: list[GuardFinding] = []
    for source in measures.sources:
        limits = guards.sources.get(source.source, NO_LIMITS)
        findings += _SourceCheck(source, limits, measures, previous).findings()
    for name, limits in guards.predicates.items():
        rows = measures.predicates.get(name, 0)
        before = None if previous is None else previous.predicates.get(name)
        findings += _limit_findings(name, rows, before, limits)
    for expectation in guards.expectations:
        findings += _violation_findings(expectation, measures)
    return tuple(sorted(findings, key=lambda finding: not finding.is_failure))


@dataclass(frozen=True, slots=True)
class Assertion:
    """A checked guard or expectation, and whether it holds."""

    subject: str
    guard: str
    holds: bool
    severity: GuardSeverity


def assertions(guards: Guards, findings: Iterable[GuardFinding]) -> tuple[Assertion, ...]:
    """Return the checks of all guards and expectations of a job."""
    broken = {(finding.subject, finding.guard) for finding in findings}
    checks = [
        Assertion(subject, guard, (subject, guard) not in broken, limits.severity)
        for subjects in (guards.sources, guards.predicates)
        for subject, limits in subjects.items()
        for guard in limits.names
    ]
    checks += [
        Assertion(item.shown, EXPECT, (item.shown, EXPECT) not in broken, item.severity)
        for item in guards.expectations
    ]
    configured = {(item.subject, item.guard) for item in checks}
    emptied = sorted(broken - configured)  # the guard against emptied sources needs no setting
    return (*checks, *(Assertion(subject, guard, False, GuardSeverity.FAIL) for subject, guard in emptied))


def _limit_findings(
    subject: str, rows: int, before: int | None, limits: GuardLimits
) -> Iterator[GuardFinding]:
    has = f"`{subject}` has {counted(rows, 'row')}"
    if limits.min_rows is not None and rows < limits.min_rows:
        message = f"{has}, fewer than min-rows = {limits.min_rows:,}"
        yield _finding(limits, "min-rows", subject, message, {"rows": rows, "limit": limits.min_rows})
    if limits.max_rows is not None and rows > limits.max_rows:
        message = f"{has}, more than max-rows = {limits.max_rows:,}"
        yield _finding(limits, "max-rows", subject, message, {"rows": rows, "limit": limits.max_rows})
    is_allowed = limits.allow_empty and not rows
    if limits.max_drop is None or not before or is_allowed or before - rows <= limits.max_drop.of(before):
        return
    message = (
        f"{has}, {_percent(before - rows, before)} fewer than the {before:,} of the last version; "
        f"max-drop is {limits.max_drop.text}"
    )
    figures: dict[str, Figure] = {"rows": rows, "previous": before, "limit": limits.max_drop.text}
    yield _finding(limits, "max-drop", subject, message, figures)


@dataclass(frozen=True, slots=True)
class _SourceCheck:
    """The checks of one source against its limits and the last version."""

    source: SourceMeasure
    limits: GuardLimits
    measures: Measures
    previous: Measures | None

    def findings(self) -> Iterator[GuardFinding]:
        rows, before = self._rows()
        if self._is_emptied(rows, before):
            yield self._emptied(before or 0)
        else:
            yield from _limit_findings(self.source.source, rows, before, self.limits)
        yield from self._rejected()
        yield from self._age()

    def _rows(self) -> tuple[int, int | None]:
        """Return the rows now and in the last version.

        A source that the last version does not have may have got another path: then all sources of the
        predicate are compared.
        """
        source = self.source
        if self.previous is None:
            return source.rows, None
        same = [old.rows for old in self.previous.sources if old.source == source.source]
        if same:
            return source.rows, sum(same)
        before = [old.rows for old in self.previous.sources if old.predicate == source.predicate]
        if not before:
            return source.rows, None
        now = sum(new.rows for new in self.measures.sources if new.predicate == source.predicate)
        return now, sum(before)

    def _is_emptied(self, rows: int, before: int | None) -> bool:
        return not rows and bool(before) and not self.limits.allow_empty

    def _emptied(self, before: int) -> GuardFinding:
        source = self.source
        reason = "has no rows" if not source.read else f"has no rows left of {source.read:,}"
        message = f"`{source.source}` {reason}, and had {before:,} in the last version"
        help = f"if that is right, set `allow-empty = true` in the [[source]] of `{source.predicate}`"
        # `allow-empty` permits it; `on-guard` only applies to limits that are set.
        failing = replace(self.limits, severity=GuardSeverity.FAIL)
        figures: dict[str, Figure] = {"rows": 0, "previous": before}
        return _finding(failing, EMPTIED, source.source, message, figures, help)

    def _rejected(self) -> Iterator[GuardFinding]:
        source, limit = self.source, self.limits.max_rejected
        if limit is None or source.rejected <= limit.of(source.read):
            return
        message = (
            f"{source.rejected:,} of {counted(source.read, 'row')} of `{source.source}` were rejected "
            f"({_percent(source.rejected, source.read)}), more than max-rejected = {limit.text}"
        )
        figures: dict[str, Figure] = {"rejected": source.rejected, "read": source.read, "limit": limit.text}
        yield _finding(self.limits, "max-rejected", source.source, message, figures)

    def _age(self) -> Iterator[GuardFinding]:
        source, limit, now = self.source, self.limits.max_age, self.measures.taken
        if limit is None:
            return
        if source.newest is None or now is None:
            message = f"the age of the data of `{source.source}` is unknown, and max-age is set"
            help = "only files and tables with commits have a time; remove max-age for other sources"
            yield _finding(self.limits, "max-age", source.source, message, {}, help)
        elif now - source.newest > limit:
            age, most = _duration(now - source.newest), _duration(limit)
            newest = source.newest.isoformat(timespec="seconds")
            message = f"the newest data of `{source.source}` is {age} old, of {newest}; max-age is {most}"
            figures: dict[str, Figure] = {"newest": newest, "age": age, "limit": most}
            yield _finding(self.limits, "max-age", source.source, message, figures)


def _violation_findings(expectation: Expectation, measures: Measures) -> Iterator[GuardFinding]:
    violations = measures.violations.get(expectation.predicate)
    if violations is None or not violations.rows:
        return
    of = expectation.of or ""
    dropped = measures.dropped.get(of, 0)
    total = measures.predicates.get(of, 0) + dropped
    severity, limit = expectation.severity, ""
    if expectation.max_rows is not None:
        is_over = violations.rows > expectation.max_rows.of(total)
        limit = f", {'more than' if is_over else 'within'} max-rows = {expectation.max_rows.text}"
        if is_over:
            severity = GuardSeverity.FAIL
        elif severity is GuardSeverity.FAIL:
            severity = GuardSeverity.WARN
    name = f" ({expectation.name})" if expectation.name else ""
    message = f"{counted(violations.rows, 'row')} of `{expectation.predicate}`{name}{limit}"
    if expectation.predicate == BOTTOM:
        message = f"{counted(violations.rows, 'constraint')} violated{name}{limit}"
    figures: dict[str, Figure] = {"rows": violations.rows}
    if expectation.of is not None:
        figures |= {"of": of, "total": total}
    help = None
    if severity is GuardSeverity.DROP:
        figures["dropped"] = dropped
        help = f"of `{of}` {counted(dropped, 'row')} of {total:,} dropped: see the table `{of}_dropped`"
    span = expectation.spans.get("predicate")
    samples = violations.samples[:MOST_SAMPLES]
    yield GuardFinding(
        severity,
        EXPECT,
        expectation.shown,
        message,
        figures,
        _place(span),
        violations.columns,
        samples,
        help,
        span,
    )


def _finding(
    limits: GuardLimits,
    guard: str,
    subject: str,
    message: str,
    figures: Mapping[str, Figure],
    help: str | None = None,
) -> GuardFinding:
    span = limits.spans.get(guard) or limits.spans.get("predicate")
    return GuardFinding(limits.severity, guard, subject, message, figures, _place(span), help=help, span=span)


def _place(span: Span | None) -> str | None:
    return None if span is None else Diagnostic("", "", span).location


def _percent(part: int, whole: int) -> str:
    """Format a share.

    >>> _percent(300, 1000), _percent(1, 3000)
    ('30 %', '0.033 %')
    """
    return f"{100 * part / whole:.2g} %" if part * 100 < whole else f"{100 * part / whole:.3g} %"


def _duration(length: timedelta) -> str:
    """Format a duration in a suitable unit.

    >>> _duration(timedelta(hours=36)), _duration(timedelta(seconds=90))
    ('36 h', '1.5 min')
    """
    seconds = length.total_seconds()
    unit = next((name for name in ("h", "min") if seconds >= _SECONDS[name]), "s")
    return f"{round(seconds / _SECONDS[unit], 1):g} {unit}"


_LIMITS: Final = ("min-rows", "max-rows", "max-drop")
_AMOUNT_HELP: Final = 'write a number of rows, such as 100, or a share, such as "20 %"'

# ---- job files


def source_limits(table: TomlTable) -> GuardLimits:
    """Return the guards in a `[[source]]` of a job file; errors are added to its document."""
    limits = _limits(table)
    allow_empty = table.flag("allow-empty") is True
    if allow_empty and limits.min_rows:
        table.wrong("allow-empty", "contradicts `min-rows`", "remove one of the two")
    return replace(
        limits,
        max_rejected=_amount(table, "max-rejected"),
        max_age=_age(table),
        allow_empty=allow_empty,
        spans=_spans(table, (*_LIMITS, "max-rejected", "max-age", "allow-empty", "predicate")),
    )


def read_guards(root: TomlTable, sources: Mapping[str, GuardLimits] | None = None) -> Guards:
    """Return the guards of a job file: its `[[guard]]` and `[[expect]]`, and those of its sources."""
    predicates: dict[str, GuardLimits] = {}
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


def _limits(table: TomlTable) -> GuardLimits:
    least, most = table.count("min-rows"), table.count("max-rows")
    if least is not None and most is not None and least > most:
        table.wrong("max-rows", "is less than `min-rows`")
    severity = table.choice("on-guard", (GuardSeverity.FAIL, GuardSeverity.WARN), GuardSeverity.FAIL)
    return GuardLimits(least, most, _amount(table, "max-drop"), severity=GuardSeverity(severity))


def _expectation(table: TomlTable) -> Expectation:
    predicate = table.required("predicate", "name the predicate that should be empty")
    severity = GuardSeverity(table.choice("severity", tuple(GuardSeverity), GuardSeverity.FAIL))
    expectation = Expectation(
        predicate,
        severity,
        table.text("name"),
        table.text("of"),
        table.columns("columns"),
        _amount(table, "max-rows"),
        _spans(table, ("predicate", "severity", "of", "columns", "max-rows")),
    )
    if severity is GuardSeverity.DROP:
        if "of" not in table:
            table.missing("of", "name the predicate whose rows are dropped")
        if predicate == BOTTOM:
            table.wrong("severity", f"cannot be `drop` for `{BOTTOM}`, which names no rows")
    else:
        table.refuse(("columns",), 'requires severity = "drop"')
        most = expectation.max_rows
        if most is not None and most.share is not None and "of" not in table:
            table.missing("of", "name the predicate of whose rows `max-rows` is a share")
    table.close()
    return expectation


def _amount(table: TomlTable, key: str) -> Amount | None:
    if key not in table:
        table.text(key)  # marks the key as valid
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


def _age(table: TomlTable) -> timedelta | None:
    text = table.text("max-age")
    try:
        return None if text is None else read_duration(text)
    except ValueError:
        table.wrong("max-age", f"is not a duration: `{text}`", 'write "90 min", "24 h" or "7 d"')
        return None


def _written(table: TomlTable, key: str) -> object:
    """Return the value of a key, of any type."""
    values: Any = table.document.values
    for part in table.path:
        values = values[part]
    return values[key]


def _spans(table: TomlTable, keys: Iterable[str]) -> dict[str, Span]:
    return {key: table.document.span((*table.path, key)) for key in keys if key in table}


# ---- the program


def resolve(guards: Guards, program: Program) -> Guards:
    """Return the guards with the full names of predicates, and with `drops`.

    Raise `DataError` with all names in them that the program does not have.
    """
    names = _Names(program)
    predicates = {
        names.find(name, limits.spans.get("predicate")).name: limits
        for name, limits in guards.predicates.items()
    }
    expectations: list[Expectation] = []
    drops: list[Drop] = []
    for expectation in guards.expectations:
        if expectation.predicate == BOTTOM:
            expectations.append(expectation)
            continue
        violation = names.find(expectation.predicate, expectation.spans.get("predicate"))
        of = None if expectation.of is None else names.find(expectation.of, expectation.spans.get("of"))
        if expectation.severity is GuardSeverity.DROP and of is not None:
            pairs = names.pairs(expectation, violation, of)
            drops.append(
                Drop(of.name, violation.name, pairs, expectation.shown, expectation.spans.get("severity"))
            )
        expectations.append(
            replace(expectation, predicate=violation.name, of=None if of is None else of.name)
        )
    if names.faults:
        raise DataError(sorted(names.faults, key=lambda item: item.span.start if item.span else 0))
    return replace(guards, predicates=predicates, expectations=tuple(expectations), drops=tuple(drops))


class _Names:
    """The names of a program, and errors for those that it does not have. Mutable."""

    def __init__(self, program: Program) -> None:
        self.program = program
        self.faults: list[Diagnostic] = []

    def find(self, name: str, span: Span | None) -> Predicate:
        predicate = self.program.find(name)
        if predicate is not None:
            return predicate
        names = [each.written for each in self.program.predicates.values()]
        self._fault(f"the program has no predicate `{name}`", span, suggest(name, names))
        return Predicate(name, 0, (), (), name)

    def pairs(
        self, expectation: Expectation, violation: Predicate, of: Predicate
    ) -> tuple[tuple[int, int], ...]:
        if not violation.arity or not of.arity:
            return ()
        span = expectation.spans.get("columns") or expectation.spans.get("of")
        column_pairs = self._named(expectation, violation, of)
        positions = []
        for left, right in column_pairs.items():
            for name, predicate in ((left, violation), (right, of)):
                if name not in predicate.names:
                    message = f"`{predicate.written}` has no column `{name}`"
                    help = suggest(name, predicate.names) or f"its columns are {', '.join(predicate.names)}"
                    self._fault(message, span, help)
                    break
            else:
                positions.append((violation.names.index(left), of.names.index(right)))
        if not column_pairs:
            message = f"no column of `{violation.written}` has the name of a column of `{of.written}`"
            help = f'say which of its columns name the rows to leave out: columns = ["{of.names[0]}"]'
            self._fault(message, span, help)
        return tuple(positions)

    def _named(self, expectation: Expectation, violation: Predicate, of: Predicate) -> dict[str, str]:
        if expectation.columns is None:
            shared = (name for name in violation.columns if name is not None and name in of.columns)
            return {name: name for name in shared}
        if isinstance(expectation.columns, tuple):
            if len(expectation.columns) > violation.arity:
                width = counted(violation.arity, "column")
                self._fault(f"`{violation.written}` has only {width}", expectation.spans.get("columns"), None)
            return dict(zip(violation.names, expectation.columns, strict=False))
        return dict(expectation.columns)

    def _fault(self, message: str, span: Span | None, help: str | None) -> None:
        self.faults.append(Diagnostic(codes.NO_PREDICATE, message, span, help))
