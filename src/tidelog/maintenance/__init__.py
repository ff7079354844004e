"""Maintenance: the algorithms that keep derived facts right while facts and rules change.

`maintainer.py` is the contract with transactions. `driver.py` applies an update stratum by stratum:
`schedule.py` orders the strata, `task.py` is one stratum of one update as an algorithm sees it,
`step_plans.py` caches plans, and `special_strata.py` maintains aggregates and closures. `marking.py` looks
ahead in streams. `registry.py` has the maintainers by name, and chooses among them.

Imports the engine's protocol, never a concrete engine, and what lies below. Begin with `dred.py` and
`task.py`, then `driver.py`.
"""

from __future__ import annotations

DEFAULT = "auto"
DEFAULT_MARKING = "auto"  # in streams, where it pays
NO_MARKING = "none"


def check_names(name: str, marking: str) -> None:
    """Raise ProgramError unless there is such a maintainer and it supports the marking."""
    if name != DEFAULT or marking not in (DEFAULT_MARKING, NO_MARKING):
        from tidelog.maintenance import registry  # with all maintainers

        registry.check_names(name, marking)


def keeps_closures(name: str, marking: str) -> bool:
    """Return whether structures may maintain closures.

    Marks are passed along rules, not through structures, and would miss facts that the next update deletes. A
    maintainer that decides itself whether to mark keeps the structures.
    """
    return name == DEFAULT or marking in (NO_MARKING, DEFAULT_MARKING)
