"""The options of rules over time."""

from __future__ import annotations

import argparse
from argparse import Namespace
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from tidelog.logic.intervals import Interval
    from tidelog.temporal.reasoning import TimeSettings

PROCEDURES: Final = ("optimised", "seminaive", "naive")  # as in tidelog.temporal, which --help need not load


def add_time(parser: argparse.ArgumentParser) -> None:
    """Add the options to a command."""
    group = parser.add_argument_group("rules over time")
    group.add_argument(
        "--temporal",
        choices=PROCEDURES,
        help="how they are materialised (default optimised)",
    )
    group.add_argument("--rounds", metavar="N", type=_rounds, help="stop after so many rounds")
    group.add_argument(
        "--horizon", metavar="FROM,TO", type=_horizon, help="derive nothing beyond: numbers, dateTimes, inf"
    )


def time_settings(options: Namespace) -> TimeSettings:
    """What the options ask for; a command without them takes what is usual."""
    from tidelog.temporal.reasoning import TimeSettings

    if not hasattr(options, "temporal"):
        return TimeSettings()
    return TimeSettings(options.temporal or PROCEDURES[0], options.rounds, options.horizon)


def is_time_said(options: Namespace) -> bool:
    """Whether any of the options is given."""
    return any(getattr(options, name, None) is not None for name in ("temporal", "rounds", "horizon"))


def _rounds(text: str) -> int:
    if not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of rounds")
    return int(text)


def _horizon(text: str) -> Interval:
    from tidelog.logic.intervals import read_interval

    try:
        return read_interval(text if text[:1] in "[(" else f"[{text}]")
    except ValueError as fault:
        raise argparse.ArgumentTypeError(f"{fault}; write it like 0,100") from None
