"""Types that are inferred hold of whatever is derived; what can never match is warned of."""

from __future__ import annotations

import random
from collections.abc import Iterator, Sequence
from dataclasses import replace
from decimal import Decimal
from itertools import product

import pytest
from hypothesis import given
from tests.strategies import EVERYTHING, Case, Features, cases

import tidelog as tl
from tidelog.engine.reference import evaluate
from tidelog.errors import ProgramWarning, Span, codes
from tidelog.logic import values
from tidelog.logic.functions.builtins import FUNCTIONS, Function, Overflow
from tidelog.logic.program import Program
from tidelog.logic.type_inference import described, infer, infer_answers
from tidelog.logic.types import ANY, NUMBER, TEXT, Type, Types, type_of, types_of_kinds
from tidelog.logic.values import Value

VALUES = (
    values.TRUE,
    values.FALSE,
    *map(values.integer, (0, 1, -3, 7, 64, 2**63, 2**70)),
    *(values.decimal(Decimal(text)) for text in ("0.0", "2.50", "-1.5", "3.0")),
    *(value for number in (0.0, 2.5, -4.0, 1e308, float("inf")) if (value := values.double(number))),
    values.date(20_000),
    values.date_time(1_700_000_000_000_000, 60),
    values.date_time(1_700_000_000_000_000, None),
    *map(values.string, ("", "abc", "12", "2.5", "true", "2024-05-06", "en", "a b", "[")),
    values.language_string("chat", "fr"),
    values.language_string("cat", "en"),
    values.literal("POINT(1 2)", "http://example.org/wkt"),
    *map(values.iri, ("alice", "http://www.w3.org/2001/XMLSchema#integer", "http://example.org/wkt")),
    values.blank("b0"),
)


def exactly(*types: Type) -> Types:
    return frozenset(types)


# ---- laws


@pytest.mark.parametrize("function", FUNCTIONS.values(), ids=list(FUNCTIONS))
def test_a_function_gives_what_its_signature_says(function: Function) -> None:
    for arguments in argument_lists(function):
        try:
            found = function.call(arguments)
        except Overflow:
            continue
        known = [frozenset() if value is None else exactly(type_of(value)) for value in arguments]
        types = function.types.gives(known) if function.lazy else function.types.result(known)
        assert found is None or type_of(found) in types, arguments


def argument_lists(function: Function) -> Iterator[Sequence[Value | None]]:
    """All values for a function of one argument, all pairs for one of two, some for one of more."""
    chosen, one = random.Random(1), (*VALUES, None) if function.lazy else VALUES
    most = function.maximum if function.maximum is not None else 4
    for count in range(function.minimum, most + 1):
        if count <= 2:
            yield from product(one, repeat=count)
        else:
            yield from (chosen.choices(one, k=count) for _ in range(1000))


def undeclared(case: Case) -> str:
    """The program, in which only predicates that would not be known otherwise are declared."""
    needed = {name: arity for name, arity in case.arities.items() if not case.facts.get(name)}
    return replace(case, arities=needed).text


@given(cases(EVERYTHING))
def test_what_is_derived_is_of_the_types_that_were_inferred(case: Case) -> None:
    check_law(tl.parse(undeclared(case)))


@given(cases(Features(arithmetic=True, aggregates=True)))
def test_integers_stay_integers_unless_they_are_averaged(case: Case) -> None:
    program = tl.parse(replace(case, arities={}).text)
    given = {name: (exactly(Type.INTEGER),) * arity for name, arity in case.arities.items() if name[0] == "e"}
    for types in infer(program, given).columns.values():
        assert frozenset().union(*types) <= {Type.INTEGER, Type.DECIMAL}


def check_law(program: Program) -> None:
    inferred = infer(program)
    for name, rows in evaluate(program).items():
        if name in program.predicates:
            for row in rows:
                found = [type_of(value) for value in row]
                assert all(a in b for a, b in zip(found, inferred.columns[name], strict=True)), name


@given(cases(EVERYTHING))
def test_a_rule_that_is_warned_of_derives_nothing(case: Case) -> None:
    program = tl.parse(undeclared(case))
    never = [item.span for item in infer(program).warnings if "negation" not in item.message]
    silent = {rule for rule in program.rules for span in never if is_within(span, rule.span)}
    assert len(silent) > 0 or not never
    rest = replace(program, rules=tuple(rule for rule in program.rules if rule not in silent))
    assert evaluate(rest) == evaluate(program)


