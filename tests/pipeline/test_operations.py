"""Guards, reports and lineage together, as a job calls them; and the examples for schedulers."""

from __future__ import annotations

import re
import shutil
import subprocess
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path

import pytest

import tidelog as tl
from tests.docs.blocks import ROOT
from tidelog.errors import SourceText
from tidelog.io.toml_tables import TomlDocument
from tidelog.pipeline.guards import (
    MOST_SAMPLES,
    GuardFailed,
    Guards,
    Measures,
    SourceMeasure,
    Violations,
    assertions,
    check,
    read_guards,
    resolve,
    source_limits,
    stop_on_failure,
)
from tidelog.pipeline.job_settings import EXIT_CODES, exit_code
from tidelog.pipeline.operating import report_page
from tidelog.pipeline.run_reports import (
    Dataset,
    DatasetField,
    LineageJob,
    Outcome,
    PredicateReport,
    RunReport,
    SourceReport,
    end_event,
)
from tidelog.rewrite.dropped_rows import tables_of, with_drops
from tidelog.show.column_lineage import lineage, published_dependencies

RUN = "3b452093-782c-4ef2-9c0c-aafe2aa6f34d"
RULES = """
@declare order(id: int, who: string, amount: int) .
@declare person(who: string) .
bad_order(?id, "no customer") :- order(?id, ?who, _), ~person(?who) .
spent(?who, #sum(?amount, ?id)) :- order(?id, ?who, ?amount) .
"""
JOB = """
[[source]]
predicate = "order"
path = "orders.csv"
max-drop = "50 %"

[[source]]
predicate = "person"
path = "people.csv"

[[guard]]
predicate = "spent"
min-rows = 1

[[expect]]
predicate = "bad_order"
severity = "drop"
of = "order"
max-rows = 1
"""
PUBLISHED = ("order", "person", "bad_order", "spent")
Rows = Sequence[tuple[object, ...]]


def read_job() -> tuple[Guards, dict[str, str]]:
    """The guards of the job, and the predicate of each source."""
    document = TomlDocument(SourceText("job.toml", JOB))
    root = document.root
    limits, predicates = {}, {}
    for table in root.tables("source"):
        path = table.required("path")
        predicates[path] = table.required("predicate")
        limits[path] = source_limits(table)
        table.close()
    guards = read_guards(root, limits)
    root.close()
    document.check()
    return guards, predicates


def run(data: Mapping[str, Rows], previous: RunReport | None) -> tuple[RunReport, dict[str, set[object]]]:
    """The report of a run over some rows of each source, and the tables that it would publish."""
    program = tl.parse(RULES)
    guards, predicates = read_job()
    guards = resolve(guards, program)
    whole = with_drops(program, guards.drops, predicates.values())
    kept = {name: each.name for name, each in tables_of(whole).items()}
    reasoner = tl.Reasoner(whole)
    reasoner.materialise()
    with reasoner.change() as change:
        for path, rows in data.items():
            change.insert(predicates[path], list(rows))
    tables = {name: {tuple(row) for row in reasoner[kept.get(name, name)]} for name in PUBLISHED}
    counts = {name: len(list(reasoner[name])) for name in PUBLISHED}
    violations = {
        one.predicate: Violations(
            counts[one.predicate],
            program.predicates[one.predicate].names,
            tuple(tuple(map(str, row)) for row in list(reasoner[one.predicate])[:MOST_SAMPLES]),
        )
        for one in guards.expectations
    }
    sources = tuple(SourceMeasure(path, predicates[path], len(rows)) for path, rows in data.items())
    measures = Measures(sources, counts, violations, datetime.now(UTC))
    findings = check(measures, None if previous is None else previous.measures(), guards)
    failed = any(finding.is_failure for finding in findings)
    report = RunReport(
        "job.toml",
        RUN,
        "2026-11-18T16:00:00+00:00",
        1.0,
        Outcome.REFUSED if failed else Outcome.PUBLISHED,
        version=None if failed else 1,
        sources=tuple(SourceReport(one.source, one.predicate, one.rows) for one in sources),
        predicates=tuple(
            PredicateReport(name, len(rows), dropped=counts[name] - len(rows))
            for name, rows in tables.items()
        ),
        findings=findings,
        assertions=assertions(guards, findings),
        dependencies=published_dependencies(program, PUBLISHED),
    )
    return report, {name: set(rows) for name, rows in tables.items()}


