"""One Spark session for all tests of a process, bound to this machine."""

from __future__ import annotations

from collections.abc import Iterator

import pytest
from pyspark.sql import SparkSession

from tidelog.engine.spark.session import SessionSettings

# Java that compiles little: what tests compute is soon done, and compiling it took most of their time.
LITTLE = {
    "spark.driver.memory": "1g",
    "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
}


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """A session as users get it, with less memory."""
    session = SessionSettings(master="local[2]", conf=LITTLE).start()
    yield session
    session.stop()
