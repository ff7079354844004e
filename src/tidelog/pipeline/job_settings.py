"""The settings of a job; exit codes and retries of runs; the session of Spark."""

from __future__ import annotations

import errno
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import field, replace
from datetime import timedelta
from pathlib import Path
from typing import Any, Final, TypeVar

from tidelog import equality as treatments
from tidelog.equality.listing import EXPAND
from tidelog.errors import DataError, Diagnostic, Span, Stopped, TidelogError, codes, suggest
from tidelog.errors.codes import NO_JAVA, NO_PYSPARK, SESSION_NOT_STARTED
from tidelog.io.data_file import ON_SPARK
from tidelog.io.data_file import FactSource as Described
from tidelog.io.toml_tables import TomlTable
from tidelog.logic.equality_axioms import has_equality
from tidelog.logic.intervals import read_interval
from tidelog.logic.program import OPEN, Program, Sandbox
from tidelog.pipeline.guards import NO_LIMITS, GuardLimits, Guards, read_duration
from tidelog.records import dataclass
from tidelog.spark.session import SessionSettings, load_pyspark
from tidelog.spark.strategies import SETTINGS
from tidelog.temporal.interval_fixpoint import PROCEDURES
from tidelog.temporal.temporal import TimeSettings

# ---- How a run ends for a scheduler: exit codes, and which errors justify another attempt.

T = TypeVar("T")

DONE: Final = 0
ERROR: Final = 1
USAGE: Final = 2
NOT_PUBLISHED: Final = 3  # inconsistent facts, or a guard or expectation that does not hold
LIMIT: Final = 4
TEMPORARY: Final = 75  # EX_TEMPFAIL of sysexits.h
UNCHANGED: Final = 99  # only on request; Airflow takes it for "skipped"
INTERRUPTED: Final = 130

EXIT_CODES: Final = {
    DONE: "done: a version was published, or nothing has changed",
    ERROR: "the job, the program or the data has errors, or a file cannot be read or written",
    USAGE: "the command line is invalid",
    NOT_PUBLISHED: "nothing was published: inconsistent facts, or a guard or expectation that does not hold",
    LIMIT: "stopped by a limit: `timeout`, `max-facts`, memory",
    TEMPORARY: "a temporary failure, after all attempts: another process is publishing, Spark lost tasks, a "
    "connection failed",
    UNCHANGED: "nothing has changed, with `--exit-unchanged`; otherwise that is 0",
    INTERRUPTED: "stopped by Ctrl-C",
}

# Errors of the program and of the data keep their own codes on Spark, and are not among these.
TEMPORARY_CODES: Final = frozenset({codes.JOB_LOCKED, codes.FAILED, codes.LOST, codes.EXCHANGE_FAILED})
_TEMPORARY_NUMBERS: Final = frozenset(
    {
        errno.EAGAIN,
        errno.EBUSY,
        errno.ECONNABORTED,
        errno.ECONNREFUSED,
        errno.ECONNRESET,
        errno.EHOSTDOWN,
        errno.EHOSTUNREACH,
        errno.EIO,
        errno.ENETDOWN,
        errno.ENETUNREACH,
        errno.EPIPE,
        errno.ESTALE,
        errno.ETIMEDOUT,
    }
)


def is_temporary(error: BaseException) -> bool:
    """Return whether a retry of the same run may succeed.

    An error of tidelog that was raised because of a temporary one of the system is temporary, too.
    """
    if isinstance(error, Stopped):
        return False
    if isinstance(error, TidelogError):
        if error.diagnostics and all(fault.code in TEMPORARY_CODES for fault in error.diagnostics):
            return True
        return isinstance(error.__cause__, OSError) and is_temporary(error.__cause__)
    if isinstance(error, TimeoutError | ConnectionError):
        return True
    return isinstance(error, OSError) and error.errno in _TEMPORARY_NUMBERS


def exit_code(error: BaseException) -> int:
    """Return the exit code of a run that ended with an error."""
    if isinstance(error, KeyboardInterrupt):
        return INTERRUPTED
    if is_temporary(error):
        return TEMPORARY
    return error.exit_code if isinstance(error, TidelogError) else ERROR


