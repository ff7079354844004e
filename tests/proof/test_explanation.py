"""What explanations say, and how they are written."""

from __future__ import annotations

import json

import pytest

import tidelog as tl
from tests.proof.checker import check
from tests.proof.test_proofs import prove_all
from tidelog.engine import reference
from tidelog.proof.explanation import walk
from tidelog.store.json_forms import explanation_of, explanation_to_json

CHAIN = """
    path(?x, ?y) :- edge(?x, ?y) .
    path(?x, ?z) :- path(?x, ?y), edge(?y, ?z) .
"""


def chain(length: int, **settings: object) -> tl.Reasoner:
    """A path from 0 on."""
    reasoner = tl.Reasoner(tl.parse(CHAIN), threads=1, **settings)  # type: ignore[arg-type]
    reasoner.insert("edge", [(number, number + 1) for number in range(length)])
    return reasoner


def test_a_proof_can_be_thousands_high_and_is_written_in_every_form() -> None:
    found = chain(1500).explain("path(0, 1500)")
    assert found.heights == (1500,)
    assert len(str(found).splitlines()) == 3000
    assert len(json.dumps(found.to_json())) > 100_000
    assert found.to_html().count("<details") == 1500
    assert found.to_dot().count("->") == 2999


@pytest.mark.parametrize("modules", [True, False])
def test_facts_are_explained_as_they_are_after_changes(modules: bool) -> None:
    reasoner = chain(6, modules=modules)
    reasoner.materialise()
    reasoner.apply("- edge(2, 3) . + edge(1, 3) . + edge(5, 0) .")
    explicit: reference.Facts = {"edge": set(values(reasoner, "edge"))}
    prove_all(reasoner, explicit, proofs=3)
    reasoner.apply("+ path(?y, ?x) :- path(?x, ?y) . - path(?x, ?y) :- edge(?x, ?y) . + path(3, 4) .")
    assert reasoner.explain("path(4, 3)").heights == (1,)


def values(reasoner: tl.Reasoner, name: str) -> list[reference.Row]:
    """All facts of a predicate as values."""
    columns, _ = reasoner.engine.storage.rows(name)
    decode = reasoner.engine.storage.dictionary.decode
    return [tuple(map(decode, row)) for row in zip(*(column.tolist() for column in columns), strict=True)]


def test_an_explicit_fact_is_explained_by_itself_first_and_then_by_rules() -> None:
    reasoner = tl.Reasoner(tl.parse(CHAIN + "edge(1, 2) . path(1, 2) .", name="graph.rls"), threads=1)
    assert str(reasoner.explain("path(1, 2)")) == "path(1, 2)  explicit, graph.rls:4"
    assert reasoner.explain("path(1, 2)", proofs=5).heights == (0, 1)


def test_a_fact_that_is_used_twice_is_one_node_and_shown_once() -> None:
    program = tl.parse(
        "a(1) . b(?x) :- a(?x) . c(?x) :- b(?x), b(?x) . d(?x) :- c(?x), b(?x) .", name="t.rls"
    )
    found = tl.Reasoner(program, threads=1).explain("d(1)")
    assert len(list(walk(found.proofs))) == 4
    assert str(found).splitlines() == [
        "d(1)  rule 3, t.rls:1",
        "├─ c(1)  rule 2, t.rls:1",
        "│  ├─ b(1)  rule 1, t.rls:1",
        "│  │  └─ a(1)  explicit, t.rls:1",
        "│  └─ b(1)  as above",
        "└─ b(1)  as above",
    ]


def test_a_query_of_several_literals_is_explained_as_one_step() -> None:
    found = chain(3).explain("path(0, ?x), path(?x, 3), ~edge(?x, 1), ?y = ?x + 1")
    assert found.proofs[0].height == 3
    assert str(found).splitlines()[0] == "the query"
    assert "~edge(2, 1)  no such fact" in str(found) or "~edge(1, 1)  no such fact" in str(found)
    assert "computed" in str(found)


