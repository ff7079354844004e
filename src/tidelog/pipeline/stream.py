"""Streams: each micro-batch of Structured Streaming is one transaction, and publishes one version.

Exactly once: a version names the stream and the batch that it was made of. Spark writes down what a batch
consists of before it begins, and that it is done after we are; in between, however the process ends, the same
batch comes again, and is passed over if its version is the current one.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import ExitStack
from pathlib import Path
from threading import Lock
from typing import Any
from urllib.parse import unquote, urlparse

from tidelog.changes import Delta
from tidelog.errors import DataError, Diagnostic, Source, TidelogError
from tidelog.io.faults import BadRow, Faults, OnError
from tidelog.logic.changes import transactions
from tidelog.logic.program import Predicate
from tidelog.maintenance.maintainer import Update
from tidelog.pipeline import codes
from tidelog.pipeline.checkpoint import next_files, stream_of
from tidelog.pipeline.continuing import no_advance
from tidelog.pipeline.job import Job
from tidelog.pipeline.manifest import Batch, Manifest
from tidelog.pipeline.records import Records, Shape, Tally, contents
from tidelog.pipeline.settings import Stream
from tidelog.pipeline.source_files import find_named
from tidelog.pipeline.timed_records import TimedRecords
from tidelog.syntax import ast
from tidelog.syntax.parser import parse
from tidelog.transaction import Change

CHECKPOINT = ".stream"
PATTERNS = {"csv": "*.csv", "tsv": "*.tsv", "jsonl": "*.jsonl", "changes": "*.rls"}

Told = Callable[[Manifest], None]


def follow(job: Job, told: Told | None = None, *, available_now: bool = False) -> None:
    """Carry out the changes that come to a job's stream, until it ends."""
    with Following(job, None, told=told, available_now=available_now) as following:
        following.wait()


def check_stream(job: Job, stream: Stream | None = None) -> Predicate | None:
    """Return the predicate that records of a stream change, of the job's own if none is given.

    Raises `DataError` for what is wrong with the stream. Nothing is started.
    """
    settings = stream or job.settings.stream
    if settings is None:
        help = "add a table [stream] to the job, or give a streaming DataFrame"
        raise DataError(Diagnostic(codes.NO_STREAM, "the job has no stream", help=help))
    if settings.path is not None and not (folder := job.settings.resolve(settings.path)).is_dir():
        raise DataError(Diagnostic(codes.NO_FILES, f"there is no folder `{folder}`", settings.span))
    if settings.predicate is None:
        return None
    predicate = find_named(settings.predicate, job.program(), settings.span)
    is_timed = predicate.name in job.program().timed
    if is_timed != bool(settings.times):
        records, holds = ("no times", "at times") if is_timed else ("times", "always")
        message = f"the stream's records have {records}, and `{predicate.written}` holds {holds}"
        help = "name the columns that say when: `time`" if is_timed else "leave `time` out"
        raise DataError(Diagnostic(codes.TIMED, message, settings.span, help))
    return predicate


