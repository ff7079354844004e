"""`--store`, and `tidelog store`."""

from __future__ import annotations

from io import StringIO
from pathlib import Path

import pytest

import tidelog as tl
from tests.cli.conftest import Tidelog, Write
from tidelog.store.store import StoreFolder

EQUAL = "?x = ?y :- key(?x, ?k), key(?y, ?k) . key(a, 1) . key(b, 1) ."
TIMED = "boxplus[1, 1] p(?x) :- q(?x) . q(a)@0 ."


@pytest.fixture
def store(tidelog: Tidelog, write: Write) -> Path:
    """A store of the family, with a change in its journal."""
    write("more.rls", "+ parent(carol, dora) .")
    assert tidelog("run", "family.rls", "--store", "kept").code == 0
    reasoner = tl.open("kept")
    reasoner.apply("+ parent(carol, dora) .")
    assert reasoner._store is not None
    reasoner._store.abandon()
    return Path("kept")


def test_run_makes_a_store_and_later_needs_no_program(tidelog: Tidelog, folder: Path) -> None:
    first = tidelog("run", "family.rls", "--store", "kept", "--format", "csv")
    assert first.code == 0 and "alice,carol" in first.output
    (folder / "family.rls").unlink()
    assert tidelog("run", "--store", "kept", "--format", "csv").output == first.output


def test_data_goes_into_a_store(tidelog: Tidelog, write: Write) -> None:
    write("parent.csv", "carol,dora\n")
    write("later/parent.csv", "dora,emil\n")
    assert tidelog("run", "family.rls", "--store", "kept", "--data", "parent.csv").code == 0
    assert tidelog("query", "--store", "kept", "ancestor(alice, dora)").output
    asked = ("query", "--store", "kept", "ancestor(?x, emil)", "-f", "csv")
    done = tidelog(*asked, "--data", "later/parent.csv")
    assert sorted(done.output.split()[1:]) == ["alice", "bob", "carol", "dora"]
    assert tidelog(*asked, "--read-only").output == done.output


def test_stream_commits_to_a_store(tidelog: Tidelog, write: Write) -> None:
    write("one.rls", "+ parent(carol, dora) .\n@commit .\n- parent(alice, bob) .\n")
    tidelog("run", "family.rls", "--store", "kept")
    done = tidelog("stream", "--store", "kept", "one.rls", "--durability", "fast")
    assert done.code == 0 and "commit 2" in done.error
    again = tidelog("query", "--store", "kept", "ancestor(?x, dora)", "-f", "csv")
    assert again.output.split() == ["x", "bob", "carol"]


def test_the_shell_commits_to_a_store(tidelog: Tidelog, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("sys.stdin", StringIO("parent(carol, dora) .\n- parent(alice, bob) .\n"))
    assert tidelog("repl", "family.rls", "--store", "kept").code == 0
    again = tidelog("query", "--store", "kept", "parent(?x, ?y)", "-f", "csv")
    assert again.output.split() == ["x,y", "bob,carol", "carol,dora"]


def test_rules_that_were_edited_become_those_of_the_store(tidelog: Tidelog, write: Write) -> None:
    tidelog("run", "family.rls", "--store", "kept")
    write("family.rls", "ancestor(?x, ?y) :- parent(?x, ?y) .")
    done = tidelog("run", "family.rls", "--store", "kept", "-f", "csv")
    assert "+0 −1 rules" in done.error
    assert "alice,carol" not in done.output and "alice,bob" in done.output
    assert "rules" not in tidelog("run", "family.rls", "--store", "kept").error


@pytest.mark.parametrize(
    ("rules", "made", "other"),
    [
        (EQUAL, "--equality=axiomatise", "--equality=rewrite"),
        (EQUAL, "--equality=rewrite", "--equality=axiomatise"),
        (EQUAL, "--equality=rewrite", "--unique-names"),
        (TIMED, "--temporal=naive", "--temporal=optimised"),
    ],
)
def test_another_treatment_than_that_of_the_store_is_refused(
    tidelog: Tidelog, write: Write, rules: str, made: str, other: str
) -> None:
    write("all.rls", rules)
    assert tidelog("run", "all.rls", "--store", "made", made).code == 0
    done = tidelog("run", "all.rls", "--store", "made", other)
    name, _, value = other.removeprefix("--").partition("=")
    wanted = f"{name.replace('-', '_')}={value or 'true'} was requested"
    assert done.code == 1 and "the store was made with " in done.error and wanted in done.error
    assert tidelog("run", "all.rls", "--store", "made").code == 0


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("run",), "PROGRAM is missing"),
        (("run", "family.rls", "--durability", "fast"), "requires --store"),
        (("query", "family.rls", "p(?x)", "--read-only"), "requires --store"),
        (("run", "family.rls", "--store", "kept", "--watch"), "--watch cannot be used"),
        (("store", "check", "kept", "--output", "there"), "requires `export`"),
    ],
)
def test_wrong_usage(tidelog: Tidelog, arguments: tuple[str, ...], said: str) -> None:
    done = tidelog(*arguments)
    assert done.code == 2 and said in done.error


