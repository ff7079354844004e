"""A process ends at each of its file operations: all that was there is there, or all that is new."""

from __future__ import annotations

import os
import shutil
import traceback
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import tidelog as tl
from tests.cli.test_store import damage
from tests.store.imprint import Imprint, imprint
from tests.store.test_files import CHANGES, PROGRAM, written
from tests.store.test_laws import crash
from tests.store.test_reasoners import FORMATS
from tidelog import durable
from tidelog.io.write import write
from tidelog.reasoner.store_repair import Examination, export, repair
from tidelog.store.snapshot import Snapshot
from tidelog.store.store import StoreFolder

pytestmark = pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")

OPERATIONS = (
    "create",
    "write_all",
    "write_at",
    "truncate",
    "sync",
    "sync_folder",
    "replace",
    "remove",
    "make_folder",
)
DIED, DONE, FAILED = 42, 0, 1
How = tuple[int, bool]  # every how many operations, and whether in the middle of what is written


@contextmanager
def dying(at: int, half: bool) -> Iterator[None]:
    """The process ends at the operation of this number: before it, or in the middle of what it writes."""
    calls = 0

    def counted(whole: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **options: Any) -> Any:
            nonlocal calls
            calls += 1
            if calls == at:
                if half and whole.__name__.startswith("write_"):
                    descriptor, data, *place = arguments
                    whole(descriptor, data[: len(data) // 2], *place)
                os._exit(DIED)
            return whole(*arguments, **options)

        return call

    with pytest.MonkeyPatch.context() as patch:
        for name in OPERATIONS:
            patch.setattr(durable, name, counted(getattr(durable, name)))
        patch.setattr("tidelog.reasoner.store_repair.write", counted(write))  # the files of an export
        yield


def deaths(work: Callable[[], object], how: How) -> Iterator[int]:
    """Do the work in a child that dies at one operation after the other, until it has done it."""
    stride, half = how
    for at in range(stride, 1000, stride):
        process = os.fork()
        if process == 0:
            try:
                with dying(at, half):
                    work()
            except BaseException:  # noqa: BLE001 - whatever it is, the parent is told
                traceback.print_exc()
                os._exit(FAILED)
            os._exit(DONE)
        code = os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])
        assert code in (DIED, DONE)
        assert code == DIED or at > 5
        yield at
        if code == DONE:
            return


def opened(path: Path) -> Imprint:
    """All that a store holds, whoever opens it; it is whole, and nothing is left over when it was."""
    seen = imprint(tl.open(path, read_only=True, threads=1))
    assert Examination(path).is_whole
    with tl.open(path, threads=1) as reasoner:
        found = imprint(reasoner)
        assert found == seen
        assert reasoner._keeper is not None
        reasoner._keeper.write_if_due()
        reasoner.insert("edge", [("x", "y")])
    assert {each.name[:8] for each in path.iterdir()} <= {
        "lock",
        "superblo",
        "snapshot",
        "journal-",
        "damaged-",
    }
    assert Examination(path).is_whole
    return found


def facts(path: Path) -> dict[str, set[tuple[str, ...]]]:
    """The facts of a store, without what is counted of them."""
    return {name: set(rows) for name, rows in opened(path).items()}


all_or_some = pytest.mark.parametrize(
    "how",
    [
        pytest.param((4, True), id="some"),
        pytest.param((1, False), marks=pytest.mark.slow, id="before each"),
        pytest.param((1, True), marks=pytest.mark.slow, id="within each"),
    ],
)


@all_or_some
def test_creating(tmp_path: Path, how: How) -> None:
    path = tmp_path / "new" / "store"
    expected = opened(written(tmp_path / "whole", PROGRAM, ()))
    for _ in deaths(lambda: tl.open(path, PROGRAM, threads=1).close(), how):
        folder = StoreFolder(path)
        if folder.is_store:
            assert opened(path) == expected
        else:
            with pytest.raises(tl.DataError, match="no store"):
                tl.open(path)
            with tl.open(path, PROGRAM, threads=1) as reasoner:  # nothing stands in its way
                assert imprint(reasoner) == expected
            assert opened(path) == expected
        shutil.rmtree(path.parent)


