"""`tidelog run`, `query` and `stream` with `--engine spark`: files become frames, and frames files."""

from __future__ import annotations

import json
import signal
from argparse import Namespace
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path
from threading import Event, Lock, current_thread, main_thread
from time import perf_counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa

from tidelog.cli.options import ON_SCREEN, UsageError, time_settings
from tidelog.cli.output import Messages
from tidelog.cli.program_sources import existing_data, load_beside, sandbox_of, unused, warnings
from tidelog.cli.results import (
    DeltaFolder,
    Form,
    Result,
    check_printable,
    duration,
    print_lines,
    print_result,
    print_results,
    query_name,
)
from tidelog.cli.updates import STANDARD_INPUT
from tidelog.cli.work import HEADERS, describe_nulls, faults_of, parameters
from tidelog.data.relation import Relation
from tidelog.durable import replacing_text
from tidelog.errors import Diagnostic, TidelogError, counted
from tidelog.io.data_file import DELIMITED, canonical_format
from tidelog.io.rejects import BadRow, OnError, RejectedRows
from tidelog.io.write import Export, WriteOptions, export_file
from tidelog.logic.import_options import Nulls, is_counted_apart
from tidelog.logic.program import BOTTOM, Program
from tidelog.logic.values import ColumnType
from tidelog.reasoner.delta import counts
from tidelog.reasoner.reasoner import Reasoner
from tidelog.spark.strategies import SETTINGS, StrategyChoice

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

    from tidelog.spark.frames import Derived
    from tidelog.spark.maintenance import Changes, Maintained
    from tidelog.spark.reading.folders import ProgramFrames
    from tidelog.spark.stages import BoundProgram


# ---- `tidelog run` and `tidelog query` with `--engine spark`

# Options that only a reasoner in this process has.
REFUSED = {
    "watch": "--watch",
    "store": "--store",
    "ontology": "--ontology",
    "explain_strategy": "--explain-strategy",
    "terms": "--terms",
}


ONE_QUERY = StrategyChoice(
    reason="a query derives only what it needs, which has to fit in the memory of a worker"
)


def run(options: Namespace) -> int:
    """The exit code of `tidelog run --engine spark`."""
    from tidelog.spark.reading.folders import write_frame
    from tidelog.spark.shipping import translated_errors
    from tidelog.spark.stages import ANSWERS

    start = perf_counter()
    form = Form.of(options, "csv" if options.output else "table")
    program, messages = _program(options), Messages(options.quiet)
    exports = [
        (transfer, export_file(transfer, program.predicates[transfer.predicate], options.output))
        for transfer in program.exports
    ]
    form.check_mixed(export.format for _, export in exports)
    texts = [export.format for _, export in exports if export.format in DELIMITED]
    if form.mixed == "struct" and texts:
        raise UsageError(f"--mixed struct cannot be combined with an export as {texts[0]} on Spark")
    names = [name for name in program.output_predicates if name != BOTTOM]
    printed = [
        name for name in names if options.output or name not in {item.predicate for item, _ in exports}
    ]
    if not options.output:
        check_printable(len(printed) + len(program.queries), form)
    files = _files(options, program)
    bound, frames = replace(files.bound, mixed=form.mixed), files.frames
    _warn(bound, options, messages)
    choice = bound.choose(frames, None, None)
    messages.say(described(choice))
    if program.queries and choice.strategy != ONE_QUERY.strategy:
        messages.say(f"queries of the program on Spark by {ONE_QUERY.strategy}: {ONE_QUERY.reason}")
    derived = bound.derive(frames, names, _on_error(options), "fail", choice)
    with translated_errors(), files.rejecting(), derived.persist():
        for transfer, export in exports:
            write_frame(derived[program.predicates[transfer.predicate].written], export, transfer.span)
            messages.say(f"wrote {export.path}")
        results: list[Result] = []
        facts: dict[str, int] = {}
        for name in printed:
            predicate = program.predicates[name]
            frame = derived[predicate.written]
            if options.output:
                path = options.output / predicate.written
                write_frame(frame, _export(path, form, len(frame.columns)))
                messages.say(f"wrote {path}")
            else:
                results.append(_result(predicate.written, frame))
        if options.stats is not None:
            facts = {name: derived[name].count() for name in derived}
        for query in program.queries:
            answers = bound.query(frames, _body(query.text), "skip", _ignore_warnings)[ANSWERS]
            results.append(_result(query_name(query.text), answers, "query"))
        skipped = _report_rejects(files, derived, options, messages)
        _report_missing(derived, messages)
    if results:
        print_results(results, Form("table", rows=form.rows) if options.output else form)
    report_statistics(options, choice, perf_counter() - start, facts, skipped)
    return 0


