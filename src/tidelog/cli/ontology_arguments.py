"""The arguments about ontologies: `tidelog ontology`, `tidelog sparql`, and `--ontology` of others."""

from __future__ import annotations

import argparse
from pathlib import Path
from typing import TYPE_CHECKING, Final

from tidelog.cli.options import TREATMENTS, add_data, add_limits, add_statistics
from tidelog.cli.store_arguments import add_store_to_read
from tidelog.cli.usage import command

if TYPE_CHECKING:
    from tidelog.cli.usage import Commands

TRIPLES: Final = ("all", "inferred", "explicit")
SHOWN: Final = ("coverage", "rules")
SPARQL_FORMATS: Final = ("table", "csv", "tsv", "json", "nt", "ttl")
PROGRAM_SUFFIX: Final = ".rls"
ASKING: Final = ("sparql", "query", "explain")  # commands whose last argument is a question
SAME_AS: Final = "axiomatise"  # how `owl:sameAs` of an ontology is treated where nothing is said


def add_ontology_commands(commands: Commands) -> None:
    """Add `ontology` and `sparql`."""
    summary = "show the rules that an ontology becomes, or what of it they cover"
    ontology = command(commands, "ontology", summary, "tidelog ontology zoo.owl --show rules")
    ontology.add_argument("files", metavar="FILE", nargs="+", type=Path, help="files of RDF")
    ontology.add_argument("--show", choices=SHOWN, default=SHOWN[0], help="what (default coverage)")
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
        help="which facts of `triple` to put out: all (default), those inferred, or those given",
    )


def settle(options: argparse.Namespace, unknown: list[str]) -> list[str]:
    """The arguments that make no sense; with an ontology, and for SPARQL, those that are files are data."""
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
    elif options.program is None and files and _is_program(files[0]):  # an option stood before the question
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
