"""Reports of runs: what was read, derived and published, what guards found, and how long it took.

A report is data. It is written as JSON, which `read_report` reads again; `report_page` makes a page of it.
A log has one line for each run that began and one for each that ended, so that a run which was killed shows.
"""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TypeVar

from tidelog.errors import DataError, Diagnostic
from tidelog.pipeline import codes
from tidelog.pipeline.document import Table
from tidelog.pipeline.guards import Assertion, Finding, Measures, Severity, SourceMeasure
from tidelog.show.column_lineage import Dependency

FORMAT: Final = "tidelog-run"
VERSION: Final = 1  # of the JSON; a new key does not change it
LOG: Final = "runs.jsonl"
STARTED: Final = "started"
FINISHED: Final = "finished"


class Outcome(StrEnum):
    """How a run ended."""

    PUBLISHED = "published"
    UNCHANGED = "unchanged"  # nothing had changed: no version was made
    REFUSED = "refused"  # a guard or expectation does not hold: nothing was published
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class SourceReport:
    """What was read of a source. One that had not changed was not read, and has its figures from before."""

    source: str
    predicate: str
    rows: int
    rejected: int = 0
    filtered: int = 0
    seconds: float | None = None
    newest: str | None = None  # when its newest file or last commit was made, as ISO 8601
    was_read: bool = True


@dataclass(frozen=True, slots=True)
class PredicateReport:
    """What was published of a predicate; `dropped` rows were left out by expectations."""

    predicate: str
    rows: int
    inserted: int = 0
    deleted: int = 0
    dropped: int = 0
    is_derived: bool = True


@dataclass(frozen=True, slots=True)
class SinkReport:
    """What was written to a sink."""

    sink: str
    predicate: str
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class StageReport:
    """A part of a run, and how long it took."""

    name: str
    seconds: float
    detail: str = ""


@dataclass(frozen=True)
class RunReport:
    """One run of a job."""

    job: str
    run: str  # a UUID
    started: str  # ISO 8601, in UTC
    seconds: float
    outcome: Outcome
    engine: str = ""
    strategy: str = ""
    reason: str = ""  # for the strategy
    attempt: int = 1
    version: int | None = None  # that was published, or that is current
    parent: int | None = None
    sources: tuple[SourceReport, ...] = ()
    predicates: tuple[PredicateReport, ...] = ()
    sinks: tuple[SinkReport, ...] = ()
    stages: tuple[StageReport, ...] = ()
    findings: tuple[Finding, ...] = ()
    assertions: tuple[Assertion, ...] = ()
    dependencies: tuple[Dependency, ...] = ()
    error: str | None = None

    def to_json(self) -> dict[str, Any]:
        """Return the report as plain JSON values."""
        values = {key: value for key, value in asdict(self).items() if key != "findings"}
        values["findings"] = [_finding_to_json(finding) for finding in self.findings]
        return {"format": FORMAT, "format_version": VERSION, **values}

    def measures(self) -> Measures:
        """Return what a later run is compared with, if this one was published."""
        sources = (
            SourceMeasure(one.source, one.predicate, one.rows, one.rejected, one.filtered, _time(one.newest))
            for one in self.sources
        )
        return Measures(tuple(sources), {one.predicate: one.rows for one in self.predicates})


def read_report(values: object, place: str = "<report>") -> RunReport:
    """Return the report that `to_json` made these values of; raise `DataError` if they are no report."""
    if not isinstance(values, dict) or values.get("format") != FORMAT:
        raise _unreadable("not a report of a run", place)
    version = values.get("format_version")
    if version != VERSION:
        raise _unreadable(f"a report of version {version}; this tidelog reads version {VERSION}", place)
    try:
        return _report(values)
    except (AttributeError, KeyError, TypeError, ValueError) as error:
        raise _unreadable(f"a report that is not complete: {error}", place) from None


def _report(values: Mapping[str, Any]) -> RunReport:
    parts: dict[str, Any] = {
        "sources": _parts(SourceReport, values),
        "predicates": _parts(PredicateReport, values),
        "sinks": _parts(SinkReport, values),
        "stages": _parts(StageReport, values),
        "dependencies": _parts(Dependency, values),
        "findings": tuple(_finding(one) for one in values.get("findings", ())),
        "assertions": tuple(
            Assertion(one["subject"], one["guard"], one["holds"], Severity(one["severity"]))
            for one in values.get("assertions", ())
        ),
        "outcome": Outcome(values["outcome"]),
    }
    return _made(RunReport, {**values, **parts})


