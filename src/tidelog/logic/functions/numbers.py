"""Arithmetic: exact over integers and decimals of 64 bits, IEEE 754 as soon as one operand is a double.

The kind of a result follows from the kinds of the operands, never from their size: with a decimal among them
it is a decimal, even if it is whole, so that 3.00 / 2 is 1.5 as 2.50 / 2 is 1.25.

A result that leaves 64 bits, and any operand that does (BIG), raises `Overflow`: never a wrong number. A
double that is not finite, out of finite operands, is no value, as in Nemo; so is NaN. What is not a number
makes no value.
"""

from __future__ import annotations

import math
import operator
from collections.abc import Callable, Sequence
from decimal import ROUND_HALF_EVEN, Context, Decimal
from fractions import Fraction

from tidelog.logic import values
from tidelog.logic.functions.function import Overflow, Result, function
from tidelog.logic.values import NUMBERS, Kind, Value

SIGNIFICANT_DIGITS = 18  # of a quotient that is not exact
_DIVISION = Context(prec=SIGNIFICANT_DIGITS, rounding=ROUND_HALF_EVEN)
_LEAST, _MOST = -(2**63), 2**63 - 1
_WORD = 2**64


# ---- the numbers of values


def are_numbers(operation: str, operands: Sequence[Value]) -> bool:
    """Return whether all operands are numbers; raise Overflow if they are, but one is beyond 64 bits."""
    kinds = {operand.kind for operand in operands}
    if not kinds <= NUMBERS:
        return False
    if Kind.BIG in kinds:
        raise Overflow(operation, operands)
    return True


def number(value: Value) -> float:
    """The double nearest to a number."""
    return float(values.exact_number(value))


def fraction(value: Value) -> Fraction:
    """The number itself; it must not be a double that is infinite."""
    return Fraction(values.exact_number(value))


def _scaled(value: Value) -> tuple[int, int]:
    """Mantissa and scale of an integer or decimal."""
    assert isinstance(value.content, int)
    return value.content, int(value.extra or 0)


def of_scaled(mantissa: int, scale: int) -> Result:
    """The decimal mantissa / 10**scale; None if it leaves 64 bits."""
    while scale > 0 and mantissa % 10 == 0:
        mantissa, scale = mantissa // 10, scale - 1
    return Value(Kind.DECIMAL, mantissa, scale) if _LEAST <= mantissa <= _MOST else None


def _exactly(operands: Sequence[Value], mantissa: int, scale: int) -> Result:
    """What exact arithmetic makes of integers and decimals: a decimal if one is, else an integer."""
    if any(operand.kind is Kind.DECIMAL for operand in operands):
        return of_scaled(mantissa, scale)
    return Value(Kind.INTEGER, mantissa) if _LEAST <= mantissa <= _MOST else None


def of_double(result: float, operands: Sequence[Value]) -> Result:
    """The double, unless it is infinite out of finite operands."""
    if math.isinf(result) and not any(math.isinf(number(operand)) for operand in operands):
        return None
    return values.double(result)


def of_quotient(dividend: Fraction, divisor: Fraction | int) -> Result:
    """The decimal quotient, exact if 64 bits hold it, else to 18 significant digits; None beyond 64 bits."""
    quotient = dividend / divisor
    return _exact_quotient(quotient) or _rounded_quotient(quotient)


def _exact_quotient(quotient: Fraction) -> Result:
    """The decimal that the quotient is; None if it has no end, or too many digits."""
    scale = 0
    while math.gcd(quotient.denominator, 10) > 1:
        quotient, scale = quotient * 10, scale + 1
    return of_scaled(quotient.numerator, scale) if quotient.denominator == 1 else None


def _rounded_quotient(quotient: Fraction) -> Result:
    value = values.decimal(_DIVISION.divide(Decimal(quotient.numerator), Decimal(quotient.denominator)))
    return None if value.kind is Kind.BIG else value


def _checked(operation: str, operands: Sequence[Value], result: Result) -> Value:
    """Return the result; raise Overflow if there is none."""
    if result is None:
        raise Overflow(operation, operands)
    return result


# ---- the four operations


def _arithmetic(
    operation: str,
    left: Value,
    right: Value,
    of_doubles: Callable[[float, float], float],
    of_pairs: Callable[[int, int, int, int], tuple[int, int]],
) -> Result:
    """The result of an operation that is exact over pairs of mantissa and scale."""
    if not are_numbers(operation, (left, right)):
        return None
    if Kind.DOUBLE in (left.kind, right.kind):
        return of_double(of_doubles(number(left), number(right)), (left, right))
    operands = (left, right)
    return _checked(operation, operands, _exactly(operands, *of_pairs(*_scaled(left), *_scaled(right))))


