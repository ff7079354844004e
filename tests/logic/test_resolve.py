"""Resolution: what programs mean. The wording of errors is in tests/errors; here it is what they find."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tidelog.errors import DataError, Diagnostic, ProgramError, SourceText
from tidelog.logic.conversions import exact
from tidelog.logic.program import (
    Atom,
    Constant,
    Predicate,
    Program,
    Variable,
)
from tidelog.logic.resolve import extend, load, read_text, resolve, resolve_clause, resolve_query
from tidelog.logic.values import ColumnType, Kind, Value, integer
from tidelog.syntax.parser import parse_literals, parse_text

X, Y = Variable("x"), Variable("y")
ONE, TWO = Constant(integer(1)), Constant(integer(2))


def program(text: str, **given: str) -> Program:
    return resolve(parse_text(text), parameters=given)


def codes_of(text: str, **given: str) -> list[str]:
    """The codes of all that is said of a program."""
    try:
        return [warning.code for warning in program(text, **given).warnings]
    except ProgramError as error:
        return [diagnostic.code for diagnostic in error.diagnostics]


def row(text: str) -> list[str]:
    """The values of the program's first fact."""
    return [exact(value) for value in program(text).facts[0].values]


# ---- names


def test_names_are_iris_of_their_text() -> None:
    assert program("p(alice, <bob>) .").facts[0].values == (
        Value(Kind.IRI, "alice"),
        Value(Kind.IRI, "bob"),
    )


def test_prefixes_hold_in_the_whole_file() -> None:
    assert row("p(ex:a, :b) . @prefix ex: <https://e.org/> . @prefix : <https://f.org/> .") == [
        "<https://e.org/a>",
        "<https://f.org/b>",
    ]


def test_a_base_stands_before_names_and_resolves_iris() -> None:
    assert row("@base <https://e.org/x/> . p(a, <b>, <../c>, <urn:d>) .") == [
        "<https://e.org/x/a>",
        "<https://e.org/x/b>",
        "<https://e.org/c>",
        "<urn:d>",
    ]


def test_a_base_leaves_predicates_alone() -> None:
    assert set(program("@base <https://e.org/> . p(a) . q(?x) :- p(?x) .").predicates) == {"p", "q"}


def test_prefixes_may_be_relative_to_the_base() -> None:
    assert row("@prefix ex: <y#> . @base <https://e.org/x> . p(ex:a) .") == ["<https://e.org/y#a>"]


def test_predicates_are_known_by_their_full_names() -> None:
    found = program("@prefix ex: <https://e.org/> . ex:p(1) . <https://e.org/p>(2) .")
    assert list(found.predicates) == ["https://e.org/p"]
    assert found.predicates["https://e.org/p"].written == "ex:p"
    assert found.prefixes == {"ex": "https://e.org/"}


def test_a_prefix_may_be_repeated_but_not_changed() -> None:
    assert codes_of("@prefix a: <x> . @prefix a: <x> . p(a:b) .") == []
    assert codes_of("@prefix a: <x> . @prefix a: <y> . p(a:b) .") == ["E202"]


def test_triples_are_facts_of_triple() -> None:
    found = program("[a, b, c] . p(?x) :- [?x, b, _], triple(?x, _, c) .")
    assert found.facts[0].predicate == "triple"
    assert [atom.predicate for atom in found.rules[0].positive] == ["triple", "triple"]


# ---- constants and parameters


@pytest.mark.parametrize(
    ("written", "expected"),
    [
        ("0xff", "255"),
        ("99999999999999999999", "99999999999999999999"),
        ("2.50", "2.5"),
        ("1e3", "1.0E3"),
        ('"a"@EN', '"a"@en'),
        ("true", "true"),
        ("5m", "300"),
        ("1500ms", "1.5"),
        ("1 + 2 * 3", "7"),
        ("- (1 + 2)", "-3"),
        ('UCASE("a")', '"A"'),
        ('f"x{1 + 1}y{z}"', '"x2yz"'),
        ('f""', '""'),
        ('"7"^^<http://www.w3.org/2001/XMLSchema#int>', "7"),
        ('COALESCE(1 / 0, "none")', '"none"'),
    ],
)
def test_constant_expressions_have_their_values(written: str, expected: str) -> None:
    assert row(f"p({written}) .") == [expected]


def test_parameters_have_given_values_before_defaults() -> None:
    text = "@parameter $a = 1 . @parameter $b = $a + 1 . p($a, $b) ."
    assert [exact(value) for value in program(text).facts[0].values] == ["1", "2"]
    assert [exact(value) for value in program(text, a="5").facts[0].values] == ["5", "6"]
    assert program(text, a="5").parameters == {"a": integer(5), "b": integer(6)}


@pytest.mark.parametrize(
    ("given", "expected"),
    [
        ("7", "7"),
        ("alice", "alice"),
        ('"a b"', '"a b"'),
        ("a b", '"a b"'),
        ("true", "true"),
        ("1e3", "1.0E3"),
    ],
)
def test_given_parameters_are_read_as_terms(given: str, expected: str) -> None:
    found = program("@parameter $a . p($a) .", a=given)
    assert exact(found.facts[0].values[0]) == expected


