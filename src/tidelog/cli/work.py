"""A reasoner made from the options of the command line, and its messages and progress."""

from __future__ import annotations

import shutil
import sys
from argparse import Namespace
from collections.abc import Callable, Iterable, Iterator, Sequence
from contextlib import contextmanager
from dataclasses import replace
from functools import partial
from pathlib import Path
from threading import Event as ThreadEvent
from threading import Lock, Thread
from time import monotonic, perf_counter
from types import TracebackType
from typing import TYPE_CHECKING, Any, Final

from tidelog import maintenance
from tidelog.cli.options import READING, UsageError, is_time_said, time_settings
from tidelog.cli.output import Messages
from tidelog.cli.program_sources import existing_data, load_beside, sandbox_of, unused, warnings
from tidelog.engine.columnar.engine import EngineSettings, settings_of
from tidelog.engine.events import Event, Listener, Notice, Tally, ValuesMissing, hear_rounds
from tidelog.errors import (
    Diagnostic,
    Inconsistent,
    ProgramError,
    Span,
    counted,
    visible,
)
from tidelog.io.data_file import TRIPLE, data_file, format_of, predicate_of
from tidelog.io.reader import read
from tidelog.io.rejects import OnError
from tidelog.logic.import_options import Nulls, is_counted_apart
from tidelog.logic.program import Predicate, Program
from tidelog.logic.resolve import EMPTY
from tidelog.logic.values import ColumnType
from tidelog.plan.rule_text import Writing
from tidelog.query.strategy import TABLE_MEMORY
from tidelog.reasoner.reasoner import Reasoner

if TYPE_CHECKING:
    from tidelog.ontology.ontology import Ontology
    from tidelog.reasoner.storing import StoredReasoner

# ---- progress

WAIT: Final = 1.0  # seconds before the line appears
LOGGED: Final = 300.0  # seconds between two lines of a log
_PERIOD: Final = 0.1
_CLEAR: Final = "\r\x1b[2K"


class ProgressLine:
    """While it is entered, a thread keeps the line up to date on a terminal; on leaving, the line is cleared.

    `line` returns the text, given the seconds since the block began. With `logged`, standard error that is no
    terminal gets a line every five minutes.
    """

    def __init__(self, line: Callable[[float], str], quiet: bool = False, logged: bool = False) -> None:
        self._line = line
        self._is_terminal = sys.stderr.isatty()
        self._is_shown = not quiet and (self._is_terminal or logged)
        self._ended = ThreadEvent()
        self._writing = Lock()
        self._thread: Thread | None = None
        self._start = 0.0

    def __enter__(self) -> ProgressLine:
        self._start = monotonic()
        if self._is_shown:
            self._thread = Thread(target=self._show, daemon=True)
            self._thread.start()
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._ended.set()
        if self._thread is not None:
            self._thread.join()

    @contextmanager
    def aside(self) -> Iterator[None]:
        """In the block, other text can be written: the line is cleared, and comes back after it."""
        with self._writing:
            if self._is_shown and self._is_terminal:
                sys.stderr.write(_CLEAR)
            yield

    def _show(self) -> None:
        first, then = (WAIT, _PERIOD) if self._is_terminal else (LOGGED, LOGGED)
        wait = first
        while not self._ended.wait(wait):
            line = visible(self._line(monotonic() - self._start))
            with self._writing:
                self._write(line)
            wait = then
        if wait == then and self._is_terminal:
            sys.stderr.write(_CLEAR)
            sys.stderr.flush()

    def _write(self, line: str) -> None:
        width = shutil.get_terminal_size().columns
        sys.stderr.write(f"{_CLEAR}{line[: width - 1]}" if self._is_terminal else f"{line}\n")
        sys.stderr.flush()


def progress_line(tally: Tally, seconds: float) -> str:
    """Return the progress of the work, in one line.

    >>> progress_line(Tally(loaded=1200), 1.5)
    'reading · 1,200 facts · 1.5 s'
    """
    facts = f"{counted(tally.loaded + tally.derived, 'fact')} · {seconds:.1f} s"
    stratum = tally.stratum
    if stratum is None:
        return f"reading · {facts}"
    names = ", ".join(stratum.predicates)
    return f"stratum {stratum.number + 1} of {stratum.count} · round {tally.round + 1} · {facts} · {names}"


# ---- a reasoner made from the options of the command line

QUAD: Final = "quad"
TRIPLES: Final = Predicate(TRIPLE, 3, (None,) * 3, (ColumnType.ANY,) * 3, TRIPLE)
QUADS: Final = Predicate(QUAD, 4, (None,) * 4, (ColumnType.ANY,) * 4, QUAD)
WITH_GRAPHS: Final = frozenset({"nquads", "trig", "jsonld"})
REJECTS: Final = Path("rejects.csv")
HEADERS: Final = {"auto": None, "yes": True, "no": False}


