"""Resolved programs: rules over predicates, values and functions; files that a program may read and write."""

from __future__ import annotations

import os
from collections.abc import Container, Iterable, Iterator, Mapping, Sequence
from dataclasses import field, replace
from functools import cached_property
from pathlib import Path
from typing import TypeVar

from tidelog.errors import DataError, Diagnostic, Span, codes, counted
from tidelog.logic.intervals import ALWAYS, Interval
from tidelog.logic.values import ColumnType, Value
from tidelog.records import dataclass

# ---- files that a program may read and write
#
# Every path that a program writes down, in `@include`, `@import` or `@export`, becomes a file to be opened in
# `Sandbox.to_read` or `Sandbox.to_write`. Files that a user names, such as data files and the program itself,
# are the user's own choice, and are not checked here.

Folders = Path | str | Iterable[Path | str] | None


@dataclass(frozen=True, slots=True)
class Sandbox:
    """The folders in which a program may read and write, without links; None is everywhere."""

    read: tuple[Path, ...] | None = None
    write: tuple[Path, ...] | None = None

    @staticmethod
    def of(allow_read: Folders = None, allow_write: Folders = None) -> Sandbox:
        """Return the sandbox of these folders: where only one of the two is given, the other is nowhere."""
        if allow_read is None and allow_write is None:
            return OPEN
        return Sandbox(_real_folders(allow_read), _real_folders(allow_write))

    def to_read(self, path: Path, span: Span | None = None) -> Path:
        """Return the file to open for reading; raise `DataError` if it is outside of what is allowed."""
        return _inside(path, self.read, "read", span)

    def to_write(self, path: Path, span: Span | None = None, output: Path | None = None) -> Path:
        """Return the file to open for writing, in `output` or in an allowed folder.

        Without a folder for output and without restrictions, it may be anywhere.
        """
        folders = self.write
        if output is not None:
            folders = (*(folders or ()), *_real_folders(output))
        return _inside(path, folders, "write", span)


OPEN = Sandbox()  # everything is allowed


def _inside(path: Path, folders: tuple[Path, ...] | None, verb: str, span: Span | None) -> Path:
    """Return the path without links and `..`, if it is one of the folders or lies in one."""
    if folders is None:
        return path
    try:
        real = Path(os.path.realpath(path))
    except (OSError, ValueError):  # not a path, such as one with a null character
        real = None
    if real is not None and os.path.realpath(real) != str(real):
        real = None  # Python does not resolve links behind a link to itself
    if real is not None and any(real.is_relative_to(folder) for folder in folders):
        # A resolved path: opening it follows no link again. A path without links keeps its original form.
        plain = Path(os.path.normpath(path))
        return plain if plain.absolute() == real else real
    target = "" if real is None or real == path.absolute() else f", which is `{real}`"
    message = f"the program may not {verb} `{path}`{target}"
    folder = "DIR" if real is None else str(real.parent)
    help = f"if it should, allow it with `--allow-{verb} {folder}`, in Python `allow_{verb}=[{folder!r}]`"
    raise DataError(Diagnostic(codes.NOT_ALLOWED, message, span, help))


def _real_folders(folders: Folders) -> tuple[Path, ...]:
    if folders is None:
        return ()
    several = [folders] if isinstance(folders, Path | str) else folders
    return tuple(Path(os.path.realpath(folder)) for folder in several)


# ---- the program after resolution
#
# Everything here is frozen; passes are functions `Program -> Program`.

TOP = "top"  # top() always holds
BOTTOM = "bottom"  # deriving bottom() is an inconsistency
PRIVATE = "tag:tidelog:"  # predicates that rule sets use within themselves begin so
EQUAL = "="  # `?x = ?y` in a head derives it: two constants denote the same object
DIFFERENT = "!="  # `?x != ?y` in a head derives it: two different objects
BUILT_IN = frozenset({BOTTOM, EQUAL, DIFFERENT})  # predicates that programs cannot declare


