"""Writers that are killed: `python -m tests.publish.killed FOLDER FORMAT HOW STRIDE`.

For each operation on files and each step of a publication, a process publishes version 3 of a folder and dies
there by SIGKILL, and another one looks at what is left. The processes are forked from this one, which does
nothing else: to start Python for each of them would take most of the time.
"""

from __future__ import annotations

import os
import shutil
import signal
import sys
import traceback
from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

from pyiceberg.catalog.sql import SqlCatalog

from tests.publish.test_kills import check_recovered, decide, hook, prepared, third
from tidelog import durable
from tidelog.publish import Published, object_storage

OPERATIONS = ("write_all", "replace", "remove")  # the others change nothing that a killed process leaves


def run(work: Callable[[], None]) -> int:
    """Do something in a process of its own, and return how that ended."""
    process = os.fork()
    if process == 0:
        code = 1
        try:
            work()
            code = 0
        except BaseException:  # noqa: BLE001 - whatever it is, the process ends
            traceback.print_exc()
        finally:
            sys.stdout.flush()
            sys.stderr.flush()
            os._exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(process, 0)[1])


def publish(folder: Path, count: int, has_hook: bool) -> None:
    """Publish, and die at an operation."""
    left = [count]

    def reached(*_: Any) -> None:
        left[0] -= 1
        if left[0] == 0:
            os.kill(os.getpid(), signal.SIGKILL)

    def counted(function: Callable[..., Any]) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            reached()
            done = function(*arguments, **named)
            reached()
            return done

        return call

    for name in OPERATIONS:
        setattr(durable, name, counted(getattr(durable, name)))
    object_storage.link = counted(object_storage.link)
    for name in ("create_table", "commit_table", "drop_table"):
        setattr(SqlCatalog, name, counted(getattr(SqlCatalog, name)))
    with Published(folder).writing(decide(folder), reached) as publication:
        third(publication)
        publication.commit({"n": 3}, before_switch=hook(folder) if has_hook else None)


def main(base: Path, format: str, has_hook: bool, stride: int) -> None:
    """Kill a writer at every operation, or at every few of them; print at how many."""
    count, kills, ended = 1, 0, -signal.SIGKILL
    folder = base / "published"
    while ended != 0:
        shutil.rmtree(base, ignore_errors=True)
        base.mkdir()
        if run(lambda: prepared(folder, format)):
            sys.exit("the folder could not be prepared")
        ended = run(partial(publish, folder, count, has_hook))
        if ended not in (0, -signal.SIGKILL):
            sys.exit(f"the writer ended with {ended} instead of being killed at {count}")
        if run(lambda: check_recovered(folder, has_hook)):
            sys.exit(f"a writer that was killed at operation {count} left something wrong")
        kills += ended != 0
        count += stride
    print(kills)


if __name__ == "__main__":
    main(Path(sys.argv[1]), sys.argv[2], sys.argv[3] == "hook", int(sys.argv[4]))
