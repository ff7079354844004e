"""From ids back to values: texts, Python objects, and the order of values."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.data.dictionary import TEXT_KINDS, Dictionary
from tidelog.engine.columnar.arrow import array_of, numbers_of, taken
from tidelog.engine.columnar.many_texts import many_texts
from tidelog.io.arrays import text_array
from tidelog.logic import json_terms, terms
from tidelog.logic.python import to_python
from tidelog.logic.values import Kind, Value, order_key

Ids = npt.NDArray[np.int32]

MANY = 64  # values for which Arrow's kernels are worth calling
TEXT_FORMS: dict[str, Callable[[Value], str]] = {
    "plain": terms.plain,
    "field": terms.field,
    "exact": terms.exact,
    "ntriples": terms.ntriples,
    "json": json_terms.write_json,
}
NUMBERS = (Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE, Kind.BIG)


def without_repeats(ids: Ids) -> tuple[Ids, npt.NDArray[np.int64]]:
    """The distinct ids in ascending order, and the place of each given id among them."""
    if not len(ids):
        return ids, np.zeros(0, np.int64)
    seen = np.zeros(int(ids.max()) + 1, bool)
    seen[ids] = True
    distinct = np.flatnonzero(seen).astype(np.int32)
    places = np.cumsum(seen, dtype=np.int64) - 1
    return distinct, places[ids]


def to_texts(dictionary: Dictionary, ids: Ids, form: str) -> pa.Array:
    """The values as texts: `plain`, `field`, `exact`, `ntriples` or `json`."""
    distinct, places = without_repeats(ids)
    return taken(_distinct_texts(dictionary, distinct, form), places)


def _distinct_texts(dictionary: Dictionary, ids: Ids, form: str) -> pa.Array:
    kinds = dictionary.kind[ids]
    if form == "plain":
        if np.isin(kinds, (Kind.STRING, Kind.IRI, Kind.LANGUAGE_STRING, Kind.LITERAL)).all():
            return dictionary.texts(ids)
        if (kinds == Kind.INTEGER).all():
            return pc.cast(array_of(dictionary.payload[ids]), pa.large_string())
    if len(ids) >= MANY:
        return many_texts(dictionary, ids, form, lambda some: _written(dictionary, some, form))
    return text_array(_written(dictionary, ids, form)).cast(pa.large_string())


def _written(dictionary: Dictionary, ids: Ids, form: str) -> list[str]:
    write = TEXT_FORMS[form]
    return [write(value) for value in dictionary.decode_all(ids.tolist())]


def to_objects(dictionary: Dictionary, ids: Ids) -> list[Any]:
    """The values as Python objects."""
    distinct, places = without_repeats(ids)
    objects = [to_python(value) for value in dictionary.decode_all(distinct.tolist())]
    return [objects[place] for place in places.tolist()]


def order(dictionary: Dictionary, columns: tuple[Ids, ...], rows: int) -> npt.NDArray[np.int64]:
    """The places of the rows in the total order of values, first column first."""
    if not columns or not rows:
        return np.arange(rows)
    distinct, _ = without_repeats(np.concatenate(columns))
    ranks = np.zeros(int(distinct[-1]) + 1, np.int64)
    ranks[_sorted(dictionary, distinct)] = np.arange(len(distinct))
    return np.lexsort([ranks[column] for column in reversed(columns)])


def _sorted(dictionary: Dictionary, ids: Ids) -> Ids:
    """Ids in the order of their values; kinds follow each other, and all numbers are one kind there."""
    kinds = dictionary.kind[ids]
    numbers = np.isin(kinds, NUMBERS)
    parts = [ids[kinds == Kind.BOOLEAN], _sorted_kind(dictionary, ids[numbers])]
    parts[0] = _sorted_kind(dictionary, parts[0])
    for kind in range(Kind.DATE, Kind.BLANK + 1):
        parts.append(_sorted_kind(dictionary, ids[kinds == kind]))
    return np.concatenate(parts)


def _sorted_kind(dictionary: Dictionary, ids: Ids) -> Ids:
    if len(ids) < 2:
        return ids
    kinds = dictionary.kind[ids]
    first = Kind(int(kinds[0]))
    if (kinds == first).all():
        if first in (Kind.INTEGER, Kind.BOOLEAN, Kind.DATE):
            return ids[np.argsort(dictionary.payload[ids], kind="stable")]
        if first in TEXT_KINDS and first in (Kind.STRING, Kind.IRI, Kind.BLANK):
            places = numbers_of(pc.sort_indices(dictionary.texts(ids)), "uint64").astype(np.int64)
            return np.take(ids, places)
    values = dictionary.decode_all(ids.tolist())
    by_value = sorted(range(len(values)), key=lambda place: order_key(values[place]))
    return np.take(ids, np.array(by_value, np.int64))
