"""Common walks through the code pass through few files: what a program does not use is not entered."""

from __future__ import annotations

import importlib.util
from pathlib import Path
from types import ModuleType

import pytest

WALKS = Path(__file__).parents[2] / "docs" / "walks.py"
MOST_FILES = {"run": 70, "transaction": 25, "query": 45}


@pytest.fixture(scope="module")
def walks() -> ModuleType:
    """The walks of the documentation."""
    spec = importlib.util.spec_from_file_location("walks", WALKS)
    assert spec is not None and spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", MOST_FILES)
def test_a_common_walk_enters_few_files(name: str, walks: ModuleType, tmp_path: Path) -> None:
    files = list(getattr(walks, name)(tmp_path))
    shown = "\n".join(files)
    assert len(files) <= MOST_FILES[name], f"{name} enters {len(files)} files:\n{shown}"
