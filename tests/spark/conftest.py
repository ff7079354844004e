"""One Spark session for all tests of a process, bound to this machine."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from pyspark.sql import SparkSession

from tidelog.engine.spark.session import SessionSettings

FOLDER = Path(__file__).parent


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session as users get it, with less memory."""
    session = SessionSettings(master="local[2]", conf={"spark.driver.memory": "1g"}).start()
    yield session
    session.stop()


@pytest.hookimpl(tryfirst=True)  # before xdist looks at the groups
def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Let one worker run all tests of this folder, so that one Java serves them all."""
    for item in items:
        if item.path.is_relative_to(FOLDER):
            item.add_marker(pytest.mark.xdist_group("spark"))