@dataclass(frozen=True, slots=True)
class Retry:
    """The number of attempts, and the wait before each further one, which doubles each time."""

    attempts: int = 1
    wait: timedelta = timedelta(seconds=10)
    longest_wait: timedelta = timedelta(minutes=10)

    def delay(self, attempt: int) -> float | None:
        """Return the seconds to wait after a failed attempt, the first being 1; None if it was the last.

        >>> retry = Retry(4, timedelta(seconds=10), timedelta(seconds=30))
        >>> [retry.delay(attempt) for attempt in (1, 2, 3, 4)]
        [10.0, 20.0, 30.0, None]
        """
        if attempt >= self.attempts:
            return None
        longest = self.longest_wait.total_seconds()
        return min(self.wait.total_seconds() * 2.0 ** min(attempt - 1, 64), longest)


def read_retry(table: TomlTable | None) -> Retry:
    """Return the `[retry]` of a job file; errors are added to its document."""
    if table is None:
        return Retry()
    attempts = table.count("attempts", least=1)
    wait, longest = _wait(table, "wait"), _wait(table, "longest-wait")
    table.close()
    default = Retry()
    return Retry(attempts or 1, wait or default.wait, longest or default.longest_wait)


def _wait(table: TomlTable, key: str) -> timedelta | None:
    text = table.text(key)
    try:
        return None if text is None else read_duration(text)
    except ValueError:
        table.wrong(key, f"is not a duration: `{text}`", 'write "10 s" or "5 min"')
        return None


def attempt(
    run: Callable[[int], T],
    retry: Retry,
    notify: Callable[[int, float, Exception], None],
    sleep: Callable[[float], None] = time.sleep,
) -> T:
    """Run, and retry after temporary errors, as often as the policy allows; return the result.

    `run` gets the number of the attempt, the first being 1. Before it waits, it calls `notify` with the
    number of the attempt that failed, the seconds to wait, and the error. The last error is raised.
    """
    number = 1
    while True:
        try:
            return run(number)
        except Exception as error:
            delay = retry.delay(number) if is_temporary(error) else None
            if delay is None:
                raise
            notify(number, delay, error)
        sleep(delay)
        number += 1


# ---- The settings of a job, from a job file or Python.

FACTS, CHANGES = "facts", "changes"
ENGINES = ("spark", "columnar")
DEFAULT_ENGINE = ENGINES[0]
STATE_HELP = 'name a folder on a disk of this machine: state = "state" in [engine]'


@dataclass(frozen=True)
class Source(Described):
    """A source of a job, with the treatment of rows that cannot be read, and its guards."""

    on_error: str = "reject"
    limits: GuardLimits = field(default=NO_LIMITS, repr=False)  # not part of how it is read


@dataclass(frozen=True)
class Sink:
    """Where the facts of a predicate, or its changes, are written."""

    predicate: str
    path: str | None = None
    format: str | None = None
    what: str = FACTS
    terms: str | None = None  # `plain` or `exact`; None: so that values are read back
    header: bool = True
    table: str | None = None
    url: str | None = None
    driver: str | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def kind(self) -> str:
        """`file`, `jdbc` or `table`."""
        return self.format if self.format in ON_SPARK else "file"

    @property
    def shown(self) -> str:
        """Its name in messages."""
        return self.path or self.table or self.url or ""


