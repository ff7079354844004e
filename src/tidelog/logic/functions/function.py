"""What a built-in function is, and how one is defined. `REGISTRY` and `ALIASES` grow upon import."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from typing import ParamSpec

from tidelog.errors import codes
from tidelog.logic.conversions import exact
from tidelog.logic.types import Signature
from tidelog.logic.types import signature as types_signature
from tidelog.logic.values import Kind, Value
from tidelog.records import dataclass

Result = Value | None  # None is no value: the literal that it is in fails
Parameters = ParamSpec("Parameters")


class Overflow(ArithmeticError):  # noqa: N818 - named after what happens, as ZeroDivisionError is not
    """Arithmetic that leaves 64 bits: the operation, and the values it was given."""

    code = codes.INTEGER_OVERFLOW

    def __init__(self, operation: str, operands: Sequence[Value]) -> None:
        self.operation = operation
        self.operands = tuple(operands)
        shown = [_shortened(exact(operand)) for operand in self.operands[:4]]
        more = ["…"] if len(self.operands) > 4 else []
        super().__init__(f"`{operation}` overflows 64 bits for {', '.join(shown + more)}")


class UnsupportedPattern(Overflow):
    """A regular expression that RE2 does not accept; like an overflow it stops the evaluation."""

    code = codes.BAD_PATTERN

    def __init__(self, pattern: str, reason: str) -> None:
        ArithmeticError.__init__(self, f"the pattern `{_shortened(pattern)}` is not supported: {reason}")


def _shortened(text: str) -> str:
    return text if len(text) <= 40 else f"{text[:24]}…{text[-8:]}"


@dataclass(frozen=True, slots=True)
class Function:
    """A built-in function: how it is called, and what it computes.

    `boolean` functions may stand as a literal. A `lazy` function is given None for an argument without a
    value; any other has no value itself then. `maximum` is None if there is no largest number of arguments.
    A test of what its argument is has the `kinds` of which it is true, so that engines need not call it.
    For arguments of other types than `types` takes there is no value; a lazy function's may be missing.
    """

    name: str
    signature: str
    summary: str
    types: Signature
    implementation: Callable[..., Result]
    minimum: int
    maximum: int | None
    boolean: bool = False
    lazy: bool = False
    kinds: frozenset[Kind] | None = None

    def accepts(self, count: int) -> bool:
        """Whether the function can be called with this many arguments."""
        return self.minimum <= count and (self.maximum is None or count <= self.maximum)

    @property
    def arity(self) -> str:
        """The number of arguments in words: `2 arguments`, `2 or 3 arguments`, `at least 1 argument`."""
        if self.maximum is None:
            count = f"at least {self.minimum}" if self.minimum else "any number of"
        elif self.maximum > self.minimum:
            count = f"{self.minimum} or {self.maximum}"
        else:
            count = str(self.minimum)
        return f"{count} argument{'' if count.endswith('1') and 'or' not in count else 's'}"

    def call(self, arguments: Sequence[Result]) -> Result:
        """Return the function's value for the arguments; raise Overflow where the result leaves 64 bits."""
        if not self.lazy and None in arguments:
            return None
        return self.implementation(*arguments)


REGISTRY: dict[str, Function] = {}
ALIASES: dict[str, str] = {}


def function(
    signature: str,
    summary: str,
    types: str,
    *,
    name: str | None = None,
    aliases: Sequence[str] = (),
    boolean: bool = False,
    lazy: bool = False,
    kinds: frozenset[Kind] | None = None,
) -> Callable[[Callable[Parameters, Result]], Callable[Parameters, Result]]:
    """A decorator that registers what it decorates; the number of arguments is that of the definition."""
    canonical = name or signature.partition("(")[0]

    def register(implementation: Callable[Parameters, Result]) -> Callable[Parameters, Result]:
        minimum, maximum = _arity(implementation)
        REGISTRY[canonical] = Function(
            canonical,
            signature,
            summary,
            types_signature(types),
            implementation,
            minimum,
            maximum,
            boolean,
            lazy,
            kinds,
        )
        ALIASES.update(dict.fromkeys(aliases, canonical))
        return implementation

    return register


def _arity(implementation: Callable[..., Result]) -> tuple[int, int | None]:
    """The least and largest number of arguments that the implementation takes."""
    code = implementation.__code__  # `inspect.signature` takes its time, for each of 100 functions
    needed = code.co_argcount - len(implementation.__defaults__ or ())
    return needed, None if code.co_flags & inspect.CO_VARARGS else code.co_argcount
