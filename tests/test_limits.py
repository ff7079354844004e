"""Every limit holds in every kind of work: within a tenth of a number of facts, and soon after a time.

Facts are counted where the work stopped. What must end by its timeout runs in a process of its own, and is
given far more time than it needs: none of these tests depends on how fast a machine is, and all fail where a
limit is not looked at, since the work itself would take hours.
"""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

import tidelog as tl
from tidelog.engine import interrupts
from tidelog.engine.columnar.storage.table import Table
from tidelog.logic import scopes
from tidelog.maintenance.registry import MAINTAINERS
from tidelog.plan import change_plans, compile

MOST = 50_000
MANY = 1_000  # constants: all pairs are a million
GENEROUS = 300  # seconds for a timeout of one


def reasoner_of(text: str, count: int = MANY, **settings: object) -> tl.Reasoner:
    reasoner = tl.Reasoner(tl.parse(text), **settings)  # type: ignore[arg-type]
    reasoner.insert("e", [(number,) for number in range(count)])
    return reasoner


def stopped_at(error: tl.Stopped) -> int:
    """How many facts there were when the work stopped."""
    fault = error.diagnostics[0]
    assert fault.code == "E611"
    found = re.search(r"with ([\d,]+) facts? loaded, ([\d,]+) derived", fault.message)
    assert found is not None, fault.message
    return sum(int(number.replace(",", "")) for number in found.groups())


# ---- facts

RULES = {
    "product": "p(?x, ?y) :- e(?x), e(?y) .",
    "three columns": "p(?x, ?y, ?x) :- e(?x), e(?y) .",
    "four columns": "p(?x, ?y, ?x, ?y) :- e(?x), e(?y) .",
    "computed": "p(?x + 10000 * ?y) :- e(?x), e(?y) .",
    "recursive": "p(?x, ?y) :- e(?x), e(?y), ?x < 2 . p(?y, ?z) :- p(?x, ?y), e(?z) .",
    "negation": "p(?x, ?y) :- e(?x), e(?y), ~f(?x, ?y) . f(1, 1) .",
    "duplicates": "p(?x, ?y) :- e(?x), e(?y), f(?z) . f(1) . f(2) . f(3) .",
    "rules without end": "e(?x + 1000) :- e(?x) .",
}


@pytest.mark.parametrize("threads", [1, 2])
@pytest.mark.parametrize("name", RULES)
def test_derivation_stops_within_a_tenth_of_the_facts(name: str, threads: int) -> None:
    reasoner = reasoner_of(RULES[name], max_facts=MOST, threads=threads)
    with pytest.raises(tl.Stopped) as caught:
        reasoner.materialise()
    assert MOST < stopped_at(caught.value) <= MOST * 11 // 10
    assert reasoner.engine.storage.size("e") >= MANY  # what is given stays


@pytest.mark.parametrize("maintainer", MAINTAINERS)
def test_transactions_stop_within_a_tenth_of_the_facts_and_are_undone(maintainer: str) -> None:
    reasoner = reasoner_of("p(?x, ?y) :- e(?x), f(?y) . f(0) .", 100, max_facts=MOST, maintainer=maintainer)
    reasoner.materialise()
    before = set(reasoner["p"])
    with pytest.raises(tl.Stopped) as caught:
        reasoner.insert("f", [(number,) for number in range(1, 20_000)])
    assert caught.value.diagnostics[0].code == "E611"
    assert len(reasoner["f"]) == 1
    assert set(reasoner["p"]) == before
    tables = reasoner.engine.catalog.tables
    assert max(len(table) for table in tables) <= MOST * 12 // 10, "rows of an undone transaction"
    reasoner.insert("f", [(1,)])
    assert len(reasoner["p"]) == 200


def test_answers_are_as_many_as_facts_may_be() -> None:
    reasoner = reasoner_of("q(?x) :- e(?x) .", max_facts=MOST)
    with pytest.raises(tl.Stopped, match=r"E611.*more than 50,000 answers"):
        reasoner.query("e(?x), e(?y)")
    reasoner.materialise()
    with pytest.raises(tl.Stopped, match="E611"):
        reasoner.query("q(?x), e(?y)")
    assert (
        len(reasoner.query("q(?x), e(?y), ?y < 49")) == 49 * MANY
    )  # with its facts there are more than MOST


