"""Many values as texts: Arrow's kernels write those of which the dictionary has the text.

IRIs, strings and other literals are most of what RDF is made of; none of these becomes a Python value.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.data.dictionary import Dictionary
from tidelog.engine.columnar.arrow import array_of, mask_of, pool_for_results, taken
from tidelog.io.arrays import flags_of, text_array, text_scalar
from tidelog.io.patterns import NAME
from tidelog.logic.values import XSD, Kind

Ids = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]
Written = tuple[pa.Array, Flags]  # texts, and which of them are right
Writer = Callable[[Dictionary, Ids], Written]

_SPECIAL = r'["\\]'
_BARE = r"^[A-Za-z][!#-;=?-\[\]_a-z~]*$"  # ASCII without white space and what no IRI holds


def many_texts(dictionary: Dictionary, ids: Ids, form: str, write: Callable[[Ids], list[str]]) -> pa.Array:
    """The values of ids as texts; `write` gives those that are not written here."""
    kinds = dictionary.kind[ids]
    parts: list[pa.Array] = []
    places: list[npt.NDArray[np.int64]] = []
    left = np.ones(len(ids), bool)
    for kind, by_arrow in BY_ARROW[form].items():
        own = np.flatnonzero(kinds == kind)
        if len(own):
            texts, right = by_arrow(dictionary, ids[own])
            parts.append(texts if right.all() else texts.filter(mask_of(right)))
            places.append(own[right])
            left[own[right]] = False
    if len(parts) == 1 and not left.any():
        return parts[0]
    parts.append(text_array(write(ids[left])).cast(pa.large_string()))
    places.append(np.flatnonzero(left))
    order = np.empty(len(ids), np.int64)
    order[np.concatenate(places)] = np.arange(len(ids))
    return taken(pa.concat_arrays(parts), order)


def _joined(*parts: pa.Array | str) -> pa.Array:
    """The texts of columns, row by row; a word stands for all rows."""
    columns = [_large(part) if isinstance(part, str) else part for part in parts]
    return pc.binary_join_element_wise(*columns, _large(""), memory_pool=pool_for_results())


@cache
def _large(text: str) -> pa.Scalar:
    return text_scalar(text).cast(pa.large_string())


def _all_right(texts: pa.Array) -> Written:
    return texts, np.ones(len(texts), bool)


def _plain(dictionary: Dictionary, ids: Ids) -> Written:
    return _all_right(dictionary.texts(ids))


def _bracketed(dictionary: Dictionary, ids: Ids) -> Written:
    return _all_right(_joined("<", dictionary.texts(ids), ">"))


def _blank(dictionary: Dictionary, ids: Ids) -> Written:
    return _all_right(_joined("_:", dictionary.texts(ids)))


def _digits(dictionary: Dictionary, ids: Ids) -> Written:
    return _all_right(pc.cast(array_of(dictionary.payload[ids]), pa.large_string()))


def _integers(dictionary: Dictionary, ids: Ids) -> Written:
    digits, right = _digits(dictionary, ids)
    return _joined('"', digits, f'"^^<{XSD}integer>'), right


def _quoted(dictionary: Dictionary, ids: Ids, *end: pa.Array | str) -> Written:
    """Texts between quotes; those that hold something to be escaped are not right."""
    texts = dictionary.texts(ids)
    special = pc.or_(pc.match_substring_regex(texts, _SPECIAL), pc.invert(pc.utf8_is_printable(texts)))
    return _joined('"', texts, '"', *end), ~flags_of(special)


def _with_language(dictionary: Dictionary, ids: Ids) -> Written:
    return _quoted(dictionary, ids, "@", dictionary.texts(dictionary.extra[ids]))


def _with_datatype(dictionary: Dictionary, ids: Ids) -> Written:
    return _quoted(dictionary, ids, "^^<", dictionary.texts(dictionary.extra[ids]), ">")


def _bare(dictionary: Dictionary, ids: Ids) -> Written:
    """Texts that no field takes for anything but a name; others are not right."""
    texts = dictionary.texts(ids)
    return texts, flags_of(pc.match_substring_regex(texts, _BARE))


def _field(dictionary: Dictionary, ids: Ids, *end: pa.Array | str) -> Written:
    return _all_right(_joined('"', dictionary.texts(ids), '"', *end))


def _field_with_language(dictionary: Dictionary, ids: Ids) -> Written:
    return _field(dictionary, ids, "@", dictionary.texts(dictionary.extra[ids]))


def _field_with_datatype(dictionary: Dictionary, ids: Ids) -> Written:
    return _field(dictionary, ids, "^^<", dictionary.texts(dictionary.extra[ids]), ">")


def _json_iri(dictionary: Dictionary, ids: Ids) -> Written:
    """Names in the quotes of JSON, other IRIs as objects; no IRI holds what JSON escapes."""
    texts = dictionary.texts(ids)
    is_name = pc.match_substring_regex(texts, f"^{NAME}$")
    return _all_right(pc.if_else(is_name, _joined('"', texts, '"'), _joined('{"@id": "', texts, '"}')))


def _json_string(dictionary: Dictionary, ids: Ids) -> Written:
    texts, right = _quoted(dictionary, ids)
    return _joined('{"@value": ', texts, "}"), right


BY_ARROW: Mapping[str, Mapping[Kind, Writer]] = {
    "plain": {
        Kind.IRI: _plain,
        Kind.STRING: _plain,
        Kind.LANGUAGE_STRING: _plain,
        Kind.LITERAL: _plain,
        Kind.BLANK: _blank,
        Kind.INTEGER: _digits,
    },
    "field": {
        Kind.IRI: _bare,
        Kind.STRING: _field,
        Kind.LANGUAGE_STRING: _field_with_language,
        Kind.LITERAL: _field_with_datatype,
        Kind.INTEGER: _digits,
    },
    "json": {Kind.IRI: _json_iri, Kind.STRING: _json_string, Kind.INTEGER: _digits},
    "exact": {Kind.STRING: _quoted, Kind.INTEGER: _digits},
    "ntriples": {
        Kind.IRI: _bracketed,
        Kind.BLANK: _blank,
        Kind.STRING: _quoted,
        Kind.INTEGER: _integers,
        Kind.LANGUAGE_STRING: _with_language,
        Kind.LITERAL: _with_datatype,
    },
}
