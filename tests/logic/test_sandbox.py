"""What a confined program may read and write, by paths that try to lead elsewhere."""

from __future__ import annotations

import os
from collections.abc import Iterator
from pathlib import Path

import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

import tidelog as tl
from tidelog.errors import DataError, TidelogError
from tidelog.io.write import export_file
from tidelog.logic.program import OPEN, Predicate, Sandbox, Transfer
from tidelog.logic.values import ColumnType

SECRET = "secret"
NAMES = (
    "in",
    "out",
    "link",
    "deep",
    "loop",
    "back",
    "inside",
    "data.csv",
    "alias.csv",
    "new.csv",
    "rule.rls",
)
PARTS = ("..", ".", "", "%2e%2e", *NAMES)
STARTS = ("", "ROOT/", "file://ROOT/", "/")
EDGE = Predicate("edge", 1, (None,), (ColumnType.ANY,), "edge")


@pytest.fixture(scope="module")
def tree(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Path]:
    """Two folders, of which only `in` is allowed, with links from each into the other."""
    root = tmp_path_factory.mktemp("tree")
    for folder in ("in", "out"):
        (root / folder / "deep").mkdir(parents=True)
        for name in ("data.csv", "deep/data.csv"):
            (root / folder / name).write_text("fine\n" if folder == "in" else f"{SECRET}\n")
        (root / folder / "rule.rls").write_text(f"p({'fine' if folder == 'in' else SECRET}) .")
    (root / "in" / "link").symlink_to(root / "out")
    (root / "in" / "alias.csv").symlink_to(root / "out" / "data.csv")
    (root / "in" / "loop").symlink_to(root / "in" / "loop")
    (root / "out" / "back").symlink_to(root / "in")
    (root / "inside").mkdir()  # begins like `in`, and is another folder
    (root / "inside" / "data.csv").write_text(f"{SECRET}\n")
    yield root


def paths() -> st.SearchStrategy[str]:
    """Paths of names that exist or do not, with links, `..`, absolute beginnings and schemes."""
    relative = st.lists(st.sampled_from(PARTS), min_size=1, max_size=6).map("/".join)
    return st.builds(lambda start, rest: start + rest, st.sampled_from(STARTS), relative)


def is_inside(path: Path, folder: Path) -> bool:
    # Twice: what stands behind a link that leads to itself is not resolved at once.
    return Path(os.path.realpath(os.path.realpath(path))).is_relative_to(os.path.realpath(folder))


@given(written=paths())
@example(written="../inside/data.csv")
@example(written="link/back/data.csv")
@example(written="alias.csv")
@example(written="loop/../link/data.csv")
@settings(deadline=None)
def test_no_path_leads_a_reader_outside(tree: Path, written: str) -> None:
    resource = written.replace("ROOT", str(tree))
    inside = tree / "in"
    try:
        path = Sandbox.of(inside).to_read(inside / resource.removeprefix("file://"))
    except DataError as error:
        assert [item.code for item in error.diagnostics] == ["E529"]
        assert not is_inside(inside / resource.removeprefix("file://"), inside)
    else:
        assert path.absolute() == Path(os.path.realpath(path)), "no link is followed after the check"
        assert is_inside(path, inside)
    for text in (
        f'@declare p(x: any) . @import p :- csv{{ resource = "{resource}" }} .',
        f'@include "{resource}" .',
    ):
        try:
            reasoner = tl.Reasoner(tl.parse(text, folder=inside, allow_read=inside), threads=1)
            facts = [row for name in reasoner for row in reasoner[name]]
        except TidelogError as error:
            assert SECRET not in str(error)
        else:
            assert (SECRET,) not in facts


@given(written=paths(), is_output=st.booleans())
@example(written="../escape.csv", is_output=True)
@example(written="loop/../link", is_output=False)
@settings(deadline=None)
def test_no_path_leads_a_writer_outside(tree: Path, written: str, is_output: bool) -> None:
    resource = written.replace("ROOT", str(tree))
    inside = tree / "in"
    sandbox = OPEN if is_output else Sandbox.of(allow_write=[inside])
    transfer = Transfer("edge", "csv", {"resource": resource}, None, inside, sandbox=sandbox)
    try:
        export = export_file(transfer, EDGE, inside if is_output else None)
    except DataError as error:
        assert [item.code for item in error.diagnostics] == ["E529"]
    else:
        assert resource == "" if export.path is None else is_inside(export.path, inside)


def test_what_is_not_restricted_is_as_it_is_written(tree: Path) -> None:
    path = tree / "in" / ".." / "out" / "data.csv"
    assert OPEN.to_read(path) == OPEN.to_write(path) == path
    assert Sandbox.of() == OPEN


