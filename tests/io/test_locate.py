"""On which line of a file a fact stands: found when it is asked for, in every format that has lines."""

from __future__ import annotations

from pathlib import Path

import pytest

import tidelog as tl
from tidelog.reasoner import explaining

FILES = {
    "csv": ('"a",b\nb,"c, d"\n\n17,3\n', "p(17, 3)", 4),
    "tsv": ("a\tb\nb\tc\n", "p(b, c)", 2),
    "jsonl": ('{"x": "a", "y": 1}\n{"x": "b", "y": 11}\n', "p(b, 11)", 2),
    "nt": ("<a:1> <a:2> <a:3> .\n# no\n<a:1> <a:2> <a:4> .\n", "triple(<a:1>, <a:2>, <a:4>)", 3),
}


@pytest.mark.parametrize("ending", sorted(FILES))
def test_facts_of_files_have_lines(ending: str, tmp_path: Path) -> None:
    text, fact, line = FILES[ending]
    path = tmp_path / f"{fact.partition('(')[0]}.{ending}"
    path.write_text(text)
    reasoner = tl.Reasoner()
    reasoner.read(path)
    (proof,) = reasoner.explain(fact).proofs
    assert str(proof.origin).endswith(f"{path.name}:{line}")


def test_a_header_is_no_fact_and_counts_as_a_line(tmp_path: Path) -> None:
    path = tmp_path / "size.csv"
    path.write_text("of,n\nof,n\nant,1\nbee,2\n")
    reasoner = tl.Reasoner(tl.parse("@declare size(n: any, of: any) ."))
    reasoner.read(path, header=True)
    for fact, line in (("size(1, ant)", 3), ("size(2, bee)", 4), ("size(n, of)", 2)):
        (proof,) = reasoner.explain(fact).proofs
        assert str(proof.origin).endswith(f"size.csv:{line}")


def test_what_came_otherwise_has_no_place(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text("a,b\n")
    reasoner = tl.Reasoner()
    reasoner.read(path)
    reasoner.insert("p", [("c", "d")])
    assert str(reasoner.explain("p(c, d)")) == "p(c, d)  explicit"
    assert str(reasoner.explain("p(a, b)")).endswith("p.csv:1")


def test_a_file_that_has_gone_is_named_without_a_line(tmp_path: Path) -> None:
    path = tmp_path / "p.csv"
    path.write_text("a,b\n")
    reasoner = tl.Reasoner()
    reasoner.read(path)
    path.unlink()
    assert str(reasoner.explain("p(a, b)")).endswith("p.csv")


def test_the_search_ends(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(explaining, "MOST_READ", 3)
    path = tmp_path / "p.csv"
    path.write_text("".join(f"{number}1,1\n" for number in range(1, 9)) + "1,1\n")
    reasoner = tl.Reasoner()
    reasoner.read(path)
    assert str(reasoner.explain("p(1, 1)")).endswith("p.csv")


def test_imports_are_looked_at_after_a_restart(tmp_path: Path) -> None:
    (tmp_path / "p.csv").write_text("a,b\nc,d\n")
    program = tl.parse('@import p :- csv{ resource = "p.csv", format = (any, any) } .', folder=tmp_path)
    tl.open(tmp_path / "store", program).close()
    with tl.open(tmp_path / "store") as reasoner:
        assert str(reasoner.explain("p(c, d)")).endswith("p.csv:2")
