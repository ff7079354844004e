"""Classes of equal constants: as if they were sets, whatever is merged and divided."""

from __future__ import annotations

import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from tidelog.equality.classes import Classes, components

CONSTANTS = 12
constants = st.integers(0, CONSTANTS - 1)
pairs = st.lists(st.tuples(constants, constants), min_size=1, max_size=6)


def ids(numbers: list[int]) -> np.ndarray:
    return np.array(numbers, np.int32)


def as_sets(classes: Classes) -> set[frozenset[int]]:
    """The classes, found along their rings."""
    every = np.arange(CONSTANTS, dtype=np.int32)
    owners = np.unique(classes.representatives(every))
    members, sizes = classes.grouped(owners)
    parts = np.split(members, np.cumsum(sizes)[:-1])
    for owner, part in zip(owners.tolist(), parts, strict=True):
        assert (classes.representatives(part) == owner).all()
    assert sorted(members.tolist()) == every.tolist()
    assert classes.count == CONSTANTS - len(owners) == len(classes.aliased)
    assert classes.merged.tolist() == owners[sizes > 1].tolist()
    return {frozenset(part.tolist()) for part in parts}


def merged(sets: set[frozenset[int]], left: int, right: int) -> set[frozenset[int]]:
    one = {each for each in sets if left in each or right in each}
    return (sets - one) | {frozenset().union(*one)}


@given(steps=st.lists(st.tuples(st.booleans(), pairs), max_size=8))
def test_classes_are_merged_and_divided(steps: list[tuple[bool, list[tuple[int, int]]]]) -> None:
    classes = Classes()
    expected = {frozenset({number}) for number in range(CONSTANTS)}
    for is_merged, some in steps:
        left, right = ids([pair[0] for pair in some]), ids([pair[1] for pair in some])
        before = classes.representatives(np.arange(CONSTANTS, dtype=np.int32)).copy()
        if is_merged:
            moved = classes.merge(left, right)
            for pair in some:
                expected = merged(expected, *pair)
        else:  # the classes of the constants on the left fall apart, but for pairs within them
            members = np.sort(classes.members_of(classes.representatives(left)))
            moved = classes.assign(members, classes.parts(members, left, right))
            inside = set(members.tolist())
            expected = {each for each in expected if not each & inside} | {frozenset({one}) for one in inside}
            for pair in some:
                if inside.issuperset(pair):
                    expected = merged(expected, *pair)
        assert as_sets(classes) == expected
        assert (before[moved.ids] == moved.before).all()
        assert (classes.representatives(moved.ids) == moved.after).all()
        assert len(set(moved.ids.tolist())) == len(moved.ids)


def test_components_are_named_after_their_smallest_nodes() -> None:
    left, right = np.array([5, 4, 3, 0]), np.array([4, 3, 2, 6])
    assert components(7, left, right).tolist() == [0, 1, 2, 2, 2, 2, 0]
