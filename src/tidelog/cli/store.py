"""`tidelog store`: looking after a store."""

from __future__ import annotations

from argparse import Namespace
from collections.abc import Callable
from pathlib import Path

from tidelog.cli.messages import Messages
from tidelog.cli.terminal import show
from tidelog.cli.usage import UsageError
from tidelog.errors import counted
from tidelog.mending import examine, export, repair
from tidelog.reasoner.storing import open_store
from tidelog.store.folder import Folder


def store(options: Namespace) -> int:
    """The exit code of `tidelog store`."""
    if options.output is not None and options.action != "export":
        raise UsageError("--output makes no sense without `export`")
    folder = Folder(options.store)
    if not folder.is_store:
        folder.find()  # which says so
    actions: dict[str, Callable[[Namespace, Messages], int]] = {
        "check": _check,
        "repair": _repair,
        "compact": _compact,
        "export": _export,
    }
    return actions[options.action](options, Messages(options.quiet))


def _check(options: Namespace, messages: Messages) -> int:
    examined = examine(options.store)
    for finding in examined.findings:
        if finding.is_fault or not options.quiet:
            show(str(finding))
    if not examined.is_whole:
        messages.say(f"`tidelog store repair {options.store}` keeps what can be recovered")
    return 0 if examined.is_whole else 1


def _repair(options: Namespace, messages: Messages) -> int:
    for line in repair(options.store):
        messages.say(line)
    return 0


def _compact(options: Namespace, messages: Messages) -> int:
    before = _size(options.store)
    with open_store(options.store) as reasoner:
        reasoner.compact()
    messages.say(f"{options.store}: {before:,} bytes before, {_size(options.store):,} now")
    return 0


def _export(options: Namespace, messages: Messages) -> int:
    target = options.output or options.store.with_name(f"{options.store.name}.export")
    if target.exists() and (not target.is_dir() or any(target.iterdir())):
        raise UsageError(f"--output {target} is there already, and not an empty folder")
    program, count = export(options.store, target)
    messages.say(f"wrote {program}, {counted(count, 'stated fact')}")
    return 0


def _size(folder: Path) -> int:
    return sum(path.stat().st_size for path in folder.iterdir() if path.suffix == ".tide")
