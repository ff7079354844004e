"""Inputs of a size that nobody writes by hand: long rules, long numbers, deep nesting; text that is none."""

from __future__ import annotations

import decimal
import json
from collections.abc import Callable, Sequence
from itertools import product
from pathlib import Path
from typing import Any

import hypothesis.strategies as st
import pytest
from hypothesis import given

import tidelog as tl
from tests.strategies import Features, programs
from tidelog.logic.program import (
    Assignment,
    Atom,
    Literal,
    Negation,
    Variable,
    literal_variables,
    variables_of,
)
from tidelog.maintenance.registry import MAINTAINERS
from tidelog.plan import change_plans, compile
from tidelog.plan.join_order import growth, negated_only_variables, order
from tidelog.reasoner.reasoner import Reasoner
from tidelog.rewrite import auxiliary_relations

DIGITS = "7" * 5_000
TOO_DEEP = 100_000


def joined(parts: Sequence[str]) -> str:
    return ", ".join(parts)


# ---- long rules

LONG = {
    "atoms": "p(a, a) . q(?x0) :- " + joined([f"p(?x{n}, ?x{n + 1})" for n in range(1_000)]),
    "one atom": "p(a, a) . q(?x) :- " + joined(["p(?x, ?x)"] * 1_000),
    "comparisons": "p(1) . q(?x) :- p(?x), " + joined([f"?x < {n + 2}" for n in range(2_000)]),
    "bindings": "p(1) . q(?x) :- p(?x), " + joined([f"?y{n} = ?x + {n}" for n in range(3_000)]),
    "a chain": "p(1) . q(?y3000) :- p(?y0), " + joined([f"?y{n + 1} = ?y{n} + 1" for n in range(3_000)]),
    "negations": "p(1) . r(2) . q(?x) :- p(?x), " + joined(["~r(?x)"] * 2_000),
    "a wide head": "p(1, 1) . q(" + joined([f"?x{n}" for n in range(200)]) + ") :- "
    + joined([f"p(?x{n}, ?x{n + 1})" for n in range(300)]),
    "recursion": "p(1, 1) . q(?x, ?x) :- p(?x, ?x) . q(?x0, ?x1000) :- "
    + joined([f"q(?x{n}, ?x{n + 1})" for n in range(1_000)]),
}  # fmt: skip


@pytest.mark.parametrize("name", LONG)
def test_a_long_rule_derives(name: str) -> None:
    reasoner = Reasoner(tl.parse(LONG[name] + " ."), threads=1)
    reasoner.materialise()
    assert len(reasoner["q"]) == 1
    if name == "a chain":
        assert list(reasoner["q"]) == [(3001,)]


@pytest.fixture
def ordered(monkeypatch: pytest.MonkeyPatch) -> list[int]:
    """Note the lengths of the bodies that are put in order."""
    lengths: list[int] = []
    for module in (change_plans, compile, auxiliary_relations):
        name = "order" if hasattr(module, "order") else "arranged"
        whole = getattr(module, name)

        def counting(body: Sequence[Literal], *rest: Any, whole: Any = whole) -> Any:
            lengths.append(len(body))
            return whole(body, *rest)

        monkeypatch.setattr(module, name, counting)
    return lengths


@pytest.mark.parametrize("name", ["atoms", "comparisons", "a chain", "negations", "recursion"])
def test_a_long_rule_is_maintained(name: str, ordered: list[int]) -> None:
    """In steps of plans that are some dozen times its literals, not as many as their square."""
    text = LONG[name] + " ."
    fact = text[: text.index(" .")]
    reasoner = Reasoner(tl.parse(text), threads=1)
    live = reasoner.watch(asked(name))
    for _ in range(2):
        reasoner.apply(f"- {fact} .")
        assert len(reasoner["q"]) == 0 == len(live.answers)
        reasoner.apply(f"+ {fact} .")
        assert len(reasoner["q"]) == 1 == len(live.answers)
    assert sum(ordered) < 150 * len(reasoner.program.rules[-1].body)


@pytest.mark.parametrize("maintainer", MAINTAINERS)
@pytest.mark.parametrize("predicate", ["p", "q"])
def test_every_maintainer_has_few_plans_of_a_long_rule(
    predicate: str, maintainer: str, ordered: list[int]
) -> None:
    body = joined([f"{predicate}(?x{n}, ?x{n + 1})" for n in range(200)])
    text = f"p(1, 1) . q(?x, ?x) :- p(?x, ?x) . q(?x0, ?x200) :- {body} ."
    reasoner = Reasoner(tl.parse(text), threads=1, maintainer=maintainer)
    reasoner.materialise()
    for sign in "-+-":
        reasoner.apply(f"{sign} p(1, 1) .")
        assert len(reasoner["q"]) == (sign == "+")
    assert sum(ordered) < 100 * 200


