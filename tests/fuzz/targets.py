"""The ways in: what each begins with, and what is done with an input. Runs in the scratch folder of a child."""

from __future__ import annotations

import gzip
import io
import json
import re
import shutil
import sys
import tempfile
from collections.abc import Callable, Sequence
from contextlib import redirect_stderr, redirect_stdout
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.ipc
import pyarrow.parquet

import tidelog as tl
from tidelog.__main__ import main
from tidelog.cli.arguments import parse_arguments
from tidelog.errors import SourceText, TidelogError
from tidelog.io.data_file import EXTENSIONS
from tidelog.io.sparql import SparqlStore
from tidelog.pipeline.job_file import parse_settings
from tidelog.reasoner.reasoner import Reasoner
from tidelog.reasoner.store_repair import repair
from tidelog.syntax.parser import parse
from tidelog.syntax.printer import print_document

TESTS = Path(__file__).parents[1]
CORPUS = Path(__file__).parent / "corpus"
PROGRAMS = ("tests/cases/**/*.rls", "examples/*.rls", "tests/errors/*.rls")
LIMITS: dict[str, Any] = {"threads": 1, "timeout": 2.0, "max_facts": 20_000}
_ACTS = re.compile("[\x00-\x08\x0b-\x1f\x7f-\x9f\u202a-\u202e\u2066-\u2069\ud800-\udfff]")


@dataclass(frozen=True)
class Target:
    """A way in: its seeds, whether they are text, and what is done with an input."""

    name: str
    seeds: Callable[[], Sequence[bytes]]
    run: Callable[[bytes], object]
    is_text: bool = True

    def all_seeds(self) -> list[bytes]:
        """Return the seeds and the corpus."""
        return [*self.seeds(), *(path.read_bytes() for path in sorted((CORPUS / self.name).glob("*")))]


def check(run: Callable[[bytes], object], data: bytes) -> None:
    """Run an input; raise what is a fault. Diagnostics are none if they can be shown."""
    try:
        run(data)
    except TidelogError as error:
        assert error.diagnostics, "an error without diagnostics"
        json.dumps([item.to_json() for item in error.diagnostics])
        assert not _ACTS.search(str(error)), f"a diagnostic that acts on terminals: {error!s}"


def _files(*patterns: str, largest: int = 4_000) -> list[bytes]:
    found = sorted(path for pattern in patterns for path in TESTS.parent.glob(pattern))
    return [path.read_bytes() for path in found if path.stat().st_size < largest]


def _text(data: bytes) -> str:
    return data.decode("utf-8", "surrogateescape")


# ---- programs, changes, queries


def _program(data: bytes) -> None:
    text = _text(data)
    if "@export" in text or "resource" in text:  # nothing is written, and nothing read but what is here
        tl.parse(text)
        return
    document = parse(SourceText("<fuzz>", text))
    assert parse(SourceText("<printed>", print_document(document))) == document
    reasoner = Reasoner(tl.parse(text), **LIMITS)
    reasoner.materialise()
    for name in reasoner.program.predicates:
        repr(reasoner[name])


FAMILY = """
parent(alice, bob) . parent(bob, carol) . age(alice, 61) . age(bob, 33.5) . name(carol, "Carol"@en) .
ancestor(?x, ?y) :- parent(?x, ?y) . ancestor(?x, ?z) :- ancestor(?x, ?y), parent(?y, ?z) .
old(?x) :- age(?x, ?a), ?a > 60 . childless(?x) :- parent(_, ?x), ~parent(?x, _) . many(#count(?x)) :- age(?x, _) .
on()@[0, 5] . alarm() :- diamondminus[0, 2] on() .
"""


def _changes(data: bytes) -> None:
    reasoner = Reasoner(tl.parse(FAMILY), **LIMITS)
    reasoner.materialise()
    reasoner.apply(_text(data), missing="ignore")
    repr(reasoner["ancestor"])


