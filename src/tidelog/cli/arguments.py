"""The arguments of the command line. Imports the standard library only."""

from __future__ import annotations

import argparse
import sys
from collections.abc import Mapping, Sequence
from fractions import Fraction
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidelog import __version__
from tidelog.cli.options import (
    ENGINES,
    ROWS_HELP,
    CommandParser,
    UsageError,
    add_data,
    add_data_files,
    add_document,
    add_form,
    add_limits,
    add_maintainer,
    add_ontology,
    add_ontology_commands,
    add_parameters,
    add_sandbox,
    add_session,
    add_statistics,
    add_store_command,
    add_store_options,
    add_store_to_read,
    add_tables,
    add_triples,
    command,
    complete,
    positive,
    row_count,
    wrong_store_options,
)
from tidelog.errors import suggest

if TYPE_CHECKING:
    from tidelog.cli.options import Commands


# ---- arguments of `explain` and related commands


def add_explain(commands: Commands) -> None:
    """Add `explain`."""
    summary = "explain why facts hold, why one does not, or what a change would do"
    explain = command(commands, "explain", summary, "tidelog explain family.rls 'ancestor(alice, carol)'")
    explain.add_argument("program", metavar="PROGRAM", nargs="?", help="the program, `-` for standard input")
    explain.add_argument(
        "query", metavar="QUERY", nargs="?", help="a fact, or a query whose answers are explained"
    )
    explain.add_argument(
        "--why-not", metavar="FACT", help="explain why this fact does not hold, and what would derive it"
    )
    explain.add_argument(
        "--what-if", metavar="CHANGES", help="show what this change script would change, without applying it"
    )
    add_ontology(explain)
    add_data(explain)
    add_store_to_read(explain)
    shown = explain.add_argument_group("proofs")
    shown.add_argument(
        "--all", metavar="N", type=row_count, default=1, help="N proofs of each, lowest first (default 1)"
    )
    shown.add_argument("--depth", metavar="N", type=row_count, help="show N steps; deeper ones are omitted")
    shown.add_argument(
        "--limit", metavar="N", type=row_count, default=10, help="explain N answers at most (default 10)"
    )
    shown.add_argument(
        "--rows", metavar="N", type=row_count, default=20, help="rows of a group to show (default 20)"
    )
    written = explain.add_argument_group("output")
    add_document(written, "text", "json", "html", "dot")
    add_limits(explain)


def add_profile(commands: Commands) -> None:
    """Add `profile`."""
    summary = "show what each rule did in each phase, and how long it took"
    profile = command(
        commands, "profile", summary, "tidelog profile family.rls --format html -o profile.html"
    )
    profile.add_argument("program", metavar="PROGRAM", nargs="?", help="the program, `-` for standard input")
    profile.add_argument(
        "--changes",
        metavar="FILE",
        nargs="+",
        default=[],
        help="change scripts, or folders of them, to apply once everything is derived",
    )
    add_data(profile)
    add_store_options(profile)
    written = profile.add_argument_group("output")
    add_document(written, "text", "json", "html")
    add_maintainer(add_limits(profile))


# ---- arguments of the commands for pipelines

KEPT_VERSIONS: Final = 10
FAILED: Final = "failed"  # a version that was set aside
_TARGET: Final = "the folder of published versions, its address (s3://…), or the job that publishes there"


def add_pipeline_commands(commands: Commands) -> None:
    """Add `pipeline`, `versions`, `diff`, `rollback`, `vacuum` and `convert`."""
    _add_pipeline(commands)
    _add_versions(commands)
    _add_diff(commands)
    _add_rollback(commands)
    _add_vacuum(commands)
    _add_convert(commands)


def _add_pipeline(commands: Commands) -> None:
    summary = "run a job: read its sources, reason, publish a version"
    pipeline = command(commands, "pipeline", summary, "tidelog pipeline flights.toml")
    pipeline.add_argument("job", metavar="JOB.toml", type=Path, help="the job")
    running = pipeline.add_argument_group("running")
    running.add_argument(
        "--full",
        "--full-refresh",
        action="store_true",
        help="recompute everything, and accept the columns of the data as they are now",
    )
    running.add_argument(
        "--refresh",
        metavar="NAME,…",
        type=_names,
        action="extend",
        default=[],
        help="recompute these predicates, and read all sources they depend on, changed or not",
    )
    running.add_argument(
        "--stream",
        action="store_true",
        help="then apply the changes of the job's stream as they arrive; Ctrl-C ends",
    )
    running.add_argument(
        "--available-now",
        action="store_true",
        help="with --stream: end when all available changes are applied",
    )
    running.add_argument(
        "--validate",
        action="store_true",
        help="check the job, its program, guards, sinks and files, and run nothing",
    )
    running.add_argument(
        "--exit-unchanged",
        action="store_true",
        help="exit with 99 if nothing has changed, so that a scheduler skips what depends on it",
    )
    running.add_argument(
        "--engine", choices=ENGINES, help="the engine, overriding the job (default: the job's, else spark)"
    )
    add_session(running)
    running.add_argument("--stats", action="store_true", help="report the time of each step, on stderr")
    running.add_argument("-q", "--quiet", action="store_true", help="report errors only")
    add_sandbox(pipeline)


