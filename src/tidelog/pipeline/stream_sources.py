"""Streams of a job as frames, and the records of their batches: Spark reads and checks them in its tasks.

For a folder, Spark lists the files of a batch, which are read like those of sources. Tasks write the rejected
records. Only well-formed ones are fetched to this process, in batches.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import field, replace
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
from tidelog.records import dataclass
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

FEW: Final = 1 << 16  # most records of a batch that are fetched at once; more are fetched by files
TAG: Final = "stream"
_PLACE: Final = "_place"  # the index of a record's file in the batch
_NUMBER: Final = "_number"  # the number of a record in its file
_EVENT: Final = "_event"
_MOMENT: Final = "_moment"  # whether the event time is a moment rather than a number
_WHY: Final = "_why"  # the reason to reject a readable record
_WRITTEN: Final = ("place", "code", "reason", "row")  # the columns of rejected records
_SECONDS: Final = spark_types.DecimalType(38, 6)
_MOMENTS: Final = (spark_types.TimestampType, spark_types.TimestampNTZType, spark_types.DateType)
_LONG: Final = spark_types.LongType()
_REASON_TYPE: Final = "struct<code: string, reason: string>"
_ENDINGS: Final = {"changes": ("rls",)}
_NOT_INSTALLED: Final = ("Failed to find data source", "DATA_SOURCE_NOT_FOUND", "ClassNotFoundException")


@dataclass(frozen=True)
class IncomingStream:
    """One stream of a job: the columns of its records, and how they are read."""

    stream: Stream
    shape: RecordShape
    program: Program

    @staticmethod
    def of(stream: Stream, predicate: Predicate, program: Program) -> IncomingStream:
        """Return how the records of a stream change a predicate."""
        return IncomingStream(stream, RecordShape.of(stream, predicate, program), program)

    @property
    def name(self) -> str:
        """The changed predicate, by its name in the program."""
        return self.shape.predicate.written

    # ---- records

    @property
    def _is_typed(self) -> bool:
        """Whether records have values rather than texts."""
        format_name = self.stream.format
        return self.stream.value is None and format_name not in (*DELIMITED, "jsonl", "json")

    @property
    def _has_own_event(self) -> bool:
        """Whether the event time is not among the columns of the shape."""
        return self.stream.event_time is not None and self.stream.event_time not in self.shape.names

    def _event_of(self, names: Sequence[str]) -> str | None:
        """Return the column of messages, in addition to their values, that is the event time."""
        event = self.stream.event_time
        return event if self._has_own_event and event in names else None

    def _record(self, with_event: bool) -> tuple[FactSource, Program]:
        """Return how Spark reads records: as facts of a predicate with all of their columns."""
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
        """Return the records of a batch, lazily, except that the files of a folder are listed."""
        session = batch.sparkSession
        if self.stream.format not in FILE_STREAMS:
            return IncomingRecords(self, self._of_rows(batch, session), (), watermark)
        paths = files_of(batch)
        reading, refused = self.of_files(session, paths)
        return IncomingRecords(self, reading, tuple(paths), watermark, refused)

    def of_files(
        self, session: SparkSession, paths: Sequence[str]
    ) -> tuple[SourceRows | None, tuple[DataError, ...]]:
        """Return the records of the readable files, and the errors of the others."""
        source, program = self._record(self._has_own_event)
        format_name = self.stream.format
        source = replace(source, format=format_name, header=True if format_name in DELIMITED else None)

        def read(selected: Sequence[str]) -> SourceRows:
            return read_source(session, replace(source, path=tuple(selected)), program)

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
                    diagnostic = Diagnostic(fault.code, fault.message, place=fault.location or shown(path))
                    refused.append(DataError(diagnostic))
            return (read(good) if good else None), tuple(refused)

    def _of_rows(self, batch: DataFrame, session: SparkSession) -> SourceRows:
        if self.stream.value is None:
            source, program = self._record(self._has_own_event)
            return read_source(session, replace(source, frame=batch), program)
        event = self._event_of(batch.columns)
        source, program = self._record(self._has_own_event and event is None)
        predicate = program.predicates[self.shape.predicate.name]
        types, names = types_of(source, program, predicate), names_of(source, predicate)
        ship(session, scratch_folder())
        return self._of_messages(batch, SourceRequest(source, predicate, types, names), event)

    def _of_messages(self, batch: DataFrame, request: SourceRequest, event: str | None) -> SourceRows:
        """Return the records in messages, whose bytes or texts are the column `value`."""
        if "value" not in batch.columns:
            message = f"the frame has no column `value`: it has {', '.join(batch.columns)}"
            raise DataError(Diagnostic(codes.NO_STREAM, message, self.stream.span))
        format_name = "jsonl" if self.stream.value == "json" else "csv"
        types = request.types(format_name)
        carried = CarriedFile(
            None,
            format_name,
            types,
            request.names,
            Header.NONE,
            times=len(request.source.times),
            name="<message>",
        )
        shape = shape_of(request.columns, types)
        metadata = [(FILE, spark_types.StringType()), (_NUMBER, _LONG)]
        columns = [
            _place_of_message(batch.columns).alias(FILE),
            F.monotonically_increasing_id().alias(_NUMBER),
        ]
        if event is not None:
            metadata.append((_EVENT, _SECONDS))
            columns.append(seconds(F.col(quoted(event)), batch.schema[event].dataType).alias(_EVENT))
        schema = read_schema(shape.names, shape.types)
        own = [field for field in schema.fields if field.name != FILE]
        schema = spark_types.StructType([*own, *(spark_types.StructField(*item) for item in metadata)])
        task = MessageReader(carried, shape, tuple(name for name, _ in metadata))
        rows = batch.select(F.col("value").cast("binary").alias(RAW), *columns)
        rows = rows.mapInArrow(Shipped(task), schema).withColumn(BAD, F.col(FAULT).isNotNull())
        is_csv = format_name == "csv"
        fields = tuple(ColumnType.TERM if of is ColumnType.ANY and not is_csv else of for of in request.own)
        return SourceRows(
            request.source,
            request.input(list(map(spark_type_of, types)), fields),
            rows,
            (),
            _rejected_messages,
        )


def read_stream(session: SparkSession, stream: Stream, folder: Path) -> DataFrame:
    """Return a stream of a job as a streaming frame; raise `DataError` if Spark cannot read it."""
    format_name, reader = stream.format, session.readStream
    try:
        if format_name in FILE_STREAMS or format_name == "changes":
            reader = reader.format("binaryFile").options(**dict(stream.options))
            reader = reader.schema("path string, modificationTime timestamp, length bigint, content binary")
            if stream.bytes_per_batch is None:
                reader = reader.option("maxFilesPerTrigger", stream.files_per_batch or 1)
            else:
                reader = reader.option("maxBytesPerTrigger", f"{stream.bytes_per_batch}b")
            endings = ",".join(f"*{ending}" for ending in endings_of(format_name))
            reader = reader.option("pathGlobFilter", f"{{{endings}}}")
            frame = reader.load(location(stream, folder))
            # Without their contents, the rows of a batch are few and small.
            content = ["content"] if format_name == "changes" else []
            return frame.select("path", "modificationTime", *content)
        reader = reader.options(**dict(stream.options))
        for key, limit in (
            ("maxFilesPerTrigger", stream.files_per_batch),
            ("maxBytesPerTrigger", stream.bytes_per_batch and f"{stream.bytes_per_batch}b"),
            ("maxOffsetsPerTrigger", stream.records_per_batch),
        ):
            if limit is not None:
                reader = reader.option(key, limit)
        if format_name != "table":
            reader = reader.format(format_name)
        if stream.table is not None:
            return reader.table(stream.table)
        return reader.load(location(stream, folder)) if stream.path is not None else reader.load()
    except PySparkException as error:
        raise _not_readable(stream, error) from None


def _not_readable(stream: Stream, error: Exception) -> DataError:
    text = str(error)
    help = {
        "kafka": "start Spark with its connector: --conf "
        "spark.jars.packages=org.apache.spark:spark-sql-kafka-0-10_2.13:VERSION, the VERSION of Spark",
        "delta": "start Spark with its connector: "
        "--conf spark.jars.packages=io.delta:delta-spark_2.13:VERSION",
    }.get(stream.format)
    if any(phrase in text for phrase in _NOT_INSTALLED):
        message = f"this session of Spark cannot read {stream.format} streams"
        return DataError(Diagnostic(codes.NO_STREAM, message, stream.span, help))
    reason = next((line for line in text.splitlines() if line.strip()), type(error).__name__)
    message = f"`{stream.shown}` cannot be read as a stream: {reason}"
    return DataError(Diagnostic(codes.NO_STREAM, message, stream.span))


def location(stream: Stream, folder: Path) -> str:
    """Return the location of a stream's files, for Spark."""
    path = str(stream.path)
    if "://" in path.removeprefix("file://"):
        return path
    return str((folder / path.removeprefix("file://")).resolve())


