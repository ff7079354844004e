"""Columns of users' frames to ids and back, inside the executors, as the driver would read and write them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from typing import Any

import pyarrow as pa

from tidelog.engine.columnar import decode
from tidelog.engine.columnar.arrow import array_of, numbers_of
from tidelog.engine.columnar.dictionary import Dictionary
from tidelog.engine.columnar.evaluate import ColumnarEngine
from tidelog.engine.spark.compute import batch_of, local_ids, spark_ids
from tidelog.engine.spark.terms import Hashing
from tidelog.io.objects import from_python
from tidelog.logic.values import ColumnType


@dataclass(frozen=True, slots=True)
class Encoding:
    """Rows as `Reasoner.insert` reads Arrow data: a column of ids and one of texts for each."""

    types: tuple[ColumnType, ...]
    names: tuple[str | None, ...]
    hashing: Hashing

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            if not batch.num_rows:
                continue
            engine = ColumnarEngine(threads=1)
            for part in from_python(pa.Table.from_batches([batch]), self.types, self.names):
                encoded: list[tuple[str, Any]] = []
                for place, column in enumerate(part.columns):
                    ids = engine.encode_column(column)
                    identities, texts = spark_ids(engine.dictionary, ids, self.hashing)
                    encoded += [(f"c{place}", array_of(identities)), (f"t{place}", texts)]
                yield batch_of(encoded)

    @property
    def schema(self) -> str:
        """The columns of what comes out."""
        return ", ".join(f"c{place} long, t{place} string" for place in range(len(self.types)))


@dataclass(frozen=True, slots=True)
class Decoding:
    """Ids with their texts as texts of a form, `plain` or `exact`."""

    names: tuple[str, ...]
    form: str

    def __call__(self, batches: Iterable[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            dictionary = Dictionary()
            decoded = []
            for place, name in enumerate(self.names):
                identities = numbers_of(batch.column(f"c{place}"), "int64")
                ids = local_ids(dictionary, identities, batch.column(f"t{place}"))
                decoded.append((name, decode.to_texts(dictionary, ids, self.form).cast(pa.string())))
            yield batch_of(decoded)
