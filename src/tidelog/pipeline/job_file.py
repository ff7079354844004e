"""Job files: TOML that describes a whole job, checked as a whole."""

from __future__ import annotations

import os
import re
from pathlib import Path
from urllib.parse import urlsplit

from tidelog import equality as treatments
from tidelog import maintenance
from tidelog.equality.listing import EXPAND, SHOWN
from tidelog.errors import ProgramError, codes, suggest
from tidelog.errors import SourceText as Text
from tidelog.io.data_file import ALIASES, EXTENSIONS, ON_SPARK, RDF, VERSIONED, canonical_format, format_of
from tidelog.io.toml_tables import TomlDocument, TomlTable, read_document
from tidelog.logic.program import BOTTOM
from tidelog.logic.signatures import TYPES
from tidelog.logic.values import ColumnType
from tidelog.pipeline.guards import Guards, read_duration, read_guards, source_limits
from tidelog.pipeline.job_settings import (
    CHANGES,
    DEFAULT_ENGINE,
    ENGINES,
    FACTS,
    STATE_HELP,
    Engine,
    OpenLineageSettings,
    Settings,
    Sink,
    Source,
    Stream,
    is_remote,
    read_retry,
)
from tidelog.publish.object_storage import KEYS
from tidelog.publish.published_folder import FORMATS as PUBLISHED_FORMATS
from tidelog.publish.published_schemas import CHANGE_TYPE
from tidelog.temporal.interval_fixpoint import PROCEDURES

SPARK_FORMATS = ("jdbc", "table")
FORMATS = (*EXTENSIONS, *ALIASES, "rdf", "orc", "avro", "text", *VERSIONED, *SPARK_FORMATS)
SINK_FORMATS = (
    "parquet",
    "csv",
    "tsv",
    "jsonl",
    "json",
    "arrow",
    "ntriples",
    "turtle",
    "nt",
    "ttl",
    *SPARK_FORMATS,
)
FILE_STREAMS = ("csv", "tsv", "jsonl", "json", "parquet", "orc")
STREAM_FORMATS = (*FILE_STREAMS, "changes", "kafka", "table", "delta", "tidelog")
MESSAGES = ("json", "csv")
ON_ERROR = ("reject", "fail")
MARKINGS = ("none", "literal", "linked")
MISSING = ("reject", "ignore")
COMMIT_VERSION = "_commit_version"  # the column of change feeds in all readers of Delta
TIME_HELP = (
    '"interval", "start", ["start", "end"] or ["start", "duration"]; two more columns say which bounds are '
    'open: ["start", "end", "start_open", "end_open"]'
)


def load_settings(path: Path | str) -> Settings:
    """Load the job in a file; raise `DataError` with all of its errors."""
    path = Path(path)
    return _settings(read_document(path), path.parent)


def parse_settings(text: str, folder: Path | str = ".", name: str = "<job>") -> Settings:
    """Parse a job; relative paths in it are below `folder`."""
    return _settings(TomlDocument(Text(name, text)), Path(folder))


def _settings(document: TomlDocument, folder: Path) -> Settings:
    root = document.root
    program = root.text("program")
    if "program" not in root:
        root.missing("program", 'name the rules: program = "rules.rls"')
    elif program is not None and not (folder / program).is_file():
        names = [child.name for child in (folder / program).parent.glob("*.rls")]
        root.wrong("program", f"names no file: `{folder / program}`", suggest(Path(program).name, names))
    publish, form = _publish(root)
    settings = Settings(
        publish,
        program,
        root.mapping("parameters"),
        tuple(_source(table) for table in root.tables("source")),
        tuple(_sink(table) for table in root.tables("sink")),
        _engine(root.table("engine")),
        _streams(root),
        root.count("max-rejects"),
        folder,
        format=form,
        guards=_guards(root),
        report=read_report_folder(root.table("report")),
        openlineage=read_openlineage(root.table("openlineage")),
        retry=read_retry(root.table("retry")),
        storage=_storage(root.table("storage")),
        spans={key: document.span((key,)) for key in ("program", "publish") if key in root},
    )
    if is_remote(publish) and settings.engine.state is None:
        root.document.fault(
            codes.MISSING_KEY, "remote tables need `state` in [engine]", ("publish",), STATE_HELP
        )
    root.close()
    document.check()
    return settings


