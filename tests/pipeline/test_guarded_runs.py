"""Jobs with guards and expectations: what fails publishes nothing, then or later."""

from __future__ import annotations

import json
import os
from datetime import timedelta
from pathlib import Path
from typing import Any

import pytest

import tidelog as tl
from tests.pipeline.conftest import EDGES, JOB, RULES, Write
from tidelog.__main__ import main
from tidelog.errors import DataError
from tidelog.pipeline import Job, Source, read
from tidelog.pipeline.guards import Expectation, GuardFailed, GuardLimits, Guards, GuardSeverity
from tidelog.pipeline.run_reports import read_log
from tidelog.pipeline.versions import difference

EMPTY = "from,to\n"


def failing(job: Job, full: bool = False) -> list[str]:
    """The messages of a run that fails by its guards and publishes nothing."""
    before = job.store.number
    with pytest.raises(GuardFailed) as raised:
        job.run(full)
    assert job.store.number == before
    assert not list(job.store.path.glob("_state.*"))
    return [item.message for item in raised.value.diagnostics]


@pytest.mark.parametrize("full", [False, True], ids=["incremental", "full"])
@pytest.mark.parametrize("is_warm", [True, False], ids=["warm", "cold"])
def test_an_emptied_source_is_not_published_then_or_later(job: Job, full: bool, is_warm: bool) -> None:
    job.run()
    before = set(read("published")["reach"])
    Path("edge.csv").write_text(EMPTY)
    for _ in range(2):
        tried = job if is_warm else Job.load("job.toml")
        assert failing(tried, full) == ["`edge.csv` has no rows, and had 3 in the last version"]
    assert set(read("published")["reach"]) == before
    Path("edge.csv").write_text("from,to\na,b\nx,y\n")
    run = Job.load("job.toml").run()
    assert run.version.version == 2 and set(read("published")["reach"]) == {("a", "b"), ("x", "y")}
    assert run.version.reason == "incremental"  # what failed has left the state as it was


def test_a_source_that_may_become_empty(job: Job, write: Write) -> None:
    job.run()
    write("edge.csv", EMPTY)
    assert Job.load(write("job.toml", JOB + "allow-empty = true\n")).run().version.rows == 0


def test_a_filter_that_leaves_nothing_empties_a_source(job: Job, write: Write) -> None:
    job.run()
    (message,) = failing(Job.load(write("job.toml", JOB + "filter = '?from = \"z\"'\n")))
    assert message == "`edge.csv` has no rows left of 3, and had 3 in the last version"


def test_limits_of_a_source(job: Job, write: Write) -> None:
    limits = 'min-rows = 3\nmax-drop = "30 %"\nmax-age = "2 h"\n'
    job = Job.load(write("job.toml", JOB + limits))
    job.run()
    path = write("edge.csv", "from,to\na,b\n")
    hour = path.stat().st_mtime - timedelta(hours=3).total_seconds()
    os.utime(path, (hour, hour))
    few, drop, age = failing(job)
    assert few == "`edge.csv` has 1 row, fewer than min-rows = 3"
    assert "66.7 % fewer than the 3 of the last version" in drop and "is 3 h old" in age
    write("edge.csv", "from,to\na,b\nb,c\nc,d\n")  # as it was: nothing is published, and all holds
    assert not job.run().is_new
    os.utime(path, (hour, hour))
    (age,) = failing(job)  # though nothing has changed
    assert "is 3 h old" in age


def test_rejected_rows(write: Write, job_file: Path) -> None:
    write("reach.rls", "@declare edge(from: int, to: int) . reach(?x, ?y) :- edge(?x, ?y) .")
    write("edge.csv", "from,to\n1,2\nx,3\n")
    job = Job.load(write("job.toml", JOB + 'max-rejected = "10 %"\n'))
    (message,) = failing(job)
    assert message.startswith("1 of 2 rows of `edge.csv` were rejected (50 %)")
    assert job.store.number is None


