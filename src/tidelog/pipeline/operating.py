"""Runs for schedulers: attempts, the report and page of each run, a log, and OpenLineage events."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime
from html import escape
from itertools import count
from pathlib import Path
from time import perf_counter
from typing import Final
from uuid import uuid4

from tidelog.durable import replacing_text
from tidelog.errors import Diagnostic, TidelogError, counted
from tidelog.logic.program import BOTTOM, Program
from tidelog.pipeline import run_reports
from tidelog.pipeline.guards import GuardFailed, GuardFinding, assertions
from tidelog.pipeline.inputs import source_measure, source_names
from tidelog.pipeline.job import Job, Step
from tidelog.pipeline.job_run import Run, RunGuards
from tidelog.pipeline.job_settings import attempt, is_remote
from tidelog.pipeline.run_reports import (
    FINISHED,
    LOG,
    Dataset,
    DatasetField,
    Event,
    Outcome,
    PredicateReport,
    RunReport,
    SinkReport,
    SourceReport,
    StageReport,
    append,
    dataset_name,
    end_event,
    log_start,
    report_text,
    start_event,
)
from tidelog.pipeline.version_folder import InputRecord, Manifest
from tidelog.publish.object_storage import folder_name
from tidelog.rewrite.dropped_rows import public_name, tables_of
from tidelog.show.column_lineage import PredicateDependency, lineage, published_dependencies
from tidelog.show.picture import Arrow, Box, PictureGraph
from tidelog.show.picture_formats import document, svg

# ---- The report of a run as one page of HTML, without scripts or external resources, light and dark.

MOST_BOXES: Final = 80  # with more, a table is clearer
_LONGEST: Final = 44  # characters of a name in a box
_MINUS: Final = "−"


def report_page(report: RunReport) -> str:
    """Return the report as a page."""
    sections = (
        _error(report),
        _findings(report.findings),
        _picture(report),
        _sources_section(report),
        _predicates_section(report),
        _sinks_section(report),
        _assertions(report),
        _stages_section(report),
    )
    return document(report.job, _summary(report), "".join(sections), _badge(report))


def write_report(report: RunReport, folder: Path) -> tuple[Path, Path]:
    """Write a report as JSON and as a page into a folder, and add it to the log there.

    Return the paths of the two files, whose names begin with the time of the run.
    """
    begun = datetime.fromisoformat(report.started).astimezone(UTC)
    name = f"{begun:%Y%m%dT%H%M%SZ}-{report.run[:8]}"
    paths = folder / f"{name}.json", folder / f"{name}.html"
    for path, text in zip(paths, (report_text(report), report_page(report)), strict=True):
        with replacing_text(path) as stream:
            stream.write(text.encode())
    append(folder / LOG, {"event": FINISHED, **report.to_json()})
    return paths


def _summary(report: RunReport) -> Iterator[str]:
    yield _moment(report.started)
    yield _seconds(report.seconds)
    if report.engine:
        yield report.engine + (f", {report.strategy}" if report.strategy else "")
    if report.reason:
        yield report.reason
    if report.attempt > 1:
        yield f"attempt {report.attempt}"
    yield f"run {report.run}"


def _badge(report: RunReport) -> str:
    changed = (
        sum(item.inserted for item in report.predicates),
        sum(item.deleted for item in report.predicates),
    )
    rows = counted(sum(item.rows for item in report.predicates), "row")
    match report.outcome:
        case Outcome.PUBLISHED:
            text = f"published version {report.version}: {rows}, {_signed(*changed)}"
        case Outcome.UNCHANGED:
            text = f"nothing has changed: version {report.version} is current"
        case Outcome.REFUSED:
            current = "no version" if report.parent is None else f"version {report.parent}"
            text = f"not published: {current} stays current"
        case Outcome.FAILED:
            text = "failed: nothing was published"
    name = report.outcome.replace(" ", "-")
    return f'<p class="outcome {name}">{escape(text)}</p>\n'


def _error(report: RunReport) -> str:
    """Return the error, unless it is among the findings."""
    is_reported = report.outcome is Outcome.REFUSED and any(item.is_failure for item in report.findings)
    if report.error is None or is_reported:
        return ""
    return _section("Error", f"<pre>{escape(report.error)}</pre>\n")


def _findings(findings: Sequence[GuardFinding]) -> str:
    return _section("Guards and expectations", "".join(map(_finding, findings))) if findings else ""


def _finding(finding: GuardFinding) -> str:
    tag = f'<span class="severity {finding.severity}">{finding.severity}</span>'
    place = f" <small>{escape(finding.place)}</small>" if finding.place else ""
    parts = [f"<p>{tag}{_marked(finding.message)}{place}</p>\n"]
    if finding.help:
        parts.append(f'<p class="help">{_marked(finding.help)}</p>\n')
    if finding.samples:
        names = finding.columns or tuple(f"c{place}" for place in range(1, len(finding.samples[0]) + 1))
        parts.append(_table(names, finding.samples, texts=len(names)))
    return f'<div class="finding">\n{"".join(parts)}</div>\n'


def _marked(text: str) -> str:
    """Return a text as HTML; text in backquotes becomes code."""
    pieces = escape(text).split("`")
    if len(pieces) % 2 == 0:
        return escape(text)
    return "".join(f"<code>{piece}</code>" if place % 2 else piece for place, piece in enumerate(pieces))


def _sources_section(report: RunReport) -> str:
    if not report.sources:
        return ""
    names = ("source", "predicate", "facts", "rejected", "filtered out", "newest data", "time")
    return _section("Sources", _table(names, map(_source_row, report.sources), texts=2))


def _source_row(source: SourceReport) -> tuple[str, ...]:
    time = _seconds(source.seconds) if source.seconds is not None else "" if source.was_read else "unchanged"
    figures = f"{source.rows:,}", _or_none(source.rejected), _or_none(source.filtered)
    return source.source, source.predicate, *figures, _moment(source.newest or ""), time


def _predicates_section(report: RunReport) -> str:
    if not report.predicates:
        return ""
    has_drops = any(item.dropped for item in report.predicates)
    names = ("predicate", "rows", "inserted", "deleted", *(("dropped",) if has_drops else ()))
    rows = [
        (
            item.predicate,
            f"{item.rows:,}",
            _or_none(item.inserted),
            _or_none(item.deleted),
        )
        + ((_or_none(item.dropped),) if has_drops else ())
        for item in report.predicates
    ]
    return _section("Predicates", _table(names, rows, texts=1))


def _sinks_section(report: RunReport) -> str:
    if not report.sinks:
        return ""
    rows = [
        (item.sink, item.predicate, "" if item.rows is None else f"{item.rows:,}") for item in report.sinks
    ]
    return _section("Sinks", _table(("sink", "predicate", "rows"), rows, texts=2))


def _assertions(report: RunReport) -> str:
    passed = [assertion for assertion in report.assertions if assertion.holds]
    if not passed:
        return ""
    items = (
        f"<li><code>{escape(assertion.guard)}</code> {escape(assertion.subject)}</li>" for assertion in passed
    )
    return _section("Passed", f'<ul class="held">{"".join(items)}</ul>\n')


def _stages_section(report: RunReport) -> str:
    if not report.stages:
        return ""
    longest = max(max(stage.seconds for stage in report.stages), 1e-9)
    rows = "".join(
        f"<tr><td>{escape(stage.name)}</td><td>{escape(stage.detail)}</td>"
        f'<td><meter max="1" value="{stage.seconds / longest:.3f}"></meter></td>'
        f"<td>{_seconds(stage.seconds)}</td></tr>\n"
        for stage in report.stages
    )
    head = "<tr><th>stage</th><th></th><th></th><th>time</th></tr>\n"
    return _section(
        "Stages", f'<div class="table"><table class="report stages">\n{head}{rows}</table></div>\n'
    )


def _section(title: str, body: str) -> str:
    return f"<section>\n<h2>{escape(title)}</h2>\n{body}</section>\n"


def _table(names: Iterable[str], rows: Iterable[Sequence[str]], texts: int) -> str:
    """Return a table whose first columns are texts and whose others are figures."""

    def line(cells: Iterable[str], tag: str) -> str:
        marks = (' class="text"' if place < texts else "" for place in count())
        items = (f"<{tag}{mark}>{escape(cell)}</{tag}>" for mark, cell in zip(marks, cells, strict=False))
        return f"<tr>{''.join(items)}</tr>\n"

    body = "".join(line(row, "td") for row in rows)
    return f'<div class="table"><table class="report">\n{line(names, "th")}{body}</table></div>\n'


# ---- the picture


def _picture(report: RunReport) -> str:
    graph = lineage_graph(report)
    if not graph.arrows:
        return ""
    if len(graph.boxes) > MOST_BOXES:
        note = f"{counted(len(graph.boxes), 'box', 'boxes')} are too many for a picture."
        return _section("Lineage", f'<p class="help">{note}</p>\n')
    kinds = {arrow.kind for arrow in graph.arrows}
    kinds_shown = (("~", "negated", "under negation"), ("#", "aggregated", "aggregated"))
    legend = "".join(
        f'<span><svg width="28" height="12"><path class="curve {name}" d="M1 6H27"/></svg>{text}</span>'
        for kind, name, text in kinds_shown
        if kind in kinds
    )
    legend_line = f'<div class="legend">{legend}</div>\n' if legend else ""
    return _section("Lineage", f"{legend_line}<figure>\n{svg(graph)}</figure>\n")


def lineage_graph(report: RunReport) -> PictureGraph:
    """Return the picture of a run: sources, predicates and sinks, and the arrows between them."""
    boxes: list[Box] = []
    arrows: dict[Arrow, None] = {}
    keys = {predicate.predicate: f"p{number}" for number, predicate in enumerate(report.predicates, 1)}
    for number, source in enumerate(report.sources, 1):
        remarks = [counted(source.rows, "row")]
        remarks += [f"{source.rejected:,} rejected"] if source.rejected else []
        boxes.append(Box(f"s{number}", "scan", "source", _short(source.source), tuple(remarks)))
        if source.predicate in keys:
            arrows[Arrow(f"s{number}", keys[source.predicate])] = None
    boxes += (_predicate_box(predicate, keys[predicate.predicate]) for predicate in report.predicates)
    for edge in report.dependencies:
        if edge.source in keys and edge.target in keys:
            arrows[Arrow(keys[edge.source], keys[edge.target], edge.kind)] = None
    for number, sink in enumerate(report.sinks, 1):
        remarks = [] if sink.rows is None else [counted(sink.rows, "row")]
        boxes.append(Box(f"k{number}", "answer", "sink", _short(sink.sink), tuple(remarks)))
        if sink.predicate in keys:
            arrows[Arrow(keys[sink.predicate], f"k{number}")] = None
    return PictureGraph(tuple(boxes), tuple(arrows))


def _predicate_box(item: PredicateReport, key: str) -> Box:
    kind, title = ("join", "derived") if item.is_derived else ("given", "given")
    remarks = [counted(item.rows, "row")]
    remarks += [_signed(item.inserted, item.deleted)] if item.inserted or item.deleted else []
    remarks += [f"{item.dropped:,} dropped"] if item.dropped else []
    return Box(key, kind, title, _short(item.predicate), tuple(remarks))


def _short(name: str) -> str:
    """Return a name for a box: the end of a long path, which is most specific.

    >>> _short("s3://bucket/sales/2026/11/18/europe/north/orders.csv")
    '…et/sales/2026/11/18/europe/north/orders.csv'
    """
    return name if len(name) <= _LONGEST else f"…{name[1 - _LONGEST :]}"


def _signed(inserted: int, deleted: int) -> str:
    return f"+{inserted:,} {_MINUS}{deleted:,}"


def _or_none(number: int) -> str:
    return f"{number:,}" if number else "–"


def _moment(text: str) -> str:
    """Format a time of ISO 8601 for people.

    >>> _moment("2026-11-18T16:00:00.123+00:00"), _moment("2026-11-18T16:00:00+01:00")
    ('2026-11-18 16:00:00 UTC', '2026-11-18 15:00:00 UTC')
    """
    return f"{datetime.fromisoformat(text).astimezone(UTC):%Y-%m-%d %H:%M:%S UTC}" if text else ""


def _seconds(seconds: float) -> str:
    """Format a duration for people.

    >>> _seconds(0.0042), _seconds(12.34), _seconds(4000)
    ('4 ms', '12.3 s', '66 min 40 s')
    """
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{int(seconds) // 60} min {int(seconds) % 60} s"


# ---- Runs with attempts, reports and events.

Retrying = Callable[[int, float, Exception], None]
Warn = Callable[[Diagnostic], None]


def operate(
    job: Job, name: str, full: bool, retrying: Retrying, warn: Warn, refresh: Sequence[str] = ()
) -> Run:
    """Run a job with the retries, reports and events of its settings.

    `retrying` is called before each retry, `warn` for each event that could not be sent.
    """
    run = str(uuid4())
    return attempt(
        lambda number: _Observed(job, name, run, number, warn).run(full, refresh),
        job.settings.retry,
        retrying,
    )


class _Observed:
    """One attempt. Mutable."""

    def __init__(self, job: Job, name: str, run: str, number: int, warn: Warn) -> None:
        self._job, self._name, self._run, self._number, self._warn = job, name, run, number, warn
        self._started = _now()
        self._steps: list[Step] = []
        self._program: Program | None = None
        folder = job.settings.report
        self._folder = None if folder is None else job.settings.resolve(folder)

    def run(self, full: bool, refresh: Sequence[str]) -> Run:
        """Run the job, with the log, events and the report around it."""
        job = self._job
        if self._folder is None and job.settings.openlineage is None:
            return job.run(full, refresh)
        begun = perf_counter()
        before = job.store.number
        if self._folder is not None:
            log_start(self._folder, self._name, self._run, self._started, self._number)
        job.run_guards = None
        job.listeners.append(self._steps.append)
        try:
            if job.settings.openlineage is not None:
                self._program = job.program_as_written()
                self._emit(start_event(self._described(self._program), self._run, self._started))
            result = job.run(full, refresh)
        except BaseException as error:
            refused = isinstance(error, GuardFailed)
            outcome = Outcome.REFUSED if refused else Outcome.FAILED
            text = str(error) if isinstance(error, TidelogError) else f"{type(error).__name__}: {error}"
            self._finish(self._report(outcome, perf_counter() - begun, None, before, text), None)
            raise
        finally:
            job.listeners.remove(self._steps.append)
        outcome = Outcome.PUBLISHED if result.is_new else Outcome.UNCHANGED
        report = self._report(outcome, perf_counter() - begun, result.version, before, None)
        self._finish(report, result.version)
        return result

    def _finish(self, report: RunReport, version: Manifest | None) -> None:
        """Send the event of the run, and write its report."""
        if self._program is not None:
            columns = lineage(self._program, {source.predicate for source in report.sources})
            self._emit(end_event(self._described(self._program, version), report, columns, _now()))
        if self._folder is not None:
            write_report(report, self._folder)

    def _report(
        self,
        outcome: Outcome,
        seconds: float,
        version: Manifest | None,
        before: int | None,
        error: str | None,
    ) -> RunReport:
        guards = self._job.run_guards
        engine, strategy, reason = self._job.settings.engine.name, "", ""
        for step in self._steps:
            if step.name == "deriving":
                strategy, _, reason = step.detail.removeprefix("by ").partition(": ")
            elif step.name == "full recompute":
                reason = step.detail
        if version is not None and outcome is Outcome.PUBLISHED:
            strategy = strategy or version.reason
        inputs = version.inputs if version is not None else {}
        findings = guards.findings if guards is not None else ()
        return RunReport(
            self._name,
            self._run,
            self._started,
            seconds,
            outcome,
            engine,
            strategy,
            reason,
            self._number,
            None if version is None else version.version,
            before,
            _sources(inputs, guards),
            _predicates(version, guards, outcome),
            tuple(_sinks(self._job, version, outcome)),
            tuple(_stages(self._steps)),
            findings,
            () if guards is None else assertions(guards.guards, findings),
            () if guards is None else _dependencies(self._job.program_as_written()),
            error,
        )

    # ---- events

    def _described(self, program: Program, version: Manifest | None = None) -> run_reports.LineageJob:
        """Return the job for OpenLineage."""
        job, settings = self._job, self._job.settings.openlineage
        assert settings is not None
        names = {} if version is None else source_names(version.inputs)
        labels = {} if version is None else {version.inputs[key].shown: name for key, name in names.items()}
        inputs = []
        for source in job.settings.sources:
            predicate = program.find(source.predicate)
            if predicate is None:
                continue
            place = source.paths[0] if source.paths else source.url or ""
            if source.paths and not is_remote(place):
                place = str(job.settings.resolve(place).resolve())
            fields = tuple(map(DatasetField, predicate.names))
            namespace, name = dataset_name(place, source.table)
            source_name = labels.get(source.shown, source.shown)
            inputs.append(Dataset(namespace, name, predicate.name, fields, source_name))
        outputs = []
        for predicate in program.predicates.values():
            if predicate.name != BOTTOM:
                place = job.store.published.folder.below(folder_name(predicate.written)).address
                fields = tuple(map(DatasetField, predicate.names))
                outputs.append(Dataset(*dataset_name(place), predicate.name, fields))
        parent = run_reports.read_parent(os.environ.get("OPENLINEAGE_PARENT_ID", ""))
        return run_reports.LineageJob(settings.namespace, self._name, tuple(inputs), tuple(outputs), parent)

    def _emit(self, event: Event) -> None:
        settings = self._job.settings.openlineage
        assert settings is not None
        for warning in run_reports.emit(event, settings, self._job.settings.folder):
            self._warn(warning)


def _sources(inputs: Mapping[str, InputRecord], guards: RunGuards | None) -> tuple[SourceReport, ...]:
    """Return the measures of sources, from the guards or else from the version."""
    if guards is not None and guards.measures is not None:
        measures = guards.measures.sources
    else:
        measures = tuple(source_measure(name, inputs[key]) for key, name in source_names(inputs).items())
    return tuple(
        SourceReport(
            measure.source,
            measure.predicate,
            measure.rows,
            measure.rejected,
            measure.filtered,
            newest=None if measure.newest is None else measure.newest.isoformat(),
        )
        for measure in measures
    )


def _predicates(
    version: Manifest | None, guards: RunGuards | None, outcome: Outcome
) -> tuple[PredicateReport, ...]:
    if version is None or guards is None:
        return ()
    program, feed = guards.program, version.feed if outcome is Outcome.PUBLISHED else {}
    reports = []
    for table_name, predicate in tables_of(program).items():
        table, name = version.tables.get(table_name), public_name(predicate.name)
        if table is not None:
            changed = feed.get(table_name)
            counts = (changed.added, changed.removed) if changed is not None else (0, 0)
            reports.append(PredicateReport(name, table.rows, *counts, is_derived=name in program.derived))
    return tuple(reports)


def _dependencies(program: Program) -> tuple[PredicateDependency, ...]:
    return published_dependencies(program, [name for name in program.predicates if name != BOTTOM])


def _sinks(job: Job, version: Manifest | None, outcome: Outcome) -> list[SinkReport]:
    if version is None or outcome is not Outcome.PUBLISHED:
        return []
    return [SinkReport(sink.shown, sink.predicate) for sink in job.settings.sinks]


def _stages(steps: list[Step]) -> list[StageReport]:
    """Return the steps that were reached, with their durations."""
    ends = [0.0, *(step.seconds for step in steps)]
    return [
        StageReport(step.name, step.seconds - start, step.detail)
        for step, start in zip(steps, ends, strict=False)
    ]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
