"""Prepared queries: asked many times, with other values each time. Mutates the kept queries.

Invariant: what was derived for earlier bindings is kept, and used for later ones.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping
from dataclasses import fields, replace
from types import TracebackType
from typing import Any

from tidelog.data.relation import Relation
from tidelog.engine.lock import Lock, locked
from tidelog.errors import Diagnostic, ProgramError, Source, counted, suggest
from tidelog.logic.program import Atom, Predicate, Program, Query, Variable
from tidelog.logic.resolve import resolve_query
from tidelog.logic.type_inference import LazySchema
from tidelog.logic.values import ColumnType
from tidelog.query.keeping import Keeper
from tidelog.query.kept_queries import Asked
from tidelog.syntax import ast
from tidelog.syntax.parser import parse_literals

WRONG_BINDING = "E652"
GIVEN = "?- given"  # what stands for the parameters while a query is resolved


def resolve_prepared(text: str, program: Program) -> tuple[Query, tuple[Variable, ...]]:
    """A query, and the variables that stand for its parameters; those of the program have their values."""
    literals = parse_literals(Source("<query>", text))
    names = [name for name in dict.fromkeys(_parameters(literals)) if name not in program.parameters]
    if not names:
        return resolve_query(literals, program, text), ()
    variables = tuple(Variable(f"${name}") for name in names)
    given = ast.Atom(ast.Call(ast.Name(GIVEN), tuple(ast.Variable(each.name) for each in variables)))
    known = {GIVEN: Predicate(GIVEN, len(names), (None,) * len(names), (ColumnType.ANY,) * len(names), GIVEN)}
    query = resolve_query((given, *_with_variables(literals, names)), program, text, known)
    body = tuple(
        literal
        for literal in query.rule.body
        if not (isinstance(literal, Atom) and literal.predicate == GIVEN)
    )
    return replace(query, rule=replace(query.rule, body=body)), variables


def _parameters(node: object) -> list[str]:
    """The parameters in a tree, in order."""
    if isinstance(node, ast.Parameter):
        return [node.name]
    if isinstance(node, tuple):
        return [name for part in node for name in _parameters(part)]
    if isinstance(node, ast.Node):
        return [name for part in fields(node) for name in _parameters(getattr(node, part.name))]
    return []


def _with_variables(node: Any, names: Collection[str]) -> Any:
    """The tree with parameters of these names turned into variables."""
    if isinstance(node, ast.Parameter) and node.name in names:
        return ast.Variable(f"${node.name}", span=node.span)
    if isinstance(node, tuple):
        return tuple(_with_variables(part, names) for part in node)
    if isinstance(node, ast.Node):
        parts = {part.name: _with_variables(getattr(node, part.name), names) for part in fields(node)}
        return replace(node, **parts)
    return node


class Prepared:
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
        asked: Asked,
        keeping: Keeper,
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

        Where a name is a word of Python, an underscore behind it is passed over: `query(from_="alice")`.
        """
        row = self._keeping.encode(self._ordered(values, named))
        columns, count = self._keeping.answer(self._asked, row)
        text = self._asked.query.text.strip()
        names = tuple(variable.name for variable in self._asked.variables)
        schema = self._schema(self._asked.query, names)
        return Relation(text, names, columns, count, self._keeping.engine.dictionary, schema)

    @locked
    def close(self) -> None:
        """Forget all bindings, and what was derived for them alone; it cannot be asked any more."""
        self._keeping.forget(self._asked)

    def __enter__(self) -> Prepared:
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
                what = "is given twice" if name in given else "is none of the query's"
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
