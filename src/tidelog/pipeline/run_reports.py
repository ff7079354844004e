"""Reports of runs: rows read, derived and published, and findings of guards; OpenLineage events.

A report is data, written as JSON, which `read_report` reads back; `operating` renders it as a page. A log has
one line for each run that began and one for each that ended, which reveals killed runs. An OpenLineage event
is JSON, created by `start_event` and `end_event`, and sent to a file or a server by `emit`; errors there are
warnings, as lineage must not fail a run. Its structure is that of the OpenLineage specification 2-0-2 and
of its facets.
"""

from __future__ import annotations

import http.client
import json
import os
import threading
import urllib.request
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import asdict, fields
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
from tidelog.records import dataclass
from tidelog.show.column_lineage import ColumnOrigin, How, Lineage, PredicateDependency

FORMAT: Final = "tidelog-run"
VERSION: Final = 1  # of the JSON; a new key does not change it
LOG: Final = "runs.jsonl"
STARTED: Final = "started"
FINISHED: Final = "finished"


class Outcome(StrEnum):
    """How a run ended."""

    PUBLISHED = "published"
    UNCHANGED = "unchanged"  # nothing had changed: there is no new version
    REFUSED = "refused"  # a guard or expectation does not hold: nothing was published
    FAILED = "failed"


@dataclass(frozen=True, slots=True)
class SourceReport:
    """The counts of a source. An unchanged one was not read, and has its former counts."""

    source: str
    predicate: str
    rows: int
    rejected: int = 0
    filtered: int = 0
    seconds: float | None = None
    newest: str | None = None  # time of its newest file or last commit, as ISO 8601
    was_read: bool = True


@dataclass(frozen=True, slots=True)
class PredicateReport:
    """The published counts of a predicate; expectations have left out the `dropped` rows."""

    predicate: str
    rows: int
    inserted: int = 0
    deleted: int = 0
    dropped: int = 0
    is_derived: bool = True


@dataclass(frozen=True, slots=True)
class SinkReport:
    """The rows written to a sink."""

    sink: str
    predicate: str
    rows: int | None = None


@dataclass(frozen=True, slots=True)
class StageReport:
    """A part of a run, and its duration."""

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
    version: int | None = None  # the published or current one
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
        """Return the measures with which a later run is compared, if this one was published."""
        sources = (
            SourceMeasure(
                source.source,
                source.predicate,
                source.rows,
                source.rejected,
                source.filtered,
                _time(source.newest),
            )
            for source in self.sources
        )
        return Measures(tuple(sources), {item.predicate: item.rows for item in self.predicates})


def read_report(values: object, place: str = "<report>") -> RunReport:
    """Return the report from the values of `to_json`; raise `DataError` if they are no report."""
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
        "findings": tuple(_finding(item) for item in values.get("findings", ())),
        "assertions": tuple(
            Assertion(item["subject"], item["guard"], item["holds"], GuardSeverity(item["severity"]))
            for item in values.get("assertions", ())
        ),
        "outcome": Outcome(values["outcome"]),
    }
    return _from_fields(RunReport, {**values, **parts})


Part = TypeVar("Part")
_KEYS: Final[Mapping[type, str]] = {
    SourceReport: "sources",
    PredicateReport: "predicates",
    SinkReport: "sinks",
    StageReport: "stages",
    PredicateDependency: "dependencies",
}


def _parts(kind: type[Part], values: Mapping[str, Any]) -> tuple[Part, ...]:
    return tuple(_from_fields(kind, item) for item in values.get(_KEYS[kind], ()))


def _from_fields(kind: type[Part], values: Mapping[str, Any]) -> Part:
    """Create an object from the values of its fields; ignore others, of later versions."""
    known = {item.name for item in fields(kind)}  # type: ignore[arg-type]
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


def _unreadable(message: str, place: str) -> DataError:
    return DataError(Diagnostic(codes.NOT_A_REPORT, message, place=place))


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
    """Append an event to a log durably, as one line."""
    append_line(path, json.dumps(event, ensure_ascii=False, separators=(",", ":")).encode())


def log_start(folder: Path, job: str, run: str, started: str, attempt: int = 1) -> None:
    """Append the beginning of a run to the log of a folder."""
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


# ---- OpenLineage: the datasets that a run reads and writes, and the lineage of columns.