@pytest.mark.parametrize("strategy", ["magic", "tabling", "full"])
def test_queries_derive_no_more_facts_than_there_may_be(strategy: str) -> None:
    reasoner = reasoner_of("p(?x, ?y) :- e(?x), e(?y) . r(?y) :- p(?x, ?y), ?x > 5 .", max_facts=MOST)
    with pytest.raises(tl.Stopped, match="E611"):
        reasoner.query("r(?y)", strategy)
    tables = reasoner.engine.catalog.tables
    assert max(len(table) for table in tables) <= MOST * 12 // 10


def test_live_queries_derive_no_more_facts_than_there_may_be() -> None:
    reasoner = reasoner_of("p(?x, ?y) :- e(?x), e(?y) .", max_facts=MOST)
    with pytest.raises(tl.Stopped, match="E611"):
        reasoner.watch("p(?x, ?y)")
    with pytest.raises(tl.Stopped, match="E611"):
        reasoner.prepare("p($x, ?y), p(?z, $x)")(1)


def test_what_is_gathered_for_an_aggregate_are_no_facts() -> None:
    reasoner = reasoner_of("n(#count(?x, ?y)) :- e(?x), e(?y) .", 1000, max_facts=10_000)
    assert list(reasoner["n"]) == [(1_000_000,)]


@pytest.mark.parametrize(
    "text",
    [
        "t(?x, ?y) :- link(?x, ?y) . t(?x, ?z) :- t(?x, ?y), t(?y, ?z) .",
        "t(?x, ?y) :- link(?x, ?y) . t(?y, ?x) :- t(?x, ?y) . t(?x, ?z) :- t(?x, ?y), t(?y, ?z) .",
    ],
)
def test_closures_are_not_written_out_beyond_the_limit(text: str) -> None:
    reasoner = tl.Reasoner(tl.parse(text), max_facts=MOST)
    reasoner.insert("link", [(number, number + 1) for number in range(1000)])
    with pytest.raises(tl.Stopped, match="E611"):
        reasoner.materialise()
    assert len(reasoner.engine.catalog.table("t")) == 0


@pytest.mark.parametrize("stated", ["link", "t"])
@pytest.mark.parametrize("symmetric", ["", "t(?y, ?x) :- t(?x, ?y) ."])
def test_facts_that_are_there_are_not_counted_again_by_a_closure(stated: str, symmetric: str) -> None:
    text = f"t(?x, ?y) :- link(?x, ?y) . {symmetric} t(?x, ?z) :- t(?x, ?y), t(?y, ?z) ."
    links = [(number, (number + 1) % 200) for number in range(200)]
    most = 200 * 200 + (200 if stated == "link" else 0)
    for max_facts in (most, most - 1):
        reasoner = tl.Reasoner(tl.parse(text), max_facts=max_facts)
        reasoner.insert(stated, links)
        if max_facts == most:
            assert len(reasoner["t"]) == 200 * 200
        else:
            with pytest.raises(tl.Stopped) as caught:
                reasoner.materialise()
            assert stopped_at(caught.value) == most


def test_a_closure_that_is_made_again_in_a_transaction_counts_no_fact_twice() -> None:
    text = "t(?x, ?y) :- link(?x, ?y) . t(?x, ?z) :- t(?x, ?y), t(?y, ?z) ."
    reasoner = tl.Reasoner(tl.parse(text), max_facts=50_000)
    reasoner.insert("link", [(number, (number + 1) % 200) for number in range(200)])
    reasoner.materialise()
    with pytest.raises(tl.Stopped, match="E611"):
        reasoner.insert("link", [(number, number + 1) for number in range(199, 300)])
    reasoner.engine.closures.closed["t"].structure = None  # as after a store was opened
    assert len(reasoner["t"]) == 200 * 200
    reasoner.insert("link", [(0, 1000)])
    assert len(reasoner["t"]) == 200 * 201


