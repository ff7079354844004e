"""Plans as frames: one node of a plan after the other becomes joins, tests and columns of data frames.

Scans, joins and negation compare ids and are Spark's own. Tests and functions are the columnar engine's,
inside the executors, but for equality: equal values have equal ids.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

from pyspark.sql import Column, DataFrame, Observation
from pyspark.sql import functions as sql

from tidelog.engine.spark.compute import Argument, Computation, Grouping
from tidelog.engine.spark.store import Store, columns_of
from tidelog.engine.spark.terms import ID, TERM
from tidelog.logic.program import (
    Comparison,
    Constant,
    Expression,
    Term,
    Variable,
    literal_variables,
    variables_of,
)
from tidelog.plan.algebra import (
    Aggregate,
    AntiJoin,
    ChangePlan,
    Extend,
    Filter,
    Join,
    Node,
    Part,
    Project,
    RulePlan,
    Scan,
    Unit,
)

UNIT = "unit"  # the column of rows without variables
UNBOUNDED = float("inf")


@dataclass(frozen=True, slots=True)
class Source:
    """A part of a relation: its rows, and at most how many they are."""

    frame: DataFrame
    rows: float


Sources = Callable[[str, Part], Source]


@dataclass(frozen=True, slots=True)
class Bindings:
    """Rows of variables: a column of ids for each, and one of texts for those that were computed."""

    frame: DataFrame
    variables: tuple[Variable, ...]
    rows: float
    texts: frozenset[Variable] = frozenset()


@dataclass(frozen=True, slots=True)
class Heads:
    """The heads of a rule's instances, as often as they follow; `t0`, `t1`… are texts that may be new."""

    frame: DataFrame
    fresh: tuple[int, ...]  # the columns that may hold terms which no dictionary has
    matches: Observation
    missing: Any  # an accumulator of instances that lack a value