def _add_versions(commands: Commands) -> None:
    summary = "list the published versions"
    versions = command(commands, "versions", summary, "tidelog versions flights.toml")
    versions.add_argument("target", metavar="DIR|JOB.toml", type=_target, help=_TARGET)
    versions.add_argument("-f", "--format", choices=("table", "json"), default="table")
    versions.add_argument(
        "--predicates", action="store_true", help="with the facts of each predicate, and what changed in it"
    )


def _add_diff(commands: Commands) -> None:
    summary = "print what changed between two published versions"
    diff = command(commands, "diff", summary, "tidelog diff published 3 5")
    diff.add_argument("target", metavar="DIR|JOB.toml", type=_target, help=_TARGET)
    help = "a version (default: the one before), or failed: what the last run has set aside"
    diff.add_argument("first", metavar="V1", type=_version, nargs="?", help=help)
    diff.add_argument(
        "second", metavar="V2", type=_version, nargs="?", help="another one (default: the current)"
    )
    diff.add_argument(
        "-f",
        "--format",
        choices=("changes", "jsonl"),
        default="changes",
        help="a change script (default), or an object a line",
    )
    diff.add_argument("--predicate", metavar="NAME", action="append", help="only what changed in it")
    diff.add_argument("-q", "--quiet", action="store_true", help="report errors only")


def _add_rollback(commands: Commands) -> None:
    summary = "publish an earlier version again"
    rollback = command(commands, "rollback", summary, "tidelog rollback published 3")
    rollback.add_argument("target", metavar="DIR|JOB.toml", type=_target, help=_TARGET)
    rollback.add_argument(
        "version", metavar="VERSION", type=int, nargs="?", help="the version (default: the one before)"
    )
    rollback.add_argument("-q", "--quiet", action="store_true", help="report errors only")


def _add_vacuum(commands: Commands) -> None:
    summary = "remove old versions, and files that no version needs"
    vacuum = command(commands, "vacuum", summary, "tidelog vacuum published --keep 5")
    vacuum.add_argument("target", metavar="DIR|JOB.toml", type=_target, help=_TARGET)
    vacuum.add_argument(
        "--keep",
        metavar="N",
        type=_versions,
        default=KEPT_VERSIONS,
        help=f"how many versions to keep (default {KEPT_VERSIONS})",
    )
    vacuum.add_argument("-q", "--quiet", action="store_true", help="report errors only")


def _names(text: str) -> list[str]:
    names = [name.strip() for name in text.split(",")]
    if not all(names):
        raise argparse.ArgumentTypeError(f"{text!r} is not a list of predicates, such as reach,hops")
    return names


def _version(text: str) -> int | str:
    if text != FAILED and not text.isdecimal():
        raise argparse.ArgumentTypeError(f"{text!r} is neither a version number nor {FAILED!r}")
    return text if text == FAILED else int(text)


def _add_convert(commands: Commands) -> None:
    summary = "convert versions in the old format to tables that other tools read"
    convert = command(commands, "convert", summary, "tidelog convert published --format delta")
    convert.add_argument("folder", metavar="DIR", type=Path, help="the folder of versions in the old format")
    convert.add_argument(
        "target", metavar="NEW", type=Path, nargs="?", help="the new folder (default: DIR.converted)"
    )
    convert.add_argument(
        "-f", "--format", choices=("delta", "iceberg", "parquet"), help="the table format (default: delta)"
    )
    convert.add_argument("--delete-old", action="store_true", help="then delete the versions in DIR")
    convert.add_argument("-q", "--quiet", action="store_true", help="report errors only")


def _target(text: str) -> Path | str:
    return text if "://" in text else Path(text)


def _versions(text: str) -> int:
    if not text.isdecimal() or int(text) < 1:
        raise argparse.ArgumentTypeError(f"{text!r} is not a number of versions, at least 1")
    return int(text)


# ---- arguments of `tidelog timeline`


def add_timeline(commands: Commands) -> None:
    """Add `timeline`."""
    summary = "draw when query answers hold: a lane for each, in the terminal or as a picture"
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
        raise argparse.ArgumentTypeError(f"a picture cannot extend to {text}")
    return point