@pytest.mark.parametrize("action", ["check", "repair", "compact", "export"])
def test_no_store(tidelog: Tidelog, action: str) -> None:
    done = tidelog("store", action, "nowhere")
    assert done.code == 1 and "error[E831]" in done.error


# ---- looking after a store


def test_check_says_what_is_there(tidelog: Tidelog, store: Path) -> None:
    done = tidelog("store", "check", "kept")
    assert done.code == 0
    size = StoreFolder(store).snapshot(1).stat().st_size
    assert done.output.splitlines() == [
        f"snapshot-00000001.tide: whole, 5 facts in 2 relations, {size:,} bytes",
        "journal-00000001.tide: 1 whole record",
    ]
    assert tidelog("store", "check", "kept", "--quiet").output == ""


def damage(path: Path, place: int) -> None:
    data = bytearray(path.read_bytes())
    data[place] ^= 1
    path.write_bytes(data)


def section(store: Path, table: str, part: str) -> int:
    """Where a part of a relation stands in the snapshot, if it takes any bytes."""
    from tidelog.store.snapshot import Snapshot

    snapshot = Snapshot(StoreFolder(store).snapshot(1))
    found = next(each for each in snapshot.parts() if each.relation == table and each.name == part)
    assert found.section.size
    return found.section.offset


def test_a_relation_that_is_derived_is_rederived(tidelog: Tidelog, store: Path) -> None:
    damage(StoreFolder(store).snapshot(1), section(store, "ancestor", "column 2"))
    checked = tidelog("store", "check", "kept")
    assert checked.code == 1 and "column 2 of `ancestor`" in checked.output
    assert tidelog("query", "--store", "kept", "ancestor(?x, dora)").code == 1
    done = tidelog("store", "repair", "kept")
    assert done.code == 0 and "recovered 3 explicit facts" in done.error
    assert tidelog("store", "check", "kept").code == 0
    again = tidelog("query", "--store", "kept", "ancestor(?x, dora)", "-f", "csv")
    assert again.output.split() == ["x", "alice", "bob", "carol"]
    assert len(list(store.glob("damaged-*/*.tide"))) == 3


def test_a_relation_that_was_stated_is_lost_and_the_rest_is_kept(tidelog: Tidelog, store: Path) -> None:
    damage(StoreFolder(store).snapshot(1), section(store, "parent", "column 1"))
    assert "its explicit facts are lost" in tidelog("store", "check", "kept").output
    assert tidelog("store", "repair", "kept").code == 0
    again = tidelog("query", "--store", "kept", "ancestor(?x, ?y)", "-f", "csv")
    assert again.output.split() == ["x,y", "carol,dora"]


def test_a_journal_is_kept_up_to_the_damage(tidelog: Tidelog, store: Path) -> None:
    reasoner = tl.open(store)
    for name in ("emil", "fritz"):
        reasoner.insert("parent", [("dora", name)])
    assert reasoner._store is not None
    reasoner._store.abandon()
    journal = StoreFolder(store).journal(1)
    damage(journal, journal.read_bytes().index(b"emil"))
    checked = tidelog("store", "check", "kept")
    assert checked.code == 1 and "1 whole record before it can be recovered" in checked.output
    opened = tidelog("query", "--store", "kept", "parent(?x, ?y)")
    assert opened.code == 1 and "error[E833]" in opened.error
    tidelog("store", "repair", "kept")
    again = tidelog("query", "--store", "kept", "parent(carol, ?y)", "-f", "csv")
    assert again.output.split() == ["y", "dora"]


def test_what_cannot_be_repaired_says_so(tidelog: Tidelog, store: Path) -> None:
    snapshot = StoreFolder(store).snapshot(1)
    damage(snapshot, snapshot.stat().st_size - 60)
    before = sorted(path.name for path in store.iterdir())
    done = tidelog("store", "repair", "kept")
    assert done.code == 1 and "nothing can be recovered" in done.error
    assert sorted(path.name for path in store.iterdir()) == before


def test_nothing_to_repair(tidelog: Tidelog, store: Path) -> None:
    assert "nothing is damaged" in tidelog("store", "repair", "kept").error


