"""The suite `values`: peers find what tidelog finds, maintainers too, and what differs is noticed."""

from __future__ import annotations

from decimal import Decimal
from pathlib import Path

import pyarrow as pa
import pyarrow.csv
import pytest
from benchmarks.__main__ import main
from benchmarks.answers import RESULTS, AnswersDifferError, check_equal, read_answers, read_result
from benchmarks.business import MAKERS
from benchmarks.computing import answers_folder, check_answers
from benchmarks.record import Counts, Measurement, Record, Task, read_records
from benchmarks.suites import values
from benchmarks.suites.suite import Options
from benchmarks.tables import tables
from benchmarks.targets import targets
from benchmarks.workloads import VALUED, prepare

from benchmarks import lines, workloads

LITTLE = {
    "W9": 3_000,
    "W9-doubles": 3_000,
    "W10": 5_000,
    "W11-interest": 40,
    "W11-parts": 5,
    "W12": 300,
    "W13": 500,
}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Facts and results are in a folder of the test, and few operations are enough."""
    monkeypatch.setattr(workloads, "RESULTS", tmp_path)
    monkeypatch.setattr(lines, "ENOUGH", 0.0)


def measured(workload: str, engine: str) -> Measurement:
    [found] = values.perform([Task("values", workload, engine, "", LITTLE[workload], 1)])
    return found


@pytest.mark.parametrize("workload", VALUED)
def test_all_engines_find_the_same(workload: str) -> None:
    engines = [name for name in ("tidelog", *values.PEERS) if (workload, name) not in values.UNFIT]
    found = {name: measured(workload, name) for name in engines}
    assert len({(one.tuples, one.counts["digest"]) for one in found.values()}) == 1
    # No result is empty, so that there was something to agree on.
    assert all(int(found["tidelog"].counts[name]) > 0 for name in RESULTS[workload])


@pytest.mark.parametrize("engine", ["tidelog", "duckdb"])
def test_a_result_that_differs_is_noticed(engine: str) -> None:
    measured("W11-interest", engine)
    prepared = prepare(VALUED["W11-interest"], LITTLE["W11-interest"])
    mine = answers_folder(prepared) / engine
    other = mine.with_name("other")
    other.mkdir()
    for path in mine.glob("*.csv"):
        other.joinpath(path.name).write_text(path.read_text())
    check_answers("W11-interest", mine)
    table = read_result(other / "final.csv", ("int", "double"))
    column = table["c1"].to_pylist()
    pa.csv.write_csv(table.set_column(1, "c1", [[column[0] * (1 + 1e-7), *column[1:]]]), other / "final.csv")
    with pytest.raises(AnswersDifferError, match="1 rows differ from those of other"):
        check_answers("W11-interest", mine)


def test_decimals_and_rows_are_compared_exactly() -> None:
    measured("W9", "duckdb")
    found = read_answers("W9", answers_folder(prepare(VALUED["W9"], LITTLE["W9"])) / "duckdb")
    check_equal("W9", found, found, "itself")
    count = found["silent"].num_rows
    fewer = found | {"silent": found["silent"].slice(1)}
    with pytest.raises(AnswersDifferError, match=f"W9, silent: {count - 1} rows, and {count} of another"):
        check_equal("W9", fewer, found, "another")
    dearer = [value + Decimal("0.01") for value in found["dearest"]["c1"].to_pylist()]
    column = pa.array(dearer, found["dearest"].schema.field("c1").type)
    changed = found | {"dearest": found["dearest"].set_column(1, "c1", column)}
    with pytest.raises(AnswersDifferError, match=f"W9, dearest: {len(dearer)} rows differ"):
        check_equal("W9", changed, found, "another")


def test_order_lines_have_what_the_job_looks_for() -> None:
    made = MAKERS["W9"](20_000)
    orders, customers = made["orders.csv"], made["customers.csv"]
    assert orders.num_rows == 20_000
    assert orders.group_by(orders.column_names).aggregate([]).num_rows == 19_980
    assert len(set(customers["customer"].to_pylist()) - set(orders["customer"].to_pylist())) >= 50
    assert len(customers["customer"].unique()) < customers.num_rows  # two emails
    assert len(orders["price"].unique()) < 0.95 * orders.num_rows


def answer(one: Measurement) -> tuple[object, ...]:
    return one.tuples, one.counts["digest"], one.counts["net_change"]


def test_maintainers_change_lines_alike() -> None:
    found = {}
    for variant in values.MAINTAINERS:
        tasks = [Task("values", values.CHANGES, "tidelog", variant, size, 1, 1_000) for size in (1, 20, 120)]
        found[variant] = list(values.perform(tasks))
    alike, others = ([answer(one) for one in some] for some in found.values())
    assert alike == others
    assert len({digest for _, digest, _ in alike}) == 3
    assert all(one.cpu_s > 0 for one in found["auto"])


def test_quick_questions_ask_everybody() -> None:
    asked = [
        task for tasks in values.questions(Options(quick=True, workloads=("W12", "W13"))) for task in tasks
    ]
    assert [(task.workload, task.engine) for task in asked] == [
        ("W12", "tidelog"),
        ("W12", "duckdb"),
        ("W12", "polars"),
        ("W13", "tidelog"),
        ("W13", "duckdb"),
    ]


@pytest.mark.slow
def test_the_suite_runs(tmp_path: Path) -> None:
    written = tmp_path / "values.jsonl"
    asked = ["values", "--quick", "--workloads", "W12,changes", "--json", str(written)]
    assert main(asked) == 0
    records = read_records([written])
    assert {record.engine for record in records} == {"tidelog", *values.PEERS}
    assert "tidelog by DuckDB" in tables(records)
    assert "lines changed / changed back" in tables(records)


def test_values_are_held_against_what_was_to_be_reached() -> None:
    def record(workload: str, engine: str, variant: str, size: int, cpu_s: float, megabytes: float) -> Record:
        found: Counts = {"status": "done", "add_cpu_s": cpu_s}
        return Record(
            "values", workload, engine, variant, size, cpu_s, cpu_s, None, 1, megabytes, None, None, found
        )

    records = [
        record("W9", "tidelog", "", 100_000, 0.1, 100.0),
        record("W9", "duckdb", "", 100_000, 0.09, 100.0),
        record("W9", "tidelog", "", 1_000_000, 0.5, 130.0),
        record("W9", "duckdb", "", 1_000_000, 1.0, 100.0),
        record("W11-parts", "tidelog", "", 5_000, 0.4, 119.0),
        record("W11-parts", "duckdb", "", 5_000, 1.0, 100.0),
        record("W12", "tidelog", "", 3_000, 1.9, 1.0),
        record("W13", "tidelog", "", 1_000_000, 3.0, 1.0),
        record("changes", "tidelog", "auto", 1, 40e-6, 1.0),
    ]
    reached = {target.what: target.is_reached for target in targets(records) if target.is_reached is not None}
    assert reached == {
        "W9: CPU by DuckDB's": False,
        "W9: peak memory by DuckDB's": False,
        "W11-parts: CPU by DuckDB's": True,
        "W11-parts: peak memory by DuckDB's": True,
        "W12, amicable numbers below 3,000": True,
        "W13, a round of a million": False,
        "W9, lines changed: 1": True,
    }
    assert "| W9 | 1,000,000 | 0.50 s | 1.0 s | 130 | 100 | 0.50 |" in tables(records)
