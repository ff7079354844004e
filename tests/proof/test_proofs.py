"""Every derived fact has a proof, the proof is valid, and none is lower."""

from __future__ import annotations

from dataclasses import replace
from itertools import groupby

import pytest
from hypothesis import given

import tidelog as tl
from tests.corpus import Case, cases, imported
from tests.proof.checker import check, row_of, smallest_heights
from tests.strategies import Case as RandomCase
from tests.strategies import Features
from tests.strategies import cases as random_cases
from tidelog.engine import reference
from tidelog.logic.equality_axioms import has_equality
from tidelog.logic.program import BOTTOM, Fact
from tidelog.plan.rule_text import Writing

RANDOM = random_cases(Features(arithmetic=True, aggregates=True, local_variables=True))
MOST = 40  # facts of a case that are proved


def prove_all(reasoner: tl.Reasoner, explicit: reference.Facts, proofs: int = 1) -> None:
    """Every derived fact has a valid proof of the smallest height."""
    program = replace(reasoner.program, facts=())
    reasoner.materialise()
    model = reference.evaluate(program, explicit)
    heights = smallest_heights(program, explicit, model)
    for name in sorted(name for name in program.derived if model[name]):
        variables = ", ".join(f"?x{place}" for place in range(program.predicates[name].arity))
        text = f"{Writing().predicate(name)}({variables})"
        found = reasoner.explain(text, proofs=proofs, limit=MOST, rows=None)
        by_fact = {row: list(group) for row, group in groupby(found.proofs, row_of)}
        assert len(by_fact) == min(MOST, len(model[name])) and by_fact.keys() <= model[name]
        for row, group in by_fact.items():
            lengths = [proof.height for proof in group]
            assert lengths[0] == heights[name, row] and lengths == sorted(lengths)
            for proof in group:
                check(proof, program, explicit, model)


def explicit_of(program: tl.Program) -> reference.Facts:
    """The facts that a program states and imports."""
    facts: reference.Facts = {name: set(rows) for name, rows in imported(program).items()}
    for fact in program.facts:
        facts.setdefault(fact.predicate, set()).add(fact.values)
    return facts


def is_small(case: Case) -> bool:
    """Whether a case derives something, without equality, that brute force can prove too."""
    if case.error is not None:
        return False
    program = case.program()
    return not (has_equality(program.predicates) or program.timed or BOTTOM in program.predicates)


@pytest.mark.parametrize("case", [case for case in cases() if is_small(case)], ids=lambda case: case.name)
def test_every_fact_of_the_corpus_has_a_valid_proof_of_smallest_height(case: Case) -> None:
    program = case.program()
    prove_all(tl.Reasoner(program, threads=1), explicit_of(program))


@given(RANDOM)
def test_every_fact_of_a_random_program_has_a_valid_proof_of_smallest_height(case: RandomCase) -> None:
    program = tl.parse(case.text)
    prove_all(tl.Reasoner(program, threads=1), explicit_of(program))


@given(RANDOM)
def test_further_proofs_are_valid_and_in_order(case: RandomCase) -> None:
    program = tl.parse(case.text)
    prove_all(tl.Reasoner(program, threads=1), explicit_of(program), proofs=4)


# A value that its datatype does not have can be computed, but not written in a query.
WRITABLE = [case for case in cases() if is_small(case) and case.name != "kinds/STRDT"]


def prove_each(program: tl.Program, explicit: reference.Facts, most: int) -> None:
    """Derived facts have valid proofs of the smallest height by what is derived for each alone."""
    reasoner = tl.Reasoner(program, threads=1)
    rules = replace(program, facts=())
    model = reference.evaluate(rules, explicit)
    heights = smallest_heights(rules, explicit, model)
    facts = [(name, row) for name in sorted(program.derived) for row in sorted(model[name], key=str)]
    for name, row in facts[:: max(1, len(facts) // most)]:
        text = Writing().fact(Fact(name, row)).removesuffix(".")
        found = reasoner.explain(text, rows=None, strategy="magic")
        assert found.heights == (heights[name, row],)
        check(found.proofs[0], rules, explicit, model)
    assert "not materialised" in repr(reasoner)
    for name in program.derived:
        assert len(reasoner[name]) == len(model[name])


@given(RANDOM)
def test_what_is_derived_for_a_fact_alone_proves_it(case: RandomCase) -> None:
    program = tl.parse(case.text)
    prove_each(program, explicit_of(program), 6)


@pytest.mark.slow
@pytest.mark.parametrize("case", WRITABLE, ids=lambda case: case.name)
def test_what_is_derived_for_a_fact_alone_proves_it_in_the_corpus(case: Case) -> None:
    program = case.program()
    prove_each(program, explicit_of(program), 20)


def test_a_bound_explanation_derives_little() -> None:
    chains = "".join(f"edge({first}, {first + 1}) . " for first in range(3000) if first % 10 != 9)
    rules = "reach(?x, ?y) :- edge(?x, ?y) . reach(?x, ?z) :- reach(?x, ?y), reach(?y, ?z) ."
    reasoner = tl.Reasoner(chains + rules, max_facts=4000)
    assert reasoner.explain("reach(10, 19)", strategy="magic").heights == (5,)
    with pytest.raises(tl.ProgramError, match="E655"):
        reasoner.explain("reach(10, 20)", strategy="magic")
    with pytest.raises(tl.ProgramError, match=r"E650(.|\n)*`full` or `magic`"):
        reasoner.explain("reach(10, 19)", strategy="tabling")
    with pytest.raises(tl.Stopped):
        reasoner.explain("reach(10, 19)")
