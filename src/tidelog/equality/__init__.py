"""Equality: constants that denote one thing, by axioms as rules or by one representative of each class.

Begin with `treatment.py` (what a treatment of equality does for a reasoner, and equality by axioms), then
`rewriting.py`, a maintainer that wraps the maintainer of facts: it splits and merges classes between the
updates that it hands on. `classes.py` holds the classes. Which classes a deletion splits is found by
`split_and_merge.py`, or by `class_search.py`, the B/F≈ algorithm; both run rules over `work_relations.py`.
`listing.py` expands stored facts to all members, `conflicts.py` finds constants that must not be equal,
`distributed.py` does all of it among tasks.

It may import query, maintenance and what lies below these; the rules over representatives are made in
`rewrite/representatives.py`.
"""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from tidelog.equality.treatment import Axiomatised

NAMES = ("rewrite", "axiomatise", "off")  # of the treatments in `rewriting.TREATMENTS`
DEFAULT = NAMES[0]


def make(name: str, unique_names: bool) -> Axiomatised:
    """Return the treatment of this name; raise ProgramError if there is none."""
    from tidelog.equality import rewriting

    return rewriting.make(name, unique_names)


def check_name(name: str) -> None:
    """Raise ProgramError unless there is a treatment of this name."""
    if name not in NAMES:
        from tidelog.equality import rewriting  # with all treatments

        rewriting.check_name(name)
