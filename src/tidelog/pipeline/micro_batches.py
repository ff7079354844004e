"""Streams: each micro-batch of Structured Streaming is one transaction, and publishes one version.

Exactly once: a version records its stream and batch. Spark logs the contents of a batch before it begins,
and its completion after the version has been published; if the process ends in between, the same batch is
repeated, and skipped if its version is the current one.

Event time: the watermark of a batch is the largest event time less the delay, the minimum over the streams
of the job. It is kept with the version. In the next batch, records of earlier times are rejected, and time
first advances to it if there are rules over time.
"""

from __future__ import annotations

import json
from collections.abc import Callable, Sequence
from contextlib import ExitStack
from dataclasses import replace
from fractions import Fraction
from pathlib import Path
from threading import Lock
from time import time as now
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote, urlparse

from tidelog.errors import DataError, Diagnostic, ProgramError, SourceText, TidelogError, codes
from tidelog.io.data_file import file_name
from tidelog.io.rejects import BadRow, OnError, RejectedRows
from tidelog.logic.change_scripts import transactions
from tidelog.logic.intervals import read_point, write_point
from tidelog.logic.program import Predicate, Program
from tidelog.maintenance.maintainer import Update
from tidelog.pipeline.job import Job
from tidelog.pipeline.job_file import FILE_STREAMS
from tidelog.pipeline.job_settings import Settings, Stream, is_on_connect
from tidelog.pipeline.source_files import find_named
from tidelog.pipeline.stream_records import RecordCounts, Records, RecordShape, TimedRecords
from tidelog.pipeline.version_folder import Manifest, MicroBatch, StreamProgress, no_advance
from tidelog.reasoner.delta import Delta
from tidelog.reasoner.transaction import Change
from tidelog.records import dataclass
from tidelog.syntax import ast
from tidelog.syntax.parser import parse
from tidelog.temporal.metric_rules import time_cycle
from tidelog.temporal.periodic import looked_back

if TYPE_CHECKING:
    from tidelog.pipeline.stream_sources import IncomingRecords, IncomingStream


# ---- The checkpoint of Spark: the id of the stream, and the files that have been read.


def stream_of(checkpoint: Path) -> str:
    """Return the id of the stream of a checkpoint, which is the same after every restart."""
    metadata = json.loads((checkpoint / "metadata").read_text(encoding="utf-8"))
    return str(metadata["id"])


def files_in_batches(checkpoint: Path) -> set[str]:
    """Return the files in the batches so far."""
    files: set[str] = set()
    for log in (checkpoint / "sources" / "0").glob("[0-9]*"):
        _version, *lines = log.read_text(encoding="utf-8").splitlines() or [""]
        for line in lines:
            if line.startswith("{"):
                files.add(unquote(urlparse(json.loads(line)["path"]).path))
    return files


def next_files(folder: Path, endings: tuple[str, ...], checkpoint: Path, count: int) -> list[Path]:
    """Return the existing files that Spark will read next, the oldest first."""
    read_files = files_in_batches(checkpoint)
    candidates = []
    for path in folder.iterdir():
        if not path.name.endswith(endings):
            continue
        if not path.name.startswith((".", "_")) and str(path.resolve()) not in read_files:
            candidates.append((path.stat().st_mtime_ns, str(path), path))
    return [path for *_, path in sorted(candidates)[:count]]


CHECKPOINT = ".stream"
QUERY = "sql.streaming.queryId"  # the property of Spark with the stream of a batch

Notify = Callable[[Manifest], None]


def follow(job: Job, told: Notify | None = None, *, available_now: bool = False) -> None:
    """Apply the records of a job's streams, until they end."""
    with RunningStreams(job, None, told=told, available_now=available_now) as following:
        following.wait()


# ---- errors that are found before anything starts


def check_streams(job: Job, streams: Sequence[Stream] | None = None) -> list[Predicate | None]:
    """Return the predicates that records of streams change, by default of the job's streams.

    Raise `DataError` with all errors of the streams. Nothing is started.
    """
    checked_streams = job.settings.streams if streams is None else streams
    if not checked_streams:
        help = "add a table [stream] to the job, or give a streaming DataFrame"
        raise DataError(Diagnostic(codes.NO_STREAM, "the job has no stream", help=help))
    program, predicates, faults = job.program(), list[Predicate | None](), list[Diagnostic]()
    for stream in checked_streams:
        try:
            predicate = _checked(job.settings, stream, program)
        except TidelogError as error:
            faults += error.diagnostics
            continue
        if predicate is not None and predicate in predicates:
            message = f"two streams change `{predicate.written}`: which record is the last one is not known"
            help = "use one predicate for each, and combine them by a rule"
            faults.append(Diagnostic(codes.NO_STREAM, message, stream.span, help))
        predicates.append(predicate)
    faults += _wrong_watermark(job.settings, checked_streams, program)
    if faults:
        raise DataError(faults)
    return predicates


