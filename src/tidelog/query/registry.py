"""The strategies by name: one is registered here, by one line. A reasoner makes one of each."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping

from tidelog.errors import Diagnostic, ProgramError, suggest
from tidelog.logic.program import Query
from tidelog.query.choose import Choice, choose
from tidelog.query.lookup import Full, Lookup
from tidelog.query.magic import Magic
from tidelog.query.strategy import Place, Strategy, as_streaming
from tidelog.query.tabling import Tabling

AUTO = "auto"
STREAMED = Tabling.name  # gives its first answers early
STRATEGIES: Mapping[str, Callable[[], Strategy]] = {
    "lookup": Lookup,
    "magic": Magic,
    "tabling": Tabling,
    "full": Full,
}
WHOLE = (Lookup.name, Full.name)  # those that look answers up in relations that are whole
NAMES = (AUTO, *STRATEGIES)
UNKNOWN_STRATEGY = "E650"
NOT_OVER_REPRESENTATIVES = "E608"
BY_AXIOMS = 'use `--equality axiomatise` (`equality="axiomatise"`), or derive everything and look answers up'


def chosen(name: str, query: Query, place: Place) -> Choice:
    """The strategy of this name, or the one that `auto` takes; raises ProgramError if there is none."""
    check_name(name)
    if name == AUTO:
        return choose(query, place)
    by_axioms = place.look_up is not None and name not in WHOLE
    return Choice(name, "as asked, by the axioms of equality as rules" if by_axioms else "as asked")


def not_over_representatives(what: str, help: str = BY_AXIOMS) -> ProgramError:
    """That something does not work where facts are kept over representatives of equal constants."""
    message = f"{what} does not go with equality by rewriting"
    return ProgramError(Diagnostic(NOT_OVER_REPRESENTATIVES, message, help=help))


def settle(used: Iterable[Strategy]) -> None:
    """Let all answers be found that someone is still waiting for: facts or rules are about to change."""
    for strategy in filter(None, map(as_streaming, used)):
        strategy.settle()


def are_following(used: Iterable[Strategy]) -> bool:
    """Whether a strategy keeps something that follows the facts as they come and go."""
    return any(strategy.is_following for strategy in filter(None, map(as_streaming, used)))


def check_name(name: str) -> None:
    """Nothing, if there is such a strategy; else raises ProgramError."""
    if name == AUTO or name in STRATEGIES:
        return
    help = suggest(name, NAMES) or f"there are {', '.join(NAMES)}"
    raise ProgramError(Diagnostic(UNKNOWN_STRATEGY, f"there is no strategy `{name}`", help=help))
