"""Rows of ids as Arrow columns that read back as the same values, and the way back.

A column whose values are all of one plain kind is stored as what it is: numbers as numbers, strings and IRIs
as their texts. All other columns hold terms of the rule language, written exactly. Texts are stored with
their dictionary, so that a value is decoded and encoded once however often it occurs.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt
import pyarrow as pa

from tidelog.engine.columnar.arrow import array_of, mask_of, numbers_of
from tidelog.engine.columnar.dictionary import Dictionary
from tidelog.engine.columnar.evaluate import ColumnarEngine
from tidelog.engine.columnar.exact import ids_of_terms, terms_of
from tidelog.io.columns import Column
from tidelog.logic.values import ColumnType, Kind
from tidelog.maintenance.maintainer import Rows

Ids = npt.NDArray[np.int32]

_TYPES = {
    Kind.INTEGER: ColumnType.INTEGER,
    Kind.DOUBLE: ColumnType.DOUBLE,
    Kind.BOOLEAN: ColumnType.BOOLEAN,
    Kind.DATE: ColumnType.DATE,
    Kind.STRING: ColumnType.STRING,
    Kind.IRI: ColumnType.IRI,
}
_MOST_DAYS = 1 << 31


def types_of(rows: Rows, dictionary: Dictionary) -> tuple[ColumnType, ...]:
    """The types by which rows, of which there are some, can be stored."""
    return tuple(_type_of(column, dictionary) for column in rows.columns)


def _type_of(ids: Ids, dictionary: Dictionary) -> ColumnType:
    kinds = np.flatnonzero(np.bincount(dictionary.kind[ids], minlength=1)).tolist()
    found = _TYPES.get(Kind(kinds[0]), ColumnType.TERM) if len(kinds) == 1 else ColumnType.TERM
    if found is ColumnType.DATE and np.abs(dictionary.payload[ids]).max() >= _MOST_DAYS:
        return ColumnType.TERM
    return found


def to_table(
    rows: Rows, dictionary: Dictionary, names: Sequence[str], types: Sequence[ColumnType]
) -> pa.Table:
    """The rows as an Arrow table with columns of these types; a relation without columns has `holds`."""
    if not rows.columns:
        return pa.table({"holds": pa.array([True] * rows.count, pa.bool_())})
    arrays = [_to_arrow(*pair, dictionary) for pair in zip(rows.columns, types, strict=True)]
    return pa.Table.from_arrays(arrays, names=list(names))


def _to_arrow(ids: Ids, column_type: ColumnType, dictionary: Dictionary) -> pa.Array:
    match column_type:
        case ColumnType.INTEGER:
            return array_of(dictionary.payload[ids])
        case ColumnType.DOUBLE:
            return array_of(dictionary.payload[ids].view(np.float64))
        case ColumnType.BOOLEAN:
            return mask_of(dictionary.payload[ids].astype(bool))
        case ColumnType.DATE:
            return array_of(dictionary.payload[ids].astype(np.int32)).cast(pa.date32())
    distinct, places = np.unique(ids, return_inverse=True)
    texts = (
        dictionary.texts(distinct) if column_type is not ColumnType.TERM else terms_of(distinct, dictionary)
    )
    return pa.DictionaryArray.from_arrays(array_of(places.astype(np.int32)), texts)


def from_table(table: pa.Table, types: Sequence[ColumnType], engine: ColumnarEngine) -> Rows:
    """The rows of a table that was stored with these types, as ids of an engine."""
    if not types:
        return Rows((), table.num_rows)
    columns = [_ids(column, kind, engine) for column, kind in zip(table.columns, types, strict=True)]
    return Rows(tuple(columns), table.num_rows)


def _ids(column: pa.ChunkedArray, column_type: ColumnType, engine: ColumnarEngine) -> Ids:
    parts = [_chunk_ids(chunk, column_type, engine) for chunk in column.chunks]
    return np.concatenate(parts) if parts else np.zeros(0, np.int32)


def _chunk_ids(chunk: pa.Array, column_type: ColumnType, engine: ColumnarEngine) -> Ids:
    if not pa.types.is_dictionary(chunk.type):
        return engine.encode_column(Column(column_type, chunk))
    if column_type is ColumnType.TERM:
        known = ids_of_terms(chunk.dictionary, engine.dictionary)
    else:
        known = engine.encode_column(Column(column_type, chunk.dictionary))
    taken: Ids = known[numbers_of(chunk.indices.cast(pa.int32()), "int32")]
    return taken


def kinds_fit(rows: Rows, types: Sequence[ColumnType], dictionary: Dictionary) -> bool:
    """Whether rows can be stored in columns of these types."""
    if not rows.count:
        return True
    found = types_of(rows, dictionary)
    return all(wanted in (ColumnType.TERM, own) for wanted, own in zip(types, found, strict=True))


def is_text(column_type: ColumnType) -> bool:
    """Whether a column of the type is stored as texts with their dictionary."""
    return column_type in (ColumnType.STRING, ColumnType.IRI, ColumnType.TERM)
