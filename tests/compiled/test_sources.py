"""The digest of kernels changes when a kernel does, and with nothing else."""

from __future__ import annotations

import shutil
from pathlib import Path

import pytest

from tidelog.compiled import objects

KERNELS = '''"""A module."""

from tidelog.compiled import inlined, kernel
from tidelog.layout import WIDTH

SIZE = 2 * WIDTH
OTHER = 7


@inlined
def doubled(number):
    """Twice the number."""
    return 2 * number


@kernel("i64 -> i64")
def grown(number):
    """Larger."""
    return doubled(number) + SIZE


def plain():
    return OTHER
'''
LAYOUT = "BASE = 4\nWIDTH = BASE + 1\nUNUSED = 3\n"


@pytest.fixture
def package(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    (tmp_path / "compiled").mkdir()
    for name in objects.BUILD:
        shutil.copy(objects.PACKAGE / name, tmp_path / name)
    (tmp_path / "some_kernels.py").write_text(KERNELS)
    (tmp_path / "layout.py").write_text(LAYOUT)
    monkeypatch.setattr(objects, "PACKAGE", tmp_path)
    return tmp_path


def test_kernels_and_what_they_read_are_found(package: Path) -> None:
    found = objects.find_sources()
    assert found.modules == ("tidelog.some_kernels",)
    assert found.files == tuple(sorted((*objects.BUILD, "layout.py", "some_kernels.py")))


@pytest.mark.parametrize(
    ("file", "old", "new", "is_another"),
    [
        ("some_kernels.py", "+ SIZE", "- SIZE", True),
        ("some_kernels.py", "return 2 *", "return 3 *", True),
        ("some_kernels.py", "i64 -> i64", "i32 -> i64", True),
        ("some_kernels.py", "SIZE = 2", "SIZE = 3", True),
        ("layout.py", "BASE = 4", "BASE = 5", True),
        ("compiled/caller.c", "int64_t frame", "int64_t  frame", True),
        ("compiled/build.py", '"-O2"', '"-O3"', True),
        ("some_kernels.py", "Twice the number", "The number, twice", False),
        ("some_kernels.py", "\n\n\ndef plain", "\n# a comment\ndef plain", False),
        ("some_kernels.py", "OTHER = 7", "OTHER = 8", False),
        ("some_kernels.py", "return OTHER", "return 1", False),
        ("layout.py", "UNUSED = 3", "UNUSED = 4", False),
        ("compiled/build.py", '"""', '"""Some more. ', False),
    ],
)
def test_what_changes_the_digest(package: Path, file: str, old: str, new: str, is_another: bool) -> None:
    before = objects.find_sources().digest
    text = (package / file).read_text()
    assert old in text
    (package / file).write_text(text.replace(old, new, 1))
    assert (objects.find_sources().digest != before) == is_another
