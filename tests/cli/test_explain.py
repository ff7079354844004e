"""`tidelog explain`."""

from __future__ import annotations

from pathlib import Path

from tests.cli.conftest import Tidelog, Write

PROOF = """\
ancestor(alice, carol)  rule 2, family.rls:4
├─ ancestor(alice, bob)  rule 1, family.rls:3
│  └─ parent(alice, bob)  explicit, family.rls:1
└─ parent(bob, carol)  explicit, family.rls:2
"""


def test_a_fact_is_explained(tidelog: Tidelog) -> None:
    done = tidelog("explain", "family.rls", "ancestor(alice, carol)")
    assert (done.code, done.output) == (0, PROOF)


def test_the_file_of_data_is_named(tidelog: Tidelog, write: Write) -> None:
    write("parent.csv", "carol,dave\n")
    done = tidelog("explain", "family.rls", "parent(carol, dave)", "--data", "parent.csv")
    assert done.output == "parent(carol, dave)  explicit, parent.csv:1\n"


def test_json_refers_to_nodes_by_their_places(tidelog: Tidelog) -> None:
    record = tidelog("explain", "family.rls", "ancestor(alice, ?x)", "--all", "2", "-f", "json").json
    assert [record["nodes"][place]["statement"] for place in record["proofs"]] == [
        "ancestor(alice, bob)",
        "ancestor(alice, carol)",
    ]
    assert all(child < len(record["nodes"]) for node in record["nodes"] for child in node["children"])


def test_a_page_and_a_graph_are_written_to_files(tidelog: Tidelog, folder: Path) -> None:
    for form, sign in (("html", "<details"), ("dot", "digraph")):
        done = tidelog("explain", "family.rls", "ancestor(alice, carol)", "-f", form, "-o", f"proof.{form}")
        assert (done.code, done.output, done.error) == (0, "", f"wrote proof.{form}\n")
        assert sign in (folder / f"proof.{form}").read_text()


def test_what_does_not_hold_exits_with_1(tidelog: Tidelog) -> None:
    done = tidelog("explain", "family.rls", "ancestor(carol, alice)")
    assert done.code == 1 and done.output == ""
    assert done.error.startswith("error[E655]: `ancestor(carol, alice)` does not hold")


def test_nothing_to_explain_is_wrong_usage(tidelog: Tidelog) -> None:
    assert tidelog("explain", "family.rls", "ancestor(alice, ?x)", "--all", "0").code == 2


def test_why_not_lists_repairs(tidelog: Tidelog) -> None:
    done = tidelog("explain", "family.rls", "--why-not", "ancestor(carol, alice)")
    assert done.code == 0 and "  + parent(carol, alice) ." in done.output.splitlines()
    record = tidelog("explain", "family.rls", "--why-not", "ancestor(carol, alice)", "-f", "json").json
    assert record["repairs"] == ["parent(carol, alice)"]


def test_what_if_prints_what_would_change(tidelog: Tidelog) -> None:
    done = tidelog("explain", "family.rls", "--what-if", "- parent(bob, carol) .")
    assert done.output.splitlines() == [
        "- parent(bob, carol) .",
        "- ancestor(alice, carol) .",
        "- ancestor(bob, carol) .",
    ]
    nothing = tidelog("explain", "family.rls", "--what-if", "+ parent(bob, carol) .")
    assert nothing.output == "nothing would change\n"


def test_one_question_at_a_time(tidelog: Tidelog) -> None:
    assert tidelog("explain", "family.rls").code == 2
    assert tidelog("explain", "family.rls", "parent(a, b)", "--what-if", "- parent(bob, carol) .").code == 2
    assert tidelog("explain", "family.rls", "--why-not", "parent(a, b)", "-f", "dot").code == 2
