"""Streams of a job as frames, and the records of their batches: Spark reads and checks them in its tasks.

Of a folder, Spark says which files a batch consists of; they are read as those of sources are. Rejected
records are written by tasks. Only well-formed ones are fetched to this process, some at a time.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace
from decimal import Decimal
from fractions import Fraction
from functools import cached_property, partial, reduce
from pathlib import Path
from typing import Any, Final
from urllib.parse import unquote, urlparse

import numpy as np
import numpy.typing as npt
import pyarrow.compute as pc
from pyspark.errors import PySparkException
from pyspark.sql import Column, DataFrame, Observation, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - the usual name
from pyspark.sql import types as spark_types

from tidelog.data.columns import Batch
from tidelog.errors import DataError, Diagnostic, TidelogError, codes
from tidelog.io.data_file import DELIMITED, FactSource, Header
from tidelog.io.rejects import OnError, RejectedRows
from tidelog.io.row_readers import FAULT, FILE, LEFT_OUT, RAW, CarriedFile, MessageReader
from tidelog.logic.intervals import read_point, write_point
from tidelog.logic.program import Predicate, Program
from tidelog.logic.values import ColumnType
from tidelog.pipeline.job_file import FILE_STREAMS
from tidelog.pipeline.job_settings import Stream
from tidelog.pipeline.stream_records import DELETES, INSERTS, RecordShape
from tidelog.spark.frames import fetch_by_files, fetch_few, quoted
from tidelog.spark.reading.source_columns import (
    address_of,
    converted,
    names_of,
    spark_type_of,
    stripped,
    types_of,
)
from tidelog.spark.reading.source_frames import read_source
from tidelog.spark.reading.source_rows import (
    BAD,
    REJECTS_SCHEMA,
    SourceRequest,
    SourceRows,
    read_schema,
    shape_of,
)
from tidelog.spark.session import scratch_folder
from tidelog.spark.shipping import Shipped, ship, translated_errors

FEW: Final = 1 << 16  # records of a batch that are fetched at once, rather than by files
TAG: Final = "stream"
_PLACE: Final = "_place"  # of a record's file among those of the batch
_NUMBER: Final = "_number"  # of a record in its file
_EVENT: Final = "_event"
_MOMENT: Final = "_moment"  # whether the event time is a moment rather than a number
_WHY: Final = "_why"  # why a record that can be read is rejected
_WRITTEN: Final = ("place", "code", "reason", "row")  # the columns of rejected records
_SECONDS: Final = spark_types.DecimalType(38, 6)
_MOMENTS: Final = (spark_types.TimestampType, spark_types.TimestampNTZType, spark_types.DateType)
_LONG: Final = spark_types.LongType()
_REASON_TYPE: Final = "struct<code: string, reason: string>"
_ENDINGS: Final = {"changes": ("rls",)}
_NOT_THERE: Final = ("Failed to find data source", "DATA_SOURCE_NOT_FOUND", "ClassNotFoundException")


@dataclass(frozen=True)
class IncomingStream:
    """One stream of a job: what its records are, and how they are read."""

    stream: Stream
    shape: RecordShape
    program: Program

    @staticmethod
    def of(stream: Stream, predicate: Predicate, program: Program) -> IncomingStream:
        """Return how the records of a stream change a predicate."""
        return IncomingStream(stream, RecordShape.of(stream, predicate, program), program)

    @property
    def name(self) -> str:
        """The predicate that is changed, as the program writes it."""
        return self.shape.predicate.written

    # ---- records

    @property
    def _is_typed(self) -> bool:
        """Whether records have values rather than texts."""
        given = self.stream.format
        return self.stream.value is None and given not in (*DELIMITED, "jsonl", "json")

    @property
    def _has_own_event(self) -> bool:
        """Whether the event time is a column besides those of the shape."""
        return self.stream.event_time is not None and self.stream.event_time not in self.shape.names

    def _event_of(self, names: Sequence[str]) -> str | None:
        """Return the column of messages, in addition to their values, that is the event time."""
        event = self.stream.event_time
        return event if self._has_own_event and event in names else None

    def _record(self, with_event: bool) -> tuple[FactSource, Program]:
        """Return how Spark reads records: as the facts of a predicate that has all of their columns."""
        shape, own = self.shape, self.shape.predicate
        width = len(shape.names) - len(shape.time)
        names, types = list(shape.names[:width]), list(shape.types[:width])
        if with_event:
            names.append(str(self.stream.event_time))
            types.append(ColumnType.ANY if self._is_typed else ColumnType.STRING)
        record = Predicate(own.name, len(names), tuple(names), tuple(types), own.written, declared=True)
        program = replace(
            self.program, rules=(), facts=(), imports=(), exports=(), predicates={own.name: record}
        )
        source = FactSource(own.name, time=shape.time, span=self.stream.span)
        return source, program

    def records(self, batch: DataFrame, watermark: str | None) -> IncomingRecords:
        """Return the records of a batch; only the files of a folder are listed for that."""
        session = batch.sparkSession
        if self.stream.format not in FILE_STREAMS:
            return IncomingRecords(self, self._of_rows(batch, session), (), watermark)
        paths = files_of(batch)
        reading, refused = self.of_files(session, paths)
        return IncomingRecords(self, reading, tuple(paths), watermark, refused)

    def of_files(
        self, session: SparkSession, paths: Sequence[str]
    ) -> tuple[SourceRows | None, tuple[DataError, ...]]:
        """Return the records of files, without those that cannot be read at all, and why."""
        source, program = self._record(self._has_own_event)
        given = self.stream.format
        source = replace(source, format=given, header=True if given in DELIMITED else None)

        def read(some: Sequence[str]) -> SourceRows:
            return read_source(session, replace(source, path=tuple(some)), program)

        try:
            return (read(paths) if paths else None), ()
        except TidelogError:
            good, refused = [], []
            for path in paths:
                try:
                    read([path])
                    good.append(path)
                except TidelogError as error:
                    fault = error.diagnostics[0]
                    said = Diagnostic(fault.code, fault.message, place=fault.location or shown(path))
                    refused.append(DataError(said))
            return (read(good) if good else None), tuple(refused)

    def _of_rows(self, batch: DataFrame, session: SparkSession) -> SourceRows:
        if self.stream.value is None:
            source, program = self._record(self._has_own_event)
            return read_source(session, replace(source, frame=batch), program)
        beside = self._event_of(batch.columns)
        source, program = self._record(self._has_own_event and beside is None)
        predicate = program.predicates[self.shape.predicate.name]
        types, names = types_of(source, program, predicate), names_of(source, predicate)
        ship(session, scratch_folder())
        return self._of_messages(batch, SourceRequest(source, predicate, types, names), beside)

    def _of_messages(self, batch: DataFrame, wanted: SourceRequest, event: str | None) -> SourceRows:
        """Return the records that messages are, whose bytes or text is the column `value`."""
        if "value" not in batch.columns:
            message = f"the frame has no column `value`: it has {', '.join(batch.columns)}"
            raise DataError(Diagnostic(codes.NO_STREAM, message, self.stream.span))
        given = "jsonl" if self.stream.value == "json" else "csv"
        types = wanted.types(given)
        carried = CarriedFile(
            None,
            given,
            types,
            wanted.names,
            Header.NONE,
            times=len(wanted.source.times),
            name="<message>",
        )
        shape = shape_of(wanted.columns, types)
        beside = [(FILE, spark_types.StringType()), (_NUMBER, _LONG)]
        columns = [
            _place_of_message(batch.columns).alias(FILE),
            F.monotonically_increasing_id().alias(_NUMBER),
        ]
        if event is not None:
            beside.append((_EVENT, _SECONDS))
            columns.append(seconds(F.col(quoted(event)), batch.schema[event].dataType).alias(_EVENT))
        schema = read_schema(shape.names, shape.types)
        own = [each for each in schema.fields if each.name != FILE]
        schema = spark_types.StructType([*own, *(spark_types.StructField(*each) for each in beside)])
        task = MessageReader(carried, shape, tuple(name for name, _ in beside))
        rows = batch.select(F.col("value").cast("binary").alias(RAW), *columns)
        rows = rows.mapInArrow(Shipped(task), schema).withColumn(BAD, F.col(FAULT).isNotNull())
        is_csv = given == "csv"
        fields = tuple(ColumnType.TERM if of is ColumnType.ANY and not is_csv else of for of in wanted.own)
        return SourceRows(
            wanted.source, wanted.input(list(map(spark_type_of, types)), fields), rows, (), _told
        )


def read_stream(session: SparkSession, stream: Stream, folder: Path) -> DataFrame:
    """Return a stream of a job as a streaming frame; raise `DataError` if Spark cannot read it."""
    given, reader = stream.format, session.readStream
    try:
        if given in FILE_STREAMS or given == "changes":
            reader = reader.format("binaryFile").options(**dict(stream.options))
            reader = reader.schema("path string, modificationTime timestamp, length bigint, content binary")
            if stream.bytes_per_batch is None:
                reader = reader.option("maxFilesPerTrigger", stream.files_per_batch or 1)
            else:
                reader = reader.option("maxBytesPerTrigger", f"{stream.bytes_per_batch}b")
            endings = ",".join(f"*{each}" for each in endings_of(given))
            reader = reader.option("pathGlobFilter", f"{{{endings}}}")
            frame = reader.load(location(stream, folder))
            # Without their contents, the rows of a batch are few and small.
            content = ["content"] if given == "changes" else []
            return frame.select("path", "modificationTime", *content)
        reader = reader.options(**dict(stream.options))
        for key, limit in (
            ("maxFilesPerTrigger", stream.files_per_batch),
            ("maxBytesPerTrigger", stream.bytes_per_batch and f"{stream.bytes_per_batch}b"),
            ("maxOffsetsPerTrigger", stream.records_per_batch),
        ):
            if limit is not None:
                reader = reader.option(key, limit)
        if given != "table":
            reader = reader.format(given)
        if stream.table is not None:
            return reader.table(stream.table)
        return reader.load(location(stream, folder)) if stream.path is not None else reader.load()
    except PySparkException as error:
        raise _not_readable(stream, error) from None


def _not_readable(stream: Stream, error: Exception) -> DataError:
    told = str(error)
    help = {
        "kafka": "start Spark with its connector: --conf "
        "spark.jars.packages=org.apache.spark:spark-sql-kafka-0-10_2.13:VERSION, the VERSION of Spark",
        "delta": "start Spark with its connector: "
        "--conf spark.jars.packages=io.delta:delta-spark_2.13:VERSION",
    }.get(stream.format)
    if any(each in told for each in _NOT_THERE):
        message = f"this session of Spark cannot read {stream.format} streams"
        return DataError(Diagnostic(codes.NO_STREAM, message, stream.span, help))
    reason = next((line for line in told.splitlines() if line.strip()), type(error).__name__)
    message = f"`{stream.shown}` cannot be read as a stream: {reason}"
    return DataError(Diagnostic(codes.NO_STREAM, message, stream.span))


def location(stream: Stream, folder: Path) -> str:
    """Return where a stream's files are, as Spark takes it."""
    path = str(stream.path)
    if "://" in path.removeprefix("file://"):
        return path
    return str((folder / path.removeprefix("file://")).resolve())


