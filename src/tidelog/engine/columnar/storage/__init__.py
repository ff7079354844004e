"""Storage: relations as tables of ids, their indexes, and what is old and new in each round.

`table.py` owns the memory of tables and indexes, `catalog.py` knows them by name and number. `storage.py` and
`rounds.py` are parts of the engine; `engine_state.py` takes all that an engine holds out of one and into
another. Imports the kernels of tables and transactions. Begin with `table.py`, then `catalog.py`.
"""
