"""Plans: the one form of a rule that all engines execute, and the orders of joins.

`algebra.py` has the nodes of plans, `compile.py` makes them of rules, `join_order.py` orders bodies by
statistics and says how long a prepared plan is used, and `change_plans.py` makes the plans of transactions.
`rule_text.py` writes rules for readers, and `inconsistency.py` what makes facts inconsistent.

Imports rewriting, logic and what lies below, and no engine. Begin with `algebra.py`, then `compile.py`.
"""