def test_compact_empties_the_journal(tidelog: Tidelog, store: Path) -> None:
    assert tidelog("store", "compact", "kept").code == 0
    assert "journal-00000002.tide: 0 whole records" in tidelog("store", "check", "kept").output


def test_export_gives_a_program_that_derives_the_same(tidelog: Tidelog, write: Write) -> None:
    write(
        "all.rls",
        """
        @prefix ex: <https://example.org/> .
        @declare size(x: any, n: int) .
        size(a, 1) . size("b c", -2) . ex:odd("x"@en) . holds() . value(1.50) . value(2.0e0) .
        big(?x) :- size(?x, ?n), ?n > 0, holds() .
        #[name("named")] ex:all(?x, #count(?y)) :- size(?x, ?y), ~ex:odd(?x) .
        @output big . @output ex:all .
        """,
    )
    tidelog("run", "all.rls", "--store", "kept")
    done = tidelog("store", "export", "kept", "--output", "out")
    assert done.code == 0 and "6 explicit facts" in done.error
    expected = tidelog("run", "all.rls", "--format", "jsonl", "--output", "one")
    assert expected.code == 0
    again = tidelog("run", "out/program.rls", "--format", "jsonl", "--output", "two")
    assert again.code == 0, again.error
    one, two = ({path.read_text() for path in Path(name).iterdir()} for name in ("one", "two"))
    assert one == two
    assert "not an empty folder" in tidelog("store", "export", "kept", "--output", "out").error


@pytest.mark.parametrize(
    "text",
    [
        "?x = ?y :- key(?x, ?k), key(?y, ?k) . key(a, 1) . key(b, 1) . p(a) . a = c . b != d .",
        "late(?x) :- diamondminus[0, 5] hot(?x) . hot(oven)@[1, 5/3) . hot(pan)@(2, inf) . ice() . on()@3 .",
        "@timeline integer . late(?x) :- boxminus[0, 1] hot(?x) . hot(oven)@[1, 2] . hot(oven)@[3, 4] .",
    ],
)
def test_export_of_equality_and_times_gives_the_same(tidelog: Tidelog, write: Write, text: str) -> None:
    write("all.rls", text)
    assert tidelog("run", "all.rls", "--store", "all").code == 0
    assert tidelog("store", "export", "all", "--output", "there").code == 0
    stored, again = tl.open("all", read_only=True), tl.Reasoner(tl.load("there/program.rls"))
    for name in stored:
        assert sorted(map(str, stored[name])) == sorted(map(str, again[name]))


@pytest.mark.parametrize(
    ("text", "table", "said"),
    [
        ("late(?x) :- diamondminus[0, 5] hot(?x) . hot(a)@1 . hot(b)@2 .", "late at times", "derived again"),
        ("late(?x) :- diamondminus[0, 5] hot(?x) . hot(a)@1 . hot(b)@2 .", "hot at times, as given", "lost"),
        (
            "?x = ?y :- key(?x, ?k), key(?y, ?k) . key(a, 1) . key(b, 1) . key(c, 1) .",
            "= alias",
            "derived again",
        ),
    ],
)
def test_repair_of_equality_and_times(
    tidelog: Tidelog, write: Write, text: str, table: str, said: str
) -> None:
    write("all.rls", text)
    assert tidelog("run", "all.rls", "--store", "all").code == 0
    before = {name: sorted(map(str, rows)) for name, rows in held(Path("all")).items()}
    damage(StoreFolder(Path("all")).snapshot(1), section(Path("all"), table, "column 1"))
    done = tidelog("store", "check", "all")
    assert done.code == 1 and f"column 1 of `{table}`" in done.output and said in done.output
    assert tidelog("store", "repair", "all").code == 0
    after = {name: sorted(map(str, rows)) for name, rows in held(Path("all")).items()}
    assert after == (before if said == "derived again" else {name: [] for name in before})


def held(path: Path) -> dict[str, tl.Relation]:
    reasoner = tl.open(path, read_only=True)
    return {name: reasoner[name] for name in reasoner}


# ---- looking at a store


