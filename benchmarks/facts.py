"""The facts of every workload, made by the generators and written as files of tab-separated values."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.csv

from benchmarks.generators import Edges, chain_edges, group_edges, rmat_edges, tree_edges, uniform_edges
from benchmarks.university import university_facts, university_triples

Tables = Mapping[str, pa.Table]
EDGES_PER_NODE = 10
BRANCHING = 3


def power_law(size: int) -> Tables:
    return {"edge": edge_table(rmat_edges(size // EDGES_PER_NODE, size))}


def uniform(size: int) -> Tables:
    return {"edge": edge_table(uniform_edges(size // EDGES_PER_NODE, size))}


def chain(size: int) -> Tables:
    return {"edge": edge_table(chain_edges(size))}


def tree(size: int) -> Tables:
    """The largest complete tree of branching 3 with at most `size` edges."""
    levels = 1
    while sum(BRANCHING**level for level in range(1, levels + 1)) <= size:
        levels += 1
    return {"parent": edge_table(tree_edges(BRANCHING, levels))}


def groups(size: int) -> Tables:
    return {"edge": edge_table(group_edges(size))}


def university(size: int) -> Tables:
    facts = university_facts(size)
    return {predicate: table.drop_columns(["department"]) for predicate, table in facts.items()}


def triples(size: int) -> Tables:
    return {"triple": university_triples(size)}


def edge_table(edges: Edges) -> pa.Table:
    return pa.table(list(edges), names=["source", "target"])


FACTS: Mapping[str, Callable[[int], Tables]] = {
    "W1": power_law,
    "W2": uniform,
    "W3": chain,
    "W4": tree,
    "W5": university,
    "W6": triples,
    "cliques": groups,
    "cut": chain,
}


def write_facts(workload: str, size: int, folder: Path) -> None:
    """The folder is there, with a file for every predicate and the number of facts in `facts`."""
    unfinished = folder.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    tables = FACTS[workload](size)
    options = pyarrow.csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")
    for predicate, table in tables.items():
        pyarrow.csv.write_csv(table, unfinished / f"{predicate}.tsv", options)
    (unfinished / "facts").write_text(str(sum(table.num_rows for table in tables.values())))
    unfinished.rename(folder)