@pytest.mark.parametrize(
    ("name", "strategy"),
    [*product(["atoms", "bindings"], ["magic", "tabling"]), ("recursion", "tabling")],
)
def test_a_long_rule_is_asked(name: str, strategy: str, ordered: list[int]) -> None:
    reasoner = Reasoner(tl.parse(LONG[name] + " ."), threads=1)
    assert len(reasoner.query(asked(name), strategy)) == 1
    assert sum(ordered) < 150 * len(reasoner.program.rules[-1].body)


def asked(name: str) -> str:
    """Return the query for all facts that a long rule derives."""
    head = LONG[name].partition(" :- ")[0].rpartition(" . ")[2]
    return "q(?x0, ?x1)" if name == "recursion" else head


@pytest.mark.parametrize("predicate", ["e", "p"])
def test_a_body_is_ordered_once_for_each_of_its_atoms(
    predicate: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Steps of maintenance that are driven by the same atom match the others in the same order."""
    ordered: list[int] = []

    def counting(body: Sequence[Literal], pivot: int | None, *rest: Any) -> tuple[int, ...]:
        if pivot is not None and len(body) == 30:
            ordered.append(pivot)
        return order(body, pivot, *rest)

    atoms = joined([f"{predicate}(?x{n}, ?x{n + 1})" for n in range(30)])
    text = f"e(1, 1) . p(?x, ?y) :- e(?x, ?y) . p(?x0, ?x30) :- {atoms} ."
    reasoner = Reasoner(tl.parse(text), threads=1, maintainer="fp-update")
    reasoner.materialise()
    monkeypatch.setattr(change_plans, "order", counting)
    reasoner.apply("+ e(2, 2) .")
    reasoner.apply("+ e(3, 3) . - e(1, 1) .")
    assert set(reasoner["p"]) == {(2, 2), (3, 3)}
    assert set(range(30)) <= set(ordered)
    assert len(ordered) <= 32


def test_a_rule_that_is_too_long_is_an_error() -> None:
    text = "p(1) . q(?x) :- p(?x), " + joined([f"?x < {n + 2}" for n in range(9_000)]) + " ."
    with pytest.raises(tl.EvaluationError, match="E604"):
        Reasoner(tl.parse(text), threads=1).materialise()


class Sizes:
    """Made-up statistics that differ from relation to relation."""

    def size(self, relation: str) -> int:
        return sum(map(ord, relation)) % 7

    def distinct(self, relation: str, column: int) -> float:
        return 1.0 + (len(relation) + column) % 3

    def matching(self, relation: str, column: int, value: object) -> int:
        return (len(relation) + column) % 2


def greedy(body: Sequence[Literal], pivot: int | None) -> tuple[int, ...]:
    """The order as the module describes it, found by looking at every literal every time."""
    only = negated_only_variables(body)
    bound: set[Variable] = set()
    ordered: list[int] = []
    waiting = list(range(len(body)))

    def is_ready(literal: Literal) -> bool:
        if isinstance(literal, Assignment):
            return set(variables_of(literal.expression)) <= bound
        free = only if isinstance(literal, Negation) else set()
        return not isinstance(literal, Atom) and set(literal_variables(literal)) <= bound | free

    while waiting:
        ready = [place for place in waiting if is_ready(body[place])]
        atoms = [
            (growth(atom, bound, Sizes()), place)
            for place in waiting
            if isinstance(atom := body[place], Atom)
        ]
        chosen = min(ready, key=lambda place: (isinstance(body[place], Assignment), place), default=None)
        if not ordered and pivot is not None:
            chosen = pivot
        elif chosen is None:
            chosen = min(atoms)[1]
        waiting.remove(chosen)
        ordered.append(chosen)
        bound |= set(literal_variables(body[chosen])) - only
    return tuple(ordered)


# ---- long numbers, deep nesting


def imported(name: str, text: str, folder: Path, declared: str = "") -> list[str]:
    (folder / name).write_text(text, encoding="utf-8", errors="surrogatepass")
    program = f'{declared} p(?x) :- q(?x) . @import q :- {name.split(".")[-1]} {{ resource = "{name}" }} .'
    reasoner = Reasoner(tl.parse(program, folder=folder), threads=1)
    return [row[0] for row in reasoner["p"].to_texts("exact").rows()]


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("n.json", f"[[{DIGITS}]]"),
        ("n.jsonl", f"[{DIGITS}]"),
        ("n.jsonl", f'{{"x": {DIGITS}}}'),
        ("n.csv", DIGITS),
        ("n.tsv", DIGITS),
    ],
)
@pytest.mark.parametrize("declared", ["", "@declare q(x: int) .", "@declare q(x: any) ."])
def test_integers_of_many_digits_in_files(name: str, text: str, declared: str, tmp_path: Path) -> None:
    assert imported(name, text + "\n", tmp_path, declared) == [DIGITS]


def test_integers_of_many_digits_in_python() -> None:
    reasoner = Reasoner(tl.parse(f"p(?x) :- q(?x) . q({DIGITS}1) ."), threads=1)
    reasoner.insert("q", [(int(decimal.Decimal(DIGITS)),)])
    assert {row[0] for row in reasoner["p"].to_texts("exact").rows()} == {DIGITS, DIGITS + "1"}
    with pytest.raises(tl.DataError, match="thousands of digits"):
        Reasoner(tl.parse("@declare q(x: date) .")).insert("q", [(int(decimal.Decimal(DIGITS)),)])


@pytest.mark.parametrize("program", ["p(a)@{} .", "p(a)@1/{} .", "p(a)@[0, {}s] .", 'p(a)@"{}" .',
                                     "p(a)@1 . q() :- diamondminus[0, {}] p(?x) ."])  # fmt: skip
def test_times_of_many_digits_are_errors(program: str) -> None:
    with pytest.raises(tl.ProgramError, match="E350"):
        tl.parse(program.format(DIGITS))


@pytest.mark.parametrize(
    ("name", "text", "place"),
    [
        ("d.json", "[\n" + "[" * TOO_DEEP, "d.json:2:101"),
        ("d.json", '[["é"],\n{"a":' + "[" * TOO_DEEP + "]" * TOO_DEEP + "}]", "d.json:2:105"),
        ("d.jsonl", '["é"]\n["é[", ' + "[" * TOO_DEEP, "d.jsonl:2:107"),
        ("d.jsonl", '{"a":' * TOO_DEEP, "d.jsonl:1:501"),
    ],
)
def test_nested_json_is_an_error(name: str, text: str, place: str, tmp_path: Path) -> None:
    with pytest.raises(tl.DataError) as error:
        imported(name, text, tmp_path)
    (fault,) = error.value.diagnostics
    assert fault.code == "E521"
    assert str(fault.place).endswith(place)


# ---- halves of surrogate pairs


def write_program(text: str, folder: Path) -> None:
    (folder / "p.rls").write_bytes(text.encode("utf-8", "surrogatepass"))
    tl.load(folder / "p.rls")


ENTRANCES: dict[str, Callable[[str, Path], object]] = {
    "parse": lambda text, folder: tl.parse(text),
    "load": write_program,
    "query": lambda text, folder: Reasoner(tl.parse("p(a) .")).query(text.rstrip(" .")),
    "apply": lambda text, folder: Reasoner(tl.parse("p(a) .")).apply("+ " + text),
}


@pytest.mark.parametrize("entrance", ENTRANCES)
@pytest.mark.parametrize("text", ['p("\ud800") .', "p(<\udfff>) .", 'p("\ud83d\ude00") .', "p\udc80(a) ."])
def test_surrogates_in_programs(entrance: str, text: str, tmp_path: Path) -> None:
    with pytest.raises(tl.TidelogError) as error:
        ENTRANCES[entrance](text, tmp_path)
    assert error.value.diagnostics[0].code in ("E101", "E501")
    assert json.dumps([fault.to_json() for fault in error.value.diagnostics])
    str(error.value).encode()


def test_surrogates_in_python() -> None:
    reasoner = Reasoner(tl.parse('p("a b") .'), threads=1)
    for text in ("\ud800", "a\udcff"):
        with pytest.raises(tl.DataError, match="surrogate"):
            reasoner.insert("p", [(text,)])
        with pytest.raises(tl.DataError, match="surrogate"):
            assert (text,) in reasoner["p"]


@given(programs(Features(names=True, arithmetic=True, local_variables=True)), st.data())
def test_the_order_of_a_body_is_greedy(text: str, data: st.DataObject) -> None:
    for rule in tl.parse(text).rules:
        atoms = [place for place, literal in enumerate(rule.body) if isinstance(literal, Atom)]
        pivot = data.draw(st.sampled_from([None, *atoms]))
        assert order(rule.body, pivot, Sizes()) == greedy(rule.body, pivot)