class Following:
    """A stream that is being followed. Nobody else publishes meanwhile. Mutates itself."""

    def __init__(
        self,
        job: Job,
        frame: Any = None,
        *,
        told: Told | None = None,
        available_now: bool = False,
        stream: Stream | None = None,
    ) -> None:
        self._predicate = check_stream(job, stream)
        settings = stream or job.settings.stream
        assert settings is not None
        if job.store.number is None:
            job.run()
        self._job = job
        self._stream = settings
        self._told = told
        self._is_frame = frame is not None
        self._fault: BaseException | None = None
        self._working = Lock()  # held while a batch is worked on: Spark does that in a thread of its own
        named = settings.checkpoint or f"{job.settings.publish}/{CHECKPOINT}"
        self.checkpoint = job.settings.resolve(named).resolve()  # Spark may be somewhere else
        self._held = ExitStack()
        self._held.enter_context(job)  # its reasoner stays at hand, and nobody else changes its state
        try:
            self._query = self._start(frame if frame is not None else self._files(), available_now)
        except BaseException:
            self._held.close()
            raise

    def _files(self) -> Any:
        """The files of the stream's folder as a streaming DataFrame."""
        assert self._stream.path is not None
        folder = self._job.settings.resolve(self._stream.path)
        return (
            self._job.session.readStream.format("binaryFile")
            .schema("path string, modificationTime timestamp, length bigint, content binary")
            .option("maxFilesPerTrigger", self._stream.files_per_batch)
            .option("pathGlobFilter", PATTERNS[self._stream.format])
            .load(str(folder.resolve()))
        )

    def _start(self, frame: Any, available_now: bool) -> Any:
        self._job.refresh_sinks()  # and all that a process has left behind that was killed
        self._job.reasoner()  # what is wrong with the published version is told now
        writer = frame.writeStream.foreachBatch(self._handle).option(
            "checkpointLocation", str(self.checkpoint)
        )
        writer = writer.queryName(f"tidelog {self._job.settings.publish}")
        if available_now:
            writer = writer.trigger(availableNow=True)
        elif self._stream.trigger is not None:
            writer = writer.trigger(processingTime=f"{int(self._stream.trigger * 1000)} milliseconds")
        return writer.start()

    # ---- until it ends

    def wait(self, seconds: float | None = None) -> bool:
        """Whether the stream has ended, after it has, or after so many seconds; raises what ended it."""
        try:
            ended = self._query.awaitTermination(*(() if seconds is None else (seconds,)))
        except Exception as error:  # noqa: BLE001 - Spark wraps whatever a batch raises
            raise self._reason(error) from None
        return True if seconds is None else bool(ended)

    def process_all(self) -> None:
        """Return when all changes that are there have been taken."""
        try:
            self._query.processAllAvailable()
        except Exception as error:  # noqa: BLE001 - Spark wraps whatever a batch raises
            raise self._reason(error) from None

    def _reason(self, error: Exception) -> BaseException:
        if self._fault is not None:
            return self._fault
        reason = next((line for line in str(error).splitlines() if line.strip()), type(error).__name__)
        return DataError(Diagnostic(codes.NO_STREAM, f"the stream has ended: {reason}"))

    def stop(self) -> None:
        """End the stream, when the batch that is being worked on has been published."""
        try:
            self._query.stop()
        finally:
            with self._working:  # nobody else publishes before the batch is done
                self._held.close()

    def __enter__(self) -> Following:
        return self

    def __exit__(self, *_: object) -> None:
        self.stop()

    # ---- batches

    def _handle(self, frame: Any, number: int) -> None:
        """Publish what a batch changes, unless that has been done."""
        with self._working:
            try:
                self._take(frame, number)
            except BaseException as fault:
                self._fault = fault
                raise

    def _take(self, frame: Any, number: int) -> None:
        current = self._job.store.manifest()
        stream = stream_of(self.checkpoint)
        done = current.batch
        if done is not None and done.stream == stream and number <= done.batch:
            self._job.reached("batch skipped", str(number))
            return
        taking = _Taking(self, frame, number, stream, done)
        manifest = self._job.transact(
            taking.fill,
            "stream",
            missing="ignore",
            batch=taking.so_far,
            summary=taking.summary,
            peek=self._peek,
        )
        self._job.reached("batch published", str(number))
        if self._told is not None:
            self._told(manifest)

    @property
    def shape(self) -> Shape:
        """The columns of the records."""
        assert self._predicate is not None
        return Shape.of(self._stream, self._predicate, self._job.reasoner().program)

    def _peek(self) -> Update | None:
        """The facts that the next batch changes, if its files are there; None if that is not known."""
        if self._is_frame or self._stream.format == "changes" or self._stream.path is None:
            return None
        if self._stream.times:
            return None  # nothing marks points of time
        folder = self._job.settings.resolve(self._stream.path)
        pattern = PATTERNS[self._stream.format]
        files = next_files(folder, pattern, self.checkpoint, self._stream.files_per_batch)
        if not files:
            return None
        reasoner = self._job.reasoner()
        records = Records(self.shape, reasoner.engine, Faults(OnError.SKIP), None)
        try:
            for file in contents([(str(path), path.read_bytes()) for path in files], self._stream):
                records.read(file)
        except (OSError, TidelogError):
            return None  # it is told when its turn has come
        changed = records.changed()
        name = self.shape.predicate.name
        removed = {name: changed.removed} if changed.removed.count else {}
        return Update(removed, {name: changed.added} if changed.added.count else {})


