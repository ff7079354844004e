"""Engines: where facts live, and how rules are run over them.

`protocol.py` is the contract: the parts of an engine, and what algorithms may ask of each; `flags.py` is what
is recorded of facts. `fixpoint.py` derives everything, stratum by stratum. `events.py` is what all work
reports, `limits.py` and `interrupts.py` are what stops it. `registry.py` has the engines by name. `columnar/`
is the engine; `reference.py` is a slow oracle for tests; `exchange/` lets tasks of a cluster exchange facts.

Imports plans, data and what lies below. Begin with `protocol.py`, then `fixpoint.py`.
"""
