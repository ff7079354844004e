"""Runs: the first derives, later ones maintain; rejected rows, drift, limits, sources of every kind."""

from __future__ import annotations

import csv
import gzip
import json
import os
import shutil
from collections.abc import Callable
from contextlib import nullcontext
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import tidelog as tl
from tests.pipeline.conftest import JOB, Write
from tests.pipeline.histories import crashing
from tidelog.__main__ import main
from tidelog.errors import DataError, Inconsistent
from tidelog.pipeline import Engine, Job, Run, Sink, Source, Step, read
from tidelog.pipeline import versions as sinks_module
from tidelog.pipeline import versions as version_module
from tidelog.pipeline.publishing import differing


def facts(job: Job, name: str) -> set[tuple[object, ...]]:
    return set(read(job.store.path)[name])


def append(path: str, text: str) -> None:
    with Path(path).open("a", encoding="utf-8") as stream:
        stream.write(text)


def test_the_first_run_publishes_everything(job: Job) -> None:
    run = job.run()
    assert run.is_new and run.version.version == 1 and run.version.reason == "full"
    assert facts(job, "reach") == {(x, y) for x in "abc" for y in "bcd" if x < y}
    assert facts(job, "sink") == {("d",)} and facts(job, "degree") == {("a", 1), ("b", 1), ("c", 1)}
    assert run.version.feed["reach"].added == 6 and run.version.parent is None


def test_a_run_without_changes_publishes_nothing(job: Job) -> None:
    job.run()
    os.utime("edge.csv")  # written again, with the same content
    assert not job.run().is_new
    assert Job.load("job.toml").run().version.version == 1
    assert job.store.numbers() == (1,)


@pytest.mark.parametrize("is_warm", [True, False], ids=["warm", "cold"])
def test_changed_inputs_are_maintained(job: Job, is_warm: bool) -> None:
    steps: list[Step] = []
    with job:
        job.run()
        job.apply('+ edge("p", "q") . - edge("c", "d") .')
        job.apply('- edge("p", "q") . + edge("c", "d") .')
        Path("edge.csv").write_text("from,to\na,b\nb,e\nc,d\n")
        if is_warm:
            job.listeners.append(steps.append)
            run = job.run()
    if not is_warm:
        run = Job.load("job.toml", listeners=[steps.append]).run()
    assert run.version.reason == "incremental" and run.version.parent == 3
    names = [step.name for step in steps]
    assert "maintained" in names and "derived" not in names and ("restored" in names) == (not is_warm)
    assert facts(job, "reach") == {("a", "b"), ("a", "e"), ("b", "e"), ("c", "d")}
    changes = read(job.store.path).changes("reach")
    assert set(changes.added) == {("b", "e"), ("a", "e")}
    assert set(changes.removed) == {("b", "c"), ("a", "c"), ("b", "d"), ("a", "d")}
    assert run.version.added == sum(feed.added for feed in run.version.feed.values())


def test_full_derives_again_and_tells_the_difference(job: Job) -> None:
    job.run()
    append("edge.csv", "d,e\n")
    run = job.run(full=True)
    assert run.version.reason == "full"
    assert set(read(job.store.path).changes("reach").added) == {(x, "e") for x in "abcd"}
    again = job.run(full=True)
    assert again.is_new and not again.version.feed and again.version.rows == run.version.rows


@pytest.mark.parametrize("is_warm", [True, False], ids=["warm", "cold"])
def test_changed_rules_are_maintained(job: Job, write: Write, is_warm: bool) -> None:
    with job if is_warm else nullcontext():
        check_changed_rules(job, write, is_warm)


