"""The arguments of the commands around pipelines. Imports nothing that takes time."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidelog.cli.options import ENGINES, add_sandbox, add_session
from tidelog.cli.usage import command

if TYPE_CHECKING:
    from tidelog.cli.usage import Commands

KEPT_VERSIONS: Final = 10
FAILED: Final = "failed"  # a version that was set aside
_TARGET: Final = "the folder of published versions, its address (s3://…), or the job that publishes there"


def add_pipeline_commands(commands: Commands) -> None:
    """Add `pipeline`, `versions`, `diff`, `rollback`, `vacuum` and `convert`."""
    _add_pipeline(commands)
    _add_versions(commands)
    _add_diff(commands)
    _add_rollback(commands)
    _add_vacuum(commands)
    _add_convert(commands)


def _add_pipeline(commands: Commands) -> None:
    summary = "run a job: read its sources, reason, publish a version"
    pipeline = command(commands, "pipeline", summary, "tidelog pipeline flights.toml")
    pipeline.add_argument("job", metavar="JOB.toml", type=Path, help="the job")
    running = pipeline.add_argument_group("running")
    running.add_argument(
        "--full",
        "--full-refresh",
        action="store_true",
        help="derive everything anew, and take the columns of the data as they are now",
    )
    running.add_argument(
        "--refresh",
        metavar="NAME,…",
        type=_names,
        action="extend",
        default=[],
        help="derive these predicates again, and read the sources of all that they depend on, changed or not",
    )
    running.add_argument(
        "--stream",
        action="store_true",
        help="then go on with the changes that come to the job's stream; Ctrl-C ends",
    )
    running.add_argument(
        "--available-now",
        action="store_true",
        help="with --stream: end when all changes that are there have been taken",
    )
    running.add_argument(
        "--validate",
        action="store_true",
        help="check the job, its program, guards, sinks and files, and run nothing",
    )
    running.add_argument(
        "--exit-unchanged",
        action="store_true",
        help="exit with 99 if nothing has changed, so that a scheduler skips what depends on it",
    )
    running.add_argument(
        "--engine", choices=ENGINES, help="the engine, whatever the job says (default: the job's, else spark)"
    )
    add_session(running)
    running.add_argument("--stats", action="store_true", help="report what each step took, on standard error")
    running.add_argument("-q", "--quiet", action="store_true", help="report errors only")
    add_sandbox(pipeline)


def _add_versions(commands: Commands) -> None:
    summary = "list the published versions"
    versions = command(commands, "versions", summary, "tidelog versions flights.toml")
    versions.add_argument("target", metavar="DIR|JOB.toml", type=_target, help=_TARGET)
    versions.add_argument("-f", "--format", choices=("table", "json"), default="table")
    versions.add_argument(
        "--predicates", action="store_true", help="with the facts of each predicate, and what changed in it"
    )


def _add_diff(commands: Commands) -> None:
    summary = "print what changed between two published versions"
    diff = command(commands, "diff", summary, "tidelog diff published 3 5")
    diff.add_argument("target", metavar="DIR|JOB.toml", type=_target, help=_TARGET)
    help = "a version (default: the one before), or failed: what the last run has set aside"
    diff.add_argument("first", metavar="V1", type=_version, nargs="?", help=help)
    diff.add_argument(
        "second", metavar="V2", type=_version, nargs="?", help="another one (default: the current)"
    )
    diff.add_argument(
        "-f",
        "--format",
        choices=("changes", "jsonl"),
        default="changes",
        help="a change script (default), or an object a line",
    )
    diff.add_argument("--predicate", metavar="NAME", action="append", help="only what changed in it")
    diff.add_argument("-q", "--quiet", action="store_true", help="report errors only")


def _add_rollback(commands: Commands) -> None:
    summary = "publish what an earlier version held"
    rollback = command(commands, "rollback", summary, "tidelog rollback published 3")
    rollback.add_argument("target", metavar="DIR|JOB.toml", type=_target, help=_TARGET)
    rollback.add_argument(
        "version", metavar="VERSION", type=int, nargs="?", help="the version (default: the one before)"
    )
    rollback.add_argument("-q", "--quiet", action="store_true", help="report errors only")


def _add_vacuum(commands: Commands) -> None:
    summary = "remove old versions, and files that no version needs"
    vacuum = command(commands, "vacuum", summary, "tidelog vacuum published --keep 5")
    vacuum.add_argument("target", metavar="DIR|JOB.toml", type=_target, help=_TARGET)
    vacuum.add_argument(
        "--keep",
        metavar="N",
        type=_versions,
        default=KEPT_VERSIONS,
        help=f"how many versions stay (default {KEPT_VERSIONS})",
    )
    vacuum.add_argument("-q", "--quiet", action="store_true", help="report errors only")


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise argparse.ArgumentTypeError(f"{text!r} is no list of predicates, such as reach,hops")
    return names


def _version(text: str) -> int | str:
    if text != FAILED and not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is neither a number of a version nor {FAILED!r}")
    return text if text == FAILED else int(text)


def _add_convert(commands: Commands) -> None:
    summary = "convert what was published before there were tables that others read"
    convert = command(commands, "convert", summary, "tidelog convert published --format delta")
    convert.add_argument("folder", metavar="DIR", type=Path, help="the folder of versions as they were")
    convert.add_argument(
        "target", metavar="NEW", type=Path, nargs="?", help="the new folder (default: DIR.converted)"
    )
    convert.add_argument(
        "-f", "--format", choices=("delta", "iceberg", "parquet"), help="of the tables (default: delta)"
    )
    convert.add_argument("--delete-old", action="store_true", help="then delete the versions in DIR")
    convert.add_argument("-q", "--quiet", action="store_true", help="report errors only")


def _target(text: str) -> Path | str:
    return text if "://" in text else Path(text)


def _versions(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of versions, at least 1")
    return int(text)
