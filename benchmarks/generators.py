"""Graphs with fixed seeds, as two columns of node numbers."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

Column = NDArray[np.int64]
Edges = tuple[Column, Column]

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


def distinct_in_order(values: Column) -> Column:
    """The different values, each where it was first seen."""
    _, first = np.unique(values, return_index=True)
    return values[np.sort(first)]