Part = TypeVar("Part")
_KEYS: Final[Mapping[type, str]] = {
    SourceReport: "sources",
    PredicateReport: "predicates",
    SinkReport: "sinks",
    StageReport: "stages",
    Dependency: "dependencies",
}


def _parts(kind: type[Part], values: Mapping[str, Any]) -> tuple[Part, ...]:
    return tuple(_made(kind, one) for one in values.get(_KEYS[kind], ()))


def _made(kind: type[Part], values: Mapping[str, Any]) -> Part:
    """Return an object of the values that its class knows: a later version may have written more."""
    known = {one.name for one in fields(kind)}  # type: ignore[arg-type]
    return kind(**{key: value for key, value in values.items() if key in known})


def _finding_to_json(finding: Finding) -> dict[str, Any]:
    keys = ("severity", "guard", "subject", "message", "place", "help")
    values = {key: getattr(finding, key) for key in keys}
    return {
        **values,
        "figures": dict(finding.figures),
        "columns": list(finding.columns),
        "samples": [list(sample) for sample in finding.samples],
    }


def _finding(values: Mapping[str, Any]) -> Finding:
    return Finding(
        Severity(values["severity"]),
        values["guard"],
        values["subject"],
        values["message"],
        dict(values.get("figures", {})),
        values.get("place"),
        tuple(values.get("columns", ())),
        tuple(tuple(sample) for sample in values.get("samples", ())),
        values.get("help"),
    )


def _time(text: str | None) -> datetime | None:
    return None if text is None else datetime.fromisoformat(text)


def _unreadable(what: str, place: str) -> DataError:
    return DataError(Diagnostic(codes.NOT_A_REPORT, what, place=place))


# ---- files


def report_text(report: RunReport) -> str:
    """Return the report as a JSON text."""
    return json.dumps(report.to_json(), indent=2, ensure_ascii=False) + "\n"


def load_report(path: Path) -> RunReport:
    """Return the report in a JSON file."""
    try:
        return read_report(json.loads(path.read_text(encoding="utf-8")), str(path))
    except OSError as error:
        raise _unreadable(f"a report that cannot be read: {error.strerror}", str(path)) from error
    except ValueError:
        raise _unreadable("not JSON", str(path)) from None


def read_report_folder(table: Table | None) -> str | None:
    """Return the folder of reports that the `[report]` of a job file names, if there is one."""
    if table is None:
        return None
    folder = table.required("folder", 'name the folder of reports: folder = "reports"')
    table.close()
    return folder or None


# ---- the log


def append(path: Path, event: Mapping[str, Any]) -> None:
    """Append an event to a log, as one line that is on the disk when this returns.

    The line is written in one call to a file that is open for appending, so that lines of two processes do
    not mix. What a crash has left of a line before is ended first.
    """
    path.parent.mkdir(parents=True, exist_ok=True)
    line = json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode() + b"\n"
    descriptor = os.open(path, os.O_RDWR | os.O_CREAT | os.O_APPEND, 0o644)
    try:
        size = os.fstat(descriptor).st_size
        if size and os.pread(descriptor, 1, size - 1) != b"\n":
            line = b"\n" + line
        while line:
            line = line[os.write(descriptor, line) :]
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def log_start(folder: Path, job: str, run: str, started: str, attempt: int = 1) -> None:
    """Note in the log of a folder that a run begins."""
    event = {"event": STARTED, "job": job, "run": run, "started": started, "attempt": attempt}
    append(folder / LOG, event)


@dataclass(frozen=True)
class Log:
    """The runs in a log, in the order in which they ended.

    `unfinished` are the ids of runs that began and did not end: they go on, or were killed. `damaged` lines
    cannot be read: a crash left them unfinished.
    """

    runs: tuple[RunReport, ...]
    unfinished: tuple[str, ...]
    damaged: int = 0


def read_log(path: Path) -> Log:
    """Return the runs in a log; one that is not there has none."""
    runs: list[RunReport] = []
    begun: dict[tuple[str, int], None] = {}
    damaged = 0
    lines = path.read_bytes().split(b"\n") if path.exists() else []
    for number, line in enumerate(lines, 1):
        if not line:
            continue
        try:
            event = json.loads(line)
        except ValueError:
            event = None
        if not isinstance(event, dict):
            damaged += 1
        elif event.get("event") == STARTED:
            begun[str(event.get("run")), event.get("attempt", 1)] = None
        else:
            report = read_report(event, f"{path}:{number}")
            runs.append(report)
            begun.pop((report.run, report.attempt), None)
    return Log(tuple(runs), tuple(run for run, _ in begun), damaged)
