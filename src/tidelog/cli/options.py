"""Options that several commands share, and errors of usage. Imports the standard library only."""

from __future__ import annotations

import argparse
import sys
from argparse import Namespace
from pathlib import Path
from typing import TYPE_CHECKING, Final, NoReturn

from tidelog.errors import visible_lines

if TYPE_CHECKING:
    from tidelog.logic.intervals import Interval
    from tidelog.temporal.temporal import TimeSettings


# ---- usage errors


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


class CommandParser(argparse.ArgumentParser):
    """A parser whose errors are short."""

    def error(self, message: str) -> NoReturn:
        """Say what is wrong and where help is."""
        raise UsageError(message.removeprefix("argument "), f"`{self.prog} --help` lists the options")


if TYPE_CHECKING:
    Commands = argparse._SubParsersAction[CommandParser]


def command(commands: Commands, name: str, summary: str, example: str) -> CommandParser:
    """Add a command; what it takes is still to be added."""
    return commands.add_parser(
        name,
        allow_abbrev=False,
        help=summary,
        description=summary[:1].upper() + summary[1:] + ".",
        epilog=f"example: {example}",
    )


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


# ---- options of temporal rules

PROCEDURES: Final = ("optimised", "seminaive", "naive")  # as in tidelog.temporal, which --help need not load


def add_time(parser: argparse.ArgumentParser) -> None:
    """Add the options to a command."""
    group = parser.add_argument_group("rules over time")
    group.add_argument(
        "--temporal",
        choices=PROCEDURES,
        help="how they are materialised (default optimised)",
    )
    group.add_argument("--rounds", metavar="N", type=_rounds, help="stop after N rounds")
    group.add_argument(
        "--horizon", metavar="FROM,TO", type=_horizon, help="derive nothing beyond: numbers, dateTimes, inf"
    )


def time_settings(options: Namespace) -> TimeSettings:
    """The settings of the options; the defaults for a command without them."""
    from tidelog.temporal.temporal import TimeSettings

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


# ---- options that several commands share

ENGINES: Final = ("columnar", "spark")
FORMATS: Final = ("table", "csv", "tsv", "json", "jsonl", "parquet", "arrow", "nt", "ttl")
SHOWN: Final = ("expand", "representative")
TREATMENTS: Final = ("rewrite", "axiomatise", "off")
ON_ERROR: Final = ("fail", "skip", "collect")
ON_SCREEN: Final = ""  # the value of `--stats` without a file


def add_maintainer(group: argparse._ArgumentGroup) -> None:
    """Add `--maintainer`."""
    group.add_argument(
        "--maintainer",
        metavar="NAME",
        default="auto",
        help="the algorithm that applies changes (default auto: the best for each)",
    )


def add_data(parser: argparse.ArgumentParser) -> None:
    """Add the options for sources of facts besides the program."""
    read = parser.add_argument_group("input")
    add_data_files(read, "files named after the predicates whose facts they hold, or folders of them")
    read.add_argument(
        "--input-header",
        choices=("auto", "yes", "no"),
        default="auto",
        help="whether CSV and TSV files begin with column names (default auto: detected)",
    )
    add_parameters(read)
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
    add_sandbox(parser)


def add_data_files(parser: argparse.ArgumentParser | argparse._ArgumentGroup, help: str) -> None:
    """Add `--data`."""
    parser.add_argument(
        "-d", "--data", metavar="PATH", nargs="+", type=Path, action="extend", default=[], help=help
    )


def add_parameters(parser: argparse.ArgumentParser | argparse._ArgumentGroup) -> None:
    """Add `--param`."""
    parser.add_argument(
        "-p",
        "--param",
        metavar="NAME=VALUE",
        type=parameter,
        action="append",
        default=[],
        help="the value of a parameter of the program",
    )


def add_sandbox(parser: argparse.ArgumentParser) -> None:
    """Add what the program may read and write."""
    confine = parser.add_argument_group("sandbox")
    for verb, what in (("read", "include and import"), ("write", "export to")):
        confine.add_argument(
            f"--allow-{verb}",
            metavar="DIR",
            type=Path,
            action="append",
            help=f"let the program {what} files in this folder, and in no others; may be repeated",
        )


