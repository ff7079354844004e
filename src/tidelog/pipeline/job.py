"""Jobs: read, check, encode, reason, decode, publish. A job object keeps its reasoner warm. Mutates itself.

The first run derives everything. A later one finds out which inputs, and which rules, are others than in the
last published version, and maintains that version's facts instead of deriving them again.
"""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from typing import TYPE_CHECKING, Any

from tidelog.changes import Delta, PredicateDelta, counts
from tidelog.engine import registry as engines
from tidelog.engine.events import Listener
from tidelog.engine.registry import EngineSettings
from tidelog.engine.spark.settings import SparkSettings
from tidelog.errors import ProgramError, counted
from tidelog.logic.program import Program
from tidelog.logic.resolve import load as load_program
from tidelog.logic.resolve import program_of as as_program
from tidelog.logic.sandbox import Folders, Sandbox
from tidelog.maintenance.maintainer import Update
from tidelog.pipeline.continuing import (
    check_columns,
    has_changed,
    is_outdated,
    no_advance,
    reason_for_anew,
    reason_in,
)
from tidelog.pipeline.holding import Holding
from tidelog.pipeline.intake import Intake
from tidelog.pipeline.job_file import load_settings
from tidelog.pipeline.manifest import Batch, Manifest
from tidelog.pipeline.programs import hash_of
from tidelog.pipeline.publish import Origin, Publication, differences
from tidelog.pipeline.restore import program_of, restore
from tidelog.pipeline.settings import DEFAULT_ENGINE, Engine, Settings, Sink, Source, Stream
from tidelog.pipeline.sinks import Sinks, check_sinks
from tidelog.pipeline.source_files import with_times
from tidelog.pipeline.spark_session import check_pyspark, description_of, stages_of, start_session
from tidelog.pipeline.store import Store
from tidelog.pipeline.tables import Changes
from tidelog.pipeline.version import Version, delta_of
from tidelog.reasoner import Reasoner
from tidelog.transaction import Change

