"""OpenLineage events: their structure, column lineage in them, and where they go."""

from __future__ import annotations

import json
import re
import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from datetime import datetime
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from uuid import UUID

import pytest

import tidelog as tl
from tidelog.errors import Severity, SourceText
from tidelog.io.toml_tables import TomlDocument
from tidelog.pipeline.guards import Assertion, GuardFinding, GuardSeverity
from tidelog.pipeline.job_file import read_openlineage
from tidelog.pipeline.job_settings import OpenLineageSettings
from tidelog.pipeline.run_reports import (
    Dataset,
    DatasetField,
    LineageJob,
    Outcome,
    ParentRun,
    PredicateReport,
    RunReport,
    SourceReport,
    dataset_name,
    emit,
    end_event,
    read_parent,
    start_event,
)
from tidelog.show.column_lineage import lineage

RUN = "3b452093-782c-4ef2-9c0c-aafe2aa6f34d"
AT = "2026-11-18T16:00:00+00:00"
PROGRAM = tl.parse(
    """
    @declare order(id: int, who: string, amount: int) .
    @declare person(who: string, city: string) .
    spent(?who, #sum(?amount, ?id)) :- order(?id, ?who, ?amount), person(?who, "Nuuk") .
    """
)
ORDERS = Dataset(
    "file",
    "/data/orders",
    "order",
    (DatasetField("nr", "int"), DatasetField("who"), DatasetField("eur", "int")),
    "orders.csv",
)
MORE = replace(ORDERS, name="/data/more", source="more.csv")
PEOPLE = Dataset(
    "file",
    "/data/people",
    "person",
    (DatasetField("who", "string"), DatasetField("city", "string")),
    "people",
)
SPENT = Dataset("s3://lake", "spent", "spent", (DatasetField("who", "string"), DatasetField("total", "long")))
JOB = LineageJob("shop", "orders", (ORDERS, PEOPLE), (SPENT,), ParentRun("airflow", "dag.task", RUN))
REPORT = RunReport(
    "orders.toml",
    RUN,
    AT,
    2.5,
    Outcome.PUBLISHED,
    version=8,
    sources=(SourceReport("orders.csv", "order", 100, 3, 2), SourceReport("people", "person", 40)),
    predicates=(PredicateReport("spent", 38, 1, 1),),
    assertions=(
        Assertion("orders.csv", "min-rows", True, GuardSeverity.FAIL),
        Assertion("orders.csv", "max-age", False, GuardSeverity.WARN),
    ),
)


# ---- the structure that the specification asks for


def check_event(event: dict[str, Any]) -> None:
    """The event has what the public specification requires of a run event, and of each facet we write."""
    assert json.loads(json.dumps(event)) == event
    assert event["eventType"] in {"START", "COMPLETE", "FAIL"}
    assert datetime.fromisoformat(event["eventTime"]).tzinfo is not None
    check_uri(event["producer"])
    check_uri(event["schemaURL"])
    UUID(event["run"]["runId"])
    assert event["job"]["namespace"] and event["job"]["name"]
    check_facets(event["run"]["facets"])
    check_facets(event["job"]["facets"])
    for side, own in (("inputs", "inputFacets"), ("outputs", "outputFacets")):
        for dataset in event[side]:
            assert isinstance(dataset["namespace"], str) and isinstance(dataset["name"], str)
            check_facets(dataset["facets"])
            check_facets(dataset.get(own, {}))


REQUIRED = {
    "schema": {"fields"},
    "columnLineage": {"fields"},
    "version": {"datasetVersion"},
    "dataQualityMetrics": {"columnMetrics"},
    "dataQualityAssertions": {"assertions"},
    "outputStatistics": {"rowCount"},
    "errorMessage": {"message", "programmingLanguage"},
    "processing_engine": {"version"},
    "jobType": {"processingType", "integration"},
    "parent": {"run", "job"},
    "tidelog_run": set(),
}


def check_facets(facets: dict[str, Any]) -> None:
    for name, facet in facets.items():
        assert facet.keys() >= REQUIRED[name] | {"_producer", "_schemaURL"}, name
        check_uri(facet["_schemaURL"])
    if "columnLineage" in facets:
        for field in facets["columnLineage"]["fields"].values():
            for one in (*field["inputFields"], *facets["columnLineage"].get("dataset", ())):
                assert one.keys() >= {"namespace", "name", "field"}
                for step in one["transformations"]:
                    direct = {"IDENTITY", "TRANSFORMATION", "AGGREGATION"}
                    indirect = {"JOIN", "GROUP_BY", "FILTER", "SORT", "WINDOW", "CONDITIONAL"}
                    assert step["subtype"] in {"DIRECT": direct, "INDIRECT": indirect}[step["type"]]
    for field in facets.get("schema", {}).get("fields", ()):
        assert field["name"]


def check_uri(text: str) -> None:
    assert re.fullmatch(r"[a-z][a-z0-9+.-]*:[^\s]+", text), text