@dataclass(frozen=True, slots=True)
class Variable:
    """A variable of one rule. Names that begin with `_` were made by the resolver."""

    name: str


@dataclass(frozen=True, slots=True)
class Constant:
    """A value in a rule."""

    value: Value


Term = Variable | Constant


@dataclass(frozen=True, slots=True)
class Apply:
    """A built-in function of `logic.functions.builtins` applied to expressions."""

    function: str
    arguments: tuple[Expression, ...]


Expression = Variable | Constant | Apply


@dataclass(frozen=True, slots=True)
class Atom:
    """`predicate(terms)`."""

    predicate: str
    terms: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Negation:
    """No fact matches the atom. A variable that occurs nowhere else in the rule matches anything."""

    atom: Atom


@dataclass(frozen=True, slots=True)
class Comparison:
    """A test: the operator is one of `= != < <= > >=`; all variables are bound by other literals."""

    operator: str
    left: Expression
    right: Expression


@dataclass(frozen=True, slots=True)
class Assignment:
    """`variable = expression`, the only place that binds the variable."""

    variable: Variable
    expression: Expression


@dataclass(frozen=True, slots=True)
class Condition:
    """A Boolean function used as a literal; holds if its value is not `negated`."""

    expression: Apply
    negated: bool = False


@dataclass(frozen=True, slots=True)
class Metric:
    """An operator of time over one operand, or over two for `since` and `until`.

    The interval is one of durations. The atom `top()` always holds.
    """

    operator: str  # boxminus, boxplus, diamondminus, diamondplus, since, until
    interval: Interval
    operands: tuple[Atom | Metric, ...]


@dataclass(frozen=True, slots=True)
class MetricNegation:
    """The metric atom does not hold, for any values of the variables that occur nowhere else in the rule."""

    metric: Metric


@dataclass(frozen=True, slots=True)
class Throughout:
    """In a query: the atom holds throughout the interval."""

    atom: Atom
    interval: Interval


@dataclass(frozen=True, slots=True)
class Sometime(Throughout):
    """In a query: the atom holds at some time of the interval."""


Literal = Atom | Negation | Comparison | Assignment | Condition | Metric | MetricNegation | Throughout


@dataclass(frozen=True, slots=True)
class Aggregation:
    """`variable` is `function` over the first argument of the distinct (group, arguments) rows."""

    variable: Variable
    function: str  # count, sum, min, max, avg
    arguments: tuple[Term, ...]


@dataclass(frozen=True, slots=True)
class Rule:
    """`head :- body`, safe. One head: a rule with several heads becomes several rules.

    With aggregations: the body is matched first, `group` and the aggregated arguments are made distinct,
    each aggregation is computed per group, then the assignments of `after` per group, then the head.
    The body's literals are in an order in which each variable is bound before it is used by a test,
    an assignment or a negation.
    """

    head: Atom
    body: tuple[Literal, ...]
    group: tuple[Variable, ...] = ()
    aggregations: tuple[Aggregation, ...] = ()
    after: tuple[Assignment, ...] = ()
    name: str | None = None
    span: Span | None = field(default=None, compare=False, repr=False)
    places: tuple[tuple[Literal, Span], ...] = field(default=(), compare=False, repr=False)  # of literals

    @property
    def positive(self) -> tuple[Atom, ...]:
        """The body's positive atoms, in order."""
        return tuple(literal for literal in self.body if isinstance(literal, Atom))

    @property
    def negated(self) -> tuple[Atom, ...]:
        """The atoms under negation, in order."""
        return tuple(literal.atom for literal in self.body if isinstance(literal, Negation))

    @property
    def body_atoms(self) -> tuple[Atom, ...]:
        """The body's positive atoms, then those under negation."""
        return (*self.positive, *self.negated)

    @property
    def read(self) -> frozenset[str]:
        """The predicates of the body's atoms, negated or not."""
        return frozenset(atom.predicate for atom in self.body_atoms)

    @property
    def aggregated(self) -> tuple[Variable, ...]:
        """The variables among the arguments of aggregations, with repetitions."""
        terms = (term for aggregation in self.aggregations for term in aggregation.arguments)
        return tuple(term for term in terms if isinstance(term, Variable))

    @property
    def is_metric(self) -> bool:
        """Whether the rule uses temporal operators."""
        return False

    def place_of(self, literal: Literal) -> Span | None:
        """Return the span of a literal of the body, else that of the rule."""
        places = dict(self.places)
        candidates: tuple[Literal, ...] = (literal,)
        if isinstance(literal, Assignment):
            sides = literal.variable, literal.expression
            candidates = (literal, Comparison("=", *sides), Comparison("=", *reversed(sides)))
        return next((places[each] for each in candidates if each in places), self.span)


