"""The arguments of the command line. Imports nothing that takes time: `tidelog --version` does not wait."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidelog import __version__
from tidelog.cli.explain_arguments import add_explain, add_profile
from tidelog.cli.ontology_arguments import add_ontology, add_ontology_commands, add_triples, settle
from tidelog.cli.options import (
    ENGINES,
    ROWS_HELP,
    add_data,
    add_data_files,
    add_document,
    add_form,
    add_limits,
    add_maintainer,
    add_parameters,
    add_sandbox,
    add_session,
    add_statistics,
    add_tables,
)
from tidelog.cli.pipeline_arguments import add_pipeline_commands
from tidelog.cli.store_arguments import (
    add_store_command,
    add_store_options,
    add_store_to_read,
    wrong_store_options,
)
from tidelog.cli.timeline_arguments import add_timeline
from tidelog.cli.usage import Parser, UsageError, command, positive, row_count
from tidelog.errors import suggest

if TYPE_CHECKING:
    from tidelog.cli.usage import Commands

STAGES: Final = ("parsed", "resolved", "strata", "rewritten", "plan")
STRATEGIES: Final = ("auto", "lookup", "magic", "tabling", "full")
MARKINGS: Final = ("auto", "none", "literal", "linked")
MISSING: Final = ("error", "ignore")

_EXIT_CODES: Final = (
    "exit codes: 0 done, 1 errors in the program or data, 2 usage, 3 inconsistent, 4 stopped by a limit"
)


def parse_arguments(arguments: Sequence[str]) -> argparse.Namespace:
    """The options of a command line; `command` says which one."""
    parser, commands = _parser()
    if not arguments:
        parser.print_help(sys.stderr)
        raise SystemExit(2)
    _check_command(arguments[0], commands)
    options, unknown = parser.parse_known_args(_programs_first(arguments))
    unknown = settle(options, unknown)
    if unknown:
        known = [name for action in commands[options.command]._actions for name in action.option_strings]
        help = suggest(unknown[0], known) or f"`tidelog {options.command} --help` lists the options"
        raise UsageError(f"`{unknown[0]}` makes no sense after `tidelog {options.command}`", help)
    wrong = wrong_store_options(options)
    if wrong is not None:
        raise UsageError(wrong, f"`tidelog {options.command} --help` lists the options")
    return options


def _check_command(word: str, commands: Mapping[str, object]) -> None:
    """Nothing, if the first argument is an option or a command; else a usage error."""
    if word.startswith("-") or word in commands:
        return
    near = f"did you mean `tidelog run {word}`?" if word.endswith(".rls") else suggest(word, commands)
    raise UsageError(f"there is no command `{word}`", near or f"the commands are {', '.join(commands)}")


def _programs_first(arguments: Sequence[str]) -> list[str]:
    """The arguments with programs moved before options that would take them for their own values.

    >>> _programs_first(["run", "--data", "edges.csv", "graph.rls", "--stats", "graph.rls"])
    ['run', 'graph.rls', 'graph.rls', '--data', 'edges.csv', '--stats']
    """
    kept: list[str] = []
    programs: list[str] = []
    taking = False
    for place, argument in enumerate(arguments):
        if argument.startswith("-"):
            taking = argument in ("--data", "-d", "--stats")
        if taking and place and argument.endswith(".rls"):
            programs.append(argument)
        else:
            kept.append(argument)
    return [*kept[:1], *programs, *kept[1:]]


def _parser() -> tuple[Parser, dict[str, Parser]]:
    """The parser, and those of the commands by their names."""
    parser = Parser(
        prog="tidelog",
        allow_abbrev=False,
        description="Derive what follows from rules and facts.",
        epilog=_EXIT_CODES,
    )
    parser.add_argument("--version", action="version", version=f"tidelog {__version__}")
    commands = parser.add_subparsers(dest="command", required=True, metavar="COMMAND")
    _add_run(commands)
    _add_query(commands)
    _add_check(commands)
    _add_format(commands)
    add_timeline(commands)
    _add_plan(commands)
    add_explain(commands)
    add_profile(commands)
    _add_repl(commands)
    _add_stream(commands)
    add_ontology_commands(commands)
    add_pipeline_commands(commands)
    add_store_command(commands)
    return parser, commands.choices


_PROGRAM_HELP: Final = "the program, `-` for standard input; a store that is there has its own"


def _add_run(commands: Commands) -> None:
    summary = "derive everything and put out the output predicates"
    run = command(commands, "run", summary, "tidelog run family.rls --data parent.csv --output results")
    run.add_argument("program", metavar="PROGRAM", nargs="?", help=_PROGRAM_HELP)
    add_ontology(run)
    add_data(run)
    add_store_options(run, reading=True)
    written = run.add_argument_group("output")
    written.add_argument(
        "-o", "--output", metavar="DIR", type=Path, help="write one file per output predicate here"
    )
    add_form(written, "how (default table, with --output csv)")
    add_triples(written)
    running = add_limits(run)
    add_statistics(running)
    add_maintainer(running)
    running.add_argument(
        "--processes",
        metavar="N",
        type=positive,
        help="divide facts and work among N processes of this machine (default: this one does all)",
    )
    running.add_argument(
        "--watch",
        action="store_true",
        help="go on: when the program or its data is edited, apply the difference and print the net change",
    )


def _add_query(commands: Commands) -> None:
    summary = "print the answers to a query"
    query = command(commands, "query", summary, "tidelog query family.rls 'ancestor(alice, ?x)'")
    query.add_argument("program", metavar="PROGRAM", nargs="?", help=_PROGRAM_HELP)
    query.add_argument("query", metavar="QUERY", help="literals, such as 'ancestor(alice, ?x), ?x != bob'")
    add_ontology(query)
    add_data(query)
    add_store_options(query, reading=True)
    answered = query.add_argument_group("answering")
    answered.add_argument(
        "--strategy",
        metavar="NAME",
        default=STRATEGIES[0],
        help=f"how to answer: {', '.join(STRATEGIES)} (default auto: what is best)",
    )
    answered.add_argument(
        "--explain-strategy", action="store_true", help="say how the query is answered, and why"
    )
    add_tables(answered)
    written = query.add_argument_group("output")
    add_form(written, "how (default table)")
    written.add_argument("--limit", metavar="N", type=row_count, help="put out N answers at most")
    add_statistics(add_limits(query))


def _add_check(commands: Commands) -> None:
    summary = "report what is wrong with programs, without running them"
    check = command(commands, "check", summary, "tidelog check rules/*.rls --format json")
    check.add_argument(
        "programs", metavar="PROGRAM", nargs="+", help="programs, folders of them, or `-` for standard input"
    )
    check.add_argument("-f", "--format", choices=("text", "json"), default="text")
    check.add_argument(
        "--types", action="store_true", help="print what the columns of each predicate hold, as inferred"
    )
    add_data_files(
        check, "data the programs will be run with, so that predicates it fills are not called empty"
    )
    add_parameters(check)
    add_sandbox(check)
    running = check.add_argument_group("running")
    running.add_argument(
        "--engine",
        choices=ENGINES,
        default=ENGINES[0],
        help="the engine (default columnar); spark: say where the programs would run, and why",
    )
    add_session(running)
    check.add_argument("-q", "--quiet", action="store_true", help="report errors only")


def _add_format(commands: Commands) -> None:
    summary = "rewrite programs in the one layout; comments stay"
    reformat = command(commands, "format", summary, "tidelog format --check rules")
    reformat.add_argument(
        "programs", metavar="PROGRAM", nargs="+", help="programs, folders of them, or `-` to filter"
    )
    reformat.add_argument(
        "--check", action="store_true", help="change nothing; exit with 1 if something would change"
    )
    reformat.add_argument(
        "--diff", action="store_true", help="change nothing; print what would change as a diff"
    )
    reformat.add_argument("-q", "--quiet", action="store_true", help="report errors only")


def _add_plan(commands: Commands) -> None:
    summary = "show how a program is understood and run"
    plan = command(commands, "plan", summary, "tidelog plan family.rls --format html --output plan.html")
    plan.add_argument("program", metavar="PROGRAM", nargs="?", help="the program, `-` for standard input")
    plan.add_argument("--stage", choices=STAGES, default="plan", help="which stage (default plan)")
    add_document(plan, "text", "dot", "mermaid", "html")
    plan.add_argument("--query", metavar="QUERY", help="show the plan of this query too")
    plan.add_argument(
        "--run",
        action="store_true",
        help="derive everything first, and plan with the sizes that relations have then; --data implies it",
    )
    add_data(plan)
    add_store_to_read(plan)
    add_limits(plan)


def _add_repl(commands: Commands) -> None:
    summary = "add facts and rules, take them away, and ask, line by line"
    repl = command(commands, "repl", summary, "tidelog repl family.rls")
    repl.add_argument("program", metavar="PROGRAM", nargs="?", help="the program to begin with")
    add_data(repl)
    add_store_options(repl)
    repl.add_argument("--rows", metavar="N", type=row_count, help=ROWS_HELP)
    running = add_limits(repl)
    add_tables(running)
    add_maintainer(running)


def _add_stream(commands: Commands) -> None:
    summary = "apply changes as they come, and report what each one changes"
    stream = command(commands, "stream", summary, "tidelog stream family.rls monday.changes.rls --output now")
    stream.add_argument("program", metavar="PROGRAM", nargs="?", help=_PROGRAM_HELP)
    stream.add_argument(
        "updates",
        metavar="UPDATES",
        nargs="*",
        default=[],
        help="change scripts (`.rls`, `.rls.gz`), folders of them, or `-` for standard input (the default)",
    )
    add_data(stream)
    add_store_options(stream)
    taken = stream.add_argument_group("changes")
    taken.add_argument(
        "--follow", action="store_true", help="wait for more files in the folders; Ctrl-C ends"
    )
    taken.add_argument(
        "--missing",
        choices=MISSING,
        default=MISSING[0],
        help="taking away what is not there is an error (default), or is passed over with a notice",
    )
    taken.add_argument(
        "--keep-going", action="store_true", help="go on after a transaction that fails; it changes nothing"
    )
    written = stream.add_argument_group("output")
    written.add_argument(
        "--deltas",
        metavar="DIR",
        type=Path,
        help="write what commit N changes to DIR/N/PREDICATE.added.csv and .removed.csv",
    )
    written.add_argument(
        "-o", "--output", metavar="DIR", type=Path, help="write one file per output predicate here in the end"
    )
    add_form(
        written, "of files (default csv); jsonl without files: what each commit changes, on standard output"
    )
    running = add_limits(stream)
    add_statistics(running)
    add_maintainer(running)
    running.add_argument(
        "--marking",
        choices=MARKINGS,
        default=MARKINGS[0],
        help="look ahead at the next update and mark what it will delete (default auto: where that pays)",
    )
