"""Sums and means of doubles, integers and decimals: the same however they came about."""

from __future__ import annotations

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidelog as tl
from tests.changes.oracle import State, held
from tidelog.logic.values import XSD
from tidelog.maintenance.registry import MAINTAINERS

RULES = {"total(?g, #sum(?n, ?k)) :- item(?g, ?k, ?n) .", "mean(#avg(?n, ?k)) :- item(_, ?k, ?n) ."}
DOUBLE = f"^^<{XSD}double>"
NUMBERS = (
    *("9007199254740993", "-9007199254740992", "1", "0.1", "-0.3"),
    *("1E0", "1E-1", "2.5E-7", "1.5E308", "-1.5E308", f'"INF"{DOUBLE}', f'"-INF"{DOUBLE}'),
)
ITEMS = [(group, str(key), number) for group in "ab" for key, number in enumerate(NUMBERS)]


@pytest.mark.parametrize("maintainer", MAINTAINERS)
@settings(max_examples=max(settings().max_examples // 5, 1))
@given(
    toggled=st.lists(st.lists(st.sampled_from(ITEMS), min_size=1, max_size=5, unique=True), max_size=5),
    order=st.permutations(ITEMS),
)
def test_sums_under_change(
    maintainer: str, toggled: list[list[tuple[str, str, str]]], order: list[tuple[str, str, str]]
) -> None:
    state = State({"item": 3, "total": 2, "mean": 1}, {("item", row) for row in order[:9]}, RULES)
    program = tl.parse("\n".join([*RULES, *(f"item({', '.join(row)}) ." for row in order[:9])]))
    reasoner = tl.Reasoner(program, maintainer=maintainer, threads=1)
    for rows in toggled:
        texts = [f"{'-' if ('item', row) in state.facts else '+'} item({', '.join(row)}) ." for row in rows]
        reasoner.apply("\n".join(texts))
        state.facts ^= {("item", row) for row in rows}
        assert held(reasoner, state.arities) == state.expected()
