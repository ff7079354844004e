"""The suites in which facts change run, on little, and their records have the one shape."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest
from benchmarks.__main__ import main
from benchmarks.measure import Limits, Stopped, not_tried, run
from benchmarks.questions import QUESTIONS, bound
from benchmarks.record import Counts, Measurement, Record, Task, read_records
from benchmarks.suites import equality, explain, maintain, query, store, stream, temporal
from benchmarks.tables import tables
from benchmarks.targets import targets

from benchmarks import changing, endless, storing, streams, tenures, workloads

SHAPE = {
    *("suite", "workload", "engine", "variant", "size", "cpu_s", "wall_s", "p99_s", "tuples", "peak_rss_mb"),
    *("load_s", "reason_s", "counts"),
}


@pytest.fixture(autouse=True)
def _elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Facts are made in a folder of the test, and few operations are enough."""
    monkeypatch.setattr(workloads, "RESULTS", tmp_path)
    monkeypatch.setattr(changing, "ENOUGH", 0.0)
    monkeypatch.setattr(changing, "DRIFT_SAMPLE", 3)
    monkeypatch.setattr(storing, "COMMITS", 5)
    monkeypatch.setattr(streams, "REPEATS", 1)
    monkeypatch.setattr(streams, "SEEDS", (1,))


def maintained(workload: str, variant: str, size: int, facts: int) -> Measurement:
    [found] = maintain.perform([Task("maintain", workload, "tidelog", variant, size, 1, facts)])
    return found


@pytest.mark.parametrize("workload", ["W1", "W4", "W5", "W6", "cliques", "cut"])
def test_maintainers_give_the_same_facts(workload: str) -> None:
    size, facts = (1, 60) if workload == "cut" else (3, 300)
    found = {name: maintained(workload, name, size, facts) for name in ("auto", "dred", "recompute")}
    answers = {(one.tuples, one.counts["digest"], one.counts["net_change"]) for one in found.values()}
    assert len(answers) == 1
    assert all(one.cpu_s > 0 and float(one.counts["add_cpu_s"]) > 0 for one in found.values())


@pytest.mark.parametrize("workload", ["pairs", "W1", "W5"])
def test_what_is_opened_is_what_was_derived(workload: str) -> None:
    derived, opened, committed, floored = (
        next(iter(store.perform([Task("store", workload, "tidelog", variant, 300, 1)])))
        for variant in store.VARIANTS
    )
    assert derived.tuples == opened.tuples
    assert committed.tuples > derived.tuples
    assert floored.wall_s > 0 and float(committed.counts["commits_per_s"]) > 0


def over_time(workload: str, size: int, facts: int = 0) -> dict[str, Measurement]:
    variants = temporal.POINTS[workload].variants
    tasks = [Task("temporal", workload, "tidelog", variant, size, 1, facts) for variant in variants]
    return {task.variant: next(iter(temporal.perform([task]))) for task in tasks}


@pytest.mark.parametrize(("workload", "size"), [("sensors", 500), ("example", 10)])
def test_procedures_over_time_give_the_same_facts(workload: str, size: int) -> None:
    found = over_time(workload, size)
    assert len({one.tuples for one in found.values()}) == 1
    assert all(one.cpu_s > 0 and int(one.counts["stored"]) >= one.tuples for one in found.values())
    rounds = [str(one.counts["seconds_by_round"]).split() for one in found.values()]
    assert len({len(each) for each in rounds}) == 1 and len(rounds[0]) > 1


def test_facts_over_time_are_there_again_after_changes() -> None:
    found = over_time("sensors-changes", 3, 500)
    assert found["maintained"].tuples == found["recompute"].tuples > 500
    assert int(found["maintained"].counts["intervals_lost"]) > 0


