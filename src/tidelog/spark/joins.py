"""Iterated joins: Spark joins the atoms of each rule, and tasks compute what Spark SQL does not express.

For facts that exceed the memory of all workers, or where executors cannot reach one another: Spark spills,
and each round of a recursion is a job. Begin with `Joins.rows`, on the driver. Atoms become joins, negations
anti-joins (`_RuleBody`). Comparisons, assignments, functions and aggregates are evaluated by the embedded
engine in tasks (`BatchEvaluation`), over one batch, or one group of rows, at a time: only a group has to fit
the memory of a task. Frames that several joins read are checkpointed by Spark, which spills them to disk.

There is no dictionary: columns hold values. Columns that share a variable in some rule are compared, so they
have the same encoding: Spark's own type, if all of them have one type that Spark compares as we do, else the
exact text of a term.

Invariant: after each stratum its frames hold the facts that its rules derive, without duplicates.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import reduce
from itertools import chain
from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from pyspark.sql import DataFrame, SparkSession
from pyspark.sql import functions as F  # noqa: N812 - as Spark users call them
from pyspark.sql import types as spark_types

from tidelog.data import decode
from tidelog.data.dictionary import Dictionary
from tidelog.data.typed_columns import to_typed
from tidelog.engine.interrupts import Limits
from tidelog.errors import Inconsistent
from tidelog.io.arrow_files import read_arrow_data, wanted_columns
from tidelog.io.rejects import OnError
from tidelog.logic.conversions import exact
from tidelog.logic.program import (
    TOP,
    Atom,
    Constant,
    Literal,
    Negation,
    Predicate,
    Program,
    Rule,
    Variable,
    literal_variables,
)
from tidelog.logic.strata import Stratum, strata
from tidelog.logic.type_inference import Inferred
from tidelog.logic.types import ANY, NEVER, Contents, Type, Types, column_of, type_of
from tidelog.logic.values import ColumnType, Value, boolean
from tidelog.reasoner.constraints import told_apart, violated
from tidelog.reasoner.reasoner import Reasoner
from tidelog.records import dataclass
from tidelog.spark.frames import filled, quoted
from tidelog.spark.schemas import InputSchema, OutputSchema, ReadableRows, SharedColumns, arrow_of, spark_type
from tidelog.spark.strategies import MemoryLimit, MeteredBatches
from tidelog.spark.worker import NULLS, REJECTS, TAG, VIOLATIONS, CollectedRejects, InputColumns

ROWS: Final = 1 << 16  # that a task evaluates at once, where rows do not depend on each other
CONSOLIDATED: Final = 8  # rounds after which the parts of a relation become one: plans would grow with them
BEFORE, AFTER = "rows before", "rows after"  # the relations of the program that a task runs
REJECTED: Final = spark_types.StructType(
    [spark_types.StructField(name, spark_types.StringType()) for name in ("place", "code", "reason", "row")]
)
ONE_GROUP: Final = "an aggregate is computed from all rows of a group at once"
ROW: Final = Variable(" row")  # no variable of a program has a space

_NATIVE: Mapping[Type, spark_types.DataType] = {
    Type.INTEGER: spark_types.LongType(),
    Type.STRING: spark_types.StringType(),
    Type.BOOLEAN: spark_types.BooleanType(),
    Type.DATE: spark_types.DateType(),
}


@dataclass(frozen=True)
class ColumnEncoding:
    """How a column holds its values: those of one type as Spark has them, else the exact text of terms."""

    type: Type | None

    @property
    def types(self) -> Types:
        """What the column can hold."""
        return ANY if self.type is None else frozenset({self.type})

    @property
    def spark(self) -> spark_types.DataType:
        """Spark's type of the column."""
        return spark_types.StringType() if self.type is None else _NATIVE[self.type]

    @property
    def read_as(self) -> ColumnType:
        """How the embedded engine reads the column."""
        return ColumnType.TERM if self.type is None else column_of(self.types)

    def literal(self, value: Value) -> Any:
        """Return a constant as the column holds it."""
        if self.type is None:
            return F.lit(exact(value))
        if self.type is Type.DATE:
            return F.date_from_unix_date(F.lit(value.content))
        return F.lit(value.content).cast(self.spark)