PRODUCER: Final = f"urn:tidelog:{__version__}"
SPECIFICATION: Final = "https://openlineage.io/spec/2-0-2/OpenLineage.json"
_FACETS: Final = "https://openlineage.io/spec/facets"
_OBJECT_STORES: Final = {"s3": "s3", "s3a": "s3", "s3n": "s3", "gs": "gs", "abfss": "abfss", "wasbs": "wasbs"}
_DATABASES: Final = {"postgresql": "postgres"}  # with another name in OpenLineage than in JDBC
_PATTERN: Final = frozenset("*?[{")

Event = dict[str, Any]


@dataclass(frozen=True, slots=True)
class DatasetField:
    """A column of a dataset, and its type in the terms of its owner."""

    name: str
    type: str | None = None


@dataclass(frozen=True, slots=True)
class Dataset:
    """A dataset that a run reads or writes, as the facts of a predicate.

    `fields` are its columns, in the order of the predicate's columns, by their names in the dataset.
    `source` is the name of an input in the report.
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
    """A job: its name in OpenLineage, the datasets that it reads and writes, and its parent run."""

    namespace: str
    name: str
    inputs: tuple[Dataset, ...] = ()
    outputs: tuple[Dataset, ...] = ()
    parent: ParentRun | None = None
    is_streaming: bool = False


def read_parent(text: str) -> ParentRun | None:
    """Parse the parent run in `OPENLINEAGE_PARENT_ID`, `namespace/job/run`; None if it is none.

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
    """Return the namespace and the name in OpenLineage of a file, a folder or a table of a database.

    Paths must be absolute. A pattern becomes the folder before it. Users, passwords and options in addresses
    are left out.

    >>> dataset_name("/data/orders/part-*.csv"), dataset_name("s3a://sales/orders/day.csv")
    (('file', '/data/orders'), ('s3://sales', 'orders/day.csv'))
    >>> dataset_name("jdbc:postgresql://me:secret@db:5432/shop?ssl=true", "public.orders")
    ('postgres://db:5432', 'shop.public.orders')
    """
    if place.startswith("jdbc:"):
        return _database(place.removeprefix("jdbc:"), table)
    scheme, separator, remainder = place.partition("://")
    if not separator:
        return "file", _folder(place)
    authority, slash, path = remainder.partition("/")
    if scheme == "file":
        return "file", _folder(slash + path)
    scheme = _OBJECT_STORES.get(scheme, scheme)
    if scheme not in ("abfss", "wasbs"):  # their authority begins with a container, not a user
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
    parts = []
    for part in path.split("/"):
        if _PATTERN & set(part):
            break
        parts.append(part)
    return "/".join(parts) or "/"


# ---- events


def start_event(job: LineageJob, run: str, at: str) -> Event:
    """Return the event of a run that begins; `run` is a UUID, `at` a time as ISO 8601 with a time zone."""
    event = _event("START", job, run, at)
    event["inputs"] = [_dataset(dataset) for dataset in job.inputs]
    event["outputs"] = [_dataset(dataset) for dataset in job.outputs]
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
                "severity": str(item.severity),
                "guard": item.guard,
                "subject": item.subject,
                "message": item.message,
            }
            for item in report.findings
        ],
    )
    if failed:
        message = report.error or "; ".join(item.message for item in report.findings if item.is_failure)
        event["run"]["facets"]["errorMessage"] = _named_facet(
            "1-0-0", "ErrorMessageRunFacet", message=message, programmingLanguage="PYTHON"
        )
    event["inputs"] = [_input(item, report) for item in job.inputs]
    outputs = job.outputs if report.outcome is Outcome.PUBLISHED else ()
    event["outputs"] = [_output(item, job, report, lineage) for item in outputs]
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


def _dataset(dataset: Dataset) -> dict[str, Any]:
    facets = {}
    if dataset.fields:
        fields = [
            {"name": field.name} | ({} if field.type is None else {"type": field.type})
            for field in dataset.fields
        ]
        facets["schema"] = _named_facet("1-0-0", "SchemaDatasetFacet", fields=fields)
    return {"namespace": dataset.namespace, "name": dataset.name, "facets": facets}


