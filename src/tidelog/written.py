"""Relations as the formats of files hold them, so that every value can be read again."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

import pyarrow as pa

from tidelog.data.dictionary import Dictionary
from tidelog.data.relation import Ids, Relation
from tidelog.data.typed_columns import check, to_readable, to_typed, with_mixed
from tidelog.engine.columnar import decode
from tidelog.io.formats import DELIMITED, JSON, RDF, canonical_format
from tidelog.io.marks import JSON as JSON_TEXT
from tidelog.io.marks import marked
from tidelog.logic.type_inference import Schema
from tidelog.logic.types import Contents, Type, types_of_column
from tidelog.logic.values import ColumnType

# Types of columns whose values are JSON; those of all others are text.
_IN_JSON: Final = frozenset(
    {ColumnType.ANY, ColumnType.INTEGER, ColumnType.DECIMAL, ColumnType.DOUBLE, ColumnType.BOOLEAN}
)


def file_table(
    relation: Relation,
    format_name: str,
    terms: str | None = None,
    types: Sequence[ColumnType] = (),
    mixed: str = "text",
) -> pa.Table:
    """The rows of a relation as `io.write` takes them for a format.

    `terms` is `plain` for text alone, `exact` for terms of the rule language, or None: each value is read
    again as what it was, in a column of its type; `types` are those of the columns, by default any. With
    `mixed="struct"`, columns of several types are structs where the format has columns of types.
    """
    name = canonical_format(format_name)
    if name in RDF:
        return relation.to_texts("ntriples").table
    schema = _schema(relation, types)
    if name not in DELIMITED | JSON:
        schema = with_mixed(schema, mixed)
    if terms == "plain" and name not in DELIMITED:
        return relation.table_of(relation.typed(to_typed, schema))
    if terms is None and name not in DELIMITED | JSON:
        return _typed(relation, schema)
    relation.typed(check, schema)
    if terms is not None:
        return relation.to_texts(terms).table
    return _fields(relation, types) if name in DELIMITED else _json(relation, types)


def _schema(relation: Relation, types: Sequence[ColumnType]) -> Schema:
    """What the columns hold: values of the given types, else what is declared or inferred."""
    asked = (*types, *(ColumnType.ANY for _ in relation.contents[len(types) :]))
    found = []
    for contents, kind in zip(relation.contents, asked, strict=False):
        declared = types_of_column(kind)
        is_known = kind is ColumnType.ANY or declared == contents.types - {Type.LITERAL}
        found.append(contents if is_known else Contents(declared, kind.size))
    return tuple(found)


def _fields(relation: Relation, types: Sequence[ColumnType]) -> pa.Table:
    """The rows as texts: fields as Nemo has them, or plain where a type says the rest."""
    table = relation.to_texts("field").table
    for place, column_type in enumerate(types):
        if column_type is not ColumnType.ANY:
            column = relation.to_texts(_form(column_type)).table.column(place)
            table = table.set_column(place, table.column_names[place], column)
    return table


def _form(column_type: ColumnType) -> str:
    return "exact" if column_type is ColumnType.TERM else "plain"


def _json(relation: Relation, types: Sequence[ColumnType]) -> pa.Table:
    """The rows with their values as JSON, or as text where a type says the rest."""
    columns = relation.each(lambda place, *ids: _json_column(_type(types, place), *ids))
    return marked(relation.table_of([column for column, _ in columns]), [mark for _, mark in columns])


def _json_column(column_type: ColumnType, dictionary: Dictionary, ids: Ids) -> tuple[pa.Array, str]:
    if column_type.base in _IN_JSON:
        return decode.to_texts(dictionary, ids, "json"), JSON_TEXT
    return decode.to_texts(dictionary, ids, _form(column_type)), ""


def _typed(relation: Relation, schema: Schema) -> pa.Table:
    """The rows in columns of Arrow's types, those of text with marks that say how it is meant."""
    columns = relation.typed(to_readable, schema)
    marks = ["" if read_as is None else read_as.value for _, read_as in columns]
    return marked(relation.table_of([column for column, _ in columns]), marks)


def _type(types: Sequence[ColumnType], place: int) -> ColumnType:
    return types[place] if place < len(types) else ColumnType.ANY
