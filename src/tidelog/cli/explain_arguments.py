"""The arguments of the commands that explain. Imports nothing that takes time."""

from __future__ import annotations

from typing import TYPE_CHECKING

from tidelog.cli.ontology_arguments import add_ontology
from tidelog.cli.options import add_data, add_document, add_limits, add_maintainer
from tidelog.cli.store_arguments import add_store_options, add_store_to_read
from tidelog.cli.usage import command, row_count

if TYPE_CHECKING:
    from tidelog.cli.usage import Commands


def add_explain(commands: Commands) -> None:
    """Add `explain`."""
    summary = "say why facts hold, why one does not, or what a change would change"
    explain = command(commands, "explain", summary, "tidelog explain family.rls 'ancestor(alice, carol)'")
    explain.add_argument("program", metavar="PROGRAM", nargs="?", help="the program, `-` for standard input")
    explain.add_argument(
        "query", metavar="QUERY", nargs="?", help="a fact, or a query whose answers are explained"
    )
    explain.add_argument(
        "--why-not", metavar="FACT", help="say why this fact does not hold, and what would complete a rule"
    )
    explain.add_argument(
        "--what-if", metavar="CHANGES", help="say what this change script would change, without the change"
    )
    add_ontology(explain)
    add_data(explain)
    add_store_to_read(explain)
    shown = explain.add_argument_group("proofs")
    shown.add_argument(
        "--all", metavar="N", type=row_count, default=1, help="N proofs of each, lowest first (default 1)"
    )
    shown.add_argument("--depth", metavar="N", type=row_count, help="show N steps; what is below is left out")
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
    summary = "say what each rule did in each phase, and how long it took"
    profile = command(
        commands, "profile", summary, "tidelog profile family.rls --format html -o profile.html"
    )
    profile.add_argument("program", metavar="PROGRAM", nargs="?", help="the program, `-` for standard input")
    profile.add_argument(
        "--changes",
        metavar="FILE",
        nargs="+",
        default=[],
        help="change scripts, or folders of them, to be applied when everything is derived",
    )
    add_data(profile)
    add_store_options(profile)
    written = profile.add_argument_group("output")
    add_document(written, "text", "json", "html")
    add_maintainer(add_limits(profile))
