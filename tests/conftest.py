"""What all tests share: compiled kernels, and how long hypothesis looks for counterexamples."""

from __future__ import annotations

import os
from typing import Any

import pytest
from hypothesis import HealthCheck, settings

# `--hypothesis-profile=slow`, or HYPOTHESIS_PROFILE=slow, looks twenty times as long: `make test-slow` does.
RELAXED = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
settings.register_profile("quick", max_examples=30, deadline=None, suppress_health_check=RELAXED)
settings.register_profile("default-of-tests", max_examples=50, deadline=None, suppress_health_check=RELAXED)
settings.register_profile("slow", max_examples=1000, deadline=None, suppress_health_check=RELAXED)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default-of-tests"))


@pytest.fixture(scope="session")
def kernels() -> None:
    """Kernels that are compiled before a test looks at the clock."""
    from tidelog.reasoner import prepare

    prepare()


# Tests that need Java: one worker runs them all, so that one Java serves them.
ON_SPARK = ("tests/spark/", *(f"tests/pipeline/test_{name}.py" for name in ("spark", "stream", "frames")))
MAY_NEED_SPARK = ("tests/benchmarks/test_spark.py::test_jobs", "tests/docs/test_examples.py::test_slow_page")


@pytest.hookimpl(optionalhook=True)
def pytest_xdist_make_scheduler(config: pytest.Config, log: Any) -> Any:
    """With `--dist loadgroup`, tests that need Java go to one worker.

    Groups of marks are lost with pytest 9.2: pytest-xdist 3.8 writes them where it no longer looks.
    """
    if config.getvalue("dist") != "loadgroup":
        return None
    from xdist.scheduler import LoadGroupScheduling  # type: ignore[import-untyped, unused-ignore]

    class OneJava(LoadGroupScheduling):  # type: ignore[misc, unused-ignore]
        def _split_scope(self, nodeid: str) -> str:
            is_there = nodeid.startswith((*ON_SPARK, *MAY_NEED_SPARK))
            return "spark" if is_there else str(super()._split_scope(nodeid))

    return OneJava(config, log)