def _checked(settings: Settings, stream: Stream, program: Program) -> Predicate | None:
    if stream.path is not None and "://" not in stream.path.removeprefix("file://"):
        folder = settings.resolve(stream.path)
        if not folder.is_dir():
            raise DataError(Diagnostic(codes.NO_FILES, f"no such folder: `{folder}`", stream.span))
    if stream.predicate is None:
        return None
    predicate = find_named(stream.predicate, program, stream.span)
    is_timed = predicate.name in program.timed
    if is_timed != bool(stream.times):
        records, holds = ("no times", "is temporal") if is_timed else ("times", "is not temporal")
        message = f"the stream's records have {records}, but `{predicate.written}` {holds}"
        help = "name the time columns: `time`" if is_timed else "leave `time` out"
        raise DataError(Diagnostic(codes.TIMED, message, stream.span, help))
    return predicate


def _wrong_watermark(settings: Settings, streams: Sequence[Stream], program: Program) -> list[Diagnostic]:
    """Return errors if time cannot advance by the watermark of streams."""
    stream = next((stream for stream in streams if stream.event_time is not None), None)
    if stream is None:
        return []
    faults = []
    if stream.event_time in ("interval", "duration") and stream.event_time in stream.times:
        message = f"`{stream.event_time}` is not a time column that can be the event time"
        faults.append(Diagnostic(codes.TIMED, message, stream.span, 'use time = ["start", "end"]'))
    if program.timed_rules and settings.engine.horizon is not None:
        message = "time cannot advance by a watermark where the engine has a `horizon`"
        help = "remove the horizon: facts before the watermark are forgotten anyway"
        faults.append(Diagnostic(codes.TIMED, message, stream.span, help))
    elif time_cycle(program.timed_rules):
        message = "time cannot advance by a watermark: facts derived by these rules repeat for ever"
        help = "leave `event-time` out, or let no rule depend on itself at another time"
        faults.append(Diagnostic(codes.TIMED, message, stream.span, help))
    try:
        looked_back(program)
    except ProgramError as error:
        faults += error.diagnostics
    return faults


# ---- the query


class RunningStreams:
    """Streams that run; no other process can publish meanwhile. Mutable."""

    def __init__(
        self,
        job: Job,
        frame: Any = None,
        *,
        told: Notify | None = None,
        available_now: bool = False,
        streams: Sequence[Stream] | None = None,
    ) -> None:
        streams = tuple(job.settings.streams if streams is None else streams)
        check_streams(job, streams)
        if job.store.number is None:
            job.run()
        self._job = job
        self._streams = streams
        checkpoint = streams[0].checkpoint or f"{job.settings.publish}/{CHECKPOINT}"
        # Absolute, as the process of Spark may be in another folder.
        self.checkpoint = job.settings.resolve(checkpoint).resolve()
        self._batches = BatchPublisher(job, streams, told, self.checkpoint, is_read=frame is None)
        self._resources = ExitStack()
        self._is_here = not is_on_connect(job.session)
        if self._is_here:
            self._resources.enter_context(job)  # its reasoner stays open, and its state locked
        try:
            self._query = self._start(frame if frame is not None else self._read(), available_now)
        except BaseException:
            self._resources.close()
            raise

    def _read(self) -> Any:
        """Return the streams as one streaming DataFrame."""
        from tidelog.pipeline.stream_sources import combine, read_stream

        folder = self._job.settings.folder
        return combine([read_stream(self._job.session, stream, folder) for stream in self._streams])

    def _start(self, frame: Any, available_now: bool) -> Any:
        self._job.refresh_sinks()  # and publish the transaction of a killed process
        self._job.reasoner()  # raises errors of the published version now
        if not self._is_here:
            self._job.close()  # a process of the server opens it
        writer = frame.writeStream.foreachBatch(self._batches).option(
            "checkpointLocation", str(self.checkpoint)
        )
        writer = writer.queryName(f"tidelog {self._job.settings.publish}")
        if available_now:
            writer = writer.trigger(availableNow=True)
        elif self._streams[0].trigger is not None:
            writer = writer.trigger(processingTime=f"{int(self._streams[0].trigger * 1000)} milliseconds")
        return writer.start()

    # ---- until it ends

    def wait(self, seconds: float | None = None) -> bool:
        """Wait for the end, or the timeout; return whether the stream has ended, raise its error."""
        try:
            ended = self._query.awaitTermination(*(() if seconds is None else (seconds,)))
        except Exception as error:  # noqa: BLE001 - Spark wraps whatever a batch raises
            raise self._reason(error) from None
        return True if seconds is None else bool(ended)

    def _reason(self, error: Exception) -> BaseException:
        if self._batches.fault is not None:
            return self._batches.fault
        reason = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        return DataError(Diagnostic(codes.NO_STREAM, f"the stream has ended: {reason}"))

    def stop(self) -> None:
        """End the stream, after the current batch has been published."""
        try:
            self._query.stop()
        finally:
            self._batches.close()  # no other process publishes before the batch is done
            self._resources.close()

    def __enter__(self) -> RunningStreams:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()