# Endings of file names that name another format than their own.
_FORMAT_ENDINGS: Final = {"gv": "dot", "mmd": "mermaid", "htm": "html", "txt": "text"}


def add_document(group: argparse.ArgumentParser | argparse._ArgumentGroup, *formats: str) -> None:
    """Add `--format` and `--output` of a command that writes one document, by default in the first format."""
    group.set_defaults(formats=formats)
    group.add_argument(
        "-f",
        "--format",
        choices=formats,
        metavar="FORMAT",
        help=f"one of {', '.join(formats)} (default: what the name of --output ends in, else {formats[0]})",
    )
    group.add_argument(
        "-o", "--output", metavar="FILE", type=Path, help="write to this file, not standard output"
    )


def format_of(options: argparse.Namespace) -> str:
    """Return the format of the document that a command writes."""
    if options.format is not None or options.output is None or not options.output.suffix:
        return str(options.format or options.formats[0])
    ending = options.output.suffix.lower().removeprefix(".")
    ending = _FORMAT_ENDINGS.get(ending, ending)
    if ending in options.formats:
        return str(ending)
    help = f"choose one with --format: {', '.join(options.formats)}"
    raise UsageError(f"the name `{options.output}` does not tell the format", help)


ROWS_HELP: Final = "rows of a table to show, 0 for all (default 100 on a terminal, else all)"


def add_form(group: argparse._ArgumentGroup, format_help: str) -> None:
    """Add the options for the output of rows."""
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
        help="text alone, or terms of the rule language; by default files are written so that they read back "
        "as the same values, and tables are text alone",
    )
    group.add_argument(
        "--mixed",
        choices=("text", "struct"),
        default="text",
        help="in Parquet and Arrow, what a column of values of several types is: text (the default), or a "
        "struct with a field for each type, of which one has a value",
    )
    group.add_argument("--no-header", action="store_true", help="CSV and TSV without the names of columns")
    group.add_argument(
        "--escape-formulas",
        action="store_true",
        help="in CSV and TSV, put ' before text that a spreadsheet would read as a formula, such as =1+1",
    )
    group.add_argument("--rows", metavar="N", type=row_count, help=ROWS_HELP)


def add_limits(parser: argparse.ArgumentParser) -> argparse._ArgumentGroup:
    """Add how a program is run: the engine, equality, time, limits; the group takes more."""
    add_time(parser)
    group = parser.add_argument_group("running")
    group.add_argument("--engine", choices=ENGINES, default=ENGINES[0], help="the engine (default columnar)")
    add_session(group)
    group.add_argument("--threads", metavar="N", type=positive, help="threads (default: all cores)")
    group.add_argument(
        "--no-modules",
        dest="modules",
        action="store_false",
        help="derive closures by rules alone, not by dedicated structures",
    )
    group.add_argument(
        "--equality",
        choices=TREATMENTS,
        help=f"how `?x = ?y` in heads is treated: {', '.join(TREATMENTS)} (default {TREATMENTS[0]}), and "
        f"how `owl:sameAs` of an ontology is (default {TREATMENTS[1]})",
    )
    group.add_argument(
        "--equal",
        choices=SHOWN,
        default=SHOWN[0],
        help="write every member of a class of equal constants (default), or its smallest one",
    )
    group.add_argument(
        "--unique-names", action="store_true", help="different names that become equal are inconsistent"
    )
    group.add_argument("--timeout", metavar="SECONDS", type=seconds, help="stop after so many seconds")
    group.add_argument("--max-facts", metavar="N", type=positive, help="stop at more than N facts")
    group.add_argument("-q", "--quiet", action="store_true", help="report errors only")
    return group


def add_session(group: argparse._ArgumentGroup) -> None:
    """Add where Spark runs, and how."""
    group.add_argument("--master", metavar="URL", help="where Spark runs (default local[*])")
    group.add_argument(
        "--conf",
        metavar="KEY=VALUE",
        type=setting,
        action="append",
        default=[],
        help="a setting of Spark or tidelog, such as tidelog.strategy",
    )


def add_tables(group: argparse._ArgumentGroup) -> None:
    """Add `--table-memory`."""
    group.add_argument(
        "--table-memory",
        metavar="MB",
        type=row_count,
        help="megabytes of tables that `tabling` keeps for later queries (default 1024)",
    )


