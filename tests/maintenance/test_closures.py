"""Closures kept by structures of their own, against naive closures of Python sets."""

from __future__ import annotations

import itertools
import os
import subprocess
import sys
from collections.abc import Callable, Iterable
from dataclasses import dataclass
from unittest.mock import patch

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tidelog.data import memory
from tidelog.engine.columnar.closures import closure_kernels, closure_structures
from tidelog.engine.columnar.closures.closure_structures import (
    EquivalenceClosure,
    Ids,
    Pairs,
    TransitiveClosure,
)

Closure = TransitiveClosure | EquivalenceClosure
Pair = tuple[int, int]


def transitive(pairs: set[Pair]) -> set[Pair]:
    """The transitive closure, by searching from each node."""
    following: dict[int, set[int]] = {}
    for source, target in pairs:
        following.setdefault(source, set()).add(target)
    closed = set()
    for source in following:
        waiting, reached = [source], set[int]()
        while waiting:
            new = following.get(waiting.pop(), set()) - reached
            reached |= new
            waiting += new
        closed |= {(source, target) for target in reached}
    return closed


def equivalent(pairs: set[Pair]) -> set[Pair]:
    """The symmetric and transitive closure."""
    return transitive(pairs | {(right, left) for left, right in pairs})


KINDS: list[tuple[type[Closure], Callable[[set[Pair]], set[Pair]]]] = [
    (TransitiveClosure, transitive),
    (EquivalenceClosure, equivalent),
]
both_kinds = pytest.mark.parametrize(("kind", "naive"), KINDS)


def columns(pairs: Iterable[Pair]) -> Pairs:
    table = np.array(list(pairs), np.int32).reshape(-1, 2)
    return np.ascontiguousarray(table[:, 0]), np.ascontiguousarray(table[:, 1])


def rows(pairs: Pairs) -> set[Pair]:
    """The pairs, of which none stands there twice."""
    listed = list(zip(pairs[0].tolist(), pairs[1].tolist(), strict=True))
    assert len(set(listed)) == len(listed)
    return set(listed)


@dataclass(frozen=True)
class Step:
    """Pairs that are added, or deleted."""

    added: bool
    pairs: tuple[Pair, ...]


@st.composite
def scripts(draw: st.DrawFn) -> list[Step]:
    """Changes over few nodes or many, close together or far apart."""
    ids = draw(st.lists(st.integers(0, draw(st.sampled_from([9, 2**31 - 1]))), min_size=1, max_size=12))
    node = st.sampled_from(ids)
    pairs = st.lists(st.tuples(node, node), max_size=draw(st.sampled_from([1, 4, 40]))).map(tuple)
    return draw(st.lists(st.builds(Step, st.booleans(), pairs), max_size=12))


def apply(closure: Closure, step: Step) -> set[Pair]:
    return rows((closure.add if step.added else closure.delete)(*columns(step.pairs)))


def after(external: set[Pair], step: Step) -> set[Pair]:
    return external | set(step.pairs) if step.added else external - set(step.pairs)


def check_whole(closure: Closure, external: set[Pair], closed: set[Pair]) -> None:
    """Everything that can be read of the closure is right."""
    assert rows(closure.externals()) == external
    assert rows(closure.pairs()) == closed
    assert len(closure) == len(closed)
    nodes = sorted({node for pair in external for node in pair})[:8]
    asked = [(left, right) for left in (*nodes, 77) for right in (*nodes, 77)]
    assert closure.contains(*columns(asked)).tolist() == [pair in closed for pair in asked]


# ---- laws


@both_kinds
@settings(max_examples=3 * settings().max_examples)
@given(script=scripts())
def test_each_change_is_the_difference_of_naive_closures(
    kind: type[Closure], naive: Callable[[set[Pair]], set[Pair]], script: list[Step]
) -> None:
    closure = kind()
    external: set[Pair] = set()
    for step in script:
        before, external = naive(external), after(external, step)
        assert apply(closure, step) == before ^ naive(external)
    check_whole(closure, external, naive(external))


@both_kinds
@given(script=scripts())
def test_every_way_to_change_rows_does_the_same(
    kind: type[Closure], naive: Callable[[set[Pair]], set[Pair]], script: list[Step]
) -> None:
    """Without searches after deletions, without columns, and with no pair added by itself."""
    with (
        patch.object(closure_structures, "SEARCHES", 0),
        patch.object(closure_structures, "FEW_COLUMNS", -1),
        patch.object(TransitiveClosure, "_most_single", lambda _: 0),
    ):
        closure = kind()
        external: set[Pair] = set()
        for step in script:
            before, external = naive(external), after(external, step)
            assert apply(closure, step) == before ^ naive(external)
    check_whole(closure, external, naive(external))


