"""The treatments of equality by name."""

from __future__ import annotations

from tidelog.equality.axiomatised import Axiomatised, SwitchedOff
from tidelog.equality.rewriting import Rewriting
from tidelog.errors import Diagnostic, ProgramError, suggest

TREATMENTS = {treatment.name: treatment for treatment in (Rewriting, Axiomatised, SwitchedOff)}
DEFAULT = Rewriting.name
UNKNOWN_TREATMENT = "E607"


def make(name: str, unique_names: bool) -> Axiomatised:
    """The treatment of this name; raises ProgramError if there is none."""
    if name not in TREATMENTS:
        raise unknown_treatment(name)
    return TREATMENTS[name](unique_names)


def unknown_treatment(name: str) -> ProgramError:
    """The error for a treatment that there is not."""
    help = suggest(name, TREATMENTS) or f"there are {', '.join(TREATMENTS)}"
    return ProgramError(
        Diagnostic(UNKNOWN_TREATMENT, f"there is no treatment of equality `{name}`", help=help)
    )