def test_sparql_is_answered_from_a_store(
    tidelog: Tidelog, write: Write, monkeypatch: pytest.MonkeyPatch
) -> None:
    write("facts.ttl", "@prefix : <https://example.org/> . :tom a :Cat . :rex a :Dog .")
    write(
        "zoo.rls",
        "triple(?x, ?y, <https://example.org/Animal>) :- triple(?x, ?y, <https://example.org/Cat>) .",
    )
    assert tidelog("run", "zoo.rls", "--store", "zoo", "--data", "facts.ttl").code == 0
    reasoner = tl.open("zoo")
    kind = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"
    reasoner.apply(f"- triple(<https://example.org/rex>, <{kind}>, <https://example.org/Dog>) .")
    assert reasoner._store is not None
    reasoner._store.abandon()
    before = {path.name: path.read_bytes() for path in Path("zoo").iterdir()}
    monkeypatch.setattr("tidelog.engine.fixpoint.materialise", None)  # nothing is derived again
    rows = tidelog("sparql", "--store", "zoo", "SELECT ?x { ?x a <https://example.org/Animal> }", "-f", "csv")
    assert rows.output.split() == ["x", "https://example.org/tom"]
    assert tidelog("sparql", "--store", "zoo", "ASK { ?x a <https://example.org/Animal> }").output == "true\n"
    assert tidelog("sparql", "--store", "zoo", "ASK { <https://example.org/rex> a ?y }").output == "false\n"
    made = tidelog("sparql", "--store", "zoo", "CONSTRUCT { ?x a <https://example.org/Thing> } { ?x a ?y }")
    assert made.output.count("<https://example.org/Thing>") == 1
    assert (
        "<https://example.org/tom>"
        in tidelog("sparql", "--store", "zoo", "DESCRIBE <https://example.org/tom>").output
    )
    assert before == {path.name: path.read_bytes() for path in Path("zoo").iterdir()}


def test_sparql_asks_a_store_that_somebody_writes_to(tidelog: Tidelog, store: Path) -> None:
    with tl.open(store):
        done = tidelog("sparql", "--store", "kept", "ASK { ?x ?y ?z }")
    assert done.code == 0 and done.output == "false\n" and "holds no triples" in done.error


def test_explain_plan_and_profile_take_a_store(tidelog: Tidelog, store: Path, write: Write) -> None:
    files = {path.name: path.read_bytes() for path in store.iterdir() if path.suffix == ".tide"}
    why = tidelog("explain", "--store", "kept", "ancestor(bob, dora)")
    assert why.code == 0 and "parent(carol, dora)  explicit" in why.output
    assert (
        "+ parent(dora, alice) ."
        in tidelog("explain", "--store", "kept", "--why-not", "ancestor(dora, alice)").output
    )
    assert (
        "- ancestor(carol, dora) ."
        in tidelog("explain", "--store", "kept", "--what-if", "- parent(carol, dora) .").output
    )
    assert "ancestor" in tidelog("plan", "--store", "kept").output
    assert "ancestor" in tidelog("plan", "--store", "kept", "--stage", "strata").output
    assert files == {path.name: path.read_bytes() for path in store.iterdir() if path.suffix == ".tide"}
    write("gone.rls", "- parent(carol, dora) .")
    assert "overdelete" in tidelog("profile", "--store", "kept", "--changes", "gone.rls").output
    assert tidelog("explain", "--store", "kept", "ancestor(bob, dora)").code == 1


def test_a_store_is_opened_as_it_was_made(tidelog: Tidelog, write: Write) -> None:
    write("time.rls", "boxplus[1, 1] p(?x) :- p(?x) . p(a)@0 .")
    assert tidelog("run", "time.rls", "--store", "timed", "--horizon", "0,3").code == 0
    assert "p(a)@[3, 3]" in tidelog("explain", "--store", "timed", "p(a)@3").output
    assert "[3, 3]" in tidelog("query", "--store", "timed", "p(?x)").output
    assert "a" in tidelog("timeline", "--store", "timed", "p(?x)").output
    assert "E835" in tidelog("query", "--store", "timed", "p(?x)", "--horizon", "0,9").error
    write("equal.rls", EQUAL)
    assert tidelog("run", "equal.rls", "--store", "equal", "--equality", "axiomatise").code == 0
    assert "b" in tidelog("query", "--store", "equal", "key(?x, 1)").output


@pytest.mark.parametrize(
    ("arguments", "said"),
    [
        (("explain", "family.rls", "--store", "kept", "--why-not", "parent(a, b)"), "not both"),
        (("plan", "--store", "kept", "--stage", "parsed"), "is not available"),
        (("plan",), "PROGRAM is missing"),
        (("sparql", "ASK {}"), "PROGRAM is missing"),
        (("sparql", "family.rls", "--store", "kept", "ASK {}"), "not both"),
        (("sparql", "--ontology", "zoo.ttl", "--store", "kept", "ASK {}"), "not both"),
        (("sparql", "facts.ttl", "--store", "kept", "ASK {}"), "changes no store"),
        (("profile",), "PROGRAM is missing"),
        (("explain",), "PROGRAM is missing"),
    ],
)
def test_wrong_usage_of_stores_to_look_at(
    tidelog: Tidelog, store: Path, arguments: tuple[str, ...], said: str
) -> None:
    done = tidelog(*arguments)
    assert done.code == 2 and said in done.error