def check_changed_rules(job: Job, write: Write, is_warm: bool) -> None:
    job.run()
    rules = Path("reach.rls").read_text().replace("node(?x), node(?y) :-", "node(?x) :-")
    write(
        "reach.rls", rules + '% a comment\nfar(?x, ?y) :- reach(?x, ?y), ~edge(?x, ?y) .\nedge("d", "z") .\n'
    )
    run = (job if is_warm else Job.load("job.toml")).run()
    assert run.version.reason == "incremental"
    assert facts(job, "node") == {(x,) for x in "abcd"} and ("a", "z") in facts(job, "far")
    expected = tl.Reasoner(tl.load("reach.rls"))
    expected.insert("edge", [("a", "b"), ("b", "c"), ("c", "d")])
    for name in expected:
        assert facts(job, name) == set(expected[name]), name
    write("reach.rls", "% nothing but\n" + Path("reach.rls").read_text())
    assert not (job if is_warm else Job.load("job.toml")).run().is_new


def test_a_predicate_that_goes_takes_its_facts_along(job: Job, write: Write) -> None:
    job.run()
    write("reach.rls", "@declare edge(from: string, to: string) .\nsource(?x) :- edge(?x, _) .\n")
    run = Job.load("job.toml").run()
    assert set(run.version.tables) == {"edge", "source"}
    assert run.version.feed["reach"].removed == 6
    assert len(read("published").changes("reach").removed) == 6 and not read("published").changes("edge")
    assert not Job.load("job.toml").run().is_new


def test_bad_rows_are_written_aside(job: Job) -> None:
    append("edge.csv", 'x\n"open,y\n')
    run = job.run()
    given = next(item for item in run.version.inputs.values() if item.rejected)
    assert (given.rows, given.rejected) == (3, 2) and given.rejects is not None
    with (job.store.path / given.rejects).open(newline="") as stream:
        rows = list(csv.reader(stream))
    assert rows[0] == ["place", "code", "reason", "row"]
    assert [row[:2] for row in rows[1:]] == [["edge.csv:5", "E503"], ["edge.csv:6:1", "E511"]]
    append("reach.rls", "p(?x) :- edge(?x, _) .\n")
    kept = next(item for item in job.run().version.inputs.values() if item.rejected)
    assert kept.rejects == given.rejects  # what was not read again is not forgotten


def test_too_many_bad_rows_publish_nothing(job: Job, write: Write) -> None:
    append("edge.csv", "x\ny\n")
    write("job.toml", "max-rejects = 1\n" + Path("job.toml").read_text())
    with pytest.raises(DataError, match="rejected 2 rows, but at most 1 are allowed"):
        Job.load("job.toml").run()
    assert job.store.number is None


def test_a_source_may_fail_on_bad_rows(job: Job, write: Write) -> None:
    append("edge.csv", "x\n")
    append("job.toml", 'on-error = "fail"\n')
    with pytest.raises(DataError, match="E503"):
        Job.load("job.toml").run()


def test_a_source_of_bad_rows_alone_is_an_error(job: Job, write: Write) -> None:
    write("edge.csv", "from,to\nx\ny\n")
    with pytest.raises(DataError, match=r"no row of .* could be read: 2 rejected"):
        job.run()


def test_columns_that_change_are_drift(job: Job, write: Write) -> None:
    job.run()
    write("edge.csv", "from,to,weight\na,b,1\n")
    with pytest.raises(DataError, match="`weight` is new") as raised:
        job.run()
    assert raised.value.diagnostics[0].code == "E807"
    write("edge.csv", "origin,to\na,b\n")
    with pytest.raises(DataError, match="`from` is gone and `origin` is new"):
        job.run()
    assert job.store.number == 1
    write("edge.csv", "to,weight,from\nb,1,a\n")
    assert job.run(full=True).version.tables["edge"].rows == 1
    assert facts(job, "edge") == {("a", "b")}


def test_a_predicate_of_other_columns_is_drift(job: Job, write: Write) -> None:
    job.run()
    write("reach.rls", Path("reach.rls").read_text().replace("sink(?x)", "sink(?x, ?x)"))
    with pytest.raises(DataError, match="`sink` has 2 columns, and 1 in version 1"):
        job.run()
    job.run(full=True)
    assert facts(job, "sink") == {("d", "d")}


