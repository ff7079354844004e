"""Going back: a new version that holds what an earlier one held.

Numbers only grow, so that whoever follows the changes learns of this one like of any other.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

import pyarrow as pa

from tidelog.errors import DataError, Diagnostic
from tidelog.pipeline import codes
from tidelog.pipeline.manifest import Manifest
from tidelog.pipeline.publishing import change_between
from tidelog.pipeline.state import State
from tidelog.pipeline.store import Store
from tidelog.publish.schemas import is_same


def roll_back(
    store: Store, version: int | None = None, reached: Callable[[str], None] = lambda _: None
) -> Manifest:
    """Publish what a version held, by default the one before the current one."""
    current = store.manifest()
    wanted = current.parent if version is None else version
    if wanted is None:
        message = f"version {current.version} is the first one in `{store.shown}`"
        raise DataError(Diagnostic(codes.NO_VERSION, message, place=store.shown))
    target = store.manifest(wanted)
    published = store.published
    with published.writing(on_step=reached) as publication:
        for name, table in target.tables.items():
            here = current.tables.get(name)
            if here is not None and here.changed_in == table.changed_in:
                continue
            if here is None or not is_same(here.schema, table.schema):
                batches = published.dataset(name, wanted).to_batches()
                publication.write(name, table.schema, (pa.Table.from_batches([each]) for each in batches))
            else:
                then, now = published.differing(name, current.version, wanted)
                change_between(publication, name, then, now)
        for name in current.tables.keys() - target.tables.keys():
            publication.drop(name)
        # The state is of another version. It goes first: a process that ends here must not leave one that
        # says it is of the version to come.
        # Of tables at an address only the job knows where it is, and finds out by itself that it is outdated.
        if store.beside is not None:
            state = State(store.beside, {})
            state.discard()
            state.remove_unpublished(None)
            state.settle()
        # What a stream has brought it does not bring again.
        origin = replace(target.origin, reason="rollback", batch=current.batch)
        return Manifest.of(publication.commit(origin.to_json(), reason=origin.reason))
