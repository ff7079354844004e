"""What is wrong with a command line is said here: commands, and the types of their arguments.

Imports nothing that takes time.
"""

from __future__ import annotations

import argparse
import sys
from typing import TYPE_CHECKING, NoReturn

from tidelog.shown import visible_lines


class UsageError(Exception):
    """A command line that makes no sense, found after its options were read."""

    def __init__(self, message: str, help: str | None = None) -> None:
        super().__init__(message)
        self.help = help

    def report(self) -> int:
        """The exit code for wrong usage; the reason is on standard error."""
        print(f"tidelog: error: {visible_lines(str(self))}", file=sys.stderr)
        if self.help:
            print(f"  help: {visible_lines(self.help)}", file=sys.stderr)
        return 2


class Parser(argparse.ArgumentParser):
    """A parser whose errors are short."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where help is."""
        raise UsageError(message.removeprefix("argument "), f"`{self.prog} --help` lists the options")


if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[Parser]


def command(commands: Commands, name: str, summary: str, example: str) -> Parser:
    """Add a command; what it takes is still to be added."""
    return commands.add_parser(
        name,
        allow_abbrev=False,
        help=summary,
        description=summary[:1].upper() + summary[1:] + ".",
        epilog=f"example: {example}",
    )


# ---- types of arguments


def parameter(text: str) -> tuple[str, str]:
    """The name and the value of a parameter."""
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form name=value")
    return name.removeprefix("$"), value


def setting(text: str) -> tuple[str, str]:
    """The key and the value of a setting."""
    key, sign, value = text.partition("=")
    if not sign or not key:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form key=value")
    return key, value


def positive(text: str) -> int:
    """A whole number, at least 1."""
    number = _whole(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def row_count(text: str) -> int:
    """A whole number, at least 0."""
    number = _whole(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative")
    return number


def _whole(text: str) -> int:
    try:
        return int(text.replace(",", "").replace("_", ""))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def seconds(text: str) -> float:
    """A time to wait."""
    try:
        number = float(text.removesuffix("s"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds") from None
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a time to wait")
    return number
