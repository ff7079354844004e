"""Localisation: simulated tasks hold what the original program derives, each the facts that belong to it."""

from __future__ import annotations

import random
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass, replace

import pytest
from benchmarks.program import program_path
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.strategies import DrawFn
from tests.corpus import Case as CorpusCase
from tests.corpus import cases as corpus_cases
from tests.corpus import imported
from tests.rewrite.tasks import Tasks, run, stated
from tests.strategies import EVERYTHING, Case, cases

import tidelog as tl
from tidelog.engine import reference
from tidelog.logic.equality_axioms import has_equality
from tidelog.logic.program import Fact, Program
from tidelog.logic.strata import strata
from tidelog.logic.type_inference import Columns, types_of_facts
from tidelog.logic.types import NEVER, Type
from tidelog.logic.values import Value, integer
from tidelog.plan.rule_text import Writing
from tidelog.rewrite.localise import Localised, NotLocalisable, Route, Sizes, localise
from tidelog.rewrite.localise_homes import kept_arguments
from tidelog.rewrite.localise_plans import constants_of
from tidelog.rewrite.localise_rules import select, split_heavy

TASKS = (1, 2, 3)
MOST_FACTS = 200_000
PATHS = "path(?x, ?y) :- edge(?x, ?y) . path(?x, ?z) :- path(?x, ?y), path(?y, ?z) ."
REACH = "reach(?x, ?y) :- edge(?x, ?y) . reach(?x, ?z) :- reach(?x, ?y), edge(?y, ?z) ."
INTEGERS = (frozenset({Type.INTEGER}),) * 2
EDGES = "edge(1, 2) . edge(2, 3) . edge(3, 4) . edge(4, 2) . edge(5, 6) . edge(6, 1) . edge(7, 7) ."


def rules_of(localised: Localised) -> set[str]:
    """The local rules as text."""
    writing = Writing.of(localised.program)
    return {writing.rule(rule) for rule in localised.program.rules}


def agree(program: Program, localised: Localised, tasks: int, heavy: Collection[Value] = ()) -> Tasks:
    """Run the tasks, and compare all that they hold with the facts of the original program."""
    for rule in localised.program.rules:
        assert localised.outboxes.isdisjoint(atom.predicate for atom in (*rule.positive, *rule.negated))
    simulated = run(program, localised, tasks, MOST_FACTS, heavy)
    simulated.check(reference.evaluate(program, max_facts=MOST_FACTS))
    return simulated


# ---- programs by hand

