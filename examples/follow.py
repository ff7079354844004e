"""Shows what a maintainer does, step by step: `python examples/follow.py dred '- edge(a, c) .' [PROGRAM]`.

A step is driven by the facts that it is given, and finds others. The last lines tell, for each stratum that
was worked on, how many facts were taken away and came back, the net change, and how many instances of
rules were looked at. Rank counting is followed in its readable form: the compiled one tells of no steps.
"""

from __future__ import annotations

import sys
from functools import partial
from pathlib import Path

import tidelog as tl
from tidelog.engine.events import ChangePassed, Event, StratumMaintained
from tidelog.maintenance.driver import Driver
from tidelog.maintenance.rank_counting import RankCounting
from tidelog.maintenance.registry import MAINTAINERS

PROGRAM = Path(__file__).with_name("reach.rls")


def main(maintainer: str, script: str, program: Path = PROGRAM) -> None:
    """Print the steps by which a script is worked in, and its net change."""
    MAINTAINERS["rank-counting"] = partial(Driver, RankCounting(is_compiled=False))
    reasoner = tl.Reasoner(tl.load(program), maintainer=maintainer, listeners=[show])
    reasoner.materialise()
    print(f"net change: {reasoner.apply(script)}")


def show(event: Event) -> None:
    """Print what a step found, or what became of a stratum."""
    match event:
        case ChangePassed():
            print(f"{event.step:<22} {event.given} given, {event.found} found")
        case StratumMaintained():
            counts = f"{event.overdeleted} taken away, {event.rederived} put back"
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