@dataclass(frozen=True, slots=True)
class MetricRule(Rule):
    """A rule with operators of time: `moves` are those of its head, the outermost first."""

    moves: tuple[tuple[str, Interval], ...] = ()  # boxplus or boxminus, and for how long

    @property
    def positive(self) -> tuple[Atom, ...]:
        """The body's positive atoms, those under operators included, in order."""
        atoms: list[Atom] = []
        for literal in self.body:
            if isinstance(literal, Throughout):
                atoms.append(literal.atom)
            elif isinstance(literal, Atom | Metric):
                atoms.extend(atoms_of(literal))
        return tuple(atoms)

    @property
    def negated(self) -> tuple[Atom, ...]:
        """The atoms under negation, those under operators included, in order."""
        atoms: list[Atom] = []
        for literal in self.body:
            if isinstance(literal, Negation):
                atoms.append(literal.atom)
            elif isinstance(literal, MetricNegation):
                atoms.extend(atoms_of(literal.metric))
        return tuple(atoms)

    @property
    def is_metric(self) -> bool:
        """Whether the rule uses temporal operators."""
        return True


def rule_changes(
    before: tuple[Rule, ...], after: tuple[Rule, ...]
) -> tuple[tuple[Rule, ...], tuple[Rule, ...]]:
    """Return the rules that are only among the former, and those that are only among the latter."""
    if before is after:
        return (), ()
    old, new = frozenset(before), frozenset(after)
    return tuple(rule for rule in before if rule not in new), tuple(rule for rule in after if rule not in old)


@dataclass(frozen=True, slots=True)
class Predicate:
    """A predicate: its full name, and the names and types of its columns."""

    name: str  # `edge`, or the full IRI for `ex:edge` and `<…>`
    arity: int
    columns: tuple[str | None, ...]  # names from @declare, else from the first rule's head variables
    types: tuple[ColumnType, ...]  # ANY where not declared
    written: str  # as the program writes it: `edge`, `ex:edge`
    declared: bool = False
    span: Span | None = field(default=None, compare=False, repr=False)

    @property
    def names(self) -> tuple[str, ...]:
        """The names of the columns, no two alike; `c1`, `c2`… where the program gives none."""
        return column_names(self.columns)


def column_names(columns: Sequence[str | None]) -> tuple[str, ...]:
    """Return a name for each column: its own, or `c` and its place.

    >>> column_names(("who", None, "c2"))
    ('who', 'c2_', 'c2')
    """
    used = {name for name in columns if name is not None}
    return tuple(name or free_name(f"c{position}", used) for position, name in enumerate(columns, 1))


def free_name(name: str, used: Container[str]) -> str:
    """Return the name, with underscores appended if it is already used."""
    while name in used:
        name += "_"
    return name


