"""Facts with times in jobs: whatever changes, what is published is what is derived from scratch."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction
from pathlib import Path

import pyarrow.parquet as pq
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidelog as tl
from tests.pipeline.conftest import MAY_BE_EMPTY, Write
from tests.pipeline.histories import EVENTS, Facts, Scene, check_feeds
from tidelog.cli.results import script_lines
from tidelog.errors import DataError, ProgramError
from tidelog.pipeline import Engine, Job, Sink, Source, Step, difference, read
from tidelog.pipeline.job_file import parse_settings
from tidelog.pipeline.publishing import roll_back

POINTS = st.sampled_from(["0", "1", "2.5", "3", "10/3", "4", "7", "-1"])
HOT = st.frozensets(st.tuples(st.sampled_from("ab"), POINTS, POINTS), max_size=5)
RESETS = st.frozensets(st.tuples(st.sampled_from("ab"), POINTS), max_size=3)
RULES = (
    "warm(?s) :- boxminus[0, 1] hot(?s) .",
    "warm(?s) :- kind(?s, boiler), hot(?s) .",
    "alarm(?s) :- warm(?s), ~diamondminus[0, 2] reset(?s) .",
    "alarm(?s) :- diamondminus[1, 1] alarm(?s), hot(?s) .",
    "boxplus[0, 1] late(?s) :- reset(?s) .",
    "count(#count(?s)) :- kind(?s, _) .",
    "hot(c) .",
)
ALWAYS = """\
@declare hot(sensor: any) . @declare reset(sensor: any) . @declare kind(sensor: any, is: any) .
hot(z)@[0, 1] . kind(a, boiler) .
"""
SOURCES = (
    Source("hot", "hot.csv", header=False, time=("start", "end"), limits=MAY_BE_EMPTY),
    Source("reset", "reset.csv", header=False, time="start", limits=MAY_BE_EMPTY),
)
STATES = st.tuples(HOT, RESETS, st.frozensets(st.sampled_from(RULES)), EVENTS)
ENGINE = Engine("columnar", horizon="-4,12", threads=1)


def program(rules: frozenset[str]) -> tl.Program:
    return tl.parse(ALWAYS + "\n".join(rule for rule in RULES if rule in rules))


def ordered(*points: str) -> list[str]:
    return sorted(points, key=Fraction)


def written(folder: Path, hot: frozenset[tuple[str, str, str]], resets: frozenset[tuple[str, str]]) -> None:
    rows = (f"{name},{','.join(ordered(first, last))}\n" for name, first, last in sorted(hot))
    (folder / "hot.csv").write_text("".join(rows))
    (folder / "reset.csv").write_text("".join(f"{name},{point}\n" for name, point in sorted(resets)))


def expected(folder: Path, rules: frozenset[str]) -> Facts:
    """All facts from scratch, as `tidelog run` reads them."""
    imports = "".join(
        f'@import {source.predicate} :- csv{{ resource = "{folder / source.paths[0]}", '
        f"time = {'(start, end)' if source.predicate == 'hot' else 'start'} }} .\n"
        for source in SOURCES
    )
    text = ALWAYS + imports + "\n".join(rule for rule in RULES if rule in rules)
    reasoner = tl.Reasoner(tl.parse(text), time=ENGINE.time_settings, threads=1)
    return {name: set(reasoner[name].to_texts("exact").rows()) for name in reasoner}


@settings(max_examples=max(6, settings().max_examples // 8))
@given(st.lists(STATES, min_size=2, max_size=4))
def test_maintaining_publishes_what_deriving_would(states: list[tuple[object, ...]]) -> None:
    check(states)


@pytest.mark.slow
@given(st.lists(STATES, min_size=3, max_size=9))
def test_the_same_for_longer_histories(states: list[tuple[object, ...]]) -> None:
    check(states)


def check(states: list[tuple[object, ...]]) -> None:
    """Every version, and every feed, is what follows from scratch."""
    with Scene(SOURCES, written, program, expected, ENGINE).history(states) as (job, held):
        check_feeds(job, held)


# ---- one job

DOORS = """\
@declare open(door: any) . @declare badge(door: any) .
alarm(?door) :- boxminus[0, 2m] open(?door), ~diamondminus[0, 5m] badge(?door) .
"""
JOB = """\
program = "doors.rls"
publish = "published"
engine.name = "columnar"
[[source]]
predicate = "open"
path = "open.csv"
allow-empty = true
header = true
columns = { door = "which", start = "from", duration = "lasting" }
time = ["start", "duration"]
filter = "?door != test"
[[source]]
predicate = "badge"
path = "badge.jsonl"
time = "start"
[[sink]]
predicate = "alarm"
path = "alarm.csv"
[[sink]]
predicate = "alarm"
path = "alarm.parquet"
[[sink]]
predicate = "alarm"
what = "changes"
format = "csv"
path = "changes"
"""
OPEN = "which,from,lasting\nnorth,2024-05-01T08:04:00Z,9m\ntest,2024-05-01T08:00:00Z,1h\n"


@pytest.fixture
def doors(write: Write) -> Path:
    write("doors.rls", DOORS)
    write("open.csv", OPEN)
    write("badge.jsonl", '{"door": "north", "start": "2024-05-01T08:02:00Z"}\n')
    return write("job.toml", JOB)


def held(name: str) -> set[tuple[str, ...]]:
    return {tuple(map(str, row)) for row in read("published")[name]}


def day(first: str, last: str) -> str:
    return f"{first[0]}2024-05-01T08:{first[1:]}:00Z, 2024-05-01T08:{last[:-1]}:00Z{last[-1]}"


@pytest.mark.parametrize("is_warm", [True, False], ids=["warm", "cold"])
def test_intervals_come_and_go(doors: Path, is_warm: bool) -> None:
    job = Job.load(doors)
    version = job.run().version
    assert version.inputs["open < open.csv"].filtered == 1
    assert held("alarm") == {("north", day("(07", "13]"))}
    stored = read("published").to_arrow("alarm")
    assert stored.column_names == ["door", "start", "end", "start_open", "end_open"]
    assert stored.column_names == pq.read_table("alarm.parquet").column_names
    Path("open.csv").write_text(OPEN + "north,2024-05-01T08:13:00Z,1m\n")
    steps: list[Step] = []
    later = job if is_warm else Job.load(doors)
    later.listeners.append(steps.append)
    assert later.run().version.reason == "incremental"
    assert "derived" not in [step.name for step in steps]
    assert held("alarm") == {("north", day("(07", "14]"))}
    assert Path("alarm.csv").read_text().splitlines()[1:] == [f'north,"{day("(07", "14]")}"']
    lines = Path("changes/2.csv").read_text().splitlines()
    assert lines == [
        "version,change,door,interval",
        f'2,-,north,"{day("(07", "13]")}"',
        f'2,+,north,"{day("(07", "14]")}"',
    ]
    assert not later.run().is_new and later.run(full=True).version.feed == {}
    later.apply('- open(north)@"2024-05-01T08:10:00Z" .')
    assert held("alarm") == {("north", day("(07", "10)")), ("north", day("(12", "14]"))}
    roll_back(later.store)
    assert held("alarm") == {("north", day("(07", "14]"))}
    delta = difference(later.store, 1, later.store.number or 0)
    assert [str(row[1]) for row in delta["alarm"].added] == [day("(07", "14]")]
    tl.Reasoner().apply("\n".join(script_lines(delta)), missing="ignore")  # it is a script
    Path("open.csv").write_text("which,from,lasting\n")
    assert Job.load(doors).run().version.tables["alarm"].rows == 0


def test_a_time_that_cannot_be_read_is_rejected(doors: Path) -> None:
    Path("open.csv").write_text(OPEN + "south,noon,5m\nwest,2024-05-01T08:00:00Z,3m\n,2024-05-01,-5m\n")
    version = Job.load(doors).run().version
    given = version.inputs["open < open.csv"]
    assert (given.rows, given.filtered, given.rejected) == (3, 1, 2) and given.rejects is not None
    _, first, second = (Path("published") / given.rejects).read_text().splitlines()
    assert first.startswith("open.csv,E619,") and first.endswith(',"south,noon,5m"')
    assert "no time point lies" in second
    assert len(held("open")) == 2
    Path("open.csv").write_text(OPEN + "south,noon,5m\n")
    assert Job.load(doors).run().version.inputs["open < open.csv"].rejected == 1
    Path("job.toml").write_text(JOB.replace('time = "start"', 'time = "start"\non-error = "fail"'))
    Path("badge.jsonl").write_text('{"door": "north", "start": "late"}\n')
    with pytest.raises(DataError, match="E619"):
        Job.load(doors).run()


def test_what_is_said_without_a_time_stays_so(write: Write) -> None:
    rules = tl.parse("p(a) . p(b)@[0, 1/3) . p(c)@(-inf, inf) . q(?x) :- diamondminus[1, 1] p(?x) .")
    job = Job(rules, publish="published", engine="columnar")
    job.run()
    assert held("q") == {("a", "(-inf, inf)"), ("b", "[1, 4/3)"), ("c", "(-inf, inf)")}
    cold = Job(rules, publish="published", engine="columnar")
    cold.apply("- p(a) . - p(c)@[5, 6] .")
    assert held("q") == {("b", "[1, 4/3)"), ("c", "(-inf, 6)"), ("c", "(7, inf)")}
    assert held("p") == {("b", "[0, 1/3)"), ("c", "(-inf, 5)"), ("c", "(6, inf)")}
    Job(rules, publish="published", engine="columnar").apply("+ p(a) .")
    assert ("a", "(-inf, inf)") in held("q")


@pytest.mark.parametrize("is_warm", [True, False], ids=["warm", "cold"])
def test_what_repeats_without_end(is_warm: bool) -> None:
    rules = (
        "@timeline integer . shift(?t) :- diamondminus[24, 24] shift(?t) . "
        "busy(?t) :- boxminus[0, 1] shift(?t) ."
    )
    job = Job(tl.parse(f"{rules} shift(early)@[6, 13] ."), publish="published", engine="columnar")
    job.run()
    assert held("busy") == {("early", "[7, 13]", "24")}
    changed = tl.parse(f"{rules} shift(early)@[6, 13] . shift(late)@[14, 21] .")
    later = Job(changed, publish="published", engine="columnar")
    if is_warm:
        job.settings, later = replace(job.settings, program=changed), job
    later.run()
    assert held("busy") == {("early", "[7, 13]", "24"), ("late", "[15, 21]", "24")}
    added = read("published").changes("busy").added
    assert {tuple(map(str, row)) for row in added} == {("late", "[15, 21]", "24")}
    lines = script_lines(difference(later.store, 1, 2), ("busy",))
    assert list(lines) == ["+ busy(late)@[15, 21] .  % and every 24"]


def test_other_settings_of_time_derive_anew(doors: Path, write: Write) -> None:
    Job.load(doors).run()
    write("job.toml", f'engine.horizon = "2024-05-01T08:00:00Z,2024-05-01T08:10:00Z"\n{JOB}')
    steps: list[Step] = []
    job = Job.load(doors, listeners=[steps.append])
    assert job.run().version.reason == "full" and held("alarm") == {("north", day("(07", "10]"))}
    [told] = [step.detail for step in steps if step.name == "full recompute"]
    assert "version 1 is of `no such treatment`, and the job of `horizon [2024" in told
    write(
        "doors.rls",
        DOORS.replace("boxminus[0, 2m] open(?door)", "open(?door), badge(?door)").replace(
            ", ~diamondminus[0, 5m] badge(?door)", ""
        ),
    )
    assert job.run().version.reason == "incremental"


def test_what_is_refused(doors: Path, write: Write) -> None:
    job = Job.load(doors)
    job.run()
    with pytest.raises(DataError, match="E817") as caught:
        job.apply('@advance "2024-05-01T09:00:00Z" .')
    assert "time cannot advance in a pipeline" in str(caught.value)
    assert job.store.number == 1 and not job.run().is_new
    write("doors.rls", DOORS + "many(#count(?door)) :- open(?door) .")
    with pytest.raises(ProgramError, match="E353"):
        job.run()
    with pytest.raises(DataError) as faults:
        text = 'engine.horizon = "soon"\n' + JOB.replace('["start", "duration"]', '["a", "b", "c"]')
        parse_settings(text, doors.parent)
    assert [fault.code for fault in faults.value.diagnostics] == ["E803", "E803"]
    write("doors.rls", DOORS)
    sink = Sink("alarm", "alarm.nt", "ntriples")
    with pytest.raises(DataError, match="E813"):
        Job.of(replace(Job.load(doors).settings, sinks=(sink,))).run()


def test_times_that_come_later(write: Write) -> None:
    write("rules.rls", "p(a) . q(?x) :- p(?x) .")
    job = Job("rules.rls", publish="published", engine="columnar")
    job.run()
    job.apply("+ hot(a)@[0, 10) . + warm(?x) :- diamondminus[0, 1] hot(?x), q(?x) .")
    assert held("warm") == {("a", "[0, 11)")}
    assert (
        Job("rules.rls", publish="published", engine="columnar").apply("- p(a) .").version.tables["warm"].rows
        == 0
    )
    steps: list[Step] = []
    job.listeners.append(steps.append)
    write("rules.rls", "p(a) . q(?x) :- p(?x) . tick(a)@1 . tick(?x) :- diamondminus[2, 2] tick(?x), q(?x) .")
    assert job.run().version.reason == "full" and held("tick") == {("a", "[1, 1]", "2")}
    assert any(step.name == "full recompute" for step in steps)
    job.apply("+ tock(a)@0 . + tock(?x) :- diamondminus[2, 2] tock(?x) .")
    assert held("tock") == {("a", "[0, 0]", "2")} and held("tick") == {("a", "[1, 1]", "2")}


@pytest.mark.parametrize("is_warm", [True, False], ids=["warm", "cold"])
def test_given_facts_are_sets_of_points(is_warm: bool) -> None:
    """A fact without a time is given always: stretches of it come and go, of predicates without times too."""
    rules = tl.parse("p(a) . p(a)@[0, 5] . p(b)@[1, 2] . q(?x) :- p(?x) . s(a) . s(b) . v(?x) :- s(?x) .")
    warm = Job(rules, publish="published", engine="columnar")
    warm.run()
    a, b = ("a", "(-inf, inf)"), ("b", "(-inf, inf)")
    split = {("b", "(-inf, 3)"), ("b", "(4, inf)")}
    for script, expected, others in (
        ("- p(a) .", {("b", "[1, 2]")}, {("a",), ("b",)}),
        ("+ p(b) .", {b}, {("a",), ("b",)}),
        ("- p(b)@[3, 4] .", split, {("a",), ("b",)}),
        ("+ p(a) . - s(b)@[3, 4] .", {a, *split}, {a, *split}),
        ("- p(a)@(-inf, 0) . + s(b)@[3, 4] .", {("a", "[0, inf)"), *split}, {a, b}),
    ):
        job = warm if is_warm else Job(rules, publish="published", engine="columnar")
        job.apply(script)
        assert (held("p"), held("q"), held("s"), held("v")) == (expected, expected, others, others)