@dataclass(frozen=True)
class Engine:
    """The engine that reads and reasons: Spark, or this process."""

    name: str = DEFAULT_ENGINE
    maintainer: str = "auto"
    modules: bool = True
    threads: int | None = None
    timeout: float | None = None
    max_facts: int | None = None
    max_memory: int | None = None  # bytes for the state in this process; None: most of the available memory
    partitions: int | None = None  # tasks that derive; None: as many as the facts need
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    equality: str = treatments.DEFAULT
    equal: str = EXPAND
    unique_names: bool = False
    temporal: str = PROCEDURES[0]
    horizon: str | None = None
    state: str | None = None  # the local folder of the state, if tables are published at an address

    @property
    def time_settings(self) -> TimeSettings:
        """How facts at times are derived."""
        horizon = self.horizon
        if horizon is not None and horizon[:1] not in ("[", "("):
            horizon = f"[{horizon}]"
        return TimeSettings(self.temporal, None, None if horizon is None else read_interval(horizon))

    @property
    def settings_of_tasks(self) -> dict[str, Any]:
        """The settings of reasoners in tasks of Spark."""
        return {
            "equality": self.equality,
            "equal": self.equal,
            "unique_names": self.unique_names,
            "time": self.time_settings,
            "modules": self.modules,
            "timeout": self.timeout,
            "max_facts": self.max_facts,
        }

    def treatment_in(self, program: Program) -> str | None:
        """Return further settings that tables depend on: the treatment of equality, the horizon of time."""
        if program.timed:
            horizon = self.time_settings.horizon
            return None if horizon is None else f"horizon {horizon}"
        if not has_equality(program.predicates):
            return None
        listing = f", {self.equal}" if self.equality == treatments.DEFAULT else ""
        return f"{self.equality}{listing}{', unique names' if self.unique_names else ''}"


@dataclass(frozen=True)
class Stream:
    """A stream of records: files of a folder, messages, rows of a table, or a streaming DataFrame.

    With `append` records have no operation: all are inserted. `delay` and `idle` are in seconds.
    """

    path: str | None = None
    format: str = "csv"
    predicate: str | None = None
    op: str = "op"
    order: str | None = None
    missing: str = "reject"
    files_per_batch: int | None = None
    trigger: float | None = None
    marking: str = "auto"
    checkpoint: str | None = None
    time: str | tuple[str, ...] = ()
    table: str | None = None
    value: str | None = None  # the format of messages: json or csv
    append: bool = False
    event_time: str | None = None
    delay: float = 0.0
    idle: float | None = None
    bytes_per_batch: int | None = None
    records_per_batch: int | None = None
    options: Mapping[str, str] = field(default_factory=dict)
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def times(self) -> tuple[str, ...]:
        """The columns of times of the records."""
        return (self.time,) if isinstance(self.time, str) else tuple(self.time)

    @property
    def shown(self) -> str:
        """Its name in messages."""
        return self.path or self.table or f"<{self.format}>"


@dataclass(frozen=True, slots=True)
class OpenLineageSettings:
    """Where OpenLineage events are sent."""

    namespace: str = "tidelog"
    file: str | None = None
    url: str | None = None
    endpoint: str = "api/v1/lineage"
    seconds: float = 5.0
    key_variable: str | None = None  # the environment variable that has the key of the server


@dataclass(frozen=True)
class Settings:
    """All settings of a job. Relative paths are below `folder`."""

    publish: str
    program: str | Program | None = None
    parameters: Mapping[str, str] = field(default_factory=dict)
    sources: tuple[Source, ...] = ()
    sinks: tuple[Sink, ...] = ()
    engine: Engine = field(default_factory=Engine)
    streams: tuple[Stream, ...] = ()
    max_rejects: int | None = None
    folder: Path = Path()
    sandbox: Sandbox = OPEN  # what the program may read and write
    format: str | None = None  # of published tables: delta, iceberg or parquet; by default that of the folder
    guards: Guards = field(default_factory=Guards)  # except those in sources
    report: str | None = None  # the folder of reports
    openlineage: OpenLineageSettings | None = None
    retry: Retry = field(default_factory=Retry)
    spans: Mapping[str, Span] = field(default_factory=dict, compare=False, repr=False)
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)  # secrets are not shown

    def resolve(self, path: str) -> Path:
        """Return a path of the job, in the job's folder unless it is absolute."""
        return self.folder / path.removeprefix("file://")

    def address(self, path: str) -> str:
        """Return a remote address unchanged, or else resolve a path."""
        return path if is_remote(path) else str(self.resolve(path))

    @property
    def published(self) -> Path:
        """The folder of published versions; that of the state, if the tables are published at an address."""
        if not is_remote(self.publish):
            return self.resolve(self.publish)
        if self.engine.state is None:
            message = f"`{self.publish}` cannot hold the state of the job, which needs a disk"
            span = self.spans.get("publish")
            raise DataError(Diagnostic(codes.MISSING_KEY, message, span, STATE_HELP))
        return self.resolve(self.engine.state)

    @property
    def needs_spark(self) -> bool:
        """Whether the engine, a source or a sink of the job needs Spark."""
        engine = self.engine
        kinds = {item.kind for item in self.sources} | {item.kind for item in self.sinks}
        return engine.name == "spark" or not kinds <= {"file", "versioned"}


