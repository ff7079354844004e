"""Closures: structures that derive and maintain transitive relations instead of rules.

`maintained_closures.py` is the part of the engine: which relations are closed, and their external pairs.
`closure_structures.py` has the two structures, over the kernels of `reach_kernels.py` (rows of reached nodes)
and `closure_kernels.py` (external pairs, and classes).

Imports storage and transactions. Begin with `maintained_closures.py`.
"""
