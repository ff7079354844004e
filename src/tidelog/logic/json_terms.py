"""Values as JSON: numbers, Booleans and names as JSON has them, all else as an object of JSON-LD.

| value                             | is written as                                                         |
|-----------------------------------|-----------------------------------------------------------------------|
| integer, decimal, Boolean         | `12`, `1.50` with a point, `true`                                     |
| double                            | a number with an exponent, `1.5E3`; infinity as a literal             |
| name                              | text: `"alice"`                                                       |
| IRI of another form, blank node   | `{"@id": "http://x/y"}`, `{"@id": "_:b"}`                             |
| string                            | `{"@value": "Alice Smith"}`                                           |
| with a language                   | `{"@value": "chat", "@language": "fr"}`                               |
| other literals                    | `{"@value": "2020-12-31", "@type": "http://…#date"}`                  |

How a value is written depends on its kind, not on what stands beside it. Text alone is read as it is in the
JSON of others, a name if it has the form of one, else a string; so strings need a form of their own.
"""

from __future__ import annotations

import json
import math
from collections.abc import Mapping
from typing import Any

from tidelog.logic import terms, values
from tidelog.logic.values import Kind, Value

_NATIVE = frozenset({Kind.BOOLEAN, Kind.INTEGER, Kind.DECIMAL, Kind.BIG, Kind.DOUBLE})


def write_json(value: Value) -> str:
    """The value as JSON.

    >>> print(write_json(values.string("alice")), write_json(values.iri("alice")))
    {"@value": "alice"} "alice"
    """
    match value.kind:
        case Kind.DOUBLE if math.isinf(value.content):  # type: ignore[arg-type]
            pass
        case kind if kind in _NATIVE:
            return terms.exact(value)
        case Kind.IRI if terms.NAME.fullmatch(str(value.content)):
            return json.dumps(value.content)
        case Kind.IRI | Kind.BLANK:
            return _object({"@id": terms.plain(value)})
        case Kind.STRING:
            return _object({"@value": value.content})
        case Kind.LANGUAGE_STRING:
            return _object({"@value": value.content, "@language": value.extra})
    return _object({"@value": terms.plain(value), "@type": terms.datatype(value)})


def _object(parts: Mapping[str, object]) -> str:
    return json.dumps(parts, ensure_ascii=False)


def read_object(parts: Mapping[str, Any]) -> Value | None:
    """The value of an object, None if it is none of JSON-LD; raises ValueError with the reason.

    >>> read_object({"@id": "http://x/y"})
    Value(kind=<Kind.IRI: 11>, content='http://x/y', extra=None)
    """
    keys = set(parts)
    if keys not in ({"@id"}, {"@value"}, {"@value", "@language"}, {"@value", "@type"}):
        return None
    for key, text in parts.items():
        try:
            text.encode()
        except AttributeError:
            raise ValueError(f"`{key}` is not text") from None
        except UnicodeEncodeError:
            raise ValueError(f"`{key}` has half of a surrogate pair") from None
    if "@id" in keys:
        return values.iri(parts["@id"])
    if "@language" in keys:
        return values.language_string(parts["@value"], parts["@language"])
    return values.literal(parts["@value"], parts.get("@type", values.XSD + "string"))