def endings_of(given: str) -> tuple[str, ...]:
    """Return what the names of files of a format end with."""
    names = _ENDINGS.get(given, (given,))
    more = ("", ".gz") if given in (*DELIMITED, "jsonl", "json") else ("",)
    return tuple(f".{name}{each}" for name in names for each in more)


def together(frames: Sequence[DataFrame]) -> DataFrame:
    """Return the rows of several streams as one frame, with the number of the stream of each."""
    if len(frames) == 1:
        return frames[0]
    tagged = [
        frame.select(F.lit(place).alias(TAG), F.struct("*").alias(f"of {place}"))
        for place, frame in enumerate(frames)
    ]
    return reduce(partial(DataFrame.unionByName, allowMissingColumns=True), tagged)


def rows_of(batch: DataFrame, place: int, count: int) -> DataFrame:
    """Return the rows of one of several streams in a batch."""
    if count == 1:
        return batch
    return batch.where(F.col(TAG) == place).select(f"{quoted(f'of {place}')}.*")


def files_of(batch: DataFrame) -> list[str]:
    """Return the files that a batch consists of: the oldest first, those of one moment by their names."""
    rows = batch.select("path", "modificationTime").collect()
    rows.sort(key=lambda row: (row.modificationTime, row.path))
    return [path_of(row.path) for row in rows]


