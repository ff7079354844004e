"""Runs as a scheduler sees them: attempts, a report and a log of each run, and events for a catalogue."""

from __future__ import annotations

import os
from collections.abc import Callable, Mapping, Sequence
from datetime import UTC, datetime
from time import perf_counter
from uuid import uuid4

from tidelog.errors import Diagnostic, TidelogError
from tidelog.logic.program import BOTTOM, Program
from tidelog.pipeline import openlineage
from tidelog.pipeline.attempts import attempt
from tidelog.pipeline.drops import public_name, tables_of
from tidelog.pipeline.guarding import Guarding, source_measure, source_names
from tidelog.pipeline.guards import GuardFailed, assertions
from tidelog.pipeline.job import Job, Run, Step
from tidelog.pipeline.manifest import Input, Manifest
from tidelog.pipeline.openlineage import Dataset, Event, Field, dataset_name, end_event, start_event
from tidelog.pipeline.report_page import write_report
from tidelog.pipeline.reports import (
    Outcome,
    PredicateReport,
    RunReport,
    SinkReport,
    SourceReport,
    StageReport,
    log_start,
)
from tidelog.pipeline.settings import is_remote
from tidelog.publish.object_storage import folder_name
from tidelog.show.column_lineage import Dependency, lineage, published_dependencies

Retrying = Callable[[int, float, Exception], None]
Warn = Callable[[Diagnostic], None]


def operate(
    job: Job, name: str, full: bool, retrying: Retrying, warn: Warn, refresh: Sequence[str] = ()
) -> Run:
    """Run a job as its settings say: as often as they allow, with reports and events.

    `retrying` is told of each attempt that failed and is followed by another one, `warn` of each event that
    could not be sent.
    """
    run = str(uuid4())
    return attempt(
        lambda number: _Observed(job, name, run, number, warn).run(full, refresh),
        job.settings.retry,
        retrying,
    )


class _Observed:
    """One attempt. Mutates itself."""

    def __init__(self, job: Job, name: str, run: str, number: int, warn: Warn) -> None:
        self._job, self._name, self._run, self._number, self._warn = job, name, run, number, warn
        self._started = _now()
        self._steps: list[Step] = []
        self._program: Program | None = None
        folder = job.settings.report
        self._folder = None if folder is None else job.settings.resolve(folder)

    def run(self, full: bool, refresh: Sequence[str]) -> Run:
        """Run the job, and write what there is to write before and after it."""
        job = self._job
        if self._folder is None and job.settings.openlineage is None:
            return job.run(full, refresh)
        begun = perf_counter()
        before = job.store.number
        if self._folder is not None:
            log_start(self._folder, self._name, self._run, self._started, self._number)
        job.guarding = None
        job.listeners.append(self._steps.append)
        try:
            if job.settings.openlineage is not None:
                self._program = job.stated_program()
                self._emit(start_event(self._described(self._program), self._run, self._started))
            done = job.run(full, refresh)
        except BaseException as error:
            refused = isinstance(error, GuardFailed)
            outcome = Outcome.REFUSED if refused else Outcome.FAILED
            text = str(error) if isinstance(error, TidelogError) else f"{type(error).__name__}: {error}"
            self._finish(outcome, perf_counter() - begun, None, before, text)
            raise
        finally:
            job.listeners.remove(self._steps.append)
        outcome = Outcome.PUBLISHED if done.is_new else Outcome.UNCHANGED
        self._finish(outcome, perf_counter() - begun, done.version, before, None)
        return done

    def _finish(
        self,
        outcome: Outcome,
        seconds: float,
        version: Manifest | None,
        before: int | None,
        error: str | None,
    ) -> None:
        report = self._report(outcome, seconds, version, before, error)
        if self._program is not None:
            known = lineage(self._program, {one.predicate for one in report.sources})
            self._emit(end_event(self._described(self._program, version), report, known, _now()))
        if self._folder is not None:
            write_report(report, self._folder)

    def _report(
        self,
        outcome: Outcome,
        seconds: float,
        version: Manifest | None,
        before: int | None,
        error: str | None,
    ) -> RunReport:
        guarding = self._job.guarding
        engine, strategy, reason = self._job.settings.engine.name, "", ""
        for step in self._steps:
            if step.name == "deriving":
                strategy, _, reason = step.detail.removeprefix("by ").partition(": ")
            elif step.name == "everything anew":
                reason = step.detail
        if version is not None and outcome is Outcome.PUBLISHED:
            strategy = strategy or version.reason
        inputs = version.inputs if version is not None else {}
        findings = guarding.findings if guarding is not None else ()
        return RunReport(
            self._name,
            self._run,
            self._started,
            seconds,
            outcome,
            engine,
            strategy,
            reason,
            self._number,
            None if version is None else version.version,
            before,
            _sources(inputs, guarding),
            _predicates(version, guarding, outcome),
            tuple(_sinks(self._job, version, outcome)),
            tuple(_stages(self._steps)),
            findings,
            () if guarding is None else assertions(guarding.guards, findings),
            () if guarding is None else _dependencies(self._job.stated_program()),
            error,
        )

    # ---- events

    def _described(self, program: Program, version: Manifest | None = None) -> openlineage.Job:
        """Return the job as OpenLineage has it."""
        job, settings = self._job, self._job.settings.openlineage
        assert settings is not None
        names = {} if version is None else source_names(version.inputs)
        shown = {} if version is None else {version.inputs[key].shown: name for key, name in names.items()}
        inputs = []
        for source in job.settings.sources:
            predicate = program.find(source.predicate)
            if predicate is None:
                continue
            place = source.paths[0] if source.paths else source.url or ""
            if source.paths and not is_remote(place):
                place = str(job.settings.resolve(place).resolve())
            fields = tuple(map(Field, predicate.names))
            namespace, name = dataset_name(place, source.table)
            called = shown.get(source.shown, source.shown)
            inputs.append(Dataset(namespace, name, predicate.name, fields, called))
        outputs = []
        for predicate in program.predicates.values():
            if predicate.name != BOTTOM:
                place = job.store.published.folder.below(folder_name(predicate.written)).address
                fields = tuple(map(Field, predicate.names))
                outputs.append(Dataset(*dataset_name(place), predicate.name, fields))
        parent = openlineage.read_parent(os.environ.get("OPENLINEAGE_PARENT_ID", ""))
        return openlineage.Job(settings.namespace, self._name, tuple(inputs), tuple(outputs), parent)

    def _emit(self, event: Event) -> None:
        settings = self._job.settings.openlineage
        assert settings is not None
        for warning in openlineage.emit(event, settings, self._job.settings.folder):
            self._warn(warning)