def test_a_run_begins() -> None:
    event = start_event(JOB, RUN, AT)
    check_event(event)
    assert event["eventType"] == "START"
    assert event["run"]["facets"]["parent"]["job"] == {"namespace": "airflow", "name": "dag.task"}
    assert [one["name"] for one in event["inputs"]] == ["/data/orders", "/data/people"]
    assert event["inputs"][0]["facets"]["schema"]["fields"][:2] == [
        {"name": "nr", "type": "int"},
        {"name": "who"},
    ]


def test_a_run_is_complete() -> None:
    event = end_event(JOB, REPORT, lineage(PROGRAM), AT)
    check_event(event)
    assert event["eventType"] == "COMPLETE"
    first = event["inputs"][0]["inputFacets"]
    assert first["dataQualityMetrics"]["rowCount"] == 105
    assert first["dataQualityAssertions"]["assertions"] == [
        {"assertion": "min-rows", "success": True},
        {"assertion": "max-age", "success": False},
    ]
    (output,) = event["outputs"]
    assert output["outputFacets"]["outputStatistics"]["rowCount"] == 38
    assert output["facets"]["version"]["datasetVersion"] == "8"


def shown(fields: list[dict[str, Any]]) -> list[str]:
    return [
        f"{one['name']}.{one['field']} " + " ".join(step["subtype"] for step in one["transformations"])
        for one in fields
    ]


def test_columns_have_the_names_of_their_datasets() -> None:
    event = end_event(JOB, REPORT, lineage(PROGRAM), AT)
    facet = event["outputs"][0]["facets"]["columnLineage"]
    assert shown(facet["fields"]["who"]["inputFields"]) == [
        "/data/orders.who IDENTITY",
        "/data/people.who IDENTITY",
    ]
    assert shown(facet["fields"]["total"]["inputFields"]) == [
        "/data/orders.eur AGGREGATION",
        "/data/orders.nr GROUP_BY",
        "/data/orders.who GROUP_BY",
        "/data/people.who GROUP_BY",
    ]
    assert shown(facet["dataset"]) == [
        "/data/orders.who JOIN",
        "/data/people.city FILTER",
        "/data/people.who JOIN",
    ]


def test_a_predicate_with_two_sources_comes_from_both() -> None:
    job = replace(JOB, inputs=(ORDERS, MORE))
    event = end_event(job, REPORT, lineage(PROGRAM), AT)
    facet = event["outputs"][0]["facets"]["columnLineage"]
    assert shown(facet["fields"]["who"]["inputFields"]) == [
        "/data/orders.who IDENTITY",
        "/data/more.who IDENTITY",
    ]


def test_a_run_fails_and_a_guard_fails() -> None:
    failed = replace(REPORT, outcome=Outcome.FAILED, error="error[E806]: no files")
    finding = GuardFinding(GuardSeverity.FAIL, "min-rows", "orders.csv", "too few")
    aside = replace(REPORT, outcome=Outcome.REFUSED, findings=(finding,))
    for report, message in ((failed, "error[E806]: no files"), (aside, "too few")):
        event = end_event(JOB, report, lineage(PROGRAM), AT)
        check_event(event)
        assert event["eventType"] == "FAIL" and event["outputs"] == []
        assert event["run"]["facets"]["errorMessage"]["message"] == message


def test_a_run_that_finds_nothing_changed_writes_nothing() -> None:
    event = end_event(JOB, replace(REPORT, outcome=Outcome.UNCHANGED), lineage(PROGRAM), AT)
    check_event(event)
    assert event["eventType"] == "COMPLETE" and event["outputs"] == []


@pytest.mark.parametrize(
    ("place", "table", "expected"),
    [
        ("/data/orders.csv", None, ("file", "/data/orders.csv")),
        ("file:///data/x/**/*.csv", None, ("file", "/data/x")),
        ("/*.csv", None, ("file", "/")),
        ("s3://b/k/part-?.csv", None, ("s3://b", "k")),
        ("s3://b", None, ("s3://b", "")),
        ("s3://me:secret@b/k#1", None, ("s3://b", "k#1")),
        ("hdfs://name:8020/data/x", None, ("hdfs://name:8020", "/data/x")),
        ("abfss://box@lake.dfs.core.windows.net/x", None, ("abfss://box@lake.dfs.core.windows.net", "x")),
        ("jdbc:mysql://root:secret@db/shop", "orders", ("mysql://db", "shop.orders")),
        ("jdbc:sqlserver://db:1433;database=shop;password=x", "t", ("sqlserver://db:1433", "t")),
        ("jdbc:sqlite:people.db", "t", ("sqlite", "people.db.t")),
    ],
)
def test_names_of_datasets(place: str, table: str | None, expected: tuple[str, str]) -> None:
    assert dataset_name(place, table) == expected