def query(options: Namespace) -> int:
    """The exit code of `tidelog query --engine spark`."""
    from tidelog.spark.shipping import translated_errors
    from tidelog.spark.stages import ANSWERS, needed_for, parse_query

    start = perf_counter()
    form = Form.of(options, "table")
    form.check_mixed()
    check_printable(1, form)
    program, messages = _program(options), Messages(options.quiet)
    needed_program = needed_for(parse_query(options.query, program), program)
    files = _files(options, program, needed_program)
    bound, frames = replace(files.bound, mixed=form.mixed), files.frames
    _warn(bound, options, messages)
    bound.check_one_task(frames, "a query")
    derived = bound.query(frames, options.query, _on_error(options), messages.diagnose)
    answers = derived[ANSWERS]
    if options.limit is not None:
        answers = answers.limit(options.limit)
    with translated_errors(), files.rejecting(), derived.persist():
        result = _result(" ".join(options.query.split()), answers, "query")
        rows = answers.count() if options.stats is not None else 0
        skipped = _report_rejects(files, derived, options, messages)
        _report_missing(derived, messages)
    print_result(result, form)
    report_statistics(options, ONE_QUERY, perf_counter() - start, {"answers": rows}, skipped)
    return 0


def choice_of(options: Namespace, program: Program) -> StrategyChoice:
    """Where a program would run, over its imports and the data files of the options; no job runs."""
    from tidelog.spark.reading.folders import read_program

    session, data = start_session(options), existing_data(options.data)
    header = HEADERS[getattr(options, "input_header", "auto")]
    files = read_program(program, session, data, header, {})
    return files.bound.choose(files.frames, None, None)


def report_statistics(
    options: Namespace, choice: StrategyChoice, seconds: float, facts: Mapping[str, int], skipped: int = 0
) -> None:
    """Report where a program ran and why, and what it derived, if that was requested."""
    if options.stats is None:
        return
    if options.stats == ON_SCREEN:
        counts = ", ".join(f"{name} {rows:,}" for name, rows in facts.items())
        messages = Messages()
        messages.say(described(choice))
        messages.say(
            f"{counted(sum(facts.values()), 'row')}{f': {counts}' if counts else ''}; {seconds:.3f} s in all"
        )
        return
    statistics = {
        "program": str(options.program),
        "engine": "spark",
        **choice_to_json(choice),
        "seconds": {"total": round(seconds, 6)},
        "rows": dict(facts),
        "rows_left_out": skipped,
    }
    with replacing_text(Path(options.stats)) as stream:
        stream.write(json.dumps(statistics, indent=2, ensure_ascii=False).encode() + b"\n")


def described(choice: StrategyChoice) -> str:
    """Where a program runs, in a line.

    >>> described(StrategyChoice())
    'on Spark by task, 1 task: one task derives everything: its facts have to fit in the memory of a worker'
    """
    tasks = f", {counted(choice.tasks, 'task')}" if choice.tasks else ""
    return f"on Spark by {choice.strategy}{tasks}: {choice.reason}"


def choice_to_json(choice: StrategyChoice) -> dict[str, object]:
    """The same as plain JSON values; joins have no number of tasks of their own."""
    return {"strategy": choice.strategy, "tasks": choice.tasks or None, "reason": choice.reason}


def _program(options: Namespace) -> Program:
    """The program; a usage error if options ask for what only a reasoner in this process has."""
    for name, refused in REFUSED.items():
        if getattr(options, name, None):
            raise UsageError(f"{refused} cannot be used with --engine spark")
    return load_beside(options.program, parameters(options), existing_data(options.data), sandbox_of(options))


