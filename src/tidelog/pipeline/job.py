"""Jobs: sources, a program, sinks, and a folder of published versions. Mutates that folder.

`job_run` has the steps of a run, `micro_batches` those of a stream.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tidelog.engine.events import Listener
from tidelog.errors import DataError, Diagnostic, codes
from tidelog.logic.program import Folders, Program, Sandbox
from tidelog.logic.resolve import load as load_program
from tidelog.logic.resolve import program_of as as_program
from tidelog.maintenance.maintainer import Update
from tidelog.pipeline.guards import Guards, GuardSeverity, resolve
from tidelog.pipeline.inputs import Stamp, are_unchanged, stamps_of
from tidelog.pipeline.job_file import load_settings
from tidelog.pipeline.job_run import Run, RunGuards, new_version, run_job
from tidelog.pipeline.job_settings import (
    DEFAULT_ENGINE,
    Engine,
    Settings,
    Sink,
    Source,
    Stream,
    check_pyspark,
    description_of,
    stages_of,
    start_session,
)
from tidelog.pipeline.publishing import ResidentReasoner, rebuild
from tidelog.pipeline.source_files import check_sources, with_times
from tidelog.pipeline.version_folder import (
    Manifest,
    MicroBatch,
    StateStore,
    check_columns,
    edited_inputs,
    has_changed,
    hash_of,
    published_program,
    store_of,
)
from tidelog.pipeline.versions import Version, check_sinks
from tidelog.publish import Publication
from tidelog.reasoner.delta import PredicateDelta
from tidelog.reasoner.storing import StoredReasoner
from tidelog.reasoner.transaction import Change
from tidelog.records import dataclass
from tidelog.rewrite.dropped_rows import check_rules, with_drops

if TYPE_CHECKING:
    from tidelog.pipeline.micro_batches import BatchPublisher, RunningStreams


@dataclass(frozen=True, slots=True)
class Step:
    """A step that a job has reached, its subject, and its time in seconds since the job began."""

    name: str
    detail: str
    seconds: float


@dataclass(frozen=True)
class _LoadedProgram:
    """A program, and stamps of its files to detect changes."""

    program: Program
    stamps: Mapping[str, Stamp]


class Job:
    """A pipeline: sources, a program, sinks, and a folder of published versions.

    In a `with` block the reasoner of the current version stays open from one run to the next.

    >>> import tempfile, tidelog as tl
    >>> program = tl.parse("reach(?x, ?y) :- edge(?x, ?y) . reach(?x, ?z) :- reach(?x, ?y), edge(?y, ?z) .")
    >>> folder = Path(tempfile.mkdtemp())
    >>> _ = (folder / "edge.csv").write_text("a,b\\nb,c\\n")
    >>> sources = [Source("edge", "edge.csv")]
    >>> job = Job(program, publish="published", sources=sources, engine="columnar", folder=folder)
    >>> job.run().version.tables["reach"].rows
    3
    """

    def __init__(
        self,
        program: str | Program,
        *,
        publish: str,
        sources: Iterable[Source] = (),
        sinks: Iterable[Sink] = (),
        engine: Engine | str = DEFAULT_ENGINE,
        stream: Stream | Iterable[Stream] | None = None,
        parameters: Mapping[str, str] | None = None,
        max_rejects: int | None = None,
        folder: Path | str = ".",
        format: str | None = None,
        allow_read: Folders = None,
        allow_write: Folders = None,
        session: Any = None,
        listeners: Iterable[Callable[[Step], None]] = (),
        guards: Guards | None = None,
        storage: Mapping[str, str] | None = None,
    ) -> None:
        chosen = Engine(engine) if isinstance(engine, str) else engine
        self._set(
            Settings(
                publish,
                program,
                parameters or {},
                tuple(sources),
                tuple(sinks),
                chosen,
                () if stream is None else (stream,) if isinstance(stream, Stream) else tuple(stream),
                max_rejects,
                Path(folder),
                Sandbox.of(allow_read, allow_write),
                format,
                guards or Guards(),
                storage=dict(storage or {}),
            ),
            session,
            listeners,
        )

    @classmethod
    def load(
        cls, path: Path | str, *, session: Any = None, listeners: Iterable[Callable[[Step], None]] = ()
    ) -> Job:
        """Load the job in a file."""
        return cls.of(load_settings(path), session=session, listeners=listeners)

    @classmethod
    def of(
        cls, settings: Settings, *, session: Any = None, listeners: Iterable[Callable[[Step], None]] = ()
    ) -> Job:
        """Return a job with these settings."""
        job = cls.__new__(cls)
        job._set(settings, session, listeners)
        return job

    def _set(self, settings: Settings, session: Any, listeners: Iterable[Callable[[Step], None]]) -> None:
        self.settings = settings
        self.store = store_of(settings)
        self.listeners = list(listeners)
        self.reasoning: list[Listener] = []  # listeners to the reasoner
        self.resident = ResidentReasoner(self.store, lambda: self.state, self.reached)
        self.run_guards: RunGuards | None = None  # of the last run
        self._session = session
        self._has_session = False  # whether it has been started and reported to listeners
        self._start = perf_counter()
        self._subscribers: list[tuple[str, Callable[[PredicateDelta], object]]] = []
        self._open_blocks = 0  # `with` blocks in which the reasoner stays open
        self._loaded: _LoadedProgram | None = None  # the program of the job's file

    # ---- runs, and other changes of the published tables

    def run(self, full: bool = False, refresh: Iterable[str] = ()) -> Run:
        """Publish a version for the current inputs; `full` derives everything again.

        `refresh` names predicates to derive again: the sources that they depend on are read even if they have
        not changed.
        """
        return run_job(self, full, refresh)

    def check(self) -> None:
        """Raise all errors of the job that can be found without running anything or starting Spark."""
        faults: list[Diagnostic] = []
        try:
            program = self.program()
        except DataError as error:  # of expectations: check the others, too
            faults += error.diagnostics
            program = self.program_as_written()
        for check in (
            lambda: check_sinks(self.settings, program),
            lambda: RunGuards(self.settings, program),
            lambda: check_sources(self.settings, program),
        ):
            try:
                check()
            except DataError as error:
                faults += error.diagnostics
        if faults:
            raise DataError(list(dict.fromkeys(faults)))
        if self.settings.needs_spark:
            check_pyspark(self.settings.engine)
        current = self.store.current()
        if current is not None:
            check_columns(current, program)

    def apply(self, script: str, *, missing: str = "error", name: str = "<changes>") -> Run:
        """Publish the version in which a change script has been applied, one transaction.

        Inputs are not read: a later run with changed inputs replaces the facts of their predicates.
        """
        start = self.start_clock()
        manifest = self.transact(lambda change: change.apply(script, name=name), "changes", missing=missing)
        return Run(manifest, True, perf_counter() - start)

    def transact(
        self,
        fill: Callable[[Change], None],
        reason: str,
        *,
        missing: str = "error",
        batch: Callable[[], MicroBatch] | None = None,
        summary: Callable[[Change], MicroBatch] | None = None,
        peek: Callable[[], Update | None] | None = None,
        advance: str | None = None,
    ) -> Manifest:
        """Publish the version in which a transaction has been applied.

        A stream passes its `batch` before the commit, and its `summary` afterwards. First, time may advance
        to the watermark of its last batch.
        """
        with new_version(self) as version:
            before = version.before
            if before is None:
                self.store.manifest()  # nothing has been published
                raise AssertionError
            reasoner = self.reasoner(before)
            if advance is not None:
                self.resident.advance(reasoner, before, advance)
            with reasoner.looking_ahead(peek):
                change = reasoner.change(missing=missing, batch=StateStore.batch(version.number))
                fill(change)
                check_rules(change.before, change.program)
                noted = before.batch if batch is None else batch()
                inputs = edited_inputs(before.inputs, change)
                origin = version.origin(reason, change.program, before.origin.job, inputs, noted)
                changes = version.commit(reasoner, change, origin)
            if summary is not None:
                origin = replace(origin, batch=summary(change))
            return version.publish(reasoner, change.program, changes, origin)

    @contextmanager
    def writing(self) -> Iterator[Publication]:
        """Yield a version to write, while no other process can publish."""
        with new_version(self) as version:
            yield version.publication

    def refresh_sinks(self) -> None:
        """Write the current version to the sinks, unless they have it."""
        with self.writing():
            pass

    # ---- the reasoner of the published version

    @property
    def state(self) -> StateStore:
        """The durable store of the reasoner, next to the published tables."""
        engine, streams = self.settings.engine, self.settings.streams
        settings = {
            "maintainer": engine.maintainer,
            "marking": streams[0].marking if streams else "none",
            "modules": engine.modules,
            "equality": engine.equality,
            "equal": engine.equal,
            "unique_names": engine.unique_names,
            "time": engine.time_settings,
            "threads": engine.threads,
            "timeout": engine.timeout,
            "max_facts": engine.max_facts,
            "listeners": self.reasoning,
        }
        return StateStore(self.store.path, settings, engine.max_memory)

    def reasoner(self, before: Manifest | None = None) -> StoredReasoner:
        """Return the reasoner of the current version; raise `DataError` if the job has changed since."""
        before = before or self.store.manifest()
        program = self.program()
        then = published_program(before.origin, program)
        if then is None or hash_of(program) != before.origin.job:
            raise has_changed("the program")
        if self.settings.engine.treatment_in(then) != before.origin.treatment:
            raise has_changed("the treatment of equality")
        reasoner = self.resident.open(before)
        if reasoner is None and rebuild(self.state, self.store, before, then):
            self.reached("state rebuilt", f"from the tables of version {before.version}")
            reasoner = self.resident.open(before)
        if reasoner is None:
            message = f"no state of version {before.version} in `{self.store.shown}`"
            raise DataError(Diagnostic(codes.JOB_DAMAGED, message, help="run the job first, with --full"))
        return reasoner

    @property
    def open_reasoner(self) -> StoredReasoner:
        """The reasoner of the transaction that is being filled."""
        assert self.resident.reasoner is not None, "a transaction has begun"
        return self.resident.reasoner

    @property
    def keeps_open(self) -> bool:
        """Whether the reasoner stays open after a run."""
        return self._open_blocks > 0

    def close(self) -> None:
        """Close the reasoner, so that others can change the state of the published version."""
        self.resident.close()

    def __enter__(self) -> Job:
        self._open_blocks += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._open_blocks -= 1
        if not self._open_blocks:
            self.close()

    # ---- the program

    def program(self) -> Program:
        """Return the current program, rewritten to drop the rows that violate expectations."""
        program, guards = self.program_as_written(), self.settings.guards
        dropping = tuple(item for item in guards.expectations if item.severity is GuardSeverity.DROP)
        if not dropping:
            return program
        drops = resolve(Guards(expectations=dropping), program).drops
        predicates = (program.find(source.predicate) for source in self.settings.sources)
        return with_drops(
            program, drops, {predicate.name for predicate in predicates if predicate is not None}
        )

    def program_as_written(self) -> Program:
        """Return the current program in the file."""
        program, sandbox = self.settings.program, self.settings.sandbox
        if not isinstance(program, str):
            return with_times(as_program(program, sandbox), self.settings)
        if self._loaded is None or not are_unchanged(self._loaded.program.files, self._loaded.stamps):
            path, parameters = self.settings.resolve(program), dict(self.settings.parameters)
            loaded = with_times(load_program(path, parameters, sandbox=sandbox), self.settings)
            self._loaded = _LoadedProgram(loaded, stamps_of(loaded.files, {}))
        return self._loaded.program

    # ---- listeners, subscribers, streams

    def start_clock(self) -> float:
        """Restart the clock of steps, and return its time."""
        self._start = perf_counter()
        return self._start

    def reached(self, name: str, detail: str = "") -> None:
        """Notify the listeners that a step has been reached."""
        step = Step(name, detail, perf_counter() - self._start)
        for listener in self.listeners:
            listener(step)

    def subscribe(self, predicate: str, callback: Callable[[PredicateDelta], object]) -> None:
        """Call a function with the changes of a predicate in each version that this job publishes."""
        self._subscribers.append((predicate, callback))

    def announce(self, manifest: Manifest) -> None:
        """Notify the subscribers of the changes of a version."""
        if not self._subscribers:
            return
        version = Version(self.store, manifest)
        for predicate, callback in self._subscribers:
            change = version.changes(predicate)
            if change:
                callback(change)

    def stream(
        self,
        frame: Any = None,
        *,
        predicate: str | None = None,
        checkpoint: str | None = None,
        told: Callable[[Manifest], None] | None = None,
        available_now: bool = False,
        **options: Any,
    ) -> RunningStreams:
        """Follow the job's streams, or a streaming DataFrame whose rows change a predicate's facts.

        Each micro-batch is one transaction and publishes one version, exactly once. `stop()` of the result
        ends it, and so does the end of a `with` block around it; `wait()` waits for its end. Further options
        of a DataFrame are those of `Stream`: `op`, `append`, `order`, `missing`, `time`, `value`,
        `event_time`, `delay` and `idle`.
        """
        from tidelog.pipeline.micro_batches import RunningStreams

        streams = self.settings.streams
        if frame is not None:
            streams = (Stream(None, "frame", predicate, checkpoint=checkpoint, **options),)
        return RunningStreams(self, frame, told=told, available_now=available_now, streams=streams)

    def batches(
        self, predicate: str, *, told: Callable[[Manifest], None] | None = None, **options: Any
    ) -> BatchPublisher:
        """Return a function for `foreachBatch` of a query of your own: `writeStream.foreachBatch(…)`.

        Each batch is one transaction and publishes one version; one that is repeated is skipped. The
        rows are records of a predicate, as for `stream`. The job must have been run. Over Spark Connect the
        function runs in a process of the server, on whose disks the published folder lies then.
        """
        from tidelog.pipeline.micro_batches import BatchPublisher, check_streams

        streams = (Stream(None, "frame", predicate, **options),)
        check_streams(self, streams)
        self.store.manifest()  # it has been run
        return BatchPublisher(self, streams, told)

    # ---- the session of Spark

    @property
    def session(self) -> Any:
        """The session of Spark, started on first use and reported to listeners."""
        if not self._has_session:
            self.reached("starting Spark")
            self._session = start_session(self.settings.engine, self._session)
            self._has_session = True
            self.reached("Spark", description_of(self._session))
        return self._session

    @property
    def stages(self) -> str:
        """The progress of the running stages of Spark; empty if there are none."""
        return stages_of(self._session) if self._has_session else ""
