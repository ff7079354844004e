"""Reports of runs: JSON there and back, the page, and the log."""

from __future__ import annotations

import json
import xml.etree.ElementTree as ET
from dataclasses import replace
from html.parser import HTMLParser
from pathlib import Path

import pytest

from tidelog.errors import DataError, SourceText
from tidelog.io.toml_tables import TomlDocument
from tidelog.pipeline.guards import Assertion, GuardFinding, GuardSeverity, Measures, SourceMeasure
from tidelog.pipeline.job_file import read_report_folder
from tidelog.pipeline.operating import MOST_BOXES, lineage_graph, report_page, write_report
from tidelog.pipeline.run_reports import (
    LOG,
    Outcome,
    PredicateReport,
    RunReport,
    SinkReport,
    SourceReport,
    StageReport,
    append,
    load_report,
    log_start,
    read_log,
    read_report,
    report_text,
)
from tidelog.show.column_lineage import PredicateDependency

REPORT = RunReport(
    "orders.toml",
    "3b452093-782c-4ef2-9c0c-aafe2aa6f34d",
    "2026-11-18T16:00:00+00:00",
    42.7,
    Outcome.PUBLISHED,
    "spark",
    "task",
    "the facts fit one task",
    version=8,
    parent=7,
    sources=(
        SourceReport("orders<1>.csv", "order", 1000, 12, 3, 1.5, "2026-11-18T15:00:00+00:00"),
        SourceReport("people.parquet", "person", 40, was_read=False),
    ),
    predicates=(
        PredicateReport("order", 995, 10, 2, 5, is_derived=False),
        PredicateReport("person", 40, is_derived=False),
        PredicateReport("spent", 38, 1, 1),
    ),
    sinks=(SinkReport("out/spent.csv", "spent", 38),),
    stages=(StageReport("read", 1.5, "2 sources"), StageReport("publish", 0.25)),
    findings=(
        GuardFinding(
            GuardSeverity.DROP,
            "expect",
            "bad_order",
            "5 rows of `bad_order`",
            {"rows": 5},
            "orders.toml:9:1",
            ("id", "why"),
            (("17", "<script>alert(1)</script>"),),
            "look & mend",
        ),
    ),
    assertions=(Assertion("orders<1>.csv", "min-rows", True, GuardSeverity.FAIL),),
    dependencies=(PredicateDependency("order", "spent", "#"), PredicateDependency("person", "spent", "~")),
)


def test_json_there_and_back() -> None:
    assert read_report(json.loads(report_text(REPORT))) == REPORT
    failed = RunReport("j", "r", "2026-11-18T16:00:00+00:00", 0.1, Outcome.FAILED, error="E806")
    assert read_report(json.loads(report_text(failed))) == failed


def test_later_versions_may_write_more_keys() -> None:
    values = REPORT.to_json()
    values["new"] = 3
    values["sources"][0]["new"] = 4
    assert read_report(values) == REPORT


@pytest.mark.parametrize(
    ("change", "said"),
    [
        ({"format": "other"}, "not a report of a run"),
        ({"format_version": 2}, "a report of version 2; this tidelog reads version 1"),
        ({"outcome": "odd"}, "'odd' is not a valid Outcome"),
        ({"sources": [{"source": "a"}]}, "not complete"),
        ({"findings": [{}]}, "not complete"),
    ],
)
def test_what_is_no_report(change: dict[str, object], said: str) -> None:
    with pytest.raises(DataError, match="E820") as raised:
        read_report({**REPORT.to_json(), **change}, "r.json")
    assert said in str(raised.value) and "r.json" in str(raised.value)


def test_a_later_run_is_compared_with_what_a_report_says() -> None:
    measures = REPORT.measures()
    assert isinstance(measures, Measures) and measures.predicates["spent"] == 38
    first = measures.sources[0]
    assert first == SourceMeasure("orders<1>.csv", "order", 1000, 12, 3, first.newest)
    assert first.newest is not None and first.newest.hour == 15


# ---- the page