@all_or_some
def test_changing_and_compacting(tmp_path: Path, how: How) -> None:
    origin = written(tmp_path / "origin", PROGRAM, CHANGES[:2])
    states = []
    for number in range(3):
        states.append(opened(written(tmp_path / f"whole{number}", PROGRAM, CHANGES[: number + 1])))
    path = tmp_path / "store"

    def work() -> None:
        with tl.open(path, threads=1) as reasoner:
            reasoner.compact()
            reasoner.apply(CHANGES[2])

    shutil.copytree(origin, path)
    reached = 0
    for _ in deaths(work, how):
        now = states.index(opened(path))
        assert now in (1, 2) and now >= reached  # what has come to the disk does not go again
        reached = now
        shutil.rmtree(path)
        shutil.copytree(origin, path)
    assert reached == 2


def written_to(path: Path) -> None:
    """Append a record to the journal of a store."""
    reasoner = tl.open(path, threads=1)
    reasoner.apply(CHANGES[2])
    crash(reasoner)


@all_or_some
@pytest.mark.parametrize("what", ["a column", "the journal", "the superblock"])
def test_repairing(tmp_path: Path, how: How, what: str) -> None:
    origin = written(tmp_path / "origin", PROGRAM, CHANGES[:2])
    tl.open(origin).close()
    written_to(origin)
    folder = StoreFolder(origin)
    if what == "a column":
        parts = Snapshot(folder.snapshot(2)).parts()
        part = next(each for each in parts if each.relation == "reach" and each.section.size)
        damage(folder.snapshot(2), part.section.offset)
    elif what == "the journal":
        damage(folder.journal(2), folder.find().records[0].end - 1)
    else:
        folder.superblock.write_bytes(b"")
    shutil.copytree(origin, tmp_path / "repaired")
    repair(tmp_path / "repaired")
    expected = facts(tmp_path / "repaired")
    originals = {each.name: each.read_bytes() for each in origin.iterdir() if each.suffix == ".tide"}
    path = tmp_path / "store"
    shutil.copytree(origin, path)
    is_repaired = False
    for _ in deaths(lambda: repair(path), how):
        if not Examination(path).is_whole:
            assert not is_repaired
            with pytest.raises(tl.DataError) as error:
                tl.open(path)
            assert "store" in str(error.value.diagnostics[0].help)
            repair(path)
        else:
            is_repaired = True
        assert facts(path) == expected
        kept: dict[str, list[bytes]] = {}
        for each in path.glob("damaged-*/*.tide"):
            kept.setdefault(each.name, []).append(each.read_bytes())
        assert all(data in kept[name] for name, data in originals.items())
        shutil.rmtree(path)
        shutil.copytree(origin, path)
    assert is_repaired


@all_or_some
@pytest.mark.parametrize("version", ["1", "2-equal", "2-timed"])
def test_upgrading(tmp_path: Path, how: How, version: str) -> None:
    origin, path = FORMATS / version, tmp_path / "store"
    expected = imprint(tl.open(origin, read_only=True, threads=1))

    def work() -> None:
        with tl.open(path, threads=1):
            pass

    shutil.copytree(origin, path)
    for _ in deaths(work, how):
        assert imprint(tl.open(path, read_only=True, threads=1)) == expected
        assert Examination(path).is_whole
        with tl.open(path, threads=1) as reasoner:
            assert imprint(reasoner) == expected
        found = StoreFolder(path).find()
        assert found.root is not None and found.snapshot.has_superblock
        assert imprint(tl.open(path, read_only=True, threads=1)) == expected
        shutil.rmtree(path)
        shutil.copytree(origin, path)


@all_or_some
def test_exporting(tmp_path: Path, how: How) -> None:
    path, target = written(tmp_path / "store", PROGRAM, CHANGES), tmp_path / "there" / "export"
    for _ in deaths(lambda: export(path, target), how):
        if not target.exists():
            export(path, target)
        again = tl.Reasoner(tl.load(target / "program.rls"), threads=1)
        assert len(again["edge"]) == 3 and len(again["reach"]) == 6
        assert [each.name for each in target.parent.iterdir()] == ["export"]
        shutil.rmtree(target.parent)
