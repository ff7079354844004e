"""The arguments of `tidelog timeline`. Imports nothing that takes time."""

from __future__ import annotations

import argparse
from fractions import Fraction
from typing import TYPE_CHECKING

from tidelog.cli.options import add_data, add_document, add_limits
from tidelog.cli.store_arguments import add_store_to_read
from tidelog.cli.usage import command, row_count

if TYPE_CHECKING:
    from tidelog.cli.usage import Commands


def add_timeline(commands: Commands) -> None:
    """Add `timeline`."""
    summary = "draw when the answers to queries hold: a lane for each, in the terminal or as a picture"
    example = "tidelog timeline boiler.rls 'hot(?s)' 'alarm(?s)' --output boiler.svg"
    timeline = command(commands, "timeline", summary, example)
    timeline.add_argument("program", metavar="PROGRAM", help="the program, `-` for standard input")
    timeline.add_argument("queries", metavar="QUERY", nargs="*", help="literals, such as 'overheated(?s)'")
    add_data(timeline)
    add_store_to_read(timeline)
    drawn = timeline.add_argument_group("drawing")
    drawn.add_argument("--from", dest="start", metavar="TIME", type=_point, help="where the picture begins")
    drawn.add_argument("--to", dest="end", metavar="TIME", type=_point, help="where it ends")
    drawn.add_argument(
        "--lanes",
        metavar="N",
        type=row_count,
        help="lanes to draw of each query, 0 for all (default 1,000; 100 on a terminal)",
    )
    add_document(timeline.add_argument_group("output"), "text", "svg", "html")
    add_limits(timeline)


def _point(text: str) -> Fraction:
    from tidelog.logic.intervals import read_point  # not for --version

    try:
        point, _ = read_point(text)
    except ValueError as fault:
        raise argparse.ArgumentTypeError(str(fault)) from None
    if point is None:
        raise argparse.ArgumentTypeError(f"a picture cannot reach {text}")
    return point
