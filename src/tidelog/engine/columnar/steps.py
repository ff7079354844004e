"""The words of one step: what it reads and looks up, and where each of its outputs comes from."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Protocol

from tidelog.engine.columnar import layout
from tidelog.engine.columnar.index import IndexKey
from tidelog.engine.columnar.interpreter.expression_kernels import DEEPEST
from tidelog.engine.maintaining import PARTS, PRESENT
from tidelog.logic.program import (
    Apply,
    Comparison,
    Condition,
    Constant,
    Expression,
    Term,
    Variable,
    literal_variables,
    variables_of,
)
from tidelog.logic.values import Value
from tidelog.plan.algebra import AntiJoin, Extend, Filter, Join, Node, Part, Scan, Unit, Witness

OPERATIONS = {
    "+": layout.X_ADD,
    "-": layout.X_SUBTRACT,
    "*": layout.X_MULTIPLY,
    "/": layout.X_DIVIDE,
    "NEG": layout.X_NEGATE,
    "=": layout.X_EQUAL,
    "!=": layout.X_UNEQUAL,
    "<": layout.X_LESS,
    "<=": layout.X_LESS_EQUAL,
    ">": layout.X_GREATER,
    ">=": layout.X_GREATER_EQUAL,
}
LIMITS = {Part.ALL: layout.CURRENT_ROWS, Part.OLD: layout.OLD_ROWS}

# What a step hands on beside the variables of a rule: numbers that are no ids.
HIGHEST_RANK = Variable("highest rank of own facts")  # no variable of a rule has a space
GIVEN_ROW = Variable("number of the given row")
LINKED_ROW = Variable("number of the fact to lean on")
HIGHEST_MARK = Variable("marks in the body")
STATED = Variable("whether facts stay by themselves")  # beside it: never handed on


class Store(Protocol):
    """What the assembler asks of the engine."""

    def table_number(self, relation: str) -> int:
        """The row of T that describes a relation."""

    def index_number(self, key: IndexKey) -> int:
        """The row of X that describes an index, made now if it is not there."""

    def identity(self, value: Value) -> int:
        """The id of a value."""

    def has_dead(self, relation: str) -> bool:
        """Whether some rows of a relation are no facts."""


@dataclass(frozen=True, slots=True)
class PythonStep:
    """A step whose expression Python computes for the rows that kernels leave to it."""

    expression: Expression | Comparison | Condition
    slots: tuple[tuple[Variable, int], ...]  # the input column of each variable


def scan_of(node: Node) -> Scan | None:
    """The scan by which a node reads a relation."""
    match node:
        case Scan():
            return node
        case Witness(scan) | Join(_, scan):
            return scan
        case _:
            return None


def step_of(
    node: Node,
    given: list[Term],
    outputs: list[Term],
    store: Store,
    numbers: tuple[Variable, ...] | None,
) -> tuple[list[int], PythonStep | None]:
    """The words of one step, and what Python computes of it; its rows' numbers are called `numbers`."""
    match node:
        case Unit():
            return _words(layout.UNIT, outputs=_outputs(outputs, given, (), None, store)), None
        case Scan() | Witness():
            return _first(node, given, _row_outputs(node, given, outputs, store, numbers), store), None
        case Join(_, scan):
            return _join(scan, given, _row_outputs(node, given, outputs, store, numbers), store), None
        case AntiJoin(_, scan):
            return _absent(scan, given, outputs, store), None
        case Filter(_, test):
            return _expression_step(layout.SELECT, test, None, given, outputs, store)
        case Extend(_, variable, expression):
            return _expression_step(layout.COMPUTE, expression, variable, given, outputs, store)
        case _:
            raise AssertionError(node)


def _row_outputs(
    node: Node, given: list[Term], outputs: list[Term], store: Store, numbers: tuple[Variable, ...] | None
) -> list[tuple[int, int]]:
    """Where each output of a step that matches rows comes from."""
    scan = scan_of(node)
    assert scan is not None
    sources = []
    inputs, columns = _places(given), _places(scan.terms)
    for output in outputs:
        if output == HIGHEST_RANK and scan.own:
            sources.append((layout.FROM_RANK, inputs.get(output, -1)))
        elif output == HIGHEST_MARK and numbers is not None:
            origin = layout.FROM_STATED_MARK if STATED in numbers else layout.FROM_MARK
            sources.append((origin, inputs.get(output, -1)))
        elif numbers is not None and output in numbers:
            sources.append((layout.FROM_NUMBER, 0))
        else:
            sources.append(_output(output, inputs, columns, None, store))
    return sources


