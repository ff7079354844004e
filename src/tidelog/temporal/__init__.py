"""Rules over time: DatalogMTL over lists of intervals.

A fact over time is a row of ids with a number, and a list of intervals in a pool of int64 ends. Begin with
`interval_table.py` (lists, the timeline, tables) and `interval_bindings.py`, the algebra of ten operations.
`metric_rules.py` compiles rules, `body_evaluation.py` evaluates their bodies by the algebra.

- Derivation: `interval_fixpoint.py` in rounds, within the limits of `horizon.py`; `periodic.py` where facts
  repeat without end, and what is forgotten as time advances.
- Changes: `timed_changes.py` is a transaction, `interval_dred.py` maintains the derived facts; the tables,
  their journal and the schedule of a transaction are in `timed_store.py`.
- Data: `time_columns.py` reads times, `timed_relation.py` is what users see. `temporal.py` is the part of a
  reasoner that all of this serves.
- Tasks: `partitioning.py` divides rules by keys, `distributed.py` is one of the tasks that run them.

`interval_kernels.py` has the compiled loops. It may import maintenance, the engine and what lies below these.
"""