@dataclass(slots=True)
class Translation:
    """The frames of one rule's plans."""

    store: Store
    sources: Sources
    rule: int
    missing: Any
    _names: dict[Variable, int] = field(default_factory=dict)

    def heads(self, plan: RulePlan | ChangePlan) -> Heads:
        """The heads of the plan's instances."""
        root = plan.root
        assert isinstance(root, Project)
        bound = self.bind(root.input)
        matches = Observation()
        frame = bound.frame.observe(matches, sql.count(sql.lit(1)).alias("matches"))
        columns = [
            self._value(term).alias(name)
            for term, name in zip(root.terms, columns_of(len(root.terms)), strict=bool(root.terms))
        ] or [sql.lit(0).cast("long").alias("c0")]
        fresh = tuple(place for place, term in enumerate(root.terms) if term in bound.texts)
        texts = [self._text(root.terms[place]).alias(f"t{place}") for place in fresh]
        return Heads(frame.select(*columns, *texts), fresh, matches, self.missing)

    def groups(self, collected: Heads, root: Aggregate) -> Heads:
        """The facts that follow from groups of the collected rows."""
        variables = tuple(term for term in root.input.terms if isinstance(term, Variable))
        columns = columns_of(len(variables))
        distinct = (
            collected.frame.groupBy(*columns).agg(
                *(sql.max(f"t{place}").alias(f"t{place}") for place in collected.fresh)
            )
            if collected.fresh
            else collected.frame.select(*columns).distinct()
        )
        looked_at = _looked_at(root)
        arguments = []
        for place, variable in enumerate(variables):
            text = f"t{place}" if place in collected.fresh else None
            if variable in looked_at and text is None:
                distinct, text = self._with_text(distinct, f"c{place}", f"t{place}")
            arguments.append(Argument(variable, f"c{place}", text))
        opaque = frozenset(variables) - looked_at
        keys = [f"c{variables.index(variable)}" for variable in root.group]
        parted = distinct.repartition(*keys) if keys else distinct.repartition(1)
        names = tuple(columns_of(len(root.terms)))
        texts = tuple(f"t{place}" for place in range(len(root.terms)))
        grouping = Grouping(
            root, tuple(arguments), opaque, names, texts, self.rule, self.store.hashing, self.missing
        )
        pairs = [f"{name} long, {text} string" for name, text in zip(names, texts, strict=False)]
        schema = ", ".join(pairs) if texts else "c0 long"
        fresh = tuple(place for place, term in enumerate(root.terms) if term not in opaque)
        return Heads(parted.mapInArrow(grouping, schema), fresh, collected.matches, self.missing)

    # ---- nodes

    def bind(self, node: Node) -> Bindings:
        """The rows of a node."""
        match node:
            case Unit():
                unit = self.store.session.range(1).select(sql.lit(0).cast("long").alias(UNIT))
                return Bindings(unit, (), 1)
            case Scan():
                return self._scan(node)
            case Join(source, scan):
                return self._join(self.bind(source), scan)
            case AntiJoin(source, scan):
                return self._anti_join(self.bind(source), scan)
            case Filter(source, Comparison("=" | "!=" as operator, left, right)) if _are_terms(left, right):
                bound = self.bind(source)
                equal = self._value(left) == self._value(right)
                return self._kept(bound, bound.frame.where(equal if operator == "=" else ~equal))
            case Extend(source, variable, Variable() | Constant() as term):
                return self._renamed(self.bind(source), variable, term)
            case Filter() | Extend():
                return self._compute(node)
            case _:
                raise TypeError(node)

    def _scan(self, scan: Scan) -> Bindings:
        """The facts that match the terms, a column for each variable."""
        source = self.sources(scan.relation, scan.part)
        columns = columns_of(len(scan.terms))
        frame = source.frame
        places: dict[Variable, str] = {}
        for term, column in zip(scan.terms, columns, strict=bool(scan.terms)):
            if isinstance(term, Constant):
                frame = frame.where(sql.col(column) == sql.lit(self.store.identity(term.value)))
            elif term in places:
                frame = frame.where(sql.col(column) == sql.col(places[term]))
            else:
                places[term] = column
        if not places:
            return Bindings(frame.limit(1).select(sql.lit(0).cast("long").alias(UNIT)), (), 1)
        selected = [sql.col(column).alias(self._name(variable)) for variable, column in places.items()]
        return Bindings(frame.select(*selected), tuple(places), source.rows)

    def _join(self, left: Bindings, scan: Scan) -> Bindings:
        right = self._scan(scan)
        shared = [variable for variable in right.variables if variable in left.variables]
        if len(shared) == len(right.variables):
            return self._kept(left, self._matched(left, right, shared, "left_semi"))
        if not left.variables:
            frame = left.frame.crossJoin(self._hinted(right)).drop(UNIT)
            return Bindings(frame, right.variables, right.rows)
        new = tuple(variable for variable in right.variables if variable not in shared)
        joined = self._matched(left, right, shared, "inner")
        return Bindings(joined, (*left.variables, *new), UNBOUNDED, left.texts)

    def _anti_join(self, left: Bindings, scan: Scan) -> Bindings:
        right = self._scan(scan)
        shared = [variable for variable in right.variables if variable in left.variables]
        return self._kept(left, self._matched(left, right, shared, "left_anti"))

    def _matched(self, left: Bindings, right: Bindings, shared: list[Variable], how: str) -> DataFrame:
        """The join of two on the variables that they share."""
        names = [self._name(variable) for variable in shared]
        if how != "inner":
            if not names:
                return left.frame.join(sql.broadcast(right.frame.limit(1)), sql.lit(True), how)
            return left.frame.join(self._hinted(_only(right, names)), names, how)
        if not names:
            return left.frame.crossJoin(self._hinted(right))
        if right.rows > self.store.settings.broadcast_rows >= left.rows:
            return sql.broadcast(left.frame).join(right.frame, names)
        return left.frame.join(self._hinted(right), names)

    def _hinted(self, bound: Bindings) -> DataFrame:
        """The rows, to be sent to all executors if they are few."""
        if bound.rows <= self.store.settings.broadcast_rows:
            return sql.broadcast(bound.frame)
        return bound.frame

    def _kept(self, bound: Bindings, frame: DataFrame) -> Bindings:
        return Bindings(frame, bound.variables, bound.rows, bound.texts)

    def _renamed(self, bound: Bindings, variable: Variable, term: Variable | Constant) -> Bindings:
        """The rows with one more column that is another one, or always the same."""
        frame = bound.frame.withColumn(self._name(variable), self._value(term))
        texts = bound.texts
        if term in texts:
            frame = frame.withColumn(self._text_name(variable), self._text(term))
            texts |= {variable}
        return Bindings(frame, (*bound.variables, variable), bound.rows, texts)

    def _compute(self, node: Node) -> Bindings:
        """The rows after tests and functions that follow one another, computed together."""
        steps: list[Filter | Extend] = []
        while isinstance(node, Filter | Extend) and not _is_native(node):
            steps.append(node)
            node = node.input
        steps.reverse()
        bound = self.bind(node)
        frame = bound.frame
        kept = tuple(frame.columns)
        computed = [step.variable for step in steps if isinstance(step, Extend)]
        arguments = []
        for variable in _needed(steps):
            if variable in computed:
                continue
            column, text = self._name(variable), self._text_name(variable)
            found: str | None = text
            if variable not in bound.texts:
                frame, found = self._with_text(frame, column, text)
            arguments.append(Argument(variable, column, found))
        plain = tuple(_without_input(step) for step in steps)
        named = tuple((variable, self._name(variable), self._text_name(variable)) for variable in computed)
        computation = Computation(
            plain, tuple(arguments), kept, named, self.rule, self.store.hashing, self.missing
        )
        schema = [f"{name} {'string' if name.startswith('t') else 'long'}" for name in kept]
        schema += [f"{column} long, {text} string" for _, column, text in named]
        outcome = frame.mapInArrow(computation, ", ".join(schema))
        return Bindings(outcome, (*bound.variables, *computed), bound.rows, bound.texts | set(computed))

    def _with_text(self, frame: DataFrame, column: str, text: str) -> tuple[DataFrame, str | None]:
        """The frame with the texts of a column's ids, null for whole numbers; None if there are no terms."""
        lexicon = self.store.lexicon
        if lexicon is None:
            return frame, None
        looked_up = lexicon.select(sql.col(ID).alias("looked_up"), sql.col(TERM).alias(text))
        if self.store.terms <= self.store.settings.broadcast_rows:
            looked_up = sql.broadcast(looked_up)
        return frame.join(looked_up, sql.col(column) == sql.col("looked_up"), "left").drop("looked_up"), text

    # ---- columns

    def _value(self, term: Expression) -> Column:
        assert isinstance(term, Variable | Constant)
        if isinstance(term, Constant):
            return sql.lit(self.store.identity(term.value)).cast("long")
        return sql.col(self._name(term))

    def _text(self, term: Term) -> Column:
        assert isinstance(term, Variable)
        return sql.col(self._text_name(term))

    def _name(self, variable: Variable) -> str:
        return f"v{self._names.setdefault(variable, len(self._names))}"

    def _text_name(self, variable: Variable) -> str:
        return f"t{self._name(variable)}"