@pytest.mark.parametrize("full", [False, True], ids=["incremental", "full"])
def test_guards_of_predicates(job: Job, write: Write, full: bool) -> None:
    guards = '[[guard]]\npredicate = "reach"\nmax-drop = "50 %"\n'
    guards += '[[guard]]\npredicate = "sink"\nmax-rows = 1\non-guard = "warn"\n'
    job = Job.load(write("job.toml", JOB + guards))
    job.run()
    write("edge.csv", "from,to\na,b\nc,d\n")
    (message,) = failing(job, full)
    assert message.startswith("`reach` has 2 rows, 66.7 % fewer than the 6")
    write("edge.csv", "from,to\na,b\nb,c\na,x\n")
    (finding,) = job.run(full).findings
    assert finding.severity is GuardSeverity.WARN and str(finding.place).endswith("job.toml:14:12")
    assert job.store.number == 2


def look_at_what_failed(job: Job, full: bool, write: Write) -> None:
    """What fails a guard is kept aside to be looked at, until the next run, and nothing is built on it."""
    job.run()
    write("edge.csv", "from,to\na,b\n")
    failing(job, full)
    failed, current = read("published", "failed"), read("published")
    assert set(failed["reach"]) == {("a", "b")} and len(current["reach"]) == 6
    assert set(failed["edge"]) == {("a", "b")} and failed.manifest.failures
    assert set(failed.changes("reach").removed) == set(current["reach"]) - {("a", "b")}
    delta = difference(job.store, 1, "failed")
    assert set(delta["edge"].removed) == {("b", "c"), ("c", "d")} and not delta["edge"].added
    assert not difference(job.store, "failed", "failed") and not Path("published/_pending.json").exists()
    write("edge.csv", "from,to\na,b\nb,c\nc,d\nd,e\n")
    assert job.run(full).version.version == 2
    assert len(read("published")["reach"]) == 10
    named = {Path(file) for number in (1, 2) for file in read("published", number).files("edge")}
    assert {file.resolve() for file in Path("published/edge").rglob("part-*.parquet")} == {
        file.resolve() for file in named
    }
    with pytest.raises(DataError, match="no version is set aside"):
        read("published", "failed")


@pytest.mark.parametrize("full", [False, True], ids=["incremental", "full"])
@pytest.mark.parametrize("form", ["delta", "iceberg", "parquet"])
def test_what_fails_can_be_looked_at(write: Write, job_file: Path, full: bool, form: str) -> None:
    text = JOB.replace('"published"', f'{{ folder = "published", format = "{form}" }}') + "min-rows = 3\n"
    look_at_what_failed(Job.load(write("job.toml", text)), full, write)


def test_what_fails_with_other_rules_can_be_looked_at(write: Write, job: Job) -> None:
    job.run()
    guard = '[[guard]]\npredicate = "pair"\nmin-rows = 9\n'
    write("reach.rls", RULES + "pair(?x, ?z) :- edge(?x, ?y), edge(?y, ?z) .\n")
    failing(Job.load(write("job.toml", JOB + guard)))
    assert set(read("published", "failed")["pair"]) == {("a", "c"), ("b", "d")}
    assert set(read("published", "failed")["edge"]) == set(read("published")["edge"])