def path_of(written: str) -> str:
    """Return a file's path, as Spark's readers take it."""
    parsed = urlparse(written)
    return unquote(parsed.path) if parsed.scheme in ("", "file") else unquote(written)


def shown(path: str) -> str:
    """Return what messages call a file."""
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except ValueError:
        return path


def _place_of_message(names: Sequence[str]) -> Column:
    """Return where a message stands: its topic, partition and offset, where the frame has these."""
    if not {"topic", "partition", "offset"} <= set(names):
        return F.lit("<message>")
    return F.concat(F.col("topic"), F.lit("/"), F.col("partition"), F.lit("@"), F.col("offset"))


def _told(rows: DataFrame) -> DataFrame:
    """Return messages that are no records as `rejects` has rejected rows."""
    row = F.coalesce(F.decode(F.col(RAW), "UTF-8"), F.col(f"{FAULT}.row"))
    told = {
        "place": F.col(FILE),
        "code": F.col(f"{FAULT}.code"),
        "reason": F.col(f"{FAULT}.reason"),
        "row": row,
    }
    return rows.select(
        *(
            told.get(each.name, F.lit(None)).cast(each.dataType).alias(each.name)
            for each in REJECTS_SCHEMA.fields
        )
    )


def seconds(column: Column, of: spark_types.DataType) -> Column:
    """Return a point of time as seconds, those of moments since 1970; NULL for what is none."""
    if isinstance(of, spark_types.TimestampType):
        return _in_seconds(F.unix_micros(column))
    if isinstance(of, spark_types.TimestampNTZType):
        origin = F.lit("1970-01-01T00:00:00").cast("timestamp_ntz")
        return _in_seconds(F.timestamp_diff("MICROSECOND", origin, column))
    if isinstance(of, spark_types.DateType):
        return (F.unix_date(column) * F.lit(86400)).cast(_SECONDS)
    if isinstance(of, spark_types.StringType):
        moment = _in_seconds(F.unix_micros(converted(column, ColumnType.DATETIME)))
        day = (F.unix_date(converted(column, ColumnType.DATE)) * F.lit(86400)).cast(_SECONDS)
        return F.coalesce(moment, converted(column, ColumnType.DECIMAL).try_cast(_SECONDS), day)
    return column.try_cast(_SECONDS)


