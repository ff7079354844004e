"""Building: the same file each time, with whatever C compiler there is; a wheel that needs none."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import zipfile
from pathlib import Path

import pytest

from tidelog.compiled import build
from tidelog.compiled.objects import HERE, NAME, fault_of, find_sources

ROOT = HERE.parents[2]
PYTHONS = ("3.11", "3.12", "3.13")


def test_without_a_compiler_it_is_said_what_to_install(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delenv("CC", raising=False)
    monkeypatch.setenv("PATH", "")
    monkeypatch.setattr("importlib.util.find_spec", lambda name: None)
    with pytest.raises(RuntimeError, match="install one, or `pip install ziglang`"):
        build.compiler()
    monkeypatch.setattr("importlib.util.find_spec", lambda name: name == "ziglang" or None)
    assert build.compiler() == [sys.executable, "-m", "ziglang", "cc"]
    monkeypatch.setenv("CC", "ccache gcc-13")
    assert build.compiler() == ["ccache", "gcc-13"]


def test_faults_of_the_compiler_are_shown(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    compiler = tmp_path / "cc"
    compiler.write_text("#!/bin/sh\necho no space left >&2\nexit 1\n")
    compiler.chmod(0o755)
    monkeypatch.setenv("CC", str(compiler))
    with pytest.raises(RuntimeError, match=r"could not be linked:\n.*caller.c.*\nno space left"):
        build._link(tmp_path / "kernels.o", tmp_path / NAME)


WRONG = """
from tidelog.compiled import kernel


@kernel("{}")
def same(number):
    return number
"""


@pytest.mark.parametrize(
    ("signature", "message"),
    [
        ("i64 -> bool", "wrong.same returns i64, and bool is declared"),
        ("i32 -> i64", "the signature of wrong.same has the type 'i32': there are i64, u64, bool"),
        ("u64[:] -> i64", "the signature of wrong.same has the type 'u64[:]': there are i64, i32, u8, bool"),
    ],
)
def test_a_wrong_signature_stops_the_build(signature: str, message: str, tmp_path: Path) -> None:
    (tmp_path / "wrong.py").write_text(WRONG.format(signature))
    done = subprocess.run(
        [sys.executable, "-m", "tidelog.compiled.lowering", str(tmp_path / "out.bc"), "wrong"],
        env={**os.environ, "TIDELOG_BUILD": "1", "PYTHONPATH": str(tmp_path)},
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 1
    assert message in done.stderr


@pytest.mark.slow
def test_ziglang_links_where_there_is_no_compiler(tmp_path: Path) -> None:
    packages = tmp_path / "packages"
    install = [
        sys.executable,
        "-m",
        "pip",
        "install",
        "--quiet",
        "--target",
        str(packages),
        "ziglang>=0.13,<0.16",
    ]
    subprocess.run(install, check=True)
    copied = shutil.copytree(
        HERE.parent, tmp_path / "site" / "tidelog", ignore=shutil.ignore_patterns("*.so")
    )
    environment = {
        "PATH": "",
        "HOME": str(tmp_path),
        "PYTHONPATH": os.pathsep.join([str(copied.parent), str(packages)]),
    }
    script = "import tidelog; print(len(tidelog.Reasoner('p(1) . q(?x) :- p(?x) .')['q']))"
    done = subprocess.run(
        [sys.executable, "-c", script], env=environment, capture_output=True, text=True, check=False
    )
    assert (done.returncode, done.stdout) == (0, "1\n"), done.stderr
    (made,) = (tmp_path / ".cache" / "tidelog").iterdir()
    assert made.name == f"kernels-{find_sources().digest}.abi3.so" and fault_of(made) is None


# ---- the wheel


@pytest.fixture(scope="module")
def wheel(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A wheel that was built from the source distribution, as `make dist` and `pip install` do it."""
    folder = tmp_path_factory.mktemp("dist")
    environment = {**os.environ, "SOURCE_DATE_EPOCH": "1700000000"}
    command = [sys.executable, "-m", "build", "--outdir", str(folder), str(ROOT)]
    subprocess.run(command, check=True, env=environment, capture_output=True)
    (made,) = folder.glob("*.whl")
    return made


@pytest.mark.slow
def test_a_wheel_has_what_it_needs_and_its_tag_is_true(wheel: Path) -> None:
    with zipfile.ZipFile(wheel) as archive:
        names = set(archive.namelist())
        object_file = archive.read(f"tidelog/compiled/{NAME}")
        (metadata,) = (archive.read(name).decode() for name in names if name.endswith("dist-info/METADATA"))
    assert object_file == (HERE / NAME).read_bytes()  # reproducible, also from another folder
    assert {"tidelog/py.typed", "tidelog/rules/owl2rl.rls"} <= names
    assert any(name.endswith("licenses/LICENSE") for name in names)
    assert "Requires-Dist: numpy" in metadata
    assert "Requires-Dist: numba<0.70,>=0.62\n" not in metadata
    shown = subprocess.run(
        [sys.executable, "-m", "auditwheel", "show", str(wheel)], capture_output=True, text=True, check=True
    )
    assert "manylinux" in shown.stdout.replace("\n", " ")
    assert "cp311-abi3-manylinux_2_17_x86_64" in wheel.name


@pytest.mark.slow
@pytest.mark.parametrize("version", PYTHONS)
def test_a_wheel_works_without_a_compiler(version: str, wheel: Path, tmp_path: Path) -> None:
    python = interpreter(version)
    if python is None:
        pytest.skip(f"there is no Python {version} on this machine")
    subprocess.run([python, "-m", "venv", str(tmp_path / "venv")], check=True)
    inside = tmp_path / "venv" / "bin"
    subprocess.run([str(inside / "python"), "-m", "pip", "install", "--quiet", str(wheel)], check=True)
    program = tmp_path / "p.rls"
    program.write_text(
        "e(1, 2) . e(2, 3) . p(?x, ?y) :- e(?x, ?y) . p(?x, ?z) :- p(?x, ?y), e(?y, ?z) .\n@output p .\n"
    )
    environment = {"PATH": str(inside), "HOME": str(tmp_path / "home")}
    done = subprocess.run(
        [str(inside / "tidelog"), "run", str(program), "--format", "csv"],
        env=environment,
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, done.stderr) == (0, ""), done.stderr
    assert sorted(done.stdout.split()) == ["1,2", "1,3", "2,3", "x,y"]
    assert not (tmp_path / "home").exists()
    listed = subprocess.run(
        [str(inside / "pip"), "list"], env=environment, capture_output=True, text=True, check=True
    )
    assert "numba" not in listed.stdout and "llvmlite" not in listed.stdout


def interpreter(version: str) -> str | None:
    """A Python of this version, with venv: on the path, or one of pyenv's."""
    candidates = [shutil.which(f"python{version}")]
    candidates += map(str, sorted(Path.home().glob(f".pyenv/versions/{version}.*/bin/python")))
    for candidate in filter(None, candidates):
        check = subprocess.run([candidate, "-c", "import ensurepip, venv"], capture_output=True, check=False)
        if check.returncode == 0:
            return candidate
    return None
