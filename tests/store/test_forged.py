"""Files that somebody has changed, with checksums that are right: refused with what is wrong, or harmless."""

from __future__ import annotations

import copy
import faulthandler
import json
import os
import random
import shutil
import sys
import traceback
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import numpy as np
import pytest

import tidelog as tl
from tests.store.forging import forge, forge_record, forge_section
from tests.store.test_files import KINDS, code_of
from tests.store.test_laws import crash
from tidelog.errors import codes
from tidelog.reasoner.store_repair import examine, repair
from tidelog.store.store import StoreFolder

pytestmark = pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")

MORE = """
    n(?x, #count(?y)) :- edge(?x, ?y) . big(?x) :- n(?x, ?c), ?c + 1 > 2 . lone(?x) :- edge(?x, _), ~big(?x) .
    edge(a, b) . edge(a, 17) . edge(a, 1.5) . edge(b, "x"@en) . edge(1e0, a) .
    edge("2020-01-01"^^xsd:date, true) .
    path(?x, ?y) :- edge(?x, ?y) . path(?x, ?z) :- path(?x, ?y), edge(?y, ?z) .
"""
PROGRAMS: dict[str, tuple[tl.Program, tuple[str, ...]]] = {
    **KINDS,
    "more": (
        tl.parse("@prefix xsd: <http://www.w3.org/2001/XMLSchema#> ." + MORE),
        ("+ edge(b, c) .", "- edge(a, 17) .", "+ far(?x) :- path(a, ?x), ~edge(a, ?x) ."),
    ),
}
CHANGE = {
    "plain": "+ edge(z, a) . - edge(c, 17) .",
    "equal": "+ key(z, 1) . - key(c, 1) .",
    "timed": "+ hot(z)@[0, 7] . - hot(oven)@[0, 3] .",
    "more": "+ edge(c, a) . - edge(a, b) .",
}
WRONG: tuple[Any, ...] = (
    None,
    True,
    -1,
    0,
    1,
    3,
    2**31,
    2**63,
    2**200,
    1.5,
    "",
    "x",
    "?x",
    "\ud800",
    [],
    [1],
    {},
    {"a": 1},
)


