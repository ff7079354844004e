"""Column lineage: for each column of a predicate, the input columns that it comes from, and how.

Lineage is a function of the rules alone; no data is read. It distinguishes what OpenLineage distinguishes: a
column is *direct* if its values, or values computed from them, appear in the output column, and *indirect* if
it only decides which rows there are.

Invariant: which values a column holds depends on the input columns that its lineage names, and on nothing
else but whether the inputs in `tables` have rows. So other values in a column that the lineage of an output
column does not name never change that output column. Proof idea: the rows of a predicate, restricted to
some of its columns, follow from the rows of the body's predicates, restricted to the columns that the rule
compares, computes with or returns, because facts are sets. A variable that occurs once is none of these.

When facts hold is no column: lineage says nothing about times.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Iterable, Iterator, Mapping
from enum import StrEnum
from typing import Final

from tidelog.logic.program import (
    EQUAL,
    Aggregation,
    Apply,
    Assignment,
    Atom,
    Comparison,
    Condition,
    Constant,
    Expression,
    Literal,
    Metric,
    MetricNegation,
    Negation,
    Program,
    Rule,
    Throughout,
    Variable,
    atoms_of,
    literal_variables,
    variables_of,
)
from tidelog.logic.type_inference import Columns, infer_columns
from tidelog.logic.types import ANY, Type, type_of
from tidelog.records import dataclass
from tidelog.show.picture import body_predicates


class How(StrEnum):
    """How an output column depends on an input column; the values are OpenLineage's subtypes."""

    IDENTITY = "IDENTITY"  # its values appear as they are
    TRANSFORMATION = "TRANSFORMATION"  # values are computed from its values
    AGGREGATION = "AGGREGATION"  # values are aggregates of its values
    JOIN = "JOIN"  # compared with a column of another atom, negated or not
    FILTER = "FILTER"  # compared with a constant, tested, or used by a function that may have no value
    GROUP_BY = "GROUP_BY"  # decides what is aggregated together
    WINDOW = "WINDOW"  # under an operator of time

    @property
    def is_direct(self) -> bool:
        """Whether values of the input column, or values computed from them, appear in the output column."""
        return self in _DIRECT


_DIRECT: Final = (How.IDENTITY, How.TRANSFORMATION, How.AGGREGATION)  # a later one covers those before it
_EXACT: Final = frozenset({Type.INTEGER, Type.DECIMAL})
# What always has a value for exact numbers: an overflow is an error, and stops the run.
_TOTAL_FUNCTIONS: Final = frozenset({"+", "-", "*"})
_TOTAL_AGGREGATES: Final = frozenset({"count", "min", "max"})


@dataclass(frozen=True, order=True, slots=True)
class PredicateColumn:
    """A column of a predicate, by their names in the program."""

    predicate: str
    name: str


@dataclass(frozen=True, order=True, slots=True)
class ColumnOrigin:
    """An input column, and how an output column depends on it."""

    column: PredicateColumn
    how: How


@dataclass(frozen=True)
class Lineage:
    """The lineage of all columns of a program.

    `columns` has the origins of each column, in order, of inputs as well: an input column comes from itself.
    `tables` has, for each predicate, the inputs that it depends on at all: one of which no column matters is
    there too, as in `p(?x) :- a(?x), b(_)`.
    """

    columns: Mapping[PredicateColumn, tuple[ColumnOrigin, ...]]
    tables: Mapping[str, tuple[str, ...]]

    def of(self, predicate: str) -> dict[str, tuple[ColumnOrigin, ...]]:
        """Return the origins of each column of a predicate, by the names of its columns."""
        return {
            column.name: origins for column, origins in self.columns.items() if column.predicate == predicate
        }


@dataclass(frozen=True, order=True, slots=True)
class PredicateDependency:
    """A predicate that is derived from another; `kind` is `~` under negation, `#` if it is aggregated."""

    source: str
    target: str
    kind: str = ""


def lineage(program: Program, inputs: Collection[str] | None = None) -> Lineage:
    """Return which input columns each column of a program depends on, and how.

    `inputs` are the predicates whose facts come from outside. By default they are those that no rule derives,
    and those that the program imports.

    >>> from tidelog.logic.resolve import read_text
    >>> found = lineage(read_text("spent(?who, #sum(?amount)) :- order(?who, ?amount, ?day), ?day > 3 ."))
    >>> for origin in found.of("spent")["sum_amount"]:
    ...     print(origin.column.predicate, origin.column.name, origin.how.value)
    order c1 GROUP_BY
    order c2 AGGREGATION
    order c2 FILTER
    order c3 FILTER
    """
    if inputs is None:
        imported = {transfer.predicate for transfer in program.imports}
        inputs = {name for name in program.predicates if name not in program.derived or name in imported}
    state = _LineageState(program, frozenset(inputs))
    state.complete()
    return state.lineage()


