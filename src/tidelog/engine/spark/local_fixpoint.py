"""The fixpoint of a stratum inside an executor: the columnar engine closes one partition by itself.

A recursion that keeps an argument (`strategies.kept_arguments`) combines facts of equal arguments only. So
facts are partitioned by it, all else that the rules read is sent to every executor, and no partition needs
another. Where rules only ask which values are the same, an id stands for its value in the local dictionary,
and constants are replaced by their ids; else the terms are sent along. Everything here is sent to executors.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Any

import numpy as np
import pyarrow as pa

from tidelog.engine.columnar.arrow import array_of, numbers_of
from tidelog.engine.columnar.dictionary import Dictionary
from tidelog.engine.columnar.evaluate import ColumnarEngine
from tidelog.engine.events import Tally
from tidelog.engine.fixpoint import materialise
from tidelog.engine.spark.compute import batch_of, local_ids, spark_ids
from tidelog.engine.spark.markers import OVERFLOW, TOO_MANY
from tidelog.engine.spark.terms import Hashing, Identities
from tidelog.errors import EvaluationError
from tidelog.logic.program import (
    Assignment,
    Atom,
    Comparison,
    Constant,
    Expression,
    Literal,
    Negation,
    Rule,
    Term,
)
from tidelog.logic.strata import Stratum
from tidelog.logic.values import Kind, Value, integer

OUTPUT_ROWS = 1 << 18  # rows of a batch that goes back to Spark


@dataclass(frozen=True, slots=True)
class Task:
    """What all executors are told: rules, what they read besides their own relations, terms if needed."""

    predicates: tuple[str, ...]
    arities: tuple[int, ...]
    rules: tuple[Rule, ...]
    numbers: tuple[int, ...]
    sides: Mapping[str, tuple[Identities, ...]]
    side_rows: Mapping[str, int]
    terms: tuple[Identities, pa.Array] | None  # in the order of ids; None if ids are enough
    hashing: Hashing
    most: int | None  # facts that may be derived


@dataclass(frozen=True, slots=True)
class Summary:
    """What happened: rounds, and of each rule matches, new facts, and instances without a value."""

    rounds: int = 0
    rules: Mapping[int, tuple[int, int, int]] | None = None

    def __add__(self, other: Summary) -> Summary:
        rules = dict(self.rules or {})
        for number, counts in (other.rules or {}).items():
            before = rules.get(number, (0, 0, 0))
            rules[number] = (before[0] + counts[0], before[1] + counts[1], before[2] + counts[2])
        return Summary(max(self.rounds, other.rounds), rules)


class SummaryParameter:
    """How an accumulator sums summaries up."""

    def zero(self, value: Summary) -> Summary:
        """What nothing is."""
        return Summary()

    def addInPlace(self, one: Summary, other: Summary) -> Summary:  # noqa: N802 - Spark's name
        """Both together."""
        return one + other


@dataclass(frozen=True, slots=True)
class LocalFixpoint:
    """Tagged facts of a partition to all that follows from them in it, tagged too."""

    task: Any  # a broadcast of a Task
    columns: tuple[str, ...]
    texts: tuple[str, ...]  # of columns that may hold new terms
    summary: Any  # an accumulator

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        task: Task = self.task.value
        partition = Partition(task)
        rules: dict[int, tuple[int, int, int]] = {}
        for batch in batches:
            partition.load(batch, self.columns, self.texts, rules)
        if not partition.rows:
            return
        rounds = partition.close(rules)
        self.summary.add(Summary(rounds, rules))
        yield from partition.outcome(self.columns, self.texts)


class Partition:
    """A columnar engine with the facts of one partition. Mutates itself."""

    def __init__(self, task: Task) -> None:
        self.task = task
        self.engine = ColumnarEngine(threads=1, relations=len(task.predicates) + len(task.sides))
        self.rows = 0
        for name, arity in zip(task.predicates, task.arities, strict=True):
            self.engine.define(name, arity)
        for name, columns in task.sides.items():
            self.engine.define(name, len(columns))
            self.engine.add(name, [self._encode(column) for column in columns], task.side_rows[name])

    def _encode(self, identities: Identities, texts: pa.Array | None = None) -> Any:
        """Local ids of ids on Spark, whose new texts may be given."""
        dictionary = self.engine.dictionary
        if self.task.terms is None:
            return dictionary.encode_numbers(Kind.INTEGER, identities)
        distinct, places = np.unique(identities, return_inverse=True)
        known, written = self.task.terms
        found = np.minimum(np.searchsorted(known, distinct), max(len(known) - 1, 0))
        if len(known):
            looked_up = written.take(array_of(found.astype(np.int64)))
        else:
            looked_up = pa.nulls(len(distinct), pa.string())
        is_known = (known[found] == distinct) if len(known) else np.zeros(len(distinct), np.bool_)
        is_known |= distinct < 0
        if texts is not None and not is_known.all():
            looked_up = _completed(distinct, looked_up, is_known, identities, texts)
        elif not is_known.all():
            raise RuntimeError("an id has no term")
        return local_ids(dictionary, distinct, looked_up)[places]

    def load(
        self,
        batch: pa.RecordBatch,
        columns: tuple[str, ...],
        texts: tuple[str, ...],
        rules: dict[int, tuple[int, int, int]],
    ) -> None:
        """Add tagged facts; what rules outside the recursion have derived is counted."""
        tags = numbers_of(batch.column("tag"), "int32")
        numbers = numbers_of(batch.column("rule"), "int32")
        for tag in np.unique(tags).tolist():
            arity = self.task.arities[tag]
            for number in np.unique(numbers[tags == tag]).tolist():
                places = array_of(np.flatnonzero((tags == tag) & (numbers == number)))
                taken = batch.take(places)
                ids = [self._column(taken, name, texts) for name in columns[:arity]]
                new = self.engine.add(self.task.predicates[tag], ids, taken.num_rows)
                self.rows += new
                if number >= 0:
                    before = rules.get(number, (0, 0, 0))
                    rules[number] = (before[0], before[1] + new, before[2])

    def _column(self, batch: pa.RecordBatch, name: str, texts: tuple[str, ...]) -> Any:
        text = f"t{name[1:]}"
        written = batch.column(text) if text in texts and text in batch.schema.names else None
        return self._encode(numbers_of(batch.column(name), "int64"), written)

    def close(self, rules: dict[int, tuple[int, int, int]]) -> int:
        """Derive all that follows; returns the number of rounds."""
        task = self.task
        own = [replace(rule) if task.terms is not None else _opaque(rule, task) for rule in task.rules]
        numbers = {id(rule): number for rule, number in zip(own, task.numbers, strict=True)}
        tally = Tally()
        self.engine.begin(self.engine.relations())
        self.engine.check = self._check
        stratum = Stratum(task.predicates, tuple(own), True)
        try:
            materialise([stratum], numbers, self.engine, tally, self._check)
        except EvaluationError as error:
            raise self._overflow(error) from None
        for number, counts in tally.rules.items():
            rules[number] = (counts.matches, counts.new, counts.no_value)
        return tally.rounds

    def _check(self, found: int = 0, are_answers: bool = False) -> None:
        if self.task.most is not None:
            derived = sum(self.engine.size(name) for name in self.task.predicates) - self.rows + found
            if derived > self.task.most:
                raise RuntimeError(TOO_MANY)

    def _overflow(self, error: EvaluationError) -> RuntimeError:
        fault = error.diagnostics[0]
        pairs = zip(self.task.rules, self.task.numbers, strict=True)
        number = next((number for rule, number in pairs if rule.span == fault.span), self.task.numbers[0])
        return RuntimeError(f"{OVERFLOW} {number}: {fault.message}")

    def outcome(self, columns: tuple[str, ...], texts: tuple[str, ...]) -> Iterator[pa.RecordBatch]:
        """All facts of the stratum's predicates, tagged."""
        for tag, name in enumerate(self.task.predicates):
            ids, rows = self.engine.rows(name)
            for start in range(0, rows, OUTPUT_ROWS):
                end = min(start + OUTPUT_ROWS, rows)
                named: list[tuple[str, Any]] = [("tag", array_of(np.full(end - start, tag, np.int32)))]
                written: dict[str, Any] = {}
                for place, column in enumerate(columns):
                    if place >= len(ids):
                        named.append((column, array_of(np.zeros(end - start, np.int64))))
                        continue
                    identities, terms = self._decode(ids[place][start:end])
                    named.append((column, array_of(identities)))
                    written[f"t{place}"] = terms
                missing = pa.nulls(end - start, pa.string())
                named += [(text, written.get(text, missing)) for text in texts]
                yield batch_of(named)

    def _decode(self, ids: Any) -> tuple[Identities, Any]:
        dictionary: Dictionary = self.engine.dictionary
        if self.task.terms is None:
            return dictionary.payload[ids], pa.nulls(len(ids), pa.string())
        return spark_ids(dictionary, ids, self.task.hashing)


