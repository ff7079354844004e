"""`tidelog pipeline`, `versions`, `diff`, `rollback`, `vacuum`, `convert` and `store`."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

from tidelog.cli.options import UsageError
from tidelog.cli.output import Messages, show
from tidelog.cli.program_sources import sandbox_of
from tidelog.cli.results import Form, by_predicate, duration, print_lines, print_script
from tidelog.cli.work import ProgressLine
from tidelog.engine.events import Event, Notice, ValuesMissing
from tidelog.errors import DataError, Diagnostic, TidelogError, codes, counted, visible_lines
from tidelog.pipeline.job import Job, Step
from tidelog.pipeline.job_file import load_settings
from tidelog.pipeline.job_run import Run
from tidelog.pipeline.job_settings import DONE, TEMPORARY, UNCHANGED, Settings, is_temporary
from tidelog.pipeline.micro_batches import check_streams, follow
from tidelog.pipeline.operating import operate
from tidelog.pipeline.publishing import convert as convert_versions
from tidelog.pipeline.publishing import delete_former, roll_back
from tidelog.pipeline.version_folder import FAILED, Manifest, Store, store_of
from tidelog.pipeline.versions import difference
from tidelog.plan.rule_text import Writing
from tidelog.publish import Published
from tidelog.reasoner.delta import Delta, counts
from tidelog.reasoner.store_repair import examine, export, repair
from tidelog.reasoner.storing import open_store
from tidelog.store.store import StoreFolder

# ---- `tidelog pipeline`

REPORTED = (
    "Spark",
    "full recompute",
    "read",
    "compared",
    "restored",
    "derived",
    "maintained",
    "recomputed",
    "set aside",
)  # steps that are reported while they run


def pipeline(options: Namespace) -> int:
    """The exit code of `tidelog pipeline`."""
    messages = Messages(options.quiet)
    if options.available_now and not options.stream:
        raise UsageError("--available-now requires --stream")
    if options.exit_unchanged and options.stream:
        raise UsageError("--exit-unchanged cannot be used with --stream")
    if options.refresh and options.full:
        raise UsageError("--full recomputes everything: omit --refresh")
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
                lambda diagnostic: messages.diagnose([diagnostic]),
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
    messages.say(f"{options.job}: no errors found")
    return DONE


@contextmanager
def _showing(job: Job, messages: Messages, steps: list[Step], logged: bool = False) -> Iterator[ProgressLine]:
    """In the block, say which steps the job reaches, and show how far the stages of Spark are."""

    def line(seconds: float) -> str:
        step = f"{steps[-1].name} {steps[-1].detail}" if steps else "checking the inputs"
        return f"{job.stages or step} · {seconds:.1f} s"

    def report(step: Step) -> None:
        if step.name in REPORTED:
            with progress.aside():
                messages.say(f"{step.name} {step.detail}")

    def notice(event: Event) -> None:
        if isinstance(event, Notice):
            with progress.aside():
                messages.say(event.text)
        elif isinstance(event, ValuesMissing):
            from tidelog.engine.missing_values import describe_missing

            with progress.aside():
                messages.diagnose(describe_missing(event.missing, Writing.of(job.program_as_written())))

    with ProgressLine(line, messages.quiet, logged) as progress:
        job.listeners.append(report)
        job.reasoning.append(notice)
        try:
            yield progress
        finally:
            job.listeners.remove(report)
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
    """Follow the job's stream until Ctrl-C, or until all existing data is read; return the exit code."""
    with _showing(job, messages, steps) as progress:

        def report(manifest: Manifest) -> None:
            with progress.aside():
                messages.say(_batch(manifest))

        try:
            follow(job, report, available_now=options.available_now)
        except KeyboardInterrupt:
            with progress.aside():
                messages.say("interrupted while waiting: the stream has ended")
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
    changes = ", ".join(f"{name} {counts(feed.added, feed.removed)}" for name, feed in manifest.feed.items())
    return f" ({changes})"


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
    read = f"batch {batch.batch}: {counted(batch.records, 'record')}{odd}"
    return f"{read}; version {manifest.version}: {changed}{mark}"


