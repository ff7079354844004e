"""From ids back to values: texts, exact terms, Python objects, and the order of values."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import cache
from typing import Any

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.data.arrow import (
    array_of,
    flags_of,
    is_text,
    join_texts,
    mask_of,
    numbers_of,
    pc,
    pool_for_results,
    sorted_places,
    take,
    text_array,
    text_scalar,
)
from tidelog.data.columns import Column
from tidelog.data.dictionary import TEXT_KINDS, Dictionary
from tidelog.data.rows import Ids
from tidelog.data.text_kernels import NAME, NO_TIME_ZONE
from tidelog.logic import conversions, lexical_forms
from tidelog.logic import conversions as terms
from tidelog.logic.conversions import exact, read_any, read_exact, to_python
from tidelog.logic.lexical_forms import write_offset
from tidelog.logic.values import XSD, ColumnType, Kind, Value, order_key, string

# ---- many values as texts
#
# These are IRIs, strings and other literals, most of RDF; none of them becomes a Python value.

Flags = npt.NDArray[np.bool_]
Written = tuple[pa.Array, Flags]  # texts, and which of them are right
Writer = Callable[[Dictionary, Ids], Written]

_SPECIAL = r'["\\]'
_POSITIONAL = r"^-?(?:0|[1-9][0-9]{0,14})(?:\.[0-9]{1,17})?$"
FIRST_DAY, LAST_DAY, DAY = -700_000, 2_900_000, 86_400_000_000  # years of four digits; microseconds
MOST_SCALE, LEAST = 18, -(2**63)  # of decimals whose digits NumPy divides
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
    return take(pa.concat_arrays(parts), order)


def _joined(*parts: pa.Array | str) -> pa.Array:
    """The texts of columns, row by row; a plain text is repeated in each row."""
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


def _decimals(dictionary: Dictionary, ids: Ids, whole_end: str = "") -> Written:
    """Decimals with as many digits behind the point as they have, and an end for those that have none."""
    numbers, scales = dictionary.payload[ids], dictionary.extra[ids]
    are_right = (scales <= MOST_SCALE) & (numbers != LEAST)
    parts, places = [], []
    for scale in np.flatnonzero(np.bincount(scales[are_right])).tolist():
        own = np.flatnonzero(are_right & (scales == scale))
        whole, rest = np.divmod(np.abs(numbers[own]), 10**scale)
        sign = pc.if_else(mask_of(numbers[own] < 0), _large("-"), _large(""))
        ends = whole_end
        if scale:
            digits = pc.cast(array_of(rest), pa.large_string())
            ends = _joined(".", pc.utf8_lpad(digits, scale, "0"))
        parts.append(_joined(sign, pc.cast(array_of(whole), pa.large_string()), ends))
        places.append(own)
    texts = pa.concat_arrays(parts) if parts else pa.array([], pa.large_string())
    order = np.zeros(len(ids), np.int64)
    order[np.concatenate([*places, np.zeros(0, np.int64)])] = np.arange(len(texts))
    return take(texts, order) if len(texts) else pa.array([""] * len(ids), pa.large_string()), are_right


def _decimal_fields(dictionary: Dictionary, ids: Ids) -> Written:
    return _decimals(dictionary, ids, ".0")


def _doubles(dictionary: Dictionary, ids: Ids) -> Written:
    """Doubles that are written without an exponent, as Arrow writes them."""
    texts = pc.cast(array_of(dictionary.payload[ids].view(np.float64)), pa.large_string())
    return texts, flags_of(pc.match_substring_regex(texts, _POSITIONAL))


def _dates(dictionary: Dictionary, ids: Ids) -> Written:
    """Dates of the years that Arrow writes as the definition does."""
    days = dictionary.payload[ids]
    are_right = (days >= FIRST_DAY) & (days <= LAST_DAY)
    dates = array_of(np.where(are_right, days, 0).astype(np.int32)).cast(pa.date32())
    return pc.cast(dates, pa.large_string()), are_right


def _date_times(dictionary: Dictionary, ids: Ids) -> Written:
    """DateTimes of these years, in their own time zones, with as many digits of a second as they have."""
    zones = dictionary.extra[ids]
    offsets = np.where(zones == NO_TIME_ZONE, 0, zones).astype(np.int64) * 60_000_000
    moments = dictionary.payload[ids]
    are_right = (moments > FIRST_DAY * DAY) & (moments < LAST_DAY * DAY)
    seconds, fractions = np.divmod(np.where(are_right, moments, 0) + offsets, 1_000_000)
    clock = pc.cast(array_of(seconds).cast(pa.timestamp("s")), pa.large_string())
    digits = pc.utf8_lpad(pc.cast(array_of(fractions), pa.large_string()), 6, "0")
    fraction = pc.if_else(mask_of(fractions == 0), _large(""), _joined(".", pc.utf8_rtrim(digits, "0")))
    distinct, places = np.unique(zones, return_inverse=True)
    ends = [write_offset(None if zone == NO_TIME_ZONE else zone) for zone in distinct.tolist()]
    suffixes = take(text_array(ends).cast(pa.large_string()), places.astype(np.int64))
    return _joined(pc.replace_substring(clock, " ", "T"), fraction, suffixes), are_right


def _integers(dictionary: Dictionary, ids: Ids) -> Written:
    digits, right = _digits(dictionary, ids)
    return _joined('"', digits, f'"^^<{XSD}integer>'), right


def _quoted(dictionary: Dictionary, ids: Ids, *end: pa.Array | str) -> Written:
    """Texts between quotes; those that hold something to be escaped are not right."""
    texts = dictionary.texts(ids)
    special = flags_of(pc.match_substring_regex(texts, _SPECIAL)) | _are_unprintable(texts)
    return _joined('"', texts, '"', *end), ~special


def _are_unprintable(texts: pa.Array) -> Flags:
    """Return which texts hold a character that Python does not print; Arrow knows another Unicode."""
    are_ascii = pc.string_is_ascii(texts)
    characters = set().union(*texts.filter(pc.invert(are_ascii)).to_pylist())
    unprintable = [f"\\x{{{ord(each):x}}}" for each in characters if each > "\x7f" and not each.isprintable()]
    are_found: Flags = flags_of(pc.match_substring_regex(texts, f"[\\x00-\\x1f\\x7f{''.join(unprintable)}]"))
    return are_found


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
        Kind.DECIMAL: _decimals,
        Kind.DOUBLE: _doubles,
        Kind.DATE: _dates,
        Kind.DATETIME: _date_times,
    },
    "field": {
        Kind.IRI: _bare,
        Kind.STRING: _field,
        Kind.LANGUAGE_STRING: _field_with_language,
        Kind.LITERAL: _field_with_datatype,
        Kind.INTEGER: _digits,
        Kind.DECIMAL: _decimal_fields,
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


# ---- from ids back to values

MANY = 64  # values for which Arrow's kernels are worth calling
TEXT_FORMS: dict[str, Callable[[Value], str]] = {
    "plain": terms.plain,
    "field": terms.field,
    "exact": terms.exact,
    "ntriples": terms.ntriples,
    "json": conversions.write_json,
}
NUMBERS = (Kind.INTEGER, Kind.DECIMAL, Kind.DOUBLE, Kind.BIG)
SAFE, EXACT = 2.0**62, 2.0**53 - 1


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
    return take(_distinct_texts(dictionary, distinct, form), places)


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
        if first is Kind.DOUBLE:
            return ids[np.argsort(dictionary.payload[ids].view(np.float64), kind="stable")]
        if first is Kind.DATETIME:
            zones = dictionary.extra[ids]
            zones = np.where(zones == NO_TIME_ZONE, np.int32(lexical_forms.INVALID), zones)
            return ids[np.lexsort((zones, dictionary.payload[ids]))]
        if first in TEXT_KINDS and first in (Kind.STRING, Kind.IRI, Kind.BLANK):
            places = sorted_places(dictionary.texts(ids))
            return np.take(ids, places)
    if np.isin(kinds, (Kind.INTEGER, Kind.DECIMAL)).all():
        scales = np.where(kinds == Kind.DECIMAL, dictionary.extra[ids], 0)
        powers = 10.0 ** (scales.max() - scales)
        if scales.max() <= MOST_SCALE and (np.abs(dictionary.payload[ids] * powers) < SAFE).all():
            return ids[np.lexsort((kinds, dictionary.payload[ids] * powers.astype(np.int64)))]
    if np.isin(kinds, (Kind.INTEGER, Kind.DOUBLE)).all():
        payloads = dictionary.payload[ids]
        are_whole = kinds == Kind.INTEGER
        if not are_whole.any() or np.abs(payloads[are_whole].astype(np.float64)).max() <= EXACT:
            return ids[np.lexsort((kinds, np.where(are_whole, payloads, payloads.view(np.float64))))]
    values = dictionary.decode_all(ids.tolist())
    by_value = sorted(range(len(values)), key=lambda place: order_key(values[place]))
    return np.take(ids, np.array(by_value, np.int64))


# ---- columns as exact terms
#
# Arrow's kernels do the plain ones, many at once; what they cannot do for certain is read and written by
# `logic.conversions`, each distinct text once.

_PLAIN = r"^[ !#-\[\]-~]*$"  # texts without characters that would be escaped, as far as ASCII goes
_NAME = r"^[A-Za-z_][A-Za-z0-9_-]*$"
_OTHER_TOKEN = r"^(?:_|true|false|inf)(?:[^A-Za-z0-9_]|$)"
_WHOLE = r"^(?:0|-?[1-9][0-9]{0,17})$"
_BRACKETED = r"^<[!#-;=?-\[\]_a-z~]*>$"
_BLANK = r"^<_:"  # a blank node is written so
_QUOTED = r'^"[ !#-\[\]-~]*"$'


def exact_array(column: Column) -> pa.Array:
    """The values of a column as exact terms."""
    terms, places = coded_terms(column)
    return terms.take(places)


def coded_terms(column: Column) -> tuple[pa.Array, pa.Array]:
    """The exact terms in a column, most of them once, and the place of each value's among them."""
    values = column.values.combine_chunks() if isinstance(column.values, pa.ChunkedArray) else column.values
    write = _WRITERS.get(column.type)
    if column.type is ColumnType.ANY:
        write = _of_fields if column.parse_numbers else _of_names
    if write is None or (column.type is ColumnType.INTEGER and is_text(values.type)):
        dictionary = Dictionary()
        ids, places = np.unique(dictionary.encode_column(column), return_inverse=True)
        return terms_of(ids, dictionary).cast(pa.string()), array_of(places.astype(np.int64))
    if pa.types.is_dictionary(values.type):
        return write(_plain_array(values.dictionary)), values.indices
    coded = _plain_array(values).dictionary_encode()
    return write(coded.dictionary), coded.indices


