"""Jobs: read, check, derive, publish. Mutates the published folder.

The first run derives everything. A later one finds out which inputs, and which rules, are others than in the
last published version, and applies that to the state of this version instead of deriving everything again.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, replace
from pathlib import Path
from time import perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any

from tidelog.engine.events import Listener
from tidelog.errors import DataError, Diagnostic, ProgramError, codes, counted
from tidelog.logic.equality_axioms import has_equality
from tidelog.logic.intervals import point_at
from tidelog.logic.program import Folders, Program, Sandbox
from tidelog.logic.resolve import load as load_program
from tidelog.logic.resolve import program_of as as_program
from tidelog.maintenance.maintainer import Update
from tidelog.pipeline.contents import IntervalStarts, PublishedContents, TableChanges
from tidelog.pipeline.expectations import (
    ReasonerRows,
    RunGuards,
    TableRows,
    aside_of,
    check_rules,
    described,
    hash_of,
    public_name,
    published_as,
    published_program,
    tables_of,
    with_drops,
)
from tidelog.pipeline.guards import GuardFailed, GuardFinding, Guards, GuardSeverity, resolve
from tidelog.pipeline.inputs import InputReader, Stamp, are_unchanged, stamps_of
from tidelog.pipeline.job_file import load_settings
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
from tidelog.pipeline.publishing import (
    begun_in,
    check_values,
    depended_on,
    differing,
    publish_facts,
    rebuild,
    restore_types,
)
from tidelog.pipeline.source_files import check_sources, find_named, with_times
from tidelog.pipeline.version_folder import (
    InputRecord,
    Manifest,
    MicroBatch,
    StateStore,
    VersionOrigin,
    check_columns,
    edited_inputs,
    has_changed,
    no_advance,
    reason_for_anew,
    reason_in,
    reason_not_to_open,
    store_of,
)
from tidelog.pipeline.versions import Sinks, Version, check_sinks
from tidelog.publish import Publication
from tidelog.reasoner.delta import Delta, PredicateDelta, counts
from tidelog.reasoner.storing import StoredReasoner
from tidelog.reasoner.transaction import Change

if TYPE_CHECKING:
    from tidelog.pipeline.micro_batches import BatchPublisher, RunningStreams
    from tidelog.pipeline.spark_run import SparkInputReader


@dataclass(frozen=True, slots=True)
class Step:
    """A step of a job that has been reached, what it was about, and when, in seconds since the job began."""

    name: str
    detail: str
    seconds: float


@dataclass(frozen=True)
class Run:
    """What a run did: the version that is current now, and whether the run published it.

    `findings` are guards and expectations that do not hold and that only warn.
    """

    version: Manifest
    is_new: bool
    seconds: float
    findings: tuple[GuardFinding, ...] = ()

    def __str__(self) -> str:
        return f"version {self.version.version}"


@dataclass(frozen=True)
class _Read:
    """A program, and what tells whether the files that it was read from have changed since."""

    program: Program
    stamps: Mapping[str, Stamp]


class Job:
    """A pipeline: sources, a program, sinks, and a folder of published versions.

    In a `with` block the reasoner of the current version stays at hand from one run to the next.

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
        made = Engine(engine) if isinstance(engine, str) else engine
        self._set(
            Settings(
                publish,
                program,
                parameters or {},
                tuple(sources),
                tuple(sinks),
                made,
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
        """Return the job that a file describes."""
        return cls.of(load_settings(path), session=session, listeners=listeners)

    @classmethod
    def of(
        cls, settings: Settings, *, session: Any = None, listeners: Iterable[Callable[[Step], None]] = ()
    ) -> Job:
        """Return the job of settings."""
        job = cls.__new__(cls)
        job._set(settings, session, listeners)
        return job

    def _set(self, settings: Settings, session: Any, listeners: Iterable[Callable[[Step], None]]) -> None:
        self.settings = settings
        self.store = store_of(settings)
        self.listeners = list(listeners)
        self.reasoning: list[Listener] = []  # who listens to the reasoner
        self._session = session
        self._has_session = False  # whether it has been started, and the listeners told of it
        self._start = perf_counter()
        self._subscribers: list[tuple[str, Callable[[PredicateDelta], object]]] = []
        self._keeps_open = 0  # blocks in which the reasoner stays at hand
        self._open: StoredReasoner | None = None
        self.guarding: RunGuards | None = None  # of the last run
        self._begun: tuple[StoredReasoner, IntervalStarts] | None = None
        self._read: _Read | None = None  # the program of the job's file

    # ---- runs

    def run(self, full: bool = False, refresh: Iterable[str] = ()) -> Run:
        """Publish what follows from the inputs as they are now; `full` derives all of it again.

        `refresh` names predicates that are derived again: the sources of all that they depend on are read,
        whether they have changed or not.
        """
        start = self._start = perf_counter()
        program = self.program()
        check_sinks(self.settings, program)
        again = _refreshed(refresh, program)
        if again and full:
            raise ValueError("`full` derives everything again: leave `refresh` out")
        guarding = self.guarding = RunGuards(self.settings, program)
        if self.settings.needs_spark:
            check_pyspark(self.settings.engine)
        with self.writing(full) as publication:
            before = self._before(publication)
            if before is not None and not full:
                check_columns(before, program)
                intake = self._intake(program, publication.number)
                if not self._is_edited(before, program, intake) and not again:
                    guarding.check(intake, before, self._published_rows(before))
                    return Run(before, False, perf_counter() - start, guarding.findings)
                reasoner = self._continued(before, program, again)
                if reasoner is not None:
                    found = self._apply_changes(
                        publication, reasoner, before, program, intake, guarding, again
                    )
                    if found is not None:
                        is_new = found.version != before.version
                        return Run(found, is_new, perf_counter() - start, guarding.findings)
            manifest = self._derive(
                publication, before, program, self._intake(program, publication.number), guarding, full
            )
        return Run(manifest, True, perf_counter() - start, guarding.findings)

    def check(self) -> None:
        """Raise all that is found wrong with the job without running anything or starting Spark."""
        faults: list[Diagnostic] = []
        try:
            program = self.program()
        except DataError as error:  # of expectations: the others are looked at all the same
            faults += error.diagnostics
            program = self.stated_program()
        for look in (
            lambda: check_sinks(self.settings, program),
            lambda: RunGuards(self.settings, program),
            lambda: check_sources(self.settings, program),
        ):
            try:
                look()
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

        Inputs are not looked at: a later run with changed inputs makes of their predicates what they say.
        """
        start = self._start = perf_counter()
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

        A stream says which `batch` it is before that, and has its `summary` afterwards. First of all, time
        may advance to what its last batch has made final.
        """
        with self.writing() as publication:
            before = self._before(publication)
            if before is None:
                self.store.manifest()  # nothing has been published
                raise AssertionError
            reasoner = self.reasoner(before)
            if advance is not None:
                self._advance(reasoner, before, advance)
            with reasoner.looking_ahead(peek):
                change = reasoner.change(missing=missing, batch=StateStore.batch(publication.number))
                fill(change)
                check_rules(change.before, change.program)
                told = before.batch if batch is None else batch()
                inputs = edited_inputs(before.inputs, change)
                origin = self._origin(reason, change.program, before.origin.job, inputs, told)
                changes = self._commit(reasoner, change, publication.number, origin)
            if summary is not None:
                origin = replace(origin, batch=summary(change))
            return self._publish(publication, before, reasoner, change.program, changes, origin)

    def _advance(self, reasoner: StoredReasoner, before: Manifest, to: str) -> None:
        """Advance time by a transaction that changes no fact: the state is still that of the version.

        Rows that are dropped from memory stay in tables.
        """
        point, past = point_at(to), reasoner.time.past.time
        if point.start is None or (past is not None and past >= point.start):
            return
        self._begun_of(reasoner, before).advance(point, reasoner.program.timed)
        try:
            reasoner.advance(to)
        except BaseException:
            self._discard_reasoner()
            raise
        self.reached("time advanced", to)

    def _begun_of(self, reasoner: StoredReasoner, before: Manifest | None) -> IntervalStarts:
        """Return when intervals began that a reasoner has forgotten in part."""
        if self._begun is None or self._begun[0] is not reasoner:
            self._begun = reasoner, IntervalStarts(reasoner.time)
            if before is not None:
                self._begun = reasoner, begun_in(self.store.published, before, reasoner)
        return self._begun[1]

    # ---- what a run does

    def _is_edited(self, before: Manifest, program: Program, intake: InputReader | SparkInputReader) -> bool:
        """Whether inputs, rules or what else tables depend on are others than in a version."""
        origin = before.origin
        return (
            bool(intake.edited(before))
            or hash_of(program) != origin.job
            or self.settings.engine.treatment_in(program) != origin.treatment
        )

    def _continued(self, before: Manifest, program: Program, again: Collection[str]) -> StoredReasoner | None:
        """Return the reasoner of a version if it can be changed; else say why everything is derived anew.

        It holds what is derived `again` from what it was given.
        """
        then = published_program(before.origin, program)
        if then is None:
            reason: str | None = f"the rules of version {before.version} cannot be read back"
        else:
            wanted = then if hash_of(program) == before.origin.job else program
            reason = reason_for_anew(before, then, wanted, self.settings.engine)
        reasoner = None
        if reason is None:
            try:
                reasoner = self._opened(before)
            except DataError as error:
                reason = reason_not_to_open(error)
        if reasoner is not None and again:
            reason = self._reason_after_refresh(reasoner, again)
            if reason is not None:
                self._discard_reasoner()
                reasoner = None
        if reasoner is None:
            self.reached("everything anew", reason or f"there is no state of version {before.version}")
        return reasoner

    def _reason_after_refresh(self, reasoner: StoredReasoner, again: Collection[str]) -> str | None:
        """Return why everything must be derived anew, after predicates have been, if it must."""
        program, engine = reasoner.program, self.settings.engine
        if program.timed or has_equality(program.predicates):
            return (
                "predicates that hold at times, or of a program with equality, are refreshed with all others"
            )
        names = [name for name in again if name in program.predicates]
        limits = {"modules": engine.modules, "timeout": engine.timeout, "max_facts": engine.max_facts}
        found = differing(reasoner, names, {**limits, "threads": engine.threads})
        if found:
            shown = ", ".join(f"`{program.predicates[name].written}`" for name in found)
            return f"the state has other facts of {shown} than follow from what was given"
        self.reached("derived again", ", ".join(program.predicates[name].written for name in names))
        return None

    def _apply_changes(
        self,
        publication: Publication,
        reasoner: StoredReasoner,
        before: Manifest,
        program: Program,
        intake: InputReader | SparkInputReader,
        guarding: RunGuards,
        again: Collection[str],
    ) -> Manifest | None:
        """Publish the difference that inputs and rules make; None if everything must be derived anew."""
        edited = intake.edited(before, depended_on(program, again))
        if not isinstance(intake, InputReader):
            reasoner.schemas.data.restore(intake.types(edited, before))
        change = reasoner.change(batch=StateStore.batch(publication.number))
        has_new_rules = hash_of(program) != before.origin.job
        if has_new_rules:
            change.become(program)
            gone = reasoner.program.predicates.keys() - program.predicates.keys()
            edited += [name for name in gone if name not in edited]
        if isinstance(intake, InputReader):
            intake.replace(reasoner, change, publication.number, before, edited)
        else:
            intake.replace(change, before, edited)
        intake.check_rejects()
        after = replace(program, facts=(), imports=()) if has_new_rules else reasoner.program
        origin = self._origin(
            "refresh" if again else "incremental", after, hash_of(program), intake.inputs, before.batch
        )
        is_told = has_new_rules or intake.differs(before.inputs)

        def check(delta: Delta) -> None:
            # Before the transaction is committed to the state: what fails is not published later, either.
            try:
                guarding.check(intake, before, ReasonerRows(reasoner, change.program))
            except GuardFailed as error:
                holding = PublishedContents(reasoner, program=change.program)
                changes = holding.changes_of(delta.net)
                self._set_aside(publication, before, holding, after, changes, origin, error)
                raise
            if not delta and not is_told and not change.times and not again:
                change.batch = None  # the state stays that of the version

        change.publish = check
        try:
            changes = self._commit(reasoner, change, publication.number, origin)
        except ProgramError as error:
            self.reached("everything anew", reason_in(error))
            self._discard_reasoner()
            return None
        if change.batch is None:
            self._state.settle()
            return before
        changes = {**changes, **dict.fromkeys(again)}  # their tables are compared, whatever has changed
        return self._publish(publication, before, reasoner, after, changes, origin)

    def _commit(
        self, reasoner: StoredReasoner, change: Change, number: int, origin: VersionOrigin
    ) -> TableChanges:
        """Commit a transaction to the state, and return what it changes in tables."""
        if change.times.advance is not None:
            raise no_advance()
        also = change.publish

        def check(delta: Delta) -> None:
            check_values(reasoner, change, delta)
            if also is not None:
                also(delta)

        change.publish = check
        self._state.expect(number, origin)
        try:
            change.commit()
        except BaseException:
            self._discard_reasoner()
            raise
        changes = self._holding(reasoner).changes(change)
        self.reached("maintained", counts(change.delta.added, change.delta.removed))
        return changes

    def _derive(
        self,
        publication: Publication,
        before: Manifest | None,
        program: Program,
        intake: InputReader | SparkInputReader,
        guarding: RunGuards,
        full: bool,
    ) -> Manifest:
        """Publish what follows from all inputs, derived from scratch."""
        self._discard_reasoner()
        batch = before.batch if before else None
        bare = replace(program, facts=(), imports=())
        if not isinstance(intake, InputReader):
            return self._derive_on_spark(publication, before, program, intake, guarding, full)
        if before is not None:  # it will be about as much again
            sizes = [(table.rows, len(table.schema)) for table in before.tables.values()]
            self._state.check_memory(sizes, f"version {before.version}")
        reasoner = self._state.begin(publication.number, bare)
        try:
            intake.feed(reasoner, publication.number, before, full)
            intake.check_rejects()
            given = [(reasoner.engine.size(each.name), each.arity) for each in bare.predicates.values()]
            self._state.check_memory(given, "what is given")
            reasoner.materialise()
            tally = reasoner.statistics
            self.reached("derived", f"{counted(tally.derived, 'fact')} from {tally.loaded:,}")
            origin = self._origin("full", bare, hash_of(program), intake.inputs, batch)
            changes: TableChanges = dict.fromkeys(program.predicates)
            try:
                guarding.check(intake, before, ReasonerRows(reasoner, bare))
            except GuardFailed as error:
                self._set_aside(
                    publication, before, PublishedContents(reasoner), bare, changes, origin, error
                )
                raise
            reasoner.begin()
            manifest = self._publish(publication, before, reasoner, bare, changes, origin)
        except BaseException as error:
            reasoner.abandon()  # another attempt in this process must find the folder unlocked
            if isinstance(error, GuardFailed):
                self._state.remove_unpublished(before.version if before else None)
            raise
        reasoner.close()
        self._state.adopt(publication.number)
        return manifest

    def _derive_on_spark(
        self,
        publication: Publication,
        before: Manifest | None,
        program: Program,
        intake: SparkInputReader,
        guarding: RunGuards,
        full: bool,
    ) -> Manifest:
        """Do the same in tasks of Spark, which write the tables."""
        from tidelog.pipeline.spark_run import derive_on_spark, described_types
        from tidelog.spark.stages import held_by

        engine = self.settings.engine
        given = intake.given(engine.settings_of_tasks, before, full)
        frames = intake.frames
        choice = given.choose(frames, engine.partitions, None)
        self.reached("deriving", f"by {choice.strategy}: {choice.reason}")
        written = derive_on_spark(
            given, frames, choice, publication, self.store.published, self._state, self.session
        )
        intake.note()
        intake.check_rejects()
        heads = program.derived
        names = {name for name, each in tables_of(program).items() if public_name(each.name) in heads}
        derived = sum(rows for name, rows in written.rows.items() if name in names)
        bare = replace(program, facts=(), imports=())
        origin = self._origin("full", bare, hash_of(program), intake.inputs, before.batch if before else None)
        origin = described_types(written.derived, origin).knowing(held_by(given.inputs.values())[0])
        self.reached("derived", counted(derived, "fact"))
        try:
            guarding.check(intake, before, TableRows(written.rows, written.head))
        except GuardFailed as error:
            self._state.remove_unpublished(before.version if before else None)
            self._keep_failed(publication, origin, error)
            raise
        manifest = self._commit_version(publication, origin)
        self._state.adopt(publication.number)
        return manifest

    def _publish(
        self,
        publication: Publication,
        before: Manifest | None,
        reasoner: StoredReasoner,
        program: Program,
        changes: TableChanges,
        origin: VersionOrigin,
    ) -> Manifest:
        """Publish a version, write its sinks, and tell the subscribers."""
        holding = self._holding(reasoner)
        origin = publish_facts(publication, self.store.published, before, program, holding, changes, origin)
        return self._commit_version(publication, origin)

    def _set_aside(
        self,
        publication: Publication,
        before: Manifest | None,
        holding: PublishedContents,
        program: Program,
        changes: TableChanges,
        origin: VersionOrigin,
        error: GuardFailed,
    ) -> None:
        """Keep what would have been published, to be looked at."""
        try:
            origin = publish_facts(
                publication, self.store.published, before, program, holding, changes, origin
            )
        except DataError as fault:  # the failure is what matters: it is told whatever a table cannot hold
            self.reached("not set aside", str(fault))
            return
        self._keep_failed(publication, origin, error)

    def _keep_failed(self, publication: Publication, origin: VersionOrigin, error: GuardFailed) -> None:
        failures = [each.message for each in error.diagnostics]
        publication.set_aside({**origin.to_json(), "failures": failures}, reason=origin.reason)
        self.reached("set aside", f"as `failed`: look at it with `tidelog diff {self.store.shown} failed`")

    def _commit_version(self, publication: Publication, origin: VersionOrigin) -> Manifest:
        manifest = Manifest.of(publication.commit(origin.to_json(), reason=origin.reason))
        self._state.settle()
        self._write_sinks(manifest)
        self.announce(manifest)
        return manifest

    def _origin(
        self,
        reason: str,
        program: Program,
        job: str,
        inputs: Mapping[str, InputRecord],
        batch: MicroBatch | None,
    ) -> VersionOrigin:
        engine = self.settings.engine
        return VersionOrigin(
            reason,
            job,
            *described(program),
            inputs,
            batch,
            engine.name,
            engine.treatment_in(program),
            is_integer_time=program.is_integer_time,
        )

    def _holding(self, reasoner: StoredReasoner) -> PublishedContents:
        is_advanced = reasoner.time.past.time is not None
        current = self.store.current() if is_advanced else None
        return PublishedContents(reasoner, begun=self._begun_of(reasoner, current))

    def _intake(self, program: Program, number: int) -> InputReader | SparkInputReader:
        if self.settings.engine.name == "spark":
            from tidelog.pipeline.spark_run import SparkInputReader

            return SparkInputReader(
                self.settings, self.store, program, lambda: self.session, self.reached, number
            )
        return InputReader(self.settings, self.store, program, lambda: self.session, self.reached)

    # ---- the published folder

    @contextmanager
    def writing(self, full: bool = False) -> Iterator[Publication]:
        """Return a version to be written, in a block in which nobody else publishes.

        `full` says that everything will be derived again, whatever the state has.
        """
        self._catch_up(full)
        with self.store.published.writing(on_step=self.reached) as publication:
            self._state.remove_unpublished(publication.base.number if publication.base else None)
            self.store.remove_incoming()
            self._finish_sinks()
            try:
                yield publication
            except BaseException:
                self._discard_reasoner()
                raise
            finally:
                if not self._keeps_open:
                    self.close()

    def _published_rows(self, version: Manifest) -> TableRows:
        counts = {name: table.rows for name, table in version.tables.items()}
        return TableRows(counts, lambda name: self.store.read(name, version.version))

    def _before(self, publication: Publication) -> Manifest | None:
        return None if publication.base is None else Manifest.of(publication.base)

    def _catch_up(self, full: bool) -> None:
        """Publish what a process has committed to the state that ended before it was published.

        Nothing of it is needed by a run that derives everything: it goes with the state.
        """
        state = self._state
        if not state.is_expecting:
            return
        self._discard_reasoner()
        with self.store.published.writing(on_step=self.reached) as publication:
            before, number = self._before(publication), publication.number
            origin = None if full else state.expected(number)
            if origin is None and before is not None and before.reason == "rollback":
                state.discard()  # it may be ahead, by a number that the rollback has
            if before is not None and origin is not None:
                try:
                    reasoner = state.open(before.version)
                except DataError as error:
                    self.reached("state discarded", reason_not_to_open(error))
                    state.discard()
                    reasoner = None
                if reasoner is not None:
                    self._publish_expected(publication, before, reasoner, origin)
            state.settle()

    def _publish_expected(
        self, publication: Publication, before: Manifest, reasoner: StoredReasoner, origin: VersionOrigin
    ) -> None:
        """Publish what a state has that is one version ahead, and close it."""
        try:
            if StateStore.number_of(reasoner) == publication.number:
                restore_types(reasoner, before, unpublished=True)
                changes: TableChanges = dict.fromkeys(reasoner.program.predicates)
                self._publish(publication, before, reasoner, reasoner.program, changes, origin)
        finally:
            reasoner.close()

    # ---- the reasoner

    @property
    def _state(self) -> StateStore:
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
        """Return the reasoner of the current version; raise `DataError` if the job is not as it was then."""
        before = before or self.store.manifest()
        program = self.program()
        then = published_program(before.origin, program)
        if then is None or hash_of(program) != before.origin.job:
            raise has_changed("the program")
        if self.settings.engine.treatment_in(then) != before.origin.treatment:
            raise has_changed("the treatment of equality")
        reasoner = self._opened(before)
        if reasoner is None and rebuild(self._state, self.store, before, then):
            self.reached("state derived again", f"from the tables of version {before.version}")
            reasoner = self._opened(before)
        if reasoner is None:
            message = f"there is no state of version {before.version} in `{self.store.shown}`"
            raise DataError(Diagnostic(codes.JOB_DAMAGED, message, help="run the job first, with --full"))
        return reasoner

    @property
    def open_reasoner(self) -> StoredReasoner:
        """The reasoner of the transaction that is being filled."""
        assert self._open is not None, "a transaction has begun"
        return self._open

    def _opened(self, before: Manifest) -> StoredReasoner | None:
        """Return the reasoner of a version, which is opened unless it is at hand."""
        held = self._open
        if held is not None and StateStore.number_of(held) == before.version and held.is_in_place:
            return held
        self.close()
        self._open = self._state.open(before.version)
        if self._open is not None:
            restore_types(self._open, before, unpublished=False)
            self.reached("restored", f"{counted(before.rows, 'fact')} of version {before.version}")
        return self._open

    def _discard_reasoner(self) -> None:
        """Use the reasoner no longer, which may be ahead of what is published."""
        self._begun = None
        if self._open is not None:
            self._open.abandon()
            self._open = None

    def close(self) -> None:
        """Close the reasoner, so that others can change the state of the published version."""
        self._begun = None
        if self._open is not None:
            self._open.close()
            self._open = None

    def __enter__(self) -> Job:
        self._keeps_open += 1
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._keeps_open -= 1
        if not self._keeps_open:
            self.close()

    # ---- others

    def program(self) -> Program:
        """Return the program, as its file is now, with rules that leave out what expectations say."""
        program, guards = self.stated_program(), self.settings.guards
        dropping = tuple(one for one in guards.expectations if one.severity is GuardSeverity.DROP)
        if not dropping:
            return program
        drops = resolve(Guards(expectations=dropping), program).drops
        found = (program.find(source.predicate) for source in self.settings.sources)
        return with_drops(program, drops, {each.name for each in found if each is not None})

    def stated_program(self) -> Program:
        """Return the program, as its file is now."""
        program, sandbox = self.settings.program, self.settings.sandbox
        if not isinstance(program, str):
            return with_times(as_program(program, sandbox), self.settings)
        if self._read is None or not are_unchanged(self._read.program.files, self._read.stamps):
            path, parameters = self.settings.resolve(program), dict(self.settings.parameters)
            found = with_times(load_program(path, parameters, sandbox=sandbox), self.settings)
            self._read = _Read(found, stamps_of(found.files, {}))
        return self._read.program

    def refresh_sinks(self) -> None:
        """Write the current version to the sinks, unless they have it."""
        with self.writing():
            pass

    def reached(self, name: str, detail: str = "") -> None:
        """Tell the listeners that a step has been reached."""
        step = Step(name, detail, perf_counter() - self._start)
        for listener in self.listeners:
            listener(step)

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

        given = self.settings.streams
        if frame is not None:
            given = (Stream(None, "frame", predicate, checkpoint=checkpoint, **options),)
        return RunningStreams(self, frame, told=told, available_now=available_now, streams=given)

    def batches(
        self, predicate: str, *, told: Callable[[Manifest], None] | None = None, **options: Any
    ) -> BatchPublisher:
        """Return a function for `foreachBatch` of a query of your own: `writeStream.foreachBatch(…)`.

        Each batch is one transaction and publishes one version; one that comes again is passed over. The
        rows are records of a predicate, as for `stream`. The job must have been run. Over Spark Connect the
        function runs in a process of the server, on whose disks the published folder lies then.
        """
        from tidelog.pipeline.micro_batches import BatchPublisher, check_streams

        streams = (Stream(None, "frame", predicate, **options),)
        check_streams(self, streams)
        self.store.manifest()  # it has been run
        return BatchPublisher(self, streams, told)

    def subscribe(self, predicate: str, callback: Callable[[PredicateDelta], object]) -> None:
        """Call a function with what each version that this job publishes changes in a predicate."""
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
        if self.settings.sinks:
            Sinks(self.settings, self.store, lambda: self.session).write(version)
            self.reached("sinks written", ", ".join(sink.shown for sink in self.settings.sinks))


def _refreshed(names: Iterable[str], program: Program) -> set[str]:
    """Return the predicates of these names, with what is left out of them."""
    found: set[str] = set()
    faults: list[Diagnostic] = []
    for name in names:
        try:
            known = find_named(name, program).name
        except DataError as error:
            faults += error.diagnostics
            continue
        aside = aside_of(known, program)
        found |= {published_as(known, program).name, *(() if aside is None else (aside.name,))}
    if faults:
        raise DataError(faults)
    return found