CHANGES = (
    b"+ parent(carol, dan) .\n- age(bob, 33.5) .\n",
    b"+ ancestor(?x, ?x) :- parent(?x, _) .\n+ on()@[7, 9] .\n- on()@[1, 2] .\n",
    b'- old(?x) :- age(?x, ?a), ?a > 60 .\n+ name(dan, "D\\u00e4n") .\n+ age(dan, 1E3) .',
)


def _query(data: bytes) -> None:
    for strategy in ("magic", "tabling", "auto"):
        reasoner = Reasoner(tl.parse(FAMILY), **LIMITS)
        repr(reasoner.query(_text(data), strategy))


QUERIES = (
    b"ancestor(alice, ?who)",
    b"?- ancestor(?x, ?y), age(?x, ?a), ?a * 2 > 60, ~parent(?y, _) .",
    b"alarm()@3", b"alarm() during [0, 9]", b'name(?x, ?n), STRLEN(STR(?n)) = 5, ?m = f"{?n}!"',
)  # fmt: skip


@cache
def _sparql_store() -> SparqlStore:
    terms = [["<http://e/a>", "<http://e/b>"], ["<http://e/p>"] * 2, ["<http://e/b>", '"1"']]
    return SparqlStore([pa.table([pa.array(column) for column in terms], names=["s", "p", "o"])])


def _sparql(data: bytes) -> None:
    answer = _sparql_store().query(_text(data))
    if not answer.is_truth:
        answer.write(io.BytesIO(), "nt" if answer.is_graph else "json")


SPARQL = (
    b"PREFIX e: <http://e/> SELECT * WHERE { ?s e:p ?o OPTIONAL { ?o e:p* ?x } FILTER(?s != ?o || 1 + 2 > 3) } LIMIT 5",
    b"ASK { ?s ?p 1 }",
    b'CONSTRUCT { ?o <http://e/q> ?s } WHERE { ?s ?p ?o FILTER(REGEX(STR(?s), "^(a+)+$")) }',
    b"SELECT (COUNT(?s) AS ?n) ?p WHERE { { ?s ?p ?o } UNION { VALUES (?s ?p) { (1 2) (UNDEF 3) } } } GROUP BY ?p",
)


def _job(data: bytes) -> None:
    parse_settings(_text(data), ".")


# ---- data

TYPES = (["any"] * 3, ["int", "double", "string"], ["rdf", "date", "decimal"])


def _data(name: str, compressed: bool = False) -> Callable[[bytes], None]:
    """Return what imports a file of this format into columns of several types, and derives from it."""
    file = "in" + EXTENSIONS[name][0] + (".gz" if compressed else "")

    def run(data: bytes) -> None:
        Path(file).write_bytes(data)
        for types in TYPES:
            columns = ", ".join(f"c{place}: {kind}" for place, kind in enumerate(types))
            program = f'@declare t({columns}) . @import t :- {name} {{ resource = "{file}" }} . u(?x) :- t(?x, _, _) .'
            for on_error in ("fail", "skip"):
                reasoner = Reasoner(tl.parse(program, folder="."), on_error=on_error, **LIMITS)
                try:
                    reasoner.materialise()
                    repr(reasoner["t"])
                    reasoner["u"].to_arrow()
                except TidelogError as error:
                    str(error)
                    if on_error == "skip" and types[-1] == "decimal":
                        raise

    return run


def _table() -> pa.Table:
    return pa.table(
        {
            "c0": pa.array(["a", "b c", "é", "1"]),
            "c1": pa.array([1, -2, 3, 2**60]),
            "c2": pa.array([1.5, 2.0, 1e300, -0.0]),
            "c3": pa.array(["x", "y", "x", "y"]).dictionary_encode(),
        }
    ).select([0, 1, 2])


