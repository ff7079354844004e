"""The columnar engine against the reference engine and clingo: random programs, odd conditions."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass
from itertools import pairwise
from unittest.mock import patch

from hypothesis import example, given, settings
from hypothesis import strategies as st
from hypothesis.strategies import SearchStrategy
from tests.engine.test_reference import clingo_facts_of
from tests.strategies import EVERYTHING, Case, Features, Row, cases

import tidelog as tl
from tidelog.data import dictionary
from tidelog.engine import reference
from tidelog.engine.columnar.closures import maintained_closures
from tidelog.engine.columnar.interpreter import plan_runner
from tidelog.engine.columnar.storage import catalog, storage, table
from tidelog.logic.conversions import exact, read_exact
from tidelog.logic.program import Program

Facts = dict[str, frozenset[Row]]


# ---- odd conditions


@dataclass(frozen=True)
class Conditions:
    """Sizes at which the engine does something else, made so small that small programs reach them."""

    threads: int = 1
    batch: int = 4096
    parallel_from: int = 8192
    block: int = 256
    capacity: int = 64  # of a new table
    constants: int = 1024  # of a new dictionary
    dense_bytes: int = 64 << 20  # of the largest set that is a direct array
    appended_from: int = 8192  # rows that are not compared with others where all are distinct
    unrelated: int = 0  # values that no rule reads: with many of them indexes are hashed

    @contextmanager
    def holding(self) -> Iterator[None]:
        """Let the engine work under these conditions."""
        with ExitStack() as stack:
            for module, name, value in (
                (plan_runner, "BATCH", self.batch),
                (plan_runner, "EMITTED_ROWS", max(self.batch, 16)),
                (plan_runner, "PARALLEL_FROM", self.parallel_from),
                (plan_runner, "BLOCK", self.block),
                (plan_runner, "APPENDED_FROM", self.appended_from),
                (storage, "APPENDED_FROM", self.appended_from),
                (table, "FIRST_CAPACITY", self.capacity),
                (dictionary, "FIRST_CAPACITY", self.constants),
                (catalog, "DENSE_BYTES", self.dense_bytes),
                (maintained_closures, "MIN_PAIRS", 0),
            ):
                stack.enter_context(patch.object(module, name, value))
            yield


PLAIN = Conditions()
HASHED = 4  # bytes: only the set of a predicate without columns is a direct array
SMALL = 4 * 60**2  # bytes: sets of pairs are outgrown by some sixty values


def conditions() -> SearchStrategy[Conditions]:
    """Conditions of every combination."""
    return st.builds(
        Conditions,
        threads=st.sampled_from([1, 1, 2, 3]),
        batch=st.sampled_from([1, 2, 3, 7, 64, 4096]),
        parallel_from=st.sampled_from([1, 1, 4, 8192]),
        block=st.sampled_from([1, 2, 256]),
        capacity=st.sampled_from([1, 2, 64]),
        constants=st.sampled_from([1, 4, 1024]),
        dense_bytes=st.sampled_from([HASHED, SMALL, 64 << 20]),
        appended_from=st.sampled_from([1, 1, 8192]),
        unrelated=st.sampled_from([0, 0, 3, 300]),
    )


# ---- engines


def columnar(program: Program, conditions: Conditions = PLAIN) -> Facts:
    """The facts of a program by predicate, each value as it is written exactly."""
    with conditions.holding():
        reasoner = tl.Reasoner(program, threads=conditions.threads)
        add_unrelated(reasoner, conditions)
        return facts_of(reasoner, program)


def add_unrelated(reasoner: tl.Reasoner, conditions: Conditions) -> None:
    if conditions.unrelated:
        reasoner.insert(
            "unrelated", [(f"unrelated {number}",) for number in range(conditions.unrelated)], define=True
        )


def facts_of(reasoner: tl.Reasoner, program: Program) -> Facts:
    return {name: exactly(reasoner[name], predicate.arity) for name, predicate in program.predicates.items()}


def exactly(relation: tl.Relation, arity: int) -> frozenset[Row]:
    """The rows, each value as it is written exactly; none occurs twice."""
    rows = relation.to_texts("exact").rows() if arity else [()] * len(relation)
    assert len(set(rows)) == len(rows)
    return frozenset(rows)


def naive(program: Program) -> Facts:
    """The same by the reference engine."""
    found = reference.evaluate(program, max_facts=200_000)
    return {name: frozenset(tuple(map(exact, row)) for row in rows) for name, rows in found.items()}


# ---- programs


@given(cases(EVERYTHING), conditions())
def test_programs_of_everything_give_the_facts_of_the_reference(case: Case, conditions: Conditions) -> None:
    program = tl.parse(case.text)
    assert columnar(program, conditions) == naive(program)


@given(cases(Features(arithmetic=True, aggregates=True)), conditions())
def test_programs_of_integers_give_the_facts_of_the_reference(case: Case, conditions: Conditions) -> None:
    program = tl.parse(case.text)
    assert columnar(program, conditions) == naive(program)


@given(cases(Features(names=True)), conditions())
def test_programs_of_names_give_the_facts_of_clingo(case: Case, conditions: Conditions) -> None:
    assert columnar(tl.parse(case.text), conditions) == clingo_facts_of(case)


@given(cases(Features(arithmetic=True)), conditions())
def test_programs_with_arithmetic_give_the_facts_of_clingo(case: Case, conditions: Conditions) -> None:
    assert columnar(tl.parse(case.text), conditions) == clingo_facts_of(case)


# ---- facts in any order and portion


@st.composite
def portions(draw: st.DrawFn) -> tuple[Case, list[list[tuple[str, Row]]]]:
    """A program without its facts, and the facts in any order and in several portions."""
    case = draw(cases(EVERYTHING))
    facts = draw(st.permutations([(name, row) for name, rows in case.facts.items() for row in rows]))
    ends = sorted(draw(st.lists(st.integers(0, len(facts)), max_size=3)))
    bounds = [0, *ends, len(facts)]
    return case, [facts[start:end] for start, end in pairwise(bounds)]


def bodies_of(case: Case) -> list[str]:
    """The bodies of the rules, which are queries too."""
    return [rule.partition(":-")[2].strip().removesuffix(".") for rule in case.rules]


def python_value(text: str) -> object:
    value = read_exact(text)
    return value.content if text.lstrip("-").isdigit() else text


@given(portions(), conditions())
def test_facts_may_come_in_any_order_and_portion(
    drawn: tuple[Case, list[list[tuple[str, Row]]]], conditions: Conditions
) -> None:
    case, parts = drawn
    program = tl.parse(Case(case.rules, {}, case.arities).text)
    expected = naive(tl.parse(case.text))
    with conditions.holding():
        reasoner = tl.Reasoner(program, threads=conditions.threads)
        for part in parts:
            for name, row in part:
                reasoner.insert(name, [tuple(map(python_value, row))], define=True)
            add_unrelated(reasoner, conditions)
            # Queries leave indexes behind, which must grow with what comes later.
            for body in bodies_of(case):
                reasoner.query(body)
        assert facts_of(reasoner, program) == expected


@given(cases(EVERYTHING), st.data(), conditions())
def test_rules_may_be_added_later(case: Case, data: st.DataObject, conditions: Conditions) -> None:
    whole = tl.parse(case.text)
    kept = data.draw(st.integers(0, len(case.rules)))
    with conditions.holding():
        reasoner = tl.Reasoner(
            tl.parse(Case(case.rules[:kept], case.facts, case.arities).text), threads=conditions.threads
        )
        reasoner.materialise()
        for rule in case.rules[kept:]:
            reasoner.add(rule)
        assert facts_of(reasoner, whole) == naive(whole)


@given(cases(EVERYTHING), st.sampled_from([1, 2, 7]), st.sampled_from([HASHED, SMALL, 64 << 20]))
def test_results_do_not_depend_on_the_number_of_threads(case: Case, batch: int, dense_bytes: int) -> None:
    program = tl.parse(case.text)
    found = [
        columnar(program, Conditions(threads, batch=batch, parallel_from=1, block=2, dense_bytes=dense_bytes))
        for threads in (1, 2, 3)
    ]
    assert found[0] == found[1] == found[2]


@given(cases(EVERYTHING), conditions())
def test_queries_give_the_answers_of_the_reference(case: Case, conditions: Conditions) -> None:
    """The body of every rule without an aggregate, asked as a query of the finished facts."""
    program = tl.parse(case.text)
    stored = reference.evaluate(program, max_facts=200_000)
    bodies = bodies_of(case)
    asked = tl.parse(case.text + "".join(f"?- {body} .\n" for body in bodies))
    with conditions.holding():
        reasoner = tl.Reasoner(program, threads=conditions.threads)
        for body, query in zip(bodies, asked.queries, strict=True):
            expected = frozenset(tuple(map(exact, row)) for row in reference.answer(query, stored))
            answers = reasoner.query(body)
            assert answers.columns == query.variables
            assert exactly(answers, len(query.variables)) == expected


# ---- more facts


@st.composite
def larger_cases(draw: st.DrawFn) -> Case:
    """Programs over more facts and constants than the reference engine could take."""
    case = draw(cases(Features(arithmetic=True)))
    random = draw(st.randoms(use_true_random=False))
    most = draw(st.sampled_from([5, 20, 60]))
    facts = {
        name: tuple({tuple(str(random.randint(0, most)) for _ in range(arity)) for _ in range(40)})
        for name, arity in case.arities.items()
        if name in case.facts
    }
    return Case(case.rules, facts, case.arities)


@settings(max_examples=max(settings().max_examples // 2, 1))
@given(larger_cases(), conditions())
def test_programs_over_more_facts_give_the_facts_of_clingo(case: Case, conditions: Conditions) -> None:
    assert columnar(tl.parse(case.text), conditions) == clingo_facts_of(case)


DOUBLING = Case(
    ("p0(?x, ?y) :- e0(?x, ?y) .", "p0(?x, ?z) :- p0(?x, ?y), p0(?y, ?z) ."),
    {"e0": (("0", "1"), ("1", "2"), ("2", "3"), ("3", "1"))},
    {"e0": 2, "p0": 2},
)


@given(cases(Features(names=True, arithmetic=True, local_variables=True)), conditions())
@example(DOUBLING, PLAIN)
@example(DOUBLING, Conditions(threads=2, batch=2, parallel_from=1, block=1, dense_bytes=HASHED))
def test_each_instance_of_a_rule_is_considered_exactly_once(case: Case, conditions: Conditions) -> None:
    """Semi-naive evaluation matches what naive evaluation finds in the end, and nothing twice."""
    program = tl.parse(case.text)
    store = {name: set(rows) for name, rows in reference.evaluate(program, max_facts=200_000).items()}
    expected = [sum(1 for _ in reference._matches(rule.body, {}, store)) for rule in program.rules]
    with conditions.holding():
        reasoner = tl.Reasoner(program, threads=conditions.threads, modules=False)
        reasoner.materialise()
    done = reasoner.statistics.rules
    assert [done[number].matches if number in done else 0 for number in range(len(expected))] == expected