TRUE, TEXT = ColumnEncoding(Type.BOOLEAN), ColumnEncoding(None)


# A column of a predicate, or a variable of the rule of this number.
ColumnOrVariable = tuple[str, int] | tuple[int, Variable]


@dataclass
class Joins:
    """The frames of all predicates. Mutable: they grow, stratum by stratum."""

    session: SparkSession
    program: Program
    compared: ComparedColumns
    limits: Limits
    limit: MemoryLimit = field(default_factory=MemoryLimit)  # on the memory of each task
    frames: dict[str, DataFrame] = field(default_factory=dict)
    nothing: dict[str, DataFrame] = field(default_factory=dict)  # a frame without rows, by predicate

    @staticmethod
    def of(
        program: Program, inferred: Inferred, session: SparkSession, limits: Limits, limit: MemoryLimit
    ) -> Joins:
        """Return the joins of a program, without facts."""
        apart = told_apart(program)
        return Joins(session, apart, ComparedColumns(apart, inferred), limits, limit)

    def rows(
        self,
        inputs: Iterable[tuple[DataFrame, InputSchema]],
        outputs: Mapping[str, OutputSchema],
        shared: SharedColumns,
        on_error: OnError,
        keeps_violations: bool,
    ) -> DataFrame:
        """Derive everything, and return the rows of all outputs in one frame, as tasks return them."""
        parts = []
        for frame, schema in inputs:
            rejects = self.read(schema.predicate.name, frame, schema, on_error)
            if rejects is not None and on_error is OnError.COLLECT:
                parts.append(_tagged(REJECTS, rejects, shared))
            if schema.nulls:
                counting = BatchRejects(schema.reading(), schema.predicate.written, are_counted=True)
                counts = _columns_of(frame, schema).mapInArrow(counting, REJECTED)
                parts.append(_tagged(NULLS, counts, shared))
        self.add_program_facts()
        self.run()
        faults = violated(self.program, lambda name: not self.frames[name].isEmpty())
        if faults and not keeps_violations:
            raise Inconsistent(faults)
        if faults:
            texts = [(fault.code, fault.message) for fault in faults]
            violations = self.session.createDataFrame(texts, "code string, message string")
            parts.append(_tagged(VIOLATIONS, violations, shared))
        for name, output in outputs.items():
            parts.append(_tagged(name, self.typed(output.predicate.name, output), shared))
        return _union(parts)

    def run(self) -> None:
        """Derive everything: each round is a job."""
        numbers = {id(rule): number for number, rule in enumerate(self.program.rules)}
        for name in self.program.predicates:
            frame = self.frames.get(name)
            # Otherwise each rule and round of a recursion would read it and remove duplicates again.
            self.frames[name] = self.empty(name) if frame is None else self._checkpointed(name, frame)
        for stratum in strata(self.program.rules):
            self._close(stratum, numbers)

    def empty(self, name: str) -> DataFrame:
        """Return a frame of a predicate without facts."""
        return self.session.createDataFrame([], self.schema(name))

    def schema(self, name: str) -> spark_types.StructType:
        """Return the schema of a predicate's frame; one without arguments also has a column."""
        return _schema(self.encodings(name))

    def encodings(self, name: str) -> list[ColumnEncoding]:
        """Return how the columns of a predicate hold their values."""
        arity = self.program.predicates[name].arity
        return [self.compared.encoding((name, place)) for place in range(arity)] or [TRUE]

    def add_program_facts(self) -> None:
        """Add the explicit facts of the program to the frames."""
        explicit: dict[str, dict[tuple[Any, ...], None]] = {}
        for fact in self.program.facts:
            explicit.setdefault(fact.predicate, {})[fact.values] = None
        for name, rows in explicit.items():
            encodings = self.encodings(name)
            dictionary = Dictionary()
            columns = list(zip(*(row or (boolean(True),) for row in rows), strict=True))
            ids = [np.array([dictionary.encode(value) for value in column], np.int32) for column in columns]
            arrays = [
                arrow_column(dictionary, ids_of_column, encoding)
                for ids_of_column, encoding in zip(ids, encodings, strict=True)
            ]
            table = pa.Table.from_arrays(arrays, names=self.schema(name).names)
            self.add(name, self.session.createDataFrame(table))

    def read(self, name: str, frame: DataFrame, schema: InputSchema, on_error: OnError) -> DataFrame | None:
        """Add the rows of an input; return rejects as rows of place, code, reason and row."""
        rows = _columns_of(frame, schema)
        if not schema.columns:
            self.add(name, frame.limit(1).select(F.lit(True).alias("c0")))
            return None
        encodings = self.encodings(name)
        native_types = [column_of(types) for types in schema.types]
        is_native = all(
            encoding.type and encoding.read_as is native is declared
            for encoding, native, declared in zip(encodings, native_types, schema.read_as, strict=True)
        )
        if is_native and not schema.nulls and schema.fields is None:
            return self._add_native(name, rows, schema, on_error)
        program = _copying(len(encodings))
        label = schema.predicate.written
        reading = schema.reading()
        task = BatchEvaluation(
            program,
            schema.read_as,
            tuple(encodings),
            label,
            on_error=on_error,
            reading=reading,
            limit=self.limit,
        )
        self.add(name, rows.mapInArrow(task, _schema(encodings)))
        if on_error is OnError.FAIL:
            return None
        return rows.mapInArrow(BatchRejects(reading, label), REJECTED)

    def _add_native(
        self, name: str, rows: DataFrame, schema: InputSchema, on_error: OnError
    ) -> DataFrame | None:
        """Add rows that are encoded already; some values may be missing."""
        readable = ReadableRows(rows, schema, on_error)
        cast = (
            F.col(quoted(column)).cast(field.dataType).alias(field.name)
            for column, field in zip(rows.columns, self.schema(name), strict=True)
        )
        self.add(name, readable.good.select(*cast))
        return None if on_error is OnError.FAIL else readable.rejects

    def typed(self, name: str, output: OutputSchema) -> DataFrame:
        """Return the facts of a predicate with the types of an output."""
        encodings, frame = self.encodings(name), self.frames[name]
        fields = tuple(output.fields)
        names = [column for column, _ in fields]
        if all(
            encoding.spark == spark_type and encoding.type
            for encoding, (_, spark_type) in zip(encodings, fields, strict=True)
        ):
            return frame.toDF(*names)
        program = _copying(len(encodings))
        reads = tuple(encoding.read_as for encoding in encodings)
        task = BatchEvaluation(program, reads, output.types, f"`{name}`", limit=self.limit)
        return frame.mapInArrow(task, output.schema)

    def add(self, name: str, frame: DataFrame) -> None:
        """Add facts, which may repeat existing ones."""
        existing = self.frames.get(name)
        self.frames[name] = frame.distinct() if existing is None else existing.union(frame).distinct()

    def _close(self, stratum: Stratum, numbers: Mapping[int, int]) -> None:
        """Derive the predicates of a stratum: by all rules at first, then by those that read new facts."""
        bodies = {id(rule): _RuleBody(self, rule, numbers[id(rule)]) for rule in stratum.rules}
        derived = [(rule, bodies[id(rule)].heads(self.frames)) for rule in stratum.rules]
        if not stratum.recursive:
            for name in stratum.predicates:
                parts = [frame for rule, frame in derived if rule.head.predicate == name]
                self.frames[name] = self._checkpointed(name, _union([self.frames[name], *parts]).distinct())
            return
        new = self._new(stratum, derived)
        rounds = 0
        while new:
            rounds += 1
            for name, frame in new.items():
                grown = self.frames[name].union(frame)
                self.frames[name] = self._checkpointed(name, grown) if rounds % CONSOLIDATED == 0 else grown
            derived = [
                (rule, bodies[id(rule)].heads(self.frames, atom, new[atom.predicate]))
                for rule in stratum.rules
                for atom in rule.positive
                if atom.predicate in new
            ]
            new = self._new(stratum, derived)

    def _new(self, stratum: Stratum, derived: Sequence[tuple[Rule, DataFrame]]) -> dict[str, DataFrame]:
        """Return the new facts of each predicate that has some."""
        new = {}
        for name in stratum.predicates:
            parts = [frame for rule, frame in derived if rule.head.predicate == name]
            if parts:
                existing = self.frames[name]
                frame = self._checkpointed(
                    name, _union(parts).distinct().join(existing, existing.columns, "left_anti")
                )
                if self._count(frame):
                    new[name] = frame
        return new

    def _checkpointed(self, name: str, frame: DataFrame) -> DataFrame:
        """Return the facts of a predicate, computed once and kept by the executors, in memory or on disk.

        A checkpointed frame keeps the constraints that Spark has inferred for its plan, such as that a column
        is not null, some of them on columns that it does not have: a union of such frames would fail with
        "key not found". A union keeps only the constraints of all its parts, and an empty checkpointed frame
        has none. It has no partitions either, so that no task runs for it.
        """
        if name not in self.nothing:
            self.nothing[name] = self.empty(name).localCheckpoint(eager=False)
        return frame.union(self.nothing[name]).localCheckpoint(eager=False)

    def _count(self, frame: DataFrame) -> int:
        rows = frame.count()
        self.limits.tally.derived += rows
        self.limits.check()
        return rows


