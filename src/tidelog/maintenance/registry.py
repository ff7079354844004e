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
from tidelog.maintenance.maintainer import Check, Factory, Maintainer
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
MARKINGS = ("none", *marks.MARKINGS)
MARKED = tuple(marking.MARKED)  # those that can look ahead and mark
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
    # Marks pass along rules: structures would keep from them what the next update deletes.
    maintainer = MAINTAINERS[kind](engine, listen, check, modules and marking == "none")
    if marking != "none":
        maintainer.marking = marking  # type: ignore[attr-defined]  # checked above: it marks
    return maintainer


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
    if marking != "none" and name not in MARKED:
        message = f"the maintainer `{name}` does not mark"
        help = f"use {' or '.join(f'`{other}`' for other in MARKED)}, or no marking"
        raise ProgramError(Diagnostic(UNKNOWN_MARKING, message, help=help))