ORDERS: Rows = [(1, "ada", 10), (2, "bob", 20)]
PEOPLE: Rows = [("ada",)]


def test_a_run_without_the_rows_that_an_expectation_drops() -> None:
    report, tables = run({"orders.csv": ORDERS, "people.csv": PEOPLE}, None)
    assert report.outcome is Outcome.PUBLISHED
    assert tables["order"] == {(1, "ada", 10)} and tables["spent"] == {("ada", 10)}
    assert [(one.predicate, one.dropped) for one in report.predicates if one.dropped] == [("order", 1)]
    (finding,) = report.findings
    assert finding.samples == (("2", "no customer"),)
    assert "no customer" in report_page(report)


def test_a_source_that_is_emptied_is_not_published_whatever_else_is() -> None:
    before, _ = run({"orders.csv": ORDERS, "people.csv": PEOPLE}, None)
    report, _ = run({"orders.csv": ORDERS, "people.csv": []}, before)
    assert report.outcome is Outcome.REFUSED
    assert [(one.subject, one.guard) for one in report.findings] == [
        ("people.csv", "allow-empty"),
        ("spent", "min-rows"),
        ("bad_order", "expect"),  # two violations, and one is allowed
    ]
    with pytest.raises(GuardFailed) as raised:
        stop_on_failure(report.findings)
    assert exit_code(raised.value) == 3 and len(raised.value.diagnostics) == 3


def test_the_event_of_a_run_names_columns_by_the_program() -> None:
    report, _ = run({"orders.csv": ORDERS, "people.csv": PEOPLE}, None)
    program = tl.parse(RULES)
    datasets = {
        name: Dataset("file", f"/{name}", name, tuple(map(DatasetField, program.predicates[name].names)))
        for name in PUBLISHED
    }
    job = LineageJob("n", "j", (replace(datasets["order"], source="orders.csv"),), (datasets["spent"],))
    event = end_event(job, report, lineage(program, {"order", "person"}), "2026-11-18T16:00:01+00:00")
    fields = event["outputs"][0]["facets"]["columnLineage"]["fields"]
    assert fields["who"]["inputFields"][0]["field"] == "who"


# ---- examples and tables


def test_the_documented_exit_codes_are_those_of_the_code() -> None:
    text = (ROOT / "docs" / "pipeline-operations.md").read_text(encoding="utf-8")
    table = text[text.index("## Exit codes") : text.index("## Schedulers")]
    assert [int(code) for code in re.findall(r"^\| (\d+) \|", table, re.MULTILINE)] == list(EXIT_CODES)


def test_the_airflow_example_is_python() -> None:
    path = ROOT / "examples" / "pipeline" / "orders_airflow.py"
    text = path.read_text(encoding="utf-8")
    compile(text, str(path), "exec")
    named = {int(code) for code in re.findall(r"^- (\d+):", text, re.MULTILINE)}
    assert named and named <= set(EXIT_CODES)


@pytest.mark.skipif(shutil.which("flock") is None, reason="flock is not installed")
@pytest.mark.parametrize(("code", "said"), [(0, ""), (3, "orders: exit code 3\n")])
def test_the_line_for_cron(tmp_path: Path, code: int, said: str) -> None:
    lines = (ROOT / "examples" / "pipeline" / "crontab").read_text(encoding="utf-8").splitlines()
    (line,) = [one for one in lines if not one.startswith("#") and "=" not in one.split()[0]]
    command = line.split(maxsplit=5)[5].replace("/run/lock", str(tmp_path))
    tool = tmp_path / "tidelog"
    tool.write_text(f"#!/bin/sh\nexit {code}\n")
    tool.chmod(0o755)
    done = subprocess.run(
        ["/bin/sh", "-c", command],
        env={"PATH": f"{tmp_path}:/usr/bin:/bin"},
        capture_output=True,
        text=True,
        check=True,
    )
    assert done.stdout == said