def _storage(table: TomlTable | None) -> dict[str, str]:
    """Return the settings of object stores; a value is a text, or the name of an environment variable."""
    settings: dict[str, str] = {}
    if table is None:
        return settings
    for key in KEYS:
        if not table.is_table(key):
            value = table.text(key)
        else:
            inner = table.table(key)
            assert inner is not None
            name = inner.required("env", 'name the variable: { env = "AWS_SECRET_ACCESS_KEY" }')
            inner.close()
            value = os.environ.get(name)
            if name and not value:
                table.wrong(key, f"needs the environment variable `{name}`, which is not set", f"set {name}")
        if value is not None:
            settings[key] = value
    if ("access-key" in table) != ("secret-key" in table):
        table.missing("secret-key" if "access-key" in table else "access-key", "a key has two parts")
    table.close()
    return settings


def _publish(root: TomlTable) -> tuple[str, str | None]:
    """Return the folder of published versions, and the format of its tables if it is set."""
    table = root.table("publish") if root.is_table("publish") else None
    if table is None:
        help = 'name the folder of published versions: publish = "published"'
        return root.required("publish", help), None
    folder = table.required("folder", 'name the folder of published versions: folder = "published"')
    form = table.choice("format", PUBLISHED_FORMATS, PUBLISHED_FORMATS[0]) if "format" in table else None
    table.close()
    return folder, form


def read_report_folder(table: TomlTable | None) -> str | None:
    """Return the folder of reports that the `[report]` of a job file names, if there is one."""
    if table is None:
        return None
    folder = table.required("folder", 'name the folder of reports: folder = "reports"')
    table.close()
    return folder or None


def read_openlineage(table: TomlTable | None) -> OpenLineageSettings | None:
    """Return the `[openlineage]` of a job file, if there is one; errors are added to its document."""
    if table is None:
        return None
    url = table.text("url")
    if url is not None and (urlsplit(url).scheme not in ("http", "https") or not urlsplit(url).hostname):
        table.wrong("url", "is not the address of a server", 'write url = "http://marquez:5000"')
    elif url is not None and "@" in urlsplit(url).netloc:
        table.wrong(
            "url", "has a user or a password", "let `api-key-variable` name a variable that has a key"
        )
    if "url" not in table and "file" not in table:
        table.missing("url", "name a server by `url`, or a `file`, or both")
    default = OpenLineageSettings()
    settings = OpenLineageSettings(
        table.text("namespace", default.namespace) or default.namespace,
        table.text("file"),
        url,
        table.text("endpoint", default.endpoint) or default.endpoint,
        table.number("timeout") or default.seconds,
        table.text("api-key-variable"),
    )
    table.close()
    return settings


def _guards(root: TomlTable) -> Guards:
    guards = read_guards(root)
    for place, expectation in enumerate(guards.expectations):
        if expectation.predicate == BOTTOM:
            message = f"`{BOTTOM}` needs no [[expect]]: a run that violates a constraint always fails"
            help = "to publish with violations, let rules derive another predicate, and expect that"
            root.document.fault(codes.BAD_VALUE, message, ("expect", place, "predicate"), help)
    return guards


def _source(table: TomlTable) -> Source:
    predicate = table.required("predicate", "name the predicate whose facts these are")
    paths = table.texts("path") or ()
    format_name = _format(table, FORMATS, paths, is_required=False)
    types = table.texts("types")
    columns = table.columns("columns")
    source = Source(
        predicate,
        paths,
        format_name,
        columns,
        None if types is None else tuple(_type(table, place, name) for place, name in enumerate(types)),
        table.text("filter"),
        table.flag("header"),
        _delimiter(table),
        table.flag("quoting") is not False,
        table.text("base"),
        table.text("table"),
        table.text("query"),
        table.text("url"),
        table.text("driver"),
        table.mapping("options"),
        time=_time(table),
        on_error=table.choice("on-error", ON_ERROR, "reject"),
        limits=source_limits(table),
        version=table.count("version"),
        span=table.document.span((*table.path, "predicate")),
    )
    if format_name in RDF:
        table.refuse(("time",), f"cannot be used with {format_name}")
    if format_name not in VERSIONED:
        table.refuse(("version",), "is only for the formats delta and iceberg")
    elif len(paths) > 1:
        table.wrong("path", f"names several tables: a source of {format_name} is one")
    if format_name in VERSIONED:
        table.refuse(("header", "delimiter", "quoting", "base"), f"cannot be used with {format_name}")
    _check_place(table, format_name, bool(paths), source.query is not None)
    table.close()
    return source


