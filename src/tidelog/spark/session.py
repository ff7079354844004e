"""Spark sessions: one that is given, one that runs already, or one started when needed.

A session that is started here is quiet, keeps its files in a folder that is gone at the end, and talks to
this machine only, unless its master is elsewhere. What the user sets wins, be it by `conf` or in
`spark-defaults.conf`. Mutable: the shared session, and the environment while Java starts.
"""

from __future__ import annotations

import os
import re
import sys
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidelog.errors import Diagnostic, TidelogError
from tidelog.spark.java import find_java
from tidelog.spark.scratch import scratch_folder
from tidelog.spark.shipping import ship

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

NO_PYSPARK: Final = "E624"
OTHER_SESSION: Final = "E626"
NOT_STARTED: Final = "E627"
_HERE: Final = re.compile(r"local\b|spark://(?:127\.[\d.]+|localhost|\[::1\])[:,]")
_GIGABYTE: Final = 1 << 30
# Failed tasks come back as exceptions, with their reasons: they need not be told twice. The level of the
# gateway's logger becomes that of all, with a notice if it is another one.
_LOGGING: Final = """\
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = spark: %m%n%throwable{short.message}
logger.tasks.name = org.apache.spark.scheduler.TaskSetManager
logger.tasks.level = off
logger.executor.name = org.apache.spark.executor.Executor
logger.executor.level = off
logger.streams.name = org.apache.spark.sql.execution.streaming
logger.streams.level = off
logger.gateway.name = org.apache.spark.api.python.PythonGatewayServer
logger.gateway.level = error
"""
_starting = threading.Lock()


@dataclass(frozen=True)
class SessionSettings:
    """Which session: a given one, or what a new one is to be like."""

    session: SparkSession | None = field(default=None, repr=False)
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)

    def start(self) -> SparkSession:
        """The session; started now if none runs in this process. Its executors can import tidelog."""
        global _shared
        with _starting:
            if self.session is None:
                # The active session of a thread that streams is a copy of its own: the first one is shared.
                _shared = session = _running(self) or _start(self)
            else:
                session = self.session
            ship(session, scratch_folder())
        return session


_shared: SparkSession | None = None  # the session that all get who bring none


def _still_shared() -> SparkSession | None:
    """The shared session, unless it has been stopped."""
    from pyspark import SparkContext

    is_alive = _shared is not None and _shared.sparkContext is SparkContext._active_spark_context
    return _shared if is_alive else None


def _running(settings: SessionSettings) -> SparkSession | None:
    """The session that runs in this process, if it can be as the settings want it; else an error."""
    sessions = load_pyspark()
    from pyspark import SparkContext

    if SparkContext._active_spark_context is None:
        return None
    session = _still_shared() or sessions.active()
    master = session.conf.get("spark.master", None)
    if settings.master not in (None, master):
        message = f"a Spark session on {master} runs already, so none can be had on {settings.master}"
        raise TidelogError(Diagnostic(OTHER_SESSION, message, help="stop it first: `session.stop()`"))
    for key, value in settings.conf.items():
        if session.conf.get(key, None) == value:
            continue
        if not session.conf.isModifiable(key):
            message = f"the Spark session that runs already cannot be given {key}={value}"
            raise TidelogError(Diagnostic(OTHER_SESSION, message, help="stop it first: `session.stop()`"))
        session.conf.set(key, value)
    return session


def _start(settings: SessionSettings) -> SparkSession:
    """A new session."""
    builder = load_pyspark().builder
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # by spark-submit: Java runs, and knows the master
    chosen = dict(settings.conf)
    if settings.master is not None:
        chosen["spark.master"] = settings.master
    if not submitted:
        chosen = _defaults(chosen) | chosen
    # Java's launcher complains about settings that are none of Spark's: a session takes them later.
    ours = {key: value for key, value in chosen.items() if not key.startswith("spark.")}
    for key, value in chosen.items():
        if key not in ours:
            builder = builder.config(key, value)
    is_here = not submitted and _HERE.match(chosen["spark.master"]) is not None
    try:
        with _environment(is_here, submitted):
            session = builder.getOrCreate()
        for key, value in ours.items():
            session.conf.set(key, value)
        return session
    except Exception as error:
        if type(error).__module__.partition(".")[0] not in ("pyspark", "py4j"):
            raise
        reason = str(error).strip().splitlines()[0]
        raise TidelogError(Diagnostic(NOT_STARTED, f"Spark does not start: {reason}")) from error


