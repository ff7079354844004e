"""Type inference: the types that the columns of each predicate can hold, before evaluation.

The types of a column come from its declaration, its imports, the given data, the facts of the program and the
rules that derive it. Types only grow from round to round, so that inference over recursive rules terminates.

Invariant: all facts that the rules derive from facts of the given types are of the inferred types.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import field

from tidelog.errors import Diagnostic, Severity, Span, codes
from tidelog.logic.conversions import exact
from tidelog.logic.functions import builtins
from tidelog.logic.functions.builtins import evaluate
from tidelog.logic.functions.function import Overflow
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
    Fact,
    Literal,
    Metric,
    MetricNegation,
    Negation,
    Predicate,
    Program,
    Rule,
    Term,
    Throughout,
    Transfer,
    Variable,
    atoms_of,
    variables_of,
)
from tidelog.logic.scopes import by_position
from tidelog.logic.types import (
    ANY,
    NEVER,
    NUMBER,
    Contents,
    Type,
    Types,
    are_comparable,
    type_of,
    types_of_column,
    types_of_kinds,
    written,
)
from tidelog.logic.values import ColumnType, Kind, Value, exact_number
from tidelog.records import dataclass

Columns = tuple[Types, ...]
Schema = tuple[Contents, ...]
LazySchema = Callable[[], Schema]  # inferred when it is first called
RDF = frozenset({"ntriples", "nquads", "turtle", "trig", "rdfxml", "rdf"})
TRIPLES: Columns = (frozenset({Type.IRI, Type.BLANK}), frozenset({Type.IRI}), ANY)
DIVISIONS = ("/", "REM")


@dataclass(frozen=True, slots=True)
class Inferred:
    """The types of the columns of predicates, and warnings about literals that never match."""

    columns: Mapping[str, Columns]
    warnings: tuple[Diagnostic, ...] = ()

    def of(self, predicate: Predicate) -> Columns:
        """Return the types of the columns of a predicate, `ANY` where they are unknown."""
        return self.columns.get(predicate.name, (ANY,) * predicate.arity)

    def schema(self, predicate: Predicate) -> Schema:
        """Return the schema of a predicate; columns that never hold a value have type any."""
        pairs = zip(self.of(predicate), predicate.types, strict=True)
        return tuple(
            Contents(types or ANY, declared.size if types == {Type.DECIMAL} else None)
            for types, declared in pairs
        )


def infer(
    program: Program,
    given: Mapping[str, Columns] | None = None,
    nulls: Mapping[str, Columns] | None = None,
) -> Inferred:
    """Infer the types of all columns of a program.

    `given` has the types of external data by predicate, `nulls` the types of missing values where these are
    values, which columns hold in addition to the declared types. A predicate without declared or inferred
    types may hold any values, since its facts are external.
    """
    column_types = _inferred(program, given, nulls)
    warnings: dict[Diagnostic, None] = {}
    for rule in (*program.rules, *(query.rule for query in program.queries)):
        checked = _Rule(rule, column_types)
        checked.head()
        warnings.update(dict.fromkeys(checked.warnings))
    return Inferred(column_types.columns, by_position(warnings))


def infer_columns(
    program: Program,
    given: Mapping[str, Columns] | None = None,
    nulls: Mapping[str, Columns] | None = None,
) -> Inferred:
    """Infer the types of all columns, without checking for literals that never match."""
    return Inferred(_inferred(program, given, nulls).columns)


def _inferred(
    program: Program,
    given: Mapping[str, Columns] | None,
    nulls: Mapping[str, Columns] | None = None,
) -> _ColumnTypes:
    column_types = _ColumnTypes(program, given or {}, nulls=nulls)
    column_types.complete()
    return column_types


def infer_answers(rule: Rule, inferred: Inferred, program: Program) -> tuple[Columns, tuple[Diagnostic, ...]]:
    """Infer the types of the answers of a query's rule, with warnings about literals that never match."""
    column_types = _ColumnTypes(program, {}, dict(inferred.columns))
    checked = _Rule(rule, column_types)
    checked.head()
    return tuple(checked.term(term) or ANY for term in rule.head.terms), checked.warnings


