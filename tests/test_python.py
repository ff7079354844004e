"""What Python sees first: names, programs given in several ways, rows that fit, columns with names."""

from __future__ import annotations

import ast
import inspect
import pickle
import re
from importlib.resources import files
from itertools import pairwise
from pathlib import Path

import pandas
import polars
import pytest
from hypothesis import given
from hypothesis import strategies as st

import tidelog as tl
from tidelog.data.relation import row_class

SOURCES = Path(tl.__file__).parent
TWO = "@declare e(x: int, y: int) . p(?x, ?z) :- e(?x, ?y), e(?y, ?z) . e(1, 2) . e(2, 3) ."
TICK = "tick(a)@1 . tick(?x) :- diamondminus[2, 2] tick(?x) ."


def test_the_module_shows_its_public_names_and_no_others() -> None:
    assert set(dir(tl)) == {*tl.__all__, "__version__"}
    assert {"Reasoner", "Interval", "TimeSettings", "parse"} <= set(dir(tl))
    assert all(getattr(tl, name) is not None for name in dir(tl))


def test_the_package_says_that_it_is_typed() -> None:
    assert files("tidelog").joinpath("py.typed").is_file()


def test_the_signature_of_a_reasoner_shows_no_program() -> None:
    assert inspect.signature(tl.Reasoner).parameters["program"].default is None


# ---- programs


def test_a_reasoner_takes_a_program_its_text_or_its_path(tmp_path: Path) -> None:
    path = tmp_path / "two.rls"
    path.write_text(TWO)
    reasoners = [tl.Reasoner(program) for program in (tl.parse(TWO), TWO, path)]
    assert [set(reasoner["p"]) for reasoner in reasoners] == [{(1, 3)}] * 3


def test_a_store_takes_a_program_its_text_or_its_path(tmp_path: Path) -> None:
    path = tmp_path / "two.rls"
    path.write_text(TWO)
    programs: list[tl.Program | Path | str] = [tl.parse(TWO), TWO, path]
    for number, program in enumerate(programs):
        with tl.open(tmp_path / f"store{number}", program) as reasoner:
            assert set(reasoner["p"]) == {(1, 3)}


@pytest.mark.parametrize("make", [tl.parse, tl.Reasoner])
def test_a_path_in_place_of_a_text_is_told_from_it(make: object, tmp_path: Path) -> None:
    path = tmp_path / "facts"
    path.write_text("p(1) .")
    for text in (str(path), "nowhere/two.rls"):
        with pytest.raises(tl.ProgramError, match="E526") as found:
            make(text)  # type: ignore[operator]
        assert f"Path({text!r})" in str(found.value)


@pytest.mark.parametrize("text", ["", "p(1).", "p(1) . % see two.rls", "% two.rls\n"])
def test_programs_are_no_paths(text: str) -> None:
    tl.parse(text)


def test_other_things_are_no_programs() -> None:
    with pytest.raises(TypeError, match="its text or the Path of its file, not int"):
        tl.Reasoner(3)  # type: ignore[arg-type]


def test_a_program_shows_as_one_line() -> None:
    assert repr(tl.parse(TWO)) == "<Program: 1 rule, 2 facts, 2 predicates>"


def test_variables_of_prolog_are_warned_of(tmp_path: Path) -> None:
    text = "q(1) . p(X) :- q(X) ."
    path = tmp_path / "prolog.rls"
    path.write_text(text)
    reasoner = tl.Reasoner()
    for read in (tl.parse, tl.Reasoner, reasoner.add, lambda _: tl.load(path)):
        with pytest.warns(tl.ProgramWarning, match="W104.*`X` is a constant") as told:
            read(text)
        assert told[0].filename == __file__
    with pytest.warns(tl.ProgramWarning):
        assert [item.code for item in tl.parse(text).warnings] == ["W104", "W105"]
    tl.parse("q(1) . p(?x) :- q(?x) . q(X) . p(<X>) :- q(<X>) .")


# ---- facts


@pytest.mark.parametrize("is_derived", [False, True])
def test_facts_of_a_predicate_that_is_not_there_are_refused(is_derived: bool) -> None:
    reasoner = tl.Reasoner(TWO)
    if is_derived:
        reasoner.materialise()
    for data in ([(1, 2)], [], polars.DataFrame({"x": [1], "y": [2]}), [(1, 2, tl.read_interval("[0, 1]"))]):
        with pytest.raises(tl.ProgramError, match="E621") as found:
            reasoner.insert("ee", data)
        assert "did you mean `e`?" in str(found.value)
        assert "define=True" in str(found.value)
    assert list(reasoner.program.predicates) == ["e", "p"]
    assert reasoner.insert("ee", [("a", "b")], define=True) == 1
    assert set(reasoner["ee"]) == {("a", "b")}