PROGRAMS = {
    "nonlinear closure": f"{EDGES} {PATHS}",
    "left-linear closure": f"{EDGES} {REACH}",
    "same generation": """
        parent(1, 2) . parent(1, 3) . parent(2, 4) . parent(2, 5) . parent(3, 6) . parent(6, 7) .
        same(?x, ?y) :- parent(?p, ?x), parent(?p, ?y) .
        same(?x, ?y) :- parent(?p, ?x), same(?p, ?q), parent(?q, ?y) .
    """,
    "unreachable pairs, counted": f"""{EDGES} {PATHS}
        node(?x) :- edge(?x, _) . node(?y) :- edge(_, ?y) .
        unreachable(?x, ?y) :- node(?x), node(?y), ~path(?x, ?y) .
        lost(?x, #count(?y)) :- unreachable(?x, ?y) .
        total(#sum(?n, ?x)) :- lost(?x, ?n) .
        most(?x) :- lost(?x, ?n), ~more(?n) .
        more(?n) :- lost(_, ?n), lost(_, ?m), ?m > ?n .
    """,
    "triangles": f"""{EDGES} edge(4, 1) . edge(3, 1) .
        triangle(?x, ?y, ?z) :- edge(?x, ?y), edge(?y, ?z), edge(?z, ?x) .
    """,
    "a long body": f"""{EDGES} a(1, 2) . b(2, 5) .
        far(?a, ?h) :- edge(?a, ?b), edge(?b, ?c), a(?x, ?b), edge(?c, ?d), edge(?d, ?e), b(?b, ?y),
            edge(?e, ?f), edge(?f, ?g), edge(?g, ?h), ?x < ?h .
    """,
    "cross products": """
        a(1) . a(2) . b(3) . b(4) . c(5, 6) . d(6, 7) .
        pair(?x, ?y) :- a(?x), b(?y) .
        four(?x, ?y, ?z, ?w) :- a(?x), b(?y), c(?z, ?u), d(?u, ?w) .
        larger(?x, ?y) :- a(?x), c(?y, ?z), ?x + 4 = ?y .
    """,
    "predicates without arguments": f"""{EDGES} on() . both() :- on(), any(), ~off() . any() :- edge(?x, ?x) .
        none() :- ~edge(7, 8) . some(?x) :- edge(?x, _), both(), ~none() . off() :- edge(_, 8) .
        number(#count(?x)) :- edge(?x, _), on() . alone() :- off() . alone() :- both(), on() .
    """,
    "constants": f"""{EDGES}
        from_one(?y) :- edge(1, ?y) . two(?x, 2) :- edge(?x, 2), edge(2, ?y) .
        is(3) :- edge(5, 6), ~edge(6, 5) .
        loop(?x) :- edge(?x, ?x) . not_one(?x) :- edge(?x, ?y), ~edge(?y, 1), ~edge(1, ?y) .
        one(1, ?x) :- one(?x, 1) . one(1, 2) . one(2, 1) :- edge(1, 2) .
    """,
    "negation with variables of its own": f"""{EDGES}
        sink(?y) :- edge(?x, ?y), ~edge(?y, _) . odd(?y) :- edge(_, ?y), ~edge(?z, ?z) .
        apart(?x, ?y) :- edge(?x, _), edge(?y, _), ~edge(?x, ?w), ~edge(?v, ?y), ~edge(?x, ?y) .
        next(?x, ?n) :- edge(?x, _), ?n = ?x + 1, ~edge(?n, _) .
    """,
    "aggregates": f"""{EDGES}
        degree(?x, #count(?y)) :- edge(?x, ?y) . sum(#sum(?x, ?y)) :- edge(?x, ?y) .
        largest(#max(?y), ?x) :- edge(?x, ?z), edge(?z, ?y) .
        half(?x / 2, #count(?y) + 1, #min(?x)) :- edge(?x, ?y) .
        few(#count(?x)) :- edge(?x, ?y), ~edge(?y, ?x), ?x < 5 . nothing(#count(?x)) :- edge(?x, 99) .
        both(#sum(?x, ?y), #avg(?y)) :- edge(?x, ?y), edge(?y, ?z) . constant(#sum(1, ?x), 7) :- edge(?x, _) .
    """,
    "given facts of derived predicates": f"""{EDGES} {PATHS} path(9, 1) . path(4, 9) .
        back(?y, ?x) :- path(?x, ?y) . back(1, 11) . path(?x, ?y) :- back(?y, ?x) .
        count(#count(?x, ?y)) :- back(?x, ?y) .
    """,
    "recursion through several predicates": f"""{EDGES}
        even(?x, ?x) :- edge(?x, _) . even(?x, ?z) :- odd(?x, ?y), edge(?y, ?z) .
        odd(?x, ?z) :- even(?x, ?y), edge(?y, ?z) . never(?x) :- edge(?x, _), ~odd(?x, ?x) .
    """,
    "functions and conditions": """
        word("ab", 1) . word("bc", 2) . word("abc", 3) .
        joined(?z) :- word(?x, _), word(?y, _), ?z = CONCAT(?x, ?y), STRSTARTS(?z, "ab"), ~STRENDS(?z, "bc") .
        long(?n + 1, UCASE(?x)) :- word(?x, ?n), STRLEN(?x) > 2 . seven(?x) :- ?x = 3 + 4 .
        counted(#count(?x)) :- ?x = 3 + 4 . found(?y) :- word(_, ?n), ?m = ?n + 1, word(?y, ?m) .
    """,
}  # fmt: skip


def true_sizes(program: Program) -> Sizes:
    """Sizes as they are."""
    return Sizes.of({name: list(rows) for name, rows in stated(program).items()})