def dependencies(program: Program) -> tuple[PredicateDependency, ...]:
    """Return which predicates are derived from which, those that rule sets use within themselves too."""
    edges = (
        PredicateDependency(name, rule.head.predicate, kind)
        for rule in program.rules
        for name, kind in body_predicates(rule)
    )
    return tuple(dict.fromkeys(edges))


def published_dependencies(program: Program, published: Collection[str]) -> tuple[PredicateDependency, ...]:
    """Return the dependencies between some predicates, across those that are not among them.

    The kind of a dependency across others is that of its first part that has one.
    """
    readers: dict[str, list[PredicateDependency]] = {}
    for edge in dependencies(program):
        readers.setdefault(edge.source, []).append(edge)
    paths: dict[PredicateDependency, None] = {}
    for source in published:
        waiting = [(source, "")]
        visited = set(waiting)
        while waiting:
            at, kind = waiting.pop()
            for edge in readers.get(at, ()):
                reached = edge.target, kind or edge.kind
                if edge.target in published:
                    paths[PredicateDependency(source, *reached)] = None
                elif reached not in visited:
                    visited.add(reached)
                    waiting.append(reached)
    return tuple(sorted(paths))


# ---- the fixpoint

_Key = tuple[str, int]  # a predicate, and the place of a column
_Origins = frozenset[tuple[_Key, How]]
_NONE: Final[_Origins] = frozenset()


class _LineageState:
    """The lineage so far. Mutable: it grows up to the fixpoint."""

    def __init__(self, program: Program, inputs: frozenset[str]) -> None:
        self.program = program
        self.columns: dict[_Key, _Origins] = {}
        self.rows: dict[str, _Origins] = {}  # what decides which rows a predicate has, whatever the column
        self.tables: dict[str, frozenset[str]] = {}
        for name in inputs:
            self.tables[name] = frozenset({name})
            predicate = program.predicates.get(name)
            for position in range(predicate.arity if predicate else 0):
                self.columns[name, position] = frozenset({((name, position), How.IDENTITY)})
        unknown: dict[str, Columns] = {
            name: (ANY,) * program.predicates[name].arity
            for name in inputs.difference(transfer.predicate for transfer in program.imports)
            if name in program.predicates
        }
        self.types = infer_columns(program, unknown).columns

    def complete(self) -> None:
        """Apply the rules up to the fixpoint."""
        rules = [_RuleLineage(rule, self) for rule in self.program.rules]
        readers: dict[str, list[_RuleLineage]] = {}
        for rule in rules:
            for name in rule.reads:
                readers.setdefault(name, []).append(rule)
        waiting = dict.fromkeys(rules)
        while waiting:
            rule = next(iter(waiting))
            del waiting[rule]
            if self._grow(rule):
                waiting.update(dict.fromkeys(readers.get(rule.head.predicate, ())))

    def _grow(self, rule: _RuleLineage) -> bool:
        """Add the dependencies of the columns of a rule's head; return whether any is new."""
        name = rule.head.predicate
        rows = self.rows.get(name, _NONE) | rule.rows()
        tables = self.tables.get(name, frozenset()).union(
            *(self.tables.get(read_name, ()) for read_name in rule.reads)
        )
        is_new = rows != self.rows.get(name) or tables != self.tables.get(name)
        self.rows[name], self.tables[name] = rows, tables
        for position, term in enumerate(rule.head.terms):
            before = self.columns.get((name, position), _NONE)
            after = before | (rule.origins(term) if isinstance(term, Variable) else _NONE)
            is_new |= after != before
            self.columns[name, position] = after
        return is_new

    def lineage(self) -> Lineage:
        """Return the lineage, by names."""
        equal = self._of_equality()
        columns: dict[PredicateColumn, tuple[ColumnOrigin, ...]] = {}
        for predicate in self.program.predicates.values():
            for position, name in enumerate(predicate.names):
                own = self.columns.get((predicate.name, position), _NONE)
                origins = own | self.rows.get(predicate.name, _NONE) | equal
                columns[PredicateColumn(predicate.name, name)] = tuple(sorted(self._named(origins)))
        both = self.tables.get(EQUAL, frozenset())
        tables = {
            name: tuple(sorted(self.tables.get(name, frozenset()) | both)) for name in self.program.predicates
        }
        return Lineage(columns, tables)

    def _of_equality(self) -> _Origins:
        """Return the origins of equality, as equal constants replace each other in all predicates."""
        sides = self.columns.get((EQUAL, 0), _NONE) | self.columns.get((EQUAL, 1), _NONE)
        return self.rows.get(EQUAL, _NONE) | _as(How.JOIN, sides)

    def _named(self, origins: _Origins) -> Iterator[ColumnOrigin]:
        for (name, place), how in origins:
            yield ColumnOrigin(PredicateColumn(name, self.program.predicates[name].names[place]), how)