def test_a_first_run_that_fails_is_listed(
    write: Write, job_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write("job.toml", JOB + "min-rows = 4\n")
    assert main(["pipeline", "job.toml"]) == 3
    assert "set aside" in capsys.readouterr().err
    assert main(["versions", "published"]) == 0
    said = capsys.readouterr().out.splitlines()
    assert said[1].startswith("failed") and "fewer than min-rows = 4" in said[2]
    assert main(["versions", "published", "-f", "json"]) == 0
    (found,) = json.loads(capsys.readouterr().out)
    assert found["version"] == "failed" and not found["current"] and len(found["failures"]) == 1
    assert main(["diff", "published", "failed"]) == 1  # there is nothing to compare it with
    assert "the first one" in capsys.readouterr().err
    assert main(["diff", "published", "faield"]) == 2
    write("edge.csv", EDGES + "d,e\n")
    assert main(["pipeline", "job.toml", "-q"]) == 0
    write("edge.csv", EDGES)
    assert main(["pipeline", "job.toml", "-q"]) == 3
    capsys.readouterr()
    assert main(["diff", "published", "failed", "--predicate", "edge"]) == 0
    said_out, said_err = capsys.readouterr()
    assert said_out == '- edge("d", "e") .\n' and said_err.startswith("version 1 to failed: ")
    assert main(["vacuum", "published", "-q"]) == 0
    assert main(["versions", "published"]) == 0
    assert "failed" not in capsys.readouterr().out


def test_a_guard_of_a_predicate_that_is_not_there(job: Job, write: Write) -> None:
    job = Job.load(write("job.toml", JOB + '[[guard]]\npredicate = "raech"\nmin-rows = 1\n'))
    with pytest.raises(DataError, match="no predicate `raech`"):
        job.run()


def test_rules_over_time_are_measured_before_they_are_committed(write: Write) -> None:
    write("hot.csv", "s,start,end\na,0,10\nb,0,10\n")
    program = "alarm(?s) :- boxminus[0, 5] hot(?s) ."
    source = Source("hot", "hot.csv", header=True, time=("start", "end"))
    guards = Guards(
        predicates={"alarm": GuardLimits(min_rows=2)},
        expectations=(Expectation("alarm", GuardSeverity.WARN),),
    )

    def job() -> Job:
        made = tl.parse(program)
        return Job(made, publish="published", sources=[source], engine="columnar", guards=guards)

    (finding,) = job().run().findings
    assert ("a", "[5, 10]") in finding.samples
    write("hot.csv", "s,start,end\na,0,10\n")
    assert failing(job())[0] == "`alarm` has 1 row, fewer than min-rows = 2"
    assert [tuple(map(str, row)) for row in read("published", "failed")["alarm"]] == [("a", "[5, 10]")]
    write("hot.csv", "s,start,end\na,0,10\nc,0,20\n")
    run = job().run()
    assert run.version.reason == "incremental" and run.version.tables["alarm"].rows == 2


@pytest.mark.slow
def test_guards_on_spark(write: Write, spark: Any) -> None:
    write("edge.csv", "from,to\na,b\nb,c\n")
    program = tl.parse("@declare edge(from: string, to: string) . loop(?x) :- edge(?x, ?x) .")
    guards = Guards(expectations=(Expectation("loop"),))

    def job() -> Job:
        source = Source("edge", "edge.csv", header=True)
        return Job(program, publish="published", sources=[source], session=spark, guards=guards)

    job().run()
    write("edge.csv", "from,to\na,a\n")
    for full in (False, True):
        assert failing(job(), full) == ["1 row of `loop`, such as\n        a"]
    write("edge.csv", EMPTY)
    for full in (False, True):
        assert failing(job(), full) == ["`edge.csv` has no rows, and had 2 in the last version"]
        assert len(read("published", "failed")["edge"]) == 0 and len(read("published")["edge"]) == 2
    write("edge.csv", "from,to\na,b\n")
    assert job().run().version.reason == "incremental" and set(read("published")["edge"]) == {("a", "b")}


@pytest.mark.slow
def test_dropped_rows_come_back_on_spark(write: Write, spark: Any) -> None:
    run_with_drops(write, lambda: dropping_job(write, engine="spark", session=spark))


def test_reports_events_and_exit_codes(job_file: Path, write: Write) -> None:
    more = '[report]\nfolder = "reports"\n[openlineage]\nfile = "events.jsonl"\n[retry]\nattempts = 2\n'
    more += '[[expect]]\npredicate = "sink"\nseverity = "warn"\n'
    write("job.toml", JOB + more)
    assert main(["pipeline", "job.toml", "-q"]) == 0
    assert main(["pipeline", "job.toml", "-q", "--exit-unchanged"]) == 99
    write("edge.csv", EMPTY)
    assert main(["pipeline", "job.toml", "-q"]) == 3
    log = read_log(Path("reports/runs.jsonl"))
    assert [run.outcome for run in log.runs] == ["published", "unchanged", "refused"] and not log.unfinished
    first, _, last = log.runs
    assert first.version == 1 and {one.predicate: one.rows for one in first.predicates}["reach"] == 6
    assert [one.samples for one in first.findings] == [(("d",),)] and first.sources[0].rows == 3
    assert last.parent == 1 and "had 3 in the last version" in str(last.error)
    assert len(list(Path("reports").glob("*.html"))) == 3
    events = [json.loads(line) for line in Path("events.jsonl").read_text().splitlines()]
    kinds = [event["eventType"] for event in events]
    assert kinds == ["START", "COMPLETE", "START", "COMPLETE", "START", "FAIL"]
    outputs = {Path(one["name"]).name: one["facets"] for one in events[1]["outputs"]}
    assert "from" in str(outputs["reach"]["columnLineage"])


def test_a_job_is_validated_without_running(
    job_file: Path, write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    assert main(["pipeline", "job.toml", "--validate"]) == 0
    wrong = '[[guard]]\npredicate = "raech"\nmin-rows = 1\n[[sink]]\npredicate = "snik"\npath = "a.csv"\n'
    write("job.toml", JOB + wrong)
    Path("edge.csv").unlink()
    assert main(["pipeline", "job.toml", "--validate"]) == 1
    said = capsys.readouterr().err
    assert "raech" in said and "snik" in said and "edge.csv" in said
    assert not Path("published").exists()


def test_what_jobs_cannot_expect(job_file: Path, write: Write) -> None:
    write("job.toml", f'{JOB}[[expect]]\npredicate = "bottom"\n')
    with pytest.raises(DataError, match="E803"):
        Job.load("job.toml")


# ---- rows that are left out

DROPPING = """\
@declare order(id: int, who: string, amount: int) .
@declare person(who: string) .
known(?id) :- order(?id, ?who, _), person(?who) .
bad(?id) :- order(?id, _, _), ~known(?id) .
free(?id) :- order(?id, _, 0) .
spent(?who, #sum(?amount, ?id)) :- order(?id, ?who, ?amount) .
"""
LEFT_OUT = (
    Expectation("bad", GuardSeverity.DROP, "orders have a customer", "order"),
    Expectation("free", GuardSeverity.DROP, None, "order"),
)


def dropping_job(write: Write, expectations: tuple[Expectation, ...] = LEFT_OUT, **more: Any) -> Job:
    write("orders.rls", DROPPING)
    sources = [Source("order", "order.csv", header=True), Source("person", "person.csv", header=True)]
    settings: dict[str, Any] = {"engine": "columnar", "guards": Guards(expectations=expectations), **more}
    return Job("orders.rls", publish="published", sources=sources, **settings)


def check_left_out(job: Job, kept: set[Any], aside: set[Any]) -> None:
    """Check what the last version has of orders, and what follows from them."""
    version = read("published")
    assert set(version["order"]) == kept and set(version["order_dropped"]) == aside
    assert set(version["known"]) == {(row[0],) for row in kept}
    assert dict(version["spent"]) == {row[1]: sum(r[2] for r in kept if r[1] == row[1]) for row in kept}
    assert "tag:" not in str(list(version))


def run_with_drops(write: Write, make: Any) -> None:
    """Rows are left out by a first run, by later ones and by a full one, and come back."""
    write("order.csv", "id,who,amount\n1,ada,10\n2,bob,20\n3,ada,0\n4,zed,0\n")
    write("person.csv", "who\nada\n")
    first = make().run()
    one, two = (1, "ada", 10), (2, "bob", 20)
    bad = "orders have a customer"
    others = {(3, "ada", 0, "free"), (4, "zed", 0, bad)}
    check_left_out(make(), {one}, {(*two, bad), *others})
    assert [finding.figures["dropped"] for finding in first.findings] == [3, 3]
    write("person.csv", "who\nada\nbob\n")
    assert make().run().version.reason == "incremental"
    check_left_out(make(), {one, two}, others)
    write("order.csv", "id,who,amount\n1,ada,10\n2,bob,20\n3,ada,5\n4,zed,0\n5,eve,7\n")
    assert make().run().version.reason == "incremental"
    changes = read("published").changes("order_dropped")
    assert set(changes.added) == {(5, "eve", 7, bad)} and set(changes.removed) == {(3, "ada", 0, "free")}
    kept, aside = {one, two, (3, "ada", 5)}, {(4, "zed", 0, bad), (5, "eve", 7, bad)}
    check_left_out(make(), kept, aside)
    assert make().run(full=True).version.added == 0
    check_left_out(make(), kept, aside)


def test_dropped_rows_come_back(write: Write) -> None:
    run_with_drops(write, lambda: dropping_job(write))


def test_rows_are_dropped_from_changes_after_a_rollback_and_no_longer(write: Write) -> None:
    write("order.csv", "id,who,amount\n1,ada,10\n")
    write("person.csv", "who\nada\n")
    job = dropping_job(write)
    job.run()
    job.apply('+ order(2, "bob", 20) .')
    check_left_out(job, {(1, "ada", 10)}, {(2, "bob", 20, "orders have a customer")})
    with pytest.raises(DataError, match="drops rows"):
        job.apply("+ id(?x) :- order(?x, _, _) .")
    job.apply('- order(1, "ada", 10) . + person("bob") .')
    assert main(["rollback", "published", "-q"]) == 0
    job.apply('- order(1, "ada", 10) . + order(3, "ada", 1) .')  # the state is made of both tables
    check_left_out(job, {(3, "ada", 1)}, {(2, "bob", 20, "orders have a customer")})
    whole = dropping_job(write, ()).run().version
    assert whole.reason == "incremental" and "order_dropped" not in whole.tables
    assert set(read("published")["order"]) == {(2, "bob", 20), (3, "ada", 1)}
    assert set(read("published").changes("order").added) == {(2, "bob", 20)}
    dropping_job(write).run()
    check_left_out(job, {(3, "ada", 1)}, {(2, "bob", 20, "orders have a customer")})


def test_rows_that_hold_at_times_are_dropped_when_they_violate(write: Write) -> None:
    write("hot.csv", "s,start,end\na,0,10\nb,0,10\n")
    write("off.csv", "s,start,end\na,4,6\n")
    program = "@declare hot(s: string) . @declare off(s: string) . "
    program += "bad(?s) :- off(?s), hot(?s) . warm(?s) :- hot(?s) ."
    sources = [Source(name, f"{name}.csv", header=True, time=("start", "end")) for name in ("hot", "off")]
    guards = Guards(expectations=(Expectation("bad", GuardSeverity.DROP, None, "hot", ("s",)),))
    job = Job(tl.parse(program), publish="published", sources=sources, engine="columnar", guards=guards)
    job.run()

    def held(name: str) -> set[tuple[str, ...]]:
        return {tuple(map(str, row)) for row in read("published")[name]}

    assert held("warm") == {("a", "[0, 4)"), ("a", "(6, 10]"), ("b", "[0, 10]")} == held("hot")
    assert held("hot_dropped") == {("a", "bad", "[4, 6]")}
    write("off.csv", "s,start,end\nb,0,1\n")
    assert job.run().version.reason == "incremental"
    assert held("warm") == {("a", "[0, 10]"), ("b", "(1, 10]")}


def test_rows_that_cannot_be_dropped_are_told_at_once(
    job_file: Path, write: Write, capsys: pytest.CaptureFixture[str]
) -> None:
    write("reach.rls", Path("reach.rls").read_text() + "bad(?x) :- reach(?x, ?x) .\n")
    wrong = '[[expect]]\npredicate = "bad"\nseverity = "drop"\nof = "reach"\ncolumns = ["x"]\n'
    wrong += '[[sink]]\npredicate = "snik"\npath = "a.csv"\n'
    write("job.toml", JOB + wrong)
    assert main(["pipeline", "job.toml", "--validate"]) == 1
    said = capsys.readouterr().err
    assert (
        "depends on which of `reach` are dropped" in said and "snik" in said and "job.toml:11:12" in said
    ), said
