"""`tidelog timeline`: when the answers to queries hold, as lanes of text or as a picture."""

from __future__ import annotations

import sys
from argparse import Namespace
from shutil import get_terminal_size

from tidelog.cli.files import write_text
from tidelog.cli.options import format_of
from tidelog.cli.reasoning import Work
from tidelog.cli.results import ROWS_ON_TERMINAL
from tidelog.cli.usage import UsageError
from tidelog.temporal.chart.drawing import WIDTH, Drawing

LANES = 1_000


def timeline(options: Namespace) -> int:
    """The exit code of `tidelog timeline`."""
    _check(options)
    work = Work(options)
    work.warn(about_unused=False)
    with work.showing_progress(), work.keeping_rejects():
        work.read()
        answers = [work.reasoner.query(query) for query in options.queries]
    work.report_rejects()
    work.report_completeness()
    outcome = work.reasoner.time.outcome
    remarks = [] if outcome is None else [str(outcome)]
    drawing = Drawing(answers, options.start, options.end, _lanes(options), remarks)
    write_text(_written(drawing, format_of(options)), options.output, work.messages)
    return 0


def _written(drawing: Drawing, form: str) -> str:
    match form:
        case "svg":
            return drawing.svg()
        case "html":
            return drawing.html()
        case _:
            width = get_terminal_size().columns if sys.stdout.isatty() else WIDTH
            return drawing.text(width) + "\n"


def _check(options: Namespace) -> None:
    """Nothing, if the options go together; else a usage error."""
    if not options.queries:
        raise UsageError("timeline draws the answers to queries, and there is none")
    format_of(options)
    if options.start is not None and options.end is not None and options.start >= options.end:
        raise UsageError("--from is not before --to")


def _lanes(options: Namespace) -> int | None:
    """How many lanes are drawn of each query; None for all."""
    if options.lanes is not None:
        return options.lanes or None
    return ROWS_ON_TERMINAL if options.output is None and sys.stdout.isatty() else LANES