class _ColumnTypes:
    """The types of columns inferred so far. Mutable: they grow."""

    def __init__(
        self,
        program: Program,
        given: Mapping[str, Columns],
        columns: dict[str, Columns] | None = None,
        nulls: Mapping[str, Columns] | None = None,
    ) -> None:
        self.program = program
        self.declared = {
            predicate.name: tuple(map(types_of_column, predicate.types))
            for predicate in program.predicates.values()
            if predicate.declared
        }
        missing = list((nulls or {}).items())
        for transfer in program.imports:
            arity = program.predicates[transfer.predicate].arity
            missing.append((transfer.predicate, tuple(_nulls(transfer, arity))))
        for name, types in missing:
            if name in self.declared:  # missing values may be values too
                self.declared[name] = united(self.declared[name], types)
        self.columns = columns if columns is not None else self._explicit_types(given)
        self._is_equal = EQUAL in program.predicates

    def _explicit_types(self, given: Mapping[str, Columns]) -> dict[str, Columns]:
        """Return the types of explicit and imported facts."""
        program = self.program
        types_of = dict(given)
        for name, columns in types_of_facts(program.facts).items():
            types_of[name] = united(types_of.get(name, columns), columns)
        for transfer in program.imports:
            predicate = program.predicates[transfer.predicate]
            types = transfer.types or predicate.types
            columns = _imported(transfer, types, predicate.arity)
            types_of[predicate.name] = united(types_of.get(predicate.name, columns), columns)
        derived = program.derived
        for name, predicate in program.predicates.items():
            unknown = (NEVER if name in derived else ANY,) * predicate.arity
            types_of[name] = self.declared.get(name, types_of.get(name, unknown))
        return types_of

    def complete(self) -> None:
        """Add the types that the rules derive, up to the fixpoint."""
        readers: dict[str, list[Rule]] = {}
        for rule in self.program.rules:
            for name in {atom.predicate for atom in rule.positive}:
                readers.setdefault(name, []).append(rule)
        waiting = dict.fromkeys(self.program.rules)
        while waiting:
            rule = next(iter(waiting))
            del waiting[rule]
            columns, name = _Rule(rule, self).head(), rule.head.predicate
            if columns is None or name in self.declared:
                continue
            before = dict(self.columns) if self._is_equal else {name: self.columns[name]}
            self.columns[name] = united(self.columns[name], columns)
            if self._is_equal:
                self._spread_equal()
            for changed in before:
                if self.columns[changed] != before[changed]:
                    waiting.update(dict.fromkeys(readers.get(changed, ())))

    def _spread_equal(self) -> None:
        """Add the types of constants that may be equal to what a column holds."""
        equal = NEVER.union(*self.columns.get(EQUAL, ()))
        for name in self.columns.keys() - self.declared.keys():
            merged = (types | equal if types & equal else types for types in self.columns[name])
            self.columns[name] = tuple(merged)

    def of(self, atom: Atom) -> Columns:
        """Return the types of the columns of an atom's predicate."""
        return self.columns.get(atom.predicate, (ANY,) * len(atom.terms))

    def can_hold(self, atom: Atom) -> bool:
        """Return whether the predicate can have facts, as far as is known."""
        return all(self.of(atom))

    def written(self, atom: Atom, place: int) -> str:
        """Return the description of a column in messages."""
        predicate = self.program.predicates.get(atom.predicate)
        name = None if predicate is None else predicate.columns[place]
        label = f"`{name}`" if name is not None else f"{place + 1}"
        return f"column {label} of `{atom.predicate if predicate is None else predicate.written}`"