# ---- batches


@dataclass(frozen=True)
class _Pickled:
    """A `BatchPublisher` as it is pickled for a process of a server of Spark Connect."""

    settings: Settings
    streams: tuple[Stream, ...]
    told: Notify | None
    checkpoint: Path | None
    is_read: bool

    def __reduce__(self) -> tuple[Any, ...]:
        return _restored, (self.settings, self.streams, self.told, self.checkpoint, self.is_read)


def _restored(settings: Settings, *fields: Any) -> BatchPublisher:
    return BatchPublisher(Job.of(settings), *fields)


class BatchPublisher:
    """A function for `foreachBatch`: it applies the batches of a job's streams, each of them once.

    It can be pickled: the reasoner belongs to the process that uses it, and stays open there until `close`.
    Mutable.
    """

    def __init__(
        self,
        job: Job,
        streams: tuple[Stream, ...],
        told: Notify | None = None,
        checkpoint: Path | None = None,
        is_read: bool = False,
    ) -> None:
        self.job = job
        self.streams = streams
        self.fault: BaseException | None = None
        self.working = Lock()  # held during a batch, which Spark applies in a thread of its own
        self._notify = told
        self._checkpoint = checkpoint
        self._is_read = is_read  # its frame is read from the job's own streams
        self._open: ExitStack | None = None

    def __reduce__(self) -> tuple[Any, ...]:
        """Return the pickled form for a server of Spark Connect, with the package if needed."""
        from tidelog.spark.session import scratch_folder
        from tidelog.spark.shipping import carried

        settings = replace(self.job.settings, folder=self.job.settings.folder.resolve())
        pickled = _Pickled(settings, self.streams, self._notify, self._checkpoint, self._is_read)
        return carried(pickled, scratch_folder())

    def __call__(self, frame: Any, batch_id: int) -> None:
        """Publish the changes of a batch, unless it is published already."""
        with self.working:
            try:
                if self._open is None:
                    self._open = ExitStack()
                    self._open.enter_context(self.job)
                self._apply(frame, batch_id)
            except BaseException as fault:
                self.fault = fault
                raise

    def close(self) -> None:
        """Close the reasoner, so that other processes can publish; the next batch opens it again."""
        with self.working:
            if self._open is not None:
                self._open.close()
                self._open = None

    def __enter__(self) -> BatchPublisher:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()

    def _apply(self, frame: Any, number: int) -> None:
        current = self.job.store.manifest()
        stream = stream_of(self._checkpoint) if self._checkpoint is not None else _query_of(frame)
        published = current.batch
        before = published if published is not None and published.stream == stream else None
        if before is not None and number <= before.batch:
            self.job.reached("batch skipped", str(number))
            return
        is_kept = len(self.streams) > 1
        if is_kept:
            frame.persist()  # each stream reads its own rows
        try:
            run = _BatchRun(self, frame, number, stream, before)
            manifest = self.job.transact(
                run.fill,
                "stream",
                missing="ignore",
                batch=run.provisional_summary,
                summary=run.summary,
                peek=self._peek,
                advance=None if before is None else before.watermark,
            )
        finally:
            if is_kept:
                frame.unpersist()
        self.job.reached("batch published", str(number))
        if self._notify is not None:
            self._notify(manifest)

    def incoming(self, stream: Stream) -> IncomingStream:
        """Return how the records of a stream are read."""
        from tidelog.pipeline.stream_sources import IncomingStream

        program = self.job.open_reasoner.program
        predicate = find_named(str(stream.predicate), program, stream.span)
        return IncomingStream.of(stream, predicate, program)

    def records(
        self, shape: RecordShape, stream: Stream, faults: RejectedRows, highest: str | None
    ) -> Records:
        """Return an empty collection for the records of a stream."""
        reasoner = self.job.open_reasoner
        parts = shape, reasoner.engine, faults, highest, stream.missing == "ignore"
        return TimedRecords(reasoner.time, *parts) if stream.times else Records(*parts)

    def _peek(self) -> Update | None:
        """Return the facts that the next batch changes, if its files exist; None if unknown."""
        from tidelog.pipeline.stream_sources import IncomingRecords, endings_of

        stream = self.streams[0]
        if len(self.streams) > 1 or not self._is_read or stream.format not in FILE_STREAMS or stream.times:
            return None  # points of time have no marks
        if "://" in str(stream.path) or stream.bytes_per_batch is not None or self._checkpoint is None:
            return None
        folder = self.job.settings.resolve(str(stream.path))
        files = next_files(folder, endings_of(stream.format), self._checkpoint, stream.files_per_batch or 1)
        if not files:
            return None
        incoming = self.incoming(stream)
        records = self.records(incoming.shape, stream, RejectedRows(OnError.SKIP), None)
        try:
            paths = [str(path.resolve()) for path in files]
            reading, _ = incoming.of_files(self.job.session, paths)
            incomes = IncomingRecords(incoming, reading, tuple(paths), None)
            for batch, positions in incomes.batches(self.job.store.incoming):
                records.gather(batch, positions)
        except (OSError, TidelogError):
            return None  # the batch itself will raise it
        changed = records.changed()
        name = incoming.shape.predicate.name
        removed = {name: changed.removed} if changed.removed.count else {}
        return Update(removed, {name: changed.added} if changed.added.count else {})