def large_sizes(program: Program) -> Sizes:
    """Sizes at which no relation is worth copying to every task."""
    return Sizes(dict.fromkeys(program.predicates, 1_000_000), {(n, 0): 900_000 for n in program.predicates})


@pytest.mark.parametrize("sizes", [true_sizes, large_sizes])
@pytest.mark.parametrize("tasks", TASKS)
@pytest.mark.parametrize("name", PROGRAMS)
def test_tasks_hold_what_the_program_derives(
    name: str, tasks: int, sizes: Callable[[Program], Sizes]
) -> None:
    program = tl.parse(PROGRAMS[name])
    agree(program, localise(program, sizes(program), tasks), tasks)


# ---- plans


def test_a_nonlinear_closure_is_joined_where_the_middle_is_owned() -> None:
    localised = localise(tl.parse(PATHS), Sizes({"edge": 100_000}), 4)
    assert rules_of(localised) == {
        "path @0(?x, ?y) :- edge @0(?x, ?y) .",
        "path >(?x, ?z) :- path @1(?x, ?y), path @0(?y, ?z) .",
    }
    assert localised.routes == {"path >": (Route("path @0", 0),), "path @0": (Route("path @1", 1),)}
    assert localised.outboxes == {"path >"}


CHAIN = Sizes({"edge": 2_000}, {("edge", 0): 2_000, ("edge", 1): 2_000})


@pytest.mark.parametrize(
    ("text", "rule"),
    [
        (REACH, "reach @0(?x, ?z) :- reach @0(?x, ?y), edge @all(?y, ?z) ."),
        (
            "reach(?x, ?y) :- edge(?x, ?y) . reach(?x, ?z) :- edge(?x, ?y), reach(?y, ?z) .",
            "reach @1(?x, ?z) :- edge @all(?x, ?y), reach @1(?y, ?z) .",
        ),
    ],
)
def test_an_argument_that_a_recursion_keeps_is_its_home(text: str, rule: str) -> None:
    program = tl.parse(f"{EDGES} {text}")
    localised = localise(program, CHAIN, 4)
    assert rule in rules_of(localised)
    assert sum(agree(program, localised, 3).delivered) == 0


@pytest.mark.parametrize("tasks", [2, 4, 8, 30])
def test_a_small_relation_of_a_recursion_is_copied_to_any_number_of_tasks(tasks: int) -> None:
    localised = localise(tl.parse(REACH), Sizes({"edge": 900}), tasks)
    assert "reach @0(?x, ?z) :- reach @0(?x, ?y), edge @all(?y, ?z) ." in rules_of(localised)
    assert all(route.replicated for routes in localised.routes.values() for route in routes)


def test_recursion_through_several_predicates_keeps_an_argument() -> None:
    program = tl.parse(f"""{EDGES}
        even(?x, ?x) :- edge(?x, _) . even(?x, ?z) :- odd(?z, ?y, ?x), edge(?y, ?z) .
        odd(?z, ?y, ?x) :- even(?x, ?y), edge(?y, ?z) .
    """)
    assert kept_arguments(strata(program.rules)) == {"even": 0, "odd": 2}


@pytest.mark.parametrize("rule", ["p(?y, ?x) :- p(?x, ?y) .", "p(?x, ?z) :- p(?x, ?y), p(?y, ?z) ."])
def test_no_argument_is_kept(rule: str) -> None:
    assert kept_arguments(strata(tl.parse(rule).rules)) == {}


def test_a_large_relation_is_not_copied_to_many_tasks() -> None:
    sizes = Sizes({"edge": 1_000_000}, {("edge", 0): 1_000_000, ("edge", 1): 1_000_000})
    assert "reach >(?x, ?z) :- reach @1(?x, ?y), edge @0(?y, ?z) ." in rules_of(
        localise(tl.parse(REACH), sizes, 50)
    )


