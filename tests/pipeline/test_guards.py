"""Guards and expectations: how they are read, what they find, and what is left out of tables."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidelog as tl
from tidelog.errors import DataError, SourceText, render_all
from tidelog.io.toml_tables import TomlDocument
from tidelog.pipeline.guards import (
    EMPTIED,
    Assertion,
    Expectation,
    GuardFailed,
    GuardFinding,
    GuardLimits,
    Guards,
    GuardSeverity,
    Measures,
    SourceMeasure,
    Violations,
    assertions,
    check,
    read_amount,
    read_duration,
    read_guards,
    resolve,
    source_limits,
    stop_on_failure,
)
from tidelog.rewrite.dropped_rows import Drop, tables_of, with_drops

NOW = datetime(2026, 11, 18, 16, 0, tzinfo=UTC)
ORDERS = SourceMeasure("orders.csv", "order", 1000, newest=NOW - timedelta(hours=2))


def read(text: str) -> Guards:
    """The guards of a job file; those of its sources are named by their paths."""
    document = TomlDocument(SourceText("job.toml", text))
    root = document.root
    sources = {}
    for table in root.tables("source"):
        table.required("predicate")
        sources[table.required("path")] = source_limits(table)
        table.close()
    guards = read_guards(root, sources)
    root.close()
    document.check()
    return guards


def messages(guards: Guards, now: Measures, before: Measures | None = None) -> list[str]:
    """What is found, as `severity: message`."""
    return [f"{finding.severity}: {finding.message}" for finding in check(now, before, guards)]


def measured(*sources: SourceMeasure, **predicates: int) -> Measures:
    return Measures(sources, predicates, taken=NOW)


JOB = """
[[source]]
predicate = "order"
path = "orders.csv"
min-rows = 100
max-rows = 2000
max-drop = "20 %"
max-rejected = "1.5 %"
max-age = "24 h"

[[guard]]
predicate = "total"
max-drop = 3
on-guard = "warn"

[[expect]]
predicate = "bad_order"
name = "orders have a customer"
severity = "drop"
of = "order"
max-rows = "5 %"

[[expect]]
predicate = "bottom"
severity = "warn"
"""


def test_all_keys_are_read() -> None:
    guards = read(JOB)
    assert guards.sources["orders.csv"] == GuardLimits(
        100, 2000, read_amount("20 %"), read_amount("1.5 %"), timedelta(hours=24)
    )
    assert guards.predicates["total"] == GuardLimits(max_drop=read_amount(3), severity=GuardSeverity.WARN)
    assert guards.expectations == (
        Expectation(
            "bad_order",
            GuardSeverity.DROP,
            "orders have a customer",
            "order",
            max_rows=read_amount("5 %"),
        ),
        Expectation("bottom", GuardSeverity.WARN),
    )


def test_everything_that_is_wrong_is_said_at_once() -> None:
    with pytest.raises(DataError) as raised:
        read(
            """
[[source]]
predicate = "order"
path = "orders.csv"
min-rows = 1
max-drop = "120 %"
max-rejected = true
max-age = "1 fortnight"
allow-empty = true

[[guard]]
predicate = "total"
max-age = "1 h"
max-dorp = 3

[[expect]]
predicate = "bad_order"
severity = "drop"