def _plain_array(values: pa.Array) -> pa.Array:
    is_long = pa.types.is_string_view(values.type) or pa.types.is_large_string(values.type)
    return values.cast(pa.string()) if is_long else values


def _matching(texts: pa.Array, pattern: str) -> Flags:
    if not len(texts):
        return np.zeros(0, bool)
    found: Flags = flags_of(pc.match_substring_regex(texts, pattern))
    return found


def _is_bare(texts: pa.Array) -> Flags:
    """Which texts of IRIs are written without brackets."""
    return _matching(texts, _NAME) & ~_matching(texts, _OTHER_TOKEN)


def _of_terms(texts: pa.Array) -> pa.Array:
    """Terms of N-Triples, or terms written exactly, as exact terms."""
    plain = _matching(texts, _WHOLE) | _matching(texts, _QUOTED)
    bracketed = _matching(texts, _BRACKETED)
    if bracketed.any():
        inner = pc.utf8_slice_codeunits(texts, 1, -1)
        plain |= bracketed & ~_matching(inner, _NAME)
    return _rewritten(texts, plain, lambda text: exact(read_exact(text)))


def _of_fields(texts: pa.Array) -> pa.Array:
    """Fields of a column without a type, each the term it looks like."""
    return _rewritten(texts, _is_bare(texts) | _matching(texts, _WHOLE), lambda text: exact(read_any(text)))


