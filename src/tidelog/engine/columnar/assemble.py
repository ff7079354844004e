"""From a plan to the words that the interpreter runs.

Each node of the plan's chain becomes one step. A step's outputs are the variables that later steps need,
in the last step the head's terms: nothing is copied that is not read again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass, field
from typing import Protocol

from tidelog.engine.columnar import layout
from tidelog.engine.columnar.expressions import DEEPEST
from tidelog.engine.columnar.table import IndexKey
from tidelog.errors import Diagnostic, EvaluationError
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
from tidelog.plan.algebra import AntiJoin, Extend, Filter, Join, Node, Part, Project, Scan, Unit

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
INDEXED = (layout.PROBE, layout.ABSENT_INDEX)
LIMITS = {Part.ALL: layout.CURRENT_ROWS, Part.OLD: layout.OLD_ROWS}


class Store(Protocol):
    """What the assembler asks of the engine."""

    def table_number(self, relation: str) -> int:
        """The row of T that describes a relation."""

    def index_number(self, key: IndexKey) -> int:
        """The row of X that describes an index, made now if it is not there."""

    def identity(self, value: Value) -> int:
        """The id of a value."""


@dataclass(frozen=True, slots=True)
class PythonStep:
    """A step whose expression Python computes for the rows that kernels leave to it."""

    expression: Expression | Comparison | Condition
    slots: tuple[tuple[Variable, int], ...]  # the input column of each variable


@dataclass(frozen=True, slots=True)
class Assembled:
    """A plan as words, and what Python must know of it."""

    words: tuple[int, ...]
    relation: str
    width: int
    steps: int
    pivot: int | None  # the table that is scanned, None for a body without atoms
    part: Part
    indexes: tuple[int, ...] = ()
    python: dict[int, PythonStep] = field(default_factory=dict)


def assemble(relation: str, root: Project, store: Store) -> Assembled:
    """The words of a plan that adds facts to a relation."""
    chain = list(_chain(root.input))
    if len(chain) > layout.MOST_STEPS:
        message = f"a body of more than {layout.MOST_STEPS} literals for `{relation}`"
        raise EvaluationError(Diagnostic("E604", message, help="let another rule derive a part of it"))
    needed = _needed_after(chain, root.terms)
    layout_now: list[Term] = []
    steps: list[list[int]] = []
    python: dict[int, PythonStep] = {}
    for level, node in enumerate(chain):
        last = level == len(chain) - 1
        outputs = list(root.terms) if last else needed[level]
        step, python_step = _step(node, layout_now, outputs, store)
        steps.append(step)
        if python_step is not None:
            python[level] = python_step
        layout_now = outputs
    offset = layout.P_OFFSETS + len(steps)
    offsets = []
    for step in steps:
        offsets.append(offset)
        offset += len(step)
    words = [store.table_number(relation), len(steps), *offsets, *(word for step in steps for word in step)]
    first = chain[0]
    return Assembled(
        tuple(words),
        relation,
        max(1, len(root.terms), *(len(names) for names in needed)) if needed else max(1, len(root.terms)),
        len(steps),
        store.table_number(first.relation) if isinstance(first, Scan) else None,
        first.part if isinstance(first, Scan) else Part.ALL,
        tuple({step[layout.S_INDEX] for step in steps if step[layout.S_KIND] in INDEXED}),
        python,
    )


def _chain(node: Node) -> Iterator[Node]:
    """The nodes from the one that is scanned first to the last."""
    if not isinstance(node, Unit | Scan):
        yield from _chain(node.input)
    yield node


def _reads(node: Node) -> Iterable[Variable]:
    """The variables that a node needs or binds."""
    match node:
        case Scan(_, _, terms) | Join(_, Scan(_, _, terms)) | AntiJoin(_, Scan(_, _, terms)):
            return [term for term in terms if isinstance(term, Variable)]
        case Filter(_, test):
            return literal_variables(test)
        case Extend(_, _, expression):
            return variables_of(expression)
        case _:
            return ()


def _needed_after(chain: list[Node], terms: tuple[Term, ...]) -> list[list[Term]]:
    """For each node, the variables bound by then that later nodes or the head read."""
    needed: list[list[Term]] = []
    for level in range(len(chain) - 1):
        bound: set[Variable] = set()
        for node in chain[: level + 1]:
            if isinstance(node, Extend):
                bound.add(node.variable)
            elif isinstance(node, Scan | Join):
                bound.update(_reads(node))
        later: dict[Term, None] = {}
        for node in chain[level + 1 :]:
            later.update(dict.fromkeys(_reads(node)))
        later.update(dict.fromkeys(term for term in terms if isinstance(term, Variable)))
        needed.append([variable for variable in later if variable in bound])
    return needed


def _step(
    node: Node, given: list[Term], outputs: list[Term], store: Store
) -> tuple[list[int], PythonStep | None]:
    """The words of one step, and what Python computes of it."""
    match node:
        case Unit():
            return _words(layout.UNIT, outputs=_outputs(outputs, given, (), None, store)), None
        case Scan(relation, _, terms):
            checks = _filters(terms, given, store)
            table = store.table_number(relation)
            keys = [word for column, wanted in checks for word in (column, -1 - wanted)]
            return _words(
                layout.SCAN,
                table=table,
                keys=keys,
                key_count=len(checks),
                outputs=_outputs(outputs, given, terms, None, store),
            ), None
        case Join(_, scan):
            return _join(scan, given, outputs, store), None
        case AntiJoin(_, scan):
            return _absent(scan, given, outputs, store), None
        case Filter(_, test):
            return _expression_step(layout.SELECT, test, None, given, outputs, store)
        case Extend(_, variable, expression):
            return _expression_step(layout.COMPUTE, expression, variable, given, outputs, store)
        case _:
            raise AssertionError(node)


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
    head = [kind, table, index, limit, count, len(outputs), len(expression)]
    return [*head, *keys, *(word for pair in outputs for word in pair), *expression]


def _filters(terms: tuple[Term, ...], given: list[Term], store: Store) -> list[tuple[int, int]]:
    """(column, id) for constants, (column, -1 - earlier column) for variables that occur twice."""
    first: dict[Variable, int] = {}
    filters = []
    for column, term in enumerate(terms):
        if isinstance(term, Constant):
            filters.append((column, store.identity(term.value)))
        elif term not in given:
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
    """Where each output comes from: the input, the matched row, a constant, or the computed column."""
    sources = []
    for output in outputs:
        if isinstance(output, Constant):
            sources.append((layout.FROM_CONSTANT, store.identity(output.value)))
        elif output == computed:
            sources.append((layout.FROM_RESULT, 0))
        elif output in given:
            sources.append((layout.FROM_INPUT, given.index(output)))
        else:
            sources.append((layout.FROM_ROW, terms.index(output)))
    return sources


def _source(term: Term, given: list[Term], store: Store) -> int:
    """An input column, or -1 - id for a constant."""
    return -1 - store.identity(term.value) if isinstance(term, Constant) else given.index(term)


def _join(scan: Scan, given: list[Term], outputs: list[Term], store: Store) -> list[int]:
    table = store.table_number(scan.relation)
    outs = _outputs(outputs, given, scan.terms, None, store)
    if all(isinstance(term, Constant) or term in given for term in scan.terms):
        keys = [_source(term, given, store) for term in scan.terms]
        return _words(layout.MEMBER, table=table, limit=LIMITS[scan.part], keys=keys, outputs=outs)
    index, keys = _lookup(scan, table, given, store)
    # An index holds the rows up to the current round: only the older part needs a look at row numbers.
    limit = layout.OLD_ROWS if scan.part is Part.OLD else layout.ALL_ROWS
    return _words(layout.PROBE, table=table, index=index, limit=limit, keys=keys, outputs=outs)


def _absent(scan: Scan, given: list[Term], outputs: list[Term], store: Store) -> list[int]:
    table = store.table_number(scan.relation)
    outs = _outputs(outputs, given, (), None, store)
    if all(isinstance(term, Constant) or term in given for term in scan.terms):
        keys = [_source(term, given, store) for term in scan.terms]
        return _words(layout.ABSENT, table=table, limit=layout.CURRENT_ROWS, keys=keys, outputs=outs)
    index, keys = _lookup(scan, table, given, store)
    return _words(layout.ABSENT_INDEX, table=table, index=index, keys=keys, outputs=outs)


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