def _sources(inputs: Mapping[str, Input], guarding: Guarding | None) -> tuple[SourceReport, ...]:
    """Return what was read, as the guards measured it or, without guards, as the version says."""
    if guarding is not None and guarding.measures is not None:
        found = guarding.measures.sources
    else:
        found = tuple(source_measure(name, inputs[key]) for key, name in source_names(inputs).items())
    return tuple(
        SourceReport(
            one.source,
            one.predicate,
            one.rows,
            one.rejected,
            one.filtered,
            newest=None if one.newest is None else one.newest.isoformat(),
        )
        for one in found
    )


def _predicates(
    version: Manifest | None, guarding: Guarding | None, outcome: Outcome
) -> tuple[PredicateReport, ...]:
    if version is None or guarding is None:
        return ()
    program, feed = guarding.program, version.feed if outcome is Outcome.PUBLISHED else {}
    found = []
    for written, predicate in tables_of(program).items():
        table, name = version.tables.get(written), public_name(predicate.name)
        if table is not None:
            changed = feed.get(written)
            counts = (changed.added, changed.removed) if changed is not None else (0, 0)
            found.append(PredicateReport(name, table.rows, *counts, is_derived=name in program.derived))
    return tuple(found)


def _dependencies(program: Program) -> tuple[Dependency, ...]:
    return published_dependencies(program, [name for name in program.predicates if name != BOTTOM])


def _sinks(job: Job, version: Manifest | None, outcome: Outcome) -> list[SinkReport]:
    if version is None or outcome is not Outcome.PUBLISHED:
        return []
    return [SinkReport(sink.shown, sink.predicate) for sink in job.settings.sinks]


def _stages(steps: list[Step]) -> list[StageReport]:
    """Return the steps that were reached, each with how long it took."""
    ends = [0.0, *(step.seconds for step in steps)]
    return [
        StageReport(step.name, step.seconds - start, step.detail)
        for step, start in zip(steps, ends, strict=False)
    ]


def _now() -> str:
    return datetime.now(UTC).isoformat(timespec="milliseconds")
