"""Whatever changes in inputs and rules, a run that maintains publishes what a run from scratch would."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import tidelog as tl
from tests.pipeline.conftest import MAY_BE_EMPTY
from tests.pipeline.histories import EVENTS, Facts, Scene, check_difference, check_feeds
from tidelog.io.data_file import FactSource, InputFile
from tidelog.logic.values import ColumnType
from tidelog.pipeline import Source
from tidelog.pipeline.inputs import mark_text

NAMES = st.sampled_from("abcde")
EDGES = st.frozensets(st.tuples(NAMES, NAMES), max_size=8)
LABELS = st.frozensets(st.tuples(NAMES, st.sampled_from(["1", "2", "x", '"a b"', "2.5"])), max_size=4)
RULES = (
    "reach(?x, ?y) :- edge(?x, ?y) .",
    "reach(?x, ?z) :- reach(?x, ?y), edge(?y, ?z) .",
    "reach(?x, ?x) :- label(?x, 1) .",
    "alone(?x) :- label(?x, _), ~reach(?x, _) .",
    "many(?x, #count(?y)) :- reach(?x, ?y) .",
    "label(?y, ?n) :- edge(?x, ?y), label(?x, ?n) .",
)
SOURCES = (
    Source("edge", "edge.csv", header=False, limits=MAY_BE_EMPTY),
    Source("label", "label.tsv", header=False, limits=MAY_BE_EMPTY),
)
STATES = st.tuples(EDGES, LABELS, st.frozensets(st.sampled_from(RULES)), EVENTS)


def written(folder: Path, edges: frozenset[tuple[str, str]], labels: frozenset[tuple[str, str]]) -> None:
    (folder / "edge.csv").write_text("".join(f"{x},{y}\n" for x, y in sorted(edges)))
    (folder / "label.tsv").write_text("".join(f"{x}\t{y}\n" for x, y in sorted(labels)))


def program(rules: frozenset[str]) -> tl.Program:
    declared = "@declare edge(from: any, to: any) . @declare label(of: any, is: any) . label(a, fixed) .\n"
    return tl.parse(declared + "\n".join(rule for rule in RULES if rule in rules))


def expected(folder: Path, rules: frozenset[str]) -> Facts:
    reasoner = tl.Reasoner(program(rules))
    reasoner.read(folder / "edge.csv", folder / "label.tsv", header=False)
    return {name: set(reasoner[name].to_texts("exact").rows()) for name in reasoner}


@settings(max_examples=max(10, settings().max_examples // 4))
@given(st.lists(STATES, min_size=2, max_size=4))
def test_maintaining_publishes_what_deriving_would(states: list[tuple[object, ...]]) -> None:
    check(states)


@pytest.mark.slow
@given(st.lists(STATES, min_size=3, max_size=9))
def test_the_same_for_longer_histories(states: list[tuple[object, ...]]) -> None:
    check(states)


def check(states: list[tuple[object, ...]]) -> None:
    """Every version, and every feed, is what follows from scratch."""
    with Scene(SOURCES, written, program, expected, probe="edge(q, q)").history(states) as (job, held):
        check_feeds(job, held)
        check_difference(job, held)


def test_marks_of_inputs_stay_when_classes_are_renamed() -> None:
    """Manifests hold digests of these texts: others would make every job read its inputs again."""
    file = InputFile(Path("a.csv"), "csv", (ColumnType.STRING,))
    assert mark_text(file).startswith("DataFile(path=PosixPath('a.csv'), format='csv', types=(")
    assert mark_text(FactSource("p", "a.csv")).startswith("Source(predicate='p', path='a.csv', format=None")
    assert mark_text(Source("p", "a.csv")).startswith("Source(predicate='p', path='a.csv', format=None")
