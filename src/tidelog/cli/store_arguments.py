"""The arguments of stores: `--store` and its kin, and `tidelog store`. Imports nothing that takes time."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidelog.cli.usage import command

if TYPE_CHECKING:
    from tidelog.cli.usage import Commands

DURABILITY: Final = ("full", "fast")
READING: Final = ("explain", "plan", "timeline", "sparql")  # commands that change no store
PROGRAMS: Final = ("run", "query", "stream", "profile", *READING)  # commands that need one, or a store
ACTIONS: Final = {
    "check": "say whether all is whole, and what could be recovered if it is not",
    "repair": "keep what can be recovered of a damaged store; the damaged files are set aside",
    "compact": "write a snapshot now, so that the journal is empty",
    "export": "write the program and the stated facts to a folder that `tidelog run` takes",
}


def add_store_options(parser: argparse.ArgumentParser, *, reading: bool = False) -> None:
    """Add `--store`, and how it is opened."""
    group = parser.add_argument_group("store")
    group.add_argument(
        "--store",
        metavar="DIR",
        type=Path,
        help="the store to work on, which is made of PROGRAM where there is none",
    )
    group.add_argument(
        "--durability",
        choices=DURABILITY,
        help="a commit is on the disk when it returns (full, the default), or soon after (fast)",
    )
    if reading:
        group.add_argument(
            "--read-only", action="store_true", help="read the store, whoever writes to it meanwhile"
        )


def add_store_to_read(parser: argparse.ArgumentParser) -> None:
    """Add `--store` to a command that changes nothing."""
    parser.add_argument_group("store").add_argument(
        "--store", metavar="DIR", type=Path, help="the store to look at, instead of PROGRAM"
    )


def add_store_command(commands: Commands) -> None:
    """Add `store`."""
    store = command(commands, "store", "look after a store", "tidelog store check graph")
    meanings = "; ".join(f"{name}: {meaning}" for name, meaning in ACTIONS.items())
    store.add_argument("action", choices=tuple(ACTIONS), help=meanings)
    store.add_argument("store", metavar="DIR", type=Path, help="the store")
    store.add_argument(
        "-o", "--output", metavar="DIR", type=Path, help="where `export` writes (default DIR.export)"
    )
    store.add_argument("-q", "--quiet", action="store_true", help="report errors only")


def wrong_store_options(options: argparse.Namespace) -> str | None:
    """What makes no sense about the options of stores, if anything does; arguments get their meaning."""
    store = getattr(options, "store", None)
    if store is not None:
        _take_first(options)
        if options.command in READING and (options.program or getattr(options, "ontology", None)):
            return f"{options.command} takes PROGRAM or --store, not both"
        if options.command in READING and getattr(options, "data", None):
            return (
                f"{options.command} changes no store: add data by `tidelog run --store {store} --data FILE`"
            )
    if store is None:
        has_data = options.command == "sparql" and bool(options.data)
        needs_program = options.command in PROGRAMS and not getattr(options, "ontology", None)
        if needs_program and options.program is None and not has_data:
            if options.command == "query" and options.query.endswith(".rls"):
                return f"QUERY is missing: what is asked of {options.query}, such as 'ancestor(alice, ?x)'"
            return "PROGRAM is missing: name one, or a store with --store"
        for name in ("durability", "read_only"):
            if getattr(options, name, None):
                return f"--{name.replace('_', '-')} makes no sense without --store"
    elif getattr(options, "watch", False):
        return "--watch makes no sense with --store"
    return None


def _take_first(options: argparse.Namespace) -> None:
    """The program is the store's: what stands first is what would come after a program."""
    first = getattr(options, "program", None)
    if first is None:
        return
    for name, rest in (("stream", "updates"), ("timeline", "queries")):
        if options.command == name:
            setattr(options, rest, [first, *getattr(options, rest)])
            options.program = None
    if options.command == "explain" and (options.query, options.why_not, options.what_if) == (None,) * 3:
        options.query, options.program = first, None
