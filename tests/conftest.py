"""What all tests share: compiled kernels, one session of Spark, and how long hypothesis searches."""

from __future__ import annotations

import os
import signal
import socket
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import HealthCheck, settings

from tidelog.engine.columnar.interpreter import plan_runner
from tidelog.engine.columnar.storage import storage
from tidelog.engine.interrupts import INTERRUPTS

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

# `make test-slow` sets HYPOTHESIS_PROFILE=slow, which tries five times as many examples.
RELAXED = [HealthCheck.too_slow, HealthCheck.data_too_large, HealthCheck.filter_too_much]
settings.register_profile("quick", max_examples=30, deadline=None, suppress_health_check=RELAXED)
settings.register_profile("slow", max_examples=150, deadline=None, suppress_health_check=RELAXED)
settings.load_profile(os.environ.get("HYPOTHESIS_PROFILE", "quick"))


# A shell starts what runs in the background with Ctrl-C ignored, which every process of a test inherits.
if signal.getsignal(signal.SIGINT) is signal.SIG_IGN:
    signal.signal(signal.SIGINT, signal.default_int_handler)


# ---- Spark

NAME_OF_SESSION = "tests of tidelog"
# Java that compiles little: what tests compute is soon done, and compiling it took most of their time.
SESSION = {
    "spark.app.name": NAME_OF_SESSION,
    "spark.driver.memory": "2g",
    "spark.sql.ui.retainedExecutions": "1",  # else plans of all tests fill the memory
    "spark.ui.retainedJobs": "1",
    "spark.ui.retainedStages": "1",
    "spark.driver.defaultJavaOptions": "-XX:TieredStopAtLevel=1 -XX:+UseSerialGC",
    # The same Java serves Spark Connect.
    "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
    "spark.connect.grpc.binding.address": "127.0.0.1",
    "spark.sql.artifact.isolation.enabled": "true",
    "spark.sql.artifact.isolation.alwaysApplyClassloader": "true",
}
ON_CONNECT = "SPARK_CONNECT_MODE_ENABLED"  # by which pyspark tells a process that is a client of Connect


@pytest.fixture(scope="session")
def spark() -> Iterator[SparkSession]:
    """The one session of a worker, as users get it, with less memory."""
    from tidelog.spark.session import SessionSettings

    port = {"spark.connect.grpc.binding.port": str(_free_port())}
    session = SessionSettings(master="local[2]", conf=SESSION | port).start()
    yield session
    session.stop()


def _free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        port: int = one.getsockname()[1]
        return port


@pytest.fixture(scope="session")
def client(spark: SparkSession) -> Iterator[SparkSession]:
    """A client of the Connect server that runs in the Java of the session."""
    from pyspark.sql.connect.session import SparkSession as Client

    port = spark.conf.get("spark.connect.grpc.binding.port")
    with pytest.MonkeyPatch.context() as patched:
        patched.setenv(ON_CONNECT, "1")
        session = Client.builder.remote(f"sc://127.0.0.1:{port}").create()
    yield session  # type: ignore[misc]
    session.client.close()  # not `stop`, which ends the server where it is started by pyspark


@pytest.fixture
def connect(client: SparkSession, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    """The session of Spark Connect, in a process that takes itself for a client as long as the test runs."""
    monkeypatch.setenv(ON_CONNECT, "1")
    return client


@pytest.fixture(params=["spark", "connect"])
def session(request: pytest.FixtureRequest) -> SparkSession:
    """A classic session, then one of Spark Connect."""
    found: SparkSession = request.getfixturevalue(request.param)
    return found


@pytest.fixture(autouse=True)
def no_session_stays() -> Iterator[None]:
    """Fail a test that leaves a session of its own behind, and stop the session.

    A test that needs Spark in this process uses the fixture `spark`: what it asks for runs in that session.
    """
    yield
    if "pyspark" not in sys.modules:
        return
    from pyspark import SparkContext

    context = SparkContext._active_spark_context
    if context is not None and context.appName != NAME_OF_SESSION:
        context.stop()
        pytest.fail("the test left a session of Spark behind: let it use the fixture `spark`")


# One worker runs all tests that need Java, so that one Java serves them.
PIPELINES = ("default", "spark", "stream", "frames")
ON_SPARK = ("tests/spark/", *(f"tests/pipeline/test_{name}.py" for name in PIPELINES))
MAY_NEED_SPARK = (
    "tests/benchmarks/test_spark.py::test_jobs",
    "tests/docs/test_examples.py::test_slow_page",
    "tests/docs/test_examples.py::test_demo_on_spark",
    "tests/docs/test_examples.py::test_page[docs/pipeline.md",
)


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


@pytest.fixture(autouse=True)
def few_rows_are_appended(monkeypatch: pytest.MonkeyPatch) -> None:
    """Leave out sets of rows for few rows as for many, so that everything meets relations without one."""
    monkeypatch.setattr(plan_runner, "APPENDED_FROM", 1)
    monkeypatch.setattr(storage, "APPENDED_FROM", 1)


@pytest.fixture(autouse=True)
def ctrl_c_is_not_held_back() -> Iterator[None]:
    """Fail a test after which Ctrl-C is still held back: later ones would be interrupted at any point."""
    yield
    is_held = INTERRUPTS.is_holding
    INTERRUPTS.forget()
    assert not is_held, "this test leaves Ctrl-C held back"