def _add_pairs(left: int, left_scale: int, right: int, right_scale: int) -> tuple[int, int]:
    scale = max(left_scale, right_scale)
    return left * 10 ** (scale - left_scale) + right * 10 ** (scale - right_scale), scale


def _subtract_pairs(left: int, left_scale: int, right: int, right_scale: int) -> tuple[int, int]:
    return _add_pairs(left, left_scale, -right, right_scale)


def _multiply_pairs(left: int, left_scale: int, right: int, right_scale: int) -> tuple[int, int]:
    return left * right, left_scale + right_scale


@function("left + right", "The sum.", "number, number -> arithmetic", name="+", aliases=["ADD"])
def add(left: Value, right: Value) -> Result:
    """The sum."""
    return _arithmetic("+", left, right, operator.add, _add_pairs)


@function(
    "left - right",
    "The difference.",
    "number, number -> arithmetic",
    name="-",
    aliases=["SUBTRACT", "SUBTRACTION"],
)
def subtract(left: Value, right: Value) -> Result:
    """The difference."""
    return _arithmetic("-", left, right, operator.sub, _subtract_pairs)


@function("left * right", "The product.", "number, number -> arithmetic", name="*", aliases=["MULTIPLY"])
def multiply(left: Value, right: Value) -> Result:
    """The product."""
    return _arithmetic("*", left, right, operator.mul, _multiply_pairs)


@function(
    "left / right",
    "The quotient: of two integers without its fraction, `7 / 2.0` is 3.5; no value if `right` is 0.",
    "number, number -> arithmetic",
    name="/",
    aliases=["DIVISION"],
)
def divide(left: Value, right: Value) -> Result:
    """The quotient, of integers cut towards zero, of decimals with its fraction."""
    if left.kind is not Kind.INTEGER or right.kind is not Kind.INTEGER:
        return _divide_exactly(left, right)
    (dividend, _), (divisor, _) = _scaled(left), _scaled(right)
    if divisor == 0:
        return None
    size = abs(dividend) // abs(divisor)
    quotient = size if (dividend < 0) == (divisor < 0) else -size
    return _checked("/", (left, right), _exactly((left, right), quotient, 0))


def _divide_exactly(left: Value, right: Value) -> Result:
    """The quotient with its fraction, to 18 significant digits if it has no end and none is a double."""
    if not are_numbers("/", (left, right)) or number(right) == 0:
        return None
    if Kind.DOUBLE in (left.kind, right.kind):
        return of_double(number(left) / number(right), (left, right))
    return _checked("/", (left, right), of_quotient(fraction(left), fraction(right)))


@function(
    "REM(left, right)",
    "What is left of division, with the sign of `left`.",
    "number, number -> arithmetic",
    aliases=["MOD"],
)
def remainder(left: Value, right: Value) -> Result:
    """The remainder of division cut towards zero."""
    if not are_numbers("REM", (left, right)) or number(right) == 0:
        return None
    if Kind.DOUBLE in (left.kind, right.kind):
        infinite = math.isinf(number(left))
        return None if infinite else of_double(math.fmod(number(left), number(right)), (left, right))
    (dividend, left_scale), (divisor, right_scale) = _scaled(left), _scaled(right)
    scale = max(left_scale, right_scale)
    dividend, divisor = dividend * 10 ** (scale - left_scale), divisor * 10 ** (scale - right_scale)
    size = abs(dividend) % abs(divisor)
    rest = -size if dividend < 0 else size
    return _checked("REM", (left, right), _exactly((left, right), rest, scale))


@function(
    "-number",
    "The number with the other sign.",
    "number -> arithmetic",
    name="NEG",
    aliases=["NEGATE", "INVERTSIGN"],
)
def negate(operand: Value) -> Result:
    """The number with the other sign."""
    return subtract(Value(Kind.INTEGER, 0), operand)


@function("ABS(number)", "The number without its sign.", "number -> arithmetic")
def absolute(operand: Value) -> Result:
    """The number without its sign."""
    if not are_numbers("ABS", (operand,)):
        return None
    if operand.kind is Kind.DOUBLE:
        return values.double(abs(number(operand)))
    mantissa, scale = _scaled(operand)
    return _checked("ABS", (operand,), _exactly((operand,), abs(mantissa), scale))


# ---- rounding


