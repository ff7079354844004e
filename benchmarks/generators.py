"""Graphs with fixed seeds, as two columns of node numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.int64]
Edges = tuple[Column, Column]
Pairs = list[tuple[int, int]]
Updates = tuple[Pairs, Pairs]

QUADRANTS = (0.57, 0.19, 0.19, 0.05)
"""The probabilities of the four quadrants of the adjacency matrix, as Graph500 sets them."""


def rmat_edges(nodes: int, edges: int, seed: int = 3) -> Edges:
    """Exactly `edges` different edges between `nodes` nodes, of power-law degree.

    Chakrabarti, Zhan, Faloutsos: R-MAT, a Recursive Model for Graph Mining, SDM 2004.

    >>> sources, targets = rmat_edges(nodes=100, edges=500)
    >>> len(sources), int(max(sources.max(), targets.max())) < 100
    (500, True)
    """
    random = np.random.default_rng(seed)
    levels = max(1, (nodes - 1).bit_length())
    weights = np.left_shift(1, np.arange(levels - 1, -1, -1))
    kept = np.empty(0, dtype=np.int64)
    while len(kept) < edges:
        quadrants = random.choice(4, size=(4 * edges, levels), p=QUADRANTS)
        sources, targets = (quadrants >> 1) @ weights, (quadrants & 1) @ weights
        inside = (sources < nodes) & (targets < nodes)
        kept = distinct_in_order(np.concatenate([kept, sources[inside] * nodes + targets[inside]]))
    return kept[:edges] // nodes, kept[:edges] % nodes


def uniform_edges(nodes: int, edges: int, seed: int = 1) -> Edges:
    """Exactly `edges` different edges, each pair of nodes as likely as any other."""
    drawn = np.random.default_rng(seed).choice(nodes * nodes, size=edges, replace=False)
    return drawn // nodes, drawn % nodes


def chain_edges(length: int) -> Edges:
    """The edges of a path of `length` edges."""
    sources = np.arange(length, dtype=np.int64)
    return sources, sources + 1


def tree_edges(branching: int, levels: int) -> Edges:
    """The edges, parent first, of a complete tree; the root is node 0 and counts as a level.

    >>> tree_edges(branching=3, levels=2)
    (array([0, 0, 0]), array([1, 2, 3]))
    """
    nodes = sum(branching**level for level in range(levels))
    children = np.arange(1, nodes, dtype=np.int64)
    return (children - 1) // branching, children


def group_edges(edges: int, seed: int = 5) -> Edges:
    """About `edges` edges inside of groups of 10 to 40 nodes, four for each node: every group is connected.

    Each node but the first of its group has an edge to an earlier one; the other three are anywhere in it.

    >>> sources, targets = group_edges(1000)
    >>> 800 < len(sources) < 1300
    True
    """
    random = np.random.default_rng(seed)
    parts, first, total = [], 0, 0
    while total < edges:
        nodes = int(random.integers(10, 41))
        inner = np.arange(1, nodes, dtype=np.int64)
        tree = inner * nodes + random.integers(0, inner)
        more = random.choice(nodes * nodes, size=3 * nodes, replace=False)
        drawn = distinct_in_order(np.concatenate([tree, more]))
        parts.append((first + drawn // nodes, first + drawn % nodes))
        first, total = first + nodes, total + len(drawn)
    sources, targets = (np.concatenate(column) for column in zip(*parts, strict=True))
    return sources, targets


def random_updates(nodes: int, size: int, seed: int, updates: int = 50, first: int = 100) -> list[Updates]:
    """The random streams of paper 000: edges to be deleted and added by each update.

    The first adds `first` edges to none; each later one deletes `size` edges that are there and adds `size`
    that are not, self-loops allowed.

    >>> stream = random_updates(nodes=20, size=10, seed=1)
    >>> len(stream), [(len(deleted), len(added)) for deleted, added in stream[:2]]
    (50, [(0, 100), (10, 10)])
    """
    random = np.random.default_rng(seed)
    drawn = random.choice(nodes * nodes, size=first, replace=False)
    there = np.zeros(nodes * nodes, bool)
    there[drawn] = True
    stream: list[Updates] = [([], pairs(drawn, nodes))]
    while len(stream) < updates:
        deleted = random.choice(np.flatnonzero(there), size=size, replace=False)
        added = random.choice(np.flatnonzero(~there), size=size, replace=False)
        there[deleted], there[added] = False, True
        stream.append((pairs(deleted, nodes), pairs(added, nodes)))
    return stream


def pairs(edges: Column, nodes: int) -> Pairs:
    return [(edge // nodes, edge % nodes) for edge in edges.tolist()]


def distinct_in_order(values: Column) -> Column:
    """The different values, each where it was first seen."""
    _, first = np.unique(values, return_index=True)
    return values[np.sort(first)]
