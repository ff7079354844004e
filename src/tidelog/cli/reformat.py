"""`tidelog format`: programs in the one layout."""

from __future__ import annotations

from argparse import Namespace
from difflib import unified_diff
from pathlib import Path

from tidelog.cli.messages import Messages
from tidelog.cli.programs import STANDARD_INPUT, program_files, read_source
from tidelog.cli.terminal import show
from tidelog.errors import Diagnostic, Source, TidelogError, counted
from tidelog.io.atomic import replacing
from tidelog.syntax.parser import parse
from tidelog.syntax.printer import print_document

UNSTABLE = "E702"


def reformat(options: Namespace) -> int:
    """The exit code of `tidelog format`: 1 if a program has errors or, with `--check`, would change."""
    messages = Messages(options.quiet)
    changed = failed = 0
    programs = program_files(options.programs)
    for name in programs:
        try:
            source = read_source(name)
            text = formatted(source)
        except TidelogError as error:
            messages.diagnose(error.diagnostics)
            failed += 1
            continue
        changed += text != source.text
        _put_out(name, source, text, options, messages)
    if programs != [STANDARD_INPUT]:
        verb = "would change" if options.check or options.diff else "changed"
        messages.say(f"{changed} of {counted(len(programs), 'program')} {verb}")
    return 1 if failed or (changed and options.check) else 0


def formatted(source: Source) -> str:
    """The program in the one layout; raises `TidelogError` if it does not parse."""
    document = parse(source)
    text = print_document(document)
    if parse(Source(source.name, text)) != document:
        message = "the formatted program would mean something else, so it is left as it is"
        raise TidelogError(
            Diagnostic(UNSTABLE, message, place=source.name, help="this is a fault of tidelog: report it")
        )
    return text


def _put_out(name: str, source: Source, text: str, options: Namespace, messages: Messages) -> None:
    """Write the program back, or say what would change."""
    if options.diff:
        before, after = source.text.splitlines(keepends=True), text.splitlines(keepends=True)
        for line in unified_diff(before, after, source.name, source.name):
            show(line if line.endswith("\n") else f"{line}\n\\ No newline at end of file\n", end="")
    if options.check and text != source.text:
        messages.say(f"would change {source.name}")
    if options.check or options.diff:
        return
    if name == STANDARD_INPUT:
        show(text, end="")
    elif text != source.text:
        with replacing(Path(name)) as stream:
            stream.write(text.encode())
        messages.say(f"changed {name}")