@dataclass(slots=True)
class _Rule:
    """One rule and the types of its variables. Mutable: each atom narrows the types of its variables."""

    rule: Rule
    columns_of: _ColumnTypes
    variables: dict[Variable, Types] = field(default_factory=dict)
    _found: list[Diagnostic] = field(default_factory=list)
    _bound_at: dict[Variable, str] = field(default_factory=dict)  # the column that narrowed a variable

    @property
    def warnings(self) -> tuple[Diagnostic, ...]:
        """Warnings about literals that never match, if the atoms of the body can have facts at all."""
        is_possible = all(self.columns_of.can_hold(atom) for atom in self.rule.positive)
        return tuple(self._found) if is_possible else ()

    def head(self) -> Columns | None:
        """Return the types of the head's columns; None if the rule never derives a fact."""
        rule = self.rule
        possible = [self._narrow(literal) for literal in rule.body]  # all: each may have a warning
        possible += [self._test(literal) for literal in rule.body]
        possible += [self._aggregate(aggregation) for aggregation in rule.aggregations]
        possible += [self._assign(assignment) for assignment in rule.after]
        if not all(possible):
            return None
        columns = tuple(self.term(term) for term in rule.head.terms)
        self._check_declared(columns)
        return columns

    def _check_declared(self, columns: Columns) -> None:
        """Warn if the rule derives only what the declaration of its head excludes."""
        declared = self.columns_of.declared.get(self.rule.head.predicate)
        for position, types in enumerate(columns if declared is not None else ()):
            assert declared is not None
            if not types & declared[position]:
                column = self.columns_of.written(self.rule.head, position)
                declaration = written(declared[position])
                message = f"{column} is declared {declaration}, but this rule derives {written(types)}"
                self._warn(message, self.rule.span, "change the declaration, or convert the value")

    # ---- atoms

    def _narrow(self, literal: Literal) -> bool:
        """Narrow the variables of a positive literal; return whether it can match."""
        possible = [self._narrow_atom(atom, literal) for atom in _binding_atoms(literal)]
        return all(possible)

    def _narrow_atom(self, atom: Atom, literal: Literal) -> bool:
        can_match = True
        for position, (term, types) in enumerate(zip(atom.terms, self.columns_of.of(atom), strict=True)):
            before = self.term(term)
            if not before & types:
                can_match = False
                if before and types:
                    self._warn_of_join(term, before, types, self.columns_of.written(atom, position), literal)
            if isinstance(term, Variable):
                self.variables[term] = before & types
                if types != ANY:
                    self._bound_at.setdefault(term, self.columns_of.written(atom, position))
        return can_match

    def _warn_of_join(self, term: Term, before: Types, types: Types, column: str, literal: Literal) -> None:
        if isinstance(term, Variable):
            other = self._bound_at.get(term, "elsewhere in the body")
            holds = f"{column} holds {written(types)}, {other} {written(before)}"
            message = f"`?{term.name}` never matches: {holds}"
            help: str | None = "convert one of the two, such as by `STR` or `INT`"
        else:
            message = f"`{exact(term.value)}` never matches: {column} holds {written(types)}"
            help = _other_form(term.value, types)
        self._warn(message, self.rule.place_of(literal), help)

    # ---- tests and assignments

    def _test(self, literal: Literal) -> bool:
        """Return whether a test, an assignment or a negation can hold."""
        match literal:
            case Assignment():
                return self._assign(literal)
            case Comparison():
                return self._compare(literal)
            case Condition(expression, is_negated):
                return self._condition(literal, expression, is_negated)
            case Negation(atom):
                self._check_negated(atom, literal)
            case MetricNegation(metric):
                for atom in atoms_of(metric):
                    self._check_negated(atom, literal)
        return True

    def _check_negated(self, atom: Atom, literal: Literal) -> None:
        """Warn of a negated atom that never matches, so that its negation always holds."""
        for position, (term, types) in enumerate(zip(atom.terms, self.columns_of.of(atom), strict=True)):
            held = self.term(term)
            if held and types and not held & types:
                label = f"?{term.name}" if isinstance(term, Variable) else exact(term.value)
                message = (
                    f"the negation always holds: `{label}` is {written(held)}, "
                    f"{self.columns_of.written(atom, position)} holds {written(types)}"
                )
                self._warn(message, self.rule.place_of(literal), None)
                return

    def _assign(self, assignment: Assignment) -> bool:
        types = self._expression(assignment.expression, assignment)
        self.variables[assignment.variable] = types
        return bool(types)

    def _compare(self, comparison: Comparison) -> bool:
        sides = [self._expression(side, comparison) for side in (comparison.left, comparison.right)]
        left, right = sides
        if not (left and right):
            return False
        if comparison.operator == "!=":
            return True
        if comparison.operator == "=":
            can_hold = bool(left & right)
            for side in (comparison.left, comparison.right):
                if isinstance(side, Variable):
                    self.variables[side] = left & right
        else:
            can_hold = are_comparable(left, right)
        if not can_hold:
            message = f"the comparison never holds: {written(left)} {comparison.operator} {written(right)}"
            self._warn(message, self.rule.place_of(comparison), _converted(comparison, left, right))
        return can_hold

    def _condition(self, literal: Literal, expression: Apply, is_negated: bool) -> bool:
        types = self._expression(expression, literal)
        function = builtins.lookup(expression.function)
        assert function is not None
        if function.kinds is not None and not is_negated and isinstance(expression.arguments[0], Variable):
            variable = expression.arguments[0]
            before = self.term(variable)
            self.variables[variable] = before & types_of_kinds(function.kinds)
            if before and not self.variables[variable]:
                message = f"`{function.name}` never holds: `?{variable.name}` is {written(before)}"
                self._warn(message, self.rule.place_of(literal), None)
                return False
        return bool(types)

    def _aggregate(self, aggregation: Aggregation) -> bool:
        argument = self.term(aggregation.arguments[0]) if aggregation.arguments else ANY
        match aggregation.function:
            case "count":
                types: Types = frozenset({Type.INTEGER})
            case "sum" | builtins.PART_OF_SUM | builtins.SUM_OF_PARTS:
                types = argument & NUMBER
            case "avg":
                is_exact = argument & {Type.INTEGER, Type.DECIMAL}
                types = (argument & {Type.DOUBLE}) | ({Type.DECIMAL} if is_exact else NEVER)
            case _:
                types = argument
        self.variables[aggregation.variable] = types
        if argument and not types:
            message = f"`#{aggregation.function}` never has a value: its argument is {written(argument)}"
            self._warn(message, self.rule.span, "only numbers are added up")
        return bool(types)

    # ---- expressions

    def term(self, term: Term) -> Types:
        return (
            frozenset({type_of(term.value)}) if isinstance(term, Constant) else self.variables.get(term, ANY)
        )

    def _expression(self, expression: Expression, literal: Literal) -> Types:
        """Return the types of the value of an expression; none, with a warning, if it never has one."""
        if not isinstance(expression, Apply):
            return self.term(expression)
        function = builtins.lookup(expression.function)
        assert function is not None
        if not any(True for _ in variables_of(expression)):
            return self._constant(expression, literal)
        arguments = [self._expression(argument, literal) for argument in expression.arguments]
        types = function.types  # a lazy function accepts arguments without a value
        result = types.gives(arguments) if function.lazy else types.result(arguments)
        if result and expression.function in DIVISIONS and _is_zero(expression.arguments[1]):
            self._warn("division by zero never has a value", self.rule.place_of(literal), None)
            return NEVER
        if not result and all(arguments):
            self._warn_of_arguments(expression, arguments, literal)
        return result

    def _constant(self, expression: Apply, literal: Literal) -> Types:
        """Return the type of an expression without variables: it is evaluated."""
        try:
            value = evaluate(expression, {})
        except Overflow:
            return ANY  # which is reported when it is evaluated
        if value is not None:
            return frozenset({type_of(value)})
        failing = _without_value(expression)
        if failing.function in DIVISIONS and _is_zero(failing.arguments[1]):
            message = "division by zero never has a value"
        else:
            message = f"`{failing.function}` never has a value for {_shown_arguments(failing)}"
        self._warn(message, self.rule.place_of(literal), None)
        return NEVER

    def _warn_of_arguments(self, expression: Apply, arguments: Sequence[Types], literal: Literal) -> None:
        function = builtins.lookup(expression.function)
        assert function is not None
        for position, types in enumerate(arguments):
            accepted = function.types.accepted(position)
            if not types & accepted:
                message = (
                    f"`{function.name}` never has a value: argument {position + 1} is {written(types)}, "
                    f"and it takes {written(accepted)}"
                )
                self._warn(message, self.rule.place_of(literal), None)

    # ---- warnings

    def _warn(self, message: str, span: Span | None, help: str | None) -> None:
        self._found.append(Diagnostic(codes.NEVER_MATCHES, message, span, help, severity=Severity.WARNING))


