"""`tidelog ontology` and `tidelog sparql`."""

from __future__ import annotations

import sys
from argparse import Namespace
from collections import Counter
from itertools import islice
from typing import Final

import pyarrow as pa

from tidelog.cli.options import UsageError
from tidelog.cli.output import Messages, data_output, show
from tidelog.cli.program_sources import read_source
from tidelog.cli.results import ROWS_ON_TERMINAL, Form, data
from tidelog.cli.statistics import report_statistics
from tidelog.cli.work import QUAD, LoadedProgram
from tidelog.errors import counted
from tidelog.io.sparql import Answer, SparqlStore
from tidelog.ontology.ontology import Ontology, load_ontology
from tidelog.ontology.schema_closure import TRIPLE

# ---- `tidelog ontology`


def ontology(options: Namespace) -> int:
    """The exit code of `tidelog ontology`."""
    messages = Messages(options.quiet)
    loaded = load_ontology(*options.files, equality=options.same_as)
    if options.show == "rules":
        messages.diagnose(loaded.warnings)
        show(loaded.text(), end="")
    else:
        for line in coverage(loaded):
            show(line)
    return 0


def coverage(loaded: Ontology) -> list[str]:
    """What there is of an ontology, what rules it became, and what they do not cover, as lines of text."""
    rows = Counter(rule.name or "within themselves" for rule in loaded.rules)
    lines = [counted(sum(loaded.axioms.values()), "axiom")]
    lines += _counted(loaded.axioms)
    lines += ["", f"{counted(len(loaded.rules), 'rule')}, by the rows of the tables"]
    lines += _counted(rows)
    if not loaded.gaps:
        return [*lines, "", "all of it lies within OWL 2 RL"]
    lines += ["", f"{len(loaded.gaps):,} outside OWL 2 RL"]
    for gap in loaded.gaps:
        lines += [f"  {gap.axiom}", f"    {gap.reason}"]
    return lines


def _counted(counts: Counter[str]) -> list[str]:
    width = max(map(len, counts), default=0)
    return [f"  {name:<{width}}  {count:>6,}" for name, count in sorted(counts.items())]


# ---- `tidelog sparql`

GRAPHS: Final = ("nt", "ttl")
_STATEMENTS: Final = Form("nt")


def sparql(options: Namespace) -> int:
    """The exit code of `tidelog sparql`."""
    query = read_source(options.query[1:]).text if options.query.startswith("@") else options.query
    SparqlStore([]).query(query)  # a syntax error in the query is reported before the work
    work = LoadedProgram(options)
    work.warn()
    work.derive()
    answer = SparqlStore(_statements(work)).query(query)
    form = _form(answer, options.format)
    sys.stdout.flush()
    if form == "table":
        _print_table(answer)
    elif answer.is_truth and form != "json":
        print("true" if answer else "false")
    else:
        answer.write(data_output(), form)
    report_statistics(work)
    return 0


def _statements(work: LoadedProgram) -> list[pa.Table]:
    """The triples, and those of named graphs in their graphs."""
    predicates = work.reasoner.predicates()
    if TRIPLE not in predicates and QUAD not in predicates:
        work.messages.say(f"`{work.store}` holds no triples: SPARQL queries facts of `{TRIPLE}`")
    return [data(work.reasoner[name], _STATEMENTS) for name in (TRIPLE, QUAD) if name in predicates]


def _form(answer: Answer, requested: str | None) -> str:
    """The format of an answer; a usage error if it cannot have the requested one."""
    if answer.is_graph:
        if requested not in (None, *GRAPHS):
            raise UsageError(f"a graph cannot be written as {requested}", "choose --format nt or ttl")
        return requested or GRAPHS[0]
    if requested in GRAPHS:
        raise UsageError(f"rows cannot be written as {requested}", "choose --format table, csv, tsv or json")
    return "text" if answer.is_truth and requested in (None, "table") else requested or "table"


def _print_table(answer: Answer) -> None:
    """The rows as a table, on a terminal the first ones."""
    most = ROWS_ON_TERMINAL if sys.stdout.isatty() else None
    rows = list(islice(answer, most))
    columns = list(zip(*([answer.columns, *rows]), strict=True))
    widths = [max(map(len, column)) for column in columns]
    for row in (answer.columns, tuple("─" * width for width in widths), *rows):
        cells = (cell.ljust(width) for cell, width in zip(row, widths, strict=True))
        show("  ".join(cells).rstrip())
