"""Equality by rewriting in jobs: whatever changes, what is published is what the axioms give from scratch."""

from __future__ import annotations

import tempfile
from collections.abc import Callable
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidelog as tl
from tests.equality.laboratory import Facts as References
from tests.equality.laboratory import reference
from tests.equality.scripts import Script, scripts
from tests.pipeline.conftest import MAY_BE_EMPTY, Write
from tests.pipeline.histories import (
    EVENTS,
    MEMORY,
    Facts,
    Scene,
    check_difference,
    check_feeds,
    facts,
    present,
)
from tidelog.errors import DataError, Inconsistent
from tidelog.logic.program import BUILT_IN
from tidelog.pipeline import Engine, Job, Sink, Source, Step, Version, read
from tidelog.pipeline.guards import Expectation, Guards, GuardSeverity, resolve
from tidelog.pipeline.job_file import parse_settings
from tidelog.pipeline.publishing import roll_back
from tidelog.rewrite.dropped_rows import tables_of, with_drops

NAMES = st.sampled_from("abcdef")
PAIRS = st.frozensets(st.tuples(NAMES, NAMES), max_size=6)
NUMBERS = st.frozensets(st.tuples(NAMES, st.sampled_from(["1", "2", "3"])), max_size=6)
RULES = (
    "?x = ?y :- passport(?x, ?n), passport(?y, ?n) .",
    "?x = ?y :- same(?x, ?y) .",
    "friend(?x, ?y) :- knows(?x, ?y) .",
    "friend(?x, ?z) :- friend(?x, ?y), knows(?y, ?z) .",
    "alone(?x) :- knows(_, ?x), ~knows(?x, _) .",
    "many(?x, #count(?y)) :- friend(?x, ?y) .",
    "other(?x, ?y) :- knows(?x, ?y), ?x != ?y .",
    "named(?x, ?s) :- knows(?x, _), ?s = STR(?x) .",
    "knows(?y, ?x) :- knows(?x, ?y), passport(?x, 1) .",
)
ALWAYS = """\
@declare knows(from: any, to: any) . @declare same(one: any, other: any) .
@declare passport(of: any, number: any) .
?x = ?y :- same(?x, ?y), same(?y, ?x) .
knows(a, f) .
vain(?x) :- knows(?x, ?x) .
"""
LEFT_OUT = Guards(expectations=(Expectation("vain", GuardSeverity.DROP, None, "knows", ("from",)),))
SOURCES = tuple(
    Source(name, f"{name}.csv", header=False, limits=MAY_BE_EMPTY) for name in ("knows", "same", "passport")
)
STATES = st.tuples(PAIRS, PAIRS, NUMBERS, st.frozensets(st.sampled_from(RULES)), EVENTS)


def program(rules: frozenset[str]) -> tl.Program:
    return tl.parse(ALWAYS + "\n".join(rule for rule in RULES if rule in rules))


def written(folder: Path, *tables: frozenset[tuple[str, str]]) -> None:
    for source, rows in zip(SOURCES, tables, strict=True):
        (folder / source.paths[0]).write_text("".join(f"{x},{y}\n" for x, y in sorted(rows)))


def expected(folder: Path, rules: frozenset[str], shown: str, guards: Guards) -> Facts:
    """All facts by axioms, as `shown` says; of equality each member and the smallest one."""
    whole = program(rules)
    whole = with_drops(whole, resolve(guards, whole).drops, ())
    reasoner = tl.Reasoner(whole, equality="axiomatise", threads=1)
    reasoner.read(*(folder / source.paths[0] for source in SOURCES), header=False)
    tables = {name: each.name for name, each in tables_of(whole).items()}
    tables |= {name: name for name in reasoner.predicates() if name == "="}
    found = {table: set(reasoner[name].to_texts("exact").rows()) for table, name in tables.items()}
    smallest = {x: min(other for one, other in found["="] if one == x) for x, _ in found["="]}
    classes: set[tuple[str, ...]] = set(smallest.items())
    if shown == "representative":
        found = {
            name: {tuple(smallest.get(value, value) for value in row) for row in rows}
            for name, rows in found.items()
        }
    return present({**found, "=": classes})