def _binding_atoms(literal: Literal) -> Iterator[Atom]:
    """Yield the atoms that hold, for some values of their variables, whenever the literal does."""
    match literal:
        case Atom():
            yield literal
        case Throughout(atom):
            yield atom
        case Metric(operator, _, operands):
            # The first operand of since and until need not hold if the second holds immediately.
            for operand in operands[1:] if operator in ("since", "until") else operands:
                if isinstance(operand, Atom):
                    yield from atoms_of(operand)
                else:
                    yield from _binding_atoms(operand)


def types_of_facts(facts: Iterable[Fact]) -> dict[str, Columns]:
    """Return the types of facts by predicate; the loop is fast, since there may be many facts."""
    kinds: dict[str, list[set[Kind]]] = {}
    for fact in facts:
        column_kinds = kinds.get(fact.predicate)
        if column_kinds is None:
            column_kinds = kinds[fact.predicate] = [set() for _ in fact.values]
        for column, value in zip(column_kinds, fact.values, strict=True):
            column.add(value.kind)
    return {name: tuple(map(types_of_kinds, column_kinds)) for name, column_kinds in kinds.items()}


def united(columns: Columns, other: Columns) -> Columns:
    """Return the unions of the types of columns, column by column."""
    return tuple(types | other_types for types, other_types in zip(columns, other, strict=True))