def _round_with(operation: str, operand: Value, rounding: Callable[[Fraction], int]) -> Result:
    """The whole number that `rounding` finds, of the operand's own kind."""
    if not are_numbers(operation, (operand,)):
        return None
    if operand.kind is Kind.INTEGER or math.isinf(number(operand)):
        return operand
    whole = rounding(fraction(operand))
    return values.double(float(whole)) if operand.kind is Kind.DOUBLE else of_scaled(whole, 0)


@function("ROUND(number)", "The nearest whole number; of two, the greater.", "number -> first")
def round_half_up(operand: Value) -> Result:
    """The nearest whole number, halves towards positive infinity as in XPath and Nemo."""
    return _round_with("ROUND", operand, lambda exact: math.floor(exact + Fraction(1, 2)))


@function("CEIL(number)", "The least whole number that is not less.", "number -> first")
def ceiling(operand: Value) -> Result:
    """The least whole number that is not less."""
    return _round_with("CEIL", operand, math.ceil)


@function("FLOOR(number)", "The greatest whole number that is not greater.", "number -> first")
def floor(operand: Value) -> Result:
    """The greatest whole number that is not greater."""
    return _round_with("FLOOR", operand, math.floor)


# ---- powers, roots, logarithms, angles


@function(
    "POW(base, exponent)",
    "The power; exact if the exponent is an integer from 0 up, no value for an integer to a negative one.",
    "number, number -> power",
)
def power(base: Value, exponent: Value) -> Result:
    """The power, a double unless base and exponent allow an exact one."""
    operands = (base, exponent)
    if not are_numbers("POW", operands):
        return None
    if base.kind is not Kind.DOUBLE and exponent.kind is Kind.INTEGER:
        times, _ = _scaled(exponent)
        if times >= 0:
            return _checked("POW", operands, _exact_power(base, times))
        if base.kind is Kind.INTEGER:
            return None
    return of_double_function(math.pow, operands)


def _exact_power(base: Value, times: int) -> Result:
    """The power of an integer or decimal; None if it leaves 64 bits, which is known before it is computed."""
    mantissa, scale = _scaled(base)
    if scale == 0 and abs(mantissa) <= 1:
        return _exactly((base,), mantissa ** (times % 2) if mantissa < 0 else mantissa ** min(times, 1), 0)
    return _exactly((base,), mantissa**times, scale * times) if times <= 64 else None


def of_double_function(compute: Callable[..., float], operands: Sequence[Value]) -> Result:
    """The double that a function of Python's mathematics computes, if it computes one."""
    try:
        return of_double(compute(*map(number, operands)), operands)
    except (ValueError, OverflowError, ZeroDivisionError):
        return None


@function(
    "SQRT(number)",
    "The square root; of an integer without its fraction, as in Nemo.",
    "number -> int or double",
)
def square_root(operand: Value) -> Result:
    """The square root, of an integer cut towards zero."""
    if not are_numbers("SQRT", (operand,)) or number(operand) < 0:
        return None
    if operand.kind is Kind.INTEGER:
        return Value(Kind.INTEGER, math.isqrt(_scaled(operand)[0]))
    return of_double_function(math.sqrt, (operand,))


@function(
    "LOG(number, base)",
    "The logarithm; of two integers without its fraction, as in Nemo.",
    "number, number -> int or double",
)
def logarithm(operand: Value, base: Value) -> Result:
    """The logarithm to the base, of integers the largest exponent whose power is not greater."""
    if not are_numbers("LOG", (operand, base)) or number(operand) <= 0 or number(base) <= 0:
        return None
    if operand.kind is not Kind.INTEGER or base.kind is not Kind.INTEGER:
        return of_double_function(math.log, (operand, base))
    (rest, _), (divisor, _) = _scaled(operand), _scaled(base)
    if divisor == 1:
        return None
    exponent = 0
    while rest >= divisor:
        rest, exponent = rest // divisor, exponent + 1
    return Value(Kind.INTEGER, exponent)


def _define_double_function(name: str, summary: str, compute: Callable[[float], float]) -> None:
    def implementation(operand: Value) -> Result:
        return of_double_function(compute, (operand,)) if are_numbers(name, (operand,)) else None

    function(f"{name}(number)", summary, "number -> double")(implementation)


_define_double_function("SIN", "The sine, a double.", math.sin)
_define_double_function("COS", "The cosine, a double.", math.cos)
_define_double_function("TAN", "The tangent, a double.", math.tan)


# ---- many operands


