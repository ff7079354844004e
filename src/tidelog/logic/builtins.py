"""The built-in functions and aggregates of the language, by name.

A function without a value gives None, and the literal that asks for it fails; arithmetic that leaves 64 bits
raises `Overflow`. Names are found in whatever case, as in Nemo and SPARQL; the casts also by the IRIs of
their datatypes. docs/language.md lists all of them, and where they differ from Nemo and SPARQL.
"""

from __future__ import annotations

from tidelog.logic.functions import conditions, dates, kinds, numbers, strings
from tidelog.logic.functions.aggregates import AGGREGATES
from tidelog.logic.functions.function import ALIASES, REGISTRY, Function, Overflow
from tidelog.logic.values import XSD

__all__ = ["AGGREGATES", "AREAS", "FUNCTIONS", "Function", "Overflow", "lookup"]

AREAS = (numbers, conditions, strings, kinds, dates)  # each registers its functions when it is imported
FUNCTIONS: dict[str, Function] = REGISTRY

_CASTS = {
    "integer": "INT",
    "int": "INT",
    "long": "INT",
    "decimal": "DECIMAL",
    "double": "DOUBLE",
    "float": "DOUBLE",
    "string": "STR",
    "boolean": "BOOLEAN",
    "date": "DATE",
    "dateTime": "DATETIME",
}


def lookup(name: str) -> Function | None:
    """The function of this name, in whatever case, or the cast to the datatype of this IRI.

    >>> lookup("strlen").signature
    'STRLEN(text)'
    >>> lookup("http://www.w3.org/2001/XMLSchema#integer").name
    'INT'
    """
    if name.startswith(XSD):
        name = _CASTS.get(name[len(XSD) :], "")
    upper = name.upper()
    return FUNCTIONS.get(ALIASES.get(upper, upper))
