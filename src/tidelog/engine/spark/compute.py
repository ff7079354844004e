"""What executors compute with tidelog's own evaluator: functions, comparisons, aggregates.

A function on Spark means what it means everywhere, since it is the columnar engine that computes it: each
batch of rows becomes a relation of a small engine inside the executor, and a plan runs over it. Everything
here is sent to executors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from tidelog.engine.columnar.arrow import array_of, mask_of, numbers_of
from tidelog.engine.columnar.dictionary import Dictionary
from tidelog.engine.columnar.evaluate import ColumnarEngine
from tidelog.engine.columnar.exact import ids_of_terms
from tidelog.engine.spark.markers import OVERFLOW
from tidelog.engine.spark.terms import (
    Hashing,
    Identities,
    are_whole,
    exact_texts,
    identities_of,
    number_identities,
    numbers,
)
from tidelog.logic.builtins import Overflow
from tidelog.logic.program import Atom, Rule, Variable
from tidelog.logic.values import Kind
from tidelog.plan.algebra import Aggregate, Extend, Filter, Node, Part, Project, RulePlan, Scan

Ids = Any  # columns of the local dictionary's ids

ROW = Variable("row number")
GIVEN, FOUND = "given", "found"
MANY_TERMS = 1 << 20  # from which a local dictionary is begun anew


# ---- ids of an executor's own dictionary


def local_ids(dictionary: Dictionary, identities: Identities, texts: pa.Array) -> Ids:
    """The ids in a dictionary of terms, whose texts are given but for whole numbers."""
    ids = np.empty(len(identities), np.int32)
    is_whole = identities < 0
    ids[is_whole] = dictionary.encode_numbers(Kind.INTEGER, numbers(identities[is_whole]))
    if not is_whole.all():
        ids[~is_whole] = ids_of_terms(texts.filter(mask_of(~is_whole)), dictionary)
    return ids


def spark_ids(dictionary: Dictionary, ids: Ids, hashing: Hashing) -> tuple[Identities, pa.Array]:
    """The ids on Spark of ids of a dictionary, and the texts, null where they are whole numbers."""
    distinct, places = np.unique(ids, return_inverse=True)
    is_whole = are_whole(dictionary, distinct)
    identities = number_identities(dictionary.payload[distinct])
    texts: list[str | None] = [None] * len(distinct)
    if not is_whole.all():
        others = np.flatnonzero(~is_whole)
        written = exact_texts(dictionary, distinct[others])
        identities[others] = identities_of(written, hashing)
        for place, text in zip(others.tolist(), written.to_pylist(), strict=True):
            texts[place] = text
    return identities[places], pa.array(texts, pa.string()).take(array_of(places.astype(np.int64)))


def batch_of(columns: Sequence[tuple[str, Any]]) -> pa.RecordBatch:
    """Columns with names as a batch."""
    return pa.RecordBatch.from_arrays([column for _, column in columns], names=[name for name, _ in columns])


def overflow(rule: int, error: Overflow) -> RuntimeError:
    """An overflow in a rule, as a message that the driver understands."""
    return RuntimeError(f"{OVERFLOW} {rule}: {error}")


# ---- tests and functions


@dataclass(frozen=True, slots=True)
class Argument:
    """A variable whose values are needed: the columns of its ids, and of its texts if it may be a term."""

    variable: Variable
    column: str
    text: str | None


@dataclass(frozen=True, slots=True)
class Computation:
    """Tests and functions over rows: those that pass, with ids and texts of what was computed."""

    steps: tuple[
        Filter | Extend, ...
    ]  # in the order in which they are computed; what they read is not looked at
    arguments: tuple[Argument, ...]
    kept: tuple[str, ...]
    computed: tuple[tuple[Variable, str, str], ...]  # variable, column of ids, column of texts
    rule: int
    hashing: Hashing
    missing: Any  # an accumulator of rows that were dropped for want of a value

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        engine = ColumnarEngine(threads=1)
        for batch in batches:
            if len(engine.dictionary) > MANY_TERMS:
                engine = ColumnarEngine(threads=1)
            if batch.num_rows:
                yield self._compute(engine, batch)

    def _compute(self, engine: ColumnarEngine, batch: pa.RecordBatch) -> pa.RecordBatch:
        columns = [engine.dictionary.encode_numbers(Kind.INTEGER, np.arange(batch.num_rows))]
        for argument in self.arguments:
            identities = numbers_of(batch.column(argument.column), "int64")
            texts = batch.column(argument.text) if argument.text else pa.nulls(len(identities), pa.string())
            columns.append(local_ids(engine.dictionary, identities, texts))
        rows, found = self._run(engine, columns, batch.num_rows)
        places = array_of(engine.dictionary.payload[rows])
        outcome = [(name, batch.column(name).take(places)) for name in self.kept]
        for (_, column, text), ids in zip(self.computed, found, strict=True):
            identities, texts = spark_ids(engine.dictionary, ids, self.hashing)
            outcome += [(column, array_of(identities)), (text, texts)]
        return batch_of(outcome)

    def _run(self, engine: ColumnarEngine, columns: Sequence[Ids], rows: int) -> tuple[Ids, list[Ids]]:
        """The numbers of the rows that pass, and the computed columns."""
        given = (ROW, *(argument.variable for argument in self.arguments))
        terms = (ROW, *(variable for variable, _, _ in self.computed))
        for relation, width in ((GIVEN, len(given)), (FOUND, len(terms))):
            if relation in engine.relations():
                engine.drop(relation)
            engine.define(relation, width)
        engine.add(GIVEN, columns, rows)
        engine.begin([GIVEN, FOUND])
        scan = Scan(GIVEN, Part.ALL, given)
        node: Node = scan
        for step in self.steps:
            node = (
                Filter(node, step.test)
                if isinstance(step, Filter)
                else Extend(node, step.variable, step.expression)
            )
        plan = RulePlan(FOUND, Project(node, terms), Rule(Atom(FOUND, terms), ()), self.rule, scan)
        try:
            outcome = engine.prepare(plan)()
        except Overflow as error:
            raise overflow(self.rule, error) from None
        self.missing.add(outcome.no_value)
        numbers_found, *found = (column.copy() for column in engine.rows(FOUND)[0])
        return numbers_found, found


# ---- aggregates


@dataclass(frozen=True, slots=True)
class Grouping:
    """The facts that follow from groups of rows; all rows of a group are in one partition.

    A variable whose values nobody looks at keeps its id: that stands in the local dictionary as a number.
    """

    root: Aggregate
    arguments: tuple[
        Argument, ...
    ]  # in the order of the collected relation's columns; opaque ones without text
    opaque: frozenset[Variable]
    columns: tuple[str, ...]
    texts: tuple[str, ...]  # of all columns
    rule: int
    hashing: Hashing
    missing: Any

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        engine = ColumnarEngine(threads=1)
        relation = self.root.input.relation
        engine.define(relation, len(self.arguments))
        rows = 0
        for batch in batches:
            rows += engine.add(relation, self._columns(engine.dictionary, batch), batch.num_rows)
        if not rows:
            return
        try:
            columns, count, missing = engine.groups(self.root)
        except Overflow as error:
            raise overflow(self.rule, error) from None
        self.missing.add(missing)
        outcome: list[tuple[str, Any]] = []
        if not columns:
            yield batch_of([(self.columns[0], array_of(np.zeros(count, np.int64)))])
            return
        for term, ids, name, text in zip(self.root.terms, columns, self.columns, self.texts, strict=True):
            if term in self.opaque:
                identities = engine.dictionary.payload[ids]
                texts = pa.nulls(len(ids), pa.string())
            else:
                identities, texts = spark_ids(engine.dictionary, ids, self.hashing)
            outcome += [(name, array_of(identities)), (text, texts)]
        yield batch_of(outcome)

    def _columns(self, dictionary: Dictionary, batch: pa.RecordBatch) -> list[Ids]:
        columns = []
        for argument in self.arguments:
            identities = numbers_of(batch.column(argument.column), "int64")
            if argument.variable in self.opaque:
                columns.append(dictionary.encode_numbers(Kind.INTEGER, identities))
            else:
                texts = (
                    batch.column(argument.text) if argument.text else pa.nulls(len(identities), pa.string())
                )
                columns.append(local_ids(dictionary, identities, texts))
        return columns
