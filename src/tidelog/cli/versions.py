"""`tidelog versions`, `diff`, `rollback`, `vacuum` and `convert`."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from pathlib import Path

from tidelog.cli.deltas import by_predicate, print_lines, print_script
from tidelog.cli.messages import Messages
from tidelog.cli.results import Form
from tidelog.cli.terminal import show
from tidelog.errors import DataError, Diagnostic, counted
from tidelog.pipeline import codes
from tidelog.pipeline.convert import convert as convert_versions
from tidelog.pipeline.convert import delete_former
from tidelog.pipeline.job import Job
from tidelog.pipeline.job_file import load_settings
from tidelog.pipeline.manifest import Manifest
from tidelog.pipeline.rollback import roll_back
from tidelog.pipeline.store import FAILED, Store, store_of
from tidelog.pipeline.version import difference
from tidelog.publish import Published
from tidelog.reasoner.delta import Delta, counts


def versions(options: Namespace) -> int:
    """The exit code of `tidelog versions`."""
    store = _store(options.target)
    failed = store.failed()
    current = 0 if failed is not None and store.number is None else store.manifest().version
    found = [store.manifest(number) for number in store.numbers()]
    found += [] if failed is None else [failed]
    if options.format == "json":
        json.dump([_to_json(manifest, current) for manifest in found], sys.stdout, indent=1)
        print()
        return 0
    for line in _listed(found, current, options.predicates):
        show(line)
    return 0


def diff(options: Namespace) -> int:
    """The exit code of `tidelog diff`."""
    store = _store(options.target)
    asked = (options.first, options.second)
    if asked == (FAILED, None):
        asked = (None, FAILED)  # what would have changed
    second = store.looked_at(asked[1])
    first = asked[0] if asked[0] is not None else second.parent
    if first is None:
        message = f"version {second.version} is the first one in `{store.shown}`"
        raise DataError(Diagnostic(codes.NO_VERSION, message, place=store.shown))
    delta = difference(store, first, FAILED if second.failures else second.version)
    names = _chosen(delta, options.predicate)
    if options.format == "jsonl":
        print_lines(delta, Form("jsonl"), names)
    else:
        print_script(delta, names, None)
    shown = f"version {first} to {FAILED if second.failures else second.version}"
    Messages(options.quiet).say(f"{shown}: {delta}{_in_parentheses(by_predicate(delta))}")
    return 0


def rollback(options: Namespace) -> int:
    """The exit code of `tidelog rollback`."""
    store = _store(options.target)
    manifest = roll_back(store, options.version)
    if isinstance(options.target, Path) and options.target.is_file():
        Job.load(options.target).refresh_sinks()
    said = counts(manifest.added, manifest.removed)
    Messages(options.quiet).say(
        f"published version {manifest.version}: {counted(manifest.rows, 'fact')}, {said}"
    )
    return 0


def vacuum(options: Namespace) -> int:
    """The exit code of `tidelog vacuum`."""
    store = _store(options.target)
    store.manifest()
    numbers = store.numbers()
    files, size = store.published.vacuum(options.keep)
    gone = numbers[: -options.keep]
    store.remove_rejects(gone)
    Messages(options.quiet).say(
        f"removed {counted(len(gone), 'version')}, {counted(files, 'file')}, {size:,} bytes"
    )
    return 0


def convert(options: Namespace) -> int:
    """The exit code of `tidelog convert`."""
    messages = Messages(options.quiet)
    target = options.target or options.folder.with_name(f"{options.folder.absolute().name}.converted")

    def reached(number: int, now: int) -> None:
        known = published.version(now)
        facts = sum(table.rows for table in known.tables.values())
        messages.say(f"converted version {number}: version {now}, {counted(facts, 'fact')}")

    published = Published(target, options.format)
    convert_versions(options.folder, target, options.format, reached)
    messages.say(f"published {counted(len(published.numbers()), 'version')} in {target}; name it in the job")
    if options.delete_old:
        delete_former(options.folder)
        messages.say(f"deleted the versions in {options.folder}")
    return 0


def _store(target: Path | str) -> Store:
    """The published folder that is meant."""
    if isinstance(target, Path) and target.is_file():
        return store_of(load_settings(target))
    return Store(target)


def _chosen(delta: Delta, wanted: list[str] | None) -> tuple[str, ...]:
    """The predicates to tell of; raises `ProgramError` if one of them is unknown."""
    if wanted is None:
        return delta.predicates
    return tuple(delta[name].predicate for name in wanted)


def _in_parentheses(text: str) -> str:
    return f" ({text})" if text else ""


def _listed(found: list[Manifest], current: int, predicates: bool) -> list[str]:
    """The versions as lines that line up."""
    rows = [("version", "published", "by", "facts", "added", "removed", "rejected")]
    rows += [
        (
            FAILED
            if manifest.failures
            else f"{manifest.version}{' *' if manifest.version == current else ''}",
            f"{manifest.published.time:%Y-%m-%d %H:%M:%S}",
            manifest.reason,
            f"{manifest.rows:,}",
            f"{manifest.added:,}",
            f"{manifest.removed:,}",
            f"{manifest.rejected:,}",
        )
        for manifest in found
    ]
    widths = [max(len(row[place]) for row in rows) for place in range(len(rows[0]))]
    lines = []
    for place, row in enumerate(rows):
        cells = [
            text.rjust(width) if column > 2 else text.ljust(width)
            for column, (text, width) in enumerate(zip(row, widths, strict=True))
        ]
        lines.append("  ".join(cells).rstrip())
        if predicates and place:
            lines += _tables(found[place - 1])
        if place:
            lines += [f"    {line}" for each in found[place - 1].failures for line in each.splitlines()]
    return lines


def _tables(manifest: Manifest) -> list[str]:
    """The predicates of a version, each with its facts and what changed."""
    lines = []
    for name, table in manifest.tables.items():
        feed = manifest.feed.get(name)
        changed = f"  {counts(feed.added, feed.removed)}" if feed else ""
        lines.append(f"    {name}({', '.join(table.schema.names)})  {table.rows:,}{changed}")
    return lines


def _to_json(manifest: Manifest, current: int) -> dict[str, object]:
    return {
        "version": FAILED if manifest.failures else manifest.version,
        "current": manifest.version == current and not manifest.failures,
        "failures": list(manifest.failures),
        "parent": manifest.parent,
        "created": manifest.published.time.isoformat(timespec="milliseconds"),
        "reason": manifest.reason,
        "facts": manifest.rows,
        "added": manifest.added,
        "removed": manifest.removed,
        "rejected": manifest.rejected,
        "batch": manifest.batch.batch if manifest.batch else None,
        "predicates": {
            name: {
                "columns": list(table.schema.names),
                "facts": table.rows,
                "added": manifest.feed[name].added if name in manifest.feed else 0,
                "removed": manifest.feed[name].removed if name in manifest.feed else 0,
            }
            for name, table in manifest.tables.items()
        },
    }
