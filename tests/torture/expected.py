"""What holds after each transaction of a scenario, derived from scratch."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import tidelog as tl
from tests.temporal.test_changes import HORIZON
from tests.torture.scenarios import Question, Scenario
from tidelog.engine.reference import evaluate
from tidelog.errors import TidelogError
from tidelog.logic.conversions import exact
from tidelog.logic.program import BUILT_IN, EQUAL

Row = tuple[str, ...]
Facts = dict[str, frozenset[Row]]  # of predicates that have some
MOST = 5_000  # facts, of a program that is worth the time


@dataclass(frozen=True)
class Moment:
    """What is stated and what holds after a transaction, and the script that led to it."""

    state: tuple[str, ...]
    facts: Facts
    script: str
    refused: str = ""  # the code of the error of a transaction that must fail, after which all is as before


def moments(scenario: Scenario) -> list[Moment]:
    """What holds at first and after each transaction; nothing if the program itself is refused."""
    begun = from_scratch(scenario, scenario.begun)
    if isinstance(begun, str):
        return []
    made = [Moment(scenario.begun, begun, "")]
    for toggled in scenario.steps:
        before = made[-1]
        gone = [each for each in toggled if each in before.state]
        come = [each for each in toggled if each not in before.state]
        state = (*(each for each in before.state if each not in gone), *come)
        script = _script(scenario, gone, come, state)
        found = from_scratch(scenario, state)
        if isinstance(found, str):
            made.append(Moment(before.state, before.facts, script, found))
        else:
            made.append(Moment(state, found, script))
    return made


def _script(scenario: Scenario, gone: Sequence[str], come: Sequence[str], state: Sequence[str]) -> str:
    """The change script. What overlaps a time that is deleted goes with it, and is put back."""
    lines = [*(f"- {each}" for each in gone), *(f"+ {each}" for each in come)]
    if scenario.is_timed:
        atoms = {each.partition("@")[0] for each in gone if ":-" not in each}
        lines += [f"+ {each}" for each in state if each.partition("@")[0] in atoms]
    return "\n".join(lines)


def from_scratch(scenario: Scenario, state: Sequence[str]) -> Facts | str:
    """All facts that follow from the statements, or the code of what is wrong with them."""
    text = scenario.program(state)
    try:
        if scenario.is_timed:
            return held(scenario, tl.Reasoner(tl.parse(text), time=HORIZON, threads=1, max_facts=MOST))
        found = evaluate(tl.parse(text), max_facts=MOST)
    except TidelogError as error:
        return error.diagnostics[0].code
    return _present({name: frozenset(tuple(map(exact, row)) for row in rows) for name, rows in found.items()})


def held(scenario: Scenario, reasoner: tl.Reasoner) -> Facts:
    """All facts that a reasoner holds."""
    return _present({name: rows(scenario, reasoner[name]) for name in reasoner.predicates()})


def rows(scenario: Scenario, relation: tl.Relation) -> frozenset[Row]:
    """The rows of a relation as text, with times where there are some."""
    if not len(relation):
        return frozenset()
    if scenario.is_timed:
        return frozenset(tuple(map(str, row)) for row in relation)
    if not relation.columns:
        return frozenset([()])
    return frozenset(relation.to_texts("exact").rows())


def _present(facts: Facts) -> Facts:
    return {name: some for name, some in facts.items() if some and (name not in BUILT_IN or name == EQUAL)}


def answers(question: Question, facts: Facts) -> frozenset[Row]:
    """The answers to a question, read off all facts; times come behind the values."""
    found = set()
    for row in facts.get(question.predicate, frozenset()):
        bound: dict[str, str] = {}
        if all(
            bound.setdefault(term, value) == value if term.startswith("?") else term == value
            for term, value in zip(question.terms, row, strict=False)
        ):
            times = row[len(question.terms) :]
            found.add((*(bound[name] for name in question.variables), *times))
    return frozenset(found)


def difference(left: Facts, right: Facts) -> Facts:
    """What is on the left only."""
    apart = {name: some - right.get(name, frozenset()) for name, some in left.items()}
    return {name: some for name, some in apart.items() if some}