def _check_place(table: TomlTable, format_name: str | None, has_path: bool, has_query: bool = False) -> None:
    """Add errors for missing or inapplicable keys of a location."""
    if format_name == "jdbc":
        if "url" not in table:
            table.missing("url", 'such as url = "jdbc:postgresql://host/database"')
        if ("table" in table) == has_query:
            table.missing("table", "name a table or give a query, one of the two")
    elif format_name == "table":
        if "table" not in table:
            table.missing("table", "name a table or view of Spark")
    else:
        table.refuse(("url", "driver", "query", "table", "options"), "is only for the formats jdbc and table")
        if not has_path and "path" not in table:
            table.missing("path", "name a file")
    if format_name in ON_SPARK:
        table.refuse(("path", "header", "delimiter", "quoting", "base"), f"cannot be used with {format_name}")


def _format(
    table: TomlTable, formats: tuple[str, ...], paths: tuple[str, ...], is_required: bool = True
) -> str | None:
    """Return the format, of the key or else of the first path's extension.

    None if that has none; then each file has the format of its extension.
    """
    if "format" in table:
        name = table.choice("format", formats, "")
        if name in ("", *SPARK_FORMATS, *VERSIONED):
            return name or None
        return canonical_format(name, Path(paths[0]) if paths else None)
    table.text("format")
    extension_format = format_of(Path(paths[0])) if paths else None
    if paths and extension_format is None and is_required:
        table.wrong("path", f"has no extension that tells its format: `{paths[0]}`", "give a `format`")
    return extension_format


def _type(table: TomlTable, place: int, name: str) -> ColumnType:
    if name == "skip":
        return ColumnType.SKIP
    if name not in TYPES:
        help = suggest(name, (*TYPES, "skip")) or f"the types are {', '.join(TYPES)}"
        table.document.fault("E803", f"unknown column type `{name}`", (*table.path, "types", place), help)
    return TYPES.get(name, ColumnType.ANY)


def _delimiter(table: TomlTable) -> str | None:
    delimiter = table.text("delimiter")
    if delimiter is not None and (len(delimiter.encode()) != 1 or delimiter in '"\r\n'):
        table.wrong("delimiter", "is not one ASCII character")
        return None
    return delimiter


def _sink(table: TomlTable) -> Sink:
    predicate = table.required("predicate", "name the predicate to write")
    path = table.text("path")
    content = table.choice("what", (FACTS, CHANGES), FACTS)
    format_name = _format(table, SINK_FORMATS, (path,) if path else ())
    if content == CHANGES and format_name in RDF:
        table.wrong("format", "cannot be an RDF format for changes", "choose csv, jsonl or parquet")
    sink = Sink(
        predicate,
        path,
        format_name,
        content,
        table.text("terms") and table.choice("terms", ("plain", "exact"), "plain"),
        table.flag("header") is not False,
        table.text("table"),
        table.text("url"),
        table.text("driver"),
        table.mapping("options"),
        table.document.span((*table.path, "predicate")),
    )
    _check_place(table, format_name, bool(path))
    table.close()
    return sink


def _engine(table: TomlTable | None) -> Engine:
    if table is None:
        return Engine()
    engine = Engine(
        table.choice("name", ENGINES, DEFAULT_ENGINE),
        _maintainer(table),
        table.flag("modules") is not False,
        table.count("threads", 1),
        table.number("timeout"),
        table.count("max-facts", 1),
        _memory(table),
        table.count("partitions", 1),
        table.text("master"),
        table.mapping("conf"),
        table.choice("equality", treatments.NAMES, treatments.DEFAULT),
        table.choice("equal", SHOWN, EXPAND),
        table.flag("unique-names") is True,
        table.choice("temporal", PROCEDURES, PROCEDURES[0]),
        _horizon(table),
        table.text("state"),
    )
    if engine.equality != treatments.DEFAULT:
        table.refuse(("equal",), f'requires equality = "{treatments.DEFAULT}"')
    table.close()
    return engine


def _memory(table: TomlTable) -> int | None:
    """Return the limit on the bytes of the state."""
    text = table.text("max-memory")
    size = None if text is None else re.fullmatch(r"(\d+(?:\.\d+)?) ?(MB|GB)", text.strip())
    if text is not None and size is None:
        table.wrong("max-memory", f"is not a size: `{text}`", 'write "500 MB" or "4 GB"')
    return None if size is None else int(float(size[1]) * {"MB": 10**6, "GB": 10**9}[size[2]])


def _time(table: TomlTable) -> tuple[str, ...]:
    """Return the kinds of the time columns after the arguments."""
    names = table.texts("time") or ()
    if len(names) not in (0, 1, 2, 4):
        table.wrong("time", "does not name the time columns", TIME_HELP)
    return names


