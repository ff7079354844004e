"""Show the steps of a maintainer: `python examples/follow.py dred '- edge(a, c) .' [PROGRAM]`.

A step is driven by the facts that it is given, and finds others. The last lines report, for each processed
stratum, how many facts were overdeleted and rederived, the net change, and how many rule instances were
examined. Rank counting runs in its Python form, because the compiled one reports no steps.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import tidelog as tl
from tidelog.engine.events import ChangePassed, Event, StratumMaintained
from tidelog.maintenance.counting import RankCounting
from tidelog.maintenance.driver import Driver
from tidelog.maintenance.registry import MAINTAINERS

PROGRAM = Path(__file__).with_name("reach.rls")


def main(maintainer: str, script: str, program: Path = PROGRAM) -> None:
    """Print the steps of applying a script, and its net change."""
    MAINTAINERS["rank-counting"] = partial(Driver, RankCounting(is_compiled=False))
    reasoner = tl.Reasoner(tl.load(program), maintainer=maintainer, listeners=[show])
    reasoner.materialise()
    print(f"net change: {reasoner.apply(script)}")


def show(event: Event) -> None:
    """Print the result of a step or of a stratum."""
    match event:
        case ChangePassed():
            print(f"{event.step:<22} {event.given} given, {event.found} found")
        case StratumMaintained():
            counts = f"{event.overdeleted} overdeleted, {event.rederived} rederived"
            net = f"+{event.came} −{event.went}"
            print(f"{', '.join(event.predicates)}: {counts}, {net}, {event.instances} instances")
        case _:
            pass


if __name__ == "__main__":
    if len(sys.argv) not in (3, 4):
        sys.exit("usage: python examples/follow.py MAINTAINER SCRIPT [PROGRAM]")
    try:
        main(sys.argv[1], sys.argv[2], *map(Path, sys.argv[3:]))
    except tl.TidelogError as error:
        sys.exit(str(error))
