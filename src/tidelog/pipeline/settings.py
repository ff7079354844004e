"""What a job is: its program, sources, sinks, engine and stream, as a job file or Python describes them."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from tidelog.equality import registry as treatments
from tidelog.equality.answers import EXPAND
from tidelog.errors import DataError, Diagnostic, Span
from tidelog.logic.equality import has_equality
from tidelog.logic.intervals import read_interval
from tidelog.logic.program import Program
from tidelog.logic.sandbox import OPEN, Sandbox
from tidelog.pipeline import codes
from tidelog.pipeline.attempts import Retry
from tidelog.pipeline.guards import NO_LIMITS, Guards, Limits
from tidelog.pipeline.openlineage import Settings as OpenLineage
from tidelog.spark.source import ON_SPARK
from tidelog.spark.source import Source as Described
from tidelog.temporal.materialise import PROCEDURES
from tidelog.temporal.reasoning import TimeSettings

FACTS, CHANGES = "facts", "changes"
ENGINES = ("spark", "columnar")
DEFAULT_ENGINE = ENGINES[0]
STATE_HELP = 'name a folder on a disk of this machine: state = "state" in [engine]'


@dataclass(frozen=True)
class Source(Described):
    """A source of a job: with what is done about rows that cannot be read, and what a run has to satisfy."""

    on_error: str = "reject"
    limits: Limits = field(default=NO_LIMITS, repr=False)  # no part of how it is read


@dataclass(frozen=True)
class Sink:
    """Where the facts of a predicate go, or what changes in it."""

    predicate: str
    path: str | None = None
    format: str | None = None
    what: str = FACTS
    terms: str | None = None  # `plain`, `exact`, or as values are read again
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
        """What messages call it."""
        return self.path or self.table or self.url or ""


@dataclass(frozen=True)
class Engine:
    """What reads and reasons: Spark, or this process alone."""

    name: str = DEFAULT_ENGINE
    maintainer: str = "auto"
    modules: bool = True
    threads: int | None = None
    timeout: float | None = None
    max_facts: int | None = None
    max_memory: int | None = None  # bytes that a state may take in this process; else most of what is left
    partitions: int | None = None  # tasks that derive together; by default as many as the facts need
    master: str | None = None
    conf: Mapping[str, str] = field(default_factory=dict)
    equality: str = treatments.DEFAULT
    equal: str = EXPAND
    unique_names: bool = False
    temporal: str = PROCEDURES[0]
    horizon: str | None = None
    state: str | None = None  # the folder of what lies beside tables that are published elsewhere

    @property
    def time_settings(self) -> TimeSettings:
        """How what holds at times is derived."""
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
        """What tables depend on besides: how equality is treated and shown, and how far time is looked at."""
        if program.timed:
            horizon = self.time_settings.horizon
            return None if horizon is None else f"horizon {horizon}"
        if not has_equality(program.predicates):
            return None
        shown = f", {self.equal}" if self.equality == treatments.DEFAULT else ""
        return f"{self.equality}{shown}{', unique names' if self.unique_names else ''}"


@dataclass(frozen=True)
class Stream:
    """Records that come: files of a folder, messages, rows of a table, or a streaming DataFrame.

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
    value: str | None = None  # how messages are written: json or csv
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
        """What columns of the records tell of when a fact holds."""
        return (self.time,) if isinstance(self.time, str) else tuple(self.time)

    @property
    def shown(self) -> str:
        """What messages call it."""
        return self.path or self.table or f"<{self.format}>"


@dataclass(frozen=True)
class Settings:
    """A whole job. Relative paths lie in `folder`."""

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
    guards: Guards = field(default_factory=Guards)  # but for those of sources, which these have
    report: str | None = None  # the folder of reports
    openlineage: OpenLineage | None = None
    retry: Retry = field(default_factory=Retry)
    spans: Mapping[str, Span] = field(default_factory=dict, compare=False, repr=False)
    storage: Mapping[str, str] = field(default_factory=dict, repr=False)  # secrets are not shown

    def resolve(self, path: str) -> Path:
        """A path of the job, in the job's folder unless it is absolute."""
        return self.folder / path.removeprefix("file://")

    def address(self, path: str) -> str:
        """The address of something that may lie in an object store, else its path."""
        return path if is_remote(path) else str(self.resolve(path))

    @property
    def published(self) -> Path:
        """The folder of published versions, or of what lies beside them, if that are tables elsewhere."""
        if not is_remote(self.publish):
            return self.resolve(self.publish)
        if self.engine.state is None:
            message = f"`{self.publish}` has no place for the state of the job, which needs a disk"
            span = self.spans.get("publish")
            raise DataError(Diagnostic(codes.MISSING_KEY, message, span, STATE_HELP))
        return self.resolve(self.engine.state)

    @property
    def needs_spark(self) -> bool:
        """Whether something about the job needs Spark."""
        engine = self.engine
        kinds = {item.kind for item in self.sources} | {item.kind for item in self.sinks}
        return engine.name == "spark" or not kinds <= {"file", "versioned"}


def is_remote(path: str) -> bool:
    """Whether a path is an address elsewhere, such as `s3://bucket/folder`.

    >>> is_remote("s3://bucket/folder"), is_remote("data/a.csv"), is_remote("file:///data/a.csv")
    (True, False, False)
    """
    return "://" in path.removeprefix("file://")