def timetable(steps: list[Step]) -> list[str]:
    """When each step was reached, and how long it took."""
    lines = []
    before = 0.0
    for step in steps:
        elapsed = step.seconds - before
        before = step.seconds
        lines.append(f"{step.seconds:9.3f} s  {duration(elapsed):>10}  {step.name}  {step.detail}".rstrip())
    return lines


# ---- `tidelog versions`, `diff`, `rollback`, `vacuum` and `convert`


def versions(options: Namespace) -> int:
    """The exit code of `tidelog versions`."""
    store = _store(options.target)
    failed = store.failed()
    current = 0 if failed is not None and store.number is None else store.manifest().version
    manifests = [store.manifest(number) for number in store.numbers()]
    manifests += [] if failed is None else [failed]
    if options.format == "json":
        json.dump([_to_json(manifest, current) for manifest in manifests], sys.stdout, indent=1)
        print()
        return 0
    for line in _listed(manifests, current, options.predicates):
        show(line)
    return 0


def diff(options: Namespace) -> int:
    """The exit code of `tidelog diff`."""
    store = _store(options.target)
    requested = (options.first, options.second)
    if requested == (FAILED, None):
        requested = (None, FAILED)  # what would have changed
    second = store.find(requested[1])
    first = requested[0] if requested[0] is not None else second.parent
    if first is None:
        message = f"version {second.version} is the first one in `{store.shown}`"
        raise DataError(Diagnostic(codes.JOB_NO_VERSION, message, place=store.shown))
    delta = difference(store, first, FAILED if second.failures else second.version)
    names = _chosen(delta, options.predicate)
    if options.format == "jsonl":
        print_lines(delta, Form("jsonl"), names)
    else:
        print_script(delta, names, None)
    title = f"version {first} to {FAILED if second.failures else second.version}"
    Messages(options.quiet).say(f"{title}: {delta}{_in_parentheses(by_predicate(delta))}")
    return 0


def rollback(options: Namespace) -> int:
    """The exit code of `tidelog rollback`."""
    store = _store(options.target)
    manifest = roll_back(store, options.version)
    if isinstance(options.target, Path) and options.target.is_file():
        Job.load(options.target).refresh_sinks()
    change_counts = counts(manifest.added, manifest.removed)
    Messages(options.quiet).say(
        f"published version {manifest.version}: {counted(manifest.rows, 'fact')}, {change_counts}"
    )
    return 0


def vacuum(options: Namespace) -> int:
    """The exit code of `tidelog vacuum`."""
    store = _store(options.target)
    store.manifest()
    numbers = store.numbers()
    files, size = store.published.vacuum(options.keep)
    expired = numbers[: -options.keep]
    store.remove_rejects(expired)
    Messages(options.quiet).say(
        f"removed {counted(len(expired), 'version')}, {counted(files, 'file')}, {size:,} bytes"
    )
    return 0


def convert(options: Namespace) -> int:
    """The exit code of `tidelog convert`."""
    messages = Messages(options.quiet)
    target = options.target or options.folder.with_name(f"{options.folder.absolute().name}.converted")

    def reached(number: int, now: int) -> None:
        known = published.version(now)
        facts = sum(table.rows for table in known.tables.values())
        messages.say(f"converted version {number}: version {now}, {counted(facts, 'fact')}")

    published = Published(target, options.format)
    convert_versions(options.folder, target, options.format, reached)
    messages.say(f"published {counted(len(published.numbers()), 'version')} in {target}; name it in the job")
    if options.delete_old:
        delete_former(options.folder)
        messages.say(f"deleted the versions in {options.folder}")
    return 0


def _store(target: Path | str) -> Store:
    """The published folder that is meant."""
    if isinstance(target, Path) and target.is_file():
        return store_of(load_settings(target))
    return Store(target)


def _chosen(delta: Delta, names: list[str] | None) -> tuple[str, ...]:
    """Return the predicates to report; raise `ProgramError` if one of them is unknown."""
    if names is None:
        return delta.predicates
    return tuple(delta[name].predicate for name in names)