def test_an_inconsistency_publishes_nothing(job: Job) -> None:
    job.run()
    append("reach.rls", "bottom() :- reach(?x, ?x) .\n")
    append("edge.csv", "d,a\n")
    with pytest.raises(Inconsistent):
        job.run()
    assert job.store.number == 1
    Path("edge.csv").write_text("from,to\na,b\n")
    assert job.run().version.version == 2


def test_a_second_writer_is_told(job: Job) -> None:
    with job.writing(), pytest.raises(DataError, match=f"by process {os.getpid()}"):
        Job.load("job.toml").run()
    job.run()
    with job:  # the state is of one process only, and others are told
        job.apply('+ edge("d", "e") .')
        with pytest.raises(DataError, match=r"E830|E904"):
            Job.load("job.toml").apply('+ edge("e", "f") .')
    assert Job.load("job.toml").apply('+ edge("e", "f") .').version.version == 3


def test_changes_by_script_and_by_subscription(job: Job) -> None:
    job.run()
    told: list[str] = []
    job.subscribe("sink", lambda change: told.append(str(change)))
    run = job.apply('- edge("c", "d") . + edge("d", "a") .')
    assert run.version.reason == "changes" and told == ["+1 −1"]
    assert facts(job, "sink") == {("c",)}
    assert Job.load("job.toml").apply('+ edge("c", "x") .').version.version == 3
    with pytest.raises(tl.ProgramError, match="E630"):
        job.apply('- edge("n", "m") .')
    assert job.store.number == 3


def test_a_value_that_no_column_holds_changes_nothing(folder: Path) -> None:
    program = tl.parse("i(1) . j(?x) :- i(?x) .")
    job = Job(program, publish="out", engine="columnar")
    job.run()
    with pytest.raises(DataError, match="E866"):
        job.apply("+ i(123456789012345678901) .")
    assert job.store.number == 1
    assert Job.of(job.settings).apply("+ i(5) .").version.version == 2
    assert set(read("out")["j"]) == {(1,), (5,)}


@pytest.mark.parametrize("is_full", [True, False], ids=["full", "changes"])
def test_a_state_that_was_made_otherwise_or_is_damaged(write: Write, is_full: bool) -> None:
    """A process that ended after it had committed to the state, and settings that have changed since."""
    write("hot.csv", "a,0,10\n")
    sources = [Source("hot", "hot.csv", header=False, time=("start", "end"))]
    rules = tl.parse("@declare hot(s: any) . warm(?s) :- boxminus[0, 1] hot(?s) .")
    engine = Engine("columnar", horizon="0,100")
    job = Job(rules, publish="out", sources=sources, engine=engine)
    job.run()
    crashing(job, 0, lambda ended: ended.apply("+ hot(b)@[0, 9] ."), "maintained")
    if is_full:
        for stored in Path("out/_state").rglob("*"):
            if stored.is_file() and stored.name != "lock":
                stored.write_bytes(b"no store")
        with pytest.raises(DataError, match="E833"):
            job.run()
    else:
        job.settings = replace(job.settings, engine=Engine("columnar", horizon="0,5"))
    assert job.run(full=is_full).version.reason == "full"
    assert {str(row[1]) for row in read("out")["warm"]} == {"[1, 10]" if is_full else "[1, 5]"}
    assert job.apply("+ hot(c)@[0, 4] .").version.version == 3


FORMATS = {
    "csv": "a,1\nb,2\n",
    "tsv": "a\t1\nb\t2\n",
    "jsonl": '["a", 1]\n["b", 2]\n',
    "json": '[["a", 1], ["b", 2]]',
}


def run_on(source: Source, rules: str = "@declare p(name: string, size: int) .\nq(?x) :- p(?x, _) .") -> Run:
    return Job(tl.parse(rules), publish="out", sources=[source], engine="columnar").run(full=True)