def _are_terms(*expressions: Expression) -> bool:
    return all(isinstance(expression, Variable | Constant) for expression in expressions)


def _is_native(node: Filter | Extend) -> bool:
    """Whether Spark itself computes a node."""
    match node:
        case Filter(_, Comparison("=" | "!=", left, right)):
            return _are_terms(left, right)
        case Extend(_, _, expression):
            return _are_terms(expression)
        case _:
            return False


def _without_input(step: Filter | Extend) -> Filter | Extend:
    """The step alone, as it is sent to executors."""
    if isinstance(step, Filter):
        return Filter(Unit(), step.test)
    return Extend(Unit(), step.variable, step.expression)


def _needed(steps: list[Filter | Extend]) -> list[Variable]:
    """The variables that steps read, each once."""
    needed: dict[Variable, None] = {}
    for step in steps:
        read = literal_variables(step.test) if isinstance(step, Filter) else variables_of(step.expression)
        needed.update(dict.fromkeys(read))
    return list(needed)


def _looked_at(root: Aggregate) -> frozenset[Variable]:
    """The variables whose values matter to the groups' facts, not only their ids."""
    aggregated = {
        term
        for aggregation in root.aggregations
        for term in aggregation.arguments
        if isinstance(term, Variable) and aggregation.function != "count"
    }
    computed = {variable for assignment in root.after for variable in variables_of(assignment.expression)}
    results = {aggregation.variable for aggregation in root.aggregations}
    assigned = {assignment.variable for assignment in root.after}
    return frozenset((aggregated | computed) | results | assigned)


def _only(bound: Bindings, names: list[str]) -> Bindings:
    """The rows with these columns alone."""
    return Bindings(bound.frame.select(*names), (), bound.rows)