def is_within(span: Span | None, whole: Span | None) -> bool:
    return span is not None and whole is not None and whole.start <= span.start and span.end <= whole.end


# ---- types


def types_of(text: str, name: str) -> tuple[Types, ...]:
    program = tl.parse(text)
    return infer(program).of(program.predicates[name])


@pytest.mark.parametrize(
    ("head", "types"),
    [
        ("#count(?n)", exactly(Type.INTEGER)),
        ("#sum(?n)", exactly(Type.INTEGER)),
        ("#avg(?n)", exactly(Type.DECIMAL)),
        ("#min(?s)", exactly(Type.STRING)),
        ("#sum(?d)", exactly(Type.DOUBLE)),
        ("#avg(?d)", exactly(Type.DOUBLE)),
        ("?n / 2", exactly(Type.INTEGER)),
        ("?n / 2.0", exactly(Type.DECIMAL)),
        ("?n * ?d", exactly(Type.DOUBLE)),
        ("STRLEN(?s)", exactly(Type.INTEGER)),
        ("STR(?any)", exactly(Type.STRING)),
        ("IF(NUMGREATER(?n, 1), ?n, ?s)", exactly(Type.INTEGER, Type.STRING)),
        ("COALESCE(INT(?s), 1.5)", exactly(Type.INTEGER, Type.DECIMAL)),
        ("POW(?n, 2)", exactly(Type.INTEGER)),
        ("POW(?n, 0.5)", exactly(Type.DOUBLE)),
        ('CONCAT(?s, STRLANG(?s, "en"))', exactly(Type.STRING)),
        ("?any", ANY),
        ("?any + 1", NUMBER),
    ],
)
def test_types_of_expressions(head: str, types: Types) -> None:
    text = f"@declare d(n: int, s: string, d: double, any: any) . p({head}) :- d(?n, ?s, ?d, ?any) ."
    assert types_of(text, "p") == (types,)


def test_types_come_from_facts_imports_rules_and_recursion() -> None:
    text = """
        @import given :- csv{resource="given.csv", format=(string, int, any)} .
        @import triple :- ntriples{resource="t.nt"} .
        edge(a, 1) . edge("b", 2.5) .
        path(?x, ?y) :- edge(?x, ?y) .
        path(?y, ?x) :- path(?x, ?y) .
        both(?x) :- path(?x, _), given(_, ?x, _) .
        subject(?s, ?o) :- triple(?s, _, ?o) .
        else(?x) :- unknown(?x), ISSTRING(?x) .
    """
    mixed = exactly(Type.IRI, Type.STRING, Type.INTEGER, Type.DECIMAL)
    assert types_of(text, "path") == (mixed, mixed)
    assert types_of(text, "both") == (exactly(Type.INTEGER),)
    assert types_of(text, "subject") == (exactly(Type.IRI, Type.BLANK), ANY)
    assert types_of(text, "else") == (exactly(Type.STRING),)


def test_given_types_say_what_data_from_outside_is() -> None:
    program = tl.parse("p(?y) :- e(?x, ?y), ?x > 5 . @declare f(a: int) .")
    assert infer(program).columns["p"] == (ANY,)
    given = {"e": (exactly(Type.INTEGER), exactly(Type.DATE))}
    assert infer(program, given).columns["p"] == (exactly(Type.DATE),)


def test_equal_constants_bring_their_types_along() -> None:
    text = 'p(a) . q("text") . ?x = ?y :- p(?x), q(?y) . r(?x) :- p(?x) .'
    assert types_of(text, "r") == (exactly(Type.IRI, Type.STRING),)


def test_rules_over_time() -> None:
    text = """
        on(a, 1)@[0, 5] .
        p(?x) :- diamondminus[0, 2] on(?x, _) .
        q(?x, ?n) :- on(?x, _) since[0, 2] on(?x, ?n) .
    """
    assert types_of(text, "p") == (exactly(Type.IRI),)
    assert types_of(text, "q") == (exactly(Type.IRI), exactly(Type.INTEGER))


def test_big_integers_are_integers() -> None:
    assert type_of(values.integer(2**70)) is Type.INTEGER
    assert types_of("p(99999999999999999999999) .", "p") == (exactly(Type.INTEGER, Type.DECIMAL),)
    assert types_of_kinds([values.Kind.STRING, values.Kind.LANGUAGE_STRING]) == TEXT