def is_remote(path: str) -> bool:
    """Return whether a path is a remote address, such as `s3://bucket/folder`.

    >>> is_remote("s3://bucket/folder"), is_remote("data/a.csv"), is_remote("file:///data/a.csv")
    (True, False, False)
    """
    return "://" in path.removeprefix("file://")


# ---- The session of Spark of a job. pyspark is only imported when it is needed.

WITHOUT_SPARK = (
    'or run the job without Spark: name = "columnar" in the [engine] of its file, or --engine columnar'
)


def check_pyspark(engine: Engine) -> None:
    """Raise `TidelogError` if pyspark is not installed. Nothing is started."""
    with _suggesting_other_engine(engine):
        load_pyspark()


def start_session(engine: Engine, session: Any = None) -> Any:
    """Return the given session, the active one, or a new one.

    Raises `TidelogError` if there is no pyspark, no Java, or no session that fits the job: there is no
    fallback to the other engine.
    """
    for key in engine.conf:
        if key.startswith("tidelog.") and key not in SETTINGS:
            message = f"unknown setting `{key}` of a program on Spark"
            help = suggest(key, SETTINGS) or f"choose one of {', '.join(SETTINGS)}"
            raise DataError(Diagnostic(codes.BAD_VALUE, message, help=help))
    with _suggesting_other_engine(engine):
        load_pyspark()
        started = SessionSettings(session, engine.master, engine.conf).start()
    for key, value in engine.conf.items():
        if key.startswith("tidelog."):  # also set them on a session that is running already
            started.conf.set(key, value)
    return started


@contextmanager
def _suggesting_other_engine(engine: Engine) -> Iterator[None]:
    """In the block, add the engine without Spark to the help of errors that Spark does not start."""
    try:
        yield
    except TidelogError as error:
        if engine.name != "spark":
            raise
        raise type(error)(map(_with_other_engine, error.diagnostics)) from error


def _with_other_engine(fault: Diagnostic) -> Diagnostic:
    if fault.code not in (NO_PYSPARK, NO_JAVA, SESSION_NOT_STARTED):
        return fault
    return replace(fault, help=f"{fault.help}; {WITHOUT_SPARK}" if fault.help else WITHOUT_SPARK)


def stages_of(session: Any) -> str:
    """Return the progress of the running stages; empty without any, and over Spark Connect."""
    if is_on_connect(session):
        return ""
    from py4j.protocol import Py4JError

    with suppress(Py4JError, OSError):  # Java may have ended
        tracker = session.sparkContext.statusTracker()
        stages = [stage for stage in map(tracker.getStageInfo, tracker.getActiveStageIds()) if stage]
        return ", ".join(
            f"stage {stage.stageId}: {stage.numCompletedTasks} of {stage.numTasks} tasks" for stage in stages
        )
    return ""


def description_of(session: Any) -> str:
    """Return the version of Spark, its master, and the address of its UI if it has one."""
    if is_on_connect(session):
        return f"{session.version} by Spark Connect"
    context = session.sparkContext
    ui = f", UI at {context.uiWebUrl}" if context.uiWebUrl else ""
    return f"{session.version} on {context.master}{ui}"


def is_on_connect(session: Any) -> bool:
    """Return whether a session belongs to Spark Connect, and so has no context."""
    return type(session).__module__.startswith("pyspark.sql.connect")
