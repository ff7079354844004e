"""Options that several commands share. Imports nothing that takes time."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import Final

from tidelog.cli.time_options import add_time
from tidelog.cli.usage import UsageError, parameter, positive, row_count, seconds, setting

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
        help="the algorithm that works changes in (default auto: what is best for each)",
    )


def add_data(parser: argparse.ArgumentParser) -> None:
    """Add what facts come from, besides the program."""
    read = parser.add_argument_group("input")
    add_data_files(read, "files named after the predicates whose facts they hold, or folders of them")
    read.add_argument(
        "--input-header",
        choices=("auto", "yes", "no"),
        default="auto",
        help="whether CSV and TSV files begin with names of columns (default auto: if they look so)",
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
    """Add how rows are put out."""
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
        help="in CSV and TSV, put ' before text that a spreadsheet would take for a formula, such as =1+1",
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
        help="let rules alone derive closures, not structures made for them",
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
        help="put out every member of a class of equal constants (default), or its smallest one",
    )
    group.add_argument(
        "--unique-names", action="store_true", help="two different names that turn out equal are inconsistent"
    )
    group.add_argument("--timeout", metavar="SECONDS", type=seconds, help="stop after so many seconds")
    group.add_argument("--max-facts", metavar="N", type=positive, help="stop at more than so many facts")
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
        help="a setting of Spark, or of ours: tidelog.strategy, tidelog.driverFacts, tidelog.salt",
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