def test_parameters_must_be_declared_and_have_values() -> None:
    assert codes_of("@parameter $limit = 1 . p($limit) .", limti="2") == ["E205"]
    assert codes_of("@parameter $limit . p($limit) .") == ["E206"]


# ---- predicates


def test_columns_are_named_by_declarations_then_by_heads() -> None:
    found = program("""
        @declare e(from: int, _: any) . e(1, 2) .
        p(?x, ?x, 3, #count(?y)) :- e(?x, ?y) .
        p(?a, ?b, ?c, ?d) :- p(?a, ?b, ?c, ?d) .
    """).predicates
    assert found["e"].columns == ("from", None)
    assert found["e"].types == (ColumnType.INTEGER, ColumnType.ANY)
    assert found["p"].columns == ("x", None, None, "count_y")


def test_constants_take_the_type_of_their_column() -> None:
    found = program("@declare e(_: double) . e(1) . p(a) :- e(2) .")
    assert found.facts[0].values == (Value(Kind.DOUBLE, 1.0),)
    assert found.rules[0].body == (Atom("e", (Constant(Value(Kind.DOUBLE, 2.0)),)),)


def test_declared_types_hold_wherever_they_are_declared() -> None:
    assert codes_of('p("a") . @declare p(_: int) .') == ["E320"]
    assert codes_of("p(?x) :- e(?x) . @declare p(_: string) . @declare e(_: int) .") == ["E321"]
    assert codes_of("p(?x) :- e(?x) . @declare p(_: double) . @declare e(_: int) .") == ["W105"]


def test_predicates_without_facts_are_doubted_unless_known() -> None:
    assert codes_of("p(?x) :- e(?x) .") == ["W102"]
    assert codes_of("p(?x) :- e(?x) . @declare e(_: any) .") == []
    known = {"e": Predicate("e", 1, (None,), (ColumnType.ANY,), "e")}
    assert resolve(parse_text("p(?x) :- e(?x) ."), known=known).warnings == ()


def test_all_errors_are_reported_at_once_by_place() -> None:
    text = "p(?x) .\nq(a:b) .\nr(?y) :- p(_), ~r(?y) .\n"
    assert codes_of(text) == ["E302", "E203", "E310", "E301"]


# ---- imports, exports, outputs


def test_imports_have_plain_options() -> None:
    (found,) = program("""
        @parameter $name = "edges" .
        @import e :- csv{ resource = f"{$name}.csv", format = (int, skip, string), limit = 2 + 3 } .
    """).imports
    assert found.options == {"resource": "edges.csv", "limit": 5}
    assert found.types == (ColumnType.INTEGER, ColumnType.SKIP, ColumnType.STRING)


def test_imports_tell_how_many_columns_there_are() -> None:
    assert program('@import e :- csv{ resource = "a", format = (int, skip) } .').predicates["e"].arity == 1
    assert program('@import e :- csv{ resource = "a", format = int } .').predicates["e"].arity == 1
    assert program('@import e :- ttl{ resource = "a" } .').predicates["e"].arity == 3
    assert codes_of('@import e :- csv{ resource = "a" } .') == ["E214"]
    assert codes_of('@import e :- csv{ resource = "a", format = (int) } . p(a) :- e(_, _) .') == ["E210"]
    assert codes_of('@import e :- nt{ resource = "a" } . p(a) :- e(_, _) .') == ["E210"]


def test_exports_need_no_resource() -> None:
    found = program("p(a) . @export p :- csv{} .")
    assert found.exports[0].options == {}
    assert found.output_predicates == ("p",)


def test_outputs_must_exist() -> None:
    assert program("p(a) . @output p, p .").outputs == ("p",)
    assert codes_of("p(a) . @output q .") == ["E214"]


# ---- includes


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "rules").mkdir()
    (tmp_path / "main.rls").write_text(
        '@include "rules/one.rls" . p(one:a) . @import f :- nt{ resource="f" } .'
    )
    (tmp_path / "rules" / "one.rls").write_text(
        '@prefix one: <https://one.org/> . @include "two.rls" . @import e :- nt{ resource = "e" } . one(1) .'
    )
    (tmp_path / "rules" / "two.rls").write_text('@include "one.rls" . @include "../main.rls" . two(2) .')
    return tmp_path


def test_files_are_included_once_in_place(folder: Path) -> None:
    found = load(folder / "main.rls")
    assert [fact.predicate for fact in found.facts] == ["two", "one", "p"]


def test_included_prefixes_are_lent(folder: Path) -> None:
    found = load(folder / "main.rls")
    assert found.facts[-1].values == (Value(Kind.IRI, "https://one.org/a"),)


def test_paths_are_relative_to_their_own_file(folder: Path) -> None:
    found = load(folder / "main.rls")
    assert [transfer.folder for transfer in found.imports] == [folder / "rules", folder]