if TYPE_CHECKING:
    from tidelog.pipeline.stream import Following


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a job that has been reached, what it was about, and when, in seconds since the job began."""

    name: str
    detail: str
    seconds: float


@dataclass(frozen=True)
class Run:
    """What a run did: the version that is current now, and whether the run published it."""

    version: Manifest
    is_new: bool
    seconds: float
    delta: Delta | None = None  # of what was maintained

    def __str__(self) -> str:
        return f"version {self.version.version}"


class Job:
    """A pipeline: sources, a program, sinks, and a folder of published versions.

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
        stream: Stream | None = None,
        parameters: Mapping[str, str] | None = None,
        max_rejects: int | None = None,
        folder: Path | str = ".",
        allow_read: Folders = None,
        allow_write: Folders = None,
        session: Any = None,
        listeners: Iterable[Callable[[Step], None]] = (),
    ) -> None:
        made = Engine(engine) if isinstance(engine, str) else engine
        self._set(
            Settings(
                publish,
                program,
                parameters or {},
                tuple(sources),
                tuple(sinks),
                made,
                stream,
                max_rejects,
                Path(folder),
                Sandbox.of(allow_read, allow_write),
            ),
            session,
            listeners,
        )

    @classmethod
    def load(
        cls, path: Path | str, *, session: Any = None, listeners: Iterable[Callable[[Step], None]] = ()
    ) -> Job:
        """The job that a file describes."""
        return cls.of(load_settings(path), session=session, listeners=listeners)

    @classmethod
    def of(
        cls, settings: Settings, *, session: Any = None, listeners: Iterable[Callable[[Step], None]] = ()
    ) -> Job:
        """The job of settings."""
        job = cls.__new__(cls)
        job._set(settings, session, listeners)
        return job

    def _set(self, settings: Settings, session: Any, listeners: Iterable[Callable[[Step], None]]) -> None:
        self.settings = settings
        self.store = Store(settings.published)
        self.listeners = list(listeners)
        self.reasoning: list[Listener] = []  # who listens to the reasoner
        self._session = session
        self._has_session = False  # whether it has been started, and the listeners told of it
        self._start = perf_counter()
        self._subscribers: list[tuple[str, Callable[[PredicateDelta], object]]] = []
        self._warm: tuple[int, Reasoner] | None = None  # the reasoner of a published version

    # ---- runs

    def run(self, full: bool = False) -> Run:
        """Publish what follows from the inputs as they are now; `full` derives all of it again."""
        start = self._start = perf_counter()
        program = self.program()
        check_sinks(self.settings, program)
        with self.writing():
            before = self.store.current()
            if before is not None and not full:
                check_columns(before, program)
            intake = self._intake(program)
            then = None if full or before is None else program_of(before, program)
            if before is not None and then is not None:
                wanted = then if hash_of(program) == before.job else program
                then = None if self._must_begin_anew(before, then, wanted) else then
            if before is None or then is None:
                manifest = self._derive(program, intake, full)
                return Run(manifest, True, perf_counter() - start)
            try:
                found = self._maintain(before, then, program, intake)
            except ProgramError as error:
                self.reached("everything anew", reason_in(error))
                manifest = self._derive(program, self._intake(program), full)
                return Run(manifest, True, perf_counter() - start)
        if found is None:
            return Run(before, False, perf_counter() - start)
        return Run(found[0], True, perf_counter() - start, found[1])

    def apply(self, script: str, *, missing: str = "error", name: str = "<changes>") -> Run:
        """Publish the version in which a change script has been carried out, one transaction.

        Inputs are not looked at: a later run with changed inputs makes of their predicates what they say.
        """
        start = self._start = perf_counter()

        def fill(change: Change) -> None:
            change.apply(script, name=name)

        with self.writing():
            manifest, delta = self.transact(fill, "changes", missing=missing)
        return Run(manifest, True, perf_counter() - start, delta)

    def transact(
        self,
        fill: Callable[[Change], None],
        reason: str,
        *,
        missing: str = "error",
        batch: Callable[[Change], Batch] | None = None,
        peek: Callable[[], Update | None] | None = None,
    ) -> tuple[Manifest, Delta]:
        """Publish the version in which a transaction has been carried out. The folder must be locked."""
        before = self.store.manifest()
        reasoner = self.reasoner()
        number = self.store.begin()
        with self._in_step(), reasoner.looking_ahead(peek):
            change = reasoner.change(missing=missing)
            fill(change)
            changes, stated = self._carry_out(reasoner, change, before)
            told = before.batch if batch is None else batch(change)
            origin = Origin(reason, before.job, before.inputs, told)
            manifest = self._publish(number, reasoner, reasoner.program, changes, stated, origin)
        return manifest, delta_of(changes, before, manifest, reasoner.engine)

    @contextmanager
    def _in_step(self) -> Iterator[None]:
        """If the block fails, the reasoner may be ahead of what is published, and is let go."""
        try:
            yield
        except BaseException:
            self._warm = None
            raise

    def reasoner(self) -> Reasoner:
        """The reasoner that holds the current version, read from there unless it is at hand."""
        before = self.store.manifest()
        if self._warm is None or self._warm[0] != before.version:
            program = self.program()
            then = program_of(before, program)
            if then is None or hash_of(program) != before.job:
                raise has_changed("the program")
            if self.settings.engine.treatment_in(then) != before.treatment:
                raise has_changed("the treatment of equality")
            self._warm = before.version, self._restored(before, then)
        return self._warm[1]

    def program(self) -> Program:
        """The program, as its file is now."""
        program, sandbox = self.settings.program, self.settings.sandbox
        if isinstance(program, str):
            path, parameters = self.settings.resolve(program), dict(self.settings.parameters)
            program = load_program(path, parameters, sandbox=sandbox)
        return with_times(as_program(program, sandbox), self.settings)

    def refresh_sinks(self) -> None:
        """Let the sinks hold the current version, if they do not."""
        with self.writing():
            pass

    def reached(self, name: str, detail: str = "") -> None:
        """Tell the listeners that a step has been reached."""
        step = Step(name, detail, perf_counter() - self._start)
        for listener in self.listeners:
            listener(step)

    @contextmanager
    def writing(self) -> Iterator[None]:
        """Nobody else publishes in the block."""
        with self.store.writing(), self._in_step():
            self._finish_sinks()
            yield

    # ---- streams and subscribers

    def stream(
        self,
        frame: Any = None,
        *,
        predicate: str | None = None,
        op: str = "op",
        order: str | None = None,
        missing: str = "reject",
        checkpoint: str | None = None,
        time: str | tuple[str, ...] = (),
        told: Callable[[Manifest], None] | None = None,
        available_now: bool = False,
    ) -> Following:
        """Follow the job's stream, or a streaming DataFrame whose rows change a predicate's facts.

        Each micro-batch is one transaction and publishes one version, exactly once. `stop()` of the result
        ends it, and so does the end of a `with` block around it; `wait()` waits for its end.
        """
        from tidelog.pipeline.stream import Following

        given = None
        if frame is not None:
            given = Stream(None, "frame", predicate, op, order, missing, checkpoint=checkpoint, time=time)
        return Following(self, frame, told=told, available_now=available_now, stream=given)

    def subscribe(self, predicate: str, callback: Callable[[PredicateDelta], object]) -> None:
        """Let a function be called with what each version that this job publishes changes in a predicate."""
        self._subscribers.append((predicate, callback))

    def announce(self, manifest: Manifest) -> None:
        """Tell the subscribers what a version has changed."""
        if not self._subscribers:
            return
        version = Version(self.store, manifest)
        for predicate, callback in self._subscribers:
            change = version.changes(predicate)
            if change:
                callback(change)

    def _intake(self, program: Program) -> Intake:
        """What a run takes in; on Spark, if it reasons there."""
        kind: type[Intake] = Intake
        if self.settings.needs_spark:
            check_pyspark(self.settings.engine)
        if self.settings.engine.name == "spark" and self.settings.engine.reads_on_spark:
            from tidelog.pipeline.spark_intake import SparkIntake

            kind = SparkIntake
        return kind(self.settings, self.store, program, lambda: self.session, self.reached)

    # ---- from scratch

    def _derive(self, program: Program, intake: Intake, full: bool) -> Manifest:
        """Publish what follows from all inputs, derived from scratch."""
        before = self.store.current()
        number = self.store.begin()
        reasoner = self._new_reasoner(replace(program, facts=(), imports=()))
        intake.feed(reasoner, number, before, full)
        intake.check_rejects()
        reasoner.materialise()
        tally = reasoner.statistics
        self.reached("derived", f"{counted(tally.derived, 'fact')} from {tally.loaded:,}")
        changes, stated = differences(self.store, before, program, Holding(reasoner))
        origin = Origin("full", hash_of(program), intake.inputs, before.batch if before else None)
        return self._publish(number, reasoner, program, changes, stated, origin)

    # ---- what has changed

    def _maintain(
        self, before: Manifest, then: Program, program: Program, intake: Intake
    ) -> tuple[Manifest, Delta] | None:
        """Publish the difference that inputs and rules make; None if there is none."""
        edited = intake.edited(before)
        has_new_rules = hash_of(program) != before.job
        if not edited and not has_new_rules:
            return None
        if has_new_rules and self._warm is not None and is_outdated(self._warm[1].program, program):
            self._warm = None
        if self._warm is None or self._warm[0] != before.version:
            self._warm = before.version, self._restored(before, then)
        reasoner = self._warm[1]
        number = self.store.begin()
        change = reasoner.change()
        if has_new_rules:
            change.become(program)
            edited += [name for name in before.tables if name not in program.predicates]
        intake.replace(change, number, before, list(dict.fromkeys(edited)))
        intake.check_rejects()
        changes, stated = self._carry_out(reasoner, change, before)
        if not changes and not has_new_rules and not intake.differs(before.inputs):
            shutil.rmtree(self.store.folder(number))
            return None
        origin = Origin("incremental", hash_of(program), intake.inputs, before.batch)
        after = replace(program, facts=(), imports=()) if has_new_rules else reasoner.program
        manifest = self._publish(number, reasoner, after, changes, stated, origin)
        return manifest, delta_of(changes, before, manifest, reasoner.engine)

    def _carry_out(self, reasoner: Reasoner, change: Change, before: Manifest) -> tuple[Changes, Changes]:
        """What a transaction changes in all facts and in the explicit ones, now that it is carried out."""
        if change.times.advance is not None:
            raise no_advance()
        touched = Holding(reasoner).touched(change)
        change.commit()
        holding, version = Holding(reasoner), Version(self.store, before, reasoner.engine)
        changes = holding.changes(change, lambda name: version.rows(name) if name in before.tables else None)
        added = sum(changed.added.count for changed in changes.values())
        removed = sum(changed.removed.count for changed in changes.values())
        self.reached("maintained", counts(added, removed))
        return changes, holding.stated_changes(change, touched)

    def _must_begin_anew(self, before: Manifest, then: Program, program: Program) -> bool:
        """Whether the job treats equality or time in another way than a version, which is then told."""
        reason = reason_for_anew(before, then, program, self.settings.engine)
        if reason is not None:
            self.reached("everything anew", reason)
        return reason is not None

    def _publish(
        self,
        number: int,
        reasoner: Reasoner,
        program: Program,
        changes: Changes,
        stated: Changes,
        origin: Origin,
    ) -> Manifest:
        """Publish a version, write its sinks, and tell the subscribers."""
        publication = Publication(self.store, number, program, Holding(reasoner))
        told = replace(origin, treatment=self.settings.engine.treatment_in(program))
        manifest = publication.publish(changes, stated, told, self.reached)
        self._warm = number, reasoner
        self._write_sinks(manifest)
        self.announce(manifest)
        return manifest

    # ---- reasoners

    def _new_reasoner(self, program: Program) -> Reasoner:
        engine = self.settings.engine
        stream = self.settings.stream
        return Reasoner(
            program,
            engine=self._engine(),
            maintainer=engine.maintainer,
            marking=stream.marking if stream else "none",
            modules=engine.modules,
            equality=engine.equality,
            equal=engine.equal,
            unique_names=engine.unique_names,
            time=engine.time_settings,
            threads=engine.threads,
            timeout=engine.timeout,
            max_facts=engine.max_facts,
            listeners=self.reasoning,
        )

    def _engine(self) -> EngineSettings:
        """What the reasoner runs on."""
        engine = self.settings.engine
        if engine.name != "spark":
            return engines.settings_of(engine.name)
        return SparkSettings(self.session, engine.master).configured(engine.conf)

    def _restored(self, version: Manifest, program: Program) -> Reasoner:
        reasoner = self._new_reasoner(program)
        restore(reasoner, self.store, version)
        self.reached("restored", f"{counted(version.rows, 'fact')} of version {version.version}")
        return reasoner

    @property
    def session(self) -> Any:
        """The session of Spark, started when it is first needed; the listeners are told which one it is."""
        if not self._has_session:
            self.reached("starting Spark")
            self._session = start_session(self.settings.engine, self._session)
            self._has_session = True
            self.reached("Spark", description_of(self._session))
        return self._session

    @property
    def stages(self) -> str:
        """How far the stages are that Spark runs now; nothing if it runs none."""
        return stages_of(self._session) if self._has_session else ""

    # ---- sinks

    def _finish_sinks(self) -> None:
        """Write to the sinks what a run that was stopped has published but not written."""
        current = self.store.current()
        sinks = Sinks(self.settings, self.store)
        if current is not None and sinks.written < current.version:
            self._write_sinks(current)

    def _write_sinks(self, version: Manifest) -> None:
        sinks = Sinks(self.settings, self.store, lambda: self.session)
        is_warm = self._warm is not None and self._warm[0] == version.version
        sinks.write(version, Holding(self._warm[1]) if self._warm and is_warm else None)
        self.reached("sinks written", ", ".join(sink.shown for sink in self.settings.sinks))