@pytest.mark.parametrize("name", FORMATS)
@pytest.mark.parametrize("is_packed", [False, True], ids=["plain", "gzip"])
def test_text_formats(name: str, is_packed: bool) -> None:
    path = f"data.{name}{'.gz' if is_packed else ''}"
    Path(path).write_bytes(gzip.compress(FORMATS[name].encode()) if is_packed else FORMATS[name].encode())
    run_on(Source("p", path))
    assert set(read("out")["p"]) == {("a", 1), ("b", 2)}


def test_parquet_and_arrow() -> None:
    table = pa.table({"size": [1, 2], "name": ["a", "b"]})
    pq.write_table(table, "data.parquet")
    with pa.ipc.new_file("data.arrow", table.schema) as writer:
        writer.write_table(table)
    for path in ("data.parquet", "data.arrow"):
        run_on(Source("p", path))
        assert set(read("out")["p"]) == {("a", 1), ("b", 2)}


RDF = {
    "nt": '<http://e/s> <http://e/p> "x"@en .\n',
    "ttl": '@prefix e: <http://e/> .\ne:s e:p "x"@en .\n',
    "nq": '<http://e/s> <http://e/p> "x"@en <http://e/g> .\n',
    "rdf": '<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://e/">'
    '<rdf:Description rdf:about="http://e/s"><e:p xml:lang="en">x</e:p></rdf:Description></rdf:RDF>',
    "jsonld": '{"@id": "http://e/s", "http://e/p": {"@value": "x", "@language": "en"}}',
}


@pytest.mark.parametrize("name", RDF)
def test_rdf_formats(name: str) -> None:
    pytest.importorskip("pyoxigraph")
    Path(f"data.{name}").write_text(RDF[name])
    run_on(Source("triple", f"data.{name}"), "q(?x) :- triple(?x, _, _) .")
    rows = read("out")["triple"].to_texts("exact").rows()
    assert rows == [("<http://e/s>", "<http://e/p>", '"x"@en')]


def test_columns_types_and_filters(write: Write) -> None:
    write("people.csv", "id;age;name\n1;30;Ann\n2;7;Bo\n3;x;Cy\n")
    source = Source(
        "p",
        "people.csv",
        columns={"name": "name", "size": "age"},
        types=("string", "int"),
        delimiter=";",
        filter='?size >= 18, ?name != "Zoe"',
    )
    run = run_on(source)
    (given,) = run.version.inputs.values()
    assert set(read("out")["p"]) == {("Ann", 30)}
    assert (given.rows, given.filtered, given.rejected) == (2, 1, 1)
    run_on(Source("p", "people.csv", columns=("id", "age"), delimiter=";", on_error="reject"))
    assert set(read("out")["p"]) == {("1", 30), ("2", 7)}
    write("texts.csv", "a,1\nb,2\nc,3\n")  # texts that are not copied when they are read
    texts = Source("p", "texts.csv", types=("string", "string"), filter='?c1 != "b"')
    run_on(texts, "q(?x) :- p(?x, _) .")
    assert set(read("out")["p"]) == {("a", "1"), ("c", "3")}
    write("plain.csv", "x;1;a\nx;2;b\n")
    run_on(Source("p", "plain.csv", types=("skip", "int", "string"), delimiter=";"), "q(?x) :- p(_, ?x) .")
    assert set(read("out")["q"]) == {("a",), ("b",)}


def test_folders_and_patterns(write: Write) -> None:
    for number in range(3):
        write(f"data/part-{number}.csv", f"a{number},{number}\n")
    run_on(Source("p", "data/part-*.csv"))
    assert len(read("out")["p"]) == 3
    run_on(Source("p", "data", format="csv"))
    assert len(read("out")["p"]) == 3
    Path("data/part-1.csv").unlink()
    job = Job(
        tl.parse("q(?x) :- p(?x, _) ."),
        publish="other",
        sources=[Source("p", "data/*.csv")],
        engine="columnar",
    )
    job.run()
    write("data/part-9.csv", "z,9\n")
    assert job.run().version.feed["p"].added == 1


