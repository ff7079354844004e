"""Engines: where facts live, and how rules are run over them.

`protocol.py` is the contract: the parts of an engine, and what algorithms may ask of each; `flags.py` is what
is recorded of facts. `fixpoint.py` derives everything, stratum by stratum. `events.py` is what all work
reports, `interrupts.py` is what stops it. `missing_values.py` finds the rows that rules drop because a
function has no value. `columnar/` is the engine; its `engine.py` has the engines by name. `reference.py` is a
slow oracle for tests; `exchange/` lets tasks of a cluster exchange facts.

Imports plans, data and what lies below. Begin with `protocol.py`, then `fixpoint.py`.
"""