@dataclass(frozen=True, slots=True)
class Fact:
    """An explicit fact of the program."""

    predicate: str
    values: tuple[Value, ...]
    span: Span | None = field(default=None, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class TimedFact(Fact):
    """A fact that holds throughout an interval."""

    interval: Interval = ALWAYS


AnyFact = TypeVar("AnyFact", bound=Fact)


def facts_by_predicate(facts: Iterable[AnyFact]) -> dict[str, list[AnyFact]]:
    """Facts by predicate; predicates are in the order of their first facts."""
    groups: dict[str, list[AnyFact]] = {}
    for fact in facts:
        groups.setdefault(fact.predicate, []).append(fact)
    return groups


OptionValue = str | int | float | bool | tuple[str, ...]


@dataclass(frozen=True, slots=True)
class Transfer:
    """An import or export of a predicate; relative resources lie in `folder`."""

    predicate: str
    format: str  # csv, tsv, dsv, json, jsonl, parquet, arrow, ntriples, turtle, …
    options: Mapping[str, OptionValue]
    types: tuple[ColumnType, ...] | None  # of `format=(…)`, else None: take the predicate's
    folder: Path | None
    span: Span | None = field(default=None, compare=False, repr=False)
    sandbox: Sandbox = field(default=OPEN, compare=False, repr=False)


@dataclass(frozen=True, slots=True)
class Query:
    """`?- body .`: a rule whose head holds the body's named variables in order of appearance."""

    rule: Rule
    variables: tuple[str, ...]
    text: str
    time: str | None = None  # the variable that is to be the time of an answer


@dataclass(frozen=True)
class Program:
    """A resolved program."""

    predicates: Mapping[str, Predicate]
    rules: tuple[Rule, ...] = ()
    facts: tuple[Fact, ...] = ()
    imports: tuple[Transfer, ...] = ()
    exports: tuple[Transfer, ...] = ()
    outputs: tuple[str, ...] = ()
    queries: tuple[Query, ...] = ()
    prefixes: Mapping[str, str] = field(default_factory=dict)
    base: str | None = None
    parameters: Mapping[str, Value] = field(default_factory=dict)
    warnings: tuple[Diagnostic, ...] = field(default=(), compare=False)
    given_times: frozenset[str] = frozenset()  # predicates whose facts are written or imported with times
    is_integer_time: bool = False  # the time points are the integers, not the rationals
    sandbox: Sandbox = field(default=OPEN, compare=False)  # of what is added to it
    files: tuple[Path, ...] = field(default=(), compare=False)  # that it was read from, included ones too

    def __repr__(self) -> str:
        parts = {"rule": self.rules, "fact": self.facts, "predicate": self.predicates}
        return f"<Program: {', '.join(counted(len(part), noun) for noun, part in parts.items())}>"

    @cached_property
    def timed(self) -> frozenset[str]:
        """The temporal predicates: those given with times, and all that are derived from them.

        All others hold always.
        """
        timed = set(self.given_times)
        timed.update(rule.head.predicate for rule in self.rules if rule.is_metric)
        if not timed:
            return frozenset()
        waiting = [rule for rule in self.rules if rule.head.predicate not in timed]
        size = -1
        while size != len(timed):
            size = len(timed)
            for rule in waiting:
                if not rule.read.isdisjoint(timed):
                    timed.add(rule.head.predicate)
        return frozenset(timed)

    @cached_property
    def has_equality(self) -> bool:
        """Whether constants may turn out equal, or must not."""
        return EQUAL in self.predicates or DIFFERENT in self.predicates

    @cached_property
    def static(self) -> Program:
        """The program without the rules that derive temporal facts: itself if there are none."""
        if not self.timed:
            return self
        return replace(
            self, rules=tuple(rule for rule in self.rules if rule.head.predicate not in self.timed)
        )

    @cached_property
    def timed_rules(self) -> tuple[Rule, ...]:
        """The rules that derive temporal facts."""
        return tuple(rule for rule in self.rules if rule.head.predicate in self.timed) if self.timed else ()

    @property
    def derived(self) -> frozenset[str]:
        """The predicates of rule heads."""
        return frozenset(rule.head.predicate for rule in self.rules)

    def find(self, name: str) -> Predicate | None:
        """The predicate of this name, in full or as the program writes it, if there is one."""
        known = self.predicates.get(name)
        if known is not None:
            return known
        return next((predicate for predicate in self.predicates.values() if predicate.written == name), None)

    def defining(self, name: str, arity: int) -> Program:
        """The program with a predicate that it does not mention."""
        predicate = Predicate(name, arity, (None,) * arity, (ColumnType.ANY,) * arity, name)
        return replace(self, predicates={**self.predicates, name: predicate})

    def confined(self, sandbox: Sandbox) -> Program:
        """The program with this sandbox, for its imports and exports and for statements added later."""
        if sandbox == self.sandbox:
            return self
        return replace(
            self,
            imports=tuple(replace(transfer, sandbox=sandbox) for transfer in self.imports),
            exports=tuple(replace(transfer, sandbox=sandbox) for transfer in self.exports),
            sandbox=sandbox,
        )

    def types_of(self, predicate: Predicate) -> tuple[ColumnType, ...]:
        """How values from outside are read in a predicate's columns: as declared, else as imported."""
        if predicate.declared:
            return predicate.types
        types = self._imported.get(predicate.name, ())
        return types if len(types) == predicate.arity else predicate.types

    @cached_property
    def _imported(self) -> Mapping[str, tuple[ColumnType, ...]]:
        """The column types of imported predicates whose imports agree."""
        types_of: dict[str, set[tuple[ColumnType, ...]]] = {}
        for transfer in self.imports:
            types_of.setdefault(transfer.predicate, set()).add(transfer.types or ())
        return {name: next(iter(types)) for name, types in types_of.items() if len(types) == 1}

    @property
    def output_predicates(self) -> tuple[str, ...]:
        """The output: the predicates of @output and @export, else all derived ones.

        Without rules and queries they are all predicates; never the private predicates of rule sets.
        """
        requested = dict.fromkeys((*self.outputs, *(export.predicate for export in self.exports)))
        if requested:
            return tuple(requested)
        candidates = self.derived if self.rules or self.queries else self.predicates.keys()
        return tuple(sorted(name for name in candidates - BUILT_IN if not name.startswith(PRIVATE)))


def variables_of(expression: Expression) -> Iterator[Variable]:
    """The variables of an expression, from left to right, repeated as they occur."""
    match expression:
        case Variable():
            yield expression
        case Apply(_, arguments):
            for argument in arguments:
                yield from variables_of(argument)


def literal_variables(literal: Literal) -> Iterator[Variable]:
    """The variables of a literal, from left to right, repeated as they occur."""
    match literal:
        case Atom(_, terms) | Negation(Atom(_, terms)) | Throughout(Atom(_, terms)):
            yield from (term for term in terms if isinstance(term, Variable))
        case Comparison(_, left, right):
            yield from variables_of(left)
            yield from variables_of(right)
        case Assignment(variable, expression):
            yield variable
            yield from variables_of(expression)
        case Condition(expression, _):
            yield from variables_of(expression)
        case Metric() | MetricNegation():
            metric = literal.metric if isinstance(literal, MetricNegation) else literal
            for atom in atoms_of(metric):
                yield from literal_variables(atom)


def literal_atoms(literal: Literal) -> Iterator[Atom]:
    """The atoms of a literal, negated or not, from left to right."""
    match literal:
        case Negation(atom) | Throughout(atom):
            yield atom
        case MetricNegation(metric):
            yield from atoms_of(metric)
        case Atom() | Metric():
            yield from atoms_of(literal)


def atoms_of(metric: Atom | Metric) -> Iterator[Atom]:
    """The atoms of a metric atom, from left to right."""
    if isinstance(metric, Atom):
        if metric.predicate != TOP:
            yield metric
        return
    for operand in metric.operands:
        yield from atoms_of(operand)