def _binary(kind: str) -> Callable[[], list[bytes]]:
    def seeds() -> list[bytes]:
        plain = _table()
        texts = plain.set_column(2, "c2", pa.array(["a long text of a view, and more"] * 4, pa.string_view()))
        encoded = plain.set_column(0, "c0", plain.column(0).combine_chunks().dictionary_encode())
        dates = plain.set_column(1, "c1", pa.array([1, None, 3, 2**40]).cast(pa.timestamp("us")))
        found = []
        for table in (plain, texts, encoded, dates):
            sink = pa.BufferOutputStream()
            if kind == "parquet":
                pa.parquet.write_table(table.set_column(2, "c2", table.column(2).cast(pa.string())), sink)
            else:
                new = pa.ipc.new_stream if table is encoded else pa.ipc.new_file
                with new(sink, table.schema) as writer:
                    writer.write_table(table)
            found.append(sink.getvalue().to_pybytes())
        return found

    return seeds


RDF_XML = (
    b"""<?xml version="1.0"?>
<!DOCTYPE rdf:RDF [<!ENTITY e "http://e.org/"><!ENTITY f "&e;f#">]>
<rdf:RDF xmlns:rdf="http://www.w3.org/1999/02/22-rdf-syntax-ns#" xmlns:e="http://e.org/">
<rdf:Description rdf:about="&f;a"><e:name xml:lang="en">Ann &amp; Bob</e:name>
<e:list rdf:parseType="Collection"><e:Thing/><rdf:Description rdf:nodeID="b"/></e:list>
<e:xml rdf:parseType="Literal"><b>x</b></e:xml>
<e:age rdf:datatype="http://www.w3.org/2001/XMLSchema#integer">42</e:age></rdf:Description></rdf:RDF>""",
)
TEXTS: dict[str, tuple[bytes, ...]] = {
    "csv": (b'a,1,1.5\n"b ""c""",2,"x\ny"\n<http://e/x>,-3,"""t""@en"\n', b"c0,c1,c2\na,b,c\n"),
    "tsv": (b"a\t1\t2020-01-01\nb\t2\t\n",),
    "json": (
        b'[{"c0": "a", "c1": 1, "c2": 1.5}, ["b", 2, null], [true, "x", 1e5]]',
        b'[[{"@id": "http://e/x"}, {"@value": "a", "@language": "en"}, {"@value": "1", "@type": "http://e/t"}]]',
    ),
    "jsonl": (b'{"c0": "a", "c1": 1, "c2": "x"}\n{"c0": "\\u00e9", "c1": 2, "c2": "y"}\n["b", 2, 3.5]\n',),
    "ntriples": (
        b'<http://e/a> <http://e/p> "x\\u00e9"@en .\n_:b <p> "1"^^<http://www.w3.org/2001/XMLSchema#int> .\n',
    ),
    "nquads": (b"<http://e/a> <http://e/p> <http://e/b> <http://e/g> .\n<a> <b> _:c .\n",),
    "turtle": (b'@prefix e: <http://e/> . e:a e:p "x"@en, 1, 1.5, [ e:q ( 1 "2" ) ] ; a e:T . # comment\n',),
    "trig": (b'@prefix e: <http://e/> . e:g { e:a e:p "x" } e:a e:p e:b .\n',),
    "rdfxml": RDF_XML,
    "jsonld": (
        b'{"@context": {"@vocab": "http://e/"}, "@id": "http://e/a", "name": {"@value": "x", "@language": "en"}, "p": [1, {"q": 2}]}',
    ),
}


def _text_seeds(name: str) -> Callable[[], Sequence[bytes]]:
    return lambda: TEXTS[name]


def _compressed() -> list[bytes]:
    return [gzip.compress(seed, mtime=0) for seed in TEXTS["csv"]]


# ---- stores: an input is a name, a null byte and the bytes of that file, in a store whose other files are whole


@cache
def _store_files() -> dict[str, bytes]:
    with tempfile.TemporaryDirectory() as parent:
        folder = Path(parent) / "store"
        with tl.open(folder, tl.parse(FAMILY), threads=1) as reasoner:
            reasoner.apply("+ parent(carol, dan) .")
            reasoner.apply("- age(bob, 33.5) .")
        return {path.name: path.read_bytes() for path in sorted(folder.iterdir()) if path.stat().st_size}


def _store_seeds() -> list[bytes]:
    return [name.encode() + b"\0" + data for name, data in _store_files().items()]