# ---- the whole command line

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
    unknown = complete(options, unknown)
    if unknown:
        known = [name for action in commands[options.command]._actions for name in action.option_strings]
        help = suggest(unknown[0], known) or f"`tidelog {options.command} --help` lists the options"
        raise UsageError(f"`{unknown[0]}` is not an argument of `tidelog {options.command}`", help)
    wrong = wrong_store_options(options)
    if wrong is not None:
        raise UsageError(wrong, f"`tidelog {options.command} --help` lists the options")
    return options


def _check_command(word: str, commands: Mapping[str, object]) -> None:
    """Raise UsageError unless the first argument is an option or a command."""
    if word.startswith("-") or word in commands:
        return
    near = f"did you mean `tidelog run {word}`?" if word.endswith(".rls") else suggest(word, commands)
    raise UsageError(f"unknown command `{word}`", near or f"the commands are {', '.join(commands)}")


def _programs_first(arguments: Sequence[str]) -> list[str]:
    """The arguments with programs moved before options that would take them for their own values.

    >>> _programs_first(["run", "--data", "edges.csv", "graph.rls", "--stats", "graph.rls"])
    ['run', 'graph.rls', 'graph.rls', '--data', 'edges.csv', '--stats']
    """
    kept: list[str] = []
    programs: list[str] = []
    taking = False
    for position, argument in enumerate(arguments):
        if argument.startswith("-"):
            taking = argument in ("--data", "-d", "--stats")
        if taking and position and argument.endswith(".rls"):
            programs.append(argument)
        else:
            kept.append(argument)
    return [*kept[:1], *programs, *kept[1:]]


def _parser() -> tuple[CommandParser, dict[str, CommandParser]]:
    """The parser, and those of the commands by their names."""
    parser = CommandParser(
        prog="tidelog",
        allow_abbrev=False,
        description="Derive new facts from rules and facts.",
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


_PROGRAM_HELP: Final = "the program, `-` for standard input; not for a store that exists"


def _add_run(commands: Commands) -> None:
    summary = "derive everything and write the output predicates"
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
        help="keep running: when the program or its data changes, apply and print the difference",
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
        help=f"how to answer: {', '.join(STRATEGIES)} (default auto: the best for the query)",
    )
    answered.add_argument(
        "--explain-strategy", action="store_true", help="report how the query is answered, and why"
    )
    add_tables(answered)
    written = query.add_argument_group("output")
    add_form(written, "how (default table)")
    written.add_argument("--limit", metavar="N", type=row_count, help="print N answers at most")
    add_statistics(add_limits(query))


def _add_check(commands: Commands) -> None:
    summary = "check programs for errors, without running them"
    check = command(commands, "check", summary, "tidelog check rules/*.rls --format json")
    check.add_argument(
        "programs", metavar="PROGRAM", nargs="+", help="programs, folders of them, or `-` for standard input"
    )
    check.add_argument("-f", "--format", choices=("text", "json"), default="text")
    check.add_argument(
        "--types", action="store_true", help="print the inferred column types of each predicate"
    )
    add_data_files(
        check, "data the programs will be run with, so that predicates it fills are not reported as empty"
    )
    add_parameters(check)
    add_sandbox(check)
    running = check.add_argument_group("running")
    running.add_argument(
        "--engine",
        choices=ENGINES,
        default=ENGINES[0],
        help="the engine (default columnar); spark: report where the programs would run, and why",
    )
    add_session(running)
    check.add_argument("-q", "--quiet", action="store_true", help="report errors only")


def _add_format(commands: Commands) -> None:
    summary = "format programs; comments are kept"
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
    summary = "insert, delete and query facts and rules interactively"
    repl = command(commands, "repl", summary, "tidelog repl family.rls")
    repl.add_argument("program", metavar="PROGRAM", nargs="?", help="the program to load first")
    add_data(repl)
    add_store_options(repl)
    repl.add_argument("--rows", metavar="N", type=row_count, help=ROWS_HELP)
    running = add_limits(repl)
    add_tables(running)
    add_maintainer(running)


def _add_stream(commands: Commands) -> None:
    summary = "apply changes as they arrive, and report what each one changes"
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
        help="deleting a fact that does not exist is an error (default), or is skipped with a notice",
    )
    taken.add_argument(
        "--keep-going", action="store_true", help="continue after a failed transaction, which changes nothing"
    )
    written = stream.add_argument_group("output")
    written.add_argument(
        "--deltas",
        metavar="DIR",
        type=Path,
        help="write what commit N changes to DIR/N/PREDICATE.added.csv and .removed.csv",
    )
    written.add_argument(
        "-o", "--output", metavar="DIR", type=Path, help="write one file per output predicate here at the end"
    )
    add_form(
        written, "the format of files (default csv); jsonl without files: changes of each commit, on stdout"
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
