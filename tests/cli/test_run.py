"""`tidelog run` and `tidelog query`: what is put out where, and every exit code."""

from __future__ import annotations

import gzip
import io
import json
import time
from functools import partial
from pathlib import Path

import pytest

import tidelog as tl
from tests.cli.conftest import Tidelog, Write
from tidelog.cli.work import ProgressLine, progress_line
from tidelog.engine.events import Tally


class Terminal(io.StringIO):
    """A stream that says it is a terminal."""

    def isatty(self) -> bool:
        return True


ENDLESS = """\
number(0) .
number(?n + 1) :- number(?n) .
"""


def names(folder: Path) -> set[str]:
    """The files in a folder and below it."""
    return {str(path.relative_to(folder)) for path in folder.rglob("*") if path.is_file()}


# ---- what is put out


def test_derived_predicates_are_printed_as_tables(tidelog: Tidelog) -> None:
    done = tidelog("run", "family.rls")
    assert done.code == 0
    assert done.output == (
        "ancestor  3 rows\n  x      y\n  ─────  ─────\n  alice  bob\n  alice  carol\n  bob    carol\n"
    )


def test_output_predicates_are_chosen_by_the_program(tidelog: Tidelog, write: Write) -> None:
    write("p.rls", "p(1) . q(?x) :- p(?x) . r(?x) :- q(?x) . @output r, p .")
    assert list(tidelog("run", "p.rls", "--format", "json").json) == ["r", "p"]


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("p(1) . r(2) . q(3) .", ["p", "q", "r"]),
        ("p(1) . q(?x) :- p(?x) .", ["q"]),
        ("p(1) . r(2) . @output r .", ["r"]),
        ("p(1) . ?- p(?x) .", ["?- p(?x) ."]),
        ("@declare p(x: int) .", ["p"]),
    ],
)
def test_a_program_without_rules_shows_all_it_has(
    tidelog: Tidelog, write: Write, text: str, shown: list[str]
) -> None:
    write("p.rls", text)
    assert list(tidelog("run", "p.rls", "--format", "json").json) == shown


def test_variables_of_prolog_are_warned_of(tidelog: Tidelog, write: Write) -> None:
    write("p.rls", "q(1) . p(X) :- q(X) .")
    for command in ("check", "run"):
        done = tidelog(command, "p.rls")
        assert done.code == 0
        assert "warning[W104]: `X` is a constant in this rule" in done.error
        assert "p.rls:1:10" in done.error


def test_what_only_data_provides_can_be_put_out(tidelog: Tidelog, write: Write) -> None:
    write("p.rls", "@output edge . @output reach . reach(1) .")
    write("edge.csv", "1,2\n2,3\n")
    done = tidelog("run", "p.rls", "--data", "edge.csv", "--format", "json")
    assert done.json == {"edge": [{"c1": 1, "c2": 2}, {"c1": 2, "c2": 3}], "reach": [{"c1": 1}]}
    assert not done.error, "the file is used, and nothing is doubtful"


def test_what_neither_program_nor_data_provides_cannot(tidelog: Tidelog, write: Write) -> None:
    write("p.rls", "@output edge . reach(1) .")
    write("other.csv", "1,2\n")
    done = tidelog("run", "p.rls", "--data", "other.csv")
    assert done.code == 1
    assert "error[E214]: unknown predicate `edge`" in done.error


