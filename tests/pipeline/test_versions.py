"""Published versions: what they hold, compaction, differences, going back, vacuum, damage; the commands."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

import tidelog as tl
from tests.cli.conftest import Tidelog
from tests.cli.conftest import tidelog as tidelog
from tidelog.errors import DataError
from tidelog.pipeline import Job, Sink, Source, Version, difference, read
from tidelog.pipeline.publishing import roll_back


@pytest.fixture
def grown(job: Job) -> Job:
    """A job with four versions."""
    job.run()
    job.apply('+ edge("d", "e") .')
    job.apply('- edge("a", "b") . + edge("a", "c") .')
    job.apply('- edge("d", "e") .')
    return job


def held(job: Job, version: int) -> dict[str, set[tuple[object, ...]]]:
    found = Version(job.store, job.store.manifest(version))
    return {name: set(found[name]) for name in found}


def test_old_versions_stay_readable(grown: Job) -> None:
    assert held(grown, 1)["edge"] == {("a", "b"), ("b", "c"), ("c", "d")}
    assert held(grown, 4)["edge"] == {("a", "c"), ("b", "c"), ("c", "d")}
    assert set(read("published", 2)["sink"]) == {("e",)}


@pytest.mark.parametrize(("first", "second"), [(1, 4), (4, 1), (2, 3), (3, 3)])
def test_differences(grown: Job, first: int, second: int) -> None:
    delta = difference(grown.store, first, second)
    before, after = held(grown, first), held(grown, second)
    for name in before:
        assert set(delta[name].added) == after[name] - before[name]
        assert set(delta[name].removed) == before[name] - after[name]


def test_going_back_is_a_new_version(grown: Job) -> None:
    wanted = held(grown, 1)
    manifest = roll_back(grown.store, 1)
    assert manifest.version == 5 and manifest.parent == 4 and manifest.reason == "rollback"
    assert held(grown, 5) == wanted
    changes = read("published").changes("edge")
    assert set(changes.added) == {("a", "b")} and set(changes.removed) == {("a", "c")}
    assert roll_back(grown.store).version == 6 and held(grown, 6) == held(grown, 4)
    grown.apply('+ edge("x", "y") .')  # its state is derived again from the tables
    assert held(grown, 7)["edge"] == held(grown, 4)["edge"] | {("x", "y")}
    assert held(grown, 7)["reach"] == held(grown, 4)["reach"] | {("x", "y")}


def test_going_back_where_tables_do_not_say_what_was_given(folder: Path) -> None:
    program = tl.parse("reach(a, b) . edge(b, c) . reach(?x, ?y) :- edge(?x, ?y) .")
    job = Job(program, publish="published", engine="columnar")
    job.run()
    job.apply("+ edge(c, d) .")
    roll_back(job.store)
    with pytest.raises(DataError, match="no state of version 3") as raised:
        job.apply("+ edge(x, y) .")
    assert "run the job first, with --full" in str(raised.value)
    assert job.run(full=True).version.version == 4
    job.apply("- reach(a, b) .")
    assert set(read("published")["reach"]) == {("b", "c")}


def test_vacuum_keeps_what_kept_versions_need(grown: Job) -> None:
    wanted = held(grown, 4)
    stray = grown.store.path / "edge" / "half.parquet"
    stray.write_text("of a writer that did not finish")
    grown.store.published.vacuum(2)
    assert grown.store.numbers() == (3, 4) and not stray.exists()
    fresh = Job.load("job.toml")
    assert held(fresh, 4) == wanted
    assert set(difference(fresh.store, 3, 4)["edge"].removed) == {("d", "e")}
    with pytest.raises(DataError, match="there are versions 3 to 4"):
        fresh.store.manifest(1)
    fresh.apply('+ edge("p", "q") .')
    assert ("p", "q") in held(fresh, 5)["reach"]


def test_differences_without_the_versions_between(grown: Job) -> None:
    grown.store.published.vacuum(1)
    with pytest.raises(DataError, match="version 3 is no longer published"):
        read("published").changes("edge")
    grown.apply('+ edge("p", "q") .')
    grown.apply('- edge("p", "q") .')
    assert not difference(grown.store, 4, 6) and difference(grown.store, 4, 5)


def test_many_small_changes_are_put_together(job: Job, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tidelog.publish.table_files.MANY", 4)
    job.run()
    for number in range(12):
        job.apply(
            f'+ edge("n{number}", "n{number + 1}") .'
            + (f' - edge("n{number - 3}", "n{number - 2}") .' if number > 3 else "")
        )
    assert len(read("published").files("edge")) <= 4
    expected = tl.Reasoner(job.program())
    expected.insert("edge", list(read("published")["edge"]))
    assert held(job, 13)["reach"] == set(expected["reach"])
    assert held(Job.load("job.toml"), 7)["edge"] == held(job, 7)["edge"]


def test_values_of_every_kind_come_back(tmp_path: Path) -> None:
    program = tl.parse(
        """
        @prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
        v(1) . v(2.50) . v(1e3) . v(true) . v("text \\"quoted\\" \\n ü") . v("en"@en) . v(alice) . v(<true>) .
        v(<http://e/x?y=1#z>) . v(<_:b>) . v("x"^^<http://e/t>) . v("2020-01-01"^^xsd:date) .
        v("2020-01-01T00:00:00+01:00"^^xsd:dateTime) . v(123456789012345678901) . v("") .
        i(1) . i(-5) . d(1.5e0) . b(true) . s("a") . n(a) . day("2020-01-01"^^xsd:date) .
        zero() . w(?x, ?y) :- i(?x), v(?y) . none(?x) :- i(?x), ?x > 9 .
        """
    )
    job = Job(program, publish="out", folder=tmp_path, engine="columnar")
    job.run()
    expected = tl.Reasoner(program)
    version = read(tmp_path / "out")
    for name in expected:
        assert version[name] == expected[name], name
    types = version.manifest.origin.types
    assert (types["i"], types["v"], types["s"], types["n"]) == (("int",), ("rdf",), ("string",), ("iri",))
    job.apply("+ i(word) . + s(name) . - zero() .")
    again = Job(program, publish="out", folder=tmp_path, engine="columnar")
    assert again.apply('+ i("third") . + zero() .').version.rows == version.manifest.rows + 33
    assert {str(row[0]) for row in read(tmp_path / "out")["i"]} == {"1", "-5", "word", "third"}
    assert set(read(tmp_path / "out")["s"].to_texts("exact").rows()) == {('"a"',), ("name",)}
    first = difference(again.store, 1, 3)
    assert {str(row[0]) for row in first["i"].added} == {"word", "third"} and not first["i"].removed
    second = read(tmp_path / "out", 2).changes("s")
    assert [str(row[0]) for row in second.added] == ["name"] and not second.removed


def test_columns_stay_as_they_are_when_rows_go(folder: Path) -> None:
    """What a column holds is what was ever given, not what a state happens to have when it is opened."""
    Path("p.csv").write_text("a,1\nb,x\n")
    program = tl.parse("q(?y) :- p(_, ?y) . n(1) . m(?x) :- n(?x) .")
    job = Job(program, publish="out", sources=[Source("p", "p.csv")], engine="columnar")
    job.run()
    job.apply('+ n("text") .')
    schemas = {name: table.schema for name, table in job.store.manifest().tables.items()}
    assert [field.type for field in schemas["m"]] == ["string"]
    job.apply('- n("text") . - p(b, x) .')
    Job.of(job.settings).apply("+ p(c, 2) .")
    assert {name: table.schema for name, table in job.store.manifest().tables.items()} == schemas
    assert {tuple(map(str, row)) for row in read("out")["p"]} == {("a", "1"), ("c", "2")}
    assert len(read("out").changes("p").added) == 1 and not read("out").changes("p").removed


def test_predicates_are_known_by_what_the_program_calls_them(folder: Path) -> None:
    rules = "@prefix ex: <http://example.org/> .\nex:reach(?x, ?y) :- ex:edge(?x, ?y) .\n"
    Path("edge.csv").write_text("a,b\n")
    sinks = [Sink("ex:reach", "reach.csv", "csv"), Sink("ex:reach", "changes", "csv", what="changes")]
    job = Job(
        tl.parse(rules),
        publish="out",
        sources=[Source("ex:edge", "edge.csv")],
        sinks=sinks,
        engine="columnar",
    )
    job.run()
    version = read("out")
    assert set(version["ex:reach"]) == set(version["http://example.org/reach"]) == {("a", "b")}
    assert Path("reach.csv").read_text() == "x,y\na,b\n" and Path("changes/1.csv").is_file()
    job.subscribe("ex:reach", print)
    job.apply("+ ex:edge(b, c) .")
    delta = difference(job.store, 1, 2)
    assert len(delta["ex:reach"].added) == len(delta["http://example.org/reach"].added) == 1
    assert set(delta.predicates) == {"ex:edge", "ex:reach"}
    assert set(read("out").changes("http://example.org/edge").added) == {("b", "c")}


def test_columns_that_differ_in_case_only_or_are_reserved(folder: Path) -> None:
    rules = "q(?x, ?X, ?_version) :- p(?x), p(?X), p(?_version) . p(1) ."
    Job(tl.parse(rules), publish="out", engine="columnar").run()
    assert read("out").to_arrow("q").column_names == ["x", "X_", "_version_"]
    assert set(read("out")["q"]) == {(1, 1, 1)}


def test_damage_is_told(grown: Job) -> None:
    file = Path(read("published").files("edge")[0])
    file.write_bytes(b"PAR1")
    with pytest.raises(DataError, match="is damaged") as raised:
        read("published")["edge"]
    assert raised.value.diagnostics[0].code == "E811"
    file.unlink()
    with pytest.raises(DataError, match="is missing"):
        read("published")["edge"]
    for stored in (grown.store.path / "_state").rglob("*"):
        if stored.is_file() and stored.stat().st_size:
            stored.write_bytes(b"no store")
    with pytest.raises(DataError, match="E83") as raised:
        grown.apply('+ edge("x", "y") .')


def test_a_folder_of_the_old_format_is_refused(job: Job, tidelog: Tidelog) -> None:
    Path("published/versions/7").mkdir(parents=True)
    Path("published/versions/7/manifest.json").write_text("{}")
    Path("published/CURRENT").write_text("7\n")
    for done in (tidelog("pipeline", "job.toml"), tidelog("versions", "published")):
        assert done.code == 1 and "error[E811]" in done.error and "publish into another folder" in done.error
    assert sorted(each.name for each in Path("published").iterdir()) == ["CURRENT", "versions"]


# ---- the commands


def test_commands_around_versions(job: Job, tidelog: Tidelog) -> None:
    done = tidelog("pipeline", "job.toml", "--stats")
    assert done.code == 0 and done.output == "" and "published version 1: 17 facts" in done.error
    assert "table edge" in done.error
    Path("edge.csv").write_text("from,to\na,b\nb,c\nc,x\n")
    done = tidelog("pipeline", "job.toml")
    assert "published version 2" in done.error and "edge +1 −1" in done.error
    assert "nothing has changed: version 2 is current" in tidelog("pipeline", "job.toml").error
    done = tidelog("versions", "job.toml")
    lines = done.output.splitlines()
    assert lines[0].split() == ["version", "published", "by", "facts", "added", "removed", "rejected"]
    assert lines[2].startswith("2 *") and "incremental" in lines[2]
    assert "    edge(from, to)  3  +1 −1" in tidelog("versions", "published", "--predicates").output
    assert [item["version"] for item in tidelog("versions", "published", "-f", "json").json] == [1, 2]
    done = tidelog("diff", "published", "1", "2", "--predicate", "edge")
    assert done.output == '- edge("c", "d") .\n+ edge("c", "x") .\n'
    assert tidelog("diff", "published", "--predicate", "edge").output == done.output
    lines = tidelog("diff", "job.toml", "2", "1", "-f", "jsonl", "--predicate", "sink").output.splitlines()
    assert [json.loads(line)["change"] for line in lines] == ["-", "+"]
    assert "published version 3" in tidelog("rollback", "job.toml", "1").error
    assert not difference(job.store, 1, 3)
    assert tidelog("vacuum", "published", "--keep", "1").error.startswith("removed 2 versions")
    assert tidelog("diff", "published", "1", "3").code == 1


def test_commands_that_cannot_be(job: Job, tidelog: Tidelog) -> None:
    done = tidelog("versions", "published")
    assert done.code == 1 and "error[E810]: nothing has been published in `published`" in done.error
    job.run()
    assert "error[E810]: version 1 is the first one" in tidelog("rollback", "published").error
    assert "error[E810]" in tidelog("diff", "published").error
    assert tidelog("vacuum", "published", "--keep", "0").code == 2
    assert tidelog("pipeline", "job.toml", "--conf", "x").code == 2
    assert tidelog("pipeline", "job.toml", "--available-now").code == 2
    assert tidelog("pipeline", "jb.toml").code == 1