def test_schema_goes_to_every_task() -> None:
    program = tl.parse(
        "type(?x, ?b) :- type(?x, ?a), sub(?a, ?b) . sub(?a, ?c) :- sub(?a, ?b), sub(?b, ?c) ."
    )
    localised = localise(program, Sizes({"type": 500_000, "sub": 100}), 8)
    assert rules_of(localised) == {
        "type @0(?x, ?b) :- type @0(?x, ?a), sub @all(?a, ?b) .",
        "sub @all(?a, ?c) :- sub @all(?a, ?b), sub @all(?b, ?c) .",
    }
    assert not localised.routes


TRIANGLE = "triangle(?x, ?y, ?z) :- edge(?x, ?y), edge(?y, ?z), edge(?z, ?x) ."


@pytest.mark.parametrize(
    ("values", "tasks", "is_joined"),
    [(1_000, 2, False), (1_000, 50, False), (30_000, 2, False), (30_000, 8, True), (100_000, 50, True)],
)
def test_no_join_is_larger_than_copies_of_what_it_joins(values: int, tasks: int, is_joined: bool) -> None:
    sizes = Sizes({"edge": 100_000}, {("edge", 0): values, ("edge", 1): values})
    localised = localise(tl.parse(TRIANGLE), sizes, tasks)
    joins = [copy.rows for copies in localised.auxiliaries.values() for copy in copies]
    assert sum(joins) <= tasks * 100_000
    assert bool(joins) == is_joined


def test_the_smaller_side_of_a_product_goes_to_every_task() -> None:
    localised = localise(tl.parse("p(?x, ?y) :- a(?x), b(?y) ."), Sizes({"a": 5_000, "b": 90_000}), 4)
    assert rules_of(localised) == {"p @1(?x, ?y) :- a @all(?x), b @0(?y) ."}


def test_atoms_with_constants_are_selected_where_that_saves_copies() -> None:
    text = "type(?x, ?c) :- triple(?p, domain, ?c), triple(?x, ?p, ?y) ."
    program = tl.parse(text)
    ((name, place, value),) = constants_of(program)
    matching = {(name, place, value): 40}
    localised = localise(program, Sizes({"triple": 1_000_000}, {("triple", 1): 20}, matching), 4)
    assert rules_of(localised) == {
        "triple [?0, domain, ?1] >(?0, ?1) :- triple @0(?0, domain, ?1) .",
        "type @0(?x, ?c) :- triple [?0, domain, ?1] @all(?p, ?c), triple @0(?x, ?p, ?y) .",
    }
    whole = localise(program, Sizes({"triple": 100}), 4)
    assert not whole.auxiliaries


def test_rows_come_to_the_owner_of_their_group() -> None:
    program = tl.parse("n(?x, #count(?z)) :- e(?x, ?y), f(?y, ?z) . total(#sum(?y, ?x)) :- e(?x, ?y) .")
    columns = [("e", 0), ("e", 1), ("f", 0), ("f", 1)]
    sizes = Sizes({"e": 100_000, "f": 100_000}, dict.fromkeys(columns, 100_000))
    localised = localise(program, sizes, 4)
    assert rules_of(localised) >= {
        "rows 1 @0 >(?x, ?z) :- e @1(?x, ?y), f @0(?y, ?z) .",
        "n @0(?x, #count(?z)) :- gate 1(), rows 1 @0(?x, ?z) .",
        "total >(#sum(?y, ?x)) :- gate 1(), rows 2 @first(?y, ?x) .",
    }


def test_each_task_aggregates_its_part_of_a_group_of_which_nobody_knows_how_large_it_is() -> None:
    program = tl.parse(f"""{PATHS} f(1, 2.5) . f(1, "a") .
        n(?y, #count(?x), #sum(?x)) :- path(?x, ?y) . most(#max(?x)) :- path(?x, _) .
        m(?x, #sum(?y)) :- f(?x, ?y) . mean(#avg(?x)) :- path(?x, _) .
    """)
    sizes = Sizes({"edge": 1_000_000}, {("edge", 0): 1_000_000, ("edge", 1): 50})
    localised = localise(program, replace(sizes, types={**types_of_given(program), "edge": INTEGERS}), 4)
    assert rules_of(localised) >= {
        "part 1 @0 >(?y, ? task, #count(?x), #part of sum(?x)) :- "
        "gate 1(), task number(? task), path @0(?x, ?y) .",
        "n @0(?y, #sum(? result 0, ? task), #sum of parts(? result 1, ? task)) :- "
        "gate 2(), part 1 @0(?y, ? task, ? result 0, ? result 1) .",
        "most >(#max(? result 0)) :- gate 2(), part 2 @first(? task, ? result 0) .",
        "m @0(?x, #sum(?y)) :- gate 1(), f @0(?x, ?y) .",
    }
    whole = localise(program, sizes, 4)  # nobody knows of what types
    assert not any(rule.startswith("part 1 @0 >(?y") for rule in rules_of(whole))
    assert not any("task number" in rule and "#avg" in rule for rule in rules_of(localised))


