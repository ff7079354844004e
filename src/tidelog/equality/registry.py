"""The treatments of equality by name."""

from __future__ import annotations

from tidelog.equality.axiomatised import Axiomatised, SwitchedOff
from tidelog.equality.rewriting import Rewriting
from tidelog.logic.equality import unknown_treatment

TREATMENTS = {treatment.name: treatment for treatment in (Rewriting, Axiomatised, SwitchedOff)}
DEFAULT = Rewriting.name


def make(name: str, unique_names: bool) -> Axiomatised:
    """The treatment of this name; raises ProgramError if there is none."""
    if name not in TREATMENTS:
        raise unknown_treatment(name, TREATMENTS)
    return TREATMENTS[name](unique_names)