def test_a_program_comes_from_standard_input(tidelog: Tidelog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", io.StringIO("p(1) . q(?x) :- p(?x) ."))
    assert tidelog("run", "-", "--format", "csv").output == "x\n1\n"


def test_queries_follow_the_outputs(tidelog: Tidelog, write: Write) -> None:
    write("p.rls", "p(1, 2) . q(?x) :- p(?x, _) . ?- p(?a,\n % why\n ?b) .")
    done = tidelog("run", "p.rls")
    assert done.output.index("q  1 row") < done.output.index("?- p(?a, ?b) .  1 row")


def test_parameters_are_given(tidelog: Tidelog, write: Write) -> None:
    write("p.rls", "@parameter $n . p(1) . p(5) . q(?x) :- p(?x), ?x > $n .")
    assert tidelog("run", "p.rls", "--param", "n=3", "--format", "csv").output == "x\n5\n"
    done = tidelog("run", "p.rls")
    assert done.code == 1
    assert "--param n=…" in done.error


def test_nothing_to_put_out_prints_nothing(tidelog: Tidelog, write: Write) -> None:
    write("p.rls", "bottom() :- p(2) . p(1) .")
    done = tidelog("run", "p.rls")
    assert (done.code, done.output, done.error) == (0, "", "")


def test_rows_of_a_table_are_limited(tidelog: Tidelog) -> None:
    done = tidelog("run", "family.rls", "--rows", "1")
    assert done.output.endswith("  alice  bob\n  … 2 more; `--rows 0` shows all\n")
    assert "more" not in tidelog("run", "family.rls", "--rows", "0").output


def test_tables_show_control_characters_and_line_up(tidelog: Tidelog, write: Write) -> None:
    write("p.rls", 'p("a\\n\\u001b[31mb", 10) . p("日本", 7) . q(?x, ?n) :- p(?x, ?n) .')
    done = tidelog("run", "p.rls")
    assert done.output.splitlines() == [
        "q  2 rows",
        "  x              n",
        "  ────────────  ──",
        "  a\\n\\x1b[31mb  10",
        "  日本           7",
    ]


# ---- data


def test_data_fills_predicates_that_are_then_not_called_empty(tidelog: Tidelog, write: Write) -> None:
    write("p.rls", "q(?x) :- edge(?x, _) .")
    assert "W102" in tidelog("run", "p.rls").error
    write("data/edge.csv", "1,2\n3,4\n")
    done = tidelog("run", "p.rls", "--data", "data", "--format", "csv")
    assert (done.output, done.error) == ("x\n1\n3\n", "")


def test_data_that_nothing_uses_is_named_and_left_out(tidelog: Tidelog, write: Write) -> None:
    write("egde.csv", "1,2\n")
    write("p.rls", "@declare edge(a: int, b: int) . q(?x) :- edge(?x, _) .")
    done = tidelog("run", "p.rls", "--data", "egde.csv")
    assert done.code == 0
    assert "warning[W701]" in done.error
    assert "did you mean `edge`?" in done.error


@pytest.mark.parametrize(("header", "rows"), [("yes", "x\n1\n"), ("no", "x\na\n1\n")])
def test_headers_are_as_the_user_says(header: str, rows: str, tidelog: Tidelog, write: Write) -> None:
    write("edge.csv", "a,b\n1,2\n")
    write("p.rls", "q(?x) :- edge(?x, _) .")
    done = tidelog("run", "p.rls", "--data", "edge.csv", "--input-header", header, "--format", "csv")
    assert sorted(done.output.splitlines()) == sorted(rows.splitlines())


def test_missing_data_is_an_error(tidelog: Tidelog, write: Write) -> None:
    write("edges.csv", "1,2\n")
    done = tidelog("run", "family.rls", "--data", "edgse.csv", "nothing")
    assert done.code == 1
    assert "no such file or folder: `edgse.csv`" in done.error
    assert "did you mean `edges.csv`?" in done.error
    assert "`nothing`" in done.error


BAD = "1,2\nx,3\n4\n5,6\n"
EDGES = "@declare edge(a: int, b: int) . q(?x, ?y) :- edge(?x, ?y) ."


def test_bad_rows_fail_and_all_are_reported(tidelog: Tidelog, write: Write) -> None:
    write("edge.csv", BAD)
    write("p.rls", EDGES)
    done = tidelog("run", "p.rls", "--data", "edge.csv", "--output", "out")
    assert done.code == 1
    assert "edge.csv:2:1" in done.error
    assert "edge.csv:3" in done.error
    assert not Path("out").exists()


def test_bad_rows_are_skipped_and_counted(tidelog: Tidelog, write: Write) -> None:
    write("edge.csv", BAD)
    write("p.rls", EDGES)
    done = tidelog("run", "p.rls", "--data", "edge.csv", "--on-error", "skip", "--format", "csv")
    assert (done.code, done.output) == (0, "x,y\n1,2\n5,6\n")
    assert done.error == "skipped 2 rows that could not be read\n"


@pytest.mark.parametrize("options", [["--on-error", "collect"], ["--rejects", "rejects.csv"]])
def test_bad_rows_are_collected(options: list[str], tidelog: Tidelog, write: Write) -> None:
    write("edge.csv", BAD)
    write("p.rls", EDGES)
    done = tidelog("run", "p.rls", "--data", "edge.csv", *options)
    assert done.code == 0
    assert "see rejects.csv" in done.error
    assert Path("rejects.csv").read_text().count("\n") == 3


def test_rejects_are_not_left_behind_by_a_run_that_fails(tidelog: Tidelog, write: Write) -> None:
    write("edge.csv", BAD)
    write("p.rls", f"{EDGES} {ENDLESS}")
    done = tidelog("run", "p.rls", "--data", "edge.csv", "--rejects", "r.csv", "--max-facts", "1000")
    assert done.code == 4
    assert not Path("r.csv").exists()


# ---- files


def test_output_has_one_file_per_predicate(tidelog: Tidelog, write: Write, folder: Path) -> None:
    write("p.rls", "@prefix ex: <http://e.org/> . ex:p(1, a) . q(?x) :- ex:p(?x, _) . @output q, ex:p .")
    done = tidelog("run", "p.rls", "--output", "out")
    assert (done.code, done.output) == (0, "")
    assert done.error == "wrote out/q.csv, 1 row\nwrote out/ex%3Ap.csv, 1 row\n"
    assert names(folder / "out") == {"q.csv", "ex%3Ap.csv"}
    assert (folder / "out" / "ex%3Ap.csv").read_text() == "c1,c2\n1,a\n"


def test_queries_are_printed_beside_files(tidelog: Tidelog, write: Write) -> None:
    write("p.rls", "p(1) . q(?x) :- p(?x) . ?- q(?x) .")
    done = tidelog("run", "p.rls", "--output", "out", "--format", "json")
    assert done.output.startswith("?- q(?x) .  1 row\n")


def test_exports_go_to_their_resources(tidelog: Tidelog, write: Write, folder: Path) -> None:
    text = '@export q :- tsv{ resource = "sub/q.tsv.gz" } . @export p :- json{} . p(1) . q(?x) :- p(?x) .'
    write("programs/p.rls", text)
    done = tidelog("run", "programs/p.rls")
    assert (done.code, done.output) == (0, "")
    assert names(folder / "programs") == {"p.rls", "p.json", "sub/q.tsv.gz"}
    assert gzip.decompress((folder / "programs/sub/q.tsv.gz").read_bytes()) == b"x\n1\n"
    tidelog("run", "programs/p.rls", "--output", "out")
    assert names(folder / "out") == {"p.json", "sub/q.tsv.gz", "q.csv", "p.csv"}


def test_an_export_without_a_place_goes_to_standard_output(tidelog: Tidelog, write: Write) -> None:
    write("p.rls", '@export p :- csv{ resource = "" } . p(1) .')
    assert tidelog("run", "p.rls").output == "c1\n1\n"


def test_data_is_never_overwritten(tidelog: Tidelog, write: Write) -> None:
    write("edge.csv", "1,2\n")
    write("p.rls", "@declare edge(a: int, b: int) . @export edge :- csv{} . @output edge .")
    for options in ([], ["--output", "."]):
        done = tidelog("run", "p.rls", "--data", "edge.csv", *options)
        assert done.code == 1
        assert "`edge.csv` cannot be written: its facts were read from there" in done.error
    assert Path("edge.csv").read_text() == "1,2\n"


def test_nothing_half_written_is_left_behind(tidelog: Tidelog, write: Write, folder: Path) -> None:
    write("p.rls", '@output a, b . a(1) . b("x") . @export c :- nt{ resource = "c.nt" } . c(1, 2, 3) .')
    done = tidelog("run", "p.rls", "--output", "new/out")
    assert done.code == 1  # a number is no subject
    assert not (folder / "new").exists()


def test_a_folder_that_cannot_be_made_is_an_error(tidelog: Tidelog, write: Write) -> None:
    write("file", "")
    done = tidelog("run", "family.rls", "--output", "file/out")
    assert done.code == 1
    assert "error[E515]" in done.error


# ---- query


def test_query_prints_answers(tidelog: Tidelog) -> None:
    done = tidelog("query", "family.rls", "ancestor(alice, ?who), ?who != bob")
    assert done.code == 0
    assert done.output.splitlines()[0] == "ancestor(alice, ?who), ?who != bob  1 row"
    assert done.output.splitlines()[-1].strip() == "carol"


def test_query_without_variables_holds_or_not(tidelog: Tidelog) -> None:
    assert (
        tidelog("query", "family.rls", "ancestor(alice, carol)", "--format", "csv").output == "holds\ntrue\n"
    )
    assert tidelog("query", "family.rls", "ancestor(carol, alice)", "--format", "csv").output == "holds\n"


def test_query_asks_for_data_that_the_program_does_not_know(tidelog: Tidelog, write: Write) -> None:
    write("age.csv", "alice,30\n")
    done = tidelog("query", "family.rls", "age(?x, ?n)", "--data", "age.csv", "--format", "json")
    assert done.json == [{"x": "alice", "n": 30}]


def test_query_by_tabling(tidelog: Tidelog) -> None:
    given = ("query", "family.rls", "ancestor(alice, ?x)", "--strategy", "tabling", "--format", "csv")
    assert tidelog(*given, "--table-memory", "0").output == "x\nbob\ncarol\n"
    done = tidelog(*given, "--limit", "1", "--explain-strategy")
    assert done.output == "x\nbob\n"
    assert done.error == "tabling: as requested\ntabling: asks for ancestor bf; nothing in tables so far\n"


def test_query_for_an_unknown_predicate_is_an_error(tidelog: Tidelog) -> None:
    done = tidelog("query", "family.rls", "ancestr(?x, ?y)")
    assert (done.code, done.output) == (1, "")
    assert "did you mean `ancestor`?" in done.error


# ---- exit codes


@pytest.mark.parametrize(
    ("text", "code", "message"),
    [
        ("p(1) .", 0, ""),
        ("p(1", 1, "error[E121]"),
        ("p(?x) :- q(?y) .", 1, "error[E301]"),
        ("p(9223372036854775807) . q(?x + 1) :- p(?x) .", 1, "error[E603]"),
        ("p(1) . bottom() :- p(1) .", 3, "error[E601]: inconsistent"),
    ],
)
def test_exit_codes(text: str, code: int, message: str, tidelog: Tidelog, write: Write) -> None:
    write("p.rls", text)
    done = tidelog("run", "p.rls", "--output", "out")
    assert done.code == code
    assert message in done.error
    if code:
        assert not Path("out").exists()


@pytest.mark.parametrize("options", [["--max-facts", "1000"], ["--timeout", "0.3"]])
def test_limits_stop_with_4_and_say_how_far_it_got(
    options: list[str], tidelog: Tidelog, write: Write
) -> None:
    write("p.rls", ENDLESS)
    done = tidelog("run", "p.rls", "--output", "out", *options)
    assert (done.code, done.output) == (4, "")
    assert "it reached stratum 1 of 1 (number), round" in done.error
    assert "nothing was written" in done.error
    assert not Path("out").exists()


def test_limits_hold_for_reading(tidelog: Tidelog, write: Write) -> None:
    write("parent.csv", "".join(f"a{number},b\n" for number in range(2000)))
    done = tidelog("run", "family.rls", "--data", "parent.csv", "--max-facts", "1000")
    assert done.code == 4
    assert "it had loaded 2,000 facts" in done.error


def test_quiet_says_errors_only(tidelog: Tidelog, write: Write) -> None:
    write("p.rls", "p(1) . q(?x) :- p(?x), r(?y) .")
    assert "warning" in tidelog("run", "p.rls").error
    assert tidelog("run", "p.rls", "--quiet", "--output", "out").error == ""
    write("p.rls", "p(1")
    assert "error[E121]" in tidelog("run", "p.rls", "--quiet").error


def test_progress_is_for_terminals_that_want_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", said := Terminal())
    monkeypatch.setattr("tidelog.cli.work.WAIT", 0.01)
    for quiet in (True, False):
        with ProgressLine(partial(progress_line, Tally(loaded=1200)), quiet):
            time.sleep(0.3)
        assert bool(said.getvalue()) is not quiet
    assert "reading · 1,200 facts · 0.0 s" in said.getvalue()
    assert said.getvalue().endswith("\r\x1b[2K")


def test_other_text_stands_on_lines_of_its_own(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", said := Terminal())
    monkeypatch.setattr("tidelog.cli.work.WAIT", 0.0)
    with ProgressLine("at {:.0f}".format) as progress:
        while "at 0" not in said.getvalue():
            time.sleep(0.01)
        with progress.aside():
            said.write("other\n")
    assert "\x1b[2Kother\n" in said.getvalue()


def test_a_log_gets_lines_now_and_then(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stderr", said := io.StringIO())
    monkeypatch.setattr("tidelog.cli.work.LOGGED", 0.01)
    with ProgressLine("at {:.0f}".format):
        time.sleep(0.05)
    assert said.getvalue() == ""
    with ProgressLine("at {:.0f}".format, logged=True):
        while said.getvalue().count("at 0\n") < 2:
            time.sleep(0.01)


# ---- statistics


def test_statistics_are_on_standard_error(tidelog: Tidelog) -> None:
    done = tidelog("run", "family.rls", "--stats")
    lines = done.error.splitlines()
    assert lines[0].split() == ["rule", "rounds", "matches", "new", "duplicates", "no", "value", "seconds"]
    assert any("ancestor(?x, ?y) :- parent(?x, ?y) ." in line for line in lines)
    assert lines[-2].split()[:6] == ["2", "rules", "3", "3", "0", "0"]
    assert lines[-1].startswith("2 facts loaded in ")
    assert "rule" not in done.output


def test_statistics_as_json(tidelog: Tidelog) -> None:
    done = tidelog("query", "family.rls", "ancestor(?x, ?y)", "--stats", "stats.json")
    assert (done.code, done.error) == (0, "")
    found = json.loads(Path("stats.json").read_text())
    assert found["facts"] == {"loaded": 2, "derived": 3, "total": 5}
    assert found["strata"][0]["predicates"] == ["ancestor"]
    first, second = found["rules"]
    assert first["text"] == "ancestor(?x, ?y) :- parent(?x, ?y) ."
    assert (second["matches"], second["new"], second["duplicates"], second["no_value"]) == (1, 1, 0, 0)
    assert found["peak_memory_bytes"] > 1_000_000
    assert found["seconds"]["total"] >= found["seconds"]["load"]


def test_statistics_say_what_a_structure_closes(tidelog: Tidelog, write: Write) -> None:
    chain = "".join(f"parent({number}, {number + 1}) .\n" for number in range(200))
    rules = "a(?x, ?y) :- parent(?x, ?y) . a(?x, ?z) :- a(?x, ?y), a(?y, ?z) . @output a ."
    write("chain.rls", f"{chain}{rules}")
    done = tidelog("run", "chain.rls", "--stats", "--output", "out")
    assert "a closed by a structure: transitive" in done.error.splitlines()
    done = tidelog("run", "chain.rls", "--stats", "--output", "out", "--no-modules")
    assert "structure" not in done.error


@pytest.mark.parametrize("threads", ["1", "3"])
def test_threads_change_nothing(threads: str, tidelog: Tidelog) -> None:
    done = tidelog("run", "family.rls", "--threads", threads, "--engine", "columnar", "--format", "csv")
    assert done.output == "x,y\nalice,bob\nalice,carol\nbob,carol\n"


@pytest.mark.parametrize(
    "resource", ["../escape.csv", "link/escape.csv", "a/../../escape.csv", "ABSOLUTE/escape.csv"]
)
def test_exports_do_not_leave_the_output_folder(
    tidelog: Tidelog, write: Write, tmp_path: Path, resource: str
) -> None:
    outside = tmp_path / "elsewhere"
    outside.mkdir()
    (tmp_path / "out").mkdir()
    (tmp_path / "out" / "link").symlink_to(outside)
    resource = resource.replace("ABSOLUTE", str(outside))
    write("p.rls", f'p(1) . @export p :- csv{{ resource = "{resource}" }} .')
    done = tidelog("run", "p.rls", "--output", "out")
    assert done.code == 1
    assert "error[E529]: the program may not write" in done.error
    assert "p.rls:1:8" in done.error
    assert "--allow-write" in done.error
    assert not list(tmp_path.rglob("escape.csv"))
    assert tidelog("run", "p.rls", "--output", "out", "--allow-write", ".").code == 0
    assert len(list(tmp_path.rglob("escape.csv"))) == 1


def test_predicates_named_like_paths_stay_in_the_output_folder(tidelog: Tidelog, write: Write) -> None:
    facts = "<../escape.csv>(1) . <..>(1) . </etc/passwd>(1) ."
    write("p.rls", facts)
    write("q.rls", f"{facts} @export <../escape.csv> :- csv{{}} .")
    assert tidelog("run", "p.rls", "--output", "deep/out").code == 0
    assert tidelog("run", "q.rls", "--output", "deep/out").code == 0
    assert len(list(Path("deep/out").iterdir())) == 3
    assert [path.as_posix() for path in Path().rglob("*escape*")] == ["deep/out/%3C..%2Fescape.csv%3E.csv"]


def test_a_confined_program_reads_and_writes_where_it_may(tidelog: Tidelog, write: Write) -> None:
    write("in/e.csv", "1,2\n")
    write(
        "p.rls",
        '@declare e(x: int, y: int) . @import e :- csv{ resource = "in/e.csv" } .'
        '@export q :- csv{ resource = "out/q.csv" } . q(?x) :- e(?x, _) .',
    )
    assert tidelog("run", "p.rls", "--allow-read", "in", "--allow-write", "out").code == 0
    assert Path("out/q.csv").read_text() == "x\n1\n"
    for given, refused in ((["--allow-read", "in"], "write"), (["--allow-write", "out"], "read")):
        done = tidelog("run", "p.rls", *given)
        assert done.code == 1
        assert f"the program may not {refused}" in done.error
        assert f"--allow-{refused}" in done.error
    done = tidelog("check", "p.rls", "--allow-write", "out")
    assert (done.code, "E529" in done.error) == (1, True)
    assert tidelog("check", "p.rls", "--allow-read", "in").code == 0
    assert tidelog("plan", "p.rls", "--allow-write", "out").code == 1


def test_the_program_of_a_job_is_confined(tidelog: Tidelog, write: Write) -> None:
    write("in/e.csv", "1,2\n")
    write("p.rls", '@import e :- csv{ resource = "in/e.csv" } . q(?x) :- e(?x, _) .')
    write("job.toml", 'program = "p.rls"\npublish = "out"\n[engine]\nname = "columnar"\n')
    done = tidelog("pipeline", "job.toml", "--allow-read", "elsewhere")
    assert (done.code, "E529" in done.error, Path("out").exists()) == (1, True, False)
    assert tidelog("pipeline", "job.toml", "--allow-read", "in").code == 0
    job = tl.pipeline.Job(tl.load("p.rls"), publish="out", engine="columnar", allow_read="elsewhere")
    with pytest.raises(tl.DataError, match="E529"):
        job.run()
