"""The lists of files on Spark in how-it-works.md are what the code does."""

from __future__ import annotations

import importlib.util
import sys
from pathlib import Path
from types import ModuleType

import pytest
from pyspark.sql import SparkSession

DOCS = Path(__file__).parents[2] / "docs"


def loaded(name: str) -> ModuleType:
    """A module of docs/, which is no package."""
    spec = importlib.util.spec_from_file_location(name, DOCS / f"{name}.py")
    assert spec is not None and spec.loader is not None
    sys.modules[name] = module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


@pytest.mark.parametrize("name", ["spark driver", "spark task"])
def test_walks_on_spark_are_those_of_the_page(name: str, spark: SparkSession) -> None:
    walks, renew = loaded("walks"), loaded("renew")
    page = (DOCS / "how-it-works.md").read_text(encoding="utf-8")
    parts = {part[2]: part[3] for part in renew.PART.finditer(page)}
    assert parts[f"walk {name}"] == renew.listed(walks.SPARK_WALKS[name](spark)), "run `make docs`"