def start_session(options: Namespace) -> SparkSession:
    """The session of the options."""
    from tidelog.spark.session import SessionSettings, load_pyspark

    for key, _ in options.conf:
        if key.startswith("tidelog.") and key not in SETTINGS:
            raise UsageError(
                f"unknown setting `{key}` of a program on Spark", f"choose one of {', '.join(SETTINGS)}"
            )
    load_pyspark()
    session = SessionSettings(master=options.master, conf=dict(options.conf)).start()
    if session.sparkContext.uiWebUrl:
        Messages(options.quiet).say(f"the Spark UI is at {session.sparkContext.uiWebUrl}")
    return session


def _files(
    options: Namespace, program: Program, needed: Callable[[str], bool] | None = None
) -> ProgramFrames:
    """The program with the frames of its imports and data files, in the session of the options."""
    from tidelog.spark.reading.folders import read_program

    session = start_session(options)
    settings: dict[str, Any] = {
        "modules": options.modules,
        "equality": options.equality,
        "unique_names": options.unique_names,
        "equal": options.equal,
        "timeout": options.timeout,
        "max_facts": options.max_facts,
        "time": time_settings(options),
    }
    data, header = existing_data(options.data), HEADERS[options.input_header]
    return read_program(program, session, data, header, settings, faults_of(options)[0], needed)


def _warn(bound: BoundProgram, options: Namespace, messages: Messages) -> None:
    """Print the warnings about the program and its inputs."""
    files = existing_data(options.data)
    reported = (*warnings(bound.program, files), *unused(bound.program, files).values())
    messages.diagnose((*reported, *(item for item in bound.inferred.warnings if item not in reported)))


def _ignore_warnings(warnings: object) -> None:
    """Print nothing: queries of the program are checked with its rules."""


def _export(path: Path, form: Form, columns: int) -> Export:
    options = WriteOptions(header=form.header, escape_formulas=form.escape_formulas)
    return Export(path, canonical_format(form.format), options, tuple(range(columns)))


def _result(name: str, frame: DataFrame, label: str = "predicate") -> Result:
    """The rows of a frame, fetched, as the command line shows them."""
    table = frame.toArrow()
    types = tuple(
        ColumnType.STRING if pa.types.is_string(of) else ColumnType.ANY for of in table.schema.types
    )
    return Result(name, table.num_columns, lambda: _relation(name, table), label, types)


def _relation(name: str, table: pa.Table) -> Relation:
    """Fetched rows as a relation; a bound of time that is missing is shown as nothing."""
    columns = [
        column.cast(pa.string()).fill_null("") if column.null_count else column for column in table.columns
    ]
    names = [f"c{position}" for position in range(len(columns))]
    types = ["string" if pa.types.is_string(column.type) else "any" for column in columns]
    declared = ", ".join(f"{name}: {of}" for name, of in zip(names, types, strict=True))
    reasoner = Reasoner(f"@declare rows({declared}) .")
    reasoner.insert("rows", pa.Table.from_arrays(columns, names=names))
    ids, rows, dictionary = reasoner["rows"].coded
    return Relation(name, table.column_names, ids, rows, dictionary)


def _body(text: str) -> str:
    return text.strip().removeprefix("?-").removesuffix(".")


def _on_error(options: Namespace) -> str:
    """What tasks do about bad rows: those that are left out are counted, so they are collected, too."""
    return "fail" if faults_of(options)[0] is OnError.FAIL else "collect"


def _report_rejects(files: ProgramFrames, derived: Derived, options: Namespace, messages: Messages) -> int:
    """Say how many rows were left out, write them to a file if that is requested, and return their number.

    Spark rejects most of them as it reads files, and tasks some that only they understand.
    """
    for place, column, rows in files.left_out():
        messages.say(describe_nulls(place, column, Nulls.DROP_ROW.value, rows))
    for row in derived.nulls.sort("predicate", "column").toLocalIterator() if derived.counts_nulls else ():
        if is_counted_apart(row["nulls"]):
            messages.say(describe_nulls(*row))
    on_error, path = faults_of(options)
    if on_error is OnError.FAIL:
        return 0
    faults = RejectedRows(on_error, path)
    for bad in files.rejects():
        faults.add(bad)
    for row in derived.rejects.toLocalIterator():
        faults.add(BadRow(Diagnostic(row.code, row.reason, place=row.place), row.row))
    faults.close()
    if faults.skipped:
        pointer = f"; see {path}" if on_error is OnError.COLLECT else ""
        messages.say(f"skipped {counted(faults.skipped, 'row')} that could not be read{pointer}")
    return faults.skipped


