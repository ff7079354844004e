"""The strategies by name: one is registered here, by one line. A reasoner makes one of each."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from tidelog.errors import Diagnostic, ProgramError, suggest
from tidelog.logic.program import Query
from tidelog.query.choose import Choice, choose
from tidelog.query.magic import Magic
from tidelog.query.strategy import Place, Strategy
from tidelog.query.whole import Full, Lookup

AUTO = "auto"
TABLING = "tabling"
STRATEGIES: Mapping[str, Callable[[], Strategy]] = {"lookup": Lookup, "magic": Magic, "full": Full}
NAMES = (AUTO, "lookup", "magic", TABLING, "full")
UNKNOWN_STRATEGY = "E650"


def chosen(name: str, query: Query, place: Place) -> Choice:
    """The strategy of this name, or the one that `auto` takes; raises ProgramError if there is none."""
    check_name(name)
    return choose(query, place) if name == AUTO else Choice(name, "as asked")


def check_name(name: str) -> None:
    """Nothing, if there is such a strategy; else raises ProgramError."""
    if name == AUTO or name in STRATEGIES:
        return
    if name == TABLING:
        message = "the strategy `tabling` is not there yet"
        raise ProgramError(Diagnostic(UNKNOWN_STRATEGY, message, help="use `magic`"))
    help = suggest(name, NAMES) or f"there are {', '.join(NAMES)}"
    raise ProgramError(Diagnostic(UNKNOWN_STRATEGY, f"there is no strategy `{name}`", help=help))