def test_imports_stop_within_a_batch(tmp_path: Path) -> None:
    (tmp_path / "e.csv").write_text("".join(f"{number}\n" for number in range(200_000)))
    reasoner = tl.Reasoner(tl.parse("p(?x) :- e(?x) ."), max_facts=10_000)
    with pytest.raises(tl.Stopped, match="E611"):
        reasoner.read(tmp_path / "e.csv")


# ---- time

PRODUCT = "e(?x), e(?y), e(?z), ?x > ?y, ?y > ?z, ?z > ?x"  # 10^15 combinations, none of which is one
ROWS = "reasoner.insert('e', [(number,) for number in range(100_000)])"
WORK = {
    "derivation": ("p(?x) :- " + PRODUCT + " .", f"{ROWS}; reasoner.materialise()"),
    "duplicates": ("p(?y) :- e(?x), e(?y), e(?z) .", f"{ROWS}; reasoner.materialise()"),
    "aggregate": ("n(#count(?x)) :- " + PRODUCT + " .", f"{ROWS}; reasoner.materialise()"),
    "transaction": (
        "p(?x) :- f(?x), e(?y), e(?z), ?x > ?y, ?y > ?z, ?z > ?x .",
        f"{ROWS}; reasoner.runtime.timeout = None; reasoner.materialise(); reasoner.runtime.timeout = 1; "
        "reasoner.insert('f', [(number,) for number in range(100_000)], define=True)",
    ),
    "query": ("q(?x) :- e(?x) .", f"{ROWS}; reasoner.query('{PRODUCT}')"),
    "magic": ("p(?x, ?y) :- " + PRODUCT + " .", f"{ROWS}; reasoner.query('p(99999, ?y)', 'magic')"),
    "tabling": ("p(?x, ?y) :- " + PRODUCT + " .", f"{ROWS}; list(reasoner.answers('p(?x, ?y)'))"),
    "live query": ("p(?x, ?y) :- " + PRODUCT + " .", f"{ROWS}; reasoner.watch('p(99999, ?y)')"),
    "time": (
        "p()@0 . p() :- diamondminus[1, 1] p(), ~q() . q() :- boxminus[0, 1000000] r() . r()@0 .",
        "reasoner.materialise()",
    ),
    "explanation": (
        "p(?x, ?y) :- e(?x), e(?y), ?x < 250, ?y < 250 . r() :- "
        + "p(?a, ?b), p(?b, ?c), p(?c, ?d), p(?d, ?a), "
        "?a > ?b, ?b > ?c, ?c > ?d, ?d > ?a .",
        f"{ROWS}; reasoner.runtime.timeout = None; reasoner._derived.is_materialised = False; "
        "reasoner.runtime.timeout = 1; reasoner.why_not('r()')",
    ),
    "patterns": (
        'p(?x) :- w(?x), REGEX(?x, "^(a+)+$"), ~REGEX(REPLACE(?x, "(a*)*b", "c"), "^(x+x+)+y") .',
        "reasoner.insert('w', [('a' * number + 'b ',) for number in range(2000)]); "
        "assert not reasoner['p']; 1 / 0",
    ),
    "distances": (
        "p(?n) :- w(?x), w(?y), ?n = LEVENSHTEIN(?x, ?y) .",
        "reasoner.insert('w', [(f'{number} ' * 4000,) for number in range(300)]); reasoner.materialise()",
    ),
    "columns": ("", "WIDE"),
    "pipe in a transaction": (
        "p(?x) :- d(?x) . d(1) .",
        "reasoner.materialise(); "
        """reasoner.add('@import d :- csv{resource="pipe.csv"} .')""",
    ),
    "pipe that is read in a transaction": (
        "p(?x) :- pipe(?x) . pipe(1) .",
        "reasoner.materialise(); reasoner.read('pipe.csv')",
    ),
    "pipe": ('@import d :- csv{resource="pipe.csv"} . p(?x) :- d(?x) .', "reasoner.materialise()"),
}
WIDE = """
names = ", ".join(f"?x{number}" for number in range(20_000))
reasoner = tl.Reasoner(tl.parse(f"p({names}) :- q({names}) . s(?x0) :- p({names}), r({names}) ."), timeout=15)
reasoner.insert("q", [tuple(range(20_000))]); reasoner.insert("r", [tuple(range(20_000))])
assert len(reasoner["s"]) == 1
1 / 0
"""
CHILD = """
import tidelog as tl
reasoner = tl.Reasoner(tl.parse({text!r}), timeout=1)
try:
    {work}
except tl.Stopped as stopped:
    print(stopped.diagnostics[0].code)
except ZeroDivisionError:
    print("done")
"""


