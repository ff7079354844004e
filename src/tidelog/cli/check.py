"""`tidelog check`: what is wrong with programs."""

from __future__ import annotations

import json
import sys
from argparse import Namespace

from tidelog.cli.messages import Messages
from tidelog.cli.programs import existing_data, load_beside, program_files, sandbox_of, warnings
from tidelog.cli.usage import UsageError
from tidelog.errors import Diagnostic, Severity, TidelogError
from tidelog.logic.program import BUILT_IN, PRIVATE, Program
from tidelog.logic.type_inference import described, infer

Choice = tuple[str, dict[str, object]]  # where a program would run on Spark, as text and as JSON


def check(options: Namespace) -> int:
    """The exit code of `tidelog check`: 1 if a program has errors."""
    files = existing_data(options.data)
    programs = program_files(options.programs)
    found: list[Diagnostic] = []
    types: dict[str, list[str]] = {}
    choices: dict[str, Choice] = {}
    if options.engine != "spark" and (options.master is not None or options.conf):
        raise UsageError("--master and --conf make no sense without --engine spark")
    for name in programs:
        try:
            program = load_beside(name, dict(options.param), files, sandbox_of(options))
            found += warnings(program, files)
            if options.types:
                types[str(name)] = list(described(program, infer(program), _shown(program)))
            if options.engine == "spark":
                choices[str(name)] = _choice(options, program)
        except TidelogError as error:
            found += error.diagnostics
    errors = [item for item in found if item.severity is Severity.ERROR]
    shown = errors if options.quiet else found
    if options.format == "json":
        diagnostics = [item.to_json() for item in shown]
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
        messages.diagnose(shown)
        messages.say(("\n" if shown else "") + _summary(len(programs), len(errors), len(found) - len(errors)))
    return 1 if errors else 0


def _choice(options: Namespace, program: Program) -> Choice:
    from tidelog.cli import on_spark  # here, since a check without Spark needs no Arrow

    choice = on_spark.choice_of(options, program)
    return on_spark.described(choice), on_spark.choice_to_json(choice)


def _shown(program: Program) -> list[str]:
    """The predicates that a user knows."""
    return [name for name in program.predicates if name not in BUILT_IN and not name.startswith(PRIVATE)]


def _summary(programs: int, errors: int, warned: int) -> str:
    return f"{_count(programs, 'program')}: {_count(errors, 'error')}, {_count(warned, 'warning')}"


def _count(number: int, noun: str) -> str:
    return f"{number or 'no'} {noun}{'' if number == 1 else 's'}"
