"""The maintainers by name: an algorithm is registered here, by one line.

`forward-backward-forward:3` looks for proofs three steps deep; without a number it takes its own depth.
"""

from __future__ import annotations

from functools import partial
from typing import Any

from tidelog.engine.events import Listener
from tidelog.errors import Diagnostic, ProgramError, suggest
from tidelog.maintenance import marking, marks
from tidelog.maintenance.algorithms import ALGORITHMS
from tidelog.maintenance.choose import Auto
from tidelog.maintenance.driver import Driver
from tidelog.maintenance.forward_backward_forward import ForwardBackwardForward
from tidelog.maintenance.maintainer import Check, Factory, Maintainer, looks_ahead
from tidelog.maintenance.recompute import Recompute

DEFAULT = "auto"
MAINTAINERS: dict[str, Factory] = {
    "auto": Auto,
    "recompute": Recompute,
    **{
        name: partial(marking.MarkingDriver if name in marking.MARKED else Driver, algorithm)
        for name, algorithm in ALGORITHMS.items()
    },
}
DEFAULT_MARKING = "auto"  # in streams, where it pays
MARKINGS = (DEFAULT_MARKING, "none", *marks.MARKINGS)
MARKED = (DEFAULT, *marking.MARKED)  # those that can look ahead and mark
UNKNOWN_MAINTAINER = "E622"
UNKNOWN_MARKING = "E623"


def make(
    name: str, marking: str, engine: Any, listen: Listener, check: Check, modules: bool = True
) -> Maintainer:
    """The maintainer of this name, which marks as asked; raises ProgramError if there is none."""
    check_names(name, marking)
    kind, _, depth = name.partition(":")
    if depth:
        return Driver(ForwardBackwardForward(int(depth)), engine, listen, check, modules)
    maintainer = MAINTAINERS[kind](engine, listen, check, modules and keeps_closures(name, marking))
    if looks_ahead(maintainer):
        maintainer.marking = marking
    return maintainer


def keeps_closures(name: str, marking: str) -> bool:
    """Whether structures may keep closures.

    Marks pass along rules: structures would keep from them what the next update deletes. Who decides whether
    to mark keeps the structures.
    """
    return name == DEFAULT or marking in ("none", DEFAULT_MARKING)


def check_names(name: str, marking: str) -> None:
    """Nothing, if there is such a maintainer and it can mark so; else raises ProgramError."""
    kind, colon, depth = name.partition(":")
    if colon and kind == ForwardBackwardForward.name and depth.isascii() and depth.isdigit():
        name = kind
    if name not in MAINTAINERS:
        help = suggest(name, MAINTAINERS) or f"there are {', '.join(MAINTAINERS)}"
        raise ProgramError(Diagnostic(UNKNOWN_MAINTAINER, f"there is no maintainer `{name}`", help=help))
    if marking not in MARKINGS:
        help = suggest(marking, MARKINGS) or f"there are {', '.join(MARKINGS)}"
        raise ProgramError(Diagnostic(UNKNOWN_MARKING, f"there is no marking `{marking}`", help=help))
    if marking not in ("none", DEFAULT_MARKING) and name not in MARKED:
        message = f"the maintainer `{name}` does not mark"
        help = f"use one of {', '.join(f'`{other}`' for other in MARKED)}, or no marking"
        raise ProgramError(Diagnostic(UNKNOWN_MARKING, message, help=help))