def test_gates_open_in_the_order_of_strata() -> None:
    program = tl.parse(PROGRAMS["unreachable pairs, counted"])
    localised = localise(program, large_sizes(program), 3)
    assert localised.gates == ("gate 1", "gate 2", "gate 3", "gate 4")  # `lost` is counted in two steps


def test_what_is_only_given_is_negated_without_a_gate() -> None:
    program = tl.parse(
        f"{EDGES} p(?x) :- edge(?x, ?y), ~edge(?y, ?x) . p(?y) :- p(?x), edge(?x, ?y), ~off(?y) ."
    )
    localised = localise(program, large_sizes(program), 3)
    assert localised.gates == ()
    agree(program, localised, 3)


def test_what_only_asks_for_some_fact_is_told_to_every_task() -> None:
    program = tl.parse("p(?x) :- a(?x), b(_, _), ~c(_, 1) .")
    localised = localise(program, Sizes({"a": 50_000, "b": 50_000, "c": 50_000}), 4)
    assert rules_of(localised) == {
        "b [?_0, ?_1] >() :- b @0(_, _) .",
        "c [?_0, 1] >() :- c @0(_, 1) .",
        "p @0(?x) :- gate 1(), a @0(?x), b [?_0, ?_1] @all(), ~c [?_0, 1] @all() .",
    }


def test_every_task_knows_of_an_inconsistency() -> None:
    program = tl.parse(f"{EDGES} bottom() :- edge(?x, ?x), edge(?y, ?x), ?x != 3 .")
    localised = localise(program, large_sizes(program), 3)
    (home,) = localised.copies["bottom"]
    assert [store[home.relation] for store in run(program, localised, 3).stores] == [{()}] * 3


def test_what_is_planned_is_described() -> None:
    described = localise(
        tl.parse(f"{PATHS} n(#count(?x)) :- path(?x, _) ."), Sizes({"edge": 100_000}), 4
    ).describe()
    for line in (
        "edge: about 100,000 rows at the owner of the first argument.",
        "the rule `path(?x, ?y) :- edge(?x, ?y) .`: runs at the owner of ?x, on edge @0; nothing is sent.",
    ):
        assert line in described.splitlines()
    assert "part of a group becomes one row, which goes to task 0" in described


@pytest.mark.parametrize(
    "text",
    ["?x = ?y :- e(?x, ?y) .", "?x != ?y :- e(?x, ?y) .", "p(?x) :- diamondminus[0, 1] e(?x, ?x) ."],
)
def test_rules_over_time_and_equality_are_refused(text: str) -> None:
    with pytest.raises(NotLocalisable) as refused:
        localise(tl.parse(text), Sizes(), 2)
    assert refused.value.rule is not None
    assert text in str(refused.value)


def test_given_times_and_equality_are_refused() -> None:
    for text in ("e(1)@[1, 2] .", "a = b ."):
        with pytest.raises(NotLocalisable, match="explicit"):
            localise(tl.parse(text), Sizes(), 2)


# ---- skew

LIKES = "liked(?x, ?z) :- likes(?x, ?y), made(?y, ?z) ."