class LoadedProgram:
    """A program, its data, and the reasoner that derives facts from both. Mutable, as the reasoner is."""

    def __init__(self, options: Namespace, listeners: Iterable[Listener] = ()) -> None:
        self.start = perf_counter()
        self.options = options
        self.listeners = tuple(listeners)
        self.messages = Messages(options.quiet)
        on_error, rejects = faults_of(options)
        self.files = existing_data(options.data)
        self.maintainer, self.marking = _algorithm(options)
        self.rejects = (on_error, rejects)
        name = options.program
        self.sandbox = sandbox_of(options)
        program = load_beside(name, parameters(options), self.files, self.sandbox) if name else None
        self.ontology = self._load_ontology()
        if self.ontology is not None:
            program = self.ontology.joined(program or EMPTY)
        is_about_rdf = self.ontology is not None or options.command == "sparql"
        self.graphs = (QUAD,) if is_about_rdf and any(map(_has_graphs, self.files)) else ()
        self.store: Path | None = getattr(options, "store", None)
        if is_about_rdf and (program is not None or self.store is None):
            program = program or EMPTY
            rdf_predicates = {TRIPLE: TRIPLES} | ({QUAD: QUADS} if self.graphs else {})
            program = replace(program, predicates={**rdf_predicates, **program.predicates})
        self.reasoner = self.begin(program or EMPTY) if self.store is None else self.open(program)
        self.reasoner.warn = self._warn_of_query
        self.tally = self.reasoner.statistics  # what each rule did
        self.reasoning: float | None = None  # seconds, where the tally has none
        self.reasoner.runtime.started = monotonic()

    def begin(self, program: Program) -> Reasoner:
        """A reasoner as the options want it."""
        return Reasoner(program, **self._settings)

    def open(self, program: Program | None) -> Reasoner:
        """The reasoner of the store that the options name; one that is new begins when the data is read."""
        from tidelog.reasoner.storing import open_store
        from tidelog.store.store import DURABILITY, StoreFolder

        assert self.store is not None
        options = self.options
        settings = self._settings
        if StoreFolder(self.store).is_store:  # it knows how it was made
            settings = {name: value for name, value in settings.items() if _is_said(options, name)}
        return open_store(
            self.store,
            program,
            durability=getattr(options, "durability", None) or DURABILITY[0],
            read_only=options.command in READING or getattr(options, "read_only", False),
            later=True,
            **settings,
        )

    @property
    def _settings(self) -> dict[str, Any]:
        """The settings of a reasoner by the options."""
        options = self.options
        on_error, rejects = self.rejects
        megabytes: int | None = getattr(options, "table_memory", None)
        processes: int | None = getattr(options, "processes", None)
        return {
            **({} if processes is None else {"processes": processes}),
            "engine": engine_of(options),
            "maintainer": self.maintainer,
            "marking": self.marking,
            "modules": options.modules,
            "equality": options.equality,
            "unique_names": options.unique_names,
            "equal": options.equal,
            "threads": options.threads,
            "timeout": options.timeout,
            "max_facts": options.max_facts,
            "table_memory": TABLE_MEMORY if megabytes is None else megabytes << 20,
            "on_error": on_error,
            "rejects": rejects,
            "listeners": [self._listen, *self.listeners],
            "time": time_settings(options),
            "allow_read": self.sandbox.read,
            "allow_write": self.sandbox.write,
        }

    def __enter__(self) -> LoadedProgram:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        stored = self._stored()
        if stored is not None:
            stored.close()

    def _stored(self) -> StoredReasoner | None:
        """The reasoner, if it has a store."""
        if self.store is None:  # programs without one do not import the package
            return None
        from tidelog.reasoner.storing import StoredReasoner

        return self.reasoner if isinstance(self.reasoner, StoredReasoner) else None

    def replace(self, reasoner: Reasoner) -> None:
        """Continue with another reasoner."""
        self.reasoner = reasoner
        reasoner.warn = self._warn_of_query
        self.tally = reasoner.statistics

    @property
    def program(self) -> Program:
        """The program as it is now."""
        return self.reasoner.program

    def _warn_of_query(self, warned: Sequence[Diagnostic]) -> None:
        """Print the warnings about a query; those about queries of the program come with the rest."""
        queries = [query.rule.span for query in self.program.queries if query.rule.span is not None]
        printed = {item.message for item in self.program.warnings if _is_within(item.span, queries)}
        self.messages.diagnose(item for item in warned if item.message not in printed)

    def warn(self, *, about_unused: bool = True) -> None:
        """Print the warnings about the program and its data; data files that nothing uses are not read."""
        unused_files = unused(self.program, self.files) if about_unused else {}
        outside = self.ontology.summary if self.ontology else ()
        self.messages.diagnose((*warnings(self.program, self.files), *outside, *unused_files.values()))
        self.files = tuple(path for path in self.files if path not in unused_files)

    def derive(self) -> None:
        """Read the data and derive everything; raise what stops it."""
        with self.showing_progress(), self.keeping_rejects():
            self.read()
            self.reasoner.materialise()
        self.report_rejects()
        self.report_completeness()

    def read(self, paths: Sequence[Path] | None = None) -> None:
        """Read data files, by default those of the options."""
        files = self.files if paths is None else paths
        if files:
            self.reasoner.read(*files, header=HEADERS[self.options.input_header])
        for path in filter(_has_graphs, files) if self.graphs else ():
            # One that was written by `run` is named after `quad`: it is read as that, and holds triples too.
            other = TRIPLES if predicate_of(path, self.program.predicates) == QUAD else QUADS
            self.reasoner.load(other.name, read(data_file(path, other), self.reasoner.faults))
        stored = self._stored()
        if stored is not None:
            stored.begin()

    def _load_ontology(self) -> Ontology | None:
        """The ontology that the options name."""
        paths: list[Path] = getattr(self.options, "ontology", [])
        if not paths:
            return None
        from tidelog.ontology.ontology import load_ontology

        options = self.options
        return load_ontology(*paths, equality=options.same_as, unique_names=options.unique_names)

    def showing_progress(self) -> ProgressLine:
        """Show progress of the work in the block."""
        return ProgressLine(partial(progress_line, self.reasoner.statistics), self.messages.quiet)

    @contextmanager
    def keeping_rejects(self) -> Iterator[None]:
        """Keep the file of rejected rows if the block reads all data, else delete it."""
        faults = self.reasoner.faults
        try:
            yield
        except Inconsistent:
            raise
        except BaseException:
            if faults.report.rejects is not None:
                faults.close()
                faults.report.rejects.unlink(missing_ok=True)
            raise
        finally:
            faults.close()

    def report_rejects(self) -> None:
        """Report how many rows were left out."""
        report = self.reasoner.faults.report
        if report.skipped:
            count = counted(report.skipped, "row")
            pointer = f"; see {report.rejects}" if report.rejects else ""
            self.messages.say(f"skipped {count} that could not be read{pointer}")
        for (file, column, action), rows in sorted(self.reasoner.faults.nulls.items()):
            if is_counted_apart(action):
                self.messages.say(describe_nulls(file, column, action, rows))

    def report_completeness(self) -> None:
        """Report whether all facts over time are derived."""
        outcome = self.reasoner.time.outcome
        if self.program.timed and outcome is not None:
            self.messages.say(str(outcome))

    @hear_rounds
    def _listen(self, event: Event) -> None:
        if isinstance(event, Notice):
            self.messages.say(event.text)
        elif isinstance(event, ValuesMissing):
            from tidelog.engine.missing_values import describe_missing

            self.messages.diagnose(describe_missing(event.missing, Writing.of(self.program)))