SHOWN = st.sampled_from(["expand", "representative"])
GUARDS = st.sampled_from([Guards(), LEFT_OUT])


@settings(max_examples=max(6, settings().max_examples // 8))
@given(st.lists(STATES, min_size=2, max_size=4), SHOWN, GUARDS)
def test_maintaining_publishes_what_axioms_give(
    states: list[tuple[object, ...]], shown: str, guards: Guards
) -> None:
    check(states, shown, guards)


@pytest.mark.slow
@given(st.lists(STATES, min_size=3, max_size=9), SHOWN, GUARDS)
def test_the_same_for_longer_histories(states: list[tuple[object, ...]], shown: str, guards: Guards) -> None:
    check(states, shown, guards)


def check(states: list[tuple[Any, ...]], shown: str, guards: Guards) -> None:
    """Every version, and every feed, is what follows from scratch."""
    engine = Engine("columnar", equal=shown, threads=1)
    if guards.expectations:  # which rows of `knows` are left out must not depend on that
        states = [(*inputs, rules - {RULES[-1]}, event) for *inputs, rules, event in states]
    wanted = partial(expected, shown=shown, guards=guards)
    scene = Scene(SOURCES, written, program, wanted, engine, guards=guards)
    with scene.history(states) as (job, held):
        check_feeds(job, held)
        check_difference(job, held)


# ---- one job

PASSPORTS = """\
@declare passport(of: any, number: int) . @declare knows(from: any, to: any) .
?x = ?y :- passport(?x, ?n), passport(?y, ?n) .
met(?x, ?y) :- knows(?x, ?y) .
"""
JOB = """\
program = "rules.rls"
publish = "published"
engine.name = "columnar"
[[source]]
predicate = "passport"
path = "passport.csv"
[[source]]
predicate = "knows"
path = "knows.csv"
allow-empty = true
[[sink]]
predicate = "met"
path = "met.csv"
[[sink]]
predicate = "="
path = "same.csv"
"""


@pytest.fixture
def passports(write: Write) -> Path:
    write("rules.rls", PASSPORTS)
    write("passport.csv", "ann,7\nanna,7\nbob,8\n")
    write("knows.csv", "bob,anna\n")
    return write("job.toml", JOB)


def met() -> set[tuple[object, ...]]:
    return set(read("published")["met"])


@pytest.mark.parametrize("is_warm", [True, False], ids=["warm", "cold"])
def test_classes_come_and_go(passports: Path, is_warm: bool) -> None:
    job = Job.load(passports)
    job.run()
    assert met() == {("bob", "ann"), ("bob", "anna")}
    assert set(read("published")["="]) == {("ann", "ann"), ("anna", "ann"), ("bob", "bob")}
    Path("passport.csv").write_text("ann,7\nanna,9\nbob,9\n")
    steps: list[Step] = []
    later = job if is_warm else Job.load(passports)
    later.listeners.append(steps.append)
    assert later.run().version.reason == "incremental"
    assert "derived" not in [step.name for step in steps]
    assert met() == {(x, y) for x in ("anna", "bob") for y in ("anna", "bob")}
    changes = read("published").changes("met")
    assert set(changes.removed) == {("bob", "ann")} and len(changes.added) == 3
    assert Path("met.csv").read_text().splitlines()[1:] == ["anna,anna", "anna,bob", "bob,anna", "bob,bob"]
    assert Path("same.csv").read_text().splitlines()[1:] == ["ann,ann", "anna,anna", "bob,anna"]
    assert later.run(full=True).version.feed == {}
    roll_back(later.store)
    roll_back(later.store, 1)
    assert met() == {("bob", "ann"), ("bob", "anna")}
    Path("knows.csv").write_text("")
    assert Job.load(passports).run().version.tables["met"].rows == 0


def test_a_class_has_a_row_for_each_member(write: Write) -> None:
    write("rules.rls", PASSPORTS)
    members = 3000
    write("passport.csv", "".join(f"m{number},7\n" for number in range(members)))
    write("knows.csv", "bob,m1\n")
    run = Job.load(write("job.toml", JOB)).run()
    assert run.version.tables["="].rows == run.version.tables["met"].rows == members
    write("passport.csv", "".join(f"m{number},7\n" for number in range(members + 1)))
    later = Job.load("job.toml").run()
    assert {name: feed.added for name, feed in later.version.feed.items()} == dict.fromkeys(
        ("passport", "=", "knows", "met"), 1
    )


def test_representatives_only(passports: Path, write: Write) -> None:
    write("job.toml", 'engine.equal = "representative"\n' + JOB)
    Job.load(passports).run()
    assert met() == {("bob", "ann")}
    Path("knows.csv").write_text("bob,anna\nann,bob\n")
    Job.load(passports).run()
    assert met() == {("bob", "ann"), ("ann", "bob")}
    Path("passport.csv").write_text("ann,7\nanna,7\nbob,8\naaron,7\n")
    Job.load(passports).run()
    assert met() == {("bob", "aaron"), ("aaron", "bob")}
    assert set(read("published").changes("met").removed) == {("bob", "ann"), ("ann", "bob")}


def test_another_treatment_is_told_and_derives_anew(passports: Path, write: Write) -> None:
    Job.load(passports).run()
    write("job.toml", 'engine.equality = "axiomatise"\n' + JOB)
    job = Job.load(passports)
    with pytest.raises(DataError, match=r"E807.*treatment of equality") as caught:
        job.apply("+ knows(ann, bob) .")
    assert "run the job first" in str(caught.value)
    steps: list[Step] = []
    job.listeners.append(steps.append)
    run = job.run()
    assert run.version.reason == "full" and "met" not in run.version.feed
    [told] = [step.detail for step in steps if step.name == "full recompute"]
    assert told == "version 1 is of `rewrite, expand`, and the job of `axiomatise`"
    assert len(read("published")["="]) == 5
    Path("passport.csv").write_text("ann,7\nanna,9\nbob,9\n")  # explicit facts are not those that axioms add
    Job.load(passports).run()
    Path("knows.csv").write_text("")
    assert Job.load(passports).run().version.tables["met"].rows == 0


def test_equality_that_comes_later_derives_anew(passports: Path, write: Write) -> None:
    write("rules.rls", PASSPORTS.replace("?x = ?y :-", "twin(?x, ?y) :-"))
    settings = Job.load(passports).settings
    job = Job.of(replace(settings, sinks=()))
    job.run()
    write("rules.rls", PASSPORTS)
    assert job.run().version.reason == "full" and met() == {("bob", "ann"), ("bob", "anna")}
    write("rules.rls", PASSPORTS.replace("?x = ?y :-", "twin(?x, ?y) :-"))
    assert job.run().version.reason == "full" and met() == {("bob", "anna")}


@pytest.mark.parametrize("is_warm", [True, False], ids=["warm", "cold"])
def test_a_rule_of_equality_that_a_transaction_brings(passports: Path, write: Write, is_warm: bool) -> None:
    write("rules.rls", "@declare knows(from: any, to: any) . met(?x, ?y) :- knows(?x, ?y) . passport(z, 1) .")
    job = Job.of(replace(Job.load(passports).settings, sinks=()))
    job.run()
    job.apply("+ ?x = ?y :- passport(?x, ?n), passport(?y, ?n) .")
    assert met() == {("bob", "ann"), ("bob", "anna")}
    assert set(read("published").changes("met").added) == {("bob", "ann")}
    Path("knows.csv").write_text("ann,bob\n")
    later = job if is_warm else Job.of(job.settings)
    assert later.run().version.reason == "incremental" and met() == {("ann", "bob"), ("anna", "bob")}


def test_settings_of_equality(passports: Path, write: Write) -> None:
    write("job.toml", "engine.unique-names = true\n" + JOB)
    with pytest.raises(Inconsistent, match="E605"):
        Job.load(passports).run()
    write("job.toml", 'engine.equality = "off"\n' + JOB)
    with pytest.raises(tl.errors.ProgramError, match="E606"):
        Job.load(passports).run()
    with pytest.raises(DataError) as caught:
        parse_settings('engine.equality = "rewirte"\nengine.equal = "some"\n' + JOB, passports.parent)
    assert [fault.code for fault in caught.value.diagnostics] == ["E803", "E803"]


def test_sinks_of_changes_name_members(passports: Path) -> None:
    sink = Sink("met", "changes", "csv", "changes")
    job = Job.of(replace(Job.load(passports).settings, sinks=(sink,)))
    job.run()
    job.apply("+ passport(ane, 7) .")
    assert Path("changes/2.csv").read_text().splitlines()[1:] == ["2,+,bob,ane"]


# ---- any program


@pytest.mark.slow
@settings(max_examples=max(20, settings().max_examples // 10))
@given(scripts(), st.lists(st.booleans(), min_size=9, max_size=9))
def test_random_programs_and_changes(script: Script, warmth: list[bool]) -> None:
    """Rules with functions, negation and aggregates, that come and go: warm or cold, as from scratch."""
    with tempfile.TemporaryDirectory(dir=MEMORY) as folder:
        rules, stated = script.rules, script.facts
        job = Job(tl.parse(script.text), publish="out", folder=folder, engine=Engine("columnar", threads=1))
        if not carried_out(job.run, reference(rules, stated), job):
            return
        for change, is_warm in zip(script.changes, warmth, strict=False):
            kept, added = set(change.removed), change.added
            later = tuple(rule for rule in rules if rule not in kept)
            later += tuple(each for each in added if ":-" in each)
            facts_later = tuple(fact for fact in stated if fact not in kept)
            facts_later += tuple(each for each in added if ":-" not in each)
            job = job if is_warm else Job.of(job.settings)
            if carried_out(partial(job.apply, change.text), reference(later, facts_later), job):
                rules, stated = later, facts_later


def carried_out(act: Callable[[], object], wanted: References | None, job: Job) -> bool:
    """Whether an action may be carried out; what is published then is what is wanted."""
    if wanted is None:
        with pytest.raises(Inconsistent):
            act()
        return False
    act()
    found = facts(Version(job.store, job.store.manifest()))
    pairs = wanted.get("=", frozenset())
    classes = {(x, min(other for one, other in pairs if one == x)) for x, _ in pairs}
    assert found.pop("=", set()) == classes
    assert {name: rows for name, rows in present(found).items() if name not in BUILT_IN} == {
        name: rows for name, rows in wanted.items() if name not in BUILT_IN
    }
    return True


def test_equalities_and_differences_that_are_stated() -> None:
    program = tl.parse(
        "morning = evening . evening != mars . seen(?x) :- look(?x) . look(evening) . p(mars, a, b, c) ."
    )
    job = Job(program, publish="published", engine="columnar")
    job.run()
    assert set(read("published")["seen"]) == {("morning",), ("evening",)}
    assert set(read("published")["!="]) >= {("morning", "mars"), ("evening", "mars")}
    cold = Job(program, publish="published", engine="columnar")
    with pytest.raises(Inconsistent, match="E605"):
        cold.apply("+ mars = morning .")
    cold.apply("+ c = d .")
    assert set(read("published")["p"]) == {("mars", "a", "b", "c"), ("mars", "a", "b", "d")}
    Job(program, publish="published", engine="columnar").apply("- morning = evening .")
    assert set(read("published")["seen"]) == {("evening",)}