def _in_parentheses(text: str) -> str:
    return f" ({text})" if text else ""


def _listed(manifests: list[Manifest], current: int, predicates: bool) -> list[str]:
    """The versions as lines that line up."""
    rows = [("version", "published", "by", "facts", "added", "removed", "rejected")]
    rows += [
        (
            FAILED
            if manifest.failures
            else f"{manifest.version}{' *' if manifest.version == current else ''}",
            f"{manifest.published.time:%Y-%m-%d %H:%M:%S}",
            manifest.reason,
            f"{manifest.rows:,}",
            f"{manifest.added:,}",
            f"{manifest.removed:,}",
            f"{manifest.rejected:,}",
        )
        for manifest in manifests
    ]
    widths = [max(len(row[position]) for row in rows) for position in range(len(rows[0]))]
    lines = []
    for position, row in enumerate(rows):
        cells = [
            text.rjust(width) if column > 2 else text.ljust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
        if predicates and position:
            lines += _tables(manifests[position - 1])
        if position:
            lines += [
                f"    {line}" for each in manifests[position - 1].failures for line in each.splitlines()
            ]
    return lines


def _tables(manifest: Manifest) -> list[str]:
    """The predicates of a version, each with its facts and what changed."""
    lines = []
    for name, table in manifest.tables.items():
        feed = manifest.feed.get(name)
        changed = f"  {counts(feed.added, feed.removed)}" if feed else ""
        lines.append(f"    {name}({', '.join(table.schema.names)})  {table.rows:,}{changed}")
    return lines


def _to_json(manifest: Manifest, current: int) -> dict[str, object]:
    return {
        "version": FAILED if manifest.failures else manifest.version,
        "current": manifest.version == current and not manifest.failures,
        "failures": list(manifest.failures),
        "parent": manifest.parent,
        "created": manifest.published.time.isoformat(timespec="milliseconds"),
        "reason": manifest.reason,
        "facts": manifest.rows,
        "added": manifest.added,
        "removed": manifest.removed,
        "rejected": manifest.rejected,
        "batch": manifest.batch.batch if manifest.batch else None,
        "predicates": {
            name: {
                "columns": list(table.schema.names),
                "facts": table.rows,
                "added": manifest.feed[name].added if name in manifest.feed else 0,
                "removed": manifest.feed[name].removed if name in manifest.feed else 0,
            }
            for name, table in manifest.tables.items()
        },
    }


# ---- `tidelog store`


def store(options: Namespace) -> int:
    """The exit code of `tidelog store`."""
    if options.output is not None and options.action != "export":
        raise UsageError("--output requires `export`")
    folder = StoreFolder(options.store)
    if not folder.is_store:
        folder.find()  # which says so
    actions: dict[str, Callable[[Namespace, Messages], int]] = {
        "check": _check,
        "repair": _repair,
        "compact": _compact,
        "export": _export,
    }
    return actions[options.action](options, Messages(options.quiet))


def _check(options: Namespace, messages: Messages) -> int:
    examined = examine(options.store)
    for finding in examined.findings:
        if finding.is_fault or not options.quiet:
            show(str(finding))
    if not examined.is_whole:
        messages.say(f"`tidelog store repair {options.store}` keeps what can be recovered")
    return 0 if examined.is_whole else 1


def _repair(options: Namespace, messages: Messages) -> int:
    for line in repair(options.store):
        messages.say(line)
    return 0


def _compact(options: Namespace, messages: Messages) -> int:
    before = _size(options.store)
    with open_store(options.store) as reasoner:
        reasoner.compact()
    messages.say(f"{options.store}: {before:,} bytes before, {_size(options.store):,} now")
    return 0


def _export(options: Namespace, messages: Messages) -> int:
    target = options.output or options.store.with_name(f"{options.store.name}.export")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError(f"--output {target} already exists, and is not an empty folder")
    program, count = export(options.store, target)
    messages.say(f"wrote {program}, {counted(count, 'explicit fact')}")
    return 0


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir() if path.suffix == ".tide")
