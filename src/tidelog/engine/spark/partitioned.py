"""A stratum closed inside the executors: facts partitioned by the argument that the recursion keeps."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from functools import reduce
from time import perf_counter
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
from pyspark.sql import Column, Observation
from pyspark.sql import functions as sql

from tidelog.engine.columnar.arrow import numbers_of
from tidelog.engine.events import RoundEnded, RuleRan
from tidelog.engine.spark.jobs import ManyFacts, observed
from tidelog.engine.spark.local_fixpoint import LocalFixpoint, Summary, SummaryParameter, Task
from tidelog.engine.spark.strategies import needs_terms, recursive_rules, side_relations
from tidelog.engine.spark.tagging import STATED, TAG, Tagging, count_by_relation, new_terms
from tidelog.engine.spark.terms import ID, TERM, Identities
from tidelog.logic.strata import Stratum

if TYPE_CHECKING:
    from tidelog.engine.spark.derivation import Derivation

KEY = "kept"
ROWS_OF_A_PARTITION = 1_000_000


def close_in_executors(derivation: Derivation, place: int, stratum: Stratum, kept: Mapping[str, int]) -> int:
    """Derive all of the stratum; returns the most rounds that a partition took."""
    engine = derivation.engine
    store = engine.store
    start = perf_counter()
    tagging = Tagging(stratum.predicates, tuple(map(engine.arity, stratum.predicates)))
    recursive = recursive_rules(stratum)
    outer = [rule for rule in stratum.rules if rule not in recursive and not engine.is_idle(rule)]
    heads = [(rule, derivation.numbers[id(rule)], derivation.heads_of(rule)) for rule in outer]
    texts = tagging.texts(head for _, _, head in heads)
    stated = {name: engine.stated(name) for name in stratum.predicates}
    frames = [tagging.tagged(rule.head.predicate, head.frame, number, texts) for rule, number, head in heads]
    frames += [
        tagging.tagged(name, source.frame, STATED, texts)
        for name, source in stated.items()
        if source is not None
    ]
    if not frames:
        derivation.listen(RoundEnded(place, 1, 0))
        return 1
    with_terms = needs_terms(stratum)
    found = [f"t{column[1:]}" for column in tagging.columns] if with_terms else texts
    summary = store.session.sparkContext.accumulator(Summary(), SummaryParameter())  # type: ignore[arg-type]
    task = store.session.sparkContext.broadcast(_task(derivation, stratum, tagging, with_terms))
    local = LocalFixpoint(task, tuple(tagging.columns), tuple(found), summary)
    schema = ", ".join(
        [f"{TAG} int", *(f"{name} long" for name in tagging.columns), *(f"{text} string" for text in found)]
    )
    seeds = reduce(lambda one, other: one.unionAll(other), frames).withColumn(KEY, _key(tagging, kept))
    rows = sum(engine.about(atom.predicate) for rule in outer for atom in rule.positive)
    partitions = max(store.partitions, -(-rows // ROWS_OF_A_PARTITION))
    closed = seeds.repartition(partitions, KEY).drop(KEY).mapInArrow(local, schema)
    counted = Observation()
    terms_found = [sql.count(text).alias(text) for text in found]
    closed = closed.observe(counted, *count_by_relation(tagging), *terms_found)
    names = ", ".join(stratum.predicates)
    try:
        frame = store.jobs.run(
            f"stratum {place + 1}: fixpoint of {names} in executors", closed.localCheckpoint
        )
    except ManyFacts:
        most = engine.max_facts or 0
        derivation.listen(RuleRan(place, 1, derivation.numbers[id(recursive[0])], most + 1, most + 1, 0, 0.0))
        derivation.check()
        raise
    finally:
        task.unpersist()
    sizes = observed(counted, [f"p{number}" for number in range(len(tagging.relations))])
    for name, size in zip(tagging.relations, sizes, strict=True):
        engine.keep(name, tagging.only(frame, name), size, stated[name])
    if found:
        new = sum(observed(counted, found))
        if new:
            store.add_terms(new_terms(frame, found), new)
    _tell(derivation, place, heads, summary.value, perf_counter() - start)
    derivation.check()
    return max(1, summary.value.rounds)


def _tell(derivation: Derivation, place: int, heads: Any, summary: Summary, seconds: float) -> None:
    """Say what each rule did, in all partitions."""
    counts = dict(summary.rules or {})
    share = seconds / max(1, len(counts))
    for _, number, head in heads:
        _, new, _ = counts.pop(number, (0, 0, 0))
        derivation.tell(place, 1, number, [head], new, share)
    for number, (matches, new, missing) in counts.items():
        derivation.listen(RuleRan(place, 1, number, matches, new, missing, share))
    derived = sum(new for _, new, _ in (summary.rules or {}).values())
    derivation.listen(RoundEnded(place, max(1, summary.rounds), derived))


def _key(tagging: Tagging, kept: Mapping[str, int]) -> Column:
    """The argument that a fact is partitioned by."""
    key = sql.col(f"c{kept[tagging.relations[0]]}")
    for tag, name in enumerate(tagging.relations[1:], 1):
        key = sql.when(sql.col(TAG) == tag, sql.col(f"c{kept[name]}")).otherwise(key)
    return key


def _task(derivation: Derivation, stratum: Stratum, tagging: Tagging, with_terms: bool) -> Task:
    engine = derivation.engine
    store = engine.store
    sides: dict[str, tuple[Identities, ...]] = {}
    rows: dict[str, int] = {}
    for name in sorted(side_relations(stratum)):
        sides[name], rows[name] = engine.wide_rows(name)
    rules = recursive_rules(stratum)
    numbers = tuple(derivation.numbers[id(rule)] for rule in rules)
    derived = derivation.engine.max_facts
    terms = _terms(derivation) if with_terms else None
    plain = tuple(replace(rule) for rule in rules)
    return Task(
        tagging.relations, tagging.arities, plain, numbers, sides, rows, terms, store.hashing, derived
    )


def _terms(derivation: Derivation) -> tuple[Identities, pa.Array]:
    """All terms, in the order of their ids."""
    store = derivation.engine.store
    lexicon = store.lexicon
    if lexicon is None:
        return np.zeros(0, np.int64), pa.array([], pa.string())
    table = store.jobs.run("fetching the dictionary", lexicon.toArrow).sort_by(ID)
    terms = table.column(TERM).combine_chunks()
    return numbers_of(table.column(ID).combine_chunks(), "int64"), terms.cast(pa.string())