def _defaults(chosen: Mapping[str, str]) -> dict[str, str]:
    """The settings of a new session, but for those that the user has chosen."""
    known = _user_defaults()
    master = chosen.get("spark.master") or known.get("spark.master") or "local[*]"
    settings = {
        "spark.master": master,
        "spark.app.name": "tidelog",
        "spark.driver.memory": f"{_driver_memory()}m",
        "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile=file:{_logging_file()}",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.warehouse.dir": str(scratch_folder() / "warehouse"),
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.execution.arrow.pyspark.enabled": "true",
        # Spark adds up the size of a batch after each row unless the size is not limited: an eighth of the
        # time in which it reads rows and gives them to Python. So the number of rows is limited.
        "spark.sql.execution.arrow.maxRecordsPerBatch": "16384",
        "spark.sql.execution.arrow.maxBytesPerBatch": str((1 << 31) - 1),
    }
    if _HERE.match(master):
        settings |= {
            "spark.driver.host": "127.0.0.1",
            "spark.driver.bindAddress": "127.0.0.1",
            "spark.sql.shuffle.partitions": str(max(2, os.cpu_count() or 1)),
        }
    if master.startswith("local"):
        # Threads of one process lose no heartbeats; one that was suspended would be taken for dead, and end.
        settings |= {"spark.executor.heartbeatInterval": "12h", "spark.network.timeout": "24h"}
        settings |= {"spark.python.daemon.module": "tidelog.spark.daemon"}
    return {key: value for key, value in settings.items() if key == "spark.master" or key not in known}


def _user_defaults() -> dict[str, str]:
    """What `spark-defaults.conf` sets, in the folder where Spark looks for it."""
    home = os.environ.get("SPARK_HOME")
    folder = os.environ.get("SPARK_CONF_DIR") or (f"{home}/conf" if home else None)
    try:
        text = Path(folder or "", "spark-defaults.conf").read_text(encoding="utf-8")
    except OSError:
        return {}
    lines = (line.strip() for line in text.splitlines())
    pairs = (re.split(r"\s*[=\s]\s*", line, maxsplit=1) for line in lines if line and line[0] != "#")
    return {pair[0]: pair[-1] for pair in pairs}


def _driver_memory() -> int:
    """Megabytes for Java: a quarter of the memory, from 1 to 8 GB; the rest is for Python and the kernel."""
    memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with suppress(OSError, ValueError):  # no control group, or "max"
        memory = min(memory, int(Path("/sys/fs/cgroup/memory.max").read_text()))
    return int(min(max(memory / 4, _GIGABYTE), 8 * _GIGABYTE)) >> 20


def _logging_file() -> Path:
    path = scratch_folder() / "log4j2.properties"
    path.write_text(_LOGGING, encoding="utf-8")
    return path


@contextmanager
def _environment(is_here: bool, submitted: bool) -> Iterator[None]:
    """While the block starts Java, the environment says which Java and which Python."""
    wanted = {} if submitted else {"JAVA_HOME": str(find_java(scratch_folder()))}
    if is_here:
        wanted |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
        wanted |= {key: os.environ[key] for key in wanted if key in os.environ and key != "JAVA_HOME"}
    before = {key: os.environ.get(key) for key in wanted}
    os.environ.update(wanted)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                del os.environ[key]
            else:
                os.environ[key] = value


def load_pyspark() -> type[SparkSession]:
    """The class of sessions; raises `TidelogError` if pyspark is not installed."""
    # Arrow, not pandas, is at our border.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        message = "the Spark engine needs the package pyspark"
        help = "pip install 'tidelog[spark]'"
        raise TidelogError(Diagnostic(NO_PYSPARK, message, help=help)) from None
    return SparkSession