def double_mean(operands: Sequence[Value], divisor: int) -> Result:
    """The exact sum of numbers, some of them doubles, over a divisor, rounded once to a double.

    An infinity outweighs all finite numbers. There is no value if there are infinities of both signs, or if
    the result of finite numbers is beyond all doubles.
    """
    sums: dict[int, int] = {}  # of numerators, by denominator: few doubles differ in it
    infinities: set[float] = set()
    for operand in map(values.exact_number, operands):
        if isinstance(operand, float) and math.isinf(operand):
            infinities.add(operand)
            continue
        numerator, denominator = operand.as_integer_ratio()
        sums[denominator] = sums.get(denominator, 0) + numerator
    if infinities:
        return values.double(infinities.pop()) if len(infinities) == 1 else None
    whole = sum((Fraction(numerator, denominator) for denominator, numerator in sums.items()), Fraction(0))
    try:
        return values.double(float(whole / divisor))
    except OverflowError:
        return None


def total(operation: str, operands: Sequence[Value]) -> Result:
    """The sum, the same in whatever order the operands stand; None of none."""
    if not operands or not are_numbers(operation, operands):
        return None
    if any(operand.kind is Kind.DOUBLE for operand in operands):
        return double_mean(operands, 1)
    scale = max(_scaled(operand)[1] for operand in operands)
    mantissa = sum(_scaled(operand)[0] * 10 ** (scale - _scaled(operand)[1]) for operand in operands)
    return _checked(operation, operands, _exactly(operands, mantissa, scale))


@function("SUM(number, …)", "The sum of all; no value of none.", "number -> arithmetic")
def add_all(*operands: Value) -> Result:
    """The sum of all."""
    return total("SUM", operands)


@function("PRODUCT(number, …)", "The product of all; no value of none.", "number -> arithmetic")
def multiply_all(*operands: Value) -> Result:
    """The product of all, from left to right."""
    if not operands or not are_numbers("PRODUCT", operands):
        return None
    if any(operand.kind is Kind.DOUBLE for operand in operands):
        return of_double(math.prod(map(number, operands)), operands)
    mantissa = math.prod(_scaled(operand)[0] for operand in operands)
    scale = sum(_scaled(operand)[1] for operand in operands)
    return _checked("PRODUCT", operands, _exactly(operands, mantissa, scale))


@function(
    "LUKA(number, …)",
    "The Łukasiewicz t-norm: the sum less the count, plus 1, but at least 0.",
    "number -> arithmetic",
)
def lukasiewicz(*operands: Value) -> Result:
    """The Łukasiewicz t-norm of all; no value of none."""
    amount = total("LUKA", operands)
    norm = None if amount is None else subtract(amount, Value(Kind.INTEGER, len(operands) - 1))
    if norm is None or number(norm) >= 0:
        return norm
    return values.double(0.0) if norm.kind is Kind.DOUBLE else _exactly((norm,), 0, 0)


# ---- bits


def _bits(operands: Sequence[Value]) -> list[int] | None:
    """The operands as integers; None if one is none, or if there are none."""
    if not operands or any(operand.kind is not Kind.INTEGER for operand in operands):
        return None
    return [_scaled(operand)[0] for operand in operands]


def _define_bit_function(name: str, word: str, combine: Callable[[int, int], int]) -> None:
    def implementation(*operands: Value) -> Result:
        bits = _bits(operands)
        if bits is None:
            return None
        result = bits[0]
        for operand in bits[1:]:
            result = combine(result, operand)
        return Value(Kind.INTEGER, result)

    function(f"{name}(integer, …)", f"The bitwise {word} of all, in 64 bits.", "int -> int")(implementation)


_define_bit_function("BITAND", "and", operator.and_)
_define_bit_function("BITOR", "or", operator.or_)
_define_bit_function("BITXOR", "exclusive or", operator.xor)


def _define_shift(name: str, summary: str, shift: Callable[[int, int], int]) -> None:
    def implementation(operand: Value, count: Value) -> Result:
        bits = _bits((operand, count))
        if bits is None or not 0 <= bits[1] < 64:
            return None
        word = shift(*bits) % _WORD
        return Value(Kind.INTEGER, word - _WORD if word > _MOST else word)

    function(f"{name}(integer, count)", f"{summary}; no value unless 0 <= count < 64.", "int, int -> int")(
        implementation
    )


_define_shift("BITSHL", "The 64 bits moved left, zeros from the right", operator.lshift)
_define_shift("BITSHR", "The 64 bits moved right, the sign from the left", operator.rshift)
_define_shift(
    "BITSHRU", "The 64 bits moved right, zeros from the left", lambda bits, count: bits % _WORD >> count
)
