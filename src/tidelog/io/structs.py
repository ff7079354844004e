"""Structs that hold values of several types: a nullable field for each, of which exactly one has a value.

Fields are named after types, such as `int`, `string` and `iri`, and of Arrow's type for them; those of
`langString` and `literal` are exact terms, as text.
"""

from __future__ import annotations

from typing import Any, Final

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from tidelog.io.arrays import Array
from tidelog.logic.types import Type
from tidelog.logic.values import ColumnType

MISSING, SEVERAL = -1, -2  # instead of the number of a field
_IS_TEXT: Final = (pa.types.is_string, pa.types.is_large_string, pa.types.is_string_view)
_FIELDS: Final = {
    Type.BOOLEAN: (pa.types.is_boolean,),
    Type.INTEGER: (pa.types.is_integer,),
    Type.DECIMAL: (pa.types.is_decimal,),
    Type.DOUBLE: (pa.types.is_floating,),
    Type.DATE: (pa.types.is_date,),
    Type.DATETIME: (lambda of: pa.types.is_timestamp(of) and of.tz is not None,),
    Type.LOCAL_DATETIME: (lambda of: pa.types.is_timestamp(of) and of.tz is None,),
    Type.STRING: _IS_TEXT,
    Type.LANGUAGE_STRING: _IS_TEXT,
    Type.LITERAL: _IS_TEXT,
    Type.IRI: _IS_TEXT,
}
_NAMES: Final = {one.value: one for one in _FIELDS}
# How the texts of fields are read.
MARKS: Final = {
    Type.STRING: ColumnType.STRING,
    Type.LANGUAGE_STRING: ColumnType.TERM,
    Type.LITERAL: ColumnType.TERM,
    Type.IRI: ColumnType.IRI,
}


def fields_of(of: Any) -> tuple[Type, ...] | None:
    """Return the types that the fields of an Arrow type hold; None if it is no such struct."""
    if not pa.types.is_struct(of) or of.num_fields < 2:
        return None
    found = []
    for field in of:
        one = _NAMES.get(field.name)
        if one is None or one in found or not any(test(field.type) for test in _FIELDS[one]):
            return None
        found.append(one)
    return tuple(found)


def chosen_fields(array: Array) -> Any:
    """Return which field of each struct has its value, `MISSING` or `SEVERAL`."""
    children = array.flatten()  # with what is missing in the structs themselves
    valid = np.stack([pc.is_valid(child).to_numpy(zero_copy_only=False) for child in children])
    counts = valid.sum(axis=0)
    chosen = np.where(counts == 1, valid.argmax(axis=0), SEVERAL)
    return np.where(counts == 0, MISSING, chosen)
