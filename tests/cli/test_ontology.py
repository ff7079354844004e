"""`tidelog ontology`, `tidelog sparql` and `tidelog run --ontology`."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.cli.conftest import Tidelog, Write

PREFIXES = """\
@prefix : <https://example.org/> .
@prefix owl: <http://www.w3.org/2002/07/owl#> .
@prefix rdfs: <http://www.w3.org/2000/01/rdf-schema#> .
@prefix xsd: <http://www.w3.org/2001/XMLSchema#> .
"""
ZOO = """\
:Cat rdfs:subClassOf :Animal . :Animal owl:disjointWith :Plant .
:chip a owl:InverseFunctionalProperty .
:age rdfs:range xsd:nonNegativeInteger .
:Cat rdfs:subClassOf [ owl:onProperty :eats ; owl:someValuesFrom :Fish ] .
"""
ANIMALS = ':tom a :Cat ; rdfs:label "Tom"@en ; :chip "1" ; :age 7 . :tomcat :chip "1" .'
TYPE = "<http://www.w3.org/1999/02/22-rdf-syntax-ns#type>"
TOM = f"<https://example.org/tom> {TYPE} <https://example.org/Animal> ."
SELECT = "PREFIX : <https://example.org/> SELECT ?x WHERE { ?x a :Animal } ORDER BY ?x"


@pytest.fixture(autouse=True)
def files(write: Write) -> None:
    write("zoo.ttl", PREFIXES + ZOO)
    write("animals.ttl", PREFIXES + ANIMALS)


def lines_of(path: str) -> list[str]:
    return Path(path).read_text(encoding="utf-8").splitlines()


def test_run_writes_given_and_inferred_triples(tidelog: Tidelog) -> None:
    done = tidelog("run", "--ontology", "zoo.ttl", "animals.ttl", "--output", "out", "--format", "nt")
    assert (done.code, done.output) == (0, "")
    assert "warning[W710]: outside OWL 2 RL: SubClassOf(example:Cat ObjectSomeValuesFrom(" in done.error
    lines = lines_of("out/triple.nt")
    assert TOM in lines
    assert TOM.replace("tom", "tomcat") in lines  # the same as tom, by the chip
    assert '<https://example.org/tom> <http://www.w3.org/2000/01/rdf-schema#label> "Tom"@en .' in lines
    assert not [line for line in lines if line.startswith('"')]


@pytest.mark.parametrize(
    "words", [["--ontology", "zoo.ttl", "-d", "animals.ttl"], ["animals.ttl", "--ontology", "zoo.ttl"]]
)
def test_inferred_and_given_triples_make_up_all(tidelog: Tidelog, words: list[str]) -> None:
    found = {}
    for which in ("all", "inferred", "explicit"):
        assert tidelog("run", *words, "--triples", which, "-o", which, "-f", "nt", "-q").code == 0
        found[which] = set(lines_of(f"{which}/triple.nt"))
    assert found["inferred"] | found["explicit"] == found["all"]
    assert not found["inferred"] & found["explicit"]
    assert TOM in found["inferred"]
    assert TOM.replace("Animal", "Cat") in found["explicit"]


def test_a_program_reads_what_an_ontology_derives(tidelog: Tidelog, write: Write) -> None:
    write(
        "count.rls",
        "many(#count(?x)) :- [?x, <http://www.w3.org/1999/02/22-rdf-syntax-ns#type>,"
        " <https://example.org/Animal>] . @output many .",
    )
    done = tidelog("run", "count.rls", "--ontology", "zoo.ttl", "animals.ttl", "--format", "csv")
    assert done.output.splitlines() == ["count_x", "2"]
    assert "W102" not in done.error


def test_inconsistency_names_the_rule_and_the_facts(tidelog: Tidelog, write: Write) -> None:
    write("odd.ttl", PREFIXES + ":tom a :Cat , :Plant ; :age -1 .")
    done = tidelog("run", "--ontology", "zoo.ttl", "odd.ttl", "-q")
    assert (done.code, done.output) == (3, "")
    assert "error[E601]: inconsistent: bottom() derived by the rule 'cax-dw'" in done.error
    assert "triple(example:tom, rdf:type, example:Animal) (derived)" in done.error
    assert "triple(example:tom, rdf:type, example:Plant) (explicit)" in done.error
    assert "bottom() derived by the rule 'dt-not-type'" in done.error


SAME_CHIP = (
    "from triple(example:m, owl:sameAs, example:n) (derived), "
    "triple(example:m, owl:differentFrom, example:n) (explicit)",
    "triple(example:m, owl:sameAs, example:n) by the rule 'prp-ifp' from "
    'triple(example:m, example:chip, "2") (explicit), triple(example:n, example:chip, "2") (explicit)',
)
MERGED = ("from triple(example:m, owl:differentFrom, example:n) (explicit), example:n = example:m",)


@pytest.mark.parametrize(("equality", "lines"), [("axiomatise", SAME_CHIP), ("rewrite", MERGED)])
def test_inconsistency_shows_how_its_facts_come_about(
    tidelog: Tidelog, write: Write, equality: str, lines: tuple[str, ...]
) -> None:
    write("odd.ttl", PREFIXES + ':m :chip "2" ; owl:differentFrom :n . :n :chip "2" .')
    done = tidelog("run", "--ontology", "zoo.ttl", "odd.ttl", "--equality", equality)
    assert done.code == 3
    for line in lines:
        assert line in done.error


@pytest.mark.parametrize("equality", ["axiomatise", "rewrite"])
def test_two_literals_for_one_thing_are_shown_with_what_says_so(
    tidelog: Tidelog, write: Write, equality: str
) -> None:
    write("name.ttl", PREFIXES + ":name a owl:FunctionalProperty .")
    write("odd.ttl", PREFIXES + ':tom :name "Tom" , "Tim" .')
    done = tidelog("run", "--ontology", "name.ttl", "odd.ttl", "--equality", equality)
    assert done.code == 3
    assert "by the rule 'prp-fp' from triple(" in done.error
    assert "by the rule 'dt-diff' from triple(\"T" in done.error


@pytest.mark.parametrize("equality", ["axiomatise", "rewrite"])
def test_unique_names_of_an_ontology(tidelog: Tidelog, equality: str) -> None:
    words = ("run", "--ontology", "zoo.ttl", "animals.ttl", "--equality", equality, "-q")
    assert tidelog(*words).code == 0
    done = tidelog(*words, "--unique-names")
    assert (done.code, done.output) == (3, "")
    assert "inconsistent" in done.error
    assert "example:tom" in done.error


def test_queries_and_explanations_by_an_ontology(tidelog: Tidelog, write: Write) -> None:
    write("more.ttl", PREFIXES + ":tim a :Cat .")
    asked = "triple(?x, rdf:type, example:Animal)"
    done = tidelog("query", "--ontology", "zoo.ttl", "animals.ttl", "more.ttl", asked, "-f", "csv", "-q")
    assert done.code == 0
    assert sorted(done.output.split()[1:]) == [
        f"https://example.org/{name}" for name in ("tim", "tom", "tomcat")
    ]
    fact = "triple(example:tim, rdf:type, example:Animal)"
    for words in (["more.ttl", fact], [fact, "--data", "more.ttl"]):
        done = tidelog("explain", "--ontology", "zoo.ttl", *words, "-q")
        assert done.code == 0
        assert "cax-sco" in done.output
    missing = ("--why-not", "triple(example:tim, rdf:type, example:Plant)")
    assert "does not hold" in tidelog("explain", "--ontology", "zoo.ttl", "more.ttl", *missing, "-q").output


def test_inconsistency_of_any_program_shows_facts(tidelog: Tidelog, write: Write) -> None:
    write("odd.rls", "age(a, -1) . age(b, -2) . bottom() :- age(_, ?n), ?n < 0 .")
    done = tidelog("run", "odd.rls")
    assert done.code == 3
    assert "bottom() derived, in 2 ways" in done.error
    assert "help: from age(a, -1) (explicit)" in done.error


def test_rules_that_are_shown_can_be_run(tidelog: Tidelog, write: Write) -> None:
    shown = tidelog("ontology", "zoo.ttl", "--show", "rules", "-q")
    write("zoo.rls", shown.output)
    done = tidelog("run", "zoo.rls", "--data", "animals.ttl", "-o", "out", "-f", "nt")
    assert done.code == 0
    assert TOM in lines_of("out/triple.nt")


def test_coverage(tidelog: Tidelog) -> None:
    lines = tidelog("ontology", "zoo.ttl").output.splitlines()
    assert lines[0] == "5 axioms"
    assert "  SubClassOf(example:Cat ObjectSomeValuesFrom(example:eats example:Fish))" in lines
    assert [line.split() for line in lines if "cax-sco" in line] == [["cax-sco", "1"]]


def test_an_ontology_that_is_not_there(tidelog: Tidelog) -> None:
    done = tidelog("run", "--ontology", "zo.ttl", "animals.ttl")
    assert done.code == 1
    assert "no such file: `zo.ttl`" in done.error
    assert "did you mean `zoo.ttl`?" in done.error


def test_named_graphs_tags_datatypes_and_blank_nodes_survive(tidelog: Tidelog, write: Write) -> None:
    write(
        "data.trig",
        PREFIXES
        + ':g { :tom a :Cat ; rdfs:label "Tom"@en-gb ; :at "7"^^:h . _:b :knows :tom , "a \\"b\\"" . }',
    )
    assert tidelog("run", "--ontology", "zoo.ttl", "data.trig", "-o", "out", "-f", "nt", "-q").code == 0
    graph = "<https://example.org/g>"
    assert sorted(lines_of("out/quad.nq")) == sorted(
        [
            f"<https://example.org/tom> {TYPE} <https://example.org/Cat> {graph} .",
            f'<https://example.org/tom> <http://www.w3.org/2000/01/rdf-schema#label> "Tom"@en-gb {graph} .',
            f'<https://example.org/tom> <https://example.org/at> "7"^^<https://example.org/h> {graph} .',
            f"_:b <https://example.org/knows> <https://example.org/tom> {graph} .",
            f'_:b <https://example.org/knows> "a \\"b\\"" {graph} .',
        ]
    )
    assert TOM in lines_of("out/triple.nt")
    asked = "SELECT ?g WHERE { GRAPH ?g { ?x ?p ?y } } GROUP BY ?g"
    assert tidelog("sparql", "data.trig", asked, "-f", "csv").output.split() == ["g", "https://example.org/g"]


def test_quads_that_were_written_are_read_as_triples_too(tidelog: Tidelog, write: Write) -> None:
    write("data.trig", PREFIXES + ":g { :tom a :Cat . }")
    words = ("run", "--ontology", "zoo.ttl", "-f", "nt", "-q")
    assert tidelog(*words, "data.trig", "-o", "first").code == 0
    assert tidelog(*words, "first/quad.nq", "-o", "second").code == 0
    assert TOM in lines_of("second/triple.nt")
    for name in ("triple.nt", "quad.nq"):
        assert lines_of(f"first/{name}") == lines_of(f"second/{name}")


# ---- SPARQL


def test_select_as_a_table_and_in_files(tidelog: Tidelog) -> None:
    words = ["sparql", "--ontology", "zoo.ttl", "animals.ttl", SELECT, "-q"]
    table = tidelog(*words).output.splitlines()
    assert [line.strip() for line in table[2:]] == ["https://example.org/tom", "https://example.org/tomcat"]
    assert tidelog(*words, "-f", "csv").output.split() == ["x", *(line.strip() for line in table[2:])]
    found = tidelog(*words, "-f", "json").json["results"]["bindings"]
    assert [row["x"]["value"] for row in found] == ["https://example.org/tom", "https://example.org/tomcat"]


def test_ask_and_construct(tidelog: Tidelog) -> None:
    words = ["sparql", "--ontology", "zoo.ttl", "animals.ttl", "-q"]
    assert (
        tidelog(*words, SELECT.replace("SELECT ?x WHERE", "ASK").replace("ORDER BY ?x", "")).output
        == "true\n"
    )
    assert (
        tidelog(*words, "ASK { <https://example.org/tom> a <https://example.org/Plant> }").output == "false\n"
    )
    graph = "CONSTRUCT { ?x a <Beast> } WHERE { ?x a <https://example.org/Animal> }"
    assert f"<https://example.org/tom> {TYPE} <Beast> ." in tidelog(*words, graph).output.splitlines()


def test_names_of_programs_are_names_in_queries(tidelog: Tidelog, write: Write) -> None:
    write("names.rls", '[?y, knows, ?x] :- [?x, knows, ?y] . [ada, knows, bob] . [ada, says, "<b>"] .')
    rows = tidelog("sparql", "names.rls", "SELECT ?x ?y { ?x <knows> ?y } ORDER BY ?x", "-f", "csv")
    assert rows.output.split() == ["x,y", "ada,bob", "bob,ada"]
    assert tidelog("sparql", "names.rls", "SELECT ?y { ?x <says> ?y }", "-f", "csv").output.split() == [
        "y",
        "<b>",
    ]


def test_a_query_that_is_not_sparql_is_shown_with_its_place(tidelog: Tidelog) -> None:
    done = tidelog("sparql", "animals.ttl", "SELECT ?x WHERE { ?x a }")
    assert (done.code, done.output) == (1, "")
    assert "error[E518]: the query is not SPARQL" in done.error
    lines = done.error.splitlines()
    assert lines[1].strip() == "--> <query>:1:24"
    assert lines[4].index("^") == lines[3].index("}")


def test_formats_that_do_not_fit(tidelog: Tidelog) -> None:
    assert tidelog("sparql", "animals.ttl", "SELECT ?x { ?x a ?y }", "-f", "nt").code == 2
    assert tidelog("sparql", "animals.ttl", "CONSTRUCT WHERE { ?x a ?y }", "-f", "csv").code == 2


@pytest.mark.parametrize(
    ("query", "reason", "place"),
    [
        ("INSERT DATA { <a> <b> <c> }", "`INSERT` is an update", "1:1"),
        ("PREFIX : <a>\nDELETE WHERE { ?x ?y ?z }", "`DELETE` is an update", "2:1"),
        ("SELCT ?x { ?x ?y ?z }", "`SELCT` does not begin a query", "1:1"),
        ("SELECT ?x { ?x foo:y ?z }", "the prefix `foo:` is not declared", "1:16"),
        ("SELECT ?x WHERE { ?x ?y ?z", "`{` is not closed", "1:17"),
        ("SELECT ?x { ?x ?y ?z ) }", "`)` has no opening bracket", "1:22"),
        ('SELECT ?x { ?x ?y "a }', "a string is not closed", "1:19"),
        ("SELECT ?x { ?x ?y ?z FILTER(?z > ) }", "a value is missing after `>`", "1:32"),
        ("SELECT ?x { ?x ?y ?z } LIMIT x", "syntax error near `x`", "1:30"),
        ("", "it is empty", "1:1"),
    ],
)
def test_what_is_wrong_with_a_query(tidelog: Tidelog, query: str, reason: str, place: str) -> None:
    done = tidelog("sparql", "animals.ttl", query)
    assert (done.code, done.output) == (1, "")
    assert f"error[E518]: the query is not SPARQL: {reason}" in done.error
    assert f"--> <query>:{place}\n" in done.error


def test_all_columns_are_in_the_order_of_the_query(tidelog: Tidelog) -> None:
    query = "SELECT DISTINCT * { ?s a ?o . OPTIONAL { ?o <none> ?a } { SELECT ?s { ?s ?p ?z } } }"
    for form in ("csv", "json"):
        done = tidelog("sparql", "animals.ttl", query, "-f", form, "-q")
        assert (
            (done.output.split()[0] == "s,o,a") if form == "csv" else done.json["head"]["vars"] == list("soa")
        )


def test_axioms_outside_the_profile_are_one_warning(tidelog: Tidelog, write: Write) -> None:
    write("more.ttl", PREFIXES + ZOO + " :Dog rdfs:subClassOf [ owl:unionOf (:Cat :Cow) ] .")
    done = tidelog("sparql", "--ontology", "more.ttl", "animals.ttl", "ASK { ?x ?y ?z }")
    assert done.error.count("W710") == 1
    assert "help: `tidelog ontology more.ttl` lists them" in done.error
    assert tidelog("ontology", "more.ttl", "--show", "rules").error.count("W710") == 2