@pytest.mark.parametrize(
    ("source", "said"),
    [
        (Source("r", "x.csv"), "the program has no predicate `r`"),
        (Source("p", "y.csv"), "no such file: `y.csv`"),
        (Source("p", "hdfs://host/x.csv"), "`hdfs://host/x.csv` is not a file on this machine"),
        (Source("p", "x.csv", columns=("a",)), "`p` has 2 columns, but 1 are named for it"),
        (Source("p", "x.csv", columns={"nam": "a"}), "`p` has no column `nam`"),
        (Source("p", "x.csv", types=("int", "int")), "`p` is declared with string where the source has int"),
        (Source("p", "x.csv", types=("int",)), "`p` has 2 columns, but 1 are read for it"),
        (Source("p", "x.csv", filter="?size >"), "the filter `?size >` is not well formed"),
        (Source("p", "x.csv", filter="?other > 3"), "is not well formed: nothing in the body binds variable"),
    ],
)
def test_sources_that_cannot_be(source: Source, said: str, write: Write) -> None:
    write("x.csv", "a,1\n")
    with pytest.raises(DataError) as raised:
        run_on(source)
    assert said in str(raised.value)


def test_imports_and_facts_of_the_program_are_inputs(write: Write) -> None:
    write("p.csv", "a\n")
    rules = '@import p :- csv{ resource = "p.csv" } .\np(b) . q(?x) :- p(?x) .\n'
    write("rules.rls", rules)
    job = Job("rules.rls", publish="out", engine="columnar")
    job.run()
    assert set(read("out")["q"]) == {("a",), ("b",)}
    write("p.csv", "c\n")
    write("rules.rls", rules.replace("p(b)", "p(d)"))
    run = job.run()
    assert (run.version.added, run.version.removed) == (4, 4)
    assert set(read("out")["q"]) == {("c",), ("d",)}


SINKS = [
    ("reach.csv", "x,y\na,b\n"),
    ("reach.tsv", "x\ty\na\tb\n"),
    ("reach.jsonl", '{"x": "a", "y": "b"}\n'),
    ("reach.json", '[\n{"x": "a", "y": "b"}\n]\n'),
]


@pytest.mark.parametrize(("path", "text"), SINKS, ids=[path for path, _ in SINKS])
def test_sinks_of_text(job: Job, write: Write, path: str, text: str) -> None:
    write("edge.csv", "from,to\na,b\n")
    write(
        "job.toml",
        Path("job.toml").read_text()
        + f'[[sink]]\npredicate = "reach"\npath = "out/{path}"\nterms = "plain"\n',
    )
    Job.load("job.toml").run()
    assert Path("out", path).read_text() == text


@pytest.mark.parametrize("name", ["csv", "tsv", "json", "jsonl", "parquet", "arrow"])
def test_sinks_are_read_again(write: Write, name: str) -> None:
    """Facts as they were, and changes whose columns have other types when facts come and when they go."""
    values = [
        "a",
        '"a"',
        '"a"@en',
        "1",
        "1.0",
        "1.0E0",
        '"2020-01-01"^^<http://www.w3.org/2001/XMLSchema#date>',
    ]
    rules = "@declare p(x: any) . q(?x) :- p(?x) . @output q ."
    sinks = [Sink("q", f"q.{name}", name), Sink("q", "changes", name, what="changes")]
    write("p.csv", "")
    job = Job(tl.parse(rules), publish="out", sources=[Source("p", "p.csv")], sinks=sinks, engine="columnar")
    job.run()
    job.apply("+ p(5) .")
    job.apply("- p(5) . " + " ".join(f"+ p({value}) ." for value in values))
    header = ", header = true" if name in ("csv", "tsv") else ""
    again = tl.Reasoner(
        tl.parse(
            f'@declare q(x: any) . @import q :- {name}{{ resource = "q.{name}"{header} }} . '
            "@declare c(version: any, change: any, x: any) . "
            f'@import c :- {name}{{ resource = "changes/3.{name}"{header} }} . '
            'came(?x) :- c(_, ?sign, ?x), STR(?sign) = "+" .'
        )
    )
    for predicate in ("q", "came"):
        assert {row[0] for row in again[predicate].to_texts("exact").rows()} == set(values)