def add_statistics(group: argparse._ArgumentGroup) -> None:
    """Add `--stats`."""
    group.add_argument(
        "--stats",
        metavar="FILE.json",
        nargs="?",
        const=ON_SCREEN,
        help="report what each rule did, on standard error or as JSON in a file",
    )


# ---- arguments of stores

DURABILITY: Final = ("full", "fast")
READING: Final = ("explain", "plan", "timeline", "sparql")  # commands that change no store
PROGRAMS: Final = ("run", "query", "stream", "profile", *READING)  # commands that need one, or a store
ACTIONS: Final = {
    "check": "check for damage, and report what could be recovered",
    "repair": "keep what can be recovered of a damaged store; the damaged files are set aside",
    "compact": "write a snapshot now, so that the journal is empty",
    "export": "write the program and the explicit facts to a folder that `tidelog run` accepts",
}


def add_store_options(parser: argparse.ArgumentParser, *, reading: bool = False) -> None:
    """Add `--store`, and how it is opened."""
    group = parser.add_argument_group("store")
    group.add_argument(
        "--store",
        metavar="DIR",
        type=Path,
        help="the store to work on, created from PROGRAM if it does not exist",
    )
    group.add_argument(
        "--durability",
        choices=DURABILITY,
        help="a commit is on the disk when it returns (full, the default), or soon after (fast)",
    )
    if reading:
        group.add_argument(
            "--read-only",
            action="store_true",
            help="open the store read-only, even while another process writes",
        )


def add_store_to_read(parser: argparse.ArgumentParser) -> None:
    """Add `--store` to a command that changes nothing."""
    parser.add_argument_group("store").add_argument(
        "--store", metavar="DIR", type=Path, help="the store to read, instead of PROGRAM"
    )


def add_store_command(commands: Commands) -> None:
    """Add `store`."""
    store = command(commands, "store", "check, repair or export a store", "tidelog store check graph")
    meanings = "; ".join(f"{name}: {meaning}" for name, meaning in ACTIONS.items())
    store.add_argument("action", choices=tuple(ACTIONS), help=meanings)
    store.add_argument("store", metavar="DIR", type=Path, help="the store")
    store.add_argument(
        "-o", "--output", metavar="DIR", type=Path, help="where `export` writes (default DIR.export)"
    )
    store.add_argument("-q", "--quiet", action="store_true", help="report errors only")


def wrong_store_options(options: argparse.Namespace) -> str | None:
    """What makes no sense about the options of stores, if anything does; arguments get their meaning."""
    store = getattr(options, "store", None)
    if store is not None:
        _take_first(options)
        if options.command in READING and (options.program or getattr(options, "ontology", None)):
            return f"{options.command} takes PROGRAM or --store, not both"
        if options.command in READING and getattr(options, "data", None):
            return (
                f"{options.command} changes no store: add data by `tidelog run --store {store} --data FILE`"
            )
    if store is None:
        has_data = options.command == "sparql" and bool(options.data)
        needs_program = options.command in PROGRAMS and not getattr(options, "ontology", None)
        if needs_program and options.program is None and not has_data:
            if options.command == "query" and options.query.endswith(".rls"):
                return f"QUERY is missing: give a query for {options.query}, such as 'ancestor(alice, ?x)'"
            return "PROGRAM is missing: name one, or a store with --store"
        for name in ("durability", "read_only"):
            if getattr(options, name, None):
                return f"--{name.replace('_', '-')} requires --store"
    elif getattr(options, "watch", False):
        return "--watch cannot be used with --store"
    return None


def _take_first(options: argparse.Namespace) -> None:
    """The program is the store's: what stands first is what would come after a program."""
    first = getattr(options, "program", None)
    if first is None:
        return
    for name, rest in (("stream", "updates"), ("timeline", "queries")):
        if options.command == name:
            setattr(options, rest, [first, *getattr(options, rest)])
            options.program = None
    if options.command == "explain" and (options.query, options.why_not, options.what_if) == (None,) * 3:
        options.query, options.program = first, None


# ---- arguments of ontologies