def _input(dataset: Dataset, report: RunReport) -> dict[str, Any]:
    described = _dataset(dataset)
    facets = {}
    for source in report.sources:
        if source.source == dataset.source:
            rows = source.rows + source.rejected + source.filtered
            facets["dataQualityMetrics"] = _named_facet(
                "1-0-2", "DataQualityMetricsInputDatasetFacet", rowCount=rows, columnMetrics={}
            )
    checks = [
        {"assertion": check.guard, "success": check.holds}
        for check in report.assertions
        if check.subject == dataset.source
    ]
    if checks:
        facets["dataQualityAssertions"] = _named_facet(
            "1-0-0", "DataQualityAssertionsDatasetFacet", assertions=checks
        )
    return {**described, "inputFacets": facets}


def _output(dataset: Dataset, job: LineageJob, report: RunReport, lineage: Lineage) -> dict[str, Any]:
    described = _dataset(dataset)
    if report.version is not None:
        described["facets"]["version"] = _named_facet(
            "1-0-0", "DatasetVersionDatasetFacet", datasetVersion=str(report.version)
        )
    columns = _column_lineage(dataset, job.inputs, lineage)
    if columns is not None:
        described["facets"]["columnLineage"] = columns
    facets = {}
    for figures in report.predicates:
        if figures.predicate == dataset.predicate:
            facets["outputStatistics"] = _named_facet(
                "1-0-0", "OutputStatisticsOutputDatasetFacet", rowCount=figures.rows
            )
    return {**described, "outputFacets": facets}


def _column_lineage(dataset: Dataset, inputs: Sequence[Dataset], lineage: Lineage) -> dict[str, Any] | None:
    """Return the facet of column lineage: origins that all columns share are listed once."""
    columns = list(lineage.of(dataset.predicate).values())
    if not columns or len(columns) != len(dataset.fields):
        return None
    shared = set(columns[0]).intersection(*columns[1:])
    common = {origin for origin in shared if not origin.how.is_direct}
    places = _Inputs(inputs, lineage)
    fields = {
        field.name: {"inputFields": places.fields(origin for origin in origins if origin not in common)}
        for field, origins in zip(dataset.fields, columns, strict=True)
    }
    facet = _named_facet("1-2-0", "ColumnLineageDatasetFacet", fields=fields)
    if common:
        facet["dataset"] = places.fields(sorted(common))
    return facet


class _Inputs:
    """The columns of inputs, by their names in datasets."""

    def __init__(self, inputs: Sequence[Dataset], lineage: Lineage) -> None:
        self.inputs = inputs
        self.places = {
            (predicate, name): place
            for predicate in {dataset.predicate for dataset in inputs}
            for place, name in enumerate(lineage.of(predicate))
        }

    def fields(self, origins: Iterable[ColumnOrigin]) -> list[dict[str, Any]]:
        """Return the fields of datasets for these origins, each with its transformations."""
        kinds_by_field: dict[tuple[str, str, str], list[How]] = {}
        for origin in origins:
            column = origin.column
            place = self.places.get((column.predicate, column.name))
            for dataset in self.inputs:
                fields = dataset.fields
                if dataset.predicate == column.predicate and place is not None and place < len(fields):
                    key = dataset.namespace, dataset.name, fields[place].name
                    hows = kinds_by_field.setdefault(key, [])
                    if origin.how not in hows:
                        hows.append(origin.how)
        return [
            {"namespace": key[0], "name": key[1], "field": key[2], "transformations": _transformations(hows)}
            for key, hows in kinds_by_field.items()
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
    """Write and send an event by the settings; return a warning for each failure.

    A relative path is below `folder`. It raises no error, and takes at most `settings.seconds`.
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
            warnings.append(_warning(_without_credentials(address), reason))
    return tuple(warnings)


def _post(address: str, event: Event, key: str | None, seconds: float) -> str | None:
    """Send an event; return the reason of a failure, or None."""
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
    """Return the result of `work`, or the reason that it took too long.

    The timeout of a socket applies to each operation: a server that sends a byte now and then could delay
    the run for ever.
    """
    results: list[str | None] = []
    thread = threading.Thread(target=lambda: results.append(work()), daemon=True)
    thread.start()
    thread.join(seconds)
    return results[0] if results else f"no answer within {seconds:g} s"


def _warning(place: str, reason: str) -> Diagnostic:
    message = f"the OpenLineage event was not accepted: {reason}"
    return Diagnostic(codes.NOT_SENT, message, severity=Severity.WARNING, place=place)


def _without_credentials(address: str) -> str:
    """Return an address without user and password."""
    parts = urlsplit(address)
    return parts._replace(netloc=parts.netloc.rpartition("@")[2]).geturl()