def test_an_included_file_does_not_see_the_including_files_prefixes(tmp_path: Path) -> None:
    (tmp_path / "main.rls").write_text('@prefix a: <x> . @include "part.rls" . p(a:b) .')
    (tmp_path / "part.rls").write_text("q(a:b) .")
    with pytest.raises(ProgramError) as caught:
        load(tmp_path / "main.rls")
    assert [diagnostic.code for diagnostic in caught.value.diagnostics] == ["E203"]


def test_syntax_errors_of_included_files_come_with_the_rest(tmp_path: Path) -> None:
    (tmp_path / "main.rls").write_text('@include "part.rls" . @include "none.rls" . p(?x) . q(?x) :- r(?x) .')
    (tmp_path / "part.rls").write_text("r(1 .")
    with pytest.raises(ProgramError) as caught:
        load(tmp_path / "main.rls")
    found = [diagnostic.code for diagnostic in caught.value.diagnostics]
    assert found[0][:2] == "E1"
    assert found[1:] == ["E201", "E302"]


def test_a_missing_program_is_an_error_of_its_own(tmp_path: Path) -> None:
    with pytest.raises(DataError, match="E501"):
        load(tmp_path / "none.rls")


# ---- later additions and queries


def test_programs_are_extended() -> None:
    first = program("@prefix ex: <https://e.org/> . @parameter $n = 3 . e(1) . p(?x) :- e(?x) .")
    second = extend(parse_text("@prefix f: <https://f.org/> . e(ex:a) . q(?x, $n) :- p(?x) ."), first)
    assert len(second.facts) == 2
    assert len(second.rules) == 2
    assert set(second.prefixes) == {"ex", "f"}
    assert len(first.rules) == 1


def test_single_clauses_are_added() -> None:
    first = program("e(1) . p(?x) :- e(?x) .")
    clause = parse_text("q(?x) :- p(?x), ~r(?x) .").statements[0]
    second = resolve_clause(clause, first)  # type: ignore[arg-type]
    assert [each.head.predicate for each in second.rules] == ["p", "q"]
    assert [warning.code for warning in second.warnings] == ["W102"]


def test_additions_must_fit_what_is_there() -> None:
    first = program("e(1) . p(?x) :- e(?x), ~q(?x) . @declare q(_: any) .")
    with pytest.raises(ProgramError, match="E210"):
        extend(parse_text("p(1, 2) ."), first)
    with pytest.raises(ProgramError, match="E310"):
        extend(parse_text("q(?x) :- p(?x) ."), first)


def ask(text: str, of: Program) -> tuple[str, ...]:
    return resolve_query(parse_literals(SourceText("<query>", text)), of, text).variables


def test_queries_ask_for_their_named_variables() -> None:
    of = program("@prefix ex: <https://e.org/> . e(1, 2) .")
    assert ask("e(?y, ?x), ~e(?x, ?unknown), ?n = ?x + 1", of) == ("y", "x", "n")
    assert ask("e(_, ex:a)", of) == ()


def test_queries_are_for_known_predicates() -> None:
    of = program("edge(1, 2) .")
    with pytest.raises(ProgramError, match="did you mean `edge`"):
        ask("egde(?x, ?y)", of)
    with pytest.raises(ProgramError, match="E210"):
        ask("edge(?x)", of)
    with pytest.raises(ProgramError, match="E301"):
        ask("?x < 3", of)


def test_queries_of_a_program_keep_their_text() -> None:
    (query,) = program("e(1) . ?- e(?x) .").queries
    assert query.text == "?- e(?x) ."
    assert query.rule.head.terms == (X,)


@given(ends=st.lists(st.booleans(), min_size=1, max_size=8), indented=st.booleans())
def test_missing_full_stops_hide_no_errors(ends: list[bool], indented: bool) -> None:
    """Every rule has an error of its own; each is reported, whichever full stops are missing."""
    lines = [
        f"{' ' * (indented and place > 0)}p(?x{place}) :- q(?y)" + (" ." if end else "")
        for place, end in enumerate(ends)
    ]
    with pytest.raises(ProgramError) as found:
        read_text("\n".join(lines))
    reported = {(item.code, _line(item)) for item in found.value.diagnostics if item.code[0] == "E"}
    expected = {("E301", place) for place, _ in enumerate(ends, 1)}
    assert reported == expected | {("E108", place) for place, end in enumerate(ends, 1) if not end}


def _line(item: Diagnostic) -> int:
    assert item.span is not None
    return item.span.source.position(item.span.start)[0]


def test_errors_that_may_follow_from_others_are_not_reported() -> None:
    text = "@prefix ex <http://example.org/> .\np(ex:a) .\n@output r .\nq(?x) :- p(?y) ."
    with pytest.raises(ProgramError) as found:
        read_text(text)
    assert [item.code for item in found.value.diagnostics if item.code[0] == "E"] == ["E107", "E301"]
