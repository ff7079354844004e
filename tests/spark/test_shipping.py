"""The package as one file, imported from wherever it is sent."""

from __future__ import annotations

import os
import subprocess
import sys
import zipfile
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

import tidelog
from tidelog.spark import shipping
from tidelog.spark.shipping import ship, write_archive

SCRIPT = """
import tidelog, tidelog.errors, tidelog.spark.shipping as shipping
print(tidelog.__file__)
print(shipping.is_sent(), len(tidelog.parse('@include "rdfs.rls" .').rules) > 5, tidelog.__version__)
"""


@pytest.fixture
def archive(tmp_path: Path) -> Path:
    return write_archive(tmp_path / "tidelog.zip")


def imported(archive: Path, home: Path, temporary: Path) -> list[str]:
    """What a process says that finds tidelog in the archive only, and may write in these folders."""
    libraries = os.pathsep.join(path for path in sys.path if path.endswith("site-packages"))
    done = subprocess.run(
        [sys.executable, "-S", "-c", SCRIPT],
        env={
            "PYTHONPATH": f"{archive}{os.pathsep}{libraries}",
            "XDG_CACHE_HOME": str(home),
            "TMPDIR": str(temporary),
        },
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return done.stdout.splitlines()


def test_it_is_imported_from_where_it_unpacked_itself(archive: Path, tmp_path: Path) -> None:
    place, told = imported(archive, tmp_path / "home", tmp_path)
    assert Path(place).parents[2] == tmp_path / "home" / "tidelog"
    assert told == f"True True {tidelog.__version__}"


def test_it_unpacks_itself_once(archive: Path, tmp_path: Path) -> None:
    first, _ = imported(archive, tmp_path / "home", tmp_path)
    written = Path(first).stat().st_mtime_ns
    assert imported(archive, tmp_path / "home", tmp_path)[0] == first
    assert Path(first).stat().st_mtime_ns == written
    assert [path.name for path in (tmp_path / "home" / "tidelog").iterdir()] == [Path(first).parents[1].name]


def test_it_unpacks_itself_elsewhere_if_there_is_no_home(archive: Path, tmp_path: Path) -> None:
    (tmp_path / "home").write_text("no folder")
    place, _ = imported(archive, tmp_path / "home", tmp_path)
    assert Path(place).parents[2] == tmp_path / f"tidelog-{os.getuid()}"


def test_the_same_files_make_the_same_archive(archive: Path, tmp_path: Path) -> None:
    assert write_archive(tmp_path / "again.zip").read_bytes() == archive.read_bytes()


def test_it_has_all_of_the_package(archive: Path) -> None:
    folder = Path(tidelog.__file__).parent
    expected = {f"package/tidelog/{path.relative_to(folder)}" for path in folder.rglob("*.py")}
    with zipfile.ZipFile(archive) as members:
        assert expected <= set(members.namelist())


def session(master: str, application: str, **conf: str) -> Any:
    """As much of a session as shipping needs; `sent` is what it was given."""
    sent: list[str] = []
    known = {"master": master, "applicationId": application, "pythonExec": sys.executable}
    context = SimpleNamespace(**known, addPyFile=sent.append)
    get = {f"spark.tidelog.{key}": value for key, value in conf.items()}.get
    return SimpleNamespace(sparkContext=context, conf=SimpleNamespace(get=get), sent=sent)


def test_executors_elsewhere_are_sent_it_once(tmp_path: Path) -> None:
    there = session("spark://127.0.0.1:7077", "once")
    ship(there, tmp_path)
    ship(there, tmp_path)
    (sent,) = there.sent
    assert Path(sent).parent == tmp_path and zipfile.is_zipfile(sent)


def test_executors_here_and_those_that_have_it_are_sent_nothing(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    installed = session("yarn", "installed", ship="false")
    local = session("local[2]", "local")
    submitted = session("yarn", "submitted")
    ship(installed, tmp_path)
    ship(local, tmp_path)
    monkeypatch.setattr(shipping, "_PACKAGE", Path("/home/user/.cache/tidelog/package-0123/tidelog"))
    ship(submitted, tmp_path)
    assert installed.sent == local.sent == submitted.sent == []


def test_sessions_of_connect_are_sent_it_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sent: list[str] = []

    class Client:
        __module__ = "pyspark.sql.connect.session"
        session_id = "a session"
        conf = SimpleNamespace(get=lambda key, otherwise: otherwise)

        def addArtifacts(self, path: str, *, pyfile: bool) -> None:  # noqa: N802 - as Spark calls it
            assert pyfile
            sent.append(path)

    there: Any = Client()
    monkeypatch.setenv("SPARK_LOCAL_REMOTE", "1")  # the server is one of this process
    ship(there, tmp_path)
    assert not sent
    monkeypatch.delenv("SPARK_LOCAL_REMOTE")
    ship(there, tmp_path)
    ship(there, tmp_path)
    assert len(sent) == 1 and zipfile.is_zipfile(sent[0])
