"""Batches are applied once: the number of the last one is in the store with what it changed."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

import tidelog as tl
from tests.store.imprint import imprint
from tests.store.test_deaths import deaths
from tests.store.test_laws import crash
from tidelog.reasoner.store_repair import repair
from tidelog.store.forms import BatchId

pytestmark = pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")

PROGRAM = """
reach(?x, ?y) :- edge(?x, ?y) .
reach(?x, ?z) :- reach(?x, ?y), edge(?y, ?z) .
edge(a, b) .
"""


def apply(reasoner: tl.Reasoner, number: int, *, stream: str = "") -> None:
    """Apply the batch of a number, if that has not been done: it adds one edge, and deletes another."""
    batch = BatchId("app", number, stream)
    if not reasoner.has_applied(batch):
        with reasoner.change(missing="ignore", batch=batch) as change:
            change.insert("edge", [(f"n{number}", f"n{number + 1}")])
            change.delete("edge", [(f"n{number - 2}", f"n{number - 1}")])


def test_the_last_batch_of_each_application_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "store"
    reasoner = tl.open(path, PROGRAM, threads=1)
    apply(reasoner, 3)
    apply(reasoner, 7, stream="s")
    with reasoner.change(batch=("other", 0)):
        pass  # nothing changes, and that is known too
    kept = {"app": ("app", 7, "s"), "other": ("other", 0, "")}
    for end in (crash, tl.StoredReasoner.close, crash):
        assert reasoner.batches == kept
        assert reasoner.has_applied(("app", 7)) and not reasoner.has_applied(("app", 8))
        assert not reasoner.has_applied(("new", 0))
        end(reasoner)
        reasoner = tl.open(path, threads=1)
    assert reasoner.commits == 3
    reasoner.compact()
    crash(reasoner)
    assert tl.open(path, read_only=True).batches == kept


@pytest.mark.parametrize("batch", [("app", 3), ("app", 6), ("app", 9, "other stream")])
def test_numbers_that_run_backwards_are_an_error(tmp_path: Path, batch: tuple[str, int]) -> None:
    with tl.open(tmp_path / "store", PROGRAM, threads=1) as reasoner:
        apply(reasoner, 7, stream="s")
        before = imprint(reasoner)
        with pytest.raises(tl.DataError, match=r"E839.*after batch 7"):
            reasoner.has_applied(batch)
        with pytest.raises(tl.DataError, match="E839"), reasoner.change(batch=batch) as change:
            change.insert("edge", [("x", "y")])
        assert imprint(reasoner) == before and reasoner.batches["app"].number == 7
        with pytest.raises(tl.DataError, match=r"E839.*applied already"), reasoner.change(batch=("app", 7)):
            pass


def test_a_transaction_that_is_refused_leaves_the_batch_to_be_applied(tmp_path: Path) -> None:
    text = PROGRAM + "bottom() :- reach(?x, ?x) ."
    reasoner = tl.open(tmp_path / "store", text, threads=1)
    with pytest.raises(tl.Inconsistent), reasoner.change(batch=("app", 0)) as change:
        change.insert("edge", [("b", "a")])
    assert not reasoner.batches
    crash(reasoner)
    assert not tl.open(tmp_path / "store", read_only=True).batches


@pytest.mark.parametrize("half", [False, pytest.param(True, marks=pytest.mark.slow)])
def test_a_batch_is_there_with_its_changes_or_not_at_all(tmp_path: Path, half: bool) -> None:
    """The process dies anywhere: what is sent again until it is acknowledged is applied once."""
    path, fresh = tmp_path / "store", tmp_path / "fresh"
    with tl.open(fresh, PROGRAM, threads=1) as reasoner:
        apply(reasoner, 0)
    expected = tl.Reasoner(PROGRAM, threads=1)
    expected.materialise()
    for number in (0, 1):
        apply(expected, number)
    ways = set()
    shutil.copytree(fresh, path)

    def work() -> None:
        with tl.open(path, threads=1) as reasoner:
            apply(reasoner, 1)

    for _ in deaths(work, (1, half)):
        with tl.open(path, threads=1) as reasoner:
            is_applied = reasoner.has_applied(("app", 1))
            ways.add(is_applied)
            assert (("n1", "n2") in reasoner["edge"]) == is_applied
            apply(reasoner, 1)
            assert set(reasoner["reach"]) == set(expected["reach"])
            crash(reasoner)
        shutil.rmtree(path)
        shutil.copytree(fresh, path)
    assert ways == {False, True}


def test_repairing_keeps_the_batches_of_what_is_kept(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with tl.open(path, PROGRAM, threads=1) as reasoner:
        apply(reasoner, 5)
    reasoner = tl.open(path, threads=1)
    apply(reasoner, 6)
    apply(reasoner, 7)
    crash(reasoner)
    (journal,) = path.glob("journal-*.tide")
    journal.write_bytes(journal.read_bytes()[:-10])
    repair(path)
    assert tl.open(path, read_only=True).batches == {"app": ("app", 6, "")}