def _of_names(texts: pa.Array) -> pa.Array:
    """Texts that are names if they have the form of one, else strings."""
    named = _matching(texts, _NAME)
    iris = _of_iris(texts.filter(mask_of(named)))
    strings = _of_strings(texts.filter(mask_of(~named)))
    order = np.empty(len(texts), np.int64)
    order[named] = np.arange(len(iris))
    order[~named] = len(iris) + np.arange(len(strings))
    return pa.concat_arrays([iris, strings]).take(array_of(order))


def _of_strings(texts: pa.Array) -> pa.Array:
    plain = _matching(texts, _PLAIN)
    quoted = join_texts('"', texts, '"')
    return quoted if plain.all() else _replaced(quoted, texts, ~plain, lambda text: exact(string(text)))


def _of_iris(texts: pa.Array) -> pa.Array:
    return pc.if_else(mask_of(_is_bare(texts)), texts, join_texts("<", texts, ">"))


def _rewritten(texts: pa.Array, plain: Flags, write: Callable[[str], str]) -> pa.Array:
    """The texts, those that are not plain rewritten."""
    return texts if plain.all() else _replaced(texts, texts, ~plain, write)


def _replaced(base: pa.Array, texts: pa.Array, where: Flags, write: Callable[[str], str]) -> pa.Array:
    chosen = mask_of(where)
    written = [write(text) for text in texts.filter(chosen).to_pylist()]
    return pc.replace_with_mask(base, chosen, text_array(written))


