"""Check that the contents of a file are a valid state: rules, and ids of values, rows and times.

Checksums detect changes by a disk. Files with valid checksums but wrong contents are detected here, before an
engine or a kernel uses the contents. Every function raises `FormError` with the error.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from itertools import chain
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.data.dictionary import TEXT_KINDS
from tidelog.data.text_kernels import NO_TIME_ZONE
from tidelog.engine.columnar import layout
from tidelog.engine.columnar.storage.engine_state import DictionaryState, EngineState, TableState
from tidelog.errors import counted
from tidelog.logic.functions.builtins import AGGREGATES, FUNCTIONS
from tidelog.logic.intervals import Interval
from tidelog.logic.lexical_forms import DECIMAL
from tidelog.logic.program import (
    TOP,
    Apply,
    Assignment,
    Atom,
    Comparison,
    Condition,
    Expression,
    Literal,
    Metric,
    MetricNegation,
    MetricRule,
    Negation,
    Program,
    Rule,
    Throughout,
    Variable,
    variables_of,
)
from tidelog.logic.strata import cycles, order
from tidelog.logic.values import Kind
from tidelog.maintenance.special_strata import aggregated_by, temporary_relations
from tidelog.query.kept_queries import KeptQuery
from tidelog.rewrite.auxiliary_relations import is_auxiliary, split_rules
from tidelog.store.forms import FormError
from tidelog.syntax.lexer import METRIC_WORDS
from tidelog.temporal.interval_kernels import INFINITY, LIMIT
from tidelog.temporal.temporal import TimedTableState, TimeState

Array = npt.NDArray[Any]
Arities = Mapping[str, int]

COMPARISONS = frozenset({"=", "!=", "<", "<=", ">", ">="})
BOXES = frozenset({"boxminus", "boxplus"})
PAIRS = frozenset({"since", "until"})  # operators of two operands
LASTING = layout.ALIVE | layout.EXPLICIT | layout.BEFORE | layout.TOUCHED  # flags between transactions
LARGEST_SCALE = 1 << 24  # of a decimal: more zeros than anybody writes
QUALIFIED = {Kind.LANGUAGE_STRING: Kind.STRING, Kind.LITERAL: Kind.IRI}  # kinds, and that of their qualifier
MOST_TIME_ZONE = 24 * 60
LAST_ASCII = 127


def require(condition: object, message: str) -> None:
    """Raise `FormError` unless a condition holds."""
    if not condition:
        raise FormError(message)


# ---- programs


def check_program(program: Program) -> None:
    """Check that rules and queries are resolved: valid names and arities, safe and stratified."""
    arities = {name: predicate.arity for name, predicate in program.predicates.items()}
    for rule in program.rules:
        check_rule(rule, arities, _name(rule))
        _check_atom(rule.head, arities, _name(rule))
    for query in program.queries:
        check_rule(query.rule, arities, "a query")
    groups = (
        program.outputs,
        program.given_times,
        (transfer.predicate for transfer in (*program.imports, *program.exports)),
    )
    for name in chain(*groups):
        require(name in arities, f"unknown predicate `{name}`")
    faults = cycles(program.rules, program.predicates)
    require(not faults, faults[0].message if faults else "")


def _name(rule: Rule) -> str:
    return f"the rule `{rule.name}`" if rule.name else f"a rule for `{rule.head.predicate}`"


def check_rule(rule: Rule, arities: Arities, subject: str) -> None:
    """Check the body of a rule, and that every variable is bound before it is used."""
    require(rule.name is None or isinstance(rule.name, str), f"{subject} has an invalid name")
    for literal in (*rule.body, *rule.after):
        _check_literal(literal, arities, subject)
    if isinstance(rule, MetricRule):
        for operator, interval in rule.moves:
            require(operator in BOXES, f"{subject} has an operator `{operator}` in its head")
            _check_durations(interval, subject)
    head = {term for term in rule.head.terms if isinstance(term, Variable)}
    if not rule.aggregations:
        require(not rule.group and not rule.after, f"{subject} groups, and aggregates nothing")
        _check_order(rule.body, head, subject)
        return
    used_variables = set(rule.group)
    for aggregation in rule.aggregations:
        require(
            aggregation.function in AGGREGATES, f"{subject} has an unknown aggregate `{aggregation.function}`"
        )
        require(aggregation.arguments, f"{subject} aggregates nothing")
        used_variables |= {term for term in aggregation.arguments if isinstance(term, Variable)}
    _check_order(rule.body, used_variables, subject)
    bound = {*rule.group, *(aggregation.variable for aggregation in rule.aggregations)}
    for assignment in rule.after:
        require(
            set(variables_of(assignment.expression)) <= bound, f"{subject} computes with what is not bound"
        )
        bound.add(assignment.variable)
    require(head <= bound, f"{subject} has variables in its head that nothing binds")


def _check_order(body: tuple[Literal, ...], used_variables: Iterable[Variable], subject: str) -> None:
    ordered = order(body, tuple(used_variables))
    unbound = ", ".join(f"?{variable.name}" for variable in ordered.unbound)
    require(not unbound, f"{subject} uses {unbound}, which nothing binds")
    require(ordered.body == body, f"{subject} uses variables before they are bound")


def _check_literal(literal: Literal, arities: Arities, subject: str) -> None:
    match literal:
        case Atom():
            _check_atom(literal, arities, subject)
        case Negation(atom):
            _check_atom(atom, arities, subject)
        case Throughout(atom, _):
            _check_atom(atom, arities, subject)
        case Metric():
            _check_metric(literal, arities, subject)
        case MetricNegation(metric):
            _check_metric(metric, arities, subject)
        case Comparison(operator, left, right):
            require(operator in COMPARISONS, f"{subject} has an unknown operator `{operator}`")
            _check_expression(left, subject)
            _check_expression(right, subject)
        case Assignment(_, expression):
            _check_expression(expression, subject)
        case Condition(expression, _):
            _check_expression(expression, subject)
            require(
                FUNCTIONS[expression.function].boolean,
                f"{subject} uses `{expression.function}` as a condition",
            )


def _check_metric(metric: Atom | Metric, arities: Arities, subject: str) -> None:
    if isinstance(metric, Atom):
        _check_atom(metric, arities, subject)
        return
    require(metric.operator in METRIC_WORDS, f"{subject} has an unknown operator `{metric.operator}`")
    expected = 2 if metric.operator in PAIRS else 1
    require(
        len(metric.operands) == expected,
        f"{subject} has `{metric.operator}` of {len(metric.operands)} operands",
    )
    _check_durations(metric.interval, subject)
    for operand in metric.operands:
        _check_metric(operand, arities, subject)


def _check_durations(interval: Interval, subject: str) -> None:
    is_ahead = interval.start is not None and interval.start >= 0
    require(
        is_ahead and not interval.is_calendar, f"{subject} has an operator over {interval}, not a duration"
    )


def _check_atom(atom: Atom, arities: Arities, subject: str) -> None:
    expected = 0 if atom.predicate == TOP else arities.get(atom.predicate)
    require(expected is not None, f"{subject} names `{atom.predicate}`, an unknown predicate")
    require(
        len(atom.terms) == expected,
        f"{subject} has `{atom.predicate}` with {len(atom.terms)} of {expected} columns",
    )


def _check_expression(expression: Expression, subject: str) -> None:
    if isinstance(expression, Apply):
        function = FUNCTIONS.get(expression.function)
        require(
            function is not None and function.accepts(len(expression.arguments)),
            f"{subject} calls `{expression.function}` with {len(expression.arguments)} arguments",
        )
        for argument in expression.arguments:
            _check_expression(argument, subject)


def check_asked(query: KeptQuery, program: Program) -> None:
    """Check a live or prepared query."""
    check_rule(
        query.query.rule, {name: each.arity for name, each in program.predicates.items()}, "a kept query"
    )
    head = [term for term in query.query.rule.head.terms if isinstance(term, Variable)]
    require(set(query.parameters) <= set(head), "a kept query has parameters that it does not use")


def arities_of(program: Program, queries: Iterable[KeptQuery]) -> dict[str, int]:
    """Return the columns of all relations that a program and kept queries need, auxiliary ones too."""
    arities = {name: each.arity for name, each in program.predicates.items()}
    for rule in split_rules((*program.rules, *(each.rule for each in queries))):
        atoms = (rule.head, *(temporary_relations(aggregated_by(rule)) if rule.aggregations else ()))
        arities |= {atom.predicate: len(atom.terms) for atom in atoms}
    return arities


# ---- values and rows


def check_dictionary(state: DictionaryState) -> None:
    """Check that every id has a value of its kind, and texts lie in the heap and are texts."""
    dtypes = {"kind": np.uint8, "payload": np.int64, "extent": np.int32, "extra": np.int32, "heap": np.uint8}
    for name, dtype in dtypes.items():
        require(getattr(state, name).dtype == dtype, f"{name} of the dictionary has numbers of another width")
    count = len(state.kind)
    for name in ("payload", "extent", "extra"):
        size = len(getattr(state, name))
        require(size == count, f"{name} of the dictionary has {size:,} values instead of {count:,}")
    kinds = {kind: members for kind in Kind if len(members := np.flatnonzero(state.kind == np.uint8(kind)))}
    require(sum(map(len, kinds.values())) == count, "the dictionary has a value of an unknown kind")
    _check_texts(state)
    for kind, members in kinds.items():
        if kind in QUALIFIED:
            _check_qualifiers(state, kind, members)
        elif kind in TEXT_KINDS:
            require(not state.extra[members].any(), f"a {_called(kind)} of the dictionary has a qualifier")
        else:
            _check_numbers(kind, state.payload[members], state.extra[members])


def _check_texts(state: DictionaryState) -> None:
    is_text = np.zeros(1 + max(Kind), bool)
    is_text[list(TEXT_KINDS)] = True
    members = np.flatnonzero(is_text.take(state.kind))
    begin, extent = state.payload[members], state.extent[members].astype(np.int64)
    heap = len(state.heap)
    is_inside = (begin >= 0) & (extent >= 0) & (begin <= heap) & (extent <= heap - begin)
    require(is_inside.all(), "a text of the dictionary lies outside of the place for texts")
    if heap and int(state.heap.max()) > LAST_ASCII:
        try:
            _texts(state.heap, begin, extent).validate(full=True)
        except pa.ArrowInvalid:
            raise FormError("a text of the dictionary is not UTF-8") from None
    large = state.kind[members] == np.uint8(Kind.BIG)
    for text in _texts(state.heap, begin[large], extent[large]).to_pylist():
        require(DECIMAL.fullmatch(text), "a large number of the dictionary is invalid")


def _check_qualifiers(state: DictionaryState, kind: Kind, members: Array) -> None:
    extra = state.extra[members]
    is_known = (extra >= 0) & (extra < members)
    require(is_known.all(), f"a {_called(kind)} of the dictionary has an unknown qualifier")
    is_right = state.kind[extra] == QUALIFIED[kind]
    require(is_right.all(), f"a {_called(kind)} of the dictionary has a qualifier of another kind")


def _texts(heap: Array, begin: Array, extent: Array) -> pa.Array:
    """Return the texts at these positions, in one piece where they are adjacent."""
    offsets = np.zeros(len(begin) + 1, np.int64)
    np.cumsum(extent, out=offsets[1:])
    if len(begin) and (np.diff(begin) == extent[:-1]).all():
        data = heap[int(begin[0]) : int(begin[0]) + int(offsets[-1])]
    else:
        data = heap[np.arange(int(offsets[-1])) + np.repeat(begin - offsets[:-1], extent)]
    buffers = pa.py_buffer(offsets), pa.py_buffer(np.ascontiguousarray(data))
    return pa.LargeStringArray.from_buffers(len(begin), *buffers)


def _check_numbers(kind: Kind, payload: Array, extra: Array) -> None:
    match kind:
        case Kind.BOOLEAN:
            is_right = (payload >= 0) & (payload <= 1) & (extra == 0)
        case Kind.DECIMAL:
            is_right = (extra >= 0) & (extra <= LARGEST_SCALE)
        case Kind.DOUBLE:
            is_right = ~np.isnan(payload.view(np.float64)) & (extra == 0)
        case Kind.DATETIME:
            is_right = (abs(extra) <= MOST_TIME_ZONE) | (extra == NO_TIME_ZONE)
        case _:
            is_right = extra == 0
    require(is_right.all(), f"a {_called(kind)} of the dictionary is out of range")


def _called(kind: Kind) -> str:
    return kind.name.lower().replace("_", " ")


def check_engine(state: EngineState) -> None:
    """Check the values and the relations of an engine."""
    check_dictionary(state.dictionary)
    names = [table.name for table in state.tables]
    require(len(set(names)) == len(names), "two relations have the same name")
    for table in state.tables:
        check_table(table, len(state.dictionary.kind))
    require(state.clock < 1 << 31, "the clock is out of range")
    for name in state.closed:
        require(name in names, f"unknown relation `{name}`, which is closed")


def check_arities(state: EngineState, arities: Arities) -> None:
    """Check that relations are those that rules need, with the arities in rules.

    Auxiliary ones of deleted rules may still exist.
    """
    for table in state.tables:
        is_known = table.name in arities or is_auxiliary(table.name)
        require(is_known, f"unknown predicate `{table.name}`, which has facts")
        columns = len(table.columns)
        expected = arities.get(table.name, columns)
        require(columns == expected, f"`{table.name}` has {columns} columns instead of {expected}")


def check_table(table: TableState, values: int) -> None:
    """Check that the rows of a relation have existing values, and valid flags and counters."""
    name, rows = table.name, len(table.flags)
    require(table.flags.dtype == np.uint8, f"flags of `{name}` have numbers of another width")
    for position, column in enumerate(table.columns, 1):
        _check_ids(column, rows, values, f"column {position} of `{name}`")
    for counter, numbers in table.counters.items():
        require(numbers.dtype == np.int32, f"{counter} of `{name}` has numbers of another width")
        require(
            len(numbers) == rows,
            f"{counter} of `{name}` has {counted(len(numbers), 'row')} instead of {rows:,}",
        )
        require(not rows or int(numbers.min()) >= 0, f"{counter} of `{name}` is negative")
    unknown = table.flags & np.uint8(0xFF & ~LASTING)
    require(not unknown.any(), f"flags of `{name}` are not those of facts between two transactions")
    alive = int(np.count_nonzero(table.flags & layout.ALIVE))
    require(
        table.is_scratch or table.ends["dead"] == rows - alive,
        f"`{name}` does not have as many dead rows as it says",
    )
    for end in (*table.ends.values(), *table.rounds):
        require(0 <= end <= rows, f"`{name}` has {counted(rows, 'row')}, and {end:,} are spoken of")
    require(sorted(table.rounds) == list(table.rounds), f"the rounds of `{name}` are not in order")
    require(len(table.columns) or rows <= 1, f"`{name}` holds more than once")


def _check_ids(column: Array, rows: int, values: int, subject: str) -> None:
    require(column.dtype == np.int32, f"{subject} has numbers of another width")
    require(len(column) == rows, f"{subject} has {counted(len(column), 'row')} instead of {rows:,}")
    if rows:
        is_known = int(column.min()) >= 0 and int(column.max()) < values
        require(is_known, f"{subject} has values that are not in the dictionary")


# ---- times


def check_times(state: TimeState, program: Program, values: int) -> None:
    """Check the facts that hold at times, whose values have been checked."""
    scale = state.timeline.scale
    require(0 < scale < LIMIT, f"the timeline has a scale of {scale}")
    for tables in (state.given, state.tables):
        names = [table.name for table in tables]
        require(len(set(names)) == len(names), "two relations at times have the same name")
        for table in tables:
            predicate = program.predicates.get(table.name)
            require(predicate is not None, f"unknown predicate `{table.name}`, which has temporal facts")
            assert predicate is not None
            _check_timed(table, predicate.arity, values)
    for number, round_number in state.dropped.items():
        require(0 <= number < len(program.rules) and round_number >= 0, f"unknown rule {number} to be done")
    for name in state.past.kept:
        require(name in program.predicates, f"unknown predicate `{name}`, of which something is past")
    if state.periodic is not None and state.periodic[1] is not None:
        for side in (state.periodic[1].left, state.periodic[1].right):
            require(side is None or side.period > 0, "something repeats by an invalid period")


def _check_timed(table: TimedTableState, arity: int, values: int) -> None:
    name, rows = table.name, len(table.count)
    require(
        len(table.columns) == arity,
        f"`{name}` at times has {counted(len(table.columns), 'column')} instead of {arity}",
    )
    for position, column in enumerate(table.columns, 1):
        _check_ids(column, rows, values, f"column {position} of `{name}` at times")
    require(arity or rows <= 1, f"`{name}` at times is more than one fact")
    left, right, count = table.left, table.right, table.count
    for part in (left, right, count):
        require(part.dtype == np.int64, f"the intervals of `{name}` have numbers of another width")
    require(len(left) == len(right), f"the intervals of `{name}` have {len(left):,} and {len(right):,} ends")
    require(not rows or int(count.min()) >= 0, f"`{name}` has a negative number of intervals")
    require(int(count.sum()) == len(left), f"`{name}` does not have as many intervals as it says")
    for ends, infinite in ((left, -INFINITY), (right, INFINITY)):
        require(((abs(ends) <= LIMIT) | (ends == infinite)).all(), f"an interval of `{name}` is out of range")
    require((left <= right).all(), f"an interval of `{name}` is empty")
    owners = np.repeat(np.arange(rows), count)
    follows = owners[1:] == owners[:-1]
    apart = left[1:] > np.minimum(right[:-1], LIMIT) + 1
    require(apart[follows].all(), f"the intervals of `{name}` are not in order")
