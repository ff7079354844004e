"""Maintained queries, queries that are evaluated again after each transaction, and prepared queries."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import field, fields, replace
from types import TracebackType
from typing import TYPE_CHECKING, Any, Protocol

import numpy as np

from tidelog.data.relation import Relation
from tidelog.data.rows import Rows, without
from tidelog.engine.flags import Flag
from tidelog.engine.interrupts import Lock, locked
from tidelog.errors import Diagnostic, ProgramError, SourceText, counted, suggest
from tidelog.errors.codes import QUERY_CLOSED, WRONG_BINDING
from tidelog.logic.program import Atom, Constant, Literal, Program, Query, Rule, Variable
from tidelog.logic.resolve import resolve_query
from tidelog.logic.type_inference import LazySchema
from tidelog.logic.values import ColumnType
from tidelog.maintenance.maintainer import Update
from tidelog.plan.algebra import BINDING, CONSTANTS, REQUERIED
from tidelog.query.kept_queries import KeptQueries, KeptQuery, QueryStep, untyped_predicate
from tidelog.query.strategy import Answers
from tidelog.records import dataclass
from tidelog.rewrite.renaming import renamed_body
from tidelog.syntax import ast
from tidelog.syntax.parser import parse_literals

if TYPE_CHECKING:
    from tidelog.engine.columnar.engine import ColumnarEngine

# ---- Queries that are maintained. Mutates the engine.
#
# They and their bindings are added and dropped in separate transactions. Listeners are not
# notified of these, since no fact of the program changes.

Row = tuple[int, ...]


def no_longer_kept() -> ProgramError:
    """The error of using a query that is no longer kept."""
    message = "the query is no longer maintained"
    return ProgramError(Diagnostic(QUERY_CLOSED, message, help="prepare it, or watch it, again"))


class QueryKeeper(Protocol):
    """Keeps queries, for prepared and live queries."""

    engine: ColumnarEngine

    def forget(self, kept_query: KeptQuery) -> None:
        """Stop keeping a query; has no effect if it is not kept."""

    def check(self, kept_query: KeptQuery) -> None:
        """Raise ProgramError unless the query is kept."""

    def encode(self, values: Sequence[object]) -> Row:
        """The ids of the values of parameters."""

    def answer(self, kept_query: KeptQuery, row: Row) -> Answers:
        """The answers for a binding of parameters."""

    def rows(self, kept_query: KeptQuery) -> Answers:
        """The answers of a live query."""


@dataclass(eq=False)
class MaintainedQueries:
    """Queries whose answers maintainers maintain.

    `carry_out` executes a step atomically; `program` returns the current program.
    """

    engine: ColumnarEngine
    demands: KeptQueries
    carry_out: Callable[[QueryStep], None]
    program: Callable[[], Program]

    def keep(self, query: Query, parameters: tuple[Variable, ...] = ()) -> KeptQuery:
        """Maintain the answers to a query from now on."""
        kept_query = KeptQuery(self.demands.name_for(len(query.rule.head.terms)), query, parameters)
        step = self.demands.asking(kept_query, self.program())
        self.carry_out(step)
        self.demands.adopt(step, kept_query)
        return kept_query

    def forget(self, kept_query: KeptQuery) -> None:
        """Stop maintaining a query and the relations that only it needs; has no effect if it is not kept."""
        if self.demands.find(kept_query.name) is not kept_query:
            return
        step = self.demands.forgetting(kept_query, self.program())
        self.carry_out(step)
        self.demands.adopt(step, kept_query, forgotten=True)

    def check(self, kept_query: KeptQuery) -> None:
        """Raise ProgramError unless the query is kept."""
        if self.demands.find(kept_query.name) is not kept_query:
            raise no_longer_kept()

    def rows(self, kept_query: KeptQuery) -> Answers:
        """The answers of a live query."""
        self.program()  # recovers if a fault has ended a transaction
        answers: Answers = self.engine.storage.rows(kept_query.name)
        return answers

    def encode(self, values: Sequence[object]) -> Row:
        """The ids of the values of parameters."""
        encode = self.engine.storage.dictionary.encode_python
        return tuple(encode(value, ColumnType.ANY) for value in values)

    def answer(self, kept_query: KeptQuery, row: Row) -> Answers:
        """The answers for a binding, which is maintained from then on."""
        self.check(kept_query)
        self.program()
        if not kept_query.parameters:
            answers: Answers = self.engine.storage.rows(kept_query.name)
            return answers
        rows = Rows(tuple(np.array([identity], np.int32) for identity in row), 1)
        body = kept_query.query.rule.body
        if kept_query.bindings in self.demands.kept.arities:
            rows = self._bound(kept_query, rows)
            body = (Atom(kept_query.name, (*kept_query.parameters, *kept_query.variables)),)
        return self._match(rows, Atom(BINDING, kept_query.parameters), body, kept_query.variables)

    def _bound(self, kept_query: KeptQuery, rows: Rows) -> Rows:
        """A maintained binding with the same answers: if there is none, add the binding itself."""
        if self.engine.storage.row_flags(kept_query.bindings, rows.columns, rows.count)[0] & Flag.ALIVE:
            return rows
        if kept_query.backward in self.demands.kept.arities and self.engine.storage.size(kept_query.backward):
            (reached,), (equivalent,) = kept_query.variables, kept_query.parameters
            body = tuple(Atom(name, (equivalent, reached)) for name in (kept_query.name, kept_query.backward))
            columns, count = self._match(rows, Atom(BINDING, (reached,)), body, (equivalent,))
            if count:
                return Rows(tuple(column[:1] for column in columns), 1)
        program = self.program()
        self.carry_out(self.demands.step(Update({}, {kept_query.bindings: rows}), program, program))
        return rows

    def _match(
        self, rows: Rows, fact: Atom, body: tuple[Literal, ...], variables: tuple[Variable, ...]
    ) -> Answers:
        """The values of variables for which a body holds together with a fact."""
        self.engine.storage.define(BINDING, len(fact.terms))
        try:
            self.engine.storage.add(BINDING, rows.columns, 1)
            self.engine.rounds.begin([BINDING])
            answers: Answers = self.engine.plans.answer(Rule(Atom(BINDING, variables), (fact, *body)))
        finally:
            self.engine.storage.drop(BINDING)
        return answers


# ---- Queries that are evaluated again, where facts are over representatives of equal constants. Mutable.
#
# A live query caches its answers; after a transaction that may have changed them it is evaluated again, and
# the difference is its change. A prepared query is evaluated with its values in place of parameters.
#
# Invariant: between transactions the cached answers of live queries are those that asking again gives.

Find = Callable[[Query, bool], Answers]


@dataclass(eq=False)
class RequeriedQueries:
    """Queries that are evaluated again after changes.

    `find` looks up answers, as they are usually shown or with all members; `recover` repairs the state after
    a fault, cached answers included.
    """

    engine: ColumnarEngine
    find: Find
    recover: Callable[[], object]
    _queries: dict[str, KeptQuery] = field(default_factory=dict, init=False)
    _cached: dict[str, Rows] = field(default_factory=dict, init=False)  # the answers of live queries

    @property
    def watched(self) -> Mapping[str, KeptQuery]:
        """The live queries, by the names of their answers."""
        return {name: self._queries[name] for name in self._cached}

    def keep(self, query: Query, parameters: tuple[Variable, ...] = ()) -> KeptQuery:
        """Keep a query, and its answers unless it has parameters."""
        number = 1
        while (name := f"{REQUERIED} {number}") in self._queries:
            number += 1
        kept_query = KeptQuery(name, query, parameters)
        if not parameters:
            self._cached[name] = Rows(*self.find(query, True))
        self._queries[name] = kept_query
        return kept_query

    def forget(self, kept_query: KeptQuery) -> None:
        """Stop keeping a query; has no effect if it is not kept."""
        if self._queries.get(kept_query.name) is kept_query:
            del self._queries[kept_query.name]
            self._cached.pop(kept_query.name, None)

    def check(self, kept_query: KeptQuery) -> None:
        """Raise ProgramError unless the query is kept."""
        if self._queries.get(kept_query.name) is not kept_query:
            raise no_longer_kept()

    def rows(self, kept_query: KeptQuery) -> Answers:
        """The answers of a live query."""
        self.recover()
        cached = self._cached[kept_query.name]
        return cached.columns, cached.count

    def encode(self, values: Sequence[object]) -> Row:
        """The ids of the values of parameters."""
        encode = self.engine.storage.dictionary.encode_python
        return tuple(encode(value, ColumnType.ANY) for value in values)

    def answer(self, kept_query: KeptQuery, row: Row) -> Answers:
        """The answers for a binding."""
        self.check(kept_query)
        decode = self.engine.storage.dictionary.decode
        values = {
            name: Constant(decode(identity))
            for name, identity in zip(kept_query.parameters, row, strict=True)
        }
        rule = kept_query.query.rule
        bound_rule = replace(
            rule, head=Atom(rule.head.predicate, kept_query.variables), body=renamed_body(rule.body, values)
        )
        return self.find(replace(kept_query.query, rule=bound_rule), False)

    def changes(self, changed: frozenset[str]) -> tuple[dict[str, Rows], dict[str, Rows]]:
        """The inserted and deleted answers of live queries, by name, given the predicates that changed."""
        inserted: dict[str, Rows] = {}
        deleted: dict[str, Rows] = {}
        for name, old in self._cached.items():
            rule = self._queries[name].query.rule
            if rule.read.isdisjoint(changed):
                continue
            new = Rows(*self.find(self._queries[name].query, True))
            inserted[name], deleted[name] = without(new, old), without(old, new)
            self._cached[name] = new
        return _present(inserted), _present(deleted)

    def look_up_anew(self) -> None:
        """Evaluate live queries again, and replace their cached answers."""
        for name in self._cached:
            self._cached[name] = Rows(*self.find(self._queries[name].query, True))


def _present(rows: Mapping[str, Rows]) -> dict[str, Rows]:
    return {name: answers for name, answers in rows.items() if answers.count}


# ---- Prepared queries: evaluated many times with different values. Mutates the kept queries.
#
# Invariant: facts derived for earlier bindings are maintained, and used for later ones.


def resolve_prepared(text: str, program: Program) -> tuple[Query, tuple[Variable, ...]]:
    """A query, and the variables that represent its parameters; those of the program have their values."""
    literals = parse_literals(SourceText("<query>", text))
    names = [name for name in dict.fromkeys(_parameters(literals)) if name not in program.parameters]
    if not names:
        return resolve_query(literals, program, text), ()
    variables = tuple(Variable(f"${name}") for name in names)
    given = ast.AtomNode(
        ast.CallNode(ast.NameNode(CONSTANTS), tuple(ast.VariableNode(each.name) for each in variables))
    )
    predicates = {CONSTANTS: untyped_predicate(CONSTANTS, len(names))}
    query = resolve_query((given, *_with_variables(literals, names)), program, text, predicates)
    body = tuple(
        literal
        for literal in query.rule.body
        if not (isinstance(literal, Atom) and literal.predicate == CONSTANTS)
    )
    return replace(query, rule=replace(query.rule, body=body)), variables


def _parameters(node: object) -> list[str]:
    """The parameters in a tree, in order."""
    if isinstance(node, ast.ParameterNode):
        return [node.name]
    if isinstance(node, tuple):
        return [name for child in node for name in _parameters(child)]
    if isinstance(node, ast.SyntaxNode):
        return [name for child in fields(node) for name in _parameters(getattr(node, child.name))]
    return []


def _with_variables(node: Any, names: Collection[str]) -> Any:
    """The tree with parameters of these names turned into variables."""
    if isinstance(node, ast.ParameterNode) and node.name in names:
        return ast.VariableNode(f"${node.name}", span=node.span)
    if isinstance(node, tuple):
        return tuple(_with_variables(child, names) for child in node)
    if isinstance(node, ast.SyntaxNode):
        children = {child.name: _with_variables(getattr(node, child.name), names) for child in fields(node)}
        return replace(node, **children)
    return node


class PreparedQuery:
    """A query with parameters that can be evaluated any number of times.

    >>> import tidelog as tl
    >>> reasoner = tl.Reasoner(tl.parse('''
    ...     reach(?x, ?y) :- edge(?x, ?y) .
    ...     reach(?x, ?z) :- edge(?x, ?y), reach(?y, ?z) .
    ...     edge(a, b) . edge(b, c) .
    ... '''))
    >>> reach = reasoner.prepare("reach($start, ?to)")
    >>> reach(start="a").to_texts().rows()
    [('b',), ('c',)]
    """

    def __init__(
        self,
        kept_query: KeptQuery,
        keeping: QueryKeeper,
        lock: Lock,
        schema: Callable[[Query, tuple[str, ...]], LazySchema],
    ) -> None:
        self._schema = schema
        self._lock = lock
        self._kept_query = kept_query
        self._keeping = keeping

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters, in the order in which values are given to them."""
        return tuple(variable.name.removeprefix("$") for variable in self._kept_query.parameters)

    @locked
    def __call__(self, /, *values: object, **named: object) -> Relation:
        """The answers for these values of the parameters.

        Where a name is a keyword of Python, an underscore behind it is ignored: `query(from_="alice")`.
        """
        row = self._keeping.encode(self._ordered(values, named))
        columns, count = self._keeping.answer(self._kept_query, row)
        text = self._kept_query.query.text.strip()
        names = tuple(variable.name for variable in self._kept_query.variables)
        schema = self._schema(self._kept_query.query, names)
        return Relation(text, names, columns, count, self._keeping.engine.storage.dictionary, schema)

    @locked
    def close(self) -> None:
        """Drop all bindings and the facts derived only for them; the query can no longer be used."""
        self._keeping.forget(self._kept_query)

    def __enter__(self) -> PreparedQuery:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ordered(self, values: tuple[object, ...], named: Mapping[str, object]) -> list[object]:
        """The values in the order of the parameters; raises ProgramError if they do not fit."""
        expected = self.parameters
        value_of = dict(zip(expected, values, strict=False))
        for name, value in named.items():
            name = name if name in expected else name.removesuffix("_")
            if name not in expected or name in value_of:
                what = "is given twice" if name in value_of else "is not in the query"
                help = suggest(name, expected) or f"its parameters are {', '.join(expected)}"
                raise ProgramError(Diagnostic(WRONG_BINDING, f"the parameter `{name}` {what}", help=help))
            value_of[name] = value
        if len(values) > len(expected) or len(value_of) < len(expected):
            counts = counted(len(expected), "parameter")
            message = f"the query has {counts}, but it is given {counted(len(values) + len(named), 'value')}"
            raise ProgramError(
                Diagnostic(WRONG_BINDING, message, help=f"its parameters are {', '.join(expected)}")
            )
        return [value_of[name] for name in expected]