_WRITERS: dict[ColumnType, Callable[[pa.Array], pa.Array]] = {
    ColumnType.INTEGER: lambda numbers: numbers.cast(pa.string()),
    ColumnType.TERM: _of_terms,
    ColumnType.STRING: _of_strings,
    ColumnType.IRI: _of_iris,
}


# ---- ids


def terms_of(ids: Ids, dictionary: Dictionary) -> pa.Array:
    """The values of ids as exact terms, as large strings."""
    kinds = dictionary.kind[ids]
    parts: list[pa.Array] = []
    places: list[npt.NDArray[np.int64]] = []

    def add(where: Flags, write: Callable[[Ids], pa.Array]) -> None:
        if where.any():
            parts.append(write(ids[where]).cast(pa.large_string()))
            places.append(np.flatnonzero(where))

    is_iri, is_integer, is_string = (kinds == kind for kind in (Kind.IRI, Kind.INTEGER, Kind.STRING))
    add(is_iri, lambda some: _of_iris(dictionary.texts(some).cast(pa.string())))
    add(is_integer, lambda some: array_of(dictionary.payload[some]).cast(pa.string()))
    add(is_string, lambda some: _of_strings(dictionary.texts(some).cast(pa.string())))
    add(~(is_iri | is_integer | is_string), lambda some: to_texts(dictionary, some, "exact"))
    if not parts:
        return pa.array([], pa.large_string())
    order = np.empty(len(ids), np.int64)
    order[np.concatenate(places)] = np.arange(len(ids))
    return pa.concat_arrays(parts).take(array_of(order))


def ids_of_terms(texts: pa.Array, dictionary: Dictionary) -> Ids:
    """The ids of exact terms, distinct ones best; those of plain forms are entered many at once."""
    if not pa.types.is_string(texts.type):
        texts = texts.cast(pa.string())
    ids = np.empty(len(texts), np.int32)
    bare, whole = _is_bare(texts), _matching(texts, _WHOLE)
    bracketed = _matching(texts, _BRACKETED) & ~_matching(texts, _BLANK)
    quoted = _matching(texts, _QUOTED)
    if bare.any():
        ids[bare] = dictionary.encode_texts(Kind.IRI, texts.filter(mask_of(bare)))
    if whole.any():
        numbers = texts.filter(mask_of(whole)).cast(pa.int64())
        ids[whole] = dictionary.encode_numbers(Kind.INTEGER, numbers_of(numbers, "int64"))
    for where, kind in ((bracketed, Kind.IRI), (quoted, Kind.STRING)):
        if where.any():
            inner = pc.utf8_slice_codeunits(texts.filter(mask_of(where)), 1, -1)
            ids[where] = dictionary.encode_texts(kind, inner)
    rest = ~(bare | whole | bracketed | quoted)
    if rest.any():
        ids[rest] = dictionary.encode_terms(texts.filter(mask_of(rest)))
    return ids