def _first(
    node: Scan | Witness, given: list[Term], outputs: list[tuple[int, int]], store: Store
) -> list[int]:
    """The words of the step that scans rows, or takes those that are given."""
    scan = node if isinstance(node, Scan) else node.scan
    table = store.table_number(scan.relation)
    mask, want = _wanted(scan, store)
    if isinstance(node, Witness):
        wild = {scan.terms[column] for column in range(len(scan.terms)) if column not in node.bound}
        checks = _filters(scan.terms, [], store)
        columns = tuple(
            c for c, term in enumerate(scan.terms) if isinstance(term, Variable) and term not in wild
        )
        index = store.index_number(IndexKey(table, columns, tuple(checks)))
        unless = int(PRESENT[node.unless])
        peer = layout.ALIVE if node.unless is Part.BEFORE else layout.BEFORE
    else:
        checks, index, unless, peer = _filters(scan.terms, given, store), 0, 0, 0
    keys = [word for column, wanted in checks for word in (column, -1 - wanted)]
    step = _words(layout.SCAN, table=table, index=index, keys=keys, key_count=len(checks), outputs=outputs)
    step[layout.S_MASK], step[layout.S_WANT] = mask, want
    step[layout.S_UNLESS], step[layout.S_PEER] = unless, peer
    return step


def _wanted(scan: Scan, store: Store) -> tuple[int, int]:
    """The flags that a scan looks at, and what they must be."""
    where = PARTS.get(scan.part)
    if where is not None:
        return int(where.mask), int(where.want)
    if scan.part is not Part.GIVEN and store.has_dead(scan.relation):
        return layout.ALIVE, layout.ALIVE
    return 0, 0


def _words(
    kind: int,
    *,
    table: int = 0,
    index: int = 0,
    limit: int = layout.ALL_ROWS,
    keys: Iterable[int] = (),
    key_count: int | None = None,
    outputs: Iterable[tuple[int, int]] = (),
    expression: Iterable[int] = (),
) -> list[int]:
    keys, outputs, expression = list(keys), list(outputs), list(expression)
    count = len(keys) if key_count is None else key_count
    head = [kind, table, index, limit, 0, 0, 0, 0, -1, count, len(outputs), len(expression)]
    return [*head, *keys, *(word for pair in outputs for word in pair), *expression]


def _filters(terms: tuple[Term, ...], given: list[Term], store: Store) -> list[tuple[int, int]]:
    """(column, id) for constants, (column, -1 - earlier column) for variables that occur twice."""
    first: dict[Variable, int] = {}
    known = frozenset(given)
    filters = []
    for column, term in enumerate(terms):
        if isinstance(term, Constant):
            filters.append((column, store.identity(term.value)))
        elif term not in known:
            if term in first:
                filters.append((column, -1 - first[term]))
            first.setdefault(term, column)
    return filters


def _outputs(
    outputs: list[Term],
    given: list[Term],
    terms: tuple[Term, ...],
    computed: Variable | None,
    store: Store,
) -> list[tuple[int, int]]:
    """Where each output comes from."""
    inputs, columns = _places(given), _places(terms)
    return [_output(output, inputs, columns, computed, store) for output in outputs]


def _output(
    output: Term,
    inputs: Mapping[Term, int],
    columns: Mapping[Term, int],
    computed: Variable | None,
    store: Store,
) -> tuple[int, int]:
    """Where an output comes from: the input, the matched row, a constant, or the computed column."""
    if isinstance(output, Constant):
        return layout.FROM_CONSTANT, store.identity(output.value)
    if output == computed:
        return layout.FROM_RESULT, 0
    if output in inputs:
        return layout.FROM_INPUT, inputs[output]
    return layout.FROM_ROW, columns[output]


def _places(terms: Sequence[Term]) -> dict[Term, int]:
    """The first place of each term: there may be thousands, so that nobody can look for each."""
    return {term: place for place, term in reversed(list(enumerate(terms)))}