def _query_of(frame: Any) -> str:
    """Return the id of the query of a batch; Connect does not report it."""
    if is_on_connect(frame.sparkSession):
        return "batches"
    return str(frame.sparkSession.sparkContext.getLocalProperty(QUERY) or "batches")


class _BatchRun:
    """One batch, from its records to its summary in the manifest. Mutable."""

    def __init__(
        self, batches: BatchPublisher, frame: Any, number: int, stream: str, before: MicroBatch | None
    ) -> None:
        self._batches = batches
        self._job = batches.job
        self._frame = frame
        self._number = number
        self._id = stream
        self._before = before
        self._now = now()
        version = (self._job.store.number or 0) + 1
        self._folder = self._job.store.rejects(version) / "stream"
        self._faults = RejectedRows(OnError.COLLECT, self._folder / "records.csv")
        self._files: tuple[str, ...] = ()
        self._tally = RecordCounts()
        self._rejected = 0  # by tasks, which write them
        self._progress: dict[str, StreamProgress] = {}
        self._timed: list[tuple[Stream, StreamProgress]] = []  # of streams with an event time

    def fill(self, change: Change) -> None:
        """Add the changes of the records to a transaction."""
        from tidelog.pipeline.stream_sources import rows_of

        streams = self._batches.streams
        for place, stream in enumerate(streams):
            rows = rows_of(self._frame, place, len(streams))
            if stream.format == "changes":
                self._apply_scripts(rows, change)
            else:
                self._apply_records(self._batches.incoming(stream), rows, change)

    # ---- records

    def _apply_records(self, incoming: IncomingStream, rows: Any, change: Change) -> None:
        stream, name = incoming.stream, incoming.name
        before = self._progress_before(name)
        records = self._batches.records(incoming.shape, stream, self._faults, before.order)
        records.place = stream.shown
        incomes = incoming.records(rows, None if self._before is None else self._before.watermark)
        for batch, positions in incomes.batches(self._job.store.incoming):
            records.gather(batch, positions)
        self._note_rejects(incomes, name)
        if isinstance(records, TimedRecords):
            records.fill(change)
        else:
            changed = records.changed()
            change.delete_rows(incoming.shape.predicate.name, changed.removed)
            change.insert_rows(incoming.shape.predicate.name, changed.added)
        tally, rejected = records.tally, incomes.rejected
        count = tally.records + rejected["malformed"] + rejected["late"]
        self._tally.records += count
        self._tally.duplicates += tally.duplicates
        self._tally.missing += tally.missing
        self._tally.late += tally.late + rejected["late"]
        event = _later(before.event, incomes.latest)
        self._progress[name] = StreamProgress(tally.order, event, self._now if count else before.seen)
        if stream.event_time is not None:
            self._timed.append((stream, self._progress[name]))

    def _progress_before(self, name: str) -> StreamProgress:
        """Return the progress of a stream before the batch; a new one is idle from now on."""
        before = self._before
        if before is None:
            return StreamProgress(seen=self._now)
        order = before.order if len(self._batches.streams) == 1 else None  # older versions have it here
        return before.progress.get(name, StreamProgress(order, seen=self._now))

    def _note_rejects(self, incomes: IncomingRecords, name: str) -> None:
        for error in incomes.refused:
            self._faults.add(BadRow(error.diagnostics[0], ""))
        self._files += tuple(Path(path).name for path in incomes.files)
        count = sum(incomes.rejected.values())
        self._rejected += count
        if count:
            incomes.write_rejects(self._folder / file_name(name, "csv"))

    # ---- change scripts

    def _apply_scripts(self, rows: Any, change: Change) -> None:
        from tidelog.pipeline.stream_sources import path_of

        files = rows.select("path", "modificationTime", "content").collect()
        files.sort(key=lambda row: (row.modificationTime, row.path))
        for row in files:
            path = path_of(row.path)
            self._files += (Path(path).name,)
            self._apply_script(path, bytes(row.content), change)

    def _apply_script(self, name: str, content: bytes, change: Change) -> None:
        """Add a change script to the transaction; one that has errors is rejected as a whole."""
        try:
            source = SourceText(name, content.decode("utf-8"))
            documents = list(transactions(parse(source)))
            if len(documents) > 1:
                message = f"a file is one transaction, and this one has {len(documents)}"
                raise DataError(Diagnostic(codes.BAD_RECORD, message, place=name))
            for document in documents:
                refuse_advance(document, name)
                self._tally.records += len(document.statements)
                change.take(document)
        except UnicodeDecodeError:
            fault = Diagnostic("E505", "the text is not UTF-8", place=name)
            self._reject(DataError(fault), name, content)
        except TidelogError as error:
            self._reject(error, name, content)

    def _reject(self, error: TidelogError, place: str, content: bytes) -> None:
        """Reject a whole file, with the first error."""
        fault = error.diagnostics[0]
        diagnostic = Diagnostic(fault.code, fault.message, place=fault.location or place)
        self._faults.add(BadRow(diagnostic, content.decode("utf-8", "surrogateescape")))

    def summary(self, change: Change) -> MicroBatch:
        """Return the summary of the batch after its transaction has been committed."""
        self._note_missing(change.delta)
        self._faults.close()
        return self.provisional_summary()

    def provisional_summary(self) -> MicroBatch:
        """Return the summary of the batch after its records have been read, before the commit."""
        tally, skipped = self._tally, self._faults.skipped + self._rejected
        (first, *further) = self._progress.values() or [StreamProgress()]
        return MicroBatch(
            self._id,
            self._number,
            self._files,
            tally.records,
            tally.duplicates,
            tally.missing,
            tally.late,
            skipped,
            None if further else first.order,
            self._job.store.relative(self._folder) if skipped else None,
            self._watermark(),
            self._progress,
        )

    def _watermark(self) -> str | None:
        """Return the time before which everything is final after the batch."""
        before = None if self._before is None else self._before.watermark
        streams, progress = zip(*self._timed, strict=True) if self._timed else ((), ())
        return watermark(streams, progress, self._now, before)

    def _note_missing(self, delta: Delta) -> None:
        """Count the facts that scripts delete but that did not exist."""
        for notice in delta.notices:
            if notice.code == codes.ROWS_DROPPED:
                continue
            self._tally.missing += 1
            if any(each.format == "changes" and each.missing == "reject" for each in self._batches.streams):
                text = notice.span.text if notice.span is not None else ""
                diagnostic = Diagnostic(notice.code, notice.message, place=notice.location)
                self._faults.add(BadRow(diagnostic, text))


def refuse_advance(document: ast.DocumentNode, place: str) -> None:
    """Raise `DataError` if a change script advances time."""
    if any(isinstance(statement, ast.AdvanceDirectiveNode) for statement in document.statements):
        raise no_advance(place)


# ---- event time


def watermark(
    streams: Sequence[Stream], progress: Sequence[StreamProgress], at: float, before: str | None
) -> str | None:
    """Return the time before which no more records are expected; it never decreases.

    A stream without records for its `idle` seconds does not delay it.
    """
    marks: list[Fraction] = []
    is_calendar = False
    for stream, reached in zip(streams, progress, strict=True):
        if stream.idle is not None and at - reached.seen > stream.idle:
            continue
        if reached.event is None:
            return before
        point, is_moment = read_point(reached.event)
        assert point is not None, "an event has a time"
        marks.append(point - Fraction(str(stream.delay)))
        is_calendar |= is_moment
    if not marks:
        return before
    return _later(before, write_point(min(marks), is_calendar))


def _later(left: str | None, right: str | None) -> str | None:
    """Return the later of two points of time in text form."""
    if left is None or right is None:
        return right if left is None else left
    return max(left, right, key=lambda text: read_point(text)[0] or Fraction(0))