class _RuleBody:
    """The body of a rule as joins, and its head.

    Matches are frames with a column for each variable, and one more, `ROW`, which is always true: a frame
    needs a column where a rule has no variables.
    """

    def __init__(self, joins: Joins, rule: Rule, number: int) -> None:
        self.joins = joins
        self.rule = rule
        self.number = number
        self.atoms = tuple(atom for atom in rule.positive if atom.predicate != TOP)
        self.rest = tuple(literal for literal in rule.body if not isinstance(literal, Atom))

    def heads(
        self, frames: Mapping[str, DataFrame], pivot: Atom | None = None, new: DataFrame | None = None
    ) -> DataFrame:
        """Return the heads of all instances; only those whose `pivot` is among the new rows, if given."""
        matches = self._matches(frames, pivot, new)
        pending: list[Literal] = []
        for place, literal in enumerate(self.rest):
            if isinstance(literal, Negation):
                matches, pending = self._tested(matches, pending, self.rest[place:]), []
                negated = self._atom(frames[literal.atom.predicate], literal.atom)
                matches = _joined(matches, negated.select(*_shared(matches, negated)), "left_anti")
            else:
                pending.append(literal)
        return self._head(matches, pending)

    def _matches(
        self, frames: Mapping[str, DataFrame], pivot: Atom | None, new: DataFrame | None
    ) -> DataFrame:
        """Return the values of variables for which all atoms hold."""
        matches = self.joins.session.range(1).select(F.lit(True).alias(ROW.name))
        waiting = [(atom, frames[atom.predicate]) for atom in self.atoms]
        if pivot is not None and new is not None:
            waiting.remove((pivot, frames[pivot.predicate]))
            waiting.insert(0, (pivot, new))
        while waiting:
            bound = set(matches.columns)
            place = next((place for place, (atom, _) in enumerate(waiting) if bound & set(_columns(atom))), 0)
            atom, frame = waiting.pop(place)
            atom_rows = self._atom(frame, atom)
            joined = _joined(matches, atom_rows, "inner" if set(atom_rows.columns) - bound else "left_semi")
            needed = self._needed((*(atom for atom, _ in waiting), *self.rest))
            matches = joined.select(*(name for name in joined.columns if name in needed))
        return matches

    def _atom(self, frame: DataFrame, atom: Atom) -> DataFrame:
        """Return the values of an atom's variables, in columns of their names."""
        places: dict[Variable, int] = {}
        for place, term in enumerate(atom.terms):
            if isinstance(term, Constant):
                encoding = self.joins.compared.encoding((atom.predicate, place))
                frame = frame.where(F.col(f"c{place}") == encoding.literal(term.value))
            elif term in places:
                frame = frame.where(F.col(f"c{place}") == F.col(f"c{places[term]}"))
            else:
                places[term] = place
        return frame.select(*(F.col(f"c{place}").alias(variable.name) for variable, place in places.items()))

    def _needed(self, literals: Iterable[Literal]) -> set[str]:
        """Return the columns that literals, the head and aggregates read."""
        rule = self.rule
        aggregated = (term for aggregation in rule.aggregations for term in aggregation.arguments)
        terms = (ROW, *rule.head.terms, *rule.group, *aggregated)
        names = {term.name for term in terms if isinstance(term, Variable)}
        for literal in (*literals, *rule.after):
            names.update(variable.name for variable in literal_variables(literal))
        return names

    def _tested(
        self, matches: DataFrame, pending: Sequence[Literal], following: Sequence[Literal]
    ) -> DataFrame:
        """Return the matches that satisfy the tests, with the assigned variables."""
        if not pending:
            return matches
        assigned = chain.from_iterable(map(literal_variables, pending))
        needed = self._needed(following)
        variables = dict.fromkeys((*map(Variable, matches.columns), *assigned))
        after = tuple(variable for variable in variables if variable.name in needed)
        rows = self._run(matches, pending, Rule(Atom(AFTER, after), ()), list(map(self._encoding, after)))
        return rows.toDF(*(variable.name for variable in after))

    def _head(self, matches: DataFrame, pending: Sequence[Literal]) -> DataFrame:
        """Return the heads of the matches, after the last tests and the aggregates."""
        rule, compared = self.rule, self.joins.compared
        terms = rule.head.terms or (ROW,)
        encodings = [
            compared.encoding((rule.head.predicate, place)) for place in range(len(rule.head.terms))
        ] or [TRUE]
        group = None
        if rule.aggregations:
            matches, group = self._grouped(matches.distinct())
        elif not pending:
            chosen = (
                encoding.literal(term.value) if isinstance(term, Constant) else F.col(term.name)
                for term, encoding in zip(terms, encodings, strict=True)
            )
            return matches.select(*(column.alias(f"c{place}") for place, column in enumerate(chosen)))
        inner = replace(rule, head=Atom(AFTER, terms), body=(), places=())
        return self._run(matches, pending, inner, encodings, group)

    def _grouped(self, matches: DataFrame) -> tuple[DataFrame, tuple[str, ...]]:
        """Return the matches, partitioned and sorted by group, and the columns of groups.

        All are one group if there are no columns, or if tasks compute them.
        """
        group = tuple(variable.name for variable in self.rule.group)
        if not group or not set(group) <= set(matches.columns):
            return matches.repartition(1), ()
        columns = [F.col(quoted(name)) for name in group]
        return matches.repartition(*columns).sortWithinPartitions(*columns), group

    def _run(
        self,
        matches: DataFrame,
        tests: Sequence[Literal],
        rule: Rule,
        encodings: Sequence[ColumnEncoding],
        group: tuple[str, ...] | None = None,
    ) -> DataFrame:
        """Return the heads of a rule whose body is the matches and some tests."""
        before = tuple(map(Variable, matches.columns))
        rule = replace(rule, body=(Atom(BEFORE, before), *tests))
        program = _program(rule)
        reads = tuple(self._encoding(variable).read_as for variable in before)
        limit = self.joins.limit if group is None else replace(self.joins.limit, undivided=ONE_GROUP)
        task = BatchEvaluation(program, reads, tuple(encodings), group=group, limit=limit)
        return matches.mapInArrow(task, _schema(encodings))

    def _encoding(self, variable: Variable) -> ColumnEncoding:
        return TRUE if variable == ROW else self.joins.compared.encoding((self.number, variable))