def test_where_one_is_given_the_other_is_nothing(tree: Path) -> None:
    path = tree / "in" / "data.csv"
    with pytest.raises(DataError, match=r"E529.*may not write"):
        Sandbox.of(allow_read=tree).to_write(path)
    with pytest.raises(DataError, match=r"E529.*may not read"):
        Sandbox.of(allow_write=str(tree)).to_read(path)
    assert Sandbox.of([], [tree]).to_write(path) == path.resolve()
    assert Sandbox.of(path).to_read(path) == path.resolve(), "a file may be allowed as well"


def test_a_message_names_the_path_as_it_is_written_and_as_it_is(tree: Path) -> None:
    sandbox = Sandbox.of(tree / "in")
    with pytest.raises(DataError) as error:
        sandbox.to_read(tree / "in" / ".." / "out" / "data.csv")
    (fault,) = error.value.diagnostics
    written, real = tree / "in" / ".." / "out" / "data.csv", (tree / "out" / "data.csv").resolve()
    assert fault.message == f"the program may not read `{written}`, which is `{real}`"


def test_all_that_is_not_allowed_is_reported_with_its_place(tree: Path) -> None:
    text = '@include "../out/rule.rls" .\n@declare p(x: any) .\n@import p :- csv{ resource = "alias.csv" } .'
    with pytest.raises(tl.ProgramError) as found:
        tl.parse(text, folder=tree / "in", allow_read=tree / "in", name="theirs.rls")
    first, second = found.value.diagnostics
    assert (first.location, second.location) == ("theirs.rls:1:1", "theirs.rls:3:1")
    assert f"--allow-read {os.path.realpath(tree / 'out')}" in (second.help or "")
    assert os.path.realpath(tree / "out" / "data.csv") in second.message


def test_rule_sets_of_tidelog_may_always_be_included(tree: Path) -> None:
    assert tl.parse('@include "rdfs.rls" .', allow_read=tree / "in").rules
    with pytest.raises(tl.ProgramError, match="E529"):
        tl.parse('@include "../pyproject.toml" .', allow_read=tree / "in")


def test_what_is_added_later_is_confined_as_well(tree: Path) -> None:
    text = f'@import p :- csv{{ resource = "{tree}/out/data.csv" }} .'
    inside = f'@import p :- csv{{ resource = "{tree}/in/data.csv" }} .'
    for program in ("@declare p(x: any) .", tl.parse("@declare p(x: any) .")):
        reasoner = tl.Reasoner(program, allow_read=[tree / "in"])
        with pytest.raises(TidelogError, match="E529"):
            reasoner.add(text)
        reasoner.add(inside)
        assert set(reasoner["p"]) == {("fine",)}
        with pytest.raises(TidelogError, match="E529"), reasoner.change() as change:
            change.add(text)
        assert set(reasoner["p"]) == {("fine",)}


def test_a_program_is_confined_when_it_comes_to_a_reasoner(tree: Path) -> None:
    program = tl.parse(f'@declare p(x: any) . @import p :- csv{{ resource = "{tree}/out/data.csv" }} .')
    assert set(tl.Reasoner(program)["p"]) == {(SECRET,)}
    with pytest.raises(DataError, match="E529"):
        tl.Reasoner(program, allow_read=[tree / "in"]).materialise()


def test_a_store_is_confined_when_it_is_opened_again(tree: Path, tmp_path: Path) -> None:
    program = tl.parse(f'@declare p(x: any) . @import p :- csv{{ resource = "{tree}/out/data.csv" }} .')
    with tl.open(tmp_path / "store", program) as reasoner:
        assert set(reasoner["p"]) == {(SECRET,)}
    with tl.open(tmp_path / "store", allow_read=[tree / "in"]) as reasoner:
        assert str(reasoner.explain(f"p({SECRET})")) == f"p({SECRET})  explicit"
        with pytest.raises(TidelogError, match="E529"):
            reasoner.add(f'@include "{tree}/out/rule.rls" .')


def test_a_link_that_changes_after_the_program_was_read_is_noticed(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "data.csv").write_text("fine\n")
    (tmp_path / "secret.csv").write_text(f"{SECRET}\n")
    text = '@declare p(x: any) . @import p :- csv{ resource = "data.csv" } .'
    reasoner = tl.Reasoner(tl.parse(text, folder=tmp_path / "in", allow_read=tmp_path / "in"))
    (tmp_path / "in" / "data.csv").unlink()
    (tmp_path / "in" / "data.csv").symlink_to(tmp_path / "secret.csv")
    with pytest.raises(DataError, match="E529"):
        reasoner.materialise()