def test_heavy_values_are_joined_apart() -> None:
    facts = "".join(f"likes({number}, 0) . likes({number}, {number}) ." for number in range(1, 20))
    program = tl.parse(f"{facts} made(0, 77) . made(0, 78) . made(3, 79) . {LIKES}")
    columns = {("likes", 0): 1_000_000, ("likes", 1): 500_000, ("made", 0): 400_000, ("made", 1): 400_000}
    sizes = Sizes({"likes": 1_000_000, "made": 400_000}, columns)
    assert "liked >(?x, ?z) :- likes @1(?x, ?y), made @0(?y, ?z) ." in rules_of(localise(program, sizes, 8))
    localised = localise(program, replace(sizes, heavy={("likes", 1): 900_000}), 8)
    expected = {
        "likes 2 heavy light >(?c0, ?c1) :- likes @0(?c0, ?c1), ~likes 2 heavy @all(?c1) .",
        "made 1 of likes 2 heavy >(?c0, ?c1) :- made @0(?c0, ?c1), likes 2 heavy @all(?c0) .",
        "liked >(?x, ?z) :- likes 2 heavy light @1(?x, ?y), made @0(?y, ?z) .",
        "liked @0(?x, ?z) :- "
        "likes 2 heavy @all(?y), likes @0(?x, ?y), made 1 of likes 2 heavy @all(?y, ?z) .",
    }
    assert rules_of(localised) == expected
    assert not localised.gates
    for heavy in ((), (integer(0),), tuple(map(integer, range(9)))):
        simulated = agree(program, localised, 3, heavy)
    light = localised.auxiliaries["likes 2 heavy light"][0].relation
    assert all(integer(0) != row[1] for store in simulated.stores for row in store[light])


# ---- the university

# Rows, and distinct values of each column, of W5 with a million facts.
UNIVERSITY = {
    "AssistantProfessor": (1412, 1412),
    "AssociateProfessor": (1759, 1759),
    "Course": (8005, 8005),
    "Department": (150, 150),
    "FullProfessor": (1260, 1260),
    "GraduateCourse": (8059, 8059),
    "GraduateStudent": (18947, 18947),
    "Lecturer": (885, 885),
    "Publication": (60356, 60356),
    "ResearchAssistant": (5517, 5517),
    "ResearchGroup": (2258, 2258),
    "TeachingAssistant": (4142, 4142),
    "UndergraduateStudent": (59710, 59710),
    "University": (8, 8),
    "advisor": (30689, 30689, 4457),
    "doctoralDegreeFrom": (5354, 5354, 997),
    "emailAddress": (83335, 83335, 83335),
    "headOf": (150, 150, 150),
    "mastersDegreeFrom": (5354, 5354, 995),
    "memberOf": (78665, 78665, 150),
    "name": (159355, 159355, 944),
    "publicationAuthor": (107599, 60356, 21121),
    "researchInterest": (4463, 4463, 30),
    "subOrganizationOf": (2416, 2416, 159),
    "takesCourse": (216956, 78665, 15987),
    "teacherOf": (16064, 5354, 16064),
    "teachingAssistantOf": (4142, 4142, 3235),
    "telephone": (83335, 83335, 83335),
    "undergraduateDegreeFrom": (24301, 24301, 1000),
    "worksFor": (5354, 5354, 150),
}


def university() -> tuple[Program, Sizes]:
    """The rules of W5, and the sizes of its facts."""
    rows = {name: counts[0] for name, counts in UNIVERSITY.items()}
    columns = [(name, *pair) for name, counts in UNIVERSITY.items() for pair in enumerate(counts[1:])]
    return tl.load(program_path("W5")), Sizes(rows, {(name, place): count for name, place, count in columns})


@pytest.mark.parametrize("tasks", [2, 4, 8])
def test_few_relations_of_the_university_have_two_copies(tasks: int) -> None:
    program, sizes = university()
    localised = localise(program, sizes, tasks)
    assert len(program.rules) <= len(localised.program.rules) <= 70
    assert sum(map(len, localised.copies.values())) <= 58
    assert not localised.gates


@pytest.mark.parametrize("tasks", [2, 3])
def test_tasks_hold_what_the_university_derives(tasks: int) -> None:
    program, sizes = university()
    chance = random.Random(tasks)
    facts = tuple(
        Fact(name, tuple(integer(chance.randrange(9)) for _ in counts[1:]))
        for name, counts in UNIVERSITY.items()
        for _ in range(3)
    )
    program = replace(program, facts=facts)
    agree(program, localise(program, sizes, 4), tasks)


