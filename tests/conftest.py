"""What all tests share: compiled kernels, and how long hypothesis looks for counterexamples."""

from __future__ import annotations

import os

import pytest
from hypothesis import HealthCheck, settings

# `--hypothesis-profile=slow`, or HYPOTHESIS_PROFILE=slow, looks ten times as long: `make test-slow` does.
RELAXED = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
settings.register_profile("quick", max_examples=30, deadline=None, suppress_health_check=RELAXED)
settings.register_profile("default-of-tests", max_examples=100, deadline=None, suppress_health_check=RELAXED)
settings.register_profile("slow", max_examples=1000, deadline=None, suppress_health_check=RELAXED)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "default-of-tests"))


@pytest.fixture(scope="session")
def kernels() -> None:
    """Kernels that are compiled before a test looks at the clock."""
    from tidelog.reasoner import prepare

    prepare()