def _report_missing(derived: Derived, messages: Messages) -> None:
    """Say which rows tasks have dropped because a function has no value."""
    if not derived.observation.has_missing:
        return
    from tidelog.engine.missing_values import warn_of

    rows = derived.missing.sort("place", "function").collect()
    messages.diagnose(warn_of([(row["function"], row["place"], row["rows"], row["first"]) for row in rows]))


# ---- `tidelog stream --engine spark`
#
# Each micro-batch is one transaction of the store, applied exactly once: its number is kept there, and in a
# checkpoint next to the store.

DRIVER = StrategyChoice(
    "driver", 0, "changes are applied incrementally: the driver keeps explicit and derived facts in a store"
)
POLL = "100 milliseconds"
LOOK = 0.1  # seconds between two checks whether a stream has ended
# Options that only a stream of change scripts has.
STREAM_REFUSED = {
    "data": ("--data", "add it by `tidelog run --store {store} --data FILE`"),
    "output": ("--output", "`tidelog run --store {store} --output DIR` writes the final facts"),
    "param": ("--param", "the program is the store's"),
}


def check(options: Namespace, names: list[str]) -> None:
    """Raise UsageError if the options do not suit a stream on Spark."""
    if options.store is None:
        raise UsageError(
            "--engine spark needs --store DIR, where the number of each batch is kept",
            f"`tidelog run {options.program} --store DIR` makes one, then name that instead of the program",
        )
    for name, (refused, help) in STREAM_REFUSED.items():
        if getattr(options, name, None):
            raise UsageError(
                f"{refused} cannot be used with stream --engine spark", help.format(store=options.store)
            )
    if options.marking not in ("auto", "none"):
        raise UsageError("--marking cannot be used with stream --engine spark: no update is known in advance")
    if STANDARD_INPUT in names:
        raise UsageError(
            "Spark does not read changes from standard input",
            "name folders of files, each named after the predicate whose rows it holds",
        )


def stream(options: Namespace, names: list[str], form: Form) -> int:
    """The exit code of `tidelog stream --engine spark`."""
    from tidelog.cli.updates import check_sources

    check(options, names)
    check_sources(names, options.follow)
    session = start_session(options)
    messages = Messages(options.quiet)
    from tidelog.spark.reading.folders import incoming

    batches = BatchReport(options, form, messages)
    maintained = _maintained(options, batches)
    paths = [Path(name) for name in names]
    frame, selected = incoming(session, maintained.program, paths, HEADERS[options.input_header])
    messages.say(described(DRIVER))
    try:
        code = _follow(maintained, frame, selected, batches, options)
    finally:
        maintained.close()
    batches.summarise()
    return code


def _maintained(options: Namespace, batches: BatchReport) -> Maintained:
    """The store of the options, maintained by batches."""
    from tidelog.spark.maintenance import maintain

    return maintain(
        None,
        options.store,
        on_change=batches.publish,
        on_error=("fail" if batches.on_error is OnError.FAIL else "collect"),
        missing=options.missing,
        durability=options.durability or "full",
        maintainer=options.maintainer,
        modules=options.modules,
        threads=options.threads,
        timeout=options.timeout,
        max_facts=options.max_facts,
    )


def _follow(
    maintained: Maintained, whole: DataFrame, selected: Any, batches: BatchReport, options: Namespace
) -> int:
    """Apply all batches, until there are no more or Ctrl-C; the exit code of the worst that happened."""
    from tidelog.spark.reading.folders import selections
    from tidelog.spark.shipping import translated_errors

    working = Lock()  # held while a batch is applied, in a thread of Spark's
    faults: list[BaseException] = []
    worst = 0

    def apply(frame: DataFrame, batch_id: int) -> None:
        nonlocal worst
        with working:
            try:
                start = perf_counter()
                with translated_errors():
                    changes = maintained.apply(changes=selections(selected, frame), batch_id=batch_id)
                batches.record(changes, batch_id, perf_counter() - start)
            except BaseException as error:  # noqa: BLE001 - Spark would only keep its text
                if not (options.keep_going and isinstance(error, TidelogError)):
                    faults.append(error)
                    raise RuntimeError(f"batch {batch_id} failed") from None  # so that it comes again
                batches.messages.diagnose(error.diagnostics)
                worst = max(worst, error.exit_code)

    writer = whole.writeStream.foreachBatch(apply)
    writer = writer.option("checkpointLocation", str(checkpoint_of(options.store)))
    writer = writer.trigger(processingTime=POLL) if options.follow else writer.trigger(availableNow=True)
    with translated_errors(), interrupted() as has_ended:
        query = writer.start()
        try:
            while not has_ended.wait(LOOK) and query.isActive:
                pass
            if not query.isActive:
                query.awaitTermination()  # raises what ended it
                return worst
            with working:  # a batch that is being applied is applied as a whole
                query.stop()
            batches.messages.say("interrupted while waiting: the stream has ended")
        except Exception:
            if faults:
                batches.report_failure()
                raise faults[0] from None
            raise
    return worst


