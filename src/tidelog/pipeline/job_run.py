"""One run of a job: read the inputs, derive or maintain, check the guards, publish.

`run_job` is the sequence of these steps. The first run derives everything. A later one determines which
inputs and rules differ from those of the last published version, and applies the difference to the state of
this version instead of deriving everything again. Mutates the published folder.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from itertools import islice
from time import perf_counter
from typing import TYPE_CHECKING, Any, Final, Protocol, TypeVar

from tidelog.data.relation import Relation
from tidelog.errors import DataError, Diagnostic, ProgramError, counted
from tidelog.logic.equality_axioms import has_equality
from tidelog.logic.program import Predicate, Program
from tidelog.pipeline.contents import PublishedContents, TableChanges
from tidelog.pipeline.guards import (
    MOST_SAMPLES,
    Expectation,
    GuardFailed,
    GuardFinding,
    GuardLimits,
    Guards,
    Measures,
    SourceMeasure,
    Violations,
    check,
    resolve,
    stop_on_failure,
)
from tidelog.pipeline.inputs import InputReader, check_rejects, differs, key_of, source_measure, source_names
from tidelog.pipeline.job_settings import Settings, check_pyspark
from tidelog.pipeline.publishing import (
    check_values,
    depended_on,
    differing,
    publish_facts,
    restore_types,
)
from tidelog.pipeline.source_files import find_named
from tidelog.pipeline.version_folder import (
    InputRecord,
    Manifest,
    MicroBatch,
    StateStore,
    VersionOrigin,
    check_columns,
    described,
    hash_of,
    no_advance,
    published_program,
    reason_in,
    reason_not_to_continue,
    reason_not_to_open,
)
from tidelog.pipeline.versions import Sinks, check_sinks
from tidelog.publish import Publication
from tidelog.reasoner.delta import Delta, counts
from tidelog.reasoner.reasoner import Reasoner
from tidelog.reasoner.storing import StoredReasoner
from tidelog.reasoner.transaction import Change
from tidelog.records import dataclass
from tidelog.rewrite.dropped_rows import aside_of, public_name, published_as, tables_of
from tidelog.temporal.timed_relation import TimedRelation

if TYPE_CHECKING:
    from tidelog.pipeline.job import Job


Inputs = TypeVar("Inputs")


@dataclass(frozen=True)
class Run:
    """The result of a run: the current version, and whether the run published it.

    `findings` are violated guards and expectations that only warn.
    """

    version: Manifest
    is_new: bool
    seconds: float
    findings: tuple[GuardFinding, ...] = ()

    def __str__(self) -> str:
        return f"version {self.version.version}"


class RunInputs(Protocol):
    """The inputs of one run, read in this process or by Spark."""

    inputs: dict[str, InputRecord]

    def edited(self, before: Manifest, again: Collection[str] = ()) -> list[str]:
        """Return the predicates whose inputs differ from those of a version, and those to read `again`."""

    def replace(
        self, reasoner: StoredReasoner, change: Change, before: Manifest, predicates: Sequence[str]
    ) -> None:
        """Replace the explicit facts of predicates, in a transaction, by what their inputs contain."""

    def newest(self, key: str) -> int | None:
        """Return the time of the newest file of an input, in nanoseconds, if it is known."""


@dataclass(frozen=True)
class _JobRun:
    """The context of all steps of a run."""

    version: NewVersion
    program: Program
    guards: RunGuards
    full: bool
    refreshed: Collection[str]  # predicates to derive again

    @property
    def job(self) -> Job:
        """The job that runs."""
        return self.version.job

    @property
    def bare_program(self) -> Program:
        """The program without the facts and imports that are inputs."""
        return replace(self.program, facts=(), imports=())

    def open_inputs(self, reader: Callable[..., Inputs]) -> Inputs:
        """Open the inputs by a reader of this process or of Spark."""
        job, number = self.job, self.version.number
        return reader(job.settings, job.store, self.program, lambda: job.session, job.reached, number)


def run_job(job: Job, full: bool, refresh: Iterable[str]) -> Run:
    """Publish a version for the current inputs; see `Job.run`.

    The steps: read the settings, lock the folder, and either continue from the last version (read the inputs
    that changed, maintain its state) or derive everything. Both check the guards before they publish.
    """
    start = job.start_clock()
    program, guards, refreshed = _read_settings(job, full, refresh)
    with new_version(job, full) as version:
        run = _JobRun(version, program, guards, full, refreshed)
        before, manifest = version.before, None
        if before is not None and not full:
            manifest = _continue_from(before, run)
        if manifest is None:
            manifest = _derive_in_tasks(run) if job.settings.engine.name == "spark" else _derive(run)
    is_new = before is None or manifest.version != before.version
    return Run(manifest, is_new, perf_counter() - start, guards.findings)


def _read_settings(
    job: Job, full: bool, refresh: Iterable[str]
) -> tuple[Program, RunGuards, Collection[str]]:
    """Return the program, the guards, and the predicates to refresh; raise errors of the job."""
    program = job.program()
    check_sinks(job.settings, program)
    refreshed = _find_refreshed(refresh, program)
    if refreshed and full:
        raise ValueError("`full` recomputes everything: omit `refresh`")
    guards = job.run_guards = RunGuards(job.settings, program)
    if job.settings.needs_spark:
        check_pyspark(job.settings.engine)
    return program, guards, refreshed


def _find_refreshed(names: Iterable[str], program: Program) -> set[str]:
    """Return the predicates of these names, with those of their dropped rows."""
    predicates: set[str] = set()
    faults: list[Diagnostic] = []
    for name in names:
        try:
            predicate = find_named(name, program).name
        except DataError as error:
            faults += error.diagnostics
            continue
        aside = aside_of(predicate, program)
        predicates |= {published_as(predicate, program).name, *(() if aside is None else (aside.name,))}
    if faults:
        raise DataError(faults)
    return predicates


# ---- Continuing from the last version.


def _continue_from(before: Manifest, run: _JobRun) -> Manifest | None:
    """Publish the changes since the last version; return None if everything must be derived again.

    If nothing has changed, that version stays current.
    """
    check_columns(before, run.program)
    inputs: RunInputs
    if run.job.settings.engine.name == "spark":
        from tidelog.pipeline.spark_run import SparkInputReader

        inputs = run.open_inputs(SparkInputReader)
    else:
        inputs = run.open_inputs(InputReader)
    if not _has_changed(before, run, inputs) and not run.refreshed:
        rows = {name: table.rows for name, table in before.tables.items()}
        store = run.job.store
        run.guards.check(inputs, before, TableRows(rows, lambda name: store.read(name, before.version)))
        return before
    reasoner = _open_state(before, run)
    return None if reasoner is None else _maintain(before, run, reasoner, inputs)


def _has_changed(before: Manifest, run: _JobRun, inputs: RunInputs) -> bool:
    """Return whether inputs, rules or anything else that tables depend on differ from a version."""
    origin = before.origin
    return (
        bool(inputs.edited(before))
        or hash_of(run.program) != origin.job
        or run.job.settings.engine.treatment_in(run.program) != origin.treatment
    )


def _open_state(before: Manifest, run: _JobRun) -> StoredReasoner | None:
    """Return the reasoner of a version; report why everything is derived again if it cannot be changed.

    Refreshed predicates have been derived again with the same result.
    """
    job, program = run.job, run.program
    then = published_program(before.origin, program)
    if then is None:
        reason: str | None = f"the rules of version {before.version} cannot be read back"
    else:
        required = then if hash_of(program) == before.origin.job else program
        reason = reason_not_to_continue(before, then, required, job.settings.engine)
    reasoner = None
    if reason is None:
        try:
            reasoner = job.resident.open(before)
        except DataError as error:
            reason = reason_not_to_open(error)
    if reasoner is not None and run.refreshed:
        reason = _reason_after_refresh(job, reasoner, run.refreshed)
        if reason is not None:
            job.resident.discard()
            reasoner = None
    if reasoner is None:
        job.reached("full recompute", reason or f"no state of version {before.version}")
    return reasoner


def _reason_after_refresh(job: Job, reasoner: StoredReasoner, refreshed: Collection[str]) -> str | None:
    """Derive predicates again; return why everything must be derived again, if it must."""
    program, engine = reasoner.program, job.settings.engine
    if program.timed or has_equality(program.predicates):
        return "temporal predicates, and those of a program with equality, are refreshed with all others"
    names = [name for name in refreshed if name in program.predicates]
    limits = {"modules": engine.modules, "timeout": engine.timeout, "max_facts": engine.max_facts}
    different = differing(reasoner, names, {**limits, "threads": engine.threads})
    if different:
        names_written = ", ".join(f"`{program.predicates[name].written}`" for name in different)
        return f"the state has other facts of {names_written} than its inputs derive"
    job.reached("recomputed", ", ".join(program.predicates[name].written for name in names))
    return None


def _maintain(before: Manifest, run: _JobRun, reasoner: StoredReasoner, inputs: RunInputs) -> Manifest | None:
    """Publish the effects of changed inputs and rules; return None if everything must be derived again."""
    job, version, program, refreshed = run.job, run.version, run.program, run.refreshed
    has_new_rules = hash_of(program) != before.origin.job
    change = _read_changes(before, run, reasoner, inputs, has_new_rules)
    after = run.bare_program if has_new_rules else reasoner.program
    reason = "refresh" if refreshed else "incremental"
    origin = version.origin(reason, after, hash_of(program), inputs.inputs, before.batch)
    has_news = has_new_rules or differs(inputs.inputs, before.inputs)

    def check_guards(delta: Delta) -> None:
        # Before the transaction is committed to the state, so that a failure is never published.
        try:
            run.guards.check(inputs, before, ReasonerRows(reasoner, change.program))
        except GuardFailed as error:
            contents = PublishedContents(reasoner, program=change.program)
            version.set_aside(contents, after, contents.changes_of(delta.net), origin, error)
            raise
        if not delta and not has_news and not change.times and not refreshed:
            change.batch = None  # the state stays at the version

    change.publish = check_guards
    try:
        changes = version.commit(reasoner, change, origin)
    except ProgramError as error:
        job.reached("full recompute", reason_in(error))
        job.resident.discard()
        return None
    if change.batch is None:
        job.state.settle()
        return before
    changes = {**changes, **dict.fromkeys(refreshed)}  # their tables are always compared
    return version.publish(reasoner, after, changes, origin)


def _read_changes(
    before: Manifest, run: _JobRun, reasoner: StoredReasoner, inputs: RunInputs, has_new_rules: bool
) -> Change:
    """Return a transaction with the changed rules, and the rows of changed inputs."""
    program = run.program
    edited = inputs.edited(before, depended_on(program, run.refreshed))
    change = reasoner.change(batch=StateStore.batch(run.version.number))
    if has_new_rules:
        change.become(program)
        dropped = reasoner.program.predicates.keys() - program.predicates.keys()
        edited += [name for name in dropped if name not in edited]
    inputs.replace(reasoner, change, before, edited)
    check_rejects(inputs.inputs, run.job.settings, run.job.store.path)
    return change


# ---- Deriving everything.


def _derive(run: _JobRun) -> Manifest:
    """Derive everything from all inputs in this process, and publish it."""
    job, version, program = run.job, run.version, run.bare_program
    job.resident.discard()
    before, state, inputs = version.before, job.state, run.open_inputs(InputReader)
    if before is not None:  # the new version will have a similar size
        sizes = [(table.rows, len(table.schema)) for table in before.tables.values()]
        state.check_memory(sizes, f"version {before.version}")
    reasoner = state.begin(version.number, program)
    try:
        inputs.feed(reasoner, before, run.full)
        check_rejects(inputs.inputs, job.settings, job.store.path)
        storage = reasoner.engine.storage
        sizes = [(storage.size(predicate.name), predicate.arity) for predicate in program.predicates.values()]
        state.check_memory(sizes, "what is given")
        reasoner.materialise()
        totals = reasoner.statistics
        job.reached("derived", f"{counted(totals.derived, 'fact')} from {totals.loaded:,}")
        batch = before.batch if before else None
        origin = version.origin("full", program, hash_of(run.program), inputs.inputs, batch)
        changes: TableChanges = dict.fromkeys(program.predicates)
        try:
            run.guards.check(inputs, before, ReasonerRows(reasoner, program))
        except GuardFailed as error:
            version.set_aside(PublishedContents(reasoner), program, changes, origin, error)
            raise
        reasoner.begin()
        manifest = version.publish(reasoner, program, changes, origin)
    except BaseException as error:
        reasoner.abandon()  # another attempt in this process must find the folder unlocked
        if isinstance(error, GuardFailed):
            state.remove_unpublished(before.version if before else None)
        raise
    reasoner.close()
    state.adopt(version.number)
    return manifest


def _derive_in_tasks(run: _JobRun) -> Manifest:
    """Derive everything from all inputs in tasks of Spark, which write the tables, and publish it."""
    from tidelog.pipeline.spark_run import SparkInputReader, derive_on_spark, with_types_of
    from tidelog.spark.stages import types_in

    job, version = run.job, run.version
    job.resident.discard()
    before, state, inputs = version.before, job.state, run.open_inputs(SparkInputReader)
    engine = job.settings.engine
    bound = inputs.bind(engine.settings_of_tasks, before, run.full)
    frames = inputs.frames
    choice = bound.choose(frames, engine.partitions, None)
    job.reached("deriving", f"by {choice.strategy}: {choice.reason}")
    written = derive_on_spark(
        bound, frames, choice, version.publication, job.store.published, state, job.session
    )
    inputs.note()
    check_rejects(inputs.inputs, job.settings, job.store.path)
    heads = run.program.derived
    tables = {name for name, of in tables_of(run.program).items() if public_name(of.name) in heads}
    derived = sum(rows for name, rows in written.rows.items() if name in tables)
    batch = before.batch if before else None
    origin = version.origin("full", run.bare_program, hash_of(run.program), inputs.inputs, batch)
    origin = with_types_of(written.derived, origin).with_types(types_in(bound.inputs.values())[0])
    job.reached("derived", counted(derived, "fact"))
    try:
        run.guards.check(inputs, before, TableRows(written.rows, written.head))
    except GuardFailed as error:
        state.remove_unpublished(before.version if before else None)
        version.keep_failed(origin, error)
        raise
    manifest = version.switch(origin)
    state.adopt(version.number)
    return manifest


# ---- A new version: the lock, recovery after a killed process, commit, publish, sinks.


@dataclass(frozen=True)
class NewVersion:
    """A version that is being written, while no other process can publish."""

    job: Job
    publication: Publication
    before: Manifest | None  # the version that is current until this one is published

    @staticmethod
    def of(job: Job, publication: Publication) -> NewVersion:
        """Return the version that a publication writes."""
        before = None if publication.base is None else Manifest.of(publication.base)
        return NewVersion(job, publication, before)

    @property
    def number(self) -> int:
        """Its number."""
        return self.publication.number

    def origin(
        self,
        reason: str,
        program: Program,
        job: str,
        inputs: Mapping[str, InputRecord],
        batch: MicroBatch | None,
    ) -> VersionOrigin:
        """Return the reason for the version, and the origin of its facts."""
        engine = self.job.settings.engine
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

    def commit(self, reasoner: StoredReasoner, change: Change, origin: VersionOrigin) -> TableChanges:
        """Commit a transaction to the state, and return the changes of tables."""
        if change.times.advance is not None:
            raise no_advance()
        check_guards = change.publish

        def check(delta: Delta) -> None:
            check_values(reasoner, change, delta)
            if check_guards is not None:
                check_guards(delta)

        change.publish = check
        self.job.state.expect(self.number, origin)
        try:
            change.commit()
        except BaseException:
            self.job.resident.discard()
            raise
        changes = self.job.resident.contents(reasoner).changes(change)
        self.job.reached("maintained", counts(change.delta.added, change.delta.removed))
        return changes

    def publish(
        self, reasoner: StoredReasoner, program: Program, changes: TableChanges, origin: VersionOrigin
    ) -> Manifest:
        """Write the changed tables, and make the version the current one."""
        contents = self.job.resident.contents(reasoner)
        return self.switch(self._write_tables(contents, program, changes, origin))

    def switch(self, origin: VersionOrigin) -> Manifest:
        """Make the version with the written tables the current one; write sinks, notify subscribers."""
        manifest = Manifest.of(self.publication.commit(origin.to_json(), reason=origin.reason))
        self.job.state.settle()
        _write_sinks(self.job, manifest)
        self.job.announce(manifest)
        return manifest

    def set_aside(
        self,
        contents: PublishedContents,
        program: Program,
        changes: TableChanges,
        origin: VersionOrigin,
        error: GuardFailed,
    ) -> None:
        """Keep the version that is not published as `failed`, for inspection."""
        try:
            origin = self._write_tables(contents, program, changes, origin)
        except DataError as fault:  # only report the guard's failure
            self.job.reached("not set aside", str(fault))
            return
        self.keep_failed(origin, error)

    def keep_failed(self, origin: VersionOrigin, error: GuardFailed) -> None:
        """Keep the tables that have been written as the version `failed`."""
        failures = [fault.message for fault in error.diagnostics]
        self.publication.set_aside({**origin.to_json(), "failures": failures}, reason=origin.reason)
        label = self.job.store.shown
        self.job.reached("set aside", f"as `failed`: inspect it with `tidelog diff {label} failed`")

    def _write_tables(
        self, contents: PublishedContents, program: Program, changes: TableChanges, origin: VersionOrigin
    ) -> VersionOrigin:
        """Write the changed tables, and return the origin with the layouts of all tables."""
        published = self.job.store.published
        return publish_facts(self.publication, published, self.before, program, contents, changes, origin)


@contextmanager
def new_version(job: Job, full: bool = False) -> Iterator[NewVersion]:
    """Yield a version to write, while no other process can publish.

    With `full`, everything will be derived again, so that the state is not needed.
    """
    _publish_unfinished(job, full)
    with job.store.published.writing(on_step=job.reached) as publication:
        job.state.remove_unpublished(publication.base.number if publication.base else None)
        job.store.remove_incoming()
        unwritten = Sinks(job.settings, job.store).unwritten()
        if unwritten is not None:
            _write_sinks(job, unwritten)
        try:
            yield NewVersion.of(job, publication)
        except BaseException:
            job.resident.discard()
            raise
        finally:
            if not job.keeps_open:
                job.close()


def _publish_unfinished(job: Job, full: bool) -> None:
    """Publish a transaction that a killed process had committed to the state.

    A run that derives everything does not need it, and deletes it with the state.
    """
    state = job.state
    if not state.is_expecting:
        return
    job.resident.discard()
    with job.store.published.writing(on_step=job.reached) as publication:
        version = NewVersion.of(job, publication)
        before = version.before
        origin = None if full else state.expected(version.number)
        if origin is None and before is not None and before.reason == "rollback":
            state.discard()  # it may be ahead, with the number of the rollback
        if before is not None and origin is not None:
            try:
                reasoner = state.open(before.version)
            except DataError as error:
                job.reached("state discarded", reason_not_to_open(error))
                state.discard()
                reasoner = None
            if reasoner is not None:
                _publish_expected(version, before, reasoner, origin)
        state.settle()


def _publish_expected(
    version: NewVersion, before: Manifest, reasoner: StoredReasoner, origin: VersionOrigin
) -> None:
    """Publish the state if it is one version ahead, and close it."""
    try:
        if StateStore.number_of(reasoner) == version.number:
            restore_types(reasoner, before, unpublished=True)
            changes: TableChanges = dict.fromkeys(reasoner.program.predicates)
            version.publish(reasoner, reasoner.program, changes, origin)
    finally:
        reasoner.close()


def _write_sinks(job: Job, version: Manifest) -> None:
    if job.settings.sinks:
        Sinks(job.settings, job.store, lambda: job.session).write(version)
        job.reached("sinks written", ", ".join(sink.shown for sink in job.settings.sinks))


# ---- The guards of a run: their measures, and the check before anything is published.

_IMPORTED: Final = GuardLimits(allow_empty=True)  # only a [[source]] can have `allow-empty`


class CandidateRows(Protocol):
    """The facts of a version to be published."""

    def count(self, predicate: Predicate) -> int:
        """Return how many facts a predicate has."""

    def violations(self, predicate: Predicate) -> Violations:
        """Return the number of facts of a predicate, and samples."""


@dataclass(frozen=True)
class ReasonerRows:
    """The facts of a reasoner in which everything has been derived, perhaps in an open transaction.

    `program` is that of the reasoner, or of the transaction.
    """

    reasoner: Reasoner
    program: Program

    def _relation(self, predicate: Predicate) -> Relation:
        reasoner, name = self.reasoner, predicate.name
        if name in self.program.timed:
            return reasoner.time.relation(predicate)
        listing = reasoner.listing()
        if listing is None:
            columns, count = reasoner.engine.storage.rows(name)
        else:
            listed = listing.rows(name)
            columns, count = listed.columns, listed.count
        return Relation(
            predicate.written, predicate.names, columns, count, reasoner.engine.storage.dictionary
        )

    def count(self, predicate: Predicate) -> int:
        """Return how many facts a predicate has."""
        return len(self._relation(predicate))

    def violations(self, predicate: Predicate) -> Violations:
        """Return the number of facts of a predicate, and samples."""
        relation = self._relation(predicate)
        sample = relation.head(MOST_SAMPLES)
        rows = sample if isinstance(sample, TimedRelation) else sample.to_texts().rows()
        return Violations(len(relation), relation.columns, tuple(tuple(map(str, row)) for row in rows))


@dataclass(frozen=True)
class TableRows:
    """The rows of tables: of a published version, or written by tasks for one."""

    counts: Mapping[str, int]
    read: Callable[[str], Any]  # returns a table, or its first rows

    def count(self, predicate: Predicate) -> int:
        """Return how many rows the table of a predicate has."""
        return self.counts.get(predicate.written, 0)

    def violations(self, predicate: Predicate) -> Violations:
        """Return the number of rows of the table of a predicate, and samples."""
        count = self.count(predicate)
        if not count:
            return Violations(0, predicate.names)
        table = self.read(predicate.written).slice(0, MOST_SAMPLES)
        rows = islice(zip(*table.to_pydict().values(), strict=True), MOST_SAMPLES)
        return Violations(count, tuple(table.column_names), tuple(tuple(map(str, row)) for row in rows))


class RunGuards:
    """The guards of one run, and their findings. Mutable."""

    def __init__(self, settings: Settings, program: Program) -> None:
        self.settings = settings
        self.program = program
        self.guards: Guards = resolve(settings.guards, program)
        self.measures: Measures | None = None
        self.findings: tuple[GuardFinding, ...] = ()
        self._limits = {key_of(source, program): source.limits for source in settings.sources}

    def check(self, inputs: RunInputs, before: Manifest | None, rows: CandidateRows) -> None:
        """Check a version before it is published; raise `GuardFailed` if it must not be."""
        names = source_names(inputs.inputs)
        limits = {name: self._limits.get(key, _IMPORTED) for key, name in names.items()}
        self.guards = replace(self.guards, sources=limits)
        measures = Measures(
            tuple(self._source(name, key, inputs) for key, name in names.items()),
            self._counts(rows),
            {item.predicate: rows.violations(self._predicate(item.predicate)) for item in self._expectations},
            datetime.now(UTC),
            {name: rows.count(aside) for name in self._counted() if (aside := aside_of(name, self.program))},
        )
        self.measures = measures
        self.findings = check(measures, None if before is None else self._previous(before), self.guards)
        stop_on_failure(self.findings)

    @property
    def _expectations(self) -> tuple[Expectation, ...]:
        return self.guards.expectations

    def _predicate(self, name: str) -> Predicate:
        return published_as(name, self.program)

    def _counted(self) -> list[str]:
        """Return the predicates whose rows are counted."""
        of = [expectation.of for expectation in self._expectations if expectation.of is not None]
        return list(dict.fromkeys((*self.guards.predicates, *of)))

    def _counts(self, rows: CandidateRows) -> dict[str, int]:
        return {name: rows.count(self._predicate(name)) for name in self._counted()}

    def _source(self, name: str, key: str, inputs: RunInputs) -> SourceMeasure:
        has_limit = self._limits.get(key, _IMPORTED).max_age is not None
        newest = inputs.newest(key) if has_limit else None
        return source_measure(name, inputs.inputs[key], newest)

    def _previous(self, before: Manifest) -> Measures:
        names = source_names(before.inputs)
        tables = {name: self._predicate(name).written for name in self._counted()}
        return Measures(
            tuple(source_measure(name, before.inputs[key]) for key, name in names.items()),
            {name: before.tables[table].rows for name, table in tables.items() if table in before.tables},
        )
