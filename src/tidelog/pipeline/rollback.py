"""Going back: a new version that holds what an earlier one held.

The pointer only ever moves forward, so that whoever follows the changes learns of this one like of any other.
"""

from __future__ import annotations

from collections.abc import Callable
from datetime import UTC, datetime

from tidelog.engine.columnar.evaluate import ColumnarEngine
from tidelog.errors import DataError, Diagnostic
from tidelog.pipeline import codes
from tidelog.pipeline.manifest import Feed, Manifest
from tidelog.pipeline.store import Store
from tidelog.pipeline.tables import TableWriter
from tidelog.pipeline.version import changes_between


def roll_back(
    store: Store, version: int | None = None, reached: Callable[[str], None] = lambda _: None
) -> Manifest:
    """Publish what a version held, by default the one before the current one."""
    with store.writing():
        current = store.manifest()
        wanted = current.parent if version is None else version
        if wanted is None:
            message = f"version {current.version} is the first one in `{store.path}`"
            raise DataError(Diagnostic(codes.NO_VERSION, message, place=str(store.path)))
        target = store.manifest(wanted)
        number = store.begin()
        manifest = Manifest(
            number,
            current.version,
            datetime.now(UTC).isoformat(timespec="milliseconds"),
            "rollback",
            target.job,
            target.program,
            target.rules,
            target.tables,
            _feed(store, current, target, number),
            target.inputs,
            current.batch,  # what a stream has brought it does not bring again
            target.engine,
            target.treatment,
            target.time,
        )
        store.publish(manifest, reached)
        return manifest


def _feed(store: Store, current: Manifest, target: Manifest, number: int) -> dict[str, Feed]:
    """What going back changes, written to files."""
    engine = ColumnarEngine(1)
    writer = TableWriter(store.path, store.folder(number), engine)
    feed = {}
    for name, changed in changes_between(store, current, target, engine).items():
        if changed.count:
            of = target if name in target.tables else current
            parts = writer.changed(name, changed, of.layout(name), of.tables[name].facts, "changes")
            feed[name] = Feed(changed.added.count, changed.removed.count, parts)
    writer.sync()
    return feed
