"""LUBM(1,0): the tables, the specialised rules and an independent reasoner give the same."""

from __future__ import annotations

import gzip
from collections import Counter
from collections.abc import Iterable
from dataclasses import replace
from pathlib import Path

import pytest

import tidelog as tl
from tests.ontology.turtle import rule_set
from tidelog.ontology.ontology import load_ontology

LUBM = Path(__file__).parents[3] / "shared" / "data" / "lubm"
UB = "http://www.lehigh.edu/~zhp2/2004/0401/univ-bench.owl#"
TYPE = "http://www.w3.org/1999/02/22-rdf-syntax-ns#type"

pytestmark = [
    pytest.mark.slow,
    pytest.mark.skipif(not LUBM.exists(), reason="the data is not in ../shared"),
]


def counts(triples: Iterable[tuple[str, ...]]) -> Counter[str]:
    """How many members each class of the ontology has, and how many pairs each property."""
    found: Counter[str] = Counter()
    for _, predicate, object_ in triples:
        if predicate == TYPE and object_.startswith(UB):
            found[f"a {object_.removeprefix(UB)}"] += 1
        elif predicate.startswith(UB):
            found[predicate.removeprefix(UB)] += 1
    return found


@pytest.fixture(scope="module")
def data(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The data without what is about the ontology, in which names are relative."""
    path = tmp_path_factory.mktemp("lubm") / "lubm1.nt"
    with gzip.open(LUBM / "lubm1.nt.gz", "rt", encoding="utf-8") as lines:
        path.write_text("".join(line for line in lines if line.startswith("<http://www.")), encoding="utf-8")
    return path


def derived(program: tl.Program, *files: Path) -> Counter[str]:
    reasoner = tl.Reasoner(program)
    reasoner.read(*files)
    rows = reasoner["triple"].to_texts("plain").rows()
    return counts(rows)


def test_reasoners_agree_on_lubm(data: Path) -> None:
    reasonable = pytest.importorskip("reasonable")
    ontology = LUBM / "univ-bench.owl"
    tables = derived(rule_set("owl2rl.rls"), ontology, data)
    assert derived(load_ontology(ontology).program, data) == tables
    assert tables["a Person"] > tables["a Student"] > 7000

    peer = reasonable.PyReasoner()
    for number, path in enumerate((ontology, data)):
        turtle = data.with_name(f"{number}.ttl")
        reasoner = tl.Reasoner(tl.parse("@declare triple(s: any, p: any, o: any) ."))
        reasoner.read(path)
        rows = reasoner["triple"].to_texts("ntriples").rows()
        turtle.write_text("".join(f"{' '.join(row)} .\n" for row in rows), encoding="utf-8")
        peer.load_file(str(turtle))
    # It has no row scm-svf1, by which research assistants, who work for some research group, are employees.
    owl = rule_set("owl2rl.rls")
    without = replace(owl, rules=tuple(rule for rule in owl.rules if rule.name != "scm-svf1"))
    agreed = derived(without, ontology, data)
    assert counts(tuple(map(str, row)) for row in peer.reason()) == agreed
    assert {name for name in tables if tables[name] != agreed[name]} == {"a Employee"}
