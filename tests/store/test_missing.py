"""Files that are deleted, emptied, cut, or those of another store: whatever was acknowledged is missed."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

import tidelog as tl
from tests.store.test_files import CHANGES, PROGRAM, code_of, every_byte, put, written
from tests.store.test_laws import crash
from tidelog.errors import codes
from tidelog.reasoner.store_repair import Examination, repair
from tidelog.store import store
from tidelog.store.store import LOCK, StoreFolder

FILES = ("superblock.tide", "snapshot-00000001.tide", "journal-00000001.tide")
DONE = {0: 1, 1: 2, 2: 2, 3: 3}  # how many edges there are after so many changes


@pytest.fixture
def kept(tmp_path: Path) -> Path:
    """A store whose journal has three records."""
    return written(tmp_path / "store", PROGRAM, CHANGES)


def assert_damaged(path: Path) -> None:
    """Everybody says that the store is damaged."""
    for read_only in (True, False):
        with pytest.raises(tl.DataError) as error:
            tl.open(path, read_only=read_only)
        assert code_of(error) == codes.STORE_DAMAGED
    with pytest.raises(tl.DataError) as error:
        tl.open(path, PROGRAM)  # no new store takes its place
    assert code_of(error) == codes.STORE_DAMAGED
    assert not Examination(path).is_whole


def repaired(path: Path) -> int:
    """How many edges are there after a repair."""
    before = {each.name: each.read_bytes() for each in path.iterdir() if each.suffix == ".tide"}
    repair(path)
    aside = {each.name: each.read_bytes() for each in path.glob("damaged-*/*.tide")}
    assert aside == before
    assert Examination(path).is_whole
    with tl.open(path) as reasoner:
        assert len(reasoner["reach"]) >= len(reasoner["edge"])
        return len(reasoner["edge"])


@pytest.mark.parametrize("closed", [False, True])
@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_deleted_is_missed(kept: Path, name: str, closed: bool) -> None:
    if closed:
        tl.open(kept).close()
        name = name.replace("1.tide", "2.tide")
    (kept / name).unlink()
    assert_damaged(kept)
    if "snapshot" in name:
        with pytest.raises(tl.DataError, match="nothing can be recovered"):
            repair(kept)
    else:
        assert repaired(kept) == (DONE[0] if "journal" in name and not closed else DONE[3])


@pytest.mark.parametrize("name", FILES)
def test_a_file_that_is_emptied_is_missed(kept: Path, name: str) -> None:
    (kept / name).write_bytes(b"")
    assert_damaged(kept)
    if "snapshot" not in name:
        assert repaired(kept) == (DONE[0] if "journal" in name else DONE[3])


@every_byte
def test_a_journal_that_is_cut_anywhere_is_missed(kept: Path, stride: int, tmp_path: Path) -> None:
    path = StoreFolder(kept).journal(1)
    whole = path.read_bytes()
    ends = [record.end for record in StoreFolder(kept).find().records]
    for length in range(0, len(whole), stride):
        path.write_bytes(whole[:length])
        with pytest.raises(tl.DataError) as error:
            StoreFolder(kept).find()
        assert code_of(error) == codes.STORE_DAMAGED
        assert not Examination(kept).is_whole
        assert len(Examination(kept).records) == sum(end <= length for end in ends)
    path.write_bytes(whole[: ends[1] + 5])
    with pytest.raises(tl.DataError, match="record 3 was acknowledged"):
        tl.open(kept)
    assert repaired(kept) == DONE[2]


@every_byte
def test_a_superblock_that_is_cut_or_flipped_anywhere_is_missed_or_made_up_for(
    kept: Path, stride: int
) -> None:
    folder = StoreFolder(kept)
    whole = folder.superblock.read_bytes()
    used = len(whole) - store.BLOCK
    for length in range(0, len(whole), 64 * stride):
        folder.superblock.write_bytes(whole[:length])
        try:
            assert len(folder.find().records) == 3
        except tl.DataError as error:
            assert error.diagnostics[0].code == codes.STORE_DAMAGED
    for place in (*range(0, 80, stride), *range(store.BLOCK, store.BLOCK + used, stride)):
        folder.superblock.write_bytes(whole)
        put(folder.superblock, place, bytes([whole[place] ^ 0x10]))
        assert len(folder.find().records) == 3  # by the other copy


def test_the_end_of_a_journal_is_missed_after_a_process_was_killed_and_not_after_nobody_waited(
    tmp_path: Path,
) -> None:
    """What `fast` has not forced to the disk may be gone after a power cut: nobody was promised more."""
    for durability, is_missed in (("full", True), ("fast", False)):
        path = written(tmp_path / durability, PROGRAM, CHANGES, durability)
        journal = StoreFolder(path).journal(1)
        end = StoreFolder(path).find().records[-1].offset
        journal.write_bytes(journal.read_bytes()[:end])
        if is_missed:
            assert_damaged(path)
        else:
            assert tl.open(path, read_only=True).commits == 2


def test_what_fast_has_closed_is_missed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = written(tmp_path / "store", PROGRAM, CHANGES, "fast")
    monkeypatch.setattr(store.FactStore, "_is_worth_closing", lambda self: False)
    tl.open(path).close()
    journal = StoreFolder(path).journal(1)
    journal.write_bytes(journal.read_bytes()[: StoreFolder(path).find().records[-1].offset])
    assert_damaged(path)


def others(path: Path) -> Iterator[Callable[[], Path]]:
    """Other stores of the same program: one with as many changes, and one that was a copy and went on."""
    yield lambda: written(path / "other", PROGRAM, CHANGES)
    yield lambda: written(path / "shorter", PROGRAM, CHANGES[:2])
    yield lambda: written(path / "fast", PROGRAM, CHANGES, "fast")

    def diverged() -> Path:
        copy = shutil.copytree(path / "origin", path / "copy")
        reasoner = tl.open(copy)
        for name in ("p", "q", "r"):
            reasoner.insert("edge", [(name, name)])
        crash(reasoner)
        return copy

    yield diverged


@pytest.mark.parametrize("kind", ["snapshot", "journal"])
def test_a_file_of_another_store_is_found(tmp_path: Path, kind: str) -> None:
    origin = tmp_path / "origin"
    tl.open(origin, PROGRAM).close()
    for number, other in enumerate(others(tmp_path)):
        found = other()
        mine = shutil.copytree(origin, tmp_path / f"mine{number}")
        reasoner = tl.open(mine)
        for change in CHANGES:
            reasoner.apply(change)
        if kind == "snapshot":
            reasoner.compact()
            with tl.open(found) as theirs:
                theirs.compact()
        crash(reasoner)
        ours, its = (max(path.glob(f"{kind}-*.tide"), key=lambda each: each.name) for path in (mine, found))
        if kind == "journal" or ours.read_bytes() != its.read_bytes():  # the same history, the same snapshot
            ours.write_bytes(its.read_bytes())
            assert_damaged(mine)


def test_an_older_journal_of_the_same_store_is_found(kept: Path) -> None:
    folder = StoreFolder(kept)
    older = folder.journal(1).read_bytes()
    reasoner = tl.open(kept)
    reasoner.compact()
    reasoner.apply("+ edge(x, y) .")
    crash(reasoner)
    folder.journal(2).write_bytes(older)
    assert_damaged(kept)


def test_a_store_between_two_snapshots_misses_each_journal(
    kept: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A snapshot that could not be written leaves two journals that count."""
    reasoner = tl.open(kept)
    with monkeypatch.context() as patch:
        patch.setattr("tidelog.store.snapshot.write", failing)
        with pytest.raises(OSError, match="full"):
            reasoner.compact()
    reasoner.apply("+ edge(x, y) .")
    crash(reasoner)
    assert len(tl.open(kept, read_only=True)["edge"]) == DONE[3] + 1
    for number, left in ((1, DONE[0]), (2, DONE[3])):
        copy = shutil.copytree(kept, kept.with_name(f"copy{number}"))
        StoreFolder(copy).journal(number).unlink()
        assert_damaged(copy)
        assert repaired(copy) == left


def failing(*_: object) -> tuple[int, int]:
    raise OSError("full")


def test_only_the_lock_may_be_deleted(kept: Path) -> None:
    (kept / LOCK).unlink()
    with tl.open(kept) as reasoner:
        assert reasoner.commits == 3
