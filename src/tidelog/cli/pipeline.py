"""`tidelog pipeline`."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace

from tidelog.cli.deltas import duration
from tidelog.cli.messages import Messages
from tidelog.cli.programs import sandbox_of
from tidelog.cli.progress import Progress
from tidelog.cli.usage import UsageError
from tidelog.engine.events import Event, Notice
from tidelog.errors import TidelogError, counted
from tidelog.pipeline.attempts import DONE, TEMPORARY, UNCHANGED, is_temporary
from tidelog.pipeline.job import Job, Run, Step
from tidelog.pipeline.job_file import load_settings
from tidelog.pipeline.manifest import Manifest
from tidelog.pipeline.operating import operate
from tidelog.pipeline.settings import Settings
from tidelog.pipeline.stream import check_streams, follow
from tidelog.reasoner.delta import counts
from tidelog.shown import visible_lines

TOLD = (
    "Spark",
    "everything anew",
    "read",
    "compared",
    "restored",
    "derived",
    "maintained",
    "derived again",
    "set aside",
)  # steps that are told while they are done


def pipeline(options: Namespace) -> int:
    """The exit code of `tidelog pipeline`."""
    messages = Messages(options.quiet)
    if options.available_now and not options.stream:
        raise UsageError("--available-now makes no sense without --stream")
    if options.exit_unchanged and options.stream:
        raise UsageError("--exit-unchanged makes no sense with --stream")
    if options.refresh and options.full:
        raise UsageError("--full derives everything anew: leave --refresh out")
    settings = _with_options(load_settings(options.job), options)
    steps: list[Step] = []
    job = Job.of(settings, listeners=[steps.append])
    if options.validate:
        return _validate(job, messages, options)
    if options.stream:
        check_streams(job)

    def retrying(number: int, delay: float, error: Exception) -> None:
        reason = error.diagnostics[0].message if isinstance(error, TidelogError) else str(error)
        messages.say(f"attempt {number} failed, the next one is in {duration(delay)}: {reason}")

    with _showing(job, messages, steps, logged=True):
        try:
            run = operate(
                job,
                str(options.job),
                options.full,
                retrying,
                lambda one: messages.diagnose([one]),
                tuple(options.refresh),
            )
        except (TidelogError, OSError) as error:
            if not is_temporary(error):
                raise
            if isinstance(error, TidelogError):
                messages.diagnose(error.diagnostics)
            else:
                print(f"tidelog: error: {visible_lines(error.strerror or str(error))}", file=sys.stderr)
            return TEMPORARY
    report(messages, job, run)
    if options.stats:
        for line in timetable(steps):
            messages.say(line)
    if options.stream:
        return _stream(job, messages, steps, options)
    return UNCHANGED if options.exit_unchanged and not run.is_new else DONE


def _validate(job: Job, messages: Messages, options: Namespace) -> int:
    """Check what can be checked without running anything; errors are raised."""
    job.check()
    if job.settings.streams:
        check_streams(job)
    messages.say(f"{options.job}: nothing wrong was found")
    return DONE


@contextmanager
def _showing(job: Job, messages: Messages, steps: list[Step], logged: bool = False) -> Iterator[Progress]:
    """In the block, say which steps the job reaches, and show how far the stages of Spark are."""

    def line(seconds: float) -> str:
        step = f"{steps[-1].name} {steps[-1].detail}" if steps else "looking at the inputs"
        return f"{job.stages or step} · {seconds:.1f} s"

    def tell(step: Step) -> None:
        if step.name in TOLD:
            with progress.aside():
                messages.say(f"{step.name} {step.detail}")

    def notice(event: Event) -> None:
        if isinstance(event, Notice):
            with progress.aside():
                messages.say(event.text)

    with Progress(line, messages.quiet, logged) as progress:
        job.listeners.append(tell)
        job.reasoning.append(notice)
        try:
            yield progress
        finally:
            job.listeners.remove(tell)
            job.reasoning.remove(notice)


def _with_options(settings: Settings, options: Namespace) -> Settings:
    """The settings, but for what the options say otherwise."""
    engine = settings.engine
    engine = replace(
        engine,
        name=options.engine or engine.name,
        master=options.master or engine.master,
        conf={**engine.conf, **dict(options.conf)},
    )
    return replace(settings, engine=engine, sandbox=sandbox_of(options))


def _stream(job: Job, messages: Messages, steps: list[Step], options: Namespace) -> int:
    """Follow the job's stream until Ctrl-C, or until all that is there has been taken; the exit code."""
    with _showing(job, messages, steps) as progress:

        def told(manifest: Manifest) -> None:
            with progress.aside():
                messages.say(_batch(manifest))

        try:
            follow(job, told, available_now=options.available_now)
        except KeyboardInterrupt:
            with progress.aside():
                messages.say("interrupted while waiting: the stream ends here")
    return 0


def report(messages: Messages, job: Job, run: Run) -> None:
    """Say what a run has published."""
    manifest = run.version
    messages.diagnose(finding.diagnostic() for finding in run.findings)
    if not run.is_new:
        messages.say(f"nothing has changed: version {manifest.version} is current  {duration(run.seconds)}")
        return
    changed = counts(manifest.added, manifest.removed)
    changed += _by_predicate(manifest)
    messages.say(
        f"published version {manifest.version}: {counted(manifest.rows, 'fact')}, {changed}"
        f"  {duration(run.seconds)}"
    )
    files = [item.rejects for item in manifest.inputs.values() if item.rejects]
    if files:
        rows = counted(manifest.rejected, "row")
        messages.say(f"rejected {rows}; see {', '.join(str(job.store.path / file) for file in files)}")


def _by_predicate(manifest: Manifest) -> str:
    if not manifest.feed or manifest.parent is None:
        return ""
    told = ", ".join(f"{name} {counts(feed.added, feed.removed)}" for name, feed in manifest.feed.items())
    return f" ({told})"


def _batch(manifest: Manifest) -> str:
    """What a batch of a stream has published."""
    batch = manifest.batch
    assert batch is not None
    oddities = {
        "duplicate": batch.duplicates,
        "missing": batch.missing,
        "late": batch.late,
        "rejected": batch.rejected,
    }
    odd = "".join(f", {number:,} {name}" for name, number in oddities.items() if number)
    changed = counts(manifest.added, manifest.removed)
    mark = "" if batch.watermark is None else f"; watermark {batch.watermark}"
    told = f"batch {batch.batch}: {counted(batch.records, 'record')}{odd}"
    return f"{told}; version {manifest.version}: {changed}{mark}"


def timetable(steps: list[Step]) -> list[str]:
    """When each step was reached, and how long it took."""
    lines = []
    before = 0.0
    for step in steps:
        taken = step.seconds - before
        before = step.seconds
        lines.append(f"{step.seconds:9.3f} s  {duration(taken):>10}  {step.name}  {step.detail}".rstrip())
    return lines
