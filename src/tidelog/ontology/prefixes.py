"""Short prefixes for the names of an ontology, so that its rules can be read."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Final

from tidelog.logic.values import Kind, Value

_NAME: Final = re.compile(r"(.*[/#])[A-Za-z0-9_][A-Za-z0-9_-]*")
_WORD: Final = re.compile(r"[A-Za-z][A-Za-z0-9-]*")
FEWEST: Final = 2  # names that are worth a prefix


def prefixes_of(values: Iterable[Value], known: Mapping[str, str]) -> dict[str, str]:
    """The known prefixes, and others for the namespaces in which several of the values lie.

    >>> from tidelog.logic.values import iri
    >>> prefixes_of([iri("https://example.org/zoo#Cat"), iri("https://example.org/zoo#Dog")], {})
    {'zoo': 'https://example.org/zoo#'}
    """
    found = (_NAME.fullmatch(str(value.content)) for value in values if value.kind is Kind.IRI)
    counted = Counter(match[1] for match in found if match is not None)
    prefixes = dict(known)
    for namespace, count in sorted(counted.items(), key=lambda item: (-item[1], item[0])):
        if count >= FEWEST and namespace not in prefixes.values():
            prefixes[_free(_word(namespace), prefixes)] = namespace
    return prefixes


def _word(namespace: str) -> str:
    """The last word of a namespace that can be a prefix; the ending of a file is none."""
    last = namespace.rstrip("/#").rpartition("/")[2]
    words = _WORD.findall(last.rpartition(".")[0] or last)
    return str(words[-1]).lower() if words else "ns"


def _free(word: str, taken: Mapping[str, str]) -> str:
    number, free = 1, word
    while free in taken:
        number += 1
        free = f"{word}{number}"
    return free