def endings_of(format_name: str) -> tuple[str, ...]:
    """Return the endings of names of files of a format."""
    names = _ENDINGS.get(format_name, (format_name,))
    more = ("", ".gz") if format_name in (*DELIMITED, "jsonl", "json") else ("",)
    return tuple(f".{name}{suffix}" for name in names for suffix in more)


def combine(frames: Sequence[DataFrame]) -> DataFrame:
    """Combine the rows of several streams in one frame, with the number of the stream of each row."""
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
    """Return the files of a batch, the oldest first, those of equal age by name."""
    rows = batch.select("path", "modificationTime").collect()
    rows.sort(key=lambda row: (row.modificationTime, row.path))
    return [path_of(row.path) for row in rows]


def path_of(address: str) -> str:
    """Return a file's path, for Spark's readers."""
    parsed = urlparse(address)
    return unquote(parsed.path) if parsed.scheme in ("", "file") else unquote(address)


def shown(path: str) -> str:
    """Return the name of a file in messages."""
    try:
        return str(Path(path).relative_to(Path.cwd()))
    except ValueError:
        return path


def _place_of_message(names: Sequence[str]) -> Column:
    """Return the place of a message: its topic, partition and offset, if the frame has these."""
    if not {"topic", "partition", "offset"} <= set(names):
        return F.lit("<message>")
    return F.concat(F.col("topic"), F.lit("/"), F.col("partition"), F.lit("@"), F.col("offset"))