def test_predicates_are_described() -> None:
    program = tl.parse(
        "@declare d(who: iri, n: int) . p(?x, #count(?n)) :- d(?x, ?n) . q(_, 1) :- u(?x) . ".replace(
            "_", "?x"
        )
    )
    assert list(described(program, infer(program), ["d", "p", "q"])) == [
        "d(who: iri, n: int)",
        "p(x: iri, count_n: int)",
        "q(x: any, c2: int)",
    ]


# ---- warnings


DECLARED = """
@declare n(x: int) .
@declare s(x: string) .
@declare i(x: iri) .
@declare t(at: dateTime) .
"""


@pytest.mark.parametrize(
    ("rule", "message"),
    [
        ('p(?x) :- n(?x), ?x > "5" .', "the comparison never holds: int > string"),
        ('p(?x) :- n(?x), ?x = "5" .', "the comparison never holds: int = string"),
        ("p(?x, ?y) :- n(?x), ?y = 1/0 .", "division by zero never has a value"),
        ("p(?x, ?y) :- n(?x), ?y = ?x / 0 .", "division by zero never has a value"),
        ("p(?x) :- n(?x), s(STR(?y)), i(?y), ?y < ?x .", "the comparison never holds: iri < int"),
        ("p(?x) :- u(?x), s(?x), r(?x, _) . r(1, 2) .", "`?x` never matches"),
        ('p(?x) :- r(?x, 2) . r(1, "2") .', "`2` never matches: column 2 of `r` holds string"),
        ("p(STRLEN(?x)) :- n(?x) .", "`STRLEN` never has a value: argument 1 is int"),
        ("p(#sum(?x)) :- s(?x) .", "`#sum` never has a value: its argument is string"),
        ("p(?x) :- n(?x), ISIRI(?x) .", "`ISIRI` never holds: `?x` is int"),
        ("p(?x) :- n(?x), ~q(?x) . q(a) .", "the negation always holds: `?x` is int"),
        ('p(?x) :- t(?x), ?x < DATE("2024-01-01") .', "the comparison never holds: dateTime < date"),
        ("n(STR(?x)) :- i(?x) .", "column `x` of `n` is declared int, but this rule derives string"),
    ],
)
def test_what_never_matches_is_warned_of_at_its_place(rule: str, message: str) -> None:
    with pytest.warns(ProgramWarning):
        program = tl.parse(DECLARED + rule)
    found = [item for item in program.warnings if item.code == codes.NEVER_MATCHES]
    assert any(message in item.message for item in found), [item.message for item in program.warnings]
    assert all(item.span is not None for item in found)


@pytest.mark.parametrize(
    "rule",
    [
        "p(?x) :- n(?x), ?x > 2.5 .",
        'p(?x) :- n(?x), ?x != "5" .',
        'p(?x) :- u(?x), ?x > "5" .',
        "p(?x) :- i(?x), ISBLANK(?x) .",
        "p(?x) :- r(?x), n(?x) . r(1) . r(a) .",
        "p(?x) :- q(?x, ?y), ?y > 3 . q(?x, ?y) :- q(?y, ?x) .",
        "p(COALESCE(INT(?x), 0)) :- s(?x) .",
        "p(?x) :- n(?x), ~r(?x) .",
    ],
)
def test_what_may_match_is_not(rule: str) -> None:
    program = tl.parse(DECLARED + rule)
    assert not [item for item in program.warnings if item.code == codes.NEVER_MATCHES]


def test_queries_are_looked_at_too() -> None:
    with pytest.warns(ProgramWarning, match="never matches"):
        program = tl.parse('revenue("C1", 5) . ?- revenue(C1, ?x) .')
    (warning,) = (item for item in program.warnings if item.code == codes.NEVER_MATCHES)
    assert warning.help == 'write `"C1"` if text is meant'
    inferred = infer(program)
    columns, warnings = infer_answers(program.queries[0].rule, inferred, program)
    assert columns == (exactly(Type.INTEGER),) and len(warnings) == 1


def test_values() -> None:
    assert {type_of(value) for value in VALUES} == set(Type)
    assert all(isinstance(value, Value) for value in VALUES)