class _Taking:
    """One batch, from its records to what the manifest tells of it. Mutates itself."""

    def __init__(
        self, following: Following, frame: Any, number: int, stream: str, before: Batch | None
    ) -> None:
        self._following = following
        self._job = following._job
        self._stream = following._stream
        self._frame = frame
        self._number = number
        self._id = stream
        self._highest = before.order if before is not None and before.stream == stream else None
        version = (self._job.store.number or 0) + 1
        self._rejects = self._job.store.rejects(version) / "stream.csv"
        self._faults = Faults(OnError.COLLECT, self._rejects)
        self._files: tuple[str, ...] = ()
        self._tally = Tally(order=self._highest)

    def fill(self, change: Change) -> None:
        """Put what the records say into a transaction."""
        if self._following._is_frame:
            records = self._records()
            records.take_frame(self._frame.toArrow())
            self._finish(records, change)
            return
        rows = self._frame.select("path", "modificationTime", "content").collect()
        rows.sort(key=lambda row: (row.modificationTime, row.path))
        files = [(unquote(urlparse(row.path).path), bytes(row.content)) for row in rows]
        self._files = tuple(Path(name).name for name, _ in files)
        if self._stream.format == "changes":
            for name, content in files:
                self._take_script(name, content, change)
            return
        records = self._records()
        for file in contents(files, self._stream):
            records.place = file.shown
            try:
                records.read(file)
            except TidelogError as error:  # a file without the columns, or that is not of its format
                self._reject(error, file.shown, file.content)
        self._finish(records, change)

    def _records(self) -> Records:
        reasoner, ignores_missing = self._job.reasoner(), self._stream.missing == "ignore"
        parts = self._following.shape, reasoner.engine, self._faults, self._highest, ignores_missing
        return TimedRecords(reasoner.time, *parts) if self._stream.times else Records(*parts)

    def _finish(self, records: Records, change: Change) -> None:
        self._tally = records.tally
        if isinstance(records, TimedRecords):
            records.fill(change)
            return
        changed = records.changed()
        change.delete_rows(self._following.shape.predicate.name, changed.removed)
        change.insert_rows(self._following.shape.predicate.name, changed.added)

    def _take_script(self, name: str, content: bytes, change: Change) -> None:
        """Put a change script into the transaction; one that has errors is rejected as a whole."""
        try:
            source = Source(name, content.decode("utf-8"))
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
        """Write a whole file aside, with the first reason."""
        fault = error.diagnostics[0]
        told = Diagnostic(fault.code, fault.message, place=fault.location or place)
        self._faults.add(BadRow(told, content.decode("utf-8", "surrogateescape")))

    def summary(self, change: Change) -> Batch:
        """Return what became of the batch, once its transaction has been committed."""
        self._note_missing(change.delta)
        self._faults.close()
        return self.so_far()

    def so_far(self) -> Batch:
        """Return what is known of the batch, once its records have been read."""
        tally, skipped = self._tally, self._faults.skipped
        return Batch(
            self._id,
            self._number,
            self._files,
            tally.records,
            tally.duplicates,
            tally.missing,
            tally.late,
            skipped,
            tally.order,
            self._job.store.relative(self._rejects) if skipped else None,
        )

    def _note_missing(self, delta: Delta) -> None:
        """Count what scripts wanted to take away and was not there."""
        for notice in delta.notices:
            self._tally.missing += 1
            if self._stream.missing == "reject":
                text = notice.span.text if notice.span is not None else ""
                told = Diagnostic(notice.code, notice.message, place=notice.location)
                self._faults.add(BadRow(told, text))


def refuse_advance(document: ast.Document, place: str) -> None:
    """Raise `DataError` if a change script lets time advance."""
    if any(isinstance(statement, ast.AdvanceDirective) for statement in document.statements):
        raise no_advance(place)