def _horizon(table: TomlTable) -> str | None:
    """Return the interval in which facts are derived, as text."""
    text = table.text("horizon")
    try:
        Engine(horizon=text).time_settings  # noqa: B018 - raises if it cannot be parsed
        return text
    except ValueError as fault:
        table.wrong("horizon", f"is not an interval: {fault}", 'write it like "0,100"')
        return None


def _maintainer(table: TomlTable) -> str:
    name = table.text("maintainer", maintenance.DEFAULT) or maintenance.DEFAULT
    try:
        maintenance.check_names(name, "none")
    except ProgramError as error:
        fault = error.diagnostics[0]
        table.wrong("maintainer", f"cannot be `{name}`", fault.help)
    return name


def _streams(root: TomlTable) -> tuple[Stream, ...]:
    """Return the streams: one table, or an array of them, of which each begins with [[stream]]."""
    if root.is_table("stream"):
        table = root.table("stream")
        return (_stream(table),) if table is not None else ()
    tables = root.tables("stream")
    for table in tables[1:]:  # settings of the query are set once
        table.refuse(("trigger", "marking", "checkpoint"), "applies to all streams: set it in the first one")
    return tuple(map(_stream, tables))


def _stream(table: TomlTable) -> Stream:
    format_name = table.choice("format", STREAM_FORMATS, "csv")
    options = table.mapping("options")
    is_feed = options.get("readChangeFeed", "").lower() == "true"
    files, size = table.count("files-per-batch", 1), table.count("bytes-per-batch", 1)
    stream = Stream(
        table.text("path"),
        format_name,
        table.text("predicate"),
        table.text("op") or (CHANGE_TYPE if is_feed else "op"),
        table.text("order") or (COMMIT_VERSION if is_feed else None),
        table.choice("missing", MISSING, "reject"),
        files,
        table.number("trigger"),
        table.choice("marking", MARKINGS, MARKINGS[0]),
        table.text("checkpoint"),
        _time(table),
        table.text("table"),
        table.choice("value", MESSAGES, MESSAGES[0]) if "value" in table else None,
        table.flag("append") is True,
        table.text("event-time"),
        _duration(table, "delay") or 0.0,
        _duration(table, "idle"),
        size,
        table.count("records-per-batch", 1),
        options,
        table.document.span((*table.path, "path" if "path" in table else "format")),
    )
    if format_name == "changes":
        keys = ("predicate", "op", "order", "time", "append", "value", "event-time", "delay", "idle")
        table.refuse(keys, "cannot be used with change scripts")
    elif stream.predicate is None and "predicate" not in table:
        table.missing("predicate", "name the predicate that the records change")
    _check_stream(table, stream)
    table.close()
    return stream


def _check_stream(table: TomlTable, stream: Stream) -> None:
    """Add errors for keys of a stream that are missing, or cannot be combined."""
    format_name = stream.format
    if format_name in (*FILE_STREAMS, "changes"):
        if "path" not in table:
            table.missing("path", "name the folder where files arrive")
        table.refuse(("table", "value", "records-per-batch"), f"cannot be used with {format_name}")
    elif format_name == "kafka":
        table.refuse(("path", "table", "files-per-batch", "bytes-per-batch"), "cannot be used with kafka")
        if stream.value is None and "value" not in table:
            table.missing("value", 'set the format of messages: value = "json" or "csv"')
        if "kafka.bootstrap.servers" not in stream.options:
            help = '[stream.options] with "kafka.bootstrap.servers" and "subscribe"'
            table.missing("options", f"name the servers and the topic: {help}")
    else:
        table.refuse(("value", "records-per-batch"), f"cannot be used with {format_name}")
        if ("path" in table) == ("table" in table) or (format_name == "table" and "path" in table):
            table.missing(
                "table", "name a table" if format_name == "table" else "name a table or a path, one of them"
            )
    if stream.files_per_batch is not None and stream.bytes_per_batch is not None:
        table.wrong("bytes-per-batch", "cannot be combined with `files-per-batch`", "Spark takes one of them")
    if stream.append:
        table.refuse(("op",), "cannot be used with append: all records are inserted")
    if stream.event_time is None and "event-time" not in table:
        table.refuse(("delay", "idle"), "requires `event-time`")


def _duration(table: TomlTable, key: str) -> float | None:
    """Return a duration in seconds; it may be a number."""
    text = table.text(key)
    try:
        return None if text is None else read_duration(text).total_seconds()
    except ValueError:
        table.wrong(key, f"is not a duration: `{text}`", 'write "30 s", "10 min" or "1 h"')
        return None
