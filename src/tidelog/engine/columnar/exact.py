"""Columns as exact terms, the form in which facts leave the process: equal values have equal texts.

Arrow's kernels do the plain ones, many at once; what they cannot do for certain is read and written by
`logic.terms`, each distinct text once.
"""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import numpy.typing as npt
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.data.dictionary import Dictionary
from tidelog.engine.columnar.arrow import array_of, mask_of, numbers_of
from tidelog.engine.columnar.decode import to_texts
from tidelog.io.arrays import flags_of, joined, text_array
from tidelog.io.columns import Column
from tidelog.logic.terms import exact, read_any, read_exact
from tidelog.logic.values import ColumnType, Kind, string

Ids = npt.NDArray[np.int32]
Flags = npt.NDArray[np.bool_]

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
    if write is None:
        from tidelog.engine.columnar.storage.catalog import ColumnarEngine

        engine = ColumnarEngine(1)
        ids, places = np.unique(engine.encode_column(column), return_inverse=True)
        return terms_of(ids, engine.dictionary).cast(pa.string()), array_of(places.astype(np.int64))
    if pa.types.is_dictionary(values.type):
        return write(_plain(values.dictionary)), values.indices
    coded = _plain(values).dictionary_encode()
    return write(coded.dictionary), coded.indices


def _plain(values: pa.Array) -> pa.Array:
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
    quoted = joined('"', texts, '"')
    return quoted if plain.all() else _replaced(quoted, texts, ~plain, lambda text: exact(string(text)))


def _of_iris(texts: pa.Array) -> pa.Array:
    return pc.if_else(mask_of(_is_bare(texts)), texts, joined("<", texts, ">"))


def _rewritten(texts: pa.Array, plain: Flags, write: Callable[[str], str]) -> pa.Array:
    """The texts, those that are not plain written anew."""
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

    def take(where: Flags, write: Callable[[Ids], pa.Array]) -> None:
        if where.any():
            parts.append(write(ids[where]).cast(pa.large_string()))
            places.append(np.flatnonzero(where))

    is_iri, is_integer, is_string = (kinds == kind for kind in (Kind.IRI, Kind.INTEGER, Kind.STRING))
    take(is_iri, lambda some: _of_iris(dictionary.texts(some).cast(pa.string())))
    take(is_integer, lambda some: array_of(dictionary.payload[some]).cast(pa.string()))
    take(is_string, lambda some: _of_strings(dictionary.texts(some).cast(pa.string())))
    take(~(is_iri | is_integer | is_string), lambda some: to_texts(dictionary, some, "exact"))
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
