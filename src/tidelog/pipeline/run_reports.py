"""Reports of runs: what was read, derived and published, and what guards found; OpenLineage events.

A report is data, written as JSON, which `read_report` reads again; `operating` makes a page of it. A log has
one line for each run that began and one for each that ended, so that a killed run shows. An OpenLineage event
is JSON, made by `start_event` and `end_event`, and goes to a file or to a server by `emit`; errors there are
warnings: lineage is worth less than the run. Its structure is that of the OpenLineage specification 2-0-2 and
of its facets.
"""

from __future__ import annotations

import http.client
import json
import os
import threading
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, dataclass, fields
from datetime import datetime
from enum import StrEnum
from pathlib import Path
from typing import Any, Final, TypeVar
from urllib.parse import urlsplit
from uuid import UUID

from tidelog import __version__
from tidelog.durable import append_line
from tidelog.errors import DataError, Diagnostic, Severity, codes
from tidelog.pipeline.guards import Assertion, GuardFinding, GuardSeverity, Measures, SourceMeasure
from tidelog.pipeline.job_settings import OpenLineageSettings
from tidelog.show.column_lineage import ColumnOrigin, How, Lineage, PredicateDependency

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
    findings: tuple[GuardFinding, ...] = ()
    assertions: tuple[Assertion, ...] = ()
    dependencies: tuple[PredicateDependency, ...] = ()
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
    """Return the report of which `to_json` made these values; raise `DataError` if they are no report."""
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
        "dependencies": _parts(PredicateDependency, values),
        "findings": tuple(_finding(one) for one in values.get("findings", ())),
        "assertions": tuple(
            Assertion(one["subject"], one["guard"], one["holds"], GuardSeverity(one["severity"]))
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
    PredicateDependency: "dependencies",
}


def _parts(kind: type[Part], values: Mapping[str, Any]) -> tuple[Part, ...]:
    return tuple(_made(kind, one) for one in values.get(_KEYS[kind], ()))


def _made(kind: type[Part], values: Mapping[str, Any]) -> Part:
    """Return an object of the values that its class knows: a later version may have written more."""
    known = {one.name for one in fields(kind)}  # type: ignore[arg-type]
    return kind(**{key: value for key, value in values.items() if key in known})


def _finding_to_json(finding: GuardFinding) -> dict[str, Any]:
    keys = ("severity", "guard", "subject", "message", "place", "help")
    values = {key: getattr(finding, key) for key in keys}
    return {
        **values,
        "figures": dict(finding.figures),
        "columns": list(finding.columns),
        "samples": [list(sample) for sample in finding.samples],
    }