def _completed(
    distinct: Identities, looked_up: pa.Array, is_known: Any, identities: Identities, texts: pa.Array
) -> pa.Array:
    """The texts with those of terms that have just been computed."""
    written = looked_up.to_pylist()
    given = texts.to_pylist()
    first = {identity: place for place, identity in reversed(list(enumerate(identities.tolist())))}
    for place in np.flatnonzero(~is_known).tolist():
        written[place] = given[first[int(distinct[place])]]
    return pa.array(written, pa.string())


# ---- rules over ids


def _opaque(rule: Rule, task: Task) -> Rule:
    """The rule with the id of each constant in its place."""
    dictionary = Dictionary()

    def identity(value: Value) -> Value:
        ids = np.array([dictionary.encode(value)], np.int32)
        return integer(int(spark_ids(dictionary, ids, task.hashing)[0][0]))

    def term(given: Term) -> Term:
        return Constant(identity(given.value)) if isinstance(given, Constant) else given

    def expression(given: Expression) -> Expression:
        return Constant(identity(given.value)) if isinstance(given, Constant) else given

    def atom(given: Atom) -> Atom:
        return Atom(given.predicate, tuple(map(term, given.terms)))

    def literal(given: Literal) -> Literal:
        match given:
            case Atom():
                return atom(given)
            case Negation(negated):
                return Negation(atom(negated))
            case Comparison(operator, left, right):
                return Comparison(operator, expression(left), expression(right))
            case Assignment(variable, value):
                return Assignment(variable, expression(value))
            case _:
                raise TypeError(given)

    return replace(rule, head=atom(rule.head), body=tuple(map(literal, rule.body)))
