"""Delete and rederive as rules: what they derive after a change is what follows from scratch, at any P."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from random import Random

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from tests.engine.meshes import facts, run
from tests.maintenance.scripts import CLOSURES, GRAPH
from tests.rewrite.tasks import Facts, Row, Tasks
from tests.rewrite.test_localise import MOST_FACTS, PROGRAMS, TASKS
from tests.strategies import EVERYTHING, cases

import tidelog as tl
from tidelog.engine import reference
from tidelog.logic.conversions import exact
from tidelog.logic.program import Fact, Program
from tidelog.logic.strata import strata
from tidelog.logic.values import integer
from tidelog.rewrite.delete_rederive import MaintenanceProgram, afterwards, maintenance
from tidelog.rewrite.localise import Sizes, localise

Said = dict[str, set[Row]]
LARGE = Sizes(
    {"edge old": 1_000_000, "reach old": 1_000_000, "walk old": 1_000_000}
)  # not copied to all tasks


@dataclass(frozen=True, repr=False)
class Changing:
    """A program, and explicit facts that come and go."""

    program: Program
    inserted: Mapping[str, frozenset[Row]]
    deleted: Mapping[str, frozenset[Row]]

    def __repr__(self) -> str:
        """As text, and not without end: Hypothesis warns of long ones, which is an error here."""
        parts = [rule.span.text for rule in self.program.rules if rule.span is not None]
        parts += [f"{fact.predicate}({', '.join(map(exact, fact.values))}) ." for fact in self.program.facts]
        for sign, changed in (("+", self.inserted), ("-", self.deleted)):
            for name, rows in changed.items():
                parts += [f"{sign} {name}({', '.join(map(exact, row))}) ." for row in rows]
        return " ".join(parts)[:20_000]


@st.composite
def changes(draw: DrawFn) -> Changing:
    """A random program, and any change of the facts of any predicates."""
    case = draw(cases(EVERYTHING))
    program = tl.parse(case.text)
    stated = facts_of(program)
    constant = st.sampled_from(EVERYTHING.constants)
    said: list[dict[str, frozenset[Row]]] = []
    for _ in range(2):
        names = draw(st.lists(st.sampled_from(sorted(case.arities)), max_size=2, unique=True))
        rows = {}
        for name in names:
            texts = draw(st.sets(st.tuples(*[constant] * case.arities[name]), max_size=3))
            known = sorted(stated.get(name, ()), key=repr)
            again = draw(st.sets(st.sampled_from(known), max_size=3)) if known else set()
            fresh = tl.parse(case.declared + "".join(f"{name}({', '.join(row)}) .\n" for row in texts))
            rows[name] = frozenset({fact.values for fact in fresh.facts} | again)
        said.append(rows)
    return Changing(program, *said)


@st.composite
def graphs(draw: DrawFn) -> Changing:
    """Recursion of every kind over a small graph, some edges of which go while others come."""
    return changing_graph(Random(draw(st.integers(0, 2**64 - 1))))


def changing_graph(chance: Random) -> Changing:
    """The same, of one source of chance: cheap, so that many can be looked at."""
    lines = chance.choice([GRAPH, CLOSURES]).splitlines()
    rules = [line for line in lines if ":-" in line and chance.random() < 0.7]
    declared = "\n".join(line for line in lines if ":-" not in line)
    program = tl.parse(declared)
    while rules:
        try:
            program = tl.parse("\n".join([declared, *rules]))
            break
        except tl.ProgramError:  # not stratified
            rules.remove(chance.choice(rules))
    often = sorted(program.predicates.keys() - program.derived) * 4 + sorted(program.predicates)

    def some(count: int) -> Said:
        found: Said = {}
        for _ in range(count):
            name = chance.choice(often)
            row = tuple(integer(chance.randrange(5)) for _ in range(program.predicates[name].arity))
            found.setdefault(name, set()).add(row)
        return found

    program = stating(program, some(chance.randrange(4, 14)))
    inserted, deleted = some(chance.randrange(3)), some(chance.randrange(2))
    for fact in chance.sample(program.facts, min(len(program.facts), chance.randrange(4))):
        deleted.setdefault(fact.predicate, set()).add(fact.values)
    frozen = [{name: frozenset(rows) for name, rows in each.items()} for each in (inserted, deleted)]
    return Changing(program, *frozen)


def facts_of(program: Program) -> Said:
    """The facts that a program states."""
    found: Said = {}
    for fact in program.facts:
        found.setdefault(fact.predicate, set()).add(fact.values)
    return found


def stating(program: Program, facts: Mapping[str, Iterable[Row]]) -> Program:
    """The program with these facts."""
    return replace(program, facts=tuple(Fact(name, row) for name, rows in facts.items() for row in rows))


def scratch(program: Program) -> dict[str, set[Row]]:
    found = reference.evaluate(program, max_facts=MOST_FACTS)
    return {name: set(rows) for name, rows in found.items()}


def prepared(case: Changing) -> tuple[MaintenanceProgram, Program, Facts, Facts]:
    """The program that maintains, with all that it is given; the facts before, and those after the change."""
    explicit = facts_of(case.program)
    before = scratch(case.program)
    after = {name: set(rows) for name, rows in explicit.items()}
    for name, gone in case.deleted.items():
        after[name] = after.get(name, set()) - gone
    for name, came in case.inserted.items():
        after[name] = after.get(name, set()) | came
    made = maintenance(case.program, case.inserted, case.deleted)
    reached = {name for name, relation in made.old.items() if relation != name}
    given: dict[str, Iterable[Row]] = {}
    for name, rows in explicit.items():
        if name not in reached:
            given[name] = rows
        elif name in made.given:
            given[made.given[name]] = rows
    given |= {relation: before.get(name, ()) for name, relation in made.old.items()}
    given |= {made.inserted[name]: rows for name, rows in case.inserted.items()}
    given |= {made.deleted[name]: rows for name, rows in case.deleted.items()}
    return made, stating(made.program, given), before, scratch(stating(case.program, after))


def check(case: Changing, tasks: int) -> None:
    """Compare all facts, and what is said to have changed, with evaluation from scratch, also in tasks."""
    made, program, before, after = prepared(case)
    strata(program.rules)
    found = scratch(program)
    for name in case.program.predicates:
        assert found.get(name, set()) == after.get(name, set()), name
        gained, lost = (set(after.get(name, ())) - set(before.get(name, ())),
                        set(before.get(name, ())) - set(after.get(name, ())))  # fmt: skip
        assert found.get(made.gained.get(name, ""), set()) == gained
        assert found.get(made.lost.get(name, ""), set()) == lost
    given = facts_of(program)
    localised = localise(program, Sizes({name: len(rows) for name, rows in given.items()}), tasks)
    simulated = Tasks(localised, tasks, MOST_FACTS)
    simulated.load(given)
    simulated.run()
    for name in case.program.predicates:
        home = localised.copies[name][0].relation
        held = [simulated.stores[task].get(home, set()) for task in range(tasks)]
        assert set().union(*held) == after.get(name, set()), name


@pytest.mark.slow
@given(case=st.one_of(changes(), graphs(), graphs()), tasks=st.sampled_from(TASKS))
@settings(max_examples=2 * settings().max_examples)
def test_random_changes_are_like_starting_anew(case: Changing, tasks: int) -> None:
    check(case, tasks)


@pytest.mark.parametrize("tasks", TASKS)
def test_deriving_again_gives_the_facts_after_the_change(tasks: int) -> None:
    for seed in range(20):
        case = changing_graph(Random(seed))
        _, _, _, after = prepared(case)
        again = afterwards(case.program, case.inserted, case.deleted)
        stated: dict[str, Iterable[Row]] = {}
        for name, rows in facts_of(case.program).items():
            stated[again.given.get(name) or again.old.get(name, name)] = rows
        stated |= {again.inserted[name]: rows for name, rows in case.inserted.items()}
        stated |= {again.deleted[name]: rows for name, rows in case.deleted.items()}
        ran = run(stating(again.program, stated), tasks)
        for name in case.program.predicates:
            assert set(facts(ran, name)) == set(after.get(name, ())), (seed, name)


def check_exchange(case: Changing, tasks: int) -> None:
    """Compare what tasks derive that exchange facts with evaluation from scratch."""
    made, program, before, after = prepared(case)
    ran = run(program, tasks, sizes=LARGE if tasks > 2 else None)
    for task in ran:
        if isinstance(task, BaseException):
            raise task
    for name in case.program.predicates:
        old, new = set(before.get(name, ())), set(after.get(name, ()))
        for relation, expected in (
            (name, new),
            (made.gained.get(name), new - old),
            (made.lost.get(name), old - new),
        ):
            found = facts(ran, relation) if relation and relation in program.predicates else []
            assert sorted(found) == sorted(expected), (name, relation)


@pytest.mark.parametrize("tasks", TASKS)
def test_tasks_that_exchange_facts_apply_a_change(tasks: int) -> None:
    for seed in range(20):
        check_exchange(changing_graph(Random(seed)), tasks)


@pytest.mark.slow
@pytest.mark.parametrize("part", range(10))
def test_many_changes_in_tasks_that_exchange_facts(part: int) -> None:
    """3,000 cases in all, each with one, two or three tasks."""
    for seed in range(300 * part, 300 * (part + 1)):
        check_exchange(changing_graph(Random(seed)), 1 + seed % 3)


@pytest.mark.parametrize("tasks", TASKS)
def test_a_group_that_a_rule_computes_is_compared(tasks: int) -> None:
    """The body of an aggregate assigns a variable of the head, which the redone group has bound already."""
    program = tl.parse("""
        e(1, 2) . e(1, 3) . e(2, 3) .
        sums(?n, #sum(?y)) :- e(?x, ?y), ?n = ?x + 1 .
    """)
    gone = {"e": frozenset({(integer(1), integer(2))})}
    came = {"e": frozenset({(integer(2), integer(4))})}
    check(Changing(program, came, gone), tasks)
    check_exchange(Changing(program, came, gone), tasks)


@pytest.mark.parametrize("name", PROGRAMS)
def test_programs_by_hand(name: str) -> None:
    """A stated fact goes, and comes back."""
    program = tl.parse(PROGRAMS[name])
    for number, fact in enumerate(program.facts[:3]):
        one = {fact.predicate: frozenset({fact.values})}
        check(Changing(program, {}, one), 1 + number)
        others = replace(program, facts=tuple(each for each in program.facts if each != fact))
        check(Changing(others, one, {}), 3 - number)


def test_only_what_a_change_can_reach_is_looked_at() -> None:
    program = tl.parse("""
        a(?x) :- e(?x) . b(?x) :- f(?x) . c(?x) :- a(?x), b(?x) .
        d(?x) :- b(?x), ~a(?x) .
    """)
    made = maintenance(program, ["e"], [])
    assert made.old == {"a": "a old", "b": "b", "c": "c old", "d": "d old", "e": "e old"}
    assert set(made.lost) == {"d"} and set(made.gained) == {"a", "c", "e"}
    assert not any(rule.head.predicate == "b" for rule in made.program.rules)
