"""Queries that are maintained, queries that are asked again after each transaction, and prepared ones."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, field, fields, replace
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
from tidelog.rewrite.renaming import renamed_body
from tidelog.syntax import ast
from tidelog.syntax.parser import parse_literals

if TYPE_CHECKING:
    from tidelog.engine.columnar.engine import ColumnarEngine

# ---- Queries that are maintained. Mutates the engine.
#
# They and their bindings are added and dropped in transactions of their own. Listeners are not
# told of these, since no fact of the program changes.

Row = tuple[int, ...]


def no_longer_kept() -> ProgramError:
    """The error of using a query that is not kept any more."""
    message = "the query is no longer maintained"
    return ProgramError(Diagnostic(QUERY_CLOSED, message, help="prepare it, or watch it, again"))


class QueryKeeper(Protocol):
    """What keeps queries, as prepared and live queries use it."""

    engine: ColumnarEngine

    def forget(self, asked: KeptQuery) -> None:
        """Stop keeping a query; has no effect if it is not kept."""

    def check(self, asked: KeptQuery) -> None:
        """Raise ProgramError unless the query is kept."""

    def encode(self, values: Sequence[object]) -> Row:
        """The ids of the values of parameters."""

    def answer(self, asked: KeptQuery, row: Row) -> Answers:
        """The answers for a binding of parameters."""

    def rows(self, asked: KeptQuery) -> Answers:
        """The answers of a live query."""


@dataclass(eq=False)
class MaintainedQueries:
    """Queries whose answers maintainers maintain.

    `carry_out` executes a step, all of it or nothing; `program` gives the program as it is now.
    """

    engine: ColumnarEngine
    demands: KeptQueries
    carry_out: Callable[[QueryStep], None]
    program: Callable[[], Program]

    def keep(self, query: Query, parameters: tuple[Variable, ...] = ()) -> KeptQuery:
        """Maintain the answers to a query from now on."""
        asked = KeptQuery(self.demands.name_for(len(query.rule.head.terms)), query, parameters)
        step = self.demands.asking(asked, self.program())
        self.carry_out(step)
        self.demands.adopt(step, asked)
        return asked

    def forget(self, asked: KeptQuery) -> None:
        """Stop maintaining a query, and what only it needs; has no effect if it is not kept."""
        if self.demands.find(asked.name) is not asked:
            return
        step = self.demands.forgetting(asked, self.program())
        self.carry_out(step)
        self.demands.adopt(step, asked, forgotten=True)

    def check(self, asked: KeptQuery) -> None:
        """Raise ProgramError unless the query is kept."""
        if self.demands.find(asked.name) is not asked:
            raise no_longer_kept()

    def rows(self, asked: KeptQuery) -> Answers:
        """The answers of a live query."""
        self.program()  # recovers, if a fault has ended a transaction
        answers: Answers = self.engine.storage.rows(asked.name)
        return answers

    def encode(self, values: Sequence[object]) -> Row:
        """The ids of the values of parameters."""
        encode = self.engine.storage.dictionary.encode_python
        return tuple(encode(value, ColumnType.ANY) for value in values)

    def answer(self, asked: KeptQuery, row: Row) -> Answers:
        """The answers for a binding, which is maintained from now on."""
        self.check(asked)
        self.program()
        if not asked.parameters:
            answers: Answers = self.engine.storage.rows(asked.name)
            return answers
        rows = Rows(tuple(np.array([each], np.int32) for each in row), 1)
        body = asked.query.rule.body
        if asked.bindings in self.demands.kept.arities:
            rows = self._bound(asked, rows)
            body = (Atom(asked.name, (*asked.parameters, *asked.variables)),)
        return self._match(rows, Atom(BINDING, asked.parameters), body, asked.variables)

    def _bound(self, asked: KeptQuery, rows: Rows) -> Rows:
        """A maintained binding with the same answers: the binding itself, added now, if there is no other."""
        if self.engine.storage.row_flags(asked.bindings, rows.columns, rows.count)[0] & Flag.ALIVE:
            return rows
        if asked.backward in self.demands.kept.arities and self.engine.storage.size(asked.backward):
            (other,), (found,) = asked.variables, asked.parameters
            body = tuple(Atom(name, (found, other)) for name in (asked.name, asked.backward))
            columns, count = self._match(rows, Atom(BINDING, (other,)), body, (found,))
            if count:
                return Rows(tuple(column[:1] for column in columns), 1)
        program = self.program()
        self.carry_out(self.demands.step(Update({}, {asked.bindings: rows}), program, program))
        return rows

    def _match(
        self, rows: Rows, given: Atom, body: tuple[Literal, ...], variables: tuple[Variable, ...]
    ) -> Answers:
        """The values of variables for which a body holds together with a fact."""
        self.engine.storage.define(BINDING, len(given.terms))
        try:
            self.engine.storage.add(BINDING, rows.columns, 1)
            self.engine.rounds.begin([BINDING])
            answers: Answers = self.engine.plans.answer(Rule(Atom(BINDING, variables), (given, *body)))
        finally:
            self.engine.storage.drop(BINDING)
        return answers


# ---- Queries that are asked again, where facts are over representatives of equal constants. Mutates itself.
#
# A live query caches its answers; after a transaction that may have changed them it is asked again, and the
# difference is its change. A prepared query is asked with its values in the place of parameters.
#
# Invariant: between transactions the cached answers of live queries are those that asking again gives.

Find = Callable[[Query, bool], Answers]


@dataclass(eq=False)
class RequeriedQueries:
    """Queries that are asked again; `find` looks answers up, as they are usually shown or with all members.

    `recover` repairs what a fault has left, cached answers included.
    """

    engine: ColumnarEngine
    find: Find
    recover: Callable[[], object]
    _asked: dict[str, KeptQuery] = field(default_factory=dict, init=False)
    _known: dict[str, Rows] = field(default_factory=dict, init=False)  # the answers of live queries

    @property
    def watched(self) -> Mapping[str, KeptQuery]:
        """The live queries, by the names of their answers."""
        return {name: self._asked[name] for name in self._known}

    def keep(self, query: Query, parameters: tuple[Variable, ...] = ()) -> KeptQuery:
        """Keep a query, and its answers unless it has parameters."""
        number = 1
        while (name := f"{REQUERIED} {number}") in self._asked:
            number += 1
        asked = KeptQuery(name, query, parameters)
        if not parameters:
            self._known[name] = Rows(*self.find(query, True))
        self._asked[name] = asked
        return asked

    def forget(self, asked: KeptQuery) -> None:
        """Stop keeping a query; has no effect if it is not kept."""
        if self._asked.get(asked.name) is asked:
            del self._asked[asked.name]
            self._known.pop(asked.name, None)

    def check(self, asked: KeptQuery) -> None:
        """Raise ProgramError unless the query is kept."""
        if self._asked.get(asked.name) is not asked:
            raise no_longer_kept()

    def rows(self, asked: KeptQuery) -> Answers:
        """The answers of a live query."""
        self.recover()
        known = self._known[asked.name]
        return known.columns, known.count

    def encode(self, values: Sequence[object]) -> Row:
        """The ids of the values of parameters."""
        encode = self.engine.storage.dictionary.encode_python
        return tuple(encode(value, ColumnType.ANY) for value in values)

    def answer(self, asked: KeptQuery, row: Row) -> Answers:
        """The answers for a binding."""
        self.check(asked)
        decode = self.engine.storage.dictionary.decode
        values = {
            name: Constant(decode(identity)) for name, identity in zip(asked.parameters, row, strict=True)
        }
        rule = asked.query.rule
        made = replace(
            rule, head=Atom(rule.head.predicate, asked.variables), body=renamed_body(rule.body, values)
        )
        return self.find(replace(asked.query, rule=made), False)

    def changes(self, changed: frozenset[str]) -> tuple[dict[str, Rows], dict[str, Rows]]:
        """The inserted and deleted answers of live queries, by name, given the predicates that changed."""
        came: dict[str, Rows] = {}
        went: dict[str, Rows] = {}
        for name, known in self._known.items():
            rule = self._asked[name].query.rule
            if rule.read.isdisjoint(changed):
                continue
            now = Rows(*self.find(self._asked[name].query, True))
            came[name], went[name] = without(now, known), without(known, now)
            self._known[name] = now
        return _present(came), _present(went)

    def look_up_anew(self) -> None:
        """Ask live queries again, and replace their cached answers."""
        for name in self._known:
            self._known[name] = Rows(*self.find(self._asked[name].query, True))


def _present(rows: Mapping[str, Rows]) -> dict[str, Rows]:
    return {name: some for name, some in rows.items() if some.count}


# ---- Prepared queries: asked many times, with other values each time. Mutates the kept queries.
#
# Invariant: what was derived for earlier bindings is maintained, and used for later ones.


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
    known = {CONSTANTS: untyped_predicate(CONSTANTS, len(names))}
    query = resolve_query((given, *_with_variables(literals, names)), program, text, known)
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
        return [name for part in node for name in _parameters(part)]
    if isinstance(node, ast.SyntaxNode):
        return [name for part in fields(node) for name in _parameters(getattr(node, part.name))]
    return []


def _with_variables(node: Any, names: Collection[str]) -> Any:
    """The tree with parameters of these names turned into variables."""
    if isinstance(node, ast.ParameterNode) and node.name in names:
        return ast.VariableNode(f"${node.name}", span=node.span)
    if isinstance(node, tuple):
        return tuple(_with_variables(part, names) for part in node)
    if isinstance(node, ast.SyntaxNode):
        parts = {part.name: _with_variables(getattr(node, part.name), names) for part in fields(node)}
        return replace(node, **parts)
    return node


class PreparedQuery:
    """A query with parameters, ready to be asked any number of times.

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
        asked: KeptQuery,
        keeping: QueryKeeper,
        lock: Lock,
        schema: Callable[[Query, tuple[str, ...]], LazySchema],
    ) -> None:
        self._schema = schema
        self._lock = lock
        self._asked = asked
        self._keeping = keeping

    @property
    def parameters(self) -> tuple[str, ...]:
        """The names of the parameters, in the order in which values are given to them."""
        return tuple(variable.name.removeprefix("$") for variable in self._asked.parameters)

    @locked
    def __call__(self, /, *values: object, **named: object) -> Relation:
        """The answers for these values of the parameters.

        Where a name is a keyword of Python, an underscore behind it is ignored: `query(from_="alice")`.
        """
        row = self._keeping.encode(self._ordered(values, named))
        columns, count = self._keeping.answer(self._asked, row)
        text = self._asked.query.text.strip()
        names = tuple(variable.name for variable in self._asked.variables)
        schema = self._schema(self._asked.query, names)
        return Relation(text, names, columns, count, self._keeping.engine.storage.dictionary, schema)

    @locked
    def close(self) -> None:
        """Drop all bindings, and what was derived for them alone; the query cannot be asked any more."""
        self._keeping.forget(self._asked)

    def __enter__(self) -> PreparedQuery:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()

    def _ordered(self, values: tuple[object, ...], named: Mapping[str, object]) -> list[object]:
        """The values in the order of the parameters; raises ProgramError if they do not fit."""
        expected = self.parameters
        given = dict(zip(expected, values, strict=False))
        for name, value in named.items():
            name = name if name in expected else name.removesuffix("_")
            if name not in expected or name in given:
                what = "is given twice" if name in given else "is not in the query"
                help = suggest(name, expected) or f"its parameters are {', '.join(expected)}"
                raise ProgramError(Diagnostic(WRONG_BINDING, f"the parameter `{name}` {what}", help=help))
            given[name] = value
        if len(values) > len(expected) or len(given) < len(expected):
            counts = counted(len(expected), "parameter")
            message = f"the query has {counts}, but it is given {counted(len(values) + len(named), 'value')}"
            raise ProgramError(
                Diagnostic(WRONG_BINDING, message, help=f"its parameters are {', '.join(expected)}")
            )
        return [given[name] for name in expected]