# ---- the corpus


def corpus() -> list[object]:
    """All programs of the corpus that run; those with the rules of OWL 2 RL take seconds."""
    good = [case for case in corpus_cases() if case.error is None]
    owl = {case.name: (pytest.mark.slow,) if case.name.startswith("owl/") else () for case in good}
    return [pytest.param(case, id=case.name, marks=owl[case.name]) for case in good]


@pytest.mark.parametrize("case", corpus())
def test_tasks_hold_what_programs_of_the_corpus_derive(case: CorpusCase) -> None:
    program = case.program()
    given = [Fact(name, row) for name, rows in imported(program).items() for row in rows]
    program = replace(program, facts=(*program.facts, *given))
    if program.timed or has_equality(program.predicates):
        with pytest.raises(NotLocalisable):
            localise(program, true_sizes(program), 2)
    else:
        agree(program, localise(program, large_sizes(program), 2), 2)


# ---- random programs


@st.composite
def untrue_sizes(draw: DrawFn, arities: Mapping[str, int]) -> Sizes:
    """Sizes of any kind: a plan must be right for whatever it was made."""
    rows = {name: draw(st.sampled_from((0, 1, 50, 5_000, 80_000, 3_000_000))) for name in arities}
    columns = [(name, place) for name, arity in arities.items() for place in range(arity)]
    counted = draw(st.lists(st.sampled_from(columns), unique=True)) if columns else []
    distinct = {(name, place): draw(st.integers(1, 1 + rows[name])) for name, place in counted}
    skewed = draw(st.lists(st.sampled_from(columns), unique=True)) if columns else []
    return Sizes(rows, distinct, heavy={(name, place): 100 * rows[name] for name, place in skewed})


def types_of_given(program: Program) -> dict[str, Columns]:
    """What tasks know of the given facts once they have counted them."""
    nothing = {name: (NEVER,) * each.arity for name, each in program.predicates.items()}
    return {**nothing, **types_of_facts(program.facts)}


@dataclass(frozen=True)
class Random:
    """A program, the sizes and the number of tasks that it is planned for, and how it is run."""

    case: Case
    sizes: Sizes
    planned: int
    tasks: int
    heavy: frozenset[int]
    knows_types: bool

    def check(self) -> None:
        """Compare what tasks hold with the facts of the program."""
        program = tl.parse(self.case.text)
        sizes = replace(self.sizes, types=types_of_given(program)) if self.knows_types else self.sizes
        localised = localise(program, sizes, self.planned)
        agree(program, localised, self.tasks, frozenset(map(integer, self.heavy)))


@st.composite
def localisations(draw: DrawFn) -> Random:
    """Programs, plans of all kinds for them, and numbers of tasks."""
    case = draw(cases(EVERYTHING))
    sizes = draw(untrue_sizes(case.arities))
    heavy = draw(st.frozensets(st.integers(0, 3)))
    return Random(
        case,
        sizes,
        draw(st.sampled_from((4, 2, 50, 1))),
        draw(st.sampled_from((2, 3, 3, 1))),
        heavy,
        draw(st.booleans()),
    )


@settings(max_examples=3 * settings().max_examples)
@given(localisations())
def test_tasks_hold_what_random_programs_derive(drawn: Random) -> None:
    drawn.check()


@given(localisations())
def test_selections_and_heavy_values_change_no_facts(drawn: Random) -> None:
    program = tl.parse(drawn.case.text)
    split = split_heavy(select(program, constants=True), drawn.sizes)
    values = {(integer(number),) for number in drawn.heavy}
    found = reference.evaluate(split.program, dict.fromkeys(split.heavy, values), max_facts=MOST_FACTS)
    expected = reference.evaluate(program, max_facts=MOST_FACTS)
    assert {name: found[name] for name in program.predicates} == expected


@pytest.mark.slow
@settings(max_examples=10_000)
@given(localisations())
def test_tasks_hold_what_many_random_programs_derive(drawn: Random) -> None:
    drawn.check()