def test_a_stream_that_advances_keeps_less(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(endless, "EVENTS", 500)
    monkeypatch.setattr(endless, "HOUR", 300)
    found = over_time("stream", 20_000)
    kept = {name: int(one.counts["intervals"]) for name, one in found.items()}
    assert 0 < kept["advance"] < kept["keep"]


@pytest.mark.parametrize("dataset", [1, 5, 9])
def test_temporal_universities_have_as_many_constants_as_in_the_paper(dataset: int) -> None:
    size = 100_000
    tables = tenures.temporal_facts(size, dataset)
    assert sum(table.num_rows for table in tables.values()) == size
    columns = [table[name].to_numpy() for table in tables.values() for name in table.column_names[:-4]]
    constants = len(np.unique(np.concatenate(columns)))
    assert constants / size == pytest.approx(tenures.CONSTANTS[dataset - 1], rel=0.1)


def test_rules_are_removed_and_added_again() -> None:
    found = {name: maintained("rules", name, 63, facts=200) for name in ("auto", "recompute")}
    assert found["auto"].counts["digest"] == found["recompute"].counts["digest"]
    assert found["auto"].counts["operations"] == 63


def test_drift_ends_with_all_facts_there() -> None:
    found = {name: maintained("drift", name, 20, facts=200) for name in ("auto", "recompute")}
    assert found["auto"].counts["digest"] == found["recompute"].counts["digest"]


def test_counters_and_ranks_are_weighed() -> None:
    assert 0 < float(maintained("W1", "rank-counting", 1, facts=300).counts["bytes_per_fact"]) <= 12
    assert maintained("W1", "recompute", 1, facts=300).counts["bytes_per_fact"] == 0


def test_a_copied_stream_counts_what_paper_000_counted() -> None:
    [measured] = stream.perform([Task("stream", "P_seq", "tidelog", "backward-forward/none", 10, 1)])
    found = measured.counts
    assert (found["deletions"], found["insertions"]) == (1960, 2360)
    assert (found["paper_deletions"], found["paper_insertions"]) == (1960, 2360)


def test_streams_end_alike_whoever_maintains() -> None:
    tasks = [
        Task("stream", "P_trans", "tidelog", name, 10, 1)
        for name in ("dred/none", "auto/none", "recompute/none")
    ]
    assert len({measured.counts["digest"] for measured in stream.perform(tasks)}) == 1


def test_a_record_has_the_one_shape(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "stream.jsonl"
    asked = ["--workloads", "P_seq", "--sizes", "10", "--variants", "auto", "--quick", "--json", str(target)]
    assert main(["stream", *asked]) == 0
    [line] = target.read_text().splitlines()
    record = json.loads(line)
    assert record.keys() == SHAPE
    assert (record["workload"], record["variant"], record["size"]) == ("P_seq", "auto/none", 10)
    assert "P_seq" in capsys.readouterr().err


@pytest.mark.slow
def test_what_was_measured_is_not_measured_again(tmp_path: Path, capsys: pytest.CaptureFixture[str]) -> None:
    target = tmp_path / "maintain.jsonl"
    asked = ["maintain", "--workloads", "W1", "--variants", "auto", "--quick", "--json", str(target)]
    assert main([*asked, "--sizes", "1"]) == 0
    first = target.read_text()
    assert main([*asked, "--sizes", "1,2", "--resume"]) == 0
    assert target.read_text().startswith(first)
    assert [record.size for record in read_records([target])] == [1, 2]
    assert "W1 1 tidelog auto 1/1" not in capsys.readouterr().err.partition("W1 2 tidelog auto 1/1")[2]


def test_a_process_that_fails_keeps_what_it_has_measured() -> None:
    tasks = [Task("maintain", "W1", "tidelog", "dred", size, 1, 300) for size in (1, 2, 10**9)]
    done, also_done, failed = run(tasks, Limits(60.0))
    assert isinstance(done, Measurement) and isinstance(also_done, Measurement)
    assert isinstance(failed, Stopped) and failed.status == "failed"


def test_who_was_stopped_is_not_tried_at_a_larger_size() -> None:
    given_up: dict[tuple[str, ...], int] = {("maintain", "W1", "tidelog", "dred"): 100}
    [result] = not_tried(Task("maintain", "W1", "tidelog", "dred", 1_000, 1), given_up)
    assert isinstance(result, Stopped)
    assert result.reason == "not tried, stopped at size 100"
    assert not_tried(Task("maintain", "W1", "tidelog", "dred", 10, 1), given_up) == []


def test_targets_are_read_from_records() -> None:
    def record(variant: str, size: int, cpu_s: float) -> Record:
        counts: Counts = {"status": "done", "add_cpu_s": cpu_s, "add_p99_s": cpu_s}
        return Record(
            "maintain", "W5", "tidelog", variant, size, cpu_s, cpu_s, cpu_s, 1, 1.0, 0.0, 0.0, counts
        )

    records = [record("auto", 1, 1e-4), record("auto", 100, 1e-3), record("recompute", 100, 0.2)]
    found = {target.what: target for target in targets(records)}
    assert found["W5, one fact deleted, median"].is_reached
    assert found["W5, 100 deleted, times faster than `recompute`"].measured == "200"
    assert found["W5, 100 deleted, times faster than `recompute`"].is_reached is False
    assert found["a 300-clique cut in the middle, times faster than `dred`"].is_reached is None


def test_targets_over_time_are_read_from_records() -> None:
    def record(workload: str, variant: str, size: int, cpu_s: float, counts: Counts) -> Record:
        counts = {"status": "done", **counts}
        return Record(
            "temporal", workload, "", variant, size, cpu_s, 0.0, None, 45_899, 1074.0, 0.0, cpu_s, counts
        )

    rounds: Counts = {"seconds_by_round": " ".join(f"{second}" for second in range(30))}
    slower: Counts = {"seconds_by_round": " ".join(f"{second * 4}" for second in range(30))}
    records = [
        record("lubm", "optimised", 20_000, 0.1, rounds),
        record("lubm", "seminaive", 20_000, 0.1, rounds),
        record("lubm", "naive", 20_000, 0.1, slower),
        record("lubm", "opt", 20_000, 20.0, {}),
        record("lubm-changes", "recompute", 100, 1.0, {}),
        record("lubm-changes", "maintained", 100, 0.1, {}),
        record("turns", "optimised", 20_000, 1.0, {"ratio": 0.9}),
        record("stream", "advance", 1_000_000, 1.0, {"growth": 1.0}),
    ]
    found = {target.what: target for target in targets(records)}
    reached = {target.what for target in found.values() if target.is_reached}
    assert len(reached) == 5
    assert found["temporal LUBM, 20 k facts, times faster than MeTeoR's optimised mode"].measured == "200"
    assert found["the same: `seminaive` by `naive`"].measured.startswith("0.25")
    missed = found["lubm, 100 of 1 M facts deleted, times faster than deriving anew"]
    assert missed.is_reached is False and missed.measured == "10"


@pytest.mark.parametrize("workload", ["W7R", "rmat1k-nonlinear"])
def test_strategies_give_the_same_answers(workload: str) -> None:
    for free in QUESTIONS[workload]:
        check_answers(workload, free, ("full", "magic", "auto"))


@pytest.mark.parametrize("workload", ["lubm-rdfs", pytest.param("lubm-owl", marks=pytest.mark.slow)])
def test_strategies_give_the_same_answers_over_triples(workload: str) -> None:
    check_answers(workload, 0, ("full", "tabling"))


def check_answers(workload: str, free: int, variants: tuple[str, ...]) -> None:
    question = QUESTIONS[workload][free]
    tasks = [Task("query", workload, "tidelog", name, free, 1, 1100) for name in variants]
    found = list(query.perform(tasks))
    assert len({(one.tuples, one.counts["batches_tuples"]) for one in found}) == 1
    assert {one.counts["bound"] for one in found} == {bound(question.about(0))}
    assert all(("further_s" in one.counts) == question.is_bound for one in found)


def test_peers_are_asked_what_one_node_reaches() -> None:
    names = ("tidelog", "duckdb", "clingo")
    tasks = [Task("query", "W7L", name, "magic" * (name == "tidelog"), 1, 1, 1100) for name in names]
    assert len({found.tuples for found in query.perform(tasks)}) == 1


@pytest.mark.parametrize("workload", ["uobm", "lubm"])
def test_treatments_of_equality_give_the_same_facts(workload: str) -> None:
    found = {}
    for variant in equality.VARIANTS:
        [made] = equality.perform([Task("equality", workload, "tidelog", variant, 5, 1, 600)])
        found[variant] = made.tuples
    assert len(set(found.values())) == 1


def test_deletions_with_equality_are_held_against_what_was_to_be_reached() -> None:
    def record(variant: str, size: int, cpu_s: float, kept: int = 10) -> Record:
        found: Counts = {"status": "done", "kept": kept, "derivations": 1, "all_derivations": 1}
        return Record(
            "equality", "uobm-100k", "tidelog", variant, size, cpu_s, cpu_s, None, 1, 1.0, None, 0.1, found
        )

    records = [
        *(record("rewrite-maintain", size, seconds) for size, seconds in ((100, 0.01), (10_000, 1.0))),
        *(record("rewrite-recompute", size, 0.1) for size in (100, 10_000)),
        *(record(f"axiomatise-{way}", 100, 0.5, 25) for way in ("backward-forward", "recompute")),
    ]
    reached = {target.what: target.is_reached for target in targets(records) if target.is_reached is not None}
    assert reached == {
        "equality, uobm-100k, 100 deletions: times faster than B/F by axioms": True,
        "equality, uobm-100k, classes of 6: times faster derived than by axioms": True,
        "equality, uobm-100k, classes of 6: times fewer facts than by axioms": False,
    }
    assert "about 1,000" in tables(records)  # as many deletions as cost what deriving anew does


@pytest.mark.slow
def test_owl_reasoners_give_the_same_triples(tmp_path: Path, capfd: pytest.CaptureFixture[str]) -> None:
    written = tmp_path / "ontology.jsonl"
    assert (
        main(["ontology", "--sizes", "1000", "--peers", "", "--repetitions", "1", "--json", str(written)])
        == 0
    )
    records = read_records([written])
    assert {record.variant for record in records} == {"specialised", "tables"}
    assert len({record.tuples for record in records}) == 1
    assert "tidelog, `tables`" in tables(records)
    assert "university 1000 tidelog tables 1/1: begun" in capfd.readouterr().err


def test_owl_reasoners_are_held_against_what_was_to_be_reached() -> None:
    def record(engine: str, variant: str, cpu_s: float, load_s: float) -> Record:
        counts: Counts = {"status": "done", "rules_s": 0.5}
        return Record(
            "ontology", "university", engine, variant, 10**6, cpu_s, cpu_s, 0.0, 1, 1.0, load_s, 1.0, counts
        )

    own = [record("tidelog", "specialised", 3.0, 1.0), record("tidelog", "tables", 2.0, 9.0)]
    found = {
        target.what: target.is_reached for target in targets([*own, record("reasonable", "", 27.0, 9.0)])
    }
    assert found["OWL 2 RL, 1,000,000 triples, specialised: times faster than reasonable"] is False
    assert found["OWL 2 RL, 1,000,000 triples, tables: times faster than reasonable"] is True
    assert found["OWL 2 RL, 1,000,000 triples, tables: times faster than owlrl"] is None


@pytest.mark.parametrize("variant", explain.VARIANTS)
def test_explanations_are_measured(variant: str) -> None:
    (done,) = explain.perform([Task("explain", "W1", "tidelog", variant, 300, 1)])
    assert done.tuples == done.counts["asked"] == 200
    assert 0 < float(done.counts["median_ms"]) <= float(done.counts["longest_ms"])


def test_targets_of_proofs_and_stores_are_read_from_records() -> None:
    def record(suite: str, workload: str, variant: str, cpu: float, **counts: float) -> Record:
        found: Counts = {"status": "done", **counts}
        return Record(suite, workload, "tidelog", variant, 10, cpu, cpu, None, 1, 1.0, None, None, found)

    records = [
        record("explain", "W5", "why", 1.0, median_ms=0.6),
        record("explain", "W1", "why", 1.0, median_ms=12.0),
        record("store", "pairs", "commit", 1.0, commits_per_s=700.0, by_floor=1.3),
        record("store", "W5", "open", 0.1),
        record("store", "W5", "materialise", 0.2),
        record("store", "pairs", "open", 1.0, bytes_per_fact=8.4),
    ]
    words = ("a proof", "commits of one", "a commit without", "opening W5", "a snapshot of pairs")
    found = [target.is_reached for target in targets(records) if target.what.startswith(words)]
    assert found == [True, False, True, True, False, True]
