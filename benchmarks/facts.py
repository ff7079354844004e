"""The facts of every workload, made by the generators and written as files of tab-separated values."""

from __future__ import annotations

import gzip
import shutil
from collections.abc import Callable, Mapping
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pyarrow.csv

from benchmarks import business
from benchmarks.generators import Edges, chain_edges, group_edges, rmat_edges, tree_edges, uniform_edges
from benchmarks.university import ontology_triples, university_facts, university_triples

Tables = Mapping[str, pa.Table]
EDGES_PER_NODE = 10
SHARED = Path(__file__).parent.parent.parent / "shared" / "data"
FACEBOOK = SHARED / "graphs" / "facebook.txt.gz"
EDGES_PER_PERSON = 88_234 / 4_039  # of the Facebook graph
TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
UNIVERSITY = "https://example.org/university#"
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


def as_dense_as_facebook(size: int) -> Tables:
    """A uniform graph with as many edges a node as the Facebook graph has."""
    return {"edge": edge_table(uniform_edges(round(size / EDGES_PER_PERSON), size))}


def facebook(size: int) -> Tables:
    """The first edges of the Facebook graph of SNAP."""
    with gzip.open(FACEBOOK, "rt") as lines:
        edges = [tuple(map(int, line.split())) for line in lines if line[0] != "#"][:size]
    return {"edge": pa.table(list(zip(*edges, strict=True)), names=["source", "target"])}


def friends(size: int) -> Tables:
    """The same, each edge both ways: friendship is symmetric."""
    edge = facebook(size)["edge"]
    back = pa.table([edge["target"], edge["source"]], names=edge.column_names)
    return {"edge": pa.concat_tables([edge, back])}


def sparse(size: int) -> Tables:
    """RAND1K: a uniform graph with one edge a node."""
    return {"edge": edge_table(uniform_edges(size, size))}


def power_law_of_the_thesis(size: int) -> Tables:
    """RMAT1K: a power-law graph with eleven edges a node."""
    return {"edge": edge_table(rmat_edges(max(2, size // 11), size))}


def named_triples(size: int) -> Tables:
    """The university's facts as triples of names; its ontology is in the rules."""
    ontology = ontology_triples().num_rows
    triple = university_triples(size).slice(ontology)
    verbs = pc.replace_substring(triple["property"], "rdf:type", TYPE)
    columns = (pc.replace_substring(column, "ub:", UNIVERSITY) for column in (verbs, triple["object"]))
    return {"triple": pa.table([triple["subject"], *columns], names=triple.column_names)}


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
    "W7L": as_dense_as_facebook,
    "W7R": as_dense_as_facebook,
    "facebook": facebook,
    "facebook-left": facebook,
    "friends": friends,
    "friends-left": friends,
    "rand1k": sparse,
    "rand1k-linear": sparse,
    "rmat1k": power_law_of_the_thesis,
    "rmat1k-nonlinear": power_law_of_the_thesis,
    "lubm-rdfs": triples,
    "lubm-owl": named_triples,
    **business.MAKERS,
}


def write_facts(workload: str, size: int, folder: Path) -> None:
    """The folder is there, with a file for every predicate and the number of facts in `facts`."""
    unfinished = folder.with_suffix(".unfinished")
    shutil.rmtree(unfinished, ignore_errors=True)
    unfinished.mkdir(parents=True)
    tables = FACTS[workload](size)
    options = pyarrow.csv.WriteOptions(include_header=False, delimiter="\t", quoting_style="none")
    with_header = pyarrow.csv.WriteOptions(quoting_style="none")
    for name, table in tables.items():
        if name.endswith(".csv"):
            pyarrow.csv.write_csv(table, unfinished / name, with_header)
        else:
            pyarrow.csv.write_csv(table, unfinished / f"{name}.tsv", options)
    (unfinished / "facts").write_text(str(sum(table.num_rows for table in tables.values())))
    unfinished.rename(folder)
