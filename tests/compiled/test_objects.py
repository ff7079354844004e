"""Which object of kernels is loaded: none that is damaged, or that others could have written."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.compiled import objects
from tidelog.compiled.objects import HERE, NAME, description, fault_of, find_sources, with_foot

GOOD = (HERE / NAME).read_bytes()
DERIVE = """
import tidelog
rules = "p(?x, ?y) :- e(?x, ?y) . p(?x, ?z) :- p(?x, ?y), e(?y, ?z) ."
print(len(tidelog.Reasoner("e(1, 2) . e(2, 3) . " + rules)["p"]))
"""
HIDE = "import sys; sys.modules['llvmlite'] = sys.modules['numba'] = None\n"


@pytest.fixture
def installed(tmp_path: Path) -> Path:
    """The package as in site-packages, where no source tree is around it."""
    ignored = shutil.ignore_patterns("__pycache__")
    return Path(shutil.copytree(HERE.parent, tmp_path / "site" / "tidelog", ignore=ignored))


def run(installed: Path, script: str = DERIVE) -> subprocess.CompletedProcess[str]:
    """A process with this package and a private folder beside it."""
    environment = {
        **os.environ,
        "PYTHONPATH": str(installed.parent),
        "XDG_CACHE_HOME": str(installed.parent.parent / "cache"),
        "PYTHONWARNINGS": "default",
    }
    environment.pop("TIDELOG_DEBUG", None)
    return subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
    )


def private_folder(installed: Path) -> Path:
    folder = installed.parent.parent / "cache" / "tidelog"
    folder.mkdir(parents=True, mode=0o700, exist_ok=True)
    return folder


def test_the_object_is_up_to_date() -> None:
    assert description(HERE / NAME)["digest"] == find_sources().digest
    assert fault_of(HERE / NAME) is None


def test_an_installed_package_needs_neither_numba_nor_a_compiler(installed: Path) -> None:
    done = run(installed, HIDE + "import os; os.environ['PATH'] = ''\n" + DERIVE)
    assert (done.returncode, done.stdout, done.stderr) == (0, "3\n", "")


@given(st.data())
def test_damage_is_noticed(data: st.DataObject) -> None:
    assert objects._foot(GOOD) is not None
    if data.draw(st.booleans()):
        damaged = GOOD[: data.draw(st.integers(0, len(GOOD) - 1))]
    else:
        place = data.draw(st.integers(0, len(GOOD) - 1))
        damaged = GOOD[:place] + bytes([GOOD[place] ^ data.draw(st.integers(1, 255))]) + GOOD[place + 1 :]
    try:
        found = objects._foot(damaged)
    except ValueError:
        pytest.fail("a damaged foot is no error")
    assert found is None


def test_what_is_said_of_an_object_comes_back() -> None:
    assert objects._foot(with_foot(b"code", {"digest": "1", "files": ["a"]})) == {
        "digest": "1",
        "files": ["a"],
    }


def test_an_object_that_all_can_write_is_a_fault(tmp_path: Path) -> None:
    path = tmp_path / NAME
    assert fault_of(path) == "it cannot be read (No such file or directory)"
    path.write_bytes(GOOD)
    path.chmod(0o755)
    assert fault_of(path) is None
    path.chmod(0o757)
    assert fault_of(path) == "everybody can write it"


def test_an_object_of_another_user_is_a_fault(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / NAME
    path.write_bytes(GOOD)
    path.chmod(0o755)
    owner = path.stat().st_uid
    if owner == 0:
        os.chown(path, 12345, -1)
        owner = 12345
    monkeypatch.setattr(os, "geteuid", lambda: owner + 1)
    assert fault_of(path) == "it belongs to another user"
    assert fault_of(path, owners=frozenset({owner})) is None  # who owns the package is trusted already


def test_a_damaged_object_is_not_loaded_but_the_private_one(installed: Path) -> None:
    (installed / "compiled" / NAME).write_bytes(GOOD[:-100])
    private = private_folder(installed) / f"kernels-{find_sources().digest}.abi3.so"
    private.write_bytes(GOOD)
    done = run(installed)
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr
    assert (
        f"RuntimeWarning: the kernels in {installed / 'compiled' / NAME} are not used: it is damaged"
        in done.stderr
    )


def test_a_missing_object_that_cannot_be_built_is_an_error(installed: Path) -> None:
    (installed / "compiled" / NAME).unlink()
    done = run(installed, HIDE + DERIVE)
    assert done.returncode == 1
    assert "error[E628]: no kernels can be loaded: they are not there, and llvmlite" in done.stderr
    assert "install tidelog again, or what builds them: `pip install 'tidelog[build]'`" in done.stderr


def test_a_private_folder_that_others_can_write_is_refused(installed: Path) -> None:
    (installed / "compiled" / NAME).unlink()
    private_folder(installed).chmod(0o777)
    done = run(installed)
    assert done.returncode == 1
    assert (
        f"error[E628]: no kernels can be loaded: others can write {private_folder(installed)}" in done.stderr
    )


@pytest.mark.slow
def test_a_damaged_object_is_built_again_in_a_private_folder(installed: Path) -> None:
    (installed / "compiled" / NAME).write_bytes(b"")
    done = run(installed)
    assert (done.returncode, done.stdout) == (0, "3\n"), done.stderr
    assert "it is damaged" in done.stderr and "built the kernels in" in done.stderr
    folder = installed.parent.parent / "cache" / "tidelog"
    assert folder.stat().st_mode & 0o777 == 0o700
    (made,) = folder.iterdir()
    assert made.read_bytes() == GOOD  # byte by byte, in another folder
    assert "built the kernels" not in run(installed).stderr


def test_kernels_that_change_are_noticed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path = tmp_path / NAME
    path.write_bytes(GOOD)
    newest = max((HERE.parent / name).stat().st_mtime_ns for name in description(path)["files"])
    os.utime(path, ns=(newest + 1, newest + 1))
    monkeypatch.setattr("tidelog.compiled.objects.find_sources", lambda: pytest.fail("no file is newer"))
    assert not objects.is_outdated(path)
    monkeypatch.undo()
    os.utime(path, ns=(newest, newest))
    assert not objects.is_outdated(path)  # a file is as new, but says the same
    assert path.stat().st_mtime_ns > newest
    path.write_bytes(with_foot(b"", {"digest": "another", "files": ["compiled/caller.c"]}))
    os.utime(path, ns=(0, 0))
    assert objects.is_outdated(path)
