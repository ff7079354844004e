"""The semi-naive fixpoint: every stratum in order, every rule instance considered once.

Invariant: after `materialise`, the engine holds the least model of the rules over the loaded facts.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from time import perf_counter

from tidelog.engine.events import Listener, RoundEnded, RuleRan, StratumEnded, StratumStarted
from tidelog.engine.protocol import NOTHING, Engine, Outcome, Runnable
from tidelog.errors import Diagnostic, EvaluationError
from tidelog.logic.builtins import Overflow
from tidelog.logic.program import Rule
from tidelog.logic.strata import Stratum
from tidelog.plan.compile import aggregate_plans, collected_variables, delta_plans, full_plan

GROWN = 4  # plans are made anew when a relation has grown by this factor
SMALL = 1000  # … and is no longer this small

Step = tuple[Rule, int, Runnable]  # a rule, its number, one of its plans


def materialise(
    strata: Sequence[Stratum],
    numbers: dict[int, int],
    engine: Engine,
    listen: Listener,
    check: Callable[[], None],
) -> None:
    """Derive all that follows; `numbers` gives the place of each rule (by identity) in the program.

    `check` is called after every plan, and raises to stop.
    """
    for place, stratum in enumerate(strata):
        listen(StratumStarted(place, len(strata), stratum.predicates, stratum.recursive))
        start = perf_counter()
        rounds = _close(place, stratum, numbers, engine, listen, check)
        listen(StratumEnded(place, rounds, perf_counter() - start))


def _close(
    place: int,
    stratum: Stratum,
    numbers: dict[int, int],
    engine: Engine,
    listen: Listener,
    check: Callable[[], None],
) -> int:
    """Close one stratum; returns the number of rounds."""
    engine.begin(stratum.predicates)
    for rule in stratum.rules:
        _run(_first_step(rule, numbers[id(rule)], engine), place, 1, listen)
        check()
    new = engine.advance(stratum.predicates)
    listen(RoundEnded(place, 1, new))
    count = 1
    if not stratum.recursive:
        return count
    planned = dict.fromkeys(stratum.predicates, 0)
    steps: list[Step] = []
    while new:
        if _has_grown(planned, engine):
            planned = {name: engine.size(name) for name in stratum.predicates}
            steps = _delta_steps(stratum, numbers, engine)
        count += 1
        for step in steps:
            _run(step, place, count, listen)
            check()
        new = engine.advance(stratum.predicates)
        listen(RoundEnded(place, count, new))
    return count


def _first_step(rule: Rule, number: int, engine: Engine) -> Step:
    """The plan of a rule over all facts."""
    if any(engine.size(atom.predicate) == 0 for atom in rule.positive):
        return rule, number, _nothing  # planning on empty relations would only make indexes that nobody needs
    if rule.aggregations:
        return rule, number, _aggregating(rule, number, engine)
    return rule, number, engine.prepare(full_plan(rule, number, engine))


def _nothing() -> Outcome:
    return NOTHING


def _aggregating(rule: Rule, number: int, engine: Engine) -> Runnable:
    """The two plans of an aggregate rule, one after the other; what is collected is forgotten in any case."""
    collected = f"{rule.head.predicate} #{number}"  # a name with a space is no predicate's

    def run() -> Outcome:
        engine.define(collected, len(collected_variables(rule)))
        try:
            collect, group = aggregate_plans(rule, number, collected, engine)
            gathered = engine.prepare(collect)()
            engine.begin([collected])
            grouped = engine.prepare(group)()
        finally:
            engine.drop(collected)
        return Outcome(gathered.matches, grouped.new, gathered.no_value + grouped.no_value)

    return run


def _delta_steps(stratum: Stratum, numbers: dict[int, int], engine: Engine) -> list[Step]:
    """The plans of a stratum's rules over what the last round added."""
    return [
        (rule, numbers[id(rule)], engine.prepare(plan))
        for rule in stratum.rules
        for plan in delta_plans(rule, numbers[id(rule)], stratum.predicates, engine)
    ]


def _has_grown(planned: dict[str, int], engine: Engine) -> bool:
    return any(engine.size(name) > max(GROWN * size, SMALL if size else 0) for name, size in planned.items())


def _run(step: Step, stratum: int, count: int, listen: Listener) -> None:
    rule, number, runnable = step
    start = perf_counter()
    try:
        outcome = runnable()
    except Overflow as overflow:
        raise EvaluationError(Diagnostic("E603", str(overflow), rule.span)) from None
    if outcome.matches or outcome.new or outcome.no_value:
        seconds = perf_counter() - start
        listen(RuleRan(stratum, count, number, outcome.matches, outcome.new, outcome.no_value, seconds))