def test_depth_and_limits_leave_out_what_is_below() -> None:
    found = chain(5).explain("path(0, 5)")
    assert found.to_text(depth=1).splitlines()[2].endswith("… 4 deep")
    few = chain(5).explain("path(?x, ?y)", limit=4)
    assert len(few.proofs) == 4 and few.omitted == 11
    assert few.to_text().endswith("… and 11 more answers\n")


def test_rows_of_a_group_are_elided() -> None:
    reasoner = tl.Reasoner(tl.parse("big(#count(?x)) :- edge(?x, _) ."), threads=1)
    reasoner.insert("edge", [(number, number) for number in range(100)])
    found = reasoner.explain("big(?n)", rows=5)
    (aggregate,) = found.proofs[0].children
    assert len(aggregate.children) == 5 and aggregate.elided == 95
    assert str(found).splitlines()[-1].strip() == "└─ … 95 more rows"


def test_an_inconsistency_can_be_explained() -> None:
    reasoner = tl.Reasoner(tl.parse("a(1) . bottom() :- a(?x), ?x < 2 ."), threads=1)
    with pytest.raises(tl.Inconsistent):
        reasoner.materialise()
    assert "1 < 2  holds" in str(reasoner.explain("bottom()"))


def test_data_without_a_file_is_just_explicit() -> None:
    assert str(chain(2).explain("edge(0, 1)")) == "edge(0, 1)  explicit"


def test_what_does_not_hold_is_an_error() -> None:
    with pytest.raises(tl.ProgramError, match=r"E655.*`path\(3, 0\)` does not hold"):
        chain(3).explain("path(3, 0)")
    with pytest.raises(tl.ProgramError, match=r"E655.*has no answers"):
        chain(3).explain("path(?x, 0)")


def test_a_wrong_proof_is_noticed() -> None:
    """The checker would see it: another program, and other explicit facts."""
    reasoner = chain(3)
    (proof,) = reasoner.explain("path(0, 2)").proofs
    program = reasoner.program
    explicit: reference.Facts = {"edge": set(values(reasoner, "edge"))}
    model = reference.evaluate(program, explicit)
    check(proof, program, explicit, model)
    with pytest.raises(AssertionError):
        check(proof, program, {"edge": set()}, model)
    other = tl.parse(CHAIN.replace("path(?x, ?y), edge(?y, ?z)", "edge(?x, ?y), path(?y, ?z)"))
    with pytest.raises(AssertionError):
        check(proof, other, explicit, model)


WRITTEN = {
    "total(a, 5)": """
        total(?x, #sum(?n)) :- item(?x, ?n), ~ignored(?n), ?n > 0, ?m = ?n * 2, CONTAINS("abc", "b") .
        item(a, 2) . item(a, 3) . item(a, 9) . ignored(9) . other(?x) :- item(?x, _) .
    """,
    "knows(ann, carol)": """
        ?x = ?y :- same(?x, ?y) . same(ann, bob) . knows(?x, ?y) :- met(?x, ?y) . met(bob, carol) .
    """,
    "alarm(x)": """
        alarm(?s) :- boxminus[0, 5] hot(?s), ~diamondminus[0, 1] off(?s) . hot(x)@[0, 10) . off(y)@1 .
    """,
    "item(?x, ?y), ?y > 1": 'item("a b"@en, 2) . item(<http://x/é>, 2.5) . item(b, 1) . item(a, 1e300) .',
}


@pytest.mark.parametrize("query", WRITTEN)
def test_explanations_are_read_back_from_json(query: str) -> None:
    program = tl.parse(WRITTEN[query])
    found = tl.Reasoner(program).explain(query, proofs=2)
    form = json.loads(json.dumps(explanation_to_json(found, program)))
    read = explanation_of(form, program)
    assert str(read) == str(found) and read.to_json() == found.to_json()
    assert [repr(node) for node in walk(read.proofs)] == [repr(node) for node in walk(found.proofs)]


def test_a_high_explanation_is_read_back_from_json() -> None:
    program = "n(0) . n(?x + 1) :- n(?x), ?x < 3000 . twice(?x) :- n(?x), n(?x) ."
    known = tl.parse(program)
    found = tl.Reasoner(known).explain("twice(3000)")
    assert str(explanation_of(explanation_to_json(found, known), known)) == str(found)
