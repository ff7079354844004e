"""Transactions: the journal, sets of facts, counters, ranks and marks.

`transactions.py` begins, commits and rolls back; other parts take part in that as its participants.
`row_sets.py` has sets of facts, `change_runner.py` runs plans over changes. `counters.py` and `marks.py`
keep numbers and notes next to facts, and `rank_loop.py` runs whole updates in one kernel. Imports storage and
the interpreter. Begin with `transactions.py`, then `change_runner.py`.
"""