TRIPLES: Final = ("all", "inferred", "explicit")
ONTOLOGY_SHOWN: Final = ("coverage", "rules")
SPARQL_FORMATS: Final = ("table", "csv", "tsv", "json", "nt", "ttl")
PROGRAM_SUFFIX: Final = ".rls"
ASKING: Final = ("sparql", "query", "explain")  # commands whose last argument is a question
SAME_AS: Final = "axiomatise"  # how `owl:sameAs` of an ontology is treated where nothing is said


def add_ontology_commands(commands: Commands) -> None:
    """Add `ontology` and `sparql`."""
    summary = "show the rules that an ontology is translated to, or how much of it they cover"
    ontology = command(commands, "ontology", summary, "tidelog ontology zoo.owl --show rules")
    ontology.add_argument("files", metavar="FILE", nargs="+", type=Path, help="files of RDF")
    ontology.add_argument(
        "--show", choices=ONTOLOGY_SHOWN, default=ONTOLOGY_SHOWN[0], help="what (default coverage)"
    )
    ontology.add_argument(
        "--equality", choices=TREATMENTS, help=f"how `owl:sameAs` is treated (default {SAME_AS})"
    )
    ontology.add_argument("-q", "--quiet", action="store_true", help="report errors only")

    summary = "answer a SPARQL query over the triples of a store, or derive everything and answer it"
    sparql = command(
        commands, "sparql", summary, "tidelog sparql zoo.rls 'SELECT ?x WHERE { ?x a <Cat> }' --format csv"
    )
    sparql.add_argument("program", metavar="PROGRAM", nargs="?", help="the program, or a file of RDF")
    sparql.add_argument("query", metavar="QUERY", help="SELECT, ASK, CONSTRUCT or DESCRIBE; `@FILE` reads it")
    add_ontology(sparql)
    add_store_to_read(sparql)
    add_data(sparql)
    add_statistics(add_limits(sparql))
    written = sparql.add_argument_group("output")
    written.add_argument(
        "-f",
        "--format",
        choices=SPARQL_FORMATS,
        metavar="FORMAT",
        help=f"how (default table, for graphs nt); one of {', '.join(SPARQL_FORMATS)}",
    )


def add_ontology(parser: argparse.ArgumentParser) -> None:
    """Add `--ontology`."""
    group = parser.add_argument_group("ontology")
    group.add_argument(
        "--ontology",
        metavar="FILE",
        type=Path,
        action="append",
        default=[],
        help="reason by this ontology, in OWL 2 RL; arguments that are not programs are then files of data: "
        f"`tidelog {parser.prog.rpartition(' ')[2]} --ontology zoo.owl animals.ttl`",
    )


def add_triples(group: argparse._ArgumentGroup) -> None:
    """Add `--triples`."""
    group.add_argument(
        "--triples",
        choices=TRIPLES,
        default=TRIPLES[0],
        help="which facts of `triple` to write: all (default), those inferred, or those given",
    )


def complete(options: argparse.Namespace, unknown: list[str]) -> list[str]:
    """Complete options that depend on others; return the arguments that make no sense.

    With an ontology, and for SPARQL, arguments that are files are data.
    """
    if hasattr(options, "equality"):
        options.is_equality_said = options.equality is not None
        options.same_as = options.equality or SAME_AS
        options.equality = options.equality or TREATMENTS[0]
    if not getattr(options, "ontology", None) and options.command != "sparql":
        return unknown
    files = [word for word in unknown if not word.startswith("-")]
    if options.command in ASKING:
        files = _without_question(options, files)
    if options.program is not None and not _is_program(options.program):
        files.insert(0, options.program)
        options.program = None
    elif options.program is None and files and _is_program(files[0]):  # an option came before the question
        options.program = files.pop(0)
    options.data = [*options.data, *map(Path, files)]
    return [word for word in unknown if word.startswith("-")]


def _without_question(options: argparse.Namespace, files: list[str]) -> list[str]:
    """The files of the arguments, of which the last is the question, unless an option asks it."""
    if options.query is not None:
        *files, options.query = (options.query, *files)
    elif getattr(options, "why_not", None) is None and getattr(options, "what_if", None) is None:
        options.program, options.query = None, options.program
    return files


def _is_program(name: str) -> bool:
    return name == "-" or name.endswith(PROGRAM_SUFFIX)