class _RuleLineage:
    """The lineage in one rule: the origins of its variables and of its rows."""

    def __init__(self, rule: Rule, known: _LineageState) -> None:
        self.rule = rule
        self.head = rule.head
        self.known = known
        self.places: dict[Variable, list[_Key]] = {}  # columns of atoms that are not negated
        self.assigned: dict[Variable, Expression] = {}
        self.aggregated: dict[Variable, Aggregation] = {
            aggregation.variable: aggregation for aggregation in rule.aggregations
        }
        for literal in (*rule.body, *rule.after):
            if isinstance(literal, Assignment):
                self.assigned[literal.variable] = literal.expression
            for atom in _positive(literal):
                for position, term in enumerate(atom.terms):
                    if isinstance(term, Variable):
                        self.places.setdefault(term, []).append((atom.predicate, position))
        self.uses = Counter(variable for literal in rule.body for variable in literal_variables(literal))
        self.reads = rule.read

    def origins(self, variable: Variable) -> _Origins:
        """Return the origins of the values of a variable."""
        if variable in self.aggregated:
            return self._aggregate(self.aggregated[variable])
        if variable in self.assigned:
            expression = self.assigned[variable]
            if isinstance(expression, Variable):
                return self.origins(expression)
            return _covered(How.TRANSFORMATION, self._of_all(variables_of(expression)))
        return _NONE.union(*(self.known.columns.get(key, _NONE) for key in self.places.get(variable, ())))

    def _aggregate(self, aggregation: Aggregation) -> _Origins:
        """Return the origins of an aggregate; further arguments only distinguish rows, except for a count."""
        arguments = [term for term in aggregation.arguments if isinstance(term, Variable)]
        counted = len(aggregation.arguments) if aggregation.function == "count" else 1
        first = {term for term in aggregation.arguments[:counted] if isinstance(term, Variable)}
        apart = [argument for argument in (*arguments, *self.rule.group) if argument not in first]
        return _covered(How.AGGREGATION, self._of_all(first)) | _as(How.GROUP_BY, self._of_all(apart))

    def _of_all(self, variables: Iterable[Variable]) -> _Origins:
        return _NONE.union(*(self.origins(variable) for variable in variables))

    def rows(self) -> _Origins:
        """Return the columns that determine which rows the rule derives."""
        origins = _NONE.union(*(self.known.rows.get(name, _NONE) for name in self.reads))
        for literal in self.rule.body:
            origins |= self._of_literal(literal)
        for assignment in self.rule.after:
            origins |= self._of_literal(assignment)
        for aggregation in self.rule.aggregations:
            if not self._is_total_aggregate(aggregation):
                origins |= self._tested(
                    How.FILTER,
                    (argument for argument in aggregation.arguments if isinstance(argument, Variable)),
                )
        return origins

    def _of_literal(self, literal: Literal) -> _Origins:
        match literal:
            case Atom() as atom:
                return self._of_atom(atom)
            case Throughout(atom):
                return self._of_atom(atom)
            case Negation(atom):
                return self._of_atom(atom) | self._tested(How.JOIN, self._shared(atom))
            case Comparison(_, left, right):
                return self._tested(How.FILTER, (*variables_of(left), *variables_of(right)))
            case Condition(expression, _):
                return self._tested(How.FILTER, variables_of(expression))
            case Assignment(_, expression):
                total = self._is_total(expression)
                return _NONE if total else self._tested(How.FILTER, variables_of(expression))
            case Metric() as metric:
                return self._of_metric(metric)
            case MetricNegation(metric):
                return self._of_metric(metric)
        raise AssertionError(literal)  # pragma: no cover - mypy knows that there is no other literal

    def _of_atom(self, atom: Atom) -> _Origins:
        """Return the columns of an atom that are compared with others or constants."""
        origins = _NONE
        within = Counter(atom.terms)
        for position, term in enumerate(atom.terms):
            column = self.known.columns.get((atom.predicate, position), _NONE)
            if isinstance(term, Constant):
                origins |= _as(How.FILTER, column)
            elif self.uses[term] > within[term] and self._is_joined(term, atom):
                origins |= _as(How.JOIN, column)
            elif within[term] > 1:
                origins |= _as(How.FILTER, column)
        return origins

    def _is_joined(self, variable: Variable, atom: Atom) -> bool:
        """Return whether a variable occurs in another atom, too, or in a negated one and another literal."""
        other_literals = (
            other
            for literal in self.rule.body
            for other in _all_atoms(literal)
            if other is not atom and variable in other.terms
        )
        return next(other_literals, None) is not None or variable in self.assigned

    def _shared(self, atom: Atom) -> Iterator[Variable]:
        """Yield the variables of a negated atom that are bound by other literals."""
        for term in atom.terms:
            if isinstance(term, Variable) and (term in self.places or term in self.assigned):
                yield term

    def _of_metric(self, metric: Metric) -> _Origins:
        """Return all columns under an operator of time.

        What holds throughout an interval holds for one and the same value, so that a variable which occurs
        once matters here, too.
        """
        origins = _NONE
        for atom in atoms_of(metric):
            for position, term in enumerate(atom.terms):
                column = self.known.columns.get((atom.predicate, position), _NONE)
                origins |= _as(How.FILTER if isinstance(term, Constant) else How.WINDOW, column)
                if isinstance(term, Variable) and self._is_joined(term, atom):
                    origins |= _as(How.JOIN, column) | self._tested(How.JOIN, [term])
        return origins

    def _tested(self, how: How, variables: Iterable[Variable]) -> _Origins:
        return _as(how, self._of_all(variables))

    # ---- columns that always have a value

    def _is_total(self, expression: Expression) -> bool:
        return not isinstance(expression, Apply) or self._is_exact(expression)

    def _is_total_aggregate(self, aggregation: Aggregation) -> bool:
        return aggregation.function in _TOTAL_AGGREGATES or self._is_exact(aggregation.arguments[0])

    def _is_exact_aggregate(self, aggregation: Aggregation) -> bool:
        return aggregation.function == "count" or self._is_exact(aggregation.arguments[0])

    def _is_exact(self, expression: Expression) -> bool:
        """Return whether an expression always has a value, and that is an integer or a decimal."""
        match expression:
            case Constant(value):
                return type_of(value) in _EXACT
            case Apply(function, arguments):
                return function in _TOTAL_FUNCTIONS and all(map(self._is_exact, arguments))
            case Variable() if expression in self.aggregated:
                return self._is_exact_aggregate(self.aggregated[expression])
            case Variable() if expression in self.assigned:
                return self._is_exact(self.assigned[expression])
            case Variable():
                return any(self._holds_exact(key) for key in self.places.get(expression, ()))

    def _holds_exact(self, key: _Key) -> bool:
        name, place = key
        types = self.known.types.get(name)
        return types is not None and bool(types[place]) and types[place] <= _EXACT


def _as(how: How, origins: _Origins) -> _Origins:
    """Return the origins of a column that determines rows: direct ones become indirect."""
    return frozenset((key, how if previous.is_direct else previous) for key, previous in origins)


def _covered(how: How, origins: _Origins) -> _Origins:
    """Return the origins of a value that is computed from a column with these origins."""
    return frozenset(
        (key, max(how, previous, key=_DIRECT.index) if previous.is_direct else previous)
        for key, previous in origins
    )


def _positive(literal: Literal | Assignment) -> Iterator[Atom]:
    match literal:
        case Atom():
            yield literal
        case Throughout(atom):
            yield atom
        case Metric():
            yield from atoms_of(literal)


def _all_atoms(literal: Literal) -> Iterator[Atom]:
    match literal:
        case Negation(atom):
            yield atom
        case MetricNegation(metric):
            yield from atoms_of(metric)
        case _:
            yield from _positive(literal)