def _rejected_messages(rows: DataFrame) -> DataFrame:
    """Return malformed messages in the columns of `rejects`."""
    row = F.coalesce(F.decode(F.col(RAW), "UTF-8"), F.col(f"{FAULT}.row"))
    columns = {
        "place": F.col(FILE),
        "code": F.col(f"{FAULT}.code"),
        "reason": F.col(f"{FAULT}.reason"),
        "row": row,
    }
    return rows.select(
        *(
            columns.get(field.name, F.lit(None)).cast(field.dataType).alias(field.name)
            for field in REJECTS_SCHEMA.fields
        )
    )


def seconds(column: Column, of: spark_types.DataType) -> Column:
    """Return a point of time as seconds, those of moments since 1970; NULL for other values."""
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
    exact = micros.cast(spark_types.DecimalType(20, 0))
    return (exact * F.lit(Decimal("0.000001")).cast(spark_types.DecimalType(7, 6))).cast(_SECONDS)


Positions = npt.NDArray[np.int64]


@dataclass
class IncomingRecords:
    """The records of one stream in one batch, to be fetched. Mutable."""

    incoming: IncomingStream
    reading: SourceRows | None
    files: tuple[str, ...]
    watermark: str | None  # records of times before it are rejected
    refused: tuple[DataError, ...] = ()  # files that cannot be read at all
    latest: str | None = None  # the greatest event time of well-formed records, as text
    _counts: Observation = field(default_factory=Observation)

    # ---- rejected records

    @cached_property
    def _rows(self) -> DataFrame:
        """All records, with their positions, event times, and the reasons to reject them."""
        assert self.reading is not None
        rows, stream = self.reading.checked, self.incoming.stream
        types = {field.name: field.dataType for field in rows.schema.fields}
        addresses = {address_of(path): place for place, path in enumerate(self.files)}
        place = F.expr("0L")
        if len(addresses) > 1:
            places = [F.lit(item) for pair in addresses.items() for item in pair]
            place = F.coalesce(F.element_at(F.create_map(*places), F.col(FILE)), F.lit(0)).cast(_LONG)
        # Parts of a file are read in order, so that these numbers determine the order of records.
        number = F.col(_NUMBER) if _NUMBER in types else F.monotonically_increasing_id()
        event = F.expr(f"CAST(NULL AS {_SECONDS.simpleString()})")
        if _EVENT in types:
            event = F.col(_EVENT)
        elif stream.event_time is not None:
            event = seconds(F.col(quoted(stream.event_time)), types[stream.event_time])
        moment = F.lit(True)  # in messages
        if stream.event_time is not None and stream.event_time in types:
            moment = _is_moment(F.col(quoted(stream.event_time)), types[stream.event_time])
        metadata = {_PLACE: place, _NUMBER: number, _EVENT: event, _MOMENT: moment}
        rows = rows.withColumns(metadata)
        return rows.withColumn(_WHY, self._why())

    def _why(self) -> Column:
        """Return the reason to reject a readable record; NULL if there is none."""
        stream, cause = self.incoming.stream, F.expr(f"CAST(NULL AS {_REASON_TYPE})")
        if stream.event_time is not None:
            bound = None if self.watermark is None else read_point(self.watermark)[0]
            if bound is not None:
                exact = F.lit(Decimal(bound.numerator) / Decimal(bound.denominator)).cast(_SECONDS)
                reason = F.lit(f"its `{stream.event_time}` is before the watermark, {self.watermark}")
                cause = F.when(F.col(_EVENT) < exact, _reason(codes.LATE, reason)).otherwise(cause)
            reason = F.lit(f"its `{stream.event_time}` is not a point in time")
            cause = F.when(F.col(_EVENT).isNull(), _reason(codes.BAD_RECORD, reason)).otherwise(cause)
        if self.incoming.shape.has_op:
            op = F.lower(stripped(F.col(quoted(stream.op))))
            is_known = op.isin(sorted(INSERTS | DELETES))
            reason = F.format_string("`%s` is not an operation: use `+`, `insert`, `-` or `delete`", op)
            cause = F.when(~is_known, _reason(codes.BAD_RECORD, reason)).otherwise(cause)
        return F.when(F.expr(f"NOT {BAD}"), cause)

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

    # ---- accepted records

    def batches(self, folder: Path) -> Iterator[tuple[Batch, Positions]]:
        """Yield the well-formed records, in batches, with the position of each: its file and its number.

        If they are many, tasks write them into a folder first.
        """
        if self.reading is None:
            return
        columns = self.reading.input.columns
        reading, faults = self.reading.input.reading(), RejectedRows(OnError.FAIL)
        with translated_errors():
            small_table = fetch_few(self._accepted(), FEW)
            for table in fetch_by_files(self._accepted(), folder) if small_table is None else [small_table]:
                self._note_event(table.column(_EVENT), table.column(_MOMENT))
                positions = np.column_stack(
                    [np.asarray(table.column(name), np.int64) for name in (_PLACE, _NUMBER)]
                )
                offset = 0
                for batch in reading.batches(table.select(list(columns)), self.incoming.name, faults):
                    yield batch, positions[offset : offset + batch.rows]
                    offset += batch.rows
                faults.check()

    def _accepted(self) -> DataFrame:
        """Return the well-formed records; a job that reads them also counts the rejected ones."""
        assert self.reading is not None
        self._counts = Observation()
        rows = self._rows.observe(self._counts, *self._counted())
        return rows.where(f"NOT {BAD} AND NOT {LEFT_OUT} AND {_WHY} IS NULL").select(
            *map(quoted, self.reading.input.columns), _PLACE, _NUMBER, _EVENT, _MOMENT
        )

    def _note_event(self, column: Any, moments: Any) -> None:
        latest, is_calendar = pc.max(column).as_py(), bool(pc.any(moments).as_py())
        if latest is not None:
            before = None if self.latest is None else read_point(self.latest)[0]
            point = Fraction(latest) if before is None else max(before, Fraction(latest))
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
        """The numbers of unreadable, malformed and late records, after the others were fetched."""
        if self.reading is None:
            return {"unreadable": 0, "malformed": 0, "late": 0}
        return {name: int(count) for name, count in self._counts.get.items()}


def _reason(code: str, reason: Column) -> Column:
    return F.struct(F.lit(code).alias("code"), reason.alias("reason"))