def _finding(values: Mapping[str, Any]) -> GuardFinding:
    return GuardFinding(
        GuardSeverity(values["severity"]),
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


# ---- the log


def append(path: Path, event: Mapping[str, Any]) -> None:
    """Append an event to a log, as one line that is on the disk when this returns."""
    append_line(path, json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode())


def log_start(folder: Path, job: str, run: str, started: str, attempt: int = 1) -> None:
    """Note in the log of a folder that a run begins."""
    event = {"event": STARTED, "job": job, "run": run, "started": started, "attempt": attempt}
    append(folder / LOG, event)


@dataclass(frozen=True)
class RunLog:
    """The runs in a log, in the order in which they ended.

    `unfinished` are the ids of runs that began and did not end: they still run, or were killed. `damaged`
    lines cannot be read: a crash left them unfinished.
    """

    runs: tuple[RunReport, ...]
    unfinished: tuple[str, ...]
    damaged: int = 0


def read_log(path: Path) -> RunLog:
    """Return the runs in a log; a missing one has none."""
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
    return RunLog(tuple(runs), tuple(run for run, _ in begun), damaged)


# ---- OpenLineage: which datasets a run reads and writes, and which columns come from which.

PRODUCER: Final = f"urn:tidelog:{__version__}"
SPECIFICATION: Final = "https://openlineage.io/spec/2-0-2/OpenLineage.json"
_FACETS: Final = "https://openlineage.io/spec/facets"
_OBJECT_STORES: Final = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs", "abfss": "abfss", "wasbs": "wasbs"}
_DATABASES: Final = {"postgresql": "postgres"}  # where OpenLineage has another name than JDBC
_PATTERN: Final = frozenset("*?[{")

Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class DatasetField:
    """A column of a dataset, and its type as its owner calls it."""

    name: str
    type: str | None = None


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset that a run reads or writes, as the facts of a predicate.

    `fields` are its columns, in the order of the predicate's columns, by the names that they have there.
    `source` is what the report calls it, of an input.
    """

    namespace: str
    name: str
    predicate: str
    fields: tuple[DatasetField, ...] = ()
    source: str | None = None


@dataclass(frozen=True, slots=True)
class ParentRun:
    """The run of a scheduler that started this run."""

    namespace: str
    name: str
    run: str


@dataclass(frozen=True)
class LineageJob:
    """What runs: its name in OpenLineage, what it reads and writes, and who started it."""

    namespace: str
    name: str
    inputs: tuple[Dataset, ...] = ()
    outputs: tuple[Dataset, ...] = ()
    parent: ParentRun | None = None
    is_streaming: bool = False


def read_parent(text: str) -> ParentRun | None:
    """Return the parent run that `OPENLINEAGE_PARENT_ID` names as `namespace/job/run`, if it names one.

    >>> read_parent("airflow/shop.orders/3b452093-782c-4ef2-9c0c-aafe2aa6f34d").name
    'shop.orders'
    """
    start, _, run = text.rpartition("/")
    namespace, _, name = start.rpartition("/")
    try:
        return ParentRun(namespace, name, str(UUID(run))) if namespace and name else None
    except ValueError:
        return None


def dataset_name(place: str, table: str | None = None) -> tuple[str, str]:
    """Return the namespace and the name that OpenLineage has for a file, a folder or a table of a database.

    Paths must be absolute. A pattern becomes the folder before it. Users, passwords and options in addresses
    are left out.

    >>> dataset_name("/data/orders/part-*.csv"), dataset_name("s3a://sales/orders/day.csv")
    (('file', '/data/orders'), ('s3://sales', 'orders/day.csv'))
    >>> dataset_name("jdbc:postgresql://me:secret@db:5432/shop?ssl=true", "public.orders")
    ('postgres://db:5432', 'shop.public.orders')
    """
    if place.startswith("jdbc:"):
        return _database(place.removeprefix("jdbc:"), table)
    scheme, separator, rest = place.partition("://")
    if not separator:
        return "file", _folder(place)
    authority, slash, path = rest.partition("/")
    if scheme == "file":
        return "file", _folder(slash + path)
    scheme = _OBJECT_STORES.get(scheme, scheme)
    if scheme not in ("abfss", "wasbs"):  # before their @ is a container, in other schemes a user
        authority = authority.rpartition("@")[2]
    folder = _folder(slash + path)
    return f"{scheme}://{authority}", folder.lstrip("/") if scheme in _OBJECT_STORES.values() else folder


def _database(address: str, table: str | None) -> tuple[str, str]:
    parts = urlsplit(address)
    if not parts.netloc:  # such as jdbc:sqlite:people.db
        return parts.scheme or "jdbc", ".".join(filter(None, (parts.path.partition(";")[0], table)))
    authority = parts.netloc.rpartition("@")[2].partition(";")[0]
    database = parts.path.strip("/").partition(";")[0]
    name = ".".join(filter(None, (database, table)))
    return f"{_DATABASES.get(parts.scheme, parts.scheme)}://{authority}", name


def _folder(path: str) -> str:
    """Return a path, or the folder before a pattern in it."""
    kept = []
    for part in path.split("/"):
        if _PATTERN & set(part):
            break
        kept.append(part)
    return "/".join(kept) or "/"


# ---- events


def start_event(job: LineageJob, run: str, at: str) -> Event:
    """Return the event of a run that begins; `run` is a UUID, `at` a time as ISO 8601 with a time zone."""
    event = _event("START", job, run, at)
    event["inputs"] = [_dataset(one) for one in job.inputs]
    event["outputs"] = [_dataset(one) for one in job.outputs]
    return event


def end_event(job: LineageJob, report: RunReport, lineage: Lineage, at: str) -> Event:
    """Return the event of a run that has ended: `COMPLETE`, or `FAIL` if it failed or was refused.

    Outputs are named if they were written: a run without changes writes none.
    """
    failed = report.outcome in (Outcome.FAILED, Outcome.REFUSED)
    event = _event("FAIL" if failed else "COMPLETE", job, report.run, at)
    event["run"]["facets"]["tidelog_run"] = _facet(
        f"{SPECIFICATION}#/$defs/RunFacet",
        outcome=str(report.outcome),
        version=report.version,
        strategy=report.strategy,
        seconds=report.seconds,
        findings=[
            {
                "severity": str(one.severity),
                "guard": one.guard,
                "subject": one.subject,
                "message": one.message,
            }
            for one in report.findings
        ],
    )
    if failed:
        message = report.error or "; ".join(one.message for one in report.findings if one.is_failure)
        event["run"]["facets"]["errorMessage"] = _named_facet(
            "1-0-0", "ErrorMessageRunFacet", message=message, programmingLanguage="PYTHON"
        )
    event["inputs"] = [_input(one, report) for one in job.inputs]
    written = job.outputs if report.outcome is Outcome.PUBLISHED else ()
    event["outputs"] = [_output(one, job, report, lineage) for one in written]
    return event


def _event(kind: str, job: LineageJob, run: str, at: str) -> Event:
    facets = {
        "processing_engine": _named_facet(
            "1-1-0", "ProcessingEngineRunFacet", name="tidelog", version=__version__
        )
    }
    if job.parent is not None:
        facets["parent"] = _named_facet(
            "1-0-1",
            "ParentRunFacet",
            run={"runId": job.parent.run},
            job={"namespace": job.parent.namespace, "name": job.parent.name},
        )
    job_type = _named_facet(
        "2-0-4",
        "JobTypeJobFacet",
        processingType="STREAMING" if job.is_streaming else "BATCH",
        integration="TIDELOG",
        jobType="JOB",
    )
    return {
        "eventType": kind,
        "eventTime": at,
        "producer": PRODUCER,
        "schemaURL": f"{SPECIFICATION}#/$defs/RunEvent",
        "run": {"runId": run, "facets": facets},
        "job": {"namespace": job.namespace, "name": job.name, "facets": {"jobType": job_type}},
    }


def _dataset(one: Dataset) -> dict[str, Any]:
    facets = {}
    if one.fields:
        fields = [
            {"name": field.name} | ({} if field.type is None else {"type": field.type})
            for field in one.fields
        ]
        facets["schema"] = _named_facet("1-0-0", "SchemaDatasetFacet", fields=fields)
    return {"namespace": one.namespace, "name": one.name, "facets": facets}


def _input(one: Dataset, report: RunReport) -> dict[str, Any]:
    dataset = _dataset(one)
    facets = {}
    for source in report.sources:
        if source.source == one.source:
            rows = source.rows + source.rejected + source.filtered
            facets["dataQualityMetrics"] = _named_facet(
                "1-0-2", "DataQualityMetricsInputDatasetFacet", rowCount=rows, columnMetrics={}
            )
    checks = [
        {"assertion": check.guard, "success": check.holds}
        for check in report.assertions
        if check.subject == one.source
    ]
    if checks:
        facets["dataQualityAssertions"] = _named_facet(
            "1-0-0", "DataQualityAssertionsDatasetFacet", assertions=checks
        )
    return {**dataset, "inputFacets": facets}


def _output(one: Dataset, job: LineageJob, report: RunReport, lineage: Lineage) -> dict[str, Any]:
    dataset = _dataset(one)
    if report.version is not None:
        dataset["facets"]["version"] = _named_facet(
            "1-0-0", "DatasetVersionDatasetFacet", datasetVersion=str(report.version)
        )
    columns = _column_lineage(one, job.inputs, lineage)
    if columns is not None:
        dataset["facets"]["columnLineage"] = columns
    facets = {}
    for figures in report.predicates:
        if figures.predicate == one.predicate:
            facets["outputStatistics"] = _named_facet(
                "1-0-0", "OutputStatisticsOutputDatasetFacet", rowCount=figures.rows
            )
    return {**dataset, "outputFacets": facets}


def _column_lineage(one: Dataset, inputs: Sequence[Dataset], lineage: Lineage) -> dict[str, Any] | None:
    """Return the facet of column lineage: origins that all columns share are listed once."""
    columns = list(lineage.of(one.predicate).values())
    if not columns or len(columns) != len(one.fields):
        return None
    shared = set(columns[0]).intersection(*columns[1:])
    common = {origin for origin in shared if not origin.how.is_direct}
    places = _Inputs(inputs, lineage)
    fields = {
        field.name: {"inputFields": places.fields(origin for origin in origins if origin not in common)}
        for field, origins in zip(one.fields, columns, strict=True)
    }
    facet = _named_facet("1-2-0", "ColumnLineageDatasetFacet", fields=fields)
    if common:
        facet["dataset"] = places.fields(sorted(common))
    return facet


class _Inputs:
    """The columns of inputs, by the names that they have in their datasets."""

    def __init__(self, inputs: Sequence[Dataset], lineage: Lineage) -> None:
        self.inputs = inputs
        self.places = {
            (predicate, name): place
            for predicate in {one.predicate for one in inputs}
            for place, name in enumerate(lineage.of(predicate))
        }

    def fields(self, origins: Iterable[ColumnOrigin]) -> list[dict[str, Any]]:
        """Return the fields of datasets that these origins are, each with how it takes part."""
        found: dict[tuple[str, str, str], list[How]] = {}
        for origin in origins:
            column = origin.column
            place = self.places.get((column.predicate, column.name))
            for one in self.inputs:
                if one.predicate == column.predicate and place is not None and place < len(one.fields):
                    key = one.namespace, one.name, one.fields[place].name
                    hows = found.setdefault(key, [])
                    if origin.how not in hows:
                        hows.append(origin.how)
        return [
            {"namespace": key[0], "name": key[1], "field": key[2], "transformations": _transformations(hows)}
            for key, hows in found.items()
        ]


def _transformations(hows: Iterable[How]) -> list[dict[str, str]]:
    return [{"type": "DIRECT" if how.is_direct else "INDIRECT", "subtype": str(how)} for how in hows]


def _named_facet(of: str, kind: str, /, **values: Any) -> dict[str, Any]:
    return _facet(f"{_FACETS}/{of}/{kind}.json#/$defs/{kind}", **values)


def _facet(schema: str, /, **values: Any) -> dict[str, Any]:
    return {"_producer": PRODUCER, "_schemaURL": schema, **values}


# ---- sending events


def emit(
    event: Event, settings: OpenLineageSettings, folder: Path, environment: Mapping[str, str] = os.environ
) -> tuple[Diagnostic, ...]:
    """Write and send an event as the settings say; return a warning for each place that did not take it.

    A relative file lies in `folder`. No error is raised, and no more time is spent than `settings.seconds`.
    """
    warnings = []
    if settings.file is not None:
        path = folder / settings.file
        try:
            append(path, event)
        except OSError as error:
            warnings.append(_warning(str(path), error.strerror or str(error)))
    if settings.url is not None:
        key = environment.get(settings.key_variable) if settings.key_variable else None
        address = f"{settings.url.rstrip('/')}/{settings.endpoint.lstrip('/')}"
        reason = _within(settings.seconds, lambda: _post(address, event, key, settings.seconds))
        if reason is not None:
            warnings.append(_warning(_shown(address), reason))
    return tuple(warnings)


def _post(address: str, event: Event, key: str | None, seconds: float) -> str | None:
    """Send an event; return why it was not taken, or None."""
    headers = {"Content-Type": "application/json"}
    if key is not None:
        headers["Authorization"] = f"Bearer {key}"
    request = urllib.request.Request(address, json.dumps(event).encode(), headers, method="POST")
    try:
        with urllib.request.urlopen(request, timeout=seconds):
            return None
    except TimeoutError:
        return f"no answer within {seconds:g} s"
    except (OSError, ValueError, http.client.HTTPException) as error:
        return str(getattr(error, "reason", None) or error) or type(error).__name__


def _within(seconds: float, work: Callable[[], str | None]) -> str | None:
    """Return what work returns, or that it took too long.

    The limit of a socket is one for each of its operations: a server that sends a byte now and then would
    hold up the run for as long as it likes.
    """
    found: list[str | None] = []
    thread = threading.Thread(target=lambda: found.append(work()), daemon=True)
    thread.start()
    thread.join(seconds)
    return found[0] if found else f"no answer within {seconds:g} s"


def _warning(place: str, reason: str) -> Diagnostic:
    message = f"the OpenLineage event was not accepted: {reason}"
    return Diagnostic(codes.NOT_SENT, message, severity=Severity.WARNING, place=place)


def _shown(address: str) -> str:
    """Return an address without user and password."""
    parts = urlsplit(address)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