@both_kinds
@given(first=scripts(), second=scripts(), third=scripts())
def test_rolled_back_changes_have_not_been(
    kind: type[Closure],
    naive: Callable[[set[Pair]], set[Pair]],
    first: list[Step],
    second: list[Step],
    third: list[Step],
) -> None:
    closure = kind()
    external: set[Pair] = set()
    for step in first:
        apply(closure, step)
        external = after(external, step)
    closure.checkpoint()
    for step in second:
        apply(closure, step)
    closure.roll_back()
    check_whole(closure, external, naive(external))
    closure.checkpoint()
    for step in third:
        before, external = naive(external), after(external, step)
        assert apply(closure, step) == before ^ naive(external)
    closure.commit()
    check_whole(closure, external, naive(external))


@both_kinds
@given(first=scripts(), second=scripts(), failing=st.integers(0, 12))
def test_a_lack_of_memory_can_be_rolled_back(
    kind: type[Closure],
    naive: Callable[[set[Pair]], set[Pair]],
    first: list[Step],
    second: list[Step],
    failing: int,
) -> None:
    closure = kind()
    external: set[Pair] = set()
    for step in first:
        apply(closure, step)
        external = after(external, step)
    closure.checkpoint()
    failing_memory = Failing(failing)
    with patch.object(memory, "empty", failing_memory), patch.object(memory, "zeros", failing_memory):
        for step in second:
            try:
                apply(closure, step)
            except MemoryError:
                break
    closure.roll_back()
    check_whole(closure, external, naive(external))


class Failing:
    """Allocates as often as is said, then no more."""

    def __init__(self, left: int) -> None:
        self.left = left

    def __call__(self, size: int, dtype: type) -> Ids:
        self.left -= 1
        if self.left < 0:
            raise MemoryError
        return np.zeros(size, dtype)


@both_kinds
@given(first=scripts(), second=scripts(), calls=st.integers(0, 60), at_once=st.integers(1, 3))
def test_a_limit_may_stop_a_change_anywhere(
    kind: type[Closure],
    naive: Callable[[set[Pair]], set[Pair]],
    first: list[Step],
    second: list[Step],
    calls: int,
    at_once: int,
) -> None:
    """Work in small parts does the same, claims no more pairs than become true, and can be rolled back."""
    with (
        patch.object(closure_structures, "PART", at_once),
        patch.object(closure_structures, "ENTERED", at_once),
        patch.object(TransitiveClosure, "_most_single", lambda _: at_once),
    ):
        closure = kind()
        external: set[Pair] = set()
        for step in first:
            before, external = naive(external), after(external, step)
            assert apply(closure, step) == before ^ naive(external)
        closure.checkpoint()
        closure.check = stopping = Stopping(calls)
        changed = external
        for step in second:
            before, changed = naive(changed), after(changed, step)
            try:
                assert apply(closure, step) == before ^ naive(changed)
            except Stopping.ReachedError:
                break
            finally:
                assert stopping.found <= len(naive(changed) - before)
                stopping.found = 0
        closure.roll_back()
        assert stopping.left >= -1, "a roll-back was stopped"
        check_whole(filled(kind, external), external, naive(external))
    closure.check = closure_structures.proceed
    check_whole(closure, external, naive(external))


def filled(kind: type[Closure], external: set[Pair]) -> Closure:
    closure = kind()
    closure.fill(*columns(external))
    return closure


class Stopping:
    """A check that passes as often as is said."""

    class ReachedError(Exception):
        """The limit."""

    def __init__(self, left: int) -> None:
        self.left = left
        self.found = 0  # at most, since it was last set

    def __call__(self, found: int) -> None:
        self.left -= 1
        self.found = max(self.found, found)
        if self.left < 0:
            raise self.ReachedError


