"""`tidelog check` and `format`: what is wrong with programs, and their one layout."""

from __future__ import annotations

import json
import sys
from argparse import Namespace
from difflib import unified_diff
from pathlib import Path

from tidelog.cli.options import UsageError
from tidelog.cli.output import Messages, show
from tidelog.cli.program_sources import (
    STANDARD_INPUT,
    existing_data,
    load_beside,
    program_files,
    read_source,
    sandbox_of,
    warnings,
)
from tidelog.durable import replacing_text
from tidelog.errors import Diagnostic, Severity, SourceText, TidelogError, codes, counted
from tidelog.logic.program import BUILT_IN, PRIVATE, Program
from tidelog.logic.type_inference import described, infer
from tidelog.syntax.parser import parse
from tidelog.syntax.printer import print_document


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
        _output(name, source, text, options, messages)
    if programs != [STANDARD_INPUT]:
        verb = "would change" if options.check or options.diff else "changed"
        messages.say(f"{changed} of {counted(len(programs), 'program')} {verb}")
    return 1 if failed or (changed and options.check) else 0


def formatted(source: SourceText) -> str:
    """Return the program in the one layout; raise `TidelogError` if it does not parse."""
    document = parse(source)
    text = print_document(document)
    if parse(SourceText(source.name, text)) != document:
        message = "formatting would change the meaning of the program, so it is left unchanged"
        raise TidelogError(
            Diagnostic(
                codes.UNSTABLE_FORMAT,
                message,
                place=source.name,
                help="this is a bug in tidelog: report it",
            )
        )
    return text


def _output(name: str, source: SourceText, text: str, options: Namespace, messages: Messages) -> None:
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
        with replacing_text(Path(name)) as stream:
            stream.write(text.encode())
        messages.say(f"changed {name}")


Choice = tuple[str, dict[str, object]]  # where a program would run on Spark, as text and as JSON


def check(options: Namespace) -> int:
    """The exit code of `tidelog check`: 1 if a program has errors."""
    files = existing_data(options.data)
    programs = program_files(options.programs)
    findings: list[Diagnostic] = []
    types: dict[str, list[str]] = {}
    choices: dict[str, Choice] = {}
    if options.engine != "spark" and (options.master is not None or options.conf):
        raise UsageError("--master and --conf make no sense without --engine spark")
    for name in programs:
        try:
            program = load_beside(name, dict(options.param), files, sandbox_of(options))
            findings += warnings(program, files)
            if options.types:
                types[str(name)] = list(described(program, infer(program), _shown(program)))
            if options.engine == "spark":
                choices[str(name)] = _choice(options, program)
        except TidelogError as error:
            findings += error.diagnostics
    errors = [item for item in findings if item.severity is Severity.ERROR]
    reported = errors if options.quiet else findings
    if options.format == "json":
        diagnostics = [item.to_json() for item in reported]
        answer: object = diagnostics
        if options.types or choices:
            spark = {name: record for name, (_, record) in choices.items()}
            answer = {
                "diagnostics": diagnostics,
                **({"types": types} if options.types else {}),
                **({"spark": spark} if spark else {}),
            }
        json.dump(answer, sys.stdout, indent=2, ensure_ascii=False)
        sys.stdout.write("\n")
    else:
        for name in dict.fromkeys((*types, *choices)):
            lines = types.get(name, [])
            if name in choices:
                lines = [*lines, choices[name][0]]
            heading = [f"# {name}"] if len(programs) > 1 else []
            sys.stdout.write("".join(f"{line}\n" for line in (*heading, *lines)))
        sys.stdout.flush()
        messages = Messages(options.quiet)
        messages.diagnose(reported)
        messages.say(
            ("\n" if reported else "") + _summary(len(programs), len(errors), len(findings) - len(errors))
        )
    return 1 if errors else 0


def _choice(options: Namespace, program: Program) -> Choice:
    from tidelog.cli.commands import spark_commands  # here, since a check without Spark needs no Arrow

    choice = spark_commands.choice_of(options, program)
    return spark_commands.described(choice), spark_commands.choice_to_json(choice)


def _shown(program: Program) -> list[str]:
    """The predicates that a user knows."""
    return [name for name in program.predicates if name not in BUILT_IN and not name.startswith(PRIVATE)]


def _summary(programs: int, errors: int, warned: int) -> str:
    return f"{_count(programs, 'program')}: {_count(errors, 'error')}, {_count(warned, 'warning')}"


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"
