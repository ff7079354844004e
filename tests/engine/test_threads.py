"""Several threads give what one gives: the same facts, and the same statistics, in every run."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from unittest.mock import patch

import numpy as np
import pyarrow as pa
import pytest

import tidelog as tl
from tidelog.engine.columnar.interpreter import plan_runner
from tidelog.engine.columnar.storage import catalog

PROGRAM = """
    path(?x, ?y) :- edge(?x, ?y) .
    path(?x, ?z) :- path(?x, ?y), path(?y, ?z) .
    one(?y) :- path(?x, ?y), ~edge(?x, ?y) .
    three(?x, ?y, ?z) :- edge(?x, ?y), edge(?y, ?z), path(?z, ?x) .
    four(?x, ?y, ?y, ?x) :- path(?x, ?y), path(?y, ?x) .
    five(?x, ?y, ?z, ?w, ?x) :- three(?x, ?y, ?z), edge(?z, ?w) .
    some() :- path(?x, ?x) .
    self(?y, ?x) :- path(?x, ?y) .
    self(?x, ?y) :- self(?y, ?x), path(?x, ?y) .
    degree(?x, #count(?y)) :- path(?x, ?y) .
    sum(?s) :- path(?x, ?y), ?s = ?x * 1000 + ?y .
"""
NAMES = ("path", "one", "three", "four", "five", "some", "self", "degree", "sum")


@contextmanager
def forced(emitted_rows: int, block: int, dense_bytes: int) -> Iterator[None]:
    """Let threads share every plan, hand rows over often, and write in small blocks."""
    with ExitStack() as stack:
        for module, name, value in (
            (plan_runner, "PARALLEL_FROM", 1),
            (plan_runner, "EMITTED_ROWS", emitted_rows),
            (plan_runner, "BLOCK", block),
            (catalog, "DENSE_BYTES", dense_bytes),
        ):
            stack.enter_context(patch.object(module, name, value))
        yield


def reasoner_of(threads: int, edges: int = 600, nodes: int = 400) -> tl.Reasoner:
    random = np.random.default_rng(nodes)
    reasoner = tl.Reasoner(tl.parse(PROGRAM), threads=threads, modules=False)
    columns = {name: random.integers(0, nodes, edges) for name in "xy"}
    reasoner.insert("edge", pa.table(columns))
    reasoner.materialise()
    return reasoner


def facts_of(reasoner: tl.Reasoner) -> dict[str, list[tuple[object, ...]]]:
    return {name: list(reasoner[name].sorted()) for name in NAMES}


def counts_of(reasoner: tl.Reasoner) -> list[tuple[int, int, int, int]]:
    rules = sorted(reasoner.statistics.rules.items())
    return [(number, rule.matches, rule.new, rule.rounds) for number, rule in rules]


@pytest.fixture(scope="module")
def alone() -> tl.Reasoner:
    return reasoner_of(threads=1)


@pytest.mark.parametrize("threads", [2, 3, 20])
@pytest.mark.parametrize("dense_bytes", [4, 64 << 20], ids=["hashed", "dense"])
def test_threads_that_share_every_plan_derive_the_same(
    alone: tl.Reasoner, threads: int, dense_bytes: int
) -> None:
    with forced(plan_runner.BATCH, 16, dense_bytes):
        reasoner = reasoner_of(threads)
    assert facts_of(reasoner) == facts_of(alone)
    assert counts_of(reasoner) == counts_of(alone)


@pytest.mark.parametrize("block", [1, 7, 256])
def test_rows_are_handed_over_whenever_a_buffer_is_full(block: int) -> None:
    alone = reasoner_of(threads=1, edges=220, nodes=100)
    with forced(64, block, 4), patch.object(plan_runner, "BATCH", 64):
        reasoner = reasoner_of(threads=3, edges=220, nodes=100)
    assert len(alone["path"]) > 1000
    assert facts_of(reasoner) == facts_of(alone)


def test_large_plans_run_in_parallel_as_they_are(alone: tl.Reasoner) -> None:
    """Nothing is forced: the closure has more rows than one thread takes alone."""
    assert len(alone["path"]) > 2 * plan_runner.PARALLEL_FROM
    with patch.object(
        plan_runner.ParallelRun, "run", autospec=True, side_effect=plan_runner.ParallelRun.run
    ) as parallel:
        assert facts_of(reasoner_of(threads=2)) == facts_of(alone)
    assert parallel.called


def test_pauses_of_one_thread_do_not_lose_rows(alone: tl.Reasoner) -> None:
    with forced(plan_runner.BATCH, 16, 4), patch.object(plan_runner.Runner, "budget", return_value=100):
        assert facts_of(reasoner_of(threads=2)) == facts_of(alone)


def test_runs_repeat_themselves() -> None:
    """The same rows in the same order, however threads take turns; computed values need sorting for that."""
    with forced(plan_runner.BATCH, 16, 64 << 20):
        runs = [reasoner_of(threads, edges=300, nodes=200) for threads in (1, 2, 2, 3)]
    assert len({tuple(run["path"]) for run in runs}) == 1
    assert len({tuple(run["three"]) for run in runs}) == 1
    assert len({tuple(run["sum"].sorted()) for run in runs}) == 1


def test_threads_of_no_number_are_those_of_the_machine() -> None:
    assert tl.Reasoner(threads=None)._engine.threads >= 1
    assert tl.Reasoner(threads=0)._engine.threads >= 1
