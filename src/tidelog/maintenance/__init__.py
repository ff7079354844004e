"""Maintenance: the algorithms that keep derived facts right while facts and rules change, one per file.

`maintainer.py` is the contract with transactions. `driver.py` applies an update stratum by stratum:
`schedule.py` orders the strata, `task.py` is one stratum of one update as an algorithm sees it,
`step_plans.py` caches plans, and `special_strata.py` maintains aggregates and closures. `marking.py` looks
ahead in streams. `registry.py` has the maintainers by name, and chooses among them.

Imports the engine's protocol, never a concrete engine, and what lies below. Begin with `dred.py` and
`task.py`, then `driver.py`.
"""