def test_sinks_of_parquet_statements_and_changes(write: Write) -> None:
    write("t.nt", "<http://e/a> <http://e/p> <http://e/b> .\n")
    rules = "triple(?y, ?p, ?x) :- triple(?x, ?p, ?y) ."
    sinks = [
        Sink("triple", "out.parquet", "parquet"),
        Sink("triple", "out.nt", "ntriples"),
        Sink("triple", "changes", "csv", what="changes", terms="exact"),
    ]
    job = Job(
        tl.parse(rules), publish="p", sources=[Source("triple", "t.nt")], sinks=sinks, engine="columnar"
    )
    job.run()
    assert pq.read_table("out.parquet").num_rows == 2
    write("t.nt", "<http://e/a> <http://e/p> <http://e/c> .\n")
    job.run()
    assert sorted(Path("out.nt").read_text().splitlines()) == [
        "<http://e/a> <http://e/p> <http://e/c> .",
        "<http://e/c> <http://e/p> <http://e/a> .",
    ]
    lines = Path("changes/2.csv").read_text().splitlines()
    assert lines[0] == "version,change,y,p,x" and lines[1].startswith("2,-,<http://e/a>")
    assert len(lines) == 5
    assert len(Path("changes/1.csv").read_text().splitlines()) == 3


def test_sinks_that_cannot_be(job: Job) -> None:
    append("job.toml", '[[sink]]\npredicate = "raech"\npath = "r.csv"\n')
    append("job.toml", '[[sink]]\npredicate = "reach"\npath = "edge.csv"\n')
    append("job.toml", '[[sink]]\npredicate = "reach"\npath = "r.nt"\n')
    with pytest.raises(DataError) as raised:
        Job.load("job.toml").run()
    assert [item.message for item in raised.value.diagnostics] == [
        "the program has no predicate `raech`",
        "`edge.csv` is a source of the job as well",
        "statements of RDF have 3 columns, or 4, and `reach` has 2",
    ]


# ---- refreshing some predicates


def changed_unseen(text: str) -> None:
    """Change the content of the edges, but neither the size of the file nor its time."""
    path = Path("edge.csv")
    status = path.stat()
    assert len(text) == status.st_size
    path.write_text(text)
    os.utime(path, ns=(status.st_atime_ns, status.st_mtime_ns))


def check_refresh(make: Callable[[], Job]) -> None:
    make().run()
    changed_unseen("from,to\na,b\nb,c\nc,e\n")
    assert not make().run().is_new  # nobody looks into a file of the same size and time
    steps: list[Step] = []
    job = make()
    job.listeners.append(steps.append)
    run = job.run(refresh=["reach"])
    assert run.version.reason == "refresh" and ("c", "e") in set(read("published")["reach"])
    assert set(read("published")["sink"]) == {("e",)}  # what depends on it is maintained
    assert {step.name for step in steps} >= {"recomputed", "maintained"}
    assert [step.detail.split(":")[0] for step in steps if step.name == "read"] == ["edge.csv"]
    again = make().run(refresh=["reach", "degree"]).version
    assert again.version == 3 and again.added == again.removed == 0


def test_a_refresh_reads_what_predicates_depend_on(job_file: Path, write: Write) -> None:
    write("other.csv", "x\n1\n")
    rules = Path("reach.rls").read_text() + "@declare other(x: int) . big(?x) :- other(?x), ?x > 0 .\n"
    write("reach.rls", rules)
    write("job.toml", JOB + '[[source]]\npredicate = "other"\npath = "other.csv"\nheader = true\n')
    check_refresh(lambda: Job.load("job.toml"))
    with pytest.raises(DataError, match="no predicate `raech`"):
        Job.load("job.toml").run(refresh=["raech"])
    with pytest.raises(ValueError, match="omit `refresh`"):
        Job.load("job.toml").run(full=True, refresh=["reach"])
    assert main(["pipeline", "job.toml", "-q", "--refresh", "reach,sink", "--refresh", "big"]) == 0
    assert read("published").manifest.version == 4
    assert main(["pipeline", "job.toml", "-q", "--refresh", "big", "--full"]) == 2
    assert main(["pipeline", "job.toml", "-q", "--refresh", "big,"]) == 2