def _is_moment(column: Column, of: spark_types.DataType) -> Column:
    """Return whether a point of time is a moment rather than a number."""
    if isinstance(of, spark_types.StringType):
        return converted(column, ColumnType.DECIMAL).isNull()
    return F.lit(isinstance(of, _MOMENTS))


def _in_seconds(micros: Column) -> Column:
    """Return microseconds as seconds, exactly."""
    whole = micros.cast(spark_types.DecimalType(20, 0))
    return (whole * F.lit(Decimal("0.000001")).cast(spark_types.DecimalType(7, 6))).cast(_SECONDS)


Positions = npt.NDArray[np.int64]


@dataclass
class IncomingRecords:
    """The records of one stream in one batch, until they have been fetched. Mutable."""

    incoming: IncomingStream
    reading: SourceRows | None
    files: tuple[str, ...]
    watermark: str | None  # records of times before it are rejected
    refused: tuple[DataError, ...] = ()  # files that cannot be read at all
    latest: str | None = None  # the greatest event time of well-formed records, as programs write it
    _counts: Observation = field(default_factory=Observation)

    # ---- what is rejected

    @cached_property
    def _rows(self) -> DataFrame:
        """All records, with where each stands, its event time, and why it is rejected."""
        assert self.reading is not None
        rows, stream = self.reading.checked, self.incoming.stream
        types = {each.name: each.dataType for each in rows.schema.fields}
        addresses = {address_of(path): place for place, path in enumerate(self.files)}
        place = F.expr("0L")
        if len(addresses) > 1:
            known = [F.lit(each) for pair in addresses.items() for each in pair]
            place = F.coalesce(F.element_at(F.create_map(*known), F.col(FILE)), F.lit(0)).cast(_LONG)
        # Parts of a file are read in their order, so that such numbers show which record came first.
        number = F.col(_NUMBER) if _NUMBER in types else F.monotonically_increasing_id()
        event = F.expr(f"CAST(NULL AS {_SECONDS.simpleString()})")
        if _EVENT in types:
            event = F.col(_EVENT)
        elif stream.event_time is not None:
            event = seconds(F.col(quoted(stream.event_time)), types[stream.event_time])
        moment = F.lit(True)  # that of messages
        if stream.event_time is not None and stream.event_time in types:
            moment = _is_moment(F.col(quoted(stream.event_time)), types[stream.event_time])
        beside = {_PLACE: place, _NUMBER: number, _EVENT: event, _MOMENT: moment}
        rows = rows.withColumns(beside)
        return rows.withColumn(_WHY, self._why())

    def _why(self) -> Column:
        """Return why a record that can be read is rejected; NULL if it is not."""
        stream, found = self.incoming.stream, F.expr(f"CAST(NULL AS {_REASON_TYPE})")
        if stream.event_time is not None:
            bound = None if self.watermark is None else read_point(self.watermark)[0]
            if bound is not None:
                exact = F.lit(Decimal(bound.numerator) / Decimal(bound.denominator)).cast(_SECONDS)
                reason = F.lit(f"its `{stream.event_time}` is before the watermark, {self.watermark}")
                found = F.when(F.col(_EVENT) < exact, _reason(codes.LATE, reason)).otherwise(found)
            reason = F.lit(f"its `{stream.event_time}` is not a point in time")
            found = F.when(F.col(_EVENT).isNull(), _reason(codes.BAD_RECORD, reason)).otherwise(found)
        if self.incoming.shape.has_op:
            op = F.lower(stripped(F.col(quoted(stream.op))))
            is_known = op.isin(sorted(INSERTS | DELETES))
            reason = F.format_string("`%s` is not an operation: use `+`, `insert`, `-` or `delete`", op)
            found = F.when(~is_known, _reason(codes.BAD_RECORD, reason)).otherwise(found)
        return F.when(F.expr(f"NOT {BAD}"), found)

    def write_rejects(self, folder: Path) -> None:
        """Write the rejected records into a folder, in tasks."""
        assert self.reading is not None
        names = [*self.reading.input.columns]
        texts = [F.coalesce(F.col(quoted(name)).cast("string"), F.lit("")) for name in names]
        place = F.coalesce(F.regexp_replace(FILE, "^file:", ""), F.lit(self.incoming.stream.shown))
        own = self._rows.where(F.col(_WHY).isNotNull()).select(
            place.alias("place"),
            F.col(f"{_WHY}.code").alias("code"),
            F.col(f"{_WHY}.reason").alias("reason"),
            F.concat_ws(",", *texts).alias("row"),
        )
        rejects = self.reading.rejects.select(*_WRITTEN).unionByName(own)
        with translated_errors():
            writer = rejects.write.mode("overwrite").option("header", True).option("escape", '"')
            writer.csv(str(folder.resolve()))

    # ---- what is taken

    def batches(self, folder: Path) -> Iterator[tuple[Batch, Positions]]:
        """Yield the well-formed records, some at a time, with where each stands: its file, and its number.

        If they are many, tasks write them into a folder first.
        """
        if self.reading is None:
            return
        columns = self.reading.input.columns
        reading, faults = self.reading.input.reading(), RejectedRows(OnError.FAIL)
        with translated_errors():
            whole = fetch_few(self._taken(), FEW)
            for table in fetch_by_files(self._taken(), folder) if whole is None else [whole]:
                self._note_event(table.column(_EVENT), table.column(_MOMENT))
                positions = np.column_stack(
                    [np.asarray(table.column(name), np.int64) for name in (_PLACE, _NUMBER)]
                )
                done = 0
                for batch in reading.batches(table.select(list(columns)), self.incoming.name, faults):
                    yield batch, positions[done : done + batch.rows]
                    done += batch.rows
                faults.check()

    def _taken(self) -> DataFrame:
        """Return the well-formed records; when a job has read them, it is known why others are rejected."""
        assert self.reading is not None
        self._counts = Observation()
        rows = self._rows.observe(self._counts, *self._counted())
        return rows.where(f"NOT {BAD} AND NOT {LEFT_OUT} AND {_WHY} IS NULL").select(
            *map(quoted, self.reading.input.columns), _PLACE, _NUMBER, _EVENT, _MOMENT
        )

    def _note_event(self, column: Any, moments: Any) -> None:
        found, is_calendar = pc.max(column).as_py(), bool(pc.any(moments).as_py())
        if found is not None:
            before = None if self.latest is None else read_point(self.latest)[0]
            point = Fraction(found) if before is None else max(before, Fraction(found))
            self.latest = write_point(point, is_calendar)

    def _counted(self) -> list[Column]:
        counted = {
            "unreadable": BAD,
            "malformed": f"{_WHY} IS NOT NULL AND {_WHY}.code <> '{codes.LATE}'",
            "late": f"{_WHY}.code = '{codes.LATE}'",
        }
        return [F.expr(f"count_if({condition}) AS {name}") for name, condition in counted.items()]

    @cached_property
    def rejected(self) -> dict[str, int]:
        """How many records cannot be read, are malformed, or come too late, once the others were fetched."""
        if self.reading is None:
            return {"unreadable": 0, "malformed": 0, "late": 0}
        return {name: int(count) for name, count in self._counts.get.items()}


def _reason(code: str, reason: Column) -> Column:
    return F.struct(F.lit(code).alias("code"), reason.alias("reason"))