def _source(term: Term, given: list[Term], store: Store) -> int:
    """An input column, or -1 - id for a constant."""
    return -1 - store.identity(term.value) if isinstance(term, Constant) else given.index(term)


def _join(scan: Scan, given: list[Term], outputs: list[tuple[int, int]], store: Store) -> list[int]:
    table = store.table_number(scan.relation)
    if all(isinstance(term, Constant) or term in given for term in scan.terms):
        limit = LIMITS.get(scan.part, layout.ALL_ROWS)
        keys = [_source(term, given, store) for term in scan.terms]
        step = _words(layout.MEMBER, table=table, limit=limit, keys=keys, outputs=outputs)
    else:
        index, keys = _lookup(scan, table, given, store)
        # An index holds the rows up to the current round: only the older part needs a look at row numbers.
        limit = layout.OLD_ROWS if scan.part is Part.OLD else layout.ALL_ROWS
        step = _words(layout.PROBE, table=table, index=index, limit=limit, keys=keys, outputs=outputs)
    step[layout.S_MASK], step[layout.S_WANT] = _wanted(scan, store)
    return step


def _absent(scan: Scan, given: list[Term], outputs: list[Term], store: Store) -> list[int]:
    table = store.table_number(scan.relation)
    outs = _outputs(outputs, given, (), None, store)
    if all(isinstance(term, Constant) or term in given for term in scan.terms):
        limit = LIMITS.get(scan.part, layout.ALL_ROWS)
        keys = [_source(term, given, store) for term in scan.terms]
        step = _words(layout.ABSENT, table=table, limit=limit, keys=keys, outputs=outs)
    else:
        index, keys = _lookup(scan, table, given, store)
        step = _words(layout.ABSENT_INDEX, table=table, index=index, keys=keys, outputs=outs)
    present = PRESENT.get(scan.part)
    step[layout.S_MASK] = int(present) if present is not None else _wanted(scan, store)[0]
    return step


def _lookup(scan: Scan, table: int, given: list[Term], store: Store) -> tuple[int, list[int]]:
    """The index that answers a scan whose variables in `given` are known, and the key to ask it for."""
    columns = tuple(column for column, term in enumerate(scan.terms) if term in given)
    filters = tuple(_filters(scan.terms, given, store))
    index = store.index_number(IndexKey(table, columns, filters))
    return index, [_source(scan.terms[column], given, store) for column in columns]


# ---- expressions


def _expression_step(
    kind: int,
    expression: Expression | Comparison | Condition,
    computed: Variable | None,
    given: list[Term],
    outputs: list[Term],
    store: Store,
) -> tuple[list[int], PythonStep]:
    words = _compiled(expression, given, store) or [layout.X_PYTHON, 0]
    variables: Iterable[Variable] = (
        literal_variables(expression)
        if isinstance(expression, Comparison | Condition)
        else variables_of(expression)
    )
    slots = tuple((variable, given.index(variable)) for variable in dict.fromkeys(variables))
    step = _words(kind, outputs=_outputs(outputs, given, (), computed, store), expression=words)
    return step, PythonStep(expression, slots)


def _compiled(
    expression: Expression | Comparison | Condition, given: list[Term], store: Store
) -> list[int] | None:
    """The expression in postfix words, or None if kernels cannot compute it."""
    match expression:
        case Comparison(operator, left, right):
            words = _postfix((left, right), OPERATIONS[operator], given, store)
        case Variable() | Constant() | Apply():
            words = _operand(expression, given, store)
        case _:
            return None
    return words if words is not None and len(words) // 2 < DEEPEST else None


def _operand(expression: Expression, given: list[Term], store: Store) -> list[int] | None:
    match expression:
        case Variable():
            return [layout.X_LOAD, given.index(expression)]
        case Constant(value):
            return [layout.X_CONSTANT, store.identity(value)]
        case Apply(function, arguments) if function in ("+", "-", "*", "/", "NEG"):
            return _postfix(arguments, OPERATIONS[function], given, store)
        case _:
            return None


def _postfix(
    operands: tuple[Expression, ...], operation: int, given: list[Term], store: Store
) -> list[int] | None:
    words: list[int] = []
    for operand in operands:
        part = _operand(operand, given, store)
        if part is None:
            return None
        words += part
    return [*words, operation, 0]
