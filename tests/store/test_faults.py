"""Writing fails, at every call: nothing acknowledged is lost, and nothing else appears."""

from __future__ import annotations

import errno
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest

import tidelog as tl
from tests.changes.oracle import held
from tests.store.test_files import CHANGES, PROGRAM, code_of
from tests.store.test_laws import crash
from tidelog import durable
from tidelog.errors import codes
from tidelog.reasoner.storing import StoredReasoner
from tidelog.store import store

CALLS = ("create", "write_all", "write_at", "sync", "sync_folder", "replace", "remove", "make_folder")


@contextmanager
def failing(name: str, at: int, half: bool = False) -> Iterator[list[int]]:
    """One call of a function of `durable` fails, the one with this number; how often it was called."""
    whole: Callable[..., Any] = getattr(durable, name)
    calls = [0]

    def call(*arguments: Any, **options: Any) -> Any:
        calls[0] += 1
        if calls[0] == at:
            if half:
                descriptor, data = arguments
                os.write(descriptor, data[: len(data) // 2])
            raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
        return whole(*arguments, **options)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(durable, name, call)
        yield calls


@pytest.mark.parametrize("name", CALLS)
def test_a_store_is_made_whole_or_not_at_all(name: str, tmp_path: Path) -> None:
    for at in range(1, 100):
        path = tmp_path / f"{name}{at}"
        with failing(name, at) as calls:
            try:
                tl.open(path, PROGRAM).close()
            except tl.DataError as error:
                assert error.diagnostics[0].code == codes.NOT_WRITTEN
                assert "no space left" in str(error)
        if calls[0] < at:
            return
        with tl.open(path, PROGRAM) as reasoner:  # nothing stands in the way of another attempt
            assert len(reasoner["edge"]) == 1


@pytest.mark.parametrize(("name", "half"), [("write_all", True), *((name, False) for name in CALLS)])
def test_a_change_is_there_or_not(name: str, half: bool, tmp_path: Path) -> None:
    for at in range(1, 100):
        path = tmp_path / f"{name}{at}"
        reasoner = tl.open(path, PROGRAM)
        with failing(name, at, half) as calls:
            expected = apply_all(reasoner)
            assert held(reasoner, ["edge", "reach"]) == expected
        crash(reasoner)
        with tl.open(path) as again:
            assert held(again, ["edge", "reach"]) == expected
        if calls[0] < at:
            return


def apply_all(reasoner: StoredReasoner) -> dict[str, frozenset[tuple[str, ...]]]:
    """Try all changes; what must hold afterwards."""
    names = ["edge", "reach"]
    expected = held(reasoner, names)
    for change in CHANGES:
        try:
            reasoner.apply(change, missing="ignore")
        except tl.DataError as error:
            assert error.diagnostics[0].code in (codes.NOT_WRITTEN, codes.CLOSED)
            assert held(reasoner, names) == expected
        else:
            expected = held(reasoner, names)
    return expected


def test_after_a_full_disk_the_store_goes_on(tmp_path: Path) -> None:
    reasoner = tl.open(tmp_path / "store", PROGRAM)
    with failing("write_all", 1, half=True), pytest.raises(tl.DataError):
        reasoner.apply(CHANGES[0])
    reasoner.apply("+ edge(c, d) .")
    crash(reasoner)
    with tl.open(tmp_path / "store") as again:
        assert sorted(again["edge"]) == [("a", "b"), ("c", "d")]


def test_after_a_fault_of_the_disk_the_store_takes_no_more(tmp_path: Path) -> None:
    reasoner = tl.open(tmp_path / "store", PROGRAM)
    with failing("sync", 1), pytest.raises(tl.DataError):
        reasoner.apply(CHANGES[0])
    with pytest.raises(tl.DataError) as error:
        reasoner.apply(CHANGES[0])
    assert code_of(error) == codes.CLOSED
    crash(reasoner)
    with tl.open(tmp_path / "store") as again:
        assert sorted(again["edge"]) == [("a", "b")]


@pytest.mark.parametrize("name", [name for name in CALLS if name != "make_folder"])
def test_a_snapshot_that_fails_does_no_harm(
    name: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(store, "SNAPSHOT_FROM", 1)  # after every change
    told: list[str] = []
    for at in range(1, 100):
        path = tmp_path / f"{name}{at}"
        listen = [lambda event: told.append(getattr(event, "text", ""))]
        reasoner = tl.open(path, PROGRAM, listeners=listen, threads=1)
        with failing(name, at) as calls:
            expected = apply_all(reasoner)
            reasoner.close()
        with tl.open(path, threads=1) as again:
            assert held(again, ["edge", "reach"]) == expected
        if calls[0] < at:
            break
    assert any("no snapshot could be written" in text for text in told)


def test_a_folder_that_may_not_be_written_to(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / "store"
    tl.open(path, PROGRAM).close()
    whole = os.open

    def refuse(name: Any, flags: int, *rest: Any) -> int:  # the tests may run as one who may do everything
        if flags & (os.O_RDWR | os.O_WRONLY | os.O_CREAT):
            raise PermissionError(errno.EACCES, os.strerror(errno.EACCES), str(name))
        return whole(name, flags, *rest)

    monkeypatch.setattr(os, "open", refuse)
    with pytest.raises(tl.DataError) as error:
        tl.open(path)
    assert code_of(error) == codes.NOT_WRITTEN
    assert "permission denied" in str(error.value)
    assert len(tl.open(path, read_only=True)["edge"]) == 1


def test_a_commit_that_cannot_be_confirmed_is_there_all_the_same(tmp_path: Path) -> None:
    told: list[str] = []
    listen = [lambda event: told.append(getattr(event, "text", ""))]
    reasoner = tl.open(tmp_path / "store", PROGRAM, listeners=listen)
    with failing("write_at", 1):
        reasoner.apply(CHANGES[0])
    assert any("could go unnoticed" in text for text in told)
    reasoner.apply(CHANGES[1])
    crash(reasoner)
    with tl.open(tmp_path / "store") as again:
        assert again.commits == 2