@contextmanager
def interrupted() -> Iterator[Event]:
    """In the block, Ctrl-C sets the event: pyspark would cancel all jobs, and break calls of Java off."""
    event = Event()
    before = signal.getsignal(signal.SIGINT)
    if current_thread() is not main_thread() or before is signal.SIG_IGN:
        yield event
        return
    signal.signal(signal.SIGINT, lambda number, frame: event.set())
    try:
        yield event
    finally:
        signal.signal(signal.SIGINT, before)


def checkpoint_of(store: Path) -> Path:
    """The folder in which Spark keeps how far it has read."""
    resolved = store.resolve()
    return resolved.with_name(f"{resolved.name}.checkpoint")


class BatchReport:
    """What batches have changed so far. Mutable: it grows with each."""

    def __init__(self, options: Namespace, form: Form, messages: Messages) -> None:
        self.messages = messages
        self.on_error, self._rejects = faults_of(options)
        self._options = options
        self._form = form
        self._folder = None if options.deltas is None else DeltaFolder(options.deltas, form, continued=True)
        self._prints = options.format == "jsonl" and options.deltas is None
        self._faults = RejectedRows(self.on_error, self._rejects)
        self.added = self.removed = self.repeated = 0
        self.seconds: list[float] = []

    def publish(self, changes: Changes, batch_id: int | None) -> None:
        """Write what a batch changes, before it is committed: after a failure it is written again."""
        assert changes.delta is not None and batch_id is not None
        if self._folder is not None:
            self._folder.write(changes.delta, changes.program, batch_id)
        if self._prints:
            print_lines(changes.delta, self._form, batch=batch_id)

    def record(self, changes: Changes, batch_id: int, seconds: float) -> None:
        """Report a batch that is committed."""
        if changes.delta is None:
            self.repeated += 1
            self.messages.say(f"batch {batch_id} has been applied already")
            return
        self.messages.diagnose(changes.notices)
        for place, code, reason, row in changes.rejected:
            self._faults.add(BadRow(Diagnostic(code, reason, place=place), row))
        self.added += changes.delta.added
        self.removed += changes.delta.removed
        self.seconds.append(seconds)
        self.messages.say(f"batch {batch_id}: {changes.delta}  {duration(seconds)}")

    def report_failure(self) -> None:
        """Print what was committed before the stream ended with an error."""
        batches = len(self.seconds)
        self.messages.say(f"stopped after {counted(batches, 'batch', 'batches')}: the next one failed")

    def summarise(self) -> None:
        """Report the whole stream, with statistics if they were requested."""
        self._faults.close()
        if self._faults.skipped:
            kept = f"; see {self._rejects}" if self.on_error is OnError.COLLECT else ""
            self.messages.say(f"skipped {counted(self._faults.skipped, 'row')} that could not be read{kept}")
        done, total = len(self.seconds), duration(sum(self.seconds))
        self.messages.say(f"{counted(done, 'batch', 'batches')}: {counts(self.added, self.removed)}  {total}")
        if self._options.stats not in (None, ON_SCREEN):
            with replacing_text(Path(self._options.stats)) as stream:
                stream.write(json.dumps(self._to_json(), indent=2, ensure_ascii=False).encode() + b"\n")

    def _to_json(self) -> dict[str, object]:
        return {
            "store": str(self._options.store),
            "engine": "spark",
            **choice_to_json(DRIVER),
            "rows_left_out": self._faults.skipped,
            "batches": {
                "count": len(self.seconds),
                "repeated": self.repeated,
                "added": self.added,
                "removed": self.removed,
                "seconds": [round(seconds, 6) for seconds in self.seconds],
            },
        }
