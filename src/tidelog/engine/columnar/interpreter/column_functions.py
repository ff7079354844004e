"""Expressions that kernels leave to Python, computed once for each distinct combination of ids. Mutable.

The combinations that a batch adds are computed together, function by function, over columns of values laid
out as in the dictionary. Only the results of the whole expression get ids. What has no implementation over
columns, and each row that one leaves, is computed by the definition in `logic.functions`; so is all again if
something overflows, so that the error is that of the first row.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from functools import cache, reduce
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.data.arrow import array_of, flags_of, mask_of, numbers_of, pc, take, text_array
from tidelog.data.columns import read_plain_texts
from tidelog.data.dictionary import TEXT_KINDS, Dictionary
from tidelog.data.dictionary_kernels import (
    ANYWHERE,
    AT_END,
    AT_START,
    find_characters,
    find_parts,
)
from tidelog.data.rows import Combinations, Ids
from tidelog.data.typed_columns import MISSING, ValueColumn, copied_parts, with_texts
from tidelog.engine.columnar import layout
from tidelog.engine.columnar.interpreter.assemble import PythonStep
from tidelog.engine.interrupts import ActiveLimits
from tidelog.logic.conversions import datatype
from tidelog.logic.functions.builtins import Function, Overflow, evaluate, lookup
from tidelog.logic.functions.function import Result
from tidelog.logic.functions.strings import pattern_of, template_of
from tidelog.logic.program import Apply, Comparison, Condition, Constant, Expression, Variable
from tidelog.logic.values import FALSE, TRUE, XSD, ColumnType, Kind, Value, iri, string
from tidelog.records import dataclass

FEW = 16  # combinations that are computed one by one, and values that are computed between two checks
LONGEST = 1 << 40  # texts
MOST_BYTES = 1 << 22  # texts that are computed together

KINDS = max(Kind) + 1
ASK = 255  # instead of a kind: left to the definition

Flags = npt.NDArray[np.bool_]
Words = npt.NDArray[np.int64]


# ---- the distinct combinations of arguments


class PythonFunction:
    """An expression step: each distinct combination of arguments is computed once."""

    def __init__(self, step: PythonStep, dictionary: Dictionary, limits: ActiveLimits) -> None:
        self.limits = limits
        self.dictionary = dictionary
        self.columns = [column for _, column in step.slots]
        self.variables = [variable for variable, _ in step.slots]
        self.expression, self.wanted = _as_function(step.expression)
        self.constant_bytes = _constant_bytes(self.expression)
        self.combinations = Combinations(len(self.columns))
        self.by_kind: Ids | None = None
        if len(self.columns) == 1 and _looks_at_kinds(self.expression):
            self.by_kind = self._results([ValueColumn(np.arange(KINDS, dtype=np.uint8))], KINDS)

    def fill(self, workspace: Any, level: int, rows: int, width: int) -> None:
        """Write the result of every row that requests it."""
        asking = np.flatnonzero(workspace.result[:rows] == layout.ASK_PYTHON)
        ids = np.empty((len(self.columns), len(asking)), np.int32)
        for place, column in enumerate(self.columns):
            ids[place] = workspace.column(level, column, width)[asking]
        if self.by_kind is None:
            workspace.result[asking] = self._remembered(ids)
        else:
            workspace.result[asking] = self.by_kind[self.dictionary.kind[ids[0]]]

    def _remembered(self, ids: npt.NDArray[np.int32]) -> Ids:
        """Return the result of each combination, computing those that are new."""
        combinations = self.combinations
        try:
            first, numbers = combinations.number(ids, len(self.dictionary))
            if combinations.count > first:
                new = slice(first, combinations.count)
                combinations.results[new] = self._compute(combinations.ids[:, new])
        except BaseException:
            combinations.forget()  # which have numbers, but no results
            raise
        return combinations.results[numbers]

    def _compute(self, ids: npt.NDArray[np.int32]) -> Ids:
        """Return the results of distinct combinations."""
        self.limits.check()
        if ids.shape[1] <= FEW:
            return self._define(ids)
        try:
            return np.concatenate([self._evaluate(piece) for piece in self._pieces(ids)])
        except Overflow:
            return self._define(ids)  # raises it for the first row

    def _pieces(self, ids: npt.NDArray[np.int32]) -> Iterator[npt.NDArray[np.int32]]:
        """Divide combinations so that the texts of each piece are not too long together."""
        lengths = self.dictionary.extent[ids].sum(axis=0, dtype=np.int64) + self.constant_bytes
        numbers = np.cumsum(lengths) // MOST_BYTES
        ends = [*(np.flatnonzero(np.diff(numbers)) + 1), ids.shape[1]]
        for start, end in zip([0, *ends], ends, strict=False):
            self.limits.check()
            yield ids[:, start:end]

    def _evaluate(self, ids: npt.NDArray[np.int32]) -> Ids:
        """Return the results of combinations, computed over columns."""
        return self._results([ValueColumn.of_ids(self.dictionary, column) for column in ids], ids.shape[1])

    def _results(self, columns: Sequence[ValueColumn], rows: int) -> Ids:
        """Return the results for the values of the variables."""
        variables = dict(zip(self.variables, columns, strict=True))
        column = Evaluation(self.dictionary, self.limits, rows, variables).evaluate(self.expression)
        if self.wanted is None:
            return np.broadcast_to(column.ids(self.dictionary, layout.NO_VALUE), rows)
        holds = (column.kinds == Kind.BOOLEAN) & (column.payloads == self.wanted.content)
        results = np.where(column.kinds == MISSING, layout.NO_VALUE, holds)
        return np.broadcast_to(results.astype(np.int32), rows)

    def _define(self, ids: npt.NDArray[np.int32]) -> Ids:
        """Return the results of combinations by the definition."""
        results = np.empty(ids.shape[1], np.int32)
        for row, combination in enumerate(ids.T.tolist()):
            if row % FEW == 0:
                self.limits.check()
            values = map(self.dictionary.decode, combination)
            value = evaluate(self.expression, dict(zip(self.variables, values, strict=True)))
            if value is None:
                results[row] = layout.NO_VALUE
            elif self.wanted is None:
                results[row] = self.dictionary.encode(value)
            else:
                results[row] = value == self.wanted
        return results


def _as_function(expression: Expression | Comparison | Condition) -> tuple[Expression, Value | None]:
    """Return what is to be computed, and of a test the value for which it holds."""
    match expression:
        case Comparison(operator, left, right):
            return Apply(operator, (left, right)), TRUE
        case Condition(inner, negated):
            return inner, FALSE if negated else TRUE
        case _:
            return expression, None


def _function(name: str) -> Function:
    function = lookup(name)
    assert function is not None, f"{name} is built in"
    return function


def _looks_at_kinds(expression: Expression) -> bool:
    """Return whether an expression depends on nothing but the kinds of its variables."""
    match expression:
        case Apply(name, (Variable(),)) if _function(name).kinds is not None:
            return True
        case Apply(name, arguments) if _function(name).name in ("NOT", "AND", "OR"):
            return bool(arguments) and all(map(_looks_at_kinds, arguments))
    return False


def _constant_bytes(expression: Expression) -> int:
    """Return how long the texts are that an expression mentions."""
    match expression:
        case Apply(_, arguments):
            return sum(map(_constant_bytes, arguments))
        case Constant(value) if value.kind in TEXT_KINDS:
            return len(str(value.content).encode())
    return 0


# ---- evaluation, from the leaves up


@dataclass(frozen=True, slots=True)
class Evaluation:
    """One evaluation of an expression for a number of rows."""

    dictionary: Dictionary
    limits: ActiveLimits
    rows: int
    variables: Mapping[Variable, ValueColumn]

    def evaluate(self, expression: Expression) -> ValueColumn:
        """Return the values of an expression; raise Overflow as the definition does for one of the rows."""
        match expression:
            case Constant(value):
                return self.constant(value)
            case Variable():
                return self.variables[expression]
            case Apply(name, arguments):
                return self._call(_function(name), [self.evaluate(argument) for argument in arguments])

    def constant(self, value: Result) -> ValueColumn:
        """Return the column of a constant, or of no value."""
        if value is None:
            return ValueColumn.missing(1)
        return ValueColumn.of_ids(self.dictionary, np.array([self.dictionary.encode(value)], np.int32))

    def _call(self, function: Function, arguments: list[ValueColumn]) -> ValueColumn:
        if all(len(argument) == 1 for argument in arguments):  # constants all of them, or one row
            return self.constant(function.call([self.value_of(argument) for argument in arguments]))
        has_value = np.ones(self.rows, bool)
        if not function.lazy:
            for argument in arguments:
                has_value &= argument.kinds != MISSING
        if not has_value.any():
            return self.constant(None)
        column = self._by_columns(function, arguments)
        if not has_value.all():
            column = column.marked(~has_value, MISSING)
        asking = np.flatnonzero(column.kinds == ASK)
        if not len(asking):
            return column
        values = self._define(function, arguments, asking)
        return column.with_values(self.dictionary, asking, values)

    def _by_columns(self, function: Function, arguments: list[ValueColumn]) -> ValueColumn:
        """Return what the implementation over columns computes, ASK for what it does not."""
        if function.kinds is not None:
            return ValueColumn.of_truths(_is_of(function.kinds)[arguments[0].kinds], np.ones(self.rows, bool))
        implementation = IMPLEMENTATIONS.get(function.name)
        column = None if implementation is None else implementation(self, *arguments)
        if column is None:
            column = ValueColumn(np.full(self.rows, ASK, np.uint8))
        return column

    def _define(
        self, function: Function, arguments: list[ValueColumn], rows: npt.NDArray[np.int64]
    ) -> list[Result]:
        """Return what the definition gives for these rows."""
        listed = [argument.values(self.dictionary, rows) for argument in arguments]
        results: dict[tuple[Result, ...], Result] = {}
        for number, values in enumerate(combined := list(zip(*listed, strict=True))):
            if number % FEW == 0:
                self.limits.check()
            if values not in results:
                results[values] = function.call(values)
        return [results[values] for values in combined]

    def value_of(self, column: ValueColumn) -> Result:
        """Return the value of a constant."""
        return column.values(self.dictionary, np.zeros(1, np.int64))[0]


@cache
def _is_of(kinds: frozenset[Kind]) -> Flags:
    """Return for each number of a kind whether it is one of these."""
    return np.isin(np.arange(256), sorted(kinds))


# ---- implementations: of functions over columns, at least one of which is not a constant
#
# Each returns the values; the kind ASK leaves a row to the definition, None leaves all. Rows in which an
# argument has no value are not looked at, unless the function is lazy.

Implementation = Callable[..., ValueColumn | None]
IMPLEMENTATIONS: dict[str, Implementation] = {}


def _implements(*names: str) -> Callable[[Implementation], Implementation]:
    """A decorator that registers an implementation of functions."""

    def register(implementation: Implementation) -> Implementation:
        IMPLEMENTATIONS.update(dict.fromkeys(names, implementation))
        return implementation

    return register


# -- one text


@_implements("STRLEN")
def _length(_: Evaluation, whole: ValueColumn) -> ValueColumn:
    lengths = numbers_of(pc.utf8_length(whole.texts), "int64")
    return ValueColumn.of_numbers(Kind.INTEGER, lengths, whole.are_texts)


# Letters whose case Python and Arrow change alike wherever they stand: all of some scripts but ß, İ, ŉ, Σ and
# two Greek vowels. Others are left to Python: Arrow changes some differently, and Unicode goes on.
_PLAIN_LETTERS = (
    r"^[\x00-\x{de}\x{e0}-\x{12f}\x{131}-\x{148}\x{14a}-\x{17f}"
    r"\x{386}-\x{38f}\x{391}-\x{3a2}\x{3a4}-\x{3af}\x{3b1}-\x{3ce}\x{400}-\x{45f}"
    r"\x{5d0}-\x{5ea}\x{620}-\x{64a}\x{2010}-\x{205e}\x{20a0}-\x{20bf}\x{3041}-\x{30ff}\x{4e00}-\x{9fff}\x{ac00}-\x{d7a3}]*$"
)


def _define_case(name: str, by_ascii: str, by_arrow: str, change: Callable[[str], str]) -> None:
    def implementation(_: Evaluation, whole: ValueColumn) -> ValueColumn:
        texts = whole.texts
        if pc.all(pc.string_is_ascii(texts)).as_py():
            return whole.alike(getattr(pc, by_ascii)(texts))
        others = np.flatnonzero(~flags_of(pc.match_substring_regex(texts, _PLAIN_LETTERS)))
        changed = [change(text) for text in take(texts, others).to_pylist()]
        return whole.alike(with_texts(getattr(pc, by_arrow)(texts), others, changed))

    _implements(name)(implementation)


_define_case("UCASE", "ascii_upper", "utf8_upper", str.upper)
_define_case("LCASE", "ascii_lower", "utf8_lower", str.lower)


@_implements("STRREV")
def _reversed(_: Evaluation, whole: ValueColumn) -> ValueColumn:
    return whole.alike(pc.utf8_reverse(whole.texts))


def _define_unchanged(name: str, pattern: str) -> None:
    """Define a function that changes no text of a pattern; others are left."""

    def implementation(_: Evaluation, whole: ValueColumn) -> ValueColumn:
        texts = whole.texts
        others = ~flags_of(pc.match_substring_regex(texts, pattern))
        return ValueColumn.of_strings(texts, whole.are_texts).marked(others, ASK)

    _implements(name)(implementation)


_define_unchanged("URIENCODE", r"^[A-Za-z0-9._~-]*$")
_define_unchanged("URIDECODE", r"^[^%]*$")


# -- parts


@_implements("SUBSTR")
def _substring(
    call: Evaluation, whole: ValueColumn, start: ValueColumn, count: ValueColumn | None = None
) -> ValueColumn | None:
    starts = np.broadcast_to(start.payloads - 1, call.rows)
    ends = np.full(call.rows, LONGEST) if count is None else starts + count.payloads
    places, bounds = np.maximum(starts, 0), np.maximum(ends, 0)
    texts, data, step = _addresses(whole)
    find_characters(texts, data, step, places, bounds)
    column = whole.alike(copied_parts(data, places, bounds - places))
    for number in (start,) if count is None else (start, count):
        column = column.marked(~_are_below(number, LONGEST), ASK)
    return column


def _addresses(column: ValueColumn) -> tuple[int, int, int]:
    """Where kernels read texts: the addresses of offsets and bytes, and the step between rows."""
    texts = column.texts
    _, offsets, data = texts.buffers()
    return offsets.address + 8 * texts.offset, 0 if data is None else data.address, int(len(column) > 1)


def _agree(whole: ValueColumn, part: ValueColumn) -> Flags:
    """Return where both are texts, the second without a language or in that of the first."""
    is_same = (whole.kinds == part.kinds) & (whole.extras == part.extras)
    agree: Flags = whole.are_texts & part.are_texts & ((part.kinds == Kind.STRING) | is_same)
    return agree


def _places(rows: int, whole: ValueColumn, part: ValueColumn, where: int) -> Words:
    """Return where parts stand in texts, -1 where they do not."""
    places = np.empty(rows, np.int64)
    find_parts(*_addresses(whole), *_addresses(part), where, places)
    return places


def _define_side(name: str, *, is_after: bool) -> None:
    def implementation(call: Evaluation, whole: ValueColumn, part: ValueColumn) -> ValueColumn:
        places = _places(call.rows, whole, part, ANYWHERE)
        begins, sizes = _bounds(whole)
        _, part_sizes = _bounds(part)
        starts = np.where(places < 0, begins, places + part_sizes if is_after else begins)
        ends = begins + sizes if is_after else places
        lengths = np.where(places < 0, 0, ends - starts)
        found = whole.alike(copied_parts(_addresses(whole)[1], starts, lengths))
        kinds = np.where(places < 0, np.uint8(Kind.STRING), found.kinds)
        column = ValueColumn(kinds, None, np.where(places < 0, 0, found.extras), found.texts)
        return column.marked(~_agree(whole, part), MISSING)

    _implements(name)(implementation)


_define_side("STRBEFORE", is_after=False)
_define_side("STRAFTER", is_after=True)


def _bounds(column: ValueColumn) -> tuple[Words, Words]:
    """Return where each text begins, and its length in bytes."""
    texts = column.texts
    offsets = np.frombuffer(texts.buffers()[1], np.int64)[texts.offset : texts.offset + len(texts) + 1]
    return offsets[:-1], np.diff(offsets)


@cache
def _separator() -> Any:
    return text_array([""]).cast(pa.large_string())[0]


@_implements("CONCAT")
def _concatenated(call: Evaluation, *parts: ValueColumn) -> ValueColumn:
    texts = pc.binary_join_element_wise(*(part.texts_or_one for part in parts), _separator())
    first = parts[0]
    are_alike, are_texts = np.ones(call.rows, bool), np.ones(call.rows, bool)
    for part in parts:
        are_texts &= part.are_texts
        are_alike &= (part.kinds == first.kinds) & (part.extras == first.extras)
    kinds = np.where(are_alike, first.kinds, np.uint8(Kind.STRING))
    column = ValueColumn(kinds, None, np.where(are_alike, first.extras, 0), texts)
    return column.marked(~are_texts, MISSING)


# -- two texts


def _define_search(name: str, where: int) -> None:
    def implementation(call: Evaluation, whole: ValueColumn, part: ValueColumn) -> ValueColumn:
        return ValueColumn.of_truths(_places(call.rows, whole, part, where) >= 0, _agree(whole, part))

    _implements(name)(implementation)


_define_search("STRSTARTS", AT_START)
_define_search("STRENDS", AT_END)
_define_search("CONTAINS", ANYWHERE)


def _order(left: ValueColumn, right: ValueColumn) -> Words:
    """Return -1, 0 or 1 as texts stand before, at or behind others by code points."""
    first, second = left.texts_or_one, right.texts_or_one
    behind, before = flags_of(pc.greater(first, second)), flags_of(pc.less(first, second))
    order: Words = behind.astype(np.int64) - before
    return order


@_implements("COMPARE")
def _compared(_: Evaluation, left: ValueColumn, right: ValueColumn) -> ValueColumn:
    return ValueColumn.of_numbers(Kind.INTEGER, _order(left, right), left.are_texts & right.are_texts)


# -- patterns


@_implements("REGEX")
def _matches(call: Evaluation, whole: ValueColumn, *constants: ValueColumn) -> ValueColumn | None:
    if any(len(constant) > 1 for constant in constants):
        return None
    pattern, flags = [*(call.value_of(constant) for constant in constants), None][:2]
    assert pattern is not None
    expression = pattern_of(pattern, flags)
    if expression is None:
        return ValueColumn.missing(call.rows)
    return ValueColumn.of_truths(flags_of(expression.is_found_in(whole.texts)), whole.are_texts)


@_implements("REPLACE")
def _substituted(call: Evaluation, whole: ValueColumn, *constants: ValueColumn) -> ValueColumn | None:
    if any(len(constant) > 1 for constant in constants):
        return None
    values: list[Any] = [call.value_of(constant) for constant in constants]
    rewriting = template_of(*values)
    if rewriting is None:
        return ValueColumn.missing(call.rows)
    pattern, template = rewriting
    return whole.alike(pc.replace_substring_regex(whole.texts, pattern, template))


# -- text, language, datatype


@_implements("STR")
def _text(call: Evaluation, value: ValueColumn) -> ValueColumn:
    are_plain = _IS_PLAIN[value.kinds]
    integers = value.kinds == Kind.INTEGER
    texts = value.texts
    if integers.any():
        digits = pc.cast(array_of(value.payloads), pa.large_string())
        texts = digits if integers.all() else pc.if_else(mask_of(integers), digits, texts)
    return ValueColumn.of_strings(texts, are_plain | integers).marked(~(are_plain | integers), ASK)


_IS_PLAIN = np.isin(np.arange(256), (Kind.STRING, Kind.LANGUAGE_STRING, Kind.LITERAL, Kind.IRI))


@_implements("LANG")
def _language(call: Evaluation, value: ValueColumn) -> ValueColumn:
    dictionary = call.dictionary
    no_language = dictionary.encode(string(""))
    ids = np.where(value.kinds == Kind.LANGUAGE_STRING, value.extras, np.int32(no_language))
    return ValueColumn.of_ids(dictionary, ids).marked(np.isin(value.kinds, (Kind.IRI, Kind.BLANK)), MISSING)


@_implements("DATATYPE")
def _datatype(call: Evaluation, value: ValueColumn) -> ValueColumn:
    dictionary = call.dictionary
    of_kinds = np.zeros(256, np.int32)
    for kind in np.unique(value.kinds).tolist():
        if kind not in (MISSING, Kind.LITERAL, Kind.BIG, Kind.BLANK):
            name = datatype(Value(Kind(kind), 0)) or XSD + "anyURI"
            of_kinds[kind] = dictionary.encode(iri(name))
    ids = np.where(value.kinds == Kind.LITERAL, value.extras, of_kinds[value.kinds])
    column = ValueColumn.of_ids(dictionary, ids).marked(value.kinds == Kind.BLANK, MISSING)
    return column.marked(value.kinds == Kind.BIG, ASK)


@_implements("ISINTEGER")
def _is_integer(_: Evaluation, value: ValueColumn) -> ValueColumn:
    column = ValueColumn.of_truths(value.kinds == Kind.INTEGER, np.ones(len(value.kinds), bool))
    return column.marked(value.kinds == Kind.BIG, ASK)


# -- comparisons


def _same(left: ValueColumn, right: ValueColumn) -> Flags:
    """Return where two columns have the same value."""
    if left.coded is not None and right.coded is not None:
        are_one: Flags = left.coded[1] == right.coded[1]
        return are_one
    same = (left.kinds == right.kinds) & (left.extras == right.extras)
    has_text = left.have_texts
    are_equal = left.payloads == right.payloads
    if (same & has_text).any():
        equal_texts = flags_of(pc.equal(left.texts_or_one, right.texts_or_one))
        are_equal = np.where(has_text, equal_texts, are_equal)
    result: Flags = same & are_equal
    return result


_implements("=")(lambda call, *both: ValueColumn.of_truths(_same(*both), np.ones(call.rows, bool)))
_implements("!=")(lambda call, *both: ValueColumn.of_truths(~_same(*both), np.ones(call.rows, bool)))


def _define_comparison(name: str, holds: Callable[[Words], Flags]) -> None:
    def implementation(call: Evaluation, left: ValueColumn, right: ValueColumn) -> ValueColumn:
        are_same_kind = left.kinds == right.kinds
        texts = are_same_kind & _IS_ORDERED_TEXT[left.kinds]
        words = are_same_kind & _IS_ORDERED_WORD[left.kinds]
        order = np.greater(left.payloads, right.payloads).astype(np.int64) - np.less(
            left.payloads, right.payloads
        )
        if texts.any():
            order = np.where(texts, _order(left, right), order)
        column = ValueColumn.of_truths(holds(order), np.ones(call.rows, bool))
        return column.marked(~(texts | words), ASK)

    _implements(name)(implementation)


_IS_ORDERED_TEXT = np.isin(np.arange(256), (Kind.STRING, Kind.IRI))
_IS_ORDERED_WORD = np.isin(np.arange(256), (Kind.BOOLEAN, Kind.INTEGER, Kind.DATE))
_define_comparison("<", lambda order: order < 0)
_define_comparison("<=", lambda order: order <= 0)
_define_comparison(">", lambda order: order > 0)
_define_comparison(">=", lambda order: order >= 0)


# -- Booleans, and functions that accept arguments without a value


def _holds(column: ValueColumn) -> Flags:
    holds: Flags = (column.kinds == Kind.BOOLEAN) & (column.payloads == 1)
    return holds


def _are_booleans(call: Evaluation, operands: Sequence[ValueColumn]) -> Flags:
    are_booleans = np.ones(call.rows, bool)
    for operand in operands:
        are_booleans &= operand.kinds == Kind.BOOLEAN
    return are_booleans


@_implements("NOT")
def _negation(call: Evaluation, operand: ValueColumn) -> ValueColumn:
    return ValueColumn.of_truths(~_holds(operand), _are_booleans(call, [operand]))


def _define_connective(name: str, combine: Callable[[Flags, Flags], Flags]) -> None:
    def implementation(call: Evaluation, *operands: ValueColumn) -> ValueColumn:
        return ValueColumn.of_truths(reduce(combine, map(_holds, operands)), _are_booleans(call, operands))

    _implements(name)(implementation)


_define_connective("AND", np.logical_and)
_define_connective("OR", np.logical_or)


@_implements("IF")
def _chosen(
    call: Evaluation, condition: ValueColumn, then: ValueColumn, otherwise: ValueColumn
) -> ValueColumn:
    column = _merged(call, np.broadcast_to(_holds(condition), call.rows), then, otherwise)
    return column.marked(condition.kinds != Kind.BOOLEAN, MISSING)


@_implements("COALESCE")
def _first_value(call: Evaluation, *operands: ValueColumn) -> ValueColumn:
    column = operands[-1].widened(call.rows)
    for operand in reversed(operands[:-1]):
        column = _merged(call, np.broadcast_to(operand.kinds != MISSING, call.rows), operand, column)
    return column


def _merged(call: Evaluation, flags: Flags, then: ValueColumn, otherwise: ValueColumn) -> ValueColumn:
    """Return the values of one column where a flag is set, of another elsewhere."""
    kinds = np.where(flags, then.kinds, otherwise.kinds)
    if then.coded is not None and otherwise.coded is not None:
        return ValueColumn(kinds, coded=(call.dictionary, np.where(flags, then.coded[1], otherwise.coded[1])))
    column = ValueColumn(
        kinds,
        np.where(flags, then.payloads, otherwise.payloads),
        np.where(flags, then.extras, otherwise.extras),
    )
    if not column.have_texts.any():
        return column
    texts = pc.if_else(mask_of(flags), then.texts_or_one, otherwise.texts_or_one)
    return ValueColumn(kinds, column.payloads, column.extras, texts)


# -- arithmetic and casts, where text functions and numbers meet


def _are_below(column: ValueColumn, bound: int) -> Flags:
    """Return where values are integers between two bounds."""
    numbers = column.payloads
    are_below: Flags = (column.kinds == Kind.INTEGER) & (numbers < bound) & (numbers > -bound)
    return are_below


def _define_arithmetic(name: str, compute: Callable[[Any, Any], Any], bound: int) -> None:
    def implementation(call: Evaluation, left: ValueColumn, right: ValueColumn) -> ValueColumn:
        are_exact = _are_below(left, bound) & _are_below(right, bound)
        column = ValueColumn.of_numbers(Kind.INTEGER, compute(left.payloads, right.payloads), are_exact)
        return column.marked(~are_exact, ASK)

    _implements(name)(implementation)


_define_arithmetic("+", np.add, 1 << 62)
_define_arithmetic("-", np.subtract, 1 << 62)
_define_arithmetic("*", np.multiply, 1 << 31)


def _define_cast(name: str, kind: Kind, column_type: ColumnType) -> None:
    """Define a cast of texts; those that the kernel for columns of files does not read are left."""

    def implementation(_: Evaluation, value: ValueColumn) -> ValueColumn:
        are_read, numbers, extras = value.kinds == kind, value.payloads, value.extras
        if (value.kinds == Kind.STRING).any():
            are_visible = flags_of(pc.match_substring_regex(value.texts, "^[ -~]*$"))  # other spaces are kept
            rows = np.flatnonzero(are_visible & (value.kinds == Kind.STRING))
            read = read_plain_texts(take(value.texts, rows), column_type)
            numbers, extras = numbers.copy(), extras.copy()
            numbers[rows], extras[rows] = read.values, read.extras
            are_read[rows] = True
            are_read[rows[read.listed]] = False
        kinds = np.where(are_read, np.uint8(kind), np.uint8(ASK))
        return ValueColumn(kinds, numbers, np.where(are_read, extras, np.int32(0)))

    _implements(name)(implementation)


_define_cast("INT", Kind.INTEGER, ColumnType.INTEGER)
_define_cast("DECIMAL", Kind.DECIMAL, ColumnType.DECIMAL)
_define_cast("DOUBLE", Kind.DOUBLE, ColumnType.DOUBLE)
_define_cast("DATE", Kind.DATE, ColumnType.DATE)
_define_cast("DATETIME", Kind.DATETIME, ColumnType.DATETIME)
