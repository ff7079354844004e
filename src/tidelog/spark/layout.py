"""Which columns of `derived.facts` are whose, as metadata of the frame: who writes it needs nothing else.

Metadata of a column stays with it through filters, exchanges and Spark's own files. It lies with the column
that says of which predicate a row is, and is read only where all other columns are there, too, as they were.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from pyspark.sql import types as spark_types

from tidelog.spark.frames import PREDICATE

if TYPE_CHECKING:
    from tidelog.spark.schemas import Output

KEY: Final = "tidelog.layout"


@dataclass(frozen=True)
class Layout:
    """The columns of a predicate, and where they lie among those of the frame."""

    schema: spark_types.StructType
    columns: tuple[str, ...]


def metadata_of(layout: Mapping[str, Mapping[str, str]], outputs: Mapping[str, Output]) -> dict[str, Any]:
    """Return the metadata of the column that says of which predicate a row is."""
    told = {
        name: {"schema": output.schema.jsonValue(), "columns": list(layout[name].values())}
        for name, output in outputs.items()
    }
    return {KEY: json.dumps(told, ensure_ascii=False)}


def layout_of(schema: spark_types.StructType) -> dict[str, Layout] | None:
    """Return the layout of a frame of facts by predicate; None if it is none, or no longer."""
    if PREDICATE not in schema.names or KEY not in schema[PREDICATE].metadata:
        return None
    found = {}
    for name, told in json.loads(schema[PREDICATE].metadata[KEY]).items():
        own = spark_types.StructType.fromJson(told["schema"])
        columns = tuple(told["columns"])
        types = [schema[column].dataType for column in columns if column in schema.names]
        if types != [field.dataType for field in own.fields]:
            return None
        found[name] = Layout(own, columns)
    return found