def _imported(transfer: Transfer, types: Sequence[ColumnType], arity: int) -> Columns:
    """Return the types of an import's columns."""
    if transfer.format in RDF and arity == len(TRIPLES):
        return TRIPLES
    imported = [types_of_column(column) for column in types if column is not ColumnType.SKIP]
    if len(imported) != arity:
        return (ANY,) * arity
    return tuple(types | null for types, null in zip(imported, _nulls(transfer, arity), strict=True))


def _nulls(transfer: Transfer, arity: int) -> list[Types]:
    """Return the type of missing values, for each column in which they are values."""
    names = transfer.options.get("nulls", ())
    assert isinstance(names, tuple), "checked by the resolver"
    by_column = (names * arity if len(names) == 1 else names)[:arity] + ("",) * (arity - len(names))
    return [frozenset({Type.LITERAL}) if name == "value" else NEVER for name in by_column[:arity]]


def _without_value(expression: Apply) -> Apply:
    """Return the innermost part of a constant expression that has no value."""
    for argument in expression.arguments:
        if isinstance(argument, Apply) and _value(argument) is None:
            return _without_value(argument)
    return expression


def _value(expression: Expression) -> Value | None:
    """Return the value of a constant expression, if it has one that is not too large."""
    try:
        return evaluate(expression, {})
    except Overflow:
        return None


def _shown_arguments(expression: Apply) -> str:
    """Return the values of the arguments of a constant expression, as a message shows them."""
    values = map(_value, expression.arguments)
    return ", ".join(f"`{exact(value)}`" for value in values if value is not None) or "no arguments"


def _is_zero(expression: Expression) -> bool:
    if not isinstance(expression, Constant) or type_of(expression.value) not in NUMBER:
        return False
    return exact_number(expression.value) == 0


def _other_form(value: Value, types: Types) -> str | None:
    """Return how a constant might be written to match a column."""
    if type_of(value) is Type.IRI and Type.STRING in types:
        return f'write `"{value.content}"` if text is meant'
    if type_of(value) is Type.STRING and Type.IRI in types:
        return f"write `{value.content}` without quotes if a name is meant"
    if type_of(value) is Type.STRING and types & NUMBER and str(value.content).strip("+-").isdigit():
        return f"write `{value.content}` without quotes if a number is meant"
    return None


def _converted(comparison: Comparison, left: Types, right: Types) -> str | None:
    """Return help for a comparison that never holds."""
    for side, other in ((comparison.left, right), (comparison.right, left)):
        if isinstance(side, Constant) and (help := _other_form(side.value, other)) is not None:
            return help
    return "convert one of the two, such as by `STR` or `INT`"


def described(program: Program, inferred: Inferred, names: Iterable[str]) -> Iterator[str]:
    """Yield a line for each predicate: its columns and their types."""
    for name in names:
        predicate = program.predicates[name]
        columns = (
            f"{column}: {written(types) if contents.size is None else contents}"
            for column, types, contents in zip(
                predicate.names, inferred.of(predicate), inferred.schema(predicate), strict=True
            )
        )
        yield f"{predicate.written}({', '.join(columns)})"
