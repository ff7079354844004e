"""The arguments of the command line. Imports nothing that takes time: `tidelog --version` does not wait."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from tidelog import __version__
from tidelog.cli.explain_arguments import add_explain, add_profile
from tidelog.cli.ontology_arguments import add_ontology, add_ontology_commands, add_triples, settle
from tidelog.cli.pipeline_arguments import add_pipeline_commands
from tidelog.cli.store_arguments import add_store_command, add_store_options, wrong_store_options
from tidelog.cli.time_options import add_time
from tidelog.cli.timeline_arguments import add_timeline
from tidelog.errors import suggest

ENGINES: Final = ("columnar", "spark")
FORMATS: Final = ("table", "csv", "tsv", "json", "jsonl", "parquet", "arrow", "nt", "ttl")
STAGES: Final = ("parsed", "resolved", "strata", "rewritten", "plan")
PICTURES: Final = ("text", "dot", "mermaid", "html")
STRATEGIES: Final = ("auto", "lookup", "magic", "tabling", "full")
MARKINGS: Final = ("none", "literal", "linked")
MISSING: Final = ("error", "ignore")
SHOWN: Final = ("expand", "representative")
TREATMENTS: Final = ("rewrite", "axiomatise", "off")
ON_ERROR: Final = ("fail", "skip", "collect")
ON_SCREEN: Final = ""  # the value of `--stats` without a file

_EXIT_CODES: Final = (
    "exit codes: 0 done, 1 errors in the program or data, 2 usage, 3 inconsistent, 4 stopped by a limit"
)


class UsageError(Exception):
    """A command line that makes no sense, found after its options were read."""

    def __init__(self, message: str, help: str | None = None) -> None:
        super().__init__(message)
        self.help = help

    def report(self) -> int:
        """The exit code for wrong usage; the reason is on standard error."""
        print(f"tidelog: error: {self}", file=sys.stderr)
        if self.help:
            print(f"  help: {self.help}", file=sys.stderr)
        return 2


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


class _Parser(argparse.ArgumentParser):
    """A parser whose errors are short."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where help is."""
        raise UsageError(message.removeprefix("argument "), f"`{self.prog} --help` lists the options")


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


