"""What forms of JSON must look like, so that whatever a file says can be read without surprises.

A shape is a function that is given a form and where it stands, and raises `FormError` if the form is another.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

Shape = Callable[[Any, str], None]
SURROGATE = re.compile(r"\\u[dD]")  # what may be half a character


class FormError(ValueError):
    """Raised for a form that is not what it should be: where it stands, and what is wrong."""


def wrong(form: Any, at: str, expected: str) -> FormError:
    """Return the error that a form is not what is expected."""
    shown = repr(form)
    return FormError(f"{at or 'it'} is {shown[:60]}{'…' if len(shown) > 60 else ''}, not {expected}")


def integer(form: Any, at: str) -> None:
    """A whole number of 64 bits."""
    if type(form) is not int or not -(2**63) <= form < 2**63:
        raise wrong(form, at, "a whole number of 64 bits")


def natural(form: Any, at: str) -> None:
    """A number of things."""
    if type(form) is not int or not 0 <= form < 2**63:
        raise wrong(form, at, "a number of 0 or more")


def text(form: Any, at: str) -> None:
    """A text."""
    if type(form) is not str:
        raise wrong(form, at, "a text")
    if not form.isascii():
        try:
            form.encode()
        except UnicodeEncodeError:
            raise wrong(form, at, "a text of Unicode") from None


def truth(form: Any, at: str) -> None:
    """True or false."""
    if type(form) is not bool:
        raise wrong(form, at, "true or false")


def anything(form: Any, at: str) -> None:
    """Whatever it is: another function reads it."""


def one_of(*known: Any) -> Shape:
    """One of these."""

    def check(form: Any, at: str) -> None:
        if isinstance(form, list | dict) or form not in known or type(form) is bool:
            raise wrong(form, at, f"one of {', '.join(map(str, known))}")

    return check


def optional(shape: Shape) -> Shape:
    """Null, or this."""
    return lambda form, at: None if form is None else shape(form, at)


def many(shape: Shape) -> Shape:
    """A list of these."""

    def check(form: Any, at: str) -> None:
        if type(form) is not list:
            raise wrong(form, at, "a list")
        for place, each in enumerate(form):
            shape(each, f"{at}[{place}]")

    return check


def row(*shapes: Shape) -> Shape:
    """A list of these, in this order."""

    def check(form: Any, at: str) -> None:
        if type(form) is not list or len(form) != len(shapes):
            raise wrong(form, at, f"a list of {len(shapes)}")
        for place, (shape, each) in enumerate(zip(shapes, form, strict=True)):
            shape(each, f"{at}[{place}]")

    return check


def named(shape: Shape) -> Shape:
    """An object of these under any names."""

    def check(form: Any, at: str) -> None:
        if type(form) is not dict:
            raise wrong(form, at, "an object")
        for name, each in form.items():
            text(name, f"a name in {at}")
            shape(each, f"{at}.{name}")

    return check


def some_of(shapes: dict[str, Shape]) -> Shape:
    """An object with some of these, and nothing else."""

    def check(form: Any, at: str) -> None:
        named(anything)(form, at)
        for name, each in form.items():
            if name not in shapes:
                raise FormError(f"{at} has `{name}`, which there is not")
            shapes[name](each, f"{at}.{name}")

    return check


def fields(required: dict[str, Shape], others: dict[str, Shape] | None = None) -> Shape:
    """An object with these, and perhaps with others; more than both does not matter."""

    def check(form: Any, at: str) -> None:
        if type(form) is not dict:
            raise wrong(form, at, "an object")
        for name in required.keys() - form.keys():
            raise FormError(f"{at or 'it'} has no `{name}`")
        for name, shape in {**required, **(others or {})}.items():
            if name in form:
                shape(form[name], f"{at}.{name}" if at else name)

    return check


@contextmanager
def reading(what: str) -> Iterator[None]:
    """Turn whatever goes wrong when a form is read in the block into a `FormError`."""
    try:
        yield
    except FormError:
        raise
    except (ValueError, TypeError, LookupError, AttributeError, ArithmeticError, RecursionError) as error:
        raise FormError(f"{what} cannot be read: {type(error).__name__}: {str(error)[:100]}") from error


def loaded(data: bytes, shape: Shape) -> Any:
    """Return the form that JSON says, of this shape."""
    with reading("the JSON"):
        said = data.decode()
        form = json.loads(said)
        if SURROGATE.search(said):
            json.dumps(form, ensure_ascii=False).encode()  # half a character is no text
        shape(form, "")
    return form
