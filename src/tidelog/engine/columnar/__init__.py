"""The columnar engine: facts as tables of dense ids, and a compiled interpreter of plans.

`engine.py` puts the parts together. `storage/` has tables and their indexes, `interpreter/` runs plans over
them, `transactions/` applies changes and rolls them back, and `closures/` has structures that close
relations. Kernels, in the modules `…_kernels.py`, reach arrays by address; `layout.py` names the positions of
the integers that describe these arrays.

Imports the engine's protocol, plans, data and what lies below. Begin with `engine.py`, then `storage/`.
"""