@pytest.mark.slow
def test_a_refresh_on_spark(job_file: Path, write: Write, spark: Any) -> None:
    sources = [Source("edge", "edge.csv", header=True)]
    check_refresh(lambda: Job("reach.rls", publish="published", sources=sources, session=spark))


def test_a_refresh_finds_facts_that_do_not_follow(job: Job) -> None:
    job.run()
    with job:
        reasoner = job.reasoner()
        assert differing(reasoner, ["reach", "sink", "degree"], {}) == []
        rules = tuple(rule for rule in reasoner.program.rules if len(rule.positive) < 2)
        fewer = replace(reasoner.program, rules=rules)
        other = cast("Any", SimpleNamespace(program=fewer, engine=reasoner.engine))
        assert differing(other, ["reach", "sink"], {}) == ["reach"]


def test_a_refresh_without_a_state_or_with_times_derives_everything(write: Write, job: Job) -> None:
    job.run()
    shutil.rmtree("published/_state")
    steps: list[Step] = []
    job.listeners.append(steps.append)
    assert job.run(refresh=["reach"]).version.reason == "full"
    assert "full recompute" in {step.name for step in steps}


def test_a_state_that_does_not_fit_is_refused_before_it_is_opened(
    write: Write, job_file: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    write("job.toml", JOB.replace("[[source]]", 'engine.max-memory = "0.0003 MB"\n[[source]]', 1))
    assert main(["pipeline", "job.toml"]) == 4  # before anything is derived: three facts of two columns fit
    Job.load(write("big.toml", JOB)).run()
    write("edge.csv", "from,to\na,b\n")
    for more in ([], ["--full"]):
        assert main(["pipeline", "job.toml", *more]) == 4
        said = capsys.readouterr().err
        assert (
            "version 1 has " in said and "which may take 0 MB (as was set)" in said and "max-memory" in said
        )
    assert read("published").manifest.version == 1
    write("job.toml", JOB.replace("[[source]]", 'engine.max-memory = "4 TB"\n[[source]]', 1))
    with pytest.raises(DataError, match="is not a size"):
        Job.load("job.toml")


@pytest.mark.parametrize("name", ["reach.csv", "reach.jsonl", "reach.json", "reach.parquet", "reach.tsv"])
def test_a_large_file_is_written_some_rows_at_a_time(
    job: Job, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    def read_again(path: Path) -> list[str]:
        if path.suffix == ".parquet":
            return sorted(map(str, pq.read_table(path).to_pylist()))
        return sorted(
            map(str, json.loads(path.read_text()))
            if path.suffix == ".json"
            else path.read_text().splitlines()
        )

    def written(folder: str) -> list[list[str]]:
        form = name.rpartition(".")[2]
        sinks = (
            Sink("reach", f"{folder}/{name}", form),
            Sink("reach", f"{folder}/changes", form, what="changes"),
        )
        here = Job.of(replace(job.settings, sinks=sinks, publish=f"{folder}/published"))
        here.run()
        here.apply('- edge("b", "c") . + edge("a", "d") . + edge("e", "f") .')
        return [read_again(Path(folder, each)) for each in (name, f"changes/1.{form}", f"changes/2.{form}")]

    whole = written("whole")
    monkeypatch.setattr(sinks_module, "MOST_SORTED", 2)
    monkeypatch.setattr(version_module, "PIECE", 2)
    assert written("pieces") == whole and all(len(each) >= 4 for each in whole)