@pytest.mark.parametrize(("kind", "shape"), [
    (TransitiveClosure, "cycle"), (TransitiveClosure, "chain"), (TransitiveClosure, "layers"),
    (EquivalenceClosure, "chain"),
])  # fmt: skip
def test_limits_are_looked_at_after_every_part(kind: type[Closure], shape: str) -> None:
    """Between two checks no more is written than a part, and what one node has, or one component."""
    count, part = 300, 1000
    edges = {
        "chain": [(node, node + 1) for node in range(count - 1)],
        "cycle": [(node, (node + 1) % count) for node in range(count)],
        "layers": [
            (node, 10 * (node // 10 + 1) + other) for node in range(count - 10) for other in range(10)
        ],
    }[shape]
    seen: list[int] = []
    closure = kind()
    closure.check = seen.append
    with patch.object(closure_structures, "PART", part), patch.object(closure_structures, "ENTERED", 50):
        gained = closure.add(*columns(edges))
    assert seen.count(0) >= len(edges) // 50
    written = seen[seen.index(len(gained[0])) + 1 :]
    assert written[-1] == len(gained[0])
    assert all(later - earlier < part + count for earlier, later in itertools.pairwise([0, *written]))


# ---- growing


@both_kinds
@given(seed=st.integers(0, 2**32 - 1))
@settings(max_examples=max(1, settings().max_examples // 5))
def test_nodes_may_keep_coming(
    kind: type[Closure], naive: Callable[[set[Pair]], set[Pair]], seed: int
) -> None:
    random = np.random.default_rng(seed)
    closure = kind()
    external: set[Pair] = set()
    for nodes in (10, 100, 300, 400):
        drawn = random.integers(0, nodes, (nodes // 4, 2)).tolist()
        for step in (Step(True, tuple(map(tuple, drawn))), Step(False, tuple(list(external)[:5]))):
            before, external = naive(external), after(external, step)
            assert apply(closure, step) == before ^ naive(external)
    check_whole(closure, external, naive(external))


@both_kinds
def test_nodes_that_went_leave_no_room_behind(
    kind: type[Closure], naive: Callable[[set[Pair]], set[Pair]]
) -> None:
    closure = kind()
    closure.add(*columns([(1, 2), (2, 3)]))
    for number in range(10, 5_000, 10):
        pairs = columns([(number, number + 1), (number + 1, 3)])
        closure.checkpoint()
        closure.add(*pairs)
        closure.commit()
        closure.checkpoint()
        closure.delete(*pairs)
        closure.commit()
    assert closure.bytes < 100_000
    check_whole(closure, {(1, 2), (2, 3)}, naive({(1, 2), (2, 3)}))


@both_kinds
def test_marks_begin_anew_when_numbers_end(
    kind: type[Closure], naive: Callable[[set[Pair]], set[Pair]]
) -> None:
    closure = kind()
    ring = {(number, (number + 1) % 9) for number in range(9)}
    closure.add(*columns(ring))
    closure.words[closure_kernels.STAMP] = closure_kernels.LAST_STAMP - 3
    for pair in sorted(ring):
        lost = rows(closure.delete(*columns([pair])))
        assert lost == naive(ring) - naive(ring - {pair})
        assert rows(closure.add(*columns([pair]))) == lost


# ---- sizes


def test_a_clique_is_cut_in_the_middle() -> None:
    nodes = range(300)
    clique = [(left, right) for left in nodes for right in nodes if left < right]
    across = [(left, right) for left, right in clique if left < 150 <= right]
    closure = EquivalenceClosure()
    assert len(closure.add(*columns(clique))[0]) == 90_000
    assert len(closure.delete(*columns(across[1:]))[0]) == 0
    lost = rows(closure.delete(*columns(across[:1])))
    assert lost == {
        pair for left in range(150) for right in range(150, 300) for pair in ((left, right), (right, left))
    }
    assert len(closure) == 45_000


def test_a_cycle_is_cut_and_closed() -> None:
    cycle = [(number, (number + 1) % 1_000) for number in range(1_000)]
    closure = TransitiveClosure()
    assert len(closure.add(*columns(cycle))[0]) == 1_000_000
    assert len(closure.delete(*columns(cycle[:1]))[0]) == 1_000_000 - 999 * 1_000 // 2
    assert len(closure.add(*columns(cycle[:1]))[0]) == 1_000_000 - 999 * 1_000 // 2
    assert closure.contains(*columns([(5, 5)])).tolist() == [True]


def test_only_nodes_on_a_cycle_reach_themselves() -> None:
    closure = TransitiveClosure()
    assert rows(closure.add(*columns([(1, 2), (2, 2)]))) == {(1, 2), (2, 2)}
    assert rows(closure.delete(*columns([(2, 2)]))) == {(2, 2)}


@pytest.mark.parametrize(
    ("nodes", "edges", "fits"),
    [
        (1_000, 10_000, True),
        (2_001, 2_000, True),
        (45_000, 1_000_000, True),
        (60_000, 10**7, False),
        (40_000, 20_000, False),
    ],
)
def test_a_matrix_must_not_be_too_large(nodes: int, edges: int, fits: bool) -> None:
    assert TransitiveClosure.fits(nodes, edges) is fits


# ---- debug mode

CHECK = """
import numpy as np

from tidelog import compiled
from tidelog.engine.columnar.closures.closure_structures import EquivalenceClosure, TransitiveClosure

assert compiled.DEBUG
random = np.random.default_rng(0)
for closure in (TransitiveClosure(), EquivalenceClosure()):
    for nodes in (3, 50, 130, 700):
        pairs = random.integers(0, nodes, (2, nodes)).astype(np.int32)
        closure.add(*pairs)
        for count in (1, 1, 1, nodes // 2):
            chosen = random.integers(0, nodes, count)
            lost = closure.delete(pairs[0][chosen], pairs[1][chosen])
            gained = closure.add(pairs[0][chosen], pairs[1][chosen])
            assert sorted(zip(*lost)) == sorted(zip(*gained))
    assert len(closure.pairs()[0]) == len(closure)
print("all is well")
"""


@pytest.mark.slow  # compiles the kernels of debug mode
def test_no_kernel_reaches_beyond_its_arrays() -> None:
    done = subprocess.run(
        [sys.executable, "-c", CHECK],
        env={**os.environ, "TIDELOG_DEBUG": "1"},
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stdout) == (0, "all is well\n"), done.stderr