def test_a_transaction_refuses_them_as_well_and_a_script_defines_them() -> None:
    reasoner = tl.Reasoner(TWO)
    with pytest.raises(tl.ProgramError, match="E621"), reasoner.change() as change:
        change.insert("ee", [(1, 2)])
    with reasoner.change() as change:
        change.insert("new", [1, 2], define=True)
    assert change.delta["new"].added["c1"] == [1, 2]
    reasoner.apply("+ ee(1, 2) .")
    list(reasoner.stream([[("+", "eee", (1, 2))]]))
    assert set(reasoner["ee"]) == set(reasoner["eee"]) == {(1, 2)}


@pytest.mark.parametrize("is_derived", [False, True])
@given(
    row=st.lists(st.one_of(st.integers(0, 9), st.text("ab[(", max_size=3)), max_size=4).filter(
        lambda row: len(row) != 2
    )
)
def test_a_row_of_another_width_is_said_to_be_one(is_derived: bool, row: list[object]) -> None:
    if len(row) == 3 and str(row[-1]).startswith(("[", "(")):
        row[-1] = 0  # would be an interval
    reasoner = tl.Reasoner("@declare e(x: any, y: any) .", threads=1)
    if is_derived:
        reasoner.materialise()
    with pytest.raises(tl.DataError) as found:
        reasoner.insert("e", [tuple(row)])
    assert [item.code for item in found.value.diagnostics] == ["E503"]


def test_one_row_of_another_width_among_rows_with_times() -> None:
    reasoner = tl.Reasoner("q(?x) :- diamondminus[0, 1] p(?x) .")
    with pytest.raises(tl.DataError, match=r"E503.*1 column instead of 2"):
        reasoner.insert("p", [("a", "[0, 1]"), ("b",)])
    with pytest.raises(tl.DataError, match="E619"):
        reasoner.insert("p", [("a", "[0, x]")])
    assert reasoner.insert("p", [("a", "[0, 1]")]) == 1


# ---- relations


@pytest.mark.parametrize(
    "text", [TWO, "e(1, 2) . e(a, 2.5) .", '@declare e(s: string, t: any) . e("a b", 7) .']
)
def test_data_frames_keep_the_names_of_columns(text: str) -> None:
    relation = tl.Reasoner(text)["e"]
    for frame in (pandas.DataFrame(relation), polars.DataFrame(relation), relation.to_pandas()):
        assert tuple(frame.columns) == relation.columns
        assert len(frame) == len(relation)
    assert list(map(tuple, pandas.DataFrame(relation).itertuples(index=False))) == list(relation)


def test_frames_of_rows_with_times_and_of_no_rows() -> None:
    reasoner = tl.Reasoner(
        "@declare none(x: int) . on(s)@[0, 3] . tick(a)@1 . tick(?x) :- diamondminus[2, 2] tick(?x) ."
    )
    assert list(pandas.DataFrame(reasoner["on"]).columns) == ["c1", "interval"]
    assert list(pandas.DataFrame(reasoner["tick"]).columns) == ["x", "interval", "every"]
    assert list(polars.DataFrame(reasoner["none"]).columns) == ["x"]


def test_a_relation_gives_its_columns() -> None:
    relation = tl.Reasoner(TWO)["e"].sorted()
    assert [relation[name] for name in relation.columns] == [[1, 2], [2, 3]]
    assert tl.Reasoner("on(s)@[0, 3] .")["on"]["interval"] == [tl.read_interval("[0, 3]")]
    with pytest.raises(tl.DataError, match="E527") as found:
        relation["z"]
    assert "its columns are x, y" in str(found.value)


@given(row=st.tuples(st.integers(), st.text()))
def test_rows_are_tuples_in_all_respects(row: tuple[int, str]) -> None:
    named = row_class(("x", "y"))(row)
    assert named == row
    assert hash(named) == hash(row)
    assert repr(named) == repr(row)
    copy = pickle.loads(pickle.dumps(named))
    assert copy == row
    assert type(copy) is tuple


# ---- plurals


def test_one_function_counts_things() -> None:
    """No message writes a number before a plural by itself: it would say `1 rows`."""
    noun = re.compile(r" (rows|facts|rules|columns|predicates|commits|files|proofs|versions|triples)\b")
    found = []
    for path in sorted(SOURCES.rglob("*.py")):
        if "spark" in path.as_posix():
            continue
        for node in ast.walk(ast.parse(path.read_text())):
            parts = node.values if isinstance(node, ast.JoinedStr) else []
            for number, text in pairwise(parts):
                if not isinstance(number, ast.FormattedValue) or not isinstance(text, ast.Constant):
                    continue
                written = ast.unparse(number.value)
                is_number = number.format_spec is not None or written.startswith(("len(", "sum("))
                if is_number and not written.isupper() and noun.match(str(text.value)):
                    found.append(f"{path.relative_to(SOURCES)}:{number.lineno}: {written}{text.value!r}")
    assert found == []
    assert repr(tl.Reasoner("p(1) . q(?x) :- p(?x) .")).startswith("<Reasoner: 1 rule, 2 predicates")
    assert "1 row<" in tl.Reasoner("p(1) .")["p"]._repr_html_()
