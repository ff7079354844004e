"""`tidelog stream --engine spark`: files of changes come by Structured Streaming, and a store follows them.

Each micro-batch is one transaction of the store, applied exactly once: its number is kept there, and in a
checkpoint beside the store.
"""

from __future__ import annotations

import json
import signal
from argparse import Namespace
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from threading import Event, Lock, current_thread, main_thread
from time import perf_counter
from typing import TYPE_CHECKING, Any

from tidelog.cli.deltas import DeltaFolder, duration, print_lines
from tidelog.cli.messages import Messages
from tidelog.cli.on_spark import choice_to_json, described, start_session
from tidelog.cli.options import ON_SCREEN
from tidelog.cli.reasoning import HEADERS, faults_of
from tidelog.cli.results import Form
from tidelog.cli.updates import STANDARD_INPUT
from tidelog.cli.usage import UsageError
from tidelog.errors import Diagnostic, TidelogError, counted
from tidelog.io.atomic import replacing
from tidelog.io.rejects import BadRow, Faults, OnError
from tidelog.reasoner.delta import counts
from tidelog.spark.strategies import Choice

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from tidelog.spark.maintenance import Changes, Maintained

DRIVER = Choice(
    "driver", 0, "a change costs what it touches: the driver keeps facts and what follows in a store"
)
POLL = "100 milliseconds"
LOOK = 0.1  # seconds between two looks at whether a stream has ended
# Options that only a stream of change scripts has.
REFUSED = {
    "data": ("--data", "add it by `tidelog run --store {store} --data FILE`"),
    "output": ("--output", "`tidelog run --store {store} --output DIR` writes what holds in the end"),
    "param": ("--param", "the program is the store's"),
}


def check(options: Namespace, names: list[str]) -> None:
    """Nothing, if the options go together; else a usage error."""
    if options.store is None:
        raise UsageError(
            "--engine spark needs --store DIR, where the number of each batch is kept",
            f"`tidelog run {options.program} --store DIR` makes one, then name that instead of the program",
        )
    for name, (written, help) in REFUSED.items():
        if getattr(options, name, None):
            raise UsageError(
                f"{written} makes no sense with stream --engine spark", help.format(store=options.store)
            )
    if options.marking not in ("auto", "none"):
        raise UsageError(
            "--marking makes no sense with stream --engine spark: no update is known before it comes"
        )
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
    from tidelog.spark.incoming import incoming

    batches = Batches(options, form, messages)
    maintained = _maintained(options, batches)
    paths = [Path(name) for name in names]
    whole, selected = incoming(session, maintained.program, paths, HEADERS[options.input_header])
    messages.say(described(DRIVER))
    try:
        code = _follow(maintained, whole, selected, batches, options)
    finally:
        maintained.close()
    batches.summarise()
    return code


def _maintained(options: Namespace, batches: Batches) -> Maintained:
    """The store of the options, kept right by batches."""
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
    maintained: Maintained, whole: DataFrame, selected: Any, batches: Batches, options: Namespace
) -> int:
    """Apply all batches, until there are no more or Ctrl-C; the exit code of the worst that happened."""
    from tidelog.spark.failures import telling
    from tidelog.spark.incoming import selections

    working = Lock()  # held while a batch is applied, in a thread of Spark's
    faults: list[BaseException] = []
    worst = 0

    def apply(frame: DataFrame, batch_id: int) -> None:
        nonlocal worst
        with working:
            try:
                start = perf_counter()
                with telling():
                    changes = maintained.apply(changes=selections(selected, frame), batch_id=batch_id)
                batches.take(changes, batch_id, perf_counter() - start)
            except BaseException as error:  # noqa: BLE001 - Spark would only tell its text
                if not (options.keep_going and isinstance(error, TidelogError)):
                    faults.append(error)
                    raise RuntimeError(f"batch {batch_id} failed") from None  # so that it comes again
                batches.messages.diagnose(error.diagnostics)
                worst = max(worst, error.exit_code)

    writer = whole.writeStream.foreachBatch(apply)
    writer = writer.option("checkpointLocation", str(checkpoint_of(options.store)))
    writer = writer.trigger(processingTime=POLL) if options.follow else writer.trigger(availableNow=True)
    with telling(), interrupted() as has_ended:
        query = writer.start()
        try:
            while not has_ended.wait(LOOK) and query.isActive:
                pass
            if not query.isActive:
                query.awaitTermination()  # raises what ended it
                return worst
            with working:  # a batch that is being applied is applied as a whole
                query.stop()
            batches.messages.say("interrupted while waiting: the stream ends here")
        except Exception:
            if faults:
                batches.tell_failure()
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


class Batches:
    """What batches have changed so far. Mutable: it grows with each."""

    def __init__(self, options: Namespace, form: Form, messages: Messages) -> None:
        self.messages = messages
        self.on_error, self._rejects = faults_of(options)
        self._options = options
        self._form = form
        self._folder = None if options.deltas is None else DeltaFolder(options.deltas, form, continued=True)
        self._prints = options.format == "jsonl" and options.deltas is None
        self._faults = Faults(self.on_error, self._rejects)
        self.added = self.removed = self.repeated = 0
        self.seconds: list[float] = []

    def publish(self, changes: Changes, batch_id: int | None) -> None:
        """Write what a batch changes, before it is committed: after a failure it is written again."""
        assert changes.delta is not None and batch_id is not None
        if self._folder is not None:
            self._folder.write(changes.delta, changes.program, batch_id)
        if self._prints:
            print_lines(changes.delta, self._form, batch=batch_id)

    def take(self, changes: Changes, batch_id: int, seconds: float) -> None:
        """Report a batch that is committed."""
        if changes.delta is None:
            self.repeated += 1
            self.messages.say(f"batch {batch_id} was applied before")
            return
        self.messages.diagnose(changes.notices)
        for place, code, reason, row in changes.rejected:
            self._faults.add(BadRow(Diagnostic(code, reason, place=place), row))
        self.added += changes.delta.added
        self.removed += changes.delta.removed
        self.seconds.append(seconds)
        self.messages.say(f"batch {batch_id}: {changes.delta}  {duration(seconds)}")

    def tell_failure(self) -> None:
        """Say what holds although the stream ends with an error."""
        done = len(self.seconds)
        self.messages.say(f"stopped after {counted(done, 'batch', 'batches')}: the next one failed")

    def summarise(self) -> None:
        """Report the whole stream, with statistics where they were asked for."""
        self._faults.close()
        if self._faults.skipped:
            kept = f"; see {self._rejects}" if self.on_error is OnError.COLLECT else ""
            self.messages.say(f"left out {counted(self._faults.skipped, 'row')} that could not be read{kept}")
        done, total = len(self.seconds), duration(sum(self.seconds))
        self.messages.say(f"{counted(done, 'batch', 'batches')}: {counts(self.added, self.removed)}  {total}")
        if self._options.stats not in (None, ON_SCREEN):
            with replacing(Path(self._options.stats)) as stream:
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