@pytest.fixture(scope="module", params=list(PROGRAMS))
def made(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> tuple[str, Path]:
    """A store with a snapshot of everything, kept queries, and an empty journal."""
    program, changes = PROGRAMS[request.param]
    path = tmp_path_factory.mktemp("forged") / "store"
    with tl.open(path, program, threads=1) as reasoner:
        if request.param == "plain":
            reasoner.watch("reach(?x, ?y)")
            reasoner.prepare("reach($x, ?y)")
        for change in changes:
            reasoner.apply(change)
    return request.param, path


def attempted(path: Path, kind: str) -> str:
    """What comes of opening a store, asking for everything, and changing it: fine, or a code; in a child."""
    read, write = os.pipe()
    process = os.fork()
    if process == 0:
        faulthandler.enable(sys.stderr)
        try:
            said = attempt(path, kind)
        except BaseException:  # noqa: BLE001 - whatever it is, the parent is told
            said = "traceback: " + traceback.format_exc()
        os.write(write, said.encode(errors="backslashreplace"))
        os._exit(0)
    os.close(write)
    with os.fdopen(read, "rb") as stream:
        said = stream.read().decode()
    code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
    return said if code == 0 else f"crash: {code}"


def attempt(path: Path, kind: str) -> str:
    """The same in this process."""
    try:
        reasoner = tl.open(path, threads=1)
    except tl.DataError as error:
        assert error.diagnostics[0].message and str(path) in str(error)
        return error.diagnostics[0].code
    for name in reasoner:
        for row in reasoner[name]:
            str(row)
    try:
        reasoner.apply(CHANGE[kind], missing="ignore")
        reasoner.compact()
    except tl.TidelogError as error:
        return error.diagnostics[0].code
    crash(reasoner)
    return "fine"


ALLOWED = {"fine", codes.STORE_DAMAGED, codes.NEWER}
# A forged program is a program: it may derive bottom(), compute nothing, or be refused by a later change.
BY_PROGRAM = {"E605", "E606", "E612", "E630"}


def places(form: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where something stands in a form, inner things first."""
    children = form.items() if isinstance(form, dict) else enumerate(form) if isinstance(form, list) else ()
    for key, child in children:
        yield from places(child, (*at, key))
    if at:
        yield at


def changed(form: Any, at: tuple[Any, ...], seed: int) -> None:
    """Change what stands at a place: delete it, put another thing there, or repeat it."""
    chance = random.Random(seed)
    for key in at[:-1]:
        form = form[key]
    key = at[-1]
    how = chance.randrange(4)
    if how == 0:
        del form[key]
    elif how == 1 and isinstance(form, list):
        form.insert(key, copy.deepcopy(form[key]))
    elif how == 2 and type(form[key]) is int:
        form[key] += chance.choice((-1, 1, 255, -(2**31), 2**40))
    else:
        form[key] = chance.choice(WRONG)


def mutations(count: int, seed: int, form: Any) -> Iterator[tuple[tuple[Any, ...], Callable[[Any], None]]]:
    chance = random.Random(seed)
    known = list(places(form))
    for _ in range(count):
        at, inner = chance.choice(known), chance.randrange(2**32)
        yield at, partial(changed, at=at, seed=inner)


@pytest.mark.parametrize(("count", "seed"), [(20, 1), pytest.param(250, 2, marks=pytest.mark.slow)])
def test_indexes(made: tuple[str, Path], tmp_path: Path, count: int, seed: int) -> None:
    kind, origin = made
    index = StoreFolder(origin).find().snapshot.index
    outcomes = set()
    for at, change in mutations(count, seed, index):
        path = shutil.copytree(origin, tmp_path / "store")
        forge(path, change)
        said = attempted(path, kind)
        assert said in ALLOWED | BY_PROGRAM, (at, said)
        if said == codes.STORE_DAMAGED:
            assert not examine(path).is_whole, at
        outcomes.add(said)
        shutil.rmtree(path)
    assert codes.STORE_DAMAGED in outcomes


@pytest.mark.parametrize(("count", "seed"), [(4, 1), pytest.param(40, 2, marks=pytest.mark.slow)])
def test_sections(made: tuple[str, Path], tmp_path: Path, count: int, seed: int) -> None:
    """Numbers of every section become others, of every size."""
    kind, origin = made
    chance = random.Random(seed)
    parts = [part for part in StoreFolder(origin).find().snapshot.parts() if part.section.count]
    for part in chance.sample(parts, min(len(parts), 8 * count)):
        path = shutil.copytree(origin, tmp_path / "store")

        def change(array: Any) -> Any:
            place = chance.randrange(len(array))
            limits = np.iinfo(array.dtype)
            array[place] = chance.choice((limits.min, limits.max, 0, 1, 13, int(limits.max) // 2))
            return array[:-1] if chance.random() < 0.2 else array

        forge_section(path, part, change)
        said = attempted(path, kind)
        assert said in ALLOWED, (str(part), said)
        shutil.rmtree(path)


RECORDS: tuple[Any, ...] = (
    None,
    [],
    {},
    {"is": "grow"},
    {"is": "change"},
    {"is": "change", "commit": -1},
    {"is": "change", "commit": 4, "+": {"nowhere": [1, ["a"]]}},
    {"is": "change", "commit": 4, "+": {"edge": [1, ["a"]]}},
    {"is": "change", "commit": 4, "+": {"edge": [2, ["a"], ["b"]]}},
    {"is": "change", "commit": 4, "+": {"edge": [1, ["?x"], ["b\\"]]}},
    {"is": "change", "commit": 4, "+": {"edge": [-1]}},
    {"is": "change", "commit": 4, "+": {"edge": [1, [7], ["b"]]}},
    {"is": "change", "commit": 4, "+ times": [["edge", [1, ["a"], ["b"]], [0, True, True], [1], [0]]]},
    {"is": "change", "commit": 4, "+ times": [["edge", [1, ["a"], ["b"]], [1, True, True], [5], [2]]]},
    {"is": "change", "commit": 4, "advance": ["1/0", None, False, False, False]},
    {"is": "change", "commit": 4, "+ rules": [{"head": ["p", "?x"]}], "program": {}},
    {"is": "keep", "asked": {"name": "q", "query": {}, "parameters": []}},
    {
        "is": "keep",
        "asked": {
            "name": "q",
            "query": {"rule": {"head": ["q", "?x"]}, "variables": ["x"], "text": "", "time": None},
            "parameters": ["y"],
        },
    },
    {"is": "forget"},
)


@pytest.mark.parametrize("number", range(len(RECORDS) + 3))
def test_records(made: tuple[str, Path], tmp_path: Path, number: int) -> None:
    kind, origin = made
    if kind != "plain":
        return
    raw = (b"", b"[" * 200_000, b'{"is": "change", "commit": ' + b"9" * 5000 + b"}")
    content = raw[number] if number < 3 else json.dumps(RECORDS[number - 3]).encode()
    path = shutil.copytree(origin, tmp_path / "store")
    forge_record(path, content)
    with pytest.raises(tl.DataError, match="record") as error:
        tl.open(path, threads=1)
    assert code_of(error) == codes.STORE_DAMAGED


def column(index: dict[str, Any]) -> list[Any]:
    found: list[Any] = index["tables"][0]["columns"][0]
    return found


def rule(index: dict[str, Any]) -> dict[str, Any]:
    found: dict[str, Any] = index["program"]["rules"][0]
    return found


EXAMPLES: dict[str, Callable[[dict[str, Any]], object]] = {
    "values that are not in the dictionary": lambda index: column(index).__setitem__(5, 10**6),
    "is no place of numbers": lambda index: column(index).__setitem__(0, 10**9),
    "tables[0] has no `flags`": lambda index: index["tables"][0].pop("flags"),
    "duplicate rows": lambda index: [
        section.__setitem__(slice(1, 5), [0, 0, 10**8, 0]) for section in index["tables"][0]["columns"]
    ],
    "which nothing binds": lambda index: rule(index).__setitem__("head", ["reach", "?x", "?n"]),
    "an unknown predicate": lambda index: rule(index)["body"].append(["atom", "nil", "?x"]),
    "with 1 of 2 columns": lambda index: rule(index)["body"][0].pop(),
    "no literal is written as": lambda index: index["program"]["rules"][0]["body"].append(
        ["perhaps", "edge"]
    ),
    "not one of none, class, rank": lambda index: index["engine"].__setitem__("counters", "many"),
    "not a number of 0 or more": lambda index: index.__setitem__("sequence", -1),
    "dead rows": lambda index: index["tables"][0]["ends"].__setitem__("dead", 9),
    "recursion through negation": lambda index: index["program"]["rules"].append(
        {"head": ["edge", "?x", "?y"], "body": [["atom", "edge", "?x", "?y"], ["not", "reach", "?x", "?y"]]}
    ),
}


@pytest.mark.parametrize("said", list(EXAMPLES))
def test_what_is_wrong_is_said(made: tuple[str, Path], tmp_path: Path, said: str) -> None:
    kind, origin = made
    if kind != "plain":
        return
    path = shutil.copytree(origin, tmp_path / "store")
    forge(path, EXAMPLES[said])
    with pytest.raises(tl.DataError) as error:
        tl.open(path, threads=1)
    assert code_of(error) == codes.STORE_DAMAGED
    assert said in str(error.value), str(error.value)
    assert not examine(path).is_whole
    try:
        repair(path)
    except tl.DataError as fault:
        assert "nothing can be recovered" in str(fault)
    else:
        assert examine(path).is_whole
        tl.open(path, threads=1).close()
