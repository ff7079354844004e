"""The command line: `tidelog`, `python -m tidelog`."""

from __future__ import annotations

import gc
import sys
from collections.abc import Callable, Sequence

TYPE_CHECKING = False
if TYPE_CHECKING:
    from argparse import Namespace
    from typing import NoReturn

INTERRUPTED = 130
QUIET_SECONDS = 1.0  # after Ctrl-C, in which more of them change nothing: the work is ending already
OBJECTS_BETWEEN_SEARCHES = 500_000


def process() -> NoReturn:
    """Be the process `tidelog`: do what its command line says, and end with the exit code."""
    code = main()
    if _is_done():
        import os

        os._exit(code)  # the interpreter would take itself apart first, for as long as a small program runs
    sys.exit(code)


def _is_done() -> bool:
    """Do what others wanted done at the end, and return whether nothing else is left to do."""
    import atexit

    threading = sys.modules.get("threading")
    if threading is not None and threading.active_count() > 1:
        return False
    if sys.flags.inspect or sys.getprofile() is not None or sys.gettrace() is not None:
        return False
    atexit._run_exitfuncs()  # of coverage, Spark, temporary folders, …
    try:
        for stream in filter(None, (sys.stdout, sys.stderr)):
            stream.flush()
    except (OSError, ValueError):
        return False
    return True


def main(arguments: Sequence[str] | None = None) -> int:
    """The exit code: 0 done, 1 errors, 2 usage, 3 inconsistent, 4 stopped by a limit, 130 by Ctrl-C."""
    if arguments is not None:
        return _collecting_rarely(arguments)
    try:
        _take_interrupts()
        return _collecting_rarely(sys.argv[1:])
    except KeyboardInterrupt:
        return INTERRUPTED
    finally:
        _ignore_interrupts()


def _take_interrupts() -> None:
    """Make Ctrl-C raise KeyboardInterrupt, once however often it is pressed in a row."""
    import signal
    from time import monotonic

    last = float("-inf")

    def interrupt(_number: int, _frame: object) -> None:
        nonlocal last
        now = monotonic()
        if now - last > QUIET_SECONDS:
            last = now
            raise KeyboardInterrupt

    if signal.getsignal(signal.SIGINT) is signal.default_int_handler:  # else the caller handles or ignores it
        signal.signal(signal.SIGINT, interrupt)


def _ignore_interrupts() -> None:
    """Ignore Ctrl-C from now on: the process ends, with the exit code that it has."""
    import signal

    signal.signal(signal.SIGINT, signal.SIG_IGN)


def _collecting_rarely(arguments: Sequence[str]) -> int:
    """The exit code of a command line."""
    # Imports and kernels make many objects but few cycles: looking for these takes a tenth of the start-up.
    thresholds = gc.get_threshold()
    gc.set_threshold(OBJECTS_BETWEEN_SEARCHES, *thresholds[1:])
    try:
        return _main(arguments)
    finally:
        gc.set_threshold(*thresholds)


def _main(arguments: Sequence[str]) -> int:
    """The exit code of a command line."""
    from tidelog.cli.arguments import parse_arguments
    from tidelog.cli.options import UsageError
    from tidelog.errors import TidelogError

    _use_utf8()
    try:
        options = parse_arguments(arguments)
        code = _command(options.command)(options)
        sys.stdout.flush()
    except SystemExit as stop:  # `--help`, `--version`, and what argparse finds wrong
        return stop.code if isinstance(stop.code, int) else 0
    except UsageError as error:
        return error.report()
    except TidelogError as error:
        from tidelog.cli.output import Messages

        Messages().diagnose(error.diagnostics)
        return error.exit_code
    except BrokenPipeError:
        return _close_output(0)
    except OSError as error:  # a full disk, most likely
        from tidelog.errors import visible_lines

        print(f"tidelog: error: {visible_lines(error.strerror or str(error))}", file=sys.stderr)
        return _close_output(1)
    except KeyboardInterrupt:
        print("interrupted", file=sys.stderr)
        return INTERRUPTED
    return code


def _use_utf8() -> None:
    """Programs, data and messages are UTF-8, whatever the terminal's language is."""
    for stream, errors in (
        (sys.stdin, "surrogateescape"),
        (sys.stdout, "backslashreplace"),  # names of files may be no text; in JSON these are escapes, too
        (sys.stderr, "backslashreplace"),
    ):
        reconfigure = getattr(stream, "reconfigure", None)
        if reconfigure is not None:
            reconfigure(encoding="utf-8", errors=errors)


def _command(name: str) -> Callable[[Namespace], int]:
    """What a subcommand does; only its own modules are imported."""
    match name:
        case "run":
            from tidelog.cli.commands.run import run

            return run
        case "query":
            from tidelog.cli.commands.run import query

            return query
        case "timeline":
            from tidelog.cli.commands.explain import timeline

            return timeline
        case "check":
            from tidelog.cli.commands.programs import check

            return check
        case "format":
            from tidelog.cli.commands.programs import reformat

            return reformat
        case "plan":
            from tidelog.cli.commands.plan_command import plan

            return plan
        case "profile":
            from tidelog.cli.commands.explain import profile

            return profile
        case "explain":
            from tidelog.cli.commands.explain import explain

            return explain
        case "stream":
            from tidelog.cli.commands.stream import stream

            return stream
        case "ontology":
            from tidelog.cli.commands.rdf_tools import ontology

            return ontology
        case "sparql":
            from tidelog.cli.commands.rdf_tools import sparql

            return sparql
        case "pipeline":
            from tidelog.cli.commands.stores import pipeline

            return pipeline
        case "store":
            from tidelog.cli.commands.stores import store

            return store
        case "versions" | "diff" | "rollback" | "vacuum" | "convert":
            from tidelog.cli.commands import stores

            command: Callable[[Namespace], int] = getattr(stores, name)
            return command
        case _:
            from tidelog.cli.commands.repl import repl

            return repl


def _close_output(code: int) -> int:
    """The exit code; nothing more is written to a standard output that takes nothing more."""
    import os
    from contextlib import suppress

    with suppress(OSError, ValueError):  # standard output may be no file, as under test
        os.dup2(os.open(os.devnull, os.O_WRONLY), sys.stdout.fileno())
    return code


if __name__ == "__main__":
    process()