def _copying(columns: int) -> Program:
    """Return the program whose `rows after` are the `rows before`, with this number of columns."""
    terms = tuple(Variable(f"x{place}") for place in range(columns))
    return _program(Rule(Atom(AFTER, terms), (Atom(BEFORE, terms),)))


@dataclass(frozen=True)
class BatchEvaluation:
    """A program from `rows before` to `rows after`, evaluated over one batch at a time.

    An aggregate is evaluated over all rows of a `group`: the columns by which rows are sorted, none if all
    rows are one group.
    """

    program: Program
    reads: tuple[ColumnType, ...]
    writes: tuple[ColumnEncoding | Contents, ...]
    label: str = BEFORE  # of the rows in messages
    group: tuple[str, ...] | None = None
    on_error: OnError = OnError.FAIL
    reading: InputColumns | None = None  # how the rows are read, if they are those of an input
    limit: MemoryLimit = field(default_factory=MemoryLimit)

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield the rows that the program derives from each part."""
        metered = MeteredBatches(batches)
        yield from self.limit.within(self._rows(metered), metered)

    def _rows(self, batches: Iterable[Any]) -> Iterator[Any]:
        for part in self._parts(batches):
            reasoner = Reasoner(self.program, threads=1)
            self._load(reasoner, pa.Table.from_batches(part))
            coded = reasoner[AFTER].coded
            arrays = [
                arrow_column(coded.dictionary, ids, contents)
                for ids, contents in zip(coded.columns, self.writes, strict=True)
            ]
            table = pa.Table.from_arrays(arrays, names=[f"c{place}" for place in range(len(arrays))])
            yield from table.to_batches(ROWS)

    def _load(self, reasoner: Reasoner, table: Any) -> None:
        faults = CollectedRejects(OnError.FAIL if self.on_error is OnError.FAIL else OnError.SKIP)
        if self.reading is not None:
            batches = self.reading.batches(table, self.label, faults)
        else:
            columns = wanted_columns(table.schema, self.reads, (), self.label)
            batches = read_arrow_data([table], columns, faults)
        reasoner.load(BEFORE, batches)
        faults.check()

    def _parts(self, batches: Iterable[Any]) -> Iterator[list[Any]]:
        """Yield lists of batches, as each part starts a reasoner; groups are not divided."""
        part: list[Any] = []
        rows = 0
        for batch in batches:
            cut = self._cut(part, batch) if rows >= ROWS else None
            if cut is not None:
                yield [*part, batch.slice(0, cut)]
                batch, part, rows = batch.slice(cut), [], 0
            part.append(batch)
            rows += batch.num_rows
        if part:
            yield part

    def _cut(self, part: Sequence[Any], batch: Any) -> int | None:
        """Return how many rows of a batch still belong to a part; None if all of them do."""
        if self.group is None:
            return 0
        rows = pa.Table.from_batches([part[-1].slice(part[-1].num_rows - 1), batch]).combine_chunks()
        changes = np.zeros(batch.num_rows, bool)
        for name in self.group:
            column = rows.column(name)
            changes |= pc.not_equal(column[1:], column[:-1]).to_numpy()
        starts = np.flatnonzero(changes)
        return int(starts[-1]) if len(starts) else None


@dataclass(frozen=True)
class BatchRejects:
    """The rejected rows of an input, a batch at a time, or the counts of missing values."""

    reading: InputColumns
    label: str
    are_counted: bool = False

    def __call__(self, batches: Iterable[Any]) -> Iterator[Any]:
        """Yield place, code, reason and row of each reject; or place, column, action and number of rows."""
        for batch in batches:
            faults = CollectedRejects(OnError.COLLECT)
            for _ in self.reading.batches(pa.Table.from_batches([batch]), self.label, faults):
                pass
            counts = [(*action, str(rows)) for action, rows in faults.nulls.items()]
            lines = counts if self.are_counted else faults.collected
            texts = zip(*lines, strict=True) if lines else ()
            if columns := [pa.array(map(str, column), pa.string()) for column in texts]:
                yield pa.RecordBatch.from_arrays(columns, names=list(REJECTED.names))


def arrow_column(dictionary: Any, ids: Any, encoding: ColumnEncoding | Contents) -> Any:
    """Return values in the encoding of a column, or in the types of an output."""
    if encoding == TEXT:
        return decode.to_texts(dictionary, ids, "exact").cast(pa.string())
    contents = Contents(encoding.types) if isinstance(encoding, ColumnEncoding) else encoding
    return to_typed(dictionary, ids, contents).cast(arrow_of(spark_type(contents)))


def _columns_of(frame: DataFrame, schema: InputSchema) -> DataFrame:
    """Return the columns of a frame that hold the arguments of its predicate, in their order."""
    return frame.select(*(F.col(quoted(column)) for column in schema.columns))


class ComparedColumns:
    """Columns and variables that are compared, as classes of a union-find. Mutable: classes merge."""

    def __init__(self, program: Program, inferred: Inferred) -> None:
        self._parent: dict[ColumnOrVariable, ColumnOrVariable] = {}
        self._types: dict[ColumnOrVariable, Types] = {}
        for predicate in program.predicates.values():
            for place, types in enumerate(inferred.of(predicate)):
                self._include((predicate.name, place), types)
        for number, rule in enumerate(program.rules):
            for literal in (rule.head, *rule.body):
                atom = literal.atom if isinstance(literal, Negation) else literal
                if isinstance(atom, Atom):
                    self._include_atom(number, atom)

    def encoding(self, column: ColumnOrVariable) -> ColumnEncoding:
        """Return how a column, or a variable of a rule, holds its values."""
        types = self._types.get(self._find(column), NEVER)
        only_type = next(iter(types)) if len(types) == 1 else None
        return ColumnEncoding(only_type if only_type in _NATIVE else None)

    def _include_atom(self, number: int, atom: Atom) -> None:
        for place, term in enumerate(atom.terms):
            if isinstance(term, Constant):
                self._include((atom.predicate, place), frozenset({type_of(term.value)}))
            else:
                self._merge((atom.predicate, place), (number, term))

    def _include(self, column: ColumnOrVariable, types: Types) -> None:
        root = self._find(column)
        self._types[root] = self._types.get(root, NEVER) | types

    def _merge(self, left: ColumnOrVariable, right: ColumnOrVariable) -> None:
        first, second = self._find(left), self._find(right)
        if first != second:
            self._parent[second] = first
            self._include(first, self._types.pop(second, NEVER))

    def _find(self, column: ColumnOrVariable) -> ColumnOrVariable:
        while (above := self._parent.get(column, column)) != column:
            self._parent[column] = self._parent.get(above, above)
            column = above
        return column


def _program(rule: Rule) -> Program:
    """Return the program of one rule from `rows before` to `rows after`."""
    predicates = {}
    for atom in (rule.head, *rule.positive):
        arity = len(atom.terms)
        any_type = (ColumnType.ANY,) * arity
        predicates[atom.predicate] = Predicate(
            atom.predicate, arity, (None,) * arity, any_type, atom.predicate
        )
    return Program(predicates, (rule,))


def _columns(atom: Atom) -> Iterator[str]:
    return (term.name for term in atom.terms if isinstance(term, Variable))


def _shared(left: DataFrame, right: DataFrame) -> list[str]:
    return [name for name in right.columns if name in left.columns]


def _joined(left: DataFrame, right: DataFrame, kind: str) -> DataFrame:
    """Join two frames on the columns that both have; a cross join if there are none."""
    shared = _shared(left, right)
    return left.join(right, shared, kind) if shared else left.join(right, F.lit(True), kind)


def _union(frames: Sequence[DataFrame]) -> DataFrame:
    return reduce(lambda left, right: left.union(right), frames)


def _schema(encodings: Sequence[ColumnEncoding]) -> spark_types.StructType:
    fields = [
        spark_types.StructField(f"c{place}", encoding.spark) for place, encoding in enumerate(encodings)
    ]
    return spark_types.StructType(fields)


def _tagged(name: str, frame: DataFrame, shared: SharedColumns) -> DataFrame:
    """Return the rows of an output in the shared columns, with a tag."""
    columns = dict(zip(shared.of[name], frame.columns, strict=True))
    return frame.select(F.lit(name).alias(TAG), *filled(columns, shared.types))