def describe_nulls(place: str, column: str | None, action: str, rows: int) -> str:
    """Return a line about the treatment of rows that lack a value."""
    verb = "skipped" if action == Nulls.DROP_ROW.value else "kept"
    where = "" if column is None else f" in column `{column}`"
    return f"{verb} {counted(rows, 'row')} of {place} without a value{where}"


def _is_within(span: Span | None, spans: Iterable[Span]) -> bool:
    """Whether a place lies in one of the others."""
    return span is not None and any(
        span.source is container.source and container.start <= span.start and span.end <= container.end
        for container in spans
    )


def _is_said(options: Namespace, setting: str) -> bool:
    """Whether the options set a setting that the facts of a store depend on; true for all others."""
    match setting:
        case "equality":
            return bool(options.is_equality_said)
        case "unique_names":
            return bool(options.unique_names)
        case "time":
            return is_time_said(options)
    return True


def _has_graphs(path: Path) -> bool:
    """Whether a file of triples has them in named graphs, which are stored with the triples."""
    return format_of(path) in WITH_GRAPHS and predicate_of(path, {}) == TRIPLE


def engine_of(options: Namespace) -> EngineSettings:
    """The engine of the options; a usage error if its settings make no sense."""
    if options.engine == "spark":
        message = f"`tidelog {options.command}` runs in this process, not on Spark"
        raise UsageError(message, "`tidelog run`, `query` and `pipeline` take --engine spark")
    if options.master is not None or options.conf:
        raise UsageError("--master and --conf make no sense without --engine spark")
    return settings_of(options.engine)


def parameters(options: Namespace) -> dict[str, str]:
    """The parameters given on the command line."""
    return dict(options.param)


def _algorithm(options: Namespace) -> tuple[str, str]:
    """The maintainer and the marking; a usage error if there are none such, or they do not go together."""
    name: str = getattr(options, "maintainer", maintenance.DEFAULT)
    marking: str = getattr(options, "marking", "none")
    try:
        maintenance.check_names(name, marking)
    except ProgramError as error:
        fault = error.diagnostics[0]
        raise UsageError(fault.message, fault.help) from None
    return name, marking


def faults_of(options: Namespace) -> tuple[OnError, Path]:
    """Return the treatment of rows that cannot be read, and where they are collected."""
    if options.rejects is not None and options.on_error in ("fail", "skip"):
        raise UsageError(
            f"--rejects cannot be used with --on-error {options.on_error}", "use --on-error collect"
        )
    otherwise = "fail" if options.rejects is None else "collect"
    return OnError(options.on_error or otherwise), options.rejects or REJECTS