@pytest.mark.parametrize("text", ["", "a/b", "a/b/c", RUN, f"/{RUN}", f"a/{RUN}"])
def test_what_names_no_parent(text: str) -> None:
    assert read_parent(text) is None


# ---- where events go


class Server(ThreadingHTTPServer):
    """Takes events, as a server of lineage would. Mutable: it notes what it is sent."""

    daemon_threads = True

    def __init__(self, status: int = 201, trickle: float = 0.0) -> None:
        super().__init__(("127.0.0.1", 0), Handler)
        self.status, self.trickle = status, trickle
        self.taken: list[tuple[str, str | None, Any]] = []

    @property
    def url(self) -> str:
        return f"http://127.0.0.1:{self.server_address[1]}"


class Handler(BaseHTTPRequestHandler):
    def do_POST(self) -> None:
        server = self.server
        assert isinstance(server, Server)
        body = self.rfile.read(int(self.headers["Content-Length"]))
        server.taken.append((self.path, self.headers["Authorization"], json.loads(body)))
        for _ in range(100 if server.trickle else 0):  # a byte now and then, each within a socket's limit
            try:
                self.wfile.write(b"H")
            except OSError:
                return
            time.sleep(server.trickle)
        self.send_response(server.status)
        self.end_headers()

    def log_message(self, format: str, *arguments: object) -> None:
        pass


@contextmanager
def serving(status: int = 201, trickle: float = 0.0) -> Iterator[Server]:
    with Server(status, trickle) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield server
        finally:
            server.shutdown()
            thread.join()


def test_events_go_to_a_file_and_to_a_server(tmp_path: Path) -> None:
    event = start_event(JOB, RUN, AT)
    with serving() as server:
        settings = OpenLineageSettings(file="lineage/events.jsonl", url=server.url + "/", key_variable="KEY")
        assert emit(event, settings, tmp_path, {"KEY": "abc"}) == ()
        assert emit(event, replace(settings, key_variable=None), tmp_path, {"KEY": "abc"}) == ()
    assert server.taken == [
        ("/api/v1/lineage", "Bearer abc", event),
        ("/api/v1/lineage", None, event),
    ]
    lines = (tmp_path / "lineage/events.jsonl").read_text(encoding="utf-8").splitlines()
    assert [json.loads(line) for line in lines] == [event, event]


def test_a_server_that_refuses_is_a_warning(tmp_path: Path) -> None:
    with serving(500) as server:
        (warning,) = emit({}, OpenLineageSettings(url=server.url), tmp_path)
    assert warning.severity is Severity.WARNING and warning.code == "W820"
    assert "Internal Server Error" in warning.message and warning.place == f"{server.url}/api/v1/lineage"


def test_a_password_is_not_shown(tmp_path: Path) -> None:
    (warning,) = emit({}, OpenLineageSettings(url="http://me:secret@127.0.0.1:1"), tmp_path)
    assert "secret" not in str(warning)


def test_a_server_that_is_not_there_is_a_warning(tmp_path: Path) -> None:
    with serving() as server:
        url = server.url
    (warning,) = emit({}, OpenLineageSettings(url=url, seconds=2), tmp_path)
    assert "refused" in warning.message


def test_a_server_that_never_ends_costs_the_time_limit_only(tmp_path: Path) -> None:
    with serving(trickle=0.05) as server:
        begun = time.monotonic()
        (warning,) = emit({}, OpenLineageSettings(url=server.url, seconds=0.3), tmp_path)
        assert time.monotonic() - begun < 3
    assert warning.message.endswith("no answer within 0.3 s")


def test_a_file_that_cannot_be_written_is_a_warning(tmp_path: Path) -> None:
    (tmp_path / "taken").write_text("")
    (warning,) = emit({}, OpenLineageSettings(file="taken/events.jsonl"), tmp_path)
    assert warning.code == "W820" and "taken" in (warning.place or "")


def test_the_settings_in_a_job_file() -> None:
    text = """
[openlineage]
url = "http://marquez:5000"
file = "lineage.jsonl"
namespace = "shop"
timeout = 2
api-key-variable = "LINEAGE_KEY"
"""
    document = TomlDocument(SourceText("job.toml", text))
    assert read_openlineage(document.root.table("openlineage")) == OpenLineageSettings(
        "shop", "lineage.jsonl", "http://marquez:5000", seconds=2.0, key_variable="LINEAGE_KEY"
    )
    assert read_openlineage(None) is None and document.faults == []
    for wrong, code in (
        ('url = "ftp://x"', "E803"),
        ('url = "http://"', "E803"),
        ('url = "http://me:secret@marquez"', "E803"),
        ('namespace = "x"', "E804"),
        ('file = "x"\nkey = "x"', "E802"),
    ):
        document = TomlDocument(SourceText("job.toml", f"[openlineage]\n{wrong}\n"))
        read_openlineage(document.root.table("openlineage"))
        assert [fault.code for fault in document.faults] == [code]
