"""Programs in the manner of Nemo's give Nemo's results: its users' rules run here unchanged.

Random programs are left to clingo: Nemo 0.10 panics on some, and on others loses a negated atom whose
arguments are all anonymous.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

import tidelog as tl
from tidelog.logic.conversions import exact
from tidelog.logic.values import Value, boolean, double, integer, iri, language_string, string

nemo = pytest.importorskip("nmo_python")

Facts = dict[str, set[tuple[str, ...]]]

PROGRAMS = {
    "ancestors and siblings": """
        parent(ada, byron). parent(ada, annabella). parent(elizabeth, byron). parent(ralph, ada).
        ancestor(?x, ?y) :- parent(?x, ?y).
        ancestor(?x, ?z) :- ancestor(?x, ?y), parent(?y, ?z).
        half_sibling(?x, ?y) :- parent(?x, ?p), parent(?y, ?p), ?x != ?y.
        only_child(?x) :- parent(?x, _), ~half_sibling(?x, _).
    """,
    "flights with stops": """
        @prefix a: <http://air.example/> .
        flight(a:BER, a:CDG, 880). flight(a:CDG, a:JFK, 5840).
        flight(a:BER, a:LHR, 930). flight(a:LHR, a:JFK, 5540).
        trip(?x, ?y, ?d, 0) :- flight(?x, ?y, ?d).
        trip(?x, ?z, ?d + ?e, ?n + 1) :- trip(?x, ?y, ?d, ?n), flight(?y, ?z, ?e), ?n < 2.
        shortest(?x, ?y, #min(?d)) :- trip(?x, ?y, ?d, _).
        via(?x, ?z, #count(?y)) :- flight(?x, ?y, _), flight(?y, ?z, _).
    """,
    "strings": """
        word("banana"). word("Apple"). word("fig"). word("été").
        shout(?w, UCASE(?w)) :- word(?w).
        part(?w, SUBSTR(?w, 2, 2)) :- word(?w).
        long(?w, ?n) :- word(?w), ?n = STRLEN(?w), ?n > 3.
        joined(CONCAT(?v, "-", ?w)) :- word(?v), word(?w), STRLEN(?v) < STRLEN(?w).
        starts(?w) :- word(?w), STRSTARTS(?w, "b").
        other(?w) :- word(?w), CONTAINS(?w, "a") = false.
    """,
    "arithmetic": """
        n(1). n(2). n(7). n(-3).
        total(?x, ?y, ?x + ?y) :- n(?x), n(?y), ?x < ?y.
        square(?x * ?x) :- n(?x).
        half(?x, ?x / 2) :- n(?x).
        rest(?x, REM(?x, 2)) :- n(?x).
        real(?x, DOUBLE(?x) / 2) :- n(?x).
        biggest(?x, MAX(?x, 2)) :- n(?x).
        zero(?x) :- n(?x), ?x - ?x = 0.
        none(?y) :- n(?x), ?y = ?x / 0.
    """,
    "graph colours": """
        edge(1, 2). edge(2, 3). edge(3, 1). edge(3, 4). edge(4, 4).
        linked(?x, ?y) :- edge(?x, ?y).
        linked(?y, ?x) :- linked(?x, ?y).
        reach(?x, ?x) :- linked(?x, _).
        reach(?x, ?z) :- reach(?x, ?y), linked(?y, ?z).
        triangle(?x, ?y, ?z) :- edge(?x, ?y), edge(?y, ?z), edge(?z, ?x).
        loop(?x) :- edge(?x, ?x).
        no_way_back(?x, ?y) :- edge(?x, ?y), ~edge(?y, ?x).
        degree(?x, #count(?y)) :- linked(?x, ?y).
    """,
    "strata of negation": """
        item(a). item(b). item(c). item(d). broken(a). mended(a). broken(b).
        bad(?x) :- broken(?x), ~mended(?x).
        good(?x) :- item(?x), ~bad(?x).
        untouched(?x) :- good(?x), ~broken(?x).
        rest(?x) :- item(?x), ~untouched(?x).
    """,
    "aggregates": """
        sale(ann, tea, 3). sale(ann, milk, 2). sale(bob, tea, 5). sale(bob, tea, 3). sale(cid, milk, 2).
        total(?who, #sum(?n, ?what)) :- sale(?who, ?what, ?n).
        kinds(?who, #count(?what)) :- sale(?who, ?what, _).
        most(#max(?n)) :- sale(_, _, ?n).
        least(?what, #min(?n)) :- sale(_, ?what, ?n).
        scaled(?who, #sum(?n) * 10) :- sale(?who, _, ?n).
        above(?who) :- total(?who, ?t), most(?m), ?t > ?m.
    """,
    "terms of every kind": """
        @prefix ex: <http://example.org/> .
        v(1, 12). v(2, "text"). v(3, name). v(4, ex:iri). v(5, "chat"@fr). v(6, 1.5e0). v(7, true).
        copy(?x, ?k) :- v(?k, ?x).
        text(?k, STR(?x)) :- v(?k, ?x).
        names(?k) :- v(?k, ?x), isIri(?x) = true.
        numbers(?k, ?x) :- v(?k, ?x), isNumeric(?x) = true.
        french(?k, LANG(?x)) :- v(?k, ?x), isNumeric(?x) = false, ?x != true.
        same(?k, ?l) :- v(?k, ?x), v(?l, ?y), ?x = ?y.
    """,
    "several heads": """
        person(ann, 30, rome). person(bob, 41, bonn).
        name(?x), age(?x, ?a), lives(?x, ?c) :- person(?x, ?a, ?c).
        city(?c), seen(?c, yes) :- lives(_, ?c).
    """,
    "constants": """
        p(a, 1). p(b, 2). q(1).
        r(?x, constant, "text", 5) :- p(?x, ?n), q(?n).
        s(found) :- p(b, 2), q(1).
        t(found) :- p(b, 1).
    """,
    "mutual recursion": """
        succ(0, 1). succ(1, 2). succ(2, 3). succ(3, 4). even(0).
        odd(?y) :- even(?x), succ(?x, ?y).
        even(?y) :- odd(?x), succ(?x, ?y).
        counted(?y, ?n + 1) :- counted(?x, ?n), succ(?x, ?y).
        counted(?x, 0) :- even(?x), ~succ(_, ?x).
    """,
    "a grammar as a chart": """
        token(0, 1, "a"). token(1, 2, "a"). token(2, 3, "b"). token(3, 4, "b").
        s(?i, ?k) :- token(?i, ?j, "a"), token(?j, ?k, "b").
        s(?i, ?l) :- token(?i, ?j, "a"), s(?j, ?k), token(?k, ?l, "b").
        parsed(yes) :- s(0, 4).
    """,
}


def value_of(item: Any) -> Value | None:
    """The value that Nemo's Python binding stands for."""
    match item:
        case bool():
            return boolean(item)
        case int():
            return integer(item)
        case float():
            return double(item)
        case str() if item.startswith("<"):
            return iri(item[1:-1])
        case str() if item.startswith('"'):
            return string(item[1:-1])
        case str():
            return iri(item)
    language = item.language()
    assert language is not None, item
    return language_string(str(item.value()), language)


def theirs(text: str, names: list[str]) -> Facts:
    engine = nemo.NemoEngine(nemo.load_string(text))
    engine.reason()
    found: Facts = {}
    for name in names:
        rows = [[value_of(item) for item in row] for row in engine.result(name)]
        found[name] = {tuple(exact(value) for value in row if value is not None) for row in rows}
    return found


def ours(text: str) -> Facts:
    reasoner = tl.Reasoner(tl.parse(text))
    return {name: set(reasoner[name].to_texts("exact").rows()) for name in reasoner}


@pytest.mark.parametrize("text", PROGRAMS.values(), ids=PROGRAMS.keys())
def test_programs_give_nemos_facts(text: str) -> None:
    found = ours(text)
    assert found == theirs(text, list(found))


def test_imported_files_give_nemos_facts(tmp_path: Path) -> None:
    (tmp_path / "edges.csv").write_text('a,b,1\nb,c,2.5\n"two words",c,-7\n<http://x>,"a,b",007\n')
    (tmp_path / "names.tsv").write_text('key\tname\na\t"Ann"\nb\t"Bob"@en\n')
    text = f"""
        @import edge :- csv {{ resource="{tmp_path}/edges.csv", format=(any, any, any) }} .
        @import name :- tsv {{ resource="{tmp_path}/names.tsv", format=(any, any), ignore_headers=true }} .
        from(?x, ?y) :- edge(?x, ?y, _).
        weight(?w) :- edge(_, _, ?w), isInteger(?w) = true.
        named(?n) :- edge(?x, _, _), name(?x, ?n).
    """
    found = ours(text)
    names = ["from", "weight", "named", "name"]
    assert {name: found[name] for name in names} == theirs(text, names)
