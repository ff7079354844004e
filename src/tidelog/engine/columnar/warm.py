"""Compiling all kernels at once: on the first run of a machine, so that no later run has to wait."""

from __future__ import annotations

from collections.abc import Callable
from math import isqrt

import numpy as np

from tidelog import compiled
from tidelog.engine.columnar import runner
from tidelog.engine.columnar.change_runner import codes_of
from tidelog.engine.columnar.closures import EquivalenceClosure, TransitiveClosure
from tidelog.engine.columnar.evaluate import ColumnarEngine
from tidelog.engine.columnar.maintain import MaintainedEngine
from tidelog.engine.columnar.round_runner import RoundRunner
from tidelog.engine.events import Tally
from tidelog.engine.fixpoint import materialise
from tidelog.engine.maintaining import Flag, Where
from tidelog.io.columns import Batch, column_of_values
from tidelog.io.fields import survey, text_views
from tidelog.io.plain_triples import term_views
from tidelog.logic.resolve import resolve
from tidelog.logic.strata import strata
from tidelog.logic.values import Kind, integer
from tidelog.plan.compile import delta_plan
from tidelog.syntax.parser import parse_text

# Between them these rules need every kernel: sets dense and hashed, indexes direct, hashed and partial,
# membership, negation, arithmetic, text.
PROGRAM = """
    text("a b", "c") . names(a, b) . wide(1, 2, 3, 4) . triple(1, 2, 3) . triple(2, 2, 1) .
    two(?x, ?z) :- pair(?x, ?y), pair(?y, ?z), ?x < 10, ?z != ?y .
    closed(?x, ?y) :- pair(?x, ?y), ?x < 5, ?y < 5 .
    closed(?x, ?z) :- closed(?x, ?y), closed(?y, ?z), ~triple(?x, ?y, ?z) .
    sum(?x, ?s) :- pair(?x, ?y), ?x < 9, ?s = ?x + ?y * 2 - 1 .
    triple(?z, ?y, ?x) :- triple(?x, ?y, ?z), triple(?x, 2, _), ~wide(?x, ?y, _, _) .
    wide(?w, ?z, ?y, ?x) :- wide(?x, ?y, ?z, ?w), ~wide2(?x, ?x, ?y, ?z) .
    wide2(1, 1, 2, ?n) :- text(?n, _), text(_, ?m), ?n < ?m .
    all(?y, ?x) :- pair(?x, ?y) .
    degree(?x, #count(?y)) :- two(?x, ?y) .
"""
LINKS = 200  # of a chain that is long enough for every kernel over closures
SIDE = isqrt(runner.PARALLEL_FROM) + 1  # pairs of so many numbers are enough for several threads
LINES = 4096  # texts enough to let a dictionary grow


def ensure(group: str, tell: Callable[[str], None]) -> None:
    """Let a group of kernels be in the cache; if it takes a while, the user is told."""
    if not compiled.is_warm(group):
        notice, compile_group = GROUPS[group]
        tell(notice)
        compile_group()
        compiled.mark_warm(group)


def compile_all() -> None:
    """All kernels are compiled, or loaded."""
    for group, (_, compile_group) in GROUPS.items():
        compile_group()
        compiled.mark_warm(group)


def compile_kernels() -> None:
    """The kernels that materialise are compiled, or loaded if an earlier run has compiled them."""
    program = resolve(parse_text(PROGRAM))
    for dense_bytes in (1 << 20, 1 << 10):
        engine = ColumnarEngine(threads=2)
        engine.dense_bytes = dense_bytes
        for predicate in program.predicates.values():
            engine.define(predicate.name, predicate.arity)
        pairs = [(integer(number // SIDE), integer(number % SIDE)) for number in range(SIDE * SIDE)]
        engine.load("pair", Batch(tuple(map(column_of_values, zip(*pairs, strict=True))), len(pairs)))
        for fact in program.facts:
            engine.load(fact.predicate, Batch(tuple(column_of_values([value]) for value in fact.values), 1))
        engine.begin(engine.relations())
        numbers = {id(rule): place for place, rule in enumerate(program.rules)}
        materialise(strata(program.rules), numbers, engine, Tally(), lambda: None)
        rule = program.rules[0]
        ready = [engine.prepare(delta_plan(rule, 0, ("pair",), 0, engine))]
        RoundRunner(engine).run(ready)
        RoundRunner(engine).run_to_end(ready, np.array([engine.table("pair").number]))
        lines = b"".join(b"%d\ttext\n" % number for number in range(LINES))
        for column in text_views(lines, survey(lines), "\t", 2, (0, 1)) or ():
            engine.dictionary.encode_texts(Kind.STRING, column)
        triples = b'<a> <b> "c" .\n'
        for column in term_views(triples, survey(triples)) or ():
            engine.dictionary.encode_terms(column)
        engine.dictionary.encode_any(engine.dictionary.texts(engine.rows("text")[0][0]), parse_numbers=True)
        engine.table("pair").find(engine.rows("pair")[0], len(pairs))


def compile_changes() -> None:
    """The kernels of transactions are compiled, or loaded: a fact is stated, taken back, and put back."""
    engine = MaintainedEngine(threads=1)
    engine.define("pair", 2)
    pair = np.arange(2, dtype=np.int32)
    for finish in (engine.commit, engine.roll_back):
        engine.begin_transaction()
        facts = engine.facts("pair", (pair[:1], pair[1:]), 1, create=True)
        engine.mark(facts, set=Flag.EXPLICIT | Flag.ALIVE)
        engine.standing_of(engine.ids(facts))
        engine.gathered(engine.row_set(codes_of(facts, engine)))
        engine.count(engine.select(facts, Where(Flag.ALIVE, Flag.ALIVE)), 1)
        engine.raise_ranks(engine.select_supported(facts) | engine.select_unfounded(facts))
        engine.settle(["pair"])
        engine.rebase()
        finish()
    engine.begin_transaction()
    engine.compile_ranks([]).run(engine.every("pair"), engine.none())
    engine.commit()


def compile_closures() -> None:
    """The kernels of closures are compiled, or loaded: a chain is made, cut, joined again and taken back."""
    for closure in (TransitiveClosure(), EquivalenceClosure()):
        closure.checkpoint()
        chain = np.arange(LINKS + 1, dtype=np.int32)
        closure.add(chain[:-1], chain[1:])
        for some in (slice(LINKS // 2, LINKS // 2 + 1), slice(LINKS - 1, None), slice(None)):
            closure.delete(chain[:-1][some], chain[1:][some])
            closure.add(chain[:-1][some], chain[1:][some])
        closure.contains(chain, chain)
        closure.pairs()
        closure.roll_back()
        closure.checkpoint()


GROUPS: dict[str, tuple[str, Callable[[], None]]] = {
    "run": ("compiling kernels for this machine: about 25 s, this once", compile_kernels),
    "changes": ("compiling kernels for changes: about 10 s, this once", compile_changes),
    "closures": ("compiling kernels for closures: about 15 s, this once", compile_closures),
}