[[expect]]
predicate = "bottom"
severity = "delete"
columns = ["id"]
max-rows = "1 %"
"""
        )
    text = str(raised.value)
    for said in (
        "`max-drop` is neither a number of rows nor a share: `120 %`",
        "`max-rejected` is not a whole number",
        "`max-age` is not a duration: `1 fortnight`",
        "`allow-empty` contradicts `min-rows`",
        "`max-age` is a guard of sources",
        "unknown key `max-dorp` in [[guard]] 1",
        "did you mean `max-drop`?",
        "missing key `of` in [[expect]] 1",
        "`severity` cannot be `delete`",
        "`columns` requires severity",
        "name the predicate of whose rows `max-rows` is a share",
        "give a limit: min-rows, max-rows, max-drop",
        '6 | max-drop = "120 %"\n  |            ^^^^^^^',
    ):
        assert said in text


@pytest.mark.parametrize("text", ["", "20", "-1 %", "1,5 %", "100.1 %", "% 3"])
def test_what_is_no_share(text: str) -> None:
    with pytest.raises(ValueError):
        read_amount(text)


@pytest.mark.parametrize("text", ["", "3", "h", "-1 h", "1 w", "9" * 400 + " d"])
def test_what_is_no_duration(text: str) -> None:
    with pytest.raises(ValueError):
        read_duration(text)


def test_a_run_within_its_limits_has_no_findings() -> None:
    before = measured(replace(ORDERS, rows=1250), total=13)
    now = measured(replace(ORDERS, rejected=15), total=10)
    assert check(now, before, read(JOB)) == ()
    assert all(one.holds for one in assertions(read(JOB), ()))


def test_too_few_and_too_many_rows() -> None:
    guards = read(JOB)
    assert messages(guards, measured(replace(ORDERS, rows=99))) == [
        "fail: `orders.csv` has 99 rows, fewer than min-rows = 100"
    ]
    assert messages(guards, measured(replace(ORDERS, rows=2001))) == [
        "fail: `orders.csv` has 2,001 rows, more than max-rows = 2,000"
    ]


def test_a_drop_is_measured_against_the_last_version() -> None:
    before = measured(replace(ORDERS, rows=1251), total=14)
    assert messages(read(JOB), measured(ORDERS, total=10), before) == [
        "fail: `orders.csv` has 1,000 rows, 20.1 % fewer than the 1,251 of the last version; "
        "max-drop is 20 %",
        "warn: `total` has 10 rows, 28.6 % fewer than the 14 of the last version; max-drop is 3",
    ]


def test_rejected_rows_are_a_share_of_what_was_read() -> None:
    now = measured(replace(ORDERS, rows=980, rejected=16, filtered=4))
    assert messages(read(JOB), now) == [
        "fail: 16 of 1,000 rows of `orders.csv` were rejected (1.6 %), more than max-rejected = 1.5 %"
    ]


def test_old_data_and_data_without_a_time() -> None:
    old = measured(replace(ORDERS, newest=NOW - timedelta(hours=36)))
    assert messages(read(JOB), old) == [
        "fail: the newest data of `orders.csv` is 36 h old, of 2026-11-17T04:00:00+00:00; max-age is 24 h"
    ]
    unknown = measured(replace(ORDERS, newest=None))
    assert messages(read(JOB), unknown) == [
        "fail: the age of the data of `orders.csv` is unknown, and max-age is set"
    ]


def test_an_emptied_source_fails_without_any_guard() -> None:
    (finding,) = check(measured(replace(ORDERS, rows=0)), measured(ORDERS), Guards())
    assert finding.is_failure and finding.guard == EMPTIED
    assert finding.message == "`orders.csv` has no rows, and had 1,000 in the last version"
    assert finding.figures == {"rows": 0, "previous": 1000}
    with pytest.raises(GuardFailed) as raised:
        stop_on_failure([finding])
    assert raised.value.exit_code == 3 and "allow-empty = true" in str(raised.value)


def test_an_emptied_source_fails_even_where_guards_only_warn() -> None:
    guards = read(
        '[[source]]\npredicate = "order"\npath = "orders.csv"\nmax-drop = "20 %"\non-guard = "warn"\n'
    )
    (finding,) = check(measured(replace(ORDERS, rows=0, filtered=7)), measured(ORDERS), guards)
    assert finding.is_failure and finding.message.startswith("`orders.csv` has no rows left of 7, and had")
    assert finding.place == "job.toml:2:13"


def test_an_emptied_source_is_right_where_it_is_allowed() -> None:
    guards = read(
        '[[source]]\npredicate = "order"\npath = "orders.csv"\nmax-drop = "20 %"\nallow-empty = true\n'
    )
    assert check(measured(replace(ORDERS, rows=0)), measured(ORDERS), guards) == ()


def test_a_source_that_was_empty_or_is_new_may_be_empty() -> None:
    empty = replace(ORDERS, rows=0)
    assert check(measured(empty), measured(empty), Guards()) == ()
    assert check(measured(empty), None, Guards()) == ()
    assert check(measured(empty), measured(replace(ORDERS, predicate="other", source="x")), Guards()) == ()


def test_a_source_under_another_path_is_compared_by_its_predicate() -> None:
    today = replace(ORDERS, source="orders-2.csv", rows=0)
    assert len(check(measured(today), measured(ORDERS), Guards())) == 1
    assert check(measured(today, ORDERS), measured(ORDERS), Guards()) == ()


def violated(rows: int) -> Measures:
    found = Violations(rows, ("id", "why"), tuple((str(row), "no customer") for row in range(min(rows, 9))))
    return Measures((), {"order": 1000}, {"bad_order": found})


@pytest.mark.parametrize(
    ("severity", "limit", "rows", "expected"),
    [
        ("warn", None, 3, "warn"),
        ("fail", None, 3, "fail"),
        ("drop", None, 3, "drop"),
        ("fail", "1 %", 10, "warn"),
        ("fail", "1 %", 11, "fail"),
        ("drop", 5, 5, "drop"),
        ("drop", 5, 6, "fail"),
        ("warn", 5, 6, "fail"),
    ],
)
def test_severities_and_limits(severity: str, limit: int | str | None, rows: int, expected: str) -> None:
    most = None if limit is None else read_amount(limit)
    guards = Guards(
        expectations=(Expectation("bad_order", GuardSeverity(severity), of="order", max_rows=most),)
    )
    (finding,) = check(violated(rows), None, guards)
    assert finding.severity == expected
    assert finding.columns == ("id", "why") and len(finding.samples) == min(rows, 5)
    dropped = {"dropped": 0} if expected == "drop" else {}
    assert finding.figures == {"rows": rows, "of": "order", "total": 1000, **dropped}


def test_an_expectation_as_people_read_it() -> None:
    guards = read(JOB)
    measures = replace(violated(2), dropped={"order": 2})
    (finding,) = check(measures, None, replace(guards, sources={}, predicates={}))
    assert render_all([finding.diagnostic()]).splitlines() == [
        "warning[W819]: 2 rows of `bad_order` (orders have a customer), within max-rows = 5 %, such as",
        "        0, no customer",
        "        1, no customer",
        "   --> job.toml:17:13",
        "   |",
        '17 | predicate = "bad_order"',
        "   |             ^^^^^^^^^^^",
        "  help: of `order` 2 rows of 1,002 dropped: see the table `order_dropped`",
    ]
    assert assertions(guards, [finding])[-2:] == (
        Assertion("orders have a customer", "expect", False, GuardSeverity.DROP),
        Assertion("bottom", "expect", True, GuardSeverity.WARN),
    )


def test_failures_come_first_and_are_raised_together() -> None:
    guards = Guards(
        predicates={
            "a": GuardLimits(min_rows=1, severity=GuardSeverity.WARN),
            "b": GuardLimits(min_rows=1),
            "c": GuardLimits(min_rows=1),
        }
    )
    findings = check(Measures(), None, guards)
    assert [finding.subject for finding in findings] == ["b", "c", "a"]
    with pytest.raises(GuardFailed) as raised:
        stop_on_failure(findings)
    assert [one.code for one in raised.value.diagnostics] == ["E818", "E818"]
    stop_on_failure(finding for finding in findings if not finding.is_failure)


# ---- against the program

PROGRAM = """
@declare order(id: int, who: string, amount: int) .
@declare person(who: string) .
order(1, "ada", 10) .
order(2, "bob", 20) .
order(3, "cyd", 0) .
person("ada") .
person("cyd") .
bad_order(?id, "no customer") :- order(?id, ?who, _), ~person(?who) .
nothing(?amount, ?id) :- order(?id, _, ?amount), ?amount = 0 .
total(#sum(?amount, ?id)) :- order(?id, _, ?amount) .
"""


def drop(text: str) -> tuple[Drop, ...]:
    guards = read(f'[[expect]]\npredicate = "bad_order"\nseverity = "drop"\nof = "order"\n{text}\n')
    return resolve(guards, tl.parse(PROGRAM)).drops


def test_columns_are_matched_by_name_by_place_and_by_a_table() -> None:
    expected = (Drop("order", "bad_order", ((0, 0),)),)
    assert drop("") == drop('columns = ["id"]') == drop('columns = { id = "id" }') == expected


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ('columns = ["ident"]', "`order` has no column `ident`"),
        ('columns = { idx = "id" }', "`bad_order` has no column `idx`"),
        ('columns = ["id", "who", "amount"]', "`bad_order` has only 2 columns"),
        ('[[guard]]\npredicate = "totl"\nmin-rows = 1', "the program has no predicate `totl`"),
        (
            '[[expect]]\npredicate = "total"\nseverity = "drop"\nof = "person"',
            "no column of `total` has the name",
        ),
    ],
)
def test_what_the_program_does_not_have(text: str, said: str) -> None:
    with pytest.raises(DataError) as raised:
        drop(text)
    assert said in str(raised.value) and "job.toml:" in str(raised.value)


# ---- rows that are left out


def facts(program: tl.Program, predicate: str) -> set[tuple[object, ...]]:
    reasoner = tl.Reasoner(program)
    reasoner.materialise()
    return {tuple(row) for row in reasoner[predicate]}


def dropping(program: str, *drops: tuple[str, str, tuple[tuple[int, int], ...]]) -> tl.Program:
    """A program that leaves rows out: of a predicate, by another one, which agree in pairs of columns."""
    given = ["order", "person", "edge", "blocked", "item"]
    return with_drops(tl.parse(program), [Drop(*each, shown=each[1]) for each in drops], given)


def published(reasoner: tl.Reasoner, name: str) -> set[tuple[object, ...]]:
    return {tuple(row) for row in reasoner[tables_of(reasoner.program)[name].name]}


def test_dropped_rows_count_for_nothing_and_are_kept_aside() -> None:
    program = tl.parse(PROGRAM)
    drops = (*drop(""), Drop("order", "nothing", ((1, 0),), "no amount"))
    whole = with_drops(program, drops, ())
    kept = tables_of(whole)["order"].name
    assert facts(whole, kept) == {(1, "ada", 10)} and facts(whole, "total") == {(10,)}
    assert facts(whole, "order_dropped") == {(2, "bob", 20, "bad_order"), (3, "cyd", 0, "no amount")}
    assert facts(whole, "bad_order") == {(2, "no customer")}  # seen among all rows
    assert with_drops(program, (), ()) is program


# Each with what leaves rows out, and the same program written by hand: `all_…` has all rows.
BY_HAND: dict[str, tuple[str, list[Any], str, dict[str, str]]] = {
    "given": (
        """good(?x) :- edge(?x, ?y), edge(?y, ?x) .
        bad(?x) :- edge(?x, ?y), ~good(?x), blocked(?y) .
        reach(?x, ?y) :- edge(?x, ?y) . reach(?x, ?z) :- reach(?x, ?y), edge(?y, ?z) .
        lonely(?x) :- blocked(?x), ~good(?x) .""",
        [("edge", "bad", ((0, 0),))],
        """all_good(?x) :- all_edge(?x, ?y), all_edge(?y, ?x) .
        bad(?x) :- all_edge(?x, ?y), ~all_good(?x), blocked(?y) .
        edge(?x, ?y) :- all_edge(?x, ?y), ~bad(?x) .
        good(?x) :- edge(?x, ?y), edge(?y, ?x) .
        reach(?x, ?y) :- edge(?x, ?y) . reach(?x, ?z) :- reach(?x, ?y), edge(?y, ?z) .
        lonely(?x) :- blocked(?x), ~good(?x) .""",
        {"edge": "all_edge"},
    ),
    "derived, with recursion": (
        """reach(?x, ?y) :- edge(?x, ?y) . reach(?x, ?z) :- reach(?x, ?y), edge(?y, ?z) .
        bad(?x, ?x) :- blocked(?x) .
        ends(?y) :- reach(_, ?y), ~edge(?y, _) .""",
        [("reach", "bad", ((0, 0), (1, 1)))],
        """reach(?x, ?y) :- edge(?x, ?y), ~bad(?x, ?y) .
        reach(?x, ?z) :- reach(?x, ?y), edge(?y, ?z), ~bad(?x, ?z) .
        bad(?x, ?x) :- blocked(?x) .
        ends(?y) :- reach(_, ?y), ~edge(?y, _) .""",
        {},
    ),
    "derived, by itself": (
        """two(?x, ?z) :- edge(?x, ?y), edge(?y, ?z) .
        many(?x) :- count(?x, ?n), ?n > 1 . count(?x, #count(?y)) :- two(?x, ?y) .
        ends(?y) :- two(_, ?y) .""",
        [("two", "many", ((0, 0),))],
        """all_two(?x, ?z) :- edge(?x, ?y), edge(?y, ?z) . two(?x, ?y) :- all_two(?x, ?y), ~many(?x) .
        all_count(?x, #count(?y)) :- all_two(?x, ?y) . many(?x) :- all_count(?x, ?n), ?n > 1 .
        count(?x, #count(?y)) :- two(?x, ?y) . ends(?y) :- two(_, ?y) .""",
        {},
    ),
    "one after the other": (
        """bad(?x) :- blocked(?x), ~edge(?x, ?x) . orphan(?y) :- edge(_, ?y), ~blocked(?y) .
        pair(?x, ?y) :- edge(?x, ?y), blocked(?y) . bad2(?x) :- edge(?x, 0), blocked(?x) .""",
        [("blocked", "bad", ((0, 0),)), ("blocked", "bad2", ((0, 0),))],
        """bad(?x) :- all_blocked(?x), ~edge(?x, ?x) . bad2(?x) :- edge(?x, 0), all_blocked(?x) .
        blocked(?x) :- all_blocked(?x), ~bad(?x), ~bad2(?x) .
        orphan(?y) :- edge(_, ?y), ~blocked(?y) . pair(?x, ?y) :- edge(?x, ?y), blocked(?y) .""",
        {"blocked": "all_blocked"},
    ),
    "cascading": (
        """bad(?x) :- blocked(?x), ?x > 2 . orphan(?x, ?y) :- edge(?x, ?y), ~blocked(?y) .
        pair(?x, ?y) :- edge(?x, ?y), blocked(?x) .""",
        [("blocked", "bad", ((0, 0),)), ("edge", "orphan", ((0, 0), (1, 1)))],
        """bad(?x) :- all_blocked(?x), ?x > 2 . blocked(?x) :- all_blocked(?x), ~bad(?x) .
        orphan(?x, ?y) :- all_edge(?x, ?y), ~blocked(?y) . edge(?x, ?y) :- all_edge(?x, ?y), ~orphan(?x, ?y) .
        pair(?x, ?y) :- edge(?x, ?y), blocked(?x) .""",
        {"blocked": "all_blocked", "edge": "all_edge"},
    ),
}
numbers = st.integers(0, 4)
edges = st.sets(st.tuples(numbers, numbers), max_size=8)


@pytest.mark.parametrize("case", BY_HAND)
@settings(max_examples=25, deadline=None)
@given(first=edges, then=edges, blocked=st.sets(numbers), unblocked=st.sets(numbers))
def test_what_remains_is_what_a_program_written_by_hand_derives(
    case: str,
    first: set[tuple[int, int]],
    then: set[tuple[int, int]],
    blocked: set[int],
    unblocked: set[int],
) -> None:
    text, drops, hand, names = BY_HAND[case]
    declared = "@declare edge(x: int, y: int) . @declare blocked(x: int) . "
    renamed = declared
    for name, other in names.items():
        renamed = renamed.replace(f"{name}(", f"{other}(")
    one, two = tl.Reasoner(dropping(declared + text, *drops)), tl.Reasoner(tl.parse(renamed + hand))
    tables = [name for name in tables_of(one.program) if not name.endswith("_dropped")]

    def check() -> None:
        for name in tables:
            assert published(one, name) == {tuple(row) for row in two[name]}, name

    def load(reasoner: tl.Reasoner, called: dict[str, str]) -> None:
        reasoner.materialise()
        with reasoner.change() as change:
            change.insert(called.get("edge", "edge"), first)
            change.insert(called.get("blocked", "blocked"), {(each,) for each in blocked})

    load(one, {})
    load(two, names)
    check()
    for reasoner, called in ((one, {}), (two, names)):
        with reasoner.change(missing="ignore") as change:
            change.replace(called.get("edge", "edge"), then)
            change.replace(called.get("blocked", "blocked"), {(each,) for each in blocked ^ unblocked})
    check()
    for of in {drop[0] for drop in drops}:  # nothing is lost: a row is there, or it is aside, once
        kept = published(one, of)
        aside = [tuple(row)[:-1] for row in published(one, f"{of}_dropped")]
        assert len(aside) == len(set(aside)) and not kept & set(aside)
        assert kept | set(aside) == {tuple(row) for row in one[of]}  # by its full name: all rows


@pytest.mark.parametrize(
    ("text", "drops", "said"),
    [
        (
            "reach(?x, ?y) :- edge(?x, ?y) . reach(?x, ?z) :- reach(?x, ?y), edge(?y, ?z) . "
            "bad(?x) :- reach(?x, ?x) .",
            [("reach", "bad", ((0, 0),))],
            "which rows of `bad` there are depends on which of `reach` are dropped",
        ),
        (
            "bad(?x) :- edge(?x, _), blocked(?x) . worse(?x) :- blocked(?x), edge(?x, _) .",
            [("edge", "bad", ((0, 0),)), ("blocked", "worse", ((0, 0),))],
            "which rows of `worse` there are",
        ),
        ("bad(?x) :- edge(?x, _) .", [("bad", "bad", ((0, 0),))], "is used by an [[expect]] to drop rows"),
        ("bad(?x) :- edge(?x, _) . edge_dropped(1) .", [("edge", "bad", ((0, 0),))], "which the program has"),
        (
            "item(?x) :- edge(?x, _) . bad(?x) :- item(?x) .",
            [("edge", "bad", ((0, 0),))],
            "`item` is given and derived",
        ),
    ],
)
def test_rows_that_cannot_be_left_out(
    text: str, drops: list[tuple[str, str, tuple[tuple[int, int], ...]]], said: str
) -> None:
    with pytest.raises(DataError) as raised:
        dropping(text, *drops)
    assert said in str(raised.value)


rows = st.integers(0, 40)


@settings(max_examples=200, deadline=None)
@given(now=rows, before=st.none() | rows, least=st.none() | rows, share=st.integers(0, 100))
def test_limits_mean_what_they_say(now: int, before: int | None, least: int | None, share: int) -> None:
    guards = Guards({"s": GuardLimits(least, max_drop=read_amount(f"{share} %"))})
    previous = None if before is None else Measures((SourceMeasure("s", "p", before),))
    found = check(Measures((SourceMeasure("s", "p", now),)), previous, guards)
    emptied = bool(before) and not now
    expected = {"allow-empty"} if emptied else set()
    if not emptied and least is not None and now < least:
        expected.add("min-rows")
    if not emptied and before and (before - now) * 100 > share * before:
        expected.add("max-drop")
    assert {finding.guard for finding in found} == expected
    assert all(isinstance(finding, GuardFinding) and finding.is_failure for finding in found)