class Page(HTMLParser):
    """What a page has: its tags, and its text. Mutable while it is read."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[str] = []
        self.words: list[str] = []
        self.links: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attributes: list[tuple[str, str | None]]) -> None:
        self.tags.append(tag)
        self.links += [value or "" for name, value in attributes if name in ("src", "href")]

    def handle_data(self, data: str) -> None:
        self.words.append(data)

    @property
    def text(self) -> str:
        return " ".join(self.words)


def test_the_page_says_everything_and_needs_nothing() -> None:
    text = report_page(REPORT)
    page = Page(text)
    for said in (
        "published version 8: 1,073 rows, +11 −3",
        "orders<1>.csv",
        "<script>alert(1)</script>",
        "look & mend",
        "bad_order",
        "unchanged",
        "2026-11-18 16:00:00 UTC",
        "42.7 s",
        "spark, task",
        "under negation",
        "out/spent.csv",
        "250 ms",
        "min-rows",
    ):
        assert said in page.text, said
    assert "script" not in page.tags and page.links == []
    assert "prefers-color-scheme: dark" in text
    start, end = text.index("<figure>"), text.index("</figure>") + len("</figure>")
    figure = ET.fromstring(text[start:end])
    assert len(figure.findall(".//g")) == 6  # two sources, three predicates, a sink


@pytest.mark.parametrize(
    ("outcome", "said"),
    [
        (Outcome.UNCHANGED, "nothing has changed: version 8 is current"),
        (Outcome.REFUSED, "not published: version 7 stays current"),
        (Outcome.FAILED, "failed: nothing was published"),
    ],
)
def test_the_page_says_how_a_run_ended(outcome: Outcome, said: str) -> None:
    page = Page(report_page(replace(REPORT, outcome=outcome, error="E1: x")))
    assert said in page.text
    assert "E1: x" in page.text  # no failing finding says it


def test_an_empty_report_has_a_page() -> None:
    page = Page(report_page(RunReport("j", "r", "2026-11-18T16:00:00+00:00", 0.1, Outcome.FAILED)))
    assert "svg" not in page.tags and "table" not in page.tags


def test_the_picture_goes_from_sources_to_sinks() -> None:
    graph = lineage_graph(REPORT)
    names = {box.key: box.detail for box in graph.boxes}
    arrows = [(names[arrow.source], names[arrow.target], arrow.kind) for arrow in graph.arrows]
    assert arrows == [
        ("orders<1>.csv", "order", ""),
        ("people.parquet", "person", ""),
        ("order", "spent", "#"),
        ("person", "spent", "~"),
        ("spent", "out/spent.csv", ""),
    ]


def test_a_picture_that_would_be_too_large_is_left_out() -> None:
    many = tuple(PredicateReport(f"p{number}", 1) for number in range(MOST_BOXES + 1))
    page = Page(
        report_page(replace(REPORT, predicates=many, dependencies=(PredicateDependency("p1", "p2"),)))
    )
    assert "84 boxes are too many for a picture." in page.text and "svg" not in page.tags


# ---- files and the log


def test_a_report_is_written_as_json_and_page_and_logged(tmp_path: Path) -> None:
    log_start(tmp_path, REPORT.job, REPORT.run, REPORT.started)
    assert read_log(tmp_path / LOG).unfinished == (REPORT.run,)
    written, page = write_report(REPORT, tmp_path)
    assert written.name == "20261118T160000Z-3b452093.json" and load_report(written) == REPORT
    assert page.read_text(encoding="utf-8") == report_page(REPORT)
    log = read_log(tmp_path / LOG)
    assert log.runs == (REPORT,) and log.unfinished == () and log.damaged == 0


def test_a_run_that_was_killed_and_a_line_that_was_cut_off(tmp_path: Path) -> None:
    path = tmp_path / LOG
    log_start(tmp_path, "j", "killed", "2026-11-18T16:00:00+00:00")
    append(path, {"event": "finished", **REPORT.to_json()})
    whole = path.read_bytes()
    for cut in (whole[:-1], whole[:-40]):
        path.write_bytes(cut)
        append(path, {"event": "finished", **replace(REPORT, run="next").to_json()})
        log = read_log(path)
        assert [one.run for one in log.runs][-1] == "next" and log.unfinished == ("killed",)
        assert log.damaged == (len(cut) < len(whole) - 1)
        assert len(log.runs) == 2 - log.damaged


def test_a_second_attempt_of_a_run_is_one_of_its_own(tmp_path: Path) -> None:
    for attempt in (1, 2):
        log_start(tmp_path, "j", REPORT.run, REPORT.started, attempt)
    append(tmp_path / LOG, {"event": "finished", **replace(REPORT, attempt=2).to_json()})
    assert read_log(tmp_path / LOG).unfinished == (REPORT.run,)


def test_a_log_that_is_not_there_has_no_runs(tmp_path: Path) -> None:
    assert read_log(tmp_path / LOG).runs == ()


def test_files_that_are_no_reports(tmp_path: Path) -> None:
    path = tmp_path / "r.json"
    with pytest.raises(DataError, match="cannot be read"):
        load_report(path)
    path.write_text("{")
    with pytest.raises(DataError, match="not JSON"):
        load_report(path)


def test_the_folder_in_a_job_file() -> None:
    document = TomlDocument(SourceText("job.toml", '[report]\nfolder = "reports"\n'))
    assert read_report_folder(document.root.table("report")) == "reports"
    assert read_report_folder(None) is None
    wrong = TomlDocument(SourceText("job.toml", "[report]\n"))
    assert read_report_folder(wrong.root.table("report")) is None
    assert [fault.code for fault in wrong.faults] == ["E804"]
