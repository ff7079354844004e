"""Clauses: from the tree of a fact, rule or query to safe rules over terms; heads, and variables written
as in Prolog.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import fields, replace
from functools import cache
from typing import Any

from tidelog.errors import Span, codes
from tidelog.logic.expressions import ExpressionContext, Expressions, IntervalReader, Metrics, plain_value
from tidelog.logic.functions import builtins
from tidelog.logic.intervals import Interval
from tidelog.logic.program import (
    BOTTOM,
    DIFFERENT,
    EQUAL,
    TOP,
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
    MetricNegation,
    MetricRule,
    Negation,
    Predicate,
    Query,
    Rule,
    Sometime,
    Term,
    Throughout,
    TimedFact,
    Variable,
    variables_of,
)
from tidelog.logic.scopes import Report, Scope, written
from tidelog.logic.signatures import Columns, Signatures, Use
from tidelog.logic.strata import Ordered, local_variables, order
from tidelog.logic.values import FALSE, TRUE, Value
from tidelog.records import dataclass
from tidelog.syntax import ast

# ---- variables as Prolog writes them


def warn_of_foreign_variables(clause: ast.ClauseNode, report: Report) -> None:
    """Warn of a rule without variables that uses names such as `X` or `_x` like variables in Prolog.

    That is the case if a name occurs in the head and in the body, or in two conditions.
    """
    if any(isinstance(node, ast.VariableNode) for node in nodes(clause)):
        return
    names_by_part = [_foreign_names(clause.heads), *map(_foreign_names, clause.body)]
    shared = [
        name
        for name in dict.fromkeys(name for names in names_by_part for name in names)
        if _shared(name, names_by_part)
    ]
    if not shared:
        return
    first = next(names[shared[0]] for names in names_by_part if shared[0] in names)
    listed = ", ".join(f"`{name}`" for name in shared)
    verb = "is a constant" if len(shared) == 1 else "are constants"
    message = f"{listed} {verb} in this rule: it has no variables"
    name = shared[0]
    help = f"a variable is written `?{name.lstrip('_') or name}`; write `<{name}>` if the constant is meant"
    report.warn(codes.FOREIGN_VARIABLES, message, first.span, help)


def _shared(name: str, parts: list[dict[str, ast.NameNode]]) -> bool:
    return sum(name in part for part in parts) > 1


def _foreign_names(tree: object) -> dict[str, ast.NameNode]:
    """The constants that begin with a capital letter or an underscore, each with its first occurrence."""
    names: dict[str, ast.NameNode] = {}
    for node in nodes(tree):
        if isinstance(node, ast.NameNode) and (node.text[0].isupper() or node.text[0] == "_"):
            names.setdefault(node.text, node)
    return names


def nodes(tree: object) -> Iterator[ast.SyntaxNode]:
    """The nodes of a tree, without the names of predicates and functions."""
    if isinstance(tree, tuple):
        for item in tree:
            yield from nodes(item)
    elif isinstance(tree, ast.CallNode):
        yield from nodes(tree.arguments)
    elif isinstance(tree, ast.SyntaxNode):
        yield tree
        kind: Any = type(tree)
        for attribute in _node_attributes(kind):
            yield from nodes(getattr(tree, attribute))


@cache
def _node_attributes(kind: Any) -> tuple[str, ...]:
    """The attributes of a kind of node in which there may be nodes."""
    return tuple(attribute.name for attribute in fields(kind) if attribute.name not in ("span", "attributes"))


# ---- heads
#
# The terms without an aggregate form the group, by value. A term that holds aggregates is computed from them
# per group; the variables in the head outside of aggregates also belong to the group.


class Head:
    """The terms of one head, and the literals that they need: mutable while arguments are added."""

    def __init__(self, expressions: Expressions) -> None:
        self.expressions = expressions
        self.aggregations: list[Aggregation] = []
        self.assigned: list[Assignment] = []
        expressions.aggregations, expressions.assigned = self.aggregations, self.assigned
        self.terms: list[Term] = []
        self.group: list[Variable] = []
        self.after: list[Assignment] = []

    def add(self, argument: ast.Expression) -> None:
        """Add the next argument."""
        earlier = len(self.aggregations)
        expression = self.expressions.expression(argument, ExpressionContext.HEAD)
        if len(self.aggregations) > earlier:
            self._add_aggregated(expression)
            return
        if isinstance(expression, Apply):
            variable = self.expressions.fresh()
            self.assigned.append(Assignment(variable, expression))
            expression = variable
        self.terms.append(expression)
        self.group.extend(variables_of(expression))

    def _add_aggregated(self, expression: Expression) -> None:
        """Add a term that holds aggregates: its other variables belong to the group."""
        aggregated = {aggregation.variable for aggregation in self.aggregations}
        self.group.extend(variable for variable in variables_of(expression) if variable not in aggregated)
        if isinstance(expression, Apply):
            variable = self.expressions.fresh()
            self.after.append(Assignment(variable, expression))
            expression = variable
        self.terms.append(expression)

    @property
    def needed(self) -> tuple[Variable, ...]:
        """The variables that the body must bind."""
        arguments = (term for aggregation in self.aggregations for term in aggregation.arguments)
        return tuple(
            dict.fromkeys((*self.group, *(term for term in arguments if isinstance(term, Variable))))
        )


# ---- clauses
#
# Arguments that are expressions become variables, and an equality, an assignment or a test next to the atom.

TRIPLE = "triple"
ANSWER = "?-"  # the predicate in the head of a query's rule
NEVER = Comparison("=", Constant(TRUE), Constant(FALSE))


@dataclass(frozen=True, slots=True)
class ClauseContext:
    """The context in which the clauses of a file are resolved: scope, parameters and signatures."""

    scope: Scope
    parameters: Mapping[str, Value]
    report: Report
    signatures: Signatures


def facts(clause: ast.ClauseNode, context: ClauseContext) -> tuple[Fact, ...]:
    """The facts that a clause without a body states."""
    plain = _plain_fact(clause, context)
    if plain is not None:
        return (plain,)
    resolver = _Clause((), context)
    resolved = (resolver.fact(head, clause.span) for head in clause.heads)
    return tuple(fact for fact in resolved if fact is not None)


def _plain_fact(clause: ast.ClauseNode, context: ClauseContext) -> Fact | None:
    """A fast path for clauses that need no checks, such as data: their fact, else None."""
    match clause.heads:
        case (ast.AtomNode(ast.CallNode(ast.NameNode(name), arguments), None | ast.IntervalNode() as at),):
            pass
        case _:
            return None
    if not context.signatures.holds_any(name, len(arguments)):
        return None
    row = []
    for argument in arguments:
        value = plain_value(argument, context.scope)
        if value is None:
            return None
        row.append(value)
    if at is None:
        return Fact(name, tuple(row), clause.span)
    interval = IntervalReader(context.report, context.parameters).interval(at)
    return None if interval is None else TimedFact(name, tuple(row), clause.span, interval)


def rules(clause: ast.ClauseNode, context: ClauseContext) -> tuple[Rule, ...]:
    """Resolve a clause with a body to its rules, one for each head."""
    resolver = _Clause(clause, context)
    body = resolver.body(clause.body)
    name = _name(clause, context.report)
    resolved = [resolver.rule(head, body, name, clause.span) for head in clause.heads]
    resolver.warn_of_singles()
    warn_of_foreign_variables(clause, context.report)
    return tuple(rule for rule in resolved if rule is not None)


def query(literals: Sequence[ast.Literal], text: str, span: Span | None, context: ClauseContext) -> Query:
    """The query for the named variables of the literals."""
    resolver = _Clause(tuple(literals), context, is_query=True)
    body = resolver.body(literals)
    named = [Variable(name) for name in resolver.expressions.occurrences]
    head = tuple(variable for variable in named if variable not in local_variables(body, ()))
    ordered = resolver.ordered(body, head)
    make = MetricRule if resolver.is_metric else Rule
    rule = make(Atom(ANSWER, head), ordered.body, span=span, places=tuple(resolver.places.items()))
    return Query(rule, tuple(variable.name for variable in head), text, resolver.time)


class _Clause:
    """Resolves one clause. Mutable: it notes the variables, their types and whether all could be read."""

    def __init__(self, tree: object, context: ClauseContext, *, is_query: bool = False) -> None:
        self.is_query = is_query
        self.is_metric = False  # it uses temporal operators, or the query uses times
        self.time: str | None = None  # the query's variable for the time
        self.times = IntervalReader(context.report, context.parameters)
        self.scope = context.scope
        self.report = context.report
        self.signatures = context.signatures
        variable_names = frozenset(node.name for node in nodes(tree) if isinstance(node, ast.VariableNode))
        self.expressions = Expressions(context.scope, context.parameters, context.report, variable_names)
        self.columns = Columns(context.report)
        self.matched: set[Variable] = set()  # variables that are arguments of atoms in the body
        self.unbound: set[Variable] = set()
        self.places: dict[Literal, Span] = {}  # the spans of the body's literals
        self.complete = True  # no literal was dropped because of an error, so unbound variables are real

    # ---- heads

    def fact(self, head: ast.Head, span: Span | None) -> Fact | None:
        """The fact that a head states."""
        interval = self._time_of_fact(head)
        resolved = self._head(head)
        if resolved is None:
            return None
        use, arguments = resolved
        predicate = self._derive(use, len(arguments))
        row = []
        for column, argument in enumerate(arguments):
            value = self.expressions.value(argument, ExpressionContext.FACT)
            if value is not None:
                constant = self.columns.constant(Constant(value), predicate, column, argument.span)
                row.append(constant.value)
        if interval is not None:
            return TimedFact(use.name, tuple(row), span, interval)
        return Fact(use.name, tuple(row), span)

    def _time_of_fact(self, head: ast.Head) -> Interval | None:
        """The interval in which a fact holds; None if it has no time."""
        match head:
            case ast.UnaryMetricNode(operator):
                message = f"the operator `{operator}` is not allowed at a fact"
                help = "write when it holds: `p(a)@[0, 10) .`"
                self.report.error(codes.MISPLACED_OPERATOR, message, head.span, help)
            case ast.AtomNode(_, ast.VariableNode(name) as at):
                message = f"variable `?{name}` in a fact, where nothing can bind it"
                self.report.error(codes.VARIABLE_WITHOUT_BODY, message, at.span)
            case ast.AtomNode(_, ast.SometimeNode() as at):
                message = "a fact at an unknown time"
                help = "`during` and `ever` are for queries; write when it holds: `p(a)@[0, 10) .`"
                self.report.error(codes.TIME_IN_RULE, message, at.span, help)
            case ast.AtomNode(_, at) if at is not None and not isinstance(at, ast.VariableNode):
                return self.times.at(at)
        return None

    def rule(
        self, head: ast.Head, body: Sequence[Literal], name: str | None, span: Span | None
    ) -> Rule | None:
        """The rule with this head."""
        moves = tuple(self._moves(head))
        if isinstance(head, ast.AtomNode) and head.at is not None:
            self._refuse_time(head.at)
        resolved = self._head(head)
        if resolved is None:
            return None
        use, arguments = resolved
        predicate = self._derive(use, len(arguments))
        terms = Head(self.expressions)
        for column, argument in enumerate(arguments):
            terms.add(argument)
            terms.terms[-1] = self.columns.term(terms.terms[-1], predicate, column, argument.span)
        self.signatures.name_columns(use.name, [_column_name(argument) for argument in arguments])
        ordered = self.ordered((*body, *terms.assigned), terms.needed)
        group = tuple(dict.fromkeys(terms.group)) if terms.aggregations else ()
        parts = (
            Atom(use.name, tuple(terms.terms)),
            ordered.body,
            group,
            tuple(terms.aggregations),
            tuple(terms.after),
            name,
            span,
        )
        places = tuple(self.places.items())
        if moves or self.is_metric:
            return MetricRule(*parts, places=places, moves=moves)
        return Rule(*parts, places=places)

    def _moves(self, head: ast.Head) -> Iterator[tuple[str, Interval]]:
        """The operators of a head, the outermost first."""
        while isinstance(head, ast.UnaryMetricNode):
            interval = self.times.interval(head.interval, is_duration=True)
            if interval is not None:
                yield head.operator, interval
            assert isinstance(head.operand, ast.AtomNode | ast.UnaryMetricNode), "the parser takes no other"
            head = head.operand

    def _head(self, head: ast.Head) -> tuple[Use, tuple[ast.Expression, ...]] | None:
        """The predicate and the arguments of a head; None, with the reason reported, if it has none."""
        match head:
            case ast.HeadEqualityNode(left, right, operator):
                return Use(EQUAL if operator == "=" else DIFFERENT, operator, head.span), (left, right)
            case ast.UnaryMetricNode(_, _, operand):
                assert isinstance(operand, ast.AtomNode | ast.UnaryMetricNode), "the parser takes no other"
                return self._head(operand)
            case ast.AtomNode(call):
                use, arguments = self._use(call)
                if self._is_reserved(use, call.span):
                    return None
                return use, arguments
        return None

    def _is_reserved(self, use: Use, span: Span | None) -> bool:
        """Whether the head's name is built in; if so, that is reported."""
        function = builtins.lookup(use.name)
        if function is not None and function.boolean:
            message = f"`{use.written}` is a built-in function, so no rule can derive it"
        elif use.name == TOP:
            message = "`top()` always holds, so no rule can derive it"
        else:
            return False
        self.report.error(codes.RESERVED_PREDICATE, message, span)
        return True

    def _derive(self, use: Use, arity: int) -> Predicate:
        self.signatures.fill(use.name)
        return self.signatures.use(use, arity)

    # ---- bodies

    def body(self, literals: Sequence[ast.Literal]) -> tuple[Literal, ...]:
        """The literals, not yet ordered; `=` is still a comparison."""
        resolved_body: list[Literal] = []
        for literal in literals:
            resolved = tuple(self._literal(literal))
            resolved_body.extend(resolved)
            if literal.span is not None:
                self.places.update(dict.fromkeys(resolved, literal.span))
        return tuple(resolved_body)

    def ordered(self, body: Sequence[Literal], needed: Sequence[Variable]) -> Ordered:
        """The body in order; unbound variables are reported."""
        ordered = order(body, needed)
        for variable in ordered.unbound if self.complete else ():
            places = self.expressions.occurrences.get(variable.name)
            if places is not None and variable not in self.unbound:
                self.unbound.add(variable)
                message = f"nothing in the body binds variable `?{variable.name}`"
                help = "use it in an atom that is not negated, or give it a value with `=`"
                self.report.error(codes.UNSAFE_VARIABLE, message, _first(places), help)
        return ordered

    def _literal(self, literal: ast.Literal) -> Iterator[Literal]:
        match literal:
            case ast.NegationNode(ast.AtomNode() as atom):
                yield from self._atom(atom, negated=True)
            case ast.NegationNode(operand):
                yield from self._metric(operand, negated=True)
            case ast.AtomNode():
                yield from self._atom(literal, negated=False)
            case ast.UnaryMetricNode() | ast.BinaryMetricNode():
                yield from self._metric(literal, negated=False)
            case ast.ComparisonNode(operator, left, right):
                yield Comparison(operator, self._side(left), self._side(right))

    def _side(self, node: ast.Expression) -> Expression:
        return self.expressions.expression(node, ExpressionContext.BODY)

    def _atom(self, atom: ast.AtomNode, *, negated: bool) -> Iterator[Literal]:
        if atom.at is not None:
            yield from self._atom_at(atom, atom.at, negated)
            return
        use, arguments = self._use(atom.call)
        function = builtins.lookup(use.name) if isinstance(atom.call, ast.CallNode) else None
        if function is not None and function.boolean:
            yield from self._condition(atom.call, negated)
        elif use.name in (TOP, BOTTOM):
            yield from self._built_in(use, negated)
        elif negated:
            yield from self._negation(use, arguments)
        else:
            yield from self._positive(use, arguments)

    def _atom_at(self, atom: ast.AtomNode, at: ast.At, negated: bool) -> Iterator[Literal]:
        """Yield an atom with a time, in a query: an interval throughout which it holds, or a variable."""
        if not self.is_query:
            self._refuse_time(at)
            return
        self.is_metric = True
        literals = list(self._atom(replace(atom, at=None), negated=negated))
        if isinstance(at, ast.VariableNode):
            if self.time not in (None, at.name):
                message = f"`?{at.name}` is a second time variable besides `?{self.time}`"
                help = "use one time variable: the time at which all of the query holds"
                self.report.error(codes.SEVERAL_TIMES, message, at.span, help)
            self.time = at.name
            yield from literals
            return
        interval, quantified = self.times.at(at), Throughout
        if isinstance(at, ast.SometimeNode):
            quantified = Sometime
        for literal in literals:
            if isinstance(literal, Atom) and interval is not None:
                yield quantified(literal, interval)
            elif isinstance(literal, Negation):
                message = "a negation cannot be queried throughout an interval"
                help = "ask for the times at which it holds, with `@?t`"
                self.report.error(codes.TIME_IN_RULE, message, at.span, help)
            else:
                yield literal

    def _metric(self, node: ast.Metric, *, negated: bool) -> Iterator[Literal]:
        """A metric atom, and the literals that must hold with it."""
        self.is_metric = True
        metrics = Metrics(self.times, self._operand)
        metric = metrics.metric(node, is_bound=negated)
        if metric is None:
            self.complete = False
            return
        yield MetricNegation(metric) if negated else metric
        yield from metrics.conditions

    def _operand(self, atom: ast.AtomNode, is_bound: bool) -> tuple[Atom | None, tuple[Literal, ...]]:
        """An atom under an operator, and the literals that must hold with it."""
        if atom.at is not None:
            self._refuse_time(atom.at)
            return None, ()
        use, arguments = self._use(atom.call)
        function = builtins.lookup(use.name) if isinstance(atom.call, ast.CallNode) else None
        if function is not None and function.boolean:
            message = f"`{use.written}` is a function: it holds at all times, or never"
            self.report.error(codes.MISPLACED_OPERATOR, message, atom.span, "move it out of the operator")
            return None, ()
        if use.name == TOP:
            return Atom(TOP, ()), ()
        literals = list(self._negation(use, arguments) if is_bound else self._positive(use, arguments))
        atoms = [item.atom if isinstance(item, Negation) else item for item in literals]
        place = next(number for number, item in enumerate(atoms) if isinstance(item, Atom))
        inner = atoms[place]
        assert isinstance(inner, Atom)
        return inner, tuple(literals[:place] + literals[place + 1 :])

    def _condition(self, call: ast.CallNode | ast.TripleNode, negated: bool) -> Iterator[Literal]:
        assert isinstance(call, ast.CallNode)
        expression = self._side(call)
        if isinstance(expression, Apply):
            yield Condition(expression, negated)
        elif expression != Constant(FALSE if negated else TRUE):
            yield NEVER

    def _built_in(self, use: Use, negated: bool) -> Iterator[Literal]:
        """`top()` and `~bottom()` hold always, `~top()` never, `bottom()` once it is derived."""
        if use.name == TOP and negated:
            yield NEVER
        elif use.name == BOTTOM and not negated:
            self.signatures.use(use, 0)
            yield Atom(BOTTOM, ())

    def _positive(self, use: Use, arguments: Sequence[ast.Expression]) -> Iterator[Literal]:
        """The atom, then an equality for each argument that is an expression."""
        predicate = self.signatures.use(use, len(arguments))
        terms: list[Term] = []
        tests: list[Literal] = []
        for column, argument in enumerate(arguments):
            expression = self._argument(argument)
            if isinstance(expression, Apply):
                variable = self.expressions.fresh()
                tests.append(Comparison("=", variable, expression))
                expression = variable
            terms.append(self.columns.term(expression, predicate, column, argument.span))
        yield Atom(use.name, tuple(terms))
        yield from tests

    def _negation(self, use: Use, arguments: Sequence[ast.Expression]) -> Iterator[Literal]:
        """An assignment for each argument that is an expression, then the negated atom."""
        predicate = self.signatures.use(use, len(arguments))
        terms: list[Term] = []
        for column, argument in enumerate(arguments):
            expression = self._argument(argument)
            if isinstance(expression, Apply):
                variable = self.expressions.fresh()
                yield Assignment(variable, expression)
                expression = variable
            terms.append(self.columns.term(expression, predicate, column, argument.span))
        yield Negation(Atom(use.name, tuple(terms)))

    def _argument(self, node: ast.Expression) -> Expression:
        if isinstance(node, ast.AnonymousNode):
            return self.expressions.fresh()
        expression = self._side(node)
        if isinstance(expression, Variable):
            self.matched.add(expression)
        return expression

    def _use(self, call: ast.CallNode | ast.TripleNode) -> tuple[Use, tuple[ast.Expression, ...]]:
        """The predicate of an atom, and its arguments."""
        if isinstance(call, ast.TripleNode):
            return Use(TRIPLE, TRIPLE, call.span), (call.subject, call.predicate, call.object)
        name = self.scope.predicate(call.symbol, self.report)
        use = Use(name, written(call.symbol), call.span)
        if name in (TOP, BOTTOM) and call.arguments:
            use = self.signatures.refuse_arguments(use)
        return use, call.arguments

    # ---- refused and suspect clauses

    def _refuse_time(self, at: ast.At) -> None:
        self.complete = False
        message = "an atom of a rule cannot have a time"
        help = "a rule says when by its operators, such as `boxminus[0, 5]`"
        self.report.error(codes.TIME_IN_RULE, message, at.span, help)

    def warn_of_singles(self) -> None:
        """Warn of each named variable that occurs once: it is either misspelt or better written `_`."""
        for name, places in self.expressions.occurrences.items():
            variable = Variable(name)
            if len(places) > 1 or name.startswith("_") or variable in self.unbound or not self.complete:
                continue
            message = f"variable `?{name}` occurs only once in this rule"
            is_matched = variable in self.matched
            help = "write `_` if that is meant" if is_matched else "its value is never used"
            self.report.warn(codes.SINGLE_VARIABLE, message, places[0], help)


def _first(places: Sequence[Span | None]) -> Span | None:
    """The place that comes first in the text."""
    return min((place for place in places if place is not None), key=lambda place: place.start, default=None)


def _column_name(argument: ast.Expression) -> str | None:
    """The name of a head's column: that of its variable, or of what is aggregated, such as `sum_amount`."""
    match argument:
        case ast.VariableNode(name):
            return name
        case ast.AggregateNode(function, (ast.VariableNode(name), *_)):
            return f"{function}_{name}"
    return None


def _name(clause: ast.ClauseNode, report: Report) -> str | None:
    """The rule's name, from its attributes."""
    name = None
    for attribute in clause.attributes:
        match attribute:
            case ast.AttributeNode("name", (ast.TextNode(text),)):
                name = text
            case _:
                message = f"the attribute `{attribute.name}` is not known, so it has no effect"
                help = 'a rule is named by `#[name("…")]`'
                report.warn(codes.UNKNOWN_ATTRIBUTE, message, attribute.span, help)
    return name