def _parser() -> tuple[_Parser, dict[str, _Parser]]:
    """The parser, and those of the commands by their names."""
    parser = _Parser(
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
    add_timeline(_command, commands, _rows, _add_data, _add_limits)
    _add_plan(commands)
    add_explain(_command, commands, _rows, _add_data, _add_limits)
    add_profile(_command, commands, _add_data, _add_limits)
    _add_repl(commands)
    _add_stream(commands)
    add_ontology_commands(commands, _command, _add_reasoning)
    add_pipeline_commands(commands, _command)
    add_store_command(commands, _command)
    return parser, commands.choices


if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[_Parser]


def _command(commands: Commands, name: str, summary: str, example: str) -> _Parser:
    return commands.add_parser(
        name,
        allow_abbrev=False,
        help=summary,
        description=summary[:1].upper() + summary[1:] + ".",
        epilog=f"example: {example}",
    )


_PROGRAM_HELP: Final = "the program, `-` for standard input; a store that is there has its own"


def _add_run(commands: Commands) -> None:
    summary = "derive everything and put out the output predicates"
    run = _command(commands, "run", summary, "tidelog run family.rls --data parent.csv --output results")
    run.add_argument("program", metavar="PROGRAM", nargs="?", help=_PROGRAM_HELP)
    add_ontology(run)
    _add_data(run)
    add_store_options(run, reading=True)
    written = run.add_argument_group("output")
    written.add_argument(
        "-o", "--output", metavar="DIR", type=Path, help="write one file per output predicate here"
    )
    _add_form(written, "how (default table, with --output csv)")
    add_triples(written)
    running = _add_limits(run)
    _add_statistics(running)
    _add_maintainer(running)
    running.add_argument(
        "--watch",
        action="store_true",
        help="go on: when the program or its data is edited, apply the difference and print the net change",
    )


def _add_query(commands: Commands) -> None:
    summary = "print the answers to a query"
    query = _command(commands, "query", summary, "tidelog query family.rls 'ancestor(alice, ?x)'")
    query.add_argument("program", metavar="PROGRAM", nargs="?", help=_PROGRAM_HELP)
    query.add_argument("query", metavar="QUERY", help="literals, such as 'ancestor(alice, ?x), ?x != bob'")
    _add_data(query)
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
    _add_tables(answered)
    written = query.add_argument_group("output")
    _add_form(written, "how (default table)")
    written.add_argument("--limit", metavar="N", type=_rows, help="put out N answers at most")
    _add_statistics(_add_limits(query))


def _add_check(commands: Commands) -> None:
    summary = "report what is wrong with programs, without running them"
    check = _command(commands, "check", summary, "tidelog check rules/*.rls --format json")
    check.add_argument(
        "programs", metavar="PROGRAM", nargs="+", help="programs, folders of them, or `-` for standard input"
    )
    check.add_argument("-f", "--format", choices=("text", "json"), default="text")
    check.add_argument(
        "-d",
        "--data",
        metavar="PATH",
        nargs="+",
        type=Path,
        action="extend",
        default=[],
        help="data the programs will be run with, so that predicates it fills are not called empty",
    )
    _add_parameters(check)
    check.add_argument("-q", "--quiet", action="store_true", help="report errors only")


def _add_format(commands: Commands) -> None:
    summary = "rewrite programs in the one layout; comments stay"
    reformat = _command(commands, "format", summary, "tidelog format --check rules")
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
    plan = _command(commands, "plan", summary, "tidelog plan family.rls --format html --output plan.html")
    plan.add_argument("program", metavar="PROGRAM", help="the program, `-` for standard input")
    plan.add_argument("--stage", choices=STAGES, default="plan", help="which stage (default plan)")
    plan.add_argument("-f", "--format", choices=PICTURES, default="text", help="how (default text)")
    plan.add_argument("--query", metavar="QUERY", help="show the plan of this query too")
    plan.add_argument(
        "-o", "--output", metavar="FILE", type=Path, help="write to this file, not standard output"
    )
    plan.add_argument(
        "--run",
        action="store_true",
        help="derive everything first, and plan with the sizes that relations have then; --data implies it",
    )
    _add_data(plan)
    _add_limits(plan)


def _add_repl(commands: Commands) -> None:
    summary = "add facts and rules, take them away, and ask, line by line"
    repl = _command(commands, "repl", summary, "tidelog repl family.rls")
    repl.add_argument("program", metavar="PROGRAM", nargs="?", help="the program to begin with")
    _add_data(repl)
    add_store_options(repl)
    repl.add_argument("--rows", metavar="N", type=_rows, help=_ROWS_HELP)
    running = _add_limits(repl)
    _add_tables(running)
    _add_maintainer(running)


def _add_stream(commands: Commands) -> None:
    summary = "apply changes as they come, and report what each one changes"
    stream = _command(
        commands, "stream", summary, "tidelog stream family.rls monday.changes.rls --output now"
    )
    stream.add_argument("program", metavar="PROGRAM", nargs="?", help=_PROGRAM_HELP)
    stream.add_argument(
        "updates",
        metavar="UPDATES",
        nargs="*",
        default=[],
        help="change scripts (`.rls`, `.rls.gz`), folders of them, or `-` for standard input (the default)",
    )
    _add_data(stream)
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
    _add_form(
        written, "of files (default csv); jsonl without files: what each commit changes, on standard output"
    )
    running = _add_limits(stream)
    _add_statistics(running)
    _add_maintainer(running)
    running.add_argument(
        "--marking",
        choices=MARKINGS,
        default=MARKINGS[0],
        help="look ahead at the next update and mark what it will delete (default none)",
    )


def _add_reasoning(parser: argparse.ArgumentParser) -> None:
    """Add what commands take that reason over a program and its data."""
    _add_data(parser)
    _add_statistics(_add_limits(parser))


def _add_maintainer(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--maintainer",
        metavar="NAME",
        default="auto",
        help="the algorithm that works changes in (default auto: what is best for each)",
    )


def _add_data(parser: argparse.ArgumentParser) -> None:
    read = parser.add_argument_group("input")
    read.add_argument(
        "-d",
        "--data",
        metavar="PATH",
        nargs="+",
        type=Path,
        action="extend",
        default=[],
        help="files named after the predicates whose facts they hold, or folders of them",
    )
    read.add_argument(
        "--input-header",
        choices=("auto", "yes", "no"),
        default="auto",
        help="whether CSV and TSV files begin with names of columns (default auto: if they look so)",
    )
    _add_parameters(read)
    read.add_argument(
        "--on-error",
        choices=ON_ERROR,
        help="rows that cannot be read: fail (default), skip them, or collect them in a file",
    )
    read.add_argument(
        "--rejects",
        metavar="FILE",
        type=Path,
        help="the file that rows are collected in (default rejects.csv); implies --on-error collect",
    )


def _add_parameters(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    parser.add_argument(
        "-p",
        "--param",
        metavar="NAME=VALUE",
        type=_parameter,
        action="append",
        default=[],
        help="the value of a parameter of the program",
    )


_ROWS_HELP: Final = "rows of a table to show, 0 for all (default 100 on a terminal, else all)"


def _add_form(group: argparse._ArgumentGroup, format_help: str) -> None:
    group.add_argument(
        "-f",
        "--format",
        choices=FORMATS,
        metavar="FORMAT",
        help=f"{format_help}; one of {', '.join(FORMATS)}",
    )
    group.add_argument(
        "--terms",
        choices=("plain", "exact"),
        default="plain",
        help="text alone (default), or terms that read back as the same values",
    )
    group.add_argument("--no-header", action="store_true", help="CSV and TSV without the names of columns")
    group.add_argument("--rows", metavar="N", type=_rows, help=_ROWS_HELP)


def _add_limits(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    add_time(parser)
    group = parser.add_argument_group("running")
    group.add_argument("--engine", choices=ENGINES, default=ENGINES[0], help="the engine (default columnar)")
    group.add_argument("--master", metavar="URL", help="where Spark runs (default local[*])")
    group.add_argument(
        "--conf",
        metavar="KEY=VALUE",
        type=_setting,
        action="append",
        default=[],
        help="a setting of Spark, or of ours: tidelog.strategy, tidelog.driverFacts, tidelog.salt",
    )
    group.add_argument("--threads", metavar="N", type=_positive, help="threads (default: all cores)")
    group.add_argument(
        "--no-modules",
        dest="modules",
        action="store_false",
        help="let rules alone derive closures, not structures made for them",
    )
    group.add_argument(
        "--equality",
        choices=TREATMENTS,
        default=TREATMENTS[0],
        help=f"how `?x = ?y` in heads is treated: {', '.join(TREATMENTS)} (default {TREATMENTS[0]})",
    )
    group.add_argument(
        "--equal",
        choices=SHOWN,
        default=SHOWN[0],
        help="put out every member of a class of equal constants (default), or its smallest one",
    )
    group.add_argument(
        "--unique-names", action="store_true", help="two different names that turn out equal are inconsistent"
    )
    group.add_argument("--timeout", metavar="SECONDS", type=_seconds, help="stop after so many seconds")
    group.add_argument("--max-facts", metavar="N", type=_positive, help="stop at more than so many facts")
    group.add_argument("-q", "--quiet", action="store_true", help="report errors only")
    return group


def _add_tables(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--table-memory",
        metavar="MB",
        type=_rows,
        help="megabytes of tables that `tabling` keeps for later queries (default 1024)",
    )


def _add_statistics(group: argparse._ArgumentGroup) -> None:
    group.add_argument(
        "--stats",
        metavar="FILE.json",
        nargs="?",
        const=ON_SCREEN,
        help="report what each rule did, on standard error or as JSON in a file",
    )


# ---- types of arguments


def _parameter(text: str) -> tuple[str, str]:
    name, sign, value = text.partition("=")
    if not sign or not name:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form name=value")
    return name.removeprefix("$"), value


def _setting(text: str) -> tuple[str, str]:
    key, sign, value = text.partition("=")
    if not sign or not key:
        raise argparse.ArgumentTypeError(f"{text!r} is not of the form key=value")
    return key, value


def _positive(text: str) -> int:
    number = _whole(text)
    if number < 1:
        raise argparse.ArgumentTypeError(f"{text} is less than 1")
    return number


def _rows(text: str) -> int:
    number = _whole(text)
    if number < 0:
        raise argparse.ArgumentTypeError(f"{text} is negative")
    return number


def _whole(text: str) -> int:
    try:
        return int(text.replace(",", "").replace("_", ""))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a whole number") from None


def _seconds(text: str) -> float:
    try:
        number = float(text.removesuffix("s"))
    except ValueError:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of seconds") from None
    if not 0 < number < float("inf"):
        raise argparse.ArgumentTypeError(f"{text} is not a time to wait")
    return number
