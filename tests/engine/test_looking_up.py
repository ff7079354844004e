"""Queries with constants: the same answers by scans and by look-ups, while facts change."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidelog as tl
from tidelog.engine.columnar.interpreter import executor

Fact = tuple[int, int, int]
NUMBERS = st.integers(0, 3)
FACTS = st.frozensets(st.tuples(NUMBERS, NUMBERS, NUMBERS), min_size=1, max_size=20)
ASKED = st.tuples(*[st.none() | NUMBERS] * 3)


@given(facts=FACTS, changed=FACTS, asked=st.lists(ASKED, min_size=1, max_size=6))
def test_look_ups_answer_as_scans_do(
    facts: frozenset[Fact], changed: frozenset[Fact], asked: list[tuple[int | None, ...]]
) -> None:
    reasoner = tl.Reasoner(tl.parse("p(?x, ?y, ?z) :- q(?x, ?y, ?z) ."), threads=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(executor, "LARGE", 1)
        patch.setattr(executor, "PATIENCE", 1)
        reasoner.insert("q", sorted(facts))
        reasoner.materialise()
        for number, pattern in enumerate(asked * 3):
            if number == len(asked):
                with reasoner.change(missing="ignore") as change:
                    change.delete("q", sorted(changed & facts))
                    change.insert("q", sorted(changed - facts))
                facts = facts ^ changed
            check(reasoner, facts, pattern)


def check(reasoner: tl.Reasoner, facts: frozenset[Fact], pattern: tuple[int | None, ...]) -> None:
    terms = [f"?v{place}" if given is None else str(given) for place, given in enumerate(pattern)]
    matching = [
        fact for fact in facts if all(one in (None, other) for one, other in zip(pattern, fact, strict=True))
    ]
    wanted = {
        tuple(each for each, one in zip(fact, pattern, strict=True) if one is None) for fact in matching
    }
    assert set(reasoner.query(f"p({', '.join(terms)})", strategy="lookup")) == wanted
    joined = {fact[0] for fact in matching if fact[0] in {fact[1] for fact in facts}}
    first = terms[0] if pattern[0] is not None else "?v0"
    found = reasoner.query(f"p({', '.join(terms)}), q(_, {first}, _), ?n = {first}", strategy="lookup")
    assert {row[-1] for row in found} == joined
