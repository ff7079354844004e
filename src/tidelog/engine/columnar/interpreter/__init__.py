"""The plan interpreter: plans as integer code, and the kernels that run them batch by batch.

`assemble.py` turns a plan into code, `interpreter.py` and the other kernels run it, and `plan_runner.py`
serves their requests, on one thread or several. `executor.py` is the part of the engine: rules' plans over
whole relations, queries and aggregates.

Imports storage. Begin with `assemble.py`, then `interpreter.py`.
"""
