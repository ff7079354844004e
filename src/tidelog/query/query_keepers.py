"""Keeping queries: they come and go, and bindings are added; queries that are asked again; prepared ones."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import fields, replace
from types import TracebackType
from typing import Any, Protocol

import numpy as np

from tidelog.data.relation import Relation
from tidelog.data.rows import Rows, without
from tidelog.engine.flags import Flag
from tidelog.engine.interrupts import Lock, locked
from tidelog.errors import Diagnostic, ProgramError, Source, counted, suggest
from tidelog.logic.program import Atom, Constant, Literal, Predicate, Program, Query, Rule, Variable
from tidelog.logic.resolve import resolve_query
from tidelog.logic.type_inference import LazySchema
from tidelog.logic.values import ColumnType
from tidelog.maintenance.maintainer import Update
from tidelog.query.kept_queries import Asked, Demands, Step
from tidelog.query.strategy import Answers
from tidelog.rewrite.renaming import renamed_body
from tidelog.syntax import ast
from tidelog.syntax.parser import parse_literals

# ---- Keeping queries: they come and go, and bindings are added, in transactions of their own. Mutates the
# engine.
#
# Nobody is told of these transactions: no fact of the program changes in them.

NOT_KEPT = "E653"
ASKED = "?- asked"  # holds the binding that is asked for now
Row = tuple[int, ...]


def no_longer_kept() -> ProgramError:
    """That a query was kept once."""
    message = "the query is no longer kept"
    return ProgramError(Diagnostic(NOT_KEPT, message, help="prepare it, or watch it, again"))


class Keeper(Protocol):
    """What keeps queries, as those see it who have asked them."""

    engine: Any

    def forget(self, asked: Asked) -> None:
        """Stop keeping a query; has no effect the second time."""

    def check(self, asked: Asked) -> None:
        """Raise ProgramError unless the query is kept."""

    def encode(self, values: Sequence[object]) -> Row:
        """The ids of the values of parameters."""

    def answer(self, asked: Asked, row: Row) -> Answers:
        """The answers for a binding of parameters."""

    def rows(self, asked: Asked) -> Answers:
        """The answers of a live query."""


class Keeping:
    """What kept queries need of a reasoner.

    `carry_out` lets a step be maintained, all of it or none; `program` gives the program as it is now.
    """

    def __init__(
        self,
        engine: Any,
        demands: Demands,
        carry_out: Callable[[Step], None],
        program: Callable[[], Program],
    ) -> None:
        self.engine = engine
        self.demands = demands
        self._carry_out = carry_out
        self._program = program

    def keep(self, query: Query, parameters: tuple[Variable, ...] = ()) -> Asked:
        """Maintain the answers to a query from now on."""
        asked = Asked(self.demands.name_for(len(query.rule.head.terms)), query, parameters)
        step = self.demands.asking(asked, self._program())
        self._carry_out(step)
        self.demands.adopt(step, asked)
        return asked

    def forget(self, asked: Asked) -> None:
        """Stop maintaining the answers to a query, and what only it needed; has no effect the second time."""
        if self.demands.find(asked.name) is not asked:
            return
        step = self.demands.forgetting(asked, self._program())
        self._carry_out(step)
        self.demands.adopt(step, asked, forgotten=True)

    def check(self, asked: Asked) -> None:
        """Raise ProgramError unless the query is kept."""
        if self.demands.find(asked.name) is not asked:
            raise no_longer_kept()

    def rows(self, asked: Asked) -> Answers:
        """The answers of a live query."""
        self._program()  # a fault may have left something to be mended
        answers: Answers = self.engine.rows(asked.name)
        return answers

    def encode(self, values: Sequence[object]) -> Row:
        """The ids of the values of parameters."""
        encode = self.engine.dictionary.encode_python
        return tuple(encode(value, ColumnType.ANY) for value in values)

    def answer(self, asked: Asked, row: Row) -> Answers:
        """The answers for a binding, which is asked for if it was not before."""
        self.check(asked)
        self._program()
        if not asked.parameters:
            answers: Answers = self.engine.rows(asked.name)
            return answers
        rows = Rows(tuple(np.array([each], np.int32) for each in row), 1)
        body = asked.query.rule.body
        if asked.bindings in self.demands.kept.arities:
            rows = self._bound(asked, rows)
            body = (Atom(asked.name, (*asked.parameters, *asked.variables)),)
        return self._match(rows, Atom(ASKED, asked.parameters), body, asked.variables)

    def _bound(self, asked: Asked, rows: Rows) -> Rows:
        """A binding with the same answers that is asked for: by now, if it was not before."""
        if self.engine.standing(asked.bindings, rows.columns, rows.count)[0] & Flag.ALIVE:
            return rows
        if asked.backward in self.demands.kept.arities and self.engine.size(asked.backward):
            (other,), (found,) = asked.variables, asked.parameters
            body = tuple(Atom(name, (found, other)) for name in (asked.name, asked.backward))
            columns, count = self._match(rows, Atom(ASKED, (other,)), body, (found,))
            if count:
                return Rows(tuple(column[:1] for column in columns), 1)
        program = self._program()
        self._carry_out(self.demands.step(Update({}, {asked.bindings: rows}), program, program))
        return rows

    def _match(
        self, rows: Rows, given: Atom, body: tuple[Literal, ...], variables: tuple[Variable, ...]
    ) -> Answers:
        """The values of variables for which a body holds, together with a given fact."""
        self.engine.define(ASKED, len(given.terms))
        try:
            self.engine.add(ASKED, rows.columns, 1)
            self.engine.begin([ASKED])
            answers: Answers = self.engine.answer(Rule(Atom(ASKED, variables), (given, *body)))
        finally:
            self.engine.drop(ASKED)
        return answers


# ---- Queries that stay, where facts are kept over representatives of equal constants. Mutates itself.
#
# Their answers are looked up, as those of any query there. A live query keeps the answers that it had; after
# a transaction that may have changed them they are looked up anew, and the difference is what changed: that
# costs as much as asking again. A prepared query is looked up with its values in the place of parameters.
#
# Invariant: between transactions the answers of live queries are those that asking gives.

Find = Callable[[Query, bool], Answers]


class LookingUp:
    """All queries that stay; `find` looks answers up, as they are usually shown or with all members.

    `recover` mends what a fault may have left, answers included.
    """

    def __init__(self, engine: Any, find: Find, recover: Callable[[], object]) -> None:
        self.engine = engine
        self._find = find
        self._recover = recover
        self._asked: dict[str, Asked] = {}
        self._known: dict[str, Rows] = {}  # the answers of live queries

    @property
    def watched(self) -> Mapping[str, Asked]:
        """The live queries, by the names of their answers."""
        return {name: self._asked[name] for name in self._known}

    def keep(self, query: Query, parameters: tuple[Variable, ...] = ()) -> Asked:
        """Keep a query, and its answers unless it has parameters."""
        number = 1
        while (name := f"?- looked up {number}") in self._asked:
            number += 1
        asked = Asked(name, query, parameters)
        if not parameters:
            self._known[name] = Rows(*self._find(query, True))
        self._asked[name] = asked
        return asked

    def forget(self, asked: Asked) -> None:
        """Stop keeping a query; has no effect the second time."""
        if self._asked.get(asked.name) is asked:
            del self._asked[asked.name]
            self._known.pop(asked.name, None)

    def check(self, asked: Asked) -> None:
        """Raise ProgramError unless the query is kept."""
        if self._asked.get(asked.name) is not asked:
            raise no_longer_kept()

    def rows(self, asked: Asked) -> Answers:
        """The answers of a live query."""
        self._recover()
        known = self._known[asked.name]
        return known.columns, known.count

    def encode(self, values: Sequence[object]) -> Row:
        """The ids of the values of parameters."""
        encode = self.engine.dictionary.encode_python
        return tuple(encode(value, ColumnType.ANY) for value in values)

    def answer(self, asked: Asked, row: Row) -> Answers:
        """The answers for a binding."""
        self.check(asked)
        decode = self.engine.dictionary.decode
        values = {
            name: Constant(decode(identity)) for name, identity in zip(asked.parameters, row, strict=True)
        }
        rule = asked.query.rule
        made = replace(
            rule, head=Atom(rule.head.predicate, asked.variables), body=renamed_body(rule.body, values)
        )
        return self._find(replace(asked.query, rule=made), False)

    def changes(self, changed: frozenset[str]) -> tuple[dict[str, Rows], dict[str, Rows]]:
        """What came and went in the answers of live queries, by name, given the predicates that changed."""
        came: dict[str, Rows] = {}
        went: dict[str, Rows] = {}
        for name, known in self._known.items():
            rule = self._asked[name].query.rule
            if changed.isdisjoint(atom.predicate for atom in (*rule.positive, *rule.negated)):
                continue
            now = Rows(*self._find(self._asked[name].query, True))
            came[name], went[name] = without(now, known), without(known, now)
            self._known[name] = now
        return _present(came), _present(went)

    def look_up_anew(self) -> None:
        """Ask live queries again, and replace their answers."""
        for name in self._known:
            self._known[name] = Rows(*self._find(self._asked[name].query, True))


def _present(rows: Mapping[str, Rows]) -> dict[str, Rows]:
    return {name: some for name, some in rows.items() if some.count}


# ---- Prepared queries: asked many times, with other values each time. Mutates the kept queries.
#
# Invariant: what was derived for earlier bindings is kept, and used for later ones.

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
