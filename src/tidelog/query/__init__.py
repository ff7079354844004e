"""Queries: the ways to answer one, and queries that stay while facts and rules change.

A strategy answers a query: `lookup` and `full` (in `registry.py`), `magic.py` by rewriting the program, and
`tabling.py` from the top down, with the rules of its tables in `table_rules.py` and their rounds in
`table_rounds.py`. `registry.py` chooses among them. Prepared and live queries are in `query_keepers.py`, over
the rules that `kept_queries.py` has maintained.

Imports maintenance, the engine's protocol and what lies below; equality, time, proofs and the reasoner
import this package. Begin with `strategy.py`, then `magic.py`.
"""