def _store(data: bytes) -> None:
    name, _, content = data.partition(b"\0")
    folder = Path("store")
    shutil.rmtree(folder, ignore_errors=True)
    folder.mkdir()
    for whole, bytes_of in _store_files().items():
        (folder / whole).write_bytes(bytes_of)
    known = name.decode("utf-8", "replace")
    (folder / (known if known in _store_files() else sorted(_store_files())[0])).write_bytes(content)
    try:
        with tl.open(folder, read_only=True, threads=1, timeout=5) as reasoner:
            repr(reasoner["ancestor"])
    except TidelogError as error:
        str(error)
    repair(folder)


# ---- the command line: an argument a line

COMMANDS = (
    b"run\nfamily.rls\n--format\njson\n--stats\n--threads\n1",
    b"query\nfamily.rls\nancestor(alice, ?x)\n--strategy\nmagic\n--format\ncsv",
    b"explain\nfamily.rls\nancestor(alice, carol)",
    b"check\nfamily.rls\n--format\njson", b"format\nfamily.rls\n--diff", b"plan\nfamily.rls",
    b"run\nfamily.rls\n--data\ne.csv\n--max-facts\n10\n--timeout\n1s", b"stream\nfamily.rls\nc.changes",
    b"timeline\nfamily.rls", b"sparql\nASK { ?s ?p ?o }\ne.nt", b"store\ncheck\nnowhere", b"profile\nfamily.rls",
)  # fmt: skip
# Commands that wait for people, and those that start a cluster or write where they are told.
_NOT_RUN = frozenset({"repl", "pipeline", "vacuum", "rollback", "diff", "versions", "ontology"})


def _arguments(data: bytes) -> None:
    Path("family.rls").write_text(FAMILY)
    Path("e.csv").write_bytes(TEXTS["csv"][0])
    Path("e.nt").write_bytes(TEXTS["ntriples"][0])
    Path("c.changes").write_bytes(CHANGES[0])
    # No process has a null in its arguments; nothing outside of the folder is written.
    arguments = [re.sub(r"[/\0]", "", argument) for argument in _text(data).split("\n")]
    output, errors = (io.TextIOWrapper(io.BytesIO(), "utf-8", "backslashreplace") for _ in range(2))
    with redirect_stdout(output), redirect_stderr(errors):
        stdin, sys.stdin = sys.stdin, io.TextIOWrapper(io.BytesIO(), "utf-8")
        try:
            try:
                options = parse_arguments(arguments)
            except (SystemExit, TidelogError):
                options = None
            except Exception as error:
                if type(error).__name__ != "UsageError":
                    raise
                options = None
            if options is not None and (options.command in _NOT_RUN or getattr(options, "watch", False)):
                return
            code = main(arguments)
        finally:
            sys.stdin = stdin
    assert code in range(5), f"exit code {code}"
    errors.flush()
    assert isinstance(errors.buffer, io.BytesIO)
    said = errors.buffer.getvalue().decode("utf-8", "replace")
    assert "Traceback" not in said, said


def _targets() -> dict[str, Target]:
    found = [
        Target("program", lambda: _files(*PROGRAMS), _program),
        Target("changes", lambda: [*CHANGES, *_files("tests/cases/**/*.changes")], _changes),
        Target("query", lambda: QUERIES, _query),
        Target("sparql", lambda: SPARQL, _sparql),
        Target("job", lambda: _files("tests/pipeline/jobs/*.toml", "examples/**/*.toml"), _job),
        Target("parquet", _binary("parquet"), _data("parquet"), is_text=False),
        Target("arrow", _binary("arrow"), _data("arrow"), is_text=False),
        Target("gzip", _compressed, _data("csv", compressed=True), is_text=False),
        Target("store", _store_seeds, _store, is_text=False),
        Target("arguments", lambda: COMMANDS, _arguments),
        *(Target(name, _text_seeds(name), _data(name)) for name in TEXTS),
    ]
    return {target.name: target for target in found}


TARGETS = _targets()
