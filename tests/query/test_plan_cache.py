"""Cached plans: they are made again when a relation no longer has about the size they were made for."""

from __future__ import annotations

from itertools import count

import pytest

from tidelog.plan.join_order import Freshness, PlanCache, PlannedSizes


@pytest.mark.parametrize(
    ("freshness", "planned", "size", "is_stale"),
    [
        (Freshness(small=1000), 0, 1000, False),
        (Freshness(small=1000), 0, 1001, True),
        (Freshness(small=1000), 300, 1200, False),
        (Freshness(small=1000), 300, 1201, True),
        (Freshness(small=1000), 9000, 1, False),
        (Freshness(small=1000, from_empty=False), 0, 1, True),
        (Freshness(small=1000, from_empty=False), 1, 1000, False),
        (Freshness(small=64, shrinks=True), 65, 16, True),
        (Freshness(small=64, shrinks=True), 65, 17, False),
        (Freshness(small=64, shrinks=True), 64, 0, False),
    ],
)
def test_plans_are_stale_by_the_sizes_of_relations(
    freshness: Freshness, planned: int, size: int, is_stale: bool
) -> None:
    assert freshness.is_stale(planned, size) is is_stale


def test_a_plan_is_made_again_only_when_it_is_stale() -> None:
    sizes, made = {"edge": 10, "node": 10}, count(1)
    cache: PlanCache[str, int] = PlanCache(Freshness(small=20))

    def plan() -> int:
        return cache.get("rule", sizes, sizes.__getitem__, lambda: next(made))

    assert (plan(), plan()) == (1, 1)
    sizes["edge"] = 40
    assert plan() == 1
    sizes["edge"] = 41
    assert (plan(), plan()) == (2, 2)
    sizes["edge"] = 100  # four times the size that the plan was made for again is 164
    assert plan() == 2
    cache.keep(lambda key: key != "rule")
    assert "rule" not in cache and plan() == 3


def test_sizes_are_compared_once_in_a_number_of_uses() -> None:
    sizes = PlannedSizes(Freshness(every=3))
    assert [sizes.is_due() for _ in range(6)] == [False, False, True] * 2
    assert not sizes.are_known and not sizes.stale(len)
    sizes.note(["edge"], {"edge": 400}.__getitem__)
    assert sizes.are_known and sizes.stale({"edge": 1601}.__getitem__) == ["edge"]
