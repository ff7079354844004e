"""The report of a run as a page of HTML that needs nothing else: no network, no scripts, light and dark."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from datetime import UTC, datetime
from html import escape
from itertools import count
from pathlib import Path
from typing import Final

from tidelog.errors import counted
from tidelog.io.atomic import replacing
from tidelog.pipeline.guards import Finding
from tidelog.pipeline.reports import (
    FINISHED,
    LOG,
    Outcome,
    PredicateReport,
    RunReport,
    SourceReport,
    append,
    report_text,
)
from tidelog.plan.page import document, svg
from tidelog.plan.picture import Arrow, Box, Graph

MOST_BOXES: Final = 80  # beyond that a picture shows nothing that a table does not show better
_LONGEST: Final = 44  # characters of a name in a box
_MINUS: Final = "−"


def report_page(report: RunReport) -> str:
    """Return the report as a page."""
    sections = (
        _error(report),
        _findings(report.findings),
        _picture(report),
        _sources(report),
        _predicates(report),
        _sinks(report),
        _assertions(report),
        _stages(report),
    )
    return document(report.job, _summary(report), "".join(sections), _badge(report))


def write_report(report: RunReport, folder: Path) -> tuple[Path, Path]:
    """Write a report as JSON and as a page into a folder, and add it to the log there.

    Return the paths of the two files, whose names begin with when the run began.
    """
    begun = datetime.fromisoformat(report.started).astimezone(UTC)
    name = f"{begun:%Y%m%dT%H%M%SZ}-{report.run[:8]}"
    paths = folder / f"{name}.json", folder / f"{name}.html"
    for path, text in zip(paths, (report_text(report), report_page(report)), strict=True):
        with replacing(path) as stream:
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
    changed = sum(one.inserted for one in report.predicates), sum(one.deleted for one in report.predicates)
    rows = counted(sum(one.rows for one in report.predicates), "row")
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
    """Return the error, but for what findings say already."""
    is_told = report.outcome is Outcome.REFUSED and any(one.is_failure for one in report.findings)
    if report.error is None or is_told:
        return ""
    return _section("Error", f"<pre>{escape(report.error)}</pre>\n")


def _findings(findings: Sequence[Finding]) -> str:
    return _section("Guards and expectations", "".join(map(_finding, findings))) if findings else ""


def _finding(finding: Finding) -> str:
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
    """Return a text as HTML; what stands between backquotes becomes code."""
    pieces = escape(text).split("`")
    if len(pieces) % 2 == 0:
        return escape(text)
    return "".join(f"<code>{piece}</code>" if place % 2 else piece for place, piece in enumerate(pieces))


def _sources(report: RunReport) -> str:
    if not report.sources:
        return ""
    names = ("source", "predicate", "facts", "rejected", "filtered out", "newest data", "time")
    return _section("Sources", _table(names, map(_source_row, report.sources), texts=2))


def _source_row(one: SourceReport) -> tuple[str, ...]:
    time = _seconds(one.seconds) if one.seconds is not None else "" if one.was_read else "unchanged"
    figures = f"{one.rows:,}", _or_none(one.rejected), _or_none(one.filtered)
    return one.source, one.predicate, *figures, _moment(one.newest or ""), time


def _predicates(report: RunReport) -> str:
    if not report.predicates:
        return ""
    has_drops = any(one.dropped for one in report.predicates)
    names = ("predicate", "rows", "inserted", "deleted", *(("left out",) if has_drops else ()))
    rows = [
        (one.predicate, f"{one.rows:,}", _or_none(one.inserted), _or_none(one.deleted))
        + ((_or_none(one.dropped),) if has_drops else ())
        for one in report.predicates
    ]
    return _section("Predicates", _table(names, rows, texts=1))


def _sinks(report: RunReport) -> str:
    if not report.sinks:
        return ""
    rows = [(one.sink, one.predicate, "" if one.rows is None else f"{one.rows:,}") for one in report.sinks]
    return _section("Sinks", _table(("sink", "predicate", "rows"), rows, texts=2))


def _assertions(report: RunReport) -> str:
    held = [one for one in report.assertions if one.holds]
    if not held:
        return ""
    items = (f"<li><code>{escape(one.guard)}</code> {escape(one.subject)}</li>" for one in held)
    return _section("What holds", f'<ul class="held">{"".join(items)}</ul>\n')


def _stages(report: RunReport) -> str:
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
        shown = (f"<{tag}{mark}>{escape(cell)}</{tag}>" for mark, cell in zip(marks, cells, strict=False))
        return f"<tr>{''.join(shown)}</tr>\n"

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
    named = (("~", "negated", "under negation"), ("#", "aggregated", "aggregated"))
    legend = "".join(
        f'<span><svg width="28" height="12"><path class="curve {name}" d="M1 6H27"/></svg>{text}</span>'
        for kind, name, text in named
        if kind in kinds
    )
    shown = f'<div class="legend">{legend}</div>\n' if legend else ""
    return _section("Lineage", f"{shown}<figure>\n{svg(graph)}</figure>\n")


def lineage_graph(report: RunReport) -> Graph:
    """Return the picture of a run: sources, predicates and sinks, and what goes where."""
    boxes: list[Box] = []
    arrows: dict[Arrow, None] = {}
    keys = {one.predicate: f"p{number}" for number, one in enumerate(report.predicates, 1)}
    for number, source in enumerate(report.sources, 1):
        remarks = [counted(source.rows, "row")]
        remarks += [f"{source.rejected:,} rejected"] if source.rejected else []
        boxes.append(Box(f"s{number}", "scan", "source", _short(source.source), tuple(remarks)))
        if source.predicate in keys:
            arrows[Arrow(f"s{number}", keys[source.predicate])] = None
    boxes += (_predicate_box(one, keys[one.predicate]) for one in report.predicates)
    for edge in report.dependencies:
        if edge.source in keys and edge.target in keys:
            arrows[Arrow(keys[edge.source], keys[edge.target], edge.kind)] = None
    for number, sink in enumerate(report.sinks, 1):
        remarks = [] if sink.rows is None else [counted(sink.rows, "row")]
        boxes.append(Box(f"k{number}", "answer", "sink", _short(sink.sink), tuple(remarks)))
        if sink.predicate in keys:
            arrows[Arrow(keys[sink.predicate], f"k{number}")] = None
    return Graph(tuple(boxes), tuple(arrows))


def _predicate_box(one: PredicateReport, key: str) -> Box:
    kind, title = ("join", "derived") if one.is_derived else ("given", "given")
    remarks = [counted(one.rows, "row")]
    remarks += [_signed(one.inserted, one.deleted)] if one.inserted or one.deleted else []
    remarks += [f"{one.dropped:,} left out"] if one.dropped else []
    return Box(key, kind, title, _short(one.predicate), tuple(remarks))


def _short(name: str) -> str:
    """Return a name for a box: the end of a long path says most.

    >>> _short("s3://bucket/sales/2026/11/18/europe/north/orders.csv")
    '…et/sales/2026/11/18/europe/north/orders.csv'
    """
    return name if len(name) <= _LONGEST else f"…{name[1 - _LONGEST :]}"


def _signed(inserted: int, deleted: int) -> str:
    return f"+{inserted:,} {_MINUS}{deleted:,}"


def _or_none(number: int) -> str:
    return f"{number:,}" if number else "–"


def _moment(text: str) -> str:
    """Return a time of ISO 8601 as people read it.

    >>> _moment("2026-11-18T16:00:00.123+00:00"), _moment("2026-11-18T16:00:00+01:00")
    ('2026-11-18 16:00:00 UTC', '2026-11-18 15:00:00 UTC')
    """
    return f"{datetime.fromisoformat(text).astimezone(UTC):%Y-%m-%d %H:%M:%S UTC}" if text else ""


def _seconds(seconds: float) -> str:
    """Return a time as people read it.

    >>> _seconds(0.0042), _seconds(12.34), _seconds(4000)
    ('4 ms', '12.3 s', '66 min 40 s')
    """
    if seconds < 1:
        return f"{seconds * 1000:.0f} ms"
    if seconds < 100:
        return f"{seconds:.1f} s"
    return f"{int(seconds) // 60} min {int(seconds) % 60} s"