SLOW = ("columns", "distances")  # they take as long as their limits


@pytest.mark.parametrize(
    "name", [pytest.param(name, marks=[pytest.mark.slow] if name in SLOW else []) for name in WORK]
)
def test_work_of_every_kind_ends_by_its_timeout(name: str, tmp_path: Path) -> None:
    """The work takes hours, but for patterns and columns, which are done in time: they took hours before."""
    text, work = WORK[name]
    work = WIDE.strip().replace("\n", "\n    ") if work == "WIDE" else work
    os.mkfifo(tmp_path / "pipe.csv")
    writer = os.open(tmp_path / "pipe.csv", os.O_RDWR)  # a pipe into which nobody writes
    try:
        done = subprocess.run(
            [sys.executable, "-c", CHILD.format(text=text, work=work)],
            cwd=tmp_path,
            capture_output=True,
            text=True,
            timeout=GENEROUS,
            check=False,
        )
    finally:
        os.close(writer)
    assert done.stdout.strip() in ("E610", "done"), done.stdout + done.stderr


@pytest.mark.parametrize(
    ("maintainer", "own"),
    # Who derives anew needs one plan of a rule that is not recursive.
    [(name, own) for name in MAINTAINERS for own in (False, True) if own or name != "recompute"],
)
def test_limits_are_looked_at_while_plans_are_made(
    maintainer: str, own: bool, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A clock that goes on by a second with each plan: of hundreds only as many are made as it allows."""
    clock = [0.0]

    def counting(made: Callable[..., Any]) -> Callable[..., Any]:
        def make(*arguments: Any, **named: Any) -> Any:
            clock[0] += 1
            return made(*arguments, **named)

        return make

    monkeypatch.setattr(interrupts, "monotonic", lambda: clock[0])
    for module in (change_plans, compile):
        monkeypatch.setattr(module, "order", counting(module.order))
    body = ", ".join(f"{'p' if own else 'e'}(?x{number}, ?x{number + 1})" for number in range(200))
    text = f"e(1, 1) . p(?x, ?y) :- e(?x, ?y) . p(?x0, ?x200) :- {body} ."
    reasoner = tl.Reasoner(tl.parse(text), maintainer=maintainer, threads=1)
    reasoner.materialise()
    reasoner.runtime.timeout = 10
    before = clock[0]
    with pytest.raises(tl.Stopped, match="E610"):
        reasoner.apply("+ e(2, 2) . - e(1, 1) .")
    assert clock[0] - before < 20
    reasoner.runtime.timeout = None
    assert set(reasoner["p"]) == {(1, 1)}


def test_limits_are_looked_at_while_a_set_of_rows_is_made(monkeypatch: pytest.MonkeyPatch) -> None:
    """Rows of a closure come without a set, which the first transaction makes: of many in seconds."""
    monkeypatch.setattr(Table, "_make_dense", lambda *arguments: False)
    text = "t(?x, ?y) :- link(?x, ?y) . t(?x, ?z) :- t(?x, ?y), t(?y, ?z) ."
    reasoner = tl.Reasoner(tl.parse(text), threads=1)
    reasoner.insert("link", [(number, number + 1) for number in range(300)])
    reasoner.materialise()
    table = reasoner.engine.catalog.table("t")
    assert not table.has_set
    looks = iter(range(5))

    def look(found: int = 0) -> None:
        next(looks)

    with pytest.raises(StopIteration):
        table.complete(look)
    assert not table.has_set
    reasoner.apply("- link(150, 151) .")
    assert table.has_set
    assert len(reasoner["t"]) == 150 * 151 // 2 + 149 * 150 // 2


# ---- files without end


def test_what_might_never_end_is_not_included(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    os.mkfifo(tmp_path / "pipe.rls")
    for name in (str(tmp_path / "pipe.rls"), "/dev/zero", "/dev/stdin"):
        with pytest.raises(tl.ProgramError, match=r"E201.*it is not a file of at most 256 MiB"):
            tl.parse(f'@include "{name}" .')
    monkeypatch.setattr(scopes, "MOST_BYTES", 10)
    (tmp_path / "long.rls").write_text("p(1) . p(2) .")
    with pytest.raises(tl.ProgramError, match="E201"):
        tl.parse(f'@include "{tmp_path / "long.rls"}" .')
    with pytest.raises(tl.ProgramError, match=r"E201.*it is a folder"):
        tl.parse(f'@include "{tmp_path}" .')


def test_devices_hold_no_data() -> None:
    reasoner = tl.Reasoner(tl.parse('@import e :- csv{resource="/dev/zero"} . p(?x) :- e(?x) .'))
    with pytest.raises(tl.DataError, match="it is a device, not a file"):
        reasoner.materialise()
    empty = tl.Reasoner(tl.parse('@import e :- csv{resource="/dev/null"} . p(?x) :- e(?x) .'))
    assert len(empty["p"]) == 0


# ---- patterns


@pytest.mark.parametrize("pattern", ["(?=a)b", r"(a)\\1", "a{1001}", "(?<!a)b"])
def test_patterns_that_re2_does_not_have_are_errors(pattern: str) -> None:
    text = f'p(?x) :- w(?x), REGEX(?x, "{pattern}") . w("a b") .'
    with pytest.raises(tl.EvaluationError, match=r"E685.*is not supported"):
        tl.Reasoner(tl.parse(text)).materialise()
    reasoner = tl.Reasoner(tl.parse(f'p(REPLACE(?x, "{pattern}", "c")) :- w(?x) . w("a b") .'))
    with pytest.raises(tl.EvaluationError, match="E685"):
        reasoner.materialise()


def test_patterns_over_many_texts_are_those_of_one() -> None:
    """Constant patterns are matched a column at a time, others one by one."""
    texts = [("a b",), ("B a",), ("ä b",), ("a",), (7,), ("x\ny",), ("",), ("a  b",)]
    reasoner = tl.Reasoner(
        tl.parse("""
            one(?x, ?p, ?f) :- w(?x), pattern(?p, ?f), REGEX(?x, ?p, ?f) .
            none(?x, ?p, ?f) :- w(?x), pattern(?p, ?f), ~REGEX(?x, ?p, ?f) .
            pattern("^a", "") . pattern("^a", "i") . pattern("a b", "x") . pattern("^y", "m") .
            pattern("x.y", "s") . pattern("a b", "q") . pattern("", "") .
            many(?x, "^a", "") :- w(?x), REGEX(?x, "^a") .
            many(?x, "^a", "i") :- w(?x), REGEX(?x, "^a", "i") .
            many(?x, "a b", "x") :- w(?x), REGEX(?x, "a b", "x") .
            many(?x, "^y", "m") :- w(?x), REGEX(?x, "^y", "m") . many(?x, "", "") :- w(?x), REGEX(?x, "") .
            many(?x, "x.y", "s") :- w(?x), REGEX(?x, "x.y", "s") .
            many(?x, "a b", "q") :- w(?x), REGEX(?x, "a b", "q") .
            less(?x, "^a", "i") :- w(?x), ~REGEX(?x, "^a", "i") .
        """)
    )
    reasoner.insert("w", texts)
    assert set(reasoner["one"]) == set(reasoner["many"])
    assert set(reasoner["less"]) == {row for row in reasoner["none"] if row[1:] == ("^a", "i")}
    assert len(reasoner["one"]) + len(reasoner["none"]) == 6 * 7  # names and numbers are no texts
