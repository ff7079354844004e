"""A store belongs to the process that opened it: real forks, which change and release nothing."""

from __future__ import annotations

import multiprocessing
import os
import signal
import subprocess
import sys
import threading
import traceback
from collections.abc import Callable
from pathlib import Path

import pytest

import tidelog as tl
from tests.store.imprint import imprint
from tests.store.test_files import CHANGES, PROGRAM, code_of
from tidelog.durable import FileLock, HeldError
from tidelog.errors import codes
from tidelog.reasoner.storing import StoredReasoner

# Tests have threads of their own; what they do is no concern of a child that only looks at files.
pytestmark = pytest.mark.filterwarnings("ignore:This process.*is multi-threaded:DeprecationWarning")


def forked(work: Callable[[], object]) -> int:
    """The exit code of a child that does something; 0 if that went well."""
    process = os.fork()
    if process == 0:
        try:
            work()
        except BaseException:  # noqa: BLE001 - whatever it is, the parent is told
            traceback.print_exc()
            os._exit(1)
        os._exit(0)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def refused(work: Callable[[], object]) -> None:
    """The work is refused, since the store belongs to another process."""
    with pytest.raises(tl.DataError) as error:
        work()
    assert code_of(error) == codes.FORKED
    assert f"process {os.getppid()}" in str(error.value)


def files(path: Path) -> dict[str, bytes]:
    return {each.name: each.read_bytes() for each in path.iterdir()}


def test_a_child_changes_nothing_and_its_end_releases_nothing(tmp_path: Path) -> None:
    path = tmp_path / "store"
    with tl.open(path, PROGRAM, threads=1) as reasoner:
        reasoner.apply(CHANGES[0])
        before = files(path)

        def child() -> None:
            refused(lambda: reasoner.apply(CHANGES[1]))
            refused(lambda: reasoner.insert("edge", [("p", "q")]))
            refused(lambda: reasoner.watch("reach(b, ?x)"))
            refused(reasoner.compact)
            assert len(reasoner["edge"]) == 2  # it can be asked
            with reasoner:
                pass
            reasoner.close()
            assert tl.open(path, read_only=True).commits == 1
            with pytest.raises(tl.DataError, match=f"process {os.getppid()}"):
                tl.open(path)

        assert forked(child) == 0
        assert files(path) == before
        with pytest.raises(tl.DataError) as error:
            tl.open(path)
        assert code_of(error) == codes.STORE_LOCKED
        for change in CHANGES[1:]:
            reasoner.apply(change)
        known = imprint(reasoner)
    with tl.open(path, threads=1) as reasoner:
        assert reasoner.commits == 3 and imprint(reasoner) == known


def test_the_lock_does_not_outlive_the_parent_in_a_child(tmp_path: Path) -> None:
    """The parent closes the store, and another time is killed, while a child lives."""
    path = tmp_path / "store"
    program = f"""
import os, sys, time
import tidelog as tl
reasoner = tl.open({str(path)!r}, tl.parse("edge(a, b) ."))
heard, told = os.pipe()
child = os.fork()
if child == 0:
    os.write(told, b".")
    os.close(1)
    time.sleep(600)
os.read(heard, 1)  # the child has begun: until then it holds all that the parent does
if sys.argv[1] == "close":
    reasoner.close()
print(child, flush=True)
time.sleep(600)
"""
    for how in ("close", "kill"):
        with subprocess.Popen(
            [sys.executable, "-W", "ignore", "-c", program, how], stdout=subprocess.PIPE, text=True
        ) as parent:
            assert parent.stdout is not None
            child = int(parent.stdout.readline())
            try:
                if how == "kill":
                    parent.kill()
                    parent.wait()
                os.kill(child, 0)  # it lives
                tl.open(path).close()
            finally:
                os.kill(child, signal.SIGKILL)
                parent.kill()


def test_a_child_may_open_the_store_when_the_parent_has_closed_it(tmp_path: Path) -> None:
    reasoner = tl.open(tmp_path / "store", PROGRAM, threads=1)
    reasoner.close()

    def child() -> None:
        with tl.open(tmp_path / "store", threads=1) as own:
            own.apply(CHANGES[0])

    assert forked(child) == 0
    assert tl.open(tmp_path / "store", read_only=True).commits == 1


def _commit(reasoner: StoredReasoner, change: str) -> str:
    try:
        reasoner.apply(change)
    except tl.DataError as error:
        return error.diagnostics[0].code
    return "committed"


HELD: list[StoredReasoner] = []  # what workers inherit


def _commit_held(change: str) -> str:
    return _commit(HELD[0], change)


def test_workers_of_multiprocessing_cannot_commit(tmp_path: Path) -> None:
    with tl.open(tmp_path / "store", PROGRAM, threads=1) as reasoner:
        HELD.append(reasoner)
        try:
            with multiprocessing.get_context("fork").Pool(2) as pool:
                assert set(pool.map(_commit_held, CHANGES)) == {codes.FORKED}
        finally:
            HELD.clear()
        assert [_commit(reasoner, change) for change in CHANGES] == ["committed"] * 3
    assert tl.open(tmp_path / "store", read_only=True).commits == 3


def test_a_child_that_is_forked_while_a_snapshot_is_written_does_no_harm(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    from tidelog.store import store

    monkeypatch.setattr(store, "SNAPSHOT_FROM", 1)
    monkeypatch.setattr(store, "SNAPSHOT_SHARE", 1 << 30)
    path = tmp_path / "store"
    with tl.open(path, PROGRAM, threads=1) as reasoner:
        for number in range(10):
            reasoner.insert("edge", [(str(number), str(number + 1))])
            assert forked(reasoner.close) == 0
            assert forked(lambda: refused(reasoner.compact)) == 0
        known = imprint(reasoner)
    with tl.open(path, threads=1) as again:
        assert imprint(again) == known


def test_a_child_that_is_forked_while_a_thread_works_can_end(tmp_path: Path) -> None:
    with tl.open(tmp_path / "store", PROGRAM, threads=1) as reasoner:
        inside, done = threading.Event(), threading.Event()

        def child() -> None:
            signal.alarm(20)  # rather than for ever
            reasoner.close()

        def work() -> None:
            with reasoner._lock:
                inside.set()
                done.wait()

        thread = threading.Thread(target=work)
        thread.start()
        inside.wait()
        try:
            assert forked(child) == 0
        finally:
            done.set()
            thread.join()


def test_a_lock_is_held_by_one_and_released_once(tmp_path: Path) -> None:
    lock = FileLock(tmp_path / "lock", "me")
    with pytest.raises(HeldError, match="me"):
        FileLock(tmp_path / "lock", "you")

    def child() -> None:
        assert not lock.is_held
        lock.release()
        with pytest.raises(HeldError):
            FileLock(tmp_path / "lock", "child")

    assert forked(child) == 0
    assert lock.is_held
    lock.release()
    lock.release()
    FileLock(tmp_path / "lock", "you").release()
