"""MeTeoR, the reference system of paper 002, through Python: the same rules and facts in its language.

It is not an oracle: on temporal LUBM it loses derivations of `since` and `until`, so its facts are counted,
and not compared.
"""

from __future__ import annotations

import contextlib
import io
import os
import re
import tempfile
from collections.abc import Iterator, Mapping
from pathlib import Path

import pyarrow as pa

from benchmarks.clock import cpu_seconds
from benchmarks.peers.outcome import Outcome

OPERATOR = re.compile(r"(diamondminus|diamondplus|boxminus|boxplus|since|until)(?=[\[(])")


def run_meteor(program: str, tables: Mapping[str, pa.Table], mode: str, rounds: int) -> Outcome:
    """So many rounds of one of its modes; facts are read from lines of text, as it wants them."""
    from meteor_reasoner.materialization.coalesce import coalescing_d
    from meteor_reasoner.materialization.materialize import materialize
    from meteor_reasoner.utils.loader import load_dataset, load_program

    lines = [line for name, table in tables.items() for line in meteor_facts(name, table)]
    begin = cpu_seconds()
    facts = load_dataset(lines)
    coalescing_d(facts)
    rules = load_program(list(meteor_rules(program)))
    loaded = cpu_seconds()
    with quietly():
        materialize(facts, rules, mode=mode, K=rounds)
    end = cpu_seconds()
    count = sum(len(intervals) for rows in facts.values() for intervals in rows.values())
    return Outcome(count, loaded - begin, end - loaded)


@contextlib.contextmanager
def quietly() -> Iterator[None]:
    """It prints each round, and leaves a file behind where it stands."""
    with tempfile.TemporaryDirectory() as folder, contextlib.redirect_stdout(io.StringIO()):
        before = Path.cwd()
        os.chdir(folder)
        try:
            yield
        finally:
            os.chdir(before)


def meteor_rules(program: str) -> Iterator[str]:
    """Rules in its language: capital variables and operators, one rule a line.

    >>> list(meteor_rules("p(?x) :- boxminus[0, 5] q(?x) ."))
    ['p(X):-Boxminus[0,5]q(X)']
    """
    for line in program.splitlines():
        rule = line.partition("%")[0].strip().removesuffix(".").replace(" ", "")
        if rule:
            rule = re.sub(r"\?(\w+)", lambda found: found[1].upper(), rule)
            yield OPERATOR.sub(lambda found: found[1].capitalize(), rule)


def meteor_facts(name: str, table: pa.Table) -> Iterator[str]:
    """Facts in its language."""
    columns = [table.column(place).to_pylist() for place in range(table.num_columns)]
    *arguments, start, end, start_open, end_open = columns
    rows = zip(zip(*arguments, strict=True), start, end, start_open, end_open, strict=True)
    for values, low, high, is_open, is_open_right in rows:
        interval = f"{'(' if is_open else '['}{low},{high}{')' if is_open_right else ']'}"
        yield f"{name}({','.join(map(str, values))})@{interval}"
