"""Stores: a program, its facts and everything derived from them, durable in a folder.

`store.py` opens a folder, for reading or as its one writer: a superblock names the files. `journal.py` has
the records of transactions, `snapshot.py` the whole state as arrays, `forms.py` and `json_forms.py` how
values, programs and explanations are written. `state_checks.py` checks a state before it is used.

Imports the engine, temporal facts, proofs and what lies below. Begin with `store.py`.
"""
